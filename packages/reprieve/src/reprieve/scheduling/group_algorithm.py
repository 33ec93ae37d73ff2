"""Placing a pod group in one view (scheduling.md 3.1-3.2); groups of groups are `tree_algorithm`'s.

Members are tried one after another, each seeing those before it; a member that does not fit is remembered and the
walk goes on while minCount can still be reached.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from reprieve.cluster.groups import Group
from reprieve.cluster.pods import NO_ROW, PodRecord, queue_order
from reprieve.framework.diagnosis import Diagnosis
from reprieve.framework.plugin import CycleState, Placement, TieBreaker
from reprieve.framework.profile import Profile
from reprieve.framework.running_profile import RunningProfile
from reprieve.framework.status import SUCCESS, Code, Status, call_plugin


@dataclass(frozen=True, slots=True)
class GroupCycle:
    """The pods to be placed in one pod-group cycle, and the profile. `pods` are in scheduling order.

    Of a tree they are all its pods, those of the first leaf first.
    """

    running: RunningProfile
    group: Group
    pods: Sequence[PodRecord]
    nominated: Mapping[str, int] = field(default_factory=dict)
    """Rows that members were nominated to, by UID."""
    placements: Sequence[Placement] | None = None
    """The sets of nodes of which the group goes to one; None: any node will do."""
    most: int | None = None
    """So many pods are placed and no more; None: as many as fit."""

    def ordered(self, pods: Sequence[PodRecord]) -> GroupCycle:
        """Return the same members in another order."""
        return self if pods is self.pods else replace(self, pods=pods)


@dataclass(frozen=True, slots=True)
class Level:
    """What became of one group of a tree: of how many children (pods or groups), how many succeeded.

    `short`: the names of child groups that did not, in order.
    """

    group: Group
    ok: bool
    succeeded: int
    of: int
    why: str = ""
    short: tuple[str, ...] = ()


@dataclass(slots=True)
class GroupAssignment:
    """Where members can go. `placed` is in scheduling order; `failed`: why the others that were tried did not fit."""

    placed: list[tuple[PodRecord, int]] = field(default_factory=list)
    failed: dict[str, Diagnosis] = field(default_factory=dict)
    """By UID. Members in neither were not tried any more."""
    status: Status = SUCCESS
    """SUCCESS: enough members have a place."""
    rejected_by: set[str] = field(default_factory=set)
    why: str = ""
    """What to say of the group where it fails; empty: nothing beyond that it does."""
    placement: Placement | None = None
    """The placement that was chosen of several."""
    levels: dict[str, Level] = field(default_factory=dict)
    """Of a tree: what became of each group in it that was tried, by `ref`."""
    kept: bool = False
    """The pods are assumed in the present view."""
    in_vain: set[str] = field(default_factory=set)
    """UIDs of pods that had a place until a level above them failed."""

    @property
    def feasible(self) -> bool:
        """Enough members have a place, and at least one of them got it now."""
        return self.status.ok and bool(self.placed)


def scheduling_order(pods: Sequence[PodRecord]) -> list[PodRecord]:
    """Priority descending, then creation; identical pods next to each other, at the turn of the first of them."""
    ordered = sorted(pods, key=queue_order)
    turn: dict[tuple[int, int], int] = {}
    for index, pod in enumerate(ordered):
        turn.setdefault((pod.priority, pod.signature.id), index)
    return sorted(ordered, key=lambda pod: turn[pod.priority, pod.signature.id])


def place_group(
    cycle: GroupCycle,
    *,
    diagnose: bool = True,
    ties: TieBreaker | None = None,
    within: Placement | None = None,
    keep: bool = False,
) -> GroupAssignment:
    """Find a place for every pod of the group, in the cluster's present view, which is left as it was.

    With `keep`, in a trial of the caller's, the pods stay assumed there if they are enough (`GroupAssignment.kept`).

    Nominations that still stand in this view hold their room against the other members too; each is lifted for the
    member itself alone.  Without `diagnose` no reasons are kept.  `within`: only these nodes may
    be used; the cycle's `placements` are ignored.
    """
    cluster, profile = cycle.running.cluster, cycle.running.profile
    group, pods = cycle.group, cycle.pods
    result = GroupAssignment()
    before = group.scheduled
    result.status = progress(profile, group, before, len(pods))
    if result.status.code is Code.UNSCHEDULABLE or cycle.most == 0:
        if not result.status.ok:
            result.rejected_by.add(result.status.plugin)
        return result
    rows = within.rows if within is not None else None
    members = _Members(cycle, result, {}, rows, ties, diagnose=diagnose)
    with cluster.trial() if not keep else nullcontext():
        mark = cluster.undo_mark
        for turn, pod in enumerate(pods, 1):
            if members.place(pod):
                if len(result.placed) == cycle.most:
                    break
                continue
            result.status = progress(profile, group, before + len(result.placed), len(pods) - turn)
            if result.status.code is Code.UNSCHEDULABLE:
                members.fail_identical(pods[turn:])
                break
        if result.status.code is not Code.UNSCHEDULABLE:
            result.status = progress(profile, group, before + len(result.placed), 0)
        result.kept = keep and result.status.ok
        if keep and not result.kept:
            cluster.roll_back(mark)
    if not result.status.ok:
        result.rejected_by.add(result.status.plugin)
    return result


@dataclass(frozen=True, slots=True)
class _Members:
    """Places one member after the other. `hopeless`: what came of pods that failed, by what identical pods share."""

    cycle: GroupCycle
    result: GroupAssignment
    hopeless: dict[tuple[object, ...], Diagnosis | None]
    rows: npt.NDArray[np.int64] | None
    ties: TieBreaker | None
    diagnose: bool

    def place(self, pod: PodRecord) -> bool:
        """Assume the pod on its best node; False where none fits."""
        cycle, result = self.cycle, self.result
        cluster, evaluator = cycle.running.cluster, cycle.running.evaluator
        reserved = pod.nominated
        if reserved >= 0:
            cluster.clear_nomination(pod)
        state = CycleState(cluster, pod, cycle.group, nominated=cycle.nominated.get(pod.uid, NO_ROW))
        ruled = evaluator.ruled(state)
        identical = None if ruled else evaluator.identity(pod)
        if identical is not None and identical in self.hopeless and reserved < 0:
            known = self.hopeless[identical]
            if known is not None:
                result.failed[pod.uid] = known
            return False
        row = evaluator.best_row(state, self.ties, self.rows, ruled=ruled)
        if row >= 0:
            cluster.place(pod, row)
            if self.ties is not None:
                self.ties.took(row)
            result.placed.append((pod, row))
            return True
        diagnosis = evaluator.diagnose(state, self.rows) if self.diagnose else None
        if identical is not None:
            self.hopeless[identical] = diagnosis
        if diagnosis is not None:
            result.failed[pod.uid] = diagnosis
            result.rejected_by |= diagnosis.plugins
        if reserved >= 0:
            cluster.nominate(pod, reserved)
        return False

    def fail_identical(self, untried: Sequence[PodRecord]) -> None:
        """Fail pods that were not tried any more but are identical to one that failed, for the same reason."""
        running = self.cycle.running
        for pod in untried:
            identical = running.evaluator.identity(pod)
            known = self.hopeless.get(identical) if identical is not None else None
            if known is not None and not running.evaluator.ruled(CycleState(running.cluster, pod)):
                self.result.failed[pod.uid] = known


def progress(profile: Profile, group: Group, scheduled: int, remaining: int) -> Status:
    """Return what the PlacementFeasible plugins say: the first UNSCHEDULABLE, else the last that is not a SUCCESS."""
    status = SUCCESS
    for plugin in profile.placement_feasible:
        answer = call_plugin(
            plugin.name, "PlacementFeasible", plugin.feasible, group, scheduled=scheduled, remaining=remaining
        )
        if answer.code is Code.UNSCHEDULABLE:
            return answer
        if not answer.ok:
            status = answer
    return status
