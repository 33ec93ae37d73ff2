"""Preferred levels, ranks and slices on random clusters, against every way to place the gang (topology.md 1-4)."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kube_rules.topology_terms import PREFERRED_TOPOLOGY, SLICE
from tests.building import World, group, node, pod
from tests.drawing import examples
from tests.properties.coverage import met, must_meet

RACK, BLOCK = "topology.kubernetes.io/rack", "topology.kubernetes.io/block"
INDEX = "batch.kubernetes.io/job-completion-index"
some = examples(80)


@dataclass(frozen=True)
class Layout:
    """Nodes with (rack, block, free CPUs), and what the members of a gang ask for, by rank; `runs`: where some run."""

    nodes: Sequence[tuple[str, str, int]]
    asks: Sequence[int]
    runs: dict[int, int]

    def world(self, annotations: dict[str, str], *, more: Sequence[Any] = ()) -> World:
        """Return a world in which the gang has been tried."""
        nodes = [
            node(f"n{i}", cpu=8, labels={RACK: rack, BLOCK: block}) for i, (rack, block, _) in enumerate(self.nodes)
        ]
        taken = [pod(f"there-{i}", cpu=8 - free, node=f"n{i}") for i, (*_, free) in enumerate(self.nodes) if free < 8]
        members = [
            pod(
                f"m{i}",
                cpu=cpu,
                group="crew",
                labels={INDEX: str(i)},
                node=f"n{self.runs[i]}" if i in self.runs else "",
            )
            for i, cpu in enumerate(self.asks)
        ]
        random.Random(len(self.asks)).shuffle(members)
        crew = group("crew", min_count=len(self.asks), annotations=annotations)
        world = World(*nodes, *taken, crew, *members, *more)
        world.settle()
        return world

    def places(self) -> Iterator[list[int]]:
        """Yield every way to place all members, by rank the index of a node."""
        free = [left for *_, left in self.nodes]
        for rank, place in self.runs.items():
            free[place] -= self.asks[rank]

        def extend(chosen: list[int]) -> Iterator[list[int]]:
            rank = len(chosen)
            if rank == len(self.asks):
                yield chosen
            elif rank in self.runs:
                yield from extend([*chosen, self.runs[rank]])
            else:
                for place in range(len(free)):
                    if free[place] >= self.asks[rank]:
                        free[place] -= self.asks[rank]
                        yield from extend([*chosen, place])
                        free[place] += self.asks[rank]

        yield from extend([])

    def domains(self, places: Sequence[int], level: int) -> list[str]:
        """Return by rank the rack (0) or block (1) of the places."""
        return [str(self.nodes[place][level]) for place in places]


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Small clusters of racks in blocks, and gangs of members that are alike, or not; some run already."""
    return drawn(random.Random(draw(st.integers(0, 2**32 - 1))))


def drawn(chance: random.Random) -> Layout:
    """Return the layout that a random source comes to."""
    blocks = {f"r{i}": f"b{chance.randrange(2)}" for i in range(4)}
    names = [chance.choice([*blocks]) for _ in range(chance.randint(3, 6))]
    nodes = [(name, blocks[name], chance.randint(1, 6)) for name in names]
    size = chance.randint(2, 6)
    asks = [chance.randint(1, 3) for _ in range(size)] if chance.random() < 0.5 else [chance.randint(1, 2)] * size
    runs: dict[int, int] = {}
    if chance.random() < 0.3:
        rank, place = chance.randrange(size), chance.randrange(len(nodes))
        if asks[rank] <= nodes[place][2]:
            runs[rank] = place
    return Layout(nodes, asks, runs)


def _places(world: World, layout: Layout) -> list[int]:
    where = world.where
    return [int(where[f"m{i}"][1:]) for i in range(len(layout.asks)) if f"m{i}" in where]


def _breaks(names: Sequence[str]) -> int:
    return sum(one != other for one, other in pairwise(names))


@must_meet(several=8, running=5)
@some
@given(layouts())
def test_preferred_levels_take_the_fewest_domains_and_ranks_break_the_least(layout: Layout) -> None:
    """topology.md 1.2, 2.1, 3.2: racks first, then blocks, then neighbours in the chosen racks; no gang waits."""
    placed = _places(layout.world({PREFERRED_TOPOLOGY: "rack,block"}), layout)
    assert len(placed) == len(_places(layout.world({}), layout))
    every = list(layout.places())
    if len(placed) < len(layout.asks):
        return
    assert placed in every
    racks = layout.domains(placed, 0)

    def used(places: Sequence[int]) -> tuple[int, int]:
        return len(set(layout.domains(places, 0))), len(set(layout.domains(places, 1)))

    assert used(placed) == min(map(used, every))
    same = [found for places in every if set(found := layout.domains(places, 0)) == set(racks)]
    assert _breaks(racks) == min(map(_breaks, same))
    met("several", len(set(racks)) > 1)
    met("running", bool(layout.runs))


@must_meet(placed=10, waits=3)
@some
@given(layouts(), st.integers(2, 3))
def test_slices_stay_together_and_a_gang_waits_only_if_it_cannot_be_sliced(layout: Layout, size: int) -> None:
    """topology.md 4.1, 4.2, 4.4, 4.6: members that are alike are on as few racks as slices allow."""
    asks = layout.asks

    def parts(places: Sequence[int]) -> list[set[str]]:
        racks = layout.domains(places, 0)
        return [set(racks[first : first + size]) for first in range(0, len(racks), size)]

    world = layout.world({SLICE: f"rack={size}"})
    placed = _places(world, layout)
    every = [places for places in layout.places() if all(len(part) == 1 for part in parts(places))]
    if len(placed) == len(asks):
        assert placed in every
        if len(set(asks)) == 1:
            used = len(set(layout.domains(placed, 0)))
            assert used == min(len(set(layout.domains(places, 0))) for places in every)
        met("placed")
    else:
        assert not every
        met("waits")
