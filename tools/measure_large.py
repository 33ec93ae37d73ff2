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
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from reprieve.simulation.bench import distinct_pods

PENDING = 10


def run(title: str, arguments: Sequence[str], *, profile: str = "") -> str:
    """Run `reprieve ARGUMENTS`, print what it used, and return what it printed."""
    program = [sys.executable, *(("-m", "cProfile", "-o", profile) if profile else ()), "-m", "reprieve"]
    start = time.perf_counter()
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen([*program, *arguments], stdout=out)
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


def write_cluster(path: Path, nodes: int, pods: int) -> None:
    """Write a List of all nodes, services, running pods and `PENDING` pending pods as JSON."""
    machines = distinct_pods.nodes(nodes)
    running = distinct_pods.pods(0, pods, priority=0, on=machines)
    pending = distinct_pods.pods(pods, PENDING, priority=0)
    encode = msgspec.json.Encoder().encode
    with path.open("wb") as file:
        file.write(b'{"apiVersion": "v1", "kind": "List", "items": [\n')
        separator = b""
        for part in (machines, distinct_pods.services(pods), running, pending):
            for item in part:
                head = json.dumps({"apiVersion": item.API_VERSION, "kind": item.KIND}).encode()
                file.write(separator + head[:-1] + b", " + encode(item)[1:])
                separator = b",\n"
        file.write(b"]}\n")


def measure_plan(options: argparse.Namespace) -> None:
    """Measure `reprieve plan` of a file."""
    with tempfile.TemporaryDirectory() as scratch:
        path = options.file or Path(scratch) / "cluster.json"
        if not path.exists():
            write_cluster(path, options.nodes, options.pods)
        size = path.stat().st_size / 2**20
        title = f"plan of {options.nodes} nodes and {options.pods} pods ({size:.0f} MiB)"
        print("  " + run(title, ["plan", "-f", str(path)], profile=options.profile).splitlines()[0])


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
    options = parser.parse_args()
    options.measure(options)


if __name__ == "__main__":
    main()
