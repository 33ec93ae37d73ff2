"""The worked example: played live it ends as it must and says so by its exit code; a plan of it says the same."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from reprieve.inputs.loader import load
from reprieve.simulation import demo
from tests.cli.conftest import Run
from tests.waiting import DEADLINE


def test_demo_reaches_the_expected_outcome_without_kubectl() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "reprieve", "demo"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": "/nowhere"},
    )
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stdout
    for expected in (
        "42 pods running on 128 of them: every GPU is in use.",
        "All 8 pods of default/train run.\n  11 workloads (14 pods) evicted to free capacity.",
        "group default/nightly",
        "would not fit on gpu-01: Insufficient nvidia.com/gpu (4 short)",
        "spared first because a PodDisruptionBudget protects them",
        "default/giant is pending: none of its 13 pods is placed.\n  0/16 nodes are available: ",
        "No pods are evicted.",
        "Insufficient: no node has as many GPUs free",
        "not eligible due to workload aware preemption enabled: its pods do not preempt one by one",
        "All 4 pods of default/chat run.\n  1 workload (4 pods) evicted to free capacity.",
        "Evicted for compositepodgroup default/chat (priority 1000)",
    ):
        assert expected in ended.stdout


def test_demo_that_is_asked_to_stop_leaves_nothing_behind(tmp_path: Path) -> None:
    """interfaces.md 1.14: no traceback, no state, no scheduler."""
    command = [sys.executable, "-m", "reprieve", "demo"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as playing:
        assert playing.stdout is not None
        assert playing.stderr is not None
        assert playing.stdout.readline() == b"A cluster on this machine\n"
        playing.send_signal(signal.SIGTERM)
        assert playing.wait(DEADLINE) == 143
        assert b"Traceback" not in playing.stderr.read()
    assert list(tmp_path.iterdir()) == []


def test_demo_fails_when_something_else_happens(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "ACTS", (replace(demo.ACTS[1], evicted=("default/sweep",)),))
    ended = run("demo")
    assert ended.code == 1
    assert ended.err == "unexpected: Act 2: a gang that cannot fit: evicted: no pods; expected: default/sweep\n"


def test_demo_that_hangs_is_stopped_with_everything_it_began(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it is at when its time is over; the time here is over at the latest where nothing ever happens."""

    async def hangs(scene: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr("reprieve.cli.demo._fill", hangs)
    monkeypatch.setattr("reprieve.cli.demo._WHOLE_SECONDS", 5.0)
    monkeypatch.setattr("reprieve.cli.demo._STOP_SECONDS", DEADLINE)  # what is ended by force is the test runner
    ended = run("demo")
    assert ended.code == 1
    assert ended.err.endswith("error: the demo did not end after 5 s; stopping it\n")
    assert _children() == []


def _children() -> list[str]:
    """The schedulers that are children of this process, by their command lines."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            line = (place / "cmdline").read_text()
            if parent == os.getpid() and "child_process" in line:
                found.append(line)
    return found


def test_demo_that_cannot_even_be_stopped_ends_by_force() -> None:
    program = """
import threading
from reprieve.cli import demo, main
async def blocks(log):
    threading.Event().wait()
demo._play = blocks
demo._WHOLE_SECONDS = demo._STOP_SECONDS = 0.1
import sys
sys.argv = ["reprieve", "demo"]
main.main()
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == 1
    assert ended.stderr == "error: the demo did not end after 0.2 s and cannot be stopped: ended by force\n"


@pytest.mark.parametrize(
    ("scheduled", "evicted", "expected"),
    [
        (8, demo.ACTS[0].evicted, []),
        (7, demo.ACTS[0].evicted, ["7 pods placed, expected 8"]),
        (8, (), ["evicted: no pods; expected: " + ", ".join(demo.ACTS[0].evicted)]),
        (8, (*demo.ACTS[0].evicted, "default/sweep"), ["evicted: "]),
    ],
)
def test_differences_from_what_is_expected_are_reported(
    scheduled: int, evicted: tuple[str, ...], expected: list[str]
) -> None:
    found = demo.differences(demo.ACTS[0], scheduled=scheduled, evicted=evicted)
    assert len(found) == len(expected)
    assert all(text.startswith(begin) for text, begin in zip(found, expected, strict=True))


def test_every_gpu_of_the_demo_cluster_is_taken() -> None:
    """What the story says of the cluster is true."""
    manifests = load([demo.DIRECTORY / demo.CLUSTER])
    gpus = [int(pod.object.spec.containers[0].resources.requests["nvidia.com/gpu"]) for pod in manifests.pods]
    assert (len(manifests.nodes), sum(gpus)) == (16, 128)
    assert sorted(pod["metadata"]["name"] for wave in demo.waves() for pod in wave) == sorted(
        pod.object.name for pod in manifests.pods
    )
