"""What a request consumes of a capacity that devices share."""

from __future__ import annotations

import pytest

from reprieve.cluster.device_allocation import (
    rounded,
)
from reprieve.cluster.device_pools import Capacity, CapacityPolicy

RANGE = CapacityPolicy(default=2, least=1, most=7, step=2)
VALUES = CapacityPolicy(default=3, values=(2, 4, 8))

ROUNDED: list[tuple[CapacityPolicy | None, int | None, int | None]] = [
    (None, None, 20),
    (None, 7, 7),
    (RANGE, None, 2),
    (RANGE, 2, 3),  # rounded up to a step from the least
    (RANGE, 0, 1),
    (RANGE, 1, 1),
    (RANGE, 3, 3),
    (RANGE, 4, 5),
    (RANGE, 7, 7),
    (RANGE, 8, None),
    (CapacityPolicy(least=4, most=9), None, None),  # all of it is more than the most
    (CapacityPolicy(least=4, most=20), None, 20),
    (CapacityPolicy(least=4, most=9), 3, 4),
    (CapacityPolicy(least=4, most=9), 5, 5),
    (CapacityPolicy(least=4, most=9), 9, 9),
    (CapacityPolicy(least=4, most=9), 10, None),
    (CapacityPolicy(least=4), 100, 100),
    (CapacityPolicy(most=9), 9, 9),
    (CapacityPolicy(most=9), 10, None),
    (CapacityPolicy(step=5), 10, 10),
    (CapacityPolicy(step=5), 11, None),  # without a least nothing is rounded
    (CapacityPolicy(least=1, step=5), None, None),
    (CapacityPolicy(least=0, step=5), None, 20),
    (VALUES, None, 3),
    (VALUES, 1, 2),
    (VALUES, 2, 2),
    (VALUES, 3, 4),
    (VALUES, 8, 8),
    (VALUES, 9, None),
    (CapacityPolicy(values=(2, 20)), None, 20),
    (CapacityPolicy(values=(2, 4)), None, None),
    (CapacityPolicy(default=5), None, 5),
    (CapacityPolicy(default=5), 6, 6),
    (CapacityPolicy(default=9, most=7), None, 9),  # the default is taken as it is
]


@pytest.mark.parametrize(("policy", "wanted", "takes"), ROUNDED)
def test_request_consumes_of_a_capacity(policy: CapacityPolicy | None, wanted: int | None, takes: int | None) -> None:
    """resourceapi.CapacityRequestPolicy: nothing asked takes the default, else all; up to the next value or step."""
    assert rounded(wanted, Capacity(20, policy)) == takes
