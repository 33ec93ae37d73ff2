"""What preemption asks of plugins that stand for HTTP extenders (scheduling.md 6, upstream's `ProcessPreemption`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reprieve.cluster.pods import PodRecord
from reprieve.framework.plugin import CycleState, Plugin


@dataclass(frozen=True, slots=True)
class VictimsOn:
    """The pods that would be evicted on one row, and how many of them violate a budget."""

    pods: tuple[PodRecord, ...]
    violations: int = 0


class CandidatePlugin(Plugin):
    """Takes part in choosing where to preempt and which pods; asked for single pods as preemptors, as upstream."""

    def judges_candidates(self, state: CycleState) -> bool:
        """Return whether it has something to say about this preemptor."""
        return False

    def judge_candidates(self, state: CycleState, candidates: Mapping[int, VictimsOn]) -> Mapping[int, Sequence[str]]:
        """Row -> UIDs of the victims there, for rows that stay candidates. Every UID is of a pod on its row."""
        raise NotImplementedError
