"""Rules of `metav1.Condition` lists, where a kind demands them complete."""

from __future__ import annotations

import re
from collections.abc import Iterator

from reprieve.api.json import Json
from reprieve.controlplane.rules import names
from reprieve.controlplane.schema import field_errors as fe
from reprieve.controlplane.schema.field_errors import FieldError

_STATES = ("False", "True", "Unknown")
_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", re.ASCII)
_REASON_MESSAGE = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or "
    "'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is "
    "'[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')"
)


def conditions(given: list[Json] | tuple[Json, ...], path: str) -> Iterator[FieldError]:
    """Type, status, time and reason of each; every type once (transcripts 480, 481)."""
    seen: dict[str, int] = {}
    for index, condition in enumerate(given):
        kind = condition.get("type", "")
        if kind in seen:
            yield fe.duplicate(f"{path}[{index}].type", kind)
        seen[kind] = index
        yield from _one(condition, f"{path}[{index}]")


def _one(condition: Json, place: str) -> Iterator[FieldError]:
    kind = condition.get("type", "")
    yield from fe.malformed(f"{place}.type", kind, names.qualified)
    status = condition.get("status", "")
    if status not in _STATES:
        yield fe.not_supported(f"{place}.status", status, _STATES)
    if condition.get("observedGeneration", 0) < 0:
        said = "must be greater than or equal to zero"
        yield fe.invalid(f"{place}.observedGeneration", condition["observedGeneration"], said)
    if "lastTransitionTime" not in condition:
        yield fe.required(f"{place}.lastTransitionTime")
    reason = condition.get("reason", "")
    if not reason:
        yield fe.required(f"{place}.reason")
    else:
        if not _REASON.fullmatch(reason):
            yield fe.invalid(f"{place}.reason", reason, _REASON_MESSAGE)
        if len(reason) > 1024:
            yield fe.too_long(f"{place}.reason", 1024)
    if len(condition.get("message", "")) > 32 * 1024:
        yield fe.too_long(f"{place}.message", 32 * 1024)
