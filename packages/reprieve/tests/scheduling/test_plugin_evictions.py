"""A PostFilter of a plugin that names nominations and victims (preemption.md 2.8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pytest

from reprieve.framework.diagnosis import Diagnosis
from reprieve.framework.plugin import (
    CycleState,
    PodGroupAttempt,
    PodGroupPostFilterPlugin,
    PostFilterPlugin,
    PostFilterResult,
)
from reprieve.framework.status import SUCCESS
from reprieve.scheduling.decision import Result
from reprieve.testing import PluginFailedError, composite, gang, group, node, pdb, pod, priority_class
from tests.building import World, annotated


class Evicts(PostFilterPlugin, PodGroupPostFilterPlugin):
    """Names these pods and nodes, for whatever fits nowhere."""

    name: ClassVar[str] = "Evicts"

    def __init__(self, nominations: Mapping[Any, Any], victims: Sequence[Any] = ()) -> None:
        self.answer = PostFilterResult(SUCCESS, nominations=nominations, victims=victims)
        self.calls = 0

    def _answered(self) -> PostFilterResult:
        self.calls += 1
        return self.answer

    def post_filter(self, state: CycleState, diagnosis: Diagnosis) -> PostFilterResult:
        return self._answered()

    def pod_group_post_filter(self, attempt: PodGroupAttempt) -> PostFilterResult:
        return self._answered()


def _to(**nodes: str) -> dict[str, str]:
    return {f"default/{name.replace('_', '-')}": where for name, where in nodes.items()}


NODES = [node("n1", cpu=4), node("n2", cpu=4)]
LOW = [pod("low1", cpu=4, node="n1", priority=1), pod("low2", cpu=4, node="n2", priority=2)]
HIGH = pod("high", cpu=4, priority=9)
CREW = gang("crew", 2, priority=9, cpu=4)
BOTH = _to(crew_0="n1", crew_1="n2")


def test_pod_evicts_the_victims_that_a_plugin_names_and_binds_there() -> None:
    """preemption.md 2.8: reprieve itself would evict low1, which has the lower priority."""
    world = World(*NODES, *LOW, HIGH, plugins=[Evicts(_to(high="n2"), ["default/low2"])])
    world.settle()
    decision = world.engine.decisions[0]
    assert decision.result is Result.WAITING
    assert [(one.name, where) for one, where in decision.nominations] == [("high", "n2")]
    assert world.evicted == ["low2"]
    assert world.where == {"high": "n2", "low1": "n1"}


def test_victim_that_was_not_needed_goes_too() -> None:
    """preemption.md 2.8: the plugin's victims, and no others."""
    world = World(*NODES, *LOW, HIGH, plugins=[Evicts(_to(high="n2"), ["default/low1", "default/low2"])])
    world.settle()
    assert sorted(world.evicted) == ["low1", "low2"]
    decision = world.engine.decisions[0]
    assert decision.preemption is not None
    assert {verdict.unit.name: verdict.reason.chosen for verdict in decision.preemption.victims if verdict.reason} == {
        "default/low1": True,
        "default/low2": False,
    }


def test_gang_evicts_the_victims_that_a_plugin_names_and_binds_later() -> None:
    """preemption.md 2.8"""
    third = [node("n3", cpu=4), pod("low3", cpu=4, node="n3")]
    plugin = Evicts(BOTH, ["default/low1", "default/low2"])
    world = World(*NODES, *LOW, *third, *CREW, plugins=[plugin])
    world.settle()
    decision = world.engine.decisions[0]
    assert decision.result is Result.WAITING
    assert not decision.retry_now
    assert {one.key: where for one, where in decision.nominations} == BOTH
    assert sorted(world.evicted) == ["low1", "low2"]
    assert world.where == {"crew-0": "n1", "crew-1": "n2", "low3": "n3"}
    assert plugin.calls == 1


def test_earlier_nominations_of_a_gang_are_not_in_its_way() -> None:
    """preemption.md 2.8: the plugin names other nodes for its pods."""
    crew = gang("crew", 2, priority=9, cpu=4, nominated="n1")
    world = World(*NODES, *LOW, *crew, plugins=[Evicts(BOTH, ["default/low1", "default/low2"])])
    world.settle()
    assert world.where == {"crew-0": "n1", "crew-1": "n2"}
    assert world.incidents() == []


def test_whole_unit_goes_where_all_of_it_is_named() -> None:
    """preemption.md 2.8, 1.2"""
    team = [group("team", min_count=2, whole=True), *(pod(f"t{i}", cpu=4, node=f"n{i}", group="team") for i in (1, 2))]
    world = World(*NODES, *team, HIGH, plugins=[Evicts(_to(high="n1"), ["default/t1", "default/t2"])])
    world.settle()
    assert sorted(world.evicted) == ["t1", "t2"]
    assert world.where == {"high": "n1"}


TEAM = [group("team", min_count=2, whole=True), *(pod(f"t{i}", cpu=4, node=f"n{i}", group="team") for i in (1, 2))]
TREE = [
    composite("tree", min_groups=2, priority=9),
    *gang("left", 1, priority=9, parent="tree", cpu=4),
    *gang("right", 1, priority=9, parent="tree", cpu=4),
]
RACKS = [node("n1", cpu=4, labels={"rack": "a"}), node("n2", cpu=4, labels={"rack": "b"})]
BOTH_VICTIMS = ["default/low1", "default/low2"]
EQUAL = pod("equal", cpu=4, node="n1", priority=9)
LONG = annotated(minimum_runtime="100h")
Refused = dict[str, tuple[list[Any], Mapping[Any, Any], Sequence[Any], str]]
REFUSED: Refused = {
    "equal priority": (
        [*NODES, EQUAL, LOW[1], HIGH],
        _to(high="n1"),
        ["default/equal"],
        "names victim 'default/equal', with a priority that is not below the preemptor's 9",
    ),
    "partial unit": (
        [*NODES, *TEAM, HIGH],
        _to(high="n1"),
        ["default/t1"],
        "names a part of default/team, which is evicted only as a whole: not 'default/t2'",
    ),
    "unknown victim": ([*NODES, *LOW, HIGH], _to(high="n1"), ["default/none"], "'default/none', no scheduled pod"),
    "victim that runs nowhere": (
        [*NODES, *LOW, HIGH, pod("p", cpu=9)],
        _to(high="n1"),
        ["default/p"],
        "'default/p', no scheduled pod",
    ),
    "unknown pod": (
        [*NODES, *LOW, HIGH],
        _to(other="n1"),
        ["default/low1"],
        "nominates 'default/other', which is not among the pods",
    ),
    "unknown node": ([*NODES, *LOW, HIGH], _to(high="n9"), ["default/low1"], "nominates to 'n9', no node has that"),
    "unknown node, no victims": ([*NODES, *LOW, HIGH], _to(high="n9"), [], "nominates to 'n9', no node has that"),
    "does not fit": (
        [*NODES, *LOW, HIGH],
        _to(high="n1"),
        ["default/low2"],
        "nominates default/high to n1, where it does not fit with the victims gone",
    ),
    "two on one node": (
        [*NODES, *LOW, *CREW],
        _to(crew_0="n1", crew_1="n1"),
        ["default/low1"],
        "nominates default/crew-1 to n1, where it does not fit with the victims gone",
    ),
    "below minCount": (
        [*NODES, *LOW, *CREW],
        _to(crew_0="n1"),
        ["default/low1"],
        "PodGroup default/crew has 1 of the 2 pods it needs with these nominations",
    ),
    "tree below its number": (
        [*NODES, *LOW, *TREE],
        _to(left_0="n1"),
        ["default/low1"],
        "CompositePodGroup default/tree has 1 of the 2 groups it needs with these nominations",
    ),
    "outside of placements": (
        [*RACKS, *LOW, *gang("crew", 2, priority=9, topology="rack", cpu=4)],
        BOTH,
        BOTH_VICTIMS,
        "nominates the pods of PodGroup default/crew outside of each of its placements",
    ),
    "nothing gained": (
        [*NODES, LOW[0], *CREW],
        _to(crew_0="n2"),
        ["default/low1"],
        "names victims for 1 pods, as many as 1 have a place without evictions",
    ),
    "no nomination": ([*NODES, *LOW, HIGH], {}, ["default/low1"], "names victims but nominates no pod"),
    "minimum runtime": (
        [*NODES, pod("low1", cpu=4, node="n1", start=0, annotations=LONG), LOW[1], HIGH],
        _to(high="n1"),
        ["default/low1"],
        "names victim 'default/low1', which may not be evicted now",
    ),
    "budget": (
        [
            *NODES,
            pod("low1", cpu=4, node="n1", priority=1, labels={"app": "a"}),
            LOW[1],
            pdb("a", {"app": "a"}, allowed=0),
            priority_class("careful", 9, annotated(pdb_policy="Respect")),
            pod("high", cpu=4, priority=9, priority_class="careful"),
        ],
        _to(high="n1"),
        ["default/low1"],
        "a PodDisruptionBudget would be violated",
    ),
    "victims as text": ([*NODES, *LOW, HIGH], _to(high="n1"), "default/low1", "expected victims as a sequence of pods"),
    "no text": ([*NODES, *LOW, HIGH], _to(high="n1"), [None], "expected names of pods and nodes as text"),
    "node by row": ([*NODES, *LOW, HIGH], {"default/high": 0}, [], "expected names of pods and nodes as text"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_plugin_answer_that_breaks_a_rule_is_its_error(case: str) -> None:
    """preemption.md 2.8, scheduling.md 5.4: the reason in the condition and an incident; nothing is evicted."""
    items, nominations, victims, reason = REFUSED[case]
    world = World(*items, plugins=[Evicts(nominations, victims)])
    while (decision := world.step()).result is not Result.ERROR:
        assert decision.preemption is None
    assert decision.rejections[0].reason == "SchedulerError"
    assert reason in decision.rejections[0].message
    assert "PostFilter plugin 'Evicts'" in decision.rejections[0].message
    (incident,) = world.incidents()
    assert incident.plugin == "Evicts"
    assert world.evicted == []
    assert world.nominated == {}
    with pytest.raises(PluginFailedError, match="Evicts"):
        World(*items, contained=False, plugins=[Evicts(nominations, victims)]).settle()


@pytest.mark.parametrize("of", ["pod", "group"])
def test_preemptor_with_never_evicts_nothing_by_a_plugin_either(of: str) -> None:
    """preemption.md 2.2, 2.8: the reason is in the message, and it is no error."""
    crew = gang("crew", 1, priority=9, policy="Never", cpu=4, never=True)
    one: list[Any] = [pod("high", cpu=4, priority=9, never=True)]
    items, names = (crew, _to(crew_0="n1")) if of == "group" else (one, _to(high="n1"))
    plugin = Evicts(names, ["default/low1"])
    world = World(*NODES, *LOW, *items, plugins=[plugin])
    decision = world.step()
    assert decision.result is Result.UNSCHEDULABLE
    text = decision.rejections[0].message if decision.condition is None else decision.condition.message
    assert "not eligible due to preemptionPolicy=Never." in text
    assert ("preemption: not eligible" in text) is (of == "pod")
    world.settle()
    assert world.evicted == []
    assert world.incidents() == []


@pytest.mark.parametrize("of", ["pod", "group"])
def test_nominations_alone_are_recorded_and_tried_again_after_an_event(of: str) -> None:
    """preemption.md 2.8: no eviction, no error and no loop; the room is held for the nominated pods."""
    items, names = ([HIGH], _to(high="n1")) if of == "pod" else (CREW, BOTH)
    plugin = Evicts(names)
    world = World(*NODES, *LOW, *items, plugins=[plugin])
    decision = world.step()
    assert decision.result is Result.UNSCHEDULABLE
    assert not decision.retry_now
    assert {f"default/{name}": where for name, where in world.nominated.items()} == names
    world.drain()
    assert plugin.calls == 1
    assert world.evicted == []
    world.gone("low1")
    world.gone("low2")
    world.settle()
    assert {f"default/{name}": where for name, where in world.where.items()} == names
    assert world.incidents() == []


def test_no_second_eviction_while_the_first_victims_leave() -> None:
    """preemption.md 2.3, 2.8: the sign in the API is enough, after a restart for example."""
    leaving = pod("gone", cpu=4, node="n1", priority=1, terminating=True, preempted=True)
    mine = pod("high", cpu=4, priority=9, nominated="n1")
    world = World(*NODES, leaving, LOW[1], mine, plugins=[Evicts(_to(high="n2"), ["default/low2"])])
    decision = world.step()
    assert "not eligible due to a terminating pod on the nominated node." in decision.rejections[0].message
    assert decision.preemption is None
    assert world.evicted == []


def test_preemption_delay_holds_for_plugins() -> None:
    """preemption.md 2.8, cost.md 6"""
    mine = pod("high", cpu=4, priority=9, annotations=annotated(preemption_delay="50s"))
    world = World(*NODES, *LOW, mine, plugins=[Evicts(_to(high="n2"), ["default/low2"])])
    decision = world.step()
    assert decision.deferral is not None
    assert world.evicted == []
    world.settle()
    assert world.evicted == ["low2"]
    assert world.where["high"] == "n2"


def test_composite_counts_for_the_one_above_when_enough_of_its_groups_are_scheduled() -> None:
    """preemption.md 2.8, composite.md 3: the plugin nominates the pod of the other group."""
    tree = [
        composite("tree", min_groups=2, priority=9),
        composite("part", min_groups=1, parent="tree", priority=9),
        group("left", min_count=1, parent="part", priority=9),
        pod("left-0", cpu=4, node="n1", group="left", priority=9),
        *gang("right", 1, priority=9, parent="tree", cpu=4),
    ]
    world = World(*NODES, LOW[1], tree, plugins=[Evicts(_to(right_0="n2"), ["default/low2"])])
    world.settle()
    assert world.evicted == ["low2"]
