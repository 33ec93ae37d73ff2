"""Tables of what each node can hold, for few nodes: the cheapest options of all are added up (cost.md 4.14).

The exchanges of the search leave pods of other kinds in place, so they do not find evictions for which a pod must first
move to another node.  Here the units with shares of several nodes are chosen first.  Given these, the rest is a sum
over nodes: the number of pods of each kind that a node holds, and the node's own units evicted for that. The cheapest
sum is found exactly, node by node.  Then some of the units on several nodes are restored, or evicted instead of others,
as long as that is cheaper.

Invariant: the work is counted in steps of the sum, never in seconds.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, product
from math import prod

import numpy as np
import numpy.typing as npt

from reprieve.preemption.victim_search.eviction import Eviction, Price
from reprieve.preemption.victim_search.problem import Amounts, Kind, Numbers, Place

MOST_NODES, _MOST_STATES, _MOST_UNITS = 40, 20_000, 9
"""Maximum number of nodes, of states (pods of each kind and allowances of budgets), and of a node's own units."""
_MOST_STEPS, _MOST_STEPS_EXACT = 60_000, 8_000
"""Maximum number of steps, each about eight microseconds; fewer if only resources matter."""
_SHAKES = 40
"""The limit on random changes in a row without success."""
_FEW_WHOLE = 6
"""Up to this number of units on several nodes, all sets are tried if budgets are violated."""
_MOST_TOTALS, _FEW_TOTALS = 24, 4
"""Up to this number of ways to divide the pods among domains are tried; up to the second also with other units."""


@dataclass(frozen=True, slots=True)
class Domains:
    """`nodes`: those of each domain; `totals`: possible numbers of pods by domain, the most promising first."""

    nodes: Sequence[frozenset[int]]
    totals: Sequence[tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class _Option:
    """Pods of each kind on a node and charges to budgets (`shift`), their weight, and the node's evicted units."""

    shift: tuple[int, ...]
    weight: float
    units: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Rearrangement:
    """An eviction, as in `search.PricedEviction`."""

    units: tuple[int, ...]
    price: Price
    places: tuple[Place, ...]
    whole: frozenset[int]
    """The units on several nodes among them."""
    weight: float
    turn: int
    """The index of its way to divide the pods among domains."""


_Way = tuple[frozenset[int], int]
"""Evicted units on several nodes, and the index of a way to divide the pods among domains."""


class NodeTables:
    """See the module docstring."""

    def __init__(self, numbers: Numbers, domains: Domains | None = None) -> None:
        self._numbers, self._state = numbers, Eviction(numbers)
        # Nodes that the same kinds may use are adjacent, so that few kinds are in progress at a time.
        may_use = list(zip(*[kind.usable for kind in numbers.kinds], strict=True))
        self._order: list[int] = sorted(range(len(numbers.free)), key=lambda node: (may_use[node], node))
        self._ends: list[dict[int, int]] = [{}]
        """By way to divide the pods: last node of a domain -> number of pods placed up to there."""
        self._ways_left_out = domains is not None and len(domains.totals) > _MOST_TOTALS
        if domains is not None:
            inside = [[node for node in self._order if node in nodes] for nodes in domains.nodes]
            self._order = [node for nodes in inside for node in nodes]
            self._ends = []
            for totals in domains.totals[:_MOST_TOTALS]:
                placed = accumulate(totals)
                if all(nodes or not total for nodes, total in zip(inside, totals, strict=True)):
                    self._ends.append({nodes[-1]: count for nodes, count in zip(inside, placed, strict=True) if nodes})
        state = self._state
        counts = [len(kind.pods) + 1 for kind in numbers.kinds]
        self._budgets = list(range(len(numbers.allowed))) if state.budgets.weight else []
        shape = [*counts, *(numbers.allowed[budget] + 1 for budget in self._budgets)]
        if prod(shape) > _MOST_STATES:
            self._budgets, shape = [], counts
        self._shape = tuple(shape)
        self._placed = np.indices(counts).sum(axis=0).reshape(*counts, *([1] * len(self._budgets)))
        """By state: the number of placed pods."""
        self._under_way = [self._states_at(step) for step in range(len(self._order))]
        gangs, age, self._violation = state.gangs, state.weights.age, state.budgets.weight
        self._weight = [
            weight + gangs.breaks[unit] * gangs.weight + age[unit] for unit, weight in enumerate(state.weights.weight)
        ]
        bound = set() if self._budgets or not state.budgets.weight else set(range(len(numbers.allowed)))
        self._whole = [
            unit
            for unit, takes in enumerate(numbers.takes)
            if len(takes) > 1 or (takes and not bound.isdisjoint(budget for budget, _ in numbers.charged[unit]))
        ]
        self._few_ways = len(self._whole) <= _FEW_WHOLE
        whole = set(self._whole)
        self._own = [[unit for unit in units if unit not in whole] for units in numbers.on]
        self._left = [tuple(left) for left in state.places.left]
        self._turns = [(ends, len(numbers.units)) for ends in self._ends]
        """By way: the ends of domains, and the first unit that may violate the budgets that count it.

        The number of all units: any unit may violate them.
        """
        counted = [unit for unit, pairs in enumerate(numbers.charged) if any(b in self._budgets for b, _ in pairs)]
        self._counted = frozenset(counted)
        """Units that some of these budgets count."""
        if domains is None:
            # Less important units are charged last: if they violate budgets the others need not.
            self._turns += [(self._ends[0], unit) for unit in reversed(counted)]
        self._options_of: dict[tuple[int, Amounts, tuple[int, ...], int], list[_Option]] = {}
        self._sums: dict[tuple[_Way, frozenset[int]], Rearrangement | None] = {}
        self._holding: dict[tuple[frozenset[int], frozenset[int]], bool] = {}
        self._most = _MOST_STEPS_EXACT if numbers.exact else _MOST_STEPS
        self._steps = 0
        self._cut = False
        """Whether the steps ended before limits of priority were tried."""

    @classmethod
    def of(cls, numbers: Numbers, domains: Domains | None = None) -> "NodeTables | None":
        """Return the tables; None if there are too many nodes or states."""
        if len(numbers.free) > MOST_NODES:
            return None
        states = prod(len(kind.pods) + 1 for kind in numbers.kinds)
        return cls(numbers, domains) if states <= _MOST_STATES else None

    @property
    def complete(self) -> bool:
        """Whether nothing was left out for lack of steps."""
        return self._steps < self._most and not self._ways_left_out and not self._cut

    # -- the evicted units on several nodes ------------------------------------------------------------------------

    def improved(self, units: Sequence[int], price: Price) -> Rearrangement | None:
        """Return the cheapest eviction found, if it costs less than that of these units."""
        if not units:
            return None
        best = self._searched(units, price)
        while best is not None and best.units and self._steps < self._most:
            later = self._later_than(best.units, best.price, [best.turn])
            if later is None:
                break
            best = later
        if best is None or best.price >= price:
            best = self._later_than(units, price, range(len(self._ends)))
        return best

    def within(self, units: Sequence[int]) -> Rearrangement | None:
        """Return the cheapest eviction of some of these units; None if not all pods fit without them."""
        barred = frozenset(range(len(self._numbers.units))).difference(units)
        return self._first_of(frozenset(units).intersection(self._whole), barred)

    def _searched(self, units: Sequence[int], price: Price) -> Rearrangement | None:
        """Return the cheapest eviction by exchanges from these units and from each priority, and by random changes."""
        numbers = self._numbers
        by_limit = numbers.pricing is None or numbers.pricing.by_limit
        evicted = frozenset(units).intersection(self._whole)
        above = self._above(numbers.units[units[0]].priority) if by_limit else frozenset[int]()
        best: Rearrangement | None = None
        start = self._first_of(evicted, above)
        if start is not None:
            start = self._exchanged(start, above)
            if start.price < price:
                best, price = start, start.price
        from_units = start
        if by_limit:
            for limit in sorted({unit.priority for unit in numbers.units}):
                # Evict above the present limit only to violate fewer budgets.
                if self._steps >= self._most or (limit > price[1] and not price[0]):
                    break
                above = self._above(limit)
                start = self._first_of(frozenset(self._whole).difference(above), above)
                if start is not None:
                    start = self._exchanged(start, above)
                    if start.price < price:
                        best, price = start, start.price
                        if not price[0]:
                            break
        tried = [option for option in (best, from_units, start) if option is not None]
        if not tried:
            return None
        cheapest = min(tried, key=lambda option: option.price)
        if by_limit and price[0]:
            # Violating fewer budgets is worth any priority.
            cheapest = self._in_all_ways(cheapest) if self._few_ways else self._shaken(cheapest, frozenset())
            price = min(price, cheapest.price)
        cheapest = self._shaken(cheapest, self._above(price[1]) if by_limit else above)
        if numbers.pricing is None or not numbers.pricing.limited_later:
            return cheapest
        self._cut = self._steps >= self._most
        self._most += self._most // 2
        return self._limited(cheapest)

    def _limited(self, best: Rearrangement) -> Rearrangement:
        """Return the cheapest under ever lower limits of priority, if other criteria decide before the priority."""
        for limit in sorted({unit.priority for unit in self._numbers.units}, reverse=True):
            if not best.units or self._steps >= self._most:
                break
            highest = self._numbers.units[best.units[0]].priority
            if limit > highest:
                continue
            above = self._above(limit)
            starts = [best.whole] if limit == highest else []
            starts += [best.whole - above, frozenset(self._whole) - above]
            lower = best
            for whole in starts:
                start = self._first_of(whole, above)
                if start is not None:
                    lower = min(lower, self._exchanged(start, above), key=lambda option: option.price)
            if limit < highest and lower is best:
                break
            best = lower
        return best

    def _in_all_ways(self, best: Rearrangement) -> Rearrangement:
        """Return the cheapest of all sets: fewest violations with any priority, then under ever lower limits."""
        best = self._in_all_ways_of(best, None)
        best = self._in_all_ways_of(best, best.price[1])
        for limit in sorted({unit.priority for unit in self._numbers.units}, reverse=True):
            if limit < best.price[1]:
                lower = self._in_all_ways_of(best, limit)
                if lower is best:
                    break
                best = lower
        return best

    def _in_all_ways_of(self, best: Rearrangement, limit: int | None) -> Rearrangement:
        """Return the cheapest of all sets under a limit of priority; without one, only if it violates fewer budgets."""
        barred = self._above(limit) if limit is not None else frozenset[int]()
        whole, ways = [unit for unit in self._whole if unit not in barred], []
        for bits in product((False, True), repeat=len(whole)):
            evicted = frozenset([unit for unit, bit in zip(whole, bits, strict=True) if bit])
            if self._may_hold(evicted, barred):
                ways += [(self._first(evicted, late)[1], turn, evicted) for turn, (_, late) in enumerate(self._turns)]
        for weight, turn, evicted in sorted(ways, key=lambda way: (way[0], way[1], sorted(way[2]))):
            if limit is None:
                most = best.price[0] * self._violation
            elif best.price[1] > limit:
                most = (best.price[0] + 1) * self._violation
            else:
                most = best.weight + len(self._numbers.units)  # starts count less than one each
            if weight >= most or self._steps >= self._most:
                break
            option = self._sum((evicted, turn), barred)
            if option is not None and option.price < best.price:
                best = option
        return best

    def _first_of(self, whole: frozenset[int], barred: frozenset[int]) -> Rearrangement | None:
        """Return the cheapest with these units on several nodes, for any division of the pods among domains."""
        options: list[Rearrangement] = []
        for turn in range(len(self._ends if self._few_ways else self._turns)):
            if turn >= len(self._ends) and options and not min(option.price for option in options)[0]:
                break  # no budget must be violated
            if (option := self._sum((whole, turn), barred)) is not None:
                options.append(option)
        return min(options, key=lambda option: option.price, default=None)

    def _above(self, priority: int) -> frozenset[int]:
        return frozenset([unit for unit, below in enumerate(self._numbers.units) if below.priority > priority])

    def _exchanged(self, best: Rearrangement, barred: frozenset[int]) -> Rearrangement:
        """Restore units on several nodes, or evict some instead of others, as long as that is cheaper."""
        better = True
        while better and self._steps < self._most:
            better = False
            for way in self._near(best, barred):
                if self._steps >= self._most:
                    break
                option = self._sum(way, barred)
                if option is not None and option.price < best.price:
                    best, better = option, True
                    break
        return best

    def _shaken(self, best: Rearrangement, barred: frozenset[int]) -> Rearrangement:
        """Exchange random units on several nodes, and improve the result."""
        chance, left = np.random.default_rng(1), _SHAKES
        while left and self._steps < self._most:
            left -= 1
            spared = [unit for unit in self._whole if unit not in barred and unit not in best.whole]
            changed = [
                unit
                for units, most in ((sorted(best.whole), 3), (spared, 4))
                for unit in chance.permutation(units)[: chance.integers(1, most)].tolist()
            ]
            start = self._sum((best.whole.symmetric_difference(changed), best.turn), barred)
            if start is not None:
                start = self._exchanged(start, barred)
                if start.price < best.price:
                    best, left = start, _SHAKES
        return best

    def _near(self, best: Rearrangement, barred: frozenset[int]) -> Iterator[_Way]:
        """Yield alternatives: other numbers for domains, or other units if they alone may be cheaper."""
        turns = self._turns if best.price[0] and not self._few_ways else self._ends
        other_turns = [turn for turn in range(len(turns)) if turn != best.turn]
        yield from ((best.whole, turn) for turn in other_turns)
        for whole in self._others(best, barred):
            yield whole, best.turn
            if len(other_turns) < _FEW_TOTALS:
                yield from ((whole, turn) for turn in other_turns)

    def _others(self, best: Rearrangement, barred: frozenset[int]) -> Iterator[frozenset[int]]:
        """Yield alternative sets of evicted units on several nodes."""
        parts = {frozenset([unit]): None for unit in self._whole}
        for units in self._numbers.on:
            parts[frozenset(units).intersection(self._whole)] = None
        weight = self._weight
        back = [part for part in parts if part and part <= best.whole]
        added = [part for part in parts if part and not part <= best.whole and part.isdisjoint(barred)]
        added.sort(key=lambda part: (sum([weight[unit] for unit in part - best.whole]), sorted(part)))
        back.sort(key=lambda part: (-sum([weight[unit] for unit in part]), sorted(part)))
        for part in back:
            yield best.whole - part
        for part in added:
            if self._least(best.whole | part) < best.weight:
                yield best.whole | part
        for less in back:
            for part in added:
                evicted = (best.whole - less) | part
                if self._least(evicted) < best.weight:
                    yield evicted

    def _least(self, whole: frozenset[int]) -> float:
        return self._first(whole, len(self._numbers.units))[1]

    def _later_than(self, units: Sequence[int], price: Price, turns: Sequence[int]) -> Rearrangement | None:
        numbers, start = self._numbers, self._state.weights.start
        highest = numbers.units[units[0]].priority
        earliest = min(start[unit] for unit in units if numbers.units[unit].priority == highest)
        first = [unit for unit, u in enumerate(numbers.units) if u.priority == highest]
        early = {unit for unit in first if start[unit] <= earliest}
        barred = self._above(highest) | early
        whole = frozenset(units).intersection(self._whole) - early
        sums = [a for turn in turns if (a := self._sum((whole, turn), barred)) is not None]
        return min((a for a in sums if a.price < price), key=lambda a: a.price, default=None)

    # -- the sum over nodes ----------------------------------------------------------------------------------------

    def _first(self, whole: frozenset[int], violating: int) -> tuple[list[int], float]:
        """Return the charges to budgets by units on several nodes, and their weight.

        Infinite if units other than those from `violating` on (`_turns`) would violate a budget.
        """
        numbers, allowed = self._numbers, self._numbers.allowed
        charged = [0] * len(self._budgets)
        weight = sum([self._weight[unit] for unit in sorted(whole)])
        for unit in sorted(whole):
            if unit >= violating:
                weight += self._violation * any(budget < len(charged) for budget, _ in numbers.charged[unit])
                continue
            over = False
            for budget, count in numbers.charged[unit]:
                if budget < len(charged):
                    over = over or charged[budget] + count > allowed[budget]
                    charged[budget] = min(allowed[budget], charged[budget] + count)
            if over:
                weight += self._violation if violating == len(numbers.units) else np.inf
        return charged, weight

    def _states_at(self, step: int) -> tuple[slice, ...]:
        """Return the relevant states at a node: kinds that no node before may use have no pod yet, and so on."""
        states = []
        for kind in self._numbers.kinds:
            steps = [turn for turn, node in enumerate(self._order) if kind.usable[node]]
            count = len(kind.pods)
            if not steps or step < steps[0]:
                states.append(slice(0, 1))
            else:
                states.append(slice(0 if step <= steps[-1] else count, count + 1))
        return (*states, *[slice(None)] * len(self._budgets))

    def _sum(self, way: _Way, barred: frozenset[int]) -> Rearrangement | None:
        """Return the cheapest eviction with exactly these units on several nodes, and without the barred ones."""
        key = (way, barred)
        if key not in self._sums:
            self._sums[key] = self._summed(way, barred)
        return self._sums[key]

    def _may_hold(self, whole: frozenset[int], barred: frozenset[int]) -> bool:
        """Return False if some kind alone does not fit without these and all units that may be evicted."""
        key = whole, barred
        holding = self._holding.get(key)
        if holding is None:
            freed = self._without(whole)
            for node, units in enumerate(self._own):
                share = self._state.share[node]
                for unit in units:
                    if unit not in barred:
                        freed[node] = tuple(map(int.__add__, freed[node], share[unit]))
            holding = self._holding[key] = all(self._holds(kind, freed) for kind in self._numbers.kinds)
        return holding

    @staticmethod
    def _holds(kind: Kind, left: Sequence[Amounts]) -> bool:
        """Return whether all pods of the kind fit into these amounts of nodes."""
        missing, wanted = len(kind.pods), kind.wanted
        for have, usable in zip(left, kind.usable, strict=True):
            if usable:
                missing -= max(0, min([have[resource] // want for resource, want in wanted], default=missing))
        return missing <= 0

    def _without(self, whole: frozenset[int]) -> list[Amounts]:
        """Return the free amounts of nodes without these units."""
        left = list(self._left)
        for unit in whole:
            for node, amounts in self._numbers.takes[unit]:
                left[node] = tuple(map(int.__add__, left[node], amounts))
        return left

    def _summed(self, way: _Way, barred: frozenset[int]) -> Rearrangement | None:
        numbers, (whole, turn) = self._numbers, way
        ends, violating = self._turns[turn]
        if not self._may_hold(whole, barred):
            return None
        left = self._without(whole)
        charged, weight = self._first(whole, violating)
        if not weight < np.inf:
            return None
        options = []
        for node in self._order:
            if self._steps >= self._most:
                return None
            own = tuple([unit for unit in self._own[node] if unit not in barred])
            options.append(self._options(node, left[node], own, violating))
        sums = np.full(self._shape, np.inf)
        sums[(*([0] * len(numbers.kinds)), *charged)] = weight
        steps = [sums]
        for node, node_options, states in zip(self._order, options, self._under_way, strict=True):
            before, sums = sums[states], sums.copy()
            after, sizes = sums[states], before.shape
            self._steps += len(node_options) * (1 + before.size // 1024)
            for option in node_options:
                target = after[tuple([slice(by, None) for by in option.shift])]
                source = before[tuple([slice(0, size - by) for size, by in zip(sizes, option.shift, strict=True)])]
                np.minimum(target, source + option.weight, out=target)
            if node in ends:
                sums = np.where(self._placed == ends[node], sums, np.inf)
            steps.append(sums)
        full = tuple([len(kind.pods) for kind in numbers.kinds])
        last = sums[full]
        at = (*full, *map(int, np.unravel_index(int(np.argmin(last)), last.shape)))
        if not sums[at] < np.inf:
            return None
        return self._traced(steps, options, at, way)

    def _traced(
        self,
        steps: Sequence[npt.NDArray[np.float64]],
        options: Sequence[Sequence[_Option]],
        at: tuple[int, ...],
        way: _Way,
    ) -> Rearrangement:
        """Reconstruct the eviction from the sums."""
        units, places, total = set(way[0]), list[Place](), float(steps[-1][at])
        for step in reversed(range(len(options))):
            value = steps[step + 1][at]
            if steps[step][at] == value:
                continue
            for option in options[step]:
                before = tuple([a - b for a, b in zip(at, option.shift, strict=True)])
                if min(before) >= 0 and steps[step][before] + option.weight == value:
                    units.update(option.units)
                    node, kinds = self._order[step], range(len(self._numbers.kinds))
                    places += [(kind, node, option.shift[kind]) for kind in kinds if option.shift[kind]]
                    at = before
                    break
        order = tuple(sorted(units))
        return Rearrangement(
            order,
            self._state.price_of(order),
            tuple(sorted(places, key=lambda place: (place[1], place[0]))),
            way[0],
            total,
            way[1],
        )

    # -- one node --------------------------------------------------------------------------------------------------

    def _options(self, node: int, have: Amounts, own: tuple[int, ...], violating: int) -> list[_Option]:
        """Return the options of the node, except doing nothing."""
        every = len(self._numbers.units)
        if violating < every:
            # Which unit violates first matters only where it separates units of this node that budgets count.
            counted = [unit for unit in own if unit in self._counted]
            violating = next((unit for unit in counted if unit >= violating), counted[-1] + 1 if counted else every)
        key = (node, have, own, violating)
        if key not in self._options_of:
            self._options_of[key] = self._listed(node, have, own, violating)
        return self._options_of[key]

    def _listed(self, node: int, have: Amounts, own: tuple[int, ...], violating: int) -> list[_Option]:
        numbers, share = self._numbers, self._state.share[node]
        if len(own) > _MOST_UNITS:
            size = self._state.weights.size
            own = tuple(sorted(own, key=lambda unit: (self._weight[unit] / (size[unit] or 1.0), unit))[:_MOST_UNITS])
        bits = (np.arange(1 << len(own))[:, None] >> np.arange(len(own))) & 1
        late = [unit >= violating and unit in self._counted for unit in own]
        alone = [self._weight[unit] + over * self._violation for unit, over in zip(own, late, strict=True)]
        weights = bits @ np.array(alone, dtype=np.float64)
        order = np.argsort(weights, kind="stable")
        bits, weights = bits[order], weights[order]
        amounts = np.array([share[unit] for unit in own], dtype=np.int64).reshape(len(own), len(have))
        free = np.array(have, dtype=np.int64) + bits @ amounts
        charges = np.zeros((len(own), len(self._budgets)), dtype=np.int64)
        for turn, unit in enumerate(own):
            for budget, count in numbers.charged[unit]:
                if budget < len(self._budgets) and unit < violating:
                    charges[turn, budget] += count
        charged = bits @ charges
        wants = np.array([kind.wants for kind in numbers.kinds], dtype=np.int64)
        most = [len(kind.pods) if kind.usable[node] else 0 for kind in numbers.kinds]
        options: list[_Option] = []
        for counts in _holding(most, [kind.wanted for kind in numbers.kinds], free.max(axis=0).tolist()):
            if not any(counts):
                continue
            self._steps += 1
            requested = np.array(counts, dtype=np.int64) @ wants
            works = np.flatnonzero(((free >= requested) | (requested == 0)).all(axis=1))
            if not len(works):
                continue
            smaller: list[npt.NDArray[np.int64]] = []
            for turn in works.tolist():
                if any((charged[turn] >= charges_before).all() for charges_before in smaller):
                    continue
                smaller.append(charged[turn])
                units = tuple([unit for unit, bit in zip(own, bits[turn].tolist(), strict=True) if bit])
                options += self._charged_to(
                    counts, charged[turn].tolist(), float(weights[turn]), units, violating == len(numbers.units)
                )
                if not charged[turn].any():
                    break
        return options

    def _charged_to(
        self, counts: tuple[int, ...], charged: Sequence[int], weight: float, units: tuple[int, ...], less: bool
    ) -> Iterator[_Option]:
        """Yield options with all charges to budgets, or, with `less`, also with some violated."""
        allowed = self._numbers.allowed
        if not less:
            if all(count <= allowed[b] for b, count in enumerate(charged)):
                yield _Option((*counts, *charged), weight, units)
            return
        for within in product(*[range(min(count, allowed[b]), -1, -1) for b, count in enumerate(charged)]):
            over = sum(charged) - sum(within)
            yield _Option((*counts, *within), weight + over * self._violation, units)


def _holding(
    most: Sequence[int], wanted: Sequence[Sequence[tuple[int, int]]], have: Sequence[int]
) -> list[tuple[int, ...]]:
    """Return the numbers of pods of each kind that the amounts hold together, up to `most` of each, ascending."""
    partial: list[tuple[tuple[int, ...], Sequence[int]]] = [((), have)]
    for count, wants in zip(most, wanted, strict=True):
        more = []
        for counts, left in partial:
            more.append(((*counts, 0), left))
            for number in range(1, count + 1):
                rest = list(left)
                for resource, want in wants:
                    rest[resource] -= want * number
                if any(rest[resource] < 0 for resource, _ in wants):
                    break
                more.append(((*counts, number), rest))
        partial = more
    return [counts for counts, _ in partial]
