"""Volume objects and what is laid over them: users, reservations, the disks that a pod names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from kube_rules import objects
from kube_rules.controllers.volumes import class_of, refers_to, storage
from kube_rules.storage import BIND_COMPLETED, CLASS_BETA, SELECTED_NODE, ObjectReference
from reprieve.cluster.pod_volumes import InlineDisk, UsedClaim, volumes_of
from reprieve.cluster.volumes import (
    Reservation,
    VolumeObjects,
    fully_bound,
    key_of,
    not_found,
)
from tests.building import World, node
from tests.plugins.storage import attachment, capacity, claim, csi_node, driver, pod, storage_class, volume

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
    assert class_of(volume("v", of="a")) == "a"
    for text in ("b", ""):
        assert class_of(_noted(claim("c", of="a"), **{CLASS_BETA: text})) == text
        assert class_of(_noted(volume("v", of="a"), **{CLASS_BETA: text})) == text
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


def test_object_observed_twice_is_no_change() -> None:
    """The version grows with every change, and what was known is returned."""
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
    ("another pod's is given back", lambda store: store.give_back("w"), True, True),
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


def test_reservation_taken_over_by_another_pod_stays_its_own() -> None:
    """Two pods of one claim: the second notes what it waits for, and giving up the first leaves that alone."""
    store = VolumeObjects()
    store.reserve("a", Reservation("n", {"default/c": "v"}, ("default/p",)))
    store.reserve("b", Reservation("m", {"default/d": "v"}, ("default/p",)))
    store.give_back("a")
    assert store.kept == {"v": "default/d"}
    assert store.selected == {"default/p": "m"}
    store.give_back("b")
    assert (store.kept, store.selected, store.reservations) == ({}, {}, {})


def test_check_of_volumes_finds_what_is_off() -> None:
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


def test_version_of_volumes_covers_all_that_is_read() -> None:
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
    assert (None if found is None else (found.disks, found.claims)) == (None if disk is None else ((disk,), ()))
    both = volumes_of(pod("p", "c", made=["data"], more=[given]))
    assert both is not None
    assert both.claims == (UsedClaim("default/c", "c"), UsedClaim("default/p-data", "p-data", ephemeral=True))
    assert both.disks == (() if disk is None else (disk,))
    assert volumes_of(pod("p")) is None
