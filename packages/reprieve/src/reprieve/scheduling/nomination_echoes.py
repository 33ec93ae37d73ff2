"""Values of a pod's `status.nominatedNodeName`, observed and decided, so that an echo is recognised as one.

A nomination that is written comes back through the watch, perhaps after the next one was decided. Per pod a list is
kept: what was observed last, then what was decided since and has not been observed yet. An observed value that stands
in the list is an echo; any other is another scheduler's nomination, which is taken over (kube-scheduler:
nominator.UpdatePod).

Invariant: a pod that is not in here has no nomination in the API, and none is on its way there.
"""

from typing import Final

_ECHOES: Final = 8
"""Nominations of one pod that may be on their way to the API and back at one time."""


class NominationEchoes:
    """See the module docstring. Pods go by their UIDs; an empty node name is no nomination."""

    def __init__(self) -> None:
        self._values: dict[str, list[str]] = {}

    def begin(self, uid: str, node: str) -> None:
        """A pod is observed for the first time, with what the API has as its nomination."""
        self._values[uid] = [node]

    def decided(self, uid: str, node: str) -> None:
        """What will be written to the API."""
        values = self._values.setdefault(uid, [""])
        if values[-1] != node:
            values.append(node)
            if len(values) > _ECHOES:
                del values[1]

    def observe(self, uid: str, node: str) -> bool:
        """The value the API has now; whether it is another scheduler's: neither the one observed before nor an echo."""
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
        """The pod is gone or bound."""
        self._values.pop(uid, None)
