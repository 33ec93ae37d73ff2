"""The choice between candidates for a group as preemptor (preemption.md 4.6)."""

from collections.abc import Sequence

from reprieve.cluster.pods import PodRecord
from reprieve.framework.plugin import PodGroupAttempt
from reprieve.preemption.cost import BY_NAME, NO_VICTIMS, Criteria
from reprieve.preemption.group_view import GroupCandidate, price_of
from reprieve.preemption.outcome import CandidateComparison

BY_SCORE = "highest placement score"


def cheapest_of(
    attempt: PodGroupAttempt, candidates: Sequence[GroupCandidate], criteria: Criteria
) -> tuple[GroupCandidate, CandidateComparison | None]:
    """Return the cheapest; among equals the one with the group's highest score without its victims, then the first.

    Also return the next best of the last remaining ones, with the steps of the comparison.
    """
    left = rivals = list(candidates)
    steps: list[tuple[str, int]] = []
    for position, criterion in enumerate((NO_VICTIMS, *criteria.texts)):
        if len(left) > 1:
            costs = [_part_of_price(candidate, position) for candidate in left]
            cheapest = min(costs)
            if max(costs) > cheapest:
                rivals, left = left, [c for c, cost in zip(left, costs, strict=True) if cost == cheapest]
                steps.append((criterion, len(left)))
    if len(left) > 1:
        scores = attempt.placement_scores(
            [(c.placement, c.assignment.placed, _victim_pods(c)) for c in left if c.placement is not None]
        )
        if min(scores) < max(scores):
            rivals, left = left, [c for c, score in zip(left, scores, strict=True) if score == max(scores)]
            steps.append((BY_SCORE, len(left)))
    best = left[0]
    if len(left) > 1:
        rivals = left
        steps.append((BY_NAME, 1))
    rivals = [candidate for candidate in rivals if candidate is not best]
    if not rivals:
        return best, None
    second = min(rivals, key=price_of)
    assert second.placement is not None
    return best, CandidateComparison(second.placement.name, second.cost, tuple(steps))


def _part_of_price(candidate: GroupCandidate, position: int) -> float:
    """Return one number of a candidate's price: whether any pods are evicted, then the parts of the cost."""
    evicts, cost = candidate.price
    return evicts if position == 0 else cost[position - 1] if evicts else 0.0


def _victim_pods(candidate: GroupCandidate) -> list[PodRecord]:
    return [pod for unit in candidate.victims() for pod in unit.pods]
