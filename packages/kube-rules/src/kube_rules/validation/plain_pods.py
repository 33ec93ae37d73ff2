"""A quick check for pods that clearly violate no rule.

`validation.typed` calls it first: nearly all pods of a cluster are plain, and checking them rule by rule takes most of
the time of reading a file. All other pods are checked by the rules; a pod may be valid and not plain.

Invariant: a plain pod violates no rule of `validation.typed` (a property test compares the two).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from operator import attrgetter
from typing import Any, Final

import msgspec

from kube_rules import objects as o
from kube_rules.caching import remembered
from kube_rules.meta import ObjectMeta
from kube_rules.quantity import NANO
from kube_rules.requests import CONTAINER_RESOURCES
from kube_rules.validation import metadata, names, pods, resources, selectors

_is_word: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?").fullmatch
"""The form that is valid for every kind of name and for label values: most match, without a cache."""


def _all_but(kind: type[msgspec.Struct], checked: frozenset[str]) -> tuple[attrgetter[Any], Any]:
    """Return a reader of all other fields of a struct, and its result for default values."""
    unchecked = [name for name in kind.__struct_fields__ if name not in checked]
    read = attrgetter(*unchecked)
    return read, read(kind())


_META, _NO_META = _all_but(
    ObjectMeta,
    frozenset({"name", "namespace", "uid", "resource_version", "generation", "creation_timestamp", "labels"})
    | {"deletion_timestamp", "deletion_grace_period_seconds", "annotations", "owner_references"},
)
_SPEC, _NO_SPEC = _all_but(
    o.PodSpec,
    frozenset({"containers", "init_containers", "ephemeral_containers", "volumes", "node_name", "node_selector"})
    | {"affinity", "tolerations", "topology_spread_constraints", "priority", "priority_class_name", "scheduler_name"}
    | {"scheduling_group", "termination_grace_period_seconds", "restart_policy", "preemption_policy"},
)
_SPREAD, _NO_SPREAD = _all_but(
    o.TopologySpreadConstraint, frozenset({"max_skew", "topology_key", "when_unsatisfiable", "label_selector"})
)
_WHEN_UNSATISFIABLE: Final = ("DoNotSchedule", "ScheduleAnyway")
_CONTAINER, _NO_CONTAINER = _all_but(o.Container, frozenset({"name", "image", "resources", "volume_mounts"}))


def is_plain(pod: o.Pod) -> bool:
    """Return whether the pod certainly violates no rule, without checking the rules."""
    return _plain_meta(pod.metadata) and _plain_spec(pod.spec)


def _plain_meta(meta: ObjectMeta) -> bool:
    if _META(meta) != _NO_META or not _is_name(meta.name) or meta.generation < 0:
        return False
    if not meta.namespace or names.dns_label(meta.namespace) or not _are_labels(meta.labels):
        return False
    references = meta.owner_references
    if meta.annotations and not _are_short(meta.annotations):
        return False
    return len(references) < 2 and all(
        reference.api_version
        and reference.kind
        and reference.name
        and (reference.api_version, reference.kind) not in metadata.NOT_OWNERS
        for reference in references
    )


def _is_name(text: str) -> bool:
    return _is_word(text) is not None or (text != "" and not names.subdomain(text))


def _are_labels(labels: Mapping[str, str]) -> bool:
    for key, value in labels.items():
        if names.qualified(key) or (not _is_word(value) and names.label_value(value)):
            return False
    return True


_MOST_CHARACTERS: Final = 60_000
"""Maximum length of all annotations in characters: at most 240 kB in UTF-8."""


def _are_short(annotations: Mapping[str, str]) -> bool:
    size = sum(map(len, annotations)) + sum(map(len, annotations.values()))
    return size <= _MOST_CHARACTERS and not any(names.qualified(key.lower()) for key in annotations)


def _plain_spec(spec: o.PodSpec) -> bool:
    if _SPEC(spec) != _NO_SPEC or not spec.containers or spec.termination_grace_period_seconds < 0:
        return False
    names_: set[str] = set()
    for container in (*spec.containers, *spec.init_containers):
        if container.name in names_ or not _plain_container(container):
            return False
        names_.add(container.name)
    group = spec.scheduling_group
    return (
        (not spec.node_name or _is_name(spec.node_name))
        and spec.restart_policy in pods.RESTART_POLICIES
        and (spec.preemption_policy is None or spec.preemption_policy in pods.PREEMPTION)
        and not (spec.priority_class_name and names.subdomain(spec.priority_class_name))
        and (group is None or (group.pod_group_name is not None and not names.subdomain(group.pod_group_name)))
        and (not spec.node_selector or _are_labels(spec.node_selector))
        and (spec.affinity is None or _plain_affinity(spec.affinity))
        and (not spec.tolerations or _keeps("tolerations", spec.tolerations))
        and (not spec.topology_spread_constraints or _plain_spread(spec.topology_spread_constraints))
    )


def _plain_container(container: o.Container) -> bool:
    if _CONTAINER(container) != _NO_CONTAINER or not container.name or names.dns_label(container.name):
        return False
    needs = container.resources
    if needs.claims:
        return False
    requests, limits = needs.requests, needs.limits
    for name, amount in requests.items():
        if not (limits[name] == amount if name in limits else _is_amount(name, amount)):
            return False
    return not limits or all(_is_amount(name, amount) for name, amount in limits.items())


def _is_amount(name: str, amount: object) -> bool:
    if type(amount) is not str:
        return False
    nano = resources.nano(amount)
    return nano > 0 and (name in CONTAINER_RESOURCES or (nano % NANO == 0 and resources.is_extended(name)))


def _plain_affinity(affinity: o.Affinity) -> bool:
    """Check terms individually: pods that differ in one term or in a weight share the other terms."""
    of_nodes = affinity.node_affinity
    if of_nodes is not None:
        required = of_nodes.required_during_scheduling_ignored_during_execution
        if of_nodes.preferred_during_scheduling_ignored_during_execution:
            return _keeps("affinity", affinity)
        if required is not None and not _plain_node_selector(required):
            return False
    for kind in (affinity.pod_affinity, affinity.pod_anti_affinity):
        if kind is not None:
            for term in kind.required_during_scheduling_ignored_during_execution:
                if not _keeps_pod_term(_encode(term)):
                    return False
            for weighted in kind.preferred_during_scheduling_ignored_during_execution:
                if not 1 <= weighted.weight <= 100 or not _keeps_pod_term(_encode(weighted.pod_affinity_term)):
                    return False
    return True


def _plain_node_selector(selector: o.NodeSelector) -> bool:
    """Check a node selector; pods have separate lists of common values."""
    for term in selector.node_selector_terms:
        for expression in term.match_expressions:
            if expression.operator != "In" or not expression.values or names.qualified(expression.key):
                return _keeps_node_selector(_encode(selector))
            for value in expression.values:
                if names.label_value(value):
                    return False
        if term.match_fields:
            return _keeps_node_selector(_encode(selector))
    return bool(selector.node_selector_terms)


def _plain_spread(constraints: tuple[o.TopologySpreadConstraint, ...]) -> bool:
    """Check the spread constraints; pods of an application usually spread by its label."""
    if len(constraints) == 1:
        (only,) = constraints
        selector = only.label_selector
        if (
            _SPREAD(only) == _NO_SPREAD
            and only.max_skew > 0
            and only.when_unsatisfiable in _WHEN_UNSATISFIABLE
            and only.topology_key
            and not names.qualified(only.topology_key)
            and (selector is None or (not selector.match_expressions and _are_labels(selector.match_labels)))
        ):
            return True
    return _keeps("topologySpreadConstraints", constraints)


def _keeps(name: str, part: object) -> bool:
    """Return whether a field of a spec violates no rule."""
    return _keep_rules(_encode({name: part}))


def _encode(part: object) -> bytes:
    """Return a part of a spec as JSON; null, which violates a rule, for texts that JSON cannot express."""
    try:
        return msgspec.json.encode(part)
    except (UnicodeEncodeError, OverflowError):
        return b"null"


@remembered(4096, 4096)
def _keep_rules(part: bytes) -> bool:
    return part != b"null" and not any(True for _ in pods.fields(msgspec.json.decode(part), "spec"))


@remembered(4096, 4096)
def _keeps_pod_term(term: bytes) -> bool:
    return term != b"null" and not any(True for _ in selectors.pod_term(msgspec.json.decode(term), ""))


@remembered(4096, 4096)
def _keeps_node_selector(selector: bytes) -> bool:
    return selector != b"null" and not any(True for _ in selectors.node_selector(msgspec.json.decode(selector), ""))
