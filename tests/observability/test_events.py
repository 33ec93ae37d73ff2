"""Events and their aggregation (observability.md, "Events"; client-go tools/events, event_broadcaster.go)."""

from __future__ import annotations

from typing import Any

import pytest

from reprieve.observability.events import EventRecorder, Reference, micro_time, shortened

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


def test_the_second_makes_a_series_and_further_ones_are_only_counted() -> None:
    sent = Sent()
    events = recorder(sent)
    for second in range(5):
        fail(events, START + second)
    assert sent.counts() == [1, 2]
    assert sent[1]["metadata"] == sent[0]["metadata"], "it is the same event that is patched"
    assert sent[1]["series"] == {"count": 2, "lastObservedTime": micro_time(START + 1)}


def test_a_series_that_is_quiet_for_six_minutes_is_finished_with_its_count() -> None:
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


def test_a_series_that_goes_on_is_refreshed_every_half_hour() -> None:
    sent = Sent()
    events = recorder(sent)
    for minute in range(62):
        fail(events, START + 60 * minute)
    assert sent.counts() == [1, 2, 31, 61]


def test_a_single_event_is_forgotten_without_another_write() -> None:
    sent = Sent()
    events = recorder(sent)
    fail(events, START)
    events.tick(START + 400)
    assert (sent.counts(), len(events)) == ([1], 0)


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


def test_the_cache_is_bounded_and_counts_are_not_lost() -> None:
    sent = Sent()
    events = recorder(sent, limit=3)
    for _ in range(3):
        fail(events, START, note="first")
    for number in range(3):
        fail(events, START + 1, note=f"n{number}")
    assert len(events) == 3
    assert sent.counts() == [1, 2, 1, 1, 3, 1]


def test_flush_writes_what_is_not_written() -> None:
    sent = Sent()
    events = recorder(sent)
    for _ in range(4):
        fail(events, START)
    fail(events, START, about=OTHER)
    events.flush(START)
    assert sent.counts() == [1, 2, 1, 4]


@pytest.mark.parametrize(
    ("note", "length"), [("x" * 1024, 1024), ("x" * 1025, 1024), ("é" * 600, 1024), ("a" + "é" * 600, 1023)]
)
def test_notes_are_at_most_1024_bytes(note: str, length: int) -> None:
    """The API server refuses longer ones; upstream ends them with ` ...` as well."""
    short = shortened(note)
    assert len(short.encode()) == length
    assert short == note or short.endswith(" ...")


def test_names_are_legal_and_never_the_same() -> None:
    sent = Sent()
    events = recorder(sent)
    for number in range(5):
        fail(events, START, about=Reference("v1", "Pod", "team", "x" * 250 + "." * 3, f"u{number}"))
    names = [body["metadata"]["name"] for body in sent]
    assert len(set(names)) == 5
    assert all(len(name) <= 253 and ".." not in name for name in names)
