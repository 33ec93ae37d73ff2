"""The control plane that admission is tested on."""

from typing import Any

import pytest

from tests.admission.plane import Plane, priority_class

Json = dict[str, Any]


@pytest.fixture
def plane() -> Plane:
    """A control plane with the classes of the recordings: std (default, 10), high (1000), low-never (-5)."""
    made = Plane()
    made.create(priority_class("std", 10, globalDefault=True))
    made.create(priority_class("high", 1000))
    made.create(priority_class("low-never", -5, preemptionPolicy="Never"))
    return made
