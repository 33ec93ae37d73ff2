"""Gangs that an eviction leaves below their minimum (cost.md 1.7).

Terms: the *slack* of a gang is how many of its scheduled pods it can lose and still have its minCount.  A gang that
already has fewer has no slack and cannot break again: its running pods are its *remains*.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.preemption.outcome import Preemption
from reprieve.preemption.units import PreemptionUnit


def slack_of(cluster: ClusterState, units: Iterable[PreemptionUnit]) -> dict[str, int]:
    """Return the slack in pods by `namespace/name` of the gangs that have their minimum and a pod among the units.

    Call it before any pod is displaced for a trial.
    """
    result = {}
    for key in {pod.group for unit in units for pod in unit.pods}:
        group = cluster.groups.get(key) if key is not None else None
        if group is not None and group.scheduled >= group.min_count > 0:
            result[group.key] = group.scheduled - group.min_count
    return result


def losses(pods: Iterable[PodRecord], slack: Mapping[str, int]) -> dict[str, int]:
    """Return the number of pods that each gang with slack loses with these; terminating pods are already lost."""
    result: dict[str, int] = {}
    for pod in pods if slack else ():
        key = pod.group
        if key is not None and key in slack and not pod.terminating:
            result[key] = result.get(key, 0) + 1
    return result


def broken(pods: Iterable[PodRecord], slack: Mapping[str, int]) -> list[str]:
    """Return the gangs that fall below their minimum without these pods, by `namespace/name`."""
    return [key for key, count in losses(pods, slack).items() if count > slack[key]]


def with_remains(cluster: ClusterState, preemption: Preemption) -> Preemption:
    """Return the decision with remains of gangs below their minimum listed as such, not as spared.

    Call it before any pod is displaced.
    """
    victims = [verdict.unit for verdict in preemption.victims]
    victim_uids = {pod.uid for unit in victims for pod in unit.pods}
    breaking = set(broken((pod for unit in victims for pod in unit.pods), slack_of(cluster, victims)))
    left_over = [
        pod
        for key in sorted(breaking)
        for pod in cluster.groups[key].running()
        if pod.uid not in victim_uids and not pod.terminating
    ]

    def is_remains(unit: PreemptionUnit) -> bool:
        groups = {cluster.groups.get(pod.group) if pod.group is not None else None for pod in unit.pods}
        return all(
            group is not None and (group.key in breaking or group.scheduled < group.min_count) for group in groups
        )

    spared = [verdict.unit for verdict in preemption.verdicts if not verdict.evicted and verdict.unit.in_group]
    remains = tuple(unit for unit in spared if is_remains(unit))
    verdicts, names = preemption.verdicts, {unit.pods[0].uid for unit in remains}
    if names:  # tens of thousands of verdicts would be kept otherwise
        verdicts = tuple(verdict for verdict in verdicts if verdict.unit.pods[0].uid not in names)
    return replace(
        preemption,
        verdicts=verdicts,
        remains=remains,
        left_over=tuple(sorted(left_over, key=lambda pod: (pod.namespace, pod.name))),
    )


def standing(lost: Sequence[Mapping[str, int]], slack: Mapping[str, int]) -> list[tuple[bool, int]]:
    """Return for each unit, given by importance, its position among units of its priority in a reprieve.

    `lost[unit]`: its `losses`. Units that a gang needs for its minimum come first: its most important pods, together.
    All others follow, with the pods of gangs beyond their minimum.
    """
    left = Counter[str]()
    for pods_of_gang in lost:
        left.update(pods_of_gang)
    first: dict[str, int] = {}
    result = []
    for turn, pods_of_gang in enumerate(lost):
        place = turn
        needed = False
        for key, count in pods_of_gang.items():
            if left[key] > slack[key]:
                needed = True
                place = min(place, first.setdefault(key, turn))
            left[key] -= count
        result.append((not needed, place))
    return result
