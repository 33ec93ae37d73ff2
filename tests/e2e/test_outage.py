"""The API server is killed and comes back under a running scheduler: nothing is lost, and nothing is placed twice.

docs/install.md, "When the API server is away". With a lease the scheduler may end, and is started again as `reprieve
up` and a Deployment do.
"""

from __future__ import annotations

import http.client
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reprieve.live.local import kept_port
from tests.e2e.cluster import (
    CLASSES,
    GROUPS,
    PODS,
    Api,
    Json,
    condition,
    eventually,
    nodes_file,
    pod,
    pod_group,
    priority_class,
)
from tests.waiting import DEADLINE

DEFAULT = PODS.format(namespace="default")
NODES = tuple(f"n{number}" for number in range(1, 9))
PER_NODE = 4
ELECTION = {
    "no lease": ["--no-leader-elect"],
    "with a lease": [
        "--leader-elect-lease-duration=3s",
        "--leader-elect-renew-deadline=2s",
        "--leader-elect-retry-period=500ms",
    ],
}


class Server:
    """`reprieve apiserver`, which can be killed and started again at the same place."""

    def __init__(self, directory: Path, port: int) -> None:
        self.kubeconfig = directory / "kubeconfig"
        self._log = directory / "apiserver.log"
        self._arguments = ["apiserver", f"--data-dir={directory / 'data'}", f"--port={port}"]
        self._arguments += [f"--kubeconfig={self.kubeconfig}", f"--nodes-file={nodes_file(directory, *NODES)}"]
        self.start()

    def start(self) -> None:
        with self._log.open("a") as output:
            command = [sys.executable, "-m", "reprieve", *self._arguments]
            self.process = subprocess.Popen(command, stdout=output, stderr=output)
        eventually(self._answers, "the API server answers")

    def _answers(self) -> bool:
        assert self.process.poll() is None, self._log.read_text()
        try:
            return bool(Api(self.kubeconfig).get("/version"))
        except OSError:
            return False

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Scheduler:
    """`reprieve scheduler`; `alive` starts it again when it has ended with exit code 1, as its supervisor would."""

    def __init__(self, kubeconfig: Path, log: Path, port: int, options: list[str]) -> None:
        self.port = port
        self.log = log
        self._arguments = ["scheduler", f"--kubeconfig={kubeconfig}", f"--port={self.port}", *options]
        self.ends = 0
        self._start()

    def _start(self) -> None:
        with self.log.open("a") as output:
            self.process = subprocess.Popen([sys.executable, "-m", "reprieve", *self._arguments], stderr=output)

    def alive(self) -> bool:
        code = self.process.poll()
        if code is not None:
            assert code == 1, self.log.read_text()
            self.ends += 1
            self._start()
        return True

    def metrics(self) -> dict[str, float]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=DEADLINE) as answer:
                lines = answer.read().decode().splitlines()
        except (OSError, http.client.HTTPException):  # it may end in the middle of its answer
            return {}
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines) if name[:1] != "#"}

    def troubled(self) -> bool:
        """It has noticed, or has ended because of it."""
        if self.process.poll() is not None:
            return True
        return sum(value for name, value in self.metrics().items() if name.startswith("scheduler_trouble_total")) > 0


@contextmanager
def both(directory: Path, options: list[str]) -> Iterator[tuple[Server, Scheduler]]:
    # Both are started again at the same port, which no other process may take meanwhile.
    with kept_port(0) as place, kept_port(0) as other:
        server = Server(directory, place)
        try:
            scheduler = Scheduler(server.kubeconfig, directory / "scheduler.log", other, options)
            try:
                yield server, scheduler
            finally:
                scheduler.process.terminate()
                assert scheduler.process.wait(DEADLINE) in (0, 1), scheduler.log.read_text()
        finally:
            server.kill()


def ours(name: str, **fields: object) -> Json:
    body = pod(name, **fields)  # type: ignore[arg-type]
    body["spec"]["schedulerName"] = "reprieve-scheduler"
    return body


@pytest.mark.parametrize("election", ELECTION)
def test_api_server_is_killed_and_comes_back(election: str, tmp_path: Path) -> None:
    with both(tmp_path, ELECTION[election]) as (server, scheduler):
        api = Api(server.kubeconfig)
        api.create(CLASSES, priority_class("high", 1000))
        api.create(DEFAULT, ours("low", cpu="4", node="n8"))
        eventually(lambda: scheduler.alive() and api.runs("low"), "the scheduler works")
        # In the middle of bindings, of a gang and of a preemption the server is gone.
        names = [f"p{number}" for number in range(20)]
        made = {name: api.create(DEFAULT, ours(name))["metadata"]["uid"] for name in names}
        api.create(GROUPS.format(namespace="default"), pod_group("gang", 6))
        crew = [f"gang-{number}" for number in range(6)]
        made |= {name: api.create(DEFAULT, ours(name, group="gang"))["metadata"]["uid"] for name in crew}
        made["hi"] = api.create(DEFAULT, ours("hi", cpu="4", node="n8", priority="high"))["metadata"]["uid"]
        server.kill()
        eventually(scheduler.troubled, "the scheduler has noticed")
        server.start()
        assert set(api.pods()) >= set(made), "what was acknowledged is there"

        def settled() -> bool:
            return scheduler.alive() and api.runs(*made) and api.gone("low")

        eventually(settled, "all run")
        found = api.pods()
        assert {name: item["metadata"]["uid"] for name, item in found.items()} == made
        where = Counter(item["spec"]["nodeName"] for name, item in found.items() if name != "hi")
        assert max(where.values()) <= PER_NODE
        assert found["hi"]["spec"]["nodeName"] == "n8"
        assert where["n8"] == 0
        for item in found.values():
            assert condition(item, "PodScheduled")["status"] == "True"
            assert "nominatedNodeName" not in item["status"]
        group = api.group("gang")
        assert group is not None
        eventually(lambda: condition(api.group("gang") or {}, "PodGroupInitiallyScheduled").get("status") == "True")
        scheduled = Counter(event["regarding"]["uid"] for event in api.events("Scheduled"))
        assert set(scheduled.values()) <= {1}, "nothing is bound twice"
        # And it goes on.
        api.create(DEFAULT, ours("after"))
        eventually(lambda: scheduler.alive() and api.runs("after"), "what comes later runs")

        def at_rest() -> bool:
            found = scheduler.metrics()
            return (
                found.get('scheduler_cache_size{type="pods"}'),
                found.get('scheduler_cache_size{type="assumed_pods"}'),
            ) == (len(made) + 1, 0)

        eventually(at_rest, "it knows what there is")
        assert scheduler.ends == 0 or election == "with a lease"
