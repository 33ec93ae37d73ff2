"""Runs of a replay on Dask: workers get their inputs as data, so that they need no files (replay.md 9)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from reprieve.cli.dask_runs import Failure, dask_runs
from reprieve.cli.interrupts import Interrupt
from reprieve.cli.outcome import CommandError
from reprieve.cli.progress import bar
from reprieve.cli.replay_outcomes import EndedRuns, Take, outcome_of, paced, trimmed
from reprieve.cli.replay_setup import ReplayArguments, ReplayInputs, ReplayPolicies, ReplayRun, with_seed

if TYPE_CHECKING:
    from distributed import Client, Future

    from reprieve.replay.policy_run import PolicyOutcome, Stop

_PACKED: Final = 6
"""Level of compression of inputs."""


@dataclass(frozen=True, slots=True)
class RemoteRun:
    """A run without its inputs, as it is sent to a worker."""

    run: ReplayRun
    document: Mapping[str, Any] | None
    """The configuration of its policy."""
    version: str


class _Sender:
    """Sends runs to workers; the Dask scheduler keeps the inputs of the latest run until a run needs others."""

    def __init__(self, inputs: ReplayInputs) -> None:
        self._inputs = inputs
        self._key: object = None
        self._sent: Future | None = None

    def send(self, remote: RemoteRun, client: "Client") -> "Future":
        """Submit a run."""
        key = self._inputs.key(remote.run)
        if self._sent is None or self._key != key:
            self._key, self._sent = key, client.submit(unpacked, packed(self._inputs.of(remote.run)), pure=False)
        return client.submit(run_remotely, self._sent, remote, pure=False)


def run_on_dask(
    runs: Sequence[ReplayRun], inputs: ReplayInputs, jobs: int, interrupt: Interrupt, take: Take
) -> EndedRuns:
    """Run all runs on the workers of `--dask`; an interruption cancels those that have not ended."""
    from reprieve.python.configuration import read_configuration_document

    documents = {
        config: None if config is None else read_configuration_document(config) for config in {r.config for r in runs}
    }
    sender = _Sender(inputs)
    remote = [RemoteRun(run, documents[run.config], version("reprieve")) for run in runs]
    calls = [partial(sender.send, item) for item in remote]
    died: dict[int, str] = {}
    ended: set[int] = set()
    try:
        with bar(len(runs), "runs") as advance, dask_runs(runs[0].task.dask) as workers:
            for number, result in workers.results(calls, interrupt):
                ended.add(number)
                advance(len(ended))
                if isinstance(result, Failure):
                    died[number] = f"policy {runs[number].name}: {result.reason}"
                else:
                    take(number, replace(result, report=_named(result, runs[number])))
    except CommandError as error:
        if len(died) == len(ended):  # nothing else to report
            raise
        return EndedRuns((*died.values(), str(error)))
    left = tuple(run.name for number, run in enumerate(runs) if number not in ended)
    return EndedRuns(tuple(died[number] for number in sorted(died)), left)


def _named(outcome: "PolicyOutcome", run: ReplayRun) -> Any:
    import msgspec

    return msgspec.structs.replace(outcome.report, name=run.name)


def packed(inputs: object) -> bytes:
    """Return inputs as compressed bytes; the Dask scheduler keeps them and sends them to new workers."""
    import pickle
    import zlib

    return zlib.compress(pickle.dumps(inputs, protocol=5), _PACKED)


def unpacked(data: bytes) -> Any:
    """Return the inputs, on a worker."""
    import pickle
    import zlib

    return pickle.loads(zlib.decompress(data))


def run_remotely(inputs: ReplayArguments, remote: RemoteRun) -> "PolicyOutcome":
    """Run a run on a worker. Raises CommandError if its version of reprieve is not that of the command."""
    from reprieve.replay.policy_run import Stop

    own = version("reprieve")
    if own != remote.version:
        raise CommandError(f"a worker has reprieve {own}, the command {remote.version}: both need the same version")
    task = remote.run.task
    stop = Stop()
    policy = ReplayPolicies(task)(remote.document)
    inputs = with_seed(inputs, task.seed)
    return trimmed(outcome_of(inputs, remote.run.name, policy, stop, paced(stop_if_cancelled(stop))), task)


def stop_if_cancelled(stop: "Stop") -> Callable[[int, int], None]:
    """Return a function that stops a cancelled run from inside, because Dask cannot end a thread."""
    from distributed import get_worker

    worker = get_worker()
    key = worker.get_current_task()

    def look(_done: int, _now: int) -> None:
        task = worker.state.tasks.get(key)
        if task is None or task.state == "cancelled":
            stop.now()

    return look
