"""DaemonSets: where a daemon runs, and how they are updated (interfaces.md 7)."""

from __future__ import annotations

from typing import Any

import pytest

from kube_rules.controllers.daemons import DaemonNodes, daemon_tolerations
from kube_standin.controllers.daemonsets import verdict_on
from kube_standin.controllers.views import NodeView, TaintView
from tests.controllers.test_set_rules import OWNERS, join, node, status
from tests.controllers.world import Json, World, owner, template


@pytest.fixture
def world() -> World:
    return World(OWNERS)


def required(key: str, *values: str) -> Json:
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}]
    needed = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": needed}}


_MINE = TaintView("mine", "NoSchedule")
_OUT = TaintView("mine", "NoExecute")


@pytest.mark.parametrize(
    ("spec", "where", "verdict"),
    [
        ({}, node("n"), (True, True)),
        ({"nodeName": "n"}, node("n"), (True, True)),
        ({"nodeName": "m"}, node("n"), (False, False)),
        ({"nodeSelector": {"a": "b"}}, node("n", a="b"), (True, True)),
        ({"nodeSelector": {"a": "b"}}, node("n", a="c"), (False, False)),
        (required("a", "b"), node("n", a="b"), (True, True)),
        (required("a", "b"), node("n", a="c"), (False, False)),
        ({}, node("n", _MINE), (False, True)),
        ({}, node("n", _OUT), (False, False)),
        ({}, node("n", TaintView("mine", "PreferNoSchedule")), (True, True)),
        ({"tolerations": [{"key": "mine", "operator": "Exists"}]}, node("n", _MINE, _OUT), (True, True)),
        ({"tolerations": [{"key": "mine", "operator": "Exists", "effect": "NoSchedule"}]}, node("n", _MINE, _OUT),
         (False, False)),
        ({}, node("n", TaintView("node.kubernetes.io/not-ready", "NoExecute")), (True, True)),
        ({}, node("n", TaintView("node.kubernetes.io/unreachable", "NoExecute")), (True, True)),
        ({}, node("n", TaintView("node.kubernetes.io/disk-pressure", "NoSchedule")), (True, True)),
        ({}, node("n", TaintView("node.kubernetes.io/memory-pressure", "NoSchedule")), (True, True)),
        ({}, node("n", TaintView("node.kubernetes.io/pid-pressure", "NoSchedule")), (True, True)),
        ({}, node("n", TaintView("node.kubernetes.io/unschedulable", "NoSchedule")), (True, True)),
        ({}, node("n", TaintView("node.kubernetes.io/network-unavailable", "NoSchedule")), (False, True)),
        ({"hostNetwork": True}, node("n", TaintView("node.kubernetes.io/network-unavailable", "NoSchedule")),
         (True, True)),
    ],
)  # fmt: skip
def test_where_a_daemon_should_run_and_may_go_on(spec: Json, where: NodeView, verdict: tuple[bool, bool]) -> None:
    assert verdict_on(DaemonNodes(spec), where) == verdict


def daemons(*names: str, **spec: Any) -> World:
    """A daemon set with a ready pod on each node."""
    world = World(OWNERS)
    for name in names:
        join(world, name)
    world.create(owner("DaemonSet", **spec))
    world.settle()
    for one in world.pods():
        world.bind(one["metadata"]["name"], meant(one))
        world.set_ready(one["metadata"]["name"])
    return world.settle()


def meant(one: Json) -> str:
    needed = one["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    [found] = needed["nodeSelectorTerms"][0]["matchFields"][0]["values"]
    return str(found)


def ending(world: World) -> list[str]:
    return sorted(meant(one) for one in world.pods() if one["metadata"].get("deletionTimestamp"))


def test_every_node_has_one() -> None:
    world = daemons("n1", "n2")
    assert sorted(meant(one) for one in world.pods()) == ["n1", "n2"]
    found = status(world, "DaemonSet")
    assert {key: value for key, value in found.items() if key != "observedGeneration"} == {
        "desiredNumberScheduled": 2,
        "currentNumberScheduled": 2,
        "numberMisscheduled": 0,
        "numberReady": 2,
        "updatedNumberScheduled": 2,
        "numberAvailable": 2,
    }
    join(world, "n3")
    world.settle()
    assert sorted(meant(one) for one in world.pods()) == ["n1", "n2", "n3"]
    found = status(world, "DaemonSet")
    assert (found["currentNumberScheduled"], found["numberReady"], found["numberUnavailable"]) == (3, 2, 1)


def test_daemons_node_takes_the_place_of_the_affinity_of_the_template() -> None:
    """Upstream's ReplaceDaemonSetPodNodeNameNodeAffinity: the controller has chosen the node by it already."""
    world = World(OWNERS)
    join(world, "n1", a="b")
    join(world, "n2", a="c")
    world.create(owner("DaemonSet", pod=template(**required("a", "b"))))
    [made] = world.settle().pods()
    needed = made["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    field = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    assert needed["nodeSelectorTerms"] == [{"matchFields": [field]}]


def test_daemon_tolerates_a_troubled_node_for_ever() -> None:
    """Upstream's AddOrUpdateDaemonPodTolerations: a toleration of the template for some seconds is replaced."""
    not_ready = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
    tolerations = daemon_tolerations({"tolerations": [{**not_ready, "tolerationSeconds": 5}]})
    assert tolerations[0] == not_ready
    assert len(tolerations) == 6


@pytest.mark.parametrize(("effect", "ends"), [("NoSchedule", False), ("NoExecute", True)])
def test_taint_that_comes_later(effect: str, ends: bool) -> None:
    world = daemons("n1", "n2")
    world.patch("v1", "Node", "n1", {"spec": {"taints": [{"key": "mine", "effect": effect}]}}, ns="")
    assert ending(world.settle()) == (["n1"] if ends else [])
    assert status(world, "DaemonSet")["desiredNumberScheduled"] == 1
    assert status(world, "DaemonSet")["numberMisscheduled"] == 1


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_daemon_that_ended_is_made_again(phase: str) -> None:
    world = daemons("n1")
    [before] = world.names()
    world.set_phase(before, phase)
    [after] = world.settle().names()
    assert after != before


def test_daemon_pods_of_a_node_the_older_stays() -> None:
    world = daemons("n1")
    [found] = world.pods()
    double = {**found, "metadata": {**found["metadata"], "name": "double"}}
    for field in ("uid", "resourceVersion", "creationTimestamp", "managedFields"):
        double["metadata"].pop(field, None)
    double["spec"] = {**double["spec"], "nodeName": "n1"}
    world.set_clock.forward(5)
    world.create(double)
    world.settle()
    left = [one["metadata"]["name"] for one in world.pods() if not one["metadata"].get("deletionTimestamp")]
    assert left == [found["metadata"]["name"]]


def test_daemon_pod_of_a_deleted_node_is_deleted() -> None:
    """If it is not bound yet; the others are for the collector of pods."""
    world = World(OWNERS)
    join(world, "n1")
    world.create(owner("DaemonSet"))
    assert len(world.settle().names()) == 1
    world.delete("v1", "Node", "n1", ns="")
    assert world.settle().names() == []
    bound = daemons("n1")
    bound.delete("v1", "Node", "n1", ns="")
    assert ending(bound.settle()) == []
    assert len(bound.names()) == 1


@pytest.mark.parametrize(("limit", "ended"), [(1, 1), (2, 2), ("50%", 2), ("26%", 2), ("25%", 1), ("100%", 4)])
def test_update_ends_so_many_at_a_time(limit: int | str, ended: int) -> None:
    """Percentages are of the nodes that should have one, rounded up."""
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": limit}}
    world = daemons("n1", "n2", "n3", "n4", updateStrategy=strategy)
    changed = template()
    changed["spec"]["containers"][0]["image"] = "new"
    world.patch("apps/v1", "DaemonSet", "a", {"spec": {"template": changed}})
    world.settle()
    assert len(ending(world)) == ended
    assert status(world, "DaemonSet").get("updatedNumberScheduled") is None


def test_pods_that_are_not_ready_are_replaced_beyond_the_limit() -> None:
    world = daemons("n1", "n2", "n3")
    for one in world.pods():
        if meant(one) in ("n1", "n2"):
            world.set_ready(one["metadata"]["name"], False)
    world.settle()
    changed = template()
    changed["spec"]["containers"][0]["image"] = "new"
    world.patch("apps/v1", "DaemonSet", "a", {"spec": {"template": changed}})
    assert ending(world.settle()) == ["n1", "n2"]


def test_daemon_is_available_after_its_time() -> None:
    world = daemons("n1", minReadySeconds=10)
    assert "numberAvailable" not in status(world, "DaemonSet")
    assert "numberAvailable" not in status(world.forward(9), "DaemonSet")
    assert status(world.forward(1), "DaemonSet")["numberAvailable"] == 1


@pytest.mark.parametrize(("limit", "left"), [(0, ["i3"]), (1, ["i2", "i3"]), (2, ["i1", "i2", "i3"])])
def test_templates_that_no_daemon_has_are_bounded(limit: int, left: list[str]) -> None:
    world = World(OWNERS)
    world.create(owner("DaemonSet", revisionHistoryLimit=limit))
    for image in ("i1", "i2", "i3"):
        changed = template()
        changed["spec"]["containers"][0]["image"] = image
        world.patch("apps/v1", "DaemonSet", "a", {"spec": {"template": changed}})
        world.settle()
    found = world.all("apps/v1", "ControllerRevision")
    assert sorted(one["data"]["spec"]["template"]["spec"]["containers"][0]["image"] for one in found) == left


def test_on_delete_ends_no_daemon() -> None:
    world = daemons("n1", updateStrategy={"type": "OnDelete"})
    changed = template()
    changed["spec"]["containers"][0]["image"] = "new"
    world.patch("apps/v1", "DaemonSet", "a", {"spec": {"template": changed}})
    assert ending(world.settle()) == []


def test_daemon_set_that_is_deleted_makes_nothing() -> None:
    world = daemons("n1")
    world.patch("apps/v1", "DaemonSet", "a", {"metadata": {"finalizers": ["example.com/wait"]}})
    world.delete("apps/v1", "DaemonSet", "a", propagation="Orphan")
    join(world, "n2")
    assert len(world.settle().names()) == 1
