"""Created pods: a workload as an object that creates pods, and batches of pods of one template.

Invariant: the common parts of a batch are read and checked once; names are unique.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec.structs import replace

from kube_rules import objects
from kube_rules.admission import PriorityAdmission
from kube_rules.controllers.pods import PodParts, pod_of_template
from kube_rules.decoding import finish, from_data
from kube_rules.errors import FieldError, InputError, Origin
from kube_rules.json import mapping, text
from kube_rules.manifests import PodMaker
from kube_rules.meta import ObjectMeta, OwnerReference
from reprieve.simulation.workloads.owners import Owner, name_of_meta, object_id_of, subject_of_maker

MOST_PODS: Final = 100_000
"""The maximum number of pods of all workloads of an input (whatif.md 1.10)."""
LONGEST_BASE: Final = 58
"""The maximum length of a name before five generated characters, as in the API server."""


@dataclass(frozen=True, slots=True)
class PodWorkload:
    """An object that creates pods. `inner` and `outer`: the paths of its fields in the object of the input."""

    manifest: Mapping[str, Any]
    origin: Origin
    subject: str
    created: float
    object_id: Owner
    inner: str = ""
    outer: str = ""
    group: str = ""
    """The gang of everything that it creates, from an object above."""
    depth: int = 0
    dated: bool = True
    """Whether the input states its creation time."""

    @property
    def meta(self) -> Mapping[str, Any]:
        """Return its metadata."""
        return mapping(self.manifest.get("metadata"))

    @property
    def spec(self) -> Mapping[str, Any]:
        """Return its spec."""
        return mapping(self.manifest.get("spec"))

    @property
    def status(self) -> Mapping[str, Any]:
        """Return its status."""
        return mapping(self.manifest.get("status"))

    @property
    def name(self) -> str:
        """Return its name."""
        return self.object_id[3]

    @property
    def namespace(self) -> str:
        """Return its namespace."""
        return self.object_id[2]

    @property
    def uid(self) -> str:
        """Return its UID; empty if it does not exist yet."""
        return text(self.meta.get("uid"))

    def place(self, path: str) -> str:
        """Return a path in the object as a path in the object of the input."""
        if not self.outer:
            return path
        if not self.inner:
            return f"{self.outer}.{path}" if path else self.outer
        if path == self.inner or path.startswith(f"{self.inner}."):
            return self.outer + path[len(self.inner) :]
        return self.outer

    def error(self, path: str, message: str) -> InputError:
        """Return an error at a path in the object."""
        return InputError(self.origin, message, path=self.place(path), subject=self.subject)


@dataclass(slots=True)
class Batch:
    """Pods of one template."""

    workload: PodWorkload
    template: Mapping[str, Any]
    path: str
    owner: OwnerReference
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    tolerations: Sequence[Any] | None
    group: str
    names: PodNames
    pods: list[PodParts] = field(default_factory=list)
    inherited: Mapping[str, str] = field(default_factory=dict)
    """Fields of the pods that come from the object, and their paths in it."""

    def place(self, path: str) -> str:
        """Return the path of a field of the pods in the object of the input."""
        own = self.inherited.get(path)
        return own if own is not None else f"{self.path}.{path}" if path else self.path

    def add(self, parts: PodParts) -> None:
        """Add a pod; a name that ends in `-` is completed."""
        self.pods.append(parts._replace(name=self.names.made(self.workload, parts.name)))

    def manifest(self, pod: PodParts) -> dict[str, Any]:
        """Return the pod as plain data."""
        spec = dict(mapping(self.template.get("spec")))
        if self.tolerations is not None:
            spec["tolerations"] = list(self.tolerations)
        if self.group and not names_group(spec):
            spec["schedulingGroup"] = {"podGroupName": self.group}
        owner: dict[str, Any] = {
            "apiVersion": self.owner.api_version,
            "kind": self.owner.kind,
            "name": self.owner.name,
            **({"uid": self.owner.uid} if self.owner.uid else {}),
            "controller": True,
            "blockOwnerDeletion": True,
        }
        labels, annotations = {**self.labels, **pod.labels}, {**self.annotations, **pod.annotations}
        parts = pod._replace(labels=labels, annotations=annotations)
        pod_manifest = pod_of_template({**self.template, "spec": spec}, parts, owner)
        pod_manifest["metadata"]["namespace"] = self.workload.namespace
        return {"apiVersion": "v1", "kind": "Pod", **pod_manifest}


class PodNames:
    """Used and new names of pods."""

    def __init__(self) -> None:
        self._taken: set[tuple[str, str]] = set()
        self._next: dict[tuple[str, str], int] = {}
        self._made = 0

    def take(self, namespace: str, name: str) -> None:
        """Mark a name as used."""
        self._taken.add((namespace or "default", name))

    def free(self, namespace: str, name: str) -> None:
        """Mark a name as unused."""
        self._taken.discard((namespace or "default", name))

    def is_taken(self, namespace: str, name: str) -> bool:
        """Return whether a pod has this name."""
        return (namespace, name) in self._taken

    def made(self, workload: PodWorkload, name: str) -> str:
        """Return the name of a new pod; one that ends in `-` is completed. Raises InputError for too many pods."""
        self._made += 1
        if self._made > MOST_PODS:
            raise InputError(workload.origin, f"more than {MOST_PODS} pods would be created", subject=workload.subject)
        namespace = workload.namespace
        if name.endswith("-"):
            base = name[:LONGEST_BASE]
            number = self._next.get((namespace, base), 0)
            while self.is_taken(namespace, f"{base}{number:05d}"):
                number += 1
            self._next[namespace, base] = number + 1
            name = f"{base}{number:05d}"
        self._taken.add((namespace, name))
        return name


def typed(batch: Batch, admission: PriorityAdmission) -> Iterator[objects.Pod]:
    """Yield the pods of a batch; the common parts are read and checked once, with the longest name."""
    if not batch.pods:
        return
    workload = batch.workload
    longest = max(batch.pods, key=lambda pod: len(pod.name))
    alike: dict[tuple[str, tuple[str, ...]], objects.Pod] = {}
    meta = mapping(batch.template.get("metadata"))
    labels = {**mapping(meta.get("labels")), **batch.labels}
    annotations = {**mapping(meta.get("annotations")), **batch.annotations}
    for pod in batch.pods:
        same = (pod.node, tuple(pod.claims.values()))
        base = alike.get(same)
        if base is None:
            model = longest if same == (longest.node, tuple(longest.claims.values())) else pod
            base = alike[same] = _read(batch, model, admission)
        yield replace(
            base,
            metadata=ObjectMeta(
                name=pod.name,
                namespace=workload.namespace,
                labels={**labels, **pod.labels},
                annotations={**annotations, **pod.annotations},
                owner_references=(batch.owner,),
            ),
        )


def _read(batch: Batch, pod: PodParts, admission: PriorityAdmission) -> objects.Pod:
    workload = batch.workload
    try:
        pod_object = finish(from_data(objects.Pod, batch.manifest(pod), workload.origin), workload.origin)
        return admission.resolve(pod_object)
    except (InputError, FieldError) as error:
        raise workload.error(batch.place(error.path), error.message) from None


def workload_of(maker: PodMaker, *, group: str = "", depth: int = 0) -> PodWorkload:
    """Return the object of the input as a workload."""
    manifest = maker.manifest
    subject = subject_of_maker(manifest)
    object_id = object_id_of(manifest)
    return PodWorkload(
        manifest, maker.origin, subject, maker.created, object_id, group=group, depth=depth, dated=maker.dated
    )


def reference_to(manifest: Mapping[str, Any]) -> OwnerReference:
    """Return a controlling owner reference to an object."""
    meta = mapping(manifest.get("metadata"))
    return OwnerReference(
        api_version=text(manifest.get("apiVersion")),
        kind=text(manifest.get("kind")),
        name=name_of_meta(meta),
        uid=text(meta.get("uid")),
        controller=True,
        block_owner_deletion=True,
    )


def names_group(spec: Mapping[str, Any]) -> bool:
    """Return whether the spec of a pod names its group."""
    return bool(spec.get("schedulingGroup"))
