"""Two preemptors that decided on the same victim (KEP-4832, "Consideration to race condition")."""

from __future__ import annotations

from kube_rules.meta import ObjectRef
from reprieve.scheduling.decision import Result
from reprieve.scheduling.engine import Engine
from reprieve.scheduling.engine_options import EngineOptions
from tests.building import node, pod


def engine_with_shared_victims() -> tuple[Engine, list[str]]:
    """n1 holds two victims; `first` makes room for itself, `second` for both: one victim is both preemptors'."""
    engine = Engine(EngineOptions(validate=True))
    engine.set(node("n1", cpu=6), 0.0)
    for name in ("low1", "low2"):
        engine.set(pod(name, cpu=3, node="n1"), 0.0)
    keys = []
    for number, name in enumerate(("first", "second")):
        engine.set(pod(name, cpu=3, priority=10), float(number))
        decision = engine.step(float(number)).decision
        assert decision is not None
        assert decision.result is Result.WAITING
        keys.append(decision.ref)
    return engine, keys


def uid_of(engine: Engine, name: str) -> str:
    return next(uid for uid, found in engine.cluster.pods.items() if found.name == name)


def test_when_a_shared_victim_has_left_it_is_under_way_for_neither() -> None:
    """preemption.md 2.3: under way ends when the victims have left, for each preemptor that waited for them."""
    engine, keys = engine_with_shared_victims()
    for name in ("low1", "low2"):
        assert [engine.is_preempting(key) for key in keys].count(True) >= 1
        engine.remove(ObjectRef("Pod", uid=uid_of(engine, name)), 5.0)
    assert [engine.is_preempting(key) for key in keys] == [False, False]


def test_preemption_that_failed_does_not_end_the_other() -> None:
    """preemption.md 7.5 is about the preemptor with the failed call."""
    engine, (first, second) = engine_with_shared_victims()
    engine.fail_preemption(first, 5.0)
    assert [engine.is_preempting(first), engine.is_preempting(second)] == [False, True]
    engine.remove(ObjectRef("Pod", uid=uid_of(engine, "low1")), 6.0)
    engine.remove(ObjectRef("Pod", uid=uid_of(engine, "low2")), 6.0)
    assert not engine.is_preempting(second)
