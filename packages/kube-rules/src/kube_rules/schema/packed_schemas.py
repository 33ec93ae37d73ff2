"""Unknown fields of manifests from files: the packed schemas as `kube_rules.unknown_fields.Schemas`.

This module finds the unknown fields of strict validation (`schema.decoding`) without decoding; it ignores values of the
wrong type. Two walks with one meaning. The *quick* one is a type built from the schema, with unchecked leaves: the
decoder of msgspec refuses objects with other fields, at 100,000 pods per second. The *thorough* one runs only after
that, and names the fields.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NoReturn, cast

import msgspec

from kube_rules.foreign_groups import COSCHEDULING_VERSION, VOLCANO_VERSION
from kube_rules.schema import nodes
from kube_rules.schema.definitions import OBJECT_META, SAME_SCHEMA, definition_names
from kube_rules.schema.nodes import SchemaNode, SchemaType
from kube_rules.unknown_fields import JSON_TEXT, Manifest, MisnamedField, Path, nearest

_Place = tuple[str, str]
"""apiVersion and kind."""

_ANY: Final = SchemaNode(SchemaType.ANY, "interface {}")
_MOST_DEPTH: Final = 200
_MOST_FOUND: Final = 1_000
_DEEPER: Final = 2


class PackedSchemas:
    """Implements `kube_rules.unknown_fields.Schemas`. Schemas are compiled at the first object of a kind."""

    def __init__(self) -> None:
        self._roots: dict[_Place, SchemaNode] = {}
        self._quick: dict[tuple[_Place, bool], Callable[[Any], object]] = {}
        """By kind and whether it checks text: raises unless the object certainly has no unknown fields."""

    def knows(self, api_version: str, kind: str) -> bool:
        """See `Schemas`."""
        return self._root(_place(api_version, kind)) is not None

    def kinds(self) -> Iterable[tuple[str, str]]:
        """See `Schemas`."""
        return definition_names()

    def unknown_fields(self, api_version: str, kind: str, manifest: Manifest) -> Sequence[MisnamedField]:
        """See `Schemas`."""
        place, is_text = _place(api_version, kind), isinstance(manifest, JSON_TEXT)
        quick = self._quick.get((place, is_text))
        if quick is None:
            if (root := self._root(place)) is None:
                return ()
            quick = self._quick[place, is_text] = _quick_walk(root, is_text)
        try:
            quick(manifest)
        except (msgspec.DecodeError, RecursionError):
            return self._found(place, manifest)
        return ()

    def _found(self, place: _Place, manifest: Manifest) -> Sequence[MisnamedField]:
        """Return the result of the thorough walk."""
        root = self._root(place)
        if root is None:
            return ()
        if not isinstance(manifest, Mapping):
            try:
                manifest = msgspec.json.decode(cast(Any, manifest))
            except (msgspec.DecodeError, RecursionError):
                return ()  # decoding reports the error
        result: list[MisnamedField] = []
        _walk(root, manifest, (), result)
        return result

    def _root(self, place: _Place) -> SchemaNode | None:
        result = self._roots.get(place)
        if result is None and (result := _made(place)) is not None:
            self._roots[place] = result  # names of kinds come from the input: unknown ones are not cached
        return result


def _place(api_version: str, kind: str) -> _Place:
    """Return the version and kind with the schema of this version and kind."""
    return ("", kind) if kind == "Scenario" else (SAME_SCHEMA.get(api_version, api_version), kind)


def _made(place: _Place) -> SchemaNode | None:
    if place in _FURTHER:
        return _object({name: _part(name, fields) for name, fields in _FURTHER[place].items()})
    name = definition_names().get(place)
    return None if name is None else nodes.named(name)


def _part(name: str, fields: tuple[str, ...]) -> SchemaNode:
    return SchemaNode(SchemaType.STRUCT, name, dict.fromkeys(fields, _ANY)) if fields else _ANY


def _object(fields: Mapping[str, SchemaNode]) -> SchemaNode:
    meta = nodes.named(OBJECT_META)
    text = SchemaNode(SchemaType.STRING, "string")
    return SchemaNode(
        SchemaType.STRUCT, "Object", fields={"apiVersion": text, "kind": text, "metadata": meta, **fields}
    )


_FURTHER: Final[Mapping[_Place, Mapping[str, tuple[str, ...]]]] = {
    ("v1", "List"): {"items": ()},
    ("", "Scenario"): {"spec": ()},
    (COSCHEDULING_VERSION, "PodGroup"): {
        "spec": ("minMember", "minResources", "scheduleTimeoutSeconds"),
        "status": ("phase", "occupiedBy", "scheduled", "running", "succeeded", "failed", "scheduleStartTime"),
    },
    (VOLCANO_VERSION, "PodGroup"): {
        "spec": (
            "minMember",
            "minTaskMember",
            "queue",
            "priorityClassName",
            "minResources",
            "networkTopology",
            "subGroupPolicy",
        ),
        "status": ("phase", "conditions", "running", "succeeded", "failed"),
    },
}
"""Kinds without a packed schema: their fields other than metadata, with subfields if known.

PodGroups of other schedulers follow their custom resource definitions; a Scenario is checked elsewhere.
"""


# -- quick -------------------------------------------------------------------------------------------------------------

_RECURSIVE: Final = object()
"""Placeholder for a type that contains itself (JSONSchemaProps)."""


def _quick_walk(root: SchemaNode, of_text: bool) -> Callable[[Any], object]:
    """Return a function that raises a DecodeError unless an object certainly has no unknown fields."""
    type_ = _type_of(root, {}, msgspec.Raw if of_text else object)
    if type_ is _RECURSIVE:
        return _unsure
    return msgspec.json.Decoder(type_).decode if of_text else partial(msgspec.convert, type=type_)


def _unsure(_: object) -> NoReturn:
    raise msgspec.DecodeError


def _type_of(node: SchemaNode, cache: dict[int, Any], leaf: Any) -> Any:
    """Return a type that accepts every value with fields of the node, and some more; or `_RECURSIVE`."""
    if node.type is SchemaType.STRUCT:
        type_ = cache.get(id(node))
        if type_ is not None:
            return type_
        cache[id(node)] = _RECURSIVE  # until the type exists
        fields: list[tuple[str, Any, Any]] = []
        for index, inner in enumerate(node.fields.values()):
            field = _type_of(inner, cache, leaf)
            if field is _RECURSIVE:
                return _RECURSIVE
            fields.append((f"f{index}", field if field is leaf else field | None, None))
        names = {f"f{index}": name for index, name in enumerate(node.fields)}
        cache[id(node)] = msgspec.defstruct("Fields", fields, rename=names, forbid_unknown_fields=True, gc=False)
        return cache[id(node)]
    if node.element is not None and node.type in (SchemaType.MAP, SchemaType.LIST):
        below: Any = _type_of(node.element, cache, leaf)
        if below is leaf or below is _RECURSIVE:
            return below
        item = below | None
        return (
            types.GenericAlias(dict, (str, item)) if node.type is SchemaType.MAP else types.GenericAlias(list, (item,))
        )
    return leaf


# -- thorough ----------------------------------------------------------------------------------------------------------


def _walk(node: SchemaNode, value: Any, path: Path, misnamed: list[MisnamedField]) -> None:
    if len(path) > _MOST_DEPTH or len(misnamed) >= _MOST_FOUND:
        return
    if node.type is SchemaType.STRUCT and isinstance(value, Mapping):
        for key, inner in value.items():
            below = node.fields.get(key)
            if below is not None:
                _walk(below, inner, (*path, key), misnamed)
            else:
                misnamed.append(MisnamedField((*path, str(key)), _meant(node, str(key))))
    elif node.element is not None:
        if node.type is SchemaType.MAP and isinstance(value, Mapping):
            for key, inner in value.items():
                _walk(node.element, inner, (*path, str(key)), misnamed)
        elif node.type is SchemaType.LIST and isinstance(value, list):
            for index, inner in enumerate(value):
                _walk(node.element, inner, (*path, index), misnamed)


def _meant(node: SchemaNode, name: str) -> str:
    """Return the probable intended name: a similar name here, or the same name a few levels deeper."""
    return nodes.REPLACED.get(node.go, {}).get(name) or nearest(name, node.fields) or _deeper(node, name)


def _deeper(node: SchemaNode, name: str) -> str:
    level: list[tuple[str, SchemaNode]] = [("", node)]
    for _ in range(_DEEPER):
        level = [
            (f"{path}{inner}.", below)
            for path, outer in level
            for inner, below in outer.fields.items()
            if below.type is SchemaType.STRUCT
        ]
        for path, below in level:
            if name in below.fields:
                return f"{path}{name}"
    return ""
