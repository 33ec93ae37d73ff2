"""A cluster as a document for `reprieve plan -f`: only the fields that a scheduler reads, with pseudonyms if requested.

Invariants: environment variables, finalizers, messages, data and other annotations never leave the cluster. An image is
a number that is the same for the pods that run it and the nodes that have it. A plan of the snapshot equals a plan of
the cluster. Objects keep their order. The tables of `shapes` list the fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from kube_rules import objects as o
from kube_rules.foreign_groups import FOREIGN, manifest_of
from kube_rules.json import Json
from kube_rules.meta import KubernetesObject
from kube_rules.versions import SCHEDULING_GROUP, from_internal
from reprieve.client.cluster_reader import without_void_classes
from reprieve.client.leaves import shaped_by, with_tag
from reprieve.client.plain_yaml import yaml_texts
from reprieve.client.pseudonyms import CLAIM, IMAGE, NAMESPACE, POD, UID, Names
from reprieve.client.shapes import METADATA, SHAPES, name_of

_OF_DEVICES: Final = (o.ResourceClaim, o.ResourceSlice, o.DeviceClass, o.DeviceTaintRule)
"""Omitted from anonymous snapshots: names in their attributes and CEL expressions cannot be replaced."""


def snapshot(objects: Sequence[KubernetesObject], *, anonymize: bool = False) -> tuple[list[Json], list[str]]:
    """Return the objects as manifests in their order, and remarks (`snapshot_items`)."""
    manifests, _, notes = snapshot_items(objects, anonymize=anonymize)
    return list(manifests), notes


def snapshot_items(
    objects: Sequence[KubernetesObject], *, anonymize: bool = False
) -> tuple[Iterator[Json], int, list[str]]:
    """Return the objects as manifests in their order, their number, and remarks.

    Manifests are created lazily: together those of a large cluster take more memory than its objects. Each has the
    version that is best to read; unknown fields are omitted, names replaced if requested.
    """
    included = [item for item in objects if not (anonymize and isinstance(item, _OF_DEVICES))]
    notes = []
    if len(included) < len(objects):
        notes.append(f"left out of an anonymised snapshot: {len(objects) - len(included)} objects of resource.k8s.io")
    included = without_void_classes(included)
    names = Names(anonymize=anonymize)
    names.images = frozenset(
        with_tag(container.image)
        for item in included
        if isinstance(item, o.Pod)
        for container in (*item.spec.containers, *item.spec.init_containers)
    )
    _note_generated_claims(included, names)
    if anonymize:
        for item in included:
            _manifest(type(item), msgspec.to_builtins(item), names)
    else:  # only images are replaced
        for tagged in names.images:
            names.name(IMAGE, tagged)
    names.freeze()
    return (_manifest(type(item), msgspec.to_builtins(item), names) for item in included), len(included), notes


def _note_generated_claims(objects: Sequence[KubernetesObject], names: Names) -> None:
    """Record the names of claims of ephemeral volumes: they must remain `<pod>-<volume>`."""
    for item in objects:
        if isinstance(item, o.Pod):
            for volume in item.spec.volumes:
                if volume.ephemeral is not None:
                    name = f"{item.name}-{volume.name}"
                    names.alias(CLAIM, name, (POD, item.name), ("podvolume", volume.name))


def _manifest(kind: type[KubernetesObject], data: Json, names: Names) -> Json:
    fields = shaped_by(SHAPES[kind], data, names)
    manifest = {"apiVersion": kind.API_VERSION, "kind": kind.KIND, "metadata": _metadata(kind, data, names), **fields}
    spec = fields.get("spec", {})
    if kind is o.Pod:
        _mount(spec)
    if FOREIGN in manifest:
        return manifest_of(manifest)
    if kind is o.PodGroup and spec.get("preemptionPolicy") == o.NO_POLICY_FIELD:
        return from_internal(manifest, f"{SCHEDULING_GROUP}/v1alpha2")  # the version without this field
    return manifest


def _mount(spec: Json) -> None:
    """Turn mounts with options for the node into mounts of a volume, as the API requires.

    New pods have no ephemeral containers, so their mounts become the first container's.
    """
    temporary = [mount for item in spec.pop("ephemeralContainers", ()) for mount in item.get("volumeMounts", ())]
    if temporary:
        spec["containers"][0].setdefault("volumeMounts", []).extend(temporary)
    number = 0
    for container in (*spec.get("initContainers", ()), *spec.get("containers", ())):
        mounts = [mount for mount in container.pop("volumeMounts", ()) if mount]
        for mount in mounts:
            number += 1
            mount |= {"name": f"mount-{number}", "mountPath": f"/mount-{number}"}
            spec.setdefault("volumes", []).append({"name": mount["name"], "downwardAPI": {}})
        if mounts:
            container["volumeMounts"] = mounts


def _metadata(kind: type[KubernetesObject], data: Json, names: Names) -> Json:
    meta = data.get("metadata", {})
    name = meta.get("name", "")
    metadata: Json = {"name": name_of(kind)(name, names)}
    if meta.get("namespace"):
        metadata["namespace"] = names.name(NAMESPACE, meta["namespace"])
    if meta.get("uid"):
        metadata["uid"] = names.name(UID, meta["uid"])
    metadata |= shaped_by(METADATA, meta, names)
    return metadata


def text_of(manifests: Iterable[Json], *, json: bool) -> str:
    """Return the manifests as one JSON List, or as a stream of YAML documents."""
    return "".join(texts_of(manifests, json=json))


def texts_of(manifests: Iterable[Json], *, json: bool) -> Iterator[str]:
    """Yield the text of manifests (`text_of`), one at a time: the text of a large cluster is never held as a whole."""
    return _json_texts(manifests) if json else yaml_texts(manifests)


def _json_texts(manifests: Iterable[Json]) -> Iterator[str]:
    yield '{\n "apiVersion": "v1",\n "kind": "List",\n "items": ['
    separator, end = "\n  ", "]\n}\n"
    for item in manifests:
        text = msgspec.json.format(msgspec.json.encode(item), indent=1).decode()
        yield separator + text.replace("\n", "\n  ")  # JSON strings have no line breaks
        separator, end = ",\n  ", "\n ]\n}\n"
    yield end
