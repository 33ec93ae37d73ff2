"""The stored form of values of every type, by the quick walk and the thorough one, and what is added to it.

Rule: kube-apiserver decodes into Go structs and writes them out again: null in a list or map is the zero of its type,
optional empty lists and maps are left out, required fields are always there.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kube_rules.schema import nodes
from kube_rules.schema.decoding import IrregularError, PathWalk, compiled
from kube_rules.schema.nodes import SchemaNode, SchemaType
from kube_rules.schema.packed_schemas import PackedSchemas
from kube_standin.schema import schema_for
from kube_standin.schema.required_fields import completer

Json = dict[str, Any]


def node(kind: SchemaType, go: str = "", **more: Any) -> SchemaNode:
    return SchemaNode(kind, go or kind.value, **more)


STRING, INT32 = node(SchemaType.STRING, "string"), node(SchemaType.INTEGER, "int32")
INT64 = node(SchemaType.INTEGER, "int64")
BOOL = node(SchemaType.BOOLEAN, "bool")
SCALARS = {
    "string": STRING,
    "int32": INT32,
    "int64": INT64,
    "bool": BOOL,
    "number": node(SchemaType.NUMBER, "float64"),
    "bytes": node(SchemaType.BYTES, "[]uint8"),
    "quantity": node(SchemaType.QUANTITY, "resource.Quantity"),
    "either": node(SchemaType.INT_OR_STRING, "intstr.IntOrString"),
    "time": node(SchemaType.TIME, "v1.Time"),
    "micro": node(SchemaType.MICRO_TIME, "v1.MicroTime"),
    "any": node(SchemaType.ANY, "any"),
    "object": node(SchemaType.ANY_OBJECT, "object"),
}


def walked(place: SchemaNode, value: Any) -> tuple[Any, list[str]]:
    """What the thorough walk makes of a value, and what it says; the quick one agrees or leaves it alone."""
    before = copy.deepcopy(value)
    walk = PathWalk({})
    found = walk.walk(place, value, "f", "f", "T")
    said = [problem.message for problem in walk.problems] + [field.message for field in walk.unknown]
    try:
        quick = compiled(place, {})(value)
    except IrregularError:
        pass
    else:
        assert (quick, said) == (found, [])
    assert value == before
    return found, said


@pytest.mark.parametrize(
    ("kind", "value", "stored"),
    [
        ("int32", 2**31 - 1, 2**31 - 1),
        ("int32", -(2**31), -(2**31)),
        ("int64", 2**63 - 1, 2**63 - 1),
        ("int64", -(2**63), -(2**63)),
        ("either", 2**31 - 1, 2**31 - 1),
        ("either", -(2**31), -(2**31)),
        ("either", "25%", "25%"),
        ("number", 1, 1),
        ("number", 1.5, 1.5),
        ("bytes", "YQ==", "YQ=="),
        ("quantity", "0.5", "500m"),
        ("quantity", 1024, "1024"),
        ("quantity", 0.5, "500m"),
        ("time", "2026-01-01T02:00:00+02:00", "2026-01-01T00:00:00Z"),
        ("micro", "2026-01-01T02:00:00.000001+02:00", "2026-01-01T00:00:00.000001Z"),
        ("any", [None], [None]),
        ("object", {"a": None}, {"a": None}),
    ],
)
def test_scalars(kind: str, value: Any, stored: Any) -> None:
    assert walked(SCALARS[kind], value) == (stored, [])


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        ("int32", 2**31, "number 2147483648 into Go struct field T.f of type int32"),
        ("int32", -(2**31) - 1, "number -2147483649 into"),
        ("int64", 2**63, "number 9223372036854775808 into"),
        ("int64", -(2**63) - 1, "number -9223372036854775809 into"),
        ("int64", 1.0, "number 1.0 into"),
        ("int64", True, "bool into"),
        ("either", 2**31, "number 2147483648 into Go struct field T.f of type int32"),
        ("either", -(2**31) - 1, "number -2147483649 into"),
        ("either", 1.5, "number 1.5 into"),
        ("either", True, "bool into"),
        ("number", "1", "string into"),
        ("number", True, "bool into"),
        ("string", 1, "number into"),
        ("string", [], "array into"),
        ("string", {}, "object into"),
        ("bool", 1, "number into"),
        ("bytes", "a", "illegal base64 data"),
        ("bytes", 1, "number into"),
        ("time", "x", 'parsing time "x"'),
        ("time", 5, "number into"),
        ("micro", "2026-01-01T00:00:00Z", "parsing time"),
        ("quantity", "1x", "quantities must match the regular expression"),
        ("quantity", True, "quantities must match the regular expression"),
        ("quantity", [], "quantities must match the regular expression"),
        ("object", [], "array into"),
    ],
)
def test_scalars_of_another_type(kind: str, value: Any, said: str) -> None:
    found, messages = walked(SCALARS[kind], value)
    assert found is None
    assert len(messages) == 1
    assert said in messages[0]


def test_number_that_is_no_amount_is_told() -> None:
    message = walked(SCALARS["quantity"], float("inf"))[1][0]
    assert message.endswith("$': inf")
    assert not walked(SCALARS["quantity"], True)[1][0].endswith("True")


ZEROS = {
    "string": "",
    "int32": 0,
    "number": 0,
    "bool": False,
    "bytes": "",
    "quantity": "0",
    "either": 0,
    "object": {},
}


@pytest.mark.parametrize("kind", ZEROS)
def test_null_in_a_list_or_map_is_the_zero_of_its_type(kind: str) -> None:
    made = walked(node(SchemaType.LIST, element=SCALARS[kind]), [None])
    assert made == ([ZEROS[kind]], [])
    assert type(made[0][0]) is type(ZEROS[kind])
    assert walked(node(SchemaType.MAP, element=SCALARS[kind]), {"a": None}) == ({"a": ZEROS[kind]}, [])


@pytest.mark.parametrize("kind", ["any", "time", "micro"])
def test_null_stays_where_the_type_has_no_zero(kind: str) -> None:
    assert walked(node(SchemaType.LIST, element=SCALARS[kind]), [None]) == ([None], [])


@pytest.mark.parametrize(("kind", "zero"), [(SchemaType.STRUCT, {}), (SchemaType.MAP, {}), (SchemaType.LIST, [])])
def test_null_beside_others(kind: SchemaType, zero: Any) -> None:
    """Of structures too; what stands behind it is read."""
    element = node(kind, element=STRING)
    value: Any = [{}, None, {}] if kind is not SchemaType.LIST else [[], None, ["a"]]
    assert walked(node(SchemaType.LIST, element=element), value)[0] == [zero if one is None else one for one in value]
    assert walked(node(SchemaType.MAP, element=element), dict(zip("abc", value, strict=True)))[0] == {
        key: zero if one is None else one for key, one in zip("abc", value, strict=True)
    }


def test_field_that_is_wrong_is_left_out_and_the_rest_read() -> None:
    quantities = node(SchemaType.LIST, element=SCALARS["quantity"])
    found, said = walked(quantities, ["0.5", "x", "1500m", None])
    assert found == ["500m", "1500m", "0"]
    assert len(said) == 1
    found, said = walked(node(SchemaType.MAP, element=SCALARS["quantity"]), {"a": "x", "b": "0.5", "c": "y"})
    assert found == {"b": "500m"}
    assert len(said) == 2


def struct(**more: Any) -> SchemaNode:
    fields = {
        "text": STRING,
        "kept": STRING,
        "flag": BOOL,
        "on": BOOL,
        "number": INT32,
        "list": node(SchemaType.LIST, element=STRING),
        "must": node(SchemaType.LIST, element=STRING),
        "map": node(SchemaType.MAP, element=STRING),
        "amounts": node(SchemaType.MAP, element=SCALARS["quantity"]),
        "inner": node(SchemaType.STRUCT, "v1.Inner", fields={"text": STRING}),
    }
    zeros = frozenset({"text", "flag"})
    return node(SchemaType.STRUCT, "v1.Outer", fields=fields, required=frozenset({"must"}), zero_dropped=zeros, **more)


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        ({"text": "", "kept": ""}, {"kept": ""}),
        ({"text": "a", "kept": "b"}, {"text": "a", "kept": "b"}),
        ({"flag": False, "on": False}, {"on": False}),
        ({"flag": True, "on": True}, {"flag": True, "on": True}),
        ({"number": 0}, {"number": 0}),
        ({"list": [], "must": [], "map": {}}, {"must": []}),
        ({"list": ["a"], "map": {"a": ""}}, {"list": ["a"], "map": {"a": ""}}),
        ({"amounts": {"a": "0.5", "b": "1"}}, {"amounts": {"a": "500m", "b": "1"}}),
        ({"inner": {}}, {"inner": {}}),
        ({"text": None, "number": None, "list": None, "inner": None}, {}),
        ({"kept": None}, {}),
    ],
)
def test_structs(value: Json, stored: Json) -> None:
    assert walked(struct(), value) == (stored, [])
    beside = walked(struct(), {**value, "nosuch": 1})
    assert beside == (stored, ['unknown field "f.nosuch"'])


def test_unknown_fields_are_kept_where_they_may_be() -> None:
    assert walked(struct(preserve_unknown=True), {"nosuch": None, "text": ""}) == ({"nosuch": None}, [])


@pytest.mark.parametrize("kind", [SchemaType.STRUCT, SchemaType.MAP, SchemaType.LIST])
def test_structures_of_another_type(kind: SchemaType) -> None:
    element = STRING if kind is not SchemaType.STRUCT else None
    other: Any = [] if kind is not SchemaType.LIST else {}
    for value in ("x", 1, other):
        found, said = walked(node(kind, "v1.Thing", element=element), value)
        assert found is None
        assert said[0].endswith("into Go struct field T.f of type v1.Thing")


def test_place_without_a_field_is_a_value() -> None:
    walk = PathWalk({})
    walk.walk(struct(), [], "", "", "")
    assert [one.message for one in walk.problems] == ["json: cannot unmarshal array into Go value of type v1.Outer"]


def test_field_that_replaced_another_is_named() -> None:
    walk = PathWalk({})
    root = schema_for("v1", "Pod").root
    walk.walk(root, {"spec": {"workloadRef": {}, "containers": [{"nosuch": 1}]}}, "", "", "Pod")
    assert [one.message for one in walk.unknown] == [
        'unknown field "spec.workloadRef", did you mean "spec.schedulingGroup"?',
        'unknown field "spec.containers[0].nosuch"',
    ]


@pytest.mark.parametrize(
    ("version", "given", "meant"),
    [
        ("v1alpha2", "podGroupTemplateRef.workloadName", "podGroupTemplateRef.workload.workloadName"),
        ("v1alpha2", "podGroupTemplateRef.podGroupTemplateName", "podGroupTemplateRef.workload.podGroupTemplateName"),
        ("v1alpha2", "workloadRef", "podGroupTemplateRef.workload"),
        ("v1alpha3", "podGroupTemplateRef", "workloadRef"),
        ("v1beta1", "podGroupTemplateRef", "workloadRef"),
        ("v1beta1", "workloadRef.podGroupTemplateName", "workloadRef.templateName"),
    ],
)
def test_fields_of_another_version_of_a_pod_group_are_answered_with_their_place(
    version: str, given: str, meant: str
) -> None:
    """api.md 5.6: by the API server, and by what reads files."""
    api_version = f"scheduling.k8s.io/{version}"
    outer, _, inner = given.partition(".")
    spec = {outer: {inner: "w"} if inner else "w"}
    walk = PathWalk({})
    walk.walk(schema_for(api_version, "PodGroup").root, {"spec": spec}, "", "", "PodGroup")
    assert [one.message for one in walk.unknown] == [f'unknown field "spec.{given}", did you mean "spec.{meant}"?']
    [found] = PackedSchemas().unknown_fields(api_version, "PodGroup", {"spec": spec})
    assert f"{given.removesuffix(given.rpartition('.')[2])}{found.nearest}" == meant


def test_objects_that_do_not_change_are_not_copied() -> None:
    """Every structure that is in stored form is the one that was sent."""
    root = struct()
    quick = compiled(root, {})
    same = {"text": "a", "list": ["b"], "map": {"c": "d"}, "amounts": {"e": "1"}, "inner": {"text": "f"}}
    assert quick(same) is same
    changed = {**same, "amounts": {"e": "0.5", "g": "0.25", "h": "1"}}
    found = quick(changed)
    assert found["amounts"] == {"e": "500m", "g": "250m", "h": "1"}
    assert found["map"] is changed["map"]
    many = compiled(node(SchemaType.LIST, element=SCALARS["quantity"]), {})
    assert many(["1", "0.5", "0.25", "2"]) == ["1", "500m", "250m", "2"]


# -- what is added


def completed(place: SchemaNode, value: Any) -> Any:
    step = completer(place, {})
    if step is not None:
        step(value)
    return value


def test_required_fields_are_added() -> None:
    fields = {
        "text": STRING,
        "number": INT32,
        "flag": BOOL,
        "list": node(SchemaType.LIST, element=STRING),
        "map": node(SchemaType.MAP, element=STRING),
        "when": SCALARS["time"],
        "amount": SCALARS["quantity"],
        "inner": node(SchemaType.STRUCT, fields={"text": STRING}, required=frozenset({"text"})),
        "option": STRING,
    }
    place = node(SchemaType.STRUCT, fields=fields, required=frozenset(set(fields) - {"option"} | {"nosuch"}))
    zeros = {"flag": False, "list": [], "map": {}, "number": 0, "text": ""}
    assert completed(place, {}) == zeros
    assert list(completed(place, {})) == sorted(zeros), "in a fixed order"
    given = {"text": "a", "number": 7, "inner": {}}
    assert completed(place, given) == {**zeros, "text": "a", "number": 7, "inner": {"text": ""}}
    first, second = completed(place, {}), completed(place, {})
    assert first["list"] is not second["list"]
    assert completed(place, {"inner": None, "text": None}) == {**zeros, "inner": None, "text": None}
    assert completed(place, "no object") == "no object"


def test_required_fields_of_items_and_values_are_added() -> None:
    inner = node(SchemaType.STRUCT, fields={"text": STRING, "other": STRING}, required=frozenset({"text"}))
    assert completed(node(SchemaType.LIST, element=inner), [{}, {"text": "a"}]) == [{"text": ""}, {"text": "a"}]
    assert completed(node(SchemaType.MAP, element=inner), {"k": {"other": ""}}) == {"k": {"other": "", "text": ""}}
    deep = node(SchemaType.STRUCT, fields={"items": node(SchemaType.LIST, element=inner), "plain": STRING})
    assert completed(deep, {"items": [{}], "plain": "x"}) == {"items": [{"text": ""}], "plain": "x"}


def test_types_in_which_nothing_is_ever_missing_cost_nothing() -> None:
    plain = node(SchemaType.STRUCT, fields={"text": STRING, "list": node(SchemaType.LIST, element=STRING)})
    assert completer(plain, {}) is None
    assert completer(node(SchemaType.LIST, element=plain), {}) is None
    assert completer(node(SchemaType.MAP, element=STRING), {}) is None
    assert completer(STRING, {}) is None


def test_recursive_types_are_completed() -> None:
    tree = node(SchemaType.STRUCT, required=frozenset({"name"}))
    tree.fields |= {"name": STRING, "below": node(SchemaType.LIST, element=tree)}
    assert completed(tree, {"below": [{"below": [{}]}]}) == {
        "name": "",
        "below": [{"name": "", "below": [{"name": ""}]}],
    }


def test_objects_of_built_in_kinds_are_completed() -> None:
    obj: Json = {"spec": {"containers": [{"ports": [{}]}]}}
    schema_for("v1", "Pod").complete(obj)
    assert obj["spec"]["containers"][0] == {"name": "", "ports": [{"containerPort": 0}]}


# -- nodes of built-in kinds


@pytest.mark.parametrize(
    ("definition", "name"),
    [
        ("io.k8s.api.core.v1.PodSpec", "v1.PodSpec"),
        ("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "v1.ObjectMeta"),
    ],
)
def test_names_of_types_in_errors(definition: str, name: str) -> None:
    assert nodes.go_name(definition) == nodes.named(definition).go == name


def at(*path: str) -> SchemaNode:
    found = schema_for("v1", "Pod").root
    for step in path:
        below = found.element if step == "[]" else found.fields[step]
        assert below is not None
        found = below
    return found


def test_how_lists_and_maps_of_pods_are_merged() -> None:
    """What strategic merge and field ownership go by (x-kubernetes-* of the published definitions)."""
    containers = at("spec", "containers")
    assert (containers.list_type, containers.list_keys, containers.atomic) == ("map", ("name",), False)
    assert (containers.patch_strategy, containers.patch_merge_key) == (frozenset({"merge"}), "name")
    ports = at("spec", "containers", "[]", "ports")
    assert (ports.list_keys, ports.key_defaults) == (("containerPort", "protocol"), (("protocol", "TCP"),))
    command = at("spec", "containers", "[]", "command")
    assert (command.list_type, command.atomic) == ("atomic", True)
    assert at("spec", "nodeSelector").atomic
    assert not at("metadata", "labels").atomic
    assert at("spec", "volumes").patch_strategy == {"merge", "retainKeys"}
    assert at("spec", "containers", "[]", "resources", "claims").list_keys == ("name",)
    assert at("spec", "priority").go == "int32"
    assert at("spec", "terminationGracePeriodSeconds").go == "int64"
    assert at("spec", "hostNetwork").go == "bool"
    assert not at("spec").atomic


@pytest.mark.parametrize(
    ("api_version", "kind", "path"),
    [
        ("apps/v1", "Deployment", "spec.paused"),
        ("v1", "Service", "spec.publishNotReadyAddresses"),
        ("v1", "Node", "spec.unschedulable"),
        ("v1", "PersistentVolume", "spec.iscsi.readOnly"),
    ],
)
def test_false_of_a_plain_boolean_is_not_stored(api_version: str, kind: str, path: str) -> None:
    """As `omitempty` leaves it out in Go; where the field is a pointer, false is a value."""
    steps = path.split(".")
    for value, kept in ((False, False), (True, True)):
        obj: Json = {"apiVersion": api_version, "kind": kind}
        holder = obj
        for step in steps[:-1]:
            holder = holder.setdefault(step, {})
        holder[steps[-1]] = value
        found: Any = schema_for(api_version, kind).check(obj, collect_unknown=True)[0]
        for step in steps[:-1]:
            found = found[step]
        assert (steps[-1] in found) is kept
    disk = {"apiVersion": "v1", "kind": "PersistentVolume", "spec": {"azureDisk": {"readOnly": False}}}
    assert schema_for("v1", "PersistentVolume").check(disk, collect_unknown=True)[0]["spec"] == disk["spec"]
