"""TopologyPlacement: a group with a topology constraint is placed within one domain (KEP-5732).

A domain is the live nodes that have one value of the constraint's label; nodes without the label belong to none.  Once
members run somewhere, the others have to follow them: there is one placement then.

Invariant: placements come in the order of their names (the label's values), whatever the order of the nodes.
"""

from collections.abc import Sequence

import numpy as np

from reprieve.cluster.groups import Group
from reprieve.cluster.nodes import ABSENT
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.framework.events import ClusterEvent, EventKind, Hints, about_own_tree
from reprieve.framework.plugin import Placement, PlacementGeneratePlugin
from reprieve.framework.status import PlacementError


class TopologyPlacement(PlacementGeneratePlugin):
    """One placement for each value of the label that the group's constraint names."""

    name = "TopologyPlacement"

    def generate(self, cluster: ClusterState, group: Group) -> Sequence[Placement] | None:
        """See `PlacementGeneratePlugin.generate`. None without a constraint."""
        key = group.spec.topology_key if group.spec is not None else None
        if key is None:
            return None
        nodes = cluster.nodes
        column, numbers = nodes.label_column(key)
        required = _domain_of_members(cluster, group, key)
        if required is not None:
            wanted = nodes.alive[: len(nodes)] & (column == numbers[required])
            return [Placement(required, np.flatnonzero(wanted))]
        rows = np.flatnonzero(nodes.alive[: len(nodes)] & (column != ABSENT))
        ordered = rows[np.argsort(column[rows], kind="stable")]
        starts = np.flatnonzero(np.diff(column[ordered], prepend=ABSENT))
        values = {number: value for value, number in numbers.items()}
        parts = np.split(ordered, starts[1:]) if len(ordered) else []
        return sorted((Placement(values[int(column[part[0]])], part) for part in parts), key=_name)

    def events(self) -> Hints:
        """A node with the label, or one that got it; a member that left its domain; another constraint."""
        return {
            EventKind.NODE_ADDED: _in_a_domain,
            EventKind.NODE_CHANGED: _in_a_domain,
            EventKind.POD_GONE: about_own_tree,
            EventKind.POD_TERMINATING: about_own_tree,
            EventKind.GROUP_CHANGED: about_own_tree,
        }


def _domain_of_members(cluster: ClusterState, group: Group, key: str) -> str | None:
    """The domain in which members run; None while there are none. Leaving members do not count (scheduling.md 7).

    Raises PlacementError where they run in several domains or in none.
    """
    nodes = cluster.nodes
    result: dict[str, PodRecord] = {}
    for pod in sorted(group.running(), key=_key):
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


def _key(pod: PodRecord) -> str:
    return pod.key


def _in_a_domain(cluster: ClusterState, pod: PodRecord, event: ClusterEvent) -> bool:
    group = cluster.groups.get(pod.group) if pod.group is not None else None
    if group is None:
        return False
    labels = cluster.nodes.labels[event.row]
    specs = (item.spec for item in (group.root or group).below())
    return any(spec is not None and spec.topology_key in labels for spec in specs)
