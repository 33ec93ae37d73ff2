"""A real server process under attack: a client that sends one bomb after another, and one that wants to be served.

The process is `kube-standin serve`, with all its controllers. While a bomb is under way a second client reads and
writes without pause; the longest of its waits is what the attack did to others. A wait is by the clock, but no longer
than the server has worked meanwhile (`Worked`): what it costs counts, not what else the machine did.
"""

from __future__ import annotations

import http.client
import json
import os
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.waiting import DEADLINE

ANSWERED = 2.0
"""Seconds until any bomb is answered."""
SERVED = 0.5
"""Seconds until another client is served meanwhile."""
MEMORY = 500
"""Megabytes the process may ever have."""

Json = dict[str, Any]


class Worked:
    """A stopwatch for a server under attack: seconds by the clock, but at most those of the CPU that the process had.

    A server with a blocked event loop uses CPU time, in whatever thread; a process that the machine does not run uses
    none. Both times have to be long for a wait to be the server's fault.
    """

    def __init__(self, pid: int) -> None:
        self._stat = Path(f"/proc/{pid}/stat")
        self._began, self._had = time.monotonic(), self._cpu()

    def _cpu(self) -> float:
        """Seconds of all its threads, in and out of the kernel."""
        fields = self._stat.read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def seconds(self) -> float:
        """Since it was made; to hundredths."""
        return min(time.monotonic() - self._began, self._cpu() - self._had)


@dataclass(frozen=True)
class Sent:
    """One request."""

    method: str
    path: str
    body: bytes = b""
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Answered:
    """Its answer and how long it took, in seconds: of `Worked`, and by the clock alone."""

    status: int
    body: bytes
    seconds: float
    elapsed: float = 0.0

    @property
    def message(self) -> str:
        """What a Status says, else the beginning of the body."""
        try:
            found = json.loads(self.body)
            return str(found.get("message", ""))[:500] if isinstance(found, dict) else ""
        except ValueError:
            return self.body[:200].decode("latin-1")


class Attacked:
    """A running server; `send` sends one request, `others` serves another client meanwhile."""

    def __init__(self, process: subprocess.Popen[bytes], kubeconfig: Path, log: Path) -> None:
        self.process = process
        self.log = log
        config = yaml.safe_load(kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        self.host, _, port = cluster["server"].removeprefix("https://").rpartition(":")
        self.port = int(port)
        self.token = config["users"][0]["user"]["token"]
        self.context = ssl.create_default_context()
        self.context.check_hostname = False
        self.context.verify_mode = ssl.CERT_NONE

    def connection(self, timeout: float = DEADLINE) -> http.client.HTTPSConnection:
        """A new connection."""
        return http.client.HTTPSConnection(self.host, self.port, timeout=timeout, context=self.context)

    def send(self, sent: Sent, connection: http.client.HTTPSConnection | None = None) -> Answered:
        """Send a request and read all of its answer."""
        own = connection is None
        used = connection or self.connection()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": sent.content_type, **sent.headers}
        worked, began = Worked(self.process.pid), time.monotonic()
        try:
            used.request(sent.method, sent.path, sent.body or None, headers)
            answer = used.getresponse()
            body = answer.read()
            return Answered(answer.status, body, worked.seconds, time.monotonic() - began)
        finally:
            if own:
                used.close()

    @contextmanager
    def others(self) -> Iterator[list[float]]:
        """Serve a second client while the context lasts; the list is of its waits, in seconds."""
        waits: list[float] = []
        over = threading.Event()
        failed: list[BaseException] = []

        def ask() -> None:
            try:
                with closing(self.connection()) as connection:
                    turn = 0
                    while True:  # once in any case: what it is asked beside may be over before this thread comes to run
                        turn += 1
                        change = json.dumps({"data": {"turn": str(turn)}}).encode()
                        path = "/api/v1/namespaces/default/configmaps/other"
                        patch = Sent("PATCH", path, change, "application/merge-patch+json")
                        waits.extend(self.send(sent, connection).seconds for sent in (Sent("GET", path), patch))
                        if over.wait(0.005):
                            break
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        try:
            yield waits
        finally:
            over.set()
            thread.join(DEADLINE)
            assert not failed, failed
            assert waits, "the other client was not served once"

    @property
    def megabytes(self) -> float:
        """The most memory the process ever had."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1024

    @property
    def present_megabytes(self) -> float:
        """The memory the process has now."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024

    @property
    def tracebacks(self) -> str:
        """What the server logged of errors it did not expect."""
        text = self.log.read_text(errors="replace")
        return text[max(text.find("Traceback"), 0) :][:5000] if "Traceback" in text else ""


@contextmanager
def attacked(directory: Path) -> Iterator[Attacked]:
    """Run a server while the context lasts."""
    kubeconfig, log = directory / "kubeconfig", directory / "log"
    command = [sys.executable, "-m", "kube_standin", "serve", "--data-dir", ":memory:", "--port", "0", "-v"]
    with log.open("wb") as out:
        process = subprocess.Popen([*command, "--kubeconfig", str(kubeconfig)], stdout=out, stderr=out)
    try:
        ends = time.monotonic() + DEADLINE
        while not kubeconfig.exists() or not kubeconfig.read_text().endswith("\n"):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < ends, "the server did not start"
            threading.Event().wait(0.02)
        server = Attacked(process, kubeconfig, log)
        other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}}
        made = server.send(Sent("POST", "/api/v1/namespaces/default/configmaps", json.dumps(other).encode()))
        assert made.status == 201, made.message
        yield server
    finally:
        process.terminate()
        try:
            process.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
