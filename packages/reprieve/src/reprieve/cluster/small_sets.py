"""Sets of which there are very many, and that mostly hold nothing or one item.

Among pods that all differ each has a label class, a term and a place in an index of its own: a dict for every one of
them would be most of what a cluster takes in memory.  `Few[T]` is None, the item itself, or `Several` of them, in the
order they came; the functions here give back what to keep in its place.  Items are never None nor dicts.

Invariant: `Several` holds at least two items.
"""

from collections.abc import Collection, Hashable
from typing import TypeAlias, TypeVar

T = TypeVar("T", bound=Hashable)


class Several(dict[T, None]):
    """Two items or more."""

    __slots__ = ()


Few: TypeAlias = T | Several[T] | None
"""Nothing, one item, or several."""


def joined(few: Few[T], item: T) -> Few[T]:
    """With an item that may be in already."""
    if few is None:
        return item
    if isinstance(few, Several):
        few[item] = None
        return few
    return few if few == item else Several({few: None, item: None})


def left(few: Few[T], item: T) -> Few[T]:
    """Without an item that may not be in."""
    if not isinstance(few, Several):
        return None if few == item else few
    few.pop(item, None)
    if len(few) > 1:
        return few
    (last,) = few
    return last


def each(few: Few[T]) -> Collection[T]:
    """Return the items; not to be kept, as it may follow what happens to the set."""
    if few is None:
        return ()
    return few if isinstance(few, Several) else (few,)


def count(few: Few[T]) -> int:
    """Return how many items there are."""
    if few is None:
        return 0
    return len(few) if isinstance(few, Several) else 1
