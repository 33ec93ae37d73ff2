"""Origins of objects, and the error for invalid input.

Invariants: an `InputError` names in one line the file, document and field that is wrong, the value there and the
allowed values (api.md "Errors"). The line is bounded even if names and values in the input are long: texts of the input
are quoted in excerpts (`excerpt`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

_LONGEST = 700
_LONGEST_PATH = 300
_MOST_LINES = 20


class Origin(NamedTuple):
    """The origin of an object: file (or `<stdin>`), document (counted from 1), line and `items[]` index."""

    file: str = "<input>"
    document: int = 0
    line: int | None = None
    item: int | None = None

    def __str__(self) -> str:
        parts = [self.file]
        if self.document:
            line = f" (line {self.line})" if self.line is not None else ""
            parts.append(f"document {self.document}{line}")
        if self.item is not None:
            parts.append(f"items[{self.item}]")
        return ": ".join(parts)


class FieldError(ValueError):
    """A field that violates a rule: its `path` in Kubernetes notation, and an API server's message and `reason`."""

    def __init__(self, path: str, message: str, reason: str = "FieldValueInvalid") -> None:
        super().__init__(path, message, reason)
        self.path = path
        self.message = message
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FieldError) and self.args == other.args

    def __hash__(self) -> int:
        return hash(self.args)


class InputError(ValueError):
    """Input that cannot be used; `str()` is one line naming file, document, object, field path and reason.

    `path` is the field path in Kubernetes notation, empty if the text itself is invalid; `subject` names the object
    (`Pod "default/web"`) if known.
    """

    def __init__(self, origin: Origin, message: str, *, path: str = "", subject: str = "") -> None:
        self.origin = origin
        self.path = path
        self.subject = subject
        self.message = one_line(message, _LONGEST)
        place = (str(origin), one_line(subject, _LONGEST_PATH), one_line(path, _LONGEST_PATH))
        super().__init__(": ".join(filter(None, (*place, self.message))))

    @property
    def file(self) -> str:
        """Return the file (or `<stdin>`) at fault."""
        return self.origin.file

    @property
    def document(self) -> int:
        """Return the document in that file, counted from 1; 0 if the file as a whole is at fault."""
        return self.origin.document


def reason_of(error: OSError) -> str:
    """Return the file and the reason: `FILE: No such file or directory`."""
    if isinstance(error, FileExistsError):  # only directories are created if they may exist already
        return f"{error.filename}: is a file, not a directory"
    return ": ".join(str(part) for part in (error.filename, error.strerror or error) if part)


def excerpt(text: str, longest: int = 64) -> str:
    """Return the text, or its start and its end if it has more than `longest` characters."""
    if len(text) <= longest:
        return text
    end = (longest - 3) // 3
    return f"{text[: longest - 3 - end]}...{text[-end:]}"


def one_line(text: str, longest: int) -> str:
    """Return the text in one line, an excerpt if it has more than `longest` characters."""
    return excerpt(" ".join(excerpt(text, 4 * longest).split()), longest)


def first_lines(lines: Sequence[str]) -> list[str]:
    """Return the first lines of one kind, and the number of further ones."""
    more = len(lines) - _MOST_LINES
    return [*lines[:_MOST_LINES], *([f"... and {more} more like this"] if more > 0 else [])]


def names_text(names: Sequence[str], most: int = 4, total: int = 0) -> str:
    """Return the first `most` names, and how many more there are of `total`."""
    more = max(total, len(names)) - min(most, len(names))
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
