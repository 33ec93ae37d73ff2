"""A real server process over TLS with controllers and kubelets, and a small scheduler, for tests of real clients."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kubernetes
import urllib3

from tests.waiting import DEADLINE
from tests.waiting import eventually as eventually

client: Any = kubernetes.client
"""The library as its users see it: its annotations make every field optional, so they are not used here."""
config: Any = kubernetes.config
Json = dict[str, Any]
PROGRAM = """
import asyncio, sys
from pathlib import Path
from kube_standin.kubelet import KubeletOptions
from kube_standin.server.control_plane import ServeOptions, serve
options = ServeOptions(
    data_dir=sys.argv[1],
    kubeconfig=Path(sys.argv[2]),
    controllers="*",
    kubelets=KubeletOptions(nodes=int(sys.argv[3]), start_seconds=0.1),
)
asyncio.run(serve(options, asyncio.Event()))
"""
_PLACES = ("/usr/bin", "/usr/local/bin", "/usr/lib/google-cloud-sdk/bin")


@functools.cache
def kubectls() -> list[str]:
    """Return every kubectl on the machine, one per version, the oldest first.

    Tests are collected by it: what it finds must not depend on how busy the machine is.
    """
    found: dict[tuple[int, ...], str] = {}
    candidates = [Path(place) for place in _PLACES]
    default = shutil.which("kubectl")
    paths = [Path(default)] if default else []
    for place in candidates:
        paths += sorted(place.glob("kubectl")) + sorted(place.glob("kubectl.1.*"))
    for path in paths:
        try:
            arguments = [str(path), "version", "--client"]
            answer = subprocess.run(arguments, capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            continue
        version = re.search(r"v(\d+)\.(\d+)\.(\d+)", answer.stdout)
        assert version, answer.stdout
        found.setdefault(tuple(map(int, version.groups())), str(path))
    return [found[version] for version in sorted(found)]


def has_account(core: Any, namespace: str) -> bool:
    """Whether pods of a namespace have an account to run as; it is made after the namespace."""
    return any(one.metadata.name == "default" for one in core.list_namespaced_service_account(namespace).items)


@dataclass(frozen=True)
class Cluster:
    """A running server: where its kubeconfig is, and clients for it."""

    kubeconfig: Path
    process: subprocess.Popen[bytes]

    def api(self) -> Any:
        """Return a fresh client of the official library."""
        return config.new_client_from_config(str(self.kubeconfig))


class Binder(threading.Thread):
    """The smallest scheduler: binds every pending pod to the node it asks for, else to the next one in turn."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(name="binder", daemon=True)
        self._core = client.CoreV1Api(cluster.api())
        self._ended = threading.Event()
        self._turn = 0

    def run(self) -> None:
        """Bind until stopped."""
        while not self._ended.is_set():
            try:
                for pod in self._core.list_pod_for_all_namespaces(field_selector="spec.nodeName=").items:
                    self._bind(pod)
            except (client.ApiException, OSError, urllib3.exceptions.HTTPError):
                if self._ended.is_set():
                    return
            self._ended.wait(0.05)

    def _bind(self, pod: Any) -> None:
        if pod.spec.scheduling_gates or pod.metadata.deletion_timestamp:
            return
        node = self._asked_for(pod) or self._next_node()
        if node is None:
            return
        target = client.V1ObjectReference(kind="Node", name=node)
        metadata = client.V1ObjectMeta(name=pod.metadata.name)
        body = client.V1Binding(metadata=metadata, target=target)
        try:
            self._core.create_namespaced_pod_binding(
                pod.metadata.name, pod.metadata.namespace, body, _preload_content=False
            ).read()
        except client.ApiException as error:
            if error.status not in (404, 409):
                raise

    @staticmethod
    def _asked_for(pod: Any) -> str | None:
        affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
        required = affinity and affinity.required_during_scheduling_ignored_during_execution
        for term in required.node_selector_terms if required else ():
            for field in term.match_fields or ():
                return str(field.values[0])
        return None

    def _next_node(self) -> str | None:
        nodes = [node.metadata.name for node in self._core.list_node().items if not node.spec.unschedulable]
        self._turn += 1
        return nodes[self._turn % len(nodes)] if nodes else None

    def stop(self) -> None:
        """Stop binding."""
        self._ended.set()
        self.join(DEADLINE)


@contextmanager
def running(directory: Path, *, nodes: int = 3) -> Iterator[Cluster]:
    """Start a server with nodes and a binder on the data of a directory; stop both at the end."""
    kubeconfig = directory / "kubeconfig"
    kubeconfig.unlink(missing_ok=True)
    arguments = [sys.executable, "-c", PROGRAM, str(directory / "data"), str(kubeconfig), str(nodes)]
    process = subprocess.Popen(arguments, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    cluster = Cluster(kubeconfig, process)
    try:

        def started() -> bool:
            assert process.poll() is None, "the server did not start"
            return kubeconfig.exists()

        def complete() -> bool:
            """Nodes are made ready, and namespaces given their account, after the server answers."""
            core = client.CoreV1Api(cluster.api())
            ready = [
                one.type == "Ready" and one.status == "True"
                for node in core.list_node().items
                for one in node.status.conditions or ()
            ]
            return sum(ready) == nodes and has_account(core, "default")

        eventually(started, "the kubeconfig")
        eventually(complete, "the nodes ready")
        binder = Binder(cluster)
        binder.start()
        try:
            yield cluster
        finally:
            binder.stop()
    finally:
        process.terminate()
        process.wait(DEADLINE)
