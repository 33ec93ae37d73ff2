"""Rules of priority classes, workloads and pod groups (api.md; transcripts 093 to 107 and 418 to 487).

Versions differ: v1alpha2 fixes the scheduling policy altogether and writes `disruptionMode` as a word;
v1beta1 and v1alpha3 let `minCount` change and write it as an object, where `all` goes with `gang` only.
"""

from __future__ import annotations

from reprieve.api.json import Json
from reprieve.controlplane.rules import devices, names
from reprieve.controlplane.rules import rows as r
from reprieve.controlplane.rules.pods import PREEMPTION
from reprieve.controlplane.schema import field_errors as fe

HIGHEST_USER_PRIORITY = 1_000_000_000
SYSTEM_CLASSES = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
_MAX_TEMPLATES = 8
_OLD_VERSION = "scheduling.k8s.io/v1alpha2"


def _priority_value(obj: Json, _: str) -> r.Found:
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


_POLICY = r.enum("preemptionPolicy", PREEMPTION, missing=None)
priority_class = r.all_of(_priority_value, _POLICY)
"""Value, name and preemption policy of a class."""


def _union(holder: Json, members: tuple[str, ...], path: str) -> r.Found:
    """Exactly one member of a union is set."""
    given = [member for member in members if member in holder]
    listed = ", ".join(f"`{member}`" for member in members)
    if not given:
        yield fe.invalid(path, "", f"must specify one of: {listed}")
    elif len(given) > 1:
        yield fe.invalid(path, "{" + ", ".join(given) + "}", f"must specify exactly one of: {listed}")


def _policy(holder: Json, path: str) -> r.Found:
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


_CONSTRAINTS = r.below("schedulingConstraints", r.listed("topology", r.wanted("key", names.qualified), most=1))


def _disruption(holder: Json, path: str, api_version: str) -> r.Found:
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


def _priority(holder: Json, path: str) -> r.Found:
    limit = HIGHEST_USER_PRIORITY
    if holder.get("priorityClassName") in SYSTEM_CLASSES:
        limit = max(SYSTEM_CLASSES.values())
    if holder.get("priority", 0) > limit:
        yield fe.invalid(f"{path}.priority", holder["priority"], f"must be less than or equal to {limit}")


_CLASS = r.formed("priorityClassName", names.subdomain, "set")
_MEMBERS = r.all_of(_CLASS, _priority, _POLICY, devices.group_claims)


def _members(holder: Json, path: str, version: str) -> r.Found:
    """What a group and a template for one have alike."""
    yield from _policy(holder, path)
    yield from _CONSTRAINTS(holder, path)
    yield from _disruption(holder, path, version)
    yield from _MEMBERS(holder, path)


_CONTROLLER = r.given(
    "controllerRef",
    r.formed("apiGroup", names.subdomain),
    r.wanted("kind", names.path_segment),
    r.wanted("name", names.path_segment),
)


def _template_name(text: str) -> tuple[str, ...]:
    return tuple(names.label_message if said == "must not contain dots" else said for said in names.dns_label(text))


def workload(obj: Json, _: str) -> r.Found:
    """A workload: its templates and the object that controls it."""
    spec = obj.get("spec", {})
    yield from _CONTROLLER(spec, "spec")
    templates = spec.get("podGroupTemplates", ())
    if not templates:
        yield fe.required("spec.podGroupTemplates")
    elif len(templates) > _MAX_TEMPLATES:
        yield fe.too_many("spec.podGroupTemplates", len(templates), _MAX_TEMPLATES)
        return
    seen: set[str] = set()
    for index, template in enumerate(templates):
        place, name = f"spec.podGroupTemplates[{index}]", template.get("name", "")
        if name in seen:
            shown = {"schedulingConstraints": None, **template}
            ordered = {key: shown[key] for key in ("name", "schedulingPolicy", "schedulingConstraints") if key in shown}
            yield fe.duplicate(place, {**ordered, **shown})
            continue
        seen.add(name)
        yield from fe.wanted(f"{place}.name", name, _template_name)
        yield from _members(template, place, obj.get("apiVersion", ""))


def same_templates(new: Json, old: Json) -> r.Found:
    """Templates stay as they are but for minCount (v1beta1, v1alpha3)."""
    now, was = (r.reach(obj, "spec").get("podGroupTemplates", ()) for obj in (new, old))
    if now == was:
        return
    free = new.get("apiVersion") != _OLD_VERSION
    if free and [_without_count(template) for template in now] == [_without_count(template) for template in was]:
        yield from workload(new, "")
        return
    yield fe.invalid("spec.podGroupTemplates", None, r.IMMUTABLE)


def _without_count(holder: Json) -> Json:
    """A template or spec with its gang size left out."""
    policy = holder.get("schedulingPolicy", {})
    if "gang" not in policy:
        return holder
    gang = {key: value for key, value in policy["gang"].items() if key != "minCount"}
    return {**holder, "schedulingPolicy": {**policy, "gang": gang}}


def pod_group(obj: Json, _: str) -> r.Found:
    """A pod group."""
    spec, version = obj.get("spec", {}), obj.get("apiVersion", "")
    if version != _OLD_VERSION:
        yield from _REFERENCE(spec, "spec")
    elif "podGroupTemplateRef" in spec and "workload" not in spec["podGroupTemplateRef"]:
        yield fe.invalid("spec.podGroupTemplateRef", "", "must specify one of: `workload`")
    else:
        yield from _OLD_REFERENCE(spec, "spec")
    yield from _members(spec, "spec", version)


_WORKLOAD = r.wanted("workloadName", names.subdomain)
_REFERENCE = r.given("workloadRef", _WORKLOAD, r.wanted("templateName", names.dns_label))
_OLD_REFERENCE = r.given(
    "podGroupTemplateRef", r.given("workload", _WORKLOAD, r.wanted("podGroupTemplateName", names.dns_label))
)


def same_policy(new: Json, old: Json) -> r.Found:
    """The policy stays but for minCount (v1beta1, v1alpha3)."""
    after, before = new.get("spec", {}), old.get("spec", {})
    if after.get("schedulingPolicy") == before.get("schedulingPolicy"):
        return
    free = new.get("apiVersion") != _OLD_VERSION
    if free and _without_count(after).get("schedulingPolicy") == _without_count(before).get("schedulingPolicy"):
        yield from _policy(after, "spec")
    else:
        yield fe.invalid("spec.schedulingPolicy", None, r.IMMUTABLE)


GROUP_FIELDS = (
    "podGroupTemplateRef", "workloadRef", "parentCompositePodGroupName", "schedulingConstraints",
    "resourceClaims", "disruptionMode", "priorityClassName", "priority", "preemptionPolicy",
)  # fmt: skip
"""What else stays in the spec of a group."""
