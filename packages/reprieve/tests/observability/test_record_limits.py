"""What a decision record holds of attempts that are large: the first of a list, and the full number beside it.

observability.md 4; `reprieve.decisions.records`: a record is bounded whatever the size of the cluster.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from reprieve.cluster.pods import PodRecord
from reprieve.decisions.records import CostRecord, DecisionRecord, FailedPreemption, decode
from reprieve.observability.recorder import RecordKeeper
from reprieve.observability.store import MemoryStore
from reprieve.preemption.lost_work import EvictedPods
from reprieve.preemption.outcome import Deferral, DeferralReason, UnhelpfulPreemption, UnhelpfulReason
from reprieve.scheduling.decision import (
    WAITING_FOR_QUORUM,
    Binding,
    Decision,
    GroupCondition,
    OrderMatters,
    Result,
    TreeLevel,
)
from reprieve.scheduling.preemptor_reservations import Released, ReleasedReservation
from tests.building import START, World, group, node, pod
from tests.observability.decisions import evicting, failed, rejection, unit

PROFILE = "default-scheduler"


class Keeping:
    """A keeper of records, and a world of `pods` pods on `nodes` nodes that its decisions are about."""

    def __init__(self, pods: int = 3, nodes: int = 3) -> None:
        where = [node(f"n{row:03}", pods=1000) for row in range(nodes)]
        running = [pod(f"p{i:03}", node=f"n{i % nodes:03}", priority=1, start=i) for i in range(pods)]
        self.world = World(*where, group("crew", min_count=2, priority=5), *running)
        self.store = MemoryStore()
        self.keeper = RecordKeeper(self.store)
        self.keeper.attach(self.world.engine)

    def pods(self, count: int) -> list[PodRecord]:
        return [self.world.record(f"p{i:03}") for i in range(count)]

    def decide(self, decision: Decision, now: float = START) -> DecisionRecord:
        self.keeper.decided(replace(decision, profile=PROFILE), seconds=0.5, now=now)
        return self.newest(decision)

    def newest(self, decision: Decision) -> DecisionRecord:
        return self.about(decision)[0]

    def about(self, decision: Decision) -> list[DecisionRecord]:
        kind, _, name = decision.ref.partition("/")
        found = ("PodGroup", *name.split("/")) if kind == "group" else ("Pod", "default", name.removeprefix("uid-"))
        return asyncio.run(self.store.find(*found))


# -- lists and their limits --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pods", [9, 10, 11, 25])
def test_ten_pods_are_named_of_those_with_one_message(pods: int) -> None:
    keeping = Keeping(pods)
    [message] = keeping.decide(failed(*map(rejection, keeping.pods(pods)))).pods
    assert (message.pods, list(message.names)) == (pods, [f"default/p{i:03}" for i in range(min(pods, 10))])


@pytest.mark.parametrize("messages", [19, 20, 21])
def test_twenty_messages_are_kept_and_pods_with_one_of_them_are_counted(messages: int) -> None:
    """In the order in which they come up; the reason tells apart what reads alike."""
    keeping = Keeping(messages + 1)
    first = [rejection(one, f"m{i}") for i, one in enumerate(keeping.pods(messages))]
    found = keeping.decide(failed(*first, rejection(keeping.pods(messages + 1)[-1], "m3"))).pods
    assert [one.message for one in found] == [f"m{i}" for i in range(min(messages, 20))]
    assert [one.pods for one in found] == [2 if i == 3 else 1 for i in range(min(messages, 20))]


def test_one_message_for_two_reasons_is_two() -> None:
    keeping = Keeping(2)
    one, other = keeping.pods(2)
    found = keeping.decide(failed(rejection(one), rejection(other, reason="SchedulerError"))).pods
    assert [(each.reason, each.message, each.pods) for each in found] == [
        ("Unschedulable", "no", 1),
        ("SchedulerError", "no", 1),
    ]


def level(number: int, ok: bool, short: int = 0) -> TreeLevel:
    names = tuple(f"c{i}" for i in range(short))
    return TreeLevel(
        "PodGroup", f"default/g{number}", ok, needed=1, succeeded=int(ok), total=2, reason="full", failed_groups=names
    )


@pytest.mark.parametrize(("groups", "shown"), [(50, [*range(50)]), (51, [*range(1, 51, 2), *range(0, 50, 2)])])
def test_fifty_groups_of_a_tree_are_shown_those_that_failed_first_where_there_are_more(
    groups: int, shown: list[int]
) -> None:
    """All of them stay in the order of the tree."""
    keeping = Keeping(1)
    levels = tuple(level(i, ok=i % 2 == 0) for i in range(groups))
    found = keeping.decide(failed(rejection(keeping.pods(1)[0]), levels=levels)).levels
    assert [one.name for one in found] == [f"default/g{i}" for i in shown]


def test_level_has_the_outcome_of_a_group_and_names_ten_of_its_children() -> None:
    keeping = Keeping(1)
    [found] = keeping.decide(failed(rejection(keeping.pods(1)[0]), levels=(level(0, ok=False, short=11),))).levels
    assert msgspec.to_builtins(found) == {
        "kind": "PodGroup",
        "name": "default/g0",
        "ok": False,
        "needed": 1,
        "succeeded": 0,
        "of": 2,
        "why": "full",
        "short": tuple(f"c{i}" for i in range(10)),
    }


@pytest.mark.parametrize("spared", [99, 100, 101])
def test_hundred_spared_units_are_shown_and_all_evicted_ones(spared: int) -> None:
    keeping = Keeping(2)
    preemptor, other = keeping.pods(2)
    units = tuple(unit(other, name=f"default/u{i}") for i in range(spared))
    made = keeping.decide(evicting(preemptor, *units, spared=units)).preemption
    assert made is not None
    assert (made.potential_victims, len(made.evicted)) == (2 * spared, spared)
    assert (made.reprieved_total, len(made.reprieved)) == (spared, min(spared, 100))


@pytest.mark.parametrize("pods", [199, 200, 201])
def test_two_hundred_nominations_are_shown(pods: int) -> None:
    keeping = Keeping(pods)
    nominations = tuple((one, 0) for one in keeping.pods(pods))
    made = keeping.decide(evicting(keeping.pods(1)[0], nominations=nominations)).preemption
    assert made is not None
    assert (made.nominations_total, len(made.nominations)) == (pods, min(pods, 200))


@pytest.mark.parametrize(("pods", "nodes"), [(10, 10), (11, 11), (12, 11), (12, 2)])
def test_unit_names_ten_pods_and_ten_nodes_each_once(pods: int, nodes: int) -> None:
    keeping = Keeping(pods, nodes)
    made = keeping.decide(evicting(keeping.pods(1)[0], unit(*reversed(keeping.pods(pods))))).preemption
    assert made is not None
    [gone] = made.evicted
    assert (gone.pods, gone.nodes_total) == (pods, nodes)
    assert list(gone.pod_names) == [f"default/p{i:03}" for i in reversed(range(max(0, pods - 10), pods))]
    assert list(gone.nodes) == [f"n{row:03}" for row in range(min(nodes, 10))]
    assert made.cost.pods == pods


@pytest.mark.parametrize("pods", [10, 11])
def test_ten_of_those_it_waits_for_are_named(pods: int) -> None:
    """observability.md 4.7."""
    keeping = Keeping(pods + 1)
    waiting = Deferral(DeferralReason.PREDECESSOR, "waits", None, tuple(keeping.pods(pods)))
    found = keeping.decide(failed(rejection(keeping.pods(1)[0]), deferral=waiting)).waits
    assert found is not None
    assert (found.reason, found.message, found.until) == ("Predecessor", "waits", "")
    assert (found.pods_total, list(found.pods)) == (pods, [f"default/p{i:03}" for i in range(10)])


@pytest.mark.parametrize("times", [9, 10, 11])
def test_last_ten_releases_of_its_room_are_kept(times: int) -> None:
    """observability.md 4.6."""
    keeping = Keeping(12, 12)
    decision = evicting(keeping.pods(1)[0])
    keeping.decide(decision)
    for number in range(times):
        held = tuple((one, f"n{i:03}") for i, one in enumerate(keeping.pods(number + 1)))
        keeping.keeper.room_released(ReleasedReservation(decision.ref, None, held, Released.MOVED, f"r{number}", START))
    made = keeping.newest(decision).preemption
    assert made is not None
    assert [one.message for one in made.released] == [f"r{i}" for i in range(max(0, times - 10), times)]
    last = made.released[-1]
    assert (last.reason, last.time, last.pods, last.nodes_total) == (
        "Moved",
        "2020-09-13T12:26:40.000000Z",
        times,
        times,
    )
    assert list(last.nodes) == [f"n{i:03}" for i in range(min(times, 10))]


# -- what is kept of earlier records -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("others", "known"), [(63, True), (64, False)])
def test_end_of_a_preemption_is_recorded_while_it_is_one_of_the_last_64(others: int, known: bool) -> None:
    keeping = Keeping(others + 1)
    first, *rest = [evicting(one) for one in keeping.pods(others + 1)]
    keeping.decide(first)
    for decision in rest:
        keeping.decide(decision)
    assert first.preemption is not None
    keeping.keeper.preemption_ended(first.preemption, seconds=1.5, error="refused", evicted=EvictedPods())
    keeping.keeper.room_released(ReleasedReservation(first.ref, None, (), Released.TAKEN, "gone", START))
    made = keeping.newest(first).preemption
    assert made is not None
    ended = ("Failed", "refused", 1.5) if known else ("UnderWay", "", 0.0)
    assert (made.state, made.error, made.seconds) == ended
    assert [one.message for one in made.released] == (["gone"] if known else [])


def test_room_that_is_held_again_counts_from_then() -> None:
    """The latest of the preemptions with room are known: one that is decided again is a late one."""
    keeping = Keeping(65)
    first, *rest = [evicting(one) for one in keeping.pods(65)]
    for decision in (first, *rest[:-1], first, rest[-1]):
        keeping.decide(decision)
    for decision, known in ((first, True), (rest[0], False)):
        keeping.keeper.room_released(ReleasedReservation(decision.ref, None, (), Released.TAKEN, "gone", START))
        made = keeping.newest(decision).preemption
        assert made is not None
        assert bool(made.released) is known


def test_preemption_ends_once_and_one_that_is_not_known_changes_nothing() -> None:
    keeping = Keeping(2)
    decision, other = (evicting(one) for one in keeping.pods(2))
    assert decision.preemption is not None
    keeping.keeper.preemption_ended(decision.preemption, seconds=1.0, error=None, evicted=EvictedPods())
    keeping.keeper.room_released(ReleasedReservation(decision.ref, None, (), Released.TAKEN, "gone", START))
    assert len(keeping.store) == 0
    keeping.decide(decision)
    keeping.decide(other)
    keeping.keeper.preemption_ended(decision.preemption, seconds=1.0, error=None, evicted=EvictedPods())
    keeping.keeper.preemption_ended(decision.preemption, seconds=9.0, error="again", evicted=EvictedPods())
    made, beside = keeping.newest(decision).preemption, keeping.newest(other).preemption
    assert made is not None
    assert beside is not None
    assert (made.state, made.error, made.seconds) == ("Done", "", 1.0)
    assert beside.state == "UnderWay"


SAME = failed()
CHANGES: dict[str, tuple[dict[str, Any], int]] = {
    "nothing": ({}, 1),
    "the-attempt": ({"attempt": 7}, 1),
    "the-message": ({"rejections": "other"}, 2),
    "the-result": ({"result": Result.ERROR}, 2),
}


@pytest.mark.parametrize("case", CHANGES)
def test_same_outcome_again_is_counted_in_its_record(case: str) -> None:
    change, records = CHANGES[case]
    keeping = Keeping(1)
    [one] = keeping.pods(1)
    if "rejections" in change:
        change = {"rejections": (rejection(one, "other"),)}
    decision = failed(rejection(one))
    keeping.decide(decision, START)
    found = keeping.decide(replace(decision, **change), START + 5)
    assert len(keeping.about(decision)) == records
    assert found.time == "2020-09-13T12:26:45.000000Z"
    if records == 1:
        assert (found.repeated, found.first_time) == (1, "2020-09-13T12:26:40.000000Z")
        again = keeping.decide(decision, START + 6)
        assert (again.repeated, again.first_time, again.id) == (2, found.first_time, found.id)
    else:
        assert (found.repeated, found.first_time) == (0, "")


def test_preemption_between_two_equal_rejections_begins_anew() -> None:
    keeping = Keeping(1)
    [one] = keeping.pods(1)
    rejected = failed(rejection(one), key=f"pod/{one.uid}")
    for decision in (rejected, evicting(one), evicting(one), rejected):
        keeping.decide(decision)
    assert [(found.result, found.repeated) for found in keeping.about(rejected)] == [
        ("Unschedulable", 0),
        ("Preempting", 0),
        ("Preempting", 0),
        ("Unschedulable", 0),
    ]


# -- what leaves a record, and what it says ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("result", "rejected", "retry", "records"),
    [
        (Result.UNSCHEDULABLE, True, False, 1),
        (Result.UNSCHEDULABLE, True, True, 1),
        (Result.ERROR, True, False, 1),
        (Result.SCHEDULED, True, False, 1),
        (Result.SCHEDULED, True, True, 0),
        (Result.SCHEDULED, False, False, 0),
        (Result.UNSCHEDULABLE, False, False, 0),
    ],
    ids=["rejected", "rejected-again", "error", "in-part", "the-rest-is-tried-at-once", "placed", "nobody-tried"],
)
def test_attempts_that_end_in_a_rejection_leave_a_record(
    result: Result, rejected: bool, retry: bool, records: int
) -> None:
    """observability.md 4.1."""
    keeping = Keeping(1)
    [one] = keeping.pods(1)
    rejections = (rejection(one),) if rejected else ()
    decision = Decision("group/default/crew", result, rejections=rejections, retry_now=retry, profile=PROFILE)
    keeping.keeper.decided(decision, seconds=0.1, now=START)
    assert len(keeping.store) == records


def test_keeper_without_an_engine_records_nothing() -> None:
    keeping = Keeping(1)
    store = MemoryStore()
    RecordKeeper(store).decided(failed(rejection(keeping.pods(1)[0])), seconds=0.1, now=START)
    assert len(store) == 0


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        ((), "of the pod"),
        ((GroupCondition("default/crew", False, "Unschedulable", "of the group"),), "of the group"),
        ((GroupCondition("default/crew", False, "Unschedulable", ""),), "of the pod"),
    ],
    ids=["no-condition", "of-the-group", "empty"],
)
def test_message_is_that_of_the_group_and_else_of_the_first_pod(
    conditions: tuple[GroupCondition, ...], message: str
) -> None:
    keeping = Keeping(2)
    one, other = keeping.pods(2)
    decision = failed(rejection(one, "of the pod"), rejection(other, "other"), conditions=conditions)
    assert keeping.decide(decision).message == message


@pytest.mark.parametrize(("queued", "waited"), [(START - 60, 60.0), (START, 0.0), (START + 60, 0.0)])
def test_times_of_the_attempt_and_since_it_might_be_tried(queued: float, waited: float) -> None:
    keeping = Keeping(1)
    timings = keeping.decide(failed(rejection(keeping.pods(1)[0]), queued_at=queued)).timings
    assert (timings.attempt_seconds, timings.waiting_seconds) == (0.5, waited)


def test_members_of_a_gang_in_numbers() -> None:
    """Those that had a place but too few fellows count as placed."""
    keeping = Keeping(4)
    bound, allowed, quorum, no = keeping.pods(4)
    decision = failed(
        rejection(quorum, WAITING_FOR_QUORUM),
        rejection(no),
        bindings=(Binding(bound, "n000", 0),),
        waiting=(Binding(allowed, "n000", 0),),
        order_matters=OrderMatters(3),
        rejected_by=frozenset(("B", "A")),
    )
    found = keeping.decide(decision)
    assert found.members is not None
    assert (found.members.tried, found.members.placed) == (4, 3)
    assert (found.members.min_count, found.members.already_scheduled) == (2, 0)
    assert found.order is not None
    assert (found.order.search, found.order.placed, found.rejected_by) == ("Greedy", 3, ("A", "B"))
    assert (found.entity.kind, found.entity.name, found.entity.priority) == ("PodGroup", "crew", 5)


def test_group_that_is_gone_meanwhile_is_recorded_by_name() -> None:
    keeping = Keeping(1)
    found = keeping.decide(failed(rejection(keeping.pods(1)[0]), key="group/default/gone"))
    assert (found.entity.name, found.entity.uid, found.entity.priority) == ("gone", "", 0)
    assert found.members is not None
    assert (found.members.min_count, found.members.already_scheduled) == (0, 0)


@pytest.mark.parametrize(
    ("starts", "lost", "oldest"),
    [
        ([-60.0, -10.0], 70.0, 60.0),
        ([-60.0, None], 60.0, 60.0),
        ([None, None], 0.0, None),
        ([-60.0, 30.0], 60.0, 60.0),
        ([30.0], 0.0, 0.0),
    ],
    ids=["all", "one-is-not-known", "none-is-known", "one-starts-later", "the-clock-went-back"],
)
def test_running_time_that_is_lost(starts: list[float | None], lost: float, oldest: float | None) -> None:
    """observability.md 4.4: summed over pods with a known start; of a unit that of its oldest pod."""
    keeping = Keeping(3)
    preemptor, *rest = keeping.pods(3)
    for one, start in zip(rest, starts, strict=False):
        one.start = None if start is None else START + start
    made = keeping.decide(evicting(preemptor, unit(*rest[: len(starts)]))).preemption
    assert made is not None
    assert (made.cost.running_seconds_lost, made.evicted[0].running_seconds) == (lost, oldest)


def test_preemption_cost_by_upstream_criteria() -> None:
    """preemption.md 3; cost.md 1: in their order."""
    keeping = Keeping(3)
    preemptor, one, other = keeping.pods(3)
    made = keeping.decide(evicting(preemptor, unit(one), unit(other))).preemption
    assert made is not None
    earliest = START + 1
    assert made.cost.by_criterion == {
        "pdbViolations": 0,
        "highestPriority": 1,
        "prioritySum": 2 * (1 + 2**31),
        "pods": 2,
        "startTime": -earliest,
    }
    assert msgspec.to_builtins(made.comparison.chosen) == {
        "domain": "n000",
        "highestPriority": 1,
        "prioritySum": 2 * (1 + 2**31),
        "pods": 2,
        "earliestStart": "2020-09-13T12:26:41.000000Z",
    }


def test_preemption_without_victims_costs_nothing() -> None:
    keeping = Keeping(1)
    made = keeping.decide(evicting(keeping.pods(1)[0])).preemption
    assert made is not None
    assert made.cost == CostRecord(units=0, pods=0, highest_priority=0)


def test_victims_and_not_those_spared_find_the_record() -> None:
    """Wherever they stand in the order of importance."""
    keeping = Keeping(3)
    preemptor, gone, spared = keeping.pods(3)
    decision = evicting(preemptor, unit(gone), spared=(unit(spared),))
    assert decision.preemption is not None
    verdicts = decision.preemption.verdicts[::-1]
    keeping.decide(replace(decision, preemption=replace(decision.preemption, verdicts=verdicts)))
    found = {name: len(asyncio.run(keeping.store.find("Pod", "default", name))) for name in ("p000", "p001", "p002")}
    assert found == {"p000": 1, "p001": 1, "p002": 0}


def test_pod_that_preempts_without_a_message_is_recorded_by_its_nomination() -> None:
    keeping = Keeping(2)
    first, other = keeping.pods(2)
    decision = evicting(first, nominations=((first, 0), (other, 1)))
    found = keeping.decide(replace(decision, rejections=()))
    assert (found.entity.name, found.entity.uid, found.message) == ("p000", "uid-p000", "")


def test_group_that_finds_no_room_without_a_look_at_nodes_has_none() -> None:
    """observability.md 4.3."""
    keeping = Keeping(1)
    crew = keeping.world.engine.cluster.groups.get("default/crew")
    assert crew is not None
    vain = UnhelpfulPreemption(crew, UnhelpfulReason.UNDER_WAY)
    found = keeping.decide(failed(rejection(keeping.pods(1)[0]), unhelpful=vain)).in_vain
    assert found == FailedPreemption(reason="UnderWay")


def test_record_fields_left_out_are_empty() -> None:
    """Records of a version before a field was there, and fields that are left out as they are empty."""
    named = b'"entity":{"kind":"Pod","namespace":"d","name":"a"}'
    unit_ = b'{"unit":"d/a","kind":"Pod","outcome":"Evicted","priority":1,"pods":1,"podNames":[],"nodes":[]}'
    chosen = b'"comparison":{"candidates":1,"chosen":{"domain":"n"},"runnerUp":{"domain":"m"}}'
    made = b'"preemption":{"domain":"n","potentialVictims":1,"evicted":[%s],"reprieved":[],"reprievedTotal":0,' % unit_
    made += b'"cost":{"units":1,"pods":1,"highestPriority":0},%s,"nominations":[],"nominationsTotal":0}' % chosen
    rest = b'"result":"R","message":"m","attempt":1,"timings":{"attemptSeconds":0,"waitingSeconds":0}'
    more = b'"lack":{"tooBig":[{"resource":"cpu","asked":"2","largest":"1"}]},"inVain":{"reason":"Budgets"}'
    more += b',"members":{"tried":1,"placed":0},"waits":{"reason":"PreemptionDelay","message":"m"}'
    more += b',"order":{"search":"Greedy"},"unknownField":1'
    record: Any = decode(b'{"id":1,"time":"t",%s,%s,%s,%s}' % (named, rest, made, more))
    assert (record.entity.priority, record.repeated, record.nodes) == (0, 0, 0)
    assert (record.members.min_count, record.members.already_scheduled, record.order.placed) == (0, 0, 0)
    assert (record.lack.more, record.lack.too_big[0].or_more, record.waits.pods_total) == (1, False, 0)
    vain = record.in_vain
    assert (vain.potential_victims, vain.pods, vain.placed, vain.needed, vain.nodes) == (0, 0, 0, 0, 0)
    found = record.preemption
    assert (found.seconds, found.state, found.evicted[0].nodes_total, found.evicted[0].violates_pdb) == (
        0.0,
        "UnderWay",
        0,
        False,
    )
    assert (found.cost.pdb_violations, found.cost.running_seconds_lost) == (0, 0.0)
    assert (found.cost.lost_gpu_hours, found.cost.lost_cpu_hours) == (0.0, 0.0)
    for candidate in (found.comparison.chosen, found.comparison.runner_up):
        assert (candidate.pdb_violations, candidate.highest_priority, candidate.priority_sum, candidate.pods) == (
            0,
            0,
            0,
            0,
        )
