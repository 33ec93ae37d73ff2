"""Pods with several claims, disks, drivers and rules: the answer for one does not hide what the next needs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kube_rules.meta import ObjectRef
from reprieve.framework.instructions import PatchObject
from reprieve.framework.plugin import Placement
from reprieve.plugins.gang_scheduling import GangScheduling
from reprieve.plugins.inter_pod_affinity import InterPodAffinity
from reprieve.plugins.node_resources_balanced import NodeResourcesBalancedAllocation
from reprieve.plugins.node_resources_fit import NodeResourcesFit
from reprieve.plugins.node_volume_limits import TOO_MANY, NodeVolumeLimits
from reprieve.plugins.volume_binding import UNBOUND_IMMEDIATE, VolumeBinding
from reprieve.plugins.volume_restrictions import DISK_CONFLICT, ONCE_POD_CONFLICT, VolumeRestrictions
from reprieve.plugins.volume_zone import ZONE_CONFLICT, VolumeZone
from tests.building import GPU, World, composite, group, node
from tests.building import pod as plain_pod
from tests.plugins.asking import FITS, UNRESOLVABLE, UNSCHEDULABLE, reasons, scores, verdicts
from tests.plugins.neighbours import HOST, rules, term
from tests.plugins.storage import ZONE, claim, csi_node, driver, pod, storage_class, volume
from tests.plugins.test_volume_limits_and_zones import disks
from tests.plugins.test_volume_restrictions import ebs, gce

ONCE = ("ReadWriteOncePod",)
A, B = "a.example.com", "b.example.com"


def code_of(status: Any) -> tuple[str, str]:
    return status.code.name, status.reason


# -- volume restrictions ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [("one", "plain"), ("plain", "one")])
def test_one_claim_for_one_pod_is_enough(order: tuple[str, str]) -> None:
    """Wherever it stands among the pod's claims, and beside a volume that is the pod's own."""
    items = [claim("one", modes=ONCE), claim("plain"), pod("old", "one", node="n1")]
    world = World(node("n1"), node("n2"), *items, pod("p", *order, made=["tmp"]))
    assert verdicts(world, VolumeRestrictions()) == {"n1": UNSCHEDULABLE, "n2": UNSCHEDULABLE}
    assert reasons(world, VolumeRestrictions()) == {"n1": [ONCE_POD_CONFLICT], "n2": [ONCE_POD_CONFLICT]}


@pytest.mark.parametrize("order", [("one", "gone"), ("gone", "one")])
def test_claim_that_is_missing_is_found_among_others(order: tuple[str, str]) -> None:
    """It rejects the pod everywhere, for good, whatever else may be shared."""
    world = World(node("n1"), claim("one", modes=ONCE), pod("p", *order, made=["tmp"], more=[gce("d")]))
    plugin, state = VolumeRestrictions(), world.state("p")
    assert code_of(plugin.pre_filter(state)) == ("UNRESOLVABLE", 'persistentvolumeclaim "gone" not found')
    assert plugin.filter(state, slice(0, 1)).tolist() == [UNRESOLVABLE]
    ((text, mask),) = plugin.reasons(state, slice(0, 1))
    assert (text, mask.tolist()) == ('persistentvolumeclaim "gone" not found', [True])


def test_volumes_of_the_pod_alone_are_not_shared() -> None:
    """A generic ephemeral volume has a claim of the pod's own: nothing to share."""
    world = World(node("n1"), pod("p", made=["tmp"]), pod("q", made=["tmp"], more=[ebs("d")]), plain_pod("r"))
    plugin = VolumeRestrictions()
    assert [plugin.concerns(world.state(name)) for name in "pqr"] == [False, True, False]
    assert [plugin.pre_filter(world.state(name)).code.name for name in "pqr"] == ["SKIP", "SUCCESS", "SKIP"]


def test_disk_in_use_is_reported_before_a_claim_in_use() -> None:
    """Upstream asks for disks first; a node has one of the two reasons."""
    items = [claim("one", modes=ONCE), pod("old", "one", more=[ebs("d")], node="n1")]
    world = World(node("n1"), node("n2"), *items, pod("p", "one", more=[ebs("e"), ebs("d")]))
    assert reasons(world, VolumeRestrictions()) == {"n1": [DISK_CONFLICT], "n2": [ONCE_POD_CONFLICT]}


def test_disks_that_are_not_restricted_are_shared() -> None:
    """A pod with none of the restricted kinds is not looked at, nor are those disks of others."""
    world = World(node("n1"), pod("old", more=[gce("d", read_only=True)], node="n1"), plain_pod("p"))
    assert verdicts(world, VolumeRestrictions()) == {}


# -- zones --------------------------------------------------------------------------------------------------------


def bound(name: str, zone: str) -> list[Any]:
    """A claim bound to a volume of a zone."""
    return [claim(name, volume=f"v{name}", bound=True), volume(f"v{name}", labels={ZONE: zone})]


@pytest.mark.parametrize(
    ("claims", "made", "codes"),
    [
        (["a", "b"], [], [UNRESOLVABLE, UNRESOLVABLE]),
        (["a", "other-a"], [], [FITS, UNRESOLVABLE]),
        (["waits", "b"], [], [UNRESOLVABLE, FITS]),
        (["b", "waits"], [], [UNRESOLVABLE, FITS]),
        (["waits", "waits-too", "a"], ["tmp"], [FITS, UNRESOLVABLE]),
    ],
)
def test_every_bound_volume_has_its_zone(claims: list[str], made: list[str], codes: list[int]) -> None:
    """Those that wait for the pod have none yet, and do not hide the next."""
    items = [storage_class(), claim("waits"), claim("waits-too"), *bound("a", "a"), *bound("b", "b")]
    world = World(node("na", labels={ZONE: "a"}), node("nb", labels={ZONE: "b"}), *items, *bound("other-a", "a"))
    world.add(pod("p", *claims, made=made))
    assert list(verdicts(world, VolumeZone()).values()) == codes
    assert set(reasons(world, VolumeZone())) == {name for name, code in zip(("na", "nb"), codes, strict=True) if code}
    assert all(found == [ZONE_CONFLICT] for found in reasons(world, VolumeZone()).values())


def test_failed_lookup_is_reported_by_every_call() -> None:
    """A filter that is asked without PreFilter looks for itself."""
    world = World(node("n1"), claim("c", volume="v"), pod("p", "c"), pod("q", made=["tmp"]), plain_pod("r"))
    plugin, text = VolumeZone(), 'persistentvolume "v" not found'
    assert plugin.filter(world.state("p"), slice(0, 1)).tolist() == [UNRESOLVABLE]
    ((found, mask),) = plugin.reasons(world.state("p"), slice(0, 1))
    assert (found, mask.tolist()) == (text, [True])
    assert [plugin.concerns(world.state(name)) for name in "pqr"] == [True, False, False]
    assert not plugin.add_pod(world.state("p"), world.record("q"), 0)
    assert not plugin.remove_pod(world.state("p"), world.record("q"), 0)


# -- binding ------------------------------------------------------------------------------------------------------


def test_claim_that_is_used_twice_is_bound_once() -> None:
    """And what comes after it is looked at."""
    items = [storage_class(), claim("c"), claim("d"), volume("v"), volume("w")]
    world = World(node("n1"), *items, pod("p", "c", "c", "d"))
    (binding,) = world.step().bindings
    assert sorted(one.name for one in binding.pre_bind if isinstance(one, PatchObject)) == ["v", "w"]
    now = [storage_class("now", wait=False), claim("e", of="now")]
    world = World(node("n1"), *items, *now, pod("p", "c", "c", "e"))
    assert code_of(VolumeBinding().pre_filter(world.state("p"))) == ("UNRESOLVABLE", UNBOUND_IMMEDIATE)


def test_pod_without_claims_is_not_concerned() -> None:
    world = World(node("n1"), plain_pod("p"), pod("q", more=[gce("d")]))
    plugin = VolumeBinding()
    for name in "pq":
        assert not plugin.concerns(world.state(name))
        assert plugin.pre_filter(world.state(name)).code.name == "SKIP"
        assert plugin.reserve(world.state(name), 0).ok
        assert plugin.pre_bind(world.state(name), 0) == ()
        assert not NodeVolumeLimits().concerns(world.state("p"))


def test_nothing_is_reserved_on_a_node_out_of_reach() -> None:
    """Reserve says what Filter would have said, and keeps nothing; given back twice it is given back once."""
    items = [storage_class(), claim("c"), volume("v", zone="a")]
    world = World(node("na", labels={ZONE: "a"}), node("nb", labels={ZONE: "b"}), *items, pod("p", "c"))
    plugin, store = VolumeBinding(), world.engine.cluster.volumes
    refused = plugin.reserve(world.state("p"), world.row("nb"))
    assert code_of(refused) == ("UNRESOLVABLE", "node(s) didn't find available persistent volumes to bind")
    assert store.reservations == {}
    assert plugin.reserve(world.state("p"), world.row("na")).ok
    assert dict(store.reservations["uid-p"].volumes) == {"default/c": "v"}
    plugin.unreserve(world.state("p"), world.row("na"))
    plugin.unreserve(world.state("p"), world.row("na"))
    assert store.reservations == {}


@pytest.mark.parametrize("gone", ["c", "v"])
def test_claim_deleted_between_reserve_and_pre_bind_ends_the_attempt(gone: str) -> None:
    """A claim or volume that is gone cannot be written."""
    world = World(node("n1"), storage_class(), claim("c"), volume("v"), pod("p", "c"))
    plugin, state = VolumeBinding(), world.state("p")
    assert plugin.reserve(state, 0).ok
    kind, namespace = ("PersistentVolumeClaim", "default") if gone == "c" else ("PersistentVolume", "")
    world.engine.remove(ObjectRef(kind, f"{namespace}/{gone}"), world.now)
    with pytest.raises(LookupError, match="claim default/c or volume v is gone"):
        plugin.pre_bind(state, 0)


# -- limits -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("on_node", "told"),
    [
        ({A: 1, B: 1}, []),
        ({A: 1}, [f"{B} CSI driver is not installed on the node"]),
        ({B: 1}, [f"{A} CSI driver is not installed on the node"]),
        ({}, [f"{A} CSI driver is not installed on the node"]),
        ({A: 0}, [f"{B} CSI driver is not installed on the node"]),
        ({A: 0, B: 1}, [TOO_MANY]),
        ({A: 1, B: 0}, [TOO_MANY]),
    ],
)
def test_node_that_lacks_a_driver_has_no_further_reason(on_node: dict[str, int | None], told: list[str]) -> None:
    """The first driver by name that is not there, else whether there are too many; of each node by itself."""
    items = [driver(A, required=True), driver(B, required=True), *disks("a", driver=A), *disks("b", driver=B)]
    nodes = [node("n1"), node("n2"), csi_node("n1", on_node), csi_node("n2", {A: 9, B: 9})]
    world = World(*nodes, *items, pod("p", "a", "b"))
    assert verdicts(world, NodeVolumeLimits()) == {"n1": UNSCHEDULABLE if told else FITS, "n2": FITS}
    assert reasons(world, NodeVolumeLimits()) == ({"n1": told} if told else {})


def test_missing_claim_is_named_with_its_namespace() -> None:
    """The first that is missing, for good and everywhere."""
    world = World(node("n1"), *disks("a"), pod("p", "a", "gone", "lost"))
    assert verdicts(world, NodeVolumeLimits()) == {"n1": UNRESOLVABLE}
    text = 'looking up PVC default/gone: persistentvolumeclaim "gone" not found'
    assert reasons(world, NodeVolumeLimits()) == {"n1": [text]}


# -- pods that run and their own rules ----------------------------------------------------------------------------

WEB = {"app": "web"}


@pytest.mark.parametrize("running", [1, 2, 9])
def test_pods_that_keep_others_away_do_so_in_their_domain(running: int) -> None:
    """Required anti-affinity of pods that run; nodes without the label are no domain, whatever runs there."""
    apart = rules(apart=[term("rack", WEB), term(HOST, WEB)])
    names = ("n1", "n2", "n3", "bare", "empty")
    racks = {"n1": "1", "n2": "1", "n3": "2"}
    nodes = [node(n, pods=20, labels={HOST: n, **({"rack": racks[n]} if n in racks else {})}) for n in names]
    alone = [plain_pod(f"b{i}", node="bare", affinity=apart) for i in range(running)]
    there = [plain_pod(f"r{i}", node="n1", affinity=apart) for i in range(running)]
    world = World(*nodes, *alone, *there, plain_pod("p", labels=WEB), plain_pod("q"))
    plugin = InterPodAffinity()
    found = verdicts(world, plugin)
    assert found == {"n1": UNSCHEDULABLE, "n2": UNSCHEDULABLE, "n3": FITS, "bare": UNSCHEDULABLE, "empty": FITS}
    assert verdicts(world, plugin, "q") == {}
    for record in [*alone, *there]:
        world.gone(record.metadata.name)
    assert verdicts(world, plugin) == {}


# -- balance ------------------------------------------------------------------------------------------------------


def test_balance_kept_equals_a_new_count() -> None:
    """NodeResourcesBalancedAllocation: after pods came and went, for some rows and all, in a trial and after it."""
    cpus = [2 + index % 4 for index in range(24)]
    world = World(
        *[node(f"n{index:02}", cpu=cpu, memory="8Gi", gpu=index % 3) for index, cpu in enumerate(cpus)],
        plain_pod("p", cpu=1, memory="2Gi", gates=["g"]),
        plain_pod("q", cpu=1, gpu=1, gates=["g"]),
        plain_pod("r", cpu=1, memory="1Gi", gates=["g"]),
    )
    kept = NodeResourcesBalancedAllocation(("cpu", "memory", GPU))
    cluster = world.engine.cluster
    everything, some = slice(0, 24), np.arange(3, 20, dtype=np.int64)

    def agrees() -> None:
        for name in "pqr":
            for rows in (everything, some, some[:3]):
                fresh = NodeResourcesBalancedAllocation(("cpu", "memory", GPU))
                assert kept.score(world.state(name), rows).tolist() == fresh.score(world.state(name), rows).tolist()

    agrees()
    for turn in range(4):
        for index in range(turn + 1):
            world.add(plain_pod(f"x{turn}-{index}", cpu=1, memory=f"{turn + 1}Gi", node=f"n{turn * 5 + index:02}"))
        agrees()
    with cluster.trial():
        cluster.place(world.record("r"), 5)
        agrees()
    with cluster.assume_silently([(world.record(name), row) for name, row in (("p", 3), ("q", 4), ("r", 9))]):
        agrees()
    agrees()
    world.gone("x2-1")
    agrees()
    world.add(node("n03", cpu=64, memory="8Gi"), node("n24", cpu=1))
    agrees()


def test_one_of_a_resource_is_enough_to_be_balanced() -> None:
    """cpu 1/4 and the only GPU: half the difference is 3/8, so 62 where it was 100; one share alone is balanced."""
    world = World(node("n1", cpu=4, gpu=1), node("n2", cpu=4), plain_pod("p", cpu=1, gpu=1))
    assert scores(world, NodeResourcesBalancedAllocation(("cpu", GPU))) == {"n1": 50 + (50 + 62 - 100) // 2, "n2": 75}


def test_placement_without_any_of_the_resources_scores_nothing() -> None:
    """NodeResourcesFit's PlacementScore: what no node has, or no pod requests, does not count."""
    world = World(node("n1", cpu=4, gpu=2), plain_pod("p", cpu=1), group("g", min_count=1))
    cluster = world.engine.cluster
    placement = Placement("x", np.array([0], dtype=np.int64))
    none, gpus, cpu = ("x.io/none", 1), (GPU, 9), ("cpu", 1)
    for resources, score in (((none,), 0), ((gpus,), 0), ((cpu,), 25), ((gpus, cpu), 25)):
        plugin = NodeResourcesFit(resources)
        found = plugin.score_placement(cluster, cluster.groups["default/g"], placement, [(world.record("p"), -1)])
        assert found == score


def test_group_below_another_waits_for_the_tree() -> None:
    """GangScheduling (composite.md 2.4): it is the root that has to meet its numbers, and the message names it."""
    items = [composite("top", min_groups=2), group("left", min_count=1, parent="top"), plain_pod("l", group="left")]
    world = World(node("n1"), *items)
    status = GangScheduling().pre_enqueue(world.engine.cluster, world.record("l"))
    assert status.reason == 'waiting for composite pod group "top" tree to meet quorum'
    world.add(group("right", min_count=1, parent="top"), plain_pod("r", group="right"))
    for name in "lr":
        assert GangScheduling().pre_enqueue(world.engine.cluster, world.record(name)).ok
