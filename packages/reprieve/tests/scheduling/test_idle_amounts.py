"""The amounts that are idle because they are reserved, computed from few numbers (reservations.md 5)."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest

from reprieve.plugins.reservations import ReservationOptions
from reprieve.scheduling.idle_amounts import IdleAmounts
from tests.building import GPU, World, node, pod

HOUR = 3600.0
NODES = [node("n0", cpu=4, gpu=2, pods=10), node("n1", cpu=4, pods=10), pod("r", cpu=2, gpu=1, node="n0")]


def _idle(*items: Any) -> tuple[World, IdleAmounts]:
    """Return idle amounts of which a tenth is the limit: an hour of the whole cluster in ten hours."""
    world = World(*NODES, *items)
    return world, IdleAmounts(world.engine.cluster, ReservationOptions(max_idle_share=0.1, max_reserved=HOUR))


def _reserved(world: World, *rows: int, **amounts: int) -> Any:
    """Return a reservation of these amounts on each of the rows."""
    resources = world.engine.cluster.resources
    names = {"cpu": "cpu", "gpu": GPU, "pods": "pods", "memory": "memory"}
    columns = np.zeros((len(resources), len(rows)), dtype=np.int64)
    for name, amount in amounts.items():
        columns[resources.names.index(names[name])] = amount
    return mock.Mock(rows=np.array(rows, dtype=np.int64), amounts=columns)


@pytest.mark.parametrize(
    ("rows", "reserved", "amounts", "share"),
    [
        ((), {}, {}, 0.0),
        ((0,), {"cpu": 4000}, {"cpu": 2000}, 0.25),  # what is free there
        ((0,), {"cpu": 1000}, {"cpu": 1000}, 0.125),  # what is reserved there
        ((0, 1), {"cpu": 4000}, {"cpu": 6000}, 0.75),
        ((0,), {"cpu": 4000, "gpu": 2}, {"cpu": 2000, GPU: 1}, 0.5),  # of the GPUs, if some are reserved
        ((1,), {"cpu": 4000, "gpu": 1}, {"cpu": 4000, GPU: 0}, 0.0),
        ((1,), {"cpu": 1000, "memory": 32 << 30}, {"cpu": 1000, "memory": 32 << 30}, 0.25),  # the highest of any
        ((1,), {"cpu": 1000, "pods": 9}, {"cpu": 1000}, 0.125),  # seats for pods do not count
    ],
)
def test_idle_is_what_is_free_and_reserved(
    rows: tuple[int, ...], reserved: dict[str, int], amounts: dict[str, int], share: float
) -> None:
    """reservations.md 5.1, 5.2."""
    world, idle = _idle()
    reservation = _reserved(world, *rows, **reserved)
    idle.measure(0.0, [reservation] if rows else [])
    assert idle.amounts == amounts
    assert idle.share_of(reservation.rows, reservation.amounts) == share if rows else True
    idle.measure(5.0, [])
    assert idle.amounts == {}
    assert idle.next_time() is None


def test_two_reservations_of_a_node_share_what_is_free() -> None:
    """reservations.md 5.1."""
    world, idle = _idle()
    idle.measure(0.0, [_reserved(world, 0, cpu=1500), _reserved(world, 0, cpu=1500)])
    assert idle.amounts == {"cpu": 2000}


@pytest.mark.parametrize(
    ("started", "since", "now", "too_long"),
    [
        ((0.0,), 0.0, 4 * HOUR, False),  # a quarter of the cluster for four hours is the limit
        ((0.0,), 0.0, 4 * HOUR + 1, True),
        ((0.0, 3 * HOUR), 0.0, 4 * HOUR + 1, True),  # the oldest counts
        ((None, 1.0), 0.0, 4 * HOUR + 1, False),
        ((None,), 0.0, 9 * HOUR, False),
        ((), 0.0, 9 * HOUR, False),
        ((0.0,), 0.0, 10 * HOUR - 1, True),
        ((0.0,), 5 * HOUR, 14 * HOUR, True),
        ((0.0,), 0.0, 10 * HOUR, False),  # pending for longer than the period
    ],
)
def test_pods_in_the_way_run_for_as_long_again(
    started: tuple[float | None, ...], since: float, now: float, too_long: bool
) -> None:
    """reservations.md 5.3."""
    world, idle = _idle()
    reservation = _reserved(world, 0, cpu=4000)
    awaited = [mock.Mock(start=start) for start in started]
    assert idle.is_too_long(now, reservation.rows, reservation.amounts, awaited, since) is too_long


def test_limit_is_reached_and_forgotten_after_the_period() -> None:
    """reservations.md 5.2: three quarters of the cluster are idle for 80 minutes, which is the limit."""
    world, idle = _idle()
    reservation = [_reserved(world, 0, 1, cpu=4000)]
    idle.advance(HOUR)
    idle.measure(HOUR, reservation)
    assert idle.next_time() == HOUR + 4800 + 1
    for minute in range(60, 140, 10):
        idle.advance(60.0 * minute)
        idle.measure(60.0 * minute, reservation)
        idle.measure(60.0 * minute - 300, reservation)  # a clock that goes back changes nothing
        assert not idle.is_exhausted(60.0 * minute)
        assert idle.next_time() == pytest.approx(HOUR + 4800 + 1)
    idle.advance(60.0 * 140)
    assert idle.is_exhausted(60.0 * 140)
    assert idle.next_time() == 60.0 * 140 + 1
    idle.measure(60.0 * 140, [])
    assert idle.next_time() is None
    idle.advance(11 * HOUR)
    assert idle.is_exhausted(11 * HOUR), "all of it is within the ten hours"
    assert not idle.is_exhausted(11 * HOUR + 660)
    idle.measure(11 * HOUR + 660, reservation)
    assert idle.next_time() == pytest.approx(11 * HOUR + 660 + 600 + 1, abs=200)


def test_period_is_kept_in_few_parts() -> None:
    """reservations.md 5: 240 parts of 150 seconds, however often it is asked."""
    world, idle = _idle()
    idle.measure(0.0, [_reserved(world, 0, cpu=1)])
    for second in range(0, 1000, 10):
        idle.advance(float(second))
    assert len(idle._parts) == 7
    assert idle._total == pytest.approx(990 / 8000)
