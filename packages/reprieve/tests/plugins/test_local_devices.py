"""Whether pods elsewhere matter to a pod with claims (`FilterPlugin.local`, preemption.md 4.3)."""

from __future__ import annotations

from typing import Any

import pytest

from reprieve.plugins.dynamic_resources import DynamicResources
from tests.building import World, node
from tests.plugins.devices import claim, device_class, devices, slice_of, user

OWN = [slice_of("n1", devices(2)), slice_of("n2", devices(2))]
SHARED = slice_of(None, devices(1), allNodes=True)


@pytest.mark.parametrize(
    ("items", "local"),
    [
        ([*OWN, user("p", "c"), claim()], True),
        ([*OWN, user("p", "c", "d"), claim(), claim("d")], True),
        # another pod restricts where the claim is allocated
        ([*OWN, user("p", "c"), user("q", "c"), claim()], False),
        ([*OWN, user("p", "c", "d"), user("q", "d"), claim(), claim("d")], False),
        ([*OWN, user("p", "c"), user("q", "d"), claim(), claim("d")], True),
        # a device that every node can reach is taken from all of them
        ([*OWN, SHARED, user("p", "c"), claim()], False),
        ([SHARED, user("p", "c"), claim()], False),
    ],
)
def test_claims_of_one_pod_on_devices_of_one_node_are_the_node_s_business(items: list[Any], local: bool) -> None:
    world = World(node("n1"), node("n2"), device_class(), *items)
    assert DynamicResources().local(world.state("p")) is local
