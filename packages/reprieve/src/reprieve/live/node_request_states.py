"""The state that the cluster-autoscaler reports on a ProvisioningRequest, and the next request (provisioning.md 5).

Pure functions of conditions.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from reprieve.decisions.requested_nodes import ACCEPTED, EXPIRED, FAILED, PENDING, PROVISIONED, REVOKED

ENDED: Final = frozenset({FAILED, REVOKED, EXPIRED})
"""States in which a request brings no more nodes."""
_BY_WEIGHT: Final = (FAILED, REVOKED, EXPIRED, PROVISIONED, ACCEPTED)
FIRST_BACKOFF: Final = 60.0
LONGEST_BACKOFF: Final = 1800.0
"""The backoff in seconds before the request after one that ended; doubled each time."""
_LONGEST_TEXT: Final = 300


class RequestState(NamedTuple):
    """The state of a request, with the reason and message of its deciding condition."""

    name: str
    why: str = ""

    @property
    def text(self) -> str:
        """Return the state in words."""
        return f"{self.name}: {self.why}" if self.why else self.name


UNSEEN: Final = RequestState(PENDING)
"""The state of a request that was not read yet."""


def state_of(conditions: Iterable[Mapping[str, Any]]) -> RequestState:
    """Return the state by the conditions that are True; the first of `_BY_WEIGHT` decides."""
    true = {str(condition.get("type")): condition for condition in conditions if condition.get("status") == "True"}
    for name in _BY_WEIGHT:
        if name in true:
            deciding = true[name]
            why = ": ".join(str(deciding[part]) for part in ("reason", "message") if deciding.get(part))
            return RequestState(name, why if len(why) <= _LONGEST_TEXT else f"{why[: _LONGEST_TEXT - 3]}...")
    return RequestState(PENDING)


def backoff(ended: int) -> float:
    """Return the seconds before the next request; `ended`: how many did not help, at least one."""
    return float(min(FIRST_BACKOFF * 2 ** min(ended - 1, 10), LONGEST_BACKOFF))
