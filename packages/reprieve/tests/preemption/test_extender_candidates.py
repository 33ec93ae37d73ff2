"""What extenders receive of a candidate, and what their answers change in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from reprieve.framework.extenders import CandidatePlugin, VictimsOn
from reprieve.framework.plugin import CycleState
from reprieve.framework.status import PluginError
from reprieve.preemption.extender_candidates import judged
from reprieve.preemption.outcome import (
    Reason,
    Verdict,
)
from tests.building import World, gang, node, pod
from tests.preemption.by_name import units_of


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


def test_victim_named_by_an_extender_keeps_its_reason() -> None:
    world = _outside()
    n1 = world.row("n1")
    state = CycleState(world.engine.cluster, world.record("high"))
    found = judged([_Extender({n1: ["uid-w-0", "uid-a"]})], state, _candidates(world, "w"))
    assert {verdict.unit.name: verdict.reason and verdict.reason.plugin for verdict in found[n1]} == {
        "default/w": "NodeResourcesFit",
        "default/a": "outside",
    }


def test_unit_that_must_stay_is_not_named() -> None:
    """A failure names the extender; none is called once no candidates are left."""
    world = _outside()
    state = CycleState(world.engine.cluster, world.record("high"))
    with pytest.raises(PluginError, match=r"claims to preempt pod \(UID: uid-b\), which is not of lower priority"):
        judged([_Extender({world.row("n1"): ["uid-z", "uid-b"]})], state, _candidates(world, "w"))
    unused, next_one = _Extender({}), _Extender({})
    assert judged([unused, next_one], state, _candidates(world, "w")) == {}
    assert (len(unused.asked), len(next_one.asked)) == (1, 0)
