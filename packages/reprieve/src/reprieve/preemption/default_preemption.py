"""DefaultPreemption: the plugin that preempts for single pods and for pod groups."""

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from reprieve.cluster.evictions import EvictionLimit
from reprieve.cluster.groups import Group
from reprieve.cluster.pods import PodRecord
from reprieve.framework.diagnosis import Diagnosis
from reprieve.framework.events import Hints
from reprieve.framework.plugin import (
    Assigned,
    CycleState,
    Placement,
    Plugin,
    PodGroupAttempt,
    PodGroupPostFilterPlugin,
    PostFilterPlugin,
    PostFilterResult,
)
from reprieve.framework.running_profile import RunningProfile
from reprieve.framework.status import SUCCESS, Code, Status
from reprieve.preemption.cascade import Cascades
from reprieve.preemption.cost import criteria_of
from reprieve.preemption.deferred_preemption import (
    owners_of,
    predecessors,
    until_checkpoint,
    until_completions,
    until_delay_is_over,
    until_predecessors_leave,
)
from reprieve.preemption.eligibility import group_never_preempts, ineligible, pod_is_ineligible
from reprieve.preemption.extender_candidates import judges_of
from reprieve.preemption.gangs import with_remains
from reprieve.preemption.group_preemption import preempt_for_group
from reprieve.preemption.joint_preemption import JointPart, JointPlan, Peer, carried_out, plan_together
from reprieve.preemption.options import EvictionOptions, PreemptionOptions
from reprieve.preemption.outcome import CLUSTER_DOMAIN, GROUP_MEMBER, MINIMIZE_VICTIMS, Deferral, Preemption
from reprieve.preemption.pod_preemption import PodPreemption
from reprieve.preemption.resize_preemption import ResizePreemption
from reprieve.preemption.units import scheduled_pods

_FEW_NODES = 100
"""In larger clusters the plugin first checks whether several preemptors may gain by one eviction."""
_NODES_FOR_EACH, _MORE_NODES = 2, 32
"""Maximum number of nodes that are searched for each of several pods, and for all of them."""


class _ProfileStrategies(NamedTuple):
    """The profile in which the plugin runs, and its strategies."""

    running: RunningProfile
    options: EvictionOptions
    for_pod: PodPreemption


class DefaultPreemption(PostFilterPlugin, PodGroupPostFilterPlugin):
    """PostFilter and PodGroupPostFilter by preemption.md.

    It needs its profile, so it is attached once that is built (`attach`).
    """

    name = "DefaultPreemption"

    def __init__(self, options: PreemptionOptions | None = None) -> None:
        self._options = options or PreemptionOptions()
        self._attached_to: _ProfileStrategies | None = None

    @property
    def hold_seconds(self) -> float:
        """Return the maximum duration of a preemptor's reservation; 0 without an end (cost.md 5.1)."""
        return self._options.hold_seconds

    @property
    def eviction_limits(self) -> tuple[EvictionLimit, ...]:
        """Return the limits of evictions (cost.md 9)."""
        return tuple(self._options.eviction_limits)

    @property
    def moves_per_hour(self) -> int:
        """Return the maximum number of units moved within an hour (moving.md 4); 0: moves are only suggested."""
        return self._options.moves_per_hour if self._options.moves else 0

    @property
    def waits_for_completions(self) -> bool:
        """Return whether preemptors may wait for pods that end by themselves: then deadlines of Jobs count (6.3)."""
        return bool(self._options.wait_for_completions)

    def attach(self, running: RunningProfile) -> None:
        """Attach the plugin to the profile it runs in. Raises ConfigurationError for an unknown criterion."""
        chosen = self._options
        depth = chosen.cascade_depth
        criteria = criteria_of(tuple(chosen.cost), running.profile.plugins, depth=depth)
        options = EvictionOptions(
            group_policy=chosen.group_policy,
            victim_search=chosen.victim_search,
            placement=chosen.placement,
            criteria=criteria,
            cascades=Cascades(running, criteria, depth) if depth else None,
            plain=chosen.plain,
            share=chosen.share,
        )
        self._attached_to = _ProfileStrategies(running, options, PodPreemption(running, self.name, options))

    def check(self, plugins: Sequence[Plugin], where: str) -> None:
        """Raise ConfigurationError if a criterion is neither in-tree nor a plugin of the profile.

        `where` is the path of the plugin's args.
        """
        criteria_of(tuple(self._options.cost), plugins, f"{where}.cost", depth=self._options.cascade_depth)

    def events(self) -> Hints:
        """Return no events: events of the plugins that rejected the pod wake it."""
        return {}

    def post_filter(self, state: CycleState, diagnosis: Diagnosis) -> PostFilterResult:
        """Preempt for a pod (`PostFilterPlugin.post_filter`), not of a group: those never preempt alone (2.4)."""
        if state.group is not None:
            return PostFilterResult(Status(Code.UNSCHEDULABLE, f"preemption: {GROUP_MEMBER}", self.name))
        attached = self._attached()
        running, for_pod = attached.running, attached.for_pod
        cluster, pod = running.cluster, state.pod
        may = pod_is_ineligible(state, diagnosis) is None
        leaving = self._predecessors((pod,), None) if may else []
        if may and not leaving and (part := self._part(state.planned, pod)) is not None:
            return self._unless_it_waits(part, (pod,), lambda _: _place(running, state))
        if not leaving:
            return self._unless_it_waits(for_pod.preempt(state, diagnosis), (pod,), lambda _: _place(running, state))
        with cluster.trial():
            cluster.displace_all(leaving)
            places = _place(running, state)
            if places is None:
                result = for_pod.preempt(_anew(state), diagnosis)
        if places is None:
            return self._unless_it_waits(result, (pod,), lambda _: _place(running, state))
        return self._deferred(until_predecessors_leave(cluster, leaving, places, self.hold_seconds), "preemption: ")

    def pod_group_post_filter(self, attempt: PodGroupAttempt) -> PostFilterResult:
        attached = self._attached()
        running = attached.running
        cluster, group, pods = running.cluster, attempt.group, attempt.pods
        priority = group.spec.priority if group.spec is not None else 0
        never = group_never_preempts(group, group_policy=self._options.group_policy)
        under_way = attempt.preemption_under_way
        rows = () if attempt.overtaken else attempt.nominated_rows
        may = ineligible(cluster, priority, never, rows, under_way=under_way) is None
        leaving = self._predecessors(pods, group) if may else []
        with cluster.trial():
            cluster.displace_all(leaving)
            assigned = _assign(attempt, attempt.placed_without_help + 1) if leaving else None
            if assigned is None:
                part = self._part(attempt.planned, group) if may and not leaving else None
                result = part or preempt_for_group(running, attempt, self.name, attached.options)
        if assigned is not None:
            return self._deferred(until_predecessors_leave(cluster, leaving, assigned, self.hold_seconds))
        return self._unless_it_waits(result, pods, lambda preemption: _assign(attempt, len(preemption.nominations)))

    def for_resize(self, pod: PodRecord, *, under_way: bool) -> PostFilterResult:
        """Find victims on the node of a running pod with a deferred resize that does not fit (resizes.md 3).

        `under_way`: victims of its last preemption are terminating.
        """
        attached = self._attached()
        cluster, row = attached.running.cluster, pod.row
        why = ineligible(cluster, pod.priority, pod.never_preempts, [row], under_way=under_way)
        if why is not None:
            return PostFilterResult(Status(Code.UNSCHEDULABLE, f"preemption: {why}", self.name))
        delayed = until_delay_is_over(cluster, (pod,))
        if delayed is not None:
            return self._deferred(delayed, "preemption: ")
        with cluster.trial():
            cluster.lift(pod)
            result = attached.for_pod.on_own_node(CycleState(cluster, pod), row)
        if isinstance(result.proposal, Preemption):
            return replace(result, proposal=with_remains(cluster, result.proposal))
        return result

    def for_resizes(self, gang: Group, pods: Sequence[PodRecord], *, under_way: bool) -> PostFilterResult:
        """Find victims for all of these pods of a gang with deferred resizes that do not fit (resizes.md 3.5)."""
        attached = self._attached()
        cluster = attached.running.cluster
        never, rows = any(pod.never_preempts for pod in pods), [pod.row for pod in pods]
        why = ineligible(cluster, min(pod.priority for pod in pods), never, rows, under_way=under_way)
        if why is not None:
            return PostFilterResult(Status(Code.UNSCHEDULABLE, f"preemption: {why}", self.name))
        delayed = until_delay_is_over(cluster, pods)
        if delayed is not None:
            return self._deferred(delayed, "preemption: ")
        return ResizePreemption(attached.running, self.name, attached.options, gang, pods).preempt()

    # -- several preemptors together (cost.md 8) -------------------------------------------------------------------

    @property
    def plans_together(self) -> bool:
        """Return whether preemptors of one priority are planned together."""
        options = self._options
        waits = options.wait_for_completions or options.wait_for_checkpoint
        return options.together and options.placement == MINIMIZE_VICTIMS and not options.cascade_depth and not waits

    def may_join(self, pods: Sequence[PodRecord], group: Group | None) -> bool:
        """Return whether a preemptor that is not nominated may evict pods now, with others."""
        attached = self._attached()
        running = attached.running
        cluster = running.cluster
        if group is not None:
            if group.spec is None or group_never_preempts(group, group_policy=self._options.group_policy):
                return False
        elif pods[0].never_preempts or judges_of(running.profile, CycleState(cluster, pods[0])):
            return False
        return until_delay_is_over(cluster, pods) is None and not self._predecessors(pods, group)

    def may_gain(self, own: Preemption) -> bool:
        """Return whether an eviction for several preemptors may be cheaper than one for each; `own`: that of the first.

        In a large cluster it cannot be for single pods if no node holds two of them and no victim has pods on several
        nodes.
        """
        cluster, pod = self._attached().running.cluster, own.pod
        nodes = cluster.nodes
        if pod is None or len(nodes) <= _FEW_NODES:
            return True
        if any(len(set(verdict.unit.rows)) > 1 for verdict in own.victims):
            return True
        columns = [column for column, _ in pod.signature.requests]
        amounts = np.array([[2 * amount] for _, amount in pod.signature.requests])
        return bool((nodes.allocatable[columns, : len(nodes)] >= amounts).all(axis=0).any())

    def plan_together(self, peers: Sequence[Peer], priority: int, last: Collection[str] = ()) -> JointPlan | None:
        """Find one eviction for several preemptors (`reprieve.preemption.joint_preemption`)."""
        attached = self._attached()
        terms = attached.running.cluster.class_terms_of(peers[0].group or peers[0].pods[0])
        return plan_together(attached.running, peers, priority, terms, attached.options, self._within(peers), last)

    def _within(self, peers: Sequence[Peer]) -> Placement | None:
        """Return the nodes that are searched for single pods: those with their cheapest evictions; None: all."""
        attached = self._attached()
        running = attached.running
        most = _NODES_FOR_EACH * len(peers) + _MORE_NODES
        if len(running.cluster.nodes) <= most or any(peer.group is not None for peer in peers):
            return None
        alike: dict[Hashable, PodRecord] = {}
        for peer in peers:
            pod = peer.pods[0]
            alike.setdefault(running.evaluator.identity(pod) or peer.ref, pod)
        cheapest = [attached.for_pod.cheapest_rows(pod, most) for pod in alike.values()]
        in_turn = dict.fromkeys(row for rows in zip_longest(*cheapest) for row in rows if row is not None)
        return Placement(CLUSTER_DOMAIN, np.array(sorted([*in_turn][:most]), dtype=np.int64))

    def _part(self, planned: object, preemptor: PodRecord | Group) -> PostFilterResult | None:
        """Return a preemptor's part of a plan for several preemptors; None if it has none."""
        if not isinstance(planned, JointPart):
            return None
        attached = self._attached()
        terms = attached.running.cluster.class_terms_of(preemptor)
        if isinstance(preemptor, PodRecord):
            priority = preemptor.priority
        else:
            priority = preemptor.spec.priority if preemptor.spec is not None else 0
        preemption = carried_out(attached.running, planned, preemptor, priority, terms, attached.options)
        return PostFilterResult(SUCCESS, preemption) if preemption is not None else None

    def _predecessors(self, pods: Sequence[PodRecord], group: Group | None) -> list[PodRecord]:
        """Return terminating pods with capacity that counts as the preemptor's own."""
        cluster = self._attached().running.cluster
        if not self._options.successor or not cluster.departures:
            return []
        return predecessors(cluster, owners_of(cluster, pods, group), self.hold_seconds)

    def _unless_it_waits(
        self, result: PostFilterResult, pods: Sequence[PodRecord], assign: Callable[[Preemption], Assigned | None]
    ) -> PostFilterResult:
        """Return the result if it evicts no pods or there is nothing to wait for; else the deferral."""
        preemption = result.proposal
        if not isinstance(preemption, Preemption) or not preemption.victims:
            return result
        prefix = "preemption: " if preemption.group is None else ""
        cluster = self._attached().running.cluster
        delayed = until_delay_is_over(cluster, pods)
        if delayed is not None:
            return self._deferred(delayed, prefix)
        longest = self._options.wait_for_completions
        if longest:
            scheduled = list(scheduled_pods(cluster))
            ending = until_completions(cluster, scheduled, pods, longest, lambda: assign(preemption))
            if ending is not None:
                return replace(self._deferred(ending, prefix), clear_nomination=True)
        if self._options.wait_for_checkpoint:
            victims = [pod for verdict in preemption.victims for pod in verdict.unit.pods]
            saving = until_checkpoint(cluster, victims, pods, self._options.wait_for_checkpoint)
            if saving is not None:
                return replace(self._deferred(saving, prefix), clear_nomination=True)
        return replace(result, proposal=with_remains(cluster, preemption))

    def _deferred(self, deferral: Deferral, prefix: str = "") -> PostFilterResult:
        return PostFilterResult(Status(Code.UNSCHEDULABLE, prefix + deferral.message, self.name), deferral=deferral)

    def _attached(self) -> _ProfileStrategies:
        if self._attached_to is None:
            raise RuntimeError("DefaultPreemption is used before it was attached to a profile")
        return self._attached_to


def _anew(state: CycleState) -> CycleState:
    """Return the attempt in a view that has changed since it began."""
    return CycleState(
        state.cluster, state.pod, nominated=state.nominated, preemption_under_way=state.preemption_under_way
    )


def _place(running: RunningProfile, state: CycleState) -> Assigned | None:
    """Return the pod's node in the present view."""
    row = running.evaluator.best_row(_anew(state))
    return ((state.pod, row),) if row >= 0 else None


def _assign(attempt: PodGroupAttempt, wanted: int) -> Assigned | None:
    """Return the group's places in the present view, if they suffice."""
    assignment = attempt.run()
    return assignment.placed if assignment.feasible and len(assignment.placed) >= wanted else None
