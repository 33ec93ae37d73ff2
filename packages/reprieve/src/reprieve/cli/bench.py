"""`reprieve bench`: the speed scenarios."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reprieve.cli.outcome import CommandError, Exit, refuse, show
from reprieve.cli.progress import working
from reprieve.cli.sections import Row, Section

if TYPE_CHECKING:
    from reprieve.simulation.bench.scenario_run import BenchMeasurement
    from reprieve.simulation.bench.series import Growth


class BenchFormat(StrEnum):
    """The output formats."""

    TEXT = "text"
    JSON = "json"


def command(
    scenarios: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SCENARIO]...", help="Scenarios to run, or with --growth families. Default: the standard set."
        ),
    ] = None,
    output: Annotated[BenchFormat, typer.Option("-o", "--output", help="Output format.")] = BenchFormat.TEXT,
    growth: Annotated[
        bool,
        typer.Option("--growth", help="Run families at three sizes and show the exponent of their growth."),
    ] = False,
    compare: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            "--compare",
            metavar="BEFORE.json AFTER.json",
            help="Compare two saved results (-o json) without running anything.",
        ),
    ] = None,
    profile: Annotated[
        bool, typer.Option("--profile", help="Show where the time is spent; slows the measurement down.")
    ] = False,
    names: Annotated[bool, typer.Option("--list", help="List the scenarios and families and exit.")] = False,
) -> None:
    """Measure the speed of the scheduler on this machine.

    Each scenario runs in its own process. API calls return at once, so only the scheduler itself is measured.
    """
    from reprieve.simulation.bench.scenarios import DEFAULT, FAMILIES, SCENARIOS
    from reprieve.simulation.bench.series import ScenarioError

    if names:
        show("".join(f"{name}\n" for name in (*SCENARIOS, *FAMILIES)))
        return
    if compare is not None:
        if scenarios or growth or profile:
            refuse("--compare cannot be combined with scenarios, --growth or --profile")
        _show_compared(compare, output)
        return
    if growth and profile:
        refuse("--profile cannot be combined with --growth")
    known_names = FAMILIES if growth else tuple(SCENARIOS)
    chosen = tuple(scenarios) if scenarios else FAMILIES if growth else DEFAULT
    for name in chosen:
        if name not in known_names:
            refuse(f"unknown {'family' if growth else 'scenario'} {name!r}; known: {', '.join(known_names)}")
    try:
        if growth:
            _show_growth(chosen, output)
        else:
            _show_figures(chosen, output, profile=profile)
    except ScenarioError as error:
        raise CommandError(str(error), Exit.NOT_SO) from None


def _show_figures(chosen: tuple[str, ...], output: BenchFormat, *, profile: bool) -> None:
    from reprieve.cli.terminal import show_sections
    from reprieve.simulation.bench.scenarios import SCENARIOS
    from reprieve.simulation.bench.series import measure

    figures: list[BenchMeasurement] = []
    for name in chosen:
        with working(f"measuring {name}"):
            figures += measure([SCENARIOS[name]], profile=profile)
    if output is BenchFormat.JSON:
        _show_json(figures)
    else:
        speed = Section("Speed on this machine", _COLUMNS, tuple(Row(_cells(f)) for f in figures), _more(figures))
        show_sections([speed, *(_profile_section(figure) for figure in figures if figure.profile)])


def _more(figures: "list[BenchMeasurement]") -> tuple[str, ...]:
    """Return figures that single scenarios measure beside the columns, one line each."""
    lines = []
    for figure in figures:
        more = (
            (figure.growth_mb, "memory grew by {:.1f} MiB"),
            (figure.rss_mb, "{:.1f} MiB resident at the end"),
            (figure.cpu_per_second, "{:.4f} s of CPU time per simulated second"),
            (figure.taken_in_seconds, "{:.3f} s to load the cluster"),
            (figure.cpu_seconds, "{:.3f} s of CPU time"),
            (figure.held_mb, "{:.1f} MiB kept for the pods"),
        )
        details = ", ".join(text.format(value) for value, text in more if isinstance(value, float))
        lines += [f"{figure.scenario}: {details}"] if details else []
    return tuple(lines)


def _profile_section(figure: "BenchMeasurement") -> Section:
    rows = (
        Row((f"{hot.own_seconds:.3f}", f"{hot.total_seconds:.3f}", str(hot.calls), hot.function))
        for hot in figure.profile or ()
    )
    return Section(
        f"Where the time goes: {figure.scenario}", ("own s", "with callees s", "calls", "function"), tuple(rows)
    )


def _show_compared(files: tuple[Path, Path], output: BenchFormat) -> None:
    from reprieve.cli.terminal import show_sections
    from reprieve.simulation.bench.comparison import FiguresError, compare

    try:
        comparisons = compare(*files)
    except FiguresError as error:
        refuse(str(error))
    if output is BenchFormat.JSON:
        _show_json(comparisons)
        return
    rows = []
    for item in comparisons:
        cells = [item.scenario]
        for pick in (_seconds, _attempt, _memory):
            cells += [pick(figure) if figure is not None else "-" for figure in (item.before, item.after)]
        rows.append(Row((*cells, "-" if item.ratio is None else f"{item.ratio:.2f}")))
    show_sections([Section("Before and after", _COMPARED, tuple(rows))])


_COMPARED = (
    *("scenario", "seconds before", "after", "attempt ms p99 before", "after"),
    *("peak MiB before", "after", "seconds after / before"),
)


def _seconds(figure: "BenchMeasurement") -> str:
    return f"{figure.seconds:.3f}"


def _attempt(figure: "BenchMeasurement") -> str:
    return f"{figure.attempt_ms.p99:.3f}"


def _memory(figure: "BenchMeasurement") -> str:
    return f"{figure.peak_rss_mb:.0f}"


def _show_growth(chosen: tuple[str, ...], output: BenchFormat) -> None:
    from reprieve.cli.terminal import show_sections
    from reprieve.simulation.bench.series import growth

    grown: list[Growth] = []
    for name in chosen:
        with working(f"measuring {name}"):
            grown += growth([name])
    if output is BenchFormat.JSON:
        _show_json(grown)
    else:
        show_sections([_growth_section(family) for family in grown])


def _growth_section(grown: "Growth") -> Section:
    title = f"{grown.family}: processor time grows with (nodes + pods) to the power of {grown.exponent:.2f}"
    return Section(title, _COLUMNS, tuple(Row(_cells(figure)) for figure in grown.runs), _more(list(grown.runs)))


_COLUMNS = ("scenario", "nodes", "pods", "seconds", "decision s", "pods/s", "attempt ms p50", "p99", "peak MiB")


def _cells(figure: "BenchMeasurement") -> tuple[str, ...]:
    decision = "-" if figure.decision_seconds is None else f"{figure.decision_seconds:.3f}"
    return (
        figure.scenario,
        str(figure.nodes),
        str(figure.pods),
        f"{figure.seconds:.3f}",
        decision,
        f"{figure.pods_per_second:.0f}",
        f"{figure.attempt_ms.p50:.3f}",
        f"{figure.attempt_ms.p99:.3f}",
        f"{figure.peak_rss_mb:.0f}",
    )


def _show_json(figures: object) -> None:
    import msgspec

    show(msgspec.json.format(msgspec.json.encode(figures), indent=2).decode() + "\n")
