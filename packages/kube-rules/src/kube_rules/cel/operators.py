"""The operators of expressions: arithmetic, comparison, lookup; each counts its cost.

Costs: cel-go's interpreter (runtimecost.go). Integers stay within 64 bits. Nothing is converted silently, but numbers
of different types are comparable (CrossTypeNumericComparisons).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from kube_rules.cel.functions import NO_OVERLOAD, integer, unsigned
from kube_rules.cel.values import NONE, CelError, FullMap, Meter, Optional, Uint, equal, size_of, type_name

Env = list[Any]
Run = Callable[[Env, Meter], Any]


def truth(value: Any) -> bool:
    """Return a bool. Raises CelError for other values."""
    if value is True or value is False:
        return bool(value)
    raise CelError(NO_OVERLOAD)


def maybe_field(value: Any, name: str, unescaped_name: str) -> Optional:
    """Return `value.?name`: an optional without a value if the field is missing."""
    if isinstance(value, Optional):
        if not value.present:
            return NONE
        value = value.value
    if not isinstance(value, dict):
        raise CelError(f"type '{type_name(value)}' does not support field selection")
    for key in (name, unescaped_name):
        if key in value:
            return Optional(value[key])
    return Optional(value[name]) if isinstance(value, FullMap) else NONE


def maybe_indexed(where: Any, index: Any, meter: Meter) -> Optional:
    """Return `where[?index]`: an optional without a value if there is none; an optional operand is unwrapped."""
    meter.spend(1)
    if isinstance(where, Optional):
        if not where.present:
            return NONE
        where = where.value
    if isinstance(where, list):
        if isinstance(index, float) and index.is_integer():
            index = int(index)
        if not isinstance(index, int) or isinstance(index, bool):
            raise CelError(NO_OVERLOAD)
        return Optional(where[index]) if 0 <= index < len(where) else NONE
    if isinstance(where, dict):
        key = key_of(index)
        return Optional(where[key]) if key in where or isinstance(where, FullMap) else NONE
    raise CelError(NO_OVERLOAD)


def _whole(value: Any, kind: type) -> Any:
    """Return the result of an integer operation, checked against its range."""
    return unsigned(value) if kind is Uint else integer(value)


def _added(left: Any, right: Any, meter: Meter) -> Any:
    kind = type(left)
    if kind is not type(right):
        if isinstance(left, datetime | timedelta) and isinstance(right, datetime | timedelta):
            return _moved(operator.add, left, right, meter)
        raise CelError(NO_OVERLOAD)
    if kind is int or kind is Uint:
        meter.spend(1)
        return _whole(left + right, kind)
    if kind is float:
        meter.spend(1)
        return left + right
    if kind is timedelta:
        return _moved(operator.add, left, right, meter)
    if kind in (str, bytes, list):
        meter.spend(1 + (len(left) + len(right)) // 10)
        return left + right
    raise CelError(NO_OVERLOAD)


def _moved(work: Callable[[Any, Any], Any], left: Any, right: Any, meter: Meter) -> Any:
    meter.spend(1)
    try:
        return work(left, right)
    except (OverflowError, ValueError):
        raise CelError("timestamp overflow") from None
    except TypeError:
        raise CelError(NO_OVERLOAD) from None


def _subtracted(left: Any, right: Any, meter: Meter) -> Any:
    kind = type(left)
    if kind is type(right) and kind in (int, Uint, float):
        meter.spend(1)
        return left - right if kind is float else _whole(left - right, kind)
    if isinstance(left, datetime | timedelta) and isinstance(right, datetime | timedelta):
        return _moved(operator.sub, left, right, meter)
    raise CelError(NO_OVERLOAD)


def _multiplied(left: Any, right: Any, meter: Meter) -> Any:
    kind = type(left)
    if kind is not type(right) or kind not in (int, Uint, float):
        raise CelError(NO_OVERLOAD)
    meter.spend(1)
    return left * right if kind is float else _whole(left * right, kind)


def _divided(left: Any, right: Any, meter: Meter) -> Any:
    kind = type(left)
    if kind is not type(right) or kind not in (int, Uint, float):
        raise CelError(NO_OVERLOAD)
    meter.spend(1)
    if kind is float:
        if right:
            return left / right
        return float("nan") if left == 0 or left != left else left * float("inf")
    if not right:
        raise CelError("division by zero")
    quotient = abs(left) // abs(right)
    return _whole(quotient if (left < 0) == (right < 0) else -quotient, kind)


def _remainder(left: Any, right: Any, meter: Meter) -> Any:
    kind = type(left)
    if kind is not type(right) or kind not in (int, Uint):
        raise CelError(NO_OVERLOAD)
    meter.spend(1)
    if not right:
        raise CelError("modulus by zero")
    rest = abs(left) % abs(right)
    return _whole(-rest if left < 0 else rest, kind)


_PLAIN = frozenset({int, float, Uint})
_ORDERED = frozenset({bool, str, bytes, datetime, timedelta})


def _comparing(compare: Callable[[Any, Any], bool]) -> Callable[[Run, Run], Run]:
    def make(left: Run, right: Run) -> Run:
        def compared(env: Env, meter: Meter) -> bool:
            left_value, right_value = left(env, meter), right(env, meter)
            kind, beside = type(left_value), type(right_value)
            if kind in _PLAIN and beside in _PLAIN:
                meter.spend(1)
                return compare(left_value, right_value)
            if kind is not beside or kind not in _ORDERED:
                raise CelError(NO_OVERLOAD)
            meter.spend(1 + min(size_of(left_value), size_of(right_value)) // 10)
            try:
                return compare(left_value, right_value)
            except TypeError:
                raise CelError(NO_OVERLOAD) from None

        return compared

    return make


def _equality(wanted: bool) -> Callable[[Run, Run], Run]:
    def make(left: Run, right: Run) -> Run:
        def compared(env: Env, meter: Meter) -> bool:
            left_value, right_value = left(env, meter), right(env, meter)
            if type(left_value) is int and type(right_value) is int:
                meter.spend(1)
                return (left_value == right_value) is wanted
            meter.spend(1 + min(size_of(left_value), size_of(right_value)) // 10)
            return equal(left_value, right_value, meter) is wanted

        return compared

    return make


def _applied(work: Callable[[Any, Any, Meter], Any]) -> Callable[[Run, Run], Run]:
    return lambda left, right: lambda env, meter: work(left(env, meter), right(env, meter), meter)


def key_of(value: Any) -> Any:
    """Return a key of a map. Raises CelError for values that cannot be keys."""
    if isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    raise CelError(f"unsupported key type: {type_name(value)}")


def _has_key(where: dict[Any, Any], key: Any) -> bool:
    if key not in where:
        return False
    return isinstance(key, str) or any(equal(key, present, _FREE) for present in where if present == key)


_FREE = Meter(2**62)


def _contained(item: Any, where: Any, meter: Meter) -> bool:
    if isinstance(where, dict):
        meter.spend(1)
        return isinstance(item, bool | int | str) and _has_key(where, item)
    if not isinstance(where, list):
        raise CelError(NO_OVERLOAD)
    meter.spend(len(where))
    if isinstance(item, str):
        return item in where
    return any(equal(item, member, meter) for member in where)


def _indexed(where: Any, index: Any, meter: Meter) -> Any:
    if isinstance(where, Optional):
        return maybe_indexed(where, index, meter)
    meter.spend(1)
    if isinstance(where, list):
        if isinstance(index, float) and index.is_integer():
            index = int(index)
        if not isinstance(index, int) or isinstance(index, bool):
            raise CelError(NO_OVERLOAD)
        if not 0 <= index < len(where):
            raise CelError(f"index out of bounds: {index}")
        return where[index]
    if isinstance(where, dict):
        key = key_of(index)
        try:
            return where[key]
        except KeyError:
            raise CelError(f"no such key: {key}") from None
    raise CelError(NO_OVERLOAD)


def _not(inner: Run) -> Run:
    return lambda env, meter: not truth(inner(env, meter))


def _negative(inner: Run) -> Run:
    def negative(env: Env, meter: Meter) -> Any:
        value = inner(env, meter)
        kind = type(value)
        if kind is int:
            return _whole(-value, kind)
        if kind in (float, timedelta):
            return -value
        raise CelError(NO_OVERLOAD)

    return negative


BINARY: dict[str, Callable[[Run, Run], Run]] = {
    "_+_": _applied(_added),
    "_-_": _applied(_subtracted),
    "_*_": _applied(_multiplied),
    "_/_": _applied(_divided),
    "_%_": _applied(_remainder),
    "_<_": _comparing(operator.lt),
    "_<=_": _comparing(operator.le),
    "_>_": _comparing(operator.gt),
    "_>=_": _comparing(operator.ge),
    "_==_": _equality(True),
    "_!=_": _equality(False),
    "@in": _applied(_contained),
    "_[_]": _applied(_indexed),
    "_[?_]": _applied(maybe_indexed),
}
UNARY: dict[str, Callable[[Run], Run]] = {"!_": _not, "-_": _negative}
