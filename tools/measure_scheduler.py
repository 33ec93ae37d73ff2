"""Measure the scheduler from outside: `reprieve apiserver` and `reprieve scheduler` in their own processes, over TLS.

    python tools/measure_scheduler.py                            # 1,000 nodes; 5,000 pods, then 50 gangs of 100
    python tools/measure_scheduler.py --pods 10000 --gangs 0 --profile /tmp/profile
    python tools/measure_scheduler.py --pods 0 --gangs 0 --victims 800   # a gang that takes the room of 100 gangs of 8
    python tools/measure_scheduler.py --unlike --nodes 3000 --pods 3000  # no two alike, beside 6,000 that run
    python tools/measure_scheduler.py --kubeconfig kube.yaml --server-pid $(pidof kube-apiserver)   # another API server
    python tools/measure_scheduler.py --kubeconfig kube.yaml --command "kube-scheduler --config scheduler.yaml"  # both

Everything to schedule is there before the scheduler starts (for the second part: before its schedulerName is served),
so that creating it costs no other process time. A watch of all pods in this process notes when each got its node.
Figures: binds a second from the first to the last of them, the whole time since the scheduler started, memory of the
scheduler's process, CPU seconds of both processes, and the lag of the watch: from the moment a writer here sends an
annotation, 20 times a second, until its event has been read here.

With `--victims` a gang of one pod for eight victims comes when the scheduler has begun: evictions a second from the
first pod that is gone to the last, and the whole time from the gang's creation until all of it is bound.

With `--unlike` the cluster is that of the bench's scenario unlike-5000 (`simulation.bench.distinct_pods`), in the
requested size: nodes of twenty shapes, running and pending pods that differ in requests, labels, images and affinity,
and a service for ten of them (no ReplicaSets, which some servers would act on).

Another API server (`--kubeconfig`, with a token and the file of a certificate authority) has to be empty, and what is
made stays there: a figure more wants a fresh one. Another scheduler (`--command`) answers to `reprieve-scheduler`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import shlex
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import aiohttp
import msgspec
import uvloop
import yaml

from kube_rules.meta import KubernetesObject
from kube_rules.versions import INTERNAL_VERSION, SCHEDULING_GROUP, SERVED_VERSIONS, from_internal
from reprieve.simulation.bench import distinct_pods

Json = dict[str, Any]
SCHEDULER = "reprieve-scheduler"
PODS = "/api/v1/namespaces/default/pods"
PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
_STAMP = "measured.example/sent"
_SENT = re.compile(b'"%s":"([0-9.]+)"' % _STAMP.encode())
_NAME = re.compile(rb'"name":"((?:p|g[0-9]+|low[0-9]+|high|marked|app-[0-9]+)-[0-9]+)"')
_NODE = b'"nodeName":"'
_GONE = b'{"type":"DELETED"'
_GPU = "nvidia.com/gpu"
_UNIT = 8
"""Victims of one unit, and GPUs of a node."""
_RUNNING = 2
"""Pods that run on each node where no two are alike."""
_PODS_OF_GANG = 100


ENVIRONMENT = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""An installed package is compiled; that of a checkout too, from its second start on."""


class Process:
    """A process of those that are measured, by default one of reprieve, and what it uses."""

    started: ClassVar[list[Process]] = []
    """Start all; after a failure those that run are stopped at the end."""

    def __init__(self, *arguments: str, log: Path, profile: str | None = None, command: str | None = None) -> None:
        program = [sys.executable]
        if profile is not None:
            program += ["-m", "cProfile", "-o", profile]
        program += ["-m", "reprieve", *arguments]
        if command is not None:
            program = shlex.split(command)
        self.log = log
        with log.open("w") as errors:
            self.process = subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=errors, env=ENVIRONMENT)
        self.started.append(self)

    def resident(self, field: str = "VmRSS") -> float:
        """Memory in MB: `VmRSS` now, `VmHWM` at most so far."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(field):
                return int(line.split()[1]) / 1024
        raise SystemExit("no such figure")

    def cpu(self) -> float:
        """CPU seconds used."""
        return cpu_of(self.process.pid)

    def stop(self) -> None:
        """End it, and wait for it; nothing happens if it has ended."""
        if self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def rate(count: int, seconds: float) -> float:
    """So many a second; what arrived in one piece took a millisecond."""
    return count / max(seconds, 0.001)


def cpu_of(process: int) -> float:
    """CPU seconds that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


class Foreign:
    """An API server that is running already; its CPU time is known if its process is."""

    def __init__(self, kubeconfig: Path, process: int | None) -> None:
        self.kubeconfig = kubeconfig
        content = yaml.safe_load(kubeconfig.read_text())
        cluster, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
        self.url, self.token, self.ca = str(cluster["server"]), str(user["token"]), cluster["certificate-authority"]
        self._process = process

    def cpu(self) -> float:
        """CPU seconds used, 0 if the process is unknown."""
        return 0.0 if self._process is None else cpu_of(self._process)


class Server(Process):
    """`reprieve apiserver`."""

    def __init__(self, directory: Path, *, kubelets: bool, nodes: int, more: Sequence[str] = ()) -> None:
        self.kubeconfig = directory / "kubeconfig"
        arguments = ["apiserver", "--data-dir", str(directory / "data"), "--port", "0"]
        arguments += ["--kubeconfig", str(self.kubeconfig)]
        arguments += ["--nodes", str(nodes), *more] if kubelets else ["--no-kubelets", *more]
        super().__init__(*arguments, log=directory / "apiserver.log")
        ends = time.monotonic() + 60
        while not self.kubeconfig.exists():
            if self.process.poll() is not None or time.monotonic() > ends:
                self.process.kill()
                raise SystemExit(f"the server did not start: {self.log.read_text()}")
            time.sleep(0.02)
        content = yaml.safe_load(self.kubeconfig.read_text())
        self.url: str = content["clusters"][0]["cluster"]["server"]
        self.token: str = content["users"][0]["user"]["token"]
        self.ca = str(directory / "data" / "pki" / "ca.crt")


@asynccontextmanager
async def session(server: Server | Foreign) -> AsyncIterator[aiohttp.ClientSession]:
    """A client session with the server."""
    connector = aiohttp.TCPConnector(limit=100, ssl=ssl.create_default_context(cafile=server.ca))
    headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}
    opened = aiohttp.ClientSession(server.url, connector=connector, headers=headers, read_bufsize=2**20)
    async with opened:
        yield opened


def pod(name: str, group: str | None = None) -> Json:
    """A pod like those of a training job."""
    resources = {"requests": {"cpu": "500m", "memory": "1Gi"}}
    container = {"name": "main", "image": "registry.example/train:1", "resources": resources}
    spec: Json = {"schedulerName": SCHEDULER, "containers": [container]}
    if group is not None:
        spec["schedulingGroup"] = {"podGroupName": group}
    labels = {"app": "train", "job": name.rpartition("-")[0]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


def node(name: str) -> Json:
    """A node of 32 CPUs."""
    allocatable = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": "a"}}
    status = {"capacity": allocatable, "allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


async def create_groups(opened: aiohttp.ClientSession, bodies: list[Json]) -> None:
    """Create PodGroups in the best version that the server has."""
    async with opened.get(f"/apis/{SCHEDULING_GROUP}") as answer:
        versions = [version["groupVersion"] for version in (await answer.json())["versions"]]
    served = next((version for version in SERVED_VERSIONS if version in versions), INTERNAL_VERSION)
    converted = [from_internal(body, served) for body in bodies]
    await create(opened, f"/apis/{served}/namespaces/default/podgroups", converted)


async def create(opened: aiohttp.ClientSession, path: str, bodies: list[Json]) -> None:
    """Create objects, sixteen at a time; those that name their namespace there instead of `default`."""
    requests = []
    for body in bodies:
        namespace = body["metadata"].get("namespace", "default")
        requests.append((path.replace("/default/", f"/{namespace}/"), body))
    await send(opened, "POST", requests)


async def create_nodes(opened: aiohttp.ClientSession, bodies: list[Json]) -> None:
    """Create nodes, and take the taint from them that a new node has until its kubelet is heard of."""
    await create(opened, "/api/v1/nodes", bodies)
    await remove_taints(opened, bodies)


async def remove_taints(opened: aiohttp.ClientSession, bodies: list[Json]) -> None:
    """Take the taint from nodes that a new node has until its kubelet is heard of."""
    clean = {"spec": {"taints": None}}
    await send(opened, "PATCH", [(f"/api/v1/nodes/{body['metadata']['name']}", clean) for body in bodies])


async def send(opened: aiohttp.ClientSession, method: str, requests: list[tuple[str, Json]]) -> None:
    """Send requests, sixteen at a time."""
    waiting = iter(requests)
    headers = {"Content-Type": "application/merge-patch+json"} if method == "PATCH" else {}

    async def worker() -> None:
        for path, body in waiting:
            async with opened.request(method, path, data=json.dumps(body), headers=headers) as answer:
                text = await answer.read()
                if answer.status not in (200, 201):
                    raise SystemExit(f"{method} {path}: {answer.status} {text[:300]!r}")

    await asyncio.gather(*(worker() for _ in range(16)))


def manifest(item: KubernetesObject) -> Json:
    """What is sent to create an object of the bench."""
    body: Json = msgspec.json.decode(msgspec.json.encode(item))
    body["metadata"].pop("uid", None)
    if "spec" in body:
        body["spec"].pop("overhead", None)  # an empty one is refused where no RuntimeClass states it
    return {"apiVersion": item.API_VERSION, "kind": item.KIND, **body}


def unlike_nodes(number: int) -> list[Json]:
    """Nodes of twenty shapes that are ready."""
    made = [manifest(machine) for machine in distinct_pods.nodes(number)]
    for body in made:
        status = body["status"]
        status["capacity"] = status["allocatable"]
        status["conditions"] = [{"type": "Ready", "status": "True"}]
    return made


def unlike_pods(first: int, number: int, *, nodes: int = 0) -> list[Json]:
    """Pods that all differ, from that number on; on so many nodes in turn, or pending."""
    on = distinct_pods.nodes(nodes) if nodes else ()
    made = [manifest(found) for found in distinct_pods.pods(first, number, priority=0, on=on)]
    for body in made:
        del body["metadata"]["ownerReferences"]  # of ReplicaSets that do not exist: pods of none are collected
        body["spec"]["schedulerName"] = SCHEDULER
        for spread in body["spec"].get("topologySpreadConstraints", ()):
            spread.setdefault("whenUnsatisfiable", "DoNotSchedule")  # what is default here is required there
        del body["status"]
    return made


async def create_unlike(opened: aiohttp.ClientSession, nodes: int, pods: int, running: int) -> list[Json]:
    """Make the cluster without its pending pods, which are returned."""
    await create_nodes(opened, unlike_nodes(nodes))
    services = [manifest(service) for service in distinct_pods.services(running + pods)]
    for body in services:
        body["spec"]["clusterIP"] = "None"  # the range of addresses of a server may be small
    names = sorted({body["metadata"]["namespace"] for body in services})
    namespaces: list[Json] = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names]
    await create(opened, "/api/v1/namespaces", namespaces)
    await create(opened, "/api/v1/namespaces/default/services", services)
    await create(opened, PODS, unlike_pods(0, running, nodes=nodes))
    return unlike_pods(running, pods)


class Watch:
    """Notes when pods got their nodes, and how long annotations took to arrive."""

    def __init__(self) -> None:
        self.bound: dict[bytes, float] = {}
        self.gone: dict[bytes, float] = {}
        self.lags: list[float] = []
        self.begun = asyncio.Event()

    async def run(self, opened: aiohttp.ClientSession) -> None:
        """Read until cancelled."""
        async with opened.get("/api/v1/pods?limit=1") as answer:
            since = (await answer.json())["metadata"]["resourceVersion"]
        rest = b""
        async with opened.get(f"/api/v1/pods?watch=true&resourceVersion={since}", timeout=None) as answer:
            self.begun.set()
            async for piece in answer.content.iter_any():
                now = time.time()
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    self._note(line, now)

    def _note(self, line: bytes, now: float) -> None:
        name = _NAME.search(line)
        if name is None:
            return
        if name[1].startswith(b"marked"):
            sent = _SENT.search(line)
            if sent is not None:
                self.lags.append((now - float(sent[1])) * 1000)
        elif line.startswith(_GONE):
            self.gone.setdefault(name[1], now)
        elif _NODE in line:
            self.bound.setdefault(name[1], now)


async def annotate(opened: aiohttp.ClientSession, rate: float = 20.0) -> None:
    """Change an annotation of one pod at a steady rate, until cancelled."""
    headers = {"Content-Type": "application/merge-patch+json"}
    while True:
        body = {"metadata": {"annotations": {_STAMP: repr(time.time())}}}
        async with opened.patch(f"{PODS}/marked-0", data=json.dumps(body), headers=headers) as answer:
            await answer.read()
        await asyncio.sleep(1 / rate)


def scheduler_of(
    server: Server | Foreign, directory: Path, profile: str | None = None, command: str | None = None
) -> Process:
    """Start reprieve's scheduler, or that of the command."""
    arguments = ["scheduler", "--kubeconfig", str(server.kubeconfig), "--no-leader-elect", "--port", "0", "-v", "0"]
    return Process(*arguments, log=directory / "scheduler.log", profile=profile, command=command)


async def measure(
    server: Server | Foreign,
    directory: Path,
    what: str,
    bodies: list[Json],
    profile: str | None = None,
    command: str | None = None,
) -> None:
    """Start a scheduler on everything that is there, and wait until all is bound."""
    async with session(server) as opened:
        groups = [body for body in bodies if body["kind"] == "PodGroup"]
        pods = [body for body in bodies if body["kind"] == "Pod"]
        if groups:
            await create_groups(opened, groups)
        await create(opened, PODS, pods)
        seen = Watch()
        tasks = [asyncio.create_task(seen.run(opened))]
        await seen.begun.wait()
        tasks.append(asyncio.create_task(annotate(opened)))
        served = server.cpu()
        began = time.time()
        scheduler = scheduler_of(server, directory, profile, command)
        ends = time.monotonic() + 60 + len(pods) / 20
        already, alone, both = 0, 0.0, 0.0
        while len(seen.bound) < len(pods):
            if not already and seen.bound:
                already, alone, both = len(seen.bound), scheduler.cpu(), scheduler.cpu() + server.cpu()
            if time.monotonic() > ends or scheduler.process.poll() is not None:
                scheduler.stop()
                raise SystemExit(f"{what}: {len(seen.bound)} of {len(pods)} bound; {scheduler.log.read_text()[-2000:]}")
            await asyncio.sleep(0.02)
        first, last = min(seen.bound.values()), max(seen.bound.values())
        starting = alone
        memory, most, cpu = scheduler.resident(), scheduler.resident("VmHWM"), scheduler.cpu()
        each = 1000 / max(len(pods) - already, 1)
        alone, both = (cpu - alone) * each, (cpu + server.cpu() - both) * each
        served = server.cpu() - served
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        scheduler.stop()
        lags = sorted(seen.lags) or [0.0]
        print(
            f"{what}: {rate(len(pods), last - first):.0f} binds/s, "
            f"{last - began:.1f} s since the start of the scheduler "
            f"({first - began:.1f} s to the first, {starting:.1f} s of CPU), "
            f"CPU scheduler {cpu:.1f} s server {served:.1f} s, "
            f"per bind {alone:.2f} ms of the scheduler and {both:.2f} ms of both, "
            f"memory {memory:.0f} MB (most {most:.0f}), watch lag p50 {lags[len(lags) // 2]:.0f} ms "
            f"p99 {lags[int(len(lags) * 0.99)]:.0f} ms",
            flush=True,
        )


def gpu_pod(name: str, group: str, gpus: int, node_name: str = "") -> Json:
    """A member of a gang that wants GPUs, and goes at once when it is deleted."""
    made = pod(name, group)
    made["spec"]["containers"][0]["resources"] = {"requests": {_GPU: str(gpus)}, "limits": {_GPU: str(gpus)}}
    made["spec"]["terminationGracePeriodSeconds"] = 0
    if node_name:
        made["spec"]["nodeName"] = node_name
    return made


def gang(name: str, size: int, priority_class: str) -> Json:
    """A PodGroup that is evicted as a whole."""
    policy = {"gang": {"minCount": size}}
    spec = {"schedulingPolicy": policy, "disruptionMode": {"all": {}}, "priorityClassName": priority_class}
    return {
        "apiVersion": INTERNAL_VERSION,
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": spec,
    }


async def measure_victims(
    server: Server | Foreign, directory: Path, victims: int, profile: str | None, command: str | None
) -> None:
    """Nodes full of gangs of eight, and one gang that wants all of them."""
    units = victims // _UNIT
    async with session(server) as opened:
        machines = [node(f"gpu-{i}") for i in range(units)]
        for machine in machines:
            for amounts in (machine["status"]["allocatable"], machine["status"]["capacity"]):
                amounts[_GPU] = str(_UNIT)
        await create_nodes(opened, machines)
        await create(opened, PRIORITIES, [priority("low", 0), priority("high", 1000)])
        await create_groups(opened, [gang(f"low{i}", _UNIT, "low") for i in range(units)])
        running = [gpu_pod(f"low{i}-{j}", f"low{i}", 1, f"gpu-{i}") for i in range(units) for j in range(_UNIT)]
        for made in running:
            made["spec"]["priorityClassName"] = "low"
        await create(opened, PODS, running)
        seen = Watch()
        task = asyncio.create_task(seen.run(opened))
        await seen.begun.wait()
        scheduler = scheduler_of(server, directory, profile, command)
        await create(opened, PODS, [pod("p-1000000")])  # what the scheduler does first
        await until(lambda: bool(seen.bound), scheduler, "the scheduler does nothing")
        before, served = scheduler.cpu(), server.cpu()
        began = time.time()
        await create_groups(opened, [gang("high", units, "high")])
        wanting = [gpu_pod(f"high-{i}", "high", _UNIT) for i in range(units)]
        for made in wanting:
            made["spec"]["priorityClassName"] = "high"
        await create(opened, PODS, wanting)
        await until(
            lambda: len(seen.gone) >= len(running) and sum(n.startswith(b"high") for n in seen.bound) >= units,
            scheduler,
            "the gang did not get its room",
        )
        first, last = min(seen.gone.values()), max(seen.gone.values())
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        cpu, served = scheduler.cpu() - before, server.cpu() - served
        scheduler.stop()
        print(
            f"{len(running)} victims in {units} gangs: {rate(len(running), last - first):.0f} evictions/s, "
            f"{first - began:.1f} s to the first, {max(seen.bound.values()) - began:.1f} s until the gang is bound, "
            f"CPU scheduler {cpu:.1f} s server {served:.1f} s",
            flush=True,
        )


def priority(name: str, value: int) -> Json:
    """A priority class."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


async def until(holds: Callable[[], bool], scheduler: Process, otherwise: str) -> None:
    """Wait for something that the watch tells; two minutes at most."""
    ends = time.monotonic() + 120
    while not holds():
        if time.monotonic() > ends or scheduler.process.poll() is not None:
            scheduler.stop()
            raise SystemExit(f"{otherwise}; {scheduler.log.read_text()[-2000:]}")
        await asyncio.sleep(0.02)


async def main() -> None:
    """Measure as the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=5000, help="single pods")
    parser.add_argument("--unlike", action="store_true", help="nodes of many shapes, no two pods alike")
    parser.add_argument("--running", type=int, help="with --unlike: pods that run (default: two for each node)")
    parser.add_argument("--gangs", type=int, help="gangs (default: 50, none with --unlike)")
    parser.add_argument("--size", type=int, default=_PODS_OF_GANG, help="pods of a gang")
    parser.add_argument("--victims", type=int, default=0, help="pods that one gang evicts (a multiple of 8)")
    parser.add_argument("--kubelets", action="store_true", help="with simulated kubelets: bound pods also start")
    parser.add_argument("--profile", metavar="FILE", help="profile the scheduler of the first part with cProfile")
    parser.add_argument("--kubeconfig", metavar="FILE", type=Path, help="of an API server that runs and is empty")
    parser.add_argument(
        "--server-pid", metavar="PID", type=int, help="the process of that API server, for its CPU time"
    )
    parser.add_argument("--command", help="another scheduler's program with its arguments")
    options = parser.parse_args()
    if options.kubeconfig is not None and options.kubelets:
        parser.error("--kubelets are those of reprieve's own API server: not with --kubeconfig")
    if options.kubelets and options.unlike:
        parser.error("--unlike brings its own nodes: not with --kubelets")
    if options.running is not None and not options.unlike:
        parser.error("--running belongs to --unlike")
    running = _RUNNING * options.nodes if options.running is None else options.running
    gangs = (0 if options.unlike else 50) if options.gangs is None else options.gangs
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        server: Server | Foreign
        if options.kubeconfig is not None:
            server = Foreign(options.kubeconfig, options.server_pid)
        else:
            server = Server(directory, kubelets=options.kubelets, nodes=options.nodes)
        try:
            bodies = [pod(f"p-{i}") for i in range(options.pods)]
            async with session(server) as opened:
                if options.unlike:
                    bodies = await create_unlike(opened, options.nodes, options.pods, running)
                elif not options.kubelets:
                    await create_nodes(opened, [node(f"node-{i}") for i in range(options.nodes)])
                marked = pod("marked-0")
                marked["spec"]["schedulerName"] = "nobody"
                await create(opened, PODS, [marked])
            if options.pods:
                what = f"{options.pods} unlike pods beside {running}" if options.unlike else f"{options.pods} pods"
                await measure(server, directory, what, bodies, options.profile, options.command)
            if gangs:
                bodies = []
                for number in range(gangs):
                    policy = {"gang": {"minCount": options.size}}
                    kind = {"apiVersion": INTERNAL_VERSION, "kind": "PodGroup"}
                    bodies.append({**kind, "metadata": {"name": f"g{number}"}, "spec": {"schedulingPolicy": policy}})
                    bodies += [pod(f"g{number}-{i}", f"g{number}") for i in range(options.size)]
                what = f"{gangs} gangs of {options.size}"
                await measure(server, directory, what, bodies, command=options.command)
            if options.victims:
                profile = None if options.pods else options.profile
                await measure_victims(server, directory, options.victims, profile, options.command)
        finally:
            for process in reversed(Process.started):
                process.stop()


if __name__ == "__main__":
    uvloop.run(main())
