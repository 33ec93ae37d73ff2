"""Moves of running pods, with `reprieve up`, over the end of the scheduler (moving.md 4)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.cluster import (
    PODS,
    Json,
    Up,
    condition,
    eventually,
    is_leaving,
    is_running,
    nodes_file,
    pod,
    preemption_config,
    up,
)

PAIRS = {"n1": {"pair": "a"}, "n2": {"pair": "a"}, "n3": {"pair": "b"}, "n4": {"pair": "b"}}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    directory = tmp_path_factory.mktemp("moves")
    config = preemption_config(directory, {"moving": "Move"})
    nodes = nodes_file(directory, *PAIRS, labels=PAIRS)
    with up(directory, f"--nodes-file={nodes}", f"--config={config}") as running:
        yield running
        assert "Traceback" not in running.log.read_text(), running.log.read_text()


def _replica_set(pair: str) -> Json:
    """One pod of one CPU that may move."""
    labels = {"app": "small"}
    template = {
        "metadata": {"labels": labels, "annotations": {"scheduling.reprieve.dev/movable": "true"}},
        "spec": pod("any", cpu="1", selector={"pair": pair}, stop=0.5)["spec"],
    }
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "small"}, "spec": spec}


def _node_of(cluster: Up, space: str) -> str | None:
    """Return where the small pod runs; None: it does not."""
    there = [
        str(item["spec"]["nodeName"])
        for item in cluster.api.pods(space).values()
        if item["metadata"]["name"].startswith("small") and is_running(item)
        if "deletionTimestamp" not in item["metadata"]
    ]
    return there[0] if len(there) == 1 else None


def _refused(name: str, item: Json) -> bool:
    return bool(item["metadata"]["name"] == name and condition(item, "PodScheduled").get("reason") == "Unschedulable")


def _nominated(name: str, item: Json) -> bool:
    return bool(item["metadata"]["name"] == name and item["status"].get("nominatedNodeName"))


def _scatter(cluster: Up, pair: str) -> tuple[str, str]:
    """Make a pod of one CPU run on the first node of a pair, in the way of a whole node, and a place on the other."""
    path, api = cluster.workplace(pair), cluster.api
    first, second = sorted(name for name, labels in PAIRS.items() if labels["pair"] == pair)
    api.create(path, pod("tune", cpu="3", node=second))
    api.create(path, pod("fill", cpu="1", node=second))
    eventually(lambda: api.runs("tune", "fill", namespace=pair), "the node full")
    api.create(f"/apis/apps/v1/namespaces/{pair}/replicasets", _replica_set(pair))
    eventually(lambda: _node_of(cluster, pair) == first, "the small pod running")
    api.delete(f"{path}/fill")
    eventually(lambda: api.gone("fill", namespace=pair), "place for it elsewhere")
    return first, second


def _reports_move(where: str, item: Json) -> bool:
    """Return whether a pod that runs on this node has the condition of a move."""
    return item["spec"].get("nodeName") == where and bool(condition(item, "scheduling.reprieve.dev/Moved"))


@pytest.mark.parametrize(("pair", "killed"), [("a", False), ("b", True)])
def test_pod_moves_and_the_pending_one_starts(cluster: Up, pair: str, killed: bool) -> None:
    """moving.md 4.1, 4.4, 4.6: with the scheduler killed in the middle, too."""
    first, second = _scatter(cluster, pair)
    path, api = PODS.format(namespace=pair), cluster.api
    with api.history(path) as pods:
        api.create(path, pod("train", cpu="4", selector={"pair": pair}))
        pods.until(partial(pods.seen, partial(_nominated, "train")), "the place reserved")
        if killed:
            cluster.kill_scheduler()
    eventually(lambda: api.runs("train", namespace=pair), "the large pod running")
    eventually(lambda: _node_of(cluster, pair) == second, "the small pod running elsewhere")
    assert api.pods(pair)["train"]["spec"]["nodeName"] == first
    if not killed:
        eventually(lambda: cluster.metric("reprieve_moves_total", result="moved") == 1, "the move counted")
        assert cluster.metric("reprieve_moves_total", result="lost") == 0


@pytest.mark.parametrize("at", ["leaving", "moved"])
def test_moves_of_before_count_for_the_hour(tmp_path: Path, at: str) -> None:
    """moving.md 4.5, 4.6: a limit of one move holds after kill -9, without a file of records: pods tell of moves."""
    config = preemption_config(tmp_path, {"moving": "Move", "movesPerHour": 1})
    nodes = nodes_file(tmp_path, *PAIRS, labels=PAIRS)
    with up(tmp_path, f"--nodes-file={nodes}", f"--config={config}") as cluster:
        first, second = _scatter(cluster, "a")
        api, path = cluster.api, PODS.format(namespace="a")
        with api.history(path) as pods:
            api.create(path, pod("train", cpu="4", selector={"pair": "a"}))
            pods.until(partial(pods.seen, is_leaving), "the small pod leaving")
            if at == "moved":
                eventually(lambda: cluster.metric("reprieve_moves_total", result="moved") == 1, "the move counted")
                api.delete(f"{path}/train")
                eventually(lambda: api.gone("train", namespace="a"), "the large pod gone")
            cluster.kill_scheduler()
        eventually(lambda: _node_of(cluster, "a") == second, "the small pod running elsewhere")
        first, _ = _scatter(cluster, "b")
        path = PODS.format(namespace="b")
        with api.history(path) as pods:
            api.create(path, pod("train", cpu="4", selector={"pair": "b"}))
            refused = partial(_refused, "train")
            pods.until(partial(pods.seen, refused), "the large pod refused")
            assert not pods.seen(partial(_nominated, "train"))
        assert _node_of(cluster, "b") == first
