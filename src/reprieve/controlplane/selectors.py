"""Label and field selectors of list and watch requests: parsed once, then a function over stored states.

Grammar and error texts are those of kube-apiserver 1.36 (label selectors: ``k8s.io/apimachinery`` labels;
field selectors know ``=``, ``==`` and ``!=`` only). Invariant: parsing is linear in the text and the text
is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from reprieve.controlplane.errors import StatusError, bad_request
from reprieve.controlplane.kinds import Kind
from reprieve.controlplane.storage.model import Stored

MAX_TEXT = 64 * 1024

_TOKEN = re.compile(r"\s*(?:(notin|in)(?=[\s(,]|$)|([^\s,()=!<>]+)|(==|!=|[=!<>,()]))")
_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation "
    "is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_NAME_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)

Matcher = Callable[[Stored], bool]


@dataclass(frozen=True)
class Requirement:
    """One term of a label selector. ``operator`` is one of =, !=, in, notin, exists, !, > and <."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether ``labels`` fulfil the term; negative terms also hold where the label is absent."""
        value = labels.get(self.key)
        match self.operator:
            case "exists":
                return value is not None
            case "!":
                return value is None
            case "=" | "in":
                return value is not None and value in self.values
            case "!=" | "notin":
                return value is None or value not in self.values
            case _:
                return self._compares(value)

    def _compares(self, value: str | None) -> bool:
        (limit,) = self.values
        try:
            number = int(value) if value is not None else None
        except ValueError:
            return False
        if number is None:
            return False
        return number > int(limit) if self.operator == ">" else number < int(limit)


def _fail(why: str) -> StatusError:
    return bad_request(f"unable to parse requirement: {why}")


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _check_key(key: str) -> None:
    prefix, slash, name = key.rpartition("/")
    problem = ""
    if slash and (len(prefix) > 253 or not _SUBDOMAIN.fullmatch(prefix)):
        problem = (
            "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters"
        )
    elif len(name) > 63:
        problem = "name part must be no more than 63 bytes"
    elif not _NAME.fullmatch(name):
        problem = _NAME_TEXT
    if problem:
        raise _fail(f"key: Invalid value: {_quoted(key)}: {problem}")


class _LabelParser:
    """Recursive descent over the tokens of one label selector."""

    def __init__(self, text: str) -> None:
        self.tokens: list[str] = []
        position = 0
        stripped = text.rstrip()
        while position < len(stripped):
            found = _TOKEN.match(stripped, position)
            if found is None:
                raise _fail(f"found '{stripped[position:]}', expected: a label selector")
            self.tokens.append(found.group().strip())
            position = found.end()
        self.next = 0

    def peek(self) -> str:
        return self.tokens[self.next] if self.next < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self.next += 1
        return token

    def requirement(self) -> Requirement:
        negated = self.peek() == "!"
        if negated:
            self.take()
        key = self.take()
        if not key or key in "=!<>,()" or key in ("==", "!="):
            raise _fail(f"found '{key}', expected: !, identifier, or 'end of string'")
        _check_key(key)
        operator = self.peek()
        if negated:
            return Requirement(key, "!")
        if operator in ("", ","):
            return Requirement(key, "exists")
        self.take()
        if operator in ("in", "notin"):
            values = self.value_set()
        elif operator in ("=", "==", "!="):
            values = [self.single()]
        elif operator in (">", "<"):
            values = [self.single()]
            if not re.fullmatch(r"[+-]?[0-9]+", values[0]):
                raise _fail(
                    f"values[0][{key}]: Invalid value: {_quoted(values[0])}: "
                    "for 'Gt', 'Lt' operators, the value must be an integer"
                )
        else:
            raise _fail(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")
        for index, value in enumerate(values):
            if len(value) > 63:
                raise _fail(
                    f"values[{index}][{key}]: Invalid value: {_quoted(value)}: must be no more than 63 bytes"
                )
            if not _VALUE.fullmatch(value):
                raise _fail(f"values[{index}][{key}]: Invalid value: {_quoted(value)}: {_VALUE_TEXT}")
        return Requirement(key, "=" if operator == "==" else operator, frozenset(values))

    def single(self) -> str:
        token = self.peek()
        if token in ("", ","):
            return ""
        if token in ("(", ")", "=", "==", "!=", "!", ">", "<"):
            raise _fail(f"found '{token}', expected: identifier")
        return self.take()

    def value_set(self) -> list[str]:
        token = self.take()
        if token != "(":
            raise _fail(f"found '{token}' expected: '('")
        values: list[str] = []
        while True:
            token = self.take()
            if token == ")":
                if not values:
                    values.append("")
                return values
            if token == ",":
                values.append("")
                continue
            if not token or token in "=!<>(" or token in ("==", "!="):
                raise _fail(f"found '{token}', expected: ',', ')' or identifier")
            values.append(token)
            follow = self.take()
            if follow == ")":
                return values
            if follow != ",":
                raise _fail(f"found '{follow}', expected: ',' or ')'")


def parse_labels(text: str) -> tuple[Requirement, ...]:
    """Parse a label selector (``a=b,c in (x,y),!d``); empty selects everything. Raises 400."""
    if len(text) > MAX_TEXT:
        raise bad_request(f"unable to parse requirement: selector longer than {MAX_TEXT} bytes")
    parser = _LabelParser(text)
    found: list[Requirement] = []
    while parser.peek():
        found.append(parser.requirement())
        separator = parser.take()
        if separator and separator != ",":
            raise _fail(f"found '{separator}', expected: ',' or 'end of string'")
        if separator and not parser.peek():
            raise _fail("found '', expected: identifier after ','")
    return tuple(found)


def _terms(text: str) -> list[str]:
    """Split at commas that no backslash escapes."""
    return re.split(r"(?<!\\),", text)


def parse_fields(text: str) -> list[tuple[str, bool, str]]:
    """Parse a field selector into (label, equal?, value); raises 400 for set operators and broken terms."""
    if len(text) > MAX_TEXT:
        raise bad_request(f"invalid selector: longer than {MAX_TEXT} bytes")
    found: list[tuple[str, bool, str]] = []
    for term in _terms(text):
        if not term:
            continue
        match = re.match(r"([^=!]*)(!=|==|=)(.*)\Z", term, re.DOTALL)
        if match is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        value = re.sub(r"\\(.)", r"\1", match[3])
        found.append((match[1], match[2] != "!=", value))
    return found


_ALWAYS = ("metadata.name", "metadata.namespace")


@dataclass(frozen=True)
class Selection:
    """What a list or watch selects. ``match`` is None for everything; ``name`` is set if only one can
    match.
    """

    match: Matcher | None = None
    name: str | None = None
    namespace: str | None = None


def select(kind: Kind, labels: str, fields: str) -> Selection:
    """Compile the two selector texts for ``kind``; raises 400 for bad texts and fields the kind does not
    offer.
    """
    requirements = parse_labels(labels) if labels else ()
    terms: list[tuple[str, bool, str]] = []
    name = namespace = None
    for label, equal, value in parse_fields(fields) if fields else ():
        path = label if label in _ALWAYS else kind.fields.get(label)
        if path is None:
            raise _unknown_field(kind, label)
        terms.append((path, equal, value))
        if equal and label == "metadata.name":
            name = value
        if equal and label == "metadata.namespace":
            namespace = value
    if not requirements and not terms:
        return Selection()

    def match(state: Stored) -> bool:
        for path, equal, value in terms:
            if (state.field(path) == value) != equal:
                return False
        if requirements:
            have = state.labels
            for requirement in requirements:
                if not requirement.matches(have):
                    return False
        return True

    return Selection(match, name, namespace)


def _unknown_field(kind: Kind, label: str) -> StatusError:
    if kind.fields or kind.custom:
        return bad_request(f"field label not supported: {label}")
    return bad_request(f'"{label}" is not a known field selector: only "metadata.name", "metadata.namespace"')
