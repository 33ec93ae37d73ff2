"""Preemptions in progress: decided, with victims that still exist.

A preemptor is identified by the ref of its entity (a pod or a group), a victim by UID.  Two preemptors may have decided
on the same victim: it counts for both until it is deleted. Invariant: both tables have the same content, and neither
has an empty set.
"""

from collections.abc import Iterable


class PreemptionsInFlight:
    """See the module docstring."""

    def __init__(self) -> None:
        self._victims: dict[str, set[str]] = {}
        self._preemptors: dict[str, set[str]] = {}

    def __len__(self) -> int:
        return len(self._victims)

    def has_victims(self, ref: str) -> bool:
        """Return whether victims of that preemptor still exist."""
        return ref in self._victims

    def victims_of(self, ref: str) -> list[str]:
        """Return the UIDs of existing victims of that preemptor, sorted."""
        return sorted(self._victims.get(ref, ()))

    def is_victim(self, uid: str) -> bool:
        """Return whether a preemptor waits for the pod to terminate."""
        return uid in self._preemptors

    def begin(self, ref: str, victims: Iterable[str]) -> bool:
        """Record a preemption, in place of any earlier one of the preemptor; return whether it has victims."""
        self.forget(ref)
        chosen = set(victims)
        if chosen:
            self._victims[ref] = chosen
            for uid in chosen:
                self._preemptors.setdefault(uid, set()).add(ref)
        return bool(chosen)

    def remove_victim(self, uid: str) -> list[str]:
        """Remove a victim, if the pod is one; return the preemptors with no victims left."""
        done = []
        for ref in self._preemptors.pop(uid, ()):
            victims = self._victims[ref]
            victims.discard(uid)
            if not victims:
                del self._victims[ref]
                done.append(ref)
        return done

    def forget(self, ref: str) -> None:
        """Stop waiting for the remaining victims of that preemptor."""
        for uid in self._victims.pop(ref, ()):
            preemptors = self._preemptors[uid]
            preemptors.discard(ref)
            if not preemptors:
                del self._preemptors[uid]
