"""The search of `tune`, without its command: objectives, blocks, proposals and workers (tune.md 2, 3, 6, 8)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from reprieve.cli import tune_measures
from reprieve.cli.dask_replay import unpacked
from reprieve.cli.interrupts import Interrupt
from reprieve.cli.replay_setup import ReplayPolicies, Task, read_replay
from reprieve.cli.tune_measures import measures_here, measures_on_dask
from reprieve.replay.job_list import ReplayJob
from reprieve.replay.policy_run import simulate
from reprieve.replay.selection import ChosenJobs
from reprieve.replay.tuning.blocks import DAY, WEEK, split
from reprieve.replay.tuning.objectives import read_objectives, value_of
from reprieve.replay.tuning.search_space import TunedParameter, ValueChoices, read_search
from reprieve.replay.tuning.study import TuningStudy
from reprieve.replay.tuning.tuner import Tuner, WantedMeasure
from reprieve.replay.world import Policy, WorldSettings
from tests.cli.replay_inputs import desk as desk
from tests.replay.building import HOUR, gpu_nodes, job

DAYS = DAY / 1000
"""Seconds."""
Pairs = list[list[tuple[tuple[float, float], tuple[float, float]]]]


def measured(jobs: Sequence[ReplayJob], objectives: str) -> list[float]:
    """The values of two objectives over blocks of a day, on one node with eight GPUs."""
    both = read_objectives(objectives)
    trace = split(ChosenJobs(jobs, None, None), width=DAY, held_out=0.01)
    cluster = [(item, 0.0) for item in gpu_nodes(1)]
    outcomes = [
        simulate("", block.chosen, cluster, Policy(), WorldSettings()) for block in (*trace.training, *trace.held_out)
    ]
    return [value_of([objective.measure(outcome) for outcome in outcomes]) for objective in both]


def test_mean_over_jobs_is_that_of_the_jobs_of_all_blocks() -> None:
    """tune.md 2.2: four jobs that wait 0, 100, 200 and 300 s, and one of another day that does not wait."""
    first = [job(f"a{at}", 0, 100, gpu=8) for at in range(4)]
    values = measured([*first, job("b", DAYS, 100, gpu=8)], "wait, slowdown")
    assert values == [600 / 5, (1 + 2 + 3 + 4 + 1) / 5]


def test_block_is_replayed_alone_until_its_jobs_have_ended() -> None:
    """tune.md 3.2: a job of the first day runs into the second, where it holds no capacity, and waiting jobs end."""
    jobs = [job("long", 0, 2 * DAYS, gpu=8), job("queued", 1, HOUR, gpu=8), job("next", DAYS, HOUR, gpu=8)]
    assert measured(jobs, "wait of single pods, slowdown") == pytest.approx(
        [(2 * DAYS - 1) / 3, (1 + (2 * DAYS - 1 + HOUR) / HOUR + 1) / 3], abs=0.001
    )


def test_trace_is_split_at_weeks_since_its_first_job() -> None:
    """tune.md 3.1, 3.2: the submits of a block count from its beginning."""
    jobs = [job("a", 5, 1), job("b", 4 * 7 * DAYS, 1), job("c", 4 * 7 * DAYS + 9, 1)]
    trace = split(ChosenJobs(jobs, None, None), width=None, held_out=0.5)
    blocks = [(block.begin, [item.submit for item in block.chosen.jobs]) for block in trace.training]
    assert (trace.width, blocks) == (WEEK, [(0, [5000])])
    assert [[item.submit for item in block.chosen.jobs] for block in trace.held_out] == [[0, 9000]]


def searched() -> tuple[TunedParameter, ...]:
    return read_search(
        {
            "preemption.waitForCheckpoint": ["1h", "0s"],
            "reservations.minPods": {"low": 1, "high": 4},
            "queueing.ageing": ["1h", "6h"],
        }
    )


@pytest.mark.parametrize("sampler", ["tpe", "nsga2"])
def test_first_proposal_has_the_defaults(sampler: str) -> None:
    """tune.md 6.1: where the search allows them; for `queueing.ageing` it has only other values."""
    study = TuningStudy(None, "s", "made of")
    first = study.propose(searched(), sampler, seed=3)
    assert first.params["preemption.waitForCheckpoint"] == "0s"
    assert first.params["reservations.minPods"] == 2
    assert first.params["queueing.ageing"] in ("1h", "6h")
    study.tell(first, [1.0, 1.0], [])
    later = [study.propose(searched(), sampler, seed=3).params for _ in range(8)]
    assert {values["preemption.waitForCheckpoint"] for values in later} == {"0s", "1h"}


def test_other_proposals_are_those_of_the_sampler() -> None:
    """tune.md 6.1: beyond the first ones, which either draws at random, the two learn in different ways."""

    def proposals(sampler: str) -> list[Any]:
        study = TuningStudy(None, "s", "made of")
        found = []
        for _ in range(30):
            trial = study.propose(searched(), sampler, seed=0)
            found.append(trial.params)
            number = float(trial.params["reservations.minPods"])
            study.tell(trial, [number, number], [])
        return found

    assert proposals("tpe") == proposals("tpe")
    assert proposals("tpe")[1:] != proposals("nsga2")[1:]


def tuner(parameters: Sequence[TunedParameter], measure: Callable[[Sequence[WantedMeasure]], Pairs]) -> Tuner:
    return Tuner(
        objectives=read_objectives("wait, evictions"),
        parameters=parameters,
        split=split(ChosenJobs([job("a", 0, 1), job("b", DAYS, 1)], None, None), width=DAY, held_out=0.5),
        base=None,
        gpu="nvidia.com/gpu",
        seed=0,
        policy_of=lambda document, compatible: Policy(),
        measure=measure,
    )


def test_configuration_that_was_tried_is_not_simulated_again() -> None:
    """tune.md 6.3: its trials have the values of the first one."""
    simulated: list[object] = []

    def measure(wanted: Sequence[WantedMeasure]) -> Pairs:
        simulated.extend(item.document for item in wanted)
        return [[((float(len(simulated)), 1.0), (1.0, 1.0))] for _ in wanted]

    (parameter,) = read_search({"preemption.waitForCheckpoint": ["0s", "1h"]})
    study = TuningStudy(None, "s", "made of")
    tuner([parameter], measure).search(study, 12, "tpe", lambda done: None)
    assert len(study.done()) == 12
    assert len(simulated) == len(ValueChoices(("0s", "1h")).values)
    values = {(trial.params[parameter.name], tuple(trial.values)) for trial in study.done()}
    assert len(values) == 2


class Workers:
    """Workers in this process, which count what is sent to them."""

    def __init__(self) -> None:
        self.at_once: list[int] = []
        self.sent: list[object] = []

    def results(self, calls: Sequence[Callable[[Any], Any]], interrupt: Interrupt) -> Iterator[tuple[int, Any]]:
        self.at_once.append(len(calls))
        yield from reversed([(number, call(self)) for number, call in enumerate(calls)])

    def submit(self, function: Callable[..., Any], *arguments: Any, pure: bool) -> Any:
        self.sent.append(function)
        return function(*arguments)


def test_blocks_are_measured_at_the_same_time_with_inputs_that_are_sent_once(
    desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """tune.md 8.2: a trial's blocks, then those of all configurations; workers need no file."""
    jobs = "job,submit,duration,gpu\n" + "".join(f"{at},{at * DAYS:.0f},60,8\n" for at in range(4))
    (desk / "days.csv").write_text(jobs)
    task = replay_task(desk / "days.csv", (str(desk / "four.yaml"),))
    inputs = read_replay(task)
    trace = split(inputs.chosen, width=DAY, held_out=0.5)
    objectives, workers = read_objectives("wait, evictions"), Workers()
    on_workers = measures_on_dask(inputs, trace, task, "wait, evictions", cast(Any, workers), Interrupt())
    for name in ("days.csv", "four.yaml"):
        (desk / name).unlink()
    monkeypatch.setattr(tune_measures, "stop_if_cancelled", lambda stop: lambda done, now: None)
    trial = [WantedMeasure(None, trace.training)]
    judged = [WantedMeasure(None, trace.held_out, compatible) for compatible in (False, True)]
    here = measures_here(inputs, objectives, ReplayPolicies(task), Interrupt())
    assert [on_workers(trial), on_workers(judged)] == [here(trial), here(judged)]
    assert workers.at_once == [2, 4]
    assert workers.sent.count(unpacked) == 1


def replay_task(jobs: Path, cluster: tuple[str, ...]) -> Task:
    return Task(
        jobs=jobs,
        cluster=cluster,
        policies=(("today", None),),
        begin="",
        until="",
        load=1.0,
        sample=None,
        seed=None,
        checkpoint="",
        restart="0s",
        failures="",
        tolerate=(),
        run_times="",
        skip_bad=False,
        max_jobs=1000,
        max_bytes=1 << 20,
        feature_gates="",
        plugins=(),
        plugin_timeout="10s",
        timeline=False,
        dask="tcp://here",
    )
