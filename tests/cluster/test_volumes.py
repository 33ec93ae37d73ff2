"""Volume objects and what is laid over them: users, reservations, where what is attached has to be looked at again."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest

from reprieve.api import objects
from reprieve.api.storage import (
    BIND_COMPLETED,
    CLASS_BETA,
    SELECTED_NODE,
    CSIPersistentVolumeSource,
    NamedSource,
    ObjectReference,
)
from reprieve.cluster.attachments import (
    ALL_MIGRATED,
    IN_TREE,
    attached_by,
    limits_of,
    migrated_plugins,
    of_volume,
)
from reprieve.cluster.pod_volumes import InlineDisk, UsedClaim, volumes_of
from reprieve.cluster.state import ClusterState
from reprieve.cluster.volume_matching import Reach, delayed, match, split, topologies_mask, volume_limit
from reprieve.cluster.volumes import (
    Reservation,
    VolumeObjects,
    class_of,
    fully_bound,
    key_of,
    not_found,
    refers_to,
    storage,
    volume_class,
)
from tests.building import World, node
from tests.plugins.storage import (
    ZONE,
    attachment,
    capacity,
    claim,
    csi_node,
    driver,
    pod,
    storage_class,
    volume,
)

CSI, EBS = "disk.example.com", "ebs.csi.aws.com"
replace = msgspec.structs.replace


def _noted(item: Any, **annotations: str) -> Any:
    return replace(item, metadata=replace(item.metadata, annotations=annotations))


def _held(name: str, by: str, uid: str = "", namespace: str = "default") -> Any:
    made = volume(name)
    ref = ObjectReference(namespace=namespace, name=by, uid=uid)
    return replace(made, spec=replace(made.spec, claim_ref=ref))


# -- single objects ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("annotations", "phase", "named", "bound"),
    [
        ({}, "Pending", "", False),
        ({}, "Pending", "v", False),
        ({}, "Bound", "v", True),
        ({}, "Bound", "", False),
        ({BIND_COMPLETED: "yes"}, "Pending", "v", True),
        ({BIND_COMPLETED: ""}, "Pending", "v", True),
        ({BIND_COMPLETED: "yes"}, "Pending", "", False),
    ],
)
def test_when_a_claim_is_bound(annotations: dict[str, str], phase: str, named: str, bound: bool) -> None:
    """It names a volume, and the PV controller has noted it, in the annotation or in the phase."""
    assert fully_bound(claim("c", volume=named, phase=phase, annotations=annotations)) is bound


@pytest.mark.parametrize(
    ("held", "key", "uid", "refers"),
    [
        (volume("v"), "default/c", "", False),
        (_held("v", "c"), "default/c", "u", True),
        (_held("v", "c", "u"), "default/c", "u", True),
        (_held("v", "c", "u"), "default/c", "w", False),
        (_held("v", "c", "u"), "default/c", "", True),
        (_held("v", "c", namespace=""), "default/c", "", True),
        (_held("v", "c"), "default/d", "", False),
        (_held("v", "c"), "other/c", "", False),
    ],
)
def test_which_claim_a_volume_is_held_for(held: Any, key: str, uid: str, refers: bool) -> None:
    """The UID counts where both have one: a claim of the same name may be another one."""
    assert refers_to(held, key, uid) is refers


def test_classes_by_field_or_by_the_older_annotation() -> None:
    """The annotation goes before the field, also where it is empty."""
    assert [class_of(one) for one in (claim("c", of="a"), claim("c", of=""))] == ["a", ""]
    assert volume_class(volume("v", of="a")) == "a"
    for text in ("b", ""):
        assert class_of(_noted(claim("c", of="a"), **{CLASS_BETA: text})) == text
        assert volume_class(_noted(volume("v", of="a"), **{CLASS_BETA: text})) == text
    unset = claim("c")
    assert class_of(replace(unset, spec=replace(unset.spec, storage_class_name=None))) == ""


def test_names_and_amounts() -> None:
    """Keys, and the API's words."""
    assert key_of(claim("c")) == "default/c"
    bare = claim("c")
    assert key_of(replace(bare, metadata=replace(bare.metadata, namespace=""))) == "default/c"
    assert key_of(volume("v")) == "v"
    assert not_found("c") == 'persistentvolumeclaim "c" not found'
    assert (storage({"storage": "1Ki"}), storage({"cpu": 3}), storage({})) == (1024, 0, 0)


# -- what the objects come to -----------------------------------------------------------------------------------------


def test_what_is_said_twice_is_no_news() -> None:
    """The version grows with every change, and what was known is told."""
    store = VolumeObjects()
    items: tuple[Any, ...] = (
        claim("c"),
        volume("v"),
        storage_class(),
        csi_node("n", {}),
        driver(CSI),
        capacity("k", "a", "1Gi"),
        attachment("v", "n"),
    )
    tables: tuple[dict[str, Any], ...] = (
        store.claims,
        store.volumes,
        store.classes,
        store.csi_nodes,
        store.drivers,
        store.capacities,
        store.attachments,
    )
    for number, (item, table) in enumerate(zip(items, tables, strict=True), start=1):
        assert store.set(item) is None
        assert (store.version, list(table)) == (number, [key_of(item)])
        assert store.set(item) == item
        assert store.version == number
    for number, (item, table) in enumerate(zip(items, tables, strict=True), start=1):
        kind, meta = type(item).__name__, item.metadata
        assert store.remove(kind, "elsewhere", "nobody") is None
        assert store.remove(kind, meta.namespace, meta.name) == item
        assert (store.version, list(table)) == (len(items) + number, [])
        assert store.remove(kind, meta.namespace, meta.name) is None
    assert store.set(claim("c")) is None
    assert store.remove("PersistentVolumeClaim", "", "c") == claim("c"), "without a namespace it is the default one"


def test_volumes_are_listed_by_their_present_class() -> None:
    """One that changes its class is listed once; a class without volumes not at all."""
    store = VolumeObjects()
    for item in (volume("a", of="x"), volume("b", of="x"), volume("b", "2Gi", of="x"), volume("a", of="y")):
        store.set(item)
    assert {of: dict(there) for of, there in store.by_class.items()} == {
        "x": {"b": volume("b", "2Gi", of="x")},
        "y": {"a": volume("a", of="y")},
    }
    store.remove("PersistentVolume", "", "b")
    assert list(store.by_class) == ["y"]


KEPT: list[tuple[str, Callable[[VolumeObjects], object], bool, bool]] = [
    ("nothing happens", lambda store: None, True, True),
    ("the volume changes", lambda store: store.set(volume("v", "3Gi")), True, True),
    ("the volume is held for the claim, by name", lambda store: store.set(_held("v", "c")), True, True),
    ("the volume is held for the claim", lambda store: store.set(_held("v", "c", "uid-c")), False, True),
    ("the volume is held for another", lambda store: store.set(_held("v", "other")), False, True),
    ("the volume goes", lambda store: store.remove("PersistentVolume", "", "v"), False, True),
    ("another volume goes", lambda store: store.remove("PersistentVolume", "", "w"), True, True),
    ("the claim has its node", lambda store: store.set(_noted(claim("p"), **{SELECTED_NODE: "n"})), True, False),
    ("the claim is bound", lambda store: store.set(claim("p", volume="x", bound=True)), True, False),
    ("the claim changes", lambda store: store.set(claim("p", "3Gi")), True, True),
    ("the claim goes", lambda store: store.remove("PersistentVolumeClaim", "default", "p"), True, False),
    ("it is given back", lambda store: store.give_back("u"), False, False),
    ("somebody else's is given back", lambda store: store.give_back("w"), True, True),
    ("the pod is bound", lambda store: store.settled("u"), True, True),
    ("another is reserved for the pod", lambda store: store.reserve("u", Reservation("m")), False, False),
]


@pytest.mark.parametrize(("happens", "kept", "selected"), [k[1:] for k in KEPT], ids=[k[0] for k in KEPT])
def test_how_long_a_reservation_lasts(happens: Callable[[VolumeObjects], object], kept: bool, selected: bool) -> None:
    """Until the API shows what was reserved, or it is given up."""
    store = VolumeObjects()
    for item in (claim("c"), claim("p"), claim("other"), volume("v"), volume("w")):
        store.set(item)
    assert store.has_volume_for(volume("v"), claim("c")) is None
    assert store.node_of(claim("p")) is None
    store.reserve("u", Reservation("n", {"default/c": "v"}, ("default/p",)))
    store.reserve("w", Reservation("n"))
    happens(store)
    assert store.kept == ({"v": "default/c"} if kept else {})
    assert store.selected == ({"default/p": "n"} if selected else {})
    if kept:
        assert store.has_volume_for(volume("v"), claim("c")) is True
        assert store.has_volume_for(volume("v"), claim("other")) is False
    if selected:
        assert store.node_of(claim("p")) == "n"
    assert store.node_of(_noted(claim("p"), **{SELECTED_NODE: "m"})) == "m", "what the API says goes first"
    assert store.has_volume_for(_held("w", "c"), claim("c")) is True
    assert store.has_volume_for(_held("w", "c"), claim("other")) is False


def test_a_reservation_taken_over_by_another_pod_stays_its_own() -> None:
    """Two pods of one claim: the second notes what it waits for, and giving up the first leaves that alone."""
    store = VolumeObjects()
    store.reserve("a", Reservation("n", {"default/c": "v"}, ("default/p",)))
    store.reserve("b", Reservation("m", {"default/d": "v"}, ("default/p",)))
    store.give_back("a")
    assert store.kept == {"v": "default/d"}
    assert store.selected == {"default/p": "m"}
    store.give_back("b")
    assert (store.kept, store.selected, store.reservations) == ({}, {}, {})


def test_the_check_of_volumes_finds_what_is_off() -> None:
    """Users against pods, and no volume for two."""
    store = VolumeObjects()
    world = World(node("n"), claim("c"), pod("p", "c", "c"))
    one = world.record("p")
    one.row = 0
    with pytest.raises(AssertionError, match="users of claims are off"):
        store.check([one])
    store.placed(one, 0, tentative=False)
    store.check([one])
    assert store.users == {"default/c": 2}
    store.reserve("a", Reservation("n", {"default/c": "v"}))
    store.check([one])
    store.reserve("b", Reservation("n", {"default/d": "v"}))
    with pytest.raises(AssertionError, match="a volume is reserved twice"):
        store.check([one])
    store.give_back("b")
    store.placed(one, 0, tentative=True)
    with pytest.raises(AssertionError):
        store.check([one])
    one.row = -1


def test_what_a_reader_is_told_of_volumes_depends_on_all_that_is_read() -> None:
    """Equal fingerprints, equal views: objects, users, what is kept and what is chosen are part of it."""
    world = World(node("n"), claim("c"), pod("p", "c"))
    store = VolumeObjects()
    seen = {str(store.digest())}
    steps: list[Callable[[], object]] = [
        lambda: store.set(claim("c")),
        lambda: store.placed(world.record("p"), 0, tentative=False),
        lambda: store.reserve("a", Reservation("n", {"default/c": "v"})),
        lambda: store.reserve("b", Reservation("n", {}, ("default/d",))),
    ]
    for step in steps:
        step()
        assert str(store.digest()) not in seen
        seen.add(str(store.digest()))


# -- what a pod's spec says -------------------------------------------------------------------------------------------

DISKS: list[tuple[str, Any, InlineDisk | None]] = [
    (
        "gcePersistentDisk",
        {"gcePersistentDisk": {"pdName": "d", "readOnly": True}},
        InlineDisk("gcePersistentDisk", frozenset({"d"}), True),
    ),
    (
        "awsElasticBlockStore",
        {"awsElasticBlockStore": {"volumeID": "d", "readOnly": True}},
        InlineDisk("awsElasticBlockStore", frozenset({"d"}), False),
    ),
    ("iscsi", {"iscsi": {"iqn": "d", "readOnly": True}}, InlineDisk("iscsi", frozenset({"d"}), True)),
    (
        "rbd",
        {"rbd": {"monitors": ["a", "b"], "image": "i", "pool": "p"}},
        InlineDisk("rbd", frozenset({"a|p|i", "b|p|i"}), False),
    ),
    (
        "azureDisk",
        {"azureDisk": {"diskName": "d", "diskURI": "u", "readOnly": True}},
        InlineDisk("azureDisk", frozenset({"d"}), True),
    ),
    ("cinder", {"cinder": {"volumeID": "d"}}, InlineDisk("cinder", frozenset({"d"}), False)),
    ("portworxVolume", {"portworxVolume": {"volumeID": "d"}}, InlineDisk("portworxVolume", frozenset({"d"}), False)),
    ("emptyDir", {}, None),
]


@pytest.mark.parametrize(("name", "source", "disk"), DISKS, ids=[d[0] for d in DISKS])
def test_disks_that_a_spec_names_itself(name: str, source: dict[str, Any], disk: InlineDisk | None) -> None:
    """VolumeRestrictions: the names of which one in common means the same disk."""
    given = msgspec.convert({"name": name, **source}, objects.Volume)
    found = volumes_of(pod("p", more=[given]))
    assert found == (None if disk is None else found)
    assert disk is None or (found is not None and found.disks == (disk,) and found.claims == ())
    both = volumes_of(pod("p", "c", made=["data"], more=[given]))
    assert both is not None
    assert both.claims == (UsedClaim("default/c", "c"), UsedClaim("default/p-data", "p-data", ephemeral=True))
    assert both.disks == (() if disk is None else (disk,))
    assert volumes_of(pod("p")) is None


# -- what is attached -------------------------------------------------------------------------------------------------


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


def test_what_a_csi_node_says() -> None:
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
def test_what_a_claim_would_attach(items: list[Any], migrated: frozenset[str], found: list[tuple[str, str]]) -> None:
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
    """By node, by volume, and by the rows of pods whose claims name the volume."""
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
    world.engine.remove_resource("VolumeAttachment", "", "v-on-m", world.now)
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
def test_columns_of_attachments_are_what_each_row_says(seed: int) -> None:
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
            engine.remove_resource("CSINode", "", f"n{row}", world.now)
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
            engine.remove_resource("VolumeAttachment", "", f"v{chance.choice(names)}-on-n{row}", world.now)
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


def test_a_node_more_is_a_row_more() -> None:
    """A row that comes later has no limit until one is said, and does not change those that were there."""
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
    world.engine.remove_resource("CSINode", "", "b", world.now)
    assert full() == [False, False, False]


# -- which volumes, where ---------------------------------------------------------------------------------------------


def _matched(*items: Any, labels: tuple[str, ...] = ("a", "b")) -> tuple[dict[str, list[str]], dict[str, list[bool]]]:
    """For each claim that p searches for the volume on each row ("" for none), and the rows of each reason."""
    world = World(*(node(f"n{i}", labels={ZONE: zone}) for i, zone in enumerate(labels)), *items)
    cluster, one = world.engine.cluster, world.record("p")
    bound, unbound = split(cluster.volumes, one)
    found = match(cluster, Reach(), bound, unbound)
    gets = {
        each.metadata.name: [offered[number].metadata.name if number >= 0 else "" for number in taken.tolist()]
        for each, offered, taken in zip(found.searching, found.offered, found.taken, strict=True)
    }
    assert found.rejected(len(labels)).tolist() == [
        any(mask[row] for mask in found.reasons.values()) for row in range(len(labels))
    ]
    return gets, {text: mask.tolist() for text, mask in found.reasons.items()}


OFFERED: list[tuple[str, list[Any], list[str]]] = [
    ("none", [], ["", ""]),
    ("one", [volume("v", "3Gi")], ["v", "v"]),
    ("the smallest that is large enough", [volume("l", "5Gi"), volume("m", "3Gi"), volume("s", "1Gi")], ["m", "m"]),
    ("exactly large enough", [volume("v", "2Gi")], ["v", "v"]),
    ("too small", [volume("v", "1Gi")], ["", ""]),
    ("of two alike the first by name", [volume("w", "3Gi"), volume("v", "3Gi")], ["v", "v"]),
    ("in reach", [volume("v", "3Gi", zone="a"), volume("w", "4Gi", zone="b")], ["v", "w"]),
    ("a larger one where the smaller is out of reach", [volume("v", "3Gi", zone="b"), volume("w", "4Gi")], ["w", "v"]),
    ("of another class", [volume("v", "3Gi", of="other")], ["", ""]),
    ("of another volume mode", [volume("v", "3Gi", mode="Block")], ["", ""]),
    ("with more access modes", [volume("v", "3Gi", modes=["ReadWriteOnce", "ReadOnlyMany"])], ["v", "v"]),
    ("without the access mode", [volume("v", "3Gi", modes=["ReadOnlyMany"])], ["", ""]),
    ("released", [volume("v", "3Gi", phase="Released")], ["", ""]),
    ("of no phase yet", [volume("v", "3Gi", phase="")], ["v", "v"]),
    ("on its way out", [replace(volume("v", "3Gi"), metadata=claim("x", deleted=True).metadata)], ["", ""]),
    ("held for it", [volume("h", "9Gi", held="c", zone="b"), volume("v", "3Gi")], ["", "h"]),
    ("held for it, whatever its labels and phase", [volume("h", "9Gi", held="c", phase="Bound", modes=[])], ["h", "h"]),
    ("held for it, too small", [volume("h", "1Gi", held="c"), volume("v", "3Gi")], ["v", "v"]),
    ("held for it, of another mode", [volume("h", "9Gi", held="c", mode="Block"), volume("v", "3Gi")], ["v", "v"]),
    ("held for another", [volume("h", "2Gi", held="other"), volume("v", "3Gi")], ["v", "v"]),
]


@pytest.mark.parametrize(("volumes", "gets"), [o[1:] for o in OFFERED], ids=[o[0] for o in OFFERED])
def test_the_volume_that_a_claim_gets_on_each_node(volumes: list[Any], gets: list[str]) -> None:
    """FindMatchingVolume of kube-scheduler."""
    found, reasons = _matched(storage_class(), claim("c", "2Gi"), *volumes, pod("p", "c"))
    assert found == {"c": gets}
    missing = [not one for one in gets]
    assert reasons == ({"node(s) didn't find available persistent volumes to bind": missing} if any(missing) else {})


@pytest.mark.parametrize(
    ("labels", "gets"), [({"tier": "fast"}, "v"), ({"tier": "slow"}, "w"), ({"tier": "none"}, ""), ({}, "w")]
)
def test_a_claim_may_ask_for_labels(labels: dict[str, str], gets: str) -> None:
    """Its selector; an empty one takes any volume."""
    volumes = [volume("v", "3Gi", labels={"tier": "fast"}), volume("w", "2Gi", labels={"tier": "slow"})]
    found, _ = _matched(storage_class(), claim("c", "1Gi", selector=labels), *volumes, pod("p", "c"))
    assert found == {"c": [gets, gets]}


def test_smaller_claims_choose_first_and_no_volume_serves_two() -> None:
    """Claims of a pod in the order of their sizes, node by node."""
    volumes = [volume("v1", "1Gi", zone="a"), volume("v2", "2Gi"), volume("v3", "3Gi", zone="b")]
    found, reasons = _matched(
        storage_class(), claim("big", "2Gi"), claim("small", "1Gi"), *volumes, pod("p", "big", "small", "big")
    )
    assert found == {"small": ["v1", "v2"], "big": ["v2", "v3"]}
    assert list(found) == ["small", "big"]
    assert reasons == {}


PROVISIONED: list[tuple[str, list[Any], dict[str, list[bool]]]] = [
    ("no class", [], {"find available": [True, True]}),
    ("no provisioner", [storage_class()], {"find available": [True, True]}),
    ("an empty provisioner", [storage_class(provisioner="")], {"find available": [True, True]}),
    ("a provisioner", [storage_class(provisioner=CSI)], {}),
    ("in some zones", [storage_class(provisioner=CSI, zones=["b"])], {"find available": [True, False]}),
    ("in no zone that there is", [storage_class(provisioner=CSI, zones=["z"])], {"find available": [True, True]}),
    (
        "enough in one zone",
        [storage_class(provisioner=CSI), driver(CSI), capacity("k", "a", "2Gi"), capacity("l", "b", "1Gi")],
        {"enough free storage": [False, True]},
    ),
    ("nothing published", [storage_class(provisioner=CSI), driver(CSI)], {"enough free storage": [True, True]}),
    ("the driver publishes none", [storage_class(provisioner=CSI), driver(CSI, capacities=False)], {}),
    (
        "of another class",
        [storage_class(provisioner=CSI), driver(CSI), capacity("k", "a", "9Gi", of="other")],
        {"enough free storage": [True, True]},
    ),
    (
        "the largest volume is smaller than what is left",
        [
            storage_class(provisioner=CSI),
            driver(CSI),
            capacity("k", "a", "9Gi", largest="1Gi"),
            capacity("l", "b", "1Gi", largest="2Gi"),
        ],
        {"enough free storage": [True, False]},
    ),
    (
        "outside of the zones, and not enough within",
        [storage_class(provisioner=CSI, zones=["b"]), driver(CSI), capacity("k", "a", "9Gi")],
        {"find available": [True, False], "enough free storage": [False, True]},
    ),
]


@pytest.mark.parametrize(("items", "reasons"), [p[1:] for p in PROVISIONED], ids=[p[0] for p in PROVISIONED])
def test_where_a_volume_can_be_made(items: list[Any], reasons: dict[str, list[bool]]) -> None:
    """CheckVolumeProvisioning of kube-scheduler; a class that waits for consumers is what it is about."""
    wait = storage_class() if not items else items[0]
    others = items[1:] if items else []
    one = claim("c", "2Gi") if items else claim("c", "2Gi", of="wait")
    _, found = _matched(wait, *others, one, pod("p", "c"))
    words = {
        "find available": "node(s) didn't find available persistent volumes to bind",
        "enough free storage": "node(s) did not have enough free storage",
    }
    assert found == {words[text]: rows for text, rows in reasons.items()}


def test_where_a_claim_that_has_its_node_is_made() -> None:
    """The node that the API, or a pod before, has chosen, and no other; one that is gone is none."""
    made = storage_class(provisioner=CSI)
    words = "node(s) didn't find available persistent volumes to bind"
    for where, rows in (("n1", [True, False]), ("gone", [True, True])):
        one = claim("c", annotations={SELECTED_NODE: where})
        gets, reasons = _matched(made, one, volume("v"), pod("p", "c"))
        assert (gets, reasons) == ({}, {words: rows})


def test_which_bound_volume_is_out_of_reach() -> None:
    """The first claim that is not right decides the reason, node by node."""
    conflict = "node(s) didn't match PersistentVolume's node affinity"
    missing = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
    bound = [claim(name, volume=f"v{name}", bound=True) for name in "abc"]
    volumes = [volume("va", zone="a"), volume("vb", zone="b"), volume("vc")]
    _, reasons = _matched(*bound, *volumes, pod("p", "c", "a"))
    assert reasons == {conflict: [False, True]}
    _, reasons = _matched(*bound, *volumes, pod("p", "a", "b"))
    assert reasons == {conflict: [True, True]}
    _, reasons = _matched(*bound, volumes[0], pod("p", "a", "b"))
    assert reasons == {conflict: [False, True], missing: [True, False]}
    _, reasons = _matched(*bound, volumes[0], pod("p", "b", "a"))
    assert reasons == {missing: [True, True]}


def test_which_claims_wait_for_their_pod() -> None:
    """Of a class that says so, and without a volume; unknown and immediate ones are not a pod's to bind."""
    items = [
        storage_class(),
        storage_class("now", wait=False),
        claim("bound", volume="v", bound=True),
        claim("waits"),
        claim("named", volume="v"),
        claim("at-once", of="now"),
        claim("classless", of=""),
    ]
    world = World(
        node("n"), *items, pod("p", "nobody", "bound", "bound", "named", "at-once", "classless", "waits", "waits")
    )
    store = world.engine.cluster.volumes
    bound, unbound = split(store, world.record("p"))
    assert [one.metadata.name for one in bound] == ["bound"]
    assert [one.metadata.name for one in unbound] == ["waits"]
    assert [one.metadata.name for one in store.claims.values() if delayed(store, one)] == ["waits"]


@pytest.mark.parametrize(
    ("left", "largest", "limit"), [("1Ki", None, 1024), ("1Ki", "2Ki", 2048), (None, "3", 3), (None, None, None)]
)
def test_the_largest_volume_that_can_be_made(left: Any, largest: str | None, limit: int | None) -> None:
    """maximumVolumeSize goes before what is left."""
    assert volume_limit(capacity("k", "a", left, largest=largest)) == limit


def test_topologies_of_a_class() -> None:
    """Terms are alternatives, requirements of a term hold together; a term without any means no node."""
    state = ClusterState()
    for number, (zone, rack) in enumerate([("a", "1"), ("a", "2"), ("b", "1")]):
        state.set_node(node(f"n{number}", labels={ZONE: zone, "rack": rack}))
    state.set_node(node("bare"))

    def rows(*terms: dict[str, list[str]]) -> list[bool]:
        body = [{"matchLabelExpressions": [{"key": k, "values": v} for k, v in term.items()]} for term in terms]
        made = msgspec.convert(
            {"metadata": {"name": "c"}, "provisioner": CSI, "allowedTopologies": body}, type(storage_class())
        )
        return list(map(bool, topologies_mask(state.nodes, made)))

    assert rows() == [True] * 4
    assert rows({ZONE: ["a"]}) == [True, True, False, False]
    assert rows({ZONE: ["a", "b"], "rack": ["1"]}) == [True, False, True, False]
    assert rows({ZONE: ["b"]}, {"rack": ["2"]}) == [False, True, True, False]
    assert rows({}) == [False] * 4
    assert rows({ZONE: ["nowhere"]}) == [False] * 4


# -- pods of one trial ------------------------------------------------------------------------------------------------


def test_later_pods_of_a_trial_see_what_earlier_ones_have_chosen() -> None:
    """A volume serves one claim; a claim that is to be made for a node is made there for all who use it."""
    world = World(
        node("n0"),
        node("n1"),
        storage_class(),
        storage_class("made", provisioner=CSI),
        claim("c"),
        claim("d"),
        claim("m", of="made"),
        volume("v"),
        volume("w", "2Gi"),
        pod("a", "c", "m"),
        pod("b", "d", "m"),
        pod("e", "d"),
        pod("bare", "gone"),
    )
    cluster = world.engine.cluster
    a, b = world.record("a"), world.record("b")

    def asks(one: Any) -> tuple[list[str], list[str], dict[str, list[bool]]]:
        bound, unbound = split(cluster.volumes, one)
        found = match(cluster, Reach(), bound, unbound)
        volumes, rest = found.on_row(0)
        chosen = sorted(f"{key} {each.metadata.name}" for key, each in volumes.items())
        return chosen, sorted(key_of(each) for each in rest), {t: mask.tolist() for t, mask in found.reasons.items()}

    alone = asks(b)
    assert alone == (["default/d v"], ["default/m"], {})
    elsewhere = {"node(s) didn't find available persistent volumes to bind": [False, True]}
    with cluster.trial():
        cluster.place(a, 0)
        cluster.place(world.record("bare"), 0)
        assert asks(b) == (["default/d w"], ["default/m"], elsewhere)
        cluster.place(b, 0)
        assert asks(world.record("e")) == (["default/d w"], [], {}), "its claim has that one"
        assert [each.taken for each in cluster.volumes.unsettled.values()] == [
            {"v": "default/c"},
            {},
            {"w": "default/d"},
        ]
        cluster.displace(a)
        assert asks(world.record("a"))[0] == ["default/c v"]
    assert asks(b) == alone
