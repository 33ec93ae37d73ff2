"""Random cases of a millisecond or less, many in one test: a test for each would cost several times what it runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any


def each_seed(seeds: Iterable[int]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test that takes a `seed` with each of them; a failure says with which."""

    def of(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def with_each(**others: Any) -> None:
            for seed in seeds:
                try:
                    test(seed=seed, **others)
                except BaseException as failure:
                    failure.add_note(f"seed {seed}")
                    raise

        signature = inspect.signature(test)
        others = [each for name, each in signature.parameters.items() if name != "seed"]
        with_each.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return with_each

    return of
