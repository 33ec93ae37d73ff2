"""What the pictures and tables of a replay's page show, figure by figure (replay.md 4.8).

Beside `test_page_and_trace.py`, in which the page is opened: here the figures are kept before they become SVG.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

import msgspec
import pytest

from reprieve.replay import page as page_module
from reprieve.replay.accounts import Timeline
from reprieve.replay.page import COLOURS, as_page
from reprieve.replay.policy_run import PolicyOutcome
from reprieve.replay.statistics import Curves, Distribution, JobRow, PolicyReport, report, rows
from tests.replay.building import gpu_nodes, job, replay

matplotlib = pytest.importorskip("matplotlib")

DAY = 86_400_000
HALF = 43_200.0
"""Seconds of half a day."""
INK = "#010203"


def row(name: str, *, gpus: float = 1, workers: int = 1, waiting: float = 0, start: float | None = 0) -> JobRow:
    """Of a job that asks for so many GPUs in all workers."""
    return JobRow(
        *(name, "default", "", 0, workers, gpus, 0, start, None, waiting, None, None, 0, 0, 0.0, 0.0, 0.0, 0.0)
    )


def a_report(name: str = "a", **more: Any) -> PolicyReport:
    run = replay([job("j", 0, 10)], gpu_nodes(1))
    return msgspec.structs.replace(report(name, run), **more)


def curves(**more: Any) -> Curves:
    empty: dict[str, Any] = dict.fromkeys(
        ("allocated", "capacity", "waiting", "lost", "fragmentation", "workload_fragmentation"), ()
    )
    return Curves(**{"width": HALF, **empty, **more})


def an_outcome(
    name: str = "a", table: Sequence[JobRow] = (), timeline: Timeline | None = None, **series: Any
) -> PolicyOutcome:
    return PolicyOutcome(a_report(name, series=curves(**series)), list(table), timeline)


class Axes:
    """Takes what is drawn, and draws nothing: `get_*` gives back what `set_*` got."""

    def __init__(self, figure: Figure) -> None:
        self.figure = figure
        self.lines: list[tuple[Sequence[float], Sequence[float], dict[str, Any]]] = []
        self.patches: list[Any] = []
        self.arrows: list[tuple[float, float, float, float]] = []
        self.limits: dict[str, float | None] = {}
        self.given: dict[str, Any] = {}
        self.xaxis = SimpleNamespace(
            set_major_formatter=lambda by: self.given.update(major=by),
            set_minor_formatter=lambda by: self.given.update(minor=by),
        )
        self.spines = {"bottom": SimpleNamespace(set_zorder=lambda order: self.given.update(zorder=order))}
        self.add_patch = self.patches.append

    def plot(self, x: Sequence[float], y: Sequence[float], **style: Any) -> None:
        self.lines.append((x, y, style))

    def get_lines(self) -> list[Any]:
        return [SimpleNamespace(get_label=lambda style=style: style["label"]) for _, _, style in self.lines]

    @property
    def dataLim(self) -> Any:  # noqa: N802
        return SimpleNamespace(ymax=max((amount for _, y, _ in self.lines for amount in y), default=float("-inf")))

    def annotate(self, text: str, xy: Any, xytext: Any, arrowprops: Any) -> None:
        assert (text, arrowprops["arrowstyle"]) == ("", "->")
        self.arrows.append((*(round(number, 3) for number in (*xytext, *xy)),))

    def set_ylim(self, *both: float, **ends: float | None) -> None:
        self.limits |= dict(zip(("bottom", "top"), both, strict=False)) | ends

    def set_xlim(self, *both: float, **ends: float | None) -> None:
        self.limits |= dict(zip(("left", "right"), both, strict=False)) | ends

    def grid(self, shown: bool) -> None:
        self.given["grid"] = shown

    def __getattr__(self, name: str) -> Any:
        if name.startswith("set_"):
            return lambda *values, **more: self.given.update({name[4:]: values[0] if len(values) == 1 else values})
        raise AttributeError(name)

    def styles(self, key: str) -> list[Any]:
        return [style.get(key) for _, _, style in self.lines]


class Figure:
    """Has the constructor and the methods of matplotlib's that a page uses."""

    drawn: ClassVar[list[Figure]] = []

    def __init__(self, figsize: tuple[float, float], layout: str) -> None:
        self.size, self.layout = figsize, layout
        self.legends: list[tuple[str, int]] = []
        self.axes = Axes(self)

    def add_subplot(self) -> Axes:
        return self.axes

    def legend(self, *, loc: str, ncols: int) -> None:
        self.legends.append((loc, ncols))

    def savefig(self, out: Any, **more: Any) -> None:
        self.drawn.append(self)
        out.write(f"<svg id='{len(self.drawn)}'></svg>")


class Figures:
    """What is drawn for a page: by title the wide picture and the narrow one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *outcomes: PolicyOutcome) -> None:
        monkeypatch.setattr(Figure, "drawn", [])
        monkeypatch.setattr("matplotlib.figure.Figure", Figure)
        monkeypatch.setattr("matplotlib.backends.backend_svg.FigureCanvasSVG", lambda figure: None)
        self.text = as_page(outcomes, {"jobs": 1234, "nodes": 5})
        titles = re.findall(r"<h2>([^<]*)</h2><p>[^<]*</p><figure", self.text)
        assert len(Figure.drawn) == 2 * len(titles)
        self.figures = dict(zip(titles, zip(Figure.drawn[::2], Figure.drawn[1::2], strict=True), strict=True))

    def lines(self, title: str) -> dict[str, tuple[list[float], list[float]]]:
        """Label -> x and y of each curve."""
        return {style["label"]: (list(x), list(y)) for x, y, style in self.axes(title).lines}

    def axes(self, title: str) -> Axes:
        axes: Axes = self.figures[title][0].axes
        return axes


def test_curves_over_days(monkeypatch: pytest.MonkeyPatch) -> None:
    """A point is as wide as the series says, steps last until the next; what was lost adds up."""
    first = an_outcome("one", allocated=(1.0, 3.0, 2.0), capacity=(8.0, 8.0, 4.0), waiting=(0.0, 5.0), lost=(1.0, 0.5))
    second = an_outcome("_two", allocated=(2.0,), capacity=(7.0,), waiting=(9.0,), lost=(0.0, 2.0, 1.0))
    found = Figures(monkeypatch, first, second)
    assert list(found.figures) == ["GPUs allocated", "Jobs that wait", "Fragmentation", "Work lost", "Waiting"]
    two = "\u200b_two"  # a name that matplotlib shows
    assert found.lines("GPUs allocated") == {
        "capacity": ([0.0, 0.5, 1.0], [8.0, 8.0, 4.0]),
        "one": ([0.0, 0.5, 1.0], [1.0, 3.0, 2.0]),
        two: ([0.0], [2.0]),
    }
    assert found.lines("Jobs that wait") == {"one": ([0.0, 0.5], [0.0, 5.0]), two: ([0.0], [9.0])}
    assert found.lines("Work lost") == {"one": ([0.0, 0.5], [1.0, 1.5]), two: ([0.0, 0.5, 1.0], [0.0, 2.0, 3.0])}
    for title in ("GPUs allocated", "Jobs that wait", "Work lost"):
        assert set(found.axes(title).styles("drawstyle")) == {"steps-post"}
    assert found.axes("GPUs allocated").styles("linestyle") == ["--", None, None]
    assert found.axes("Jobs that wait").styles("color") == list(COLOURS[:2])


def test_there_are_as_many_policies_as_there_are_though_colours_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    many = [an_outcome(f"p{at}", [row("j")], waiting=(1.0,), workload_fragmentation=((0.0, 0.5),)) for at in range(9)]
    found = Figures(monkeypatch, *many)
    for title in ("Jobs that wait", "Fragmentation", "Waiting"):
        assert found.axes(title).styles("color") == [*COLOURS, COLOURS[0]]


def test_fragmentation_in_percent_with_gaps_where_nothing_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = ((0.0, 0.25), (HALF, None), (2 * HALF, 0.5))
    days, shares = Figures(monkeypatch, an_outcome(workload_fragmentation=samples)).lines("Fragmentation")["a"]
    assert days == [0.0, 0.5, 1.0]
    assert (shares[0], shares[2]) == (25.0, 50.0)
    assert shares[1] != shares[1], "not a number: no line"


@pytest.mark.parametrize(
    ("waits", "never", "hours", "shares"),
    [
        ([7200, 3600], 0, [1.0, 2.0], [50.0, 100.0]),
        ([3600], 1, [1.0], [50.0]),  # a job that never started counts below the line
        ([0, 0.5, 36], 0, [1 / 3600, 1 / 3600, 0.01], [100 / 3, 200 / 3, 100.0]),  # a logarithm begins at a second
        ([], 1, [], []),
    ],
)
def test_share_of_jobs_that_started_within_a_time(
    monkeypatch: pytest.MonkeyPatch, waits: list[float], never: int, hours: list[float], shares: list[float]
) -> None:
    table = [row(f"j{at}", waiting=wait) for at, wait in enumerate(waits)]
    table += [row("never", waiting=9, start=None)] * never
    x, y = Figures(monkeypatch, an_outcome("a", table)).lines("Waiting")["a"]
    assert x == pytest.approx(hours)
    assert y == pytest.approx(shares)


@pytest.mark.parametrize(("jobs", "points"), [(400, 400), (799, 799), (800, 401), (1201, 401), (1202, 402)])
def test_of_many_jobs_some_points_are_drawn_and_the_last(
    monkeypatch: pytest.MonkeyPatch, jobs: int, points: int
) -> None:
    table = [row(f"j{at}", waiting=3600 * (at + 1)) for at in range(jobs)]
    x, y = Figures(monkeypatch, an_outcome("a", table)).lines("Waiting")["a"]
    assert (len(x), x[0], x[-1], y[-1]) == (points, 1.0, float(jobs), 100.0)


def test_axes_are_labelled_and_begin_at_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    series: dict[str, Any] = {"allocated": (1.0, 2.0), "capacity": (4.0, 4.0), "waiting": (0.0, 0.0), "lost": (5.0,)}
    found = Figures(monkeypatch, an_outcome("a", [row("j", waiting=7200)], **series))
    labels = {title: (found.axes(title).given["xlabel"], found.axes(title).given["ylabel"]) for title in found.figures}
    assert labels == {
        "GPUs allocated": ("days", "GPUs"),
        "Jobs that wait": ("days", "jobs"),
        "Fragmentation": ("days", "% of free GPUs"),
        "Work lost": ("days", "GPU-hours"),
        "Waiting": ("hours, logarithmic", "% of jobs"),
    }
    limits = {title: found.axes(title).limits for title in found.figures}
    assert limits == {
        "GPUs allocated": {"bottom": 0, "top": None, "left": 0},
        "Jobs that wait": {"bottom": 0, "top": 1, "left": 0},  # of nothing but zeros
        "Fragmentation": {"bottom": 0, "top": 1, "left": 0},
        "Work lost": {"bottom": 0, "top": None, "left": 0},
        "Waiting": {"bottom": 0, "top": None},
    }
    waiting = found.axes("Waiting").given
    assert (waiting["xscale"], waiting["major"](2.5, 0), waiting["minor"](2.5, 0)) == ("log", "2.5", "")
    assert {wide.axes.given["zorder"] for wide, _ in found.figures.values()} == {1}, "below curves, which are at 2"
    assert {wide.layout for wide, _ in found.figures.values()} == {"constrained"}


@pytest.mark.parametrize(
    ("names", "across"),
    [
        # 120 characters fit beside each other in the wide picture and 46 in the narrow one, each with its mark
        (["a", "b"], (2, 2)),
        (["p" * 34, "b"], (2, 1)),
        (["p" * 54, "b"], (2, 1)),
        (["p" * 55, "b"], (1, 1)),
        (["p" * 17, "b", "c"], (3, 2)),
        (["p" * 18, "b", "c"], (3, 1)),
        (["p" * 200, "b"], (1, 1)),
    ],
)
def test_legend_is_as_wide_as_there_is_room(
    monkeypatch: pytest.MonkeyPatch, names: list[str], across: tuple[int, int]
) -> None:
    found = Figures(monkeypatch, *(an_outcome(name, waiting=(1.0,)) for name in names))
    # GPUs allocated has one curve more, of the capacity
    for title in ("Jobs that wait", "Fragmentation", "Work lost", "Waiting"):
        both = [figure.legends for figure in found.figures[title]]
        assert both == [[("outside upper left", count)] for count in across]


def test_of_one_policy_there_is_a_legend_only_beside_the_capacity(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Figures(monkeypatch, an_outcome("a", [row("j")], waiting=(1.0,)))
    assert [title for title, (wide, _) in found.figures.items() if wide.legends] == ["GPUs allocated"]


def test_pictures_are_as_large_as_their_places(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Timeline()
    for at in range(20):
        line.placed(f"u{at}", 0, 0, f"n{at:02}", 0)
    line.close(DAY)
    found = Figures(monkeypatch, an_outcome("a", [row("j")], line))
    sizes = {title: [figure.size for figure in both] for title, both in found.figures.items()}
    strip = sizes.pop("Jobs over time: a")
    assert {tuple(both) for both in sizes.values()} == {((8.6, 2.9), (3.9, 2.9))}
    assert [size[0] for size in strip] == [8.6, 3.9]
    assert strip[0][1] == strip[1][1] == pytest.approx(0.9 + 20 * 0.15)
    assert '<figure role="img" aria-label="Jobs over time: a. 20 of 20 nodes, days 0.0 to 1.0. Blue: ' in found.text


# -- times of jobs --------------------------------------------------------------------------------------------------


def boxes(axes: Any) -> set[tuple[str, float, float, float, float]]:
    """Colour, left, right (days), bottom and top of every bar."""
    found = set()
    for patch in axes.patches:
        corners = patch.get_path().vertices.tolist()
        colour = matplotlib.colors.to_hex(patch.get_facecolor())
        for at in range(0, len(corners), 5):
            (left, bottom), (right, _), (_, top), _, last = corners[at : at + 5]
            assert last == [left, bottom]
            found.add((colour, round(left, 3), round(right, 3), round(bottom, 3), round(top, 3)))
    return found


BLUE, LIGHT_BLUE, LIGHT_RED, GREY, LIGHT_YELLOW = "#2f81d6", "#62a5ea", "#e07784", "#8a929c", "#d8bd4d"


def strip(monkeypatch: pytest.MonkeyPatch, line: Timeline, *table: JobRow) -> tuple[str, Any]:
    """The text and the axes."""
    found = Figures(monkeypatch, an_outcome("a", table, line))
    title = "Jobs over time: a"
    (text,) = re.findall(rf"<h2>{title}</h2><p>(.*?)</p>", found.text)
    return text, found.axes(title)


def test_bars_are_as_high_as_their_share_of_the_gpus_and_coloured_by_how_they_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Four slots of n1: two of the first job beside one of the second; one stays, one is lost with its node."""
    line = Timeline()
    line.placed("a", 0, 0, "n1", 0)
    line.placed("b", 1, 0, "n1", 0)
    line.placed("file", -1, 0, "n0", 0, "default/web")
    line.gone("a", DAY)
    line.gone("b", DAY // 2)
    line.placed("c", 2, 0, "n1", DAY)
    line.lost("file")
    line.gone("file", DAY)
    line.close(2 * DAY)
    text, axes = strip(monkeypatch, line, row("a", gpus=4, workers=2), row("b", gpus=0.5), row("c", gpus=4))
    assert text.startswith("2 of 2 nodes, days 0.0 to 2.0. Blue: ran to its end; red: preempted; ")
    quarter = 0.84 / 4
    bottom = [round(0.08 + slot * quarter, 3) for slot in range(5)]  # nodes from above: n0 is the upper row
    assert boxes(axes) == {
        (LIGHT_BLUE, 0.0, 0.5, bottom[0], bottom[1]),  # of those that begin together the shortest is lowest
        (BLUE, 0.0, 1.0, bottom[1], bottom[3]),
        (GREY, 1.0, 2.0, bottom[0], bottom[4]),
        (LIGHT_YELLOW, 0.0, 1.0, 1.08, 1.92),
    }
    assert axes.given["yticks"] == ([0.5, 1.5], ["n1", "n0"])
    assert axes.limits == {"bottom": 0, "top": 2, "left": 0.0, "right": 2.0}
    assert (axes.given["xlabel"], axes.given["grid"]) == ("days", False)


def test_pod_in_slots_apart_has_a_bar_for_each_run_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Timeline()
    line.placed("a", 0, 0, "n", 0)
    line.placed("b", 1, 0, "n", 1)
    line.placed("c", 0, 0, "n", 2)
    line.gone("a", DAY)
    line.placed("d", 2, 0, "n", DAY)
    line.gone("c", DAY + 1)
    line.close(2 * DAY)
    _, axes = strip(monkeypatch, line, row("one"), row("other"), row("two", gpus=2))
    third = 0.84 / 4
    found = {(bottom, top) for colour, left, _, bottom, top in boxes(axes) if left == 1.0}
    assert found == {(0.08, round(0.08 + third, 3)), (round(0.08 + 3 * third, 3), 0.92)}


def test_arrows_lead_from_where_the_preemptor_runs_to_its_victims(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Timeline()
    line.placed("earlier", 0, 0, "n1", 0)
    line.placed("low", 1, 0, "n0", 0)
    line.placed("file", -1, 0, "n1", 0, "default/web")
    line.preempted(DAY, 0, ["low", "file"])
    line.preempted(DAY, 2, ["low"])  # a job that never ran
    line.preempted(DAY, -1, ["low"])  # a pod of the cluster file
    for uid in ("low", "file"):
        line.gone(uid, DAY + DAY // 2)
    line.placed("high", 0, 0, "n0", DAY + DAY // 2)
    line.close(2 * DAY)
    _, axes = strip(monkeypatch, line, row("high"), row("low"), row("never"))
    # n0 is the upper row, of one slot: its middle is 1.5; of two slots of n1 the lower is the file's pod
    assert axes.arrows == [(1.5, 1.5, 1.5, 1.5), (1.5, 1.5, 1.5, round(0.08 + 0.84 * 0.25, 3))]
    assert {box[0] for box in boxes(axes)} == {LIGHT_RED, GREY}, "every other job in the lighter shade"


def test_there_are_only_so_many_arrows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_module, "MOST_ARROWS", 3)
    line = Timeline()
    for at in range(5):
        line.placed(f"v{at}", 0, 0, "n", 0)
    line.preempted(10, 1, [f"v{at}" for at in range(5)])
    line.placed("high", 1, 0, "n", 10)
    line.close(DAY)
    _, axes = strip(monkeypatch, line, row("low"), row("high"))
    # of six slots the last is the preemptor's
    middles = [round(0.08 + 0.84 / 6 * (slot + 0.5), 3) for slot in range(6)]
    assert [(begin, end) for _, begin, _, end in axes.arrows] == [(middles[5], middles[slot]) for slot in range(3)]


@pytest.mark.parametrize(("nodes", "shown"), [(24, 24), (25, 24)])
def test_of_many_nodes_those_with_preemptions_are_shown_first(
    monkeypatch: pytest.MonkeyPatch, nodes: int, shown: int
) -> None:
    """replay.md 4.8: nodes as rows; the last one by name has the only preemption."""
    line = Timeline()
    for at in range(nodes):
        line.placed(f"u{at}", 0, 0, f"n{at:02}", 0)
    line.preempted(DAY // 2, 0, [f"u{nodes - 1}"])
    line.close(DAY)
    text, axes = strip(monkeypatch, line, row("j"))
    assert text.startswith(f"{shown} of {nodes} nodes, ")
    labels = axes.given["yticks"][1]
    wanted = [f"n{at:02}" for at in range(24)] if nodes == 24 else [*(f"n{at:02}" for at in range(23)), "n24"]
    assert labels == wanted[::-1]


def test_few_nodes_have_room_for_their_text(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Timeline()
    line.placed("u", 0, 0, "n", 0)
    line.close(DAY)
    found = Figures(monkeypatch, an_outcome("a", [row("j")], line))
    assert found.figures["Jobs over time: a"][0].size[1] == pytest.approx(0.9 + 12 * 0.15)


@pytest.mark.parametrize(("most", "days"), [(8, "0.0 to 8.0"), (7, "2.0 to 6.0"), (3, "3.000 to 5.000")])
def test_of_more_runs_than_are_drawn_the_middle_is_shown(monkeypatch: pytest.MonkeyPatch, most: int, days: str) -> None:
    """Eight runs of a day one after the other; the time is halved around the middle."""
    monkeypatch.setattr(page_module, "MOST_STAYS", most)
    line = Timeline()
    for at in range(8):
        line.placed(f"u{at}", 0, 0, "n", at * DAY)
        line.gone(f"u{at}", (at + 1) * DAY)
    line.close(8 * DAY)
    text, axes = strip(monkeypatch, line, row("j"))
    wanted = {"3.000 to 5.000": "3.0 to 5.0"}.get(days, days)
    assert text.startswith(f"1 of 1 nodes, days {wanted}. ")
    first, last = map(float, days.split(" to "))
    assert (axes.limits["left"], axes.limits["right"]) == (first, last)
    assert {(left, right) for _, left, right, _, _ in boxes(axes)} == {
        (float(at), at + 1.0) for at in range(int(first), int(last))
    }


def test_middle_is_that_of_the_preemptions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_module, "MOST_STAYS", 4)
    line = Timeline()
    for at in range(8):
        line.placed(f"u{at}", 0, 0, "n", at * DAY)
        if at in (1, 5, 6):
            line.preempted(at * DAY + DAY // 2, 0, [f"u{at}"])
        line.gone(f"u{at}", (at + 1) * DAY)
    line.close(8 * DAY)
    text, _ = strip(monkeypatch, line, row("j"))
    assert text.startswith("1 of 1 nodes, days 4.5 to 6.5. ")


@pytest.mark.parametrize(
    ("end", "days"),
    [(DAY, "0.0 to 1.0"), (DAY - 1, "0.000 to 1.000"), (DAY // 8, "0.000 to 0.125"), (0, "0.000 to 0.000")],
)
def test_less_than_a_day_is_written_in_thousandths(monkeypatch: pytest.MonkeyPatch, end: int, days: str) -> None:
    line = Timeline()
    line.placed("u", 0, 0, "n", 0)
    line.close(end)
    text, axes = strip(monkeypatch, line, row("j"))
    assert text.startswith(f"1 of 1 nodes, days {days}. ")
    assert (axes.limits["left"], axes.limits["right"]) == (0.0, max(end, 1) / DAY), "not nothing, of no time at all"


@pytest.mark.parametrize(
    ("nodes", "most", "shown"), [(2, 4, 2), (2, 3, 1), (1, 1, 1), (5, 10, 5), (5, 9, 2), (5, 2, 1)]
)
def test_of_more_runs_at_once_than_are_drawn_there_are_fewer_nodes(
    monkeypatch: pytest.MonkeyPatch, nodes: int, most: int, shown: int
) -> None:
    """One run on each, at half of the bound: a shorter time would not have fewer of them."""
    monkeypatch.setattr(page_module, "MOST_STAYS", most)
    line = Timeline()
    for at in range(nodes):
        line.placed(f"u{at}", 0, 0, f"n{at}", 0)
    line.close(DAY)
    text, _ = strip(monkeypatch, line, row("j"))
    assert text.startswith(f"{shown} of {nodes} nodes, ")


def test_run_in_which_no_pod_came_to_a_node_has_no_strip(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not [title for title in Figures(monkeypatch, an_outcome("a", [], Timeline())).figures if "ran when" in title]


# -- text ----------------------------------------------------------------------------------------------------------


def test_head_states_how_much_was_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = a_report("<a>", ended=3600.0), a_report("b", ended=7200.0, interrupted=True)
    text = Figures(monkeypatch, PolicyOutcome(first, []), PolicyOutcome(second, [])).text
    assert "<title>Replay: &lt;a&gt;, b</title>" in text
    assert (
        "<h1>Replay</h1><p>1,234 jobs on 5 nodes, 2.0 h of simulated time. "
        "Interrupted: b; this is what was simulated so far.</p>"
    ) in text
    assert "Interrupted" not in Figures(monkeypatch, PolicyOutcome(first, [])).text
    assert "<p>0 jobs on 0 nodes, " in as_page([PolicyOutcome(first, [])], {})


def test_best_of_a_row_is_marked_and_what_is_beside_a_number_may_stand_below_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = a_report("a", makespan=7200.0), a_report("b", makespan=3600.0)
    text = Figures(monkeypatch, PolicyOutcome(first, []), PolicyOutcome(second, [])).text
    assert '<tr><td>makespan</td><td>2.0 h</td><td class="best">1.0 h <span>(-50.0 %)</span></td></tr>' in text
    assert "<p>Green: the best of a row. Percent: against a.</p>" in text
    assert '<th scope="col"></th><th scope="col">a</th><th scope="col">b</th>' in text
    assert "Green" not in Figures(monkeypatch, PolicyOutcome(first, [])).text


def group(name: str, mean: float | None, jobs: int = 1) -> Any:
    plain = a_report().total
    waiting = Distribution(0) if mean is None else Distribution(1, mean, mean, mean, 2 * mean, mean)
    return msgspec.structs.replace(plain, name=name, jobs=jobs, waiting=waiting)


def test_waiting_by_group_has_a_row_for_each_group_of_any_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    first = a_report("a", by_tenant=(group("x", 60.0, 1200), group("", 3600.0)))
    second = a_report("b", by_tenant=(group("y", 5.0, 7), group("x", None)))
    text = Figures(monkeypatch, PolicyOutcome(first, []), PolicyOutcome(second, [])).text
    (table,) = re.findall(r"<h2>Waiting by tenant: mean, p99</h2>(.*?)</table>", text)
    assert re.findall(r"<tr><td>.*?</tr>", table) == [
        "<tr><td>x</td><td>1,200</td><td>1.0 min, <span>2.0 min</span></td><td>-</td></tr>",
        "<tr><td>none</td><td>1</td><td>1.0 h, <span>2.0 h</span></td><td>-</td></tr>",
        "<tr><td>y</td><td>7</td><td>-</td><td>5 s, <span>10 s</span></td></tr>",
    ]
    assert "Waiting by priority class" not in text, "of one group there is nothing to compare"


@pytest.mark.parametrize(("groups", "shown"), [(1, 0), (2, 2), (40, 40), (41, 40)])
def test_at_most_forty_groups_are_shown(monkeypatch: pytest.MonkeyPatch, groups: int, shown: int) -> None:
    found = a_report("a", by_tenant=tuple(group(f"t{at}", 1.0) for at in range(groups)))
    text = Figures(monkeypatch, PolicyOutcome(found, [])).text
    assert len(re.findall(r"<tr><td>t\d+</td>", text)) == shown


def test_real_picture_takes_the_colours_of_the_page_and_ids_of_its_own() -> None:
    run = replay([job("j", 0, 10)], gpu_nodes(1), timeline=True)
    text = as_page([PolicyOutcome(report("a", run), rows(run), run.timeline)], {})
    assert INK not in text
    assert "#040506" not in text
    assert "#070809" not in text
    assert {"currentColor", "var(--line)", "var(--quiet)"} <= set(re.findall(r"stroke: ([^;\"]+)", text)) | set(
        re.findall(r"fill: ([^;\"]+)", text)
    )
    kinds = re.findall(r'id="([a-z]\d+)-figure_1"', text)
    assert kinds == [f"{kind}{number}" for number in range(1, 7) for kind in "wn"]
    assert not re.search(r' d="[^"]*\.\d{3}', text), "hundredths of a point are enough"
    assert set(re.findall(r'width="([\d.]+)pt"', text)) == {"619.2", "280.8"}
    links = set(re.findall(r'(?:href="|url\()#([^")]+)', text))
    assert links <= set(re.findall(r'\bid="([^"]+)"', text))
