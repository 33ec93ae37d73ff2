"""What the cluster-autoscaler reports on a ProvisioningRequest, and when another is made (provisioning.md 5).

Pure: conditions in, a state out.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from reprieve.decisions.requested_nodes import ACCEPTED, EXPIRED, FAILED, PENDING, PROVISIONED, REVOKED

ENDED: Final = frozenset({FAILED, REVOKED, EXPIRED})
"""No more nodes come of a request in such a state."""
_BY_WEIGHT: Final = (FAILED, REVOKED, EXPIRED, PROVISIONED, ACCEPTED)
FIRST_BACKOFF: Final = 60.0
LONGEST_BACKOFF: Final = 1800.0
"""Seconds before another request is made after one that ended; doubled each time."""
_LONGEST_TEXT: Final = 300


class RequestState(NamedTuple):
    """The state of a request and, of the condition that decides, reason and message."""

    name: str
    why: str = ""

    @property
    def text(self) -> str:
        """Return it in words."""
        return f"{self.name}: {self.why}" if self.why else self.name


UNSEEN: Final = RequestState(PENDING)
"""Of a request that was not looked at yet."""


def state_of(conditions: Iterable[Mapping[str, Any]]) -> RequestState:
    """Return the state by the conditions that are True; the first of `_BY_WEIGHT` decides."""
    true = {str(one.get("type")): one for one in conditions if one.get("status") == "True"}
    for name in _BY_WEIGHT:
        if name in true:
            found = true[name]
            why = ": ".join(str(found[part]) for part in ("reason", "message") if found.get(part))
            return RequestState(name, why if len(why) <= _LONGEST_TEXT else f"{why[: _LONGEST_TEXT - 3]}...")
    return RequestState(PENDING)


def backoff(ended: int) -> float:
    """Return the seconds before another request is made; `ended`: how many did not help, at least one."""
    return float(min(FIRST_BACKOFF * 2 ** min(ended - 1, 10), LONGEST_BACKOFF))
