"""cost.md 5.4 and 6.8: how reserved capacity and waiting are reported: events, records, explanations, plans."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from kube_rules import objects
from reprieve.cli.evidence import Evidence, ExplainTarget
from reprieve.cli.explain_text import explanation_of, own_record
from reprieve.cli.history import history_sections
from reprieve.cli.render import plan_sections
from reprieve.cli.sections import plain
from reprieve.cluster.evictions import OWNER, EvictionHistory, EvictionLimit
from reprieve.decisions.history import PreemptionHistory, history_of
from reprieve.decisions.records import CandidateRecord, Comparison, CostRecord, DecisionRecord, PreemptionRecord
from reprieve.decisions.wording import without_success
from reprieve.live.recalled_evictions import recall
from reprieve.page.rights import visible_record
from reprieve.plugins.gang_scheduling import GangScheduling, RepairOptions
from reprieve.plugins.reservations import ReservationOptions, ReservationsPlugin
from reprieve.preemption.default_preemption import DefaultPreemption
from reprieve.preemption.eviction_limits import evicted_unit
from reprieve.preemption.options import PreemptionOptions
from reprieve.preemption.outcome import DeferralReason, UnhelpfulReason
from reprieve.preemption.units import ABOVE_ALL, units_below
from reprieve.scheduling.advance_reservation import AdvanceReservation
from reprieve.scheduling.gang_restarts import GangRestart
from reprieve.scheduling.overruns import Overrun
from reprieve.scheduling.preemptor_reservations import Released
from reprieve.simulation.report import Account, Answer, Plan
from reprieve.simulation.report_preemptions import deferred_preemptions, released_capacity
from tests.building import START, Item, annotated, gang, group, node, pdb, pod, priority_class, profile_with
from tests.observability.test_recording import Recorded
from tests.preemption.test_waiting import at, owned, saying

RULES = Path(__file__).parents[4] / "docs/rules/observability.md"

PREEMPTED = PreemptionRecord(
    domain="cluster",
    potential_victims=0,
    evicted=(),
    reprieved=(),
    reprieved_total=0,
    cost=CostRecord(units=0, pods=0, highest_priority=0),
    comparison=Comparison(candidates=1, chosen=CandidateRecord(domain="cluster")),
    nominations=(),
    nominations_total=0,
)


def recorded(*items: Item | list[objects.KubernetesObject], **options: float) -> Recorded:
    profile = profile_with(DefaultPreemption(PreemptionOptions(**options)))  # type: ignore[arg-type]
    return Recorded(*items, profiles={profile.name: profile})


def explained(record: DecisionRecord, item: objects.Pod | None = None, **asked: object) -> str:
    """The text of `explain` about the waiting entity, on one line."""
    found = Evidence(ExplainTarget("Pod", "default", record.entity.name), pod=item, records=[record], source="http://s")
    for name, value in asked.items():
        setattr(found, name, value)
    return " ".join(plain(explanation_of(found)).split())


def text_of_plan(seen: Recorded) -> str:
    world = seen.world.virtual
    found = Plan(put_off=deferred_preemptions(world), released=released_capacity(world))
    return " ".join(plain(plan_sections(Answer(found, Account(1, 1, 1)))).split())


def held_too_long() -> Recorded:
    """A gang that waits for two victims that do not go, until its room is given back."""
    seen = recorded(
        *[node(f"n{i}", cpu=4) for i in range(2)],
        *[pod(f"low{i}", cpu=4, node=f"n{i}") for i in range(2)],
        gang("crew", 2, priority=9, cpu=4),
        hold_seconds=60,
    )
    seen.world.virtual._leave_at = lambda pod, when: None  # type: ignore[method-assign]
    seen.world.drain()
    return seen


def release(seen: Recorded) -> None:
    world = seen.world.virtual
    world.until(START + 100)
    for room in world.released:
        seen.observer.room_released(room, now=room.released_at)


def test_released_room_is_an_event_on_the_pods_and_the_group() -> None:
    seen = held_too_long()
    release(seen)
    why = "it was reserved for 60 s and not used"
    assert seen.events("RoomReleased") == [
        ("Normal", "crew-0", f"Capacity reserved on n0 is released: {why}"),
        ("Normal", "crew-1", f"Capacity reserved on n1 is released: {why}"),
        ("Normal", "crew", f"Capacity reserved on n0, n1 is released: {why}"),
    ]
    [of_group] = [body for body in seen.sent if body["regarding"]["kind"] == "PodGroup"]
    assert (of_group["action"], of_group["reportingController"]) == ("Preempting", "default-scheduler")


def test_record_has_until_when_room_is_held_and_how_it_was_released() -> None:
    seen = held_too_long()
    preemption = seen.one("crew", "PodGroup").preemption
    assert preemption is not None
    assert preemption.held_until.startswith(at(90)[:-1])
    text = explained(seen.one("crew", "PodGroup"), pod("crew-0", group="crew", nominated="n0"))
    assert "Capacity is reserved for it until 2020-09-13 12:28:10 UTC at the latest." in text
    release(seen)
    preempted = next(one.preemption for one in seen.about("crew", "PodGroup") if one.preemption is not None)
    [released] = preempted.released
    assert (released.reason, released.nodes, released.nodes_total, released.pods) == ("NotUsed", ("n0", "n1"), 2, 2)
    record = next(one for one in seen.about("crew", "PodGroup") if one.preemption is not None)
    text = explained(record, pod("crew-0", group="crew"))
    ending = "released at 2020-09-13 12:28:10 UTC: it was reserved for 60 s and not used."
    sentence = f"The capacity reserved on n0, n1 was {ending}"
    assert sentence in text
    again = Evidence(ExplainTarget("Pod", "default", "crew-0"), pod=pod("crew-0", group="crew"), source="http://s")
    again.records = [replace(record, id=record.id + 1, preemption=PREEMPTED), record]
    text = " ".join(plain(explanation_of(again)).split())
    assert f"Capacity that was reserved for it before {sentence}" in text
    assert "podgroup default/crew n0, n1 1 min 30 s it was reserved for 60 s and not used" in text_of_plan(seen)


def _delayed() -> Recorded:
    high = saying(pod("high", cpu=4, priority=9), preemption_delay="5m")
    return recorded(node("n1", cpu=4), pod("low", cpu=4, node="n1"), (high, START))


def _replacing() -> Recorded:
    return recorded(
        node("n1", cpu=4),
        owned(pod("old", cpu=4, node="n1", priority=5, terminating=True), "Job", "web"),
        (owned(pod("high", cpu=4, priority=5), "Job", "web"), START),
    )


def _completing() -> Recorded:
    ends = saying(pod("ends", cpu=4, node="n1", start=0), expected_end=at(120))
    return recorded(node("n1", cpu=4), ends, (pod("high", cpu=4, priority=9), START), wait_for_completions=600)


def _within() -> Recorded:
    low = saying(pod("low", cpu=4, node="n1", start=0), minimum_runtime="5m")
    return recorded(node("n1", cpu=4), low, (pod("high", cpu=4, priority=9), START))


@pytest.mark.parametrize(
    ("build", "reason", "until", "pods", "explained_as", "planned"),
    [
        (
            _delayed,
            "PreemptionDelay",
            300,
            [],
            "Its preemption-delay ends at 2020-09-13 12:31:40 UTC; capacity that becomes free by then is used",
            "pod default/high its preemption-delay 0 s 5 min",
        ),
        (
            _replacing,
            "Predecessor",
            600,
            ["default/old"],
            "Pods of the same owner are terminating, and their capacity is reserved for it: default/old. "
            "If they still exist at 2020-09-13 12:36:40 UTC, it looks for other capacity.",
            "pod default/high default/old of the same owner to terminate 0 s 10 min",
        ),
        (
            _completing,
            "Completions",
            121,
            ["default/ends"],
            "These pods state when they end, and their capacity is enough: default/ends. If they have not ended "
            "at 2020-09-13 12:28:41 UTC, it preempts. Nothing is reserved for it until then.",
            "pod default/high default/ends to end 0 s 2 min 1 s",
        ),
        (
            _within,
            "MinimumRuntime",
            300,
            [],
            "Its potential victims are within their minimum-runtime; the first ends at 2020-09-13 12:31:40 UTC.",
            "pod default/high workloads within their minimum-runtime 0 s 5 min",
        ),
    ],
    ids=["delay", "predecessor", "completions", "minimum-runtime"],
)
def test_waiting_preemptor_is_reported_with_what_it_waits_for_and_until_when(
    build: Callable[[], Recorded], reason: str, until: float, pods: list[str], explained_as: str, planned: str
) -> None:
    seen = build()
    seen.world.drain()
    record = seen.one("high")
    waits = record.waits
    assert waits is not None
    assert (record.result, waits.reason, list(waits.pods), waits.pods_total) == (
        "Unschedulable",
        reason,
        pods,
        len(pods),
    )
    assert waits.until.startswith(at(until)[:-1])
    assert record.message.removesuffix(".").endswith(waits.message)
    assert ("Warning", "high", record.message) in seen.events("FailedScheduling")
    text = explained(record, pod("high", cpu=4, priority=9))
    assert "Preemption is deferred" in text
    assert explained_as in text
    assert planned in text_of_plan(seen)


@pytest.mark.parametrize(
    "budgets",
    [{"a0": 0, "a1": 0}, {"a0": 0, "a1": 1}],
    ids=["nobody-may-go", "one-may-go-who-does-not-suffice"],
)
def test_group_that_respects_budgets_is_reported_as_blocked_by_them(budgets: dict[str, int]) -> None:
    """cost.md 2.8, observability.md 1.9, 4.3: and not that evicting all of lower priority would not help."""
    seen = recorded(
        priority_class("respects", 9, annotated(pdb_policy="Respect")),
        *[node(f"n{i}", cpu=4) for i in range(2)],
        *[pod(f"a{i}", cpu=4, node=f"n{i}", labels={"app": f"a{i}"}) for i in range(2)],
        *[pdb(f"b-{app}", {"app": app}, allowed=allowed) for app, allowed in budgets.items()],
        group("crew", min_count=2, priority=9, priority_class="respects"),
        *[pod(f"crew-{i}", cpu=4, priority=9, group="crew", priority_class="respects") for i in range(2)],
    ).settle()
    record = seen.one("crew", "PodGroup")
    assert record.in_vain is not None
    assert (record.in_vain.reason, record.in_vain.potential_victims) == ("Budgets", 0)
    assert "a PodDisruptionBudget would be violated" in record.message
    assert without_success(record.in_vain, 9) == [
        "Every eviction that would help violates a PodDisruptionBudget, and its class respects them."
    ]


@pytest.mark.parametrize("reason", [*Released, *DeferralReason, *UnhelpfulReason])
def test_every_reason_stands_in_the_rules(reason: Released | DeferralReason | UnhelpfulReason) -> None:
    """observability.md 4: people and tools grep for them."""
    assert f"`{reason.value}`" in RULES.read_text()


def test_reservation_for_what_waits_for_long_is_an_event_and_what_is_idle_a_gauge() -> None:
    """reservations.md 6.1, 6.2; observability.md 2.3."""
    profile = profile_with(ReservationsPlugin(ReservationOptions(reserve_after=60.0)))
    items: list[Item] = [node(f"n{i}", cpu=4) for i in range(5)]
    items += [pod(f"r{i}", cpu=4, node=f"n{i}", start=0) for i in range(5)]
    seen = Recorded(*items, *gang("train", 5, cpu=4), profiles={profile.name: profile})
    seen.world.drain().virtual.until(START + 120)
    [reservation] = seen.world.engine.reservations.by_ref.values()
    seen.observer.capacity_reserved(reservation, now=seen.world.now)
    some = "n0, n1, n2 and 2 more"
    note = f"Capacity reserved on {some}: when 5 pods on {some} have ended"
    assert seen.events("CapacityReserved") == [("Normal", "train", note)]
    reservation.unchanged = True
    seen.observer.capacity_reserved(reservation, now=seen.world.now)
    assert seen.events("CapacityReserved") == [("Normal", "train", note)]

    assert seen.value("reprieve_reserved_idle_resources", resource="cpu") == 0
    seen.world.gone("r0").virtual.until(START + 240)
    seen.world.engine.tick(seen.world.now)
    assert seen.value("reprieve_reserved_idle_resources", resource="cpu") == 4


def test_gang_that_lost_members_is_reported() -> None:
    """repair.md 3.4, 4.4; observability.md 2.9."""
    profile = profile_with(GangScheduling(repair=RepairOptions(degraded_seconds=100.0)))
    asks = {"scheduling.reprieve.dev/recovery-policy": "Restart"}
    members = [pod(f"train-{i}", cpu=4, group="train", node=f"n{i}") for i in range(2)]
    seen = Recorded(
        node("n0", cpu=4), node("n1", cpu=4), group("train", min_count=2, annotations=asks), *members,
        profiles={profile.name: profile},
    )  # fmt: skip
    engine = seen.world.drain().engine
    seen.world.gone("train-0")
    [place] = engine.tick(seen.world.now).lost_places
    seen.observer.capacity_kept(place, now=seen.world.now)
    note = "Capacity on n0 is kept for a replacement of pod default/train-0 for 60 s"
    assert seen.events("CapacityKept") == [("Normal", "train", note)]
    assert seen.value("reprieve_degraded_pod_groups") == 1
    assert seen.value("scheduler_podgroup_satisfaction_transitions_total", satisfied="false") == 1

    [restart] = engine.tick(seen.world.now + 100).evictions
    assert isinstance(restart, GangRestart)
    seen.observer.evicts(restart, now=seen.world.now + 100)
    note = (
        "1 pod of podgroup default/train is evicted: 1 of 2 members scheduled for 1m40s, and "
        "scheduling.reprieve.dev/recovery-policy: Restart"
    )
    assert seen.events("GangRestarted") == [("Warning", "train", note)]
    assert seen.value("reprieve_pod_group_restarts_total") == 1

    # repair.md 4.5, observability.md 4.10: one record, which `explain`, `history` and eviction limits have
    seen.observer.evicts(restart, now=seen.world.now + 160)
    [record] = seen.about("train", "PodGroup")
    made = record.preemption
    assert made is not None
    assert (record.result, record.message, made.state) == ("Evicted", restart.message, "UnderWay")
    assert (made.cause, made.cost.pods) == ("GangRestarted", 1)
    [unit] = made.evicted
    assert (unit.unit, unit.kind, unit.pod_names) == ("default/train", "PodGroup", ("default/train-1",))
    seen.observer.eviction_ended(restart)
    [record] = seen.about("train-1")
    assert record.preemption is not None
    assert record.preemption.state == "Done"
    [item] = history_of([record], "default").items
    assert [victim.why for victim in item.victims] == [restart.message]
    [section] = history_sections(PreemptionHistory(items=(item,)), "1d")
    assert (item.cause, section.title) == ("GangRestarted", "1 eviction in the last 1d: 1 pod evicted")
    counted = EvictionHistory([EvictionLimit(OWNER, 1, 3600.0)])
    asyncio.run(recall(seen.store, counted, seen.world.now + 200))
    assert counted.used(0, evicted_unit(engine.cluster, restart.unit), seen.world.now + 200) == [seen.world.now + 100]
    crew = Evidence(ExplainTarget("PodGroup", "default", "train"), records=[record], source="s")
    [section] = [section for section in explanation_of(crew) if section.title.startswith("Evicted ")]
    assert section.notes == (f"Why it was evicted: {restart.message}.",)
    assert own_record(crew) is None, "it is no attempt to place the gang"

    # a failed call left it unfinished: when other pods of the gang are evicted later, that is another eviction
    seen.observer.evicts(restart, now=seen.world.now + 300)
    seen.world.add(pod("train-9", cpu=4, group="train", node="n0"))
    later = dataclasses.replace(restart.unit, pods=(seen.world.record("train-9"),))
    seen.observer.evicts(dataclasses.replace(restart, unit=later), now=seen.world.now + 900)
    assert len(seen.about("train", "PodGroup")) == 3


def test_backfilled_work_that_is_evicted_has_a_record() -> None:
    """reservations.md 4.5, observability.md 4.10: not for other namespaces."""
    seen = Recorded(node("n", cpu=4), pod("late", cpu=4, node="n", start=0.0), pod("holder", cpu=4))
    cluster, holder = seen.world.engine.cluster, seen.world.record("holder")
    [unit] = units_below(cluster, ABOVE_ALL, [seen.world.record("late")])
    held = AdvanceReservation("pod/uid-holder", None, ((holder, "n"),), 0, START, None, ())
    overrun = Overrun(unit, held, "its stated end 10:00 has passed, and its capacity is reserved for default/holder")
    seen.observer.evicts(overrun, now=START + 60)
    record = seen.one("late")
    made = record.preemption
    assert made is not None
    assert (record.entity.name, made.cause, made.evicted[0].because) == ("holder", "BackfillOverrun", overrun.message)
    [victim] = history_of([record], None, node="n").items[0].victims
    assert victim.why == overrun.message
    hidden = visible_record(record, frozenset(["other"])).preemption
    assert hidden is not None
    assert hidden.evicted[0].because == ""
