"""Rules an API server holds an object to, with its field paths and its words.

One rule per function; `validate` finds the rules of a type in a table and raises the first that is broken.
Rules between objects (duplicates, references) are in `references`; rules of pods in `validation_pods`, of groups in
`validation_groups`.

Invariant: what passes here can be scheduled without further checks: every quantity parses, every selector
compiles, every group has exactly one policy (api.md, pkg/apis/core/validation,
pkg/apis/scheduling/validation).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from kube_rules.admission import HIGHEST_USER_PRIORITY, SYSTEM_CLASSES
from kube_rules.errors import FieldError, forbidden, invalid, required, unsupported
from kube_rules.input_checks_groups import validate_composite_pod_group, validate_pod_group, validate_workload
from kube_rules.input_checks_pods import PREEMPTION_POLICIES, validate_label_selector, validate_pod
from kube_rules.labels import (
    dns_label_errors,
    dns_subdomain_errors,
    label_value_errors,
    qualified_name_errors,
)
from kube_rules.meta import KubernetesObject, ObjectMeta, ResourceList
from kube_rules.node_features import declaration_errors
from kube_rules.objects import (
    CompositePodGroup,
    DeviceClass,
    DeviceTaintRule,
    LimitRange,
    Namespace,
    Node,
    Pod,
    PodDisruptionBudget,
    PodGroup,
    PriorityClass,
    ResourceQuota,
    Workload,
)
from kube_rules.quantity import QuantityError, parse
from kube_rules.requests import is_extended_resource
from kube_rules.taints import EFFECTS

DEVICE_TAINT_EFFECTS: Final = ("None", "NoExecute", "NoSchedule")
QUOTA_SCOPES: Final = (
    "BestEffort",
    "NotBestEffort",
    "Terminating",
    "NotTerminating",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
)
_SCOPE_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
_MAX_INT32: Final = 2**31 - 1


def validate(found: KubernetesObject, *, stored_groups: bool = False) -> None:
    """Raise `FieldError` for the first rule the object breaks.

    `stored_groups` leaves out the one rule that older API servers (1.36) did not have, `disruptionMode:
    all` with the `basic` policy: a group that an API server has admitted then is stored, and stored objects
    are not validated again.
    """
    validate_metadata(found.metadata, found.NAMESPACED, type(found))
    if isinstance(found, PodGroup):
        validate_pod_group(found, stored_groups)
        return
    rule = _RULES.get(type(found))
    if rule is not None:
        rule(found)


def validate_metadata(meta: ObjectMeta, namespaced: bool, kind: type[KubernetesObject]) -> None:
    """Name, namespace, labels and label keys."""
    name_errors = dns_label_errors if kind is Namespace else dns_subdomain_errors
    if not meta.name:
        raise required("metadata.name", "name or generateName is required")
    _refuse("metadata.name", meta.name, name_errors(meta.name))
    if namespaced:
        _refuse("metadata.namespace", meta.namespace, dns_label_errors(meta.namespace))
    for key, value in meta.labels.items():
        _refuse("metadata.labels", key, qualified_name_errors(key))
        _refuse("metadata.labels", value, label_value_errors(value))


def validate_amounts(resources: ResourceList, path: str) -> None:
    """Quantities of a node's resource list: well formed and not negative."""
    for name, text in resources.items():
        try:
            quantity = parse(text)
        except QuantityError as error:
            raise invalid(f"{path}.{name}", error.text, error.reason) from None
        if quantity.nano < 0:
            raise invalid(f"{path}.{name}", text, "must be greater than or equal to 0")


def _refuse(path: str, found: str, messages: tuple[str, ...]) -> None:
    if messages:
        raise invalid(path, found, messages[0])


def _node(node: Node) -> None:
    validate_amounts(node.status.capacity, "status.capacity")
    validate_amounts(node.status.allocatable, "status.allocatable")
    for index, message in declaration_errors(node.status.declared_features):
        found = node.status.declared_features[index]
        if not message:
            raise FieldError(f"status.declaredFeatures[{index}]", f'Duplicate value: "{found}"')
        raise invalid(f"status.declaredFeatures[{index}]", found, message)
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(node.spec.taints):
        path = f"spec.taints[{index}]"
        if not taint.key:
            raise required(f"{path}.key")
        _refuse(f"{path}.key", taint.key, qualified_name_errors(taint.key))
        _refuse(f"{path}.value", taint.value, label_value_errors(taint.value))
        if taint.effect not in EFFECTS:
            raise unsupported(f"{path}.effect", taint.effect, EFFECTS)
        if (taint.key, taint.effect) in seen:
            raise FieldError(
                path, f'Duplicate value: "{taint.key}:{taint.effect}": taints must be unique by key and effect pair'
            )
        seen.add((taint.key, taint.effect))


def _device_class(found: DeviceClass) -> None:
    name = found.spec.extended_resource_name
    if name is not None and (not is_extended_resource(name) or qualified_name_errors(f"requests.{name}")):
        raise invalid("spec.extendedResourceName", name, "must be a valid extended resource name")


def _device_taint_rule(rule: DeviceTaintRule) -> None:
    selector, taint = rule.spec.device_selector, rule.spec.taint
    if selector is not None and selector.driver is not None:
        _refuse("spec.deviceSelector.driver", selector.driver, dns_subdomain_errors(selector.driver))
    for part in selector.pool.split("/") if selector is not None and selector.pool is not None else ():
        _refuse("spec.deviceSelector.pool", part, dns_subdomain_errors(part))
    if selector is not None and selector.device is not None:
        _refuse("spec.deviceSelector.device", selector.device, dns_label_errors(selector.device))
    _refuse("spec.taint.key", taint.key, qualified_name_errors(taint.key))
    _refuse("spec.taint.value", taint.value, label_value_errors(taint.value))
    if taint.effect not in DEVICE_TAINT_EFFECTS:
        raise unsupported("spec.taint.effect", taint.effect, DEVICE_TAINT_EFFECTS)


def _priority_class(found: PriorityClass) -> None:
    if found.name in SYSTEM_CLASSES:
        if found.value != SYSTEM_CLASSES[found.name]:
            raise invalid("value", found.value, f"value of {found.name} must be {SYSTEM_CLASSES[found.name]}")
    elif found.name.startswith("system-"):
        raise forbidden(
            "metadata.name",
            "priority class names with 'system-' prefix are reserved for system use only. error: "
            f"{found.name} is not a known system priority class",
        )
    elif found.value > HIGHEST_USER_PRIORITY:
        raise forbidden("value", f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}")
    if found.value < -_MAX_INT32 - 1:
        raise invalid("value", found.value, "must fit into 32 bits")
    if found.preemption_policy not in PREEMPTION_POLICIES:
        raise unsupported("preemptionPolicy", found.preemption_policy, PREEMPTION_POLICIES)


def _budget(budget: PodDisruptionBudget) -> None:
    spec = budget.spec
    if spec.min_available is not None and spec.max_unavailable is not None:
        raise invalid("spec", "{minAvailable, maxUnavailable}", "minAvailable and maxUnavailable cannot be both set")
    for name, amount in (("minAvailable", spec.min_available), ("maxUnavailable", spec.max_unavailable)):
        if isinstance(amount, int) and amount < 0:
            raise invalid(f"spec.{name}", amount, "must be greater than or equal to 0")
        if isinstance(amount, str):
            digits = amount.removesuffix("%")
            if digits == amount or not digits.isascii() or not digits.isdigit() or len(digits) > 9:
                raise invalid(
                    f"spec.{name}", amount, "a valid percent string must be a numeric string followed by an ending '%'"
                )
            if int(digits) > 100:
                raise invalid(f"spec.{name}", amount, "must not be greater than 100%")
    validate_label_selector(spec.selector, "spec.selector")


def _quota(quota: ResourceQuota) -> None:
    validate_amounts(quota.spec.hard, "spec.hard")
    for index, scope in enumerate(quota.spec.scopes):
        if scope not in QUOTA_SCOPES:
            raise unsupported(f"spec.scopes[{index}]", scope, QUOTA_SCOPES)
    selector = quota.spec.scope_selector
    for index, term in enumerate(selector.match_expressions if selector is not None else ()):
        path = f"spec.scopeSelector.matchExpressions[{index}]"
        if term.scope_name not in QUOTA_SCOPES:
            raise unsupported(f"{path}.scopeName", term.scope_name, QUOTA_SCOPES)
        if term.operator not in _SCOPE_OPERATORS:
            raise unsupported(f"{path}.operator", term.operator, _SCOPE_OPERATORS)
        if term.operator in ("In", "NotIn") and not term.values:
            raise required(f"{path}.values", "must be at least one value when `operator` is 'In' or 'NotIn'")


def _limit_range(limits: LimitRange) -> None:
    for index, item in enumerate(limits.spec.limits):
        path = f"spec.limits[{index}]"
        if not item.type:
            raise required(f"{path}.type")
        for name in ("min", "max", "default", "default_request", "max_limit_request_ratio"):
            first, *more = name.split("_")
            validate_amounts(getattr(item, name), f"{path}.{first}{''.join(map(str.capitalize, more))}")
        if item.type == "Pod" and (item.default or item.default_request):
            part = "default" if item.default else "defaultRequest"
            raise forbidden(f"{path}.{part}", "may not be specified when `type` is 'Pod'")


_RULES: Final[Mapping[type[KubernetesObject], Callable[[Any], None]]] = {
    Pod: validate_pod,
    Node: _node,
    PriorityClass: _priority_class,
    PodDisruptionBudget: _budget,
    ResourceQuota: _quota,
    LimitRange: _limit_range,
    DeviceClass: _device_class,
    DeviceTaintRule: _device_taint_rule,
    Workload: validate_workload,
    CompositePodGroup: validate_composite_pod_group,
}
