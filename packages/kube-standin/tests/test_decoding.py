"""How a body becomes an object: its kind, its fields, what is refused (api.md 2 and 5; kube-apiserver 1.36)."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kube_standin.decoder import Decoder
from kube_standin.errors import StatusError
from kube_standin.kinds import KindTable, ServedKind
from kube_standin.schema.strict_json import RepeatedFields
from tests.recorded.shapes import custom_kind, shape
from tests.refused import message_of

Json = dict[str, Any]


DECODER = Decoder(KindTable())
MAP = shape("v1", "ConfigMap")
REGISTERED = 'in scheme "k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30"'


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"apiVersion": "v1", "kind": "Made"}, f'no kind "Made" is registered for version "v1" {REGISTERED}'),
        ({"apiVersion": "x/v2", "kind": "Made"}, f'no kind "Made" is registered for version "x/v2" {REGISTERED}'),
        ({"apiVersion": "v1", "kind": "Pod"}, "converting (v1.Pod) to (core.ConfigMap): unknown conversion"),
        ({"kind": "Pod"}, "converting (v1.Pod) to (core.ConfigMap): unknown conversion"),
        ({"apiVersion": "apps/v1", "kind": "Deployment"},
         "converting (v1.Deployment) to (core.ConfigMap): unknown conversion"),
        ({"apiVersion": "x/v3"}, "converting (v3.ConfigMap) to (core.ConfigMap): unknown conversion"),
    ],
)  # fmt: skip
def test_body_of_another_kind_is_refused(body: Json, why: str) -> None:
    version = (body.get("apiVersion") or "v1").rpartition("/")[2]
    kind = body.get("kind") or "ConfigMap"
    code, message = message_of(DECODER.decode, MAP, dict(body), "Ignore", [])
    assert (code, message) == (400, f'{kind} in version "{version}" cannot be handled as a ConfigMap: {why}')


def test_kinds_of_groups_are_named_by_the_first_word_of_the_group() -> None:
    kind = shape("scheduling.k8s.io/v1beta1", "PodGroup")
    _, message = message_of(DECODER.decode, kind, {"apiVersion": "v1", "kind": "Pod"}, "Ignore", [])
    assert message.endswith("converting (v1.Pod) to (scheduling.PodGroup): unknown conversion")


@pytest.mark.parametrize("body", [{"apiVersion": 7}, {"kind": 7}, {"apiVersion": ["v1"], "kind": "ConfigMap"}])
def test_version_and_kind_are_words(body: Json) -> None:
    assert message_of(DECODER.decode, MAP, body, "Ignore", []) == (400, "kind and apiVersion must be strings")


@pytest.mark.parametrize("given", [{}, {"apiVersion": ""}, {"apiVersion": "v1", "kind": "ConfigMap"}, {"kind": None}])
def test_body_without_version_and_kind_has_those_of_its_path(given: Json) -> None:
    found = DECODER.decode(MAP, {**given, "data": {"a": "b"}}, "Strict", [])
    assert found == {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}


@pytest.mark.parametrize("number", [1, 100, 101])
@pytest.mark.parametrize("given", [[], ['duplicate field "data"']])
def test_unknown_and_repeated_fields_are_ignored_warned_of_or_refused(number: int, given: list[str]) -> None:
    """A hundred are named. Without any nothing is."""
    repeated_fields = RepeatedFields(given)
    body = {f"x{index:03}": 1 for index in range(number)}
    texts = [*given, *(f'unknown field "{name}"' for name in body)][:100]
    warnings: list[str] = []
    assert set(DECODER.decode(MAP, dict(body), "Ignore", warnings, repeated_fields)) == {"apiVersion", "kind"}
    assert warnings == []
    DECODER.decode(MAP, dict(body), "Warn", warnings, repeated_fields)
    assert warnings == texts
    code, message = message_of(DECODER.decode, MAP, dict(body), "Strict", [], repeated_fields)
    whole = f'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: {", ".join(texts)}'
    assert (code, message[:200]) == (400, whole[:200])
    if repeated_fields:
        DECODER.decode(MAP, {}, "Warn", warnings := [], repeated_fields)
        assert warnings == given
        assert message_of(DECODER.decode, MAP, {}, "Strict", [], repeated_fields)[0] == 400


@pytest.mark.parametrize(("name", "named"), [({"metadata": {"name": "c"}}, "c"), ({}, ""), ({"metadata": None}, "")])
def test_priority_class_states_its_value(name: Json, named: str) -> None:
    """Clients in typed languages always send it; a manifest without it is refused by kubectl's validation."""
    kind = shape("scheduling.k8s.io/v1", "PriorityClass")
    warnings: list[str] = []
    DECODER.decode(kind, dict(name), "Warn", warnings)
    assert warnings == ["value: Required value (it is taken as 0)"]
    DECODER.decode(kind, dict(name), "Ignore", warnings)
    assert len(warnings) == 1
    code, message = message_of(DECODER.decode, kind, dict(name), "Strict", [])
    expected = f'PriorityClass.scheduling.k8s.io "{named}" is invalid: value: Required value'
    assert (code, message) == (422, expected)
    for value in (0, 5):
        assert DECODER.decode(kind, {**name, "value": value}, "Strict", warnings)["value"] == value
    DECODER.decode(MAP, {}, "Strict", warnings)
    assert len(warnings) == 1


def test_patch_that_does_not_fit_quotes_the_object() -> None:
    """Four thousand characters of it; quotes and backslashes are escaped once more."""
    code, message = message_of(DECODER.patched, MAP, {"data": {"a": 7, "b": 'x"\\'}}, "Ignore", [])
    assert code == 422
    assert message.startswith(
        ' "" is invalid: patch: Invalid value: "{\\"data\\":{\\"a\\":7,\\"b\\":\\"x\\\\\\"\\\\\\\\'
    )
    with pytest.raises(StatusError) as refused:
        DECODER.patched(MAP, {"data": {"a": 7, "b": "y" * 5000}}, "Ignore", [])
    quoted = '{"data":{"a":7,"b":"' + "y" * 5000
    assert quoted[:4096].replace('"', '\\"') + '": json: ' in refused.value.causes[0].message
    assert refused.value.causes[0].reason == "FieldValueInvalid"


def test_decoding_copies_the_input() -> None:
    """Defaults are filled into an object of its own."""
    sent: Json = {"metadata": {"name": "e"}, "reason": "R"}
    before = copy.deepcopy(sent)
    found = DECODER.patched(shape("v1", "Event"), sent, "Ignore", [])
    assert sent == before
    assert (found["source"], found["involvedObject"], found["eventTime"]) == ({}, {}, None)
    other = DECODER.patched(shape("events.k8s.io/v1", "Event"), {"metadata": {"name": "e"}}, "Ignore", [])
    assert "involvedObject" not in other


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "invalid object type: /, Kind="),
        ({"apiVersion": "apps/v1"}, "invalid object type: apps/v1, Kind="),
        ({"kind": "Pod"}, "invalid object type: /, Kind=Pod"),
        ({"apiVersion": None, "kind": None}, "invalid object type: /, Kind="),
        ({"apiVersion": "v1", "kind": "Pod"}, "incorrect kind or version: v1, Kind=Pod, expected v1, Kind=ConfigMap"),
        ({"apiVersion": "v2", "kind": "ConfigMap"},
         "incorrect kind or version: v2, Kind=ConfigMap, expected v1, Kind=ConfigMap"),
    ],
)  # fmt: skip
def test_apply_states_version_and_kind(body: Json, message: str) -> None:
    assert message_of(DECODER.check_applied, MAP, body) == (400, message)
    DECODER.check_applied(MAP, {"apiVersion": "v1", "kind": "ConfigMap"})


def test_bodies_that_are_no_objects_of_their_own() -> None:
    """Whatever version they name; unknown fields of them are left out."""
    found = Decoder.side_body("policy/v1", "Eviction", {"apiVersion": "policy/v1beta1", "kind": "X", "more": 1})
    assert (found["apiVersion"], found["kind"], "more" in found) == ("policy/v1", "Eviction", False)
    code, message = message_of(Decoder.side_body, "policy/v1", "Eviction", {"metadata": 7})
    assert code == 400
    assert message.startswith('Eviction in version "v1" cannot be handled as a Eviction: ')


def test_schemas_of_custom_kinds_are_compiled_once_for_a_definition() -> None:
    table = KindTable()
    decoder = Decoder(table)

    def gang(definition: Json | None) -> ServedKind:
        kind = custom_kind("g", "v1", "Gang", definition=definition)
        table.add(kind)
        return kind

    size = {
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"size": {"type": "integer", "default": 3}}}}
    }
    first = gang(size)
    schema = decoder.schema(first)
    assert decoder.schema(first) is schema
    assert decoder.schema(gang(size)) is schema
    changed = gang(copy.deepcopy(size))
    assert decoder.schema(changed) is not schema
    assert decoder.decode(changed, {}, "Strict", [])["size"] == 3
    empty: list[Json | None] = [None, {}, {"schema": {}}, {"schema": None}]
    for bare in empty:
        found = decoder.decode(gang(bare), {"metadata": {}, "size": 1}, "Ignore", [])
        assert "size" not in found
