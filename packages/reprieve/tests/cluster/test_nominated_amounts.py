"""What nominated pods ask for, as columns: always what the pods themselves say."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from reprieve.framework.diagnoser import nominated_pods, nominated_rows
from tests.building import World, node, pod

NODES, PODS = 6, 40


@pytest.mark.parametrize("seed", range(8))
def test_columns_equal_a_count_pod_by_pod(seed: int) -> None:
    """scheduling.md 2: nominated pods of equal or higher priority that are not placed count, in trials as outside."""
    chance = Random(seed)
    world = World(
        *(node(f"n{i}") for i in range(NODES)),
        *(pod(f"p{i}", cpu=f"{i + 1}m", gpu=i % 2, priority=chance.randrange(3)) for i in range(PODS)),
    )
    state = world.engine.cluster
    pods = [world.record(f"p{i}") for i in range(PODS)]

    def change() -> None:
        for _ in range(chance.randrange(1, 2 * PODS)):
            one, row = chance.choice(pods), chance.randrange(NODES)
            what = chance.randrange(6)
            if what < 3:
                state.nominate(one, row)
            elif what == 3:
                state.clear_nomination(one)
            elif one.row < 0:
                (state.place if what == 4 else lambda p, r: state.place_all([p], [r]))(one, row)
            else:
                (state.displace if what == 4 else lambda p: state.displace_all([p]))(one)

    def compare() -> None:
        state.check()
        for priority in range(4):
            for rows in (slice(0, NODES), np.arange(NODES), np.array([4, 1]), np.array([], dtype=np.int64)):
                every = nominated_rows(state, priority, rows)
                wanted = {
                    row: np.sum([each.signature.delta for each in there], axis=0).tolist()
                    for row, there in nominated_pods(state, priority, rows)
                }
                assert dict(zip(every.rows.tolist(), every.amounts.T.tolist(), strict=True)) == wanted

    for _ in range(6):
        change()
        compare()
        before = state.digest()
        with state.trial():
            change()
            compare()
        assert state.digest() == before
        compare()


def test_columns_shrink_with_the_nominations() -> None:
    """After a crowd of preemptors they are as short as before, and what is left is what is reported."""
    world = World(node("n"), *(pod(f"p{i}", cpu=f"{i + 1}m", nominated="n") for i in range(80)))
    state = world.engine.cluster
    columns = state.nodes.nominated_amounts
    assert len(columns) == 80
    for number in range(79):
        state.clear_nomination(world.record(f"p{number}"))
        columns.check(state.nodes.nominated[0].values())
    assert len(columns) == 1
    assert len(columns._rows) <= 64
    rows, held = columns.held(0, 6)
    assert rows.tolist() == [0]
    assert held[:, 0].tolist() == world.record("p79").signature.delta[:6].tolist()


def test_nominated_pod_that_asks_for_something_else_and_a_resource_that_comes_later() -> None:
    """Requests of a pending pod may change, and columns are made as resources are first asked for."""
    world = World(node("n", more={"example.com/new": "4"}), pod("p", cpu="100m", nominated="n"))
    state, record = world.engine.cluster, world.record("p")
    world.add(pod("q", cpu="700m", more={"example.com/new": 2}))
    signature = world.record("q").signature
    state.change_pod(record, signature=signature, labels={}, start=None)
    state.check()
    every = nominated_rows(state, 0, slice(0, 1))
    assert every.amounts[:, 0].tolist() == signature.delta.tolist()


def test_running_pod_holds_nothing_where_it_is_nominated() -> None:
    """scheduling.md 2: it counts where it runs, whichever row that is and whichever came first."""
    world = World(node("a"), node("b"), pod("p", cpu="100m"), pod("q", cpu="200m"))
    state, columns = world.engine.cluster, world.engine.cluster.nodes.nominated_amounts
    p, q = world.record("p"), world.record("q")
    state.place(p, 0)
    state.nominate(p, 1)
    state.nominate(q, 1)
    assert columns.held(0, 6)[1][2].tolist() == [200]
    state.place(q, 0)
    assert columns.held(0, 6)[0].tolist() == []
    state.displace(p)
    assert columns.held(0, 6)[1][2].tolist() == [100]
    state.check()
