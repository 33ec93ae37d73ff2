"""The guard around third-party plugins (scheduling.md 5).

A plugin from outside the product runs behind a guard: an object of the same extension points that forwards and checks
every call.  Whatever the plugin raises, including its own KeyboardInterrupt and SystemExit, becomes a `PluginError`,
which fails only the attempt; so does a result of the wrong type, shape or range.  Outside attempts (queueing hints,
QueueSort, PreEnqueue, Unreserve, PostBind) the guard falls back to a safe result and reports a `PluginIncident`.  A
`CallPolicy` makes the calls: here directly, in the live scheduler in a thread with a deadline
(`reprieve.live.watchdog`).

In-tree plugins are not guarded and pay nothing.
"""

import traceback
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar, cast, get_args

import numpy as np
import numpy.typing as npt

from reprieve.cluster.groups import Group
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.framework.diagnosis import Diagnosis
from reprieve.framework.events import ClusterEvent, EventKind, Hint, Hints, always
from reprieve.framework.instructions import AwaitObject, Instruction, PatchObject
from reprieve.framework.interrupts import is_ctrl_c
from reprieve.framework.plugin import (
    MAX_NODE_SCORE,
    Assigned,
    BindPlugin,
    Codes,
    CycleState,
    FilterPlugin,
    IncrementalFilter,
    Mask,
    PermitPlugin,
    Placement,
    PlacementFeasiblePlugin,
    PlacementGeneratePlugin,
    PlacementScorePlugin,
    Plugin,
    PodGroupAssignment,
    PodGroupAttempt,
    PodGroupPostFilterPlugin,
    PostBindPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPlugin,
    PreEnqueuePlugin,
    QueueSortPlugin,
    ReservePlugin,
    Rows,
    ScorePlugin,
    Scores,
    SignPlugin,
    TieBreaker,
    row_count,
    row_numbers,
)
from reprieve.framework.preemption_cost import Costs, EvictionUnits, PreemptionCost
from reprieve.framework.status import UNRESOLVABLE, Code, PlacementError, PluginError, Status

R = TypeVar("R")
P = TypeVar("P", bound=Plugin)
_KEPT = 1000


@dataclass(frozen=True, slots=True)
class PluginIncident:
    """An incident of a plugin, to be logged and counted: `kind` is `error`, `slow`, `stuck` or `recovered`."""

    plugin: str
    point: str
    kind: str
    text: str
    """One line of text."""
    detail: str = ""
    """The traceback of an error."""

    @classmethod
    def of(cls, error: PluginError) -> "PluginIncident":
        """Return the incident for a plugin's error, with its traceback."""
        cause = error.__cause__ or error
        return cls(error.plugin, error.point, "error", str(error), "".join(traceback.format_exception(cause)))


class CallPolicy:
    """Makes the calls of guarded plugins and records incidents. This one calls directly, without a deadline."""

    waits: ClassVar[bool] = False
    """Whether calls may wait for something other than this thread."""

    def __init__(self) -> None:
        self.noted: deque[PluginIncident] = deque(maxlen=_KEPT)
        """Incidents that `take` returns next."""

    def call(self, plugin: Plugin, point: str, function: Callable[[], R], *, in_cycle: bool) -> R:
        """Call the function and return its result. `in_cycle`: only an attempt waits for it."""
        return function()

    def back(self, function: Callable[[], R]) -> R:
        """Run a function for a plugin's call in the thread that made the call."""
        return function()

    def interrupted(self, error: BaseException) -> bool:
        """Return whether an error from `call` is a user's interrupt, not the plugin's."""
        return is_ctrl_c(error)

    def report(self, trouble: PluginIncident) -> None:
        """Record an incident; the last 1000 are kept until `take`."""
        self.noted.append(trouble)

    def take(self) -> list[PluginIncident]:
        """Return the incidents since the last call."""
        incidents: list[PluginIncident] = []
        while self.noted:
            incidents.append(self.noted.popleft())
        return incidents


def is_in_tree(plugin: Plugin) -> bool:
    """Return whether the plugin is part of the product."""
    return type(plugin).__module__.startswith("reprieve.")


def contained(plugin: Plugin, watch: CallPolicy) -> Plugin:
    """Return the plugin behind a guard, or the plugin itself if it is in-tree or guarded already.

    Raises PluginError if its `events` raises.
    """
    if isinstance(plugin, PluginGuard) or is_in_tree(plugin):
        return plugin
    parts = tuple(guard for point, guard in _GUARDS.items() if isinstance(plugin, point)) or (PluginGuard,)
    shown = {name: getattr(plugin, name) for name in _SHOWN if hasattr(plugin, name)}
    kind = type(f"Guarded{type(plugin).__name__}", parts, {**shown, "blocking": watch.waits or plugin.blocking})
    return cast(Plugin, kind(plugin, watch))


def unguarded(plugin: Plugin) -> Plugin:
    """Return the plugin without its guard."""
    return plugin.inner if isinstance(plugin, PluginGuard) else plugin


def first_of(kind: type[P], plugins: Iterable[Plugin]) -> P | None:
    """Return the first plugin of a class, without its guard; None if there is none."""
    return next((plugin for plugin in map(unguarded, plugins) if isinstance(plugin, kind)), None)


_SHOWN = (
    "name",
    "scope",
    "incremental",
    "by_nodes",
    "normalizes",
    "concerns_group",
    "text",
    "measure",
    "timeless",
    "by_terms",
    "by_itself",
    "by_gang",
)
"""Attributes of a plugin that callers read."""


class PluginGuard(Plugin):
    """Forwards calls to `inner`; see the module docstring."""

    def __init__(self, inner: Plugin, watch: CallPolicy) -> None:
        self.inner: Any = inner
        self.watch = watch
        self._hints = self._checked_events()

    def _ask(self, point: str, function: Callable[[], R], *, in_cycle: bool = True) -> R:
        try:
            return self.watch.call(self, point, function, in_cycle=in_cycle)
        except (PluginError, PlacementError):
            raise
        except BaseException as error:
            if self.watch.interrupted(error):
                raise
            raise PluginError(self.name, point, error) from error

    def _wrong(self, point: str, wanted: str, value: object) -> PluginError:
        return PluginError(self.name, point, TypeError(f"expected {wanted}, found {_described(value)}"))

    def _want(self, point: str, kind: type[R], function: Callable[[], Any], *, in_cycle: bool = True) -> R:
        answer = self._ask(point, function, in_cycle=in_cycle)
        if not isinstance(answer, kind):
            raise self._wrong(point, f"a {kind.__name__}", answer)
        return answer

    def _hashable(self, point: str, function: Callable[[], Any]) -> Hashable | None:
        answer: Hashable | None = self._ask(point, function)
        try:
            hash(answer)
        except TypeError:
            raise self._wrong(point, "something hashable, or None", answer) from None
        return answer

    def _outcome(self, point: str, function: Callable[[], Any]) -> PostFilterResult:
        """Return the result of a PostFilter with copies of its nominations and victims."""

        def copied() -> Any:
            result = function()
            if not isinstance(result, PostFilterResult):
                return result
            if not isinstance(result.nominations, Mapping):
                raise TypeError(
                    f"expected nominations as a mapping of pod to node, found {_described(result.nominations)}"
                )
            if isinstance(result.victims, str) or not isinstance(result.victims, Sequence):
                raise TypeError(f"expected victims as a sequence of pods, found {_described(result.victims)}")
            nominations, victims = dict(result.nominations), tuple(result.victims)
            for item in (*nominations, *nominations.values(), *victims):
                if type(item) is not str:
                    raise TypeError(f"expected names of pods and nodes as text, found {_described(item)}")
            return replace(result, nominations=nominations, victims=victims)

        return self._want(point, PostFilterResult, copied)

    def _instructions(self, point: str, function: Callable[[], Any], *, in_cycle: bool = True) -> Sequence[Instruction]:
        items = self._ask(point, function, in_cycle=in_cycle)
        if not isinstance(items, Sequence) or not all(isinstance(item, get_args(Instruction)) for item in items):
            raise self._wrong(point, "a sequence of instructions", items)
        return [self._held(point, item) for item in items]

    def _held(self, point: str, instruction: Instruction) -> Instruction:
        """Return an instruction with callbacks that are guarded when the driver calls them."""
        if isinstance(instruction, AwaitObject):
            done = instruction.done
            return replace(instruction, done=lambda current: self._answer(point, Status, lambda: done(current)))
        if isinstance(instruction, PatchObject) and instruction.again is not None:
            again = instruction.again
            return replace(instruction, again=lambda current: self._answer(point, bool, lambda: again(current)))
        return instruction

    def _answer(self, point: str, kind: type[R], function: Callable[[], Any]) -> R:
        """Call a function directly, outside of the cycle: the driver may call it while a cycle runs."""
        try:
            answer = function()
        except BaseException as error:
            if is_ctrl_c(error):
                raise
            raise PluginError(self.name, point, error) from error
        if not isinstance(answer, kind):
            raise self._wrong(point, f"a {kind.__name__}", answer)
        return answer

    def _note(self, error: PluginError) -> None:
        self.watch.report(PluginIncident.of(error))

    def _checked_events(self) -> Hints:
        hints = self._ask("EventsToRegister", self.inner.events)
        valid = isinstance(hints, Mapping) and all(isinstance(kind, EventKind) for kind in hints)
        if not valid or not all(callable(hint) for hint in hints.values()):
            raise self._wrong("EventsToRegister", "a mapping of EventKind to hints", hints)
        return {kind: hint if hint is always else self._hint(hint) for kind, hint in hints.items()}

    def _hint(self, hint: Hint) -> Hint:
        def guarded_hint(cluster: ClusterState, pod: PodRecord, event: ClusterEvent) -> bool:
            try:
                return bool(self._ask("QueueingHint", lambda: hint(cluster, pod, event), in_cycle=False))
            except PluginError as error:
                self._note(error)
                return True  # as upstream: an extra attempt is better than a lost wake-up

        return guarded_hint

    def events(self) -> Hints:
        """Return the hints of `Plugin.events`, which was called once."""
        return self._hints


class _PreEnqueue(PluginGuard, PreEnqueuePlugin):
    def pre_enqueue(self, cluster: ClusterState, pod: PodRecord) -> Status:
        """Gate the pod after an error; the queue calls the plugin again later."""
        try:
            return self._want("PreEnqueue", Status, lambda: self.inner.pre_enqueue(cluster, pod), in_cycle=False)
        except PluginError as error:
            self._note(error)
            return Status(Code.ERROR, str(error), self.name)


class _QueueSort(PluginGuard, QueueSortPlugin):
    def sort_key(self, priority: int, timestamp: float, key: str) -> tuple[float, ...]:
        """Return the key of PrioritySort after an error."""
        try:
            keys = self._ask("QueueSort", lambda: self.inner.sort_key(priority, timestamp, key), in_cycle=False)
            # A NaN is not equal to itself and would spoil the heap.
            numbers = isinstance(keys, tuple) and all(isinstance(x, int | float) and x == x for x in keys)
            if not numbers:
                raise self._wrong("QueueSort", "a tuple of numbers", keys)
            return cast(tuple[float, ...], keys)
        except PluginError as error:
            self._note(error)
            return (float(-priority), timestamp)


class _Filter(PluginGuard, FilterPlugin):
    def pre_filter(self, state: CycleState) -> Status:
        return self._want("PreFilter", Status, lambda: self.inner.pre_filter(state))

    def concerns(self, state: CycleState) -> bool:
        return self._want("PreFilter", bool, lambda: self.inner.concerns(state))

    def local(self, state: CycleState) -> bool:
        return self._want("PreFilter", bool, lambda: self.inner.local(state))

    def likeness(self, state: CycleState) -> Hashable:
        return self._hashable("PreFilter", lambda: self.inner.likeness(state))

    def narrowed(self, state: CycleState) -> Mask | None:
        mask = self._ask("PreFilter", lambda: self.inner.narrowed(state))
        count = len(state.cluster.nodes)
        if mask is not None and not _is_array(mask, "b", count):
            raise self._wrong("PreFilter", f"bool[{count}] or None", mask)
        return cast(Mask | None, mask)

    def add_pod(self, state: CycleState, pod: PodRecord, row: int) -> bool:
        return self._want("AddPod", bool, lambda: self.inner.add_pod(state, pod, row))

    def remove_pod(self, state: CycleState, pod: PodRecord, row: int) -> bool:
        return self._want("RemovePod", bool, lambda: self.inner.remove_pod(state, pod, row))

    def incremental_filter(self, states: Sequence[CycleState], rows: Sequence[int]) -> IncrementalFilter | None:
        """Return None: the guard could not check the calls of such a filter. The plugin gets single calls instead."""
        return None

    def filter(self, state: CycleState, rows: Rows) -> Codes:
        codes = self._ask("Filter", lambda: self.inner.filter(state, rows))
        count = row_count(state.cluster, rows)
        if not _is_array(codes, "iu", count) or (count and (codes.min() < 0 or codes.max() > UNRESOLVABLE)):
            raise self._wrong("Filter", f"int8[{count}] of 0, 1 or 2", codes)
        return cast(Codes, codes.astype(np.int8, copy=False))

    def fits(self, state: CycleState, rows: Rows) -> Mask:
        mask = self._ask("Filter", lambda: self.inner.fits(state, rows))
        count = row_count(state.cluster, rows)
        if not _is_array(mask, "b", count):
            raise self._wrong("Filter", f"bool[{count}]", mask)
        return cast(Mask, mask)

    def reasons(self, state: CycleState, rows: Rows) -> list[tuple[str, Mask]]:
        reasons = self._ask("Filter", lambda: self.inner.reasons(state, rows))
        count = row_count(state.cluster, rows)
        pairs = isinstance(reasons, Sequence) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in reasons)
        if not pairs or not all(isinstance(text, str) and _is_array(mask, "b", count) for text, mask in reasons):
            raise self._wrong("Filter", f"a list of reasons, each with bool[{count}]", reasons)
        return list(reasons)


class _PostFilter(PluginGuard, PostFilterPlugin):
    def post_filter(self, state: CycleState, diagnosis: Diagnosis) -> PostFilterResult:
        return self._outcome("PostFilter", lambda: self.inner.post_filter(state, diagnosis))


class _PodGroupPostFilter(PluginGuard, PodGroupPostFilterPlugin):
    def pod_group_post_filter(self, attempt: PodGroupAttempt) -> PostFilterResult:
        handed = _HandedAttempt(attempt, self.watch)
        call = self.inner.pod_group_post_filter
        return self._outcome("PodGroupPostFilter", lambda: call(handed))


class _HandedAttempt(PodGroupAttempt):
    """The attempt that a guarded plugin gets: the algorithm runs in the thread that may change the cluster cache."""

    def __init__(self, attempt: PodGroupAttempt, watch: CallPolicy) -> None:
        self.cluster, self.group, self.pods = attempt.cluster, attempt.group, attempt.pods
        self.placements, self.preemption_under_way = attempt.placements, attempt.preemption_under_way
        self.constrained_below, self.overtaken = attempt.constrained_below, attempt.overtaken
        self._attempt = attempt
        self._watch = watch

    def run(
        self,
        ties: TieBreaker | None = None,
        within: Placement | None = None,
        *,
        diagnose: bool = False,
        chosen: Mapping[str, Placement] | None = None,
    ) -> PodGroupAssignment:
        return self._watch.back(lambda: self._attempt.run(ties, within, diagnose=diagnose, chosen=chosen))

    def choices_below(self, within: Placement | None) -> Sequence[tuple[Group, Sequence[Placement]]]:
        return self._watch.back(lambda: self._attempt.choices_below(within))

    def hopeful(self) -> Sequence[Placement]:
        return self._watch.back(self._attempt.hopeful)

    def placement_scores(self, candidates: Any) -> Sequence[int]:
        return self._watch.back(lambda: self._attempt.placement_scores(candidates))

    @property
    def placed_without_help(self) -> int:
        return self._attempt.placed_without_help

    @property
    def nominated_rows(self) -> Sequence[int]:
        return self._attempt.nominated_rows


class _Score(PluginGuard, ScorePlugin):
    def pre_score(self, state: CycleState) -> bool:
        return self._want("PreScore", bool, lambda: self.inner.pre_score(state))

    def score(self, state: CycleState, rows: Rows) -> Scores:
        raw = self._ask("Score", lambda: self.inner.score(state, rows))
        scores = self._scores("Score", raw, row_count(state.cluster, rows))
        if not self.normalizes:
            self._in_range("Score", scores, lambda index: _name(state, row_numbers(state.cluster, rows)[index]))
        return scores

    def normalize(self, state: CycleState, scores: Scores) -> Scores:
        normalized = self._ask("NormalizeScore", lambda: self.inner.normalize(state, scores))
        normal = self._scores("NormalizeScore", normalized, len(scores))
        self._in_range("NormalizeScore", normal, lambda index: f"feasible node {index}")
        return normal

    def _scores(self, point: str, scores: object, count: int) -> Scores:
        if not _is_array(scores, "iu", count):
            raise self._wrong(point, f"int64[{count}]", scores)
        return cast(Scores, cast("npt.NDArray[np.int64]", scores).astype(np.int64, copy=False))

    def _in_range(self, point: str, scores: Scores, name: Callable[[int], str]) -> None:
        bad = np.flatnonzero((scores < 0) | (scores > MAX_NODE_SCORE))
        if len(bad):
            index = int(bad[0])
            text = f"returns an invalid score {scores[index]} for {name(index)}, expected 0 to {MAX_NODE_SCORE}"
            raise PluginError(self.name, point, ValueError(text))


class _Reserve(PluginGuard, ReservePlugin):
    def reserve(self, state: CycleState, row: int) -> Status:
        return self._want("Reserve", Status, lambda: self.inner.reserve(state, row))

    def unreserve(self, state: CycleState, row: int) -> None:
        self._ask("Unreserve", lambda: self.inner.unreserve(state, row), in_cycle=False)

    def give_up(self, state: CycleState, row: int) -> Sequence[Instruction]:
        return self._instructions("Unreserve", lambda: self.inner.give_up(state, row), in_cycle=False)


class _Permit(PluginGuard, PermitPlugin):
    def permit(self, state: CycleState, row: int) -> Status:
        return self._want("Permit", Status, lambda: self.inner.permit(state, row))


class _PreBind(PluginGuard, PreBindPlugin):
    def pre_bind(self, state: CycleState, row: int) -> Sequence[Instruction]:
        return self._instructions("PreBind", lambda: self.inner.pre_bind(state, row))


class _Bind(PluginGuard, BindPlugin):
    def bind(self, state: CycleState, row: int) -> object | None:
        instruction = self._ask("Bind", lambda: self.inner.bind(state, row))
        if instruction is None:
            return None
        if not isinstance(instruction, get_args(Instruction)):
            raise self._wrong("Bind", "an instruction or None", instruction)
        return self._held("Bind", cast(Instruction, instruction))


class _PostBind(PluginGuard, PostBindPlugin):
    def post_bind(self, state: CycleState, row: int) -> None:
        self._ask("PostBind", lambda: self.inner.post_bind(state, row), in_cycle=False)


class _PlacementGenerate(PluginGuard, PlacementGeneratePlugin):
    def generate(self, cluster: ClusterState, group: Group) -> Sequence[Placement] | None:
        return self._placements(cluster, lambda: self.inner.generate(cluster, group))

    def generate_below(self, cluster: ClusterState, group: Group, within: Placement) -> Sequence[Placement] | None:
        if type(self.inner).generate_below is PlacementGeneratePlugin.generate_below:
            return super().generate_below(cluster, group, within)
        return self._placements(cluster, lambda: self.inner.generate_below(cluster, group, within))

    def _placements(self, cluster: ClusterState, function: Callable[[], Any]) -> Sequence[Placement] | None:
        result: Sequence[Placement] | None = self._ask("PlacementGenerate", function)
        if result is None:
            return None
        if not isinstance(result, Sequence) or not all(_is_placement(item, cluster) for item in result):
            raise self._wrong("PlacementGenerate", "placements of live rows, or None", result)
        return result


class _PlacementScore(PluginGuard, PlacementScorePlugin):
    def score_placement(self, cluster: ClusterState, group: Group, placement: Placement, assigned: Assigned) -> int:
        call = self.inner.score_placement
        return self._want("PlacementScore", int, lambda: call(cluster, group, placement, assigned))

    def normalize_placements(self, scores: Sequence[int]) -> Sequence[int]:
        normalized = self._ask("NormalizePlacementScore", lambda: self.inner.normalize_placements(scores))
        numbers = isinstance(normalized, Sequence) and len(normalized) == len(scores)
        if not numbers or not all(isinstance(item, int) and 0 <= item <= MAX_NODE_SCORE for item in normalized):
            raise self._wrong("NormalizePlacementScore", f"{len(scores)} numbers of 0 to {MAX_NODE_SCORE}", normalized)
        return cast(Sequence[int], normalized)


class _PlacementFeasible(PluginGuard, PlacementFeasiblePlugin):
    def feasible(self, group: Group, *, scheduled: int, remaining: int) -> Status:
        call = self.inner.feasible
        return self._want("PlacementFeasible", Status, lambda: call(group, scheduled=scheduled, remaining=remaining))


class _Sign(PluginGuard, SignPlugin):
    def sign(self, pod: PodRecord) -> bytes | None:
        result = self._ask("Sign", lambda: self.inner.sign(pod))
        if result is not None and not isinstance(result, bytes):
            raise self._wrong("Sign", "bytes or None", result)
        return result


class _PreemptionCost(PluginGuard, PreemptionCost):
    def of_units(self, units: EvictionUnits) -> Costs:
        costs = self._ask("PreemptionCost", lambda: self.inner.of_units(units))
        if not _is_array(costs, "fiub", len(units)):
            raise self._wrong("PreemptionCost", f"a number for each of {len(units)} units", costs)
        result: Costs = costs.astype(np.float64)
        if not np.isfinite(result).all():
            raise self._wrong("PreemptionCost", "finite numbers", costs)
        return result

    def total(self, victims: EvictionUnits) -> float:
        if self.additive:
            return float(self.of_units(victims).sum())
        total = self._ask("PreemptionCost", lambda: self.inner.total(victims))
        if not isinstance(total, int | float | np.number) or not np.isfinite(float(total)):
            raise self._wrong("PreemptionCost", "a finite number", total)
        return float(total)

    def beyond_the_node(self, cluster: ClusterState) -> Hashable | None:
        return self._hashable("PreemptionCost", lambda: self.inner.beyond_the_node(cluster))

    @property
    def additive(self) -> bool:
        return bool(self.inner.additive)


_GUARDS: dict[type[Plugin], type[PluginGuard]] = {
    PreEnqueuePlugin: _PreEnqueue,
    QueueSortPlugin: _QueueSort,
    FilterPlugin: _Filter,
    PostFilterPlugin: _PostFilter,
    PodGroupPostFilterPlugin: _PodGroupPostFilter,
    ScorePlugin: _Score,
    ReservePlugin: _Reserve,
    PermitPlugin: _Permit,
    PreBindPlugin: _PreBind,
    BindPlugin: _Bind,
    PostBindPlugin: _PostBind,
    PlacementGeneratePlugin: _PlacementGenerate,
    PlacementScorePlugin: _PlacementScore,
    PlacementFeasiblePlugin: _PlacementFeasible,
    SignPlugin: _Sign,
    PreemptionCost: _PreemptionCost,
}


def _is_array(value: object, kinds: str, count: int) -> bool:
    """Return whether the value is a one-dimensional array of that length with a dtype of these numpy kinds."""
    return isinstance(value, np.ndarray) and value.dtype.kind in kinds and value.shape == (count,)


def _is_placement(value: object, cluster: ClusterState) -> bool:
    if not isinstance(value, Placement) or not isinstance(value.rows, np.ndarray):
        return False
    rows, nodes = value.rows, cluster.nodes
    if rows.dtype.kind not in "iu" or rows.ndim != 1 or not len(rows):
        return False
    in_bounds = rows[0] >= 0 and rows[-1] < len(nodes) and bool((rows[1:] > rows[:-1]).all())
    return bool(in_bounds and nodes.alive[rows].all())


def _described(value: object) -> str:
    if isinstance(value, np.ndarray):
        text = f"{value.dtype}[{', '.join(str(size) for size in value.shape)}]"
        if value.size and value.dtype.kind in "iu":
            text += f" from {value.min()} to {value.max()}"
        return text
    try:
        return f"{type(value).__name__} {value!r}"[:200]
    except Exception as error:
        return f"{type(value).__name__} (its repr raises {type(error).__name__})"


def _name(state: CycleState, row: int) -> str:
    return f"node {state.cluster.nodes.names[row]!r}"
