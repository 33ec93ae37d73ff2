"""Selectors over labels, nodes and fields: compiled once, evaluated often.

Terms: a requirement is (key, operator, values). A selector matches if all its requirements match. A node selector
matches if one of its terms matches.

Rules (apimachinery labels.Requirement, fields.Selector; component-helpers nodeaffinity): `In` needs the key, `NotIn`
and `!=` also match without it, `Gt` and `Lt` compare integers and fail on anything else. An absent label selector
matches nothing, an empty one everything. A node selector term without requirements matches nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

import msgspec

from kube_rules.caching import remembered
from kube_rules.errors import excerpt
from kube_rules.json import Json
from kube_rules.labels import label_value_errors, qualified_name_errors
from kube_rules.objects import LabelSelector, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm

IN: Final = "In"
NOT_IN: Final = "NotIn"
EXISTS: Final = "Exists"
DOES_NOT_EXIST: Final = "DoesNotExist"
GT: Final = "Gt"
LT: Final = "Lt"

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
"""The fields of an affinity."""

LABEL_SELECTOR_OPERATORS: Final = (IN, NOT_IN, EXISTS, DOES_NOT_EXIST)
NODE_SELECTOR_OPERATORS: Final = (*LABEL_SELECTOR_OPERATORS, GT, LT)

_FEW: Final = 16
"""Up to this many requirements, or values of one, are scanned; more are looked up in a set."""
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)


class SelectorError(ValueError):
    """An invalid selector; the message is an API server's."""


class ManyValues(tuple[str, ...]):
    """Ordered values of a requirement; `in` takes constant time."""

    @cached_property
    def _set(self) -> frozenset[str]:
        return frozenset(self)

    def __contains__(self, value: object) -> bool:
        return value in self._set


class Requirement(NamedTuple):
    """One condition on labels."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels satisfy the requirement."""
        value = labels.get(self.key)
        return _OPERATORS[self.operator](value, self.values)

    def __str__(self) -> str:
        return _WRITTEN[self.operator].format(key=self.key, values=",".join(sorted(self.values)))


def parse_integer(text: str) -> int | None:
    """Return the int64 of a label value, or None: `Gt` and `Lt` fail on anything else."""
    if _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def _compare(holds: Callable[[int, int], bool]) -> Callable[[str | None, tuple[str, ...]], bool]:
    def check(value: str | None, values: tuple[str, ...]) -> bool:
        if value is None or len(values) != 1:
            return False
        left, right = parse_integer(value), parse_integer(values[0])
        return left is not None and right is not None and holds(left, right)

    return check


_OPERATORS: Final[dict[str, Callable[[str | None, tuple[str, ...]], bool]]] = {
    IN: lambda value, values: value is not None and value in values,
    NOT_IN: lambda value, values: value is None or value not in values,
    EXISTS: lambda value, _values: value is not None,
    DOES_NOT_EXIST: lambda value, _values: value is None,
    GT: _compare(lambda left, right: left > right),
    LT: _compare(lambda left, right: left < right),
}
_WRITTEN: Final = {
    IN: "{key} in ({values})",
    NOT_IN: "{key} notin ({values})",
    EXISTS: "{key}",
    DOES_NOT_EXIST: "!{key}",
    GT: "{key}>{values}",
    LT: "{key}<{values}",
}


class ManyRequirements(tuple[Requirement, ...]):
    """Ordered requirements for evaluation on many objects."""

    @cached_property
    def matcher(self) -> LabelMatcher:
        """Return the matcher for all of them."""
        return LabelMatcher(Selector(tuple(self)))


class Selector(NamedTuple):
    """A conjunction of requirements; `nothing` marks the selector that no labels satisfy."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False

    @property
    def everything(self) -> bool:
        """Return whether all labels satisfy it."""
        return not self.requirements and not self.nothing

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels satisfy every requirement."""
        if self.nothing:
            return False
        if isinstance(self.requirements, ManyRequirements):
            return self.requirements.matcher(labels)
        get = labels.get
        for key, operator, values in self.requirements:  # noqa: SIM110 - a generator costs twice the time here
            if not _OPERATORS[operator](get(key), values):
                return False
        return True

    def __str__(self) -> str:
        return "<none>" if self.nothing else ",".join(map(str, self.requirements))


class LabelMatcher:
    """A selector compiled for many objects: the time of a call depends on the number of labels, not of terms."""

    __slots__ = ("_absent", "_bounds", "_excluded", "_nothing", "_required")

    def __init__(self, selector: Selector) -> None:
        self._nothing = selector.nothing
        self._required: dict[str, frozenset[str] | None] = {}
        self._excluded: dict[str, frozenset[str]] = {}
        self._bounds: dict[str, tuple[int, int]] = {}
        excluded: dict[str, set[str]] = {}
        absent: set[str] = set()
        for key, operator, values in selector.requirements:
            match operator:
                case "In":
                    present = self._required.get(key)
                    self._required[key] = frozenset(values) if present is None else present.intersection(values)
                case "NotIn":
                    excluded.setdefault(key, set()).update(values)
                case "Exists":
                    self._required.setdefault(key, None)
                case "DoesNotExist":
                    absent.add(key)
                case _:
                    self._narrow(key, operator, values)
        self._excluded = {key: frozenset(values) for key, values in excluded.items()}
        self._absent = frozenset(absent)

    def _narrow(self, key: str, operator: str, values: tuple[str, ...]) -> None:
        """Add a requirement with Gt or Lt."""
        limit = parse_integer(values[0]) if len(values) == 1 else None
        if limit is None:
            self._nothing = True
            return
        low, high = self._bounds.get(key, (-(2**63), 2**63 - 1))
        self._bounds[key] = (max(low, limit + 1), high) if operator == GT else (low, min(high, limit - 1))
        self._required.setdefault(key, None)

    def __call__(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels satisfy every requirement."""
        if self._nothing or len(self._required) > len(labels):
            return False
        for key, values in self._required.items():
            value = labels.get(key)
            if value is None or (values is not None and value not in values):
                return False
        if not self._absent.isdisjoint(labels):
            return False
        excluded = self._excluded
        for key in excluded if len(excluded) < len(labels) else labels:
            if key in excluded and labels.get(key) in excluded[key]:
                return False
        for key, (low, high) in self._bounds.items():
            number = parse_integer(labels[key])
            if number is None or not low <= number <= high:
                return False
        return True


EVERYTHING: Final = Selector()
NOTHING: Final = Selector(nothing=True)


def compile_label_selector(selector: LabelSelector | None) -> Selector:
    """Return the selector of an object's `labelSelector` field: None matches nothing, an empty one everything.

    Raises `SelectorError` for an unknown operator (validation refuses it before).
    """
    if selector is None:
        return NOTHING
    requirements = [Requirement(key, IN, (value,)) for key, value in sorted(selector.match_labels.items())]
    requirements.extend(
        _requirement(e.key, e.operator, e.values, LABEL_SELECTOR_OPERATORS) for e in selector.match_expressions
    )
    return Selector(_all_of(requirements))


def is_plain(selector: Json) -> bool:
    """Return whether a selector is the plain labels of a ReplicationController, which may look like other fields."""
    return any(isinstance(value, str) for value in selector.values())


def compile_selector(selector: Json) -> Selector:
    """Compile the label selector, or the plain labels, of a manifest; raises SelectorError."""
    if is_plain(selector):
        selector = {"matchLabels": selector}
    return _compiled(json.dumps(selector, sort_keys=True))


@remembered(4096, 4096)
def _compiled(text: str) -> Selector:
    return compile_label_selector(msgspec.json.decode(text, type=LabelSelector))


def compile_match_labels(labels: Mapping[str, str]) -> Selector:
    """Return the selector of a plain map such as `nodeSelector`: all entries must match, an empty map always does."""
    return Selector(tuple(Requirement(key, IN, (value,)) for key, value in sorted(labels.items())))


def _requirement(key: str, operator: str, values: tuple[str, ...], allowed: Sequence[str]) -> Requirement:
    if operator not in allowed:
        raise SelectorError(f'"{operator}" is not a valid label selector operator')
    return Requirement(key, operator, values if len(values) <= _FEW else ManyValues(values))


def _hold(requirements: tuple[Requirement, ...], labels: Mapping[str, str]) -> bool:
    """Return whether labels, or fields, satisfy every requirement."""
    if isinstance(requirements, ManyRequirements):
        return requirements.matcher(labels)
    return all(requirement.matches(labels) for requirement in requirements)


def _all_of(requirements: Sequence[Requirement]) -> tuple[Requirement, ...]:
    """Return the requirements in the fastest form for `_hold`."""
    return tuple(requirements) if len(requirements) <= _FEW else ManyRequirements(requirements)


# --- node selectors -----------------------------------------------------------------------------------------


class NodeTerm(NamedTuple):
    """One term of a node selector: requirements on labels and on `metadata.name`."""

    labels: tuple[Requirement, ...]
    fields: tuple[Requirement, ...]

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """Return whether a node with these labels and this name satisfies the term; an empty term never matches."""
        if not self.labels and not self.fields:
            return False
        return _hold(self.labels, labels) and _hold(self.fields, {"metadata.name": name})


class CompiledNodeSelector(NamedTuple):
    """Alternative terms; at least one must match."""

    terms: tuple[NodeTerm, ...]

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """Return whether a node with these labels and this name satisfies one of the terms."""
        return any(term.matches(labels, name) for term in self.terms)


def compile_node_term(term: NodeSelectorTerm) -> NodeTerm:
    """Return the requirements of a node selector term; raises `SelectorError` for an unknown operator."""

    def read(expressions: tuple[NodeSelectorRequirement, ...]) -> tuple[Requirement, ...]:
        return _all_of([_requirement(e.key, e.operator, e.values, NODE_SELECTOR_OPERATORS) for e in expressions])

    return NodeTerm(read(term.match_expressions), read(term.match_fields))


def compile_node_selector(selector: NodeSelector) -> CompiledNodeSelector:
    """Return all terms of a node selector; without terms it matches no node."""
    return CompiledNodeSelector(tuple(map(compile_node_term, selector.node_selector_terms)))


# --- the string form of label selectors ---------------------------------------------------------------------

_TOKEN = re.compile(r"==|!=|[=<>!(),]|[^\s=<>!(),]+")
"""Without leading spaces: for each of many spaces the search would scan all the spaces that follow."""
_MAX_SELECTOR_TEXT: Final = 65536
MAX_TERMS: Final = 1000
"""Maximum number of requirements in the text of a selector."""
MAX_VALUES: Final = 4000
"""Maximum number of values in the sets of these requirements together."""
_QUOTED: Final = 256
_SYMBOLS: Final = {"=": IN, "==": IN, "!=": NOT_IN, ">": GT, "<": LT}
_WORDS: Final = {"in": IN, "notin": NOT_IN}
_OPERATOR_TOKENS: Final = "in,notin,=,==,!=,gt,lt"


def parse_label_selector(text: str) -> Selector:
    """Return the selector of a text in kubectl's format: `a=b,c!=d,e in (x,y),!f,g,h>1`; empty matches everything.

    Raises `SelectorError` with an API server's message.
    """
    return Selector(tuple(sorted(_LabelParser(text).requirements(), key=lambda r: r.key)))


class _LabelParser:
    """Parses the tokens of one selector text from left to right."""

    def __init__(self, text: str) -> None:
        if len(text) > _MAX_SELECTOR_TEXT:
            raise SelectorError(f"unable to parse requirement: longer than {_MAX_SELECTOR_TEXT} characters")
        self._tokens = _TOKEN.findall(text)
        self._next = 0
        self._values = 0

    def requirements(self) -> list[Requirement]:
        result: list[Requirement] = []
        if not self._tokens:
            return result
        while True:
            result.append(self._requirement())
            if len(result) > MAX_TERMS:
                raise _cannot_parse(f"more than {MAX_TERMS} requirements")
            token = self._take()
            if token == "":
                return result
            if token != ",":
                raise _cannot_parse(f"found '{token}', expected: ',' or 'end of string'")
            if self._peek() in ("", ","):
                raise _cannot_parse(f"found '{self._peek()}', expected: identifier after ','")

    def _peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        self._next += 1
        return token

    def _requirement(self) -> Requirement:
        token = self._take()
        absent = token == "!"
        key = self._take() if absent else token
        if not _is_word(key):
            raise _cannot_parse(f"found '{key}', expected: identifier")
        _refuse(qualified_name_errors(key), f'key: Invalid value: "{key}"')
        if absent:
            return Requirement(key, DOES_NOT_EXIST)
        token = self._peek()
        if token in ("", ","):
            return Requirement(key, EXISTS)
        self._next += 1
        if token in _WORDS:
            operator, values = _WORDS[token], self._value_list()
        elif token in _SYMBOLS:
            operator, values = _SYMBOLS[token], (self._value(),)
        else:
            raise _cannot_parse(f"found '{token}', expected: {_OPERATOR_TOKENS}")
        for index, value in enumerate(values):
            if operator in (GT, LT):
                if parse_integer(value) is None:
                    raise _cannot_parse(
                        f"values[{index}][{key}]: Invalid value: \"{value}\": for 'Gt', 'Lt' operators, "
                        "the value must be an integer"
                    )
            else:
                _refuse(label_value_errors(value), f'values[{index}][{key}]: Invalid value: "{value}"')
        return Requirement(key, operator, values)

    def _value(self) -> str:
        token = self._peek()
        if token in ("", ","):
            return ""
        self._next += 1
        if not _is_word(token):
            raise _cannot_parse(f"found '{token}', expected: identifier")
        return token

    def _value_list(self) -> tuple[str, ...]:
        token = self._take()
        if token != "(":
            raise _cannot_parse(f"found '{token}' expected: '('")
        values: list[str] = []
        value = ""
        while True:
            token = self._take()
            if token in (",", ")"):
                self._values += 1
                if self._values > MAX_VALUES:
                    raise _cannot_parse(f"more than {MAX_VALUES} values")
                values.append(value)
                value = ""
                if token == ")":
                    return tuple(dict.fromkeys(values))
            elif _is_word(token) and not value:
                value = token
            else:
                raise _cannot_parse(f"found '{token}', expected: ',', or ')'")


def _is_word(token: str) -> bool:
    return token != "" and token[0] not in "=<>!(),"


def _cannot_parse(reason: str) -> SelectorError:
    return SelectorError(f"unable to parse requirement: {excerpt(reason, 4 * _QUOTED)}")


def _refuse(messages: tuple[str, ...], where: str) -> None:
    if messages:
        raise _cannot_parse(f"{where}: {'; '.join(messages)}")


# --- field selectors ----------------------------------------------------------------------------------------


class FieldRequirement(NamedTuple):
    """One condition on a field; `equal` False means `!=`."""

    path: str
    equal: bool
    value: str


class FieldSelector(NamedTuple):
    """A conjunction of conditions on an object as plain data."""

    requirements: tuple[FieldRequirement, ...] = ()

    def matches(self, manifest: Mapping[str, Any]) -> bool:
        """Return whether the object satisfies every condition; an absent field reads as the empty string."""
        return all((field_value(manifest, r.path) == r.value) == r.equal for r in self.requirements)


def field_value(manifest: Mapping[str, Any], path: str) -> str:
    """Return the text at a dotted path (`spec.nodeName`): empty if absent, `true`/`false` for booleans."""
    value: Any = manifest
    for step in path.split("."):
        if not isinstance(value, Mapping) or step not in value:
            return ""
        value = value[step]
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def parse_field_selector(text: str) -> FieldSelector:
    r"""Return the selector of a text in kubectl's format: `metadata.name=a,status.phase!=Failed`.

    Commas, equal signs and backslashes in a value are escaped by a backslash. Raises `SelectorError` with an API
    server's message.
    """
    if len(text) > _MAX_SELECTOR_TEXT:
        raise SelectorError(f"invalid selector: longer than {_MAX_SELECTOR_TEXT} characters")
    requirements: list[FieldRequirement] = []
    for part in filter(None, _split_unescaped(text)):
        if len(requirements) == MAX_TERMS:
            raise SelectorError(f"invalid selector: more than {MAX_TERMS} requirements")
        match = _FIELD_TERM.fullmatch(part)
        if match is None:
            raise SelectorError(
                f"invalid selector: '{excerpt(text, _QUOTED)}'; can't understand '{excerpt(part, _QUOTED)}'"
            )
        path, operator, value = match.groups()
        requirements.append(FieldRequirement(path, operator != "!=", _unescape(text, value)))
    return FieldSelector(tuple(requirements))


_FIELD_TERM = re.compile(r"([^=!\\]*?)(!=|==|=)(.*)", re.DOTALL)
_ESCAPED = re.compile(r"\\(.?)", re.DOTALL)


def _split_unescaped(text: str) -> list[str]:
    parts: list[str] = []
    start, position = 0, 0
    while position < len(text):
        if text[position] == "\\":
            position += 1
        elif text[position] == ",":
            parts.append(text[start:position])
            start = position + 1
        position += 1
    parts.append(text[start:])
    return parts


def _unescape(text: str, value: str) -> str:
    def unescaped(match: re.Match[str]) -> str:
        escaped = match.group(1)
        if escaped not in ("\\", ",", "="):
            raise SelectorError(f"invalid field selector: invalid escape sequence in '{excerpt(text, _QUOTED)}'")
        return escaped

    if re.search(r"(?<!\\)(?:\\\\)*=", value):
        raise SelectorError(f"invalid field selector: unescaped '=' in '{excerpt(text, _QUOTED)}'")
    return _ESCAPED.sub(unescaped, value)
