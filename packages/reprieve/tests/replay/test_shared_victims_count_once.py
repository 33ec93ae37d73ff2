"""An eviction counts once, also where several preemptors wait for the same victim (replay.md 4.5)."""

from __future__ import annotations

import random

import pytest

from reprieve.replay.job_list import ReplayJob
from reprieve.replay.world import Replay
from reprieve.simulation.virtual import TimedPreemption
from tests.building import pod
from tests.replay.building import gpu_nodes, job, of, started


def victims_counted(run: Replay) -> tuple[set[str], dict[str, int]]:
    """Play the run to its end; return the UIDs of all victims, and how often each pod was named as one."""
    named: dict[str, int] = {}
    count = run.preempted

    def noted(event: TimedPreemption) -> None:
        for verdict in event.preemption.victims:
            for victim in verdict.unit.pods:
                named[victim.uid] = named.get(victim.uid, 0) + 1
        count(event)

    run.preempted = noted  # type: ignore[method-assign]
    run.run()
    run.close(run.now)
    return set(named), named


def random_jobs(seed: int) -> list[ReplayJob]:
    """Jobs of rising priorities within the grace period of the first victims."""
    chance = random.Random(seed)
    jobs = [job(f"low-{i}", i, 500, gpu=chance.choice((2, 4)), priority=chance.randint(0, 1)) for i in range(4)]
    for number in range(chance.randint(2, 5)):
        workers = chance.randint(1, 2)
        jobs.append(
            job(
                f"high-{number}",
                20 + chance.randint(0, 40),
                chance.randint(5, 60),
                gpu=chance.choice((2, 4)),
                workers=workers,
                min_workers=chance.randint(1, workers),
                whole=chance.random() < 0.5,
                priority=chance.randint(2, 9),
            )
        )
    return jobs


@pytest.mark.parametrize("seed", range(40))
def test_every_evicted_pod_counts_once(seed: int) -> None:
    run = started(random_jobs(seed), gpu_nodes(2, 8 if seed % 2 else 4))
    victims, _ = victims_counted(run)
    assert run.counts.pods == len(victims)
    assert run.counts.units <= run.counts.pods


def test_one_of_these_runs_shares_a_victim() -> None:
    """Else the property above would hold of itself."""
    assert any(
        max(victims_counted(started(random_jobs(seed), gpu_nodes(2, 4)))[1].values(), default=0) > 1
        for seed in range(0, 40, 2)
    )


@pytest.mark.parametrize("foreign", [False, True])
def test_leaving_pod_that_a_second_preemptor_takes_is_evicted_once(foreign: bool) -> None:
    """`urgent` comes in the grace period of the victim of `high`: both wait for the same pod, which leaves once."""
    jobs = [job("high", 50, 10, gpu=8, priority=5), job("urgent", 60, 10, gpu=8, priority=9)]
    there = [pod("old", gpu=8, node="n0", priority=0, grace=30)] if foreign else []
    jobs += [] if foreign else [job("low", 0, 1000, gpu=8, priority=0)]
    run = started(jobs, [*gpu_nodes(1), *there])
    _, named = victims_counted(run)
    assert max(named.values()) == 2
    assert (run.counts.units, run.counts.pods, run.counts.foreign_pods) == (1, 1, int(foreign))
    if not foreign:
        assert (of(run, "low").evictions, of(run, "low").evicted_runs) == (1, 1)
