"""Trees of groups on random forests: up to four levels, mixed policies, modes and constraints (composite.md 3, 4).

Only CPU is asked for, so that a plain oracle can tell what fits.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kube_rules import objects
from reprieve.cluster.groups import CompositeState, Group, GroupState
from reprieve.cluster.pods import PodRecord
from reprieve.plugins.gang_scheduling import RETRY, GangScheduling
from reprieve.preemption.default_preemption import DefaultPreemption
from reprieve.preemption.options import PreemptionOptions
from reprieve.preemption.outcome import COMPATIBLE, MINIMIZE_VICTIMS, Preemption
from reprieve.scheduling.decision import Decision, Result
from tests.building import World, composite, group, node, pod, profile_with
from tests.drawing import drew, examples
from tests.properties.coverage import met, must_meet
from tests.random_clusters import RandomCluster, random_clusters

many, some = examples(70), examples(40)


@dataclass
class Forest:
    """Objects in the order in which they are made. `later` come after the first settling, one by one."""

    nodes: list[objects.KubernetesObject] = field(default_factory=list)
    groups: list[objects.KubernetesObject] = field(default_factory=list)
    pods: list[objects.KubernetesObject] = field(default_factory=list)
    later: list[objects.KubernetesObject] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"{len(self.nodes)} nodes, {len(self.groups)} groups, {len(self.pods)} pods, {len(self.later)} changes"

    def world(self, **options: Any) -> World:
        return World(*self.nodes, *self.groups, *self.pods, **options)


class _Drawer:
    def __init__(self, seed: int) -> None:
        self.random, self.forest = random.Random(seed), Forest()
        self.free: dict[str, int] = {}

    def number(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def chance(self, of: int) -> bool:
        return self.number(1, of) == 1

    def tree(self, name: str, priority: int, *, depth: int, running: bool, parent: str = "") -> None:
        """A group of any level with everything below it; of a `running` one some pods run, as far as there is room."""
        topology = self.random.choice((None, None, None, "zone", "rack"))
        if depth == 1 or self.chance(4):
            size = self.number(0 if parent else 1, 4)
            gang = self.number(0, 3) > 0
            least = self.number(1, max(1, size + self.chance(8))) if gang else None
            whole = gang and self.chance(2)
            if running:
                topology = None
            made = group(name, min_count=least, priority=priority, whole=whole, topology=topology, parent=parent)
            self.forest.groups.append(made)
            for index in range(size):
                self.pod(f"{name}-{index}", priority, name, running=running)
            return
        children = self.number(1, 3)
        least = self.number(1, children) if self.chance(2) else None
        whole = running and self.chance(3)
        topology = None if running else topology
        self.forest.groups.append(
            composite(name, min_groups=least, priority=priority, whole=whole, topology=topology, parent=parent)
        )
        for index in range(children):
            self.tree(f"{name}{index}", priority, depth=depth - 1, running=running, parent=name)

    def pod(self, name: str, priority: int, of: str | None, *, running: bool) -> None:
        cpu = self.number(1, 2)
        where = ""
        if running:
            places = [there for there, free in self.free.items() if free >= cpu]
            if not places:
                return
            where = self.random.choice(places)
            self.free[where] -= cpu
        start = float(self.number(0, 3)) if where else None
        self.forest.pods.append(pod(name, cpu=cpu, priority=priority, group=of, node=where, start=start))


def forest_of(seed: int) -> Forest:
    """The forest that this number stands for."""
    drawer = _Drawer(seed)
    for index in range(drawer.number(1, 5)):
        name, cpu = f"n{index}", drawer.number(1, 5)
        labels = {"zone": f"z{drawer.number(0, 1)}", "rack": f"r{drawer.number(0, 2)}"}
        drawer.forest.nodes.append(node(name, cpu=cpu, labels=labels))
        drawer.free[name] = cpu
    for index in range(drawer.number(0, 3)):
        drawer.tree(f"low{index}", drawer.number(0, 2), depth=drawer.number(1, 4), running=True)
    for index in range(drawer.number(0, 3)):
        drawer.pod(f"single{index}", drawer.number(0, 2), None, running=True)
    for index in range(drawer.number(1, 2)):
        drawer.tree(f"high{index}", drawer.number(1, 4), depth=drawer.number(1, 4), running=False)
    for made in list(drawer.forest.groups):
        if drawer.chance(6):
            drawer.forest.later.append(_changed(made, drawer.number(1, 3)))
    if drawer.chance(3):
        drawer.forest.later.append(node("late", cpu=drawer.number(1, 6), labels={"zone": "z1", "rack": "r2"}))
    return drawer.forest


def tight_forest_of(seed: int) -> Forest:
    """A tree that fits if each of its gangs takes its minimum alone, on nodes with hardly more than that.

    Greedy places the surplus of the first gangs where the last ones need the capacity.
    """
    drawer = _Drawer(seed)
    children, needed = drawer.number(2, 3), 0
    drawer.forest.groups.append(composite("root", min_groups=children))
    for index in range(children):
        least, surplus = drawer.number(1, 2), drawer.number(0, 2)
        drawer.forest.groups.append(group(f"g{index}", min_count=least, parent="root"))
        for member in range(least + surplus):
            drawer.pod(f"g{index}-{member}", 0, f"g{index}", running=False)
        needed += least
    sizes = [drawer.number(1, 3) for _ in range(needed)]
    drawer.forest.nodes += [node(f"n{index}", cpu=cpu) for index, cpu in enumerate(sizes)]
    return drawer.forest


@st.composite
def forests(draw: st.DrawFn, of_seed: Callable[[int], Forest] = forest_of) -> Forest:
    """A forest on up to six nodes; what is `later` is not part of what is printed."""
    made = of_seed(draw(st.integers(0, 2**32 - 1)))
    drew([*made.nodes, *made.groups, *made.pods])
    return made


def _changed(made: objects.KubernetesObject, count: int) -> objects.KubernetesObject:
    """The group with another minimum."""
    if isinstance(made, objects.PodGroup) and made.min_count is not None:
        gang = objects.GangSchedulingPolicy(min_count=count)
        policy = objects.PodGroupSchedulingPolicy(gang=gang)
        return replace(made, spec=replace(made.spec, scheduling_policy=policy))
    if isinstance(made, objects.CompositePodGroup) and made.min_group_count is not None:
        groups = objects.CompositeGangSchedulingPolicy(min_group_count=count)
        chosen = objects.CompositePodGroupSchedulingPolicy(gang=groups)
        return replace(made, spec=replace(made.spec, scheduling_policy=chosen))
    return made


# -- the oracle ----------------------------------------------------------------------------------------------------


def _holds(found: Group, scheduled: dict[str, int]) -> bool:
    """Whether the group has its minimum, if so many pods of each leaf run."""
    if isinstance(found, GroupState):
        return scheduled.get(found.key, 0) >= max(1, found.min_count)
    return sum(_holds(child, scheduled) for child in found.children) >= max(1, found.min_count)


def _scheduled(world: World) -> dict[str, int]:
    pods = world.engine.cluster.pods.values()
    return Counter(p.group for p in pods if p.group is not None and p.row >= 0 and not p.terminating)


def _used(
    world: World,
    gone: Sequence[PodRecord] = (),
    more: Sequence[tuple[PodRecord, int]] = (),
    rows: Collection[int] | None = None,
) -> bool:
    """Whether no pod has more than there is, on those rows, with some pods gone and others placed."""
    nodes = world.engine.cluster.nodes
    cpu = world.engine.cluster.resources.names.index("cpu")
    left = {row: int(nodes.allocatable[cpu, row]) for row in range(len(nodes))}
    away = {p.uid for p in gone}
    for p in world.engine.cluster.pods.values():
        if p.row >= 0 and p.uid not in away:
            left[p.row] -= dict(p.signature.requests).get(cpu, 0)
    for p, row in more:
        left[row] -= dict(p.signature.requests).get(cpu, 0)
    return all(free >= 0 for row, free in left.items() if rows is None or row in rows)


def _ancestors(world: World, p: PodRecord) -> list[Group]:
    found: list[Group] = [world.engine.cluster.groups[p.group or ""]]
    while (spec := found[-1].spec) is not None and spec.parent is not None:
        found.append(world.engine.cluster.trees.composites[spec.parent])
    return found


def _check_domains(world: World, placed: Sequence[tuple[PodRecord, int]]) -> None:
    """Check that all pods below a group with a constraint are in one domain."""
    labels = world.engine.cluster.nodes.labels
    domains: dict[str, set[str]] = {}
    for p, row in placed:
        for one in _ancestors(world, p):
            if one.spec is not None and one.spec.topology_key is not None:
                domains.setdefault(one.ref, set()).add(labels[row][one.spec.topology_key])
    assert all(len(found) == 1 for found in domains.values()), domains


class _Judge:
    """Looks at every decision of a world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.before: dict[str, int] = {}
        world.engine.before_step = self._remember
        world.engine.after_step = self._look

    def _remember(self) -> None:
        self.before = {p.uid: p.row for p in self.world.engine.cluster.pods.values()}

    def _look(self, decision: Decision) -> None:
        world = self.world
        bound = {binding.pod.uid for binding in decision.bindings}
        for p in world.engine.cluster.pods.values():
            if p.uid not in bound:
                assert p.row == self.before[p.uid], f"{p.name} is assumed, or moved, without a decision"
        assert _used(world), "a node is over-committed"
        scheduled = _scheduled(world)
        for binding in decision.bindings:
            if binding.pod.group is not None:
                for one in _ancestors(world, binding.pod):
                    assert _holds(one, scheduled), f"{binding.pod.name} is bound below {one}, which has not its minimum"
        met("bindings", len(bound))
        met("deep", sum(len(_ancestors(world, b.pod)) > 2 for b in decision.bindings if b.pod.group is not None))
        _check_domains(world, [(b.pod, b.row) for b in decision.bindings if b.pod.group is not None])
        if decision.preemption is not None:
            assert not decision.bindings, "one cycle binds or preempts"
            self._judge(decision.preemption)
        elif decision.result is not Result.SCHEDULED:
            assert not decision.nominations

    def _judge(self, found: Preemption) -> None:
        world = self.world
        victims = [verdict.unit for verdict in found.victims]
        gone = [p for unit in victims for p in unit.pods]
        assert len({p.uid for p in gone}) == len(gone), "no pod is evicted twice"
        nominated = [(p, p.nominated) for p in world.engine.cluster.pods.values() if p.nominated >= 0]
        own = {p.uid for p, _ in found.nominations}
        places = [*found.nominations, *(one for one in nominated if one[0].uid not in own)]
        rows = {row for _, row in found.nominations}
        assert _used(world, gone, places, rows), "the victims go and the preemptor does not fit"
        for unit in victims:
            assert unit.priority < found.priority
            assert {p.uid for p in unit.pods} == self._unit(unit.pods[0]), f"{unit.name} is torn apart"
            stay = [p for p in gone if p not in unit.pods]
            assert not _used(world, stay, places, rows), f"{unit.name} need not go"
        if found.group is not None:
            met("preempts", int(bool(victims)))
            met("trees", int(isinstance(found.group, CompositeState)))
            met("whole trees", sum(isinstance(unit.group, CompositeState) for unit in victims))
            lost = Counter(p.group for p in gone)
            won = Counter(p.group for p, _ in found.nominations)
            scheduled = {key: count - lost[key] for key, count in _scheduled(world).items()}
            for key, count in won.items():
                assert key is not None
                scheduled[key] = scheduled.get(key, 0) + count
            for p, _ in found.nominations:
                for one in _ancestors(world, p):
                    assert _holds(one, scheduled), f"preempted for {p.name} below {one}, which has not its minimum"
            _check_domains(world, found.nominations)

    def _unit(self, p: PodRecord) -> set[str]:
        if p.group is None:
            return {p.uid}
        whole = [one for one in _ancestors(self.world, p) if one.spec is not None and one.spec.disrupt_all]
        if not whole:
            return {p.uid}
        pods = self.world.engine.cluster.pods.values()
        running = [other for other in pods if other.row >= 0 and other.group is not None]
        return {other.uid for other in running if whole[-1] in _ancestors(self.world, other)}


@must_meet(bindings=40, deep=20, preempts=16, trees=12)
@many
@given(forests(), st.sampled_from((COMPATIBLE, MINIMIZE_VICTIMS)))
def test_every_level_has_its_minimum_and_no_eviction_is_needless(forest: Forest, placement: str) -> None:
    """composite.md 3.3, 3.4, 4; preemption.md 9: also while counts change and nodes come."""
    world = forest.world(placement=placement)
    _Judge(world)
    world.settle()
    for item in forest.later:
        world.add(item).settle()


@some
@given(forests())
def test_plain_paths_decide_the_same(forest: Forest) -> None:
    """scheduling.md 4.3 for trees, where they are placed without the search for the cheapest eviction."""
    worlds = [forest.world(placement=COMPATIBLE), forest.world(placement=COMPATIBLE, plain=True)]
    for world in worlds:
        world.settle()
    assert worlds[0].where == worlds[1].where
    assert worlds[0].evicted == worlds[1].evicted


def _retrying(search: str) -> dict[str, Any]:
    profile = profile_with(GangScheduling(search), DefaultPreemption(PreemptionOptions(placement=COMPATIBLE)))
    return {"profiles": {profile.name: profile}}


@must_meet(placed=40, saved=12)
@examples(150)
@given(st.one_of(forests(), forests(tight_forest_of)))
def test_retry_never_fails_a_tree_that_greedy_places(forest: Forest) -> None:
    """composite.md 3.5: of one view, what is placed without the option is placed the same with it."""
    greedy, retry = forest.world(**_retrying("Greedy")), forest.world(**_retrying(RETRY))
    _Judge(retry)
    first, second = greedy.engine.step(greedy.now).decision, retry.engine.step(retry.now).decision
    if first is None or second is None:
        assert first is second
        return
    assert second.ref == first.ref
    if first.result is Result.SCHEDULED:
        met("placed")
        assert [(b.pod.uid, b.row) for b in first.bindings] == [(b.pod.uid, b.row) for b in second.bindings]
    elif second.result is Result.SCHEDULED:
        met("saved")
    retry.settle()


@must_meet(evicted=8, placed=40)
@many
@given(random_clusters(), st.integers(1, 3), st.sampled_from((COMPATIBLE, MINIMIZE_VICTIMS)))
def test_tree_of_one_leaf_decides_as_the_flat_group(cluster: RandomCluster, levels: int, placement: str) -> None:
    """composite.md 3, 4: whatever the leaf is, how many pods of it run, and whatever else is there."""
    flat = cluster.world(placement=placement).settle()
    tree = RandomCluster(
        cluster.nodes, _below_composites(cluster, levels), cluster.budgets, cluster.running, cluster.pending
    )
    deep = tree.world(placement=placement).settle()
    assert deep.where == flat.where
    assert deep.evicted == flat.evicted
    assert deep.nominated == flat.nominated
    assert deep.pending == flat.pending
    met("evicted", len(flat.evicted))
    met("placed", len(flat.where))


def _below_composites(cluster: RandomCluster, levels: int) -> list[Any]:
    """Each group at the end of a chain of composites that want nothing of their own."""
    made: list[Any] = []
    for item, created in cluster.groups:
        assert isinstance(item, objects.PodGroup)
        spec, parent = item.spec, ""
        for level in range(levels):
            name = f"{item.metadata.name}-above{level}"
            above = composite(name, priority=spec.priority, policy=spec.preemption_policy, parent=parent)
            made.append((above, created - 1e-3 * (levels - level)))
            parent = name
        reference = objects.WorkloadReference(workload_name="workload", template_name="t")
        child = replace(spec, parent_composite_pod_group_name=parent, workload_ref=reference)
        made.append((replace(item, spec=child), created))
    return made


@some
@given(forests(), st.randoms(use_true_random=False))
def test_order_of_arrival_does_not_matter(forest: Forest, chance: random.Random) -> None:
    """scheduling.md 7: groups, composites and pods in whatever order, each with its creation time."""
    items: list[Any] = [(item, 1e9 + turn) for turn, item in enumerate([*forest.nodes, *forest.groups, *forest.pods])]
    mixed = list(items)
    chance.shuffle(mixed)
    first, second = World(*items).settle(), World(*mixed).settle()
    assert first.where == second.where
    assert first.evicted == second.evicted
    assert first.pending == second.pending
