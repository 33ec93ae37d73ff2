"""Decisions to preempt as data, for tests of their texts."""

from __future__ import annotations

from typing import Any

from reprieve.decisions.outcomes import PlacingByScore, PreemptionOutcome, PreemptorName
from reprieve.decisions.records import (
    CandidateRecord,
    Comparison,
    CostRecord,
    EvictionReason,
    PreemptionRecord,
    UnitRecord,
)
from reprieve.simulation.report import PlannedPreemption

WHY = EvictionReason(pod="a/x", node="n1", plugin="NodeResourcesFit", text="Insufficient cpu")


def unit(name: str, *, evicted: bool = True, **more: Any) -> UnitRecord:
    """Return a unit `a/NAME` of one pod on n1 with priority 1."""
    key = f"a/{name}"
    fields = {
        "kind": "Pod",
        "outcome": "Evicted" if evicted else "Reprieved",
        "priority": 1,
        "pods": 1,
        "pod_names": (key,),
        "nodes": ("n1",),
        "why": WHY if evicted else None,
        **more,
    }
    return UnitRecord(unit=key, **fields)


def record(*units: UnitRecord, more_spared: int = 0, candidates: int = 1) -> PreemptionRecord:
    """Return a decision about these units."""
    evicted = tuple(one for one in units if one.outcome != "Reprieved")
    reprieved = tuple(one for one in units if one.outcome == "Reprieved")
    return PreemptionRecord(
        domain="n1",
        potential_victims=len(units),
        evicted=evicted,
        reprieved=reprieved,
        reprieved_total=len(reprieved) + more_spared,
        cost=CostRecord(units=len(evicted), pods=sum(one.pods for one in evicted), highest_priority=1),
        comparison=Comparison(candidates=candidates, chosen=CandidateRecord(domain="n1")),
        nominations=(),
        nominations_total=0,
    )


def planned(
    *units: UnitRecord,
    preemptor: str = "Pod",
    domain: str = "n1",
    candidates: int = 1,
    more_spared: int = 0,
    needed: str = "",
    freed: str = "",
    by_score: tuple[int, int] | None = None,
    **more: Any,
) -> PlannedPreemption:
    """Return a preemption of a plan for a/x with priority 9; `needed` and `freed`: cpu; `by_score`: pods, priority."""
    outcome = PreemptionOutcome(
        preemptor=PreemptorName(kind=preemptor, namespace="a", name="x", priority=9),
        domain=domain,
        nominations={},
        victims=(),
        reprieved=0,
        pdb_violations=0,
        needed={"cpu": needed} if needed else {},
        freed={"cpu": freed} if freed else {},
        by_score=PlacingByScore(pods=by_score[0], highest_priority=by_score[1], freed={}) if by_score else None,
    )
    return PlannedPreemption(outcome, record(*units, more_spared=more_spared, candidates=candidates), **more)
