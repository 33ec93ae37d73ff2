"""Gangs that have been scheduled once, and whether they still have their minimum (docs/rules/repair.md, section 1).

The queue records which groups had an event; `review` checks those once before an attempt. So the initial load, in which
groups come before their pods, reports no false state.

Invariants: a gang is known while its object is; it is `degraded` if it was scheduled once and has less than its
minimum; the data of a gang does not grow with its age.
"""

from collections import Counter
from dataclasses import dataclass, field, replace

from kube_rules import objects
from kube_rules.meta import INITIALLY_SCHEDULED
from reprieve.cluster.groups import GroupState
from reprieve.cluster.state import ClusterState
from reprieve.queueing.queue import SchedulingQueue

SATISFIED = "PodGroupSatisfied"
BELOW_MIN_COUNT = "BelowMinCount"
MIN_COUNT_SATISFIED = "MinCountSatisfied"


@dataclass(frozen=True, slots=True)
class Satisfaction:
    """The members of a gang that was scheduled once, as in its condition PodGroupSatisfied."""

    group: str
    """`namespace/name`."""
    scheduled: int
    """Members that run or start, without terminating ones."""
    succeeded: int
    """Members that have succeeded and are not replaced, at most as many as are missing."""
    needed: int
    """minCount."""
    since: float
    """Time since which it is satisfied, or not, in seconds."""

    @property
    def satisfied(self) -> bool:
        """Return whether the gang has its minimum."""
        return self.scheduled + self.succeeded >= self.needed

    @property
    def reason(self) -> str:
        """Return the reason of the condition."""
        return MIN_COUNT_SATISFIED if self.satisfied else BELOW_MIN_COUNT

    @property
    def message(self) -> str:
        """Return the message of the condition: `3 of 4 members scheduled`."""
        done = f", {self.succeeded} {'has' if self.succeeded == 1 else 'have'} succeeded" if self.succeeded else ""
        if self.scheduled > self.needed:
            return f"{self.scheduled} members scheduled, {self.needed} needed"
        return f"{self.scheduled} of {self.needed} members scheduled{done}"


@dataclass(slots=True)
class _KnownGang:
    uid: str
    """The UID of the object: a new object of the same name is another gang."""
    was_scheduled: bool = False
    """Whether the gang has been scheduled once."""
    succeeded: set[str] = field(default_factory=set)
    """UIDs of members that have succeeded and that the API may still have."""
    succeeded_before: int = 0
    """Number of deleted members that had succeeded."""
    state: Satisfaction | None = None
    degraded_since: float | None = None
    """The condition in the API, from before a restart."""
    entity_key: str = ""
    """Key of the entity that is tried first because of this gang."""


class GangHealth:
    """See the module docstring."""

    def __init__(self, cluster: ClusterState, queue: SchedulingQueue) -> None:
        self._cluster, self._queue = cluster, queue
        self._gangs: dict[str, _KnownGang] = {}
        """By `namespace/name`."""
        self.degraded: dict[str, Satisfaction] = {}
        """Degraded gangs, by `namespace/name`."""
        self.transitions = Counter[bool]()
        """Number of times that gangs became satisfied, and not satisfied."""
        self.changes = 0
        """A counter that grows when a gang becomes degraded, or is no longer."""
        self._groups_of_succeeded: dict[str, str] = {}
        """The groups of pods that have succeeded and that the API may still have, by UID."""
        self._first_tried = Counter[str]()
        """Number of degraded gangs for which an entity is tried first, by its key."""

    # -- events ------------------------------------------------------------------------------------------------------

    def read_conditions(self, group: objects.PodGroup) -> None:
        """Read the conditions of a group in the API, which have its state from before a restart."""
        key = group.full_key
        conditions = {condition.type: condition for condition in group.status.conditions}
        scheduled, satisfied = conditions.get(INITIALLY_SCHEDULED["PodGroup"]), conditions.get(SATISFIED)
        if satisfied is None and (scheduled is None or scheduled.status != "True"):
            return
        gang = self._gang(key, group.metadata.uid or key)
        gang.was_scheduled = True
        if satisfied is not None and satisfied.status == "False" and satisfied.last_transition_time is not None:
            gang.degraded_since = satisfied.last_transition_time.timestamp()

    def record_success(self, key: str, uid: str, *, kept: bool = True) -> None:
        """Record that a member succeeded; `kept`: its pod may be reported again until it is deleted."""
        state = self._cluster.groups.get(key)
        gang = self._gang(key, state.uid if state is not None and state.spec is not None else "")
        if kept:
            gang.succeeded.add(uid)
            self._groups_of_succeeded[uid] = key
        else:
            gang.succeeded_before += 1
        self._queue.changed_groups.setdefault(key, self._cluster.now)

    def remove_pod(self, uid: str) -> None:
        """Handle the deletion of a pod, which may have succeeded before."""
        gang = self._gangs.get(self._groups_of_succeeded.pop(uid, ""))
        if gang is not None and uid in gang.succeeded:
            gang.succeeded.discard(uid)
            gang.succeeded_before += 1

    def _gang(self, key: str, uid: str) -> _KnownGang:
        gang = self._gangs.get(key)
        if gang is None or (uid and gang.uid and uid != gang.uid):
            if gang is not None:
                self._forget(key)
            gang = self._gangs[key] = _KnownGang(uid)
        gang.uid = gang.uid or uid
        return gang

    # -- conditions --------------------------------------------------------------------------------------------------

    def review(self, first: bool) -> list[Satisfaction]:
        """Check the groups that had an event; return their new conditions.

        `first`: degraded gangs are tried before all others of their priority.
        """
        changed = self._queue.changed_groups
        if not changed:
            return []
        news = []
        for key, now in changed.items():
            group = self._cluster.groups.get(key)
            if group is None or group.spec is None or not group.is_gang:
                self._forget(key)
                continue
            state = self._review(group, now)
            if state is not None:
                news.append(state)
            gang = self._gangs.get(key)
            if gang is None or gang.state is None:
                continue
            self.changes += gang.state.satisfied == (key in self.degraded)
            if gang.state.satisfied:
                self.degraded.pop(key, None)
            else:
                self.degraded[key] = gang.state
            self._go_first(gang, group.home if first and not gang.state.satisfied else "")
        changed.clear()
        return news

    def forget_deleted(self) -> None:
        """Forget deleted groups that had an event."""
        changed, groups = self._queue.changed_groups, self._cluster.groups
        for key in [key for key in changed if key not in groups]:
            self._forget(key)
            del changed[key]

    def _review(self, group: GroupState, now: float) -> Satisfaction | None:
        """Record the state of a gang; return it if it must be reported."""
        gang = self._gangs.get(group.key)
        needed = max(1, group.min_count)
        if gang is not None and gang.uid not in ("", group.uid):
            self._forget(group.key)
            gang = None
        if gang is None or not gang.was_scheduled:
            is_foreign = group.spec is not None and group.spec.foreign is not None
            if group.scheduled < (1 if is_foreign else needed):
                return None
            gang = self._gang(group.key, group.uid)
            gang.was_scheduled = True
        before = gang.state
        if before is None and not group.members and not gang.succeeded:
            return None
        ended = len(gang.succeeded) + gang.succeeded_before
        done = min(ended, max(0, needed - group.existing))
        state = Satisfaction(group.key, group.scheduled, done, needed, now)
        if before is None:
            since = now if state.satisfied or gang.degraded_since is None else min(now, gang.degraded_since)
        elif before.satisfied != state.satisfied:
            since = now
            self.transitions[state.satisfied] += 1
        else:
            since = before.since
        gang.state = replace(state, since=since)
        if before is not None and before.satisfied == state.satisfied:
            return None if state.satisfied or before.message == state.message else gang.state
        return gang.state

    def _go_first(self, gang: _KnownGang, home: str) -> None:
        if gang.entity_key == home:
            return
        before, gang.entity_key = gang.entity_key, home
        if home:
            self._first_tried[home] += 1
            self._queue.put_first(home, True)
        if before:
            self._first_tried[before] -= 1
            if not self._first_tried[before]:
                del self._first_tried[before]
                self._queue.put_first(before, False)

    def _forget(self, key: str) -> None:
        gang = self._gangs.pop(key, None)
        if gang is not None:
            self._go_first(gang, "")
            self.changes += self.degraded.pop(key, None) is not None
