"""Waiting for room, and room that is held, with `reprieve up` (cost.md 5, 6): read off the watches, not by looking.

Each part has a namespace and nodes of its own.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.cluster import (
    CLASSES,
    EVENTS,
    GROUPS,
    PODS,
    History,
    Json,
    Up,
    condition,
    eventually,
    is_preempted,
    is_running,
    nodes_file,
    pod,
    pod_group,
    preemption_config,
    priority_class,
    up,
)

HOLD = 3
"""`holdSeconds` of the cluster."""
STAYS = 600
"""Seconds that a pod takes to end which a test lets go when it wants to."""
NODES = {f"{pool}{index}": {"pool": pool} for pool in "abcde" for index in (1, 2)} | {
    f"k{index}": {"pool": "k", "rack": f"rack{(index + 1) // 2}"} for index in (1, 2, 3, 4)
}
DELAY = "scheduling.reprieve.dev/preemption-delay"
EXPECTED_END = "scheduling.reprieve.dev/expected-end"
DEPLOYMENTS = "/apis/apps/v1/namespaces/{namespace}/deployments"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    directory = tmp_path_factory.mktemp("waiting")
    nodes = nodes_file(directory, *NODES, labels=NODES)
    args = {"holdSeconds": HOLD, "waitForCompletions": "10m"}
    config = preemption_config(directory, args)
    with up(directory, f"--nodes-file={nodes}", f"--config={config}") as running:
        for name, value in (("low", 100), ("middle", 500), ("high", 1000)):
            running.api.create(CLASSES, priority_class(name, value))
        yield running
        assert "Traceback" not in running.log.read_text(), running.log.read_text()


def full(name: str, pool: str, priority: str = "low", **more: object) -> Json:
    """A pod that takes a whole node of a pool."""
    made = pod(name, cpu="4", priority=priority, selector={"pool": pool}, **more)  # type: ignore[arg-type]
    return made


def saying(item: Json, **annotations: str) -> Json:
    item["metadata"].setdefault("annotations", {}).update(annotations)
    return item


def fill(cluster: Up, space: str, pool: str, *names: str, stop: float = 0) -> None:
    """Low pods on all nodes of a pool, running."""
    for name in names:
        cluster.api.create(PODS.format(namespace=space), full(name, pool, stop=stop))
    eventually(lambda: cluster.api.runs(*names, namespace=space), f"{names} running")


def named(name: str, check: Callable[[Json], bool] = lambda _: True) -> Callable[[Json], bool]:
    return lambda item: item["metadata"]["name"] == name and check(item)


def told(name: str, words: str) -> Callable[[Json], bool]:
    """The pod of that name says so in its condition."""
    return named(name, lambda item: words in condition(item, "PodScheduled").get("message", ""))


def node_of(history: History, name: str) -> str:
    """Where a pod runs, once it does."""
    node: list[str] = []

    def running(item: Json) -> bool:
        if is_running(item):
            node.append(item["spec"]["nodeName"])
        return bool(node)

    history.until(lambda: history.seen(named(name, running)), f"{name} running")
    return node[-1]


def web(version: int) -> Json:
    """A Deployment of one pod that takes a whole node, replaced in place; its pods end when they are let go."""
    template = full("unnamed", "a", "high", stop=STAYS)
    del template["metadata"]["name"]
    template["metadata"]["labels"] = {"app": "web"}
    template["spec"]["containers"][0]["image"] = f"web:{version}"
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
            "template": {"metadata": template["metadata"], "spec": template["spec"]},
        },
    }


def test_rolling_replacement_does_not_evict_others_while_its_predecessor_leaves(cluster: Up) -> None:
    """cost.md 5.6: the new ReplicaSet's pod takes the room of the old one's, though a low pod could be pushed out."""
    space = "rolling"
    path = cluster.workplace(space)
    api = cluster.api
    api.create(DEPLOYMENTS.format(namespace=space), web(1))

    def of(version: int) -> Callable[[Json], bool]:
        return lambda item: item["spec"]["containers"][0]["image"] == f"web:{version}"

    with api.history(path) as pods:
        pods.until(lambda: pods.seen(lambda item: of(1)(item) and is_running(item)), "the first version running")
        [old] = [item for item in api.pods(space).values() if of(1)(item)]
        fill(cluster, space, "a", "low")
        template = web(2)["spec"]["template"]
        api.patch(f"{DEPLOYMENTS.format(namespace=space)}/web", {"spec": {"template": template}})
        here = old["spec"]["nodeName"]
        pods.until(
            lambda: pods.seen(lambda item: of(2)(item) and item["status"].get("nominatedNodeName") == here),
            "the replacement nominated where its predecessor leaves",
        )
        api.delete(f"{path}/{old['metadata']['name']}?gracePeriodSeconds=0")
        pods.until(lambda: pods.seen(lambda item: of(2)(item) and is_running(item)), "the second version running")
        assert pods.seen(lambda item: of(2)(item) and item["spec"].get("nodeName") not in (None, here)) == set()
        assert pods.seen(is_preempted) == set()
    assert api.runs("low", namespace=space)


def test_delayed_preemptor_says_so_and_evicts_when_the_delay_is_over(cluster: Up) -> None:
    """cost.md 6.1: not before, by the API's own times; the scheduler wakes it."""
    space = "delayed"
    path = cluster.workplace(space)
    fill(cluster, space, "b", "low1", "low2")
    with cluster.api.history(path) as pods:
        made = cluster.api.create(path, saying(full("high", "b", "high"), **{DELAY: "4s"}))
        pods.until(lambda: pods.seen(told("high", "(preemption-delay 4s)")), "the delay told")
        preempted: list[Json] = []
        pods.until(
            lambda: pods.seen(lambda item: is_preempted(item) and not preempted.append(item)),  # type: ignore[func-returns-value]
            "a victim told",
        )
        node_of(pods, "high")
        assert len(pods.seen(is_preempted)) == 1
    when = datetime.fromisoformat(condition(preempted[0], "DisruptionTarget")["lastTransitionTime"])
    assert when - datetime.fromisoformat(made["metadata"]["creationTimestamp"]) >= timedelta(seconds=4)


def test_preemptor_with_a_delay_of_five_minutes_says_so_and_evicts_no_pods(cluster: Up, tmp_path: Path) -> None:
    space = "patient"
    path = cluster.workplace(space)
    fill(cluster, space, "c", "low1", "low2")
    with cluster.api.history(path) as pods:
        made = cluster.api.create(path, saying(full("high", "c", "high"), **{DELAY: "5m"}))
        until = datetime.fromisoformat(made["metadata"]["creationTimestamp"]) + timedelta(minutes=5)
        text = f"no pods are evicted before {until:%Y-%m-%dT%H:%M:%SZ} (preemption-delay 5m)"
        pods.until(lambda: pods.seen(told("high", text)), "the delay told")
        said = eventually(
            lambda: (
                found
                if "Its preemption-delay ends" in (found := cluster.explained("pod", "high", space, tmp_path))
                else ""
            ),
            "the record of it",
        )
        assert f"Its preemption-delay ends at {until:%Y-%m-%d %H:%M:%S} UTC" in said
        # Room that comes meanwhile is taken.
        cluster.api.delete(f"{path}/low1")
        node_of(pods, "high")
        assert pods.seen(is_preempted) == set()
    assert cluster.api.runs("low2", namespace=space)


def test_room_that_is_not_used_is_given_back_and_told(cluster: Up, tmp_path: Path) -> None:
    """cost.md 5.1, 5.2, 5.4: the cheapest victim does not go, its kubelet is silent; another one goes then."""
    space = "held"
    path = cluster.workplace(space)
    stuck = full("stuck", "d")
    stuck["spec"]["terminationGracePeriodSeconds"] = 1
    for item in (full("dear", "d", "middle"), stuck):
        cluster.api.create(path, item)
    eventually(lambda: cluster.api.runs("dear", "stuck", namespace=space), "both running")
    here = cluster.api.pods(space)["stuck"]["spec"]["nodeName"]
    cluster.api.patch(f"/api/v1/nodes/{here}", {"metadata": {"annotations": {"reprieve.dev/kubelet": "down"}}})
    events = EVENTS.format(namespace=space)
    with cluster.api.history(path) as pods, cluster.api.history(events) as seen:
        cluster.api.create(GROUPS.format(namespace=space), pod_group("train", 1, priority="high"))
        cluster.api.create(path, full("train-0", "d", "high", group="train"))
        pods.until(lambda: pods.seen(named("stuck", is_preempted)), "the stuck one told to go")
        note = f"Capacity reserved on {here} is released: it was reserved for {HOLD} s and not used"
        for kind in ("Pod", "PodGroup"):
            seen.until(partial(seen.seen, partial(_released, kind, note)), f"the release told on the {kind}")
        assert node_of(pods, "train-0") != here
        assert pods.seen(named("dear", is_preempted))
    said = f"The capacity reserved on {here} was released at"
    eventually(lambda: said in cluster.explained("podgroup", "train", space, tmp_path), "the record of it")


def _released(kind: str, note: str, event: Json) -> bool:
    return (event["reason"], event["regarding"]["kind"], event["note"]) == ("RoomReleased", kind, note)


def test_pod_about_to_end_is_waited_for(cluster: Up) -> None:
    """cost.md 6.3: no pods are evicted, nothing is held, and it runs when the other has ended."""
    space = "ending"
    path = cluster.workplace(space)
    fill(cluster, space, "e", "low")
    ends = f"{datetime.now(UTC) + timedelta(seconds=300):%Y-%m-%dT%H:%M:%SZ}"
    brief = saying(full("brief", "e"), **{EXPECTED_END: ends})
    brief["spec"]["restartPolicy"] = "Never"
    with cluster.api.history(path) as pods:
        cluster.api.create(path, brief)
        pods.until(lambda: pods.seen(named("brief", is_running)), "the brief one running")
        cluster.api.create(path, full("high", "e", "high"))
        text = f"waiting for pod {space}/brief to end by {ends}; no pods are evicted until then"
        pods.until(lambda: pods.seen(told("high", text)), "the wait told")
        cluster.api.patch(f"{path}/brief/status", {"status": {"phase": "Succeeded"}})
        node_of(pods, "high")
        assert pods.seen(is_preempted) == set()
        assert pods.seen(named("high", lambda item: bool(item["status"].get("nominatedNodeName")))) == set()
    assert cluster.api.runs("low", namespace=space)


def test_killed_scheduler_keeps_the_domain_and_evicts_no_others(cluster: Up) -> None:
    """cost.md 5.1, 5.5: kill -9 while the victims of one rack leave; the next one waits for the same rack."""
    space = "killed"
    path = cluster.workplace(space)
    fill(cluster, space, "k", "low1", "low2", "low3", "low4", stop=8)
    constraint = {"topology": [{"key": "rack"}]}
    with cluster.api.history(path) as pods:
        group = pod_group("train", 2, priority="high", schedulingConstraints=constraint)
        cluster.api.create(GROUPS.format(namespace=space), group)
        for name in ("train-0", "train-1"):
            cluster.api.create(path, full(name, "k", "high", group="train"))
        leaving = pods.until(
            lambda: (
                found
                if len(found := pods.seen(lambda item: is_preempted(item) and "deletionTimestamp" in item["metadata"]))
                == 2
                else set()
            ),
            "the victims leaving",
        )
        [scheduler] = cluster.children()
        os.kill(scheduler, signal.SIGKILL)
        racks = {NODES[node_of(pods, name)]["rack"] for name in ("train-0", "train-1")}
        assert len(racks) == 1
        assert pods.seen(is_preempted) == leaving
    assert cluster.children() != [scheduler]
