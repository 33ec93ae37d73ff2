"""Logs of changes: what readers are told, and how short a log is kept."""

from __future__ import annotations

import numpy as np

from reprieve.cluster.changes import GangLog, TouchLog
from tests.building import World, gang, node


def test_log_starts_over_beyond_its_limit() -> None:
    """As long as the limit it stays; one more and readers look at everything."""
    rows, gangs = TouchLog(), GangLog()
    rows.rows += [1, 2]
    gangs.keys += ["a", "b"]
    for log in (rows, gangs):
        log.cut(2)
        assert log.epoch == 0
    assert (rows.rows, gangs.keys) == ([1, 2], ["a", "b"])
    for log in (rows, gangs):
        log.cut(1)
        assert log.epoch == 1
    assert (rows.rows, gangs.keys) == ([], [])


def test_readers_of_gangs_learn_which_groups_have_more_pods_or_fewer() -> None:
    """From where each reader stands; after the log started over it may be any group, once."""
    world = World(node("n"), gang("g", 2), gang("h", 1))
    state = world.engine.cluster
    reader = state.gang_changes()
    assert reader.take() == set()
    state.place(world.record("g-0"), 0)
    behind = reader.copy()
    state.place(world.record("h-0"), 0)
    assert reader.take() == {"default/g", "default/h"}
    assert reader.take() == set()
    assert behind.take() == {"default/g", "default/h"}
    waiting = reader.copy()
    state.resized_gangs.cut(0)
    assert reader.take() is None
    assert reader.take() == set()
    state.displace(world.record("g-0"))
    assert waiting.take() is None
    assert reader.take() == {"default/g"}
    assert state.gang_changes().take() == set()


def test_logs_are_kept_short_when_nothing_is_going_on() -> None:
    """Eight entries for each row, or group, and 4096 more; in a trial they are left alone."""
    world = World(node("n"), gang("g", 1))
    state, one = world.engine.cluster, world.record("g-0")
    limit = 8 * 1 + 4096
    with state.trial():
        state.touched.rows += [0] * (limit - len(state.touched.rows) + 3)
        before = state.touched.epoch
        state.place(one, 0)
        assert state.touched.epoch == before
    assert (state.touched.epoch, state.touched.rows) == (before + 1, [])
    state.touched.rows += [0] * limit
    state.resized_gangs.keys += ["default/g"] * (limit - len(state.resized_gangs.keys))
    state.trim()
    assert (len(state.touched.rows), len(state.resized_gangs.keys)) == (limit, limit)
    state.touched.rows.append(0)
    state.resized_gangs.keys.append("default/g")
    state.trim()
    assert (state.touched.rows, state.resized_gangs.keys) == ([], [])
    assert np.array_equal(state.nodes.used[:, 0], np.zeros(state.resources.capacity))
