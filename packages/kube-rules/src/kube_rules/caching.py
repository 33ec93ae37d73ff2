"""Bounded caches for functions of one text that untrusted input chooses.

`functools.lru_cache` limits the number of results, not their size: a thousand names of a megabyte are a gigabyte.
Here the result for a text beyond a length is computed each time and never kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import AnyStr, TypeVar

LONGEST = 512
"""Characters of the longest text that is kept."""

ResultT = TypeVar("ResultT")


class Results(dict[AnyStr, ResultT]):
    """Text -> result. A full cache is emptied; to look a text up takes a fraction of the time of `lru_cache`."""

    def __init__(self, function: Callable[[AnyStr], ResultT], maxsize: int, longest: int) -> None:
        self._function: Callable[[AnyStr], ResultT] = function
        self._maxsize, self._longest = maxsize, longest

    def __missing__(self, text: AnyStr) -> ResultT:
        result = self._function(text)
        if len(text) <= self._longest:
            if len(self) >= self._maxsize:
                self.clear()
            self[text] = result
        return result


def remembered(
    maxsize: int, longest: int = LONGEST
) -> Callable[[Callable[[AnyStr], ResultT]], Callable[[AnyStr], ResultT]]:
    """Return a decorator for a pure function of one text that keeps `maxsize` results, none of a longer text."""

    def decorate(function: Callable[[AnyStr], ResultT]) -> Callable[[AnyStr], ResultT]:
        return Results(function, maxsize, longest).__getitem__

    return decorate
