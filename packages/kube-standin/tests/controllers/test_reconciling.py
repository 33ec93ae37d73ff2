"""What every controller rests on: the queue and its retries, events and their budget, writes, the loop."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kube_standin import errors
from kube_standin.clock import ServerClock
from kube_standin.controllers import ControllerSet, Times, chosen
from kube_standin.controllers.reconciler import Context, Controller
from kube_standin.controllers.timers import ControllerTimers
from kube_standin.controllers.views import ObjectView, PodView
from kube_standin.deletion import DeleteOptions
from kube_standin.storage.recovery import StorageError
from tests.admission.plane import Plane, pod
from tests.controllers.world import Json, World, owner

CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}


class Recording(Controller):
    """Notes when which key was synced; what `does` says happens then."""

    name = "recording"

    def connect(self) -> None:
        """Nothing is watched."""
        self.synced: list[tuple[Any, float]] = []
        self.does: Callable[[Any], None] = lambda _key: None

    def reconcile(self, key: Any) -> None:
        """Note it and do as told."""
        self.synced.append((key, self.context.now().timestamp()))
        self.does(key)

    def times(self) -> list[float]:
        """Seconds from each sync to the next."""
        moments = [moment for _, moment in self.synced]
        return [round(later - earlier, 3) for earlier, later in itertools.pairwise(moments)]


@pytest.fixture
def world() -> World:
    return World(())


@pytest.fixture
def recording(world: World) -> Recording:
    made = world.controllers.running["recording"] = Recording(world.controllers.context)
    return made


# -- the queue


def test_key_that_waits_waits_once(world: World, recording: Recording) -> None:
    assert recording.idle
    for key in ("a", "b", "a"):
        recording.queue(key)
    assert not recording.idle
    world.settle()
    assert [key for key, _ in recording.synced] == ["a", "b"]
    assert recording.idle


@pytest.mark.parametrize("error", [errors.bad_request("no"), RuntimeError("no")], ids=["refusal", "fault"])
def test_failed_key_is_tried_again_after_twice_the_time(
    world: World, recording: Recording, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """From a twentieth of a second to a minute; a fault is logged, a refusal is not."""

    def fail(_key: Any) -> None:
        raise error

    recording.does = fail
    recording.queue("a")
    world.forward(400)
    waits = recording.times()
    assert waits[:11] == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2]
    assert set(waits[11:]) == {60.0}
    assert len(waits) >= 13
    assert bool([one for one in caplog.records if one.levelno >= logging.ERROR]) is isinstance(error, RuntimeError)


def test_key_that_succeeds_begins_anew(world: World, recording: Recording) -> None:
    outcomes = iter([True, True, False, True, False])

    def sometimes(_key: Any) -> None:
        if next(outcomes):
            raise errors.bad_request("no")

    recording.does = sometimes
    recording.queue("a")
    world.forward(10)
    recording.queue("a")
    world.forward(10)
    assert recording.times() == [0.05, 0.1, 9.85, 0.05]


def test_sync_can_be_repeated_at_a_later_time(world: World, recording: Recording) -> None:
    """It counts as a failure of that key alone."""
    left = [3]

    def repeat_later(key: Any) -> None:
        if key == "a" and left[0]:
            left[0] -= 1
            recording.sync_again_later(key)

    recording.does = repeat_later
    recording.queue("a")
    recording.queue("b")
    world.forward(10)
    of_a = [moment for key, moment in recording.synced if key == "a"]
    assert [round(later - earlier, 3) for earlier, later in itertools.pairwise(of_a)] == [0.05, 0.1, 0.2]
    left[0] = 1
    recording.queue("a")
    world.forward(1)
    of_a = [moment for key, moment in recording.synced if key == "a"]
    assert round(of_a[-1] - of_a[-2], 3) == 0.05, "the last sync of before was a success"


def test_later_is_later(world: World, recording: Recording) -> None:
    recording.queue_after("a", 5)
    world.forward(4.9)
    assert recording.synced == []
    world.forward(0.1)
    assert len(recording.synced) == 1


def test_reconciling_that_never_ends_is_reported(world: World, recording: Recording) -> None:
    recording.does = recording.queue
    recording.queue("a")
    with pytest.raises(RuntimeError, match="the controllers do not settle"):
        world.controllers.settle(10)
    assert len(recording.synced) == 10


def test_writes_that_are_undone_are_made_again(world: World, recording: Recording) -> None:
    """Only for the keys with these writes: no event will report them."""
    context = world.controllers.context
    recording.does = lambda key: None if world.has("v1", "ConfigMap", key) else _make(context, key)
    for key in ("a", "b"):
        recording.queue(key)
    assert _failing(world, recording.step) == 2
    assert not world.has("v1", "ConfigMap", "a")
    world.forward(1)
    assert world.has("v1", "ConfigMap", "a")
    assert world.has("v1", "ConfigMap", "b")
    before = len(recording.synced)
    world.create({**CONFIG_MAP, "metadata": {"name": "other"}})
    world.forward(100)
    assert len(recording.synced) == before, "what is committed is not looked at again"


def _make(context: Context, name: str) -> None:
    context.create(context.kind("v1", "ConfigMap"), "default", {"metadata": {"name": name}})


def _failing(world: World, call: Callable[[], int]) -> int:
    """Call while no transaction can be written."""
    log = world.store._log
    before = log.append

    def refuse(*_args: Any, **_options: Any) -> Any:
        raise StorageError("the disk is full")

    log.append = refuse  # type: ignore[method-assign]
    try:
        return call()
    finally:
        log.append = before  # type: ignore[method-assign]


# -- writes


def test_status_that_is_so_is_not_written(world: World) -> None:
    context = world.controllers.context
    world.create(pod("p"))
    row = context.kind("v1", "Pod")
    status = {"phase": "Running"}
    context.set_status(row, ("default", "p"), status)
    world.store.flush()
    before = world.store.revision
    context.set_status(row, ("default", "p"), status)
    context.set_status(row, ("default", "gone"), status)
    world.store.flush()
    assert world.store.revision == before


def test_deletes_of_what_is_gone_or_another_s(world: World) -> None:
    context = world.controllers.context
    row = context.kind("v1", "ConfigMap")
    made = world.create(CONFIG_MAP)
    assert not context.delete(row, ("default", "c"), DeleteOptions(uid="another"))
    assert not context.delete(row, ("default", "nobody"))
    assert context.delete(row, ("default", "c"), DeleteOptions(uid=made["metadata"]["uid"]))
    assert not world.has("v1", "ConfigMap", "c")
    with pytest.raises(errors.StatusError):
        context.delete(context.kind("v1", "Namespace"), ("", "kube-system"))


# -- events


def about(name: str = "p", **metadata: Any) -> Json:
    identity = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": "7", **metadata}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": identity}


def recorded(world: World) -> list[Json]:
    world.store.flush()
    return world.all("v1", "Event")


def test_event(world: World) -> None:
    world.controllers.context.event(about(), "Because", "x" * 2000, "Warning", "job-controller")
    [found] = recorded(world)
    assert found["involvedObject"] == {
        "kind": "Pod",
        "apiVersion": "v1",
        "name": "p",
        "namespace": "default",
        "uid": "uid-p",
        "resourceVersion": "7",
    }
    assert (found["reason"], found["type"], found["message"]) == ("Because", "Warning", "x" * 1024)
    assert found["source"] == {"component": "job-controller"}
    assert found["count"] == 1
    assert found["firstTimestamp"] == found["lastTimestamp"] == "2026-01-01T00:00:00Z"
    name, _, digits = found["metadata"]["name"].partition(".")
    assert (name, len(digits)) == ("p", 16)


def test_events_about_what_is_in_no_namespace_are_in_the_default_one(world: World) -> None:
    context = world.controllers.context
    context.event({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n"}}, "Because", "text")
    [found] = recorded(world)
    assert found["metadata"]["namespace"] == "default"
    assert "namespace" not in found["involvedObject"] or not found["involvedObject"]["namespace"]
    assert found["type"] == "Normal"


def test_event_that_is_refused_is_forgotten(world: World) -> None:
    world.controllers.context.event(about(namespace="nosuch"), "Because", "text")
    assert recorded(world) == []


def test_object_has_twenty_five_events_and_then_one_in_five_minutes(world: World) -> None:
    """Upstream's spam filter (client-go, record): a burst of 25, refilled with one token in 300 s, by object."""
    context = world.controllers.context

    def say(count: int, name: str = "p") -> int:
        before = len(recorded(world))
        for _ in range(count):
            context.event(about(name), "Because", "text")
        return len(recorded(world)) - before

    assert say(30) == 25
    assert say(1, "other") == 1
    world.set_clock.forward(299)
    assert say(1) == 0
    world.set_clock.forward(1)
    assert say(2) == 1
    world.set_clock.forward(600)
    assert say(5) == 2
    world.set_clock.forward(300 * 1000)
    assert say(30) == 25


# -- timers


def test_calls_are_made_in_their_order(world: World) -> None:
    timers, made = ControllerTimers(world.set_clock), list[str]()
    assert (timers.next_moment(), len(timers)) == (None, 0)
    timers.after(2, lambda: made.append("late"))
    timers.after(1, lambda: made.append("first"))
    timers.after(1, lambda: made.append("second"))
    timers.after(-5, lambda: made.append("passed"))
    assert len(timers) == 4
    assert (timers.fire(), made) == (1, ["passed"])
    world.set_clock.forward(1)
    assert timers.next_moment() == world.set_clock.now()
    assert (timers.fire(), made) == (2, ["passed", "first", "second"])
    world.set_clock.forward(1)
    assert timers.fire() == 1
    assert (timers.fire(), timers.next_moment()) == (0, None)


def test_call_that_fails_is_logged_and_the_rest_made(world: World, caplog: pytest.LogCaptureFixture) -> None:
    timers, made = ControllerTimers(world.set_clock), list[str]()
    timers.after(0, lambda: [][0])
    timers.after(0, lambda: made.append("after"))
    assert (timers.fire(), made) == (2, ["after"])
    assert "a timed call failed" in caplog.text


def test_calls_are_made_a_turn_at_a_time(world: World) -> None:
    """After each sixteenth it is looked whether the turn is over."""
    timers, made = ControllerTimers(world.set_clock), list[int]()
    for number in range(40):
        timers.after(0, lambda number=number: made.append(number))  # type: ignore[misc]
    assert [timers.fire(-1.0) for _ in range(4)] == [15, 15, 10, 0]
    assert made == list(range(40))


# -- what runs


async def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.001)


def running(work: Callable[[Plane, ControllerSet], Awaitable[None]], switches: str = "*") -> None:
    """Do something while controllers run over a plane with the real clock."""

    async def main() -> None:
        plane = Plane(clock=ServerClock())
        times = Times(node_period=0.01, quota_pause=0.001)
        controllers = ControllerSet(plane.registry, chosen(switches), times=times, ca_certificate="CA")
        await controllers.start()
        try:
            await work(plane, controllers)
        finally:
            await controllers.stop()

    asyncio.run(main())


def test_controllers_take_in_what_happens_and_stop() -> None:
    """From the first object on, one after the other, and nothing once they have stopped."""
    left: list[Plane] = []

    async def work(plane: Plane, controllers: ControllerSet) -> None:
        left.append(plane)
        for count in (1, 2):
            plane.create(owner("ReplicaSet", f"a{count}", replicas=count))
        await until(lambda: len(plane.all("v1", "Pod")) == 3)
        plane.delete("apps/v1", "ReplicaSet", "a2", propagation="Background")
        await until(lambda: len(plane.all("v1", "Pod")) == 1)
        assert set(controllers.running) == {"replicaset", "garbage-collector"}

    running(work, "replicaset,garbage-collector")
    left[0].create(owner("ReplicaSet", "late", replicas=1))
    assert len(left[0].all("v1", "Pod")) == 1


def test_timers_run_beside_them() -> None:
    async def work(_plane: Plane, controllers: ControllerSet) -> None:
        made: list[int] = []
        timers = controllers.context.timers
        timers.after(1000, lambda: made.append(0))
        for number in (1, 2):
            timers.after(0.001 * number, lambda number=number: made.append(number))  # type: ignore[misc]
            await until(lambda number=number: number in made)  # type: ignore[misc]
        assert made == [1, 2]

    running(work, "none")


def test_timers_go_on_after_more_than_fits_into_a_turn() -> None:
    async def work(_plane: Plane, controllers: ControllerSet) -> None:
        made: list[int] = []
        timers = controllers.context.timers

        def call(number: int) -> None:
            sum(range(20_000))
            made.append(number)

        for number in range(150):
            timers.after(0.01, lambda number=number: call(number))  # type: ignore[misc]
        await until(lambda: len(made) == 150)
        timers.after(0.001, lambda: call(150))
        await until(lambda: len(made) == 151)
        assert made == list(range(151))

    running(work, "none")


def test_kind_that_comes_later_is_taken_in_as_well() -> None:
    """A source that is asked for while all run; and one with a watch that was ended from outside lists again."""

    async def work(plane: Plane, controllers: ControllerSet) -> None:
        source = controllers.context.sources.of("configmaps", ObjectView)
        plane.create(CONFIG_MAP)
        await until(lambda: ("default", "c") in source.items)
        plane.store.end_subscriptions("configmaps")
        plane.create({**CONFIG_MAP, "metadata": {"name": "d"}})
        await until(lambda: ("default", "d") in source.items)
        plane.delete("v1", "ConfigMap", "c")
        await until(lambda: ("default", "c") not in source.items)

    running(work, "none")


def _work() -> None:
    """Some tens of microseconds."""
    for _ in range(5):
        sum(range(2000))


def test_many_keys_are_synced_in_turns() -> None:
    """More than fit into one turn, and each once."""

    async def work(plane: Plane, controllers: ControllerSet) -> None:
        made = Recording(controllers.context)
        made.does = lambda _key: _work()
        task = asyncio.create_task(made.run())
        for key in range(300):
            made.queue(key)
        others: list[int] = []
        while not made.idle or len(made.synced) < 300:
            others.append(len(made.synced))
            await asyncio.sleep(0)
        made.queue("after")
        await until(lambda: "after" in {key for key, _ in made.synced})
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert [key for key, _ in made.synced] == [*range(300), "after"]
        assert len(others) >= 2

    running(work, "none")


def test_source_is_seen_in_one_way_alone(world: World) -> None:
    sources = world.controllers.context.sources
    assert sources.of("pods", PodView) is sources.pods
    with pytest.raises(TypeError, match="pods is seen as PodView"):
        sources.of("pods", ObjectView)


def test_each_handler_hears_what_happens_in_its_order(world: World) -> None:
    """Though another, called before it, writes and asks for what is new: that comes when all have heard the first."""
    sources = world.controllers.context.sources
    source, heard = sources.of("configmaps", ObjectView), list[str]()

    def write(_old: ObjectView | None, new: ObjectView | None) -> None:
        if new is not None and new.metadata.name == "c":
            world.create({**CONFIG_MAP, "metadata": {"name": "d"}})
            sources.sync()

    source.add_handler(write)
    source.add_handler(lambda _old, new: heard.append(new.metadata.name) if new is not None else None)
    heard.clear()
    world.create(CONFIG_MAP)
    sources.sync()
    sources.sync()
    assert heard == ["c", "d"]
