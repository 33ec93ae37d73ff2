"""Rules of one line between the queue, the cluster and the plugins."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from reprieve.cluster.groups import GroupState
from reprieve.framework.events import ClusterEvent, EventKind
from reprieve.framework.status import SUCCESS, Code, Status
from reprieve.scheduling.group_algorithm import progress
from tests.building import World, node, pod
from tests.plugins.storage import claim

WAIT = Status(Code.WAIT, "wait")
NO = Status(Code.UNSCHEDULABLE, "no")
NEVER = Status(Code.UNSCHEDULABLE, "never")


@pytest.mark.parametrize(
    ("answers", "expected", "asked"),
    [
        ([], SUCCESS, 0),
        ([SUCCESS, SUCCESS], SUCCESS, 2),
        ([WAIT, SUCCESS], WAIT, 2),
        ([SUCCESS, NO, WAIT], NO, 2),
        ([WAIT, NO, NEVER], NO, 2),
    ],
)
def test_what_several_plugins_say_of_a_placement(answers: list[Status], expected: Status, asked: int) -> None:
    """scheduling.md 3.2: who says that it cannot be reached any more ends it; others are asked on."""
    said: list[Status] = []

    def plugin(answer: Status) -> Any:
        def feasible(_group: GroupState, *, scheduled: int, remaining: int) -> Status:
            assert (scheduled, remaining) == (1, 2)
            said.append(answer)
            return answer

        return SimpleNamespace(name="Stub", feasible=feasible)

    profile: Any = SimpleNamespace(placement_feasible=[plugin(answer) for answer in answers])
    assert progress(profile, GroupState("default/g"), 1, 2) is expected
    assert len(said) == asked


def _heard(world: World, monkeypatch: pytest.MonkeyPatch) -> list[ClusterEvent]:
    heard: list[ClusterEvent] = []
    monkeypatch.setattr(world.engine.queue, "on_event", lambda event, _now, **_: heard.append(event))
    return heard


def test_only_what_was_there_is_heard_to_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """scheduling.md 7.3: an object of storage or devices that goes is an event, one that was never known is none."""
    world = World(node("n"), claim("c"))
    heard = _heard(world, monkeypatch)
    assert not world.engine.remove_resource("PersistentVolumeClaim", "default", "nosuch", world.now)
    assert not heard
    assert world.engine.remove_resource("PersistentVolumeClaim", "default", "c", world.now)
    assert [event.before for event in heard] == [claim("c")]


@pytest.mark.parametrize("on", ["first", "second", ""])
def test_a_pod_that_leaves_is_heard_wherever_it_runs(on: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """scheduling.md 7.3: one that runs, on the first node as on any other, is an event; one that waits is not."""
    world = World(node("first"), node("second"), pod("p", node=on))
    record = world.record("p")
    heard = _heard(world, monkeypatch)
    world.engine.pod_terminating(record.uid, world.now)
    assert [(event.kind, event.row) for event in heard] == ([(EventKind.POD_TERMINATING, record.row)] if on else [])
