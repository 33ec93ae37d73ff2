"""`queue`, `capacity`, `drain-plan` and `history` asked of a cluster that runs (whatif.md 6-9).

What they answer is computed on what the API shows, so it is the same however far the scheduler is with what waits.
What runs is waited for; what the scheduler has written of an eviction is there from some moment on and stays.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.e2e.cluster import (
    CLASSES,
    GROUPS,
    PODS,
    Json,
    Up,
    environment,
    eventually,
    nodes_file,
    pod,
    pod_group,
    priority_class,
    up,
)

SPACE = "default"
Ask = Callable[..., tuple[int, Json]]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """Three nodes of four cores: a gang has taken two of them from pods of lower priority, the third is empty."""
    directory = tmp_path_factory.mktemp("questions")
    with up(directory, f"--nodes-file={nodes_file(directory, 'n1', 'n2', 'n3')}") as running:
        api = running.api
        for name, value in (("low", 10), ("high", 1000)):
            api.create(CLASSES, priority_class(name, value))
        for name, node in (("a", "n1"), ("b", "n2")):
            api.create(PODS.format(namespace=SPACE), pod(name, cpu="4", priority="low", node=node))
        eventually(lambda: api.runs("a", "b"), "a and b running")
        api.create(GROUPS.format(namespace=SPACE), pod_group("train", 2, priority="high", mode="all"))
        for index in (1, 2):
            made = pod(f"train-{index}", cpu="4", priority="high", group="train", node=f"n{index}")
            api.create(PODS.format(namespace=SPACE), made)
        eventually(lambda: api.runs("train-1", "train-2") and api.gone("a", "b"), "the gang running in their place")
        # They wait for good, whether the scheduler has tried them or not.
        api.create(PODS.format(namespace=SPACE), pod("huge", cpu="64", priority="high"))
        api.create(GROUPS.format(namespace=SPACE), pod_group("half", 2, priority="low"))
        api.create(PODS.format(namespace=SPACE), pod("half-0", priority="low", group="half"))
        yield running
        assert "Traceback" not in running.log.read_text(), running.log.read_text()


@pytest.fixture
def ask(cluster: Up, tmp_path: Path) -> Ask:
    def asked(*arguments: str) -> tuple[int, Json]:
        command = [sys.executable, "-m", "reprieve", *arguments, f"--kubeconfig={cluster.kubeconfig}", "-o", "json"]
        done = subprocess.run(command, capture_output=True, text=True, env=environment(tmp_path), check=False)
        assert done.returncode in (0, 1), done.stderr
        return done.returncode, json.loads(done.stdout)

    return asked


def test_queue_of_a_cluster(ask: Ask) -> None:
    code, found = ask("queue", "-A")
    assert code == 0
    told = [(one["position"], one["name"], one["pods"], one["priority"], one["why"]) for one in found["items"]]
    assert told == [(1, "huge", 1, 1000, "Resources"), (2, "half", 1, 10, "Gated")]
    assert all(one["since"] for one in found["items"])


def test_capacity_of_a_cluster(ask: Ask, tmp_path: Path) -> None:
    """Pending pods are left out; running ones are in the way, and evicted for a higher priority only."""
    shape = tmp_path / "shape.yaml"
    for priority, more in (("high", 0), ("top", 2)):
        manifest = pod("new", cpu="3", priority=priority)
        shape.write_text(yaml.safe_dump_all([manifest, priority_class("top", 5000)]))
        _, found = ask("capacity", "--shape", str(shape))
        assert (found["now"], found["withPreemption"], found["largestGang"]) == (1, 1 + more, 1)
    _, found = ask("capacity", "--shape", str(shape), "--cordon", "n3")
    assert (found["now"], found["largestGang"]) == (0, 0)


def test_drains_of_a_cluster(ask: Ask) -> None:
    """The empty node first; the pod of the gang has no controller and is lost, and the gang with it is broken."""
    code, found = ask("drain-plan", "n1", "n3", "--fail-on-pending")
    assert code == 1
    first, second = found["nodes"]
    assert (first["name"], first["displaced"]) == ("n3", [])
    assert second["name"] == "n1"
    assert [(one["name"], one["outcome"]) for one in second["displaced"]] == [("train-1", "Lost")]
    assert [(one["name"], one["left"], one["minCount"]) for one in second["brokenGangs"]] == [("train", 1, 2)]
    assert ask("drain-plan", "n3", "--fail-on-pending")[0] == 0


def test_history_of_a_cluster(ask: Ask) -> None:
    def told() -> list[Json]:
        items: list[Json] = ask("history", "--since", "1h", "-A")[1]["items"]
        return [one for one in items if one["name"] == "train"]

    [item] = eventually(told, "the record of the eviction")
    assert (item["kind"], item["namespace"], item["priority"], item["pods"]) == ("PodGroup", SPACE, 1000, 2)
    assert sorted(victim["unit"] for victim in item["victims"]) == ["default/a", "default/b"]
    assert ask("history", "--since", "1h", "-n", "kube-system")[1]["items"] == []


def test_nothing_was_written_by_asking(cluster: Up, ask: Ask) -> None:
    def versions() -> list[tuple[str, str]]:
        nodes = cluster.api.items("/api/v1/nodes")
        return [(one["metadata"]["name"], json.dumps(one["spec"])) for one in nodes]

    before = versions()
    ask("drain-plan", "n1")
    ask("queue", "--drain", "n2")
    assert versions() == before
    assert cluster.api.runs("train-1", "train-2")
