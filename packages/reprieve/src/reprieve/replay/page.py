"""A replay as one page of HTML that needs no network (replay.md 4.8).

The pictures are vector graphics by matplotlib, drawn twice, wide and narrow; the page shows the one that fits.  Text
and axes take the page's colours, so that they read in light and in dark.
"""

import heapq
import html
import io
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from reprieve.replay.measures import table, time_text
from reprieve.replay.policy_run import PolicyOutcome
from reprieve.replay.statistics import JobGroup, PolicyReport

_INK, _LINE, _QUIET = "#010203", "#040506", "#070809"
"""Stand-ins for colours of the page, replaced in the finished picture."""
COLOURS = ("#2f81d6", "#e07b22", "#1f9e77", "#d1495b", "#8c6bd1", "#c2a21b", "#17a2b8", "#b0568f")
_HOW = {
    "done": ("#2f81d6", "#62a5ea"),
    "unfinished": ("#8a929c", "#a7aeb7"),
    "preempted": ("#d1495b", "#e07784"),
    "lost": ("#c2a21b", "#d8bd4d"),
}
"""Two shades each, so that jobs beside each other differ."""
_WIDE, _NARROW, _HIGH = 8.6, 3.9, 2.9
"""Inches."""
_ROW = 0.15
"""Inches of a node."""
_DAY = 86_400_000
"""Milliseconds."""
_LEGEND = (120, 46)
"""Characters of a legend's line, wide and narrow."""
MOST_NODES, MOST_STAYS, MOST_ARROWS = 24, 1500, 120
Draw = Callable[[Any, bool], None]
"""Draws into axes; True: there is little room."""
Picture = tuple[str, str, Draw, float]
"""Title, what it shows, how, and how high it is in inches."""
_Box = tuple[float, float, float, float]
"""Left, bottom, right, top."""


def as_page(outcomes: Sequence[PolicyOutcome], setting: Mapping[str, Any]) -> str:
    """Return the page; the same for the same run, byte for byte."""
    reports = [outcome.report for outcome in outcomes]
    parts = [_head(reports, setting), _table(reports)]
    parts += [_figure(number, *picture) for number, picture in enumerate(_pictures(outcomes), 1)]
    parts += [_groups(reports), "</main></body></html>\n"]
    return "".join(parts)


# -- text --------------------------------------------------------------------------------------------------------------

_STYLE = """
:root{color-scheme:light dark;--ink:#1b2430;--quiet:#5a6675;--paper:#fff;--line:#d5dbe3;--best:#0f6b4b}
@media (prefers-color-scheme:dark){:root{--ink:#e4e9f0;--quiet:#9aa7b7;--paper:#12171e;--line:#37414e;--best:#5fd3a4}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:1000px;margin:0 auto;padding:16px}
h1{font-size:1.5rem;margin:.4em 0}h2{font-size:1.1rem;margin:1.6em 0 .3em}
p{margin:.3em 0;color:var(--quiet)}
.scroll{overflow-x:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;min-width:100%}
th,td{padding:3px 12px 3px 0;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}
th:first-child,td:first-child{text-align:left;position:sticky;left:0;background:var(--paper)}
td.best{color:var(--best);font-weight:600}
figure{margin:0}svg{width:100%;height:auto;display:block;color:var(--ink)}
.narrow{display:none}
@media (max-width:640px){.wide{display:none}.narrow{display:block}main{padding:10px}
table{font-size:13px;line-height:1.35}th,td{padding-right:8px}
th:first-child,td:first-child{white-space:normal;overflow-wrap:anywhere;min-width:98px;max-width:40vw}
td span{display:block}}
"""


def _head(reports: Sequence[PolicyReport], setting: Mapping[str, Any]) -> str:
    ended = max(report.ended for report in reports)
    intro = (
        f"{setting.get('jobs', 0):,} jobs on {setting.get('nodes', 0):,} nodes, {time_text(ended)} of simulated time."
    )
    cut = [report.name for report in reports if report.interrupted]
    if cut:
        intro += f" Interrupted: {', '.join(cut)}; this is what was simulated so far."
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<link rel="icon" href="data:,">'
        f"<title>Replay: {_text(', '.join(report.name for report in reports))}</title><style>{_STYLE}</style></head>"
        f"<body><main><h1>Replay</h1><p>{_text(intro)}</p>"
    )


def _table(reports: Sequence[PolicyReport]) -> str:
    note = f"Green: the best of a row. Percent: against {reports[0].name}." if len(reports) > 1 else ""
    body = "".join(_row(label, cells) for label, cells in table(reports))
    return _html_table(["", *(report.name for report in reports)], body) + f"<p>{_text(note)}</p>"


def _html_table(columns: Sequence[str], body: str) -> str:
    heads = "".join(f'<th scope="col">{_text(column)}</th>' for column in columns)
    return f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>'


def _row(label: str, cells: Sequence[str]) -> str:
    return f"<tr><td>{_text(label)}</td>{''.join(map(_cell, cells))}</tr>"


def _cell(cell: str) -> str:
    """Return what is in brackets, or after a comma, may stand below the rest where there is little room."""
    kind = ' class="best"' if cell.endswith(" *") else ""
    text = cell.removesuffix(" *")
    for mark in (" (", ", "):
        first, found, rest = text.partition(mark)
        if found:
            return f"<td{kind}>{_text(first + mark.rstrip(' ('))} <span>{_text(mark.strip(', ') + rest)}</span></td>"
    return f"<td{kind}>{_text(text)}</td>"


def _groups(reports: Sequence[PolicyReport]) -> str:
    parts = []
    for title, pick in _BY:
        names = list(dict.fromkeys(group.name for report in reports for group in pick(report)))[:40]
        if len(names) < 2:
            continue
        rows = []
        for name in names:
            found = [next((group for group in pick(report) if group.name == name), None) for report in reports]
            cells = [_waiting(group) for group in found]
            jobs = next((group.jobs for group in found if group is not None), 0)
            rows.append(_row(name or "none", [f"{jobs:,}", *cells]))
        heads = ["", "jobs", *(report.name for report in reports)]
        parts.append(f"<h2>Waiting {_text(title)}: mean, p99</h2>" + _html_table(heads, "".join(rows)))
    return "".join(parts)


_BY: Sequence[tuple[str, Callable[[PolicyReport], Sequence[JobGroup]]]] = (
    ("by GPUs of a job", lambda report: report.by_gpus),
    ("by priority class", lambda report: report.by_priority_class),
    ("by tenant", lambda report: report.by_tenant),
)


def _waiting(group: JobGroup | None) -> str:
    if group is None or group.waiting.mean is None or group.waiting.p99 is None:
        return "-"
    return f"{time_text(group.waiting.mean)}, {time_text(group.waiting.p99)}"


def _text(content: str) -> str:
    return html.escape(content)


# -- pictures ----------------------------------------------------------------------------------------------------------


def _pictures(outcomes: Sequence[PolicyOutcome]) -> list[Picture]:
    reports = [outcome.report for outcome in outcomes]
    result: list[Picture] = [
        ("GPUs allocated", "GPUs that jobs hold, over time.", _allocation(reports), _HIGH),
        ("Jobs that wait", "Jobs that have come and do not run.", _queue(reports), _HIGH),
        (
            "Fragmentation",
            "Share of the free GPUs that the tasks of the list, waiting or not, cannot use; no line: none are free.",
            _fragmentation(reports),
            _HIGH,
        ),
        ("Work lost", "GPU-hours lost so far: thrown away, or held without running.", _lost(reports), _HIGH),
        ("Waiting", "Share of jobs that started within a time.", _distribution(outcomes), _HIGH),
    ]
    for outcome in outcomes:
        if outcome.timeline is not None and outcome.timeline.node:
            strip = _Strip(outcome)
            result.append((f"Jobs over time: {outcome.report.name}", strip.text, strip.draw, strip.height))
    return result


def _curve(axes: Any, report: PolicyReport, at: int, amounts: Sequence[float]) -> None:
    width = report.series.width / 86400
    days = [point * width for point in range(len(amounts))]
    colour, label = COLOURS[at % len(COLOURS)], _in_legend(report.name)
    axes.plot(days, amounts, color=colour, label=label, drawstyle="steps-post")


def _in_legend(name: str) -> str:
    """Return the name so that matplotlib shows it: of those that begin with an underscore it thinks they are its
    own.
    """
    return f"\u200b{name}" if name.startswith("_") else name


def _finish(axes: Any, narrow: bool, legend: bool, label: str, below: str = "days") -> None:
    axes.set_ylabel(label)
    axes.set_xlabel(below)
    axes.set_ylim(bottom=0, top=None if axes.dataLim.ymax > 0 else 1)
    if below == "days":
        axes.set_xlim(left=0)
    if legend:  # above the figure: inside there is always a curve in the way
        names = [str(line.get_label()) for line in axes.get_lines()]
        across = max(1, min(len(names), _LEGEND[narrow] // (max(map(len, names)) + 6)))
        axes.figure.legend(loc="outside upper left", ncols=across)


def _allocation(reports: Sequence[PolicyReport]) -> Draw:
    def draw(axes: Any, narrow: bool) -> None:
        first = reports[0].series
        days = [point * first.width / 86400 for point in range(len(first.capacity))]
        style = {"color": _QUIET, "linestyle": "--", "drawstyle": "steps-post"}
        axes.plot(days, first.capacity, label="capacity", **style)
        for at, report in enumerate(reports):
            _curve(axes, report, at, report.series.allocated)
        _finish(axes, narrow, True, "GPUs")

    return draw


def _queue(reports: Sequence[PolicyReport]) -> Draw:
    def draw(axes: Any, narrow: bool) -> None:
        for at, report in enumerate(reports):
            _curve(axes, report, at, report.series.waiting)
        _finish(axes, narrow, len(reports) > 1, "jobs")

    return draw


def _fragmentation(reports: Sequence[PolicyReport]) -> Draw:
    def draw(axes: Any, narrow: bool) -> None:
        for at, report in enumerate(reports):
            samples = report.series.workload_fragmentation
            days = [when / 86400 for when, _ in samples]
            shares = [float("nan") if share is None else 100 * share for _, share in samples]
            colour, label = COLOURS[at % len(COLOURS)], _in_legend(report.name)
            axes.plot(days, shares, color=colour, label=label)
        _finish(axes, narrow, len(reports) > 1, "% of free GPUs")

    return draw


def _lost(reports: Sequence[PolicyReport]) -> Draw:
    def draw(axes: Any, narrow: bool) -> None:
        for at, report in enumerate(reports):
            _curve(axes, report, at, list(accumulate(report.series.lost)))
        _finish(axes, narrow, len(reports) > 1, "GPU-hours")

    return draw


def _distribution(outcomes: Sequence[PolicyOutcome]) -> Draw:
    def draw(axes: Any, narrow: bool) -> None:
        for at, outcome in enumerate(outcomes):
            waits = sorted(max(row.waiting, 1.0) / 3600 for row in outcome.rows if row.start is not None)
            step = max(1, len(waits) // 400)
            picked = sorted({*range(0, len(waits), step), len(waits) - 1}) if waits else []
            shares = [100 * (number + 1) / len(outcome.rows) for number in picked]
            colour = COLOURS[at % len(COLOURS)]
            label = _in_legend(outcome.report.name)
            axes.plot([waits[number] for number in picked], shares, color=colour, label=label)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda hours, _: f"{hours:g}")
        axes.xaxis.set_minor_formatter(lambda hours, _: "")
        axes.set_ylim(top=101)
        _finish(axes, narrow, len(outcomes) > 1, "% of jobs", "hours, logarithmic")

    return draw


def slots(spans: Iterable[tuple[int, int, int, int]]) -> dict[int, list[int]]:
    """(begin, end, what, how many) -> so many slots of each, the lowest free ones; none is taken twice at a time."""
    busy: list[tuple[int, int, list[int]]] = []
    free: list[int] = []
    result: dict[int, list[int]] = {}
    used = 0
    for begin, end, what, count in sorted(spans):
        while busy and busy[0][0] <= begin:
            for slot in heapq.heappop(busy)[2]:
                heapq.heappush(free, slot)
        taken = [heapq.heappop(free) for _ in range(min(count, len(free)))]
        taken += range(used, used + count - len(taken))
        used = max(used, *(slot + 1 for slot in taken))
        result[what] = taken
        heapq.heappush(busy, (max(end, begin), what, taken))
    return result


class _Strip:
    """Nodes as rows, GPUs of pods as bars, an arrow from where the preemptor came to run to each victim."""

    def __init__(self, outcome: PolicyOutcome) -> None:
        timeline = outcome.timeline
        assert timeline is not None
        self._timeline = timeline
        self._gpus = [max(1, round(row.gpus / row.workers)) for row in outcome.rows]
        """Of a worker of each job; a part of one, and none, is drawn as one."""
        hit = {timeline.node[stay] for _, _, victims in timeline.preemptions for stay in victims}
        there = set(timeline.node)
        order = sorted(there, key=lambda name: (name not in hit, name))[:MOST_NODES]
        self._begin, self._end = 0, max(timeline.end) or 1
        middle = self._middle()
        at_once = Counter(
            node for stay, node in enumerate(timeline.node) if timeline.begin[stay] <= middle < timeline.end[stay]
        )
        while len(order) > 1 and sum(at_once[name] for name in order) > MOST_STAYS // 2:
            order = order[: len(order) // 2]  # a shorter time would not have fewer bars
        self._nodes = sorted(order)
        inside = [stay for stay, node in enumerate(timeline.node) if node in self._nodes]
        while len(self._within(inside)) > MOST_STAYS and self._end - self._begin > 4:
            span = (self._end - self._begin) // 4
            self._begin, self._end = max(0, middle - span), max(0, middle - span) + 2 * span
        self._stays = self._within(inside)
        self.height = 0.9 + max(12, len(self._nodes)) * _ROW
        digits = 1 if self._end - self._begin >= _DAY else 3
        days = f"{self._begin / _DAY:.{digits}f} to {self._end / _DAY:.{digits}f}"
        self.text = (
            f"{len(self._nodes)} of {len(there)} nodes, days {days}. Blue: ran to its end; red: preempted; grey: "
            "unfinished at the end; yellow: lost with its node; the fuller a row, the more of its GPUs are in use; "
            "arrows lead from the preemptor to its victims."
        )

    def _middle(self) -> int:
        times = sorted(when for when, _, _ in self._timeline.preemptions)
        return times[len(times) // 2] if times else self._end // 2

    def _within(self, stays: Sequence[int]) -> list[int]:
        timeline = self._timeline
        return [stay for stay in stays if timeline.begin[stay] < self._end and timeline.end[stay] > self._begin]

    def draw(self, axes: Any, narrow: bool) -> None:
        """See the class."""
        timeline = self._timeline
        row = {name: at for at, name in enumerate(reversed(self._nodes))}
        by_node: dict[str, list[int]] = {}
        for stay in self._stays:
            by_node.setdefault(timeline.node[stay], []).append(stay)
        height: dict[int, tuple[float, float]] = {}
        bars: dict[str, list[_Box]] = {}
        for node, stays in by_node.items():
            found = slots((timeline.begin[stay], timeline.end[stay], stay, self._gpus_of(stay)) for stay in stays)
            each = 0.84 / (max(max(taken) for taken in found.values()) + 1)
            for stay in stays:
                taken = sorted(found[stay])
                height[stay] = (row[node] + 0.08 + each * taken[0], each * (taken[-1] + 1 - taken[0]))
                colour = _HOW[timeline.how[stay]][timeline.job[stay] % 2]
                left, right = self._days(timeline.begin[stay]), self._days(timeline.end[stay])
                for first, count in _runs(taken):
                    bottom = row[node] + 0.08 + each * first
                    bars.setdefault(colour, []).append((left, bottom, right, bottom + each * count))
        for colour in sorted(bars):
            axes.add_patch(_filled(bars[colour], colour))
        self._arrows(axes, height)
        axes.set_yticks([at + 0.5 for at in row.values()], list(row), fontsize=7)
        axes.set_ylim(0, max(1, len(row)))
        axes.grid(False)
        axes.set_xlim(self._begin / _DAY, self._end / _DAY)
        axes.set_xlabel("days")

    def _gpus_of(self, stay: int) -> int:
        job = self._timeline.job[stay]
        return self._gpus[job] if job >= 0 else 1

    def _days(self, milliseconds: int) -> float:
        return min(max(milliseconds, self._begin), self._end) / _DAY

    def _arrows(self, axes: Any, height: Mapping[int, tuple[float, float]]) -> None:
        timeline = self._timeline
        runs: dict[int, list[int]] = {}
        for stay in self._stays:
            if timeline.job[stay] >= 0:
                runs.setdefault(timeline.job[stay], []).append(stay)
        drawn = 0
        for when, preemptor, victims in timeline.preemptions:
            after = next((stay for stay in runs.get(preemptor, ()) if timeline.begin[stay] >= when), None)
            if after is None or not self._begin <= when <= self._end:
                continue
            for victim in victims:
                if victim in height and drawn < MOST_ARROWS:
                    drawn += 1
                    axes.annotate(
                        "",
                        xy=(self._days(timeline.end[victim]), height[victim][0] + height[victim][1] / 2),
                        xytext=(self._days(timeline.begin[after]), height[after][0] + height[after][1] / 2),
                        arrowprops={"arrowstyle": "->", "color": _INK, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 0},
                    )


def _filled(boxes: Sequence[_Box], colour: str) -> Any:
    """Return all boxes of a colour as one shape: an element for each would be most of the page."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Curve

    corners = [
        corner
        for left, bottom, right, top in boxes
        for corner in ((left, bottom), (right, bottom), (right, top), (left, top), (left, bottom))
    ]
    codes = [Curve.MOVETO, Curve.LINETO, Curve.LINETO, Curve.LINETO, Curve.CLOSEPOLY] * len(boxes)
    return PathPatch(Curve(corners, codes), facecolor=colour)


def _runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """(first, how many) of numbers that follow each other."""
    result: list[tuple[int, int]] = []
    for number in numbers:
        if result and result[-1][0] + result[-1][1] == number:
            result[-1] = (result[-1][0], result[-1][1] + 1)
        else:
            result.append((number, 1))
    return result


def _figure(number: int, title: str, text: str, draw: Draw, height: float) -> str:
    wide, narrow = (
        _svg(f"{kind}{number}", (width, height), draw, kind == "n") for kind, width in (("w", _WIDE), ("n", _NARROW))
    )
    label = _text(f"{title}. {text}")
    return (
        f"<h2>{_text(title)}</h2><p>{_text(text)}</p>"
        f'<figure role="img" aria-label="{label}"><div class="wide">{wide}</div>'
        f'<div class="narrow">{narrow}</div></figure>'
    )


def _svg(prefix: str, size: tuple[float, float], draw: Draw, narrow: bool) -> str:
    """Return an inline SVG, with ids of its own, and the page's colours."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    ink = dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color", "legend.labelcolor"), _INK)
    lines = dict.fromkeys(("axes.edgecolor", "grid.color"), _LINE)
    colours: Any = {**ink, **lines}
    with rc_context(colours, fname=Path(__file__).with_suffix(".mplstyle")):
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        axes.spines["bottom"].set_zorder(1)  # a curve may be zero all along
        draw(axes, narrow)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    picture = out.getvalue()
    picture = picture[picture.index("<svg") :]
    picture = re.sub(r"<metadata>.*?</metadata>", "", picture, flags=re.DOTALL)
    picture = re.sub(r'<path[^<>]* d="[^"]+"', _shorter, picture)
    picture = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', picture)
    picture = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", picture)
    picture = re.sub(r'href="#([^"]+)"', rf'href="#{prefix}-\1"', picture)
    return picture.replace(_INK, "currentColor").replace(_LINE, "var(--line)").replace(_QUIET, "var(--quiet)")


def _shorter(path: re.Match[str]) -> str:
    """Return a path to hundredths of a point."""
    return re.sub(r"(\.\d\d)\d+", r"\1", path[0])
