"""A pod group as preemptor: its domain is the whole cluster, or one placement of several (preemption.md 4)."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from kube_rules.work_annotations import ClassTerms
from reprieve.cluster.groups import fewest_pods
from reprieve.cluster.pods import PodRecord
from reprieve.framework.plugin import CycleState, Placement, PodGroupAssignment, PodGroupAttempt, PostFilterResult
from reprieve.framework.running import RunningProfile
from reprieve.framework.status import SUCCESS, Code, Status
from reprieve.preemption.cost import BY_NAME, NOBODY, Cost, Criteria
from reprieve.preemption.domain_bounds import FREE, bounds_of
from reprieve.preemption.eligibility import group_never_preempts, ineligible
from reprieve.preemption.options import EvictionOptions
from reprieve.preemption.order import Ranking
from reprieve.preemption.outcome import (
    CLUSTER_DOMAIN,
    MINIMIZE_VICTIMS,
    NO_VICTIMS_GROUP,
    REPRIEVE,
    SCORED,
    CascadeAvoided,
    CascadeStep,
    Compared,
    NoRoom,
    Preemption,
    PreemptionInVain,
    Reason,
    Verdict,
)
from reprieve.preemption.protection import (
    BUDGET_RESPECTED,
    RespectedBudgets,
    left_below_minimum,
    potential_victims,
    until_runtimes_are_over,
)
from reprieve.preemption.reprieving import reasons_to_go, verdicts_of
from reprieve.preemption.tie_breaking import victim_sparing_tie_breaker
from reprieve.preemption.units import PreemptionUnit, effective_priority, scheduled_pods
from reprieve.preemption.victim_search.problem import Numbers, numbers_of
from reprieve.preemption.victim_search.search import Found, as_cheap, cheapest_eviction

_MOST_CASCADES = 8
"""So many candidates are evaluated, and so many evictions instead, where those count who are evicted in turn."""
_MOST_DOMAINS_BELOW = 64
"""So many placements of groups below a tree's root are tried for each of the root's."""
_MOST_AS_CHEAP, _PODS_PLACED_ANEW = 24, 384
"""So many evictions that cost the same are compared by what the group scores, and fewer for large groups: so many of
its pods are placed for it."""
_FEW_DOMAINS = 4
"""So few domains are searched without bounds."""
UNSCHEDULABLE = "pod group is unschedulable"
BY_SCORE = "highest placement score"


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A way to place the group and what it costs. `reasons`: index of a unit in the ranking -> why it has to go."""

    placement: Placement | None
    ranking: Ranking
    assignment: PodGroupAssignment
    reasons: dict[int, Reason]
    cost: Cost | None
    """None: nobody has to go."""
    cascade: tuple[CascadeStep, ...] = ()
    """Whom the victims would evict in turn; their cost is counted."""
    at_least: tuple[bool, Cost] = FREE
    """What no eviction in its domain costs less than, as a price."""

    @property
    def price(self) -> tuple[bool, Cost]:
        """Sort key, cheapest first; evicting nobody costs least."""
        return (self.cost is not None, self.cost or ())

    def victims(self) -> list[PreemptionUnit]:
        """Those who go, most important first."""
        return [self.ranking.ordered[index] for index in sorted(self.reasons)]

    def evicted(self) -> list[Verdict]:
        """Those who go, most important first, budgets counted over them alone (preemption.md 6 over the victims)."""
        gone = sorted(self.reasons)
        return [
            Verdict(self.ranking.ordered[index], violates, self.reasons[index])
            for index, violates in zip(gone, self.ranking.violating(gone), strict=True)
        ]

    def verdicts(self) -> tuple[Verdict, ...]:
        """The verdict on every unit, in importance order; `evicted` for those who go."""
        gone = dict(zip(sorted(self.reasons), self.evicted(), strict=True))
        return tuple(gone.get(index, kept) for index, kept in enumerate(verdicts_of(self.ranking, self.reasons)))


@dataclass(frozen=True, slots=True)
class _Request:
    """For whom room is to be made, and how. `terms`: what the preemptor's class says of those who may go."""

    running: RunningProfile
    attempt: PodGroupAttempt
    priority: int
    terms: ClassTerms
    options: EvictionOptions


def preempt_for_group(
    running: RunningProfile, attempt: PodGroupAttempt, plugin: str, options: EvictionOptions
) -> PostFilterResult:
    """Find the victims that make room for the group, or say why there are none. Leaves the cluster as it was.

    The places are those the group's algorithm gives with all potential victims gone; they are held fixed while units
    are spared.  It must place more members than without preemption, else nothing is touched.  Under a topology
    constraint this is done for each placement; the cheapest eviction wins, then the placement the group scores best
    beside those who stay, then the first in order (preemption.md 4.6).  While room is held for it in one of them, no
    other is tried unless the group does not fit there any more (cost.md 5.5).
    """
    cluster, group = running.cluster, attempt.group
    spec = group.spec
    if spec is None:
        return PostFilterResult(Status(Code.UNSCHEDULABLE, NO_VICTIMS_GROUP, plugin))
    never = group_never_preempts(group, group_policy=options.group_policy)
    rows = () if attempt.overtaken else attempt.nominated_rows
    why = ineligible(cluster, spec.priority, never, rows, under_way=attempt.preemption_under_way)
    if why is not None:
        in_vain = PreemptionInVain(group, NoRoom.POLICY_NEVER if never else NoRoom.UNDER_WAY)
        return PostFilterResult(Status(Code.UNSCHEDULABLE, why, plugin), in_vain=in_vain)
    request = _Request(running, attempt, spec.priority, cluster.class_terms_of(group), options)
    units = potential_victims(cluster, spec.priority, scheduled_pods(cluster), request.terms)
    if not units:
        lowest = min((effective_priority(cluster, pod) for pod in scheduled_pods(cluster)), default=None)
        in_vain = PreemptionInVain(group, NoRoom.NO_LOWER_PRIORITY, lowest=lowest)
        return _in_vain(request, Status(Code.UNRESOLVABLE, NO_VICTIMS_GROUP, plugin), in_vain)
    found = _candidates_among(request, units)
    if cluster.rules_of_work and found.candidates:
        found = _by_the_rules(request, found)
    if not found.candidates:
        status = Status(Code.UNSCHEDULABLE, found.refused or UNSCHEDULABLE, plugin)
        return _in_vain(request, status, found.in_vain)
    avoided = None
    if options.cascades is not None:
        found, avoided = _with_cascades(request, found)
    best, compared = _best(attempt, found.candidates, options.criteria)
    by_score = found.by_score
    preemption = Preemption(
        pod=None,
        group=group,
        priority=spec.priority,
        domain=CLUSTER_DOMAIN if best.placement is None else best.placement.name,
        nominations=best.assignment.placed,
        verdicts=best.verdicts() if by_score is not None else verdicts_of(best.ranking, best.reasons),
        candidates=len(found.candidates) + found.passed_over,
        compared=compared,
        criteria=options.criteria.described,
        cost=best.cost,
        cascade=best.cascade,
        avoided=avoided,
        by_score=tuple(verdict.unit for verdict in by_score.evicted()) if by_score is not None else None,
    )
    return PostFilterResult(SUCCESS, preemption)


def _in_vain(request: _Request, status: Status, why: PreemptionInVain | None) -> PostFilterResult:
    """Nobody is evicted; whoever is within a minimum runtime may be later."""
    cluster = request.running.cluster
    waits = until_runtimes_are_over(cluster, request.priority, scheduled_pods(cluster), request.terms)
    if waits is not None:
        status = replace(status, reason=f"{status.reason}: {waits.message}")
    return PostFilterResult(status, clear_nomination=True, in_vain=why, put_off=waits)


@dataclass(frozen=True, slots=True)
class _Found:
    """What came of looking: candidates, how many domains were passed over, and what placing by score would cost."""

    candidates: list[_Candidate]
    passed_over: int = 0
    by_score: _Candidate | None = None
    in_vain: PreemptionInVain | None = None
    """Why there are no candidates."""
    refused: str = ""
    """The same in words, where it is a rule."""


def _candidates_among(request: _Request, units: Sequence[PreemptionUnit]) -> _Found:
    """The candidates where only these units may go."""
    running, attempt, options = request.running, request.attempt, request.options
    cluster = running.cluster
    costing = options.criteria.costing(cluster, running.evaluator, units)
    with cluster.trial():
        ranking = Ranking(cluster, units, options.criteria, costing)
        cluster.displace_all([pod for unit in units for pod in unit.pods])
        search = _Search(running, attempt, ranking, request.priority, options)
        find = search.candidate if options.victim_search == REPRIEVE else search.above_floor
        if attempt.placements is None:
            found, passed_over = [candidate for candidate in (find(None),) if candidate is not None], 0
        elif options.placement == SCORED:
            places = [row for _, row in attempt.run().placed]
            scored = [domain for domain in attempt.placements if holds_all(domain, places)]
            found, passed_over = search.cheapest(scored[:1], find)
        else:
            hopeful = attempt.hopeful()
            kept = [domain for domain in hopeful if holds_all(domain, attempt.nominated_rows)]
            found, passed_over = search.cheapest(kept, find) if kept else ([], 0)
            if not found:
                found, passed_over = search.cheapest(hopeful, find)
        if not found:
            return _Found([], passed_over, None, search.in_vain())
        wide = None
        if options.placement == MINIMIZE_VICTIMS and found[0].placement is None and found[0].cost is not None:
            wide = search.numbers(found[0], ranking)
    if options.placement != MINIMIZE_VICTIMS:
        return _Found(found, passed_over)
    # Here the victims of one eviction are displaced and nobody else: few of all that might have to go.
    with cluster.trial():
        cheaper = replace(search, stay=True).all_cheaper_elsewhere(found, wide)
        return _Found(cheaper, passed_over, min(found, key=_price))


def _with_cascades(request: _Request, found: _Found) -> tuple[_Found, CascadeAvoided | None]:
    """Candidates with the cost of those whom their victims would evict in turn, and what was avoided (cost.md 3).

    Beside those found an eviction is sought without the units that would evict somebody, a few times over.
    """
    cluster, cascades = request.running.cluster, request.options.cascades
    assert cascades is not None
    attempt, criteria = request.attempt, request.options.criteria
    first = _best(attempt, found.candidates, criteria)[0]

    def counted(candidate: _Candidate) -> _Candidate:
        if candidate.cost is None:
            return candidate
        steps = cascades.after(candidate.victims(), candidate.assignment.placed)
        return replace(candidate, cascade=steps, cost=cascades.cost(candidate.evicted(), steps, candidate.cost))

    candidates = [counted(candidate) for candidate in sorted(found.candidates, key=_price)[:_MOST_CASCADES]]
    best = min(candidates, key=_price)
    spared: set[str] = set()
    for _ in range(_MOST_CASCADES):
        culprits = {step.evictor.name for step in best.cascade if step.level == 1} - spared
        if not culprits:
            break
        spared |= culprits
        everybody = potential_victims(cluster, request.priority, scheduled_pods(cluster), request.terms)
        units = [unit for unit in everybody if unit.name not in spared]
        other = _candidates_among(request, units) if units else _Found([])
        if cluster.rules_of_work and other.candidates:
            other = _by_the_rules(request, other)
        instead = [counted(candidate) for candidate in sorted(other.candidates, key=_price)[:_MOST_CASCADES]]
        cheaper = [candidate for candidate in instead if candidate.price < best.price]
        if not cheaper:
            break
        best = min(cheaper, key=_price)
        candidates = instead
    avoided = None
    chosen = _best(attempt, candidates, criteria)[0]
    if {unit.name for unit in chosen.victims()} != {unit.name for unit in first.victims()}:
        steps = cascades.after(first.victims(), first.assignment.placed)
        avoided = CascadeAvoided(tuple(first.victims()), steps)
    return replace(found, candidates=candidates), avoided


def _by_the_rules(request: _Request, found: _Found) -> _Found:
    """Candidates that respect budgets, where the class wants it, and leave no gang below its minimum that goes whole.

    Where none does, the search is repeated among units that may all go together.
    """
    cluster, attempt, terms = request.running.cluster, request.attempt, request.terms
    budgets = RespectedBudgets(cluster) if terms.respects_budgets else None
    whole: set[str] = set()
    restricted = False
    while found.candidates:
        if budgets is not None:
            respecting = [one for one in found.candidates if not budgets.violated_by(one.victims())]
        else:
            respecting = found.candidates
        if respecting:
            found = replace(found, candidates=respecting)
            best = _best(attempt, respecting, request.options.criteria)[0]
            below = left_below_minimum(cluster, best.victims()) - whole
            if not below:
                return found
            whole |= below
        elif restricted:
            break
        else:
            restricted = True
        units = potential_victims(cluster, request.priority, scheduled_pods(cluster), terms, whole)
        if budgets is not None and restricted:
            units = budgets.affordable(units)
        found = _candidates_among(request, units) if units else replace(found, candidates=[])
    why = found.in_vain
    if restricted or why is None:  # what was found of those who may all go together says nothing of all the others
        why = PreemptionInVain(attempt.group, NoRoom.BUDGETS)
    return _Found([], in_vain=why, refused=f"{UNSCHEDULABLE}: {BUDGET_RESPECTED}" if restricted else "")


@dataclass(frozen=True, slots=True)
class _Search:
    """One preemption in a view where all potential victims are displaced, or all `stay`."""

    running: RunningProfile
    attempt: PodGroupAttempt
    ranking: Ranking
    priority: int
    options: EvictionOptions
    stay: bool = False

    def candidate(self, placement: Placement | None) -> _Candidate | None:
        """What placing the group there costs; None if it does not fit or nothing is gained.

        Where nodes tie in score the algorithm leaves a choice: the first by name is compared with the one that spares
        the important units (`reprieve.preemption.tie_breaking`), and the cheaper eviction is taken.
        """
        attempt = self.attempt
        assignment = attempt.run(within=placement)
        if not self._helps(assignment):
            return None
        found = self._judged(placement, assignment)
        if attempt.constrained_below and self.options.placement != SCORED:
            return self._in_other_domains(found)
        ties = victim_sparing_tie_breaker(self.running, attempt.pods, self.priority, self.ranking, placement)
        if ties is None:
            return found
        other = attempt.run(ties, placement)
        if len(other.placed) != len(assignment.placed):
            return found
        instead = self._judged(placement, other)
        return instead if instead.price < found.price else found

    def _in_other_domains(self, found: _Candidate) -> _Candidate:
        """The cheaper of a candidate and one in the same placement with the groups below in other ones of their own.

        They are settled one after another, each where room for its pods and for those before costs least; so many
        placements are tried in all.
        """
        chosen: dict[str, Placement] = {}
        settled: set[str] = set()
        tries = 0
        for group, domains in self.attempt.choices_below(found.placement):
            settled |= {leaf.key for leaf in group.leaves()}
            prices: list[tuple[tuple[bool, Cost], int]] = []
            for turn, domain in enumerate(domains[: _MOST_DOMAINS_BELOW - tries]):
                tries += 1
                assignment = self.attempt.run(within=found.placement, chosen={**chosen, group.ref: domain})
                if assignment.feasible and len(assignment.placed) >= len(found.assignment.placed):
                    part = tuple(place for place in assignment.placed if place[0].group in settled)
                    prices.append((self._judged(found.placement, replace(assignment, placed=part)).price, turn))
            if prices:
                chosen[group.ref] = domains[min(prices)[1]]
        assignment = self.attempt.run(within=found.placement, chosen=chosen)
        if not assignment.feasible or len(assignment.placed) < len(found.assignment.placed):
            return found
        return min(found, self._judged(found.placement, assignment), key=_price)

    def cheapest(
        self, domains: Sequence[Placement], find: Callable[[Placement], _Candidate | None]
    ) -> tuple[list[_Candidate], int]:
        """Candidates in the order of their domains, and how many domains were passed over.

        Those are passed over that cannot be cheaper than the second best found (`reprieve.preemption.domain_bounds`),
        nor be liked better at the price of the best.
        """
        bounds = None
        if not self.options.plain and self.options.criteria.native and len(domains) > _FEW_DOMAINS:
            bounds = bounds_of(self.running, self.attempt, self.ranking, self.priority, domains)
        if bounds is None:
            return [candidate for domain in domains if (candidate := find(domain)) is not None], 0
        found: dict[int, _Candidate] = {}
        best: list[tuple[tuple[bool, Cost], int]] = []
        liked: int | None = None
        passed_over = 0
        for price, index in bounds.cheapest_first:
            if len(best) == 2 and price >= best[1][0]:
                if price > best[1][0]:
                    passed_over += 1
                    continue
                if liked is None and best[0][0] == price:
                    liked = bounds.score(best[0][1], price)
                score = bounds.score(index, price) if liked is not None else None
                if best[0][0] < price or (score is not None and liked is not None and score <= liked):
                    passed_over += 1
                    continue
            candidate = find(domains[index])
            if candidate is not None:
                found[index] = replace(candidate, at_least=price)
                best = sorted([*best, (candidate.price, index)])[:2]
                liked = None
        return [found[index] for index in sorted(found)], passed_over

    def in_vain(self) -> PreemptionInVain:
        """Why it does not help that all potential victims are gone."""
        attempt = self.attempt
        group = attempt.group
        assignment = attempt.run(diagnose=True)
        placed = len(assignment.placed)
        return PreemptionInVain(
            group,
            NoRoom.NOTHING_GAINED if assignment.feasible else NoRoom.DOES_NOT_FIT,
            units=tuple(self.ranking.ordered),
            placed=placed,
            needed=max(1, fewest_pods(group), attempt.placed_without_help + 1),
            pod=next((pod for pod in attempt.pods if pod.uid in assignment.failed), None),
            diagnosis=assignment.diagnosis,
        )

    def above_floor(self, placement: Placement | None) -> _Candidate | None:
        """`candidate` where only units up to the lowest sufficient priority are potential victims (KEP-5710, 001).

        That priority is found by bisection, which takes for granted that more room is never worse.
        """
        floors = sorted({unit.priority for unit in self.ranking.ordered})
        low, high = 0, len(floors) - 1
        while low < high:
            middle = (low + high) // 2
            with self._only(lambda unit, top=floors[middle]: unit.priority <= top):  # type: ignore[misc]
                enough = self._helps(self.attempt.run(within=placement))
            low, high = (low, middle) if enough else (middle + 1, high)
        with self._only(lambda unit: unit.priority <= floors[low]) as search:
            return search.candidate(placement)

    def all_cheaper_elsewhere(self, found: Sequence[_Candidate], wide: Numbers | None) -> list[_Candidate]:
        """`cheaper_elsewhere` for each candidate whose domain may still be one of the two cheapest."""
        done: dict[int, _Candidate] = {}
        best: list[tuple[bool, Cost]] = []
        for index, candidate in sorted(enumerate(found), key=lambda item: item[1].at_least):
            if len(best) < 2 or candidate.at_least <= best[1]:
                candidate = self.cheaper_elsewhere(candidate, wide)
                best = sorted([*best, candidate.price])[:2]
            done[index] = candidate
        return [done[index] for index in range(len(found))]

    def numbers(self, found: _Candidate, within: Ranking) -> Numbers | None:
        """What the search for victims is given, in a view where all of `within` are displaced.

        None where numbers cannot tell: levels of a tree that want nodes of their own go by the walk alone.
        """
        if self.attempt.constrained_below:
            return None
        pods = [pod for pod, _ in found.assignment.placed]
        return numbers_of(self.running, pods, self.priority, within, found.placement)

    def cheaper_elsewhere(self, found: _Candidate, numbers: Numbers | None) -> _Candidate:
        """The cheapest eviction that makes room for as many members in the same placement; what was found, if none is.

        Where only resources are in play it is searched for by numbers (`reprieve.preemption.victim_search`), and the
        group is placed where it scores best with only those victims gone.  Otherwise what the numbers propose is tried
        by the group's algorithm with all its filters, and so are a few evictions of the least important; fewer are
        tried then, and none that does not work is taken.  `numbers`: those of the whole cluster, if that is the
        candidate's domain and everybody in it may go.
        """
        if found.cost is None:
            return found
        pods = [pod for pod, _ in found.assignment.placed]
        ranking, everything = found.ranking, range(len(found.ranking.ordered))
        # Only who is in the placement can make room there.
        there = everything if found.placement is None else sorted(ranking.on(found.placement.rows.tolist()))
        within = ranking if len(there) == len(everything) else ranking.only(there)
        if found.placement is not None or ranking is not self.ranking:
            with self._of(within, range(len(there))):
                numbers = self.numbers(found, within)
        known = [turn for turn, index in enumerate(there) if index in found.reasons]
        cheaper = cheapest_eviction(numbers, known) if numbers is not None else None
        if numbers is not None and cheaper is not None:
            if numbers.exact and cheaper.units == tuple(known):
                return found
            own = PodGroupAssignment(cheaper.assigned(numbers), True, {}) if numbers.exact else None
            other = self._with_gone(found, {there[turn] for turn in cheaper.units}, own)
            if numbers.exact and cheaper.places is not None and len(pods) > 1 and other.price < found.price:
                return self._scoring_best(found, other, numbers, cheaper, there)
            if numbers.exact or other is not found:
                # Of one pod all nodes are compared: where they tie it takes the first, as a pod without a group does.
                return min(*((other, found) if len(pods) == 1 else (found, other)), key=_price)
        best = found
        for order in (list(reversed(found.ranking.order)), self._by_node(found)):
            low, high = 1, len(order)
            while low < high:
                middle = (low + high) // 2
                with self._of(found.ranking, set(order[:middle])):
                    enough = len(self.attempt.run(within=found.placement).placed) >= len(pods)
                low, high = (low, middle) if enough else (middle + 1, high)
            best = min(best, self._with_gone(found, set(order[:low])), key=_price)
        return best

    def _scoring_best(
        self, found: _Candidate, first: _Candidate, numbers: Numbers, cheapest: Found, there: Sequence[int]
    ) -> _Candidate:
        """Of evictions that cost what this does the one beside whose victims' room the group scores best (cost.md 4.3).

        Others go for some of those who do as long as the group scores better so, or its nodes come first by name.
        """
        best, left = first, min(_MOST_AS_CHEAP, _PODS_PLACED_ANEW // len(first.assignment.placed))
        while left > 0:
            others = as_cheap(numbers, cheapest, left)
            left -= max(1, len(others))
            candidates, evictions = [best], [cheapest]
            for each in others:
                own = PodGroupAssignment(each.assigned(numbers), True, {})
                other = self._with_gone(found, {there[turn] for turn in each.units}, own)
                if other.price == best.price:
                    candidates.append(other)
                    evictions.append(each)
            if len(candidates) == 1:
                break
            scores = self._scores(found.ranking, candidates)
            top = min(range(len(scores)), key=lambda turn: (-scores[turn], self._by_name(candidates[turn])))
            if top == 0:
                break
            best, cheapest = candidates[top], evictions[top]
        return best

    def _by_name(self, candidate: _Candidate) -> list[int]:
        rank = self.running.cluster.nodes.rank
        return sorted(int(rank[row]) for _, row in candidate.assignment.placed)

    def _scores(self, ranking: Ranking, candidates: Sequence[_Candidate]) -> list[int]:
        """What the places of each score, pod by pod, with the victims of all of them gone: by one yardstick."""
        cluster, evaluator = self.running.cluster, self.running.evaluator
        scores = []
        with self._of(ranking, {index for candidate in candidates for index in candidate.reasons}):
            for candidate in candidates:
                score = 0
                with cluster.trial():
                    for pod, row in candidate.assignment.placed:
                        score += evaluator.score_at(CycleState(cluster, pod, self.attempt.group), row)
                        cluster.place(pod, row)
                scores.append(score)
        return scores

    def _with_gone(self, found: _Candidate, gone: set[int], instead: PodGroupAssignment | None = None) -> _Candidate:
        """The candidate with only these units of its ranking displaced; what was found if fewer members fit then.

        `instead`: where the members go if the group's algorithm does not find it, in an order of its own.
        """
        ranking = found.ranking
        with self._of(ranking, gone) as search:
            assignment = search.attempt.run(within=found.placement)
            if len(assignment.placed) < len(found.assignment.placed):
                if instead is None:
                    return found
                assignment = instead
            other = search._judged(found.placement, assignment)
        turns = sorted(gone)
        reasons = {turns[index]: reason for index, reason in other.reasons.items()}
        return replace(other, ranking=ranking, reasons=reasons)

    def _by_node(self, found: _Candidate) -> list[int]:
        """Indices of units: all that have a pod on the cheapest node to clear, then those of the next."""
        ranking = found.ranking
        on_node: dict[int, list[int]] = {}
        for index, unit in enumerate(ranking.ordered):
            for row in set(unit.rows):
                on_node.setdefault(row, []).append(index)
        rank = self.running.cluster.nodes.rank

        def price(row: int) -> tuple[Cost, int]:
            there = on_node[row]
            reason = Reason(self.attempt.pods[0], row, "", "")
            verdicts = [Verdict(ranking.ordered[i], ranking.violations[i], reason) for i in there]
            cost = ranking.criteria.cost_of(verdicts, ranking.costing)
            assert cost is not None
            return cost, int(rank[row])

        return list(dict.fromkeys(index for row in sorted(on_node, key=price) for index in on_node[row]))

    @contextmanager
    def _only(self, wanted: Callable[[PreemptionUnit], bool]) -> Iterator["_Search"]:
        """The search in a view where only such units are displaced."""
        with self._of(self.ranking, {i for i, unit in enumerate(self.ranking.ordered) if wanted(unit)}) as search:
            yield search

    @contextmanager
    def _of(self, ranking: Ranking, gone: Collection[int]) -> Iterator["_Search"]:
        """The search in a view where only these units of a ranking are displaced."""
        left = [ranking.ordered[index] for index in sorted(gone)]
        cluster = self.running.cluster
        with cluster.trial():
            if self.stay:
                cluster.displace_all([pod for unit in left for pod in unit.pods])
            else:
                names = {unit.pods[0].uid for unit in left}
                every = self.ranking.ordered
                back = [(pod, row) for unit in every if unit.pods[0].uid not in names for pod, row in _seats(unit)]
                cluster.place_all([pod for pod, _ in back], [row for _, row in back])
            yield replace(self, ranking=ranking.only(gone), stay=False)

    def _helps(self, assignment: PodGroupAssignment) -> bool:
        return assignment.feasible and len(assignment.placed) > self.attempt.placed_without_help

    def _judged(self, placement: Placement | None, assignment: PodGroupAssignment) -> _Candidate:
        with self.running.cluster.trial():
            reasons = reasons_to_go(
                self.running, self.ranking, assignment.placed, self.priority, plain=self.options.plain
            )
        ranking = self.ranking
        candidate = _Candidate(placement, ranking, assignment, reasons, None)
        if self.options.placement == MINIMIZE_VICTIMS:
            return replace(candidate, cost=ranking.criteria.cost_of(candidate.evicted(), ranking.costing))
        evicted = [Verdict(ranking.ordered[i], ranking.violations[i], reason) for i, reason in reasons.items()]
        return replace(candidate, cost=ranking.criteria.cost_of(evicted, ranking.costing))


def _best(
    attempt: PodGroupAttempt, found: Sequence[_Candidate], criteria: Criteria
) -> tuple[_Candidate, Compared | None]:
    """The cheapest; among equals the one the group scores highest with only its victims gone, then the first.

    And the next best of those that were left last, with how the field narrowed.
    """
    left = rivals = list(found)
    steps: list[tuple[str, int]] = []
    for position, criterion in enumerate((NOBODY, *criteria.texts)):
        if len(left) > 1:
            costs = [_part(candidate, position) for candidate in left]
            cheapest = min(costs)
            if max(costs) > cheapest:
                rivals, left = left, [c for c, cost in zip(left, costs, strict=True) if cost == cheapest]
                steps.append((criterion, len(left)))
    if len(left) > 1:
        scores = attempt.placement_scores(
            [(c.placement, c.assignment.placed, _pods(c)) for c in left if c.placement is not None]
        )
        if min(scores) < max(scores):
            rivals, left = left, [c for c, score in zip(left, scores, strict=True) if score == max(scores)]
            steps.append((BY_SCORE, len(left)))
    best = left[0]
    if len(left) > 1:
        rivals = left
        steps.append((BY_NAME, 1))
    others = [candidate for candidate in rivals if candidate is not best]
    if not others:
        return best, None
    second = min(others, key=lambda candidate: candidate.price)
    assert second.placement is not None
    return best, Compared(second.placement.name, second.cost, tuple(steps))


def holds_all(domain: Placement, rows: Collection[int]) -> bool:
    """Whether there are such rows and the placement has all of them."""
    return bool(rows) and set(rows) <= set(domain.rows.tolist())


def _price(candidate: _Candidate) -> tuple[bool, Cost]:
    return candidate.price


def _part(candidate: _Candidate, position: int) -> float:
    """One number of a candidate's price: whether anybody has to go, then the parts of the cost."""
    anybody, cost = candidate.price
    return anybody if position == 0 else cost[position - 1] if anybody else 0.0


def _pods(candidate: _Candidate) -> list[PodRecord]:
    return [pod for index in sorted(candidate.reasons) for pod in candidate.ranking.ordered[index].pods]


def _seats(unit: PreemptionUnit) -> Iterator[tuple[PodRecord, int]]:
    return zip(unit.pods, unit.rows, strict=True)
