"""A single pod as preemptor, near the optimum: the search that gangs use, for one pod (cost.md 4.8).

A reprieve goes down from the most important unit and so may let several small ones go where one would have done.
Here the sets of units are compared, on every node, by the same criteria.
"""

from dataclasses import dataclass, replace

from reprieve.cluster.budgets import violating
from reprieve.cluster.pods import PodRecord
from reprieve.framework.plugin import CycleState
from reprieve.framework.running import RunningProfile
from reprieve.preemption.cost import UPSTREAM
from reprieve.preemption.free_resources import FreeResources, only_resources
from reprieve.preemption.order import Ranking, by_importance
from reprieve.preemption.outcome import Cost, Verdict
from reprieve.preemption.reprieving import judge_by_numbers
from reprieve.preemption.units import scheduled_pods, units_below
from reprieve.preemption.victim_search.problem import numbers_of
from reprieve.preemption.victim_search.search import cheapest_eviction

MOST_NODES = 100
"""In clusters of more a pod takes what the reprieve leaves: it shares what it knows with the pods that follow."""


@dataclass(frozen=True, slots=True)
class Cheaper:
    """Where the pod goes instead, the verdicts on the units there, and the cost, budgets counted over the victims."""

    row: int
    verdicts: tuple[Verdict, ...]
    cost: Cost


def cheaper_for_pod(running: RunningProfile, state: CycleState, verdicts: tuple[Verdict, ...]) -> Cheaper | None:
    """The cheapest eviction for the pod where only resources are in play; None if `verdicts` cost less.

    Counts in no other way than for a gang of one.  Leaves the cluster as it was.
    """
    cluster, pod = running.cluster, state.pod
    if len(cluster.nodes) > MOST_NODES or cluster.rules_of_work or not only_resources(running.profile, [state]):
        return None
    units = units_below(cluster, pod.priority, scheduled_pods(cluster))
    with cluster.trial():
        cluster.displace_all([victim for unit in units for victim in unit.pods])
        ranking = Ranking(cluster, units)
        numbers = numbers_of(running, [pod], pod.priority, ranking)
    found = cheapest_eviction(numbers) if numbers is not None and numbers.exact else None
    if found is None or numbers is None or not found.units:
        return None
    ((_, row),) = found.assigned(numbers)
    judged = _judged(running, pod, row, {ranking.ordered[index].pods[0].uid for index in found.units})
    if judged is None:
        return None
    cost, usual = UPSTREAM.cost_of(judged), UPSTREAM.cost_of(_over_victims(running, verdicts))
    return None if cost is None or (usual is not None and usual < cost) else Cheaper(row, judged, cost)


def _judged(running: RunningProfile, pod: PodRecord, row: int, gone: set[str]) -> tuple[Verdict, ...] | None:
    """Verdicts on the units of a row, by importance, where these go, by their first pods; None if one need not."""
    cluster = running.cluster
    there = units_below(cluster, pod.priority, list(cluster.nodes.pods[row].values()))
    ordered, violations, _ = by_importance(cluster, there)
    victims = [unit for unit in ordered if unit.pods[0].uid in gone]
    room = FreeResources.after(cluster, [(pod, row)], priority=pod.priority)
    for unit in victims:
        room.free(unit.pods, unit.rows)
    judged = judge_by_numbers(cluster, by_importance(cluster, victims), [(pod, row)], room)
    evicted = {verdict.unit.pods[0].uid: verdict for verdict in judged if verdict.evicted}
    if len(evicted) < len(gone):
        return None
    return tuple(
        evicted.get(unit.pods[0].uid) or Verdict(unit, violates, None)
        for unit, violates in zip(ordered, violations, strict=True)
    )


def _over_victims(running: RunningProfile, verdicts: tuple[Verdict, ...]) -> list[Verdict]:
    """Those who go, budgets counted over them alone."""
    gone = [verdict for verdict in verdicts if verdict.evicted]
    broken = violating([verdict.unit.pods for verdict in gone], running.cluster.budget_index)
    return [replace(verdict, violates_pdb=over) for verdict, over in zip(gone, broken, strict=True)]
