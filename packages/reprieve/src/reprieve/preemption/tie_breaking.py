"""The choice among equally good nodes that spares important units.

The placement of a preempting group is what its scheduling algorithm gives without all potential victims (preemption.md
4.2-4.3); where scores tie, that leaves a choice, and the first node by name would evict arbitrary pods.  The tie
breaker visits the units as a reprieve does (budget violators first, then by importance) and keeps each one that leaves
enough capacity *somewhere* for all pods that can be placed. Among ties, nodes with capacity beside the kept units are
preferred. It counts how many of the group's pods each node holds, which requires identical pods that only resources
limit; otherwise there is no tie breaker and names decide.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.framework.diagnoser import nominated_rows
from reprieve.framework.plugin import CycleState, Mask, Placement, TieBreaker
from reprieve.framework.running_profile import RunningProfile
from reprieve.preemption.free_resources import only_resources
from reprieve.preemption.order import Ranking
from reprieve.preemption.units import PreemptionUnit


class VictimSparingTieBreaker(TieBreaker):
    """`spare`: int64[rows], number of further pods of the group that each node holds beside the kept units."""

    def __init__(self, spare: npt.NDArray[np.int64]) -> None:
        self._spare = spare

    def narrow(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        preferred = rows[self._spare[rows] > 0]
        return preferred if len(preferred) else rows

    def took(self, row: int) -> None:
        self._spare[row] -= 1


def victim_sparing_tie_breaker(
    running: RunningProfile,
    pods: Sequence[PodRecord],
    priority: int,
    ranking: Ranking,
    within: Placement | None = None,
) -> VictimSparingTieBreaker | None:
    """Return the tie breaker for a group of identical pods, without all units; None if it is not possible.

    `within`: the only nodes the group may use.
    """
    usable = usable_by_like_pods(running, pods)
    if usable is None:
        return None
    wanted = [(column, amount) for column, amount in pods[0].signature.requests]
    if within is not None:
        inside = np.zeros(len(usable), dtype=np.bool_)
        inside[within.rows] = True
        usable = usable & inside
    left = free_for(running.cluster, usable, [column for column, _ in wanted], priority)
    room = [column.tolist() for column in left]
    holds = np.min([column // amount for column, (_, amount) in zip(left, wanted, strict=True)], axis=0)
    spare = holds.tolist()
    surplus = sum(spare) - len(pods)
    if surplus <= 0:
        return None
    for index in ranking.order if within is None else ranking.on(within.rows.tolist()):
        surplus = _keep(ranking.ordered[index], room, spare, wanted, surplus)
    return VictimSparingTieBreaker(np.array(spare, dtype=np.int64))


def usable_by_like_pods(running: RunningProfile, pods: Sequence[PodRecord]) -> Mask | None:
    """Return `bool[rows]`: possible nodes of identical pods; None if they differ or more than resources matters."""
    cluster, evaluator = running.cluster, running.evaluator
    first = evaluator.identity(pods[0])
    if first is None or any(evaluator.identity(pod) != first for pod in pods):
        return None
    state = CycleState(cluster, pods[0])
    if not only_resources(running.profile, [state, *(CycleState(cluster, pod) for pod in pods[1:])]):
        return None
    return evaluator.usable_nodes(state)


def free_for(cluster: ClusterState, usable: Mask, columns: Sequence[int], priority: int) -> npt.NDArray[np.int64]:
    """Return `int64[columns, rows]`: free amounts for the group; 0 on nodes that are not `usable` (`bool[rows]`)."""
    nodes = cluster.nodes
    n = len(nodes)
    left = nodes.allocatable[columns, :n] - nodes.used[columns, :n]
    with_nominated = nominated_rows(cluster, priority, slice(0, n))
    left[:, with_nominated.rows] -= with_nominated.amounts[columns]
    result: npt.NDArray[np.int64] = np.where(usable, np.maximum(left, 0), 0)
    return result


def _keep(
    unit: PreemptionUnit,
    room: list[list[int]],
    spare: list[int],
    wanted: Sequence[tuple[int, int]],
    surplus: int,
) -> int:
    """Put the unit back if the surplus of places allows it; return the remaining surplus."""
    change = _by_row(unit, [column for column, _ in wanted])
    loss = 0
    after: dict[int, int] = {}
    for row, sums in change.items():
        if spare[row]:
            fewest = min(
                (free[row] - used) // amount for free, used, (_, amount) in zip(room, sums, wanted, strict=True)
            )
            after[row] = max(fewest, 0)
            loss += spare[row] - after[row]
    if loss > surplus:
        return surplus
    for row, sums in change.items():
        for free, used in zip(room, sums, strict=True):
            free[row] -= used
    for row, fewest in after.items():
        spare[row] = fewest
    return surplus - loss


def _by_row(unit: PreemptionUnit, columns: Sequence[int]) -> dict[int, list[int]]:
    """Return the unit's amounts by column on each of its rows."""
    change: dict[int, list[int]] = {}
    if len({pod.signature for pod in unit.pods}) == 1:  # most are: members of a group are alike
        delta = unit.pods[0].signature.delta
        amounts = [int(delta[column]) for column in columns]
        for row, count in Counter(unit.rows).items():
            change[row] = [count * amount for amount in amounts]
        return change
    for pod, row in zip(unit.pods, unit.rows, strict=True):
        delta = pod.signature.delta
        sums = change.setdefault(row, [0] * len(columns))
        for index, column in enumerate(columns):
            sums[index] += int(delta[column])
    return change
