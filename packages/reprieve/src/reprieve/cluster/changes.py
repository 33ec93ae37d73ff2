"""What has changed in the cluster cache since a reader read it last.

A cache of answers about nodes has a `ChangeReader` beside it: `take` names the rows to look at again, or says that
everything has to be.  Of groups a `GangReader` says which ones have more pods that run, or fewer.  A reader of what
*lasts* gets nothing of trials that are over, which have left everything as it was.

Invariant: a row is in the log if its pods, nominations or allocatable amounts have changed; whatever else changes on a
node makes `NodeColumns.static_version` grow.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Generic, TypeVar

from reprieve.cluster.nodes import NodeColumns

T = TypeVar("T", int, str)


class ChangeLog(Generic[T]):
    """What changed, in order, with repeats: rows, or the keys of groups."""

    __slots__ = ("_before", "_forgotten", "_lasting", "_open", "_sorted_out", "_undone", "entries", "epoch")

    def __init__(self) -> None:
        self.entries: list[T] = []
        self.epoch = 0
        """Grows when the log starts over."""
        self._before = 0
        """How many entries there were before the log started over."""
        self._open: list[int] = []
        """Where the trials began that are open."""
        self._undone: list[tuple[int, int]] = []
        """The parts of the entries that belong to trials which are over: from, to."""
        self._lasting: list[T] = []
        self._forgotten = 0
        """Count entries that last and are no longer in `_lasting`."""
        self._sorted_out = 0
        """So many of the entries are in `_lasting`, if they last."""

    @property
    def total(self) -> int:
        """Return how much has ever changed, trials included."""
        return self._before + len(self.entries)

    def trial_begins(self) -> None:
        """What is logged from now on is going to be undone."""
        self._open.append(len(self.entries))

    def trial_ends(self) -> None:
        """Everything since the trial began has been undone."""
        began = self._open.pop()
        while self._undone and self._undone[-1][0] >= began:
            self._undone.pop()
        if len(self.entries) > began:
            self._undone.append((began, len(self.entries)))

    def forget_from(self, position: int) -> None:
        """Drop the last entries, which no reader has read."""
        del self.entries[position:]
        while self._undone and self._undone[-1][1] > position:
            self._undone.pop()

    def net(self) -> tuple[list[T], int, list[T]]:
        """What lasts and is not to be changed, how many entries were before that, and what open trials changed."""
        now, end = self._open[0] if self._open else len(self.entries), len(self.entries)
        if now > self._sorted_out:
            self._lasting += self._kept(self._sorted_out, now)
            self._sorted_out = now
            self._undone = [part for part in self._undone if part[1] > now]
        return self._lasting, self._forgotten, self._kept(now, end) if end > now else []

    def cut(self, limit: int) -> None:
        """Start over once the log is longer than the limit; readers must take everything for changed.

        Of what lasts the newer half stays, and readers that have come that far go on from there.
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
        """Return the entries from one place to another without those that were undone."""
        gaps: list[tuple[int, int]] = [part for part in self._undone if part[0] >= start and part[1] <= end]
        if not gaps:
            return self.entries[start:end]
        bounds = [(start, start), *gaps, (end, end)]
        return [entry for before, after in pairwise(bounds) for entry in self.entries[before[1] : after[0]]]


class GangReader:
    """One reader's place in a log of groups, at its end when made. `lasting`: see the module docstring."""

    __slots__ = ("_lasting", "_log", "_position", "_stamp", "_tentative")

    def __init__(self, log: ChangeLog[str], *, lasting: bool = False) -> None:
        self._log, self._lasting = log, lasting
        entries, start, self._stamp, self._tentative = _read(log, lasting=lasting)
        self._position = start + len(entries)

    def take(self) -> set[str] | None:
        """Return the groups since the last call; None: it may be any."""
        entries, start, stamp, tentative = _read(self._log, lasting=self._lasting)
        known = stamp == self._stamp and self._position >= start
        result = {*entries[self._position - start :], *self._tentative, *tentative} if known else None
        self._stamp, self._position, self._tentative = stamp, start + len(entries), tentative
        return result

    def copy(self) -> "GangReader":
        """Return a reader in the same place."""
        made = GangReader(self._log, lasting=self._lasting)
        made._stamp, made._position, made._tentative = self._stamp, self._position, self._tentative
        return made


class ChangeReader:
    """One reader's place in the changes. Without nodes it records their pods only: there may be more rows, too.

    `lasting`: see the module docstring.
    """

    __slots__ = ("_lasting", "_log", "_nodes", "_position", "_stamp", "_tentative")

    def __init__(self, log: ChangeLog[int], nodes: NodeColumns | None, *, lasting: bool = False) -> None:
        self._log = log
        self._nodes = nodes
        self._lasting = lasting
        self._position = 0
        self._stamp: tuple[int, ...] = ()
        self._tentative: Sequence[int] = ()
        """What open trials had changed at the last call."""

    def take(self, *versions: int) -> list[int] | None:
        """Rows touched since the last call (with repeats); None: everything may have changed, as at the first call.

        `versions`: numbers of anything else that the reader's answers depend on.
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
        """Return a reader in the same place."""
        made = ChangeReader(self._log, self._nodes, lasting=self._lasting)
        made._position, made._stamp, made._tentative = self._position, self._stamp, self._tentative
        return made


def _read(log: ChangeLog[T], *, lasting: bool) -> tuple[list[T], int, int, Sequence[T]]:
    """Return entries, how many there were before them, how often they started over, and what open trials changed."""
    if not lasting:
        return log.entries, 0, log.epoch, ()
    entries, before, tentative = log.net()
    return entries, before, 0, tentative
