"""Whether pods elsewhere matter to a pod with claims (`FilterPlugin.local`, preemption.md 4.3)."""

from __future__ import annotations

from typing import Any

import pytest

from reprieve.plugins.dynamic_resources import DynamicResources
from tests.building import World, node
from tests.plugins.devices import allocated, claim, device_class, devices, request, slice_of, user

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


@pytest.mark.parametrize(
    ("items", "alike"),
    [
        ([*OWN, claim(), claim("d")], True),
        ([*OWN, claim(), claim("d", request("r", count=2))], False),
        # what another pod may use too, or is not to be had, or is allocated, is shared by none
        ([*OWN, claim(), claim("d"), user("r", "d")], False),
        ([*OWN, claim(), claim("d", request("r", "none"))], False),
        ([*OWN, claim(), claim("d", status=allocated(("gpu.example.com", "n1", "d0"), node="n1"))], False),
        ([*OWN, SHARED, claim(), claim("d")], False),
    ],
)
def test_claims_that_ask_for_the_same_of_a_node_make_pods_alike(items: list[Any], alike: bool) -> None:
    """`FilterPlugin.likeness`: what is computed for one of them holds for the others."""
    world = World(node("n1"), node("n2"), device_class(), user("p", "c"), user("q", "d"), *items)
    identity = world.engine.running["default-scheduler"].evaluator.identity_on_rows
    first, second = identity(world.state("p")), identity(world.state("q"))
    assert (first is not None and first == second) is alike
