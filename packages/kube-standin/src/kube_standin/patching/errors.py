"""What patching refuses: a request that cannot be carried out, and an apply that others own fields of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple


@dataclass
class PatchError(Exception):
    """A patch that cannot be carried out, as HTTP code, reason ("" for a bare 500) and message."""

    code: int
    reason: str
    message: str

    def __str__(self) -> str:
        return self.message


class FailedTestError(PatchError):
    """A `test` of a JSON patch that does not hold."""


class Conflict(NamedTuple):
    """One field of an apply that another manager owns: a cause of the 409."""

    reason: str
    field: str
    message: str


class ApplyConflict(Exception):  # noqa: N818 - the name is part of the interface
    """An apply without force met fields that others own.

    `causes` names each field, `message` is the text of the 409.
    """

    def __init__(self, causes: list[Conflict], message: str) -> None:
        super().__init__(message)
        self.causes = causes
        self.message = message


def go_type(value: Any) -> str:
    """Return what Go's decoder calls a JSON value."""
    return {dict: "object", list: "array", str: "string", bool: "bool"}.get(type(value), "number")


def not_unmarshalled(found: str, wanted: str) -> PatchError:
    """400: the patch is no JSON of the type that is wanted, in the words of Go's decoder."""
    text = f"error decoding patch: json: cannot unmarshal {found} into Go value of type {wanted}"
    return PatchError(400, "BadRequest", text)


MAP, OPERATIONS = "map[string]interface {}", "[]handlers.jsonPatchOp"
"""Types of patches, as Go names them."""
