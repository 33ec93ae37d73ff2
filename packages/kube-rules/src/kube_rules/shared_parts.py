"""Equal parts of pods and nodes kept once.

A decoder makes every text and every part of an object again: 200,000 pods have 200,000 names of the same few schedulers
and as many copies of the same two tolerations. What is equal is replaced by the one that came first.
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
"""Lists of more items, or of items with longer texts, are left as they are: what is kept has a bound."""
_parts: dict[Any, Any] = {}
_selecting: dict[tuple[type[Any], bytes], Any] = {}
"""Terms, constraints and selectors by their JSON: the maps in them cannot be looked up."""
_texts: Final = Results[str, str](lambda text: text, 65_536, _LONGEST)
_first: Final = _texts.__getitem__
"""Returns the equal text that came first, as long as it is kept."""
_encode: Final = msgspec.json.Encoder().encode
SelectingT = TypeVar("SelectingT", PodAffinityTerm, TopologySpreadConstraint, LabelSelector)


def forget_shared() -> None:
    """Forget what came first: all objects of an input are read, and what they share is theirs."""
    _parts.clear()
    _selecting.clear()
    _texts.clear()


def share(pod: Pod) -> None:
    """Replace parts of a new pod, which no other code has seen yet, by equal ones; its value stays the same."""
    meta, spec = pod.metadata, pod.spec
    _text(meta, "namespace", meta.namespace)
    _share_labels(meta)
    _text(spec, "node_name", spec.node_name)
    if spec.scheduler_name != DEFAULT_SCHEDULER:  # one that is given is written into snapshots, the default is not
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
    """`share` for a new node: many have all of their capacity to allocate, and all the same conditions."""
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
    """Pods that differ in a weight, or in one term of several, have the others in common."""
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


def _requirement(found: NodeSelectorRequirement) -> NodeSelectorRequirement:
    if len(found.values) > _MOST_ITEMS:
        return found
    return NodeSelectorRequirement(
        key=_first(found.key), operator=_first(found.operator), values=tuple(map(_first, found.values))
    )


def _selecting_alike(found: SelectingT) -> SelectingT:
    """Return the equal one that came first; of a new one the selector and the key are those that came first."""
    try:
        text = _encode(found)
    except UnicodeEncodeError:  # a lone surrogate, which no text of JSON has
        return found
    known: SelectingT | None = _selecting.get((type(found), text))
    if known is None:
        if len(text) > _LONGEST:
            return found
        if not isinstance(found, LabelSelector):
            _text(found, "topology_key", found.topology_key)
            if found.label_selector is not None:
                force_setattr(found, "label_selector", _selecting_alike(found.label_selector))
        if len(_selecting) >= _MOST:
            _selecting.clear()
        known = _selecting[type(found), text] = found
    return known


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
        known = _parts.get(items)
        if known is not None:
            force_setattr(holder, name, known)
        else:
            if len(_parts) >= _MOST:
                _parts.clear()
            _parts[items] = items
