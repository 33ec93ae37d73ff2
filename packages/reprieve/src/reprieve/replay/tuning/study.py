"""Proposals by Optuna and their results, in a storage that outlives the process (tune.md 6).

The sampler of each proposal is created from the seed and the number of proposals before it, without interrupted ones: a
continued study proposes the same as an uninterrupted one.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Final

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler, NSGAIISampler, TPESampler
from optuna.trial import FrozenTrial, TrialState

from reprieve.replay.tuning.search_space import TunedParameter, Value, ValueChoices

_MADE_OF: Final = "reprieve:made-of"
_STARTUP: Final = 10
_PER_SEED: Final = 1_000_003


class OtherStudyError(ValueError):
    """The storage has a study of this name that was created from other inputs."""


class TuningStudy:
    """A study that minimizes two objectives."""

    def __init__(self, storage: optuna.storages.BaseStorage | None, name: str, made_of: str) -> None:
        """Open or create it. `made_of`: a digest of all its inputs. Raises OtherStudyError."""
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._study = optuna.create_study(
            storage=storage, study_name=name, directions=("minimize", "minimize"), load_if_exists=storage is not None
        )
        earlier = self._study.user_attrs.get(_MADE_OF)
        if earlier not in (None, made_of):
            raise OtherStudyError(f"the study {name!r} has other jobs, settings or objectives")
        if earlier is None:
            self._study.set_user_attr(_MADE_OF, made_of)

    def done(self) -> list[FrozenTrial]:
        """Return the proposals with a result, in order."""
        return self._study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))

    def propose(self, parameters: Sequence[TunedParameter], sampler: str, seed: int) -> optuna.Trial:
        """Return the next proposal; the first has the defaults of the scheduler."""
        number = len(self._study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.RUNNING)))
        if not self._study.get_trials(deepcopy=False):
            first = {item.name: item.default for item in parameters if item.default in item.values}
            self._study.enqueue_trial(first)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            self._study.sampler = _sampler(sampler, seed * _PER_SEED + number)
        return self._study.ask({item.name: _distribution(item) for item in parameters})

    def tell(self, trial: optuna.Trial, values: Sequence[float], measured: Any) -> None:
        """Store the result of a proposal, with its measurements by block."""
        trial.set_user_attr("blocks", measured)
        self._study.tell(trial, list(values))

    def give_up(self, trial: optuna.Trial) -> None:
        """Record a proposal without a result, because of an interruption."""
        self._study.tell(trial, state=TrialState.FAIL)

    def known(self, values: Mapping[str, Value]) -> FrozenTrial | None:
        """Return an earlier proposal with the same values."""
        return next((trial for trial in self.done() if trial.params == dict(values)), None)

    def front(self) -> list[FrozenTrial]:
        """Return the proposals that no other beats in both objectives, one per pair of values, by the first."""
        best: dict[tuple[float, ...], FrozenTrial] = {}
        for trial in sorted(self._study.best_trials, key=lambda trial: trial.number):
            best.setdefault(tuple(trial.values), trial)
        return [best[values] for values in sorted(best)]


def _sampler(name: str, seed: int) -> BaseSampler:
    seed %= 2**32
    if name == "nsga2":
        return NSGAIISampler(population_size=_STARTUP * 2, seed=seed)
    return TPESampler(n_startup_trials=_STARTUP, multivariate=True, seed=seed)


def _distribution(parameter: TunedParameter) -> BaseDistribution:
    values = parameter.values
    if isinstance(values, ValueChoices):
        return CategoricalDistribution(values.values)
    if values.whole:
        return IntDistribution(int(values.low), int(values.high), log=values.log)
    return FloatDistribution(float(values.low), float(values.high), log=values.log)
