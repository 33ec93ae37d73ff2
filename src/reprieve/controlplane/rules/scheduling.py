"""Rules of priority classes, workloads and pod groups (api.md; transcripts 093 to 107 and 418 to 487).

Versions differ: v1alpha2 fixes the scheduling policy altogether and writes `disruptionMode` as a word;
v1beta1 and v1alpha3 let `minCount` change and write it as an object, where `all` goes with `gang` only.
"""

from __future__ import annotations

from collections.abc import Iterator

from reprieve.api.json import Json
from reprieve.controlplane.rules import conditions, devices, names
from reprieve.controlplane.schema import field_errors as fe
from reprieve.controlplane.schema.field_errors import FieldError

HIGHEST_USER_PRIORITY = 1_000_000_000
SYSTEM_CLASSES = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
_PREEMPTION = ("PreemptLowerPriority", "Never")
_MAX_TEMPLATES = 8
_MAX_TOPOLOGY = 1
_OLD_VERSION = "scheduling.k8s.io/v1alpha2"
_IMMUTABLE = "field is immutable"


def priority_class(obj: Json) -> Iterator[FieldError]:
    """Value, name and preemption policy of a class."""
    name, value = obj.get("metadata", {}).get("name", ""), obj.get("value", 0)
    if name.startswith("system-"):
        known = SYSTEM_CLASSES.get(name)
        why = None
        if known is None:
            why = f"{name} is not a known system priority class"
        elif value != known:
            why = f"value of {name} PriorityClass must be {known}"
        elif obj.get("globalDefault"):
            why = f"globalDefault of {name} PriorityClass must be false"
        if why:
            said = f"priority class names with 'system-' prefix are reserved for system use only. error: {why}"
            yield fe.forbidden("metadata.name", said)
    elif value > HIGHEST_USER_PRIORITY:
        said = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
        yield fe.forbidden("value", said)
    policy = obj.get("preemptionPolicy", "Never")
    if policy not in _PREEMPTION:
        yield fe.not_supported("preemptionPolicy", policy, _PREEMPTION)


def priority_class_update(new: Json, old: Json) -> Iterator[FieldError]:
    """Value and policy stay."""
    if new.get("value", 0) != old.get("value", 0):
        yield fe.forbidden("value", "may not be changed in an update.")
    if new.get("preemptionPolicy") != old.get("preemptionPolicy"):
        yield fe.invalid("preemptionPolicy", new.get("preemptionPolicy"), _IMMUTABLE)


def _union(holder: Json, members: tuple[str, ...], path: str) -> Iterator[FieldError]:
    """Exactly one member of a union is set."""
    given = [member for member in members if member in holder]
    listed = ", ".join(f"`{member}`" for member in members)
    if not given:
        yield fe.invalid(path, "", f"must specify one of: {listed}")
    elif len(given) > 1:
        yield fe.invalid(path, "{" + ", ".join(given) + "}", f"must specify exactly one of: {listed}")


def _policy(holder: Json, path: str) -> Iterator[FieldError]:
    policy = holder.get("schedulingPolicy", {})
    yield from _union(policy, ("basic", "gang"), f"{path}.schedulingPolicy")
    gang = policy.get("gang")
    if gang is not None and "basic" not in policy:
        count = gang.get("minCount", 0)
        place = f"{path}.schedulingPolicy.gang.minCount"
        if count == 0:
            yield fe.required(place)
        elif count < 0:
            yield fe.invalid(place, count, "must be greater than or equal to 1")


def _constraints(holder: Json, path: str) -> Iterator[FieldError]:
    topology = holder.get("schedulingConstraints", {}).get("topology", ())
    place = f"{path}.schedulingConstraints.topology"
    if len(topology) > _MAX_TOPOLOGY:
        yield fe.too_many(place, len(topology), _MAX_TOPOLOGY)
        return
    for index, constraint in enumerate(topology):
        key = constraint.get("key", "")
        if not key:
            yield fe.required(f"{place}[{index}].key")
        else:
            for message in names.qualified(key):
                yield fe.invalid(f"{place}[{index}].key", key, message)


def _disruption(holder: Json, path: str, api_version: str) -> Iterator[FieldError]:
    mode = holder.get("disruptionMode")
    if mode is None:
        return
    place = f"{path}.disruptionMode"
    if api_version == _OLD_VERSION:
        if mode not in ("Pod", "PodGroup"):
            yield fe.not_supported(place, mode, ("Pod", "PodGroup"))
        return
    yield from _union(mode, ("all", "single"), place)
    if "all" in mode and "single" not in mode and "basic" in holder.get("schedulingPolicy", {}):
        yield fe.forbidden(place, "`all` may not be set together with the `basic` scheduling policy")


def _priority(holder: Json, path: str) -> Iterator[FieldError]:
    name = holder.get("priorityClassName")
    if name is not None:
        for message in names.subdomain(name):
            yield fe.invalid(f"{path}.priorityClassName", name, message)
    value = holder.get("priority", 0)
    limit = max(SYSTEM_CLASSES.values()) if name in SYSTEM_CLASSES else HIGHEST_USER_PRIORITY
    if value > limit:
        said = f"must be less than or equal to {limit}"
        yield fe.invalid(f"{path}.priority", value, said)
    policy = holder.get("preemptionPolicy", "Never")
    if policy not in _PREEMPTION:
        yield fe.not_supported(f"{path}.preemptionPolicy", policy, _PREEMPTION)


def workload(obj: Json) -> Iterator[FieldError]:
    """A workload: its templates and the object that controls it."""
    spec = obj.get("spec", {})
    controller = spec.get("controllerRef")
    if controller is not None:
        group = controller.get("apiGroup", "")
        if group:
            for message in names.subdomain(group):
                yield fe.invalid("spec.controllerRef.apiGroup", group, message)
        for name in ("kind", "name"):
            value = controller.get(name, "")
            if not value:
                yield fe.required(f"spec.controllerRef.{name}")
            else:
                for message in names.path_segment(value):
                    yield fe.invalid(f"spec.controllerRef.{name}", value, message)
    templates = spec.get("podGroupTemplates", ())
    if not templates:
        yield fe.required("spec.podGroupTemplates")
    elif len(templates) > _MAX_TEMPLATES:
        yield fe.too_many("spec.podGroupTemplates", len(templates), _MAX_TEMPLATES)
        return
    seen: set[str] = set()
    for index, template in enumerate(templates):
        place = f"spec.podGroupTemplates[{index}]"
        name = template.get("name", "")
        if name in seen:
            shown = {"schedulingConstraints": None, **template}
            ordered = {key: shown[key] for key in ("name", "schedulingPolicy", "schedulingConstraints") if key in shown}
            yield fe.duplicate(place, {**ordered, **shown})
            continue
        seen.add(name)
        if not name:
            yield fe.required(f"{place}.name")
        else:
            for message in names.dns_label(name):
                text = names.label_message if message == "must not contain dots" else message
                yield fe.invalid(f"{place}.name", name, text)
        yield from _policy(template, place)
        yield from _constraints(template, place)
        yield from _disruption(template, place, obj.get("apiVersion", ""))
        yield from _priority(template, place)
        yield from devices.group_claims(template, place)


def workload_update(new: Json, old: Json) -> Iterator[FieldError]:
    """Templates stay as they are but for minCount (v1beta1, v1alpha3); so does the controller once set."""
    after, before = new.get("spec", {}), old.get("spec", {})
    if after.get("controllerRef") != before.get("controllerRef"):
        yield fe.invalid("spec.controllerRef", None, _IMMUTABLE)
    now, was = after.get("podGroupTemplates", ()), before.get("podGroupTemplates", ())
    if now == was:
        return
    free = new.get("apiVersion") != _OLD_VERSION
    if free and [_without_count(template) for template in now] == [_without_count(template) for template in was]:
        yield from workload(new)
        return
    yield fe.invalid("spec.podGroupTemplates", None, _IMMUTABLE)


def _without_count(holder: Json) -> Json:
    """A template or spec with its gang size left out."""
    policy = holder.get("schedulingPolicy", {})
    if "gang" not in policy:
        return holder
    gang = {key: value for key, value in policy["gang"].items() if key != "minCount"}
    return {**holder, "schedulingPolicy": {**policy, "gang": gang}}


def pod_group(obj: Json) -> Iterator[FieldError]:
    """A pod group."""
    spec, version = obj.get("spec", {}), obj.get("apiVersion", "")
    yield from _reference(spec, version)
    yield from _policy(spec, "spec")
    yield from _constraints(spec, "spec")
    yield from _disruption(spec, "spec", version)
    yield from _priority(spec, "spec")
    yield from devices.group_claims(spec, "spec")


def _reference(spec: Json, version: str) -> Iterator[FieldError]:
    if version == _OLD_VERSION:
        outer = spec.get("podGroupTemplateRef")
        if outer is None:
            return
        if "workload" not in outer:
            yield fe.invalid("spec.podGroupTemplateRef", "", "must specify one of: `workload`")
            return
        reference, path, template = outer["workload"], "spec.podGroupTemplateRef.workload", "podGroupTemplateName"
    else:
        reference, path, template = spec.get("workloadRef"), "spec.workloadRef", "templateName"
        if reference is None:
            return
    for name, check in (("workloadName", names.subdomain), (template, names.dns_label)):
        value = reference.get(name, "")
        if not value:
            yield fe.required(f"{path}.{name}")
        else:
            for message in check(value):
                yield fe.invalid(f"{path}.{name}", value, message)


_GROUP_FIELDS = (
    "podGroupTemplateRef",
    "workloadRef",
    "parentCompositePodGroupName",
    "schedulingConstraints",
    "resourceClaims",
    "disruptionMode",
    "priorityClassName",
    "priority",
    "preemptionPolicy",
)


def pod_group_update(new: Json, old: Json) -> Iterator[FieldError]:
    """Everything in the spec stays but minCount (v1beta1, v1alpha3)."""
    after, before = new.get("spec", {}), old.get("spec", {})
    policy_now, policy_was = after.get("schedulingPolicy"), before.get("schedulingPolicy")
    if policy_now != policy_was:
        free = new.get("apiVersion") != _OLD_VERSION
        if free and _without_count(after).get("schedulingPolicy") == _without_count(before).get("schedulingPolicy"):
            yield from _policy(after, "spec")
        else:
            yield fe.invalid("spec.schedulingPolicy", None, _IMMUTABLE)
    for name in _GROUP_FIELDS:
        if after.get(name) != before.get(name):
            yield fe.invalid(f"spec.{name}", None, _IMMUTABLE)


def pod_group_status(new: Json, _: Json) -> Iterator[FieldError]:
    """Conditions of a group are complete and unique; claims made for it are claims it asks for."""
    yield from conditions.conditions(new.get("status", {}).get("conditions", ()), "status.conditions")
    yield from devices.group_claim_statuses(new)
