"""`reprieve bench`: the speed scenarios."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from reprieve.cli.outcome import CommandError, Exit, refuse, show
from reprieve.cli.sections import Row, Section

if TYPE_CHECKING:
    from reprieve.simulation.bench.running import Measured
    from reprieve.simulation.bench.series import Growth


class Format(StrEnum):
    """What to write to stdout."""

    TEXT = "text"
    JSON = "json"


def command(
    scenarios: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SCENARIO]...", help="Scenarios to run, or families with --growth; none: the usual set."
        ),
    ] = None,
    output: Annotated[Format, typer.Option("-o", "--output", help="How to show the figures.")] = Format.TEXT,
    growth: Annotated[
        bool, typer.Option("--growth", help="Run families at 500, 1000, 2000 and 5000 nodes and give the exponent.")
    ] = False,
    names: Annotated[bool, typer.Option("--list", help="Name the scenarios and families and exit.")] = False,
) -> None:
    """Measure how fast the scheduler decides on this machine.

    Each scenario runs in a process of its own, with an API that answers at once: the scheduler itself is measured.
    """
    from reprieve.simulation.bench.scenarios import DEFAULT, FAMILIES, SCENARIOS
    from reprieve.simulation.bench.series import ScenarioError

    if names:
        show("".join(f"{name}\n" for name in (*SCENARIOS, *FAMILIES)))
        return
    known = FAMILIES if growth else tuple(SCENARIOS)
    chosen = tuple(scenarios) if scenarios else FAMILIES if growth else DEFAULT
    for name in chosen:
        if name not in known:
            refuse(f"unknown {'family' if growth else 'scenario'} {name!r}; known: {', '.join(known)}")
    try:
        if growth:
            _show_growth(chosen, output)
        else:
            _show_figures(chosen, output)
    except ScenarioError as error:
        raise CommandError(str(error), Exit.NOT_SO) from None


def _show_figures(chosen: tuple[str, ...], output: Format) -> None:
    from reprieve.cli.terminal import show_sections
    from reprieve.simulation.bench.scenarios import SCENARIOS
    from reprieve.simulation.bench.series import measure

    figures = list(measure(SCENARIOS[name] for name in chosen))
    if output is Format.JSON:
        _show_json(figures)
    else:
        show_sections([Section("Speed on this machine", _COLUMNS, tuple(Row(_cells(f)) for f in figures))])


def _show_growth(chosen: tuple[str, ...], output: Format) -> None:
    from reprieve.cli.terminal import show_sections
    from reprieve.simulation.bench.series import growth

    grown = list(growth(chosen))
    if output is Format.JSON:
        _show_json(grown)
    else:
        show_sections([_growth_section(family) for family in grown])


def _growth_section(grown: "Growth") -> Section:
    title = f"{grown.family}: time grows with (nodes + pods) to the power of {grown.exponent:.2f}"
    return Section(title, _COLUMNS, tuple(Row(_cells(figure)) for figure in grown.runs))


_COLUMNS = ("scenario", "nodes", "pods", "seconds", "decision s", "pods/s", "attempt ms p50", "p99", "peak MiB")


def _cells(figure: "Measured") -> tuple[str, ...]:
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
