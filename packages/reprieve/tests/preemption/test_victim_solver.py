"""The exact solver with which the search for victims is compared, and the tool that prints how they compare."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.building import GPU, World
from tests.preemption.exact import Kind, Problem, Unit, cheapest
from tests.preemption.instances import instance

TOOL = Path(__file__).parents[4] / "tools" / "measure_victims.py"


def test_exact_solver_on_a_case_done_by_hand() -> None:
    """Two nodes, three units: one place costs the unit of one pod, two places the gang that is on both."""

    def problem(count: int) -> Problem:
        units = (
            Unit("single", 1, 1, 0.0, False, {0: (1,)}),
            Unit("gang", 1, 2, 0.0, True, {0: (1,), 1: (2,)}),
        )
        return Problem(((2,), (2,)), units, (Kind((1,), count, frozenset({0, 1})),))

    assert cheapest(problem(1)).victims == ("single",)
    assert cheapest(problem(2)).victims == ("gang",)
    assert sorted(cheapest(problem(4)).victims) == ["gang", "single"]


def test_instances_are_what_they_say() -> None:
    """Objects and plain numbers describe the same cluster."""
    made = instance(3)
    world = World(*made.items())
    nodes = world.engine.cluster.nodes
    column = world.engine.cluster.resources.column(GPU)
    for i, (_, gpus) in enumerate(made.machines):
        used = sum(unit.takes.get(i, (0, 0))[1] for unit in made.problem().units)
        row = nodes.row_of[f"n{i:02}"]
        assert int(nodes.allocatable[column, row] - nodes.used[column, row]) == gpus - used


def test_tool_prints_its_table() -> None:
    """`tools/measure_victims.py` goes on working when what it imports moves."""
    done = subprocess.run(
        [sys.executable, str(TOOL), "--seeds", "2"], capture_output=True, text=True, check=True, timeout=120
    )
    assert [line.split()[0] for line in done.stdout.splitlines()[2:]] == [
        "Compatible",
        "PriorityFloor",
        "MinimizeVictims",
    ]
