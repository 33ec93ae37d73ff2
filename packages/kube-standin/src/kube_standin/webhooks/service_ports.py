"""Find the port behind a service of the cluster, for webhooks that run on this machine.

Nothing in the cluster has an address here: pods are simulated. A manager that a person starts on the machine listens on
the port that its manifests name, so a Service without ``--webhook-service`` is called there, on the loopback address.
"""

from __future__ import annotations

from kube_rules.json import Json
from kube_standin.registry import ObjectRegistry
from kube_standin.webhooks.reach import WebhookCallError

_MOST_PODS = 1000


class RegistryServicePorts:
    """Ports by the Services and Pods of a registry."""

    def __init__(self, registry: ObjectRegistry) -> None:
        self._registry = registry

    def port_of(self, namespace: str, name: str, port: int) -> int:
        """Return the ``targetPort`` of a service's port: a number, or by its name in a pod of the service.

        Raises WebhookCallError.
        """
        service = self._registry.find(self._registry.kind("v1", "Service"), namespace, name)
        if service is None:
            raise WebhookCallError(f'service "{name}" not found')
        spec = service.get("spec") or {}
        if spec.get("type") == "ExternalName":
            raise WebhookCallError(f'service "{namespace}/{name}" is an ExternalName; use --webhook-service')
        entry = next((one for one in spec.get("ports") or () if one.get("port") == port), None)
        if entry is None:
            raise WebhookCallError(f'no service port {port} found for service "{name}"')
        target = entry.get("targetPort") or port
        found = target if isinstance(target, int) else self._named(namespace, spec.get("selector") or {}, target)
        if found is None:
            raise WebhookCallError(
                f'no pod of service "{namespace}/{name}" has a port named {target}; use --webhook-service'
            )
        return found

    def _named(self, namespace: str, selector: Json, port: str) -> int | None:
        """Return a container port by name, of the first pods that a service selects."""
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
