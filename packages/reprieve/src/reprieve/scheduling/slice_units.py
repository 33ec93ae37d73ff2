"""Slices of a gang: a number of consecutive ranks always run in one domain (topology.md 4).

A *unit* is the pending members of one slice; all of them are placed in one domain, or none. For identical members the
domains of all units are planned by counting, as few as possible; otherwise each unit is placed in the domain of the one
before as long as it fits, then in the first domain that holds it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from kube_rules.topology_terms import INDEXES, SLICE, RankSlices, TopologyTerms
from reprieve.cluster.groups import Group, GroupState
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.cluster.topology import Ranks, domains, label_of, place_of, ranks_of, terms_of
from reprieve.framework.plugin import CycleState, Placement
from reprieve.framework.running_profile import RunningProfile
from reprieve.scheduling.domain_choice import Cells, chosen_places
from reprieve.scheduling.placement_counts import by_amounts, filled_as_counted, free_amounts, holds_at_most
from reprieve.scheduling.rank_order import STEPS, Bin, FewestBreaks, Member

Rows = npt.NDArray[np.int64]
NO_ZONE = -1
_MOST_SEARCHED = 64
"""Maximum number of members, and of nodes, for the search for an order that fits."""
_MOST_TRIED = 32
"""Maximum number of domains that are tried for a slice with fewer members."""


@dataclass(frozen=True, slots=True)
class SliceUnit:
    """Members of the slice `number`, by rank, and the domains to try, in order."""

    number: int
    pods: Sequence[PodRecord]
    zones: Sequence[Placement]
    beside: bool
    """Whether the domain of the previous unit is tried first."""


@dataclass(frozen=True, slots=True)
class Slicing:
    """The units of a group in the order of their ranks. `error`: why it cannot be sliced."""

    slices: RankSlices
    label: str = ""
    units: Sequence[SliceUnit] = field(default=())
    error: str = ""
    fixed: Mapping[int, str] = field(default_factory=dict)
    """The domain of each slice with running members."""

    def ranks(self, number: int) -> str:
        """Return the name of a slice in messages."""
        first = number * self.slices.size
        return f"slice {self.slices}: ranks {first}-{first + self.slices.size - 1}"

    def why(self, unit: SliceUnit) -> str:
        """Return the message if a unit fits in no domain."""
        return f"{self.ranks(unit.number)} fit together in no domain of {self.label}"


def follows_terms(running: RunningProfile) -> bool:
    """Return whether preferences of groups beside their constraint count in a profile (topology.md 5)."""
    if not running.gates.topology_aware_workload_scheduling:
        return False
    return any(plugin.follows_terms for plugin in running.profile.placement_generators)


def has_slices(running: RunningProfile, group: Group, pods: Sequence[PodRecord]) -> bool:
    """Return whether a group, or one below it, is placed in slices."""
    if not follows_terms(running):
        return False
    if terms_of(running.cluster, group, pods).slices is not None:
        return True
    below = any(item.spec is not None and item.spec.topology.slices is not None for item in group.below())
    return below or any(SLICE in pod.annotations for pod in pods)


def sliced(
    running: RunningProfile,
    group: GroupState,
    pods: Sequence[PodRecord],
    nominated: Mapping[str, int],
    within: Rows | None,
) -> Slicing | None:
    """Return the slices of a group; None if it has none. `within`: the only rows to use."""
    cluster = running.cluster
    terms = terms_of(cluster, group, pods)
    slices = terms.slices
    if slices is None or not pods or not follows_terms(running):
        return None
    label = label_of(cluster, slices.level)
    if label is None:
        return Slicing(slices, error=f"slice {slices}: no node has the label of the level {slices.level}")
    ranks = ranks_of(group)
    without = next((pod for pod in pods if pod.uid not in ranks.of), None)
    if without is not None:
        index_names = ", ".join(dict.fromkeys(inner for _, inner in INDEXES))
        return Slicing(slices, error=f"slice {slices}: pod {without.key} has no index ({index_names})")
    rows = np.flatnonzero(cluster.nodes.alive[: len(cluster.nodes)]) if within is None else within
    column, _ = cluster.nodes.label_column(label)
    rows = rows[column[rows] >= 0]
    by_slice: dict[int, list[PodRecord]] = {}
    for pod in ranks.ordered(pods):
        by_slice.setdefault(ranks.of[pod.uid] // slices.size, []).append(pod)
    slicing = Slicing(slices, label)
    fixed = _running(cluster, group, ranks, slicing, by_slice)
    if isinstance(fixed, str):
        return replace(slicing, error=fixed)
    units = _Plan(running, terms, slicing, rows, by_slice, fixed, nominated).units()
    return replace(slicing, units=units, fixed=fixed)


def searched(running: RunningProfile, slicing: Slicing) -> dict[str, Rows] | None:
    """Return a row for each pod, by UID, with which all slices fit; None if none was found.

    For few members that differ and that only amounts limit, if placing slice by slice failed (topology.md 4.6).
    """
    pods = [pod for unit in slicing.units for pod in unit.pods]
    zones = {zone.name: zone.rows for unit in slicing.units for zone in unit.zones}
    names = sorted(zones)
    bins = [(int(row), turn) for turn, name in enumerate(names) for row in zones[name]]
    if not all(unit.beside for unit in slicing.units) or max(len(pods), len(bins)) > _MOST_SEARCHED:
        return None
    if not pods or not by_amounts(running, pods) or any(running.evaluator.identity(pod) is None for pod in pods):
        return None
    columns = sorted({column for pod in pods for column, _ in pod.signature.requests})
    free = free_amounts(running, pods)
    members: list[Member] = []
    for unit in slicing.units:
        fixed = slicing.fixed.get(unit.number)
        if fixed is not None:
            members.append(Member(domain=names.index(fixed) if fixed in zones else len(names)))
        for turn, pod in enumerate(unit.pods):
            requests, usable = (
                dict(pod.signature.requests),
                running.evaluator.usable_nodes(CycleState(running.cluster, pod)),
            )
            allowed = frozenset(index for index, (row, _) in enumerate(bins) if usable[row])
            asks = tuple(requests.get(column, 0) for column in columns)
            members.append(Member(asks, allowed, beside=turn > 0 or fixed is not None))
    nodes = [Bin(turn, tuple(int(free[column, row]) for column in columns)) for row, turn in bins]
    apart = [(turn,) for turn in range(len(names) + 1)]
    order = FewestBreaks(members, nodes, apart, steps=STEPS).run()
    if order is None:
        return None
    chosen = [bins[index][0] for index in order if index >= 0]
    return {pod.uid: np.array([row], dtype=np.int64) for pod, row in zip(pods, chosen, strict=True)}


def _running(
    cluster: ClusterState, group: GroupState, ranks: Ranks, slicing: Slicing, wanted: Collection[int]
) -> dict[int, str] | str:
    """Return the domain of each slice with running members, or a message if a pending one has no valid domain."""
    result: dict[int, str] = {}
    for pod in sorted(group.running(), key=lambda pod: pod.key):
        rank = ranks.of.get(pod.uid)
        if rank is None:
            continue
        number = rank // slicing.slices.size
        domain = place_of(cluster, slicing.label, pod.row)
        if domain is None and number not in wanted:
            continue
        if domain is None:
            return f"slice {slicing.slices}: pod {pod.key} runs on a node without the label {slicing.label}"
        if result.setdefault(number, domain) != domain and number in wanted:
            where = ", ".join(sorted((result[number], domain)))
            return f"{slicing.ranks(number)} run in several domains of {slicing.label}: {where}"
    return result


@dataclass(slots=True)
class _Plan:
    """The possible domains of the units of a group. `rows`: usable rows, all of them in a domain of the label."""

    running: RunningProfile
    terms: TopologyTerms
    slicing: Slicing
    rows: Rows
    pods: Mapping[int, Sequence[PodRecord]]
    """Units to place, by the number of the slice."""
    fixed: Mapping[int, str]
    """The domain of a slice with running members."""
    nominated: Mapping[str, int]
    zones: list[Placement] = field(init=False)

    def __post_init__(self) -> None:
        """Find the domains, by name."""
        cluster = self.running.cluster
        numbers = domains(cluster, self.slicing.label)[self.rows]
        order = np.argsort(numbers, kind="stable")
        parts = np.split(self.rows[order], np.flatnonzero(np.diff(numbers[order])) + 1) if len(self.rows) else []
        labels = cluster.nodes.labels
        self.zones = [Placement(labels[part[0]][self.slicing.label], np.sort(part)) for part in parts]

    def units(self) -> list[SliceUnit]:
        """Return the units by rank."""
        everything = [pod for pods in self.pods.values() for pod in pods]
        alike = filled_as_counted(self.running, everything)
        counts = holds_at_most(self.running, everything, self.zones, beyond=True).tolist() if alike else []
        planned = self._planned(counts) if alike else {}
        rooms: dict[tuple[object, ...], list[int]] = {}
        result = []
        for number, pods in sorted(self.pods.items()):
            room = counts
            if not alike:
                shape = tuple(sorted(str(self.running.evaluator.identity(pod) or pod.uid) for pod in pods))
                if shape not in rooms:
                    rooms[shape] = holds_at_most(self.running, pods, self.zones).tolist()
                room = rooms[shape]
            result.append(SliceUnit(number, pods, self._tried(number, pods, room, planned.get(number)), not alike))
        return result

    def _tried(
        self, number: int, pods: Sequence[PodRecord], room: Sequence[int], planned: int | None
    ) -> list[Placement]:
        """Return the domains to try for a unit: by most of its nominations, the planned one, then the fullest."""
        fitting = [zone for zone in range(len(self.zones)) if room[zone] >= len(pods)]
        if number in self.fixed:
            return [self.zones[zone] for zone in fitting if self.zones[zone].name == self.fixed[number]]
        rows = [self.nominated[pod.uid] for pod in pods if pod.uid in self.nominated]
        nominated_in = [int(np.isin(rows, zone.rows).sum()) for zone in self.zones]
        fitting.sort(key=lambda zone: (-nominated_in[zone], zone != planned, room[zone], zone))
        return [self.zones[zone] for zone in fitting]

    def _planned(self, counts: Sequence[int]) -> dict[int, int]:
        """Return the domain of each unit of a gang with identical members, as far as they fit.

        The last slice may have fewer members: each domain with capacity for it is tried, those first where it replaces
        no full slice.
        """
        size, left = self.slicing.slices.size, list(counts)
        names = {zone.name: index for index, zone in enumerate(self.zones)}
        running = {names[name] for name in self.fixed.values() if name in names}
        for number, name in self.fixed.items():
            if name in names:
                left[names[name]] -= len(self.pods.get(number, ()))
        free = [number for number in sorted(self.pods) if number not in self.fixed]
        full = [number for number in free if len(self.pods[number]) == size]
        parts = [number for number in free if len(self.pods[number]) < size]
        result: dict[int, int] = {}
        for number in parts[:-1]:
            fitting = self._fitting(left, len(self.pods[number]), running)
            if fitting:
                result[number] = fitting[0]
                left[fitting[0]] -= len(self.pods[number])
                running.add(fitting[0])
        if not parts:
            return self._spread(full, left, running, NO_ZONE)[1]
        partial = len(self.pods[parts[-1]])
        plans = [
            (*self._spread(full, [room - partial * (zone == at) for at, room in enumerate(left)], running, zone), zone)
            for zone in self._fitting(left, partial, running)[:_MOST_TRIED]
        ]
        if not plans:
            return result | self._spread(full, left, running, NO_ZONE)[1]
        _, planned, zone = min(plans, key=lambda plan: plan[0])
        return result | planned | {parts[-1]: zone}

    def _fitting(self, left: Sequence[int], needed: int, running: Collection[int]) -> list[int]:
        """Return the domains with capacity for a part of a slice, the best first."""
        size = self.slicing.slices.size

        def worth(zone: int) -> tuple[object, ...]:
            return left[zone] // size - (left[zone] - needed) // size, zone not in running, left[zone], zone

        return sorted((zone for zone, room in enumerate(left) if room >= needed), key=worth)

    def _spread(
        self, full: Sequence[int], left: Sequence[int], running: Collection[int], last: int
    ) -> tuple[tuple[object, ...], dict[int, int]]:
        """Plan whole slices over as few domains as possible, and return the cost; less is better.

        Members run in some domains; `last` has the domain of the partial last slice.
        """
        size = self.slicing.slices.size
        capacity = [max(0, room) // size for room in left]
        labels, used = self._labels(), {*running, *((last,) if last != NO_ZONE else ())}
        before = Cells(capacity, labels, [frozenset(level[zone] for zone in running) for level in labels])
        cells = replace(before, in_use=[frozenset(level[zone] for zone in used) for level in labels])
        count = min(len(full), sum(capacity))
        places = sorted(chosen_places(cells, count) or [], key=lambda place: place[0] == last)
        zones = [zone for zone, units in places for _ in range(units)]
        zones_used = [*dict.fromkeys(zones), *((last,) if last != NO_ZONE and last not in zones else ())]
        worth = len(full) - count, before.score(zones_used), sum(max(0, left[zone]) for zone in zones_used)
        return worth, dict(zip(full, zones, strict=False))

    def _labels(self) -> list[list[int]]:
        """Return the domain of each zone by level: the levels wider than slices, and the level of the slices."""
        cluster = self.running.cluster
        result: list[list[int]] = []
        own = list(range(len(self.zones)))
        for level in self.terms.preferred:
            label = label_of(cluster, level)
            if label == self.slicing.label:
                result.append(own)
            elif label is not None:
                numbers = domains(cluster, label)
                if all(len(np.unique(numbers[zone.rows])) == 1 for zone in self.zones):
                    result.append([int(numbers[zone.rows[0]]) for zone in self.zones])
        return result if own in result else [*result, own]
