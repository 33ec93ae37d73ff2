"""ConfigMaps and Secrets that pods refer to: the missing ones, and the pods that wait for them.

Rules: interfaces.md 7.7 and 7.8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from kube_rules.json import Json
from kube_standin.admission.pods import ROOT_CA
from kube_standin.controllers.reconciler import Context
from kube_standin.controllers.views import Key, ObjectView
from kube_standin.kubelet.images import Refusal
from kube_standin.kubelet.settings import IGNORE, MISSING_CONFIG

CONFIG_ERROR = "CreateContainerConfigError"
CONFIG_MAPS, SECRETS = "configmaps", "secrets"
_WORDS = {CONFIG_MAPS: ("configmap", "config key", "ConfigMap"), SECRETS: ("secret", "secret key", "Secret")}


class ConfigReference(NamedTuple):
    """A ConfigMap or Secret that must exist, with some keys, for a volume or a container."""

    resource: str
    name: str
    keys: tuple[str, ...]
    volume: str = ""
    container: str = ""


@dataclass
class MissingConfig:
    """The missing objects of a pod, and why its first volume and some containers have to wait."""

    volume: tuple[str, str] | None = None
    """The name of the volume, and why it cannot be set up."""
    containers: dict[str, str] = field(default_factory=dict)
    objects: set[tuple[str, Key]] = field(default_factory=set)
    """The objects that must be written: resource, and namespace with name."""

    def refusals(self) -> dict[str, Refusal]:
        """Return why containers cannot be created, by name."""
        return {name: Refusal(CONFIG_ERROR, why, f"Error: {why}") for name, why in self.containers.items()}


def references(spec: Json) -> Iterator[ConfigReference]:
    """Yield the references of a decoded pod spec's volumes and environments, except optional ones."""
    for volume in spec.get("volumes") or ():
        parts = [volume, *((volume.get("projected") or {}).get("sources") or ())]
        for part in parts:
            for resource, source in ((CONFIG_MAPS, part.get("configMap")), (SECRETS, part.get("secret"))):
                name = ((source or {}).get("name") or (source or {}).get("secretName")) if source else None
                if (
                    name and not source.get("optional") and name != ROOT_CA
                ):  # its controller may be off, and no container reads it
                    keys = tuple(item["key"] for item in source.get("items") or ())
                    yield ConfigReference(resource, name, keys, volume=volume["name"])
    for part in ("initContainers", "containers"):
        for container in spec.get(part) or ():
            yield from _of_environment(container)


def _of_environment(container: Json) -> Iterator[ConfigReference]:
    for source in container.get("envFrom") or ():
        for resource, chosen in ((CONFIG_MAPS, source.get("configMapRef")), (SECRETS, source.get("secretRef"))):
            if chosen and chosen.get("name") and not chosen.get("optional"):
                yield ConfigReference(resource, chosen["name"], (), container=container["name"])
    for variable in container.get("env") or ():
        origin = variable.get("valueFrom") or {}
        for resource, chosen in ((CONFIG_MAPS, origin.get("configMapKeyRef")), (SECRETS, origin.get("secretKeyRef"))):
            if chosen and chosen.get("name") and not chosen.get("optional"):
                yield ConfigReference(resource, chosen["name"], (chosen["key"],), container=container["name"])


class ConfigReferences:
    """The references of one server's pods; ``wake`` is called with the key of a pod when an awaited object changes."""

    def __init__(self, context: Context, wake: Callable[[Key], None]) -> None:
        self._context = context
        self._wake = wake
        self._pods: dict[tuple[str, Key], set[Key]] = {}
        """The pods that wait for each object."""
        self._awaited: dict[Key, set[tuple[str, Key]]] = {}
        self._listens = False

    def missing(self, pod: Json) -> MissingConfig:
        """Return what a pod lacks; nothing if the pod or its namespace ignores missing objects."""
        namespace = pod["metadata"]["namespace"]
        lacking = MissingConfig()
        for reference in references(pod.get("spec") or {}):
            why = self._why(reference, namespace)
            if not why:
                continue
            if not lacking.objects and self._ignored(pod["metadata"]):
                return lacking
            lacking.objects.add((reference.resource, (namespace, reference.name)))
            if reference.volume:
                lacking.volume = lacking.volume or (reference.volume, why)
            else:
                lacking.containers.setdefault(reference.container, why)
        return lacking

    def _why(self, reference: ConfigReference, namespace: str) -> str:
        word, key_word, kind = _WORDS[reference.resource]
        state = self._context.registry.store.head(reference.resource, namespace, reference.name)
        if state is None:
            return f'{word} "{reference.name}" not found'
        if not reference.keys:
            return ""
        body = state.decode()
        present = {*(body.get("data") or ()), *((body.get("binaryData") or ()) if reference.volume else ())}
        absent = next((key for key in reference.keys if key not in present), None)
        if absent is None:
            return ""
        if reference.volume:
            return f"references non-existent {key_word}: {absent}"
        return f"couldn't find key {absent} in {kind} {namespace}/{reference.name}"

    def _ignored(self, metadata: Json) -> bool:
        if (metadata.get("annotations") or {}).get(MISSING_CONFIG) == IGNORE:
            return True
        space = self._context.registry.store.head("namespaces", "", metadata["namespace"])
        return space is not None and (space.decode()["metadata"].get("annotations") or {}).get(MISSING_CONFIG) == IGNORE

    def await_objects(self, pod: Key, objects: set[tuple[str, Key]]) -> None:
        """Wake a pod when one of the objects is written."""
        self.forget(pod)
        if not self._listens:  # no source is needed before the first pod waits
            self._listens = True
            for resource in (CONFIG_MAPS, SECRETS):
                self._context.sources.of(resource, ObjectView).add_handler(partial(self._written, resource))
        self._awaited[pod] = set(objects)
        for item in objects:
            self._pods.setdefault(item, set()).add(pod)

    def forget(self, pod: Key) -> None:
        """Remove a pod from the waiting pods."""
        for item in self._awaited.pop(pod, ()):
            waiting = self._pods[item]
            waiting.discard(pod)
            if not waiting:
                del self._pods[item]

    def _written(self, resource: str, _: ObjectView | None, new: ObjectView | None) -> None:
        if new is None:
            return
        metadata = new.metadata
        for pod in sorted(self._pods.get((resource, (metadata.namespace, metadata.name)), ())):
            self._wake(pod)
