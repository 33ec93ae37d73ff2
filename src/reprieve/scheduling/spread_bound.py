"""At most how many members of a waiting entity topology spread constraints leave places for (scheduling.md 1.7).

A gang may find places enough in all and still be kept out: where one zone is full, the others may hold only `maxSkew`
more.  The domain that is emptiest in the end has at most what is counted there now and as many members as there is room
for; no member is placed where more than that and the skew would stand.  So in each domain no more members find a place
than its room and that leave, less those counted there who stay.

Asked of entities all of whose members have one and the same constraint, and are counted by it.  The places are those of
`reprieve.scheduling.room_bound`, kept by domain; who is counted is looked up on the rows that changed.

Invariant: never less than what an attempt in the present view could place.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from reprieve.cluster.budgets import ByLabel
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.plugins.pod_topology_spread import Constraint, PodTopologySpread
from reprieve.preemption.units import effective_priority

_MOST: Final = 4096
"""Spreads that are kept; of further ones nothing is claimed."""
_MOST_DOMAINS: Final = 256
"""Constraints over more domains are left out of account."""
_UNCOUNTED: Final = 0
"""Stands for all nodes on which members are not counted."""


@dataclass(slots=True, eq=False)
class Spread:
    """One constraint of an entity's members.

    By domain, the first for nodes that are not counted: `places` for members, `held` pods that are counted there, and
    how many of them `stay` whatever the entity evicts.  `there`: the domains that are compared.
    """

    number: int
    constraint: Constraint
    pod: PodRecord
    priority: float
    """From which on pods stay."""
    domain_of: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    there: list[int] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    held: list[int] = field(default_factory=list)
    stay: list[int] = field(default_factory=list)
    counted: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By row, where there are any: how many pods are counted, and how many of them stay."""
    most: int | None = None
    """`members`, while it holds."""

    def members(self) -> int | None:
        """So many members find a place at most; None: nothing is claimed."""
        if not self.there:
            return None
        if self.most is None:
            constraint, places, held = self.constraint, self.places, self.held
            least = 0
            if len(self.there) >= constraint.min_domains:
                least = min(held[domain] + places[domain] for domain in self.there)
            highest = constraint.max_skew + least
            self.most = places[_UNCOUNTED] + sum(
                min(places[domain], max(0, highest - self.stay[domain])) for domain in self.there
            )
        return self.most


class SpreadBounds:
    """The spreads of all entities that wait; see the module docstring."""

    def __init__(self, cluster: ClusterState) -> None:
        self._cluster = cluster
        self._spreads: dict[int, Spread] = {}
        self._made = 0
        self._by_label: ByLabel | None = None
        """Whom each spread may count, by its number; None: to be made again."""
        self._on_row: dict[int, set[int]] = {}
        """By row: the numbers of the spreads that count pods there."""

    def __len__(self) -> int:
        return len(self._spreads)

    def of(self, plugin: PodTopologySpread, pods: Sequence[PodRecord], priority: float) -> list[Spread]:
        """The constraints that all these pods have and are counted by; `place` has to be called for each."""
        first = pods[0]
        nodes = first.signature.constraints.nodes.id
        constraints = plugin.filtering(self._cluster, first)
        for pod in pods:
            if pod.signature.constraints.nodes.id != nodes or plugin.filtering(self._cluster, pod) != constraints:
                return []
        found = []
        for constraint in constraints:
            accepts = constraint.matcher.accepts
            if len(self._spreads) >= _MOST or not all(
                accepts(pod.namespace, {}, pod.labels, terminating=False) for pod in pods
            ):
                continue
            self._made += 1
            spread = self._spreads[self._made] = Spread(self._made, constraint, first, priority)
            self._by_label = None
            found.append(spread)
        return found

    def place(self, plugin: PodTopologySpread, spread: Spread, places: npt.NDArray[np.int64]) -> None:
        """Reckon anew: `int64[rows]`, for how many members there is room on each."""
        constraint = spread.constraint
        index = self._cluster.pod_affinity
        domains, highest = index.domains(constraint.key)
        self._leave_rows(spread)
        spread.most = None
        eligible = plugin.eligible(self._cluster, spread.pod, constraint)
        spread.domain_of = np.where(eligible, domains, _UNCOUNTED)
        spread.there = np.unique(domains[eligible]).tolist() if highest <= _MOST_DOMAINS else []
        if not spread.there:
            return
        spread.places = np.bincount(spread.domain_of, weights=places, minlength=highest + 1).astype(np.int64).tolist()
        spread.held, spread.stay = [0] * (highest + 1), [0] * (highest + 1)
        for row in np.flatnonzero(index.counts((constraint.matcher,))).tolist():
            self._count(spread, row)

    def moved(self, row: int, slots: Iterable[tuple[Spread, int]]) -> None:
        """There is room for so many more, or fewer, members of each on a row."""
        for spread, more in slots:
            if more and spread.there:
                spread.places[spread.domain_of[row]] += more
                spread.most = None

    def recount(self, rows: Iterable[int]) -> None:
        """Pods came to these rows, left them, or are others now."""
        if not self._spreads:
            return
        if self._by_label is None:
            self._by_label = ByLabel(
                (number, spread.pod.namespace, spread.constraint.matcher.selector)
                for number, spread in self._spreads.items()
            )
        for row in rows:
            numbers = set(self._on_row.get(row, ()))
            for pod in self._cluster.nodes.pods[row].values():
                numbers.update(self._by_label.candidates(pod.namespace, pod.labels))
            for number in numbers:
                self._count(self._spreads[number], row)

    def forget(self, spreads: Iterable[Spread]) -> None:
        """Nobody waits for these any more."""
        for spread in spreads:
            if self._spreads.pop(spread.number, None) is not None:
                self._by_label = None
                self._leave_rows(spread)

    def clear(self) -> None:
        """Nobody waits."""
        self._spreads.clear()
        self._on_row.clear()
        self._by_label = None

    def _count(self, spread: Spread, row: int) -> None:
        if not spread.there:
            return
        held = stay = 0
        domain = int(spread.domain_of[row])
        if domain != _UNCOUNTED:
            accepts = spread.constraint.matcher.accepts
            for pod in self._cluster.nodes.pods[row].values():
                if accepts(pod.namespace, {}, pod.labels, terminating=pod.terminating):
                    held += 1
                    stay += effective_priority(self._cluster, pod) >= spread.priority
        before = spread.counted.get(row, (0, 0))
        if before == (held, stay):
            return
        spread.held[domain] += held - before[0]
        spread.stay[domain] += stay - before[1]
        spread.most = None
        if held:
            spread.counted[row] = held, stay
            self._on_row.setdefault(row, set()).add(spread.number)
        else:
            del spread.counted[row]
            self._left_row(spread, row)

    def _leave_rows(self, spread: Spread) -> None:
        for row in spread.counted:
            self._left_row(spread, row)
        spread.counted = {}

    def _left_row(self, spread: Spread, row: int) -> None:
        there = self._on_row[row]
        there.discard(spread.number)
        if not there:
            del self._on_row[row]
