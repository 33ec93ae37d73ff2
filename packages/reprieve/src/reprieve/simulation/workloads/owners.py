"""Owners of the objects of an input, so that existing pods are not created again (whatif.md 1.2).

The controlling owner reference identifies the owner by kind, name and, if both sides have one, UID. A ReplicaSet
outside of the input is recognized by name as one of a Deployment in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from kube_rules.controllers.pods import POD_TEMPLATE_HASH
from kube_rules.json import mapping, text
from kube_rules.manifests import Manifests, PodMaker, UnknownObject
from kube_rules.meta import OwnerReference
from kube_rules.objects import Pod
from kube_rules.workloads import group_of

_DEEPEST: Final = 8

Owner = tuple[str, str, str, str]
"""(API group, kind, namespace, name)."""
PodKey = tuple[str, str]
"""(namespace, name)."""


class Owners:
    """Pods of the input by all their owners, and owned objects that create pods themselves."""

    def __init__(self, makers: Iterable[PodMaker], unknown: Iterable[UnknownObject] = (), pods: Iterable[Pod] = ()):
        self._above: dict[Owner, tuple[Owner, str]] = {}
        """Owned object -> its owner, and the UID in the reference."""
        self._uids: dict[Owner, str] = {}
        self._makers: dict[Owner, PodMaker] = {}
        self._below: dict[Owner, list[Owner]] = {}
        self._direct: dict[Owner, dict[PodKey, Pod]] = {}
        self._all: dict[Owner, dict[PodKey, Pod]] = {}
        self._listed: dict[PodKey, set[Owner]] = {}
        """Pod -> the owners that list it."""
        self._deployments_sets: dict[Owner, Owner] = {}
        """Deployment -> its ReplicaSet outside of the input, named in a pod's reference."""
        for maker in makers:
            self._makers.setdefault(object_id_of(maker.manifest), maker)
        for manifest in (*(item.manifest for item in self._makers.values()), *(item.manifest for item in unknown)):
            self._learn(manifest)
        for pod in pods:
            self.add_pod(pod)

    @classmethod
    def of(cls, manifests: Manifests) -> Owners:
        """Return the owners of an input."""
        return cls(manifests.pod_makers, manifests.unknown, (loaded.object for loaded in manifests.pods))

    def add_pod(self, pod: Pod) -> None:
        """Add a pod to all known owners above it."""
        reference = reference_of(pod)
        if reference is None:
            return
        owner = (group_of(reference.api_version), reference.kind, pod.namespace or "default", reference.name)
        self._list(self._direct, owner, pod)
        above, uid = owner, reference.uid
        deployment = deployment_of(pod)
        if deployment and owner not in self._uids:
            above, uid = (owner[0], "Deployment", owner[2], deployment), ""
            self._deployments_sets[above] = owner
            self._list(self._direct, above, pod)
        for item in self._chain((above, uid)):
            self._list(self._all, item, pod)

    def remove_pod(self, namespace: str, name: str) -> None:
        """Remove a deleted pod."""
        key = namespace or "default", name
        for owner in self._listed.pop(key, ()):
            for pods in (self._direct, self._all):
                pods.get(owner, {}).pop(key, None)

    def _list(self, pods: dict[Owner, dict[PodKey, Pod]], owner: Owner, pod: Pod) -> None:
        key = pod.namespace or "default", pod.name
        pods.setdefault(owner, {})[key] = pod
        self._listed.setdefault(key, set()).add(owner)

    def add(self, maker: PodMaker) -> None:
        """Add an object that creates pods, with its existing pods."""
        object_id = object_id_of(maker.manifest)
        is_known = object_id in self._makers
        self._makers[object_id] = maker
        if is_known:
            return
        self._learn(maker.manifest)
        below = (pod for item in self.owned(object_id) for pod in self.pods(item))
        existing_pods = [*self.direct(object_id, self._uids[object_id]), *below]
        for owner in self._chain((object_id, "")):
            for pod in existing_pods:
                self._list(self._all, owner, pod)

    def maker(self, owner: Owner) -> PodMaker | None:
        """Return the object that creates pods, if it is in the input."""
        return self._makers.get(owner)

    def owner(self, below: Owner) -> Owner | None:
        """Return the nearest owner that is in the input."""
        return next(iter(self._chain(self._above.get(below))), None)

    def owned(self, owner: Owner) -> list[Owner]:
        """Return the objects of the input directly below that create pods, in document order."""
        return [below for below in self._below.get(owner, ()) if self.owner(below) == owner]

    def pods(self, owner: Owner) -> list[Pod]:
        """Return all pods of an object of the input, direct and indirect."""
        return list(self._all.get(owner, {}).values())

    def direct(self, owner: Owner, uid: str = "") -> list[Pod]:
        """Return the pods with a controlling reference to the object, which may be outside of the input.

        `uid`: the object's UID, which a reference must have if it has one; a reference to a Deployment's ReplicaSet has
        none.
        """
        return [pod for pod in self._direct.get(owner, {}).values() if not uid or _may_be_of(pod, owner[1], uid)]

    def set_of(self, deployment: Owner) -> Owner | None:
        """Return a ReplicaSet outside of the input that pods name."""
        return self._deployments_sets.get(deployment)

    def _learn(self, manifest: Mapping[str, Any]) -> None:
        meta = mapping(manifest.get("metadata"))
        object_id = object_id_of(manifest)
        self._uids[object_id] = text(meta.get("uid"))
        references = meta.get("ownerReferences")
        for reference in references if isinstance(references, list) else ():
            if isinstance(reference, Mapping) and reference.get("controller") is True:
                version, kind, name = (text(reference.get(part)) for part in ("apiVersion", "kind", "name"))
                above = (group_of(version), kind, object_id[2], name)
                self._above[object_id] = (above, text(reference.get("uid")))
                self._below.setdefault(above, []).append(object_id)

    def _chain(self, above: tuple[Owner, str] | None) -> Iterator[Owner]:
        """Yield the owners in the input, from below; a reference with another UID refers to a deleted object."""
        for _ in range(_DEEPEST):
            if above is None:
                return
            owner, uid = above
            known_uid = self._uids.get(owner)
            if known_uid is None or (known_uid and uid and known_uid != uid):
                return
            yield owner
            above = self._above.get(owner)


def _may_be_of(pod: Pod, kind: str, uid: str) -> bool:
    """Return whether a pod's controlling reference to this kind has this UID or none."""
    reference = reference_of(pod)
    return reference is None or reference.kind != kind or reference.uid in ("", uid)


def is_active(pod: Pod) -> bool:
    """Return whether the pod counts for its controller: it has not ended and is not terminating."""
    return not pod.finished and not pod.terminating


def object_id_of(manifest: Mapping[str, Any]) -> Owner:
    """Return group, kind, namespace and name of an object."""
    meta = mapping(manifest.get("metadata"))
    group = group_of(text(manifest.get("apiVersion")))
    return group, text(manifest.get("kind")), namespace_of(meta), name_of_meta(meta)


def name_of_meta(meta: Mapping[str, Any]) -> str:
    """Return the name, or the name that an API server would generate from `generateName`."""
    name, generated = text(meta.get("name")), text(meta.get("generateName"))
    return name or (f"{generated[:248]}00000" if generated else "")


def namespace_of(meta: Mapping[str, Any]) -> str:
    """Return the namespace of an object."""
    return text(meta.get("namespace"))[:253] or "default"


def runtime_of(manifest: Mapping[str, Any], among: Iterable[UnknownObject]) -> UnknownObject | None:
    """Return the runtime with the pod templates that a TrainJob names (whatif.md 2.5)."""
    reference = mapping(mapping(manifest.get("spec")).get("runtimeRef"))
    kind, name = text(reference.get("kind")) or "ClusterTrainingRuntime", text(reference.get("name"))
    namespace = namespace_of(mapping(manifest.get("metadata")))
    for item in among:
        meta = mapping(item.manifest.get("metadata"))
        if (
            item.kind == kind
            and meta.get("name") == name
            and group_of(item.api_version) == "trainer.kubeflow.org"
            and (kind != "TrainingRuntime" or namespace_of(meta) == namespace)
        ):
            return item
    return None


def subject_of_maker(manifest: Mapping[str, Any]) -> str:
    """Return `Job "default/train"`, the name of a workload in messages."""
    meta = mapping(manifest.get("metadata"))
    name = meta.get("name") or meta.get("generateName") or ""
    return f'{text(manifest.get("kind"))} "{namespace_of(meta)}/{str(name)[:253]}"'


def whole_number(value: str, most: int) -> int | None:
    """Return the number in a text of ASCII digits; None for any other text, and for a number above `most`."""
    digits = value.lstrip("0") or value[:1]
    if not (digits.isascii() and digits.isdigit()) or len(digits) > len(str(most)):
        return None
    number = int(digits)
    return number if number <= most else None


def reference_of(pod: Pod) -> OwnerReference | None:
    """Return the controlling owner reference of a pod."""
    return next((reference for reference in pod.metadata.owner_references if reference.controller), None)


def deployment_of(pod: Pod) -> str:
    """Return the Deployment of a pod, from the name of its ReplicaSet; empty if there is none."""
    reference, label = reference_of(pod), pod.metadata.labels.get(POD_TEMPLATE_HASH)
    if reference is None or reference.kind != "ReplicaSet" or not label or not reference.name.endswith(f"-{label}"):
        return ""
    return str(reference.name).removesuffix(f"-{label}")
