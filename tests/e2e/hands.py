"""A user's hands on a cluster: kubectl where there is one, else the official Python client. Both do the same steps."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Protocol

import kubernetes

from tests.clients.cluster import kubectls
from tests.e2e.cluster import Json
from tests.waiting import DEADLINE

client: Any = kubernetes.client
config: Any = kubernetes.config


class Hands(Protocol):
    """What a user does to a cluster. Everything must succeed."""

    def apply(self, *manifests: Json) -> None:
        """Create objects, or bring them to the given state."""

    def delete(self, kind: str, *names: str) -> None:
        """Delete objects without waiting for them to be gone."""

    def scale(self, kind: str, name: str, replicas: int) -> None:
        """Set the number of pods."""

    def cordon(self, node: str, on: bool = True) -> None:
        """Keep new pods off a node, or let them on again."""

    def drain(self, node: str) -> None:
        """Cordon a node and evict what runs on it."""

    def describe(self, pod: str) -> str:
        """Return what is reported about a pod, its events among it."""


class Kubectl:
    """kubectl."""

    def __init__(self, binary: str, kubeconfig: Path, namespace: str, home: Path) -> None:
        self._command = [binary, f"--kubeconfig={kubeconfig}", f"--namespace={namespace}"]
        self._environment = {**os.environ, "HOME": str(home)}

    def run(self, *arguments: str, text: str | None = None) -> str:
        """Run one command and return what it prints."""
        command = [*self._command, *arguments]
        done = subprocess.run(command, input=text, capture_output=True, text=True, env=self._environment, check=False)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def apply(self, *manifests: Json) -> None:
        self.run("apply", "-f", "-", text="\n---\n".join(json.dumps(one) for one in manifests))

    def delete(self, kind: str, *names: str) -> None:
        self.run("delete", kind, *names, "--wait=false")

    def scale(self, kind: str, name: str, replicas: int) -> None:
        self.run("scale", kind, name, f"--replicas={replicas}")

    def cordon(self, node: str, on: bool = True) -> None:
        self.run("cordon" if on else "uncordon", node)

    def drain(self, node: str) -> None:
        self.run(
            "drain", node, "--force", "--ignore-daemonsets", "--delete-emptydir-data", f"--timeout={DEADLINE:.0f}s"
        )

    def describe(self, pod: str) -> str:
        return self.run("describe", "pod", pod)


class Library:
    """The official Python client."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        self._api = config.new_client_from_config(str(kubeconfig))
        self._core = client.CoreV1Api(self._api)
        self._namespace = namespace

    def _path(self, manifest: Json) -> str:
        plural = f"{manifest['kind'].lower()}s".replace("priorityclasss", "priorityclasses")
        version = manifest["apiVersion"]
        where = f"/namespaces/{self._namespace}" if manifest["kind"] != "PriorityClass" else ""
        base = f"/apis/{version}" if "/" in version else f"/api/{version}"
        return f"{base}{where}/{plural}/{manifest['metadata']['name']}"

    def _call(self, method: str, path: str, body: Json | None = None, content: str = "application/json") -> Any:
        asked = self._api.param_serialize(
            method,
            path,
            header_params={"Content-Type": content, "Accept": "application/json"},
            body=body,
            auth_settings=["BearerToken"],
        )
        answer = self._api.call_api(*asked)
        text = answer.read()
        assert answer.status < 300, text
        return json.loads(text)

    def apply(self, *manifests: Json) -> None:
        for manifest in manifests:
            path = f"{self._path(manifest)}?fieldManager=tests&force=true"
            self._call("PATCH", path, manifest, "application/apply-patch+yaml")

    def delete(self, kind: str, *names: str) -> None:
        known = {
            "pod": ("v1", "Pod"),
            "podgroup": ("scheduling.k8s.io/v1beta1", "PodGroup"),
            "job": ("batch/v1", "Job"),
        }
        version, name_of_kind = known[kind]
        for name in names:
            found = {"apiVersion": version, "kind": name_of_kind, "metadata": {"name": name}}
            self._call("DELETE", self._path(found), {"propagationPolicy": "Background"})

    def scale(self, kind: str, name: str, replicas: int) -> None:
        found = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}}
        body = {"spec": {"replicas": replicas}}
        self._call("PATCH", f"{self._path(found)}/scale", body, "application/merge-patch+json")

    def cordon(self, node: str, on: bool = True) -> None:
        self._core.patch_node(node, {"spec": {"unschedulable": on}})

    def drain(self, node: str) -> None:
        self.cordon(node)
        for pod in self._core.list_pod_for_all_namespaces(field_selector=f"spec.nodeName={node}").items:
            metadata = client.V1ObjectMeta(name=pod.metadata.name, namespace=pod.metadata.namespace)
            eviction = client.V1Eviction(metadata=metadata)
            self._core.create_namespaced_pod_eviction(pod.metadata.name, pod.metadata.namespace, eviction)

    def describe(self, pod: str) -> str:
        selector = f"involvedObject.name={pod}"
        events = self._core.list_namespaced_event(self._namespace, field_selector=selector).items
        return "\n".join(f"{event.type} {event.reason} {event.message}" for event in events)


def hands(kubeconfig: Path, namespace: str, home: Path) -> Hands:
    """The best there is on this machine."""
    found = kubectls()
    return Kubectl(found[-1], kubeconfig, namespace, home) if found else Library(kubeconfig, namespace)
