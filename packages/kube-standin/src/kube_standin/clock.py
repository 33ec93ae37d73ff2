"""Time and randomness of the control plane, in one place so that tests can set them."""

from __future__ import annotations

import math
import secrets
import time
from datetime import UTC, datetime, timedelta

NAME_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""What generated names end in: no vowels, so that no words appear (as upstream)."""


class ServerClock:
    """The real clock; ``now`` is in UTC."""

    def now(self) -> datetime:
        """Return the present moment."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds that only go on, by which it is measured how long something took."""
        return time.monotonic()

    def real_seconds_until(self, moment: datetime) -> float:
        """Return in how many seconds of real time the clock shows a moment; infinity if it never does by itself."""
        return max(0.0, (moment - self.now()).total_seconds())

    def stamp(self) -> str:
        """Return now as metadata times are written: seconds, ``Z``."""
        return stamp(self.now())

    def uid(self) -> str:
        """Return a fresh uid."""
        # A version 4 UUID (RFC 9562), written out by hand: uuid.uuid4 takes four times as long.
        digits = secrets.token_hex(16)
        variant = "89ab"[int(digits[16], 16) & 3]
        return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"

    def suffix(self) -> str:
        """Return five random characters for a generated name."""
        return "".join(NAME_ALPHABET[byte % len(NAME_ALPHABET)] for byte in secrets.token_bytes(5))


class SimulatedClock(ServerClock):
    """A clock that stands still until it is set. ``start`` is by default the present, in whole seconds.

    Raises ValueError for a start without a time zone.
    """

    def __init__(self, start: datetime | None = None) -> None:
        if start is not None and start.tzinfo is None:
            raise ValueError(f"the start of a simulated clock needs a time zone, found {start.isoformat()}")
        self._moment = (start if start is not None else datetime.now(UTC).replace(microsecond=0)).astimezone(UTC)

    def now(self) -> datetime:
        """Return the moment that was set last."""
        return self._moment

    def monotonic(self) -> float:
        """Return seconds of simulated time: what is done while the clock stands still took none."""
        return self._moment.timestamp()

    def real_seconds_until(self, moment: datetime) -> float:
        """Return 0 for a moment that has come, else infinity."""
        return 0.0 if moment <= self._moment else math.inf

    def set(self, moment: datetime) -> None:
        """Show another moment from now on."""
        self._moment = moment.astimezone(UTC)


def stamp(moment: datetime) -> str:
    """Write a moment as RFC 3339 with seconds: ``2026-01-01T00:00:00Z``."""
    # isoformat is ten times as fast as strftime, and every write asks twice.
    return moment.isoformat("T", "seconds")[:19] + "Z"


_FIRST, _LAST = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


def later(moment: datetime, seconds: float) -> datetime:
    """Return the moment so many seconds later: the last there is, or the first, where the sum lies beyond.

    Any int64 is a valid number of seconds in a manifest, and any year of four digits a valid time.
    """
    try:
        return moment + timedelta(seconds=seconds)
    except OverflowError:
        return _LAST if seconds > 0 else _FIRST


def parse_stamp(text: str) -> datetime:
    """Read an RFC 3339 time; raises ValueError."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
