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
from collections import Counter
from contextlib import suppress
from typing import Any

from msgspec.structs import replace
from restart_api import GRACE, HOUR, MOST_KILLS, Api, BrokenError, KilledError

from kube_rules import objects
from reprieve.testing import START, group, pod

LONGEST_END = 12 * HOUR
"""Everything has ended by then after the last arrival."""
PREFIX = "scheduling.reprieve.dev/"


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
