"""The only I/O of this package: sources become bytes.

A source is a path, a directory, `-` for standard input, or a named document in memory. Invariant: at most `max_bytes`
(and one block) are read; a source that cannot be read raises an `InputError` that names it.
"""

from __future__ import annotations

import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from kube_rules.documents import STDIN, SUFFIXES, Document, no_manifests, too_large
from kube_rules.errors import InputError, Origin


def read_sources(
    sources: Sequence[str | Path | Document], max_bytes: int, stdin: BinaryIO | None
) -> Iterator[tuple[str, bytes | Mapping[str, Any]]]:
    """Yield each file of the sources with its name, in order, at most `max_bytes` each. Raises `InputError`."""
    for source in sources:
        if isinstance(source, tuple):
            name, content = source
            yield name, content.encode() if isinstance(content, str) else content
            continue
        if str(source) == "-":
            try:
                yield STDIN, _read(stdin if stdin is not None else sys.stdin.buffer, STDIN, max_bytes)
            except OSError as error:
                raise InputError(Origin(STDIN), error.strerror or str(error)) from None
            continue
        path = Path(source)
        try:
            files = _files(path)
            for file in files:
                yield str(file), _read_file(file, max_bytes)
        except OSError as error:
            raise InputError(Origin(str(error.filename or path)), error.strerror or str(error)) from None
        except ValueError as error:
            if isinstance(error, InputError):
                raise
            raise InputError(Origin(repr(str(path))), str(error)) from None  # a NUL in the name


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES and file.is_file())
    if not files:
        raise no_manifests(str(path))
    return files


def _read_file(path: Path, max_bytes: int) -> bytes:
    with path.open("rb") as file:
        status = path.stat()
        expected = status.st_size if stat.S_ISREG(status.st_mode) else 0
        if expected > max_bytes:
            raise too_large(str(path), max_bytes)
        return _read(file, str(path), max_bytes, expected)


def _read(stream: BinaryIO, name: str, max_bytes: int, expected: int = 0) -> bytes:
    """Return the stream's bytes, with at most `max_bytes` (and one block) in memory.

    `expected` is the probable size, at most `max_bytes`, which is read at once.
    """
    blocks: list[bytes] = []
    size = 0
    while block := stream.read(max(expected - size, 1 << 20)):
        size += len(block)
        if size > max_bytes:
            raise too_large(name, max_bytes)
        blocks.append(block)
    return b"".join(blocks)
