"""Cascades of the evictions for a group as preemptor (cost.md 3)."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from reprieve.preemption.group_choice import cheapest_of
from reprieve.preemption.group_view import GroupCandidate, GroupCandidates, GroupRequest, price_of
from reprieve.preemption.outcome import CascadeAvoided
from reprieve.preemption.protected_units import potential_victims
from reprieve.preemption.units import PreemptionUnit, scheduled_pods

_MOST_CASCADES = 8
"""Maximum number of candidates, and of alternative evictions, that are evaluated if evictions in turn count."""


def with_cascades(
    request: GroupRequest, before: GroupCandidates, search: Callable[[Sequence[PreemptionUnit]], GroupCandidates]
) -> tuple[GroupCandidates, CascadeAvoided | None]:
    """Add the evictions in turn by victims to the cost of candidates; also return the avoided eviction (cost.md 3).

    A few further evictions are searched without the units that would evict others; `search`: returns the candidates if
    only certain units may be evicted.
    """
    cluster, cascades = request.running.cluster, request.options.cascades
    assert cascades is not None
    attempt, criteria = request.attempt, request.options.criteria
    first = cheapest_of(attempt, before.candidates, criteria)[0]

    def counted(candidate: GroupCandidate) -> GroupCandidate:
        if candidate.cost is None:
            return candidate
        steps = cascades.after(candidate.victims(), candidate.assignment.placed)
        return replace(candidate, cascade=steps, cost=cascades.cost(candidate.evicted(), steps, candidate.cost))

    candidates = [counted(candidate) for candidate in sorted(before.candidates, key=price_of)[:_MOST_CASCADES]]
    best = min(candidates, key=price_of)
    spared: set[str] = set()
    for _ in range(_MOST_CASCADES):
        culprits = {step.evictor.name for step in best.cascade if step.level == 1} - spared
        if not culprits:
            break
        spared |= culprits
        units = potential_victims(cluster, request.priority, scheduled_pods(cluster), request.terms)
        alternatives = search([unit for unit in units if unit.name not in spared]).candidates
        instead = [counted(candidate) for candidate in sorted(alternatives, key=price_of)[:_MOST_CASCADES]]
        cheaper = [candidate for candidate in instead if candidate.price < best.price]
        if not cheaper:
            break
        best = min(cheaper, key=price_of)
        candidates = instead
    avoided = None
    chosen = cheapest_of(attempt, candidates, criteria)[0]
    if {unit.name for unit in chosen.victims()} != {unit.name for unit in first.victims()}:
        steps = cascades.after(first.victims(), first.assignment.placed)
        avoided = CascadeAvoided(tuple(first.victims()), steps)
    return replace(before, candidates=candidates), avoided
