"""When and where a pending entity can start, as far as ends of running pods are known (reservations.md 2).

Pods that the entity may evict count as removed, unless that alone is enough: then preemption would not help, and they
stay. Other pods with a known end are removed at that time; the earliest time at which the entity fits by the engine's
own filters is found by bisection. If known ends do not suffice, pods without one are removed too: first those of which
the fewest free capacity for one more member, and of these the ones that have run longest.

Invariant: the cluster is not changed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from reprieve.cluster.pods import NO_ROW, PodRecord
from reprieve.cluster.resources import FIRST_RESOURCE
from reprieve.cluster.state import ClusterState
from reprieve.framework.plugin import Assigned
from reprieve.framework.running_profile import RunningProfile
from reprieve.framework.status import PluginError
from reprieve.preemption.deferred_preemption import after_known_ends, expected_end, least_count
from reprieve.preemption.eligibility import group_never_preempts
from reprieve.preemption.units import effective_priority
from reprieve.queueing.entity import Entity
from reprieve.scheduling.group_cycle import group_places
from reprieve.scheduling.pod_cycle import pod_places

NOWHERE: Mapping[str, int] = MappingProxyType({})
MOST_PODS = 8192
"""Maximum number of pods to wait for that are tried, those that end first or are cheapest to wait for."""


@dataclass(frozen=True, slots=True)
class ExpectedStart:
    """The expected start of an entity: (pod, row) of all members, the time, and the pods that it waits for there.

    `time` in seconds since the epoch; None: some of the pods it waits for state no end.
    """

    places: Assigned
    time: float | None
    awaited_pods: tuple[PodRecord, ...]


def expected_start(
    running: RunningProfile,
    entity: Entity,
    now: float,
    longest: float,
    yielding: Iterable[PodRecord] = (),
    nominated: Mapping[str, int] = NOWHERE,
    *,
    ends_known: bool = False,
) -> ExpectedStart | None:
    """Return the earliest start of an entity, or the one with the fewest pods to wait for; None: it fits nowhere.

    Ends later than `longest` seconds from now count as unknown; with `ends_known` it waits only for known ends.
    Nominations of `yielding` pods do not count.  `nominated`: the rows of members, by UID, on which they are
    placed; if it has all members, the entity waits only for pods there.
    """
    cluster = running.cluster
    rows = set(nominated.values())

    def anywhere() -> Assigned | None:
        try:
            return present_places(running, entity, nominated)
        except PluginError as error:
            running.report(error)
            return None

    def assign() -> Assigned | None:
        places = anywhere()
        return None if places and any(row not in rows for pod, row in places if pod.uid in nominated) else places

    with cluster.trial():
        yielded = list(yielding)
        for pod in (*entity.ready.values(), *yielded):
            cluster.clear_nomination(pod)
        if yielded and (present := anywhere()) is not None:
            return ExpectedStart(present, now, ())
        evictable, staying = _in_the_way(running, entity)
        mark = cluster.undo_mark
        cluster.displace_all(evictable)
        free = anywhere()
        if free is not None:
            if not evictable:
                return ExpectedStart(free, now, ())
            cluster.roll_back(mark)
            evictable, staying = [], evictable + staying
        if entity.ready.keys() <= nominated.keys():
            staying = [pod for pod in staying if pod.row in rows]
        timed, unknown = _by_end(cluster, staying, now, now + longest)
        earliest = after_known_ends(cluster, timed, assign)
        if earliest is not None:
            when, places = earliest
            return ExpectedStart(places, max(when, now), _pods_on(places, [pod for end, pod in timed if end <= when]))
        cluster.displace_all([pod for _, pod in timed])
        ordered = sorted(_cheapest_first(cluster, entity, unknown), key=lambda pod: pod.row not in rows)
        left = None if ends_known else _fewest(cluster, ordered, assign)
        if left is None:
            return None
        count, places = left
        cluster.roll_back(mark)
        return ExpectedStart(places, None, _pods_on(places, [pod for _, pod in timed] + ordered[:count]))


def present_places(running: RunningProfile, entity: Entity, nominated: Mapping[str, int] = NOWHERE) -> Assigned | None:
    """Return the rows of all members in the present view if they fit; the `nominated` rows (by UID) if possible."""
    pods = list(entity.ready.values())
    if entity.group is None:
        return pod_places(running, pods[0], nominated.get(pods[0].uid, NO_ROW))
    return group_places(running, entity.group, pods, nominated)


def _in_the_way(running: RunningProfile, entity: Entity) -> tuple[list[PodRecord], list[PodRecord]]:
    """Return pods on possible nodes of members: those that the entity may evict, and others except its own."""
    cluster = running.cluster
    pods = list(entity.ready.values())
    if entity.group is not None:
        never = group_never_preempts(entity.group, group_policy=running.gates.pod_group_preemption_policy)
    else:
        never = pods[0].never_preempts
    allowed = np.zeros(len(cluster.nodes), dtype=np.bool_)
    for pod in {pod.signature.constraints.nodes.id: pod for pod in pods}.values():
        allowed |= running.evaluator.allowed_nodes(pod)
    evictable: list[PodRecord] = []
    staying: list[PodRecord] = []
    for row in np.flatnonzero(allowed).tolist():
        for pod in cluster.nodes.pods[row].values():
            if pod.group is not None and cluster.entity_ref(pod) == entity.ref:
                continue
            lower = not never and effective_priority(cluster, pod) < entity.priority
            (evictable if lower else staying).append(pod)
    return evictable, staying


def _by_end(
    cluster: ClusterState, pods: Sequence[PodRecord], now: float, latest: float
) -> tuple[list[tuple[float, PodRecord]], list[PodRecord]]:
    """Return (end, pod) of pods that state a future end, soonest first, and the pods that state none."""
    timed, unknown = [], []
    for pod in pods:
        end = expected_end(cluster, pod)
        if end is not None and (now < end <= latest or (pod.terminating and end <= latest)):
            timed.append((end, pod))
        else:
            unknown.append(pod)
    timed.sort(key=lambda entry: (entry[0], entry[1].uid))
    return timed[:MOST_PODS], unknown


def _fewest(
    cluster: ClusterState, pods: Sequence[PodRecord], assign: Callable[[], Assigned | None]
) -> tuple[int, Assigned] | None:
    """Return the number of the first pods that must end, and the resulting places."""

    def after(count: int) -> Assigned | None:
        with cluster.trial():
            cluster.displace_all(pods[:count])
            return assign()

    return least_count(len(pods), after)


def _cheapest_first(cluster: ClusterState, entity: Entity, pods: Sequence[PodRecord]) -> list[PodRecord]:
    """Return pods in the order to wait for them: by the number that frees capacity for one more of the largest member.

    Ties: those that have run longest first. Pods that free no such capacity come last.
    """
    largest = max(entity.ready.values(), key=lambda pod: (*pod.signature.delta[FIRST_RESOURCE:].tolist(), pod.uid))
    wanted = np.array(largest.signature.delta[FIRST_RESOURCE:], dtype=np.int64)
    columns = np.flatnonzero(wanted)
    by_row: dict[int, list[PodRecord]] = {}
    for pod in pods:
        by_row.setdefault(pod.row, []).append(pod)
    steps: list[tuple[int, float, int, int, list[PodRecord]]] = []
    nodes = cluster.nodes
    for row, pods_on_row in by_row.items():
        pods_on_row.sort(key=lambda pod: (pod.start if pod.start is not None else cluster.now, pod.uid))
        free = nodes.allocatable[FIRST_RESOURCE:, row] - nodes.used[FIRST_RESOURCE:, row]
        fitting = int((free[columns] // wanted[columns]).min())
        step: list[PodRecord] = []
        most = 0
        for pod in pods_on_row:
            delta = pod.signature.delta[FIRST_RESOURCE:]
            free = free.copy()
            free[: len(delta)] += delta
            step.append(pod)
            places = int((free[columns] // wanted[columns]).min())
            if places > fitting:
                most = max(most, len(step))
                steps.append((most, step[-1].start or cluster.now, int(nodes.rank[row]), len(steps), step))
                fitting, step = places, []
        if step:
            steps.append((MOST_PODS, cluster.now, int(nodes.rank[row]), len(steps), step))
    steps.sort(key=lambda entry: entry[:4])
    return [pod for *_, step in steps for pod in step][:MOST_PODS]


def _pods_on(places: Assigned, pods: Sequence[PodRecord]) -> tuple[PodRecord, ...]:
    """Return the pods that are on the rows of the places."""
    rows = {row for _, row in places}
    return tuple(pod for pod in pods if pod.row in rows)
