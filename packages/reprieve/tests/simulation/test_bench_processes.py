"""`reprieve bench` with its processes: each scenario has one of its own, and what it ends with is what is shown."""

import json

import pytest

from reprieve.simulation.bench import series
from reprieve.simulation.bench.scenarios import SCENARIOS, at_size
from tests.cli.conftest import Run
from tests.cli.conftest import run as run


def test_each_scenario_runs_in_a_process_of_its_own() -> None:
    """performance.md 1.1."""
    (measured,) = series.measure([at_size("basic", 3)])
    assert (measured.scenario, measured.nodes, measured.pods) == ("basic@3", 3, 6)


def test_process_that_fails_is_reported_with_its_reason() -> None:
    """gang@0 has no node for its one pod."""
    with pytest.raises(series.ScenarioError, match=r"gang@0: .*0 of 1 pods bound"):
        list(series.measure([at_size("gang", 0)]))


def test_command_shows_a_list_of_figures(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """performance.md 1.2."""
    monkeypatch.setitem(SCENARIOS, "basic-500", at_size("basic", 3))
    ended = run("bench", "basic-500", "-o", "json")
    assert (ended.code, ended.err) == (0, "")
    (figures,) = json.loads(ended.out)
    assert figures["scenario"] == "basic@3"
    shown = run("bench", "basic-500")
    assert shown.code == 0
    assert "basic@3" in shown.out


def test_failed_scenario_ends_the_command_with_1(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SCENARIOS, "basic-500", at_size("gang", 0))
    ended = run("bench", "basic-500", "-o", "json")
    assert (ended.code, ended.out) == (1, "")
    assert "0 of 1 pods bound" in ended.err


def test_profile_shows_where_the_time_goes(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SCENARIOS, "basic-500", at_size("basic", 3))
    (figures,) = json.loads(run("bench", "basic-500", "--profile", "-o", "json").out)
    own = [hot["ownSeconds"] for hot in figures["profile"]]
    assert own == sorted(own, reverse=True)
    assert any(hot["function"].startswith("scheduling/engine.py:") for hot in figures["profile"])
    assert "Where the time goes: basic@3" in run("bench", "basic-500", "--profile").out
