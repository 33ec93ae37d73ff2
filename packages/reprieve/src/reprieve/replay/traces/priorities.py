"""Priority classes for jobs of a trace without them: `gpus>=8:high,else:low` (replay.md 2.8)."""

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from kube_rules.admission import HIGHEST_USER_PRIORITY
from reprieve.replay.job_list import ReplayJob

_COMPARED: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "=": operator.eq,
}
_NUMBERS: Final[Mapping[str, Callable[[ReplayJob], float]]] = {
    "gpus": lambda job: job.shape.gpus / 1000,
    "workers": lambda job: job.shape.workers,
    "duration": lambda job: float("inf") if job.work is None else job.work / 1000,
}
_TEXTS: Final[Mapping[str, Callable[[ReplayJob], str]]] = {
    "tenant": lambda job: job.shape.tenant,
    "job": lambda job: job.name,
}
_CONDITION: Final = re.compile(r"([a-z]+)\s*(>=|<=|>|<|=)\s*(\S+)")
_CLASS: Final = re.compile(r"([a-z0-9](?:[-a-z0-9.]{0,60}[a-z0-9])?)(?:=([+-]?\d{1,10}))?")
_STEP: Final = 100
_MOST: Final = 100


@dataclass(frozen=True, slots=True)
class PriorityRules:
    """The rules in their order: (condition, class, value). The first that holds is a job's."""

    rules: Sequence[tuple[Callable[[ReplayJob], bool], str, int]]

    def given(self, job: ReplayJob) -> ReplayJob:
        """Return the job with its class; one that no rule fits keeps what it has."""
        for holds, name, value in self.rules:
            if holds(job):
                shape = replace(job.shape, priority_class=name, priority=value)
                return ReplayJob(job.name, job.submit, job.work, shape, job.limit)
        return job

    @property
    def classes(self) -> dict[str, int]:
        """Class -> value."""
        return {name: value for _, name, value in self.rules}


def read_priorities(text: str) -> PriorityRules:
    """Raises ValueError that names the part and what is wanted."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > _MOST:
        raise ValueError(f"expected at most {_MOST} rules")
    result: list[tuple[Callable[[ReplayJob], bool], str, int | None]] = []
    for part in parts:
        condition, colon, name = part.rpartition(":")
        match = _CLASS.fullmatch(name.strip())
        if not colon or match is None:
            raise ValueError(f'"{part}": expected CONDITION:CLASS, such as gpus>=8:high or else:low=100')
        result.append((_condition(condition.strip(), part), match[1], int(match[2]) if match[2] else None))
    names = list(dict.fromkeys(name for _, name, _ in result))
    explicit = {name: value for _, name, value in result if value is not None}
    values = {name: explicit.get(name, (len(names) - at) * _STEP) for at, name in enumerate(names)}
    for name, value in values.items():
        if not -(2**31) <= value <= HIGHEST_USER_PRIORITY:
            raise ValueError(f'"{name}={value}": a priority is from {-(2**31)} to {HIGHEST_USER_PRIORITY}')
    return PriorityRules([(holds, name, values[name]) for holds, name, _ in result])


def _condition(text: str, part: str) -> Callable[[ReplayJob], bool]:
    if text == "else":
        return lambda job: True
    match = _CONDITION.fullmatch(text)
    fields = (*_NUMBERS, *_TEXTS)
    if match is None or match[1] not in fields:
        raise ValueError(f'"{part}": expected else, or one of {", ".join(fields)} compared by {", ".join(_COMPARED)}')
    name, sign, content = match.groups()
    if name in _TEXTS:
        if sign != "=":
            raise ValueError(f'"{part}": {name} is compared by = only')
        of = _TEXTS[name]
        return lambda job: of(job) == content
    try:
        number = float(content)
    except ValueError:
        number = math.nan
    if math.isnan(number):
        raise ValueError(f'"{part}": expected a number after {sign}')
    compare, measure = _COMPARED[sign], _NUMBERS[name]
    return lambda job: compare(measure(job), number)
