"""Write YAML that every parser reads as the same data.

Readers of YAML 1.1 and 1.2, in Go and in Python, disagree on what is text: `y`, `on`, `1e3`, `0o17`, `12:30`. This
module omits quotes only from text that every reader takes for text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import yaml

from kube_rules.printable import printable

_PLAIN: Final = re.compile(r"[A-Za-z/][A-Za-z0-9/._-]*")
_WORDS: Final = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"))
_LONGEST: Final = 100
"""Characters; longer keys have a different syntax, and longer lines are folded."""
_MOST: Final = 10_000
"""The largest number of cached texts."""


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Quotes text unless every reader takes it for text; no anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        """Write shared values repeatedly."""
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    plain = _PLAIN.fullmatch(text) is not None and text.lower() not in _WORDS
    quoted = "'" if printable(text) == text else '"'  # double quotes have escapes
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if plain else quoted)


_Dumper.add_representer(str, _text)


def yaml_texts(documents: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the text of each document with the separator from the previous one; unprintable characters are escaped.

    Keys keep their order. Most documents are written here, line by line, in the format of pyyaml's dumper, which takes
    ten times as long.
    """
    separator = ""
    for document in documents:
        yield separator + _document(document)
        separator = "---\n"


def _document(document: Mapping[str, Any]) -> str:
    lines: list[str] = []
    try:
        if type(document) is not dict or not document:
            raise _UnusualError
        _mapping(document, "", "", lines)
    except _UnusualError:
        text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1000)
        return printable(text)
    lines.append("")
    return "\n".join(lines)


class _UnusualError(Exception):
    """Raised for a value that needs pyyaml's dumper: long or unprintable text, a fraction, another type."""


def _mapping(data: dict[Any, Any], first: str, indent: str, lines: list[str]) -> None:
    """Add the lines of a non-empty mapping; `first` begins its first line, `indent` the others."""
    for key, value in data.items():
        start = f"{first}{_SCALARS[key] if type(key) is str else _unusual()}:"
        first = indent
        kind = type(value)
        if kind is str:
            lines.append(f"{start} {_SCALARS[value]}")
        elif kind is dict and value:
            lines.append(start)
            _mapping(value, f"{indent}  ", f"{indent}  ", lines)
        elif kind is list and value:
            lines.append(start)
            _sequence(value, indent, indent, lines)
        else:
            lines.append(f"{start} {_scalar(value)}")


def _sequence(data: list[Any], first: str, indent: str, lines: list[str]) -> None:
    """Add the lines of a non-empty list; see `_mapping`."""
    for value in data:
        if type(value) is dict and value:
            _mapping(value, f"{first}- ", f"{indent}  ", lines)
        elif type(value) is list and value:
            _sequence(value, f"{first}- ", f"{indent}  ", lines)
        else:
            lines.append(f"{first}- {_scalar(value)}")
        first = indent


def _scalar(value: Any) -> str:
    """Return the text of a value other than a non-empty mapping or list. Raises _UnusualError."""
    kind = type(value)
    if kind is str:
        return _SCALARS[value]
    if value is None:
        return "null"
    if kind is bool:
        return "true" if value else "false"
    if kind is int:
        return str(value)
    return "{}" if kind is dict else "[]" if kind is list else _unusual()


def _unusual() -> str:
    raise _UnusualError


class _Scalars(dict[str, str]):
    """The YAML of each text. Raises _UnusualError for long or unprintable text; a full table is emptied."""

    def __missing__(self, text: str) -> str:
        if len(text) > _LONGEST or not text.isascii() or not text.isprintable():
            raise _UnusualError
        plain = _PLAIN.fullmatch(text) is not None and text.lower() not in _WORDS
        written = text if plain else "'" + text.replace("'", "''") + "'"
        if len(self) >= _MOST:
            self.clear()
        self[text] = written
        return written


_SCALARS: Final = _Scalars()
