"""Running pods that could not restart on another node at once (cost.md 1.9).

A pod *can restart at once* if another node, allowed by its node constraints, has the pod's requests free: amounts that
neither pods nor nominations use, whatever their priority.  Pods with the same node constraints and requests are of one
*kind*.  For each kind up to two nodes with enough free are recorded: with two the pod can restart wherever it runs,
with one it can unless it runs there.  After a change, only kinds are searched again that had recorded a changed node,
or that may fit there now.

Invariant: `_first` and `_second` are NO_ROW only where no (other) row has enough free; `codes` follows from them.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from reprieve.cluster.node_affinity_masks import named_nodes, required_mask
from reprieve.cluster.pods import NO_ROW, PodRecord
from reprieve.cluster.resources import CPU, MEMORY
from reprieve.cluster.state import ClusterState
from reprieve.framework.diagnoser import nominated_rows
from reprieve.framework.plugin import Mask

Counts = npt.NDArray[np.int64]

NOWHERE: Final = -1
SEVERAL: Final = -2
"""Values of `RestartPlaces.codes`: no row has enough free, or two have; otherwise the only row that has."""
_ANY_PRIORITY: Final = -(1 << 40)
_ANY_NODE: Final = -1
_NO_LIMIT: Final = 1 << 62
_FEW_KINDS, _FEW_ROWS = 8, 64
"""Up to this many kinds are compared with all rows, and up to this many changed rows with all kinds."""
_FEW_PAIRS = 4096
"""Up to this many pairs of a kind and a changed row are compared at once."""
_MOST_LARGEST = 128
"""The limit on the largest rows by which the rows to search for many kinds are narrowed."""
_BLOCK = 64
"""The number of rows that are compared with many kinds at a time."""
_FOR_EACH_POD, _MORE = 4, 4096
"""The number of kinds and places that are kept for each pod of the cluster, and in addition."""
_MOST_CHANGES = 1 << 18


class RestartCodes(NamedTuple):
    """`codes`: see `RestartPlaces.codes`; `common`: NOWHERE or SEVERAL, the code of all kinds on other rows.

    `looked_up`: bool[rows], the rows with kinds that may have another code.
    """

    codes: Counts
    common: int
    looked_up: Mask


class RestartPlaces:
    """See the module docstring. `allowed`: bool[rows], the nodes that a pod may use by its node constraints."""

    def __init__(self, cluster: ClusterState, allowed: Callable[[PodRecord], Mask]) -> None:
        self._cluster, self._allowed = cluster, allowed
        self._changes = cluster.changes(of_nodes=False, lasting=True)
        self._stamp: tuple[int, ...] = ()
        self._static = -1
        """The version of the nodes' static properties."""
        self._columns = 0
        """The number of resource columns."""
        self._free: Counts = np.zeros((0, 0), dtype=np.int64)
        self._unread: set[int] = set()
        """Rows recorded as full in `_free`, as they have too little for every kind."""
        self.epoch = 0
        """A counter that grows when all kinds are forgotten."""
        self.changed_rows: list[int] = []
        """Rows with counted pods that have a new result, in order, with repeats."""
        self.cut = 0
        """The number of these that were dropped."""
        self._forget()

    def _forget(self) -> None:
        self.epoch += 1
        self._by_signature: dict[int, int] = {}
        self._by_what: dict[tuple[int, tuple[tuple[int, int], ...]], int] = {}
        self._pods: list[PodRecord] = []
        """By kind: a pod of it."""
        self._rows: list[set[int]] = []
        """By kind: the rows with counted pods."""
        self._places = 0
        self._homes: dict[str, int] = {}
        self._numbers: dict[int, int] = {}
        """Node constraints -> their number in `_constraints`."""
        self._home: Counts = np.full(_BLOCK, _ANY_NODE, dtype=np.int64)
        """By kind: the number of the one node that its constraints name."""
        self._constraints: Counts = np.zeros(_BLOCK, dtype=np.int64)
        self._asks: Counts = np.zeros((len(self._free), _BLOCK), dtype=np.int64)
        self._first: Counts = np.full(_BLOCK, NO_ROW, dtype=np.int64)
        self._second: Counts = np.full(_BLOCK, NO_ROW, dtype=np.int64)
        self._codes: Counts = np.full(_BLOCK, SEVERAL, dtype=np.int64)
        self._code: list[int] = []
        """A copy of `codes`: single values are read several times as fast."""
        self._least: Counts = np.full((len(self._free), 1), _NO_LIMIT, dtype=np.int64)
        """int64[columns, 1]: the least request of all kinds."""
        self._used_rows: set[int] = set()
        """The rows that kinds have recorded, and some that they no longer do."""
        self._most_used = _BLOCK

    @property
    def codes(self) -> Counts:
        """Return `int64[kinds]`, see NOWHERE; valid as of the last `kinds_of` or `catch_up`."""
        return self._codes[: len(self._pods)]

    def for_rows(self) -> RestartCodes:
        """Return `codes`, and the rows for which they must be looked up."""
        codes, rows = self.codes, len(self._cluster.nodes)
        common = NOWHERE if 2 * np.count_nonzero(codes == NOWHERE) > len(codes) else SEVERAL
        uncommon = np.flatnonzero(codes != common)
        result = np.full(rows, len(uncommon) > _FEW_ROWS, dtype=np.bool_)
        if 0 < len(uncommon) <= _FEW_ROWS:
            result[[row for kind in uncommon.tolist() for row in self._rows[kind]]] = True
        return RestartCodes(codes, common, result)

    def stuck(self, pods: Sequence[PodRecord], rows: Sequence[int]) -> list[bool]:
        """Return whether each pod cannot restart at once on a row other than its own.

        Terminating pods do not count: the eviction changes nothing for them.
        """
        self.bound()
        kinds, codes = self.kinds_of(pods, rows), self._code
        every = zip(pods, kinds, rows, strict=True)
        return [codes[kind] in (NOWHERE, row) and not pod.terminating for pod, kind, row in every]

    def kinds_of(self, pods: Sequence[PodRecord], rows: Sequence[int]) -> list[int]:
        """Return the kind of each pod; later changes of its result are reported for its row.

        A kind is valid in the present `epoch`.
        """
        self.catch_up()
        kind_of, noted = self._by_signature, self._rows
        result = [kind_of.get(pod.signature.id, -1) for pod in pods]
        if -1 in result:
            result = self._with_new(pods)
        for kind, row in zip(result, rows, strict=True):
            noted_rows = noted[kind]
            if row not in noted_rows:
                noted_rows.add(row)
                self._places += 1
        return result

    def _with_new(self, pods: Sequence[PodRecord]) -> list[int]:
        """Return the kind of each pod; some are new."""
        before = len(self._pods)
        signatures, kind_by_key, every, numbers = self._by_signature, self._by_what, self._pods, self._numbers
        constraints: list[int] = []
        result = []
        for pod in pods:
            signature = pod.signature
            kind = signatures.get(signature.id)
            if kind is None:
                key = signature.constraints.nodes.id, signature.requests
                kind = signatures[signature.id] = kind_by_key.setdefault(key, len(every))
                if kind == len(every):
                    every.append(pod)
                    constraints.append(numbers.setdefault(key[0], len(numbers)))
            result.append(kind)
        if len(every) > before:
            self._fill_in(before, constraints)
            if self._unread:
                unread = np.array(sorted(self._unread), dtype=np.int64)
                self._free[:, unread] = self._free_on(unread)
                self._unread.clear()
            new = np.arange(before, len(every))
            self._least = np.minimum(self._least, self._asks[:, new].min(axis=1, keepdims=True))
            self._look(new)
        return result

    def bound(self) -> None:
        """Forget everything if too much is kept."""
        most = _FOR_EACH_POD * len(self._cluster.pods) + _MORE
        if self._places > most or len(self._by_signature) > most:
            self._forget()

    def catch_up(self) -> None:
        """Update the results for changes of the cluster's present view."""
        cluster, nodes = self._cluster, self._cluster.nodes
        # Changes of a trial and their undoing are logged, too.
        stamp = cluster.touched.total, nodes.static_version, len(nodes), len(cluster.resources.names)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        touched = self._changes.take()
        static = nodes.changed_since(self._static) if nodes.static_version != self._static else []
        self._static = nodes.static_version
        columns, self._columns = self._columns, len(cluster.resources.names)
        if touched is None or columns != self._columns or len(self._free) != len(nodes.used):
            self._free = self._free_on(np.arange(len(nodes)))
            if len(self._asks) != len(self._free):
                more = np.zeros((len(self._free) - len(self._asks), self._asks.shape[1]), dtype=np.int64)
                self._asks = np.concatenate((self._asks, more))
                self._least = self._asks[:, : len(self._pods)].min(axis=1, initial=_NO_LIMIT, keepdims=True)
            self._used_rows.clear()
            self._unread.clear()
            self._look(np.arange(len(self._pods)))
        elif touched or static:
            new = len(nodes) - self._free.shape[1]
            if new:
                self._free = np.concatenate((self._free, np.zeros((len(self._free), new), dtype=np.int64)), axis=1)
            self._compare({*touched, *static}, static)

    def _compare(self, touched: set[int], static: Sequence[int]) -> None:
        """Update changed rows; `static`: those with changes of more than amounts."""
        if not static and len(touched) <= _FEW_ROWS and self._used_rows.isdisjoint(touched) and self._useless(touched):
            return
        rows = np.array(sorted(touched), dtype=np.int64)
        free = self._free_on(rows)
        self._unread.difference_update(touched)
        if not static and self._used_rows.isdisjoint(touched) and (free < self._least).any(axis=0).all():
            self._free[:, rows] = free  # of no use to any kind, before and after
            return
        before = self._free[:, rows]
        otherwise = np.isin(rows, static) if static else np.zeros(len(rows), dtype=np.bool_)
        changed = np.flatnonzero((free != before).any(axis=0) | otherwise)
        if len(changed):
            rows, free, before, otherwise = rows[changed], free[:, changed], before[:, changed], otherwise[changed]
            self._free[:, rows] = free
            self._take_in(rows, free, (free > before).any(axis=0) | otherwise, otherwise)

    def _useless(self, touched: set[int]) -> bool:
        """Return whether these rows, which no kind has recorded, have too little for every kind; mark them as full."""
        nodes, least = self._cluster.nodes, self._least[:, 0]
        for row in touched:
            free = nodes.allocatable[:, row] - nodes.used[:, row]
            for pod in nodes.nominated[row].values() if row in nodes.nominated else ():
                if pod.row < 0:
                    free -= pod.signature.delta
            if not (np.maximum(free, 0) < least).any():  # as in `_free_on`: overcommitted counts as full
                return False
        for row in touched:
            self._free[:, row] = 0
        self._unread |= touched
        return True

    def _free_on(self, rows: Counts) -> Counts:
        """Return int64[columns, rows]: amounts that neither pods nor nominations use; 0 on rows without a node."""
        nodes = self._cluster.nodes
        free = nodes.allocatable[:, rows] - nodes.used[:, rows]
        if nodes.nominated and len(rows) <= _FEW_ROWS:
            for at, row in enumerate(rows.tolist()):
                for pod in nodes.nominated[row].values() if row in nodes.nominated else ():
                    if pod.row < 0:
                        free[:, at] -= pod.signature.delta
        elif nodes.nominated:
            by_nominated = nominated_rows(self._cluster, _ANY_PRIORITY, rows)
            free[:, np.searchsorted(rows, by_nominated.rows)] -= by_nominated.amounts
        free[:, ~nodes.alive[rows]] = 0
        result: Counts = np.maximum(free, 0)
        return result

    def _take_in(self, rows: Counts, free: Counts, more: Mask, otherwise: Mask) -> None:
        """Search again for the kinds that changed rows concern.

        `more`: bool[rows], further pods may fit; `otherwise`: bool[rows], more than amounts has changed.
        """
        number = len(self._pods)
        if not number:
            return
        if len(rows) > _FEW_ROWS:
            self._look(np.arange(number))
            return
        first, second = self._first[:number], self._second[:number]
        lost: list[int] = []
        gained: list[tuple[int, int]] = []
        if number * len(rows) <= _FEW_PAIRS:
            fits = (self._asks[CPU : self._columns, :number, None] <= free[CPU : self._columns, None]).all(axis=0)
            recorded = (first[:, None] == rows) | (second[:, None] == rows)
            dropped = recorded & (otherwise | ~fits)
            new = fits & more & (dropped | ~recorded) & (second == NO_ROW)[:, None]
            if dropped.any():
                lost = np.flatnonzero(dropped.any(axis=1)).tolist()
            if new.any():
                gained = [(kind, int(rows[at])) for kind, at in np.argwhere(new).tolist()]
        else:
            changes = zip(rows.tolist(), free.T, more.tolist(), otherwise.tolist(), strict=True)
            for row, have, grown, doubtful in changes:
                kinds = np.flatnonzero((first == row) | (second == row))
                if len(kinds):
                    lost += kinds[doubtful | (self._asks[:, kinds] > have[:, None]).any(axis=0)].tolist()
                if grown:
                    gained += [(kind, row) for kind in self._may_fit(row, have)]
        if lost or gained:
            self._exchange(lost, gained)

    def _exchange(self, lost: Sequence[int], gained: Sequence[tuple[int, int]]) -> None:
        """Drop rows that kinds have lost; record further rows for kinds if their node constraints allow them."""
        first, second = self._first, self._second
        alone = {kind for kind in lost if second[kind] == NO_ROW}
        again = set(lost) - alone
        for kind in alone:  # no other row had enough free before
            first[kind] = NO_ROW
        changed = set(alone)
        masks: dict[int, Mask] = {}
        for kind, row in gained:
            if kind not in again and row != first[kind] and second[kind] == NO_ROW and self._may_use(kind, row, masks):
                (first if first[kind] == NO_ROW else second)[kind] = row
                changed.add(kind)
        self._set(np.array(sorted(changed), dtype=np.int64))
        self._look(np.array(sorted(again), dtype=np.int64))

    def _may_fit(self, row: int, have: Counts) -> list[int]:
        """Return the kinds without two rows that fit into these amounts and are not bound to other nodes."""
        number = len(self._pods)
        home = self._home[:number]
        kinds = np.flatnonzero((self._second[:number] == NO_ROW) & (self._asks[CPU, :number] <= have[CPU]))
        own = self._homes.get(self._cluster.nodes.names[row], _ANY_NODE)
        kinds = kinds[(home[kinds] == _ANY_NODE) | (home[kinds] == own)]
        for column in range(MEMORY, self._columns):
            if len(kinds):
                kinds = kinds[self._asks[column, kinds] <= have[column]]
        result: list[int] = kinds.tolist()
        return result

    def _may_use(self, kind: int, row: int, masks: dict[int, Mask]) -> bool:
        """Return whether the node constraints of a kind allow a row; `masks`: a cache by constraints."""
        key = int(self._constraints[kind])
        if key not in masks:
            masks[key] = self._rows_for(self._pods[kind])
        return bool(masks[key][row])

    def _rows_for(self, pod: PodRecord) -> Mask:
        """Return bool[rows]: those that the pod may use, including its own."""
        mask = required_mask(self._cluster.nodes, pod.signature)
        return mask & self._allowed(pod) if mask.any() else mask

    def _fill_in(self, start: int, constraints: Sequence[int]) -> None:
        """Fill the columns of the kinds from `start` on; `constraints`: the constraints' number of each."""
        new = self._pods[start:]
        until = len(self._pods)
        if until > len(self._first):
            self._widen(max(until, 2 * len(self._first)))
        self._rows += [set() for _ in new]
        self._code += [SEVERAL] * len(new)
        self._constraints[start:until] = constraints
        asks = np.array([pod.signature.delta for pod in new], dtype=np.int64).T
        self._asks[CPU:, start:until] = asks[CPU : len(self._asks)]
        named: dict[int, int] = {}
        for key, pod in dict(zip(constraints, new, strict=True)).items():
            names = named_nodes(pod.signature) if pod.signature.affinity is not None else None
            if names is not None and len(names) == 1:
                named[key] = self._homes.setdefault(next(iter(names)), len(self._homes))
        if named:
            self._home[start:until] = [named.get(key, _ANY_NODE) for key in constraints]

    def _widen(self, capacity: int) -> None:
        grown = capacity - len(self._first)
        self._constraints = np.concatenate((self._constraints, np.zeros(grown, dtype=np.int64)))
        self._home = np.concatenate((self._home, np.full(grown, _ANY_NODE, dtype=np.int64)))
        self._asks = np.concatenate((self._asks, np.zeros((len(self._asks), grown), dtype=np.int64)), axis=1)
        unknown = np.full(grown, NO_ROW, dtype=np.int64)
        self._first, self._second = np.concatenate((self._first, unknown)), np.concatenate((self._second, unknown))
        self._codes = np.concatenate((self._codes, np.full(grown, SEVERAL, dtype=np.int64)))

    # -- searching all rows ------------------------------------------------------------------------

    def _look(self, kinds: Counts) -> None:
        """Search all rows for these kinds."""
        if not len(kinds):
            return
        self._first[kinds] = self._second[kinds] = NO_ROW
        order = kinds[np.argsort(self._constraints[kinds], kind="stable")]
        edges = np.flatnonzero(np.diff(self._constraints[order])) + 1
        for alike in np.split(order, edges):
            pod = self._pods[alike[0]]
            # Each pod of a DaemonSet has its own node, which is full or not: mostly no other row must be checked.
            own = np.flatnonzero(required_mask(self._cluster.nodes, pod.signature))
            if len(own) == 1 and (self._asks[:, alike] > self._free[:, own]).any(axis=0).all():
                continue
            rows = own[self._allowed(pod)[own]] if len(own) else own
            if len(rows):
                self._look_among(alike, rows)
        self._set(kinds)

    def _look_among(self, kinds: Counts, rows: Counts) -> None:
        """Search these rows, all of which the kinds may use."""
        columns = np.flatnonzero(self._asks[:, kinds].any(axis=1))
        free, asks = self._free[np.ix_(columns, rows)], self._asks[np.ix_(columns, kinds)]
        possible = (asks <= free.max(axis=1)[:, None]).all(axis=0)
        kinds, asks = kinds[possible], asks[:, possible]
        if len(kinds) > _FEW_KINDS and len(rows) > _BLOCK:
            order = _largest(free)
            rows, free = rows[order], free[:, order]
        first, second = self._first, self._second
        for start in range(0, len(rows), _BLOCK if len(kinds) > _FEW_KINDS else len(rows)):
            if not len(kinds):
                return
            until = start + _BLOCK if len(kinds) > _FEW_KINDS else len(rows)
            fits = np.ones((len(kinds), min(until, len(rows)) - start), dtype=np.bool_)
            for ask, have in zip(asks, free[:, start:until], strict=True):
                fits &= ask[:, None] <= have
            pending = np.flatnonzero(fits.any(axis=1))
            for again in range(2):
                at = fits[pending].argmax(axis=1)
                fitting, rows_found = kinds[pending], rows[start + at]
                open_ = first[fitting] == NO_ROW
                second[fitting[~open_]] = rows_found[~open_]
                first[fitting[open_]] = rows_found[open_]
                fits[pending, at] = False
                pending = pending[fits[pending].any(axis=1) & (second[fitting] == NO_ROW)]
                if again or not len(pending):
                    break
            left = second[kinds] == NO_ROW
            kinds, asks = kinds[left], asks[:, left]
            if until >= len(rows):
                return

    def _set(self, kinds: Counts) -> None:
        """Update `codes`, and report the rows of pods with a new result."""
        if not len(kinds):
            return
        first, second = self._first[kinds], self._second[kinds]
        codes = np.where(second != NO_ROW, SEVERAL, first)
        before = self._codes[kinds]
        self._codes[kinds] = codes
        self._used_rows.update(first[first != NO_ROW].tolist())
        self._used_rows.update(second[second != NO_ROW].tolist())
        if len(self._used_rows) > self._most_used:
            number = len(self._pods)
            self._used_rows = {*self._first[:number].tolist(), *self._second[:number].tolist()} - {NO_ROW}
            self._most_used = 2 * len(self._used_rows) + _BLOCK
        moved = np.flatnonzero(codes != before)
        for kind, old, new in zip(kinds[moved].tolist(), before[moved].tolist(), codes[moved].tolist(), strict=True):
            self._code[kind] = new
            rows = self._rows[kind]
            if old == NOWHERE or new == NOWHERE:
                # With one row left, pods on that row have the same result as with none.
                self.changed_rows += rows
            else:
                self.changed_rows += rows.intersection((old, new))
        if len(self.changed_rows) > _MOST_CHANGES:
            older = len(self.changed_rows) - _MOST_CHANGES // 2
            del self.changed_rows[:older]
            self.cut += older


class RestartReader:
    """A reader's position in the changes of `RestartPlaces`, initially at their end."""

    __slots__ = ("_places", "_stamp")

    def __init__(self, places: RestartPlaces) -> None:
        self._places = places
        places.catch_up()
        self._stamp = self._now()

    def _now(self) -> tuple[int, int]:
        places = self._places
        return places.epoch, places.cut + len(places.changed_rows)

    def take(self) -> list[int] | None:
        """Return the rows of pods with a new result since the last call; None: it may be any."""
        places = self._places
        places.bound()
        places.catch_up()
        (epoch, position), self._stamp = self._stamp, self._now()
        if epoch != places.epoch or position < places.cut:
            return None
        return places.changed_rows[position - places.cut :]

    def copy(self) -> "RestartReader":
        """Return a reader at the same position."""
        reader = RestartReader.__new__(RestartReader)
        reader._places, reader._stamp = self._places, self._stamp
        return reader


def _largest(free: Counts) -> Counts:
    """Return columns of int64[columns, rows] of which two suffice for any request for which two of all do.

    These are the rows that no other exceeds in every column, and those that are so without them; the largest come
    first.
    """
    size = (free / np.maximum(free.max(axis=1), 1)[:, None]).sum(axis=0)
    left = np.argsort(-size, kind="stable")
    result: list[Counts] = []
    for _ in range(2):
        passed, top = left, []
        for _ in range(_MOST_LARGEST):
            if not len(passed):
                break
            top.append(passed[:1])
            passed = passed[1:]
            passed = passed[(free[:, passed] > free[:, top[-1]]).any(axis=0)]
        top.append(passed)
        chosen = np.concatenate(top)
        result.append(chosen)
        left = left[~np.isin(left, chosen)]
    return np.concatenate(result)
