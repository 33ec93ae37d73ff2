"""Kill the scheduler again and again within a simulated hour, and check that limits hold and nothing leaks.

    python tools/restart_chaos.py                    # an hour with some hundred kills
    python tools/restart_chaos.py --seeds 20 --seconds 900
    python tools/restart_chaos.py --standby                # each time a standby takes over that has heard all writes

An API server, kubelets and controllers are played with real objects; the scheduler is the engine. Pods and gangs of
several priorities come, end, overstay and are deleted; some save checkpoints, which preemptors wait for, some can be
moved, and some gangs restart when they have lost members. What the scheduler asks for that is so already is no write,
as with the live scheduler (`reprieve.live.conditions`).

Every write may be the last of a scheduler, but for no more than `--most` in any simulated minute: a process that
crashes is restarted with a back-off, too, and without a bound an hour with many pending pods never ends. Half of the
time the next scheduler starts at once, otherwise within half a minute, in which pods come, end and are deleted. It is a
new engine that reads the objects, as after kill -9; or a standby, which has heard of every write as it was made and
begins with the nominations that it saw end. Both know evictions and moves of before from the records (cost.md 9.4,
moving.md 4.6). Checked after every write:

- a pod is bound once, and no node is overfull;
- no more entities hold a reservation than may;
- no owner is evicted more often than its limit allows (cost.md 9), no more units move than may (moving.md 4.5).

Checked when nothing is ready to be tried:

- no amount is reserved twice (reservations.md 7.3);
- the nominations of the API are those that the scheduler counts, and each has its reason: a reservation, victims that
  leave, capacity that is kept for a lost or a moving pod;
- now and then: of three schedulers that start one after the other the last writes nothing, and reports no reservation.

When nothing comes any more, everything has to run and end, and the engine has to be empty.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter, deque
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from kube_rules import objects
from reprieve.cluster.evictions import OWNER, EvictedUnit, EvictionLimit
from reprieve.cluster.pods import PodRecord
from reprieve.framework.instructions import PatchObject
from reprieve.plugins.gang_scheduling import GangScheduling, RepairOptions
from reprieve.plugins.reservations import ReservationOptions, ReservationsPlugin
from reprieve.preemption.default_preemption import DefaultPreemption
from reprieve.preemption.eviction_limits import evicted_unit
from reprieve.preemption.options import PreemptionOptions
from reprieve.preemption.outcome import WaitsFor
from reprieve.preemption.units import PreemptionUnit
from reprieve.scheduling.decision import Decision
from reprieve.scheduling.effects import NO_EFFECTS, Effects
from reprieve.scheduling.engine import Engine
from reprieve.scheduling.engine_options import EngineOptions
from reprieve.scheduling.gang_health import INITIALLY_SCHEDULED, SATISFIED, Satisfaction
from reprieve.scheduling.gang_restarts import GangRestart
from reprieve.testing import START, group, node, pod, profile_with

NODES, CPUS = 6, 8
MOST_EVICTIONS, WITHIN = 2, 900.0
MOST_MOVES = 6
HOUR, MINUTE = 3600.0, 60.0
LONGEST_PAUSE = 30.0
"""Seconds between the end of a scheduler and the start of the next one."""
MOST_KILLS = 10  # in a simulated minute
GRACE = 5
LONGEST_END = 12 * HOUR
"""Everything has ended by then after the last arrival."""
PREFIX = "scheduling.reprieve.dev/"


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
            self._ended += [item for made in self._read(self.standby) for item in made.unnominated]
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
            self._ended += self.standby.set(item, self.now).unnominated
        if self.back_at is None:
            self.carry_out(self.engine.set(item, self.now))

    def _gone(self, reference: objects.ObjectRef) -> None:
        """Let both learn that an object is gone."""
        if self.with_standby:
            self._ended += self.standby.remove(reference, self.now).unnominated
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
        for item in effects.unnominated:
            self.status(item.uid, nominated_node_name="")
        for held in effects.reserved:
            self.done["reservations"] += not held.as_before
            if self.engine.reservations.held.get(held.ref) is held:
                for item, name in held.standing(self.engine.cluster.nodes.row_of):
                    self.status(item.uid, nominated_node_name=name)
        for place in effects.kept:
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
            self.engine.bound(binding.pod.uid)
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
        for item in decision.cleared:
            self.status(item.uid, nominated_node_name="")
        for made in decision.conditions:
            if made.scheduled and not made.composite:
                since = _time(self.now)
                condition = objects.Condition(type=INITIALLY_SCHEDULED, status="True", last_transition_time=since)
                self._of_group(made.group, condition)
        if decision.put_off is not None and decision.put_off.why is WaitsFor.CHECKPOINT:
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
        self.carry_out(self.engine.preemption_done(made.ref, self.now))

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
        held = self.engine.reservations.held.values()
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
        for held in self.engine.reservations.held.values():
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
        kept = (place.keeper for moving in engine.moves.under_way for place in moving.left)
        holds = ref in engine.reservations.held or ref in engine._nominations.held or engine.preempting(ref)
        return holds or engine.repair.places.keeps(item) or any(keeper is item for keeper in kept)

    def leaks(self) -> list[str]:
        """Return what is left when nothing should be."""
        engine = self.engine
        left = {
            "pods": self.pods,
            "groups": self.groups,
            "queue": list(engine.queue.entities()),
            "reservations": engine.reservations.held,
            "moves under way": engine.moves.under_way,
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


class World:
    """What happens: arrivals, ends and time."""

    def __init__(self, seed: int, kills: float, most: int = MOST_KILLS, *, standby: bool = False) -> None:
        self.chance = random.Random(seed)
        self.api = Api(random.Random(seed + 1), kills, most, standby=standby, waits=seed % 2 == 1)
        self._owners = 0

    def survive(self, act: Any) -> None:
        """Do something; a scheduler that is killed is started again when it is time for that."""
        with suppress(KilledError):
            act()
        while self.api.back_at is not None and self.api.back_at <= self.api.now:
            with suppress(KilledError):
                self.api.restart()

    def arrive(self) -> None:
        """Create a gang or a few pods of one owner."""
        chance, api = self.chance, self.api
        self._owners += 1
        runs = chance.choice((20, 60, 120, 300))
        notes = {}
        if chance.random() < 0.6:
            stated = runs if chance.random() < 0.8 else runs // 2  # some overstay
            notes[f"{PREFIX}expected-runtime"] = f"{stated}s"
        if chance.random() < 0.5:
            notes[f"{PREFIX}movable"] = "true"
        if chance.random() < 0.5:
            notes[f"{PREFIX}checkpoint-interval"] = "30s"
        priority = chance.choice((0, 0, 0, 5, 10))
        members = chance.choice((1, 1, 1, 2, 3, 6))
        name = f"set-{self._owners}"
        owner = objects.OwnerReference(
            api_version="batch/v1", kind="Job", name=name, uid=f"uid-{name}", controller=True
        )
        gang = members > 1 and chance.random() < 0.6
        cpu = chance.choice((4, 8)) if gang else chance.choice((1, 1, 2, 4, 8))
        if gang:
            of_group = {f"{PREFIX}recovery-policy": "Restart"} if chance.random() < 0.5 else {}
            least, whole = chance.choice((members, members, members - 1)), chance.random() < 0.5
            made = group(name, min_count=least, priority=priority, whole=whole, annotations=of_group)
            self.survive(lambda: api.put(made))
        for i in range(members):
            item = pod(f"{name}-{i}", cpu=cpu, priority=priority, group=name if gang else None, annotations=notes)
            item = replace(
                item,
                metadata=replace(item.metadata, labels={"runs": str(runs)}, owner_references=(owner,)),
                spec=replace(item.spec, termination_grace_period_seconds=GRACE),
            )
            self.survive(lambda item=item: api.create(item))  # type: ignore[misc]

    def step(self) -> None:
        """Run the scheduler until it has nothing to do now."""
        api = self.api
        while api.back_at is None:
            engine = api.engine
            effects = engine.step(api.now)
            self.survive(lambda: api.carry_out(effects))  # noqa: B023
            if effects.decision is None and engine is api.engine and api.back_at is None:
                api.check_at_rest()
                return

    def until(self, when: float) -> None:
        """Let time pass."""
        api = self.api
        while api.now < when:
            wakeup = api.back_at if api.back_at is not None else api.engine.next_wakeup()
            times = [when, *api.ends.values(), *([wakeup] if wakeup is not None else [])]
            api.now = max(api.now + 0.1, min(times))
            self.survive(lambda: None)
            for uid in [uid for uid, end in api.ends.items() if end <= api.now]:
                if uid in api.pods:
                    self.survive(lambda uid=uid: api.remove(uid))  # type: ignore[misc]
            if api.back_at is None:
                self.survive(lambda: api.carry_out(api.engine.tick(api.now)))
            self.step()

    def start_again(self) -> None:
        """Start three schedulers, each when the one before has nothing to do: the last finds nothing to change."""
        api, counts = self.api, list[int]()
        api.kills, kills = 0.0, api.kills
        for _ in range(3):
            api.restart()
            self.step()
            counts.append(api.done["writes"] + api.done["reservations"])
        api.kills = kills
        if counts[1] != counts[2]:
            raise BrokenError(f"{counts[2] - counts[1]} writes and reservations of a start after which nothing changed")


def simulate(seed: int, seconds: float, kills: float, most: int = MOST_KILLS, *, standby: bool = False) -> Counter[str]:
    """Return what happened. Raises BrokenError where a rule did not hold.

    `kills`: how likely the scheduler ends before a write, `most`: how often in a minute; `standby`: another one has
    heard of all writes.
    """
    world = World(seed, kills, most, standby=standby)
    api = world.api
    world.survive(api.restart)
    end = START + seconds
    while api.now < end:
        world.arrive()
        world.step()
        if world.chance.random() < 0.05 and api.back_at is None:
            world.start_again()
        if api.pods and world.chance.random() < 0.2:
            uid = world.chance.choice(sorted(api.pods))
            world.survive(lambda: api.delete(uid))  # noqa: B023
        world.until(api.now + world.chance.expovariate(1 / 20.0))
    api.kills = 0.0
    latest = api.now + LONGEST_END
    while api.pods and api.now < latest:
        world.until(api.now + 60.0)
    world.until(api.now + HOUR)
    if left := api.leaks():
        raise BrokenError(f"left at the end: {left}")
    return api.done


def main() -> None:
    """Print what happened in each simulated time, and fail where a rule did not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=HOUR)
    parser.add_argument("--kills", type=float, default=0.1, help="how likely the scheduler ends before a write")
    parser.add_argument("--most", type=int, default=MOST_KILLS, help="how often it ends in a simulated minute at most")
    parser.add_argument("--standby", action="store_true", help="a standby takes over instead of a new scheduler")
    given = parser.parse_args()
    failed = False
    for seed in range(given.first, given.first + given.seeds):
        try:
            done = simulate(seed, given.seconds, given.kills, given.most, standby=given.standby)
        except BrokenError as error:
            print(f"seed {seed}: {error}")
            failed = True
        else:
            print(f"seed {seed}: " + ", ".join(f"{name} {count}" for name, count in sorted(done.items())))
    sys.exit(failed)


if __name__ == "__main__":
    main()
