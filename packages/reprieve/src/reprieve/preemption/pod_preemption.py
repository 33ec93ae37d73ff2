"""A single pod as preemptor: every node is a domain (preemption.md 3).

Results of every row are cached by signature and priority, and only changed rows are evaluated again, so a stream of
identical preemptors needs a full pass once. A preemptor that differs from an earlier one only in priority reuses the
results of rows on which both may evict the same units. If an eviction changes only resources, many rows are judged
together (`reprieve.preemption.victim_columns`), also for preemptors that all differ. Victims are computed only for the
chosen row.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from reprieve.cluster.pods import PodRecord
from reprieve.cluster.resources import insufficient
from reprieve.cluster.state import ClusterState
from reprieve.framework.diagnoser import nominated_rows
from reprieve.framework.diagnosis import Diagnosis, fit_error
from reprieve.framework.plugin import CycleState, Mask, PostFilterResult
from reprieve.framework.restart_places import RestartReader
from reprieve.framework.running_profile import RunningProfile
from reprieve.framework.status import SUCCESS, Code, Status
from reprieve.preemption.candidate_cache import Candidate, Choice, Misfit, RowAnswers
from reprieve.preemption.cheapest_victims import CheapestVictims, cheapest_on_row, judged
from reprieve.preemption.cost import BY_NAME, Costing
from reprieve.preemption.eligibility import pod_is_ineligible
from reprieve.preemption.extender_candidates import NO_CANDIDATE, judges_of, without_victims
from reprieve.preemption.extender_candidates import judged as judged_outside
from reprieve.preemption.free_resources import FreeResources, only_resources
from reprieve.preemption.options import EvictionOptions
from reprieve.preemption.order import Ranking, by_importance
from reprieve.preemption.outcome import (
    MINIMIZE_VICTIMS,
    NO_VICTIMS_POD,
    NOT_HELPFUL,
    CandidateComparison,
    CascadeAvoided,
    CascadeStep,
    Cost,
    Preemption,
    Verdict,
)
from reprieve.preemption.protected_units import (
    Ceilings,
    EvictionTerms,
    ceilings_for,
    potential_victims,
    protection,
)
from reprieve.preemption.reprieved_units import judge, judge_by_numbers
from reprieve.preemption.unit_matrices import ABOVE_ALL
from reprieve.preemption.units import PreemptionUnit, effective_priority, units_below
from reprieve.preemption.victim_columns import VictimColumns

_SIGNATURES = 64
_MOST_CASCADES = 64
"""Maximum number of rows on which evictions in turn are evaluated."""
_MOST_SEARCHED = 64
"""Maximum number of rows on which sets of units are compared."""
_MOST_TRIED = 4
"""Maximum number of rows on which proposals by resources are tried with all filters."""
_FEW = 4
"""Up to this number, rows are evaluated one by one."""
_DEVICES = "DynamicResources"
"""The plugin with rejections that kube-scheduler treats as unresolvable."""


class PodPreemption:
    """Finds the cheapest node to preempt on; `plugin` is the name in messages."""

    def __init__(self, running: RunningProfile, plugin: str, options: EvictionOptions) -> None:
        self._running = running
        self._criteria = criteria = options.criteria
        self._cascades = options.cascades
        self._cluster, self._profile, self._evaluator = running.cluster, running.profile, running.evaluator
        self._plugin = plugin
        self._search = options.placement == MINIMIZE_VICTIMS and options.cascades is None
        self._plain = options.plain
        self._share = options.share
        self._columns = VictimColumns(running.cluster, running.evaluator.restarts, by_gang=criteria.counts_gangs)
        self._memory: dict[tuple[object, ...], RowAnswers] = {}
        """Results by the identity of preemptors, the least recently used first."""
        self._latest: dict[tuple[object, ...], tuple[object, ...]] = {}
        """Identity of pods that differ only in priority -> the key in `_memory` of the last of them."""

    def preempt(self, state: CycleState, diagnosis: Diagnosis) -> PostFilterResult:
        """Return the decision for a pod that fits nowhere. The cluster is not changed.

        The pod's own nomination is lifted in the present view; `state.nominated` has its row.
        """
        pod, cluster = state.pod, self._cluster
        why = pod_is_ineligible(state, diagnosis)
        if why is not None:
            return PostFilterResult(Status(Code.UNSCHEDULABLE, f"preemption: {why}", self._plugin))
        curable = diagnosis.resolvable_rows()
        resources = only_resources(self._profile, [state])
        numbers = not self._plain and resources
        answers = self._answers(state, curable, numbers=numbers, searches=self._searches and resources)
        choice = answers.cheapest(curable, cluster.nodes.rank)
        judges = judges_of(self._profile, state)
        candidates: Mapping[int, tuple[Verdict, ...]] = {}
        if judges:
            good = answers.good[curable]
            fitting = without_victims(self._running, state, curable[~good].tolist(), self._criteria)
            candidates = fitting | {r: self._verdicts(state, r, numbers=numbers) for r in curable[good].tolist()}
        if choice is None and not candidates:
            text = f"preemption: {self._refusal(diagnosis, curable, answers)}"
            terms = cluster.class_terms_of(pod)
            pods_there = (victim for row in curable.tolist() for victim in cluster.nodes.pods[row].values())
            protected, waits = protection(cluster, pod.priority, pods_there, terms)
            if protected:
                text = f"{text} {protected}."
            status = Status(Code.UNSCHEDULABLE, text, self._plugin)
            return PostFilterResult(status, clear_nomination=True, deferral=waits)
        if choice is None or judges:
            candidates = judged_outside(judges, state, candidates)
            choice = self._cheapest_of(candidates)
            if choice is None:
                return PostFilterResult(Status(Code.UNSCHEDULABLE, f"preemption: {NO_CANDIDATE}", self._plugin))
            verdicts = candidates[choice.row]
        elif self._cascades is not None:
            return PostFilterResult(SUCCESS, self._with_cascades(state, curable, answers, numbers=numbers))
        else:
            cheaper = None
            if self._searches:
                look = self._cheaper if resources else self._cheaper_by_filters
                choice, cheaper = look(state, curable, answers, choice)
            verdicts = cheaper or self._verdicts(state, choice.row, numbers=numbers)
        names = cluster.nodes.names
        preemption = Preemption(
            pod=pod,
            group=None,
            priority=pod.priority,
            domain=names[choice.row],
            nominations=((pod, choice.row),),
            verdicts=verdicts,
            candidates=choice.candidates,
            compared=CandidateComparison(names[choice.second], choice.second_cost, choice.steps)
            if choice.second >= 0
            else None,
            criteria=self._criteria.described,
            cost=choice.cost,
        )
        return PostFilterResult(SUCCESS, preemption)

    def on_own_node(self, state: CycleState, row: int) -> PostFilterResult:
        """Return the eviction on a row for a pod that runs there and was removed in the present view (resizes.md 3).

        Only resources matter, as its other constraints were checked when it was placed.
        """
        cluster, pod, node = self._cluster, state.pod, self._cluster.nodes.names[row]
        candidate, _ = self._on_row(state, row, numbers=True)
        if isinstance(candidate, Candidate) and self._spares(pod, candidate.verdicts):
            cost, verdicts = candidate.cost, candidate.verdicts
            cheapest = cheapest_on_row(self._running, self._criteria, pod, row) if self._searches else None
            if cheapest is not None and cheapest.cost < cost:
                verdicts_of_units = judged(cluster, pod, row, cheapest.units)
                if self._spares(pod, verdicts_of_units):
                    cost, verdicts = self._cost_of(verdicts_of_units) or cheapest.cost, verdicts_of_units
            preemption = Preemption(
                pod=pod,
                group=None,
                priority=pod.priority,
                domain=node,
                nominations=((pod, row),),
                verdicts=verdicts,
                criteria=self._criteria.described,
                cost=cost,
                resize=pod.resize_ref,
            )
            return PostFilterResult(SUCCESS, preemption)
        reasons = (NO_VICTIMS_POD,) if isinstance(candidate, Candidate) else candidate
        text = f"preemption: {fit_error(1, dict.fromkeys(reasons, 1))}"
        terms = cluster.class_terms_of(pod)
        protected, waits = protection(cluster, pod.priority, cluster.nodes.pods[row].values(), terms)
        status = Status(Code.UNSCHEDULABLE, f"{text} {protected}." if protected else text, self._plugin)
        return PostFilterResult(status, deferral=waits)

    def _spares(self, pod: PodRecord, verdicts: Sequence[Verdict]) -> bool:
        """Return whether these victims spare the gang of the resized pod, which must not be evicted."""
        if pod.group is None:
            return True
        return not any(victim.group == pod.group for v in verdicts if v.evicted for victim in v.unit.pods)

    def cheapest_rows(self, pod: PodRecord, most: int) -> list[int]:
        """Return rows on which an eviction helps a pod that fits nowhere and is not nominated, at most `most`.

        Rows with the cheapest reprieve come first.
        """
        state = CycleState(self._cluster, pod)
        curable = self._evaluator.diagnose(state).resolvable_rows()
        numbers = not self._plain and only_resources(self._profile, [state])
        answers = self._answers(state, curable, numbers=numbers, searches=False)
        return [row for row, _ in answers.cheapest_first(curable, self._cluster.nodes.rank, most)]

    @property
    def _searches(self) -> bool:
        """Return whether sets of units are compared."""
        return self._search and not self._cluster.rules_of_work

    def _cheaper(
        self, state: CycleState, curable: npt.NDArray[np.int64], answers: RowAnswers, choice: Choice
    ) -> tuple[Choice, tuple[Verdict, ...] | None]:
        """Return the choice after comparing sets of units on each row that may be cheaper (cost.md 4.8).

        With the verdicts there; None if the result of the reprieve stays. Rows are searched in the order of their lower
        bounds, until no other can be cheaper, up to a limit: the rows do not depend on earlier results.
        """
        cluster, pod, rank = self._cluster, state.pod, self._cluster.nodes.rank
        best, row = choice.cost, choice.row
        cheapest_units: CheapestVictims | None = None
        native = self._criteria.native
        if native:
            hopeful = answers.hopeful(curable, choice.cost, rank)
        else:  # without bounds, rows on which the reprieve evicts little may be cheap
            hopeful = [(best, candidate) for candidate, _ in answers.cheapest_first(curable, rank)]
        for least, candidate in hopeful[:_MOST_SEARCHED]:
            if native and (least > best or (least == best and rank[candidate] > rank[row])):
                break
            if candidate not in answers.searched:
                answers.search(candidate, cheapest_on_row(self._running, self._criteria, pod, candidate))
            cheapest = answers.searched[candidate]
            if cheapest is not None and (cheapest.cost, rank[candidate]) < (best, rank[row]):
                best, row, cheapest_units = cheapest.cost, candidate, cheapest
        if cheapest_units is None:
            return choice, None
        verdicts = judged(cluster, pod, row, cheapest_units.units)
        return self._instead(choice, row, self._cost_of(verdicts) or best), verdicts

    def _cost_of(self, verdicts: Sequence[Verdict]) -> Cost | None:
        """Return the cost of an eviction with no pods displaced."""
        costing = self._criteria.costing(self._cluster, self._evaluator, [verdict.unit for verdict in verdicts])
        return self._criteria.cost_of(verdicts, costing)

    def _cheaper_by_filters(
        self, state: CycleState, curable: npt.NDArray[np.int64], answers: RowAnswers, choice: Choice
    ) -> tuple[Choice, tuple[Verdict, ...] | None]:
        """Return the choice if more than resources matters: proposals by resources are tried on the cheapest rows.

        A proposal is used if the pod passes every filter without only these units.
        """
        cluster, pod = self._cluster, state.pod
        best, row, verdicts = choice.cost, choice.row, None
        for candidate, _ in answers.cheapest_first(curable, cluster.nodes.rank, _MOST_TRIED):
            proposed = cheapest_on_row(self._running, self._criteria, pod, candidate)
            if proposed is None or proposed.cost >= best:
                continue
            evicted_uids = {victim.uid for unit in proposed.units for victim in unit.pods}
            units = units_below(cluster, pod.priority, list(cluster.nodes.pods[candidate].values()))
            costing = self._criteria.costing(cluster, self._evaluator, units)
            ranking = Ranking(cluster, units, self._criteria, costing)
            spared = {index for index, unit in enumerate(ranking.ordered) if unit.pods[0].uid not in evicted_uids}
            with cluster.trial():
                for unit in proposed.units:
                    for victim in unit.pods:
                        cluster.displace(victim)
                if not self._evaluator.fits_row(state, candidate):
                    continue
                going = ranking.only(set(range(len(units))) - spared)
                tried = iter(judge(self._running, going, [(pod, candidate)], pod.priority, plain=self._plain))
            every = tuple(
                Verdict(unit, ranking.violations[index], None) if index in spared else next(tried)
                for index, unit in enumerate(ranking.ordered)
            )
            cost = self._cost_of(every)
            if cost is not None and cost < best:
                best, row, verdicts = cost, candidate, every
        return (choice if verdicts is None else self._instead(choice, row, best)), verdicts

    def _instead(self, choice: Choice, row: int, cost: Cost) -> Choice:
        """Return the choice with the cheaper result; if that is another row, the previous one is the second."""
        if row == choice.row:
            return replace(choice, cost=cost)
        apart = next((i for i, (a, b) in enumerate(zip(cost, choice.cost, strict=True)) if a != b), None)
        steps = ((BY_NAME if apart is None else self._criteria.texts[apart], 1),)
        return replace(choice, row=row, cost=cost, second=choice.row, second_cost=choice.cost, steps=steps)

    def _with_cascades(
        self, state: CycleState, curable: npt.NDArray[np.int64], answers: RowAnswers, *, numbers: bool
    ) -> Preemption:
        """Return the cheapest row by the cost of its victims and of those they would evict in turn (cost.md 3).

        Rows are evaluated in the order of their cost without the latter, until no other can be cheaper, up to a limit:
        more evictions never cost less.
        """
        cascades, pod, cluster = self._cascades, state.pod, self._cluster
        assert cascades is not None
        rank, names = cluster.nodes.rank, cluster.nodes.names
        evaluated: list[tuple[Cost, int, int, tuple[Verdict, ...], tuple[CascadeStep, ...]]] = []
        best: Cost | None = None
        for row, own in answers.cheapest_first(curable, rank)[:_MOST_CASCADES]:
            if best is not None and own > best:
                break
            verdicts = self._verdicts(state, row, numbers=numbers)
            steps = cascades.after([verdict.unit for verdict in verdicts if verdict.evicted], ((pod, row),))
            cost = cascades.cost(verdicts, steps, own)
            best = cost if best is None else min(best, cost)
            evaluated.append((cost, int(rank[row]), row, verdicts, steps))
        first = evaluated[0]
        cheapest, *rivals = sorted(evaluated, key=lambda option: option[:2])
        compared = None
        if rivals:
            second = rivals[0]
            steps_of = zip(self._criteria.texts, cheapest[0], second[0], strict=True)
            text = next((text for text, a, b in steps_of if a != b), BY_NAME)
            compared = CandidateComparison(names[second[2]], second[0], ((text, 1),))
        avoided = None
        if cheapest is not first:
            avoided = CascadeAvoided(tuple(v.unit for v in first[3] if v.evicted), first[4])
        return Preemption(
            pod=pod,
            group=None,
            priority=pod.priority,
            domain=names[cheapest[2]],
            nominations=((pod, cheapest[2]),),
            verdicts=cheapest[3],
            candidates=int(answers.good[curable].sum()),
            compared=compared,
            criteria=self._criteria.described,
            cost=cheapest[0],
            cascade=cheapest[4],
            avoided=avoided,
        )

    def _cheapest_of(self, changed: Mapping[int, tuple[Verdict, ...]]) -> Choice | None:
        """Return the choice after calling extenders; these results are not cached."""
        answers = RowAnswers(self._cluster.changes(), len(self._cluster.nodes), self._criteria)
        for row, verdicts in changed.items():
            costing = self._criteria.costing(self._cluster, self._evaluator, [verdict.unit for verdict in verdicts])
            answers.put(row, self._candidate(row, verdicts, costing), (0, 0), fragile=True)
        return answers.cheapest(np.array(sorted(changed), dtype=np.int64), self._cluster.nodes.rank)

    def _answers(
        self, state: CycleState, curable: npt.NDArray[np.int64], *, numbers: bool, searches: bool
    ) -> RowAnswers:
        """Return a result for every row with a resolvable failure: its cost, or why it is no candidate.

        `numbers`: only resources matter. `searches`: sets of units are compared on rows that are evaluated one by one.
        """
        evaluator = self._evaluator
        answers = self._recall(evaluator.identity_on_rows, state)
        unknown = curable[~answers.known[curable]]
        together = numbers and self._share and self._criteria.native and not self._cluster.rules_of_work
        if together and len(unknown) > _FEW:
            answers.put_all(unknown, self._columns.judge(state.pod, unknown), self._lacking(state))
            return answers
        with_room = None if numbers else self._recall(evaluator.identity_with_room, state)
        roomy: set[int] = set()
        if with_room is not None:
            rows = unknown[_has_room(self._cluster, state.pod, unknown)]
            roomy.update(rows.tolist())
            answers.take_over(with_room, rows[with_room.known[rows]])
            unknown = unknown[~answers.known[unknown]]
        for row in unknown.tolist():
            answer, depends = self._on_row(state, row, numbers=numbers)
            same = self._same_for(state, row, numbers=numbers)
            answers.put(row, answer, same, fragile=depends)
            if with_room is not None and row in roomy:
                with_room.put(row, answer, same, fragile=depends)
            if isinstance(answer, Candidate) and searches and self._criteria.native:
                answers.search(row, cheapest_on_row(self._running, self._criteria, state.pod, row))
        return answers

    def _lacking(self, state: CycleState) -> Misfit:
        """Return the reasons for a row on which each of the pod's requests is short."""
        names = self._cluster.resources.names
        return tuple(insufficient(names[column]) for column, _ in state.signature.requests)

    def _verdicts(self, state: CycleState, row: int, *, numbers: bool) -> tuple[Verdict, ...]:
        """Return verdicts on the units of a candidate row."""
        candidate, _ = self._on_row(state, row, numbers=numbers)
        assert isinstance(candidate, Candidate)
        return candidate.verdicts

    def _recall(self, identity: Callable[[CycleState], tuple[object, ...] | None], state: CycleState) -> RowAnswers:
        """Return the valid results for identical pods; the second item of an `identity` is the priority."""
        cluster = self._cluster
        beyond = self._criteria.beyond_the_node(cluster) if self._share else None
        versions = cluster.budgets_version, beyond
        shares = beyond is not None and not cluster.rules_of_work
        key = identity(state) if shares else None
        if key is None:
            answers = self._no_answers()
        else:
            like = (key[0], *key[2:])
            recalled = self._memory.pop(key, None)
            if recalled is None:
                latest = self._memory.get(self._latest.get(like, ()))
                if latest is not None:
                    self._catch_up(latest, *versions)
                    recalled = latest.for_priority(state.pod.priority)
            answers = recalled or self._no_answers()
            self._memory[key] = answers
            self._latest.pop(like, None)
            self._latest[like] = key
            for cache in (self._memory, self._latest):
                if len(cache) > _SIGNATURES:
                    del cache[next(iter(cache))]
        self._catch_up(answers, *versions)
        return answers

    def _no_answers(self) -> RowAnswers:
        cluster = self._cluster
        gangs = cluster.gang_changes(lasting=True) if self._criteria.by_gang else None
        restarts = RestartReader(self._evaluator.restarts) if self._criteria.counts_restarts else None
        return RowAnswers(cluster.changes(lasting=True), len(cluster.nodes), self._criteria, gangs, restarts)

    def _catch_up(self, answers: RowAnswers, *versions: Hashable) -> None:
        """Drop invalid results; `versions`: see `RowAnswers.catch_up`."""
        cluster = self._cluster
        answers.catch_up(len(cluster.nodes), *versions)
        if answers.restarts is not None:
            restarted = answers.restarts.take()
            if restarted is None:
                answers.forget(range(len(cluster.nodes)))
            elif restarted:
                answers.forget(list(set(restarted)))
        if answers.gangs is None:
            return
        resized = answers.gangs.take()
        groups = cluster.groups if resized is None else resized & cluster.groups.keys()
        rows = {pod.row for key in groups for pod in cluster.groups[key].members.values() if pod.row >= 0}
        answers.forget(sorted(rows))

    def _same_for(self, state: CycleState, row: int, *, numbers: bool) -> tuple[int, int]:
        """Return the priorities (from, to) of preemptors with the same result on the row.

        The result is the same while the same units may be evicted and the same nominated pods count. `numbers`: only
        resources matter; otherwise a filter may read the priority.
        """
        pod, cluster = state.pod, self._cluster
        if not numbers:
            return pod.priority, pod.priority
        low, high = -ABOVE_ALL, ABOVE_ALL
        priorities = [effective_priority(cluster, pod_there) for pod_there in cluster.nodes.pods[row].values()]
        priorities += [pod_there.priority for pod_there in cluster.nodes.nominated.get(row, {}).values()]
        for priority in priorities:
            if priority < pod.priority:
                low = max(low, priority + 1)
            else:
                high = min(high, priority)
        return low, high

    def _on_row(self, state: CycleState, row: int, *, numbers: bool) -> tuple[Candidate | Misfit, bool]:
        """Carry out steps 1-5 of preemption.md 3 on one node; also return whether other rows had an influence."""
        cluster, pod = self._cluster, state.pod
        terms = cluster.class_terms_of(pod)
        units = potential_victims(cluster, pod.priority, cluster.nodes.pods[row].values(), terms)
        result, depends = self._with_units(state, row, units, numbers=numbers)
        if cluster.rules_of_work:  # Then results are not shared, so other rows do not matter.
            result = self._within_terms(state, row, units, result, numbers=numbers)
        return result, depends

    def _within_terms(
        self,
        state: CycleState,
        row: int,
        units: Sequence[PreemptionUnit],
        result: Candidate | Misfit,
        *,
        numbers: bool,
    ) -> Candidate | Misfit:
        """Return the result for a row within the terms of annotations about work; `result`: without them."""
        cluster, pod = self._cluster, state.pod
        terms, pods_there = cluster.class_terms_of(pod), list(cluster.nodes.pods[row].values())
        ceilings = self._ceilings(state)
        work = EvictionTerms(cluster, pod.priority, pods_there, terms, ceilings)
        within_ceilings = self._within_ceilings(pod, row, units, work) if numbers and ceilings else None
        while isinstance(result, Candidate):
            victims = [verdict.unit for verdict in result.verdicts if verdict.evicted]
            below, violated = work.below_minimum(victims), work.violated_by(victims)
            if not below and not violated:
                break
            if not below and work.restricted:
                return within_ceilings or (work.refusal,)
            work.whole |= below
            work.restricted = work.restricted or violated
            units = work.units()
            if not units and work.restricted:
                return within_ceilings or (work.refusal,)
            result, _ = self._with_units(state, row, units, numbers=numbers)
        if within_ceilings is not None and (not isinstance(result, Candidate) or within_ceilings.cost < result.cost):
            return within_ceilings
        return result if isinstance(result, Candidate) or not work.restricted else (work.refusal,)

    def _within_ceilings(
        self, pod: PodRecord, row: int, units: Sequence[PreemptionUnit], work: EvictionTerms
    ) -> Candidate | None:
        """Return the cheapest set of the row's units within budgets and limits, which count only this set."""
        cluster = self._cluster
        cheapest = cheapest_on_row(self._running, self._criteria, pod, row) if self._search else None
        may = {unit.pods[0].uid for unit in units}
        if cheapest is None or any(unit.pods[0].uid not in may for unit in cheapest.units):
            return None
        if work.violated_by(cheapest.units) or work.below_minimum(cheapest.units):
            return None
        verdicts = judged(cluster, pod, row, cheapest.units)
        candidate = self._candidate(row, verdicts, self._criteria.costing(cluster, self._evaluator, units))
        return candidate if isinstance(candidate, Candidate) else None

    def _ceilings(self, state: CycleState) -> Ceilings:
        """Return the limits of the pod's evictions: the same on all rows, so computed once for an attempt."""
        result = state.data.get(self._plugin)
        if not isinstance(result, list):
            terms = self._cluster.class_terms_of(state.pod)
            result = state.data[self._plugin] = ceilings_for(self._cluster, state.pod.priority, terms)
        return result

    def _with_units(
        self, state: CycleState, row: int, units: list[PreemptionUnit], *, numbers: bool
    ) -> tuple[Candidate | Misfit, bool]:
        """Return the verdicts if only these units may be evicted."""
        cluster, pod = self._cluster, state.pod
        # A unit that is a whole group may have members elsewhere, or get some, without this row being touched.
        spans = any(unit.group is not None for unit in units)
        if not units:
            return (NO_VICTIMS_POD,), spans
        costing = self._criteria.costing(cluster, self._evaluator, units)
        if numbers:
            return self._by_numbers(pod, row, units, costing), spans
        with cluster.trial():
            for unit in units:
                for victim in unit.pods:
                    cluster.displace(victim)
            if not self._evaluator.fits_row(state, row):
                return self._evaluator.why_not(state, row)[1], spans
            verdicts = judge(
                self._running,
                Ranking(cluster, units, self._criteria, costing),
                [(pod, row)],
                pod.priority,
                plain=self._plain,
            )
        return self._candidate(row, verdicts, costing), spans

    def _by_numbers(
        self, pod: PodRecord, row: int, units: list[PreemptionUnit], costing: Costing | None
    ) -> Candidate | Misfit:
        """Return the verdicts if only resources matter, without moving pods in the view."""
        cluster = self._cluster
        room = FreeResources.after(cluster, [(pod, row)], priority=pod.priority)
        for unit in units:
            room.free(unit.pods, unit.rows)
        short = room.short_columns()
        if short:
            # As in the filters: a row with nominated pods is judged only with them.
            return tuple(insufficient(cluster.resources.names[column]) for column in short)
        ordered = by_importance(cluster, units, self._criteria, costing)
        verdicts = judge_by_numbers(cluster, ordered, [(pod, row)], room)
        return self._candidate(row, verdicts, costing)

    def _candidate(self, row: int, verdicts: tuple[Verdict, ...], costing: Costing | None) -> Candidate | Misfit:
        """Return the cost of evicting on a row; a node without victims is no candidate: it failed for other reasons."""
        cost = self._criteria.cost_of(verdicts, costing)
        if cost is None:
            return (NO_VICTIMS_POD,)
        return Candidate(row, verdicts, cost)

    def _refusal(self, diagnosis: Diagnosis, curable: npt.NDArray[np.int64], answers: RowAnswers) -> str:
        # kube-scheduler does not preempt for devices: if preemption does not help here either, its message is used.
        devices = diagnosis.rejected.get(_DEVICES)
        if devices is not None:
            curable = curable[~devices[curable]]
        reasons = answers.misfits(curable)
        hopeless = diagnosis.nodes - len(curable)
        if hopeless:
            reasons[NOT_HELPFUL] = reasons.get(NOT_HELPFUL, 0) + hopeless
        return fit_error(diagnosis.nodes, reasons)


def _has_room(cluster: ClusterState, pod: PodRecord, rows: npt.NDArray[np.int64]) -> Mask:
    """Return bool[rows]: whether the pod's requests are free beside all running and nominated pods, devices aside.

    `rows`: ascending.
    """
    nodes = cluster.nodes
    columns = [column for column, _ in pod.signature.requests]
    free = (nodes.allocatable[columns] - nodes.used[columns])[:, rows]
    nominated = nominated_rows(cluster, pod.priority, rows)
    free[:, np.searchsorted(rows, nominated.rows)] -= nominated.amounts[columns]
    requested = np.array([[amount] for _, amount in pod.signature.requests], dtype=np.int64)
    result: Mask = np.logical_and.reduce(free >= requested)
    return result
