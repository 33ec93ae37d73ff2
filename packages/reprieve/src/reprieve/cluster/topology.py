"""Levels of the topology, and ranks of a group's members (topology.md 1, 3).

A level is a node label. The nodes with the same value form a domain; a node without the label is its own domain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kube_rules.topology_terms import (
    LEVELS,
    NO_TOPOLOGY_TERMS,
    PREFERRED_TOPOLOGY,
    SLICE,
    LevelUse,
    PlacedMember,
    TopologyTerms,
    pod_index,
    ranks,
    topology_terms,
    topology_use,
)
from reprieve.cluster.groups import Group
from reprieve.cluster.nodes import ABSENT
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState

Rows = npt.NDArray[np.int64]
_DEEPEST = 16
"""The maximum number of groups in a chain that are read."""


def terms_of(cluster: ClusterState, group: Group, pods: Sequence[PodRecord]) -> TopologyTerms:
    """Return the topology terms of a group: those of its pods, its own, or those of the nearest group above it."""
    result = NO_TOPOLOGY_TERMS
    if pods and (PREFERRED_TOPOLOGY in pods[0].annotations or SLICE in pods[0].annotations):
        result = topology_terms(pods[0].annotations)
    item: Group | None = group
    for _ in range(_DEEPEST):
        if item is None or item.spec is None:
            break
        result = result.over(item.spec.topology)
        item = cluster.trees.composites.get(item.spec.parent) if item.spec.parent is not None else None
    return result


def label_of(cluster: ClusterState, level: str) -> str | None:
    """Return the node label of a level; None if no node has it.

    A short name means its well-known label, or the label of that name if no node has the former.
    """
    nodes = cluster.nodes
    for key in (LEVELS[level], level) if level in LEVELS else (level,):
        if any(key in nodes.labels[row] for row in np.flatnonzero(nodes.alive[: len(nodes)]).tolist()):
            return key
    return None


def domains(cluster: ClusterState, label: str) -> Rows:
    """Return `int64[rows]`: the numbers of the domains of a label, in the order of their names."""
    nodes = cluster.nodes
    column, numbers = nodes.label_column(label)
    turns = np.zeros(len(numbers), dtype=np.int64)
    for turn, name in enumerate(sorted(numbers)):
        turns[numbers[name]] = turn
    result = len(numbers) + nodes.rank[: len(column)].astype(np.int64)
    labelled = column != ABSENT
    result[labelled] = turns[column[labelled]]
    return result


def place_of(cluster: ClusterState, label: str, row: int) -> str | None:
    """Return the domain of a label that contains a row; None without one."""
    return cluster.nodes.labels[row].get(label) if cluster.nodes.alive[row] else None


@dataclass(frozen=True, slots=True)
class Ranks:
    """The indexed members of a group. `of`: UID -> rank; members without an index are left out."""

    of: dict[str, int]

    def ordered(self, pods: Iterable[PodRecord]) -> list[PodRecord]:
        """Return pods by rank, then those without a rank in their given order."""
        return sorted(pods, key=lambda pod: self.of.get(pod.uid, len(self.of) << 32))


def ranks_of(group: Group) -> Ranks:
    """Return the ranks of the members of a group that are not terminating."""
    members = sorted(group.members.values(), key=lambda pod: (pod.created, pod.key))
    indexes = ((pod.uid, pod_index(pod.labels, pod.annotations)) for pod in members if not pod.terminating)
    return Ranks(ranks({uid: index for uid, index in indexes if index is not None}))


def use_of(cluster: ClusterState, group: Group) -> tuple[LevelUse, ...]:
    """Return the domains that the running members of a group use, at the requested levels."""
    running = sorted((pod for pod in group.running() if not pod.terminating), key=lambda pod: (pod.created, pod.key))
    terms = terms_of(cluster, group, running[:1])
    if terms == NO_TOPOLOGY_TERMS:
        return ()
    nodes = cluster.nodes
    return topology_use(
        terms,
        [
            PlacedMember(pod.key, pod_index(pod.labels, pod.annotations), nodes.names[pod.row], nodes.labels[pod.row])
            for pod in running
        ],
    )
