"""Records that wait on disk while their database is away: a file for each batch, the oldest is sent first.

Invariants: a batch is in its file whole or not at all; a file is deleted after its batch is in the database, so that a
batch may be sent twice and none is lost; the files have `most` bytes at most: beyond that the oldest is deleted, and
its records are counted as lost.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from reprieve.decisions.records import DecisionRecord, encode
from reprieve.observability.store import NAME_BYTES, Name

_ENDING: Final = ".spool"


class StoredRecord(msgspec.Struct, frozen=True, array_like=True):
    """A decision record as it is stored. `names`: (kind, namespace, name) of what it is found by."""

    id: int
    revision: int
    time: float
    preempts: bool
    body: bytes
    names: tuple[tuple[str, str, str], ...]

    @property
    def size(self) -> int:
        """Return the bytes that it takes, about."""
        return len(self.body) + NAME_BYTES * len(self.names)


def stored(record: DecisionRecord, involved: Iterable[Name], revision: int) -> StoredRecord:
    """Return a record as it is stored, to be found under each of the names and the nodes of evicted pods."""
    made = record.preemption
    names = dict.fromkeys((str(kind), namespace, name) for kind, namespace, name in involved)
    nodes = [node for unit in made.evicted for node in unit.nodes] if made is not None else ()
    names |= dict.fromkeys(("Node", "", node) for node in nodes)
    at = datetime.fromisoformat(record.time).timestamp()
    return StoredRecord(record.id, revision, at, made is not None, encode(record), tuple(names))


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(list[StoredRecord]).decode


class Spool:
    """See the module docstring. Used by one thread; `lost` is called with numbers of records."""

    def __init__(self, directory: Path, most: int, *, lost: Callable[[int], None] = lambda count: None) -> None:
        self._directory = directory
        self._most = most
        self._lost = lost
        self._files: list[tuple[Path, int]] = []
        """(file, bytes), the oldest first."""
        self.records = 0
        """Records that wait here."""
        self._number = 0
        for path in sorted(directory.glob(f"*{_ENDING}")):
            self._files.append((path, path.stat().st_size))
            self.records += _records_in(path)
            self._number = max(self._number, int(path.name.partition("-")[0]))

    def add(self, rows: Sequence[StoredRecord]) -> None:
        """Keep a batch. Raises OSError where the disk does not take it."""
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._number += 1
        path = self._directory / f"{self._number:016d}-{len(rows)}{_ENDING}"
        beside = path.with_suffix(".new")
        body = _encode(list(rows))
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(body)
            os.replace(beside, path)
        except OSError:
            beside.unlink(missing_ok=True)
            raise
        self._files.append((path, len(body)))
        self.records += len(rows)
        while len(self._files) > 1 and sum(size for _, size in self._files) > self._most:
            self._lost(self._drop())

    def oldest(self) -> list[StoredRecord] | None:
        """Return the oldest batch, which stays until `sent`; None where there are none. A broken file is lost."""
        while self._files:
            try:
                return _decode(self._files[0][0].read_bytes())
            except (OSError, msgspec.DecodeError):
                self._lost(self._drop())
        return None

    def sent(self) -> None:
        """Forget the oldest batch: it is in the database."""
        self._drop()

    def _drop(self) -> int:
        path, _ = self._files.pop(0)
        count = _records_in(path)
        path.unlink(missing_ok=True)
        self.records -= count
        return count


def _records_in(path: Path) -> int:
    """Return how many records a file has, from its name."""
    return int(path.name.removesuffix(_ENDING).partition("-")[2])
