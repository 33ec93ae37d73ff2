"""Kill the scheduler again and again within a simulated hour, and check that limits hold and nothing leaks.

    python tools/restart_chaos.py                    # an hour with 500 kills
    python tools/restart_chaos.py --seeds 20 --seconds 900
    python tools/restart_chaos.py --standby                # each time a standby takes over that has heard all writes

An API server, kubelets and controllers are played with real objects; the scheduler is the engine. Pods and gangs of
several priorities come, end, overstay and are deleted. Every write may be the last of a scheduler: then a
new engine reads the objects, as after kill -9; or a standby takes over, which has heard of every write as it was made
and begins with the nominations that it saw end. Neither has records: only evictions are counted again, as with records
(cost.md 9.4). Checked after every write:

- a pod is bound once, and no node is overfull;
- no amount is reserved twice when nothing is ready (reservations.md 7.3), and no more entities hold a reservation than
  may;
- no owner is evicted more often than its limit allows (cost.md 9), no more units move than may (moving.md 4.5).

When nothing comes any more, everything has to run and end, and the engine has to be empty.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter, deque
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from kube_rules import objects
from reprieve.cluster.evictions import OWNER, EvictedUnit, EvictionLimit
from reprieve.cluster.pods import PodRecord
from reprieve.framework.instructions import PatchObject
from reprieve.plugins.reservations import ReservationOptions, ReservationsPlugin
from reprieve.preemption.default_preemption import DefaultPreemption
from reprieve.preemption.eviction_limits import evicted_unit
from reprieve.preemption.options import PreemptionOptions
from reprieve.scheduling.decision import Decision
from reprieve.scheduling.effects import Effects
from reprieve.scheduling.engine import Engine
from reprieve.scheduling.engine_options import EngineOptions
from reprieve.testing import START, group, node, pod, profile_with

NODES, CPUS = 6, 8
MOST_EVICTIONS, WITHIN = 2, 900.0
MOST_MOVES = 6
HOUR = 3600.0
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

    def __init__(self, chance: random.Random, kills: float, *, standby: bool = False) -> None:
        self.chance, self.kills = chance, kills
        self.now = START
        self.fixed: list[objects.KubernetesObject] = [node(f"n{i}", cpu=CPUS) for i in range(NODES)]
        self.pods: dict[str, objects.Pod] = {}
        self.groups: dict[str, objects.PodGroup] = {}
        self.ends: dict[str, float] = {}
        """When a pod on a node has done its work, or has left, by UID."""
        self.evictions: list[tuple[float, EvictedUnit]] = []
        self.moves: deque[float] = deque()
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
        preemption = PreemptionOptions(moves=True, moves_per_hour=MOST_MOVES, eviction_limits=limits, hold_seconds=60.0)
        reserving = ReservationOptions(reserve_after=30.0, min_pods=1, evict_overrun=True, max_idle_share=1.0)
        profile = profile_with(DefaultPreemption(preemption), ReservationsPlugin(reserving))
        return Engine(EngineOptions({profile.name: profile}))

    # -- objects ---------------------------------------------------------------------------------------------------

    def restart(self) -> None:
        """Begin with the standby, or with a new engine, which reads what there is."""
        self.done["kills"] += 1
        effects: list[Effects] = []
        ended, self._ended = self._ended, []
        if self.with_standby and self.done["kills"] > 1:
            self.engine = self.standby
        else:
            self.engine = self._engine()
            effects = self._read(self.engine)
        if self.with_standby:
            self.standby = self._engine()
            self._ended += [item for made in self._read(self.standby) for item in made.unnominated]
        for when, unit in self.evictions:
            self.engine.cluster.evictions.note(unit, when)
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
        self.carry_out(self.engine.set(item, self.now))

    def _gone(self, reference: objects.ObjectRef) -> None:
        """Let both learn that an object is gone."""
        if self.with_standby:
            self._ended += self.standby.remove(reference, self.now).unnominated
        self.carry_out(self.engine.remove(reference, self.now))

    def put(self, item: objects.Pod | objects.PodGroup) -> None:
        """Write an object; the scheduler sees it at once."""
        if isinstance(item, objects.Pod):
            self.pods[item.metadata.uid] = item
        else:
            self.groups[item.metadata.name] = item
        self._heard(item)

    def status(self, uid: str, condition: objects.PodCondition | None = None, **fields: Any) -> None:
        """Patch the status of a pod, if it is there, as the scheduler does: the scheduler may be killed before it."""
        self._may_die()
        item = self.pods.get(uid)
        if item is None:
            return
        if condition is not None:
            others = (known for known in item.status.conditions if known.type != condition.type)
            fields["conditions"] = (*others, condition)
        self.put(replace(item, status=replace(item.status, **fields)))

    def remove(self, uid: str) -> None:
        """A pod is gone; its controller makes it anew if it was evicted or deleted."""
        item = self.pods.pop(uid)
        left = self.ends.pop(uid, None)
        self._gone(objects.ObjectRef("Pod", f"default/{item.metadata.name}", uid))
        if item.metadata.deletion_timestamp is not None and left is not None:
            self.done["made anew"] += 1
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
        if self.chance.random() < self.kills:
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
            self.done["reservations"] += 1
            for item, name in held.pods:
                self.status(item.uid, nominated_node_name=name)
        for place in effects.kept:
            if place.replaced:
                self.status(place.keeper.uid, nominated_node_name=place.node)
        for eviction in effects.evictions:
            self.done["direct evictions"] += 1
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

    def _since(self, uid: str) -> datetime:
        known = self.pods[uid].status.conditions if uid in self.pods else ()
        found = next((one.last_transition_time for one in known if one.type == "PodScheduled"), None)
        return found or _time(self.now)

    def _preempt(self, decision: Decision) -> None:
        made = decision.preemption
        assert made is not None
        self._may_die()
        moved = {item.uid for item, _ in made.moves}
        units = [verdict.unit for verdict in made.victims]
        for unit in units:
            self.evictions.append((self.now, evicted_unit(self.engine.cluster, unit)))
            if unit.pods[0].uid in moved:
                self.moves.append(self.now)
        self.done["moves" if moved else "preemptions"] += 1
        for unit in units:
            for item in unit.pods:
                self.evict(item.uid)
        self.carry_out(self.engine.preemption_done(made.ref, self.now))

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
        while self.moves and self.moves[0] <= self.now - HOUR:
            self.moves.popleft()
        if len(self.moves) > MOST_MOVES:
            raise BrokenError(f"{len(self.moves)} units moved within an hour")
        self.evictions = [(when, unit) for when, unit in self.evictions if when > self.now - WITHIN]
        most = Counter(name for name, _ in {(unit.owner, unit.uid) for _, unit in self.evictions})
        if most and max(most.values()) > MOST_EVICTIONS:
            raise BrokenError(f"evicted beyond the limit: {most.most_common(1)}")

    def check_reserved(self) -> None:
        """Raise BrokenError for an amount that is reserved twice, when nothing is ready to be tried."""
        reserved: Counter[int] = Counter()
        for held in self.engine.reservations.held.values():
            for item, _ in held.pods:
                if item.row < 0 <= item.nominated:
                    reserved[item.nominated] += item.signature.amounts["cpu"]
        if any(count > 1000 * CPUS for count in reserved.values()):
            raise BrokenError(f"reserved twice, in milli-CPUs by row: {dict(reserved)}")

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


def _some(found: Any) -> list[Any]:
    return [one for one in (found.values() if isinstance(found, dict) else found) if one or one == 0]


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(int(seconds), UTC)


class World:
    """What happens: arrivals, ends and time."""

    def __init__(self, seed: int, kills: float, *, standby: bool = False) -> None:
        self.chance = random.Random(seed)
        self.api = Api(random.Random(seed + 1), kills, standby=standby)
        self._owners = 0

    def survive(self, act: Any) -> None:
        """Do something; a scheduler that is killed is started again until one is not."""
        try:
            act()
        except KilledError:
            while True:
                try:
                    self.api.restart()
                except KilledError:
                    continue
                return

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
        priority = chance.choice((0, 0, 0, 5, 10))
        members = chance.choice((1, 1, 1, 2, 3, 6))
        name = f"set-{self._owners}"
        owner = objects.OwnerReference(
            api_version="batch/v1", kind="Job", name=name, uid=f"uid-{name}", controller=True
        )
        gang = members > 1 and chance.random() < 0.6
        cpu = chance.choice((4, 8)) if gang else chance.choice((1, 1, 2, 4, 8))
        if gang:
            made = group(name, min_count=members, priority=priority, whole=chance.random() < 0.5)
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
        while True:
            effects = self.api.engine.step(self.api.now)
            engine = self.api.engine
            self.survive(lambda: self.api.carry_out(effects))  # noqa: B023
            if effects.decision is None and engine is self.api.engine:
                self.api.check_reserved()
                return

    def until(self, when: float) -> None:
        """Let time pass."""
        api = self.api
        while api.now < when:
            wakeup = api.engine.next_wakeup()
            times = [when, *api.ends.values(), *([wakeup] if wakeup is not None else [])]
            api.now = max(api.now + 0.1, min(times))
            for uid in [uid for uid, end in api.ends.items() if end <= api.now]:
                if uid in api.pods:
                    self.survive(lambda uid=uid: api.remove(uid))  # type: ignore[misc]
            self.survive(lambda: api.carry_out(api.engine.tick(api.now)))
            self.step()


def simulate(seed: int, seconds: float, kills: float, *, standby: bool = False) -> Counter[str]:
    """Return what happened. Raises BrokenError where a rule did not hold.

    `kills`: how likely the scheduler ends before a write; `standby`: another one has heard of all writes.
    """
    world = World(seed, kills, standby=standby)
    api = world.api
    world.survive(api.restart)
    end = START + seconds
    while api.now < end:
        world.arrive()
        world.step()
        if api.pods and world.chance.random() < 0.1:
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
    parser.add_argument("--standby", action="store_true", help="a standby takes over instead of a new scheduler")
    given = parser.parse_args()
    failed = False
    for seed in range(given.first, given.first + given.seeds):
        try:
            done = simulate(seed, given.seconds, given.kills, standby=given.standby)
        except BrokenError as error:
            print(f"seed {seed}: {error}")
            failed = True
        else:
            print(f"seed {seed}: " + ", ".join(f"{name} {count}" for name, count in sorted(done.items())))
    sys.exit(failed)


if __name__ == "__main__":
    main()
