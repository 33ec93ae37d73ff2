"""Domains for the groups below a tree's root, chosen by the cost of the eviction (cost.md 4.12).

With the domains given, each pod is pinned to the nodes of its group's domain.  Choices of domains are compared
(`reprieve.preemption.pinned_choices`): all of them if they are few, else the groups choose one by one. Of many domains
those with the lowest bounds come first (`reprieve.preemption.domain_bounds`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from reprieve.cluster.groups import Group
from reprieve.cluster.pods import PodRecord
from reprieve.framework.plugin import Placement, PodGroupAttempt
from reprieve.preemption.domain_bounds import bounds_of
from reprieve.preemption.group_view import GroupCandidate, GroupView
from reprieve.preemption.order import Ranking
from reprieve.preemption.pinned_choices import FEW_CHOICES, Part, Picks, PinnedChoices, PinnedEviction

_MOST_DOMAINS = 12
"""Maximum number of domains per group."""
_WIDEST, _MOST_KEPT = 8, 3
"""If groups choose in turn: number of choices that are searched each time, and that are kept."""


@dataclass(frozen=True, slots=True)
class _Chooser:
    """A group with domains. `nodes`: by domain, of the numbers; `above`: indices of the choosers above it."""

    group: Group
    domains: Sequence[Placement]
    nodes: Sequence[frozenset[int]]
    above: tuple[int, ...]


class _PartOfGroup(PodGroupAttempt):
    """Some pods of a tree, for bounds: all of them must be placed."""

    def __init__(self, group: Group, pods: Sequence[PodRecord]) -> None:
        self.group, self.pods = group, pods

    @property
    def placed_without_help(self) -> int:
        """Return the number that makes placing all pods the minimum."""
        return len(self.pods) - 1


@dataclass(slots=True)
class TreeDomains(PinnedChoices):
    """`view`: where all units of `within` are displaced. `numbers`: of the candidate's pods, anywhere in its placement.

    A choice is the index of a domain for each group that has some, from the top.
    """

    view: GroupView
    candidate: GroupCandidate
    within: Ranking
    choices: Sequence[tuple[Group, Sequence[Placement]]]
    _choosers: list[_Chooser] = field(init=False, default_factory=list)
    _leaves: list[Part] = field(init=False, default_factory=list)

    def cheapest(self) -> tuple[PinnedEviction, dict[str, Placement]] | None:
        """Return the cheapest eviction found, and the domains of groups by their `ref`.

        None if there is no choice, or nothing was found.
        """
        self._set_up()
        if not self._choosers:
            return None
        offered = [self._offered(turn) for turn in range(len(self._choosers))]
        choices = list(islice(self._choices((), offered), FEW_CHOICES + 1))
        best = self.least_of(choices) if len(choices) <= FEW_CHOICES else self._in_turn(offered)
        if best is None or self._found.get(best) is None:
            return None
        return self.eviction_of(best), {
            c.group.ref: c.domains[pick] for c, pick in zip(self._choosers, best, strict=True)
        }

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
        self._leaves = [Part.of(pods, self.numbers, above.get(key or "", ())) for key, pods in placed.items()]

    def _offered(self, turn: int) -> list[int]:
        """Return the domains that a group may choose, those with the lowest bounds first if they are many."""
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
        """Yield the choices with a further domain for the next group, which has nodes of all those above it."""
        chooser = self._choosers[len(picks)]
        above = [self._choosers[up].nodes[picks[up]] for up in chooser.above]
        within = (pick for pick in offered[len(picks)] if chooser.nodes[pick].intersection(*above))
        for pick in islice(within, _MOST_DOMAINS):
            yield (*picks, pick)

    def _choices(self, picks: Picks, offered: Sequence[Sequence[int]]) -> Iterator[Picks]:
        """Yield all choices that begin with these picks."""
        if len(picks) == len(offered):
            yield picks
            return
        for more in self._next(picks, offered):
            yield from self._choices(more, offered)

    def where(self, picks: Picks) -> list[tuple[Part, frozenset[int]]]:
        """Return the nodes of each leaf; before all groups have chosen, only of leaves below one that has."""
        anywhere, chosen = frozenset(range(len(self.numbers.rows))), len(picks)
        return [
            (leaf, anywhere.intersection(*(self._choosers[up].nodes[picks[up]] for up in leaf.choosers if up < chosen)))
            for leaf in self._leaves
            if chosen == len(self._choosers) or (leaf.choosers and leaf.choosers[0] < chosen)
        ]

    def _in_turn(self, offered: Sequence[Sequence[int]]) -> Picks | None:
        """Let the groups choose one by one, and keep the few cheapest partial choices."""
        partial: list[Picks] = [()]
        for _ in offered:
            if self.left <= 0:
                return None
            more = [longer for picks in partial for longer in self._next(picks, offered)]
            estimates = sorted((estimate, picks) for picks in more if (estimate := self.estimate(picks)) is not None)
            priced = [(result[0].price, picks) for _, picks in estimates[:_WIDEST] if (result := self.search(picks))]
            partial = [picks for _, picks in sorted(priced)[:_MOST_KEPT]]
        return partial[0] if partial else None
