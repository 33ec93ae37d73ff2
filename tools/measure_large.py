"""Measure reprieve on large clusters in which no two pods are alike (docs/sizing.md).

    python tools/measure_large.py plan                        # a file of 20,000 nodes and 200,000 running pods
    python tools/measure_large.py plan --nodes 5000 --pods 50000 --profile /tmp/plan.prof
    python tools/measure_large.py live                        # 5,000 nodes and 50,000 pods on the embedded API

`plan` writes the cluster of `simulation.bench.distinct_pods` and ten pending pods to a JSON file and runs `reprieve
plan` on it. `live` starts `reprieve apiserver` with the same cluster, two replicas of `reprieve scheduler`, and kills
the leader; then `reprieve plan --kubeconfig` and `reprieve snapshot`. Every figure is of a process of its own: seconds,
its processor time (user and system, which a busy machine changes little), and the most memory it held.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import uvloop
import yaml
from measure_scheduler import (
    ENVIRONMENT,
    PODS,
    Process,
    Watch,
    create,
    manifest,
    pod,
    remove_taints,
    session,
    unlike_nodes,
    unlike_pods,
)

from reprieve.simulation.bench import distinct_pods

Json = dict[str, Any]
PENDING = 10
RETRY = 2.0
"""Seconds between attempts to take the lease: the default of the scheduler, as of kube-scheduler."""
PATIENCE = 1800.0
"""Seconds to wait for anything, on a machine that others use."""


def run(title: str, arguments: Sequence[str], *, profile: str = "") -> str:
    """Run `reprieve ARGUMENTS`, print what it used, and return what it printed."""
    program = [sys.executable, *(("-m", "cProfile", "-o", profile) if profile else ()), "-m", "reprieve"]
    start = time.perf_counter()
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen([*program, *arguments], stdout=out, env=ENVIRONMENT)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        printed = out.read().decode()
    if process.returncode:
        raise SystemExit(f"reprieve {' '.join(arguments)}: exit code {process.returncode}")
    seconds = time.perf_counter() - start
    cpu = used.ru_utime + used.ru_stime
    print(f"{title}: {seconds:.1f} s, {cpu:.1f} s of processor time, {used.ru_maxrss / 1024:.0f} MiB", flush=True)
    return printed


def write_cluster(path: Path, nodes: int, pods: int, pending: int = PENDING) -> None:
    """`write_objects` in a process of its own: the most memory of a process counts for those that it starts, too."""
    writer = multiprocessing.Process(target=write_objects, args=(path, nodes, pods, pending))
    writer.start()
    writer.join()


def write_objects(path: Path, nodes: int, pods: int, pending: int) -> None:
    """Write a List of namespaces, nodes, services, running pods and pending ones as JSON, an object in each line."""
    services = [manifest(service) for service in distinct_pods.services(pods)]
    names = sorted({body["metadata"]["namespace"] for body in services})
    bodies: list[Json] = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names]
    bodies += unlike_nodes(nodes)
    for body in services:
        body["spec"] |= {"clusterIP": "None", "ports": [{"port": 80}]}
    bodies += services
    bodies += unlike_pods(0, pods, nodes=nodes)
    bodies += unlike_pods(pods, pending)
    encode = msgspec.json.Encoder().encode
    with path.open("wb") as file:
        file.write(b'{"apiVersion": "v1", "kind": "List", "items": [\n')
        file.write(b",\n".join(encode(body) for body in bodies))
        file.write(b"]}\n")


def measure_plan(options: argparse.Namespace) -> None:
    """Measure `reprieve plan` of a file."""
    with tempfile.TemporaryDirectory() as scratch:
        path = options.file or Path(scratch) / "cluster.json"
        if not path.exists():
            write_cluster(path, options.nodes, options.pods)
        size = path.stat().st_size / 2**20
        title = f"plan of {options.nodes} nodes and {options.pods} pods ({size:.0f} MiB)"
        arguments = ["plan", "-f", str(path), "--max-input-bytes", "1Gi"]
        print("  " + run(title, arguments, profile=options.profile).splitlines()[0])


class LoadedServer(Process):
    """`reprieve apiserver` with the cluster of a file, in memory, without controllers and kubelets."""

    def __init__(self, directory: Path, cluster: Path) -> None:
        self.kubeconfig = directory / "kubeconfig"
        arguments = ["apiserver", "--data-dir", str(directory / "data"), "--port", "0", "--no-kubelets"]
        arguments += ["--controllers", "none", "-f", str(cluster), "--max-input-bytes", "1Gi"]
        super().__init__(*arguments, "--kubeconfig", str(self.kubeconfig), log=directory / "apiserver.log")
        wait(self.kubeconfig.exists, self)
        content = yaml.safe_load(self.kubeconfig.read_text())
        self.url: str = content["clusters"][0]["cluster"]["server"]
        self.token: str = content["users"][0]["user"]["token"]
        self.ca = str(directory / "data" / "pki" / "ca.crt")


def wait(holds: Callable[[], bool], process: Process) -> None:
    """Wait for a condition. Raises SystemExit with the log if the process ends or it takes too long."""
    ends = time.monotonic() + PATIENCE
    while not holds():
        if process.process.poll() is not None or time.monotonic() > ends:
            raise SystemExit(process.log.read_text()[-2000:])
        time.sleep(0.02)


async def bound(seen: Watch, names: Sequence[str], process: Process) -> float:
    """Wait until pods have nodes, and return when the last of them got it. Raises SystemExit as `wait`."""
    wanted = [name.encode() for name in names]
    ends = time.monotonic() + PATIENCE
    while not all(name in seen.bound for name in wanted):
        if process.process.poll() is not None or time.monotonic() > ends:
            raise SystemExit(f"{names[0]} and others are not bound: {process.log.read_text()[-2000:]}")
        await asyncio.sleep(0.02)
    return max(seen.bound[name] for name in wanted)


def replica(server: LoadedServer, name: str, lease: float) -> Process:
    """Start a replica of the scheduler with leader election."""
    times = [f"--leader-elect-lease-duration={lease:g}s", f"--leader-elect-renew-deadline={lease * 2 / 3:g}s"]
    times += [f"--leader-elect-retry-period={RETRY:g}s"]
    log = server.log.parent / f"{name}.log"
    return Process("scheduler", "--kubeconfig", str(server.kubeconfig), *times, "--port", "0", "-v", "2", log=log)


def use(process: Process) -> str:
    """Return processor time and memory of a process so far."""
    now, most = process.resident(), process.resident("VmHWM")
    return f"{process.cpu():.1f} s of processor time, {now:.0f} MiB (most {most:.0f})"


async def make_ready(server: LoadedServer, nodes: int) -> None:
    """Let pods on the nodes, which have no kubelets."""
    async with session(server) as opened:  # type: ignore[arg-type]
        await remove_taints(opened, unlike_nodes(nodes))


async def measure_replicas(server: LoadedServer, binds: int, beside: int, lease: float) -> None:
    """Measure start, binds and fail-over of two replicas."""
    async with session(server) as opened:  # type: ignore[arg-type]
        seen = Watch()
        watching = asyncio.create_task(seen.run(opened))
        await seen.begun.wait()
        await create(opened, PODS, [pod("p-1")])
        began = time.time()
        leader = replica(server, "first", lease)
        first = await bound(seen, ["p-1"], leader)
        print(f"start of the scheduler to its first bind: {first - began:.1f} s, {use(leader)}", flush=True)
        standby = replica(server, "second", lease)
        wait(lambda: standby.cpu() > leader.cpu() * 0.7, standby)  # it has read the cluster, too, and decided nothing
        before, served, start = leader.cpu(), server.cpu(), time.time()
        arriving = unlike_pods(beside, binds)
        await create(opened, PODS, arriving)
        last = await bound(seen, [body["metadata"]["name"] for body in arriving], leader)
        each = (leader.cpu() - before) * 1000 / binds
        print(
            f"{binds} pods that arrive: {binds / (last - start):.0f} binds/s, {each:.2f} ms of the scheduler and "
            f"{(server.cpu() - served) * 1000 / binds:.2f} ms of the server for each; leader: {use(leader)}",
            flush=True,
        )
        leader.process.kill()
        killed = time.time()
        leader.process.wait()
        await create(opened, PODS, [pod("p-2")])
        took = await bound(seen, ["p-2"], standby) - killed
        verdict = "within" if took < lease + 1 else "beyond"
        print(f"kill -9 of the leader to the next bind: {took:.1f} s, {verdict} the lease of {lease:g} s and one more")
        print(f"standby: {use(standby)}", flush=True)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


def measure_live(options: argparse.Namespace) -> None:
    """Measure everything on the embedded API."""
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        cluster = directory / "cluster.json"
        write_cluster(cluster, options.nodes, options.pods, pending=0)
        try:
            server = LoadedServer(directory, cluster)
            print(f"API server with {options.nodes} nodes and {options.pods} pods: {use(server)}", flush=True)
            uvloop.run(make_ready(server, options.nodes))
            uvloop.run(measure_replicas(server, options.binds, options.pods, options.lease))
            live = ["--kubeconfig", str(server.kubeconfig)]
            asking = directory / "asking.json"
            asking.write_text(json.dumps(unlike_pods(options.pods + options.binds, 1)[0]))
            run("snapshot", ["snapshot", *live, "-o", str(directory / "snapshot.yaml")])
            print("  " + run("plan --kubeconfig", ["plan", *live, "-f", str(asking)]).splitlines()[0])
        finally:
            for process in reversed(Process.started):
                process.stop()


def main() -> None:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    commands = parser.add_subparsers(required=True)
    plan = commands.add_parser("plan", help="plan of a file")
    plan.add_argument("--nodes", type=int, default=20_000)
    plan.add_argument("--pods", type=int, default=200_000)
    plan.add_argument("--file", type=Path, help="keep the cluster in this file, and use it if it is there")
    plan.add_argument("--profile", default="", help="write a profile of cProfile to this file")
    plan.set_defaults(measure=measure_plan)
    live = commands.add_parser("live", help="the scheduler, plan and snapshot on the embedded API")
    live.add_argument("--nodes", type=int, default=5_000)
    live.add_argument("--pods", type=int, default=50_000)
    live.add_argument("--binds", type=int, default=1_000, help="pods that arrive while two replicas run")
    live.add_argument("--lease", type=float, default=15.0, help="seconds; longer on a machine that others use")
    live.set_defaults(measure=measure_live)
    options = parser.parse_args()
    options.measure(options)


if __name__ == "__main__":
    main()
