"""The canonical form of quantities, as the API server stores them.

A quantity is a decimal number with a suffix (m, k, Ki, e3 ...). Decoding one and encoding it again keeps
its suffix family (binary, decimal, exponent), drops trailing fractions into the next smaller suffix and
lifts it to the largest suffix without a fraction: `0.5` -> `500m`, `1024Mi` -> `1Gi`, `1000m` -> `1`, `1e3`
stays `1e3` (transcript 148).

Invariant: `canonical(canonical(x)) == canonical(x)`, and both have the same value.
"""

from __future__ import annotations

import re
from functools import lru_cache

PATTERN_ERROR = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
SUFFIX_ERROR = "unable to parse quantity's suffix"

_GRAMMAR = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*)([-+]?[0-9]*)", re.ASCII)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_BY_EXPONENT = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_BY_EXPONENT = {exponent: suffix for suffix, exponent in _BINARY.items()}
_LONGEST = 128
_NANO = 10**9
_MAX = (2**63 - 1) * _NANO


class QuantityError(ValueError):
    """The text is no quantity; `str()` is the API server's message."""


@lru_cache(maxsize=8192)
def nano(text: str) -> int:
    """Value of a quantity in units of 10^-9, smaller parts rounded away from zero.

    Raises:
        QuantityError: the text is not a quantity.
    """
    return _parse(text)[0]


@lru_cache(maxsize=8192)
def canonical(text: str) -> str:
    """The text under which the API server stores a quantity.

    Raises:
        QuantityError: the text is not a quantity.
    """
    value, family = _parse(text)
    return _render(value, family)


def _parse(text: str) -> tuple[int, str]:
    """Value in nano-units and suffix family ("binary", "decimal" or "exponent")."""
    match = _GRAMMAR.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        raise QuantityError(PATTERN_ERROR)
    sign, whole, fraction, letters, digits = match.groups()
    if not whole and not fraction:
        raise QuantityError(PATTERN_ERROR)
    fraction = fraction or ""
    number = int((whole or "0") + fraction)
    scale = -len(fraction)
    if letters in _BINARY and not digits:
        family = "binary"
        top = number << _BINARY[letters]
    elif letters in ("e", "E") and digits.lstrip("+-"):
        family = "exponent"
        power = int(digits)
        if abs(power) > 400:
            raise QuantityError(SUFFIX_ERROR)
        scale += power
        top = number
    elif letters in _DECIMAL and not digits:
        family = "decimal"
        scale += _DECIMAL[letters]
        top = number
    else:
        raise QuantityError(SUFFIX_ERROR)
    exponent = scale + 9
    # Away from zero: the sign comes after.
    value = top * 10**exponent if exponent >= 0 else -(-top // 10**-exponent)
    value = min(value, _MAX)
    return (-value if sign == "-" else value), family


def _render(value: int, family: str) -> str:
    if value == 0:
        return "0"
    sign, size = ("-", -value) if value < 0 else ("", value)
    if family == "binary" and size % _NANO == 0 and size >= 1024 * _NANO:
        whole, power = size // _NANO, 0
        while power < 60 and whole % 1024 == 0:
            whole //= 1024
            power += 10
        return f"{sign}{whole}{_BINARY_BY_EXPONENT[power] if power else ''}"
    power = -9
    while power < 18 and size % 1000 == 0:
        size //= 1000
        power += 3
    if family == "exponent":
        return f"{sign}{size}e{power}" if power else f"{sign}{size}"
    return f"{sign}{size}{_DECIMAL_BY_EXPONENT[power]}"
