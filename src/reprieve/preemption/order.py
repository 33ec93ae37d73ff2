"""The order in which units are judged (preemption.md 3.4, 5, 6)."""

from collections.abc import Iterable, Sequence

from reprieve.cluster.budgets import violating
from reprieve.cluster.state import ClusterState
from reprieve.preemption.units import PreemptionUnit


def by_importance(
    cluster: ClusterState, units: Sequence[PreemptionUnit]
) -> tuple[list[PreemptionUnit], list[bool], list[int]]:
    """Units by importance, whether each violates a budget, and the indices in the order they are tried.

    Those that violate a budget are tried first, each class from the most important down.
    """
    ordered = sorted(units, key=lambda unit: unit.importance)
    violations = violating([unit.pods for unit in ordered], list(cluster.budgets.values()))
    return ordered, violations, sorted(range(len(ordered)), key=lambda i: not violations[i])


class Ranking:
    """Units by importance, worked out once for everything that is judged in one view.

    `ordered` and `violations` are by importance; `order` holds indices into them as they are tried.
    """

    def __init__(self, cluster: ClusterState, units: Sequence[PreemptionUnit]) -> None:
        self.ordered, self.violations, self.order = by_importance(cluster, units)
        self._turns: dict[int, list[int]] = {}
        for turn, index in enumerate(self.order):
            for row in set(self.ordered[index].rows):
                self._turns.setdefault(row, []).append(turn)

    def on(self, rows: Iterable[int]) -> list[int]:
        """Indices of the units with a pod on any of the rows, as they are tried."""
        turns = {turn for row in rows for turn in self._turns.get(row, ())}
        return [self.order[turn] for turn in sorted(turns)]
