"""Resource names as columns.

Every amount in the scheduler is an int64 in one fixed order of *columns*: cpu in milli-units, everything else in base
units (api.md, "Quantities and requests").  The first two columns are not resources of the API but what *scoring*
counts for cpu and memory, where a container without a request counts 100m / 200Mi (scheduling.md 5); keeping them
beside the others makes placing a pod one vector addition.

Invariant: a name keeps its column forever; new extended resources get new columns at the end, so a vector made
earlier stays valid when padded with zeros.  No amount is above `LIMIT`, so that sums over a node do not wrap.  A column
takes memory for every node: of the resources that pods request and no node has, the first `MOST_UNOFFERED` get one.
"""

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.int64]

SCORING_CPU = 0
SCORING_MEMORY = 1
CPU = 2
MEMORY = 3
EPHEMERAL_STORAGE = 4
PODS = 5
FIRST_RESOURCE = CPU
"""Columns from here on are resources of the API; those before are for scoring only."""

SERVED = 1 << 40
"""What a node has of a resource that device classes serve there: devices decide, not numbers. Sums do not wrap."""
LIMIT = 1 << 56
"""The largest amount kept; what is more counts as this much (72 PB, or 72 trillion cores, on one node or in one pod).

127 pods of that size on one node, and an amount times 100 in a score, stay within int64.
"""

MOST_UNOFFERED = 200
"""So many resources get a column although no node offered them when the first pod asked."""
UNOFFERED = "resources that no node has"
"""Stands for all further ones: it has a column and no node has any of it."""

_FIXED = ("scoring/cpu", "scoring/memory", "cpu", "memory", "ephemeral-storage", "pods")
_STEP = 16


class ResourceTable:
    """Names of resources and the column of each.

    `capacity` is the number of rows that arrays by column have; it is at least `len(names)` and grows in steps so that
    a new extended resource seldom means new arrays.
    """

    def __init__(self) -> None:
        self.names: list[str] = list(_FIXED)
        self._column = {name: column for column, name in enumerate(_FIXED)}
        self.capacity = _STEP
        self.offered: Callable[[str], bool] = lambda _: False
        """Whether a node, or a device class, has a resource without a column; set by the columns of nodes."""
        self._unoffered = 0

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: str) -> bool:
        """Return whether the resource has a column."""
        return name in self._column

    def column(self, name: str) -> int:
        """Return the column of a resource; an unknown name gets the next free one."""
        result = self._column.get(name)
        if result is None:
            result = self._column[name] = len(self.names)
            self.names.append(name)
            if result >= self.capacity:
                self.capacity += _STEP
        return result

    def asked_column(self, name: str) -> int:
        """Return the column of a resource that a pod requests, which may have any name."""
        known = self._column.get(name)
        if known is not None:
            return known
        if not self.offered(name):
            if self._unoffered >= MOST_UNOFFERED:
                return self.column(UNOFFERED)
            self._unoffered += 1
        return self.column(name)

    def register(self, names: Iterable[str]) -> None:
        """Give every name a column."""
        for name in names:
            self.column(name)

    def vector(self, amounts: Mapping[str, int]) -> Vector:
        """`int64[capacity]` with the amounts in their columns, none above `LIMIT`; the scoring columns stay zero."""
        self.register(amounts)
        out = np.zeros(self.capacity, dtype=np.int64)
        for name, amount in amounts.items():
            out[self._column[name]] = min(amount, LIMIT)
        return out


def insufficient(name: str) -> str:
    """Upstream's reason for a resource that is short (NodeResourcesFit)."""
    return "Too many pods" if name == "pods" else f"Insufficient {name}"


def shortages_text(missing: Mapping[str, str]) -> str:
    """`Insufficient nvidia.com/gpu (8 short), Insufficient cpu (32 short)`, in the order given."""
    return ", ".join(f"{insufficient(name)} ({short} short)" for name, short in missing.items())


def readable(name: str, value: int) -> str:
    """Return an amount of a column as people write it: `1500m`, `2Gi`, `3`."""
    if name == "cpu":
        return f"{value // 1000}" if value % 1000 == 0 else f"{value}m"
    if name in ("memory", "ephemeral-storage") or name.startswith("hugepages-"):
        for unit, size in (("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)):
            if value % size == 0:
                return f"{value // size}{unit}"
    return str(value)
