"""The functions of expressions: their results, their costs, and the maximum of their costs.

The standard functions of cel-spec and Kubernetes' functions of strings, lists and regular expressions
(k8s.io/apiserver/pkg/cel/library). A function spends from the meter before it works, by the sizes of its arguments, so
that a traversal of a long text is always paid for. Callers add their own functions (quantities, semantic versions).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

from kube_rules import patterns
from kube_rules.cel.values import (
    INT,
    CelError,
    Meter,
    Opaque,
    TypeName,
    Uint,
    equal,
    is_number,
    size_of,
    time_text,
    type_name,
)
from kube_rules.durations import duration

TRAVERSAL = 0.1
"""Cost per character of a text traversal (common.StringTraversalCostFactor)."""
PATTERN = 0.25
"""Cost per character of a pattern and ten characters of text (common.RegexStringLengthCostFactor)."""
_LONGEST_NUMBER = 400
NO_OVERLOAD = "no such overload"


@dataclass(frozen=True, slots=True)
class Function:
    """A function of a library. `run(meter, arguments)` spends its own cost; a target is the first argument.

    `cost(sizes)` and `result(sizes)` are the maximum cost and the maximum size of the result for maximum sizes of the
    arguments; `kind` is the form of the result. `items`: the items have the form of the target's items. `cost_estimate`
    handles functions that also depend on the size of items (`join`, `sum`, `flatten`, ...).
    """

    run: Callable[[Meter, list[Any]], Any]
    kind: str = "dyn"
    cost: Callable[[list[float]], float] = lambda sizes: 1
    result: Callable[[list[float]], float] = lambda sizes: 1
    items: bool = False


def traversed(size: float) -> float:
    """Return the cost of one traversal of a text of this size."""
    return math.ceil(size * TRAVERSAL) if size != math.inf else math.inf


def matching(text: float, pattern: float) -> float:
    """Return the cost of a search for a pattern."""
    return traversed(text + 1) * (math.ceil(pattern * PATTERN) if pattern != math.inf else math.inf)


def needs(value: Any, *kinds: type) -> Any:
    """Return the value if it has one of these types; neither a bool nor a uint is an int. Raises CelError."""
    if not isinstance(value, kinds) or (type(value) in (bool, Uint) and type(value) not in kinds):
        raise CelError(NO_OVERLOAD)
    return value


def takes(args: list[Any], low: int, high: int) -> None:
    """Check the number of arguments of a call. Raises CelError."""
    if not low <= len(args) <= high:
        raise CelError(NO_OVERLOAD)


# -- texts ------------------------------------------------------------------------------------------------------------


def _text(work: Callable[..., Any], low: int, high: int, times: int = 1) -> Callable[[Meter, list[Any]], Any]:
    """Return a function of a text and further texts or integers; its cost is `times` traversals of the text."""

    def run(meter: Meter, args: list[Any]) -> Any:
        takes(args, low, high)
        needs(args[0], str)
        for arg in args[1:]:
            needs(arg, str, int)
        meter.spend(int(traversed(len(args[0]) * times)) or 1)
        return work(meter, *args)

    return run


def _replace(meter: Meter, text: Any, old: Any, new: Any, most: Any = -1) -> str:
    needs(old, str)
    needs(new, str)
    needs(most, int)
    count = text.count(old) if most < 0 else min(text.count(old), most)
    meter.spend(int(traversed(len(text) + count * max(len(new) - len(old), 0))))
    return str(text.replace(old, new, int(most)))


def _split(meter: Meter, text: Any, by: Any, most: Any = -1) -> list[str]:
    needs(by, str)
    needs(most, int)
    if most == 0:
        return []
    meter.spend(text.count(by))
    pieces = list(text) if not by else text.split(by)
    if 0 < most < len(pieces):
        pieces = [*pieces[: most - 1], by.join(pieces[most - 1 :])]
    return [str(piece) for piece in pieces]


def _join(meter: Meter, args: list[Any]) -> str:
    takes(args, 1, 2)
    items, by = needs(args[0], list), needs(args[1], str) if len(args) > 1 else ""
    meter.spend(len(items))
    total = sum(len(needs(item, str)) for item in items) + len(by) * max(len(items) - 1, 0)
    meter.spend(int(traversed(total * 2)))
    return str(by.join(items))


def _substring(meter: Meter, text: Any, begin: Any, end: Any = None) -> str:
    needs(begin, int)
    end = len(text) if end is None else needs(end, int)
    if not 0 <= begin <= len(text):
        raise CelError(f"index out of range: {begin}")
    if not begin <= end <= len(text):
        raise CelError(f"invalid substring range. start: {begin}, end: {end}")
    return str(text[begin:end])


def _char_at(meter: Meter, text: Any, index: Any) -> str:
    if not 0 <= needs(index, int) <= len(text):
        raise CelError(f"index out of range: {index}")
    return str(text[index : index + 1])


def _index_of(last: bool) -> Callable[[Meter, list[Any]], Any]:
    def run(meter: Meter, args: list[Any]) -> int:
        takes(args, 2, 3)
        where, item = args[0], args[1]
        if isinstance(where, list):
            takes(args, 2, 2)
            meter.spend(len(where))
            order = reversed(range(len(where))) if last else iter(range(len(where)))
            return next((at for at in order if equal(where[at], item, meter)), -1)
        needs(where, str)
        needs(item, str)
        meter.spend(int(traversed(len(where)) * max(traversed(len(item)), 1)))
        begin = needs(args[2], int) if len(args) > 2 else None
        if begin is not None and not 0 <= begin <= len(where):
            raise CelError(f"index out of range: {begin}")
        if last:
            return int(where.rfind(item) if begin is None else where.rfind(item, 0, begin + len(item)))
        return int(where.find(item, begin or 0))

    return run


def _contains(meter: Meter, args: list[Any]) -> bool:
    takes(args, 2, 2)
    text, part = needs(args[0], str), needs(args[1], str)
    meter.spend(int(traversed(len(text)) * traversed(len(part))))
    return part in text


def _edge(of: Callable[[str, str], bool]) -> Callable[[Meter, list[Any]], Any]:
    def run(meter: Meter, args: list[Any]) -> bool:
        takes(args, 2, 2)
        meter.spend(int(traversed(len(needs(args[1], str)))))
        return of(needs(args[0], str), args[1])

    return run


def _ascii(upper: bool) -> Callable[..., str]:
    change = {code: code + (-32 if upper else 32) for code in range(*((97, 123) if upper else (65, 91)))}
    return lambda meter, text: str(text.translate(change))


def _compiled(meter: Meter, args: list[Any], most: int = 2) -> patterns.Pattern:
    takes(args, 2, most)
    text, expression = needs(args[0], str), needs(args[1], str)
    cost = int(matching(len(text), len(expression)))
    meter.spend(cost)
    try:
        result = patterns.pattern(expression)
    except patterns.PatternError as error:
        raise CelError(str(error)) from None
    # The cost of a pattern like "(a{1000})" depends on its program, not on its length: ten nanoseconds per step.
    meter.spend(max(result.cost(text) // 20 - cost, 0))
    return result


def _matches(meter: Meter, args: list[Any]) -> bool:
    return _compiled(meter, args).found_in(args[0])


def _find(meter: Meter, args: list[Any]) -> str:
    return next((match for match, _ in _compiled(meter, args).all_in(args[0])), "")


def _find_all(meter: Meter, args: list[Any]) -> list[str]:
    pattern = _compiled(meter, args, 3)
    most = needs(args[2], int) if len(args) > 2 else -1
    result: list[str] = []
    for text, left in pattern.all_in(args[0]) if most else ():
        meter.spend(1 + left * pattern.size // 1000)
        result.append(text)
        if len(result) == most:
            break
    return result


# -- lists ------------------------------------------------------------------------------------------------------------


def _ordered(work: Callable[[list[Any]], Any]) -> Callable[[Meter, list[Any]], Any]:
    """Return a function of a list of comparable values."""

    def run(meter: Meter, args: list[Any]) -> Any:
        takes(args, 1, 1)
        items = needs(args[0], list)
        meter.spend(len(items) + int(traversed(sum(len(item) for item in items if isinstance(item, str | bytes)))))
        try:
            return work(items)
        except TypeError:
            raise CelError(NO_OVERLOAD) from None

    return run


def _sum(items: list[Any]) -> Any:
    if not items:
        return 0
    kind = type(items[0])
    if any(type(item) is not kind for item in items):
        raise CelError(NO_OVERLOAD)
    total: Any = kind(0) if is_number(items[0]) else timedelta()
    for item in items:
        total = total + item
    if kind is Uint:
        return unsigned(total)
    return integer(total) if kind is int else total


def _extreme(name: str, of: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    """Return the function for the minimum or the maximum of a list."""

    def result(items: list[Any]) -> Any:
        if not items:
            raise CelError(f"{name} called on empty list")
        return of(items)

    return result


# -- conversions ------------------------------------------------------------------------------------------------------


def _size(meter: Meter, args: list[Any]) -> int:
    takes(args, 1, 1)
    meter.spend(1)
    return len(needs(args[0], str, bytes, list, dict))


def integer(value: Any) -> int:
    """Return an int, checked against its range. Raises CelError."""
    if not -INT <= value < INT:
        raise CelError("integer overflow")
    return int(value)


def unsigned(value: Any) -> Uint:
    """Return a uint, checked against its range. Raises CelError."""
    if not 0 <= value < 2 * INT:
        raise CelError("unsigned integer overflow")
    return Uint(value)


def _int(meter: Meter, args: list[Any]) -> int:
    takes(args, 1, 1)
    meter.spend(1)
    value = args[0]
    if isinstance(value, float):
        if not math.isfinite(value):
            raise CelError("integer overflow")
        return integer(int(value))
    if isinstance(value, datetime):
        return integer(int(value.timestamp()))
    if isinstance(value, timedelta):
        return integer(value // timedelta(microseconds=1) * 1000)
    if isinstance(value, str):
        return integer(_digits(value))
    return integer(needs(value, int, Uint))


def _digits(text: str) -> int:
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not digits.isascii() or not digits.isdigit() or len(digits) > 32:
        raise CelError(f"cannot convert {text[:32]!r} to int")
    return int(text)


def _uint(meter: Meter, args: list[Any]) -> Uint:
    takes(args, 1, 1)
    meter.spend(1)
    value = args[0]
    if isinstance(value, float) and not math.isfinite(value):
        raise CelError("unsigned integer overflow")
    return unsigned(_digits(value) if isinstance(value, str) else int(needs(value, int, Uint, float)))


def _double(meter: Meter, args: list[Any]) -> float:
    takes(args, 1, 1)
    meter.spend(1)
    value = needs(args[0], int, Uint, float, str)
    try:
        if isinstance(value, str) and (len(value) > _LONGEST_NUMBER or "_" in value or value != value.strip()):
            raise ValueError
        return float(value)
    except (ValueError, OverflowError):
        raise CelError("type conversion error from 'string' to 'double'") from None


def _string(meter: Meter, args: list[Any]) -> str:
    takes(args, 1, 1)
    value = args[0]
    meter.spend(max(int(traversed(size_of(value))), 1))
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise CelError("invalid UTF-8 in bytes, cannot convert to string") from None
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e21 else repr(value)
    if isinstance(value, datetime | timedelta):
        return time_text(value)
    if isinstance(value, Opaque) and value.cel_type in ("net.IP", "net.CIDR"):
        return str(value)
    return str(needs(value, str, int, Uint))


def _bytes(meter: Meter, args: list[Any]) -> bytes:
    takes(args, 1, 1)
    value = needs(args[0], str, bytes)
    meter.spend(max(int(traversed(len(value))), 1))
    return value if isinstance(value, bytes) else value.encode("utf-8", "replace")


def _bool(meter: Meter, args: list[Any]) -> bool:
    takes(args, 1, 1)
    meter.spend(1)
    words = {"true": True, "True": True, "TRUE": True, "t": True, "1": True,
             "false": False, "False": False, "FALSE": False, "f": False, "0": False}  # fmt: skip
    value = needs(args[0], bool, str)
    if isinstance(value, bool):
        return value
    if value not in words:
        raise CelError("type conversion error from 'string' to 'bool'")
    return words[value]


def _type(meter: Meter, args: list[Any]) -> TypeName:
    takes(args, 1, 1)
    meter.spend(1)
    return TypeName(type_name(args[0]))


def _dyn(meter: Meter, args: list[Any]) -> Any:
    takes(args, 1, 1)
    meter.spend(1)
    return args[0]


# -- times ------------------------------------------------------------------------------------------------------------

_LONGEST_DURATION = 65


def _duration(meter: Meter, args: list[Any]) -> timedelta:
    takes(args, 1, 1)
    meter.spend(1)
    value = needs(args[0], str, int, timedelta)
    if isinstance(value, timedelta):
        return value
    return timedelta(microseconds=value / 1000) if isinstance(value, int) else duration_of(value)


def duration_of(text: str) -> timedelta:
    """Return the duration of a text such as `1h30m`. Raises CelError."""
    try:
        if len(text) > _LONGEST_DURATION:
            raise ValueError
        return timedelta(seconds=duration(text))
    except (ValueError, OverflowError):
        raise CelError(f"invalid duration string {text[:32]!r}") from None


def _timestamp(meter: Meter, args: list[Any]) -> datetime:
    takes(args, 1, 1)
    meter.spend(1)
    value = needs(args[0], str, int, datetime)
    if isinstance(value, datetime):
        return value
    try:
        return datetime.fromtimestamp(value, UTC) if isinstance(value, int) else timestamp_of(value)
    except (ValueError, OverflowError, OSError):
        raise CelError(f"invalid timestamp {str(value)[:40]!r}") from None


def timestamp_of(text: str) -> datetime:
    """Return the time of an RFC 3339 text. Raises CelError."""
    try:
        if len(text) > 40 or "T" not in text.upper():
            raise ValueError
        time = datetime.fromisoformat(text)
        if time.tzinfo is None:
            raise ValueError
    except ValueError:
        raise CelError(f"invalid timestamp {text[:40]!r}") from None
    return time


def _zone(name: Any) -> Any:
    needs(name, str)
    if name[:1] in ("+", "-") or name[:1].isdigit():
        hours, colon, minutes = name.lstrip("+-").partition(":")
        if not colon or not (hours + minutes).isdigit() or len(name) > 6:
            raise CelError(f"invalid timezone {name[:32]!r}")
        shift = timedelta(hours=int(hours), minutes=int(minutes))
        if shift >= timedelta(days=1):
            raise CelError(f"invalid timezone {name[:32]!r}")
        return timezone(-shift if name[0] == "-" else shift)
    try:
        return UTC if name == "UTC" else ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        raise CelError(f"unknown time zone {name[:32]!r}") from None


def _part(of_time: Callable[[datetime], int], of_duration: Callable[[timedelta], int] | None = None) -> Any:
    def run(meter: Meter, args: list[Any]) -> int:
        takes(args, 1, 2)
        meter.spend(1)
        value = args[0]
        if isinstance(value, timedelta) and of_duration is not None and len(args) == 1:
            return of_duration(value)
        time = needs(value, datetime)
        return of_time(time.astimezone(_zone(args[1]) if len(args) > 1 else UTC))

    return run


def _changed(run: Callable[[Meter, list[Any]], Any]) -> Function:
    """Return a text function with a result that is not longer than its argument."""
    return Function(run, "string", lambda sizes: traversed(sizes[0]), lambda sizes: sizes[0])


def _sorted(items: list[Any]) -> bool:
    return all(not later < earlier for earlier, later in pairwise(items))


STANDARD: Mapping[str, Function] = {
    "size": Function(_size, "int"),
    "contains": Function(_contains, "bool", lambda n: traversed(n[0]) * traversed(n[1])),
    "startsWith": Function(_edge(str.startswith), "bool", lambda n: traversed(n[1])),
    "endsWith": Function(_edge(str.endswith), "bool", lambda n: traversed(n[1])),
    "matches": Function(_matches, "bool", lambda n: matching(n[0], n[1])),
    "find": Function(_find, "string", lambda n: matching(n[0], n[1]), lambda n: n[0]),
    "findAll": Function(_find_all, "list", lambda n: matching(n[0], n[1]), lambda n: n[0]),
    "lowerAscii": _changed(_text(_ascii(False), 1, 1)),
    "upperAscii": _changed(_text(_ascii(True), 1, 1)),
    "trim": _changed(_text(lambda meter, text: str(text.strip()), 1, 1)),
    "substring": _changed(_text(_substring, 2, 3)),
    "charAt": Function(_text(_char_at, 2, 2, 0), "string"),
    "replace": Function(
        _text(_replace, 3, 4),
        "string",
        lambda n: traversed(2 * n[0]),
        lambda n: n[0] + (n[0] + 1) * n[2],
    ),
    "split": Function(_text(_split, 2, 3, 2), "list", lambda n: traversed(2 * n[0]), lambda n: n[0] + 1),
    "join": Function(_join, "string"),
    "indexOf": Function(_index_of(False), "int"),
    "lastIndexOf": Function(_index_of(True), "int"),
    "isSorted": Function(_ordered(_sorted), "bool"),
    "sum": Function(_ordered(_sum), "dyn", items=True),
    "min": Function(_ordered(_extreme("min", min)), "dyn", items=True),
    "max": Function(_ordered(_extreme("max", max)), "dyn", items=True),
    "bool": Function(_bool, "bool"),
    "bytes": Function(_bytes, "bytes", lambda n: traversed(n[0]), lambda n: 4 * n[0]),
    "double": Function(_double, "double"),
    "int": Function(_int, "int"),
    "uint": Function(_uint, "uint"),
    "string": Function(_string, "string", lambda n: traversed(n[0]), lambda n: max(n[0], 32)),
    "type": Function(_type, "type"),
    "dyn": Function(_dyn, "dyn", items=True),
    "duration": Function(_duration, "duration"),
    "timestamp": Function(_timestamp, "timestamp"),
    "getFullYear": Function(_part(lambda t: t.year), "int"),
    "getMonth": Function(_part(lambda t: t.month - 1), "int"),
    "getDate": Function(_part(lambda t: t.day), "int"),
    "getDayOfMonth": Function(_part(lambda t: t.day - 1), "int"),
    "getDayOfWeek": Function(_part(lambda t: t.isoweekday() % 7), "int"),
    "getDayOfYear": Function(_part(lambda t: t.timetuple().tm_yday - 1), "int"),
    "getHours": Function(_part(lambda t: t.hour, lambda d: int(d.total_seconds() // 3600)), "int"),
    "getMinutes": Function(_part(lambda t: t.minute, lambda d: int(d.total_seconds() // 60)), "int"),
    "getSeconds": Function(_part(lambda t: t.second, lambda d: int(d.total_seconds())), "int"),
    "getMilliseconds": Function(
        _part(lambda t: t.microsecond // 1000, lambda d: d.microseconds // 1000 % 1000),
        "int",
    ),
}
"""The functions of every expression, by name; a target counts as the first argument."""
