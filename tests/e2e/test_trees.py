"""Trees of groups with `reprieve up`: a CompositePodGroup over PodGroups, as a user meets it (composite.md 2 to 6).

Each part has a namespace and nodes of its own, found by the label `pool`; what is asserted is read from the API.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.e2e.cluster import (
    CLASSES,
    GROUPS,
    PODS,
    Json,
    Up,
    condition,
    eventually,
    is_preempted,
    is_running,
    pod,
    pod_group,
    priority_class,
    up,
)

COMPOSITES = "/apis/scheduling.k8s.io/v1alpha3/namespaces/{namespace}/compositepodgroups"
SCHEDULED = "CompositePodGroupInitiallyScheduled"
QUORUM = 'waiting for composite pod group "root" tree to meet quorum'
MISSING = 'waiting for pods\'s pod group "{}" to appear in scheduling queue'
STAYS = 600
"""Seconds that a pod takes to end which a test lets go when it wants to."""
RACKS = {"a-one": ("a", "3"), "a-two": ("a", "5"), "b-one": ("b", "5"), "b-two": ("b", "5")}
"""Name of a rack, one node each -> its block and its CPUs."""


def fleet(directory: Path) -> Path:
    """Two nodes in each pool, of 32 CPUs where there is to be room, of 4 where not; and two blocks of two racks."""
    sized = {
        f"{pool}-{index}": ({"pool": pool}, cpu)
        for pool, cpu in (("p", "32"), ("q", "32"), ("r", "32"), ("s", "4"), ("t", "4"))
        for index in (1, 2)
    }
    for rack, (block, cpu) in RACKS.items():
        sized[rack] = ({"pool": "blocks", "block": block, "rack": rack}, cpu)
    path = directory / "nodes.yaml"
    nodes = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "status": {"allocatable": {"cpu": cpu, "memory": "64Gi", "pods": "60"}},
        }
        for name, (labels, cpu) in sized.items()
    ]
    path.write_text(yaml.safe_dump_all(nodes))
    return path


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    directory = tmp_path_factory.mktemp("trees")
    with up(directory, f"--nodes-file={fleet(directory)}") as running:
        for name, value in (("low", 100), ("high", 1000)):
            running.api.create(CLASSES, priority_class(name, value))
        yield running
        assert "Traceback" not in running.log.read_text(), running.log.read_text()


def composite(
    name: str = "root",
    least: int | None = 1,
    *,
    parent: str | None = None,
    mode: str | None = None,
    key: str | None = None,
    priority: str | None = None,
) -> Json:
    """A CompositePodGroup; `least` None: the basic policy."""
    spec: Json = {
        "workloadRef": {"workloadName": "serving", "templateName": name},
        "schedulingPolicy": {"basic": {}} if least is None else {"gang": {"minGroupCount": least}},
    }
    if parent is not None:
        spec["parentCompositePodGroupName"] = parent
    if mode is not None:
        spec["disruptionMode"] = {mode: {}}
    if key is not None:
        spec["schedulingConstraints"] = {"topology": [{"key": key}]}
    if priority is not None:
        spec["priorityClassName"] = priority
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha3",
        "kind": "CompositePodGroup",
        "metadata": {"name": name},
        "spec": spec,
    }


def leaf(name: str, least: int, parent: str, *, key: str | None = None, priority: str | None = None) -> Json:
    """A PodGroup of a tree."""
    more: Json = {"schedulingConstraints": {"topology": [{"key": key}]}} if key is not None else {}
    reference = {"workloadName": "serving", "templateName": name}
    return pod_group(name, least, priority=priority, parentCompositePodGroupName=parent, workloadRef=reference, **more)


class Trees:
    """Objects of one namespace, with pods that run in one pool."""

    def __init__(self, cluster: Up, space: str, pool: str) -> None:
        cluster.workplace(space)
        self.cluster, self.api, self.space, self.pool = cluster, cluster.api, space, pool
        self.composites = COMPOSITES.format(namespace=space)
        self.groups = GROUPS.format(namespace=space)

    def make(self, *objects: Json) -> None:
        for one in objects:
            self.api.create(self.composites if one["kind"] == "CompositePodGroup" else self.groups, one)

    def pods(self, group: str, count: int, *, first: int = 0, cpu: str = "1", **fields: object) -> list[str]:
        """Pods of a group; their names."""
        names = [f"{group}-{index}" for index in range(first, first + count)]
        for name in names:
            made = pod(name, cpu=cpu, group=group, selector={"pool": self.pool}, **fields)  # type: ignore[arg-type]
            self.api.create(PODS.format(namespace=self.space), made)
        return names

    def said(self, name: str = "root") -> Json:
        """The condition of a composite."""
        return condition(self.api.get(f"{self.composites}/{name}"), SCHEDULED)

    def waits(self, name: str, words: str) -> None:
        """The composite says that it is not scheduled, and why; so it stays while another is scheduled."""
        eventually(
            lambda: self.said(name).get("status") == "False" and words in self.said(name)["message"],
            f"{name} waiting: {words}",
        )

    def is_scheduled(self, *names: str) -> None:
        """The composites say so, for good."""
        eventually(lambda: all(self.said(name).get("status") == "True" for name in names), f"{names} scheduled")
        assert {self.said(name)["reason"] for name in names} == {"Scheduled"}

    def group_said(self, name: str, kind: str = "PodGroupInitiallyScheduled") -> Json:
        """A condition of a pod group."""
        return condition(self.api.group(name, self.space) or {}, kind)

    def pod_said(self, name: str) -> Json:
        """What a pod says of being scheduled."""
        return condition(self.api.pod(name, self.space) or {}, "PodScheduled")

    def disrupted(self, name: str) -> Json:
        """The condition of a composite that makes room."""
        return condition(self.api.get(f"{self.composites}/{name}"), "DisruptionTarget")

    def preempted(self) -> list[str]:
        """Return the pods that were preempted."""
        return [name for name, one in self.api.pods(self.space).items() if is_preempted(one)]

    def run(self, *names: str) -> None:
        eventually(lambda: self.api.runs(*names, namespace=self.space), f"{names} running")

    def idle(self, *names: str) -> bool:
        """Whether none of these pods has a node."""
        pods = self.api.pods(self.space)
        return all("nodeName" not in pods[name]["spec"] for name in names)


def test_missing_root_is_waited_for(cluster: Up) -> None:
    """composite.md 6: its pods wait outside, and come in when it appears."""
    trees = Trees(cluster, "late-root", "p")
    trees.make(leaf("prefill", 2, "root"), leaf("decode", 2, "root"))
    names = [*trees.pods("prefill", 2), *trees.pods("decode", 2)]
    told = MISSING.format("root")
    eventually(lambda: told in trees.group_said("prefill").get("message", ""), "the group telling what it waits for")
    assert trees.idle(*names)
    trees.make(composite(least=2))
    trees.run(*names)
    trees.is_scheduled("root")


def test_root_of_two_waits_for_its_second_group(cluster: Up) -> None:
    trees = Trees(cluster, "second-leaf", "p")
    gated = {"type": "compositepodgroup", "queue": "gated"}
    others = cluster.metric("scheduler_pending_entities", **gated)  # of tests before, that are left as they are
    trees.make(composite(least=2), leaf("prefill", 2, "root"))
    names = trees.pods("prefill", 2)
    trees.waits("root", QUORUM)
    assert trees.said()["reason"] == "Unschedulable"
    eventually(lambda: cluster.metric("scheduler_pending_entities", **gated) == others + 1, "the tree counted as gated")
    trees.make(leaf("decode", 1, "root"))
    names += trees.pods("decode", 1)
    trees.run(*names)
    trees.is_scheduled("root")


def test_short_group_keeps_the_tree_waiting_until_its_last_pod(cluster: Up) -> None:
    trees = Trees(cluster, "short-leaf", "p")
    trees.make(composite(least=None), leaf("prefill", 4, "root"))
    names = trees.pods("prefill", 3)
    trees.waits("root", QUORUM)
    assert trees.idle(*names)
    names += trees.pods("prefill", 1, first=3)
    trees.run(*names)


def test_lower_counts_wake_the_tree(cluster: Up) -> None:
    """At the root, in the middle and at a leaf."""
    trees = Trees(cluster, "lower", "q")
    trees.make(composite(least=2), composite("mid", 2, parent="root"), leaf("one", 1, "mid"), leaf("two", 3, "root"))
    names = [*trees.pods("one", 1), *trees.pods("two", 2)]
    trees.waits("root", QUORUM)

    def lower(path: str, policy: Json) -> None:
        trees.api.patch(path, {"spec": {"schedulingPolicy": {"gang": policy}}})

    lower(f"{trees.composites}/mid", {"minGroupCount": 1})
    lower(f"{trees.groups}/two", {"minCount": 2})
    trees.run(*names)
    trees.is_scheduled("root", "mid")

    other = Trees(cluster, "lower-root", "q")
    other.make(composite(least=2), leaf("one", 1, "root"), leaf("two", 3, "root"))
    [ready] = other.pods("one", 1)
    short = other.pods("two", 2)
    other.waits("root", QUORUM)
    lower(f"{other.composites}/root", {"minGroupCount": 1})
    other.run(ready)
    assert other.idle(*short)


def test_cousins_in_two_branches(cluster: Up) -> None:
    trees = Trees(cluster, "cousins", "q")
    trees.make(composite(least=2))
    names = []
    for branch in ("left", "right"):
        trees.make(composite(branch, 1, parent="root"), leaf(f"{branch}-leaf", 1, branch))
    names += trees.pods("left-leaf", 1)
    trees.waits("root", QUORUM)
    names += trees.pods("right-leaf", 1)
    trees.run(*names)
    trees.is_scheduled("root", "left", "right")


def test_cycle_of_parents_is_told_and_can_be_mended(cluster: Up) -> None:
    """composite.md 5, 6: never scheduled, reason Invalid; a parent made again without the reference is a root."""
    trees = Trees(cluster, "cycle", "r")
    trees.make(composite("root", 1, parent="mid"), composite("mid", 1, parent="root"), leaf("leaf", 1, "mid"))
    [name] = trees.pods("leaf", 1)
    for one in ("root", "mid"):
        trees.waits(one, "cycle")
        assert trees.said(one)["reason"] == "Invalid"
    assert trees.idle(name)
    trees.api.delete(f"{trees.composites}/root")
    trees.api.patch(f"{trees.composites}/root", {"metadata": {"finalizers": None}})
    trees.waits("mid", MISSING.format("root"))
    trees.make(composite("root", 1))
    trees.run(name)
    trees.is_scheduled("root", "mid")


def test_too_many_levels_are_invalid(cluster: Up) -> None:
    trees = Trees(cluster, "deep", "r")
    names = ["a", "b", "c", "d"]
    for name, parent in zip(names, [None, *names[:-1]], strict=True):
        trees.make(composite(name, 1, parent=parent))
    trees.make(leaf("leaf", 1, "d"))
    [name] = trees.pods("leaf", 1)
    for one in names:
        eventually(lambda one=one: trees.said(one).get("reason") == "Invalid", f"{one} of a tree that is too deep")  # type: ignore[misc]
    assert trees.idle(name)


def test_groups_of_one_block(cluster: Up) -> None:
    """composite.md 6: block a has racks of 3 and 5, block b of 5 and 5; two groups of five in a block, a rack each."""
    trees = Trees(cluster, "blocks", "blocks")
    trees.make(composite(least=2, key="block"), leaf("one", 5, "root", key="rack"), leaf("two", 5, "root", key="rack"))
    names = [*trees.pods("one", 5), *trees.pods("two", 5)]
    trees.run(*names)
    pods = trees.api.pods(trees.space)
    racks = {group: {pods[f"{group}-{index}"]["spec"]["nodeName"] for index in range(5)} for group in ("one", "two")}
    assert sorted(len(found) for found in racks.values()) == [1, 1]
    assert racks["one"] | racks["two"] == {"b-one", "b-two"}


def test_new_node_wakes_the_tree(cluster: Up, tmp_path: Path) -> None:
    trees = Trees(cluster, "new-node", "later")
    trees.make(composite(least=2), leaf("one", 2, "root"), leaf("two", 2, "root"))
    names = [*trees.pods("one", 2), *trees.pods("two", 2)]
    trees.waits("root", "placements are available")
    assert trees.idle(*names)
    told = cluster.explained("cpg", "root", trees.space, tmp_path)
    assert "compositepodgroup new-node/root is pending: 0 of its 4 pods on nodes. It needs 2 of its groups." in told
    assert "podgroup new-node/one" in told.partition("Level by level")[2], told
    amounts = {"cpu": "4", "memory": "16Gi", "pods": "20"}
    node = {"metadata": {"name": "later-1", "labels": {"pool": "later"}}, "status": {"allocatable": amounts}}
    trees.api.create("/api/v1/nodes", node)
    eventually(lambda: not trees.idle(*names[:1]), "bound to the new node")
    trees.is_scheduled("root")


def test_all_tree_is_evicted_as_one_and_told_so_on_every_group(cluster: Up) -> None:
    """composite.md 4: `all` at the root overrides `single` below; DisruptionTarget on every group and pod."""
    trees = Trees(cluster, "victims", "s")
    trees.make(
        composite(least=2, mode="all", priority="low"),
        composite("mid", 1, parent="root", priority="low"),
        leaf("one", 2, "mid", priority="low"),
        leaf("two", 2, "root", priority="low"),
    )
    names = [*trees.pods("one", 2, priority="low", stop=STAYS), *trees.pods("two", 2, priority="low", stop=STAYS)]
    trees.run(*names)
    trees.is_scheduled("root", "mid")
    urgent = [pod(f"urgent-{index}", cpu="4", priority="high", selector={"pool": "s"}) for index in range(2)]
    for one in urgent:
        trees.api.create(PODS.format(namespace=trees.space), one)
    eventually(lambda: set(trees.preempted()) == set(names), "all pods told")
    eventually(lambda: all(trees.disrupted(name) for name in ("root", "mid")), "composites told")
    for name in ("root", "mid"):
        assert (trees.disrupted(name)["status"], trees.disrupted(name)["reason"]) == ("True", "PreemptionByScheduler")
    eventually(
        lambda: all(trees.group_said(name, "DisruptionTarget").get("status") == "True" for name in ("one", "two")),
        "groups told",
    )
    for name in names:
        trees.api.request("DELETE", f"{PODS.format(namespace=trees.space)}/{name}?gracePeriodSeconds=0")
    trees.run("urgent-0", "urgent-1")


def named_as_victims(told: str) -> list[str]:
    """Low pods in the table of victims; those of one node stand in one row."""
    table = told.partition("Preemption")[2].partition("Decided at")[0]
    return sorted(set(re.findall(r"\blow-\d\b", table)))


def test_tree_makes_room_as_one(cluster: Up, tmp_path: Path) -> None:
    """composite.md 4: the root preempts; the condition tells that it waits; `explain` tells the tree."""
    trees = Trees(cluster, "preemptor", "t")
    low = [pod(f"low-{index}", cpu="2", priority="low", selector={"pool": "t"}, stop=STAYS) for index in range(4)]
    for one in low:
        trees.api.create(PODS.format(namespace=trees.space), one)
    trees.run(*(one["metadata"]["name"] for one in low))
    trees.make(
        composite(least=2, priority="high"),
        leaf("prefill", 1, "root", priority="high"),
        leaf("decode", 1, "root", priority="high"),
    )
    names = [*trees.pods("prefill", 1, cpu="4", priority="high"), *trees.pods("decode", 1, cpu="2", priority="high")]
    eventually(lambda: len(trees.preempted()) == 3, "three victims told")
    victims = trees.preempted()
    trees.waits("root", "waiting for")
    assert trees.said()["reason"] == "Unschedulable"
    for name in victims:
        trees.api.request("DELETE", f"{PODS.format(namespace=trees.space)}/{name}?gracePeriodSeconds=0")
    trees.run(*names)
    trees.is_scheduled("root")
    told = cluster.explained("compositepodgroup", "root", trees.space, tmp_path)
    assert "compositepodgroup preemptor/root is scheduled: all its 2 pods are on nodes." in told
    assert named_as_victims(told) == sorted(victims), told
    # Its parts tell the same; they are scheduled with it.
    told = cluster.explained("podgroup", "decode", trees.space, tmp_path)
    assert "It is scheduled as part of compositepodgroup root, with the whole tree." in told
    assert named_as_victims(told) == sorted(victims), told
    told = cluster.explained("pod", victims[0], trees.space, tmp_path)
    assert "Preempted by compositepodgroup preemptor/root" in told


def test_parent_that_goes_under_a_running_tree(cluster: Up) -> None:
    """What runs goes on; what comes later waits for the parent; it comes back and schedules the rest."""
    trees = Trees(cluster, "orphans", "r")
    trees.make(composite(least=1), leaf("leaf", 1, "root"))
    first = trees.pods("leaf", 1)
    trees.run(*first)
    trees.api.delete(f"{trees.composites}/root")
    assert trees.api.get(f"{trees.composites}/root")["metadata"]["deletionTimestamp"]  # its child keeps it
    trees.api.patch(f"{trees.composites}/root", {"metadata": {"finalizers": None}})
    cluster.heard(trees.api.create(trees.composites, composite("later")))  # and so that the other one is gone
    second = trees.pods("leaf", 1, first=1)
    told = MISSING.format("root")
    eventually(lambda: told in trees.pod_said(second[0]).get("message", ""), "the pod saying why it waits")
    assert trees.idle(*second)
    assert trees.api.runs(*first, namespace=trees.space)
    trees.make(composite(least=1))
    trees.run(*first, *second)


def test_tree_is_deleted_from_its_leaves_up(cluster: Up) -> None:
    """composite.md 1: finalizers; nothing new comes under what is going."""
    trees = Trees(cluster, "deleted", "r")
    trees.make(composite(least=1), composite("mid", 1, parent="root"), leaf("leaf", 1, "mid"))
    [name] = trees.pods("leaf", 1)
    trees.run(name)
    for path in (f"{trees.composites}/root", f"{trees.composites}/mid", f"{trees.groups}/leaf"):
        trees.api.delete(path)
    assert len(trees.api.items(trees.composites)) == 2
    late = trees.api.request("POST", trees.groups, leaf("late", 1, "mid"))
    assert (late["code"], late["reason"]) == (403, "Forbidden")
    assert "because it is being deleted" in late["message"]
    trees.api.delete(f"{PODS.format(namespace=trees.space)}/{name}")
    eventually(lambda: not trees.api.items(trees.groups) and not trees.api.items(trees.composites), "all of it gone")


BIG = 24
"""Pods of a leaf where a scheduler is killed in the middle."""


def test_scheduler_that_is_killed_in_the_middle_leaves_no_half_tree(tmp_path: Path) -> None:
    """kill -9 while bindings are written: the one that comes after it goes on, and the whole tree runs."""
    with up(tmp_path, "--nodes=12") as cluster:
        trees = Trees(cluster, "killed", "none")
        trees.make(composite(least=2), leaf("one", BIG, "root"), leaf("two", BIG, "root"))
        path = PODS.format(namespace=trees.space)
        with cluster.api.history(path) as pods:
            for group in ("one", "two"):
                for index in range(BIG):
                    cluster.api.create(path, pod(f"{group}-{index}", cpu="100m", group=group))
            pods.until(lambda: pods.seen(lambda one: "nodeName" in one["spec"]), "the first binding")
            [child] = cluster.children()
            os.kill(child, signal.SIGKILL)
            pods.until(lambda: len(pods.seen(is_running)) == 2 * BIG, "all pods running")
        trees.is_scheduled("root")


def test_cluster_that_is_killed_in_the_middle_of_a_deletion_keeps_no_orphans(tmp_path: Path) -> None:
    """kill -9 of all of it between the parts of a deletion: after the next start the trees go to the last finalizer."""
    arguments = (f"--nodes-file={fleet(tmp_path)}",)
    data = str(tmp_path / "data")
    with up(tmp_path, *arguments, data_dir=data) as cluster:
        trees = Trees(cluster, "swept", "p")
        for index in range(4):
            trees.make(composite(f"root{index}", 1), composite(f"mid{index}", 1, parent=f"root{index}"))
            trees.make(leaf(f"leaf{index}", 1, f"mid{index}"))
            trees.run(*trees.pods(f"leaf{index}", 1))
        for index in range(4):
            trees.api.delete(f"{trees.composites}/root{index}")
            trees.api.delete(f"{trees.composites}/mid{index}")
            trees.api.delete(f"{trees.groups}/leaf{index}")
        for index in range(4):
            trees.api.delete(f"{PODS.format(namespace=trees.space)}/leaf{index}-0")
        scheduler = cluster.children()
        cluster.process.send_signal(signal.SIGKILL)
        cluster.process.wait()
        assert scheduler
    with up(tmp_path, *arguments, data_dir=data) as cluster:
        api = cluster.api
        eventually(lambda: not api.pods(trees.space), "the pods gone")
        eventually(lambda: not api.items(trees.groups) and not api.items(trees.composites), "the groups gone")
        api.delete(f"/api/v1/namespaces/{trees.space}")
        eventually(lambda: api.get(f"/api/v1/namespaces/{trees.space}").get("code") == 404, "the namespace gone")


OFF, ON = "CompositePodGroup=false", "CompositePodGroup=true"


def test_gate_goes_off_and_on_again(tmp_path: Path) -> None:
    """KEP-6012, upgrade and rollback: what is stored stays; without the gate a leaf is flat (composite.md 5)."""
    arguments = (f"--nodes-file={fleet(tmp_path)}",)
    data = str(tmp_path / "data")
    space = "gates"
    groups, composites = GROUPS.format(namespace=space), COMPOSITES.format(namespace=space)
    with up(tmp_path, *arguments, f"--feature-gates={OFF}", data_dir=data) as cluster:
        cluster.workplace(space)
        assert cluster.api.get(composites)["code"] == 404
        refused = cluster.api.request("POST", groups, leaf("early", 1, "root"))
        assert (refused["code"], refused["details"]["causes"][0]["field"]) == (422, "spec.parentCompositePodGroupName")
        cluster.api.create(groups, pod_group("flat", 1))
        cluster.api.create(PODS.format(namespace=space), pod("flat-0", group="flat"))
        eventually(lambda: cluster.api.runs("flat-0", namespace=space))
    with up(tmp_path, *arguments, f"--feature-gates={ON}", data_dir=data) as cluster:
        cluster.api.create(composites, composite(least=2))
        cluster.api.create(groups, leaf("one", 1, "root"))
        cluster.api.create(PODS.format(namespace=space), pod("one-0", group="one"))
        eventually(
            lambda: QUORUM in condition(cluster.api.get(f"{composites}/root"), SCHEDULED).get("message", ""), QUORUM
        )
        assert "nodeName" not in cluster.api.pods(space)["one-0"]["spec"]
    with up(tmp_path, *arguments, f"--feature-gates={OFF}", data_dir=data) as cluster:
        eventually(lambda: cluster.api.runs("one-0", "flat-0", namespace=space), "the leaf scheduled by itself")
        assert cluster.api.get(f"{groups}/one")["spec"]["parentCompositePodGroupName"] == "root"
    with up(tmp_path, *arguments, f"--feature-gates={ON}", data_dir=data) as cluster:
        assert cluster.api.runs("one-0", "flat-0", namespace=space)
        cluster.api.create(groups, leaf("two", 1, "root"))
        cluster.api.create(PODS.format(namespace=space), pod("two-0", group="two"))
        eventually(lambda: cluster.api.runs("one-0", "two-0", namespace=space), "the tree complete")
        eventually(
            lambda: condition(cluster.api.get(f"{composites}/root"), SCHEDULED).get("status") == "True", "its root"
        )
