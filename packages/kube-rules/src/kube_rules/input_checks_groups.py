"""Rules an API server holds Workloads and groups of pods to, with its field paths and its words.

Each function raises `FieldError` for the first rule that is broken (api.md, composite.md 1,
pkg/apis/scheduling/validation).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kube_rules.admission import HIGHEST_USER_PRIORITY, SYSTEM_CLASSES
from kube_rules.errors import FieldError, duplicate, forbidden, invalid, required, too_many, unsupported
from kube_rules.input_checks_pods import PREEMPTION_POLICIES
from kube_rules.labels import dns_label_errors, dns_subdomain_errors, qualified_name_errors
from kube_rules.objects import (
    CompositePodGroup,
    CompositePodGroupSchedulingPolicy,
    CompositePodGroupTemplate,
    DisruptionMode,
    PodGroup,
    PodGroupSchedulingConstraints,
    PodGroupSchedulingPolicy,
    PodGroupTemplate,
    Workload,
    WorkloadReference,
)

MAX_TEMPLATES: Final = 8
MAX_TEMPLATE_DEPTH: Final = 4
"""Levels of a tree of groups, the leaves counted."""
MAX_TOPOLOGY_CONSTRAINTS: Final = 1
_MAX_INT32: Final = 2**31 - 1


def _refuse(path: str, found: str, messages: tuple[str, ...]) -> None:
    if messages:
        raise invalid(path, found, messages[0])


def validate_pod_group(group: PodGroup, stored: bool) -> None:
    """A PodGroup; `stored`: an API server has admitted it (`validation.validate`)."""
    spec = group.spec
    _policy(spec.scheduling_policy, "spec.schedulingPolicy")
    _mode(spec.disruption_mode, "spec")
    if spec.scheduling_policy.basic is not None and not stored:
        _not_all(spec.disruption_mode, "spec")
    _constraints(spec.scheduling_constraints, "spec")
    _priority(spec.priority, spec.preemption_policy or None, spec.priority_class_name, "spec")
    _reference(spec.workload_ref)
    _parent(spec.parent_composite_pod_group_name)
    if spec.parent_composite_pod_group_name and spec.workload_ref is None:
        raise required("spec.workloadRef", "must be set when `parentCompositePodGroupName` is")


def validate_composite_pod_group(group: CompositePodGroup) -> None:
    """A CompositePodGroup: there is none without a Workload."""
    spec = group.spec
    _parent(spec.parent_composite_pod_group_name)
    if spec.workload_ref is None:
        raise required("spec.workloadRef")
    _reference(spec.workload_ref)
    _composite_policy(spec.scheduling_policy, "spec.schedulingPolicy")
    _mode(spec.disruption_mode, "spec")
    _constraints(spec.scheduling_constraints, "spec")
    _priority(spec.priority, spec.preemption_policy or None, spec.priority_class_name, "spec")


def _parent(name: str) -> None:
    if name:
        _refuse("spec.parentCompositePodGroupName", name, dns_subdomain_errors(name))


def _reference(reference: WorkloadReference | None) -> None:
    if reference is not None:
        for name, text in (
            ("workloadName", reference.workload_name),
            ("templateName", reference.template_name),
        ):
            if not text:
                raise required(f"spec.workloadRef.{name}")
        _refuse("spec.workloadRef.workloadName", reference.workload_name, dns_subdomain_errors(reference.workload_name))
        _refuse("spec.workloadRef.templateName", reference.template_name, dns_label_errors(reference.template_name))


def validate_workload(workload: Workload) -> None:
    """A Workload: flat, or a tree of templates with names unique in the whole tree."""
    spec = workload.spec
    flat, tree = spec.pod_group_templates, spec.composite_pod_group_templates
    if flat and tree:
        both = "podGroupTemplates, compositePodGroupTemplates"
        raise invalid(
            "spec", f"{{{both}}}", "must specify exactly one of: `podGroupTemplates`, `compositePodGroupTemplates`"
        )
    if not flat and not tree:
        raise required("spec.podGroupTemplates", "must have at least one value")
    seen: set[str] = set()
    _templates(flat, "spec", seen)
    _composite_templates(tree, "spec", seen, 1)
    chosen = {(one.priority_class_name, one.priority) for one in _every(tree)}
    if len(chosen) > 1:
        raise FieldError("spec", "Invalid value: detected multiple priority configurations")
    reference = spec.controller_ref
    if reference is not None:
        if reference.api_group:
            _refuse("spec.controllerRef.apiGroup", reference.api_group, dns_subdomain_errors(reference.api_group))
        if not reference.kind:
            raise required("spec.controllerRef.kind")
        if not reference.name:
            raise required("spec.controllerRef.name")


def _templates(templates: tuple[PodGroupTemplate, ...], at: str, seen: set[str]) -> None:
    path = f"{at}.podGroupTemplates"
    if len(templates) > MAX_TEMPLATES:
        raise too_many(path, len(templates), MAX_TEMPLATES)
    for index, template in enumerate(templates):
        _template(template, f"{path}[{index}]", seen)


def _composite_templates(templates: tuple[CompositePodGroupTemplate, ...], at: str, seen: set[str], depth: int) -> None:
    path = f"{at}.compositePodGroupTemplates"
    if len(templates) > MAX_TEMPLATES:
        raise too_many(path, len(templates), MAX_TEMPLATES)
    for index, template in enumerate(templates):
        here = f"{path}[{index}]"
        if depth == MAX_TEMPLATE_DEPTH:
            raise FieldError(here, f"Invalid value: maximum template hierarchy depth is {MAX_TEMPLATE_DEPTH}")
        _name(template.name, here, seen)
        _composite_policy(template.scheduling_policy, f"{here}.schedulingPolicy")
        _mode(template.disruption_mode, here)
        _constraints(template.scheduling_constraints, here)
        _priority(template.priority, template.preemption_policy, template.priority_class_name, here)
        if not template.pod_group_templates and not template.composite_pod_group_templates:
            raise required(here, "must have at least one child PodGroupTemplate or CompositePodGroupTemplate")
        _templates(template.pod_group_templates, here, seen)
        _composite_templates(template.composite_pod_group_templates, here, seen, depth + 1)


def _every(
    templates: tuple[CompositePodGroupTemplate, ...],
) -> Iterator[CompositePodGroupTemplate | PodGroupTemplate]:
    """All templates of some trees."""
    for template in templates:
        yield template
        yield from template.pod_group_templates
        yield from _every(template.composite_pod_group_templates)


def _name(name: str, path: str, seen: set[str]) -> None:
    if not name:
        raise required(f"{path}.name")
    _refuse(f"{path}.name", name, dns_label_errors(name))
    if name in seen:
        raise duplicate(f"{path}.name", name)
    seen.add(name)


def _template(template: PodGroupTemplate, path: str, seen: set[str]) -> None:
    _name(template.name, path, seen)
    _policy(template.scheduling_policy, f"{path}.schedulingPolicy")
    _mode(template.disruption_mode, path)
    if template.scheduling_policy.basic is not None:
        _not_all(template.disruption_mode, path)
    _constraints(template.scheduling_constraints, path)
    _priority(template.priority, template.preemption_policy, template.priority_class_name, path)


def _policy(policy: PodGroupSchedulingPolicy, path: str) -> None:
    _one_of_two(policy, path)
    if policy.gang is not None:
        _at_least_one(policy.gang.min_count, f"{path}.gang.minCount")


def _composite_policy(policy: CompositePodGroupSchedulingPolicy, path: str) -> None:
    _one_of_two(policy, path)
    if policy.gang is not None:
        _at_least_one(policy.gang.min_group_count, f"{path}.gang.minGroupCount")


def _one_of_two(policy: PodGroupSchedulingPolicy | CompositePodGroupSchedulingPolicy, path: str) -> None:
    if policy.basic is not None and policy.gang is not None:
        raise invalid(path, "{basic, gang}", "must specify exactly one of: `basic`, `gang`")
    if policy.basic is None and policy.gang is None:
        raise invalid(path, "", "must specify one of: `basic`, `gang`")


def _at_least_one(count: int, path: str) -> None:
    if count == 0:
        raise required(path, "must be greater than or equal to 1")
    if count < 0:
        raise invalid(path, count, "must be greater than or equal to 1")
    if count >= 1 << 31:
        raise invalid(path, count, "must fit into 32 bits")


def _mode(mode: DisruptionMode | None, path: str) -> None:
    if mode is not None:
        if mode.single is not None and mode.all is not None:
            raise invalid(f"{path}.disruptionMode", "{single, all}", "must specify exactly one of: `single`, `all`")
        if mode.single is None and mode.all is None:
            raise invalid(f"{path}.disruptionMode", "", "must specify one of: `single`, `all`")


def _not_all(mode: DisruptionMode | None, path: str) -> None:
    if mode is not None and mode.all is not None:
        raise forbidden(f"{path}.disruptionMode.all", ALL_WITH_BASIC)


def _constraints(constraints: PodGroupSchedulingConstraints, path: str) -> None:
    topology = constraints.topology
    if len(topology) > MAX_TOPOLOGY_CONSTRAINTS:
        raise too_many(f"{path}.schedulingConstraints.topology", len(topology), MAX_TOPOLOGY_CONSTRAINTS)
    for index, constraint in enumerate(topology):
        at = f"{path}.schedulingConstraints.topology[{index}].key"
        if not constraint.key:
            raise required(at)
        _refuse(at, constraint.key, qualified_name_errors(constraint.key))


ALL_WITH_BASIC: Final = "may not be set together with the `basic` scheduling policy; use `single`, or the `gang` policy"


def _priority(priority: int | None, policy: str | None, class_name: str, path: str) -> None:
    if priority is not None:
        allowed = SYSTEM_CLASSES.get(class_name, HIGHEST_USER_PRIORITY)
        if priority > allowed:
            raise invalid(f"{path}.priority", priority, f"must be less than or equal to {allowed}")
        if priority < -_MAX_INT32 - 1:
            raise invalid(f"{path}.priority", priority, "must fit into 32 bits")
    if policy is not None and policy not in PREEMPTION_POLICIES:
        raise unsupported(f"{path}.preemptionPolicy", policy, PREEMPTION_POLICIES)
    if class_name:
        _refuse(f"{path}.priorityClassName", class_name, dns_subdomain_errors(class_name))
