"""Cron schedules of CronJobs: five fields, or a descriptor such as `@hourly` or `@every 90m`.

Source: robfig/cron v3 (`ParseStandard`, `SpecSchedule.Next`), which kube-controller-manager and the API server use. A
schedule follows the local time of a zone: an hour that daylight saving skips does not run, an hour that it repeats runs
twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from kube_rules.durations import duration

_MONTHS: Final = {
    name: at
    for at, name in enumerate(("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), 1)
}
_DAYS: Final = {name: at for at, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))}
_FIELDS: Final[tuple[tuple[int, int, dict[str, int]], ...]] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, _MONTHS),
    (0, 6, _DAYS),
)
"""Lowest and highest number and the names of minute, hour, day of the month, month and day of the week."""
_DESCRIPTORS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_YEARS: Final = 5
"""A schedule without a time in this many years (31 February) has none."""


@dataclass(frozen=True)
class Schedule:
    """The times at which a CronJob runs.

    `minutes` to `weekdays` are the allowed numbers (Sunday is 0); `any_day` means that one of the two fields for days
    is `*`, so that both must allow a day instead of either. `every` is the number of seconds of `@every`, otherwise 0.
    """

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool
    every: int = 0

    @classmethod
    def parse(cls, text: str) -> Schedule:
        """Return the schedule of a text. Raises ValueError with the message of robfig/cron."""
        if text.startswith("@every "):
            seconds = max(1, int(_seconds(text.removeprefix("@every "), text)))
            none: frozenset[int] = frozenset()
            return cls(none, none, none, none, none, any_day=False, every=seconds)
        if text.startswith("@"):
            if text not in _DESCRIPTORS:
                raise ValueError(f"unrecognized descriptor: {text}")
            text = _DESCRIPTORS[text]
        fields = text.split()
        if len(fields) != len(_FIELDS):
            raise ValueError(f"expected exactly {len(_FIELDS)} fields, found {len(fields)}: [{' '.join(fields)}]")
        (minutes, _), (hours, _), (days, any_of_month), (months, _), (weekdays, any_of_week) = (
            _numbers(field, *bounds) for field, bounds in zip(fields, _FIELDS, strict=True)
        )
        return cls(minutes, hours, days, months, weekdays, any_of_month or any_of_week)

    def next(self, after: datetime, zone: tzinfo = UTC) -> datetime | None:
        """Return the first time after `after`, in UTC; None if there is none within five years."""
        if self.every:
            return after.astimezone(UTC).replace(microsecond=0) + timedelta(seconds=self.every)
        at = after.astimezone(UTC).replace(microsecond=0) + timedelta(seconds=1)
        last = at.astimezone(zone).year + _YEARS
        while (local := at.astimezone(zone)).year <= last:
            if local.month not in self.months:
                first = local.replace(year=local.year + local.month // 12, month=local.month % 12 + 1, day=1)
                at = _midnight(first)
            elif not self._allows(local):
                at = _midnight(local + timedelta(days=1))
            elif local.hour not in self.hours:
                at += timedelta(seconds=3600 - 60 * local.minute - local.second)
            elif local.minute not in self.minutes or local.second:
                at += timedelta(seconds=60 - local.second)
            else:
                return at
        return None

    def _allows(self, day: datetime) -> bool:
        of_month, of_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return (of_month and of_week) if self.any_day else (of_month or of_week)


def _midnight(day: datetime) -> datetime:
    """Return the start of a local day in UTC: in a zone that skips midnight, the first moment after it."""
    return day.replace(hour=0, minute=0, second=0, fold=0).astimezone(UTC)


def _seconds(text: str, whole: str) -> float:
    try:
        return duration(text)
    except ValueError:
        raise ValueError(f'failed to parse duration {whole}: time: invalid duration "{text}"') from None


def _numbers(field: str, low: int, high: int, names: dict[str, int]) -> tuple[frozenset[int], bool]:
    """Return the numbers that a field allows, and whether it is `*` or `?`."""
    numbers: set[int] = set()
    star = False
    for part in field.split(","):
        if not part:
            continue
        allowed, whole = _range(part, low, high, names)
        numbers.update(allowed)
        star = star or whole
    return frozenset(numbers), star


def _range(part: str, low: int, high: int, names: dict[str, int]) -> tuple[range, bool]:
    bounds, *steps = part.split("/")
    ends = bounds.split("-")
    if len(steps) > 1:
        raise ValueError(f"too many slashes: {part}")
    step = _number(steps[0], {}) if steps else 1
    whole = ends[0] in ("*", "?")
    if whole:
        first, last = low, high
    elif len(ends) > 2:
        raise ValueError(f"too many hyphens: {part}")
    else:
        first = _number(ends[0], names)
        last = _number(ends[1], names) if len(ends) == 2 else high if steps else first
    if first < low:
        raise ValueError(f"beginning of range ({first}) below minimum ({low}): {part}")
    if last > high:
        raise ValueError(f"end of range ({last}) above maximum ({high}): {part}")
    if first > last:
        raise ValueError(f"beginning of range ({first}) beyond end of range ({last}): {part}")
    if step == 0:
        raise ValueError(f"step of range should be a positive number: {part}")
    return range(first, last + 1, step), whole and step == 1


def _number(text: str, names: dict[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    if not (text.isascii() and text.isdigit()) or len(text) > 9:
        raise ValueError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    return int(text)
