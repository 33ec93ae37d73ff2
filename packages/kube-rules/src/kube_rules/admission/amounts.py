"""Sums of requests and limits of pod manifests, exact and in the format of the manifest.

Terms: an ``Amount`` is (10^-9 units, format); a sum has the format of its first part, as upstream adds quantities. The
rule for a pod is api.md "Quantities and requests": max(sum of containers + restartable init containers, init peak),
replaced by pod-level resources where set, plus overhead.
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
        """Return the quantity as objects show it."""
        return format_quantity(self.nano, self.form)


Amounts = dict[str, Amount]
ONE = Amount(10**9)
ZERO = Amount(0)


def amount(value: Any) -> Amount:
    """Read a quantity of a manifest (text or number)."""
    quantity = parse(value)
    return Amount(quantity.nano, quantity.format)


def amounts(resources: Mapping[str, Any] | None) -> Amounts:
    """Read a resource list."""
    return {name: amount(value) for name, value in (resources or {}).items()}


def added(left: Mapping[str, Amount], right: Mapping[str, Amount]) -> Amounts:
    """Return the sum of two resource lists, with the names of both."""
    out = dict(left)
    for name, more in right.items():
        present = out.get(name)
        if present is None or present.nano == 0:
            out[name] = more
        else:
            out[name] = Amount(present.nano + more.nano, present.form)
    return out


def subtracted(left: Mapping[str, Amount], right: Mapping[str, Amount]) -> Amounts:
    """Return ``left`` minus ``right``, with the names of both."""
    return added(left, {name: Amount(-part.nano, part.form) for name, part in right.items()})


def printed(resources: Mapping[str, Amount]) -> dict[str, str]:
    """Return a resource list as objects show it, sorted by name."""
    return {name: resources[name].text for name in sorted(resources)}


def highest(left: Mapping[str, Amount], right: Mapping[str, Amount]) -> Amounts:
    """Return the larger amount of each name in either list."""
    out = dict(left)
    for name, candidate in right.items():
        if name not in out or candidate.nano > out[name].nano:
            out[name] = candidate
    return out


def of_container(container: Json, part: Which) -> Amounts:
    """Return the requests or the limits of one container."""
    return amounts((container.get("resources") or {}).get(part))


def _restartable(containers: Iterable[Json]) -> list[Json]:
    return [container for container in containers if container.get("restartPolicy") == "Always"]


def of_pod(spec: Json, part: Which) -> Amounts:
    """Return the requests or the limits of a pod by the rule of this module."""
    total: Amounts = {}
    for container in spec.get("containers") or ():
        total = added(total, of_container(container, part))
    initial = spec.get("initContainers") or ()
    for container in _restartable(initial):
        total = added(total, of_container(container, part))
    beside: Amounts = {}
    for container in initial:
        own = of_container(container, part)
        if container.get("restartPolicy") == "Always":
            beside = added(beside, own)
            own = beside
        else:
            own = added(own, beside)
        total = highest(total, own)
    whole = amounts((spec.get("resources") or {}).get(part))
    total.update({name: value for name, value in whole.items() if is_pod_level_resource(name)})
    overhead = amounts(spec.get("overhead"))
    if part == "limits":
        overhead = {name: value for name, value in overhead.items() if name in total}
    return added(total, overhead)
