"""The criteria by which evictions are compared: those there are, their order, and those of others (cost.md 1)."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_rules.meta import ObjectRef
from reprieve.cluster.state import ClusterState
from reprieve.framework.configuration import ConfigurationError
from reprieve.framework.configuration_reader import configuration_of
from reprieve.framework.gates import FeatureGates
from reprieve.framework.preemption_cost import Costs, EvictionUnits, PreemptionCost
from reprieve.framework.profile import Profile
from reprieve.framework.status import PluginError
from reprieve.preemption.cost import DEFAULT, UPSTREAM, criteria_of
from reprieve.preemption.criteria import IN_TREE, STANDARD, UPSTREAM_ORDER
from reprieve.preemption.default_preemption import DefaultPreemption
from reprieve.preemption.options import PreemptionOptions
from reprieve.preemption.outcome import COMPATIBLE, MINIMIZE_VICTIMS, Preemption
from reprieve.scheduling.profiles import profiles_of
from reprieve.scheduling.third_party_plugins import third_party
from tests.building import START, World, annotated, gang, group, node, pdb, pod, profile_with
from tests.drawing import examples
from tests.properties.test_preemption_invariants import _Judge
from tests.random_clusters import RandomCluster, random_clusters

some = examples(12)


def _at(seconds: float) -> str:
    """A time, so many seconds after the start of the world."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(START + seconds, UTC).isoformat().replace("+00:00", "Z")


def _with(*cost: str, placement: str = COMPATIBLE, **more: Any) -> dict[str, Profile]:
    profile = profile_with(
        DefaultPreemption(PreemptionOptions(cost=cost or UPSTREAM_ORDER, placement=placement, **more))
    )
    return {profile.name: profile}


def _preempts(world: World) -> Preemption:
    decision = world.step()
    assert decision.preemption is not None
    return decision.preemption


def _gone(preemption: Preemption) -> list[str]:
    return sorted(p.name for v in preemption.victims for p in v.unit.pods)


TABLE: list[tuple[str, list[Any], str]] = [
    # criterion, what runs on n1 and n2, and the victims by it: each time upstream's comparison takes the other node
    (
        "units",
        [
            *gang("w", 2, gpu=1, node="n1", whole=True, priority=1),
            pod("b1", gpu=1, node="n2"),
            pod("b2", gpu=1, node="n2"),
        ],
        "n1",
    ),
    ("lostWork", [pod("a", gpu=2, node="n1", start=-7200), pod("b", gpu=2, node="n2", start=-60, priority=1)], "n2"),
    (
        "lostWork",
        [
            pod("a", gpu=2, node="n1", start=-7200, priority=1, annotations=annotated(last_checkpoint=_at(-30))),
            pod("b", gpu=2, node="n2", start=-300),
        ],
        "n1",
    ),
    (
        "lostWork",
        [
            pod("a", gpu=2, node="n1", start=-7200, priority=1, annotations=annotated(checkpoint_interval="1h")),
            pod("b", gpu=2, node="n2", start=-300),
        ],
        "n1",
    ),
    (
        "lostWork",
        [
            pod("a", gpu=2, node="n1", start=-60, annotations=annotated(restart_cost="1h")),
            pod("b", gpu=2, node="n2", start=-600, priority=1),
        ],
        "n2",
    ),
    (
        "gangsBroken",
        [
            group("w", min_count=1),
            pod("w0", gpu=2, node="n1", group="w"),
            pod("b", gpu=2, node="n2", priority=1),
        ],
        "n2",
    ),
    (
        "restartElsewhere",
        [
            pod("a", gpu=2, node="n1", selector={"kubernetes.io/hostname": "n1"}),
            pod("b1", gpu=1, node="n2", priority=1),
            pod("b2", gpu=1, node="n2", priority=1),
            node("n3", cpu=64, gpu=1),
        ],
        "n2",
    ),
    (
        "tenantSpread",
        [
            pod("a1", gpu=1, node="n1"),
            pod("a2", gpu=1, node="n1"),
            pod("b1", gpu=1, node="n2", priority=1),
            pod("b2", gpu=1, node="n2", priority=1, namespace="other"),
        ],
        "n2",
    ),
]  # fmt: skip


def _nodes() -> list[Any]:
    return [node(f"n{i}", cpu=64, gpu=2, labels={"kubernetes.io/hostname": f"n{i}"}) for i in (1, 2)]


@pytest.mark.parametrize(("criterion", "running", "domain"), TABLE)
def test_each_criterion_decides_between_nodes(criterion: str, running: list[Any], domain: str) -> None:
    """cost.md 1.3: by its formula, before upstream's order, for a pod."""
    one = pod("p", gpu=2, priority=9)
    usual = _preempts(World(*_nodes(), *running, one, profiles=_with()))
    assert usual.domain != domain
    found = _preempts(World(*_nodes(), *running, one, profiles=_with(criterion, *UPSTREAM_ORDER)))
    assert found.domain == domain
    assert found.compared is not None
    assert found.compared.steps[-1] == (IN_TREE[criterion].text, 1)
    assert found.cost is not None
    assert found.compared.cost is not None
    assert found.cost[0] < found.compared.cost[0]
    assert [one.name for one in found.criteria] == [criterion, *UPSTREAM_ORDER]


@pytest.mark.parametrize("placement", [COMPATIBLE, MINIMIZE_VICTIMS])
@pytest.mark.parametrize(("criterion", "running", "domain"), TABLE)
def test_each_criterion_decides_between_placements(
    criterion: str, running: list[Any], domain: str, placement: str
) -> None:
    """cost.md 1.2: for a gang that may use either node as its domain."""
    crew: list[Any] = [group("crew", min_count=1, priority=9, topology="kubernetes.io/hostname")]
    crew.append(pod("p", gpu=2, priority=9, group="crew"))
    found = _preempts(
        World(*_nodes(), *running, *crew, profiles=_with(criterion, *UPSTREAM_ORDER, placement=placement))
    )
    assert found.domain == domain


@pytest.mark.parametrize(("criterion", "running", "domain"), TABLE)
def test_each_criterion_leads_the_search_for_victims(criterion: str, running: list[Any], domain: str) -> None:
    """cost.md 1.2: and for a gang that looks for the cheapest eviction anywhere."""
    crew = gang("crew", 1, gpu=2, priority=9)
    profiles = _with(criterion, *UPSTREAM_ORDER, placement=MINIMIZE_VICTIMS)
    found = _preempts(World(*_nodes(), *running, *crew, profiles=profiles))
    names = World(*_nodes()).engine.cluster.nodes.names
    assert {names[row] for _, row in found.nominations} == {domain}


def test_dear_are_spared_first() -> None:
    """cost.md 1.2: the order of the reprieve is that of the criteria; upstream's would spare the higher priority."""
    running = [pod("fresh", gpu=1, node="n1", start=-10, priority=5), pod("long", gpu=1, node="n1", start=-7200)]
    one = pod("p", gpu=1, priority=9)
    assert _gone(_preempts(World(node("n1", gpu=2), *running, one, profiles=_with()))) == ["long"]
    assert _gone(_preempts(World(node("n1", gpu=2), *running, one, profiles=_with("lostWork")))) == ["fresh"]


def test_gang_that_saved_a_minute_ago_is_evicted_of_two_equal_ones() -> None:
    """cost.md 2.1, 2.4: and when the other saves later, the answer changes."""

    def saved(name: str, seconds: float) -> Any:
        return group(name, min_count=2, whole=True, annotations=annotated(last_checkpoint=_at(seconds)))

    def world(placement: str) -> World:
        items: list[Any] = [node(f"n{i}", gpu=2) for i in (1, 2)]
        for name, seconds in (("a", -3600.0), ("b", -60.0)):
            items.append(saved(name, seconds))
            items += [pod(f"{name}{i}", gpu=1, node=f"n{i + 1}", group=name, start=-9000) for i in range(2)]
        return World(*items, profiles=_with("lostWork", *UPSTREAM_ORDER, placement=placement))

    for placement in (COMPATIBLE, MINIMIZE_VICTIMS):
        assert _gone(_preempts(world(placement).add(*gang("crew", 2, gpu=1, priority=9)))) == ["b0", "b1"]
        later = world(placement).add(saved("a", 0.0), *gang("crew", 2, gpu=1, priority=9))
        assert _gone(_preempts(later)) == ["a0", "a1"]
        assert _gone(_preempts(world(placement).add(pod("p", gpu=1, priority=9)))) == ["b0", "b1"]


def test_answer_for_a_pod_is_as_of_now() -> None:
    """cost.md 2.5: what was remembered of a node a while ago does not count where the time does."""
    crew = [
        pod("a", gpu=1, node="n1", start=0, annotations=annotated(checkpoint_interval="10m")),
        pod("b", gpu=1, node="n2", start=-300),
    ]
    world = World(node("n1", gpu=1), node("n2", gpu=1), *crew, profiles=_with("lostWork"))
    engine = world.engine
    engine.set(pod("p", gpu=1, priority=9), START + 500)
    first = engine.step(START + 500).decision
    assert first is not None
    assert first.preemption is not None
    assert first.preemption.domain == "n1"  # 500 s against 800
    engine.fail_preemption("pod/uid-p", START + 590)
    engine.remove(ObjectRef("Pod", uid="uid-p"), START + 590)
    engine.set(pod("q", gpu=1, priority=9), START + 610)
    second = engine.step(START + 610).decision
    assert second is not None
    assert second.preemption is not None
    assert second.preemption.cost == (10.0,)


@pytest.mark.parametrize(
    ("cost", "where", "why"),
    [
        (["lostwork"], "cost[0]", "'lostwork': no such criterion, did you mean \"lostWork\"?; known: pdbViolations,"),
        (["pods", "gangBroken"], "cost[1]", 'did you mean "gangsBroken"?'),
        (["pods", "weather"], "cost[1]", "'weather': no such criterion; known:"),
        (["pods", "units", "pods"], "cost[2]", "'pods' is given twice"),
        ([], "cost", "at least one criterion is needed"),
    ],
)
def test_unknown_name_is_refused(cost: list[str], where: str, why: str) -> None:
    """cost.md 1.4: with the place in the file and the nearest name."""
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"pluginConfig": [{"name": "DefaultPreemption", "args": {"cost": cost}}]}],
    }
    with pytest.raises(ConfigurationError) as caught:
        profiles_of(configuration_of(document), FeatureGates())
    assert caught.value.path == f"profiles[0].pluginConfig[0].args.{where}"
    assert why in caught.value.message


class Darlings(PreemptionCost):
    """Pods with a name that begins with a preferred letter."""

    name = "Darlings"
    text = "fewest darlings"
    measure = "darlings"

    def of_units(self, units: EvictionUnits) -> Costs:
        """See `PreemptionCost.of_units`."""
        return units.per_unit([pod.name.startswith("a") for pod in units.every_pod])


class Wrong(PreemptionCost):
    """Answers nonsense."""

    name = "Wrong"

    def of_units(self, units: EvictionUnits) -> Costs:
        """See `PreemptionCost.of_units`."""
        return np.full(len(units), np.nan)


def _darlings(kind: type[PreemptionCost]) -> dict[str, Profile]:
    """The plugin comes by `--plugin`, the list by the configuration."""
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"pluginConfig": [{"name": "DefaultPreemption", "args": {"cost": [kind.name, *UPSTREAM_ORDER]}}]}],
    }
    found = third_party([f"{kind.__module__}:{kind.__qualname__}"], entry_points=())
    (profile,) = profiles_of(configuration_of(document), FeatureGates(), third_party=found)
    return {profile.name: profile}


def test_plugin_adds_a_criterion() -> None:
    """cost.md 1.5: registered as other plugins, and named in the list."""
    items = [*_nodes(), pod("a", gpu=2, node="n1"), pod("b", gpu=2, node="n2", priority=1), pod("p", gpu=2, priority=9)]
    assert _preempts(World(*items)).domain == "n1"
    found = _preempts(World(*items, profiles=_darlings(Darlings)))
    assert found.domain == "n2"
    assert found.compared is not None
    assert found.compared.steps == (("fewest darlings", 1),)
    assert (found.cost or ())[0] == 0.0


def test_plugin_that_answers_nonsense_fails_the_attempt_and_nothing_else() -> None:
    """cost.md 1.5: no pods are evicted by it."""
    world = World(node("n1", gpu=2), pod("a", gpu=2, node="n1"), pod("p", gpu=2, priority=9), profiles=_darlings(Wrong))
    decision = world.step()
    assert decision.preemption is None
    assert any("Wrong" in rejection.message for rejection in decision.rejections)


class Careless(Darlings):
    """It describes what it looks at by a value that cannot be compared later."""

    name = "Careless"

    def beyond_the_node(self, cluster: ClusterState) -> Any:
        return [cluster.now]


def test_criterion_depends_on_hashable_values() -> None:
    """cost.md 1.5: no pods are evicted by it."""
    items = [node("n1", gpu=2), pod("a", gpu=2, node="n1"), pod("p", gpu=2, priority=9)]
    decision = World(*items, profiles=_darlings(Careless)).step()
    assert decision.preemption is None
    assert any("something hashable, or None" in rejection.message for rejection in decision.rejections)


def test_default_list_of_criteria() -> None:
    """cost.md 1.1: kube-scheduler's, with gangs that break before the sum of priorities, and restarts."""
    assert (UPSTREAM.upstream, UPSTREAM.native, UPSTREAM.names) == (True, True, UPSTREAM_ORDER)
    assert (DEFAULT.upstream, DEFAULT.native, DEFAULT.names) == (False, True, STANDARD)
    assert [name for name in STANDARD if name not in ("gangsBroken", "restartElsewhere")] == list(UPSTREAM_ORDER)
    assert STANDARD[-3:] == ("pods", "restartElsewhere", "startTime")
    assert not criteria_of(("lostWork",)).native
    with pytest.raises((ConfigurationError, PluginError)):
        World(profiles=_with("nonsense"))


LISTS = [
    ("lostWork", "pods"),
    ("pods", "highestPriority"),
    ("highestPriority", "gangsBroken", "lostWork"),
    ("tenantSpread", "restartElsewhere", "units"),
    ("pdbViolations", "highestPriority", "units", "pods", "startTime"),
]


@pytest.mark.parametrize("cost", LISTS, ids="+".join)
@pytest.mark.parametrize("placement", [COMPATIBLE, MINIMIZE_VICTIMS])
@some
@given(data=st.data())
def test_rules_hold_by_any_criteria(cost: tuple[str, ...], placement: str, data: st.DataObject) -> None:
    """preemption.md 9: irreducible, whole units, lower priorities, no needless victims; the fast path is the plain one.

    cost.md 1.2: the search finds nothing that is dearer than what placing by score costs, by the same list.
    """
    cluster: RandomCluster = data.draw(random_clusters())
    world = World(*cluster.everything, profiles=_with(*cost, placement=placement))
    _Judge(cluster, world)
    world.settle()
    plain = World(*cluster.everything, profiles=_with(*cost, placement=placement, plain=True, share=False))
    plain.settle()
    assert _chosen(plain) == _chosen(world)


def _chosen(world: World) -> list[tuple[str, list[str]]]:
    return [(made.preemption.domain, _gone(made.preemption)) for made in world.virtual.preemptions]


@some
@given(data=st.data())
def test_nothing_is_dearer_than_placing_by_score(data: st.DataObject) -> None:
    """cost.md 1.2, 4.2: by the list that is configured, and by one yardstick."""
    cost = data.draw(st.sampled_from(LISTS))
    cluster: RandomCluster = data.draw(random_clusters(preemptor="group"))
    first = [
        _first(World(*cluster.everything, profiles=_with(*cost, placement=p))) for p in (COMPATIBLE, MINIMIZE_VICTIMS)
    ]
    if first[0] is None or first[1] is None or "pdbViolations" in cost:
        assert (first[0] is None) == (first[1] is None)
        return
    assert first[1] <= first[0]


def _first(world: World) -> tuple[float, ...] | None:
    made: list[tuple[float, ...]] = []

    def stop(found: Any) -> bool:
        made.append(found.preemption.cost or ())
        return found.preemption.group is not None

    world.virtual.first_preemption = stop
    world.settle()
    return made[-1] if made and world.virtual.stopped else None


def test_budgets_weigh_where_they_stand_in_the_list() -> None:
    """cost.md 1.2: without `pdbViolations` in it they do not count."""
    items = [*_nodes(), pod("a", gpu=2, node="n1", labels={"app": "x"}), pod("b", gpu=2, node="n2", priority=1)]
    items += [pdb("x", {"app": "x"}, allowed=0), pod("p", gpu=2, priority=9)]
    assert _preempts(World(*items)).domain == "n2"
    assert _preempts(World(*items, profiles=_with("highestPriority"))).domain == "n1"
    assert _preempts(World(*items, profiles=_with("highestPriority", "pdbViolations"))).domain == "n1"


def test_page_shows_the_example_as_it_is() -> None:
    """docs/cost.md and examples/plugins/quota.py."""
    root = Path(__file__).parents[4]
    assert (root / "examples/plugins/quota.py").read_text() in (root / "docs/cost.md").read_text()


@pytest.mark.parametrize(
    "cost",
    [
        ("units", "prioritySum"),
        ("tenantSpread", "startTime"),
        ("gangsBroken", "pods"),
        ("lostWork", "units"),
        ("restartElsewhere", "pods"),
        ("minimumRuntime", "gangsBroken", "restartElsewhere", "startTime"),
    ],
)
@examples(3)
@given(seed=st.integers(0, 2**32))
def test_like_pods_share_what_holds_for_all_of_them(cost: tuple[str, ...], seed: int) -> None:
    """cost.md 1.2: what is remembered of a node is what would be computed, by criteria that look beyond it or not."""
    chance = random.Random(seed)
    running: list[Any] = [node(f"n{i}", cpu=6, labels={"disk": f"d{i % 3}"}) for i in range(6)]
    running += [group(f"g{i}", min_count=2, priority=chance.randint(0, 3)) for i in range(3)]
    for i in range(24):
        gang = f"g{chance.randrange(3)}" if chance.random() < 0.4 else None
        more: dict[str, Any] = {"priority": chance.randint(0, 3), "start": float(chance.randint(1, 4)), "group": gang}
        at = chance.randrange(6)
        if chance.random() < 0.3:
            more["selector"] = {"disk": f"d{at % 3}"}
        running.append(pod(f"p{i:02}", cpu=chance.randint(1, 2), node=f"n{at}", **more))
    asking = [pod(f"new-{i}", cpu=3, priority=chance.choice([9, 9, 2])) for i in range(8)]
    told = []
    for share in (True, False):
        profile = profile_with(DefaultPreemption(PreemptionOptions(cost=cost, share=share)))
        world = World(*running, *asking[:4], profiles={profile.name: profile}).drain()
        # What is on no node the preemptors look at counts as well: a gang that shrinks, a node that others may use.
        world.add(node("n3", cpu=6, labels={"disk": "d1"}))
        world.gone(min(each.name for each in world.engine.cluster.pods.values() if each.name.startswith("p")))
        world.add(*asking[4:]).drain()
        told.append((world.evicted, world.nominated))
    assert told[0] == told[1]
    assert told[0][0]
