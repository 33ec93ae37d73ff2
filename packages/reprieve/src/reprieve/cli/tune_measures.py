"""Measure configurations of `tune` on blocks of the trace, in this process or on Dask (tune.md 8).

Workers get the inputs as data, split the trace as the command does, and return the values of a block that the
objectives need.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from reprieve.cli.dask_replay import packed, stop_if_cancelled, unpacked
from reprieve.cli.dask_runs import DaskRuns, Failure
from reprieve.cli.interrupts import Interrupt
from reprieve.cli.outcome import CommandError
from reprieve.cli.replay_outcomes import Progress, paced
from reprieve.cli.replay_setup import ReplayArguments, ReplayPolicies, Task

if TYPE_CHECKING:
    from distributed import Client, Future

    from reprieve.replay.policy_run import Stop
    from reprieve.replay.tuning.blocks import SplitTrace, TraceBlock
    from reprieve.replay.tuning.objectives import Objective
    from reprieve.replay.tuning.report import Pair
    from reprieve.replay.tuning.tuner import Measure, WantedMeasure
    from reprieve.replay.world import Policy


class SearchInterruptedError(Exception):
    """Ctrl-C or SIGTERM ended a simulation."""


def measured(
    inputs: ReplayArguments,
    policy: "Policy",
    block: "TraceBlock",
    objectives: "tuple[Objective, Objective]",
    stop: "Stop",
    progress: Progress = lambda done, now: None,
) -> "Pair":
    """Replay a block and return its values. Raises SearchInterruptedError."""
    outcome = inputs.simulate("", policy, block.chosen, stop, progress)
    if stop.wanted:
        raise SearchInterruptedError
    first, second = objectives
    return first.measure(outcome), second.measure(outcome)


def measures_here(
    inputs: ReplayArguments,
    objectives: "tuple[Objective, Objective]",
    policy_of: "Callable[[Mapping[str, Any] | None, bool], Policy]",
    interrupt: Interrupt,
) -> "Measure":
    """Return the function that measures in this process."""
    from reprieve.replay.policy_run import Stop

    def of(policy: "Policy", block: "TraceBlock") -> "Pair":
        stop = Stop()
        interrupt.then(stop.now)
        return measured(inputs, policy, block, objectives, stop)

    def measure(wanted: "Sequence[WantedMeasure]") -> "list[list[Pair]]":
        result = []
        for item in wanted:
            policy = policy_of(item.document, item.compatible)
            result.append([of(policy, block) for block in item.blocks])
        return result

    return measure


# -- on Dask -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RemoteMeasure:
    """A configuration and the interval of a block, as sent to a worker; the inputs contain the blocks."""

    task: Task
    objective: str
    document: Mapping[str, Any] | None
    compatible: bool
    begin: int
    """The block's interval, in milliseconds since the first job of the trace."""
    version: str


Inputs = tuple[ReplayArguments, "SplitTrace"]


def measures_on_dask(
    inputs: ReplayArguments, split: "SplitTrace", task: Task, objective: str, workers: DaskRuns, interrupt: Interrupt
) -> "Measure":
    """Return the function that measures on workers, many blocks at a time.

    It raises SearchInterruptedError, and CommandError for a block that could not be measured.
    """
    content = packed((inputs, split))
    sent: list[Future] = []

    def send(remote: RemoteMeasure, client: "Client") -> "Future":
        if not sent:
            sent.append(client.submit(unpacked, content, pure=False))
        return client.submit(measure_remotely, sent[0], remote, pure=False)

    def measure(wanted: "Sequence[WantedMeasure]") -> "list[list[Pair]]":
        ours = version("reprieve")
        remote = [
            RemoteMeasure(task, objective, item.document, item.compatible, block.begin, ours)
            for item in wanted
            for block in item.blocks
        ]
        pairs_by_block: dict[int, Pair] = {}
        for number, result in workers.results([partial(send, item) for item in remote], interrupt):
            if isinstance(result, Failure):
                raise CommandError(f"--dask {task.dask}: a block was not measured: {result.reason}")
            pairs_by_block[number] = result
        if len(pairs_by_block) < len(remote):
            raise SearchInterruptedError
        pairs = iter(pairs_by_block[number] for number in range(len(remote)))
        return [[next(pairs) for _ in item.blocks] for item in wanted]

    return measure


def measure_remotely(inputs: Inputs, remote: RemoteMeasure) -> "Pair":
    """Measure a block on a worker. Raises CommandError if its version of reprieve is not that of the command."""
    from reprieve.replay.policy_run import Stop
    from reprieve.replay.tuning.objectives import read_objectives

    own = version("reprieve")
    if own != remote.version:
        raise CommandError(f"a worker has reprieve {own}, the command {remote.version}: both need the same version")
    replay_inputs, split = inputs
    block = next(item for item in (*split.training, *split.held_out) if item.begin == remote.begin)
    stop = Stop()
    policy = ReplayPolicies(remote.task)(remote.document, remote.compatible)
    look = paced(stop_if_cancelled(stop))
    return measured(replay_inputs, policy, block, read_objectives(remote.objective), stop, look)
