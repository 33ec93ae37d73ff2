"""Bound how many members of a pending entity topology spread constraints allow (scheduling.md 1.7).

A gang may find enough places in total and still not fit: where one zone is full, the others may hold only `maxSkew`
more pods.  The domain that ends up with the fewest pods has at most the pods counted there now plus as many members as
fit there; no other domain may exceed that by more than the skew.  So a domain takes no more members than both its free
capacity and that limit allow, less the pods counted there that stay.

Applies to entities with members that all have, and count for, the same constraint.  The places are those of
`reprieve.scheduling.member_capacity`, kept by domain; matching pods are counted again on rows that changed.  The domain
of each node is the same for most pending entities (a `Layout`): it is computed once for all of them when a node
changes, and only nodes that moved to another domain are counted again for each entity.

Invariant: never less than what an attempt in the present view could place.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final

import numpy as np
import numpy.typing as npt

from reprieve.cluster.budgets import SelectorsByLabel
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.signature import PodSpecSignature
from reprieve.cluster.state import ClusterState
from reprieve.plugins.pod_topology_spread import PodTopologySpread, SpreadConstraint, eligible
from reprieve.preemption.units import effective_priority

_MOST: Final = 4096
"""Maximum number of spreads; further ones have no bound."""
_MOST_DOMAINS: Final = 256
"""Constraints over more domains are ignored."""
_UNCOUNTED: Final = 0
"""Stands for all nodes on which members are not counted."""
_NONE: Final = (0, 0, _UNCOUNTED)


@dataclass(slots=True, eq=False)
class Layout:
    """The domain of each row, `int64[rows]`, for all spreads that have the same nodes and key; 0: not counted there.

    `there`: the domains that are compared, empty without a bound. `before`: `domain_of` before the last change of
    nodes. `users`: number of spreads that use it.
    """

    key: tuple[object, ...]
    """Key among all layouts: equal for entities that may share one."""
    signature: PodSpecSignature
    constraints: Sequence[SpreadConstraint]
    """All constraints of the pods with this one."""
    constraint: SpreadConstraint
    domain_of: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    before: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    there: list[int] = field(default_factory=list)
    domains: int = 0
    """One more than the highest domain number."""
    users: int = 0

    def work_out(self, cluster: ClusterState) -> npt.NDArray[np.int64]:
        """Read the nodes again; return the rows that changed their domain."""
        domains, highest = cluster.pod_affinity.domains(self.constraint.topology_key)
        counted = eligible(cluster, self.signature, self.constraints, self.constraint)
        self.before = np.zeros(len(domains), dtype=np.int64)
        self.before[: len(self.domain_of)] = self.domain_of
        self.domain_of = np.where(counted, domains, _UNCOUNTED)
        self.there = np.unique(domains[counted]).tolist() if highest <= _MOST_DOMAINS else []
        self.domains = highest + 1
        moved: npt.NDArray[np.int64] = np.flatnonzero(self.before != self.domain_of)
        return moved


@dataclass(slots=True, eq=False)
class Spread:
    """One constraint of an entity's members.

    By domain, the first for nodes that are not counted: `places` for members, `held` pods that are counted there, and
    the number of them that `stay` whatever the entity evicts.
    """

    number: int
    layout: Layout
    constraint: SpreadConstraint
    pod: PodRecord
    priority: float
    """The priority from which on pods stay."""
    placed: bool = False
    """The following attributes are computed."""
    places: list[int] = field(default_factory=list)
    held: list[int] = field(default_factory=list)
    stay: list[int] = field(default_factory=list)
    counted: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    """By row with counted pods: their number, how many of them stay, and the domain."""
    most: int | None = None
    """The cached result of `members`."""

    @property
    def to_be_placed(self) -> bool:
        """Whether a bound is possible, and `SpreadBounds.place` has not been called since then."""
        return bool(self.layout.there) and not self.placed

    def members(self) -> int | None:
        """Return the maximum number of members that can be placed; None if there is no bound."""
        compared = self.layout.there
        if not compared:
            return None
        if self.most is None:
            constraint, places, counted, stay = self.constraint, self.places, self.held, self.stay
            least = 0
            if len(compared) >= constraint.min_domains:
                least = min([counted[domain] + places[domain] for domain in compared])
            highest = constraint.max_skew + least
            self.most = places[_UNCOUNTED] + sum(
                [min(places[domain], max(0, highest - stay[domain])) for domain in compared]
            )
        return self.most


class SpreadBounds:
    """The spreads of all pending entities; see the module docstring."""

    def __init__(self, cluster: ClusterState) -> None:
        self._cluster = cluster
        self._spreads: dict[int, Spread] = {}
        self._layouts: dict[tuple[object, ...], Layout] = {}
        """Layouts by node constraints, the keys of all constraints, and the constraint's own rules about nodes."""
        self._numbers = count()
        self._by_label: SelectorsByLabel | None = None
        """The pods that each spread may count, by its number; None: to be computed again."""
        self._on_row: dict[int, set[int]] = {}
        """By row: the numbers of the spreads that count pods there."""

    def __len__(self) -> int:
        return len(self._spreads)

    def of(self, plugin: PodTopologySpread, pods: Sequence[PodRecord], priority: float) -> list[Spread]:
        """Return the constraints that all these pods have and by which they count; call `place` for each."""
        first = pods[0]
        nodes = first.signature.constraints.nodes.id
        constraints = plugin.filtering(self._cluster, first)
        for pod in pods:
            if pod.signature.constraints.nodes.id != nodes or plugin.filtering(self._cluster, pod) != constraints:
                return []
        result = []
        for constraint in constraints:
            accepts = constraint.matcher.accepts
            if len(self._spreads) >= _MOST or not all(
                accepts(pod.namespace, {}, pod.labels, terminating=False) for pod in pods
            ):
                continue
            number = next(self._numbers)
            layout = self._layout(first.signature, constraint, constraints)
            spread = self._spreads[number] = Spread(number, layout, constraint, first, priority)
            self._by_label = None
            result.append(spread)
        return result

    def _layout(
        self, signature: PodSpecSignature, constraint: SpreadConstraint, constraints: Sequence[SpreadConstraint]
    ) -> Layout:
        """Return the spread of a constraint of pods with that signature, with one more user; see `eligible`."""
        key = self._layout_key(signature, constraint, constraints)
        layout = self._layouts.get(key)
        if layout is None:
            layout = self._layouts[key] = Layout(key, signature, constraints, constraint)
            layout.work_out(self._cluster)
            layout.before = layout.domain_of
        layout.users += 1
        return layout

    @staticmethod
    def _layout_key(
        signature: PodSpecSignature, constraint: SpreadConstraint, constraints: Sequence[SpreadConstraint]
    ) -> tuple[object, ...]:
        keys = frozenset(item.topology_key for item in constraints)
        policies = constraint.honors_affinity, constraint.honors_taints
        return signature.constraints.nodes.id, keys, constraint.topology_key, *policies

    def place(self, spread: Spread, places: npt.NDArray[np.int64]) -> None:
        """Compute again with `int64[rows]`: the number of members that fit on each row."""
        layout = spread.layout
        self._leave_rows(spread)
        spread.most = None
        spread.placed = bool(layout.there)
        if not spread.placed:
            return
        width = layout.domains
        spread.places = np.bincount(layout.domain_of, weights=places, minlength=width).astype(np.int64).tolist()
        spread.held, spread.stay = [0] * width, [0] * width
        for row in np.flatnonzero(self._cluster.pod_affinity.counts((spread.constraint.matcher,))).tolist():
            self._count(spread, row)

    def lay_out(self) -> npt.NDArray[np.int64]:
        """Handle changed nodes; return the rows that changed their domain in some spread.

        Spreads without a bound before that have one now are no longer `placed`.
        """
        moved = [np.zeros(0, dtype=np.int64)]
        changed = set()
        for layout in self._layouts.values():
            compared = layout.there
            rows = layout.work_out(self._cluster)
            if len(rows):
                moved.append(rows)
            if len(rows) or compared != layout.there:
                changed.add(id(layout))
        for spread in self._spreads.values() if changed else ():
            if id(spread.layout) in changed:
                spread.most = None
                spread.placed = spread.placed and bool(spread.layout.there)
                more = [0] * (spread.layout.domains - len(spread.places))
                for by_domain in (spread.places, spread.held, spread.stay) if more else ():
                    by_domain.extend(more)
        return np.unique(np.concatenate(moved))

    def laid_out(self) -> None:
        """End a change of nodes, after `moved` has been called for all rows that `lay_out` returned."""
        for layout in self._layouts.values():
            layout.before = layout.domain_of

    def moved(self, row: int, slots: Iterable[tuple[Spread, int, int]]) -> None:
        """Update the numbers of members that fit on a row, per spread."""
        for spread, before, now in slots:
            if spread.placed:
                layout = spread.layout
                was, domain = layout.before[row], layout.domain_of[row]
                if before != now or was != domain:
                    spread.places[was] -= before
                    spread.places[domain] += now
                    spread.most = None

    def recount(self, rows: Iterable[int]) -> None:
        """Handle pods that were added to, removed from or changed on these rows."""
        if not self._spreads:
            return
        if self._by_label is None:
            self._by_label = SelectorsByLabel(
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
        """Remove spreads of an entity that is no longer pending."""
        for spread in spreads:
            if self._spreads.pop(spread.number, None) is not None:
                self._by_label = None
                self._leave_rows(spread)
                spread.layout.users -= 1
                if not spread.layout.users:
                    del self._layouts[spread.layout.key]

    def clear(self) -> None:
        """Remove all spreads."""
        self._spreads.clear()
        self._layouts.clear()
        self._on_row.clear()
        self._by_label = None

    def _count(self, spread: Spread, row: int) -> None:
        if not spread.placed:
            return
        counted = stay = 0
        domain = int(spread.layout.domain_of[row])
        if domain != _UNCOUNTED:
            accepts = spread.constraint.matcher.accepts
            for pod in self._cluster.nodes.pods[row].values():
                if accepts(pod.namespace, {}, pod.labels, terminating=pod.terminating):
                    counted += 1
                    stay += effective_priority(self._cluster, pod) >= spread.priority
        before = spread.counted.get(row, _NONE)
        now = (counted, stay, domain) if counted else _NONE
        if before == now:
            return
        spread.held[before[2]] -= before[0]
        spread.stay[before[2]] -= before[1]
        spread.held[domain] += counted
        spread.stay[domain] += stay
        spread.most = None
        if counted:
            spread.counted[row] = now
            self._on_row.setdefault(row, set()).add(spread.number)
        else:
            del spread.counted[row]
            self._left_row(spread, row)

    def _leave_rows(self, spread: Spread) -> None:
        for row in spread.counted:
            self._left_row(spread, row)
        spread.counted = {}

    def _left_row(self, spread: Spread, row: int) -> None:
        numbers = self._on_row[row]
        numbers.discard(spread.number)
        if not numbers:
            del self._on_row[row]
