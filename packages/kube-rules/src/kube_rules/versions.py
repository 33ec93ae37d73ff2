"""Versions of Workload and PodGroup: plain manifests to and from the internal form (v1beta1).

Terms: the internal form is `scheduling.k8s.io/v1beta1`. `v1`, `v1alpha3` and the CRD group
`scheduling.reprieve.dev/v1beta1` have the same shape; `v1alpha2` has other names; `scheduling.x-k8s.io/v1alpha1` is the
PodGroup of the coscheduling plugin, `scheduling.volcano.sh/v1beta1` that of Volcano. All rules: api.md 2, workloads.md
2 for the last two.

Invariant: functions take and return plain data, never change their arguments, and share unchanged parts. Conversion
down and up again returns an equal object, except for fields that v1alpha2 cannot express (preemptionPolicy, trees).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from kube_rules.errors import FieldError
from kube_rules.field_errors import not_supported
from kube_rules.foreign_groups import (
    COSCHEDULING_VERSION,
    CUSTOM,
    FOREIGN,
    FOREIGN_VERSIONS,
    VOLCANO_VERSION,
    coscheduling_up,
    volcano_up,
)
from kube_rules.meta import INITIALLY_SCHEDULED

Manifest = dict[str, Any]

KUBERNETES_VERSION: Final = "1.38.0"
"""The Kubernetes version that the rules follow."""
SCHEDULING_GROUP: Final = "scheduling.k8s.io"
CRD_GROUP: Final = "scheduling.reprieve.dev"
DOCUMENT_VERSION: Final = "reprieve.dev/v1alpha1"
"""The version of documents that reprieve reads and writes: scenarios, plans, decision records."""

INTERNAL_VERSION: Final = f"{SCHEDULING_GROUP}/v1beta1"
NEWEST_VERSION: Final = f"{SCHEDULING_GROUP}/v1"
_ALPHA2: Final = f"{SCHEDULING_GROUP}/v1alpha2"
_ALPHA3: Final = f"{SCHEDULING_GROUP}/v1alpha3"
SERVED_VERSIONS: Final = (NEWEST_VERSION, INTERNAL_VERSION, _ALPHA3, _ALPHA2)
"""Versions of the native group, in order of preference."""

_NATIVE_VERSIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "Workload": SERVED_VERSIONS,
    "PodGroup": SERVED_VERSIONS,
    "CompositePodGroup": (INTERNAL_VERSION, _ALPHA3),
}
_INTERNAL: Final[Mapping[str, str]] = {"CompositePodGroup": _ALPHA3}
"""Kinds with another internal form than `INTERNAL_VERSION`; all their versions have one shape (composite.md 1.1)."""

_POLICIES: Final = (
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
)
_DEVICES: Final = ("DeviceClass", "DeviceTaintRule", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice")
SAME_FIELDS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    INTERNAL_VERSION: (_ALPHA3, ("CompositePodGroup",)),
    NEWEST_VERSION: (INTERNAL_VERSION, ("PodGroup", "Workload")),
    "resource.k8s.io/v1beta2": ("resource.k8s.io/v1", _DEVICES),
    "admissionregistration.k8s.io/v1beta1": ("admissionregistration.k8s.io/v1", _POLICIES),
    "storage.k8s.io/v1beta1": ("storage.k8s.io/v1", ("VolumeAttributesClass",)),
    "flowcontrol.apiserver.k8s.io/v1beta3": (
        "flowcontrol.apiserver.k8s.io/v1",
        ("FlowSchema", "PriorityLevelConfiguration"),
    ),
}
"""Version -> a version with the same fields and with definitions here, and the kinds (api.md 2.7, 2.8)."""

READABLE_VERSIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "Workload": (*SERVED_VERSIONS, f"{CRD_GROUP}/v1beta1"),
    "PodGroup": (*SERVED_VERSIONS, f"{CRD_GROUP}/v1beta1", *FOREIGN_VERSIONS),
}
"""Kind to its readable apiVersions."""
_READABLE_GROUPS: Final = {
    kind: frozenset(version.partition("/")[0] for version in versions) for kind, versions in READABLE_VERSIONS.items()
}

_MODES: Final = {"Pod": "single", "PodGroup": "all"}
_MODE_NAMES: Final = {mode: name for name, mode in _MODES.items()}
_CONDITIONS: Final = {"PodGroupScheduled": INITIALLY_SCHEDULED["PodGroup"]}
_CONDITION_NAMES: Final = {internal: name for name, internal in _CONDITIONS.items()}


_VERSION: Final = re.compile(r"v([0-9]{1,18})(?:(alpha|beta)([0-9]{1,18}))?", re.ASCII)


def version_rank(version: str) -> tuple[int, int, int, str]:
    """Return the sort key of a version in apimachinery's order: stable, beta, alpha, highest first; others by name."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (3, 0, 0, version)
    return (("", "beta", "alpha").index(match[2] or ""), -int(match[1]), -int(match[3] or 0), "")


def is_converted_kind(kind: str, api_version: str) -> bool:
    """Return whether the kind is a Workload or PodGroup of a supported group (in any version)."""
    return api_version.partition("/")[0] in _READABLE_GROUPS.get(kind, ())


VERSIONS_WITHOUT_POLICY: Final = (_ALPHA2, *FOREIGN_VERSIONS)
"""Versions in which a PodGroup has no preemptionPolicy (api.md, the table)."""


def to_internal(manifest: Mapping[str, Any]) -> Manifest:
    """Return a Workload or PodGroup of any readable version, or a native composite, in its internal form.

    Raises `FieldError` for an unsupported version (naming the replacement) and for a value without an internal form.
    """
    kind, version = str(manifest.get("kind", "")), str(manifest.get("apiVersion", ""))
    if version not in (*READABLE_VERSIONS.get(kind, ()), *_NATIVE_VERSIONS.get(kind, ())):
        raise _not_served(kind, version)
    converted = {**manifest, "apiVersion": _INTERNAL.get(kind, INTERNAL_VERSION)}
    converted.pop(FOREIGN, None)
    converted.pop(CUSTOM, None)
    if kind == "PodGroup" and version.startswith(f"{CRD_GROUP}/"):
        converted[CUSTOM] = True
    convert = _UP.get((kind, version))
    return converted if convert is None else convert(converted)


def from_internal(manifest: Mapping[str, Any], api_version: str) -> Manifest:
    """Return an internal object in another served version; raises `FieldError` if its kind is not served in it.

    Fields that the version lacks (api.md 2.5) are removed.
    """
    kind = str(manifest.get("kind", ""))
    if api_version not in (*_NATIVE_VERSIONS.get(kind, ()), f"{CRD_GROUP}/v1beta1"):
        raise _not_served(kind, api_version)
    converted = {**manifest, "apiVersion": api_version}
    convert = _DOWN.get((kind, api_version))
    return converted if convert is None else convert(converted)


def with_unexpressed(update: Manifest, stored: Mapping[str, Any], api_version: str) -> Manifest:
    """Return an internal object from an update in `api_version`, with the fields that this version lacks.

    These come from the `stored` object: a client of an older version changes only the fields that it sees (api.md 2.5).
    """
    spec, before = update.get("spec"), stored.get("spec")
    if api_version != _ALPHA2 or not isinstance(spec, Mapping) or not isinstance(before, Mapping):
        return update
    if update.get("kind") == "Workload":
        stored_templates = {item["name"]: item for item in before.get(_TEMPLATES) or ()}
        completed = [
            {**_only(stored_templates.get(item.get("name"), {}), _POLICY), **item}
            for item in spec.get(_TEMPLATES) or ()
        ]
        templates = {_TEMPLATES: completed} if completed else {}
        return {**update, "spec": {**spec, **templates, **_only(before, *_TREES)}}
    return {**update, "spec": {**spec, **_only(before, _POLICY, *_TREES)}}


_TEMPLATES: Final = "podGroupTemplates"
_POLICY: Final = "preemptionPolicy"
_TREES: Final = ("parentCompositePodGroupName", "compositePodGroupTemplates")
"""Fields that v1alpha2 lacks: a policy of groups and templates, and all fields of trees."""


def _only(holder: Mapping[str, Any], *names: str) -> Manifest:
    return {name: holder[name] for name in names if name in holder}


def _not_served(kind: str, version: str) -> FieldError:
    hint = ""
    if version == f"{SCHEDULING_GROUP}/v1alpha1":
        hint = " (pods name their group in spec.schedulingGroup.podGroupName, groups are PodGroup objects)"
    return FieldError("apiVersion", f"{kind} in version {version} is not read: use {INTERNAL_VERSION}{hint}")


def _changed(value: Any, **changes: Callable[[Any], Any]) -> Any:
    """Return a copy of a map with some entries replaced; other values are returned unchanged and refused later."""
    if not isinstance(value, Mapping):
        return value
    return {key: changes[key](item) if key in changes else item for key, item in value.items()}


def _each(change: Callable[[Any, str], Any], path: str) -> Callable[[Any], Any]:
    def convert(values: Any) -> Any:
        if not isinstance(values, list):
            return values
        return [change(value, f"{path}[{index}]") for index, value in enumerate(values)]

    return convert


def _without(value: Any, *keys: str) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {name: item for name, item in value.items() if name not in keys}


def _mode_up(path: str) -> Callable[[Any], Any]:
    def convert(mode: Any) -> Any:
        if mode is None:
            return None
        if not isinstance(mode, str) or mode not in _MODES:
            raise not_supported(path, mode, tuple(_MODES))
        return {_MODES[mode]: {}}

    return convert


def _mode_down(mode: Any) -> Any:
    if not isinstance(mode, Mapping):
        return mode
    return next((name for key, name in _MODE_NAMES.items() if mode.get(key) is not None), None)


def _renamed_conditions(names: Mapping[str, str]) -> Callable[[Any], Any]:
    def renamed(condition: Any, _path: str) -> Any:
        return _changed(condition, type=lambda name: names.get(name, name) if isinstance(name, str) else name)

    return lambda status: _changed(status, conditions=_each(renamed, "status.conditions"))


def _template_up(template: Any, path: str) -> Any:
    return _changed(template, disruptionMode=_mode_up(f"{path}.disruptionMode"))


def _template_down(template: Any, _path: str) -> Any:
    return _without(_changed(template, disruptionMode=_mode_down), _POLICY)


def _workload_up(manifest: Manifest) -> Manifest:
    return _changed_manifest(
        manifest,
        spec=lambda spec: _changed(spec, podGroupTemplates=_each(_template_up, "spec.podGroupTemplates")),
    )


def _workload_down(manifest: Manifest) -> Manifest:
    def spec_down(spec: Any) -> Any:
        return _without(_changed(spec, podGroupTemplates=_each(_template_down, "spec.podGroupTemplates")), *_TREES)

    return _changed_manifest(manifest, spec=spec_down)


def _group_up(manifest: Manifest) -> Manifest:
    def spec_up(spec: Any) -> Any:
        changed = _changed(spec, disruptionMode=_mode_up("spec.disruptionMode"))
        if not isinstance(changed, Mapping) or "podGroupTemplateRef" not in changed:
            return changed
        reference = changed["podGroupTemplateRef"]
        rest = _without(changed, "podGroupTemplateRef")
        if reference is None:
            return rest
        workload = reference.get("workload") if isinstance(reference, Mapping) else None
        if not isinstance(workload, Mapping):
            raise FieldError("spec.podGroupTemplateRef", 'Invalid value: "": must specify one of: `workload`')
        renamed = {"podGroupTemplateName": "templateName"}
        return {**rest, "workloadRef": {renamed.get(key, key): item for key, item in workload.items()}}

    return _changed_manifest(manifest, spec=spec_up, status=_renamed_conditions(_CONDITIONS))


def _group_down(manifest: Manifest) -> Manifest:
    def spec_down(spec: Any) -> Any:
        changed = _without(_changed(spec, disruptionMode=_mode_down), _POLICY, *_TREES)
        if not isinstance(changed, Mapping) or "workloadRef" not in changed:
            return changed
        reference = changed["workloadRef"]
        rest = _without(changed, "workloadRef")
        if not isinstance(reference, Mapping):
            return rest
        renamed = {"templateName": "podGroupTemplateName"}
        workload = {renamed.get(key, key): item for key, item in reference.items()}
        return {**rest, "podGroupTemplateRef": {"workload": workload}}

    return _changed_manifest(manifest, spec=spec_down, status=_renamed_conditions(_CONDITION_NAMES))


def _changed_manifest(manifest: Manifest, **changes: Callable[[Any], Any]) -> Manifest:
    return {key: changes[key](item) if key in changes else item for key, item in manifest.items()}


_UP: Final[Mapping[tuple[str, str], Callable[[Manifest], Manifest]]] = {
    ("Workload", _ALPHA2): _workload_up,
    ("PodGroup", _ALPHA2): _group_up,
    ("PodGroup", COSCHEDULING_VERSION): coscheduling_up,
    ("PodGroup", VOLCANO_VERSION): volcano_up,
}
_DOWN: Final[Mapping[tuple[str, str], Callable[[Manifest], Manifest]]] = {
    ("Workload", _ALPHA2): _workload_down,
    ("PodGroup", _ALPHA2): _group_down,
}


EVENT_FIELDS_TO_CORE: Final[Mapping[str, str]] = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
"""Event field name in events.k8s.io -> its name in the core group."""
EVENT_FIELDS_FROM_CORE: Final[Mapping[str, str]] = {core: name for name, core in EVENT_FIELDS_TO_CORE.items()}
