"""The placement of a pod group in one view (scheduling.md 3.1-3.2); for trees of groups see `tree_algorithm`.

Members are tried one after another, with earlier ones in place. If a member does not fit, the next ones are tried while
minCount can still be reached.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from reprieve.cluster.groups import Group, GroupState
from reprieve.cluster.pods import NO_ROW, PodRecord, queue_order
from reprieve.framework.diagnosis import Diagnosis
from reprieve.framework.plugin import CycleState, Placement, TieBreaker
from reprieve.framework.profile import Profile
from reprieve.framework.running_profile import RunningProfile
from reprieve.framework.status import SUCCESS, Code, Status, call_plugin
from reprieve.scheduling.slice_units import Slicing, searched, sliced

_MOST_SLICED = 20_000
"""Maximum number of trials of members of a sliced gang in domains."""


@dataclass(frozen=True, slots=True)
class GroupCycle:
    """The pods to be placed in one pod-group cycle, and the profile. `pods` are in scheduling order.

    For a tree they are all its pods, those of the first leaf first.
    """

    running: RunningProfile
    group: Group
    pods: Sequence[PodRecord]
    nominated: Mapping[str, int] = field(default_factory=dict)
    """Rows to which members were nominated, by UID."""
    placements: Sequence[Placement] | None = None
    """The sets of nodes, of which the group uses one; None if any node is possible."""
    most: int | None = None
    """Maximum number of pods to place; None: as many as fit."""
    zones: Mapping[str, npt.NDArray[np.int64]] = field(default_factory=dict)
    """The only rows that certain pods may use, by UID."""

    def ordered(self, pods: Sequence[PodRecord]) -> GroupCycle:
        """Return the same members in another order."""
        return self if pods is self.pods else replace(self, pods=pods)


@dataclass(frozen=True, slots=True)
class Level:
    """The result of one group of a tree: the number of its children (pods or groups) that succeeded.

    `failed_groups`: the names of child groups that did not, in order.
    """

    group: Group
    ok: bool
    succeeded: int
    total: int
    reason: str = ""
    failed_groups: tuple[str, ...] = ()


@dataclass(slots=True)
class GroupAssignment:
    """The places of members. `placed` is in scheduling order; `failed`: why the others that were tried did not fit."""

    placed: list[tuple[PodRecord, int]] = field(default_factory=list)
    failed: dict[str, Diagnosis] = field(default_factory=dict)
    """Reasons by UID. Members in neither were not tried."""
    status: Status = SUCCESS
    """SUCCESS: enough members have a place."""
    rejected_by: set[str] = field(default_factory=set)
    message: str = ""
    """The message of a failed group; empty: the default message."""
    placement: Placement | None = None
    """The chosen placement, if there are several."""
    levels: dict[str, Level] = field(default_factory=dict)
    """For a tree: the result of each group in it that was tried, by `ref`."""
    kept: bool = False
    """Whether the pods are assumed in the present view."""
    withdrawn: set[str] = field(default_factory=set)
    """UIDs of pods that were placed until a level above them failed."""

    @property
    def feasible(self) -> bool:
        """Return whether enough members have a place, and at least one of them got it now."""
        return self.status.ok and bool(self.placed)


def scheduling_order(pods: Sequence[PodRecord]) -> list[PodRecord]:
    """Sort by priority, descending, then creation; identical pods follow the first of them."""
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
    """Find a place for every pod of the group, in the cluster's present view, which is not changed.

    With `keep`, in a trial of the caller, the pods stay assumed there if they are enough (`GroupAssignment.kept`).

    Nominations in this view reserve their capacity against other members too; each is lifted only for the member
    itself.  Without `diagnose` no reasons are recorded.  `within`: only these nodes may be used; the cycle's
    `placements` are ignored.
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
    slicing = None
    if isinstance(group, GroupState) and not cycle.zones:
        slicing = sliced(cycle.running, group, pods, cycle.nominated, rows)
    with cluster.trial() if not keep else nullcontext():
        mark = cluster.undo_mark
        if slicing is not None:
            _place_slices(members, slicing, before)
        else:
            _place_in_turn(members, before)
        if members.result.status.code is not Code.UNSCHEDULABLE:
            result.status = progress(profile, group, before + len(result.placed), 0)
        result.kept = keep and result.status.ok
        if keep and not result.kept:
            cluster.roll_back(mark)
    if not result.status.ok:
        result.rejected_by.add(result.status.plugin)
    if slicing is not None and diagnose and not result.status.ok:
        return _search(cycle, slicing, keep=keep) or result
    return result


def _search(cycle: GroupCycle, slicing: Slicing, *, keep: bool) -> GroupAssignment | None:
    """Return places for all members, found by searching places of all slices, after placing slice by slice failed."""
    zones = searched(cycle.running, slicing)
    if zones is None:
        return None
    pods = [pod for unit in slicing.units for pod in unit.pods]
    assignment = place_group(replace(cycle, pods=pods, zones=zones), diagnose=False, keep=keep)
    return assignment if assignment.feasible else None


def _place_in_turn(members: _Members, before: int) -> None:
    """Place one pod after another as long as enough pods may fit."""
    cycle, result = members.cycle, members.result
    pods = cycle.pods
    for turn, pod in enumerate(pods, 1):
        if members.place(pod):
            if len(result.placed) == cycle.most:
                break
            continue
        remaining = len(pods) - turn
        result.status = progress(cycle.running.profile, cycle.group, before + len(result.placed), remaining)
        if result.status.code is Code.UNSCHEDULABLE:
            members.fail_identical(pods[turn:])
            break


def _place_slices(members: _Members, slicing: Slicing, before: int) -> None:
    """Place one slice after another, each as a whole in one domain or not at all (topology.md 4)."""
    cycle, result = members.cycle, members.result
    running, pods = cycle.running, cycle.pods
    if slicing.error:
        result.status = progress(running.profile, cycle.group, before, 0)
        result.message = slicing.error
    last, remaining, work = None, len(pods), _MOST_SLICED
    full: set[tuple[str, tuple[object, ...]]] = set()
    for unit in slicing.units:
        remaining -= len(unit.pods)
        zones = sorted(unit.zones, key=lambda zone: zone.name != last) if unit.beside else unit.zones
        shape = members.shape(unit.pods)
        placed = False
        for zone in zones:
            if (zone.name, shape) in full or work <= 0:
                continue
            work -= len(unit.pods)
            placed = members.place_together(unit.pods, zone.rows)
            if placed:
                last = zone.name
                break
            if shape:
                full.add((zone.name, shape))
        if not placed:
            result.message = result.message or slicing.why(unit)
            result.status = progress(running.profile, cycle.group, before + len(result.placed), remaining)
            if result.status.code is Code.UNSCHEDULABLE:
                break
        elif cycle.most is not None and len(result.placed) >= cycle.most:
            break
    if len(result.placed) < len(pods):
        result.rejected_by |= {plugin.name for plugin in running.profile.placement_generators}
        result.rejected_by |= {plugin.name for plugin in running.profile.filters}


@dataclass(frozen=True, slots=True)
class _Members:
    """Places members one by one. `hopeless`: results of pods that failed, by the signature of identical pods."""

    cycle: GroupCycle
    result: GroupAssignment
    hopeless: dict[tuple[object, ...], Diagnosis | None]
    rows: npt.NDArray[np.int64] | None
    ties: TieBreaker | None
    diagnose: bool

    def place(self, pod: PodRecord) -> bool:
        """Assume the pod on its best node; return False if none fits."""
        cycle, result = self.cycle, self.result
        cluster, evaluator = cycle.running.cluster, cycle.running.evaluator
        reserved = pod.nominated
        if reserved >= 0:
            cluster.clear_nomination(pod)
        state = CycleState(cluster, pod, cycle.group, nominated=cycle.nominated.get(pod.uid, NO_ROW))
        ruled = evaluator.ruled(state)
        identical = None if ruled or cycle.zones else evaluator.identity(pod)
        if identical is not None and identical in self.hopeless and reserved < 0:
            diagnosis_of_kind = self.hopeless[identical]
            if diagnosis_of_kind is not None:
                result.failed[pod.uid] = diagnosis_of_kind
            return False
        rows = cycle.zones.get(pod.uid, self.rows) if cycle.zones else self.rows
        row = evaluator.best_row(state, self.ties, rows, ruled=ruled)
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

    def place_together(self, pods: Sequence[PodRecord], rows: npt.NDArray[np.int64]) -> bool:
        """Assume all of the pods on some of the rows, or none of them."""
        mark, before = self.cycle.running.cluster.undo_mark, len(self.result.placed)
        on_rows = replace(self, hopeless={}, rows=rows, diagnose=False)
        if all(on_rows.place(pod) for pod in pods):
            return True
        self.cycle.running.cluster.roll_back(mark)
        del self.result.placed[before:]
        return False

    def shape(self, pods: Sequence[PodRecord]) -> tuple[object, ...]:
        """Return the key of sets of pods that fail together once one such set failed; empty if unknown."""
        running = self.cycle.running
        kinds: list[object] = []
        for pod in pods:
            identity = running.evaluator.identity(pod)
            if identity is None or pod.nominated >= 0 or running.evaluator.ruled(CycleState(running.cluster, pod)):
                return ()
            kinds.append(identity)
        return tuple(kinds)

    def fail_identical(self, untried: Sequence[PodRecord]) -> None:
        """Record the failure of untried pods that are identical to a failed one, for the same reason."""
        running = self.cycle.running
        for pod in untried:
            identical = running.evaluator.identity(pod)
            diagnosis = self.hopeless.get(identical) if identical is not None else None
            if diagnosis is not None and not running.evaluator.ruled(CycleState(running.cluster, pod)):
                self.result.failed[pod.uid] = diagnosis


def progress(profile: Profile, group: Group, scheduled: int, remaining: int) -> Status:
    """Return the status of the PlacementFeasible plugins: the first UNSCHEDULABLE, else the last except SUCCESS."""
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
