"""Evictions in turn by victims that return (cost.md 3).

The owner of a victim, a controller or a user, recreates it. In a trial view with the preemptor in its place, the
victims return, the most important first: each is placed where it fits, or evicts the cheapest units of lower priority,
which return in the next round, for a given number of rounds. Invariant: no unit is evicted twice. Each evicts only
units of lower priority that have not been evicted; so no cascade is circular or longer than the number of priorities.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from reprieve.cluster.budgets import violating
from reprieve.cluster.pods import PodRecord
from reprieve.framework.plugin import Assigned, CycleState
from reprieve.framework.running_profile import RunningProfile
from reprieve.preemption.cost import Criteria
from reprieve.preemption.criteria import Cascade
from reprieve.preemption.free_resources import FreeResources, only_resources
from reprieve.preemption.order import by_importance
from reprieve.preemption.outcome import CascadeStep, Cost, Verdict
from reprieve.preemption.protected_units import potential_victims
from reprieve.preemption.reprieved_units import judge_by_numbers
from reprieve.preemption.units import PreemptionUnit

DEEPEST: Final = 3
"""Maximum number of rounds (`cascadeDepth`)."""
MOST_RETURNING: Final = 64
"""Maximum number of pods that return in one round, those of the most important units; others do not return."""

_Move = tuple[PodRecord, int, tuple[PreemptionUnit, ...]]
"""A pod that returns, its new row, and the units evicted for it."""


@dataclass(frozen=True, slots=True)
class Cascades:
    """Evaluates cascades of evictions, `depth` rounds of them (0: none). `criteria`: the order of costs."""

    running: RunningProfile
    criteria: Criteria
    depth: int

    def after(self, victims: Sequence[PreemptionUnit], placed: Assigned) -> tuple[CascadeStep, ...]:
        """Return the evictions in turn after these victims were evicted for a preemptor that is placed there.

        The cluster is not changed.
        """
        cluster = self.running.cluster
        steps: list[CascadeStep] = []
        with cluster.trial():
            cluster.displace_all([pod for unit in victims for pod in unit.pods if pod.row >= 0])
            for pod, row in placed:
                if pod.row < 0:
                    cluster.place(pod, row)
            evicted = {pod.uid for unit in victims for pod in unit.pods}
            wave = list(victims)
            for level in range(1, self.depth + 1):
                following: list[PreemptionUnit] = []
                returning = 0
                for unit in sorted(wave, key=lambda unit: unit.importance):
                    returning += len(unit.pods)
                    if returning > MOST_RETURNING:
                        break
                    evicted_for_unit = self._return(unit, evicted)
                    if evicted_for_unit:
                        steps.append(CascadeStep(level, unit, evicted_for_unit))
                        following += evicted_for_unit
                wave = following
        return tuple(steps)

    def cost(self, verdicts: Sequence[Verdict], steps: Sequence[CascadeStep], own: Cost) -> Cost:
        """Return the cost of the victims and those evicted in turn; `own`: the cost without the latter."""
        in_turn = [unit for step in steps for unit in step.evicted]
        if not in_turn:
            return own
        cluster, criteria = self.running.cluster, self.criteria
        by_name = {verdict.unit.name: verdict for verdict in verdicts if verdict.evicted}
        units = sorted([*(verdict.unit for verdict in by_name.values()), *in_turn], key=lambda unit: unit.importance)
        broken = violating([unit.pods for unit in units], cluster.budget_index)
        template = next(iter(by_name.values()))
        all_verdicts = [
            by_name[unit.name] if unit.name in by_name else replace(template, unit=unit, violates_pdb=violates)
            for unit, violates in zip(units, broken, strict=True)
        ]
        cost = criteria.cost_of(all_verdicts, criteria.costing(cluster, self.running.evaluator, units))
        assert cost is not None
        pods = float(sum(len(unit.pods) for unit in in_turn))
        return tuple(pods if name == Cascade.name else part for name, part in zip(criteria.names, cost, strict=True))

    def _return(self, unit: PreemptionUnit, evicted: set[str]) -> tuple[PreemptionUnit, ...]:
        """Place a returning unit and remove its victims; it does not return if it cannot run as a whole."""
        cluster = self.running.cluster
        with cluster.trial():
            moves = self._moves(unit, set(evicted))
        if moves is None:
            return ()
        evicted_units: list[PreemptionUnit] = []
        for pod, row, victims in moves:
            for victim in victims:
                cluster.displace_all(victim.pods)
                evicted.update(pod_of_victim.uid for pod_of_victim in victim.pods)
            evicted_units += victims
            cluster.place(pod, row)
        return tuple(evicted_units)

    def _moves(self, unit: PreemptionUnit, evicted: set[str]) -> list[_Move] | None:
        cluster, evaluator = self.running.cluster, self.running.evaluator
        moves: list[_Move] = []
        for pod in unit.pods:
            state = CycleState(cluster, pod)
            row = evaluator.best_row(state)
            victims: tuple[PreemptionUnit, ...] = ()
            if row < 0:
                cheapest = None if pod.never_preempts else self._cheapest(state, evicted)
                if cheapest is None:
                    return None
                row, victims = cheapest
                for victim in victims:
                    cluster.displace_all(victim.pods)
                    evicted.update(pod_of_victim.uid for pod_of_victim in victim.pods)
            moves.append((pod, row, victims))
            cluster.place(pod, row)
        return moves

    def _cheapest(self, state: CycleState, evicted: set[str]) -> tuple[int, tuple[PreemptionUnit, ...]] | None:
        """Return the row with the cheapest eviction for the pod, of units that have not been evicted yet."""
        cluster, evaluator, pod = self.running.cluster, self.running.evaluator, state.pod
        nodes, terms = cluster.nodes, cluster.class_terms_of(pod)
        usable = evaluator.view(state).static_mask.copy()
        for column, amount in pod.signature.requests:
            usable &= nodes.allocatable[column, : len(usable)] >= amount
        options: list[tuple[Cost, int, int, tuple[PreemptionUnit, ...]]] = []
        for row in np.flatnonzero(usable).tolist():
            units = [
                unit
                for unit in potential_victims(cluster, pod.priority, list(nodes.pods[row].values()), terms)
                if evicted.isdisjoint(member.uid for member in unit.pods)
            ]
            if not units:
                continue
            room = FreeResources.after(cluster, [(pod, row)], priority=pod.priority)
            for unit in units:
                room.free(unit.pods, unit.rows)
            if room.short_columns():
                continue
            costing = self.criteria.costing(cluster, evaluator, units)
            ordered = by_importance(cluster, units, self.criteria, costing)
            verdicts = judge_by_numbers(cluster, ordered, [(pod, row)], room)
            cost = self.criteria.cost_of(verdicts, costing)
            if cost is not None:
                victims = tuple(verdict.unit for verdict in verdicts if verdict.evicted)
                options.append((cost, int(nodes.rank[row]), row, victims))
        exact = only_resources(self.running.profile, [state])
        for _, _, row, victims in sorted(options, key=lambda option: option[:2]):
            if exact:
                return row, victims
            with cluster.trial():
                cluster.displace_all([member for unit in victims for member in unit.pods])
                if evaluator.fits_row(state, row):
                    return row, victims
        return None
