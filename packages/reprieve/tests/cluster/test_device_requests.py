"""What claims ask for in the devices they want, and what is written of what they got and read back."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

import msgspec
import pytest

from kube_rules import objects
from kube_rules.devices import AllocationResult
from kube_rules.quantity import NANO
from reprieve.cluster.device_allocation import DevicesInUse, PendingClaim, allocate
from reprieve.cluster.device_pools import DeviceMatcher, EffectiveTaint, SliceIndex, read_slice
from reprieve.cluster.device_requests import (
    Allocation,
    Shapes,
    expressions,
    read_allocation,
    share_id,
    tolerated,
    write_allocation,
)
from tests.plugins.devices import (
    DRIVER,
    Json,
    cel,
    device,
    device_class,
    devices,
    first_of,
    node_selector,
    option,
    request,
    slice_of,
)

# -- what claims ask for ----------------------------------------------------------------------------------------------

TOLERATIONS: list[tuple[Json, bool]] = [
    ({}, False),
    ({"operator": "Exists"}, True),
    ({"key": "k", "operator": "Exists"}, True),
    ({"key": "j", "operator": "Exists"}, False),
    ({"key": "k", "value": "v"}, True),
    ({"key": "k", "operator": "Equal", "value": "v"}, True),
    ({"key": "k", "operator": "Equal", "value": "w"}, False),
    ({"key": "k", "operator": "Equal"}, False),
    ({"operator": "Equal", "value": "v"}, True),
    ({"key": "k", "operator": "Odd", "value": "v"}, False),
    ({"key": "k", "operator": "Exists", "effect": "NoExecute"}, True),
    ({"key": "k", "operator": "Exists", "effect": "NoSchedule"}, False),
]


@pytest.mark.parametrize(("toleration", "covers"), TOLERATIONS)
def test_which_taint_of_a_device_is_tolerated(toleration: Json, covers: bool) -> None:
    """devices.md 3.2 (resourceclaim.ToleratesTaint)"""
    taint = EffectiveTaint("k", "v", "NoExecute")
    assert tolerated([toleration], taint) is covers
    assert tolerated([{"key": "other"}, toleration], taint) is covers
    assert tolerated([{"key": "k"}], EffectiveTaint("k", "", "NoExecute")), "a value that is not there is the empty one"
    assert not tolerated([], taint)


def test_claim_asks_for() -> None:
    """resource.k8s.io/v1: one device of a class by default."""
    tolerations = [{"key": "k", "operator": "Exists"}]
    full = request(
        "full", "a", "x", count=3, adminAccess=True, tolerations=tolerations, capacity={"requests": {"bw": "2"}}
    )
    options = first_of("either", option("big", "a", allocationMode="All"), option("small", count=2))
    shape = Shapes().of({"requests": [request("plain"), full, options]})
    plain, whole, big, small = shape.options
    assert (plain.name, plain.request, plain.class_name, plain.mode, plain.count) == (
        "plain",
        "plain",
        "gpu",
        "ExactCount",
        1,
    )
    assert (plain.admin, plain.selectors, plain.tolerations, plain.capacity) == (False, (), (), {})
    assert (whole.admin, whole.selectors, whole.count, whole.tolerations) == (True, ("x",), 3, tuple(tolerations))
    assert whole.capacity == {"bw": 2 * NANO}
    assert (big.name, big.request, big.mode, big.admin) == ("either/big", "either", "All", False)
    assert (small.name, small.request, small.mode, small.count) == ("either/small", "either", "ExactCount", 2)
    assert [one.prioritized for one in shape.requests] == [False, False, True]
    assert shape.prioritized
    assert not Shapes().of({"requests": [full]}).prioritized
    (unknown,) = Shapes().of({"requests": [{"name": "r"}]}).requests
    assert unknown.options == ()
    assert expressions([*cel("a"), {}, {"cel": None}]) == ("a", None, None)


def test_claims_that_ask_for_the_same_have_one_shape() -> None:
    """However the text orders the keys; numbers are dense from 0."""
    shapes = Shapes()
    first = shapes.of({"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": 2}}]})
    again = shapes.of({"requests": [{"exactly": {"count": 2, "deviceClassName": "gpu"}, "name": "r"}]})
    other = shapes.of({"requests": [request("r", count=3)]})
    assert first is again
    assert [first.id, other.id, shapes.of({}).id] == [0, 1, 2]


@pytest.mark.parametrize(
    ("requests", "concerned"),
    [
        ([], {"r", "s/x", "s/y"}),
        (["r"], {"r"}),
        (["s"], {"s/x", "s/y"}),
        (["s/y"], {"s/y"}),
        (["r", "s/x"], {"r", "s/x"}),
        (["x"], set()),
    ],
)
def test_which_devices_a_constraint_concerns(requests: list[str], concerned: set[str]) -> None:
    """By request, or by one option of it; without any, all."""
    body = {
        "requests": [request("r"), first_of("s", option("x"), option("y"))],
        "constraints": [{"matchAttribute": "a/b", "requests": requests}, {"distinctAttribute": "a/c"}],
    }
    shape = Shapes().of(body)
    match, distinct = shape.constraints
    assert {one.name for one in shape.options if match.concerns(one)} == concerned
    assert [(one.attribute, one.distinct) for one in (match, distinct)] == [("a/b", False), ("a/c", True)]


# -- allocations ------------------------------------------------------------------------------------------------------


def _written(
    slices: list[Any], devices_body: Json, *, classes: dict[str, objects.DeviceClass] | None = None
) -> Allocation:
    shape = Shapes().of(devices_body)
    known = classes or {"gpu": device_class(), "other": device_class("other")}
    found = allocate(
        [PendingClaim("default/c", shape)],
        "n",
        {"zone": "z"},
        SliceIndex([read_slice(one) for one in slices]).pools("n", {"zone": "z"}),
        DevicesInUse(),
        known,
        DeviceMatcher(),
    )
    assert found is not None
    return write_allocation("default/c", shape, found[0], "n", known)


def test_amounts_written_are_read_back() -> None:
    """status.allocation: an allocation read from the API has all that was known when it was made."""
    nic = device(
        "nic",
        allowMultipleAllocations=True,
        capacity={"bw": {"value": "4Ki"}, "odd": {"value": "3"}},
        bindingConditions=["Ready"],
        bindingFailureConditions=["Broken"],
        taints=[{"key": "k", "effect": "NoSchedule"}],
    )
    tolerations = [{"key": "k", "operator": "Exists"}]
    requests = [
        request("a", tolerations=tolerations, capacity={"requests": {"bw": "2Ki", "odd": "1"}}),
        request("admin", adminAccess=True, tolerations=tolerations, capacity={"requests": {"bw": "1", "odd": "2"}}),
    ]
    written = _written([slice_of("n", [nic])], {"requests": requests})
    share = share_id("default/c", "a", 0)
    assert written.body["devices"]["results"] == [
        {
            "request": "a",
            "driver": DRIVER,
            "pool": "n",
            "device": "nic",
            "tolerations": tolerations,
            "shareID": share,
            "consumedCapacity": {"bw": "2Ki", "odd": "1"},
            "bindingConditions": ["Ready"],
            "bindingFailureConditions": ["Broken"],
        },
        {
            "request": "admin",
            "driver": DRIVER,
            "pool": "n",
            "device": "nic",
            "adminAccess": True,
            "tolerations": tolerations,
            "consumedCapacity": {"bw": "1", "odd": "2"},
            "bindingConditions": ["Ready"],
            "bindingFailureConditions": ["Broken"],
        },
    ]
    read = read_allocation(msgspec.convert(written.body, AllocationResult))
    for mine, theirs in zip(written.grants, read.grants, strict=True):
        for name in (
            "option",
            "device",
            "admin",
            "share",
            "consumed",
            "binding_conditions",
            "failure_conditions",
            "tolerations",
        ):
            assert getattr(mine, name) == getattr(theirs, name), name
    assert (read.only_node, written.only_node) == ("n", "n")
    plain = _written([slice_of("n", devices(1))], {"requests": [request()]})
    assert plain.body["devices"] == {"results": [{"request": "r", "driver": DRIVER, "pool": "n", "device": "gpu-0"}]}
    assert plain.grants[0].share == ""


def test_shares_of_a_device_are_distinguished() -> None:
    """A UUID for each, which the same claim gets again."""
    ids = {share_id(claim, name, number) for claim in ("a/b", "a/c") for name in ("r", "s") for number in (0, 1)}
    assert len(ids) == 8
    for one in ids:
        assert str(UUID(one)) == one
        assert UUID(one).version == 5
        assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}", one)
    assert share_id("a/b", "r", 0) == share_id("a/b", "r", 0)


ZONE, RACK = (
    node_selector("zone", "z"),
    {"nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "DoesNotExist"}]}]},
)
BY_NAME = node_selector("metadata.name", "n", "m", field=True)
ONLY = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]}

WHERE: list[tuple[str, list[Any], Json | None]] = [
    ("a device of the node", [slice_of("n", devices(1))], ONLY),
    ("one for all nodes", [slice_of(None, devices(1), allNodes=True)], None),
    ("one for selected nodes", [slice_of(None, devices(1), nodeSelector=ZONE)], ZONE),
    ("nodes by name", [slice_of(None, devices(1), nodeSelector=BY_NAME)], BY_NAME),
    ("one that binds to the node", [slice_of(None, [device("x", bindsToNode=True)], allNodes=True)], ONLY),
    ("one that says for itself", [slice_of(None, [device("x", nodeName="n")], perDeviceNodeSelection=True)], ONLY),
    ("one that says all", [slice_of(None, [device("x", allNodes=True)], perDeviceNodeSelection=True)], None),
    ("a selector of its own", [slice_of(None, [device("x", nodeSelector=ZONE)], perDeviceNodeSelection=True)], ZONE),
    (
        "two selectors together",
        [
            slice_of(None, [device("x")], pool="p", nodeSelector=ZONE),
            slice_of(None, [device("y")], pool="q", nodeSelector=RACK),
        ],
        {
            "nodeSelectorTerms": [
                {
                    "matchExpressions": [
                        ZONE["nodeSelectorTerms"][0]["matchExpressions"][0],
                        RACK["nodeSelectorTerms"][0]["matchExpressions"][0],
                    ]
                }
            ]
        },
    ),
    (
        "the same selector twice",
        [
            slice_of(None, [device("x")], pool="p", nodeSelector=ZONE),
            slice_of(None, [device("y")], pool="q", nodeSelector=ZONE),
        ],
        ZONE,
    ),
    (
        "one for all and one of the node",
        [slice_of(None, [device("x")], pool="p", allNodes=True), slice_of("n", [device("y")], pool="q")],
        ONLY,
    ),
]


@pytest.mark.parametrize(("slices", "selector"), [w[1:] for w in WHERE], ids=[w[0] for w in WHERE])
def test_where_an_allocation_can_be_used(slices: list[Any], selector: Json | None) -> None:
    """createNodeSelector: one node if any device is local to it, else what the selectors ask for, together."""
    count = sum(len(one.spec.devices) for one in slices)
    found = _written(slices, {"requests": [request(count=count)]})
    assert found.body.get("nodeSelector") == selector
    assert (found.selector is None) is (selector is None)
    assert found.only_node == ("n" if selector == ONLY else None)


@pytest.mark.parametrize(
    ("selector", "node"),
    [
        (None, None),
        (ONLY, "n"),
        (node_selector("metadata.name", "n", field=True, terms=2), None),
        (BY_NAME, None),
        (ZONE, None),
        (
            {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n"]}]}]},
            None,
        ),
        ({"nodeSelectorTerms": [{**ONLY["nodeSelectorTerms"][0], **ZONE["nodeSelectorTerms"][0]}]}, None),
    ],
)
def test_only_node_of_an_allocation(selector: Json | None, node: str | None) -> None:
    """Where that is how the selector says it."""
    body = {"devices": {"results": []}, **({"nodeSelector": selector} if selector is not None else {})}
    assert read_allocation(msgspec.convert(body, AllocationResult)).only_node == node


def _config(text: str, **more: Any) -> Json:
    return {"opaque": {"driver": DRIVER, "parameters": text}, **more}


CONFIGS: list[tuple[str, list[Json], list[Json], dict[str, list[Json]], list[Json] | None]] = [
    ("none", [request()], [], {}, None),
    ("of the class", [request()], [], {"gpu": [_config("c")]}, [_config("c", source="FromClass")]),
    (
        "of the class, for one of two requests",
        [request("a"), request("b", "other")],
        [],
        {"gpu": [_config("c")]},
        [_config("c", source="FromClass", requests=["a"])],
    ),
    (
        "of a class of both requests",
        [request("a"), request("b"), request("d", "other")],
        [],
        {"gpu": [_config("c"), _config("e")], "other": [_config("o")]},
        [
            _config("c", source="FromClass", requests=["a", "b"]),
            _config("e", source="FromClass", requests=["a", "b"]),
            _config("o", source="FromClass", requests=["d"]),
        ],
    ),
    (
        "of the claim, after the class's",
        [request("a"), request("b")],
        [_config("m"), _config("n", requests=["b"])],
        {"gpu": [_config("c")]},
        [
            _config("c", source="FromClass"),
            _config("m", source="FromClaim"),
            _config("n", source="FromClaim", requests=["b"]),
        ],
    ),
    (
        "of options that were not taken",
        [first_of("r", option("x", count=9), option("y")), request("s")],
        [_config("1", requests=["r/x"]), _config("2", requests=["r/y"]), _config("3", requests=["r"])],
        {},
        [
            _config("2", source="FromClaim", requests=["r/y"]),
            _config("3", source="FromClaim", requests=["r"]),
        ],
    ),
]


@pytest.mark.parametrize(
    ("requests", "config", "of_class", "written"), [c[1:] for c in CONFIGS], ids=[c[0] for c in CONFIGS]
)
def test_parameters_for_the_drivers(
    requests: list[Json], config: list[Json], of_class: dict[str, list[Json]], written: list[Json] | None
) -> None:
    """Those of the classes in use, each once with its requests, then the claim's own; requests only where not all."""
    classes = {name: device_class(name, config=of_class.get(name, [])) for name in ("gpu", "other")}
    found = _written([slice_of("n", devices(4))], {"requests": requests, "config": config}, classes=classes)
    assert found.body["devices"].get("config") == written
