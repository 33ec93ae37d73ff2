"""The choice of a group's domains: as few as possible at each level, then the fullest that fit (topology.md 1).

A *cell* is the set of nodes that are in the same domain at every level; for nested levels it is a domain of the
narrowest. `Cells` has the number of units (pods, or slices of them) that each cell can take, and its domain at each
level, the decisive level first. Domains are chosen greedily, the largest first and the last as small as possible, in
the whole cluster and in each wider domain that is large enough alone; the best of these choices is used.  The fewest
domains are found exactly for few cells, and for two nested levels as long as few domains are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, combinations, pairwise

_MOST_WIDER = 64
"""Maximum number of wider domains that are tried alone, the closest fit first."""
_FEW_CELLS = 9
"""Up to this number of cells with capacity, all sets are compared."""
_MOST_EXACT = 24
"""Up to this number of domains, the count is exact."""

Places = list[tuple[int, int]]
"""(cell, units there), in the order in which ranks fill them."""


@dataclass(frozen=True, slots=True)
class Cells:
    """See the module docstring. `labels`: by level the domain of each cell; `in_use`: those where members run."""

    capacity: Sequence[int]
    labels: Sequence[Sequence[int]]
    in_use: Sequence[frozenset[int]] = field(default=())

    def score(self, cells: Sequence[int]) -> tuple[int, ...]:
        """Return the number of further domains used at each level; fewer are better."""
        return tuple(
            len({labels[cell] for cell in cells} - self.used(level)) for level, labels in enumerate(self.labels)
        )

    def used(self, level: int) -> frozenset[int]:
        """Return the domains of a level with running members."""
        return self.in_use[level] if self.in_use else frozenset()

    def units(self, cells: Sequence[int]) -> int:
        """Return the number of units that the cells take together."""
        return sum(self.capacity[cell] for cell in cells)

    def grouped(self, cells: Sequence[int], level: int) -> dict[int, list[int]]:
        """Return cells by their domain of a level."""
        result: dict[int, list[int]] = {}
        for cell in cells:
            result.setdefault(self.labels[level][cell], []).append(cell)
        return result


def chosen_places(cells: Cells, need: int) -> Places | None:
    """Return the cells of `need` units; None if fewer fit."""
    everything = [cell for cell, capacity in enumerate(cells.capacity) if capacity > 0]
    if need <= 0 or cells.units(everything) < need:
        return None
    choices = [_greedy(cells, part, need) for part in _parts(cells, everything, need)]
    exact = (_of_few if len(everything) <= _FEW_CELLS else _exact)(cells, everything, need)
    if exact:
        choices.append(_greedy(cells, exact, need))

    def worth(places: Places) -> tuple[tuple[int, ...], int]:
        used = [cell for cell, _ in places]
        return cells.score(used), cells.units(used)

    return in_order(cells, min(choices, key=worth))


def in_order(cells: Cells, places: Places) -> Places:
    """Return places so that cells of one domain follow one another, at every level if the levels contain one another.

    Wider levels come first; where levels overlap, the first level does.
    """
    levels = wider_first([[labels[cell] for cell, _ in places] for labels in cells.labels])
    amounts = [
        {label: sum(units for cell, units in places if cells.labels[level][cell] == label) for label in domains}
        for level, domains in ((level, {cells.labels[level][cell] for cell, _ in places}) for level in levels)
    ]

    def turn(place: tuple[int, int]) -> tuple[tuple[int, int], ...]:
        labels = [cells.labels[level][place[0]] for level in levels]
        return (*((-amounts[index][label], label) for index, label in enumerate(labels)), (0, place[0]))

    return sorted(places, key=turn)


def wider_first(columns: Sequence[Sequence[int]]) -> list[int]:
    """Return the levels, the widest first, or in the order of their weight if they are not nested."""
    levels = sorted(range(len(columns)), key=lambda level: len(set(columns[level])))
    contained = all(_contains(columns[wide], columns[narrow]) for wide, narrow in pairwise(levels))
    return levels if contained else list(range(len(columns)))


def _contains(wide: Sequence[int], narrow: Sequence[int]) -> bool:
    """Return whether each domain of one level is in one domain of the other."""
    return len(set(zip(wide, narrow, strict=True))) == len(set(narrow))


def _parts(cells: Cells, everything: list[int], need: int) -> Iterator[list[int]]:
    """Yield all cells, then those of each domain that takes all units alone, the fullest of a level first."""
    yield everything
    for level in range(len(cells.labels)):
        fitting = [part for part in cells.grouped(everything, level).values() if cells.units(part) >= need]
        yield from sorted(fitting, key=cells.units)[:_MOST_WIDER]


def _greedy(cells: Cells, part: list[int], need: int) -> Places:
    """Return places in the cells of a part, which has enough capacity."""
    for level in range(len(cells.labels)):
        domains = cells.grouped(part, level)
        used = cells.used(level)
        totals = {label: cells.units(part_of_domain) for label, part_of_domain in domains.items()}
        chosen = _fewest(totals, need, lambda label, used=used: label in used)  # type: ignore[misc]
        part = [cell for label in chosen for cell in domains[label]]
    places: Places = []
    left = need
    for cell in _fewest({cell: cells.capacity[cell] for cell in part}, need, lambda _: False):
        places.append((cell, min(left, cells.capacity[cell])))
        left -= places[-1][1]
    return places


def _fewest(totals: dict[int, int], need: int, free: Callable[[int], bool]) -> list[int]:
    """Return the fewest keys with this total: first the free ones, the last as small as possible."""
    result: list[int] = []
    left = need
    ordered = sorted(totals, key=lambda key: (not free(key), -totals[key], key))
    for turn, key in enumerate(ordered):
        if left <= 0:
            break
        if totals[key] >= left:
            alike = [k for k in ordered[turn:] if free(k) == free(key) and totals[k] >= left]
            key = min(alike, key=lambda k: (totals[k], k))
        result.append(key)
        left -= totals[key]
    return result


def _of_few(cells: Cells, everything: list[int], need: int) -> list[int]:
    """Return the best of all sets of cells, for few cells."""
    sets = (list(part) for size in range(1, len(everything) + 1) for part in combinations(everything, size))
    enough = (part for part in sets if cells.units(part) >= need)
    return min(enough, key=lambda part: (cells.score(part), cells.units(part)))


# -- two levels, exactly ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Best:
    """The most units in given numbers of wide and narrow domains, with these: (wide domain, its narrow ones)."""

    units: int
    taken: tuple[tuple[int, int], ...]


def _exact(cells: Cells, everything: list[int], need: int) -> list[int]:
    """Return the cells of the fewest domains at the first two levels; none if they are too many to count."""
    if len(cells.labels) < 2 or any(map(cells.used, range(2))):
        return []
    columns = [[cells.labels[level][cell] for cell in everything] for level in range(2)]
    wide, narrow = wider_first(columns)
    if not _contains(columns[wide], columns[narrow]):
        return []
    parts = cells.grouped(everything, wide)
    ranked = {label: _roomiest(cells, part, narrow) for label, part in parts.items()}
    bound = len({cells.labels[narrow][cell] for cell, _ in _greedy(cells, everything, need)})
    if bound > _MOST_EXACT or len(parts) > _MOST_WIDER:
        return []
    counts = _counted(ranked, bound)
    enough = (key for key, best in counts.items() if best.units >= need)
    best = min(enough, key=lambda key: (key if wide == 0 else key[::-1], counts[key].units))
    chosen = {label for label, _ in counts[best].taken}
    narrow_ones = {domain for label, count in counts[best].taken for domain, _ in ranked[label][:count]}
    part = [cell for label in chosen for cell in parts[label]]
    inside = [cell for cell in part if cells.labels[narrow][cell] in narrow_ones]
    # All narrow domains of the wide ones may be used, so that the last is the smallest that suffices.
    return min((part, inside), key=lambda part: cells.score([cell for cell, _ in _greedy(cells, part, need)]))


def _roomiest(cells: Cells, part: list[int], level: int) -> list[tuple[int, int]]:
    """Return (domain, units) of a level among the cells of a part, the largest first."""
    totals = {label: cells.units(part_of_label) for label, part_of_label in cells.grouped(part, level).items()}
    return sorted(totals.items(), key=lambda item: -item[1])


def _counted(ranked: dict[int, list[tuple[int, int]]], bound: int) -> dict[tuple[int, int], _Best]:
    """Return the most units by number of wide and of narrow domains, at most `bound` of either."""
    counts: dict[tuple[int, int], _Best] = {(0, 0): _Best(0, ())}
    for label, domains in ranked.items():
        sums = list(accumulate((units for _, units in domains[:bound]), initial=0))
        for (wide, narrow), best in list(counts.items()):
            if wide == bound:
                continue
            for count in range(1, min(len(sums), bound - narrow + 1)):
                key, units = (wide + 1, narrow + count), best.units + sums[count]
                if key not in counts or counts[key].units < units:
                    counts[key] = _Best(units, (*best.taken, (label, count)))
    return counts
