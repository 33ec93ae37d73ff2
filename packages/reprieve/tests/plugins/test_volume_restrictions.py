"""VolumeRestrictions: disks and claims for one pod (kubernetes/kubernetes plugins/volumerestrictions)."""

from __future__ import annotations

import pytest

from kube_rules import objects
from kube_rules.meta import ObjectRef
from reprieve.plugins.volume_restrictions import DISK_CONFLICT, ONCE_POD_CONFLICT, VolumeRestrictions
from tests.building import World, node
from tests.plugins.asking import FITS, UNSCHEDULABLE, reasons, verdicts
from tests.plugins.storage import claim, pod

ONCE = ("ReadWriteOncePod",)


def gce(name: str, *, read_only: bool = False) -> objects.Volume:
    return objects.Volume(gce_persistent_disk=objects.GCEPersistentDisk(pd_name=name, read_only=read_only))


def ebs(name: str, *, read_only: bool = False) -> objects.Volume:
    return objects.Volume(aws_elastic_block_store=objects.AWSElasticBlockStore(volume_id=name, read_only=read_only))


def iscsi(name: str, *, read_only: bool = False) -> objects.Volume:
    return objects.Volume(iscsi=objects.ISCSIVolume(iqn=name, read_only=read_only))


def rbd(*monitors: str, image: str = "i", pool: str = "rbd", read_only: bool = False) -> objects.Volume:
    return objects.Volume(rbd=objects.RBDVolume(monitors=monitors, image=image, pool=pool, read_only=read_only))


@pytest.mark.parametrize(
    ("there", "wanted", "conflict"),
    [
        pytest.param(gce("d"), gce("d"), True, id="gce-both-write"),
        pytest.param(gce("d", read_only=True), gce("d"), True, id="gce-one-writes"),
        pytest.param(gce("d", read_only=True), gce("d", read_only=True), False, id="gce-both-read"),
        pytest.param(gce("d"), gce("e"), False, id="gce-another"),
        pytest.param(ebs("d", read_only=True), ebs("d", read_only=True), True, id="ebs-never-shared"),
        pytest.param(ebs("d"), ebs("e"), False, id="ebs-another"),
        pytest.param(ebs("d"), gce("d"), False, id="same-name-other-source"),
        pytest.param(iscsi("t"), iscsi("t"), True, id="iscsi-both-write"),
        pytest.param(iscsi("t", read_only=True), iscsi("t", read_only=True), False, id="iscsi-both-read"),
        pytest.param(rbd("a", "b"), rbd("b", "c"), True, id="rbd-a-monitor-in-common"),
        pytest.param(rbd("a"), rbd("b"), False, id="rbd-no-monitor-in-common"),
        pytest.param(rbd("a"), rbd("a", pool="p"), False, id="rbd-other-pool"),
        pytest.param(rbd("a"), rbd("a", image="j"), False, id="rbd-other-image"),
        pytest.param(rbd("a", read_only=True), rbd("a", read_only=True), False, id="rbd-both-read"),
    ],
)
def test_disk_is_shared_on_a_node_only_as_its_kind_allows(
    there: objects.Volume, wanted: objects.Volume, conflict: bool
) -> None:
    world = World(node("n1"), node("n2"), pod("old", more=[there], node="n1"), pod("p", more=[wanted]))
    plugin = VolumeRestrictions()
    assert verdicts(world, plugin) == {"n1": UNSCHEDULABLE if conflict else FITS, "n2": FITS}
    assert reasons(world, plugin) == ({"n1": [DISK_CONFLICT]} if conflict else {})


def test_claim_for_one_pod_is_free_only_once_its_pod_is_gone() -> None:
    world = World(node("n1"), node("n2"), claim("c", modes=ONCE), pod("old", "c", node="n1"), pod("p", "c"))
    plugin = VolumeRestrictions()
    assert verdicts(world, plugin) == {"n1": UNSCHEDULABLE, "n2": UNSCHEDULABLE}
    assert reasons(world, plugin) == {"n1": [ONCE_POD_CONFLICT], "n2": [ONCE_POD_CONFLICT]}
    world.engine.remove(ObjectRef("Pod", uid="uid-old"), world.now)
    assert verdicts(world, plugin) == {"n1": FITS, "n2": FITS}


def test_other_access_modes_are_ignored() -> None:
    world = World(node("n1"), claim("c"), pod("old", "c", node="n1"), pod("p", "c"))
    assert verdicts(world, VolumeRestrictions()) == {}


def test_claim_that_is_shared_is_no_obstacle_beside_one_for_one_pod() -> None:
    mine, shared = claim("mine", modes=ONCE), claim("shared")
    world = World(node("n1"), mine, shared, pod("old", "shared", node="n1"), pod("p", "mine", "shared"))
    assert verdicts(world, VolumeRestrictions()) == {"n1": FITS}


def test_missing_claim_rejects_everywhere_in_the_words_of_the_api() -> None:
    world = World(node("n1"), node("n2"), pod("p", "c")).settle()
    assert world.virtual.rejections["uid-p"].message == (
        '0/2 nodes are available: persistentvolumeclaim "c" not found. no new claims to deallocate, '
        "preemption: 0/2 nodes are available: "
        "2 Preemption is not helpful for scheduling."
    )


def bound_once(volume: str = "") -> list[objects.KubernetesObject]:
    from tests.plugins.storage import volume as made

    return [claim("c", volume="v", bound=True, modes=ONCE), made("v", modes=ONCE, phase="Bound", held="c")]


@pytest.mark.parametrize("plain", [False, True])
def test_preemption_of_the_pod_that_has_the_claim(plain: bool) -> None:
    """preemption.md 3: only the node of the pod that has the claim is cured; others running there are spared."""
    world = World(
        node("n1"),
        node("n2"),
        bound_once(),
        pod("old", "c", node="n1", priority=1, grace=5),
        pod("beside", cpu=1, node="n1", priority=0),
        pod("p", "c", priority=10),
        plain=plain,
    ).settle()
    assert world.where == {"p": "n1", "beside": "n1"}


@pytest.mark.parametrize("plain", [False, True])
def test_no_pods_are_evicted_for_a_claim_of_a_more_important_pod(plain: bool) -> None:
    world = World(
        node("n1"),
        node("n2"),
        bound_once(),
        pod("old", "c", node="n1", priority=20),
        pod("beside", cpu=1, node="n1"),
        pod("p", "c", priority=10),
        plain=plain,
    ).settle()
    assert not world.virtual.preemptions


def test_pod_waiting_for_a_claim_is_tried_when_its_pod_is_gone() -> None:
    world = World(node("n1"), bound_once(), pod("old", "c", node="n1", grace=0), pod("p", "c")).settle()
    assert "p" not in world.where
    world.virtual.delete("Pod", "default", "old")
    assert world.settle().where == {"p": "n1"}
