"""Quantities and semantic versions in expressions (k8s.io/apiserver/pkg/cel/library, quantity.go and semver.go)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import total_ordering
from typing import Any

from kube_rules import quantity
from kube_rules.cel.functions import NO_OVERLOAD, Function, needs, takes, traversed
from kube_rules.cel.values import INT, CelError, Meter, Opaque

_LONGEST_VERSION = 256
_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-((?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)(?:\.(?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*))*))?"
    r"(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?",
    re.ASCII,
)


@total_ordering
class Semver(Opaque):
    """A semantic version (semver.org 2.0.0); build metadata does not affect the order. Raises CelError."""

    __slots__ = ("key", "numbers", "text")
    cel_type = "kubernetes.Semver"

    def __init__(self, text: str) -> None:
        match = _SEMVER.fullmatch(text) if len(text) <= _LONGEST_VERSION else None
        if match is None:
            raise CelError(f"parse semantic version: {text[:64]!r} is none")
        self.text = text
        self.numbers = tuple(int(part) for part in match.groups()[:3])
        pre = match.group(4)
        # A release comes after its pre-releases; numbers order before words.
        parts = tuple((0, int(p), "") if p.isdigit() else (1, 0, p) for p in pre.split(".")) if pre else ()
        self.key = (self.numbers, not pre, parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self.key == other.key

    def __lt__(self, other: Semver) -> bool:
        return self.key < other.key

    def __hash__(self) -> int:
        return hash(self.key)


@total_ordering
class QuantityValue(Opaque):
    """A quantity inside an expression; `nano` in units of 10^-9."""

    __slots__ = ("nano",)
    cel_type = "kubernetes.Quantity"

    def __init__(self, nano: int) -> None:
        self.nano = nano

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QuantityValue) and self.nano == other.nano

    def __lt__(self, other: QuantityValue) -> bool:
        return self.nano < other.nano

    def __hash__(self) -> int:
        return hash(self.nano)


def _amount(text: str) -> QuantityValue:
    try:
        return QuantityValue(quantity.parse(text).nano)
    except quantity.QuantityError as error:
        raise CelError(str(error)) from None


def _version(text: str, normalize: bool = False) -> Semver:
    return Semver(_normalized(text) if normalize else text)


def _normalized(text: str) -> str:
    """Return `v1.2` as `1.2.0`: without the letter, without leading zeros, with three numbers."""
    text = text[:_LONGEST_VERSION].strip().removeprefix("v")
    parts = text.split(".", 2)
    for at, part in enumerate(parts):
        digits = part.lstrip("0")
        parts[at] = digits if digits and digits[0].isdigit() else "0" + digits if part else part
    if len(parts) < 3:
        if any(mark in parts[-1] for mark in "+-"):
            raise CelError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


def _ordered(left: Any, right: Any) -> int:
    if type(left) is not type(right) or not isinstance(left, QuantityValue | Semver):
        raise CelError(NO_OVERLOAD)
    return int(left > right) - int(left < right)


def _summed(left: Any, right: Any, sign: int) -> QuantityValue:
    right = needs(right, int, QuantityValue)
    added = right.nano if isinstance(right, QuantityValue) else right * quantity.NANO
    return QuantityValue(needs(left, QuantityValue).nano + sign * added)


def _whole(value: Any) -> bool:
    nano = needs(value, QuantityValue).nano
    return bool(nano % quantity.NANO == 0 and -INT <= nano // quantity.NANO < INT)


def _integer(value: Any) -> int:
    if not _whole(value):
        raise CelError("cannot convert value to integer")
    return int(value.nano // quantity.NANO)


def reading(of: Callable[..., Any], most: int = 1, times: int = 1) -> Callable[[Meter, list[Any]], Any]:
    """Return the function that parses a text; an optional second argument selects the way. It costs `times` texts."""

    def run(meter: Meter, args: list[Any]) -> Any:
        takes(args, 1, most)
        meter.spend(max(int(traversed(len(needs(args[0], str)) * times)), 1))
        return of(args[0], *(needs(arg, bool) for arg in args[1:]))

    return run


def reads(of: Callable[..., Any], most: int = 1) -> Callable[[Meter, list[Any]], bool]:
    """Return whether a text can be read."""

    def readable(*args: Any) -> bool:
        try:
            of(*args)
        except CelError:
            return False
        return True

    return reading(readable, most)


def _of(work: Callable[..., Any], count: int, kind: str) -> Function:
    """Return a function of this many values that costs one unit."""

    def run(meter: Meter, args: list[Any]) -> Any:
        takes(args, count, count)
        meter.spend(1)
        return work(*args)

    return Function(run, kind)


def parsed(n: list[float]) -> float:
    """Return the cost of parsing a text: a quantity, a version, an address or a network."""
    return traversed(n[0])


QUANTITY: Mapping[str, Function] = {
    "quantity": Function(reading(_amount), "kubernetes.Quantity", parsed),
    "isQuantity": Function(reads(_amount), "bool", parsed),
    "semver": Function(reading(_version, 2), "kubernetes.Semver", parsed),
    "isSemver": Function(reads(_version, 2), "bool", parsed),
    "compareTo": _of(_ordered, 2, "int"),
    "isGreaterThan": _of(lambda a, b: _ordered(a, b) > 0, 2, "bool"),
    "isLessThan": _of(lambda a, b: _ordered(a, b) < 0, 2, "bool"),
    "sign": _of(lambda a: (needs(a, QuantityValue).nano > 0) - (a.nano < 0), 1, "int"),
    "add": _of(lambda a, b: _summed(a, b, 1), 2, "kubernetes.Quantity"),
    "sub": _of(lambda a, b: _summed(a, b, -1), 2, "kubernetes.Quantity"),
    "isInteger": _of(_whole, 1, "bool"),
    "asInteger": _of(_integer, 1, "int"),
    "asApproximateFloat": _of(lambda a: needs(a, QuantityValue).nano / quantity.NANO, 1, "double"),
    "major": _of(lambda v: needs(v, Semver).numbers[0], 1, "int"),
    "minor": _of(lambda v: needs(v, Semver).numbers[1], 1, "int"),
    "patch": _of(lambda v: needs(v, Semver).numbers[2], 1, "int"),
}
"""Functions on quantities and semantic versions, by name."""
