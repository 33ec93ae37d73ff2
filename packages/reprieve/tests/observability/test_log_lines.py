"""What the log says of decisions, by its verbosity (observability.md)."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from reprieve.observability.logs import Log
from reprieve.scheduling.decision import (
    Decision,
    GroupCondition,
    Result,
)
from tests.observability.decisions import failed, rejection, unit
from tests.observability.test_reports import Reported, assumed, made, stage

Made = Callable[[Reported], Decision]


def _rejected(seen: Reported, **more: Any) -> Decision:
    return failed(*(rejection(seen.world.record(name), "too small") for name in "ab"), **more)


LINES: dict[str, tuple[Made, str]] = {
    "placed": (lambda seen: assumed(seen, "a", attempt=1), "pod=default/a result=scheduled seconds=0.25 bindings=1"),
    "placed-later": (
        lambda seen: assumed(seen, "a", attempt=2),
        "pod=default/a result=scheduled seconds=0.25 attempt=2 bindings=1",
    ),
    "assumed": (
        lambda seen: replace(assumed(seen, "a", attempt=1), bindings=(), waiting=assumed(seen, "a").bindings),
        "pod=default/a result=scheduled seconds=0.25",
    ),
    "a-pod-of-which-nothing-is-known": (
        lambda _: Decision("pod/uid", Result.ERROR),
        "pod=pod/uid result=error seconds=0.25",
    ),
    "rejected": (
        lambda seen: _rejected(seen, key="pod/uid-a"),
        'pod=default/a result=unschedulable seconds=0.25 rejected=2 reason="too small"',
    ),
    "a-group": (
        lambda seen: _rejected(seen, conditions=(GroupCondition("default/crew", False, "R", "of the group"),)),
        'podgroup=default/crew result=unschedulable seconds=0.25 rejected=2 reason="of the group"',
    ),
    "a-group-placed": (
        lambda seen: replace(
            assumed(seen, "a", "b", attempt=1),
            ref="group/default/crew",
            conditions=(GroupCondition("default/crew", True, "R", "of the group"),),
        ),
        "podgroup=default/crew result=scheduled seconds=0.25 bindings=2",
    ),
    "a-tree": (
        lambda _: Decision("composite/default/tree", Result.UNSCHEDULABLE),
        "compositepodgroup=default/tree result=unschedulable seconds=0.25",
    ),
    "a-preemption": (
        lambda seen: Decision(
            "pod/uid-high",
            Result.WAITING,
            rejections=(rejection(seen.world.record("high")),),
            preemption=made(seen, unit(seen.world.record("a"), seen.world.record("b"))),
        ),
        "pod=default/high result=waiting seconds=0.25 rejected=1 "
        "victims=1 victim_pods=2 reprieved=0 domain=n000 reason=no",
    ),
}


@pytest.mark.parametrize("case", LINES)
def test_every_decision_is_one_log_line(case: str) -> None:
    """observability.md 5."""
    make, line = LINES[case]
    seen = stage(verbosity=2)
    seen.decide(make(seen))
    assert seen.lines() == [f"info Decided {line}"]


@pytest.mark.parametrize(("verbosity", "lines"), [(1, 0), (2, 1), (3, 1), (4, 3)])
def test_details_are_logged_from_verbosity_four_on_and_decisions_from_two(verbosity: int, lines: int) -> None:
    seen = stage(verbosity=verbosity)
    seen.decide(_rejected(seen))
    assert len(seen.lines()) == lines
    assert seen.lines()[1:] == [
        f'info Rejected pod pod=default/{name} reason="too small"' for name in "ab" if lines == 3
    ]


@pytest.mark.parametrize(("verbosity", "lines"), [(-1, 1), (0, 3), (1, 3)])
def test_errors_are_always_logged_and_warnings_from_verbosity_nought_on(verbosity: int, lines: int) -> None:
    stream = io.StringIO()
    log = Log(verbosity, stream=stream)
    log.error("broken")
    log.warning("odd", of="x")
    log.info("begun")
    assert [line.split(" ", 1)[1] for line in stream.getvalue().splitlines()] == [
        "error broken",
        "warning odd of=x",
        "info begun",
    ][:lines]
