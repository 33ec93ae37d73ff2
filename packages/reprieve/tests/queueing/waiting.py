"""Worlds with pending pods, and what wakes them: for the tests of the queue."""

from __future__ import annotations

from typing import Any

from reprieve.framework.events import ClusterEvent, EventKind
from reprieve.scheduling.decision import Result
from tests.building import World, node, pod

FULL = [node("n", cpu=1), pod("r", cpu=1, node="n", priority=100)]
"""A node that is full with a pod that no other can preempt."""


def wake(world: World) -> None:
    """A pod on node n is gone: entities that lack resources are tried again."""
    world.engine.queue.on_event(ClusterEvent(EventKind.POD_GONE, row=world.row("n")), world.now)


def blocked_preemptor() -> World:
    """Pod p waits for the deletion of its victim r, with the call under way."""
    world = World(node("n", cpu=1), pod("r", cpu=1, node="n"), pod("p", cpu=1, priority=5))
    assert world.step().result is Result.WAITING
    assert world.entity("p").block_reason == "waiting for the preemption for this pod to be finished"
    return world


def pop_all(world: World) -> list[Any]:
    """Every entity that may be tried now, each in its cycle."""
    found = []
    while (entity := world.engine.queue.pop(world.now)) is not None:
        found.append(entity)
    return found
