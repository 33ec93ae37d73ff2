"""`reprieve tune` on Dask (tune.md 8)."""

from __future__ import annotations

import os
import select
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from reprieve.cli import dask_runs, tune_measures
from tests.cli.conftest import Run
from tests.cli.replay_inputs import scheduler as scheduler
from tests.cli.test_dask_replay import SERVE
from tests.cli.test_tune import INPUT
from tests.cli.test_tune import desk as desk
from tests.waiting import eventually

SEARCH = (*INPUT, "--search", "search.yaml", "--format", "json")


def test_bytes_are_those_of_this_machine(run: Run, desk: Path, scheduler: Any) -> None:
    """tune.md 8.1: the study may go on where it did not begin."""
    command = (*SEARCH, "--trials", 4)
    dask = ("--dask", scheduler.scheduler_address)
    here, there = run(*command), run(*command, *dask)
    assert (here.code, there.code) == (0, 0), there.err
    assert there.out == here.out
    kept = ("--storage", "sqlite:///tune.db")
    assert run(*SEARCH, *kept, "--trials", 2).code == 0
    rest = run(*command, *kept, *dask)
    assert rest.out == here.out
    assert "2 of 4 trials are done already" in rest.err


def _kept() -> int:
    """How many trials the study has."""
    with suppress(sqlite3.OperationalError), closing(sqlite3.connect("file:tune.db?mode=ro", uri=True)) as opened:
        (number,) = opened.execute("SELECT count(*) FROM trials WHERE state = 'COMPLETE'").fetchone()
        return int(number)
    return 0


def _alive(group: int) -> list[int]:
    """Processes of a group that run."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, of = status.read_text().rpartition(")")[2].split()[:3]
            if int(of) == group and state != "Z":
                found.append(int(status.parent.name))
    return found


def test_sigterm_keeps_trials_and_leaves_no_worker(desk: Path) -> None:
    """tune.md 8.3."""
    command = [sys.executable, "-m", "reprieve", *INPUT, "--dask", "local:1", "--storage", "sqlite:///tune.db"]
    command += ["--trials", "100000"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        eventually(lambda: _kept() or process.poll() is not None, "a trial kept")
        assert process.poll() is None
        end = os.pidfd_open(process.pid)
        process.send_signal(signal.SIGTERM)
        assert select.select([end], [], [], 120)[0]
        os.close(end)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (143, ""), err
    assert f"interrupted: {_kept()} of 100000 trials are kept in the study reprieve" in err
    assert "Traceback" not in err
    eventually(lambda: not _alive(process.pid), "no worker left")


def test_scheduler_that_dies_keeps_the_trials(run: Run, desk: Path) -> None:
    """tune.md 8.4: one error states what is kept, and the same command goes on on this machine."""
    kept = ("--storage", "sqlite:///tune.db")
    with subprocess.Popen([sys.executable, "-c", SERVE], stdout=subprocess.PIPE, text=True) as serving:
        assert serving.stdout is not None
        command = [sys.executable, "-m", "reprieve", *INPUT, *kept, "--dask", serving.stdout.readline().strip()]
        with subprocess.Popen(
            [*command, "--trials", "100000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as tuning:
            eventually(lambda: _kept() or tuning.poll() is not None, "a trial kept")
            assert tuning.poll() is None
            serving.kill()
            out, err = tuning.communicate(timeout=120)
    done = _kept()
    assert (tuning.returncode, out) == (3, ""), err
    [error] = [line for line in err.splitlines() if line.startswith("error: ")]
    assert "the scheduler no longer answers" in error
    assert f"; {done} of 100000 trials are kept in the study reprieve" in error
    assert "Traceback" not in err
    again = run(*INPUT, *kept, "--trials", done + 1)
    assert again.code == 0, again.err
    assert f"{done} of {done + 1} trials are done already" in again.err


@pytest.mark.parametrize(
    ("address", "code", "message"),
    [
        ("10.0.0.1:8786", 2, "--dask '10.0.0.1:8786': expected tcp://HOST:PORT, tls://HOST:PORT or local:N"),
        ("tcp://127.0.0.1:1", 3, "--dask tcp://127.0.0.1:1: Timed out trying to connect"),
    ],
)
def test_bad_address_is_one_error(
    run: Run, desk: Path, monkeypatch: pytest.MonkeyPatch, address: str, code: int, message: str
) -> None:
    """tune.md 8.4."""
    monkeypatch.setattr(dask_runs, "CONNECT_SECONDS", 1)
    ended = run(*SEARCH, "--trials", 1, "--dask", address)
    assert (ended.code, ended.out) == (code, ""), ended.err
    assert ended.err.startswith("error: ")
    assert ended.err.count("\n") == 1
    assert message in ended.err


def test_worker_of_another_version_ends_the_search(
    run: Run, desk: Path, scheduler: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """tune.md 8.4: with what was tried before."""
    dask = ("--dask", scheduler.scheduler_address, "--storage", "sqlite:///tune.db")
    assert run(*SEARCH, *dask, "--trials", 1).code == 0
    found = iter(["1.0", "2.0"])
    monkeypatch.setattr(tune_measures, "version", lambda name: next(found, "2.0"))
    ended = run(*SEARCH, *dask, "--trials", 1)  # only the judgement is left
    assert (ended.code, ended.out) == (2, ""), ended.err
    assert (
        "a block was not measured: a worker has reprieve 2.0, the command 1.0: both need the same version" in ended.err
    )
    assert "; 1 of 1 trials are kept in the study reprieve: the same command continues it" in ended.err
