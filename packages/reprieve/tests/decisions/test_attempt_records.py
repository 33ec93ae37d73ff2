"""An attempt as a decision record, field by field (observability.md 4)."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from reprieve.cluster.pods import PodRecord
from reprieve.decisions.attempts import RecordBuilder, involved_names, reservation_record
from reprieve.decisions.queue_items import reserved_sentence
from reprieve.decisions.records import DecisionRecord, EntityReference, MemberCounts
from reprieve.decisions.reserved_capacity import reserved_capacity
from reprieve.framework.diagnosis import Diagnosis
from reprieve.plugins.gang_scheduling import RETRY, GangScheduling, RepairOptions
from reprieve.preemption.outcome import (
    Deferral,
    DeferralReason,
    Preemption,
    Reason,
    UnhelpfulPreemption,
    UnhelpfulReason,
    Verdict,
)
from reprieve.preemption.units import PreemptionUnit
from reprieve.scheduling.advance_reservation import AdvanceReservation
from reprieve.scheduling.decision import (
    WAITING_FOR_QUORUM,
    Binding,
    Decision,
    GroupCondition,
    OrderMatters,
    Rejection,
    Result,
    TreeLevel,
)
from tests.building import START, World, composite, gang, group, node, pod, profile_with

PROFILE = "default-scheduler"


def _world(**how: Any) -> World:
    """Return two nodes, a gang of which one of six runs, a composite, and pending pods."""
    crew = [group("crew", min_count=5, priority=7), pod("crew-0", cpu=1, node="n1", group="crew", priority=7)]
    crew += [pod(f"crew-{i}", cpu=1, group="crew", priority=7) for i in range(1, 6)]
    waiting = [pod(f"p{i:02}", cpu=1, priority=3) for i in range(30)]
    return World(node("n1"), node("n2"), *crew, composite("tree", min_groups=1, priority=4), *waiting, **how)


def _rejected(world: World, *names: str, message: str = "no") -> tuple[Rejection, ...]:
    return tuple(Rejection(world.record(name), "Unschedulable", message) for name in names)


def _recorded(world: World, ref: str = "pod/uid-p00", result: Result = Result.UNSCHEDULABLE, **more: Any) -> Any:
    fields = {"profile": PROFILE, **more}
    fields.setdefault("rejections", _rejected(world, "p00"))
    return RecordBuilder(world.engine).record(Decision(ref, result, **fields), seconds=0.25, now=START)


def _members(world: World, **more: Any) -> MemberCounts | None:
    """Return the counts of an attempt for the gang: three rejected, two of them for the quorum alone."""
    rejections = (
        *_rejected(world, "crew-1", "crew-2", message=WAITING_FOR_QUORUM),
        *_rejected(world, "crew-3"),
    )
    record: DecisionRecord = _recorded(world, "group/default/crew", rejections=rejections, **more)
    return record.members


def _bound(record: PodRecord) -> Binding:
    return Binding(record, "n1", 0)


@pytest.mark.parametrize(
    ("result", "retry_now", "rejected", "recorded"),
    [
        (Result.UNSCHEDULABLE, False, True, "Unschedulable"),
        (Result.UNSCHEDULABLE, True, True, "Unschedulable"),
        (Result.SCHEDULED, False, True, "PartlyScheduled"),
        (Result.SCHEDULED, True, True, None),
        (Result.SCHEDULED, False, False, None),
        (Result.ERROR, False, True, "Error"),
    ],
)
def test_attempt_is_recorded_if_anything_is_left(
    result: Result, retry_now: bool, rejected: bool, recorded: str | None
) -> None:
    """observability.md 4.1: a rejection is, unless the rest is tried again at once."""
    world = _world()
    rejections = _rejected(world, "p00") if rejected else ()
    record = _recorded(world, result=result, rejections=rejections, retry_now=retry_now)
    assert (record.result if record is not None else None) == recorded


def test_rejected_pod_with_all_that_is_known_of_the_attempt() -> None:
    """observability.md 4.1, 4.4: what is not known is left out."""
    world = _world()
    diagnosis = Diagnosis(2, np.zeros(2, dtype=np.int8), {"b": 1, "c": 2})
    record = _recorded(
        world, diagnosis=diagnosis, rejected_by=frozenset("zxy"), attempt=3, queued_at=START - 1.5, resize=True
    )
    assert msgspec.json.decode(msgspec.json.encode(record)) == {
        "id": 0,
        "apiVersion": "reprieve.dev/v1alpha1",
        "kind": "DecisionRecord",
        "time": "2020-09-13T12:26:40.000000Z",
        "entity": {"kind": "Pod", "namespace": "default", "name": "p00", "uid": "uid-p00", "priority": 3},
        "result": "Unschedulable",
        "message": "no",
        "attempt": 3,
        "profile": PROFILE,
        "timings": {"attemptSeconds": 0.25, "waitingSeconds": 1.5},
        "nodes": 2,
        "reasons": [{"reason": "c", "nodes": 2}, {"reason": "b", "nodes": 1}],
        "rejectedBy": ["x", "y", "z"],
        "pods": [{"message": "no", "reason": "Unschedulable", "pods": 1, "names": ["default/p00"]}],
        "lack": {},
        "resize": True,
    }
    plain = _recorded(world, queued_at=START + 5)
    assert (plain.timings.waiting_seconds, plain.nodes, plain.reasons, plain.lack) == (0.0, 0, (), None)


def test_messages_in_their_order_with_the_first_pods_of_each() -> None:
    """observability.md 4: at most twenty messages, and ten names of each; every pod is counted."""
    world = _world()
    names = [f"p{i:02}" for i in range(30)]
    alike = _recorded(world, rejections=_rejected(world, *names[:12])).pods
    assert [(one.pods, list(one.names)) for one in alike] == [(12, [f"default/{name}" for name in names[:10]])]
    rejections = [each for name in names for each in _rejected(world, name, message=f"m{name}")]
    differing = _recorded(world, rejections=(*rejections, *_rejected(world, "p00", message="mp00"))).pods
    assert [(one.message, one.pods) for one in differing] == [("mp00", 2), *((f"mp{i:02}", 1) for i in range(1, 20))]


@pytest.mark.parametrize(
    ("condition", "message"), [("said", "said"), ("", "no"), (None, "no")], ids=["said", "empty", "none"]
)
def test_message_is_that_of_the_condition_before_that_of_a_pod(condition: str | None, message: str) -> None:
    world = _world()
    conditions = (GroupCondition("default/crew", False, "x", condition),) if condition is not None else ()
    rejections = _rejected(world, "crew-1")
    record = _recorded(world, "group/default/crew", rejections=rejections, conditions=conditions)
    assert record.message == message
    assert _recorded(world, "group/default/crew", preemption=_evicting(world), rejections=()).message == ""


def test_members_of_a_gang_in_numbers() -> None:
    """observability.md 4.1: pods with a place are bound, wait for a permit, or lack the quorum alone."""
    world = _world()
    places = {"bindings": (_bound(world.record("crew-4")),), "waiting": (_bound(world.record("crew-5")),)}
    assert _members(world, **places) == MemberCounts(tried=5, placed=4, min_count=5, already_scheduled=1)
    assert _members(world) == MemberCounts(tried=3, placed=2, min_count=5, already_scheduled=1)
    record = _recorded(world, "group/default/gone", rejections=_rejected(world, "p00"))
    assert record.members == MemberCounts(tried=1, placed=0, min_count=0, already_scheduled=0)
    assert _recorded(world).members is None


@pytest.mark.parametrize(
    ("ref", "entity"),
    [
        ("group/default/crew", ("PodGroup", "crew", "uid-group-crew", 7)),
        ("group/default/gone", ("PodGroup", "gone", "", 0)),
        ("composite/default/tree", ("CompositePodGroup", "tree", "uid-composite-tree", 4)),
        ("pod/uid-p00", ("Pod", "p00", "uid-p00", 3)),
    ],
)
def test_record_names_what_was_tried(ref: str, entity: tuple[str, str, str, int]) -> None:
    """observability.md 4.9: with its UID and priority, as far as it still exists."""
    world = _world()
    found = _recorded(world, ref).entity
    assert (found.kind, found.name, found.uid, found.priority) == entity
    if ref.startswith("pod/"):
        found = _recorded(world, ref, Result.WAITING, rejections=(), preemption=_evicting(world)).entity
        assert (found.name, found.priority) == ("p01", 3)


def test_levels_of_a_tree_that_failed_come_first_where_there_are_many() -> None:
    """composite.md 3.3"""
    world = _world()
    levels = [
        TreeLevel("PodGroup", f"a/{i}", i % 2 == 0, 1, 2, 3, "why", tuple(map(str, range(12)))) for i in range(51)
    ]
    few = _recorded(world, "composite/default/tree", levels=tuple(levels[:50])).levels
    assert [level.name for level in few] == [f"a/{i}" for i in range(50)]
    assert (few[1].ok, few[1].needed, few[1].succeeded, few[1].of, few[1].why) == (False, 1, 2, 3, "why")
    assert few[1].short == tuple(map(str, range(10)))
    many = _recorded(world, "composite/default/tree", levels=tuple(levels)).levels
    assert [level.ok for level in many] == [False] * 25 + [True] * 25


@pytest.mark.parametrize(("until", "stamp"), [(START + 1, "2020-09-13T12:26:41.000000Z"), (None, "")])
def test_deferred_preemption_names_the_first_pods_that_it_waits_for(until: float | None, stamp: str) -> None:
    """observability.md 4.7"""
    world = _world()
    pods = tuple(world.record(f"p{i:02}") for i in range(12))
    waits = _recorded(world, deferral=Deferral(DeferralReason.COMPLETIONS, "later", until, pods)).waits
    assert (waits.reason, waits.message, waits.until, waits.pods_total) == ("Completions", "later", stamp, 12)
    assert list(waits.pods) == [f"default/p{i:02}" for i in range(10)]
    assert _recorded(world).waits is None


@pytest.mark.parametrize("search", ["Greedy", "Retry"])
def test_order_that_would_place_more(search: str) -> None:
    """scheduling.md 3.9"""
    profile = profile_with(GangScheduling(RETRY)) if search == "Retry" else None
    world = _world(**({"profiles": {profile.name: profile}} if profile is not None else {}))
    order = _recorded(world, order_matters=OrderMatters(2)).order
    assert (order.search, order.placed) == (search, 2)
    assert _recorded(world).order is None


def test_preemption_that_did_not_help_is_part_of_the_record() -> None:
    """observability.md 4.3"""
    world = _world()
    failed = UnhelpfulPreemption(world.engine.cluster.groups["default/crew"], UnhelpfulReason.UNDER_WAY)
    assert _recorded(world, unhelpful=failed).in_vain.reason == "UnderWay"
    assert _recorded(world).in_vain is None


def _evicting(world: World) -> Preemption:
    """Return a preemption of `p01` that evicts a gang and spares a pod."""
    crew = world.engine.cluster.groups["default/crew"]
    high, victim = world.record("p01"), world.record("crew-0")
    units = (
        PreemptionUnit("default/crew", (victim,), (0,), 7, True, crew),
        PreemptionUnit("default/p02", (world.record("p02"),), (0,), 1, False, None),
    )
    why = Reason(high, 0, "NodeResourcesFit", "Insufficient cpu")
    return Preemption(
        high, None, 3, "n1", ((high, 0),), (Verdict(units[0], False, why), Verdict(units[1], False, None))
    )


def test_record_is_found_by_what_was_tried_and_what_is_evicted() -> None:
    """observability.md 4.9: not by what was spared."""
    world = _world()
    entity = EntityReference(kind="Pod", namespace="default", name="p01")
    own = ("Pod", "default", "p01")
    cluster = world.engine.cluster
    assert involved_names(cluster, entity, None) == (own,)
    names = involved_names(cluster, entity, _evicting(world))
    assert names == (own, ("PodGroup", "default", "crew"), ("Pod", "default", "crew-0"))
    record = _recorded(world, preemption=_evicting(world), held_until=START + 1)
    assert (record.preemption.held_until, record.lack) == ("2020-09-13T12:26:41.000000Z", None)


# -- reserved capacity -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expected", "start", "message", "backfill"),
    [
        (
            START + 60,
            "2020-09-13T12:27:40Z",
            "expected start 2020-09-13T12:27:40Z",
            "pods that state an end before then may use it",
        ),
        (None, "", "when 2 pods on n1 have ended", "no pods may use it until then"),
    ],
)
def test_reservation_with_its_nodes_and_what_it_waits_for(
    expected: float | None, start: str, message: str, backfill: str
) -> None:
    """reservations.md 6.4"""
    running = [pod(name, cpu=1, node="n01") for name in ("b", "a")]
    world = World(*[node(f"n{i:02}", cpu=4) for i in range(1, 13)], *running, pod("p", cpu=4, priority=1))
    holder = world.record("p")
    holder.nominated = world.row("n01")
    pods = tuple((holder, f"n{i:02}") for i in range(1, 13))
    awaited = tuple(world.record(name) for name in ("b", "a"))
    world.engine.reservations.by_ref["pod/uid-p"] = AdvanceReservation(
        "pod/uid-p", None, pods, 1, START, expected, awaited
    )
    found = reservation_record(world.engine, "pod/uid-p")
    assert found is not None
    assert (list(found.nodes), found.nodes_total) == ([f"n{i:02}" for i in range(1, 11)], 12)
    assert (list(found.waits_for), found.waits_for_total) == (["default/a", "default/b"], 2)
    assert (found.expected_start, found.message.replace("n12", "n1"), found.backfill) == (start, message, backfill)


def test_reservations_as_plans_list_them() -> None:
    """reservations.md 6.4: in the order in which they were made; without a known end no time is stated."""
    world = World(
        node("n1"), pod("r", cpu=1, node="n1"), gang("crew", 1, cpu=4, priority=2), pod("p", cpu=4, priority=1)
    )
    held, crew = world.engine.reservations.by_ref, world.engine.cluster.groups["default/crew"]
    for ref, of, name, expected in (("group/default/crew", crew, "crew-0", None), ("pod/uid-p", None, "p", START)):
        places = ((world.record(name), "n2"), (world.record(name), "n1"))
        held[ref] = AdvanceReservation(ref, of, places, 1, START, expected, (world.record("r"),))
    first, second = reserved_capacity(world.engine)
    assert (str(first.holder), first.holder.priority, first.nodes) == ("podgroup default/crew", 2, ("n1", "n2"))
    assert (first.expected_start, first.waits_for) == (None, ("default/r",))
    assert (str(second.holder), second.expected_start) == ("pod default/p", "2020-09-13T12:26:40Z")
    assert second.backfill == "pods that state an end before then may use it"
    assert reserved_sentence(world.engine, "pod/uid-p") == (
        "reserved on n2, n1: expected start 2020-09-13T12:26:40Z; pods that state an end before then may use it"
    )
    assert reserved_sentence(world.engine, "pod/uid-q") == ""


def test_capacity_of_lost_members_is_reserved_for_their_gang() -> None:
    """repair.md 2: on the nodes that they had, until the last of it is free for all."""
    profile = profile_with(GangScheduling(repair=RepairOptions()))
    profiles = {profile.name: profile}
    world = World(*[node(f"n{i}", cpu=4) for i in range(3)], gang("train", 3, cpu=4), profiles=profiles).drain()
    assert reservation_record(world.engine, "group/default/train") is None
    lost = sorted(world.where[name] for name in ("train-0", "train-1"))
    until = [world.gone(name).drain().now for name in ("train-0", "train-1")][-1]
    found = reservation_record(world.engine, "group/default/train")
    assert found is not None
    assert (sorted(found.nodes), found.nodes_total, found.waits_for_total) == (lost, 2, 0)
    assert found.message.startswith("what its lost members had is kept for replacements until 2020-09-13T12:")
    assert until >= START
