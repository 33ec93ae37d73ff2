"""Upgrade the scheduler and roll it back while pods arrive, from another version: nothing is lost, nothing bound twice.

    python tools/check_upgrade.py --from v0.1.0      # a tag or a commit; its packages are installed in an environment

On the embedded API with simulated nodes a replica of the older version leads, then one of this version, then the older
one again; each hand-over is that of a rolling update (start the new replica, SIGTERM to the old). Single pods and gangs
arrive all the time, and under every leader a pod preempts. At the end every pod has run, each got its node once, no
kubelet refused a pod, exactly the expected victims are gone, and the records of all three leaders are in one history
that both versions read; where the newer one has changed its schema, it takes the change back before the rollback, as
docs/runbook.md says. Exit code 1 and the difference otherwise.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import uvloop
from check_release import LOCKS, PACKAGES, ROOT, environment, run
from measure_scheduler import PODS, PRIORITIES, Process, Server, create, create_groups, gang, pod, priority, session

Json = dict[str, Any]
LEASE = ("--leader-elect-lease-duration=6s", "--leader-elect-renew-deadline=4s", "--leader-elect-retry-period=1s")
NODES, GANG = 12, 4
WHILE_LEADING = 30
"""Pods that every leader has to bind before the next one comes."""
PATIENCE = 600.0


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
        self.gone: set[str] = set()
        self.failed: dict[str, str] = {}
        self.begun = asyncio.Event()

    async def follow(self, opened: aiohttp.ClientSession) -> None:
        """Read events until cancelled."""
        async with opened.get(f"{PODS}?watch=true&resourceVersion=0", timeout=None) as answer:
            self.begun.set()
            async for line in answer.content:
                event = json.loads(line)
                name, node = event["object"]["metadata"]["name"], event["object"]["spec"].get("nodeName")
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


class Load:
    """Pods and gangs that arrive until `stop`, and preemptions on demand."""

    def __init__(self, opened: aiohttp.ClientSession) -> None:
        self._opened = opened
        self._stopping = False
        self.pods: set[str] = set()
        self.victims: set[str] = set()

    def stop(self) -> None:
        """Let nothing more arrive."""
        self._stopping = True

    async def arrive(self) -> None:
        """Create single pods and, after every tenth, a gang."""
        number = 0
        while not self._stopping:
            number += 1
            await self._create([small(f"s-{number}")])
            if number % 10 == 0:
                name = f"g{number}"
                await create_groups(self._opened, [gang(name, GANG, "middle")])
                await self._create([small(f"{name}-{turn}", name, "middle") for turn in range(GANG)])
            await asyncio.sleep(0.1)

    async def preempt(self, turn: int, wait: Callable[[Callable[[], bool]], Any], seen: History) -> None:
        """Fill a node with a pod of low priority, and ask for the same node with a high one."""
        low, high = on_node(f"low-{turn}", turn, "low"), on_node(f"high-{turn}", turn, "high")
        await self._create([low])
        await wait(lambda: bool(seen.nodes.get(f"low-{turn}")))
        self.victims.add(f"low-{turn}")
        await self._create([high])
        await wait(lambda: bool(seen.nodes.get(f"high-{turn}")))

    async def _create(self, bodies: list[Json]) -> None:
        self.pods |= {body["metadata"]["name"] for body in bodies}
        await create(self._opened, PODS, bodies)


def small(name: str, group: str | None = None, priority_class: str = "middle") -> Json:
    """Return a pod that always fits on the nodes that are not for preemptions."""
    body = pod(name, group)
    body["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "10m"}}
    body["spec"]["priorityClassName"] = priority_class
    apart = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": [f"node-{turn}" for turn in range(3)]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [apart]}]}
    body["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    return body


def on_node(name: str, turn: int, priority_class: str) -> Json:
    """Return a pod that needs more than half of one node."""
    body = pod(name)
    body["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "20"}}
    body["spec"] |= {"priorityClassName": priority_class, "terminationGracePeriodSeconds": 0}
    body["spec"]["nodeSelector"] = {"kubernetes.io/hostname": f"node-{turn}"}
    return body


def check(load: Load, seen: History) -> None:
    """Raise DifferenceError for what is not as it should be."""
    differences = {
        "never bound": sorted(name for name in load.pods if not seen.nodes.get(name)),
        "bound twice": sorted(name for name, nodes in seen.nodes.items() if len(nodes) > 1),
        "refused by a kubelet": sorted(seen.failed),
        "evicted without reason": sorted(seen.gone - load.victims),
        "not evicted": sorted(load.victims - seen.gone),
    }
    if wrong := {what: names for what, names in differences.items() if names}:
        raise DifferenceError(json.dumps(wrong, indent=1))


async def play(older: Path, scratch: Path) -> None:
    """Older, newer, older: the whole sequence. Raises DifferenceError."""
    nodes = scratch / "nodes.json"
    nodes.write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [machine(turn) for turn in range(NODES)]})
    )
    server = Server(scratch, kubelets=True, nodes=0, more=["-f", str(nodes)])
    records = f"sqlite:///{scratch / 'records.sqlite'}"

    def replica(python: str | Path, name: str) -> Process:
        parts = [str(python), "-m", "reprieve", "scheduler", "--kubeconfig", str(server.kubeconfig), *LEASE]
        parts += ["--port", "0", "-v", "2", "--records", records, "--records-spool", str(scratch / f"spool-{name}")]
        return Process(log=scratch / f"{name}.log", command=" ".join(parts))

    async with session(server) as opened:
        await create(opened, PRIORITIES, [priority("low", 0), priority("middle", 100), priority("high", 1000)])
        seen, load = History(), Load(opened)
        tasks = [asyncio.create_task(seen.follow(opened))]
        await seen.begun.wait()
        leader, tasks = replica(older, "older-1"), [*tasks, asyncio.create_task(load.arrive())]

        async def until(holds: Callable[[], bool]) -> None:
            ends = time.monotonic() + PATIENCE
            while not holds():
                if leader.process.poll() is not None or time.monotonic() > ends:
                    raise DifferenceError(f"{leader.log.name}: {leader.log.read_text()[-2000:]}")
                await asyncio.sleep(0.05)

        for turn, (python, name) in enumerate(((older, ""), (Path(sys.executable), "newer"), (older, "older-2"))):
            if turn:
                follower = replica(python, name)
                while follower.process.poll() is None and "Connected" not in follower.log.read_text():
                    await asyncio.sleep(0.1)
                leader.process.terminate()
                await asyncio.to_thread(leader.process.wait, 60)
                if version := too_new(follower):
                    print(f"the schema of the records goes back to version {version} (docs/runbook.md)", flush=True)
                    run(
                        [sys.executable, "-m", "reprieve", "records", "migrate", "--records", records, "--to", version],
                        scratch,
                    )
                    follower = replica(python, f"{name}-again")
                leader = follower
            wanted = seen.bound + WHILE_LEADING
            await until(lambda wanted=wanted: seen.bound >= wanted)  # type: ignore[misc]
            await load.preempt(turn, until, seen)
            print(f"{leader.log.stem} leads: {seen.bound} pods bound so far", flush=True)
        load.stop()
        await tasks[1]
        await until(lambda: all(seen.nodes.get(name) for name in load.pods) and load.victims <= seen.gone)
        leader.process.terminate()
        await asyncio.to_thread(leader.process.wait, 60)
        tasks[0].cancel()
        with suppress(asyncio.CancelledError):
            await tasks[0]
    check(load, seen)
    for python in (older, Path(sys.executable)):  # the newer last: it may change the schema again
        told = run([python, "-m", "reprieve", "history", "--records", records, "--since", "1d"], scratch)
        if missing := [victim for victim in load.victims if victim not in told]:
            raise DifferenceError(f"{python}: the history lacks {missing}:\n{told}")
    print(f"{len(load.pods)} pods, each bound once; {len(load.victims)} evictions, all in the history of both versions")


def too_new(replica: Process) -> str:
    """Return the schema version that a replica asks for, if it has ended because that of the records is newer."""
    if replica.process.poll() is None:
        return ""
    asked = re.search(r"`reprieve records migrate --to (\d+)`", replica.log.read_text())
    return asked[1] if asked else ""


def machine(turn: int) -> Json:
    """Return a node of 32 CPUs."""
    amounts = {"cpu": "32", "memory": "128Gi", "pods": "500"}
    metadata = {"name": f"node-{turn}", "labels": {"kubernetes.io/hostname": f"node-{turn}"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"allocatable": amounts}}


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
