"""What is attached counts, and which drivers have to be there (docs/rules/devices.md 1)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kube_rules.meta import ObjectRef
from kube_rules.storage import CSINode, CSINodeSpec
from reprieve.cluster.attachments import attached_by, by_driver, limits_of, migrated_plugins
from reprieve.cluster.volumes import VolumeObjects
from reprieve.framework.events import ClusterEvent, EventKind
from reprieve.framework.gates import FeatureGates
from reprieve.plugins.node_volume_limits import TOO_MANY, NodeVolumeLimits
from tests.building import World, node
from tests.plugins.asking import FITS, UNSCHEDULABLE, reasons, verdicts
from tests.plugins.storage import attachment, claim, csi_node, driver, pod, storage_class, volume

CSI = "disk.example.com"
EBS = "ebs.csi.aws.com"


def disks(*names: str, of: str = CSI) -> list[Any]:
    """Claims bound to volumes of a driver: claim `a` has volume `va`."""
    made: list[Any] = []
    for name in names:
        made += [claim(name, volume=f"v{name}", bound=True), volume(f"v{name}", driver=of, phase="Bound", held=name)]
    return made


CASES = [
    pytest.param([*disks("a", "b", "p"), attachment("va", "n1"), attachment("vb", "n1")], 2, UNSCHEDULABLE, id="full"),
    pytest.param([*disks("a", "p"), attachment("va", "n1")], 2, FITS, id="room-for-one"),
    pytest.param([*disks("a", "b", "p"), attachment("va", "n1"), attachment("vb", "n2")], 2, FITS, id="another-node"),
    pytest.param(
        [*disks("a", "p"), pod("old", "a", node="n1"), attachment("va", "n1")], 2, FITS, id="explained-by-a-pod"
    ),
    pytest.param(
        [*disks("a", "b", "p"), pod("old", "a", node="n1"), attachment("va", "n1"), attachment("vb", "n1")],
        2,
        UNSCHEDULABLE,
        id="one-explained-one-not",
    ),
    pytest.param([*disks("a", "p"), attachment("va", "n1", attacher="x")], 1, FITS, id="another-attacher"),
    pytest.param([*disks("p"), attachment("gone", "n1")], 1, FITS, id="a-volume-that-is-gone"),
    pytest.param([*disks("p"), attachment(None, "n1")], 1, FITS, id="an-inline-volume"),
    # kube-scheduler counts the attachment of the pod's own volume beside the volume, as long as the pod does not run.
    pytest.param([*disks("p"), attachment("vp", "n1")], 1, UNSCHEDULABLE, id="its-own-counts-twice-until-it-runs"),
    pytest.param(
        [*disks("p"), pod("old", "p", node="n1"), attachment("vp", "n1")], 1, FITS, id="shared-with-one-that-runs"
    ),
]


@pytest.mark.parametrize(("items", "limit", "code"), CASES)
def test_attachments_that_no_pod_explains_count(items: list[Any], limit: int, code: int) -> None:
    """devices.md 1.2-1.3; the table follows TestCSILimits of kube-scheduler."""
    world = World(node("n1"), csi_node("n1", {CSI: limit}), *items, pod("p", "p"))
    assert verdicts(world, NodeVolumeLimits()) == {"n1": code}
    assert reasons(world, NodeVolumeLimits()) == ({"n1": [TOO_MANY]} if code else {})


@pytest.mark.parametrize(("migrated", "code"), [("kubernetes.io/aws-ebs", UNSCHEDULABLE), ("", FITS)])
def test_attached_in_tree_volume_counts_where_its_plugin_has_been_migrated(migrated: str, code: int) -> None:
    """devices.md 1.2"""
    world = World(
        node("n1"),
        csi_node("n1", {EBS: 1}, migrated),
        claim("a", volume="va", bound=True),
        volume("va", ebs="aws://zone/vol-1"),
        *disks("p", of=EBS),
        attachment("va", "n1", attacher=EBS),
        pod("p", "p"),
    )
    assert verdicts(world, NodeVolumeLimits()) == {"n1": code}


@pytest.mark.parametrize(
    ("drivers", "on_node", "scaling", "text"),
    [
        pytest.param([driver(CSI, required=True)], {"x": 3}, True, f"{CSI} CSI driver is not installed on the node"),
        pytest.param([driver(CSI, required=True)], None, True, f"{CSI} CSI driver is not installed on the node"),
        pytest.param([driver(CSI, required=True)], {CSI: None}, True, ""),
        pytest.param([driver(CSI, required=True)], {CSI: 0}, True, TOO_MANY),
        pytest.param([driver(CSI, required=True)], {"x": 3}, False, ""),
        pytest.param([driver(CSI)], {"x": 3}, True, ""),
        pytest.param([driver("x", required=True)], None, True, ""),
        pytest.param([], None, True, ""),
    ],
)
@pytest.mark.parametrize("bound", [True, False])
def test_driver_may_ask_to_be_installed_first(
    drivers: list[Any], on_node: dict[str, int | None] | None, scaling: bool, text: str, bound: bool
) -> None:
    """devices.md 1.5; a claim without a volume has the driver of its class."""
    own = disks("p") if bound else [claim("p"), storage_class(provisioner=CSI)]
    csi = [csi_node("n1", on_node)] if on_node is not None else []
    world = World(node("n1"), *csi, *own, *drivers, pod("p", "p"))
    plugin = NodeVolumeLimits(scaling=scaling)
    assert verdicts(world, plugin) == {"n1": UNSCHEDULABLE if text else FITS}
    assert reasons(world, plugin) == ({"n1": [text]} if text else {})


@pytest.mark.parametrize(
    ("kind", "before", "after", "wakes"),
    [
        (EventKind.VOLUME_ATTACHMENT_CHANGED, attachment("va", "n1"), None, True),
        (EventKind.VOLUME_ATTACHMENT_CHANGED, attachment("va", "n1", attacher="x"), None, False),
        (EventKind.VOLUME_ATTACHMENT_CHANGED, None, attachment("va", "n1"), False),
        (EventKind.VOLUME_ATTACHMENT_CHANGED, attachment("va", "n1"), attachment("va", "n1"), False),
        (EventKind.VOLUME_ATTACHMENT_CHANGED, attachment("va", "n1"), attachment("va", "n2"), True),
        (EventKind.CSI_DRIVER_CHANGED, driver(CSI, required=True), None, True),
        (EventKind.CSI_DRIVER_CHANGED, driver(CSI, required=True), driver(CSI), True),
        (EventKind.CSI_DRIVER_CHANGED, driver(CSI), driver(CSI, required=True), False),
        (EventKind.CSI_NODE_CHANGED, csi_node("n1", {}), csi_node("n1", {CSI: 3}), True),
        (EventKind.CSI_NODE_CHANGED, csi_node("n1", {CSI: 3}), csi_node("n1", {CSI: 3}), False),
    ],
)
def test_volume_events_that_wake_a_pod(kind: EventKind, before: Any, after: Any, wakes: bool) -> None:
    """devices.md 1.6"""
    world = World(node("n1"), csi_node("n1", {CSI: 1}), *disks("a", "p"), pod("p", "p"))
    hint = NodeVolumeLimits().events()[kind]
    assert hint(world.engine.cluster, world.record("p"), ClusterEvent(kind, item=after, before=before)) is wakes


def test_detached_volume_makes_room() -> None:
    """devices.md 1.6"""
    world = World(node("n1"), csi_node("n1", {CSI: 1}), *disks("a", "p"), attachment("va", "n1"), pod("p", "p"))
    assert world.settle().where == {}
    world.engine.remove(ObjectRef("VolumeAttachment", "va-on-n1"), world.now)
    assert world.settle().where == {"p": "n1"}


def test_no_pods_are_evicted_for_a_volume_that_stays_attached() -> None:
    """devices.md 1.4: with its pod gone the volume still takes its place."""
    items = [*disks("a", "p"), pod("old", "a", node="n1", priority=0), pod("p", "p", priority=9)]
    world = World(node("n1"), csi_node("n1", {CSI: 1}), *items, attachment("va", "n1")).settle()
    assert world.where == {"old": "n1"}


def test_gate_is_on() -> None:
    """devices.md 1.5"""
    assert FeatureGates().volume_limit_scaling
    assert not FeatureGates.parse("VolumeLimitScaling=false").volume_limit_scaling
    assert FeatureGates.parse("AllBeta=false").volume_limit_scaling, "stable in 1.38"


def _plainly(world: World, name: str) -> dict[str, bool]:
    """The rule without columns: for each node, whether the pod's volumes are too many there."""
    cluster, wanted = world.engine.cluster, world.record("p")
    store, nodes = cluster.volumes, cluster.nodes
    found = {}
    for row, where in enumerate(nodes.names):
        csi = store.csi_nodes.get(where)
        limits, migrated = (limits_of(csi) if csi is not None else {}), migrated_plugins(csi)
        there = {v for other in nodes.pods[row].values() for v in attached_by(store, other, migrated)}
        held = {
            (a.spec.attacher, v.spec.csi.volume_handle)
            for a in store.attachments.values()
            if a.spec.node_name == where
            and (v := store.volumes.get(a.spec.source.persistent_volume_name or "")) is not None
            and v.spec.csi is not None
        }
        found[where] = False
        for of, volumes in by_driver(attached_by(store, wanted, migrated)).items():
            new = len(volumes - there)
            taken = sum(1 for other, _ in there | held if other == of)
            found[where] |= bool(new) and of in limits and taken + new > limits[of]
    return found


VOLUMES = ("a", "b", "c", "d")
STEPS = st.one_of(
    st.tuples(st.just("attach"), st.sampled_from(VOLUMES), st.sampled_from(("n1", "n2"))),
    st.tuples(st.just("detach"), st.sampled_from(VOLUMES), st.sampled_from(("n1", "n2"))),
    st.tuples(st.just("limit"), st.integers(0, 3), st.sampled_from(("n1", "n2"))),
    st.tuples(st.just("run"), st.sampled_from(VOLUMES), st.sampled_from(("n1", "n2"))),
    st.tuples(st.just("end"), st.sampled_from(VOLUMES), st.sampled_from(("n1", "n2"))),
    st.tuples(st.just("driver"), st.sampled_from((CSI, "x")), st.sampled_from(VOLUMES)),
    st.tuples(st.just("unbind"), st.sampled_from(VOLUMES), st.just("")),
    st.tuples(st.just("bind"), st.sampled_from(VOLUMES), st.just("")),
    st.tuples(st.just("node"), st.just(""), st.just("n2")),
    st.tuples(st.just("no node"), st.just(""), st.just("n2")),
)


@settings(max_examples=60, deadline=None)
@given(steps=st.lists(STEPS, max_size=14))
def test_columns_agree_with_the_rule(steps: list[tuple[str, Any, str]]) -> None:
    """Whatever comes, changes and goes, one row at a time or all."""
    world = World(
        node("n1"), csi_node("n1", {CSI: 2}), storage_class(provisioner=CSI), *disks(*VOLUMES), pod("p", "a", "b")
    )
    engine = world.engine
    for step, what, where in steps:
        if step == "attach":
            world.add(attachment(f"v{what}", where))
        elif step == "detach":
            engine.remove(ObjectRef("VolumeAttachment", f"v{what}-on-{where}"), world.now)
        elif step == "limit":
            world.add(csi_node(where, {CSI: what}))
        elif step == "run" and f"uid-{what}-{where}" not in engine.cluster.pods:
            world.add(pod(f"{what}-{where}", what, node=where))
        elif step == "end":
            engine.remove(ObjectRef("Pod", uid=f"uid-{what}-{where}"), world.now)
        elif step == "driver":
            world.add(volume(f"v{where}", driver=what, phase="Bound", held=where))
        elif step == "unbind":
            world.add(claim(what))
        elif step == "bind":
            world.add(claim(what, volume=f"v{what}", bound=True))
        elif step == "node":
            world.add(node(where))
        elif step == "no node":
            engine.remove(ObjectRef("Node", where), world.now)
        cluster = engine.cluster
        rows = np.arange(len(cluster.nodes), dtype=np.int64)
        for overlaid in (False, True):
            mask = cluster.attached.exceeding(world.record("p"), rows, overlaid=overlaid)
            assert dict(zip(cluster.nodes.names, mask.tolist(), strict=True)) == _plainly(world, "p")


def test_node_that_lists_no_driver_limits_nothing() -> None:
    """devices.md 1.1"""
    world = World(node("n1"), CSINode(metadata=csi_node("n1", {}).metadata, spec=CSINodeSpec()), *disks("p"))
    world.add(pod("p", "p"), attachment("vp", "n1"))
    assert verdicts(world, NodeVolumeLimits()) == {"n1": FITS}


def test_unread_changed_nodes_are_not_remembered_one_by_one() -> None:
    """Nodes come and go for months; as long as no pod has volumes, attachments are not read."""
    store = VolumeObjects()
    store.stale.clear()
    for turn in range(20_000):
        store.set(csi_node(f"n{turn}", {}))
        store.remove("CSINode", "", f"n{turn}")
    assert store.stale.everything
    assert len(store.stale.nodes) < 1 << 14
