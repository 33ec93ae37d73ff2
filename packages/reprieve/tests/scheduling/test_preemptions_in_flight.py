"""Who waits for whom to leave, by itself."""

from __future__ import annotations

from reprieve.scheduling.preemptions_in_flight import PreemptionsInFlight


def test_a_shared_victim_counts_for_both_until_it_has_left() -> None:
    """preemption.md 7.1: a preemptor waits until the last of its victims has left."""
    flights = PreemptionsInFlight()
    assert flights.begin("pod/a", ["1", "2"])
    assert flights.begin("pod/b", ["2"])
    flights.left("2")
    assert (flights.waits("pod/a"), flights.waits("pod/b")) == (True, False)
    assert (flights.is_victim("1"), flights.is_victim("2")) == (True, False)
    flights.left("nobody's")
    flights.left("1")
    assert len(flights) == 0
    assert not flights.is_victim("1")


def test_a_preemption_takes_the_place_of_the_preemptors_earlier_one() -> None:
    """Nobody waits for victims that are no longer needed; one without victims waits for nobody."""
    flights = PreemptionsInFlight()
    flights.begin("pod/a", ["1", "2"])
    flights.begin("pod/b", ["1"])
    flights.begin("pod/a", ["3"])
    assert (flights.is_victim("1"), flights.is_victim("2"), flights.is_victim("3")) == (True, False, True)
    assert not flights.begin("pod/a", [])
    assert (flights.waits("pod/a"), flights.is_victim("3")) == (False, False)
    flights.forget("pod/b")
    flights.forget("pod/b")
    assert len(flights) == 0
