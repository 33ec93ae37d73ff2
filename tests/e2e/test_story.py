"""A day with `reprieve up`: what a user does with kubectl, and what the cluster says and does about it.

Each part has a namespace and nodes of its own; what is asserted is read from the API.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.clients.cluster import kubectls
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
    nodes_file,
    pod,
    pod_group,
    priority_class,
    up,
)
from tests.e2e.hands import Hands, Kubectl, Library, hands
from tests.waiting import DEADLINE

POOLS = {"a": 8, "b": 2, "c": 2, "d": 3, "e": 2}
"""Name of a pool -> its nodes, 4 CPUs each."""
NODES = {f"{pool}{index}": {"pool": pool} for pool, size in POOLS.items() for index in range(1, size + 1)}
GANG = [f"gang-{index}" for index in range(8)]
STAYS = 3600
"""Seconds that a pod takes to end which a test lets go when it wants to."""
WAITING_FOR_MEMBERS = "waiting for minCount pods from a gang to appear in scheduling queue"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    directory = tmp_path_factory.mktemp("story")
    nodes = nodes_file(directory, *NODES, labels=NODES)
    with up(directory, f"--nodes-file={nodes}") as running:
        for name, value in (("low", 100), ("high", 1000)):
            running.api.create(CLASSES, priority_class(name, value))
        yield running
        assert "Traceback" not in running.log.read_text(), running.log.read_text()


def workplace(cluster: Up, namespace: str, home: Path) -> Hands:
    """Hands in a new namespace."""
    cluster.workplace(namespace)
    return hands(cluster.kubeconfig, namespace, home)


def pool(name: str) -> Json:
    return {"pool": name}


def job(name: str, pods: int, *, cpu: str, selector: Json) -> Json:
    """A low Job; its pods take a moment to end, so that their end can be seen."""
    template = pod("unnamed", cpu=cpu, priority="low", selector=selector, stop=1)
    del template["metadata"]["name"]
    spec = {**template["spec"], "restartPolicy": "Never"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "backoffLimit": 100,
            "template": {"metadata": template["metadata"], "spec": spec},
        },
    }


def of_job(cluster: Up, name: str, namespace: str) -> dict[str, Json]:
    """Pods of a job by UID."""
    pods = cluster.api.pods(namespace).values()
    return {p["metadata"]["uid"]: p for p in pods if p["metadata"].get("labels", {}).get("job-name") == name}


def test_gang_makes_exactly_the_room_it_needs(cluster: Up, tmp_path: Path) -> None:
    """A low Job on every node of a pool, a gang of eight that needs half of them."""
    user, space = workplace(cluster, "story", tmp_path), "story"
    user.apply(job("filler", 8, cpu="3", selector=pool("a")))
    before: dict[str, Json] = eventually(
        lambda: (
            found
            if len(found := of_job(cluster, "filler", space)) == 8 and all(map(is_running, found.values()))
            else {}
        ),
        "a low pod on every node",
    )
    assert len({one["spec"]["nodeName"] for one in before.values()}) == 8
    # Two workers fit on an empty node, and packing is asked for by keeping them to four of the nodes.
    half = [f"a{index}" for index in range(1, 5)]
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": half}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    workers = [pod(name, cpu="2", priority="high", group="train", stop=0) for name in GANG]
    for worker in workers:
        worker["spec"]["affinity"] = {"nodeAffinity": required}
    expected = {uid for uid, one in before.items() if one["spec"]["nodeName"] in half}
    # Victims have a condition, and are gone a second later: it is read from all states they had.
    with cluster.api.history(PODS.format(namespace=space)) as pods:
        user.apply(pod_group("train", 8, priority="high", mode="all"), *workers)
        pods.until(lambda: pods.seen(is_preempted) >= expected, "the victims told")
        eventually(lambda: cluster.api.runs(*GANG, namespace=space), "the gang running")
        assert pods.seen(is_preempted) == expected
    after = of_job(cluster, "filler", space)
    assert not expected & set(after)
    assert all(is_running(after[uid]) and not is_preempted(after[uid]) for uid in set(before) - expected)

    # Conditions and events are written beside the bindings, some after them.
    def scheduled() -> Json:
        group = cluster.api.group("train", space)
        assert group is not None
        return group if condition(group, "PodGroupInitiallyScheduled").get("reason") == "Scheduled" else {}

    group = eventually(scheduled, "the group told")
    eventually(
        lambda: f"Successfully assigned {space}/gang-0 to a" in user.describe("gang-0"), "the event of a binding"
    )
    preempted = eventually(
        lambda: found if len(found := cluster.api.events("Preempted", space)) >= len(expected) else [],
        "the events of the victims",
    )
    assert {event["regarding"]["uid"] for event in preempted} == expected
    for event in preempted:
        assert event["note"] == f"Preempted by podgroup {group['metadata']['uid']} on node cluster"
        assert (event["action"], event["related"]["kind"]) == ("Preempting", "PodGroup")
    # The Job makes new pods for those that went; they wait, and say for what.
    waiting = eventually(
        lambda: [
            one["metadata"]["name"]
            for one in of_job(cluster, "filler", space).values()
            if condition(one, "PodScheduled").get("reason") == "Unschedulable"
        ],
        "the Job's new pods waiting",
    )
    eventually(lambda: "Insufficient cpu" in user.describe(waiting[0]), "the event of one that waits")
    assert cluster.metric("scheduler_podgroup_preemption_attempts_total") >= 1


def test_gang_below_its_minimum_waits_and_says_so(cluster: Up, tmp_path: Path) -> None:
    user, space = workplace(cluster, "minimum", tmp_path), "minimum"
    user.apply(pod_group("few", 3), *(pod(f"few-{i}", group="few", selector=pool("b")) for i in range(2)))

    def told() -> bool:
        found = condition(cluster.api.pods(space)["few-0"], "PodScheduled")
        return WAITING_FOR_MEMBERS in found.get("message", "")

    eventually(told, "the reason in the pod's condition")
    assert not cluster.api.runs("few-0", namespace=space)
    user.apply(pod_group("few", 2))  # the minimum is the one field that may change
    eventually(lambda: cluster.api.runs("few-0", "few-1", namespace=space), "the gang with its new minimum")


def test_pod_group_deleted_while_it_waits_leaves_nothing_behind(cluster: Up, tmp_path: Path) -> None:
    user, space = workplace(cluster, "deleted", tmp_path), "deleted"
    members = [pod(f"late-{i}", cpu="3", group="late", selector=pool("c")) for i in range(3)]
    user.apply(pod_group("late", 3), *members)  # three of them do not fit on two nodes

    def rejected() -> bool:
        group = cluster.api.group("late", space)
        return group is not None and condition(group, "PodGroupInitiallyScheduled").get("reason") == "Unschedulable"

    eventually(rejected, "the group unschedulable")
    user.delete("podgroup", "late")
    group = cluster.api.group("late", space)
    assert group is not None
    assert "deletionTimestamp" in group["metadata"], "kept while pods name it"
    user.delete("pod", *(member["metadata"]["name"] for member in members))
    eventually(lambda: cluster.api.group("late", space) is None, "the group gone with its last pod")
    user.apply(pod_group("late", 2), *members[:2])
    eventually(lambda: cluster.api.runs("late-0", "late-1", namespace=space), "a new gang of the same name")


def test_room_from_scaling_down_lets_a_waiting_gang_in(cluster: Up, tmp_path: Path) -> None:
    user, space = workplace(cluster, "scaled", tmp_path), "scaled"
    template = pod("unnamed", cpu="3", selector=pool("e"))["spec"]
    web = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": template},
        },
    }
    user.apply(web)
    eventually(lambda: len(found := cluster.api.pods(space)) == 2 and all(map(is_running, found.values())))
    user.apply(pod_group("pair", 2), *(pod(f"pair-{i}", cpu="2", group="pair", selector=pool("e")) for i in range(2)))
    eventually(lambda: condition(cluster.api.pods(space)["pair-0"], "PodScheduled").get("reason") == "Unschedulable")
    user.scale("deployment", "web", 1)
    eventually(lambda: cluster.api.runs("pair-0", "pair-1", namespace=space), "the pair on the free node")


def test_cordon_and_drain_in_the_middle_of_a_preemption_leave_nothing_stuck(cluster: Up, tmp_path: Path) -> None:
    """preemption.md 4.5: a nominated group may be placed anywhere; no pod keeps a nomination that is no longer true."""
    user, space = workplace(cluster, "drained", tmp_path), "drained"
    # The preemption lasts until they are let go.
    fillers = [pod(f"low-{i}", cpu="3", priority="low", node=f"d{i}", stop=STAYS) for i in (1, 2)]
    user.apply(*fillers)
    eventually(lambda: cluster.api.runs("low-1", "low-2", namespace=space))
    user.cordon("d3")
    cluster.heard(cluster.api.get("/api/v1/nodes/d3"))
    members = [pod(f"move-{i}", cpu="3", priority="high", group="move", selector=pool("d")) for i in range(2)]
    user.apply(pod_group("move", 2, priority="high"), *members)

    def nominated() -> set[str]:
        """Where the gang is to go."""
        pods = cluster.api.pods(space)
        return {pods[f"move-{i}"]["status"].get("nominatedNodeName", "") for i in range(2)}

    eventually(lambda: nominated() == {"d1", "d2"}, "nominations")
    with ThreadPoolExecutor(max_workers=1) as beside:
        # One of the nominated nodes goes while its victim still leaves, another one comes.
        drain = beside.submit(user.drain, "d1")
        try:
            eventually(lambda: cluster.api.get("/api/v1/nodes/d1")["spec"].get("unschedulable"), "d1 cordoned")
            user.cordon("d3", on=False)
            cluster.heard(*(cluster.api.get(f"/api/v1/nodes/{name}") for name in ("d1", "d3")))
            pods = cluster.api.pods(space)
            assert all("deletionTimestamp" in pods[f"low-{i}"]["metadata"] for i in (1, 2)), "in the middle"
            assert not any("nodeName" in pods[f"move-{i}"]["spec"] for i in range(2)), "in the middle"
        finally:
            for filler in fillers:
                name = filler["metadata"]["name"]
                cluster.api.delete(f"{PODS.format(namespace=space)}/{name}?gracePeriodSeconds=0")
        drain.result(DEADLINE)
    eventually(lambda: cluster.api.runs("move-0", "move-1", namespace=space), "the gang elsewhere")
    pods = cluster.api.pods(space)
    assert {pods[f"move-{i}"]["spec"]["nodeName"] for i in range(2)} == {"d2", "d3"}
    assert not any(one["status"].get("nominatedNodeName") and "nodeName" not in one["spec"] for one in pods.values())
    user.cordon("d1", on=False)
    user.apply(pod("next", cpu="3", selector=pool("d")))
    eventually(lambda: cluster.api.runs("next", namespace=space), "room on the node that came back")
    eventually(lambda: cluster.metric("scheduler_pending_pods", queue="active") == 0)


@pytest.mark.parametrize("kind", ["kubectl", "library"])
def test_both_kinds_of_hands_do_the_same(kind: str, cluster: Up, tmp_path: Path) -> None:
    """What other tests do by kubectl can be done without."""
    if kind == "kubectl" and not kubectls():
        pytest.skip("no kubectl on this machine")
    space = f"hands-{kind}"
    cluster.workplace(space)
    user: Hands = Library(cluster.kubeconfig, space)
    if kind == "kubectl":
        user = Kubectl(kubectls()[-1], cluster.kubeconfig, space, tmp_path)
    user.apply(pod_group("g", 1), pod("p", cpu="100m", group="g", selector=pool("b")))
    user.apply(pod_group("g", 1))
    eventually(lambda: cluster.api.runs("p", namespace=space))
    node = cluster.api.pods(space)["p"]["spec"]["nodeName"]
    told = f"Successfully assigned {space}/p to {node}"
    eventually(lambda: told in user.describe("p"), "the event of the binding, written beside it")
    other = "b1" if node == "b2" else "b2"
    user.cordon(other)
    assert cluster.api.get(f"/api/v1/nodes/{other}")["spec"]["unschedulable"] is True
    user.cordon(other, on=False)
    user.delete("podgroup", "g")
    user.delete("pod", "p")
    eventually(lambda: cluster.api.gone("p", namespace=space) and not cluster.api.items(GROUPS.format(namespace=space)))
