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
    useful = [each for each in units if any(each[1][resource] > 0 for resource, _ in lack)]
    beyond = [(resource, sum([each[1][resource] for each in useful]) - n) for resource, n in lack]
    if any(amount < 0 for _, amount in beyond):
        return None
    if all(any(each[1][resource] > amount for resource, amount in beyond) for each in useful):
        return [each[2] for each in useful]  # none can stay
    useful.sort(key=lambda each: (each[0] / sum(min(each[1][r] / n, 1.0) for r, n in lack), each[2]))
    rest = list(lack)
    chosen: list[tuple[float, Amounts, int]] = []
    for each in useful:
        if not rest:
            break
        if any(each[1][resource] > 0 for resource, _ in rest):
            chosen.append(each)
            rest = [(resource, n - each[1][resource]) for resource, n in rest if n > each[1][resource]]
    if rest:
        return None
    for each in sorted(chosen, key=lambda each: (-each[0], each[2])):
        others = [other for other in chosen if other is not each]
        if all(sum(other[1][resource] for other in others) >= n for resource, n in lack):
            chosen = others
    weight = sum(each[0] for each in chosen)
    best = [each[2] for each in chosen]
    for each in useful:
        if each[0] < weight and all(each[1][resource] >= n for resource, n in lack):
            weight, best = each[0], [each[2]]
    if len(best) > 1 and len(useful) <= _PAIRS:
        for turn, one in enumerate(useful):
            for other in useful[turn + 1 :]:
                if one[0] + other[0] < weight and all(one[1][r] + other[1][r] >= n for r, n in lack):
                    weight, best = one[0] + other[0], [one[2], other[2]]
    return best
