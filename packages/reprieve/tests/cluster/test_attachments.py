"""Attached volumes: for which driver each counts, on which nodes it is, where it would be one too many."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest

from kube_rules import objects
from kube_rules.meta import ObjectRef
from kube_rules.storage import CSIPersistentVolumeSource, NamedSource
from reprieve.cluster.attachments import ALL_MIGRATED, IN_TREE, attached_by, limits_of, migrated_plugins, of_volume
from tests.building import World, node
from tests.plugins.storage import attachment, claim, csi_node, driver, pod, storage_class, volume

CSI, EBS = "disk.example.com", "ebs.csi.aws.com"
replace = msgspec.structs.replace


def _sourced(**sources: Any) -> Any:
    made = volume("v")
    return replace(made, spec=replace(made.spec, **sources))


@pytest.mark.parametrize(
    ("source", "field", "named"),
    [
        ("awsElasticBlockStore", "aws_elastic_block_store", {"volumeID": "aws://zone/d"}),
        ("gcePersistentDisk", "gce_persistent_disk", {"pdName": "d"}),
        ("azureDisk", "azure_disk", {"diskName": "d"}),
        ("cinder", "cinder", {"volumeID": "d"}),
        ("portworxVolume", "portworx_volume", {"volumeID": "d"}),
    ],
)
def test_in_tree_volumes_count_for_the_driver_they_were_migrated_to(
    source: str, field: str, named: dict[str, str]
) -> None:
    """csi-translation-lib: where the CSINode says that the plugin has been migrated, and there alone."""
    plugin, to = IN_TREE[source]
    found = _sourced(**{field: msgspec.convert(named, NamedSource)})
    assert of_volume(found, frozenset({plugin})) == (to, "d")
    assert of_volume(found, ALL_MIGRATED) == (to, "d")
    assert of_volume(found, ALL_MIGRATED - {plugin}) is None
    assert of_volume(found, frozenset()) is None


def test_which_csi_volume_a_volume_is() -> None:
    """devices.md 1.1-1.2: the driver and the handle; what has neither counts nowhere."""
    assert of_volume(volume("v", driver=CSI), frozenset()) == (CSI, "v")
    assert of_volume(_sourced(csi=CSIPersistentVolumeSource(driver=CSI)), ALL_MIGRATED) is None
    assert of_volume(_sourced(csi=CSIPersistentVolumeSource(volume_handle="h")), ALL_MIGRATED) is None
    assert of_volume(volume("v"), ALL_MIGRATED) is None
    assert {plugin for plugin, _ in IN_TREE.values()} == ALL_MIGRATED
    assert dict(IN_TREE.values()) == {
        "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
        "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
        "kubernetes.io/azure-disk": "disk.csi.azure.com",
        "kubernetes.io/cinder": "cinder.csi.openstack.org",
        "kubernetes.io/portworx-volume": "pxd.portworx.com",
    }


def test_limits_and_migrations_of_a_csi_node() -> None:
    """Drivers without a number are not limited; plugins joined by commas."""
    assert limits_of(csi_node("n", {"a": 3, "b": None, "c": 0})) == {"a": 3, "c": 0}
    assert migrated_plugins(None) == frozenset()
    assert migrated_plugins(csi_node("n", {})) == frozenset()
    assert migrated_plugins(csi_node("n", {}, "x,,y")) == {"x", "y"}


CLAIMED: list[tuple[str, list[Any], frozenset[str], list[tuple[str, str]]]] = [
    ("bound", [claim("c", volume="v", bound=True), volume("v", driver=CSI)], frozenset(), [(CSI, "v")]),
    ("of no class", [claim("c")], frozenset(), []),
    ("of a class with a driver", [claim("c"), storage_class(provisioner=CSI)], frozenset(), [(CSI, "claim default/c")]),
    (
        "its volume is not there",
        [claim("c", volume="v"), storage_class(provisioner=CSI)],
        frozenset(),
        [(CSI, "claim default/c")],
    ),
    ("no provisioner", [claim("c"), storage_class(provisioner="")], frozenset(), []),
    ("in tree", [claim("c"), storage_class(provisioner="kubernetes.io/aws-ebs")], frozenset(), []),
    (
        "in tree, migrated",
        [claim("c"), storage_class(provisioner="kubernetes.io/aws-ebs")],
        ALL_MIGRATED,
        [(EBS, "claim default/c")],
    ),
    ("not there", [], ALL_MIGRATED, []),
]


@pytest.mark.parametrize(("items", "migrated", "found"), [c[1:] for c in CLAIMED], ids=[c[0] for c in CLAIMED])
def test_claim_would_attach(items: list[Any], migrated: frozenset[str], found: list[tuple[str, str]]) -> None:
    """devices.md 1.1: a claim without a volume counts for the driver of its class's provisioner."""
    world = World(node("n"), *items, pod("p", "c"))
    assert list(attached_by(world.engine.cluster.volumes, world.record("p"), migrated)) == found


def test_disks_named_in_the_spec_are_attached_too() -> None:
    """Of those that were migrated; others have no CSI driver."""
    ours = msgspec.convert({"name": "a", "awsElasticBlockStore": {"volumeID": "aws://z/vol-1"}}, objects.Volume)
    theirs = msgspec.convert({"name": "b", "iscsi": {"iqn": "x"}}, objects.Volume)
    world = World(node("n"), pod("p", more=[theirs, ours]), pod("q"))
    store = world.engine.cluster.volumes
    assert list(attached_by(store, world.record("p"), ALL_MIGRATED)) == [(EBS, "vol-1")]
    assert list(attached_by(store, world.record("p"), frozenset())) == []
    assert list(attached_by(store, world.record("q"), ALL_MIGRATED)) == []


def test_where_volumes_are_attached_and_used() -> None:
    """By node, by volume, and by the rows of pods with claims that name the volume."""
    world = World(
        node("n"),
        node("m"),
        claim("c", volume="v", bound=True),
        claim("d", volume="v", bound=True),
        volume("v", driver=CSI),
        attachment("v", "n"),
        attachment("v", "m"),
        attachment(None, "m"),
        pod("p", "c", node="n"),
        pod("q", "d", node="m"),
    )
    store = world.engine.cluster.volumes
    assert [one.spec.node_name for one in store.attachments_of("v")] == ["m", "n"]
    assert store.attachments_of("w") == []
    assert {one.metadata.name for one in store.attachments_on("m")} == {"v-on-m", "None-on-m"}
    assert [store.used_on("v", row) for row in (0, 1, 2)] == [True, True, False]
    world.engine.remove(ObjectRef("VolumeAttachment", "v-on-m"), world.now)
    assert [one.spec.node_name for one in store.attachments_of("v")] == ["n"]
    world.add(attachment("w", "n").__class__(metadata=attachment("v", "n").metadata, spec=attachment("w", "m").spec))
    assert store.attachments_of("v") == []
    assert [one.spec.node_name for one in store.attachments_of("w")] == ["m"]
    assert list(store.attachments_on("n")) == []
    world.gone("q")
    assert [store.used_on("v", row) for row in (0, 1)] == [True, False]
    world.add(claim("c"))
    assert not store.used_on("v", 0)


# -- columns against rows ---------------------------------------------------------------------------------------------

MIGRATIONS = ("", "kubernetes.io/aws-ebs", "kubernetes.io/gce-pd,kubernetes.io/aws-ebs")


@pytest.mark.parametrize("seed", range(5))
def test_columns_of_attachments_equal_a_count_row_by_row(seed: int) -> None:
    """Limits, migrated plugins, drivers that have to be there: one row at a time or all, as nodes and objects come."""
    chance = Random(seed)
    names = ["a", "b", "e", "u"]
    world = World(
        node("n0"),
        storage_class(provisioner=CSI),
        *(
            item
            for one in names[:2]
            for item in (claim(one, volume=f"v{one}", bound=True), volume(f"v{one}", driver=CSI))
        ),
        claim("e", volume="ve", bound=True),
        volume("ve", ebs="aws://z/ve"),
        claim("u"),
        driver(CSI, required=True),
        driver(EBS, required=True),
        pod("asks", "a", "e", "u"),
    )
    engine, cluster = world.engine, world.engine.cluster
    asks, nodes = world.record("asks"), 1
    for turn in range(60):
        what, row = chance.randrange(9), chance.randrange(nodes)
        if what == 0 and nodes < 6:
            world.add(node(f"n{nodes}"))
            nodes += 1
        elif what in (1, 2):
            limits: dict[str, int | None] = {
                one: chance.choice([None, 0, 1, 2, 3]) for one in (CSI, EBS, "x") if chance.random() < 0.7
            }
            world.add(csi_node(f"n{row}", limits, chance.choice(MIGRATIONS)))
        elif what == 3:
            engine.remove(ObjectRef("CSINode", f"n{row}"), world.now)
        elif what == 4:
            name = f"p{turn}"
            world.add(pod(name, *chance.sample(names, 2), node=f"n{row}"))
        elif what == 5:
            there = [each.name for each in cluster.pods.values() if each.row >= 0]
            if there:
                world.gone(chance.choice(there))
        elif what == 6:
            world.add(attachment(f"v{chance.choice(names)}", f"n{row}", attacher=chance.choice([CSI, EBS])))
        elif what == 7:
            engine.remove(ObjectRef("VolumeAttachment", f"v{chance.choice(names)}-on-n{row}"), world.now)
        else:
            world.add(driver(chance.choice([CSI, EBS]), required=chance.random() < 0.7))
        some = np.array(chance.sample(range(nodes), chance.randint(1, nodes)), dtype=np.int64)
        for rows in (np.arange(nodes, dtype=np.int64), some):
            plain = cluster.attached.exceeding(asks, rows, overlaid=True).tolist()
            assert cluster.attached.exceeding(asks, rows, overlaid=False).tolist() == plain
            lacks = {
                one: mask.tolist() for one, mask in cluster.attached.without_driver(asks, rows, overlaid=True).items()
            }
            found = cluster.attached.without_driver(asks, rows, overlaid=False)
            assert {one: mask.tolist() for one, mask in found.items()} == lacks


LIMITED: list[tuple[str, int, list[str], list[str], list[str], bool]] = [
    ("one of one", 1, [], [], ["a"], False),
    ("none of one", 0, [], [], ["a"], True),
    ("two of two", 2, [], [], ["a", "b"], False),
    ("two of one", 1, [], [], ["a", "b"], True),
    ("one there, one more of two", 2, ["c"], [], ["a"], False),
    ("one there, one more of one", 1, ["c"], [], ["a"], True),
    ("two there, one more of two", 2, ["c", "d"], [], ["a"], True),
    ("what is there already takes no more", 1, ["a"], [], ["a"], False),
    ("what is there already, and one more of two", 2, ["a"], [], ["a", "b"], False),
    ("what is there already, and one more of one", 1, ["a"], [], ["a", "b"], True),
    ("what is there already, where there are too many", 0, ["a"], [], ["a"], False),
    ("twice the same", 1, [], [], ["a", "a"], False),
    ("attached without a pod", 1, [], ["c"], ["a"], True),
    ("attached with its pod counts once", 2, ["c"], ["c"], ["a"], False),
    ("its own, attached already", 1, [], ["a"], ["a"], True),
]


@pytest.mark.parametrize(
    ("limit", "used", "attached", "asks", "over"), [one[1:] for one in LIMITED], ids=[one[0] for one in LIMITED]
)
def test_where_volumes_would_be_too_many(
    limit: int, used: list[str], attached: list[str], asks: list[str], over: bool
) -> None:
    """devices.md 1.1-1.3, on the node and on another of no limit."""
    world = World(node("n"), node("free"), csi_node("n", {CSI: limit}), csi_node("free", {CSI: None, "x": 0}))
    for name in "abcd":
        world.add(claim(name, volume=f"v{name}", bound=True), volume(f"v{name}", driver=CSI))
    world.add(*(pod(f"{name}-on-{where}", name, node=where) for name in used for where in ("n", "free")))
    world.add(pod("p", *asks))
    world.add(*(attachment(f"v{name}", "n") for name in attached))
    cluster, one = world.engine.cluster, world.record("p")
    for rows, wanted in (([0, 1], [over, False]), ([1, 0], [False, over]), ([1], [False]), ([0], [over])):
        for overlaid in (False, True):
            mask = cluster.attached.exceeding(one, np.array(rows, dtype=np.int64), overlaid=overlaid)
            assert mask.tolist() == wanted


def test_node_more_is_a_row_more() -> None:
    """A row that comes later has no limit until one is set, and does not change those that were there."""
    items = [
        claim("c", volume="v", bound=True),
        volume("v", driver=CSI),
        claim("d", volume="w", bound=True),
        volume("w", driver=CSI),
    ]
    world = World(node("a"), csi_node("a", {CSI: 1}), *items, pod("there", "d", node="a"), pod("p", "c"))
    attached, one = world.engine.cluster.attached, world.record("p")

    def full() -> list[bool]:
        rows = np.arange(len(world.engine.cluster.nodes), dtype=np.int64)
        return list(map(bool, attached.exceeding(one, rows, overlaid=False)))

    assert full() == [True]
    world.add(node("b"))
    assert full() == [True, False]
    world.add(node("c"), csi_node("b", {CSI: 0}))
    assert full() == [True, True, False]
    world.add(csi_node("c", {CSI: 1}))
    assert full() == [True, True, False]
    world.gone("there")
    assert full() == [False, True, False]
    world.engine.remove(ObjectRef("CSINode", "b"), world.now)
    assert full() == [False, False, False]
