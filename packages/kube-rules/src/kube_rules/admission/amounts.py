"""Adding up requests and limits of pod manifests, exactly and in the form they were written in.

Terms: an ``Amount`` is (10^-9 units, format); a sum has the format of its first part, as upstream adds
quantities. The rule of a pod is api.md "Quantities and requests": max(sum of containers + restartable init
containers, init peak), replaced by pod-level resources where set, plus overhead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

from kube_rules.json import Json
from kube_rules.quantity import DECIMAL_SI, format_quantity, parse
from kube_rules.requests import is_pod_level_resource

Which = Literal["requests", "limits"]


class Amount(NamedTuple):
    """An exact quantity: 10^-9 units and the format it prints in."""

    nano: int
    form: str = DECIMAL_SI

    @property
    def text(self) -> str:
        """Return the quantity as it stands in an object."""
        return format_quantity(self.nano, self.form)


Amounts = dict[str, Amount]
ONE = Amount(10**9)
ZERO = Amount(0)


def amount(value: Any) -> Amount:
    """Read a quantity as it stands in a manifest (text or number)."""
    quantity = parse(value)
    return Amount(quantity.nano, quantity.format)


def amounts(resources: Mapping[str, Any] | None) -> Amounts:
    """Read a resource list."""
    return {name: amount(value) for name, value in (resources or {}).items()}


def added(left: Mapping[str, Amount], right: Mapping[str, Amount]) -> Amounts:
    """Return the sum of two lists; names of either are in it."""
    out = dict(left)
    for name, more in right.items():
        present = out.get(name)
        if present is None or present.nano == 0:
            out[name] = more
        else:
            out[name] = Amount(present.nano + more.nano, present.form)
    return out


def subtracted(left: Mapping[str, Amount], right: Mapping[str, Amount]) -> Amounts:
    """Return ``left`` minus ``right`` for the names of either."""
    return added(left, {name: Amount(-one.nano, one.form) for name, one in right.items()})


def printed(resources: Mapping[str, Amount]) -> dict[str, str]:
    """Return a resource list as it stands in an object, sorted by name."""
    return {name: resources[name].text for name in sorted(resources)}


def highest(left: Mapping[str, Amount], right: Mapping[str, Amount]) -> Amounts:
    """Return the larger amount for each name of either."""
    out = dict(left)
    for name, one in right.items():
        if name not in out or one.nano > out[name].nano:
            out[name] = one
    return out


def of_container(container: Json, which: Which) -> Amounts:
    """Return what one container requests, or is limited to."""
    return amounts((container.get("resources") or {}).get(which))


def _restartable(containers: Iterable[Json]) -> list[Json]:
    return [container for container in containers if container.get("restartPolicy") == "Always"]


def of_pod(spec: Json, which: Which) -> Amounts:
    """Return what a pod requests, or is limited to, by the module's rule."""
    total: Amounts = {}
    for container in spec.get("containers") or ():
        total = added(total, of_container(container, which))
    initial = spec.get("initContainers") or ()
    for container in _restartable(initial):
        total = added(total, of_container(container, which))
    beside: Amounts = {}
    for container in initial:
        own = of_container(container, which)
        if container.get("restartPolicy") == "Always":
            beside = added(beside, own)
            own = beside
        else:
            own = added(own, beside)
        total = highest(total, own)
    whole = amounts((spec.get("resources") or {}).get(which))
    total.update({name: one for name, one in whole.items() if is_pod_level_resource(name)})
    overhead = amounts(spec.get("overhead"))
    if which == "limits":
        overhead = {name: one for name, one in overhead.items() if name in total}
    return added(total, overhead)
