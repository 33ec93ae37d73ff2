"""Rules about other pods, kept up to date while units are put back (preemption.md 4.3).

The k-th assigned pod's rules are counted once in a view with the assigned pods before it and not those after.  What
happens afterwards - a unit put back, or taken away again - is the same for all of them and is told to the filters pod
by pod, so nothing is counted again; the plain path in `reprieve.preemption.reprieving` does count everything again,
and property tests hold the two equal.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.framework.evaluation import Evaluator
from reprieve.framework.plugin import CycleState, FilterPlugin
from reprieve.preemption.units import PreemptionUnit


@dataclass(slots=True)
class _Ruled:
    """One assigned pod with rules: its place in scheduling order and what its filters have counted."""

    index: int
    state: CycleState
    active: list[FilterPlugin]


class StandingRules:
    """The rules of all assigned pods that have any, in scheduling order."""

    def __init__(self, kinds: list[list[_Ruled]]) -> None:
        self._kinds = kinds
        """Pods whose rules read the same, together: what counts for one counts for all."""
        self.active = {ruled.index: ruled.active for kind in kinds for ruled in kind}

    @classmethod
    def counted(
        cls,
        cluster: ClusterState,
        evaluator: Evaluator,
        states: Sequence[CycleState],
        assigned: Sequence[tuple[PodRecord, int]],
    ) -> "StandingRules | None":
        """Count for all assigned pods, in the present view; None if some filter cannot follow step by step."""
        kinds: dict[object, list[_Ruled]] = {}
        with cluster.trial():
            for index, (state, (pod, row)) in enumerate(zip(states, assigned, strict=True)):
                active = evaluator.rules(state)
                if any(not plugin.incremental for plugin in active):
                    return None
                if active:
                    key = (pod.signature.id, cluster.kinship.kin(pod).id, pod.owner)
                    kinds.setdefault(key, []).append(_Ruled(index, state, active))
                cluster.place(pod, row)
        return cls(list(kinds.values()))

    def add(self, unit: PreemptionUnit) -> set[int]:
        """The unit is back; returns the assigned pods (by index) whose rules it counts for."""
        concerned: set[int] = set()
        for pod, row in zip(unit.pods, unit.rows, strict=True):
            for kind in self._kinds:
                if _tell(kind[0], pod, row, 1):
                    for ruled in kind[1:]:
                        _tell(ruled, pod, row, 1)
                    concerned.update(ruled.index for ruled in kind)
        return concerned

    def remove(self, unit: PreemptionUnit) -> None:
        """The unit goes after all."""
        for pod, row in zip(unit.pods, unit.rows, strict=True):
            for kind in self._kinds:
                if _tell(kind[0], pod, row, -1):
                    for ruled in kind[1:]:
                        _tell(ruled, pod, row, -1)


def _tell(ruled: _Ruled, pod: PodRecord, row: int, by: int) -> bool:
    counts = False
    for plugin in ruled.active:
        tell = plugin.add_pod if by > 0 else plugin.remove_pod
        counts = tell(ruled.state, pod, row) or counts
    return counts
