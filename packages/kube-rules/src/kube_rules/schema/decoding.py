"""Decoding: one walk that checks types, prunes unknown fields and converts values to their stored form.

Two walks with one meaning. The *quick* walk is compiled: every node becomes a closure that returns the value (the same
object if nothing changes) or raises `IrregularError`. The *thorough* walk runs only after that; it tracks paths,
collects unknown fields and type problems, and continues after them.

Stored form, as the API server's decoder and its storage produce it: no nulls, no empty lists or maps in optional
fields, no "" or false where these mean "not set", canonical times and quantities. Invariant: a value that the quick
walk accepts, the thorough walk returns equal and without problems.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from kube_rules import quantity
from kube_rules.schema import scalars
from kube_rules.schema.nodes import REPLACED, SchemaNode, SchemaType
from kube_rules.unknown_fields import did_you_mean

Clean = Callable[[Any], Any]
_INT_RANGE = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
_EMPTY: tuple[Any, ...] = ({}, [])


class UnknownBodyField(NamedTuple):
    """A field that the schema does not have; `path` like `spec.containers[0].alsoNot`.

    `replacement` is the path of the field that replaced it, if an older version had it; otherwise empty.
    """

    path: str
    replacement: str = ""

    @property
    def hint(self) -> str:
        """Return a hint for the reader, or nothing."""
        return did_you_mean(self.replacement)

    @property
    def message(self) -> str:
        """Return the message of strict validation and of the Warning header."""
        return f'unknown field "{self.path}"{self.hint}'


class TypeProblem(NamedTuple):
    """A value that cannot be decoded; `message` is the decoder's text."""

    path: str
    message: str


class IrregularError(Exception):
    """The quick walk met a value that needs the thorough one.

    Created for each raise: an instance keeps the frames, and so the objects, of all its callers.
    """


_cleaners: dict[SchemaNode, Clean] = {}
"""Quick walks of built-in kinds: bounded by the packed definitions."""


def quick_walk(root: SchemaNode) -> Clean:
    """Return the quick walk of a node of the packed definitions, compiled once."""
    return compiled(root, _cleaners)


def decoded(
    root: SchemaNode, kind: str, obj: dict[str, Any]
) -> tuple[dict[str, Any], list[UnknownBodyField], list[TypeProblem]]:
    """Return an object of a built-in kind in its stored form, its unknown fields, and its values of a wrong type.

    An unchanged object is returned itself, otherwise a copy of the changed parts; the input is never changed. With type
    problems the object is invalid; the API server reports the first problem.
    """
    try:
        return quick_walk(root)(obj), [], []
    except IrregularError:
        walk = PathWalk(_cleaners)
        return walk.walk(root, obj, "", "", kind), walk.unknown, walk.problems


def compiled(node: SchemaNode, cache: dict[SchemaNode, Clean]) -> Clean:
    """Return the quick walk of a node. `cache` holds the walks so far and resolves recursive types."""
    cached = cache.get(node)
    if cached is not None:
        return cached
    if node.type is SchemaType.STRUCT:
        return _struct(node, cache)
    if node.type is SchemaType.MAP:
        return _map(node, cache)
    if node.type is SchemaType.LIST:
        return _list(node, cache)
    walk = _SCALARS[node.type](node)
    cache[node] = walk
    return walk


def _struct(node: SchemaNode, cache: dict[SchemaNode, Clean]) -> Clean:
    table: dict[str, Clean | None] = {}
    droppable: dict[str, bool] = {}
    zeros = node.zero_dropped
    preserve = node.preserve_unknown

    def clean(value: Any) -> Any:
        if type(value) is not dict:
            raise IrregularError
        changed: list[tuple[str, Any]] | None = None
        for key, inner in value.items():
            try:
                step = table[key]
            except KeyError:
                if preserve:
                    continue
                raise IrregularError from None
            if step is None:
                if type(inner) is str and (inner or key not in zeros):
                    continue
                if inner is not None and inner != "":
                    raise IrregularError
                new = None
            elif inner is None:
                new = None
            else:
                new = step(inner)
                if not new and (key in zeros if new is False else key in droppable and new in _EMPTY):
                    new = None
                elif new is inner:
                    continue
            if changed is None:
                changed = []
            changed.append((key, new))
        if changed is None:
            return value
        out = dict(value)
        for key, new in changed:
            if new is None:
                del out[key]
            else:
                out[key] = new
        return out

    cache[node] = clean
    for name, inner in node.fields.items():
        table[name] = None if inner.type is SchemaType.STRING else compiled(inner, cache)
        if inner.type in (SchemaType.MAP, SchemaType.LIST) and name not in node.required:
            droppable[name] = True
    return clean


def _map(node: SchemaNode, cache: dict[SchemaNode, Clean]) -> Clean:
    element = node.element
    assert element is not None
    if element.type is SchemaType.STRING:

        def clean_strings(value: Any) -> Any:
            if type(value) is not dict:
                raise IrregularError
            for inner in value.values():
                if type(inner) is not str:
                    raise IrregularError
            return value

        cache[node] = clean_strings
        return clean_strings

    step = compiled(element, cache)

    def clean(value: Any) -> Any:
        if type(value) is not dict:
            raise IrregularError
        out = value
        for key, inner in value.items():
            if inner is None:
                raise IrregularError
            new = step(inner)
            if new is not inner:
                if out is value:
                    out = dict(value)
                out[key] = new
        return out

    cache[node] = clean
    return clean


def _list(node: SchemaNode, cache: dict[SchemaNode, Clean]) -> Clean:
    element = node.element
    assert element is not None
    step = compiled(element, cache)

    def clean(value: Any) -> Any:
        if type(value) is not list:
            raise IrregularError
        out = value
        for index, inner in enumerate(value):
            if inner is None:
                raise IrregularError
            new = step(inner)
            if new is not inner:
                if out is value:
                    out = list(value)
                out[index] = new
        return out

    cache[node] = clean
    return clean


def _of_types(*types: type) -> Callable[[SchemaNode], Clean]:
    """Return the walk of a node that accepts values of these types unchanged."""

    def clean(value: Any) -> Any:
        if type(value) in types:
            return value
        raise IrregularError

    return lambda _: clean


def _integer(node: SchemaNode) -> Clean:
    low, high = _INT_RANGE[node.go]

    def clean(value: Any) -> Any:
        if type(value) is int and low <= value <= high:
            return value
        raise IrregularError

    return clean


def _text(parse: Callable[[str], str]) -> Callable[[SchemaNode], Clean]:
    def make(_: SchemaNode) -> Clean:
        def clean(value: Any) -> Any:
            if type(value) is not str:
                raise IrregularError
            try:
                new = parse(value)
            except ValueError:
                raise IrregularError from None
            return value if new == value else new

        return clean

    return make


def _quantity(_: SchemaNode) -> Clean:
    canonical = quantity.canonical

    def clean(value: Any) -> Any:
        if type(value) is not str and type(value) is not int and type(value) is not float:
            raise IrregularError
        try:
            text = canonical(value)
        except ValueError:
            raise IrregularError from None
        return value if text == value else text  # the cached text may be an equal string of another request

    return clean


def _int_or_string(_: SchemaNode) -> Clean:
    low, high = _INT_RANGE["int32"]

    def clean(value: Any) -> Any:
        if type(value) is str or (type(value) is int and low <= value <= high):
            return value
        raise IrregularError

    return clean


_SCALARS: dict[SchemaType, Callable[[SchemaNode], Clean]] = {
    SchemaType.STRING: _of_types(str),
    SchemaType.INTEGER: _integer,
    SchemaType.NUMBER: _of_types(float, int),
    SchemaType.BOOLEAN: _of_types(bool),
    SchemaType.BYTES: _text(scalars.base64_bytes),
    SchemaType.TIME: _text(scalars.time),
    SchemaType.MICRO_TIME: _text(scalars.micro_time),
    SchemaType.QUANTITY: _quantity,
    SchemaType.INT_OR_STRING: _int_or_string,
    SchemaType.ANY: lambda _: lambda value: value,
    SchemaType.ANY_OBJECT: _of_types(dict),
}


class PathWalk:
    """The walk with paths: `unknown` and `problems` hold its results, in document order."""

    def __init__(self, cache: dict[SchemaNode, Clean]) -> None:
        self.unknown: list[UnknownBodyField] = []
        self.problems: list[TypeProblem] = []
        self._cache = cache

    def walk(self, node: SchemaNode, value: Any, path: str, plain: str, owner: str) -> Any:
        """Return the cleaned value. `path` has indices, `plain` has none (for Go's texts), `owner` is the Go struct."""
        if node.type is SchemaType.STRUCT:
            if type(value) is not dict:
                return self._mismatch(node, value, path, plain, owner)
            return self._walk_struct(node, value, path, plain)
        if node.type is SchemaType.MAP:
            if type(value) is not dict:
                return self._mismatch(node, value, path, plain, owner)
            return self._walk_map(node, value, path, plain, owner)
        if node.type is SchemaType.LIST:
            if type(value) is not list:
                return self._mismatch(node, value, path, plain, owner)
            return self._walk_list(node, value, path, plain, owner)
        return self._walk_scalar(node, value, path, plain, owner)

    def _walk_struct(self, node: SchemaNode, value: dict[str, Any], path: str, plain: str) -> dict[str, Any]:
        out: dict[str, Any] = {}
        owner = node.go.rpartition(".")[2]
        for key, inner in value.items():
            below = f"{path}.{key}" if path else key
            field = node.fields.get(key)
            if field is None:
                if node.preserve_unknown:
                    out[key] = inner
                else:
                    now = REPLACED.get(node.go, {}).get(key, "")
                    self.unknown.append(UnknownBodyField(below, below.removesuffix(key) + now if now else ""))
                continue
            if inner is None:
                continue
            new = self.walk(field, inner, below, f"{plain}.{key}" if plain else key, owner)
            if new is None:
                continue
            if not new and not isinstance(new, int | float) and key not in node.required and field.type in _DROPPED:
                if key in node.zero_dropped or field.type is not SchemaType.STRING:
                    continue
            elif new is False and key in node.zero_dropped:
                continue
            out[key] = new
        return out

    def _walk_map(self, node: SchemaNode, value: dict[str, Any], path: str, plain: str, owner: str) -> dict[str, Any]:
        assert node.element is not None
        out: dict[str, Any] = {}
        for key, inner in value.items():
            if inner is None:
                out[key] = _zero(node.element)
                continue
            new = self.walk(node.element, inner, f"{path}.{key}", plain, owner)
            if new is not None:
                out[key] = new
        return out

    def _walk_list(self, node: SchemaNode, value: list[Any], path: str, plain: str, owner: str) -> list[Any]:
        assert node.element is not None
        out: list[Any] = []
        for index, inner in enumerate(value):
            if inner is None:
                out.append(_zero(node.element))
                continue
            new = self.walk(node.element, inner, f"{path}[{index}]", plain, owner)
            if new is not None:
                out.append(new)
        return out

    def _walk_scalar(self, node: SchemaNode, value: Any, path: str, plain: str, owner: str) -> Any:
        try:
            return compiled(node, self._cache)(value)
        except IrregularError:
            pass
        parse = _PARSERS.get(node.type)
        if parse is not None and isinstance(value, str):
            try:
                parse(value)
            except ValueError as error:
                self.problems.append(TypeProblem(path, getattr(error, "reason", str(error))))
                return None
        if node.type is SchemaType.QUANTITY:
            text = quantity.FORMAT_MESSAGE
            if not isinstance(value, bool) and isinstance(value, int | float):
                text = f"{text}: {value!r}"
            self.problems.append(TypeProblem(path, text))
            return None
        return self._mismatch(node, value, path, plain, owner)

    def _mismatch(self, node: SchemaNode, value: Any, path: str, plain: str, owner: str) -> None:
        shown = _json_type(value)
        if shown == "number" and node.type in (SchemaType.INTEGER, SchemaType.INT_OR_STRING):
            shown = f"number {json.dumps(value)}"
        go = "int32" if node.type is SchemaType.INT_OR_STRING else node.go
        place = f"Go struct field {owner}.{plain}" if plain else "Go value"
        self.problems.append(TypeProblem(path, f"json: cannot unmarshal {shown} into {place} of type {go}"))


_DROPPED = (SchemaType.MAP, SchemaType.LIST, SchemaType.STRING)
_PARSERS: dict[SchemaType, Callable[[str], str]] = {
    SchemaType.TIME: scalars.time,
    SchemaType.MICRO_TIME: scalars.micro_time,
    SchemaType.QUANTITY: quantity.canonical,
    SchemaType.BYTES: scalars.base64_bytes,
}


def _zero(node: SchemaNode) -> Any:
    """Return the decoded value of null inside a list or map."""
    if node.type in (SchemaType.STRUCT, SchemaType.MAP, SchemaType.ANY_OBJECT):
        return {}
    if node.type is SchemaType.LIST:
        return []
    if node.type in (SchemaType.INTEGER, SchemaType.NUMBER, SchemaType.INT_OR_STRING):
        return 0
    if node.type is SchemaType.BOOLEAN:
        return False
    if node.type is SchemaType.QUANTITY:
        return "0"
    return None if node.type in (SchemaType.ANY, SchemaType.TIME, SchemaType.MICRO_TIME) else ""


def _json_type(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"
