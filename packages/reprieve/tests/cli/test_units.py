"""Units of preemption as rows: which of them share one, what it is called, and how long they ran (`cli/units.py`)."""

from __future__ import annotations

from typing import Any

import pytest

from reprieve.cli.units import UnitSummary, nodes_text, unit_table


def unit(name: str, kind: str = "pod", on: str = "n1", **more: Any) -> UnitSummary:
    values = {"pods": 1, "nodes_total": 1, "priority": 0, "running_seconds": 60.0, **more}
    return UnitSummary(kind=kind, name=name, nodes=(on,), **values)


def cells(*units: UnitSummary, **options: bool) -> list[tuple[str, ...]]:
    return [tuple(row.cells) for row in unit_table(units, **options)[1]]


def test_single_pods_that_are_alike_share_a_row() -> None:
    """The first is named in full, the others of its namespace without it, and no more than four."""
    found = cells(*(unit(f"ns/p{number}", running_seconds=60.0 * number) for number in range(1, 7)))
    assert found == [("pods ns/p1, p2, p3, p4 and 2 more", "6 pods", "n1", "0", "1 min to 6 min")]
    assert cells(unit("ns/p1"), unit("ns/p2"), unit("ns/p3"), unit("ns/p4"))[0][0] == "pods ns/p1, p2, p3, p4"
    assert cells(*(unit(f"ns/p{number}") for number in range(5)))[0][0] == "pods ns/p0, p1, p2, p3 and 1 more"
    assert cells(unit("ns/p1"), unit("other/p2"))[0][0] == "pods ns/p1, other/p2"


@pytest.mark.parametrize(
    "other",
    [
        unit("ns/q", on="n2"),
        unit("ns/q", priority=1),
        unit("ns/q", below=("why",)),
        unit("ns/q", kind="group"),
        unit("ns/q", pods=2),
    ],
)
def test_units_that_differ_have_rows_of_their_own(other: UnitSummary) -> None:
    assert len(cells(unit("ns/p"), other)) == 2
    assert len(cells(unit("ns/p"), unit("ns/q", running_seconds=None))) == 1, "but for how long it ran"


def test_rows_are_in_the_order_of_the_first_of_each() -> None:
    found = cells(unit("ns/a"), unit("ns/b", on="n2"), unit("ns/c"), unit("ns/g", kind="group", pods=3))
    assert [row[:2] for row in found] == [
        ("pods ns/a, c", "2 pods"),
        ("pod ns/b", "1 pod"),
        ("group ns/g", "3 pods"),
    ]
    assert [row[0] for row in cells(unit("ns/a"), unit("ns/b"), together=False)] == ["pod ns/a", "pod ns/b"]


def test_redacted_unit_is_shown_by_its_description() -> None:
    assert cells(unit("a pod of another namespace"))[0][0] == "a pod of another namespace"


@pytest.mark.parametrize(
    ("ran", "expected"),
    [
        ((60.0, 60.0), "1 min"),
        ((60.0, 60.2), "1 min"),
        ((3600.0, 60.0), "1 min to 1 h"),
        ((None, 60.0), "1 min"),
        ((0.0, 60.0), "0 s to 1 min"),
    ],
)
def test_how_long_they_ran(ran: tuple[float | None, float], expected: str) -> None:
    assert cells(*(unit(f"ns/{turn}", running_seconds=each) for turn, each in enumerate(ran)))[0][-1] == expected


def test_without_ages_there_is_no_column_of_them() -> None:
    """Where they are not wanted, or none is known; one that is not known among others is called so."""
    whole = ("workload", "size", "on", "priority", "running for")
    known, unknown = unit("ns/p"), unit("ns/q", on="n2", running_seconds=None)
    assert unit_table([known])[0] == unit_table([known, unknown])[0] == whole
    assert unit_table([known], ages=False)[0] == unit_table([unknown])[0] == whole[:-1]
    assert cells(known, unknown)[1][-1] == "unknown"
    assert [len(row) for row in (*cells(known, ages=False), *cells(unknown))] == [4, 4]


@pytest.mark.parametrize(
    ("nodes", "total", "text"),
    [
        ((), 0, ""),
        (("a",), 0, "a"),
        (("a", "b"), 5, "a, b and 3 more"),
        (tuple("abcdef"), 0, "a, b, c, d, e, f"),
        (tuple("abcdef"), 6, "a, b, c, d, e, f"),
        (tuple("abcdef"), 7, "a, b, c, d, e, f and 1 more"),
        (tuple("abcdefg"), 0, "a, b, c, d, e, f and 1 more"),
        (tuple("abcdefgh"), 20, "a, b, c, d, e, f and 14 more"),
    ],
)
def test_six_nodes_are_named(nodes: tuple[str, ...], total: int, text: str) -> None:
    assert nodes_text(nodes, total) == text
