"""Moves: evictions of units so that a pending entity fits, with reservations of their new places (moving.md 4).

A move is a preemption with the units as victims and the next nodes of their pods. Before any eviction, a *stand-in* of
each pod is nominated to its new node, as for lost members of gangs (`reprieve.scheduling.lost_places`); the replacement
of the pod takes over the nomination.

Invariants: a place is kept for the grace period of its pod and `SECONDS`, or until the replacement runs; no more units
are moved within an hour than allowed.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kube_rules.work_annotations import ClassTerms
from reprieve.cluster.pods import MoveTrace, Owner, PodRecord, moved_condition
from reprieve.cluster.state import ClusterState
from reprieve.framework.instructions import PatchObject
from reprieve.framework.plugin_guard import first_of
from reprieve.preemption.default_preemption import DefaultPreemption
from reprieve.preemption.eviction_limits import beyond_limits
from reprieve.preemption.minimum_runtime import runtime_is_over
from reprieve.preemption.outcome import MOVE, Preemption, Reason, Verdict
from reprieve.preemption.protected_units import Ceilings, ceilings_for
from reprieve.preemption.units import PreemptionUnit
from reprieve.queueing.entity import Entity
from reprieve.queueing.queue import SchedulingQueue
from reprieve.scheduling.decision import Decision, Result
from reprieve.scheduling.effects import EffectsInProgress
from reprieve.scheduling.lost_place import LostPlace, keep, likeness
from reprieve.scheduling.moves import MovePlan, find_moves
from reprieve.scheduling.nominations import Nominations
from reprieve.scheduling.running_profiles import RunningProfiles

SECONDS: Final = 60.0
"""Seconds for which a new place is reserved after the grace period of the pod that moves."""
_PAUSE: Final = 60.0
"""Seconds between two searches for the same entity."""
HOUR: Final = 3600.0
"""The period in which moves are counted, in seconds."""
_FEWEST_KEPT: Final = 256
_RESPECTING: Final = ClassTerms(respects_budgets=True)
_NOT_STARTED: Final = "the pod that moved there did not start in time"


@dataclass(slots=True, eq=False)
class _StartedMove:
    """One unit that moves; `left`: places without their pod; `lost`: whether one of them was taken or not used."""

    ref: str
    """The ref of the entity for which it moves."""
    name: str
    """The name of the unit."""
    when: float
    """When it was decided, seconds since the epoch."""
    owner: Owner | None
    left: list[LostPlace]
    lost: bool = False


class CarriedMoves:
    """See the module docstring. The first profile sets how many units may move."""

    def __init__(
        self,
        cluster: ClusterState,
        queue: SchedulingQueue,
        nominations: Nominations,
        running: RunningProfiles,
        effects: EffectsInProgress,
    ) -> None:
        self._cluster, self._queue, self._nominations, self._running = cluster, queue, nominations, running
        self._effects = effects
        plugin = first_of(DefaultPreemption, next(iter(running.values())).profile.plugins)
        self._hourly_limit = plugin.moves_per_hour if plugin is not None else 0
        self.enabled = self._hourly_limit > 0
        self._times: deque[float] = deque()
        """Times of the moves in the last hour."""
        self._last_searches: dict[str, tuple[float, int]] = {}
        """Time of the last search for an entity, and the value of `SchedulingQueue.releases` then."""
        self._earlier_moves: list[tuple[float, Mapping[str, str]]] = []
        """Moves from before a restart: the time of the decision, and the node for each pod, by UID."""
        self.started: list[_StartedMove] = []
        self.moved_units = 0
        """Number of units that run at their new places."""
        self.lost_units = 0
        """Number of units that lost their place by moving."""

    # -- deciding --------------------------------------------------------------------------------------------------

    def replace(self, entity: Entity, decision: Decision, now: float) -> Decision:
        """Return the decision, or one that moves units if the entity would fail or evict others."""
        evicts = decision.preemption is not None and bool(decision.preemption.victims)
        if decision.result is not Result.UNSCHEDULABLE and not (evicts and decision.result is Result.WAITING):
            return decision
        left = self._remaining_moves(now)
        looked, freed = self._last_searches.get(entity.ref, (-_PAUSE, -1))
        if not left or now < looked + _PAUSE or (freed == self._queue.releases and not evicts):
            return decision
        if self._nominations.in_flight.has_victims(entity.ref) or (decision.nominations and not evicts):
            return decision
        if len(self._last_searches) > 2 * len(self._queue) + _FEWEST_KEPT:
            self._last_searches = {
                ref: when for ref, when in self._last_searches.items() if self._queue.get(ref) is not None
            }
        self._last_searches[entity.ref] = now, self._queue.releases
        ceilings = ceilings_for(self._cluster, entity.priority, _RESPECTING)
        plan, _ = find_moves(self._running, entity, lambda unit: self._may_move(unit, entity, ceilings))
        if plan is None or len(plan.moves) > left:
            return decision
        units = [move.unit for move in plan.moves]
        if any(ceiling.violated_by(units) for ceiling in ceilings):
            return decision
        return self._decision(entity, decision, plan)

    def _remaining_moves(self, now: float) -> int:
        """Return the number of units that may still move within the hour."""
        while self._times and self._times[0] <= now - HOUR:
            self._times.popleft()
        return self._hourly_limit - len(self._times)

    def _may_move(self, unit: PreemptionUnit, entity: Entity, ceilings: Ceilings) -> bool:
        """Return whether a unit is annotated as movable, a controller recreates it, and no rule forbids a move now."""
        cluster = self._cluster
        if unit.priority > entity.priority or any(moving.name == unit.name for moving in self.started):
            return False
        if not all(cluster.terms_of(pod).movable and _owner(cluster, pod) for pod in unit.pods):
            return False
        if runtime_is_over(cluster, unit.pods, unit.start) > cluster.now or beyond_limits(cluster, unit) is not None:
            return False
        return not any(ceiling.violated_by([unit]) for ceiling in ceilings)

    def _decision(self, entity: Entity, decision: Decision, plan: MovePlan) -> Decision:
        names, first = self._cluster.nodes.names, plan.places[0]
        verdicts = []
        for move in plan.moves:
            text = f"moves to {', '.join(dict.fromkeys(names[row] for row in move.rows))}"
            verdicts.append(Verdict(move.unit, False, Reason(*first, MOVE, text, chosen=True)))
        preemption = Preemption(
            pod=next(iter(entity.ready.values())) if entity.group is None else None,
            group=entity.group,
            priority=entity.priority,
            domain=names[first[1]] if entity.group is None else MOVE,
            nominations=tuple(plan.places),
            verdicts=tuple(verdicts),
            moves=tuple(pair for move in plan.moves for pair in zip(move.unit.pods, move.rows, strict=True)),
        )
        places = tuple((pod, names[row]) for pod, row in plan.places)
        nominated = {pod.uid for pod, _ in plan.places}
        return replace(
            decision,
            result=Result.WAITING,
            preemption=preemption,
            nominations=places,
            cleared_nominations=tuple(pod for pod in decision.cleared_nominations if pod.uid not in nominated),
            deferral=None,
            unhelpful=None,
            retry_now=False,
        )

    # -- carrying out ----------------------------------------------------------------------------------------------

    def begin(self, preemption: Preemption, now: float) -> None:
        """Reserve the new places before the units are evicted."""
        rows = {pod.uid: row for pod, row in preemption.moves}
        self._note(preemption.pod or preemption.nominations[0][0], MoveTrace(now, units=len(preemption.victims)))
        for verdict in preemption.victims:
            unit = verdict.unit
            self._keep(preemption.ref, unit.name, [(pod, rows[pod.uid]) for pod in unit.pods], now, now)
            self._times.append(now)
            for pod in unit.pods:
                self._note(pod, MoveTrace(now, unit.name, self._cluster.nodes.names[rows[pod.uid]]))

    def _keep(self, ref: str, name: str, pods: Sequence[tuple[PodRecord, int]], when: float, now: float) -> None:
        places = [keep(self._cluster, pod, row, now + pod.grace + SECONDS) for pod, row in pods]
        self.started.append(_StartedMove(ref, name, when, _owner(self._cluster, pods[0][0]), places))

    def _note(self, pod: PodRecord, moved: MoveTrace) -> None:
        """Annotate a pod as part of a move, so that a later scheduler reads it (`resume`)."""
        status = {"status": {"conditions": [moved_condition(moved)]}}
        where = (pod.namespace, pod.name)
        self._effects.writes.append(PatchObject("Pod", *where, status, "status", uid=pod.uid, strategic=True))

    def recall(self, when: float, to: Mapping[str, str]) -> None:
        """Take over a move that an earlier scheduler decided: it counts, and its places are kept (`resume`)."""
        self._times.append(when)
        self._earlier_moves.append((when, to))

    def resume(self, now: float) -> None:
        """Take over moves after the initial load: units that still move keep their new places.

        Replacements that exist already are nominated to them.
        """
        pods, row_of = self._cluster.pods, self._cluster.nodes.row_of
        self._recall_by_pods(now)
        last = {uid: number for number, (_, to) in enumerate(self._earlier_moves) for uid in to}
        for number, (when, to) in enumerate(self._earlier_moves):
            leaving = [
                (pods[uid], row_of[node])
                for uid, node in to.items()
                if last[uid] == number and uid in pods and node in row_of
                if pods[uid].row >= 0 and pods[uid].terminating
            ]
            if leaving and now < when + leaving[0][0].grace + SECONDS:
                moved = leaving[0][0].moved or MoveTrace(when, leaving[0][0].key, "")
                self._keep("", moved.unit, leaving, moved.when, now)
        self._earlier_moves.clear()
        if self.started:
            for uid in list(pods):
                self.nominate_replacement(uid, now)

    def _recall_by_pods(self, now: float) -> None:
        """Add moves that only annotations of pods show: moving pods, their replacements, and preemptors.

        If the records have at least as many moves of the last hour, the records count.
        """
        if not self.enabled:
            return
        recorded = {uid for _, to in self._earlier_moves for uid in to}
        units: dict[float, set[str]] = {}
        most: dict[float, int] = {}
        leaving: dict[tuple[float, str], dict[str, str]] = {}
        for pod in self._cluster.pods.values():
            moved = pod.moved
            if moved is None or moved.when <= now - HOUR or not self._holds(pod, moved):
                continue
            if moved.unit:
                units.setdefault(moved.when, set()).add(moved.unit)
            most[moved.when] = max(most.get(moved.when, 0), moved.units, len(units.get(moved.when, ())))
            if pod.uid not in recorded:
                leaving.setdefault((moved.when, moved.unit), {})[pod.uid] = moved.node
        self._earlier_moves += [(when, to) for (when, _), to in leaving.items()]  # `resume` skips pods that stay
        if sum(most.values()) > len(self._times):
            counted = [min(when, now) for when, count in most.items() for _ in range(count)]
            self._times = deque(sorted(counted)[-self._hourly_limit :])

    def _holds(self, pod: PodRecord, moved: MoveTrace) -> bool:
        """Return whether a pod's annotation of a move is still true: a pod that stayed in its place did not move."""
        in_place = not moved.node or pod.row == self._cluster.nodes.row_of.get(moved.node)
        return in_place or pod.terminating or pod.row < 0

    def nominate_replacement(self, uid: str, now: float) -> None:
        """Nominate a replacement that appeared to the new place."""
        pod = self._cluster.pods.get(uid)
        if pod is None or pod.scheduled or pod.nominated >= 0 or pod.terminating:
            return
        owner = _owner(self._cluster, pod)
        places = ((moving.owner == owner, place) for moving in self.started for place in moving.left)
        free = [
            (likeness(place.lost, pod, same_owner=same), number, place)
            for number, (same, place) in enumerate(places)
            if not place.replaced and place.lost.namespace == pod.namespace and (same or place.lost.name == pod.name)
        ]
        place = min((entry for entry in free if entry[0]), default=(0, 0, None))[2]
        if place is not None:
            place.until = max(place.until, now + SECONDS)
            self._nominations.hand_over(place, pod)

    def review(self, now: float) -> None:
        """End moves with running replacements, and places that were not used in time."""
        for moving in list(self.started):
            for place in list(moving.left):
                keeper = place.keeper
                if keeper.row >= 0:
                    self._note(keeper, MoveTrace(moving.when, moving.name, self._cluster.nodes.names[keeper.row]))
                    moving.left.remove(place)
                    moving.lost = moving.lost or keeper.row != place.row
                elif place.until <= now or (place.replaced and keeper.uid not in self._cluster.pods):
                    moving.left.remove(place)
                    moving.lost = True
                    self._nominations.give_back(place, now, _NOT_STARTED)
            if not moving.left:
                self.started.remove(moving)
                self.moved_units, self.lost_units = self.moved_units + (not moving.lost), self.lost_units + moving.lost

    def end_failed(self, ref: str, now: float) -> None:
        """End the moves for an entity with a failed eviction: its units stay."""
        for moving in [moving for moving in self.started if moving.ref == ref]:
            self.started.remove(moving)
            for place in moving.left:
                self._nominations.give_back(place, now, _NOT_STARTED)

    def next_time(self) -> float | None:
        """Return when `review` has something to do, if nothing else happens."""
        return min((place.until for moving in self.started for place in moving.left), default=None)


def _owner(cluster: ClusterState, pod: PodRecord) -> Owner | None:
    """Return the controller that recreates a pod: its own, or that of its group."""
    group = cluster.groups.get(pod.group) if pod.group is not None else None
    return pod.owner or (group.owner if group is not None else None)
