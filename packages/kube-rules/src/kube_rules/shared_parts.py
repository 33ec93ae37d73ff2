"""Equal parts of pods kept once.

A decoder makes every text and every part of an object anew: 200,000 pods have 200,000 names of the same few schedulers
and as many copies of the same two tolerations. What is equal is replaced by the one that came first.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import force_setattr

from kube_rules.caching import remembered
from kube_rules.meta import EMPTY_MAP, OwnerReference
from kube_rules.objects import DEFAULT_SCHEDULER, Container, Pod, Toleration

_MOST: Final = 16_384
_MOST_ITEMS: Final = 8
_LONGEST: Final = 256
"""Lists of more items, or of items with longer texts, are left as they are: what is kept has a bound."""
_parts: dict[Any, Any] = {}


def share(pod: Pod) -> None:
    """Replace parts of a new pod, which no other code has seen yet, by equal ones; its value stays the same."""
    meta, spec = pod.metadata, pod.spec
    _text(meta, "namespace", meta.namespace)
    _text(spec, "node_name", spec.node_name)
    if spec.scheduler_name != DEFAULT_SCHEDULER:  # one that is given is written into snapshots, the default is not
        _text(spec, "scheduler_name", spec.scheduler_name)
    if not meta.annotations:
        force_setattr(meta, "annotations", EMPTY_MAP)
    if not spec.node_selector:
        force_setattr(spec, "node_selector", EMPTY_MAP)
    _tuple(meta, "owner_references", meta.owner_references)
    _tuple(spec, "tolerations", spec.tolerations)
    for container in spec.containers:
        _share_container(container)


def _share_container(container: Container) -> None:
    _text(container, "name", container.name)
    needs = container.resources
    if not needs.limits and needs.limits is not EMPTY_MAP:
        force_setattr(needs, "limits", EMPTY_MAP)


def _is_short(item: OwnerReference | Toleration) -> bool:
    if isinstance(item, Toleration):
        return len(item.key) + len(item.operator) + len(item.value) + len(item.effect) <= _LONGEST
    return len(item.api_version) + len(item.kind) + len(item.name) + len(item.uid) <= _LONGEST


@remembered(65_536, _LONGEST)
def _first(text: str) -> str:
    """Return the equal text that came first, as long as it is kept."""
    return text


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
