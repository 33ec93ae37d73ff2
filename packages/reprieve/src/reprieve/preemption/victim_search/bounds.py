"""Lower bounds of the cost of any eviction."""

from collections.abc import Sequence

from reprieve.preemption.victim_search.eviction import Eviction
from reprieve.preemption.victim_search.problem import Numbers


def least_weight(state: Eviction) -> int:
    """Return a lower bound of the weight (priorities summed as in preemption.md 3), before any unit is evicted.

    Each resource is considered alone, as if freed amounts could be used anywhere and units were evicted in parts.
    """
    numbers = state.numbers
    usable = [any(kind.usable[node] for kind in numbers.kinds) for node in range(len(numbers.free))]
    bound = 0
    for resource in range(len(numbers.kinds[0].wants)):
        lack = _lack(state, resource, usable)
        shares = []
        for unit, takes in enumerate(numbers.takes):
            amount = sum(amounts[resource] for node, amounts in takes if usable[node])
            if amount > 0 and unit not in state.barred:
                shares.append((state.weights.weight[unit] / amount, amount, state.weights.weight[unit]))
        shares.sort()
        total = 0.0
        for rate, amount, weight in shares:
            if lack <= 0:
                break
            total += weight if amount <= lack else rate * lack
            lack -= amount
        bound = max(bound, int(total * (1 - 1e-12)))
    return bound


def fewest_gangs(state: Eviction) -> int:
    """Return a lower bound of broken gangs, before any unit is evicted.

    Each resource is considered alone, without all units that break no gang, and with all amounts of each gang that
    breaks.
    """
    numbers, gangs = state.numbers, state.numbers.gangs
    if gangs is None or not gangs.slack:
        return 0
    usable = [any(kind.usable[node] for kind in numbers.kinds) for node in range(len(numbers.free))]
    bound = 0
    for resource in range(len(numbers.kinds[0].wants)):
        lack = _lack(state, resource, usable)
        by_gang = [0] * len(gangs.slack)
        for unit, takes in enumerate(numbers.takes):
            amount = sum(amounts[resource] for node, amounts in takes if usable[node])
            if amount > 0 and unit not in state.barred:
                mine = gangs.lost[unit]
                if not mine or (len(mine) == 1 and gangs.slack[mine[0][0]] >= mine[0][1]):
                    lack -= amount  # it may be evicted without breaking a gang
                else:
                    by_gang[max(mine, key=lambda pair: by_gang[pair[0]])[0]] += amount
        fewest = 0
        for amount in sorted(by_gang, reverse=True):
            if lack <= 0:
                break
            lack -= amount
            fewest += 1
        bound = max(bound, fewest)
    return bound


def all_necessary(numbers: Numbers, units: Sequence[int]) -> bool:
    """Return whether every eviction that places all of the pods includes all these units: then none costs less.

    Each unit is tested alone, with all others evicted.
    """
    kind = numbers.kinds[0]
    wanted = kind.wanted
    if not wanted:
        return False

    def places(have: Sequence[int]) -> int:
        return max(0, min([have[resource] // want for resource, want in wanted]))

    free, usable = numbers.free, kind.usable
    surplus = sum([places(have) for have, may in zip(free, usable, strict=True) if may]) - len(kind.pods)
    for unit in units:
        lost = 0
        for node, amounts in numbers.takes[unit]:
            if usable[node]:
                have = free[node]
                lost += places(have) - places([amount - freed for amount, freed in zip(have, amounts, strict=True)])
        if lost <= surplus:
            return False
    return True


def _lack(state: Eviction, resource: int, usable: Sequence[bool]) -> int:
    """Return the amount by which the pods' requests of a resource exceed the free amounts of all nodes together."""
    kinds, unplaced = state.numbers.kinds, state.places.unplaced
    requested = sum(kind.wants[resource] * count for kind, count in zip(kinds, unplaced, strict=True))
    return requested - sum(max(0, left[resource]) for node, left in enumerate(state.places.left) if usable[node])
