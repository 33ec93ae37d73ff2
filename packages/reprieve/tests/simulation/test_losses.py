"""What a deleted node takes along is part of the answer and of the exit code (interfaces.md, `plan`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reprieve.cli.render import plan_sections
from reprieve.cli.sections import plain
from reprieve.python.builder import ClusterBuilder
from reprieve.simulation.plan import PlanOptions
from reprieve.simulation.report import Answer, PodGroupOutcome
from tests.cli.conftest import run as run  # a fixture

CPU = {"cpu": "3"}


def scenario(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "reprieve.dev/v1alpha1", "kind": "Scenario", "spec": {"steps": list(steps)}}


def gone(kind: str, name: str) -> dict[str, Any]:
    return {"delete": [{"kind": kind, "namespace": "default", "name": name}]}


def gang_on_two_nodes(minimum: int = 2) -> ClusterBuilder:
    """A gang of two on n1 and n2, and a pod without an owner on n2."""
    cluster = ClusterBuilder()
    cluster.add_node("n1", {"cpu": "4"})
    cluster.add_node("n2", {"cpu": "4"})
    cluster.add_group("g", min_count=minimum, priority=5)
    cluster.add_pod("g0", group="g", node="n1", priority=5, requests=CPU)
    cluster.add_pod("g1", group="g", node="n2", priority=5, requests=CPU)
    cluster.add_pod("single", node="n2", priority=7)
    return cluster


def group(answer: Answer, name: str = "g") -> PodGroupOutcome:
    return next(each for each in answer.plan.pod_groups if each.name == name)


def text(answer: Answer) -> str:
    return plain(plan_sections(answer))


def test_pods_of_a_deleted_node_are_lost_and_their_gang_is_below_its_minimum() -> None:
    """interfaces.md 2.3."""
    answer = gang_on_two_nodes().add(scenario(gone("Node", "n2"))).plan()
    assert [(pod.name, pod.pod_group, pod.node_name, pod.priority) for pod in answer.plan.lost] == [
        ("g1", "g", "n2", 5),
        ("single", None, "n2", 7),
    ]
    found = group(answer)
    assert (found.outcome, found.scheduled, found.below_minimum, found.lost, found.evicted) == (
        "Scheduled",
        1,
        True,
        1,
        0,
    )
    assert not answer.plan.all_placed
    shown = text(answer)
    assert "  2 pods lost with n2.\n  1 gang fell below its minimum.\n" in shown
    assert "gang default/g      1 pod  with n2\n  pod default/single  1 pod  with n2\n" in shown
    assert "gang default/g  1 of minCount 2 left  1 lost\n" in shown


def test_gang_that_keeps_its_minimum_is_not_broken() -> None:
    answer = gang_on_two_nodes(minimum=1).add(scenario(gone("Node", "n2"))).plan()
    assert not group(answer).below_minimum
    assert group(answer).lost == 1
    assert answer.plan.lost
    assert not answer.plan.all_placed


def test_pod_deleted_by_name_is_not_lost_but_its_gang_is_broken() -> None:
    answer = gang_on_two_nodes().add(scenario(gone("Pod", "g1"))).plan()
    assert not answer.plan.lost
    assert group(answer).below_minimum
    assert answer.plan.broken == (group(answer),)


def test_pending_pod_that_was_placed_can_be_lost() -> None:
    cluster = ClusterBuilder().add_node("n1", {"cpu": "4"}).add_pod("p", requests=CPU)
    answer = cluster.add(scenario({"wait": "settled"}, gone("Node", "n1"))).plan()
    (pod,) = answer.plan.pods
    assert (pod.outcome, pod.reason, pod.node_name) == ("Unschedulable", "Lost", None)
    assert pod.message == "was placed and then lost with node n1"


def test_lost_pods_are_reported_though_the_plan_stops_before_they_are_collected() -> None:
    steps = scenario({**gone("Node", "n2"), "wait": {"seconds": 1}})
    answer = gang_on_two_nodes().add(steps).plan()
    assert len(answer.plan.lost) == 2
    assert group(answer).scheduled == 1


def test_victim_on_its_way_out_is_evicted_and_not_lost() -> None:
    cluster = ClusterBuilder().add_node("n1", {"cpu": "4"}).add_pod("low", node="n1", requests=CPU)
    cluster.add_pod("high", priority=10, requests=CPU)
    answer = cluster.add(scenario({"wait": {"seconds": 1}}, gone("Node", "n1"))).plan()
    assert len(answer.plan.preemptions) == 1
    assert not answer.plan.lost


def a_gang_that_loses_a_member_to_a_preemptor() -> Answer:
    """All pending pods of the gang are placed, then one of its running members is evicted."""
    cluster = ClusterBuilder().add_node("n1", {"cpu": "4"}).add_node("n2", {"cpu": "4"})
    cluster.add_group("g", min_count=2, priority=5)
    cluster.add_pod("g0", group="g", node="n1", priority=5, requests=CPU)
    cluster.add_pod("g1", group="g", priority=5, requests=CPU)
    high = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "high"},
        "spec": {
            "priority": 100,
            "nodeSelector": {},
            "containers": [{"name": "c", "resources": {"requests": CPU}}],
        },
    }
    return cluster.add(scenario({"wait": "settled"}, {"create": [high]})).plan(PlanOptions())


def test_gang_with_placed_pending_pods_is_not_gated_for_an_evicted_member() -> None:
    """interfaces.md 2.3."""
    answer = a_gang_that_loses_a_member_to_a_preemptor()
    found = group(answer)
    assert len(answer.plan.preemptions) == 1
    assert (found.outcome, found.scheduled, found.below_minimum, found.evicted) == ("Scheduled", 1, True, 1)
    assert found.message == "fell below its minimum: 1 of minCount 2 left"
    assert not answer.plan.broken, "what preemption does is asked for by --fail-on-preemption"


def test_running_gang_that_is_evicted_whole_has_nothing_left() -> None:
    cluster = ClusterBuilder().add_node("n1", {"cpu": "4"})
    cluster.add_group("g", min_count=1, priority=5, disrupt_all=True)
    cluster.add_pod("g0", group="g", node="n1", priority=5, requests=CPU)
    cluster.add_pod("high", priority=10, requests=CPU)
    answer = cluster.plan()
    found = group(answer)
    assert (found.scheduled, found.below_minimum, found.evicted, found.lost) == (0, True, 1, 0)
    assert answer.plan.all_placed
    assert "gang default/g  0 of minCount 1 left  1 evicted\n" in text(answer)


def test_gang_that_never_had_its_minimum_did_not_fall_below_it() -> None:
    cluster = ClusterBuilder().add_node("n1", {"cpu": "4"}).add_group("g", min_count=3)
    cluster.add_pod("g0", group="g", node="n1")
    answer = cluster.add(scenario(gone("Node", "n1"))).plan()
    assert not group(answer).below_minimum


@pytest.mark.parametrize(
    ("steps", "code"),
    [([], 0), ([gone("Node", "n2")], 1), ([gone("Pod", "g1")], 1), ([gone("Pod", "single")], 0)],
    ids=["nothing happens", "a node goes", "a member is deleted", "a single pod is deleted"],
)
def test_exit_code_counts_what_is_lost(run: Any, tmp_path: Path, steps: list[dict[str, Any]], code: int) -> None:
    """interfaces.md 2.3."""
    cluster = gang_on_two_nodes().add(scenario(*steps))
    file = tmp_path / "a.json"
    file.write_text("\n".join(msgspec.json.encode(document).decode() for _, document in cluster._documents))
    ended = run("plan", "-f", file, "--fail-on-pending", "-o", "json")
    assert ended.code == code
    assert bool(json.loads(ended.out)["lost"]) == (steps == [gone("Node", "n2")])
