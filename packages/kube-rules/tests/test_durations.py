"""Durations and points in time as messages name them."""

from __future__ import annotations

import pytest

from kube_rules.durations import duration, readable_duration, readable_time


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1769860799.6, "2026-01-31T12:00:00Z"),
        (-62135596800, "0001-01-01T00:00:00Z"),
        (253402300799.9, "9999-12-31T23:59:59Z"),
    ],
)
def test_times_are_written_as_the_api_does(seconds: float, text: str) -> None:
    """Also the first and the last that an object may say."""
    assert readable_time(seconds) == text


@pytest.mark.parametrize(("seconds", "text"), [(0, "0s"), (45.4, "45s"), (5400, "1h30m"), (3601, "1h1s")])
def test_durations_are_written_in_whole_seconds(seconds: float, text: str) -> None:
    """As people write them: parts that are zero are left out."""
    assert readable_duration(seconds) == text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("+0", 0),
        ("1ns", 1e-9),
        ("1us", 1e-6),
        ("1µs", 1e-6),
        ("1μs", 1e-6),
        ("1ms", 1e-3),
        ("15s", 15),
        ("1m", 60),
        ("1h", 3600),
        ("1m30s", 90),
        ("1h1m1s1ms", 3661.001),
        ("1.5h", 5400),
        (".5s", 0.5),
        ("1.s", 1),
        ("-1m30s", -90),
        ("+5s", 5),
        ("0.1s", 0.1),
        ("30s1m", 90),
    ],
)
def test_durations_are_read_as_go_writes_them(text: str, seconds: float) -> None:
    """Exactly: no sum of floats."""
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["", "1", "s", "1 s", "1d", "1s ", "--1s", ".s", "1e3s", "٣s", "-", "00"])
def test_text_that_is_no_duration_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="expected a duration like 15s or 1m30s") as caught:
        duration(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize(
    ("seconds", "text"), [(59.4, "59s"), (59.6, "1m"), (60, "1m"), (3599, "59m59s"), (3600, "1h"), (90000, "25h")]
)
def test_seconds_are_rounded_before_they_are_written(seconds: float, text: str) -> None:
    assert readable_duration(seconds) == text
