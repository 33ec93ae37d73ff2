"""Pods that returning victims would evict in turn (cost.md 3)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reprieve.framework.configuration import ConfigurationError
from reprieve.framework.configuration_reader import configuration_of
from reprieve.framework.gates import FeatureGates
from reprieve.framework.profile import Profile
from reprieve.preemption.cascade import MOST_RETURNING, Cascades
from reprieve.preemption.cost import UPSTREAM, criteria_of
from reprieve.preemption.criteria import UPSTREAM_ORDER
from reprieve.preemption.default_preemption import DefaultPreemption
from reprieve.preemption.options import PreemptionOptions
from reprieve.preemption.outcome import COMPATIBLE, MINIMIZE_VICTIMS, CascadeStep, Preemption, Reason, Verdict
from reprieve.preemption.units import scheduled_pods, units_below
from reprieve.scheduling.profiles import profiles_of
from tests.building import World, gang, group, node, pdb, pod, profile_with, toleration
from tests.properties.coverage import met, must_meet
from tests.random_clusters import RandomCluster, random_clusters

PLACEMENTS = [COMPATIBLE, MINIMIZE_VICTIMS]


def _with(depth: int, *cost: str, placement: str = MINIMIZE_VICTIMS) -> dict[str, Profile]:
    plugin = DefaultPreemption(PreemptionOptions(cost=cost or UPSTREAM_ORDER, cascade_depth=depth, placement=placement))
    profile = profile_with(plugin)
    return {profile.name: profile}


def _gone(preemption: Preemption | None) -> list[str]:
    return sorted(p.name for v in preemption.victims for p in v.unit.pods) if preemption is not None else []


def _chain() -> list[Any]:
    """`big` is one pod of middling priority, and would come back to evict two; `s0` and `s1` fit on `spare`."""
    return [
        node("n1", gpu=4),
        node("n2", gpu=4),
        node("n3", gpu=4),
        node("spare", gpu=4),
        pod("big", gpu=4, node="n1", priority=50, start=-10),
        pod("s0", gpu=2, node="n2", priority=50, start=-20),
        pod("s1", gpu=2, node="n2", priority=50, start=-20),
        pod("low0", gpu=2, node="n3", priority=10, start=-30),
        pod("low1", gpu=2, node="n3", priority=10, start=-30),
        pod("top", gpu=2, node="spare", priority=100),
        pod("eq", gpu=1, node="spare", priority=50, start=-20),
    ]


def _roomy() -> list[Any]:
    """The same where `s0` and `s1` find room elsewhere when they come back."""
    return [*_chain(), node("n4", gpu=2), node("n5", gpu=2), pod("g4", cpu=1, node="n4"), pod("g5", cpu=1, node="n5")]


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("kind", ["pod", "gang"])
@pytest.mark.parametrize(("depth", "victims"), [(0, ["big"]), (1, ["s0", "s1"]), (2, ["s0", "s1"]), (3, ["s0", "s1"])])
def test_eviction_that_ends_in_more_is_avoided(placement: str, kind: str, depth: int, victims: list[str]) -> None:
    """cost.md 3.1, 3.2, 3.5: three priorities; the one pod that goes would come back and evict two, three in all."""
    asking: list[Any] = [group("crew", min_count=1, priority=100)] if kind == "gang" else []
    asking.append(
        pod("p", gpu=4, priority=100, group="crew" if asking else None, selector=None, labels={"who": "preemptor"})
    )
    # The low ones may not be evicted by it: they run where it may not.
    items = [item for item in _roomy() if item.metadata.name != "n3"]
    items.append(node("n3", gpu=4, taints=[("only", "batch", "NoSchedule")]))
    items = [
        pod(
            "big",
            gpu=4,
            node="n1",
            priority=50,
            start=-10,
            tolerations=[toleration("only", "Equal", "batch", "NoSchedule")],
        )
        if item.metadata.name == "big"
        else item
        for item in items
    ]
    world = World(*items, *asking, profiles=_with(depth, placement=placement))
    found = world.step().preemption
    assert found is not None
    assert _gone(found) == victims
    if depth:
        assert found.avoided is not None
        assert [unit.name for unit in found.avoided.victims] == ["default/big"]
        (step,) = found.avoided.steps
        assert (step.level, step.evictor.name) == (1, "default/big")
        assert sorted(unit.name for unit in step.evicted) == ["default/low0", "default/low1"]
    else:
        assert found.avoided is None


def test_pods_of_a_unit_share_what_the_first_of_them_frees() -> None:
    """cost.md 3.1: a gang that comes back evicts one pod, twice the size of its own, once: both run in its place."""
    crew = [pod(f"w{number}", gpu=2, node="n1", priority=50, group="crew") for number in range(2)]
    items = [
        node("n1", gpu=4, labels={"for": "top"}),
        node("n2", gpu=4),
        group("crew", min_count=2, priority=50, whole=True),
        *crew,
        pod("low", gpu=4, node="n2", priority=10),
    ]
    asking = pod("p", gpu=4, priority=100, selector={"for": "top"})
    found = World(*items, asking, profiles=_with(1)).step().preemption
    assert found is not None
    assert _gone(found) == ["w0", "w1"]
    assert [(step.evictor.name, [unit.name for unit in step.evicted]) for step in found.cascade] == [
        ("default/crew", ["default/low"])
    ]


def _ladder() -> list[Any]:
    """Each step of it evicts the next: 40 evicts 30, which evicts 20, which evicts 10."""
    return [
        item
        for turn, priority in enumerate((40, 30, 20, 10))
        for item in (
            node(f"n{turn}", gpu=1, labels={"step": str(turn)}),
            pod(f"a{priority}", gpu=1, node=f"n{turn}", priority=priority, affinity=None, tolerations=[]),
        )
    ]


@pytest.mark.parametrize(("depth", "levels"), [(0, []), (1, [1]), (2, [1]), (3, [1])])
def test_cascades_have_as_many_rounds_as_configured(depth: int, levels: list[int]) -> None:
    """cost.md 3.1: a returning pod evicts the least important, which then finds none below it."""
    world = World(*_ladder(), pod("p", gpu=1, priority=100, selector={"step": "0"}), profiles=_with(depth))
    found = world.step().preemption
    assert found is not None
    assert [step.level for step in found.cascade] == levels
    if depth:
        assert found.cascade[0].evicted[0].name == "default/a10"
        assert found.cost is not None
        assert found.cost[3] == 2.0


def test_longer_chain() -> None:
    """cost.md 3.1, 3.5: where each may go on one node only, the rounds go down one by one."""
    items: list[Any] = []
    for turn, priority in enumerate((40, 30, 20, 10)):
        where = {"kubernetes.io/hostname": f"n{turn}", f"step{turn}": "yes", f"step{turn - 1}": "yes"}
        items.append(node(f"n{turn}", gpu=1, labels=where))
        items.append(pod(f"a{priority}", gpu=1, node=f"n{turn}", priority=priority, selector={f"step{turn}": "yes"}))
    asking = pod("p", gpu=1, priority=100, selector={"kubernetes.io/hostname": "n0"})
    for depth in (1, 2, 3):
        world = World(*items, asking, profiles=_with(depth))
        decision = world.step()
        assert decision.preemption is not None
        told = [(s.level, s.evictor.name, s.evicted[0].name) for s in decision.preemption.cascade]
        names = ["default/a40", "default/a30", "default/a20", "default/a10"]
        assert told == [(n + 1, names[n], names[n + 1]) for n in range(depth)]


@pytest.mark.parametrize(("args", "where", "why"), [
    ({"cascadeDepth": 4}, "cascadeDepth", "4: not in valid range [0, 3]"),
    ({"cascadeDepth": -1}, "cascadeDepth", "not in valid range"),
    ({"cost": ["cascade", "pods"]}, "cost[0]", "'cascade' needs a cascadeDepth of at least 1"),
])  # fmt: skip
def test_options_are_checked(args: dict[str, Any], where: str, why: str) -> None:
    """cost.md 3.2, 3.3: no criterion without a depth, and no other depths."""
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"pluginConfig": [{"name": "DefaultPreemption", "args": args}]}],
    }
    with pytest.raises(ConfigurationError) as caught:
        profiles_of(configuration_of(document), FeatureGates())
    assert caught.value.path == f"profiles[0].pluginConfig[0].args.{where}"
    assert why in caught.value.message


def test_criterion_counts_pods_in_turn() -> None:
    """cost.md 3.2: first of all, if it is named first."""
    items = [
        *_ladder()[:4],
        node("m", gpu=2),
        pod("x", gpu=1, node="m", priority=30),
        pod("y", gpu=1, node="m", priority=60),
    ]
    world = World(*items, *gang("w", 1, gpu=1, priority=100), profiles=_with(1, "cascade", *UPSTREAM_ORDER))
    found = world.step().preemption
    assert found is not None
    assert found.cost is not None
    assert found.cost[0] == 0.0


@st.composite
def _steps(draw: st.DrawFn) -> list[Any]:
    """Draw full nodes in a row, where a pod may run on its node and on one of the two beside it."""
    items: list[Any] = []
    for number in range(draw(st.integers(2, 6))):
        labels = {"pair": str(number // 2), "next": str((number + 1) // 2)}
        items.append(node(f"n{number}", gpu=2, labels=labels))
        for gpu in draw(st.sampled_from([[2], [1, 1]])):
            key = draw(st.sampled_from(sorted(labels)))
            priority = draw(st.integers(1, 5))
            name = f"p{len(items)}"
            items.append(pod(name, gpu=gpu, node=f"n{number}", priority=priority, selector={key: labels[key]}))
    return [*items, pod("p", gpu=draw(st.integers(1, 2)), priority=100, selector={"pair": "0"})]


@must_meet(cascades=10, second_rounds=1)
@settings(
    max_examples=250,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(data=st.data(), depth=st.integers(1, 3))
def test_no_unit_is_evicted_twice_and_nothing_leaks(data: st.DataObject, depth: int) -> None:
    """cost.md 3.4: each evicts lower priorities alone, round by round, and the cluster cache is as it was."""
    kind = data.draw(st.sampled_from(["pod", "group", "steps"]))
    if kind == "steps":
        world = World(*data.draw(_steps()), profiles=_with(depth))
    else:
        full = random_clusters(
            max_nodes=5, max_running=90, static=False, ports=False, terminating=False, preemptor=kind
        )
        cluster: RandomCluster = data.draw(full)
        world = World(*cluster.everything, profiles=_with(depth))
    picture = world.engine.cluster

    def look(made: Any) -> bool:
        preemption = made.preemption
        gone = [pod.uid for verdict in preemption.victims for pod in verdict.unit.pods]
        level = 0
        for step in preemption.cascade:
            assert level <= step.level <= depth
            level = step.level
            assert all(unit.priority < max(p.priority for p in step.evictor.pods) for unit in step.evicted)
            assert {pod.uid for pod in step.evictor.pods} <= set(gone)
            gone += [pod.uid for unit in step.evicted for pod in unit.pods]
        assert len(gone) == len(set(gone))
        met("cascades", int(bool(preemption.cascade)))
        met("second_rounds", int(level > 1))
        running = world.engine.running["default-scheduler"]
        options = Cascades(running, UPSTREAM, depth)
        before = picture.digest()
        options.after([verdict.unit for verdict in preemption.victims], preemption.nominations)
        assert picture.digest() == before
        return False

    world.virtual.first_preemption = look
    world.settle()


# -- returning pods, asked for directly ------------------------------------------------------------------------------


def _after(world: World, *victims: str, depth: int = 3, at: str = "") -> list[tuple[int, str, list[str]]]:
    """(round, returning pod, its victims) after these victims were evicted for `p`, which is placed on the node."""
    cluster = world.engine.cluster
    units = {unit.name.removeprefix("default/"): unit for unit in units_below(cluster, 100, scheduled_pods(cluster))}
    cascades = Cascades(world.engine.running["default-scheduler"], UPSTREAM, depth)
    before = cluster.digest()
    placed = ((world.record("p"), world.row(at)),) if at else ()
    steps = cascades.after([units[name] for name in victims], placed)
    assert cluster.digest() == before
    return [
        (
            step.level,
            step.evictor.name.removeprefix("default/"),
            [unit.name.removeprefix("default/") for unit in step.evicted],
        )
        for step in steps
    ]


def _two(*items: Any) -> World:
    return World(node("n1", cpu=4), node("n2", cpu=4), *items, pod("p", cpu=4, priority=100))


def test_pod_that_fits_evicts_no_pods() -> None:
    """cost.md 3.1: the preemptor is in its place meanwhile; it may be that nothing is left beside it."""
    roomy = _two(pod("v", cpu=2, node="n1", priority=50), pod("low", cpu=2, node="n2"))
    assert _after(roomy, "v", at="n1") == []
    full = _two(pod("v", cpu=2, node="n1", priority=50), pod("low", cpu=3, node="n2"))
    assert _after(full, "v", at="n1") == [(1, "v", ["low"])]
    assert _after(full, "v") == [], "no pod is in its place"
    assert _after(full, "v", depth=0, at="n1") == []


def test_most_important_comes_back_first() -> None:
    """cost.md 3.1: it takes the room, and the other has to evict."""
    world = _two(
        pod("v1", cpu=2, node="n1", priority=50),
        pod("v2", cpu=2, node="n1", priority=60),
        pod("low", cpu=2, node="n2"),
    )
    assert _after(world, "v1", "v2", at="n1") == [(1, "v1", ["low"])]


@pytest.mark.parametrize(
    ("more", "goes"),
    [
        ({}, ["low"]),
        ({"priority": 50}, []),  # equal is not lower
        ({"priority": 49}, ["low"]),
        ({"cpu": 4, "priority": 60}, []),
    ],
)
def test_only_lower_priorities_make_way(more: dict[str, Any], goes: list[str]) -> None:
    """cost.md 3.4."""
    world = _two(pod("v", cpu=2, node="n1", priority=50), pod("low", **{"cpu": 3, "node": "n2", "priority": 0, **more}))
    assert _after(world, "v", at="n1") == ([(1, "v", goes)] if goes else [])


def test_pod_of_policy_never_does_not_preempt() -> None:
    """preemption.md 2.2."""
    world = _two(pod("v", cpu=2, node="n1", priority=50, never=True), pod("low", cpu=3, node="n2"))
    assert _after(world, "v", at="n1") == []


def test_cheapest_make_way_and_of_as_cheap_ones_those_on_the_first_node() -> None:
    """By the criteria; then by name; a pod that a reprieve could leave stays."""
    world = World(
        *[node(f"n{i}", cpu=4) for i in range(4)],
        pod("v", cpu=2, node="n0", priority=50),
        pod("dear", cpu=4, node="n1", priority=9),
        *[pod(f"a{i}", cpu=2, node="n3", priority=i) for i in range(2)],
        *[pod(f"b{i}", cpu=2, node="n2", priority=i) for i in range(2)],
        pod("p", cpu=4, priority=100),
    )
    assert _after(world, "v", at="n0") == [(1, "v", ["b0"])]


def test_group_comes_back_whole_or_not_at_all() -> None:
    """cost.md 3.1: pod by pod, each where there is capacity or a cheap victim; if one finds none no pod is evicted."""
    items = [
        *gang("w", 2, cpu=2, node="n1", whole=True, priority=50),
        pod("low", cpu=2, node="n2"),
        pod("high", cpu=2, node="n2", priority=60),
    ]
    assert _after(_two(*items), "w", at="n1") == []
    assert _after(_two(*items[:-1]), "w", at="n1") == [(1, "w", ["low"])]


def test_reprieved_unit_is_in_the_way_of_the_next() -> None:
    """Each round on the cluster cache that the one before has left: no pods are evicted twice."""
    world = World(
        *[node(f"n{i}", cpu=2) for i in range(3)],
        pod("v1", cpu=2, node="n0", priority=50),
        pod("v2", cpu=2, node="n1", priority=40),
        pod("low", cpu=2, node="n2", priority=30),
        pod("p", cpu=2, priority=100),
        pod("q", cpu=2, priority=100),
    )
    assert _after(world, "v1", at="n0") == [(1, "v1", ["low"])]
    assert _after(world, "v1", "low", at="n0") == []
    assert _after(world, "v2", "v1", at="n0") == [(1, "v2", ["low"])]


@pytest.mark.parametrize(("pods", "told"), [(MOST_RETURNING, True), (MOST_RETURNING + 1, False)])
def test_so_many_pods_come_back_in_a_round(pods: int, told: bool) -> None:
    """cost.md 3.1: the most important; the others count as staying away."""
    world = World(
        node("n1", cpu=200, pods=200),
        node("n2", cpu=1, pods=200),
        *[pod(f"v{i}", node="n1", priority=50) for i in range(pods - 1)],
        pod("last", cpu=1, node="n1", priority=40),
        pod("low", cpu=1, node="n2"),
        pod("p", cpu=200, priority=100),
    )
    names = [f"v{i}" for i in range(pods - 1)]
    assert _after(world, *names, "last", at="n1") == ([(1, "last", ["low"])] if told else [])


def test_cascading_evictions_count_with_the_first() -> None:
    """cost.md 3.2: by every criterion; budgets over all of them by importance; their pods by `cascade`."""
    world = _two(
        pod("v", cpu=2, node="n1", priority=50, labels={"app": "x"}),
        *gang("w", 2, cpu=1, node="n2", whole=True, priority=7, start=5.0, labels={"app": "x"}),
        pdb("x", {"app": "x"}, allowed=2),
    )
    cluster = world.engine.cluster
    units = {unit.name: unit for unit in units_below(cluster, 100, scheduled_pods(cluster))}
    v, w = units["default/v"], units["default/w"]
    reason = Reason(world.record("p"), 0, "NodeResourcesFit", "")
    verdicts = [Verdict(v, False, reason), Verdict(w, False, None)]
    criteria = criteria_of(("cascade", *UPSTREAM_ORDER, "units"), depth=1)
    cascades = Cascades(world.engine.running["default-scheduler"], criteria, 1)
    own = (0.0, 0.0, 50.0, 50.0 + (1 << 31), 1.0, 0.0, 1.0)
    assert cascades.cost(verdicts, [], own) == own
    found = cascades.cost(verdicts, [CascadeStep(1, v, (w,))], own)
    assert found[:5] == (2.0, 1.0, 50.0, 50 + 2 * 7 + 3 * float(1 << 31), 3.0)
    assert found[6] == 2.0
