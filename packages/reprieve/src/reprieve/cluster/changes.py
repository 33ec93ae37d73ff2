"""What has changed in the cluster cache since a reader read it last.

A cache of answers about nodes has a `ChangeReader` beside it: `take` names the rows to look at again, or says that
everything has to be.  Of groups a `GangReader` says which ones have more pods that run, or fewer.

Invariant: a row is in the log if its pods, nominations or allocatable amounts have changed; whatever else changes on a
node makes `NodeColumns.static_version` grow.
"""

from reprieve.cluster.nodes import NodeColumns


class TouchLog:
    """Which rows changed, in order, with repeats."""

    __slots__ = ("epoch", "rows")

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.epoch = 0
        """Grows when the log starts over."""

    def cut(self, limit: int) -> None:
        """Start over once the log is longer than the limit; readers must look at every row again."""
        if len(self.rows) > limit:
            self.rows = []
            self.epoch += 1


class GangLog:
    """Of which groups more pods run than before, or fewer: their keys, in order, with repeats."""

    __slots__ = ("epoch", "keys")

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.epoch = 0
        """Grows when the log starts over."""

    def cut(self, limit: int) -> None:
        """Start over once the log is longer than the limit; readers must take every group for another."""
        if len(self.keys) > limit:
            self.keys = []
            self.epoch += 1


class GangReader:
    """One reader's place in a `GangLog`, at its end when made."""

    __slots__ = ("_epoch", "_log", "_position")

    def __init__(self, log: GangLog) -> None:
        self._log = log
        self._epoch, self._position = log.epoch, len(log.keys)

    def take(self) -> set[str] | None:
        """Return the groups since the last call; None: it may be any."""
        log = self._log
        result = set(log.keys[self._position :]) if log.epoch == self._epoch else None
        self._epoch, self._position = log.epoch, len(log.keys)
        return result

    def copy(self) -> "GangReader":
        """Return a reader in the same place."""
        made = GangReader(self._log)
        made._epoch, made._position = self._epoch, self._position
        return made


class ChangeReader:
    """One reader's place in the changes. Without nodes it records their pods only: there may be more rows, too."""

    __slots__ = ("_log", "_nodes", "_position", "_stamp")

    def __init__(self, log: TouchLog, nodes: NodeColumns | None) -> None:
        self._log = log
        self._nodes = nodes
        self._position = 0
        self._stamp: tuple[int, ...] = ()

    def take(self, *versions: int) -> list[int] | None:
        """Rows touched since the last call (with repeats); None: everything may have changed, as at the first call.

        `versions`: numbers of anything else that the reader's answers depend on.
        """
        log, nodes = self._log, self._nodes
        of_nodes = () if nodes is None else nodes.version
        stamp = (log.epoch, *of_nodes, *versions)
        rows = log.rows
        touched = rows[self._position :] if stamp == self._stamp else None
        self._stamp, self._position = stamp, len(rows)
        return touched

    def copy(self) -> "ChangeReader":
        """Return a reader in the same place."""
        made = ChangeReader(self._log, self._nodes)
        made._position, made._stamp = self._position, self._stamp
        return made
