"""Fields that no version of a kind has: the field, its location, and the nearest known name.

This module has no schemas of its own: code that reads manifests passes them in (`Schemas`). Without schemas nothing
is reported. A field that a known version has is never unknown, even if no code reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import UnionType
from typing import Any, Final, NamedTuple, Protocol, Union, get_args, get_origin

import msgspec

from kube_rules.errors import Origin

Path = tuple[str | int, ...]
"""Field names and list indices from the root of an object."""

Manifest = Mapping[str, Any] | bytes | memoryview | msgspec.Raw
"""An object as plain data, or as its JSON text."""

JSON_TEXT: Final = (msgspec.Raw, memoryview, bytes)
"""The types of a JSON text."""

MOST_FINDINGS: Final = 10_000
"""Findings of one input that are kept one by one; a generated input has the same misspelling in every object."""
MOST_LOCATED: Final = 100
_MOST_TEXT: Final = 1024 * 1024
"""How many findings of one file are looked up in it and how much text is read for that: it is not fast. The others
name the line of their document."""
_LONGEST_NAME: Final = 128


class MisnamedField(NamedTuple):
    """One field that a schema does not have. `nearest`: the name that was probably meant, empty if none is near."""

    path: Path
    nearest: str = ""


class Schemas(Protocol):
    """Schemas of kinds, whether these are read here or not."""

    def unknown_fields(self, api_version: str, kind: str, manifest: Manifest) -> Sequence[MisnamedField]:
        """Return the fields that the kind does not have in this version, in document order; none for an unknown
        kind.
        """

    def knows(self, api_version: str, kind: str) -> bool:
        """Return whether there is a schema of this kind in this version."""

    def kinds(self) -> Iterable[tuple[str, str]]:
        """(apiVersion, kind) of every schema."""


class UnknownField(NamedTuple):
    """A field of the input that means nothing. `subject` names the object (`Pod "default/web"`)."""

    origin: Origin
    subject: str
    path: Path
    nearest: str = ""
    at: Path = ()
    """Where in its document the object is: `items`, 3 for an item of a List."""

    @property
    def shape(self) -> tuple[str, str]:
        """Return the identity of a misspelling, wherever it occurs: the kind, and the path without indices."""
        return self.subject.partition(" ")[0], path_text(tuple(step for step in self.path if isinstance(step, str)))

    def __str__(self) -> str:
        """Return one line that names file, document, line, object, path and the nearest known name."""
        hint = f', did you mean "{self.nearest}"?' if self.nearest else ""
        subject = f"{self.subject}: " if self.subject else ""
        return f'{self.origin}: {subject}unknown field "{path_text(self.path)}"{hint}'


def path_text(path: Path) -> str:
    """`spec.containers[0].resources`, as an API server writes it."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            name = step if len(step) <= _LONGEST_NAME else f"{step[:_LONGEST_NAME]}..."
            text += f".{name}" if text else name
    return text


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the known name that is written most like `name`; empty if none is."""
    known = sorted(known)
    if len(name) > _LONGEST_NAME:
        return ""
    lower = name.lower()
    for other in known:
        if other.lower() == lower:
            return other
    from difflib import get_close_matches  # imported only for a misspelt name

    by_lower = {other.lower(): other for other in reversed(known)}
    found = get_close_matches(lower, sorted(by_lower), n=1, cutoff=0.7)
    if not found and len(lower) > 2:  # too short to be close with two letters the wrong way round
        found = [other for other in sorted(by_lower) if sorted(other) == sorted(lower)]
    return by_lower[found[0]] if found else ""


def misnamed_in(kind: Any, value: Any, path: Path = ()) -> Iterator[MisnamedField]:
    """Yield the fields of plain data that a msgspec type (a struct, or a list or union of them) does not have."""
    if get_origin(kind) in (Union, UnionType):
        for one in get_args(kind):
            yield from misnamed_in(one, value, path)
    elif get_origin(kind) in (list, tuple) and isinstance(value, list):
        for index, item in enumerate(value):
            yield from misnamed_in(get_args(kind)[0], item, (*path, index))
    elif isinstance(kind, type) and issubclass(kind, msgspec.Struct) and isinstance(value, Mapping):
        known = {each.encode_name: each.type for each in msgspec.structs.fields(kind)}
        for name, item in value.items():
            if name in known:
                yield from misnamed_in(known[name], item, (*path, name))
            else:
                yield MisnamedField((*path, str(name)), nearest(str(name), known))


# --- the line of a field ------------------------------------------------------------------------------------

_MARKER: Final = re.compile(r"^(?:---|\.\.\.)(?=[ \t\r\n]|\Z)", re.MULTILINE)


def located(found: Sequence[UnknownField], text: str, *, first_line: int = 1) -> list[UnknownField]:
    """Return the findings of one text with the lines of their fields; of findings that are alike only the first is
    looked up.

    `first_line` is where the text begins in its file. A field that stands in the text only through an alias or a merge
    key has the line where the text goes there.
    """
    starts: list[int] = []
    shapes: set[tuple[str, str]] = set()
    left = _MOST_TEXT
    made = []
    for each in found:
        at = each.origin.line
        if at is not None and len(shapes) < MOST_LOCATED and each.shape not in shapes:
            shapes.add(each.shape)
            starts = starts or [0, *(match.end() for match in re.finditer("\n", text))]
            part = _document(text, starts[min(at - first_line, len(starts) - 1)], left)
            left -= len(part)
            line = _line(part, (*each.at, *each.path))
            if line is not None:
                each = each._replace(origin=each.origin._replace(line=at + line))
        made.append(each)
    return made


def _document(text: str, start: int, most: int) -> str:
    """Return the document that starts there; empty if it is longer than that."""
    marker = _MARKER.search(text, start + 3 if _MARKER.match(text, start) else start)
    end = marker.start() if marker else len(text)
    return text[start:end] if end - start <= most else ""


def _line(text: str, path: Path) -> int | None:
    """Lines from the start of the text to the last step of the path that stands there; None if nothing does."""
    import yaml

    if not text:
        return None
    events = iter(yaml.parse(text, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader)))
    try:
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                return _descend(yaml, events, path)
    except yaml.YAMLError:
        pass
    return None


def _descend(yaml: Any, events: Iterator[Any], path: Path) -> int | None:
    line: int | None = None
    for step in path:
        event = next(events)
        if isinstance(event, yaml.MappingStartEvent) and isinstance(step, str):
            while not isinstance(key := next(events), yaml.MappingEndEvent):
                _rest(yaml, events, key)
                if isinstance(key, yaml.ScalarEvent) and key.value == step:
                    line = key.start_mark.line
                    break
                _rest(yaml, events, next(events))
            else:
                return line
        elif isinstance(event, yaml.SequenceStartEvent) and isinstance(step, int):
            for _ in range(step):
                item = next(events)
                if isinstance(item, yaml.SequenceEndEvent):
                    return line
                _rest(yaml, events, item)
        else:
            return line
    return line


def _rest(yaml: Any, events: Iterator[Any], event: Any) -> None:
    """Pass over the value that this event begins."""
    depth = 0
    while True:
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if not depth:
            return
        event = next(events)
