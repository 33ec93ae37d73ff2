"""How often anything may be evicted (cost.md 9)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from kube_rules import objects
from kube_rules.meta import OwnerReference
from reprieve.cluster.evictions import CLUSTER, NAMESPACE, OWNER, REPEATS, EvictedUnit, EvictionHistory, EvictionLimit
from reprieve.decisions.preemptions import preemption_record
from reprieve.decisions.records import DecisionRecord, EntityReference, Timings
from reprieve.framework.profile import Profile
from reprieve.live.recalled_evictions import recall
from reprieve.observability.database.location import RecordsDatabase
from reprieve.observability.database.store import DatabaseStore
from reprieve.preemption.default_preemption import DefaultPreemption
from reprieve.preemption.eviction_limits import SYSTEM_CRITICAL, evicted_unit
from reprieve.preemption.options import PreemptionOptions
from tests.building import START, World, gang, group, node, pod, profile_with
from tests.preemption.by_name import units_of

HOUR = 3600.0


def _limited(*limits: EvictionLimit) -> dict[str, Profile]:
    profile = profile_with(DefaultPreemption(PreemptionOptions(eviction_limits=limits)))
    return {profile.name: profile}


def _later(world: World, seconds: float) -> None:
    """Let time pass, with what happens meanwhile."""
    until = world.now + seconds
    world.virtual.advance(lambda: True, until)
    world.virtual.now = until


def of_job(item: objects.Pod, name: str, kind: str = "Job") -> objects.Pod:
    owner = OwnerReference(api_version="batch/v1", kind=kind, name=name, controller=True)
    return replace(item, metadata=replace(item.metadata, owner_references=(owner,)))


def _round(world: World, turn: int, priority: int = 100) -> str:
    """A victim of job `loop` runs, and a preemptor comes that needs its node; return which of the two ran."""
    start = world.now - START
    world.add(of_job(pod(f"victim{turn}", cpu=4, node="n", start=start, uid=f"v{turn}"), "loop"))
    _later(world, 60)
    world.add((pod(f"urgent{turn}", cpu=4, priority=priority, uid=f"u{turn}"), world.now))
    world.drain()
    evicted = f"v{turn}" in world.virtual.evicted
    _later(world, 60)
    world.gone(f"urgent{turn}")
    if not evicted:
        world.gone(f"victim{turn}")
    return "urgent" if evicted else "victim"


@pytest.mark.parametrize(
    ("profiles", "priority", "expected"),
    [
        (None, 100, ["urgent"] * 6 + ["victim"] * 2),
        (None, SYSTEM_CRITICAL, ["urgent"] * 8),
        (_limited(), 100, ["urgent"] * 8),
        (_limited(EvictionLimit(OWNER, 2, 24 * HOUR)), 100, ["urgent"] * 2 + ["victim"] * 6),
        (
            _limited(EvictionLimit(NAMESPACE, 1, 200.0)),
            100,
            ["urgent", "victim"] * 3,
        ),
    ],
)
def test_owner_that_comes_back_is_evicted_as_often_as_limits_allow(
    profiles: dict[str, Profile] | None, priority: int, expected: list[str]
) -> None:
    """cost.md 9.1, 9.3, 9.5: by default six times an hour; critical preemptors are exempt; windows end."""
    world = World(node("n", cpu=4), profiles=profiles)
    assert [_round(world, turn, priority) for turn in range(len(expected))] == expected


def test_limit_is_named_and_waited_for() -> None:
    """cost.md 9.6: the condition has limit, protected owner and time; the preemptor is tried again then."""
    world = World(node("n", cpu=4), profiles=_limited(EvictionLimit(OWNER, 1, HOUR)))
    world.add(of_job(pod("a", cpu=4, node="n", start=0.0), "train"), (pod("p", cpu=4, priority=9), START)).drain()
    _later(world, 40)
    world.gone("p").add(of_job(pod("b", cpu=4, node="n", start=50.0), "train"), (pod("q", cpu=4, priority=9), START))
    world.drain()
    text = "1 workload is protected by eviction limits, default/b until 2020-09-13T13:26:40Z (1 eviction of job"
    assert text in world.message("q")
    assert world.settle().where["q"] == "n"
    assert world.now - START == pytest.approx(HOUR + 30, abs=5)


@pytest.mark.parametrize(
    ("limit", "told"),
    [
        (EvictionLimit(NAMESPACE, 1, HOUR), "until 2020-09-13T13:26:40Z (1 eviction in namespace default within 1h)"),
        (EvictionLimit(CLUSTER, 1, HOUR), "until 2020-09-13T13:26:40Z (1 eviction within 1h)"),
    ],
)
def test_limit_beside_one_that_allows_more_is_named_with_its_scope(limit: EvictionLimit, told: str) -> None:
    """cost.md 9.6: every limit holds, also after one that is not used up, and one that ends earlier."""
    limits = (EvictionLimit(OWNER, 5, HOUR), limit, EvictionLimit(CLUSTER, 1, HOUR / 2))
    world = World(node("n", cpu=4), profiles=_limited(*limits))
    world.add(of_job(pod("a", cpu=4, node="n", start=0.0), "train"), (pod("p", cpu=4, priority=9), START)).drain()
    _later(world, 40)
    world.gone("p").add(of_job(pod("b", cpu=4, node="n", start=50.0), "train"), (pod("q", cpu=4, priority=9), START))
    assert told in world.drain().message("q")


@pytest.mark.parametrize(("most", "placed"), [(2, True), (1, False)])
@pytest.mark.parametrize("whole", [True, False])
def test_units_that_go_together_keep_to_limits(most: int, *, whole: bool, placed: bool) -> None:
    """cost.md 9.3: as budgets that are respected, counted over all victims; a group that is evicted whole is one."""
    world = World(
        *[node(name, cpu=4) for name in ("n0", "n1")],
        *[of_job(pod(f"w{i}", cpu=4, node=f"n{i}", start=0.0, group="g" if whole else None), "job") for i in range(2)],
        group("g", min_count=2, whole=True),
        gang("crew", 2, cpu=4, priority=9),
        profiles=_limited(EvictionLimit(OWNER, most, HOUR)),
    )
    world.drain()
    assert bool(world.evicted) == (placed or whole)
    if not placed and not whole:
        assert "an eviction limit would be exceeded" in world.condition("crew")[2]


def test_default_counts_repeats_and_not_size() -> None:
    """cost.md 9.5: all twelve pods of an owner may go, for one preemptor after another: none had come back."""
    pods = [of_job(pod(f"w{i}", cpu=1, node="n", start=0.0), "job") for i in range(12)]
    world = World(node("n", cpu=12), *pods)
    for turn in range(12):
        world.add((pod(f"p{turn}", cpu=1, priority=9), world.now)).drain()
    assert len(world.evicted) == 12


def test_what_a_unit_counts_for() -> None:
    """cost.md 9.2: the controller of a whole group or of the pod, else that of its group, else itself."""
    owned = group("owned", min_count=1, whole=True)
    owner = OwnerReference(api_version="v1", kind="Set", name="s", controller=True)
    world = World(
        node("n"),
        replace(owned, metadata=replace(owned.metadata, owner_references=(owner,))),
        group("plain", min_count=1, priority_class="low"),
        of_job(pod("a", node="n", group="owned", start=5.0), "job"),
        of_job(pod("b", node="n", group="plain"), "job"),
        pod("c", node="n", group="plain"),
        pod("d", node="n", priority_class="mine"),
    )
    found = {name: evicted_unit(world.engine.cluster, unit) for name, unit in units_of(world).items()}
    assert {name: (unit.owner, unit.priority_class) for name, unit in found.items()} == {
        "owned": ("set default/s", ""),
        "b": ("job default/job", "low"),
        "c": ("podgroup default/plain", "low"),
        "d": ("pod default/d", "mine"),
    }
    assert found["owned"].start == START + 5


def _unit(uid: str, owner: str = "o", start: float | None = None) -> EvictedUnit:
    return EvictedUnit(uid, "ns", owner, "", start)


def test_history_counts_a_unit_once_and_forgets() -> None:
    """cost.md 9.1: a failed eviction that is decided again counts once; what is outside of the window does not."""
    history = EvictionHistory([EvictionLimit(CLUSTER, 2, 100.0), EvictionLimit(OWNER, 2, 100.0, REPEATS)])
    assert history.longest == 100.0
    for when, uid, start in (
        (0.0, "a", -5.0),
        (10.0, "a", -5.0),
        (20.0, "b", -5.0),
        (30.0, "c", 5.0),
        (40.0, "d", 31.0),
    ):
        history.note(_unit(uid, start=start), when)
    assert history.used(0, _unit("x"), 40.0) == [30.0, 40.0]
    assert history.used(1, _unit("x"), 40.0) == [30.0, 40.0]
    assert history.used(1, _unit("x"), 130.0) == [40.0]
    assert history.used(1, _unit("x", owner="other"), 40.0) == []
    repeats = EvictionHistory([EvictionLimit(OWNER, 2, 100.0, REPEATS)])
    assert [repeats.bind(when) for when in (0.0,)] == [False]
    repeats.note(_unit("a"), 0.0)
    repeats.note(_unit("b", start=1.0), 50.0)
    assert [repeats.bind(when) for when in (50.0, 99.0, 100.0)] == [True, True, False]


def test_restarted_scheduler_counts_on(tmp_path: Path) -> None:
    """cost.md 9.4: the evictions of before come from the file of the decision records, as they were counted."""
    world = World(node("n", cpu=4), of_job(pod("a", cpu=4, node="n", start=0.0), "train"), pod("p", cpu=4, priority=9))
    made = world.step().preemption
    assert made is not None
    record = DecisionRecord(
        id=1,
        time="2020-09-13T12:26:50Z",
        entity=EntityReference(kind="Pod", namespace="default", name="p", uid="p", priority=9),
        result="Preempting",
        message="",
        attempt=1,
        timings=Timings(attempt_seconds=0.0, waiting_seconds=0.0),
        preemption=preemption_record(world.engine.cluster, made, START + 10),
    )
    store = DatabaseStore(RecordsDatabase(tmp_path / "records.db"))
    store.put(record, [("Pod", "default", "p")])
    store.close()
    store, history = (
        DatabaseStore(RecordsDatabase(tmp_path / "records.db")),
        EvictionHistory([EvictionLimit(OWNER, 1, HOUR)]),
    )
    asyncio.run(recall(store, history, START + 60))
    store.close()
    counts = EvictedUnit("other", "default", "job default/train", "", None)
    assert history.used(0, counts, START + 60) == [START + 10]


@pytest.mark.parametrize(
    ("seconds", "priority", "restarted", "first"),
    [
        (600, 0, False, "other"),
        (600, 0, True, "other"),
        (600, 1, False, "again"),
        (HOUR, 0, False, "again"),
        (HOUR, 0, True, "again"),
    ],
)
def test_what_a_limit_would_protect_starts_last_in_its_priority(
    seconds: float, priority: int, restarted: bool, first: str
) -> None:
    """cost.md 9.9: it comes back before `other`, and has its turn when the limit allows an eviction again."""
    limits = _limited(EvictionLimit(OWNER, 1, HOUR))
    world = World(node("n", cpu=4), of_job(pod("victim", cpu=4, node="n", start=0.0), "loop"), profiles=limits)
    world.add((pod("urgent", cpu=4, priority=100), world.now)).drain()
    assert world.evicted == ["victim"]
    _later(world, 60)
    world.add((of_job(pod("again", cpu=4, priority=priority), "loop"), world.now))
    world.add((pod("other", cpu=4), world.now + 1)).drain()
    if restarted:
        history = world.engine.cluster.evictions
        now = world.now
        world = World(node("n", cpu=4), pod("urgent", cpu=4, priority=100, node="n", start=0.0), profiles=limits)
        world.virtual.now = now
        world.add((of_job(pod("again", cpu=4, priority=priority), "loop"), now))
        world.add((pod("other", cpu=4), now + 1)).drain()
        world.engine.cluster.evictions = history
        world.engine.resume(now)
    _later(world, seconds - 60)
    world.gone("urgent")
    _later(world, 60)
    assert [name for name in ("again", "other") if name in world.where] == [first]
