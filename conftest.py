"""How the whole suite runs: which examples properties draw (`tests/drawing.py`), and the summary at the end.

At the end stands how much did not happen for want of data (`tests/outside.py`).
"""

from __future__ import annotations

import gc
import importlib
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import is_hypothesis_test

from tests import drawing
from tests.outside import BESIDE, NO_BROWSER, REASON

pytest_plugins = ["pytester"]
LEFT_OUT = "left_out"
"""A property of a test that ran without a part of itself: what was left out (`record_property`)."""


def left_out(terminal: pytest.TerminalReporter) -> Counter[str]:
    """How often each missing thing was needed."""
    found: Counter[str] = Counter()
    for report in terminal.stats.get("skipped", ()):
        place = report.longrepr
        reason = place[2] if isinstance(place, tuple) else str(place)
        if REASON in reason:
            found[f"tests: {reason.split(f'{REASON}: ', 1)[-1]}"] += 1
        if NO_BROWSER in reason:
            found[f"tests: the page in a browser: {NO_BROWSER}"] += 1
    for report in terminal.stats.get("passed", ()):
        for name, value in report.user_properties:
            if name == LEFT_OUT:
                found[f"examples: {value}"] += 1
    return found


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Count what was left out; a test over files that are not there counts once, however many there would be."""
    found = left_out(terminalreporter)
    if found:
        terminalreporter.section("not judged")
        terminalreporter.line(f"Left out, for want of data in {BESIDE.name}/ beside the repository, or of a browser:")
        for what, number in sorted(found.items()):
            terminalreporter.line(f"  {number:4} {what}")


NEW_CLUSTERS = "--new-clusters"


def pytest_addoption(parser: pytest.Parser) -> None:
    """`make test-new` asks for it."""
    told = "run the properties alone, on new examples, for about so long"
    parser.addoption(NEW_CLUSTERS, type=float, metavar="SECONDS", help=told)


def pytest_configure(config: pytest.Config) -> None:
    """Before a property is decorated: its settings are those of the profile."""
    drawing.load(drawing.SAME if config.getoption(NEW_CLUSTERS) is None else drawing.NEW)


_OURS = "packages/reprieve/tests/"
LONG = (
    *("tests/chaos", "tests/tools/test_new_clusters", f"{_OURS}simulation/test_large_inputs"),
    *(f"{_OURS}replay/traces/test_openb_cluster", "tests/docs", "tests/e2e"),
)
"""Tests that take long or wait much: they start first."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Import a worker's share of the test modules first: in a new checkout, each is then compiled by one worker only.

    Rewriting the assertions of all modules takes twice as long as everything else that a worker does before it runs
    tests.
    """
    worker: dict[str, Any] | None = getattr(session.config, "workerinput", None)
    if worker is None:
        return
    paths = [path for argument in session.config.args for path in sorted(Path(argument).resolve().rglob("test_*.py"))]
    for path in paths[int(worker["workerid"].removeprefix("gw")) :: worker["workercount"]]:
        parts = path.relative_to(session.config.rootpath).with_suffix("").parts
        with suppress(Exception, pytest.skip.Exception):  # reported when the module is collected
            importlib.import_module(".".join(parts[parts.index("tests") :]))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long ones come first; what draws nothing would find nothing new on new clusters."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))
    if config.getoption(NEW_CLUSTERS) is not None:
        drawn = [item for item in items if is_hypothesis_test(getattr(item, "obj", None))]
        config.hook.pytest_deselected(items=[item for item in items if item not in drawn])
        items[:] = drawn


def pytest_collection_finish() -> None:
    """Tens of thousands of tests stay until the end: no collection of garbage is to go through them again and again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A property once, or round after round with new examples until its share of the time is used up."""
    if not is_hypothesis_test(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    until = time.monotonic() + (pyfuncitem.config.getoption(NEW_CLUSTERS) or 0) / len(pyfuncitem.session.items)
    drawing.forget()
    try:
        while True:
            pyfuncitem.obj(**arguments)
            if time.monotonic() >= until:
                return True
    except Exception as error:
        if case := drawing.last_drawn():
            error.add_note(f"As a case (tests/cases):\n{case}")
        raise
