"""When a preemptor waits instead of evicting (cost.md 5.6, 5.7 and 6).

- Its *predecessor* leaves: terminating pods of the same owner, as in a rolling update. What they leave counts as the
  preemptor's own before any pods are evicted, and is reserved for it.
- Its *delay* (`preemption-delay`) is not over: room that is about to come is waited for.
- *Completions*: units that say when they end, where enough room comes free by that in time.
- *Checkpoints*: the chosen victims are about to save their work.

Invariant: nothing is changed in the cluster cache, and no other pods are evicted than without; what is deferred is
tried again at a time that is named, at the latest.
"""

from collections.abc import Callable, Iterable, Sequence

from kube_rules.durations import readable_duration, readable_time
from kube_rules.work_annotations import LONGEST
from reprieve.cluster.groups import Group
from reprieve.cluster.pods import Owner, PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.framework.plugin import Assigned
from reprieve.preemption.lost_work import next_checkpoint, processors
from reprieve.preemption.outcome import Deferral, WaitsFor

LATE = 1.0
"""Seconds that an end is waited for beyond its time: times are written to the second, and news takes a moment."""
OVERDUE = 10.0
"""Seconds after which a preemptor looks again for a checkpoint that is late."""
_MOST_NAMED = 3

Owners = frozenset[tuple[str, Owner]]
"""(namespace, highest known controller)."""


# -- predecessors -----------------------------------------------------------------------------------------------------


def owners_of(cluster: ClusterState, pods: Iterable[PodRecord], group: Group | None) -> Owners:
    """Owners of the pods and their group: the highest controllers that are known."""
    highest = cluster.controllers.highest
    result = {(pod.namespace, highest(pod.namespace, pod.owner, pod.labels)) for pod in pods if pod.owner is not None}
    if group is not None and group.owner is not None:
        result.add((group.namespace, highest(group.namespace, group.owner)))
    return frozenset(result)


def predecessors(cluster: ClusterState, owners: Owners, hold_seconds: float) -> list[PodRecord]:
    """Return pods of the same owners that are leaving, by UID.

    Not those that should have left `hold_seconds` ago (0: those too): they may never.
    """
    if not owners or not cluster.departures:
        return []
    result = []
    namespaces = {namespace for namespace, _ in owners}
    for (namespace, owner, key, _), uids in cluster.departing.items():
        group = cluster.groups.get(key) if key is not None else None
        if namespace not in namespaces or (owner is None and (group is None or group.owner is None)):
            continue
        # They were all made by the same.
        if owners.isdisjoint(owners_of(cluster, (cluster.pods[next(iter(uids))],), group)):
            continue
        for uid in uids:
            pod, due = cluster.pods[uid], cluster.departures[uid]
            if pod.row < 0 or uid in cluster.overdue:
                continue
            if hold_seconds > 0 and due is not None and due + hold_seconds <= cluster.now:
                continue
            result.append(pod)
    result.sort(key=lambda pod: pod.uid)
    return result


def until_predecessors_leave(
    cluster: ClusterState, leaving: Sequence[PodRecord], places: Assigned, hold_seconds: float
) -> Deferral:
    """The preemptor fits where its predecessors are: it holds these places and waits for them to leave."""
    rows = {row for _, row in places}
    awaited = tuple(pod for pod in leaving if pod.row in rows) or tuple(leaving)
    dues = [due + hold_seconds for pod in awaited if (due := cluster.departures[pod.uid]) is not None]
    return Deferral(
        why=WaitsFor.PREDECESSOR,
        message=f"waiting for {_named(awaited)} of the same owner to terminate",
        until=min(*dues, cluster.now + LONGEST) if dues and hold_seconds > 0 else None,
        pods=awaited,
        nominations=tuple(places),
    )


# -- the preemptor's own delay ----------------------------------------------------------------------------------------


def until_delay_is_over(cluster: ClusterState, pods: Sequence[PodRecord]) -> Deferral | None:
    """None, or why these pods may not evict yet: the longest `preemption-delay` of them, from when the first was made.

    The time behind gates counts, and so does that before a restart.
    """
    delay = max((cluster.terms_of(pod).preemption_delay or 0.0 for pod in pods), default=0.0)
    until = _since(cluster, pods) + delay
    if until <= cluster.now:
        return None
    text = f"no pods are evicted before {readable_time(until)} (preemption-delay {readable_duration(delay)})"
    return Deferral(WaitsFor.DELAY, text, until)


# -- units that end by themselves --------------------------------------------------------------------------------------


def expected_end(cluster: ClusterState, pod: PodRecord) -> float | None:
    """Return when a scheduled pod is expected to be gone by its annotations; None: they state nothing.

    Its annotation `expected-end`, or its group's; `expected-runtime` from its start; its `activeDeadlineSeconds` with
    its grace period on top, from its start; that of its Job, from the Job's start, likewise; for one that is leaving
    its deletionTimestamp.  The earliest of them.
    """
    departure, of_job = cluster.departures.get(pod.uid), cluster.job_deadlines.of(pod)
    ends = stated_end(cluster, pod, pod.start), departure, of_job + pod.grace if of_job is not None else None
    return min((end for end in ends if end is not None), default=None)


def stated_end(cluster: ClusterState, pod: PodRecord, start: float | None) -> float | None:
    """Return when a pod that starts at a time (None: not yet) ends, by what it or its group states; None: nothing.

    The earliest of `expected-end`, `expected-runtime` and `activeDeadlineSeconds` with the grace period on top.
    """
    terms = cluster.terms_of(pod)
    known = [terms.expected_end] if terms.expected_end is not None else []
    if start is not None and terms.expected_runtime is not None:
        known.append(start + terms.expected_runtime)
    if start is not None and terms.active_deadline is not None:
        known.append(start + terms.active_deadline + pod.grace)
    return min(known, default=None)


def until_completions(
    cluster: ClusterState,
    scheduled: Iterable[PodRecord],
    pods: Sequence[PodRecord],
    longest: float,
    assign: Callable[[], Assigned | None],
) -> Deferral | None:
    """None, or which units end soon enough that the preemptor waits for them.

    Soon enough: within `longest` seconds after the first of its `pods` was made.  `assign` tries to place it in the
    present view, None where that is not enough.
    """
    latest = _since(cluster, pods) + longest
    if latest <= cluster.now:
        return None
    ends: list[tuple[float, PodRecord]] = []
    for pod in scheduled:
        end = expected_end(cluster, pod)
        if end is not None and end <= latest and cluster.now < min(end + LATE, latest):
            ends.append((end, pod))
    if not ends:
        return None
    ends.sort(key=lambda entry: (entry[0], entry[1].uid))
    found = after_known_ends(cluster, ends, assign)
    if found is None:
        return None
    when, places = found
    rows = {row for _, row in places}
    awaited = tuple(pod for end, pod in ends if end <= when and pod.row in rows)
    text = f"waiting for {_named(awaited)} to end by {readable_time(when)}; no pods are evicted until then"
    return Deferral(WaitsFor.COMPLETIONS, text, min(when + LATE, latest), awaited)


def after_known_ends(
    cluster: ClusterState, ends: Sequence[tuple[float, PodRecord]], assign: Callable[[], Assigned | None]
) -> tuple[float, Assigned] | None:
    """Return the earliest of these ends (seconds, pod) at which `assign` has a place, and the place; None: at none."""
    times = sorted({end for end, _ in ends})

    def after(count: int) -> Assigned | None:
        with cluster.trial():
            cluster.displace_all([pod for end, pod in ends if end <= times[count - 1]])
            return assign()

    found = least_count(len(times), after)
    return (times[found[0] - 1], found[1]) if found is not None else None


def least_count(most: int, after: Callable[[int], Assigned | None]) -> tuple[int, Assigned] | None:
    """Return the least count from 1 to `most` with a place, and the place, by bisection; None: there is none.

    More free capacity is taken never to be worse.
    """
    places = after(most) if most else None
    if places is None:
        return None
    low, high = 1, most
    while low < high:
        middle = (low + high) // 2
        tried = after(middle)
        if tried is None:
            low = middle + 1
        else:
            high, places = middle, tried
    return high, places


# -- victims that are about to save their work -------------------------------------------------------------------------


def until_checkpoint(
    cluster: ClusterState, victims: Sequence[PodRecord], pods: Sequence[PodRecord], longest: float
) -> Deferral | None:
    """Return the wait for the moment when evicting these victims loses the least work; None if that is now.

    The moment is the next checkpoint of a victim within `longest` seconds after the first of the preemptor's `pods`
    was created. Victims that state no checkpoints lose more by each second of it (cost.md 6.7).
    """
    now, latest = cluster.now, _since(cluster, pods) + longest
    if latest <= now:
        return None
    moments: list[tuple[float, float, PodRecord]] = []
    growth = 0.0
    for pod in victims:
        gpus, cpus = processors(cluster.resources, pod.signature)
        weight = gpus or cpus
        growth += weight
        checkpoint = next_checkpoint(cluster, pod)
        if checkpoint is None:
            continue
        since, due = checkpoint
        moment = due + LATE if due + LATE > now else min(now + OVERDUE, latest)
        if moment <= latest:
            moments.append((moment, weight * (moment - since), pod))
    moments.sort(key=lambda entry: (entry[0], entry[2].uid))
    best, most, saved = 0, growth * 2 * LATE, 0.0
    for count, (moment, of_pod, _) in enumerate(moments, 1):
        saved += of_pod
        if saved - growth * (moment - now) > most:
            best, most = count, saved - growth * (moment - now)
    if not best:
        return None
    until = moments[best - 1][0]
    awaited = tuple(pod for _, _, pod in moments[:best])
    text = (
        f"waiting for {_named(awaited)} to save a checkpoint by {readable_time(until)}; no pods are evicted until then"
    )
    return Deferral(WaitsFor.CHECKPOINT, text, until, awaited)


def _since(cluster: ClusterState, pods: Sequence[PodRecord]) -> float:
    """Since when a preemptor has been there: the creation of its first pod, never after now, whatever the clock."""
    return min((cluster.now, *(pod.created for pod in pods)))


def _named(pods: Sequence[PodRecord]) -> str:
    names = [pod.key for pod in pods[:_MOST_NAMED]]
    more = len(pods) - len(names)
    text = ", ".join(names) + (f" and {more} more" if more else "")
    return f"{'pod' if len(pods) == 1 else 'pods'} {text}"
