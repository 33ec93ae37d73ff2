"""The order of steps with the least total harm, by a bounded search (whatif.md 7.1).

The effect of a step depends on the steps before it. The search extends several orders at once, one step at a time. Of
orders with the same steps it keeps only the least harmful, and of all those only the best few. With a width of the
number of sets of steps the search is exhaustive. The caller defines the states.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import comb
from typing import NamedTuple, TypeVar

Harm = tuple[int, ...]
State = TypeVar("State")
Step = TypeVar("Step")
Effect = TypeVar("Effect")


class _Order(NamedTuple):
    """An order of some of the steps. `effects`: of each step; `state`: after the steps."""

    harm: Harm
    steps: tuple[object, ...]
    effects: tuple[object, ...]
    state: object


def width_for(steps: int, most: int) -> int:
    """Return the largest width of the search that evaluates at most `most` steps.

    0 if even a single order exceeds the limit.
    """
    width = 0
    while width < comb(steps, steps // 2) and _next_steps(steps, width + 1) <= most:
        width += 1
    return width


def _next_steps(steps: int, width: int) -> int:
    """Return the number of steps to evaluate with this width."""
    return sum(min(width, comb(steps, done)) * (steps - done) for done in range(steps))


def least_harm(
    start: State, steps: Sequence[Step], then: Callable[[State, Step], tuple[Harm, Effect, State]], width: int
) -> tuple[Harm, list[Effect]]:
    """Return the harm of the best order found, and the effects of its steps.

    `then`: returns (harm, effect, next state) of a step in a state. With equal harm the first order by step names wins.
    """
    best_orders = [_Order((), (), (), start)]
    for _ in steps:
        by_set: dict[frozenset[object], _Order] = {}
        for order in best_orders:
            for step in steps:
                if step in order.steps:
                    continue
                harm, effect, state = then(order.state, step)  # type: ignore[arg-type]
                total = tuple(map(sum, zip(order.harm or (0,) * len(harm), harm, strict=True)))
                longer_order = _Order(total, (*order.steps, step), (*order.effects, effect), state)
                done = frozenset(longer_order.steps)
                if done not in by_set or longer_order[:2] < by_set[done][:2]:
                    by_set[done] = longer_order
        best_orders = sorted(by_set.values(), key=lambda order: order[:2])[:width]
    best = best_orders[0]
    return best.harm, list(best.effects)  # type: ignore[arg-type]
