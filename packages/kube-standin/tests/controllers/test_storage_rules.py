"""Which claim gets which volume, what a provisioned volume looks like, how long objects are protected; what garbage
collection deletes; what quotas count.
"""

from __future__ import annotations

from typing import Any

import pytest

from kube_standin.controllers.garbage import Item
from tests.admission.plane import pod
from tests.controllers.test_lifecycle import config_map, reference
from tests.controllers.test_volumes import (
    ONCE,
    STORAGE,
    claim,
    make,
    storage_class,
    the_claim,
    the_volume,
    uses,
    volume,
)
from tests.controllers.test_volumes import pod as pod_with
from tests.controllers.world import Json, World, owner


@pytest.fixture
def world() -> World:
    return World(STORAGE)


def bound_to(world: World, name: str = "c") -> str | None:
    found: str | None = the_claim(world, name)["spec"].get("volumeName")
    return found


def phase(world: World, name: str) -> str:
    found: str = the_volume(world, name)["status"]["phase"]
    return found


# -- binding


@pytest.mark.parametrize(
    ("volumes", "wanted", "expected"),
    [
        ([volume("b", "2Gi"), volume("a", "2Gi")], claim("c", "2Gi"), "a"),
        ([volume("a", "1023Mi")], claim("c", "1Gi"), None),
        ([volume("a", "1024Mi")], claim("c", "1Gi"), "a"),
        ([volume("a", of="x"), volume("b", of="y")], claim("c", of="y"), "b"),
        ([volume("a"), volume("b", volumeMode="Block")], claim("c", volumeMode="Block"), "b"),
        ([volume("a"), volume("b", accessModes=["ReadWriteOnce", "ReadWriteMany"])],
         claim("c", accessModes=["ReadWriteMany"]), "b"),
        ([volume("a"), {**volume("b"), "metadata": {"name": "b", "labels": {"k": "v"}}}],
         claim("c", selector={"matchLabels": {"k": "v"}}), "b"),
        # One that is held for the claim beforehand is taken, though another would be smaller.
        ([volume("a", "1Gi"), volume("b", "9Gi", held="c")], claim("c"), "b"),
        # But it has to be large enough.
        ([volume("a", "1Gi"), volume("b", "9Gi", held="c")], claim("c", "10Gi"), None),
        # A claim may name its volume: then it is that or none.
        ([volume("a"), volume("b", "9Gi")], claim("c", volumeName="b"), "b"),
    ],
)  # fmt: skip
def test_which_volume_a_claim_gets(world: World, volumes: list[Json], wanted: Json, expected: str | None) -> None:
    make(world, *volumes, wanted)
    assert bound_to(world) == expected
    assert the_claim(world, "c")["status"]["phase"] == ("Bound" if expected else "Pending")


def test_claim_that_names_its_volume_waits_for_it(world: World) -> None:
    make(world, volume("a"), claim("c", volumeName="b"))
    assert the_claim(world, "c")["status"]["phase"] == "Pending"
    make(world, volume("b", held="other"))
    assert the_claim(world, "c")["status"]["phase"] == "Pending", "another's"
    make(world, claim("d", volumeName="late"), volume("late"))
    assert the_claim(world, "d")["status"]["phase"] == "Bound"


def test_volume_that_goes_is_not_taken(world: World) -> None:
    made = volume("a")
    made["metadata"]["finalizers"] = ["example.com/wait"]
    make(world, made)
    world.delete("v1", "PersistentVolume", "a", "")
    make(world, claim("c"))
    assert bound_to(world) is None


def test_claim_that_goes_takes_nothing(world: World) -> None:
    made = claim("c")
    made["metadata"]["finalizers"] = ["example.com/wait"]
    make(world, made)
    world.delete("v1", "PersistentVolumeClaim", "c")
    make(world, volume("a"))
    assert bound_to(world) is None
    assert phase(world, "a") == "Available"


def test_claim_and_volume_name_each_other(world: World) -> None:
    make(world, volume("v", "2Gi"), claim("c"))
    found, taken = the_claim(world, "c"), the_volume(world, "v")
    assert {key: taken["spec"]["claimRef"][key] for key in ("apiVersion", "kind", "namespace", "name", "uid")} == {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": "default",
        "name": "c",
        "uid": found["metadata"]["uid"],
    }
    assert found["metadata"]["annotations"] == {
        "pv.kubernetes.io/bind-completed": "yes",
        "pv.kubernetes.io/bound-by-controller": "yes",
    }
    own = make(world, volume("w"), claim("d", volumeName="w"))
    assert the_claim(own, "d")["metadata"]["annotations"] == {"pv.kubernetes.io/bind-completed": "yes"}


def test_new_or_freed_volume_is_bound_to_a_pending_claim(world: World) -> None:
    make(world, claim("c"), volume("v", held="other"))
    assert bound_to(world) is None
    world.patch("v1", "PersistentVolume", "v", {"spec": {"claimRef": None}}, ns="")
    world.settle()
    assert bound_to(world) == "v"


def test_status_of_a_volume_keeps_what_a_client_wrote_while_its_phase_holds(world: World) -> None:
    """persistent_volumes.go, "should apply changes to a pv/pvc status"; another phase has no message yet."""
    make(world, claim("c"), volume("v"))
    written = {"message": "m", "reason": "E2E"}
    world.set_status("v1", "PersistentVolume", "v", written, ns="")
    assert world.settle().get("v1", "PersistentVolume", "v", "")["status"] == {"phase": "Bound", **written}
    world.delete("v1", "PersistentVolumeClaim", "c")
    assert world.settle().get("v1", "PersistentVolume", "v", "")["status"] == {"phase": "Released"}


def test_binding_that_was_cut_short_is_completed(world: World) -> None:
    """Whatever was written of it: every side says what it is again."""
    make(world, volume("v", "2Gi"), claim("c"))
    world.set_status("v1", "PersistentVolumeClaim", "c", {"phase": "Pending", "capacity": None})
    world.set_status("v1", "PersistentVolume", "v", {"phase": "Available"}, ns="")
    world.settle()
    assert the_claim(world, "c")["status"] == {"phase": "Bound", "accessModes": ONCE, "capacity": {"storage": "2Gi"}}
    assert phase(world, "v") == "Bound"


def test_volume_that_is_held_for_a_claim_that_has_another_is_available(world: World) -> None:
    make(world, volume("v"), claim("c"))
    other = volume("w", held="c")
    other["spec"]["claimRef"]["uid"] = the_claim(world, "c")["metadata"]["uid"]
    make(world, other)
    assert (phase(world, "v"), phase(world, "w")) == ("Bound", "Available")


@pytest.mark.parametrize(("policy", "left"), [("Retain", True), ("Delete", False)])
def test_volume_of_a_deleted_claim(world: World, policy: str, left: bool) -> None:
    make(world, volume("v", policy=policy), claim("c"))
    world.delete("v1", "PersistentVolumeClaim", "c")
    world.settle()
    assert world.has("v1", "PersistentVolume", "v", "") is left
    if left:
        assert phase(world, "v") == "Released"
        world.patch("v1", "PersistentVolume", "v", {"spec": {"claimRef": None}}, ns="")
        assert phase(world.settle(), "v") == "Available"


def test_claim_of_the_same_name_is_another_s(world: World) -> None:
    """By its UID: what was bound is released, and a lost claim is reported once."""
    make(world, volume("v"), claim("c"))
    world.patch("v1", "PersistentVolume", "v", {"spec": {"claimRef": {"uid": "another"}}}, ns="")
    world.settle()
    assert the_claim(world, "c")["status"] == {"phase": "Lost"}
    assert phase(world, "v") == "Released"
    world.patch("v1", "PersistentVolumeClaim", "c", {"metadata": {"labels": {"touched": "yes"}}})
    world.settle()
    lost = [one for one in world.all("v1", "Event") if one["reason"] == "ClaimLost"]
    assert [(one["type"], one["message"]) for one in lost] == [
        ("Warning", "Bound claim has lost its PersistentVolume. Data on the volume is lost!")
    ]


# -- classes and provisioning


def test_claim_that_waits_for_a_pod_is_provisioned_when_a_node_is_chosen(world: World) -> None:
    make(world, storage_class("slow", wait=True), volume("v", of="slow"), claim("c", of="slow"))
    assert bound_to(world) is None
    assert "volume.kubernetes.io/storage-provisioner" not in the_claim(world, "c")["metadata"].get("annotations", {})
    chosen = {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n"}}}
    world.patch("v1", "PersistentVolumeClaim", "c", chosen)
    world.settle()
    assert bound_to(world) == f"pvc-{the_claim(world, 'c')['metadata']['uid']}"


@pytest.mark.parametrize("provisioner", ["kubernetes.io/no-provisioner"])
def test_class_without_a_provisioner_makes_nothing(world: World, provisioner: str) -> None:
    make(world, storage_class("none", provisioner), claim("c", of="none"))
    assert bound_to(world) is None
    assert "annotations" not in the_claim(world, "c")["metadata"]


def test_class_that_is_not_there_makes_nothing_until_it_comes(world: World) -> None:
    make(world, claim("c", of="late"))
    assert bound_to(world) is None
    make(world, storage_class("late"))
    assert bound_to(world) is not None


def default_class(name: str, word: str = "true") -> Json:
    return storage_class(name, metadata={"annotations": {"storageclass.kubernetes.io/is-default-class": word}})


def test_newest_default_class_counts(world: World) -> None:
    make(world, default_class("z-old"))
    world.set_clock.forward(5)
    make(world, default_class("a-new"), default_class("b-no", "false"), claim("c", of=None))
    assert the_claim(world, "c")["spec"]["storageClassName"] == "a-new"
    make(world, claim("d", of=""))
    assert the_claim(world, "d")["spec"]["storageClassName"] == "", "none is not the same as any"


def test_default_classes_of_one_moment_the_first_name_counts(world: World) -> None:
    """Upstream's GetDefaultClass: the newest, then by name."""
    make(world, default_class("a"), default_class("b"), claim("c", of=None))
    assert the_claim(world, "c")["spec"]["storageClassName"] == "a"


def test_volume_that_is_made(world: World) -> None:
    terms = [{"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}, {}]
    wanted = claim("c", "5Gi", of="fast", accessModes=["ReadWriteMany"], volumeMode="Block")
    make(world, storage_class("fast", reclaimPolicy="Retain", allowedTopologies=terms), wanted)
    uid = the_claim(world, "c")["metadata"]["uid"]
    made = the_volume(world, f"pvc-{uid}")
    assert made["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"] == "disk.example.com"
    spec = made["spec"]
    assert (spec["capacity"], spec["accessModes"], spec["volumeMode"]) == (
        {"storage": "5Gi"},
        ["ReadWriteMany"],
        "Block",
    )
    assert (spec["storageClassName"], spec["persistentVolumeReclaimPolicy"]) == ("fast", "Retain")
    assert spec["csi"] == {"driver": "disk.example.com", "volumeHandle": f"pvc-{uid}"}
    zone = {"key": "zone", "operator": "In", "values": ["a", "b"]}
    assert spec["nodeAffinity"]["required"]["nodeSelectorTerms"] == [{"matchExpressions": [zone]}]
    told = [(one["reason"], one["message"]) for one in world.all("v1", "Event")]
    assert told == [("ProvisioningSucceeded", f"Successfully provisioned volume pvc-{uid}")]


def test_volume_that_is_in_reach_everywhere_says_nothing_of_nodes(world: World) -> None:
    make(world, storage_class("fast"), claim("c", of="fast"))
    assert "nodeAffinity" not in the_volume(world, str(bound_to(world)))["spec"]


# -- protection


def finalizers(found: Json) -> list[str]:
    kept: list[str] = found["metadata"].get("finalizers") or []
    return kept


def test_claims_and_volumes_are_protected_from_the_start(world: World) -> None:
    made = claim("c")
    made["metadata"]["finalizers"] = ["example.com/own"]
    make(world, made, volume("v", "9Gi", of="x"))
    assert finalizers(the_claim(world, "c")) == ["example.com/own", "kubernetes.io/pvc-protection"]
    assert finalizers(the_volume(world, "v")) == ["kubernetes.io/pv-protection"]
    world.delete("v1", "PersistentVolumeClaim", "c")
    world.settle()
    assert finalizers(the_claim(world, "c")) == ["example.com/own"]


@pytest.mark.parametrize(
    ("given", "held"),
    [
        (pod_with("p", [uses("c")]), True),
        (pod_with("p", [uses("other")]), False),
        (
            pod_with("p", [{"name": "e", "emptyDir": {}}, {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]),
            True,
        ),
        (pod("p"), False),
    ],
)
def test_claim_is_held_by(world: World, given: Json, held: bool) -> None:
    make(world, claim("c"), given)
    world.delete("v1", "PersistentVolumeClaim", "c")
    world.settle()
    assert world.has("v1", "PersistentVolumeClaim", "c") is held
    if held:
        world.set_phase("p", "Running")
        assert world.settle().has("v1", "PersistentVolumeClaim", "c")
        world.delete("v1", "Pod", "p", grace=0)
        assert not world.settle().has("v1", "PersistentVolumeClaim", "c")


def test_pods_without_volumes_do_not_hide_one_that_holds(world: World) -> None:
    other = pod_with("d", [uses("c")])
    other["metadata"]["namespace"] = "a-space"
    world.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a-space"}})
    make(world, claim("c"), other, pod("a"), pod_with("b", [uses("other")]), pod_with("p", [uses("c")]))
    world.set_phase("b", "Succeeded")
    world.delete("v1", "PersistentVolumeClaim", "c")
    assert world.settle().has("v1", "PersistentVolumeClaim", "c")


def test_pods_of_another_namespace_hold_nothing(world: World) -> None:
    made = pod_with("p", [uses("c")])
    made["metadata"]["namespace"] = "kube-system"
    make(world, claim("c"), made)
    world.delete("v1", "PersistentVolumeClaim", "c")
    assert not world.settle().has("v1", "PersistentVolumeClaim", "c")


def test_user_of_two_is_enough(world: World) -> None:
    make(world, claim("c"), pod_with("p", [uses("c")]), pod_with("q", [uses("c")]))
    world.delete("v1", "PersistentVolumeClaim", "c")
    world.settle()
    world.set_phase("p", "Failed")
    assert world.settle().has("v1", "PersistentVolumeClaim", "c")
    world.set_phase("q", "Succeeded")
    assert not world.settle().has("v1", "PersistentVolumeClaim", "c")


def test_volume_that_is_bound_stays(world: World) -> None:
    make(world, volume("v"), claim("c"))
    world.delete("v1", "PersistentVolume", "v", "")
    assert world.settle().has("v1", "PersistentVolume", "v", "")
    world.delete("v1", "PersistentVolumeClaim", "c")
    assert not world.settle().has("v1", "PersistentVolume", "v", "")


# -- ephemeral volumes


def ephemeral(name: str) -> Json:
    spec = {"accessModes": ONCE, "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}}
    return {"name": name, "ephemeral": {"volumeClaimTemplate": {"metadata": {"annotations": {"a": "b"}}, "spec": spec}}}


def test_each_ephemeral_volume_has_a_claim(world: World) -> None:
    make(world, pod_with("p", [ephemeral("x"), {"name": "e", "emptyDir": {}}, ephemeral("y")]))
    names = [one["metadata"]["name"] for one in world.all("v1", "PersistentVolumeClaim")]
    assert names == ["p-x", "p-y"]
    [reference_] = the_claim(world, "p-x")["metadata"]["ownerReferences"]
    assert (reference_["kind"], reference_["controller"], reference_["blockOwnerDeletion"]) == ("Pod", True, True)
    assert the_claim(world, "p-x")["metadata"]["annotations"]["a"] == "b"


def test_claim_of_that_name_that_is_another_s_is_told(world: World) -> None:
    make(world, claim("p-x", "7Gi"), pod_with("p", [ephemeral("x"), ephemeral("y")]))
    assert the_claim(world, "p-x")["spec"]["resources"]["requests"]["storage"] == "7Gi"
    [told] = [one for one in world.all("v1", "Event") if one["reason"] == "FailedBinding"]
    text = "PVC default/p-x was not created for pod default/p (pod is not owner)"
    assert (told["type"], told["message"]) == ("Warning", text)
    assert world.has("v1", "PersistentVolumeClaim", "p-y")


def test_running_pod_holds_the_claim_of_its_ephemeral_volume(world: World) -> None:
    make(world, pod_with("p", [ephemeral("x")]))
    world.delete("v1", "PersistentVolumeClaim", "p-x")
    assert the_claim(world.settle(), "p-x")["metadata"]["deletionTimestamp"]
    world.delete("v1", "Pod", "p", grace=0)
    assert not world.settle().has("v1", "PersistentVolumeClaim", "p-x")


# -- garbage


@pytest.fixture
def heap() -> World:
    return World(("garbage-collector",))


def test_dependent_deleted_while_its_owner_orphans_it_needs_no_write(heap: World) -> None:
    """Orphaned in the turn in which it is deleted itself: there is nothing left to take a reference from."""
    first = heap.create(config_map("first"))
    for name in ("a", "b"):
        heap.create(config_map(name, [reference(first)]))
    heap.settle()
    heap.delete("v1", "ConfigMap", "first", propagation="Orphan")
    context = heap.controllers.context
    context.delete(context.kind("v1", "ConfigMap"), ("default", "a"))
    heap.controllers.running["garbage-collector"].reconcile(Item("configmaps", "default", "first"))
    heap.settle()
    assert [one["metadata"]["name"] for one in heap.all("v1", "ConfigMap")] == ["b"]
    assert "ownerReferences" not in heap.get("v1", "ConfigMap", "b")["metadata"]


def test_owners_of_one_dependent_that_change(heap: World) -> None:
    """One that is no longer an owner's does not go with it."""
    first, second = heap.create(config_map("first")), heap.create(config_map("second"))
    heap.create(config_map("child", [reference(first)]))
    heap.settle()
    heap.patch("v1", "ConfigMap", "child", {"metadata": {"ownerReferences": [reference(second)]}})
    heap.settle()
    heap.delete("v1", "ConfigMap", "first")
    assert heap.settle().has("v1", "ConfigMap", "child")
    heap.delete("v1", "ConfigMap", "second")
    assert not heap.settle().has("v1", "ConfigMap", "child")


def test_owner_that_waits_goes_when_its_dependent_is_let_go(heap: World) -> None:
    first = heap.create(config_map("first"))
    heap.create(config_map("child", [reference(first, block=True)], finalizers=["example.com/wait"]))
    heap.delete("v1", "ConfigMap", "first", propagation="Foreground")
    assert heap.settle().has("v1", "ConfigMap", "first")
    heap.patch("v1", "ConfigMap", "child", {"metadata": {"ownerReferences": None}})
    assert not heap.settle().has("v1", "ConfigMap", "first")


def test_owner_that_is_solid_keeps_a_dependent_of_one_that_waits(heap: World) -> None:
    """The reference to the one that waits is dropped, so that it need not wait."""
    first, second = heap.create(config_map("first")), heap.create(config_map("second"))
    heap.create(config_map("child", [reference(first, block=True), reference(second)]))
    heap.delete("v1", "ConfigMap", "first", propagation="Foreground")
    heap.settle()
    assert not heap.has("v1", "ConfigMap", "first")
    references = heap.get("v1", "ConfigMap", "child")["metadata"]["ownerReferences"]
    assert [one["name"] for one in references] == ["second"]


def test_chain_that_is_deleted_in_the_foreground_goes_from_its_end(heap: World) -> None:
    first = heap.create(config_map("first"))
    second = heap.create(config_map("second", [reference(first, block=True)]))
    heap.create(config_map("third", [reference(second, block=True)], finalizers=["example.com/wait"]))
    heap.delete("v1", "ConfigMap", "first", propagation="Foreground")
    heap.settle()
    assert [one["metadata"]["name"] for one in heap.all("v1", "ConfigMap")] == ["first", "second", "third"]
    assert finalizers(heap.get("v1", "ConfigMap", "second")) == ["foregroundDeletion"]
    heap.patch("v1", "ConfigMap", "third", {"metadata": {"finalizers": None}})
    assert heap.settle().all("v1", "ConfigMap") == []


def test_background_deletion_does_not_wait_for_dependents_of_dependents(heap: World) -> None:
    first = heap.create(config_map("first"))
    second = heap.create(config_map("second", [reference(first)]))
    heap.create(config_map("third", [reference(second, block=True)], finalizers=["example.com/wait"]))
    heap.delete("v1", "ConfigMap", "first")
    assert not heap.settle().has("v1", "ConfigMap", "second")
    assert heap.get("v1", "ConfigMap", "third")["metadata"]["deletionTimestamp"]


def test_leaf_of_what_is_deleted_in_the_foreground_goes_at_once(heap: World) -> None:
    """It has no dependents, so that it waits for none."""
    first = heap.create(config_map("first"))
    heap.create(config_map("child", [reference(first, block=True)], finalizers=["example.com/wait"]))
    heap.delete("v1", "ConfigMap", "first", propagation="Foreground")
    heap.settle()
    assert finalizers(heap.get("v1", "ConfigMap", "child")) == ["example.com/wait"]


@pytest.mark.parametrize(("finalizer", "left"), [("orphan", ["third"]), ("foregroundDeletion", [])])
def test_dependent_says_by_a_finalizer_how_it_goes(heap: World, finalizer: str, left: list[str]) -> None:
    first = heap.create(config_map("first"))
    second = heap.create(config_map("second", [reference(first)], finalizers=[finalizer]))
    heap.create(config_map("third", [reference(second)]))
    heap.delete("v1", "ConfigMap", "first")
    assert [one["metadata"]["name"] for one in heap.settle().all("v1", "ConfigMap")] == left


def test_cluster_scoped_object_cannot_be_owned_by_a_namespaced_one(heap: World) -> None:
    """It is left alone; the other way round an owner in no namespace is one."""
    owner_ = reference(heap.create(config_map("first")))
    heap.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns", "ownerReferences": [owner_]}})
    node = heap.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
    above = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": node["metadata"]["uid"]}
    heap.create(config_map("child", [above]))
    heap.delete("v1", "ConfigMap", "first")
    assert heap.settle().has("v1", "Namespace", "ns", "")
    assert not heap.get("v1", "Namespace", "ns", "")["metadata"].get("deletionTimestamp")
    assert heap.has("v1", "ConfigMap", "child")
    heap.delete("v1", "Node", "n", "")
    assert not heap.settle().has("v1", "ConfigMap", "child")


# -- quotas


def quota(hard: Json, **spec: Any) -> Json:
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard, **spec}}


def used(world: World) -> Json:
    found: Json = world.get("v1", "ResourceQuota", "q")["status"]
    assert found["hard"] == world.get("v1", "ResourceQuota", "q")["spec"]["hard"]
    counted: Json = found["used"]
    return counted


def service(name: str, **spec: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"ports": [{"port": 80}], **spec},
    }


@pytest.mark.parametrize(
    ("hard", "given", "counts"),
    [
        ({"pods": "9"}, [pod("a"), pod("b")], {"pods": "2"}),
        ({"requests.cpu": "9", "limits.cpu": "9"}, [], {"requests.cpu": "0", "limits.cpu": "0"}),
        ({"configmaps": "9"}, [config_map("a")], {"configmaps": "1"}),
        ({"count/configmaps": "9"}, [config_map("a"), config_map("b")], {"count/configmaps": "2"}),
        ({"count/replicasets.apps": "9"}, [owner("ReplicaSet", "r")], {"count/replicasets.apps": "1"}),
        ({"services": "9", "services.nodeports": "9"}, [service("a"), service("b", type="NodePort")],
         {"services": "2", "services.nodeports": "1"}),
        ({"services.nodeports": "9"}, [service("b", type="NodePort")], {"services.nodeports": "1"}),
        ({"requests.storage": "9Gi"}, [claim("c", "2Gi")], {"requests.storage": "2Gi"}),
        ({"persistentvolumeclaims": "9"}, [claim("c")], {"persistentvolumeclaims": "1"}),
        ({"x.storageclass.storage.k8s.io/requests.storage": "9Gi"}, [claim("c", "2Gi", of="x"), claim("d", "3Gi")],
         {"x.storageclass.storage.k8s.io/requests.storage": "2Gi"}),
    ],
)  # fmt: skip
def test_quota_counts_what_was_there_before(hard: Json, given: list[Json], counts: Json) -> None:
    world = World(("resourcequota",))
    make(world, *given, quota(hard))
    assert used(world) == counts


@pytest.mark.parametrize(
    ("hard", "given", "kind"),
    [
        ({"pods": "9"}, pod("a"), "Pod"),
        ({"count/configmaps": "9"}, config_map("a"), "ConfigMap"),
        ({"services": "9"}, service("a"), "Service"),
    ],
)
def test_owned_fields_that_are_gone_are_removed(hard: Json, given: Json, kind: str) -> None:
    world = World(("resourcequota",))
    make(world, given, quota(hard))
    [name] = hard
    assert used(world) == {name: "1"}
    options: Json = {"grace": 0} if kind == "Pod" else {}
    world.delete("v1", kind, "a", **options)
    world.settle()
    world.forward(1)
    assert used(world) == {name: "0"}


def test_pods_that_ended_are_taken_off_of_what_they_compute_with() -> None:
    world = World(("resourcequota",))
    make(world, quota({"pods": "9", "count/pods": "9"}), pod("a"), pod("b"))
    world.set_phase("a", "Succeeded")
    world.forward(1)
    assert used(world) == {"pods": "1", "count/pods": "2"}


def test_quota_that_changes_is_counted_anew() -> None:
    world = World(("resourcequota",))
    make(world, pod("a"), config_map("c"), quota({"pods": "9"}))
    world.patch("v1", "ResourceQuota", "q", {"spec": {"hard": {"pods": None, "configmaps": "5"}}})
    world.settle()
    assert used(world) == {"configmaps": "1"}


def test_quotas_of_other_namespaces_are_their_own() -> None:
    world = World(("resourcequota",))
    other = pod("a")
    other["metadata"]["namespace"] = "kube-system"
    make(world, quota({"pods": "9"}), other)
    assert used(world) == {"pods": "0"}
