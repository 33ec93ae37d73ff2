"""What holds of reservations and backfill on random clusters (reservations.md 7)."""

from __future__ import annotations

from typing import Any

from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from reprieve.preemption.deferred_preemption import LATE
from reprieve.replay.job_list import ReplayJob
from reprieve.replay.run_times import RunTimes
from reprieve.scheduling.decision import Decision
from reprieve.scheduling.effects import Effects
from tests.building import START, World, annotated, gang, node, pod
from tests.replay.building import gpu_nodes, job, started

CPUS = 4
MINUTE = 60.0

runtimes = st.sampled_from([None, "5m", "20m", "1h", "3h"])
arrivals = st.lists(
    st.tuples(st.sampled_from(["pod", "gang"]), st.integers(1, CPUS), st.integers(0, 2), runtimes),
    min_size=2,
    max_size=6,
)


def terms(runtime: str | None) -> dict[str, str]:
    return annotated(expected_runtime=runtime) if runtime is not None else {}


def made(number: int, kind: str, cpu: int, priority: int, runtime: str | None) -> list[Any]:
    if kind == "pod":
        return [pod(f"p{number}", cpu=cpu, priority=priority, annotations=terms(runtime))]
    return gang(f"g{number}", 2, cpu=cpu, priority=priority, policy="Never", never=True, annotations=terms(runtime))


class Checked:
    """A world that is held against the rules after every step."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.engine = world.engine
        self.engine.after_step = self.after

    def reserved(self, priority: int, key: str) -> dict[int, int]:
        """Row -> milli-CPUs that others of that priority or a higher one have reserved."""
        amounts: dict[int, int] = {}
        for held in self.engine.reservations.by_ref.values():
            if held.ref != key and held.priority >= priority:
                for one, _ in held.pods:
                    if one.row < 0:
                        amounts[one.nominated] = amounts.get(one.nominated, 0) + one.signature.amounts["cpu"]
        return amounts

    def after(self, decision: Decision) -> None:
        nodes = self.engine.cluster.nodes
        column = self.engine.cluster.resources.column("cpu")
        for binding in decision.bindings:
            if self.engine.cluster.terms_of(binding.pod).expected_runtime is None:  # 7.2
                taken = int(nodes.used[column, binding.row])
                reserved = self.reserved(binding.pod.priority, decision.ref).get(binding.row, 0)
                overlaid = sum(
                    one.signature.amounts["cpu"]
                    for one in nodes.pods[binding.row].values()
                    if self.engine.cluster.terms_of(one).expected_runtime is not None
                    or one.priority > binding.pod.priority
                )
                assert taken - overlaid + reserved <= int(nodes.allocatable[column, binding.row])

    def settled(self) -> None:
        """What holds when nothing is ready."""
        nodes = self.engine.cluster.nodes
        column = self.engine.cluster.resources.column("cpu")
        for row, amount in self.reserved(-1, "").items():  # 7.3
            assert amount <= int(nodes.allocatable[column, row])
        highest = max((held.priority for held in self.engine.reservations.by_ref.values()), default=-1)
        free = [int(nodes.allocatable[column, row] - nodes.used[column, row]) for row in range(len(nodes))]
        for entity in self.engine.queue.entities():
            if entity.group is None and entity.priority > highest >= 0 and entity.state.value == "unschedulable":  # 7.1
                (waiting,) = entity.ready.values()
                assert max(free) < waiting.signature.amounts["cpu"]


@settings(max_examples=40, deadline=None)
@given(arrivals, st.lists(st.integers(0, 20), max_size=8), st.integers(2, 4))
def test_reservations_keep_the_rules(coming: list[Any], ends: list[int], count: int) -> None:
    nodes = [node(f"n{number}", cpu=CPUS) for number in range(count)]
    running = [
        pod(
            f"r{number}",
            cpu=CPUS,
            node=f"n{number}",
            start=0,
            priority=2,
            annotations=terms("2h" if number % 2 else None),
        )
        for number in range(count)
    ]
    checked = Checked(world := World(nodes, running).drain())
    later = [12 * MINUTE * (1 + turn) for turn in range(len(ends) + 1)]
    for number, one in enumerate(coming[:2]):
        world.add(made(number, *one))
    for turn, when in enumerate(later):
        world.virtual.until(START + when)
        checked.settled()
        event(f"reservations: {len(world.engine.reservations.by_ref)}")
        if turn + 2 < len(coming):
            world.add(made(turn + 2, *coming[turn + 2]))
        where = sorted(world.where)
        if turn < len(ends) and where:
            world.gone(where[ends[turn] % len(where)])


sizes = st.tuples(st.integers(0, 240), st.integers(1, 180), st.integers(1, 3), st.sampled_from([1, 2, 4]))


SHARED_NODE = [
    *((50, 53, 3, 4), (51, 11, 1, 2), (103, 91, 2, 2), (115, 158, 2, 2), (223, 149, 1, 1), (125, 55, 2, 1)),
    *((115, 142, 3, 2), (168, 95, 1, 1), (200, 171, 1, 2), (8, 48, 2, 2), (44, 157, 3, 4), (62, 175, 1, 1)),
    *((51, 115, 1, 1), (33, 59, 1, 2), (212, 65, 3, 4), (25, 123, 3, 4), (150, 69, 3, 4), (85, 150, 2, 1)),
    *((73, 66, 1, 2), (231, 51, 3, 1), (116, 160, 3, 1), (45, 23, 2, 4)),
]
"""Two reservations on one node: what the later one waits for is not free when the earlier one starts."""


@settings(max_examples=25, deadline=None)
@given(st.lists(sizes, min_size=4, max_size=25))
@example(SHARED_NODE)
def test_holder_starts_no_later_than_first_expected_where_ends_are_true(rows: list[tuple[int, int, int, int]]) -> None:
    """reservations.md 7.4: nothing that is backfilled delays it."""
    jobs: list[ReplayJob] = [
        job(f"j{number}", submit * MINUTE, minutes * MINUTE, workers=workers, gpu=gpus)
        for number, (submit, minutes, workers, gpus) in enumerate(rows)
    ]
    run = started(jobs, gpu_nodes(3, 4), run_times=RunTimes("exact"))
    first: dict[str, float] = {}
    finished = run.engine.collect_effects

    def noted(**outcome: Any) -> Effects:
        effects = finished(**outcome)
        for held in effects.reservations:
            if held.expected_start is not None:
                first.setdefault(held.name.partition("/")[2], held.expected_start)
        return effects

    run.engine.collect_effects = noted  # type: ignore[method-assign]
    run.run()
    event(f"reservations with an expected start: {min(len(first), 3)}")
    for account in run.accounts:
        expected = first.get(account.job.name)
        if expected is not None:
            assert account.first_start is not None
            assert account.first_start / 1000 <= expected + LATE
