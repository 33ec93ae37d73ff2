"""The rows of the table of a replay: what is measured, how it is written, which value is the best (replay.md 4.8)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from reprieve.simulation.replay.statistics import PolicyReport

BEST = "*"


@dataclass(frozen=True, slots=True)
class Measure:
    """A row. `better`: -1 less is, 1 more is, 0 neither. `compared`: the difference from the first is shown."""

    label: str
    value: Callable[[PolicyReport], float | None]
    shown: Callable[[float], str]
    better: int = 0


def count_text(number: float) -> str:
    """`41,226`."""
    return f"{number:,.0f}"


def _share(number: float) -> str:
    return f"{100 * number:.2f} %"


def _hours(number: float) -> str:
    return f"{number:,.1f} h" if number < 100 else f"{number:,.0f} h"


def _ratio(number: float) -> str:
    return f"{number:.2f}"


def time_text(seconds: float) -> str:
    """`45 s`, `12 min`, `3.4 h`, `2.1 d`."""
    for size, unit in ((86400 * 2, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / (86400 if unit == 'd' else size):.1f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 1 or seconds == 0 else f"{seconds:.1f} s"


MEASURES: Sequence[Measure] = (
    Measure("jobs", lambda r: r.total.jobs, count_text),
    Measure("done", lambda r: r.total.done, count_text, 1),
    Measure("unfinished", lambda r: r.total.unfinished, count_text, -1),
    Measure("never started", lambda r: r.total.never_started, count_text, -1),
    Measure("waiting, mean", lambda r: r.total.waiting.mean, time_text, -1),
    Measure("waiting, p50", lambda r: r.total.waiting.p50, time_text, -1),
    Measure("waiting, p90", lambda r: r.total.waiting.p90, time_text, -1),
    Measure("waiting, p99", lambda r: r.total.waiting.p99, time_text, -1),
    Measure("waiting, max", lambda r: r.total.waiting.max, time_text, -1),
    Measure("completion, mean", lambda r: r.total.completion.mean, time_text, -1),
    Measure("completion, p50", lambda r: r.total.completion.p50, time_text, -1),
    Measure("completion, p99", lambda r: r.total.completion.p99, time_text, -1),
    Measure("slowdown, mean", lambda r: r.total.slowdown.mean, _ratio, -1),
    Measure("slowdown, p99", lambda r: r.total.slowdown.p99, _ratio, -1),
    Measure("GPUs allocated", lambda r: r.allocation, _share, 1),
    Measure("goodput", lambda r: r.goodput, _share, 1),
    Measure("useful GPU-hours", lambda r: r.total.useful_gpu_hours, _hours, 1),
    Measure("lost GPU-hours", lambda r: r.total.lost_gpu_hours, _hours, -1),
    Measure("restart GPU-hours", lambda r: r.total.restart_gpu_hours, _hours, -1),
    Measure("evicted units", lambda r: r.evictions.units, count_text, -1),
    Measure("evicted pods", lambda r: r.evictions.pods, count_text, -1),
    Measure("evicted gangs", lambda r: r.evictions.gangs, count_text, -1),
    Measure(
        "evicted runs", lambda r: r.evictions.evicted_runs / r.evictions.runs if r.evictions.runs else 0.0, _share, -1
    ),
    Measure("most evictions of a job", lambda r: r.evictions.most_of_one_job, count_text, -1),
    Measure("budget violations", lambda r: r.evictions.budget_violations, count_text, -1),
    Measure("runs lost to nodes", lambda r: r.evictions.runs_lost_to_nodes, count_text, -1),
    Measure("fragmentation, waiting", lambda r: r.fragmentation, _share, -1),
    Measure("fragmentation, workload", lambda r: r.workload_fragmentation, _share, -1),
    Measure("makespan", lambda r: r.makespan, time_text, -1),
    Measure("decisions", lambda r: r.decisions, count_text),
)
ALWAYS = {"jobs", "done", "waiting, mean", "GPUs allocated", "goodput", "lost GPU-hours", "evicted units", "decisions"}


def table(reports: Sequence[PolicyReport]) -> list[tuple[str, list[str]]]:
    """(label, a cell per policy) of the rows that have a value."""
    found = []
    for measure in MEASURES:
        values = [measure.value(report) for report in reports]
        if measure.label in ALWAYS or any(values):
            found.append((measure.label, compared(values, measure)))
    return found


def compared(values: Sequence[float | None], measure: Measure) -> list[str]:
    """The cells of a row: the best marked where they differ, with what is different from the first in percent."""
    known = [value for value in values if value is not None]
    best = None
    if measure.better and len(set(known)) > 1:
        best = max(known) if measure.better > 0 else min(known)
    cells = []
    for at, value in enumerate(values):
        if value is None:
            cells.append("-")
            continue
        cell = measure.shown(value)
        first = values[0]
        if at and first and value != first:
            cell += f" ({100 * (value - first) / first:+.1f} %)"
        cells.append(f"{cell} {BEST}" if value == best else cell)
    return cells
