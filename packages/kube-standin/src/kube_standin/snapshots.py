"""Snapshots: all objects of a server at one moment, kept in memory or in a file, and restored later.

Restoring a snapshot creates new revisions: objects that differ get new resource versions; uids and all other fields are
those of the snapshot. The caller ends everything derived from the previous objects (watches, caches, controllers).

The file has a line of JSON for the header and one for each object, and ends with a CRC-32 of all lines. It contains
Secrets, so only its owner may read it.
"""

from __future__ import annotations

import os
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from kube_rules.json import Json
from kube_standin.clock import parse_stamp
from kube_standin.storage import Store, StoredObject

FORMAT: Final = 1
MOST_BYTES: Final = 1024 * 1024 * 1024
"""Maximum size of a file."""


class StateFileError(ValueError):
    """The file is not a state of a server, or damaged; the text names the file and the problem."""


class _Header(msgspec.Struct):
    format: int = msgspec.field(name="kubeStandinState")
    revision: int
    moment: str
    objects: int


class _ObjectLine(msgspec.Struct, array_like=True):
    resource: str
    namespace: str
    name: str
    body: msgspec.Raw


@dataclass(frozen=True)
class ServerSnapshot:
    """The objects of a server at a revision, and the time of its clock."""

    objects: tuple[StoredObject, ...]
    revision: int
    moment: datetime

    def __repr__(self) -> str:
        return f"ServerSnapshot({len(self.objects)} objects, revision {self.revision}, {self.moment.isoformat()})"

    def save(self, path: str | Path) -> None:
        """Write a file that only its owner can read, completely or not at all. Raises OSError."""
        target = Path(path)
        descriptor, draft = tempfile.mkstemp(prefix=target.name, dir=target.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                check = 0
                for line in self._lines():
                    check = zlib.crc32(line, check)
                    file.write(line)
                file.write(b"%08x\n" % check)
            os.replace(draft, target)
        except BaseException:
            os.unlink(draft)
            raise

    def _lines(self) -> Iterator[bytes]:
        encode = msgspec.json.encode
        yield encode(_Header(FORMAT, self.revision, self.moment.isoformat(), len(self.objects))) + b"\n"
        for state in self.objects:
            yield encode(_ObjectLine(state.resource, state.namespace, state.name, msgspec.Raw(state.raw))) + b"\n"


def read_state(path: str | Path) -> ServerSnapshot:
    """Return the snapshot in a file from `ServerSnapshot.save`. Raises StateFileError and OSError."""
    with Path(path).open("rb") as file:
        if os.fstat(file.fileno()).st_size > MOST_BYTES:
            raise StateFileError(f"{path}: larger than {MOST_BYTES} bytes")
        *lines, last = file.read().splitlines(keepends=True) or [b""]
    try:
        header = msgspec.json.decode(lines[0] if lines else last, type=_Header)
        moment = parse_stamp(header.moment)
    except ValueError as error:
        raise StateFileError(f"{path}: not a state that kube-standin saved ({error})") from error
    if header.format != FORMAT:
        raise StateFileError(f"{path}: format {header.format}, this version reads {FORMAT}")
    check = 0
    for line in lines:
        check = zlib.crc32(line, check)
    if last != b"%08x\n" % check or len(lines) != header.objects + 1:
        raise StateFileError(f"{path}: damaged or truncated")
    decode = msgspec.json.Decoder(_ObjectLine).decode
    states = []
    for number, line in enumerate(lines[1:], 2):
        try:
            entry = decode(line)
        except ValueError as error:
            raise StateFileError(f"{path}: line {number}: {error}") from error
        states.append(StoredObject(entry.resource, entry.namespace, entry.name, header.revision, bytes(entry.body)))
    return ServerSnapshot(tuple(states), header.revision, moment)


def state_of_store(store: Store, moment: datetime) -> ServerSnapshot:
    """Return all stored objects, staged writes included."""
    store.flush()
    states = [state for resource in store.resources() for state in store.heads(resource)]
    return ServerSnapshot(tuple(states), store.revision, moment)


def restore_objects(store: Store, state: ServerSnapshot) -> None:
    """Make the stored objects equal to a snapshot, in one commit, and drop the earlier history.

    Revisions continue after those of the store and of the snapshot. Raises StorageError without changing anything.
    """
    store.flush()
    store.continue_after(state.revision)
    wanted = {(stored.resource, *stored.key): stored for stored in state.objects}
    for resource in store.resources():
        for present in list(store.heads(resource)):
            if (resource, *present.key) not in wanted:
                store.delete(present)
    for stored in state.objects:
        head = store.head(stored.resource, *stored.key)
        body = stored.decode()
        if head is None or (head is not stored and _content(head.decode()) != _content(body)):
            store.put(stored.resource, *stored.key, body, head)
    ticket = store.ticket
    store.flush()
    if ticket.error is not None:
        raise ticket.error
    store.compact(store.revision)


def _content(body: Json) -> Json:
    """Return an object without its resource version."""
    metadata = {name: value for name, value in body["metadata"].items() if name != "resourceVersion"}
    return {**body, "metadata": metadata}
