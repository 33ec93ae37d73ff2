"""Rules of ResourceSlices (devices.md 5.4): upstream's cases of attributes, limits and places, in our own words."""

from __future__ import annotations

from typing import Any

import pytest

from kube_rules.validation import validate_create
from kube_rules.validation.manifests import errors_of_manifest
from tests.recorded.shapes import shape

Json = dict[str, Any]
ONE = "exactly one value must be specified"
FIRST = "spec.devices[0]"
MODEL = f"{FIRST}.attributes[model]"
EMPTY = "must not be empty if specified"
SEMVER = "must be a string compatible with semver.org spec 2.0.0"


def resource_slice(*devices: Json, **spec: Any) -> Json:
    where = {} if spec.get("perDeviceNodeSelection") else {"nodeName": "n"}
    pool = {"name": "p", "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": {"driver": "d.example.com", "pool": pool, **where, "devices": list(devices), **spec},
    }


def refusals(obj: Json) -> list[tuple[str, str]]:
    """What an API server refuses; `plan` refuses the same (the one function of both)."""
    found = [
        (one.path, one.message.rpartition(": ")[2])
        for one in validate_create(shape("resource.k8s.io/v1", "ResourceSlice"), obj)
    ]
    planned = errors_of_manifest("resource.k8s.io/v1", "ResourceSlice", obj, namespaced=False)
    assert bool(planned.missing or planned.wrong) is bool(found)
    return found


def device(name: str = "gpu-0", **fields: Any) -> Json:
    return {"name": name, **fields}


def with_model(**value: Any) -> Json:
    return resource_slice(device(attributes={"model": value}))


@pytest.mark.parametrize(
    "value",
    [
        {"ints": [1, 2]},
        {"bools": [False]},
        {"strings": ["a" * 64, ""]},
        {"versions": ["1.2.3", "1.0.0-alpha.1+build.5"]},
        {"int": 0},
        {"bool": False},
        {"string": ""},
        {"version": "0.0.1"},
    ],
)
def test_attribute_with_one_value_or_one_list_is_taken(value: Json) -> None:
    """devices.md 5.4."""
    assert refusals(with_model(**value)) == []


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({}, [(MODEL, ONE)]),
        ({"int": 1, "ints": [1]}, [(MODEL, ONE)]),
        ({"strings": ["a"], "versions": ["1.0.0"]}, [(MODEL, ONE)]),
        *[
            ({form: []}, [(f"{MODEL}.{form}", "must not be empty if specified")])
            for form in ("ints", "bools", "strings")
        ],
        ({"versions": ["1.0.0", "v1", "01.0.0"]}, [(f"{MODEL}.versions[1]", SEMVER), (f"{MODEL}.versions[2]", SEMVER)]),
        ({"version": "1.2"}, [(f"{MODEL}.version", SEMVER)]),
        ({"strings": ["a", "b" * 65]}, [(f"{MODEL}.strings[1]", "may not be more than 64 bytes")]),
        ({"string": "é" * 33}, [(f"{MODEL}.string", "may not be more than 64 bytes")]),
    ],
)
def test_attribute_with_none_or_several_is_refused(value: Json, found: list[tuple[str, str]]) -> None:
    """devices.md 5.4."""
    assert refusals(with_model(**value)) == found


def numbered(number: int, **value: Any) -> Json:
    return {f"a{index}": value for index in range(number)}


@pytest.mark.parametrize(
    ("attributes", "detail"),
    [
        (numbered(32, int=1), ""),
        (numbered(33, int=1), "the total number of attributes and capacities must not exceed 32"),
        ({**numbered(16, ints=[1, 2]), **numbered(0)}, ""),
        ({"a": {"ints": list(range(48))}}, ""),
        ({"a": {"ints": list(range(48))}, "b": {"int": 1}}, "the total number of attribute values must not exceed 48"),
    ],
)
def test_values_of_a_device_are_limited(attributes: Json, detail: str) -> None:
    """devices.md 5.4: list items count one by one."""
    assert refusals(resource_slice(device(attributes=attributes))) == ([(FIRST, detail)] if detail else [])


@pytest.mark.parametrize(
    "advanced",
    [
        {"attributes": {"a": {"strings": ["x"]}}},
        {"taints": [{"key": "k", "effect": "NoSchedule"}]},
        {"consumesCounters": [{"counterSet": "c", "counters": {"memory": {"value": "1Gi"}}}]},
    ],
)
def test_slice_with_advanced_devices_has_fewer(advanced: Json) -> None:
    """devices.md 5.4: at most 64 instead of 128."""
    plain = [device(f"d{index}") for index in range(129)]
    assert refusals(resource_slice(*plain[:128])) == []
    assert refusals(resource_slice(*plain)) == [("spec.devices", "must have at most 128 items")]
    assert refusals(resource_slice(*plain[:63], device(**advanced))) == []
    assert refusals(resource_slice(*plain[:64], device(**advanced))) == [("spec.devices", "must have at most 64 items")]


@pytest.mark.parametrize(
    ("name", "number"),
    [("model", 0), ("d.example.com/model", 0), ("a-b", 1), ("", 1), ("/x", 1), ("d.example.com/", 1), ("a/b/c", 1),
     ("m" * 33, 1), ("D_/x", 1)],
)  # fmt: skip
def test_names_of_attributes_are_identifiers_in_a_domain(name: str, number: int) -> None:
    """devices.md 5.4; the same for capacities."""
    for part, value in (("attributes", {"int": 1}), ("capacity", {"value": "1"})):
        fields: Json = {part: {name: value}}
        found = refusals(resource_slice(device(**fields)))
        assert len(found) == number
        assert {place for place, _ in found} <= {f"{FIRST}.{part}"}


def test_devices_say_where_they_are_if_the_slice_does_not() -> None:
    """devices.md 5.4."""
    apart = {"perDeviceNodeSelection": True}
    assert refusals(resource_slice(device(nodeName="n"), device("b", allNodes=True), **apart)) == []
    assert [place for place, _ in refusals(resource_slice(device(), **apart))] == [FIRST]
    both = device(nodeName="n", allNodes=True)
    assert [place for place, _ in refusals(resource_slice(both, **apart))] == [FIRST]
    assert [place for place, _ in refusals(resource_slice(device(nodeName="n")))] == [FIRST]


@pytest.mark.parametrize(
    ("fields", "places"),
    [
        ({"taints": [{"key": "k", "effect": "X"}]}, [".taints[0].effect"]),
        ({"taints": [{"key": "k", "effect": "None"}] * 17}, [".taints"]),
        ({"consumesCounters": [{"counterSet": "c"}]}, [".consumesCounters[0].counters"]),
        ({"consumesCounters": [{"counterSet": "c", "counters": {"A": {"value": "1"}}}]},
         [".consumesCounters[0].counters"]),
        ({"consumesCounters": [{"counterSet": "c", "counters": {"a": {"value": "1"}}}] * 2}, [".consumesCounters[1]"]),
        ({"consumesCounters": [{"counterSet": "c", "counters": {"a": {"value": "1"}}}] * 3}, [".consumesCounters"]),
        ({"capacity": {"memory": {"value": "1", "requestPolicy": {"default": "1"}}}},
         [".capacity[memory].requestPolicy"]),
        ({"allowMultipleAllocations": True, "capacity": {"memory": {"value": "1", "requestPolicy": {"default": "1"}}}},
         []),
    ],
)  # fmt: skip
def test_taints_counters_and_capacities_of_a_device(fields: Json, places: list[str]) -> None:
    """devices.md 5.4."""
    assert [place for place, _ in refusals(resource_slice(device(**fields)))] == [f"{FIRST}{one}" for one in places]


def with_policy(value: str, **policy: Any) -> Json:
    capacity = {"memory": {"value": value, "requestPolicy": policy}}
    return resource_slice(device(allowMultipleAllocations=True, capacity=capacity))


POLICIES: list[tuple[Json, list[tuple[str, str]]]] = [
    ({}, []),
    ({"default": "1"}, []),
    ({"default": "1", "validValues": ["1", "2"]}, []),
    ({"default": "1", "validRange": {"min": "1"}}, []),
    ({"default": "3", "validRange": {"min": "1", "max": "7", "step": "2"}}, []),
    ({"default": "1.5", "validRange": {"min": "500m", "max": "8", "step": "500m"}}, []),
    ({"validValues": ["1"]}, [(".default", "required when validValues is defined")]),
    ({"validRange": {"min": "1"}}, [(".default", "required when validRange is defined")]),
    (
        {"default": "1", "validValues": ["1"], "validRange": {"min": "1"}},
        [("", 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time')],
    ),
    ({"default": "1", "validValues": ["2", "1"]}, [(".validValues[1]", "values must be sorted in ascending order")]),
    ({"default": "1", "validValues": ["1", "1000m"]}, [(".validValues[1]", '"1"')]),
    (
        {"default": "3", "validValues": ["1"]},
        [(".validValues", "default value is not valid according to the requestPolicy")],
    ),
    ({"default": "1", "validValues": ["1", "9"]}, [(".validValues[1]", "8")]),
    (
        {"default": "1", "validValues": [str(n) for n in range(1, 9)] + ["8", "8", "8"]},
        [(".validValues", "must have at most 10 items")],
    ),
    ({"default": "1", "validRange": {"max": "2"}}, [(".validRange.min", "required when validRange is defined")]),
    ({"default": "9", "validRange": {"min": "9"}}, [(".validRange.min", "8")]),
    ({"default": "1", "validRange": {"min": "2"}}, [(".validRange.default", "2")]),
    (
        {"default": "3", "validRange": {"min": "3", "max": "2"}},
        [(".validRange.max", "2"), (".validRange.default", "2")],
    ),
    ({"default": "3", "validRange": {"min": "3", "max": "9"}}, [(".validRange.max", "8")]),
    ({"default": "1", "validRange": {"min": "1", "step": "0"}}, [(".validRange.step", "must be greater than zero")]),
    ({"default": "1", "validRange": {"min": "1", "step": "8"}}, [(".validRange.step", "8")]),
    (
        {"default": "2", "validRange": {"min": "1", "max": "4", "step": "2"}},
        [(".validRange.step", "value is not a multiple of a given step (2) from (1)")] * 2,
    ),
    (
        {"default": "1", "validRange": {"min": "1u", "step": "1"}},
        [(".validRange.min", "value cannot be represented as a milli value")],
    ),
    (
        {"default": "1", "validRange": {"min": "-1", "step": "1"}},
        [(".validRange.min", "must be greater than or equal to 0")],
    ),
]


@pytest.mark.parametrize(("policy", "found"), POLICIES)
def test_policies_of_capacities(policy: Json, found: list[tuple[str, str]]) -> None:
    """devices.md 5.5: what is wrong ends in the amount that is exceeded, where there is one."""
    at = f"{FIRST}.capacity[memory].requestPolicy"
    refused = [(place.removeprefix(at), detail) for place, detail in refusals(with_policy("8", **policy))]
    if found == [(".validValues", "must have at most 10 items")]:
        assert refused[0] == found[0]
    else:
        assert refused == found


@pytest.mark.parametrize(
    ("name", "number"), [("a/b.c/d", 0), ("node-1", 0), ("A", 1), ("a//b", 1), ("x" * 254, 2), ("", 1)]
)
def test_names_of_pools(name: str, number: int) -> None:
    """devices.md 5.4: subdomains with slashes between."""
    found = refusals(resource_slice(pool={"name": name, "resourceSliceCount": 1}))
    assert [place for place, _ in found] == ["spec.pool.name"] * number


@pytest.mark.parametrize(
    ("fields", "places"),
    [
        ({"nodeName": "A b"}, [".nodeName"]),
        ({"nodeName": ""}, [".nodeName", ""]),
        ({"nodeName": None, "nodeSelector": {"nodeSelectorTerms": []}}, [".nodeSelector.nodeSelectorTerms"] * 2),
        ({"nodeName": None, "nodeSelector": {"nodeSelectorTerms": [{}, {}]}}, [".nodeSelector.nodeSelectorTerms"]),
        ({"skipNodeOperations": ["NodePrepareResources", "NodeUnprepareResources"]}, []),
        ({"skipNodeOperations": ["*"]}, []),
        ({"skipNodeOperations": ["NodeUnprepareResources"]}, []),
        ({"skipNodeOperations": ["NodePrepareResources"]}, [".skipNodeOperations"]),
        ({"skipNodeOperations": ["Other", "*", "*"]}, [".skipNodeOperations[0]", ".skipNodeOperations[2]"]),
    ],
)
def test_nodes_and_operations_of_a_slice(fields: Json, places: list[str]) -> None:
    """devices.md 5.4."""
    document = resource_slice(**fields)
    document["spec"] = {name: value for name, value in document["spec"].items() if value is not None}
    assert [place for place, _ in refusals(document)] == [f"spec{one}" for one in places]


@pytest.mark.parametrize(
    ("fields", "places"),
    [
        ({"bindingConditions": ["a"], "bindingFailureConditions": ["b"]}, []),
        ({"bindingConditions": ["a"]}, [".bindingFailureConditions"]),
        ({"bindingFailureConditions": ["a"]}, [".bindingConditions"]),
        ({"bindingConditions": ["a", "a"], "bindingFailureConditions": ["b"]}, [".bindingConditions[1]"]),
        ({"bindingConditions": ["a"], "bindingFailureConditions": ["a"]}, [".bindingFailureConditions[0]"]),
        ({"bindingConditions": ["a b"], "bindingFailureConditions": ["b"]}, [".bindingConditions[0]"]),
        ({"bindingConditions": list("abcde"), "bindingFailureConditions": ["x"]}, [".bindingConditions"]),
    ],
)
def test_conditions_that_a_device_waits_for(fields: Json, places: list[str]) -> None:
    """devices.md 5.4."""
    assert [place for place, _ in refusals(resource_slice(device(**fields)))] == [f"{FIRST}{one}" for one in places]


_OF_NODE = f"{FIRST}.nodeAllocatableResources[cpu]"
_BY_COUNT: Json = {"mapping": {"deviceMultiplier": "8"}}
_BY_CAPACITY: Json = {"mapping": {"capacityKey": "d.example.com/cores", "capacityMultiplier": "2"}}


@pytest.mark.parametrize(
    ("amounts", "places"),
    [
        ({"cpu": _BY_COUNT}, []),
        ({"cpu": _BY_CAPACITY, "memory": {"overhead": {"perPod": "1Gi", "perContainer": "500Mi"}}}, []),
        ({"hugepages-2Mi": {**_BY_COUNT, "overhead": {"perPod": "0"}}}, []),
        ({"ephemeral-storage": _BY_COUNT}, [f"{FIRST}.nodeAllocatableResources[ephemeral-storage]"]),
        ({"example.com/gpu": _BY_COUNT}, [f"{FIRST}.nodeAllocatableResources[example.com/gpu]"]),
        ({"cpu": {}}, [_OF_NODE]),
        ({"cpu": {"mapping": {}}}, [f"{_OF_NODE}.mapping"]),
        ({"cpu": {"mapping": {**_BY_COUNT["mapping"], **_BY_CAPACITY["mapping"]}}}, [f"{_OF_NODE}.mapping"]),
        ({"cpu": {"mapping": {"capacityKey": "cores"}}}, [f"{_OF_NODE}.mapping.capacityMultiplier"]),
        ({"cpu": {"mapping": {"capacityMultiplier": "2"}}}, [f"{_OF_NODE}.mapping.capacityKey"]),
        (
            {"cpu": {"mapping": {"capacityKey": "a/b/c", "capacityMultiplier": "2"}}},
            [f"{_OF_NODE}.mapping.capacityKey"],
        ),
        ({"cpu": {"overhead": {}}}, [f"{_OF_NODE}.overhead"]),
        ({"cpu": {"overhead": {"perPod": "-1"}}}, [f"{_OF_NODE}.overhead.perPod"]),
    ],
)
def test_resources_of_the_node_that_a_device_takes(amounts: Json, places: list[str]) -> None:
    """devices.md 5.4."""
    found = refusals(resource_slice(device(nodeAllocatableResources=amounts)))
    assert [place for place, _ in found] == places


COUNTS = {"consumesCounters": [{"counterSet": "c", "counters": {"a": {"value": "1"}}}]}


@pytest.mark.parametrize(
    ("name", "device_fields", "places"),
    [
        ("d.example.com/type", {**COUNTS, "attributes": {"type": {"string": "x"}}}, []),
        ("other.example.com/type", {**COUNTS, "attributes": {"other.example.com/type": {"string": "x"}}}, []),
        ("d.example.com/type", {"attributes": {"type": {"string": "x"}}}, ["spec.partitionTypeAttribute"]),
        ("type", {**COUNTS, "attributes": {"type": {"string": "x"}}}, ["spec.partitionTypeAttribute"]),
        ("d.example.com/type", COUNTS, [f"{FIRST}.attributes[d.example.com/type]"]),
        (
            "d.example.com/type",
            {**COUNTS, "attributes": {"type": {"int": 1}}},
            [f"{FIRST}.attributes[d.example.com/type]"],
        ),
    ],
)
def test_attribute_that_tells_partitions_apart(name: str, device_fields: Json, places: list[str]) -> None:
    """devices.md 5.4."""
    found = refusals(resource_slice(device(**device_fields), partitionTypeAttribute=name))
    assert [place for place, _ in found] == places


def test_counters_stand_in_a_slice_of_their_own() -> None:
    """devices.md 5.4."""
    shared = [{"name": "c", "counters": {"memory": {"value": "1Gi"}}}]
    assert refusals(resource_slice(sharedCounters=shared)) == []
    assert [place for place, _ in refusals(resource_slice(device(), sharedCounters=shared))] == ["spec"]
    many = [{"name": f"c{index}", "counters": {"memory": {"value": "1"}}} for index in range(9)]
    assert [place for place, _ in refusals(resource_slice(sharedCounters=many))] == ["spec.sharedCounters"]
