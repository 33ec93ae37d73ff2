"""The view of a replay on the page: the part of its document besides the reports (page.md 9).

All policies are compared on one axis: their curves have the same times, and their strips the same nodes and times.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final

from reprieve.decisions.outcomes import Document
from reprieve.page.documents import PageDocument
from reprieve.page.html import as_file
from reprieve.replay.accounts import Timeline
from reprieve.replay.measures import BEST, count_text, table, time_text
from reprieve.replay.policy_run import PolicyOutcome
from reprieve.replay.statistics import JobGroup, PolicyReport

MOST_NODES: Final = 24
MOST_STAYS: Final = 3_000
"""The maximum per policy."""
MOST_POINTS: Final = 400
MOST_ROWS: Final = 40
_LEAST_WINDOW: Final = 4
"""Milliseconds."""


class CurvesOfPolicy(Document, frozen=True, kw_only=True):
    """Series over time, one value for each `width` seconds.

    `fragmentation`: (seconds, share), None if nothing was free. `waits`: (hours, share of jobs started by then).
    """

    width: float
    allocated: tuple[float, ...]
    capacity: tuple[float, ...]
    waiting: tuple[float, ...]
    lost: tuple[float, ...]
    fragmentation: tuple[tuple[float, float | None], ...]
    waits: tuple[tuple[float, float], ...]


class StripsOfPolicy(Document, frozen=True, kw_only=True):
    """Stays of pods on the shown nodes in the shown time, as columns. Times in seconds.

    `nodes`: indexes of the nodes; `first`, `count`: the lanes of the node that a stay uses, one per GPU; `preemptions`:
    (time, the stay of the preemptor or -1, stays of the victims).
    """

    names: tuple[str, ...]
    nodes: tuple[int, ...]
    begins: tuple[float, ...]
    ends: tuple[float, ...]
    hows: tuple[str, ...]
    first: tuple[int, ...]
    count: tuple[int, ...]
    lanes: tuple[int, ...]
    """By node."""
    stays_total: int
    preemptions: tuple[tuple[float, int, tuple[int, ...]], ...]
    preemptions_total: int


class ReplayPolicy(Document, frozen=True, kw_only=True):
    """The curves and strips of one policy."""

    name: str
    interrupted: bool
    curves: CurvesOfPolicy
    strips: StripsOfPolicy | None


class ReplayTable(Document, frozen=True, kw_only=True):
    """A table with a row for each label and a column for each policy; `rows_total`: number of rows before the limit.

    A cell is (text, difference from the first policy, whether it is the best).
    """

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, tuple[tuple[str, str, bool], ...]], ...]
    rows_total: int


class ReplayView(Document, frozen=True, kw_only=True):
    """The view. `nodes`: those of the strips, of `nodes_total`; `window`: their time in seconds."""

    jobs: int
    cluster_nodes: int
    ended: float
    policies: tuple[ReplayPolicy, ...]
    tables: tuple[ReplayTable, ...]
    nodes: tuple[str, ...]
    nodes_total: int
    window: tuple[float, float]


def as_page(outcomes: Sequence[PolicyOutcome], setting: Mapping[str, Any]) -> str:
    """Return the page as one file; equal runs give equal bytes."""
    return as_file(page_of(outcomes, setting))


def page_of(outcomes: Sequence[PolicyOutcome], setting: Mapping[str, Any]) -> PageDocument:
    """Return the document."""
    reports = [outcome.report for outcome in outcomes]
    frame = _Frame([outcome.timeline for outcome in outcomes if outcome.timeline is not None])
    view = ReplayView(
        jobs=int(setting.get("jobs", 0)),
        cluster_nodes=int(setting.get("nodes", 0)),
        ended=max(report.ended for report in reports),
        policies=tuple(
            ReplayPolicy(
                name=outcome.report.name,
                interrupted=outcome.report.interrupted,
                curves=_curves(outcome),
                strips=frame.strips(outcome),
            )
            for outcome in outcomes
        ),
        tables=(_measures(reports), *_groups(reports)),
        nodes=tuple(frame.nodes),
        nodes_total=frame.nodes_total,
        window=(frame.begin / 1000, frame.end / 1000),
    )
    return PageDocument(replay=view, sentences={"replay": conclusion(reports)})


# -- the conclusion ----------------------------------------------------------------------------------------------------


def conclusion(reports: Sequence[PolicyReport]) -> str:
    """Return a sentence on the policy with the shortest waits, and its costs."""
    cut = [report.name for report in reports if report.interrupted]
    note = f" Interrupted: {', '.join(cut)}." if cut else ""
    differences = sorted(
        (
            (report.total.waiting.mean, place)
            for place, report in enumerate(reports)
            if report.total.waiting.mean is not None
        )
    )
    if not differences:
        return f"No job started.{note}"
    wait, place = differences[0]
    best = reports[place]
    if len(reports) == 1:
        return (
            f"Jobs wait {time_text(wait)} on average; {count_text(best.evictions.units)} workloads are evicted, and "
            f"{_hours(best)} GPU-hours are lost.{note}"
        )
    if len(differences) == 1:
        return f"Only with {best.name} do jobs start: they wait {time_text(wait)} on average.{note}"
    second_wait, second_place = differences[1]
    second = reports[second_place]
    if second_wait == wait:
        return f"{best.name} and {second.name} let jobs wait equally long: {time_text(wait)} on average.{note}"
    return (
        f"Jobs wait least with {best.name}: {time_text(wait)} on average, against {time_text(second_wait)} with "
        f"{second.name}. It evicts {count_text(best.evictions.units)} workloads (against "
        f"{count_text(second.evictions.units)}) and loses {_hours(best)} GPU-hours (against {_hours(second)}).{note}"
    )


def _hours(report: PolicyReport) -> str:
    hours = report.total.lost_gpu_hours
    return f"{hours:,.1f}" if 0 < hours < 100 else f"{hours:,.0f}"


# -- tables ------------------------------------------------------------------------------------------------------------


def _measures(reports: Sequence[PolicyReport]) -> ReplayTable:
    rows = tuple((label, tuple(map(_cell, cells))) for label, cells in table(reports))
    return ReplayTable(
        title="Policies", heads=tuple(report.name for report in reports), rows=rows, rows_total=len(rows)
    )


def _cell(text: str) -> tuple[str, str, bool]:
    value, _, rest = text.removesuffix(f" {BEST}").partition(" (")
    return value, rest.removesuffix(")"), text.endswith(f" {BEST}")


_BY: Sequence[tuple[str, Callable[[PolicyReport], Sequence[JobGroup]]]] = (
    ("Waiting by GPUs of a job: mean, p99", lambda report: report.by_gpus),
    ("Waiting by priority class: mean, p99", lambda report: report.by_priority_class),
    ("Waiting by tenant: mean, p99", lambda report: report.by_tenant),
)


def _groups(reports: Sequence[PolicyReport]) -> list[ReplayTable]:
    result = []
    for title, pick in _BY:
        names = list(dict.fromkeys(group.name for report in reports for group in pick(report)))
        if len(names) < 2:
            continue
        rows = []
        for name in names[:MOST_ROWS]:
            groups = [next((group for group in pick(report) if group.name == name), None) for report in reports]
            jobs = next((group.jobs for group in groups if group is not None), 0)
            cells = ((f"{jobs:,}", "", False), *((_waiting(group), "", False) for group in groups))
            rows.append((name or "none", cells))
        heads = ("jobs", *(report.name for report in reports))
        result.append(ReplayTable(title=title, heads=heads, rows=tuple(rows), rows_total=len(names)))
    return result


def _waiting(group: JobGroup | None) -> str:
    if group is None or group.waiting.mean is None or group.waiting.p99 is None:
        return "-"
    return f"{time_text(group.waiting.mean)}, {time_text(group.waiting.p99)}"


# -- curves ------------------------------------------------------------------------------------------------------------


def _curves(outcome: PolicyOutcome) -> CurvesOfPolicy:
    series = outcome.report.series
    waits = sorted(max(row.waiting, 1.0) / 3600 for row in outcome.rows if row.start is not None)
    step = max(1, len(waits) // MOST_POINTS)
    picked = sorted({*range(0, len(waits), step), len(waits) - 1}) if waits else []
    return CurvesOfPolicy(
        width=series.width,
        allocated=_rounded(series.allocated),
        capacity=_rounded(series.capacity),
        waiting=_rounded(series.waiting),
        lost=_rounded(accumulate(series.lost)),
        fragmentation=tuple(
            (when, None if share is None else round(share, 4)) for when, share in series.workload_fragmentation
        ),
        waits=tuple((round(waits[number], 4), round((number + 1) / len(outcome.rows), 4)) for number in picked),
    )


def _rounded(amounts: Iterable[float]) -> tuple[float, ...]:
    return tuple(round(amount, 2) for amount in amounts)


# -- strips ------------------------------------------------------------------------------------------------------------


class _Frame:
    """The shown nodes and time, the same for all policies: those with the most preemptions."""

    def __init__(self, timelines: Sequence[Timeline]) -> None:
        hit = Counter(line.node[stay] for line in timelines for _, _, victims in line.preemptions for stay in victims)
        names = {node for line in timelines for node in line.node}
        self.nodes_total = len(names)
        self.nodes = sorted(sorted(names, key=lambda name: (-hit[name], name))[:MOST_NODES])
        self.begin, self.end = 0, max((end for line in timelines for end in line.end), default=0) or 1
        times = sorted(when for line in timelines for when, _, _ in line.preemptions)
        middle = times[len(times) // 2] if times else self.end // 2
        while self._most(timelines) > MOST_STAYS and self.end - self.begin > _LEAST_WINDOW:
            span = (self.end - self.begin) // 4
            self.begin = max(0, middle - span)
            self.end = self.begin + 2 * span
        while len(self.nodes) > 1 and self._most(timelines) > MOST_STAYS:
            self.nodes = self.nodes[: len(self.nodes) // 2]

    def _most(self, timelines: Sequence[Timeline]) -> int:
        return max((len(self._shown(line)) for line in timelines), default=0)

    def _shown(self, line: Timeline) -> list[int]:
        nodes = set(self.nodes)
        return [
            stay
            for stay, node in enumerate(line.node)
            if node in nodes and line.begin[stay] < self.end and line.end[stay] > self.begin
        ]

    def strips(self, outcome: PolicyOutcome) -> StripsOfPolicy | None:
        """Return the strips of a policy; None if no pod was placed or no timeline was recorded."""
        line = outcome.timeline
        if line is None or not line.node:
            return None
        stays = self._shown(line)
        place = {name: at for at, name in enumerate(self.nodes)}
        gpus = [max(1, round(row.gpus / row.workers)) for row in outcome.rows]
        sizes = {stay: gpus[line.job[stay]] if line.job[stay] >= 0 else 1 for stay in stays}
        lanes = [1] * len(self.nodes)
        rows_of_spans: dict[int, list[int]] = {}
        for name, at in place.items():
            spans = ((line.begin[stay], line.end[stay], stay, sizes[stay]) for stay in stays if line.node[stay] == name)
            slots_found = slots(spans)
            rows_of_spans |= slots_found
            lanes[at] = max((max(numbers) + 1 for numbers in slots_found.values()), default=1)
        jobs = [row.job for row in outcome.rows]
        number = {stay: at for at, stay in enumerate(stays)}
        return StripsOfPolicy(
            names=tuple(line.name(stay, jobs) for stay in stays),
            nodes=tuple(place[line.node[stay]] for stay in stays),
            begins=tuple(line.begin[stay] / 1000 for stay in stays),
            ends=tuple(line.end[stay] / 1000 for stay in stays),
            hows=tuple(line.how[stay] for stay in stays),
            first=tuple(min(rows_of_spans[stay]) for stay in stays),
            count=tuple(len(rows_of_spans[stay]) for stay in stays),
            lanes=tuple(lanes),
            stays_total=len(line.node),
            preemptions=tuple(self._preemptions(line, stays, number)),
            preemptions_total=len(line.preemptions),
        )

    def _preemptions(
        self, line: Timeline, stays: Sequence[int], number: Mapping[int, int]
    ) -> Iterable[tuple[float, int, tuple[int, ...]]]:
        """Yield the preemptions with a shown victim."""
        runs: dict[int, list[int]] = {}
        for stay in stays:
            runs.setdefault(line.job[stay], []).append(stay)
        for when, preemptor, victims in line.preemptions:
            shown = tuple(number[stay] for stay in victims if stay in number)
            if shown and self.begin <= when <= self.end:
                after = next((stay for stay in runs.get(preemptor, ()) if line.begin[stay] >= when), None)
                yield when / 1000, number[after] if after is not None and preemptor >= 0 else -1, shown


def slots(spans: Iterable[tuple[int, int, int, int]]) -> dict[int, list[int]]:
    """Return the slots of each item, given (begin, end, item, count): the lowest that are free all that time."""
    busy: list[tuple[int, int, list[int]]] = []
    free: list[int] = []
    result: dict[int, list[int]] = {}
    used = 0
    for begin, end, item, count in sorted(spans):
        while busy and busy[0][0] <= begin:
            for slot in heapq.heappop(busy)[2]:
                heapq.heappush(free, slot)
        free_slots = [heapq.heappop(free) for _ in range(min(count, len(free)))]
        free_slots += range(used, used + count - len(free_slots))
        used = max(used, *(slot + 1 for slot in free_slots))
        result[item] = free_slots
        heapq.heappush(busy, (max(end, begin), item, free_slots))
    return result
