"""Sharing of equal parts of pods and nodes.

A decoder creates every text and every part of an object again: 200,000 pods have 200,000 names of the same few
schedulers and as many copies of the same two tolerations. This module replaces equal parts by the first of them.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import force_setattr

from kube_rules.caching import Results
from kube_rules.meta import (
    EMPTY_MAP,
    LabelSelector,
    NodeSelectorRequirement,
    ObjectMeta,
    OwnerReference,
    ResourceList,
)
from kube_rules.objects import (
    DEFAULT_SCHEDULER,
    Affinity,
    Container,
    Node,
    Pod,
    PodAffinityTerm,
    Toleration,
    TopologySpreadConstraint,
)

_MOST: Final = 16_384
_MOST_ITEMS: Final = 8
_LONGEST: Final = 256
"""Lists with more items, or with longer texts in items, are not shared: the cache has a bound."""
_parts: dict[Any, Any] = {}
_selecting: dict[tuple[type[Any], bytes], Any] = {}
"""Terms, constraints and selectors by their JSON, because the maps in them are not hashable."""
_texts: Final = Results[str, str](lambda text: text, 65_536, _LONGEST)
_first: Final = _texts.__getitem__
"""Return the first equal text, as long as it is cached."""
_encode: Final = msgspec.json.Encoder().encode
SelectingT = TypeVar("SelectingT", PodAffinityTerm, TopologySpreadConstraint, LabelSelector)


def forget_shared() -> None:
    """Clear the caches after all objects of an input are read; the objects keep their shared parts."""
    _parts.clear()
    _selecting.clear()
    _texts.clear()


def share(pod: Pod) -> None:
    """Replace parts of a new pod, which no other code uses yet, by equal ones; its value stays the same."""
    meta, spec = pod.metadata, pod.spec
    _text(meta, "namespace", meta.namespace)
    _share_labels(meta)
    _text(spec, "node_name", spec.node_name)
    if spec.scheduler_name != DEFAULT_SCHEDULER:  # an explicit name is written into snapshots, the default is not
        _text(spec, "scheduler_name", spec.scheduler_name)
    if not spec.node_selector:
        force_setattr(spec, "node_selector", EMPTY_MAP)
    _tuple(meta, "owner_references", meta.owner_references)
    _tuple(spec, "tolerations", spec.tolerations)
    for container in spec.containers:
        _share_container(container)
    if spec.affinity is not None:
        _share_terms(spec.affinity)
    if spec.topology_spread_constraints:
        force_setattr(
            spec, "topology_spread_constraints", tuple(map(_selecting_alike, spec.topology_spread_constraints))
        )


def share_node(node: Node) -> None:
    """Share the parts of a new node: many have equal capacity and allocatable, and all have the same conditions."""
    status = node.status
    _share_labels(node.metadata)
    _share_amounts(status.capacity)
    if status.allocatable == status.capacity:
        force_setattr(status, "allocatable", status.capacity)
    else:
        _share_amounts(status.allocatable)
    for condition in status.conditions:
        for name in ("type", "status", "reason", "message"):
            _text(condition, name, getattr(condition, name))


def _share_labels(meta: ObjectMeta) -> None:
    for key, value in meta.labels.items():
        meta.labels[key] = meta.name if value == meta.name else _first(value)
    if not meta.annotations:
        force_setattr(meta, "annotations", EMPTY_MAP)


def _share_amounts(amounts: ResourceList) -> None:
    for name, amount in amounts.items():
        if type(amount) is str:
            amounts[name] = _first(amount)


def _share_terms(affinity: Affinity) -> None:
    """Share single terms: pods that differ in a weight or in one of several terms share the other terms."""
    of_nodes = affinity.node_affinity
    required = of_nodes.required_during_scheduling_ignored_during_execution if of_nodes is not None else None
    if required is not None:
        for selector in required.node_selector_terms:
            force_setattr(selector, "match_expressions", tuple(map(_requirement, selector.match_expressions)))
    for kind in (affinity.pod_affinity, affinity.pod_anti_affinity):
        if kind is not None:
            terms = kind.required_during_scheduling_ignored_during_execution
            if terms:
                force_setattr(
                    kind, "required_during_scheduling_ignored_during_execution", tuple(map(_selecting_alike, terms))
                )
            for weighted in kind.preferred_during_scheduling_ignored_during_execution:
                force_setattr(weighted, "pod_affinity_term", _selecting_alike(weighted.pod_affinity_term))


def _requirement(requirement: NodeSelectorRequirement) -> NodeSelectorRequirement:
    if len(requirement.values) > _MOST_ITEMS:
        return requirement
    return NodeSelectorRequirement(
        key=_first(requirement.key),
        operator=_first(requirement.operator),
        values=tuple(map(_first, requirement.values)),
    )


def _selecting_alike(part: SelectingT) -> SelectingT:
    """Return the first equal part; a new part gets a shared selector and a shared key."""
    try:
        text = _encode(part)
    except UnicodeEncodeError:  # a lone surrogate, which JSON text cannot have
        return part
    shared: SelectingT | None = _selecting.get((type(part), text))
    if shared is None:
        if len(text) > _LONGEST:
            return part
        if not isinstance(part, LabelSelector):
            _text(part, "topology_key", part.topology_key)
            if part.label_selector is not None:
                force_setattr(part, "label_selector", _selecting_alike(part.label_selector))
        if len(_selecting) >= _MOST:
            _selecting.clear()
        shared = _selecting[type(part), text] = part
    return shared


def _share_container(container: Container) -> None:
    _text(container, "name", container.name)
    _text(container, "image", container.image)
    needs = container.resources
    _share_amounts(needs.requests)
    if not needs.limits and needs.limits is not EMPTY_MAP:
        force_setattr(needs, "limits", EMPTY_MAP)


def _is_short(item: OwnerReference | Toleration) -> bool:
    if isinstance(item, Toleration):
        return len(item.key) + len(item.operator) + len(item.value) + len(item.effect) <= _LONGEST
    return len(item.api_version) + len(item.kind) + len(item.name) + len(item.uid) <= _LONGEST


def _text(holder: Any, name: str, text: str) -> None:
    if text:
        force_setattr(holder, name, _first(text))


def _tuple(holder: Any, name: str, items: tuple[Any, ...]) -> None:
    if 0 < len(items) <= _MOST_ITEMS and all(_is_short(item) for item in items):
        shared = _parts.get(items)
        if shared is not None:
            force_setattr(holder, name, shared)
        else:
            if len(_parts) >= _MOST:
                _parts.clear()
            _parts[items] = items
