"""Values of expressions beyond Python's own, the meter of evaluation cost, and the errors.

bool is not a number here, unlike in Python: `type_name` and `equal` distinguish them.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

INT = 2**63
"""An int is at least `-INT` and below `INT`."""


class CelError(ValueError):
    """An expression that failed at evaluation (a value for `||`, `&&` and the macros); `str()` is the reason."""


class CostExceededError(Exception):
    """The evaluation has exceeded its budget; no operator of the language absorbs this error."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


def time_text(value: datetime | timedelta) -> str:
    """Return a time in RFC 3339, or a duration in seconds, as protobuf writes them in JSON."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return f"{value.total_seconds():.9f}".rstrip("0").rstrip(".") + "s"


class Uint(int):
    """An unsigned 64-bit integer."""

    __slots__ = ()


class TypeName:
    """A type as a value: the result of `type(1)` and the meaning of the name `int`."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypeName) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


class Opaque:
    """A value that only functions can read; `cel_type` is the name of its type."""

    __slots__ = ()
    cel_type = "dyn"


class Optional(Opaque):
    """A value that may be missing (`optional.of`, `a.?b`); `present` is whether it exists."""

    __slots__ = ("present", "value")
    cel_type = "optional_type"

    def __init__(self, value: Any, *, present: bool = True) -> None:
        self.value = value
        self.present = present

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Optional) and (self.present, self.value) == (other.present, other.value)

    def __hash__(self) -> int:
        return hash(self.present)


NONE = Optional(None, present=False)
"""The optional without a value."""


class FullMap(dict[str, Any]):
    """A map with a value for every key, like a map with its own `Find` in cel-go: every lookup succeeds.

    `in` and macros use only the entries.
    """


class Message(dict[str, Any]):
    """A value of a type with fields, such as `Object.spec{a: b}`."""

    __slots__ = ("type_name",)

    def __init__(self, type_name: str, fields: dict[str, Any]) -> None:
        super().__init__(fields)
        self.type_name = type_name


class Meter:
    """Counts down a budget; `left` is in cost units. `spend` raises CostExceededError below zero."""

    __slots__ = ("left",)

    def __init__(self, limit: int) -> None:
        self.left = limit

    def spend(self, cost: int) -> None:
        """Subtract a cost."""
        self.left -= cost
        if self.left < 0:
            raise CostExceededError


_NAMES: dict[type, str] = {
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    list: "list",
    dict: "map",
    datetime: "google.protobuf.Timestamp",
    timedelta: "google.protobuf.Duration",
    TypeName: "type",
}


def type_name(value: Any) -> str:
    """Return CEL's name of the type of a value."""
    result = _NAMES.get(type(value))
    if result is not None:
        return result
    if isinstance(value, dict):
        return value.type_name if isinstance(value, Message) else "map"
    return value.cel_type if isinstance(value, Opaque) else type(value).__name__.lower()


def is_number(value: Any) -> bool:
    """Return whether a value is an int, uint or double."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def equal(left: Any, right: Any, meter: Meter) -> bool:
    """Return whether two values are equal in CEL: numbers across types, others within theirs. Visits cost units."""
    kind = type(left)
    if kind is type(right) and kind not in (list, dict, Message, Optional):
        return bool(left == right)
    if is_number(left) and is_number(right):
        return bool(left == right)
    if isinstance(left, list) and isinstance(right, list):
        if len(left) != len(right):
            return False
        meter.spend(len(left))
        return all(equal(a, b, meter) for a, b in zip(left, right, strict=True))
    if isinstance(left, dict) and isinstance(right, dict):
        if len(left) != len(right) or type_name(left) != type_name(right):
            return False
        meter.spend(len(left))
        return all(key in right and equal(inner, right[key], meter) for key, inner in left.items())
    if isinstance(left, Optional) and isinstance(right, Optional):
        return left.present == right.present and (not left.present or equal(left.value, right.value, meter))
    return kind is type(right) and bool(left == right)


def size_of(value: Any) -> int:
    """Return the size of a value in cost formulas: its length, 1 for a scalar."""
    return len(value) if isinstance(value, str | bytes | list | dict) else 1
