"""Decide about one pod or group on a snapshot, and find the changes that would let it run.

The snapshot is loaded into a separate engine; nothing is written anywhere. Entities are tried in the order of the queue
up to the one in question, so capacity that earlier entities use is not available to it.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace as with_fields

from kube_rules import objects
from kube_rules.admission import HIGHEST_USER_PRIORITY
from kube_rules.errors import InputError
from kube_rules.foreign_groups import below
from kube_rules.group_sources import pod_group_name
from kube_rules.manifests import Manifests
from reprieve.cli.outcome import note
from reprieve.decisions.attempts import RecordBuilder, reservation_record
from reprieve.decisions.outcomes import Help
from reprieve.decisions.records import DecisionRecord
from reprieve.preemption.units import effective_priority
from reprieve.python.answers import what_helps
from reprieve.questions.trials import Trials
from reprieve.scheduling.decision import Decision, Result
from reprieve.scheduling.engine import Engine
from reprieve.scheduling.engine_options import EngineOptions
from reprieve.simulation.plan import PlanOptions
from reprieve.simulation.plan_inputs import starts_at
from reprieve.simulation.virtual import VirtualCluster
from reprieve.simulation.workloads.rows import Rows
from reprieve.simulation.workloads.table import TABLE

MOST_OBJECTS = 10_000
"""In larger clusters no suggestions are tried, so that the answer does not take long."""
MOST_OF_PRIORITIES = 5_000
"""In clusters with more objects, a priority that helps is found by few trials, and not searched for separately."""

Timed = tuple[objects.KubernetesObject, float]


@dataclass(frozen=True, slots=True)
class HypotheticalDecision:
    """The decision that would be made. `fits`: it would be placed; `gated`: why it would not be tried."""

    record: DecisionRecord | None = None
    fits: bool = False
    gated: str = ""
    priority_that_helps: int | None = None
    """The lowest priority with which it would be placed or could preempt to free capacity."""
    helps: tuple[Help, ...] | None = None
    """Suggestions that would help, each tried; None if none were tried."""


@dataclass(frozen=True, slots=True)
class _Turn:
    """The decision about the entity in question; None if it was not tried."""

    decision: Decision | None
    record: DecisionRecord | None
    gated: str


@dataclass(frozen=True, slots=True)
class ExpandedInput:
    """The expanded input, for trials of suggestions; `base` is the input before, to which flags apply."""

    base: Manifests | None = None
    rows: Rows = TABLE
    run: Sequence[str] = ()


def ask(
    manifests: Manifests,
    kind: str,
    namespace: str,
    name: str,
    *,
    now: float,
    suggest: bool = True,
    expanding: ExpandedInput | None = None,
) -> HypotheticalDecision:
    """Decide about one object now, with the feature gates at their defaults.

    `suggest`: also return suggestions, for which the whole input is planned several more times (whatif.md 5).
    """
    items = [(loaded.object, loaded.created) for loaded in manifests.all()]
    turn = _turn(items, kind, namespace, name, now)
    decision = turn.decision
    if decision is None:
        return HypotheticalDecision(gated=turn.gated)
    if decision.result is Result.SCHEDULED:
        return HypotheticalDecision(record=turn.record, fits=True)
    if not suggest or decision.resize or decision.result is not Result.UNSCHEDULABLE:
        return HypotheticalDecision(record=turn.record)
    in_tree = len(_one_tree(items, kind, namespace, name)) > 1
    most = MOST_OF_PRIORITIES if in_tree else MOST_OBJECTS
    if len(items) > most:
        note(f"in a cluster of more than {most:,} objects suggestions are not tried")
        return HypotheticalDecision(record=turn.record)
    if in_tree:  # a changed priority has to be the same in the whole tree
        return HypotheticalDecision(
            record=turn.record, priority_that_helps=_priority(items, kind, namespace, name, now)
        )
    expanding = expanding or ExpandedInput()
    options = PlanOptions(now=max(now, starts_at(manifests.all())), rows=expanding.rows)
    trials = Trials(manifests, options, expanding.base, expanding.rows, expanding.run)
    try:
        helps = what_helps((kind, namespace, name), options, trials)
    except InputError:  # not all of it can be planned
        return HypotheticalDecision(
            record=turn.record, priority_that_helps=_priority(items, kind, namespace, name, now)
        )
    priority = next((item.priority for item in helps if item.kind == "Priority"), None)
    if priority is None and trials.spent:
        priority = _priority(items, kind, namespace, name, now)
    return HypotheticalDecision(record=turn.record, priority_that_helps=priority, helps=helps)


def _turn(items: Iterable[Timed], kind: str, namespace: str, name: str, now: float) -> _Turn:
    engine, world = _world(items, now)
    ref = _ref(world, kind, namespace, name)
    if ref is None:
        return _Turn(None, None, "")
    builder = RecordBuilder(engine)
    while True:
        began = time.perf_counter()
        decision = engine.step(now).decision
        if decision is None:
            break
        if decision.ref == ref:
            record = builder.record(decision, seconds=time.perf_counter() - began, now=now)
            engine.tick(now)  # it may have been pending long enough to hold a reservation
            reserved = reservation_record(engine, ref)
            if record is not None and reserved is not None:
                record = with_fields(record, reservation=reserved)
            return _Turn(decision, record, "")
    entity = engine.queue.get(ref)
    if entity is None:
        return _Turn(None, None, "")
    reservation = next(iter(entity.gated_pods.values()), None)
    return _Turn(None, None, entity.gate.reason or (reservation.reason if reservation is not None else ""))


def _world(items: Iterable[Timed], now: float) -> tuple[Engine, VirtualCluster]:
    engine = Engine(EngineOptions(any_scheduler=True))
    world = VirtualCluster(engine, now)
    world.load(items)
    return engine, world


def _ref(world: VirtualCluster, kind: str, namespace: str, name: str) -> str | None:
    if kind == "PodGroup":
        group = world.engine.cluster.groups.get(f"{namespace}/{name}")
        root = world.engine.cluster.trees.composites.get(f"{namespace}/{below(name)}")
        if group is None and root is not None:
            return root.home
        return group.home if group is not None else f"group/{namespace}/{name}"
    if kind == "CompositePodGroup":
        composite = world.engine.cluster.trees.composites.get(f"{namespace}/{name}")
        return composite.home if composite is not None else None
    pod = next((pod for pod in world.records.values() if pod.key == f"{namespace}/{name}"), None)
    if pod is None or (pod.row >= 0 and not pod.resizing):
        return None
    return world.engine.cluster.entity_ref(pod)


def _priority(items: list[Timed], kind: str, namespace: str, name: str, now: float) -> int | None:
    """Return the lowest priority that helps, among those just above the running pods; None also in too large clusters.

    A binary search finds it, because a higher priority never hurts.
    """
    if len(items) > MOST_OF_PRIORITIES:
        return None
    engine, world = _world(items, now)
    ref = _ref(world, kind, namespace, name)
    entity = engine.queue.get(ref) if ref is not None else None
    if entity is None:
        return None
    cluster = engine.cluster
    running = {effective_priority(cluster, pod) for pod in cluster.pods.values() if pod.row >= 0}
    steps = [p + 1 for p in sorted(running) if entity.priority <= p < HIGHEST_USER_PRIORITY]

    def helps(priority: int) -> bool:
        decision = _turn(_with_priority(items, kind, namespace, name, priority), kind, namespace, name, now).decision
        return decision is not None and decision.result in (Result.WAITING, Result.SCHEDULED)

    first = bisect_left(steps, True, key=helps)
    return steps[first] if first < len(steps) else None


def _with_priority(items: Sequence[Timed], kind: str, namespace: str, name: str, priority: int) -> list[Timed]:
    """Return the objects with another priority for the object and for its whole group or tree."""
    groups = _one_tree(items, kind, namespace, name)
    changed: list[Timed] = []
    for item, created in items:
        if (item.metadata.namespace or "default") == namespace and isinstance(item, _WITH_PRIORITY):
            same = kind == type(item).KIND and item.metadata.name == name
            of_tree = (item.KIND, item.metadata.name) in groups
            member = isinstance(item, objects.Pod) and ("PodGroup", pod_group_name(item)) in groups
            if same or of_tree or member:
                item = with_fields(item, spec=with_fields(item.spec, priority=priority))
        changed.append((item, created))
    return changed


_WITH_PRIORITY = (objects.Pod, objects.PodGroup, objects.CompositePodGroup)


def _one_tree(items: Sequence[Timed], kind: str, namespace: str, name: str) -> set[tuple[str, str | None]]:
    """Return (kind, name) of all groups of a group's tree."""
    if kind == "Pod":
        return set()
    joined: dict[tuple[str, str | None], set[tuple[str, str | None]]] = {}
    for item, _ in items:
        if isinstance(item, objects.PodGroup | objects.CompositePodGroup) and item.namespace == namespace:
            parent = item.spec.parent_composite_pod_group_name
            if parent:
                entity, above = (item.KIND, item.metadata.name), ("CompositePodGroup", parent)
                joined.setdefault(entity, set()).add(above)
                joined.setdefault(above, set()).add(entity)
    result: set[tuple[str, str | None]] = {(kind, name)}
    pending = list(result)
    while pending:
        for neighbour in joined.get(pending.pop(), set()) - result:
            result.add(neighbour)
            pending.append(neighbour)
    return result
