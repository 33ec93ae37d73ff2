"""The books of a replay by themselves: a job's clock, series in bounded memory, jobs on nodes, rows of the table.

Rules: replay.md 3.3-3.6, 4.3, 4.8, 4.9.  Beside `test_world.py`, in which they are kept while jobs run.
"""

from __future__ import annotations

import pytest

from reprieve.replay.accounts import RUNNING, WAITING, ReplayAccount, Series, Timeline
from reprieve.replay.measures import MEASURES, Measure, compared, count_text, time_text
from tests.replay.building import job

BY_LABEL = {measure.label: measure for measure in MEASURES}


def account(*, state: int = RUNNING, holding: int = 2, working: int = 2, restart_left: int = 0) -> ReplayAccount:
    """Of a job of workers with one thousandth of a GPU each: GPU-time is pods times milliseconds."""
    made = ReplayAccount(0, job("j", 0, 1000, gpu=0.001, workers=2))
    made.state, made.holding, made.working, made.restart_left = state, holding, working, restart_left
    return made


def booked(found: ReplayAccount) -> dict[str, int]:
    """Everything that is not nothing."""
    names = ("allocated", "useful", "pending", "restart", "lost", "done", "saved", "since", "restart_left")
    return {name: amount for name in names if (amount := getattr(found, name))}


@pytest.mark.parametrize(
    ("given", "span", "checkpoint", "books"),
    [
        # no job on a node, or no time: nothing
        ({"holding": 0, "working": 0}, 100, None, {}),
        ({}, 0, None, {}),
        # a job that holds capacity without running wastes it
        ({"state": WAITING}, 100, None, {"allocated": 200, "lost": 200}),
        # a pod beside those that count, terminating
        (
            {"holding": 3},
            100,
            None,
            {"allocated": 300, "pending": 200, "lost": 100, "done": 100, "since": 100},
        ),
        # the restart is paid first
        ({"restart_left": 30}, 20, None, {"allocated": 40, "restart": 40, "restart_left": 10}),
        (
            {"restart_left": 30},
            100,
            None,
            {"allocated": 200, "restart": 60, "pending": 140, "done": 70, "since": 70},
        ),
        # checkpoints: before the first, at it, after the second
        ({}, 39, 40, {"allocated": 78, "pending": 78, "done": 39, "since": 39}),
        ({}, 40, 40, {"allocated": 80, "useful": 80, "done": 40, "saved": 40}),
        ({}, 100, 40, {"allocated": 200, "useful": 160, "pending": 40, "done": 100, "saved": 80, "since": 20}),
        # a restart takes a part of the time until the first one
        (
            {"restart_left": 30},
            50,
            40,
            {"allocated": 100, "restart": 60, "useful": 20, "pending": 20, "done": 20, "saved": 10, "since": 10},
        ),
        ({"restart_left": 100}, 90, 40, {"allocated": 180, "restart": 180, "restart_left": 10, "since": 10}),
    ],
)
def test_time_on_nodes_comes_to(
    given: dict[str, int], span: int, checkpoint: int | None, books: dict[str, int]
) -> None:
    """replay.md 4.3: useful, restart or lost; what is not saved yet will be one of them."""
    found = account(**given)
    lost = found.accrue(span, checkpoint)
    assert booked(found) == books
    assert lost == found.lost
    assert found.allocated == found.useful + found.pending + found.restart + found.lost


@pytest.mark.parametrize(
    ("state", "books"),
    [
        (WAITING, {"allocated": 2400, "lost": 2400, "restart_left": 10}),
        (
            RUNNING,
            {"allocated": 2400, "pending": 1440, "restart": 160, "lost": 800, "done": 90, "since": 90},
        ),
    ],
)
def test_gpu_time_is_that_of_all_gpus_of_each_pod(state: int, books: dict[str, int]) -> None:
    """Two of three pods count, of eight thousandths of a GPU each: restart for 10, work for 90."""
    found = ReplayAccount(0, job("j", 0, 1000, gpu=0.008, workers=2))
    assert booked(found) == {}
    found.state, found.holding, found.working, found.restart_left = state, 3, 2, 10
    found.accrue(100, None)
    assert booked(found) == books


def test_new_job_has_nothing_behind_it() -> None:
    found = ReplayAccount(3, job("j", 0, 1000))
    assert (found.index, found.state, found.round, found.serial, found.runs) == (3, WAITING, 0, 0, 0)
    assert (found.evictions, found.evicted_runs, found.lost_runs) == (0, 0, 0)
    assert (found.first_start, found.end) == (None, None)


def test_work_is_counted_from_the_last_checkpoint_over_several_calls() -> None:
    found = account()
    for now in (30, 30, 50, 90):
        assert found.accrue(now, 40) == 0
    assert booked(found) == {"allocated": 180, "useful": 160, "pending": 20, "done": 90, "saved": 80, "since": 10}


def test_work_since_the_last_checkpoint_is_thrown_away_and_only_once() -> None:
    """replay.md 3.4."""
    found = account()
    found.accrue(100, 40)
    assert (found.throw_away(), found.throw_away()) == (40, 0)
    assert booked(found) == {"allocated": 200, "useful": 160, "lost": 40, "done": 80, "saved": 80}
    found.accrue(130, 40)
    assert booked(found)["done"] == 110, "it goes on from what was saved"


def test_work_that_is_kept_is_never_thrown_away() -> None:
    found = account()
    found.accrue(100, None)
    found.keep()
    assert booked(found) == {"allocated": 200, "useful": 200, "done": 100, "saved": 100}
    assert found.throw_away() == 0
    assert (found.useful, found.done) == (200, 100)


def test_ended_job_has_no_pods() -> None:
    found = account()
    found.counted.add("u")
    found.group = "default/j"
    found.forget()
    assert (found.pods, found.counted, found.group) == ({}, set(), "")


# -- series --------------------------------------------------------------------------------------------------------


def test_amounts_are_spread_over_the_points_that_they_held_in() -> None:
    series = Series(("a", "b"), width=10)
    series.advance(25, (2, 3))
    series.advance(25, (9, 9))
    series.advance(40, (1, 0))
    assert series.sums == [[20, 20, 15, 10], [30, 30, 15, 0]]
    assert (series.width, series.at) == (10, 40)


@pytest.mark.parametrize(
    ("most", "until", "width", "sums"),
    [
        (4, 40, 10, [10, 10, 10, 10]),
        (4, 41, 20, [20, 20, 1]),
        (3, 31, 20, [20, 11]),
        (3, 200, 80, [80, 80, 40]),
    ],
)
def test_width_of_a_point_doubles_when_the_points_do_not_suffice(
    monkeypatch: pytest.MonkeyPatch, most: int, until: int, width: int, sums: list[int]
) -> None:
    """replay.md 4.9: and nothing that was counted is gone."""
    monkeypatch.setattr(Series, "MOST", most)
    series = Series(("a",), width=10)
    for now in (until // 2, until):
        series.advance(now, (1,))
    assert (series.width, series.sums) == (width, [sums])
    assert sum(series.sums[0]) == until


@pytest.mark.parametrize(("at", "width", "sums"), [(39, 10, [0, 0, 0, 7]), (40, 20, [0, 0, 7]), (45, 20, [0, 0, 7])])
def test_events_count_for_the_point_that_they_are_in(
    monkeypatch: pytest.MonkeyPatch, at: int, width: int, sums: list[int]
) -> None:
    series = Series(("time", "events"), width=10)
    monkeypatch.setattr(Series, "MOST", 4 + 1)
    series.advance(at, (0, 0))
    monkeypatch.setattr(Series, "MOST", 4)
    series.add("events", 3)
    series.add("events", 4)
    assert (series.width, series.sums[1]) == (width, sums)


def test_series_has_at_most_1024_points_of_a_second_at_first() -> None:
    series = Series(("a",))
    series.advance(1_024_000, (1,))
    assert (len(series.sums[0]), series.width) == (1024, 1000)
    series.advance(1_024_001, (1,))
    assert (len(series.sums[0]), series.width) == (513, 2000)


# -- jobs on nodes -------------------------------------------------------------------------------------------------


def stays_of(line: Timeline) -> list[tuple[str, str, int, int, str]]:
    """Per stay: job, node, from, to, how it ended."""
    jobs = ("first", "second")
    stays = range(len(line.job))
    return [(line.name(n, jobs), line.node[n], line.begin[n], line.end[n], line.how[n]) for n in stays]


def test_how_a_stay_ended() -> None:
    line = Timeline()
    for turn, uid in enumerate(("ends", "goes", "lost", "both", "stays", "leaving")):
        line.placed(uid, turn % 2, 0, f"n{turn}", turn)
    line.placed("file", -1, 0, "n9", 0, "web")
    line.gone("ends", 10)
    line.preempted(20, 1, ["goes", "both", "leaving", "unknown"])
    line.lost("both")
    line.lost("lost")
    line.lost("unknown")
    for uid in ("goes", "lost", "both", "unknown"):
        line.gone(uid, 30)
    line.close(50)
    assert stays_of(line) == [
        ("first", "n0", 0, 10, "done"),
        ("second", "n1", 1, 30, "preempted"),
        ("first", "n2", 2, 30, "lost"),
        ("second", "n3", 3, 30, "preempted"),  # that is what is kept
        ("first", "n4", 4, 50, "unfinished"),
        ("second", "n5", 5, 50, "preempted"),
        ("web", "n9", 0, 50, "unfinished"),
    ]
    assert line.preemptions == [(20, 1, (1, 3, 5))]


def test_pod_that_comes_again_has_a_stay_of_its_own() -> None:
    line = Timeline()
    line.placed("u", 0, 0, "n1", 0)
    line.gone("u", 10)
    line.lost("u")
    line.placed("u", 0, 0, "n2", 20)
    line.gone("u", 30)
    assert [each[1:] for each in stays_of(line)] == [("n1", 0, 10, "done"), ("n2", 20, 30, "done")]


# -- rows of the table ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.25, "0.2 s"),
        (0.96, "1.0 s"),
        (1, "1 s"),
        (59, "59 s"),
        (60, "1.0 min"),
        (90, "1.5 min"),
        (3599, "60.0 min"),
        (3600, "1.0 h"),
        (172_624, "48.0 h"),
        (172_799, "48.0 h"),
        (172_800, "2.0 d"),
        (216_000, "2.5 d"),
        (868_329, "10.1 d"),
    ],
)
def test_time_is_written_in_the_unit_that_fits(seconds: float, text: str) -> None:
    assert time_text(seconds) == text


@pytest.mark.parametrize(
    ("label", "value", "text"),
    [
        ("jobs", 41_226, "41,226"),
        ("lost GPU-hours", 99.94, "99.9 h"),
        ("lost GPU-hours", 100, "100 h"),
        ("lost GPU-hours", 12_345.6, "12,346 h"),
        ("goodput", 0.125, "12.50 %"),
        ("slowdown, mean", 1.5, "1.50"),
        ("makespan", 7200, "2.0 h"),
    ],
)
def test_how_a_row_is_written(label: str, value: float, text: str) -> None:
    assert compared([value], BY_LABEL[label]) == [text]


def test_figures_are_better_when_more_or_less_or_neither() -> None:
    """replay.md 4.8: the best of a row is marked."""
    marked = {
        label: next((at for at, cell in enumerate(compared([4, 8], measure)) if cell.endswith(" *")), None)
        for label, measure in BY_LABEL.items()
    }
    assert {label for label, at in marked.items() if at is None} == {"jobs", "decisions", "moves"}
    assert {label for label, at in marked.items() if at == 1} == {
        "done",
        "GPUs allocated",
        "goodput",
        "gangs with their minimum",
        "useful GPU-hours",
    }


@pytest.mark.parametrize(
    ("values", "cells"),
    [
        ([100, 150, 50], ["100", "150 (+50.0 %)", "50 (-50.0 %) *"]),
        ([100, None, 75], ["100", "-", "75 (-25.0 %) *"]),
        ([None, 75, 50], ["-", "75", "50 *"]),
        ([0, 75], ["0 *", "75"]),
        ([75, 75], ["75", "75"]),
        ([50, 75, 50], ["50 *", "75 (+50.0 %)", "50 *"]),
        ([None, None], ["-", "-"]),
    ],
)
def test_row_marks_the_best_and_says_how_far_from_the_first_the_others_are(
    values: list[float | None], cells: list[str]
) -> None:
    assert compared(values, Measure("row", lambda _: None, count_text, min)) == cells
