"""Assign the members of a group to nodes by preferred levels and ranks (topology.md 1-3).

The group's algorithm first places members without a preference, which gives the number of members to place. Then it
places as many in the fewest domains of the preferred levels, in the order of their ranks, with all its filters. This
result is used only if it is no worse.

Invariant: as many members are placed as without; the cluster is not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, islice, pairwise
from math import comb

import numpy as np
import numpy.typing as npt

from kube_rules.topology_terms import NO_TOPOLOGY_TERMS, TopologyTerms, pod_index, topology_terms
from reprieve.cluster.groups import Group, GroupState
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.topology import Ranks, domains, label_of, ranks_of, terms_of
from reprieve.framework.plugin import CycleState, Placement
from reprieve.scheduling.domain_choice import Cells, Places, chosen_places, in_order
from reprieve.scheduling.group_algorithm import GroupAssignment, GroupCycle, place_group
from reprieve.scheduling.placement_counts import by_amounts, filled_as_counted, free_amounts, holds_at_most
from reprieve.scheduling.rank_order import STEPS, Bin, FewestBreaks, Member
from reprieve.scheduling.slice_units import follows_terms

Rows = npt.NDArray[np.int64]
_MOST_SEARCHED = 64
"""Maximum number of members, and of nodes, for the search for the fewest breaks; above it, ranks fill domain by domain.
"""
_MOST_FILLED = 16_384
"""Maximum number of comparisons of a member with the nodes of a domain."""
_MOST_SETS = 24
"""Maximum number of sets of domains that are tried for members that differ."""
_MOST_PLACED, _LEAST_SETS = 2_048, 4
"""Maximum number of members placed for that in total, and the minimum number of sets."""
_MOST_DOMAINS_OF_TREE = 4
"""Maximum number of domains of a level that are tried for a whole tree."""
_MOST_PLACEMENTS = 64
"""Maximum number of placements of a required constraint that are compared."""

Placed = Sequence[tuple[PodRecord, int]]


def arranged(cycle: GroupCycle, assignment: GroupAssignment, within: Placement | None = None) -> GroupAssignment:
    """Return the assignment with its members in preferred domains; `within`: only on these nodes."""
    group = cycle.group
    if not assignment.placed or not isinstance(group, GroupState) or not follows_terms(cycle.running):
        return assignment
    terms = terms_of(cycle.running.cluster, group, cycle.pods)
    required = within if within is not None else assignment.placement
    if terms == NO_TOPOLOGY_TERMS:
        first = assignment.placed[0][0]
        if required is None or pod_index(first.labels, first.annotations) is None:
            return assignment
    arrangement = _Arrangement(cycle, group, assignment, terms, required)
    best = arrangement.in_rank_order(assignment.placed)
    if terms.preferred and terms.slices is None and not cycle.nominated and cycle.most is None:
        preferred = arrangement.preferred(() if within is not None else cycle.placements or ())
        if preferred is not None and arrangement.worth(preferred) <= arrangement.worth(best):
            return arrangement.with_places(preferred, arrangement.chosen)
    return arrangement.with_places(best, assignment.placement)


def has_terms(cycle: GroupCycle) -> bool:
    """Return whether a group of a tree is arranged: on request, or as it has a constraint and members with ranks."""
    if not follows_terms(cycle.running):
        return False
    first = {pod.group: pod for pod in reversed(cycle.pods)}
    constrained = False
    for item in cycle.group.below():
        if item.spec is not None:
            constrained = constrained or item.spec.topology_key is not None
            if item.spec.topology != NO_TOPOLOGY_TERMS:
                return True
    if any(topology_terms(pod.annotations) != NO_TOPOLOGY_TERMS for pod in first.values()):
        return True
    return constrained and any(pod_index(pod.labels, pod.annotations) is not None for pod in first.values())


@dataclass(frozen=True, slots=True)
class TreePreference:
    """Preferred levels of the root of a tree for all groups below it. `columns`: by level the domain of every row."""

    cycle: GroupCycle
    columns: list[Rows]

    @classmethod
    def of(cls, cycle: GroupCycle) -> TreePreference | None:
        """Return the preference of the root; None if it has none."""
        cluster, spec = cycle.running.cluster, cycle.group.spec
        preferred = spec.topology.preferred if spec is not None else ()
        labels = dict.fromkeys(label for level in preferred if (label := label_of(cluster, level)) is not None)
        return cls(cycle, [domains(cluster, label) for label in labels]) if labels else None

    def worth(self, placed: Placed) -> tuple[int, ...]:
        """Return how many domains the tree uses at each level; fewer are better."""
        rows = [row for _, row in placed] + [pod.row for pod in self.cycle.group.running() if not pod.terminating]
        return tuple(len({int(column[row]) for row in rows}) for column in self.columns)

    def single(self, count: int) -> Iterator[Placement]:
        """Yield a few domains of each level that may hold so many pods of the tree, the fullest first."""
        cluster = self.cycle.running.cluster
        alive = np.flatnonzero(cluster.nodes.alive[: len(cluster.nodes)])
        for column in self.columns:
            order = alive[np.argsort(column[alive], kind="stable")]
            parts = np.split(order, np.flatnonzero(np.diff(column[order])) + 1)
            placements = [Placement("", np.sort(part)) for part in parts]
            counts = holds_at_most(self.cycle.running, self.cycle.pods, placements).tolist()
            fitting = [turn for turn, room in enumerate(counts) if room >= count]
            free = {turn: self._free(placements[turn].rows) for turn in fitting}
            for turn in sorted(fitting, key=lambda turn: (free[turn], turn))[:_MOST_DOMAINS_OF_TREE]:
                yield placements[turn]

    def _free(self, rows: Rows) -> int:
        """Return the number of pods that fit, each kind counted separately."""
        return int(holds_at_most(self.cycle.running, self.cycle.pods, [Placement("", rows)], beyond=True)[0])


@dataclass(slots=True)
class _Levels:
    """`columns`: by level the domain of every row; the preferred levels, then that of the slices if it is another."""

    columns: list[Rows]

    def cells(self, rows: Rows) -> tuple[list[list[int]], list[list[int]]]:
        """Return the rows of each cell, and by level the domain of each cell; by the names of the domains."""
        if not self.columns:
            return [rows.tolist()], []
        stacked = np.stack([column[rows] for column in self.columns])
        _, cell_of_row = np.unique(stacked, axis=1, return_inverse=True)
        cell_of_row = cell_of_row.reshape(-1)
        order = np.argsort(cell_of_row, kind="stable")
        parts = np.split(rows[order], np.flatnonzero(np.diff(cell_of_row[order])) + 1)
        return [part.tolist() for part in parts], [[int(column[part[0]]) for part in parts] for column in self.columns]


@dataclass
class _Arrangement:
    """Arranges one group. `required`: the placement of the group's constraint, if it has one."""

    cycle: GroupCycle
    group: GroupState
    found: GroupAssignment
    terms: TopologyTerms
    required: Placement | None
    levels: _Levels = field(init=False)
    ranks: Ranks = field(init=False)
    steps: int = field(init=False)
    chosen: Placement | None = None
    """The placement of the constraint that contains the preferred places."""

    def __post_init__(self) -> None:
        """Read the levels and the ranks."""
        cluster = self.cycle.running.cluster
        self.steps = 2 * STEPS
        slices = self.terms.slices
        wanted = (*self.terms.preferred, *((slices.level,) if slices is not None else ()))
        labels = dict.fromkeys(label for level in wanted if (label := label_of(cluster, level)) is not None)
        self.levels = _Levels([domains(cluster, label) for label in labels])
        self.ranks = ranks_of(self.group)

    @cached_property
    def staying(self) -> list[PodRecord]:
        """Return the running members, by rank."""
        return self.ranks.ordered(sorted((p for p in self.group.running() if not p.terminating), key=_key))

    @cached_property
    def around(self) -> list[PodRecord]:
        """Return the running pods of the groups with the preference: their domains count as in use."""
        cluster = self.cycle.running.cluster
        item: Group = self.group
        spec = item.spec
        while spec is not None and spec.parent is not None:
            above = cluster.trees.composites.get(spec.parent)
            if above is None or above.spec is None:
                break
            spec = above.spec
            if spec.topology.preferred == self.terms.preferred:
                item = above
            elif spec.topology.preferred:
                break
        return [pod for pod in item.running() if not pod.terminating] if item is not self.group else self.staying

    @cached_property
    def alike(self) -> bool:
        """Whether all pods are identical and only amounts limit their nodes."""
        return filled_as_counted(self.cycle.running, self.cycle.pods)

    @cached_property
    def targets(self) -> list[PodRecord]:
        """Return the pods to place, by rank: as many as the group's algorithm places."""
        count = len(self.found.placed)
        if self.alike and self.terms.slices is None:
            return self.ranks.ordered(self.cycle.pods)[:count]
        return self.ranks.ordered([pod for pod, _ in self.found.placed])

    def with_places(self, placed: Placed, placement: Placement | None) -> GroupAssignment:
        """Return the assignment with these places, in that placement of the constraint."""
        uids = {pod.uid for pod, _ in placed}
        failed = self.found.failed
        if any(uid in uids for uid in failed):
            why = next(iter(failed.values()))
            failed = {pod.uid: why for pod in self.cycle.pods if pod.uid not in uids}
        return replace(self.found, placed=list(placed), failed=failed, placement=placement)

    # -- quality ------------------------------------------------------------------------------------------------

    def worth(self, placed: Placed) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the domains in use at each level, and the breaks between neighbouring ranks; less is better."""
        rows = [(pod, row) for pod, row in placed] + [(pod, pod.row) for pod in self.staying]
        ordered = sorted((self.ranks.of[pod.uid], row) for pod, row in rows if pod.uid in self.ranks.of)
        every = [row for _, row in rows] + [pod.row for pod in self.around]
        used = tuple(len({int(column[row]) for row in every}) for column in self.levels.columns)
        breaks = tuple(
            sum(column[row] != column[next_row] for (_, row), (_, next_row) in pairwise(ordered))
            for column in self.levels.columns
        )
        return used, breaks

    # -- ranks over places ---------------------------------------------------------------------------------------------

    def in_rank_order(self, placed: Placed) -> Placed:
        """Return the places, exchanged between identical members so that neighbours are together."""
        running = self.cycle.running
        nodes = running.cluster.nodes
        rows = np.unique(np.array([row for _, row in placed], dtype=np.int64))
        parts, labels = self.levels.cells(rows)
        cell_of = {row: cell for cell, part in enumerate(parts) for row in part}
        whole = self.alike and self.terms.slices is None
        if whole:
            counts = [0] * len(parts)
            for _, row in placed:
                counts[cell_of[row]] += 1
            cells = Cells(counts, labels, ())
            order = self.cells_of_ranks(cells, [(cell, count) for cell, count in enumerate(counts)], self.targets)
            wanted = dict(zip((pod.uid for pod in self.targets), order, strict=True))
        else:
            wanted = {pod.uid: cell_of[row] for pod, row in placed}
        heaps: dict[tuple[object, int], list[int]] = {}
        for pod, row in placed:
            kind = () if whole else running.evaluator.identity(pod) or pod.uid
            heaps.setdefault((kind, cell_of[row]), []).append(row)
        for heap in heaps.values():
            heap.sort(key=lambda row: -int(nodes.rank[row]))
        result = []
        for pod in self.targets:
            kind = () if whole else running.evaluator.identity(pod) or pod.uid
            result.append((pod, heaps[kind, wanted[pod.uid]].pop()))
        if not self.alike and [*placed] != result and not by_amounts(running, self.targets):
            return self._tried(result) or placed
        return result

    def _tried(self, placed: Placed) -> Placed | None:
        """Return the places if every pod passes all filters there, in that order."""
        zones = {pod.uid: np.array([row], dtype=np.int64) for pod, row in placed}
        return self._placed([pod for pod, _ in placed], zones)

    def _placed(
        self, pods: Sequence[PodRecord], zones: Mapping[str, Rows], within: Placement | None = None
    ) -> Placed | None:
        cycle = replace(self.cycle, pods=pods, zones=zones, placements=None)
        tried = place_group(cycle, diagnose=False, within=within)
        return tried.placed if len(tried.placed) == len(pods) else None

    def cells_of_ranks(self, cells: Cells, places: Places, pods: Sequence[PodRecord]) -> list[int]:
        """Return the cell of each pod, by rank; `places` has the maximum number of pods for each cell."""
        places = in_order(cells, places)
        searched = len(pods) + len(self.staying) <= _MOST_SEARCHED and len(places) <= _MOST_SEARCHED
        if self.staying and self.ranks.of and searched:
            return self._beside_running(cells, places, pods)
        return [cell for cell, units in places for _ in range(units)][: len(pods)]

    def _beside_running(self, cells: Cells, places: Places, pods: Sequence[PodRecord]) -> list[int]:
        """Return the cell of each pod if members already run: their neighbours get the same domain."""
        staying = self.staying
        apart = [tuple(labels[cell] for labels in cells.labels) for cell, _ in places]
        apart += [tuple(int(column[pod.row]) for column in self.levels.columns) for pod in staying]
        numbers: dict[tuple[int, ...], int] = {}
        domain = [numbers.setdefault(key, len(numbers)) for key in apart]
        bins = [Bin(domain[turn], (units,)) for turn, (_, units) in enumerate(places)]
        everywhere = frozenset(range(len(bins)))
        entries = [(self.ranks.of.get(pod.uid, 1 << 62), 0, turn) for turn, pod in enumerate(pods)]
        entries += [(self.ranks.of[p.uid], 1, turn) for turn, p in enumerate(staying) if p.uid in self.ranks.of]
        entries.sort()
        members = [
            Member(domain=domain[len(places) + turn]) if runs else Member((1,), everywhere) for _, runs, turn in entries
        ]
        chosen = FewestBreaks(members, bins, list(numbers), steps=STEPS).run()
        if chosen is None:
            return [cell for cell, units in places for _ in range(units)][: len(pods)]
        return [places[index][0] for index in chosen if index >= 0]

    # -- the preferred levels ------------------------------------------------------------------------------------------

    def preferred(self, placements: Sequence[Placement]) -> Placed | None:
        """Return places in as few domains as possible; None if none were found for as many members."""
        cluster = self.cycle.running.cluster
        alive = np.flatnonzero(cluster.nodes.alive[: len(cluster.nodes)])
        if not self.alike:
            return self._of_different(alive if self.required is None else self.required.rows)
        profile = self.cycle.running.profile
        if not placements or not all(weighted.plugin.by_count for weighted in profile.placement_scores):
            placements = [self.required or Placement("", alive)]
        options: list[tuple[tuple[object, ...], Placement, Cells, Places, list[list[int]]]] = []
        for placement in placements[:_MOST_PLACEMENTS]:
            parts, cells = self._cells(placement.rows)
            places = chosen_places(cells, len(self.targets))
            if places is not None:
                used = [cell for cell, _ in places]
                options.append(((cells.score(used), cells.units(used)), placement, cells, places, parts))
        if not options:
            return None
        _, placement, cells, places, parts = min(options, key=lambda option: option[0])
        chosen = _and_in_use(cells, [cell for cell, _ in places])
        limits = [(cell, cells.capacity[cell]) for cell in chosen] if self.staying else places
        order = self.cells_of_ranks(cells, limits, self.targets)
        rows = [np.array(sorted(part), dtype=np.int64) for part in parts]
        zones = {pod.uid: rows[cell] for pod, cell in zip(self.targets, order, strict=True)}
        placed = self._placed(self.targets, zones)
        self.chosen = placement if placement.name else None
        return self.in_rank_order(placed) if placed is not None else None

    def _cells(self, rows: Rows) -> tuple[list[list[int]], Cells]:
        parts, labels = self.levels.cells(rows)
        placements = [Placement("", np.array(part, dtype=np.int64)) for part in parts]
        pods = self.targets
        counts = holds_at_most(self.cycle.running, pods, placements, beyond=True).tolist()
        used = [frozenset(int(column[pod.row]) for pod in self.around) for column in self.levels.columns]
        return parts, Cells(counts, labels, used)

    # -- members that are not alike ------------------------------------------------------------------------------------

    def _of_different(self, rows: Rows) -> Placed | None:
        """Return places for members that differ, in the best set of domains that holds them."""
        parts, cells = self._cells(rows)
        numbers = by_amounts(self.cycle.running, self.targets)
        numbers = numbers and all(self.cycle.running.evaluator.identity(pod) is not None for pod in self.targets)
        self.chosen = self.found.placement
        most = max(_LEAST_SETS, min(_MOST_SETS, _MOST_PLACED // len(self.targets)))

        def rows_of(part: Sequence[int]) -> Rows:
            return np.array(sorted(row for cell in part for row in parts[cell]), dtype=np.int64)

        sets = _sets(cells, len(self.targets), lambda part: self._has_the_sum(rows_of(_and_in_use(cells, part))))
        for part in islice(sets, most):
            chosen = _and_in_use(cells, part)
            inside = rows_of(chosen)
            few = len(self.targets) <= _MOST_SEARCHED and len(inside) <= _MOST_SEARCHED and self.steps > 0
            if numbers and few:
                placed = self._searched(chosen, parts, cells)
            else:
                placed = self._filled(chosen, parts, cells) if numbers else None
                if placed is None and (assigned := self._placed(self.targets, {}, Placement("", inside))) is not None:
                    placed = self.in_rank_order(assigned)
            if placed is not None:
                return placed
        return None

    def _has_the_sum(self, rows: Rows) -> bool:
        """Return whether the rows together have the amounts that the pods request."""
        nodes = self.cycle.running.cluster.nodes
        requested: dict[int, int] = {}
        for pod in self.targets:
            for column, amount in pod.signature.requests:
                requested[column] = requested.get(column, 0) + amount
        free = ((column, nodes.allocatable[column, rows] - nodes.used[column, rows]) for column in requested)
        return all(requested[column] <= int(np.maximum(left, 0).sum()) for column, left in free)

    def _filled(self, chosen: Sequence[int], parts: list[list[int]], cells: Cells) -> Placed | None:
        """Return places that fill one cell after the other in the order of the ranks, by amounts.

        In a cell a member gets the node where it leaves least; one that fits in no later cell gets any.
        """
        running, nodes = self.cycle.running, self.cycle.running.cluster.nodes
        order = [cell for cell, _ in in_order(cells, [(cell, cells.capacity[cell]) for cell in chosen])]
        columns = sorted({column for pod in self.targets for column, _ in pod.signature.requests})
        free = free_amounts(running, self.targets)[columns]
        usable: dict[object, npt.NDArray[np.bool_]] = {}
        rows = [np.array(parts[cell], dtype=np.int64) for cell in order]
        turn, work, result = 0, _MOST_FILLED, []
        for pod in self.targets:
            identity = running.evaluator.identity(pod)
            if identity not in usable:
                usable[identity] = running.evaluator.usable_nodes(CycleState(running.cluster, pod))
            requests = dict(pod.signature.requests)
            asks = np.array([requests.get(column, 0) for column in columns], dtype=np.int64)
            for place in (*range(turn, len(order)), *range(turn)):
                work -= 1
                if work < 0:
                    return None
                cell_rows = rows[place]
                left = free[:, cell_rows] - asks[:, None]
                fits = (left >= 0).all(axis=0) & usable[identity][cell_rows]
                if fits.any():
                    share = left / np.maximum(nodes.allocatable[columns][:, cell_rows], 1)
                    best = int(cell_rows[np.where(fits, share.sum(axis=0), np.inf).argmin()])
                    free[:, best] -= asks
                    result.append((pod, best))
                    turn = max(turn, place)
                    break
            else:
                return None
        return self._tried(result)

    def _searched(self, chosen: Sequence[int], parts: list[list[int]], cells: Cells) -> Placed | None:
        """Return the places on the nodes of some cells with the fewest breaks."""
        running = self.cycle.running
        nodes = running.cluster.nodes
        rows = [(row, turn) for turn, cell in enumerate(chosen) for row in sorted(parts[cell])]
        rows.sort(key=lambda item: (item[1], int(nodes.rank[item[0]])))
        apart = [tuple(labels[cell] for labels in cells.labels) for cell in chosen]
        apart += [tuple(int(column[pod.row]) for column in self.levels.columns) for pod in self.staying]
        columns = sorted({column for pod in self.targets for column, _ in pod.signature.requests})
        free = free_amounts(running, self.targets)
        bins = [Bin(turn, tuple(int(free[column, row]) for column in columns)) for row, turn in rows]
        entries: list[tuple[int, int, Member]] = []
        for turn, pod in enumerate(self.targets):
            requests = dict(pod.signature.requests)
            usable = running.evaluator.usable_nodes(CycleState(running.cluster, pod))
            allowed = frozenset(index for index, (row, _) in enumerate(rows) if usable[row])
            member = Member(tuple(requests.get(column, 0) for column in columns), allowed)
            entries.append((self.ranks.of.get(pod.uid, 1 << 62), turn, member))
        for turn, pod in enumerate(self.staying):
            if pod.uid in self.ranks.of:
                entries.append((self.ranks.of[pod.uid], -1, Member(domain=len(chosen) + turn)))
        entries.sort(key=lambda item: item[:2])
        # Sets of fewer domains were tried before, so that all domains of this one are used.
        least = tuple(len({labels[cell] for cell in chosen}) - 1 for labels in cells.labels)
        members = [member for *_, member in entries]
        steps = min(STEPS, self.steps)
        search = FewestBreaks(members, bins, apart, steps=steps, least=() if self.staying else least)
        order = search.run()
        self.steps -= steps - search.steps
        if order is None:
            return None
        places = [rows[index][0] for index in order if index >= 0]
        return self._tried(list(zip(self.targets, places, strict=True)))


def _sets(cells: Cells, need: int, enough: Callable[[Sequence[int]], bool]) -> Iterator[list[int]]:
    """Yield sets of cells that may hold so many, those that are `enough`, the fewest domains of the first level first.

    With many domains only the largest set of each number of domains is tried, and fewer and fewer numbers.
    """
    everything = [cell for cell, capacity in enumerate(cells.capacity) if capacity > 0]
    if not cells.labels:
        yield everything
        return
    first = sorted(cell for cell, _ in chosen_places(cells, need) or ())
    domains = cells.grouped(everything, 0)
    if enough(first):
        yield first
    count, step = max(1, len({cells.labels[0][cell] for cell in first})), 1
    while count <= len(domains):
        ordered = sorted(domains, key=lambda label: (label not in cells.used(0), -cells.units(domains[label]), label))
        few = comb(len(ordered), count) <= 4 * _MOST_SETS
        groups = combinations(ordered, count) if few else iter([tuple(ordered[:count])])
        choices = [[cell for label in labels for cell in domains[label]] for labels in groups]
        choices = [part for part in choices if enough(part)]
        ordered_choices = sorted(choices, key=lambda part: (cells.score(part), cells.units(part)))
        yield from (part for part in ordered_choices if sorted(part) != first)
        if not few and choices:
            step = 2 * step if step > 1 else 1 + count // 8
        count += step


def _and_in_use(cells: Cells, chosen: Sequence[int]) -> list[int]:
    """Return cells, and the others with capacity in domains where members run already."""
    levels = range(len(cells.labels))
    used = (
        cell
        for cell, capacity in enumerate(cells.capacity)
        if capacity > 0 and all(cells.labels[level][cell] in cells.used(level) for level in levels)
    )
    return [*chosen, *(cell for cell in used if cell not in chosen)]


def _key(pod: PodRecord) -> str:
    return pod.key
