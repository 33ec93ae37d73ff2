"""How long a test waits for what must come.

Long, as it is waited out only where something is wrong: machines are slow, run other things beside, and stand still
for seconds. A test that fails when nothing is wrong is worse than one that fails late.
"""

import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")
DEADLINE: Final = 180.0
"""Seconds of the machine's clock."""


def eventually(check: Callable[[], T], what: str = "", seconds: float = DEADLINE) -> T:
    """Wait until `check` returns something true and return it; an AssertionError names what did not come."""
    ends = time.monotonic() + seconds
    pause = threading.Event()
    while True:
        found = check()
        if found:
            return found
        assert time.monotonic() < ends, f"not within {seconds} s: {what or check}"
        pause.wait(0.05)
