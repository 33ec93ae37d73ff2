"""Refusals of patches: an invalid request, and an apply to fields that other managers own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple


@dataclass
class PatchError(Exception):
    """An invalid patch, as HTTP code, reason ("" for a bare 500) and message."""

    code: int
    reason: str
    message: str

    def __str__(self) -> str:
        return self.message


class FailedTestError(PatchError):
    """A failed `test` operation of a JSON patch."""


class Conflict(NamedTuple):
    """One field of an apply that another manager owns: a cause of the 409."""

    reason: str
    field: str
    message: str


class ApplyConflict(Exception):  # noqa: N818 - the name is part of the interface
    """An apply without force conflicts with fields of other managers.

    `causes` lists each field, `message` is the text of the 409.
    """

    def __init__(self, causes: list[Conflict], message: str) -> None:
        super().__init__(message)
        self.causes = causes
        self.message = message


def go_type(value: Any) -> str:
    """Return the name of a JSON value's type in Go's decoder."""
    return {dict: "object", list: "array", str: "string", bool: "bool"}.get(type(value), "number")


def not_unmarshalled(actual: str, wanted: str) -> PatchError:
    """Return a 400 for a patch that is not JSON of the wanted type, in the words of Go's decoder."""
    text = f"error decoding patch: json: cannot unmarshal {actual} into Go value of type {wanted}"
    return PatchError(400, "BadRequest", text)


MAP, OPERATIONS = "map[string]interface {}", "[]handlers.jsonPatchOp"
"""Types of patches, by their names in Go."""
