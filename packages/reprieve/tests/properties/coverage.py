"""Properties that say how often they must have met what they are about.

A property that never meets a preemption holds whatever the product does.  `met` counts what an example came to, and
`must_meet` fails the whole property afterwards if that was too seldom: because nothing calls the judge any more, or
because the clusters that are drawn have become too tame.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import event

from tests.drawing import looks_at_new

_met: Counter[str] = Counter()
_Test = TypeVar("_Test", bound=Callable[..., None])


def met(what: str, times: int = 1) -> None:
    """An example came to this, so many times; also among Hypothesis' statistics."""
    if times:
        _met[what] += times
        event(what)


def must_meet(**least: int) -> Callable[[_Test], _Test]:
    """Outermost decorator of a property: by its end each of these was met at least so often, over all examples."""

    def decorated(test: _Test) -> _Test:
        @functools.wraps(test)
        def run(*args: Any, **named: Any) -> None:
            _met.clear()
            test(*args, **named)
            if looks_at_new():  # a round is too short to be counted
                return
            seldom = {what: _met[what] for what, number in least.items() if _met[what] < number}
            assert not seldom, f"met too seldom to prove anything: {seldom}, expected at least {least}"

        return run  # type: ignore[return-value]

    return decorated
