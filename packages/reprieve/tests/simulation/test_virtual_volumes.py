"""Volumes in simulated time, rule by rule: what the volume controllers and a provisioner would do.

Source: the PersistentVolume controller (binding, default class, reclaiming), external-provisioner (topology, capacity),
the ephemeral-volume and attach-detach controllers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from kube_rules import objects
from kube_rules.meta import ObjectRef
from kube_rules.quantity import value_of
from kube_rules.storage import (
    BIND_COMPLETED,
    SELECTED_NODE,
    CSIDriver,
    CSIDriverSpec,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    TopologySelectorLabelRequirement,
    TopologySelectorTerm,
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentSpec,
)
from reprieve.framework.instructions import AwaitObject, PatchObject
from reprieve.framework.status import SUCCESS, Code, Status
from reprieve.scheduling.engine import Engine
from reprieve.simulation.controllers.volumes import Storage
from tests.building import node, pod
from tests.plugins.storage import ZONE, claim, csi_node, storage_class, volume

NOW = 5.0
CSI = "csi.example.com"


class Cluster:
    """An engine with nodes of two zones, and the volumes and claims of it."""

    def __init__(self, *items: Any) -> None:
        self.engine = Engine()
        for name, zone in (("n1", "a"), ("n2", "b")):
            self.engine.set(node(name, labels={ZONE: zone}), NOW)
        self.storage = Storage(self.engine, lambda effects: None)
        for item in items:
            self.storage.set(item, NOW)

    def claim(self, name: str) -> PersistentVolumeClaim:
        return self.engine.cluster.volumes.claims[f"default/{name}"]

    def volume(self, name: str) -> PersistentVolume:
        return self.engine.cluster.volumes.volumes[name]

    @property
    def volumes(self) -> dict[str, str]:
        """Phases by name."""
        return {name: one.status.phase for name, one in self.engine.cluster.volumes.volumes.items()}


def new(name: str, size: str = "1Gi", **more: Any) -> PersistentVolumeClaim:
    """A claim that no cluster has yet."""
    made = claim(name, size, **more)
    return replace(made, metadata=replace(made.metadata, uid=""))


def no_class(made: PersistentVolumeClaim) -> PersistentVolumeClaim:
    return replace(made, spec=replace(made.spec, storage_class_name=None))


def bound(cluster: Cluster, name: str = "c") -> str:
    """The volume that the claim is bound to, both sides agreeing; empty if it is not bound."""
    found = cluster.claim(name)
    if not found.spec.volume_name:
        return ""
    held = cluster.volume(found.spec.volume_name)
    assert held.spec.claim_ref is not None
    assert (held.spec.claim_ref.namespace, held.spec.claim_ref.name) == ("default", name)
    assert held.spec.claim_ref.uid == found.metadata.uid
    assert (held.status.phase, found.status.phase) == ("Bound", "Bound")
    assert found.metadata.annotations[BIND_COMPLETED] == "yes"
    assert found.status.capacity == held.spec.capacity
    return found.spec.volume_name


NOW_CLASS = storage_class("now", wait=False)
PROVISIONED = storage_class("now", wait=False, provisioner=CSI)


# -- binding ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("volumes", "wanted", "chosen"),
    [
        ([volume("v", of="now")], new("c", of="now"), "v"),
        ([volume("v", of="other")], new("c", of="now"), ""),
        ([volume("v", "2Gi", of="now"), volume("w", "1Gi", of="now")], new("c", of="now"), "w"),
        ([volume("w", of="now"), volume("v", of="now")], new("c", of="now"), "v"),
        ([volume("v", "1Gi", of="now")], new("c", "1025Mi", of="now"), ""),
        ([volume("v", "1Gi", of="now")], new("c", "1024Mi", of="now"), "v"),
        ([volume("v", of="now", phase="Released")], new("c", of="now"), ""),
        ([volume("v", of="now", phase="Bound")], new("c", of="now"), ""),
        ([volume("v", of="now", phase="")], new("c", of="now"), "v"),
        ([volume("v", of="now", mode="Block")], new("c", of="now"), ""),
        ([volume("v", of="now", mode="Block")], new("c", of="now", mode="Block"), "v"),
        ([volume("v", of="now", modes=("ReadOnlyMany",))], new("c", of="now"), ""),
        ([volume("v", of="now", modes=("ReadOnlyMany", "ReadWriteOnce"))], new("c", of="now"), "v"),
        ([volume("v", of="now")], new("c", of="now", modes=("ReadOnlyMany", "ReadWriteOnce")), ""),
        ([volume("v", of="now", labels={"a": "b"})], new("c", of="now", selector={"a": "b"}), "v"),
        ([volume("v", of="now", labels={"a": "x"})], new("c", of="now", selector={"a": "b"}), ""),
        ([volume("v", of="now", held="other")], new("c", of="now"), ""),
        ([volume("v", of="now"), volume("w", "9Gi", of="now", held="c")], new("c", of="now"), "w"),
        ([volume("v", of="now", held="c", modes=("ReadOnlyMany",))], new("c", of="now"), "v"),
        ([volume("v", of="now", held="c")], new("c", of="now", selector={"a": "b"}), "v"),
        ([volume("v", of="now", held="c")], new("c", "2Gi", of="now"), ""),
        ([volume("v", of="now")], claim("c", of="now"), ""),
        ([volume("v", of="other")], new("c", of="now", volume="v"), "v"),
        ([volume("v", of="now", held="other")], new("c", of="now", volume="v"), None),
    ],
)
def test_which_volume_a_new_claim_is_bound_to(
    volumes: list[PersistentVolume], wanted: PersistentVolumeClaim, chosen: str | None
) -> None:
    """The smallest that is large enough, by name; one that is held for it first; the one it names before all.

    A claim that a cluster has and has not bound stays as it is.  None: it names one that it does not get.
    """
    orders = [[*volumes, wanted], *([[wanted, *volumes]] if len(volumes) == 1 else [])]
    for order in orders:
        cluster = Cluster(NOW_CLASS, *order)
        if chosen is None:
            assert cluster.claim("c").status.phase == "Pending"
        else:
            assert bound(cluster) == chosen
        assert cluster.claim("c").metadata.uid == ("uid-c" if wanted.metadata.uid else "claim/default/c")


@pytest.mark.parametrize(
    ("found", "made"),
    [
        (PROVISIONED, "pvc-default-c"),
        (NOW_CLASS, ""),
        (storage_class("now", wait=False, provisioner=""), ""),
        (storage_class("now", provisioner=CSI), ""),
        (storage_class("other", wait=False, provisioner=CSI), ""),
    ],
)
def test_which_claims_get_a_volume_at_once(found: objects.KubernetesObject, made: str) -> None:
    """Those of a class that has a provisioner and does not wait for a pod."""
    cluster = Cluster(found, new("c", "3Gi", of="now", mode="Block", modes=("ReadWriteMany",)))
    assert bound(cluster) == made
    if made:
        spec = cluster.volume(made).spec
        assert (spec.storage_class_name, spec.volume_mode, spec.access_modes) == ("now", "Block", ("ReadWriteMany",))
        assert spec.capacity == {"storage": "3Gi"}
        assert spec.csi is not None
        assert (spec.csi.driver, spec.csi.volume_handle) == (CSI, made)
        assert (spec.persistent_volume_reclaim_policy, spec.node_affinity) == ("Delete", None)
        assert cluster.volume(made).metadata.uid == f"volume/{made}"


def test_claim_that_names_a_volume_waits_for_that_one() -> None:
    """None is provisioned for it."""
    cluster = Cluster(PROVISIONED, new("c", of="now", volume="v"))
    assert cluster.volumes == {}
    cluster.storage.set(volume("v", of="now"), NOW)
    assert bound(cluster) == "v"
    assert Cluster(storage_class("wait"), volume("v"), new("c", of="wait")).claim("c").spec.volume_name == ""
    assert bound(Cluster(storage_class("wait"), volume("v"), new("c", of="wait", volume="v"))) == "v"


@pytest.mark.parametrize(
    ("defaults", "given"),
    [((), None), (("now",), "now"), (("b", "a"), "a")],
    ids=["none", "one", "the first by name"],
)
def test_claim_without_a_class_gets_the_default(defaults: tuple[str, ...], given: str | None) -> None:
    """And waits for it where there is none yet; one with an empty class asks for none."""
    classes = [storage_class(name, wait=False, default=True) for name in defaults]
    other = storage_class("0", wait=False)
    for order in ((other, *classes, no_class(new("c"))), (other, no_class(new("c")), *classes)):
        first = order[2].metadata.name if len(defaults) == 2 and order[1].metadata.name == "c" else given
        assert Cluster(*order).claim("c").spec.storage_class_name == first
    assert Cluster(*classes, new("c", of="")).claim("c").spec.storage_class_name == ""


def test_newest_default_class_counts() -> None:
    """Upstream's GetDefaultClass: creation time, then name."""
    newest = storage_class("z", wait=False, default=True)
    newest = replace(newest, metadata=replace(newest.metadata, creation_timestamp=datetime(2026, 1, 1, tzinfo=UTC)))
    cluster = Cluster(storage_class("a", wait=False, default=True), newest, no_class(new("c")))
    assert cluster.claim("c").spec.storage_class_name == "z"


def test_held_volume_is_bound_though_its_class_waits_for_a_pod() -> None:
    """Upstream's syncUnboundClaim: with delayed binding a claim still gets the volume that is held for it."""
    cluster = Cluster(storage_class("wait"), volume("v", of="wait", held="c"), new("c", of="wait"))
    assert bound(cluster) == "v"


def test_volume_made_at_once_is_in_the_topologies_of_its_class() -> None:
    """As external-provisioner makes it where no node is chosen."""
    terms = (
        TopologySelectorTerm(match_label_expressions=(TopologySelectorLabelRequirement(key=ZONE, values=("a",)),)),
    )
    cluster = Cluster(replace(PROVISIONED, allowed_topologies=terms), new("c", of="now"))
    affinity = cluster.volume(bound(cluster)).spec.node_affinity
    assert affinity is not None
    assert affinity.required is not None
    [term] = affinity.required.node_selector_terms
    assert [(each.key, each.operator, each.values) for each in term.match_expressions] == [(ZONE, "In", ("a",))]


# -- what PreBind writes ---------------------------------------------------------------------------


def patch(kind: str, name: str, **body: Any) -> PatchObject:
    return PatchObject(kind, "default" if kind == "PersistentVolumeClaim" else "", name, body)


def chosen(name: str, on: str) -> PatchObject:
    return patch("PersistentVolumeClaim", name, metadata={"annotations": {SELECTED_NODE: on}})


def held_for(name: str, by: str, uid: str = "", namespace: str = "default") -> PatchObject:
    ref = {"name": by, **({"uid": uid} if uid else {}), **({"namespace": namespace} if namespace else {})}
    return patch("PersistentVolume", name, spec={"claimRef": ref})


@pytest.mark.parametrize(
    ("write", "chosen_volume"),
    [
        (held_for("v", "c"), "v"),
        (held_for("v", "c", "uid-c"), "v"),
        (held_for("v", "c", "uid-other"), ""),
        (held_for("v", "other"), ""),
        (held_for("v", "c", namespace=""), "v"),
        (held_for("v", "c", namespace="team"), ""),
        (patch("PersistentVolume", "v", metadata={"labels": {"a": "b"}}), ""),
    ],
)
def test_volume_that_is_written_to_hold_a_claim_is_bound_to_it(write: PatchObject, chosen_volume: str) -> None:
    cluster = Cluster(storage_class(), volume("v", labels={"x": "y"}), claim("c"))
    assert cluster.storage.carry_out([write], NOW) == SUCCESS
    assert bound(cluster) == chosen_volume
    assert cluster.volume("v").metadata.labels["x"] == "y", "a merge patch leaves what it does not name"


@pytest.mark.parametrize(
    ("found", "on", "made"),
    [
        (storage_class(provisioner=CSI), "n1", True),
        (None, "n1", False),
    ],
)
def test_claim_with_a_node_chosen_gets_a_volume_made(
    found: objects.KubernetesObject | None, on: str, made: bool
) -> None:
    cluster = Cluster(*([found] if found is not None else []), claim("c"))
    assert cluster.storage.carry_out([chosen("c", on)], NOW) == SUCCESS
    assert bound(cluster) == ("pvc-default-c" if made else "")
    assert cluster.claim("c").metadata.annotations[SELECTED_NODE] == on


def test_claim_that_is_bound_gets_no_other_volume() -> None:
    cluster = Cluster(storage_class(provisioner=CSI), volume("v", held="c"), claim("c", volume="v", bound=True))
    assert cluster.storage.carry_out([chosen("c", "n1")], NOW) == SUCCESS
    assert list(cluster.volumes) == ["v"]
    other = Cluster(storage_class(provisioner=CSI), claim("c"))
    label = patch("PersistentVolumeClaim", "c", metadata={"labels": {"a": "b"}})
    assert other.storage.carry_out([label], NOW) == SUCCESS
    assert other.volumes == {}


@pytest.mark.parametrize(
    ("keys", "driver", "on", "reach"),
    [
        ([ZONE], CSI, "n1", {ZONE: ("a",)}),
        ([ZONE], CSI, "n2", {ZONE: ("b",)}),
        ([ZONE, "rack"], CSI, "n1", {ZONE: ("a",)}),
        (["rack"], CSI, "n1", None),
        ([], CSI, "n1", None),
        ([ZONE], "other.example.com", "n1", None),
        ([ZONE], CSI, "gone", None),
    ],
)
def test_volume_is_in_reach_from(
    keys: list[str], driver: str, on: str, reach: Mapping[str, tuple[str, ...]] | None
) -> None:
    """Where the driver's topology keys have the values they have on the node; else everywhere."""
    nodes = [csi_node(name, {driver: 5}, keys=keys) for name in ("n1", "n2", "gone")]
    cluster = Cluster(storage_class(provisioner=CSI), *nodes, claim("c"))
    cluster.storage.carry_out([chosen("c", on)], NOW)
    affinity = cluster.volume("pvc-default-c").spec.node_affinity
    if reach is None:
        assert affinity is None
        return
    assert affinity is not None
    assert affinity.required is not None
    [term] = affinity.required.node_selector_terms
    assert [(each.key, each.operator, each.values) for each in term.match_expressions] == [
        (key, "In", values) for key, values in reach.items()
    ]


def capacity(name: str, size: str | None, zone: str | None = "a", of: str = "wait") -> CSIStorageCapacity:
    return CSIStorageCapacity(
        metadata=objects.ObjectMeta(name=name, namespace="default"),
        storage_class_name=of,
        node_topology=objects.LabelSelector(match_labels={ZONE: zone}) if zone is not None else None,
        capacity=size,
    )


@pytest.mark.parametrize(
    ("published", "on", "left"),
    [
        (True, "n1", {"a": 7, "b": None, "c": 9, "d": 1, "e": 1, "f": 3, "g": 5}),
        (True, "n2", {"a": 7, "b": None, "c": 9, "d": 1, "e": 3, "f": 3, "g": 3}),
        (True, "gone", {"a": 7, "b": None, "c": 9, "d": 1, "e": 3, "f": 3, "g": 5}),
        (False, "n1", {"a": 7, "b": None, "c": 9, "d": 1, "e": 3, "f": 3, "g": 5}),
    ],
)
def test_volume_takes_its_size_of_the_first_capacity_that_is_large_enough(
    published: bool, on: str, left: dict[str, int | None]
) -> None:
    """In GiB, of two, by name; `a` is of another class, `b` unknown, `c` of no node, `d` too small, `g` elsewhere."""
    driver = CSIDriver(metadata=objects.ObjectMeta(name=CSI), spec=CSIDriverSpec(storage_capacity=published))
    there = [
        capacity("a", "7Gi", of="other"),
        capacity("b", None),
        capacity("c", "9Gi", None),
        capacity("d", "1Gi"),
        capacity("e", "3Gi"),
        capacity("f", "3Gi"),
        capacity("g", "5Gi", "b"),
    ]
    cluster = Cluster(storage_class(provisioner=CSI), driver, *there, claim("c", "2Gi"))
    cluster.storage.carry_out([chosen("c", on)], NOW)
    found = {one.metadata.name: one.capacity for one in cluster.engine.cluster.volumes.capacities.values()}
    assert {name: size and value_of(size) >> 30 for name, size in found.items()} == left


def test_capacity_of_exactly_the_size_is_used_up() -> None:
    driver = CSIDriver(metadata=objects.ObjectMeta(name=CSI), spec=CSIDriverSpec(storage_capacity=True))
    cluster = Cluster(storage_class(provisioner=CSI), driver, capacity("x", "2Gi"), claim("c", "2Gi"))
    cluster.storage.carry_out([chosen("c", "n1")], NOW)
    [left] = cluster.engine.cluster.volumes.capacities.values()
    assert left.capacity is not None
    assert value_of(left.capacity) == 0


def waiting(kind: str, name: str, answer: Status) -> AwaitObject:
    return AwaitObject(
        kind, "default", name, lambda found: answer if found is not None else Status(Code.ERROR, "gone"), 5
    )


@pytest.mark.parametrize(
    ("instructions", "code", "message"),
    [
        ([], Code.SUCCESS, ""),
        ([held_for("w", "c")], Code.ERROR, 'persistentvolume "w" not found'),
        ([chosen("d", "n1")], Code.ERROR, 'persistentvolumeclaim "d" not found'),
        ([waiting("PersistentVolumeClaim", "c", SUCCESS)], Code.SUCCESS, ""),
        (
            [waiting("PersistentVolumeClaim", "c", Status(Code.WAIT))],
            Code.ERROR,
            'binding volumes: timed out waiting for claim "c"',
        ),
        ([waiting("PersistentVolumeClaim", "c", Status(Code.ERROR, "why"))], Code.ERROR, "why"),
        ([waiting("PersistentVolumeClaim", "d", SUCCESS)], Code.ERROR, "gone"),
        ([waiting("ResourceClaim", "d", SUCCESS)], Code.SUCCESS, ""),
        ([PatchObject("ResourceClaim", "default", "d", {})], Code.SUCCESS, ""),
        ([held_for("w", "c"), held_for("v", "c")], Code.ERROR, 'persistentvolume "w" not found'),
    ],
)
def test_claim_that_cannot_be_written_fails_the_binding(instructions: list[Any], code: Code, message: str) -> None:
    cluster = Cluster(storage_class(), volume("v"), claim("c"))
    found = cluster.storage.carry_out(instructions, NOW)
    assert (found.code, found.reason) == (code, message)
    assert cluster.claim("c").spec.volume_name == "", "nothing after it is written"


# -- ephemeral claims, and what goes ---------------------------------------------------------------


def ephemeral(name: str, of: str = "wait", **more: Any) -> objects.Pod:
    """A pod with a generic ephemeral volume `v`."""
    template = objects.PersistentVolumeClaimTemplate(
        metadata=objects.ObjectMeta(labels={"a": "b"}, uid="of-the-template"), spec=claim("x", "3Gi", of=of).spec
    )
    source = objects.EphemeralVolumeSource(volume_claim_template=template)
    made = pod(name, cpu=1, **more)
    volumes = (objects.Volume(name="v", ephemeral=source), objects.Volume(name="plain"))
    return replace(made, spec=replace(made.spec, volumes=volumes))


def test_pod_s_ephemeral_volume_has_a_claim_as_long_as_the_pod_is_there() -> None:
    cluster = Cluster(storage_class())
    given = ephemeral("p", node="n1")
    cluster.storage.prepare(given, NOW)
    found = cluster.claim("p-v")
    assert (found.metadata.labels, found.spec.resources.requests) == ({"a": "b"}, {"storage": "3Gi"})
    assert found.metadata.uid == "claim/default/p-v"
    [owner] = found.metadata.owner_references
    uid = given.metadata.uid or "default/p"
    assert (owner.api_version, owner.kind, owner.name, owner.uid, owner.controller) == ("v1", "Pod", "p", uid, True)
    cluster.storage.prepare(replace(given, metadata=replace(given.metadata, uid="another")), NOW)
    assert cluster.claim("p-v").metadata.owner_references == (owner,), "it is made once"
    cluster.engine.set(given, NOW)
    [record] = cluster.engine.cluster.pods.values()
    cluster.storage.gone(record, "n1", NOW)
    assert cluster.engine.cluster.volumes.claims == {}


@pytest.mark.parametrize(("owner", "stays"), [("default/p", False), ("another", True), ("", True)])
def test_claim_of_an_ephemeral_volume_s_name_goes_only_with_its_own_pod(owner: str, stays: bool) -> None:
    given = ephemeral("p", node="n1")
    given = replace(given, metadata=replace(given.metadata, uid="default/p"))
    cluster = Cluster(storage_class(), claim("p-v", owner=owner), claim("other", owner="default/p"))
    cluster.engine.set(given, NOW)
    [record] = cluster.engine.cluster.pods.values()
    cluster.storage.gone(record, "", NOW)
    assert sorted(cluster.engine.cluster.volumes.claims) == ["default/other", *(["default/p-v"] if stays else [])]


@pytest.mark.parametrize(
    ("reclaim", "held", "phases"),
    [
        ("Delete", "c", {}),
        ("Retain", "c", {"v": "Released"}),
        ("Recycle", "c", {"v": "Released"}),
        ("Delete", "other", {"v": "Bound"}),
        ("Delete", "", {"v": "Bound"}),
    ],
)
def test_volume_of_a_deleted_claim(reclaim: str, held: str, phases: dict[str, str]) -> None:
    cluster = Cluster(
        storage_class(), volume("v", held=held, reclaim=reclaim, phase="Bound"), claim("c", volume="v", bound=True)
    )
    assert cluster.storage.remove("PersistentVolumeClaim", "default", "c", NOW)
    assert cluster.volumes == phases
    assert not cluster.storage.remove("PersistentVolumeClaim", "default", "c", NOW)


def test_claim_that_is_gone_is_bound_to_nothing_that_comes_later() -> None:
    cluster = Cluster(NOW_CLASS, new("c", of="now"))
    assert cluster.storage.remove("PersistentVolumeClaim", "", "c", NOW)
    cluster.storage.set(volume("v", of="now"), NOW)
    assert cluster.volumes == {"v": "Available"}
    assert cluster.storage.remove("PersistentVolume", "", "v", NOW)
    assert cluster.volumes == {}


def attachment(name: str, of: str, on: str) -> VolumeAttachment:
    return VolumeAttachment(
        metadata=objects.ObjectMeta(name=name),
        spec=VolumeAttachmentSpec(attacher=CSI, node_name=on, source=VolumeAttachmentSource(persistent_volume_name=of)),
    )


def user(name: str, claims: Iterable[str], on: str) -> objects.Pod:
    made = pod(name, cpu=1, node=on)
    sources = [objects.PersistentVolumeClaimVolumeSource(claim_name=each) for each in claims]
    volumes = tuple(objects.Volume(name=each.claim_name, persistent_volume_claim=each) for each in sources)
    return replace(made, spec=replace(made.spec, volumes=volumes))


@pytest.mark.parametrize(
    ("stays", "node_of_the_pod", "left"),
    [
        ([], "n1", "v-n2 x-n1"),
        ([user("q", ["c"], "n1")], "n1", "v-n1 v-n2 x-n1"),
        ([user("q", ["c"], "n2")], "n1", "v-n2 x-n1"),
        ([user("q", ["d"], "n1")], "n1", "v-n2 w-n1 x-n1"),
        ([], "", "v-n1 v-n2 w-n1 x-n1"),
    ],
)
def test_volume_is_detached_with_the_last_pod_that_uses_it_there(
    stays: list[objects.Pod], node_of_the_pod: str, left: str
) -> None:
    """devices.md 1.7: from that node alone; what no pod used stays attached."""
    cluster = Cluster(
        storage_class(),
        *(volume(name, held=by, driver=CSI) for name, by in (("v", "c"), ("w", "d"), ("x", "e"))),
        *(claim(name, volume=of, bound=True) for name, of in (("c", "v"), ("d", "w"), ("e", "x"))),
        *(attachment(f"{of}-{on}", of, on) for of, on in (("v", "n1"), ("v", "n2"), ("w", "n1"), ("x", "n1"))),
    )
    for each in (user("p", ["c", "d"], "n1"), *stays):
        cluster.engine.set(each, NOW)
    record = next(one for one in cluster.engine.cluster.pods.values() if one.name == "p")
    cluster.engine.remove(ObjectRef("Pod", uid=record.uid), NOW)
    cluster.storage.gone(record, node_of_the_pod, NOW)
    assert " ".join(sorted(cluster.engine.cluster.volumes.attachments)) == left
