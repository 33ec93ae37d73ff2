"""Upper bounds of the pods of a group that sets of nodes can hold, by requests and node constraints."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from reprieve.cluster.pods import PodRecord
from reprieve.framework.diagnoser import any_concerned, nominated_rows
from reprieve.framework.evaluation import Evaluator
from reprieve.framework.plugin import CycleState, Placement
from reprieve.framework.running_profile import RunningProfile
from reprieve.preemption.free_resources import RESOURCES_PLUGIN, only_resources

Counts = npt.NDArray[np.int64]
_UNBOUNDED = 1 << 20


def filled_as_counted(running: RunningProfile, pods: Sequence[PodRecord]) -> bool:
    """Return whether `holds_at_most` is exact for the pods: they are identical and only amounts limit them."""
    first = running.evaluator.identity(pods[0])
    if first is None or any(running.evaluator.identity(pod) != first for pod in pods):
        return False
    return by_amounts(running, pods)


def by_amounts(running: RunningProfile, pods: Sequence[PodRecord]) -> bool:
    """Return whether only amounts and the nodes' own objects decide where the pods fit."""
    if any_concerned(running.profile.outside_filters, CycleState(running.cluster, pods[0])):
        return False
    return only_resources(running.profile, [CycleState(running.cluster, pod) for pod in pods])


def holds_at_most(
    running: RunningProfile, pods: Sequence[PodRecord], placements: Sequence[Placement], *, beyond: bool = False
) -> Counts:
    """Return `int64[placements]`: an upper bound of the pods that each placement holds.

    Each kind of pod is counted as if it had the nodes for itself, by its requests and by the nodes' own objects, and
    nominated pods count as running; other kinds and rules about other pods can only reduce the number. `beyond`: count
    all pods of each kind that fit, even beyond those that exist.
    """
    if not placements:
        return np.zeros(0, dtype=np.int64)
    cluster, evaluator = running.cluster, running.evaluator
    nodes = cluster.nodes
    rows = np.concatenate([placement.rows for placement in placements])
    sizes = [len(placement.rows) for placement in placements]
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    fit = next((plugin for plugin in running.profile.node_filters if plugin.name == RESOURCES_PLUGIN), None)
    counted = fit is not None and fit.checks_everything
    total = np.zeros(len(placements), dtype=np.int64)
    for kind in _kinds(evaluator, pods):
        pod = kind[0]
        most = _UNBOUNDED if beyond else len(kind)
        holds = np.full(len(rows), most, dtype=np.int64)
        if counted:
            nominated = nominated_rows(cluster, pod.priority, slice(0, len(nodes)))
            for column, amount in pod.signature.requests:
                free = nodes.allocatable[column, rows] - nodes.used[column, rows]
                if len(nominated.rows):
                    reserved = np.zeros(len(nodes), dtype=np.int64)
                    reserved[nominated.rows] = nominated.amounts[column]
                    free -= reserved[rows]
                holds = np.minimum(holds, np.maximum(free, 0) // amount)
        if evaluator.identity(pod) is not None:
            holds = np.where(evaluator.usable_nodes(CycleState(cluster, pod))[rows], holds, 0)
        total += np.minimum(np.add.reduceat(holds, starts), most)
    return total


def _kinds(evaluator: Evaluator, pods: Sequence[PodRecord]) -> list[list[PodRecord]]:
    """Return the pods grouped by identical signatures."""
    kinds: dict[object, list[PodRecord]] = {}
    for pod in pods:
        identity = evaluator.identity(pod)
        kinds.setdefault(pod.uid if identity is None else identity, []).append(pod)
    return list(kinds.values())


def free_amounts(running: RunningProfile, pods: Sequence[PodRecord]) -> Counts:
    """Return `int64[columns, rows]`: free amounts by row for these pods, nominated pods counted as running."""
    nodes = running.cluster.nodes
    count = len(nodes)
    nominated = nominated_rows(running.cluster, min(pod.priority for pod in pods), slice(0, count))
    free: Counts = nodes.allocatable[:, :count] - nodes.used[:, :count]
    for turn, row in enumerate(nominated.rows):
        free[:, row] -= nominated.amounts[:, turn]
    return free
