"""The order of steps that does the least harm in all, as far as a bounded search finds it (whatif.md 7.1).

What a step does depends on those before it.  The search goes on from several orders at once, a step at a time: of the
orders of the same steps only the one that did the least harm is kept, and of all those only the best few.  With as many
as there are sets of steps it tries every set.  A state is whatever the caller makes of one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import comb
from typing import NamedTuple, TypeVar

Harm = tuple[int, ...]
State = TypeVar("State")
Step = TypeVar("Step")
Made = TypeVar("Made")


class _Order(NamedTuple):
    """An order of some of the steps. `made`: what each does; `state`: after them."""

    harm: Harm
    steps: tuple[object, ...]
    made: tuple[object, ...]
    state: object


def width_for(steps: int, most: int) -> int:
    """Return from how many orders at once the search may go on, so that it looks at no more than `most` next steps.

    0 where not even one order may be looked at.
    """
    width = 0
    while width < comb(steps, steps // 2) and _next_steps(steps, width + 1) <= most:
        width += 1
    return width


def _next_steps(steps: int, width: int) -> int:
    """Return how many next steps are looked at from so many orders at once."""
    return sum(min(width, comb(steps, done)) * (steps - done) for done in range(steps))


def least_harm(
    start: State, steps: Sequence[Step], then: Callable[[State, Step], tuple[Harm, Made, State]], width: int
) -> tuple[Harm, list[Made]]:
    """Return the harm of the best order that is found, and what its steps do.

    `then`: (harm, what it does, state after it) of a step in a state. Of equal harm the first by name of steps wins.
    """
    kept = [_Order((), (), (), start)]
    for _ in steps:
        by_set: dict[frozenset[object], _Order] = {}
        for order in kept:
            for step in steps:
                if step in order.steps:
                    continue
                harm, made, state = then(order.state, step)  # type: ignore[arg-type]
                total = tuple(map(sum, zip(order.harm or (0,) * len(harm), harm, strict=True)))
                found = _Order(total, (*order.steps, step), (*order.made, made), state)
                done = frozenset(found.steps)
                if done not in by_set or found[:2] < by_set[done][:2]:
                    by_set[done] = found
        kept = sorted(by_set.values(), key=lambda order: order[:2])[:width]
    best = kept[0]
    return best.harm, list(best.made)  # type: ignore[arg-type]
