"""NodeVolumeLimits and VolumeZone (kubernetes/kubernetes plugins/nodevolumelimits, plugins/volumezone)."""

from __future__ import annotations

from typing import Any

import pytest

from kube_rules import objects
from kube_rules.meta import ObjectRef
from kube_rules.storage import CSINode, CSINodeDriver, CSINodeSpec
from reprieve.framework.events import ClusterEvent, EventKind
from reprieve.plugins.node_volume_limits import TOO_MANY, NodeVolumeLimits, _allows_more
from reprieve.plugins.volume_zone import ZONE_CONFLICT, VolumeZone
from tests.building import World, node
from tests.plugins.asking import FITS, UNRESOLVABLE, UNSCHEDULABLE, reasons, verdicts
from tests.plugins.storage import ZONE, claim, csi_node, pod, storage_class, volume

CSI = "disk.example.com"
EBS = "ebs.csi.aws.com"


def disks(*names: str, driver: str = CSI) -> list[Any]:
    """Claims bound to volumes of a driver: claim `a` has volume `va`."""
    made: list[Any] = []
    for name in names:
        made += [
            claim(name, volume=f"v{name}", bound=True),
            volume(f"v{name}", driver=driver, phase="Bound", held=name),
        ]
    return made


def limited(*items: Any, limits: dict[str, int | None] | None = None, migrated: str = "") -> World:
    return World(node("n1"), csi_node("n1", limits or {CSI: 2}, migrated), *items)


CASES = [
    pytest.param([*disks("a", "b"), pod("old", "a", node="n1"), pod("p", "b")], {CSI: 2}, FITS, id="room-for-one"),
    pytest.param(
        [*disks("a", "b", "c"), pod("old", "a", "b", node="n1"), pod("p", "c")], {CSI: 2}, UNSCHEDULABLE, id="full"
    ),
    pytest.param(
        [*disks("a", "b"), pod("old", "a", "b", node="n1"), pod("p", "b")], {CSI: 2}, FITS, id="counted-once-per-node"
    ),
    pytest.param(
        [*disks("a", "b", "c"), pod("old", "a", "b", node="n1"), pod("p", "c")], {CSI: None}, FITS, id="no-limit"
    ),
    pytest.param(
        [*disks("a", "b"), *disks("c", driver="other"), pod("old", "a", "b", node="n1"), pod("p", "c")],
        {CSI: 2},
        FITS,
        id="another-driver",
    ),
    pytest.param([*disks("a", "b", "c"), pod("p", "a", "b", "c")], {CSI: 2}, UNSCHEDULABLE, id="too-many-of-its-own"),
    pytest.param(
        [storage_class(provisioner=CSI), claim("c"), *disks("a", "b"), pod("old", "a", "b", node="n1"), pod("p", "c")],
        {CSI: 2},
        UNSCHEDULABLE,
        id="unbound-counts-for-the-provisioner",
    ),
    pytest.param(
        [storage_class(provisioner=CSI), claim("c", of="none"), pod("p", "c")], {CSI: 0}, FITS, id="no-class-no-count"
    ),
]


@pytest.mark.parametrize(("items", "limits", "code"), CASES)
def test_node_attaches_so_many_volumes_of_a_driver(items: list[Any], limits: dict[str, int | None], code: int) -> None:
    world = limited(*items, limits=limits)
    assert verdicts(world, NodeVolumeLimits()) == {"n1": code}
    assert reasons(world, NodeVolumeLimits()) == ({"n1": [TOO_MANY]} if code else {})


@pytest.mark.parametrize(
    ("migrated", "code"), [("kubernetes.io/aws-ebs", UNSCHEDULABLE), ("kubernetes.io/gce-pd", FITS), ("", FITS)]
)
def test_in_tree_volumes_count_where_their_plugin_has_been_migrated(migrated: str, code: int) -> None:
    """The inline disk is the volume of `old`'s claim, written with its zone: one volume; the claim's is another."""
    disk = objects.AWSElasticBlockStore(volume_id="vol-1")
    world = limited(
        claim("a", volume="va", bound=True),
        volume("va", ebs="aws://zone/vol-1"),
        claim("b", volume="vb", bound=True),
        volume("vb", ebs="vol-2"),
        pod("old", "a", more=[objects.Volume(aws_elastic_block_store=disk)], node="n1"),
        pod("p", "b"),
        limits={EBS: 1},
        migrated=migrated,
    )
    assert verdicts(world, NodeVolumeLimits()) == {"n1": code}
    world.engine.remove(ObjectRef("Pod", uid="uid-old"), world.now)
    assert verdicts(world, NodeVolumeLimits()) == {"n1": FITS}


@pytest.mark.parametrize("plain", [False, True])
def test_preemption_frees_volumes_and_spares_pods_without(plain: bool) -> None:
    """preemption.md 3: volume limits are curable; putting a unit back counts its volumes again."""
    world = World(
        node("n1"),
        csi_node("n1", {CSI: 2}),
        disks("a", "b", "c"),
        pod("one", "a", node="n1", priority=2, grace=1),
        pod("two", "b", node="n1", priority=1, grace=1),
        pod("none", cpu=1, node="n1", priority=0),
        pod("p", "c", priority=10),
        plain=plain,
    ).settle()
    assert world.where == {"p": "n1", "one": "n1", "none": "n1"}


def test_higher_limit_wakes_pending_pods() -> None:
    world = limited(disks("a"), pod("p", "a"), limits={CSI: 0}).settle()
    assert "p" not in world.where
    assert world.add(csi_node("n1", {CSI: 1})).settle().where == {"p": "n1"}


@pytest.mark.parametrize(
    ("before", "after", "helps"),
    [
        ({CSI: 1}, {CSI: 2}, True),
        ({CSI: 1}, {CSI: None}, True),
        ({CSI: 1}, {}, True),
        ({CSI: 2}, {CSI: 1}, False),
        ({CSI: 1}, {CSI: 1}, False),
        ({CSI: None}, {CSI: 1}, False),
    ],
)
def test_which_change_of_limits_helps(before: dict[str, int | None], after: dict[str, int | None], helps: bool) -> None:
    """isCSINodeUpdated of 1.36: a limit that rises or ends; a driver that states none has none."""
    world = World(node("n1"), disks("a"), pod("p", "a"))
    changed = ClusterEvent(EventKind.CSI_NODE_CHANGED, item=csi_node("n1", after), before=csi_node("n1", before))
    assert _allows_more(world.engine.cluster, world.record("p"), changed) is helps


def test_driver_without_allocatable_limits_nothing() -> None:
    """`allocatable` of a driver is optional (storage/v1): such a driver limits nothing."""
    silent = CSINode(
        metadata=objects.ObjectMeta(name="n1"), spec=CSINodeSpec(drivers=(CSINodeDriver(name=CSI, topology_keys=()),))
    )
    world = World(node("n1"), disks("a"), pod("p", "a"), silent)
    for before, helps in ((csi_node("n1", {CSI: 1}), True), (silent, False)):
        changed = ClusterEvent(EventKind.CSI_NODE_CHANGED, item=silent, before=before)
        assert _allows_more(world.engine.cluster, world.record("p"), changed) is helps
    assert world.settle().where == {"p": "n1"}


BETA = "failure-domain.beta.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"


@pytest.mark.parametrize(
    ("labels", "on_node", "code"),
    [
        pytest.param({ZONE: "a"}, {ZONE: "a"}, FITS, id="the-zone"),
        pytest.param({ZONE: "a"}, {ZONE: "b"}, UNRESOLVABLE, id="another-zone"),
        pytest.param({ZONE: "a__b"}, {ZONE: "b"}, FITS, id="one-of-a-set"),
        pytest.param({ZONE: "a__c"}, {ZONE: "b"}, UNRESOLVABLE, id="none-of-a-set"),
        pytest.param({ZONE: "a____c", REGION: "r"}, {ZONE: "b", REGION: "r"}, FITS, id="does-not-parse"),
        pytest.param({BETA: "a"}, {ZONE: "a"}, FITS, id="beta-label-against-the-one-of-today"),
        pytest.param({BETA: "a"}, {ZONE: "b"}, UNRESOLVABLE, id="beta-label-another-zone"),
        pytest.param({BETA: "a"}, {BETA: "a", ZONE: "b"}, FITS, id="beta-label-on-both-sides"),
        pytest.param({ZONE: "a"}, {BETA: "a"}, UNRESOLVABLE, id="todays-label-is-not-read-as-beta"),
        pytest.param({ZONE: "a", REGION: "r"}, {ZONE: "a", REGION: "s"}, UNRESOLVABLE, id="region-too"),
        pytest.param({ZONE: "a"}, {"x": "y"}, FITS, id="a-node-without-zones-takes-any"),
        pytest.param({ZONE: "a"}, {REGION: "r"}, UNRESOLVABLE, id="a-node-with-a-region-only"),
    ],
)
def test_bound_volume_stays_in_its_zone(labels: dict[str, str], on_node: dict[str, str], code: int) -> None:
    world = World(
        node("n1", labels=on_node), claim("c", volume="v", bound=True), volume("v", labels=labels), pod("p", "c")
    )
    assert verdicts(world, VolumeZone()) == {"n1": code}
    assert reasons(world, VolumeZone()) == ({"n1": [ZONE_CONFLICT]} if code else {})


@pytest.mark.parametrize(
    ("items", "text"),
    [
        ([], 'persistentvolumeclaim "c" not found'),
        ([claim("c", volume="v")], 'persistentvolume "v" not found'),
        ([claim("c", of="")], "PersistentVolumeClaim had no pv name and storageClass name"),
        ([claim("c", of="gone")], 'storageclass.storage.k8s.io "gone" not found'),
        ([storage_class("now", wait=False), claim("c", of="now")], "PersistentVolume had no name"),
    ],
)
def test_failed_lookup_rejects_on_every_node(items: list[Any], text: str) -> None:
    world = World(node("n1"), *items, pod("p", "c"))
    status = VolumeZone().pre_filter(world.state("p"))
    assert (int(status.code), status.reason) == (UNRESOLVABLE, text)


def test_claims_that_wait_for_a_pod_have_no_zone_yet() -> None:
    world = World(node("n1", labels={ZONE: "a"}), storage_class(), claim("c"), pod("p", "c"))
    assert verdicts(world, VolumeZone()) == {}
