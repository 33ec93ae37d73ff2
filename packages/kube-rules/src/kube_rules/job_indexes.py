"""Indexes of an indexed Job as intervals, the form of `completedIndexes` and `failedIndexes` in its status (`0-2,5`).

A Job can have 2,147,483,647 completions, and any client with the right to update its status can list all of them.
Indexes are therefore kept as intervals: the cost of a list depends on the length of its text, not on its span.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from kube_rules.selectors import parse_integer


class JobIndexes:
    """A set of indexes from 0 to below `completions`, read from any number of lists, which may overlap.

    As in kube-controller-manager, an interval with an end that is not an int64 is ignored, and so are indexes beyond
    the completions.
    """

    __slots__ = ("_firsts", "_lasts")

    def __init__(self, completions: int, *lists: str) -> None:
        read = sorted(
            (first, min(last, completions - 1))
            for written in lists
            for part in written.split(",")
            for first, last in _interval(part)
            if first <= last and first < completions
        )
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        for first, last in read:
            if self._lasts and first <= self._lasts[-1] + 1:
                self._lasts[-1] = max(self._lasts[-1], last)
            else:
                self._firsts.append(first)
                self._lasts.append(last)

    def __contains__(self, index: int) -> bool:
        at = bisect_right(self._firsts, index) - 1
        return at >= 0 and index <= self._lasts[at]

    def __len__(self) -> int:
        return sum(self._lasts) - sum(self._firsts) + len(self._firsts)

    def __str__(self) -> str:
        """Return the list in the form of a status: three or more consecutive indexes are a range."""
        intervals = zip(self._firsts, self._lasts, strict=True)
        return ",".join(_written(first, last) for first, last in intervals)

    def add(self, index: int) -> None:
        """Add an index; an index that is already in the set changes nothing."""
        if index in self:
            return
        at = bisect_left(self._firsts, index)
        joins_before = at > 0 and self._lasts[at - 1] == index - 1
        joins_after = at < len(self._firsts) and self._firsts[at] == index + 1
        if joins_before and joins_after:
            self._lasts[at - 1] = self._lasts.pop(at)
            del self._firsts[at]
        elif joins_before:
            self._lasts[at - 1] = index
        elif joins_after:
            self._firsts[at] = index
        else:
            self._firsts.insert(at, index)
            self._lasts.insert(at, index)

    def common(self, indexes: JobIndexes) -> int:
        """Return the number of indexes in both sets."""
        count = at = 0
        for first, last in zip(self._firsts, self._lasts, strict=True):
            while at < len(indexes._firsts) and indexes._lasts[at] < first:
                at += 1
            beside = at
            while beside < len(indexes._firsts) and indexes._firsts[beside] <= last:
                count += min(last, indexes._lasts[beside]) - max(first, indexes._firsts[beside]) + 1
                beside += 1
        return count

    def missing(self, completions: int) -> Iterator[int]:
        """Yield the indexes below `completions` that are not in the set, lowest first."""
        begin = 0
        for first, last in zip(self._firsts, self._lasts, strict=True):
            yield from range(begin, min(first, completions))
            begin = last + 1
        yield from range(begin, completions)


def _written(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first},{last}" if last == first + 1 else f"{first}-{last}"


def _interval(part: str) -> Iterator[tuple[int, int]]:
    """Yield the interval of `5` or `0-2`; nothing for an invalid text."""
    written, dash, last_written = part.partition("-")
    first = parse_integer(written)
    last = parse_integer(last_written) if dash else first
    if first is not None and last is not None and first >= 0:
        yield first, last
