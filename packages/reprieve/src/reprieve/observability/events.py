"""Events of events.k8s.io/v1, aggregated as client-go does (observability.md, "Events").

The first occurrence is created.  The second within six minutes turns it into a series (count 2, patched); further ones
are only counted here, and the count is written when the series has been quiet for six minutes or every half hour, so a
pod that fails again and again costs two calls and not one per attempt.  What goes out is the whole body: with `series`
it is an update of the event of that name, else a new one.

Two occurrences are the same when everything but the time is the same.  client-go leaves out the note but compares the
object's resourceVersion, which changes with the condition that repeats the note; the scheduler does not know the
resourceVersion, so the note stands in for it.

Invariants: no I/O and no clock here; the cache is bounded (the oldest entries are finished and forgotten); a note is at
most 1024 bytes, which is what the API server accepts.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kube_rules.durations import micro_time
from kube_rules.foreign_groups import named_by
from kube_rules.json import Json
from kube_rules.objects import PodGroup
from reprieve.cluster.groups import Group
from reprieve.cluster.pods import PodRecord

Sink = Callable[[Json], None]
"""Takes one body and returns at once; the receiver sends it, and failures are not reported back."""

NORMAL: Final = "Normal"
WARNING: Final = "Warning"
FINISH_SECONDS: Final = 360.0
"""A series that was quiet for so long is over."""
REFRESH_SECONDS: Final = 1800.0
"""A running series is written so often, or the API server would let it expire."""
NOTE_LIMIT: Final = 1024
_NAME_LIMIT: Final = 253
_SUFFIX: Final = " ..."
_Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reference:
    """What an event is about. `api_version` as it is served."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    def body(self) -> Json:
        """As an ObjectReference."""
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
        }


def pod_reference(pod: PodRecord) -> Reference:
    """Return a pod as the object of an event."""
    return Reference("v1", "Pod", pod.namespace, pod.name, pod.uid)


def group_reference(group: Group, api_version: str) -> Reference:
    """Return a group as the object of an event; `api_version` is the one that native groups of its kind are served
    under.

    What the PodGroup of another scheduler was made into is that PodGroup (observability.md 2.6, workloads.md 2.9).
    """
    own = group.spec.foreign if group.spec is not None else None
    if own:
        return Reference(own, PodGroup.KIND, group.namespace, named_by(group.name), group.uid)
    return Reference(api_version, group.kind, group.namespace, group.name, group.uid)


@dataclass(slots=True)
class _Seen:
    body: Json
    last: float
    written: float
    count: int = 1


class EventRecorder:
    """See the module docstring. `limit`: how many events are remembered for aggregation."""

    def __init__(self, sink: Sink, *, controller: str, instance: str, limit: int = 10_000) -> None:
        self._sink = sink
        self._controller = controller
        self._instance = instance
        self._limit = limit
        self._seen: OrderedDict[_Key, _Seen] = OrderedDict()
        """Least recently observed first."""
        self._last_stamp = 0
        self._next_check = 0.0

    def __len__(self) -> int:
        return len(self._seen)

    def record(
        self,
        regarding: Reference,
        related: Reference | None,
        *,
        kind: str,
        reason: str,
        action: str,
        note: str,
        now: float,
        controller: str | None = None,
    ) -> None:
        """Something happened. `kind` is Normal or Warning; `now` in seconds since the epoch.

        `controller` is the scheduler name the pod asked for, where it is not the usual one.
        """
        self.tick(now)
        reporter = controller or self._controller
        note = shortened(note)
        about = _parts(related) if related is not None else ()
        key = (kind, action, reason, reporter, note, *_parts(regarding), *about)
        seen = self._seen.get(key)
        if seen is not None and now - seen.last < FINISH_SECONDS:
            seen.count += 1
            seen.last = now
            self._seen.move_to_end(key)
            if seen.count == 2:
                self._write_series(seen, now)
            return
        if seen is not None:
            self._finish(key, seen, now)
        body: Json = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": self._name(regarding.name, now), "namespace": regarding.namespace or "default"},
            "eventTime": micro_time(now),
            "reportingController": reporter,
            "reportingInstance": f"{reporter}-{self._instance}"[:128],
            "action": action,
            "reason": reason,
            "regarding": regarding.body(),
            "note": note,
            "type": kind,
        }
        if related is not None:
            body["related"] = related.body()
        self._seen[key] = _Seen(body, now, now)
        while len(self._seen) > self._limit:
            oldest = next(iter(self._seen))
            self._finish(oldest, self._seen[oldest], now)
        self._sink(dict(body))

    def tick(self, now: float) -> None:
        """Let time pass: finish what has been quiet, refresh what goes on. Looks at most once a minute."""
        if now < self._next_check:
            return
        self._next_check = now + 60.0
        while self._seen:
            key, seen = next(iter(self._seen.items()))
            if now - seen.last < FINISH_SECONDS:
                break
            self._finish(key, seen, now)
        for seen in self._seen.values():
            if seen.count > 1 and now - seen.written >= REFRESH_SECONDS:
                self._write_series(seen, now)

    def flush(self, now: float) -> None:
        """Write every count that is not written yet (the process ends)."""
        while self._seen:
            key, seen = next(iter(self._seen.items()))
            self._finish(key, seen, now)

    def _finish(self, key: _Key, seen: _Seen, now: float) -> None:
        del self._seen[key]
        if seen.count > 2:
            self._write_series(seen, now)

    def _write_series(self, seen: _Seen, now: float) -> None:
        seen.written = now
        series = {"count": seen.count, "lastObservedTime": micro_time(seen.last)}
        self._sink({**seen.body, "series": series})

    def _name(self, name: str, now: float) -> str:
        """`NAME.HEX` with nanoseconds, never the same twice; a long name gives way."""
        self._last_stamp = max(self._last_stamp + 1, int(now * 1e9))
        suffix = f".{self._last_stamp:x}"
        return name[: _NAME_LIMIT - len(suffix)].rstrip(".-") + suffix


def _parts(reference: Reference) -> tuple[str, str, str, str, str]:
    return (reference.api_version, reference.kind, reference.namespace, reference.name, reference.uid)


def shortened(note: str) -> str:
    """At most 1024 bytes, with ` ...` at the end where something was left out."""
    raw = note.encode()
    if len(raw) <= NOTE_LIMIT:
        return note
    return raw[: NOTE_LIMIT - len(_SUFFIX)].decode(errors="ignore") + _SUFFIX
