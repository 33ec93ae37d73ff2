"""What a shadow makes of its decisions and of those of another scheduler, without a server (shadow.md 2, 3)."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import msgspec
import pytest
from msgspec.structs import replace

from kube_rules import objects as o
from reprieve.client.discovery import Resource
from reprieve.client.informer import Change, ChangeKind
from reprieve.decisions.shadow import (
    FEWER_EVICTED,
    HALF_PLACED,
    MORE_EVICTED,
    STARVED,
    ShadowDifference,
    ShadowReport,
)
from reprieve.framework.plugin import CycleState, PerNodeFilter
from reprieve.live.loop import SteadyTime
from reprieve.live.shadow_app import ShadowRecordKeeper
from reprieve.live.shadow_decisions import ShadowDecisions
from reprieve.live.shadow_ledger import ShadowLedger
from reprieve.observability.logs import Log
from reprieve.observability.metrics import Metrics
from reprieve.observability.observer import Observer
from reprieve.observability.store import MemoryStore
from reprieve.scheduling.effects import Effects
from reprieve.scheduling.engine import Engine
from reprieve.scheduling.engine_options import EngineOptions
from tests.building import profile_with
from tests.client.clock import FakeClock
from tests.live.faults import Json, group, node, pod

HOLD = 60.0
PODS = Resource("", "v1", "pods", "Pod", True)
PREEMPTED = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}


class Loop:
    """The scheduling loop, as far as the decisions know it."""

    def __init__(self, clock: FakeClock) -> None:
        self.time = SteadyTime(clock)
        self.cycles = 0

    def keep(self, effects: Effects | None) -> None:
        """Nothing is reported to the API."""


class Stage:
    """A cluster as a shadow's watches bring it; `acting_*` is what the other scheduler does."""

    def __init__(self, *nodes: str, cpu: str = "2", gpus: str = "", options: EngineOptions | None = None) -> None:
        self.clock = FakeClock()
        self.engine = Engine(options or EngineOptions(validate=True))
        self.store = MemoryStore()
        observer = Observer(metrics=Metrics(), log=Log(-1), records=ShadowRecordKeeper(self.store))
        observer.attach(self.engine)
        self.counted: list[str] = []
        self.ledger = ShadowLedger(self.engine.cluster, patience=HOLD, counted=self.counted.append)
        self.decisions = ShadowDecisions(self.engine, observer, self.ledger, hold=HOLD)
        self.decisions.attach(Loop(self.clock))  # type: ignore[arg-type]
        self._bodies: dict[str, Json] = {}
        self._known: dict[str, o.Pod] = {}
        for name in nodes:
            body = node(name, cpu)
            if gpus:
                body["status"]["allocatable"]["nvidia.com/gpu"] = gpus
            self.engine.set(msgspec.convert(body, o.Node), self.now)

    @property
    def now(self) -> float:
        return self.clock.now().timestamp()

    def group(self, name: str, count: int, **more: Any) -> None:
        body = group(name, count=count, **more)
        body["metadata"]["uid"] = f"uid-{name}"
        self.engine.set(msgspec.convert(body, o.PodGroup), self.now)

    def pod(self, name: str, *, priority: int = 0, gpus: str = "", start: str = "", **more: Any) -> None:
        body = pod(name, uid=f"uid-{name}", cpu=more.pop("cpu", "2"), priority=priority, **more)
        if gpus:
            body["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = gpus
        if start:
            body["status"] = {**body.get("status", {}), "startTime": start}
        body["metadata"]["creationTimestamp"] = self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        self._bodies[name] = body
        self._see(name, ChangeKind.ADDED)

    def _see(self, name: str, kind: ChangeKind) -> None:
        self.show(msgspec.convert(self._bodies[name], o.Pod), kind)

    def show(self, item: o.Pod, kind: ChangeKind = ChangeKind.ADDED) -> None:
        """A change of a pod, as the feed brings it."""
        change = Change(kind, item, self._known.get(item.key))
        self.decisions.catch_up(change, self.now)
        if kind is ChangeKind.DELETED:
            self.engine.remove(item.ref, self.now)
            del self._known[item.key]
        else:
            self.engine.set(item, self.now)
            self._known[item.key] = item
        self.decisions.object_changed(change, PODS)

    def change(self, key: str, *, node: str = "", preempted: bool = False, gone: bool = False) -> None:
        """What the acting scheduler does to a pod (`namespace/name`)."""
        item = self._known[key]
        if node:
            item = replace(item, spec=replace(item.spec, node_name=node))
        if preempted:
            mark = msgspec.convert(PREEMPTED, o.PodCondition)
            item = replace(
                item,
                metadata=replace(item.metadata, deletion_timestamp=self.clock.now()),
                status=replace(item.status, conditions=(mark,)),
            )
        self.show(item, ChangeKind.DELETED if gone else ChangeKind.UPDATED)

    def acting_binds(self, name: str, node: str) -> None:
        self._bodies[name]["spec"]["nodeName"] = node
        self._see(name, ChangeKind.UPDATED)

    def acting_nominates(self, name: str, node: str) -> None:
        self._bodies[name].setdefault("status", {})["nominatedNodeName"] = node
        self._see(name, ChangeKind.UPDATED)

    def acting_evicts(self, *names: str) -> None:
        for name in names:
            self._bodies[name].setdefault("status", {})["conditions"] = [PREEMPTED]
            self._bodies[name]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            self._see(name, ChangeKind.UPDATED)
        for name in names:
            self.deleted(name)

    def deleted(self, name: str) -> None:
        self._see(name, ChangeKind.DELETED)

    def decide(self) -> None:
        """As the loop does when nothing changes."""
        self.decisions._decide(self.now)

    def after(self, seconds: float) -> None:
        self.decide()
        self.clock.advance(seconds)
        self.decisions.tick(self.now)

    @property
    def report(self) -> ShadowReport:
        self.ledger.settle(self.now, all_of_it=True)
        return self.ledger.report(schedulers=("x",), since=self.now, now=self.now)

    @property
    def only(self) -> ShadowDifference:
        [difference] = self.report.differences
        return difference

    def row_of(self, name: str) -> int:
        return self.engine.cluster.pods[f"uid-{name}"].row


class Blocks(PerNodeFilter):
    """A plugin that may block; it lets everything through."""

    name = "Blocks"
    blocking: ClassVar[bool] = True

    def filter_node(self, state: CycleState, row: int) -> tuple[str, bool] | None:
        return None


@pytest.mark.parametrize(("may_block", "first"), [(False, 0), (True, 1)])
def test_shadow_decides_before_it_applies_what_the_acting_scheduler_did(may_block: bool, first: int) -> None:
    """shadow.md 2.1: it placed the pod when that was bound; not with plugins that may block."""
    profile = profile_with(Blocks())
    stage = Stage("n1", options=EngineOptions({profile.name: profile}, validate=True) if may_block else None)
    stage.pod("a")
    stage.acting_binds("a", "n1")
    assert stage.row_of("a") == 0, "a binding of the cluster is applied in any case"
    report = stage.report
    assert (report.not_compared["ActingFirst"], report.compared) == (first, 1 - first)


def test_victims_of_a_plan_keep_running_and_the_same_plan_is_one_record() -> None:
    """shadow.md 2.4: a plan is dropped after a time and decided again; other victims are another record."""
    stage = Stage("n1")
    stage.pod("low", node="n1")
    stage.pod("hi", priority=10)

    def records() -> int:
        found = asyncio.run(stage.store.find("Pod", "default", "hi"))
        return len([record for record in found if record.preemption is not None])

    for _ in range(4):
        stage.after(HOLD + 40)
        stage.clock.advance(10)
    low = stage.engine.cluster.pods["uid-low"]
    assert (low.row, low.terminating) == (0, False)
    assert stage.report.decisions.count >= 3
    assert records() == 1
    stage.deleted("low")
    stage.pod("lower", node="n1", priority=-1)
    for _ in range(3):
        stage.after(HOLD + 40)
    assert records() == 2


def test_half_placed_gang_is_a_difference_until_it_is_whole() -> None:
    """shadow.md 3.2: bound below its minimum for longer than the patience; the GPUs that it holds are counted."""
    stage = Stage("n1", "n2", gpus="8")
    stage.group("g", 2)
    stage.pod("a", group="g", gpus="8")
    stage.pod("b", group="g", gpus="8")
    stage.acting_binds("a", "n1")
    stage.after(HOLD - 1)
    assert stage.report.differences == ()
    stage.after(1)
    found = stage.only
    assert (found.kind, found.entity, found.until, found.min_count) == (HALF_PLACED, "podgroup default/g", None, 2)
    assert (found.acting.result, found.acting.pods, found.acting.nodes) == ("HalfPlaced", 1, ("n1",))
    assert (found.shadow.result, found.shadow.pods) == ("Placed", 2)
    stage.after(3600 - HOLD)
    assert stage.only.held_gpu_hours == pytest.approx(8.0)
    stage.acting_binds("b", "n2")
    found = stage.only
    assert found.until is not None
    assert found.seconds == 3600.0
    assert found.held_gpu_hours == pytest.approx(8.0)
    assert stage.report.compared == 1
    stage.after(3600)
    assert stage.report.held_gpu_hours == pytest.approx(8.0), "it holds nothing idle any more"
    assert stage.counted == [HALF_PLACED]


def test_gang_that_lost_a_member_is_not_half_placed() -> None:
    """shadow.md 3.2: pods of it ran before the pending one came."""
    stage = Stage("n1", "n2", "n3")
    stage.group("g", 3)
    stage.pod("a", group="g", node="n1")
    stage.pod("b", group="g", node="n2")
    stage.pod("c", group="g")
    stage.after(2 * HOLD)
    assert {difference.kind for difference in stage.report.differences} == {STARVED}


def test_gang_that_fits_and_is_not_placed_is_starved() -> None:
    """shadow.md 3.3: with the time that the shadow placed it at."""
    stage = Stage("n1", "n2")
    stage.group("g", 2)
    stage.pod("a", group="g")
    stage.pod("b", group="g")
    stage.after(HOLD)
    found = stage.only
    assert (found.kind, found.until, found.seconds) == (STARVED, None, HOLD)
    assert found.message == "it is pending although the shadow would place it"
    stage.acting_binds("a", "n1")
    stage.acting_binds("b", "n2")
    assert stage.only.until is not None
    assert stage.report.acting.gang_wait.max == HOLD
    assert stage.report.shadow.gang_wait.max < 1.0


def test_gang_that_fits_nowhere_is_no_difference() -> None:
    """shadow.md 3.3: the shadow does not place it either."""
    stage = Stage("n1")
    stage.group("g", 2)
    stage.pod("a", group="g")
    stage.pod("b", group="g")
    stage.after(10 * HOLD)
    assert stage.report.differences == ()


def test_preemption_that_is_not_made_is_starved_after_the_grace_of_its_victims() -> None:
    """shadow.md 3.3: the victims' grace period counts as time that the acting scheduler has."""
    stage = Stage("n1")
    stage.pod("low", node="n1", terminationGracePeriodSeconds=100)
    stage.pod("hi", priority=10)
    stage.after(HOLD + 99)
    assert stage.report.differences == ()
    stage.after(1)
    found = stage.only
    assert (found.kind, found.shadow.result, found.shadow.evicted) == (STARVED, "Evicts", ("default/low",))
    assert found.message == "it is pending although the shadow would evict 1 pod for it"


def test_more_pods_evicted_than_by_the_shadow() -> None:
    """shadow.md 3.4: the preemptor is known by the node it gets; the work lost is that of the evicted pods."""
    stage = Stage("n1", "n2", gpus="8")
    stage.pod("s1", node="n1", cpu="1", gpus="4", start="2025-12-31T23:00:00Z", priority=1)
    stage.pod("s2", node="n1", cpu="1", gpus="4", start="2025-12-31T23:00:00Z", priority=1)
    stage.pod("one", node="n2", gpus="8", start="2025-12-31T23:00:00Z")
    stage.pod("hi", priority=10)
    stage.acting_nominates("hi", "n1")
    stage.acting_evicts("s1", "s2")
    stage.acting_binds("hi", "n1")
    found = stage.only
    assert (found.kind, found.entity) == (MORE_EVICTED, "pod default/hi")
    assert (found.acting.evicted, found.shadow.evicted) == (("default/s1", "default/s2"), ("default/one",))
    assert found.message == "2 pods were evicted for it; the shadow would evict 1 pod"
    report = stage.report
    assert (report.acting.evicted_pods, report.shadow.evicted_pods) == (2, 1)
    hours = (stage.now - stage.engine.cluster.pods["uid-one"].start) / 3600  # type: ignore[operator]
    assert report.acting.lost_gpu_hours == pytest.approx(8 * hours, abs=0.1)


def test_fewer_pods_evicted_than_by_the_shadow() -> None:
    """shadow.md 3.4: said as well; the shadow evicts two pods of a low priority, not one of a higher."""
    stage = Stage("n1", "n2")
    stage.pod("low1", node="n1", cpu="1")
    stage.pod("low2", node="n1", cpu="1")
    stage.pod("middle", node="n2", priority=5)
    stage.pod("hi", priority=10)
    stage.acting_evicts("middle")
    stage.acting_binds("hi", "n2")
    found = stage.only
    assert (found.kind, found.acting.evicted_pods, found.shadow.evicted_pods) == (FEWER_EVICTED, 1, 2)


def test_other_victims_and_another_node_at_the_same_cost_are_no_difference() -> None:
    """shadow.md 3.6."""
    stage = Stage("n1", "n2")
    stage.pod("a", node="n1")
    stage.pod("b", node="n2")
    stage.pod("hi", priority=10)
    stage.decide()
    [kept] = stage.engine.cluster.doomed
    other, where = ("b", "n2") if kept == "uid-a" else ("a", "n1")
    stage.acting_nominates("hi", where)
    stage.acting_evicts(other)
    stage.acting_binds("hi", where)
    report = stage.report
    assert (report.differences, report.compared, report.other_victims) == ((), 1, 1)
    assert stage.engine.cluster.doomed == set(), "what the shadow would have evicted stays"


def test_evictions_of_a_second_preemptor_are_not_counted_for_the_first() -> None:
    """shadow.md 3.5: a victim that the shadow has for another pending preemptor is left to that."""
    stage = Stage("n1")
    stage.pod("a", node="n1", cpu="1")
    stage.pod("b", node="n1", cpu="1")
    stage.pod("hi1", priority=10, cpu="1")
    stage.pod("hi2", priority=10, cpu="1")
    stage.acting_evicts("a", "b")
    stage.acting_binds("hi1", "n1")
    stage.acting_binds("hi2", "n1")
    report = stage.report
    assert (report.differences, report.compared) == ((), 2)
    assert report.acting.evicted_pods == report.shadow.evicted_pods == 2


def test_placement_is_dropped_when_the_cluster_goes_another_way() -> None:
    """shadow.md 2.2: of one pod elsewhere all that was assumed for its gang is given back, and decided again."""
    stage = Stage("n1", "n2", "n3")
    stage.group("g", 2)
    stage.pod("a", group="g")
    stage.pod("b", group="g")
    stage.decide()
    first = stage.row_of("a")
    other = next(row for row in range(3) if row not in (first, stage.row_of("b")))
    stage.acting_binds("a", stage.engine.cluster.nodes.names[other])
    assert stage.row_of("a") == other
    assert stage.row_of("b") < 0, "it is pending again"
    stage.clock.advance(2.0)
    stage.decide()
    assert stage.row_of("b") >= 0
    assert stage.report.other_node == 1


def test_placement_is_dropped_after_the_hold_and_capacity_is_free() -> None:
    """shadow.md 2.3: for a bounded time."""
    stage = Stage("n1")
    stage.pod("a")
    stage.decide()
    assert stage.row_of("a") >= 0
    stage.clock.advance(HOLD)
    stage.decisions.tick(stage.now)
    assert stage.row_of("a") < 0
    stage.pod("b", priority=10)
    stage.decide()
    assert stage.row_of("b") >= 0, "the more important one is first now"


def test_plan_to_evict_is_dropped_when_the_preemptor_is_placed_without() -> None:
    """shadow.md 2.2: its victims count as running again."""
    stage = Stage("n1", "n2")
    stage.pod("low", node="n1")
    stage.pod("other", node="n2", priority=20)
    stage.pod("hi", priority=10)
    stage.decide()
    assert stage.engine.cluster.doomed == {"uid-low"}
    stage.deleted("other")
    stage.acting_binds("hi", "n2")
    assert stage.engine.cluster.doomed == set()
    assert stage.decisions.assumed == 0
    assert stage.only.kind == FEWER_EVICTED


def test_decisions_count_no_evictions_for_limits_but_the_clusters_do() -> None:
    """shadow.md 2.5."""
    stage = Stage("n1")
    evictions = stage.engine.cluster.evictions
    stage.pod("low", node="n1")
    stage.pod("hi", priority=10)
    stage.decide()
    assert not any(window._times for window in evictions._windows)
    stage.acting_evicts("low")
    assert any(window._times for window in evictions._windows)


def test_deleted_and_unseen_entities_are_not_compared() -> None:
    """shadow.md 3.1, 3.7: a pod that the shadow had not placed when it was bound, and one that is deleted."""
    stage = Stage("n1")
    stage.pod("big", cpu="4")
    stage.acting_binds("big", "n1")
    stage.pod("x", cpu="1")
    stage.deleted("x")
    assert stage.report.not_compared == {"ActingFirst": 1, "Gone": 0}, "x was never placed: nothing was begun"
    stage.pod("y", cpu="1")
    stage.deleted("big")
    stage.clock.advance(2.0)
    stage.decide()
    stage.deleted("y")
    report = stage.report
    assert (report.not_compared, report.compared, report.differences) == ({"ActingFirst": 1, "Gone": 1}, 0, ())


def test_eviction_without_a_known_preemptor_is_counted_apart() -> None:
    """shadow.md 3.5."""
    stage = Stage("n1")
    stage.pod("low", node="n1")
    stage.acting_evicts("low")
    assert stage.report.unassigned_evictions == 1
    stage.after(601)
    assert stage.report.unassigned_evictions == 1
    assert stage.report.differences == ()
