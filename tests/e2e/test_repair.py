"""Gangs that lost members, with `reprieve up`, over the end of the scheduler (repair.md 2, 3, 4)."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import yaml

from tests.e2e.cluster import (
    EVENTS,
    GROUPS,
    Json,
    condition,
    eventually,
    is_running,
    nodes_file,
    pod,
    pod_group,
    up,
)

SPACE = "repair"
NODES = ("n1", "n2", "n3")
POLICY = "scheduling.reprieve.dev/recovery-policy"


def _satisfied(status: str, message: str, item: Json) -> bool:
    found = condition(item, "PodGroupSatisfied")
    return bool(found.get("status") == status and found["message"] == message)


def _running(name: str, node: str, item: Json) -> bool:
    return bool(item["metadata"]["name"] == name and is_running(item) and item["spec"]["nodeName"] == node)


def _nominated(name: str, node: str, item: Json) -> bool:
    return bool(item["metadata"]["name"] == name and item["status"].get("nominatedNodeName") == node)


def test_lost_members_get_their_nodes_back_over_the_end_of_the_scheduler(tmp_path: Path) -> None:
    """What waits longer does not get them; PodGroupSatisfied follows; Restart frees what is left (repair.md 2-4)."""
    args = [{"name": "GangScheduling", "args": {"degradedSeconds": 5}}]
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump({**kind, "profiles": [{"pluginConfig": args}]}))
    with up(tmp_path, f"--nodes-file={nodes_file(tmp_path, *NODES)}", f"--config={config}") as cluster:
        path, api, groups = cluster.workplace(SPACE), cluster.api, GROUPS.format(namespace=SPACE)
        with (
            api.history(path) as pods,
            api.history(groups) as states,
            api.history(EVENTS.format(namespace=SPACE)) as events,
        ):

            def reports(status: str, message: str) -> None:
                states.until(partial(states.seen, partial(_satisfied, status, message)), f"{status}: {message}")

            api.create(groups, pod_group("train", 3))
            members = {f"train-{i}": api.create(path, pod(f"train-{i}", cpu="4", group="train")) for i in range(3)}
            reports("True", "3 of 3 members scheduled")
            nodes = {name: api.pods(SPACE)[name]["spec"]["nodeName"] for name in members}
            for name in ("other", "second"):
                api.create(path, pod(name, cpu="4"))

            # one is lost: its replacement is placed by one attempt, although others have waited for longer
            api.delete(f"{path}/train-0")
            reports("False", "2 of 3 members scheduled")
            events.until(lambda: events.seen(lambda event: event["reason"] == "CapacityKept"), "capacity kept")
            api.create(path, pod("train-3", cpu="4", group="train"))
            pods.until(partial(pods.seen, partial(_running, "train-3", nodes["train-0"])), "train-3 in its place")
            eventually(
                lambda: condition(api.group("train", SPACE) or {}, "PodGroupSatisfied")["status"] == "True", "healed"
            )
            assert not api.runs("other", namespace=SPACE)

            # two are lost and one is replaced when the scheduler is killed: the next one keeps what the API has
            for name in ("train-1", "train-2"):
                api.delete(f"{path}/{name}")
            reports("False", "1 of 3 members scheduled")
            pods.until(lambda: len(api.pods(SPACE)) == 3, "both gone")
            api.create(path, pod("train-1", cpu="4", group="train"))
            pods.until(partial(pods.seen, partial(_nominated, "train-1", nodes["train-1"])), "train-1 nominated")
            cluster.kill_scheduler()
            pods.until(partial(pods.seen, partial(_running, "other", nodes["train-2"])), "the other place is free")
            assert (api.pod("train-1", SPACE) or {})["status"].get("nominatedNodeName") == nodes["train-1"]
            assert not api.runs("second", namespace=SPACE)

            # its policy gives back what the rest of it holds
            api.patch(f"{groups}/train", {"metadata": {"annotations": {POLICY: "Restart"}}})
            events.until(lambda: events.seen(lambda event: event["reason"] == "GangRestarted"), "restarted")
            pods.until(lambda: api.runs("other", "second", namespace=SPACE), "the gang's capacity serves others")
            reports("False", "0 of 3 members scheduled")
            told = cluster.explained("podgroup", "train", SPACE, tmp_path)  # its record: repair.md 4.5
            assert "Why it was evicted: " in told
            assert f"and {POLICY}: Restart." in told
        assert "Traceback" not in cluster.log.read_text(), cluster.log.read_text()
