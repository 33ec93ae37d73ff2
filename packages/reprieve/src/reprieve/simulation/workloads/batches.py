"""What is made: a workload as an object that makes pods, and batches of pods of one template.

Invariant: what pods of a batch have in common is read and checked once; a name is given once.
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
"""Of all workloads of an input together (whatif.md 1.10)."""
LONGEST_BASE: Final = 58
"""Of a name that five characters are added to, as the API server cuts it."""


@dataclass(frozen=True, slots=True)
class PodWorkload:
    """An object that makes pods. `inner` and `outer`: where its fields stand in the object that the input has."""

    manifest: Mapping[str, Any]
    origin: Origin
    subject: str
    created: float
    object_id: Owner
    inner: str = ""
    outer: str = ""
    group: str = ""
    """The gang that everything it makes belongs to; made by an object above."""
    depth: int = 0
    dated: bool = True
    """Whether the input says when it was `created`."""

    @property
    def meta(self) -> Mapping[str, Any]:
        """Its metadata."""
        return mapping(self.manifest.get("metadata"))

    @property
    def spec(self) -> Mapping[str, Any]:
        """Its spec."""
        return mapping(self.manifest.get("spec"))

    @property
    def status(self) -> Mapping[str, Any]:
        """Its status."""
        return mapping(self.manifest.get("status"))

    @property
    def name(self) -> str:
        """Its name."""
        return self.object_id[3]

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return self.object_id[2]

    @property
    def uid(self) -> str:
        """Its UID; empty if it does not exist yet."""
        return text(self.meta.get("uid"))

    def place(self, path: str) -> str:
        """Return a path of its own as a path of the object that the input has."""
        if not self.outer:
            return path
        if not self.inner:
            return f"{self.outer}.{path}" if path else self.outer
        if path == self.inner or path.startswith(f"{self.inner}."):
            return self.outer + path[len(self.inner) :]
        return self.outer

    def error(self, path: str, message: str) -> InputError:
        """Return an error at a path of its own."""
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
    """Fields of the pods that are the object's, and where they stand in it."""

    def place(self, path: str) -> str:
        """Return where a field of the pods stands in the object that the input has."""
        own = self.inherited.get(path)
        return own if own is not None else f"{self.path}.{path}" if path else self.path

    def add(self, parts: PodParts) -> None:
        """Add one more pod; a name that ends in `-` is completed."""
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
        made = pod_of_template({**self.template, "spec": spec}, parts, owner)
        made["metadata"]["namespace"] = self.workload.namespace
        return {"apiVersion": "v1", "kind": "Pod", **made}


class PodNames:
    """Names of pods: those that are taken, and new ones."""

    def __init__(self) -> None:
        self._taken: set[tuple[str, str]] = set()
        self._next: dict[tuple[str, str], int] = {}
        self._made = 0

    def take(self, namespace: str, name: str) -> None:
        """A pod of this name is there."""
        self._taken.add((namespace or "default", name))

    def free(self, namespace: str, name: str) -> None:
        """It is there no more."""
        self._taken.discard((namespace or "default", name))

    def is_taken(self, namespace: str, name: str) -> bool:
        """Return whether a pod has this name."""
        return (namespace, name) in self._taken

    def made(self, workload: PodWorkload, name: str) -> str:
        """Return a name for one more pod; one that ends in `-` is completed. Raises InputError for one pod too many."""
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
    """Yield the pods of a batch; what they have in common is read and checked once, with the longest name."""
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
            one = longest if same == (longest.node, tuple(longest.claims.values())) else pod
            base = alike[same] = _read(batch, one, admission)
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
        found = finish(from_data(objects.Pod, batch.manifest(pod), workload.origin), workload.origin)
        return admission.resolve(found)
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
    """Return the controlling reference to an object."""
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
    """Return whether the spec of a pod says which group it belongs to."""
    return bool(spec.get("schedulingGroup"))
