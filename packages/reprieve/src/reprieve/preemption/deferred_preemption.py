"""Reasons for a preemptor to wait instead of evicting (cost.md 5.6, 5.7 and 6).

- Its *predecessor* terminates: pods of the same owner, as in a rolling update. Their capacity is reserved for the
  preemptor before any eviction.
- Its *delay* (`preemption-delay`) is not over: it waits for capacity that becomes free soon.
- *Completions*: units state when they end, and their capacity is enough in time.
- *Checkpoints*: the chosen victims are about to save their work.

Invariant: the cluster cache is not changed, and the same pods are evicted as without deferral; a deferred preemption is
tried again at a stated time at the latest.
"""

from collections.abc import Callable, Iterable, Sequence

from kube_rules.durations import readable_duration, readable_time
from kube_rules.errors import names_text
from kube_rules.work_annotations import LONGEST
from reprieve.cluster.groups import Group
from reprieve.cluster.pods import Owner, PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.framework.plugin import Assigned
from reprieve.preemption.lost_work import next_checkpoint, processors
from reprieve.preemption.outcome import Deferral, DeferralReason

LATE = 1.0
"""Seconds of waiting beyond a stated end: times have a precision of a second, and events arrive later."""
OVERDUE = 10.0
"""Seconds after which a preemptor checks again for a late checkpoint."""
_LEAST_SAVED = 2.0
"""Seconds of work of all victims that a wait for a checkpoint has to save more than."""
_MOST_NAMED = 3

Owners = frozenset[tuple[str, Owner]]
"""(namespace, highest known controller)."""


# -- predecessors -----------------------------------------------------------------------------------------------------


def owners_of(cluster: ClusterState, pods: Iterable[PodRecord], group: Group | None) -> Owners:
    """Return the owners of the pods and their group: the highest known controllers."""
    highest = cluster.controllers.highest
    result = {(pod.namespace, highest(pod.namespace, pod.owner, pod.labels)) for pod in pods if pod.owner is not None}
    if group is not None and group.owner is not None:
        result.add((group.namespace, highest(group.namespace, group.owner)))
    return frozenset(result)


def predecessors(cluster: ClusterState, owners: Owners, hold_seconds: float) -> list[PodRecord]:
    """Return terminating pods of the same owners, by UID.

    Pods that should have terminated `hold_seconds` ago are left out (0: they are not), because they may never
    terminate.
    """
    if not owners or not cluster.departures:
        return []
    result = []
    namespaces = {namespace for namespace, _ in owners}
    for (namespace, owner, key, _), uids in cluster.departing.items():
        group = cluster.groups.get(key) if key is not None else None
        if namespace not in namespaces or (owner is None and (group is None or group.owner is None)):
            continue
        # All have the same controller.
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
    """Defer a preemptor that fits where its predecessors are; it reserves these places and waits."""
    rows = {row for _, row in places}
    awaited = tuple(pod for pod in leaving if pod.row in rows) or tuple(leaving)
    dues = [due + hold_seconds for pod in awaited if (due := cluster.departures[pod.uid]) is not None]
    return Deferral(
        why=DeferralReason.PREDECESSOR,
        message=f"waiting for {_named(awaited)} of the same owner to terminate",
        until=min(*dues, cluster.now + LONGEST) if dues and hold_seconds > 0 else None,
        pods=awaited,
        nominations=tuple(places),
    )


# -- the preemptor's own delay ----------------------------------------------------------------------------------------


def until_delay_is_over(cluster: ClusterState, pods: Sequence[PodRecord]) -> Deferral | None:
    """Return a deferral until these pods may evict: their longest `preemption-delay` after the creation of the first.

    None: they may evict now. Time behind gates and before a restart counts.
    """
    delay = max((cluster.terms_of(pod).preemption_delay or 0.0 for pod in pods), default=0.0)
    until = _since(cluster, pods) + delay
    if until <= cluster.now:
        return None
    text = f"no pods are evicted before {readable_time(until)} (preemption-delay {readable_duration(delay)})"
    return Deferral(DeferralReason.DELAY, text, until)


# -- units that end by themselves --------------------------------------------------------------------------------------


def expected_end(cluster: ClusterState, pod: PodRecord) -> float | None:
    """Return the expected end of a scheduled pod by its annotations; None if unknown.

    The earliest of: the annotation `expected-end` of the pod or its group; `expected-runtime` after its start; its
    `activeDeadlineSeconds` plus its grace period after its start; the same of its Job after the Job's start; the
    deletionTimestamp of a terminating pod.
    """
    departure, of_job = cluster.departures.get(pod.uid), cluster.job_deadlines.of(pod)
    ends = stated_end(cluster, pod, pod.start), departure, of_job + pod.grace if of_job is not None else None
    return min((end for end in ends if end is not None), default=None)


def stated_end(cluster: ClusterState, pod: PodRecord, start: float | None) -> float | None:
    """Return the end of a pod by its or its group's annotations, with this start (None: not yet); None if unknown.

    The earliest of `expected-end`, `expected-runtime` and `activeDeadlineSeconds` plus the grace period.
    """
    terms = cluster.terms_of(pod)
    ends = [terms.expected_end] if terms.expected_end is not None else []
    if start is not None and terms.expected_runtime is not None:
        ends.append(start + terms.expected_runtime)
    if start is not None and terms.active_deadline is not None:
        ends.append(start + terms.active_deadline + pod.grace)
    return min(ends, default=None)


def until_completions(
    cluster: ClusterState,
    scheduled: Iterable[PodRecord],
    pods: Sequence[PodRecord],
    longest: float,
    assign: Callable[[], Assigned | None],
) -> Deferral | None:
    """Return a deferral until units end soon enough for the preemptor; None: it does not wait.

    Soon enough: within `longest` seconds after the creation of the first of its `pods`. `assign` tries to place it in
    the present view; None if it does not fit.
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
    earliest = after_known_ends(cluster, ends, assign)
    if earliest is None:
        return None
    when, places = earliest
    rows = {row for _, row in places}
    awaited = tuple(pod for end, pod in ends if end <= when and pod.row in rows)
    text = f"waiting for {_named(awaited)} to end by {readable_time(when)}; no pods are evicted until then"
    return Deferral(DeferralReason.COMPLETIONS, text, min(when + LATE, latest), awaited)


def after_known_ends(
    cluster: ClusterState, ends: Sequence[tuple[float, PodRecord]], assign: Callable[[], Assigned | None]
) -> tuple[float, Assigned] | None:
    """Return the earliest of these ends (seconds, pod) at which `assign` finds places, and the places; or None."""
    times = sorted({end for end, _ in ends})

    def after(count: int) -> Assigned | None:
        with cluster.trial():
            cluster.displace_all([pod for end, pod in ends if end <= times[count - 1]])
            return assign()

    least = least_count(len(times), after)
    return (times[least[0] - 1], least[1]) if least is not None else None


def least_count(most: int, after: Callable[[int], Assigned | None]) -> tuple[int, Assigned] | None:
    """Return the least count from 1 to `most` with places, and the places, by bisection; None if there is none.

    The search assumes that more free capacity is never worse.
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


# -- victims that will save their work soon -------------------------------------------------------------------------


def until_checkpoint(
    cluster: ClusterState, victims: Sequence[PodRecord], pods: Sequence[PodRecord], longest: float
) -> Deferral | None:
    """Return a deferral until evicting these victims loses the least work; None if that is now.

    The moment is the next checkpoint of a victim within `longest` seconds after the creation of the first of the
    preemptor's `pods`. Victims without checkpoints lose more with each second (cost.md 6.7).
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
    best, most, saved = 0, growth * _LEAST_SAVED, 0.0
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
    return Deferral(DeferralReason.CHECKPOINT, text, until, awaited)


def _since(cluster: ClusterState, pods: Sequence[PodRecord]) -> float:
    """Return the creation time of a preemptor's first pod, at most the present time."""
    return min((cluster.now, *(pod.created for pod in pods)))


def _named(pods: Sequence[PodRecord]) -> str:
    return f"{'pod' if len(pods) == 1 else 'pods'} {names_text([pod.key for pod in pods], _MOST_NAMED)}"
