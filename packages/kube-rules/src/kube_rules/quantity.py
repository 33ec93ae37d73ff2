"""Kubernetes quantities: exact parsing, rounding up, and the canonical text of an API server.

Terms: a quantity is a number with a suffix of one of three formats: decimal (`n u m k M G T P E` or none), binary (`Ki
Mi Gi Ti Pi Ei`) or exponent (`e3`, `E3`). Its number is stored in units of 10^-9, the smallest that the format can
express.

Invariant: no floats are used. Values finer than 10^-9 round away from zero when parsed, values finer than the requested
unit round away from zero when read, and all values stay in the range of int64 (apimachinery resource.Quantity).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

QuantityText = str | int | float
"""A quantity in the form of a manifest: `"1500m"`, `4`, `0.5`."""

MAX_INT64: Final = 2**63 - 1
NANO: Final = 10**9
"""Number of units of `Quantity.nano` in one."""

DECIMAL_SI: Final = "DecimalSI"
BINARY_SI: Final = "BinarySI"
DECIMAL_EXPONENT: Final = "DecimalExponent"

FORMAT_MESSAGE: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
"""An API server's message for a malformed quantity."""

_MAX_TEXT: Final = 256
_QUANTITY = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?([a-zA-Z]*)([+-]?\d*)", re.ASCII)
_PLAIN = re.compile(r"([1-9][0-9]{0,8})(m|[KMG]i|)")
_PLAIN_UNITS: Final = {
    "": (NANO, DECIMAL_SI),
    "m": (10**6, DECIMAL_SI),
    **{f"{letter}i": (NANO << 10 * power, BINARY_SI) for power, letter in enumerate("KMG", start=1)},
}
_DECIMAL_EXPONENTS: Final = {
    suffix: 3 * step for step, suffix in enumerate(("n", "u", "m", "", "k", "M", "G", "T", "P", "E"), start=-3)
}
_BINARY_EXPONENTS: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIXES: Final = {exponent: suffix for suffix, exponent in _DECIMAL_EXPONENTS.items()}
_BINARY_SUFFIXES: Final = {exponent: suffix for suffix, exponent in _BINARY_EXPONENTS.items()}
_FURTHEST_EXPONENT: Final = 400  # beyond it a number is out of range (or below 10^-9) for any digits


class QuantityError(ValueError):
    """A text that is not a quantity; the message names the text."""

    def __init__(self, text: object, reason: str = FORMAT_MESSAGE) -> None:
        shown = repr(text) if not isinstance(text, str) else f'"{text[:64]}{"..." if len(text) > 64 else ""}"'
        super().__init__(f"{shown}: {reason}")
        self.text = text
        self.reason = reason


class Quantity(NamedTuple):
    """An exact amount: `nano` in units of 10^-9, its original format, its canonical text."""

    nano: int
    format: str
    text: str

    def __str__(self) -> str:
        return self.text


def parse(text: QuantityText) -> Quantity:
    """Parse a quantity of a manifest (a string or a number).

    Raises `QuantityError` with the text. Values beyond int64 are capped, values finer than 10^-9 round away from zero.
    """
    if type(text) is str:
        return _parse(text)
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        raise QuantityError(text)
    if isinstance(text, int) and text.bit_length() > 4 * _MAX_TEXT:  # Python may refuse to write it as digits
        raise QuantityError("a number", f"must be no more than {_MAX_TEXT} characters")
    return _parse(str(text))


def milli_value(quantity: Quantity) -> int:
    """Return the amount in thousandths, rounded away from zero, within int64 (for cpu)."""
    return _scaled(quantity.nano, 10**6)


def value(quantity: Quantity) -> int:
    """Return the amount in ones, rounded away from zero, within int64 (for everything but cpu)."""
    return _scaled(quantity.nano, NANO)


@lru_cache(maxsize=16384)
def milli_value_of(text: QuantityText) -> int:
    """Return `milli_value(parse(text))`, cached."""
    return milli_value(parse(text))


@lru_cache(maxsize=16384)
def value_of(text: QuantityText) -> int:
    """Return `value(parse(text))`, cached."""
    return value(parse(text))


def canonical(text: QuantityText) -> str:
    """Return the canonical text of a quantity, as an API server writes it: `0.5` as `500m`, `1024Mi` as `1Gi`."""
    return parse(text).text


def format_quantity(nano: int, form: str = DECIMAL_SI) -> str:
    """Return the canonical text of an amount in units of 10^-9: no fraction, the largest suffix that keeps it exact."""
    if nano == 0:
        return "0"
    if form == BINARY_SI and nano % NANO == 0 and abs(nano) >= 1024 * NANO:
        number, exponent = nano // NANO, 0
        while number % 1024 == 0 and exponent < 60:
            number, exponent = number // 1024, exponent + 10
        return f"{number}{_BINARY_SUFFIXES[exponent] if exponent else ''}"
    number, exponent = nano, -9
    exponential = form == DECIMAL_EXPONENT
    while number % 1000 == 0 and (exponential or exponent < 18):
        number, exponent = number // 1000, exponent + 3
    if exponential:
        return f"{number}e{exponent}" if exponent else str(number)
    return f"{number}{_DECIMAL_SUFFIXES[exponent]}"


def _scaled(nano: int, unit: int) -> int:
    if nano >= 0:
        return min(-(-nano // unit), MAX_INT64)
    return max(nano // unit, -MAX_INT64)


@lru_cache(maxsize=16384)
def _parse(text: str) -> Quantity:
    plain = _PLAIN.fullmatch(text)
    if plain is not None:  # most quantities; the rest gives the same result
        digits, suffix = plain.groups()
        number, (unit, form) = int(digits), _PLAIN_UNITS[suffix]
        if number & 7 if form is BINARY_SI else not digits.endswith("000"):
            return Quantity(number * unit, form, text)
    stripped = text.strip()  # an API server strips spaces inside the quotes
    if len(text) > 2 * _MAX_TEXT or len(stripped) > _MAX_TEXT:
        raise QuantityError(text, f"must be no more than {_MAX_TEXT} characters")
    match = _QUANTITY.fullmatch(stripped)
    if match is None:
        raise QuantityError(text)
    sign, whole, fraction, letters, digits = match.groups()
    fraction = fraction or ""
    if not whole and not fraction:
        raise QuantityError(text)
    scale, shift, form = _suffix(text, letters, digits)
    whole = whole.lstrip("0") or "0"
    mantissa = int(whole + fraction)
    nano = _to_nano(mantissa << shift, scale - len(fraction))
    if form == BINARY_SI and 0 < nano < NANO:
        form = DECIMAL_SI
    if sign == "-":
        nano = -nano
    if abs(nano) < MAX_INT64 * NANO and _written_canonically(mantissa, whole, fraction, scale, shift, form):
        return Quantity(nano, form, stripped)
    return Quantity(nano, form, format_quantity(nano, form))


def _suffix(text: str, letters: str, digits: str) -> tuple[int, int, str]:
    """Return (power of ten, power of two, format) of a suffix such as `Mi`, `m`, `e+3`."""
    if not digits:
        if letters in _DECIMAL_EXPONENTS:
            return _DECIMAL_EXPONENTS[letters], 0, DECIMAL_SI
        if letters in _BINARY_EXPONENTS:
            return 0, _BINARY_EXPONENTS[letters], BINARY_SI
    elif letters in ("e", "E") and digits not in ("+", "-"):
        return int(digits), 0, DECIMAL_EXPONENT
    if set(letters) <= set("eEinumkKMGTP"):
        raise QuantityError(text, "unable to parse quantity's suffix")
    raise QuantityError(text)


def _to_nano(mantissa: int, scale: int) -> int:
    """Return `mantissa` x 10^`scale` in units of 10^-9, rounded up, capped at the largest int64 in ones."""
    if mantissa == 0:
        return 0
    exponent = scale + 9
    if exponent < -_FURTHEST_EXPONENT:
        return 1
    if exponent > _FURTHEST_EXPONENT:
        return MAX_INT64 * NANO
    nano: int = mantissa * 10**exponent if exponent >= 0 else -(-mantissa // 10**-exponent)
    return min(nano, MAX_INT64 * NANO)


def _written_canonically(mantissa: int, whole: str, fraction: str, scale: int, shift: int, form: str) -> bool:
    """Return whether an API server keeps the text unchanged: its fast path does, even for `1.500`."""
    if form == BINARY_SI:
        fits = not fraction and 15 - len(whole) - shift * 3 // 10 - 1 >= 0
        return fits and mantissa & 7 != 0
    power = scale - len(fraction)
    if power < -9 or power % 3 or len(whole) + len(fraction) > 18:
        return False
    number = whole + fraction
    return number[0] != "0" and not number.endswith("000")
