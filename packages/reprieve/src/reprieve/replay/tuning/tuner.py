"""The search: configurations are measured on the training blocks, and the best of them on the others (tune.md)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from reprieve.replay.tuning.blocks import SplitTrace, TraceBlock
from reprieve.replay.tuning.objectives import Objective, value_of
from reprieve.replay.tuning.report import (
    KUBE_SCHEDULER,
    TODAY,
    MeasuredConfiguration,
    Pair,
    TuningReport,
    choice,
    tuned,
)
from reprieve.replay.tuning.search_space import Document, TunedParameter, Value, configuration_with
from reprieve.replay.world import Policy

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

    from reprieve.replay.tuning.study import TuningStudy

MOST_SHOWN: Final = 8
"""Configurations of the front in the report, besides the chosen one."""


class ChoiceError(ValueError):
    """The chosen trial is not on the front."""


@dataclass(frozen=True, slots=True)
class WantedMeasure:
    """A configuration to replay on blocks (None: the default); `compatible`: decide as kube-scheduler."""

    document: Mapping[str, Any] | None
    blocks: Sequence[TraceBlock]
    compatible: bool = False


Measure = Callable[[Sequence[WantedMeasure]], list[list[Pair]]]
"""Returns the values of each block, for each configuration."""


@dataclass(frozen=True, slots=True)
class Tuner:
    """A search. `policy_of(document, compatible)` creates a policy from a configuration, `measure` replays
    configurations on blocks.
    """

    objectives: tuple[Objective, Objective]
    parameters: Sequence[TunedParameter]
    split: SplitTrace
    base: Mapping[str, Any] | None
    gpu: str
    seed: int
    policy_of: Callable[[Mapping[str, Any] | None, bool], Policy]
    measure: Measure

    def check(self) -> None:
        """Raise ValueError for a value of the search that gives an invalid configuration."""
        for parameter in self.parameters:
            for value in parameter.values.ends():
                try:
                    self.policy_of(self.document({parameter.name: value}), False)
                except ValueError as error:
                    raise ValueError(f"{parameter.name}: {value!r}: {error}") from None

    def document(self, values: Mapping[str, Value]) -> Document:
        """Return the configuration with these values."""
        return configuration_with(self.base, values, self.gpu, self.parameters)

    def search(self, study: "TuningStudy", trials: int, sampler: str, progress: Callable[[int], None]) -> None:
        """Measure proposals until the study has `trials` of them; an interrupted trial has no result."""
        while (done := len(study.done())) < trials:
            progress(done)
            trial = study.propose(self.parameters, sampler, self.seed)
            evaluated = study.known(trial.params)
            try:
                pairs: Sequence[Pair] = (
                    _pairs(evaluated)
                    if evaluated is not None
                    else self.measure([WantedMeasure(self.document(trial.params), self.split.training)])[0]
                )
            except BaseException:
                study.give_up(trial)
                raise
            study.tell(trial, _values(pairs), pairs)
        progress(done)

    def judge(self, study: "TuningStudy", wanted: str, setting: Mapping[str, Any]) -> TuningReport:
        """Return the report. `wanted`: the trial to choose; empty: the best balanced. Raises ChoiceError."""
        front = {str(trial.number): trial for trial in study.front()}
        judged = {
            TODAY: WantedMeasure(self.base, self.split.held_out),
            KUBE_SCHEDULER: WantedMeasure(self.base, self.split.held_out, compatible=True),
        }
        learnt = self.measure([replace(item, blocks=self.split.training) for item in judged.values()])
        training: dict[str, Sequence[Pair]] = dict(zip(judged, learnt, strict=True))
        chosen = wanted or choice({n: trial.values for n, trial in front.items()}, _values(training[TODAY])) or TODAY
        if chosen not in {*front, TODAY}:
            raise ChoiceError(f"{chosen!r} is not on the front: expected {TODAY}, or a trial of {', '.join(front)}")
        documents: dict[str, Document] = {TODAY: self.document({})}
        values: dict[str, dict[str, Value]] = {}
        for name in _shown(front, chosen):
            values[name] = dict(front[name].params)
            documents[name] = self.document(values[name])
            judged[name] = WantedMeasure(documents[name], self.split.held_out)
            training[name] = _pairs(front[name])
        items = [
            MeasuredConfiguration(name, training[name], pairs, values.get(name, {}))
            for name, pairs in zip(judged, self.measure([*judged.values()]), strict=True)
        ]
        return TuningReport(
            setting={
                **setting,
                "objectives": [{"name": item.name, "unit": item.unit} for item in self.objectives],
                "blockSeconds": self.split.width / 1000,
                "trainingBlocks": len(self.split.training),
                "heldOutBlocks": len(self.split.held_out),
                "trials": len(study.done()),
                "front": len(front),
                "seed": self.seed,
            },
            configurations=tuple(tuned(item, items[0], self.seed) for item in items),
            chosen=chosen,
            configuration=documents[chosen],
        )


def _shown(front: Sequence[str] | Mapping[str, object], chosen: str) -> list[str]:
    """Return the names on the front to measure: evenly spaced, and the chosen one."""
    names = list(front)
    last = len(names) - 1
    most = min(MOST_SHOWN, len(names))
    shown = {names[round(at * last / max(1, most - 1))] for at in range(most)} | {chosen}
    return [name for name in names if name in shown]


def _values(pairs: Sequence[Pair]) -> tuple[float, float]:
    return value_of([pair[0] for pair in pairs]), value_of([pair[1] for pair in pairs])


def _pairs(trial: "FrozenTrial") -> list[Pair]:
    """Return the measurements of a trial from the storage."""
    return [
        ((float(first[0]), float(first[1])), (float(second[0]), float(second[1])))
        for first, second in trial.user_attrs["blocks"]
    ]
