"""Validation of manifests as plain data: workloads, and kinds with only part of the fields in their typed form.

`validation.typed` checks objects with all the fields that their rules read. For these kinds the manifest itself is
decoded, defaulted and checked as an API server does (whatif.md 2.9).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from kube_rules.decoding import subject_of
from kube_rules.defaults import apply_defaults
from kube_rules.errors import FieldError, InputError, Origin
from kube_rules.json import Json, mapping
from kube_rules.manifests import Remark
from kube_rules.schema import nodes
from kube_rules.schema.decoding import decoded
from kube_rules.schema.definitions import SAME_SCHEMA, definition_names
from kube_rules.validation import names, validate_create
from kube_rules.validation.typed import TypedKind, is_needed
from kube_rules.workloads import makes_pods

_STORED: Final = ("uid", "resourceVersion", "creationTimestamp")
"""Metadata fields that only a server sets."""
_MOST_MISSING: Final = 5
_OF_SELECTOR: Final = ("spec.selector", "spec.template.metadata.labels")
"""Fields that cannot match each other without a selector or without labels."""


_SOURCE: Final = ("PersistentVolume", "spec")
"""Where the missing source of a volume is reported; a plan reads only some sources."""


class ManifestErrors(NamedTuple):
    """The refusal of a manifest by an API server: missing required fields, as in a draft, and other errors."""

    missing: list[FieldError]
    wrong: list[FieldError]


def errors_of_manifest(api_version: str, kind: str, manifest: Mapping[str, Any], *, namespaced: bool) -> ManifestErrors:
    """Return the errors for which an API server would refuse to create an object; none without a packed schema.

    Objects of a cluster are not checked, nor workloads without their template: a server has accepted them, and a light
    snapshot keeps only their selectors. Fields that a plan does not need are ignored, as for typed objects. A value of
    a wrong type is the only error of its object.
    """
    rest = _besides_names(manifest) if (api_version, kind) == _SERVICE else ""
    if rest in _valid_services:
        return ManifestErrors([], [])
    result = _errors_of_rules(api_version, kind, manifest, namespaced=namespaced)
    if rest and not (result.missing or result.wrong):
        if len(_valid_services) >= _MOST_SERVICES:
            _valid_services.clear()
        _valid_services.add(rest)
    return result


_SERVICE: Final = ("v1", "Service")
_MOST_SERVICES: Final = 1024
_LONGEST_SERVICE: Final = 4096
_valid_services: set[str] = set()
"""The content of valid Services without names, labels and selectors: a cluster has many with few forms."""


def _besides_names(service: Mapping[str, Any]) -> str:
    """Return a Service without names, labels and selector if these are valid; otherwise ""."""
    meta, spec = service.get("metadata"), service.get("spec")
    if not isinstance(meta, Mapping) or not isinstance(spec, Mapping):
        return ""
    if not meta.keys() <= {"name", "namespace", "labels", "annotations"} or meta.get("annotations"):
        return ""
    for text in (meta.get("name", ""), meta.get("namespace", "default")):
        if not isinstance(text, str) or names.dns_label(text):
            return ""
    if not spec.get("selector") or not _are_labels(spec["selector"]) or not _are_labels(meta.get("labels", {})):
        return ""
    rest = repr({**service, "metadata": None, "spec": {**spec, "selector": None}})
    return rest if len(rest) <= _LONGEST_SERVICE else ""


def _are_labels(labels: object) -> bool:
    return isinstance(labels, Mapping) and all(
        isinstance(key, str)
        and isinstance(mapping_, str)
        and not names.qualified(key)
        and not names.label_value(mapping_)
        for key, mapping_ in labels.items()
    )


def _errors_of_rules(api_version: str, kind: str, manifest: Mapping[str, Any], *, namespaced: bool) -> ManifestErrors:
    result = ManifestErrors([], [])
    place = (SAME_SCHEMA.get(api_version, api_version), kind)
    name = definition_names().get(place)
    meta, spec = manifest.get("metadata"), mapping(manifest.get("spec"))
    if name is None or not isinstance(meta, Mapping) or any(meta.get(field) is not None for field in _STORED):
        return result
    group = place[0].rpartition("/")[0]
    if makes_pods(api_version, kind) and "template" not in spec and "jobTemplate" not in spec:
        return result
    plain: Json = msgspec.to_builtins(manifest)
    obj, _, problems = decoded(nodes.named(name), kind, plain)
    if problems:
        result.wrong.append(FieldError(problems[0].path, f"Invalid value: {problems[0].message}"))
        return result
    typed = TypedKind(group, kind, namespaced)
    identity = obj["metadata"] = dict(obj.get("metadata") or {})
    if not identity.get("name") and identity.get("generateName"):
        identity["name"] = f"{identity['generateName']}0"
    if namespaced:
        identity.setdefault("namespace", "default")
    apply_defaults(typed, obj)
    template = mapping(spec.get("template"))
    draft = "selector" not in spec or not mapping(template.get("metadata")).get("labels")
    for error in validate_create(typed, obj):
        if is_needed(error) and (kind, error.path) != _SOURCE:
            absent = error.reason == "FieldValueRequired" or (draft and error.path.startswith(_OF_SELECTOR))
            (result.missing if absent else result.wrong).append(error)
    return result


def remark_on(
    api_version: str, kind: str, manifest: Mapping[str, Any], origin: Origin, *, namespaced: bool
) -> Remark | None:
    """Return the remark about a draft without required fields, None for a complete manifest.

    Raises InputError for a manifest that an API server refuses for another reason (whatif.md 1.12).
    """
    errors = errors_of_manifest(api_version, kind, manifest, namespaced=namespaced)
    if not (errors.wrong or errors.missing):
        return None
    meta = manifest.get("metadata")
    placed = {"namespace": "default", **meta} if namespaced and isinstance(meta, Mapping) else meta
    subject = subject_of({"kind": kind, "metadata": placed})
    if errors.wrong:
        raise InputError(origin, errors.wrong[0].message, path=errors.wrong[0].path, subject=subject)
    text = "an API server refuses it: " + ", ".join(map(str, errors.missing[:_MOST_MISSING]))
    return Remark(origin, subject, text, strict=True)
