"""Responses that have to be encoded, in slices: a list as YAML, as a Table, with indentation.

Stored bytes are sent unchanged where possible; all other responses are made of Python objects, which takes up to a
millisecond per object. They are encoded slice by slice while the response is sent, beside the event loop
(`worker_thread.encoded`). So neither the waiting time of other requests nor the memory grows with the list
(interfaces.md 5.7).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import yaml

from kube_rules.json import Json
from kube_standin.storage import StoredObject

encode = msgspec.json.Encoder().encode
INLINE_BYTES = 8 * 1024
"""The stored bytes up to which a response is encoded at once, in a few milliseconds."""
_SLICE_BYTES = 32 * 1024
_SLICE_OBJECTS = 200
_INDENTED = b'{\n  "": ['
_CLOSED = b"\n  ]\n}"


def json_line(value: Any) -> bytes:
    """Return a document as JSON and the line break that ends every answer of kube-apiserver without indentation."""
    return encode(value) + b"\n"


def yaml_bytes(value: Any) -> bytes:
    """Return a JSON value as YAML with sorted keys."""
    text: str = yaml.dump(value, Dumper=yaml.CSafeDumper, sort_keys=True, allow_unicode=True)
    return text.encode()


def is_large(states: Sequence[StoredObject]) -> bool:
    """Return whether the states have more than `INLINE_BYTES` together."""
    size = 0
    for state in states:
        size += len(state.raw)
        if size > INLINE_BYTES:
            return True
    return False


def as_json(envelope: Json, field: str, raws: Iterator[list[bytes]]) -> Iterator[bytes]:
    """Yield the JSON of a list with ``field`` as its last field; ``raws`` are batches of its JSON items."""
    yield encode(envelope)[:-1] + b',"%s":[' % field.encode()
    first = True
    for items in raws:
        yield (b"" if first else b",") + b",".join(items)
        first = False
    yield b"]}\n"


def as_pretty_json(envelope: Json, field: str, raws: Iterator[list[bytes]]) -> Iterator[bytes]:
    """Yield the JSON of such a list, indented by two spaces."""
    empty = msgspec.json.format(encode({**envelope, field: []}), indent=2)
    yield empty[: -len(b"]\n}")]
    first = True
    for items in raws:
        indented = msgspec.json.format(b'{"":[%s]}' % b",".join(items), indent=2)
        yield (b"" if first else b",") + indented[len(_INDENTED) : -len(_CLOSED)]
        first = False
    yield b"]\n}" if first else _CLOSED


def as_yaml(envelope: Json, field: str, raws: Iterator[list[bytes]]) -> Iterator[bytes]:
    """Yield the YAML of such a list with sorted keys."""
    head = {key: value for key, value in envelope.items() if key < field}
    tail = {key: value for key, value in envelope.items() if key > field}
    yield yaml_bytes(head) if head else b""
    first = True
    for items in raws:
        yield (field.encode() + b":\n" if first else b"") + yaml_bytes([msgspec.json.decode(raw) for raw in items])
        first = False
    yield (field.encode() + b": []\n" if first else b"") + (yaml_bytes(tail) if tail else b"")


Notation = Callable[[Json, str, Iterator[list[bytes]]], Iterator[bytes]]


def sliced(states: Sequence[StoredObject], item: Callable[[StoredObject], bytes]) -> Iterator[list[bytes]]:
    """Yield the items of the states, in batches of the size of a slice."""
    items: list[bytes] = []
    size = 0
    for state in states:
        items.append(item(state))
        size += len(state.raw)
        if size >= _SLICE_BYTES or len(items) == _SLICE_OBJECTS:
            yield items
            items, size = [], 0
    if items:
        yield items
