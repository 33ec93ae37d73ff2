"""Restart gangs that stay degraded: `recovery-policy: Restart` (docs/rules/repair.md, section 4).

Invariants: a gang is evicted only while it is degraded, after `degradedSeconds`, and if it has the policy itself or by
a group above it that lost its minimum too; its eviction is requested at most once in `_PAUSE`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from kube_rules.durations import readable_duration
from kube_rules.work_annotations import RECOVERY_POLICY, RESTART
from reprieve.cluster.groups import Group, GroupState, is_ready, running_below
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.preemption.eviction_limits import beyond_limits, evicted_unit
from reprieve.preemption.protected_units import RespectedBudgets
from reprieve.preemption.units import PreemptionUnit, effective_priority
from reprieve.queueing.entity import QueueState
from reprieve.queueing.queue import SchedulingQueue
from reprieve.scheduling.gang_health import GangHealth, Satisfaction

_PAUSE = 60.0
"""Seconds until a gang is checked again: its pods may still run, or budgets blocked the eviction."""


@dataclass(frozen=True, slots=True)
class GangRestart:
    """The eviction of a degraded gang as a whole."""

    group: Group
    """The gang, or the group of the tree that lost its minimum."""
    unit: PreemptionUnit
    """Its running pods."""
    state: Satisfaction
    """The degraded gang."""
    message: str

    @property
    def pods(self) -> tuple[PodRecord, ...]:
        """Return the pods to evict."""
        return self.unit.pods

    @property
    def entity(self) -> Group | PodRecord:
        """Return the group itself: it is evicted for its own sake."""
        return self.group

    @property
    def ref(self) -> str:
        """Return the `ref` of the group that is evicted."""
        return self.group.ref

    @property
    def by(self) -> str:
        """Return the ref of the group itself: it is evicted for its own sake."""
        return self.group.ref


class GangRestarts:
    """See the module docstring. `seconds_for`: `degradedSeconds` of a gang; 0: never."""

    def __init__(
        self,
        cluster: ClusterState,
        queue: SchedulingQueue,
        health: GangHealth,
        seconds_for: Callable[[GroupState], float],
    ) -> None:
        self._cluster, self._queue, self._health, self._repair_seconds = cluster, queue, health, seconds_for
        self._due_times: dict[str, float] = {}
        """Time at which a degraded gang with the policy may be evicted, by `namespace/name`."""
        self._checked_at: dict[str, float] = {}
        """Time at which due gangs were last checked."""
        self._basis: tuple[object, ...] = ()
        """The degraded gangs and the rules for which these times were computed."""
        self.evictions = 0
        """Number of gangs that were evicted."""

    def review(self, now: float) -> list[GangRestart]:
        """Return the gangs to evict now."""
        degraded = self._health.degraded
        if not degraded and not self._due_times:
            return []
        version = (self._health.changes, self._cluster.groups_version)
        if version != self._basis:
            self._basis = version
            self._due_times = {
                key: state.since + seconds
                for key, state in degraded.items()
                if (seconds := self._repair_seconds(self._cluster.groups[key])) > 0
                and broken_level(self._cluster.groups[key]) is not None
            }
            self._checked_at = {key: when for key, when in self._checked_at.items() if key in self._due_times}
        restarts = []
        for key, due in self._due_times.items():
            if due <= now and self._checked_at.get(key, -_PAUSE) + _PAUSE <= now:
                restart = self._restart(key, now)
                restarts += [restart] if restart is not None else []
        self.evictions += len(restarts)
        return restarts

    def next_time(self) -> float | None:
        """Return when `review` has something to do, if nothing else happens."""
        return min((due for key, due in self._due_times.items() if key not in self._checked_at), default=None)

    def _restart(self, key: str, now: float) -> GangRestart | None:
        gang = self._cluster.groups[key]
        entity = self._queue.get(gang.home)
        if entity is not None and entity.state is QueueState.ACTIVE:
            return None  # it is about to be tried, which may repair it
        self._checked_at[key] = now
        level = broken_level(gang)
        if level is None:
            return None
        pods = tuple(sorted((p for p in running_below(level.below()) if not p.terminating), key=lambda pod: pod.uid))
        if not pods:
            return None
        priority = max(effective_priority(self._cluster, pod) for pod in pods)
        unit = PreemptionUnit(level.key, pods, tuple(pod.row for pod in pods), priority, True, level)
        if not may_be_evicted(self._cluster, unit, level, now):
            return None
        state = self._health.degraded[key]
        message = (
            f"{state.message} for {readable_duration(math.floor(now - state.since))}, and {RECOVERY_POLICY}: {RESTART}"
        )
        return GangRestart(level, unit, state, message)


def may_be_evicted(cluster: ClusterState, unit: PreemptionUnit, cause: PodRecord | Group, now: float) -> bool:
    """Return whether limits and budgets that the class of `cause` respects allow evicting a unit; if so, record it."""
    cluster.now = max(cluster.now, now)
    if beyond_limits(cluster, unit) is not None:
        return False
    if cluster.class_terms_of(cause).respects_budgets and RespectedBudgets(cluster).violated_by([unit]):
        return False
    cluster.evictions.note(evicted_unit(cluster, unit), now)
    return True


def broken_level(gang: GroupState) -> Group | None:
    """Return the group to evict for a degraded gang: the highest that lost its minimum and has the policy.

    None: no group has it, or the gang is part of a larger unit that is evicted only as a whole (preemption.md 1).
    """
    chain: list[Group] = [gang]
    by_key = (
        {group.key: group for group in gang.root.below()} if gang.root is not None and gang.root is not gang else {}
    )
    while (spec := chain[-1].spec) is not None and spec.parent is not None and spec.parent in by_key:
        chain.append(by_key[spec.parent])
    wants, level = False, None
    for group in reversed(chain):
        spec = group.spec
        if spec is not None and spec.restarts is not None:
            wants = spec.restarts
        if wants and (group is gang or not is_ready(group, lambda leaf: leaf.scheduled)):
            level = group
            break
    if level is None or (gang.unit is not None and gang.unit in chain[chain.index(level) + 1 :]):
        return None
    return level
