"""Extended resources that device classes serve (docs/rules/devices.md 4; KEP-5004)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from kube_rules import objects
from kube_rules.decoding import decode_object
from kube_rules.meta import ObjectRef
from reprieve.cluster.extended_resources import ANNOTATION, asks_of, claim_name, requests_of, served_by
from reprieve.framework.gates import FeatureGates
from reprieve.framework.instructions import CreateObject, DeleteObject, PatchObject
from tests import manifests
from tests.building import START, World, group, node
from tests.plugins.devices import DRIVER, Json, allocated, claim, device_class, devices, slice_of, user, why

GPU = "example.com/gpu"
IMPLICIT = "deviceclass.resource.kubernetes.io/gpu"
NIC = "example.com/nic"


def serving(name: str = "gpu", resource: str | None = GPU, created: float | None = None) -> objects.DeviceClass:
    found = device_class(name, **({"extendedResourceName": resource} if resource else {}))
    stamp = datetime.fromtimestamp(START + created, UTC) if created is not None else None
    return replace(found, metadata=replace(found.metadata, creation_timestamp=stamp))


def container(name: str = "c", /, **requests: int) -> Json:
    """A container; `gpu`, `nic` and `own` (the implicit name) are counts."""
    names = {"gpu": GPU, "nic": NIC, "own": IMPLICIT}
    return {"name": name, "resources": {"requests": {names.get(n, n): str(v) for n, v in requests.items()}}}


def pod(name: str = "p", *containers: Json, init: list[Json] | None = None, **spec: Any) -> objects.Pod:
    body = {"containers": list(containers or [container(gpu=1)]), "initContainers": init or [], **spec}
    decoded = decode_object(manifests.pod(name, meta={"namespace": "default", "uid": f"uid-{name}"}, **body))
    assert isinstance(decoded, objects.Pod)
    return decoded


def of_group(made: objects.Pod, name: str) -> objects.Pod:
    return replace(made, spec=replace(made.spec, scheduling_group=objects.PodSchedulingGroup(pod_group_name=name)))


def running(made: objects.Pod, where: str, priority: int = 0) -> objects.Pod:
    return replace(made, spec=replace(made.spec, node_name=where, priority=priority))


def world_of(*items: Any, count: int = 2, nodes: int = 1, **options: Any) -> World:
    there = [node(f"n{i + 1}", cpu=8) for i in range(nodes)]
    slices = [slice_of(f"n{i + 1}", devices(count)) for i in range(nodes)]
    return World(*there, *slices, *items, **options).settle()


def special(world: World, name: str = "p") -> objects.ResourceClaim | None:
    """The claim that the API has for a pod's extended resources."""
    state = world.engine.cluster.devices.special(world.record(name))
    return state.object if state is not None else None


def chosen(world: World, name: str = "p") -> list[str]:
    made = special(world, name)
    assert made is not None
    assert made.status.allocation is not None
    return [f"{one['pool']}/{one['device']}" for one in made.status.allocation.devices["results"]]


# -- which class serves what ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("classes", "served"),
    [
        ([serving("a", None)], {"deviceclass.resource.kubernetes.io/a": "a"}),
        ([serving("a")], {"deviceclass.resource.kubernetes.io/a": "a", GPU: "a"}),
        ([serving("b"), serving("a")], {GPU: "a"}),
        ([serving("a", created=1), serving("b", created=2)], {GPU: "b"}),
        ([serving("b", created=2), serving("a", created=2)], {GPU: "a"}),
    ],
)
def test_which_class_serves_a_resource(classes: list[objects.DeviceClass], served: dict[str, str]) -> None:
    """devices.md 4.1"""
    found = served_by(classes)
    assert {name: found[name] for name in served} == served


# -- which requests containers make -----------------------------------------------------------------------------------

SIDECAR = {"restartPolicy": "Always"}
REQUESTS: list[tuple[str, objects.Pod, list[tuple[str, int]], list[tuple[str, str]]]] = [
    ("one", pod("p", container(gpu=2)), [("container-0-request-0", 2)], [("c", "container-0-request-0")]),
    (
        "counted among all that the container asks for",
        pod("p", container(cpu=1, gpu=1, memory=5)),
        [("container-0-request-1", 1)],
        [("c", "container-0-request-1")],
    ),
    (
        "each container its own",
        pod("p", container("a", gpu=1), container("b"), container("c", gpu=3)),
        [("container-0-request-0", 1), ("container-2-request-0", 3)],
        [("a", "container-0-request-0"), ("c", "container-2-request-0")],
    ),
    (
        "an init container borrows",
        pod("p", container("a", gpu=2), init=[container("i", gpu=1)]),
        [("container-1-request-0", 2)],
        [("a", "container-1-request-0"), ("i", "container-1-request-0")],
    ),
    (
        "an init container borrows from several",
        pod("p", container("a", gpu=1), container("b", gpu=1), init=[container("i", gpu=2)]),
        [("container-1-request-0", 1), ("container-2-request-0", 1)],
        [
            ("a", "container-1-request-0"),
            ("b", "container-2-request-0"),
            ("i", "container-1-request-0"),
            ("i", "container-2-request-0"),
        ],
    ),
    (
        "an init container needs more",
        pod("p", container("a", gpu=1), init=[container("i", gpu=4)]),
        [("container-0-request-0", 3), ("container-1-request-0", 1)],
        [("a", "container-1-request-0"), ("i", "container-1-request-0"), ("i", "container-0-request-0")],
    ),
    (
        "init containers share the most that one needs",
        pod("p", container("a"), init=[container("i", gpu=1), container("j", gpu=3), container("k", gpu=2)]),
        [("container-1-request-0", 3)],
        [("i", "container-1-request-0"), ("j", "container-1-request-0"), ("k", "container-1-request-0")],
    ),
    (
        "a sidecar keeps its own",
        pod("p", container("a", gpu=1), init=[{**container("s", gpu=1), **SIDECAR}, container("i", gpu=1)]),
        [("container-0-request-0", 1), ("container-2-request-0", 1)],
        [("s", "container-0-request-0"), ("a", "container-2-request-0"), ("i", "container-2-request-0")],
    ),
    (
        "a sidecar that comes later lends too",
        pod("p", container("a"), init=[container("i", gpu=1), {**container("s", gpu=1), **SIDECAR}]),
        [("container-1-request-0", 1)],
        [("s", "container-1-request-0"), ("i", "container-1-request-0")],
    ),
    (
        "two resources",
        pod("p", container("a", gpu=1, nic=2)),
        [("container-0-request-0", 1), ("container-0-request-1", 2)],
        [("a", "container-0-request-0"), ("a", "container-0-request-1")],
    ),
    ("none of it", pod("p", container("a", gpu=0)), [], []),
]


@pytest.mark.parametrize(
    ("made", "requests", "mapped"), [row[1:] for row in REQUESTS], ids=[row[0] for row in REQUESTS]
)
def test_containers_ask_of_device_classes(
    made: objects.Pod, requests: list[tuple[str, int]], mapped: list[tuple[str, str]]
) -> None:
    """devices.md 4.4; the cases are those of kube-scheduler's createRequestsAndMappings."""
    served = {GPU: "gpu", NIC: "nic"}
    found, mappings = requests_of(asks_of(made.spec), served, served)
    assert [(one["name"], one["exactly"]["count"]) for one in found] == requests
    assert [(one.container, one.request) for one in mappings] == mapped
    for one in found:
        resource = next(m.resource for m in mappings if m.request == one["name"])
        assert one["exactly"]["deviceClassName"] == served[resource]
        assert one["exactly"]["allocationMode"] == "ExactCount"


# -- where the pod goes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("klass", "asked"),
    [(serving(), {"gpu": 2}), (serving("gpu", None), {"own": 2}), (serving(), {"gpu": 1, "own": 1})],
)
def test_class_serves_it_by_either_name(klass: objects.DeviceClass, asked: dict[str, int]) -> None:
    """devices.md 4.1, 4.4-4.5"""
    world = world_of(klass, pod("p", container(**asked)))
    assert world.where == {"p": "n1"}
    made = special(world)
    assert made is not None
    assert made.metadata.name == claim_name("p", "uid-p")
    assert made.metadata.annotations == {ANNOTATION: "true"}
    (owner,) = made.metadata.owner_references
    assert (owner.kind, owner.name, owner.uid, owner.controller) == ("Pod", "p", "uid-p", True)
    assert [one.uid for one in made.status.reserved_for] == ["uid-p"]
    assert chosen(world) == ["n1/gpu-0", "n1/gpu-1"]


@pytest.mark.parametrize(
    ("items", "reason"),
    [
        ([serving(), pod("p", container(gpu=3))], "cannot allocate all claims"),
        ([serving(), pod("p", container(gpu=33))], "too many devices for the claim of extended resources"),
        ([serving("gpu", None), pod("p", container(gpu=1))], f"Insufficient {GPU}"),
        ([device_class("other"), pod("p", container(own=1))], f"Insufficient {IMPLICIT}"),
        ([serving("gpu", NIC), pod("p", container(gpu=1, nic=1))], f"Insufficient {GPU}"),
    ],
)
def test_why_it_waits(items: list[Any], reason: str) -> None:
    """devices.md 4.2-4.3"""
    world = world_of(*items)
    assert world.where == {}
    assert reason in why(world)
    assert "not supported" not in why(world)


def test_node_with_devices_of_its_own_serves_them_itself() -> None:
    """devices.md 4.2: and no more than those, whatever the class has there."""
    own = node("a1", cpu=8, more={GPU: 1})
    world = World(own, slice_of("a1", devices(4)), serving(), pod("p"), pod("q")).settle()
    assert world.where == {"p": "a1"}
    assert special(world) is None
    assert f"Insufficient {GPU}" in why(world, "q")


def test_nodes_of_either_kind_serve_one_pod_each() -> None:
    """devices.md 4.2"""
    plugin = node("a1", cpu=8, more={GPU: 1})
    world = World(
        plugin, node("n1", cpu=8), slice_of("n1", devices(1)), serving(), pod("p"), pod("q"), pod("r")
    ).settle()
    assert sorted(world.where.values()) == ["a1", "n1"]
    placed = {where: name for name, where in world.where.items()}
    assert special(world, placed["a1"]) is None
    assert chosen(world, placed["n1"]) == ["n1/gpu-0"]


def test_one_resource_from_the_node_another_from_a_class() -> None:
    """devices.md 4.2"""
    own = node("n1", cpu=8, more={NIC: 1})
    world = World(own, slice_of("n1", devices(1)), serving(), serving("nics", NIC), pod("p", container(gpu=1, nic=1)))
    assert world.settle().where == {"p": "n1"}
    made = special(world)
    assert made is not None
    (asked,) = made.spec.devices["requests"]
    assert asked["exactly"]["deviceClassName"] == "gpu"


def test_resources_of_a_pod_may_be_many() -> None:
    """devices.md 4.2: each of them here by a class, there by the node."""
    names = [f"example.com/r{number}" for number in range(70)]
    asks = {"name": "c", "resources": {"requests": dict.fromkeys(names, "1")}}
    classes = [serving(f"c{number}", name) for number, name in enumerate(names)]
    own = node("a1", cpu=8, more=dict.fromkeys(names[1:], 1))
    others = [node("b1", cpu=8), node("b2", cpu=8), node("b3", cpu=8, more={names[1]: 1})]
    world = World(own, *others, slice_of("a1", devices(1)), *classes, pod("p", asks)).settle()
    assert world.where == {"p": "a1"}
    made = special(world)
    assert made is not None
    assert len(made.spec.devices["requests"]) == 1


def test_beside_claims_of_its_own() -> None:
    """devices.md 4.3: all of them are allocated together."""
    asks = user("p", "c")
    both = replace(asks, spec=replace(asks.spec, containers=pod("p", container(gpu=1)).spec.containers))
    world = world_of(serving(), claim(), both)
    assert world.where == {"p": "n1"}
    assert chosen(world) == ["n1/gpu-1"]
    assert world_of(serving(), claim(), both, count=1).where == {}


def test_new_class_wakes_pending_pods() -> None:
    """devices.md 4.7"""
    world = world_of(pod("p"), pod("q", container(own=1)))
    assert world.where == {}
    world.add(serving("gpu", None)).settle()
    assert world.where == {"q": "n1"}
    world.add(serving()).settle()
    assert world.where == {"p": "n1", "q": "n1"}


def test_deleted_class_serves_no_pods() -> None:
    """devices.md 4.1, 4.7: a running pod keeps what it has."""
    world = world_of(serving(), pod("p"))
    world.engine.remove(ObjectRef("DeviceClass", "gpu"), world.now)
    world.add(pod("q")).settle()
    assert world.where == {"p": "n1"}
    assert chosen(world) == ["n1/gpu-0"]
    assert f"Insufficient {GPU}" in why(world, "q")


def test_devices_are_free_when_the_pod_is_gone() -> None:
    """devices.md 4.6"""
    world = world_of(serving(), pod("p"), pod("q"), count=1)
    assert world.where == {"p": "n1"}
    world.virtual.delete("Pod", "default", "p")
    assert world.settle().where == {"q": "n1"}


def test_gang_gets_all_or_none() -> None:
    """devices.md 4.6, scheduling.md 3.1: each member sees what the others take."""
    members = [of_group(pod(f"g-{i}"), "g") for i in range(3)]
    world = world_of(serving(), group("g", min_count=3), *members, count=2)
    assert world.where == {}
    assert not world.engine.cluster.devices.in_use.whole
    assert world_of(serving(), group("g", min_count=3), *members, count=2, nodes=2).where.keys() == {
        "g-0",
        "g-1",
        "g-2",
    }


@pytest.mark.parametrize("whole", [False, True])
def test_preemption_frees_what_victims_have(whole: bool) -> None:
    """devices.md 4.6: as few as possible are evicted; a spared pod keeps devices and claim."""
    low = [of_group(pod(f"low-{i}"), "low") for i in range(2)] if whole else [pod("low-0"), pod("low-1")]
    groups = [group("low", min_count=2, whole=True, priority=0)] if whole else []
    world = world_of(serving(), *groups, *low, count=2)
    assert world.where == {"low-0": "n1", "low-1": "n1"}
    high = pod("high")
    world.add(replace(high, spec=replace(high.spec, priority=10))).settle()
    assert world.where["high"] == "n1"
    assert len(world.where) == (1 if whole else 2)
    assert len({name for one in world.where for name in chosen(world, one)}) == len(world.where)


def test_gang_preempts_for_devices() -> None:
    """devices.md 4.6"""
    world = world_of(serving(), pod("low-0"), pod("low-1"), pod("low-2"), count=3)
    members = [of_group(pod(f"g-{i}"), "g") for i in range(2)]
    members = [replace(one, spec=replace(one.spec, priority=10)) for one in members]
    world.add(group("g", min_count=2, priority=10), *members).settle()
    assert {"g-0", "g-1"} <= world.where.keys()
    assert len(world.where) == 3


# -- what an attempt leaves -------------------------------------------------------------------------------------------


def left_over(name: str = "p", **status: Any) -> objects.ResourceClaim:
    metadata = {
        "annotations": {ANNOTATION: "true"},
        "ownerReferences": [
            {"kind": "Pod", "apiVersion": "v1", "name": name, "uid": f"uid-{name}", "controller": True}
        ],
    }
    return claim(claim_name(name, f"uid-{name}"), metadata=metadata, **status)


@pytest.mark.parametrize("status", [{}, allocated((DRIVER, "n1", "gpu-0"), to=["uid-p"])])
@pytest.mark.parametrize("first", ["claim", "pod"])
def test_claims_left_by_a_killed_attempt_are_deleted(status: Json, first: str) -> None:
    """devices.md 4.6: then the pod is tried again."""
    items = [left_over(status=status), pod("p")]
    world = world_of(serving(), *(items if first == "claim" else items[::-1]), count=1)
    assert world.where == {"p": "n1"}
    assert chosen(world) == ["n1/gpu-0"]


def test_binding_that_fails_deletes_its_claim() -> None:
    """devices.md 4.6"""
    world = world_of(serving(), count=1)
    world.engine.set(pod("p"), world.now)
    decision = world.engine.step(world.now).decision
    assert decision is not None
    (binding,) = decision.bindings
    assert world.engine.cluster.devices.in_use.whole
    world.engine.set(left_over(), world.now)
    (removal,) = world.engine.fail_binding("uid-p", world.now).writes
    assert not world.engine.cluster.devices.in_use.whole
    assert isinstance(removal, DeleteObject)
    name = claim_name("p", "uid-p")
    assert (removal.kind, removal.name, removal.uid) == ("ResourceClaim", name, f"uid-claim-{name}")
    assert removal.finalizer == "resource.kubernetes.io/delete-protection"
    assert binding.pre_bind


def test_claim_made_meanwhile_takes_the_place_of_the_assumed_one() -> None:
    """devices.md 4.5: no device is counted twice, whatever is heard first."""
    world = world_of(serving(), count=2)
    engine = world.engine
    engine.set(pod("p"), world.now)
    assert engine.step(world.now).decision is not None
    for status in ({}, allocated((DRIVER, "n1", "gpu-0"), to=["uid-p"])):
        engine.set(left_over(status=status), world.now)
        assert engine.cluster.devices.in_use.whole == {(DRIVER, "n1", "gpu-0"): 1}
        engine.cluster.check()
    engine.confirm_binding("uid-p")
    engine.cluster.check()


def test_pods_that_run_keep_their_devices() -> None:
    """devices.md 4.5: read from a cluster."""
    status = allocated((DRIVER, "n1", "gpu-0"), to=["uid-p"])
    world = world_of(serving(), running(pod("p"), "n1"), left_over(status=status), pod("q"), pod("r"), count=2)
    assert world.where.keys() >= {"p"}
    assert len(world.where) == 2
    assert {chosen(world, name)[0] for name in world.where} == {"n1/gpu-0", "n1/gpu-1"}


def test_gate_is_on() -> None:
    """devices.md 4.8"""
    assert FeatureGates().dra_extended_resource
    off = FeatureGates.parse("DRAExtendedResource=false")
    world = world_of(serving(), pod("p"), gates=off)
    assert world.where == {}
    assert f"Insufficient {GPU}" in why(world)


def test_instructions_write_claim_allocation_and_status_in_order() -> None:
    """devices.md 4.5: claim, allocation, the pod's status; in this order."""
    world = world_of(serving(), count=3)
    world.engine.set(pod("p", container("a", gpu=2), init=[container("i", gpu=1)]), world.now)
    decision = world.engine.step(world.now).decision
    assert decision is not None
    create, allocate, say = decision.bindings[0].pre_bind
    assert isinstance(create, CreateObject)
    assert isinstance(allocate, PatchObject)
    assert isinstance(say, PatchObject)
    name = claim_name("p", "uid-p")
    assert create.body["metadata"]["name"] == name
    assert create.body["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
    assert (allocate.kind, allocate.name, allocate.subresource) == ("ResourceClaim", name, "status")
    assert [one["device"] for one in allocate.patch["status"]["allocation"]["devices"]["results"]] == ["gpu-0", "gpu-1"]
    assert (say.kind, say.name, say.subresource, say.uid) == ("Pod", "p", "status", "uid-p")
    said = say.patch["status"]["extendedResourceClaimStatus"]
    assert said == {
        "resourceClaimName": name,
        "requestMappings": [
            {"containerName": "a", "resourceName": GPU, "requestName": "container-1-request-0"},
            {"containerName": "i", "resourceName": GPU, "requestName": "container-1-request-0"},
        ],
    }
