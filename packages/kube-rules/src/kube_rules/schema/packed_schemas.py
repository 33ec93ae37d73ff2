"""Unknown fields of manifests that come from a file: the packed schemas as `kube_rules.unknown_fields.Schemas`.

What strict validation of the API server finds (`schema.decoding`) is found here without decoding: values of the wrong
type are not its concern. Two walks with one meaning. The *quick* one is a type built of the schema, in which
every leaf is left alone: the decoder of msgspec refuses what has other fields, and does so for 100,000 pods a second.
The *thorough* one runs only after that, and names them.
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
    """See `kube_rules.unknown_fields.Schemas`. Schemas are compiled when the first object of a kind comes."""

    def __init__(self) -> None:
        self._roots: dict[_Place, SchemaNode] = {}
        self._quick: dict[tuple[_Place, bool], Callable[[Any], object]] = {}
        """By kind and whether it checks text: raises where it is not sure that there are no unknown fields."""

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
        """Return what the thorough walk finds."""
        root = self._root(place)
        if root is None:
            return ()
        if not isinstance(manifest, Mapping):
            try:
                manifest = msgspec.json.decode(cast(Any, manifest))
            except (msgspec.DecodeError, RecursionError):
                return ()  # decoding reports it
        result: list[MisnamedField] = []
        _walk(root, manifest, (), result)
        return result

    def _root(self, place: _Place) -> SchemaNode | None:
        result = self._roots.get(place)
        if result is None and (result := _made(place)) is not None:
            self._roots[place] = result  # names of kinds come from the input: unknown ones are not kept
        return result


def _place(api_version: str, kind: str) -> _Place:
    """Return the version and kind that have the schema of this version and kind."""
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
"""Kinds without a packed schema: what they have beside metadata, with its fields if those are known.

PodGroups of other schedulers are as their custom resource definitions have them; a Scenario is checked elsewhere.
"""


# -- quick -------------------------------------------------------------------------------------------------------------

_RECURSIVE: Final = object()
"""Instead of a type: the schema contains itself (JSONSchemaProps)."""


def _quick_walk(root: SchemaNode, of_text: bool) -> Callable[[Any], object]:
    """Return a function that raises a DecodeError unless it is sure that an object has no unknown fields."""
    made = _type_of(root, {}, msgspec.Raw if of_text else object)
    if made is _RECURSIVE:
        return _unsure
    return msgspec.json.Decoder(made).decode if of_text else partial(msgspec.convert, type=made)


def _unsure(_: object) -> NoReturn:
    raise msgspec.DecodeError


def _type_of(node: SchemaNode, made: dict[int, Any], leaf: Any) -> Any:
    """Return a type that takes every value with fields that the node has, and some more; or `_RECURSIVE`."""
    if node.type is SchemaType.STRUCT:
        known = made.get(id(node))
        if known is not None:
            return known
        made[id(node)] = _RECURSIVE  # until it is made
        fields: list[tuple[str, Any, Any]] = []
        for index, inner in enumerate(node.fields.values()):
            field = _type_of(inner, made, leaf)
            if field is _RECURSIVE:
                return _RECURSIVE
            fields.append((f"f{index}", field if field is leaf else field | None, None))
        names = {f"f{index}": name for index, name in enumerate(node.fields)}
        made[id(node)] = msgspec.defstruct("Fields", fields, rename=names, forbid_unknown_fields=True, gc=False)
        return made[id(node)]
    if node.element is not None and node.type in (SchemaType.MAP, SchemaType.LIST):
        below: Any = _type_of(node.element, made, leaf)
        if below is leaf or below is _RECURSIVE:
            return below
        item = below | None
        return (
            types.GenericAlias(dict, (str, item)) if node.type is SchemaType.MAP else types.GenericAlias(list, (item,))
        )
    return leaf


# -- thorough ----------------------------------------------------------------------------------------------------------


def _walk(node: SchemaNode, value: Any, path: Path, found: list[MisnamedField]) -> None:
    if len(path) > _MOST_DEPTH or len(found) >= _MOST_FOUND:
        return
    if node.type is SchemaType.STRUCT and isinstance(value, Mapping):
        for key, inner in value.items():
            below = node.fields.get(key)
            if below is not None:
                _walk(below, inner, (*path, key), found)
            else:
                found.append(MisnamedField((*path, str(key)), _meant(node, str(key))))
    elif node.element is not None:
        if node.type is SchemaType.MAP and isinstance(value, Mapping):
            for key, inner in value.items():
                _walk(node.element, inner, (*path, str(key)), found)
        elif node.type is SchemaType.LIST and isinstance(value, list):
            for index, inner in enumerate(value):
                _walk(node.element, inner, (*path, index), found)


def _meant(node: SchemaNode, name: str) -> str:
    """Return what was probably meant: a name that is like it here, else the same name a little deeper."""
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
