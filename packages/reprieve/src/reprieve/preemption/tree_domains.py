"""Domains for the groups below a tree's root, chosen by what the eviction costs there (cost.md 4.12).

With the domains given, what is left is a search by numbers in which each pod is pinned to the nodes of its group's
domain (`reprieve.preemption.victim_search.pinned_numbers`).  Choices of domains are compared by what that search finds:
all of them where they are few, else one group after the other goes to another domain as long as the eviction becomes
cheaper.  The domains that each group is offered are those with the least bounds (`reprieve.preemption.domain_bounds`).

Invariant: the work is counted, in searches weighed by their size, never in seconds.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from reprieve.cluster.groups import Group
from reprieve.cluster.pods import PodRecord
from reprieve.framework.plugin import Placement, PodGroupAttempt
from reprieve.preemption.domain_bounds import bounds_of
from reprieve.preemption.group_view import GroupCandidate, GroupView
from reprieve.preemption.order import Ranking
from reprieve.preemption.victim_search.eviction import Price
from reprieve.preemption.victim_search.pinned_numbers import PinnedNumbers, pinned
from reprieve.preemption.victim_search.problem import Numbers
from reprieve.preemption.victim_search.search import Found, cheapest_eviction

_MOST_DOMAINS = 12
"""Each group is offered so many domains."""
MOST_NODES_SEARCHED = 4_000
"""So large are the searches for one preemption together: the sum of their nodes and units."""
_PATIENCE = 48
"""So many choices in a row are searched without success before the search ends."""
_WIDEST, _MOST_KEPT = 8, 3
"""Of more choices groups choose in turn: so many choices are searched each time, and so many are kept."""
_STEPS = 60
"""What a search may take to improve what it has found first."""
_FEW_CHOICES = 4_096
"""So few choices are all considered, and searched in the order of what they seem to cost."""
Picks = tuple[int, ...]
"""By group with domains: the index of its domain."""


@dataclass(frozen=True, slots=True)
class _Chooser:
    """A group with domains. `nodes`: by domain, of the numbers; `above`: indices of the choosers above it."""

    group: Group
    domains: Sequence[Placement]
    nodes: Sequence[frozenset[int]]
    above: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Leaf:
    """The placed pods of a pod group. `shape`: equal for those that ask for the same; `choosers`: from the top."""

    pods: tuple[PodRecord, ...]
    shape: Hashable
    choosers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DomainChoice:
    """The cheapest eviction with domains chosen for the groups of a tree.

    `units`: of the numbers; `places`: (pod, row); `domains`: by the `ref` of a group.
    """

    price: Price
    units: tuple[int, ...]
    places: tuple[tuple[PodRecord, int], ...]
    domains: dict[str, Placement]
    exact: bool
    """Only resources are in play, and the search was not cut short."""


class _PartOfGroup(PodGroupAttempt):
    """Some pods of a tree, for bounds: all of them have to be placed."""

    def __init__(self, group: Group, pods: Sequence[PodRecord]) -> None:
        self.group, self.pods = group, pods

    @property
    def placed_without_help(self) -> int:
        """All but one: then all are to be placed."""
        return len(self.pods) - 1


@dataclass(slots=True)
class TreeDomains:
    """`view`: where all units of `within` are displaced. `numbers`: of the candidate's pods, anywhere in its placement.

    `inside`: by unit of the numbers, its index in the candidate's ranking.
    """

    view: GroupView
    candidate: GroupCandidate
    within: Ranking
    numbers: Numbers
    choices: Sequence[tuple[Group, Sequence[Placement]]]
    left: int
    """How large the searches may be together."""
    _choosers: list[_Chooser] = field(init=False, default_factory=list)
    _leaves: list[_Leaf] = field(init=False, default_factory=list)
    _tried: dict[Hashable, Picks] = field(init=False, default_factory=dict)
    """By what is pinned where, whatever the names of pods: the first picks with that."""
    _found: dict[Picks, tuple[Found, PinnedNumbers] | None] = field(init=False, default_factory=dict)
    _prices: dict[Hashable, Price | None] = field(init=False, default_factory=dict)

    def cheapest(self) -> DomainChoice | None:
        """Return the cheapest eviction that is found; None if there is nothing to choose, or nothing was found."""
        self._set_up()
        if not self._choosers:
            return None
        offered = [self._offered(turn) for turn in range(len(self._choosers))]
        choices = list(islice(self._choices((), offered), _FEW_CHOICES + 1))
        few = len(choices) <= _FEW_CHOICES
        best = self._of_all(choices) if few else self._in_turn(offered)
        found = self._found.get(best) if best is not None else None
        if best is None or found is None:
            return None
        eviction, part = found
        eviction = cheapest_eviction(part.numbers, eviction.units) or eviction
        return DomainChoice(
            eviction.price,
            tuple(part.units[unit] for unit in eviction.units),
            (eviction if eviction.places is not None else found[0]).assigned(part.numbers),
            {chooser.group.ref: chooser.domains[pick] for chooser, pick in zip(self._choosers, best, strict=True)},
            self.numbers.exact and self.left > 0,
        )

    def _set_up(self) -> None:
        node_of = {row: node for node, row in enumerate(self.numbers.rows)}
        placed: dict[str | None, list[PodRecord]] = {}
        for pod, _ in self.candidate.assignment.placed:
            placed.setdefault(pod.group, []).append(pod)
        above: dict[str, tuple[int, ...]] = {}
        for group, domains in self.choices:
            leaves = [leaf.key for leaf in group.leaves() if leaf.key in placed]
            if not leaves or not domains:
                continue
            nodes = [frozenset([node_of[row] for row in domain.rows.tolist() if row in node_of]) for domain in domains]
            turn = len(self._choosers)
            self._choosers.append(_Chooser(group, domains, nodes, above.get(leaves[0], ())))
            for leaf in leaves:
                above[leaf] = (*above.get(leaf, ()), turn)
        kind_of = {pod.uid: turn for turn, kind in enumerate(self.numbers.kinds) for pod in kind.pods}
        for key, pods in placed.items():
            shape = frozenset(Counter(kind_of[pod.uid] for pod in pods).items())
            self._leaves.append(_Leaf(tuple(pods), shape, above.get(key or "", ())))

    def _offered(self, turn: int) -> list[int]:
        """Return the domains that a group may choose, those with the least bounds first if they are many."""
        chooser, request = self._choosers[turn], self.view.request
        pods = [pod for leaf in self._leaves if turn in leaf.choosers for pod in leaf.pods]
        usable = [index for index, nodes in enumerate(chooser.nodes) if nodes]
        if len(usable) <= _MOST_DOMAINS:
            return usable
        bounds = bounds_of(
            request.running,
            _PartOfGroup(chooser.group, pods),
            self.within,
            request.priority,
            [chooser.domains[index] for index in usable],
        )
        return usable if bounds is None else [usable[index] for _, index in bounds.cheapest_first]

    def _next(self, picks: Picks, offered: Sequence[Sequence[int]]) -> Iterator[Picks]:
        """Yield the choices with a domain of the next group more, which has nodes of all those above it."""
        chooser = self._choosers[len(picks)]
        above = [self._choosers[up].nodes[picks[up]] for up in chooser.above]
        within = (pick for pick in offered[len(picks)] if chooser.nodes[pick].intersection(*above))
        for pick in islice(within, _MOST_DOMAINS):
            yield (*picks, pick)

    def _choices(self, picks: Picks, offered: Sequence[Sequence[int]]) -> Iterator[Picks]:
        """Yield all choices that begin so."""
        if len(picks) == len(offered):
            yield picks
            return
        for more in self._next(picks, offered):
            yield from self._choices(more, offered)

    def _of_all(self, choices: Iterable[Picks]) -> Picks | None:
        """Search the choices in the order of what their groups cost by themselves together."""
        estimates = sorted((estimate, picks) for picks in choices if (estimate := self._estimate(picks)) is not None)
        return self._least(picks for _, picks in estimates)

    def _least(self, tried: Iterable[Picks]) -> Picks | None:
        """Return the choice with the cheapest eviction; those are left out that cannot be cheaper."""
        best: tuple[Price, Picks] | None = None
        patience = _PATIENCE
        for picks in tried:
            if patience <= 0 or self.left <= 0:
                break
            where = self._where(picks)
            if best is not None and any((a := self._alone(*item)) is None or a >= best[0] for item in where):
                continue
            known = picks in self._found
            found = self._search(picks)
            if found is not None and (best is None or found[0].price < best[0]):
                best, patience = (found[0].price, picks), _PATIENCE
            elif not known:
                patience -= 1
        return best[1] if best is not None else None

    def _where(self, picks: Picks) -> list[tuple[_Leaf, frozenset[int]]]:
        """Return the nodes of each leaf, if not all groups have chosen: of those below one that has."""
        anywhere, chosen = frozenset(range(len(self.numbers.rows))), len(picks)
        return [
            (leaf, anywhere.intersection(*(self._choosers[up].nodes[picks[up]] for up in leaf.choosers if up < chosen)))
            for leaf in self._leaves
            if chosen == len(self._choosers) or (leaf.choosers and leaf.choosers[0] < chosen)
        ]

    def _estimate(self, picks: Picks) -> tuple[int, int, tuple[float, ...]] | None:
        """Return what the leaves cost together if none shares a victim; None: one fits nowhere."""
        prices = []
        for leaf, nodes in self._where(picks):
            alone = self._alone(leaf, nodes)
            if alone is None:
                return None
            prices.append(alone)
        costs = [cost for *_, cost in prices if cost]
        total = tuple(map(sum, zip(*costs, strict=True))) if costs else ()
        return sum(violations for violations, *_ in prices), max(highest for _, highest, _ in prices), total

    def _alone(self, leaf: _Leaf, nodes: frozenset[int]) -> Price | None:
        """Return what the pods of a leaf cost by themselves; None: they do not fit."""
        key = (leaf.shape, nodes)
        if key not in self._prices:
            found = self._cheapest(pinned(self.numbers, [(leaf.pods, nodes)]))
            self._prices[key] = found.price if found is not None else None
        return self._prices[key]

    def _in_turn(self, offered: Sequence[Sequence[int]]) -> Picks | None:
        """Let one group after the other choose, and keep the few choices that cost least up to there."""
        kept: list[Picks] = [()]
        for _ in offered:
            more = [longer for picks in kept for longer in self._next(picks, offered)]
            estimates = sorted((estimate, picks) for picks in more if (estimate := self._estimate(picks)) is not None)
            found = [(result[0].price, picks) for _, picks in estimates[:_WIDEST] if (result := self._search(picks))]
            kept = [picks for _, picks in sorted(found)[:_MOST_KEPT]]
        return kept[0] if kept else None

    def _cheapest(self, part: PinnedNumbers | None) -> Found | None:
        if part is None:
            return None
        self.left -= len(part.numbers.rows) + len(part.numbers.units)
        return cheapest_eviction(part.numbers, steps=_STEPS, all_of_few=False)

    def _search(self, picks: Picks) -> tuple[Found, PinnedNumbers] | None:
        """Return the cheapest eviction with these domains.

        None too where the work is done, or others came to the same but for the names of pods.
        """
        if picks in self._found:
            return self._found[picks]
        where = self._where(picks)
        alike = frozenset(Counter((leaf.shape, nodes) for leaf, nodes in where).items())
        if self._tried.setdefault(alike, picks) != picks:
            return None
        part = pinned(self.numbers, ((leaf.pods, nodes) for leaf, nodes in where))
        found = self._cheapest(part)
        self._found[picks] = (found, part) if found is not None and part is not None else None
        return self._found[picks]
