"""Rules of the status of a Job: counters only increase, the Job ends once, and a finished status is complete.

Upstream: `validateJobStatus` of 1.36 with all its options. A rule about several fields applies to a write only if the
write changes one of them, so that an object that violates it can still be updated.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from kube_rules import field_errors as fe
from kube_rules.errors import FieldError
from kube_rules.json import Json
from kube_rules.selectors import parse_integer
from kube_rules.validation import rows as r
from kube_rules.validation.rows import Found

_COUNTS = ("active", "succeeded", "failed", "ready", "terminating")
_ENDINGS = ("Complete", "Failed")


def _true(status: Json) -> frozenset[str]:
    """Return the conditions that are true."""
    conditions = status.get("conditions") or ()
    return frozenset(condition.get("type", "") for condition in conditions if condition.get("status") == "True")


class _Write:
    """A write to the status: `after` and `before` are the statuses, `now` and `was` their true conditions."""

    def __init__(self, new: Json, old: Json) -> None:
        self.spec = new.get("spec") or {}
        self.after, self.before = new.get("status") or {}, old.get("status") or {}
        self.now, self.was = _true(self.after), _true(self.before)

    def flips(self, *conditions: str) -> bool:
        """Return whether one of the conditions becomes true or stops being true."""
        return any((name in self.now) != (name in self.was) for name in conditions)

    def changes(self, *fields: str) -> bool:
        """Return whether one of the fields changes; a missing count is 0."""
        return any((self.after.get(name) or None) != (self.before.get(name) or None) for name in fields)

    @property
    def ended(self) -> bool:
        """Return whether the Job has finished."""
        return not self.now.isdisjoint(_ENDINGS)

    @property
    def ends(self) -> bool:
        """Return whether the Job finishes with this write."""
        return self.ended is self.was.isdisjoint(_ENDINGS)


def status(new: Json, old: Json) -> Found:
    """Check a write to /status."""
    write = _Write(new, old)
    if write.after == write.before:
        return
    for rule in _RULES:
        yield from rule(write)


def _counts(write: _Write) -> Found:
    yield from r.at_least(0, *_COUNTS)(write.after, "status")


def _uncounted(write: _Write) -> Found:
    """Check the terminated pods that are not counted yet: each UID occurs once."""
    seen: set[str] = set()
    for name in ("succeeded", "failed"):
        for index, uid in enumerate(r.reach(write.after, "uncountedTerminatedPods").get(name, ())):
            place = f"status.uncountedTerminatedPods.{name}[{index}]"
            if not uid:
                yield fe.invalid(place, uid, "must not be empty")
            elif uid in seen:
                yield fe.duplicate(place, uid)
            seen.add(uid)


def _conditions(detail: str) -> FieldError:
    """Return an error of the combination of conditions, without their values."""
    return FieldError("status.conditions", f"Invalid value: {detail}")


def _contradictions(write: _Write) -> Found:
    if write.flips("Complete", "Failed") and {"Complete", "Failed"} <= write.now:
        yield _conditions("cannot set Complete=True and Failed=true conditions")
    if write.flips("Complete", "FailureTarget") and {"Complete", "FailureTarget"} <= write.now:
        yield _conditions("cannot set Complete=True and FailureTarget=true conditions")


def _times(write: _Write) -> Found:
    after, before = write.after, write.before
    ended_at, started = after.get("completionTime"), after.get("startTime")
    if write.flips("Complete") or write.changes("completionTime"):
        if "Complete" in write.now and ended_at is None:
            yield fe.required("status.completionTime", "completionTime is required for Complete jobs")
        if "Complete" not in write.now and ended_at is not None:
            detail = "cannot set completionTime when there is no Complete=True condition"
            yield fe.invalid("status.completionTime", ended_at, detail)
    if "Complete" in write.was and write.changes("completionTime") and before.get("completionTime") is not None:
        yield fe.invalid("status.completionTime", ended_at, r.IMMUTABLE)
    early = started and ended_at and datetime.fromisoformat(ended_at) < datetime.fromisoformat(started)
    if early and write.changes("startTime", "completionTime"):
        yield fe.invalid("status.completionTime", ended_at, "must be equal to or after `startTime`")


def _preludes(write: _Write) -> Found:
    """Check the conditions that must precede an ending (KEP-4368)."""
    if write.flips("Failed") and "Failed" in write.now and "FailureTarget" not in write.now:
        yield _conditions("cannot set Failed=True condition without the FailureTarget=true condition")
    if write.flips("Complete") and "Complete" in write.now and "SuccessCriteriaMet" not in write.now:
        yield _conditions("cannot set Complete=True condition without the SuccessCriteriaMet=true condition")
    success_and_target = {"SuccessCriteriaMet", "FailureTarget"}
    if write.flips(*success_and_target) and success_and_target <= write.now:
        yield _conditions("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions")
    success_and_failure = {"SuccessCriteriaMet", "Failed"}
    if write.flips(*success_and_failure) and success_and_failure <= write.now:
        yield _conditions("cannot set Failed=True and SuccessCriteriaMet=true conditions")


def _over(write: _Write) -> Found:
    """Check that a finished Job has started, and that none of its pods run."""
    after = write.after
    if write.ended:
        if (write.ends or write.changes("startTime")) and after.get("startTime") is None:
            never = write.spec.get("suspend") and write.spec.get("completions") == 0
            if not never:
                yield fe.required("status.startTime", "startTime is required for finished job")
        waiting = r.reach(after, "uncountedTerminatedPods")
        left = waiting.get("succeeded") or waiting.get("failed")
        if left and (write.ends or write.changes("uncountedTerminatedPods")):
            detail = "uncountedTerminatedPods needs to be empty for finished job"
            yield fe.invalid("status.uncountedTerminatedPods", waiting, detail)
        for name in ("active", "terminating"):
            if (write.ends or write.changes(name)) and after.get(name, 0) > 0:
                yield fe.invalid(f"status.{name}", after[name], f"{name}>0 is invalid for finished job")
    ready, active = after.get("ready"), after.get("active", 0)
    if write.changes("ready", "active") and ready is not None and ready > active:
        yield fe.invalid("status.ready", ready, "cannot set more ready pods than active")


def _indexes(write: _Write) -> Found:
    """Check that only indexed Jobs have indexes."""
    indexed = write.spec.get("completionMode") == "Indexed"
    completions = write.spec.get("completions", 0)
    for name in ("completedIndexes", "failedIndexes"):
        text, place = write.after.get(name) or "", f"status.{name}"
        if not text or not write.changes(name):
            continue
        wrong = _malformed(text, completions)
        if wrong:
            yield fe.invalid(place, text, f"error parsing {name}: {wrong}")
        if not indexed:
            yield fe.invalid(place, text, f"cannot set non-empty {name} when non-indexed completion mode")


_ENDS = 2


def _malformed(text: str, completions: int) -> str:
    """Return the error of a list of indexes (`0-2,5`), or ""."""
    last = -1
    for part in text.split(","):
        ends = part.split("-")
        if len(ends) > _ENDS:
            return (
                f'the fragment "{part}" violates the requirement that an index interval can have at most two parts '
                "separated by '-'"
            )
        for end in ends:
            number = parse_integer(end)
            if number is None:
                return f'cannot convert string to integer for index: "{end}"'
            if number >= completions:
                return f'too large index: "{end}"'
            if number <= last:
                return f"non-increasing order, previous: {last}, current: {number}"
            last = number
    return ""


def _no_way_back(write: _Write) -> Found:
    for name in ("Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"):
        if name in write.was and name not in write.now:
            yield _conditions(f"cannot disable the terminal {name}=True condition")
    elastic = write.spec.get("completionMode") == "Indexed" and write.spec.get("completions") == write.spec.get(
        "parallelism"
    )
    for name in ("failed", "succeeded"):
        value: Any = write.after.get(name, 0)
        if value < write.before.get(name, 0) and not (name == "succeeded" and elastic):
            yield fe.invalid(f"status.{name}", value, f"cannot decrease the {name} counter")
    if write.changes("startTime") and write.before.get("startTime") is not None and not write.spec.get("suspend"):
        detail = "field is immutable for unsuspended job once set"
        yield fe.invalid("status.startTime", write.after.get("startTime"), detail)


_RULES: tuple[Callable[[_Write], Found], ...] = (
    _counts, _uncounted, _contradictions, _times, _over, _preludes, _indexes, _no_way_back,
)  # fmt: skip
"""The rules in the order of the API server's errors."""
