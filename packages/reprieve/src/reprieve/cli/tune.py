"""`reprieve tune`: search for the configuration that meets two objectives best on a trace of jobs (tune.md)."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reprieve.cli.options import DEFAULT_PLUGIN_TIMEOUT, GatesOption, PluginOption, PluginTimeoutOption, read_size
from reprieve.cli.outcome import note, refuse, show, write_whole
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
    from reprieve.cli.tune_runs import TuneTask
    from reprieve.replay.tuning.objectives import Objective
    from reprieve.replay.tuning.report import TuningReport

DEFAULT_OBJECTIVES = "lost GPU-hours, wait of gangs"


class TuneFormat(StrEnum):
    """The output formats."""

    TEXT = "text"
    JSON = "json"


class Sampler(StrEnum):
    """Samplers of Optuna."""

    TPE = "tpe"
    NSGA2 = "nsga2"


def command(
    jobs: Annotated[Path, typer.Option(metavar="TRACE", help="The job list, as for replay, with durations.")],
    cluster: JobClusterOption = None,
    objective: Annotated[
        str, typer.Option(metavar="A, B", help="The two objectives, both as small as possible.")
    ] = DEFAULT_OBJECTIVES,
    config: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Today's KubeSchedulerConfiguration. Default: the default configuration."),
    ] = None,
    search: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|show",
            help="YAML file of names to search, each with a list of values or {low, high}; show lists all names.",
        ),
    ] = None,
    trials: Annotated[
        int, typer.Option(metavar="N", min=1, max=100_000, help="Configurations to try, in all runs of the study.")
    ] = 100,
    sampler: Annotated[Sampler, typer.Option(help="Optuna's sampler.")] = Sampler.TPE,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of proposals, samples, ties and intervals.")] = 0,
    held_out: Annotated[
        float, typer.Option(metavar="SHARE", min=0.05, max=0.95, help="Share of the blocks that are held out.")
    ] = 0.5,
    block: Annotated[
        str,
        typer.Option(metavar="DURATION", help="Length of a block. Default: 7d, or 1d for less than four weeks."),
    ] = "",
    storage: Annotated[
        str,
        typer.Option(
            metavar="sqlite:///FILE|postgresql://HOST/DATABASE",
            help="Keep the study in this database; the same command continues it.",
        ),
    ] = "",
    study: Annotated[str, typer.Option(metavar="NAME", help="Name of the study in the storage.")] = "reprieve",
    choose: Annotated[
        str, typer.Option(metavar="TRIAL|today", help="Choose this trial of the front. Default: the best balanced.")
    ] = "",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write the chosen configuration to FILE.")
    ] = None,
    form: Annotated[TuneFormat, typer.Option("--format", help="Format of the report on stdout.")] = TuneFormat.TEXT,
    checkpoint: CheckpointOption = "",
    restart: RestartOption = "0s",
    begin: FromOption = "",
    until: Annotated[str, typer.Option(metavar="TIME", help="Skip jobs submitted at this time or later.")] = "",
    load: LoadOption = 1.0,
    sample: SampleOption = None,
    tolerate: TolerateOption = None,
    run_times: RunTimesOption = "",
    skip_bad: SkipBadOption = False,
    max_jobs: MaxJobsOption = 1_000_000,
    max_input_bytes: MaxInputOption = DEFAULT_MAX_BYTES,
    feature_gates: GatesOption = "",
    dask: Annotated[
        str,
        typer.Option(
            metavar="tcp://HOST:PORT|local:N",
            help="Replay blocks on the workers of a Dask scheduler, or on N of this machine. Default: in this process.",
        ),
    ] = "",
    plugin: PluginOption = None,
    plugin_timeout: PluginTimeoutOption = DEFAULT_PLUGIN_TIMEOUT,
) -> None:  # long: one parameter for each option, as typer wants them
    """Search for the configuration that meets two objectives best on a trace, measured on held-out weeks."""
    if search == "show":
        from reprieve.cli.terminal import show_sections
        from reprieve.cli.tune_text import search_section

        show_sections([search_section()])
        return
    from reprieve.cli.replay_setup import Task
    from reprieve.cli.tune_runs import TuneTask, tuned_report

    if not 0.001 <= load <= 1000:
        refuse(f"--load: expected a number from 0.001 to 1000, found {load}")
    task = TuneTask(
        replay=Task(
            jobs=jobs,
            cluster=tuple(cluster or ()),
            policies=(("today", config),),
            begin=begin,
            until=until,
            load=load,
            sample=sample,
            seed=seed or None,
            checkpoint=checkpoint,
            restart=restart,
            failures="",
            tolerate=tuple(tolerate or ()),
            run_times=run_times,
            skip_bad=skip_bad,
            max_jobs=max_jobs,
            max_bytes=read_size("--max-input-bytes", max_input_bytes),
            feature_gates=feature_gates,
            plugins=tuple(plugin or ()),
            plugin_timeout=plugin_timeout,
            timeline=False,
            dask=dask,
        ),
        objective=objective,
        search=search,
        block=block,
        held_out=held_out,
        trials=trials,
        sampler=sampler.value,
        seed=seed,
        storage=storage,
        study=study,
        choose=choose,
    )
    report, objectives = tuned_report(task)
    if output is not None:
        from reprieve.replay.tuning.report import configuration_text

        write_whole(output, configuration_text(report, objectives, jobs.name).encode(), "--output ")
    _deliver(report, objectives, form, task, output)


def _deliver(
    report: "TuningReport",
    objectives: "tuple[Objective, Objective]",
    form: TuneFormat,
    task: "TuneTask",
    output: Path | None,
) -> None:
    if form is TuneFormat.JSON:
        import msgspec

        show(msgspec.json.format(msgspec.json.encode(report), indent=1).decode() + "\n")
    else:
        from reprieve.cli.terminal import show_sections
        from reprieve.cli.tune_text import tuning_sections

        show_sections(tuning_sections(report, objectives))
    if output is not None:
        note(f"wrote {output}")
