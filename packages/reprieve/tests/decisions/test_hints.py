"""Sentences on what would help a pending pod or group, from the record of its last attempt (whatif.md 5)."""

from __future__ import annotations

from typing import Any

import pytest

from reprieve.decisions.hints import helps_of
from reprieve.decisions.records import (
    DecisionRecord,
    EntityReference,
    MemberCounts,
    OversizedRequest,
    Shortage,
    Shortfall,
    Timings,
)

CPU = OversizedRequest(resource="cpu", asked="16", largest="8")
MEMORY = OversizedRequest(resource="memory", asked="1Ti", largest="64Gi")
MEMBERS = MemberCounts(tried=3, placed=1, min_count=3)


def sentences(lack: Shortfall, members: MemberCounts | None = None, **options: Any) -> list[str]:
    """Return what would help an entity that lacks so much; nothing is known of its priority."""
    record = DecisionRecord(
        id=1,
        time="",
        entity=EntityReference(kind="Pod", namespace="a", name="p"),
        result="Error",
        message="",
        attempt=1,
        timings=Timings(0.0, 0.0),
        lack=lack,
        members=members,
    )
    return [help.sentence for help in helps_of(record, **options)]


def short(*names: str, nodes: int = 0, at_least: bool = False, **missing: str) -> Shortage:
    return Shortage(missing=missing, nodes=nodes or len(names), names=names, at_least=at_least)


@pytest.mark.parametrize(
    ("lack", "members", "sentence"),
    [
        (
            Shortfall(too_big=(CPU,)),
            None,
            "Add a node with 16 cpu: a pod requests that much, but the largest node has 8.",
        ),
        (
            Shortfall(too_big=(CPU, MEMORY)),
            None,
            "Add a node with 16 cpu and 1Ti memory: a pod requests that much, but no node has more than 8 cpu and 64Gi"
            " memory.",
        ),
        (Shortfall(closest=short("n1", cpu="2")), None, "Free 2 more cpu on n1, where the shortage is smallest."),
        (
            Shortfall(closest=short("n1", "n2", cpu="2", memory="1Gi", at_least=True)),
            None,
            "Free at least 2 more cpu and 1Gi more memory on n1 or n2, where the shortage is smallest.",
        ),
        (
            Shortfall(closest=short("n1", "n2", nodes=3, cpu="2"), more=1),
            MEMBERS,
            "Free 2 more cpu on any 1 of n1, n2 and 1 more node, where the shortage is smallest: one more pod must be"
            " placed.",
        ),
        (
            Shortfall(closest=short("n1", "n2", cpu="2"), more=2),
            MEMBERS,
            "Free 2 more cpu on n1 or n2, where the shortage is smallest: 2 more pods must be placed.",
        ),
        (
            Shortfall(closest=short("n1", cpu="2"), more=2),
            MEMBERS,
            "Free capacity for 2 more pods; the shortage is smallest on n1: 2 more cpu for each.",
        ),
    ],
)
def test_what_is_missing_and_where(lack: Shortfall, members: MemberCounts | None, sentence: str) -> None:
    """whatif.md 5.1"""
    assert sentences(lack, members) == [sentence]


def test_amount_that_is_tried_before_it_is_shown_is_exact() -> None:
    """whatif.md 5.4"""
    lack = Shortfall(closest=short("n1", cpu="2", at_least=True))
    assert sentences(lack, to_be_tried=True) == ["Free 2 more cpu on n1, where the shortage is smallest."]


def test_no_node_is_known_to_be_large_enough_for_what_is_too_large_to_count() -> None:
    """whatif.md 5.1"""
    endless = OversizedRequest(resource="cpu", asked="9P", largest="8", or_more=True)
    assert sentences(Shortfall(too_big=(endless,))) == []
