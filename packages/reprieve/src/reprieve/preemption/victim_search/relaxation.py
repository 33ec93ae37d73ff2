"""A lower bound of the gangs that an eviction for like pods breaks, by a Lagrangian relaxation.

Gangs may break in parts, but a node has the places that it would not have beside a gang only as far as the gang breaks:
where eight pods of two gangs have to leave a node for one place, half a place breaks half of both.  For every pair of a
gang and a node such a constraint is relaxed with a multiplier; any multipliers give a valid bound, and subgradient
steps (Polyak's, with a part of the previous direction) raise it.
"""

import numpy as np
import numpy.typing as npt

from reprieve.preemption.victim_search.eviction import Eviction
from reprieve.preemption.victim_search.problem import Gangs

_STEPS = 60
_MOMENTUM = 0.6
_ROUNDING = 1e-9
"""By so much of what is summed up a bound may be too high."""
_Ints = npt.NDArray[np.int64]


def gangs_by_nodes(state: Eviction, enough: int) -> int:
    """No eviction for like pods breaks fewer gangs than this; what is above `enough` is not looked for."""
    numbers = state.numbers
    kind, gangs = numbers.kinds[0], numbers.gangs
    if gangs is None or not gangs.slack or not kind.wanted:
        return 0
    columns = [resource for resource, _ in kind.wanted]
    want = np.array([amount for _, amount in kind.wanted], dtype=np.int64)
    usable = np.array(kind.usable, dtype=np.bool_)

    def places(have: _Ints, nodes: _Ints | slice) -> _Ints:
        return np.where(usable[nodes], np.maximum((have // want).min(axis=1), 0), 0)

    free = np.array(numbers.free, dtype=np.int64)[:, columns]
    units, nodes, amounts = state.shares
    amounts = amounts[:, columns]
    held = np.zeros_like(free)
    np.add.at(held, nodes, amounts)
    full = places(free, slice(None))
    gang, node, together = _held_by_gang(gangs, units, nodes, amounts, len(free))
    least = places(free - held, slice(None))
    loss = (full[node] - places(free[node] - together, node)).astype(np.float64)
    room = (full - least).astype(np.float64)
    useful = loss > 0
    return _raised(gang[useful], node[useful], loss[useful], room, len(kind.pods) - int(least.sum()), enough)


def _raised(
    gang: _Ints, node: _Ints, loss: npt.NDArray[np.float64], room: npt.NDArray[np.float64], lacking: int, enough: int
) -> int:
    """The bound for these pairs: `loss` places of the node are missing while the gang stays.

    `room[node]`: places that the node gains with every unit gone; `lacking`: so many are needed.
    """
    count = int(gang.max(initial=-1)) + 1
    multiplier = 1.0 / np.maximum(np.bincount(gang, loss, minlength=count), 1.0)[gang]
    best, direction = 0.0, np.zeros(len(gang))
    for _ in range(_STEPS):
        reduced = 1.0 - np.bincount(gang, multiplier * loss, minlength=count)
        rate = np.bincount(node, multiplier, minlength=len(room))
        order = np.argsort(rate, kind="stable")
        gained = np.empty(len(room))
        gained[order] = np.clip(lacking - (np.cumsum(room[order]) - room[order]), 0.0, room[order])
        bound = float(np.minimum(reduced, 0.0).sum() + rate @ gained + multiplier @ (loss - room[node]))
        best = max(best, bound - _ROUNDING * float(multiplier @ (loss + room[node])))
        if best > enough - 1 + 1e-6:
            break
        direction = gained[node] - room[node] + loss * (reduced[gang] >= 0) + _MOMENTUM * direction
        size = float(direction @ direction)
        if size == 0.0:
            break
        multiplier = np.maximum(multiplier + (enough - bound) / size * direction, 0.0)
    return int(np.ceil(best - 1e-6))


def _held_by_gang(gangs: Gangs, units: _Ints, nodes: _Ints, amounts: _Ints, width: int) -> tuple[_Ints, _Ints, _Ints]:
    """(gang, node, amounts) of what the units hold there with each of which the gang breaks; of each unit one gang."""
    gang_of = np.full(len(gangs.lost), -1, dtype=np.int64)
    for unit, losses in enumerate(gangs.lost):
        for gang, count in losses:
            if gangs.slack[gang] < count:
                gang_of[unit] = gang
    broken = gang_of[units]
    breaking = broken >= 0
    keys: _Ints = np.asarray(broken[breaking] * width + nodes[breaking], dtype=np.int64)
    pairs, pair = np.unique(keys, return_inverse=True)
    together = np.zeros((len(pairs), amounts.shape[1]), dtype=np.int64)
    np.add.at(together, pair, amounts[breaking])
    return pairs // width, pairs % width, together
