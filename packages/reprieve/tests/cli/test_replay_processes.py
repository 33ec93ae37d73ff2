"""`reprieve replay` as a process of its own that is interrupted, killed, or loses one of those it started."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.cli.conftest import Run
from tests.cli.replay_inputs import FOUR
from tests.cli.replay_inputs import desk as desk
from tests.waiting import eventually


def test_ctrl_c_at_any_moment_of_the_start_is_no_traceback(desk: Path) -> None:
    """Of more policies than run at a time, when the first processes have been begun and nothing is loaded in them."""
    (desk / "many.csv").write_text(  # what takes long is not over before this process comes to press
        "job,submit,duration,gpu,priority\n" + "".join(f"j{n},{n * 3},60,1,{n % 7}\n" for n in range(6_000))
    )
    names = [f"p{number}" for number in range(6)]
    policies = [part for name in names for part in ("--policy", f"{name}=default")]
    command = [sys.executable, "-m", "reprieve", "replay", "many.csv", *FOUR, *policies]
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(cores)[:2])  # as many run at a time as there are cores: where there are many, all
    try:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
    finally:
        os.sched_setaffinity(0, cores)
    with process:
        deadline = time.monotonic() + 120
        # The first child is the interpreter's own, which looks after what processes share.
        while len(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()) < 2:
            assert time.monotonic() < deadline
            os.sched_yield()
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert "not started: " in err
    assert "p0" in out


def test_replay_that_is_killed_leaves_nothing_and_is_made_again(run: Run, desk: Path) -> None:
    """No half file, and no process that is left running (replay.md 7.5)."""
    (desk / "many.csv").write_text(
        "job,submit,duration,gpu,priority\n" + "".join(f"j{n},{n * 3},60,1,{n % 7}\n" for n in range(2_000))
    )
    arguments = (
        "replay",
        "many.csv",
        *FOUR,
        "--policy",
        "one=default",
        "--policy",
        "two=default",
        "-o",
        "csv",
        "--out",
        "found",
    )
    command = [sys.executable, "-m", "reprieve", *arguments]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        _wait_until_it_reads(process.pid, 2)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        ends = [os.pidfd_open(int(child)) for child in children]
        process.kill()
    for end in ends:
        assert select.select([end], [], [], 240)[0], "the process of a policy is left running"
        os.close(end)
    assert list((desk / "found").iterdir()) == []
    again = run(*arguments)
    assert again.code == 0, again.err
    assert (desk / "found" / "jobs.csv").read_text().count("\n") == 1 + 2 * 2_000


def test_ctrl_c_reports_what_has_been_simulated(desk: Path) -> None:
    (desk / "many.csv").write_text(
        "job,submit,duration,gpu,priority\n" + "".join(f"j{n},{n * 3},500,1,{n % 7}\n" for n in range(30_000))
    )
    for policies in ((), ("--policy", "one=default", "--policy", "two=default")):
        command = [sys.executable, "-m", "reprieve", "replay", "many.csv", "-o", "json", *policies]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            _wait_until_it_reads(process.pid, len(policies) // 2)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=120)
        assert process.returncode == 130, err
        found = json.loads(out)
        assert "interrupted: this is what was simulated so far" in err
        for policy in found["policies"]:
            assert policy["interrupted"]
            assert policy["total"]["done"] < 30_000
            time_spent = policy["gpuTime"]
            assert time_spent["allocated"] == time_spent["useful"] + time_spent["lost"] + time_spent["restart"]


def _wait_until_it_reads(pid: int, children: int) -> None:
    """Until the engine is being loaded, here and in all children: Ctrl-C is handled from then on."""

    def reads() -> bool:
        found = [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        return sum(map(_maps_engine, found)) >= children and _maps_engine(pid)

    eventually(reads, "the engine loaded")


def _maps_engine(pid: int) -> bool:
    return "_multiarray_umath" in Path(f"/proc/{pid}/maps").read_text()


def test_policy_with_a_dead_process_is_named_and_the_others_are_reported(desk: Path) -> None:
    (desk / "killer.py").write_text(
        "import os, signal\nimport reprieve\n\n\n"
        "class Killer(reprieve.ScorePlugin):\n    name = 'Killer'\n\n"
        "    def score(self, state, rows):\n        os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    (desk / "killer.yaml").write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
        "- schedulerName: default-scheduler\n  plugins: {multiPoint: {enabled: [{name: Killer}]}}\n"
    )
    (desk / "plain.yaml").write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
        "- schedulerName: default-scheduler\n  plugins: {score: {disabled: [{name: Killer}]}}\n"
    )
    command = [sys.executable, "-m", "reprieve", "replay", "jobs.csv", "--plugin", "killer:Killer"]
    command += ["--policy", "dies=killer.yaml", "--policy", "lives=plain.yaml"]
    ended = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": "."}, timeout=300
    )
    assert ended.returncode == 1, ended.stderr
    assert "policy dies: its process ended by signal 9" in ended.stderr
    assert "lives" in ended.stdout
    assert "dies" not in ended.stdout
