"""Rules of preemption that stand by themselves: units, their order, budgets that are respected, room, ties, words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from reprieve.cluster.pods import PodRecord
from reprieve.cluster.resources import CPU, MEMORY
from reprieve.framework.extending import CandidatePlugin, VictimsOn
from reprieve.framework.plugin import CycleState, Placement
from reprieve.framework.running import RunningProfile
from reprieve.framework.status import PluginError
from reprieve.preemption.cost import Costing, criteria_of
from reprieve.preemption.criteria import STANDARD
from reprieve.preemption.eligibility import group_never_preempts, ineligible
from reprieve.preemption.extended import judged
from reprieve.preemption.free_resources import FreeResources
from reprieve.preemption.minimum_runtime import runtime_is_over
from reprieve.preemption.options import EvictionOptions, PreemptionOptions
from reprieve.preemption.order import Ranking, by_importance
from reprieve.preemption.outcome import (
    NEVER,
    TERMINATING,
    Missing,
    NoRoom,
    Preemption,
    Reason,
    UnhelpfulPreemption,
    Verdict,
    WaitsFor,
    scarcest_first,
)
from reprieve.preemption.protection import (
    RespectedBudgets,
    left_below_minimum,
    potential_victims,
    until_runtimes_are_over,
)
from reprieve.preemption.tie_breaking import VictimSparingTieBreaker, victim_sparing_tie_breaker
from reprieve.preemption.units import effective_priority, scheduled_pods
from tests.building import START, World, annotated, composite, gang, group, node, pdb, pod
from tests.preemption.by_name import cluster_at, names_of, units_of

GI = 1 << 30


# -- units and their order -------------------------------------------------------------------------------------------


def _crowd() -> World:
    return World(
        node("n1", cpu=40),
        node("n2", cpu=40),
        composite("tree", whole=True, priority=3),
        *gang("leaf", 2, node="n1", priority=9, parent="tree"),
        *gang("whole", 2, node="n1", whole=True, priority=3),
        pod("whole-2", node="n2", group="whole", priority=3),
        *gang("single", 1, node="n1", priority=3),
        pod("lone", node="n1", group="gone", priority=3),
        pod("plain", node="n2", priority=3),
        pod("high", node="n2", priority=4),
        pod("pending", priority=3),
    )


def test_what_is_disrupted_as_one() -> None:
    """preemption.md 1: pods, whole groups, the highest of a tree that goes whole; only what runs."""
    world = _crowd()
    units = units_of(world)
    assert {name: [one.name for one in unit.pods] for name, unit in units.items()} == {
        "tree": ["leaf-0", "leaf-1"],
        "whole": ["whole-0", "whole-1", "whole-2"],
        "single-0": ["single-0"],
        "lone": ["lone"],
        "plain": ["plain"],
        "high": ["high"],
    }
    for name, in_group, as_a_whole in (
        ("tree", True, True),
        ("whole", True, True),
        ("single-0", True, False),
        ("lone", False, False),
        ("plain", False, False),
    ):
        assert (units[name].in_group, units[name].group is not None) == (in_group, as_a_whole), name
        assert bool(units[name].groups) is as_a_whole
    assert units["whole"].rows == tuple(world.row(name) for name in ("n1", "n1", "n2"))
    assert [unit.priority for unit in units.values()].count(3) == 5
    assert effective_priority(world.engine.cluster, world.record("leaf-0")) == 3, "that of the topmost group"
    assert effective_priority(world.engine.cluster, world.record("lone")) == 3


@pytest.mark.parametrize(("priority", "count"), [(3, 0), (4, 5), (5, 6)])
def test_only_lower_priorities_go(priority: int, count: int) -> None:
    assert len(units_of(_crowd(), priority)) == count


def test_a_group_that_goes_as_one_for_once() -> None:
    """cost.md 2.7: its pods together, and the others as ever."""
    units = units_of(_crowd(), as_one=["default/single", "default/leaf"])
    assert units["single"].group is not None
    assert "single-0" not in units
    assert "tree" in units


def test_the_order_of_importance() -> None:
    """preemption.md 5: priority, groups of groups, groups, pods; then more pods, the earlier start, the lower UID."""
    world = _crowd()
    assert names_of(by_importance(world.engine.cluster, list(units_of(world).values())).units) == [
        "high",
        "tree",
        "whole",
        "single-0",
        "lone",
        "plain",
    ]
    starts = [("a", None), ("b", 5.0), ("c", 4.0), ("d", 5.0), ("e", None)]
    world = World(node("n", cpu=9), *[pod(name, node="n", start=start, uid=f"{name}") for name, start in starts])
    assert names_of(by_importance(world.engine.cluster, list(units_of(world).values())).units) == [
        "c",
        "b",
        "d",
        "a",
        "e",
    ]
    assert units_of(world)["c"].start == START + 4
    assert units_of(world)["a"].start == float("inf")


def test_who_is_tried_first() -> None:
    """preemption.md 3.4: who violates a budget, then the others; asked for by row in the same order."""
    world = World(
        node("n1", cpu=9),
        node("n2", cpu=9),
        pdb("b", {"app": "x"}, allowed=1),
        *[pod(f"p{i}", node=f"n{1 + i % 2}", priority=i, labels={"app": "x"} if i < 3 else {}) for i in range(5)],
    )
    cluster = world.engine.cluster
    ranking = Ranking(cluster, list(units_of(world).values()))
    assert names_of(ranking.ordered) == ["p4", "p3", "p2", "p1", "p0"]
    assert ranking.violations == [False, False, False, True, True]
    assert ranking.order == [3, 4, 0, 1, 2]
    assert ranking.on([world.row("n1")]) == [4, 0, 2]
    assert ranking.on([world.row("n2"), world.row("n1")]) == [3, 4, 0, 1, 2]
    assert ranking.on([]) == []
    assert ranking.violating([2, 3]) == [False, True]
    assert ranking.violating([3, 4]) == [False, True]
    some = ranking.only([4, 1, 3])
    assert names_of(some.ordered) == ["p3", "p1", "p0"]
    assert some.violations == [False, False, True]
    assert some.order == [2, 0, 1]
    assert some.on([world.row("n2")]) == [0, 1]


def test_by_criteria_of_ones_own_the_dearest_is_tried_first() -> None:
    """cost.md 1.2: criterion by criterion; what ties goes by importance."""
    sizes = {"a": 1, "b": 2, "c": 2, "d": 3}
    pods = [item for name, size in sizes.items() for item in gang(name, size, node="n", whole=True)]
    world = World(node("n", cpu=9), *pods)
    cluster = world.engine.cluster
    units = list(units_of(world).values())
    criteria = criteria_of(["units", "pods"])
    ordered = by_importance(cluster, units, criteria, Costing(cluster, None, units))
    assert [names_of(ordered.units)[turn] for turn in ordered.order] == ["d", "b", "c", "a"]


# -- who may preempt -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("never", "under_way", "rows", "why"),
    [
        (False, False, [], None),
        (True, True, [0], NEVER),
        (False, True, [], TERMINATING),
        (False, False, [0], TERMINATING),
        (False, False, [1], None),
        (False, False, [1, 0], TERMINATING),
    ],
)
def test_who_must_not_preempt_now(never: bool, under_way: bool, rows: list[int], why: str | None) -> None:
    """preemption.md 2.2, 2.3."""
    leaving: dict[str, Any] = {"terminating": True, "preempted": True}
    world = World(node("n1"), node("n2"), pod("a", node="n1", **leaving), pod("b", node="n2", priority=9, **leaving))
    at = [world.row(f"n{1 + row}") for row in rows]
    assert ineligible(world.engine.cluster, 9, never, at, under_way=under_way) == why


def test_a_member_that_is_leaving_forbids_nothing() -> None:
    """preemption.md 2.2: the members' policies count where the group has none, those that stay."""
    members = [pod(f"m{i}", node="n", group="g", never=i == 0, terminating=i == 0) for i in range(2)]
    world = World(node("n"), group("g", min_count=2), *members)
    assert not group_never_preempts(world.engine.cluster.groups["default/g"], group_policy=True)
    world.add(pod("m2", group="g", never=True))
    assert group_never_preempts(world.engine.cluster.groups["default/g"], group_policy=True)


# -- what is said of work --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "minimum", "over"),
    [
        (-60.0, "1h", -60.0 + 3600),
        (-60.0, None, -60.0),
        (None, "1h", 3600.0),
        (None, None, 0.0),
        (50.0, "10s", 10.0),
    ],
)
def test_when_a_minimum_has_been_run(start: float | None, minimum: str | None, over: float) -> None:
    """cost.md 2.6: from the start, of who has not started from now."""
    annotations = annotated(minimum_runtime=minimum) if minimum is not None else {}
    world = World(node("n"), pod("p", node="n", start=start, annotations=annotations))
    began = START + start if start is not None else float("inf")
    assert runtime_is_over(cluster_at(world), [world.record("p")], began) == START + over


def test_the_longest_minimum_of_a_unit_counts() -> None:
    members = [pod(f"p{i}", node="n", annotations=annotated(minimum_runtime=f"{1 + i % 2}0m")) for i in range(3)]
    world = World(node("n"), *members)
    assert runtime_is_over(cluster_at(world), [world.record(f"p{i}") for i in range(3)], START) == START + 1200
    assert runtime_is_over(cluster_at(world), [], START) == START


@pytest.mark.parametrize(
    ("since", "until", "message"),
    [
        (3600.0, None, ""),
        (3599.5, 3600.5, "1 workload is within their minimum-runtime, default/b until 2020-09-13T13:26:40Z"),
        (100.0, 3600.0, "1 workload is within their minimum-runtime, default/b until 2020-09-13T13:26:40Z"),
        (99.0, 100.0, "2 workloads are within their minimum-runtime, default/a until 2020-09-13T12:28:20Z"),
    ],
)
def test_the_first_minimum_to_be_over_is_waited_for(since: float, until: float | None, message: str) -> None:
    """cost.md 2.6: in a second at the earliest; who is over it is a victim from that moment on."""
    pods = [
        pod("a", node="n", start=0.0, annotations=annotated(minimum_runtime="100s")),
        pod("b", node="n", start=0.0, annotations=annotated(minimum_runtime="1h")),
        pod("above", node="n", start=0.0, priority=9, annotations=annotated(minimum_runtime="10s")),
    ]
    world = World(node("n"), *pods, pod("p", priority=9))
    cluster = cluster_at(world, START + since)
    terms = cluster.class_terms_of(world.record("p"))
    found = until_runtimes_are_over(cluster, 9, scheduled_pods(cluster), terms)
    victims = potential_victims(cluster, 9, scheduled_pods(cluster), terms)
    assert sorted(names_of(victims)) == [name for name, least in (("a", 100), ("b", 3600)) if since >= least]
    if until is None:
        assert found is None
        return
    assert found is not None
    assert (found.why, found.until, found.message) == (WaitsFor.MINIMUM_RUNTIME, START + until, message)
    breaks = replace(terms, may_break_minimum_runtime=True)
    assert until_runtimes_are_over(cluster, 9, scheduled_pods(cluster), breaks) is None
    assert sorted(names_of(potential_victims(cluster, 9, scheduled_pods(cluster), breaks))) == ["a", "b"]


@pytest.mark.parametrize(
    ("least", "going", "whole"),
    [(3, 1, True), (3, 3, True), (3, 4, False), (2, 1, False), (2, 2, False), (2, 3, True), (1, 3, False)],
)
def test_what_would_be_left_of_a_gang_below_its_minimum(least: int, going: int, whole: bool) -> None:
    """cost.md 2.7: fewer than the minimum, but not none."""
    least += 1 if least == 3 else 0
    crew = [group("w", min_count=least, annotations=annotated(below_minimum="Whole"))]
    world = World(node("n", cpu=9), *crew, *[pod(f"w{i}", node="n", group="w") for i in range(4)])
    victims = list(units_of(world).values())[:going]
    assert left_below_minimum(world.engine.cluster, victims) == ({"default/w"} if whole else set())


def test_members_that_are_leaving_are_not_counted_twice() -> None:
    """cost.md 2.7: who is on the way out is none of those who run, nor of those who would go."""
    crew = [
        group("w", min_count=2, annotations=annotated(below_minimum="Whole")),
        group("basic", annotations=annotated(below_minimum="Whole")),
    ]
    pods = [pod(f"w{i}", node="n", group="w", terminating=i == 0) for i in range(3)]
    others = [pod(f"b{i}", node="n", group="basic") for i in range(2)]
    world = World(node("n", cpu=9), *crew, *pods, *others)
    units = units_of(world)
    assert left_below_minimum(world.engine.cluster, [units["w0"], units["b0"]]) == set()
    assert left_below_minimum(world.engine.cluster, [units["w1"]]) == {"default/w"}


# -- budgets that are respected --------------------------------------------------------------------------------------


def test_budgets_that_are_respected() -> None:
    """cost.md 2.8: counted over all who would go; as many as may, the least important first."""
    world = World(
        node("n", cpu=9),
        pdb("b", {"app": "x"}, allowed=2),
        *gang("w", 2, node="n", whole=True, priority=2, labels={"app": "x"}),
        *[pod(f"p{i}", node="n", priority=i, labels={"app": "x"}) for i in range(2)],
        pod("free", node="n", priority=5),
    )
    units, budgets = units_of(world), RespectedBudgets(world.engine.cluster)
    assert not budgets.violated_by([units["w"], units["free"]])
    assert not budgets.violated_by([units["p0"], units["p1"]])
    assert budgets.violated_by([units["p0"], units["w"]])
    assert not budgets.violated_by([])
    assert names_of(budgets.affordable(list(units.values()))) == ["p0", "p1", "free"]
    assert names_of(budgets.affordable([units["w"], units["p1"], units["free"]])) == ["p1", "free"]
    assert names_of(budgets.affordable([units["w"], units["free"]])) == ["w", "free"]


# -- what extenders say ----------------------------------------------------------------------------------------------


class _Extender(CandidatePlugin):
    name = "outside"

    def __init__(self, answer: Mapping[int, Sequence[str]]) -> None:
        self.answer = answer
        self.asked: list[Mapping[int, VictimsOn]] = []

    def judge_candidates(self, state: CycleState, candidates: Mapping[int, VictimsOn]) -> Mapping[int, Sequence[str]]:
        self.asked.append(candidates)
        return self.answer


def _candidates(world: World, *evicted: str, torn: Sequence[str] = ()) -> dict[int, tuple[Verdict, ...]]:
    high = world.record("high")
    found: dict[int, tuple[Verdict, ...]] = {}
    for name in ("n1", "n2"):
        row = world.row(name)
        reason = Reason(high, row, "NodeResourcesFit", "Insufficient cpu")
        units = [unit for unit in units_of(world).values() if row in unit.rows]
        found[row] = tuple(
            Verdict(
                unit,
                unit.name.removeprefix("default/") in torn,
                reason if unit.name.removeprefix("default/") in evicted else None,
            )
            for unit in units
        )
    return found


def _outside() -> World:
    return World(
        node("n1", cpu=9),
        node("n2", cpu=9),
        *gang("w", 1, node="n1", whole=True),
        pod("w-1", node="n2", group="w"),
        pod("a", node="n1"),
        pod("b", node="n2"),
        pod("high", priority=100),
    )


def test_extenders_receive_the_victims_on_the_node() -> None:
    """scheduling.md 6: of a unit that spans nodes its pods there; how many of the units violate a budget."""
    world = _outside()
    n1, n2 = world.row("n1"), world.row("n2")
    asked = _Extender({n1: ["uid-a"], n2: []})
    state = CycleState(world.engine.cluster, world.record("high"))
    second = _Extender({n1: ["uid-w-0"]})
    found = judged([asked, second], state, _candidates(world, "w", "a", torn=["w", "a", "b"]))
    told = {row: ([one.name for one in victims.pods], victims.violations) for row, victims in asked.asked[0].items()}
    assert told == {n1: (["w-0", "a"], 2), n2: (["w-1"], 1)}
    told = {row: ([one.name for one in victims.pods], victims.violations) for row, victims in second.asked[0].items()}
    assert told == {n1: (["a"], 1), n2: ([], 0)}, "the next is asked of what the first left"
    assert set(found) == {n1}
    reasons = {verdict.unit.name: verdict.reason for verdict in found[n1]}
    assert reasons["default/a"] is None
    why = reasons["default/w"]
    assert why is not None
    assert (why.plugin, why.text, why.row, why.pod.name) == ("outside", "an extender asked for it", n1, "high")


def test_who_goes_anyway_keeps_its_reason() -> None:
    world = _outside()
    n1 = world.row("n1")
    state = CycleState(world.engine.cluster, world.record("high"))
    found = judged([_Extender({n1: ["uid-w-0", "uid-a"]})], state, _candidates(world, "w"))
    assert {verdict.unit.name: verdict.reason and verdict.reason.plugin for verdict in found[n1]} == {
        "default/w": "NodeResourcesFit",
        "default/a": "outside",
    }


def test_who_may_not_go_is_not_named() -> None:
    """A failure of the plugin, which says whom; nobody is asked where no candidate is left."""
    world = _outside()
    state = CycleState(world.engine.cluster, world.record("high"))
    with pytest.raises(PluginError, match=r"claims to preempt pod \(UID: uid-b\), which is not of lower priority"):
        judged([_Extender({world.row("n1"): ["uid-z", "uid-b"]})], state, _candidates(world, "w"))
    nobody, next_one = _Extender({}), _Extender({})
    assert judged([nobody, next_one], state, _candidates(world, "w")) == {}
    assert (len(nobody.asked), len(next_one.asked)) == (1, 0)


# -- what a decision is ----------------------------------------------------------------------------------------------


def test_the_scarcest_resource_is_named_first() -> None:
    """By the share of what is asked for; extended resources before those that all nodes have; by name."""
    missing = [
        Missing("cpu", 1, 2),
        Missing("memory", 3, 4),
        Missing("a.com/x", 1, 2),
        Missing("z.com/y", 1, 2),
        Missing("ephemeral-storage", 1, 2),
        Missing("pods", 1, 2),
    ]
    assert [one.resource for one in scarcest_first(missing)] == [
        "memory",
        "a.com/x",
        "z.com/y",
        "cpu",
        "ephemeral-storage",
        "pods",
    ]
    record = cast("PodRecord", None)
    reason = Reason(record, 0, "NodeResourcesFit", "", scarcest_first(missing))
    assert (reason.resource, reason.short) == ("memory", 3)
    assert (Reason(record, 0, "NodePorts", "").resource, Reason(record, 0, "NodePorts", "").short) == ("", 0)


def test_a_decision_counts_who_goes_and_who_stays() -> None:
    world = _outside()
    high = world.record("high")
    reason = Reason(high, 0, "NodeResourcesFit", "")
    units = units_of(world)
    verdicts = (Verdict(units["w"], True, reason), Verdict(units["a"], True, None), Verdict(units["b"], False, reason))
    made = Preemption(high, None, 100, "n1", ((high, 0),), verdicts)
    assert [verdict.unit.name for verdict in made.victims] == ["default/w", "default/b"]
    assert (made.reprieved, made.pdb_violations) == (1, 1)
    assert (made.kind, made.key, made.candidates, made.compared) == ("pod", "pod/uid-high", 1, None)
    whole = world.engine.cluster.groups["default/w"]
    of_group = Preemption(None, whole, 100, "cluster", (), verdicts)
    assert (of_group.kind, of_group.key) == ("podgroup", whole.ref)
    assert Preemption(None, None, 0, "", (), ()).key == ""


@pytest.mark.parametrize("why", list(NoRoom))
def test_victims_were_searched_for_unless_it_was_out_of_the_question(why: NoRoom) -> None:
    world = _outside()
    in_vain = UnhelpfulPreemption(world.engine.cluster.groups["default/w"], why)
    assert in_vain.attempted is (why not in (NoRoom.POLICY_NEVER, NoRoom.UNDER_WAY))


def test_what_counts_if_nothing_is_configured() -> None:
    """preemption.md 4, cost.md 3 to 6."""
    options, evictions = PreemptionOptions(), EvictionOptions()
    assert (options.group_policy, options.victim_search, options.placement) == (True, "Reprieve", "MinimizeVictims")
    assert (tuple(options.cost), options.cascade_depth, options.hold_seconds) == (STANDARD, 0, 600.0)
    assert (options.successor, options.wait_for_completions, options.plain, options.share) == (True, 0.0, False, True)
    assert (evictions.group_policy, evictions.victim_search, evictions.placement) == (
        True,
        "Reprieve",
        "MinimizeVictims",
    )
    assert (evictions.criteria.names, evictions.cascades, evictions.plain, evictions.share) == (
        STANDARD,
        None,
        False,
        True,
    )


# -- room ------------------------------------------------------------------------------------------------------------


def test_what_is_left_beside_who_is_placed() -> None:
    """preemption.md 3.4: nominated pods of equal or higher priority count, the placed ones' own nominations do not."""
    world = World(
        node("n", cpu=10, memory="10Gi"),
        pod("runs", cpu=1, memory="1Gi", node="n"),
        pod("equal", cpu=2, priority=5, nominated="n", gates=["x"]),
        pod("lower", cpu=4, priority=4, nominated="n", gates=["x"]),
        pod("new", cpu=3, priority=5, nominated="n", gates=["x"]),
        pod("other", memory="2Gi", priority=5),
    )
    cluster, row = world.engine.cluster, world.row("n")
    new, other, runs = world.record("new"), world.record("other"), world.record("runs")

    def cpu(placed: Sequence[PodRecord], priority: int | None) -> int:
        room = FreeResources.after(cluster, [(one, row) for one in placed], priority=priority)
        return room.left[row][room.columns[row].index(CPU)]

    assert cpu([new], 5) == 10_000 - 1000 - 2000 - 3000
    assert cpu([new], 4) == 10_000 - 1000 - 2000 - 4000 - 3000
    assert cpu([new], 6) == 10_000 - 1000 - 3000
    assert cpu([new], None) == 10_000 - 1000 - 3000
    room = FreeResources.after(cluster, [(new, row), (other, row)], priority=6)
    assert dict(zip(room.columns[row], room.left[row], strict=True))[MEMORY] == 7 * GI
    room.free([runs], [row])
    assert dict(zip(room.columns[row], room.left[row], strict=True))[MEMORY] == 8 * GI
    room.free([runs], [row + 1])
    assert dict(zip(room.columns[row], room.left[row], strict=True))[CPU] == 7000
    assert room.short_columns() == []


def test_units_are_put_back_where_they_fit() -> None:
    """Whole or not at all; what is short is told of the first row, and what nobody there asks for does not matter."""
    world = World(
        node("a", cpu=3),
        node("b", cpu=3),
        pod("v0", cpu=1, node="a"),
        pod("v1", cpu=2, memory="1Gi", node="b"),
        pod("v2", cpu=2, node="a"),
        pod("x", cpu=2, priority=9),
        pod("y", cpu=2, priority=9),
    )
    cluster = world.engine.cluster
    a, b = world.row("a"), world.row("b")
    seats = [(world.record("x"), a), (world.record("y"), b)]
    v0, v1, v2 = (world.record(f"v{i}") for i in range(3))
    with cluster.trial():
        cluster.displace_all([v0, v1, v2])
        room = FreeResources.after(cluster, seats, priority=9)
        before = {row: list(left) for row, left in room.left.items()}
        assert room.shortage([v0, v1], [a, b]) == (b, ((CPU, 1000),))
        assert room.left == before
        assert room.shortage([v2, v1], [a, b]) == (min(a, b), ((CPU, 1000),))
        assert room.shortage([v0], [a]) is None
        assert room.left[a][room.columns[a].index(CPU)] == 0
        assert room.shortage([v0, v0], [a, a]) == (a, ((CPU, 2000),))
        assert room.shortage([v0], [a]) == (a, ((CPU, 1000),))
        assert room.shortage([v1], [b + a + 7]) is None, "on no row that matters"
    short = FreeResources.after(cluster, seats, priority=9)
    assert short.short_columns() == [CPU]


# -- ties ------------------------------------------------------------------------------------------------------------


def _ties(world: World, pods: Sequence[str], within: Sequence[str] = ()) -> dict[str, int] | None:
    """By node: places beside those worth keeping; None where there is no choice."""
    cluster = world.engine.cluster
    running = world.engine.running["default-scheduler"]
    assert isinstance(running, RunningProfile)
    units = list(units_of(world, 9).values())
    domain = None
    if within:
        rows = np.array([world.row(name) for name in within], dtype=np.int64)
        domain = Placement("rack", rows)
    with cluster.trial():
        cluster.displace_all([one for unit in units for one in unit.pods])
        found = victim_sparing_tie_breaker(
            running, [world.record(name) for name in pods], 9, Ranking(cluster, units), domain
        )
    if found is None:
        return None
    return {name: int(found._spare[world.row(name)]) for name in sorted(cluster.nodes.row_of)}


def test_where_the_important_need_not_go() -> None:
    """Walked as a reprieve does: each is kept that leaves enough places somewhere, the others are not."""
    items = [
        *[node(f"n{i}", cpu=2) for i in range(3)],
        pod("p3", cpu=2, node="n0", priority=3),
        pod("p2", cpu=1, node="n1", priority=2),
        pod("p1", cpu=1, node="n1", priority=1),
        pod("p0", cpu=2, node="n2", priority=0),
        *[pod(f"new{i}", cpu=1, priority=9) for i in range(6)],
    ]
    assert _ties(World(*items), ["new0", "new1"]) == {"n0": 0, "n1": 0, "n2": 2}
    assert _ties(World(*items), ["new0", "new1", "new2"]) == {"n0": 0, "n1": 1, "n2": 2}
    assert _ties(World(*items), [f"new{i}" for i in range(4)]) == {"n0": 0, "n1": 2, "n2": 2}
    assert _ties(World(*items), [f"new{i}" for i in range(6)]) is None, "all places are needed"
    assert _ties(World(*items), [f"new{i}" for i in range(5)]) == {"n0": 2, "n1": 1, "n2": 2}
    assert _ties(World(*items), ["new0", "new1"], ["n0", "n1"]) == {"n0": 0, "n1": 2, "n2": 0}
    torn = [*items, pdb("b", {}, allowed=3)]
    assert _ties(World(*torn), ["new0", "new1"]) == {"n0": 0, "n1": 2, "n2": 0}, "who violates a budget is kept first"


def test_unlike_pods_have_no_ties_to_break() -> None:
    items = [node("n0", cpu=4), pod("p", cpu=4, node="n0"), pod("a", cpu=1, priority=9), pod("b", cpu=2, priority=9)]
    assert _ties(World(*items), ["a", "b"]) is None
    assert _ties(World(*items), ["a"]) == {"n0": 4}


def test_preferred_are_nodes_with_room_beside_those_worth_keeping() -> None:
    """As long as there are any among the ties; each place counts once."""
    ties = VictimSparingTieBreaker(np.array([0, 1, 2], dtype=np.int64))
    assert ties.narrow(np.array([0, 1, 2])).tolist() == [1, 2]
    ties.took(1)
    assert ties.narrow(np.array([0, 1, 2])).tolist() == [2]
    ties.took(2)
    ties.took(2)
    assert ties.narrow(np.array([0, 2])).tolist() == [0, 2]
