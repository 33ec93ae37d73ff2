"""What the queue asks about those that wait, where many do (scheduling.md 1.7)."""

from typing import Protocol

from reprieve.queueing.entity import Entity


class Reach(Protocol):
    """Who among those that wait certainly cannot be placed in the present picture."""

    def refresh(self) -> None:
        """The picture may have changed since the last call."""

    def out_of_reach(self, entity: Entity) -> frozenset[str]:
        """The plugins whose events can change that it cannot be placed; empty: it may be."""

    def forget(self, key: str) -> None:
        """The entity waits no more, or needs something else."""
