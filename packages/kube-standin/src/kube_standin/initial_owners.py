"""Owners of loaded objects: references by UID are updated, and missing owners and templates are completed.

Terms: a *light* owner is one of a snapshot, without a pod template (`reprieve snapshot`).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from kube_rules.controllers.pods import CONTROLLER_REVISION_HASH, POD_TEMPLATE_HASH
from kube_rules.controllers.sets import replica_set_of
from kube_rules.decoding import subject_of
from kube_rules.errors import InputError, Origin
from kube_rules.json import Json
from kube_rules.validation.storage import NO_SOURCE
from kube_standin.kinds import ServedKind
from kube_standin.metadata import controller_of
from kube_standin.registry import ObjectRegistry

_TEMPLATED: Final = frozenset(("replicationcontrollers", "replicasets.apps", "statefulsets.apps"))
"""Kinds that a snapshot stores without their template."""
_OF_ONE_POD: Final = (CONTROLLER_REVISION_HASH, "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index")
_NOT_OF_TEMPLATES: Final = (
    "nodeName",
    "hostname",
    "subdomain",
    "priority",
    "preemptionPolicy",
    "schedulingGates",
    "serviceAccount",
    "ephemeralContainers",
)
_TEXTS: Final = frozenset(("labels", "annotations", "data", "stringData", "matchLabels"))
"""Maps with keys that users choose."""
_CONTROLLER_LABELS: Final = ("controller-uid", "batch.kubernetes.io/controller-uid")


@dataclass(eq=False)
class LoadedItem:
    """An object to load. `uid` is its new UID, `old_uid` its UID in the input.

    `numbers`: the objects of the input that need it, including itself if it is in the input.
    """

    kind: ServedKind
    namespace: str
    name: str
    manifest: Json
    origin: Origin
    uid: str = ""
    old_uid: str = ""
    created: str = ""
    deleted: bool = False
    status: Json | None = None
    numbers: list[int] = field(default_factory=list)

    @property
    def subject(self) -> str:
        """Return the name of the object in messages: `Pod "default/web"`."""
        return subject_of(self.manifest)

    @property
    def object_id(self) -> tuple[str, str, str, str]:
        """Return group, kind, namespace and name."""
        return self.kind.group, self.kind.kind, self.namespace, self.name


class _Uid(msgspec.Struct):
    uid: str = ""


class _UidMeta(msgspec.Struct):
    metadata: _Uid


_meta = msgspec.json.Decoder(_UidMeta).decode


class Lookup:
    """The objects that will exist, and their UIDs: those of the input and those of the store."""

    def __init__(self, registry: ObjectRegistry) -> None:
        self._registry = registry
        self._input: dict[tuple[str, str, str, str], LoadedItem] = {}
        self._new_uids: dict[str, str] = {}

    def add(self, item: LoadedItem) -> str | None:
        """Add an object; return the name of an existing object in its place, if any.

        Raises InputError for an object that is in the input twice.
        """
        if item.name:
            if (first := self._input.get(item.object_id)) is not None:
                raise InputError(
                    item.origin, f"appears twice in the input; first in {first.origin}", subject=item.subject
                )
            self._input[item.object_id] = item
        existing = self._registry.head(item.kind, item.namespace, item.name) if item.name else None
        item.uid = _meta(existing.raw).metadata.uid if existing is not None else self._registry.clock.uid()
        if item.old_uid:
            self._new_uids.setdefault(item.old_uid, item.uid)
        return item.subject if existing is not None else None

    def forget(self, item: LoadedItem) -> None:
        """Remove an object again."""
        self._input.pop(item.object_id, None)
        self._new_uids.pop(item.old_uid, None)

    def has(self, group: str, kind: str, namespace: str, name: str) -> bool:
        """Return whether such an object will exist."""
        return self._uid(group, kind, namespace, name) is not None

    def _uid(self, group: str, kind: str, namespace: str, name: str) -> str | None:
        item = self._input.get((group, kind, namespace, name))
        if item is not None:
            return item.uid
        row = self._row(group, kind)
        existing = self._registry.head(row, namespace, name) if row is not None else None
        return _meta(existing.raw).metadata.uid if existing is not None else None

    def kind(self, group: str, kind: str) -> ServedKind:
        """Return the row of a served kind; raises KeyError."""
        row = self._row(group, kind)
        if row is None:
            raise KeyError(f"{group} {kind}")
        return row

    def _row(self, group: str, kind: str) -> ServedKind | None:
        for version in self._registry.kinds.groups().get(group, ()):
            if (row := self._registry.kinds.of(f"{group}/{version}" if group else version, kind)) is not None:
                return row
        return None

    def relate(self, item: LoadedItem) -> bool:
        """Update references of an object to new UIDs; return whether it lost an owner that does not exist.

        An owner of an unserved kind is kept: it may exist.
        """
        manifest = item.manifest
        for name, value in manifest.items():
            if name != "metadata" and name not in _TEXTS:
                self._follow(value)
        metadata = manifest["metadata"]
        for labels in (metadata.get("labels"), _at(manifest, "spec", "template", "metadata", "labels")):
            self._follow_labels(labels)
        self._follow_labels(_at(manifest, "spec", "selector", "matchLabels"))
        references = metadata.get("ownerReferences")
        if not isinstance(references, list):
            return False  # decoding reports the error
        known_owners = []
        for reference in references:
            if not isinstance(reference, dict):
                return False
            version, kind, name = (str(reference.get(part) or "") for part in ("apiVersion", "kind", "name"))
            group = version.rpartition("/")[0]
            row = self._row(group, kind)
            uid = self._uid(group, kind, item.namespace if row is not None and row.namespaced else "", name)
            if uid is not None:
                reference["uid"] = uid
            if row is None or uid is not None:
                known_owners.append(reference)
        metadata["ownerReferences"] = known_owners
        return len(known_owners) < len(references)

    def _follow(self, value: Any) -> None:
        stack = [value]
        while stack:
            current = stack.pop()
            if isinstance(current, dict):
                uid = current.get("uid")
                if isinstance(uid, str) and uid in self._new_uids:
                    current["uid"] = self._new_uids[uid]
                stack += [inner for name, inner in current.items() if name not in _TEXTS]
            elif isinstance(current, list):
                stack += current

    def _follow_labels(self, labels: Any) -> None:
        if isinstance(labels, dict):
            for name in _CONTROLLER_LABELS:
                if isinstance(labels.get(name), str):
                    labels[name] = self._new_uids.get(labels[name], labels[name])


def _at(value: Any, *steps: str) -> Any:
    for step in steps:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def _owner_key(item: LoadedItem) -> tuple[str, str, str, str] | None:
    """Return the key of the controller of an object."""
    references = item.manifest["metadata"].get("ownerReferences")
    if not isinstance(references, list) or not all(isinstance(reference, dict) for reference in references):
        return None
    controller = controller_of(item.manifest)
    if controller is None:
        return None
    version, kind, name = (str(controller.get(part) or "") for part in ("apiVersion", "kind", "name"))
    return version.rpartition("/")[0], kind, item.namespace, name


def missing_replica_sets(items: Sequence[LoadedItem], lookup: Lookup) -> list[LoadedItem]:
    """Return the ReplicaSets of the input's Deployments that its pods name and it lacks, with the Deployment's
    template.

    Without them the Deployment would create its pods a second time.
    """
    deployments = {item.object_id: item for item in items if item.kind.resource == "deployments.apps"}
    replica_sets: dict[tuple[str, str, str, str], LoadedItem] = {}
    for pod in (item for item in items if item.kind.resource == "pods") if deployments else ():
        key = _owner_key(pod)
        if key is None or key[:2] != ("apps", "ReplicaSet") or key in replica_sets or lookup.has(*key):
            continue
        deployment = deployments.get(("apps", "Deployment", pod.namespace, key[3].rpartition("-")[0]))
        spec = deployment.manifest.get("spec") if deployment is not None else None
        template, selector = _at(spec, "template"), _at(spec, "selector")
        labels, digest = _at(template, "metadata", "labels"), _at(pod.manifest, "metadata", "labels", POD_TEMPLATE_HASH)
        if deployment is None or not all(isinstance(part, dict) for part in (template, selector, labels)) or not digest:
            continue
        owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": deployment.name, "controller": True, "uid": ""}
        replicas = 1 if (replicas := _at(spec, "replicas")) is None else replicas
        manifest = copy.deepcopy(replica_set_of(deployment.manifest, digest, replicas))
        manifest["metadata"] |= {
            "namespace": pod.namespace,
            "ownerReferences": [{**owner, "blockOwnerDeletion": True}],
        }
        replica_sets[key] = LoadedItem(
            lookup.kind("apps", "ReplicaSet"), pod.namespace, key[3], manifest, deployment.origin
        )
    return list(replica_sets.values())


def complete_light(item: LoadedItem) -> str:
    """Fill in required fields that a snapshot leaves out; return a description if the user should know of it."""
    spec = item.manifest.get("spec")
    if not isinstance(spec, dict):
        return ""
    match item.kind.resource:
        case "persistentvolumes" if not spec.keys() - set(NO_SOURCE):
            spec["hostPath"] = {"path": "/"}
            return f"a hostPath for {item.subject}"
        case "services" if spec.keys() == {"selector"}:
            spec["clusterIP"] = "None"
            return f"no address for {item.subject}"
        case "pods":
            for part in ("containers", "initContainers"):
                for container in spec.get(part) or () if isinstance(spec.get(part), list) else ():
                    mounts = container.get("volumeMounts") if isinstance(container, dict) else None
                    if isinstance(mounts, list):
                        container["volumeMounts"] = [mount for mount in mounts if mount]
            if spec.get("ephemeralContainers") in ([{}], []):
                del spec["ephemeralContainers"]
    return ""


def complete_templates(items: Sequence[LoadedItem]) -> set[LoadedItem]:
    """Give light owners the template of one of their pods; return the owners without pods in the input."""
    light = [
        item
        for item in items
        if item.kind.resource in _TEMPLATED
        and isinstance(item.manifest.get("spec"), dict)
        and "template" not in item.manifest["spec"]
    ]
    if not light:
        return set()
    pods: dict[tuple[str, str, str, str] | None, LoadedItem] = {}
    claims: dict[tuple[str, str], LoadedItem] = {}
    for item in items:
        if item.kind.resource == "pods":
            pods.setdefault(_owner_key(item), item)
        elif item.kind.resource == "persistentvolumeclaims":
            claims[item.namespace, item.name] = item
    return {owner for owner in light if not _take_template(owner, pods.get(owner.object_id), claims)}


def _take_template(owner: LoadedItem, pod: LoadedItem | None, claims: Mapping[tuple[str, str], LoadedItem]) -> bool:
    source = pod.manifest.get("spec") if pod is not None else None
    if pod is None or not isinstance(source, dict):
        return False
    labels = _at(pod.manifest, "metadata", "labels")
    own_labels = (
        {name: text for name, text in labels.items() if name not in _OF_ONE_POD} if isinstance(labels, dict) else {}
    )
    spec = copy.deepcopy({name: value for name, value in source.items() if name not in _NOT_OF_TEMPLATES})
    spec.pop("restartPolicy", None)
    own = owner.manifest["spec"]
    if owner.kind.kind == "StatefulSet":
        own.setdefault("serviceName", owner.name)
        claim_templates = []
        volumes = spec.get("volumes")
        for volume in list(volumes) if isinstance(volumes, list) else ():
            claim = claims.get((pod.namespace, str(_at(volume, "persistentVolumeClaim", "claimName"))))
            if claim is not None and claim.name == f"{_at(volume, 'name')}-{pod.name}":
                wanted = claim.manifest.get("spec")
                of = {name: wanted[name] for name in wanted if name != "volumeName"} if isinstance(wanted, dict) else {}
                claim_templates.append({"metadata": {"name": volume["name"]}, "spec": copy.deepcopy(of)})
                spec["volumes"].remove(volume)
        if claim_templates:
            own["volumeClaimTemplates"] = claim_templates
    own["template"] = {"metadata": {"labels": own_labels}, "spec": spec}
    return True
