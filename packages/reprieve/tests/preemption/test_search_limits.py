"""Limits that end the search for the cheapest eviction are named (cost.md 4.15)."""

from __future__ import annotations

import pytest

from reprieve.decisions.preemptions import preemption_record
from reprieve.preemption import group_victims
from reprieve.preemption.outcome import LimitKind, Preemption, SearchLimit
from reprieve.preemption.pinned_choices import MOST_NODES_SEARCHED
from reprieve.preemption.replaced_group import PlacingWork
from reprieve.preemption.spread_shares import MOST_DOMAINS
from reprieve.preemption.victim_search import node_tables
from tests.building import Item, World, group, node, pod
from tests.plugins.neighbours import spread, spreading

ZONE = "topology.kubernetes.io/zone"


def _spread_gang(domains: int, world: list[World]) -> Preemption:
    """A gang of one pod for each domain, in a full cluster with a node for each, and a second one for the first.

    The pod of the last domain is dearer than that of the second node, which the constraint forbids to take instead.
    """
    items: list[Item] = [group("crew", min_count=domains, priority=9)]
    items += [node("n-more", cpu=2, labels={ZONE: "z00"}), pod("low-more", cpu=2, node="n-more")]
    for number in range(domains):
        items.append(node(f"n{number:02}", cpu=2, labels={ZONE: f"z{number:02}"}))
        items.append(pod(f"low-{number:02}", cpu=2, node=f"n{number:02}", priority=number // (domains - 1)))
        member = pod(f"crew-{number:02}", cpu=2, group="crew", priority=9, labels={"app": "crew"})
        items.append(spreading(member, spread(ZONE, {"app": "crew"})))
    world.append(World(*items))
    found = world[-1].step().preemption
    assert found is not None
    assert len(found.victims) == domains
    return found


def test_more_domains_of_a_spread_than_are_compared_are_named() -> None:
    """cost.md 4.13, 4.15: in the decision, and so in its record, in `explain` and in a plan."""
    worlds: list[World] = []
    found = _spread_gang(MOST_DOMAINS + 1, worlds)
    assert found.limits == (SearchLimit(LimitKind.SPREAD_DOMAINS, MOST_DOMAINS, MOST_DOMAINS + 1),)
    record = preemption_record(worlds[0].engine.cluster, found, worlds[0].now)
    assert record.cost_notes == (
        "Its topology spread has 13 domains: up to 12 are compared by cost. A cheaper eviction may exist.",
    )
    assert not _spread_gang(MOST_DOMAINS, worlds).limits


def _with_work(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Let the searches of a preemption have so many nodes and units together."""
    made = PlacingWork.of
    monkeypatch.setattr(PlacingWork, "of", classmethod(lambda _, view: PlacingWork(made(view).left, most)))


@pytest.mark.parametrize("most", [20, 100])
def test_comparison_that_ended_early_is_named(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """cost.md 4.13, 4.15: one search of all takes 10 nodes and units, those of domains together as many.

    It is named unless everything was added up node by node.
    """
    _with_work(monkeypatch, most)
    assert not _spread_gang(4, []).limits
    monkeypatch.setattr(node_tables, "_MOST_STEPS", 0)
    limit = SearchLimit(LimitKind.SPREAD_WORK, MOST_NODES_SEARCHED)
    assert _spread_gang(4, []).limits == ((limit,) if most < 100 else ())


def test_search_that_is_too_large_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """cost.md 4.13, 4.15"""
    _with_work(monkeypatch, 18)
    monkeypatch.setattr(group_victims, "MOST_NODES_SEARCHED", 18)
    assert _spread_gang(4, []).limits == (SearchLimit(LimitKind.SPREAD_SIZE, 9, 10),)


def test_proposal_that_works_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """cost.md 4.5: the constraint leaves fewer evictions than the numbers know, so none is cheaper."""
    _with_work(monkeypatch, 0)
    items: list[Item] = [group("crew", min_count=2, priority=9)]
    for name in "ab":
        items += [node(name, cpu=2, labels={ZONE: name}), pod(f"low-{name}", cpu=2, node=name)]
        items.append(spreading(pod(f"crew-{name}", cpu=2, group="crew", priority=9), spread(ZONE, {"app": "crew"})))
    found = World(*items).step().preemption
    assert found is not None
    assert len(found.victims) == 2
    assert not found.limits
