"""Places for a group with pods of several kinds.

Pods are placed while evictions are tried, each kind on nodes with the least capacity left for others; pods without a
place are counted in `missing`.  If that order of placing does not fit all of them, others are tried (`repack`).

Invariants: `left[node]` is the free amounts beside the units that stay and the pods placed there; no pod is placed
where a resource that it requests is overdrawn; `spare[kind][node]` is the number of further pods of the kind that would
fit.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from reprieve.preemption.victim_search.problem import Numbers, Place

FEW_PODS = 64
"""Maximum number of pods of a group that is placed again as a whole if one of them does not fit."""


class MixedPods:
    """See the module docstring.

    `open[kind]`: nodes with capacity for more, in the order in which it was freed; `put`: pods of each kind by node.
    """

    def __init__(self, numbers: Numbers, left: list[list[int]], changed: set[int]) -> None:
        self._numbers, self._changed = numbers, changed
        self._wanted = [kind.wanted for kind in numbers.kinds]
        self._usable = [kind.usable for kind in numbers.kinds]
        self.left = left
        self.missing = [len(kind.pods) for kind in numbers.kinds]
        self.put: list[list[int] | None] = [None] * len(left)
        self.spare: list[list[int]] = [[0] * len(left) for _ in numbers.kinds]
        self.open: list[dict[int, None]] = [{} for _ in numbers.kinds]
        self._packing = _Packing(numbers, [have.copy() for have in left])
        self._log: list[tuple[int, list[int], list[int] | None, list[int]]] = []
        """(node, left, put, missing) before each change."""
        for node in range(len(left)):
            self._recount(node)

    @property
    def counted(self) -> int:
        """Steps taken here, as `search.STEPS` counts them."""
        return self._packing.counted

    @property
    def unplaced(self) -> list[int]:
        """Return the number of pods of each kind that must fit into `left`."""
        return self.missing

    def room(self) -> int:
        """Return the number of further pods that fit, over all kinds."""
        return sum(self.spare[kind][node] for kind, nodes in enumerate(self.open) for node in nodes)

    def settle(self) -> bool:
        """Place missing pods where they fit; return whether none is left."""
        done = True
        for kind, count in enumerate(self.missing):
            while count:
                node = self._tightest(kind)
                if node < 0:
                    done = False
                    break
                more = min(count, self.spare[kind][node])  # placing them makes it even tighter
                self.place(kind, node, more)
                count -= more
        return done

    def repack(self) -> bool:
        """Place all pods again in another order if `settle` leaves some missing; return whether all fit."""
        packed = self._packing.packed(
            lambda: sorted({*self._with_pods(), *(node for nodes in self.open for node in nodes)})
        )
        if packed is None:
            return False
        for node in self._with_pods():
            self.take_off(node)
        for place in packed:
            self.place(*place)
        return True

    def arrange(self, places: Collection[Place]) -> None:
        """Place pods exactly at these places; on unchanged nodes they stay."""
        wanted: dict[int, list[int]] = {}
        for kind, node, count in places:
            wanted.setdefault(node, [0] * len(self.missing))[kind] += count
        for node, put in enumerate(self.put):
            if put is not None and any(put) and put != wanted.get(node):
                self.take_off(node)
        for node, counts in wanted.items():
            if self.put[node] != counts:
                for kind, count in enumerate(counts):
                    if count:
                        self.place(kind, node, count)

    def places(self) -> tuple[Place, ...]:
        """Return the places of the pods."""
        return tuple(
            (kind, node, count)
            for node, put in enumerate(self.put)
            if put is not None
            for kind, count in enumerate(put)
            if count
        )

    def place(self, kind: int, node: int, count: int) -> None:
        """Place that number of missing pods on a node where they fit."""
        self._save(node)
        self.missing[kind] -= count
        put = self.put[node]
        if put is None:
            put = self.put[node] = [0] * len(self.missing)
        put[kind] += count
        have = self.left[node]
        for resource, want in self._wanted[kind]:
            have[resource] -= want * count
        self._recount(node)

    def take_off(self, node: int) -> None:
        """Count all pods placed on the node as missing again."""
        put = self.put[node]
        if put is not None:
            self._save(node)
            for kind, count in enumerate(put):
                self._lift(node, kind, count)
            self._recount(node)

    # -- units that are evicted and restored -----------------------------------------------------------------------

    def free(self, unit: int) -> None:
        """Free the amounts of the unit."""
        self._packing.shift(unit, 1)
        self._shift(unit, 1)

    def hold(self, unit: int) -> None:
        """Occupy the amounts again; pods that no longer fit beside the unit become missing."""
        self._packing.shift(unit, -1)
        self._shift(unit, -1)

    def may_return(self, unit: int) -> bool:
        """Return False if some pods certainly do not fit when the unit stays."""
        return self._packing.holds_without(unit)

    def mark(self) -> int:
        """Return the point for `take_back`."""
        return len(self._log)

    def take_back(self, mark: int, moved: Sequence[tuple[int, int]]) -> None:
        """Return to the mark; `moved`: the moves (unit, 1: free it, -1: hold it) that lead there."""
        for unit, sign in moved:
            self._packing.shift(unit, sign)
        log = self._log
        nodes: set[int] = set()
        while len(log) > mark:
            node, self.left[node], self.put[node], self.missing = log.pop()
            nodes.add(node)
        for node in sorted(nodes):
            self._recount(node)

    def keep(self) -> None:
        """Clear the log."""
        self._log.clear()

    def touched(self, mark: int) -> set[int]:
        """Return nodes that have changed since the mark."""
        return {entry[0] for entry in self._log[mark:]}

    # -- internals -------------------------------------------------------------------------------------------------

    def _shift(self, unit: int, sign: int) -> None:
        for node, amounts in self._numbers.takes[unit]:
            self._save(node)
            have = self.left[node]
            for resource, amount in enumerate(amounts):
                have[resource] += sign * amount
            if sign < 0 and self.put[node] is not None:
                self._push_out(node)
            self._recount(node)

    def _with_pods(self) -> list[int]:
        """Return the nodes on which pods are placed."""
        return [node for node, put in enumerate(self.put) if put is not None and any(put)]

    def _tightest(self, kind: int) -> int:
        """Return the fitting node with the least capacity left, or -1."""
        nodes = self.open[kind]
        if len(nodes) < 2:
            return next(iter(nodes), -1)
        left, spare, kinds = self.left, self.spare, range(len(self.missing))
        harder = [k for k in kinds if k != kind and self.missing[k]] or [k for k in kinds if k != kind]
        return min(nodes, key=lambda node: ([spare[k][node] for k in harder], left[node], node))

    def _push_out(self, node: int) -> None:
        """Remove pods from an overdrawn node until the rest fits: as few as possible, the smallest."""
        put = self.put[node]
        assert put is not None
        wants_of = [kind.wants for kind in self._numbers.kinds]
        while True:
            have = self.left[node]
            short = [
                (resource, -amount)
                for resource, amount in enumerate(have)
                if amount < 0 and any(put[kind] and wants[resource] for kind, wants in enumerate(wants_of))
            ]
            if not short:
                return
            best = None
            for kind, count in enumerate(put):
                wants = wants_of[kind]
                if not count or not any(wants[resource] for resource, _ in short):
                    continue
                needed = max(-(-lack // wants[resource]) if wants[resource] else count for resource, lack in short)
                key = (min(needed, count), wants, kind)
                if best is None or key < best:
                    best = key
            assert best is not None
            self._lift(node, best[2], best[0])

    def _lift(self, node: int, kind: int, count: int) -> None:
        put = self.put[node]
        assert put is not None
        put[kind] -= count
        have = self.left[node]
        for resource, want in self._wanted[kind]:
            have[resource] += want * count
        self.missing[kind] += count

    def _recount(self, node: int) -> None:
        have = self.left[node]
        self._changed.add(node)
        for kind, wanted in enumerate(self._wanted):
            room = 0
            if self._usable[kind][node]:
                room = 1 << 40
                for resource, want in wanted:
                    fits = have[resource] // want
                    if fits < room:
                        room = fits
                        if room <= 0:
                            room = 0
                            break
            self.spare[kind][node] = room
            if room:
                self.open[kind][node] = None
            else:
                self.open[kind].pop(node, None)

    def _save(self, node: int) -> None:
        put = self.put[node]
        self._log.append((node, self.left[node].copy(), None if put is None else put.copy(), self.missing.copy()))


@dataclass(frozen=True, slots=True)
class _Floor:
    """The number of pods that request at least `size` of a resource: nodes must hold that many of this size."""

    resource: int
    size: int
    pods: int


class _Packing:
    """Places all pods at once on empty nodes. `empty[node]`: the free amounts there."""

    def __init__(self, numbers: Numbers, empty: list[list[int]]) -> None:
        self._numbers, self._empty = numbers, empty
        kinds = numbers.kinds
        self._pods = sum(len(kind.pods) for kind in kinds)
        self._floors = [
            _Floor(resource, size, sum(len(kind.pods) for kind in kinds if kind.wants[resource] >= size))
            for resource in range(len(kinds[0].wants))
            for size in sorted({kind.wants[resource] for kind in kinds} - {0})
        ]
        self._sizes = [(floor.resource, floor.size) for floor in self._floors]
        self._holds = [sum(max(0, have[floor.resource]) // floor.size for have in empty) for floor in self._floors]
        top = [max(1, *column) for column in zip(*(kind.wants for kind in kinds), strict=True)]
        self._shares = [1.0 / most for most in top]
        """By resource: the weight of one unit of it."""
        sizes = [sum(want / most for want, most in zip(kind.wants, top, strict=True)) for kind in kinds]
        numbered = range(len(kinds))
        self._orders = [sorted(numbered, key=lambda kind: -sizes[kind])]
        self._orders += [
            sorted(numbered, key=lambda kind: (-kinds[kind].wants[r], -sizes[kind])) for r in range(len(top))
        ]
        self._gone: set[int] = set()
        self._known: dict[frozenset[int], list[Place] | None] = {}
        """By the evicted units: places for all pods; None if no order fits all."""
        self.counted = 0

    def shift(self, unit: int, sign: int) -> None:
        """Free the amounts of the unit (`sign` 1), or occupy them again (-1)."""
        self._gone ^= {unit}
        holds, floors = self._holds, self._sizes
        for node, amounts in self._numbers.takes[unit]:
            have = self._empty[node]
            for turn, (resource, size) in enumerate(floors):
                amount = amounts[resource]
                if amount:
                    now = have[resource]
                    after = now + sign * amount
                    holds[turn] += (after // size if after > 0 else 0) - (now // size if now > 0 else 0)
            for resource, amount in enumerate(amounts):
                have[resource] += sign * amount

    def holds_without(self, unit: int) -> bool:
        """Return whether the nodes hold enough of each size if the unit stays and no pods are placed on them."""
        takes, empty = self._numbers.takes[unit], self._empty
        for holds, floor, (resource, size) in zip(self._holds, self._floors, self._sizes, strict=True):
            for node, amounts in takes:
                amount = amounts[resource]
                if amount:
                    now = empty[node][resource]
                    after = now - amount
                    holds += (after // size if after > 0 else 0) - (now // size if now > 0 else 0)
            if holds < floor.pods:
                return False
        return True

    def packed(self, nodes: Callable[[], Sequence[int]]) -> Sequence[Place] | None:
        """Return places for all pods on these nodes, in one of several orders; None if none of them fits all pods."""
        if self._pods > FEW_PODS:
            return None
        if any(holds < floor.pods for holds, floor in zip(self._holds, self._floors, strict=True)):
            return None
        evicted = frozenset(self._gone)
        if evicted not in self._known:
            among = nodes()
            self._known[evicted] = None
            for order in self._orders:
                self.counted += 1 + self._pods * len(among) // 64
                places = self._in_order(order, among)
                if places is not None:
                    self._known[evicted] = places
                    break
        return self._known[evicted]

    def _in_order(self, order: Sequence[int], among: Sequence[int]) -> list[Place] | None:
        """Return places for all pods, each on the node with the least left; None if one does not fit."""
        numbers = self._numbers
        left = {node: self._empty[node].copy() for node in among}
        places = []
        rests = {node: self._rest(have) for node, have in left.items()}
        for kind in order:
            wanted, usable = numbers.kinds[kind].wanted, numbers.kinds[kind].usable
            count = len(numbers.kinds[kind].pods)
            # A node takes all pods of a kind that it holds at once, so each node is considered once.
            for node in sorted(left, key=rests.__getitem__):
                if not count:
                    break
                have = left[node]
                more = min(count, min([have[resource] // want for resource, want in wanted]))
                if more > 0 and usable[node]:
                    for resource, want in wanted:
                        have[resource] -= want * more
                    rests[node] = self._rest(have)
                    places.append((kind, node, more))
                    count -= more
            if count:
                return None
        return places

    def _rest(self, have: Sequence[int]) -> float:
        """Return the free amounts, all resources together."""
        return float(sum([share * amount for share, amount in zip(self._shares, have, strict=True)]))
