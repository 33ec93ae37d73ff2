"""Run `tune` with the options of the command: inputs, storage of the study, interruption."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reprieve.cli.interrupts import Interrupt, interrupts
from reprieve.cli.outcome import CommandError, note, refuse
from reprieve.cli.progress import bar
from reprieve.cli.replay_setup import (
    ReplayArguments,
    ReplayPolicies,
    Task,
    check_replay,
    digest,
    inputs_of,
    read_policy,
    read_replay,
    setting_of,
)
from reprieve.cli.tune_measures import SearchInterruptedError, measures_here

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

    from reprieve.replay.tuning.blocks import SplitTrace
    from reprieve.replay.tuning.objectives import Objective
    from reprieve.replay.tuning.report import TuningReport
    from reprieve.replay.tuning.search_space import TunedParameter
    from reprieve.replay.tuning.study import TuningStudy
    from reprieve.replay.tuning.tuner import Tuner

EXPECTED = "expected sqlite:///FILE or postgresql://HOST/DATABASE"
NEEDED = "tune needs the extra `tune`: pip install 'reprieve[tune]'"


@dataclass(frozen=True, slots=True)
class TuneTask:
    """The options of the command."""

    replay: Task
    objective: str
    search: str | None
    block: str
    held_out: float
    trials: int
    sampler: str
    seed: int
    storage: str
    study: str
    choose: str


def tuned_report(task: TuneTask) -> "tuple[TuningReport, tuple[Objective, Objective]]":
    """Search and judge the chosen configurations. Bad input ends the command with exit code 2."""
    with interrupts(terminate=True) as interrupt:
        _require_optuna()
        inputs = _given(task)
        tuner = _tuner(task, inputs, interrupt)
        with _storage(task) as storage:
            study = _study(task, storage, _digest(task, inputs, tuner))
            before = len(study.done())
            if before:
                note(f"study {task.study}: {before} of {task.trials} trials are done already")
            try:
                with _on_workers(task, inputs, tuner, interrupt) as spread:
                    try:
                        return _report(task, inputs, spread, study), tuner.objectives
                    except CommandError as error:  # the scheduler cannot be reached, or a worker failed
                        if not task.replay.dask:
                            raise
                        raise CommandError(f"{error}; {_kept(task, len(study.done()))}", error.code) from error
            except SearchInterruptedError:
                kept = _kept(task, len(study.done()))
                raise CommandError(f"interrupted: {kept}", interrupt.code) from None


@contextmanager
def _on_workers(task: TuneTask, inputs: ReplayArguments, tuner: "Tuner", interrupt: Interrupt) -> "Iterator[Tuner]":
    """Yield the tuner, which measures on workers with `--dask`, else in this process."""
    if not task.replay.dask:
        yield tuner
        return
    from dataclasses import replace

    from reprieve.cli.dask_runs import dask_runs
    from reprieve.cli.tune_measures import measures_on_dask

    interrupt.then(lambda: None)
    with dask_runs(task.replay.dask) as workers:
        measure = measures_on_dask(inputs, tuner.split, task.replay, task.objective, workers, interrupt)
        yield replace(tuner, measure=measure)


def _report(task: TuneTask, inputs: ReplayArguments, tuner: "Tuner", study: "TuningStudy") -> "TuningReport":
    from reprieve.replay.tuning.tuner import ChoiceError

    with bar(task.trials, "trials") as advance:
        tuner.search(study, task.trials, task.sampler, advance)
        try:
            return tuner.judge(study, task.choose, setting_of(inputs) | {"sampler": task.sampler})
        except ChoiceError as error:
            refuse(f"--choose: {error}")


def _kept(task: TuneTask, done: int) -> str:
    if not task.storage:
        return "the trials are lost: use --storage to keep them"
    return f"{done} of {task.trials} trials are kept in the study {task.study}: the same command continues it"


# -- inputs ------------------------------------------------------------------------------------------------------------


def _require_optuna() -> None:
    try:
        import optuna  # noqa: F401
        import sqlalchemy  # noqa: F401
    except ImportError:
        refuse(NEEDED)


def _given(task: TuneTask) -> ReplayArguments:
    inputs = read_replay(task.replay)
    for remark in inputs.remarks:
        note(remark)
    read_policy(task.replay, task.replay.policies[0][1], warn=True)
    check_replay(inputs)
    endless = sum(1 for job in inputs.chosen.jobs if job.work is None)
    if endless == len(inputs.chosen.jobs):
        refuse(f"{task.replay.jobs}: no job has a duration: tuning needs the column duration")
    if endless:
        note(f"warning: {endless} jobs have no duration: each holds its GPUs to the end of its block")
    return inputs


def _tuner(task: TuneTask, inputs: ReplayArguments, interrupt: Interrupt) -> "Tuner":
    from reprieve.python.configuration import read_configuration_document
    from reprieve.replay.tuning.tuner import Tuner

    config = task.replay.policies[0][1]
    policies, objectives = ReplayPolicies(task.replay), _objectives(task.objective)
    tuner = Tuner(
        objectives=objectives,
        parameters=_parameters(task.search),
        split=_split(task, inputs),
        base=None if config is None else read_configuration_document(config),
        gpu=_gpu(inputs),
        seed=task.seed,
        policy_of=policies,
        measure=measures_here(inputs, objectives, policies, interrupt),
    )
    _check_counted(task, tuner)
    try:
        tuner.check()
    except ValueError as error:
        refuse(f"--search {task.search or ''}: {error}".replace(" :", ":"))
    return tuner


def _check_counted(task: TuneTask, tuner: "Tuner") -> None:
    """Refuse an objective for which no job of the training or of the held-out blocks counts."""
    for objective in tuner.objectives:
        for kind, blocks in (("training", tuner.split.training), ("held-out", tuner.split.held_out)):
            if not any(objective.counts(job.shape) for block in blocks for job in block.chosen.jobs):
                refuse(f"{task.replay.jobs}: no job of the {kind} blocks counts for the objective {objective.name!r}")


def _gpu(inputs: ReplayArguments) -> str:
    from kube_rules import objects
    from reprieve.replay.job_objects import terms_for

    return terms_for(item for item, _ in inputs.cluster if isinstance(item, objects.Node)).gpu


def _objectives(text: str) -> "tuple[Objective, Objective]":
    from reprieve.replay.tuning.objectives import read_objectives

    try:
        return read_objectives(text)
    except ValueError as error:
        refuse(f"--objective: {error}")


def _parameters(file: str | None) -> "Sequence[TunedParameter]":
    from reprieve.python.configuration import read_configuration_document
    from reprieve.replay.tuning.search_space import read_search, searched

    if file is None:
        return searched()
    document = read_configuration_document(file)
    try:
        return read_search(document)
    except ValueError as error:
        refuse(f"--search {file}: {error}")


def _split(task: TuneTask, inputs: ReplayArguments) -> "SplitTrace":
    from reprieve.replay.selection import long_duration
    from reprieve.replay.tuning.blocks import split

    try:
        width = long_duration(task.block) if task.block else None
        if width is not None and width < 60_000:
            refuse("--block: expected at least 1m")
    except ValueError as error:
        refuse(f"--block: {error}")
    try:
        return split(inputs.chosen, width=width, held_out=task.held_out)
    except ValueError as error:
        refuse(f"{task.replay.jobs}: {error}")


def _digest(task: TuneTask, inputs: ReplayArguments, tuner: "Tuner") -> str:
    """Return a digest of everything that the values of a trial depend on."""
    parts = (
        inputs_of(inputs),
        inputs.settings,
        tuner.base,
        [item.name for item in tuner.objectives],
        [(item.name, item.values) for item in tuner.parameters],
        tuner.split.width,
        len(tuner.split.held_out),
        task.replay.feature_gates,
        task.replay.plugins,
    )
    return digest(parts)


# -- the storage -------------------------------------------------------------------------------------------------------


@contextmanager
def _storage(task: TuneTask) -> "Iterator[BaseStorage | None]":
    """Open the storage; a database that fails, now or later, ends the command with one line without its password."""
    if not task.storage:
        yield None
        return
    import optuna
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError, SQLAlchemyError

    from reprieve.observability.database.location import DRIVERS, reason_of

    driver = DRIVERS.get(task.storage.partition("://")[0])
    if driver is None:
        refuse(f"--storage: {EXPECTED}")
    try:
        url = make_url(task.storage).set(drivername=driver)
    except (ArgumentError, ValueError):
        refuse(f"--storage: not an address of a database: {EXPECTED}")
    shown = url.set(drivername=driver.partition("+")[0]).render_as_string(hide_password=True)
    if not url.database:
        refuse(f"--storage {shown}: names no database: {EXPECTED}")
    arguments = {"connect_timeout": 5} if url.get_backend_name() == "postgresql" else {"timeout": 5}
    storage = None
    try:
        storage = optuna.storages.RDBStorage(
            url.render_as_string(hide_password=False),
            engine_kwargs={"connect_args": arguments, "hide_parameters": True, "pool_pre_ping": True},
        )
        yield storage
    except (SQLAlchemyError, optuna.exceptions.StorageInternalError, ImportError, RuntimeError) as error:
        causes = (error.__cause__, error.__context__, error)
        cause = next(item for item in causes if item is error or isinstance(item, SQLAlchemyError))
        assert cause is not None
        refuse(f"--storage {shown}: {reason_of(cause, url)}")
    finally:
        if storage is not None:
            storage.remove_session()
            storage.engine.dispose()


def _study(task: TuneTask, storage: "BaseStorage | None", made_of: str) -> "TuningStudy":
    from reprieve.replay.tuning.study import OtherStudyError, TuningStudy

    try:
        return TuningStudy(storage, task.study, made_of)
    except OtherStudyError as error:
        refuse(f"--study: {error}: choose another name")
