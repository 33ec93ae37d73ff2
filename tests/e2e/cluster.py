"""`reprieve up` as a user runs it: a real process, its API over TLS, and what can be read off it."""

from __future__ import annotations

import base64
import http.client
import json
import math
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import yaml

from tests import manifests
from tests.manifests import priority_class as priority_class
from tests.waiting import DEADLINE
from tests.waiting import eventually as eventually

Json = dict[str, Any]
T = TypeVar("T")
COMMAND = [sys.executable, "-m", "reprieve", "up"]
PODS = "/api/v1/namespaces/{namespace}/pods"
GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/{namespace}/podgroups"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
EVENTS = "/apis/events.k8s.io/v1/namespaces/{namespace}/events"
MERGE = "application/merge-patch+json"


class Api:
    """Requests with what a kubeconfig says, by standard means."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self.config: Json = yaml.safe_load(kubeconfig.read_text())
        cluster, user = self.config["clusters"][0]["cluster"], self.config["users"][0]["user"]
        self._server: str = cluster["server"]
        self._token: str = user["token"]
        ca = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._context = ssl.create_default_context(cadata=ca)

    def request(self, method: str, path: str, body: Json | None = None, content: str = "application/json") -> Any:
        """The answer; a refusal is a Status with its code."""
        request = urllib.request.Request(
            self._server + path,
            data=json.dumps(body).encode() if body is not None else None,
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": content},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, context=self._context, timeout=DEADLINE) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return json.load(error)

    def get(self, path: str) -> Any:
        return self.request("GET", path)

    def items(self, path: str) -> list[Json]:
        return list(self.get(path)["items"])

    def create(self, path: str, body: Json) -> Json:
        """Create an object; it must be taken."""
        answer = self.request("POST", path, body)
        assert answer.get("kind") != "Status", answer
        return dict(answer)

    def delete(self, path: str) -> Json:
        return dict(self.request("DELETE", path))

    def patch(self, path: str, body: Json) -> Json:
        """Change an object; the change must be taken."""
        answer = self.request("PATCH", path, body, MERGE)
        assert answer.get("kind") != "Status", answer
        return dict(answer)

    @contextmanager
    def history(self, path: str) -> Iterator[History]:
        """Everything that happens to the objects of a collection from now on, and how they are now."""
        found = self.get(path)
        server = urllib.parse.urlsplit(self._server)
        connection = http.client.HTTPSConnection(server.hostname or "", server.port, context=self._context)
        connection.connect()
        link: socket.socket = connection.sock
        query = urllib.parse.urlencode({"watch": "1", "resourceVersion": found["metadata"]["resourceVersion"]})
        connection.request("GET", f"{path}?{query}", headers={"Authorization": f"Bearer {self._token}"})
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        history = History(found["items"], answer)
        try:
            yield history
        finally:
            with suppress(OSError):  # the server may have ended first
                link.shutdown(socket.SHUT_RDWR)
            history.join(DEADLINE)
            answer.close()
            connection.close()
            assert not history.is_alive()

    # -- what tests ask again and again ----------------------------------------------------------------

    def pods(self, namespace: str = "default") -> dict[str, Json]:
        """Pods by name."""
        return {pod["metadata"]["name"]: pod for pod in self.items(PODS.format(namespace=namespace))}

    def pod(self, name: str, namespace: str = "default") -> Json | None:
        """A pod, or None."""
        found = self.get(f"{PODS.format(namespace=namespace)}/{name}")
        return None if found.get("kind") == "Status" else dict(found)

    def runs(self, *names: str, namespace: str = "default") -> bool:
        """Whether these pods run and do not terminate."""
        pods = self.pods(namespace)
        return all(name in pods and is_running(pods[name]) for name in names)

    def gone(self, *names: str, namespace: str = "default") -> bool:
        """Whether none of these pods is there."""
        return not set(names) & set(self.pods(namespace))

    def group(self, name: str, namespace: str = "default") -> Json | None:
        """A pod group, or None."""
        found = self.get(f"{GROUPS.format(namespace=namespace)}/{name}")
        return None if found.get("kind") == "Status" else dict(found)

    def events(self, reason: str, namespace: str = "default") -> list[Json]:
        """Events of a reason."""
        found = self.items(EVENTS.format(namespace=namespace))
        return [event for event in found if event.get("reason") == reason]


class History(threading.Thread):
    """All states of the objects of a collection, as a watch tells them: also those that pass between two looks.

    A poll sees what is there at that time; that something has been, if for a moment, only a watch can tell.
    """

    def __init__(self, items: list[Json], answer: http.client.HTTPResponse) -> None:
        super().__init__(name="history", daemon=True)
        self._answer = answer
        self._changed = threading.Condition()
        self._states: dict[str, list[Json]] = {one["metadata"]["uid"]: [one] for one in items}
        self._ended = ""
        self.start()

    def run(self) -> None:
        try:
            for line in self._answer:
                event = json.loads(line)
                assert event["type"] in ("ADDED", "MODIFIED", "DELETED"), event
                with self._changed:
                    self._states.setdefault(event["object"]["metadata"]["uid"], []).append(event["object"])
                    self._changed.notify_all()
            why = "ended by the server"
        except (AssertionError, OSError, ValueError, http.client.HTTPException) as error:
            why = repr(error)
        with self._changed:
            self._ended = why
            self._changed.notify_all()

    def seen(self, check: Callable[[Json], bool]) -> set[str]:
        """UIDs of the objects that were so at some time."""
        with self._changed:
            return {uid for uid, states in self._states.items() if any(map(check, states))}

    def until(self, check: Callable[[], T], what: str, seconds: float = DEADLINE) -> T:
        """Wait until `check`, asked after each change, returns something true and return it."""
        ends = time.monotonic() + seconds
        with self._changed:
            while not (found := check()):
                assert not self._ended, f"the watch has ended ({self._ended}) before {what}"
                left = ends - time.monotonic()
                assert left > 0, f"not within {seconds} s: {what}"
                self._changed.wait(left)
        return found


class Up:
    """A running `reprieve up`."""

    def __init__(self, process: subprocess.Popen[str], kubeconfig: Path, log: Path) -> None:
        self.process = process
        self.api = Api(kubeconfig)
        self.log = log
        [extension] = self.api.config["contexts"][0]["context"]["extensions"]
        assert extension["name"] == "reprieve.dev/scheduler"
        self.scheduler_url: str = extension["extension"]["url"]

    @property
    def kubeconfig(self) -> Path:
        return self.api.kubeconfig

    def children(self) -> list[int]:
        """Process ids of its children: the scheduler."""
        return children(self.process.pid)

    def workplace(self, namespace: str) -> str:
        """A new namespace; the path of its pods."""
        self.api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        return PODS.format(namespace=namespace)

    def heard(self, *objects: Json) -> None:
        """Return when the scheduler has heard of these objects as the API answered them.

        One that was killed hears again when the next one runs.

        It has a watch for each kind, and they run ahead of each other as they like: of a pod it may hear before it
        hears what was done to a node long before. What it has heard counts before all that it hears later, by
        whichever watch. What is gone cannot be asked for: make another object of its kind.
        """
        for one in objects:
            eventually(partial(self._is_heard, one), f"the scheduler hearing of {one['metadata']['name']}")

    def _is_heard(self, one: Json) -> bool:
        kind = one["kind"].lower()
        labels = {
            "group": one["apiVersion"].rpartition("/")[0],
            "resource": f"{kind}es" if kind.endswith("s") else f"{kind}s",
        }
        with suppress(OSError):  # while it is started again
            heard = self.metric("informer_store_resource_version", **labels)
            return heard >= int(one["metadata"]["resourceVersion"])
        return False

    def kill_scheduler(self) -> None:
        """kill -9 of the scheduler; another one runs afterwards."""
        [scheduler] = self.children()
        os.kill(scheduler, signal.SIGKILL)
        eventually(lambda: self.children() not in ([], [scheduler]), "another scheduler")

    @contextmanager
    def scheduler_stopped(self) -> Iterator[None]:
        """Let the scheduler hear of what is done meanwhile only afterwards, and of all of it at once."""
        [scheduler] = self.children()
        os.kill(scheduler, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(scheduler, signal.SIGCONT)

    def explained(self, kind: str, name: str, namespace: str, home: Path, output: str = "text") -> str:
        """What `reprieve explain` says, on one line."""
        where = ["-n", namespace, f"--kubeconfig={self.kubeconfig}", f"--output={output}"]
        command = [sys.executable, "-m", "reprieve", "explain", kind, name, *where]
        done = subprocess.run(command, capture_output=True, text=True, env=environment(home), check=False)
        assert done.returncode in (0, 1), done.stderr
        return " ".join(done.stdout.split())

    def metric(self, name: str, **labels: str) -> float:
        """The sum of all samples of a metric of the scheduler with these labels."""
        with urllib.request.urlopen(f"{self.scheduler_url}/metrics", timeout=DEADLINE) as answer:
            text = answer.read().decode()
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        total = 0.0
        for line in text.splitlines():
            sample, _, value = line.rpartition(" ")
            found, _, rest = sample.partition("{")
            if found == name and all(label in rest for label in wanted):
                total += float(value)
        return total


def children(pid: int) -> list[int]:
    """Process ids of the children of a process."""
    return [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def ended(pid: int) -> bool:
    """Whether a process has ended; one that only waits to be reaped has."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state == "Z"


@contextmanager
def up(directory: Path, *arguments: str, data_dir: str = ":memory:") -> Iterator[Up]:
    """A running cluster; it must end cleanly when told to."""
    log = directory / "up.log"
    with log.open("a") as errors:
        command = [*COMMAND, f"--data-dir={data_dir}", "--port=0", *arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        try:
            assert process.stdout is not None
            line = process.stdout.readline().strip()
            assert line.startswith("export KUBECONFIG="), log.read_text()
            yield Up(process, Path(line.partition("=")[2]), log)
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                assert process.wait(DEADLINE) == 0, log.read_text()
        finally:
            if process.poll() is None:
                process.kill()
            process.communicate()


def nodes_file(
    directory: Path, *names: str, cpu: str = "4", gpus: str = "", labels: dict[str, Json] | None = None
) -> Path:
    """A file with simulated nodes."""
    path = directory / "nodes.yaml"
    devices = {"nvidia.com/gpu": gpus} if gpus else {}
    nodes = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": (labels or {}).get(name, {})},
            "status": {"allocatable": {"cpu": cpu, "memory": "16Gi", "pods": "20", **devices}},
        }
        for name in names
    ]
    path.write_text(yaml.safe_dump_all(nodes))
    return path


def preemption_config(directory: Path, args: Json, **fields: Any) -> Path:
    """A configuration with these args of DefaultPreemption, and further fields."""
    path = directory / "config.yaml"
    profile = {"pluginConfig": [{"name": "DefaultPreemption", "args": args}]}
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    path.write_text(yaml.safe_dump({**kind, **fields, "profiles": [profile]}))
    return path


# -- manifests -----------------------------------------------------------------------------------------


def pod(
    name: str,
    *,
    cpu: str = "1",
    priority: str | None = None,
    group: str | None = None,
    node: str | None = None,
    selector: Json | None = None,
    stop: float | None = None,
    **metadata: Any,
) -> Json:
    """A pod; `node` is asked for by a selector, `stop` is how many seconds it takes to end, and is given."""
    spec: Json = {}
    if priority is not None:
        spec["priorityClassName"] = priority
    if node is not None or selector is not None:
        spec["nodeSelector"] = {**(selector or {}), **({"kubernetes.io/hostname": node} if node else {})}
    if stop is not None:
        metadata["annotations"] = {"reprieve.dev/stop-seconds": str(stop)}
        spec["terminationGracePeriodSeconds"] = max(30, math.ceil(stop))
    return manifests.pod(name, cpu, group=group or "", meta=metadata, **spec)


def pod_group(name: str, count: int, *, priority: str | None = None, mode: str | None = None, **spec: Any) -> Json:
    if priority is not None:
        spec["priorityClassName"] = priority
    if mode is not None:
        spec["disruptionMode"] = {mode: {}}
    return manifests.gang(name, count, **spec)


# -- reading objects -----------------------------------------------------------------------------------


def condition(obj: Json, kind: str) -> Json:
    """A condition of an object; an empty one if it is not there."""
    found = (obj.get("status") or {}).get("conditions") or ()
    return next((one for one in found if one["type"] == kind), {})


def is_running(pod: Json) -> bool:
    return pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]


def is_preempted(pod: Json) -> bool:
    found = condition(pod, "DisruptionTarget")
    return (found.get("status"), found.get("reason")) == ("True", "PreemptionByScheduler")


def is_leaving(pod: Json) -> bool:
    return is_preempted(pod) and "deletionTimestamp" in pod["metadata"]


def environment(home: Path) -> dict[str, str]:
    """A user's environment with a home of its own."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("XDG_", "KUBE"))}
    return {**kept, "HOME": str(home)}
