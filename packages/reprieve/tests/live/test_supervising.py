"""A child that is kept running and does not outlive its parent (interfaces.md, `reprieve up`)."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from reprieve.live.supervisor import ChildRefusedError, Restarts, Supervisor
from tests.waiting import DEADLINE

TIED = "from reprieve.live.supervisor import tie; tie(grace={grace})"
WAITS = "import signal; signal.pause()"
FAST = Restarts(first=0.01, longest=0.05)


def child(program: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", program, *arguments]


async def until(check: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE):
        while not check():
            await asyncio.sleep(0.01)


@asynccontextmanager
async def supervised(supervisor: Supervisor) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(supervisor.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def gone(pid: int) -> bool:
    """Whether a process has ended; one that only waits to be reaped has, and it may be reaped at any time."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.parametrize(
    ("previous", "uptime", "pause"),
    [(None, 0.0, 0.2), (0.2, 1.0, 0.4), (0.4, 1.0, 0.8), (8.0, 1.0, 10.0), (10.0, 29.0, 10.0), (10.0, 30.0, 0.2)],
)
def test_pauses_double_until_it_has_run_for_a_while(previous: float | None, uptime: float, pause: float) -> None:
    assert Restarts().after(previous, uptime) == pause


def test_killed_child_is_started_again_and_stopped_with_the_supervisor() -> None:
    reports: list[str] = []

    async def main() -> int:
        supervisor = Supervisor(child(WAITS), report=reports.append, restarts=FAST)
        async with supervised(supervisor):
            await until(lambda: supervisor.pid is not None)
            first = supervisor.pid
            assert first is not None
            os.kill(first, signal.SIGKILL)
            await until(lambda: supervisor.starts == 2 and supervisor.pid not in (None, first))
            second = supervisor.pid
            assert second is not None
        return second

    assert gone(asyncio.run(main()))
    assert reports == ["was ended by SIGKILL, starting it again in 0.01 s"]


def test_child_that_refuses_its_input_is_not_started_again() -> None:
    async def main() -> None:
        supervisor = Supervisor(child("raise SystemExit(2)"), final=(2,), restarts=FAST)
        async with supervised(supervisor) as task:
            with pytest.raises(ChildRefusedError, match="ended with exit code 2"):
                await task
        assert supervisor.starts == 1

    asyncio.run(main())


def test_child_that_fails_otherwise_is_tried_again_and_again() -> None:
    reports: list[str] = []

    async def main() -> None:
        supervisor = Supervisor(child("raise SystemExit(1)"), final=(2,), restarts=FAST, report=reports.append)
        async with supervised(supervisor) as task:
            await until(lambda: supervisor.starts >= 3)
            assert not task.done()

    asyncio.run(main())
    assert reports[:2] == [f"ended with exit code 1, starting it again in {pause} s" for pause in (0.01, 0.02)]


def test_child_that_has_run_well_is_started_again_whatever_its_exit_code() -> None:
    """A port that was taken while it was down is bad input, too, and no reason to end the whole cluster."""

    async def main() -> None:
        reports: list[str] = []
        supervisor = Supervisor(child("raise SystemExit(2)"), final=(2,), restarts=FAST, report=reports.append)
        supervisor.proven = True
        async with supervised(supervisor) as task:
            await until(lambda: supervisor.starts >= 3)
            assert not task.done()
        assert reports[0].startswith("ended with exit code 2, starting it again")

    asyncio.run(main())


def test_program_that_is_not_there_is_an_error() -> None:
    async def main() -> None:
        with pytest.raises(FileNotFoundError):
            await Supervisor(["/nowhere/at/all"]).run()

    asyncio.run(main())


def test_child_that_does_not_listen_is_killed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("reprieve.live.supervisor.STOP_SECONDS", 0.1)
    deaf = tmp_path / "deaf"
    program = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); open({str(deaf)!r}, 'w'); signal.pause()"

    async def main() -> int:
        supervisor = Supervisor(child(program))
        async with supervised(supervisor):
            await until(lambda: deaf.exists() and supervisor.pid is not None)  # the child may be first
            pid = supervisor.pid
            assert pid is not None
        return pid

    assert gone(asyncio.run(main()))


PARENT = """
import asyncio, sys
from reprieve.live.supervisor import Supervisor
async def main():
    supervisor = Supervisor([sys.executable, "-c", sys.argv[1]])
    task = asyncio.create_task(supervisor.run())
    while supervisor.pid is None:
        await asyncio.sleep(0.01)
    print(supervisor.pid, flush=True)
    await task
asyncio.run(main())
"""


@pytest.mark.parametrize(
    "rest", [WAITS, f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {WAITS}"], ids=["listens", "deaf"]
)
def test_when_the_parent_is_killed_the_child_ends_by_itself(rest: str) -> None:
    program = f"{TIED.format(grace=0.1)}; {rest}"
    parent = subprocess.Popen([sys.executable, "-c", PARENT, program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    with parent.stdout:
        pid = int(parent.stdout.readline())
    assert not gone(pid)
    parent.kill()
    parent.wait(DEADLINE)
    asyncio.run(until(lambda: gone(pid)))
