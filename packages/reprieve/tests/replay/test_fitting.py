"""Nodes for a job list that comes without a cluster (replay.md 2.9)."""

from __future__ import annotations

from typing import Any

import pytest

from reprieve.replay.cluster_sizing import class_documents, fitting_nodes
from reprieve.replay.job_list import ReplayJob
from tests.replay.building import job

GIB = 1 << 30
GPU = "nvidia.com/gpu"


def fitted(*jobs: ReplayJob) -> tuple[int, dict[str, str]]:
    """How many nodes, and what each has."""
    nodes = fitting_nodes(jobs)
    (amounts,) = {tuple(node["status"]["allocatable"].items()) for node in nodes}
    assert all(node["status"]["capacity"] == node["status"]["allocatable"] for node in nodes)
    assert [node["metadata"]["name"] for node in nodes] == [f"node-{turn:04d}" for turn in range(len(nodes))]
    return len(nodes), dict(amounts)


@pytest.mark.parametrize(
    ("content", "number", "amounts"),
    [
        # at least 8 GPUs, 12 cores and 96 GiB each; more where a worker asks for more
        ({"gpu": 1}, 1, {"cpu": "96", "memory": "768Gi", "pods": "110", GPU: "8"}),
        ({"gpu": 8}, 1, {"cpu": "96", "memory": "768Gi", "pods": "110", GPU: "8"}),
        ({"gpu": 9}, 1, {"cpu": "108", "memory": "864Gi", "pods": "110", GPU: "9"}),
        ({"gpu": 1, "cpu": 96_001}, 1, {"cpu": "96001m", "memory": "768Gi", "pods": "110", GPU: "8"}),
        ({"gpu": 1, "memory": 768 * GIB + 1}, 1, {"cpu": "96", "memory": f"{768 * GIB + 1}", "pods": "110", GPU: "8"}),
        # as many as the largest job needs
        ({"gpu": 8, "workers": 3}, 3, {"cpu": "96", "memory": "768Gi", "pods": "110", GPU: "8"}),
        ({"gpu": 4, "workers": 3}, 2, {"cpu": "96", "memory": "768Gi", "pods": "110", GPU: "8"}),
        ({"gpu": 1, "workers": 8}, 1, {"cpu": "96", "memory": "768Gi", "pods": "110", GPU: "8"}),
        ({"gpu": 1, "workers": 9}, 2, {"cpu": "96", "memory": "768Gi", "pods": "110", GPU: "8"}),
        ({"gpu": 1, "workers": 4, "cpu": 48_000}, 2, {"cpu": "96", "memory": "768Gi", "pods": "110", GPU: "8"}),
        ({"gpu": 1, "workers": 4, "memory": 400 * GIB}, 4, {"cpu": "96", "memory": "768Gi", "pods": "110", GPU: "8"}),
        # parts of GPUs: in thousandths, with room for as many pods
        ({"gpu": 0.5}, 1, {"cpu": "96", "memory": "768Gi", "pods": "8000", "alibabacloud.com/gpu-milli": "8000"}),
        # without GPUs: 64 cores a node
        ({"gpu": 0}, 1, {"cpu": "64", "memory": "256Gi", "pods": "110"}),
        ({"gpu": 0, "cpu": 65_000}, 1, {"cpu": "65", "memory": "256Gi", "pods": "110"}),
        ({"gpu": 0, "workers": 110}, 1, {"cpu": "64", "memory": "256Gi", "pods": "110"}),
        ({"gpu": 0, "workers": 111}, 2, {"cpu": "64", "memory": "256Gi", "pods": "110"}),
    ],
)
def test_nodes_that_fit_one_job(content: dict[str, Any], number: int, amounts: dict[str, str]) -> None:
    assert fitted(job("j", 0, 100, **content)) == (number, amounts)


@pytest.mark.parametrize(
    ("works", "submits", "content", "number"),
    [
        # two jobs of 8 GPUs and 320 s each within 100 s: 640 of 80 useful seconds a node
        ((320, 320), (0, 100), {"gpu": 8}, 8),
        ((320, 321), (0, 100), {"gpu": 8}, 9),
        ((320, 320), (500, 600), {"gpu": 8}, 8),
        ((320, 320), (0, 200), {"gpu": 8}, 4),
        # a job that never ends works all the time
        ((None, None), (0, 100), {"gpu": 8}, 3),
        # all at once: no mean
        ((320, 320), (0, 0), {"gpu": 8}, 1),
        # by cores where no job asks for GPUs
        ((320, 320), (0, 100), {"gpu": 0, "cpu": 64_000}, 8),
        ((320, 320), (0, 100), {"gpu": 0, "cpu": 32_000, "workers": 2}, 8),
        ((None, 240), (0, 100), {"gpu": 0, "cpu": 64_000}, 5),
        ((1, 1), (0, 100), {"gpu": 8, "workers": 3}, 3),
    ],
)
def test_mean_use_is_80_percent(
    works: tuple[float | None, float | None], submits: tuple[float, float], content: dict[str, Any], number: int
) -> None:
    """Of the work, from the first submit to the last."""
    jobs = (
        job(f"j{at}", submit, work, **content) for at, (submit, work) in enumerate(zip(submits, works, strict=True))
    )
    assert fitted(*jobs)[0] == number


def test_each_first_choice_of_a_model_has_nodes_of_its_own() -> None:
    jobs = [
        job("a", 0, 1, models=("T4", "V100")),
        job("b", 0, 1, models=("V100",), workers=2, gpu=8),
        job("c", 0, 1),
        job("d", 0, 1, gpu=0),
    ]
    nodes = fitting_nodes(jobs)
    found = [
        (each["metadata"]["name"], each["metadata"].get("labels"), GPU in each["status"]["capacity"]) for each in nodes
    ]
    model = "gpu-model"
    assert found == [
        ("node-0000", None, False),
        ("node-0001", None, True),
        ("node-0002", {model: "T4"}, True),
        ("node-0003", {model: "V100"}, True),
        ("node-0004", {model: "V100"}, True),
    ]


@pytest.mark.parametrize(("racked", "other", "racks"), [(2, 17, [8, 8, 1]), (8, 1, [8]), (9, 1, [9]), (9, 17, [9, 8])])
def test_nodes_of_a_topology_hold_the_largest_job_that_asks_for_it(racked: int, other: int, racks: list[int]) -> None:
    jobs = [job("a", 0, 1, gpu=8, workers=racked, topology_key="rack"), job("b", 0, 1, gpu=8, workers=other)]
    labels = [node["metadata"]["labels"]["rack"] for node in fitting_nodes(jobs)]
    assert labels == [f"rack-{turn:03d}" for turn, size in enumerate(racks) for _ in range(size)]


def test_classes_are_those_with_a_value_the_highest_first() -> None:
    classes = {"low": 1, "b": 5, "a": 5, "none": None, "zero": 0}
    jobs = [job(name, 0, 1, priority_class=name, priority=value) for name, value in classes.items()]
    jobs.append(job("again", 0, 1, priority_class="low", priority=7))
    jobs.append(job("plain", 0, 1, priority=9))
    made = [(each["metadata"]["name"], each["value"]) for each in class_documents(jobs)]
    assert made == [("a", 5), ("b", 5), ("low", 1), ("zero", 0)]
