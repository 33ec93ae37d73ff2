"""The capacity of one lost member of a gang (repair.md 2)."""

from dataclasses import dataclass
from typing import Final

from reprieve.cluster.pods import PodRecord

STAND_IN: Final = "lost/"
"""Begins the UIDs of stand-ins: no UID of the API has a slash."""


@dataclass(slots=True, eq=False)
class LostPlace:
    """Where a lost member ran, and what keeps its capacity. Times are seconds."""

    group: str
    """`namespace/name` of the pod group."""
    lost: PodRecord
    row: int
    node: str
    until: float
    """When it is free for all at the latest."""
    keeper: PodRecord
    """The stand-in, or the replacement: the pod that is nominated there."""

    @property
    def replaced(self) -> bool:
        """Return whether the replacement is known."""
        return not self.keeper.uid.startswith(STAND_IN)
