"""Until when room that comes by itself is waited for, rule by rule (cost.md 5 and 6)."""

from __future__ import annotations

import random
from typing import Any

import pytest
from msgspec.structs import replace

from kube_rules.work_annotations import LONGEST
from reprieve.cluster.pods import PodRecord
from reprieve.framework.configuration_reader import configuration_of
from reprieve.framework.gates import FeatureGates
from reprieve.preemption.deferred_preemption import (
    expected_end,
    least_count,
    until_checkpoint,
    until_completions,
    until_delay_is_over,
    until_predecessors_leave,
)
from reprieve.preemption.outcome import DeferralReason
from reprieve.preemption.units import scheduled_pods
from reprieve.scheduling.profiles import profiles_of
from tests.building import START, World, annotated, node, pod
from tests.preemption.by_name import cluster_at
from tests.preemption.seeds import each_seed
from tests.preemption.test_waiting import at, deferrals, saying, waiting

KIND = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
DAILY = {"per": "owner", "most": 3, "within": "24h"}


@pytest.mark.parametrize(
    ("delays", "now", "until"),
    [
        (["5m"], 0.0, 300.0),
        (["5m"], 299.0, 300.0),
        (["5m"], 300.0, None),
        (["1m", "5m", "2m"], 10.0, 300.0),
        ([None, None], 0.0, None),
    ],
)
def test_longest_delay_counts_from_the_first_pod(delays: list[str | None], now: float, until: float | None) -> None:
    """cost.md 6.1."""
    pods = [
        (pod(f"p{i}", annotations=annotated(preemption_delay=delay) if delay else {}), START + 40.0 * i)
        for i, delay in enumerate(delays)
    ]
    world = World(*pods)
    found = until_delay_is_over(cluster_at(world, START + now), [world.record(f"p{i}") for i in range(len(delays))])
    assert (found and found.until) == (None if until is None else START + until)
    if found is not None:
        assert found.why is DeferralReason.DELAY
        assert found.message == "no pods are evicted before 2020-09-13T12:31:40Z (preemption-delay 5m)"


def test_pod_of_the_future_is_there_since_now() -> None:
    """By any clock."""
    world = World((pod("p", annotations=annotated(preemption_delay="5m")), START + 1000.0))
    found = until_delay_is_over(cluster_at(world), [world.record("p")])
    assert found is not None
    assert found.until == START + 300


@pytest.mark.parametrize(
    ("more", "end"),
    [
        ({}, None),
        ({"annotations": annotated(expected_end="2020-09-13T12:36:40Z")}, 600.0),
        ({"annotations": annotated(expected_end="2020-09-13T12:36:40Z"), "terminating": True}, 0.0),
        ({"terminating": True}, 0.0),
    ],
)
def test_when_a_pod_is_expected_to_be_gone(more: dict[str, Any], end: float | None) -> None:
    """cost.md 6.4: the earliest counts."""
    world = World(node("n"), pod("p", node="n", start=0.0, **more))
    assert expected_end(cluster_at(world), world.record("p")) == (None if end is None else START + end)


@pytest.mark.parametrize("start", [None, 50.0])
@pytest.mark.parametrize("runtime", [None, 100, 300])
@pytest.mark.parametrize("deadline", [None, 100, 250])
@pytest.mark.parametrize("end", [None, 120])
def test_earliest_stated_end(start: float | None, runtime: int | None, deadline: int | None, end: int | None) -> None:
    """cost.md 6.4: by the annotations, and by the deadline with the grace period; the last two after the start."""
    stated = annotated(expected_end="2020-09-13T12:28:40Z") if end is not None else {}
    stated |= annotated(expected_runtime=f"{runtime}s") if runtime is not None else {}
    item = pod("p", node="n", start=start, annotations=stated, grace=20)
    world = World(node("n"), replace(item, spec=replace(item.spec, active_deadline_seconds=deadline)))
    ends: list[float] = [end] if end is not None else []
    if start is not None:
        ends += [start + runtime] if runtime is not None else []
        ends += [start + deadline + 20] if deadline is not None else []
    result = expected_end(cluster_at(world), world.record("p"))
    assert result == (START + min(ends) if ends else None)


def _ending(*ends: float) -> World:
    said_ends = [f"2020-09-13T12:{26 + int(40 + end) // 60:02}:{int(40 + end) % 60:02}Z" for end in ends]
    pods = [
        pod(f"p{i}", cpu=1, node=f"n{i}", annotations=annotated(expected_end=end)) for i, end in enumerate(said_ends)
    ]
    return World(*[node(f"n{i}", cpu=1) for i in range(len(ends))], *pods, pod("new", cpu=1, priority=9))


@pytest.mark.parametrize(
    ("ends", "needed", "longest", "until", "names"),
    [
        ([100, 50, 200], 1, 600, 51, ["p1"]),
        ([100, 50, 200], 2, 600, 101, ["p1", "p0"]),
        ([100, 50, 200], 3, 600, 201, ["p1", "p0", "p2"]),
        ([100, 50, 200], 3, 200, 200, ["p1", "p0", "p2"]),
        ([100, 50, 200], 3, 199, None, []),
        ([100, 50, 200], 4, 600, None, []),
        ([100, 100], 1, 600, 101, ["p0", "p1"]),
        ([100], 1, 0, None, []),
    ],
)
def test_earliest_end_that_makes_room_is_waited_for(
    ends: list[float], needed: int, longest: float, until: float | None, names: list[str]
) -> None:
    """cost.md 6.3, 6.5: and a second more, never beyond the duration; nothing of the trial is left."""
    world = _ending(*ends)
    cluster = cluster_at(world)
    rows = [world.row(f"n{i}") for i in range(len(ends))]

    def assign() -> tuple[tuple[PodRecord, int], ...] | None:
        free = [row for row in rows if not cluster.nodes.pods[row]]
        return tuple((world.record("new"), row) for row in free) if len(free) >= needed else None

    found = until_completions(cluster, list(scheduled_pods(cluster)), [world.record("new")], longest, assign)
    assert all(cluster.nodes.pods[row] for row in rows)
    if until is None:
        assert found is None
        return
    assert found is not None
    assert (found.why, found.until) == (DeferralReason.COMPLETIONS, START + until)
    assert [one.name for one in found.pods] == names
    assert found.nominations == ()
    assert found.message.endswith("; no pods are evicted until then")


@pytest.mark.parametrize(("now", "waits"), [(100.0, True), (100.9, True), (101.0, False)])
def test_overdue_pod_is_waited_for_a_second_more(now: float, waits: bool) -> None:
    """cost.md 6.5."""
    world = _ending(100)
    cluster = cluster_at(world, START + now)
    new = world.record("new")
    places = ((new, world.row("n0")),)
    found = until_completions(cluster, list(scheduled_pods(cluster)), [new], 600, lambda: places)
    assert (found is not None) is waits


def test_names_of_awaited_pods() -> None:
    """Three of them, and how many more."""
    world = _ending(*[100] * 5)
    cluster, new = cluster_at(world), world.record("new")
    for count, names in (
        (1, "default/p0"),
        (3, "default/p0, default/p1, default/p2"),
        (4, "default/p0, default/p1, default/p2 and 1 more"),
        (5, "default/p0, default/p1, default/p2 and 2 more"),
    ):
        places = tuple((new, world.row(f"n{i}")) for i in range(count))
        found = until_completions(cluster, list(scheduled_pods(cluster)), [new], 600, lambda p=places: p)  # type: ignore[misc]
        assert found is not None
        awaited = f"{'pod' if count == 1 else 'pods'} {names}"
        assert found.message == f"waiting for {awaited} to end by 2020-09-13T12:28:20Z; no pods are evicted until then"


@pytest.mark.parametrize(
    ("hold", "graces", "until"),
    [(600.0, [30, 10], 610.0), (600.0, [10, 30], 610.0), (0.0, [30, 10], None), (1e12, [30, 10], LONGEST)],
)
def test_how_long_predecessors_are_waited_for(hold: float, graces: list[int], until: float | None) -> None:
    """cost.md 5.6, 5.7: those on the places, else all; until the first should have left so long ago."""
    pods = [pod(f"p{i}", node=f"n{i}", terminating=True, grace=grace) for i, grace in enumerate(graces)]
    world = World(node("n0"), node("n1"), *pods, pod("new"))
    cluster = cluster_at(world)
    cluster.departures.update({f"uid-p{i}": START + grace for i, grace in enumerate(graces)})
    leaving = [world.record(f"p{i}") for i in range(2)]
    both = tuple((world.record("new"), world.row(f"n{i}")) for i in range(2))
    found = until_predecessors_leave(cluster, leaving, both, hold)
    assert found.until == (None if until is None else START + until)
    assert (found.why, found.nominations, list(found.pods)) == (DeferralReason.PREDECESSOR, both, leaving)
    assert found.message == "waiting for pods default/p0, default/p1 of the same owner to terminate"
    assert list(until_predecessors_leave(cluster, leaving, both[1:], hold).pods) == leaving[1:]
    assert list(until_predecessors_leave(cluster, leaving, (), hold).pods) == leaving


WORKING: dict[str, tuple[dict[str, str], float, float, float, float | None, list[str]]] = {
    # annotations by pod, seconds since they started, window, age of the preemptor -> until (from now), awaited
    "interval from the start": ({"a": "1h"}, 3000.0, 900.0, 0.0, 601.0, ["a"]),
    "beyond the window": ({"a": "1h"}, 2000.0, 900.0, 0.0, None, []),
    "the window counts from the creation": ({"a": "1h"}, 3000.0, 900.0, 400.0, None, []),
    "saved two seconds ago": ({"a": "1h"}, 3602.0, 7200.0, 0.0, None, []),
    "saved three seconds ago": ({"a": "1h"}, 3603.0, 7200.0, 0.0, 3598.0, ["a"]),
    "no interval": ({"a": ""}, 3000.0, 900.0, 0.0, None, []),
    "the next of two, each saves": ({"a": "1h", "b": "50m"}, 2900.0, 900.0, 0.0, 701.0, ["b", "a"]),
    "the later of two, as it saves more than both lose until then": (
        {"a": "1h", "b": "950s"}, 3000.0, 900.0, 0.0, 801.0, ["a", "b"],
    ),
    "one that states nothing loses meanwhile": ({"a": "1h", "b": ""}, 3000.0, 900.0, 0.0, 601.0, ["a"]),
    "two that state nothing lose more than is saved": (
        {"a": "1h", "b": "", "c": "", "d": "", "e": "", "f": "", "g": ""}, 3000.0, 900.0, 0.0, None, [],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("intervals", "running", "longest", "age", "until", "names"), WORKING.values(), ids=WORKING)
def test_next_checkpoint_that_loses_the_least_is_waited_for(
    intervals: dict[str, str], running: float, longest: float, age: float, until: float | None, names: list[str]
) -> None:
    """cost.md 6.6, 6.7."""
    victims = [
        pod(name, cpu=1, node="n", start=0.0, annotations=annotated(checkpoint_interval=each) if each else {})
        for name, each in intervals.items()
    ]
    created = START + running - age
    world = World(node("n", cpu=len(victims)), *victims, (pod("new", cpu=1, priority=9), created))
    cluster = cluster_at(world, START + running)
    found = until_checkpoint(cluster, [world.record(name) for name in intervals], [world.record("new")], longest)
    assert (found and found.until) == (None if until is None else START + running + until)
    if found is not None:
        assert found.why is DeferralReason.CHECKPOINT
        assert [one.name for one in found.pods] == names
        assert "to save a checkpoint by" in found.message


@pytest.mark.parametrize(
    ("last", "now", "until"),
    [(600, 1000, 1201), (600, 1201, 1211), (600, 1300, 1310), (600, 1895, 1900), (600, 1900, None), (1250, 1300, 1851)],
    ids=["expected", "due", "late", "late, near the end of the wait", "the wait is over", "written meanwhile"],
)
def test_checkpoint_that_is_late_is_looked_for_again_until_the_wait_is_over(
    last: int, now: int, until: int | None
) -> None:
    """cost.md 6.7: every ten seconds; the preemptor was created at 1000 s and waits 900 s at most."""
    stated = annotated(
        checkpoint_interval="10m", last_checkpoint=f"2020-09-13T12:{26 + (40 + last) // 60:02}:{(40 + last) % 60:02}Z"
    )
    old = pod("old", cpu=1, node="n", start=0.0, annotations=stated)
    world = World(node("n", cpu=1), old, (pod("new", cpu=1, priority=9), START + 1000.0))
    cluster = cluster_at(world, START + now)
    found = until_checkpoint(cluster, [world.record("old")], [world.record("new")], 900.0)
    assert (found and found.until) == (None if until is None else START + until)


@each_seed(range(30))
def test_wait_for_checkpoints_saves_the_most(seed: int) -> None:
    """cost.md 6.6, 6.7: of all next checkpoints in time, if it saves more than two seconds of all victims."""
    chance = random.Random(seed)
    now, longest, age = 3000.0, chance.choice((300.0, 900.0)), chance.choice((0.0, 100.0))
    expected: list[tuple[float, str, float]] = []
    victims, growth = [], 0.0
    for number in range(chance.randint(1, 5)):
        name, cpu, start = f"v{number}", chance.randint(1, 4), chance.choice((0.0, 200.0, 2500.0))
        gpu = chance.choice((0, 0, 2))
        interval = chance.choice((None, 350, 700, 1000, 1600))
        stated = annotated(checkpoint_interval=f"{interval}s") if interval else {}
        victims.append(pod(name, cpu=cpu, gpu=gpu, node="n", start=start, annotations=stated))
        weight = gpu or cpu
        growth += weight
        if interval is not None:
            since = start + (now - start) // interval * interval
            if since + interval + 1 <= now - age + longest:
                expected.append((since + interval + 1, name, weight * (since + interval + 1 - since)))
    world = World(node("n", cpu=99, gpu=99), *victims, (pod("new", cpu=1, priority=9), START + now - age))
    records = [world.record(victim.metadata.name) for victim in victims]
    deferral = until_checkpoint(cluster_at(world, START + now), records, [world.record("new")], longest)
    expected.sort()
    gains = [
        sum(lost for *_, lost in expected[: count + 1]) - growth * (moment - now)
        for count, (moment, _, _) in enumerate(expected)
    ]
    if not gains or max(gains) <= growth * 2:
        assert deferral is None
        return
    count = gains.index(max(gains)) + 1
    assert deferral is not None
    assert deferral.until == START + expected[count - 1][0]
    assert [record.name for record in deferral.pods] == [name for _, name, _ in expected[:count]]


def test_least_count_is_found_by_bisection() -> None:
    """cost.md 6.5: with few trials."""
    record: Any = None
    for most in range(9):
        for least in range(1, 11):
            trials: list[int] = []

            def after(count: int, least: int = least, trials: list[int] = trials) -> Any:
                trials.append(count)
                return ((record, count),) if count >= least else None

            result = least_count(most, after)
            assert result == ((least, ((record, least),)) if least <= most else None)
            assert len(trials) <= 1 + max(0, most - 1).bit_length()
            assert len(trials) == len(set(trials))


@pytest.mark.parametrize(
    ("more", "most"),
    [
        ({}, 0),
        ({"waitForCheckpoint": "1m"}, 1),
        ({"waitForCheckpoint": "1m", "cost": ["pods", "startTime"]}, 0),
        ({"evictionLimits": [DAILY]}, 2),
        ({"evictionLimits": [DAILY], "waitForCheckpoint": "1m"}, 2),
        ({"evictionLimits": [DAILY], "cost": ["pods", "startTime"]}, 0),
        ({"evictionLimits": [{**DAILY, "count": "Repeats"}]}, 0),
    ],
)
@pytest.mark.parametrize("saved", [1, 2], ids=["one pod", "two pods"])
def test_victims_that_have_just_saved_are_chosen_where_preemptors_wait_or_limits_count_evictions(
    more: dict[str, Any], most: int, saved: int
) -> None:
    """cost.md 6.6, 9.8: lostWork decides before the start, with limits also before the number of pods."""
    names = [f"saved-{i}" for i in range(saved)]
    hourly = annotated(checkpoint_interval="1h")
    running = [
        *(pod(name, cpu=4 // saved, node="n0", start=-7210, annotations=hourly) for name in names),
        pod("late", cpu=4, node="n1", start=-3000, annotations=hourly),
    ]
    (profile,) = profiles_of(
        configuration_of({**KIND, "profiles": [{"pluginConfig": [{"name": "DefaultPreemption", "args": more}]}]}),
        FeatureGates(),
    )
    world = World(node("n0"), node("n1"), running, pod("new", cpu=4, priority=5), profiles={profile.name: profile})
    world.drain()
    evicted = sorted(world.virtual.records[uid].name for uid in world.virtual.evicted)
    assert evicted == (names if saved <= most else ["late"])


def test_delay_comes_first_and_both_count_from_the_same_time() -> None:
    """cost.md 6.1."""
    high = saying(pod("high", cpu=4, priority=9), preemption_delay="1m")
    world = waiting(
        saying(pod("ends", cpu=4, node="n1", start=0), expected_end=at(120)), pod("runs", cpu=4, node="n2"), high
    ).drain()
    assert deferrals(world) == [("DELAY", 60.0)]
    world.settle()
    assert deferrals(world) == [("DELAY", 60.0), ("COMPLETIONS", 121.0)]
    assert (world.evicted, world.where["high"]) == ([], "n1")
