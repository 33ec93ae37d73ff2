"""Assign ranks to domains so that few neighbours are apart (topology.md 3).

Members are in the order of their index. Each gets a *bin*: a node with its free amounts or, for identical members, a
whole domain with its number of places. A pair of neighbours in different domains is a *break*. The search tries the
bins of the previous domain first, remembers states, and ends after a number of steps; until then its answer is exact,
afterwards it is the best found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

STEPS = 4_000
"""Maximum number of steps: assignments of a member to a bin."""

Amounts = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Member:
    """One member: its requests, and the bins that it may use; `domain`: it already runs there (and has no bins).

    `beside`: it does not run yet, and is placed in the domain of the member before it.
    """

    asks: Amounts = ()
    bins: frozenset[int] = frozenset()
    domain: int = -1
    beside: bool = False


@dataclass(frozen=True, slots=True)
class Bin:
    """`domain`: a number by which `FewestBreaks.apart` looks it up."""

    domain: int
    free: Amounts


@dataclass(slots=True)
class FewestBreaks:
    """One search. `apart`: by domain, its domain at each level; breaks of the first level count most."""

    members: Sequence[Member]
    bins: Sequence[Bin]
    apart: Sequence[tuple[int, ...]]
    steps: int
    least: tuple[int, ...] = ()
    """A lower bound of the cost; an order with this cost is not improved."""
    best: list[int] | None = None
    """The bin of each member (-1: it already runs) in the best order."""
    cost: tuple[int, ...] = ()
    _seen: dict[tuple[object, ...], tuple[int, ...]] = field(default_factory=dict)
    _kinds: list[int] = field(default_factory=list)
    """By bin: the same number for bins that admit the same members."""

    def __post_init__(self) -> None:
        """Return a number for each kind of bin."""
        ordered = sorted({member.bins for member in self.members}, key=sorted)
        numbers: dict[tuple[bool, ...], int] = {}
        keys = (tuple(index in bins for bins in ordered) for index in range(len(self.bins)))
        self._kinds = [numbers.setdefault(key, len(numbers)) for key in keys]

    def run(self) -> list[int] | None:
        """Return the bin of each member; None if no order was found that fits."""
        self._extend([], [list(item.free) for item in self.bins], -1, (0,) * len(self.apart[0] if self.apart else ()))
        return self.best

    def _extend(self, chosen: list[int], free: list[list[int]], last: int, cost: tuple[int, ...]) -> None:
        """Place the members from `len(chosen)` on, the one before being in the domain `last`."""
        if self.best is not None and (cost >= self.cost or self.cost == self.least):
            return
        turn = len(chosen)
        if turn == len(self.members):
            self.best, self.cost = list(chosen), cost
            return
        member = self.members[turn]
        if member.domain >= 0:
            self._extend([*chosen, -1], free, member.domain, self._after(cost, last, member.domain))
            return
        state = (turn, last, self._state(free))
        best_cost = self._seen.get(state)
        if best_cost is not None and best_cost <= cost:
            return
        self._seen[state] = cost
        for index in self._choices(member, free, last, cost):
            if self.steps <= 0:
                return
            self.steps -= 1
            left = free[index]
            for column, amount in enumerate(member.asks):
                left[column] -= amount
            chosen.append(index)
            domain = self.bins[index].domain
            self._extend(chosen, free, domain, self._after(cost, last, domain))
            chosen.pop()
            for column, amount in enumerate(member.asks):
                left[column] += amount

    def _after(self, cost: tuple[int, ...], last: int, domain: int) -> tuple[int, ...]:
        if last in (-1, domain):
            return cost
        pairs = zip(self.apart[last], self.apart[domain], strict=True)
        return tuple(count + (a != b) for count, (a, b) in zip(cost, pairs, strict=True))

    def _choices(self, member: Member, free: list[list[int]], last: int, cost: tuple[int, ...]) -> list[int]:
        """Return the bins into which the member fits, the cheapest first; of identical bins the first."""
        choices: dict[tuple[tuple[int, ...], int, tuple[int, ...]], int] = {}
        for index in sorted(member.bins):
            left_there, domain = free[index], self.bins[index].domain
            if member.beside and domain != last:
                continue
            if all(amount <= left for amount, left in zip(member.asks, left_there, strict=True)):
                alike = (domain, self._kinds[index], *left_there)
                choices.setdefault((self._after(cost, last, domain), sum(left_there), alike), index)
        return [index for _, index in sorted(choices.items(), key=lambda item: (*item[0][:2], item[1]))]

    def _state(self, free: list[list[int]]) -> tuple[object, ...]:
        """Return a key of the remaining capacity, which is equal after an exchange of bins of one domain."""
        left = ((item.domain, kind, *amounts) for item, kind, amounts in zip(self.bins, self._kinds, free, strict=True))
        return tuple(sorted(left))
