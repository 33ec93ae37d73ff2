"""Preemptions that were decided, with victims that are still there.

A preemptor goes by the ref of its entity (a pod or a group), a victim by UID.  Two preemptors may have decided on
the same victim: it counts for both until it has left.

Invariant: both tables say the same, and neither has an empty set.
"""

from collections.abc import Iterable


class PreemptionsInFlight:
    """See the module docstring."""

    def __init__(self) -> None:
        self._victims: dict[str, set[str]] = {}
        self._preemptors: dict[str, set[str]] = {}

    def __len__(self) -> int:
        return len(self._victims)

    def waits(self, ref: str) -> bool:
        """Return whether victims of that preemptor are still there."""
        return ref in self._victims

    def victims_of(self, ref: str) -> list[str]:
        """UIDs of the victims of that preemptor that are still there, sorted."""
        return sorted(self._victims.get(ref, ()))

    def is_victim(self, uid: str) -> bool:
        """Return whether a preemptor waits for the pod to leave."""
        return uid in self._preemptors

    def begin(self, ref: str, victims: Iterable[str]) -> bool:
        """A preemption was decided, in place of any earlier one of the same preemptor; whether it has victims."""
        self.forget(ref)
        chosen = set(victims)
        if chosen:
            self._victims[ref] = chosen
            for uid in chosen:
                self._preemptors.setdefault(uid, set()).add(ref)
        return bool(chosen)

    def left(self, uid: str) -> list[str]:
        """The pod has left, if it was a victim at all; return the preemptors with no victims left."""
        done = []
        for ref in self._preemptors.pop(uid, ()):
            victims = self._victims[ref]
            victims.discard(uid)
            if not victims:
                del self._victims[ref]
                done.append(ref)
        return done

    def forget(self, ref: str) -> None:
        """The victims of that preemptor that still leave are not waited for any more."""
        for uid in self._victims.pop(ref, ()):
            preemptors = self._preemptors[uid]
            preemptors.discard(ref)
            if not preemptors:
                del self._preemptors[uid]
