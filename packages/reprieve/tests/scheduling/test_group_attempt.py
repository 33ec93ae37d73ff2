"""What a PodGroupPostFilter can ask of the attempt that it is given (KEP-5710, "Pod Group Post Filter")."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from kube_rules.objects import Node
from reprieve.framework.plugin import (
    Placement,
    PodGroupAssignment,
    PodGroupAttempt,
    PodGroupPostFilterPlugin,
    PostFilterResult,
    TieBreaker,
)
from reprieve.framework.status import Code, Status
from reprieve.plugins.gang_scheduling import RETRY, GangScheduling
from tests.building import Item, World, composite, gang, group, node, pod, profile_with


class Asks(PodGroupPostFilterPlugin):
    """Keeps the answer to one question, and does not help."""

    name = "Asks"

    def __init__(self, question: Callable[[PodGroupAttempt], Any]) -> None:
        self.question = question
        self.answers: list[Any] = []

    def pod_group_post_filter(self, attempt: PodGroupAttempt) -> PostFilterResult:
        self.answers.append(self.question(attempt))
        return PostFilterResult(Status(Code.UNSCHEDULABLE))


def answer(question: Callable[[PodGroupAttempt], Any], *items: Item, retry: bool = False) -> Any:
    """What the first attempt of the only group among the items answers; it has to fail."""
    asks = Asks(question)
    more = [GangScheduling(RETRY)] if retry else []
    profile = profile_with(asks, *more, drop=["DefaultPreemption"])
    World(*items, profiles={profile.name: profile}).step()
    (found,) = asks.answers
    return found


def racks(cpu: int = 1) -> list[Node]:
    """Two nodes in each of two racks of two blocks."""
    return [
        node(f"{rack}{turn}", cpu=cpu, labels={"rack": rack, "block": rack[0]})
        for rack in ("a1", "a2", "b1", "b2")
        for turn in ("x", "y")
    ]


def names_of(placements: Sequence[Placement] | None) -> list[str] | None:
    return None if placements is None else [placement.name for placement in placements]


def where(attempt: PodGroupAttempt) -> tuple[list[str] | None, bool]:
    return names_of(attempt.placements), attempt.constrained_below


def places(attempt: PodGroupAttempt, found: PodGroupAssignment) -> dict[str, str]:
    return {one.name: attempt.cluster.nodes.names[row] for one, row in found.placed}


RACKS, BLOCKS = ["a1", "a2", "b1", "b2"], ["a", "b"]
TOO_MUCH = 99


@pytest.mark.parametrize(
    ("tree", "found"),
    [
        (gang("g", 2, cpu=TOO_MUCH), (None, False)),
        (gang("g", 2, cpu=TOO_MUCH, topology="rack"), (RACKS, False)),
        ([composite("t"), *gang("g", 2, cpu=TOO_MUCH, parent="t")], (None, False)),
        ([composite("t", topology="block"), *gang("g", 2, cpu=TOO_MUCH, parent="t")], (BLOCKS, False)),
        ([composite("t"), *gang("g", 2, cpu=TOO_MUCH, parent="t", topology="rack")], (RACKS, False)),
        ([composite("t", topology="block"), *gang("g", 2, cpu=TOO_MUCH, parent="t", topology="rack")], (BLOCKS, True)),
        (
            [composite("t"), composite("m", parent="t"), *gang("g", 2, cpu=TOO_MUCH, parent="m", topology="rack")],
            (RACKS, False),
        ),
        (
            [
                composite("t"),
                composite("m", parent="t", topology="block"),
                *gang("g", 2, cpu=TOO_MUCH, parent="m", topology="rack"),
            ],
            (BLOCKS, True),
        ),
        (
            [
                composite("t", min_groups=2),
                *gang("g", 2, cpu=TOO_MUCH, parent="t", topology="rack"),
                *gang("h", 1, parent="t", topology="rack"),
            ],
            (None, True),
        ),
        (
            [composite("t", min_groups=2), *gang("g", 2, cpu=TOO_MUCH, parent="t"), *gang("h", 1, parent="t")],
            (None, False),
        ),
    ],
)
def test_placements_are_those_of_the_topmost_group_that_all_pods_are_below(
    tree: list[Item], found: tuple[list[str] | None, bool]
) -> None:
    """composite.md 3.2: and whether groups beside or below it are constrained themselves."""
    placements, below = answer(where, *racks(), *tree)
    assert (placements and [name.rpartition("=")[2] for name in placements], below) == found


def test_choices_below_are_the_constrained_groups_with_more_than_one_placement_left() -> None:
    """composite.md 3.2: a placement of a group below is a part of the one above."""

    def question(attempt: PodGroupAttempt) -> list[list[tuple[str, int]]]:
        assert attempt.placements is not None
        first, second, third = attempt.placements
        alone = Placement("one", first.rows[:1])
        return [
            [(one.name, len(domains)) for one, domains in attempt.choices_below(within)]
            for within in (first, second, third, alone)
        ]

    tree = [
        composite("t", min_groups=2, topology="block"),
        *gang("g", 2, cpu=TOO_MUCH, parent="t", topology="rack"),
        *gang("h", 1, parent="t"),
    ]
    lone = node("c1x", cpu=1, labels={"rack": "c1", "block": "c"})
    assert answer(question, *racks(), lone, *tree) == [[("g", 2)], [("g", 2)], [], []]
    without = [composite("t", topology="block"), *gang("g", 2, cpu=TOO_MUCH, parent="t")]
    assert answer(question, *racks(), lone, *without) == [[], [], [], []]


class Last(TieBreaker):
    """Prefers the last of the rows, and keeps which were taken."""

    def __init__(self) -> None:
        self.taken: list[int] = []

    def narrow(self, rows: Any) -> Any:
        return rows[-1:]

    def took(self, row: int) -> None:
        self.taken.append(row)


@pytest.mark.parametrize(
    ("tree", "taken"),
    [
        (gang("g", 1, cpu=2), True),
        ([composite("t"), *gang("g", 1, cpu=2, parent="t")], True),
        ([composite("t", topology="block"), *gang("g", 1, cpu=2, parent="t", topology="rack")], False),
    ],
    ids=["a group", "a tree", "a tree with constraints of its own below"],
)
def test_ties_decide_between_nodes_of_equal_score(tree: list[Item], taken: bool) -> None:
    """`PodGroupAttempt.run`: before the names do; where groups below have placements of their own, names alone do."""

    def question(attempt: PodGroupAttempt) -> tuple[dict[str, str], int]:
        ties = Last()
        with attempt.cluster.trial():
            attempt.cluster.displace_all([one for one in attempt.cluster.pods.values() if one.row >= 0])
            everywhere = Placement("all", np.arange(len(attempt.cluster.nodes)))
            return places(attempt, attempt.run(ties, everywhere)), len(ties.taken)

    full = [pod(f"r-{one.metadata.name}", cpu=1, node=one.metadata.name) for one in racks()]
    assert answer(question, *racks(2), *full, *tree) == ({"g-0": "b2y" if taken else "a1x"}, int(taken))


def emptied(attempt: PodGroupAttempt, **more: Any) -> PodGroupAssignment:
    """What it finds with every pod that runs gone."""
    with attempt.cluster.trial():
        attempt.cluster.displace_all([one for one in attempt.cluster.pods.values() if one.row >= 0])
        return attempt.run(**more)


FIVE: list[Item] = [
    pod("p0", cpu=1, group="g"),
    pod("p1", cpu=7, group="g"),
    pod("p2", cpu=1, group="g"),
    pod("p3", cpu=8, group="g"),
    pod("p4", cpu=1, group="g"),
]
MACHINES: list[Item] = [
    node("n0", cpu=2, labels={"rack": "a"}),
    node("n1", cpu=3, labels={"rack": "b"}),
    node("n2", cpu=3, labels={"rack": "b"}),
    *(pod(f"r{turn}", cpu=cpu, node=f"n{turn}") for turn, cpu in enumerate((2, 3, 3))),
]


@pytest.mark.parametrize("tree", [False, True], ids=["a group", "a tree"])
@pytest.mark.parametrize(
    ("least", "feasible", "failed"),
    [(3, True, ["p1", "p3"]), (4, False, ["p1", "p3"]), (5, False, ["p1"])],
)
def test_why_members_have_no_place_is_reported_where_diagnose_is_set(
    least: int, feasible: bool, failed: list[str], tree: bool
) -> None:
    """`PodGroupAssignment.failed`: of those that were tried, in that order, and of the first what ruled it out."""

    def question(attempt: PodGroupAttempt) -> PodGroupAssignment:
        silent, loud = emptied(attempt), emptied(attempt, diagnose=True)
        assert (silent.failed, silent.diagnosis) == ({}, None)
        assert (silent.placed, silent.feasible) == (loud.placed, loud.feasible)
        return loud

    above: list[Item] = [composite("t")] if tree else []
    crew = group("g", min_count=least, parent="t" if tree else "")
    found = answer(question, *MACHINES, *above, crew, *FIVE)
    assert found.feasible is feasible
    assert [uid.rpartition("-")[2] for uid in found.failed] == failed
    assert set(found.failed.values()) == {"0/3 nodes are available: 3 Insufficient cpu."}
    assert found.diagnosis.message() == "0/3 nodes are available: 3 Insufficient cpu."
    if feasible:
        assert [one.name for one, _ in found.placed] == ["p0", "p2", "p4"]


@pytest.mark.parametrize("tree", [False, True], ids=["a group", "a tree"])
@pytest.mark.parametrize(
    ("rows", "placed"),
    [((1,), ["n1"] * 3), ((0,), []), ((2, 0), ["n0", "n2", "n2"])],
)
def test_within_is_the_only_placement_to_use(rows: tuple[int, ...], placed: list[str], tree: bool) -> None:
    """`PodGroupAttempt.run`: whatever placements the group has itself."""

    def question(attempt: PodGroupAttempt) -> list[str]:
        found = emptied(attempt, within=Placement("some", np.array(rows, dtype=np.int64)))
        return sorted(places(attempt, found).values()) if found.feasible else []

    above: list[Item] = [composite("t", topology="rack")] if tree else []
    crew = gang("g", 3, cpu=1, parent="t" if tree else "", topology=None if tree else "rack")
    assert answer(question, *MACHINES, *above, *crew) == placed


@pytest.mark.parametrize("retry", [False, True])
@pytest.mark.parametrize("tree", [False, True], ids=["a group", "a tree"])
def test_attempt_tries_other_orders_where_the_profile_does(tree: bool, retry: bool) -> None:
    """scheduling.md 3.9: p0 goes to the emptier node, which p1 cannot do without."""

    def question(attempt: PodGroupAttempt) -> list[dict[str, str]]:
        attempts = (emptied(attempt), emptied(attempt, within=Placement("all", np.arange(2))))
        return [places(attempt, found) for found in attempts if found.feasible]

    machines = [node("n0", cpu=2), node("n1", cpu=4), pod("r0", cpu=2, node="n0"), pod("r1", cpu=4, node="n1")]
    above: list[Item] = [composite("t")] if tree else []
    crew = group("g", min_count=2, parent="t" if tree else "")
    members = [pod("p0", cpu=2, group="g"), pod("p1", cpu=4, group="g")]
    found = answer(question, *machines, *above, crew, *members, retry=retry)
    assert found == ([{"p1": "n1", "p0": "n0"}] * 2 if retry else [])


def test_only_the_chosen_placements_of_groups_below_are_used() -> None:
    """`PodGroupAttempt.run`: by the `ref` of the group; others choose for themselves."""

    def question(attempt: PodGroupAttempt) -> list[dict[str, str]]:
        found = []
        for within, rack in ((0, 0), (0, 1), (1, 0), (1, 1)):
            assert attempt.placements is not None
            ((one, domains),) = attempt.choices_below(attempt.placements[within])
            chosen = {one.ref: domains[rack]}
            found.append(places(attempt, emptied(attempt, within=attempt.placements[within], chosen=chosen)))
        return found

    tree = [composite("t", topology="block"), *gang("g", 2, cpu=1, parent="t", topology="rack")]
    full = [pod(f"r-{one.metadata.name}", cpu=1, node=one.metadata.name) for one in racks()]
    found = answer(question, *racks(), *full, *tree)
    assert [set(each.values()) for each in found] == [{f"{rack}x", f"{rack}y"} for rack in RACKS]


def test_failed_attempt_and_nominations_of_members() -> None:
    """`PodGroupAttempt`: how many were placed without help; nominations of members, the first node's too."""

    def question(attempt: PodGroupAttempt) -> tuple[int, list[int], bool]:
        return attempt.placed_without_help, sorted(attempt.nominated_rows), attempt.preemption_under_way

    crew = [
        pod("p0", cpu=1, group="g", nominated="n0"),
        pod("p1", cpu=1, group="g", nominated="n2"),
        pod("p2", cpu=1, group="g"),
    ]
    machines = [node(f"n{turn}", cpu=cpu) for turn, cpu in enumerate((1, 1, 0))]
    assert answer(question, *machines, group("g", min_count=3), *crew) == (2, [0, 2], False)


def test_hopeful_placements_are_those_that_may_hold_enough_now() -> None:
    """KEP-5732: in the view as it is when it is asked, whatever was tried before; none without a constraint."""

    def question(attempt: PodGroupAttempt) -> list[list[str]]:
        before = [placement.name for placement in attempt.hopeful()]
        with attempt.cluster.trial():
            attempt.cluster.displace_all([one for one in attempt.cluster.pods.values() if one.row >= 0])
            return [before, [placement.name for placement in attempt.hopeful()]]

    assert answer(question, *MACHINES, *gang("g", 3, cpu=1, topology="rack")) == [[], ["b"]]
    assert answer(question, *MACHINES, *gang("g", 2, cpu=1, topology="rack")) == [[], ["a", "b"]]
    assert answer(question, *MACHINES, *gang("g", 2, cpu=1)) == [[], []]
