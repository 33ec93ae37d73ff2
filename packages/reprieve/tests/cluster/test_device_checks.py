"""Taints of devices that evict, and the check that finds what is off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from tests.building import World, node
from tests.plugins.devices import (
    DRIVER,
    Json,
    allocated,
    claim,
    device,
    device_class,
    devices,
    slice_of,
    taint_rule,
    user,
)

SICK = {"key": "sick", "effect": "NoExecute"}
TOLERATES = [{"key": "sick", "operator": "Exists"}]
EVICTING: list[tuple[str, list[Any], list[Json], bool]] = [
    ("no taint", [slice_of("n", devices(1))], [], False),
    ("NoExecute", [slice_of("n", devices(1, taints=[SICK]))], [], True),
    ("NoExecute, tolerated", [slice_of("n", devices(1, taints=[SICK]))], TOLERATES, False),
    ("NoSchedule", [slice_of("n", devices(1, taints=[{**SICK, "effect": "NoSchedule"}]))], [], False),
    ("one of two", [slice_of("n", devices(1, taints=[{**SICK, "key": "other"}, SICK]))], TOLERATES, True),
    ("another device", [slice_of("n", [device("gpu-0"), device("gpu-1", taints=[SICK])])], [], False),
    (
        "of an older generation",
        [
            slice_of("n", devices(1, taints=[SICK]), generation=1, name="1"),
            slice_of("n", devices(1), generation=2, name="2"),
        ],
        [],
        False,
    ),
    (
        "of the newest generation",
        [
            slice_of("n", devices(1), generation=1, name="1"),
            slice_of("n", devices(1, taints=[SICK]), generation=2, name="2"),
        ],
        [],
        True,
    ),
    ("by rule", [slice_of("n", devices(1)), taint_rule("NoExecute", device="gpu-0")], [], True),
    ("by rule, tolerated", [slice_of("n", devices(1)), taint_rule("NoExecute")], TOLERATES, False),
    ("by rule, for another", [slice_of("n", devices(1)), taint_rule("NoExecute", device="gpu-1")], [], False),
    ("by a rule NoSchedule", [slice_of("n", devices(1)), taint_rule("NoSchedule")], [], False),
    ("by rule, not published any more", [taint_rule("NoExecute", pool="n")], [], True),
]


@pytest.mark.parametrize(("items", "tolerations", "evicts"), [e[1:] for e in EVICTING], ids=[e[0] for e in EVICTING])
def test_taints_that_evict(items: list[Any], tolerations: list[Json], evicts: bool) -> None:
    """devices.md 3.7: a device with NoExecute, by driver or rule, that the request does not tolerate."""
    state = ClusterState()
    status = allocated((DRIVER, "n", "gpu-0"), tolerations=tolerations)
    state.devices.set(claim("c", status=status))
    allocation = state.devices.claims["default/c"].allocation
    assert allocation is not None
    assert not state.devices.evicting(allocation)
    for one in items:
        state.devices.set(one)
    assert state.devices.evicting(allocation) is evicts
    for one in items:
        state.devices.remove(type(one).__name__, "", one.metadata.name)
    assert not state.devices.evicting(allocation)


# -- the check --------------------------------------------------------------------------------------------------------

SPOILT: list[tuple[str, Callable[[ClusterState, PodRecord], object], str]] = [
    ("in use", lambda state, _: state.devices.in_use.whole.clear(), "devices in use are off"),
    ("the view", lambda state, _: setattr(state.devices.claims["default/c"], "allocation", None), "in view is stale"),
    ("holders", lambda state, one: setattr(one, "row", -1), "is held by"),
    (
        "holders gone",
        lambda state, one: setattr(
            state.devices.claims["default/d"],
            "assumptions",
            state.devices.claims["default/d"].assumptions._replace(gone=frozenset({"x"})),
        ),
        "has holders gone",
    ),
    (
        "assumed for no pod",
        lambda state, _: setattr(
            state.devices.claims["default/d"],
            "assumptions",
            state.devices.claims["default/d"].assumptions._replace(
                assumed=state.devices.claims["default/c"].allocation
            ),
        ),
        "is assumed for no pod|is stale",
    ),
]


@pytest.mark.parametrize(("spoil", "says"), [s[1:] for s in SPOILT], ids=[s[0] for s in SPOILT])
def test_check_of_devices_finds_what_is_off(spoil: Callable[[ClusterState, PodRecord], object], says: str) -> None:
    """What is kept against what it is derived from."""
    world = World(node("n"), device_class(), slice_of("n", devices(2)), claim("c"), claim("d"), user("p", "c"))
    book, one = world.engine.cluster.devices, world.record("p")
    world.engine.cluster.place(one, 0)
    book.check()
    spoil(world.engine.cluster, one)
    with pytest.raises(AssertionError, match=says):
        book.check()
