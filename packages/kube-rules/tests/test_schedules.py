"""Cron schedules as robfig/cron reads and follows them (interfaces.md 5)."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_rules.schedules import Schedule


def times(text: str, after: str, zone: str = "UTC", count: int = 1) -> list[str]:
    schedule, found, at = Schedule.parse(text), [], datetime.fromisoformat(after)
    for _ in range(count):
        following = schedule.next(at, ZoneInfo(zone))
        if following is None:
            break
        at = following
        found.append(at.isoformat().removesuffix(":00+00:00"))
    return found


@pytest.mark.parametrize(
    ("text", "after", "expected"),
    [
        ("* * * * *", "2026-01-01T00:00:00Z", ["2026-01-01T00:01", "2026-01-01T00:02"]),
        ("*/15 * * * *", "2026-01-01T00:14:59Z", ["2026-01-01T00:15", "2026-01-01T00:30"]),
        ("5/20 3 * * *", "2026-01-01T03:05:00Z", ["2026-01-01T03:25", "2026-01-01T03:45"]),
        ("0 9-17/4 * * mon-fri", "2026-01-02T17:00:00Z", ["2026-01-05T09:00", "2026-01-05T13:00"]),
        ("0 0 1,15 * *", "2026-01-02T00:00:00Z", ["2026-01-15T00:00", "2026-02-01T00:00"]),
        # Of two restricted fields for days one is enough; a field with a step of one is not restricted.
        ("0 0 13 * 5", "2026-01-10T00:00:00Z", ["2026-01-13T00:00", "2026-01-16T00:00"]),
        ("0 0 13 * */1", "2026-01-10T00:00:00Z", ["2026-01-13T00:00", "2026-02-13T00:00"]),
        ("0 0 1 */2 */2", "2026-01-01T00:00:00Z", ["2026-01-03T00:00", "2026-01-04T00:00"]),
        ("0 0 29 feb ?", "2026-01-01T00:00:00Z", ["2028-02-29T00:00", "2032-02-29T00:00"]),
        ("0 0 31 2 *", "2026-01-01T00:00:00Z", []),
        ("@weekly", "2026-01-01T00:00:00Z", ["2026-01-04T00:00", "2026-01-11T00:00"]),
        ("@every 1h30m", "2026-01-01T00:00:00.5Z", ["2026-01-01T01:30", "2026-01-01T03:00"]),
    ],
)
def test_times_of_a_schedule(text: str, after: str, expected: list[str]) -> None:
    assert times(text, after, count=2) == expected


@pytest.mark.parametrize(
    ("text", "after", "expected"),
    [
        # 02:30 does not exist on 29 March 2026; 02:30 exists twice on 25 October.
        ("30 2 * * *", "2026-03-28T12:00:00Z", ["2026-03-30T00:30"]),
        ("30 2 * * *", "2026-10-24T12:00:00Z", ["2026-10-25T00:30", "2026-10-25T01:30", "2026-10-26T01:30"]),
        ("0 * * * *", "2026-03-29T00:00:00Z", ["2026-03-29T01:00", "2026-03-29T02:00"]),
    ],
)
def test_daylight_saving_skips_an_hour_and_repeats_one(text: str, after: str, expected: list[str]) -> None:
    assert times(text, after, "Europe/Berlin", count=len(expected)) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("* * * * 7", "end of range (7) above maximum (6): 7"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("x * * * *", 'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'),
        ("@soon", "unrecognized descriptor: @soon"),
        ("@every x", 'failed to parse duration @every x: time: invalid duration "x"'),
    ],
)
def test_text_that_is_no_schedule_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message) + "$"):
        Schedule.parse(text)


FIELD = st.sampled_from(["*", "*/2", "1", "1,5", "2-4"])


@given(
    st.tuples(FIELD, FIELD, FIELD, FIELD, FIELD),
    st.integers(0, 3_000_000),
    st.sampled_from(["UTC", "America/New_York"]),
)
def test_next_time_is_the_first_that_fits(fields: tuple[str, ...], minutes: int, zone: str) -> None:
    """No minute between the given time and the next one fits; checked minute by minute over two hours."""
    schedule = Schedule.parse(" ".join(fields))
    after = datetime.fromisoformat("2024-01-01T00:00:00Z") + timedelta(minutes=minutes)
    found = schedule.next(after, ZoneInfo(zone))
    for step in range(1, 121):
        at = after + timedelta(minutes=step)
        local = at.astimezone(ZoneInfo(zone))
        days = (local.day in schedule.days, local.isoweekday() % 7 in schedule.weekdays)
        fits = (
            local.minute in schedule.minutes
            and local.hour in schedule.hours
            and local.month in schedule.months
            and (all(days) if schedule.any_day else any(days))
        )
        if fits:
            assert found == at
            return
    assert found is None or found > after + timedelta(minutes=120)
