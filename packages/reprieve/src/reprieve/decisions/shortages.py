"""The amounts missing for a pod that fits on no node: the numbers for changes that would help.

Only certain facts are stated: amounts on nodes rejected for a reason that evicting pods may resolve. Capacity reserved
for nominated pods counts as used, as in the filters.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from reprieve.cluster.pods import PodRecord
from reprieve.cluster.resources import LIMIT, readable
from reprieve.cluster.state import ClusterState
from reprieve.decisions.records import OversizedRequest, Shortage, Shortfall
from reprieve.framework.diagnosis import Diagnosis
from reprieve.preemption.outcome import MissingAmount, scarcest_first

_MOST_NAMES = 3
Amounts = npt.NDArray[np.int64]


def lack_of(
    cluster: ClusterState, pod: PodRecord, diagnosis: Diagnosis, *, placed: int, more: int, only_amounts: bool
) -> Shortfall:
    """Return what `pod` lacks. For a group of identical pods: after `placed` of them, for each of `more` further ones.

    `only_amounts`: the other filters depend only on the node, so the pod fits once no amount is missing.

    The closest nodes are omitted if fewer or more members were placed than the amounts alone allow: then amounts are
    not decisive. Nodes that could not hold one more pod even without other workloads are ignored.
    """
    nodes = cluster.nodes
    n = len(nodes)
    wanted = pod.signature.requests
    if not n or not wanted or len(diagnosis.codes) != n:
        return Shortfall(more=more)
    columns = [column for column, _ in wanted]
    requested = np.array([[amount] for _, amount in wanted], dtype=np.int64)
    have = nodes.allocatable[columns, :n]
    too_big = _too_big(cluster, wanted, have[:, nodes.alive[:n]])
    lack = Shortfall(more=more, too_big=too_big)
    rows = diagnosis.resolvable_rows()
    if not len(rows):
        return lack
    free = (have - nodes.used[columns, :n])[:, rows]
    _hold(cluster, pod, columns, rows, free)
    if placed:
        fits = np.maximum(free // requested, 0).min(axis=0)
        if int(fits.sum()) != placed:
            return lack
        # No eviction frees the capacity of fellow members: ignore nodes too small for one more beside them.
        larger = ((fits + 1) * requested <= have[:, rows] - _of_fellows(cluster, pod, columns, rows)).all(axis=0)
        rows, free = rows[larger], (free - fits * requested)[:, larger]
        if not len(rows):
            return lack
    closest = _closest(cluster, columns, rows, np.maximum(requested - free, 0), requested)
    if closest is not None and not (only_amounts and closest.nodes >= more):
        closest = msgspec.structs.replace(closest, at_least=True)
    return Shortfall(more=more, too_big=too_big, closest=closest)


def _of_fellows(cluster: ClusterState, pod: PodRecord, columns: Sequence[int], rows: npt.NDArray[np.int64]) -> Amounts:
    """Return int64[columns, rows]: amounts used by running members of its group."""
    result = np.zeros((len(columns), len(rows)), dtype=np.int64)
    group = cluster.groups.get(pod.group) if pod.group is not None else None
    at = {row: turn for turn, row in enumerate(rows.tolist())}
    for fellow in group.running() if group is not None else ():
        if fellow.row in at:
            result[:, at[fellow.row]] += fellow.signature.delta[columns]
    return result


def _too_big(cluster: ClusterState, wanted: Sequence[tuple[int, int]], have: Amounts) -> tuple[OversizedRequest, ...]:
    """Return requests above the largest amount of any node; none if some node could hold everything."""
    if not have.shape[1] or bool((have >= [[amount] for _, amount in wanted]).all(axis=0).any()):
        return ()
    names = cluster.resources.names
    return tuple(
        OversizedRequest(
            resource=names[column],
            asked=readable(names[column], amount),
            largest=readable(names[column], int(row.max())),
            or_more=amount >= LIMIT,
        )
        for (column, amount), row in zip(wanted, have, strict=True)
        if amount > row.max()
    )


def _hold(
    cluster: ClusterState, pod: PodRecord, columns: Sequence[int], rows: npt.NDArray[np.int64], free: Amounts
) -> None:
    """Subtract the amounts reserved for nominated pods of equal or higher priority."""
    nominated = cluster.nodes.nominated
    if not nominated:
        return
    for index, row in enumerate(rows.tolist()):
        for nominee in nominated.get(row, {}).values():
            # Its own nomination, or that of a fellow member, counts as free.
            ours = nominee is pod or (pod.group is not None and nominee.group == pod.group)
            if nominee.priority >= pod.priority and not ours:
                free[:, index] -= nominee.signature.delta[columns]


def _closest(
    cluster: ClusterState, columns: Sequence[int], rows: npt.NDArray[np.int64], short: Amounts, requested: Amounts
) -> Shortage | None:
    """Return the smallest shortage relative to the requests, and the nodes with exactly that shortage."""
    missing = short.any(axis=0)
    if not missing.any():
        return None
    short, rows = short[:, missing], rows[missing]
    parts = (short / requested).sum(axis=0)
    best = short[:, [int(parts.argmin())]]
    same = rows[(short == best).all(axis=0)]
    names, nodes = cluster.resources.names, cluster.nodes
    first = same[np.argsort(nodes.rank[same], kind="stable")[:_MOST_NAMES]]
    missing_there = scarcest_first(
        MissingAmount(names[column], int(amount), int(whole))
        for column, amount, whole in zip(columns, best[:, 0], requested[:, 0], strict=True)
        if amount
    )
    return Shortage(
        missing={item.resource: readable(item.resource, item.short) for item in missing_there},
        nodes=len(same),
        names=tuple(nodes.names[row] for row in first.tolist()),
    )
