"""The short version of `tools/restart_chaos.py`: some minutes of simulated time with many ends of the scheduler."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.docs.test_site import tool

tool("restart_api")  # which it imports
chaos = tool("restart_chaos")


@pytest.mark.parametrize("standby", [False, True])
def test_limits_hold_and_nothing_leaks_over_many_ends_of_the_scheduler(standby: bool) -> None:
    """reservations.md 7.3, cost.md 9, moving.md 4.5; the tool itself checks the rules after every write."""
    done: Counter[str] = Counter()
    for seed in (5, 7, 8):
        done += chaos.simulate(seed, 600.0, 0.03, standby=standby)
    assert all(done[what] for what in ("kills", "preemptions", "moves", "reservations", "backfilled")), done
