"""Our table beside the published one of "Beware of Fragmentation" (ATC 2023): examples/fgd.md tells the story.

    python examples/fgd.py DIR [--workload default] [--seeds 10] [--policy FGD] [--processes 2]

DIR has the lists of the artifact: openb_node_list_all_node.csv, openb_pod_list_WORKLOAD.csv, and the published
fgd_allocation.csv.  Every run is a `reprieve replay` with one of the plugins of examples/policies.
"""

import argparse
import csv
import io
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

POLICIES = ("Random", "DotProd", "GpuClustering", "GpuPacking", "BestFit", "FGD")
AT = (50, 80, 90, 100, 110, 120, 130)
"""Percent of the cluster's GPUs that have been asked for, at which allocation is read off."""
MOST = 1.3
"""How many times the GPUs are asked for in all."""
POPULAR = 0.95
"""FGD's typical pods are the kinds that make up this share of the workload."""
Row = dict[str, str]


def rows_of(path: Path) -> list[Row]:
    """A CSV file."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def demand(task: Row) -> int:
    """Thousandths of GPUs."""
    return int(task["num_gpu"]) * int(task["gpu_milli"])


def arrivals(tasks: list[Row], capacity: int, seed: int) -> list[Row]:
    """All tasks, shuffled; then more drawn at random, or the last ones dropped, until they ask for MOST times the GPUs.

    Dropping the last of a shuffled list is dropping any, which is what the artifact does.
    """
    draw = random.Random(seed)
    found = draw.sample(tasks, len(tasks))
    total = sum(map(demand, found))
    while total > MOST * capacity:
        total -= demand(found.pop())
    while total + demand(more := draw.choice(tasks)) <= MOST * capacity:
        found.append(more)
        total += demand(more)
    return found


def job_list(tasks: list[Row]) -> str:
    """One task a second, none of which ever ends."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(("job", "submit", "cpu", "memory", "gpu", "gpu_model"))
    for at, task in enumerate(tasks):
        cpu, memory = int(task["cpu_milli"]) / 1000, f"{task['memory_mib']}Mi"
        writer.writerow((f"{at}-{task['name']}", at, cpu, memory, demand(task) / 1000, task.get("gpu_spec", "")))
    return out.getvalue()


def nodes(machines: list[Row], seed: int) -> str:
    """Manifests of the machines with GPUs, with room for more pods than come.

    Names begin with a number drawn by seed, as in the artifact: of equally good nodes the first by name is taken, and
    which that is is chance, but the same all through a run.
    """
    with_gpus = sorted((one for one in machines if int(one["gpu"])), key=lambda one: one["sn"])
    numbers = random.Random(f"nodes-{seed}").sample(range(len(with_gpus)), len(with_gpus))
    items = []
    for number, one in zip(numbers, with_gpus, strict=True):
        amounts = {"cpu": f"{one['cpu_milli']}m", "memory": f"{one['memory_mib']}Mi", "pods": "1001"}
        amounts["alibabacloud.com/gpu-milli"] = str(int(one["gpu"]) * 1000)
        labels = {"gpu-model": one["model"]} if one["model"] else {}
        metadata = {"name": f"{number:04}-{one['sn']}", "labels": labels}
        items.append({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"allocatable": amounts}})
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


def typical(tasks: list[Row]) -> list[dict[str, object]]:
    """The kinds of tasks, most frequent first, until they make up POPULAR of all."""
    kinds = Counter((int(t["cpu_milli"]), demand(t), t.get("gpu_spec", "")) for t in tasks)
    found: list[dict[str, object]] = []
    counted = 0
    for (cpu, gpu, models), count in sorted(kinds.items(), key=lambda item: (-item[1], item[0])):
        if counted >= POPULAR * len(tasks):
            break
        counted += count
        only = [model for model in models.split("|") if model]
        found.append({"cpuMilli": cpu, "gpuMilli": gpu, "models": only, "weight": count})
    return found


def configuration(policy: str, tasks: list[Row]) -> str:
    """The policy decides alone: no other scores, no preemption."""
    nothing = {"disabled": [{"name": "*"}]}
    profile: dict[str, object] = {
        "schedulerName": "default-scheduler",
        "plugins": {
            "multiPoint": {"enabled": [{"name": policy}]},
            "score": {**nothing, "enabled": [{"name": policy}]},
            "postFilter": nothing,
            "podGroupPostFilter": nothing,
        },
    }
    if policy == "FGD":
        profile["pluginConfig"] = [{"name": "FGD", "args": {"typicalPods": typical(tasks)}}]
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return json.dumps({**kind, "profiles": [profile]})


def run(desk: Path, policy: str, workload: str, data: tuple[list[Row], list[Row]], seed: int) -> list[float]:
    """Percent of the GPUs that are allocated, at each of AT. `data`: tasks and machines."""
    name = f"{workload}-{policy}-{seed}"
    tasks, machines = data
    capacity = sum(int(one["gpu"]) for one in machines) * 1000
    jobs, config, cluster = (desk / f"{name}{end}" for end in (".csv", ".yaml", ".json"))
    jobs.write_text(job_list(arrivals(tasks, capacity, seed)))
    config.write_text(configuration(policy, tasks))
    cluster.write_text(nodes(machines, seed))
    command = [sys.executable, "-m", "reprieve", "replay", str(jobs), "--cluster", str(cluster)]
    command += ["--plugin", f"shared_gpus:{policy}", "--policy", f"{policy}={config}", "-o", "csv"]
    if policy == "Random":  # All its scores are equal: the seed draws the node.
        command += ["--seed", str(seed)]
    paths = [str(Path(__file__).parent / "policies"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if ended.returncode:
        raise SystemExit(f"{name}: {ended.stderr}")
    jobs.unlink()
    cluster.unlink()
    return read_off(list(csv.DictReader(io.StringIO(ended.stdout))), capacity / 1000)


def read_off(rows: list[Row], capacity: float) -> list[float]:
    """Percent allocated whenever so many percent have been asked for."""
    found: list[float] = []
    asked = held = 0.0
    for row in rows:
        asked += float(row["gpus"])
        held += float(row["gpus"]) if row["start"] else 0.0
        while len(found) < len(AT) and asked >= capacity * AT[len(found)] / 100 - 1e-9:
            found.append(100 * held / capacity)
    return found + [100 * held / capacity] * (len(AT) - len(found))


def main() -> None:
    """See the module docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, metavar="DIR")
    parser.add_argument("--workload", action="append", help="default: all in fgd_allocation.csv")
    parser.add_argument("--policy", action="append", choices=POLICIES)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    typed = parser.parse_args()
    published = {(row["workload"], row["policy"]): row for row in rows_of(typed.data / "fgd_allocation.csv")}
    workloads = typed.workload or list(dict.fromkeys(workload for workload, _ in published))
    machines = rows_of(typed.data / "openb_node_list_all_node.csv")
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(typed.processes) as pool:
        desk = Path(name)
        print(f"{'workload':12} {'policy':14}" + "".join(f" {at:>15}%" for at in AT))
        for workload in workloads:
            tasks = rows_of(typed.data / f"openb_pod_list_{workload}.csv")
            for policy in typed.policy or POLICIES:
                runs = pool.map(
                    lambda seed, policy=policy, workload=workload, tasks=tasks: run(
                        desk, policy, workload, (tasks, machines), seed
                    ),
                    range(42, 42 + typed.seeds),
                )
                means = [sum(column) / typed.seeds for column in zip(*runs, strict=True)]
                theirs = published.get((workload, policy))
                cells = []
                for at, mean in zip(AT, means, strict=True):
                    said = float(theirs[f"allocated_pct_at_{at}"]) if theirs else None
                    cells.append(f"{mean:6.2f}" + (f" ({mean - said:+.2f})" if said is not None else ""))
                print(f"{workload:12} {policy:14}" + "".join(f" {cell:>16}" for cell in cells), flush=True)
    print(f"mean of {typed.seeds} runs; in brackets: ours less the published; {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
