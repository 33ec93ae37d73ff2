"""Assumed pods that a Permit plugin lets wait (scheduling.md 2): they keep their room until it has decided."""

from reprieve.framework.running import RunningProfile
from reprieve.framework.status import Code, Status
from reprieve.scheduling.decision import SCHEDULER_ERROR, UNSCHEDULABLE, Binding, Rejection
from reprieve.scheduling.reserving import permitted

PERMIT_TIMEOUT = 900.0
"""Seconds; who has waited for so long is refused, as by kube-scheduler (at most 15 minutes there)."""


class PodsAwaitingPermission:
    """See the module docstring."""

    def __init__(self) -> None:
        self._since: dict[str, tuple[Binding, float]] = {}
        """By UID, and since when."""

    def __len__(self) -> int:
        return len(self._since)

    def add(self, binding: Binding, now: float) -> None:
        """A Permit plugin asked to wait."""
        self._since[binding.pod.uid] = (binding, now)

    def pop(self, uid: str) -> Binding | None:
        """The pod waits no longer; returns what it waited for."""
        found = self._since.pop(uid, None)
        return found[0] if found is not None else None

    def bindings(self) -> list[Binding]:
        """All that wait, in the order they began to."""
        return [binding for binding, _ in self._since.values()]

    def ask(self, running: RunningProfile, binding: Binding, now: float) -> Status | Rejection:
        """Ask the Permit plugins again about one that waits: SUCCESS, WAIT, or why it is refused."""
        status = permitted(running, binding)
        late = now - self._since[binding.pod.uid][1] >= PERMIT_TIMEOUT
        if status.ok or (status.code is Code.WAIT and not late):
            return status
        text = status.reason or f"{status.plugin} did not permit it in {PERMIT_TIMEOUT:.0f} s"
        return Rejection(binding.pod, SCHEDULER_ERROR if status.code is Code.ERROR else UNSCHEDULABLE, text)
