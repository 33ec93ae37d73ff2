"""The rows of the table of a replay: each with its text form and its best value (replay.md 4.8)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import mean, stdev

from reprieve.replay.statistics import PolicyReport

BEST = "*"


@dataclass(frozen=True, slots=True)
class Measure:
    """A row. `best`: chooses the best of several values; None: no value is better than another."""

    label: str
    value: Callable[[PolicyReport], float | None]
    shown: Callable[[float], str]
    best: Callable[[Sequence[float]], float] | None = None


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
    for least, size, unit in ((172_800, 86_400, "d"), (3600, 3600, "h"), (60, 60, "min")):
        if seconds >= least:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 1 or seconds == 0 else f"{seconds:.1f} s"


MEASURES: Sequence[Measure] = (
    Measure("jobs", lambda r: r.total.jobs, count_text),
    Measure("done", lambda r: r.total.done, count_text, max),
    Measure("unfinished", lambda r: r.total.unfinished, count_text, min),
    Measure("never started", lambda r: r.total.never_started, count_text, min),
    Measure("waiting, mean", lambda r: r.total.waiting.mean, time_text, min),
    Measure("waiting, p50", lambda r: r.total.waiting.p50, time_text, min),
    Measure("waiting, p90", lambda r: r.total.waiting.p90, time_text, min),
    Measure("waiting, p99", lambda r: r.total.waiting.p99, time_text, min),
    Measure("waiting, max", lambda r: r.total.waiting.max, time_text, min),
    Measure("completion, mean", lambda r: r.total.completion.mean, time_text, min),
    Measure("completion, p50", lambda r: r.total.completion.p50, time_text, min),
    Measure("completion, p99", lambda r: r.total.completion.p99, time_text, min),
    Measure("slowdown, mean", lambda r: r.total.slowdown.mean, _ratio, min),
    Measure("slowdown, p99", lambda r: r.total.slowdown.p99, _ratio, min),
    Measure("GPUs allocated", lambda r: r.allocation, _share, max),
    Measure("goodput", lambda r: r.goodput, _share, max),
    Measure("useful GPU-hours", lambda r: r.total.useful_gpu_hours, _hours, max),
    Measure("lost GPU-hours", lambda r: r.total.lost_gpu_hours, _hours, min),
    Measure("restart GPU-hours", lambda r: r.total.restart_gpu_hours, _hours, min),
    Measure("reserved idle GPU-hours", lambda r: r.reserved_idle_gpu_hours, _hours, min),
    Measure("reserved idle, of capacity", lambda r: r.reserved_idle, _share, min),
    Measure("gangs with their minimum", lambda r: r.satisfied, _share, max),
    Measure("evicted units", lambda r: r.evictions.units, count_text, min),
    Measure("evicted pods", lambda r: r.evictions.pods, count_text, min),
    Measure("evicted gangs", lambda r: r.evictions.gangs, count_text, min),
    Measure(
        "evicted runs", lambda r: r.evictions.evicted_runs / r.evictions.runs if r.evictions.runs else 0.0, _share, min
    ),
    Measure("evictions of an evicted job, mean", lambda r: r.evictions.of_evicted_jobs, _ratio, min),
    Measure("most evictions of a job", lambda r: r.evictions.most_of_one_job, count_text, min),
    Measure("moves", lambda r: r.evictions.moves, count_text),
    Measure("moves without a new place", lambda r: r.evictions.lost_moves, count_text, min),
    Measure("budget violations", lambda r: r.evictions.budget_violations, count_text, min),
    Measure("runs lost to nodes", lambda r: r.evictions.runs_lost_to_nodes, count_text, min),
    Measure("fragmentation, waiting", lambda r: r.fragmentation, _share, min),
    Measure("fragmentation, workload", lambda r: r.workload_fragmentation, _share, min),
    Measure("makespan", lambda r: r.makespan, time_text, min),
    Measure("decisions", lambda r: r.decisions, count_text),
)
ALWAYS = {"jobs", "done", "waiting, mean", "GPUs allocated", "goodput", "lost GPU-hours", "evicted units", "decisions"}


def table(reports: Sequence[PolicyReport]) -> list[tuple[str, list[str]]]:
    """(label, a cell per policy) of the rows that have a value."""
    result = []
    for measure in MEASURES:
        values = [measure.value(report) for report in reports]
        if measure.label in ALWAYS or any(values):
            result.append((measure.label, compared(values, measure)))
    return result


def sweep_table(policies: Sequence[Sequence[PolicyReport]]) -> list[tuple[str, list[str]]]:
    """Return the same rows for several runs of each policy: the mean, and after `±` its standard error."""
    result = []
    for measure in MEASURES:
        values = [[value for report in reports if (value := measure.value(report)) is not None] for reports in policies]
        if measure.label in ALWAYS or any(any(of_one) for of_one in values):
            result.append((measure.label, [_mean_text(of_one, measure) for of_one in values]))
    return result


def _mean_text(values: Sequence[float], measure: Measure) -> str:
    if not values:
        return "-"
    if len(values) == 1:
        return measure.shown(values[0])
    error = stdev(values) / len(values) ** 0.5
    return f"{measure.shown(mean(values))} ± {measure.shown(error)}"


def difference_text(value: float, first: float) -> str:
    """Return the difference in percent, or beyond 1,000 % the factor: `+12.5 %`, `×190`."""
    percent = 100 * (value - first) / first
    return f"{percent:+.1f} %" if abs(percent) <= 1000 else f"×{value / first:,.0f}"


def compared(values: Sequence[float | None], measure: Measure) -> list[str]:
    """Return the cells of a row: the best marked where they differ, with what is different from the first in
    percent.
    """
    present = [value for value in values if value is not None]
    best = measure.best(present) if measure.best is not None and len(set(present)) > 1 else None
    cells = []
    for at, value in enumerate(values):
        if value is None:
            cells.append("-")
            continue
        cell = measure.shown(value)
        first = values[0]
        if at and first and value != first:
            cell += f" ({difference_text(value, first)})"
        cells.append(f"{cell} {BEST}" if value == best else cell)
    return cells
