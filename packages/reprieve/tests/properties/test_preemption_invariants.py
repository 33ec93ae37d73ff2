"""preemption.md 9 on random clusters: what is never allowed, checked by an oracle of its own."""

from __future__ import annotations

import random

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from reprieve.cluster.pods import PodRecord
from reprieve.preemption.outcome import Preemption
from reprieve.scheduling.decision import Decision, Result
from tests.building import World, history
from tests.drawing import examples
from tests.properties.coverage import met, must_meet
from tests.properties.oracle import Picture, PlainUnit
from tests.random_clusters import RandomCluster, random_clusters

many = examples(80)
EACH = pytest.mark.parametrize(
    ("preemptor", "placement"),
    [("pod", "MinimizeVictims"), ("group", "MinimizeVictims"), ("group", "Compatible")],
    ids=["pod", "group", "group-compatible"],
)
"""The preemptor, and how a group's place is chosen."""


def _assigned(picture: Picture, world: World, preemption: Preemption) -> list[tuple[object, str]]:
    names = world.engine.cluster.nodes.names
    return [(picture.pods[pod.uid], names[row]) for pod, row in preemption.nominations]


def _own(world: World, preemption: Preemption) -> set[str]:
    """UIDs with nominations that do not count: the preemptor's own, lifted while it is judged."""
    if preemption.group is not None:
        return {p.uid for p in preemption.group.members.values()}
    assert preemption.pod is not None
    return {preemption.pod.uid}


class _Judge:
    """Looks at every decision to preempt, before it is carried out."""

    def __init__(self, cluster: RandomCluster, world: World) -> None:
        self.cluster, self.world = cluster, world
        self.seen = 0
        self.before: Picture | None = None
        self.busy: dict[str, bool] = {}
        self.victims: dict[str, set[str]] = {}
        """Preemptor -> UIDs of the victims of its last decision."""
        world.engine.before_step = self.remember
        world.engine.after_step = self.look

    def remember(self) -> None:
        """Keep the state that a decision is made from."""
        self.before = Picture(self.cluster, self.world)
        engine = self.world.engine
        self.busy = {}
        for entity in engine.queue.entities():  # whatever the engine itself thinks is under way
            leaving = self.victims.get(entity.ref, set()) & engine.cluster.pods.keys()
            self.busy[entity.ref] = bool(leaving) and any(p.nominated >= 0 for p in entity.ready.values())
        self.nominated = {p.uid: p.nominated for p in engine.cluster.pods.values()}

    def look(self, decision: Decision) -> None:
        """Every rule of preemption.md 9 that can be seen at one decision."""
        preemption = decision.preemption
        if preemption is None:
            return
        self.seen += 1
        met("judged")
        picture, world = self.before, self.world
        assert picture is not None
        assigned = _assigned(picture, world, preemption)
        own = _own(world, preemption)
        victims: list[PlainUnit] = []
        for verdict in preemption.verdicts:
            unit = picture.unit_of(picture.pods[verdict.unit.pods[0].uid])
            assert {p.uid for p in verdict.unit.pods} == {p.uid for p in unit.pods}, f"{unit.name} is torn apart"
            assert unit.priority < preemption.priority, f"{unit.name} is not of lower priority"
            if verdict.evicted:
                victims.append(unit)
        gone = {p.uid for unit in victims for p in unit.pods}
        priority = preemption.priority
        assert picture.holds(assigned, gone, priority, own), "the victims go and the preemptor does not fit"  # type: ignore[arg-type]
        for unit in victims:
            back = gone - {p.uid for p in unit.pods}
            assert not picture.holds(assigned, back, priority, own), f"{unit.name} need not go"  # type: ignore[arg-type]
        self.victims[decision.ref] = gone
        if victims and self.busy.get(decision.ref):
            pod = preemption.pod
            assert pod is not None, "a group started a second preemption"
            row = self.nominated[pod.uid]
            assert decision.diagnosis is not None
            assert row >= 0, "a second preemption in flight"
            assert decision.diagnosis.unresolvable(row), "a second preemption in flight"
        members: list[PodRecord] = (
            list(preemption.group.members.values()) if preemption.group is not None else [preemption.pod]  # type: ignore[list-item]
        )
        policy = preemption.group.spec.preemption_policy if preemption.group and preemption.group.spec else None
        never = policy == "Never" or (policy is None and any(m.never_preempts for m in members if m.row < 0))
        assert not never, "the preemptor is not allowed to preempt"


@must_meet(judged=15)
@many
@given(random_clusters(max_pending=4))
def test_every_decision_to_preempt_keeps_the_rules(cluster: RandomCluster) -> None:
    """preemption.md 4, 9.1-9.4: lower priorities; whole units; the preemptor fits then; irreducible; one at a time."""
    world = cluster.world()
    judge = _Judge(cluster, world)
    world.settle()
    event(f"preemptions: {min(judge.seen, 3)}")


@EACH
@must_meet(judged=15)
@many
@given(data=st.data())
def test_every_decision_of_one_preemptor_keeps_the_rules(preemptor: str, placement: str, data: st.DataObject) -> None:
    """The same where one preemptor with a good chance wants in."""
    cluster = data.draw(random_clusters(preemptor=preemptor))
    world = cluster.world(placement=placement)
    judge = _Judge(cluster, world)
    world.settle()
    event(f"preemptions: {min(judge.seen, 3)}")


@EACH
@must_meet(evicts=15)
@many
@given(data=st.data())
def test_evictions_are_never_without_success(preemptor: str, placement: str, data: st.DataObject) -> None:
    """preemption.md 9: no victim without a preemptor that then fits; nothing for a group that stays unschedulable."""
    cluster = data.draw(random_clusters(preemptor=preemptor))
    world = cluster.world(placement=placement)
    waiting_before = set(world.pending)
    world.settle()
    evicted = set(world.evicted)
    event(f"evicted: {min(len(evicted), 3)}")
    if not evicted:
        return
    met("evicts")
    placed = [name for name in world.where if name.startswith("high")]
    first = next(d for d in world.engine.decisions if d.preemption is not None and d.preemption.victims)
    assert first.preemption is not None
    nominated = {pod.name for pod, _ in first.preemption.nominations}
    group = world.engine.cluster.groups.get("default/high")
    if placement == "Compatible" and group is not None and not group.is_gang:
        # Members of a group without a minimum may take each other's places, as in the reference.
        assert len(placed) >= len(nominated), f"evicted {evicted} for {waiting_before}, placed {placed}"
    else:
        assert nominated <= set(placed), f"evicted {evicted} for {waiting_before}, placed {placed}"
    if group is not None:
        assert group.scheduled >= group.min_count
    going = {r.key for r in world.engine.cluster.pods.values() if r.terminating}
    assert not evicted & {key.partition("/")[2] for key in going}, "a victim is still there"
    for state in world.engine.cluster.groups.values():
        if state.spec is not None and state.spec.disrupt_all and state.key != "default/high":
            names = {p.name for p in state.running()}
            assert not names or not evicted & {n for n in evicted if world_group(cluster, n) == state.name}


def world_group(cluster: RandomCluster, name: str) -> str | None:
    """The group a pod of the input names."""
    for item, _ in cluster.running:
        if item.metadata.name == name:
            named = item.spec.scheduling_group  # type: ignore[attr-defined]
            return named.pod_group_name if named is not None else None
    return None


@many
@given(random_clusters(max_pending=4, ports=False))
def test_fast_path_decides_as_the_plain_path_with_amounts_alone(cluster: RandomCluster) -> None:
    """preemption.md 9: "A fast path decides differently from the plain path" is never allowed."""
    fast, plain = cluster.world().settle(), cluster.world(plain=True).settle()
    assert history(fast) == history(plain)
    assert (fast.where, fast.evicted, fast.nominated) == (plain.where, plain.evicted, plain.nominated)


@EACH
@many
@given(data=st.data())
def test_fast_path_decides_as_the_plain_path(preemptor: str, placement: str, data: st.DataObject) -> None:
    """The same with one preemptor, host ports included."""
    cluster = data.draw(random_clusters(preemptor=preemptor))
    fast, plain = cluster.world(placement=placement).settle(), cluster.world(plain=True, placement=placement).settle()
    assert history(fast) == history(plain)
    assert (fast.where, fast.evicted) == (plain.where, plain.evicted)


@EACH
@many
@given(data=st.data(), chance=st.randoms(use_true_random=False))
def test_order_of_the_input_does_not_matter(
    preemptor: str, placement: str, data: st.DataObject, chance: random.Random
) -> None:
    """preemption.md 4: "the same cluster gives the same answer, in whatever order objects arrived"."""
    cluster = data.draw(random_clusters(preemptor=preemptor))
    order = list(range(len(cluster.everything)))
    chance.shuffle(order)
    assert history(cluster.world(placement=placement).settle()) == history(
        cluster.world(order=order, placement=placement).settle()
    )


def _first(cluster: RandomCluster) -> tuple[World, Picture, Decision]:
    """By `placement: Compatible`, which is what the reference does."""
    world = cluster.world(placement="Compatible")
    picture = Picture(cluster, world)
    return world, picture, world.step()


@must_meet(preempts=15, waits=4)
@many
@given(random_clusters(preemptor="pod"))
def test_pod_takes_the_node_and_the_victims_of_the_reference(cluster: RandomCluster) -> None:
    """preemption.md 3, 5, 6 against the reference implementation: same node, same victims, in the same order."""
    _, picture, decision = _first(cluster)
    if decision.result is Result.SCHEDULED:
        met("fits")
        return
    expected = picture.preempt_for_pod(picture.pods["uid-high"])
    found = decision.preemption
    met("preempts" if found else "waits")
    if found is None:
        assert expected is None
        return
    assert expected is not None
    node, victims = expected
    assert found.domain == node
    assert [v.unit.name for v in found.victims] == [unit.name for unit in victims]


@must_meet(preempts=15)
@many
@given(random_clusters(preemptor="group"))
def test_group_takes_the_victims_of_the_reference(cluster: RandomCluster) -> None:
    """preemption.md 4-6 against the reference implementation, given the placement: same victims, same order."""
    world, picture, decision = _first(cluster)
    found = decision.preemption
    met("preempts" if found else decision.result.value)
    if found is None:
        return
    units = picture.units_below(found.priority)
    assigned = _assigned(picture, world, found)
    everyone = {p.uid for unit in units for p in unit.pods}
    own = _own(world, found)
    assert picture.holds(assigned, everyone, found.priority, own)  # type: ignore[arg-type]
    expected = picture.victims(units, assigned, found.priority, own)  # type: ignore[arg-type]
    assert [v.unit.name for v in found.victims] == [unit.name for unit in expected]
    remains = {unit.name for unit in found.remains}  # of gangs that are broken anyway: reported apart (cost.md 1.7)
    judged = [unit.name for unit in units if unit.name not in remains]
    assert [v.unit.name for v in found.verdicts] == judged, "importance order (preemption.md 5)"
    over = picture.violating(units) - remains
    assert {v.unit.name for v in found.verdicts if v.violates_pdb} == over


@must_meet(refused=4)
@many
@given(random_clusters(preemptor="group"))
def test_group_that_fits_by_any_reckoning_is_helped(cluster: RandomCluster) -> None:
    """preemption.md 4.2: refused only if the group's own algorithm fails with every potential victim gone."""
    world, picture, decision = _first(cluster)
    if decision.preemption is not None or decision.result is Result.SCHEDULED:
        return
    units = picture.units_below(world.entity("high").priority)
    evictable = {p.uid for unit in units for p in unit.pods}
    rest = RandomCluster(
        cluster.nodes,
        cluster.groups,
        [],
        [item for item in cluster.running if item[0].metadata.uid not in evictable],
        cluster.pending,
    )
    empty = rest.world()
    again = empty.step()
    if units and not world.record("high-0").never_preempts:
        met("refused")
        assert again.result is not Result.SCHEDULED
