"""The count, at the end of a run, of what was not judged for want of data beside the repository."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from conftest import LEFT_OUT, left_out
from tests.outside import BESIDE, needs


def test_tests_left_out_are_counted_by_missing_data() -> None:
    """Tests skipped for it and examples passed over; a test skipped for another reason is not for want of data."""
    mark: Any = needs(BESIDE / "no" / "such")
    assert mark.mark.args == (True,)
    reason = mark.mark.kwargs["reason"]
    skipped = [SimpleNamespace(longrepr=("a.py", 1, f"Skipped: {why}")) for why in (reason, reason, "no kubectl")]
    passed = [SimpleNamespace(user_properties=[(LEFT_OUT, "data"), ("other", 1)]), SimpleNamespace(user_properties=[])]
    terminal = SimpleNamespace(stats={"skipped": skipped, "passed": passed})
    assert left_out(cast(pytest.TerminalReporter, terminal)) == {"tests: no/such": 2, "examples: data": 1}
    assert not left_out(cast(pytest.TerminalReporter, SimpleNamespace(stats={})))
