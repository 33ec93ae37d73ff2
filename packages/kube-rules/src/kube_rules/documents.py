"""Manifests in memory to objects: YAML and JSON text, their documents, and the lists in them.

`DocumentReader` splits files into objects; its subclasses process the objects. `read_plain` returns them unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from kube_rules.decoding import TYPE_META, TypeMeta, plain_json, refuse_dense, subject_of
from kube_rules.errors import InputError, Origin
from kube_rules.manifests import PlainObject
from kube_rules.unknown_fields import Path
from kube_rules.yamltext import MAX_DEPTH, NodeBudget, YamlError, read_documents

_RAW: Final = msgspec.json.Decoder(msgspec.Raw)
_TRAILING: Final = "JSON is malformed: trailing characters (byte "
_SPACE: Final = b" \t\r\n"
MAX_NESTED_LISTS: Final = 8
SUFFIXES: Final = (".yaml", ".yml", ".json")
"""Suffixes of the files that are read from a directory."""
STDIN: Final = "<stdin>"
"""The name of standard input in errors."""

Document = tuple[str, str | bytes | Mapping[str, Any]]
"""(name, YAML or JSON text, or one object as plain data): errors use the name as a file name."""


class DocumentReader:
    """Reads files and passes on their objects, one at a time and in order."""

    def __init__(self) -> None:
        self._budget = NodeBudget()

    def read_all(self, files: Iterable[Document], max_bytes: int) -> None:
        """Read files of at most `max_bytes` in total. Raises `InputError`."""
        remaining = max_bytes
        for name, content in files:
            if isinstance(content, Mapping):
                self.take(content, Origin(name))
                continue
            data = content.encode() if isinstance(content, str) else content
            remaining -= len(data)
            if remaining < 0:
                raise too_large(name, max_bytes)
            self.read(name, data)

    def read(self, name: str, data: bytes) -> None:
        """Add all objects of one file."""
        if is_json(name, data):
            self._read_json(name, data)
            return
        origin = Origin(name)
        text = decoded(data, origin, encoding_of(data))
        number = 0
        try:
            for document in read_documents(text, self._budget):
                number = document.number
                self._data(document.data, Origin(name, number, document.line))
        except YamlError as error:
            raise InputError(Origin(name, number + 1, error.line), f"invalid YAML: {error}") from None
        finally:
            self._end_yaml(text)

    def take(self, data: Mapping[str, Any], origin: Origin) -> None:
        """Add one object as plain data."""
        if depth(data) > MAX_DEPTH:
            raise InputError(origin, f"nested deeper than {MAX_DEPTH} levels")
        self._data(data, origin)

    def _data(self, data: Any, origin: Origin, at: Path = ()) -> None:
        """Add one object as plain data; `at` is its path in its document."""
        if not isinstance(data, Mapping):
            raise InputError(origin, "must be an object with apiVersion and kind")
        kind, version = data.get("kind"), data.get("apiVersion")
        if not isinstance(kind, str) or not isinstance(version, str):
            kind, version = refuse_nameless(data, origin)
        if kind.endswith("List") and "items" in data:
            items = [] if data["items"] is None else data["items"]
            if not isinstance(items, list):
                raise InputError(origin, "Invalid value: must be a list", path="items")
            if len(at) >= 2 * MAX_NESTED_LISTS:
                raise InputError(origin, f"lists nested deeper than {MAX_NESTED_LISTS}")
            self._list(version, data, origin, at)
            of = kind.removesuffix("List")
            for index, item in enumerate(items):
                if of and isinstance(item, Mapping) and "kind" not in item:
                    item = {"apiVersion": version, **item, "kind": of}
                self._data(item, origin._replace(item=index), (*at, "items", index))
        else:
            self._object(kind, version, data, origin, at)

    def _read_json(self, name: str, data: bytes) -> None:
        """Add the JSON values of a file, one after the other (like kubectl, which accepts concatenated values)."""
        refuse_dense(data, Origin(name))
        if not data.isascii():
            decoded(data, Origin(name), "utf-8")
        rest = memoryview(data.removeprefix(b"\xef\xbb\xbf"))
        number = 0
        while True:
            number += 1
            origin = Origin(name, number)
            value, rest, head = next_json(rest, origin)
            if value is None:
                return
            self._json(value, origin, head)
            self._end_json(value, data, len(data) - len(rest))

    def _object(self, kind: str, version: str, data: Mapping[str, Any], origin: Origin, at: Path) -> None:
        """Process one object that is not a list; `at` is its path in its document."""
        raise NotImplementedError

    def _json(self, text: memoryview | msgspec.Raw, origin: Origin, head: TypeMeta | None) -> None:
        """Process one JSON value of a file, possibly a list of objects; `head` is its type, None if not known yet."""
        raise NotImplementedError

    def _list(self, version: str, data: Mapping[str, Any], origin: Origin, at: Path) -> None:
        """Check the fields of a list other than its items."""

    def _end_yaml(self, text: str) -> None:
        """Process the end of a YAML file."""

    def _end_json(self, value: memoryview, data: bytes, end: int) -> None:
        """Process the end of a JSON value, `end` bytes into its file."""


class _PlainReader(DocumentReader):
    """Keeps the objects unchanged."""

    def __init__(self) -> None:
        super().__init__()
        self.objects: list[PlainObject] = []

    def _object(self, kind: str, version: str, data: Mapping[str, Any], origin: Origin, at: Path) -> None:
        if depth(data) > MAX_DEPTH:
            raise InputError(origin, f"nested deeper than {MAX_DEPTH} levels")
        self.objects.append(PlainObject({**data, "apiVersion": version, "kind": kind}, origin))

    def _json(self, text: memoryview | msgspec.Raw, origin: Origin, head: TypeMeta | None) -> None:
        self._data(plain_json(text, origin), origin)


def read_plain(files: Iterable[Document], max_bytes: int) -> list[PlainObject]:
    """Return the objects of the files as plain data in order, for callers that check them.

    Lists are split into their items; each object has its kind and version. Raises `InputError`.
    """
    reader = _PlainReader()
    reader.read_all(files, max_bytes)
    return reader.objects


def no_manifests(directory: str) -> InputError:
    """Return the error for a directory without manifest files."""
    return InputError(Origin(directory), f"the directory holds no {', '.join(SUFFIXES)} file")


def too_large(name: str, max_bytes: int) -> InputError:
    """Return the error for an input beyond its limit."""
    return InputError(Origin(name), f"the input is larger than {max_bytes} bytes; raise the limit to read it")


def decoded(data: bytes, origin: Origin, encoding: str) -> str:
    """Return the text of a file. Raises `InputError` with the position of an invalid byte.

    msgspec checks only the strings that it reads, and with another exception than for invalid JSON.
    """
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise InputError(origin, f"not UTF-8 text: byte {error.start} is {data[error.start]:#04x}") from None


def is_json(name: str, data: bytes) -> bool:
    """Return whether the text is JSON: by its suffix, or because it starts like a JSON object.

    JSON values between YAML's separators are YAML, as for kubectl; JSON text has no such line.
    """
    if b"\n---" in data:
        return False
    if name.endswith(".json"):
        return True
    start = data[:4096].removeprefix(b"\xef\xbb\xbf").lstrip(_SPACE)
    return start.startswith(b"{") and start[1:].lstrip(_SPACE)[:1] in (b'"', b"}", b"")


def encoding_of(data: bytes) -> str:
    """Return UTF-16 if a byte order mark shows it, otherwise UTF-8."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    return "utf-8-sig"


def next_json(text: memoryview, origin: Origin) -> tuple[memoryview | None, memoryview, TypeMeta | None]:
    """Return the next JSON value of a text (None at the end), the rest, and the value's type if already read."""
    start = 0
    while start < len(text) and text[start] in _SPACE:
        start += 1
    text = text[start:]
    if not text:
        return None, text, None
    try:
        return text, text[len(text) :], TYPE_META.decode(text)
    except (msgspec.DecodeError, RecursionError):
        pass  # more values follow, or an error to be described below
    try:
        _RAW.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        message = str(error)
        if not message.startswith(_TRAILING):
            raise json_error(error, origin) from None
        end = int(message[len(_TRAILING) : -1]) - 1  # the decoder counts bytes from 1
        return text[:end], text[end:], None
    return text, text[len(text) :], None


def json_error(error: Exception, origin: Origin) -> InputError:
    """Return an exception of msgspec as an error of the input."""
    if isinstance(error, RecursionError):
        return InputError(origin, f"nested deeper than {MAX_DEPTH} levels")
    if isinstance(error, msgspec.ValidationError):
        return InputError(origin, f"must be an object with apiVersion and kind: {error}")
    return InputError(origin, f"invalid JSON: {str(error).removeprefix('JSON is malformed: ')}")


def refuse_nameless(data: Any, origin: Origin) -> tuple[str, str]:
    """Return the kind and version of an object. Raises an error if either is missing."""
    if not isinstance(data, Mapping):
        raise InputError(origin, "must be an object with apiVersion and kind")
    for name in ("kind", "apiVersion"):
        if not isinstance(data.get(name), str) or not data[name]:
            raise InputError(origin, "Required value: every object needs one", path=name, subject=subject_of(data))
    return data["kind"], data["apiVersion"]


def depth(data: Any) -> int:
    """Return the number of nesting levels, without recursion and no further than needed."""
    level, depth = [data], 0
    while level and depth <= MAX_DEPTH:
        level = [
            child
            for item in level
            if isinstance(item, Mapping | list)
            for child in (item.values() if isinstance(item, Mapping) else item)
        ]
        depth += 1
    return depth
