"""The interface of preemption to plugins for HTTP extenders (scheduling.md 6, upstream's `ProcessPreemption`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reprieve.cluster.pods import PodRecord
from reprieve.framework.plugin import CycleState, Plugin


@dataclass(frozen=True, slots=True)
class VictimsOn:
    """The victims on one row, and the number of them that violate a budget."""

    pods: tuple[PodRecord, ...]
    violations: int = 0


class CandidatePlugin(Plugin):
    """Takes part in the choice of nodes and victims; called for single pods as preemptors, as upstream."""

    def judges_candidates(self, state: CycleState) -> bool:
        """Return whether the plugin concerns this preemptor."""
        return False

    def judge_candidates(self, state: CycleState, candidates: Mapping[int, VictimsOn]) -> Mapping[int, Sequence[str]]:
        """Return row -> UIDs of the victims there, for rows that stay candidates. Every UID is of a pod on its row."""
        raise NotImplementedError
