"""Sources to bytes, and bytes to text or JSON values: the only I/O of this room.

A source is a path, a directory or `-` for standard input, or something in memory with a name.  Invariant: no more than
`max_bytes` (and a block) are ever read; whatever cannot be read is an `InputError` that names the source.
"""

from __future__ import annotations

import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from kube_rules.errors import InputError, Origin
from kube_rules.yamltext import MAX_DEPTH

_RAW: Final = msgspec.json.Decoder(msgspec.Raw)
_TRAILING: Final = "JSON is malformed: trailing characters (byte "
_SPACE: Final = b" \t\r\n"
_STDIN: Final = "<stdin>"
_SUFFIXES: Final = (".yaml", ".yml", ".json")

Document = tuple[str, str | bytes | Mapping[str, Any]]
"""(name, YAML or JSON text, or one object as plain data): the name stands for a file in errors."""


def read_sources(
    sources: Sequence[str | Path | Document], max_bytes: int, stdin: BinaryIO | None
) -> Iterator[tuple[str, bytes | Mapping[str, Any]]]:
    """Each file of the sources with its name, in order, none of more than so many bytes. Raises `InputError`."""
    for source in sources:
        if isinstance(source, tuple):
            name, content = source
            yield name, content.encode() if isinstance(content, str) else content
            continue
        if str(source) == "-":
            try:
                yield _STDIN, _read(stdin if stdin is not None else sys.stdin.buffer, _STDIN, max_bytes)
            except OSError as error:
                raise InputError(Origin(_STDIN), error.strerror or str(error)) from None
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
    files = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES and file.is_file())
    if not files:
        raise InputError(Origin(str(path)), f"the directory holds no {', '.join(_SUFFIXES)} file")
    return files


def _read_file(path: Path, max_bytes: int) -> bytes:
    with path.open("rb") as file:
        status = path.stat()
        if stat.S_ISREG(status.st_mode) and status.st_size > max_bytes:
            raise too_large(str(path), max_bytes)
        return _read(file, str(path), max_bytes)


def _read(stream: BinaryIO, name: str, max_bytes: int) -> bytes:
    """The stream's bytes, never more than `max_bytes` (and a block) of them in memory."""
    blocks: list[bytes] = []
    size = 0
    while block := stream.read(1 << 20):
        size += len(block)
        if size > max_bytes:
            raise too_large(name, max_bytes)
        blocks.append(block)
    return b"".join(blocks)


def too_large(name: str, max_bytes: int) -> InputError:
    """The error of an input beyond its limit."""
    return InputError(Origin(name), f"the input is larger than {max_bytes} bytes; raise the limit to read it")


# --- text and values ---------------------------------------------------------------------------------------


def decoded(data: bytes, origin: Origin, encoding: str) -> str:
    """The text of a file. Raises `InputError` naming the byte where it is none: msgspec checks only the strings it
    reads, and raises another exception than for broken JSON.
    """
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise InputError(origin, f"not UTF-8 text: byte {error.start} is {data[error.start]:#04x}") from None


def is_json(name: str, data: bytes) -> bool:
    """Whether the text is JSON: by its suffix, or because it starts as a JSON object does.

    JSON values between YAML's separators are YAML, as they are to kubectl; no JSON text has such a line.
    """
    if b"\n---" in data:
        return False
    if name.endswith(".json"):
        return True
    start = data[:4096].removeprefix(b"\xef\xbb\xbf").lstrip(_SPACE)
    return start.startswith(b"{") and start[1:].lstrip(_SPACE)[:1] in (b'"', b"}", b"")


def encoding_of(data: bytes) -> str:
    """UTF-16 where a byte order mark announces it, else UTF-8."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    return "utf-8-sig"


def next_json(text: memoryview, origin: Origin) -> tuple[memoryview | None, memoryview]:
    """The next JSON value of a text and what follows it; None at the end."""
    start = 0
    while start < len(text) and text[start] in _SPACE:
        start += 1
    text = text[start:]
    if not text:
        return None, text
    try:
        _RAW.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        message = str(error)
        if not message.startswith(_TRAILING):
            raise json_error(error, origin) from None
        end = int(message[len(_TRAILING) : -1]) - 1  # the decoder counts bytes from 1
        return text[:end], text[end:]
    return text, text[len(text) :]


def json_error(error: Exception, origin: Origin) -> InputError:
    """What msgspec raised for a text, as an error of the input."""
    if isinstance(error, RecursionError):
        return InputError(origin, f"nested deeper than {MAX_DEPTH} levels")
    if isinstance(error, msgspec.ValidationError):
        return InputError(origin, f"must be an object with apiVersion and kind: {error}")
    return InputError(origin, f"invalid JSON: {str(error).removeprefix('JSON is malformed: ')}")
