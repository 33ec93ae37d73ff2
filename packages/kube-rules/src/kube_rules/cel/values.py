"""Values of expressions beside Python's own, the meter that counts what evaluating takes, and the errors.

bool is not a number here although it is one to Python: `type_name` and `equal` keep them apart.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any


class CelError(ValueError):
    """An expression that failed while it ran (a value of CEL to `||`, `&&` and the macros); `str()` is the reason."""


class CostExceededError(Exception):
    """Evaluating has taken all it may; no operator of the language takes this in."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


class Uint(int):
    """An unsigned integer of 64 bits."""

    __slots__ = ()


class TypeName:
    """A type as a value: what `type(1)` gives and what the name `int` stands for."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypeName) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


class Opaque:
    """A value that only functions read; `cel_type` is the name of its type."""

    __slots__ = ()
    cel_type = "dyn"


class Optional(Opaque):
    """A value that may be missing (`optional.of`, `a.?b`); `present`: whether there is one."""

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
    """A map with a value for every key, as cel-go knows one with a `Find` of its own: looking up always finds.

    `in` and macros go by the entries alone.
    """


class Message(dict[str, Any]):
    """A value of a type with fields, such as `Object.spec{a: b}`."""

    __slots__ = ("type_name",)

    def __init__(self, type_name: str, fields: dict[str, Any]) -> None:
        super().__init__(fields)
        self.type_name = type_name


class Meter:
    """Counts down; `left` is in cost units. `spend` raises CostExceededError at less than none."""

    __slots__ = ("left",)

    def __init__(self, limit: int) -> None:
        self.left = limit

    def spend(self, cost: int) -> None:
        """Take away a cost."""
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
    """The name CEL has for the type of a value."""
    result = _NAMES.get(type(value))
    if result is not None:
        return result
    if isinstance(value, dict):
        return value.type_name if isinstance(value, Message) else "map"
    return value.cel_type if isinstance(value, Opaque) else type(value).__name__.lower()


def is_number(value: Any) -> bool:
    """Return whether a value is an int, uint or double."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def equal(one: Any, other: Any, meter: Meter) -> bool:
    """Equality of CEL: numbers across their types, everything else within its own; what it visits is counted."""
    kind = type(one)
    if kind is type(other) and kind not in (list, dict, Message, Optional):
        return bool(one == other)
    if is_number(one) and is_number(other):
        return bool(one == other)
    if isinstance(one, list) and isinstance(other, list):
        if len(one) != len(other):
            return False
        meter.spend(len(one))
        return all(equal(a, b, meter) for a, b in zip(one, other, strict=True))
    if isinstance(one, dict) and isinstance(other, dict):
        if len(one) != len(other) or type_name(one) != type_name(other):
            return False
        meter.spend(len(one))
        return all(key in other and equal(inner, other[key], meter) for key, inner in one.items())
    if isinstance(one, Optional) and isinstance(other, Optional):
        return one.present == other.present and (not one.present or equal(one.value, other.value, meter))
    return kind is type(other) and bool(one == other)


def size_of(value: Any) -> int:
    """Return what cost formulas take as the size of a value: its length, 1 for a scalar."""
    return len(value) if isinstance(value, str | bytes | list | dict) else 1
