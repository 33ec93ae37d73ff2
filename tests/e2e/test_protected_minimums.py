"""A gang with `below-minimum: Protect`, with `reprieve up`, over ends of the scheduler (cost.md 2.9)."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from tests.e2e.cluster import (
    CLASSES,
    GROUPS,
    condition,
    eventually,
    is_leaving,
    is_preempted,
    nodes_file,
    pod,
    pod_group,
    priority_class,
    up,
)

SPACE = "protect"
DOMAIN = "scheduling.reprieve.dev/"
PROTECTED = "2 workloads are protected by below-minimum: Protect"


def test_gang_keeps_its_minimum_over_ends_of_the_scheduler(tmp_path: Path) -> None:
    """Its surplus is evicted once, its minimum not before the annotation is gone."""
    with up(tmp_path, f"--nodes-file={nodes_file(tmp_path, 'n1', 'n2', 'n3')}") as cluster:
        path, api, groups = cluster.workplace(SPACE), cluster.api, GROUPS.format(namespace=SPACE)
        batch = priority_class("batch", 0)
        batch["metadata"]["annotations"] = {f"{DOMAIN}max-protected-priority": "100"}
        api.create(CLASSES, batch)
        api.create(CLASSES, priority_class("high", 100))
        crew = pod_group("crew", 2, priority="batch")
        crew["metadata"]["annotations"] = {f"{DOMAIN}below-minimum": "Protect"}
        api.create(groups, crew)
        for i in range(3):
            api.create(path, pod(f"crew-{i}", cpu="4", group="crew", priority="batch", stop=5))  # longer than a start
        eventually(lambda: api.runs("crew-0", "crew-1", "crew-2", namespace=SPACE), "the nodes full")

        def refused(name: str) -> bool:
            return PROTECTED in condition(api.pods(SPACE)[name], "PodScheduled").get("message", "")

        with api.history(path) as pods:
            api.create(path, pod("first", cpu="4", priority="high"))
            pods.until(partial(pods.seen, is_leaving), "a victim")
            api.create(path, pod("second", cpu="4", priority="high"))
            cluster.kill_scheduler()  # the surplus is on its way, and two members are left
            eventually(lambda: api.runs("first", namespace=SPACE), "the first one running")
            eventually(lambda: refused("second"), "the second one refused")
            cluster.kill_scheduler()  # two members are left, and one preemptor waits
            api.create(path, pod("third", cpu="4", priority="high"))
            eventually(lambda: refused("third"), "the third one refused by the next scheduler")
            assert len(pods.seen(is_preempted)) == 1
            assert refused("second")
            api.patch(f"{groups}/crew", {"metadata": {"annotations": {f"{DOMAIN}below-minimum": None}}})
            eventually(lambda: api.runs("second", "third", namespace=SPACE), "the others in place of the rest")
            assert len(pods.seen(is_preempted)) == 3
        assert "Traceback" not in cluster.log.read_text(), cluster.log.read_text()
