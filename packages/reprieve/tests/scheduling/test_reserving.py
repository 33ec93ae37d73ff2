"""Reserve, Permit, PreBind, Bind and PostBind: what is asked between choosing a node and the binding, and what a no
undoes (scheduling.md 2.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kube_rules.meta import ObjectRef
from reprieve.framework.instructions import DeleteObject, Instruction
from reprieve.framework.plugin import (
    BindPlugin,
    CycleState,
    PermitPlugin,
    PostBindPlugin,
    PreBindPlugin,
    ReservePlugin,
)
from reprieve.framework.status import SUCCESS, Code, Status
from reprieve.plugins.default_binder import ApiBinding
from reprieve.queueing.entity import QueueState
from reprieve.scheduling.assumed_pods import PERMIT_TIMEOUT
from reprieve.scheduling.decision import Result
from reprieve.scheduling.effects import NO_EFFECTS
from tests.building import World, gang, node, pod, profile_with

NO = Status(Code.UNSCHEDULABLE, "not here")
TROUBLE = Status(Code.ERROR, "no connection")
WAIT = Status(Code.WAIT, "in a moment")
Answer = Status | Exception | None


class Speaks(ReservePlugin, PermitPlugin, PreBindPlugin, BindPlugin, PostBindPlugin):
    """Notes what it is asked, and answers what it was given at each point; an exception is raised."""

    name = "Speaks"

    def __init__(self, calls: list[str], name: str = "Speaks", **answers: Any) -> None:
        self.name = name  # type: ignore[misc]
        self.calls = calls
        self.answers = answers

    def _asked(self, point: str, state: CycleState, row: int, default: Any) -> Any:
        assert state.cluster.nodes.names[row] == "n"
        self.calls.append(f"{self.name} {point} {state.pod.name}")
        answer = self.answers.get(point, default)
        answer = answer.get(state.pod.name, default) if isinstance(answer, dict) else answer
        if isinstance(answer, Exception):
            raise answer
        return answer

    def reserve(self, state: CycleState, row: int) -> Status:
        return self._asked("reserve", state, row, SUCCESS)  # type: ignore[no-any-return]

    def unreserve(self, state: CycleState, row: int) -> None:
        self._asked("unreserve", state, row, None)

    def give_up(self, state: CycleState, row: int) -> Sequence[Instruction]:
        return self._asked("give_up", state, row, ())  # type: ignore[no-any-return]

    def permit(self, state: CycleState, row: int) -> Status:
        return self._asked("permit", state, row, SUCCESS)  # type: ignore[no-any-return]

    def pre_bind(self, state: CycleState, row: int) -> Sequence[Instruction]:
        return self._asked("pre_bind", state, row, ())  # type: ignore[no-any-return]

    def bind(self, state: CycleState, row: int) -> object | None:
        return self._asked("bind", state, row, None)  # type: ignore[no-any-return]

    def post_bind(self, state: CycleState, row: int) -> None:
        self._asked("post_bind", state, row, None)


def _world(*plugins: Any, items: Sequence[Any] = (), **more: Any) -> World:
    profile = profile_with(*plugins)
    return World(node("n", cpu=4), *(items or [pod("p", cpu=1)]), profiles={profile.name: profile}, **more)


def _two(calls: list[str], first: dict[str, Any], second: dict[str, Any]) -> list[Any]:
    return [Speaks(calls, "A", **first), Speaks(calls, "B", **second)]


BOTH_RESERVED = ["A reserve p", "B reserve p"]
UNDONE = ["B unreserve p", "A unreserve p"]
PERMITTED = ["A permit p", "B permit p"]
INSTRUCTED = ["A pre_bind p", "B pre_bind p"]


@pytest.mark.parametrize(
    ("first", "second", "calls", "reason", "message"),
    [
        ({"reserve": NO}, {}, ["A reserve p", *UNDONE], "Unschedulable", "not here"),
        ({}, {"reserve": NO}, [*BOTH_RESERVED, *UNDONE], "Unschedulable", "not here"),
        ({}, {"reserve": TROUBLE}, [*BOTH_RESERVED, *UNDONE], "SchedulerError", "no connection"),
        (
            {"reserve": ValueError("ups")},
            {},
            ["A reserve p", *UNDONE],
            "SchedulerError",
            "running Reserve plugin 'A': ValueError: ups",
        ),
        ({"permit": NO}, {}, [*BOTH_RESERVED, "A permit p", *UNDONE], "Unschedulable", "not here"),
        ({"permit": WAIT}, {"permit": NO}, [*BOTH_RESERVED, *PERMITTED, *UNDONE], "Unschedulable", "not here"),
        ({"permit": TROUBLE}, {}, [*BOTH_RESERVED, "A permit p", *UNDONE], "SchedulerError", "no connection"),
        (
            {},
            {"permit": ValueError("ups")},
            [*BOTH_RESERVED, *PERMITTED, *UNDONE],
            "SchedulerError",
            "running Permit plugin 'B': ValueError: ups",
        ),
        (
            {},
            {"pre_bind": ValueError("ups")},
            [*BOTH_RESERVED, *PERMITTED, *INSTRUCTED, *UNDONE],
            "SchedulerError",
            "running PreBind plugin 'B': ValueError: ups",
        ),
        (
            {"bind": ValueError("ups")},
            {},
            [*BOTH_RESERVED, *PERMITTED, *INSTRUCTED, "A bind p", *UNDONE],
            "SchedulerError",
            "running Bind plugin 'A': ValueError: ups",
        ),
        (  # a plugin that cannot even undo its own does not keep the others from theirs
            {"reserve": NO, "unreserve": ValueError("ups")},
            {"unreserve": ValueError("ups")},
            ["A reserve p", *UNDONE],
            "Unschedulable",
            "not here",
        ),
    ],
)
def test_refusal_undoes_every_reserve_in_reverse_order(
    first: dict[str, Any], second: dict[str, Any], calls: list[str], reason: str, message: str
) -> None:
    """scheduling.md 2.1: what fails after the choice undoes it: unreserve, forget, re-queue."""
    made: list[str] = []
    world = _world(*_two(made, first, second))
    decision = world.step()
    assert made == calls
    assert decision.bindings == decision.waiting == ()
    assert [(r.pod.name, r.reason, r.message) for r in decision.rejections] == [("p", reason, message)]
    assert world.where == {}
    complaints = world.incidents()
    raised = sum(isinstance(answer, Exception) for answer in (*first.values(), *second.values()))
    assert len(complaints) == raised
    assert world.place("p") is not QueueState.ACTIVE


ONE, TWO, THREE = (DeleteObject("Thing", "default", name) for name in ("one", "two", "three"))


@pytest.mark.parametrize(
    ("first", "second", "before", "how"),
    [
        ({}, {}, (), ApiBinding("default", "p", "uid-p", "n")),
        ({"pre_bind": [ONE, TWO]}, {"pre_bind": [THREE]}, (ONE, TWO, THREE), ApiBinding("default", "p", "uid-p", "n")),
        ({}, {"bind": TWO}, (), TWO),
        ({"bind": ONE}, {"bind": TWO}, (), ONE),
        ({"pre_bind": [ONE]}, {"bind": TWO}, (ONE,), TWO),
    ],
)
def test_binding_lists_what_is_to_be_done_first_and_how(
    first: dict[str, Any], second: dict[str, Any], before: tuple[Instruction, ...], how: object
) -> None:
    """scheduling.md 5.5: PreBind wants plain data, in the order of the plugins; the first that binds does it."""
    made: list[str] = []
    (binding,) = _world(*_two(made, first, second)).step().bindings
    assert (binding.pre_bind, binding.method, binding.node) == (before, how, "n")
    asked = ["A bind p", "B bind p"][: 1 if "bind" in first else 2]
    assert made == [*BOTH_RESERVED, *PERMITTED, *INSTRUCTED, *asked]


@pytest.mark.parametrize("instructed", [True, False])
def test_without_a_bind_plugin_the_api_binds(instructed: bool) -> None:
    """`Binding.how` None: POST the binding subresource; what is to be done before is not lost."""
    plugin = Speaks([], pre_bind=[ONE] if instructed else ())
    profile = profile_with(plugin, drop=["DefaultBinder"])
    world = World(node("n", cpu=4), pod("p", cpu=1), profiles={profile.name: profile})
    (binding,) = world.step().bindings
    assert (binding.pre_bind, binding.method) == ((ONE,) if instructed else (), None)


def test_group_members_that_are_not_refused_are_bound() -> None:
    """scheduling.md 2.1 for each member: one is bound, one waits, one is refused and queued again."""
    made: list[str] = []
    door = Speaks(made, permit={"crew-1": WAIT, "crew-2": NO})
    world = _world(door, items=gang("crew", 3, min_count=1, cpu=1))
    decision = world.step()
    assert [binding.pod.name for binding in decision.bindings] == ["crew-0"]
    assert [binding.pod.name for binding in decision.waiting] == ["crew-1"]
    assert [(r.pod.name, r.message) for r in decision.rejections] == [("crew-2", "not here")]
    assert "Speaks" in decision.rejected_by
    assert sorted(world.where) == ["crew-0", "crew-1"]
    assert set(world.entity("crew").ready) == {"uid-crew-2"}
    assert world.engine.awaits_permission


@pytest.mark.parametrize(
    ("answer", "seconds", "allowed", "refused"),
    [
        (WAIT, 0.0, [], []),
        (WAIT, PERMIT_TIMEOUT - 1, [], []),
        (WAIT, PERMIT_TIMEOUT, [], [("p", "Unschedulable", "in a moment")]),
        (Status(Code.WAIT), 900.0, [], [("p", "Unschedulable", "Speaks did not permit it in 900 s")]),
        (SUCCESS, 0.0, ["p"], []),
        (SUCCESS, 1000.0, ["p"], []),
        (NO, 0.0, [], [("p", "Unschedulable", "not here")]),
        (TROUBLE, 0.0, [], [("p", "SchedulerError", "no connection")]),
    ],
)
def test_permit_plugins_are_called_again_for_waiting_pods(
    answer: Status, seconds: float, allowed: list[str], refused: list[tuple[str, str, str]]
) -> None:
    """kube-scheduler lets a pod wait for 15 minutes at most; until then it has its room."""
    door = Speaks([], permit=WAIT)
    world = _world(door)
    (waiting,) = world.step().waiting
    door.answers["permit"] = answer
    door.calls.clear()
    now = world.now + seconds
    effects = world.engine.ask_permission(now)
    assert [binding.pod.name for binding in effects.permitted_bindings] == allowed
    assert [(r.pod.name, r.reason, r.message) for r in effects.rejections] == refused
    assert all(binding is waiting for binding in effects.permitted_bindings)
    assert world.engine.awaits_permission is (not allowed and not refused)
    assert world.where == ({} if refused else {"p": "n"})
    assert door.calls == ["Speaks permit p", *(["Speaks give_up p", "Speaks unreserve p"] if refused else [])]


def test_pod_deleted_while_it_waits_for_permission_is_not_bound() -> None:
    """Its capacity is free at once, and no refusal is reported."""
    world = _world(Speaks([], permit=WAIT))
    world.step()
    world.engine.mark_terminating("uid-p", world.now)
    assert world.engine.ask_permission(world.now) is NO_EFFECTS
    assert not world.engine.awaits_permission
    assert (world.where, len(world.engine.queue)) == ({}, 0)


def test_pod_that_is_gone_needs_no_permission() -> None:
    """Nothing is kept of it, and its reservation is given back."""
    door = Speaks([], permit=WAIT)
    world = _world(door)
    world.step()
    world.gone("p")
    assert not world.engine.awaits_permission
    assert door.calls[-2:] == ["Speaks give_up p", "Speaks unreserve p"]


def test_permit_plugins_are_called_in_the_order_in_which_pods_began_to_wait() -> None:
    """In the order in which they began to wait."""
    door = Speaks([], permit=WAIT)
    world = _world(door, items=[pod(name, cpu=1) for name in ("b", "a", "c")])
    for _ in range(3):
        world.step()
    door.calls.clear()
    door.answers["permit"] = SUCCESS
    allowed = world.engine.ask_permission(world.now).permitted_bindings
    assert [binding.pod.name for binding in allowed] == ["b", "a", "c"]


@pytest.mark.parametrize("how", ["refused", "gone"])
def test_nomination_of_a_failed_binding_is_taken_back(how: str) -> None:
    """What all the Reserve plugins want taken back, whatever one of them raises; then everything is unreserved."""
    back = DeleteObject("Thing", "default", "made-for-p")
    made: list[str] = []
    plugins = [
        Speaks(made, "A", give_up=ValueError("ups")),
        Speaks(made, "B", give_up=[back]),
    ]
    world = _world(*plugins)
    world.step()
    made.clear()
    engine = world.engine
    ref = ObjectRef("Pod", uid="uid-p")
    effects = engine.fail_binding("uid-p", world.now) if how == "refused" else engine.remove(ref, world.now)
    assert made == ["A give_up p", "B give_up p", *UNDONE]
    assert effects.writes == (back,)
    (incident,) = effects.incidents
    assert "ups" in incident.text


def test_every_post_bind_plugin_is_called_whatever_one_of_them_raises() -> None:
    """PostBind changes nothing; nor is it called for an unknown binding, or a second time."""
    made: list[str] = []
    world = _world(*_two(made, {"post_bind": ValueError("ups")}, {}))
    world.step()
    made.clear()
    assert len(world.engine.confirm_binding("uid-p").incidents) == 1
    assert world.engine.confirm_binding("uid-unknown") is NO_EFFECTS
    assert made == ["A post_bind p", "B post_bind p"]
    assert world.record("p").bound


def test_plain_profile_has_no_permit_plugins() -> None:
    """A pod of a profile without such plugins is bound beside one of a profile that has some."""
    made: list[str] = []
    watched = profile_with(Speaks(made))
    profiles = {"default-scheduler": profile_with(), "watched": watched}
    world = World(node("n", cpu=4), pod("p", cpu=1), pod("q", cpu=1, scheduler="watched"), profiles=profiles)
    assert {world.step().result, world.step().result} == {Result.SCHEDULED}
    assert made[0] == "Speaks reserve q"
    assert not any(line.endswith(" p") for line in made)
    world.engine.confirm_binding("uid-p")
    assert not any("post_bind" in line for line in made)


def test_nothing_is_undone_for_a_pod_that_was_bound() -> None:
    """scheduling.md 2.1: what was reserved is its own until it is gone, and then there is nothing to give back."""
    calls: list[str] = []
    world = _world(Speaks(calls)).settle()
    assert calls[-1] == "Speaks post_bind p"
    calls.clear()
    world.gone("p")
    assert calls == []
