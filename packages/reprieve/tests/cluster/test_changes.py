"""Logs of changes: what readers receive, and how short a log is kept."""

from __future__ import annotations

import numpy as np

from reprieve.cluster.changes import ChangeLog
from tests.building import World, gang, node


def test_log_starts_over_beyond_its_limit() -> None:
    """As long as the limit it stays; one more and readers look at everything."""
    rows, gangs = ChangeLog[int](), ChangeLog[str]()
    rows.entries += [1, 2]
    gangs.entries += ["a", "b"]
    for log in (rows, gangs):
        log.cut(2)
        assert log.epoch == 0
    assert (rows.entries, gangs.entries) == ([1, 2], ["a", "b"])
    for log in (rows, gangs):
        log.cut(1)
        assert log.epoch == 1
    assert (rows.entries, gangs.entries) == ([], [])


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


def test_trials_that_are_over_are_no_news_to_readers_of_what_lasts() -> None:
    """In a trial they learn what it has changed so far, and afterwards that this was undone; others learn it all."""
    world = World(node("n"), node("m"), gang("g", 2))
    state, one, other = world.engine.cluster, world.record("g-0"), world.record("g-1")
    rows, gangs, every = state.changes(lasting=True), state.gang_changes(lasting=True), state.changes()
    assert (rows.take(), every.take(), gangs.take()) == (None, None, set())
    before = rows.copy(), gangs.copy()
    with state.trial():
        with state.trial():
            state.place(one, 0)
        assert (rows.take(), gangs.take()) == ([], set())
        state.place(one, 1)
        assert (rows.take(), gangs.take()) == ([1], {"default/g"})
    assert (rows.take(), gangs.take()) == ([1], {"default/g"})
    state.place(other, 0)
    with state.trial():
        state.place(one, 1)
    for readers in ((rows, gangs), before):
        assert [reader.take() for reader in readers] == [[0], {"default/g"}]
        assert [reader.take() for reader in readers] == [[], set()]
    assert set(every.take() or ()) == {0, 1}
    behind = rows.copy(), gangs.copy()
    state.displace(other)
    assert (rows.take(), gangs.take()) == ([0], {"default/g"})
    state.touched.cut(0)
    state.resized_gangs.cut(0)
    assert (rows.take(), gangs.take(), every.take()) == ([], set(), None)
    assert [reader.take() for reader in behind] == [None, None]


def test_logs_are_kept_short_when_nothing_is_going_on() -> None:
    """Eight entries for each row, or group, and 4096 more; in a trial they are left alone."""
    world = World(node("n"), gang("g", 1))
    state, one = world.engine.cluster, world.record("g-0")
    limit = 8 * 1 + 4096
    with state.trial():
        state.touched.entries += [0] * (limit - len(state.touched.entries) + 3)
        before = state.touched.epoch
        state.place(one, 0)
        assert state.touched.epoch == before
    assert (state.touched.epoch, state.touched.entries) == (before + 1, [])
    state.touched.entries += [0] * limit
    state.resized_gangs.entries += ["default/g"] * (limit - len(state.resized_gangs.entries))
    state.trim()
    assert (len(state.touched.entries), len(state.resized_gangs.entries)) == (limit, limit)
    state.touched.entries.append(0)
    state.resized_gangs.entries.append("default/g")
    state.trim()
    assert (state.touched.entries, state.resized_gangs.entries) == ([], [])
    assert np.array_equal(state.nodes.used[:, 0], np.zeros(state.resources.capacity))
