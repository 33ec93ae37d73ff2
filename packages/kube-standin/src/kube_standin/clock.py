"""Time and randomness of the control plane, in one place so that tests can set them."""

from __future__ import annotations

import math
import secrets
import time
from datetime import UTC, datetime, timedelta

from kube_rules.controllers.pods import NAME_ALPHABET


class ServerClock:
    """The real clock; ``now`` is in UTC."""

    def now(self) -> datetime:
        """Return the current time."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds of a monotonic clock for measuring durations."""
        return time.monotonic()

    def real_seconds_until(self, moment: datetime) -> float:
        """Return the real seconds until the clock reaches a time; infinity if it never does by itself."""
        return max(0.0, (moment - self.now()).total_seconds())

    def stamp(self) -> str:
        """Return the current time in the format of metadata: seconds, ``Z``."""
        return stamp(self.now())

    def uid(self) -> str:
        """Return a new UID."""
        # A version 4 UUID (RFC 9562), formatted by hand: uuid.uuid4 takes four times as long.
        digits = secrets.token_hex(16)
        variant = "89ab"[int(digits[16], 16) & 3]
        return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"

    def suffix(self) -> str:
        """Return five random characters for a generated name."""
        return "".join(NAME_ALPHABET[byte % len(NAME_ALPHABET)] for byte in secrets.token_bytes(5))


class SimulatedClock(ServerClock):
    """A clock that stands still until it is set. ``start`` is by default the current time, in whole seconds.

    Raises ValueError for a start without a time zone.
    """

    def __init__(self, start: datetime | None = None) -> None:
        if start is not None and start.tzinfo is None:
            raise ValueError(f"the start of a simulated clock needs a time zone, found {start.isoformat()}")
        self._time = (start if start is not None else datetime.now(UTC).replace(microsecond=0)).astimezone(UTC)

    def now(self) -> datetime:
        """Return the time that was set last."""
        return self._time

    def monotonic(self) -> float:
        """Return seconds of simulated time: work while the clock stands still takes no time."""
        return self._time.timestamp()

    def real_seconds_until(self, moment: datetime) -> float:
        """Return 0 for a time that has been reached, otherwise infinity."""
        return 0.0 if moment <= self._time else math.inf

    def set(self, moment: datetime) -> None:
        """Set the time."""
        self._time = moment.astimezone(UTC)


def stamp(moment: datetime) -> str:
    """Return a time as RFC 3339 with seconds: ``2026-01-01T00:00:00Z``."""
    # isoformat is ten times as fast as strftime, and every write calls this twice.
    return moment.isoformat("T", "seconds")[:19] + "Z"


_FIRST, _LAST = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


def later(moment: datetime, seconds: float) -> datetime:
    """Return the time this many seconds later, or the last or first possible time if it is out of range.

    Any int64 is a valid number of seconds in a manifest, and any year of four digits a valid time.
    """
    try:
        return moment + timedelta(seconds=seconds)
    except OverflowError:
        return _LAST if seconds > 0 else _FIRST


def parse_stamp(text: str) -> datetime:
    """Return the time of an RFC 3339 text; raises ValueError."""
    return datetime.fromisoformat(text)
