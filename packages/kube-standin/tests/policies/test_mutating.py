"""Mutating policies as clients see them (interfaces.md 6.10, 6.13)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kube_standin import evaluation
from tests.policies.policy_objects import (
    API,
    DEPLOYMENTS,
    MAPS,
    MERGE,
    MUTATING,
    check,
    config_map,
    created,
    deployment,
    mutate,
    policy,
    rule,
    validate,
)
from tests.server.definitions import definition, fields, version
from tests.server.inprocess import Plane

Json = dict[str, Any]


@pytest.fixture
def plane() -> Iterator[Plane]:
    """A control plane."""
    found = Plane()
    yield found
    found.close()


def apply(expression: str) -> Json:
    """A mutation by a configuration."""
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def patch(expression: str) -> Json:
    """A mutation by a JSON patch."""
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


def data(key: str, value: str) -> Json:
    """A mutation that sets a key of a ConfigMap; `value` is an expression."""
    return patch(f"[JSONPatch{{op: 'add', path: '/data/{key}', value: {value}}}]")


def test_configuration_is_merged_in(plane: Plane) -> None:
    sidecar = """Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{
        containers: [Object.spec.template.spec.containers{name: 'proxy', image: 'proxy:1'}]}}},
        metadata: Object.metadata{annotations: {'mutated-by': 'policy'}}}"""
    mutate(plane, "sidecar", rule("deployments"), mutations=[apply(sidecar)])
    found = created(plane, DEPLOYMENTS, deployment("d", 2))
    containers = found["spec"]["template"]["spec"]["containers"]
    assert {one["name"]: one["image"] for one in containers} == {"main": "nginx", "proxy": "proxy:1"}
    # Defaults follow.
    assert all(one["imagePullPolicy"] for one in containers)
    assert found["metadata"]["annotations"] == {"mutated-by": "policy"}
    assert found["spec"]["replicas"] == 2


def test_patch_is_made_by_an_expression(plane: Plane) -> None:
    text = """(has(object.metadata.labels) ? [] : [JSONPatch{op: 'add', path: '/metadata/labels', value: {}}]) +
        [JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('example.com/a'), value: object.data.x},
         JSONPatch{op: 'copy', from: '/data/x', path: '/data/y'}]"""
    mutate(plane, "p", rule("configmaps"), mutations=[patch(text)])
    found = created(plane, MAPS, config_map("m", x="1"))
    assert (found["metadata"]["labels"], found["data"]) == ({"example.com/a": "1"}, {"x": "1", "y": "1"})


def test_mutations_see_what_those_before_them_made(plane: Plane) -> None:
    mutate(plane, "a", rule("configmaps"), mutations=[data("x", "'1'"), data("y", "object.data.x + '2'")])
    mutate(plane, "b", rule("configmaps"), mutations=[data("z", "object.data.y + '3'")])
    assert created(plane, MAPS, config_map("m", o="0"))["data"] == {"o": "0", "x": "1", "y": "12", "z": "123"}


@pytest.mark.parametrize(("reinvocation", "seen"), [("Never", "1"), ("IfNeeded", "3")])
def test_policy_is_evaluated_again_where_one_after_it_changed_the_object(
    plane: Plane, reinvocation: str, seen: str
) -> None:
    counted = [data("n", "string(object.data.size())")]
    mutate(plane, "a", rule("configmaps"), reinvocationPolicy=reinvocation, mutations=counted)
    mutate(plane, "b", rule("configmaps"), mutations=[data("later", "'x'")])
    found = created(plane, MAPS, config_map("m", o="0"))["data"]
    assert (found["later"], found["n"]) == ("x", seen)


def test_variables_parameters_and_conditions(plane: Plane) -> None:
    created(plane, MAPS, config_map("teams", team="blue"))
    mutate(
        plane,
        "p",
        rule("deployments", "CREATE"),
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        variables=[{"name": "team", "expression": "params.data.team + '-' + request.operation.lowerAscii()"}],
        matchConditions=[{"name": "unlabelled", "expression": "!has(object.metadata.labels)"}],
        mutations=[apply("Object{metadata: Object.metadata{labels: {'team': variables.team}}}")],
        bound={"paramRef": {"name": "teams", "parameterNotFoundAction": "Deny"}},
    )
    assert created(plane, DEPLOYMENTS, deployment("d"))["metadata"]["labels"] == {"team": "blue-create"}
    body = deployment("e")
    body["metadata"]["labels"] = {"team": "red"}
    assert created(plane, DEPLOYMENTS, body)["metadata"]["labels"] == {"team": "red"}


def test_validating_policies_see_what_mutating_ones_made(plane: Plane) -> None:
    mutate(plane, "p", rule("configmaps"), mutations=[data("x", "'1'")])
    validate(plane, "v", rule("configmaps"), validations=check("object.data.x == '1'"))
    created(plane, MAPS, config_map("m", o="0"))


def test_updates_and_dry_runs_are_changed_too(plane: Plane) -> None:
    created(plane, MAPS, config_map("m", o="0"))
    mutate(plane, "p", rule("configmaps", "UPDATE"), mutations=[data("x", "oldObject.data.o")])
    answer = plane.ask(f"PATCH {MAPS}/m?dryRun=All", {"data": {"o": "1"}}, content_type=MERGE)
    assert answer.json["data"] == {"o": "1", "x": "0"}
    assert plane.ask(f"GET {MAPS}/m").json["data"] == {"o": "0"}


@pytest.mark.parametrize(
    ("mutation", "said"),
    [
        (patch("[JSONPatch{op: 'remove', path: '/data/nowhere'}]"), "JSON Patch: "),
        (patch("[JSONPatch{op: 'add', path: '/data/x', value: object.nowhere}]"), "no such key: nowhere"),
        (apply("Object{data: Object.other{x: '1'}}"), 'unexpected type name "Object.other", expected "Object.data"'),
        (apply("Object{nowhere: '1'}"), ".nowhere: field not declared in schema"),
        (apply("Object{immutable: 'yes'}"), "error applying patch"),
    ],
)
def test_mutation_that_fails_denies(plane: Plane, mutation: Json, said: str) -> None:
    mutate(plane, "p", rule("configmaps"), mutations=[mutation])
    answer = plane.ask(f"POST {MAPS}", config_map("m", o="0"))
    code, reason, message = answer.refusal
    assert (code, reason) == (403, "Invalid")
    assert message.startswith("policy 'p' with binding 'p' denied request: ")
    assert said in message
    plane.ask(f"PATCH {MUTATING}/p", {"spec": {"failurePolicy": "Ignore"}}, content_type=MERGE)
    assert created(plane, MAPS, config_map("m", o="0"))["data"] == {"o": "0"}


@pytest.mark.parametrize(
    ("patch", "created_as", "updated_as"),
    [
        ("op: 'replace', path: '/metadata/namespace', value: 'kube-system'", (400, ""), (400, "")),
        ("op: 'remove', path: '/metadata/namespace'", (201, "m"), (200, "m")),
        ("op: 'remove', path: '/metadata'", (422, ""), (422, "")),
        ("op: 'replace', path: '/metadata/name', value: 'o'", (201, "o"), (422, "")),
        ("op: 'replace', path: '/metadata', value: {'name': 'm'}", (201, "m"), (200, "m")),
    ],
)
def test_object_stays_in_its_place(
    plane: Plane, patch: str, created_as: tuple[int, str], updated_as: tuple[int, str]
) -> None:
    """interfaces.md 6.3: what a policy makes of the metadata neither moves an object nor breaks the write."""
    kept = created(plane, MAPS, config_map("m", before="1"))["metadata"]
    change = {"patchType": "JSONPatch", "jsonPatch": {"expression": f"[JSONPatch{{{patch}}}]"}}
    mutate(plane, "p", rule("configmaps"), mutations=[change])
    answer = plane.ask(f"PUT {MAPS}/m", config_map("m", after="1"))
    assert answer.status == updated_as[0], answer.json
    if answer.status == 200:
        assert answer.json["metadata"]["uid"] == kept["uid"]
    plane.ask(f"DELETE {MAPS}/m")
    answer = plane.ask(f"POST {MAPS}", config_map("m"))
    assert (answer.status, answer.json["metadata"].get("name", "")) == created_as, answer.json
    assert [item["metadata"]["namespace"] for item in plane.ask("GET /api/v1/configmaps").json["items"]] == [
        "default" for _ in range(answer.status == 201)
    ]


def test_all_mutations_of_a_write_have_one_budget(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    """interfaces.md 6.10: so many policies, bindings and parameters make a write no slower."""
    monkeypatch.setattr(evaluation, "REQUEST_LIMIT", 4 * evaluation.INLINE_COST)
    costly = "lists.range(120).all(a, lists.range(120).all(b, a + b >= 0)) ? Object{} : Object{}"
    for name in ("a", "b", "c"):
        change = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": costly}}
        mutate(plane, name, rule("configmaps"), mutations=[change])
        answer = plane.ask(f"POST {MAPS}", config_map(name))
        if answer.status != 201:
            break
    assert (name, answer.status) != ("a", 403)
    assert answer.refusal[2].endswith("no further validation rules will be run")


def test_atomic_lists_are_not_merged(plane: Plane) -> None:
    text = """Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{
        tolerations: [Object.spec.template.spec.tolerations{key: 'a'}]}}}}"""
    mutate(plane, "p", rule("deployments"), mutations=[apply(text)])
    said = "may not mutate atomic arrays, maps or structs: .spec.template.spec.tolerations"
    assert said in plane.ask(f"POST {DEPLOYMENTS}", deployment("d")).refusal[2]


def test_test_that_does_not_hold_changes_nothing(plane: Plane) -> None:
    text = "[JSONPatch{op: 'test', path: '/data/o', value: '1'}, JSONPatch{op: 'add', path: '/data/x', value: '1'}]"
    mutate(plane, "p", rule("configmaps"), mutations=[patch(text)])
    assert created(plane, MAPS, config_map("m", o="0"))["data"] == {"o": "0"}
    assert created(plane, MAPS, config_map("n", o="1"))["data"] == {"o": "1", "x": "1"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"mutations": []}, "spec.mutations: Required value: mutations must contain at least one item"),
        ({"mutations": [{"patchType": ""}]}, "spec.mutations[0].patchType: Required value"),
        ({"mutations": [{"patchType": "Merge"}]}, 'Unsupported value: "Merge"'),
        ({"mutations": [{"patchType": "JSONPatch"}]}, "spec.mutations[0].jsonPatch: Required value"),
        ({"mutations": [patch("['a']")]}, "must evaluate to one of [list(JSONPatch) list(dyn)] but got list(string)"),
        ({"mutations": [patch("[JSONPatch{op: 1}]")]}, "expected type of field 'op' is 'string' but provided type is"),
        ({"mutations": [patch("[JSONPatch{when: 1}]")]}, "undefined field 'when'"),
        ({"mutations": [apply("{'a': 'b'}")]}, "must evaluate to Object but got map(string, string)"),
        ({"mutations": [apply("Thing{a: 'b'}")]}, "undeclared reference to 'Thing'"),
        ({"mutations": [apply("Object{}")], "reinvocationPolicy": ""}, "spec.reinvocationPolicy: Required value"),
        ({"mutations": [apply("Object{}")], "operations": "DELETE"}, 'Unsupported value: "DELETE"'),
    ],
)
def test_policy_that_cannot_work_is_refused(plane: Plane, change: Json, said: str) -> None:
    spec = {"reinvocationPolicy": "Never", **change}
    body = policy("p", rule("configmaps", spec.pop("operations", "CREATE")), **spec)
    assert said in plane.ask(f"POST {MUTATING}", body).refusal[2]


def test_what_cannot_occur_is_matched_by_nothing(plane: Plane) -> None:
    """CONNECT: an operation that a policy may name."""
    mutate(plane, "p", rule("pods/exec", "CONNECT"), mutations=[data("x", "'1'")])
    assert created(plane, MAPS, config_map("m", o="0"))["data"] == {"o": "0"}


def test_scale_is_changed_as_what_is_sent(plane: Plane) -> None:
    created(plane, DEPLOYMENTS, deployment("d"))
    most = "[JSONPatch{op: 'replace', path: '/spec/replicas', value: 3}]"
    mutate(
        plane,
        "p",
        rule("deployments/scale"),
        matchConditions=[{"name": "large", "expression": "object.spec.replicas > 3"}],
        mutations=[patch(most)],
    )
    for asked, got in ((2, 2), (9, 3)):
        plane.ask(f"PATCH {DEPLOYMENTS}/d/scale", {"spec": {"replicas": asked}}, content_type=MERGE)
        assert plane.ask(f"GET {DEPLOYMENTS}/d").json["spec"]["replicas"] == got


def test_custom_resources_are_changed_by_their_schema(plane: Plane) -> None:
    spec = fields(items={"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"})
    body = definition(version(schema=fields(spec=spec)))
    created(plane, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)
    group, plural, kind = (body["spec"]["group"], body["spec"]["names"]["plural"], body["spec"]["names"]["kind"])
    mutate(plane, "p", rule(plural), mutations=[apply("Object{spec: Object.spec{items: ['b']}}")])
    path = f"/apis/{group}/v1/namespaces/default/{plural}"
    found = created(plane, path, {"kind": kind, "metadata": {"name": "x"}, "spec": {"items": ["a"]}})
    assert found["spec"]["items"] == ["a", "b"]


def test_policies_are_listed_with_what_they_have(plane: Plane) -> None:
    mutate(plane, "m", rule("configmaps"), mutations=[data("x", "'1'")], bound={"paramRef": {"name": "a"}})
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    validate(plane, "v", rule("pods"), paramKind=kind, validations=check("true"), bound={"paramRef": {"selector": {}}})
    rows = {
        "mutatingadmissionpolicies": ["m", 1, "<unset>"],
        "mutatingadmissionpolicybindings": ["m", "m", "*/a"],
        "validatingadmissionpolicies": ["v", 1, "v1/ConfigMap"],
        "validatingadmissionpolicybindings": ["v", "v", "*"],
    }
    for plural, cells in rows.items():
        table = plane.ask(f"GET {API}/{plural}", accept="application/json;as=Table;g=meta.k8s.io;v=v1").json
        assert [row["cells"][:3] for row in table["rows"]] == [cells]
