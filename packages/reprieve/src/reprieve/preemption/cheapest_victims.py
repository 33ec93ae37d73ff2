"""A single pod as preemptor, near the optimum: the cheapest units to evict on a node (cost.md 4.8).

A reprieve starts with the most important unit and so may evict several small ones where one would suffice. This module
compares sets of units of a node by the same criteria, as for a gang of one. If only resources matter, the result is
exact; otherwise it is a proposal that the filters have to confirm.
"""

from dataclasses import dataclass

import numpy as np

from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.framework.diagnoser import nominated_pods
from reprieve.framework.running_profile import RunningProfile
from reprieve.preemption.cost import Criteria, pricing_of
from reprieve.preemption.free_resources import FreeResources
from reprieve.preemption.order import Ranking, by_importance
from reprieve.preemption.outcome import Cost, Verdict
from reprieve.preemption.reprieved_units import judge_by_numbers
from reprieve.preemption.units import PreemptionUnit, units_below
from reprieve.preemption.victim_search.eviction import Eviction
from reprieve.preemption.victim_search.problem import (
    Kind,
    Numbers,
    budgets_that_matter,
    gangs_of,
    restartless_of,
    shares_of,
)
from reprieve.preemption.victim_search.single_pod_search import cheapest_for_one


@dataclass(frozen=True, slots=True)
class CheapestVictims:
    """The units evicted on a row, most important first, and the cost, budgets counted over them."""

    cost: Cost
    units: tuple[PreemptionUnit, ...]


def cheapest_on_row(running: RunningProfile, criteria: Criteria, pod: PodRecord, row: int) -> CheapestVictims | None:
    """Return the cheapest eviction on the row that leaves the pod its resources, by the criteria; None if none does.

    The pod's own nomination has been lifted in the present view.
    """
    cluster = running.cluster
    nodes = cluster.nodes
    units = units_below(cluster, pod.priority, list(nodes.pods[row].values()))
    ranking = Ranking(cluster, units, criteria, criteria.costing(cluster, running.evaluator, units))
    columns = [column for column, _ in pod.signature.requests]
    free = nodes.allocatable[columns, row] - nodes.used[columns, row]
    for unit in ranking.ordered:
        for victim, at in zip(unit.pods, unit.rows, strict=True):
            if at == row:
                free = free + victim.signature.delta[columns]
    for _, nominated in nominated_pods(cluster, pod.priority, np.array([row])):
        for nominated_pod in nominated:
            free = free - nominated_pod.signature.delta[columns]
    place = {row: 0}
    takes, on = shares_of(ranking.ordered, place, columns, 1)
    charged, allowed = budgets_that_matter(ranking)
    numbers = Numbers(
        rows=(row,),
        free=(tuple(free.tolist()),),
        kinds=(Kind(tuple(amount for _, amount in pod.signature.requests), (True,), (pod,)),),
        units=tuple(ranking.ordered),
        takes=takes,
        on=on,
        charged=charged,
        allowed=allowed,
        exact=True,
        pricing=pricing_of(criteria, ranking.ordered, ranking.violations, ranking.costing),
        gangs=gangs_of(ranking),
        restartless=restartless_of(ranking),
        all_restartless=ranking.costing is not None and ranking.costing.all_stuck,
    )
    result = cheapest_for_one(Eviction(numbers))
    if result is None or not result[0]:
        return None
    chosen, (violations, highest, cost), _ = result
    whole = (violations, highest, *cost) if numbers.pricing is None else cost
    return CheapestVictims(whole, tuple(ranking.ordered[unit] for unit in chosen))


def judged(cluster: ClusterState, pod: PodRecord, row: int, chosen: tuple[PreemptionUnit, ...]) -> tuple[Verdict, ...]:
    """Return verdicts on the units of a row, by importance, if exactly these are evicted."""
    uids = {unit.pods[0].uid for unit in chosen}
    units = units_below(cluster, pod.priority, list(cluster.nodes.pods[row].values()))
    ordered, violations, _ = by_importance(cluster, units)
    victims = [unit for unit in ordered if unit.pods[0].uid in uids]
    room = FreeResources.after(cluster, [(pod, row)], priority=pod.priority)
    for unit in victims:
        room.free(unit.pods, unit.rows)
    verdicts = judge_by_numbers(cluster, by_importance(cluster, victims), [(pod, row)], room)
    evicted = {verdict.unit.pods[0].uid: verdict for verdict in verdicts if verdict.evicted}
    return tuple(
        evicted.get(unit.pods[0].uid) or Verdict(unit, violates, None)
        for unit, violates in zip(ordered, violations, strict=True)
    )
