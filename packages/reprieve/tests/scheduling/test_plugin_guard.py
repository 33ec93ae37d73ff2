"""An external plugin fails an attempt, never the scheduler (scheduling.md 5)."""

from __future__ import annotations

import asyncio
import inspect
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import reprieve as r
from reprieve.framework import plugin_guard
from reprieve.framework.plugin_guard import CallPolicy, PluginGuard, contained, unguarded
from reprieve.framework.preemption_cost import PreemptionCost
from reprieve.framework.profile import Profile
from reprieve.framework.status import PluginError
from reprieve.live.watchdog import Watchdog
from reprieve.queueing.entity import QueueState
from reprieve.scheduling.decision import SCHEDULER_ERROR
from reprieve.scheduling.profiles import default_profile
from tests.building import World, gang, node, pod
from tests.scheduling.third_party_plugins import Vectorised, behaving
from tests.waiting import DEADLINE


def profile(plugin: r.Plugin, watch: CallPolicy | None = None, name: str = "default-scheduler") -> Profile:
    base = default_profile(r.FeatureGates())
    weights = {**base.score_weights, plugin.name: 1}
    return Profile(name, [plugin, *base.plugins], weights, watch=watch or CallPolicy())


def world(plugin: r.Plugin, *more: Any, watch: CallPolicy | None = None) -> World:
    chosen = profile(plugin, watch)
    return World(node("n1", cpu=4), node("n2", cpu=4), *more, profiles={chosen.name: chosen})


def unhurried() -> Watchdog:
    """Calls in threads, none of them noted as slow: the report of a call is what the plugin did."""
    return Watchdog(limit=DEADLINE, budget=DEADLINE)


def raises(*_args: Any, **_kwargs: Any) -> Any:
    raise ZeroDivisionError("by design")


def exits(*_args: Any, **_kwargs: Any) -> Any:
    sys.exit("by design")


def gives(value: Any) -> Callable[..., Any]:
    return lambda *_args, **_kwargs: value


FITS_NOWHERE = gang("g", 2, cpu=4)[:1] + gang("g", 2, cpu=5)[1:]
TOPOLOGY: dict[str, Any] = {}

ATTEMPT: dict[str, tuple[str, str, Callable[..., Any], list[Any], str]] = {
    # what: (method, point, does, objects, expected)
    "pre_filter raises": ("pre_filter", "PreFilter", raises, [pod("p")], "ZeroDivisionError: by design"),
    "filter raises": ("filter", "Filter", raises, [pod("p")], "ZeroDivisionError: by design"),
    "filter ends the process": ("filter", "Filter", exits, [pod("p")], "SystemExit: by design"),
    "filter gives nothing": ("filter", "Filter", gives(None), [pod("p")], "expected bool"),
    "fits has the wrong shape": (
        "fits",
        "Filter",
        gives(np.ones(7, dtype=bool)),
        [pod("p")],
        "found bool[7]",
    ),
    "filter answers in floats": ("fits", "Filter", gives(np.ones(2)), [pod("p")], "found float64[2]"),
    "pre_filter gives no status": (
        "pre_filter",
        "PreFilter",
        gives(True),
        [pod("p")],
        "expected a Status, found bool True",
    ),
    "pre_score raises": ("pre_score", "PreScore", raises, [pod("p")], "ZeroDivisionError"),
    "score raises": ("score", "Score", raises, [pod("p")], "ZeroDivisionError"),
    "score has the wrong shape": (
        "score",
        "Score",
        gives(np.zeros(3, dtype=np.int64)),
        [pod("p")],
        "expected int64[2], found int64[3] from 0 to 0",
    ),
    "score in floats": ("score", "Score", gives(np.zeros(2)), [pod("p")], "expected int64[2], found float64[2]"),
    "score out of range": (
        "score",
        "Score",
        gives(np.array([5, 101])),
        [pod("p")],
        "returns an invalid score 101 for node 'n2', expected 0 to 100",
    ),
    "sign raises": ("sign", "Sign", raises, [pod("p")], "ZeroDivisionError"),
    "sign gives text": ("sign", "Sign", gives("x"), [pod("p")], "expected bytes or None, found str 'x'"),
    "post_filter raises": ("post_filter", "PostFilter", raises, [pod("p", cpu=9)], "ZeroDivisionError"),
    "post_filter gives nothing": ("post_filter", "PostFilter", gives(None), [pod("p", cpu=9)], "PostFilterResult"),
    "reserve raises": ("reserve", "Reserve", raises, [pod("p")], "ZeroDivisionError"),
    "reserve gives nothing": ("reserve", "Reserve", gives(None), [pod("p")], "expected a Status, found NoneType None"),
    "permit raises": ("permit", "Permit", raises, [pod("p")], "ZeroDivisionError"),
    "pre_bind raises": ("pre_bind", "PreBind", raises, [pod("p")], "ZeroDivisionError"),
    "pre_bind gives text": ("pre_bind", "PreBind", gives(["x"]), [pod("p")], "expected a sequence of instructions"),
    "bind raises": ("bind", "Bind", raises, [pod("p")], "ZeroDivisionError"),
    "bind gives text": ("bind", "Bind", gives("x"), [pod("p")], "expected an instruction or None, found str 'x'"),
    "feasible raises": ("feasible", "PlacementFeasible", raises, gang("p", 1), "ZeroDivisionError"),
    "group post filter raises": ("pod_group_post_filter", "PodGroupPostFilter", raises, gang("p", 2, cpu=9), "ZeroDiv"),
    "generate raises": ("generate", "PlacementGenerate", raises, gang("p", 1), "ZeroDivisionError"),
    "generate gives text": (
        "generate",
        "PlacementGenerate",
        gives("x"),
        gang("p", 1),
        "expected placements of live rows",
    ),
    "generate gives rows that are none": (
        "generate",
        "PlacementGenerate",
        gives([r.Placement("x", np.array([0, 7]))]),
        gang("p", 1),
        "expected placements of live rows",
    ),
    "generate gives a row twice": (
        "generate",
        "PlacementGenerate",
        gives([r.Placement("x", np.array([0, 0]))]),
        gang("p", 1),
        "expected placements of live rows",
    ),
    "generate gives rows out of order": (
        "generate",
        "PlacementGenerate",
        gives([r.Placement("x", np.array([1, 0]))]),
        gang("p", 1),
        "expected placements of live rows",
    ),
    "generate gives no rows": (
        "generate",
        "PlacementGenerate",
        gives([r.Placement("x", np.array([], dtype=np.int64))]),
        gang("p", 1),
        "expected placements of live rows",
    ),
    "generate gives a row below the first": (
        "generate",
        "PlacementGenerate",
        gives([r.Placement("x", np.array([-1, 0]))]),
        gang("p", 1),
        "expected placements of live rows",
    ),
    "fits has no verdict for a node": ("fits", "Filter", gives(np.ones(1, dtype=bool)), [pod("p")], "found bool[1]"),
    "filter gives a verdict that is none": (
        "filter",
        "Filter",
        gives(np.array([3, 3], dtype=np.int8)),
        [pod("p")],
        "of 0, 1 or 2",
    ),
}


@pytest.mark.parametrize("guarded_by", [CallPolicy, unhurried], ids=["directly", "in a thread"])
@pytest.mark.parametrize("case", ATTEMPT)
def test_plugin_error_fails_its_attempt_alone(case: str, guarded_by: Callable[[], CallPolicy]) -> None:
    """SchedulerError with the plugin, the point and the reason; the room is given back; a traceback for the log."""
    method, point, does, objects, expected = ATTEMPT[case]
    watch = guarded_by()
    found = world(behaving(method, does), *objects, watch=watch)
    decision = found.step()
    name = decision.rejections[0].pod.name
    assert decision.rejections[0].reason == SCHEDULER_ERROR
    assert f"running {point} plugin 'Everything': " in decision.rejections[0].message
    assert expected in decision.rejections[0].message
    assert found.record(name).row < 0
    assert found.place(name) in (QueueState.BACKOFF, QueueState.UNSCHEDULABLE)
    troubles = found.incidents()
    assert [(t.plugin, t.point, t.kind) for t in troubles] == [("Everything", point, "error")]
    assert "Traceback" in troubles[0].detail or "Error: " in troubles[0].detail
    assert found.incidents() == []
    if isinstance(watch, Watchdog):
        watch.close()


class OwnEnd(BaseException):
    """Of no kind that any caller catches."""


class UnspeakableError(Exception):
    """Cannot even say what it is."""

    def __str__(self) -> str:
        raise ZeroDivisionError("by design")


def endless(*arguments: Any, **named: Any) -> Any:
    return endless(*arguments, **named)


def throws(error: BaseException) -> Callable[..., Any]:
    def thrown(*_args: Any, **_kwargs: Any) -> Any:
        raise error

    return thrown


ENDS_PROGRAMS: dict[str, tuple[Callable[..., Any], str]] = {
    "KeyboardInterrupt": (throws(KeyboardInterrupt("mine")), "KeyboardInterrupt: mine"),
    "SystemExit": (throws(SystemExit(0)), "SystemExit: 0"),
    "GeneratorExit": (throws(GeneratorExit()), "GeneratorExit"),
    "CancelledError": (throws(asyncio.CancelledError()), "CancelledError"),
    "a BaseException of its own": (throws(OwnEnd("x")), "OwnEnd: x"),
    "RecursionError": (endless, "RecursionError: maximum recursion depth exceeded"),
    "MemoryError": (throws(MemoryError()), "MemoryError"),
    "an error without a text": (
        throws(UnspeakableError()),
        "UnspeakableError: (its text cannot be made: ZeroDivisionError)",
    ),
}
POINTS: dict[str, tuple[str, list[Any]]] = {
    "filter": ("Filter", [pod("p")]),
    "score": ("Score", [pod("p")]),
    "post_filter": ("PostFilter", [pod("p", cpu=9)]),
    "reserve": ("Reserve", [pod("p")]),
    "pre_bind": ("PreBind", [pod("p")]),
    "generate": ("PlacementGenerate", gang("p", 1)),
    "pod_group_post_filter": ("PodGroupPostFilter", gang("p", 2, cpu=9)),
}


@pytest.mark.parametrize("guarded_by", [CallPolicy, unhurried], ids=["directly", "in a thread"])
@pytest.mark.parametrize("error", ENDS_PROGRAMS)
@pytest.mark.parametrize("method", POINTS)
def test_plugin_that_exits_ends_its_attempt(method: str, error: str, guarded_by: Callable[[], CallPolicy]) -> None:
    """scheduling.md 5: whatever it raises, also what `except Exception` lets through."""
    does, expected = ENDS_PROGRAMS[error]
    point, objects = POINTS[method]
    watch = guarded_by()
    found = world(behaving(method, does), *objects, watch=watch)
    message = found.step().rejections[0].message
    assert f"running {point} plugin 'Everything': {expected}" in message
    assert [(t.point, t.kind) for t in found.incidents()] == [(point, "error")]
    if isinstance(watch, Watchdog):
        watch.close()


@pytest.mark.parametrize("error", ENDS_PROGRAMS)
@pytest.mark.parametrize("method", ["pre_enqueue", "unreserve", "post_bind"])
def test_plugin_that_exits_is_reported_where_no_attempt_fails(method: str, error: str) -> None:
    does, expected = ENDS_PROGRAMS[error]
    found = world(behaving(method, does), pod("p"))
    if method in ("unreserve", "post_bind"):
        found.step()
        engine = found.engine
        found.virtual.keep_effects(
            engine.fail_binding("uid-p", found.now) if method == "unreserve" else engine.confirm_binding("uid-p")
        )
    assert any(expected in trouble.text for trouble in found.incidents())


@pytest.mark.parametrize("error", ENDS_PROGRAMS)
def test_plugin_instruction_that_raises_is_contained(error: str) -> None:
    """`AwaitObject.done` and `PatchObject.again` are asked by the event loop, which must not end by them."""
    does, expected = ENDS_PROGRAMS[error]
    waits = r.AwaitObject("PersistentVolumeClaim", "default", "c", does, 1.0)
    patches = r.PatchObject("PersistentVolumeClaim", "default", "c", {}, again=does)
    found = world(behaving("pre_bind", gives([waits, patches])), pod("p"))
    [binding] = found.step().bindings
    awaited, patched = binding.pre_bind
    assert isinstance(awaited, r.AwaitObject)
    assert isinstance(patched, r.PatchObject)
    assert patched.again is not None
    questions: tuple[Any, Any] = (awaited.done, patched.again)
    for question in questions:
        with pytest.raises(PluginError) as failed:
            question({})
        assert f"running PreBind plugin 'Everything': {expected}" in str(failed.value)


@pytest.mark.parametrize("guarded_by", [CallPolicy, unhurried], ids=["directly", "in a thread"])
def test_person_s_ctrl_c_ends_what_a_plugin_does_not(guarded_by: Callable[[], CallPolicy]) -> None:
    """A signal while the plugin's call is waited for: it is no plugin's error."""

    def interrupted(*_args: Any, **_kwargs: Any) -> Any:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        threading.Event().wait(20)

    watch = guarded_by()
    found = world(behaving("filter", interrupted), pod("p"), watch=watch)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in what a shell runs in the background
    try:
        with pytest.raises(KeyboardInterrupt):
            found.step()
    finally:
        signal.signal(signal.SIGINT, before)


def test_ctrl_c_is_recognized_in_a_python_handler_too() -> None:
    def handler(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    def interrupted(*_args: Any, **_kwargs: Any) -> Any:
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            world(behaving("filter", interrupted), pod("p")).step()
    finally:
        signal.signal(signal.SIGINT, before)


def test_traceback_leads_to_the_line_in_the_plugin() -> None:
    found = world(behaving("filter", raises), pod("p"))
    found.step()
    [trouble] = found.incidents()
    assert 'raise ZeroDivisionError("by design")' in trouble.detail


def test_normalized_scores_are_checked_after_normalizing() -> None:
    """Upstream checks the range after NormalizeScore; raw scores may be anything."""
    raw = np.array([-7, 10**6])
    good = behaving(
        "normalize", gives(np.array([0, 100])), score=lambda *_: raw, normalizes=True, scope=r.Scope.CLUSTER
    )
    assert world(good, pod("p")).settle().where == {"p": "n2"}
    bad = behaving("normalize", gives(np.array([0, 900])), score=lambda *_: raw, normalizes=True)
    assert "invalid score 900" in world(bad, pod("p")).step().rejections[0].message
    short = behaving("normalize", gives(np.array([0])), score=lambda *_: raw, normalizes=True)
    assert "expected int64[2], found int64[1]" in world(short, pod("p")).step().rejections[0].message


@pytest.mark.parametrize(
    "does", [raises, gives("yes"), gives((float("nan"),)), *(does for does, _ in ENDS_PROGRAMS.values())]
)
def test_queue_sort_that_fails_falls_back_to_priority(does: Callable[..., Any]) -> None:
    """The queue has to have an order; there is no attempt to fail."""

    class Sorts(r.QueueSortPlugin):
        name = "Sorts"

        def sort_key(self, priority: int, timestamp: float, key: str) -> tuple[float, ...]:
            return does()  # type: ignore[no-any-return]

    base = default_profile(r.FeatureGates())
    plugins = [Sorts(), *(p for p in base.plugins if p.name != "PrioritySort")]
    found = World(
        node("n1", cpu=1),
        pod("a", cpu=1),
        pod("b", cpu=1, priority=5),
        profiles={base.name: Profile(base.name, plugins, base.score_weights)},
    ).settle()
    assert found.where == {"b": "n1"}
    assert {t.point for t in found.incidents()} == {"QueueSort"}


def test_pre_enqueue_that_fails_keeps_the_pod_and_is_asked_again() -> None:
    """Not an answer: after the longest backoff it is asked again, though nothing happened."""
    answers = [ZeroDivisionError("by design"), None, r.SUCCESS]

    def asked(*_: object) -> object:
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    found = world(behaving("pre_enqueue", asked), pod("p"))
    assert found.place("p") is QueueState.GATED
    assert "running PreEnqueue plugin 'Everything': ZeroDivisionError" in found.entity("p").gate.reason
    engine = found.engine
    assert engine.queue.next_wakeup() == found.now + 10
    engine.queue.tick(found.now + 9)
    assert found.place("p") is QueueState.GATED
    engine.queue.tick(found.now + 10)
    assert "expected a Status, found NoneType" in found.entity("p").gate.reason
    decision = engine.step(found.now + 20).decision
    assert decision is not None
    assert [b.pod.name for b in decision.bindings] == ["p"]
    assert [t.kind for effects in engine.effects for t in effects.incidents] == ["error", "error"]


@pytest.mark.parametrize("hint", [raises, *(does for does, _ in ENDS_PROGRAMS.values())])
def test_hint_that_fails_wakes_the_pod(hint: Callable[..., Any]) -> None:
    """As upstream: better one attempt too many than a lost wake-up."""
    full = np.full(2, r.UNSCHEDULABLE, dtype=np.int8)
    plugin = behaving(
        "filter",
        lambda state, rows: np.full(r.row_count(state.cluster, rows), r.UNSCHEDULABLE, dtype=np.int8),
        events=lambda self: {r.EventKind.NODE_ADDED: hint},
        reasons=lambda self, state, rows: [("no", np.ones(len(rows), dtype=bool))],
    )
    found = world(plugin, pod("p"))
    found.step()
    assert (len(full), found.place("p")) == (2, QueueState.UNSCHEDULABLE)
    found.add(node("n3"))
    assert found.place("p") in (QueueState.ACTIVE, QueueState.BACKOFF)
    [trouble] = found.incidents()
    assert (trouble.point, trouble.kind) == ("QueueingHint", "error")


@pytest.mark.parametrize("method", ["unreserve", "post_bind"])
def test_where_nothing_can_fail_it_is_noted(method: str) -> None:
    """Unreserve and PostBind change no decision."""
    found = world(behaving(method, raises), pod("p"))
    found.step()
    if method == "unreserve":
        effects = found.engine.fail_binding("uid-p", found.now)
        assert found.record("p").row < 0
    else:
        effects = found.engine.confirm_binding("uid-p")
        assert found.record("p").row >= 0
    [trouble] = effects.incidents
    assert (trouble.point.lower(), trouble.kind) == (method.replace("_", ""), "error")


def test_guarded_plugin_writes_what_it_gives_up() -> None:
    """`ReservePlugin.give_up`: asked of third-party plugins as of those in-tree; a wrong answer is noted."""
    back = r.PatchObject("PersistentVolumeClaim", "default", "c", {"metadata": {"annotations": {"a": None}}})
    found = world(behaving("give_up", gives([back])), pod("p"))
    found.step()
    assert found.engine.fail_binding("uid-p", found.now).writes == (back,)
    wrong = world(behaving("give_up", gives("x")), pod("p"))
    wrong.step()
    effects = wrong.engine.fail_binding("uid-p", wrong.now)
    assert effects.writes == ()
    [trouble] = effects.incidents
    assert "expected a sequence of instructions" in trouble.text


def test_every_method_of_every_extension_point_has_its_guard() -> None:
    """A method added to an extension point has to be guarded as well."""
    for point, guard in plugin_guard._GUARDS.items():
        methods = {n for n, m in vars(point).items() if inspect.isfunction(m) and not n.startswith("_")}
        assert methods <= set(vars(guard)), point
    here = {r.Plugin.__module__, PreemptionCost.__module__}
    points = {kind for kind in r.Plugin.__subclasses__() if kind.__module__ in here}
    assert points == set(plugin_guard._GUARDS)


def test_plugins_that_come_with_the_product_are_not_guarded() -> None:
    """They pay nothing."""
    found = profile(Vectorised())
    guarded = [plugin for plugin in found.plugins if isinstance(plugin, PluginGuard)]
    assert [plugin.name for plugin in guarded] == ["Vectorised"]
    assert isinstance(unguarded(guarded[0]), Vectorised)
    assert contained(guarded[0], CallPolicy()) is guarded[0]


@pytest.mark.parametrize(
    ("answer", "accepted"),
    [
        ([0, 100], True),
        ((0, 100), True),
        ([0, 101], False),
        ([-1, 100], False),
        ([50.0, 50], False),
        ([50], False),
        ([50, 50, 50], False),
        (None, False),
        ({0: 1, 1: 2}, False),
    ],
)
def test_scores_of_placements_are_as_many_whole_numbers_as_were_given(answer: Any, accepted: bool) -> None:
    """scheduling.md 5: NormalizePlacementScore answers with 0 to 100 for each."""

    class Judge(r.PlacementScorePlugin):
        name = "Judge"

        def score_placement(self, *_: Any) -> int:
            raise AssertionError

        def normalize_placements(self, scores: Any) -> Any:
            assert scores == [1, 2]
            return answer

    guarded: Any = contained(Judge(), CallPolicy())
    if accepted:
        assert guarded.normalize_placements([1, 2]) == answer
    else:
        with pytest.raises(PluginError, match="2 numbers of 0 to 100"):
            guarded.normalize_placements([1, 2])
