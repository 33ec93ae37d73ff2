"""Changes of the cluster cache since a reader last read them.

A cache of results about nodes has a `ChangeReader`: `take` returns the rows to recompute, or None to recompute all. A
`GangReader` returns the groups with a changed number of running pods. A reader of *lasting* changes skips completed
trials, which left everything unchanged.

Invariant: a row is in the log if its pods, nominations or allocatable amounts changed; any other change of a node
increments `NodeColumns.static_version`.
"""

from collections.abc import Hashable, Sequence
from itertools import pairwise
from typing import Generic, TypeVar

from reprieve.cluster.nodes import NodeColumns

T = TypeVar("T", int, str)


class ChangeLog(Generic[T]):
    """The changed rows or groups in order, with repetitions."""

    __slots__ = ("_before", "_forgotten", "_lasting", "_open", "_sorted_out", "_undone", "entries", "epoch")

    def __init__(self) -> None:
        self.entries: list[T] = []
        self.epoch = 0
        """Increases when the log starts over."""
        self._before = 0
        """The number of entries before the log started over."""
        self._open: list[int] = []
        """The positions where open trials began."""
        self._undone: list[tuple[int, int]] = []
        """The ranges of entries of completed trials: (start, end)."""
        self._lasting: list[T] = []
        self._forgotten = 0
        """The number of lasting entries removed from `_lasting`."""
        self._sorted_out = 0
        """The number of entries already processed for `_lasting`."""

    @property
    def total(self) -> int:
        """Return the number of changes ever logged, including trials."""
        return self._before + len(self.entries)

    def trial_begins(self) -> None:
        """Mark the following entries as temporary until `trial_ends`."""
        self._open.append(len(self.entries))

    def trial_ends(self) -> None:
        """Record that everything since the trial began has been undone."""
        began = self._open.pop()
        while self._undone and self._undone[-1][0] >= began:
            self._undone.pop()
        if len(self.entries) > began:
            self._undone.append((began, len(self.entries)))

    def forget_from(self, position: int) -> None:
        """Drop the entries from `position` on, which no reader has read."""
        del self.entries[position:]
        while self._undone and self._undone[-1][1] > position:
            self._undone.pop()

    def net(self) -> tuple[list[T], int, list[T]]:
        """Return the lasting entries (read only), the number of entries before them, and the entries of open trials."""
        now, end = self._open[0] if self._open else len(self.entries), len(self.entries)
        if now > self._sorted_out:
            self._lasting += self._kept(self._sorted_out, now)
            self._sorted_out = now
            self._undone = [part for part in self._undone if part[1] > now]
        return self._lasting, self._forgotten, self._kept(now, end) if end > now else []

    def cut(self, limit: int) -> None:
        """Start over when the log exceeds the limit; readers must then treat everything as changed.

        The newer half of the lasting entries remains, so readers that have read the older half continue from there.
        """
        if len(self.entries) > limit:
            self.net()
            self._before += len(self.entries)
            self.entries, self._undone, self._sorted_out = [], [], 0
            self.epoch += 1
        if len(self._lasting) > limit:
            older = len(self._lasting) - limit // 2
            del self._lasting[:older]
            self._forgotten += older

    def _kept(self, start: int, end: int) -> list[T]:
        """Return the entries of a range without undone ones."""
        gaps: list[tuple[int, int]] = [part for part in self._undone if part[0] >= start and part[1] <= end]
        if not gaps:
            return self.entries[start:end]
        bounds = [(start, start), *gaps, (end, end)]
        return [entry for before, after in pairwise(bounds) for entry in self.entries[before[1] : after[0]]]


class GangReader:
    """A reader's position in a log of groups, initially the end. `lasting`: see the module docstring."""

    __slots__ = ("_lasting", "_log", "_position", "_stamp", "_tentative")

    def __init__(self, log: ChangeLog[str], *, lasting: bool = False) -> None:
        self._log, self._lasting = log, lasting
        entries, start, self._stamp, self._tentative = _read(log, lasting=lasting)
        self._position = start + len(entries)

    def take(self) -> set[str] | None:
        """Return the groups that changed since the last call; None: any group may have changed."""
        entries, start, stamp, tentative = _read(self._log, lasting=self._lasting)
        complete = stamp == self._stamp and self._position >= start
        result = {*entries[self._position - start :], *self._tentative, *tentative} if complete else None
        self._stamp, self._position, self._tentative = stamp, start + len(entries), tentative
        return result

    def copy(self) -> "GangReader":
        """Return a reader at the same position."""
        reader = GangReader(self._log, lasting=self._lasting)
        reader._stamp, reader._position, reader._tentative = self._stamp, self._position, self._tentative
        return reader


class ChangeReader:
    """A reader's position in the log of rows. Without `nodes` new rows are not reported.

    `lasting`: see the module docstring.
    """

    __slots__ = ("_lasting", "_log", "_nodes", "_position", "_stamp", "_tentative")

    def __init__(self, log: ChangeLog[int], nodes: NodeColumns | None, *, lasting: bool = False) -> None:
        self._log = log
        self._nodes = nodes
        self._lasting = lasting
        self._position = 0
        self._stamp: tuple[Hashable, ...] = ()
        self._tentative: Sequence[int] = ()
        """The changes of open trials at the last call."""

    def take(self, *versions: Hashable) -> list[int] | None:
        """Return the rows changed since the last call, with repetitions; None at first or if all may have changed.

        `versions`: values that change with other inputs of the reader's results.
        """
        nodes = self._nodes
        of_nodes = () if nodes is None else nodes.version
        rows, start, epoch, tentative = _read(self._log, lasting=self._lasting)
        stamp = (epoch, *of_nodes, *versions)
        touched = rows[self._position - start :] if stamp == self._stamp and self._position >= start else None
        if touched is not None and self._lasting:
            touched += [*self._tentative, *tentative]
        self._stamp, self._position, self._tentative = stamp, start + len(rows), tentative
        return touched

    def copy(self) -> "ChangeReader":
        """Return a reader at the same position."""
        reader = ChangeReader(self._log, self._nodes, lasting=self._lasting)
        reader._position, reader._stamp, reader._tentative = self._position, self._stamp, self._tentative
        return reader


def _read(log: ChangeLog[T], *, lasting: bool) -> tuple[list[T], int, int, Sequence[T]]:
    """Return the entries, the number of entries before them, the epoch, and the entries of open trials."""
    if not lasting:
        return log.entries, 0, log.epoch, ()
    entries, before, tentative = log.net()
    return entries, before, 0, tentative
