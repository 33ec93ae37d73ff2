"""Free capacity as plain numbers: the fast path of a reprieve.

If only resources matter (every other filter depends on the node's own object, which evictions do not change), "every
assigned pod still passes, the k-th with those before it" is the same as: on each node, for each resource that an
assigned pod requests, the total fits; a pod that does not request a resource neither checks it nor adds to it. So a
unit can be judged by subtracting its amounts from the free ones. The plain path in
`reprieve.preemption.reprieved_units` calls the filters; property tests compare the two.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.framework.diagnoser import any_concerned
from reprieve.framework.plugin import CycleState
from reprieve.framework.profile import Profile
from reprieve.framework.status import Code, call_plugin

RESOURCES_PLUGIN = "NodeResourcesFit"


def only_resources(profile: Profile, states: Iterable[CycleState]) -> bool:
    """Return whether resources are all that an eviction can change for these pods.

    Rules of pods that may return count too, hence `concerns`, which does not depend on placed pods.
    """
    resources = [plugin for plugin in profile.node_filters if plugin.name == RESOURCES_PLUGIN]
    if not resources or not resources[0].checks_everything:
        return False
    other_filters = [plugin for plugin in profile.node_filters if plugin.name != RESOURCES_PLUGIN]
    unlike: dict[int, CycleState] = {}
    for state in states:
        if any_concerned(profile.cluster_filters, state):
            return False
        unlike.setdefault(state.signature.id, state)
    calls = ((plugin, state) for state in unlike.values() for plugin in other_filters)
    return all(call_plugin(p.name, "PreFilter", p.pre_filter, state).code is Code.SKIP for p, state in calls)


Shortage = tuple[int, tuple[tuple[int, int], ...]]
"""A row, and (column, missing amount) of every short resource there."""


@dataclass(slots=True)
class FreeResources:
    """The free amounts of relevant rows. `left[row]` has an amount per entry of `columns[row]`."""

    columns: dict[int, tuple[int, ...]]
    left: dict[int, list[int]]
    _known: dict[tuple[int, tuple[int, ...]], list[int]] = field(default_factory=dict)

    @classmethod
    def after(
        cls,
        cluster: ClusterState,
        assigned: Sequence[tuple[PodRecord, int]],
        *,
        priority: int | None,
    ) -> "FreeResources":
        """Return the free capacity after the assigned pods run on their rows, in the cluster's present view.

        Nominated pods of equal or higher priority count as running (preemption.md 3.4), but not the assigned pods' own
        nominations; with a priority of None no nominated pod does.
        """
        by_row: dict[int, list[PodRecord]] = {}
        for pod, row in assigned:
            by_row.setdefault(row, []).append(pod)
        nodes = cluster.nodes
        room = cls({}, {})
        rows = list(by_row)
        free = (nodes.allocatable[:, rows] - nodes.used[:, rows]).T.tolist()
        own: set[str] | None = None
        for (row, pods), have in zip(by_row.items(), free, strict=True):
            columns = tuple(sorted({column for pod in pods for column, _ in pod.signature.requests}))
            running = pods
            if priority is not None and row in nodes.nominated:
                own = own or {pod.uid for pod, _ in assigned}
                nominated = nodes.nominated[row].values()
                running = pods + [p for p in nominated if p.row < 0 and p.priority >= priority and p.uid not in own]
            left = [have[column] for column in columns]
            for pod in running:
                left = [amount - used for amount, used in zip(left, room._amounts(pod, columns), strict=True)]
            room.columns[row], room.left[row] = columns, left
        return room

    def _amounts(self, pod: PodRecord, columns: tuple[int, ...]) -> list[int]:
        """Return a pod's amounts by column; the result must not be changed."""
        signature = pod.signature
        result = self._known.get((signature.id, columns))
        if result is None:
            delta = signature.delta
            result = self._known[signature.id, columns] = [int(delta[column]) for column in columns]
        return result

    def short_columns(self) -> list[int]:
        """Return columns that are short somewhere; none: everything assigned fits."""
        return sorted(
            {
                column
                for row, amounts in self.left.items()
                for amount, column in zip(amounts, self.columns[row], strict=True)
                if amount < 0
            }
        )

    def free(self, pods: Sequence[PodRecord], rows: Sequence[int]) -> None:
        """Add the capacity of pods that count as running and will be removed."""
        for pod, row in zip(pods, rows, strict=True):
            left = self.left.get(row)
            if left is not None:
                amounts = self._amounts(pod, self.columns[row])
                self.left[row] = [amount + more for amount, more in zip(left, amounts, strict=True)]

    def _by_row(self, pods: Sequence[PodRecord], rows: Sequence[int]) -> dict[int, list[int]]:
        """Return the pods' total amounts on each relevant row, by the row's columns."""
        if len(pods) == 1:
            return {rows[0]: self._amounts(pods[0], self.columns[rows[0]])} if rows[0] in self.left else {}
        wanted: dict[int, list[int]] = {}
        if len({pod.signature.id for pod in pods}) == 1:  # most are: members of a group are alike
            for row, count in Counter(rows).items():
                if row in self.left:
                    wanted[row] = [count * amount for amount in self._amounts(pods[0], self.columns[row])]
            return wanted
        for pod, row in zip(pods, rows, strict=True):
            if row in self.left:
                amounts, sums = self._amounts(pod, self.columns[row]), wanted.get(row)
                wanted[row] = amounts if sums is None else [a + b for a, b in zip(sums, amounts, strict=True)]
        return wanted

    def shortage(self, pods: Sequence[PodRecord], rows: Sequence[int]) -> Shortage | None:
        """Put the pods back if they fit (None), else change nothing and return the shortage on the first row."""
        left = self.left
        wanted = self._by_row(pods, rows)
        for row in sorted(wanted):
            short = self._short(row, wanted[row])
            if short:
                return row, short
        for row, sums in wanted.items():
            left[row] = [have - want for have, want in zip(left[row], sums, strict=True)]
        return None

    def shortage_on(self, row: int, pods: Sequence[PodRecord], rows: Sequence[int]) -> tuple[tuple[int, int], ...]:
        """Return (column, missing amount) of every shortage on one row with the pods back, without a change."""
        wanted = self._by_row(pods, rows).get(row)
        return self._short(row, wanted) if wanted is not None else ()

    def _short(self, row: int, wanted: Sequence[int]) -> tuple[tuple[int, int], ...]:
        return tuple(
            [
                (column, want - have)
                for have, want, column in zip(self.left[row], wanted, self.columns[row], strict=True)
                if want > have and want > 0
            ]
        )
