"""The condition PodGroupSatisfied of PodGroups: whether a gang has its minimum now (repair.md 3).

A desired condition is sent with the next patch of the group's status, or in its own patch. While a patch is in flight,
later changes are combined in the next one.  An unchanged condition costs no call: the initial condition is known from
the informers, and later ones from the writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from kube_rules import objects
from reprieve.client.discovery import Resource
from reprieve.client.errors import ClientError
from reprieve.client.leader_election import LeadershipLostError
from reprieve.live.writes import Writes, superseded
from reprieve.scheduling.gang_health import SATISFIED, Satisfaction

_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"


class _ConditionValues(NamedTuple):
    status: str = ""
    reason: str = ""
    message: str = ""
    since: str = ""
    """In the format of the API."""


class _WrittenGroup:
    """One PodGroup: the condition in the API, the desired one, and the patch in flight."""

    __slots__ = ("before", "flight", "generation", "group", "own", "resource", "state", "wished", "written")

    def __init__(self, group: objects.PodGroup) -> None:
        self.group = group
        self.resource: Resource | None = None
        self.generation = 0
        self.written = _ConditionValues()
        self.before = _ConditionValues()
        """The condition in the API before the patch in flight."""
        self.own = False
        """Whether this module wrote it, so that informers may have an older one."""
        self.wished: Satisfaction | None = None
        self.flight: asyncio.Future[None] | None = None
        self.state: Satisfaction | None = None
        """The condition in that patch."""


class SatisfiedConditions:
    """The conditions of all groups; see the module docstring. `flights` gets all patches, `on_trouble` failures."""

    def __init__(
        self, writes: Writes, flights: set[asyncio.Future[None]], *, on_trouble: Callable[[str], None]
    ) -> None:
        self._writes, self._flights, self._on_trouble = writes, flights, on_trouble
        self._groups: dict[str, _WrittenGroup] = {}
        """By `namespace/name`."""
        self._dirty: dict[str, None] = {}
        self._again: dict[str, None] = {}
        """Groups with a failed patch; `again` resends it."""

    def seen(self, group: objects.PodGroup, resource: Resource | None) -> None:
        """Process a group of an informer; groups of other APIs do not have this condition."""
        if group.foreign is not None:
            return
        subject = self._groups.get(group.key)
        if subject is None or subject.group.metadata.uid != group.metadata.uid:
            wished = subject.wished if subject is not None else None
            subject = self._groups[group.key] = _WrittenGroup(group)
            subject.wished = wished
        subject.resource, subject.generation = resource, group.metadata.generation
        if not subject.own:
            stored = next((stored for stored in group.status.conditions if stored.type == SATISFIED), None)
            if stored is not None:
                since = f"{stored.last_transition_time:{_TIME}}" if stored.last_transition_time is not None else ""
                subject.written = _ConditionValues(stored.status, stored.reason, stored.message, since)

    def forget(self, key: str) -> None:
        """Forget a deleted group."""
        for groups in (self._groups, self._dirty, self._again):
            groups.pop(key, None)

    def wish(self, state: Satisfaction) -> None:
        """Set whether a gang has its minimum; no effect for a group without an object of this API."""
        subject = self._groups.get(state.group)
        if subject is not None:
            subject.wished = state
            if not self._dirty:
                asyncio.get_running_loop().call_soon(self.flush)
            self._dirty[state.group] = None

    def again(self) -> None:
        """Send failed conditions again."""
        self._dirty.update(self._again)
        self._again.clear()
        self.flush()

    @property
    def waits(self) -> bool:
        """Return whether a desired condition is not sent yet."""
        return bool(self._dirty)

    def flush(self) -> None:
        """Send desired conditions that differ from the API's."""
        for key in list(self._dirty):
            subject = self._groups[key]
            condition = self.along(key)
            if condition is not None:
                meta = subject.group.metadata
                flight = self._writes.patch_group_status(
                    meta.namespace or "default", meta.name, meta.uid, [condition], resource=subject.resource
                )
                self.sent(key, flight)

    def along(self, key: str) -> dict[str, Any] | None:
        """Return the condition to include in a patch of the group's status; the caller must then call `sent`."""
        subject = self._groups.get(key)
        if subject is None or subject.flight is not None:
            return None
        self._dirty.pop(key, None)
        state, subject.wished = subject.wished, None
        if state is None:
            return None
        written, status = subject.written, "True" if state.satisfied else "False"
        if (written.status, written.reason, written.message) == (status, state.reason, state.message):
            return None
        if written.status == status == "True":
            return None  # the number above its minimum is not reported
        same = written.status == status and written.since
        since = written.since if same else f"{datetime.fromtimestamp(state.since, UTC):{_TIME}}"
        subject.before, subject.written = written, _ConditionValues(status, state.reason, state.message, since)
        condition: dict[str, Any] = {
            "type": SATISFIED,
            "status": status,
            "reason": state.reason,
            "message": state.message,
            "lastTransitionTime": since,
        }
        if subject.generation:
            condition["observedGeneration"] = subject.generation
        subject.own, subject.state = True, state
        return condition

    def sent(self, key: str, flight: asyncio.Future[None]) -> None:
        """Record a patch in flight with the condition."""
        subject = self._groups[key]
        subject.flight = flight
        self._flights.add(flight)
        flight.add_done_callback(lambda done: self._landed(key, subject, done))

    def _landed(self, key: str, subject: _WrittenGroup, flight: asyncio.Future[None]) -> None:
        self._flights.discard(flight)
        subject.flight = None
        if self._groups.get(key) is not subject:
            return
        error = ClientError("cancelled") if flight.cancelled() else flight.exception()
        if error is not None:
            subject.written = subject.before
            subject.wished = subject.wished or subject.state
            if superseded(error):
                self.forget(key)
            elif not isinstance(error, LeadershipLostError):
                self._on_trouble(f"status of {key}: {error}")
                self._again[key] = None
        elif subject.wished is not None:
            self._dirty[key] = None
            self.flush()
