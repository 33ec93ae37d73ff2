"""Pods that controllers make and end, step by step: ReplicaSets, StatefulSets, DaemonSets; tests set pods ready."""

from __future__ import annotations

from typing import Any

import pytest

from kube_rules.controllers.pods import DELETION_COST
from kube_standin.controllers.pod_owners import CREATES_AT_ONCE
from kube_standin.controllers.views import Meta, NodeView, TaintView
from tests.admission.plane import pod
from tests.controllers.world import Json, World, owner, template

OWNERS = ("replicaset", "statefulset", "daemonset")


@pytest.fixture
def world() -> World:
    return World(OWNERS)


def ready(world: World, *names: str) -> World:
    """Let pods run and be ready, bound to a node."""
    for name in names:
        if not world.get("v1", "Pod", name)["spec"].get("nodeName"):
            world.bind(name, "n")
        world.set_ready(name)
    return world.settle()


def status(world: World, kind: str) -> Json:
    found: Json = world.get("apps/v1", kind, "a")["status"]
    return found


def reasons(world: World) -> list[str]:
    return sorted(one["reason"] for one in world.all("v1", "Event"))


# -- which pod goes first (upstream: ActivePodsWithRanks)


def member(
    name: str,
    *,
    node: str = "n",
    phase: str = "Running",
    since: str | None = "00:00:00",
    cost: str | None = None,
    made: int = 0,
) -> dict[str, Any]:
    return {"name": name, "node": node, "phase": phase, "since": since, "cost": cost, "made": made}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (member("b", node="", phase="Pending", since=None), member("a", phase="Pending", since=None)),
        (member("b", phase="Pending", since=None), member("a", phase="Unknown", since=None)),
        (member("b", phase="Unknown", since=None), member("a", since=None)),
        (member("b", since=None), member("a", cost="-5")),
        (member("b", cost="-1"), member("a")),
        (member("b"), member("a", cost="1")),
        (member("b", cost="9"), member("a", cost="10")),
        (member("a", cost="x"), member("b", cost="0")),
        (member("b", since="00:00:10"), member("a", since="00:00:05")),
        (member("b", made=5), member("a")),
        (member("a"), member("b")),
    ],
)
def test_pod_deleted_first_of_two(first: dict[str, Any], second: dict[str, Any]) -> None:
    world = World(())  # no controller adopts or ends them yet
    world.create(owner("ReplicaSet", replicas=2))
    for one in sorted((first, second), key=lambda one: int(one["made"])):
        world.set_clock.moment = world.set_clock.moment.replace(second=one["made"])
        made = pod(one["name"], labels={"app": "a"})
        if one["cost"] is not None:
            made["metadata"]["annotations"] = {"controller.kubernetes.io/pod-deletion-cost": one["cost"]}
        world.create(made)
        if one["node"]:
            world.bind(one["name"], one["node"])
        since = {"type": "Ready", "status": "True", "lastTransitionTime": f"2026-01-01T{one['since']}Z"}
        conditions = [since] if one["since"] else []
        world.set_status("v1", "Pod", one["name"], {"phase": one["phase"], "conditions": conditions})
    after = world.restarted(("replicaset",))
    assert sorted(after.names()) == ["a", "b"]
    after.patch("apps/v1", "ReplicaSet", "a", {"spec": {"replicas": 1}})
    left = [one["metadata"]["name"] for one in after.settle().pods() if not one["metadata"].get("deletionTimestamp")]
    assert left == [second["name"]]


def test_many_pods_are_made_some_at_a_time(world: World) -> None:
    """So that others have a turn between; all of them in the end."""
    world.create(owner("ReplicaSet", replicas=2 * CREATES_AT_ONCE + 1))
    running = world.controllers.running["replicaset"]
    world.controllers.context.sources.sync()
    counts = []
    while not running.idle:
        running.step()
        counts.append(len(world.names()))
    assert counts[:3] == [CREATES_AT_ONCE, 2 * CREATES_AT_ONCE, 2 * CREATES_AT_ONCE + 1]


def test_pods_that_change_sides(world: World) -> None:
    """One that no longer fits is let go and made again, one that fits and has no controller is adopted."""
    world.create(owner("ReplicaSet", replicas=2))
    first, _ = world.settle().names()
    world.patch("v1", "Pod", first, {"metadata": {"labels": {"app": "b"}}})
    world.settle()
    assert "ownerReferences" not in world.get("v1", "Pod", first)["metadata"]
    assert len(world.names()) == 3
    world.create(pod("stray", labels={"app": "a"}))
    world.create(pod("ended", labels={"app": "a"}))
    world.set_phase("ended", "Succeeded")
    world.settle()
    assert "ownerReferences" not in world.get("v1", "Pod", "ended")["metadata"]
    owned = [one for one in world.pods() if one["metadata"].get("ownerReferences")]
    assert len(owned) == 2, "one too many goes again"


def test_owner_of_another_kind_has_its_own_pods(world: World) -> None:
    world.create(owner("ReplicaSet", replicas=1))
    other = {"apiVersion": "x/v1", "kind": "X", "name": "a", "uid": "u", "controller": True}
    made = pod("theirs", labels={"app": "a"})
    made["metadata"]["ownerReferences"] = [other]
    world.create(made)
    assert len(world.settle().names()) == 2


def test_refusals_are_told_and_tried_again(world: World) -> None:
    world.create(owner("ReplicaSet", replicas=1, pod=template(priorityClassName="none")))
    world.settle()
    found = world.condition(world.get("apps/v1", "ReplicaSet", "a"), "ReplicaFailure")
    assert (found["status"], found["reason"]) == ("True", "FailedCreate")
    assert "no PriorityClass with name none was found" in found["message"]
    assert set(reasons(world)) == {"FailedCreate"}
    world.create({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "none"},
                  "value": 5})  # fmt: skip
    world.forward(1)
    assert world.condition(world.get("apps/v1", "ReplicaSet", "a"), "ReplicaFailure") == {}
    assert "SuccessfulCreate" in reasons(world)


def test_counts_of_a_replica_set(world: World) -> None:
    world.create(owner("ReplicaSet", replicas=3, minReadySeconds=10))
    names = world.settle().names()
    world.patch("v1", "Pod", names[0], {"metadata": {"labels": {"extra": "yes"}}})
    ready(world, *names[:2])
    found = status(world, "ReplicaSet")
    assert (found["replicas"], found["fullyLabeledReplicas"], found["readyReplicas"]) == (3, 3, 2)
    assert "availableReplicas" not in found
    world.forward(9)
    assert "availableReplicas" not in status(world, "ReplicaSet")
    world.forward(1)
    assert status(world, "ReplicaSet")["availableReplicas"] == 2


# -- StatefulSets


def states(world: World) -> dict[str, bool]:
    """Pods by name, and whether they end."""
    return {one["metadata"]["name"]: bool(one["metadata"].get("deletionTimestamp")) for one in world.pods()}


def stateful(**spec: Any) -> Json:
    return owner("StatefulSet", serviceName="s", **spec)


def test_pods_in_order_wait_for_each_other(world: World) -> None:
    """interfaces.md 7.13."""
    world.create(stateful(replicas=3))
    assert list(states(world.settle())) == ["a-0"]
    world.set_phase("a-0", "Running")
    assert list(states(world.settle())) == ["a-0"]
    assert list(states(ready(world, "a-0"))) == ["a-0", "a-1"]
    assert list(states(ready(world, "a-1"))) == ["a-0", "a-1", "a-2"]
    ready(world, "a-2")
    world.patch("apps/v1", "StatefulSet", "a", {"spec": {"replicas": 1}})
    assert states(world.settle()) == {"a-0": False, "a-1": False, "a-2": True}, "from the top, one at a time"


def test_parallel_pods_do_not_wait(world: World) -> None:
    world.create(stateful(replicas=3, podManagementPolicy="Parallel"))
    assert list(states(world.settle())) == ["a-0", "a-1", "a-2"]
    ready(world, "a-0", "a-1", "a-2")
    world.patch("apps/v1", "StatefulSet", "a", {"spec": {"replicas": 1}})
    assert states(world.settle()) == {"a-0": False, "a-1": True, "a-2": True}


@pytest.mark.parametrize("kind", ["StatefulSet", "DaemonSet"])
def test_pods_beyond_a_limit_are_made_in_several_turns(world: World, kind: str) -> None:
    count = CREATES_AT_ONCE + 2
    if kind == "DaemonSet":
        for number in range(count):
            join(world, f"n{number}")
        world.create(owner(kind))
    else:
        world.create(stateful(replicas=count, podManagementPolicy="Parallel"))
    world.controllers.context.sources.sync()
    world.controllers.running[kind.lower()].step()
    assert len(world.names()) == CREATES_AT_ONCE
    assert len(world.settle().names()) == count


def test_numbers_may_start_elsewhere(world: World) -> None:
    """KEP-3335."""
    world.create(stateful(replicas=2, podManagementPolicy="Parallel", ordinals={"start": 5}))
    assert list(states(world.settle())) == ["a-5", "a-6"]
    assert [one["metadata"]["labels"]["apps.kubernetes.io/pod-index"] for one in world.pods()] == ["5", "6"]
    world.patch("apps/v1", "StatefulSet", "a", {"spec": {"ordinals": {"start": 6}}})
    ready(world, "a-6")
    assert "a-5" not in [name for name, ends in states(world).items() if not ends]
    assert "a-7" in states(world)


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
def test_pod_that_ended_is_made_again(world: World, phase: str, policy: str) -> None:
    world.create(stateful(replicas=1, podManagementPolicy=policy))
    world.settle()
    ready(world, "a-0")
    before = world.get("v1", "Pod", "a-0")["metadata"]["uid"]
    world.set_phase("a-0", phase)
    world.settle()
    found = world.get("v1", "Pod", "a-0")
    assert found["metadata"]["uid"] != before
    assert found["status"]["phase"] == "Pending"


def test_pod_of_a_stateful_set(world: World) -> None:
    claim = {"metadata": {"name": "data", "labels": {"l": "m"}, "annotations": {"n": "o"}},
             "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}  # fmt: skip
    made = template()
    made["spec"]["volumes"] = [{"name": "data", "emptyDir": {}}, {"name": "own", "emptyDir": {}}]
    world.create(stateful(replicas=1, pod=made, volumeClaimTemplates=[claim]))
    found = world.settle().get("v1", "Pod", "a-0")
    labels = found["metadata"]["labels"]
    assert labels["statefulset.kubernetes.io/pod-name"] == "a-0"
    assert labels["controller-revision-hash"] == status(world, "StatefulSet")["updateRevision"]
    assert (found["spec"]["hostname"], found["spec"]["subdomain"]) == ("a-0", "s")
    *volumes, token = found["spec"]["volumes"]
    assert token["name"].startswith("kube-api-access-"), "the service account's"
    assert volumes == [
        {"name": "own", "emptyDir": {}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-a-0"}},
    ]
    kept = world.get("v1", "PersistentVolumeClaim", "data-a-0")
    assert kept["metadata"]["labels"] == {"l": "m", "app": "a"}
    assert kept["metadata"]["annotations"]["n"] == "o"
    world.delete("v1", "Pod", "a-0", grace=0)
    world.settle()
    again = world.get("v1", "PersistentVolumeClaim", "data-a-0")
    assert again["metadata"]["uid"] == kept["metadata"]["uid"], "a claim outlives its pod"


def test_name_that_another_pod_has_is_told(world: World) -> None:
    world.create(pod("a-0"))
    world.create(stateful(replicas=1))
    world.settle()
    assert "ownerReferences" not in world.get("v1", "Pod", "a-0")["metadata"]
    assert "FailedCreate" in reasons(world)
    world.delete("v1", "Pod", "a-0", grace=0)
    world.forward(120)
    assert world.get("v1", "Pod", "a-0")["metadata"]["ownerReferences"][0]["kind"] == "StatefulSet"


def rolled(**strategy: Any) -> World:
    """Three ready pods of a template that has changed since."""
    world = World(OWNERS)
    update = {"updateStrategy": strategy} if strategy else {}
    world.create(stateful(replicas=3, podManagementPolicy="Parallel", **update))
    world.settle()
    ready(world, "a-0", "a-1", "a-2")
    changed = template()
    changed["spec"]["containers"][0]["image"] = "new"
    world.patch("apps/v1", "StatefulSet", "a", {"spec": {"template": changed}})
    return world.settle()


def images(world: World) -> dict[str, str]:
    return {one["metadata"]["name"]: one["spec"]["containers"][0]["image"] for one in world.pods()}


def replaced(world: World, name: str) -> World:
    world.delete("v1", "Pod", name, grace=0)
    return world.settle()


def test_update_goes_from_the_top_down_and_waits_for_each() -> None:
    world = rolled()
    assert states(world) == {"a-0": False, "a-1": False, "a-2": True}
    found = status(world, "StatefulSet")
    assert found["currentRevision"] != found["updateRevision"]
    assert (found["currentReplicas"], found.get("updatedReplicas")) == (2, None)
    replaced(world, "a-2")
    assert images(world) == {"a-0": "i", "a-1": "i", "a-2": "new"}
    assert not any(states(world).values()), "the new one is not ready"
    ready(world, "a-2")
    assert states(world) == {"a-0": False, "a-1": True, "a-2": False}
    ready(replaced(world, "a-1"), "a-1")
    ready(replaced(world, "a-0"), "a-0")
    assert set(images(world).values()) == {"new"}
    found = status(world, "StatefulSet")
    assert found["currentRevision"] == found["updateRevision"]
    assert (found["currentReplicas"], found["updatedReplicas"]) == (3, 3)


def test_partition_keeps_what_is_below_it() -> None:
    world = rolled(type="RollingUpdate", rollingUpdate={"partition": 2})
    ready(replaced(world, "a-2"), "a-2")
    assert not any(states(world).values())
    assert images(world) == {"a-0": "i", "a-1": "i", "a-2": "new"}
    replaced(world, "a-1")
    assert images(world)["a-1"] == "i", "made again as it was"
    found = status(world, "StatefulSet")
    assert found["currentRevision"] != found["updateRevision"]


def test_on_delete_strategy_ends_no_pods() -> None:
    world = rolled(type="OnDelete")
    assert not any(states(world).values())
    replaced(world, "a-1")
    assert images(world) == {"a-0": "i", "a-1": "new", "a-2": "i"}


def test_counts_of_a_stateful_set(world: World) -> None:
    world.create(stateful(replicas=2, podManagementPolicy="Parallel", minReadySeconds=10))
    world.settle()
    ready(world, "a-0")
    found = status(world, "StatefulSet")
    assert (found["replicas"], found["readyReplicas"], found["availableReplicas"]) == (2, 1, 0)
    assert found["collisionCount"] == 0
    world.forward(10)
    assert status(world, "StatefulSet")["availableReplicas"] == 1
    world.delete("v1", "Pod", "a-0")
    found = status(world.settle(), "StatefulSet")
    assert (found["replicas"], found.get("readyReplicas"), found["availableReplicas"]) == (2, None, 0)


def test_unused_revisions_are_bounded() -> None:
    world = World(OWNERS)
    world.create(stateful(replicas=1, revisionHistoryLimit=1))
    for image in ("i1", "i2", "i3", "i1"):
        changed = template()
        changed["spec"]["containers"][0]["image"] = image
        world.patch("apps/v1", "StatefulSet", "a", {"spec": {"template": changed}})
        world.settle()
        for name in world.names():
            world.delete("v1", "Pod", name, grace=0)
        world.settle()
        ready(world, "a-0")
    world.patch("apps/v1", "StatefulSet", "a", {"metadata": {"labels": {"touched": "yes"}}})
    world.settle()
    kept = {
        one["data"]["spec"]["template"]["spec"]["containers"][0]["image"]: one["revision"]
        for one in world.all("apps/v1", "ControllerRevision")
    }
    assert kept == {"i3": 3, "i1": 4}, "one that is used again is the newest"


def test_pod_that_is_ended_is_told_once(world: World) -> None:
    """And not again while it takes its time to go."""
    world.create(owner("ReplicaSet", replicas=2))
    world.settle()
    kept = ready(world, *world.names()).names()[0]
    world.patch("v1", "Pod", kept, {"metadata": {"annotations": {DELETION_COST: "1"}}})
    world.patch("apps/v1", "ReplicaSet", "a", {"spec": {"replicas": 1}})
    world.settle()
    world.patch("apps/v1", "ReplicaSet", "a", {"metadata": {"labels": {"touched": "yes"}}})
    [gone] = [name for name in world.settle().names() if name != kept]
    [told] = [one for one in world.all("v1", "Event") if one["reason"] == "SuccessfulDelete"]
    assert (told["type"], told["message"]) == ("Normal", f"Deleted pod: {gone}")
    assert (told["source"], told["involvedObject"]["name"]) == ({"component": "replicaset-controller"}, "a")


# -- DaemonSets


def node(name: str, *taints: TaintView, **labels: str) -> NodeView:
    seen = NodeView(Meta(name=name, labels=labels))
    seen.spec.taints = taints
    return seen


def join(world: World, name: str, **labels: str) -> None:
    """A node comes that is ready: without the taint that it is made with."""
    world.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})
    world.patch("v1", "Node", name, {"spec": {"taints": None}}, ns="")
