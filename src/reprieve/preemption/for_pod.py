"""A single pod as preemptor: every node is a domain (preemption.md 3).

Candidates are kept by signature and priority and only rows that changed are looked at again, so a stream of identical
preemptors costs a full pass once.  A preemptor that differs from an earlier one in priority alone takes over the
answers of the rows on which both may evict the same units.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from reprieve.cluster.pods import PodRecord
from reprieve.cluster.resources import insufficient
from reprieve.cluster.state import ClusterState
from reprieve.framework.diagnosis import Diagnosis, fit_error
from reprieve.framework.plugin import CycleState, Mask, PostFilterResult
from reprieve.framework.running import RunningProfile
from reprieve.framework.status import SUCCESS, Code, Status
from reprieve.preemption.cost import BY_NAME, CRITERIA, cost_of
from reprieve.preemption.eligibility import ineligible
from reprieve.preemption.extended import NO_CANDIDATE, judged, judges_of
from reprieve.preemption.free_resources import FreeResources, only_resources
from reprieve.preemption.outcome import NO_VICTIMS_POD, NOT_HELPFUL, Compared, Cost, Preemption, Verdict
from reprieve.preemption.reprieving import judge, judge_by_numbers
from reprieve.preemption.units import PreemptionUnit, effective_priority, units_below

Misfit = tuple[str, ...]
"""Why a node is no candidate: the reasons that are counted in the pod's message."""

_SIGNATURES = 64
_DEVICES = "DynamicResources"
"""The plugin whose rejections kube-scheduler takes for incurable."""
_ANY_PRIORITY = 1 << 40
"""Beyond every priority."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node on which the pod would fit, and what that costs. `cost` orders candidates, cheapest first."""

    row: int
    verdicts: tuple[Verdict, ...]
    cost: Cost


class _Remembered:
    """Answers for one signature and priority by row, valid up to a position in the touch log.

    `known`: bool[rows], the row has an answer; `good`: bool[rows], the answer is a candidate, whose cost stands in
    `cost`: int64[4, rows] (the first four of preemption.md 3) and `earliest`: float64[rows]; `fragile`: bool[rows], the
    answer also depends on other rows (a unit that spans nodes), so it is worked out anew every time; `low` and `high`:
    int64[rows], the priorities of a preemptor from and to which the answer is the same.
    """

    __slots__ = ("answers", "cost", "earliest", "fragile", "good", "high", "known", "low", "position", "versions")

    def __init__(self, versions: tuple[int, ...], position: int, rows: int) -> None:
        self.versions = versions
        self.position = position
        self.answers: dict[int, Candidate | Misfit] = {}
        self.known: Mask = np.zeros(rows, dtype=np.bool_)
        self.good: Mask = np.zeros(rows, dtype=np.bool_)
        self.fragile: Mask = np.zeros(rows, dtype=np.bool_)
        self.cost = np.zeros((4, rows), dtype=np.int64)
        self.earliest = np.zeros(rows, dtype=np.float64)
        self.low = np.zeros(rows, dtype=np.int64)
        self.high = np.zeros(rows, dtype=np.int64)

    def for_priority(self, priority: int) -> "_Remembered":
        """A copy that knows what is the same for another priority."""
        copy = _Remembered(self.versions, self.position, len(self.known))
        copy.answers = self.answers.copy()
        copy.known = self.known & (self.low <= priority) & (priority <= self.high)
        for name in ("good", "fragile", "cost", "earliest", "low", "high"):
            setattr(copy, name, getattr(self, name).copy())
        return copy

    def put(self, row: int, answer: Candidate | Misfit, priorities: tuple[int, int], *, fragile: bool) -> None:
        """Remember one row's answer, the same for preemptors of these priorities (from, to)."""
        self.low[row], self.high[row] = priorities
        self.answers[row] = answer
        self.known[row] = not fragile
        self.fragile[row] = fragile
        self.good[row] = isinstance(answer, Candidate)
        if isinstance(answer, Candidate):
            self.cost[:, row] = answer.cost[:4]
            self.earliest[row] = answer.cost[4]

    def cheapest(self, rows: npt.NDArray[np.int64], rank: npt.NDArray[np.int64]) -> "_Choice | None":
        """The best candidate among the rows by cost, then by name."""
        left = rows[self.good[rows]]
        count = len(left)
        if not count:
            return None
        rivals = left
        steps = []
        for criterion, row_costs in zip(CRITERIA, (*self.cost, self.earliest), strict=True):
            if len(left) > 1:
                costs = row_costs[left]
                kept = left[costs == costs.min()]
                if len(kept) < len(left):
                    rivals, left = left, kept
                    steps.append((criterion, len(left)))
        best = int(left[rank[left].argmin()])
        if len(left) > 1:
            rivals = left
            steps.append((BY_NAME, 1))
        second = self._first_of(rivals[rivals != best], rank)
        return _Choice(self._candidate(best), count, None if second < 0 else self._candidate(second), tuple(steps))

    def _first_of(self, left: npt.NDArray[np.int64], rank: npt.NDArray[np.int64]) -> int:
        """The best of the rows, all of them candidates; -1 if there are none."""
        for row_costs in (*self.cost, self.earliest):
            if len(left) > 1:
                costs = row_costs[left]
                left = left[costs == costs.min()]
        return int(left[rank[left].argmin()]) if len(left) else -1

    def _candidate(self, row: int) -> Candidate:
        found = self.answers[row]
        assert isinstance(found, Candidate)
        return found


@dataclass(frozen=True, slots=True)
class _Choice:
    """The cheapest of `candidates` domains, the second best, and how the field narrowed (`outcome.Compared`)."""

    best: Candidate
    candidates: int
    second: Candidate | None
    steps: tuple[tuple[str, int], ...]

    def compared(self, cluster: ClusterState) -> Compared | None:
        """The comparison as data."""
        if self.second is None:
            return None
        return Compared(cluster.nodes.names[self.second.row], self.second.cost, self.steps)


class PodPreemption:
    """Finds the cheapest node to preempt on. `plain` and `share` select the reference path (property tests)."""

    def __init__(self, running: RunningProfile, *, plugin: str, plain: bool = False, share: bool = True) -> None:
        self._running = running
        self._cluster, self._profile, self._evaluator = running.cluster, running.profile, running.evaluator
        self._plugin = plugin
        self._plain = plain
        self._share = share
        self._memory: dict[tuple[object, ...], _Remembered] = {}
        self._latest: dict[tuple[object, ...], tuple[object, ...]] = {}
        """What pods share that differ in priority alone -> the key in `_memory` of the last of them."""

    def preempt(self, state: CycleState, diagnosis: Diagnosis) -> PostFilterResult:
        """The decision for a pod that fits nowhere. Leaves the cluster as it was.

        The pod's own nomination has been lifted in the present view; `state.nominated` says where it was.
        """
        pod, cluster = state.pod, self._cluster
        rows = [state.nominated] if state.nominated >= 0 else []
        under_way = state.preemption_under_way
        if rows and diagnosis.unresolvable(rows[0]):
            rows, under_way = [], False
        why = ineligible(cluster, pod.priority, pod.never_preempts, rows, under_way=under_way)
        if why is not None:
            return PostFilterResult(Status(Code.UNSCHEDULABLE, f"preemption: {why}", self._plugin))
        curable = diagnosis.resolvable_rows()
        remembered = self._candidates(state, curable)
        found = remembered.cheapest(curable, cluster.nodes.rank)
        if found is None:
            text = f"preemption: {self._refusal(diagnosis, curable, remembered)}"
            return PostFilterResult(Status(Code.UNSCHEDULABLE, text, self._plugin), clear_nomination=True)
        found = self._extended(state, curable, remembered, found)
        if found is None:
            return PostFilterResult(Status(Code.UNSCHEDULABLE, f"preemption: {NO_CANDIDATE}", self._plugin))
        best = found.best
        preemption = Preemption(
            pod=pod,
            group=None,
            priority=pod.priority,
            domain=cluster.nodes.names[best.row],
            nominations=((pod, best.row),),
            verdicts=_for_preemptor(best.verdicts, pod),
            candidates=found.candidates,
            compared=found.compared(cluster),
        )
        return PostFilterResult(SUCCESS, preemption)

    def _extended(
        self, state: CycleState, curable: npt.NDArray[np.int64], remembered: _Remembered, choice: _Choice
    ) -> _Choice | None:
        """The choice after extenders have had their say; nothing of what they say is remembered."""
        judges = judges_of(self._profile, state)
        if not judges:
            return choice
        rows = [int(row) for row in curable if remembered.good[row]]
        answers = ((row, remembered.answers[row]) for row in rows)
        changed = judged(judges, state, {row: a.verdicts for row, a in answers if isinstance(a, Candidate)})
        left = _Remembered(remembered.versions, remembered.position, len(remembered.known))
        for row, verdicts in changed.items():
            left.put(row, _candidate(row, verdicts), (0, 0), fragile=True)
        return left.cheapest(curable, self._cluster.nodes.rank)

    def _candidates(self, state: CycleState, curable: npt.NDArray[np.int64]) -> _Remembered:
        """An answer for every row whose failure is curable: the candidate, or why it is none."""
        remembered = self._recall(state)
        numbers = not self._plain and only_resources(self._profile, [state])
        for row in curable[~remembered.known[curable]].tolist():
            answer, depends = self._on_row(state, row, numbers=numbers)
            remembered.put(row, answer, self._same_for(state, row, numbers=numbers), fragile=depends)
        return remembered

    def _recall(self, state: CycleState) -> _Remembered:
        cluster = self._cluster
        log, rows = cluster.touched, len(cluster.nodes)
        versions = (log.epoch, cluster.nodes.static_version, cluster.budgets_version, cluster.groups_version)
        key = self._evaluator.identity(state.pod) if self._share and not self._evaluator.ruled(state) else None
        known = self._memory.get(key) if key is not None else None
        if key is not None:
            like = (key[0], *key[2:])
            latest = self._memory.get(self._latest.get(like, ()))
            if known is None and latest is not None and latest.versions == versions:
                known = latest.for_priority(state.pod.priority)
                self._remember(key, known)
            self._latest[like] = key
        if known is None or known.versions != versions:
            known = _Remembered(versions, len(log.rows), rows)
            if key is not None:
                self._remember(key, known)
            return known
        known.known[log.rows[known.position :]] = False
        known.position = len(log.rows)
        return known

    def _remember(self, key: tuple[object, ...], known: _Remembered) -> None:
        if len(self._memory) >= _SIGNATURES:
            self._memory.clear()
            self._latest.clear()
        self._memory[key] = known

    def _same_for(self, state: CycleState, row: int, *, numbers: bool) -> tuple[int, int]:
        """The priorities (from, to) of a preemptor for which the row's answer is the same.

        That is as long as the same units may go and the same nominated pods count.  `numbers`: only resources are in
        play; else a filter may read the priority.
        """
        pod, cluster = state.pod, self._cluster
        if not numbers:
            return pod.priority, pod.priority
        low, high = -_ANY_PRIORITY, _ANY_PRIORITY
        there = [effective_priority(cluster, other) for other in cluster.nodes.pods[row].values()]
        there += [other.priority for other in cluster.nodes.nominated.get(row, {}).values()]
        for priority in there:
            if priority < pod.priority:
                low = max(low, priority + 1)
            else:
                high = min(high, priority)
        return low, high

    def _on_row(self, state: CycleState, row: int, *, numbers: bool) -> tuple[Candidate | Misfit, bool]:
        """Steps 1-5 of preemption.md 3 on one node; the flag says whether other rows had a part in it."""
        cluster, pod = self._cluster, state.pod
        units = units_below(cluster, pod.priority, list(cluster.nodes.pods[row].values()))
        if not units:
            return (NO_VICTIMS_POD,), False
        # A unit that is a whole group may have members elsewhere, or get some, without this row being touched.
        spans = any(unit.group is not None for unit in units)
        if numbers:
            return self._by_numbers(pod, row, units), spans
        with cluster.trial():
            for unit in units:
                for victim in unit.pods:
                    cluster.displace(victim)
            if not self._evaluator.fits_row(state, row):
                return self._evaluator.why_not(state, row)[1], spans
            verdicts = judge(self._running, units, [(pod, row)], pod.priority, plain=self._plain)
        return _candidate(row, verdicts), spans

    def _by_numbers(self, pod: PodRecord, row: int, units: list[PreemptionUnit]) -> Candidate | Misfit:
        """The same where only resources are in play: nothing has to be moved to find out."""
        cluster = self._cluster
        room = FreeResources.after(cluster, [(pod, row)], priority=pod.priority)
        for unit in units:
            room.free(unit.pods, unit.rows)
        short = room.short_columns()
        if short:
            # As the filters: a row with nominated pods is judged with them first, and that is all there is to say.
            return tuple(insufficient(cluster.resources.names[column]) for column in short)
        return _candidate(row, judge_by_numbers(cluster, units, [(pod, row)], room))

    def _refusal(self, diagnosis: Diagnosis, curable: npt.NDArray[np.int64], remembered: _Remembered) -> str:
        reasons: dict[str, int] = {}
        # kube-scheduler evicts nobody for devices: where that is of no use here either, its words are said.
        devices = diagnosis.rejected.get(_DEVICES)
        if devices is not None:
            curable = curable[~devices[curable]]
        for row in curable:
            answer = remembered.answers[int(row)]
            if not isinstance(answer, Candidate):
                for text in answer:
                    reasons[text] = reasons.get(text, 0) + 1
        hopeless = diagnosis.nodes - len(curable)
        if hopeless:
            reasons[NOT_HELPFUL] = reasons.get(NOT_HELPFUL, 0) + hopeless
        return fit_error(diagnosis.nodes, reasons)


def _candidate(row: int, verdicts: tuple[Verdict, ...]) -> Candidate | Misfit:
    """The cost of evicting on a row; a node where nobody has to go is none (it failed for another reason)."""
    cost = cost_of(verdicts)
    if cost is None:
        return (NO_VICTIMS_POD,)
    return Candidate(row, verdicts, cost)


def _for_preemptor(verdicts: tuple[Verdict, ...], pod: PodRecord) -> tuple[Verdict, ...]:
    """Remembered verdicts may name an identical pod as the one that would not fit; name this one."""
    named = []
    for verdict in verdicts:
        reason = verdict.reason
        if reason is not None and reason.pod is not pod:
            verdict = replace(verdict, reason=replace(reason, pod=pod))
        named.append(verdict)
    return tuple(named)
