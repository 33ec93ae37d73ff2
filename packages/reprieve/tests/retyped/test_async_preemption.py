"""Preemption with calls that take a while: the cases of kube-scheduler's own tests, written again.

Source: kubernetes/kubernetes, TestAsyncPreemption and the tests of failures beside it in
test/integration/scheduler/preemption, and their counterparts for pod groups.  Each case runs with single pods and with
every pod in a gang of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kube_rules import objects
from reprieve.preemption.outcome import Preemption
from reprieve.queueing.entity import QueueState
from reprieve.scheduling.decision import Decision, Result
from tests.building import World, group, node, pod

BOTH = pytest.mark.parametrize("grouped", [False, True], ids=["pods", "gangs"])


class Calls:
    """A cluster of one node with four CPUs, in which a test says when the calls of a preemption are made."""

    def __init__(self, *victims: int, grouped: bool, stay: Sequence[str] = ()) -> None:
        """`victims`: the CPUs of running pods `victim-0`...; `stay`: pods with a binding that does not end."""
        self.grouped = grouped
        self.world = World(
            node("node", cpu=4),
            *[pod(f"victim-{n}", cpu=cpu, node="node", priority=1, grace=0) for n, cpu in enumerate(victims)],
        )
        self.engine, self.now = self.world.engine, self.world.now
        self.stay = set(stay)
        self.under_way: dict[str, Preemption] = {}

    def create(self, name: str, cpu: int, priority: int, **fields: Any) -> None:
        """A pod arrives, in a gang of its own."""
        own = f"pg-{name}"
        if self.grouped:
            self.world.add(group(own, min_count=1, priority=priority))
        self.world.add(pod(name, cpu=cpu, priority=priority, group=own if self.grouped else None, **fields))

    def schedule(self, name: str) -> Decision:
        """The next attempt is that of the pod; a binding is confirmed at once."""
        while (decision := self.engine.step(self.now).decision) is None:
            wakeup = self.engine.next_wakeup(flush=False)
            assert wakeup is not None, f"{name} is not tried"
            self.now = max(self.now, wakeup)
        pods = [b.pod.name for b in decision.bindings] + [r.pod.name for r in decision.rejections]
        assert set(pods) == {name}, f"{pods} instead of {name}"
        for binding in decision.bindings:
            if name not in self.stay:
                self.engine.confirm_binding(binding.pod.uid)
        if decision.preemption is not None:
            self.under_way[name] = decision.preemption
        return decision

    def placed(self, name: str) -> str:
        """The next attempt places the pod; return its node."""
        decision = self.schedule(name)
        assert decision.result is Result.SCHEDULED, decision
        return decision.bindings[0].node

    def fails(self, name: str) -> Decision:
        """The next attempt does not place the pod."""
        decision = self.schedule(name)
        assert not decision.bindings
        return decision

    def complete(self, name: str, *, but: Sequence[str] = ()) -> list[str]:
        """The calls are made, except those for victims in `but`; return the pods that leave."""
        preemption = self.under_way.pop(name)
        victims = [victim for verdict in preemption.victims for victim in verdict.unit.pods if victim.name not in but]
        for victim in victims:
            self.engine.mark_terminating(victim.uid, self.now, preempted=True)
        for victim in victims:
            self.engine.remove(objects.ObjectRef("Pod", uid=victim.uid), self.now)
        self.engine.finish_preemption(preemption.ref, self.now)
        return sorted(victim.name for victim in victims)

    def gated(self, name: str) -> bool:
        """Whether the pod waits for the calls of its preemption."""
        record = self.world.record(name)
        entity = self.engine.queue.find(record)
        return entity is not None and entity.state is QueueState.GATED and entity.block_reason is not None

    def waits(self, name: str) -> bool:
        """Whether the pod waits for an event that may help it."""
        entity = self.engine.queue.find(self.world.record(name))
        return entity is not None and entity.state is QueueState.UNSCHEDULABLE


@BOTH
@pytest.mark.parametrize("victims", [(2, 2), (1,)], ids=["two victims", "one victim"])
def test_preemptor_waits_for_the_calls(victims: tuple[int, ...], grouped: bool) -> None:
    """preemption.md 7.3."""
    calls = Calls(*victims, grouped=grouped)
    calls.create("preemptor", 4, 100)
    calls.fails("preemptor")
    assert calls.gated("preemptor")
    assert calls.complete("preemptor") == [f"victim-{n}" for n in range(len(victims))]
    assert calls.placed("preemptor") == "node"


@BOTH
def test_lower_priority_does_not_take_the_place(grouped: bool) -> None:
    """preemption.md 3.4, 7.3: neither while the calls are made nor afterwards."""
    calls = Calls(2, 2, grouped=grouped)
    calls.create("high", 4, 100)
    calls.fails("high")
    calls.create("mid", 4, 50)
    assert calls.fails("mid").preemption is None
    calls.complete("high")
    assert calls.placed("high") == "node"
    calls.fails("mid")


@BOTH
def test_higher_priority_takes_the_place(grouped: bool) -> None:
    """preemption.md 2.3, 7.3: both evict the same pods."""
    calls = Calls(1, 1, 1, 1, grouped=grouped)
    calls.create("high", 4, 100)
    calls.fails("high")
    calls.create("super", 4, 200)
    calls.fails("super")
    assert (calls.gated("high"), calls.gated("super")) == (True, True)
    assert calls.world.nominated == {"super": "node"}
    calls.complete("super")
    calls.complete("high")
    assert calls.placed("super") == "node"
    calls.fails("high")


@BOTH
@pytest.mark.parametrize("first", ["p1", "p2"])
def test_two_preemptors_whatever_calls_end_first(first: str, grouped: bool) -> None:
    """preemption.md 2.3, 7.3: the one with the lower priority waits at the end."""
    calls = Calls(2, 2, grouped=grouped)
    calls.create("p1", 4, 500)
    calls.fails("p1")
    assert calls.world.nominated == {"p1": "node"}
    calls.create("p2", 4, 1000)
    calls.fails("p2")
    assert calls.world.nominated == {"p2": "node"}
    calls.complete(first)
    if first == "p2":
        assert calls.placed("p2") == "node"
        calls.complete("p1")
    else:
        calls.complete("p2")
        assert calls.placed("p2") == "node"
    calls.fails("p1")
    assert calls.waits("p1")


@BOTH
def test_two_preemptors_on_one_node_that_is_large_enough(grouped: bool) -> None:
    """preemption.md 3.4: the second one needs the other two pods gone as well, and counts those that are to leave."""
    calls = Calls(1, 1, 1, 1, grouped=grouped)
    calls.create("high", 2, 100)
    calls.fails("high")
    calls.create("mid", 2, 50)
    calls.fails("mid")
    assert (calls.gated("high"), calls.gated("mid")) == (True, True)
    assert len(calls.under_way["high"].victims) == 2
    assert {*calls.complete("mid"), *calls.complete("high")} == {f"victim-{n}" for n in range(4)}
    assert (calls.placed("high"), calls.placed("mid")) == ("node", "node")


@BOTH
def test_victim_with_a_binding_under_way(grouped: bool) -> None:
    """preemption.md 1.2, 7.2: it is deleted, and the preemptor is placed before its binding ends."""
    calls = Calls(grouped=grouped, stay=["slow"])
    calls.create("slow", 2, 1, grace=0)
    calls.placed("slow")
    calls.create("preemptor", 4, 100)
    calls.fails("preemptor")
    assert calls.complete("preemptor") == ["slow"]
    assert calls.placed("preemptor") == "node"


@BOTH
def test_place_that_a_higher_priority_took_while_a_victim_lingers(grouped: bool) -> None:
    """preemption.md 2.3, 2.7: the preemptor evicts on another node then."""
    calls = Calls(1, 1, 1, 1, grouped=grouped)
    calls.create("mid", 4, 50)
    calls.fails("mid")
    for n in range(3):  # the calls for these victims were made, for the last one not
        calls.engine.mark_terminating(f"uid-victim-{n}", calls.now, preempted=True)
        calls.engine.remove(objects.ObjectRef("Pod", uid=f"uid-victim-{n}"), calls.now)
    assert calls.gated("mid")
    calls.world.add(node("node2", cpu=4))
    calls.world.add(*[pod(f"other-{n}", cpu=1, node="node2", priority=1, grace=0) for n in range(4)])
    calls.create("high", 2, 100)
    assert calls.placed("high") == "node"
    calls.complete("mid")
    assert calls.fails("mid").preemption is not None
    assert calls.complete("mid") == ["other-0", "other-1", "other-2", "other-3"]
    assert calls.placed("mid") == "node2"


@BOTH
def test_call_that_fails_lets_the_preemptor_try_again(grouped: bool) -> None:
    """preemption.md 7.5: one victim is gone, two stay."""
    calls = Calls(1, 1, 1, grouped=grouped)
    calls.create("preemptor", 4, 500)
    calls.fails("preemptor")
    preemption = calls.under_way.pop("preemptor")
    calls.engine.mark_terminating("uid-victim-0", calls.now, preempted=True)
    calls.engine.remove(objects.ObjectRef("Pod", uid="uid-victim-0"), calls.now)
    calls.engine.fail_preemption(preemption.ref, calls.now)
    assert not calls.gated("preemptor")
    calls.fails("preemptor")
    assert calls.complete("preemptor") == ["victim-1", "victim-2"]
    assert calls.placed("preemptor") == "node"


@BOTH
def test_preemptor_is_deleted_while_calls_are_made(grouped: bool) -> None:
    """preemption.md 7.3: nothing is left of it, and the next pod gets the node."""
    calls = Calls(2, 2, grouped=grouped)
    calls.create("preemptor", 4, 500)
    calls.fails("preemptor")
    calls.engine.remove(objects.ObjectRef("Pod", uid="uid-preemptor"), calls.now)
    calls.complete("preemptor")
    assert not list(calls.engine.queue.entities())
    calls.create("next", 4, 500)
    assert calls.placed("next") == "node"


@BOTH
def test_preemptor_gets_a_label_while_calls_are_made(grouped: bool) -> None:
    """preemption.md 7.3: it waits on, and is placed."""
    calls = Calls(2, 2, grouped=grouped)
    calls.create("preemptor", 4, 500)
    calls.fails("preemptor")
    own = "pg-preemptor" if grouped else None
    calls.engine.set(pod("preemptor", cpu=4, priority=500, group=own, labels={"new": "true"}), calls.now)
    assert calls.gated("preemptor")
    calls.complete("preemptor")
    assert calls.placed("preemptor") == "node"
