"""Bounded caches for functions of one text that untrusted input chooses.

`functools.lru_cache` limits the number of results, not their size: a thousand names of a megabyte are a gigabyte. Here
results for texts beyond a maximum length are computed each time and not cached.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import AnyStr, TypeVar

LONGEST = 512
"""Maximum length of a cached text, in characters."""

ResultT = TypeVar("ResultT")


class Results(dict[AnyStr, ResultT]):
    """Text -> result. A full cache is emptied; a lookup takes a fraction of the time of `lru_cache`."""

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
    """Return a decorator for a function of one text; it caches up to `maxsize` results of texts up to `longest`."""

    def decorate(function: Callable[[AnyStr], ResultT]) -> Callable[[AnyStr], ResultT]:
        return Results(function, maxsize, longest).__getitem__

    return decorate
