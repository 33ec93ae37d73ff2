"""What an eviction costs, for choosing between domains and placements (preemption.md 3)."""

from collections.abc import Sequence

from reprieve.preemption.outcome import Cost as Cost
from reprieve.preemption.outcome import Verdict

CRITERIA = (
    "fewest PodDisruptionBudget violations",
    "lowest priority of the most important victim",
    "smallest sum of victim priorities",
    "fewest victim pods",
    "latest start of the most important victims",
)
"""What the parts of a `Cost` are, in order."""
BY_NAME = "first by name"
PRIORITY_OFFSET = 1 << 31
"""Added to every priority before summing, so that negative ones count right."""


def cost_of(verdicts: Sequence[Verdict]) -> Cost | None:
    """A sortable cost, cheapest first; None where nobody has to go.

    In order: units that violate a budget; the highest victim priority; the sum of the victims' priorities; the number
    of victim pods; and the earliest start among the highest-priority victims, later being cheaper.
    """
    evicted = [v for v in verdicts if v.evicted]
    if not evicted:
        return None
    highest = max(v.unit.priority for v in evicted)
    earliest = min(v.unit.start for v in evicted if v.unit.priority == highest)
    return (
        sum(1 for v in evicted if v.violates_pdb),
        highest,
        sum((v.unit.priority + PRIORITY_OFFSET) * len(v.unit.pods) for v in evicted),
        sum(len(v.unit.pods) for v in evicted),
        -earliest,
    )
