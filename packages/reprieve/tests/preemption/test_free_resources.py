"""Resources that are free beside placed pods, and beside units that come back."""

from __future__ import annotations

from collections.abc import Sequence

from reprieve.cluster.pods import PodRecord
from reprieve.cluster.resources import CPU, MEMORY
from reprieve.preemption.free_resources import FreeResources
from tests.building import World, node, pod

GI = 1 << 30


def test_free_resources_beside_placed_pods() -> None:
    """preemption.md 3.4: nominated pods of equal or higher priority count, the placed ones' own nominations do not."""
    world = World(
        node("n", cpu=10, memory="10Gi"),
        pod("runs", cpu=1, memory="1Gi", node="n"),
        pod("equal", cpu=2, priority=5, nominated="n", gates=["x"]),
        pod("lower", cpu=4, priority=4, nominated="n", gates=["x"]),
        pod("new", cpu=3, priority=5, nominated="n", gates=["x"]),
        pod("other", memory="2Gi", priority=5),
    )
    cluster, row = world.engine.cluster, world.row("n")
    new, other, runs = world.record("new"), world.record("other"), world.record("runs")

    def cpu(placed: Sequence[PodRecord], priority: int | None) -> int:
        room = FreeResources.after(cluster, [(one, row) for one in placed], priority=priority)
        return room.left[row][room.columns[row].index(CPU)]

    assert cpu([new], 5) == 10_000 - 1000 - 2000 - 3000
    assert cpu([new], 4) == 10_000 - 1000 - 2000 - 4000 - 3000
    assert cpu([new], 6) == 10_000 - 1000 - 3000
    assert cpu([new], None) == 10_000 - 1000 - 3000
    with cluster.trial():
        cluster.place(world.record("equal"), row)
        assert cpu([new], 5) == 10_000 - 1000 - 2000 - 3000, "once, although it is still nominated"
    room = FreeResources.after(cluster, [(new, row), (other, row)], priority=6)
    assert dict(zip(room.columns[row], room.left[row], strict=True))[MEMORY] == 7 * GI
    room.free([runs], [row])
    assert dict(zip(room.columns[row], room.left[row], strict=True))[MEMORY] == 8 * GI
    room.free([runs], [row + 1])
    assert dict(zip(room.columns[row], room.left[row], strict=True))[CPU] == 7000
    assert room.short_columns() == []


def test_units_are_put_back_where_they_fit() -> None:
    """All or none; the first row's shortage is reported, and resources without requests do not matter."""
    world = World(
        node("a", cpu=3),
        node("b", cpu=3),
        pod("v0", cpu=1, node="a"),
        pod("v1", cpu=2, memory="1Gi", node="b"),
        pod("v2", cpu=2, node="a"),
        pod("x", cpu=2, priority=9),
        pod("y", cpu=2, priority=9),
    )
    cluster = world.engine.cluster
    a, b = world.row("a"), world.row("b")
    seats = [(world.record("x"), a), (world.record("y"), b)]
    v0, v1, v2 = (world.record(f"v{i}") for i in range(3))
    with cluster.trial():
        cluster.displace_all([v0, v1, v2])
        room = FreeResources.after(cluster, seats, priority=9)
        before = {row: list(left) for row, left in room.left.items()}
        assert room.shortage([v0, v1], [a, b]) == (b, ((CPU, 1000),))
        assert room.left == before
        assert room.shortage([v2, v1], [a, b]) == (min(a, b), ((CPU, 1000),))
        assert room.shortage([v0], [a]) is None
        assert room.left[a][room.columns[a].index(CPU)] == 0
        assert room.shortage([v0, v0], [a, a]) == (a, ((CPU, 2000),))
        assert room.shortage([v0], [a]) == (a, ((CPU, 1000),))
        assert room.shortage([v1], [b + a + 7]) is None, "on no row that matters"
    short = FreeResources.after(cluster, seats, priority=9)
    assert short.short_columns() == [CPU]


def test_units_with_unlike_pods_need_the_sum_of_their_amounts() -> None:
    """preemption.md 3.4: on each node, and only of what is requested there; nothing changes by asking."""
    world = World(
        node("a", cpu=4),
        node("b", cpu=4),
        *(pod(f"v{cpu}", cpu=cpu, node="a") for cpu in (1, 2)),
        pod("idle", node="a"),
        pod("x", cpu=2, priority=9),
        pod("y", cpu=4, priority=9),
    )
    cluster, a, b = world.engine.cluster, world.row("a"), world.row("b")
    small, large, idle = (world.record(name) for name in ("v1", "v2", "idle"))
    with cluster.trial():
        cluster.displace_all([small, large, idle])
        room = FreeResources.after(cluster, [(world.record("x"), a)], priority=9)
        assert room.shortage_on(a, [small, large], [a, a]) == ((CPU, 1000),)
        assert room.shortage_on(a, [small, large], [a, b]) == ()
        assert room.shortage_on(b, [small, large], [a, b]) == ()
        assert room.shortage([small, large], [a, a]) == (a, ((CPU, 1000),))
        assert room.shortage([small], [a]) is None
        assert room.shortage([large, idle], [b, b]) is None, "a node that holds no placed pod does not matter"
        overcommitted = FreeResources.after(cluster, [(world.record("y"), a), (world.record("x"), a)], priority=9)
        assert overcommitted.short_columns() == [CPU]
        assert overcommitted.shortage([idle], [a]) is None, "a pod without a request needs nothing of it"
