"""Pods of Volcano Jobs."""

from __future__ import annotations

from typing import Any

import pytest

from reprieve.simulation.plan import plan
from tests.simulation.test_workloads import loaded, made, pod


def volcano_job(least: int, tasks: dict[str, tuple[int, int | None]], cpu: str = "1") -> dict[str, Any]:
    """A Job of Volcano: of each task how many pods there are, and how many of them are needed, if it says so."""
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}
    entries = [
        {"name": name, "replicas": replicas, "template": template, **({} if need is None else {"minAvailable": need})}
        for name, (replicas, need) in tasks.items()
    ]
    spec = {"minAvailable": least, "tasks": entries}
    return made("batch.volcano.sh/v1alpha1", "Job", spec, uid="u-x")


@pytest.mark.parametrize(
    ("least", "tasks", "cpus", "placed"),
    [
        (3, {"ps": (1, 1), "worker": (4, 2)}, 2, 0),
        (3, {"ps": (1, 1), "worker": (4, 2)}, 4, 4),
        (3, {"ps": (1, None), "worker": (4, 2)}, 3, 3),
        (2, {"ps": (1, 1), "worker": (4, 2)}, 2, 2),  # more than the whole asks for: it counts alone
        (3, {"ps": (1, None), "worker": (4, None)}, 3, 3),
        (4, {"ps": (1, None), "worker": (4, 2)}, 3, 3),  # what the whole asks for beyond its tasks: 2.7, "Differs"
    ],
)
def test_tasks_of_a_volcano_job_have_minima_of_their_own(
    least: int, tasks: dict[str, tuple[int, int | None]], cpus: int, placed: int
) -> None:
    """whatif.md 2.9, workloads.md 2.7: as the PodGroup says that its controller makes."""
    node = made("v1", "Node", name="n1")
    node["status"] = {"allocatable": {"cpu": str(cpus), "pods": "20"}}
    answer = plan(loaded(node, volcano_job(least, tasks))).plan
    found = {pod.name for pod in answer.pods if pod.outcome == "Scheduled"}
    assert len(found) == placed
    if placed and sum(need if need is not None else count for count, need in tasks.values()) <= least:
        assert "x-ps-0" in found


@pytest.mark.parametrize("group", ["x", "x-u-x"], ids=["of the name that is given here", "of the controller's name"])
def test_missing_pods_of_a_running_volcano_job_are_placed_without_its_gang(group: str) -> None:
    """Its pods name their group, which is there although all that are needed run already."""
    node = made("v1", "Node", name="n1")
    node["status"] = {"allocatable": {"cpu": "4", "pods": "20"}}
    running = [pod(f"x-worker-{n}", ("batch.volcano.sh/v1alpha1", "Job", "x")) for n in range(2)]
    for one in running:
        one["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": group, "volcano.sh/task-spec": "worker"}
        one["spec"]["nodeName"] = "n1"
        one["status"] = {"phase": "Running"}
    for least, placed in ((2, 1), (3, 1), (5, 0)):
        job = volcano_job(least, {"worker": (5, None)}, cpu="3")
        answer = plan(loaded(node, job, *running)).plan
        assert [each.outcome for each in answer.pods].count("Scheduled") == placed
