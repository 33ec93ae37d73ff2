"""Room by plain numbers: the fast path of a reprieve.

Where only resources are in play (every other filter depends on the node's own object, which evictions do not change),
"every assigned pod still passes, the k-th seeing those before it" is the same as: on each node, for each resource that
an assigned pod asks for, everything placed fits - a pod that asks for nothing of a resource neither checks it nor adds
to it.  So a unit can be judged by subtracting its amounts from what is left.  The plain path in
`reprieve.preemption.reprieving` asks the filters themselves; property tests hold the two equal.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.framework.diagnoser import any_concerned
from reprieve.framework.plugin import CycleState
from reprieve.framework.profile import Profile
from reprieve.framework.status import Code, call_plugin

RESOURCES_PLUGIN = "NodeResourcesFit"


def only_resources(profile: Profile, states: Iterable[CycleState]) -> bool:
    """Whether resources are all that an eviction can change for these pods.

    A rule of a pod that may come back counts too, hence `concerns`: it does not depend on who is placed now.
    """
    resources = [plugin for plugin in profile.node_filters if plugin.name == RESOURCES_PLUGIN]
    if not resources or not resources[0].checks_everything:
        return False
    others = [plugin for plugin in profile.node_filters if plugin.name != RESOURCES_PLUGIN]
    seen: set[int] = set()
    for state in states:
        if any_concerned(profile.cluster_filters, state):
            return False
        if state.signature.id in seen:
            continue
        seen.add(state.signature.id)
        if any(call_plugin(p.name, "PreFilter", p.pre_filter, state).code is not Code.SKIP for p in others):
            return False
    return True


@dataclass(slots=True)
class FreeResources:
    """What is left on the rows that matter. `left[row]` has an amount per entry of `columns[row]`."""

    columns: dict[int, tuple[int, ...]]
    left: dict[int, list[int]]

    @classmethod
    def after(
        cls,
        cluster: ClusterState,
        assigned: Sequence[tuple[PodRecord, int]],
        *,
        priority: int | None,
    ) -> "FreeResources":
        """Room once the assigned pods run on their rows, in the cluster's present view.

        Nominated pods of equal or higher priority count as running (preemption.md 3.4), but not the
        assigned pods' own nominations; with a priority of None no nominated pod does.
        """
        own = {pod.uid for pod, _ in assigned}
        by_row: dict[int, list[PodRecord]] = {}
        for pod, row in assigned:
            by_row.setdefault(row, []).append(pod)
        columns: dict[int, tuple[int, ...]] = {}
        left: dict[int, list[int]] = {}
        nodes = cluster.nodes
        for row, pods in by_row.items():
            wanted = tuple(sorted({column for pod in pods for column, _ in pod.signature.requests}))
            there = nodes.nominated.get(row, {}).values() if priority is not None else ()
            running = pods + [p for p in there if p.row < 0 and p.priority >= (priority or 0) and p.uid not in own]
            have, used = nodes.allocatable[:, row], nodes.used[:, row]
            columns[row] = wanted
            left[row] = [
                int(have[c]) - int(used[c]) - sum(int(pod.signature.delta[c]) for pod in running) for c in wanted
            ]
        return cls(columns, left)

    def short_columns(self) -> list[int]:
        """Columns that are short somewhere; none: everything assigned fits."""
        return sorted(
            {
                column
                for row, amounts in self.left.items()
                for amount, column in zip(amounts, self.columns[row], strict=True)
                if amount < 0
            }
        )

    def free(self, pods: Sequence[PodRecord], rows: Sequence[int]) -> None:
        """Add the room of pods that are counted as running now and are to be gone."""
        for pod, row in zip(pods, rows, strict=True):
            amounts = self.left.get(row)
            if amounts is not None:
                delta = pod.signature.delta
                for index, column in enumerate(self.columns[row]):
                    amounts[index] += int(delta[column])

    def missing(self, pods: Sequence[PodRecord], rows: Sequence[int], row: int) -> list[tuple[int, int]]:
        """(column, missing amount) of everything that would be short on one row with the pods taken back."""
        here = [pod.signature.delta for pod, where in zip(pods, rows, strict=True) if where == row]
        found = []
        for have, column in zip(self.left[row], self.columns[row], strict=True):
            want = sum(int(delta[column]) for delta in here)
            if want > have and want > 0:
                found.append((column, want - have))
        return found

    def shortage(self, pods: Sequence[PodRecord], rows: Sequence[int]) -> tuple[int, int, int] | None:
        """Take the pods back if they fit (None), else change nothing and say (row, column, missing amount)."""
        left = self.left
        if len(pods) == 1:
            row = rows[0]
            amounts = left.get(row)
            if amounts is None:
                return None
            delta = pods[0].signature.delta
            columns = self.columns[row]
            wanted = [int(delta[c]) for c in columns]
            for have, want, column in zip(amounts, wanted, columns, strict=True):
                if want > have and want > 0:
                    return row, column, want - have
            left[row] = [have - want for have, want in zip(amounts, wanted, strict=True)]
            return None
        change: dict[int, list[int]] = {}
        for pod, row in zip(pods, rows, strict=True):
            if row not in left:
                continue
            delta = pod.signature.delta
            columns = self.columns[row]
            sums = change.get(row)
            if sums is None:
                change[row] = [int(delta[c]) for c in columns]
            else:
                for index, column in enumerate(columns):
                    sums[index] += int(delta[column])
        for row in sorted(change):
            for have, want, column in zip(left[row], change[row], self.columns[row], strict=True):
                if want > have and want > 0:
                    return row, column, want - have
        for row, sums in change.items():
            left[row] = [have - want for have, want in zip(left[row], sums, strict=True)]
        return None
