"""The search for running units that could move so that a pending entity fits, by the engine's filters (moving.md 2).

`reprieve.scheduling.move_search` proposes by amounts; this module tries the proposal in a trial view: it removes the
units, places their pods on the new nodes if every filter agrees, and then places the entity by its own algorithm. If a
filter rejects a place, the search continues without it.

Invariant: the cluster is not changed.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from reprieve.cluster.groups import Group, GroupState
from reprieve.cluster.pods import PodRecord, queue_order
from reprieve.cluster.resources import FIRST_RESOURCE
from reprieve.cluster.state import ClusterState
from reprieve.framework.plugin import Assigned, CycleState, Mask
from reprieve.framework.running_profile import RunningProfile
from reprieve.framework.status import PlacementError, PluginError
from reprieve.preemption.units import ABOVE_ALL, PreemptionUnit, units_below
from reprieve.queueing.entity import Entity
from reprieve.scheduling.expected_starts import present_places
from reprieve.scheduling.group_cycle import group_places
from reprieve.scheduling.group_placements import proposed
from reprieve.scheduling.move_search import Amounts, MoveProblem, MoveSolution, PodKind, fewest_moves
from reprieve.scheduling.running_profiles import RunningProfiles
from reprieve.scheduling.slice_units import has_slices

MOST_UNITS: Final = 64
"""Maximum number of units that one plan moves, and of pods of one unit."""
_MOST_PODS: Final = 64
"""Maximum number of pending pods of an entity for which moves are searched."""
_MOST_ROWS: Final = 256
"""Maximum number of nodes from which units may move: in larger clusters those that lack least."""
_PROPOSALS: Final = 8
"""Maximum number of proposals that are checked, and of topology domains that are tried."""


@dataclass(frozen=True, slots=True)
class UnitMove:
    """A unit that moves. `rows`: the new rows of `unit.pods`, in the same order."""

    unit: PreemptionUnit
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MovePlan:
    """Units that move, and the resulting places of the pending pods: (pod, row)."""

    moves: tuple[UnitMove, ...]
    places: Assigned


def find_moves(
    profiles: RunningProfiles, entity: Entity, may_move: Callable[[PreemptionUnit], bool]
) -> tuple[MovePlan | None, bool]:
    """Return the plan with the fewest units for an entity that does not fit, and whether the search hit its limit."""
    running = profiles.of(next(iter(entity.ready.values())))
    with running.cluster.trial():
        for pod in entity.ready.values():
            running.cluster.clear_nomination(pod)
        try:
            return _Finder(profiles, running, entity, may_move).best()
        except PlacementError:
            return None, False
        except PluginError as error:
            running.report(error)
            return None, False


def movable_units(cluster: ClusterState, pods: Collection[PodRecord], without: Group | None) -> list[PreemptionUnit]:
    """Return the units of running pods that can move: gangs as a whole, and no members of a tree (moving.md 1)."""
    staying = without.ref if without is not None else ""
    alone: list[PodRecord] = []
    gangs: set[str] = set()
    for pod in pods:
        group = cluster.groups.get(pod.group) if pod.group is not None else None
        if group is not None:
            if group.root is not group or group.ref == staying:
                continue
            if group.is_gang:
                gangs.add(group.key)
        if pod.owner is None or pod.owner[1] not in ("DaemonSet", "Node"):
            alone.append(pod)
    units = units_below(cluster, ABOVE_ALL, alone, gangs)
    return [
        unit
        for unit in units
        if len(unit.pods) <= MOST_UNITS and not any(pod.terminating or pod.uid in cluster.doomed for pod in unit.pods)
    ]


class _Finder:
    def __init__(
        self,
        profiles: RunningProfiles,
        running: RunningProfile,
        entity: Entity,
        may_move: Callable[[PreemptionUnit], bool],
    ) -> None:
        self._profiles = profiles
        self._running = running
        self._cluster = running.cluster
        self._entity = entity
        self._may_move = may_move
        self._wanted = _wanted(entity)
        self._kinds: list[PodKind] = []
        self._columns: list[int] = []
        self._numbers: dict[tuple[int, ...], int] = {}
        self._masks: dict[tuple[int, int], Mask] = {}
        self._forbidden: set[tuple[int, int]] = set()

    def best(self) -> tuple[MovePlan | None, bool]:
        """Return the plan with the fewest units over all topology domains."""
        if len(self._wanted) > _MOST_PODS:
            return None, True
        free = self._free()
        if not self._enough(free):
            return None, False
        units = self._units(free)
        if not units:
            return None, False
        wanted_columns = np.flatnonzero(sum(pod.signature.delta[FIRST_RESOURCE:] for pod in self._wanted))
        self._columns = sorted(
            {*(wanted_columns + FIRST_RESOURCE).tolist()}
            | {
                column
                for signature in {pod.signature for unit in units for pod in unit.pods}
                for column in np.flatnonzero(signature.delta).tolist()
                if column >= FIRST_RESOURCE
            }
        )
        amounts: list[Amounts] = [tuple(row) for row in free[self._columns].T.tolist()]
        best: MovePlan | None = None
        spent = False
        for number, domain in enumerate(self._domains(free)):
            most = MOST_UNITS if best is None else len(best.moves) - 1
            plan_there, limited = self._within(number, domain, amounts, units, most)
            best, spent = plan_there or best, spent or limited
            if best is not None and len(best.moves) == 1:
                break
        return best, spent

    # -- the problem -----------------------------------------------------------------------------------------------

    def _free(self) -> "np.ndarray[tuple[int, int], np.dtype[np.int64]]":
        """Return `int64[columns, rows]`: amounts that neither pods nor nominations use; 0 on rows without a node."""
        nodes = self._cluster.nodes
        n = len(nodes)
        free = nodes.allocatable[:, :n] - nodes.used[:, :n]
        rows, by_nominated = nodes.nominated_amounts.held(-ABOVE_ALL, len(free))
        free[:, rows] -= by_nominated
        free[:, ~nodes.alive[:n]] = 0
        return free

    def _enough(self, free: "np.ndarray[tuple[int, int], np.dtype[np.int64]]") -> bool:
        total = np.maximum(free, 0).sum(axis=1)
        requested = np.zeros(len(free), dtype=np.int64)
        for pod in self._wanted:
            requested[: len(pod.signature.delta)] += pod.signature.delta
        return bool((total >= requested)[FIRST_RESOURCE:].all())

    def _units(self, free: "np.ndarray[tuple[int, int], np.dtype[np.int64]]") -> list[PreemptionUnit]:
        """Return the units that may move, of all nodes or of those that lack least for the largest pending pod."""
        nodes = self._cluster.nodes
        rows = np.flatnonzero(nodes.alive[: len(nodes)])
        if len(rows) > _MOST_ROWS:
            delta = max((pod.signature.delta for pod in self._wanted), key=lambda d: d[FIRST_RESOURCE:].tolist())
            columns = np.flatnonzero(delta[FIRST_RESOURCE:]) + FIRST_RESOURCE
            lack = np.maximum(delta[columns][:, None] - free[columns][:, rows], 0) / delta[columns][:, None]
            usable = self._mask(self._wanted[0])[rows]
            rows = rows[np.lexsort((nodes.rank[rows], lack.max(axis=0), ~usable))[:_MOST_ROWS]]
        nearby = [pod for row in rows.tolist() for pod in nodes.pods[row].values()]
        units = movable_units(self._cluster, nearby, self._entity.group)
        units.sort(key=lambda unit: (unit.priority, unit.name))
        return [unit for unit in units if self._may_move(unit)]

    def _domains(self, free: "np.ndarray[tuple[int, int], np.dtype[np.int64]]") -> list[Mask | None]:
        """Return the possible domains of the entity, those with the most free capacity first; None: all nodes."""
        group = self._entity.group
        placements = proposed(self._running, group) if group is not None else None
        if placements is None:
            return [None]
        column = max(
            (int(column) for column in self._columns), key=lambda c: max(p.signature.delta[c] for p in self._wanted)
        )
        order = sorted(placements, key=lambda p: (-int(np.maximum(free[column, p.rows], 0).sum()), p.name))
        masks: list[Mask | None] = []
        for placement in order[:_PROPOSALS]:
            mask = np.zeros(free.shape[1], dtype=np.bool_)
            mask[placement.rows] = True
            masks.append(mask)
        return masks

    def _mask(self, pod: PodRecord) -> Mask:
        running = self._profiles.of(pod)
        key = id(running), pod.signature.id
        if key not in self._masks:
            self._masks[key] = running.evaluator.usable_nodes(CycleState(self._cluster, pod))
        return self._masks[key]

    def _kind(self, pod: PodRecord, domain: int, within: Mask | None) -> int:
        """Return the number of a pod's kind. `domain`: -1 for running pods."""
        key = pod.signature.id, id(self._profiles.of(pod)), domain
        if key not in self._numbers:
            mask = self._mask(pod) if within is None else self._mask(pod) & within
            need = [0] * len(self._columns)
            for at, column in enumerate(self._columns):
                need[at] = int(pod.signature.delta[column]) if column < len(pod.signature.delta) else 0
            self._numbers[key] = len(self._kinds)
            bits = int.from_bytes(np.packbits(mask, bitorder="little").tobytes(), "little")
            self._kinds.append(PodKind(tuple(need), bits))
        return self._numbers[key]

    # -- proposals -------------------------------------------------------------------------------------------------

    def _within(
        self, domain: int, within: Mask | None, free: Sequence[Amounts], units: Sequence[PreemptionUnit], most: int
    ) -> tuple[MovePlan | None, bool]:
        wanted = [self._kind(pod, domain, within) for pod in self._wanted]
        moving = [
            tuple((self._kind(pod, -1, None), row) for pod, row in zip(unit.pods, unit.rows, strict=True))
            for unit in units
        ]
        for _ in range(_PROPOSALS):
            answer = fewest_moves(MoveProblem(free, self._kinds, wanted, moving, self._forbidden), most)
            if answer.solution is None:
                return None, answer.spent
            refused = len(self._forbidden)
            plan = self._checked(answer.solution, units, wanted, moving)
            if plan is not None or refused == len(self._forbidden):
                return plan, answer.spent
        return None, True

    def _checked(
        self,
        solution: MoveSolution,
        units: Sequence[PreemptionUnit],
        wanted: Sequence[int],
        moving: Sequence[tuple[tuple[int, int], ...]],
    ) -> MovePlan | None:
        """Return the proposal as a plan if every filter agrees; else record the places that they reject."""
        with self._cluster.trial() as cluster:
            cluster.displace_all([pod for unit in solution.moves for pod in units[unit].pods])
            moves = []
            for number, rows in solution.moves.items():
                unit = units[number]
                places = self._placed(unit, rows, [kind for kind, _ in moving[number]])
                if places is None:
                    return None
                moves.append(UnitMove(unit, places))
            places_of_entity = present_places(self._running, self._entity)
            if places_of_entity is None:
                for pod, kind, row in zip(self._wanted, wanted, solution.places, strict=True):
                    if not self._running.evaluator.fits_row(CycleState(cluster, pod), row):
                        self._forbidden.add((kind, row))
                return None
            return MovePlan(tuple(moves), tuple(places_of_entity))

    def _placed(self, unit: PreemptionUnit, rows: tuple[int, ...], kinds: Sequence[int]) -> tuple[int, ...] | None:
        """Place the pods of a unit in the trial view; None if a filter rejects one."""
        cluster = self._cluster
        group = cluster.groups.get(unit.pods[0].group) if unit.pods[0].group is not None else None
        running = self._profiles.of(unit.pods[0])
        if isinstance(group, GroupState) and group.spec is not None and _keeps_together(running, group, unit.pods):
            places = group_places(running, group, unit.pods)
            if places is None or len(places) < len(unit.pods):
                return None
            row_of = {pod.uid: row for pod, row in places}
            rows = tuple(row_of[pod.uid] for pod in unit.pods)
        for pod, row, kind in zip(unit.pods, rows, kinds, strict=True):
            if not self._profiles.of(pod).evaluator.fits_row(CycleState(cluster, pod, group), row):
                self._forbidden.add((kind, row))
                return None
            cluster.place(pod, row)
        return rows


def _keeps_together(running: RunningProfile, group: GroupState, pods: Sequence[PodRecord]) -> bool:
    """Return whether a group limits the nodes of its pods by a topology constraint or slices."""
    return (group.spec is not None and group.spec.topology_key is not None) or has_slices(running, group, pods)


def _wanted(entity: Entity) -> list[PodRecord]:
    """Return the pods that need a place: for a gang as many as its minimum lacks, the first in its order."""
    pods = sorted(entity.ready.values(), key=queue_order)
    group = entity.group
    if isinstance(group, GroupState) and group.is_gang:
        return pods[: max(1, group.min_count - group.scheduled)]
    if isinstance(group, GroupState):
        return pods[:1]
    return pods
