"""Runs of a replay stored in a directory, so that the same command does not repeat them (replay.md 9).

A file is named by a digest of everything its run depends on, and written completely or not at all.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from reprieve.cli.outcome import reason_of, refuse, write_whole
from reprieve.cli.replay_setup import ReplayInputs, ReplayRun, digest, inputs_of

if TYPE_CHECKING:
    from reprieve.replay.policy_run import PolicyOutcome


class KeptRuns:
    """The runs in a directory; without a directory none are stored."""

    def __init__(self, directory: Path | None, inputs: ReplayInputs) -> None:
        self._directory = directory
        self._inputs = inputs
        self._known: tuple[object, str] = ((), "")
        """The inputs of the last run, and their digest."""
        if directory is not None:
            try:
                directory.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                refuse(f"--keep {reason_of(error)}")

    def find(self, run: ReplayRun) -> "PolicyOutcome | None":
        """Return the stored outcome of a run; None if it is missing or cannot be read."""
        if self._directory is None:
            return None
        import msgspec

        from reprieve.replay.accounts import Timeline
        from reprieve.replay.policy_run import PolicyOutcome
        from reprieve.replay.statistics import JobRow, PolicyReport

        try:
            data = self._file(run).read_bytes()
            report, rows, line = msgspec.json.decode(
                data, type=tuple[PolicyReport, list[JobRow], dict[str, Any] | None]
            )
        except (OSError, msgspec.ValidationError, msgspec.DecodeError):
            return None
        timeline = None
        if line is not None:
            timeline = Timeline()
            for name, value in line.items():
                setattr(timeline, name, value)
            timeline.others = {int(stay): text for stay, text in timeline.others.items()}
        return PolicyOutcome(msgspec.structs.replace(report, name=run.name), rows, timeline)

    def keep(self, run: ReplayRun, outcome: "PolicyOutcome") -> None:
        """Store a run that was not interrupted."""
        if self._directory is None or outcome.report.interrupted:
            return
        import msgspec

        line = None if outcome.timeline is None else vars(outcome.timeline)
        write_whole(self._file(run), msgspec.json.encode((outcome.report, outcome.rows, line)), "--keep ")

    def _file(self, run: ReplayRun) -> Path:
        assert self._directory is not None
        key = self._inputs.key(run)
        if self._known[0] != key:
            self._known = (key, digest(inputs_of(self._inputs.of(run))))
        task = run.task
        parts = (
            self._known[1],
            self._inputs.of(run).settings,
            None if run.config is None else _document(run.config),
            task.feature_gates,
            [(name, _source(name)) for name in task.plugins],
            task.rows,
            task.sweep,
        )
        return self._directory / f"{digest(parts)}.json"


def _document(config: str) -> object:
    from reprieve.python.configuration import read_configuration_document

    return read_configuration_document(config)


def _source(plugin: str) -> bytes:
    """Return the source of a plugin's module, so that a changed plugin is a different run."""
    from importlib.util import find_spec

    spec = find_spec(plugin.partition(":")[0])
    place = None if spec is None or spec.origin is None else Path(spec.origin)
    return place.read_bytes() if place is not None and place.is_file() else b""
