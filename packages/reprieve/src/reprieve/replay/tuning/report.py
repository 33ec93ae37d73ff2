"""The result of tuning: the front, today's configuration and kube-scheduler's, on held-out blocks (tune.md 4, 7)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import yaml

from kube_rules.printable import printable_line
from kube_rules.versions import DOCUMENT_VERSION
from reprieve.decisions.phrases import count
from reprieve.replay.measures import time_text
from reprieve.replay.tuning.blocks import span_text
from reprieve.replay.tuning.intervals import Interval, difference, interval
from reprieve.replay.tuning.objectives import Measured, Objective, value_of

TODAY: Final = "today"
KUBE_SCHEDULER: Final = "kube-scheduler"
Pair = tuple[Measured, Measured]
"""Both objectives, measured on a block."""


class TunedConfiguration(msgspec.Struct, frozen=True, rename="camel"):
    """A configuration and its values, in the order of the objectives; intervals are over the held-out blocks."""

    name: str
    """`today`, `kube-scheduler`, or the number of the trial."""
    training: tuple[float, ...]
    held_out: tuple[Interval, ...]
    against_today: tuple[Interval, ...]
    """Differences from today's configuration; below zero is better."""
    values: dict[str, str | int | float] = {}
    """The searched parameters."""


class TuningReport(msgspec.Struct, frozen=True, rename="camel"):
    """The document."""

    setting: dict[str, Any]
    configurations: tuple[TunedConfiguration, ...]
    chosen: str
    """The name of a configuration."""
    configuration: dict[str, Any]
    """The chosen KubeSchedulerConfiguration."""
    api_version: str = DOCUMENT_VERSION
    kind: str = "Tuning"

    def named(self, name: str) -> TunedConfiguration:
        """Return the configuration with that name."""
        return next(item for item in self.configurations if item.name == name)


@dataclass(frozen=True, slots=True)
class MeasuredConfiguration:
    """A configuration with its measurements on each block."""

    name: str
    training: Sequence[Pair]
    held_out: Sequence[Pair]
    values: Mapping[str, str | int | float]


def tuned(item: MeasuredConfiguration, today: MeasuredConfiguration, seed: int) -> TunedConfiguration:
    """Return values and intervals of a configuration."""
    places = range(2)
    return TunedConfiguration(
        item.name,
        tuple(value_of([pair[at] for pair in item.training]) for at in places),
        tuple(interval([pair[at] for pair in item.held_out], seed) for at in places),
        tuple(
            difference([pair[at] for pair in item.held_out], [pair[at] for pair in today.held_out], seed)
            for at in places
        ),
        dict(item.values),
    )


def choice(front: Mapping[str, Sequence[float]], today: Sequence[float]) -> str | None:
    """Return the best of the front by training values; None if each is worse than today in an objective.

    The best has the lowest sum of both values, each divided by today's.
    """
    fitting = {
        name: values
        for name, values in front.items()
        if all(value <= now for value, now in zip(values, today, strict=True))
    }
    return min(fitting, key=lambda name: (_shares(fitting[name], today), name)) if fitting else None


def _shares(values: Sequence[float], today: Sequence[float]) -> float:
    return sum(value / now for value, now in zip(values, today, strict=True) if now)


def amount_text(objective: Objective, amount: float, *, signed: bool = False) -> str:
    """Return `12.3 h` or `4.5 min`; with its sign if `signed`."""
    size = abs(amount)
    text = time_text(size) if objective.unit == "s" else f"{size:,.1f} h" if objective.unit == "h" else f"{size:,.2f}"
    return ("-" if amount < 0 else "+" if signed and amount > 0 else "") + text


def interval_text(objective: Objective, interval: Interval, *, signed: bool = False) -> str:
    """Return `12.3 h (10.1 h to 14.0 h)`."""
    ends = (interval.value, interval.low, interval.high)
    value, low, high = (amount_text(objective, end, signed=signed) for end in ends)
    return f"{value} ({low} to {high})"


def blocks_text(setting: Mapping[str, Any]) -> str:
    """Return the number and the length of the training blocks: `7 blocks of 1 week`."""
    return f"{count(setting['trainingBlocks'], 'block')} of {span_text(round(setting['blockSeconds'] * 1000))}"


def configuration_text(report: TuningReport, objectives: Sequence[Objective], jobs: str) -> str:
    """Return the chosen configuration as YAML, with its expected effects in a comment."""
    evaluation = report.named(report.chosen)
    setting = report.setting
    subject = "the configuration that was given" if evaluation.name == TODAY else f"trial {evaluation.name}"
    lines = [
        f"Written by reprieve tune: {subject}, chosen of {setting['trials']} on {blocks_text(setting)} of {jobs}.",
        f"Expected, by {count(setting['heldOutBlocks'], 'later block')} that the search has not seen (95 % intervals):",
    ]
    for at, objective in enumerate(objectives):
        lines.append(
            f"  {objective.name}: {interval_text(objective, evaluation.held_out[at])}, "
            f"against the configuration before {interval_text(objective, evaluation.against_today[at], signed=True)}"
        )
    comment = "".join(f"# {printable_line(line)}\n" for line in lines)
    return comment + yaml.safe_dump(report.configuration, sort_keys=False, allow_unicode=True)
