"""kill -9 of the real server during writes: nothing acknowledged is missing, resourceVersions never go back.

``REPRIEVE_CHAOS=full`` kills it 50 times.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import aiohttp

from kube_standin.security import load_secrets
from tests.waiting import DEADLINE

ROUNDS = 50 if os.environ.get("REPRIEVE_CHAOS") == "full" else 3
PATH = "/api/v1/namespaces/default/configmaps"
PROGRAM = """
import asyncio, sys
from pathlib import Path
from kube_standin.server.control_plane import ServeOptions, serve
options = ServeOptions(data_dir=sys.argv[1], tls=False, kubeconfig=Path(sys.argv[2]))
asyncio.run(serve(options, asyncio.Event()))
"""


class Client:
    """Writers against one incarnation of the server; remembers what was acknowledged over all of them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.kubeconfig = directory / "kubeconfig"
        self.acknowledged: dict[str, tuple[int, str]] = {}
        self.in_flight: dict[str, str] = {}
        self.highest = 0
        self.writes = 0

    async def start(self) -> tuple[subprocess.Popen[bytes], str]:
        """Start the server and wait until its kubeconfig says where it serves."""
        self.kubeconfig.unlink(missing_ok=True)
        arguments = [sys.executable, "-c", PROGRAM, str(self.directory / "data"), str(self.kubeconfig)]
        process = subprocess.Popen(arguments)
        async with asyncio.timeout(DEADLINE):
            while not self.kubeconfig.exists():
                assert process.poll() is None, "the server did not start"
                await asyncio.sleep(0.01)
        line = next(line for line in self.kubeconfig.read_text().splitlines() if "server:" in line)
        return process, line.split("server:")[1].strip()

    async def verify(self, session: aiohttp.ClientSession, url: str) -> None:
        """Every acknowledged write is there, or the one write that was under way after it."""
        async with session.get(url + PATH) as answer:
            listing = await answer.json()
        revision = int(listing["metadata"]["resourceVersion"])
        assert revision >= self.highest, f"resourceVersion went back from {self.highest} to {revision}"
        self.highest = revision
        found = {item["metadata"]["name"]: item for item in listing["items"]}
        for name, (version, value) in self.acknowledged.items():
            assert name in found, f"{name} (acknowledged at {version}) is missing"
            item = found[name]
            assert item["data"]["v"] in (value, self.in_flight.get(name)), f"{name} is not as acknowledged"
            assert int(item["metadata"]["resourceVersion"]) >= version
            # What was read is as good as acknowledged: it may not be taken back either.
            self.acknowledged[name] = (int(item["metadata"]["resourceVersion"]), item["data"]["v"])

    async def write(self, session: aiohttp.ClientSession, url: str, name: str) -> None:
        """Write one object again and again until the server is gone."""
        turn = 0
        headers = {"Content-Type": "application/apply-patch+yaml"}
        while True:
            turn += 1
            value = f"{os.getpid()}-{random.random()}-{turn}"
            body = f'{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}},"data":{{"v":"{value}"}}}}'
            self.in_flight[name] = value
            target = f"{url}{PATH}/{name}?fieldManager=m&force=true"
            try:
                async with session.patch(target, data=body, headers=headers) as answer:
                    stored = await answer.json()
                    assert answer.status in (200, 201), stored
            except (aiohttp.ClientError, ConnectionError):
                return
            self.acknowledged[name] = (int(stored["metadata"]["resourceVersion"]), value)
            self.writes += 1

    async def round(self, seed: int) -> None:
        """One life of the server."""
        process, url = await self.start()
        try:
            headers = {"Authorization": f"Bearer {load_secrets(self.directory / 'data').admin_token}"}
            async with aiohttp.ClientSession(headers=headers) as session:
                await self.verify(session, url)
                begun = self.writes
                writers = [asyncio.create_task(self.write(session, url, f"w{number}")) for number in range(8)]
                chance = random.Random(seed)
                enough = chance.randint(30, 200)  # the moment of death varies, by what has been written and a little
                async with asyncio.timeout(DEADLINE):
                    while self.writes < begun + enough:
                        await asyncio.sleep(0.001)
                await asyncio.sleep(chance.uniform(0.0, 0.01))
                process.send_signal(signal.SIGKILL)
                await asyncio.gather(*writers)
        finally:
            process.kill()
            process.wait()


def test_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    async def run() -> Client:
        client = Client(tmp_path)
        for seed in range(ROUNDS):
            await client.round(seed)
        process, url = await client.start()
        try:
            headers = {"Authorization": f"Bearer {load_secrets(tmp_path / 'data').admin_token}"}
            async with aiohttp.ClientSession(headers=headers) as session:
                await client.verify(session, url)
        finally:
            process.kill()
            process.wait()
        return client

    client = asyncio.run(run())
    assert client.highest > ROUNDS * 20
