"""The pod-group cycle: all or nothing, in one consistent view (scheduling.md 3, preemption.md 4, composite.md 3).

A pod group and a tree of them use the same code; a group without a parent is a tree of one level.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from reprieve.cluster.groups import Group, GroupState
from reprieve.cluster.pods import PodRecord
from reprieve.framework.plugin import (
    Assigned,
    Placement,
    PodGroupAssignment,
    PodGroupAttempt,
    PostFilterResult,
    TieBreaker,
)
from reprieve.framework.profile import Profile
from reprieve.framework.running_profile import RunningProfile
from reprieve.framework.status import PlacementError, PluginError, call_plugin
from reprieve.plugins.dynamic_resources import NO_CLAIMS, NOT_SCHEDULABLE, DynamicResources
from reprieve.preemption.default_preemption import DefaultPreemption
from reprieve.preemption.eligibility import ineligible
from reprieve.preemption.joint_preemption import Peer
from reprieve.preemption.outcome import (
    GROUP_MEMBER,
    GROUP_UNSCHEDULABLE,
    TERMINATING,
    Deferral,
    Preemption,
    UnhelpfulPreemption,
    UnhelpfulReason,
)
from reprieve.scheduling.arranged_groups import arranged
from reprieve.scheduling.decision import (
    SCHEDULED,
    SCHEDULER_ERROR,
    UNSCHEDULABLE,
    WAITING_FOR_GROUP_PREEMPTION,
    WAITING_FOR_QUORUM,
    Binding,
    Decision,
    GroupCondition,
    OrderMatters,
    Rejection,
    Result,
    TreeLevel,
    below_unschedulable,
)
from reprieve.scheduling.divergence import conflict_of
from reprieve.scheduling.group_algorithm import GroupAssignment, GroupCycle, place_group
from reprieve.scheduling.group_orders import in_another_order, order_matters, retries
from reprieve.scheduling.group_placements import first_of, hopeful, place_in_one, placement_scores, proposed
from reprieve.scheduling.overtaken_nominations import group_is_overtaken
from reprieve.scheduling.plugin_evictions import Preemptor, held_places, taken
from reprieve.scheduling.shared_device_placement import within_reach
from reprieve.scheduling.slice_units import has_slices
from reprieve.scheduling.tree_algorithm import arranged_tree, in_another_way, order_of, place


class _Attempt(PodGroupAttempt):
    """The handle for a PodGroupPostFilter (KEP-5710, "Pod Group Post Filter")."""

    def __init__(self, cycle: GroupCycle, placed: int, *, under_way: bool) -> None:
        self.cluster = cycle.running.cluster
        self.group = cycle.group
        self.pods = cycle.pods
        self.placements, below = _where(cycle)
        self.constrained_below = below or has_slices(cycle.running, cycle.group, cycle.pods)
        self.preemption_under_way = under_way
        self._cycle = cycle
        self._placed = placed

    def run(
        self,
        ties: TieBreaker | None = None,
        within: Placement | None = None,
        *,
        diagnose: bool = False,
        chosen: Mapping[str, Placement] | None = None,
    ) -> PodGroupAssignment:
        """Run the attempt (`PodGroupAttempt.run`). With placements and no `within`, the best-scoring one is used."""
        if not isinstance(self.group, GroupState):
            ties = None if self.constrained_below else ties
            return _answer(self._walked(ties, within, chosen or {}, diagnose=diagnose), diagnose)

        def assign(order: Sequence[PodRecord], inside: Placement | None) -> GroupAssignment:
            cycle = self._cycle.ordered(order)
            if within is None and self.placements is not None:
                return place_in_one(cycle, self.placements)
            return place_group(cycle, diagnose=diagnose, ties=ties, within=within or inside)

        assignment = assign(self.pods, None)
        if not assignment.feasible and retries(self._cycle.running):
            anywhere = within is None and self.placements is None
            assignment = in_another_order(self._cycle, assignment, assign, anywhere=anywhere) or assignment
        return _answer(assignment, diagnose)

    def choices_below(self, within: Placement | None) -> Sequence[tuple[Group, Sequence[Placement]]]:
        if not self.constrained_below or isinstance(self.group, GroupState):
            return ()
        choices = ((sub, proposed(self._cycle.running, sub, within)) for sub in self.group.below())
        return [(sub, domains) for sub, domains in choices if domains is not None and not _is_all_of(within, domains)]

    def _walked(
        self,
        ties: TieBreaker | None,
        within: Placement | None,
        chosen: Mapping[str, Placement],
        *,
        diagnose: bool,
    ) -> GroupAssignment:
        """Run the algorithm for a tree."""
        result = place(self._cycle, diagnose=diagnose, ties=ties, within=within, chosen=chosen)
        if not result.feasible and retries(self._cycle.running):
            result = in_another_way(self._cycle, result, within) or result
        return result

    def hopeful(self) -> Sequence[Placement]:
        return hopeful(self._cycle, self.placements or ())

    def placement_scores(self, candidates: Sequence[tuple[Placement, Assigned, Sequence[PodRecord]]]) -> Sequence[int]:
        return placement_scores(self._cycle.running, self.group, candidates)

    @property
    def placed_without_help(self) -> int:
        return self._placed

    @property
    def nominated_rows(self) -> Sequence[int]:
        return list(self._cycle.nominated.values())


def _is_all_of(placement: Placement | None, domains: Sequence[Placement]) -> bool:
    """Return whether there is only one domain, and it is the whole placement."""
    return len(domains) == 1 and placement is not None and len(domains[0].rows) == len(placement.rows)


def _answer(assignment: GroupAssignment, diagnose: bool) -> PodGroupAssignment:
    if not diagnose:
        return PodGroupAssignment(tuple(assignment.placed), assignment.feasible, {})
    texts = {id(diagnosis): diagnosis.message() for diagnosis in assignment.failed.values()}
    failed = {uid: texts[id(diagnosis)] for uid, diagnosis in assignment.failed.items()}
    first = next(iter(assignment.failed.values()), None)
    return PodGroupAssignment(tuple(assignment.placed), assignment.feasible, failed, first)


def _where(cycle: GroupCycle) -> tuple[Sequence[Placement] | None, bool]:
    """Return the placements of the topmost group if the whole tree is below it, and whether others have some."""
    if isinstance(cycle.group, GroupState):
        return cycle.placements, False
    running, group = cycle.running, cycle.group
    anchor: Group | None = group
    placements = cycle.placements
    while placements is None and anchor is not None:
        children = [child for child in anchor.children if child.fault is None]
        anchor = children[0] if len(children) == 1 else None
        placements = proposed(running, anchor) if anchor is not None else None
    rest = (item for item in group.below() if item is not anchor)
    return placements, any(proposed(running, item) is not None for item in rest)


def schedule_group(
    running: RunningProfile,
    ref: str,
    group: Group,
    members: Sequence[PodRecord],
    *,
    under_way: bool,
    lingering: bool = False,
    planned: object = None,
) -> Decision:
    """Decide for a whole group, or a tree of them. The cluster is not changed; the engine applies the decision.

    `planned`: its part in an eviction for several preemptors (cost.md 8).
    """
    pods = order_of(group, members)
    odds = conflict_of(group, pods, group_policy=running.gates.pod_group_preemption_policy)
    if odds is not None:
        error, reason = odds
        return failed_group(ref, group, pods, error, composites=reason)
    try:
        return _schedule(running, ref, group, pods, under_way=under_way, lingering=lingering, planned=planned)
    except PlacementError as error:
        names = frozenset(plugin.name for plugin in running.profile.placement_generators)
        return replace(failed_group(ref, group, pods, str(error)), rejected_by=names)


def group_without_help(
    running: RunningProfile, ref: str, group: Group, members: Sequence[PodRecord]
) -> Decision | None:
    """Decide for a group without evictions; None if it does not fit in the present view."""
    cycle = _undisputed(running, group, members)
    if cycle is None:
        return None
    with running.cluster.trial():
        _lift_nominations(cycle)
        result = _assigned(cycle, diagnose=False)
        return _bind(cycle, ref, result, retry_now=len(result.placed) < len(cycle.pods)) if result.feasible else None


def group_places(
    running: RunningProfile, group: Group, members: Sequence[PodRecord], nominated: Mapping[str, int] | None = None
) -> Assigned | None:
    """Return (pod, row) of the members if the group fits in the present view, in which they are not nominated.

    `nominated`: rows that are tried first, by UID.
    """
    cycle = _undisputed(running, group, members)
    if cycle is not None and nominated:
        cycle = replace(cycle, nominated=nominated)
    assignment = _assigned(cycle, diagnose=False) if cycle is not None else None
    return tuple(assignment.placed) if assignment is not None and assignment.feasible else None


def _undisputed(running: RunningProfile, group: Group, members: Sequence[PodRecord]) -> GroupCycle | None:
    """Return a cycle of the group; None if its members conflict or it has no valid placement."""
    pods = order_of(group, members)
    if conflict_of(group, pods, group_policy=running.gates.pod_group_preemption_policy) is not None:
        return None
    try:
        placements = proposed(running, group)
    except PlacementError:
        return None
    nominated = {pod.uid: pod.nominated for pod in pods if pod.nominated >= 0}
    return GroupCycle(running, group, pods, nominated, placements)


def _schedule(
    running: RunningProfile,
    ref: str,
    group: Group,
    pods: Sequence[PodRecord],
    *,
    under_way: bool,
    lingering: bool,
    planned: object,
) -> Decision:
    """Decide for a group. Raises PlacementError if a group of the tree has no valid placement."""
    cluster = running.cluster
    placements = proposed(running, group)
    cycle = GroupCycle(running, group, pods, {pod.uid: pod.nominated for pod in pods if pod.nominated >= 0}, placements)
    with cluster.trial():
        waits = _makes_room(cycle, under_way=under_way)
        if not waits:
            _lift_nominations(cycle)
        assignment = _assigned(cycle)
        overtaken = waits and not lingering and not assignment.feasible and _is_overtaken(cycle, under_way=under_way)
        if overtaken:
            _lift_nominations(cycle)
            assignment = _assigned(cycle)
        assignment, matters = _in_another_order(cycle, assignment)
        complete = len(assignment.placed) == len(pods)
        if _binds(cycle, assignment):
            return _bind(cycle, ref, assignment, retry_now=not complete)
        attempt = _Attempt(cycle, len(assignment.placed), under_way=under_way and not overtaken)
        attempt.overtaken, attempt.planned = overtaken, planned
        try:
            outcome, texts, unhelpful = _post_filters(running, attempt, feasible=assignment.feasible)
            trouble = None
        except PluginError as error:
            trouble = error
    if trouble is not None:
        running.report(trouble)
        failed = failed_group(ref, group, pods, str(trouble))
        # an error, not a lack of capacity: retry after backoff
        return replace(failed, rejected_by=frozenset(), unhelpful=UnhelpfulPreemption(group, UnhelpfulReason.ERROR))
    if outcome is not None and isinstance(outcome.proposal, Preemption):
        return replace(_wait(cycle, ref, assignment, outcome.proposal), order_matters=matters)
    if assignment.feasible:
        # The others are tried again at once: with these bound, a preemption for the others may be worthwhile.
        return replace(_bind(cycle, ref, assignment, retry_now=True), unhelpful=unhelpful)
    deferral = outcome.deferral if outcome is not None and isinstance(outcome.deferral, Deferral) else None
    reserved = held_places(outcome)
    clear = overtaken or outcome is None or outcome.clear_nomination
    rejected = _reject(cycle, ref, assignment, texts, clear=clear)
    reserved_uids = {pod.uid for pod, _ in reserved}
    return replace(
        rejected,
        deferral=deferral,
        nominations=tuple((pod, running.cluster.nodes.names[row]) for pod, row in reserved),
        cleared_nominations=tuple(pod for pod in rejected.cleared_nominations if pod.uid not in reserved_uids),
        deferred_writes=outcome.deferred_writes if outcome is not None else (),
        unhelpful=unhelpful,
        order_matters=matters,
    )


def _binds(cycle: GroupCycle, assignment: GroupAssignment) -> bool:
    """Return whether the result is bound without evictions: all members are placed, or enough to start."""
    if not assignment.feasible or len(assignment.placed) == len(cycle.pods):
        return assignment.feasible
    leaves = list(cycle.group.leaves())
    # Composites bind first; scheduling.md 3.4 applies to a gang without siblings.
    return cycle.group.scheduled == 0 or len(leaves) > 1 or not leaves[0].is_gang


def peer_of(
    running: RunningProfile, ref: str, group: Group, members: Sequence[PodRecord], *, fitting: bool = False
) -> Peer | Assigned:
    """Return a group that is not nominated as one of several preemptors, or its places without an eviction.

    Empty places: it cannot be tried at all. `fitting`: return a preemptor even if it fits without an eviction.
    """
    pods = order_of(group, members)
    if conflict_of(group, pods, group_policy=running.gates.pod_group_preemption_policy) is not None:
        return ()
    try:
        cycle = GroupCycle(running, group, pods, placements=proposed(running, group))
        assignment, _ = _in_another_order(cycle, _assigned(cycle))
        binds = _binds(cycle, assignment)
        if binds and not fitting:
            return tuple(assignment.placed)
        attempt = _Attempt(cycle, 0 if binds else len(assignment.placed), under_way=False)
    except PlacementError:
        return ()

    def place(ties: TieBreaker | None, within: Placement | None) -> Assigned:
        assignment = attempt.run(ties, within)
        enough = assignment.feasible and len(assignment.placed) > attempt.placed_without_help
        return assignment.placed if enough else ()

    constrained = attempt.placements is not None or attempt.constrained_below
    return Peer(ref, group, pods, place, constrained=constrained)


def _in_another_order(cycle: GroupCycle, usual: GroupAssignment) -> tuple[GroupAssignment, OrderMatters | None]:
    """Retry a failed group in another order, if allowed; return the outcome, and a hint if the order matters."""
    alternative = _otherwise(cycle, usual) if not usual.feasible else None
    if usual.feasible:
        return usual, None
    if alternative is None or not retries(cycle.running):
        return usual, order_matters(cycle, alternative)
    placed = {pod.uid for pod, _ in alternative.placed}
    why = {uid: diagnosis for uid, diagnosis in usual.failed.items() if uid not in placed}
    return replace(alternative, failed=why, rejected_by=usual.rejected_by | alternative.rejected_by), None


def _makes_room(cycle: GroupCycle, *, under_way: bool) -> bool:
    """Return whether victims of a member are still terminating: their capacity is not for other members."""
    spec = cycle.group.spec
    priority = spec.priority if spec is not None else 0
    rows = cycle.nominated.values()
    return ineligible(cycle.running.cluster, priority, False, rows, under_way=under_way) is not None


def _lift_nominations(cycle: GroupCycle) -> None:
    for pod in cycle.pods:
        cycle.running.cluster.clear_nomination(pod)


def _is_overtaken(cycle: GroupCycle, *, under_way: bool) -> bool:
    """Return whether the group still fails after its victims have terminated (preemption.md 2.7)."""
    spec = cycle.group.spec
    return group_is_overtaken(
        cycle.running.cluster,
        spec.priority if spec is not None else 0,
        cycle.nominated.values(),
        lambda: _assigned(cycle, diagnose=False).feasible,
        under_way=under_way,
    )


def _otherwise(cycle: GroupCycle, failed: GroupAssignment) -> GroupAssignment | None:
    """Return another way to place a group that failed in the usual order, if one is known."""
    if not isinstance(cycle.group, GroupState):
        return in_another_way(cycle, failed)
    return in_another_order(
        cycle,
        failed,
        lambda order, inside: _assigned(cycle.ordered(order), diagnose=False, inside=inside),
        anywhere=cycle.placements is None,
    )


def _assigned(cycle: GroupCycle, *, diagnose: bool = True, inside: Placement | None = None) -> GroupAssignment:
    """Run the group's algorithm on its pods in that order, in the present view; `inside`: only on these nodes."""
    if not isinstance(cycle.group, GroupState):
        assignment = place(cycle, diagnose=diagnose, within=inside)
        return arranged_tree(cycle, assignment, inside, diagnose=diagnose) if assignment.feasible else assignment
    if cycle.placements is not None:
        assignment = place_in_one(cycle, cycle.placements)
    else:
        assignment = place_group(cycle, diagnose=diagnose, within=inside)
        assignment = assignment if assignment.feasible or inside is not None else within_reach(cycle) or assignment
    return arranged(cycle, assignment, inside) if assignment.feasible else assignment


def _post_filters(
    running: RunningProfile, attempt: _Attempt, *, feasible: bool
) -> tuple[PostFilterResult | None, list[str], UnhelpfulPreemption | None]:
    """Run PodGroupPostFilter plugins in order; the first Success ends it.

    Deferred writes end it too, unless the group is `feasible`: its members then use what they have.
    """
    texts: list[str] = []
    last = unhelpful = None
    for plugin in running.profile.group_post_filters:
        last = call_plugin(plugin.name, "PodGroupPostFilter", plugin.pod_group_post_filter, attempt)
        if last.status.ok and (last.nominations or last.victims):
            preemptor = Preemptor.of_group(running, attempt)
            last = taken(running, preemptor, last, plugin.name, "PodGroupPostFilter")
        if last.status.ok:
            return last, texts, None
        if last.status.reason:
            texts.append(last.status.reason)
        if isinstance(last.unhelpful, UnhelpfulPreemption):
            unhelpful = last.unhelpful
        if (last.deferred_writes or last.deferral is not None) and not feasible:
            break
    return last, texts, unhelpful


def _bind(cycle: GroupCycle, ref: str, assignment: GroupAssignment, *, retry_now: bool) -> Decision:
    names = cycle.running.cluster.nodes.names
    return Decision(
        ref=ref,
        result=Result.SCHEDULED,
        bindings=tuple(Binding(pod, names[row], row) for pod, row in assignment.placed),
        rejections=_rejections(cycle, assignment, group_failed=False),
        conditions=_scheduled(cycle.group, assignment),
        levels=_levels(cycle.group, assignment),
        diagnosis=next(iter(assignment.failed.values()), None),
        rejected_by=frozenset(assignment.rejected_by),
        retry_now=retry_now,
    )


def _wait(cycle: GroupCycle, ref: str, assignment: GroupAssignment, preemption: Preemption) -> Decision:
    names = cycle.running.cluster.nodes.names
    nominated = {pod.uid for pod, _ in preemption.nominations}
    return Decision(
        ref=ref,
        result=Result.WAITING,
        rejections=tuple(
            Rejection(pod, UNSCHEDULABLE, WAITING_FOR_GROUP_PREEMPTION)
            if pod.uid in nominated
            else Rejection(pod, UNSCHEDULABLE, GROUP_UNSCHEDULABLE)
            for pod in cycle.pods
        ),
        conditions=_all_of(cycle.group, UNSCHEDULABLE, WAITING_FOR_GROUP_PREEMPTION),
        levels=_levels(cycle.group, assignment),
        preemption=preemption,
        nominations=tuple((pod, names[row]) for pod, row in preemption.nominations),
        cleared_nominations=tuple(pod for pod in cycle.pods if pod.nominated >= 0 and pod.uid not in nominated),
        diagnosis=next(iter(assignment.failed.values()), None),
        rejected_by=frozenset(assignment.rejected_by),
        retry_now=not preemption.victims,
    )


def _reject(cycle: GroupCycle, ref: str, assignment: GroupAssignment, texts: Sequence[str], *, clear: bool) -> Decision:
    # If its victims are still terminating, a retried group is still waiting for them (observability.md, "Conditions").
    waits = texts and texts[-1] == TERMINATING
    by_topology = cycle.running.gates.topology_aware_workload_scheduling
    why = assignment.message or (first_of(1) if by_topology else GROUP_UNSCHEDULABLE)
    message = WAITING_FOR_GROUP_PREEMPTION if waits else ", ".join([why, *texts])
    return Decision(
        ref=ref,
        result=Result.UNSCHEDULABLE,
        rejections=_rejections(cycle, assignment, group_failed=True),
        conditions=_unschedulable(cycle.group, assignment, message),
        levels=_levels(cycle.group, assignment),
        cleared_nominations=tuple(pod for pod in cycle.pods if pod.nominated >= 0) if clear else (),
        diagnosis=next(iter(assignment.failed.values()), None),
        rejected_by=frozenset(assignment.rejected_by),
    )


def _condition(group: Group, scheduled: bool, reason: str, message: str) -> GroupCondition:
    return GroupCondition(group.key, scheduled, reason, message, composite=not isinstance(group, GroupState))


def _all_of(group: Group, reason: str, message: str) -> tuple[GroupCondition, ...]:
    """Return the conditions of all groups of a tree."""
    return tuple(_condition(item, False, reason, message) for item in group.below())


def _scheduled(group: Group, assignment: GroupAssignment) -> tuple[GroupCondition, ...]:
    """Return the conditions of a tree that succeeded: its groups did, except those below a failed one."""
    if isinstance(group, GroupState):
        return (_condition(group, True, SCHEDULED, ""),)
    conditions = []
    succeeded = set()
    for item in group.below():
        level = assignment.levels.get(item.ref)
        above = item is group or (item.spec is not None and item.spec.parent in succeeded)
        if level is not None and level.ok and above:
            if not isinstance(item, GroupState):
                succeeded.add(item.key)
            conditions.append(_condition(item, True, SCHEDULED, ""))
        else:
            why = level.reason if level is not None and level.reason else GROUP_UNSCHEDULABLE
            conditions.append(_condition(item, False, UNSCHEDULABLE, why))
    return tuple(conditions)


def _unschedulable(group: Group, assignment: GroupAssignment, message: str) -> tuple[GroupCondition, ...]:
    """Return the conditions of a tree that failed: each group has its own reason, or the failure of one above it."""
    conditions = [_condition(group, False, UNSCHEDULABLE, message)]
    for item in group.below():
        if item is not group:
            level = assignment.levels.get(item.ref)
            why = level.reason if level is not None and level.reason else below_unschedulable(group.name)
            conditions.append(_condition(item, False, UNSCHEDULABLE, why))
    return tuple(conditions)


def _levels(group: Group, assignment: GroupAssignment) -> tuple[TreeLevel, ...]:
    """Return the results of the groups of a tree; empty for one level."""
    if isinstance(group, GroupState):
        return ()
    return tuple(
        TreeLevel(
            kind=item.kind,
            group=item.key,
            ok=level.ok,
            needed=max(1, item.min_count),
            succeeded=level.succeeded,
            total=level.total,
            reason=level.reason,
            failed_groups=level.failed_groups,
        )
        for item in group.below()
        if (level := assignment.levels.get(item.ref)) is not None
    )


def failed_group(
    ref: str, group: Group, pods: Sequence[PodRecord], error: str, *, composites: str = SCHEDULER_ERROR
) -> Decision:
    """Return SchedulerError for every member and the groups (scheduling.md 3.7); `composites`: their reason."""
    conditions = tuple(
        _condition(item, False, SCHEDULER_ERROR if isinstance(item, GroupState) else composites, error)
        for item in group.below()
    )
    return Decision(
        ref=ref,
        result=Result.ERROR,
        rejections=tuple(Rejection(pod, SCHEDULER_ERROR, error) for pod in pods),
        conditions=conditions,
        cleared_nominations=tuple(pod for pod in pods if pod.nominated >= 0),
        rejected_by=frozenset({"GangScheduling"}),
    )


def _rejections(cycle: GroupCycle, assignment: GroupAssignment, *, group_failed: bool) -> tuple[Rejection, ...]:
    profile = cycle.running.profile
    placed = {pod.uid for pod, _ in assignment.placed}
    messages: dict[int, str] = {}
    rejections = []
    for pod in cycle.pods:
        diagnosis = assignment.failed.get(pod.uid)
        if diagnosis is not None:
            message = messages.get(id(diagnosis))
            if message is None:
                message = messages[id(diagnosis)] = diagnosis.message(_post_filters_of_member(profile, pod))
        elif pod.uid in placed and not group_failed:
            continue
        elif pod.uid in placed or pod.uid in assignment.withdrawn:
            message = WAITING_FOR_QUORUM
        else:
            message = GROUP_UNSCHEDULABLE
        rejections.append(Rejection(pod, UNSCHEDULABLE, message))
    return tuple(rejections)


def _post_filters_of_member(profile: Profile, pod: PodRecord) -> str:
    """Return the message of in-tree PostFilter plugins for a pod of a group: they do nothing (preemption.md 2.4)."""
    messages = {
        DynamicResources.name: NOT_SCHEDULABLE if pod.claims else NO_CLAIMS,
        DefaultPreemption.name: f"preemption: {GROUP_MEMBER}",
    }
    return ", ".join(messages[plugin.name] for plugin in profile.post_filters if plugin.name in messages)
