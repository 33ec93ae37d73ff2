"""Resource names as columns.

Every amount is an int64 in one fixed order of *columns*: cpu in milli-units, everything else in base units (api.md,
"Quantities and requests"). The first two columns are not API resources but the cpu and memory amounts for *scoring*,
where a container without a request counts 100m / 200Mi (scheduling.md 5). With them in the same vector, placing a pod
is one vector addition.

Invariant: a name keeps its column forever. New extended resources get new columns at the end, so an older vector stays
valid when padded with zeros. No amount exceeds `LIMIT`, so that sums over a node do not overflow. A column takes memory
for every node. Therefore only the first `MOST_UNOFFERED` resources that pods request and no node has get a column.
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
"""Columns from here on are API resources; earlier ones are for scoring only."""

SERVED = 1 << 40
"""The amount of a resource that device classes serve on a node: the devices decide. Sums do not overflow."""
LIMIT = 1 << 56
"""The largest amount; larger ones count as this amount (72 PB, or 72 trillion cores, on one node or in one pod).

127 pods of that size on one node, and an amount times 100 in a score, fit in int64.
"""

MOST_UNOFFERED = 200
"""The maximum number of columns for resources that no node offered when first requested."""
UNOFFERED = "resources that no node has"
"""The column that all further ones share, with an amount of 0 on every node."""

_FIXED = ("scoring/cpu", "scoring/memory", "cpu", "memory", "ephemeral-storage", "pods")
_STEP = 16


class ResourceTable:
    """Resource names and their columns.

    `capacity` is the number of rows of arrays by column. It is at least `len(names)` and grows in steps, so that a new
    extended resource seldom requires new arrays. `is_offered`: whether a node or a device class offers a resource
    without a column.
    """

    def __init__(self, is_offered: Callable[[str], bool] = lambda name: False) -> None:
        self.names: list[str] = list(_FIXED)
        self._column = {name: column for column, name in enumerate(_FIXED)}
        self.capacity = _STEP
        self._is_offered = is_offered
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
        column = self._column.get(name)
        if column is not None:
            return column
        if not self._is_offered(name):
            if self._unoffered >= MOST_UNOFFERED:
                return self.column(UNOFFERED)
            self._unoffered += 1
        return self.column(name)

    def register(self, names: Iterable[str]) -> None:
        """Add a column for every name that has none."""
        for name in names:
            self.column(name)

    def vector(self, amounts: Mapping[str, int]) -> Vector:
        """Return `int64[capacity]` with the amounts, none above `LIMIT`; the scoring columns stay zero."""
        self.register(amounts)
        out = np.zeros(self.capacity, dtype=np.int64)
        for name, amount in amounts.items():
            out[self._column[name]] = min(amount, LIMIT)
        return out


def insufficient(name: str) -> str:
    """Return kube-scheduler's reason for an insufficient resource (NodeResourcesFit)."""
    return "Too many pods" if name == "pods" else f"Insufficient {name}"


def shortages_text(missing: Mapping[str, str]) -> str:
    """Return `Insufficient nvidia.com/gpu (8 short), Insufficient cpu (32 short)`, in the given order."""
    return ", ".join(f"{insufficient(name)} ({short} short)" for name, short in missing.items())


def readable(name: str, value: int) -> str:
    """Return an amount of a column in readable form: `1500m`, `2Gi`, `3`."""
    if name == "cpu":
        return f"{value // 1000}" if value % 1000 == 0 else f"{value}m"
    if name in ("memory", "ephemeral-storage") or name.startswith("hugepages-"):
        for unit, size in (("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)):
            if value % size == 0:
                return f"{value // size}{unit}"
    return str(value)
