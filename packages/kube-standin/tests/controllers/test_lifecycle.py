"""Namespaces, garbage, pod groups, accounts, pod collection (upstream: the controllers of the same names)."""

from __future__ import annotations

import pytest

from kube_standin.controllers import CONTROLLERS, Times, chosen
from kube_standin.controllers.reconciler import WRITES_AT_ONCE, Controller
from kube_standin.storage.model import StoredObject
from tests.admission.plane import composite_pod_group, pod, pod_group
from tests.controllers.world import Json, World, job, owner
from tests.manifests import node


def config_map(name: str, owners: list[Json] | None = None, **metadata: object) -> Json:
    references = {"ownerReferences": owners} if owners else {}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **references, **metadata}}


def reference(obj: Json, *, block: bool = False) -> Json:
    metadata = obj["metadata"]
    made = {"apiVersion": "v1", "kind": "ConfigMap", "name": metadata["name"], "uid": metadata["uid"]}
    return {**made, "blockOwnerDeletion": True} if block else made


# -- the table


@pytest.mark.parametrize(
    ("switches", "count"),
    [("*", 0), ("", 0), ("-job", -1), ("*,-job,-disruption", -2), ("job,disruption", None), ("none", None)],
)
def test_switches(switches: str, count: int | None) -> None:
    names = chosen(switches)
    if count is None:
        assert names == ({"job,disruption": ("disruption", "job"), "none": ()})[switches]
    else:
        assert len(names) == len(CONTROLLERS) + count
        assert ("job" in names) is ("-job" not in switches)


def test_unknown_switch() -> None:
    with pytest.raises(ValueError, match="unknown controller jobs; known: serviceaccount, "):
        chosen("-jobs")


# -- namespaces and what they hold


def test_every_namespace_has_account_and_certificate() -> None:
    world = World(("serviceaccount", "root-ca-certificate-publisher"))
    world.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new"}})
    world.settle()
    for namespace in ("default", "kube-system", "new"):
        assert world.has("v1", "ServiceAccount", "default", namespace)
        assert world.get("v1", "ConfigMap", "kube-root-ca.crt", namespace)["data"] == {"ca.crt": "CA"}
    world.delete("v1", "ServiceAccount", "default")
    world.patch("v1", "ConfigMap", "kube-root-ca.crt", {"data": {"ca.crt": "forged"}})
    world.settle()
    assert world.has("v1", "ServiceAccount", "default")
    assert world.get("v1", "ConfigMap", "kube-root-ca.crt")["data"] == {"ca.crt": "CA"}


def test_deleting_a_namespace_empties_it() -> None:
    world = World(None, nodes=1)
    world.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}})
    for obj in (owner("Deployment", replicas=2), job(), pod_group("g"), config_map("c"), pod("bare")):
        obj["metadata"]["namespace"] = "ns"
        world.create(obj)
    world.schedule()
    assert len(world.pods(ns="ns")) >= 4
    world.delete("v1", "Namespace", "ns", ns="")
    world.forward(5)
    assert not world.has("v1", "Namespace", "ns", "")
    left = {key for key in world.store.resources() for _ in world.store.heads(key, "ns")}
    assert left == set()


def test_namespace_waits_for_finalizers_and_says_so() -> None:
    world = World(("namespace",))
    world.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}})
    world.create(config_map("held", namespace="ns", finalizers=["example.com/wait"]))
    world.delete("v1", "Namespace", "ns", ns="")
    world.forward(1)
    found = world.condition(world.get("v1", "Namespace", "ns", ""), "NamespaceFinalizersRemaining")
    assert "example.com/wait in 1 resource instances" in found["message"]
    world.patch("v1", "ConfigMap", "held", {"metadata": {"finalizers": None}}, ns="ns")
    world.forward(1)
    assert not world.has("v1", "Namespace", "ns", "")


def test_namespace_counts_once_what_it_waits_for() -> None:
    """However many versions and groups serve it: an Event is one of v1 and of events.k8s.io."""
    world = World(("namespace",))
    world.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}})
    about = {"kind": "Pod", "name": "p", "namespace": "ns"}
    for name in ("e", "f"):
        metadata = {"name": name, "namespace": "ns", "finalizers": ["example.com/wait"]}
        world.create({"apiVersion": "v1", "kind": "Event", "metadata": metadata, "involvedObject": about})
    world.create(config_map("held", namespace="ns", finalizers=["a.example.com/other", "example.com/wait"]))
    world.delete("v1", "Namespace", "ns", ns="")
    found = world.condition(world.forward(1).get("v1", "Namespace", "ns", ""), "NamespaceFinalizersRemaining")
    assert found["message"] == (
        "Some content in the namespace has finalizers remaining: "
        "a.example.com/other in 1 resource instances, example.com/wait in 3 resource instances"
    )


# -- garbage collection


@pytest.fixture
def world() -> World:
    return World(("garbage-collector",))


def test_background(world: World) -> None:
    first = world.create(config_map("first"))
    second = world.create(config_map("second", [reference(first)]))
    world.create(config_map("third", [reference(second)]))
    world.create(config_map("apart"))
    world.delete("v1", "ConfigMap", "first")
    world.settle()
    assert [one["metadata"]["name"] for one in world.all("v1", "ConfigMap")] == ["apart"]


def test_another_owner_keeps_it(world: World) -> None:
    first, second = world.create(config_map("a")), world.create(config_map("b"))
    world.create(config_map("child", [reference(first), reference(second)]))
    world.delete("v1", "ConfigMap", "a")
    world.settle()
    references = world.get("v1", "ConfigMap", "child")["metadata"]["ownerReferences"]
    assert [one["name"] for one in references] == ["b"]
    world.delete("v1", "ConfigMap", "b")
    world.settle()
    assert world.all("v1", "ConfigMap") == []


def test_owner_that_never_was(world: World) -> None:
    gone = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "00000000-0000-0000-0000-000000000009"}
    world.create(config_map("child", [gone]))
    world.settle()
    assert world.all("v1", "ConfigMap") == []


def test_owner_of_the_same_name_but_another_uid(world: World) -> None:
    made = reference(world.create(config_map("a")))
    world.create(config_map("child", [{**made, "uid": "00000000-0000-0000-0000-000000000009"}]))
    world.settle()
    assert [one["metadata"]["name"] for one in world.all("v1", "ConfigMap")] == ["a"]


def test_owner_of_an_unserved_kind_is_left_alone(world: World) -> None:
    unknown = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "x", "uid": "1"}
    world.create(config_map("child", [unknown]))
    world.settle()
    assert world.has("v1", "ConfigMap", "child")


def test_foreground_deletes_dependents_first(world: World) -> None:
    first = world.create(config_map("first"))
    child = config_map("child", [reference(first, block=True)], finalizers=["example.com/wait"])
    world.create(child)
    world.delete("v1", "ConfigMap", "first", propagation="Foreground")
    world.settle()
    assert world.get("v1", "ConfigMap", "first")["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert world.get("v1", "ConfigMap", "child")["metadata"]["deletionTimestamp"]
    world.patch("v1", "ConfigMap", "child", {"metadata": {"finalizers": None}})
    world.settle()
    assert world.all("v1", "ConfigMap") == []


def test_foreground_does_not_wait_for_dependents_that_do_not_block(world: World) -> None:
    first = world.create(config_map("first"))
    world.create(config_map("child", [reference(first)], finalizers=["example.com/wait"]))
    world.delete("v1", "ConfigMap", "first", propagation="Foreground")
    world.settle()
    assert not world.has("v1", "ConfigMap", "first")
    assert world.has("v1", "ConfigMap", "child")


def test_orphan(world: World) -> None:
    first = world.create(config_map("first"))
    world.create(config_map("child", [reference(first)]))
    world.delete("v1", "ConfigMap", "first", propagation="Orphan")
    world.settle()
    assert "ownerReferences" not in world.get("v1", "ConfigMap", "child")["metadata"]
    assert not world.has("v1", "ConfigMap", "first")


def test_garbage_missed_while_down_is_collected(world: World) -> None:
    first = world.create(config_map("first"))
    world.create(config_map("child", [reference(first)]))
    world.delete("v1", "ConfigMap", "first")  # no controller runs
    assert world.restarted(("garbage-collector",)).all("v1", "ConfigMap") == []


def circle(world: World, length: int, *, block: bool = True) -> list[str]:
    """Config maps of which each owns the next, and the last the first."""
    names = [f"c{number}" for number in range(length)]
    made = {name: world.create(config_map(name)) for name in names}
    for number, name in enumerate(names):
        references = [reference(made[names[number - 1]], block=block)]
        world.patch("v1", "ConfigMap", name, {"metadata": {"ownerReferences": references}})
    world.settle()
    return names


@pytest.mark.parametrize("length", [1, 2, 3, 10])
@pytest.mark.parametrize("deleted", ["one", "all"])
def test_owners_in_a_circle_go(world: World, length: int, deleted: str) -> None:
    """api.md 6.3."""
    names = circle(world, length)
    for name in names if deleted == "all" else names[:1]:
        world.delete("v1", "ConfigMap", name, propagation="Foreground")
    world.settle()
    assert world.all("v1", "ConfigMap") == []


def test_owners_in_a_circle_go_after_a_restart(world: World) -> None:
    for name in circle(world, 3):
        world.delete("v1", "ConfigMap", name, propagation="Foreground")  # no controller runs
    assert world.restarted(("garbage-collector",)).all("v1", "ConfigMap") == []


def test_circle_waits_for_what_blocks_one_of_it(world: World) -> None:
    names = circle(world, 3)
    outside = config_map("outside", [reference(world.get("v1", "ConfigMap", names[1]), block=True)])
    outside["metadata"]["finalizers"] = ["example.com/wait"]
    world.create(outside)
    world.delete("v1", "ConfigMap", names[0], propagation="Foreground")
    world.settle()
    left = {one["metadata"]["name"] for one in world.all("v1", "ConfigMap")}
    assert {names[1], "outside"} <= left
    world.patch("v1", "ConfigMap", "outside", {"metadata": {"finalizers": None}})
    world.settle()
    assert world.all("v1", "ConfigMap") == []


def test_owner_looks_at_its_many_dependents_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """interfaces.md 5.7: that one of them went is no reason to look at all others."""
    world = World(("garbage-collector",))
    first = world.create(config_map("first"))
    for number in range(200):
        world.create(config_map(f"d{number}", [reference(first, block=True)]))
    world.settle()
    decoded = 0
    original = StoredObject.decode

    def counted(state: StoredObject) -> Json:
        nonlocal decoded
        decoded += 1
        return original(state)

    monkeypatch.setattr(StoredObject, "decode", counted)
    world.delete("v1", "ConfigMap", "first", propagation="Foreground")
    world.settle()
    assert world.all("v1", "ConfigMap") == []
    assert decoded < 200 * 20, "not 200 times 200"


# -- pod groups


@pytest.mark.parametrize("end", ["Succeeded", "Failed", "deleted"])
def test_group_stays_while_an_unfinished_pod_names_it(end: str) -> None:
    """api.md 2.2."""
    world = World(("podgroup-protection",))
    version = "scheduling.k8s.io/v1beta1"
    world.create(pod_group("g"))
    world.create(pod("p", schedulingGroup={"podGroupName": "g"}))
    world.delete(version, "PodGroup", "g")
    world.settle()
    assert world.get(version, "PodGroup", "g")["metadata"]["deletionTimestamp"]
    if end == "deleted":
        world.delete("v1", "Pod", "p")
    else:
        world.set_phase("p", end)
    world.settle()
    assert not world.has(version, "PodGroup", "g")


def test_group_without_pods_goes_at_once() -> None:
    world = World(("podgroup-protection",))
    world.create(pod_group("g", version="v1alpha2"))
    world.delete("scheduling.k8s.io/v1alpha2", "PodGroup", "g")
    assert not world.settle().has("scheduling.k8s.io/v1beta1", "PodGroup", "g")


# -- trees of groups (composite.md 1, protection)

_BOTH = ("podgroup-protection", "compositepodgroup-protection")
_COMPOSITE = ("scheduling.k8s.io/v1alpha3", "CompositePodGroup")
_GROUP = ("scheduling.k8s.io/v1beta1", "PodGroup")


def leaf(name: str, parent: str) -> Json:
    reference = {"workloadName": "w", "templateName": "t"}
    return pod_group(name, parentCompositePodGroupName=parent, workloadRef=reference)


def test_tree_that_is_deleted_goes_from_its_leaves_up() -> None:
    world = World(_BOTH)
    for obj in (
        composite_pod_group("root"),
        composite_pod_group("mid", parentCompositePodGroupName="root"),
        leaf("leaf", "mid"),
        pod("p", schedulingGroup={"podGroupName": "leaf"}),
    ):
        world.create(obj)
    world.delete(*_COMPOSITE, "root")
    world.delete(*_COMPOSITE, "mid")
    world.settle()
    assert [one["metadata"]["name"] for one in world.all(*_COMPOSITE)] == ["mid", "root"]
    world.delete(*_GROUP, "leaf")
    assert len(world.settle().all(*_COMPOSITE)) == 2  # the pod keeps the leaf, the leaf the rest
    world.delete("v1", "Pod", "p")
    world.settle()
    assert not world.all(*_GROUP)
    assert not world.all(*_COMPOSITE)


def test_composite_without_children_goes_at_once_and_its_parent_stays() -> None:
    world = World(_BOTH)
    world.create(composite_pod_group("root"))
    world.create(composite_pod_group("mid", parentCompositePodGroupName="root"))
    world.delete(*_COMPOSITE, "mid")
    world.settle()
    assert [one["metadata"]["name"] for one in world.all(*_COMPOSITE)] == ["root"]


def test_objects_deleted_during_downtime_are_gone_after_a_restart() -> None:
    world = World(())
    world.create(composite_pod_group("root"))
    world.create(leaf("leaf", "root"))
    world.delete(*_COMPOSITE, "root")
    world.delete(*_GROUP, "leaf")
    after = world.restarted(_BOTH)
    assert not after.all(*_COMPOSITE)
    assert not after.all(*_GROUP)


@pytest.mark.parametrize("length", [1, 2, 3])
def test_composites_that_are_each_others_parents_go_once_all_are_deleted(length: int) -> None:
    """Else they, and their namespace, would stay forever; what else is below one of them still keeps it."""
    world = World(_BOTH)
    names = [f"c{number}" for number in range(length)]
    for number, name in enumerate(names):
        world.create(composite_pod_group(name, parentCompositePodGroupName=names[number - 1]))
    world.create(leaf("leaf", names[0]))
    for name in names[:-1]:
        world.delete(*_COMPOSITE, name)
    assert len(world.settle().all(*_COMPOSITE)) == length
    world.delete(*_COMPOSITE, names[-1])
    assert names[0] in [one["metadata"]["name"] for one in world.settle().all(*_COMPOSITE)]
    world.delete(*_GROUP, "leaf")
    assert not world.settle().all(*_COMPOSITE)


def test_chain_that_leads_into_a_cycle_waits_for_its_own_children_only() -> None:
    world = World(_BOTH)
    world.create(composite_pod_group("a", parentCompositePodGroupName="b"))
    world.create(composite_pod_group("b", parentCompositePodGroupName="a"))
    world.create(composite_pod_group("tail", parentCompositePodGroupName="b"))
    for name in ("a", "b"):
        world.delete(*_COMPOSITE, name)
    world.settle()
    assert world.has(*_COMPOSITE, "b")  # the tail is its child and no part of the cycle
    world.delete(*_COMPOSITE, "tail")
    assert not world.settle().all(*_COMPOSITE)


# -- pod collection


def test_pods_of_a_node_that_is_gone() -> None:
    world = World(("pod-garbage-collector",))
    world.create(node("n"))
    world.create(pod("p", terminationGracePeriodSeconds=100))
    world.bind("p", "n")
    world.delete("v1", "Node", "n", ns="")
    world.forward(39)
    assert world.has("v1", "Pod", "p")
    world.forward(2)
    assert not world.has("v1", "Pod", "p")


def test_node_that_comes_back_keeps_its_pods() -> None:
    world = World(("pod-garbage-collector",))
    world.create(node("n"))
    world.create(pod("p"))
    world.bind("p", "n")
    world.delete("v1", "Node", "n", ns="")
    world.forward(10)
    world.create(node("n"))
    world.forward(60)
    assert world.has("v1", "Pod", "p")


def test_pods_bound_to_a_node_that_never_was() -> None:
    world = World(("pod-garbage-collector",))
    world.create(pod("p", finalizers=None))
    world.bind("p", "nowhere")
    world.forward(41)
    assert not world.has("v1", "Pod", "p")


def test_pods_of_a_lost_node_fail_with_the_reason() -> None:
    world = World(("pod-garbage-collector",))
    held = pod("p")
    held["metadata"]["finalizers"] = ["example.com/wait"]
    world.create(held)
    world.bind("p", "nowhere")
    world.forward(41)
    found = world.get("v1", "Pod", "p")
    assert found["status"]["phase"] == "Failed"
    assert world.condition(found, "DisruptionTarget")["reason"] == "DeletionByPodGC"
    assert found["metadata"]["deletionTimestamp"]


def test_too_many_finished_pods() -> None:
    world = World(("pod-garbage-collector",), times=Times(most_finished=2))
    for name in "abcd":
        world.create(pod(name))
        world.set_phase(name, "Succeeded")
        world.set_clock.forward(1)
    world.settle()
    assert world.names() == ["c", "d"]


# -- so many in a turn


@pytest.mark.parametrize(
    ("names", "setting", "change"),
    [
        (("replicaset",), "ReplicaSet", "scale"),
        (("replicaset",), "ReplicaSet", "adopt"),
        (("statefulset",), "StatefulSet", "scale"),
        (("job",), "Job", "suspend"),
        (("job",), "Job", "finish"),
        (("garbage-collector",), "ConfigMap", "orphan"),
        (("namespace",), "ConfigMap", "namespace"),
        (("pod-garbage-collector",), "Pod", "node"),
    ],
)  # fmt: skip
def test_controllers_end_and_change_so_many_objects_in_a_turn(
    names: tuple[str, ...], setting: str, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """interfaces.md 5.7: a sync of one key stages a bounded number of writes, and in the end all is done."""
    world = World(names, times=Times(orphan_grace=1.0))
    many = 2 * WRITES_AT_ONCE + 50
    _many(world, setting, change, many)
    world.settle()
    most = 0
    original = Controller._sync

    def counted(controller: Controller, key: object) -> None:
        nonlocal most
        before = world.store._next
        original(controller, key)
        most = max(most, world.store._next - before)

    monkeypatch.setattr(Controller, "_sync", counted)
    assert _changed(world, setting, change) == many
    assert most <= 4 * WRITES_AT_ONCE, "two writes for an end, and its event"


GONE: Json = {"nodeName": "gone"}


def _many(world: World, setting: str, change: str, many: int) -> None:
    if setting == "ConfigMap":
        world.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "big"}})
        first = reference(world.create(config_map("first")))
        for number in range(many):
            made = config_map(f"d{number}", None if change == "namespace" else [first])
            if change == "namespace":
                made["metadata"]["namespace"] = "big"
            world.create(made)
    elif setting == "Job":
        world.create(job("a", parallelism=many, completions=many))
    elif change == "adopt" or setting == "Pod":
        for number in range(many):
            one = pod(f"p{number}", **(GONE if setting == "Pod" else {}))
            one["metadata"]["labels"] = {"app": "a"}
            world.create(one)
    else:
        world.create(owner(setting, replicas=many, serviceName="s", podManagementPolicy="Parallel")
                     if setting == "StatefulSet" else owner(setting, replicas=many))  # fmt: skip


def _changed(world: World, setting: str, change: str) -> int:
    """Make the change, let it settle; how many objects it concerned."""
    before = len(world.pods())
    match change:
        case "scale":
            world.patch("apps/v1", setting, "a", {"spec": {"replicas": 0}})
        case "adopt":
            world.create(owner("ReplicaSet", replicas=before))
            world.settle()
            return sum(1 for one in world.pods() if one["metadata"].get("ownerReferences"))
        case "suspend":
            world.patch("batch/v1", "Job", "a", {"spec": {"suspend": True}})
        case "finish":
            for one in world.pods():
                world.set_phase(one["metadata"]["name"], "Succeeded")
            world.settle()
            return int(world.get("batch/v1", "Job", "a")["status"]["succeeded"])
        case "orphan":
            world.delete("v1", "ConfigMap", "first", propagation="Orphan")
            world.settle()
            return sum(1 for one in world.all("v1", "ConfigMap") if "ownerReferences" not in one["metadata"])
        case "namespace":
            held = len(world.all("v1", "ConfigMap", "big"))
            world.delete("v1", "Namespace", "big", "")
            world.settle()
            return held - len(world.all("v1", "ConfigMap", "big"))
        case "node":
            world.forward(5)
    world.settle()
    return before - len(world.pods())


def test_pods_of_a_namespace_go_first() -> None:
    world = World(("namespace", "serviceaccount"), nodes=1, stop_seconds=5)
    world.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}})
    world.create(config_map("c", namespace="n", finalizers=["example.com/held"]))
    made = pod("p")
    made["metadata"]["namespace"] = "n"
    made["spec"]["nodeName"] = "node-1"
    world.create(made)
    world.forward(2)
    world.delete("v1", "Namespace", "n", "")
    world.forward(1)
    assert "deletionTimestamp" in world.get("v1", "Pod", "p", "n")["metadata"]
    assert "deletionTimestamp" not in world.get("v1", "ConfigMap", "c", "n")["metadata"]
    reasons = {one["type"]: (one["status"], one["reason"]) for one in namespace_conditions(world)}
    assert reasons == {
        "NamespaceDeletionDiscoveryFailure": ("False", "ResourcesDiscovered"),
        "NamespaceDeletionGroupVersionParsingFailure": ("False", "ParsedGroupVersions"),
        "NamespaceDeletionContentFailure": ("False", "ContentDeleted"),
        "NamespaceContentRemaining": ("True", "SomeResourcesRemain"),
        "NamespaceFinalizersRemaining": ("False", "ContentRemoved"),
    }
    world.forward(6)
    assert not world.has("v1", "Pod", "p", "n")
    assert "deletionTimestamp" in world.get("v1", "ConfigMap", "c", "n")["metadata"]
    texts = {one["type"]: one["message"] for one in namespace_conditions(world)}
    assert texts["NamespaceContentRemaining"] == "Some resources are remaining: configmaps. has 1 resource instances"
    held = "Some content in the namespace has finalizers remaining: example.com/held in 1 resource instances"
    assert texts["NamespaceFinalizersRemaining"] == held
    world.patch("v1", "ConfigMap", "c", {"metadata": {"finalizers": None}}, ns="n")
    world.forward(1)
    assert not world.has("v1", "Namespace", "n", "")


def namespace_conditions(world: World) -> list[Json]:
    found: list[Json] = world.get("v1", "Namespace", "n", "")["status"]["conditions"]
    return found


def test_owner_in_another_namespace_is_reported() -> None:
    world = World(("garbage-collector",))
    above = world.create(config_map("above", namespace="kube-system"))
    world.create(config_map("below", [reference(above)]))
    world.settle()
    [event] = [one for one in world.all("v1", "Event") if one["reason"] == "OwnerRefInvalidNamespace"]
    uid = above["metadata"]["uid"]
    owner_shown = f"[v1/ConfigMap, namespace: default, name: above, uid: {uid}]"
    assert event["message"] == f'ownerRef {owner_shown} does not exist in namespace "default"'
    assert (event["type"], event["involvedObject"]["name"]) == ("Warning", "below")
    assert not world.has("v1", "ConfigMap", "below")
