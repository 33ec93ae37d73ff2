"""Numbers in request parameters, parsed like Go's strconv."""

from __future__ import annotations

import re

from kube_standin import errors

_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_SHOWN = 64
_DIGITS = 19
_UNSIGNED_DIGITS = 20


def parse_unsigned(text: str) -> int | None:
    """Return a 64-bit integer; raises 400 with the text of Go's parser."""
    digits = text.lstrip("0") or text[:1]
    if not (text.isascii() and text.isdigit() and len(digits) <= _UNSIGNED_DIGITS):
        return None
    number = int(digits)
    return number if number < 2**64 else None


def parse_int(text: str) -> int:
    """Return an integer of 64 bits; raises 400 with the text of Go's parser."""
    shown = text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
    if not _INTEGER.fullmatch(text):
        raise errors.bad_request(f'strconv.ParseInt: parsing "{shown}": invalid syntax')
    digits = text.lstrip("+-").lstrip("0")
    if len(digits) <= _DIGITS:
        number = int(digits or "0")
        number = -number if text[0] == "-" else number
        if -(2**63) <= number < 2**63:
            return number
    raise errors.bad_request(f'strconv.ParseInt: parsing "{shown}": value out of range')
