"""Events and their aggregation (observability.md, "Events"; client-go tools/events, event_broadcaster.go)."""

from __future__ import annotations

from typing import Any

import pytest

from kube_rules.durations import micro_time
from reprieve.observability.events import (
    FINISH_SECONDS,
    REFRESH_SECONDS,
    EventRecorder,
    Reference,
    shortened,
)

POD = Reference("v1", "Pod", "team", "a", "uid-a")
OTHER = Reference("v1", "Pod", "team", "b", "uid-b")
START = 1_700_000_000.0


class Sent(list[dict[str, Any]]):
    """What went out."""

    def counts(self) -> list[int]:
        """1 for a new event, else the count of the series."""
        return [body.get("series", {}).get("count", 1) for body in self]


def recorder(sent: Sent, limit: int = 100) -> EventRecorder:
    return EventRecorder(sent.append, controller="default-scheduler", instance="host", limit=limit)


def fail(events: EventRecorder, now: float, *, about: Reference = POD, note: str = "no room", **more: Any) -> None:
    chosen = {"kind": "Warning", "reason": "FailedScheduling", "action": "Scheduling", **more}
    related = chosen.pop("related", None)
    events.record(about, related, note=note, now=now, **chosen)


def test_body_is_an_event_of_events_k8s_io() -> None:
    sent = Sent()
    fail(recorder(sent), START, related=OTHER)
    assert sent == [
        {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": f"a.{int(START * 1e9):x}", "namespace": "team"},
            "eventTime": "2023-11-14T22:13:20.000000Z",
            "reportingController": "default-scheduler",
            "reportingInstance": "default-scheduler-host",
            "action": "Scheduling",
            "reason": "FailedScheduling",
            "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": "team", "name": "a", "uid": "uid-a"},
            "related": {"apiVersion": "v1", "kind": "Pod", "namespace": "team", "name": "b", "uid": "uid-b"},
            "note": "no room",
            "type": "Warning",
        }
    ]


def test_second_makes_a_series_and_further_ones_are_only_counted() -> None:
    sent = Sent()
    events = recorder(sent)
    for second in range(5):
        fail(events, START + second)
    assert sent.counts() == [1, 2]
    assert sent[1]["metadata"] == sent[0]["metadata"], "it is the same event that is patched"
    assert sent[1]["series"] == {"count": 2, "lastObservedTime": micro_time(START + 1)}


def test_series_that_is_quiet_for_six_minutes_is_finished_with_its_count() -> None:
    sent = Sent()
    events = recorder(sent)
    for second in range(5):
        fail(events, START + second)
    events.tick(START + 4 + 361)
    assert sent.counts() == [1, 2, 5]
    assert sent[2]["series"]["lastObservedTime"] == micro_time(START + 4)
    assert len(events) == 0
    fail(events, START + 500)
    assert sent.counts() == [1, 2, 5, 1], "afterwards it is a new event"
    assert sent[3]["metadata"]["name"] != sent[0]["metadata"]["name"]


def test_series_that_goes_on_is_refreshed_every_half_hour() -> None:
    sent = Sent()
    events = recorder(sent)
    for minute in range(62):
        fail(events, START + 60 * minute)
    assert sent.counts() == [1, 2, 31, 61]


@pytest.mark.parametrize(
    ("occurrences", "counts"),
    [(1, [1]), (2, [1, 2]), (3, [1, 2, 3])],
)
@pytest.mark.parametrize("end", ["quiet", "flush", "again"])
def test_end_of_a_series_is_written_where_the_count_is_not_yet(occurrences: int, counts: list[int], end: str) -> None:
    """Nothing is written twice: a single event and a series of two are written whole when they happen."""
    sent = Sent()
    events = recorder(sent)
    for _ in range(occurrences):
        fail(events, START)
    match end:
        case "quiet":
            events.tick(START + 400)
        case "flush":
            events.flush(START)
        case "again":
            fail(events, START + 400)
            counts = [*counts, 1]
    assert (sent.counts(), len(events)) == (counts, int(end == "again"))


def test_six_minutes_and_half_an_hour() -> None:
    """client-go, tools/events: finishTime and refreshTime."""
    assert (FINISH_SECONDS, REFRESH_SECONDS) == (6 * 60, 30 * 60)


@pytest.mark.parametrize(
    ("later", "counts"), [(FINISH_SECONDS - 1, [1, 2]), (FINISH_SECONDS, [1, 1]), (FINISH_SECONDS + 1, [1, 1])]
)
@pytest.mark.parametrize("checked", [False, True], ids=["time-has-passed", "within-a-minute-of-the-last-check"])
def test_event_belongs_to_a_series_that_has_been_quiet_for_less_than_six_minutes(
    later: float, counts: list[int], checked: bool
) -> None:
    sent = Sent()
    events = recorder(sent)
    fail(events, START)
    if checked:
        events.tick(START + later - 1)
    fail(events, START + later)
    assert sent.counts() == counts


@pytest.mark.parametrize(("after", "left"), [(FINISH_SECONDS - 1, 1), (FINISH_SECONDS, 0)])
def test_series_ends_when_it_has_been_quiet_for_six_minutes(after: float, left: int) -> None:
    """Those that go on stay, however old."""
    sent = Sent()
    events = recorder(sent)
    fail(events, START, about=OTHER)
    fail(events, START + 1)
    events.tick(START + after)
    assert len(events) == left + 1
    fail(events, START + 200, about=OTHER)
    events.tick(START + after + 60)
    assert len(events) == 1


@pytest.mark.parametrize(("after", "counts"), [(REFRESH_SECONDS - 1, [1, 2]), (REFRESH_SECONDS, [1, 2, 61])])
def test_series_is_refreshed_half_an_hour_after_it_was_written(after: float, counts: list[int]) -> None:
    """Also while nothing happens: time alone passes."""
    sent = Sent()
    events = recorder(sent)
    fail(events, START - 1)
    for half_minute in range(59):
        fail(events, START + 30 * half_minute)
    fail(events, START + REFRESH_SECONDS - 2)
    before = len(sent)
    events.tick(START + after)
    assert sent.counts() == counts
    assert all(body["series"]["lastObservedTime"] == micro_time(START + REFRESH_SECONDS - 2) for body in sent[before:])


def test_single_event_is_not_refreshed() -> None:
    """It is no series; what is observed once is written once."""
    sent = Sent()
    events = recorder(sent)
    fail(events, START)
    for minute in range(1, 100):
        fail(events, START + 60 * minute, note=f"{minute}")
    assert set(sent.counts()) == {1}


@pytest.mark.parametrize(
    "other",
    [
        {"about": OTHER},
        {"related": OTHER},
        {"kind": "Normal"},
        {"reason": "Other"},
        {"action": "Binding"},
        {"note": "other words"},
        {"controller": "second-scheduler"},
    ],
    ids=lambda other: next(iter(other)),
)
def test_only_the_same_makes_a_series(other: dict[str, Any]) -> None:
    sent = Sent()
    events = recorder(sent)
    fail(events, START)
    fail(events, START + 1, **other)
    assert sent.counts() == [1, 1]
    assert sent[0]["metadata"] != sent[1]["metadata"]


def test_cache_is_bounded_and_counts_are_not_lost() -> None:
    sent = Sent()
    events = recorder(sent, limit=3)
    for _ in range(3):
        fail(events, START, note="first")
    for number in range(3):
        fail(events, START + 1, note=f"n{number}")
    assert len(events) == 3
    assert sent.counts() == [1, 2, 1, 1, 3, 1]


def test_one_that_was_observed_longest_ago_is_forgotten_first() -> None:
    sent = Sent()
    events = recorder(sent, limit=2)
    for number, note in enumerate(("a", "b", "a", "c", "a", "b")):
        fail(events, START + number, note=note)
    assert [(body["note"], count) for body, count in zip(sent, sent.counts(), strict=True)] == [
        *(("a", 1), ("b", 1), ("a", 2), ("c", 1)),
        ("b", 1),
    ], "b is forgotten for c, and c for b; a is counted further"
    events.flush(START + 9)
    assert (sent[-1]["note"], sent.counts()[-1]) == ("a", 3)


def test_flush_writes_what_is_not_written() -> None:
    sent = Sent()
    events = recorder(sent)
    for _ in range(4):
        fail(events, START)
    fail(events, START, about=OTHER)
    events.flush(START)
    assert sent.counts() == [1, 2, 1, 4]


@pytest.mark.parametrize(
    ("note", "short"),
    [
        ("x" * 1024, "x" * 1024),
        ("x" * 1025, "x" * 1020 + " ..."),
        ("é" * 512, "é" * 512),
        ("é" * 600, "é" * 510 + " ..."),
        ("a" + "é" * 600, "a" + "é" * 509 + " ..."),
    ],
    ids=["at-the-limit", "above", "bytes-count", "bytes-above", "no-character-is-cut"],
)
def test_notes_are_at_most_1024_bytes(note: str, short: str) -> None:
    """The API server refuses longer ones; upstream ends them with ` ...` as well."""
    assert shortened(note) == short
    sent = Sent()
    fail(recorder(sent), START, note=note)
    assert sent[0]["note"] == short


def test_notes_that_are_cut_alike_are_one_series() -> None:
    sent = Sent()
    events = recorder(sent)
    fail(events, START, note="x" * 2000 + "a")
    fail(events, START, note="x" * 2000 + "b")
    assert sent.counts() == [1, 2]


def test_names_are_legal_and_never_the_same() -> None:
    """NAME.NANOSECONDS, in hexadecimal digits; also where the clock stands still or goes back."""
    sent = Sent()
    events = recorder(sent)
    for number, now in enumerate((START, START, START - 5, START + 1)):
        fail(events, now, about=Reference("v1", "Pod", "team", "a", f"u{number}"))
    first = int(START * 1e9)
    stamps = [first, first + 1, first + 2, int((START + 1) * 1e9)]
    assert [body["metadata"]["name"] for body in sent] == [f"a.{stamp:x}" for stamp in stamps]


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("x" * 236, "x" * 236),
        ("x" * 237, "x" * 236),
        ("x" * 233 + "...", "x" * 233),
        ("x" * 234 + "-.", "x" * 234),
        ("x" * 250 + "...", "x" * 236),
    ],
)
def test_long_name_gives_way_to_what_makes_it_unique(name: str, kept: str) -> None:
    """253 characters (DNS subdomain), no dot or dash before a dot."""
    sent = Sent()
    fail(recorder(sent), START, about=Reference("v1", "Pod", "team", name, "u"))
    made, _, stamp = sent[0]["metadata"]["name"].rpartition(".")
    assert (made, stamp) == (kept, f"{int(START * 1e9):x}")


@pytest.mark.parametrize(("namespace", "into"), [("team", "team"), ("", "default")])
def test_events_about_objects_without_a_namespace_are_in_default(namespace: str, into: str) -> None:
    """As client-go writes them: an event itself is in some namespace."""
    sent = Sent()
    fail(recorder(sent), START, about=Reference("v1", "Node", namespace, "n", "u"))
    assert (sent[0]["metadata"]["namespace"], sent[0]["regarding"]["namespace"]) == (into, namespace)
    assert "related" not in sent[0]


@pytest.mark.parametrize(("host", "kept"), [("h" * 10, 10), ("h" * 110, 110), ("h" * 111, 110)])
def test_instance_that_reports_is_at_most_128_characters(host: str, kept: int) -> None:
    """The API server refuses a longer one."""
    sent = Sent()
    fail(EventRecorder(sent.append, controller="default-scheduler", instance=host), START)
    assert sent[0]["reportingInstance"] == "default-scheduler-" + "h" * kept


def test_events_name_the_scheduler_of_the_pod() -> None:
    sent = Sent()
    fail(recorder(sent), START, controller="second")
    assert (sent[0]["reportingController"], sent[0]["reportingInstance"]) == ("second", "second-host")


def test_times_are_in_microseconds_of_utc() -> None:
    assert micro_time(START + 0.25) == "2023-11-14T22:13:20.250000Z"
