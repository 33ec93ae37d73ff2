"""Places for a group of identical pods.

It does not matter which pod runs on which node, so pods are only counted while evictions are tried.
"""

from collections.abc import Collection, Sequence

from reprieve.preemption.victim_search.problem import Numbers, Place


class SimilarPods:
    """The number of pods that fit on each node beside the units that stay, with the interface of `MixedPods`.

    `left[node]`: the free amounts of the node beside those units; `spare[0][node]`: number of the pods that fit there;
    `changed`: nodes for which these may have changed.
    """

    counted = 0
    """Always 0: counting pods takes no steps of the search."""

    def __init__(self, numbers: Numbers, left: list[list[int]], changed: set[int]) -> None:
        kind = numbers.kinds[0]
        self.left, self._takes, self._changed = left, numbers.takes, changed
        self._wanted = kind.wanted
        self._usable = kind.usable
        self._count = len(kind.pods)
        self.spare = [[self._places(node, have) for node, have in enumerate(left)]]
        self._total = sum(self.spare[0])

    @property
    def missing(self) -> list[int]:
        """Return the number of pods that do not fit."""
        return [max(0, self._count - self._total)]

    @property
    def unplaced(self) -> list[int]:
        """Return the number of pods that must fit into `left`."""
        return [self._count]

    def settle(self) -> bool:
        """Return whether all pods fit."""
        return self._total >= self._count

    def repack(self) -> bool:
        """Return False: no other order fits more identical pods."""
        return False

    def room(self) -> int:
        """Return the number of further pods that fit."""
        return max(0, self._total - self._count)

    def free(self, unit: int) -> None:
        """Free the amounts of the unit."""
        self._shift(unit, 1)

    def hold(self, unit: int) -> None:
        """Occupy the amounts of the unit again."""
        self._shift(unit, -1)

    def may_return(self, unit: int) -> bool:
        """Return whether all pods still fit if the unit stays."""
        lost, room, spare, wanted = 0, self._total - self._count, self.spare[0], self._wanted
        for node, amounts in self._takes[unit]:
            if spare[node]:
                have, places = self.left[node], 1 << 40
                for resource, want in wanted:
                    fits = (have[resource] - amounts[resource]) // want
                    if fits < places:
                        places = fits
                lost += spare[node] - max(places, 0)
                if lost > room:
                    return False
        return True

    def mark(self) -> int:
        """Return an empty mark: free amounts follow from the evicted units."""
        return 0

    def take_back(self, mark: int, moved: Sequence[tuple[int, int]]) -> None:
        """Apply the moves (unit, 1: free it, -1: hold it) that lead back to the mark."""
        for unit, sign in moved:
            self._shift(unit, sign)

    def keep(self) -> None:
        """Do nothing: there is no log."""

    def touched(self, mark: int) -> set[int]:
        """Return no nodes: pods are only counted."""
        return set()

    def arrange(self, places: Collection[Place]) -> None:
        """Do nothing: all arrangements are equal."""

    def places(self) -> tuple[Place, ...]:
        """Return places for all pods, the first nodes first."""
        places, rest = [], self._count
        for node, spare in enumerate(self.spare[0]):
            if spare and rest:
                places.append((0, node, min(spare, rest)))
                rest -= places[-1][2]
        return tuple(places)

    def _shift(self, unit: int, sign: int) -> None:
        spare, wanted = self.spare[0], self._wanted
        for node, amounts in self._takes[unit]:
            have = self.left[node]
            for resource, amount in enumerate(amounts):
                have[resource] += sign * amount
            self._changed.add(node)
            if self._usable[node]:
                places = 1 << 40
                for resource, want in wanted:
                    fits = have[resource] // want
                    if fits < places:
                        places = fits
                if places < 0:
                    places = 0
                self._total += places - spare[node]
                spare[node] = places

    def _places(self, node: int, have: Sequence[int]) -> int:
        if not self._usable[node]:
            return 0
        return max(0, min([have[resource] // want for resource, want in self._wanted], default=1 << 40))
