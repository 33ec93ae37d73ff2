"""What an update of a custom resource tolerates because it is unchanged.

Rules: k8s.io/apiextensions-apiserver (validation/ratcheting, schema/cel, registry/customresource), k8s.io/apiserver
(cel/common, CorrelatedObject), e2e crd_validation_ratcheting.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from kube_rules.errors import FieldError
from kube_standin.schema.structural import MOST_ERRORS, Structural
from tests.server.definitions import CRDS, Json, definition, fields, place, version, widget
from tests.server.inprocess import Plane, running

BAD: Json = {"type": "string", "enum": ["good"]}
RULED: Json = {"type": "string", "x-kubernetes-validations": [{"rule": "self == 'good'"}]}
NEW_RULE: Json = {"x-kubernetes-validations": [{"rule": "false"}]}


def items(of: Json, **more: Any) -> Json:
    return {"type": "array", "items": of, **more}


def keyed(of: Json, *keys: str) -> Json:
    named = {"type": "object", "properties": {**{key: {} for key in keys}, "f": of}}
    return items(named, **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)})


def found(spec: Json, new: Any, old: Any, **more: Any) -> list[str]:
    schema = Structural({"type": "object", "properties": {"spec": spec}})
    return [error.path for error in schema.validate({"spec": new}, {"spec": old}, **more)]


@pytest.mark.parametrize("bad", [BAD, RULED])
@pytest.mark.parametrize(
    ("shape", "new", "old", "paths"),
    [
        pytest.param(fields, {"a": "x", "b": "y"}, {"a": "x"}, ["spec.b"], id="field"),
        pytest.param(fields, {"a": "x"}, {"a": "y"}, ["spec.a"], id="changed field"),
        pytest.param(dict, {"a": "x", "n": "x"}, {"a": "x"}, ["spec.n"], id="map"),
        pytest.param(list, ["x", "good"], ["x"], ["spec[0]"], id="atomic list that grew"),
        pytest.param(list, ["x"], ["x"], [], id="atomic list"),
        pytest.param(set, ["x", "good"], ["x"], ["spec[0]"], id="set that grew"),
        pytest.param(set, ["x"], ["x"], [], id="set"),
        pytest.param(
            keyed,
            [{"k": "n", "f": "good"}, {"k": 2, "f": "x"}, {"k": "2", "f": "x"}],
            [{"k": 2, "f": "x"}],
            ["spec[2].f"],
            id="list by keys, moved",
        ),
        pytest.param(keyed, [{"f": "x"}, {"k": 1}], [{"f": "x"}], ["spec[0].f"], id="item without its key"),
    ],
)
def test_unchanged_value_is_tolerated_where_it_can_be_correlated(
    bad: Json, shape: Any, new: Any, old: Any, paths: list[str]
) -> None:
    spec = {
        fields: fields(a=bad, b=bad),
        dict: {"type": "object", "additionalProperties": bad},
        list: items(bad),
        set: items(bad, **{"x-kubernetes-list-type": "set"}),
        keyed: keyed(bad, "k"),
    }[shape]
    schema = Structural({"type": "object", "properties": {"spec": spec}})
    # Rules name entries of maps by their key, in brackets.
    all_of_them = {_dotted(error.path) for error in schema.validate({"spec": new})}
    assert all_of_them >= {*paths}, "a create tolerates nothing"
    assert [_dotted(path) for path in found(spec, new, old) if path != "<nil>"] == paths


def _dotted(path: str) -> str:
    return re.sub(r"\[([a-z]+)\]", r".\1", path)


@pytest.mark.parametrize(
    ("keyword", "value"),
    [
        ({"required": ["c"]}, {"a": 1}),
        ({"minProperties": 2}, {"a": 1}),
        ({"maxProperties": 0}, {"a": 1}),
        ({"not": {"required": ["a"]}}, {"a": 1}),
        ({"anyOf": [{"required": ["c"]}]}, {"a": 1}),
        (NEW_RULE, {"a": 1}),
    ],
)
def test_error_of_an_object_is_tolerated_while_all_of_it_is_unchanged(keyword: Json, value: Json) -> None:
    spec = {**fields(a={"type": "integer"}, b={"type": "integer"}), **keyword}
    assert found(spec, value, value) == []
    assert found(spec, value, {**value, "b": 1}) != []
    assert found(spec, {"a": 2}, value) != []


def test_error_of_a_wrong_type_is_tolerated_too() -> None:
    assert found(fields(a={"type": "string"}), {"a": 1}, {"a": 1}) == []
    assert found(fields(a={"type": "string"}), {"a": 1}, {"a": 1.0}) == ["spec.a"]
    assert found(fields(a={"type": "string"}), {"a": 1}, {"a": True}) == ["spec.a"]


def test_list_by_keys_is_unchanged_in_another_order() -> None:
    spec = {**keyed({"type": "string"}, "k", "l"), "maxItems": 1}
    first, second = {"k": 1, "l": "a", "f": "x"}, {"k": 1, "l": "b", "f": "y"}
    assert found(spec, [second, first], [first, second]) == []
    assert found(spec, [second, {**first, "f": "z"}], [first, second]) == ["spec"]
    assert found({**items({}), "maxItems": 1}, [2, 1], [1, 2]) == ["spec"], "atomic"


def test_subschemas_of_junctors_correlate_nothing_inside() -> None:
    spec = {**fields(a={"type": "string"}, b={"type": "string"}), "allOf": [{"properties": {"a": BAD}}]}
    assert found(spec, {"a": "x", "b": "1"}, {"a": "x", "b": "1"}) == []
    assert found(spec, {"a": "x", "b": "2"}, {"a": "x", "b": "1"}) == ["spec.a"]


def test_undeclared_fields_make_an_object_changed() -> None:
    spec = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "maxProperties": 1}
    assert found(spec, {"a": 1, "b": 2}, {"a": 1, "b": 2}) == ["spec"]


def test_resource_itself_is_never_unchanged() -> None:
    meta = {"apiVersion": {"type": "string"}, "kind": BAD, "metadata": {"type": "object"}}
    schema = Structural({"type": "object", "properties": {**meta, "spec": {}}, "required": ["spec"], **NEW_RULE})
    obj = {"apiVersion": "a/v1", "kind": "K", "metadata": {"name": "n"}}
    assert [error.path for error in schema.validate(obj, obj)] == ["spec", "kind", "<nil>"]
    ruled = Structural({"type": "object", "properties": {"kind": RULED}, **NEW_RULE})
    assert [error.path for error in ruled.validate(obj, obj)] == ["<nil>", "kind"]


def test_items_of_an_unchanged_atomic_list_are_tolerated_whatever_their_number() -> None:
    values = ["x"] * (2 * MOST_ERRORS)
    assert found(fields(l=items(BAD), z=BAD), {"l": values, "z": "y"}, {"l": values, "z": "z"}) == ["spec.z"]


def test_duplicates_are_tolerated_if_the_object_had_any() -> None:
    spec = fields(s=items({}, **{"x-kubernetes-list-type": "set"}), m=keyed({}, "k"))
    twice = [{"k": 1}, {"k": 1}]
    assert found(spec, {"s": [1, 1]}, {"s": [1]}) == ["spec.s[1]"]
    assert found(spec, {"s": [1, 1], "m": twice}, {"s": [2, 2]}) == []
    assert found(spec, {"m": twice, "s": [1]}, {"s": [1]}) == ["spec.m[1]"]


@pytest.mark.parametrize("rule", ["self == oldSelf && self == 'good'", "oldSelf.hasValue() && self == 'good'"])
def test_transition_rule_is_never_tolerated(rule: str) -> None:
    text = {"type": "string"}
    ruled = {**text, "x-kubernetes-validations": [{"rule": rule, "optionalOldSelf": "hasValue" in rule}]}
    assert found(fields(a=ruled), {"a": "x"}, {"a": "x"}) == ["spec.a"]


def test_rule_that_fails_to_run_is_not_tolerated() -> None:
    ruled = {"type": "string", "x-kubernetes-validations": [{"rule": "int(self) == 1"}]}
    assert found(fields(a=ruled), {"a": "x"}, {"a": "x"}) == ["spec.a"]


def test_tolerated_rules_are_named() -> None:
    tolerated: list[FieldError] = []
    assert found(fields(a=RULED), {"a": "x"}, {"a": "x"}, tolerated=tolerated) == []
    assert [(one.path, one.message) for one in tolerated] == [
        ("spec.a", "Invalid value: failed rule: self == 'good'"),
    ]


@pytest.fixture
def plane() -> Iterator[Plane]:
    with running() as made:
        yield made


def redefine(plane: Plane, **properties: Json) -> None:
    versions = [version(schema=fields(**properties), subresources={"status": {}})]
    merge = {"content_type": "application/merge-patch+json"}
    name = definition()["metadata"]["name"]
    answer = plane.ask(f"PATCH {CRDS}/{name}", {"spec": {"versions": versions}}, **merge)
    assert answer.status == 200, answer.body


@pytest.mark.parametrize("bad", [BAD, RULED])
def test_every_write_of_an_older_object_goes_on(plane: Plane, bad: Json) -> None:
    text, merge = {"type": "string"}, "application/merge-patch+json"
    plane.create(CRDS, definition(version(subresources={"status": {}})))
    redefine(plane, spec=fields(a=text, b=text), status=fields(c=text, d=text))
    made = plane.create(place(), widget("w", spec={"a": "x"}))
    state = f"{place('w')}/status"
    assert plane.ask(f"PATCH {state}", {"status": {"c": "x"}}, content_type=merge).status == 200
    redefine(plane, spec=fields(a=bad, b=text), status=fields(c=bad, d=text))
    whole = plane.ask(f"GET {place('w')}").json
    whole["spec"]["b"] = "1"
    applied = widget("w", spec={"a": "x", "b": "2"})
    apply = {"content_type": "application/apply-patch+yaml"}
    for answer in (
        plane.ask(f"PUT {place('w')}", whole),
        plane.ask(f"PATCH {place('w')}", {"metadata": {"labels": {"l": "1"}}}, content_type=merge),
        plane.ask(f"PATCH {place('w')}?fieldManager=m&force=true", applied, **apply),
        plane.ask(f"PATCH {state}", {"status": {"d": "1"}}, content_type=merge),
    ):
        assert answer.status == 200, answer.body
    assert made["metadata"]["uid"] == answer.json["metadata"]["uid"]
    refused = plane.ask(f"PATCH {place('w')}", {"spec": {"a": "y"}}, content_type=merge)
    assert [cause["field"] for cause in refused.json["details"]["causes"]] == ["spec.a"]
    refused = plane.ask(f"PATCH {state}", {"status": {"c": "y"}}, content_type=merge)
    assert refused.status == 422
    assert refused.json["details"]["causes"][0]["field"] == "status.c"
    assert plane.ask(f"POST {place()}", widget("v", spec={"a": "x"})).status == 422


def test_tolerated_rule_is_a_warning(plane: Plane) -> None:
    plane.create(CRDS, definition(version(schema=fields(spec=fields(a={"type": "string"})))))
    plane.create(place(), widget("w", spec={"a": "x"}))
    redefine(plane, spec=fields(a=RULED))
    answer = plane.ask(
        f"PATCH {place('w')}", {"metadata": {"labels": {"l": "1"}}}, content_type="application/merge-patch+json"
    )
    assert answer.status == 200, answer.body
    assert "spec.a: Invalid value: " in str(answer.headers)


def test_status_is_written_though_the_rest_became_invalid(plane: Plane) -> None:
    plane.create(CRDS, definition(version(subresources={"status": {}})))
    plane.create(place(), widget("w", spec={"a": "x"}))
    versions = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "required": ["later"]}
    schema = {**fields(spec=versions, status=fields(c={"type": "string", "minLength": 2})), "required": ["other"]}
    merge = {"content_type": "application/merge-patch+json"}
    body = {"spec": {"versions": [version(schema=schema, subresources={"status": {}})]}}
    assert plane.ask(f"PATCH {CRDS}/{definition()['metadata']['name']}", body, **merge).status == 200
    assert plane.ask(f"PATCH {place('w')}", {"metadata": {"labels": {"l": "1"}}}, **merge).status == 422
    assert plane.ask(f"PATCH {place('w')}/status", {"status": {"c": "ok"}}, **merge).status == 200
    refused = plane.ask(f"PATCH {place('w')}/status", {"status": {"c": "n"}}, **merge).json["details"]["causes"]
    assert [(one["field"], one["message"]) for one in refused] == [
        ("status.c", 'Invalid value: "n": c in body should be at least 2 chars long')
    ]
