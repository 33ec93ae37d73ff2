"""Events of events.k8s.io/v1, aggregated as client-go does (observability.md, "Events").

The first occurrence is created. The second within six minutes turns it into a series (count 2, patched). Further ones
are only counted here. The count is written when the series has been quiet for six minutes or every half hour, so a pod
that fails repeatedly costs two calls and not one per attempt. The sink gets the whole body: with `series` it updates
the event of that name, otherwise it is a new event.

Two occurrences are equal if everything except the time is equal. client-go ignores the note but compares the object's
resourceVersion, which changes with the condition that contains the same text. The scheduler does not know the
resourceVersion, so it compares the note instead.

Invariants: no I/O and no clock here; the cache is bounded (the oldest entries are finished and removed); a note has at
most 1024 bytes, the limit of the API server.
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
from kube_rules.validation.events import NOTE_LIMIT
from reprieve.cluster.groups import Group
from reprieve.cluster.pods import PodRecord

Sink = Callable[[Json], None]
"""Takes one body and returns immediately. The receiver sends it and does not report failures."""

NORMAL: Final = "Normal"
WARNING: Final = "Warning"
FINISH_SECONDS: Final = 360.0
"""A series ends after it was quiet for this long."""
REFRESH_SECONDS: Final = 1800.0
"""How often a running series is written, so that the API server does not expire it."""
_NAME_LIMIT: Final = 253
_SUFFIX: Final = " ..."
_Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reference:
    """The object that an event is about. `api_version` is the served version."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    def body(self) -> Json:
        """Return it as an ObjectReference."""
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
        }


def pod_reference(pod: PodRecord) -> Reference:
    """Return the event reference of a pod."""
    return Reference("v1", "Pod", pod.namespace, pod.name, pod.uid)


def group_reference(group: Group, api_version: str) -> Reference:
    """Return the event reference of a group. `api_version` is the served version of native groups of its kind.

    A group converted from another scheduler's PodGroup refers to it (observability.md 2.6, workloads.md 2.9).
    """
    own = group.spec.foreign if group.spec is not None else None
    if own:
        return Reference(own, PodGroup.KIND, group.namespace, named_by(group.name), group.uid)
    return Reference(api_version, group.kind, group.namespace, group.name, group.uid)


@dataclass(slots=True)
class _EventSeries:
    body: Json
    last: float
    written: float
    count: int = 1


class EventRecorder:
    """See the module docstring. `limit`: the maximum number of events remembered for aggregation."""

    def __init__(self, sink: Sink, *, controller: str, instance: str, limit: int = 10_000) -> None:
        self._sink = sink
        self._controller = controller
        self._instance = instance
        self._limit = limit
        self._seen: OrderedDict[_Key, _EventSeries] = OrderedDict()
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
        """Record an occurrence. `kind` is Normal or Warning; `now` is in seconds since the epoch.

        `controller` is the schedulerName of the pod if it is not the default.
        """
        self.tick(now)
        reporter = controller or self._controller
        note = shortened(note)
        about = _parts(related) if related is not None else ()
        key = (kind, action, reason, reporter, note, *_parts(regarding), *about)
        series = self._seen.get(key)
        if series is not None and now - series.last < FINISH_SECONDS:
            series.count += 1
            series.last = now
            self._seen.move_to_end(key)
            if series.count == 2:
                self._write_series(series, now)
            return
        if series is not None:
            self._finish(key, series, now)
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
        self._seen[key] = _EventSeries(body, now, now)
        while len(self._seen) > self._limit:
            oldest = next(iter(self._seen))
            self._finish(oldest, self._seen[oldest], now)
        self._sink(dict(body))

    def tick(self, now: float) -> None:
        """Finish series that are quiet and refresh running ones. Checks at most once a minute."""
        if now < self._next_check:
            return
        self._next_check = now + 60.0
        while self._seen:
            key, series = next(iter(self._seen.items()))
            if now - series.last < FINISH_SECONDS:
                break
            self._finish(key, series, now)
        for series in self._seen.values():
            if series.count > 1 and now - series.written >= REFRESH_SECONDS:
                self._write_series(series, now)

    def flush(self, now: float) -> None:
        """Write all counts that are not written yet, when the process ends."""
        while self._seen:
            key, series = next(iter(self._seen.items()))
            self._finish(key, series, now)

    def _finish(self, key: _Key, series: _EventSeries, now: float) -> None:
        del self._seen[key]
        if series.count > 2:
            self._write_series(series, now)

    def _write_series(self, series: _EventSeries, now: float) -> None:
        series.written = now
        status = {"count": series.count, "lastObservedTime": micro_time(series.last)}
        self._sink({**series.body, "series": status})

    def _name(self, name: str, now: float) -> str:
        """Return `NAME.HEX` with nanoseconds, always unique; a long name is truncated."""
        self._last_stamp = max(self._last_stamp + 1, int(now * 1e9))
        suffix = f".{self._last_stamp:x}"
        return name[: _NAME_LIMIT - len(suffix)].rstrip(".-") + suffix


def _parts(reference: Reference) -> tuple[str, str, str, str, str]:
    return (reference.api_version, reference.kind, reference.namespace, reference.name, reference.uid)


def shortened(note: str) -> str:
    """Return at most 1024 bytes, with ` ...` at the end if text was cut off."""
    raw = note.encode()
    if len(raw) <= NOTE_LIMIT:
        return note
    return raw[: NOTE_LIMIT - len(_SUFFIX)].decode(errors="ignore") + _SUFFIX
