"""Numbers in the parameters of requests, read as Go's strconv reads them."""

from __future__ import annotations

import re

from kube_standin import errors

_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_SHOWN = 64
_DIGITS = 19


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
