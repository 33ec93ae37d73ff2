"""The parameters of the search, and the configuration with their values (tune.md 5)."""

import re
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any, Final

from kube_rules.objects import DEFAULT_SCHEDULER
from kube_rules.unknown_fields import did_you_mean, nearest
from reprieve.framework.configuration import API_VERSION, KIND
from reprieve.replay.job_objects import GPU
from reprieve.scheduling.profiles import DEFAULT_WEIGHTS

Value = str | int | float
Document = dict[str, Any]
AS_IT_IS: Final = "Default"
"""Keeps the value of the configuration."""
_LONGEST_CHOICES: Final = 100
_LIMIT: Final = re.compile(r"(\d{1,6}) in (\S{1,32})", re.ASCII)


@dataclass(frozen=True, slots=True)
class ValueChoices:
    """One of several values."""

    values: tuple[Value, ...]

    def __contains__(self, value: Value) -> bool:
        return value in self.values

    def ends(self) -> tuple[Value, ...]:
        """Return values to test whether all can be used."""
        return self.values

    def __str__(self) -> str:
        return " | ".join(map(str, self.values))


@dataclass(frozen=True, slots=True)
class NumberRange:
    """A number from `low` to `high`; an integer if both are."""

    low: float
    high: float
    log: bool = False
    """Sampled uniformly in the logarithm."""

    @property
    def whole(self) -> bool:
        """Return whether only integers are in it."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    def __contains__(self, value: Value) -> bool:
        return not isinstance(value, str) and self.low <= value <= self.high

    def ends(self) -> tuple[Value, ...]:
        """Return values to test whether all can be used."""
        return self.low, self.high

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g}"


@dataclass(frozen=True, slots=True)
class TunedParameter:
    """A parameter of the search. `apply(draft, value)` writes it into a configuration."""

    name: str
    meaning: str
    values: ValueChoices | NumberRange
    default: Value
    """The scheduler's default, which the first proposal has."""
    apply: Callable[["Draft", Value], None]
    searched: bool = True
    """Whether it is searched without `--search`."""


class Draft:
    """A KubeSchedulerConfiguration in the making: a copy of another, changed in every profile."""

    def __init__(self, base: Mapping[str, Any] | None, gpu: str = GPU) -> None:
        self.document: Document = deepcopy(dict(base or {"apiVersion": API_VERSION, "kind": KIND}))
        self.gpu = gpu
        self._profiles = self.document.get("profiles") or [{"schedulerName": DEFAULT_SCHEDULER}]
        self.document["profiles"] = self._profiles

    def arg(self, plugin: str, value: Any, *path: str) -> None:
        """Set an arg of a plugin."""
        for profile in self._profiles:
            configs = _list(profile, "pluginConfig")
            config = next((item for item in configs if item.get("name") == plugin), None)
            if config is None:
                config = {"name": plugin}
                configs.append(config)
            args = _map(config, "args")
            for part in path[:-1]:
                args = _map(args, part)
            args[path[-1]] = value

    def weight(self, plugin: str, value: int) -> None:
        """Set the weight of a score, in profiles that do not disable it."""
        for profile in self._profiles:
            plugins = _map(profile, "plugins")
            if plugin in _disabled(plugins, "score") or plugin in _disabled(plugins, "multiPoint"):
                continue
            enabled = _list(_map(plugins, "score"), "enabled")
            entry = next((item for item in enabled if item.get("name") == plugin), None)
            if entry is not None:
                entry["weight"] = value
            else:
                enabled.append({"name": plugin, "weight": value})


def _map(parent: Document, name: str) -> Document:
    if not isinstance(parent.get(name), dict):
        parent[name] = {}
    result: Document = parent[name]
    return result


def _list(parent: Document, name: str) -> list[Document]:
    if not isinstance(parent.get(name), list):
        parent[name] = []
    result: list[Document] = parent[name]
    return result


def _disabled(plugins: Document, point: str) -> set[str]:
    """Return the scores that a profile disables and does not enable there; `*` disables all."""
    point_set = plugins.get(point) or {}
    disabled = {item.get("name") for item in point_set.get("disabled") or ()}
    names = set(DEFAULT_WEIGHTS) if "*" in disabled else {name for name in disabled if name}
    return names - {item.get("name") for item in point_set.get("enabled") or ()}


def _arg(plugin: str, *path: str) -> Callable[[Draft, Value], None]:
    return lambda draft, value: draft.arg(plugin, value, *path)


def _weight(plugin: str) -> Callable[[Draft, Value], None]:
    return lambda draft, value: draft.weight(plugin, int(value))


def _fit(draft: Draft, value: Value) -> None:
    if value != AS_IT_IS:
        resources = [{"name": draft.gpu, "weight": 1}]
        draft.arg("NodeResourcesFit", {"type": value, "resources": resources}, "scoringStrategy")


def _order(draft: Draft, value: Value) -> None:
    middle = [part.strip() for part in str(value).split(",") if part.strip()]
    draft.arg("DefaultPreemption", ["pdbViolations", "highestPriority", *middle, "startTime"], "cost")


def _limits(draft: Draft, value: Value) -> None:
    if value == AS_IT_IS:
        return
    match = _LIMIT.fullmatch(str(value))
    if match is None and value != "none":
        raise ValueError("expected Default, none, or a number of evictions and a time such as 3 in 24h")
    limits = [] if match is None else [{"per": "owner", "most": int(match[1]), "within": match[2]}]
    draft.arg("DefaultPreemption", limits, "evictionLimits")


_TODAY: Final = "gangsBroken, prioritySum, pods"
_ORDERS: Final = (_TODAY, *map(", ".join, permutations(("gangsBroken", "lostWork", "prioritySum", "pods"))))
_WEIGHTED: Final = ("NodeResourcesFit", "NodeResourcesBalancedAllocation")
PARAMETERS: Final[Sequence[TunedParameter]] = (
    *(
        TunedParameter(
            f"weights.{name}",
            f"weight of the score {name}",
            NumberRange(1, 20, log=True),
            weight,
            _weight(name),
            searched=name in _WEIGHTED,
        )
        for name, weight in DEFAULT_WEIGHTS.items()
    ),
    TunedParameter(
        "fit.strategy",
        "scoringStrategy of NodeResourcesFit, counted in GPUs; Default: as it is",
        ValueChoices((AS_IT_IS, "LeastAllocated", "MostAllocated")),
        AS_IT_IS,
        _fit,
    ),
    TunedParameter(
        "preemption.cost",
        "order of the criteria between pdbViolations, highestPriority and startTime",
        ValueChoices(_ORDERS),
        _TODAY,
        _order,
    ),
    TunedParameter(
        "preemption.placement",
        "where a preempting group is placed",
        ValueChoices(("MinimizeVictims", "Compatible")),
        "MinimizeVictims",
        _arg("DefaultPreemption", "placement"),
    ),
    TunedParameter(
        "preemption.waitForCheckpoint",
        "how long preemptors wait for a checkpoint",
        ValueChoices(("0s", "5m", "15m", "30m", "1h")),
        "0s",
        _arg("DefaultPreemption", "waitForCheckpoint"),
    ),
    TunedParameter(
        "preemption.waitForCompletions",
        "how long preemptors wait for work that is expected to end",
        ValueChoices(("0s", "5m", "15m", "1h")),
        "0s",
        _arg("DefaultPreemption", "waitForCompletions"),
    ),
    TunedParameter(
        "preemption.evictionLimits",
        "evictions of one owner, at most N in a time; Default: as it is",
        ValueChoices((AS_IT_IS, "none", "1 in 1h", "1 in 6h", "1 in 24h", "3 in 24h")),
        AS_IT_IS,
        _limits,
    ),
    TunedParameter(
        "reservations.reserveAfter",
        "after how long a pending group gets a reservation",
        ValueChoices(("0s", "2m", "10m", "30m", "2h", "8h")),
        "10m",
        _arg("Reservations", "reserveAfter"),
    ),
    TunedParameter(
        "reservations.maxReservations",
        "how many groups hold a reservation",
        NumberRange(1, 8),
        4,
        _arg("Reservations", "maxReservations"),
    ),
    TunedParameter(
        "reservations.minPods",
        "fewest pods of a group that gets one",
        NumberRange(1, 8),
        2,
        _arg("Reservations", "minPods"),
    ),
    TunedParameter(
        "reservations.maxIdleShare",
        "share of the cluster that may be idle for reservations",
        NumberRange(0.01, 0.5, log=True),
        0.1,
        _arg("Reservations", "maxIdleShare"),
    ),
    TunedParameter(
        "queueing.ageing",
        "pending time after which a workload is tried before all others",
        ValueChoices(("0s", "1h", "6h", "24h")),
        "0s",
        _arg("Reservations", "queueing", "ageing"),
    ),
)


def searched() -> tuple[TunedParameter, ...]:
    """Return the parameters of a search without a file."""
    return tuple(parameter for parameter in PARAMETERS if parameter.searched)


def read_search(document: object) -> tuple[TunedParameter, ...]:
    """Return the parameters in a search file, with their values. Raises ValueError."""
    if not isinstance(document, Mapping) or not document:
        raise ValueError("expected a map such as reservations.minPods: {low: 1, high: 4}")
    parameters = {parameter.name: parameter for parameter in PARAMETERS}
    choices = {}
    for name, value in document.items():
        if name not in parameters:
            hint = did_you_mean(nearest(str(name), parameters))
            raise ValueError(f'"{str(name)[:64]}": no such name{hint}')
        try:
            choices[name] = replace(parameters[name], values=_values(value, parameters[name]))
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return tuple(choices[name] for name in parameters if name in choices)


def _values(value: object, parameter: TunedParameter) -> ValueChoices | NumberRange:
    if isinstance(value, list) and 0 < len(value) <= _LONGEST_CHOICES and all(map(_is_value, value)):
        return ValueChoices(tuple(dict.fromkeys(value)))
    if isinstance(value, Mapping) and isinstance(parameter.values, NumberRange) and set(value) == {"low", "high"}:
        low, high = value["low"], value["high"]
        if all(_is_value(end) and not isinstance(end, str) for end in (low, high)) and low <= high:
            if parameter.values.whole and not (isinstance(low, int) and isinstance(high, int)):
                raise ValueError("expected whole numbers")
            return NumberRange(low, high, log=parameter.values.log and low > 0)
    ranges = " or {low: NUMBER, high: NUMBER}" if isinstance(parameter.values, NumberRange) else ""
    raise ValueError(f"expected a list of values{ranges}")


def _is_value(value: object) -> bool:
    return isinstance(value, (str, int, float)) and not isinstance(value, bool)


def configuration_with(
    base: Mapping[str, Any] | None, values: Mapping[str, Value], gpu: str, parameters: Sequence[TunedParameter]
) -> Document:
    """Return the configuration `base` with these values. Raises ValueError for an invalid value."""
    draft = Draft(base, gpu)
    for parameter in parameters:
        if parameter.name in values:
            parameter.apply(draft, values[parameter.name])
    return draft.document
