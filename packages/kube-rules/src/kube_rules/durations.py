"""Durations in Go's format, in configuration files and annotations; times in the format of messages."""

import re
from datetime import UTC, datetime
from fractions import Fraction
from typing import Final

_UNITS: Final = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "μs": Fraction(1, 10**6),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
}
_DURATION: Final = re.compile(r"[-+]?(?:0|(?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)", re.ASCII)
_PART: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)


def duration(text: str) -> float:
    """Return the seconds of a duration in Go's format (`15s`, `1m30s`, `1.5h`, `500ms`, `0`). Raises ValueError."""
    if not _DURATION.fullmatch(text):
        raise ValueError(f"{text!r}: expected a duration like 15s or 1m30s")
    total = sum((Fraction(number.rstrip(".")) * _UNITS[unit] for number, unit in _PART.findall(text)), Fraction(0))
    return float(-total if text.startswith("-") else total)


def readable_duration(seconds: float) -> str:
    """Return a duration in whole seconds in readable form: `1h30m`, `45s`, `0s`."""
    rest = round(seconds)
    parts = []
    for unit, size in (("h", 3600), ("m", 60), ("s", 1)):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def readable_time(seconds: float) -> str:
    """Return a time (seconds since the epoch), to the second, in the API's format: `2026-01-31T12:00:00Z`."""
    moment = datetime.fromtimestamp(min(round(seconds), _LAST_SECOND), UTC)
    return moment.isoformat().replace("+00:00", "Z")


_LAST_SECOND: Final = 253_402_300_799
"""The last second of the year 9999, the latest time that the API can express."""


def micro_time(seconds: float) -> str:
    """Return a time (seconds since the epoch) as a MicroTime of the API: `2026-01-31T12:00:00.000000Z`."""
    return micro_stamp(datetime.fromtimestamp(seconds, UTC))


def micro_stamp(moment: datetime) -> str:
    """Return a time, which is in UTC, as a MicroTime of the API."""
    return moment.isoformat(timespec="microseconds")[:26] + "Z"
