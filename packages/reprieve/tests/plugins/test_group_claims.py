"""Device claims of a PodGroup (KEP-5729): made once, shared by its pods, reserved for it, given back with it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kube_rules import objects
from reprieve.framework.instructions import PatchObject
from reprieve.plugins.dynamic_resources import DynamicResources
from tests.building import World, gang, node, pod
from tests.plugins.devices import DRIVER, Json, allocated, claim, device_class, devices, got, slice_of, template, why

OURS = [{"name": "dev", "resourceClaimTemplateName": "t"}]
NAMED = [{"name": "dev", "resourceClaimName": "c"}]


def entries(item: Any, kind: type[Any], given: list[Json]) -> Any:
    claims = tuple(msgspec.convert(one, kind) for one in given)
    return msgspec.structs.replace(item, spec=msgspec.structs.replace(item.spec, resource_claims=claims))


def sharing(name: str, size: int, given: list[Json], theirs: list[Json] | None = None, **options: Any) -> list[Any]:
    """A gang with claims; its pods (of one core each) name the same ones, or `theirs`."""
    group, *pods = gang(name, size, **{"cpu": 1, **options})
    wanted = given if theirs is None else theirs
    made = [entries(each, objects.PodResourceClaim, wanted) for each in pods]
    return [entries(group, objects.PodGroupResourceClaim, given), *made]


def consumers(world: World, name: str) -> list[tuple[str, str, str, str]]:
    item = world.engine.cluster.devices.claims[f"default/{name}"].object
    assert item is not None
    return [(one.api_group, one.resource, one.name, one.uid) for one in item.status.reserved_for]


def owned(name: str = "g-dev", by: str = "uid-g", kind: str = "PodGroup", **more: Any) -> objects.ResourceClaim:
    """The claim that was made for the group's entry."""
    owner = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": kind, "name": "g", "uid": by, "controller": True}
    notes = {"resource.kubernetes.io/pod-claim-name": "dev"}
    return claim(name, metadata={"ownerReferences": [owner], "annotations": notes}, **more)


def group_uid(world: World) -> str:
    return world.engine.cluster.groups["default/g"].uid


@pytest.mark.parametrize(("given", "name"), [(OURS, "g-dev"), (NAMED, "c")])
def test_all_pods_of_a_group_share_its_claim(given: list[Json], name: str) -> None:
    """One claim, by template or by name; all pods go where its device is; it is reserved once, for the group."""
    world = World(node("n1", cpu=8), node("n2", cpu=8), device_class(), slice_of("n2", devices(1)), template())
    world.add(claim("c"), sharing("g", 3, given)).settle()
    assert world.where == dict.fromkeys(("g-0", "g-1", "g-2"), "n2")
    assert got(world, name) == ["n2/gpu-0"]
    assert consumers(world, name) == [("scheduling.k8s.io", "podgroups", "g", group_uid(world))]
    assert set(world.engine.cluster.devices.claims) == {"default/c", f"default/{name}"}


def test_device_that_not_all_members_reach_is_none_for_the_gang() -> None:
    """All or nothing: the one node with a device has room for two of three."""
    world = World(node("n1", cpu=2), node("n2", cpu=8), device_class(), slice_of("n1", devices(1)), template())
    world.add(sharing("g", 3, OURS)).settle()
    assert world.where == {}
    assert world.engine.cluster.devices.in_use.whole == {}


@pytest.mark.parametrize("given", [OURS, NAMED])
def test_device_is_taken_where_all_members_have_room(given: list[Json]) -> None:
    """The first member likes the emptier n1 best, where only two have room; n2 holds all three."""
    world = World(node("n1", cpu=2), node("n2", cpu=8), device_class(), template(), claim("c"))
    world.add(slice_of("n1", devices(1)), slice_of("n2", devices(1)), pod("there", cpu=5, node="n2"))
    world.add(sharing("g", 3, given)).settle()
    assert [world.where[f"g-{number}"] for number in range(3)] == ["n2"] * 3


def test_reach_of_a_device_for_selected_nodes_is_found_whole() -> None:
    """Two racks with a device each: the gang needs both nodes of the second."""
    names = ["a1", "b1", "b2"]
    world = World(*(node(name, cpu=2, labels={"rack": name[0]}) for name in names), device_class(), template())
    for rack in "ab":
        terms = [{"matchExpressions": [{"key": "rack", "operator": "In", "values": [rack]}]}]
        world.add(slice_of(None, devices(1), pool=rack, nodeSelector={"nodeSelectorTerms": terms}))
    world.add(pod("there", cpu=1, node="b1"), sharing("g", 3, OURS)).settle()
    assert sorted(world.where[f"g-{number}"] for number in range(3)) == ["b1", "b2", "b2"]


def test_device_of_the_network_is_shared_across_nodes() -> None:
    world = World(node("n1", cpu=2), node("n2", cpu=2), device_class(), template())
    world.add(slice_of(None, devices(1), allNodes=True), sharing("g", 4, OURS)).settle()
    assert sorted(world.where.values()) == ["n1", "n1", "n2", "n2"]


@pytest.mark.parametrize(
    "theirs",
    [
        [{"name": "other", "resourceClaimTemplateName": "t"}],
        [{"name": "dev", "resourceClaimTemplateName": "u"}],
    ],
)
def test_entry_that_differs_from_the_groups_is_the_pods_own(theirs: list[Json]) -> None:
    """The pod's entry has to be equal in all fields."""
    world = World(node("n1", cpu=8), device_class(), slice_of("n1", devices(5)), template(), template("u"))
    world.add(sharing("g", 2, OURS, theirs)).settle()
    assert len(world.where) == 2
    own = [f"g-{number}-{theirs[0]['name']}" for number in range(2)]
    assert sorted(got(world, name)[0] for name in own) == ["n1/gpu-0", "n1/gpu-1"]
    assert consumers(world, own[0]) == [("", "pods", "g-0", "uid-g-0")]
    assert got(world, "g-dev") == []


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (1, 0, 2)])
def test_group_pods_and_template_come_in_any_order(order: tuple[int, int, int]) -> None:
    """For pods of a missing group no claim is made: which claim they mean is not known yet."""
    group, *pods = sharing("g", 2, OURS)
    parts = [[template()], [group], pods]
    world = World(node("n1", cpu=8), device_class(), slice_of("n1", devices(2)))
    for index in order:
        assert world.where == {}
        world.add(parts[index]).settle()
    assert world.where == {"g-0": "n1", "g-1": "n1"}
    assert [key for key in world.engine.cluster.devices.claims if key != "default/g-dev"] == []


def test_two_groups_of_one_template_have_a_device_each() -> None:
    world = World(node("n1", cpu=8), device_class(), slice_of("n1", devices(2)), template())
    world.add(sharing("g", 2, OURS), sharing("h", 2, OURS)).settle()
    assert len(world.where) == 4
    assert sorted(got(world, "g-dev") + got(world, "h-dev")) == ["n1/gpu-0", "n1/gpu-1"]


def test_groups_devices_come_back_when_the_group_is_gone() -> None:
    """Not with its pods: more of them may come (KEP-5729, "Deallocate")."""
    world = World(node("n1", cpu=8), device_class(), slice_of("n1", devices(1)), template(), claim("c"))
    world.add(sharing("g", 2, NAMED)).settle()
    for name in ("g-0", "g-1"):
        world.virtual.delete("Pod", "default", name)
    world.settle()
    assert world.where == {}
    assert got(world) == ["n1/gpu-0"]
    world.add(sharing("h", 1, OURS)).settle()
    assert world.where == {}
    world.virtual.delete("PodGroup", "default", "g")
    world.settle()
    assert world.where == {"h-0": "n1"}
    assert consumers(world, "c") == []


def test_no_pods_are_evicted_for_the_devices_of_a_group() -> None:
    """They stay with the group when its pods go, so it would not help."""
    world = World(node("n1", cpu=8), device_class(), slice_of("n1", devices(1)), template())
    world.add(sharing("g", 1, OURS)).settle()
    world.add(sharing("h", 1, OURS, priority=10)).settle()
    assert world.where == {"g-0": "n1"}
    assert world.virtual.preemptions == []


def test_claim_that_is_not_the_groups_is_refused() -> None:
    wrong = owned(by="somebody")
    world = World(node("n1", cpu=8), device_class(), slice_of("n1", devices(1)), wrong)
    group, member = sharing("g", 1, OURS)
    made = {"resourceClaimStatuses": [{"name": "dev", "resourceClaimName": "g-dev"}]}
    status = msgspec.convert(made, objects.PodStatus)
    world.add(group, msgspec.structs.replace(member, status=status)).settle()
    assert world.where == {}
    assert "ResourceClaim default/g-dev was not created for PodGroup default/g (PodGroup is not owner)" in why(
        world, "g-0"
    )


def test_many_pods_are_one_consumer() -> None:
    """A claim has at most 256 consumers; the group is one, with 300 pods as with two."""
    world = World(node("n1", cpu=400, pods=400), device_class())
    world.add(slice_of("n1", devices(1)), template(), sharing("g", 300, OURS)).settle()
    assert len(world.where) == 300
    assert len(consumers(world, "g-dev")) == 1


def test_claim_writes_name_the_group() -> None:
    world = World(node("n1"), device_class(), slice_of("n1", devices(1)), template(), sharing("g", 2, OURS))
    for binding in world.step().bindings:
        status = binding.pre_bind[-1]
        assert isinstance(status, PatchObject)
        consumer = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": group_uid(world)}
        assert status.patch["status"]["reservedFor"] == [consumer]
        assert set(status.patch["status"]) == {"allocation", "reservedFor"}


def test_group_gives_back_what_none_of_its_pods_can_use() -> None:
    """PodGroupPostFilter: allocated before a crash, reserved for the group or a member, on a node without room."""
    stuck = allocated((DRIVER, "n2", "gpu-0"))
    stuck["reservedFor"] = [
        {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "uid-g"},
        {"resource": "pods", "name": "g-0", "uid": "uid-g-0"},
    ]
    group, *pods = sharing("g", 2, NAMED)
    group = msgspec.structs.replace(group, metadata=msgspec.structs.replace(group.metadata, uid="uid-g"))
    world = World(node("n1", cpu=8), node("n2", cpu=1), device_class(), claim("c", status=stuck), group, *pods)
    world.add(slice_of("n1", devices(1)), slice_of("n2", devices(1)))
    decision = world.step()
    assert decision.condition is not None
    assert decision.condition.message.endswith("deallocation of ResourceClaim requested")
    world.virtual.carry_out_writes()
    world.settle()
    assert world.where == {"g-0": "n1", "g-1": "n1"}
    assert consumers(world, "c") == [("scheduling.k8s.io", "podgroups", "g", "uid-g")]


@pytest.mark.parametrize(
    "consumer",
    [
        {"resource": "pods", "name": "x", "uid": "uid-x"},
        {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "x", "uid": "uid-x"},
        {"apiGroup": "example.com", "resource": "things", "name": "x", "uid": "uid-x"},
    ],
)
def test_group_gives_back_nothing_with_another_consumer(consumer: Json) -> None:
    stuck = allocated((DRIVER, "n2", "gpu-0"))
    stuck["reservedFor"] = [consumer]
    world = World(node("n1", cpu=8), node("n2", cpu=1), device_class(), claim("c", status=stuck))
    world.add(slice_of("n2", devices(1)), sharing("g", 2, NAMED))
    decision = world.step()
    assert decision.condition is not None
    assert "deallocation" not in decision.condition.message
    assert world.virtual.writes == []


def test_gate_that_is_off_is_named() -> None:
    """Never its own claim instead: the pod would get a device that no other pod of the group has."""
    world = World(node("n1"), device_class(), slice_of("n1", devices(1)), template(), sharing("g", 1, OURS))
    plugin = DynamicResources(group_claims=False)
    status = plugin.pre_enqueue(world.engine.cluster, world.record("g-0"))
    assert status.reason == "PodGroup default/g, spec.resourceClaims: the feature gate DRAWorkloadResourceClaims is off"
