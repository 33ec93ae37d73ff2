"""Rules of priority classes, workloads, pod groups and composites (api.md, composite.md 1).

Transcripts 093 to 107, 418 to 487. Versions differ: in v1alpha2 the scheduling policy is immutable and `disruptionMode`
is a word; in v1beta1 and v1alpha3 `minCount` may change and the mode is an object, where `all` requires `gang`. They
also have trees: composite templates of a Workload, with the same checks at every level, and the parent of a group.
"""

from __future__ import annotations

from kube_rules import field_errors as fe
from kube_rules.admission import HIGHEST_USER_PRIORITY, SYSTEM_CLASSES
from kube_rules.group_templates import COMPOSITES, GROUPS, templates
from kube_rules.groups import MAX_DEPTH
from kube_rules.json import Json
from kube_rules.labels import dns_label_errors
from kube_rules.validation import devices, names
from kube_rules.validation import rows as r
from kube_rules.validation.pods import PREEMPTION

_MAX_TEMPLATES = 8
"""Maximum levels of a tree: three of composites, and the pod groups."""
_OLD_VERSION = "scheduling.k8s.io/v1alpha2"


def _priority_value(obj: Json, _: str) -> r.Found:
    name, value = obj.get("metadata", {}).get("name", ""), obj.get("value", 0)
    if name.startswith("system-"):
        reserved = SYSTEM_CLASSES.get(name)
        why = None
        if reserved is None:
            why = f"{name} is not a known system priority class"
        elif value != reserved:
            why = f"value of {name} PriorityClass must be {reserved}"
        elif obj.get("globalDefault"):
            why = f"globalDefault of {name} PriorityClass must be false"
        if why:
            detail = f"priority class names with 'system-' prefix are reserved for system use only. error: {why}"
            yield fe.forbidden("metadata.name", detail)
    elif value > HIGHEST_USER_PRIORITY:
        detail = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
        yield fe.forbidden("value", detail)


_POLICY = r.enum("preemptionPolicy", PREEMPTION, missing=None)
priority_class = r.all_of(_priority_value, _POLICY)
"""Check value, name and preemption policy of a class."""


def _union(*members: str) -> r.Check:
    """Return the check that exactly one member of a union is set."""
    listed = ", ".join(f"`{member}`" for member in members)
    none, several = f"must specify one of: {listed}", f"must specify exactly one of: {listed}"

    def check(holder: Json, path: str) -> r.Found:
        present = [member for member in members if member in holder]
        return r.exactly_one(path, present, none, several, "{" + ", ".join(present) + "}" if present else "")

    return check


_POLICIES = _union("basic", "gang")
_MODE = r.given("disruptionMode", _union("all", "single"))
_LISTS = _union(GROUPS, COMPOSITES)


def _policy(holder: Json, path: str, count: str = "minCount") -> r.Found:
    policy = holder.get("schedulingPolicy", {})
    yield from _POLICIES(policy, f"{path}.schedulingPolicy")
    gang = policy.get("gang")
    if gang is not None and "basic" not in policy:
        least = gang.get(count, 0)
        place = f"{path}.schedulingPolicy.gang.{count}"
        if least == 0:
            yield fe.required(place)
        elif least < 0:
            yield fe.invalid(place, least, "must be greater than or equal to 1")


_CONSTRAINTS = r.below("schedulingConstraints", r.listed("topology", r.wanted("key", names.qualified), most=1))


ALL_OF_BASIC = "`all` may not be set together with the `basic` scheduling policy"


def _disruption(holder: Json, path: str, api_version: str) -> r.Found:
    mode = holder.get("disruptionMode")
    if mode is None:
        return
    place = f"{path}.disruptionMode"
    if api_version == _OLD_VERSION:
        if mode not in ("Pod", "PodGroup"):
            yield fe.not_supported(place, mode, ("Pod", "PodGroup"))
        return
    yield from _MODE(holder, path)
    if "all" in mode and "single" not in mode and "basic" in holder.get("schedulingPolicy", {}):
        yield fe.forbidden(place, ALL_OF_BASIC)


def _priority(holder: Json, path: str) -> r.Found:
    limit = HIGHEST_USER_PRIORITY
    if holder.get("priorityClassName") in SYSTEM_CLASSES:
        limit = max(SYSTEM_CLASSES.values())
    if holder.get("priority", 0) > limit:
        yield fe.invalid(f"{path}.priority", holder["priority"], f"must be less than or equal to {limit}")


_CLASS = r.formed("priorityClassName", names.subdomain, "set")
_COMPOSITE_MEMBERS = r.all_of(_CLASS, _priority, _POLICY)
_MEMBERS = r.all_of(_COMPOSITE_MEMBERS, devices.group_claims)


def _members(holder: Json, path: str, version: str) -> r.Found:
    """Check the fields that a group and its template share."""
    yield from _policy(holder, path)
    yield from _CONSTRAINTS(holder, path)
    yield from _disruption(holder, path, version)
    yield from _MEMBERS(holder, path)


def _composite_members(holder: Json, path: str) -> r.Found:
    """Check the fields that a composite and its template share; `all` is valid with both policies."""
    yield from _policy(holder, path, "minGroupCount")
    yield from _CONSTRAINTS(holder, path)
    yield from _MODE(holder, path)
    yield from _COMPOSITE_MEMBERS(holder, path)


def of_a_job(holder: Json, path: str) -> r.Found:
    """Check `scheduling` of a Job: a policy, where the minimum is optional, constraints and mode (KEP-5547)."""
    policy = holder.get("schedulingPolicy")
    if policy is not None:
        yield from _POLICIES(policy, f"{path}.schedulingPolicy")
        least = (policy.get("gang") or {}).get("minCount")
        if least is not None and least < 1:
            yield fe.invalid(f"{path}.schedulingPolicy.gang.minCount", least, "must be greater than or equal to 1")
    yield from _CONSTRAINTS(holder, path)
    yield from _MODE(holder, path)
    mode = holder.get("disruptionMode") or {}
    if "all" in mode and "single" not in mode and "gang" not in (policy or {}):
        yield fe.forbidden(f"{path}.disruptionMode", ALL_OF_BASIC)
    yield from devices.group_claims(holder, path)


def same_but_min_count(new: Json, old: Json) -> r.Found:
    """Check that `scheduling` of a Job does not change except for the minimum of its gang."""
    after, before = _without_min_count(new.get("scheduling")), _without_min_count(old.get("scheduling"))
    if after != before:
        yield fe.invalid("spec.scheduling", new.get("scheduling"), r.IMMUTABLE)


def _without_min_count(scheduling: Json | None) -> Json | None:
    policy = (scheduling or {}).get("schedulingPolicy") or {}
    if not isinstance(policy.get("gang"), dict):
        return scheduling
    return {**(scheduling or {}), "schedulingPolicy": {**policy, "gang": {**policy["gang"], "minCount": None}}}


_CONTROLLER = r.given(
    "controllerRef",
    r.formed("apiGroup", names.subdomain),
    r.wanted("kind", names.path_segment),
    r.wanted("name", names.path_segment),
)


def workload(obj: Json, _: str) -> r.Found:
    """Check a workload: its templates and its controller."""
    spec, version = obj.get("spec", {}), obj.get("apiVersion", "")
    if version != _OLD_VERSION:
        yield from _tree(spec)
    yield from _CONTROLLER(spec, "spec")
    if version == _OLD_VERSION:
        if not spec.get(GROUPS):
            yield fe.required(f"spec.{GROUPS}")
    else:
        yield from _LISTS({key: spec[key] for key in (GROUPS, COMPOSITES) if spec.get(key)}, "spec")
    yield from _template_lists(spec, "spec", version)


def _template_lists(holder: Json, path: str, version: str) -> r.Found:
    """Check the templates of a workload or of a composite template: at most eight per list, with unique names."""
    for name in (GROUPS, COMPOSITES):
        entries, place = holder.get(name) or (), f"{path}.{name}"
        if len(entries) > _MAX_TEMPLATES:
            yield fe.too_many(place, len(entries), _MAX_TEMPLATES)
            continue
        seen: set[str] = set()
        for index, template in enumerate(entries):
            yield from _template(template, f"{place}[{index}]", version, name == COMPOSITES, seen)


def _template(template: Json, place: str, version: str, composite: bool, seen: set[str]) -> r.Found:
    """Check one entry of a list; `seen`: names of the entries before it."""
    name = template.get("name", "")
    if name in seen:
        shown = {"schedulingConstraints": None, **template}
        ordered = {key: shown[key] for key in ("name", "schedulingPolicy", "schedulingConstraints") if key in shown}
        yield fe.duplicate(place, {**ordered, **shown})
        return
    seen.add(name)
    yield from fe.wanted(f"{place}.name", name, dns_label_errors)
    if not composite:
        yield from _members(template, place, version)
        return
    yield from _composite_members(template, place)
    if place.count(COMPOSITES) < MAX_DEPTH:  # deeper ones are refused with the tree
        yield from _template_lists(template, place, version)


def _tree(spec: Json) -> r.Found:
    """Check all templates of a workload together (composite.md 1).

    `_template` reports duplicate names within one list.
    """
    tops = spec.get(COMPOSITES) or ()
    named: dict[str, str] = {}
    deep: set[str] = set()
    childless, priorities = [], set()
    for item in templates(spec):
        top = ".".join(item.place.split(".", 2)[:2])
        if item.composite and item.level == MAX_DEPTH:
            deep.add(top)
        if item.level > MAX_DEPTH:
            continue
        name = item.holder.get("name", "")
        if named.setdefault(name, item.listed) != item.listed:
            yield fe.duplicate(f"{item.place}.name", name)
        if item.composite and not item.holder.get(GROUPS) and not item.holder.get(COMPOSITES):
            childless.append(fe.invalid(item.place, name, _NO_CHILD))
        priorities.add((item.holder.get("priorityClassName", ""), item.holder.get("priority")))
    for index, top in enumerate(tops):
        place = f"spec.{COMPOSITES}[{index}]"
        if place in deep:
            yield fe.invalid(place, top.get(COMPOSITES), f"maximum template hierarchy depth is {MAX_DEPTH}")
    if len(priorities) > 1:
        yield fe.invalid("spec", None, _PRIORITIES if tops else "detected multiple priority configurations")
    yield from childless


_NO_CHILD = "must have at least one child PodGroupTemplate or CompositePodGroupTemplate"
_PRIORITIES = "all priority and priorityClassName values must be identical, detected multiple values"


def same_templates(new: Json, old: Json) -> r.Found:
    """Check that only counts of templates change (v1beta1, v1alpha3), and that a tree stays valid."""
    changed = False
    for name in (GROUPS, COMPOSITES):
        now, was = (r.reach(obj, "spec").get(name) or [] for obj in (new, old))
        if now == was:
            continue
        if new.get("apiVersion") == _OLD_VERSION or _without_counts(now) != _without_counts(was):
            yield fe.invalid(f"spec.{name}", None, r.IMMUTABLE)
        else:
            changed = True
    if changed:
        yield from workload(new, "")


def _without_counts(entries: list[Json]) -> list[Json]:
    """Return templates without their counts at any level."""
    return [
        {
            **_without_count(entry),
            **{name: _without_counts(entry[name]) for name in (GROUPS, COMPOSITES) if entry.get(name)},
        }
        for entry in entries
    ]


def _without_count(holder: Json) -> Json:
    """Return a template or spec without the count of its gang."""
    policy = holder.get("schedulingPolicy", {})
    if "gang" not in policy:
        return holder
    gang = {key: value for key, value in policy["gang"].items() if key not in ("minCount", "minGroupCount")}
    return {**holder, "schedulingPolicy": {**policy, "gang": gang}}


def pod_group(obj: Json, _: str) -> r.Found:
    """Check a pod group."""
    spec, version = obj.get("spec", {}), obj.get("apiVersion", "")
    if version != _OLD_VERSION:
        yield from _PARENT(spec, "spec")
        yield from _REFERENCE(spec, "spec")
        if spec.get("parentCompositePodGroupName") and "workloadRef" not in spec:
            yield fe.required("spec.workloadRef", "must be specified when `parentCompositePodGroupName` is set")
    elif "podGroupTemplateRef" in spec and "workload" not in spec["podGroupTemplateRef"]:
        yield fe.invalid("spec.podGroupTemplateRef", "", "must specify one of: `workload`")
    else:
        yield from _OLD_REFERENCE(spec, "spec")
    yield from _members(spec, "spec", version)


def composite_pod_group(obj: Json, _: str) -> r.Found:
    """Check a composite: it always refers to a template of a workload (composite.md 1)."""
    spec = obj.get("spec", {})
    yield from _PARENT(spec, "spec")
    if "workloadRef" not in spec:
        yield fe.required("spec.workloadRef")
    yield from _REFERENCE(spec, "spec")
    yield from _composite_members(spec, "spec")


_WORKLOAD = r.wanted("workloadName", names.subdomain)
_PARENT = r.formed("parentCompositePodGroupName", names.subdomain, "set")
_REFERENCE = r.given("workloadRef", _WORKLOAD, r.wanted("templateName", names.dns_label))
_OLD_REFERENCE = r.given(
    "podGroupTemplateRef", r.given("workload", _WORKLOAD, r.wanted("podGroupTemplateName", names.dns_label))
)


def same_policy(new: Json, old: Json) -> r.Found:
    """Check that only the count of the policy changes (v1beta1, v1alpha3)."""
    after, before = new.get("spec", {}), old.get("spec", {})
    if after.get("schedulingPolicy") == before.get("schedulingPolicy"):
        return
    free = new.get("apiVersion") != _OLD_VERSION
    if free and _without_count(after).get("schedulingPolicy") == _without_count(before).get("schedulingPolicy"):
        yield from _policy(after, "spec", "minGroupCount" if new.get("kind") == "CompositePodGroup" else "minCount")
    else:
        yield fe.invalid("spec.schedulingPolicy", None, r.IMMUTABLE)


GROUP_FIELDS = (
    "podGroupTemplateRef", "workloadRef", "parentCompositePodGroupName", "schedulingConstraints",
    "resourceClaims", "disruptionMode", "priorityClassName", "priority", "preemptionPolicy",
)  # fmt: skip
"""Other immutable fields in the spec of a group."""
COMPOSITE_FIELDS = tuple(name for name in GROUP_FIELDS if name not in ("podGroupTemplateRef", "resourceClaims"))
"""Other immutable fields in the spec of a composite."""
