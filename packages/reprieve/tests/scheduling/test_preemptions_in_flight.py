"""Preemptors and the leaving victims that they wait for, by itself."""

from __future__ import annotations

import pytest

from reprieve.scheduling.preemptions_in_flight import PreemptionsInFlight
from tests.building import World, node
from tests.plugins.devices import allocated, device_class, devices, slice_of, user
from tests.plugins.devices import claim as device_claim
from tests.plugins.devices import request as device_request


def test_shared_victim_counts_for_both_until_it_has_left() -> None:
    """preemption.md 7.1: a preemptor waits until the last of its victims has left."""
    flights = PreemptionsInFlight()
    assert flights.begin("pod/a", ["1", "2"])
    assert flights.begin("pod/b", ["2"])
    flights.remove_victim("2")
    assert (flights.has_victims("pod/a"), flights.has_victims("pod/b")) == (True, False)
    assert (flights.is_victim("1"), flights.is_victim("2")) == (True, False)
    flights.remove_victim("unknown")
    flights.remove_victim("1")
    assert len(flights) == 0
    assert not flights.is_victim("1")


def test_preemption_takes_the_place_of_the_preemptors_earlier_one() -> None:
    """A preemptor does not wait for victims that it no longer needs; one without victims does not wait."""
    flights = PreemptionsInFlight()
    flights.begin("pod/a", ["1", "2"])
    flights.begin("pod/b", ["1"])
    flights.begin("pod/a", ["3"])
    assert (flights.is_victim("1"), flights.is_victim("2"), flights.is_victim("3")) == (True, False, True)
    assert not flights.begin("pod/a", [])
    assert (flights.has_victims("pod/a"), flights.is_victim("3")) == (False, False)
    flights.forget("pod/b")
    flights.forget("pod/b")
    assert len(flights) == 0


def _sharing() -> World:
    """Two victims on one node use two claims, and a preemptor has just decided to have all of their devices."""
    status = allocated(("gpu.example.com", "n", "gpu-0"), to=("uid-low0", "uid-low1"))
    more = allocated(("gpu.example.com", "n", "gpu-1"), to=("uid-low0",))
    low = [user("low0", "c", "d", node="n"), user("low1", "c", node="n")]
    return World(
        node("n", cpu=4),
        device_class(),
        slice_of("n", devices(2), driver="gpu.example.com"),
        device_claim("c", status=status),
        device_claim("d", status=more),
        device_claim("all", device_request(count=2)),
        *low,
        user("p", "all", priority=9),
    )


def _given_back(world: World, name: str, *, to: tuple[str, ...] = ()) -> None:
    """The API has removed all other consumers from the claim."""
    had = {"c": "gpu-0", "d": "gpu-1"}[name]
    status = allocated(("gpu.example.com", "n", had), to=to) if to else None
    world.engine.set(device_claim(name, status=status), world.now)


@pytest.mark.parametrize("last", ["c", "d"])
def test_victim_is_waited_for_until_its_devices_are_given_back(last: str) -> None:
    """KEP-5690: pods are gone before the API has removed them from their claims; no others are evicted meanwhile."""
    world = _sharing()
    decision = world.step()
    assert decision.preemption is not None
    assert [pod.name for verdict in decision.preemption.victims for pod in verdict.unit.pods] == ["low0", "low1"]
    key = decision.ref
    world.engine.finish_preemption(key, world.now)
    world.gone("low0").gone("low1")
    assert world.engine.is_preempting(key), "all devices are still taken"
    _given_back(world, "c", to=("uid-low0",))
    assert world.engine.is_preempting(key), "of one victim alone"
    first = "d" if last == "c" else "c"
    _given_back(world, first)
    assert world.engine.is_preempting(key)
    _given_back(world, last)
    assert not world.engine.is_preempting(key)
    assert world.engine._resources._lingering == {}
    assert world.settle().where == {"p": "n"}
