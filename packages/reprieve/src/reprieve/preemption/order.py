"""The order in which units are judged (preemption.md 3.4, 5, 6)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from reprieve.cluster.budgets import exceeding, violating
from reprieve.cluster.state import ClusterState
from reprieve.preemption.cost import UPSTREAM, Costing, Criteria
from reprieve.preemption.units import PreemptionUnit


class RankedUnits(NamedTuple):
    """Units by importance, whether each violates a budget, and the indices in the order they are tried."""

    units: list[PreemptionUnit]
    violations: list[bool]
    order: list[int]


def by_importance(
    cluster: ClusterState,
    units: Sequence[PreemptionUnit],
    criteria: Criteria = UPSTREAM,
    costing: Costing | None = None,
) -> RankedUnits:
    """Return units in the order in which they are judged.

    Those that violate a budget are tried first, each class from the most important down, unless other criteria define
    the cost (`Criteria.dearest_first`).
    """
    ordered = sorted(units, key=lambda unit: unit.importance)
    violations = violating([unit.pods for unit in ordered], cluster.budget_index)
    return RankedUnits(ordered, violations, criteria.dearest_first(ordered, violations, costing))


class Ranking:
    """Units by importance, computed once for all judgements in one view.

    `ordered` and `violations` are by importance; `order` holds indices into them in the order of trials.
    `charged[unit]`: the number of its pods that each budget counts; `allowed[budget]`: the number that may be evicted
    (`reprieve.cluster.budgets.BudgetIndex`).
    """

    def __init__(
        self,
        cluster: ClusterState,
        units: Sequence[PreemptionUnit],
        criteria: Criteria = UPSTREAM,
        costing: Costing | None = None,
    ) -> None:
        self.criteria, self.costing = criteria, costing
        ordered = sorted(units, key=lambda unit: unit.importance)
        index = cluster.budget_index
        self._take(ordered, index.charges([unit.pods for unit in ordered]), index.allowed)

    def _take(
        self, ordered: list[PreemptionUnit], charged: Sequence[Mapping[int, int]], allowed: Sequence[int]
    ) -> None:
        self.ordered, self.charged, self.allowed = ordered, charged, allowed
        self.violations = exceeding(charged, allowed)
        self.order = self.criteria.dearest_first(ordered, self.violations, self.costing)
        self._turns: dict[int, list[int]] = {}
        for turn, index in enumerate(self.order):
            for row in set(self.ordered[index].rows):
                self._turns.setdefault(row, []).append(turn)

    def only(self, indices: Iterable[int]) -> "Ranking":
        """Return the ranking of some of the units; budgets are counted over them alone."""
        chosen = sorted(indices)
        result = Ranking.__new__(Ranking)
        result.criteria, result.costing = self.criteria, self.costing
        result._take([self.ordered[i] for i in chosen], [self.charged[i] for i in chosen], self.allowed)
        return result

    def violating(self, indices: Iterable[int]) -> list[bool]:
        """Return which of the units, given by ascending index, violate a budget if they and no others are evicted."""
        return exceeding([self.charged[i] for i in indices], self.allowed)

    def on(self, rows: Iterable[int]) -> list[int]:
        """Return indices of the units with a pod on any of the rows, in the order of trials."""
        turns = {turn for row in rows for turn in self._turns.get(row, ())}
        return [self.order[turn] for turn in sorted(turns)]
