"""Remembering what was made of texts that strangers choose.

`functools.lru_cache` bounds how many results are kept, not how large they are: a thousand names of a megabyte are a
gigabyte. Here texts beyond a length are worked on each time and never kept.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import AnyStr, TypeVar

LONGEST = 512
"""Characters of a text that is kept."""

ResultT = TypeVar("ResultT")


def remembered(
    maxsize: int, longest: int = LONGEST
) -> Callable[[Callable[[AnyStr], ResultT]], Callable[[AnyStr], ResultT]]:
    """A decorator for a pure function of one text: so many results are kept, none of a longer text."""

    def decorate(function: Callable[[AnyStr], ResultT]) -> Callable[[AnyStr], ResultT]:
        kept = lru_cache(maxsize=maxsize)(function)

        @wraps(function)
        def call(text: AnyStr) -> ResultT:
            return kept(text) if len(text) <= longest else function(text)

        return call

    return decorate
