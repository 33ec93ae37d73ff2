"""Which answers of an external plugin are taken, and which calls an attempt waits for (scheduling.md 5.4).

Point by point, without a scheduler around it; what happens to an attempt is in
`packages/reprieve/tests/scheduling/test_plugin_guard.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy as np
import pytest

import reprieve as r
from kube_rules.meta import ObjectRef
from reprieve.framework.plugin_guard import CallPolicy, PluginIncident, contained, is_in_tree, unguarded
from reprieve.framework.preemption_cost import PreemptionCost
from reprieve.framework.status import PluginError
from reprieve.plugins.node_name import NodeName
from tests.building import World, node, pod
from tests.scheduling.third_party_plugins import Vectorised, behaving

R = TypeVar("R")


class Recorder(CallPolicy):
    """Notes which calls were made, and whether an attempt waits for them."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, bool]] = []

    def call(self, plugin: r.Plugin, point: str, function: Callable[[], R], *, in_cycle: bool) -> R:
        self.calls.append((point, in_cycle))
        return function()


@pytest.fixture(scope="module")
def world() -> World:
    """Three nodes, of which the last is gone, and a pod."""
    found = World(node("n1"), node("n2"), node("n3"), pod("p"))
    found.engine.remove(ObjectRef("Node", "n3"), found.now)
    return found


def rows(*numbers: int) -> Any:
    return np.array(numbers, dtype=np.int64)


def guarded(method: str, answer: Any, policy: CallPolicy | None = None, **attributes: Any) -> Any:
    """A plugin at every point that gives one answer, behind its guard; of QueueSort there is one in a profile."""

    def gives(*_args: Any, **_named: Any) -> Any:
        return answer

    if method == "sort_key":
        kind: Any = type("Sorts", (r.QueueSortPlugin,), {"name": "Everything", "__module__": __name__, method: gives})
        return contained(kind(), policy or CallPolicy())
    return contained(behaving(method, gives, **attributes), policy or CallPolicy())


def asked(world: World, guard: Any, method: str) -> Any:
    """The answer of a point as others get it, about the first two nodes."""
    state, two = world.state("p"), slice(0, 2)
    record, cluster = world.record("p"), world.engine.cluster
    group: Any = SimpleNamespace()
    arguments: dict[str, tuple[Any, ...]] = {
        "pre_enqueue": (cluster, record),
        "sort_key": (7, 3.0, "k"),
        "filter": (state, two),
        "fits": (state, two),
        "reasons": (state, two),
        "score": (state, two),
        "normalize": (state, rows(1, 2)),
        "add_pod": (state, record, 0),
        "remove_pod": (state, record, 0),
        "post_filter": (state, None),
        "generate": (cluster, group),
        "score_placement": (cluster, group, None, ()),
        "normalize_placements": ([1, 2],),
        "sign": (record,),
        "reserve": (state, 0),
        "unreserve": (state, 0),
        "give_up": (state, 0),
        "permit": (state, 0),
        "pre_bind": (state, 0),
        "bind": (state, 0),
        "post_bind": (state, 0),
    }
    if method == "feasible":
        return guard.feasible(group, scheduled=1, remaining=1)
    return getattr(guard, method)(*arguments.get(method, (state,)))


def ints(*numbers: int, kind: Any = np.int8) -> Any:
    return np.array(numbers, dtype=kind)


YES, NO = np.array([True, False]), r.Status(r.Code.UNSCHEDULABLE, "no")
PATCH = r.PatchObject("Pod", "default", "p", {})
CREATE = r.CreateObject("Pod", "default", {})
PLACEMENT = r.Placement("x", rows(0, 1))

TAKEN: list[tuple[str, Any]] = [
    ("pre_enqueue", NO),
    ("sort_key", ()),
    ("sort_key", (1, -2.5, float("inf"))),
    ("pre_filter", NO),
    ("concerns", False),
    ("local", True),
    ("narrowed", None),
    ("narrowed", np.array([True, False, True])),
    ("add_pod", False),
    ("remove_pod", True),
    ("filter", ints(0, 2)),
    ("filter", ints(1, 0)),
    ("filter", ints(2, 2)),
    ("filter", ints(0, 1, kind=np.int64)),
    ("filter", ints(0, 1, kind=np.uint8)),
    ("fits", YES),
    ("reasons", []),
    ("reasons", [("a", YES), ("b", ~YES)]),
    ("reasons", (("a", YES),)),
    ("post_filter", r.PostFilterResult(NO)),
    ("pre_score", False),
    ("score", ints(0, 100, kind=np.int64)),
    ("score", ints(100, 0)),
    ("normalize", ints(0, 100, kind=np.uint8)),
    ("reserve", NO),
    ("give_up", []),
    ("permit", r.Status(r.Code.WAIT)),
    ("pre_bind", [PATCH, CREATE]),
    ("pre_bind", ()),
    ("bind", None),
    ("bind", CREATE),
    ("generate", None),
    ("generate", []),
    ("generate", (PLACEMENT,)),
    ("generate", [r.Placement("x", rows(0)), r.Placement("y", rows(1))]),
    ("generate", [r.Placement("x", np.array([0, 1], dtype=np.uint8))]),
    ("score_placement", -5),
    ("normalize_placements", [0, 100]),
    ("normalize_placements", (100, 0)),
    ("feasible", NO),
    ("sign", None),
    ("sign", b"x"),
]


@pytest.mark.parametrize(("method", "answer"), TAKEN)
def test_answers_that_are_taken_are_handed_on(world: World, method: str, answer: Any) -> None:
    """docs/plugins.md, "Extension points"; whole numbers of any width are."""
    found = asked(world, guarded(method, answer), method)
    if isinstance(answer, np.ndarray):
        assert found.tolist() == answer.tolist()
        assert found.dtype in (np.int8, np.int64, np.bool_)
    elif method in ("reasons", "pre_bind", "give_up"):
        assert found == list(answer)
    else:
        assert found == answer


REFUSED: list[tuple[str, Any, str]] = [
    ("pre_filter", None, "expected a Status, found NoneType None"),
    ("concerns", 1, "expected a bool, found int 1"),
    ("local", "yes", "expected a bool"),
    ("narrowed", YES, "expected bool[3] or None, found bool[2]"),
    ("narrowed", ints(0, 1, 1), "expected bool[3] or None, found int8[3] from 0 to 1"),
    ("add_pod", None, "expected a bool"),
    ("remove_pod", 0, "expected a bool"),
    ("filter", ints(0, 3), "expected int8[2] of 0, 1 or 2, found int8[2] from 0 to 3"),
    ("filter", ints(-1, 0), "found int8[2] from -1 to 0"),
    ("filter", ints(0), "found int8[1] from 0 to 0"),
    ("filter", YES, "found bool[2]"),
    ("filter", np.zeros((1, 2), dtype=np.int8), "found int8[1, 2] from 0 to 0"),
    ("filter", [0, 1], "found list [0, 1]"),
    ("fits", ints(0, 1), "expected bool[2], found int8[2] from 0 to 1"),
    ("reasons", {"a": YES}, "expected a list of reasons, each with bool[2]"),
    ("reasons", [("a", YES, 1)], "expected a list of reasons"),
    ("reasons", [["a", YES]], "expected a list of reasons"),
    ("reasons", [("a", YES[:1])], "expected a list of reasons"),
    ("reasons", [(1, YES)], "expected a list of reasons"),
    ("reasons", [("a", YES), ("b", [True, False])], "expected a list of reasons"),
    ("post_filter", NO, "expected a PostFilterResult"),
    ("pre_score", None, "expected a bool"),
    ("score", ints(0, 101), "returns an invalid score 101 for node 'n2', expected 0 to 100"),
    ("score", ints(-1, 101), "returns an invalid score -1 for node 'n1', expected 0 to 100"),
    ("score", ints(1, 2, 3), "expected int64[2], found int8[3] from 1 to 3"),
    ("score", np.zeros(2), "found float64[2]"),
    ("normalize", ints(0, 101), "returns an invalid score 101 for feasible node 1, expected 0 to 100"),
    ("normalize", ints(0), "expected int64[2]"),
    ("reserve", True, "expected a Status"),
    ("give_up", PATCH, "expected a sequence of instructions"),
    ("permit", None, "expected a Status"),
    ("pre_bind", [PATCH, None], "expected a sequence of instructions"),
    ("pre_bind", {}, "expected a sequence of instructions, found dict {}"),
    ("bind", [PATCH], "expected an instruction or None"),
    ("generate", PLACEMENT, "expected placements of live rows, or None"),
    ("generate", [rows(0, 1)], "expected placements of live rows"),
    ("generate", [PLACEMENT, r.Placement("x", [0, 1])], "expected placements of live rows"),  # type: ignore[arg-type]
    ("generate", [r.Placement("x", np.array([0.0, 1.0]))], "expected placements of live rows"),
    ("generate", [r.Placement("x", rows())], "expected placements of live rows"),
    ("generate", [r.Placement("x", rows(-1, 0))], "expected placements of live rows"),
    ("generate", [r.Placement("x", rows(0, 3))], "expected placements of live rows"),
    ("generate", [r.Placement("gone", rows(0, 2))], "expected placements of live rows"),
    ("generate", [r.Placement("x", rows(1, 0))], "expected placements of live rows"),
    ("generate", [r.Placement("x", rows(1, 1))], "expected placements of live rows"),
    ("generate", [r.Placement("x", np.zeros((1, 1), dtype=np.int64))], "expected placements of live rows"),
    ("score_placement", 1.0, "expected a int, found float 1.0"),
    ("feasible", None, "expected a Status"),
    ("sign", "x", "expected bytes or None, found str 'x'"),
    ("sign", bytearray(b"x"), "expected bytes or None"),
]


@pytest.mark.parametrize(("method", "answer", "text"), REFUSED)
def test_answers_that_are_none_are_errors_of_the_plugin(world: World, method: str, answer: Any, text: str) -> None:
    """The error says what was expected and what was found."""
    with pytest.raises(PluginError) as caught:
        asked(world, guarded(method, answer), method)
    assert text in str(caught.value)
    assert caught.value.plugin == "Everything"


def test_scores_that_are_normalized_may_be_anything_before() -> None:
    """0 to 100 is for what comes out in the end."""
    found = World(node("n1"), node("n2"), pod("p"))
    plugin = guarded("score", ints(-7, 5000, kind=np.int64), normalizes=True)
    assert asked(found, plugin, "score").tolist() == [-7, 5000]


CALLS: dict[str, tuple[str, bool, Any]] = {
    # method: (what messages call the point, whether an attempt waits for it, an answer)
    "pre_enqueue": ("PreEnqueue", False, r.SUCCESS),
    "sort_key": ("QueueSort", False, (1,)),
    "pre_filter": ("PreFilter", True, r.SUCCESS),
    "concerns": ("PreFilter", True, True),
    "local": ("PreFilter", True, True),
    "narrowed": ("PreFilter", True, None),
    "add_pod": ("AddPod", True, True),
    "remove_pod": ("RemovePod", True, True),
    "filter": ("Filter", True, ints(0, 0)),
    "fits": ("Filter", True, YES),
    "reasons": ("Filter", True, []),
    "post_filter": ("PostFilter", True, r.PostFilterResult(NO)),
    "pre_score": ("PreScore", True, True),
    "score": ("Score", True, ints(0, 0)),
    "normalize": ("NormalizeScore", True, ints(0, 0)),
    "reserve": ("Reserve", True, r.SUCCESS),
    "unreserve": ("Unreserve", False, None),
    "give_up": ("Unreserve", False, []),
    "permit": ("Permit", True, r.SUCCESS),
    "pre_bind": ("PreBind", True, []),
    "bind": ("Bind", True, None),
    "post_bind": ("PostBind", False, None),
    "generate": ("PlacementGenerate", True, None),
    "score_placement": ("PlacementScore", True, 1),
    "normalize_placements": ("NormalizePlacementScore", True, [1, 2]),
    "feasible": ("PlacementFeasible", True, r.SUCCESS),
    "sign": ("Sign", True, None),
}


@pytest.mark.parametrize("method", CALLS)
def test_attempt_waits_for_what_it_asks(world: World, method: str) -> None:
    """Every attempt waits for queueing hints, QueueSort, PreEnqueue, Unreserve and PostBind: those have less time."""
    point, in_cycle, answer = CALLS[method]
    policy = Recorder()
    plugin = guarded(method, answer, policy)
    assert policy.calls == [("EventsToRegister", True)]
    asked(world, plugin, method)
    assert policy.calls[1:] == [(point, in_cycle)]
    assert policy.take() == []


@pytest.mark.parametrize(("answer", "helps"), [(True, True), (False, False), (1, True), ("", False)])
def test_hint_is_called_through_the_guard(world: World, answer: Any, helps: bool) -> None:
    """Its answer is taken for yes or no; `always` needs no asking."""
    policy = Recorder()
    events = {r.EventKind.NODE_ADDED: lambda *_: answer, r.EventKind.FLUSH: r.always}
    plugin = guarded("sign", None, policy, events=lambda self: events)
    found = plugin.events()
    assert found[r.EventKind.FLUSH] is r.always
    assert plugin.events() is found
    event = r.ClusterEvent(r.EventKind.NODE_ADDED)
    assert found[r.EventKind.NODE_ADDED](world.engine.cluster, world.record("p"), event) is helps
    assert policy.calls == [("EventsToRegister", True), ("QueueingHint", False)]


@pytest.mark.parametrize(
    "events", [None, [r.EventKind.FLUSH], {"FLUSH": r.always}, {r.EventKind.FLUSH: True}, {r.EventKind.FLUSH: None}]
)
def test_hints_are_functions_by_kind_of_event(events: Any) -> None:
    with pytest.raises(PluginError, match=r"EventsToRegister.*expected a mapping of EventKind to hints"):
        guarded("sign", None, events=lambda self: events)


def fails(*_args: Any, **_named: Any) -> Any:
    raise ZeroDivisionError("by design")


@pytest.mark.parametrize("answer", [(float("nan"),), ("a",), [1], None, 3])
def test_order_that_is_none_is_that_of_priorities(world: World, answer: Any) -> None:
    """Higher first, then the earlier; it is noted."""
    policy = Recorder()
    assert asked(world, guarded("sort_key", answer, policy), "sort_key") == (-7.0, 3.0)
    (noted,) = policy.take()
    assert (noted.plugin, noted.point, noted.kind) == ("Everything", "QueueSort", "error")
    assert "expected a tuple of numbers" in noted.text


def test_gate_that_fails_keeps_the_pod_waiting(world: World) -> None:
    policy = Recorder()
    status = asked(world, guarded("pre_enqueue", "no", policy), "pre_enqueue")
    assert (status.code, status.plugin) == (r.Code.ERROR, "Everything")
    assert "expected a Status, found str 'no'" in status.reason
    assert [noted.point for noted in policy.take()] == ["PreEnqueue"]


# -- instructions that ask --------------------------------------------------------------------------------------------


def test_answers_of_the_functions_of_an_instruction_are_checked_when_they_are_called(world: World) -> None:
    """`AwaitObject.done` gives a Status, `PatchObject.again` a bool; other instructions are handed on as they are."""
    answer: list[Any] = [None]
    wait = r.AwaitObject("Pod", "default", "p", lambda _found: answer[0], 5.0)
    patch = r.PatchObject("Pod", "default", "p", {}, again=lambda _found: answer[0])
    held: Any = asked(world, guarded("pre_bind", [wait, patch, PATCH, CREATE]), "pre_bind")
    assert held[2] is PATCH
    assert held[3] is CREATE
    assert (held[0].name, held[0].seconds, held[1]) == ("p", 5.0, patch)
    for answer[0], done, again in ((r.SUCCESS, r.SUCCESS, None), (False, None, False), (True, None, True)):
        for ask, wanted in ((held[0].done, done), (held[1].again, again)):
            if wanted is not None:
                assert ask({}) is wanted
            else:
                with pytest.raises(PluginError, match="running PreBind plugin 'Everything': TypeError: expected a"):
                    ask({})


# -- costs ------------------------------------------------------------------------------------------------------------


def cost(**methods: Any) -> Any:
    """An external criterion, behind its guard."""
    named = {name: lambda self, *_args, given=given: given for name, given in methods.items()}
    kind = type("Mine", (PreemptionCost,), {"name": "Mine", "__module__": __name__, **named})
    return contained(kind(), CallPolicy())


TWO: Any = [None, None]


@pytest.mark.parametrize(
    "answer", [ints(1, 2), np.array([0.5, 2.0]), np.array([True, False]), ints(1, 2, kind=np.uint8)]
)
def test_costs_are_numbers_of_any_kind(answer: Any) -> None:
    """One for each unit; the whole is their sum unless the criterion has a total of its own."""
    found = cost(of_units=answer).of_units(TWO)
    assert found.tolist() == answer.tolist()
    assert found.dtype == np.float64
    assert cost(of_units=answer).total(TWO) == answer.sum()
    assert cost(of_units=answer).additive
    for total in (3, 2.5, np.float64(1.5)):
        assert cost(of_units=answer, total=total).total(TWO) == float(total)
        assert not cost(of_units=answer, total=total).additive


@pytest.mark.parametrize(
    "answer", [ints(1), [1, 2], np.array(["a", "b"]), np.array([1.0, np.nan]), np.array([np.inf, 1])]
)
def test_costs_that_are_none(answer: Any) -> None:
    with pytest.raises(PluginError, match=r"PreemptionCost.*expected (a number for each of 2 units|finite numbers)"):
        cost(of_units=answer).of_units(TWO)


@pytest.mark.parametrize("total", ["3", None, float("inf"), float("nan")])
def test_totals_that_are_none(total: Any) -> None:
    with pytest.raises(PluginError, match="expected a finite number"):
        cost(total=total).total(TWO)


def test_cost_dependencies_are_compared() -> None:
    """Something hashable, or None."""
    assert cost(beyond_the_node=("a", 1)).beyond_the_node(None) == ("a", 1)
    assert cost(beyond_the_node=None).beyond_the_node(None) is None
    with pytest.raises(PluginError, match="expected something hashable, or None"):
        cost(beyond_the_node=["a"]).beyond_the_node(None)


# -- guards themselves ------------------------------------------------------------------------------------------------


def test_builtin_and_guarded_plugins_are_not_guarded_again() -> None:
    own, theirs = NodeName(), Vectorised()
    assert is_in_tree(own)
    assert not is_in_tree(theirs)
    assert contained(own, CallPolicy()) is own
    guard = contained(theirs, CallPolicy())
    assert contained(guard, CallPolicy()) is guard
    assert unguarded(guard) is theirs
    assert unguarded(own) is own
    assert type(guard).__name__ == "GuardedVectorised"


@pytest.mark.parametrize(
    ("waits", "blocking", "said"), [(False, False, False), (True, False, True), (False, True, True), (True, True, True)]
)
def test_guard_may_wait_if_its_plugin_or_its_policy_does(waits: bool, blocking: bool, said: bool) -> None:
    policy: Any = type("Policy", (CallPolicy,), {"waits": waits})()
    assert guarded("sign", None, policy, blocking=blocking).blocking is said
    assert CallPolicy.waits is False


@pytest.mark.parametrize(
    "shown",
    [
        {"scope": r.Scope.STATIC, "incremental": True, "normalizes": True, "concerns_group": True},
        {"scope": r.Scope.NODE, "incremental": False, "normalizes": False, "concerns_group": False},
    ],
)
def test_guard_has_the_points_of_its_plugin(shown: dict[str, Any]) -> None:
    """What others read of it besides calling it; short cuts that would go past the guard are not taken."""
    guard = guarded("sign", None, **shown, by_amounts=True, by_node_constraints=True, outside=True)
    assert {name: getattr(guard, name) for name in shown} == shown
    assert (guard.by_amounts, guard.by_node_constraints, guard.outside) == (False, False, False)
    assert guard.incremental_filter([], []) is None


def test_notes_are_taken_once_in_order() -> None:
    """The last 1000 are kept; an error has its traceback, or its own text."""
    policy = CallPolicy()
    for number in range(1003):
        policy.report(PluginIncident("P", "Filter", "slow", str(number)))
    assert [noted.text for noted in policy.take()] == [str(number) for number in range(3, 1003)]
    assert policy.take() == []
    error = PluginError("P", "Filter", ValueError("no"))
    noted = PluginIncident.of(error)
    assert (noted.plugin, noted.point, noted.kind) == ("P", "Filter", "error")
    assert noted.text == "running Filter plugin 'P': ValueError: no"
    assert noted.detail.endswith("PluginError: running Filter plugin 'P': ValueError: no\n")
    error.__cause__ = ValueError("no")
    assert PluginIncident.of(error).detail == "ValueError: no\n"


class Unspeakable:
    """Cannot be shown."""

    def __repr__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("x" * 300, "found str '" + "x" * 195),
        (Unspeakable(), "found Unspeakable (its repr raises RuntimeError)"),
        (np.zeros(0, dtype=np.int8), "found int8[0]"),
    ],
)
def test_invalid_answer_is_abbreviated_in_the_message(world: World, answer: Any, text: str) -> None:
    with pytest.raises(PluginError) as caught:
        asked(world, guarded("sign", answer), "sign")
    assert str(caught.value).endswith(text)
