"""What a decision costs, in words and as data: what plans, records and events tell (cost.md 1.6, 3.5)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from reprieve.decisions.costs import (
    by_criterion,
    cost_sentences,
    counts_work,
    decisive,
    in_turn,
    lost_by,
    lost_text,
    plain,
    value_text,
)
from reprieve.decisions.records import EvictionInTurn
from reprieve.preemption.cost import UPSTREAM, criteria_of
from reprieve.preemption.lost_work import LostWork, is_gpu
from reprieve.preemption.outcome import (
    CandidateComparison,
    CascadeAvoided,
    CascadeStep,
    Cost,
    Criterion,
    Preemption,
    Reason,
    Verdict,
)
from reprieve.preemption.units import PreemptionUnit
from tests.building import World, annotated, gang, node, pod

PODS = Criterion("pods", "fewest victim pods", "pods")
STARTS = Criterion("startTime", "latest start", "")
WORK = Criterion("lostWork", "least lost work", "GPU-seconds")


@pytest.mark.parametrize(
    ("number", "written"),
    [(2.0, "2"), (2, "2"), (-1.0, "-1"), (0.5, "0.5"), (1.23456, "1.235"), (2.0004, "2.0"), (0.1 + 0.2, "0.3")],
)
def test_whole_numbers_are_written_as_such(number: float, written: str) -> None:
    """Others to three places."""
    assert repr(plain(number)) == written


@pytest.mark.parametrize(
    ("criterion", "number", "text"),
    [
        (PODS, 2.0, "2 pods"),
        (PODS, 1.0, "1 pod"),
        (PODS, 0.0, "0 pods"),
        (PODS, 1.5, "1.5 pods"),
        (Criterion("highestPriority", "lowest priority", ""), 1000.0, "1000"),
        (Criterion("highestPriority", "lowest priority", ""), 1.0, "1"),
        (WORK, 3600.0, "1 GPU-hours"),
        (WORK, 5400.0, "1.5 GPU-hours"),
        (WORK, 3618.1, "1.01 GPU-hours"),
        (WORK, 1.0, "0.000278 GPU-hours"),
        (WORK, 44444.0, "12.3 GPU-hours"),
        (Criterion("own", "least", "node-seconds"), 7200.0, "2 node-hours"),
        (STARTS, -1_600_000_000.0, "2020-09-13T12:26:40Z"),
        (STARTS, -math.inf, "not started"),
    ],
)
def test_cost_in_words(criterion: Criterion, number: float, text: str) -> None:
    """With what it counts, one of it in the singular; work in hours; a start as a time."""
    assert value_text(criterion, number) == text


def test_costs_by_criterion() -> None:
    """In the order of the criteria; what is no number (no pod has started) is left out; none without evictions."""
    found = by_criterion((PODS, STARTS, WORK), (2.0, -math.inf, 1.5))
    assert list(found.items()) == [("pods", 2), ("lostWork", 1.5)]
    assert by_criterion((PODS,), None) == {}


# -- decisions ---------------------------------------------------------------------------------------------------------


def _unit(world: World, *names: str, priority: int = 0) -> PreemptionUnit:
    pods = tuple(world.record(name) for name in names)
    return PreemptionUnit(f"default/{names[0]}", pods, tuple(pod.row for pod in pods), priority, False, None)


def _decision(
    world: World,
    *victims: str,
    criteria: Sequence[Criterion] = UPSTREAM.described,
    cost: Cost | None = None,
    compared: CandidateComparison | None = None,
    **more: Any,
) -> Preemption:
    high = world.record("high")
    reason = Reason(high, 0, "NodeResourcesFit", "Insufficient cpu")
    verdicts = tuple(Verdict(_unit(world, name), False, reason) for name in victims)
    return Preemption(
        pod=high,
        group=None,
        priority=9,
        domain="n1",
        nominations=((high, 0),),
        verdicts=verdicts,
        criteria=tuple(criteria),
        cost=cost,
        compared=compared,
        **more,
    )


def _world(**first: Any) -> World:
    pods = [pod(f"p{i}", cpu=1, node="n1", start=-3600.0, **(first if i == 0 else {})) for i in range(9)]
    return World(node("n1", cpu=20, gpu=8), *pods, pod("high", cpu=1, priority=9))


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ((("fewest victim pods", 1),), ("pods", "2 pods", "3 pods")),
        (
            (("lowest priority of the most important victim", 2), ("fewest victim pods", 1)),
            ("pods", "2 pods", "3 pods"),
        ),
        (
            (("latest start of the most important victims", 1),),
            ("startTime", "2020-09-13T12:26:40Z", "not started"),
        ),
        ((("first by name", 1),), None),
        ((), None),
    ],
)
def test_criterion_that_decided(steps: tuple[tuple[str, int], ...], expected: tuple[str, str, str] | None) -> None:
    """cost.md 1.6: the last that ruled out a candidate, with both values; None where it was none of them."""
    compared = CandidateComparison("n2", (0, 5, 10, 3, -math.inf), steps)
    own = (0, 5, 10, 2, -1_600_000_000.0)
    found = decisive(_decision(_world(), "p0", cost=own, compared=compared))
    assert (None if found is None else (found[0].name, *found[1:])) == expected


@pytest.mark.parametrize("missing", ["compared", "own cost", "other cost"])
def test_nothing_decided_where_there_is_nothing_to_compare(missing: str) -> None:
    cost = (0.0, 5.0, 10.0, 2.0, 0.0)
    compared = CandidateComparison("n2", None if missing == "other cost" else cost, (("fewest victim pods", 1),))
    made = _decision(
        _world(),
        "p0",
        cost=None if missing == "own cost" else cost,
        compared=None if missing == "compared" else compared,
    )
    assert decisive(made) is None


@pytest.mark.parametrize(
    ("lost", "text"),
    [
        (LostWork(), ""),
        (LostWork(0.9, 0.9), ""),
        (LostWork(1.0, 0.0), "0.000278 GPU-hours"),
        (LostWork(0.0, 1.0), "0.000278 CPU-hours"),
        (LostWork(12600.0, 0.0), "3.5 GPU-hours"),
        (LostWork(12600.0, 3600.0), "3.5 GPU-hours and 1 CPU-hours"),
    ],
)
def test_lost_work_in_words(lost: LostWork, text: str) -> None:
    """From one second on."""
    assert lost_text(lost) == text
    assert lost.total == lost.gpu + lost.cpu


@pytest.mark.parametrize(
    ("annotations", "told"),
    [
        ({}, False),
        (annotated(minimum_runtime="1h"), False),
        (annotated(checkpoint_interval="1h"), True),
        (annotated(restart_cost="1h"), True),
        (annotated(last_checkpoint="2020-09-13T12:00:00Z"), True),
    ],
)
def test_when_lost_work_is_reported(annotations: dict[str, str], told: bool) -> None:
    """cost.md 1.6: where it is a criterion, or where users say something of the work that is lost."""
    world = _world(annotations=annotations)
    cluster, made = world.engine.cluster, _decision(world, "p1", "p0")
    assert counts_work(cluster, made, [world.record("p1"), world.record("p0")]) is told
    assert counts_work(cluster, made, [world.record("p1")]) is False
    own = _decision(world, "p1", criteria=criteria_of(("pods", "lostWork")).described)
    assert counts_work(cluster, own, []) is True
    assert bool(cost_sentences(cluster, made)) is told


@pytest.mark.parametrize(
    ("pods", "gpu", "cpu"),
    [
        ([{"cpu": 4, "gpu": 2}], 2 * 100.0, 0.0),
        ([{"cpu": 4}], 0.0, 4 * 100.0),
        ([{}], 0.0, 0.1 * 100.0),
        ([{"cpu": 4, "gpu": 2}, {"cpu": 3}, {"cpu": 3}], 200.0, 600.0),
        ([{"cpu": 1, "start": None}], 0.0, 0.0),
        ([{"cpu": 2, "start": None, "annotations": annotated(restart_cost="60s")}], 0.0, 120.0),
        ([{"cpu": 2, "annotations": annotated(restart_cost="60s")}], 0.0, 320.0),
        ([{"cpu": 2, "annotations": annotated(checkpoint_interval="40s")}], 0.0, 40.0),
        ([{"cpu": 2, "start": 50.0, "annotations": annotated(checkpoint_interval="40s")}], 0.0, 0.0),
        ([{"cpu": 2, "annotations": annotated(last_checkpoint="2020-09-13T12:26:10Z")}], 0.0, 60.0),
        ([{"cpu": 2, "annotations": annotated(last_checkpoint="2020-09-13T12:20:00Z")}], 0.0, 200.0),
        ([{"cpu": 2, "annotations": annotated(last_checkpoint="2020-09-13T12:27:00Z")}], 0.0, 0.0),
    ],
)  # fmt: skip
def test_lost_work(pods: list[dict[str, Any]], gpu: float, cpu: float) -> None:
    """cost.md 1.3, 2.1: since the start (100 s ago) or the last save, and the restart; times GPUs, else CPUs."""
    made = [pod(f"v{i}", node="n1", **{"start": -100.0, **each}) for i, each in enumerate(pods)]
    world = World(node("n1", cpu=20, gpu=8), *made, pod("high", cpu=1, priority=9))
    world.engine.cluster.now = 1_600_000_000.0
    lost = lost_by(world.engine.cluster, _decision(world, *(f"v{i}" for i in range(len(made)))))
    assert (lost.gpu, lost.cpu) == pytest.approx((gpu, cpu))


@pytest.mark.parametrize(
    ("resource", "counts"),
    [
        ("nvidia.com/gpu", True),
        ("amd.com/gpu", True),
        ("gpu.intel.com/i915", True),
        ("nvidia.com/mig-1g.5gb", True),
        ("example.com/gpu-slice", True),
        ("example.com/gpu.shared", True),
        ("example.com/gpus", False),
        ("notgpu.intel.com/i915", False),
        ("example.com/fpga", False),
        ("gpu", False),
        ("gpu-memory", False),
    ],
)
def test_which_resources_are_gpus(resource: str, counts: bool) -> None:
    """cost.md 1.3: extended resources named `gpu`, of a domain `gpu.*`, or parts of one."""
    assert is_gpu(resource) is counts


# -- sentences ---------------------------------------------------------------------------------------------------------


def test_sentences_about_lost_work_and_the_deciding_criterion() -> None:
    """Only where work counts; the comparison is worded by the criterion."""
    world = _world(annotations=annotated(restart_cost="1h"), gpu=1)
    world.engine.cluster.now = 1_600_000_000.0
    compared = CandidateComparison("n2", (0, 5, 10, 3, 0.0), (("fewest victim pods", 1),))
    made = _decision(world, "p0", "p1", cost=(0, 5, 10, 1, 0.0), compared=compared)
    assert cost_sentences(world.engine.cluster, made) == (
        "Unsaved work lost: 2 GPU-hours and 1 CPU-hours.",
        "n1 over n2: fewest victim pods (1 pod against 3 pods).",
    )


def test_report_states_that_no_work_is_lost() -> None:
    world = _world(annotations=annotated(checkpoint_interval="1h"))
    world.engine.cluster.now = 1_600_000_000.0
    assert cost_sentences(world.engine.cluster, _decision(world, "p0")) == ("No unsaved work is lost.",)


def test_only_the_first_few_evictions_in_turn_are_reported() -> None:
    """cost.md 3.5: five of them; of the names three, and how many more."""
    world = _world()
    units = [_unit(world, f"p{i}") for i in range(9)]
    steps = tuple(CascadeStep(1 + i // 4, units[i], tuple(units[i + 1 : i + 2])) for i in range(6))
    made = _decision(world, "p0", cascade=steps)
    told = cost_sentences(world.engine.cluster, made)
    assert told[0] == "When default/p0 comes back, it would evict default/p1 (round 1)."
    assert told[4] == "When default/p4 comes back, it would evict default/p5 (round 2)."
    assert len(told) == 5
    for count, names in (
        (3, "default/p1, default/p2, default/p3"),
        (4, "default/p1, default/p2, default/p3 and 1 more"),
        (5, "default/p1, default/p2, default/p3 and 2 more"),
    ):
        made = _decision(world, "p0", cascade=(CascadeStep(1, units[0], tuple(units[1 : 1 + count])),))
        assert cost_sentences(world.engine.cluster, made) == (
            f"When default/p0 comes back, it would evict {names} (round 1).",
        )


def test_alternative_that_would_evict_more_is_reported() -> None:
    """cost.md 3.5: which eviction would have been cheaper if no pod came back, and its effect."""
    world = _world()
    pair = PreemptionUnit("default/pair", (world.record("p3"), world.record("p4")), (0, 0), 0, False, None)
    one, two = _unit(world, "p1"), _unit(world, "p2")
    made = _decision(world, "p0", avoided=CascadeAvoided((one, two), (CascadeStep(1, one, (pair,)),)))
    assert cost_sentences(world.engine.cluster, made) == (
        "Evicting default/p1, default/p2 instead would lead to more evictions: when it comes back, "
        "default/p1 would evict default/pair; 4 pods in all.",
    )
    made = _decision(world, "p0", avoided=CascadeAvoided((pair,), ()))
    assert cost_sentences(world.engine.cluster, made) == (
        "Evicting default/pair instead would lead to more evictions: when it comes back, "
        "no capacity would be free for it; 2 pods in all.",
    )


def test_pods_that_keep_running_below_the_minimum_of_their_gang_are_reported() -> None:
    """cost.md 1.6: those of gangs that break (their work is lost as well), apart from those of gangs broken before."""
    world = World(node("n1", cpu=20), gang("g", 2, cpu=1, node="n1"), gang("h", 2, cpu=1, node="n1"), pod("high"))
    first, second, third = (_unit(world, name) for name in ("g-0", "g-1", "h-0"))
    alone = _decision(world, "h-1", left_over=first.pods, remains=(first, third))
    assert cost_sentences(world.engine.cluster, alone) == (
        "1 pod of default/g keeps running below the gang's minimum: its work is lost, too.",
        "1 pod of default/h, below the minimum before, keeps running.",
    )
    several = _decision(world, "h-1", left_over=(*first.pods, *second.pods))
    assert cost_sentences(world.engine.cluster, several) == (
        "2 pods of default/g keep running below the gang's minimum: their work is lost, too.",
    )
    before = _decision(world, "h-1", remains=(first, third))
    assert cost_sentences(world.engine.cluster, before) == (
        "2 pods of default/g, default/h, below the minimum before, keep running.",
    )


def test_joint_plan_names_the_first_other_preemptors() -> None:
    """cost.md 8"""
    made = _decision(_world(), "p0", together=("a/b", "a/c", "a/d", "a/e"))
    assert cost_sentences(_world().engine.cluster, made) == (
        "Planned together with a/b, a/c, a/d and 1 more: one eviction for all of them.",
    )


def test_evictions_in_turn_as_data() -> None:
    world = _world()
    pair = PreemptionUnit("default/pair", (world.record("p3"), world.record("p4")), (0, 0), 0, False, None)
    one, two = _unit(world, "p1"), _unit(world, "p2")
    assert in_turn([CascadeStep(2, one, (pair, two))]) == (
        EvictionInTurn(round=2, by="default/p1", evicted=("default/pair", "default/p2"), pods=3),
    )
