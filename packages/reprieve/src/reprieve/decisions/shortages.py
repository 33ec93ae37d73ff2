"""How much is missing for a pod that fits nowhere: the numbers behind "what would help".

Only what is certain is stated: amounts on nodes rejected for a reason that evicting pods may resolve. Capacity reserved
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
from reprieve.preemption.outcome import Missing, scarcest_first

_MOST_NAMES = 3
Amounts = npt.NDArray[np.int64]


def lack_of(
    cluster: ClusterState, pod: PodRecord, diagnosis: Diagnosis, *, placed: int, more: int, only_amounts: bool
) -> Shortfall:
    """Return what `pod` lacks. For a group of identical pods: after `placed` of them, for each of `more` further ones.

    `only_amounts`: what else its filters check depends on nodes alone, so that it fits once nothing is missing.

    The closest nodes are left out where the members placed are not as many as the amounts alone would allow:
    then something else than amounts decides. Nodes that could not hold one more if nothing else ran there do not count.
    """
    nodes = cluster.nodes
    n = len(nodes)
    wanted = pod.signature.requests
    if not n or not wanted or len(diagnosis.codes) != n:
        return Shortfall(more=more)
    columns = [column for column, _ in wanted]
    asked = np.array([[amount] for _, amount in wanted], dtype=np.int64)
    have = nodes.allocatable[columns, :n]
    too_big = _too_big(cluster, wanted, have[:, nodes.alive[:n]])
    lack = Shortfall(more=more, too_big=too_big)
    rows = diagnosis.resolvable_rows()
    if not len(rows):
        return lack
    free = (have - nodes.used[columns, :n])[:, rows]
    _hold(cluster, pod, columns, rows, free)
    if placed:
        fits = np.maximum(free // asked, 0).min(axis=0)
        if int(fits.sum()) != placed:
            return lack
        # No eviction frees what fellow members take: a node that is too small for one more beside them is no answer.
        larger = ((fits + 1) * asked <= have[:, rows] - _of_fellows(cluster, pod, columns, rows)).all(axis=0)
        rows, free = rows[larger], (free - fits * asked)[:, larger]
        if not len(rows):
            return lack
    closest = _closest(cluster, columns, rows, np.maximum(asked - free, 0), asked)
    if closest is not None and not (only_amounts and closest.nodes >= more):
        closest = msgspec.structs.replace(closest, at_least=True)
    return Shortfall(more=more, too_big=too_big, closest=closest)


def _of_fellows(cluster: ClusterState, pod: PodRecord, columns: Sequence[int], rows: npt.NDArray[np.int64]) -> Amounts:
    """int64[columns, rows]: what running members of its group have."""
    result = np.zeros((len(columns), len(rows)), dtype=np.int64)
    group = cluster.groups.get(pod.group) if pod.group is not None else None
    at = {row: turn for turn, row in enumerate(rows.tolist())}
    for fellow in group.running() if group is not None else ():
        if fellow.row in at:
            result[:, at[fellow.row]] += fellow.signature.delta[columns]
    return result


def _too_big(cluster: ClusterState, wanted: Sequence[tuple[int, int]], have: Amounts) -> tuple[OversizedRequest, ...]:
    """Return requests above what any node has in all; none where some node could hold everything."""
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
    """Take away what is held for nominated pods of equal or higher priority."""
    nominated = cluster.nodes.nominated
    if not nominated:
        return
    for index, row in enumerate(rows.tolist()):
        for other in nominated.get(row, {}).values():
            # Its own nomination, or that of a fellow member, is room for it.
            ours = other is pod or (pod.group is not None and other.group == pod.group)
            if other.priority >= pod.priority and not ours:
                free[:, index] -= other.signature.delta[columns]


def _closest(
    cluster: ClusterState, columns: Sequence[int], rows: npt.NDArray[np.int64], short: Amounts, asked: Amounts
) -> Shortage | None:
    """Return the smallest shortage, in parts of what is asked for, and the nodes that have exactly that."""
    missing = short.any(axis=0)
    if not missing.any():
        return None
    short, rows = short[:, missing], rows[missing]
    parts = (short / asked).sum(axis=0)
    best = short[:, [int(parts.argmin())]]
    same = rows[(short == best).all(axis=0)]
    names, nodes = cluster.resources.names, cluster.nodes
    first = same[np.argsort(nodes.rank[same], kind="stable")[:_MOST_NAMES]]
    missing_there = scarcest_first(
        Missing(names[column], int(amount), int(whole))
        for column, amount, whole in zip(columns, best[:, 0], asked[:, 0], strict=True)
        if amount
    )
    return Shortage(
        missing={item.resource: readable(item.resource, item.short) for item in missing_there},
        nodes=len(same),
        names=tuple(nodes.names[row] for row in first.tolist()),
    )
