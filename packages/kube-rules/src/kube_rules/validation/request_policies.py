"""Rules of `requestPolicy`: the amounts of a device's capacity that requests may consume (devices.md 5.5).

Upstream: pkg/apis/resource/validation (validateRequestPolicy), with the gate DRAFractionalCapacityRange on.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

from kube_rules import field_errors as fe
from kube_rules.json import Json
from kube_rules.quantity import NANO, Quantity, format_quantity, parse
from kube_rules.validation import rows as r

_MOST_VALUES: Final = 10
_MILLI: Final = NANO // 1000
_LARGEST: Final = ((1 << 63) - 1) * NANO
_NO_DEFAULT: Final = "default value is not valid according to the requestPolicy"


def request_policy(amount: Json, path: str) -> r.Found:
    """Check the policy of a capacity (`amount` with `value` and `requestPolicy`), at `path`."""
    policy = amount.get("requestPolicy") or {}
    values, span, default = policy.get("validValues") or [], policy.get("validRange"), policy.get("default")
    if values and span is not None:
        detail = 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
        yield fe.forbidden(path, detail)
    elif values or span is not None:
        form = "validValues" if values else "validRange"
        if default is None:
            yield fe.required(f"{path}.default", f"required when {form} is defined")
            return
        most = parse(amount.get("value", 0))
        if values:
            yield from _values([parse(value) for value in values], parse(default), most, f"{path}.{form}")
        else:
            yield from _range(span or {}, parse(default), most, f"{path}.{form}")


def _values(values: list[Quantity], default: Quantity, most: Quantity, path: str) -> r.Found:
    """Check valid values: ascending, unique, within the capacity, the default among them."""
    for index, (before, after) in enumerate(pairwise(values), 1):
        if before.nano > after.nano:
            yield fe.invalid(f"{path}[{index}]", after.text, "values must be sorted in ascending order")
    if len(values) > _MOST_VALUES:
        yield fe.too_many(path, len(values), _MOST_VALUES)
    seen: set[int] = set()
    for index, value in enumerate(values):
        if value.nano > most.nano:
            detail = f"option is larger than capacity value: {most.text}"
            yield fe.invalid(f"{path}[{index}]", value.text, detail)
        if value.nano in seen:
            yield fe.duplicate(f"{path}[{index}]", value.text)
        seen.add(value.nano)
    if default.nano not in seen:
        yield fe.invalid(path, default.text, _NO_DEFAULT)


def _range(span: Json, default: Quantity, most: Quantity, path: str) -> r.Found:
    """Check a valid range from `min` to `max`, within the capacity, in steps."""
    least, end, step = (_maybe(span.get(name)) for name in ("min", "max", "step"))
    if least is None:
        yield fe.required(f"{path}.min", "required when validRange is defined")
        return
    if least.nano > most.nano:
        yield fe.invalid(f"{path}.min", least.text, f"min is larger than capacity value: {most.text}")
    if default.nano < least.nano:
        yield fe.invalid(f"{path}.default", default.text, f"default is less than min: {least.text}")
    if end is not None:
        if least.nano > end.nano:
            yield fe.invalid(f"{path}.max", least.text, f"min is larger than max: {end.text}")
        if end.nano > most.nano:
            yield fe.invalid(f"{path}.max", end.text, f"max is larger than capacity value: {most.text}")
        if default.nano > end.nano:
            yield fe.invalid(f"{path}.default", default.text, f"default is more than max: {end.text}")
    stated = {"default": default, "min": least, "max": end, "step": step}
    amounts = {name: amount for name, amount in stated.items() if amount is not None}
    fractional = any(amount.nano % NANO for amount in amounts.values())
    fine = [name for name, amount in amounts.items() if fractional and amount.nano % _MILLI]
    for name in fine:
        yield fe.invalid(f"{path}.{name}", amounts[name].text, "value cannot be represented as a milli value")
    if step is not None and not fine:
        yield from _steps(amounts, most, path, whole=not fractional)


def _steps(amounts: dict[str, Quantity], most: Quantity, path: str, *, whole: bool) -> r.Found:
    """Check that the default and `max` are a multiple of steps above `min`."""
    step, least = amounts["step"], amounts["min"]
    if step.nano <= 0:
        yield fe.invalid(f"{path}.step", step.text, "must be greater than zero")
        return
    if least.nano + step.nano > most.nano:
        added = format_quantity(least.nano + step.nano, least.format)
        yield fe.invalid(f"{path}.step", step.text, f"one step {added} is larger than capacity value: {most.text}")
    outside = False
    for name, amount in amounts.items() if whole else ():
        if amount.nano < 0:
            outside = True
            yield fe.invalid(f"{path}.{name}", amount.text, r.NOT_NEGATIVE)
        elif amount.nano > _LARGEST:
            outside = True
            yield fe.invalid(f"{path}.{name}", amount.text, f"must not be larger than {_LARGEST // NANO}")
    for name in ("default", "max") if not outside else ():
        if name in amounts and (amounts[name].nano - least.nano) % step.nano:
            detail = f"value is not a multiple of a given step ({step.text}) from ({least.text})"
            yield fe.invalid(f"{path}.step", amounts[name].text, detail)


def _maybe(text: Any) -> Quantity | None:
    return None if text is None else parse(text)
