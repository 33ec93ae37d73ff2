"""Measure how long questions to the openb cluster take: 1,523 nodes, 8,104 running pods (docs/questions.md).

    python tools/measure_questions.py DIR                 # nodes and pods of the trace, as CSV in DIR
    python tools/measure_questions.py DIR --only capacity # the questions with this in the command
    python tools/measure_questions.py DIR --runs 5        # each so often; the fastest counts

Each question is a command of its own, start-up and parsing included, byte code warmed.  Printed are processor time
(user and system), real time and the limit; a `*` marks what takes more processor time than its limit, and the exit code
is 1 then.  Processor time is what counts on a machine that does other work too.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
GANG = str(ROOT / "examples" / "openb-gang.yaml")
TRACE_FILES = ("openb_node_list_all_node.csv", "openb_pod_list_default.csv")
GPU = "alibabacloud.com/gpu-milli"
NODES = [f"openb-node-{number:04d}" for number in range(3, 1523, 95)]
"""Of every sort some."""


@dataclass(frozen=True)
class Question:
    """A command as it is typed; `{O}` is the cluster, `{NAME}` a file of `inputs`. `limit`: seconds."""

    command: str
    limit: float = 3.0


QUESTIONS = (
    Question("plan -f {ten}", 0.35),
    Question("plan -f {O} -f {gang}"),
    Question("plan -f {O} -f {gang} --compare {config} --compare {other}"),
    Question("plan -f {O} -f {gang} --compare {config} --diff"),
    Question("plan -f {O} -f {gang} --compare-to {many}"),
    Question("plan -f {O} --drain " + NODES[0]),
    Question("plan -f {O} " + " ".join(f"--drain {name}" for name in NODES[:8])),
    Question("plan -f {O} -f {gang} --add-nodes 70 --like openb-node-1328"),
    Question("plan -f {O} -f {gang} --set-priority podgroup/train=0"),
    Question("plan -f {O} -f {service} --scale deployment/service=400"),
    Question("plan -f {O} -f {gang} --fail " + NODES[1] + " --cordon " + NODES[2] + " --remove-node " + NODES[3]),
    Question("plan -f {O} -f {poor}"),
    Question("plan -f {O} -f {many}"),
    Question("plan -f {O} -f {unlike}"),
    Question("queue -f {O} -f {gang}", 1.0),
    Question("queue -f {O} -f {poor}", 1.0),
    Question("queue -f {O} -f {many}", 1.0),
    Question("queue -f {O} -f {service}", 1.0),
    Question("queue -f {O} -f {unlike}", 1.0),
    Question("explain podgroup/train -f {O} -f {gang}"),
    Question("explain podgroup/poor -f {O} -f {poor}"),
    Question("explain pod/huge -f {O} -f {many}"),
    Question("explain --all-waiting -f {O} -f {gang}"),
    Question("explain --all-waiting -f {O} -f {poor}"),
    Question("explain --all-waiting -f {O} -f {many}"),
    Question("capacity -f {O} --shape {gang}"),
    Question("capacity -f {O} --shape {cpu}"),
    Question("capacity -f {O} --shape {gpu}"),
    Question("capacity -f {O} --shape {small}"),
    Question("capacity -f {O} --shape {pair}"),
    Question("capacity -f {O} --shape {unlike}"),
    Question("capacity -f {O} --shape {service}"),
    Question("capacity -f {O} --shape {poor}"),
    Question("capacity -f {O} --shape {gang} " + " ".join(f"--drain {name}" for name in NODES[:8])),
    Question("drain-plan -f {O} " + " ".join(NODES[:3])),
    Question("drain-plan -f {O} " + " ".join(NODES[:8])),
    Question("drain-plan -f {O} " + " ".join(NODES)),
    Question("drain-plan -f {O} -f {gang} " + " ".join(NODES[:8])),
)


def pod(name: str, cpu: str, gpus: int = 0, *, group: str = "", priority: str = "openb-latency-sensitive") -> Any:
    """A pod that waits, as the trace's are."""
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec(cpu, gpus, group, priority)}


def spec(cpu: str, gpus: int = 0, group: str = "", priority: str = "openb-latency-sensitive") -> dict[str, Any]:
    """What it asks for: GiB are four times the cores."""
    amounts = {"cpu": cpu, "memory": f"{4 * int(cpu)}Gi"}
    device = {GPU: str(gpus * 1000)} if gpus else {}
    container = {"name": "c", "image": "i", "resources": {"requests": {**amounts, **device}, "limits": device}}
    made: dict[str, Any] = {"priorityClassName": priority, "containers": [container]}
    return {**made, "schedulingGroup": {"podGroupName": group}} if group else made


def gang(name: str, members: Sequence[tuple[int, str, int]], priority: str = "openb-latency-sensitive") -> list[Any]:
    """A gang; members: how many, their cores, their GPUs."""
    group = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": sum(count for count, _, _ in members)}},
            "priorityClassName": priority,
        },
    }
    found = [(cpu, gpus) for count, cpu, gpus in members for _ in range(count)]
    return [
        group,
        *(pod(f"{name}-{n}", cpu, gpus, group=name, priority=priority) for n, (cpu, gpus) in enumerate(found)),
    ]


def service(replicas: int) -> Any:
    """A Deployment of pods with eight cores."""
    labels = {"app": "service"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "service", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec("8")},
        },
    }


def node(name: str) -> Any:
    """A small node."""
    allocatable = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": allocatable}}


def inputs() -> dict[str, list[Any]]:
    """The files that questions name, beside the cluster."""
    top, low = "openb-latency-sensitive", "openb-best-effort"
    configuration = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    most = {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}
    packing = {"profiles": [{"schedulerName": "default-scheduler", "pluginConfig": [most]}]}
    waiting = [pod(f"waits-{n}", str(8 * (1 + n % 4)), n % 9, priority=(top, low)[n % 2]) for n in range(200)]
    small = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}
    nameless = [{**small, "metadata": {"name": f"p-{n}"}} for n in range(30)]
    return {
        "config": [configuration],
        "other": [{**configuration, **packing}],
        "ten": [*(node(f"n{n}") for n in range(10)), *nameless],
        "cpu": [pod("p", "4", priority="")],
        "gpu": [pod("g", "4", 1)],
        "small": gang("small", [(8, "4", 1)]),
        "pair": gang("pair", [(2, "2", 0)]),
        "unlike": gang("unlike", [(1, "16", 0), (32, "8", 8), (16, "4", 1)]),
        "poor": gang("poor", [(64, "32", 8)], low),
        "service": [service(200)],
        "many": [*waiting, pod("huge", "400")],
    }


def write(trace: Path, folder: Path) -> dict[str, str]:
    """All files, by name."""
    nodes, pods = (str(trace / name) for name in TRACE_FILES)
    made = {"O": str(folder / "openb.json"), "gang": GANG}
    asked = ["import", "openb", "--nodes", nodes, "--pods", pods, "-o", made["O"]]
    subprocess.run([*REPRIEVE, *asked], check=True, capture_output=True, env=ENVIRONMENT)
    for name, documents in inputs().items():
        made[name] = str(folder / f"{name}.yaml")
        Path(made[name]).write_text(yaml.safe_dump_all(documents), encoding="utf-8")
    return made


REPRIEVE = [sys.executable, "-m", "reprieve"]
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def measured(command: Sequence[str], output: Path) -> tuple[float, float, int, int]:
    """Processor seconds, real seconds, KiB at most and the exit code of one run; what it prints is kept."""
    with output.open("wb") as sink, output.with_suffix(".err").open("wb") as errors:
        began = time.perf_counter()
        process = subprocess.Popen([*REPRIEVE, *command], stdout=sink, stderr=errors, env=ENVIRONMENT)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime, seconds, usage.ru_maxrss, process.returncode


def main() -> int:
    """Ask everything."""
    parser = argparse.ArgumentParser(description="How long questions to the openb cluster take")
    parser.add_argument("trace", type=Path, metavar="DIR", help="where the CSV files of the openb trace are")
    parser.add_argument("--only", default="", metavar="TEXT", help="only the questions with this in them")
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="each question so often (default %(default)s)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep inputs and answers in this directory")
    asked = parser.parse_args()
    for name in TRACE_FILES:
        if not (asked.trace / name).is_file():
            parser.error(f"no {name} in {asked.trace}")
    slow = 0
    with TemporaryDirectory() as temporary:
        folder = asked.keep or Path(temporary)
        folder.mkdir(exist_ok=True)
        files = write(asked.trace, folder)
        print(f"{'CPU s':>7} {'real s':>7} {'limit':>6} {'MiB':>5}  question")
        for number, question in enumerate(QUESTIONS):
            if asked.only not in question.command:
                continue
            command = question.command.format(**files).split()
            output = folder / f"answer-{number:02d}"
            measured([*command[:1], "--help"], output)  # byte code
            runs = [measured(command, output) for _ in range(asked.runs)]
            cpu, real, memory = (min(run[column] for run in runs) for column in range(3))
            failed = runs[0][3] not in (0, 1)
            slow += cpu > question.limit or failed
            mark = "*" if cpu > question.limit else " "
            shown = question.command.replace("{", "").replace("}", "").replace("openb-node-", "")
            print(f"{cpu:6.2f}{mark} {real:7.2f} {question.limit:6.2f} {memory // 1024:5d}  {shown}", flush=True)
            if failed:
                print(f"        exit code {runs[0][3]}: {output.with_suffix('.err').read_text().strip()[:200]}")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
