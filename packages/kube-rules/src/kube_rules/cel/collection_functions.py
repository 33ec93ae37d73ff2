"""Functions of lists, sets and optionals.

cel-go: ext.Lists (version 3), ext.Sets, cel.OptionalTypes; with their estimated and actual costs. Functions that take
quadratic time pay the quadratic cost before they start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from kube_rules.cel.functions import NO_OVERLOAD, Function, needs, takes
from kube_rules.cel.values import NONE, CelError, Meter, Opaque, Optional, equal, is_number

_MOST_RANGE = 1_000_000
_LIST = 10
"""Cost of making a list (common.ListCreateBaseCost)."""


def ordered(keys: list[Any]) -> list[int]:
    """Return the positions of the keys in their order. Raises CelError if keys are not comparable with each other."""
    if not keys:
        return []
    kinds = {type(key) for key in keys}
    first = keys[0]
    if len(kinds) > 1:
        raise CelError("list elements must have the same type")
    if not (is_number(first) or isinstance(first, bool | str | bytes | datetime | timedelta)):
        raise CelError("list elements must be comparable")
    return sorted(range(len(keys)), key=keys.__getitem__)


def sort_cost(count: int) -> int:
    """Return the cost of sorting this many items: twice the square, the call and the list."""
    return 2 * count * count + 1 + _LIST


def _slice(meter: Meter, args: list[Any]) -> list[Any]:
    takes(args, 3, 3)
    items, begin, end = needs(args[0], list), needs(args[1], int), needs(args[2], int)
    if begin < 0 or end < 0:
        raise CelError(f"cannot slice({begin}, {end}), negative indexes not supported")
    if begin > end:
        raise CelError(f"cannot slice({begin}, {end}), start index must be less than or equal to end index")
    if end > len(items):
        raise CelError(f"cannot slice({begin}, {end}), list is length {len(items)}")
    meter.spend(end - begin + 1 + _LIST)
    return list(items[begin:end])


def _flatten(meter: Meter, args: list[Any]) -> list[Any]:
    takes(args, 1, 2)
    depth = needs(args[1], int) if len(args) > 1 else 1
    if depth < 0:
        raise CelError("level must be non-negative")
    meter.spend(1 + _LIST)
    flat: list[Any] = []
    pending = [(iter(needs(args[0], list)), depth)]
    while pending:
        items, left = pending[-1]
        for item in items:
            meter.spend(1)
            if isinstance(item, list) and left:
                pending.append((iter(item), left - 1))
                break
            flat.append(item)
        else:
            pending.pop()
    return flat


def _range(meter: Meter, args: list[Any]) -> list[int]:
    takes(args, 1, 1)
    count = max(needs(args[0], int), 0)
    meter.spend(min(count, _MOST_RANGE * 10) + 1 + _LIST)
    if count > _MOST_RANGE:
        raise CelError(f"lists.range() of more than {_MOST_RANGE} numbers")
    return list(range(count))


def _reverse(meter: Meter, args: list[Any]) -> Any:
    takes(args, 1, 1)
    items = needs(args[0], list)
    meter.spend(len(items) + 1 + _LIST)
    return items[::-1]


def _distinct(meter: Meter, args: list[Any]) -> list[Any]:
    takes(args, 1, 1)
    items = needs(args[0], list)
    meter.spend(2 * len(items) * len(items) + 1 + _LIST)
    distinct: list[Any] = []
    for item in items:
        if not any(equal(item, earlier, meter) for earlier in distinct):
            distinct.append(item)
    return distinct


def _sort(meter: Meter, args: list[Any]) -> list[Any]:
    takes(args, 1, 1)
    items = needs(args[0], list)
    meter.spend(sort_cost(len(items)))
    return [items[at] for at in ordered(items)]


# -- sets -------------------------------------------------------------------------------------------------------------


def _within(inner: list[Any], outer: list[Any], meter: Meter) -> bool:
    return all(any(equal(item, beside, meter) for beside in outer) for item in inner)


def _meeting(left: list[Any], right: list[Any], meter: Meter) -> bool:
    return any(any(equal(item, beside, meter) for beside in right) for item in left)


def _sets(work: Callable[[list[Any], list[Any], Meter], bool], times: int) -> Function:
    def run(meter: Meter, args: list[Any]) -> bool:
        takes(args, 2, 2)
        left, right = needs(args[0], list), needs(args[1], list)
        meter.spend(1 + times * len(left) * len(right))
        return work(left, right, meter)

    return Function(run, "bool", lambda n: 1 + times * n[0] * n[1])


# -- optionals --------------------------------------------------------------------------------------------------------


def nonzero(value: Any) -> bool:
    """Return whether a value differs from the zero of its type."""
    if isinstance(value, Optional):
        return value.present
    if isinstance(value, datetime | Opaque):
        return True
    return bool(value)


def _optional(work: Callable[..., Any], count: int, first: type = object) -> Callable[[Meter, list[Any]], Any]:
    def run(meter: Meter, args: list[Any]) -> Any:
        takes(args, count, count)
        meter.spend(1)
        if first is not object and not isinstance(args[0], first):
            raise CelError(NO_OVERLOAD)
        return work(*args)

    return run


def _value(optional: Optional) -> Any:
    if not optional.present:
        raise CelError("optional.none() dereference")
    return optional.value


def _or(optional: Optional, alternative: Any) -> Optional:
    fallback: Optional = needs(alternative, Optional)
    return optional if optional.present else fallback


def _unwrap(meter: Meter, args: list[Any]) -> list[Any]:
    takes(args, 1, 1)
    items = needs(args[0], list)
    meter.spend(len(items) + 1)
    return [item.value for item in items if needs(item, Optional).present]


def _end(at: int) -> Function:
    def run(meter: Meter, args: list[Any]) -> Optional:
        takes(args, 1, 1)
        meter.spend(1)
        items = needs(args[0], list)
        return Optional(items[at]) if items else NONE

    return Function(run, "optional", items=True)


MOST_INCLUDED = 48
"""Maximum number of values in a list for `includes` (resourceapi.ResourceSliceMaxAttributeValuesPerDevice)."""


def _includes(meter: Meter, args: list[Any]) -> bool:
    """Return whether a list contains a value, or a single value equals it (KEP-5491)."""
    takes(args, 2, 2)
    meter.spend(1)
    target, wanted = args
    if not isinstance(target, list):
        return equal(target, wanted, meter)
    if any(equal(item, wanted, meter) for item in target[:MOST_INCLUDED]):
        return True
    if len(target) > MOST_INCLUDED:
        raise CelError(f"'includes' function cannot be applied to lists longer than {MOST_INCLUDED} values")
    return False


_SAME: Callable[[list[float]], float] = lambda sizes: sizes[0]  # noqa: E731

COLLECTIONS: Mapping[str, Function] = {
    "slice": Function(_slice, "list", lambda n: n[0] + 1 + _LIST, _SAME, items=True),
    "flatten": Function(_flatten, "list"),
    "lists.range": Function(_range, "list"),
    "reverse": Function(_reverse, "list", lambda n: n[0] + 1 + _LIST, _SAME, items=True),
    "distinct": Function(_distinct, "list", lambda n: 2 * n[0] * n[0] + 1 + _LIST, _SAME, items=True),
    "sort": Function(_sort, "list", lambda n: 2.1 * n[0] * n[0] + 1 + _LIST, _SAME, items=True),
    "first": _end(0),
    "last": _end(-1),
    "sets.contains": _sets(lambda left, right, meter: _within(right, left, meter), 1),
    "sets.intersects": _sets(_meeting, 1),
    "sets.equivalent": _sets(lambda a, b, meter: _within(a, b, meter) and _within(b, a, meter), 2),
    "optional.of": Function(_optional(Optional, 1), "optional"),
    "optional.none": Function(_optional(lambda: NONE, 0), "optional"),
    "optional.ofNonZeroValue": Function(
        _optional(lambda value: Optional(value) if nonzero(value) else NONE, 1), "optional"
    ),
    "optional.unwrap": Function(_unwrap, "list", lambda n: n[0] + 1, _SAME),
    "unwrapOpt": Function(_unwrap, "list", lambda n: n[0] + 1, _SAME),
    "hasValue": Function(_optional(lambda optional: optional.present, 1, Optional), "bool"),
    "includes": Function(_includes, "bool", lambda _: MOST_INCLUDED),
    "value": Function(_optional(_value, 1, Optional), "dyn"),
    "or": Function(_optional(_or, 2, Optional), "optional"),
    "orValue": Function(_optional(lambda item, default: item.value if item.present else default, 2, Optional), "dyn"),
}
"""Functions on lists, sets and optionals, by name."""
