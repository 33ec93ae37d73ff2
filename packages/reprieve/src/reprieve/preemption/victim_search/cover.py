"""The cheapest units that together cover the missing amounts of a node."""

from collections.abc import Sequence

from reprieve.preemption.victim_search.problem import Amounts

_PAIRS = 16
"""Up to this number of units, every pair is tried."""


def cheapest_cover(lack: Sequence[tuple[int, int]], units: Sequence[tuple[float, Amounts, int]]) -> list[int] | None:
    """Return units of low weight that together cover the missing amounts; None if all of them do not.

    Exact if one or two units are enough, else by weight per contribution, without superfluous units.
    """
    if not lack:
        return []
    useful = [unit for unit in units if any(unit[1][resource] > 0 for resource, _ in lack)]
    beyond = [(resource, sum([unit[1][resource] for unit in useful]) - n) for resource, n in lack]
    if any(amount < 0 for _, amount in beyond):
        return None
    if all(any(unit[1][resource] > amount for resource, amount in beyond) for unit in useful):
        return [unit[2] for unit in useful]  # none of them can stay
    useful.sort(key=lambda unit: (unit[0] / sum(min(unit[1][r] / n, 1.0) for r, n in lack), unit[2]))
    rest = list(lack)
    chosen: list[tuple[float, Amounts, int]] = []
    for unit in useful:
        if not rest:
            break
        if any(unit[1][resource] > 0 for resource, _ in rest):
            chosen.append(unit)
            rest = [(resource, n - unit[1][resource]) for resource, n in rest if n > unit[1][resource]]
    if rest:
        return None
    for unit in sorted(chosen, key=lambda unit: (-unit[0], unit[2])):
        rest_of_chosen = [u for u in chosen if u is not unit]
        if all(sum(u[1][resource] for u in rest_of_chosen) >= n for resource, n in lack):
            chosen = rest_of_chosen
    weight = sum(unit[0] for unit in chosen)
    best = [unit[2] for unit in chosen]
    for unit in useful:
        if unit[0] < weight and all(unit[1][resource] >= n for resource, n in lack):
            weight, best = unit[0], [unit[2]]
    if len(best) > 1 and len(useful) <= _PAIRS:
        for turn, first in enumerate(useful):
            for second in useful[turn + 1 :]:
                if first[0] + second[0] < weight and all(first[1][r] + second[1][r] >= n for r, n in lack):
                    weight, best = first[0] + second[0], [first[2], second[2]]
    return best
