"""Reservations for long-pending workloads, with `reprieve up`, over the end of the scheduler (reservations.md 3, 6)."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml

from tests.e2e.cluster import (
    EVENTS,
    GROUPS,
    Json,
    Up,
    condition,
    eventually,
    is_running,
    nodes_file,
    pod,
    pod_group,
    up,
)

SPACE = "reserved"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    directory = tmp_path_factory.mktemp("reservations")
    args = [
        {"name": "Reservations", "args": {"reserveAfter": "2s"}},
        {"name": "DefaultPreemption", "args": {"holdSeconds": 1}},
    ]
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config = directory / "config.yaml"
    config.write_text(yaml.safe_dump({**kind, "profiles": [{"pluginConfig": args}]}))
    with up(directory, f"--nodes-file={nodes_file(directory, 'n1', 'n2')}", f"--config={config}") as running:
        yield running
        assert "Traceback" not in running.log.read_text(), running.log.read_text()


def _is(name: str, item: Json) -> bool:
    return bool(item["metadata"]["name"] == name)


def _nominated(name: str, node: str, item: Json) -> bool:
    return _is(name, item) and item["status"].get("nominatedNodeName") == node


def _running(name: str, item: Json) -> bool:
    return _is(name, item) and is_running(item)


def _refused(name: str, item: Json) -> bool:
    return _is(name, item) and condition(item, "PodScheduled").get("reason") == "Unschedulable"


def _reserved(event: Json) -> bool:
    return bool(event["reason"] == "CapacityReserved" and event["note"].startswith("Capacity reserved on n"))


def test_gang_holds_its_nodes_over_the_end_of_the_scheduler_and_starts(cluster: Up, tmp_path: Path) -> None:
    """kill -9 while a gang holds a reservation: the next scheduler goes on with it (reservations.md 1.2, 3.1, 3.6)."""
    path = cluster.workplace(SPACE)
    api = cluster.api
    for name in ("long1", "long2"):
        api.create(path, pod(name, cpu="4"))
    eventually(lambda: api.runs("long1", "long2", namespace=SPACE), "both running")
    with api.history(path) as pods, api.history(EVENTS.format(namespace=SPACE)) as events:
        api.create(GROUPS.format(namespace=SPACE), pod_group("train", 2))
        for name in ("train-0", "train-1"):
            api.create(path, pod(name, cpu="4", group="train"))
        for name, node in (("train-0", "n1"), ("train-1", "n2")):
            pods.until(partial(pods.seen, partial(_nominated, name, node)), f"{name} nominated")
        events.until(partial(events.seen, _reserved), "the reservation reported")
        said = "Capacity is reserved for it on n1, n2: when 2 pods on n1, n2 have ended"
        eventually(lambda: said in cluster.explained("podgroup", "train", SPACE, tmp_path), "the record of it")
        [scheduler] = cluster.children()
        os.kill(scheduler, signal.SIGKILL)
        eventually(lambda: cluster.children() not in ([], [scheduler]), "another scheduler")
        api.delete(f"{path}/long1")
        api.create(path, pod("small", cpu="1"))
        pods.until(partial(pods.seen, partial(_refused, "small")), "the small one refused")
        assert not api.runs("small", namespace=SPACE)
        assert {name: api.pods(SPACE)[name]["status"].get("nominatedNodeName") for name in ("train-0", "train-1")} == {
            "train-0": "n1",
            "train-1": "n2",
        }
        api.delete(f"{path}/long2")
        for name in ("train-0", "train-1"):
            pods.until(partial(pods.seen, partial(_running, name)), f"{name} running")
        assert not pods.seen(partial(_running, "small"))
