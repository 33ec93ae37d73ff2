"""Manifests to typed objects: the supported kinds, one decode per object, one error with a field path.

Terms: a manifest is an object as plain data (from YAML) or as JSON text. A kind is identified by its name and group;
this module does not decode objects of other kinds.

Invariant: returned objects are converted to the internal version, defaulted and validated. JSON is decoded directly to
the typed object; only manifests with other versions, nulls or errors are decoded through plain data.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar, cast

import msgspec
from msgspec.structs import replace

from kube_rules import objects as o
from kube_rules.errors import FieldError, InputError, Origin, excerpt
from kube_rules.foreign_groups import FOREIGN
from kube_rules.group_owners import OWNER_KINDS
from kube_rules.json import text as text_of
from kube_rules.meta import KubernetesObject
from kube_rules.shared_parts import share, share_node
from kube_rules.typed_defaults import apply_defaults
from kube_rules.validation.typed import validate
from kube_rules.versions import INTERNAL_VERSION, VERSIONS_WITHOUT_POLICY, is_converted_kind, to_internal
from kube_rules.yamltext import MAX_DEPTH

KINDS: Final[Mapping[str, tuple[type[KubernetesObject], tuple[str, ...]]]] = {
    kind.KIND: (kind, (kind.API_VERSION, *more))
    for kind, more in (
        (o.Pod, ()),
        (o.Node, ()),
        (o.Namespace, ()),
        (o.Service, ()),
        (o.ReplicationController, ()),
        (o.ReplicaSet, ()),
        (o.StatefulSet, ()),
        (o.PriorityClass, ()),
        (o.RuntimeClass, ()),
        (o.PodDisruptionBudget, ()),
        (o.ResourceQuota, ()),
        (o.LimitRange, ()),
        (o.PodGroup, ()),
        (
            o.CompositePodGroup,
            ("scheduling.k8s.io/v1beta1", "scheduling.reprieve.dev/v1beta1", "scheduling.reprieve.dev/v1alpha3"),
        ),
        (o.Workload, ()),
        (o.PersistentVolume, ()),
        (o.PersistentVolumeClaim, ()),
        (o.StorageClass, ()),
        (o.CSINode, ()),
        (o.CSIDriver, ()),
        (o.VolumeAttachment, ()),
        (o.CSIStorageCapacity, ("storage.k8s.io/v1beta1",)),
        (o.ResourceClaim, ("resource.k8s.io/v1beta2",)),
        (o.ResourceClaimTemplate, ("resource.k8s.io/v1beta2",)),
        (o.ResourceSlice, ("resource.k8s.io/v1beta2",)),
        (o.DeviceClass, ("resource.k8s.io/v1beta2",)),
        (o.DeviceTaintRule, ("resource.k8s.io/v1beta2", "resource.k8s.io/v1alpha3")),
    )
}
"""Kind to its type and its readable apiVersions (Workload and PodGroup: see `versions.READABLE_VERSIONS`)."""

ObjectT = TypeVar("ObjectT", bound=KubernetesObject)


def kind_of(kind: str, api_version: str) -> type[KubernetesObject] | None:
    """Return the type of a kind; None if this module does not read it.

    Raises `FieldError` if the kind and group are known but the version is not, or either is missing.
    """
    if not kind:
        raise FieldError("kind", "Required value: must name the kind of the object")
    if not api_version:
        raise FieldError("apiVersion", "Required value: must name the version of the object")
    if is_converted_kind(kind, api_version):
        return KINDS[kind][0]
    entry = KINDS.get(kind)
    if entry is None:
        return None
    type_, versions = entry
    if api_version in versions:
        return type_
    if _group(api_version) != _group(versions[0]):
        return None
    raise FieldError("apiVersion", f'no kind "{kind}" is read in version "{excerpt(api_version)}": use {versions[0]}')


def decode_object(
    manifest: Mapping[str, Any], origin: Origin | None = None, *, stored: bool = False
) -> KubernetesObject:
    """Return the typed object of a manifest: converted, defaulted, validated. `admission` resolves priorities.

    `stored` skips validation of objects that an API server has already admitted. Raises `InputError` for a manifest of
    an unknown kind, of the wrong shape, or that violates a rule.
    """
    where = origin or Origin()
    kind, version = text_of(manifest.get("kind")), text_of(manifest.get("apiVersion"))
    try:
        type_ = kind_of(kind, version)
        if type_ is None:
            raise FieldError("kind", f'no kind "{excerpt(kind)}" is read in version "{excerpt(version)}"')
    except FieldError as error:
        raise InputError(where, error.message, path=error.path, subject=subject_of(manifest)) from None
    return finish(from_data(type_, manifest, where), where, stored=stored)


def from_data(kind: type[ObjectT], manifest: Mapping[str, Any], origin: Origin) -> ObjectT:
    """Return the typed object of plain data, converted to the internal version, not yet defaulted or validated."""
    try:
        if kind in _CONVERTED:
            version = manifest.get("apiVersion")
            manifest = to_internal(manifest)
            if kind is o.PodGroup and version in VERSIONS_WITHOUT_POLICY and isinstance(manifest.get("spec"), Mapping):
                manifest = {**manifest, "spec": {**manifest["spec"], "preemptionPolicy": o.NO_POLICY_FIELD}}
        try:
            return _with_empty_dirs(msgspec.convert(manifest, kind), manifest)
        except msgspec.ValidationError:
            cleaned = _without_nulls(manifest, 0)
        try:
            return _with_empty_dirs(msgspec.convert(cleaned, kind), cleaned)
        except msgspec.ValidationError as error:
            raise _type_error(str(error), cleaned) from None
    except FieldError as error:
        path = error.path
        if path.startswith(FOREIGN):  # fields that only another API's spec has
            path = f"spec{path.removeprefix(FOREIGN)}"
        raise InputError(origin, error.message, path=path, subject=subject_of(manifest)) from None
    except RecursionError:
        raise InputError(origin, f"nested deeper than {MAX_DEPTH} levels") from None


def from_json(kind: type[ObjectT], text: bytes | memoryview | msgspec.Raw, head: TypeMeta, origin: Origin) -> ObjectT:
    """Return the typed object of a JSON object. `head` is an argument because items of a typed list have none."""
    if kind not in _CONVERTED:
        try:
            result = cast(ObjectT, _DECODERS[kind].decode(text))
        except msgspec.ValidationError:
            pass  # nulls, or an error to be described below
        else:
            if not _may_lack_sources(result):
                if isinstance(result, o.Pod):
                    share(result)
                elif isinstance(result, o.Node):
                    share_node(result)
                return result
    manifest = plain_json(text, origin)
    return from_data(kind, {**manifest, "kind": head.kind, "apiVersion": head.api_version}, origin)


_SOURCES: Final = tuple(field for field in o.Volume.__struct_fields__ if field != "name")


def _lacks_source(volume: o.Volume) -> bool:
    """Return whether a volume has no source, or one that this module does not read."""
    return all(getattr(volume, source) is None for source in _SOURCES)


def _may_lack_sources(obj: KubernetesObject) -> bool:
    """Return whether this is a new pod with volumes that may be empty directories: only plain data shows it."""
    return isinstance(obj, o.Pod) and not obj.metadata.uid and any(map(_lacks_source, obj.spec.volumes))


def _with_empty_dirs(pod: ObjectT, manifest: Mapping[str, Any]) -> ObjectT:
    """Make volumes without a source of a new pod empty directories, the default of an API server.

    A pod with a UID already has its defaults; the source of a volume may have been dropped since.
    """
    if not isinstance(pod, o.Pod) or not _may_lack_sources(pod):
        return pod
    volumes = tuple(
        replace(volume, empty_dir=o.EmptyDirVolumeSource())
        if _lacks_source(volume) and all(value is None for key, value in plain.items() if key != "name")
        else volume
        for volume, plain in zip(pod.spec.volumes, manifest["spec"]["volumes"], strict=True)
    )
    return cast(ObjectT, replace(pod, spec=replace(pod.spec, volumes=volumes)))


def plain_json(text: bytes | memoryview | msgspec.Raw, origin: Origin) -> Any:
    """Return the plain data of JSON text. Raises `InputError` for invalid text."""
    try:
        return msgspec.json.decode(text)
    except RecursionError:
        raise InputError(origin, f"nested deeper than {MAX_DEPTH} levels") from None
    except msgspec.DecodeError as error:  # a number beyond the range of integers
        raise InputError(origin, f"invalid JSON: {error}") from None


def refuse_dense(text: bytes, origin: Origin) -> None:
    """Raise `InputError` for large JSON text with a huge number of tiny values.

    `yamltext.NodeBudget` does this for YAML; commas in texts count too, but manifests have few of them.
    """
    size = len(text)
    if size > _MAX_UNCOUNTED and text.count(b",") > size // _BYTES_PER_COMMA:
        raise InputError(origin, f"more than {size // _BYTES_PER_COMMA} values: too many for {size} bytes")


_MAX_UNCOUNTED: Final = 4 * 1024 * 1024
_BYTES_PER_COMMA: Final = 8


def finish(obj: ObjectT, origin: Origin, *, stored: bool = False, stored_groups: bool = False) -> ObjectT:
    """Return the object with defaults and, unless `stored`, validated (`stored_groups`: see `validation.validate`).

    Raises `InputError`, also for templates with too deep nesting.
    """
    try:
        obj = apply_defaults(obj)
    except RecursionError:
        raise InputError(origin, f"nested deeper than {MAX_DEPTH} levels", subject=name_of(obj)) from None
    if not stored:
        try:
            validate(obj, stored_groups=stored_groups)
        except FieldError as error:
            raise InputError(origin, error.message, path=error.path, subject=name_of(obj)) from None
    return obj


def name_of(obj: KubernetesObject) -> str:
    """Return the name of an object in messages: `Pod "default/web"`."""
    return f'{obj.KIND} "{obj.key or obj.metadata.generate_name}"'


def subject_of(manifest: Mapping[str, Any]) -> str:
    """Return the name of plain data of any shape in messages: `Pod "default/web"`; empty without a kind."""
    kind, meta = text_of(manifest.get("kind")), manifest.get("metadata")
    if not kind or not isinstance(meta, Mapping):
        return excerpt(kind)
    name = text_of(meta.get("name")) or text_of(meta.get("generateName"))
    namespace = text_of(meta.get("namespace"))
    return f'{excerpt(kind)} "{excerpt(namespace) + "/" if namespace else ""}{excerpt(name, 253)}"'


NO_ITEMS: Final = msgspec.Raw(b"[]")
"""`TypeMeta.items` of an object without items, compared by identity."""


class TypeMeta(msgspec.Struct, frozen=True, rename="camel"):
    """The fields that identify the type of a JSON object."""

    api_version: str = ""
    kind: str = ""
    items: msgspec.Raw = NO_ITEMS


TYPE_META: Final = msgspec.json.Decoder(TypeMeta)


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]


_CONVERTED: Final = frozenset(kind for kind, versions in KINDS.values() if versions[0] == INTERNAL_VERSION)
_DECODERS: Final = {kind: msgspec.json.Decoder(kind) for kind in (*(kind for kind, _ in KINDS.values()), *OWNER_KINDS)}


def _without_nulls(data: Any, depth: int) -> Any:
    """Return the data without null entries of maps: for an API server they are absent."""
    if depth > MAX_DEPTH:
        raise FieldError("", f"nested deeper than {MAX_DEPTH} levels")
    if isinstance(data, Mapping):
        return {key: _without_nulls(value, depth + 1) for key, value in data.items() if value is not None}
    if isinstance(data, list):
        return [_without_nulls(value, depth + 1) for value in data]
    return data


# --- field paths of type errors -----------------------------------------------------------------------------

_MISSING = re.compile(r"Object missing required field `(\w+)`")
_PLACE = re.compile(r" - at `(key|\$[^`]*)`(?: in `(\$[^`]*)`)?$")
_GOT = re.compile(r"got `(\w+)`")
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
_TYPE_NAMES: Final[Mapping[str, tuple[type[Any], ...]]] = {
    "null": (type(None),),
    "bool": (bool,),
    "int": (int,),
    "float": (float,),
    "str": (str,),
    "array": (list,),
    "object": (dict,),
}


def _type_error(message: str, manifest: Any) -> FieldError:
    """Return a decoder's message as an error with a Kubernetes field path and the value there."""
    place = _PLACE.search(message)
    if place is None:
        missing = _MISSING.fullmatch(message)
        return FieldError(missing.group(1), "Required value") if missing is not None else FieldError("", message)
    reason = message[: place.start()]
    type_match = _GOT.search(reason)
    wrong = _TYPE_NAMES.get(type_match.group(1), ()) if type_match else ()
    path, current = "", manifest
    for name, index in _STEP.findall(place.group(2) or place.group(1)):
        if name:
            path = f"{path}.{name}" if path else name
            current = current.get(name) if isinstance(current, Mapping) else None
        elif index != "...":
            path += f"[{index}]"
            current = current[int(index)] if isinstance(current, list) and int(index) < len(current) else None
        elif isinstance(current, Mapping):  # the decoder does not report the key: take the first that matches
            key = next((k for k, v in current.items() if type(v) in wrong), None)
            path += f"[{key}]"
            current = current.get(key)
    shown = "" if isinstance(current, Mapping | list) else f"{excerpt(msgspec.json.encode(current).decode(), 128)}: "
    return FieldError(path, f"Invalid value: {shown}{reason[:1].lower()}{reason[1:]}")
