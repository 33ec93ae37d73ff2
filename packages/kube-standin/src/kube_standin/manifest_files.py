"""Manifest files, directories of them and standard input: read completely, up to a size limit."""

import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from kube_rules.documents import STDIN, SUFFIXES, no_manifests, read_plain, too_large
from kube_rules.errors import InputError, Origin
from kube_rules.manifests import PlainObject


def read_files(names: Sequence[str | Path], max_bytes: int) -> list[PlainObject]:
    """Return the objects of the files in order. Raises `InputError`.

    A directory stands for its `*.yaml`, `*.yml` and `*.json` files, `-` for standard input.
    """
    return read_plain(_contents(names, max_bytes), max_bytes)


def _contents(names: Sequence[str | Path], max_bytes: int) -> Iterator[tuple[str, bytes]]:
    for name in names:
        path = Path(name)
        try:
            if str(name) == "-":
                yield STDIN, sys.stdin.buffer.read(max_bytes + 1)
                continue
            files = _in_directory(path) if path.is_dir() else [path]
            for file in files:
                with file.open("rb") as stream:
                    status = file.stat()
                    if stat.S_ISREG(status.st_mode) and status.st_size > max_bytes:
                        raise too_large(str(file), max_bytes)
                    yield str(file), stream.read(max_bytes + 1)
        except OSError as error:
            origin = STDIN if str(name) == "-" else str(error.filename or path)
            raise InputError(Origin(origin), error.strerror or str(error)) from None
        except ValueError as error:
            if isinstance(error, InputError):
                raise
            raise InputError(Origin(repr(str(path))), str(error)) from None  # a NUL in the name


def _in_directory(path: Path) -> list[Path]:
    files = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES and file.is_file())
    if not files:
        raise no_manifests(str(path))
    return files
