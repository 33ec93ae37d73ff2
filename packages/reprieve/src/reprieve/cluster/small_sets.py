"""Memory-efficient sets for very many sets with at most one item.

If all pods differ, each has its own label class, term and index entries. A dict for each of them would take most of the
memory of a cluster. `Few[T]` is None, the item itself, or `Several` items in insertion order; the functions return the
new value to store. Items are never None or dicts.

Invariant: `Several` holds at least two items.
"""

from collections.abc import Collection, Hashable
from typing import TypeAlias, TypeVar

T = TypeVar("T", bound=Hashable)


class Several(dict[T, None]):
    """Two or more items."""

    __slots__ = ()


Few: TypeAlias = T | Several[T] | None
"""No item, one item, or several."""


def joined(few: Few[T], item: T) -> Few[T]:
    """Return the set with the item added."""
    if few is None:
        return item
    if isinstance(few, Several):
        few[item] = None
        return few
    return few if few == item else Several({few: None, item: None})


def left(few: Few[T], item: T) -> Few[T]:
    """Return the set without the item."""
    if not isinstance(few, Several):
        return None if few == item else few
    few.pop(item, None)
    if len(few) > 1:
        return few
    (last,) = few
    return last


def each(few: Few[T]) -> Collection[T]:
    """Return the items. Do not store the result: it may change with the set."""
    if few is None:
        return ()
    return few if isinstance(few, Several) else (few,)


def count(few: Few[T]) -> int:
    """Return the number of items."""
    if few is None:
        return 0
    return len(few) if isinstance(few, Several) else 1
