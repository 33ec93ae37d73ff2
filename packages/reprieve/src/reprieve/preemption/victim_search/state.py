"""An eviction being tried: who is gone, where the group's pods are, and what is left beside them.

Every change can be taken back (`mark`, `rollback`), so the search tries things in place and copies nothing.  Pods of
the group that find no room are counted in `missing`; an eviction is good enough where nobody is.

Gangs that fall below their minimum count like budgets: a unit weighs more as long as its gang would break with it, and
no more once the gang is broken.

Invariants: `left[node]` is what the node has beside the units that stay and the pods put there; no pod is put where a
resource that it asks for is overdrawn; `spare[kind][node]` is how many more pods of the kind would fit.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import chain

import numpy as np
import numpy.typing as npt

from reprieve.preemption.criteria import PRIORITY_OFFSET
from reprieve.preemption.outcome import Cost
from reprieve.preemption.victim_search.problem import Amounts, Numbers

FEW_PODS = 64
"""Groups of more pods are not put anew as a whole where one of them finds no room."""
_FEW_CHARGES = 256
"""Of more than that, what units going together are charged with is summed for all budgets at once."""
BROKEN_BUDGET = float(1 << 50)
BROKEN_GANG = float(1 << 42)
"""Weigh more than any sum of priorities that is likely to stand against them."""
Price = tuple[int, int, Cost]
"""Violations and highest priority as far as they decide before all else, and what it costs by each criterion."""
NOBODY: Price = (0, -(1 << 62), ())


class Eviction:
    """See the module docstring.

    `barred` units may not be evicted; `dirty` nodes have changed since last examined, and on the `dearer` ones units
    have come to violate a budget.
    """

    def __init__(self, numbers: Numbers) -> None:
        self.numbers = numbers
        self.gone: set[int] = set()
        self.barred: set[int] = set()
        self.dirty: set[int] = set(range(len(numbers.free)))
        self.dearer: set[int] = set()
        self.missing = [len(kind.pods) for kind in numbers.kinds]
        self.weight: Sequence[float] = (
            [(unit.priority + PRIORITY_OFFSET) * len(unit.pods) for unit in numbers.units]
            if numbers.pricing is None
            else numbers.pricing.weight
        )
        self.lowest = min((unit.priority for unit in numbers.units), default=0)
        """No eviction's highest priority is lower, but for evicting nobody."""
        self._start = [unit.start for unit in numbers.units]
        starts = {start: turn for turn, start in enumerate(sorted({-start for start in self._start}))}
        self.age = [starts[-start] / (4.0 * len(starts)) for start in self._start]
        """By unit: from 0 for those who started last to less than a quarter."""
        self.budget_left = list(numbers.allowed)
        self._counted_by: dict[int, frozenset[int]] = {}
        """By unit: its budgets, once they were asked for."""
        self.budgets_first = bool(numbers.allowed) and (numbers.pricing is None or numbers.pricing.budgets_first)
        """A violated budget weighs more than anything else."""
        self._charged_on = self._charged_by_budget()
        self.over = [sum([numbers.allowed[budget] < count for budget, count in each]) for each in numbers.charged]
        """By unit: how many of its budgets evicting it would exceed beside those who are gone."""
        self.gang_weight = BROKEN_GANG if numbers.pricing is None else numbers.pricing.gang_weight
        gangs = numbers.gangs
        self.slack = list(gangs.slack) if gangs is not None else []
        """By gang: how many pods more it can lose; below zero: it is broken."""
        self._lost = gangs.lost if gangs is not None and gangs.slack else ((),) * len(numbers.units)
        self._members = self._lost_by_gang()
        self.breaks = [sum([self.slack[gang] < count for gang, count in each]) for each in self._lost]
        """By unit: how many gangs break with it beside those who are gone."""
        self.heavy = [0.0] * len(numbers.units)
        """By unit: its weight, that of the gangs that break with it, and that of a broken budget if evicting it exceeds
        any and that decides first."""
        for unit in range(len(numbers.units)):
            self._weigh(unit)
        self._wants = [
            tuple((resource, want) for resource, want in enumerate(kind.wants) if want) for kind in numbers.kinds
        ]
        self.share: list[dict[int, Amounts]] = [{} for _ in numbers.free]
        """By node: what each unit holds there."""
        for unit, takes in enumerate(numbers.takes):
            for node, amounts in takes:
                self.share[node][unit] = amounts
        self.left: list[list[int]] = [list(amounts) for amounts in numbers.free]
        self.put: list[list[int] | None] = [None] * len(numbers.free)
        """By node: pods of each kind put there."""
        self.spare: list[list[int]] = [[0] * len(numbers.free) for _ in numbers.kinds]
        self.open: list[dict[int, None]] = [{} for _ in numbers.kinds]
        """By kind: nodes with room for more."""
        self._log: list[tuple[Callable[..., None], tuple[object, ...]]] = []
        self._uncounted: dict[int, None] = {}
        """Nodes whose `spare` is to be worked out anew before anything else is done."""
        self.counted = 0
        """Steps taken here, as `search.STEPS` counts them."""
        self._pods = sum(self.missing)
        whole = [max(1, sum(max(0, amounts[r]) for amounts in numbers.free)) for r in range(len(numbers.free[0]))]
        self.size = [
            sum(amount / whole[r] for _, amounts in takes for r, amount in enumerate(amounts) if amount > 0)
            for takes in numbers.takes
        ]
        """By unit: its share of all there is, summed over resources."""
        kinds = range(len(numbers.kinds))
        top = [max(1, *column) for column in zip(*(kind.wants for kind in numbers.kinds), strict=True)]
        sizes = [sum(want / most for want, most in zip(kind.wants, top, strict=True)) for kind in numbers.kinds]
        self._shares = [1.0 / most for most in top]
        """By resource: what one of it counts beside the others."""
        self._orders = [sorted(kinds, key=lambda kind: -sizes[kind])]
        self._orders += [
            sorted(kinds, key=lambda kind: (-numbers.kinds[kind].wants[r], -sizes[kind])) for r in range(len(top))
        ]
        for takes in numbers.takes:
            for node, amounts in takes:
                have = self.left[node]
                for resource, amount in enumerate(amounts):
                    have[resource] -= amount
        self._empty = [have.copy() for have in self.left]
        """By node: as `left`, were no pods put there."""
        self._floors = self._least_holds() if len(numbers.kinds) > 1 else ()
        self._holds = [
            sum(max(0, have[resource]) // size for have in self._empty) for resource, size, _ in self._floors
        ]
        self._packings: dict[frozenset[int], list[tuple[int, int, int]] | None] = {}
        """By who is gone: how all pods can be put anew, None: not by any of the orders.  It takes steps to get in."""
        for node in range(len(self.left)):
            self._recount(node)

    @cached_property
    def shares(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Who holds what where, by node: units and nodes, `int64[shares]`, and `int64[shares, resources]`."""
        takes = self.numbers.takes
        units = np.repeat(np.arange(len(takes)), [len(each) for each in takes])
        nodes = np.array([node for each in takes for node, _ in each], dtype=np.int64)
        amounts = np.array([amounts for each in takes for _, amounts in each], dtype=np.int64)
        order = np.argsort(nodes, kind="stable")
        return units[order], nodes[order], amounts.reshape(len(nodes), len(self.numbers.kinds[0].wants))[order]

    # -- changes, each of which can be taken back ------------------------------------------------------------------

    def mark(self) -> int:
        """Where to come back to."""
        return len(self._log)

    def rollback(self, mark: int) -> None:
        """Take back everything since."""
        log = self._log
        while len(log) > mark:
            undo, arguments = log.pop()
            undo(self, *arguments)
        for node in self._uncounted:
            self._recount(node)
        self._uncounted.clear()

    def keep(self) -> None:
        """Nothing so far will be taken back."""
        self._log.clear()

    def evict(self, unit: int) -> None:
        """The unit goes."""
        self.gone.add(unit)
        self._log.append((Eviction._unevict, (unit,)))
        self._shift(unit, 1)
        self._charge(unit, 1)
        self._lose(unit, 1)
        for node, amounts in self.numbers.takes[unit]:
            self._save(node)
            have = self.left[node]
            for resource, amount in enumerate(amounts):
                have[resource] += amount
            self._recount(node)

    def restore(self, unit: int) -> None:
        """The unit stays after all; pods that no longer fit beside it are missing again."""
        self.gone.remove(unit)
        self._log.append((Eviction._unrestore, (unit,)))
        self._shift(unit, -1)
        self._charge(unit, -1)
        self._lose(unit, -1)
        for node, amounts in self.numbers.takes[unit]:
            self._save(node)
            have = self.left[node]
            for resource, amount in enumerate(amounts):
                have[resource] -= amount
            if self.put[node] is not None:
                self._push_out(node)
            self._recount(node)

    def may_return(self, unit: int, room: int) -> bool:
        """False where restoring the unit is sure to leave pods missing, with `room` places for more pods in all."""
        if len(self.missing) > 1:
            return self._holds_without(unit)
        for node, amounts in self.numbers.takes[unit]:
            there = self.put[node]
            if there is not None:
                have = self.left[node]
                over = max([-(-(amounts[resource] - have[resource]) // want) for resource, want in self._wants[0]])
                room -= max(0, min(over, there[0]))
                if room < 0:
                    return False
        return True

    def room(self) -> int:
        """Places for more pods, over all kinds."""
        return sum(self.spare[kind][node] for kind, nodes in enumerate(self.open) for node in nodes)

    def touched(self, mark: int) -> set[int]:
        """Nodes that have changed since."""
        save = Eviction._unsave
        return {arguments[0] for undo, arguments in self._log[mark:] if undo is save}  # type: ignore[misc]

    def bar(self, unit: int) -> None:
        """The unit may not be evicted from now on."""
        if unit not in self.barred:
            self.barred.add(unit)
            self._log.append((Eviction._unbar, (unit,)))
            self.dirty.update(node for node, _ in self.numbers.takes[unit])

    def unbar(self, unit: int) -> None:
        """The unit may be evicted again."""
        if unit in self.barred:
            self._unbar(unit)
            self._log.append((Eviction._rebar, (unit,)))

    def settle(self) -> bool:
        """Put missing pods where there is room; returns whether none is left."""
        done = True
        for kind, count in enumerate(self.missing):
            while count:
                node = self._tightest(kind)
                if node < 0:
                    done = False
                    break
                more = min(count, self.spare[kind][node])  # with each of them it is the tightest all the more
                self.place(kind, node, more)
                count -= more
        return done

    def repack(self) -> bool:
        """Put all pods anew, in another order, where `settle` leaves some missing; whether none is left."""
        if len(self.missing) == 1 or self._pods > FEW_PODS:
            return False
        if any(holds < count for holds, (_, _, count) in zip(self._holds, self._floors, strict=True)):
            return False
        there = [node for node, put in enumerate(self.put) if put is not None and any(put)]
        gone = frozenset(self.gone)
        if gone not in self._packings:
            among = sorted({*there, *(node for places in self.open for node in places)})
            self._packings[gone] = None
            for order in self._orders:
                self.counted += 1 + self._pods * len(among) // 64
                found = self._packed(order, among)
                if found is not None:
                    self._packings[gone] = found
                    break
        packing = self._packings[gone]
        if packing is None:
            return False
        for node in there:
            self.take_off(node)
        for each in packing:
            self.place(*each)
        return True

    def _packed(self, order: Sequence[int], among: Sequence[int]) -> list[tuple[int, int, int]] | None:
        """(kind, node, count) for all pods, each where least is left; None where one finds no room."""
        numbers, shares = self.numbers, self._shares
        left = {node: self._empty[node].copy() for node in among}
        found = []
        for kind in order:
            wants, usable = self._wants[kind], numbers.kinds[kind].usable
            count = len(numbers.kinds[kind].pods)
            while count:
                best, least = -1, 0.0
                for node, have in left.items():
                    if usable[node] and all(have[resource] >= want for resource, want in wants):
                        rest = sum([share * amount for share, amount in zip(shares, have, strict=True)])
                        if best < 0 or rest < least:
                            best, least = node, rest
                if best < 0:
                    return None
                have = left[best]
                more = min(count, min([have[resource] // want for resource, want in wants]))
                for resource, want in wants:
                    have[resource] -= want * more
                found.append((kind, best, more))
                count -= more
        return found

    def place(self, kind: int, node: int, count: int) -> None:
        """Put so many missing pods on a node that has room for them."""
        self._save(node)
        self._miss(kind, -count)
        there = self.put[node]
        if there is None:
            there = self.put[node] = [0] * len(self.missing)
        there[kind] += count
        have = self.left[node]
        for resource, want in self._wants[kind]:
            have[resource] -= want * count
        self._recount(node)

    def take_off(self, node: int) -> None:
        """All pods put on the node are missing again."""
        there = self.put[node]
        if there is not None:
            self._save(node)
            for kind, count in enumerate(there):
                self._lift(node, kind, count)
            self._recount(node)

    # -- what it costs ---------------------------------------------------------------------------------------------

    def price(self) -> Price:
        """What the eviction costs, by the criteria; budgets are counted over those who go."""
        return self.price_of(sorted(self.gone))

    def price_of(self, order: Sequence[int]) -> Price:
        """The same of any units, in order of importance."""
        if not order:
            return NOBODY
        units, start = self.numbers.units, self._start
        pricing = self.numbers.pricing
        if pricing is not None:
            broken = self._broken(order)
            violations, highest = sum(broken), units[order[0]].priority
            cost = pricing.price(order, broken, self.broken_gangs(order))
            self.counted += 1 + len(order) // 8
            return (violations if pricing.budgets_first else 0), (highest if pricing.by_limit else 0), cost
        highest = units[order[0]].priority
        earliest = start[order[0]]
        for turn in order:
            if units[turn].priority != highest:
                break
            earliest = min(earliest, start[turn])
        weight = self.weight
        total = sum([weight[turn] for turn in order])
        pods = sum([len(units[turn].pods) for turn in order])
        if self.numbers.gangs is not None:
            return sum(self._broken(order)), highest, (self.broken_gangs(order), total, pods, -earliest)
        return sum(self._broken(order)), highest, (total, pods, -earliest)

    def broken_gangs(self, units: Sequence[int]) -> int:
        """How many gangs break if these units go and no others."""
        gangs = self.numbers.gangs
        if gangs is None or not gangs.slack:
            return 0
        left: dict[int, int] = {}
        for unit in units:
            for gang, count in gangs.lost[unit]:
                left[gang] = left.get(gang, gangs.slack[gang]) - count
        return sum([rest < 0 for rest in left.values()])

    def breaking(self, units: Sequence[int]) -> int:
        """How many gangs break with these units, beside those who are gone and those that break with one alone."""
        left: dict[int, int] = {}
        alone = 0
        for unit in units:
            for gang, count in self._lost[unit]:
                slack = self.slack[gang]
                if slack >= 0:
                    left[gang] = left.get(gang, slack) - count
                    alone += slack < count
        return sum([rest < 0 for rest in left.values()]) - alone

    def _broken(self, order: Sequence[int]) -> list[bool]:
        """Which of the units, in order of importance, violate a budget if they all go."""
        if not self.numbers.allowed:
            return [False] * len(order)
        charged, allowed = self.numbers.charged, self.numbers.allowed
        charges = sum([len(charged[turn]) for turn in order])
        self.counted += (len(allowed) + charges) // 64
        if charges > _FEW_CHARGES:
            return self._broken_at_once(order)
        left: dict[int, int] = {}
        broken = []
        for turn in order:
            over = False
            for budget, count in charged[turn]:
                rest = left[budget] = left.get(budget, allowed[budget]) - count
                over = over or rest < 0
            broken.append(over)
        return broken

    def _broken_at_once(self, order: Sequence[int]) -> list[bool]:
        """The same in a pass over all charges: of each budget those of the units that go, summed by importance."""
        units, pods, first, allowed = self._charges
        goes = np.zeros(len(self.numbers.units), dtype=np.bool_)
        order = list(order)  # a tuple would be one index of several dimensions
        goes[order] = True
        going = goes[units]
        sums = np.cumsum(np.where(going, pods, 0))
        broken = np.zeros(len(goes), dtype=np.bool_)
        broken[units[going & (sums - np.where(first > 0, sums[first - 1], 0) > allowed)]] = True
        found: list[bool] = broken[order].tolist()
        return found

    @cached_property
    def _charges(self) -> tuple[npt.NDArray[np.int64], ...]:
        """By budget and importance, `int64[charges]` each: unit, pods, the budget's first charge, what it allows."""
        charged, allowed = self.numbers.charged, np.array(self.numbers.allowed, dtype=np.int64)
        units = np.repeat(np.arange(len(charged)), list(map(len, charged)))
        pairs = np.fromiter(chain.from_iterable(chain.from_iterable(charged)), np.int64, 2 * len(units)).reshape(-1, 2)
        order = np.argsort(pairs[:, 0], kind="stable")
        budgets, pods = pairs[order].T
        return units[order], pods, np.searchsorted(budgets, budgets), allowed[budgets]

    def violating(self, units: Sequence[int]) -> int:
        """How many of these would exceed a budget, evicted one after the other beside those who are gone."""
        charged = self.numbers.charged
        counted = [self._budgets_of(unit) for unit in units]
        if len(set().union(*counted)) == sum(map(len, counted)):  # no budget counts two of them
            return sum([self.over[unit] > 0 for unit in units])
        left: dict[int, int] = {}
        violations = 0
        for unit in units:
            over = False
            for budget, count in charged[unit]:
                rest = left[budget] = left.get(budget, self.budget_left[budget]) - count
                over = over or rest < 0
            violations += over
        return violations

    def _budgets_of(self, unit: int) -> frozenset[int]:
        found = self._counted_by.get(unit)
        if found is None:
            found = self._counted_by[unit] = frozenset([budget for budget, _ in self.numbers.charged[unit]])
        return found

    def gangs(self) -> list[tuple[int, ...]]:
        """The units of each gang that several have a part in."""
        by_gang = [tuple(sorted([unit for units in those.values() for unit in units])) for those in self._members]
        return [units for units in by_gang if len(units) > 1]

    def violates(self, unit: int) -> bool:
        """Whether evicting one more unit would exceed a budget beside those who are gone."""
        return self.over[unit] > 0

    # -- inside ----------------------------------------------------------------------------------------------------

    def _least_holds(self) -> tuple[tuple[int, int, int], ...]:
        """(resource, amount, pods): so many pods ask for that much or more of it, so nodes have to hold that many."""
        kinds = self.numbers.kinds
        return tuple(
            (resource, size, sum(len(kind.pods) for kind in kinds if kind.wants[resource] >= size))
            for resource in range(len(kinds[0].wants))
            for size in sorted({kind.wants[resource] for kind in kinds} - {0})
        )

    def _holds_without(self, unit: int) -> bool:
        """Whether the nodes hold enough of each size with the unit back, were they free of pods put there."""
        takes, empty = self.numbers.takes[unit], self._empty
        for holds, (resource, size, count) in zip(self._holds, self._floors, strict=True):
            for node, amounts in takes:
                amount = amounts[resource]
                if amount:
                    have = empty[node][resource]
                    holds += max(0, have - amount) // size - max(0, have) // size
            if holds < count:
                return False
        return True

    def _charged_by_budget(self) -> list[dict[int, list[int]]]:
        """By budget and pods: the units for which it is charged so many."""
        found: list[dict[int, list[int]]] = [{} for _ in self.numbers.allowed]
        for unit, charged in enumerate(self.numbers.charged):
            for budget, count in charged:
                there = found[budget].get(count)
                if there is None:
                    found[budget][count] = [unit]
                else:
                    there.append(unit)
        return found

    def _charge(self, unit: int, sign: int) -> None:
        """The unit's budgets have less left, or more again; where that decides who violates any it is counted anew."""
        left, over = self.budget_left, self.over
        change, changed, turning = (1, self.dearer, 0) if sign > 0 else (-1, self.dirty, 1)
        for budget, count in self.numbers.charged[unit]:
            before = left[budget]
            after = left[budget] = before - sign * count
            if before <= 0 and after <= 0:
                continue  # nothing was left, and nothing is
            low, high = (after, before) if after < before else (before, after)
            for pods, units in self._charged_on[budget].items():
                if low < pods <= high:
                    for other in units:
                        if over[other] == turning:
                            changed.update([node for node, _ in self.numbers.takes[other]])
                            over[other] += change
                            self._weigh(other)
                        else:
                            over[other] += change

    def _weigh(self, unit: int) -> None:
        """What the unit weighs beside those who are gone."""
        weight = self.weight[unit] + self.breaks[unit] * self.gang_weight
        self.heavy[unit] = weight + BROKEN_BUDGET if self.budgets_first and self.over[unit] else weight

    def least_heavy(self) -> list[float]:
        """By unit: its part of the least that units of one node weigh together, which break their gang once."""
        if not self.slack:
            return self.heavy
        most = [1] * len(self.slack)
        for units in self.numbers.on:
            there = Counter([gang for unit in units for gang, _ in self._lost[unit]])
            for gang, count in there.items():
                most[gang] = max(most[gang], count)
        found = []
        for unit, lost in enumerate(self._lost):
            together = max([most[gang] for gang, _ in lost], default=1)
            shared = self.breaks[unit] * self.gang_weight
            found.append(self.heavy[unit] - shared + shared / together)
        return found

    def _lost_by_gang(self) -> list[dict[int, list[int]]]:
        """By gang and pods: the units with which it loses so many."""
        found: list[dict[int, list[int]]] = [{} for _ in self.slack]
        for unit, lost in enumerate(self._lost):
            for gang, count in lost:
                found[gang].setdefault(count, []).append(unit)
        return found

    def _lose(self, unit: int, sign: int) -> None:
        """The unit's gangs have fewer pods, or more again; units with which they break, or no more, weigh otherwise."""
        for gang, count in self._lost[unit]:
            before = self.slack[gang]
            after = self.slack[gang] = before - sign * count
            for pods, units in self._members[gang].items():
                change = (0 <= after < pods) - (0 <= before < pods)
                if not change:
                    continue
                for other in units:
                    self.breaks[other] += change
                    self._weigh(other)
                    (self.dearer if change > 0 else self.dirty).update([node for node, _ in self.numbers.takes[other]])

    def _shift(self, unit: int, sign: int) -> None:
        """What a unit held is free of it, or held again."""
        if not self._floors:
            return
        holds, empty = self._holds, self._empty
        for node, amounts in self.numbers.takes[unit]:
            have = empty[node]
            for turn, (resource, size, _) in enumerate(self._floors):
                amount = amounts[resource]
                if amount:
                    holds[turn] += max(0, have[resource] + sign * amount) // size - max(0, have[resource]) // size
            for resource, amount in enumerate(amounts):
                have[resource] += sign * amount

    def _tightest(self, kind: int) -> int:
        """The node with room where least is left, -1: none. Of one kind alone any node is as good."""
        places = self.open[kind]
        if len(self.missing) == 1 or len(places) < 2:
            return next(iter(places), -1)
        left, spare, kinds = self.left, self.spare, range(len(self.missing))
        harder = [k for k in kinds if k != kind and self.missing[k]] or [k for k in kinds if k != kind]
        return min(places, key=lambda node: ([spare[k][node] for k in harder], left[node], node))

    def _push_out(self, node: int) -> None:
        """Lift pods off an overdrawn node until those left on it fit: as few as will do, the smallest."""
        there = self.put[node]
        assert there is not None
        asked = [kind.wants for kind in self.numbers.kinds]
        while True:
            have = self.left[node]
            short = [
                (resource, -amount)
                for resource, amount in enumerate(have)
                if amount < 0 and any(there[kind] and wants[resource] for kind, wants in enumerate(asked))
            ]
            if not short:
                return
            best = None
            for kind, count in enumerate(there):
                wants = self.numbers.kinds[kind].wants
                if not count or not any(wants[resource] for resource, _ in short):
                    continue
                needed = max(-(-lack // wants[resource]) if wants[resource] else count for resource, lack in short)
                key = (min(needed, count), wants, kind)
                if best is None or key < best:
                    best = key
            assert best is not None
            self._lift(node, best[2], best[0])

    def _lift(self, node: int, kind: int, count: int) -> None:
        there = self.put[node]
        assert there is not None
        there[kind] -= count
        have = self.left[node]
        for resource, want in self._wants[kind]:
            have[resource] += want * count
        self._miss(kind, count)

    def _miss(self, kind: int, count: int) -> None:
        self.missing[kind] += count
        self._log.append((Eviction._unmiss, (kind, count)))

    def _recount(self, node: int) -> None:
        have = self.left[node]
        self.dirty.add(node)
        for kind, wants in enumerate(self._wants):
            room = 0
            if self.numbers.kinds[kind].usable[node]:
                room = 1 << 40
                for resource, want in wants:
                    fits = have[resource] // want
                    if fits < room:
                        room = fits
                        if room <= 0:
                            room = 0
                            break
            self.spare[kind][node] = room
            if room:
                self.open[kind][node] = None
            else:
                self.open[kind].pop(node, None)

    def _save(self, node: int) -> None:
        there = self.put[node]
        self._log.append((Eviction._unsave, (node, self.left[node].copy(), None if there is None else there.copy())))

    def _unsave(self, node: int, left: list[int], put: list[int] | None) -> None:
        self.left[node] = left
        self.put[node] = put
        self._uncounted[node] = None

    def _unevict(self, unit: int) -> None:
        self.gone.remove(unit)
        self._shift(unit, -1)
        self._charge(unit, -1)
        self._lose(unit, -1)

    def _unrestore(self, unit: int) -> None:
        self.gone.add(unit)
        self._shift(unit, 1)
        self._charge(unit, 1)
        self._lose(unit, 1)

    def _unbar(self, unit: int) -> None:
        self.barred.remove(unit)
        self.dirty.update(node for node, _ in self.numbers.takes[unit])

    def _rebar(self, unit: int) -> None:
        self.barred.add(unit)
        self.dirty.update(node for node, _ in self.numbers.takes[unit])

    def _unmiss(self, kind: int, count: int) -> None:
        self.missing[kind] -= count
