"""Run the policies of a replay: one in this process, several in processes of their own.

A policy's process reads the same files again and sends back its outcome; nothing else is shared. Ctrl-C reaches all of
them: each stops and reports its outcome so far.
"""

import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reprieve.cli.interrupts import Interrupt, interrupts, uninterrupted
from reprieve.cli.outcome import CommandError, Exit, note
from reprieve.cli.replay_outcomes import EndedRuns, Take, outcome_of, paced, trimmed
from reprieve.cli.replay_setup import (
    ReplayArguments,
    ReplayInputs,
    ReplayRun,
    Task,
    check_replay,
    read_policy,
    read_replay,
    setting_of,
)

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

    from reprieve.replay.policy_run import PolicyOutcome
    from reprieve.replay.world import Policy

_MOST_NAMED = 20


@dataclass(frozen=True, slots=True)
class ReplayAnswer:
    """The results of the runs in their order, and messages about those without a result."""

    outcomes: "list[PolicyOutcome]"
    setting: Mapping[str, Any]
    interrupted: bool = False
    died: tuple[str, ...] = ()
    runs: Sequence[ReplayRun] = ()
    """Those of the outcomes."""
    code: Exit = Exit.INTERRUPTED
    """Of an interruption."""


def answer_of(task: Task) -> ReplayAnswer:
    """Run all policies. Bad input ends the command with exit code 2."""
    with interrupts(terminate=bool(task.dask)) as interrupt:
        return _answer_of(task, interrupt)


def _answer_of(task: Task, interrupt: Interrupt) -> ReplayAnswer:
    began = time.monotonic()
    runs = task.runs()
    inputs = ReplayInputs()
    policies = [(name, read_policy(task, config, warn=True)) for name, config in task.policies]
    jobs = 0
    for run in reversed([run for run in runs if run.policy == runs[0].policy and run.task.seed == runs[0].task.seed]):
        replay_inputs = inputs.of(run)
        for remark in replay_inputs.remarks:
            note(remark)
        check_replay(replay_inputs)
        jobs = max(jobs, len(replay_inputs.chosen.jobs))
    if len(runs) == 1 and not task.dask and task.keep is None:
        answer = _run_here(replay_inputs, *policies[0], interrupt)
    else:
        answer = _run_all(runs, inputs, jobs, interrupt)
    note(f"simulated in {time.monotonic() - began:.1f} s")
    return answer


def _run_all(runs: Sequence[ReplayRun], inputs: ReplayInputs, jobs: int, interrupt: Interrupt) -> ReplayAnswer:
    """Run the runs that are not stored yet, in processes or on Dask, and store them as they end."""
    from kube_rules.errors import names_text
    from reprieve.cli.kept_runs import KeptRuns

    task = runs[0].task
    setting = setting_of(inputs.of(runs[0]))
    stored_runs = KeptRuns(task.keep, inputs)
    outcomes = {number: known for number, run in enumerate(runs) if (known := stored_runs.find(run)) is not None}
    if outcomes:
        note(f"{len(outcomes)} of {len(runs)} runs are in {task.keep} already")
    left = [number for number in range(len(runs)) if number not in outcomes]

    def take(at: int, outcome: "PolicyOutcome") -> None:
        outcomes[left[at]] = outcome
        stored_runs.keep(runs[left[at]], outcome)

    ended = EndedRuns()
    if left:
        run_them = _run_apart
        if task.dask:
            from reprieve.cli.dask_replay import run_on_dask as run_them
        ended = run_them([runs[number] for number in left], inputs, jobs, interrupt, take)
    if ended.not_begun:
        note(f"not started: {names_text(ended.not_begun, _MOST_NAMED)}")
    if not outcomes:
        raise CommandError("; ".join(ended.died) or "interrupted before anything was simulated", *_code(interrupt))
    numbers = sorted(outcomes)
    done = [outcomes[number] for number in numbers]
    return ReplayAnswer(
        done, setting, interrupt.wanted, ended.died, [runs[number] for number in numbers], interrupt.code
    )


def _run_here(inputs: ReplayArguments, name: str, policy: "Policy", interrupt: Interrupt) -> ReplayAnswer:
    from reprieve.replay.policy_run import Stop

    stop = Stop()
    line = _ReplayLine(1, len(inputs.chosen.jobs))
    interrupt.then(stop.now)
    outcome = outcome_of(inputs, name, policy, stop, paced(lambda done, now: line.update(0, done, now)))
    line.clear()
    return ReplayAnswer([outcome], setting_of(inputs), interrupted=stop.wanted)


def _run_apart(
    runs: Sequence[ReplayRun], inputs: ReplayInputs, jobs: int, interrupt: Interrupt, take: Take
) -> EndedRuns:
    """Run each in a fresh interpreter, as many at a time as there are cores: more would only use more memory."""
    from multiprocessing import get_context, resource_tracker
    from multiprocessing.connection import wait

    context = get_context("spawn")
    # Otherwise the first started process starts it, and Ctrl-C interrupts that start.
    resource_tracker.ensure_running()
    running: dict[Any, tuple[int, BaseProcess]] = {}

    def hand_on() -> None:
        for _, process in running.values():
            if process.pid is not None and process.is_alive():
                _hand_on(process.pid)

    reported: set[int] = set()
    died: dict[int, str] = {}
    line = _ReplayLine(len(runs), jobs)
    waiting = list(enumerate(runs))
    most = max(2, len(os.sched_getaffinity(0)))

    def start_next() -> None:
        number, run = waiting.pop(0)
        ours, theirs = context.Pipe(duplex=False)
        started = context.Process(target=_apart, args=(run, theirs), name=run.name)
        with uninterrupted():  # until the process handles signals
            started.start()
            running[ours] = (number, started)
        theirs.close()

    interrupt.then(hand_on)
    while running or (waiting and not interrupt.wanted):
        while waiting and len(running) < most and not interrupt.wanted:
            start_next()
        for ready in wait(list(running)):
            number, process = running[ready]
            pipe: Any = ready
            try:
                kind, content = pipe.recv()
            except (EOFError, OSError):  # it ended, also while it reported
                del running[ready]
                process.join()
                code = process.exitcode
                process.close()
                pipe.close()
                if number not in reported and number not in died:
                    died[number] = f"policy {runs[number].name}: its process ended {_how(code)}"
                continue
            if kind == "progress":
                line.update(number, *content)
            elif kind == "outcome":
                reported.add(number)
                take(number, content)
            else:
                died[number] = f"policy {runs[number].name}: {content}"
    line.clear()
    return EndedRuns(tuple(died[number] for number in sorted(died)), tuple(run.name for _, run in waiting))


def _code(interrupt: Interrupt) -> tuple[Exit, ...]:
    return (interrupt.code,) if interrupt.wanted else ()


def _hand_on(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGINT)
    except ProcessLookupError:
        return


def _how(code: int | None) -> str:
    if code is not None and code < 0:
        return f"by signal {-code}"
    return f"with exit code {code}"


def _apart(run: ReplayRun, pipe: "Connection") -> None:
    """Run one run in its process."""
    with interrupts() as interrupt:
        from reprieve.replay.policy_run import Stop

        stop = Stop()
        interrupt.then(stop.now)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        try:
            inputs = read_replay(run.task)
            report = paced(lambda done, now: pipe.send(("progress", (done, now))))
            policy = read_policy(run.task, run.config)
            pipe.send(("outcome", trimmed(outcome_of(inputs, run.name, policy, stop, report), run.task)))
        except CommandError as error:
            pipe.send(("error", str(error)))
        except BrokenPipeError:
            pass  # the process that reads the reports ended
        finally:
            pipe.close()


class _ReplayLine:
    """The progress line on a terminal."""

    def __init__(self, policies: int, jobs: int) -> None:
        self._done = [0] * policies
        self._jobs = jobs * policies
        self._shown = False

    def update(self, policy: int, done: int, now: int) -> None:
        """Record how many jobs of a policy have ended."""
        self._done[policy] = done
        if sys.stderr.isatty():
            self._shown = True
            days = now / 86_400_000
            sys.stderr.write(f"\r{sum(self._done)} of {self._jobs} jobs, day {days:.1f}\033[K")
            sys.stderr.flush()

    def clear(self) -> None:
        """Remove the line."""
        if self._shown:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
