"""How a preemption ends when its calls failed."""

from __future__ import annotations

from typing import Any

import pytest

from reprieve.client.errors import ClientError
from reprieve.cluster.pods import PodRecord
from reprieve.live.preemption_executor import PreemptionExecutor
from reprieve.preemption.outcome import Preemption
from tests.client.clock import until
from tests.live.scene import Scene, run
from tests.live.test_victim_calls import CUT


class Listener:
    """The listener of a preemption."""

    def __init__(self) -> None:
        self.went: list[str] = []
        self.ended: list[str | None] = []

    def trouble(self, where: str, text: str) -> None:
        raise AssertionError(f"{where}: {text}")

    def evicted(self, pod: PodRecord, preemption: Preemption, *, now: float) -> None:
        self.went.append(pod.name)

    def preemption_ended(self, preemption: Preemption, *, seconds: float, error: str | None, now: float) -> None:
        self.ended.append(error)


def preempted(scene: Scene) -> Preemption:
    """Three victims on the one node, decided by the engine."""
    for name in ("a", "b", "c"):
        scene.pod(name, node="n1", cpu="1")
    scene.pod("hi", cpu="4", priority=100)
    decision = scene.engine.step(scene.now).decision
    assert decision is not None
    assert decision.preemption is not None
    scene.conditions.decided(decision)
    return decision.preemption


async def bound_after_all(_pod: Any) -> bool:
    return False


def test_all_victims_that_were_marked_and_not_deleted_lose_their_marks() -> None:
    """preemption.md 7.5: a pod deleted before the failure ends; all others get the condition that they stay."""

    async def test(scene: Scene) -> None:
        preemption = preempted(scene)
        first, second, third = (verdict.unit.pods[0] for verdict in preemption.victims)
        listener, wanted = Listener(), True
        failed: list[str] = []
        preemptor = PreemptionExecutor(
            scene.writes,
            scene.conditions,
            listener,
            scene.clock,
            done=lambda key: failed.append("done"),
            failed=lambda key, error: failed.append(error),
            release=bound_after_all,
            wanted=lambda key: wanted,
        )
        await scene.conditions.drain()
        scene.writes.pods.clear()
        scene.writes.hold = True
        task = preemptor.start(preemption)
        await until(lambda: len(scene.writes.held) == 2)
        marked = [uid for uid, _ in scene.writes.pods]
        assert marked == [first.uid, second.uid], "the last waits for the others"
        one, other = scene.writes.held
        scene.writes.hold = False
        one.set_result(None)
        await until(lambda: listener.went)
        wanted = False
        other.set_result(None)
        await task
        assert failed == listener.ended == ["the preemptor does not exist any more"]
        assert scene.writes.deleted == [first.uid]
        assert listener.went == [first.name]
        marks = [(uid, patch["conditions"][0]["status"]) for uid, patch in scene.writes.pods[2:]]
        assert marks == [(second.uid, "False")], "the third was never marked"
        await preemptor.aclose()
        assert third.uid not in marked

    run(test)


@pytest.mark.parametrize("error", [CUT, ClientError("no"), ValueError("surprise")])
def test_failures_end_the_preemption_once(error: Exception) -> None:
    """Every preemption ends in one call of `done` or `failed`; an unexpected error is reported by its name."""

    async def test(scene: Scene) -> None:
        preemption = preempted(scene)
        listener = Listener()
        outcome: list[str] = []
        preemptor = PreemptionExecutor(
            scene.writes,
            scene.conditions,
            listener,
            scene.clock,
            done=lambda key: outcome.append("done"),
            failed=lambda key, text: outcome.append(text),
            release=bound_after_all,
            wanted=lambda key: True,
        )
        await scene.conditions.drain()
        scene.writes.errors = [error]
        await preemptor.run(preemption)
        text = f"ValueError: {error}" if isinstance(error, ValueError) else str(error)
        assert outcome == listener.ended == [text]
        await preemptor.aclose()
        assert preemptor.under_way == 0

    run(test)
