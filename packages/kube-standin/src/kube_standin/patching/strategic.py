"""Strategic merge patch: JSON merge patch that supports keyed lists (`x-kubernetes-patch-*` of the schema).

Directives: `$patch: replace|delete|merge`, `$deleteFromPrimitiveList/FIELD`, `$setElementOrder/FIELD`, `$retainKeys`.
Order of merged lists, as upstream: items of the patch in the order of the patch (or of `$setElementOrder`), untouched
items in the order of the live list, interleaved by the live order. Source: the strategic merge patch design of
kubernetes/community and transcripts 117 to 123 and 260 to 267.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from kube_rules.json import Json
from kube_rules.schema.nodes import UNTYPED
from kube_standin.patching.errors import MAP, PatchError, go_type, not_unmarshalled
from kube_standin.patching.jsonpatch import MAX_COPIED, weight
from kube_standin.schema import Schema, SchemaNode, SchemaType

_PATCH = "$patch"
_RETAIN = "$retainKeys"
_DELETE_FROM = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"
_KINDS = (dict, list)


def strategic_merge(schema: Schema, obj: Json, patch: Any) -> Json:
    """Return the object after a strategic merge patch; the input is not changed.

    Raises:
        PatchError: 400 if the patch is no object, 413 if it names items again and again and merges more than 3 MiB into
        these, 422 for a list in a list that merges, 500 (as upstream) for a
        wrong directive or a merge key that is missing or no plain value.
    """
    if not isinstance(patch, dict):
        raise not_unmarshalled(go_type(patch), MAP)
    return _Merge().merge_map(obj, patch, schema.root)


def _broken(message: str) -> PatchError:
    return PatchError(500, "", message)


def go_map(value: Any) -> str:
    """Return a value in Go's %v format, for two error texts."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{go_map(inner)}" for key, inner in sorted(value.items())) + "]"
    if isinstance(value, list):
        return "[" + " ".join(go_map(inner) for inner in value) + "]"
    if value is None:
        return "<nil>"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _field(node: SchemaNode, key: str) -> SchemaNode:
    if node.type is SchemaType.STRUCT:
        return node.fields.get(key, UNTYPED)
    if node.type is SchemaType.MAP and node.element is not None:
        return node.element
    return UNTYPED


class _Merge:
    """The merge of one patch."""

    def __init__(self) -> None:
        self._room = MAX_COPIED

    def merge_map(self, original: Json, patch: Json, node: SchemaNode) -> Json:
        """Merge a patch into an object."""
        directive = patch.get(_PATCH)
        if _PATCH in patch:
            if directive == "replace":
                return {key: _without_directives(v) for key, v in patch.items() if key != _PATCH and v is not None}
            if directive == "delete":
                return {}
            if directive != "merge":
                raise _broken(f"unknown patch type: {go_map(directive)} in map: {go_map(patch)}")
        out = dict(original)
        _retain_keys(out, patch)
        orders = {key.removeprefix(_ORDER): value for key, value in patch.items() if key.startswith(_ORDER)}
        deletions = {k.removeprefix(_DELETE_FROM): v for k, v in patch.items() if k.startswith(_DELETE_FROM)}
        for key, values in deletions.items():
            if not isinstance(values, list):
                raise _broken(f"invalid list type for {_DELETE_FROM}{key}")
            if isinstance(out.get(key), list):
                deleted = set(map(_hashable, values))
                out[key] = [item for item in out[key] if _hashable(item) not in deleted]
        for key, value in patch.items():
            if key in (_PATCH, _RETAIN) or key.startswith((_ORDER, _DELETE_FROM)):
                continue
            if value is None:
                out.pop(key, None)
                continue
            below = _field(node, key)
            current = out.get(key)
            if isinstance(value, dict) and isinstance(current, dict):
                out[key] = (
                    _without_directives(value)
                    if "replace" in below.patch_strategy
                    else self.merge_map(current, value, below)
                )
            elif isinstance(value, list) and "merge" in below.patch_strategy:
                live = current if isinstance(current, list) else []
                out[key] = self.merge_list(live, value, below, orders.pop(key, None))
            elif isinstance(value, dict) and key not in out:
                out[key] = self.merge_map({}, value, below)
            else:
                out[key] = _without_directives(value)
        for key, order in orders.items():
            below = _field(node, key)
            if isinstance(out.get(key), list) and isinstance(order, list):
                out[key] = _ordered([], out[key], order, out[key], _identity(below.patch_merge_key))
        return out

    def merge_list(self, live: list[Any], patch: list[Any], node: SchemaNode, order: Any) -> list[Any]:
        if order is not None and not isinstance(order, list):
            raise _broken(f"invalid list type for {_ORDER}")
        if any(isinstance(item, list) for item in patch):
            raise PatchError(422, "Invalid", "lists of lists are not supported")
        maps = [isinstance(item, dict) for item in [*live, *patch]]
        if any(maps) and not all(maps):
            raise _broken("list element types are not identical")
        key = node.patch_merge_key
        if not any(maps):
            wanted_values = dict.fromkeys(patch)
            rest = [item for item in dict.fromkeys(live) if item not in wanted_values]
            return _ordered(list(wanted_values), rest, order, live, _identity(""))
        if not key:
            raise _broken("cannot merge lists without merge key")
        element = node.element or UNTYPED
        if any(item.get(_PATCH) == "replace" for item in patch):
            return [_without_directives(item) for item in patch if _PATCH not in item]
        deleted: set[Any] = set()
        wanted: list[Json] = []
        for item in patch:
            directive = item.get(_PATCH)
            if isinstance(item.get(key), _KINDS):
                raise _broken(f"map: {go_map(item)}: its merge key {key} is no plain value")
            if directive == "delete":
                if key not in item:
                    raise _broken("delete patch type with no merge key defined")
                deleted.add(item[key])
            elif directive in (None, "merge"):
                wanted.append({name: value for name, value in item.items() if name != _PATCH})
            else:
                raise _broken(f"unknown patch type: {go_map(directive)} in map: {go_map(item)}")
        identity = _identity(key)
        remaining = [entry for entry in live if _hashable(entry.get(key)) not in deleted]
        present = {_hashable(entry.get(key)): entry for entry in reversed(remaining)}
        patched: dict[Any, Json] = {}
        for item in wanted:
            if key not in item:
                raise _broken(f"map: {go_map(item)} does not contain declared merge key: {key}")
            name = item[key]
            current = patched.get(name)
            if current is None:
                current = present.get(name, {})
            else:  # it is traversed again for every item of the patch with the same name
                self._room -= weight(current, self._room)
                if self._room < 0:
                    text = "strategic merge patch merges more than 3 MiB into items that it names more than once"
                    raise PatchError(413, "RequestEntityTooLarge", text)
            patched[name] = self.merge_map(current, item, element)
        untouched = [entry for entry in remaining if _hashable(entry.get(key)) not in patched]
        return _ordered(list(patched.values()), untouched, order, live, identity)


def _retain_keys(out: Json, patch: Json) -> None:
    """Drop every key that `$retainKeys` does not list."""
    if _RETAIN not in patch:
        return
    retained = patch[_RETAIN]
    if not isinstance(retained, list):
        raise _broken(f"invalid patch format for {_RETAIN}")
    names = set(map(_hashable, retained))
    for key, value in patch.items():
        if not key.startswith("$") and value is not None and key not in names:
            raise _broken("retainKeys list doesn't contain the key " + key)
    for key in [key for key in out if key not in names]:
        del out[key]


def _without_directives(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_directives(v) for k, v in value.items() if not k.startswith("$") and v is not None}
    if isinstance(value, list):
        return [_without_directives(item) for item in value if not (isinstance(item, dict) and set(item) == {_PATCH})]
    return value


def _identity(merge_key: str) -> Callable[[Any], Any]:
    """Return the function that identifies items of a list."""
    if not merge_key:
        return lambda item: item
    return lambda item: item.get(merge_key) if isinstance(item, dict) else item


def _ordered(
    patched: list[Any],
    untouched: list[Any],
    order: list[Any] | None,
    live: list[Any],
    identity: Callable[[Any], Any],
) -> list[Any]:
    """Interleave untouched items with patched ones by the order of the live list.

    With an explicit `order`, its items count as patched and follow it.
    """

    def key(item: Any) -> Any:
        return _hashable(identity(item))

    if order is not None:
        place = {key(item): index for index, item in reversed(list(enumerate(order)))}
        every = [*patched, *untouched]
        patched = sorted((item for item in every if key(item) in place), key=lambda item: place[key(item)])
        untouched = [item for item in every if key(item) not in place]
    position = {key(item): index for index, item in reversed(list(enumerate(live)))}
    out: list[Any] = []
    left = deque(untouched)
    for item in patched:
        mine = position.get(key(item))
        while left and mine is not None:
            next_position = position.get(key(left[0]))
            if next_position is None or next_position >= mine:
                break
            out.append(left.popleft())
        out.append(item)
    return [*out, *left]


def _hashable(value: Any) -> Any:
    """Return a hashable form of a value, so that no list is searched for every item of another."""
    return repr(value) if isinstance(value, _KINDS) else value
