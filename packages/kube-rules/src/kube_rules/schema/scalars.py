"""Times and other scalars: accepted texts and their stored form.

`Time` is stored in UTC with whole seconds, `MicroTime` in UTC with six digits, which are also required in requests
(transcript 511). Error texts follow Go's time package, which clients know.
"""

from __future__ import annotations

import base64
import re
from datetime import UTC, datetime

_TIME_LAYOUT = "2006-01-02T15:04:05Z07:00"
_MICRO_LAYOUT = "2006-01-02T15:04:05.000000Z07:00"
_CANONICAL_TIME = re.compile(r"[0-9]{4}-[01][0-9]-[0-3][0-9]T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z", re.ASCII)
_CANONICAL_MICRO = re.compile(rf"{_CANONICAL_TIME.pattern[:-1]}\.[0-9]{{6}}Z", re.ASCII)
_PARTS = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})",
    re.ASCII,
)
_LINE_BREAKS = re.compile(r"[\r\n]+")
_BASE64_DIGITS = re.compile(r"[A-Za-z0-9+/\r\n]*")
_ZONE = re.compile(r"[+-]([0-9]{2}):[0-9]{2}$", re.ASCII)


class ScalarError(ValueError):
    """An invalid scalar; `str()` is the API server's message."""


def time(text: str) -> str:
    """Return the stored form of a `Time`.

    Raises:
        ScalarError: not a time in RFC 3339 form.
    """
    if _CANONICAL_TIME.fullmatch(text) and _exists(text):
        return text
    return _parsed(text, _TIME_LAYOUT).strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")


def micro_time(text: str) -> str:
    """Return the stored form of a `MicroTime`.

    Raises:
        ScalarError: not a time in RFC 3339 form with six digits of a second.
    """
    if _CANONICAL_MICRO.fullmatch(text) and _exists(text):
        return text
    match = _PARTS.fullmatch(text)
    if match and len(match[7] or "") != 7:
        rest = (match[7] or "") + match[8]
        raise ScalarError(f'parsing time "{text}" as "{_MICRO_LAYOUT}": cannot parse "{rest}" as ".000000"')
    return _parsed(text, _MICRO_LAYOUT).strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")


def _exists(text: str) -> bool:
    """Return whether a well-formed time has an existing day."""
    try:
        datetime.fromisoformat(text[:19])
    except ValueError:
        return False
    return True


def _parsed(text: str, layout: str) -> datetime:
    match = _PARTS.fullmatch(text)
    if match is None:
        raise ScalarError(f'parsing time "{text}" as "{layout}": cannot parse "{text}" as "2006"')
    try:
        micros = (match[7] or ".")[1:7].ljust(6, "0")
        return datetime.fromisoformat(f"{text[:19]}.{micros}{match[8].replace('Z', '+00:00')}").astimezone(UTC)
    except (ValueError, OverflowError):
        raise ScalarError(f'parsing time "{text}": {_out_of_range(text)} out of range') from None


def _out_of_range(text: str) -> str:
    """Return the first part of a time that is out of range, in Go's order of checks."""
    month, hour, minute, second = (int(text[start : start + 2]) for start in (5, 11, 14, 17))
    parts = {"month": 1 <= month <= 12, "hour": hour < 24, "minute": minute < 60, "second": second < 60}
    for name, is_valid in parts.items():
        if not is_valid:
            return name
    try:
        datetime.fromisoformat(text[:19])
    except ValueError:
        return "year" if text[:4] == "0000" else "day"
    zone = _ZONE.search(text)
    return "time zone offset" if zone and int(zone[1]) >= 24 else "year"


def base64_bytes(text: str) -> str:
    """Return the stored form of base64 text: without line breaks, unused bits zero.

    Raises:
        ScalarError: not base64; names the byte at which Go's decoder stops.
    """
    digits = _LINE_BREAKS.sub("", text)
    try:
        if len(digits) % 4 == 0:  # Python accepts too much padding
            return base64.b64encode(base64.b64decode(digits, validate=True)).decode()
    except ValueError:
        pass
    raise ScalarError(f"illegal base64 data at input byte {_corrupt_byte(text)}")


def _corrupt_byte(text: str) -> int:
    """Return the byte at which Go's decoder finds that a text is not base64."""
    digits = _BASE64_DIGITS.match(text)
    assert digits is not None
    end = digits.end()
    quantum = len(_LINE_BREAKS.sub("", digits[0])) % 4
    if end == len(text):
        return end - quantum
    if text[end] != "=" or quantum < 2:
        return end
    end = _behind_line_breaks(text, end + 1)
    if quantum == 2:
        if end == len(text):
            return end
        if text[end] != "=":
            return end - 1
        end = _behind_line_breaks(text, end + 1)
    return end


def _behind_line_breaks(text: str, start: int) -> int:
    breaks = _LINE_BREAKS.match(text, start)
    return breaks.end() if breaks else start
