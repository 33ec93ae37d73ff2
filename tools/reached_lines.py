"""A pytest plugin that writes down which test runs which line: `pytest -p reached_lines`, for `mutate.py`.

Two variables of the environment are read: `REACHED_SOURCES`, folders with the lines that count, joined as a PATH is,
and `REACHED_LINES`, the file to write, a `Reached` as JSON.  Only tests that pass are in it: a failing one notices
nothing.  What runs in a process of its own is not seen; so the tests of files in which one was started are named apart.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict

import coverage
import pytest


class Reached(TypedDict):
    """What one run of the tests came to."""

    tests: list[str]
    """Node ids, in the order in which they ran."""
    seconds: list[float]
    """Per test, the processor time it took, the fixtures it was first to ask for included."""
    starts_processes: list[int]
    """Tests (by index) of files in which a process was started."""
    lines: dict[str, dict[int, list[int]]]
    """File (absolute) -> line -> tests that run it. What runs at import belongs to none."""


class _Plugin:
    """Tell coverage which test runs, and write everything at the end."""

    def __init__(self) -> None:
        folders = os.environ["REACHED_SOURCES"].split(os.pathsep)
        self.measured = coverage.Coverage(data_file=None, config_file=False, source=folders, messages=False)
        self.measured.set_option("run:disable_warnings", ["no-data-collected", "module-not-measured"])
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()
        self.starting: set[str] = set()
        self.now = ""
        sys.addaudithook(self._note_process)
        self.measured.start()

    def _note_process(self, event: str, _: object) -> None:
        if event == "subprocess.Popen" and self.now:
            self.starting.add(self.now.partition("::")[0])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.now = item.nodeid
        self.measured.switch_context(item.nodeid)
        before = _processor_seconds()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] = _processor_seconds() - before
            self.measured.switch_context("")
            self.now = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self.failed.add(report.nodeid)

    def pytest_unconfigure(self) -> None:
        self.measured.stop()
        passed = [test for test in self.seconds if test not in self.failed]
        index = {test: number for number, test in enumerate(passed)}
        data = self.measured.get_data()
        lines: dict[str, dict[int, list[int]]] = {}
        for file in sorted(data.measured_files()):
            by_line = data.contexts_by_lineno(file).items()
            lines[file] = {line: sorted(index[test] for test in tests if test in index) for line, tests in by_line}
        reached = Reached(
            tests=passed,
            seconds=[self.seconds[test] for test in passed],
            starts_processes=[index[test] for test in passed if test.partition("::")[0] in self.starting],
            lines=lines,
        )
        Path(os.environ["REACHED_LINES"]).write_text(json.dumps(reached), encoding="utf-8")


def _processor_seconds() -> float:
    """Return what this process and those it has waited for have used: it is the same on a busy machine."""
    return time.process_time() + sum(os.times()[2:4])


def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Before anything of the product is imported."""
    early_config.pluginmanager.register(_Plugin(), "reached-lines")
