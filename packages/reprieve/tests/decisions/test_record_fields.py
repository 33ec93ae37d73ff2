"""The fields of a decision record and of a shadow report that are not known (observability.md 4.4)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from reprieve.decisions import outcomes, records, shadow
from reprieve.decisions.records import FailedPreemption, PreemptionRecord, RecordPart

_OTHER = {("Shortfall", "more"): 1, ("PreemptionRecord", "state"): "UnderWay"}
"""Defaults that are not empty: one pod is short of its place, and a preemption begins."""


def _parts() -> list[Any]:
    modules = (outcomes, records, shadow)
    found = [each for module in modules for each in vars(module).values() if isinstance(each, type)]
    return list(dict.fromkeys(each for each in found if issubclass(each, msgspec.Struct)))


@pytest.mark.parametrize("part", _parts())
def test_what_is_not_known_is_empty(part: type[msgspec.Struct]) -> None:
    """observability.md 4.4: so that it is left out, and old records are read as if nothing were known."""
    for field in msgspec.structs.fields(part):
        if field.default is not msgspec.NODEFAULT and field.name not in ("api_version", "kind"):
            expected = _OTHER.get((part.__name__, field.name))
            assert field.default == expected or not (expected or field.default), field.name


def test_records_leave_out_what_is_empty() -> None:
    """observability.md 4.4"""
    assert {part for part in _parts() if part.__module__ == records.__name__ and part is not RecordPart} == {
        part for part in _parts() if part.__struct_config__.omit_defaults
    } - {RecordPart} | {records.AvoidedEviction}


@pytest.mark.parametrize(
    ("part", "new", "old"), [(PreemptionRecord, "costNotes", "told"), (FailedPreemption, "considered", "lookedAt")]
)
def test_both_names_of_a_renamed_field_are_written_and_read(part: type[msgspec.Struct], new: str, old: str) -> None:
    """observability.md 4.5: records of earlier versions are read, and earlier versions read these."""
    unit = {"unit": "a/u", "kind": "Pod", "outcome": "LookedAt", "priority": 1, "pods": 1, "podNames": [], "nodes": []}
    values = ["a note"] if new == "costNotes" else [unit]
    base = {
        "reason": "DoesNotFit",
        "domain": "n1",
        "potentialVictims": 1,
        "evicted": [],
        "reprieved": [],
        "reprievedTotal": 0,
        "cost": {"units": 0, "pods": 0, "highestPriority": 0},
        "comparison": {"candidates": 1, "chosen": {"domain": "n1"}},
        "nominations": [],
        "nominationsTotal": 0,
    }
    for name in (new, old):
        written = msgspec.json.decode(msgspec.json.encode(msgspec.convert({**base, name: values}, part)))
        assert written[new] == written[old] == values
