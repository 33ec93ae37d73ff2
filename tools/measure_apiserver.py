"""Measure the embedded API server from outside: a server process, and clients in other processes, over TLS.

    python tools/measure_apiserver.py                    # creates, binds, watch lag, a large list, memory
    python tools/measure_apiserver.py --nodes 500 --pods 5000
    python tools/measure_apiserver.py --small            # start, memory and CPU of an idle server, a test's round trip
    python tools/measure_apiserver.py --cluster          # pods that `reprieve up` starts, without and with a webhook

The server runs with admission and all controllers and keeps its state on disk; simulated kubelets are off, so
that only the writes of the clients are counted. Prints one line per figure. Terms: the *lag* of a change is the
time from the moment its writer sends the request until a watcher has read the event, on one machine's clock.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import json
import multiprocessing
import re
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import aiohttp
import uvloop
import yaml

from kube_standin.security import certificates

Json = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
_STAMP = "measured.example/sent"
_SENT = re.compile(b'"%s":"([0-9.]+)"[^\n]*\n' % _STAMP.encode())


class Server:
    """A server process on a directory, with what a client needs to reach it."""

    def __init__(self, directory: Path, *command: str) -> None:
        kubeconfig = directory / "kubeconfig"
        program = [sys.executable, "-m", *command, "--port", "0", "--kubeconfig", str(kubeconfig)]
        began = time.monotonic()
        self.process = subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        ends = time.monotonic() + 30
        while not kubeconfig.exists():
            if self.process.poll() is not None or time.monotonic() > ends:
                self.process.kill()
                raise SystemExit("the server did not start")
            time.sleep(0.02)
        self.started = time.monotonic() - began
        """Seconds until it served."""
        content = yaml.safe_load(kubeconfig.read_text())
        cluster = content["clusters"][0]["cluster"]
        self.url: str = cluster["server"]
        self.token: str = content["users"][0]["user"]["token"]
        self.ca = str(directory / "data" / "pki" / "ca.crt")
        if "certificate-authority-data" in cluster:
            import base64

            path = directory / "ca.crt"
            path.write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
            self.ca = str(path)

    def reach(self) -> tuple[str, str, str]:
        """Return address, token and CA file."""
        return self.url, self.token, self.ca

    def resident(self, field: str = "VmRSS") -> float:
        """Return the memory of the process in MB: ``VmRSS`` now, ``VmHWM`` at most so far."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(field):
                return int(line.split()[1]) / 1024
        raise SystemExit("no such figure")

    def cpu(self) -> float:
        """Return the CPU seconds the process has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100


@asynccontextmanager
async def session(reach: tuple[str, str, str]) -> AsyncIterator[tuple[aiohttp.ClientSession, str]]:
    """Open a client session and yield it with the server's address."""
    url, token, ca = reach
    # As many connections as a busy client keeps, not one per request under way.
    connector = aiohttp.TCPConnector(limit=100, ssl=ssl.create_default_context(cafile=ca))
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    async with aiohttp.ClientSession(connector=connector, headers=headers, read_bufsize=2**20) as opened:
        yield opened, url


def pod(name: str) -> Json:
    """A pod like those of a training job: one container, requests, labels."""
    resources = {"requests": {"cpu": "1", "memory": "2Gi", "nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}
    container = {"name": "main", "image": "registry.example/train:1", "resources": resources}
    metadata = {"name": name, "labels": {"app": "train", "job": name.rpartition("-")[0]}}
    spec = {"containers": [container], "priorityClassName": "measured", "restartPolicy": "Never"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def node(name: str) -> Json:
    """A node with eight devices."""
    allocatable = {"cpu": "96", "memory": "768Gi", "pods": "110", "nvidia.com/gpu": "8"}
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": "a"}}
    status = {"capacity": allocatable, "allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


async def _all(work: Iterable[Callable[[], Awaitable[None]]], workers: int) -> float:
    """Run the pieces of work, some at a time; returns the seconds it took."""
    queue = iter(work)

    async def worker() -> None:
        for piece in queue:
            await piece()

    started = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(workers)))
    return time.perf_counter() - started


async def _post(opened: aiohttp.ClientSession, url: str, body: Json) -> None:
    async with opened.post(url, data=json.dumps(body)) as answer:
        text = await answer.read()
        if answer.status not in (200, 201):
            raise SystemExit(f"{url}: {answer.status} {text[:300]!r}")


async def create_pods(reach: tuple[str, str, str], prefix: str, number: int, workers: int) -> float:
    """Create pods; returns the seconds it took."""
    async with session(reach) as (opened, url):
        bodies = (pod(f"{prefix}-{i}") for i in range(number))
        return await _all((partial(_post, opened, url + PODS, body) for body in bodies), workers)


async def create_nodes(reach: tuple[str, str, str], number: int, workers: int) -> float:
    """Create nodes; returns the seconds it took."""
    async with session(reach) as (opened, url):
        path = url + "/api/v1/nodes"
        return await _all((partial(_post, opened, path, node(f"node-{i}")) for i in range(number)), workers)


async def bind_pods(reach: tuple[str, str, str], prefix: str, number: int, nodes: int, workers: int) -> float:
    """Bind pods to nodes in turn; returns the seconds it took."""
    async with session(reach) as (opened, url):

        def work(i: int) -> Callable[[], Awaitable[None]]:
            name = f"{prefix}-{i}"
            target = {"apiVersion": "v1", "kind": "Node", "name": f"node-{i % nodes}"}
            body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
            return lambda: _post(opened, f"{url}{PODS}/{name}/binding", body)

        return await _all([work(i) for i in range(number)], workers)


def watch_process(reach: tuple[str, str, str], watchers: int, expected: int, report: Connection) -> None:
    """Watch all pods with several connections; report how long each change took to arrive, in ms."""

    async def one(opened: aiohttp.ClientSession, url: str, since: str, ready: asyncio.Semaphore) -> list[float]:
        lags: list[float] = []
        rest = b""
        async with opened.get(f"{url}/api/v1/pods?watch=true&resourceVersion={since}") as answer:
            ready.release()
            # Whole pieces as they arrive, not line by line: twenty watchers in one process should not be what is slow.
            async for piece in answer.content.iter_any():
                now = time.time()
                found = _SENT.findall(rest + piece if rest else piece)
                lags.extend((now - float(sent)) * 1000 for sent in found)
                rest = piece[piece.rfind(b"\n") + 1 :] if b"\n" in piece else rest + piece
                if len(lags) >= expected:
                    break
        return lags

    async def run() -> None:
        async with session(reach) as (opened, url):
            async with opened.get(url + "/api/v1/pods?limit=1") as answer:
                since = (await answer.json())["metadata"]["resourceVersion"]
            ready = asyncio.Semaphore(0)
            tasks = [asyncio.create_task(one(opened, url, since, ready)) for _ in range(watchers)]
            for _ in range(watchers):
                await ready.acquire()
            report.send("ready")
            report.send([lag for lags in await asyncio.gather(*tasks) for lag in lags])

    uvloop.run(run())


async def change_at_rate(reach: tuple[str, str, str], prefix: str, rate: int, seconds: int, pods: int) -> float:
    """Change labels of pods at a steady rate; returns the rate reached."""
    async with session(reach) as (opened, url):
        headers = {"Content-Type": "application/merge-patch+json"}

        async def change(i: int) -> None:
            body = {"metadata": {"annotations": {_STAMP: repr(time.time())}}}
            target = f"{url}{PODS}/{prefix}-{i % pods}"
            async with opened.patch(target, data=json.dumps(body, separators=(",", ":")), headers=headers) as answer:
                text = await answer.read()
                if answer.status != 200:
                    raise SystemExit(f"{answer.status} {text[:300]!r}")

        started = time.perf_counter()
        tasks: list[asyncio.Task[None]] = []
        for i in range(rate * seconds):
            ahead = started + i / rate - time.perf_counter()
            if ahead > 0.001:
                await asyncio.sleep(ahead)
            tasks.append(asyncio.create_task(change(i)))
        await asyncio.gather(*tasks)
        return len(tasks) / (time.perf_counter() - started)


async def timed_list(reach: tuple[str, str, str], path: str) -> tuple[float, int, int]:
    """List once; returns seconds until the last byte, bytes, and how many items there are."""
    async with session(reach) as (opened, url):
        started = time.perf_counter()
        async with opened.get(url + path) as answer:
            body = await answer.read()
        seconds = time.perf_counter() - started
        return seconds, len(body), len(json.loads(body)["items"])


def show(name: str, value: str) -> None:
    """Print one figure."""
    print(f"{name:<42} {value}", flush=True)


def watch_lag(server: Server, prefix: str, arguments: argparse.Namespace) -> None:
    """Measure how long changes take to reach all watchers while they come at a steady rate."""
    expected = arguments.rate * arguments.seconds
    here, there = multiprocessing.Pipe()
    watching = multiprocessing.get_context("spawn").Process(
        target=watch_process, args=(server.reach(), arguments.watchers, expected, there)
    )
    watching.start()
    here.recv()
    before = server.cpu()
    reached = uvloop.run(change_at_rate(server.reach(), prefix, arguments.rate, arguments.seconds, arguments.sample))
    lags = sorted(here.recv())
    watching.join()
    show(f"{arguments.watchers} watchers, changes/s", f"{reached:.0f} (asked for {arguments.rate})")
    for percent in (50, 99, 100):
        show(f"  lag p{percent}", f"{lags[min(len(lags) - 1, len(lags) * percent // 100)]:.1f} ms")
    show("  events received", f"{len(lags)} of {expected * arguments.watchers}")
    show("  server CPU", f"{(server.cpu() - before) / arguments.seconds:.2f} of a core")


def measure(server: Server, arguments: argparse.Namespace) -> None:
    """Take every figure of one server."""
    reach, workers = server.reach(), arguments.workers

    async def one_class() -> None:
        async with session(reach) as (opened, url):
            body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 100}
            await _post(
                opened, url + "/apis/scheduling.k8s.io/v1/priorityclasses", body | {"metadata": {"name": "measured"}}
            )

    uvloop.run(one_class())
    show("memory when started", f"{server.resident():.0f} MB")
    seconds = uvloop.run(create_nodes(reach, arguments.nodes, workers))
    show("node creates/s", f"{arguments.nodes / seconds:.0f}")
    for name, work in (
        ("pod creates/s", create_pods(reach, "sample", arguments.sample, workers)),
        ("binds/s", bind_pods(reach, "sample", arguments.sample, arguments.nodes, workers)),
    ):
        before = server.cpu()
        seconds = uvloop.run(work)
        used = (server.cpu() - before) / arguments.sample * 1e6
        show(name, f"{arguments.sample / seconds:.0f}   (server {used:.0f} µs of CPU each)")
    watch_lag(server, "sample", arguments)
    more = max(arguments.pods - arguments.sample, 0)
    before = server.cpu()
    seconds = uvloop.run(create_pods(reach, "more", more, workers)) if more else 1.0
    show(f"pod creates/s up to {arguments.pods} pods", f"{more / seconds:.0f}")
    uvloop.run(bind_pods(reach, "more", more, arguments.nodes, workers))
    show("memory with all of them", f"{server.resident():.0f} MB")
    for path in ("/api/v1/nodes", "/api/v1/pods"):
        took, size, items = uvloop.run(timed_list(reach, path))
        show(f"list of {items} ({path})", f"{took:.2f} s, {size / 1e6:.0f} MB")
    show("memory at most", f"{server.resident('VmHWM'):.0f} MB")


def stopped(server: Server) -> None:
    """End a server."""
    server.process.terminate()
    server.process.wait(20)


def measure_small(arguments: argparse.Namespace, directory: Path) -> None:
    """Measure what a laptop or a test notices: start, an idle server, a round trip of a test."""
    starts = []
    for _ in range(5):
        (directory / "kubeconfig").unlink(missing_ok=True)
        server = Server(directory, "kube_standin", "serve", "--data-dir", ":memory:")
        starts.append(server.started)
        time.sleep(1)
        memory = server.resident()
        stopped(server)
    show("start of kube-standin serve", f"{min(starts):.2f} s (the quickest of 5)")
    show("memory of an empty server", f"{memory:.0f} MB")
    for nodes in (0, arguments.idle_nodes):
        (directory / "kubeconfig").unlink(missing_ok=True)
        server = Server(directory, "kube_standin", "serve", "--data-dir", ":memory:", "--nodes", str(nodes))
        time.sleep(10)
        before = server.cpu()
        time.sleep(arguments.idle_seconds)
        used = (server.cpu() - before) / arguments.idle_seconds
        show(f"idle with {nodes} nodes", f"{used:.2%} of a core, {server.resident():.0f} MB")
        stopped(server)
    times = [uvloop.run(round_trip()) for _ in range(5)]
    show("start, 100 creates, their events, stop", f"{min(times):.2f} s (the quickest of 5)")


async def round_trip() -> float:
    """Do what a small test does with an `ApiServer` of its own; returns the seconds it took."""
    from kube_standin import ApiServer

    began = time.perf_counter()
    maps = "/api/v1/namespaces/default/configmaps"
    async with (
        ApiServer() as api,
        session((api.url, api.token, str(api.ca))) as (opened, url),
        opened.get(f"{url}{maps}?watch=1") as watch,
    ):
        for number in range(100):
            await _post(opened, url + maps, {"metadata": {"name": f"map-{number}"}})
        names = set()
        while not names.issuperset(f"map-{number}" for number in range(100)):
            names.add(json.loads(await watch.content.readline())["object"]["metadata"]["name"])
    return time.perf_counter() - began


async def _until_running(reach: tuple[str, str, str], number: int) -> None:
    async with session(reach) as (opened, url):
        running: set[str] = set()
        async with opened.get(f"{url}/api/v1/pods?watch=1") as watch:
            while len(running) < number:
                pod_seen = json.loads(await watch.content.readline())["object"]
                if pod_seen["status"].get("phase") == "Running":
                    running.add(pod_seen["metadata"]["name"])


@asynccontextmanager
async def _webhook(directory: Path) -> AsyncIterator[Json]:
    """Serve a mutating webhook that allows everything while the context lasts; gives its configuration."""
    made = certificates(directory / "webhook", ("127.0.0.1",))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, asyncio.CancelledError, OSError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                body = await reader.readexactly(int(head.split(b"content-length:")[1].split(b"\r\n")[0]))
                given = json.loads(body)
                given["response"] = {"uid": given.pop("request")["uid"], "allowed": True}
                text = json.dumps(given).encode()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(text) + text)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=made.context())
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    bundle = base64.b64encode((directory / "webhook" / "ca.crt").read_bytes()).decode()
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    hook = {"name": "measured.example.com", "clientConfig": {"url": url, "caBundle": bundle}, "rules": [rule]}
    hook |= {"sideEffects": "None", "admissionReviewVersions": ["v1"]}
    yield {"metadata": {"name": "measured"}, "webhooks": [hook]}
    server.close()


def measure_cluster(arguments: argparse.Namespace, directory: Path, *, webhook: bool) -> None:
    """Measure how many pods a second a whole cluster takes from create to running, with a webhook for pods or none."""
    server = Server(directory, "reprieve", "up", "--data-dir", ":memory:", "--nodes", str(arguments.cluster_nodes))
    number = arguments.cluster_pods

    async def play() -> float:
        if not webhook:
            return await pods()
        configurations = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
        async with _webhook(directory) as configuration, session(server.reach()) as (opened, url):
            await _post(opened, url + configurations, configuration)
            return await pods()

    async def pods() -> float:
        async with session(server.reach()) as (opened, url):
            body: Json = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 100}
            await _post(
                opened, url + "/apis/scheduling.k8s.io/v1/priorityclasses", body | {"metadata": {"name": "measured"}}
            )
        began = time.perf_counter()
        until = asyncio.create_task(_until_running(server.reach(), number))
        async with session(server.reach()) as (opened, url):
            bodies = [pod(f"p-{i}") for i in range(number)]
            for one in bodies:
                one["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "10m"}}
            await _all((partial(_post, opened, url + PODS, one) for one in bodies), arguments.workers)
        await until
        return time.perf_counter() - began

    try:
        before = server.cpu()
        seconds = uvloop.run(play())
        used = (server.cpu() - before) / number
        words = ", with a webhook" if webhook else ""
        rate = f"{seconds:.1f} s, {number / seconds:.0f} pods/s, {used * 1e3:.1f} ms of CPU of the server each"
        show(f"{number} pods created, scheduled and started{words}", rate)
    finally:
        stopped(server)


def main() -> None:
    """Start a server, measure it, stop it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--sample", type=int, default=5000, help="pods for creates, binds and changes")
    parser.add_argument("--workers", type=int, default=32, help="requests under way at a time")
    parser.add_argument("--watchers", type=int, default=20)
    parser.add_argument("--rate", type=int, default=1000, help="changes per second")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--controllers", default="*")
    parser.add_argument("--small", action="store_true", help="measure an idle server and the round trip of a test")
    parser.add_argument("--idle-nodes", type=int, default=1000)
    parser.add_argument("--idle-seconds", type=int, default=60)
    parser.add_argument("--cluster", action="store_true", help="measure the pods that `reprieve up` starts")
    parser.add_argument("--cluster-nodes", type=int, default=100)
    parser.add_argument("--cluster-pods", type=int, default=2000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        if arguments.small:
            measure_small(arguments, Path(directory))
            return
        if arguments.cluster:
            for webhook in (False, True):
                (Path(directory) / "kubeconfig").unlink(missing_ok=True)
                measure_cluster(arguments, Path(directory), webhook=webhook)
            return
        options = ["--no-kubelets", f"--controllers={arguments.controllers}"]
        server = Server(Path(directory), "reprieve", "apiserver", "--data-dir", str(Path(directory) / "data"), *options)
        try:
            measure(server, arguments)
        finally:
            stopped(server)


if __name__ == "__main__":
    main()
