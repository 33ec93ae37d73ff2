"""The decision record (observability.md, "The decision record")."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from kube_rules import objects
from kube_rules.meta import OwnerReference
from reprieve.decisions.hints import helps_of
from reprieve.decisions.history import history_of
from reprieve.decisions.records import MOST_CONSIDERED, MOST_REPRIEVED, DecisionRecord, decode, encode
from reprieve.observability.recorder import RecordKeeper
from reprieve.observability.store import MemoryStore
from reprieve.plugins.gang_scheduling import GREEDY, RETRY, GangScheduling
from tests.building import START, Item, gang, group, node, pdb, pod, profile_with
from tests.observability.watching import Observed

GPU = "nvidia.com/gpu"


class Recorded(Observed):
    """A world with recorded decisions."""

    def __init__(self, *items: Item | Sequence[Item], **how: Any) -> None:
        self.store = MemoryStore()
        super().__init__(*items, records=RecordKeeper(self.store), **how)

    def about(self, name: str, kind: str = "Pod") -> list[DecisionRecord]:
        """The records of an object, newest first, once through JSON."""
        found = asyncio.run(self.store.find(kind, "default", name))
        return [decode(encode(record)) for record in found]

    def one(self, name: str, kind: str = "Pod") -> DecisionRecord:
        """The newest record of an object."""
        return self.about(name, kind)[0]


def test_pod_that_fits_leaves_no_record() -> None:
    seen = Recorded(node("n1"), pod("a", cpu=1)).settle()
    assert len(seen.store) == 0


def test_rejection() -> None:
    seen = Recorded(
        node("n1", cpu=2), node("n2", cpu=2), node("n3", cpu=8, taints=[("k", "v", "NoSchedule")]), pod("a", cpu=4)
    )
    seen.settle()
    record = seen.one("a")
    assert (record.kind, record.api_version) == ("DecisionRecord", "reprieve.dev/v1alpha1")
    assert (record.entity.kind, record.entity.name, record.entity.uid) == ("Pod", "a", "uid-a")
    assert (record.result, record.attempt, record.profile) == ("Unschedulable", 1, "default-scheduler")
    assert record.message == seen.world.message("a")
    assert record.nodes == 3
    assert [(r.reason, r.nodes) for r in record.reasons] == [
        ("Insufficient cpu", 2),
        ("node(s) had untolerated taint(s)", 1),
    ]
    assert record.rejected_by == ("NodeResourcesFit", "TaintToleration")
    assert record.timings.attempt_seconds == pytest.approx(0.003)
    assert record.preemption is None


def test_same_rejection_again_is_counted_in_one_record() -> None:
    seen = Recorded(node("n1", cpu=2), pod("a", cpu=4)).settle()
    decision = seen.world.engine.decisions[-1]
    for second in (1, 2):
        seen.observer.decided(decision, seconds=0.5, now=START + 10 + second)
    assert len(seen.store) == 1
    record = seen.one("a")
    assert record.repeated == 2
    assert record.time > record.first_time
    assert record.timings.attempt_seconds == 0.5, "as of the latest"


def test_another_reason_is_another_record() -> None:
    seen = Recorded(node("n1", cpu=2), pod("a", cpu=4)).settle()
    seen.world.add(node("n2", cpu=2))
    seen.observer.decided(seen.world.engine.decisions[-1], seconds=0.1, now=START)
    seen.world.virtual.now += 400
    seen.settle()
    assert [len(seen.about("a")), seen.one("a").repeated] == [2, 0]


def test_shortage_that_is_least_and_its_node() -> None:
    """n1 and n3 lack one core each, n2 lacks two."""
    seen = Recorded(
        *(node(f"n{i}", cpu=4) for i in (1, 2, 3)),
        pod("x1", cpu=1, node="n1"),
        pod("x2", cpu=2, node="n2"),
        pod("x3", cpu=1, node="n3"),
        pod("a", cpu=4),
    ).settle()
    lack = seen.one("a").lack
    assert lack is not None
    assert lack.closest is not None
    assert lack.closest.missing == {"cpu": "1"}
    assert (lack.closest.nodes, lack.closest.names) == (2, ("n1", "n3"))
    assert lack.too_big == ()


def test_room_held_for_others_is_not_free() -> None:
    """The filters count nominated pods of equal or higher priority as running (scheduling.md 2)."""
    seen = Recorded(node("n1", cpu=4), pod("held", cpu=3, priority=5, nominated="n1", gates=["wait"]), pod("a", cpu=2))
    seen.settle()
    lack = seen.one("a").lack
    assert lack is not None
    assert lack.closest is not None
    assert lack.closest.missing == {"cpu": "1"}


def test_request_above_every_node() -> None:
    seen = Recorded(node("n1", cpu=4), node("n2", cpu=8), pod("a", cpu=64, memory="1Gi")).settle()
    lack = seen.one("a").lack
    assert lack is not None
    assert [(t.resource, t.asked, t.largest) for t in lack.too_big] == [("cpu", "64", "8")]
    assert lack.closest is None


@pytest.mark.parametrize(
    ("asked", "or_more", "clause"),
    [
        ("64", False, "it asks for 64 cpu, but the largest node has 8"),
        ("9e18", True, "it asks for 72057594037927936m cpu or more, but the largest node has 8"),
        ("1e30", True, "it asks for 72057594037927936m cpu or more, but the largest node has 8"),
    ],
)
def test_request_above_the_largest_countable_amount_is_recorded_as_or_more(
    asked: str, or_more: bool, clause: str
) -> None:
    """whatif.md 5.3: no node is known to be large enough, so none is named as a help."""
    seen = Recorded(node("n2", cpu=8), pod("a", cpu=asked)).settle()
    record = seen.one("a")
    assert record.lack is not None
    assert [(one.or_more, one.clause) for one in record.lack.too_big] == [(or_more, clause)]
    assert [one.kind for one in helps_of(record)] == ([] if or_more else ["Node"])


def test_gang_that_lacks_places() -> None:
    """Two of four members fit on n1, one on n2; one more place of 2 GPUs is needed, and n2 has one GPU left.

    The other GPU of n2 is in use: it could become free.
    """
    seen = Recorded(
        node("n1", gpu=4), node("n2", gpu=4), *gang("train", 4, gpu=2), pod("there", gpu=1, node="n2", priority=9)
    ).settle()
    record = seen.one("train", "PodGroup")
    assert record.members is not None
    assert (record.members.tried, record.members.placed, record.members.min_count) == (4, 3, 4)
    assert record.lack is not None
    assert record.lack.more == 1
    assert record.lack.closest is not None
    assert record.lack.closest.missing == {GPU: "1"}
    assert record.lack.closest.names == ("n2",)


def test_no_node_is_close_that_is_too_small_beside_the_members_it_takes() -> None:
    """n2 has one GPU left, but with three in all it never takes two members of 2 GPUs, whatever leaves."""
    seen = Recorded(node("n1", gpu=4), node("n2", gpu=3), *gang("train", 4, gpu=2)).settle()
    lack = seen.one("train", "PodGroup").lack
    assert lack is not None
    assert (lack.more, lack.closest, lack.too_big) == (1, None, ())


_TWO_OF_FOUR = [node("n1", cpu=4), node("n2", cpu=2), node("n3", cpu=8, taints=[("k", "v", "NoSchedule")])]


def test_why_no_room_was_made_for_a_gang() -> None:
    """The condition keeps upstream's words; the potential victims and why they do not help are in the record."""
    low = [pod("low", cpu=4, node="n1"), *gang("crew", 2, cpu=1, node="n2", whole=True, start=5)]
    seen = Recorded(*_TWO_OF_FOUR, *low, *gang("train", 3, cpu=4, priority=9)).settle()
    record = seen.one("train", "PodGroup")
    assert record.message.endswith("pod group is unschedulable, pod group is unschedulable")
    found = record.in_vain
    assert found is not None
    assert (found.reason, found.placed, found.needed) == ("DoesNotFit", 1, 3)
    assert (found.potential_victims, found.pods) == (2, 3)
    assert [(u.unit, u.kind, u.outcome, u.pods, list(u.nodes)) for u in found.looked_at] == [
        ("default/crew", "PodGroup", "LookedAt", 2, ["n2"]),
        ("default/low", "Pod", "LookedAt", 1, ["n1"]),
    ]
    assert found.pod == "default/train-1"
    assert found.nodes == 3
    assert {r.reason: r.nodes for r in found.reasons} == {
        "Insufficient cpu": 2,
        "node(s) had untolerated taint(s)": 1,
    }


@pytest.mark.parametrize(
    ("items", "reason", "lowest"),
    [
        ([pod("low", cpu=4, node="n1", priority=9)], "NoLowerPriority", 9),
        ([pod("low", cpu=4, node="n1", priority=12), pod("x", node="n2", priority=10)], "NoLowerPriority", 10),
        ([], "NoLowerPriority", None),
    ],
    ids=["equal", "higher", "nobody"],
)
def test_units_of_lower_priority_do_not_exist(items: list[Item], reason: str, lowest: int | None) -> None:
    seen = Recorded(*_TWO_OF_FOUR, *items, *gang("train", 3, cpu=4, priority=9)).settle()
    found = seen.one("train", "PodGroup").in_vain
    assert found is not None
    assert (found.reason, found.lowest_priority, found.looked_at) == (reason, lowest, ())


def test_gang_that_may_not_evict_any_pod() -> None:
    items = [*_TWO_OF_FOUR, pod("low", cpu=4, node="n1")]
    seen = Recorded(*items, *gang("train", 1, cpu=4, priority=9, policy="Never", never=True)).settle()
    found = seen.one("train", "PodGroup").in_vain
    assert found is not None
    assert (found.reason, found.potential_victims) == ("PreemptionPolicyNever", 0)


def test_gang_with_terminating_victims() -> None:
    items = [*_TWO_OF_FOUR, pod("low", cpu=4, node="n1", grace=100)]
    seen = Recorded(*items, *gang("train", 1, cpu=4, priority=9))
    seen.world.drain()
    seen.world.add(pod("more", cpu=4, group="train", priority=9))
    seen.world.virtual.until(seen.world.now + 20)
    found = seen.one("train", "PodGroup").in_vain
    assert found is not None
    assert found.reason == "UnderWay"


def test_potential_victims_are_counted_and_the_first_are_named() -> None:
    low = [pod(f"low{i:02d}", cpu="10m", node="n1", start=i) for i in range(MOST_CONSIDERED + 5)]
    seen = Recorded(*_TWO_OF_FOUR, *low, *gang("train", 3, cpu=4, priority=9)).settle()
    found = seen.one("train", "PodGroup").in_vain
    assert found is not None
    assert found.potential_victims == found.pods == MOST_CONSIDERED + 5
    assert [unit.unit for unit in found.looked_at] == [f"default/low{i:02d}" for i in range(MOST_CONSIDERED)]


@pytest.mark.parametrize(("option", "search"), [(GREEDY, "Greedy"), (RETRY, "Retry")])
def test_gang_that_its_order_keeps_from_being_placed(option: str, search: str) -> None:
    """scheduling.md 3.9: record and `explain` say that a placement may exist."""
    profile = profile_with(GangScheduling(option))
    members = [pod(f"m{i}", cpu=cpu, group="crew", priority=5) for i, cpu in enumerate((2, 2, 4))]
    items = [node("n1", cpu=4), node("n2", cpu=4), group("crew", min_count=3, priority=5), *members]
    seen = Recorded(*items, profiles={profile.name: profile}).settle()
    if option == RETRY:
        assert seen.about("crew", "PodGroup") == []
        return
    record = seen.one("crew", "PodGroup")
    assert record.order is not None
    assert (record.order.search, record.order.placed) == (search, 3)


def test_evicted_and_reprieved_with_their_reasons() -> None:
    seen = Recorded(
        node("n1", cpu=4),
        pod("big", cpu=2, node="n1", priority=1, start=-100),
        pod("small", cpu=1, node="n1", priority=2, start=-50),
        pod("high", cpu=2, priority=9),
    ).settle()
    made = seen.one("high").preemption
    assert made is not None
    assert (made.domain, made.potential_victims, made.reprieved_total) == ("n1", 2, 1)
    (gone,) = made.evicted
    assert (gone.unit, gone.kind, gone.outcome, gone.nodes) == ("default/big", "Pod", "Evicted", ("n1",))
    assert gone.why is not None
    assert (gone.why.pod, gone.why.node, gone.why.plugin, gone.why.text) == (
        "default/high",
        "n1",
        "NodeResourcesFit",
        "Insufficient cpu",
    )
    assert (gone.why.resource, gone.why.short) == ("cpu", "1")
    (kept,) = made.reprieved
    assert (kept.unit, kept.outcome, kept.why) == ("default/small", "Reprieved", None)
    assert (made.cost.units, made.cost.pods, made.cost.highest_priority) == (1, 1, 1)
    assert made.cost.running_seconds_lost == pytest.approx(100, abs=5)
    assert [(n.pod, n.node) for n in made.nominations] == [("default/high", "n1")]


@pytest.mark.parametrize(("resource", "unit"), [("gpu", 0), ("cpu", 1)])
def test_lost_work_is_in_hours_to_the_thousandth(resource: str, unit: int) -> None:
    """cost.md 2: GPUs times the time since the start, of a pod without any times its cores."""
    size: dict[str, Any] = {resource: 8}
    seen = Recorded(
        node("n1", cpu=8, gpu=8),
        pod("old", node="n1", priority=1, start=-12_345_678, **size),
        pod("high", priority=9, **size),
    ).settle()
    made = seen.one("high").preemption
    assert made is not None
    hours = round(made.cost.running_seconds_lost * 8 / 3600, 3)
    assert hours > 27_434
    lost = (made.cost.lost_gpu_hours, made.cost.lost_cpu_hours)
    assert (lost[unit], lost[1 - unit]) == (hours, 0.0)


@pytest.mark.parametrize(
    ("items", "criterion", "runner_up"),
    [
        (
            [pod("a", cpu=4, node="n1", labels={"app": "x"}), pod("b", cpu=4, node="n2"), pdb("p", {"app": "x"})],
            "fewest PodDisruptionBudget violations",
            "n1",
        ),
        (
            [pod("a", cpu=4, node="n1", priority=5), pod("b", cpu=4, node="n2", priority=4)],
            "lowest priority of the most important victim",
            "n1",
        ),
        (
            [
                pod("a", cpu=2, node="n1", priority=5),
                pod("a2", cpu=2, node="n1", priority=5),
                pod("b", cpu=4, node="n2", priority=5),
            ],
            "smallest sum of victim priorities",
            "n1",
        ),
        (
            [pod("a", cpu=4, node="n1", start=1), pod("b", cpu=4, node="n2", start=2)],
            "latest start of the most important victims",
            "n1",
        ),
        ([pod("a", cpu=4, node="n1", start=1), pod("b", cpu=4, node="n2", start=1)], "first by name", "n2"),
    ],
    ids=["budgets", "highest", "sum", "start", "name"],
)
def test_comparison_that_decided(items: list[Item], criterion: str, runner_up: str) -> None:
    """preemption.md 3: the order of the criteria."""
    seen = Recorded(node("n1", cpu=4), node("n2", cpu=4), *items, pod("high", cpu=4, priority=9)).settle()
    made = seen.one("high").preemption
    assert made is not None
    comparison = made.comparison
    assert comparison.candidates == 2
    assert comparison.decided_by == criterion
    assert comparison.runner_up is not None
    assert comparison.runner_up.domain == runner_up
    assert comparison.chosen.domain == made.domain != runner_up
    assert comparison.steps[-1].left == 1
    assert comparison.steps[-1].criterion == criterion


def test_runner_up_is_the_second_best_of_all() -> None:
    """Three ways to lose: by priority, by number, by start. The one that loses last is next."""
    seen = Recorded(
        *(node(f"n{i}", cpu=4) for i in (1, 2, 3, 4)),
        pod("a", cpu=4, node="n1", priority=7, start=5),
        pod("b", cpu=4, node="n2", priority=3, start=1),
        pod("c", cpu=4, node="n3", priority=3, start=9),
        pod("d", cpu=4, node="n4", priority=3, start=4),
        pod("high", cpu=4, priority=9),
    ).settle()
    made = seen.one("high").preemption
    assert made is not None
    assert made.domain == "n3"
    assert made.comparison.runner_up is not None
    assert made.comparison.runner_up.domain == "n4"
    assert [(step.criterion, step.left) for step in made.comparison.steps] == [
        ("lowest priority of the most important victim", 3),
        ("latest start of the most important victims", 1),
    ]


def test_victims_find_the_record_of_their_preemptor() -> None:
    seen = Recorded(
        node("n1", cpu=4), *gang("old", 2, cpu=2, node="n1", whole=True), *gang("new", 1, cpu=4, priority=9)
    ).settle()
    for kind, name in (("Pod", "old-0"), ("Pod", "old-1"), ("PodGroup", "old"), ("PodGroup", "new")):
        record = seen.one(name, kind)
        assert record.entity.name == "new"
        assert record.preemption is not None
        assert [(u.unit, u.kind, u.pods, list(u.pod_names)) for u in record.preemption.evicted] == [
            ("default/old", "PodGroup", 2, ["default/old-0", "default/old-1"])
        ]


def test_outcomes_of_preemptions() -> None:
    seen = Recorded(node("n1", cpu=4), pod("low", cpu=4, node="n1"), pod("high", cpu=4, priority=9)).settle()
    done = seen.one("high").preemption
    assert done is not None
    assert (done.state, done.seconds, done.error) == ("Done", 0.02, "")


def test_preemption_that_failed() -> None:
    seen = Recorded(node("n1", cpu=4), pod("low", cpu=4, node="n1"), pod("high", cpu=4, priority=9))
    seen.world.engine.after_step = lambda _: None
    decision = seen.world.step()
    assert decision.preemption is not None
    seen.observer.decided(decision, seconds=0.1, now=START)
    waiting = seen.one("high").preemption
    assert waiting is not None
    assert waiting.state == "UnderWay"
    seen.observer.preemption_ended(decision.preemption, seconds=1.5, error="the API server said no", now=0.0)
    failed = seen.one("high").preemption
    assert failed is not None
    assert (failed.state, failed.error, failed.seconds) == ("Failed", "the API server said no", 1.5)
    assert len(seen.about("high")) == 1


def test_owners_of_what_is_evicted_find_the_record() -> None:
    """observability.md 4.9: the controller of a pod, and a Deployment above a ReplicaSet."""

    def owned(item: objects.Pod, kind: str, name: str, **labels: str) -> objects.Pod:
        owner = OwnerReference(api_version="x/v1", kind=kind, name=name, uid="o", controller=True)
        meta = replace(item.metadata, owner_references=(owner,), labels=labels)
        return replace(item, metadata=meta)

    of_job = owned(pod("train-x", cpu=2, node="n1"), "Job", "train")
    of_web = owned(pod("web-y", cpu=2, node="n1"), "ReplicaSet", "web-abc", **{"pod-template-hash": "abc"})
    seen = Recorded(node("n1", cpu=4), of_job, of_web, pod("high", cpu=4, priority=9)).settle()
    made = seen.one("high").preemption
    assert made is not None
    assert {unit.unit: list(unit.owners) for unit in made.evicted} == {
        "default/train-x": ["job default/train"],
        "default/web-y": ["replicaset default/web-abc", "deployment default/web"],
    }
    for kind, name in (("job", "train"), ("replicaset", "web-abc"), ("deployment", "web")):
        assert [one.entity.name for one in seen.about(name, kind)] == ["high"]
    assert seen.about("other", "job") == []


@pytest.mark.parametrize("went", [0, 1])
def test_record_of_a_preemption_that_failed_has_only_what_was_evicted(went: int) -> None:
    """observability.md 4.8: what it costs, and no capacity that is held."""
    low = [pod(f"low-{turn}", cpu=2, node="n1", start=-60) for turn in range(2)]
    seen = Recorded(node("n1", cpu=4), *low, pod("high", cpu=4, priority=9))
    seen.world.engine.after_step = lambda _: None
    seen.world.engine.cluster.now = START
    decision = seen.world.step()
    assert decision.preemption is not None
    seen.observer.decided(decision, seconds=0.1, now=START)
    for turn in range(went):
        seen.observer.evicted(seen.world.record(f"low-{turn}"), decision.preemption, now=START)
    seen.observer.preemption_ended(decision.preemption, seconds=1.5, error="forbidden", now=START)
    made = seen.one("high").preemption
    assert made is not None
    assert (made.held_until, made.told, made.cascade) == ("", (), ())
    assert (made.cost.units, made.cost.pods, made.cost.running_seconds_lost) == (went, went, went * 60.0)
    assert sorted(unit.outcome for unit in made.evicted) == ["Evicted"] * went + ["NotEvicted"] * (2 - went)
    [item] = history_of(seen.about("high"), None).items
    assert (item.state, item.pods, len(item.victims)) == ("Failed", went, went)


def test_spared_units_are_counted_and_the_first_are_named() -> None:
    spared = [pod(f"s{i:03}", cpu="10m", node="n1", priority=1) for i in range(MOST_REPRIEVED + 20)]
    seen = Recorded(
        node("n1", cpu=8, pods=200), *spared, pod("low", cpu=6, node="n1"), pod("high", cpu=5, priority=9)
    ).settle()
    made = seen.one("high").preemption
    assert made is not None
    assert (len(made.reprieved), made.reprieved_total) == (MOST_REPRIEVED, MOST_REPRIEVED + 20)
    assert [unit.unit for unit in made.evicted] == ["default/low"]


def test_error_is_recorded_with_its_message() -> None:
    """preemption.md 8: pods that differ from the group's priority."""
    seen = Recorded(
        node("n1"),
        group("odd", min_count=2, priority=5),
        pod("a", group="odd", priority=5),
        pod("b", group="odd", priority=6),
    ).settle()
    record = seen.one("odd", "PodGroup")
    assert record.result == "Error"
    assert record.message.startswith("all pods in a single pod group should match the priority of the pod group")


def test_json_is_in_camel_case_without_empty_fields() -> None:
    seen = Recorded(node("n1", cpu=4), pod("low", cpu=4, node="n1"), pod("high", cpu=4, priority=9)).settle()
    (found,) = asyncio.run(seen.store.find("Pod", "default", "high"))
    plain = msgspec.json.decode(encode(found))
    assert plain["preemption"]["potentialVictims"] == 1
    assert plain["preemption"]["evicted"][0]["podNames"] == ["default/low"]
    assert "violatesPdb" not in plain["preemption"]["evicted"][0]
    assert "lack" not in plain
