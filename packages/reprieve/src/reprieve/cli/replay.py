"""`reprieve replay`: months of a job list in simulated time, policies side by side (replay.md)."""

import re
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reprieve.cli.options import DEFAULT_PLUGIN_TIMEOUT, GatesOption, PluginOption, PluginTimeoutOption, read_size
from reprieve.cli.outcome import CommandError, Exit, note, reason_of, refuse, show, write_whole
from reprieve.cli.replay_options import (
    DEFAULT_MAX_BYTES,
    CheckpointOption,
    FromOption,
    JobClusterOption,
    LoadOption,
    MaxInputOption,
    MaxJobsOption,
    RestartOption,
    RunTimesOption,
    SampleOption,
    SkipBadOption,
    TolerateOption,
)

if TYPE_CHECKING:
    from reprieve.cli.replay_runs import ReplayAnswer
    from reprieve.cli.replay_setup import Task

MOST_POLICIES = 32
MOST_RUNS = 10_000
_DEFAULT = "default"
_SUFFIXES = (".yaml", ".yml", ".json")
_SEEDS = re.compile(r"(-?\d{1,18})(?:-(\d{1,18}))?", re.ASCII)


class ReplayFormat(StrEnum):
    """The output formats."""

    TEXT = "text"
    JSON = "json"
    CSV = "csv"
    HTML = "html"
    TRACE = "trace"


_FILES = {
    ReplayFormat.JSON: "replay.json",
    ReplayFormat.CSV: "jobs.csv",
    ReplayFormat.HTML: "replay.html",
    ReplayFormat.TRACE: "trace.json",
}


def command(
    jobs: Annotated[
        list[Path],
        typer.Argument(metavar="JOBS...", help="Job list: CSV, or Parquet (.parquet). Several: a sweep."),
    ],
    cluster: JobClusterOption = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]FILE|default",
            help="Policy to compare: a KubeSchedulerConfiguration, named NAME or after its file. default or "
            "NAME=default is the default configuration. Repeatable.",
        ),
    ] = None,
    begin: FromOption = "",
    until: Annotated[str, typer.Option(metavar="TIME", help="Stop at this time and skip later jobs.")] = "",
    load: LoadOption = 1.0,
    sample: SampleOption = None,
    seed: Annotated[
        list[str] | None,
        typer.Option(
            metavar="N|A-B", help="Seed for samples, failures and ties between nodes. Repeatable, for a sweep."
        ),
    ] = None,
    checkpoint: CheckpointOption = "",
    restart: RestartOption = "0s",
    failures: Annotated[
        str,
        typer.Option(
            metavar="mtbf=30d,repair=4h|FILE",
            help="Node failures: drawn at random, or a CSV with columns node,down,up.",
        ),
    ] = "",
    tolerate: TolerateOption = None,
    run_times: RunTimesOption = "",
    output: Annotated[ReplayFormat, typer.Option("-o", "--output", help="Output format.")] = ReplayFormat.TEXT,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Write files to this directory; the table still goes to stdout."),
    ] = None,
    skip_bad: SkipBadOption = False,
    max_jobs: MaxJobsOption = 1_000_000,
    max_input_bytes: MaxInputOption = DEFAULT_MAX_BYTES,
    feature_gates: GatesOption = "",
    plugin: PluginOption = None,
    plugin_timeout: PluginTimeoutOption = DEFAULT_PLUGIN_TIMEOUT,
    dask: Annotated[
        str,
        typer.Option(
            metavar="tcp://HOST:PORT|local:N",
            help="Run on the workers of a Dask scheduler, or on N of this machine. Default: local processes.",
        ),
    ] = "",
    keep: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep each run in this directory; existing runs are not repeated."),
    ] = None,
) -> None:  # long: one parameter for each option, as typer wants them
    """Simulate a list of jobs and compare policies."""
    from kube_rules.errors import names_text
    from reprieve.cli.replay_runs import answer_of
    from reprieve.cli.replay_setup import Task

    if not 0.001 <= load <= 1000:
        refuse(f"--load: expected a number from 0.001 to 1000, found {load}")
    seeds = _seeds(seed or [])
    task = Task(
        jobs=jobs[0],
        cluster=tuple(cluster or ()),
        policies=_policies(policy or []),
        begin=begin,
        until=until,
        load=load,
        sample=sample,
        seed=seeds[0] if seeds else None,
        checkpoint=checkpoint,
        restart=restart,
        failures=failures,
        tolerate=tuple(tolerate or ()),
        run_times=run_times,
        skip_bad=skip_bad,
        max_jobs=max_jobs,
        max_bytes=read_size("--max-input-bytes", max_input_bytes),
        feature_gates=feature_gates,
        plugins=tuple(plugin or ()),
        plugin_timeout=plugin_timeout,
        timeline=output in (ReplayFormat.HTML, ReplayFormat.TRACE),
        rows=output in (ReplayFormat.HTML, ReplayFormat.CSV, ReplayFormat.TRACE),
        traces=tuple(jobs),
        seeds=seeds,
        dask=dask,
        keep=keep,
    )
    _check_sweep(task, output)
    if out is not None:
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            refuse(f"--out {reason_of(error)}")
    answer = answer_of(task)
    _deliver(answer, task, output, out)
    if answer.interrupted:
        ends = [f"{outcome.report.name} at {_moment(outcome.report.ended)}" for outcome in answer.outcomes]
        note(f"interrupted: this is what was simulated so far ({names_text(ends, MOST_POLICIES)})")
        raise typer.Exit(answer.code)
    if answer.died:
        raise CommandError("; ".join(answer.died), Exit.NOT_SO)


def _policies(values: list[str]) -> tuple[tuple[str, str | None], ...]:
    if not values:
        return ((_DEFAULT, None),)
    if len(values) > MOST_POLICIES:
        refuse(f"--policy: expected at most {MOST_POLICIES}")
    result: dict[str, str | None] = {}
    for text in values:
        name, equals, file = text.partition("=")
        if not equals:
            name, file = Path(text).stem, text
        if not name or not file or len(name) > 63 or not name.isprintable():
            refuse(f"--policy {text!r}: expected FILE, NAME=FILE, default or NAME=default")
        if not equals and file != _DEFAULT and not _names_file(file):
            refuse(f"--policy {text!r}: {_no_such_policy(text)}")
        if name in result:
            refuse(f"--policy: {name} is given twice: NAME=FILE names a policy")
        result[name] = None if file == _DEFAULT else file
    return tuple(result.items())


def _seeds(values: list[str]) -> tuple[int, ...]:
    seeds: dict[int, None] = {}
    for text in values:
        match = _SEEDS.fullmatch(text)
        if match is None:
            refuse(f"--seed {text!r}: expected a whole number, or two with a hyphen, such as 1-30")
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last < first + MOST_RUNS:
            refuse(f"--seed {text!r}: expected 1 to {MOST_RUNS} seeds")
        seeds.update(dict.fromkeys(range(first, last + 1)))
    return tuple(seeds)


def _check_sweep(task: "Task", output: ReplayFormat) -> None:
    runs = len(task.traces) * max(1, len(task.seeds)) * len(task.policies)
    if runs > MOST_RUNS:
        refuse(f"expected at most {MOST_RUNS} runs, found {runs}: traces times seeds times policies")
    if len(set(task.traces)) < len(task.traces):
        refuse("JOBS: a job list is given twice")
    if task.sweep and output in (ReplayFormat.HTML, ReplayFormat.TRACE):
        refuse(f"-o {output.value}: expected one job list and one seed")


def _names_file(text: str) -> bool:
    """Return whether a text is a path: an existing file, or a text with a separator or a configuration's suffix."""
    path = Path(text)
    return path.suffix in _SUFFIXES or "/" in text or path.is_file()


def _no_such_policy(text: str) -> str:
    """Return what a name without a file may have meant: a file of this directory, or the default configuration."""
    from kube_rules.unknown_fields import did_you_mean, nearest

    files = {path.stem: path.name for path in sorted(Path().glob("*")) if path.suffix in _SUFFIXES}
    likely = {**files, _DEFAULT: _DEFAULT}.get(nearest(text, (_DEFAULT, *files)), "")
    return f"no such file{did_you_mean(likely)} ({text}={_DEFAULT} names the default configuration)"


def _deliver(answer: "ReplayAnswer", task: "Task", output: ReplayFormat, out: Path | None) -> None:
    from reprieve.cli.replay_text import replay_sections, sweep_sections
    from reprieve.cli.terminal import show_sections

    if output is ReplayFormat.TEXT or out is not None:
        reports = [outcome.report for outcome in answer.outcomes]
        by_run = [(str(run.task.jobs), run.policy, report) for run, report in zip(answer.runs, reports, strict=False)]
        show_sections(sweep_sections(by_run) if task.sweep else replay_sections(reports))
    if output is ReplayFormat.TEXT:
        return
    text = _written(answer, output)
    if out is None:
        show(text)
        return
    target = out / _FILES[output]
    write_whole(target, text.encode())
    note(f"wrote {target}")


def _written(answer: "ReplayAnswer", output: ReplayFormat) -> str:
    if output is ReplayFormat.JSON:
        from reprieve.replay.documents import as_json, sweep_json

        if answer.runs and answer.runs[0].task.sweep:
            runs = [(str(run.task.jobs), run.policy, run.task.seed) for run in answer.runs]
            return sweep_json(runs, answer.outcomes)
        return as_json(answer.outcomes, answer.setting)
    if output is ReplayFormat.CSV:
        from reprieve.replay.documents import as_csv

        return as_csv(answer.outcomes)
    if output is ReplayFormat.TRACE:
        from reprieve.replay.perfetto import as_trace

        return as_trace(answer.outcomes)
    from reprieve.replay.page import as_page

    return as_page(answer.outcomes, answer.setting)


def _moment(seconds: float) -> str:
    from kube_rules.durations import readable_duration

    days, rest = divmod(seconds, 86400)
    return f"{int(days)}d{readable_duration(rest)}" if days else readable_duration(rest)
