"""Rules about other pods, kept up to date while units are put back (preemption.md 4.3).

The k-th assigned pod's rules are counted once in a view with the assigned pods before it and not those after.  Later
changes (a unit is put back or removed again) are the same for all of them, and the filters are notified pod by pod, so
nothing is counted again; the plain path in `reprieve.preemption.reprieved_units` counts everything again, and property
tests compare the two. Filters that can update many identical pods together return those that may be affected
(`IncrementalFilter`); only those are checked.
"""

from collections.abc import Collection, Sequence

from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.framework.diagnoser import nominated_pods
from reprieve.framework.plugin import CycleState, FilterPlugin, IncrementalFilter
from reprieve.framework.running_profile import RunningProfile
from reprieve.preemption.units import PreemptionUnit


class _PodwiseFilter(IncrementalFilter):
    """A filter with states that are notified of every pod one by one."""

    def __init__(self, plugin: FilterPlugin, states: Sequence[CycleState]) -> None:
        self._plugin = plugin
        self._states = states
        self._counted = False

    def count(self, pod: PodRecord, row: int, by: int) -> bool:
        """Notify all states of the change if it counts for any; return whether it does."""
        notify = self._plugin.add_pod if by > 0 else self._plugin.remove_pod
        if not notify(self._states[0], pod, row):
            return False
        for state in self._states[1:]:
            notify(state, pod, row)
        self._counted = True
        return True

    def suspects(self) -> Collection[int]:
        """Return all positions if a change counted."""
        counted, self._counted = self._counted, False
        return range(len(self._states)) if counted else ()

    def update_state(self, position: int) -> None:
        """Do nothing: `count` has notified every state."""


class _Kind:
    """Assigned pods of one priority and with equal rules. `indices`: their places in scheduling order."""

    def __init__(self) -> None:
        self.indices: list[int] = []
        self.states: list[CycleState] = []
        self.rows: list[int] = []
        self.active: list[FilterPlugin] = []
        self.filters: list[IncrementalFilter] = []
        self.with_nominated: list[int] = []
        """Positions on rows where nominated pods count as running: they are checked after any relevant change."""

    def stand(self, cluster: ClusterState) -> None:
        """Prepare the rules once all pods of the kind are known."""
        for plugin in self.active:
            self.filters.append(
                plugin.incremental_filter(self.states, self.rows) or _PodwiseFilter(plugin, self.states)
            )
        priority = self.states[0].pod.priority
        with_nominated = {row for row, _ in nominated_pods(cluster, priority, slice(0, len(cluster.nodes)))}
        self.with_nominated = [position for position, row in enumerate(self.rows) if row in with_nominated]

    def count(self, unit: PreemptionUnit, by: int) -> bool:
        """Apply a unit that came back (1) or was removed again (-1); return whether that counts."""
        counts = False
        for pod, row in zip(unit.pods, unit.rows, strict=True):
            for counter in self.filters:
                counts = counter.count(pod, row, by) or counts
        return counts


class IncrementalFilters:
    """The rules of all assigned pods that have any, in scheduling order."""

    def __init__(self, kinds: list[_Kind]) -> None:
        self._kinds = kinds
        self._kind_of = {index: (kind, position) for kind in kinds for position, index in enumerate(kind.indices)}

    @classmethod
    def counted(
        cls,
        running: RunningProfile,
        assigned: Sequence[tuple[CycleState, int]],
    ) -> "IncrementalFilters | None":
        """Count for all assigned pods, in the present view; None if some filter cannot follow step by step."""
        cluster = running.cluster
        kinds: dict[object, _Kind] = {}
        with cluster.trial():
            for index, (state, row) in enumerate(assigned):
                pod = state.pod
                active = running.evaluator.rules(state)
                if any(not plugin.incremental for plugin in active):
                    return None
                if active:
                    names = tuple(plugin.name for plugin in active)
                    key = (pod.signature.id, cluster.pod_affinity.label_class(pod).id, pod.owner, pod.priority, names)
                    kind = kinds.setdefault(key, _Kind())
                    kind.active = active
                    kind.indices.append(index)
                    kind.states.append(state)
                    kind.rows.append(row)
                cluster.place(pod, row)
        for kind in kinds.values():
            kind.stand(cluster)
        return cls(list(kinds.values()))

    def add(self, unit: PreemptionUnit) -> set[int]:
        """Put the unit back; return the assigned pods (by index) that may break a rule because of it."""
        suspects: set[int] = set()
        for kind in self._kinds:
            if kind.count(unit, 1):
                positions = set(kind.with_nominated)
                for counter in kind.filters:
                    positions.update(counter.suspects())
                suspects.update(kind.indices[position] for position in positions)
        return suspects

    def remove(self, unit: PreemptionUnit) -> None:
        """Remove the unit again."""
        for kind in self._kinds:
            kind.count(unit, -1)
            for counter in kind.filters:
                counter.suspects()

    def of(self, index: int) -> Sequence[FilterPlugin]:
        """Return the filters with a rule for an assigned pod, with updated states."""
        kind, position = self._kind_of[index]
        for counter in kind.filters:
            counter.update_state(position)
        return kind.active
