"""The processes of a chaotic cluster: a control plane, and schedulers that can be killed, frozen and restarted."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import yaml

from tests.waiting import DEADLINE

_ELECTION = {"leaderElect": True, "leaseDuration": "6s", "renewDeadline": "5s", "retryPeriod": "500ms"}
"""Short, so that a frozen leader is deposed; not so short that a busy machine deposes every leader."""


async def until(check: Callable[[], object], what: str, seconds: float = DEADLINE) -> None:
    """Return when `check` is true; an AssertionError names what did not come."""
    ends = asyncio.get_running_loop().time() + seconds
    while not check():
        assert asyncio.get_running_loop().time() < ends, f"not within {seconds:.0f} s: {what}"
        await asyncio.sleep(0.02)


class Process:
    """A program that can die. What it says goes to a file."""

    def __init__(self, log: Path, *arguments: str) -> None:
        self.log = log
        self.deaths = 0
        self._arguments = (sys.executable, "-m", "reprieve", *arguments)
        self._running: asyncio.subprocess.Process | None = None
        self._starting = asyncio.Lock()

    @property
    def alive(self) -> bool:
        """Whether it runs (or is frozen)."""
        return self._running is not None and self._running.returncode is None

    async def start(self) -> None:
        """Run it (again), unless it runs."""
        async with self._starting:
            if self.alive:
                return
            out = self.log.open("ab")
            self._running = await asyncio.create_subprocess_exec(
                *self._arguments, stdout=out, stderr=out, env={**os.environ, "PYTHONUNBUFFERED": "1"}
            )
            out.close()

    async def kill(self) -> None:
        """kill -9."""
        if self._running is not None and self._running.returncode is None:
            self._running.kill()
            await self._running.wait()
            self.deaths += 1

    def freeze(self) -> None:
        """Stop it in its tracks."""
        if self._running is not None and self._running.returncode is None:
            self._running.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        if self._running is not None and self._running.returncode is None:
            self._running.send_signal(signal.SIGCONT)

    async def stop(self) -> None:
        """Ask it to end."""
        self.thaw()
        if self._running is not None and self._running.returncode is None:
            self._running.terminate()
            try:
                await asyncio.wait_for(self._running.wait(), DEADLINE)
            except TimeoutError:
                self._running.kill()
                await self._running.wait()


def control_plane(directory: Path, nodes: int) -> Process:
    """A control plane that keeps its state in the directory; writes `kubeconfig` there when it serves."""
    kubeconfig = directory / "kubeconfig"
    arguments = (
        "--data-dir",
        str(directory / "data"),
        "--kubeconfig",
        str(kubeconfig),
        "--port",
        "0",
    )
    return Process(directory / "apiserver.log", "apiserver", *arguments, "--nodes", str(nodes))


def scheduler(directory: Path, number: int, url: str) -> Process:
    """A scheduler, one of several that stand for election, which reaches the API server through `url`."""
    kubeconfig = yaml.safe_load((directory / "kubeconfig").read_text())
    for cluster in kubeconfig["clusters"]:
        cluster["cluster"] = {"server": url}
    (directory / "proxied").write_text(yaml.safe_dump(kubeconfig))
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": _ELECTION,
        "clientConnection": {"qps": 5000, "burst": 5000},
    }
    (directory / "scheduler.yaml").write_text(yaml.safe_dump(configuration))
    arguments = ("--kubeconfig", str(directory / "proxied"), "--config", str(directory / "scheduler.yaml"))
    return Process(
        directory / f"scheduler-{number}.log",
        "scheduler",
        *arguments,
        "--port",
        "0",
        "--scheduler-name",
        "default-scheduler",
    )
