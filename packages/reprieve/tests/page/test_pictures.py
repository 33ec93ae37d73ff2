"""Pictures of what has changed, put together, are pictures of everything (page.md 11.4)."""

from __future__ import annotations

import random

import msgspec
import pytest
from msgspec.structs import replace

from kube_rules.objects import Node
from reprieve.decisions.records import DecisionRecord
from reprieve.page import pictures
from reprieve.page.documents import ASSUMED, ClusterTables
from reprieve.page.pictures import Picture, PictureTaker, merged
from tests.building import World, gang, group, node, pod
from tests.plugins.devices import DRIVER, allocated, claim, devices, slice_of, user

RACK = "topology.kubernetes.io/rack"


def nothing(key: str) -> DecisionRecord | None:
    return None


def settled(tables: ClusterTables) -> ClusterTables:
    """Without what a picture of changes has of when a node changed last, and in one order of taints and labels."""
    nodes, pods = tables.nodes, tables.pods
    labels = {RACK: nodes.labels[RACK]} if RACK in nodes.labels and len(nodes.names) > 4 else {}
    sets = [nodes.taint_sets[number] for number in nodes.taints]
    return replace(
        tables,
        nodes=replace(nodes, taints=tuple(map(sets.index, sets)), taint_sets=tuple(sets), labels=labels),
        pods=replace(pods, flags=tuple(flags & ~ASSUMED for flags in pods.flags)),
    )


class Changing:
    """A world that changes at random, with everything that a picture has."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.world = World(*(self.node(at) for at in range(8)), group("old", min_count=2, whole=True, priority=1))
        self.pods = 0

    def node(self, at: int) -> Node:
        taints = [("gpu", "yes", "NoSchedule")] if self.draw.random() < 0.2 else []
        labels = {RACK: f"r{at % 2}"} if self.draw.random() < 0.9 else {}
        return node(f"n{at}", gpu=8, labels=labels, taints=taints, unschedulable=self.draw.random() < 0.1)

    def step(self) -> None:
        engine, draw, now = self.world.engine, self.draw, self.world.now
        kind = draw.choice(("pod", "pod", "running", "gang", "gone", "node", "no-node", "decide", "decide"))
        known = sorted(engine.cluster.pods.values(), key=lambda found: found.uid)
        self.pods += 1
        if kind == "pod":
            engine.set(pod(f"p{self.pods}", gpu=draw.randint(1, 8), priority=draw.randint(0, 3)), now)
        elif kind == "running":
            where = f"n{draw.randrange(10)}"
            engine.set(pod(f"p{self.pods}", gpu=1, node=where, group=draw.choice([None, "old"])), now)
        elif kind == "gang":
            for item in gang(f"g{self.pods}", 2, gpu=8, priority=draw.randint(2, 9)):
                engine.set(item, now)
        elif kind == "gone" and known:
            chosen = draw.choice(known)
            engine.remove(pod(chosen.name).ref, now)
        elif kind == "node":
            engine.set(self.node(draw.randrange(10)), now)
        elif kind == "no-node":
            engine.remove(node(f"n{draw.randrange(10)}").ref, now)
        while kind == "decide" and engine.step(now).decision is not None:
            pass


@pytest.mark.parametrize("seed", range(12))
def test_changes_put_together_are_the_whole(seed: int) -> None:
    """page.md 11.4: at every moment, whatever has happened since the last one of everything."""
    changing = Changing(seed)
    taker = PictureTaker(changing.world.engine, nothing)
    taken = [taker.whole()]
    continued = 0
    for at in range(60):
        for _ in range(changing.draw.randint(0, 3)):
            changing.step()
        changes = taker.changed(float(at))
        if changes is None:
            taken = [taker.whole()]
            continue
        continued += 1
        taken.insert(0, msgspec.json.decode(msgspec.json.encode(changes), type=Picture))
        seen = merged(taken)
        whole = PictureTaker(changing.world.engine, nothing).whole()
        assert settled(seen.cluster) == settled(whole.cluster)
        assert (seen.queue, seen.queue_total, seen.reservations) == (whole.queue, whole.queue_total, whole.reservations)
    assert continued > 50


def test_picture_of_changes_is_small() -> None:
    """page.md 11.4: the nodes that have changed, the pods on them, and what runs nowhere."""
    world = World(
        *(node(f"n{at}", gpu=8, labels={RACK: "r"}) for at in range(9)),
        *(pod(f"p{at}", gpu=1, node=f"n{at}") for at in range(9)),
        pod("waits", gpu=9),
    )
    taker = PictureTaker(world.engine, nothing)
    taker.whole()
    world.engine.set(pod("more", gpu=1, node="n3"), world.now)
    world.engine.remove(node("n5").ref, world.now)
    changes = taker.changed(1.0)
    assert changes is not None
    assert (changes.after, changes.cluster.nodes.names, changes.gone) == (1.0, ("n3",), ("n5",))
    assert set(changes.cluster.pods.names) == {"more", "p3", "p5", "waits"}


def test_queue_of_a_picture_is_bounded_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """page.md 11.4."""
    monkeypatch.setattr(pictures, "MOST_ITEMS", 2)
    world = World(node("n", gpu=1), *(pod(f"p{at}", gpu=9, priority=at) for at in range(4)))
    taken = PictureTaker(world.engine, nothing).whole()
    assert ([item.name for item in taken.queue], taken.queue_total) == (["p3", "p2"], 4)


def test_devices_are_the_same_blocks_in_changes() -> None:
    """page.md 1.4: the driver is that of all nodes."""
    world = World(
        *(node(name) for name in ("n1", "n2")),
        *(slice_of(name, devices(4)) for name in ("n1", "n2")),
        claim("one", status=allocated((DRIVER, "n1", "gpu-0"), to=["uid-a"])),
        user("a", "one", node="n1"),
    )
    taker = PictureTaker(world.engine, nothing)
    taker.whole()
    world.engine.set(pod("more", node="n2"), world.now)
    changes = taker.changed(1.0)
    assert changes is not None
    assert (changes.cluster.block, changes.cluster.nodes.names, changes.cluster.nodes.blocks) == (DRIVER, ("n2",), (4,))
