"""YAML text to plain data, as `kubectl apply -f` reads it: the only reader for external YAML text.

The data is built from the parser events of libyaml by the rules of sigs.k8s.io/yaml: YAML 1.1 booleans (`yes`, `on`,
`y`), octal and binary numbers, merge keys applied in place, numbers and booleans as keys become text, timestamps stay
text. Values that JSON cannot express (`.nan`, a list as a key) are refused, and so are repeated keys (or they are
listed, for an API server) and tags other than YAML's own.

Invariant: neither the C library nor this module recurses on the input, and the size of the result is bounded by the
text read. Bounds, each checked before anything is built:

- depth: `MAX_DEPTH` levels, with aliases expanded;
- values: a `NodeBudget`, which grows with the text, so that dense text ends early and large text may be large; and
  `MAX_OBJECT_NODES` in one object, where each of the `items` of a `List` is an object;
- values of aliases: `MAX_ALIAS_NODES`, and more as the budget grows; text of aliases: `MAX_ALIAS_BYTES`, or the number
  of characters so far if that is more;
- documents and directives: `MAX_DOCUMENTS`, `MAX_DIRECTIVES` (libyaml compares every `%TAG` with all before it).

Messages quote excerpts of the text. Speed and memory: docs/measurements/yaml-loaders.md.
"""

from __future__ import annotations

import base64
import binascii
import importlib
import math
import re
import struct
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, Final, NamedTuple, NoReturn

from kube_rules.errors import excerpt

MAX_DEPTH: Final = 100
"""Maximum nesting levels of a document; real manifests have fewer than 30."""

BASE_NODES: Final = 50_000
"""Number of values that any text may have, however dense."""

CHARACTERS_PER_NODE: Final = 4
"""Average characters per value beyond the first `BASE_NODES`; pods in the shortest notation take 5 or 6."""

MANY_NODES: Final = 2_000_000
CHARACTERS_PER_NODE_OF_MANY: Final = 6
"""Average characters per value beyond the first `MANY_NODES`; manifests that programs write take 11 and more."""

OBJECT_NODES: Final = 4
"""Cost of a document, or of an object in a `List`, besides its values."""

MAX_OBJECT_NODES: Final = 200_000
"""Maximum number of values in one object: as many as fit in 1.5 MB, the maximum size in an API server's storage."""

MAX_ALIAS_NODES: Final = 200_000
"""Maximum number of values of the expanded aliases of a short text."""

MAX_ALIAS_BYTES: Final = 3 * 1024 * 1024
"""Maximum bytes of text (UTF-8), keys included, of expanded aliases: the size limit of a request body."""

MAX_DOCUMENTS: Final = 1_000_000
"""Maximum number of documents in a text, empty ones included."""

MAX_DIRECTIVES: Final = 100
"""Maximum number of lines that start with `%` in a text."""

_MAX_MEMO: Final = 4096
_LONGEST_MEMO: Final = 64


class YamlError(ValueError):
    """Invalid YAML text; `line` counts from 1 within the text."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


class YamlDocument(NamedTuple):
    """One document: its number in the text (from 1), its first line (from 1), its plain data."""

    number: int
    line: int
    data: Any


class RepeatedKey(NamedTuple):
    """A repeated key of a mapping, and its line (from 1)."""

    key: str
    line: int


class NodeBudget:
    """The number of values that one input may have in all its texts: `BASE_NODES`, and more with every character read.

    The number is at most `most`, if given.
    """

    __slots__ = ("aliased", "aliased_bytes", "characters", "most", "nodes")

    def __init__(self, most: int | None = None) -> None:
        self.most = most
        self.nodes = 0
        self.aliased = 0
        self.aliased_bytes = 0
        self.characters = 0

    def allowed(self, index: int) -> int:
        """Return the maximum number of values up to character `index` of the current text."""
        read = self.characters + index
        allowed = min(
            BASE_NODES + read // CHARACTERS_PER_NODE,
            MANY_NODES + read // CHARACTERS_PER_NODE_OF_MANY,
        )
        return allowed if self.most is None else min(allowed, self.most)

    def allowed_aliased(self, index: int) -> int:
        """Return the maximum number of values of the aliases up to that character."""
        return MAX_ALIAS_NODES + (self.characters + index) // CHARACTERS_PER_NODE

    def allowed_aliased_bytes(self, index: int) -> int:
        """Return the maximum bytes of text of the aliases up to that character."""
        return max(MAX_ALIAS_BYTES, self.characters + index)


def read_documents(text: str, budget: NodeBudget | None = None) -> Iterator[YamlDocument]:
    """Yield the documents of a text, in order; empty ones (only comments, null) are counted but not yielded.

    `budget` is shared by the texts of one input. Raises `YamlError` at the first invalid document, after yielding the
    documents before it.
    """
    yield from _read(text, budget or NodeBudget(), None)


def read_document(text: str) -> tuple[Any, list[RepeatedKey]]:
    """Return the data of a text with one document and its repeated keys; the last value counts, as in an API server.

    None for a text without data. Raises `YamlError` for invalid text, for more than `MAX_OBJECT_NODES` values and for a
    second document.
    """
    repeated: list[RepeatedKey] = []
    data: Any = None
    for document in _read(text, NodeBudget(MAX_OBJECT_NODES), repeated):
        if data is not None:
            raise YamlError("expected one document, found another", document.line)
        data = document.data
    return data, repeated


def _read(text: str, budget: NodeBudget, repeated: list[RepeatedKey] | None) -> Iterator[YamlDocument]:
    yaml: Any = importlib.import_module("yaml")  # imported on demand: it takes 15 ms
    text = text.removeprefix("\ufeff")
    if "%" in text and sum(1 for _ in _DIRECTIVES.finditer(text)) > MAX_DIRECTIVES:
        raise YamlError(f"more than {MAX_DIRECTIVES} lines start with a %")
    try:
        loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)(text)
        try:
            builder = _Builder(yaml, loader.get_event, budget, repeated)
            number = 0
            while (event := loader.get_event()) is not None:
                if type(event) is not yaml.DocumentStartEvent:
                    continue
                number += 1
                if number > MAX_DOCUMENTS:
                    raise YamlError(f"more than {MAX_DOCUMENTS} documents", event.start_mark.line + 1)
                budget.nodes += OBJECT_NODES
                data = builder.document()
                if data is not None:
                    yield YamlDocument(number, event.start_mark.line + 1, data)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = f"{error.context}, {error.problem}" if error.context else str(error.problem)
        if error.problem == _LIBYAML_TOO_DEEP:
            problem = f"nested deeper than {MAX_DEPTH} levels"
        raise YamlError(problem, mark.line + 1 if mark else None) from None
    except yaml.YAMLError as error:
        raise YamlError(" ".join(str(error).split())) from None
    budget.characters += len(text)


_LIBYAML_TOO_DEEP = "exceeded maximum nesting depth"
"""The error of newer libyaml beyond its own limit, which it may reach first because it reads ahead of the events."""
_DIRECTIVES = re.compile("(?:\\A|[\\n\\r\x85\u2028\u2029])%")


# --- building -----------------------------------------------------------------------------------------------


class _Anchor(NamedTuple):
    """A finished value, the number of its values, their bytes of text and its levels, with aliases expanded."""

    data: Any
    size: int
    text: int
    height: int


_NO_KEY: Final = object()
_ITEM: Final = object()
_MERGE: Final = object()


class _Builder:
    """Builds documents from parser events in a single method: a call per value would double the time."""

    def __init__(
        self, yaml: Any, get_event: Callable[[], Any], budget: NodeBudget, repeated: list[RepeatedKey] | None
    ) -> None:
        self._types = (
            yaml.ScalarEvent,
            yaml.MappingStartEvent,
            yaml.SequenceStartEvent,
            yaml.AliasEvent,
            yaml.DocumentEndEvent,
        )
        self._get_event = get_event
        self._budget = budget
        self._repeated = repeated
        self._memo: dict[str, Any] = {}

    def document(self) -> Any:
        # long: one loop over all events; its state is in local variables because it runs for every value of the input
        """Return the data of a document after its start event; read up to and including its end event."""
        get_event, budget, memo = self._get_event, self._budget, self._memo
        scalar_event, mapping_start, sequence_start, alias_event, document_end = self._types
        anchors: dict[str, _Anchor | None] = {}
        merged: dict[int, set[str]] = {}  # by depth: keys that only a merge has set so far
        # The innermost open mapping or list, and the key of its next value: `_ITEM` in a list; in a mapping `_NO_KEY`
        # (the value is the key), `_MERGE`, or the key.
        root: list[Any] = []
        open_data: Any = root
        key: Any = _ITEM
        # The enclosing values: data, key; their anchor, nodes and bytes of text before them.
        stack: list[tuple[Any, Any, str | None, int, int]] = []
        heights = [0]
        nodes, allowed = budget.nodes, 0
        most = nodes + MAX_OBJECT_NODES  # the maximum for the current object
        written_out = 0  # values of aliases beyond the one that each counts as
        bytes_read = 0  # bytes of the text of scalars, with aliases expanded
        value: Any
        while True:
            event = get_event()
            kind = type(event)
            if kind is scalar_event:
                nodes += 1
                text = event.value
                bytes_read += len(text) if text.isascii() else _utf8(text)
                if event.tag is not None:
                    value = _tagged(event)
                elif not event.implicit[0]:
                    value = text
                elif text in memo:
                    value = memo[text]
                else:
                    value = _resolve(text, event)
                    if len(memo) < _MAX_MEMO and len(text) <= _LONGEST_MEMO:
                        memo[text] = value
                if event.anchor is not None:
                    anchors[event.anchor] = _Anchor(value, 1, _utf8(text), 0)
                if key is _NO_KEY and text == "<<" and event.implicit[0]:
                    key = _MERGE
                    continue
            elif kind is mapping_start or kind is sequence_start:
                nodes += 1
                if len(stack) >= MAX_DEPTH:
                    _refuse(event, f"nested deeper than {MAX_DEPTH} levels")
                if key is _NO_KEY:
                    _refuse(event, "a key must be text")
                if event.tag is not None:
                    _check_tag(event, "map" if kind is mapping_start else "seq")
                if event.anchor is not None:
                    anchors[event.anchor] = None
                if len(stack) == 2 and kind is mapping_start and stack[1][1] == "items":
                    nodes += OBJECT_NODES
                    most = nodes + MAX_OBJECT_NODES
                stack.append((open_data, key, event.anchor, nodes + written_out - 1, bytes_read))
                heights.append(0)
                if kind is mapping_start:
                    open_data, key = {}, _NO_KEY
                else:
                    open_data, key = [], _ITEM
                if nodes > allowed:
                    allowed = self._charge(nodes, most, event)
                continue
            elif kind is alias_event:
                anchored = anchors.get(event.anchor, _NO_KEY)
                if anchored is _NO_KEY:
                    _refuse(event, f"found undefined alias {excerpt(event.anchor)!r}")
                if not isinstance(anchored, _Anchor):
                    _refuse(event, f"alias {excerpt(event.anchor)!r} contains itself")
                self._charge_alias(anchored, event)
                if len(stack) + anchored.height > MAX_DEPTH:
                    _refuse(event, f"nested deeper than {MAX_DEPTH} levels")
                nodes += 1
                written_out += anchored.size - 1
                bytes_read += anchored.text
                heights[-1] = max(heights[-1], anchored.height)
                value = _copy(anchored.data)
            elif kind is document_end:
                budget.nodes = nodes
                return root[0]
            else:  # the end of a mapping or list
                if merged:
                    merged.pop(len(stack), None)
                value = open_data
                open_data, key, anchor, before, bytes_before = stack.pop()
                height = heights.pop() + 1
                if height > heights[-1]:
                    heights[-1] = height
                if anchor is not None:
                    anchors[anchor] = _Anchor(value, nodes + written_out - before, bytes_read - bytes_before, height)
            if key is _ITEM:
                open_data.append(value)
            elif key is _NO_KEY:
                key = value if type(value) is str else _key(value, event)
                if key in open_data and not (merged and key in merged.get(len(stack), ())):
                    self._repeat(key, event)
                elif merged:
                    merged.get(len(stack), set()).discard(key)
            elif key is _MERGE:
                if type(value) is list and kind is not alias_event:
                    value.reverse()  # the first one takes precedence
                    for item in value:
                        _merge(open_data, item, merged.setdefault(len(stack), set()), event)
                else:
                    _merge(open_data, value, merged.setdefault(len(stack), set()), event)
                key = _NO_KEY
            else:
                open_data[key] = value
                key = _NO_KEY
            if nodes > allowed:
                allowed = self._charge(nodes, most, event)

    def _charge(self, nodes: int, most: int, event: Any) -> int:
        """Return the number of values allowed up to the event, in the object that ends at `most`; raises beyond it."""
        if nodes > most or nodes > (self._budget.most or nodes):
            _refuse(event, f"an object of more than {MAX_OBJECT_NODES} values")
        allowed = self._budget.allowed(event.start_mark.index)
        if nodes > allowed:
            _refuse(event, f"more than {allowed} values up to here: too many for so little text")
        return min(allowed, most)

    def _charge_alias(self, anchored: _Anchor, event: Any) -> None:
        budget, index = self._budget, event.start_mark.index
        budget.aliased += anchored.size
        budget.aliased_bytes += anchored.text
        allowed = budget.allowed_aliased(index)
        if budget.aliased > allowed:
            _refuse(event, f"aliases stand for more than {allowed} values")
        allowed = budget.allowed_aliased_bytes(index)
        if budget.aliased_bytes > allowed:
            _refuse(event, f"aliases stand for more than {allowed} bytes of text")

    def _repeat(self, key: str, event: Any) -> None:
        if self._repeated is None:
            _refuse(event, f"key {excerpt(key)!r} already set in map")
        self._repeated.append(RepeatedKey(key, event.start_mark.line + 1))


def _refuse(event: Any, message: str) -> NoReturn:
    raise YamlError(message, event.start_mark.line + 1)


def _utf8(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _copy(data: Any) -> Any:
    """Return a copy, so that changes in one place do not affect others; at most `MAX_DEPTH` deep."""
    if type(data) is dict:
        return {key: _copy(value) for key, value in data.items()}
    if type(data) is list:
        return [_copy(value) for value in data]
    return data


def _merge(into: dict[str, Any], source: Any, merged: set[str], event: Any) -> None:
    """Set the keys of a merged mapping; they replace earlier keys and yield to later ones (goyaml v2 `merge`)."""
    if type(source) is not dict:
        _refuse(event, "map merge requires map or sequence of maps as the value")
    merged.update(key for key in source if key not in into)
    into.update(source)


# --- scalars ------------------------------------------------------------------------------------------------

_CONSTANTS: Final[dict[str, Any]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_NUMBER_STARTS: Final = frozenset("+-.0123456789")
_LONGEST_NUMBER: Final = 400
_BASES: Final = {"0b": 2, "0B": 2, "0o": 8, "0O": 8, "0x": 16, "0X": 16}
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)", re.ASCII)
_BASED = re.compile(r"([-+]?)(0[bB][01]+|0[oO][0-7]+|0[xX][0-9a-fA-F]+|0[0-7]+)", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_BETWEEN_DIGITS = re.compile(r"(?:[^_]|(?<=[0-9])_(?=[0-9]))*")
_TAG: Final = "tag:yaml.org,2002:"
_TYPES: Final[dict[str, tuple[type[Any], ...]]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (float, int),
    "null": (type(None),),
    "timestamp": (str,),
}


def _check_tag(event: Any, kind: str) -> None:
    if event.tag not in ("!", _TAG + kind):
        _refuse(event, f"tag {excerpt(event.tag)!r} is not allowed")


def _tagged(event: Any) -> Any:
    """Return the value of a scalar with a tag."""
    text: str = event.value
    kind = event.tag.removeprefix(_TAG)
    if event.tag == "!" or kind == "str":
        return text
    if kind == "binary":
        try:
            return base64.b64decode("".join(text.split()), validate=True).decode("utf-8", "replace")
        except (binascii.Error, ValueError):
            _refuse(event, "!!binary value contains invalid base64 data")
    if kind not in _TYPES or kind == event.tag:
        _refuse(event, f"tag {excerpt(event.tag)!r} is not allowed")
    data: Any = _resolve(text, event)
    unfit = not isinstance(data, _TYPES[kind]) or (isinstance(data, bool) and kind != "bool")
    if unfit or (kind == "int" and not isinstance(_number(text), int)):  # 08 is a float
        _refuse(event, f"cannot decode {excerpt(text)!r} as {kind}")
    return data


def _resolve(text: str, event: Any) -> Any:
    """Return the value of a plain scalar in JSON's form: whole floats become integers."""
    if text in _CONSTANTS:
        value = _CONSTANTS[text]
        if isinstance(value, float):
            _refuse(event, f"{text} is a number that JSON does not have")
        return value
    if text[0] not in _NUMBER_STARTS:
        return text
    number = _number(text)
    if number is None:
        return text
    return int(number) if isinstance(number, float) and number.is_integer() and abs(number) < 1e21 else number


def _number(text: str) -> int | float | None:
    """Return the number of a plain scalar, None for other texts (goyaml v2 `resolve`)."""
    if len(text) > _LONGEST_NUMBER:
        return None
    if text[0] == "." and "_" in text and not _BETWEEN_DIGITS.fullmatch(text):
        return None
    plain = text.replace("_", "")
    if _INTEGER.fullmatch(plain):
        whole = int(plain)
        return whole if -(2**63) <= whole < 2**64 else _finite(plain)
    based = _BASED.fullmatch(plain)
    if based is not None:
        sign, digits = based.groups()
        base = _BASES.get(digits[:2])
        number = int(digits, 8) if base is None else int(digits[2:], base)
        return -number if sign == "-" else number
    return _finite(plain) if _FLOAT.fullmatch(plain) else None


def _finite(plain: str) -> float | None:
    number = float(plain)
    return None if math.isinf(number) else number


def _key(data: Any, event: Any) -> str:
    """Return the key in JSON's form: numbers and booleans become text, as sigs.k8s.io/yaml writes them."""
    if isinstance(data, bool):
        return "true" if data else "false"
    number = data
    if isinstance(data, int) and getattr(event, "tag", "") is None:
        number = _number(event.value)  # `1e6` is a float here
    if isinstance(number, float):
        return _float_text(number)
    if isinstance(number, int) and -(2**63) <= number < 2**63:
        return str(number)
    _refuse(event, "a key must be text")


def _float_text(number: float) -> str:
    """Return the shortest text of a number that is unique among 32-bit floats (Go's format `g`)."""
    try:
        (rounded,) = struct.unpack("<f", struct.pack("<f", number))
    except OverflowError:
        return ".inf" if number > 0 else "-.inf"
    for digits in range(9):
        text = f"{rounded:.{digits}e}"
        if struct.pack("<f", float(text)) == struct.pack("<f", rounded):
            break
    mantissa, _, exponent = text.partition("e")
    return f"{mantissa}e{exponent}" if not -4 <= int(exponent) < 6 else f"{Decimal(text):f}"
