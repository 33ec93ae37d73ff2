"""The fewest domains that hold so many units, compared with every set of domains (topology.md 2.1, 2.2, 2.6)."""

from __future__ import annotations

import random
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprieve.scheduling.domain_choice import Cells, chosen_places
from tests.drawing import examples


def _cells(chance: random.Random) -> Cells:
    """Return racks in blocks in zones, in any order of levels; members may run in one of them.

    More than nine racks are alone, or in blocks where no members run: of those the fewest are found exactly.
    """
    count = chance.randint(1, 12)
    block = [chance.randrange(3) for _ in range(count)]
    zones = [chance.randrange(2) for _ in range(3)]
    number = chance.choice((1, 2, 3) if count < 10 else (1, 2))
    levels = [list(range(count)), block, [zones[label] for label in block]][:number]
    chance.shuffle(levels)
    runs = chance.randrange(count) if (count < 10 or number == 1) and chance.random() < 0.3 else None
    in_use = [frozenset([level[runs]] if runs is not None else ()) for level in levels]
    return Cells([chance.randint(0, 6) for _ in range(count)], levels, in_use)


@examples(300)
@given(st.integers(0, 2**32 - 1))
def test_no_set_of_domains_does_better(seed: int) -> None:
    """Nested levels, the first that counts before the others; where members run costs nothing."""
    chance = random.Random(seed)
    cells = _cells(chance)
    everything = range(len(cells.capacity))
    need = chance.randint(1, max(1, cells.units(everything)))
    places = chosen_places(cells, need)
    sets = (found for size in range(1, len(everything) + 1) for found in combinations(everything, size))
    scores = [cells.score(found) for found in sets if cells.units(found) >= need]
    assert (places is None) is (not scores)
    if places is not None:
        assert sum(units for _, units in places) == need
        assert all(0 < units <= cells.capacity[cell] for cell, units in places)
        assert cells.score([cell for cell, _ in places]) == min(scores)


@pytest.mark.parametrize(
    ("capacity", "need", "places"),
    [
        ([3, 5, 4, 9], 4, [(2, 4)]),
        ([3, 5, 4, 9], 12, [(3, 9), (0, 3)]),
        ([3, 5, 4, 9], 13, [(3, 9), (2, 4)]),
        ([4, 4, 4, 0], 4, [(0, 4)]),
        ([1, 1, 1, 0], 4, None),
        ([1, 1, 1, 0], 0, None),
        ([*[1] * 8, 4, 9, 5, 5], 4, [(8, 4)]),
        ([*[1] * 8, 4, 9, 5, 5], 13, [(9, 9), (8, 4)]),
        ([*[1] * 8, 4, 9, 5, 5], 14, [(9, 9), (10, 5)]),
    ],
)
def test_fullest_domains_that_fit_are_taken(
    capacity: list[int], need: int, places: list[tuple[int, int]] | None
) -> None:
    """topology.md 2.2: the last has the least room that suffices; ties go to the first by name."""
    assert chosen_places(Cells(capacity, [list(range(len(capacity)))]), need) == places


def test_wide_domain_that_just_suffices_by_itself_is_taken() -> None:
    """topology.md 2.1, 2.6: as few narrow domains as elsewhere, and one wide domain instead of two."""
    blocks = [0, 1, 2, 2, *[3] * 8]
    levels = (list(range(12)), blocks)
    running = [frozenset({11}), frozenset({3})]
    cells = Cells([5, 5, 4, 4, *[1] * 7, 0], levels, running)
    assert chosen_places(cells, 8) == [(2, 4), (3, 4)]


@pytest.mark.parametrize(
    ("capacity", "blocks", "need", "first", "score"),
    [
        ([1, 5, 6, 2, 4, 6, 4, 6, 5, 3], "0001112222", 21, "racks", (4, 2)),
        ([4, 3, 2, 3, 2, 1, 5, 2, 1, 5, 6], "00111222333", 14, "racks", (3, 2)),
        ([4, 5, 3, 1, 1, 3, 4, 3, 4, 4], "0001112222", 20, "blocks", (2, 5)),
        ([1, 4, 3, 6, 2, 1, 6, 3, 6, 4, 2], "00111122333", 21, "blocks", (2, 5)),
    ],
)
def test_level_that_counts_first_has_the_fewest_domains(
    capacity: list[int], blocks: str, need: int, first: str, score: tuple[int, int]
) -> None:
    """topology.md 2.1, 2.6: racks before blocks or blocks before racks; taking the roomiest first would be worse."""
    levels = [list(range(len(capacity))), [int(block) for block in blocks]]
    cells = Cells(capacity, levels if first == "racks" else levels[::-1])
    places = chosen_places(cells, need)
    assert places is not None
    assert cells.score([cell for cell, _ in places]) == score
