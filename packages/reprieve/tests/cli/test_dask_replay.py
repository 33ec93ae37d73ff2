"""`reprieve replay` on Dask, sweeps, and runs that are kept (replay.md 9)."""

from __future__ import annotations

import io
import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reprieve.cli import dask_replay, dask_runs, progress
from reprieve.cli.interrupts import Interrupt
from reprieve.cli.outcome import CommandError, Exit
from tests.cli.conftest import Run
from tests.cli.replay_inputs import FOUR
from tests.cli.replay_inputs import desk as desk
from tests.cli.replay_inputs import scheduler as scheduler
from tests.waiting import eventually

TWO = ("--policy", "default", "--policy", "none=none.yaml")


@pytest.mark.parametrize("form", ["text", "json", "csv", "html", "trace"])
def test_bytes_are_those_of_this_machine(run: Run, desk: Path, scheduler: Any, form: str) -> None:
    """replay.md 9.2: whatever the form."""
    command = ("replay", "jobs.csv", *FOUR, "-o", form)
    here, there = run(*command), run(*command, "--dask", scheduler.scheduler_address)
    assert (here.code, there.code) == (0, 0), there.err
    assert there.out == here.out


def test_sweep_is_every_list_with_every_seed_and_policy(run: Run, desk: Path, scheduler: Any) -> None:
    """replay.md 9.1."""
    (desk / "more.csv").write_text((desk / "jobs.csv").read_text() + "d,2000,600,1,8,100,team-b,\n")
    command = ("replay", "jobs.csv", "more.csv", *FOUR, *TWO, "--seed", "1-2", "--seed", "7")
    address = ("--dask", scheduler.scheduler_address)
    text, document = run(*command, *address), run(*command, *address, "-o", "json")
    assert (text.code, document.code) == (0, 0), text.err + document.err
    assert text.out.startswith("Replay of jobs.csv\n")
    assert "\nReplay of more.csv\n" in text.out
    assert "3 runs of each policy; the mean of the runs ± its standard error" in text.out
    found = json.loads(document.out)
    assert found["kind"] == "ReplaySweep"
    runs = [(item["trace"], item["seed"], item["policy"]) for item in found["runs"]]
    assert runs == [
        (trace, seed, policy)
        for trace in ("jobs.csv", "more.csv")
        for seed in (1, 2, 7)
        for policy in ("default", "none")
    ]
    assert [item["report"]["total"]["jobs"] for item in found["runs"]] == [3] * 6 + [4] * 6
    assert not any(item["report"]["series"]["allocated"] for item in found["runs"])


def test_run_of_a_lost_worker_is_repeated(run: Run, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """replay.md 9.3: a worker that is killed in the middle changes no byte."""
    (desk / "killer.py").write_text(
        "import os, pathlib, signal\nimport reprieve\n\n\n"
        "class Killer(reprieve.ScorePlugin):\n    name = 'Killer'\n\n"
        "    def score(self, state, rows):\n"
        "        if not pathlib.Path('killed').exists():\n"
        "            pathlib.Path('killed').touch()\n            os.kill(os.getpid(), signal.SIGKILL)\n"
        "        return rows * 0\n"
    )
    monkeypatch.syspath_prepend(str(desk))
    monkeypatch.setenv("PYTHONPATH", str(desk))
    command = ("replay", "jobs.csv", *FOUR, "--plugin", "killer:Killer", "-o", "csv")
    there = run(*command, "--dask", "local:1")
    assert there.code == 0, there.err
    assert (desk / "killed").exists()
    assert there.out == run(*command).out


def test_hundreds_of_runs_leave_nothing_behind(scheduler: Any) -> None:
    """replay.md 9.4: neither futures here nor tasks with the scheduler."""
    most = []
    with dask_runs.dask_runs(scheduler.scheduler_address) as workers:
        client = workers._client
        calls = [lambda client, number=number: client.submit(pow, number, 2, pure=False) for number in range(300)]
        found = {}
        for number, result in workers.results(calls, Interrupt()):
            found[number] = result
            most.append(len(client.futures))
        assert found == {number: number**2 for number in range(300)}
        assert max(most) <= 4
        client.sync(_settled, scheduler.scheduler)


async def _settled(scheduler: Any) -> None:
    import asyncio

    async with asyncio.timeout(60):
        while scheduler.tasks:
            await asyncio.sleep(0)


SERVE = """
import threading
from distributed import LocalCluster
if __name__ == "__main__":
    kind = {"processes": False, "host": "127.0.0.1", "protocol": "tcp://", "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(n_workers=1, threads_per_worker=1, **kind) as cluster:
        print(cluster.scheduler_address, flush=True)
        threading.Event().wait()
"""


def test_scheduler_that_dies_is_one_error() -> None:
    """replay.md 9.5: it ends in the middle of a run, with its worker."""
    with subprocess.Popen([sys.executable, "-c", SERVE], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        calls = [lambda client: client.submit(os.kill, process.pid, signal.SIGKILL, pure=False)]
        away = pytest.raises(CommandError, match="the scheduler no longer answers")
        with away as error, dask_runs.dask_runs(address) as workers:
            list(workers.results(calls, Interrupt()))
        assert error.value.code is Exit.UNREACHABLE
        process.wait()


def test_ctrl_c_cancels_and_reports_what_has_ended(desk: Path) -> None:
    """replay.md 9.5: pressed for the whole group, as a terminal does."""
    (desk / "many.csv").write_text(
        "job,submit,duration,gpu,priority\n" + "".join(f"j{n},{n * 3},60,1,{n % 7}\n" for n in range(20_000))
    )
    command = [sys.executable, "-m", "reprieve", "replay", "jobs.csv", "many.csv", *FOUR, *TWO]
    command += ["--dask", "local:1", "--keep", "kept", "-o", "json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        kept = desk / "kept"
        eventually(lambda: len(list(kept.glob("*.json"))) == 2 or process.poll() is not None, "two runs kept")
        assert process.poll() is None
        end = os.pidfd_open(process.pid)
        os.killpg(process.pid, signal.SIGINT)
        assert select.select([end], [], [], 120)[0]
        os.close(end)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert "not started: default of many.csv, none of many.csv" in err
    assert [item["trace"] for item in json.loads(out)["runs"]] == ["jobs.csv", "jobs.csv"]


def test_runs_that_are_kept_are_not_repeated(
    run: Run, desk: Path, scheduler: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """replay.md 9.6: until an input or the policy is another."""
    command = ("replay", "jobs.csv", *FOUR, *TWO, "--dask", scheduler.scheduler_address, "--keep", "kept")
    first = run(*command, "-o", "html")
    assert first.code == 0, first.err
    assert "runs are in kept" not in first.err
    ran: list[str] = []
    before = dask_replay.run_on_dask

    def counting(runs: Any, *rest: Any) -> Any:
        ran.extend(item.policy for item in runs)
        return before(runs, *rest)

    monkeypatch.setattr(dask_replay, "run_on_dask", counting)
    again = run(*command, "-o", "html")
    assert (again.out, ran) == (first.out, [])
    assert "2 of 2 runs are in kept already" in again.err
    (desk / "none.yaml").write_text((desk / "none.yaml").read_text() + "podMaxBackoffSeconds: 20\n")
    assert run(*command, "-o", "html").code == 0
    assert ran == ["none"]
    for file in (desk / "kept").iterdir():
        file.write_bytes(file.read_bytes()[:100])
    assert run(*command, "-o", "html").code == 0
    assert ran == ["none", "default", "none"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            ("--dask", "10.0.0.1:8786"),
            2,
            "--dask '10.0.0.1:8786': expected tcp://HOST:PORT, tls://HOST:PORT or local:N",
        ),
        (("--dask", "local:0"), 2, "--dask: expected local:N with at least one worker"),
        (("--dask", "tcp://127.0.0.1:1"), 3, "--dask tcp://127.0.0.1:1: Timed out trying to connect"),
        (("--seed", "a"), 2, "--seed 'a': expected a whole number, or two with a hyphen"),
        (("--seed", "9-1"), 2, "--seed '9-1': expected 1 to 10000 seeds"),
        (("--seed", "1-6000", *TWO), 2, "expected at most 10000 runs, found 12000"),
        (("--seed", "1-2", "-o", "html"), 2, "-o html: expected one job list and one seed"),
        (("jobs.csv",), 2, "JOBS: a job list is given twice"),
        (("--keep", "jobs.csv"), 2, "--keep jobs.csv: is a file, not a directory"),
    ],
)
def test_bad_input_is_one_error(
    run: Run, desk: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], code: int, message: str
) -> None:
    """replay.md 9.1, 9.2, 9.5."""
    monkeypatch.setattr(dask_runs, "CONNECT_SECONDS", 1)
    ended = run("replay", "jobs.csv", *FOUR, *arguments)
    assert (ended.code, ended.out) == (code, ""), ended.err
    assert ended.err.startswith("error: ")
    assert ended.err.count("\n") == 1
    assert message in ended.err


def test_without_dask_the_extra_is_named(run: Run, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    ended = run("replay", "jobs.csv", *FOUR, "--dask", "local:2")
    assert (ended.code, ended.err) == (2, "error: --dask needs the extra `dask`: pip install 'reprieve[dask]'\n")


def test_bar_is_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    """replay.md 9.7."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    for stream in (Terminal(), io.StringIO()):
        monkeypatch.setattr(sys, "stderr", stream)
        with progress.bar(20, "runs") as advance:
            advance(3)
        assert ("3/20" in stream.getvalue()) == stream.isatty()
        assert bool(stream.getvalue()) == stream.isatty()
