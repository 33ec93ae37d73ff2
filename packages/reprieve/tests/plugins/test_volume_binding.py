"""VolumeBinding: claims bound, waiting and unbound (kubernetes/kubernetes plugins/volumebinding)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kube_rules.meta import ObjectRef
from kube_rules.storage import SELECTED_NODE
from reprieve.cluster.volume_matching import BIND_CONFLICT, NODE_CONFLICT, NOT_ENOUGH_SPACE, VOLUME_NOT_THERE
from reprieve.framework.configuration import ConfigurationError
from reprieve.framework.gates import FeatureGates
from reprieve.framework.instructions import AwaitObject, PatchObject
from reprieve.framework.status import Code
from reprieve.plugins.volume_binding import UNBOUND_IMMEDIATE, VolumeBinding
from reprieve.scheduling.plugin_args import volume_binding
from tests.building import World, gang, node
from tests.plugins.asking import UNRESOLVABLE, reasons, verdicts
from tests.plugins.storage import ZONE, capacity, claim, csi_node, driver, pod, storage_class, volume

CSI = "disk.example.com"
NODES = [node("a1", labels={ZONE: "a"}), node("b1", labels={ZONE: "b"})]


def bound_to(world: World, name: str) -> str:
    return world.engine.cluster.volumes.claims[f"default/{name}"].spec.volume_name


# -- what rejects a pod everywhere --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("items", "text"),
    [
        ([pod("p", "c")], 'persistentvolumeclaim "c" not found'),
        ([claim("c", of="now"), storage_class("now", wait=False), pod("p", "c")], UNBOUND_IMMEDIATE),
        ([claim("c", of=""), pod("p", "c")], UNBOUND_IMMEDIATE),
        ([claim("c", volume="v"), storage_class(), volume("v"), pod("p", "c")], UNBOUND_IMMEDIATE),
        (
            [claim("c", volume="v", phase="Lost"), pod("p", "c")],
            'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"',
        ),
        (
            [claim("c", volume="v", bound=True, deleted=True), volume("v"), pod("p", "c")],
            'persistentvolumeclaim "c" is being deleted',
        ),
        (
            [claim("p-tmp", owner="somebody"), storage_class(), pod("p", made=["tmp"])],
            "PVC default/p-tmp was not created for pod default/p (pod is not owner)",
        ),
    ],
)
def test_claims_that_no_node_could_cure(items: list[Any], text: str) -> None:
    world = World(*NODES, *items)
    plugin = VolumeBinding()
    status = plugin.pre_filter(world.state("p"))
    assert (int(status.code), status.reason) == (UNRESOLVABLE, text)
    assert reasons(world, plugin) == {"a1": [text], "b1": [text]}


def test_pod_waits_for_the_claim_of_its_ephemeral_volume() -> None:
    world = World(*NODES)
    world.engine.set(pod("p", made=["tmp"]), world.now)
    text = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-tmp"'
    assert VolumeBinding().pre_filter(world.state("p")).reason == text
    world.engine.set(storage_class(provisioner=CSI), world.now)
    world.engine.set(claim("p-tmp", owner="uid-p"), world.now)
    assert verdicts(world, VolumeBinding()) == {"a1": 0, "b1": 0}


def test_texts_are_those_of_kube_scheduler() -> None:
    """observability.md: people grep for them. The first is of kubernetes pull request 129887."""
    assert NODE_CONFLICT == "node(s) didn't match PersistentVolume's node affinity"
    assert BIND_CONFLICT == "node(s) didn't find available persistent volumes to bind"
    assert NOT_ENOUGH_SPACE == "node(s) did not have enough free storage"
    assert VOLUME_NOT_THERE == "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"


# -- what rejects it on a node ------------------------------------------------------------------------------------

CASES = [
    pytest.param(
        [claim("c", volume="v", bound=True), volume("v", zone="a")], {"b1": [NODE_CONFLICT]}, id="bound-elsewhere"
    ),
    pytest.param([claim("c", volume="v", bound=True), volume("v")], {}, id="bound-and-reached-from-everywhere"),
    pytest.param(
        [claim("c", volume="v", bound=True)], {"a1": [VOLUME_NOT_THERE], "b1": [VOLUME_NOT_THERE]}, id="volume-gone"
    ),
    pytest.param([claim("c"), volume("v", zone="a")], {"b1": [BIND_CONFLICT]}, id="a-match-in-one-zone"),
    pytest.param(
        [claim("c", "2Gi"), volume("v", "1Gi")], {"a1": [BIND_CONFLICT], "b1": [BIND_CONFLICT]}, id="too-small"
    ),
    pytest.param([claim("c"), volume("v", of="x")], {"a1": [BIND_CONFLICT], "b1": [BIND_CONFLICT]}, id="another-class"),
    pytest.param(
        [claim("c"), volume("v", phase="Released")],
        {"a1": [BIND_CONFLICT], "b1": [BIND_CONFLICT]},
        id="not-available",
    ),
    pytest.param(
        [claim("c"), volume("v", mode="Block")], {"a1": [BIND_CONFLICT], "b1": [BIND_CONFLICT]}, id="volume-mode"
    ),
    pytest.param(
        [claim("c", modes=["ReadWriteMany"]), volume("v")],
        {"a1": [BIND_CONFLICT], "b1": [BIND_CONFLICT]},
        id="access-modes",
    ),
    pytest.param(
        [claim("c", selector={"x": "y"}), volume("v"), volume("w", labels={"x": "y"}, zone="b")],
        {"a1": [BIND_CONFLICT]},
        id="selector",
    ),
    pytest.param(
        [claim("c"), volume("v", held="other")], {"a1": [BIND_CONFLICT], "b1": [BIND_CONFLICT]}, id="held-for-another"
    ),
    pytest.param(
        [claim("c"), volume("v", held="c", zone="a"), volume("w")],
        {"b1": [BIND_CONFLICT]},
        id="held-for-it-is-the-only-one",
    ),
    pytest.param(
        [claim("c", annotations={SELECTED_NODE: "a1"}), storage_class(provisioner=CSI)],
        {"b1": [BIND_CONFLICT]},
        id="to-be-provisioned-for-a-node",
    ),
    pytest.param(
        [claim("c"), storage_class(provisioner=CSI, zones=["b"])], {"a1": [BIND_CONFLICT]}, id="allowed-topologies"
    ),
    pytest.param(
        [claim("c", "5Gi"), storage_class(provisioner=CSI), driver(CSI), capacity("k", "a", "10Gi")],
        {"b1": [NOT_ENOUGH_SPACE]},
        id="capacity-in-one-zone",
    ),
    pytest.param(
        [claim("c", "5Gi"), storage_class(provisioner=CSI), driver(CSI), capacity("k", "a", "10Gi", largest="4Gi")],
        {"a1": [NOT_ENOUGH_SPACE], "b1": [NOT_ENOUGH_SPACE]},
        id="largest-volume",
    ),
    pytest.param(
        [claim("c", "5Gi"), storage_class(provisioner=CSI), capacity("k", "a", "1Gi")],
        {},
        id="a-driver-that-publishes-no-capacity",
    ),
]


@pytest.mark.parametrize(("items", "wanted"), CASES)
def test_where_a_claim_can_be_had(items: list[Any], wanted: dict[str, list[str]]) -> None:
    world = World(*NODES, storage_class(), *items, pod("p", "c"))
    assert reasons(world, VolumeBinding()) == wanted
    codes = verdicts(world, VolumeBinding())
    assert {name for name, code in codes.items() if code} == set(wanted)
    assert set(codes.values()) <= {0, UNRESOLVABLE}


def test_smallest_claim_takes_the_smallest_volume_and_no_volume_is_taken_twice() -> None:
    world = World(
        node("a1"),
        storage_class(),
        claim("large", "3Gi"),
        claim("small", "1Gi"),
        volume("v9", "9Gi"),
        volume("v2", "2Gi"),
        volume("v4", "4Gi"),
        pod("p", "large", "small"),
    ).settle()
    assert (bound_to(world, "small"), bound_to(world, "large")) == ("v2", "v4")


def test_two_claims_need_two_volumes_in_reach_of_one_node() -> None:
    world = World(
        *NODES,
        storage_class(),
        claim("c"),
        claim("d"),
        volume("va", zone="a"),
        volume("vb", zone="b"),
        pod("p", "c", "d"),
    )
    assert reasons(world, VolumeBinding()) == {"a1": [BIND_CONFLICT], "b1": [BIND_CONFLICT]}
    world.add(volume("vx")).settle()
    assert world.where["p"] == "a1"
    assert sorted([bound_to(world, "c"), bound_to(world, "d")]) == ["va", "vx"]


# -- reserve, bind ------------------------------------------------------------------------------------------------


def test_next_pod_cannot_take_what_is_reserved_and_gets_it_when_given_back() -> None:
    world = World(node("a1"), storage_class(), claim("c"), claim("d"), volume("v"), pod("p", "c"), pod("q", "d"))
    first, second = world.step(), world.step()
    assert [b.pod.name for b in first.bindings] == ["p"]
    assert [r.pod.name for r in second.rejections] == ["q"]
    world.engine.fail_binding("uid-p", world.now)
    assert not world.engine.cluster.volumes.kept
    world.engine.remove(ObjectRef("Pod", uid="uid-p"), world.now)
    again = world.engine.step(world.now + 60).decision
    assert again is not None
    assert [b.pod.name for b in again.bindings] == ["q"]


def test_instructions_for_a_static_volume() -> None:
    """Written with the versions that were read: a volume that changed meanwhile is not taken."""
    free = volume("v")
    free = replace(free, metadata=replace(free.metadata, resource_version="7"))
    world = World(node("a1"), storage_class(), claim("c"), free, pod("p", "c"))
    (binding,) = world.step().bindings
    patch, wait = binding.pre_bind
    assert isinstance(patch, PatchObject)
    assert (patch.kind, patch.name, patch.uid, patch.resource_version) == ("PersistentVolume", "v", "uid-v", "7")
    assert patch.patch["spec"]["claimRef"] == {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": "default",
        "name": "c",
        "uid": "uid-c",
    }
    assert patch.patch["metadata"]["annotations"] == {"pv.kubernetes.io/bound-by-controller": "yes"}
    assert isinstance(wait, AwaitObject)
    assert (wait.kind, wait.namespace, wait.name, wait.seconds) == ("PersistentVolumeClaim", "default", "c", 600.0)
    assert wait.done(claim("c")).code is Code.WAIT
    assert wait.done(claim("c", volume="v", bound=True)).ok
    assert wait.done(None).code is Code.ERROR


def test_instructions_for_a_claim_to_be_provisioned() -> None:
    world = World(*NODES, storage_class(provisioner=CSI, zones=["b"]), claim("c"), pod("p", "c"))
    (binding,) = world.step().bindings
    patch, wait = binding.pre_bind
    assert isinstance(patch, PatchObject)
    assert isinstance(wait, AwaitObject)
    assert (patch.kind, patch.namespace, patch.name) == ("PersistentVolumeClaim", "default", "c")
    assert patch.patch == {"metadata": {"annotations": {SELECTED_NODE: "b1"}}}
    assert wait.done(claim("c")).code is Code.WAIT, "a reported object may be older than the written one"
    assert wait.done(claim("c", annotations={SELECTED_NODE: "b1"})).code is Code.WAIT
    failed = wait.done(claim("c"))
    assert (failed.code, failed.reason) == (Code.ERROR, 'binding volumes: provisioning failed for PVC "c"')
    bound = claim("c", volume="far", bound=True)
    world.engine.set(volume("far", zone="a"), world.now)
    assert "node affinity doesn't match" in wait.done(bound).reason


def test_second_pod_of_a_claim_goes_where_the_first_has_it_provisioned() -> None:
    world = World(*NODES, storage_class(provisioner=CSI), claim("c"), pod("p", "c"), pod("q", "c"))
    (first,) = world.step().bindings
    (second,) = world.step().bindings
    assert first.node == second.node
    assert not [one for one in second.pre_bind if isinstance(one, PatchObject)], "the first has asked for it already"


def test_writes_that_the_api_shows_already_are_waited_for() -> None:
    """A volume with a complete claimRef, by an earlier attempt or another pod's, is not written again."""
    held = volume("v", held="c")
    assert held.spec.claim_ref is not None
    held = replace(held, spec=replace(held.spec, claim_ref=replace(held.spec.claim_ref, uid="uid-c")))
    world = World(node("a1"), storage_class(), claim("c"), volume("v"), pod("p", "c"), pod("q", "c"))
    (first,) = world.step().bindings
    assert len(first.pre_bind) == 2
    world.engine.set(held, world.now)
    (second,) = world.step().bindings
    assert [type(one) for one in second.pre_bind] == [AwaitObject]
    world.engine.set(claim("c", volume="v", bound=True), world.now)
    assert all(
        one.done(claim("c", volume="v", bound=True)).ok for one in second.pre_bind if isinstance(one, AwaitObject)
    )


def test_args() -> None:
    """VolumeBindingArgs: seconds to wait, and no shape while its gate is off."""
    gates = FeatureGates()
    made = volume_binding(gates, {"bindTimeoutSeconds": 30})
    assert isinstance(made, VolumeBinding)
    assert isinstance(volume_binding(gates, {"bindTimeoutSeconds": 0}), VolumeBinding)
    for wrong, path in (({"bindTimeoutSeconds": -1}, "bindTimeoutSeconds"), ({"shape": []}, "shape")):
        with pytest.raises(ConfigurationError) as refused:
            volume_binding(gates, wrong)
        assert refused.value.path == path


# -- in the world -------------------------------------------------------------------------------------------------


def test_provisioned_volumes_follow_the_driver_s_topology_and_use_up_its_capacity() -> None:
    world = World(
        *NODES,
        storage_class(provisioner=CSI),
        driver(CSI),
        capacity("k", "b", "10Gi"),
        csi_node("b1", {CSI: 9}, keys=[ZONE]),
        [claim(f"c{i}", "4Gi") for i in range(3)],
        [pod(f"p{i}", f"c{i}") for i in range(3)],
    ).settle()
    assert world.where == {"p0": "b1", "p1": "b1"}
    assert NOT_ENOUGH_SPACE in world.virtual.rejections["uid-p2"].message
    made = world.engine.cluster.volumes.volumes[bound_to(world, "c0")]
    assert made.spec.node_affinity is not None


def test_ephemeral_volume_comes_and_goes_with_its_pod() -> None:
    world = World(node("a1"), storage_class(provisioner=CSI, default=True), pod("p", made=["tmp"], grace=1))
    store = world.settle().engine.cluster.volumes
    assert world.where == {"p": "a1"}
    assert (list(store.claims), len(store.volumes)) == (["default/p-tmp"], 1)
    world.virtual.delete("Pod", "default", "p")
    world.settle()
    assert (store.claims, store.volumes) == ({}, {})


def test_claims_about_to_be_created_are_bound_without_a_pod_those_of_a_cluster_are_not() -> None:
    fresh = replace(claim("new", of="now"), metadata=replace(claim("new").metadata, uid=""))
    world = World(
        node("a1"),
        claim("old", of="now"),
        fresh,
        storage_class("now", provisioner=CSI, wait=False),
        pod("p", "old"),
        pod("q", "new"),
    ).settle()
    assert world.where == {"q": "a1"}
    assert UNBOUND_IMMEDIATE in world.virtual.rejections["uid-p"].message


@pytest.mark.parametrize("plain", [False, True])
def test_no_pods_are_evicted_for_lack_of_a_volume(plain: bool) -> None:
    """preemption.md 3: what cannot be simulated is not curable, even if the victim holds the only volume."""
    world = World(
        node("a1", cpu=2),
        storage_class(),
        claim("c", volume="v", bound=True),
        volume("v", phase="Bound", held="c"),
        claim("d"),
        pod("low", "c", cpu=1, node="a1"),
        pod("p", "d", cpu=1, priority=10),
        plain=plain,
    ).settle()
    assert not world.virtual.preemptions
    assert world.where == {"low": "a1"}


def test_gang_takes_a_volume_for_each_member_or_none_at_all() -> None:
    members = [pod(f"g-{i}", f"c{i}", group="g") for i in range(3)]
    shared: list[Any] = [storage_class(), [claim(f"c{i}") for i in range(3)], gang("g", 0, min_count=3), members]
    few = World(node("a1"), [volume("v0"), volume("v1")], *shared).settle()
    assert few.where == {}
    assert not few.engine.cluster.volumes.kept
    few.add(volume("v2")).settle()
    assert set(few.where) == {"g-0", "g-1", "g-2"}
    assert sorted(bound_to(few, f"c{i}") for i in range(3)) == ["v0", "v1", "v2"]


# -- properties ---------------------------------------------------------------------------------------------------

_sizes = st.integers(1, 4)
_zones = st.sampled_from([None, "a", "b"])


@st.composite
def worlds(draw: st.DrawFn) -> list[Any]:
    """Volumes, claims and pods of any sizes and zones, some in a gang, with room for some of them."""
    items: list[Any] = [
        node("a1", cpu=2, labels={ZONE: "a"}),
        node("a2", cpu=1, labels={ZONE: "a"}),
        node("b1", cpu=2, labels={ZONE: "b"}),
        storage_class(),
        storage_class("made", provisioner=CSI, zones=draw(st.sampled_from([None, ["a"], ["b"]]))),
        csi_node("a1", {CSI: draw(st.integers(0, 2))}),
        gang("g", 0, min_count=2),
    ]
    items += [
        volume(f"v{index}", f"{draw(_sizes)}Gi", zone=draw(_zones), driver=CSI)
        for index in range(draw(st.integers(0, 4)))
    ]
    count = draw(st.integers(1, 5))
    for index in range(count):
        once = ("ReadWriteOnce",)
        items.append(claim(f"c{index}", f"{draw(_sizes)}Gi", of=draw(st.sampled_from(["wait", "made"])), modes=once))
    for index in range(draw(st.integers(1, 6))):
        used = draw(st.lists(st.integers(0, count - 1), max_size=2, unique=True))
        items.append(
            pod(
                f"p{index}",
                *(f"c{i}" for i in used),
                cpu=1,
                priority=draw(st.integers(0, 2)),
                group="g" if draw(st.booleans()) else None,
                grace=1,
            )
        )
    return items


@settings(max_examples=60)
@given(worlds())
def test_no_volume_serves_two_claims_and_sharing_work_changes_nothing(items: list[Any]) -> None:
    """scheduling.md 4: shared = plain; and every placed pod's claims are bound to volumes that its node reaches."""
    fast, plain = World(*items).settle(), World(*items, plain=True).settle()
    assert fast.where == plain.where
    store, nodes = fast.engine.cluster.volumes, fast.engine.cluster.nodes
    serving = [c.spec.volume_name for c in store.claims.values() if c.spec.volume_name]
    assert len(serving) == len(set(serving))
    assert {c: bound_to(plain, c.split("/")[1]) for c in store.claims} == {
        c: found.spec.volume_name for c, found in store.claims.items()
    }
    assert (store.kept, store.selected, store.unsettled) == ({}, {}, {})
    for record in fast.engine.cluster.pods.values():
        for used in record.volumes.claims if record.volumes is not None and record.row >= 0 else ():
            found = store.volumes[store.claims[used.key].spec.volume_name]
            affinity = found.spec.node_affinity
            if affinity is not None and affinity.required is not None:
                (term,) = affinity.required.node_selector_terms
                assert nodes.labels[record.row][term.match_expressions[0].key] in term.match_expressions[0].values


@settings(max_examples=40)
@given(worlds(), st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2)), max_size=8))
def test_trial_leaves_no_trace(items: list[Any], moves: list[tuple[int, int]]) -> None:
    """scheduling.md 7: whatever a trial places and asks, the cluster cache is the same afterwards, bit for bit."""
    world = World(*items)
    cluster = world.engine.cluster
    world.drain()
    before = cluster.digest()
    pods = sorted(cluster.pods.values(), key=lambda p: p.name)
    plugin = VolumeBinding()
    with cluster.trial():
        for which, row in moves:
            moved = pods[which % len(pods)]
            if moved.row >= 0:
                cluster.displace(moved)
            else:
                state = world.state(moved.name)
                if plugin.pre_filter(state).ok:
                    plugin.filter(state, slice(0, len(cluster.nodes)))
                cluster.place(moved, row)
    assert cluster.digest() == before
    cluster.check()
