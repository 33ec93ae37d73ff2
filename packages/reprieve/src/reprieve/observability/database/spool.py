"""Records that wait on disk while their database is unavailable: one file per batch, oldest sent first.

Invariants: a file always contains a whole batch. A file is deleted only after its batch is in the database, so a batch
may be sent twice but none is lost. The files use at most `most` bytes: above that, the oldest file is deleted and its
records are counted as lost.
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
    """A stored decision record. `names`: (kind, namespace, name) of each object under which it is found."""

    id: int
    revision: int
    time: float
    preempts: bool
    body: bytes
    names: tuple[tuple[str, str, str], ...]

    @property
    def size(self) -> int:
        """Return the approximate size in bytes."""
        return len(self.body) + NAME_BYTES * len(self.names)


def stored(record: DecisionRecord, involved: Iterable[Name], revision: int) -> StoredRecord:
    """Return a record in its stored form, with the given names and the nodes of evicted pods."""
    preemption = record.preemption
    names = dict.fromkeys((str(kind), namespace, name) for kind, namespace, name in involved)
    nodes = [node for unit in preemption.evicted for node in unit.nodes] if preemption is not None else ()
    names |= dict.fromkeys(("Node", "", node) for node in nodes)
    at = datetime.fromisoformat(record.time).timestamp()
    return StoredRecord(record.id, revision, at, preemption is not None, encode(record), tuple(names))


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(list[StoredRecord]).decode


class Spool:
    """See the module docstring. Used by one thread; `lost` is called with the number of lost records."""

    def __init__(self, directory: Path, most: int, *, lost: Callable[[int], None] = lambda count: None) -> None:
        self._directory = directory
        self._most = most
        self._lost = lost
        self._files: list[tuple[Path, int]] = []
        """(file, bytes), oldest first."""
        self.records = 0
        """Number of waiting records."""
        self._number = 0
        for path in sorted(directory.glob(f"*{_ENDING}")):
            self._files.append((path, path.stat().st_size))
            self.records += _records_in(path)
            self._number = max(self._number, int(path.name.partition("-")[0]))

    def add(self, rows: Sequence[StoredRecord]) -> None:
        """Store a batch. Raises OSError if writing fails."""
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
        """Return the oldest batch, kept until `sent`, or None if there is none. A corrupt file counts as lost."""
        while self._files:
            try:
                return _decode(self._files[0][0].read_bytes())
            except (OSError, msgspec.DecodeError):
                self._lost(self._drop())
        return None

    def sent(self) -> None:
        """Delete the oldest batch after it was written to the database."""
        self._drop()

    def _drop(self) -> int:
        path, _ = self._files.pop(0)
        count = _records_in(path)
        path.unlink(missing_ok=True)
        self.records -= count
        return count


def _records_in(path: Path) -> int:
    """Return the number of records in a file, from its name."""
    return int(path.name.removesuffix(_ENDING).partition("-")[2])
