"""Why no pods were evicted for a group, and the choice between evictions (preemption.md 4)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from reprieve.framework.plugin import Placement
from reprieve.preemption.default_preemption import DefaultPreemption
from reprieve.preemption.group_candidates import holds_all
from reprieve.preemption.options import PreemptionOptions
from reprieve.preemption.outcome import (
    COMPATIBLE,
    PRIORITY_FLOOR,
    SCORED,
    Preemption,
    UnhelpfulPreemption,
    UnhelpfulReason,
)
from tests.building import World, annotated, gang, group, node, pdb, pod, priority_class, profile_with


def _unhelpful(*items: Any) -> UnhelpfulPreemption:
    decision = World(*items).step()
    assert decision.preemption is None
    assert decision.unhelpful is not None, decision
    return decision.unhelpful


def _full(*priorities: int, cpu: int = 1) -> list[Any]:
    """A node for each that one pod fills."""
    return [
        item
        for i, priority in enumerate(priorities)
        for item in (node(f"n{i}", cpu=cpu), pod(f"v{i}", cpu=cpu, node=f"n{i}", priority=priority))
    ]


def test_preemption_without_units_of_lower_priority() -> None:
    """preemption.md 4.1: and the lowest that does is reported."""
    told = _unhelpful(*_full(7, 5, 9), *gang("crew", 1, cpu=1, priority=5))
    assert (told.why, told.lowest, told.units) == (UnhelpfulReason.NO_LOWER_PRIORITY, 5, ())
    none_below = _unhelpful(node("n", cpu=1), *gang("crew", 1, cpu=2, priority=5))
    assert (none_below.why, none_below.lowest) == (UnhelpfulReason.NO_LOWER_PRIORITY, None)


@pytest.mark.parametrize(("least", "needed"), [(3, 3), (4, 4)])
def test_group_that_would_not_fit_without_any_unit(least: int, needed: int) -> None:
    """preemption.md 4.2: possible victims, how many would find a place, and which would not."""
    told = _unhelpful(*_full(1, 3, 9), *gang("crew", 4, min_count=least, cpu=1, priority=5))
    assert told.why is UnhelpfulReason.DOES_NOT_FIT
    assert [unit.name for unit in told.units] == ["default/v1", "default/v0"]
    assert (told.placed, told.needed) == (2, needed)
    assert told.pod is not None
    assert told.pod.name == "crew-2"
    assert told.diagnosis is not None
    assert told.lowest is None


def test_no_more_would_fit_than_do() -> None:
    """preemption.md 4.2: one member runs; the other fits nowhere, whatever is evicted."""
    told = _unhelpful(
        *_full(1, cpu=2),
        node("m", cpu=1),
        group("crew", min_count=1, priority=5),
        pod("crew-0", cpu=1, node="m", group="crew", priority=5),
        pod("crew-1", cpu=3, group="crew", priority=5),
    )
    assert (told.why, told.placed, told.needed) in (
        (UnhelpfulReason.NOTHING_GAINED, 0, 1),
        (UnhelpfulReason.DOES_NOT_FIT, 0, 1),
    )
    assert [unit.name for unit in told.units] == ["default/v0"]


def test_preemptor_that_never_preempts_or_has_leaving_victims() -> None:
    """preemption.md 2.2, 2.3: no victims are searched."""
    told = _unhelpful(*_full(1), *gang("crew", 1, cpu=1, priority=5, policy="Never", never=True))
    assert (told.why, told.attempted) == (UnhelpfulReason.POLICY_NEVER, False)
    leaving = pod("v", cpu=1, node="n", terminating=True, preempted=True)
    told = _unhelpful(
        node("n", cpu=1),
        leaving,
        group("crew", min_count=1, priority=5),
        pod("crew-0", cpu=1, group="crew", priority=5, nominated="n"),
    )
    assert (told.why, told.attempted) == (UnhelpfulReason.UNDER_WAY, False)


def test_budgets_that_the_class_respects() -> None:
    """cost.md 2.8."""
    careful = priority_class("careful", 5, {"scheduling.reprieve.dev/pdb-policy": "Respect"})
    told = _unhelpful(
        careful,
        *_full(1),
        pdb("all", {}, allowed=0),
        group("crew", min_count=1, priority=5, priority_class="careful"),
        pod("crew-0", cpu=1, group="crew", priority=5, priority_class="careful"),
    )
    assert told.why is UnhelpfulReason.BUDGETS


def test_preemptor_waits_for_minimum_runtimes() -> None:
    """cost.md 2.6: it is reported beside the reason."""
    running = pod("v", cpu=1, node="n", priority=1, start=-60.0, annotations=annotated(minimum_runtime="10m"))
    world = World(node("n", cpu=1), running, *gang("crew", 1, cpu=1, priority=5))
    decision = world.step()
    assert decision.unhelpful is not None
    assert decision.unhelpful.why is UnhelpfulReason.PROTECTED
    assert decision.condition is not None
    assert "1 workload is within their minimum-runtime, default/v until" in decision.condition.message


# -- the choice --------------------------------------------------------------------------------------------------------


def _decided(*items: Any, **options: Any) -> Preemption:
    profile = profile_with(DefaultPreemption(PreemptionOptions(**options)))
    found = World(*items, profiles={profile.name: profile}).step().preemption
    assert found is not None
    return found


def _gone(found: Preemption) -> list[str]:
    return sorted(verdict.unit.name.removeprefix("default/") for verdict in found.victims)


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_lowest_floor_that_is_enough(count: int) -> None:
    """preemption.md 4, Options: no unit above it is touched, whatever scores best."""
    found = _decided(*_full(4, 3, 2, 1), *gang("crew", count, cpu=1, priority=9), victim_search=PRIORITY_FLOOR)
    assert _gone(found) == sorted(f"v{4 - 1 - i}" for i in range(count))
    assert len(found.verdicts) == count
    assert found.reprieved == 0


@pytest.mark.parametrize("options", [{}, {"placement": COMPATIBLE}, {"placement": SCORED}])
@pytest.mark.parametrize("gone", [["x"], ["y"]])
def test_decision_reports_all_of_it(gone: list[str], options: dict[str, Any]) -> None:
    """Evicted and remaining units, the place of each pod and why, what it costs, and by which criteria."""
    dear = 1 if gone == ["y"] else 3
    found = _decided(
        node("n1", cpu=2),
        node("n2", cpu=2),
        pod("x", cpu=2, node="n1", priority=4 - dear, start=0.0),
        pod("y", cpu=1, node="n2", priority=dear, start=0.0),
        pod("z", cpu=1, node="n2", priority=5, start=0.0),
        *gang("crew", 1, cpu=1, priority=5, selector=None),
        **options,
    )
    assert (found.domain, found.candidates, found.compared) == ("cluster", 1, None)
    assert found.group is not None
    assert (found.group.key, found.pod, found.priority) == ("default/crew", None, 5)
    assert [criterion.name for criterion in found.criteria] == [
        "pdbViolations",
        "highestPriority",
        "gangsBroken",
        "prioritySum",
        "pods",
        "restartElsewhere",
        "startTime",
    ]
    assert len(found.victims) == 1
    victim = found.victims[0]
    assert found.cost == (0, victim.unit.priority, 0, victim.unit.priority + (1 << 31), 1, 1, -1_600_000_000.0)
    assert victim.reason is not None
    assert (victim.reason.pod.name, victim.reason.plugin, victim.reason.text) == (
        "crew-0",
        "NodeResourcesFit",
        "Insufficient cpu",
    )
    assert victim.reason.row == victim.unit.rows[0] == found.nominations[0][1]
    assert {verdict.unit.name for verdict in found.verdicts} == {"default/x", "default/y"}
    if not options:
        assert _gone(found) == gone
        assert found.by_score is not None
        assert len(found.by_score) == 1
    else:
        assert found.by_score is None


@pytest.mark.parametrize("placement", [None, COMPATIBLE, SCORED])
def test_domains_are_compared_by_their_victims_unless_the_score_decides(placement: str | None) -> None:
    """preemption.md 4, Options: `Scored` looks at the rack alone that scores best when all are gone."""
    items = [
        *[node(f"r{r}n{i}", cpu=4, labels={"rack": f"r{r}"}) for r in range(2) for i in range(1 + r)],
        pod("a", cpu=4, node="r0n0", priority=3),
        *[pod(f"b{i}", cpu=4, node=f"r1n{i}", priority=1) for i in range(2)],
        group("crew", min_count=1, topology="rack", priority=9),
        pod("crew-0", cpu=4, group="crew", priority=9),
    ]
    found = _decided(*items, **({"placement": placement} if placement else {}))
    if placement == SCORED:
        assert (found.domain, found.candidates, found.compared) == ("r0", 1, None)
        assert _gone(found) == ["a"]
    else:
        assert (found.domain, found.candidates) == ("r1", 2)
        assert found.compared is not None
        assert (found.compared.domain, found.compared.steps) == (
            "r0",
            (("lowest priority of the most important victim", 1),),
        )
        assert found.compared.cost is not None
        assert found.compared.cost[1] == 3


@pytest.mark.parametrize(
    ("ports", "victims"),
    [([], ["v3"]), ([8080], ["v2"])],
)
def test_least_important_are_evicted_with_a_rule_beyond_resources(ports: list[int], victims: list[str]) -> None:
    """cost.md 4.5: a victim that the numbers propose is taken only where the filters agree."""
    items = [*_full(4, 3, 2, 1), pod("holder", node="n3", priority=50, ports=[8080])]
    assert _gone(_decided(*items, *gang("crew", 1, cpu=1, priority=9, ports=ports))) == victims


@pytest.mark.parametrize(
    ("rows", "held"), [([], False), ([1], True), ([1, 2], True), ([1, 3], False), ([3], False), ([2, 2], True)]
)
def test_domain_that_holds_all_rows(rows: list[int], held: bool) -> None:
    """cost.md 5.5: room is held there, if any is held."""
    assert holds_all(Placement("r", np.array([0, 1, 2])), rows) is held


def test_room_that_is_held_in_a_domain_keeps_the_group_there() -> None:
    """cost.md 5.5: although another rack would be cheaper; and not where it does not fit there any more."""
    racks = [node(f"r{r}n{i}", cpu=1, labels={"rack": f"r{r}"}) for r in range(2) for i in range(2)]
    running = [pod(f"v{r}{i}", cpu=1, node=f"r{r}n{i}", priority=3 - 2 * r) for r in range(2) for i in range(2)]
    crew = [
        group("crew", min_count=2, topology="rack", priority=9),
        pod("crew-0", cpu=1, group="crew", priority=9, nominated="r0n0"),
        pod("crew-1", cpu=1, group="crew", priority=9),
    ]
    assert _decided(*racks, *running, *crew).domain == "r0"
    above = [pod("above", cpu=1, node="r0n1", priority=50)]
    assert _decided(*racks, *[one for one in running if one.metadata.name != "v01"], *above, *crew).domain == "r1"
