"""PostFilter and PodGroupPostFilter: which plugins are called, in which order, and the use of the answer
(scheduling.md 2.1, 3.3, 3.4)."""

from __future__ import annotations

from typing import Any

import pytest

from reprieve.framework.diagnosis import Diagnosis
from reprieve.framework.instructions import DeleteObject
from reprieve.framework.plugin import (
    CycleState,
    PodGroupAttempt,
    PodGroupPostFilterPlugin,
    PostFilterPlugin,
    PostFilterResult,
)
from reprieve.framework.plugin_guard import unguarded
from reprieve.framework.profile import Profile
from reprieve.framework.status import SUCCESS, Code, Status
from reprieve.preemption.outcome import Deferral, DeferralReason, UnhelpfulPreemption, UnhelpfulReason
from reprieve.queueing.entity import QueueState
from reprieve.scheduling.decision import Result
from tests.building import World, gang, group, node, pod, profile_with

BACK = DeleteObject("Thing", "default", "in-the-way")
Answer = PostFilterResult | Exception


def _no(text: str = "", **more: Any) -> PostFilterResult:
    return PostFilterResult(Status(Code.UNSCHEDULABLE, text), **more)


class Says(PostFilterPlugin, PodGroupPostFilterPlugin):
    """Gives prepared answers, for pods and groups, and notes that it was asked."""

    def __init__(self, name: str, calls: list[str], answer: Answer) -> None:
        self.name = name  # type: ignore[misc]
        self.calls = calls
        self.answer = answer

    def _answered(self) -> PostFilterResult:
        self.calls.append(self.name)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def post_filter(self, state: CycleState, diagnosis: Diagnosis) -> PostFilterResult:
        return self._answered()

    def pod_group_post_filter(self, attempt: PodGroupAttempt) -> PostFilterResult:
        return self._answered()


def _profile(calls: list[str], *answers: Answer) -> dict[str, Profile]:
    plugins = [Says(name, calls, answer) for name, answer in zip("ABC", answers, strict=False)]
    profile = profile_with(*plugins, drop=["DefaultPreemption", "DynamicResources"])
    return {profile.name: profile}


@pytest.mark.parametrize(
    ("answers", "asked", "said", "writes"),
    [
        ((), "", "", ()),
        ((_no("a"), _no("b")), "AB", "a, b", ()),
        ((_no(), _no("b"), _no()), "ABC", "b", ()),
        ((_no("a", deferred_writes=(BACK,)), _no("b")), "A", "a", (BACK,)),
        ((_no("a"), _no(deferred_writes=(BACK,)), _no("c")), "AB", "a", (BACK,)),
        ((PostFilterResult(SUCCESS), _no("b")), "A", "", ()),
    ],
)
def test_post_filters_run_in_order_until_one_succeeds_or_defers_writes(
    answers: tuple[Answer, ...], asked: str, said: str, writes: tuple[object, ...]
) -> None:
    """scheduling.md 2.1: their messages are the pod's, one after the other."""
    calls: list[str] = []
    decision = World(node("n", cpu=1), pod("p", cpu=2), profiles=_profile(calls, *answers)).step()
    assert "".join(calls) == asked
    assert decision.result is Result.UNSCHEDULABLE
    (rejection,) = decision.rejections
    assert rejection.message == "0/1 nodes are available: 1 Insufficient cpu." + (f" {said}" if said else "")
    assert decision.deferred_writes == writes


FIRST = "0/1 placements are available, first placement status: pod group is unschedulable"


@pytest.mark.parametrize(
    ("answers", "asked", "said", "writes"),
    [
        ((), "", "", ()),
        ((_no("a"), _no("b")), "AB", ", a, b", ()),
        ((_no(), _no("b")), "AB", ", b", ()),
        ((_no("a", deferred_writes=(BACK,)), _no("b")), "A", ", a", (BACK,)),
        ((_no("a"), PostFilterResult(SUCCESS), _no("c")), "AB", ", a", ()),
    ],
)
def test_same_goes_for_groups(answers: tuple[Answer, ...], asked: str, said: str, writes: tuple[object, ...]) -> None:
    """scheduling.md 3.3: PodGroupPostFilter once for the group, with the message in its condition."""
    calls: list[str] = []
    world = World(node("n", cpu=1), *gang("crew", 2, cpu=1), profiles=_profile(calls, *answers))
    decision = world.step()
    assert "".join(calls) == asked
    assert decision.condition is not None
    assert decision.condition.message == FIRST + said
    assert decision.deferred_writes == writes
    assert world.where == {}


def test_members_with_devices_come_before_the_others() -> None:
    """scheduling.md 3.4: a later attempt that is enough binds; deferred writes end nothing there."""
    calls: list[str] = []
    profiles = _profile(calls, _no("a", deferred_writes=(BACK,)), _no("b"))
    world = World(
        node("n", cpu=2), group("crew", min_count=1), pod("r", cpu=1, node="n", group="crew"), profiles=profiles
    )
    world.add(*(pod(f"p{turn}", cpu=1, group="crew") for turn in range(2)))
    decision = world.step()
    assert calls == ["A", "B"]
    assert [binding.pod.name for binding in decision.bindings] == ["p0"]
    assert decision.deferred_writes == ()
    assert world.place("crew") is QueueState.ACTIVE, "the others are tried again at once"


@pytest.mark.parametrize("clear", [True, False])
@pytest.mark.parametrize("of", ["pod", "group"])
def test_nomination_ends_where_a_plugin_clears_it(clear: bool, of: str) -> None:
    """preemption.md 7: on the first node as on any other; else it stands."""
    crew = [group("crew", min_count=1)] if of == "group" else []
    mine = pod("p", cpu=2, nominated="n", group="crew" if crew else None)
    world = World(node("n", cpu=1), *crew, mine, profiles=_profile([], _no("a", clear_nomination=clear)))
    decision = world.step()
    assert [one.name for one in decision.cleared_nominations] == (["p"] if clear else [])
    assert world.nominated == ({} if clear else {"p": "n"})


@pytest.mark.parametrize("of", ["pod", "group"])
def test_plugin_that_raises_ends_the_attempt_and_its_nominations(of: str) -> None:
    """scheduling.md 5.4: SchedulerError, tried again after its backoff."""
    calls: list[str] = []
    crew = [group("crew", min_count=1)] if of == "group" else []
    mine = pod("p", cpu=2, nominated="n", group="crew" if crew else None)
    world = World(node("n", cpu=1), *crew, mine, profiles=_profile(calls, ValueError("ups"), _no("b")))
    decision = world.step()
    assert calls == ["A"]
    assert decision.result is Result.ERROR
    (rejection,) = decision.rejections
    assert rejection.reason == "SchedulerError"
    assert rejection.message.endswith("plugin 'A': ValueError: ups")
    assert [one.name for one in decision.cleared_nominations] == ["p"]
    assert world.place("p") is QueueState.BACKOFF
    assert len(world.incidents()) == 1
    assert (decision.unhelpful is not None) is (of == "group")
    assert decision.unhelpful is None or decision.unhelpful.why is UnhelpfulReason.ERROR


def test_reason_without_preemption_is_the_answer_of_the_last_plugin_that_has_one() -> None:
    """`Decision.unhelpful`: for explain and the record; a plugin without an answer takes nothing back."""
    world = World(node("n", cpu=1), *gang("crew", 2, cpu=1))
    first = UnhelpfulPreemption(world.engine.cluster.groups["default/crew"], UnhelpfulReason.DOES_NOT_FIT)
    last = UnhelpfulPreemption(world.engine.cluster.groups["default/crew"], UnhelpfulReason.UNDER_WAY)
    profiles = _profile([], _no(unhelpful=first), _no(unhelpful=last), _no("c", unhelpful="nonsense"))
    decision = World(node("n", cpu=1), *gang("crew", 2, cpu=1), profiles=profiles).step()
    assert decision.unhelpful is last
    profiles = _profile([], _no(unhelpful=first), PostFilterResult(SUCCESS))
    assert World(node("n", cpu=1), *gang("crew", 2, cpu=1), profiles=profiles).step().unhelpful is None


@pytest.mark.parametrize("of", ["pod", "group"])
def test_deferred_entity_is_tried_at_the_given_time_without_an_event(of: str) -> None:
    """cost.md 6: no other plugin is asked; what it is nominated to is held meanwhile."""
    calls: list[str] = []
    crew = [group("crew", min_count=1)] if of == "group" else []
    mine = pod("p", cpu=2, group="crew" if crew else None)
    world = World(node("n", cpu=1), *crew, mine, profiles=_profile(calls, _no("a"), _no("b"), _no("c")))
    (_, second, _) = (unguarded(plugin) for plugin in world.engine.running["default-scheduler"].profile.post_filters)
    deferral = Deferral(DeferralReason.COMPLETIONS, "waits", world.now + 50, nominations=((world.record("p"), 0),))
    assert isinstance(second, Says)
    second.answer = _no("b", deferral=deferral)
    decision = world.step()
    assert calls == ["A", "B"]
    assert decision.deferral is deferral
    assert decision.nominations == ((world.record("p"), "n"),)
    assert world.nominated == {"p": "n"}
    assert world.place("p") is QueueState.UNSCHEDULABLE
    assert world.engine.queue.next_wakeup(flush=False) == world.now + 50
    world.engine.tick(world.now + 50)
    assert world.place("p") is QueueState.ACTIVE
