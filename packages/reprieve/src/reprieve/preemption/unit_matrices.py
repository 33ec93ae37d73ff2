"""Potential victims by node as matrices: the units of a row are in one column, the most important on top.

Rows with a similar number of units share a *block*, so that little space is unused and one operation over a block
handles a unit of every row in it; a row that gets more units, or fewer, moves to another block.  Below the units of a
row its column has neutral entries: no amounts, no pods, a priority that is below none.

Invariant: a row with n units is in the block with a depth of the power of two from n on, at least `_LEAST`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from reprieve.framework.plugin import Mask
from reprieve.framework.restart_places import NOWHERE, SEVERAL, RestartCodes

Counts = npt.NDArray[np.int64]
Columns = Mapping[str, npt.NDArray[Any]]
ABOVE_ALL: Final = 1 << 40
"""A value above every priority; its negative is below every priority."""
_LEAST: Final = 4
_MOST_PODS: Final = 1 << 20
"""More than the pods of a unit."""
_IDLE: Final = {
    "priority": ABOVE_ALL,
    "begun": np.inf,
    "standing": ABOVE_ALL,
    "like": ABOVE_ALL,
    "gang": -1,
    "kind": -1,
}
"""Values that fill the rest of a column; 0 by default."""


class UnitBlock:
    """Rows with a similar number of units. `rows`: int64[slots], the row of each column; `count`: its number of units.

    `entries` has the properties of each unit by name, [..., depth, slots]; the slots in use are the first `used`.
    """

    def __init__(self, depth: int, capacity: int, like: Columns) -> None:
        self.depth = depth
        self.used = 0
        self.rows: Counts = np.zeros(capacity, dtype=np.int64)
        self.count: Counts = np.zeros(capacity, dtype=np.int64)
        self.entries: dict[str, npt.NDArray[Any]] = {
            name: np.full((*values.shape[:-1], depth, capacity), _IDLE.get(name, 0), dtype=values.dtype)
            for name, values in like.items()
        }

    def write(self, slots: Counts, rows: Counts, counts: Counts, first: Counts, columns: Columns) -> None:
        """Write the properties of the units of some rows; each row begins at `first` in the flat columns."""
        self.rows[slots], self.count[slots] = rows, counts
        owner = np.repeat(np.arange(len(slots)), counts)
        turn = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
        at, slot = first[owner] + turn, slots[owner]
        for name, values in columns.items():
            entries = self.entries[name]
            entries[..., slots] = _IDLE.get(name, 0)
            entries[..., turn, slot] = values[..., at]

    def resize(self, capacity: int) -> None:
        """Resize to a number of slots, at least those in use."""

        def resized(old: npt.NDArray[Any], fill: float) -> npt.NDArray[Any]:
            new = np.full((*old.shape[:-1], capacity), fill, dtype=old.dtype)
            new[..., : self.used] = old[..., : self.used]
            return new

        self.rows, self.count = resized(self.rows, 0), resized(self.count, 0)
        self.entries = {name: resized(old, _IDLE.get(name, 0)) for name, old in self.entries.items()}

    def drop(self, slot: int) -> None:
        """Free a slot; the last one replaces it."""
        last = self.used = self.used - 1
        self.rows[slot], self.count[slot] = self.rows[last], self.count[last]
        for entries in self.entries.values():
            entries[..., slot] = entries[..., last]


class UnitMatrices:
    """The blocks by depth, and the slot of each row's column. `count`: int64[rows], the number of units of each row."""

    def __init__(self) -> None:
        self.blocks: dict[int, UnitBlock] = {}
        self.count: Counts = np.zeros(0, dtype=np.int64)
        self._slot: Counts = np.zeros(0, dtype=np.int64)

    def lay_out(self, counts: Counts, columns: Columns) -> None:
        """Reset to `counts` of units on every row, and their properties in flat columns, row after row."""
        self.blocks = {}
        self.count = counts.copy()
        self._slot = np.zeros(len(counts), dtype=np.int64)
        first = np.cumsum(counts) - counts
        depths = _depths(counts)
        for depth in _distinct(depths):
            rows = np.flatnonzero(depths == depth)
            block = self.blocks[depth] = UnitBlock(depth, len(rows) + (len(rows) >> 3), columns)
            block.used = len(rows)
            self._slot[rows] = slots = np.arange(len(rows))
            block.write(slots, rows, counts[rows], first[rows], columns)

    def more_rows(self, rows: int) -> None:
        """Resize to the number of rows; new ones are empty."""
        new = np.zeros(rows - len(self.count), dtype=np.int64)
        self.count, self._slot = np.append(self.count, new), np.append(self._slot, new)

    def replace(self, rows: Sequence[int], counts: Counts, columns: Columns) -> None:
        """Replace the units of some rows (each once), given in flat columns, row after row."""
        index = np.array(rows, dtype=np.int64)
        first = np.cumsum(counts) - counts
        before, depths = _depths(self.count[index]), _depths(counts)
        for row, old, new in zip(rows, before.tolist(), depths.tolist(), strict=True):
            if old != new:
                self._move(row, old, new, columns)
        self.count[index] = counts
        for depth in _distinct(depths):
            part = np.flatnonzero(depths == depth)
            self.blocks[depth].write(self._slot[index[part]], index[part], counts[part], first[part], columns)

    def fill(self, name: str, value: float) -> None:
        """Set a property of all units."""
        for block in self.blocks.values():
            block.entries[name][:] = value

    def mark(self, name: str, rows: Counts, turns: Counts) -> None:
        """Set a property to True for these units, given by row and turn."""
        depths, slots = _depths(self.count[rows]), self._slot[rows]
        for depth in _distinct(depths):
            chosen = depths == depth
            self.blocks[depth].entries[name][turns[chosen], slots[chosen]] = True

    def _move(self, row: int, old: int, new: int, columns: Columns) -> None:
        """Move the row from one block (0: none) to a slot in another (0: none)."""
        if old:
            block, slot = self.blocks[old], int(self._slot[row])
            block.drop(slot)
            self._slot[block.rows[slot]] = slot
            if not block.used:
                del self.blocks[old]
            elif 4 * block.used < len(block.rows):
                block.resize(2 * block.used)
        if new:
            target = self.blocks.get(new)
            if target is None:
                target = self.blocks[new] = UnitBlock(new, 1, columns)
            if target.used == len(target.rows):
                target.resize(target.used + (target.used >> 1) + 1)
            self._slot[row] = target.used
            target.rows[target.used] = row
            target.used += 1


def _distinct(depths: Counts) -> list[int]:
    """Return the depths that occur, without 0."""
    return [depth for depth in sorted(set(depths.tolist())) if depth]


def _depths(counts: Counts) -> Counts:
    """Return int64[...]: the depth of the block for that number of units, 0 for none."""
    powers = 1 << np.ceil(np.log2(np.maximum(counts, 1))).astype(np.int64)
    result: Counts = np.where(counts > 0, np.maximum(powers, _LEAST), 0)
    return result


class UnitColumns:
    """The units of some slots of a block that are below a preemptor, [..., depth, slots]; others have no weight.

    `below`: whether a unit is.  `amounts`: int64[requests, depth, slots], of the preemptor's requested resources.
    `standing` is None if units are tried in their order; `gang`, `slack` and `breaks` if no gang of a unit can break;
    `restartless` if all pods can restart elsewhere at once.
    """

    __slots__ = (
        "amounts",
        "begun",
        "below",
        "breaks",
        "gang",
        "priority",
        "restartless",
        "size",
        "slack",
        "spans",
        "standing",
        "violates",
        "weight",
    )

    def __init__(
        self,
        block: UnitBlock,
        slots: "Counts | slice",
        columns: Sequence[int],
        priority: int,
        restarts: RestartCodes | None = None,
    ) -> None:
        entries = block.entries
        self.priority: Counts = entries["priority"][:, slots]
        self.below: Mask = self.priority < priority
        self.size: Counts = entries["size"][:, slots]
        self.weight: Counts = entries["weight"][:, slots]
        self.begun: npt.NDArray[np.float64] = entries["begun"][:, slots]
        self.violates: Mask = entries["violates"][:, slots]
        self.spans: Mask = entries["spans"][:, slots]
        self.amounts: Counts = np.stack([entries["amounts"][column][:, slots] for column in columns])
        self.standing: Counts | None = None
        self.gang: Counts | None = None
        self.slack: Counts | None = None
        self.breaks: Counts | None = None
        self.restartless: Counts | None = None
        if restarts is not None:
            self._with_restarts(entries, slots, block.rows[slots], restarts)
        if "gang" in entries and ((entries["gang"] >= 0).any() or entries["breaks"].any()):
            self.gang = entries["gang"][:, slots]
            self.slack, self.breaks = entries["slack"][:, slots], entries["breaks"][:, slots]
            mixed = entries["mixed"][:, slots]
            own = entries["like"][:, slots] if self.standing is None else self.standing
            self.standing = np.where(mixed, entries["standing"][:, slots], own)
        if not (self.priority[0] < priority).all():
            self.size = self.size * self.below
            self.weight = self.weight * self.below
            self.amounts = self.amounts * self.below
            self.spans = self.spans & self.below
            self.begun = np.where(self.below, self.begun, np.inf)

    def _with_restarts(self, entries: Columns, slots: "Counts | slice", rows: Counts, restarts: RestartCodes) -> None:
        """Set `restartless`, and `standing` if units of equal importance except for the start differ in it."""
        kinds, several = entries["kind"][:, slots], entries["several"][:, slots]
        count = several + (kinds >= 0) if restarts.common == NOWHERE else several
        at = np.flatnonzero(restarts.looked_up[rows])
        if len(at):
            chosen = kinds[:, at]
            code = np.where(chosen >= 0, restarts.codes[chosen], SEVERAL)
            count = count.copy()
            count[:, at] = several[:, at] + ((code == NOWHERE) | (code == rows[at]))
        if not count.any():
            return
        self.restartless = count
        if (count < self.size).any():
            self.standing = entries["like"][:, slots] * _MOST_PODS - count
