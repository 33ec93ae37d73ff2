"""The pod-group cycle: all or nothing, in one consistent view (scheduling.md 3, preemption.md 4)."""

from collections.abc import Sequence
from dataclasses import replace

from reprieve.cluster.groups import GroupState
from reprieve.cluster.pods import PodRecord, queue_order
from reprieve.framework.plugin import (
    Assigned,
    Placement,
    PodGroupAssignment,
    PodGroupAttempt,
    PostFilterResult,
    TieBreaker,
)
from reprieve.framework.profile import Profile
from reprieve.framework.running import RunningProfile
from reprieve.framework.status import PlacementError, PluginError, call_plugin
from reprieve.plugins.dynamic_resources import NO_CLAIMS, NOT_SCHEDULABLE, DynamicResources
from reprieve.preemption.default_preemption import DefaultPreemption
from reprieve.preemption.eligibility import ineligible
from reprieve.preemption.outcome import GROUP_MEMBER, TERMINATING, NoRoom, Preemption, PreemptionInVain, PutOff
from reprieve.scheduling.decision import (
    GROUP_UNSCHEDULABLE,
    SCHEDULER_ERROR,
    UNSCHEDULABLE,
    WAITING_FOR_GROUP_PREEMPTION,
    WAITING_FOR_QUORUM,
    Binding,
    Decision,
    GroupCondition,
    Rejection,
    Result,
)
from reprieve.scheduling.group_algorithm import GroupAssignment, GroupCycle, place_group, scheduling_order
from reprieve.scheduling.group_orders import in_another_order, order_matters, retries
from reprieve.scheduling.group_placements import first_of, hopeful, place_in_one, placement_scores, proposed
from reprieve.scheduling.shared_device_placement import within_reach


class _Attempt(PodGroupAttempt):
    """The handle a PodGroupPostFilter gets (KEP-5710, "Pod Group Post Filter")."""

    def __init__(self, cycle: GroupCycle, placed: int, *, under_way: bool) -> None:
        self.cluster = cycle.running.cluster
        self.group = cycle.group
        self.pods = cycle.pods
        self.placements = cycle.placements
        self.preemption_under_way = under_way
        self._cycle = cycle
        self._placed = placed

    def run(
        self, ties: TieBreaker | None = None, within: Placement | None = None, *, diagnose: bool = False
    ) -> PodGroupAssignment:
        """See `PodGroupAttempt.run`. With placements and none given, the one that scores best."""

        def assign(
            order: Sequence[PodRecord], inside: Placement | None = None, *, diagnose: bool = False
        ) -> GroupAssignment:
            cycle = self._cycle.ordered(order)
            if within is None and self.placements is not None:
                return place_in_one(cycle, self.placements)
            return place_group(cycle, diagnose=diagnose, ties=ties, within=within or inside)

        found = assign(self.pods, diagnose=diagnose)
        if not found.feasible and retries(self._cycle.running):
            anywhere = within is None and self.placements is None
            found = in_another_order(self._cycle, found, assign, anywhere=anywhere) or found
        if not diagnose:
            return PodGroupAssignment(tuple(found.placed), found.feasible, {})
        texts = {id(diagnosis): diagnosis.message() for diagnosis in found.failed.values()}
        failed = {uid: texts[id(diagnosis)] for uid, diagnosis in found.failed.items()}
        first = next(iter(found.failed.values()), None)
        return PodGroupAssignment(tuple(found.placed), found.feasible, failed, first)

    def hopeful(self) -> Sequence[Placement]:
        """See `PodGroupAttempt.hopeful`."""
        return hopeful(self._cycle, self.placements or ())

    def placement_scores(self, found: Sequence[tuple[Placement, Assigned, Sequence[PodRecord]]]) -> Sequence[int]:
        """See `PodGroupAttempt.placement_scores`."""
        return placement_scores(self._cycle.running, self.group, found)

    @property
    def placed_without_help(self) -> int:
        """See `PodGroupAttempt.placed_without_help`."""
        return self._placed

    @property
    def nominated_rows(self) -> Sequence[int]:
        """See `PodGroupAttempt.nominated_rows`."""
        return list(self._cycle.nominated.values())


def divergence(group: GroupState, pods: Sequence[PodRecord], *, group_policy: bool) -> str | None:
    """None, or why the members cannot be one group: mixed schedulers, priorities or policies (preemption.md 8).

    Every member counts that is not on its way out, scheduled ones and those of other schedulers too, and a lone one as
    well as several: what it asks for itself must not be had by way of its group.  A group without a priority has
    nothing to compare.  A lone member is let through where neither it nor its group names a priority class: admission
    leaves no such objects, and kube-scheduler 1.36 places them by the group's number.  In a group of another API pods
    that name no class are of the group's priority (workloads.md 2.6).

    With `group_policy` (the gate PodGroupPreemptionPolicy) members must have the group's own preemptionPolicy; a group
    that has none, as in versions without the field, follows its members, who must agree.  Without the gate they may
    differ, and one Never makes the group Never (preemption.md 2.2).
    """
    spec = group.spec
    first = pods[0]
    tried = {pod.uid for pod in pods}
    others = [pod for pod in group.members.values() if pod.uid not in tried and not pod.terminating]
    members = [*pods, *sorted(others, key=queue_order)]
    for pod in members:
        if pod.scheduler_name != first.scheduler_name:
            return (
                "all pods in a single pod group should have the same .spec.schedulerName set, "
                f'got: "{pod.scheduler_name}" and "{first.scheduler_name}"'
            )
    classless = spec is not None and len(members) == 1 and not spec.names_class and not first.names_class
    if spec is not None and spec.has_priority and not classless:
        for pod in members:
            if pod.priority != spec.priority and (pod.names_class or spec.foreign is None):
                return (
                    "all pods in a single pod group should match the priority of the pod group, "
                    f"got: {pod.priority} and {spec.priority}"
                )
    if not group_policy:
        return None
    own = spec.preemption_policy if spec is not None else None
    wanted = own or _policy(first)
    for pod in members:
        if _policy(pod) != wanted:
            whose = " as the pod group's preemption policy" if own else ""
            return (
                f"all pods in a single pod group should have the same preemption policy{whose}, "
                f"got {_policy(pod)} and {wanted}"
            )
    return None


def _policy(pod: PodRecord) -> str:
    return "Never" if pod.never_preempts else "PreemptLowerPriority"


def schedule_group(
    running: RunningProfile, key: str, group: GroupState, members: Sequence[PodRecord], *, under_way: bool
) -> Decision:
    """Decide for a whole group. The cluster is left as it was; the engine applies the decision."""
    cluster = running.cluster
    pods = scheduling_order(members)
    at_odds = divergence(group, pods, group_policy=running.gates.pod_group_preemption_policy)
    if at_odds is not None:
        return failed_group(key, group, pods, at_odds)
    try:
        placements = proposed(running, group)
    except PlacementError as error:
        names = frozenset(plugin.name for plugin in running.profile.placement_generators)
        return replace(failed_group(key, group, pods, str(error)), rejected_by=names)
    cycle = GroupCycle(running, group, pods, {pod.uid: pod.nominated for pod in pods if pod.nominated >= 0}, placements)
    first_attempt = group.scheduled == 0
    with cluster.trial():
        if not _makes_room(cycle, under_way=under_way):
            for pod in pods:
                cluster.clear_nomination(pod)
        matters = None
        found = _assigned(cycle)
        if not found.feasible:
            other = in_another_order(
                cycle,
                found,
                lambda order, inside: _assigned(cycle.ordered(order), diagnose=False, inside=inside),
                anywhere=placements is None,
            )
            if other is not None and retries(running):
                placed = {pod.uid for pod, _ in other.placed}
                why = {uid: diagnosis for uid, diagnosis in found.failed.items() if uid not in placed}
                found = replace(other, failed=why, rejected_by=found.rejected_by | other.rejected_by)
            else:
                matters = order_matters(cycle, other)
        complete = len(found.placed) == len(pods)
        bind_first = first_attempt or not group.is_gang
        if found.feasible and (complete or bind_first):
            return _bind(cycle, key, found, retry_now=not complete)
        attempt = _Attempt(cycle, len(found.placed), under_way=under_way)
        try:
            outcome, texts, in_vain = _post_filters(running, attempt, feasible=found.feasible)
        except PluginError as trouble:
            running.complaints.append(trouble)
            failed = failed_group(key, group, pods, str(trouble))
            # Trouble, not lack of room: it is tried again after backoff.
            return replace(failed, rejected_by=frozenset(), in_vain=PreemptionInVain(group, NoRoom.ERROR))
    if outcome is not None and isinstance(outcome.proposal, Preemption):
        return replace(_wait(cycle, key, found, outcome.proposal), order_matters=matters)
    if found.feasible:
        # The others are tried again at once: with these bound they may be worth a preemption of their own.
        return replace(_bind(cycle, key, found, retry_now=True), in_vain=in_vain)
    put_off = outcome.put_off if outcome is not None and isinstance(outcome.put_off, PutOff) else None
    held = put_off.nominations if put_off is not None else ()
    rejected = _reject(cycle, key, found, texts, clear=outcome is None or outcome.clear_nomination)
    kept = {pod.uid for pod, _ in held}
    return replace(
        rejected,
        put_off=put_off,
        nominations=tuple((pod, running.cluster.nodes.names[row]) for pod, row in held),
        cleared=tuple(pod for pod in rejected.cleared if pod.uid not in kept),
        deferred_writes=outcome.deferred_writes if outcome is not None else (),
        in_vain=in_vain,
        order_matters=matters,
    )


def _makes_room(cycle: GroupCycle, *, under_way: bool) -> bool:
    """Whether victims are still leaving for a member: its room is not for the others of the group to take."""
    spec = cycle.group.spec
    priority = spec.priority if spec is not None else 0
    rows = cycle.nominated.values()
    return ineligible(cycle.running.cluster, priority, False, rows, under_way=under_way) is not None


def _assigned(cycle: GroupCycle, *, diagnose: bool = True, inside: Placement | None = None) -> GroupAssignment:
    """Run the group's algorithm on its pods in that order, in the present view; `inside`: only on these nodes."""
    if cycle.placements is not None:
        return place_in_one(cycle, cycle.placements)
    found = place_group(cycle, diagnose=diagnose, within=inside)
    return found if found.feasible or inside is not None else within_reach(cycle) or found


def _post_filters(
    running: RunningProfile, attempt: _Attempt, *, feasible: bool
) -> tuple[PostFilterResult | None, list[str], PreemptionInVain | None]:
    """Run PodGroupPostFilter plugins in order; the first Success ends it.

    So do deferred_writes, unless the group is `feasible`: what its members have is about to be used.
    """
    texts: list[str] = []
    last = in_vain = None
    for plugin in running.profile.group_post_filters:
        last = call_plugin(plugin.name, "PodGroupPostFilter", plugin.pod_group_post_filter, attempt)
        if last.status.ok:
            return last, texts, None
        if last.status.reason:
            texts.append(last.status.reason)
        if isinstance(last.in_vain, PreemptionInVain):
            in_vain = last.in_vain
        if (last.deferred_writes or last.put_off is not None) and not feasible:
            break
    return last, texts, in_vain


def _bind(cycle: GroupCycle, key: str, found: GroupAssignment, *, retry_now: bool) -> Decision:
    names = cycle.running.cluster.nodes.names
    return Decision(
        key=key,
        result=Result.SCHEDULED,
        bindings=tuple(Binding(pod, names[row], row) for pod, row in found.placed),
        rejections=_rejections(cycle, found, group_failed=False),
        condition=GroupCondition(cycle.group.key, True, "Scheduled", ""),
        diagnosis=next(iter(found.failed.values()), None),
        rejected_by=frozenset(found.rejected_by),
        retry_now=retry_now,
    )


def _wait(cycle: GroupCycle, key: str, found: GroupAssignment, preemption: Preemption) -> Decision:
    names = cycle.running.cluster.nodes.names
    nominated = {pod.uid for pod, _ in preemption.nominations}
    return Decision(
        key=key,
        result=Result.WAITING,
        rejections=tuple(
            Rejection(pod, UNSCHEDULABLE, WAITING_FOR_GROUP_PREEMPTION)
            if pod.uid in nominated
            else Rejection(pod, UNSCHEDULABLE, GROUP_UNSCHEDULABLE)
            for pod in cycle.pods
        ),
        condition=GroupCondition(cycle.group.key, False, UNSCHEDULABLE, WAITING_FOR_GROUP_PREEMPTION),
        preemption=preemption,
        nominations=tuple((pod, names[row]) for pod, row in preemption.nominations),
        cleared=tuple(pod for pod in cycle.pods if pod.nominated >= 0 and pod.uid not in nominated),
        diagnosis=next(iter(found.failed.values()), None),
        rejected_by=frozenset(found.rejected_by),
        retry_now=not preemption.victims,
    )


def _reject(cycle: GroupCycle, key: str, found: GroupAssignment, texts: Sequence[str], *, clear: bool) -> Decision:
    # Tried again while its victims still leave, a group is still waiting for them (observability.md, "Conditions").
    waits = texts and texts[-1] == TERMINATING
    by_topology = cycle.running.gates.topology_aware_workload_scheduling
    why = found.why or (first_of(1) if by_topology else GROUP_UNSCHEDULABLE)
    message = WAITING_FOR_GROUP_PREEMPTION if waits else ", ".join([why, *texts])
    return Decision(
        key=key,
        result=Result.UNSCHEDULABLE,
        rejections=_rejections(cycle, found, group_failed=True),
        condition=GroupCondition(cycle.group.key, False, UNSCHEDULABLE, message),
        cleared=tuple(pod for pod in cycle.pods if pod.nominated >= 0) if clear else (),
        diagnosis=next(iter(found.failed.values()), None),
        rejected_by=frozenset(found.rejected_by),
    )


def failed_group(key: str, group: GroupState, pods: Sequence[PodRecord], error: str) -> Decision:
    """SchedulerError for every member and the group (scheduling.md 3.7)."""
    return Decision(
        key=key,
        result=Result.ERROR,
        rejections=tuple(Rejection(pod, SCHEDULER_ERROR, error) for pod in pods),
        condition=GroupCondition(group.key, False, SCHEDULER_ERROR, error),
        cleared=tuple(pod for pod in pods if pod.nominated >= 0),
        rejected_by=frozenset({"GangScheduling"}),
    )


def _rejections(cycle: GroupCycle, found: GroupAssignment, *, group_failed: bool) -> tuple[Rejection, ...]:
    profile = cycle.running.profile
    placed = {pod.uid for pod, _ in found.placed}
    messages: dict[int, str] = {}
    rejections = []
    for pod in cycle.pods:
        diagnosis = found.failed.get(pod.uid)
        if diagnosis is not None:
            message = messages.get(id(diagnosis))
            if message is None:
                message = messages[id(diagnosis)] = diagnosis.message(_post_filters_of_member(profile, pod))
        elif pod.uid in placed:
            if not group_failed:
                continue
            message = WAITING_FOR_QUORUM
        else:
            message = GROUP_UNSCHEDULABLE
        rejections.append(Rejection(pod, UNSCHEDULABLE, message))
    return tuple(rejections)


def _post_filters_of_member(profile: Profile, pod: PodRecord) -> str:
    """What in-tree PostFilter plugins say of a pod of a group, for which they do nothing (preemption.md 2.4)."""
    said = {
        DynamicResources.name: NOT_SCHEDULABLE if pod.claims else NO_CLAIMS,
        DefaultPreemption.name: f"preemption: {GROUP_MEMBER}",
    }
    return ", ".join(said[plugin.name] for plugin in profile.post_filters if plugin.name in said)
