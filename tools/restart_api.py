"""The API server of `restart_chaos.py`: in memory, with the faults of a network and of an end at any moment."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from kube_rules import objects
from kube_rules.meta import INITIALLY_SCHEDULED
from reprieve.cluster.evictions import OWNER, EvictedUnit, EvictionLimit
from reprieve.cluster.pods import PodRecord
from reprieve.framework.instructions import PatchObject
from reprieve.plugins.gang_scheduling import GangScheduling, RepairOptions
from reprieve.plugins.reservations import ReservationOptions, ReservationsPlugin
from reprieve.preemption.default_preemption import DefaultPreemption
from reprieve.preemption.eviction_limits import evicted_unit
from reprieve.preemption.options import PreemptionOptions
from reprieve.preemption.outcome import DeferralReason
from reprieve.preemption.units import PreemptionUnit
from reprieve.scheduling.decision import Decision
from reprieve.scheduling.effects import NO_EFFECTS, Effects
from reprieve.scheduling.engine import Engine
from reprieve.scheduling.engine_options import EngineOptions
from reprieve.scheduling.gang_health import SATISFIED, Satisfaction
from reprieve.scheduling.gang_restarts import GangRestart
from reprieve.testing import START, node, profile_with

NODES, CPUS = 6, 8
MOST_EVICTIONS, WITHIN = 2, 900.0
MOST_MOVES = 6
HOUR, MINUTE = 3600.0, 60.0
LONGEST_PAUSE = 30.0
"""Seconds between the end of a scheduler and the start of the next one."""
MOST_KILLS = 10  # in a simulated minute
GRACE = 5


class KilledError(Exception):
    """The scheduler ended between two writes."""


class BrokenError(AssertionError):
    """A rule did not hold."""


class Api:
    """The objects, the scheduler on them, and what was done. Times are seconds since the epoch."""

    def __init__(
        self, chance: random.Random, kills: float, most: int = MOST_KILLS, *, standby: bool = False, waits: bool = False
    ) -> None:
        self.chance, self.kills, self.most, self.waits = chance, kills, most, waits
        self.killed_at: deque[float] = deque()
        """When schedulers ended in the last minute."""
        self.back_at: float | None = None
        """When the next scheduler starts; None: one runs."""
        self.now = START
        self.fixed: list[objects.KubernetesObject] = [node(f"n{i}", cpu=CPUS) for i in range(NODES)]
        self.pods: dict[str, objects.Pod] = {}
        self.groups: dict[str, objects.PodGroup] = {}
        self.ends: dict[str, float] = {}
        """When a pod on a node has done its work, or has left, by UID."""
        self.evictions: list[tuple[float, EvictedUnit]] = []
        self.moves: deque[tuple[float, dict[str, str]]] = deque()
        """Those of the last hour: when, and to which node each pod went, by UID."""
        self.done: Counter[str] = Counter()
        self.made = 0
        self.quiet = False
        self.engine = self._engine()
        self.with_standby, self.standby = standby, self._engine()
        """`standby`: the engine that takes over; it learns of everything at the first start."""
        self._ended: list[PodRecord] = []
        """Pods with a nomination that the standby saw end."""

    def _engine(self) -> Engine:
        limits = (EvictionLimit(OWNER, MOST_EVICTIONS, WITHIN),)
        preemption = PreemptionOptions(
            moves=True,
            moves_per_hour=MOST_MOVES,
            eviction_limits=limits,
            hold_seconds=60.0,
            wait_for_checkpoint=MINUTE if self.waits else 0.0,
        )
        repair = GangScheduling(repair=RepairOptions(degraded_seconds=MINUTE))
        reserving = ReservationOptions(reserve_after=30.0, min_pods=1, evict_overrun=True, max_idle_share=1.0)
        profile = profile_with(DefaultPreemption(preemption), ReservationsPlugin(reserving), repair)
        return Engine(EngineOptions({profile.name: profile}))

    # -- objects ---------------------------------------------------------------------------------------------------

    def restart(self) -> None:
        """Begin with the standby, or with a new engine, which reads what there is."""
        self.done["starts"] += 1
        self.back_at = None
        effects: list[Effects] = []
        ended, self._ended = self._ended, []
        if self.with_standby and self.done["starts"] > 1:
            self.engine = self.standby
        else:
            self.engine = self._engine()
            effects = self._read(self.engine)
        if self.with_standby:
            self.standby = self._engine()
            self._ended += [item for made in self._read(self.standby) for item in made.unnominated_pods]
        for when, unit in self.evictions:
            self.engine.cluster.evictions.note(unit, when)
        for when, to in self.moves:
            self.engine.moves.recall(when, to)
        effects.append(self.engine.resume(self.now))
        for item in ended:
            known = self.engine.cluster.pods.get(item.uid)
            if known is not None and not known.scheduled and known.nominated < 0:
                self.status(item.uid, nominated_node_name="")
        for made in effects:
            self.carry_out(made)

    def _read(self, engine: Engine) -> list[Effects]:
        """Let a new engine learn of everything."""
        found: Iterable[objects.KubernetesObject] = (*self.fixed, *self.groups.values(), *self.pods.values())
        return [*[engine.set(item, self.now) for item in found], engine.complete(self.now)]

    def _heard(self, item: objects.Pod | objects.PodGroup) -> None:
        """Let the scheduler, and the standby before it, learn of a write."""
        if self.with_standby:
            self._ended += self.standby.set(item, self.now).unnominated_pods
        if self.back_at is None:
            self.carry_out(self.engine.set(item, self.now))

    def _gone(self, reference: objects.ObjectRef) -> None:
        """Let both learn that an object is gone."""
        if self.with_standby:
            self._ended += self.standby.remove(reference, self.now).unnominated_pods
        with suppress(KilledError):  # what removes it goes on
            self.carry_out(self.engine.remove(reference, self.now) if self.back_at is None else NO_EFFECTS)

    def put(self, item: objects.Pod | objects.PodGroup) -> None:
        """Write an object; the scheduler sees it at once."""
        if isinstance(item, objects.Pod):
            self.pods[item.metadata.uid] = item
        else:
            self.groups[item.metadata.name] = item
        self._heard(item)

    def status(self, uid: str, condition: objects.PodCondition | None = None, **fields: Any) -> None:
        """Patch the status of a pod that is there, as the scheduler does: the scheduler may be killed before it."""
        item = self.pods.get(uid)
        if item is None:
            return
        if condition is not None:
            others = (known for known in item.status.conditions if known.type != condition.type)
            fields["conditions"] = (*others, condition)
        self._write(item, replace(item.status, **fields))

    def _write(self, item: Any, status: Any) -> None:
        """Patch a status, unless it is so already."""
        if not _alike(item.status, status):
            self._may_die()
            self.done["writes"] += 1
            self.put(replace(item, status=status))

    def _of_group(self, name: str, condition: objects.Condition) -> None:
        """Set a condition of a group that is there; it keeps its time while its status stays."""
        item = self.groups.get(name.partition("/")[2])
        if item is None:
            return
        known = next((made for made in item.status.conditions if made.type == condition.type), None)
        if known is not None and known.status == condition.status:
            if known.status == "True":
                return
            condition = replace(condition, last_transition_time=known.last_transition_time)
        others = (made for made in item.status.conditions if made.type != condition.type)
        self._write(item, replace(item.status, conditions=(*others, condition)))

    def _satisfied(self, state: Satisfaction) -> None:
        """Write whether a gang has its minimum (repair.md 3)."""
        status, since = "True" if state.satisfied else "False", _time(state.since)
        self._of_group(
            state.group,
            objects.Condition(
                type=SATISFIED, status=status, reason=state.reason, message=state.message, last_transition_time=since
            ),
        )

    def remove(self, uid: str) -> None:
        """A pod is gone; its controller makes it again if it was evicted or deleted."""
        item = self.pods.pop(uid)
        left = self.ends.pop(uid, None)
        self._gone(objects.ObjectRef("Pod", f"default/{item.metadata.name}", uid))
        if item.metadata.deletion_timestamp is not None and left is not None:
            self.done["made again"] += 1
            self.create(item)
        elif item.spec.scheduling_group is not None:
            self._end_group(item.spec.scheduling_group.pod_group_name or "")

    def _end_group(self, name: str) -> None:
        """A member has done its work, and so has its gang: remove it, with the members that run or wait."""
        for uid, item in list(self.pods.items()):
            if item.spec.scheduling_group is not None and item.spec.scheduling_group.pod_group_name == name:
                del self.pods[uid]
                self.ends.pop(uid, None)
                self._gone(objects.ObjectRef("Pod", f"default/{item.metadata.name}", uid))
        if self.groups.pop(name, None) is not None:
            self._gone(objects.ObjectRef("PodGroup", f"default/{name}"))

    def create(self, like: objects.Pod) -> None:
        """Make a pod as its controller does: a member of a gang keeps its name."""
        self.made += 1
        name = like.metadata.name if like.spec.scheduling_group is not None else f"p{self.made}"
        kept = {key: text for key, text in like.metadata.annotations.items() if not key.endswith("backfilled-until")}
        stamp = _time(self.now)
        metadata = replace(
            like.metadata,
            name=name,
            uid=f"uid-{self.made}",
            annotations=kept,
            deletion_timestamp=None,
            creation_timestamp=stamp,
        )
        spec = replace(like.spec, node_name="")
        self.put(replace(like, metadata=metadata, spec=spec, status=objects.PodStatus(phase="Pending")))

    # -- what the scheduler asks for ---------------------------------------------------------------------------------

    def _may_die(self) -> None:
        while self.killed_at and self.killed_at[0] <= self.now - MINUTE:
            self.killed_at.popleft()
        if len(self.killed_at) < self.most and self.chance.random() < self.kills:
            self.killed_at.append(self.now)
            self.done["kills"] += 1
            self.back_at = self.now + max(0.0, self.chance.uniform(-LONGEST_PAUSE, LONGEST_PAUSE))
            raise KilledError

    def carry_out(self, effects: Effects) -> None:
        """Do what a call of the engine asks for."""
        if effects.decision is not None:
            self._decided(effects.decision)
        for instruction in effects.writes:
            if isinstance(instruction, PatchObject) and instruction.kind == "Pod":
                for made in instruction.patch["status"]["conditions"]:
                    when = datetime.fromisoformat(made["lastTransitionTime"])
                    known = {key: made[key] for key in ("type", "status", "reason", "message")}
                    self.status(instruction.uid, objects.PodCondition(last_transition_time=when, **known))
        if effects.decision is not None and effects.decision.preemption is not None:
            self._preempt(effects.decision)
        for item in effects.unnominated_pods:
            self.status(item.uid, nominated_node_name="")
        for held in effects.reservations:
            self.done["reservations"] += not held.unchanged
            if self.engine.reservations.by_ref.get(held.ref) is held:
                for item, name in held.current_places(self.engine.cluster.nodes.row_of):
                    self.status(item.uid, nominated_node_name=name)
        for place in effects.lost_places:
            if place.replaced and place.keeper.nominated == place.row:
                self.done["places kept"] += 1
                self.status(place.keeper.uid, nominated_node_name=place.node)
        for state in effects.satisfaction:
            self._satisfied(state)
        for eviction in effects.evictions:
            self.done["restarts of gangs" if isinstance(eviction, GangRestart) else "overruns"] += 1
            self._note(eviction.unit)
            for item in eviction.pods:
                self.evict(item.uid)
        self.check()

    def _decided(self, decision: Decision) -> None:
        for binding in decision.bindings:
            self._may_die()
            item = self.pods[binding.pod.uid]
            if item.spec.node_name:
                raise BrokenError(f"{binding.pod.key} is bound twice")
            if binding.annotations:
                self.done["backfilled"] += 1
            runs = float(item.metadata.labels["runs"])
            self.ends[binding.pod.uid] = self.now + runs
            notes = {**item.metadata.annotations, **(binding.annotations or {})}
            status = replace(item.status, phase="Running", start_time=_time(self.now), nominated_node_name="")
            self.engine.confirm_binding(binding.pod.uid)
            metadata, spec = replace(item.metadata, annotations=notes), replace(item.spec, node_name=binding.node)
            self.put(replace(item, metadata=metadata, spec=spec, status=status))
        for rejection in decision.rejections:
            refused = objects.PodCondition(
                type="PodScheduled",
                status="False",
                reason=rejection.reason,
                message=rejection.message,
                last_transition_time=self._since(rejection.pod.uid),
            )
            self.status(rejection.pod.uid, refused)
        for item, name in decision.nominations:
            self.status(item.uid, nominated_node_name=name)
        for item in decision.cleared_nominations:
            self.status(item.uid, nominated_node_name="")
        for made in decision.conditions:
            if made.scheduled and not made.composite:
                since = _time(self.now)
                condition = objects.Condition(
                    type=INITIALLY_SCHEDULED["PodGroup"], status="True", last_transition_time=since
                )
                self._of_group(made.group, condition)
        if decision.deferral is not None and decision.deferral.why is DeferralReason.CHECKPOINT:
            self.done["waits for checkpoints"] += 1

    def _since(self, uid: str) -> datetime:
        known = self.pods[uid].status.conditions if uid in self.pods else ()
        found = next((one.last_transition_time for one in known if one.type == "PodScheduled"), None)
        return found or _time(self.now)

    def _preempt(self, decision: Decision) -> None:
        made = decision.preemption
        assert made is not None
        self._may_die()
        names = self.engine.cluster.nodes.names
        moved = {item.uid: names[row] for item, row in made.moves}
        units = [verdict.unit for verdict in made.victims]
        for unit in (unit for unit in units if not all(item.terminating for item in unit.pods)):
            self._note(unit)
            if unit.pods[0].uid in moved:
                self.moves.append((self.now, {item.uid: moved[item.uid] for item in unit.pods}))
        self.done["moves" if moved else "preemptions"] += 1
        for unit in units:
            for item in unit.pods:
                self.evict(item.uid)
        self.carry_out(self.engine.finish_preemption(made.ref, self.now))

    def _note(self, unit: PreemptionUnit) -> None:
        """Count the eviction of a unit, once (cost.md 9.1)."""
        evicted = evicted_unit(self.engine.cluster, unit)
        if evicted.uid not in {known.uid for _, known in self.evictions}:
            self.evictions.append((self.now, evicted))

    def evict(self, uid: str) -> None:
        """Mark a pod and delete it; it has its grace period."""
        target = objects.PodCondition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler")
        self.status(uid, target)
        self._may_die()
        self.delete(uid)

    def delete(self, uid: str) -> None:
        """Delete a pod: one on a node leaves after its grace period."""
        item = self.pods.get(uid)
        if item is None or item.metadata.deletion_timestamp is not None:
            return
        leaves = self.now + (GRACE if item.spec.node_name else 0)
        self.ends[uid] = leaves
        self.put(replace(item, metadata=replace(item.metadata, deletion_timestamp=_time(leaves))))

    # -- rules -----------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise BrokenError for a rule that does not hold now."""
        used: Counter[str] = Counter()
        for item in self.pods.values():
            if item.spec.node_name:
                used[item.spec.node_name] += int(item.spec.containers[0].resources.requests["cpu"])
        if any(count > CPUS for count in used.values()):
            raise BrokenError(f"overfull: {used}")
        held = self.engine.reservations.by_ref.values()
        if len(held) > ReservationOptions().max_reservations:
            raise BrokenError(f"{len(held)} reservations")
        while self.moves and self.moves[0][0] <= self.now - HOUR:
            self.moves.popleft()
        if len(self.moves) > MOST_MOVES:
            raise BrokenError(f"{len(self.moves)} units moved within an hour")
        self.evictions = [(when, unit) for when, unit in self.evictions if when > self.now - WITHIN]
        most = Counter(name for name, _ in {(unit.owner, unit.uid) for _, unit in self.evictions})
        if most and max(most.values()) > MOST_EVICTIONS:
            raise BrokenError(f"evicted beyond the limit: {most.most_common(1)}")

    def check_at_rest(self) -> None:
        """Raise BrokenError for a reservation or a nomination that does not hold, when nothing is ready to be tried."""
        reserved: Counter[int] = Counter()
        for held in self.engine.reservations.by_ref.values():
            for item, _ in held.pods:
                if item.row < 0 <= item.nominated:
                    reserved[item.nominated] += item.signature.amounts["cpu"]
        if any(count > 1000 * CPUS for count in reserved.values()):
            raise BrokenError(f"reserved twice, in milli-CPUs by row: {dict(reserved)}")
        cluster = self.engine.cluster
        for item in self.pods.values():
            if item.spec.node_name or item.metadata.deletion_timestamp is not None:
                continue
            known, name, said = cluster.pods[item.metadata.uid], item.metadata.name, item.status.nominated_node_name
            counted = cluster.nodes.names[known.nominated] if known.nominated >= 0 else ""
            if counted != said:
                raise BrokenError(f"{name} is nominated to {said or 'no node'}, and {counted or 'none'} counts")
            if said and not self._waits(known):
                raise BrokenError(f"{name} is nominated to {said} without a reason")

    def _waits(self, item: PodRecord) -> bool:
        """Return whether there is a reason for the nomination of a pod."""
        engine = self.engine
        ref = engine.cluster.entity_ref(item)
        kept = (place.keeper for moving in engine.moves.started for place in moving.left)
        holds = (
            ref in engine.reservations.by_ref or ref in engine._nominations.reservations or engine.is_preempting(ref)
        )
        return holds or engine.repair.places.keeps(item) or any(keeper is item for keeper in kept)

    def leaks(self) -> list[str]:
        """Return what is left when nothing should be."""
        engine = self.engine
        left = {
            "pods": self.pods,
            "groups": self.groups,
            "queue": list(engine.queue.entities()),
            "reservations": engine.reservations.by_ref,
            "moves under way": engine.moves.started,
            "doomed pods": engine.cluster.doomed,
            "nominated amounts": engine.cluster.nodes.nominated,
        }
        return [f"{name}: {found}" for name, found in left.items() if any(_some(found))]


def _alike(before: Any, after: Any) -> bool:
    """Return whether two statuses say the same, in whatever order their conditions stand."""
    ordered = [sorted(status.conditions, key=lambda made: made.type) for status in (before, after)]
    return ordered[0] == ordered[1] and replace(before, conditions=after.conditions) == after


def _some(found: Any) -> list[Any]:
    return [one for one in (found.values() if isinstance(found, dict) else found) if one or one == 0]


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(int(seconds), UTC)
