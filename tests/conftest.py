"""What holds for every run: examples are the same each time, and it says at its end what did not happen.

Properties are tried with examples that follow from the test alone, and none fails for being slow: what fails, fails for
everybody. `REPRIEVE_RANDOM=1` looks for new ones. Left out is what wants data that is not there
(`tests/outside.py`).
"""

from __future__ import annotations

import os
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings

from tests.outside import BESIDE, REASON

settings.register_profile(
    "reprieve",
    deadline=None,
    derandomize=os.environ.get("REPRIEVE_RANDOM") != "1",
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("reprieve")

LEFT_OUT = "left_out"
"""A property of a test that ran without a part of itself: what was left out (`record_property`)."""


def left_out(terminal: pytest.TerminalReporter) -> Counter[str]:
    """How often each thing was wanted in vain."""
    found: Counter[str] = Counter()
    for report in terminal.stats.get("skipped", ()):
        place = report.longrepr
        reason = place[2] if isinstance(place, tuple) else str(place)
        if REASON in reason:
            found[f"tests: {reason.split(f'{REASON}: ', 1)[-1]}"] += 1
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
        terminalreporter.line(f"Left out, for want of data in {BESIDE.name}/ beside the repository:")
        for what, number in sorted(found.items()):
            terminalreporter.line(f"  {number:4} {what}")
