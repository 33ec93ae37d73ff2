"""`reprieve import TRACE --format F`: a job list of a public trace (replay.md 1.8, 2.6-2.9)."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from reprieve.cli.outcome import note, reason_of, refuse
from reprieve.cli.progress import working
from reprieve.cli.replay_options import SkipBadOption

BUILT_IN = ("openb", "philly", "philly-log", "spot-gpu", "helios", "acme", "gavel")


class Import(TyperGroup):
    """`import openb ...` makes manifests for `plan`; anything else is the name of a trace."""

    default = "trace"
    """The command of the group that its help describes."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help of `import TRACE`, which names `import openb`."""
        self.commands[self.default].format_help(ctx, formatter)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the name of the command before arguments without one."""
        if args[:1] != ["openb"]:
            args = [self.default, *(args or ["--help"])]
        return super().parse_args(ctx, args)


_RULES = """The import fills in data that a trace lacks by these rules, and prints them:

\b
openb       a task runs from creation to deletion; BE is a lower class than the other qos values
philly      more than 8 GPUs: a gang of equal workers with at most 8; the cluster is the tenant
philly-log  duration of all attempts; the hosts of the last one are the workers; vc is the tenant
spot-gpu    HP is a higher class than Spot; the organization is the tenant
helios      node_num workers, or as many more as make them equal; vc is the tenant
acme        as helios; the user is the tenant
gavel       scale_factor workers with one GPU; seconds from the last column or --durations

Other packages add formats with the entry point group reprieve.importers.
`reprieve import openb --nodes CSV --pods CSV -o FILE` writes manifests for `plan`."""


def command(
    trace: Annotated[Path, typer.Argument(metavar="TRACE", help="The job list of the trace.")],
    format: Annotated[str, typer.Option("--format", metavar="FORMAT", help=f"One of {', '.join(BUILT_IN)}.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The job list to write (CSV).")],
    cluster_out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write the nodes: those of --nodes, or as many as the jobs need."),
    ] = None,
    nodes: Annotated[Path | None, typer.Option(metavar="CSV", help="The node list of the trace.")] = None,
    priorities: Annotated[
        str,
        typer.Option(
            metavar="RULES",
            help="Priority class by the first rule that matches, e.g. gpus>=8:high,else:low. Rules compare gpus, "
            "workers, duration (seconds), tenant or job by >=, <=, >, < or =. Each class is 100 lower than the one "
            "before; high=5000 sets a value.",
        ),
    ] = "",
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Keep only jobs of this cluster of the trace. Repeatable.")
    ] = None,
    durations: Annotated[
        Path | None, typer.Option(metavar="CSV", help="For gavel: CSV with type, steps_per_second and scale_factor.")
    ] = None,
    skip_bad: SkipBadOption = False,
    max_jobs: Annotated[int, typer.Option(metavar="N", min=1, help="Maximum number of jobs in the trace.")] = 1_000_000,
) -> None:  # long: one parameter for each option, as typer wants them
    """Convert a public trace to a job list for `reprieve replay`."""
    from reprieve.decisions.phrases import count
    from reprieve.replay.job_list import JobListError
    from reprieve.replay.traces.importer import ImportOptions
    from reprieve.replay.traces.priorities import read_priorities
    from reprieve.replay.traces.registry import UnknownFormatError, importer_of
    from reprieve.replay.traces.trace_reader import read_durations, read_machines, read_trace

    try:
        importer = importer_of(format)
    except UnknownFormatError as error:
        refuse(f"--format: {error}")
    try:
        rules = read_priorities(priorities) if priorities else None
    except ValueError as error:
        refuse(f"--priorities: {error}")
    if nodes is not None and cluster_out is None:
        refuse("--nodes requires --cluster-out")
    try:
        rates = read_durations(durations) if durations is not None else {}
        options = ImportOptions(only=tuple(only or ()), durations=rates)
        with working("reading the trace"):
            imported = read_trace(importer, trace, options, priorities=rules, skip_bad=skip_bad, max_jobs=max_jobs)
            machines = read_machines(importer, nodes) if nodes is not None else None
    except JobListError as error:
        refuse(str(error))
    except OSError as error:
        refuse(reason_of(error))
    if not imported.jobs:
        why = "; ".join(f"{count} {reason}" for reason, count in imported.left_out.items())
        refuse(f"{trace}: no jobs" + (f" ({why})" if why else ""))
    for rule in importer.rules:
        note(f"rule: {rule}")
    if rules is not None:
        classes = ", ".join(f"{name}={value}" for name, value in rules.classes.items())
        note(f"rule: priority classes {classes}")
    try:
        with working("writing the job list"):
            _write_jobs(output, imported.jobs, dated=importer.dated)
            note(f"{output}: {len(imported.jobs)} jobs")
            if cluster_out is not None:
                _write_cluster(cluster_out, imported.jobs, machines)
    except OSError as error:
        refuse(reason_of(error))
    for reason, rows in sorted(imported.left_out.items()):
        note(f"skipped: {count(rows, 'row')} ({reason})")
    if imported.skipped:
        note(f"skipped: {count(imported.skipped, 'invalid row')}; the first: {imported.first_problem}")


command.__doc__ = f"{command.__doc__}\n\n{_RULES}"


def _write_jobs(path: Path, jobs: Any, *, dated: bool) -> None:
    from reprieve.replay.job_list import write_jobs

    with path.open("w", encoding="utf-8", newline="") as out:
        write_jobs(jobs, out, dated=dated)


def _write_cluster(path: Path, jobs: Any, machines: Any) -> None:
    from reprieve.replay.cluster_sizing import class_documents, fitting_nodes
    from reprieve.replay.traces.openb_cluster import write
    from reprieve.replay.traces.trace_reader import machine_documents

    shared = any(job.shape.gpu % 1000 for job in jobs)
    nodes = fitting_nodes(jobs) if machines is None else machine_documents(machines, shared=shared)
    write([*class_documents(jobs), *nodes], path)
    note(f"{path}: {len(nodes)} nodes" + (" that fit the jobs" if machines is None else ""))
