"""Lower bounds of the cost of freeing capacity in a domain, before a placement (preemption.md 4.6).

Under a topology constraint a group that preempts is placed in each domain in turn; the cheapest eviction wins.  Most
domains cannot win: their nodes imply a minimum number of victims, and a minimum priority of one of them.  Domains are
searched in the order of these bounds until no other can be cheaper than the second best found.

The bound counts the places for the group's members that each node gains for every number of victims, by requests alone,
the cheapest pods first.  Other rules, units that are evicted as a whole, and budgets only increase the cost. Invariant:
the bound of a domain is never above the price of a candidate in it. Property tests compare the choice with a search of
all domains.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from reprieve.cluster.groups import Group, GroupState
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.framework.plugin import Placement, PlacementFeasiblePlugin, PodGroupAttempt
from reprieve.framework.running_profile import RunningProfile
from reprieve.framework.status import call_plugin
from reprieve.preemption.criteria import PRIORITY_OFFSET, Pods
from reprieve.preemption.free_resources import RESOURCES_PLUGIN
from reprieve.preemption.gangs import broken
from reprieve.preemption.order import Ranking
from reprieve.preemption.outcome import Cost
from reprieve.preemption.tie_breaking import free_for, usable_by_like_pods
from reprieve.preemption.units import PreemptionUnit

Counts = npt.NDArray[np.int64]
Price = tuple[bool, Cost]

FREE: Price = (False, ())
"""The bound of a domain where possibly no pods are evicted: nothing is cheaper."""
_IMPOSSIBLE = 1 << 60
_NOT_STARTED = float("inf")


@dataclass(frozen=True, slots=True)
class DomainBounds:
    """`cheapest_first`: the lower bound of a domain, and its index in `domains`, cheapest first.

    `alike`: the placed and the evicted pods are identical single pods, and only resources matter, so that the number of
    victims determines a candidate except for names.
    """

    attempt: PodGroupAttempt
    cluster: ClusterState
    domains: Sequence[Placement]
    cheapest_first: Sequence[tuple[Price, int]]
    placed: Sequence[int]
    """By domain: number of members placed there, if `alike`."""
    alike: bool
    pods: int
    """The part of a cost that is the number of pods."""
    _victims_on: dict[int, list[PodRecord]] = field(default_factory=dict)

    def score(self, index: int, price: Price) -> int | None:
        """Return the group's score for a candidate of that price in a domain; None if it is not known in advance."""
        if not self.alike:
            return None
        domain, evictions = self.domains[index], int(price[1][self.pods]) if price[0] else 0
        victims = [(pod, row) for row in domain.rows.tolist() for pod in self._victims_on.get(row, ())]
        if evictions > len(victims):
            return None
        stay = victims[evictions:]
        assigned = [(pod, -1) for pod in self.attempt.pods[: self.placed[index]]]
        with self.cluster.trial():
            self.cluster.place_all([pod for pod, _ in stay], [row for _, row in stay])
            return self.attempt.placement_scores([(domain, assigned, ())])[0]


@dataclass(frozen=True, slots=True)
class _Victims:
    """Potential victims that run in the domains, by row and priority. `rows` index the domains' rows, not the nodes."""

    rows: Counts
    priorities: Counts
    amounts: Counts
    """`int64[columns, victims]`."""
    starts: npt.NDArray[np.float64]
    """Start of the unit, in seconds; infinite without one."""
    breaks: Counts | None
    """Number of gangs that break with the unit alone; None: they do not count."""
    restarting: npt.NDArray[np.bool_]
    """Whether the pod can restart elsewhere at once."""


@dataclass(frozen=True, slots=True)
class _DomainFreeResources:
    """The capacity of the domains' rows for the group without all victims, one domain after another."""

    requested: Counts
    """`int64[columns, 1]`: the minimum request of every member."""
    left: Counts
    """`int64[columns, rows]`."""
    holds: Counts
    """`int64[rows]`: members that fit on a row by `left` alone."""
    starts: Counts
    """`int64[domains]`: the first row of each domain."""
    domain_of: Counts
    """`int64[rows]`."""
    placed: Counts
    """`int64[domains]`: minimum number of members to place."""


def bounds_of(
    running: RunningProfile,
    attempt: PodGroupAttempt,
    ranking: Ranking,
    priority: int,
    domains: Sequence[Placement],
) -> DomainBounds | None:
    """Return the bounds of the domains by a native list of criteria; None if no bound is possible.

    Called in a view where all units of the ranking are displaced.
    """
    units = ranking.ordered
    cluster, profile = running.cluster, running.profile
    fit = next((plugin for plugin in profile.node_filters if plugin.name == RESOURCES_PLUGIN), None)
    if fit is None or not fit.checks_everything:
        return None
    pods = attempt.pods
    wanted = _least_asked(pods)
    rows = np.concatenate([domain.rows for domain in domains])
    sizes = [len(domain.rows) for domain in domains]
    fewest = next(
        (
            count
            for count in range(attempt.placed_without_help + 1, len(pods) + 1)
            if all(_feasible(plugin, attempt.group, count) for plugin in profile.placement_feasible)
        ),
        0,
    )
    if not wanted or not fewest or not all(sizes) or len(np.unique(rows)) != len(rows):
        return None
    columns = [column for column, _ in wanted]
    requested = np.array([[amount] for _, amount in wanted], dtype=np.int64)
    usable = usable_by_like_pods(running, pods)
    exact = usable is not None and not profile.outside_filters and isinstance(attempt.group, GroupState)
    if usable is not None and exact:
        left = free_for(cluster, usable, columns, priority)[:, rows]
    else:
        nodes = cluster.nodes
        left = np.maximum(nodes.allocatable[columns][:, rows] - nodes.used[columns][:, rows], 0)
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1])).astype(np.int64)
    holds = np.minimum((left // requested).min(axis=0), len(pods))
    domain_of = np.repeat(np.arange(len(sizes)), sizes)
    placed = np.full(len(domains), fewest, dtype=np.int64)
    if exact:
        placed = np.minimum(np.add.reduceat(holds, starts), len(pods))
    stuck = ranking.costing.stuck if ranking.costing is not None else frozenset()
    victims = _victims(units, _breaks(ranking), stuck, rows, columns)
    prices = _prices(_DomainFreeResources(requested, left, holds, starts, domain_of, placed), victims)
    alike = exact and _are_alike(units) and all(weighted.plugin.by_count for weighted in profile.placement_scores)
    result: dict[int, list[PodRecord]] = {}
    if alike:
        for unit in units:
            result.setdefault(unit.rows[0], []).append(unit.pods[0])
    ordered = sorted((price, index) for index, price in enumerate(prices))
    number = ranking.criteria.names.index(Pods.name)
    return DomainBounds(attempt, cluster, domains, ordered, placed.tolist(), alike, number, result)


def _feasible(plugin: PlacementFeasiblePlugin, group: Group, count: int) -> bool:
    """Return whether that many further members may suffice; each level of a tree has its own minimum."""
    if not isinstance(group, GroupState):
        return True
    scheduled = group.scheduled + count
    return call_plugin(plugin.name, "PlacementFeasible", plugin.feasible, group, scheduled=scheduled, remaining=0).ok


def _least_asked(pods: Iterable[PodRecord]) -> list[tuple[int, int]]:
    """Return (column, amount): the minimum request of every pod."""
    signatures = {id(pod.signature): pod.signature for pod in pods}.values()
    amounts = [dict(signature.requests) for signature in signatures]
    columns = set(amounts[0]).intersection(*amounts[1:]) if amounts else set()
    return [(column, min(amount[column] for amount in amounts)) for column in sorted(columns)]


def _are_alike(units: Sequence[PreemptionUnit]) -> bool:
    if any(len(unit.pods) > 1 for unit in units):
        return False
    signatures = {unit.pods[0].signature.id: unit.pods[0].signature for unit in units}.values()
    return len({signature.delta.tobytes() for signature in signatures}) == 1


def _breaks(ranking: Ranking) -> list[int] | None:
    """Return by unit the number of gangs that break with it alone; None if gangs do not count."""
    costing = ranking.costing
    if not ranking.criteria.counts_gangs or costing is None:
        return None
    return [len(broken(unit.pods, costing.slack)) for unit in ranking.ordered]


def _victims(
    units: Sequence[PreemptionUnit],
    breaks: Sequence[int] | None,
    stuck: Collection[str],
    rows: Counts,
    columns: Sequence[int],
) -> _Victims:
    """Return the pods of the units that run on the rows; `stuck`: see `Costing`."""
    at = {row: index for index, row in enumerate(rows.tolist())}
    kinds: dict[int, int] = {}
    deltas: list[Counts] = []
    kind_of_pod: list[int] = []
    result: list[int] = []
    priorities: list[int] = []
    begun: list[float] = []
    breaking: list[int] = []
    restarting: list[bool] = []
    for turn, unit in enumerate(units):
        priority, start = unit.priority, unit.start
        for pod, row in zip(unit.pods, unit.rows, strict=True):
            index = at.get(row)
            if index is None:
                continue
            signature = pod.signature
            kind = kinds.setdefault(signature.id, len(kinds))
            if kind == len(deltas):
                deltas.append(signature.delta[columns])
            kind_of_pod.append(kind)
            result.append(index)
            priorities.append(priority)
            begun.append(start)
            restarting.append(pod.uid not in stuck)
            if breaks is not None:
                breaking.append(breaks[turn])
    amounts = np.array(deltas, dtype=np.int64).reshape(len(deltas), len(columns))[kind_of_pod]
    return _Victims(
        np.array(result, dtype=np.int64),
        np.array(priorities, dtype=np.int64),
        np.ascontiguousarray(amounts.T),
        np.array(begun, dtype=np.float64),
        np.array(breaking, dtype=np.int64) if breaks is not None else None,
        np.array(restarting, dtype=np.bool_),
    )


def _prices(rooms: _DomainFreeResources, victims: _Victims) -> list[Price]:
    """Return the bound of each domain."""
    starts, domain_of = rooms.starts, rooms.domain_of
    spare = np.maximum(rooms.left - _sums(rooms.left, victims, slice(None)), 0)
    free = np.minimum((spare // rooms.requested).min(axis=0), rooms.holds)
    lacking = rooms.placed - np.add.reduceat(free, starts)
    highest = _highest(rooms, victims)
    pods_gone, priorities_gone = _fewest_gone(rooms, victims, spare, free, np.maximum(lacking, 0)[domain_of])
    number = np.minimum.reduceat(pods_gone, starts).tolist()
    total = np.minimum.reduceat(priorities_gone, starts).tolist()
    of_domain = domain_of[victims.rows]
    order = np.argsort(of_domain, kind="stable")
    edges = np.searchsorted(of_domain[order], np.arange(len(starts) + 1))
    result: list[Price] = []
    for domain, short in enumerate(lacking.tolist()):
        if short <= 0:
            result.append(FREE)
            continue
        victims_there = order[edges[domain] : edges[domain + 1]]
        top = int(highest[domain])
        priorities = victims.priorities[victims_there]
        same = np.sort(victims.starts[victims_there[priorities == top]])
        among = max(1, number[domain] - int((priorities < top).sum()))
        # Of that many victims of the highest priority the earliest started no later than this.
        latest = float(same[-min(among, len(same))]) if len(same) else _NOT_STARTED
        # Every victim may break its gang: so at least one does.  As many victims as possible can restart elsewhere.
        gangs = () if victims.breaks is None else (int(victims.breaks[victims_there].min(initial=_IMPOSSIBLE)),)
        stuck = max(0, number[domain] - int(victims.restarting[victims_there].sum()))
        restartless = () if victims.breaks is None else (stuck,)
        result.append((True, (0, top, *gangs, total[domain], number[domain], *restartless, -latest)))
    return result


def _sums(like: Counts, victims: _Victims, chosen: slice | npt.NDArray[np.bool_]) -> Counts:
    """Return `int64[columns, rows]`: the amounts of some of the victims."""
    sums = np.zeros_like(like)
    for at in range(len(like)):
        np.add.at(sums[at], victims.rows[chosen], victims.amounts[at][chosen])
    return sums


def _highest(rooms: _DomainFreeResources, victims: _Victims) -> Counts:
    """Return `int64[domains]`: the least priority that suffices if all units up to it are evicted."""
    left, starts = rooms.left, rooms.starts
    levels = np.unique(victims.priorities)
    low = np.zeros(len(starts), dtype=np.int64)
    high = np.full(len(starts), max(0, len(levels) - 1), dtype=np.int64)
    if not len(levels):
        return low
    turns = np.searchsorted(levels, victims.priorities)
    while bool((low < high).any()):
        middle = (low + high) // 2
        room = np.maximum(left - _sums(left, victims, turns > middle[rooms.domain_of][victims.rows]), 0)
        enough = np.add.reduceat(np.minimum((room // rooms.requested).min(axis=0), rooms.holds), starts) >= rooms.placed
        searching = low < high
        high = np.where(searching & enough, middle, high)
        low = np.where(searching & ~enough, middle + 1, low)
    return np.asarray(levels[low], dtype=np.int64)


def _fewest_gone(
    rooms: _DomainFreeResources, victims: _Victims, beside: Counts, free: Counts, lacking: Counts
) -> tuple[Counts, Counts]:
    """Return two `int64[rows]`: the minimum number of victims and their minimum sum of priorities.

    All missing places of the domain are assumed to cost the same as on this row.

    `beside`: `int64[columns, rows]`, free amounts without evictions, `free`: the places in them; `lacking`:
    `int64[rows]`, missing places of the row's domain.  The minimum over a domain's rows is a bound for the domain: no
    mixture of rows costs less for each place than the row where places are cheapest.
    """
    requested, holds = rooms.requested, rooms.holds
    rows = beside.shape[1]
    order = np.lexsort((victims.priorities, victims.rows))
    counts = np.bincount(victims.rows, minlength=rows)
    sums = np.zeros((rows, int(counts.max(initial=0)) + 1), dtype=np.int64)
    turn = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    sums[victims.rows[order], turn + 1] = victims.priorities[order] + PRIORITY_OFFSET
    sums = np.cumsum(sums, axis=1)
    largest = np.ones_like(beside)
    for at in range(len(requested)):
        np.maximum.at(largest[at], victims.rows, victims.amounts[at])
    least_pods = np.full(rows, _IMPOSSIBLE, dtype=np.int64)
    least_priorities = np.full(rows, _IMPOSSIBLE, dtype=np.int64)
    every = np.arange(rows)
    for more in range(1, int((holds - free).max(initial=0)) + 1):
        places = free + more
        possible = places <= holds
        need = np.maximum(places * requested - beside, 0)
        evictions = np.minimum(np.maximum((-(-need // largest)).max(axis=0), 1), counts)
        for best, price in ((least_pods, evictions), (least_priorities, sums[every, evictions])):
            np.copyto(best, np.minimum(best, -(-price * lacking // more)), where=possible)
    return least_pods, least_priorities
