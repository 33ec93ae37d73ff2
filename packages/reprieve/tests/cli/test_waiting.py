"""Waiting explained in `plan`: with the sentences of `explain`, the scarcest resource first (observability.md)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import manifests
from tests.cli.conftest import Run
from tests.manifests import gang, pod

GPU = "nvidia.com/gpu"
Json = dict[str, Any]


def node(name: str, cpu: int = 64, gpu: int = 8, **more: Any) -> Json:
    return manifests.node(name, cpu, gpu, memory="80Gi", pods=10, **more)


@pytest.fixture
def planned(run: Run, tmp_path: Path) -> Any:
    """`planned(object, ...)` -> the text and the document."""

    def planned(*objects: Json) -> tuple[str, Json]:
        file = tmp_path / "a.yaml"
        file.write_text(yaml.safe_dump_all(objects))
        text, document = run("plan", "-f", file), run("plan", "-f", file, "-o", "json")
        assert (text.code, document.code) == (0, 0)
        return text.out, json.loads(document.out)

    return planned


FULL = (node("n1"), pod("old", 32, 8, node="n1", priority=100))


def test_scarcest_resource_of_a_victim_comes_first_and_all_are_in_the_document(planned: Any) -> None:
    """32 of 64 CPU are missing, but all 8 of 8 GPUs."""
    text, plan = planned(node("n1"), pod("low", 32, 8, node="n1"), pod("high", 64, 8, priority=5))
    assert (
        "why: if it stayed, default/high would not fit on n1: "
        f"Insufficient {GPU} (8 short), Insufficient cpu (32 short)\n"
    ) in text
    assert f"  8 {GPU} freed, 8 needed.\n" in text
    (preemption,) = plan["preemptions"]
    (victim,) = preemption["victims"]
    assert list(victim["why"]["missing"].items()) == [(GPU, "8"), ("cpu", "32")]
    assert (victim["why"]["pod"], victim["why"]["nodeName"]) == ("default/high", "n1")
    assert list(preemption["needed"].items()) == [(GPU, "8"), ("cpu", "64")]
    assert preemption["freed"] == {GPU: "8", "cpu": "32"}


def test_freed_and_needed_amounts_of_a_gang_are_totals(planned: Any) -> None:
    objects = [node("n1"), node("n2"), gang("g", 2, priority=5)]
    objects += [pod(f"low{number}", 1, 4, node=f"n{number % 2 + 1}") for number in range(4)]
    objects += [pod(f"g{number}", 2, 8, priority=5, group="g") for number in range(2)]
    text, plan = planned(*objects)
    assert f"  16 {GPU} freed, 16 needed.\n" in text
    assert plan["preemptions"][0]["freed"][GPU] == "16"


def test_waiting_gang_is_explained(planned: Any) -> None:
    more = (node("n2"), pod("old2", 32, 8, node="n2", priority=100))
    text, plan = planned(
        *FULL,
        *more,
        gang("g", 2, priority=5),
        *(pod(f"g{number}", 64, 8, priority=5, group="g") for number in range(2)),
    )
    assert "pod group is unschedulable" not in text
    assert (
        "      0 of 2 pods fit when tried together. They fit on 0 of 2 nodes: "
        f"2 Insufficient {GPU}, 2 Insufficient cpu.\n"
    ) in text
    sentence = (
        f"Free 8 more {GPU} and 32 more cpu on n1 or n2, where the shortage is smallest: 2 more pods must be placed."
    )
    assert f"      would help: {sentence}\n" in text
    (group,) = plan["podGroups"]
    (help,) = (help for help in group["help"] if help["kind"] == "Free")
    assert (help["kind"], help["resource"], help["amount"], help["nodes"]) == ("Free", GPU, "8", 2)
    assert list(help["missing"].items()) == [(GPU, "8"), ("cpu", "32")]
    assert help["sentence"] == sentence


@pytest.mark.parametrize(
    ("running", "size", "expected"),
    [
        ((), 9, ["No running pods could be evicted."]),
        ((5,), 8, ["No running pods have a priority below 5: the lowest is 5."]),
        (
            (1,),
            8,
            [
                "Even with everything of lower priority evicted (1 workload, 1 pod), only 1 of its pods would fit; it "
                "needs 2.",
                f"Even then, default/g1 would fit on 0 of 1 node: 1 Insufficient {GPU}.",
            ],
        ),
    ],
)
def test_waiting_gang_lists_potential_victims_that_did_not_help(
    planned: Any, running: tuple[int, ...], size: int, expected: list[str]
) -> None:
    """The sentences of `explain`: a plan without evictions says why (preemption.md 2)."""
    there = [pod(f"old{number}", 1, 8, node="n1", priority=priority) for number, priority in enumerate(running)]
    members = [pod(f"g{number}", 1, size, priority=5, group="g") for number in range(2)]
    text, _ = planned(node("n1"), *there, gang("g", 2, priority=5), *members)
    for sentence in expected:
        assert f"      {sentence}\n" in text


def test_gang_kept_waiting_by_pod_order_alone_is_explained(planned: Any) -> None:
    """scheduling.md 3.9: the small pod takes room on the large node, and the large one finds none."""
    large, small = node("n1"), node("n2")
    small["status"]["allocatable"][GPU] = "4"
    members = [pod("g0", 1, 4, group="g"), pod("g1", 1, 8, group="g")]
    large["status"]["allocatable"]["cpu"] = "640"  # the emptier of the two
    text, _ = planned(large, small, gang("g", 2), *members)
    assert "A placement may exist: pods are tried one after another" in text
    assert "GangScheduling with treeSearch: Retry tries other orders." in text


def test_waiting_pod_is_explained(planned: Any) -> None:
    text, plan = planned(*FULL, pod("new", 64, 8))
    sentence = f"Free 8 more {GPU} and 32 more cpu on n1, where the shortage is smallest."
    assert f"      would help: {sentence}\n" in text
    assert [(help["kind"], help["sentence"]) for help in plan["pods"][0]["help"]] == [
        ("Nodes", "Add 1 more node like n1 (--add-nodes 1 --like n1)."),
        ("Free", sentence),
        (
            "Priority",
            "Set a priority of 101 or more (it has 0): it could then preempt (--set-priority default/pod/new=101).",
        ),
        ("Workload", "End or remove default/pod/old with its 1 pod (--without default/pod/old)."),
    ]


def test_smaller_min_count_that_would_start_a_gang_is_suggested(planned: Any) -> None:
    text, plan = planned(node("n1", gpu=8), gang("g", 3), *(pod(f"g{number}", 1, 4, group="g") for number in range(3)))
    assert "2 of 3 pods fit when tried together." in text
    kinds = {help["kind"]: help for help in plan["podGroups"][0]["help"]}
    assert kinds["MinCount"]["minCount"] == 2
    assert "Free" not in kinds, "its own members take what there is"


@pytest.mark.parametrize(
    ("objects", "kind", "expected"),
    [
        ([node("n1", gpu=2), pod("new", 1, 4)], "Node", f"Add a node with 4 {GPU}: a pod requests that much"),
        ([node("n1", unschedulable=True), pod("new", 1, 1)], "Uncordon", "Uncordon 1 node"),
        (
            [node("n1", taints=[{"key": "a", "effect": "NoSchedule"}]), pod("new", 1, 1)],
            "Toleration",
            "Tolerate the taints of 1 node",
        ),
    ],
    ids=["too large for any node", "cordoned", "tainted"],
)
def test_suggestions_listed(planned: Any, objects: list[Json], kind: str, expected: str) -> None:
    text, plan = planned(*objects)
    (help,) = (help for help in plan["pods"][0]["help"] if help["kind"] == kind)
    assert expected in help["sentence"]
    assert f"would help: {expected}" in text


def test_placed_pod_has_no_suggestions(planned: Any) -> None:
    text, plan = planned(node("n1"), gang("g", 1), pod("g0", 1, 1, group="g"), pod("single", 1, 1))
    assert "would help" not in text
    assert [found["help"] for found in (*plan["pods"], *plan["podGroups"])] == [[], [], []]


def test_deadline_of_a_job_in_the_files_is_waited_for(run: Run, tmp_path: Path) -> None:
    """cost.md 6.4: from the Job's start, with the grace period of its pod."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u", "controller": True}
    worker = pod("train-abc", 64, 0, node="n1")
    worker["metadata"]["ownerReferences"] = [owner]
    worker["spec"]["terminationGracePeriodSeconds"] = 5
    worker["status"] = {"phase": "Running", "startTime": "2026-01-01T00:01:00Z"}
    urgent = pod("urgent", 64, 0, priority=100)
    urgent["metadata"]["creationTimestamp"] = "2026-01-01T00:05:00Z"
    container = {"name": "c", "image": "i:1", "resources": {"requests": {"cpu": "64"}}}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {"activeDeadlineSeconds": 600, "template": {"spec": {"containers": [container]}}},
        "status": {"startTime": "2026-01-01T00:00:00Z", "active": 1},
    }
    profile = {"pluginConfig": [{"name": "DefaultPreemption", "args": {"waitForCompletions": "30m"}}]}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    for documents, waits in (([node("n1"), worker, urgent, job], True), ([node("n1"), worker, urgent], False)):
        (tmp_path / "in.yaml").write_text(yaml.safe_dump_all(documents))
        found = run("plan", "-f", tmp_path / "in.yaml", "--config", tmp_path / "config.yaml", "-o", "json")
        assert found.code == 0
        answer = json.loads(found.out)
        assert bool(answer["preemptions"]) is not waits
        if waits:
            (waited,) = answer["putOff"]
            assert (waited["until"], waited["pods"]) == (pytest.approx(303.0, abs=2), ["default/train-abc"])


@pytest.mark.parametrize("deadline", [600, None])
def test_deadline_of_a_job_that_a_step_creates_is_waited_for(run: Run, tmp_path: Path, deadline: int | None) -> None:
    """cost.md 6.4: of a step of a scenario as of the files; without one its end is unknown."""
    container = {"name": "c", "image": "i:1", "resources": {"requests": {"cpu": "64"}}}
    pods = {"terminationGracePeriodSeconds": 5, "restartPolicy": "Never", "containers": [container]}
    spec: dict[str, Any] = {"template": {"spec": pods}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}, "spec": spec}
    spec |= {"activeDeadlineSeconds": deadline} if deadline is not None else {}
    steps = [{"create": [job], "wait": {"seconds": 60}}, {"create": [pod("urgent", 64, 0, priority=100)]}]
    scenario = {"apiVersion": "reprieve.dev/v1alpha1", "kind": "Scenario", "spec": {"steps": steps}}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"pluginConfig": [{"name": "DefaultPreemption", "args": {"waitForCompletions": "30m"}}]}],
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    (tmp_path / "in.yaml").write_text(yaml.safe_dump_all([node("n1"), scenario]))
    found = run("plan", "-f", tmp_path / "in.yaml", "--config", tmp_path / "config.yaml", "-o", "json")
    assert (found.code, found.err) == (0, "")
    answer = json.loads(found.out)
    assert bool(answer["preemptions"]) is (deadline is None)
    assert [one["pods"] for one in answer["putOff"]] == ([["default/train-00000"]] if deadline else [])
