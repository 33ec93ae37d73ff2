"""TopologyPlacement: place a group with a topology constraint within one domain (KEP-5732).

A domain consists of the live nodes with one value of the constraint's label; nodes without the label belong to none. If
members already run, the others must join them, so there is only one placement.

Invariant: placements are ordered by name (the label's value), regardless of the order of the nodes.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kube_rules.topology_terms import LEVELS
from reprieve.cluster.groups import Group
from reprieve.cluster.nodes import ABSENT
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.cluster.topology import terms_of
from reprieve.framework.events import ClusterEvent, EventKind, Hints, about_own_tree
from reprieve.framework.plugin import Placement, PlacementGeneratePlugin
from reprieve.framework.status import PlacementError

_MOST_KEPT = 1024
"""The maximum number of cached lists of domains: of labels, and within placements of groups above."""


class TopologyPlacement(PlacementGeneratePlugin):
    """Generate one placement for each value of the label in the group's constraint."""

    name = "TopologyPlacement"

    def __init__(self, *, follows_terms: bool = True) -> None:
        self.follows_terms = follows_terms
        self._version: tuple[int, int] | None = None
        self._cluster: ClusterState | None = None
        self._domains: dict[tuple[str, int], tuple[Placement | None, tuple[Placement, ...]]] = {}
        """By label and identity of the placement above (0: none): that placement, and its domains.

        The least recently used entries come first.
        """

    def generate(self, cluster: ClusterState, group: Group) -> Sequence[Placement] | None:
        """See `PlacementGeneratePlugin.generate`. None without a constraint."""
        return self._generate(cluster, group, None)

    def generate_below(self, cluster: ClusterState, group: Group, within: Placement) -> Sequence[Placement] | None:
        return self._generate(cluster, group, within)

    def _generate(self, cluster: ClusterState, group: Group, within: Placement | None) -> Sequence[Placement] | None:
        key = group.spec.topology_key if group.spec is not None else None
        if key is None:
            return None
        required = _domain_of_members(cluster, group, key)
        if required is None:
            return self._all_domains(cluster, key, within)
        column, numbers = cluster.nodes.label_column(key)
        rows = _live(cluster, within)
        rows = rows[column[rows] == numbers[required]]
        return [Placement(required, rows)] if within is None or len(rows) else []

    def _all_domains(self, cluster: ClusterState, key: str, within: Placement | None) -> tuple[Placement, ...]:
        """Return the domains of a label, cached until nodes change."""
        if self._version != cluster.nodes.version or self._cluster is not cluster:
            self._version, self._cluster = cluster.nodes.version, cluster
            self._domains.clear()
        above = (key, 0 if within is None else id(within))
        cached = self._domains.pop(above, None) or (within, _domains(cluster, key, _live(cluster, within)))
        self._domains[above] = cached
        if len(self._domains) > _MOST_KEPT:
            del self._domains[next(iter(self._domains))]
        return cached[1]

    def events(self) -> Hints:
        """Return the events of nodes with the label, of members that left, and of changed constraints."""
        return {
            EventKind.NODE_ADDED: _in_a_domain,
            EventKind.NODE_CHANGED: _in_a_domain,
            EventKind.POD_GONE: about_own_tree,
            EventKind.POD_TERMINATING: about_own_tree,
            EventKind.GROUP_CHANGED: about_own_tree,
        }


def _live(cluster: ClusterState, within: Placement | None) -> npt.NDArray[np.int64]:
    """Return the live rows of a placement, or all live rows."""
    if within is not None:
        return within.rows
    return np.flatnonzero(cluster.nodes.alive[: len(cluster.nodes)])


def _domains(cluster: ClusterState, key: str, rows: npt.NDArray[np.int64]) -> tuple[Placement, ...]:
    """Return the rows grouped by the value of a label, in order of values; rows without it are left out."""
    column, _ = cluster.nodes.label_column(key)
    labels = cluster.nodes.labels
    rows = rows[column[rows] != ABSENT]
    ordered = rows[np.argsort(column[rows], kind="stable")]
    starts = np.flatnonzero(np.diff(column[ordered], prepend=ABSENT))
    parts = np.split(ordered, starts[1:]) if len(ordered) else []
    return tuple(sorted((Placement(labels[part[0]][key], part) for part in parts), key=_name))


def _domain_of_members(cluster: ClusterState, group: Group, key: str) -> str | None:
    """Return the domain of the running members, or None; terminating members do not count (scheduling.md 7).

    Raises PlacementError if they run in several domains, or outside of any.
    """
    nodes = cluster.nodes
    result: dict[str, PodRecord] = {}
    for pod in sorted(group.running(), key=lambda pod: pod.key):
        if pod.terminating:
            continue
        domain = nodes.labels[pod.row].get(key) if nodes.alive[pod.row] else None
        if domain is None:
            raise _undetermined(f"no topology domain found for pod {pod.key}")
        result[domain] = pod
    if len(result) > 1:
        raise _undetermined(f"more than 1 domain found for pod group: {', '.join(sorted(result))}")
    return next(iter(result), None)


def _undetermined(why: str) -> PlacementError:
    return PlacementError(f"cannot determine domain for already scheduled pods: {why}")


def _name(placement: Placement) -> str:
    return placement.name


def _in_a_domain(cluster: ClusterState, pod: PodRecord, event: ClusterEvent) -> bool:
    group = cluster.groups.get(pod.group) if pod.group is not None else None
    if group is None:
        return False
    labels = cluster.nodes.labels[event.row]
    for item in (group.root or group).below():
        if item.spec is not None and item.spec.topology_key in labels:
            return True
    slices = terms_of(cluster, group, (pod,)).slices
    return slices is not None and (LEVELS.get(slices.level) in labels or slices.level in labels)
