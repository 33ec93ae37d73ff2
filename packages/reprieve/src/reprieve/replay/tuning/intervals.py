"""Confidence intervals: the bootstrap over blocks, seeded (tune.md 4)."""

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from reprieve.replay.tuning.objectives import Measured, value_of

RESAMPLES: Final = 2000
_SHARE: Final = (2.5, 97.5)


class Interval(msgspec.Struct, frozen=True):
    """A value over blocks, with the 95 % interval of the bootstrap."""

    value: float
    low: float
    high: float


def interval(measured: Sequence[Measured], seed: int) -> Interval:
    """Return the value of blocks with its interval."""
    return Interval(value_of(measured), *_bounds(_resampled(measured, seed)))


def difference(measured: Sequence[Measured], base: Sequence[Measured], seed: int) -> Interval:
    """Return the difference from the base on the same blocks; both are resampled together."""
    drawn = _resampled(measured, seed) - _resampled(base, seed)
    return Interval(round(value_of(measured) - value_of(base), 6), *_bounds(drawn))


def _resampled(measured: Sequence[Measured], seed: int) -> np.ndarray:
    """Values of the resamples, float64[RESAMPLES]."""
    pairs = np.asarray(measured, dtype=np.float64).reshape(-1, 2)
    drawn = np.random.default_rng(seed).integers(0, len(pairs), size=(RESAMPLES, len(pairs)))
    amounts, divisors = pairs[drawn, 0].sum(axis=1), pairs[drawn, 1].sum(axis=1)
    values: np.ndarray = np.divide(amounts, divisors, out=np.zeros_like(amounts), where=divisors > 0)
    return values


def _bounds(values: np.ndarray) -> tuple[float, float]:
    low, high = np.percentile(values, _SHARE)
    return round(float(low), 6), round(float(high), 6)
