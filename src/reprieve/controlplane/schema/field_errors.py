"""Field errors: one finding of validation, worded as the API server words the causes of a 422.

Every constructor takes the path of the field first. Values are shown as upstream shows them: strings
quoted, objects as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, NamedTuple


class FieldError(NamedTuple):
    """One cause: `reason` (FieldValueInvalid...), the path of the `field`, the `message` of the cause."""

    reason: str
    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def shown(value: Any) -> str:
    """A value as error texts show it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str)


def invalid(field: str, value: Any, detail: str) -> FieldError:
    """The value is malformed or breaks a rule."""
    return FieldError("FieldValueInvalid", field, f"Invalid value: {shown(value)}: {detail}")


def required(field: str, detail: str = "") -> FieldError:
    """The field has no value."""
    return FieldError("FieldValueRequired", field, f"Required value: {detail}" if detail else "Required value")


def duplicate(field: str, value: Any, detail: str = "") -> FieldError:
    """The value was there before."""
    text = f"Duplicate value: {shown(value)}"
    return FieldError("FieldValueDuplicate", field, f"{text}: {detail}" if detail else text)


def forbidden(field: str, detail: str) -> FieldError:
    """A value may not stand here."""
    return FieldError("FieldValueForbidden", field, f"Forbidden: {detail}")


def not_supported(field: str, value: Any, allowed: Iterable[Any]) -> FieldError:
    """Not one of the known values; they are listed in the order given."""
    known = ", ".join(shown(one) for one in allowed)
    return FieldError("FieldValueNotSupported", field, f"Unsupported value: {shown(value)}: supported values: {known}")


def too_long(field: str, limit: int) -> FieldError:
    """A text of more than `limit` bytes."""
    return FieldError("FieldValueTooLong", field, f"Too long: may not be more than {limit} bytes")


def too_many(field: str, count: int, limit: int) -> FieldError:
    """A list of more than `limit` items."""
    items = "item" if limit == 1 else "items"
    return FieldError("FieldValueTooMany", field, f"Too many: {count}: must have at most {limit} {items}")


def type_invalid(field: str, value: Any, detail: str) -> FieldError:
    """A value of another JSON type."""
    return FieldError("FieldValueTypeInvalid", field, f"Invalid value: {shown(value)}: {detail}")


def not_found(field: str, value: Any) -> FieldError:
    """The value names nothing that exists."""
    return FieldError("FieldValueNotFound", field, f"Not found: {shown(value)}")


def malformed(field: str, value: str, syntax: Callable[[str], Iterable[str]]) -> Iterator[FieldError]:
    """Everything `syntax`, a function of `rules.names`, has to say against the value."""
    for message in syntax(value):
        yield invalid(field, value, message)


def wanted(field: str, value: str, syntax: Callable[[str], Iterable[str]]) -> Iterator[FieldError]:
    """The value must be there and well formed."""
    if value:
        yield from malformed(field, value, syntax)
    else:
        yield required(field)


def one_of(field: str, value: str, allowed: Collection[str]) -> Iterator[FieldError]:
    """The value must be there and one of the known ones."""
    if not value:
        yield required(field)
    elif value not in allowed:
        yield not_supported(field, value, allowed)
