"""Walks over an object and its schema for field ownership: paths of a value, differences, merging, and removal.

The rules are those of structured merge (KEP-555): atomic values and scalars are one path; a struct or map has the paths
of its fields; a keyed list or a set has the paths of its items. Values of unknown type inside a custom resource are
merged by their shape: objects by key, lists as a whole.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from kube_rules.caching import LONGEST
from kube_rules.json import Json
from kube_rules.schema.nodes import UNTYPED
from kube_standin.patching.errors import PatchError
from kube_standin.patching.fieldsets import DOT, LEAF, Trie, is_member
from kube_standin.schema import SchemaNode, SchemaType

_quoted = json.encoder.encode_basestring
_GRANULAR = (SchemaType.STRUCT, SchemaType.MAP)


def _is_granular_map(node: SchemaNode, value: Any) -> bool:
    """Return whether the value is owned key by key."""
    if node.atomic or type(value) is not dict:
        return False
    return node.type in _GRANULAR or node.type is SchemaType.ANY


def _is_granular_list(node: SchemaNode, value: Any) -> bool:
    return node.type is SchemaType.LIST and not node.atomic and type(value) is list


def below(node: SchemaNode, key: str) -> SchemaNode:
    """Return the node of a key of a struct, map or unknown object."""
    if node.type is SchemaType.STRUCT:
        field_node = node.fields.get(key)
        if field_node is not None:
            return field_node
        return node.element or UNTYPED
    return node.element if node.type is SchemaType.MAP and node.element is not None else UNTYPED


def _named(node: SchemaNode, key: str) -> bool:
    return node.type is SchemaType.STRUCT and key in node.fields


def _key_element(names: tuple[str, ...], values: tuple[Any, ...]) -> str:
    if len(names) == 1 and isinstance(values[0], str):
        return f"k:{{{_quoted(names[0])}:{_quoted(values[0])}}}"
    short = all(not isinstance(value, str) or len(value) <= LONGEST for value in values)
    return _kept_key_element(names, values) if short else _kept_key_element.__wrapped__(names, values)


@lru_cache(maxsize=4096)
def _kept_key_element(names: tuple[str, ...], values: tuple[Any, ...]) -> str:
    pairs = dict(sorted(zip(names, values, strict=True)))
    return "k:" + json.dumps(pairs, separators=(",", ":"), ensure_ascii=False)


def element_of(node: SchemaNode, item: Any) -> str:
    """Return the path element of an item of a keyed list or a set.

    Raises:
        PatchError: the item lacks all of the keys.
    """
    if node.list_type == "set":
        return "v:" + json.dumps(item, separators=(",", ":"), ensure_ascii=False)
    if type(item) is not dict:
        raise PatchError(500, "", "associative list with keys may not have non-map elements")
    names: list[str] = []
    values: list[Any] = []
    for key in node.list_keys:
        if key in item:
            names.append(key)
            values.append(item[key])
        else:
            for name, value in node.key_defaults:
                if name == key:
                    names.append(key)
                    values.append(value)
    if not names:
        raise PatchError(
            500,
            "",
            "associative list with keys has an element that omits all key fields " + repr(list(node.list_keys)),
        )
    return _key_element(tuple(names), tuple(_hashable(value) for value in values))


def _hashable(value: Any) -> Any:
    return json.dumps(value, sort_keys=True) if isinstance(value, dict | list) else value


def owned(node: SchemaNode, value: Any) -> Trie | None:
    """Return the paths that an applied value claims, as a trie; None if it claims nothing (an empty list)."""
    if _is_granular_map(node, value):
        if not value:
            return LEAF
        out: Trie = {}
        for key, inner in value.items():
            inner_places = owned(below(node, key), inner)
            if inner_places is None:
                continue
            if inner_places and not _named(node, key):
                inner_places = {DOT: LEAF, **inner_places}
            out["f:" + key] = inner_places
        return out or None
    if _is_granular_list(node, value):
        element = node.element or UNTYPED
        out = {}
        for item in value:
            inner_places = owned(element, item) or LEAF
            out[element_of(node, item)] = {DOT: LEAF, **inner_places} if inner_places else inner_places
        return out or None
    return LEAF


def everything(node: SchemaNode, value: Any) -> Trie:
    """Return every path of a new value, including all steps."""
    if _is_granular_map(node, value):
        if not value:
            return LEAF
        out: Trie = {DOT: LEAF}
        for key, inner in value.items():
            out["f:" + key] = everything(below(node, key), inner)
        return out
    if _is_granular_list(node, value):
        if not value:
            return LEAF
        element = node.element or UNTYPED
        out = {DOT: LEAF}
        for item in value:
            out[element_of(node, item)] = everything(element, item)
        return out
    return LEAF


class Difference(NamedTuple):
    """The paths that differ between an old and a new value: tops, each possibly empty."""

    added: Trie
    modified: Trie
    removed: Trie

    @property
    def same(self) -> bool:
        """Return whether nothing differs."""
        return not (self.added or self.modified or self.removed)


def compare(node: SchemaNode, old: Json, new: Json) -> Difference:
    """Return the differences between two objects of one schema."""
    added: Trie = {}
    modified: Trie = {}
    removed: Trie = {}
    _compare_map(node, old, new, added, modified, removed)
    return Difference(added, modified, removed)


def _compare_map(node: SchemaNode, old: Json, new: Json, added: Trie, modified: Trie, removed: Trie) -> None:
    for key, value in new.items():
        if key in old:
            before = old[key]
            if before is not value and before != value:
                _compare(below(node, key), "f:" + key, before, value, added, modified, removed)
        else:
            added["f:" + key] = everything(below(node, key), value)
    for key, value in old.items():
        if key not in new:
            removed["f:" + key] = everything(below(node, key), value)


def _compare(node: SchemaNode, element: str, old: Any, new: Any, added: Trie, modified: Trie, removed: Trie) -> None:
    """Compare two values that differ, at the path `element`."""
    inner_added: Trie = {}
    inner_modified: Trie = {}
    inner_removed: Trie = {}
    if _is_granular_map(node, new if new is not None else {}) and isinstance(old, dict | None):
        _compare_map(node, old or {}, new or {}, inner_added, inner_modified, inner_removed)
    elif _is_granular_list(node, new if new is not None else []) and isinstance(old, list | None):
        before = {element_of(node, item): item for item in reversed(old or [])}
        after = {element_of(node, item): item for item in reversed(new or [])}
        inside = node.element or UNTYPED
        for place, item in after.items():
            if place not in before:
                inner_added[place] = everything(inside, item)
            elif before[place] != item:
                _compare(inside, place, before[place], item, inner_added, inner_modified, inner_removed)
        for place, item in before.items():
            if place not in after:
                inner_removed[place] = everything(inside, item)
    else:
        modified[element] = LEAF
        return
    if inner_added:
        added[element] = inner_added
    if inner_modified:
        modified[element] = inner_modified
    if inner_removed:
        removed[element] = inner_removed


def merge(node: SchemaNode, live: Any, config: Any) -> Any:
    """Return the live value merged with an applied one; inputs are not changed."""
    if _is_granular_map(node, config) and isinstance(live, dict):
        out = dict(live)
        for key, value in config.items():
            out[key] = merge(below(node, key), live[key], value) if key in live else value
        return out
    if _is_granular_list(node, config) and isinstance(live, list):
        return _merge_list(node, live, config)
    return config


def atomic_places(node: SchemaNode, value: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of lists, maps and structs that are only replaced as a whole."""
    if isinstance(value, dict):
        if not _is_granular_map(node, value):
            yield path
            return
        for key, inner in value.items():
            yield from atomic_places(below(node, key), inner, f"{path}.{key}")
    elif isinstance(value, list):
        if not _is_granular_list(node, value):
            yield path
            return
        for index, inner in enumerate(value):
            yield from atomic_places(node.element or UNTYPED, inner, f"{path}[{index}]")


def _merge_list(node: SchemaNode, live: list[Any], config: list[Any]) -> list[Any]:
    """Return the items of both lists; shared ones in the order of `config`, others keep their neighbours."""
    element = node.element or UNTYPED
    places = [element_of(node, item) for item in config]
    if len(set(places)) != len(places):
        twice = next(place for place, count in Counter(places).items() if count > 1)
        raise PatchError(500, "", f"duplicate entries for key [{twice.partition(':')[2]}]")
    wanted = dict(zip(places, config, strict=True))
    present: dict[str, Any] = {}
    for item in live:
        present.setdefault(element_of(node, item), item)
    out: list[Any] = []
    done: set[str] = set()
    todo = iter(places)
    for item in live:
        place = element_of(node, item)
        if place not in wanted:
            out.append(item)
            continue
        if place in done:
            continue
        for earlier in todo:
            out.append(merge(element, present[earlier], wanted[earlier]) if earlier in present else wanted[earlier])
            done.add(earlier)
            if earlier == place:
                break
    out.extend(wanted[earlier] for earlier in todo)
    return out


def take_away(node: SchemaNode, value: Any, removed: Trie) -> Any:
    """Return the value without the paths of `removed` (the trie of this node's children)."""
    if _is_granular_map(node, value):
        out: Json = {}
        for key, inner in value.items():
            entry = removed.get("f:" + key)
            if entry is None:
                out[key] = inner
            elif not is_member(entry):
                out[key] = take_away(below(node, key), inner, entry)
        return out
    if _is_granular_list(node, value):
        items: list[Any] = []
        for item in value:
            entry = removed.get(element_of(node, item))
            if entry is None:
                items.append(item)
            elif not is_member(entry):
                items.append(take_away(node.element or UNTYPED, item, entry))
        return items
    return value


def with_named_fields(node: SchemaNode, top: Trie) -> Trie:
    """Return the set with every named field on the path to a member also made a member."""
    out: Trie = {}
    for element, inner in top.items():
        if element == DOT:
            out[DOT] = LEAF
            continue
        key = element.partition(":")[2]
        is_field = element.startswith("f:")
        child = below(node, key) if is_field else (node.element or UNTYPED)
        deeper = with_named_fields(child, inner)
        if is_field and _named(node, key) and deeper and DOT not in deeper:
            deeper = {DOT: LEAF, **deeper}
        out[element] = deeper
    return out


# Optional struct fields that an empty object nevertheless has (Go structs that are not pointers).
_ALWAYS = frozenset(
    {
        "metadata",
        "spec",
        "status",
        "template",
        "strategy",
        "updateStrategy",
        "jobTemplate",
        "source",
        "deprecatedSource",
        "involvedObject",
        "regarding",
        "target",
        "names",
        "acceptedNames",
        "daemonEndpoints",
        "kubeletEndpoint",
        "nodeInfo",
        "loadBalancer",
    }
)


def empty_object(node: SchemaNode) -> Json:
    """Return an object of this schema with no fields set by a client; a create is compared with it."""
    out: Json = {}
    for name, inner in node.fields.items():
        if inner.type is SchemaType.STRUCT and not inner.atomic and (name in _ALWAYS or name in node.required):
            out[name] = empty_object(inner)
        elif name in node.required and inner.type in (SchemaType.LIST, SchemaType.MAP):
            out[name] = None
    return out
