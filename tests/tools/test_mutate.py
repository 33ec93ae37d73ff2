"""The tool that counts which small faults the tests notice."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import CodeType, ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "mutate.py"
SOURCE = '''"""A module."""

LIMIT: int = 3


def clip(value: int, least: int = 0) -> int:
    """Text that is no code."""
    if value < least and value != 7:
        print("low")
        return least
    return value - 1 if value > LIMIT else value
'''


@pytest.fixture(scope="module")
def mutate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutate", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutate"] = module
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(TOOL.parent)
        spec.loader.exec_module(module)
    return module


def test_every_mutant_is_one_change_of_code_that_runs(mutate: ModuleType, tmp_path: Path) -> None:
    """Comparisons, conditions, numbers and calls; neither annotations nor docstrings."""
    path = tmp_path / "clip.py"
    path.write_text(SOURCE)
    made = list(mutate.mutants(path))
    assert len(made) == mutate.count(path)
    assert len({mutant.text for mutant in made}) == len(made)
    whats = [mutant.what for mutant in made]
    for expected in (
        "value < least  ->  value <= least",
        "value != 7  ->  value == 7",
        "value < least and value != 7  ->  value < least or value != 7",
        "print('low')  ->  None",
        "value - 1  ->  value + 1",
        "value > LIMIT  ->  value >= LIMIT",
        "3  ->  4",
    ):
        assert expected in whats, expected
    for mutant in made:
        compile(mutant.text, "clip.py", "exec")
        assert "Text that is no code." in mutant.text


def test_mutants_leave_out_asserts_and_refusals(mutate: ModuleType, tmp_path: Path) -> None:
    """A class that forbids changes, both sides of a `zip`; what a class makes of its fields is one."""
    path = tmp_path / "pairs.py"
    path.write_text("class A(B, frozen=True, omit_defaults=True): ...\nc = dict(zip(a, b, strict=True), d=False)\n")
    assert sorted(mutant.what for mutant in mutate.mutants(path)) == ["False  ->  True", "True  ->  False"]
    assert {mutant.line for mutant in mutate.mutants(path)} == {1, 2}


def test_draw_depends_on_the_seed_alone(mutate: ModuleType, tmp_path: Path) -> None:
    """The same seed, the same mutants: a rate can be repeated."""
    path = tmp_path / "clip.py"
    path.write_text(SOURCE)
    draws = [[m.what for m in mutate.chosen([path], 4, seed)] for seed in (1, 1, 2, 3)]
    assert draws[0] == draws[1]
    assert any(draw != draws[0] for draw in draws[2:])
    assert all(len(draw) == 4 for draw in draws)


def test_mutant_knows_which_lines_run_with_it(mutate: ModuleType, tmp_path: Path) -> None:
    """The head of a compound statement; what no function holds is run by the import."""
    path = tmp_path / "clip.py"
    path.write_text(SOURCE)
    found = {mutant.what: (mutant.lines, mutant.at_import) for mutant in mutate.mutants(path)}
    assert found["value < least  ->  value <= least"] == (range(8, 9), False)
    assert found["print('low')  ->  None"] == (range(9, 10), False)
    assert found["3  ->  4"] == (range(3, 4), True)
    assert found["0  ->  1"] == (range(6, 7), True)


@pytest.mark.parametrize(
    ("name", "place", "holder"),
    [
        ("client", "reprieve/src/reprieve/client", "client"),
        ("packages/reprieve/src/reprieve/client/shapes.py", "reprieve/src/reprieve/client/shapes.py", "client"),
        ("packages/kube-standin/src/kube_standin/kubelet", "kube-standin/src/kube_standin/kubelet", "controllers"),
    ],
)
def test_path_is_judged_as_the_area_that_holds_it(mutate: ModuleType, name: str, place: str, holder: str) -> None:
    """A draw from a file or a folder of the sources."""
    places, tests = mutate.of_area(name)
    assert place in places
    assert tests == mutate.AREAS[holder][1]
    assert all((mutate.SOURCES / found).exists() for found in places)
    assert mutate.python_files(mutate.SOURCES / place)


@pytest.mark.parametrize(
    "name",
    [
        "clients",
        "packages/reprieve/src/reprieve/client/none.py",
        "packages/reprieve/tests/client",
        "packages/reprieve/src/reprieve",
    ],
)
def test_area_that_does_not_exist_is_an_error(mutate: ModuleType, name: str) -> None:
    """One line that says which there are."""
    with pytest.raises(KeyError):
        mutate.of_area(name)


def test_quickest_that_can_notice_judge_first(mutate: ModuleType, tmp_path: Path) -> None:
    """Those of the area that run its lines; those that start processes only where no other does."""
    path = tmp_path / "clip.py"
    path.write_text(SOURCE)
    reached = {
        "tests": ["a/t.py::slow", "a/t.py::quick", "a/u.py::quickest", "b/t.py::other", "a/p.py::starts", "a/t.py::no"],
        "seconds": [2.0, 1.0, 0.5, 0.1, 0.1, 0.1],
        "starts_processes": [4],
        "lines": {str(path): {8: [0, 1, 2, 3, 4], 9: [5], 11: [3, 4]}},
    }
    found = {mutant.what: mutate.judges(mutant, reached, ("a",)) for mutant in mutate.mutants(path)}
    quickest_first = ["a/u.py::quickest", "a/t.py::quick", "a/t.py::slow"]
    assert found["value < least  ->  value <= least"] == (quickest_first, pytest.approx(3.5), 0)
    assert found["print('low')  ->  None"][0] == ["a/t.py::no"]
    assert found["value - 1  ->  value + 1"][0] == ["a/p.py::starts"]
    assert found["3  ->  4"][0] == ["a/u.py::quickest", "a/t.py::no", "a/t.py::quick", "a/t.py::slow"]


def test_quickest_are_asked_where_all_would_take_too_long(mutate: ModuleType, tmp_path: Path) -> None:
    """How many others there are is reported: what they would notice counts as not noticed."""
    path = tmp_path / "clip.py"
    path.write_text(SOURCE)
    reached = {
        "tests": ["a/t.py::slow", "a/t.py::quick", "a/u.py::middle"],
        "seconds": [2.0, 0.25, 0.5],
        "starts_processes": [],
        "lines": {str(path): {9: [0, 1, 2]}},
    }
    (mutant,) = (found for found in mutate.mutants(path) if found.line == 9)
    assert mutate.judges(mutant, reached, ("a",), 1.0) == (["a/t.py::quick", "a/u.py::middle"], 0.75, 1)
    assert mutate.judges(mutant, reached, ("a",), 0.1) == (["a/t.py::quick"], 0.25, 2)


def test_runs_reach_one_table(mutate: ModuleType) -> None:
    """Tests are counted on."""
    one = {"tests": ["a", "b"], "seconds": [1.0, 2.0], "starts_processes": [1], "lines": {"f": {"3": [0, 1]}}}
    other = {"tests": ["c"], "seconds": [3.0], "starts_processes": [0], "lines": {"f": {"3": [0]}, "g": {"1": [0]}}}
    assert mutate.together([one, other]) == {
        "tests": ["a", "b", "c"],
        "seconds": [1.0, 2.0, 3.0],
        "starts_processes": [1, 2],
        "lines": {"f": {3: [0, 1, 2]}, "g": {1: [2]}},
    }


def _code(text: str) -> CodeType:
    return compile(text, "clip.py", "exec")


def test_functions_become_those_of_the_mutant(mutate: ModuleType) -> None:
    """Nested ones and lambdas of one line each by its place; not where one is gone or sees other names."""
    pairs = sys.modules["forked_judge"].pairs
    before = "def outer(a):\n    b = 1\n    def inner():\n        return a < b\n    return inner, lambda: a, lambda: 2"
    found = pairs(_code(before), _code(before.replace("a < b", "a <= b").replace("lambda: 2", "lambda: 3")))
    names = ["outer.<locals>.inner", "outer.<locals>.<lambda>", "outer.<locals>.<lambda>", "outer"]
    assert [old.co_qualname for old in found] == [new.co_qualname for new in found.values()] == names
    assert [old == new for old, new in found.items()] == [False, True, False, False]
    assert pairs(_code(before), _code(before.replace(", lambda: 2", ""))) is None
    assert pairs(_code(before), _code(before.replace("a < b", "a"))) is None


@pytest.mark.parametrize(
    ("of_line", "expected"),
    [
        ("        if count:", "1 of 1 killed (100 %)"),  # in a fork
        (
            "_LAST_SECOND: Final = 253_402_300_799",
            "1 of 1 killed (100 %)",
        ),  # run by the import: in a fresh process
    ],
)
def test_each_mutant_is_judged(of_line: str, expected: str) -> None:
    """As a user runs it: the killed ones, and the rate."""
    source = "packages/kube-rules/src/kube_rules/durations.py"
    line = 1 + (ROOT / source).read_text(encoding="utf-8").splitlines().index(of_line)
    judges = "packages/kube-rules/tests/test_durations.py"
    command = [sys.executable, str(TOOL), "api", "--only", f"{source}:{line}", "--tests", judges]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert f"by {judges}::" in done.stdout
    assert done.stdout.splitlines()[-1].endswith(expected)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["--only", "packages/kube-rules/src/kube_rules/nowhere.py:1"],
            "nothing to change at packages/kube-rules/src/kube_rules/nowhere.py:1",
        ),
        (
            ["--only", "packages/kube-rules/src/kube_rules/durations.py:1"],
            "nothing to change at packages/kube-rules/src/kube_rules/durations.py:1",
        ),
        (
            ["packages/reprieve/src/reprieve/client/__init__.py"],
            "nothing to change at packages/reprieve/src/reprieve/client/__init__.py",
        ),
        (
            [
                "--only",
                "packages/kube-rules/src/kube_rules/durations.py:27",
                "--tests",
                "packages/kube-standin/tests/test_yaml_attacks.py",
            ],
            "of packages/kube-standin/tests/test_yaml_attacks.py no test is left without those marked timed",
        ),
        (
            ["--only", "packages/kube-rules/src/kube_rules/durations.py:27", "--tests", "tests/nowhere.py"],
            "tests/nowhere.py",
        ),
    ],
)
def test_rate_of_nothing_is_an_error(arguments: list[str], expected: str) -> None:
    """No mutant, or no test to judge it: that is no figure, and none of them was killed."""
    done = subprocess.run([sys.executable, TOOL, *arguments], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode != 0
    assert expected in done.stderr
    assert "killed" not in done.stdout


PROPERTIES = """
from hypothesis import given, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule


@given(st.integers())
def test_numbers(number):
    assert number == number


class Counting(RuleBasedStateMachine):
    @rule()
    def count(self):
        pass


TestCounting = Counting.TestCase


class TestNumbers:
    @given(st.integers())
    def test_numbers(self, number):
        assert number == number
"""


def test_no_property_is_made_smaller(mutate: ModuleType, tmp_path: Path) -> None:
    """Whichever form it has: a function, a method, a state machine; each can still be run."""
    (tmp_path / "test_properties.py").write_text(PROPERTIES)
    (tmp_path / "conftest.py").write_text(
        "from forked_judge import _without_shrinking\n\n"
        "def pytest_collection_modifyitems(items):\n"
        "    for item in items:\n"
        "        _without_shrinking(item)\n"
        "        own = getattr(item.obj, '_hypothesis_internal_use_settings', None) or item.cls.settings\n"
        "        print(item.nodeid, sorted(phase.name for phase in own.phases))\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(TOOL.parent)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=tmp_path)
    assert "3 passed" in done.stdout, done.stdout + done.stderr
    for name in ("test_numbers", "TestCounting::runTest", "TestNumbers::test_numbers"):
        assert f"test_properties.py::{name} ['explicit', 'generate', 'reuse']" in done.stdout
