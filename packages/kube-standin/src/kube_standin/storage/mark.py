"""The high-water mark: a small file next to the log that records what the log must contain, ``state.db-mark``.

SQLite silently drops everything after a damaged frame of its write-ahead log. Therefore, after every commit and before
any client is notified of it, the mark gets the last revision and the number and the digest of all rows; at the next
start the rows up to that revision must match it. Rows beyond it were committed by a process that died before it could
acknowledge them: no client was notified of them, and they are kept.

The file has two slots that are written in turn, each with a checksum, so that a torn slot leaves the previous one. A
compaction deletes rows: before it commits, the mark gets both sums, and either is valid until the mark records that the
compaction is done. Killing the process at any moment therefore leaves consistent files. Writing a slot costs one system
call and no fsync; it is synchronized with the log (``SqliteLog``).
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

_MAGIC = b"RPRVMARK"
_SLOT = struct.Struct("<8s16sQQ QQQ QQQ")
_CHECKSUM = struct.Struct("<I")
_OFFSETS = (0, 4096)
"""Offsets of the slots: on separate pages, so that a write of one cannot tear the other."""

_SIZE = 8192
_MOD = 2**64


@dataclass(frozen=True)
class LogRow:
    """One stored change: the body is JSON bytes; ``deleted`` marks the end of the object."""

    revision: int
    resource: str
    namespace: str
    name: str
    deleted: bool
    body: bytes


def digest_of(row: LogRow, body_crc: int) -> int:
    """Return a 64-bit digest of a row (``body_crc`` is the CRC-32 of its body)."""
    head = f"{row.revision}\0{row.resource}\0{row.namespace}\0{row.name}\0{int(row.deleted)}"
    return zlib.crc32(head.encode(), body_crc) << 32 | body_crc


class Contents(NamedTuple):
    """The content of a log: the start of its history, number of rows, and sum of their digests (modulo 2**64)."""

    compacted: int = 0
    rows: int = 0
    digest: int = 0

    def plus(self, digests: Iterable[int]) -> Contents:
        """Return the contents with rows of these digests added."""
        added = list(digests)
        return Contents(self.compacted, self.rows + len(added), (self.digest + sum(added)) % _MOD)

    def minus(self, compacted: int, digests: Iterable[int]) -> Contents:
        """Return the contents without rows of these digests, after a compaction up to ``compacted``."""
        removed = list(digests)
        return Contents(compacted, self.rows - len(removed), (self.digest - sum(removed)) % _MOD)


@dataclass(frozen=True)
class MarkSlot:
    """One slot: the log ``database`` has acknowledged everything up to ``revision`` and contains ``contents``.

    ``after`` is its content if a running compaction was committed; otherwise it equals ``contents``.
    """

    database: bytes
    sequence: int
    revision: int
    contents: Contents
    after: Contents


class Mark:
    """The file of the mark, kept open; ``latest`` is its newest valid slot, or None."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if os.fstat(self._file).st_size < _SIZE:
            os.ftruncate(self._file, _SIZE)
        self.latest = _newest(os.pread(self._file, _SIZE, 0))

    @staticmethod
    def read(path: Path) -> MarkSlot | None:
        """Return the newest valid slot of a file, None if there is none; changes nothing."""
        try:
            return _newest(path.read_bytes()[:_SIZE])
        except FileNotFoundError:
            return None

    def write(self, database: bytes, revision: int, contents: Contents, after: Contents | None = None) -> None:
        """Write the older slot; raises OSError."""
        sequence = self.latest.sequence + 1 if self.latest is not None else 1
        slot = MarkSlot(database, sequence, revision, contents, after if after is not None else contents)
        packed = _SLOT.pack(_MAGIC, database, sequence, revision, *contents, *slot.after)
        os.pwrite(self._file, packed + _CHECKSUM.pack(zlib.crc32(packed)), _OFFSETS[sequence % 2])
        self.latest = slot

    def sync(self) -> None:
        """Make written slots survive a loss of power; raises OSError."""
        os.fdatasync(self._file)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def _newest(data: bytes) -> MarkSlot | None:
    slots = [slot for offset in _OFFSETS if (slot := _slot(data[offset:])) is not None]
    return max(slots, key=lambda slot: slot.sequence, default=None)


def _slot(data: bytes) -> MarkSlot | None:
    end = _SLOT.size + _CHECKSUM.size
    if len(data) < end or _CHECKSUM.unpack_from(data, _SLOT.size)[0] != zlib.crc32(data[: _SLOT.size]):
        return None
    magic, database, sequence, revision, *sums = _SLOT.unpack_from(data)
    if magic != _MAGIC:
        return None
    return MarkSlot(database, sequence, revision, Contents(*sums[:3]), Contents(*sums[3:]))
