"""The order of ranks over domains: neighbours are apart as seldom as possible (topology.md 3).

Members stand in the order of their index.  Each goes to a *bin*: a node with what is free there, or, for members that
are all alike, a whole domain with how many it takes.  A pair of neighbours in different domains is a *break*.  The
search tries the bins of the domain before first, remembers what it has seen, and ends after a number of steps; until
then its answer is exact, and afterwards the best it came across.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

STEPS = 4_000
"""So many times a member is put into a bin."""

Amounts = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Member:
    """One member: what it asks for, and the bins it may go to; `domain`: it runs there already (its bins are none).

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
    """No order costs less; one that costs this is not improved."""
    best: list[int] | None = None
    """The bin of each member (-1: it runs already) in the best order that was found."""
    cost: tuple[int, ...] = ()
    _seen: dict[tuple[object, ...], tuple[int, ...]] = field(default_factory=dict)
    _kinds: list[int] = field(default_factory=list)
    """By bin: the same number for bins that admit the same members."""

    def __post_init__(self) -> None:
        """Number the kinds of bins."""
        ordered = sorted({member.bins for member in self.members}, key=sorted)
        numbers: dict[tuple[bool, ...], int] = {}
        keys = (tuple(index in bins for bins in ordered) for index in range(len(self.bins)))
        self._kinds = [numbers.setdefault(key, len(numbers)) for key in keys]

    def run(self) -> list[int] | None:
        """Return the bin of each member; None where no order that fits was found."""
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
        known = self._seen.get(state)
        if known is not None and known <= cost:
            return
        self._seen[state] = cost
        for index in self._choices(member, free, last, cost):
            if self.steps <= 0:
                return
            self.steps -= 1
            there = free[index]
            for column, amount in enumerate(member.asks):
                there[column] -= amount
            chosen.append(index)
            domain = self.bins[index].domain
            self._extend(chosen, free, domain, self._after(cost, last, domain))
            chosen.pop()
            for column, amount in enumerate(member.asks):
                there[column] += amount

    def _after(self, cost: tuple[int, ...], last: int, domain: int) -> tuple[int, ...]:
        if last in (-1, domain):
            return cost
        pairs = zip(self.apart[last], self.apart[domain], strict=True)
        return tuple(count + (one != other) for count, (one, other) in zip(cost, pairs, strict=True))

    def _choices(self, member: Member, free: list[list[int]], last: int, cost: tuple[int, ...]) -> list[int]:
        """Return the bins that the member fits into, the cheapest first; of bins that are alike the first."""
        choices: dict[tuple[tuple[int, ...], int, tuple[int, ...]], int] = {}
        for index in sorted(member.bins):
            there, domain = free[index], self.bins[index].domain
            if member.beside and domain != last:
                continue
            if all(amount <= left for amount, left in zip(member.asks, there, strict=True)):
                alike = (domain, self._kinds[index], *there)
                choices.setdefault((self._after(cost, last, domain), sum(there), alike), index)
        return [index for _, index in sorted(choices.items(), key=lambda item: (*item[0][:2], item[1]))]

    def _state(self, free: list[list[int]]) -> tuple[object, ...]:
        """Return what is left, the same for bins of a domain that changed places."""
        left = ((item.domain, kind, *there) for item, kind, there in zip(self.bins, self._kinds, free, strict=True))
        return tuple(sorted(left))
