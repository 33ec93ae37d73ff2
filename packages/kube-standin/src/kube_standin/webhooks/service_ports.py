"""The ports behind services of the cluster, for webhooks that run on this machine.

Nothing in the cluster has an address: pods are simulated. A manager that a user runs on this machine listens on the
port in its manifests, so a Service without ``--webhook-service`` is called there, on the loopback address.
"""

from __future__ import annotations

from kube_rules.json import Json
from kube_standin.registry import ObjectRegistry
from kube_standin.webhooks.reach import WebhookCallError

_MOST_PODS = 1000


class RegistryServicePorts:
    """The ports of the Services and Pods of a registry."""

    def __init__(self, registry: ObjectRegistry) -> None:
        self._registry = registry

    def port_of(self, namespace: str, name: str, port: int) -> int:
        """Return the ``targetPort`` of a service's port: a number, or a named port of one of its pods.

        Raises WebhookCallError.
        """
        service = self._registry.find(self._registry.kind("v1", "Service"), namespace, name)
        if service is None:
            raise WebhookCallError(f'service "{name}" not found')
        spec = service.get("spec") or {}
        if spec.get("type") == "ExternalName":
            raise WebhookCallError(f'service "{namespace}/{name}" is an ExternalName; use --webhook-service')
        entry = next((candidate for candidate in spec.get("ports") or () if candidate.get("port") == port), None)
        if entry is None:
            raise WebhookCallError(f'no service port {port} found for service "{name}"')
        target = entry.get("targetPort") or port
        number = target if isinstance(target, int) else self._named(namespace, spec.get("selector") or {}, target)
        if number is None:
            raise WebhookCallError(
                f'no pod of service "{namespace}/{name}" has a port named {target}; use --webhook-service'
            )
        return number

    def _named(self, namespace: str, selector: Json, port: str) -> int | None:
        """Return a container port by name, from the first pods that a service selects."""
        if not selector:
            return None
        pods = self._registry.kind("v1", "Pod")
        for number, state in enumerate(self._registry.store.heads(pods.storage_key, namespace)):
            if number == _MOST_PODS:
                break
            if any(state.labels.get(key) != value for key, value in selector.items()):
                continue
            for container in state.decode()["spec"].get("containers") or ():
                for entry in container.get("ports") or ():
                    if entry.get("name") == port:
                        return int(entry["containerPort"])
        return None
