"""Observed and decided values of a pod's `status.nominatedNodeName`, to recognize echoes.

A written nomination comes back through the watch, perhaps after the next decision. The list of a pod has the last
observed value, then the decided values that have not been observed yet. An observed value in the list is an echo; any
other is another scheduler's nomination, which is adopted (kube-scheduler: nominator.UpdatePod). Invariant: a pod
without a list has no nomination in the API, and none is being written.
"""

from typing import Final

_ECHOES: Final = 8
"""Maximum number of nominations of one pod that are written and not observed yet."""


class NominationEchoes:
    """See the module docstring. Pods are identified by UID; an empty node name is no nomination."""

    def __init__(self) -> None:
        self._values: dict[str, list[str]] = {}

    def begin(self, uid: str, node: str) -> None:
        """Record a pod that is observed for the first time, with its nomination in the API."""
        self._values[uid] = [node]

    def record(self, uid: str, node: str) -> None:
        """Record a value that will be written to the API."""
        values = self._values.setdefault(uid, [""])
        if values[-1] != node:
            values.append(node)
            if len(values) > _ECHOES:
                del values[1]

    def observe(self, uid: str, node: str) -> bool:
        """Record the value in the API; return whether it is from another scheduler, neither known nor an echo."""
        values = self._values.get(uid, [""])
        if node not in values:
            self._values[uid] = [node]
            return True
        del values[: values.index(node)]
        if values == [""]:
            self._values.pop(uid, None)
        return False

    def stands(self, uid: str) -> bool:
        """Return whether the API has a nomination, or will have one once everything is written."""
        return bool(self._values.get(uid, [""])[-1])

    def forget(self, uid: str) -> None:
        """Forget a pod that is deleted or bound."""
        self._values.pop(uid, None)
