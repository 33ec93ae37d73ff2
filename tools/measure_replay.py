"""Measure how a replay grows: seconds of one core and peak memory by jobs, and by nodes.

    python tools/measure_replay.py                              # 10,000 to 80,000 jobs on 32 nodes, 32 to 256 nodes
    python tools/measure_replay.py --jobs 10000 --nodes 32 64   # others
    python tools/measure_replay.py --list philly.csv --cluster philly.yaml    # parts of a job list instead

The jobs are drawn by a fixed seed: one of 1, 2, 4 or 8 GPUs, or a gang of two workers of eight, of three priorities.
They come at such a rate that they ask for 90 % of the GPUs, so that as many jobs wait at the end as
in the beginning, however many there are.  Times are CPU times of the command.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

SIZES = ((1, 1, 0.7), (1, 2, 0.1), (1, 4, 0.08), (1, 8, 0.1), (2, 8, 0.02))
"""Workers, GPUs of each, and how often."""
MEAN_WORK = 2 * 3600.0
USE = 0.9
GPUS = 8


def job_list(path: Path, count: int, nodes: int) -> None:
    """Jobs that ask for USE of the nodes' GPUs."""
    draw = random.Random(1)
    asked = sum(workers * gpus * share for workers, gpus, share in SIZES)
    between = asked * MEAN_WORK / (nodes * GPUS * USE)
    at = 0.0
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(("job", "submit", "duration", "workers", "gpu", "priority"))
        for number in range(count):
            at += draw.expovariate(1 / between)
            workers, gpus, _ = draw.choices(SIZES, [share for _, _, share in SIZES])[0]
            work = max(10.0, min(draw.expovariate(1 / MEAN_WORK), 20 * MEAN_WORK))
            out.writerow((f"j{number}", f"{at:.3f}", f"{work:.3f}", workers, gpus, draw.choice((0, 100, 200))))


def cluster(path: Path, nodes: int) -> None:
    """Nodes of eight GPUs."""
    amounts = {"cpu": "96", "memory": "768Gi", "pods": "110", "nvidia.com/gpu": str(GPUS)}
    items = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{at:04}"}, "status": {"allocatable": amounts}}
        for at in range(nodes)
    ]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))


def part_of(path: Path, whole: Path, count: int) -> None:
    """The first jobs of a list, by submit as they stand."""
    with whole.open() as file:
        path.write_text("".join(line for line, _ in zip(file, range(count + 1), strict=False)))


def measured(jobs: Path, nodes: Path) -> tuple[float, float, int]:
    """CPU seconds, MiB at the most, and decisions of a replay with the default policy."""
    command = [sys.executable, "-m", "reprieve", "replay", str(jobs), "--cluster", str(nodes), "-o", "json"]
    command += ["--checkpoint", "1h", "--restart", "5m"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        plan = json.loads(process.stdout.read())
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, plan["policies"][0]["decisions"]


def main() -> None:
    """See the module docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, nargs="+", default=[10_000, 20_000, 40_000, 80_000])
    parser.add_argument("--nodes", type=int, nargs="+", default=[32, 64, 128, 256])
    parser.add_argument("--list", type=Path, help="a job list of which the first so many jobs are replayed")
    parser.add_argument("--cluster", type=Path, help="its nodes")
    typed = parser.parse_args()
    series = [(jobs, typed.nodes[0]) for jobs in typed.jobs]
    if typed.list is None:
        series += [(typed.jobs[0], nodes) for nodes in typed.nodes[1:]]
    print("| jobs | nodes | CPU, s | ms a job | decisions | ms a decision | peak memory, MiB |\n|" + "---:|" * 7)
    with TemporaryDirectory() as name:
        desk = Path(name)
        for jobs, nodes in series:
            if typed.list is None:
                job_list(desk / "jobs.csv", jobs, nodes)
                cluster(desk / "nodes.json", nodes)
            else:
                part_of(desk / "jobs.csv", typed.list, jobs)
            seconds, memory, decisions = measured(desk / "jobs.csv", typed.cluster or desk / "nodes.json")
            each, per_decision = 1000 * seconds / jobs, 1000 * seconds / decisions
            shown = f"{seconds:.1f} | {each:.2f} | {decisions:,} | {per_decision:.2f} | {memory:.0f}"
            print(f"| {jobs:,} | {nodes if typed.list is None else ''} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
