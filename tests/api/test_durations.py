"""Durations and points in time as messages name them."""

from __future__ import annotations

import pytest

from reprieve.api.durations import readable_duration, readable_time


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
