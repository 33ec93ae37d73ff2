"""Upgrade the scheduler and roll it back while pods arrive, from another version: nothing is lost, nothing bound twice.

    python tools/check_upgrade.py --from v0.1.0      # a tag or a commit; its packages are installed in an environment

On the embedded API with simulated nodes a replica of the older version leads, then one of this version, then the older
one again; each hand-over is that of a rolling update (start the new replica, SIGTERM to the old). Single pods and gangs
arrive all the time. Under every leader, and for the next one:

- a pod preempts in a namespace that may lose one pod an hour, and a second one is refused by the next leader;
- a gang reserves two nodes, a pod is backfilled on one of them, and a gang lacks a member: the next leader keeps the
  nodes from another pod, evicts the backfilled pod when its time is over, and places both gangs.

At the end every pod has run, each got its node once, no kubelet refused a pod, exactly the expected victims are gone,
and the records of all three leaders are in one history that both versions read; where the newer one has changed its
schema, it takes the change back before the rollback, as docs/runbook.md says. Exit code 1 and the difference otherwise.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import aiohttp
import uvloop
from check_release import LOCKS, PACKAGES, ROOT, environment, run
from measure_scheduler import (
    PODS,
    PRIORITIES,
    SCHEDULER,
    Process,
    Server,
    create,
    create_groups,
    gang,
    pod,
    priority,
    send,
    session,
)

Json = dict[str, Any]
LEASE = ("--leader-elect-lease-duration=6s", "--leader-elect-renew-deadline=4s", "--leader-elect-retry-period=1s")
LOADED, GANG, LEADERS = 6, 4, 3
"""Nodes of the pods that arrive, pods of a gang, and leaders one after the other."""
WHILE_LEADING = 30
"""Pods that every leader has to bind before the next one comes."""
PATIENCE = 600.0
BACKFILLED = "scheduling.reprieve.dev/backfilled-until"
RUNTIME = "scheduling.reprieve.dev/expected-runtime"
CONFIGURATION = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "schedulerName": SCHEDULER,
            "pluginConfig": [
                {
                    "name": "DefaultPreemption",
                    "args": {"holdSeconds": 1, "evictionLimits": [{"per": "namespace", "most": 1, "within": "1h"}]},
                },
                {"name": "Reservations", "args": {"reserveAfter": "1s", "backfillOverrun": "Evict"}},
            ],
        }
    ],
}


class DifferenceError(Exception):
    """Something was lost, doubled, or too much."""


def install(revision: str, scratch: Path) -> Path:
    """Install the packages of a revision into a new environment; return its Python."""
    sources = scratch / "older"
    sources.mkdir()
    archive = scratch / "older.tar"
    run(["git", "archive", "--output", archive, revision], ROOT)
    run(["tar", "-xf", archive, "-C", sources], scratch)
    programs = environment(scratch / "venv")
    lock = sources / "deploy" / "locks" / "image.txt"
    lock = lock if lock.exists() else LOCKS / "image.txt"
    pip = [programs / "python", "-m", "pip", "--quiet", "--disable-pip-version-check"]
    run([*pip, "install", "--require-hashes", "-r", lock], scratch)
    packages = [sources / "packages" / name for name in PACKAGES]
    run([*pip, "wheel", "--no-deps", "--wheel-dir", scratch / "wheels", *packages], scratch)
    run([*pip, "install", "--no-deps", "--no-index", *(scratch / "wheels").glob("*.whl")], scratch)
    return programs / "python"


class History:
    """What a watch of all pods reported."""

    def __init__(self) -> None:
        self.nodes: dict[str, list[str]] = {}
        """Pod -> its nodes, one after the other; more than one is a pod that was bound twice."""
        self.pods: dict[str, Json] = {}
        """The newest state of each pod."""
        self.gone: set[str] = set()
        self.failed: dict[str, str] = {}
        self.begun = asyncio.Event()

    async def follow(self, opened: aiohttp.ClientSession) -> None:
        """Read events until cancelled."""
        async with opened.get("/api/v1/pods?watch=true&resourceVersion=0", timeout=None) as answer:
            self.begun.set()
            async for line in answer.content:
                event = json.loads(line)
                name, node = event["object"]["metadata"]["name"], event["object"]["spec"].get("nodeName")
                self.pods[name] = event["object"]
                seen = self.nodes.setdefault(name, [])
                if node and seen[-1:] != [node]:
                    seen.append(node)
                status = event["object"].get("status", {})
                if status.get("phase") == "Failed":
                    self.failed[name] = status.get("reason", "")
                if event["type"] == "DELETED":
                    self.gone.add(name)

    @property
    def bound(self) -> int:
        """Return how many pods have had a node."""
        return sum(bool(nodes) for nodes in self.nodes.values())

    def has_run(self, *names: str) -> bool:
        """Return whether all these pods have had a node."""
        return all(self.nodes.get(name) for name in names)

    def nominated(self, *names: str) -> list[str]:
        """Return the nodes that are reserved for pods; empty for a pod without."""
        found = (self.pods.get(name, {}).get("status", {}) for name in names)
        return [status.get("nominatedNodeName", "") for status in found]

    def refusal(self, name: str) -> str:
        """Return why a pod was not placed; empty if that has not been tried."""
        conditions = self.pods.get(name, {}).get("status", {}).get("conditions", ())
        return next((one.get("message", "") for one in conditions if one.get("reason") == "Unschedulable"), "")


Wait = Callable[[Callable[[], bool], str], Any]
"""Wait until something holds, which a text describes."""


class Load:
    """Pods and gangs that arrive until `stop`, and what each leader leaves to the next one."""

    def __init__(self, opened: aiohttp.ClientSession, seen: History, wait: Wait) -> None:
        self._opened = opened
        self._seen = seen
        self._wait = wait
        self._stopping = False
        self._reserved: dict[int, list[str]] = {}
        self.pods: set[str] = set()
        self.refused: set[str] = set()
        """Pods that limits and reservations keep from nodes."""
        self.victims: set[str] = set()
        """Pods that are preempted: the history has them."""
        self.overran: set[str] = set()
        """Backfilled pods that are evicted when their time is over."""
        self.ended: set[str] = set()
        """Pods that are deleted by a user."""

    def stop(self) -> None:
        """Let nothing more arrive."""
        self._stopping = True

    async def prepare(self) -> None:
        """Create classes and namespaces."""
        await create(self._opened, PRIORITIES, [priority("low", 0), priority("middle", 100), priority("high", 1000)])
        names = [f"{kind}-{turn}" for turn in range(LEADERS) for kind in ("limited", "held")]
        spaces: list[Json] = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names]
        await create(self._opened, "/api/v1/namespaces", spaces)

    async def arrive(self) -> None:
        """Create single pods and, after every tenth, a gang."""
        number = 0
        while not self._stopping:
            number += 1
            await self._create([small(f"s-{number}")])
            if number % 10 == 0:
                name = f"g{number}"
                await create_groups(self._opened, [gang(name, GANG, "middle")])
                await self._create([small(f"{name}-{turn}", name) for turn in range(GANG)])
            await asyncio.sleep(0.1)

    async def take_over(self, turn: int) -> None:
        """Check that a leader goes on with what the one before began."""
        seen, before = self._seen, turn - 1
        members, nodes = [f"held-{before}-{i}" for i in range(2)], self._reserved[before]
        space = f"held-{before}"
        await self._refuse(small(f"thief-{before}", cpu="10", on=f"hold-{before}-b", space=space))
        await self._wait(lambda: seen.nominated(*members) == nodes, f"{members} to keep {nodes}")
        brief, long = f"brief-{before}", f"long-{before}"
        if BACKFILLED in seen.pods[brief]["metadata"].get("annotations", {}):
            self.overran.add(brief)
        self.ended.add(long)
        await send(self._opened, "DELETE", [(f"/api/v1/namespaces/{space}/pods/{long}", {})])
        await self._wait(lambda: seen.has_run(*members), f"{members} on their nodes")
        if [seen.nodes[name][-1] for name in members] != nodes:
            raise DifferenceError(f"{members}: {nodes} were reserved, they are on others")
        late = f"late-{before}"
        if seen.has_run(f"{late}-0"):
            raise DifferenceError(f"{late}: a gang without all its pods was placed")
        await self._create([small(f"{late}-{GANG - 1}", late)])
        await self._wait(lambda: seen.has_run(*(f"{late}-{i}" for i in range(GANG))), f"{late} complete")
        space = f"limited-{before}"
        await self._fill(f"kept-{before}", f"node-{LEADERS + before}", space)
        await self._refuse(
            small(f"blocked-{before}", cpu="20", on=f"node-{LEADERS + before}", rank="high", space=space),
            "protected by eviction limits",
        )

    async def preempt(self, turn: int) -> None:
        """Fill a node with a pod of low priority, and ask for the same node with a high one."""
        node, space = f"node-{turn}", f"limited-{turn}"
        await self._fill(f"low-{turn}", node, space)
        self.victims.add(f"low-{turn}")
        high = f"high-{turn}"
        await self._create([small(high, cpu="20", on=node, rank="high", space=space)])
        await self._wait(lambda: self._seen.has_run(high), f"{high} on {node}")

    async def leave(self, turn: int) -> None:
        """Reserve two nodes for a gang, backfill one of them, and create a gang that lacks a pod."""
        seen, space, late = self._seen, f"held-{turn}", f"late-{turn}"
        first, second = f"hold-{turn}-a", f"hold-{turn}-b"
        long, brief = f"long-{turn}", f"brief-{turn}"
        await self._create([small(long, cpu="24", on=first, space=space, runtime="1h")])
        await self._wait(lambda: seen.has_run(long), f"{long} on {first}")
        group = gang(space, 2, "middle")
        group["metadata"]["namespace"] = space
        await create_groups(self._opened, [group, gang(late, GANG, "middle")])
        members = [small(f"held-{turn}-{i}", space, cpu="24", part=space, space=space) for i in range(2)]
        await self._create([*members, *(small(f"{late}-{i}", late) for i in range(GANG - 1))])
        names = [body["metadata"]["name"] for body in members]
        await self._wait(lambda: sorted(seen.nominated(*names)) == [first, second], f"{space} reserves its nodes")
        self._reserved[turn] = seen.nominated(*names)
        await self._create([small(brief, cpu="16", on=second, space=space, runtime="4s")])
        await self._wait(lambda: seen.has_run(brief), f"{brief} backfilled on {second}")

    async def _fill(self, name: str, node: str, space: str) -> None:
        await self._create([small(name, cpu="20", on=node, rank="low", space=space)])
        await self._wait(lambda: self._seen.has_run(name), f"{name} on {node}")

    async def _refuse(self, body: Json, why: str = "") -> None:
        """Create a pod that must not be placed."""
        name = body["metadata"]["name"]
        self.refused.add(name)
        await create(self._opened, PODS, [body])
        await self._wait(lambda: bool(found := self._seen.refusal(name)) and why in found, f"{name} refused {why}")

    async def _create(self, bodies: list[Json]) -> None:
        self.pods |= {body["metadata"]["name"] for body in bodies}
        await create(self._opened, PODS, bodies)


def small(
    name: str,
    group: str | None = None,
    *,
    cpu: str = "10m",
    on: str = "",
    part: str = "load",
    rank: str = "middle",
    space: str = "default",
    runtime: str = "",
) -> Json:
    """Return a pod for one node, or for the nodes of a part; by default it fits on those of the load."""
    body = pod(name, group)
    body["metadata"]["namespace"] = space
    if runtime:
        body["metadata"]["annotations"] = {RUNTIME: runtime}
    body["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    selector = {"kubernetes.io/hostname": on} if on else {"part": part}
    body["spec"] |= {"priorityClassName": rank, "terminationGracePeriodSeconds": 0, "nodeSelector": selector}
    return body


def check(load: Load, seen: History) -> None:
    """Raise DifferenceError for what is not as it should be."""
    differences = {
        "never bound": sorted(name for name in load.pods if not seen.nodes.get(name)),
        "bound against a limit or a reservation": sorted(name for name in load.refused if seen.nodes.get(name)),
        "bound twice": sorted(name for name, nodes in seen.nodes.items() if len(nodes) > 1),
        "refused by a kubelet": sorted(seen.failed),
        "evicted without reason": sorted(seen.gone - load.victims - load.overran - load.ended),
        "not evicted": sorted((load.victims | load.overran) - seen.gone),
    }
    if wrong := {what: names for what, names in differences.items() if names}:
        raise DifferenceError(json.dumps(wrong, indent=1))


def kept_records(database: Path) -> set[int]:
    """Return the numbers of the decision records that are in a database."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as opened:
        return {number for (number,) in opened.execute("SELECT id FROM record")}


async def play(older: Path, scratch: Path, while_leading: int = WHILE_LEADING) -> None:
    """Older, newer, older: the whole sequence. Raises DifferenceError."""
    nodes, config, database = (scratch / name for name in ("nodes.json", "config.json", "records.sqlite"))
    nodes.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": machines()}))
    config.write_text(json.dumps(CONFIGURATION))
    server = Server(scratch, kubelets=True, nodes=0, more=["-f", str(nodes)])
    records = f"sqlite:///{database}"

    def replica(python: str | Path, name: str) -> Process:
        parts = [str(python), "-m", "reprieve", "scheduler", "--kubeconfig", str(server.kubeconfig), *LEASE]
        parts += ["--config", str(config), "--port", "0", "-v", "2"]
        parts += ["--records", records, "--records-spool", str(scratch / f"spool-{name}")]
        return Process(log=scratch / f"{name}.log", command=" ".join(parts))

    async with session(server) as opened:

        async def until(holds: Callable[[], bool], what: str) -> None:
            ends = time.monotonic() + PATIENCE
            while not holds():
                if leader.process.poll() is not None or time.monotonic() > ends:
                    raise DifferenceError(f"{leader.log.name}: waiting for {what}: {leader.log.read_text()[-2000:]}")
                await asyncio.sleep(0.05)

        seen = History()
        load = Load(opened, seen, until)
        await load.prepare()
        tasks = [asyncio.create_task(seen.follow(opened))]
        await seen.begun.wait()
        leader, tasks = replica(older, "older-1"), [*tasks, asyncio.create_task(load.arrive())]
        written: set[int] = set()
        for turn, (python, name) in enumerate(((older, ""), (Path(sys.executable), "newer"), (older, "older-2"))):
            if turn:
                follower = replica(python, name)
                while follower.process.poll() is None and "Connected" not in follower.log.read_text():
                    await asyncio.sleep(0.1)
                leader.process.terminate()
                await asyncio.to_thread(leader.process.wait, 60)
                written |= kept_records(database)
                if version := too_new(follower):
                    print(f"the schema of the records goes back to version {version} (docs/runbook.md)", flush=True)
                    run(
                        [sys.executable, "-m", "reprieve", "records", "migrate", "--records", records, "--to", version],
                        scratch,
                    )
                    follower = replica(python, f"{name}-again")
                leader = follower
                await load.take_over(turn)
            wanted = seen.bound + while_leading
            await until(lambda wanted=wanted: seen.bound >= wanted, f"{wanted} pods bound")  # type: ignore[misc]
            await load.preempt(turn)
            if turn < LEADERS - 1:
                await load.leave(turn)
            print(f"{leader.log.stem} leads: {seen.bound} pods bound so far", flush=True)
        load.stop()
        await tasks[1]
        await until(lambda: seen.has_run(*load.pods) and load.victims <= seen.gone, "all to be bound and gone")
        leader.process.terminate()
        await asyncio.to_thread(leader.process.wait, 60)
        tasks[0].cancel()
        with suppress(asyncio.CancelledError):
            await tasks[0]
    check(load, seen)
    if lost := written - kept_records(database):
        raise DifferenceError(f"{len(lost)} of {len(written)} records of earlier leaders are lost")
    for python in (older, Path(sys.executable)):  # the newer last: it may change the schema again
        told = run([python, "-m", "reprieve", "history", "-A", "--records", records, "--since", "1d"], scratch)
        if missing := [victim for victim in load.victims if victim not in told]:
            raise DifferenceError(f"{python}: the history lacks {missing}:\n{told}")
    print(
        f"{len(load.pods)} pods, each bound once; "
        f"{len(load.victims)} preemptions, all in the history of both versions; "
        f"{len(load.overran)} backfilled pods evicted in time; "
        f"{len(load.refused)} pods kept from limits and reservations; {len(kept_records(database))} records, none lost"
    )


def too_new(replica: Process) -> str:
    """Return the schema version that a replica asks for, if it has ended because that of the records is newer."""
    if replica.process.poll() is None:
        return ""
    asked = re.search(r"`reprieve records migrate --to (\d+)`", replica.log.read_text())
    return asked[1] if asked else ""


def machines() -> list[Json]:
    """Return nodes of 32 CPUs: those of the load, those of preemptions, and two for each reservation."""
    parts = {f"load-{turn}": "load" for turn in range(LOADED)}
    parts |= {f"node-{turn}": "limited" for turn in range(2 * LEADERS)}
    parts |= {f"hold-{turn}-{end}": f"held-{turn}" for turn in range(LEADERS - 1) for end in "ab"}
    amounts = {"cpu": "32", "memory": "128Gi", "pods": "500"}
    return [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "part": part}},
            "status": {"allocatable": amounts},
        }
        for name, part in parts.items()
    ]


def main() -> int:
    """Check what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--from", dest="revision", required=True, metavar="REVISION", help="the older version")
    revision = parser.parse_args().revision
    with tempfile.TemporaryDirectory(prefix="reprieve-upgrade-") as name:
        try:
            older = install(revision, Path(name))
            uvloop.run(play(older, Path(name)))
        except DifferenceError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        except subprocess.CalledProcessError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        finally:
            for process in reversed(Process.started):
                process.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
