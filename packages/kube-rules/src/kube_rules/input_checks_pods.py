"""Rules of pods (pkg/apis/core/validation), as far as a scheduler depends on them.

Invariant: see `validation`. The checks of resource lists are remembered, because pods repeat each other.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import Final

from kube_rules.errors import FieldError, duplicate, forbidden, invalid, required, unsupported
from kube_rules.labels import (
    dns_label_errors,
    dns_subdomain_errors,
    label_value_errors,
    qualified_name_errors,
)
from kube_rules.meta import LabelSelector, LabelSelectorRequirement, NodeSelectorRequirement, NodeSelectorTerm
from kube_rules.objects import (
    Container,
    ContainerPort,
    NodeAffinity,
    Pod,
    PodAffinityTerm,
    PodSpec,
    ResourceRequirements,
    Toleration,
    TopologySpreadConstraint,
)
from kube_rules.quantity import NANO, QuantityError, QuantityText, parse
from kube_rules.requests import is_extended_resource, is_pod_level_resource
from kube_rules.selectors import LABEL_SELECTOR_OPERATORS, NODE_SELECTOR_OPERATORS, parse_integer
from kube_rules.taints import EFFECTS

TOLERATION_OPERATORS: Final = ("Equal", "Exists", "Lt", "Gt")
PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
PREEMPTION_POLICIES: Final = ("PreemptLowerPriority", "Never")
_STANDARD_CONTAINER_RESOURCES: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
RESTART_POLICIES: Final = ("Always", "Never", "OnFailure")
_MAX_INT32: Final = 2**31 - 1
_INTEGER_MESSAGE: Final = "must be an integer"

_Items = tuple[tuple[str, QuantityText], ...]


def validate_pod(pod: Pod) -> None:
    """Raise `FieldError` for the first rule the pod's spec breaks."""
    spec = pod.spec
    if spec.workload_ref is not None:
        raise forbidden(
            "spec.workloadRef",
            "scheduling.k8s.io/v1alpha1 is not served: name the group in spec.schedulingGroup.podGroupName",
        )
    if not spec.containers:
        raise required("spec.containers")
    names: set[str] = set()
    for index, container in enumerate(spec.containers):
        _container(container, f"spec.containers[{index}]", names)
    for index, container in enumerate(spec.init_containers):
        _container(container, f"spec.initContainers[{index}]", names)
    if spec.resources is not None:
        _pod_level(spec.resources)
    if spec.overhead:
        _amounts(tuple(spec.overhead.items()), "spec.overhead")
    for index, toleration in enumerate(spec.tolerations):
        _toleration(toleration, f"spec.tolerations[{index}]")
    for key, value in spec.node_selector.items():
        _refuse("spec.nodeSelector", key, qualified_name_errors(key))
        _refuse("spec.nodeSelector", value, label_value_errors(value))
    if spec.affinity is not None:
        _affinity(spec)
    for index, constraint in enumerate(spec.topology_spread_constraints):
        _spread(constraint, f"spec.topologySpreadConstraints[{index}]")
    _scheduling(spec)


def _refuse(path: str, found: str, messages: tuple[str, ...]) -> None:
    if messages:
        raise invalid(path, found, messages[0])


def _scheduling(spec: PodSpec) -> None:
    if spec.node_name:
        _refuse("spec.nodeName", spec.node_name, dns_subdomain_errors(spec.node_name))
    if spec.scheduling_gates:
        if spec.node_name:
            raise forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")
        gates: set[str] = set()
        for index, gate in enumerate(spec.scheduling_gates):
            path = f"spec.schedulingGates[{index}]"
            _refuse(path, gate.name, qualified_name_errors(gate.name))
            if gate.name in gates:
                raise duplicate(path, gate.name)
            gates.add(gate.name)
    if spec.scheduling_group is not None:
        path = "spec.schedulingGroup.podGroupName"
        name = spec.scheduling_group.pod_group_name
        if name is None:
            raise invalid(path, None, "must specify one of: `podGroupName`")
        _refuse(path, name, dns_subdomain_errors(name))
    if spec.preemption_policy is not None and spec.preemption_policy not in PREEMPTION_POLICIES:
        raise unsupported("spec.preemptionPolicy", spec.preemption_policy, PREEMPTION_POLICIES)
    if spec.priority is not None and not -_MAX_INT32 - 1 <= spec.priority <= _MAX_INT32:
        raise invalid("spec.priority", spec.priority, "must fit into 32 bits")
    if spec.priority_class_name:
        _refuse("spec.priorityClassName", spec.priority_class_name, dns_subdomain_errors(spec.priority_class_name))
    grace = spec.termination_grace_period_seconds
    if grace is not None and grace < 0:
        raise invalid("spec.terminationGracePeriodSeconds", grace, "must be greater than or equal to 0")


# --- containers and resources -------------------------------------------------------------------------------


def _container(container: Container, path: str, names: set[str]) -> None:
    name = container.name
    if not name:
        raise required(f"{path}.name")
    _refuse(f"{path}.name", name, dns_label_errors(name))
    if name in names:
        raise duplicate(f"{path}.name", name)
    names.add(name)
    if container.restart_policy and container.restart_policy not in RESTART_POLICIES:
        raise unsupported(f"{path}.restartPolicy", container.restart_policy, RESTART_POLICIES)
    resources = container.resources
    if resources.requests or resources.limits:
        given = tuple(resources.requests.items()), tuple(resources.limits.items())
        short = sum(len(name) for items in given for name, _ in items) <= _REMEMBERED
        problem = (_resources if short else _resources.__wrapped__)(*given)
        if problem is not None:
            raise FieldError(f"{path}.resources.{problem[0]}", problem[1])
    for index, port in enumerate(container.ports):
        _port(port, f"{path}.ports[{index}]")


_REMEMBERED = 512
"""Characters the names of resources may have that are kept."""


@lru_cache(maxsize=8192)
def _resources(requests: _Items, limits: _Items) -> tuple[str, str] | None:
    """(path below `resources`, message) of what is wrong with requests and limits, or None."""
    try:
        for field, items in (("limits", limits), ("requests", requests)):
            for name, _ in items:
                _resource_name(name, f"{field}[{name}]")
            _amounts(items, field)
        _against_limits(dict(requests), dict(limits))
    except FieldError as error:
        return error.path, error.message
    return None


def _resource_name(name: str, path: str) -> None:
    _refuse(path, name, qualified_name_errors(name))
    if "/" in name or name in _STANDARD_CONTAINER_RESOURCES or name.startswith("hugepages-"):
        return
    raise invalid(path, name, "must be a standard resource for containers or fully qualified")


def _amounts(items: _Items, path: str) -> None:
    for name, text in items:
        at = f"{path}[{name}]"
        try:
            quantity = parse(text)
        except QuantityError as error:
            raise invalid(at, error.text, error.reason) from None
        if quantity.nano < 0:
            raise invalid(at, text, "must be greater than or equal to 0")
        if quantity.nano % NANO and (is_extended_resource(name) or name.startswith("hugepages-")):
            raise invalid(at, text, _INTEGER_MESSAGE)


def _against_limits(requests: dict[str, QuantityText], limits: dict[str, QuantityText]) -> None:
    for name, text in requests.items():
        limit = limits.get(name)
        if limit is None:
            continue
        wanted, allowed = parse(text), parse(limit)
        if is_extended_resource(name) or name.startswith("hugepages-"):
            if wanted.nano != allowed.nano:
                raise invalid("requests", wanted.text, f"must be equal to {name} limit of {allowed.text}")
        elif wanted.nano > allowed.nano:
            raise invalid("requests", wanted.text, f"must be less than or equal to {name} limit of {allowed.text}")


def _pod_level(resources: ResourceRequirements) -> None:
    path = "spec.resources"
    for field, items in (("limits", resources.limits), ("requests", resources.requests)):
        for name in items:
            if not is_pod_level_resource(name):
                raise unsupported(f"{path}.{field}[{name}]", name, ("cpu", "memory", "hugepages-*"))
        _amounts(tuple(items.items()), f"{path}.{field}")
    try:
        _against_limits(resources.requests, resources.limits)
    except FieldError as error:
        raise FieldError(f"{path}.{error.path}", error.message) from None


def _port(port: ContainerPort, path: str) -> None:
    if not 0 < port.container_port < 65536:
        raise invalid(f"{path}.containerPort", port.container_port, "must be between 1 and 65535, inclusive")
    if not 0 <= port.host_port < 65536:
        raise invalid(f"{path}.hostPort", port.host_port, "must be between 1 and 65535, inclusive")
    if port.protocol not in PROTOCOLS:
        raise unsupported(f"{path}.protocol", port.protocol, PROTOCOLS)
    if port.host_ip:
        try:
            ipaddress.ip_address(port.host_ip)
        except ValueError:
            raise invalid(
                f"{path}.hostIP", port.host_ip, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
            ) from None


# --- tolerations, affinity, spreading -----------------------------------------------------------------------


def _toleration(toleration: Toleration, path: str) -> None:
    operator = toleration.operator or "Equal"
    if toleration.key:
        _refuse(f"{path}.key", toleration.key, qualified_name_errors(toleration.key))
    elif operator != "Exists":
        raise invalid(
            f"{path}.operator",
            toleration.operator,
            'operator must be Exists when `key` is empty, which means "match all values and all keys"',
        )
    if toleration.toleration_seconds is not None and toleration.effect != "NoExecute":
        raise invalid(f"{path}.effect", toleration.effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
    if operator not in TOLERATION_OPERATORS:
        raise unsupported(f"{path}.operator", operator, TOLERATION_OPERATORS)
    if operator == "Exists" and toleration.value:
        raise invalid(f"{path}.operator", toleration.value, "value must be empty when `operator` is 'Exists'")
    if operator == "Equal":
        _refuse(f"{path}.value", toleration.value, label_value_errors(toleration.value))
    if operator in ("Lt", "Gt") and parse_integer(toleration.value) is None:
        raise invalid(f"{path}.value", toleration.value, _INTEGER_MESSAGE)
    if toleration.effect and toleration.effect not in EFFECTS:
        raise unsupported(f"{path}.effect", toleration.effect, EFFECTS)


def _affinity(spec: PodSpec) -> None:
    affinity = spec.affinity
    assert affinity is not None
    if affinity.node_affinity is not None:
        _node_affinity(affinity.node_affinity)
    for name, rules in (("podAffinity", affinity.pod_affinity), ("podAntiAffinity", affinity.pod_anti_affinity)):
        if rules is None:
            continue
        path = f"spec.affinity.{name}"
        for index, term in enumerate(rules.required_during_scheduling_ignored_during_execution):
            _pod_term(term, f"{path}.requiredDuringSchedulingIgnoredDuringExecution[{index}]")
        for index, weighted in enumerate(rules.preferred_during_scheduling_ignored_during_execution):
            at = f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
            _weight(weighted.weight, at)
            _pod_term(weighted.pod_affinity_term, f"{at}.podAffinityTerm")


def _weight(weight: int, path: str) -> None:
    if not 1 <= weight <= 100:
        raise invalid(f"{path}.weight", weight, "must be in the range 1-100")


def _node_affinity(affinity: NodeAffinity) -> None:
    path = "spec.affinity.nodeAffinity"
    needed = affinity.required_during_scheduling_ignored_during_execution
    if needed is not None:
        at = f"{path}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
        if not needed.node_selector_terms:
            raise required(at, "must have at least one node selector term")
        for index, term in enumerate(needed.node_selector_terms):
            _node_term(term, f"{at}[{index}]")
    for index, preferred in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
        at = f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
        _weight(preferred.weight, at)
        _node_term(preferred.preference, f"{at}.preference")


def _node_term(term: NodeSelectorTerm, path: str) -> None:
    for index, requirement in enumerate(term.match_expressions):
        at = f"{path}.matchExpressions[{index}]"
        _node_requirement(requirement, at)
        _refuse(f"{at}.key", requirement.key, qualified_name_errors(requirement.key))
    for index, requirement in enumerate(term.match_fields):
        at = f"{path}.matchFields[{index}]"
        if requirement.operator not in ("In", "NotIn"):
            raise invalid(f"{at}.operator", requirement.operator, "not a valid selector operator")
        if len(requirement.values) != 1:
            raise required(
                f"{at}.values", "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            )
        if requirement.key != "metadata.name":
            raise invalid(f"{at}.key", requirement.key, "not a valid field selector key")
        _refuse(f"{at}.values[0]", requirement.values[0], dns_subdomain_errors(requirement.values[0]))


def _node_requirement(requirement: NodeSelectorRequirement, path: str) -> None:
    operator, values = requirement.operator, requirement.values
    if operator not in NODE_SELECTOR_OPERATORS:
        raise invalid(f"{path}.operator", operator, "not a valid selector operator")
    _operator_values(operator, values, path)
    if operator in ("Gt", "Lt") and len(values) != 1:
        raise required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")


def _operator_values(operator: str, values: tuple[str, ...], path: str) -> None:
    if operator in ("In", "NotIn") and not values:
        raise required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    if operator in ("Exists", "DoesNotExist") and values:
        raise forbidden(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")


def _pod_term(term: PodAffinityTerm, path: str) -> None:
    if not term.topology_key:
        raise required(f"{path}.topologyKey", "can not be empty")
    _refuse(f"{path}.topologyKey", term.topology_key, qualified_name_errors(term.topology_key))
    validate_label_selector(term.label_selector, f"{path}.labelSelector")
    validate_label_selector(term.namespace_selector, f"{path}.namespaceSelector")
    for index, namespace in enumerate(term.namespaces):
        _refuse(f"{path}.namespaces[{index}]", namespace, dns_label_errors(namespace))
    for field, keys in (("matchLabelKeys", term.match_label_keys), ("mismatchLabelKeys", term.mismatch_label_keys)):
        if keys and term.label_selector is None:
            raise forbidden(f"{path}.{field}", "must not be specified when labelSelector is not set")
        for index, key in enumerate(keys):
            _refuse(f"{path}.{field}[{index}]", key, qualified_name_errors(key))
            if field == "mismatchLabelKeys" and key in term.match_label_keys:
                raise invalid(f"{path}.{field}[{index}]", key, "exists in both matchLabelKeys and mismatchLabelKeys")


def _spread(constraint: TopologySpreadConstraint, path: str) -> None:
    if constraint.max_skew <= 0:
        raise invalid(f"{path}.maxSkew", constraint.max_skew, "must be greater than zero")
    if not constraint.topology_key:
        raise required(f"{path}.topologyKey", "can not be empty")
    _refuse(f"{path}.topologyKey", constraint.topology_key, qualified_name_errors(constraint.topology_key))
    for field, found, supported in (
        ("whenUnsatisfiable", constraint.when_unsatisfiable, ("DoNotSchedule", "ScheduleAnyway")),
        ("nodeAffinityPolicy", constraint.node_affinity_policy, ("Honor", "Ignore")),
        ("nodeTaintsPolicy", constraint.node_taints_policy, ("Honor", "Ignore")),
    ):
        if found not in supported:
            raise unsupported(f"{path}.{field}", found, supported)
    if constraint.min_domains is not None:
        if constraint.min_domains <= 0:
            raise invalid(f"{path}.minDomains", constraint.min_domains, "must be greater than zero")
        if constraint.when_unsatisfiable != "DoNotSchedule":
            raise invalid(
                f"{path}.minDomains",
                constraint.min_domains,
                "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway",
            )
    validate_label_selector(constraint.label_selector, f"{path}.labelSelector")
    if constraint.match_label_keys and constraint.label_selector is None:
        raise forbidden(f"{path}.matchLabelKeys", "must not be specified when labelSelector is not set")
    for index, key in enumerate(constraint.match_label_keys):
        _refuse(f"{path}.matchLabelKeys[{index}]", key, qualified_name_errors(key))


# --- label selectors ----------------------------------------------------------------------------------------


def validate_label_selector(selector: LabelSelector | None, path: str) -> None:
    """Keys, operators and values of a label selector; None is fine, it selects nothing."""
    if selector is None:
        return
    for key, value in selector.match_labels.items():
        _refuse(f"{path}.matchLabels", key, qualified_name_errors(key))
        _refuse(f"{path}.matchLabels", value, label_value_errors(value))
    for index, expression in enumerate(selector.match_expressions):
        _label_requirement(expression, f"{path}.matchExpressions[{index}]")


def _label_requirement(requirement: LabelSelectorRequirement, path: str) -> None:
    if requirement.operator not in LABEL_SELECTOR_OPERATORS:
        raise invalid(f"{path}.operator", requirement.operator, "not a valid selector operator")
    _operator_values(requirement.operator, requirement.values, path)
    _refuse(f"{path}.key", requirement.key, qualified_name_errors(requirement.key))
    for index, value in enumerate(requirement.values):
        _refuse(f"{path}.values[{index}]", value, label_value_errors(value))
