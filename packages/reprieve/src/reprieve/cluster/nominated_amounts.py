"""What nominated pods ask for, as columns: how much of each node they hold is added up for all nodes at once.

A queue of preemptors leaves as many nominations, and every pod after them has to count all that are as important as it
is.  Each pod has a slot, kept as it is nominated, placed and let go; the last slot takes the place of one that becomes
free, so the order of slots means nothing.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from reprieve.cluster.pods import PodRecord

Counts = npt.NDArray[np.int64]
_FEWEST = 16


class NominatedAmounts:
    """See the module docstring. The first `len(self)` of each column are in use."""

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
        """The pod is nominated to the row it says, and asks for what it says."""
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
        """The pod is nominated no more."""
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
        """The pod, which is nominated, was placed or displaced: a placed pod counts where it is."""
        self._waiting[self._slot[pod.uid]] = pod.row < 0

    def priorities(self) -> tuple[Counts, Counts]:
        """int64[pods] twice: the rows and the priorities of all nominated pods, placed or not."""
        return self._rows[: len(self)], self._priorities[: len(self)]

    def held(self, priority: int, width: int) -> tuple[Counts, Counts]:
        """Rows with pods that are not placed and of that priority or a higher one, ascending; what these ask for there.

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
        """Raises AssertionError unless these pods, and what they say of themselves, is what is kept."""
        kept = {}
        for uid, slot in self._slot.items():
            amounts = self._amounts[:, slot]
            kept[uid] = (self._rows[slot], self._priorities[slot], self._waiting[slot], *np.trim_zeros(amounts, "b"))
        for pod in nominated:
            delta = np.trim_zeros(pod.signature.delta, "b")
            known = kept.pop(pod.uid, None)
            assert known == (pod.nominated, pod.priority, pod.row < 0, *delta), f"{pod} is nominated otherwise"
        assert not kept, f"{sorted(kept)} are not nominated"

    def _resize(self, slots: int, width: int) -> None:
        number = len(self._uids)
        used = min(number, len(self._rows))
        for name in ("_rows", "_priorities", "_waiting"):
            old = getattr(self, name)
            made = np.zeros(slots, dtype=old.dtype)
            made[:used] = old[:used]
            setattr(self, name, made)
        amounts = np.zeros((width, slots), dtype=np.int64)
        amounts[: len(self._amounts), :used] = self._amounts[:, :used]
        self._amounts = amounts
