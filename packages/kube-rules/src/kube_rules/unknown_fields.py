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
"""Maximum number of findings in one input; a generated input has the same misspelling in every object."""
MOST_LOCATED: Final = 100
_MOST_TEXT: Final = 1024 * 1024
"""Maximum number of findings located in one file, and of text read for that: locating is slow.
Other findings have the line of their document.
"""
_LONGEST_NAME: Final = 128


class MisnamedField(NamedTuple):
    """One field that a schema does not have. `nearest`: the probable intended name, empty if none is similar."""

    path: Path
    nearest: str = ""


class Schemas(Protocol):
    """Schemas of supported and other kinds."""

    def unknown_fields(self, api_version: str, kind: str, manifest: Manifest) -> Sequence[MisnamedField]:
        """Return the fields that the kind does not have in this version, in document order; none for an unknown one."""

    def knows(self, api_version: str, kind: str) -> bool:
        """Return whether there is a schema of this kind in this version."""

    def kinds(self) -> Iterable[tuple[str, str]]:
        """Return (apiVersion, kind) of every schema."""


class UnknownField(NamedTuple):
    """A field of the input without meaning. `subject` names the object (`Pod "default/web"`)."""

    origin: Origin
    subject: str
    path: Path
    nearest: str = ""
    at: Path = ()
    """The path of the object in its document: `items`, 3 for an item of a List."""

    @property
    def shape(self) -> tuple[str, str]:
        """Return the identity of a misspelling, wherever it occurs: the kind, and the path without indices."""
        return self.subject.partition(" ")[0], path_text(tuple(step for step in self.path if isinstance(step, str)))

    def __str__(self) -> str:
        """Return one line that names file, document, line, object, path and the nearest known name."""
        subject = f"{self.subject}: " if self.subject else ""
        return f'{self.origin}: {subject}unknown field "{path_text(self.path)}"{did_you_mean(self.nearest)}'


def path_text(path: Path) -> str:
    """Return a path in an API server's format: `spec.containers[0].resources`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            name = step if len(step) <= _LONGEST_NAME else f"{step[:_LONGEST_NAME]}..."
            text += f".{name}" if text else name
    return text


def did_you_mean(name: str) -> str:
    """Return the hint for a message about a misspelled name; nothing without a known name that is similar."""
    return f', did you mean "{name}"?' if name else ""


def nearest(name: str, names: Iterable[str]) -> str:
    """Return the known name most similar to `name`; empty if none is similar."""
    names = sorted(names)
    if len(name) > _LONGEST_NAME:
        return ""
    lower = name.lower()
    for candidate in names:
        if candidate.lower() == lower:
            return candidate
    from difflib import get_close_matches  # imported only for a misspelt name

    by_lower = {candidate.lower(): candidate for candidate in reversed(names)}
    matches = get_close_matches(lower, sorted(by_lower), n=1, cutoff=0.7)
    if not matches and len(lower) > 2:  # too short to be close with two letters swapped
        matches = [candidate for candidate in sorted(by_lower) if sorted(candidate) == sorted(lower)]
    return by_lower[matches[0]] if matches else ""


def misnamed_in(kind: Any, value: Any, path: Path = ()) -> Iterator[MisnamedField]:
    """Yield the fields of plain data that a msgspec type (a struct, or a list or union of them) does not have."""
    if get_origin(kind) in (Union, UnionType):
        for member in get_args(kind):
            yield from misnamed_in(member, value, path)
    elif get_origin(kind) in (list, tuple) and isinstance(value, list):
        for index, item in enumerate(value):
            yield from misnamed_in(get_args(kind)[0], item, (*path, index))
    elif isinstance(kind, type) and issubclass(kind, msgspec.Struct) and isinstance(value, Mapping):
        fields = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
        for name, item in value.items():
            if name in fields:
                yield from misnamed_in(fields[name], item, (*path, name))
            else:
                yield MisnamedField((*path, str(name)), nearest(str(name), fields))


# --- the line of a field ------------------------------------------------------------------------------------

_MARKER: Final = re.compile(r"^(?:---|\.\.\.)(?=[ \t\r\n]|\Z)", re.MULTILINE)


def located(findings: Sequence[UnknownField], text: str, *, first_line: int = 1) -> list[UnknownField]:
    """Return the findings of one text with the lines of their fields; of similar findings only the first is located.

    `first_line` is the line of the text in its file. A field from an alias or a merge key has the line of the alias or
    key.
    """
    starts: list[int] = []
    shapes: set[tuple[str, str]] = set()
    left = _MOST_TEXT
    results = []
    for finding in findings:
        at = finding.origin.line
        if at is not None and len(shapes) < MOST_LOCATED and finding.shape not in shapes:
            shapes.add(finding.shape)
            starts = starts or [0, *(match.end() for match in re.finditer("\n", text))]
            part = _document(text, starts[min(at - first_line, len(starts) - 1)], left)
            left -= len(part)
            line = _line(part, (*finding.at, *finding.path))
            if line is not None:
                finding = finding._replace(origin=finding.origin._replace(line=at + line))
        results.append(finding)
    return results


def _document(text: str, start: int, most: int) -> str:
    """Return the document at a position; empty if it is longer than `most`."""
    marker = _MARKER.search(text, start + 3 if _MARKER.match(text, start) else start)
    end = marker.start() if marker else len(text)
    return text[start:end] if end - start <= most else ""


def _line(text: str, path: Path) -> int | None:
    """Return the number of lines before the last existing step of the path; None if no step exists."""
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
    """Skip the value that this event begins."""
    depth = 0
    while True:
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if not depth:
            return
        event = next(events)
