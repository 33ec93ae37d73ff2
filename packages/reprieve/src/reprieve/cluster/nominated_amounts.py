"""The requests of nominated pods as columns, to sum the reserved amounts of all nodes at once.

A queue of preemptors creates as many nominations, and every later pod must count those of at least its importance. Each
pod has a slot from its nomination on. The last slot replaces a slot that becomes free, so the order of slots has no
meaning.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from reprieve.cluster.pods import PodRecord

Counts = npt.NDArray[np.int64]
_FEWEST = 16


class NominatedAmounts:
    """See the module docstring. The first `len(self)` entries of each column are in use."""

    def __init__(self) -> None:
        self._slot: dict[str, int] = {}
        """By UID."""
        self._uids: list[str] = []
        self._rows: Counts = np.zeros(_FEWEST, dtype=np.int64)
        self._priorities: Counts = np.zeros(_FEWEST, dtype=np.int64)
        self._waiting: npt.NDArray[np.bool_] = np.zeros(_FEWEST, dtype=np.bool_)
        self._amounts: Counts = np.zeros((0, _FEWEST), dtype=np.int64)

    def __len__(self) -> int:
        return len(self._uids)

    def add(self, pod: PodRecord) -> None:
        """Add or update a nominated pod, with its row and requests."""
        slot = self._slot.get(pod.uid)
        if slot is None:
            slot = self._slot[pod.uid] = len(self._uids)
            self._uids.append(pod.uid)
            if slot == len(self._rows):
                self._resize(2 * slot, len(self._amounts))
        delta = pod.signature.delta
        if len(delta) > len(self._amounts):
            self._resize(len(self._rows), len(delta))
        self._rows[slot], self._priorities[slot], self._waiting[slot] = pod.nominated, pod.priority, pod.row < 0
        self._amounts[: len(delta), slot] = delta

    def drop(self, pod: PodRecord) -> None:
        """Remove a pod after its nomination was cleared."""
        slot, last = self._slot.pop(pod.uid), len(self._uids) - 1
        uid = self._uids.pop()
        if slot < last:
            self._uids[slot] = uid
            self._slot[uid] = slot
            for column in (self._rows, self._priorities, self._waiting):
                column[slot] = column[last]
            self._amounts[:, slot] = self._amounts[:, last]
        if 4 * last < len(self._rows) and last >= _FEWEST:
            self._resize(2 * last, len(self._amounts))

    def moved(self, pod: PodRecord) -> None:
        """Update a nominated pod that was placed or displaced; a placed pod counts on its node."""
        self._waiting[self._slot[pod.uid]] = pod.row < 0

    def priorities(self) -> tuple[Counts, Counts]:
        """Return the rows and priorities of all nominated pods, placed or not, as int64[pods] each."""
        return self._rows[: len(self)], self._priorities[: len(self)]

    def held(self, priority: int, width: int) -> tuple[Counts, Counts]:
        """Return the rows with unplaced pods of at least that priority, ascending, and their requests.

        int64[rows], and int64[width, rows] by column of the resource table.
        """
        number = len(self)
        counting = self._waiting[:number] & (self._priorities[:number] >= priority)
        if width > len(self._amounts):
            self._resize(len(self._rows), width)
        rows, amounts = self._rows[:number][counting], self._amounts[:width, :number][:, counting]
        order = np.argsort(rows)
        rows, amounts = rows[order], amounts[:, order]
        first = np.flatnonzero(np.diff(rows, prepend=-1))
        if len(first) == len(rows):
            return rows, amounts
        return rows[first], np.add.reduceat(amounts, first, axis=1)

    def check(self, nominated: Iterable[PodRecord]) -> None:
        """Compare the columns with these pods. Raises AssertionError on a difference."""
        stored = {}
        for uid, slot in self._slot.items():
            amounts = self._amounts[:, slot]
            stored[uid] = (self._rows[slot], self._priorities[slot], self._waiting[slot], *np.trim_zeros(amounts, "b"))
        for pod in nominated:
            delta = np.trim_zeros(pod.signature.delta, "b")
            slot_values = stored.pop(pod.uid, None)
            assert slot_values == (pod.nominated, pod.priority, pod.row < 0, *delta), f"{pod} is nominated otherwise"
        assert not stored, f"{sorted(stored)} are not nominated"

    def _resize(self, slots: int, width: int) -> None:
        number = len(self._uids)
        used = min(number, len(self._rows))
        for name in ("_rows", "_priorities", "_waiting"):
            old = getattr(self, name)
            resized = np.zeros(slots, dtype=old.dtype)
            resized[:used] = old[:used]
            setattr(self, name, resized)
        amounts = np.zeros((width, slots), dtype=np.int64)
        amounts[: len(self._amounts), :used] = self._amounts[:, :used]
        self._amounts = amounts
