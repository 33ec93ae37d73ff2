"""The differences between the decisions of the acting scheduler and the shadow: the shadow's ledger (shadow.md 3).

It receives the shadow's decisions (`placed`, `would_evict`), the changes of the cluster (`bound`, `nominated`,
`evicted`, `gone`), and the time (`review`).  An entity is a pending pod, gang or tree; it is closed when it has its
minimum in the cluster, or was deleted.

Invariants: no I/O and no clock. It reads the cluster cache and changes nothing. A difference that has ended does not
change. Memory is bounded by the pending pods of the cluster and `MOST_DIFFERENCES`.  Times are seconds since the epoch.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from kube_rules.durations import micro_time
from reprieve.cluster.groups import is_ready
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.decisions.shadow import (
    FEWER_EVICTED,
    HALF_PLACED,
    KINDS,
    MORE_EVICTED,
    MOST_DIFFERENCES,
    MOST_EVICTED,
    STARVED,
    SecondsSpread,
    ShadowDifference,
    ShadowFigures,
    ShadowReport,
    ShadowSide,
    spread_of,
)
from reprieve.preemption.lost_work import lost_work, processors
from reprieve.preemption.units import effective_priority

ACTING_FIRST, GONE = "ActingFirst", "Gone"
"""Why an entity is not compared."""
_KEPT_VALUES: Final = 10_000
_UNASSIGNED_SECONDS: Final = 600.0
"""Time in seconds after which an eviction without a known preemptor is no longer assigned to one."""
_SETTLE_SECONDS: Final = 10.0
"""Seconds after the placement of a preemptor in which others that preempted with it may be placed."""
_SAME_GPU_HOURS: Final = 0.01
"""Lost work that differs by less is equal: both sides read the clock at different times."""


class Seconds:
    """Durations: the latest are stored, count and sum are of all."""

    def __init__(self) -> None:
        self._values: deque[float] = deque(maxlen=_KEPT_VALUES)
        self._count = 0
        self._total = 0.0

    def add(self, seconds: float) -> None:
        """Count a duration; a negative one counts as 0."""
        seconds = max(0.0, seconds)
        self._values.append(seconds)
        self._count += 1
        self._total += seconds

    def spread(self) -> SecondsSpread:
        """Return the statistics."""
        return spread_of(self._values, self._count, self._total)


@dataclass(frozen=True, slots=True)
class ObservedEviction:
    """An evicted pod. `unit`: its eviction unit; `gpu_seconds`: its work that was not saved."""

    uid: str
    key: str
    node: str
    priority: int
    unit: str
    gpu_seconds: float
    at: float


@dataclass(slots=True)
class _Entity:
    """A pending pod, gang or tree, and what both schedulers have done for it."""

    key: str
    kind: str
    namespace: str
    name: str
    priority: int
    created: float
    had_pods: bool
    """Whether pods of it ran before: it lost some, and is not half placed by a decision."""
    shadow_at: float | None = None
    """When the shadow first placed it, after the grace periods of its victims."""
    shadow_pods: dict[str, str] = field(default_factory=dict)
    """Its pods in the shadow's latest placement: UID -> node."""
    plan: dict[str, ObservedEviction] | None = None
    """The pods that the shadow would evict for it, by UID; empty: none, None: the shadow has not placed it."""
    acting_nodes: set[str] = field(default_factory=set)
    bound: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Its pods bound by the acting scheduler: UID -> node, GPUs."""
    first_bound: float | None = None
    held_gpu_seconds: float = 0.0
    held_since: float = 0.0
    evicted: dict[str, ObservedEviction] = field(default_factory=dict)
    """Evicted by the acting scheduler for it, and for the entities that it is compared with."""
    together: int = 0
    """The number of other entities that it is compared with."""
    closed_at: float = 0.0
    open: dict[str, float] = field(default_factory=dict)
    """The start of each current difference, by kind."""

    def hold(self, now: float) -> None:
        """Count the GPU time that its bound pods use until now."""
        gpus = sum(amount for _, amount in self.bound.values())
        self.held_gpu_seconds += gpus * max(0.0, now - self.held_since)
        self.held_since = now


@dataclass
class _Side:
    """The sums of one scheduler."""

    evicted: int = 0
    gpu_seconds: float = 0.0
    gang_wait: Seconds = field(default_factory=Seconds)
    pod_wait: Seconds = field(default_factory=Seconds)

    def figures(self) -> ShadowFigures:
        """Return the sums for a report."""
        return ShadowFigures(
            evicted_pods=self.evicted,
            lost_gpu_hours=_hours(self.gpu_seconds),
            gang_wait=self.gang_wait.spread(),
            pod_wait=self.pod_wait.spread(),
        )


class ShadowLedger:
    """The ledger of one shadow; see the module docstring.

    `patience`: seconds after which a decision that the acting scheduler has not made counts as a difference.
    `counted(kind)` is called once for each difference.
    """

    def __init__(
        self, cluster: ClusterState, *, patience: float, counted: Callable[[str], None] = lambda kind: None
    ) -> None:
        self._cluster = cluster
        self._patience = patience
        self._counted = counted
        self._entities: dict[str, _Entity] = {}
        self._settle_seconds = min(patience, _SETTLE_SECONDS)
        self._settling: list[_Entity] = []
        """Entities that were placed in the cluster, the earliest first; their evictions will be compared."""
        self._planning: dict[str, _Entity] = {}
        """Entities for which the shadow would evict pods."""
        self._due: list[tuple[float, str]] = []
        self._unassigned: dict[str, ObservedEviction] = {}
        self._ended: deque[ShadowDifference] = deque(maxlen=MOST_DIFFERENCES)
        self._counts: Counter[str] = Counter(dict.fromkeys(KINDS, 0))
        self._not_compared: Counter[str] = Counter()
        self._figures: Counter[str] = Counter()
        self._held_gpu_seconds = 0.0
        self.acting, self.shadow = _Side(), _Side()
        self.decisions = Seconds()

    # -- the shadow's decisions ------------------------------------------------------------------------

    def placed(self, pods: Iterable[tuple[PodRecord, str]], now: float) -> None:
        """Record that the shadow has placed pods of one entity: (pod, node)."""
        pods = list(pods)
        entity = self._entity(pods[0][0])
        entity.shadow_pods.update((pod.uid, node) for pod, node in pods)
        if entity.plan is None:
            entity.plan = {}
        self._planned(entity, now)

    def would_evict(self, pod: PodRecord, victims: Iterable[PodRecord], now: float) -> None:
        """Record that the shadow would evict these pods for the entity of a pod."""
        entity = self._entity(pod)
        victims = list(victims)
        planned = self._planned_for_others(entity)  # two preemptors may wait for one victim; the first one counts
        plan = {victim.uid: self._eviction(victim, now) for victim in victims if victim.uid not in planned}
        # A dropped plan no longer counts, unless the acting scheduler has started meanwhile: then both continue.
        entity.plan = {**(entity.plan or {}), **plan} if entity.acting_nodes else plan
        self._planning[entity.key] = entity
        self._planned(entity, now + max((victim.grace for victim in victims), default=0.0))

    def _planned(self, entity: _Entity, at: float) -> None:
        if entity.shadow_at is None:
            entity.shadow_at = at
        heapq.heappush(self._due, (entity.shadow_at + self._patience, entity.key))

    # -- changes of the cluster ---------------------------------------------------------------------

    def nominated(self, pod: PodRecord, node: str) -> None:
        """Record a nomination of a pending pod by the acting scheduler."""
        self._entity(pod).acting_nodes.add(node)

    def bound(self, pod: PodRecord, node: str, now: float) -> None:
        """Record that the acting scheduler has bound a pending pod, after the cache has it."""
        entity = self._entity(pod)
        gpus, _ = processors(self._cluster.resources, pod.signature)
        entity.hold(now)
        entity.bound[pod.uid] = (node, gpus)
        entity.acting_nodes.add(node)
        if entity.first_bound is None:
            entity.first_bound = now
        planned = entity.shadow_pods.get(pod.uid)
        if planned is not None:
            self._figures["same" if planned == node else "other"] += 1
        if self._is_whole(pod):
            self._close(entity, now)
        else:
            heapq.heappush(self._due, (now + self._patience, entity.key))

    def evicted(self, pod: PodRecord, now: float) -> None:
        """Record that the acting scheduler has evicted a pod, while the cache still has it on its node."""
        if pod.uid not in self._unassigned and pod.row >= 0:
            self._unassigned[pod.uid] = self._eviction(pod, now)

    def gone(self, pod: PodRecord, key: str, now: float) -> None:
        """Record that a pending pod of an entity was deleted, after the cache has removed it."""
        entity = self._entities.get(key)
        if entity is None:
            return
        entity.hold(now)
        entity.bound.pop(pod.uid, None)
        entity.shadow_pods.pop(pod.uid, None)
        group = self._cluster.trees.find(key) if pod.group is not None else None
        if group is None or not any(True for leaf in group.leaves() for _ in leaf.members):
            self._not_compared[GONE] += 1
            self._end(entity, now)

    # -- time --------------------------------------------------------------------------------------------

    def review(self, now: float) -> None:
        """Record as differences what the acting scheduler has not done in time."""
        while self._due and self._due[0][0] <= now:
            _, key = heapq.heappop(self._due)
            entity = self._entities.get(key)
            if entity is not None:
                self._check(entity, now)
        self.settle(now)
        for uid, eviction in list(self._unassigned.items()):
            if eviction.at + _UNASSIGNED_SECONDS > now:
                break
            del self._unassigned[uid]
            self._figures["unassigned"] += 1

    def _check(self, entity: _Entity, now: float) -> None:
        """Record differences that have lasted too long."""
        half = entity.first_bound is not None and bool(entity.bound) and not entity.had_pods
        if half and entity.first_bound is not None and now >= entity.first_bound + self._patience:
            self._begin(entity, HALF_PLACED, entity.first_bound)
        elif not half and entity.shadow_at is not None and now >= entity.shadow_at + self._patience:
            self._begin(entity, STARVED, entity.shadow_at)

    def _begin(self, entity: _Entity, kind: str, since: float) -> None:
        if kind not in entity.open:
            entity.open[kind] = since
            self._counts[kind] += 1
            self._counted(kind)

    # -- the end of an entity ----------------------------------------------------------------------------

    def _close(self, entity: _Entity, now: float) -> None:
        """Compare both schedulers on an entity that has its minimum in the cluster."""
        self._check(entity, now)
        entity.closed_at = now
        self._settling.append(entity)
        if entity.plan is None or entity.shadow_at is None:
            self._not_compared[ACTING_FIRST] += 1
        else:
            self._figures["compared"] += 1
            for side, at in ((self.acting, now), (self.shadow, min(entity.shadow_at, now))):
                wait = side.pod_wait if entity.kind == "Pod" else side.gang_wait
                wait.add(at - entity.created)
        self._end(entity, now)

    def _end(self, entity: _Entity, now: float) -> None:
        del self._entities[entity.key]
        self._planning.pop(entity.key, None)
        if HALF_PLACED in entity.open:
            self._held_gpu_seconds += entity.held_gpu_seconds
        for kind, since in entity.open.items():
            self._ended.append(self._difference(entity, kind, since, now, ended=True))

    def settle(self, now: float, *, all_of_it: bool = False) -> None:
        """Compare the evictions for entities that were placed some seconds ago, or for `all_of_it`.

        Preemptors that share victims or nodes are compared together: which evicts which victim depends on the order.
        """
        if not self._settling or not (all_of_it or self._settling[0].closed_at + self._settle_seconds <= now):
            return
        evictions = {entity.key: self._evictions_for(entity) for entity in self._settling}
        left = []
        for together in _components(self._settling, evictions, self._planning.values()):
            closed = [entity for entity in together if entity.key in evictions]
            latest = max(entity.closed_at for entity in closed)
            waits = self._patience if len(closed) < len(together) else self._settle_seconds
            if all_of_it or latest + waits <= now:
                evicted = {uid: eviction for entity in closed for uid, eviction in evictions[entity.key].items()}
                for uid in evicted:
                    self._unassigned.pop(uid, None)
                self._compare_evictions(closed, evicted, now)
            else:
                left += closed
        self._settling = sorted(left, key=lambda entity: entity.closed_at)

    def _evictions_for(self, entity: _Entity) -> dict[str, ObservedEviction]:
        """Return the evictions that may be for an entity: on its nodes, of lower priority, each unit as a whole."""
        units = {
            eviction.unit
            for eviction in self._unassigned.values()
            if eviction.node in entity.acting_nodes
            and eviction.priority < entity.priority
            and entity.created - 1.0 <= eviction.at <= entity.closed_at
        }
        return {uid: eviction for uid, eviction in self._unassigned.items() if eviction.unit in units}

    def _planned_for_others(self, entity: _Entity) -> set[str]:
        """Return the UIDs of the pods that the shadow would evict for other pending entities."""
        plans = (pending.plan for pending in self._planning.values() if pending is not entity and pending.plan)
        return {uid for plan in plans for uid in plan}

    def _compare_evictions(self, entities: list[_Entity], actual: dict[str, ObservedEviction], now: float) -> None:
        compared = [entity for entity in entities if entity.plan is not None]
        if not compared:
            return
        plan = {uid: eviction for entity in compared for uid, eviction in (entity.plan or {}).items()}
        lost_planned, lost_actual = (sum(e.gpu_seconds for e in pods.values()) for pods in (plan, actual))
        for side, pods, lost in ((self.shadow, plan, lost_planned), (self.acting, actual, lost_actual)):
            side.evicted += len(pods)
            side.gpu_seconds += lost
        if plan.keys() == actual.keys() or len(compared) < len(entities):
            return
        hours = (lost_actual - lost_planned) / 3600
        more = len(actual) - len(plan) or (hours if abs(hours) >= _SAME_GPU_HOURS else 0)
        if not more:
            self._figures["other victims"] += 1
            return
        kind = MORE_EVICTED if more > 0 else FEWER_EVICTED
        first = max(compared, key=lambda entity: (entity.priority, entity.key))
        first.plan, first.evicted, first.together = plan, actual, len(compared) - 1
        self._counts[kind] += 1
        self._counted(kind)
        self._ended.append(self._difference(first, kind, first.shadow_at or now, first.closed_at, ended=True))

    # -- the report --------------------------------------------------------------------------------------

    def report(self, *, schedulers: tuple[str, ...], since: float, now: float) -> ShadowReport:
        """Return the whole report; current differences come first, then the latest."""
        lasting = [
            self._difference(entity, kind, begun, now, ended=False)
            for entity in self._entities.values()
            for kind, begun in entity.open.items()
        ]
        lasting.sort(key=lambda difference: difference.since, reverse=True)
        differences = (*lasting, *reversed(self._ended))[:MOST_DIFFERENCES]
        half = [entity for entity in self._entities.values() if HALF_PLACED in entity.open]
        for entity in half:
            entity.hold(now)
        gpu_seconds = self._held_gpu_seconds + sum(entity.held_gpu_seconds for entity in half)
        return ShadowReport(
            schedulers=schedulers,
            since=micro_time(since),
            until=micro_time(now),
            hold_seconds=self._patience,
            counts={kind: self._counts[kind] for kind in KINDS},
            differences=differences,
            left_out=sum(self._counts.values()) - len(differences),
            compared=self._figures["compared"],
            not_compared={reason: self._not_compared[reason] for reason in (ACTING_FIRST, GONE)},
            same_node=self._figures["same"],
            other_node=self._figures["other"],
            other_victims=self._figures["other victims"],
            unassigned_evictions=self._figures["unassigned"] + len(self._unassigned),
            held_gpu_hours=_hours(gpu_seconds),
            acting=self.acting.figures(),
            shadow=self.shadow.figures(),
            decisions=self.decisions.spread(),
        )

    def _difference(self, entity: _Entity, kind: str, since: float, now: float, *, ended: bool) -> ShadowDifference:
        if not ended:
            entity.hold(now)
        group = self._cluster.trees.find(entity.key) if entity.kind != "Pod" else None
        return ShadowDifference(
            kind=kind,
            entity_kind=entity.kind,
            namespace=entity.namespace,
            name=entity.name,
            priority=entity.priority,
            pods=sum(len(leaf.members) for leaf in group.leaves()) if group is not None else 1,
            min_count=group.min_count if group is not None else 1,
            since=micro_time(since),
            until=micro_time(now) if ended else None,
            seconds=round(max(0.0, now - since), 3),
            held_gpu_hours=_hours(entity.held_gpu_seconds) if kind == HALF_PLACED else 0.0,
            acting=self._acting(entity, kind),
            shadow=_shadow(entity),
            message=_message(entity, kind),
        )

    @staticmethod
    def _acting(entity: _Entity, kind: str) -> ShadowSide:
        half = kind == HALF_PLACED
        result = "HalfPlaced" if half else "Pending" if kind == STARVED else "Evicts" if entity.evicted else "Placed"
        return ShadowSide(
            result=result,
            pods=len(entity.bound),
            at=micro_time(entity.first_bound) if entity.first_bound is not None else None,
            nodes=tuple(sorted({node for node, _ in entity.bound.values()})[:MOST_EVICTED]),
            **_evicted(entity.evicted),
        )

    # -- the cache ---------------------------------------------------------------------------------------

    def _entity(self, pod: PodRecord) -> _Entity:
        """Return the entity of a pending pod, created at its first use."""
        key = self._cluster.entity_ref(pod)
        entity = self._entities.get(key)
        if entity is not None:
            return entity
        group = self._cluster.trees.find(key) if pod.group is not None else None
        members = [pod] if group is None else [m for leaf in group.leaves() for m in leaf.members.values()]
        priority = pod.priority
        if group is not None and group.spec is not None and group.spec.has_priority:
            priority = max(priority, group.spec.priority)
        entity = self._entities[key] = _Entity(
            key=key,
            kind=group.kind if group is not None else "PodGroup" if pod.group is not None else "Pod",
            namespace=pod.namespace,
            name=group.name if group is not None else pod.name,
            priority=priority,
            created=min((member.created for member in members), default=pod.created),
            had_pods=any(member.bound and member is not pod for member in members),
        )
        return entity

    def _is_whole(self, pod: PodRecord) -> bool:
        """Return whether the entity of a bound pod has its minimum in the API, without assumptions."""
        group = self._cluster.trees.find(self._cluster.entity_ref(pod)) if pod.group is not None else None
        if group is None:
            return True
        return is_ready(
            group, lambda leaf: sum(1 for member in leaf.members.values() if member.bound and not member.terminating)
        )

    def _eviction(self, pod: PodRecord, now: float) -> ObservedEviction:
        cluster = self._cluster
        group = cluster.groups.get(pod.group) if pod.group is not None else None
        unit = group.unit if group is not None else None
        return ObservedEviction(
            uid=pod.uid,
            key=pod.key,
            node=cluster.nodes.names[pod.row] if pod.row >= 0 else "",
            priority=effective_priority(cluster, pod),
            unit=unit.ref if unit is not None else pod.uid,
            gpu_seconds=lost_work(cluster, (pod,)).gpu,
            at=now,
        )


def _components(
    settling: Iterable[_Entity], evictions: dict[str, dict[str, ObservedEviction]], planning: Iterable[_Entity]
) -> list[list[_Entity]]:
    """Return the preemptors in groups that share victims; `planning`: those that are not placed yet."""
    components: list[tuple[set[str], list[_Entity]]] = []
    for entity in (*settling, *planning):
        victims = (entity.plan or {}).keys() | evictions.get(entity.key, {}).keys()
        joined = [component for component in components if victims & component[0]]
        components = [component for component in components if not victims & component[0]]
        uids = set(victims).union(*(component[0] for component in joined))
        components.append((uids, [*(member for component in joined for member in component[1]), entity]))
    return [entities for _, entities in components if any(entity.key in evictions for entity in entities)]


def _shadow(entity: _Entity) -> ShadowSide:
    result = "Pending" if entity.plan is None else "Evicts" if entity.plan else "Placed"
    return ShadowSide(
        result=result,
        pods=len(entity.shadow_pods),
        at=micro_time(entity.shadow_at) if entity.shadow_at is not None else None,
        nodes=tuple(sorted(set(entity.shadow_pods.values()))[:MOST_EVICTED]),
        **_evicted(entity.plan or {}),
    )


def _evicted(evictions: dict[str, ObservedEviction]) -> dict[str, Any]:
    return {
        "evicted_pods": len(evictions),
        "evicted": tuple(sorted(eviction.key for eviction in evictions.values())[:MOST_EVICTED]),
        "lost_gpu_hours": _hours(sum(eviction.gpu_seconds for eviction in evictions.values())),
    }


def _message(entity: _Entity, kind: str) -> str:
    """Return the difference as one sentence."""
    placed = "would place it" if not entity.plan else f"would evict {_pods(len(entity.plan))} for it"
    if kind == HALF_PLACED:
        number = len(entity.bound)
        bound = f"{number} of its pods {'is' if number == 1 else 'are'} bound, which is less than its minimum"
        return f"{bound}; the shadow {placed if entity.plan is not None else 'keeps all of it pending'}"
    if kind == STARVED:
        return f"it is pending although the shadow {placed}"
    actual, planned = _pods(len(entity.evicted)), _pods(len(entity.plan or {}))
    for_it = "for it" if not entity.together else f"for it and {entity.together} other preemptors"
    if len(entity.evicted) == len(entity.plan or {}):
        loss = "less" if kind == MORE_EVICTED else "more"
        return f"{_were(actual)} evicted {for_it}; the shadow would evict others, which lose {loss} work"
    return f"{_were(actual)} evicted {for_it}; the shadow would evict {planned}"


def _were(pods: str) -> str:
    return f"{pods} {'was' if pods == '1 pod' else 'were'}"


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods" if count else "no pods"


def _hours(seconds: float) -> float:
    return round(seconds / 3600, 4)
