"""What a scheduler did before it was killed still counts after it, with `reprieve up` (cost.md 9.4, moving.md 4.6,
reservations.md 4.5).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
import yaml

from tests.e2e.cluster import (
    CLASSES,
    GROUPS,
    Up,
    condition,
    eventually,
    is_leaving,
    is_preempted,
    is_running,
    nodes_file,
    pod,
    pod_group,
    priority_class,
    up,
)

NODES = {name: {"space": space} for space, names in (("limits", "abc"), ("backfill", "de")) for name in names}
STAYS = 600
"""Seconds that a pod takes to end which a test lets go when the next scheduler has heard of it."""
ANNOTATIONS = {"scheduling.reprieve.dev/expected-runtime": "1h"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    directory = tmp_path_factory.mktemp("after-restart")
    args = [
        {
            "name": "DefaultPreemption",
            "args": {"holdSeconds": 1, "evictionLimits": [{"per": "namespace", "most": 1, "within": "1h"}]},
        },
        {"name": "Reservations", "args": {"reserveAfter": "1s", "backfillOverrun": "Evict"}},
    ]
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config = directory / "config.yaml"
    config.write_text(yaml.safe_dump({**kind, "profiles": [{"pluginConfig": args}]}))
    nodes = nodes_file(directory, *NODES, labels=NODES)
    data = str(directory / "data")
    with up(directory, f"--nodes-file={nodes}", f"--config={config}", data_dir=data) as running:
        running.api.create(CLASSES, priority_class("high", 100))
        yield running
        assert "Traceback" not in running.log.read_text(), running.log.read_text()


def test_evictions_of_before_count_for_limits(cluster: Up) -> None:
    """cost.md 9.4: a limit of one eviction holds after kill -9 in the middle of that eviction."""
    path, api = cluster.workplace("limits"), cluster.api
    there = {"space": "limits"}
    for name in ("low-0", "low-1", "low-2"):
        api.create(path, pod(name, cpu="4", selector=there, stop=STAYS))
    eventually(lambda: api.runs("low-0", "low-1", "low-2", namespace="limits"), "the nodes full")
    with api.history(path) as pods:
        api.create(path, pod("first", cpu="4", priority="high", selector=there))
        pods.until(partial(pods.seen, is_leaving), "a victim")
        [victim] = [name for name, item in api.pods("limits").items() if is_leaving(item)]
        cluster.kill_scheduler()
        cluster.heard(api.get(f"{path}/{victim}"))
        api.delete(f"{path}/{victim}?gracePeriodSeconds=0")
        eventually(lambda: api.runs("first", namespace="limits"), "the first one running")
        api.create(path, pod("second", cpu="4", priority="high", selector=there))
        text = "protected by eviction limits"
        eventually(
            lambda: text in condition(api.pods("limits")["second"], "PodScheduled").get("message", ""), "the limit"
        )
        assert len(pods.seen(is_preempted)) == 1


def test_backfilled_pod_that_overstays_is_evicted_by_the_next_scheduler(cluster: Up) -> None:
    """reservations.md 4.5: the binding has annotated the pod, so that kill -9 is no way to stay."""
    path, api = cluster.workplace("backfill"), cluster.api
    there = {"space": "backfill"}
    api.create(path, pod("long", cpu="4", selector=there, annotations=ANNOTATIONS))
    eventually(lambda: api.runs("long", namespace="backfill"), "the first node full")
    api.create(GROUPS.format(namespace="backfill"), pod_group("train", 2))
    for name in ("train-0", "train-1"):
        api.create(path, pod(name, cpu="4", group="train", selector=there))
    eventually(
        lambda: all(api.pods("backfill")[name]["status"].get("nominatedNodeName") for name in ("train-0", "train-1")),
        "the reservation",
    )
    brief = {"scheduling.reprieve.dev/expected-runtime": "4s"}
    with api.history(path) as pods:
        api.create(path, pod("brief", cpu="4", selector=there, annotations=brief))
        eventually(lambda: api.runs("brief", namespace="backfill"), "the brief one running")
        assert "scheduling.reprieve.dev/backfilled-until" in api.pods("backfill")["brief"]["metadata"]["annotations"]
        cluster.kill_scheduler()
        api.delete(f"{path}/long")
        eventually(lambda: api.runs("train-0", "train-1", namespace="backfill"), "the gang running")
        assert pods.seen(lambda item: item["metadata"]["name"] == "brief" and is_preempted(item))
        assert api.gone("brief", namespace="backfill")
        assert not pods.seen(lambda item: item["metadata"]["name"] == "long" and is_preempted(item))
    assert is_running(api.pods("backfill")["train-0"])
