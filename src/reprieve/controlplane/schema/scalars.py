"""Times and other scalars: what text is accepted and how it is stored.

`Time` is stored in UTC with whole seconds, `MicroTime` in UTC with six digits, which it also demands of
what comes in (transcript 511). Error texts follow Go's time package, for that is what clients know.
"""

from __future__ import annotations

import base64
import binascii
import re
from datetime import UTC, datetime

_TIME_LAYOUT = "2006-01-02T15:04:05Z07:00"
_MICRO_LAYOUT = "2006-01-02T15:04:05.000000Z07:00"
_CANONICAL_TIME = re.compile(r"[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9]Z", re.ASCII)
_CANONICAL_MICRO = re.compile(r"[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9]\.[0-9]{6}Z", re.ASCII)
_PARTS = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})",
    re.ASCII,
)
_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class ScalarError(ValueError):
    """A scalar that cannot be read; `str()` is the API server's message."""


def time(text: str) -> str:
    """The stored form of a `Time`.

    Raises:
        ScalarError: not a time in RFC 3339 form.
    """
    if _CANONICAL_TIME.fullmatch(text) and _exists(text):
        return text
    return _parsed(text, _TIME_LAYOUT).strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")


def micro_time(text: str) -> str:
    """The stored form of a `MicroTime`.

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
    """Whether a time of the right form names a day and hour that exist."""
    year, month, day = int(text[:4]), int(text[5:7]), int(text[8:10])
    if not 1 <= month <= 12 or text[11:13] > "23" or year == 0:
        return False
    leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 1 <= day <= _DAYS[month - 1] + leap


def _parsed(text: str, layout: str) -> datetime:
    match = _PARTS.fullmatch(text)
    if match is None:
        raise ScalarError(f'parsing time "{text}" as "{layout}": cannot parse "{text}" as "2006"')
    try:
        micros = (match[7] or ".")[1:7].ljust(6, "0")
        return datetime.fromisoformat(f"{text[:19]}.{micros}{match[8].replace('Z', '+00:00')}").astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ScalarError(f'parsing time "{text}": {error}') from None


def base64_bytes(text: str) -> str:
    """Base64 text, unchanged.

    Raises:
        ScalarError: not base64.
    """
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ScalarError("illegal base64 data at input byte 0") from None
    return text
