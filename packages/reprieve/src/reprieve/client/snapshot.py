"""A cluster as a document that `reprieve plan -f` reads: only what a scheduler reads, names replaced if wanted.

Invariants: environment variables, finalizers, messages, data and annotations that no scheduler reads never leave; an
image is a number that is the same for the pods that run it and the nodes that have it. Planning the snapshot decides
what planning the cluster decides. Objects stay in their order. What leaves is listed in the tables of `shapes`.
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
"""Left out when names are replaced: names in their attributes and CEL expressions cannot be followed."""


def snapshot(objects: Sequence[KubernetesObject], *, anonymize: bool = False) -> tuple[list[Json], list[str]]:
    """Return the objects as manifests in their order, and what there is to say about it (`snapshot_items`)."""
    manifests, _, notes = snapshot_items(objects, anonymize=anonymize)
    return list(manifests), notes


def snapshot_items(
    objects: Sequence[KubernetesObject], *, anonymize: bool = False
) -> tuple[Iterator[Json], int, list[str]]:
    """Return the objects as manifests in their order, their number, and what there is to say about them.

    A manifest is made when it is asked for: together those of a large cluster take more memory than its objects. Each
    is of the version it is best read in; unknown fields are gone, names replaced if wanted.
    """
    kept = [item for item in objects if not (anonymize and isinstance(item, _OF_DEVICES))]
    notes = []
    if len(kept) < len(objects):
        notes.append(f"left out of an anonymised snapshot: {len(objects) - len(kept)} objects of resource.k8s.io")
    kept = without_void_classes(kept)
    names = Names(anonymize=anonymize)
    names.images = frozenset(
        with_tag(container.image)
        for item in kept
        if isinstance(item, o.Pod)
        for container in (*item.spec.containers, *item.spec.init_containers)
    )
    _note_generated_claims(kept, names)
    if anonymize:
        for item in kept:
            _manifest(type(item), msgspec.to_builtins(item), names)
    else:  # images alone are replaced
        for tagged in names.images:
            names.name(IMAGE, tagged)
    names.freeze()
    return (_manifest(type(item), msgspec.to_builtins(item), names) for item in kept), len(kept), notes


def _note_generated_claims(objects: Sequence[KubernetesObject], names: Names) -> None:
    """The claim of an ephemeral volume is found by its name, `<pod>-<volume>`: that has to stay so."""
    for item in objects:
        if isinstance(item, o.Pod):
            for volume in item.spec.volumes:
                if volume.ephemeral is not None:
                    name = f"{item.name}-{volume.name}"
                    names.alias(CLAIM, name, (POD, item.name), ("podvolume", volume.name))


def _manifest(kind: type[KubernetesObject], data: Json, names: Names) -> Json:
    fields = shaped_by(SHAPES[kind], data, names)
    made = {"apiVersion": kind.API_VERSION, "kind": kind.KIND, "metadata": _metadata(kind, data, names), **fields}
    spec = fields.get("spec", {})
    if kind is o.Pod:
        _mount(spec)
    if FOREIGN in made:
        return manifest_of(made)
    if kind is o.PodGroup and spec.get("preemptionPolicy") == o.NO_POLICY_FIELD:
        return from_internal(made, f"{SCHEDULING_GROUP}/v1alpha2")  # the version that has no such field
    return made


def _mount(spec: Json) -> None:
    """Let mounts with options for the node be mounts of a volume, as the API demands; ephemeral containers are none
    of a new pod, so theirs become the first container's.
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
    made: Json = {"name": name_of(kind)(name, names)}
    if meta.get("namespace"):
        made["namespace"] = names.name(NAMESPACE, meta["namespace"])
    if meta.get("uid"):
        made["uid"] = names.name(UID, meta["uid"])
    made |= shaped_by(METADATA, meta, names)
    return made


def text_of(manifests: Iterable[Json], *, json: bool) -> str:
    """Return the manifests as one JSON List, or as a stream of YAML documents."""
    return "".join(texts_of(manifests, json=json))


def texts_of(manifests: Iterable[Json], *, json: bool) -> Iterator[str]:
    """Yield the text of manifests (`text_of`) in pieces, one for each: a large cluster is never held as text."""
    return _json_texts(manifests) if json else yaml_texts(manifests)


def _json_texts(manifests: Iterable[Json]) -> Iterator[str]:
    yield '{\n "apiVersion": "v1",\n "kind": "List",\n "items": ['
    separator, end = "\n  ", "]\n}\n"
    for item in manifests:
        text = msgspec.json.format(msgspec.json.encode(item), indent=1).decode()
        yield separator + text.replace("\n", "\n  ")  # no string of JSON has a line break
        separator, end = ",\n  ", "\n ]\n}\n"
    yield end
