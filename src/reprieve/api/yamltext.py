"""YAML text to plain data, as `kubectl apply -f` would read it.

Terms: the fast reader is `yaml-rs` (YAML 1.2, about 17 MB/s). The exact reader builds the data here from
PyYAML's C parser events (about 2 MB/s) by the rules of sigs.k8s.io/yaml: YAML 1.1 booleans (`yes`, `on`,
`y`), octal and binary numbers, merge keys, duplicate keys refused, timestamps kept as text. Figures:
docs/measurements/yaml-loaders.md.

Invariant: both readers give the same data for a document the fast one is asked to read. A document that
holds anything on which they could differ (a YAML 1.1 word, a number with a leading zero, an anchor, a tag,
a control character), or that the fast reader refuses, goes to the exact one, which also words every error.

Bounds: nesting up to `MAX_DEPTH`; everything aliases stand for, written out, up to `MAX_ALIAS_NODES` values.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

MAX_DEPTH: Final = 100
"""Levels of nesting a document may have; real manifests stay under 30."""

MAX_ALIAS_NODES: Final = 200_000
"""Values that the aliases of a document may stand for, written out."""

MAX_DOCUMENTS: Final = 1_000_000
"""Documents a text may hold, empty ones included."""


class YamlError(ValueError):
    """Text that is no usable YAML; `line` counts from 1 within the text given."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


class YamlDocument(NamedTuple):
    """One document: its place in the text (from 1), the line it starts on (from 1), its plain data."""

    number: int
    line: int
    data: Any


_MARKER = re.compile(r"^(?:---|\.\.\.)(?=[ \t\r\n]|\Z)", re.MULTILINE)
_DIRECTIVE = re.compile(r"^%", re.MULTILINE)
_CONTENT = re.compile(r"^(?!---[ \t\r]*$|---[ \t]+#|\.\.\.[ \t\r]*$)[ \t]*[^\s#]", re.MULTILINE)

# What the two readers could read differently, as a plain scalar or at its start. Each pattern starts with one
# set of characters, which is what makes it fast; those of `_MARKED` need a character that is looked for first.
_LONGEST_NUMBER: Final = 400
_BEFORE = r"[ \n\t\r,\[{]"
_WORD = r"[yYnNoO][esESnNfFoO]{0,2}[ \t]*(?:[\r\n,\]}#:]|\Z)"
_KEY = r"(?:[-+.0-9][-+.0-9a-fA-FxXoO_]*|[tT]rue|TRUE|[fF]alse|FALSE|[nN]ull|NULL|\.\w+|~|)[ \t]*:(?:[ \t\r\n,}\]]|\Z)"
_NUMBER = r"[-+]?0[0-9xXoObB_]"
_DIFFERENT = (
    re.compile(rf"\n[ \t?-]{{{MAX_DEPTH - 1}}}"),
    re.compile(rf"{_BEFORE}{_WORD}"),
    re.compile(rf"{_BEFORE}{_NUMBER}"),
    re.compile(rf"{_BEFORE}(?=[-+.0-9tTfFnN~:]){_KEY}"),
    re.compile(rf"[0-9]{{{_LONGEST_NUMBER}}}"),
)
_MARKED = (
    ("\t", re.compile(r"\t")),
    ("_", re.compile(rf"{_BEFORE}[-+.]*[0-9][0-9.]*_")),
    ("&", re.compile(rf"{_BEFORE}&\w")),
    ("*", re.compile(rf"{_BEFORE}\*\w")),
    ("!", re.compile(rf"{_BEFORE}!")),
    ("?", re.compile(rf"{_BEFORE}\?[ \t\r\n]")),
    ("<<", re.compile(r"<<")),
    ("\r", re.compile(r"\r")),
    ('":', re.compile(rf'":(?:{_WORD}|{_NUMBER}|[&*!])')),
    ("':", re.compile(rf"':(?:{_WORD}|{_NUMBER}|[&*!])")),
)
_DIFFERENT_START = re.compile(rf"(?:---)?[ \t]*(?:{_WORD}|{_NUMBER}|{_KEY}|[&*!?.+0-9]|[ \t?-]{{{MAX_DEPTH - 1}}})")
_LINE_BREAKS = re.compile("[\x85\u2028\u2029\ufeff]")
_ALLOWED_BYTES = bytes(byte for byte in range(256) if byte in b"\t\n\r" or (byte >= 32 and byte != 127))


def _alike(part: str) -> bool:
    """Whether both readers are sure to read a document alike."""
    return (
        (part[-1] == "\n" or ("|" not in part and ">" not in part))  # they end an open block scalar differently
        and not any(pattern.search(part) for pattern in _DIFFERENT)
        and not any(mark in part and pattern.search(part) for mark, pattern in _MARKED)
        and _DIFFERENT_START.match(part) is None
    )


def _printable(text: str) -> bool:
    """Whether the text holds neither control characters nor the line breaks only YAML 1.1 knows."""
    if not text.isascii() and _LINE_BREAKS.search(text):
        return False
    return not text.encode("utf-8", "surrogatepass").translate(None, _ALLOWED_BYTES)


def read_documents(text: str, *, exact: bool = False) -> Iterator[YamlDocument]:
    """The documents of a text, in order; empty ones (only comments) are counted but not given.

    `exact` reads everything with the exact reader. Raises `YamlError` at the first document that is broken.
    """
    text = text.removeprefix("\ufeff")
    if _DIRECTIVE.search(text):
        yield from _read_exactly(text)
        return
    fast = None if exact or not _printable(text) else _fast_reader()
    for index, line, part in _split(text):
        data = _read_one(part, line, fast)
        if data is not None:
            yield YamlDocument(index, line, data)


def _split(text: str) -> Iterator[tuple[int, int, str]]:
    """(index, line, text) of each document; a marker at the start of a line is never content (YAML 9.1.2)."""
    index, line, start = 0, 1, 0
    while start < len(text):
        match = _MARKER.search(text, start + 3 if _MARKER.match(text, start) else start)
        end = match.start() if match else len(text)
        if _CONTENT.search(text, start, end):
            index += 1
            yield index, line, text[start:end]
        elif text.startswith("---", start):
            index += 1
        if index > MAX_DOCUMENTS:
            raise YamlError(f"more than {MAX_DOCUMENTS} documents", line)
        line += text.count("\n", start, end)
        start = end


def _read_one(part: str, line: int, fast: Callable[[str], Any] | None) -> Any:
    if fast is not None and _alike(part):
        try:
            return fast(part)
        except ValueError:
            pass  # the exact reader decides, and words the error
    if part.startswith("..."):
        part = part[3:]
    try:
        return next((document.data for document in _read_exactly(part)), None)
    except YamlError as error:
        raise YamlError(str(error), None if error.line is None else error.line + line - 1) from None


def _fast_reader() -> Callable[[str], Any] | None:
    try:
        import yaml_rs
    except ImportError:  # no wheel for this platform: slower, not different
        return None

    def read(text: str) -> Any:
        return yaml_rs.loads(text, parse_datetime=False)

    return read


# --- the exact reader ---------------------------------------------------------------------------------------


class _Node(NamedTuple):
    """A finished value with the number of values in it, aliases written out."""

    data: Any
    size: int


class _Open:
    """A mapping or sequence being read."""

    __slots__ = ("anchor", "data", "key", "line", "merges", "seen", "size")

    def __init__(self, data: Any, anchor: str | None, line: int) -> None:
        self.data = data
        self.anchor = anchor
        self.line = line
        self.size = 1
        self.key: Any = _NO_KEY
        self.seen: set[Any] = set()
        self.merges: list[Any] = []


_NO_KEY: Final = object()
_MERGE: Final = object()


def _read_exactly(text: str) -> Iterator[YamlDocument]:
    """The documents of a text, each built from parser events without recursion."""
    yaml: Any = importlib.import_module("yaml")  # only when it is needed, it takes 15 ms
    events = _events(yaml, text)
    index = 0
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            index += 1
            line = event.start_mark.line + 1
            data = _build(yaml, events)
            if data is not None:
                yield YamlDocument(index, line, data)


def _events(yaml: Any, text: str) -> Iterator[Any]:
    try:
        yield from yaml.parse(text, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        context = f"{error.context}, " if error.context else ""
        raise YamlError(f"{context}{error.problem}", mark.line + 1 if mark else None) from None
    except yaml.YAMLError as error:
        raise YamlError(str(error)) from None


def _build(yaml: Any, events: Iterator[Any]) -> Any:
    """The data of the document whose start was just read, up to and including its end event."""
    anchors: dict[str, _Node | None] = {}
    stack: list[_Open] = []
    root: Any = None
    aliased = 0
    for event in events:
        kind = type(event)
        line = event.start_mark.line + 1
        if kind is yaml.ScalarEvent:
            node = _Node(_scalar(event, stack, line), 1)
        elif kind is yaml.AliasEvent:
            found = anchors.get(event.anchor, _NO_KEY)
            if found is _NO_KEY:
                raise YamlError(f"found undefined alias {event.anchor!r}", line)
            if not isinstance(found, _Node):
                raise YamlError(f"alias {event.anchor!r} contains itself", line)
            aliased += found.size
            if aliased > MAX_ALIAS_NODES:
                raise YamlError(f"aliases stand for more than {MAX_ALIAS_NODES} values", line)
            _put(stack, found, line)
            continue
        elif kind in (yaml.MappingStartEvent, yaml.SequenceStartEvent):
            if len(stack) >= MAX_DEPTH:
                raise YamlError(f"nested deeper than {MAX_DEPTH} levels", line)
            _check_tag(event.tag, "map" if kind is yaml.MappingStartEvent else "seq", line)
            if event.anchor is not None:
                anchors[event.anchor] = None
            stack.append(_Open({} if kind is yaml.MappingStartEvent else [], event.anchor, line))
            continue
        elif kind in (yaml.MappingEndEvent, yaml.SequenceEndEvent):
            closed = stack.pop()
            node = _Node(_close(closed), closed.size)
            if closed.anchor is not None:
                anchors[closed.anchor] = node
            line = closed.line
        else:
            return root
        if kind is yaml.ScalarEvent and event.anchor is not None:
            anchors[event.anchor] = node
        if stack:
            _put(stack, node, line)
        else:
            root = node.data
    return root


def _check_tag(tag: str | None, kind: str, line: int) -> None:
    if tag not in (None, "", "!", _TAG + kind):
        raise YamlError(f"tag {tag[:64]!r} is not allowed", line)


def _put(stack: list[_Open], node: _Node, line: int) -> None:
    """Add a finished value to the innermost open mapping or sequence."""
    if not stack:
        raise YamlError("an alias cannot be a document", line)
    top = stack[-1]
    top.size += node.size
    if type(top.data) is list:
        top.data.append(node.data)
    elif top.key is _NO_KEY:
        top.key = _key(top, node.data, line)
    else:
        if top.key is _MERGE:
            top.merges.append((node.data, line))
        else:
            top.data[top.key] = node.data
        top.key = _NO_KEY


def _key(top: _Open, data: Any, line: int) -> Any:
    """The key as JSON has it: text; numbers and booleans become their text, as sigs.k8s.io/yaml does."""
    if data is _MERGE:
        return _MERGE
    if isinstance(data, bool):
        data = "true" if data else "false"
    elif isinstance(data, int | float):
        data = str(data)
    elif not isinstance(data, str):
        raise YamlError("a key must be text", line)
    if data in top.seen:
        raise YamlError(f"key {data[:64]!r} already set in map", line)
    top.seen.add(data)
    return data


def _close(closed: _Open) -> Any:
    """The finished data; merged maps fill in the keys that are not set, the first one listed first."""
    for merged, line in closed.merges:
        for source in merged if isinstance(merged, list) else [merged]:
            if not isinstance(source, dict):
                raise YamlError("map merge requires map or sequence of maps as the value", line)
            for key, value in source.items():
                closed.data.setdefault(key, value)
    return closed.data


_CONSTANTS: Final[dict[str, Any]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
}
_BASES: Final = {"0b": 2, "0B": 2, "0o": 8, "0O": 8, "0x": 16, "0X": 16}
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)", re.ASCII)
_BASED = re.compile(r"([-+]?)(0[bB][01]+|0[oO][0-7]+|0[xX][0-9a-fA-F]+|0[0-7]+)", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_TAG: Final = "tag:yaml.org,2002:"
_TYPES: Final[dict[str, tuple[type[Any], ...]]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (float, int),
    "null": (type(None),),
    "timestamp": (str,),
}


def _scalar(event: Any, stack: list[_Open], line: int) -> Any:
    """The value of a scalar: quoted and block text as it is, plain text resolved (goyaml v2 `resolve`)."""
    text: str = event.value
    tag = event.tag
    if tag in (None, "", "!"):
        if not event.implicit[0] or tag == "!":
            return text
        if text == "<<" and stack and type(stack[-1].data) is dict and stack[-1].key is _NO_KEY:
            return _MERGE
        return _resolve(text)
    kind = tag.removeprefix(_TAG)
    if kind in ("str", "binary"):
        return text
    if kind not in _TYPES:
        raise YamlError(f"tag {tag[:64]!r} is not allowed", line)
    data: Any = _resolve(text)
    if not isinstance(data, _TYPES[kind]) or (isinstance(data, bool) and kind != "bool"):
        raise YamlError(f"cannot decode {text[:64]!r} as {kind}", line)
    return float(data) if kind == "float" else data


def _resolve(text: str) -> Any:
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if not text or text[0] not in "+-.0123456789" or len(text) > _LONGEST_NUMBER:
        return text
    plain = text.replace("_", "") if text[0] != "." else text
    if _INTEGER.fullmatch(plain):
        return int(plain)
    based = _BASED.fullmatch(plain)
    if based is not None:
        sign, digits = based.groups()
        base = _BASES.get(digits[:2])
        number = int(digits, 8) if base is None else int(digits[2:], base)
        return -number if sign == "-" else number
    if _FLOAT.fullmatch(plain):
        return float(plain)
    return text
