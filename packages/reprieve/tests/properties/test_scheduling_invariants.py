"""scheduling.md 7 on random clusters, random objects and random event orders."""

from __future__ import annotations

import random
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kube_rules import objects
from kube_rules.meta import ObjectRef
from reprieve.cluster.state import ClusterState
from reprieve.scheduling.decision import Decision, Result
from tests.building import START, World, check_queue, history, without_gates
from tests.drawing import examples
from tests.properties.coverage import met, must_meet
from tests.properties.oracle import Picture, allowed, has_room
from tests.random_clusters import RandomCluster, random_clusters

many = examples(150)


def _watch_placements(cluster: RandomCluster, world: World) -> None:
    """After every decision: what was bound fits in every filter's terms, and no gang is bound below its minimum."""

    def look(decision: Decision) -> None:
        picture = Picture(cluster, world)
        for binding in decision.bindings:
            met("bindings")
            pod, node = picture.pods[binding.pod.uid], picture.nodes[binding.node]
            assert allowed(pod, node), f"{pod.name} must not run on {node.name}"
            others = [p for p in picture.on(node.name) if p.uid != pod.uid]
            assert has_room(pod, node, others), f"{node.name} is over-committed with {pod.name}"
        for state in world.engine.cluster.groups.values():
            if any(b.pod.group == state.key for b in decision.bindings):
                met("gangs", int(state.is_gang))
                members = [p for p in state.members.values() if p.row >= 0 and not p.terminating]
                assert len(members) >= state.min_count, f"{state.key} is bound below its minimum"

    world.engine.after_step = look


@must_meet(bindings=40, gangs=8)
@many
@given(random_clusters())
def test_nothing_is_over_committed_and_no_gang_is_torn(cluster: RandomCluster) -> None:
    """scheduling.md 7.1: "No node is over-committed ... binds no gang partly"."""
    world = cluster.world()
    _watch_placements(cluster, world)
    world.settle()


@many
@given(random_clusters(), st.randoms(use_true_random=False))
def test_order_of_arrival_does_not_matter(cluster: RandomCluster, chance: random.Random) -> None:
    """scheduling.md 7.5: "replaying the same objects in another order gives the same final decisions"."""
    order = list(range(len(cluster.everything)))
    chance.shuffle(order)
    first, second = cluster.world().settle(), cluster.world(order=order).settle()
    assert first.where == second.where
    assert first.evicted == second.evicted
    assert history(first) == history(second)


@many
@given(random_clusters(ports=True))
def test_sharing_work_between_identical_pods_changes_nothing(cluster: RandomCluster) -> None:
    """scheduling.md 4: "The result is always the same as without sharing"."""
    shared, plain = cluster.world().settle(), cluster.world(plain=True).settle()
    assert history(shared) == history(plain)
    assert shared.where == plain.where


# -- undo ----------------------------------------------------------------------------------------------------------


def _shuffle_about(state: ClusterState, chance: random.Random, depth: int) -> None:
    pods = sorted(state.pods.values(), key=lambda p: p.uid)
    for _ in range(chance.randint(0, 6)):
        pod, row = chance.choice(pods), chance.randrange(len(state.nodes))
        step = chance.randrange(5 if depth < 3 else 4)
        if step == 0 and pod.row < 0:
            state.place(pod, row)
        elif step == 1 and pod.row >= 0:
            state.displace(pod)
        elif step == 2:
            state.nominate(pod, row)
        elif step == 3:
            state.clear_nomination(pod)
        elif step == 4:
            before = state.digest()
            with state.trial():
                _shuffle_about(state, chance, depth + 1)
            assert state.digest() == before
    free = [pod for pod in pods if pod.row < 0]
    if free and chance.random() < 0.5:
        before, position = state.digest(), len(state.touched.entries)
        with state.assume_silently([(pod, chance.randrange(len(state.nodes))) for pod in free[:2]]):
            assert state.digest() != before
        assert state.digest() == before
        assert len(state.touched.entries) == position
    state.check()


@many
@given(random_clusters(max_pending=3), st.randoms(use_true_random=False))
def test_trial_leaves_no_trace(cluster: RandomCluster, chance: random.Random) -> None:
    """scheduling.md 7.4: "the view after undo equals the view before, bit for bit", nested trials included."""
    state = cluster.world().engine.cluster
    before = state.digest()
    with state.trial():
        _shuffle_about(state, chance, 0)
    assert state.digest() == before
    assert not state.in_trial
    state.check()


# -- events --------------------------------------------------------------------------------------------------------


def _as_it_is_now(cluster: RandomCluster, world: World) -> RandomCluster:
    """The cluster's objects as the API would list them: pods bound where they were placed, with their nominations."""
    state = world.engine.cluster
    now = RandomCluster(cluster.nodes, cluster.groups, cluster.budgets)
    for record in state.pods.values():
        item = world.objects[record.uid]
        if record.row >= 0:
            name = state.nodes.names[record.row]
            item = replace(item, spec=replace(item.spec, node_name=name), status=replace(item.status, phase="Running"))
            now.running.append((item, record.created))
        else:
            there = state.nodes.names[record.nominated] if record.nominated >= 0 else ""
            item = replace(item, status=replace(item.status, nominated_node_name=there))
            now.pending.append((item, record.created))
    return now


def _no_pod_was_forgotten(cluster: RandomCluster, world: World) -> None:
    """A scheduler that starts now, and evaluates everything afresh, finds nothing to do either."""
    fresh = _as_it_is_now(cluster, world).world(plain=True)
    fresh.drain()
    useful = [d for d in fresh.engine.decisions if d.bindings or (d.preemption is not None and d.preemption.victims)]
    places = {e.ref: (e.state.value, sorted(e.rejected_by)) for e in world.engine.queue.entities()}
    assert not useful, f"{[d.ref for d in useful]} could have been scheduled; in the queue: {places}"


@many
@given(random_clusters(max_pending=5))
def test_pods_that_fit_are_not_left_pending(cluster: RandomCluster) -> None:
    """scheduling.md 7: "every event that could help a pod re-activates it"."""
    world = cluster.world().settle()
    _no_pod_was_forgotten(cluster, world)


class _Events:
    """Random things that happen to a cluster; each returns whether it could happen."""

    def __init__(self, cluster: RandomCluster, world: World, chance: random.Random, later: list[object]) -> None:
        self.cluster, self.world, self.chance, self.later = cluster, world, chance, later
        self.all: list[Callable[[], None]] = [
            self.arrive,
            self.arrive,
            self.node_changes,
            self.pod_goes,
            self.minimum_changes,
            self.run,
            self.object_goes,
        ]

    def arrive(self) -> None:
        if self.later:
            item = self.later.pop(self.chance.randrange(len(self.later)))
            self.world.add(item)  # type: ignore[arg-type]

    def node_changes(self) -> None:
        index = self.chance.randrange(len(self.cluster.nodes))
        old, created = self.cluster.nodes[index]
        assert isinstance(old, objects.Node)
        if old.metadata.name not in self.world.engine.cluster.nodes.row_of:
            return  # not there yet
        spec, meta, status = old.spec, old.metadata, old.status
        what = self.chance.randrange(4)
        if what == 0:
            spec = replace(spec, unschedulable=not spec.unschedulable)
        elif what == 1:
            spec = replace(spec, taints=())
        elif what == 2:
            meta = replace(meta, labels={"zone": self.chance.choice(["a", "b"])})
        else:
            more = {
                key: f"{int(str(v).removesuffix('Gi')) + 1}{'Gi' if key == 'memory' else ''}"
                for key, v in status.allocatable.items()
            }
            status = replace(status, allocatable=more)
        new = replace(old, spec=spec, metadata=meta, status=status)
        self.cluster.nodes[index] = (new, created)
        self.world.add((new, created))

    def pod_goes(self) -> None:
        pods = sorted(self.world.engine.cluster.pods.values(), key=lambda p: p.uid)
        if pods:
            pod = self.chance.choice(pods)
            if self.chance.random() < 0.5:
                self.world.virtual.delete("Pod", pod.namespace, pod.name)
            else:
                self.world.engine.remove(ObjectRef("Pod", uid=pod.uid), self.world.now)

    def minimum_changes(self) -> None:
        gangs = [i for i, (g, _) in enumerate(self.cluster.groups) if isinstance(g, objects.PodGroup) and g.min_count]
        known = self.world.engine.cluster.groups
        for index in gangs:
            old, created = self.cluster.groups[index]
            assert isinstance(old, objects.PodGroup)
            state = known.get(f"default/{old.metadata.name}")
            if state is None or state.spec is None:
                continue
            minimum = self.chance.randint(1, 3)
            policy = objects.PodGroupSchedulingPolicy(gang=objects.GangSchedulingPolicy(min_count=minimum))
            new = replace(old, spec=replace(old.spec, scheduling_policy=policy))
            self.cluster.groups[index] = (new, created)
            self.world.add((new, created))
            return

    def object_goes(self) -> None:
        """A group object without running members goes; it may come back."""
        for index, (old, created) in enumerate(self.cluster.groups):
            key = f"default/{old.metadata.name}"
            state = self.world.engine.cluster.groups.get(key)
            if state is not None and state.spec is not None and not state.running():
                del self.cluster.groups[index]
                self.world.engine.remove(ObjectRef("PodGroup", key), self.world.now)
                if self.chance.random() < 0.7:
                    self.cluster.groups.append((old, created))
                    self.world.add((old, created))
                return

    def run(self) -> None:
        self.world.settle()


@many
@given(random_clusters(max_pending=4, terminating=False), st.randoms(use_true_random=False))
def test_queue_forgets_no_pods_after_any_events(cluster: RandomCluster, chance: random.Random) -> None:
    """scheduling.md 7.2, with nodes, groups and pods coming, changing and going between the cycles.

    Groups and what runs are there from the start: a group object that appears later changes the priority of what
    already runs, which the queue is not asked to notice (flushing after five minutes does).
    """
    later: list[object] = list(cluster.pending)
    used = {p.spec.node_name for p, _ in cluster.running if isinstance(p, objects.Pod)}
    later += [item for item in cluster.nodes if item[0].metadata.name not in used and chance.random() < 0.3]
    there = [
        item for item in [*cluster.nodes, *cluster.groups, *cluster.budgets, *cluster.running] if item not in later
    ]
    world = World(*there)
    _watch_placements(cluster, world)
    events = _Events(cluster, world, chance, later)
    for _ in range(chance.randint(1, 10)):
        chance.choice(events.all)()
        check_queue(world.engine)
    while later:
        events.arrive()
    world.settle()
    _no_pod_was_forgotten(cluster, world)


@many
@given(random_clusters(max_pending=4, static=False, ports=False), st.randoms(use_true_random=False))
def test_gates_open_in_any_order(cluster: RandomCluster, chance: random.Random) -> None:
    """scheduling.md 1: a gated pod is tried once its gates are off, whatever came before."""
    gated = [
        (replace(p, spec=replace(p.spec, scheduling_gates=(objects.PodSchedulingGate(name="wait"),))), created)
        for p, created in cluster.pending
        if isinstance(p, objects.Pod)
    ]
    world = World(*[*cluster.nodes, *cluster.groups, *cluster.budgets, *cluster.running, *gated]).settle()
    assert not any(d.result is not Result.SCHEDULED for d in world.engine.decisions)
    names = [p.metadata.name for p, _ in gated]
    chance.shuffle(names)
    for name in names:
        world.change_pod(name, without_gates)
        if chance.random() < 0.5:
            world.settle()
    world.settle()
    _no_pod_was_forgotten(cluster, world)
    assert world.now >= START
