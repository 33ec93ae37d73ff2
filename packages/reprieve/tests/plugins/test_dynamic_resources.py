"""DynamicResources: which devices a pod gets, and why it does not.

The rules are those of kubernetes/kubernetes pkg/scheduler/framework/plugins/dynamicresources and
k8s.io/dynamic-resource-allocation/structured in 1.36, with the feature gates at their defaults there: AdminAccess,
ConsumableCapacity, DeviceBindingConditions, DeviceTaints, PartitionableDevices, PrioritizedList.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kube_rules import objects
from tests.building import Item, World, node
from tests.plugins.devices import (
    DRIVER,
    Json,
    allocated,
    claim,
    device,
    device_class,
    devices,
    first_of,
    got,
    option,
    request,
    slice_of,
    template,
    user,
    why,
)

PREEMPTION = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."


def world_of(*items: Item | list[Item], nodes: int = 1, **options: Any) -> World:
    """Nodes n1..., the class `gpu`, and what else is given; run until nothing changes."""
    return World(*(node(f"n{i + 1}", cpu=8) for i in range(nodes)), device_class(), *items, **options).settle()


# -- which devices: pools, slices, devices in order ------------------------------------------------------------------


A, B = ("model", "A"), ("model", "B")
CASES: list[tuple[str, list[objects.KubernetesObject], list[Json], list[Json], list[str]]] = [
    ("the first device", [slice_of("n1", devices(3))], [request()], [], ["n1/gpu-0"]),
    ("a count", [slice_of("n1", devices(3))], [request(count=2)], [], ["n1/gpu-0", "n1/gpu-1"]),
    ("more than there is", [slice_of("n1", devices(1))], [request(count=2)], [], []),
    (
        "all of them",
        [slice_of("n1", devices(3))],
        [request(allocationMode="All")],
        [],
        ["n1/gpu-0", "n1/gpu-1", "n1/gpu-2"],
    ),
    ("all of none", [slice_of("n1")], [request(allocationMode="All")], [], []),
    ("two requests", [slice_of("n1", devices(2))], [request("a"), request("b")], [], ["n1/gpu-0", "n1/gpu-1"]),
    (
        "a selector of the request",
        [slice_of("n1", [device("x", {"model": "A"}), device("y", {"model": "B"})])],
        [request("r", "gpu", f'device.attributes["{DRIVER}"].model == "B"')],
        [],
        ["n1/y"],
    ),
    (
        "a first choice is taken back for a later request",
        [slice_of("n1", [device("x", {"big": True}), device("y", {"big": False})])],
        [request("any"), request("big", "gpu", f'device.attributes["{DRIVER}"].big')],
        [],
        ["n1/y", "n1/x"],
    ),
    (
        "pools by driver and name, slices by name",
        [
            slice_of("n1", devices(1), pool="b"),
            slice_of("n1", [device("late")], pool="a", name="z", count=2),
            slice_of("n1", [device("early")], pool="a", name="y", count=2),
        ],
        [request(count=3)],
        [],
        ["a/early", "a/late", "b/gpu-0"],
    ),
    (
        "pools with binding conditions last",
        [
            slice_of(
                "n1", [device("slow", bindingConditions=["Ready"], bindingFailureConditions=["Broken"])], pool="a"
            ),
            slice_of("n1", [device("fast")], pool="b"),
        ],
        [request()],
        [],
        ["b/fast"],
    ),
    (
        "only the newest generation",
        [slice_of("n1", [device("old")], generation=1), slice_of("n1", [device("new")], generation=2)],
        [request()],
        [],
        ["n1/new"],
    ),
    ("an incomplete pool", [slice_of("n1", devices(3), count=2)], [request()], [], []),
    (
        "an incomplete pool beside a complete one",
        [slice_of("n1", devices(3), pool="a", count=2), slice_of("n1", devices(1), pool="b")],
        [request()],
        [],
        ["b/gpu-0"],
    ),
    ("all nodes", [slice_of(None, devices(1), allNodes=True)], [request()], [], ["net/gpu-0"]),
    ("another node", [slice_of("n2", devices(1))], [request()], [], []),
    (
        "selected nodes",
        [
            slice_of(
                None,
                devices(1),
                nodeSelector={
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["elsewhere"]}]}
                    ]
                },
            )
        ],
        [request()],
        [],
        [],
    ),
    (
        "each device says where (perDeviceNodeSelection)",
        [slice_of(None, [device("x", nodeName="n2"), device("y", nodeName="n1")], perDeviceNodeSelection=True)],
        [request()],
        [],
        ["net/y"],
    ),
    (
        "matchAttribute",
        [slice_of("n1", [device("a", {"numa": 0}), device("b", {"numa": 1}), device("c", {"numa": 1})])],
        [request(count=2)],
        [{"matchAttribute": f"{DRIVER}/numa"}],
        ["n1/b", "n1/c"],
    ),
    (
        "matchAttribute between requests, a device without it does not count",
        [slice_of("n1", [device("a"), device("b", {"numa": 1}), device("c", {"numa": 1})])],
        [request("x"), request("y")],
        [{"requests": ["x", "y"], "matchAttribute": f"{DRIVER}/numa"}],
        ["n1/b", "n1/c"],
    ),
    (
        "matchAttribute: values of different types differ",
        [slice_of("n1", [device("a", {"v": 1}), device("b", {"v": "1"})])],
        [request(count=2)],
        [{"matchAttribute": f"{DRIVER}/v"}],
        [],
    ),
    (
        "distinctAttribute",
        [slice_of("n1", [device("a", {"numa": 0}), device("b", {"numa": 0}), device("c", {"numa": 1})])],
        [request(count=2)],
        [{"distinctAttribute": f"{DRIVER}/numa"}],
        ["n1/a", "n1/c"],
    ),
    (
        "a taint",
        [slice_of("n1", [device("a", taints=[{"key": "sick", "effect": "NoSchedule"}]), device("b")])],
        [request()],
        [],
        ["n1/b"],
    ),
    (
        "a taint without effect",
        [slice_of("n1", [device("a", taints=[{"key": "odd", "effect": "None"}])])],
        [request()],
        [],
        ["n1/a"],
    ),
    (
        "a taint that is tolerated",
        [slice_of("n1", [device("a", taints=[{"key": "sick", "value": "x", "effect": "NoExecute"}])])],
        [request(tolerations=[{"key": "sick", "operator": "Equal", "value": "x"}])],
        [],
        ["n1/a"],
    ),
    (
        "a taint of another value",
        [slice_of("n1", [device("a", taints=[{"key": "sick", "value": "x", "effect": "NoExecute"}])])],
        [request(tolerations=[{"key": "sick", "operator": "Equal", "value": "y"}])],
        [],
        [],
    ),
    (
        "the first option that can be had",
        [slice_of("n1", devices(2))],
        [first_of("r", option("many", count=3), option("two", count=2), option("one"))],
        [],
        ["n1/gpu-0", "n1/gpu-1"],
    ),
    (
        "a later option makes room for another request",
        [slice_of("n1", devices(2))],
        [first_of("r", option("two", count=2), option("one")), request("s")],
        [],
        ["n1/gpu-0", "n1/gpu-1"],
    ),
    (
        "shared counters: a partition takes its part of the card",
        [
            slice_of(
                "n1",
                name="counters",
                count=2,
                sharedCounters=[{"name": "card", "counters": {"mem": {"value": "40Gi"}}}],
            ),
            slice_of(
                "n1",
                [
                    device(n, consumesCounters=[{"counterSet": "card", "counters": {"mem": {"value": v}}}])
                    for n, v in (("whole", "40Gi"), ("half-0", "20Gi"), ("half-1", "20Gi"))
                ],
                name="devices",
                count=2,
            ),
        ],
        [request("a"), request("b")],
        [],
        ["n1/half-0", "n1/half-1"],
    ),
    (
        "counters that do not exist make the pool invalid",
        [slice_of("n1", [device("x", consumesCounters=[{"counterSet": "no", "counters": {"a": {"value": 1}}}])])],
        [request()],
        [],
        [],
    ),
    ("two devices of a name make the pool invalid", [slice_of("n1", [device("x"), device("x")])], [request()], [], []),
    (
        "a share of a device (consumable capacity)",
        [slice_of("n1", [device("nic", allowMultipleAllocations=True, capacity={"bw": {"value": "10"}})])],
        [request("a", capacity={"requests": {"bw": "6"}}), request("b", capacity={"requests": {"bw": "4"}})],
        [],
        ["n1/nic", "n1/nic"],
    ),
    (
        "more than the device has left",
        [slice_of("n1", [device("nic", allowMultipleAllocations=True, capacity={"bw": {"value": "10"}})])],
        [request("a", capacity={"requests": {"bw": "6"}}), request("b", capacity={"requests": {"bw": "5"}})],
        [],
        [],
    ),
    (
        "a capacity the device does not have",
        [slice_of("n1", [device("x"), device("y", capacity={"bw": {"value": "10"}})])],
        [request(capacity={"requests": {"bw": "1"}})],
        [],
        ["n1/y"],
    ),
]


@pytest.mark.parametrize(
    ("slices", "requests", "constraints", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_devices_of_a_claim(
    slices: list[objects.KubernetesObject], requests: list[Json], constraints: list[Json], expected: list[str]
) -> None:
    world = world_of(*slices, claim("c", *requests, constraints=constraints), user("p", "c"))
    assert got(world) == expected
    assert world.where == ({"p": "n1"} if expected else {})


def test_requests_of_capacity_are_rounded_by_the_policy_of_the_device() -> None:
    """requestPolicy: no request takes the default, one between two steps is rounded up (ConsumableCapacity)."""
    policy = {"default": "2", "validRange": {"min": "1", "step": "2", "max": "7"}}
    nic = device("nic", allowMultipleAllocations=True, capacity={"bw": {"value": "20", "requestPolicy": policy}})
    world = world_of(
        slice_of("n1", [nic]),
        claim("none", request()),
        claim("odd", request(capacity={"requests": {"bw": "4"}})),
        claim("much", request(capacity={"requests": {"bw": "8"}})),
        user("a", "none"),
        user("b", "odd"),
        user("c", "much"),
    )
    consumed = {
        name: grant.consumed["bw"] // 10**9
        for name in ("none", "odd")
        if (allocation := world.engine.cluster.devices.claims[f"default/{name}"].allocation) is not None
        for grant in allocation.grants
    }
    assert consumed == {"none": 2, "odd": 5}
    assert world.pending == ["c"], "9 would be more than max"


def test_admin_access_takes_nothing_away() -> None:
    """adminAccess: devices in use are given too, and stay free for others."""
    world = world_of(
        slice_of("n1", devices(1)),
        claim("own"),
        claim("watch", request(adminAccess=True, allocationMode="All")),
        claim("late"),
        user("a", "own"),
        user("b", "watch"),
        user("c", "late"),
    )
    assert got(world, "own") == got(world, "watch") == ["n1/gpu-0"]
    assert world.pending == ["c"]


def test_class_and_request_select_together() -> None:
    world = world_of(
        device_class(
            "big",
            'device.driver == "gpu.example.com"',
            f'device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0',
        ),
        slice_of(
            "n1",
            [
                device("small", {"model": "A"}, capacity={"memory": {"value": "16Gi"}}),
                device("other", {"model": "B"}, capacity={"memory": {"value": "80Gi"}}),
                device("right", {"model": "A"}, capacity={"memory": {"value": "40Gi"}}),
            ],
        ),
        claim("c", request("r", "big", f'device.attributes["{DRIVER}"].model == "A"')),
        user("p", "c"),
    )
    assert got(world) == ["n1/right"]


# -- why a pod does not get them -------------------------------------------------------------------------------------

FIT = "0/1 nodes are available: "
REFUSED: list[tuple[str, list[Any], str]] = [
    ("no such claim", [user("p", "c")], 'resourceclaim.resource.k8s.io "c" not found'),
    ("no such template", [user("p", templates=["t"])], "Pod default/p: ResourceClaim not created yet"),
    (
        "a claim that goes",
        [claim("c", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}), user("p", "c")],
        'resourceclaim "c" is being deleted',
    ),
    (
        "no such class",
        [claim("c", request("r", "none")), user("p", "c")],
        FIT + "request r: device class none does not exist. still not schedulable, " + PREEMPTION,
    ),
    (
        "no such class of an option",
        [claim("c", first_of("r", option("x"), option("y", "none"))), user("p", "c")],
        FIT + "request r/y: device class none does not exist. still not schedulable, " + PREEMPTION,
    ),
    (
        "nothing there",
        [claim("c"), user("p", "c")],
        FIT + "1 cannot allocate all claims. still not schedulable, " + PREEMPTION,
    ),
    (
        "an invalid pool",
        [slice_of("n1", [device("x"), device("x")]), claim("c"), user("p", "c")],
        FIT + "1 invalid resource pools were encountered. still not schedulable, " + PREEMPTION,
    ),
    (
        "a claim that is used as often as can be",
        [
            claim("c", status=allocated((DRIVER, "n1", "x"), to=[f"uid-{i}" for i in range(256)])),
            user("p", "c"),
        ],
        FIT + "resourceclaim in use. still not schedulable, " + PREEMPTION,
    ),
    (
        "allocated for another node, and used there",
        [claim("c", status=allocated((DRIVER, "n2", "x"), to=["uid-q"])), user("p", "c")],
        FIT + "1 resourceclaim not available on the node. still not schedulable, " + PREEMPTION,
    ),
]


@pytest.mark.parametrize(("items", "message"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_messages(items: list[Any], message: str) -> None:
    """Upstream's words."""
    world = world_of(*items)
    assert why(world) == message
    assert world.where == {}


GPU_ATTRIBUTE = f'device.attributes["{DRIVER}"]'
FAULTS: list[tuple[str, list[Any], str]] = [
    (
        "syntax",
        [claim("c", request("r", "gpu", "device."))],
        "claim default/c: selector #0: CEL compile error: compilation failed: Syntax error",
    ),
    ("a function that does not exist", [claim("c", request("r", "gpu", "f(1)"))], "undeclared reference to 'f'"),
    (
        "no boolean",
        [claim("c", request("r", "gpu", "1"))],
        "must evaluate to bool or the unknown type, not int",
    ),
    (
        "an attribute that is not there",
        [claim("c", request("r", "gpu", f"{GPU_ATTRIBUTE}.model == 'A'"))],
        "claim default/c: selector #0 on device gpu.example.com/n1/gpu-0: CEL runtime error: no such key: model",
    ),
    (
        "a selector of the class",
        [device_class("bad", "1 +"), claim("c", request("r", "bad"))],
        "class bad: selector #0: CEL compile error",
    ),
    (
        "a cost without bound",
        [claim("c", request("r", "gpu", _nested := "device.attributes.all(a, " * 5 + "true" + ")" * 5))],
        "too complex, exceeds cost limit",
    ),
    (
        "too many devices",
        [claim("c", request(count=33))],
        "claim default/c: number of requested devices 33 exceeds the claim limit of 32",
    ),
    (
        "an unknown kind of request",
        [claim("c", {"name": "r"})],
        "resource claim default/c, request r: unknown request type",
    ),
    (
        "an unknown constraint",
        [claim("c", constraints=[{"requests": []}])],
        "claim default/c, constraint #0: empty constraint",
    ),
    (
        "an unknown mode",
        [claim("c", request(allocationMode="Some"))],
        "claim default/c, request r: unsupported count mode Some",
    ),
    (
        "all of an incomplete pool",
        [slice_of("n1", pool="half", count=2), claim("c", request(allocationMode="All"))],
        "asks for all devices, but resource pool gpu.example.com/half is currently being updated",
    ),
]


@pytest.mark.parametrize(("items", "message"), [f[1:] for f in FAULTS], ids=[f[0] for f in FAULTS])
def test_claim_or_class_error_is_an_error_of_the_attempt(items: list[Any], message: str) -> None:
    """Upstream aborts the attempt: another node would not help."""
    world = World(node("n1"), device_class(), slice_of("n1", devices(1)), *items, user("p", "c"))
    decision = world.step()
    (rejection,) = decision.rejections
    assert rejection.reason == "SchedulerError"
    assert rejection.message.startswith("running Filter plugin 'DynamicResources': DeviceError: ")
    assert message in rejection.message
    assert decision.rejected_by == frozenset(), "tried again after backoff, not when something happens"


def test_search_without_end_is_given_up() -> None:
    """Instead of upstream's filterTimeout: a number of steps, so that the same input gives the same answer."""
    clash = [device(f"d-{i}", {"x": i % 3}) for i in range(60)]
    names = [f"r{i}" for i in range(6)]
    apart = [{"requests": [name], "distinctAttribute": f"{DRIVER}/x"} for name in names]
    wanted = claim("c", *(request(name, count=4) for name in names), constraints=apart)
    world = world_of(slice_of("n1", clash), wanted, user("p", "c"))
    assert "1 gave up trying to allocate devices after 20000 steps. " in why(world)
    assert world.where == {}


def test_request_without_enough_devices_is_not_searched_for_long() -> None:
    alike = [device(f"d-{i}", {"x": 0}) for i in range(24)]
    rare = request("b", "gpu", f'device.attributes["{DRIVER}"].x == 1')
    world = world_of(slice_of("n1", alike), claim("c", request("a", count=8), rare), user("p", "c"))
    assert "1 cannot allocate all claims. " in why(world)


# -- claims: by name, shared, from templates -------------------------------------------------------------------------


def test_pods_share_a_claim_by_name_where_its_devices_are() -> None:
    world = world_of(
        slice_of("n1", devices(1)),
        slice_of("n2", devices(1)),
        claim("c"),
        *(user(f"p{i}", "c") for i in range(3)),
        nodes=2,
    )
    assert set(world.where.values()) == {"n1"}
    assert world.engine.cluster.devices.claims["default/c"].consumers == {"uid-p0", "uid-p1", "uid-p2"}


def test_allocated_claim_decides_the_node() -> None:
    world = world_of(claim("c", status=allocated((DRIVER, "n2", "x"))), user("p", "c"), nodes=3)
    assert world.where == {"p": "n2"}


def test_allocation_without_node_selector_is_good_everywhere() -> None:
    world = world_of(claim("c", status=allocated((DRIVER, "net", "x"), node=None)), user("p", "c"), nodes=2)
    assert world.where == {"p": "n1"}


def test_devices_that_are_allocated_in_the_api_are_taken() -> None:
    taken = claim("old", status=allocated((DRIVER, "n1", "gpu-0"), to=["uid-somebody"]))
    world = world_of(slice_of("n1", devices(2)), taken, claim("c"), user("p", "c"))
    assert got(world) == ["n1/gpu-1"]


def test_claim_of_another_template_is_refused() -> None:
    """resourceclaim.IsForPod."""
    made = msgspec.structs.replace(
        user("p", templates=["t"]),
        status=objects.PodStatus(
            resource_claim_statuses=(objects.PodResourceClaimStatus(name="t", resource_claim_name="c"),)
        ),
    )
    world = world_of(slice_of("n1", devices(1)), claim("c"), made)
    assert why(world) == "ResourceClaim default/c was not created for Pod default/p (Pod is not owner)"


def test_claim_that_is_not_needed_is_skipped() -> None:
    """A template's entry in the status without a name: none was made on purpose."""
    made = msgspec.structs.replace(
        user("p", templates=["t"]),
        status=objects.PodStatus(resource_claim_statuses=(objects.PodResourceClaimStatus(name="t"),)),
    )
    assert world_of(made).where == {"p": "n1"}


def test_pod_is_tried_when_its_claim_appears() -> None:
    world = world_of(slice_of("n1", devices(1)), user("p", "c"))
    assert world.pending == ["p"]
    world.add(claim("c")).settle()
    assert world.where == {"p": "n1"}


def test_pod_is_tried_when_devices_appear_and_when_a_class_does() -> None:
    world = world_of(claim("c", request("r", "new")), user("p", "c"))
    world.add(device_class("new")).settle()
    assert why(world).startswith("0/1 nodes are available: 1 cannot allocate all claims.")
    world.add(slice_of("n1", devices(1))).settle()
    assert world.where == {"p": "n1"}


def test_pod_is_tried_when_a_claim_gives_its_devices_back() -> None:
    old = claim("old", status=allocated((DRIVER, "n1", "gpu-0"), to=["uid-q"]))
    world = world_of(slice_of("n1", devices(1)), old, claim("c"), user("p", "c"))
    assert world.pending == ["p"]
    world.engine.set(claim("old"), world.now)
    world.settle()
    assert world.where == {"p": "n1"}


def test_pod_that_ends_gives_its_devices_to_the_next() -> None:
    world = world_of(slice_of("n1", devices(1)), template(), user("a", templates=["t"]), user("b", templates=["t"]))
    assert world.where == {"a": "n1"}
    world.virtual.delete("Pod", "default", "a")
    world.settle()
    assert world.where == {"b": "n1"}
