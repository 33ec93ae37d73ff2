"""The weight of bundles of units per added place, node by node (cost.md 4)."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from reprieve.preemption.victim_search.eviction import Eviction

Bundle = tuple[float, int, tuple[int, ...]]
"""Weight, number of places, and units."""
MISSING = (1, 2, 4, 8, 1 << 40)
"""Numbers of missing pods for which the best bundle of each node is recorded: further places have no value."""


def least_rates(eviction: Eviction, kind: int) -> tuple[npt.NDArray[np.float64], list[int]]:
    """Return lower bounds of the weight per place, `float64[missing, nodes]`, by the number of missing pods.

    Also return, by unit, the number of places that its eviction alone adds on all nodes; -1 if it may not be evicted,
    or if no unit may.

    A bound is infinite where a node has no bundle, and exact where only one unit may be evicted.  Elsewhere the
    scarcest resource bounds the gain: the units' shares of it, divided by the amount for the first place or rounded up
    to whole places, and at most the gain of all units together.  Several units never weigh less for each place than the
    best of them, if those of one gang share the weight of breaking it.
    """
    wants = eviction.numbers.kinds[kind].wanted
    columns = [resource for resource, _ in wants]
    nodes = len(eviction.places.left)
    rates = np.full((len(MISSING), nodes), np.inf)
    units, at, amounts = eviction.shares
    may_go = np.ones(len(eviction.heavy), dtype=np.bool_)
    may_go[[*eviction.evicted, *eviction.barred]] = False
    usable = np.array(eviction.numbers.kinds[kind].usable, dtype=np.bool_)
    evictable = may_go[units] & usable[at]
    units, at, amounts = units[evictable], at[evictable], amounts[evictable]
    if not columns or not len(units):
        return rates, [-1] * len(may_go)
    want = np.array([amount for _, amount in wants], dtype=np.int64)
    first = np.flatnonzero(np.diff(at, prepend=-1))
    having = at[first]
    own = np.repeat(np.arange(len(first)), np.diff(first, append=len(at)))
    have = np.array([eviction.places.left[node] for node in having], dtype=np.int64)[:, columns]
    amounts = amounts[:, columns]
    fits = have // want
    now = np.maximum(fits.min(axis=1), 0)
    most = np.maximum((((have + np.add.reduceat(amounts, first)) // want).min(axis=1) - now), 0)
    scarcest = fits.argmin(axis=1)
    want_there = want[scarcest]
    lack = want_there - np.maximum(have[np.arange(len(having)), scarcest], 0) % want_there
    shares = np.maximum(amounts[np.arange(len(at)), scarcest[own]], 0)
    gain = np.minimum(np.minimum(shares / lack[own], -(-shares // want_there[own])), most[own])
    alone = np.bincount(own) == 1
    weight = np.array(eviction.least_heavy()) + np.array(eviction.weights.age)
    by_unit = gain
    for chosen in (slice(None), alone[own]):
        by_unit = np.bincount(units, weights=gain, minlength=len(may_go))
        gains = by_unit[units[chosen]]
        with np.errstate(divide="ignore"):
            for level, missing in enumerate(MISSING):
                per_place = weight[units[chosen]] / np.minimum(gains, missing)
                if isinstance(chosen, slice):
                    rates[level, having] = np.minimum.reduceat(per_place, first)
                else:
                    rates[level, having[alone]] = per_place
        places = ((have[own] + amounts) // want).min(axis=1)
        gain = np.maximum(places, 0) - now[own]
    return rates * (1 - 1e-12), np.where(may_go, by_unit, -1).astype(np.int64).tolist()


def rates_of(bundles: Sequence[Bundle]) -> list[float]:
    """Return the weight per place of the best bundle, by the number of missing places."""
    if not bundles:
        return [float("inf")] * len(MISSING)
    rates = _per_place(*bundles[0][:2])
    for weight, gain, _ in bundles[1:]:
        rates = list(map(min, rates, _per_place(weight, gain)))
    return rates


def _per_place(weight: float, gain: int) -> list[float]:
    return [weight / (gain if gain < count else count) for count in MISSING]
