"""A group in one of several placements (KEP-5732): the cycle, the choice, the report where none works."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from reprieve.cluster.groups import Group
from reprieve.cluster.state import ClusterState
from reprieve.framework.configuration_reader import configuration_of
from reprieve.framework.gates import FeatureGates
from reprieve.framework.plugin import (
    Assigned,
    Placement,
    PlacementGeneratePlugin,
    PlacementScorePlugin,
)
from reprieve.queueing.entity import QueueState
from reprieve.scheduling.decision import Result
from reprieve.scheduling.profiles import profiles_of
from tests.building import World, composite, group, history, node, pod, profile_with
from tests.plugins.neighbours import ZONE, rules, term
from tests.scheduling.plugins_for_tests import OnlyNamed

FIRST = "first placement status: pod group is unschedulable"
MEMBER = "no new claims to deallocate, preemption: not eligible due to workload aware preemption enabled"
NO_VICTIMS = "No preemption victims found for incoming preemptor"


def _racks(*sizes: int, cpu: int = 2) -> list[Any]:
    return [node(f"r{r}n{i}", cpu=cpu, labels={"rack": f"r{r}"}) for r, size in enumerate(sizes) for i in range(size)]


def _crew(count: int, *, cpu: int = 1, min_count: int | None = None, priority: int = 0) -> list[Any]:
    crew = group("crew", topology="rack", min_count=min_count, priority=priority)
    return [crew, *(pod(f"p{i}", cpu=cpu, group="crew", priority=priority) for i in range(count))]


def _used(world: World) -> set[str]:
    return {name[:2] for pod, name in world.where.items() if pod.startswith("p")}


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize(
    ("racks", "running", "count", "min_count", "rack"),
    [
        ((2, 3, 2), [], 5, 5, "r1"),  # the only one that holds the gang
        ((2, 3, 2), [], 5, None, "r1"),  # a basic group: more pods are better
        ((3, 2), [], 4, 4, "r1"),  # both hold it: the smaller one would be fuller
        ((3, 3), [("r1n0", 1)], 3, 3, "r1"),  # pods of others fill it too
        ((2, 2), [], 3, 3, "r0"),  # ties go to the first by name
        ((4, 2), [("r1n0", 1), ("r1n1", 1)], 6, 2, "r0"),  # all six beat four fifths full
        ((3, 2), [], 5, 4, "r0"),  # five in r0 (100 + 83), four in r1 (80 + 100): r0
    ],
)
def test_best_placement_is_chosen(
    plain: bool,
    racks: tuple[int, ...],
    running: list[tuple[str, int]],
    count: int,
    min_count: int | None,
    rack: str,
) -> None:
    """scheduling.md 3.10; KEP-5732: where enough fit, the highest sum of PodGroupPodsCount and NodeResourcesFit."""
    world = World(
        *_racks(*racks),
        *[pod(f"x{i}", cpu=cpu, node=name) for i, (name, cpu) in enumerate(running)],
        *_crew(count, min_count=min_count),
        plain=plain,
    ).settle()
    assert _used(world) == {rack}


def test_nodes_without_the_label_are_not_used() -> None:
    """KEP-5732: they belong to no placement, however much room they have."""
    world = World(node("bare", cpu=99), *_racks(1), *_crew(2, min_count=2)).settle()
    assert world.where == {"p0": "r0n0", "p1": "r0n0"}


def test_where_no_placement_works_the_first_one_is_reported() -> None:
    """Upstream's words (schedule_one_podgroup.go): how many there are, and what is wrong in the first."""
    world = World(*_racks(2, 1), *_crew(3, cpu=2, min_count=3)).settle()
    assert world.where == {}
    assert world.condition("crew") == (
        False,
        "Unschedulable",
        f"0/2 placements are available, {FIRST}, {NO_VICTIMS}",
    )
    assert world.message("p2") == f"0/2 nodes are available: 2 Insufficient cpu. {MEMBER}"
    assert world.message("p0").startswith("pod group is unschedulable, waiting for minCount pods")


def test_where_there_is_no_placement_at_all() -> None:
    """No node has the label: nothing to try, and nothing that preemption could do."""
    world = World(node("bare"), pod("low", cpu=1, node="bare", priority=-1), *_crew(2, min_count=2)).settle()
    assert world.condition("crew")[2].startswith("0/0 placements are available")
    assert world.evicted == []
    world.add(*_racks(1)).settle()
    assert world.where == {"low": "bare", "p0": "r0n0", "p1": "r0n0"}


def test_later_members_follow_and_wait_if_they_must() -> None:
    """scheduling.md 3.10; KEP-5732: running pods of the group decide the domain; the others wait for it."""
    world = World(*_racks(1, 4), *_crew(2, min_count=2)).settle()
    assert _used(world) == {"r0"}
    world.add(pod("p2", cpu=1, group="crew")).settle()
    assert world.pending == ["p2"]
    assert world.message("p2") == f"0/1 nodes are available: 1 Insufficient cpu. {MEMBER}"
    world.add(node("r0n1", cpu=1, labels={"rack": "r0"})).settle()
    assert world.where["p2"] == "r0n1"


def test_basic_group_places_what_fits_in_one_domain() -> None:
    """KEP-5732: "at least one pod for Basic scheduling policy"; the others say why they wait."""
    world = World(*_racks(1, 1, cpu=1), *_crew(3)).settle()
    assert world.where == {"p0": "r0n0"}
    assert world.message("p1") == f"0/1 nodes are available: 1 Insufficient cpu. {MEMBER}"


def test_nominated_placement_comes_first() -> None:
    """Upstream: the placement with most nominated nodes is taken if the group fits, before any score is asked."""
    world = World(*_racks(1, 1, 1, cpu=4), group("crew", topology="rack", min_count=2))
    world.add(pod("p0", cpu=1, group="crew", nominated="r2n0"), pod("p1", cpu=1, group="crew", nominated="r2n0"))
    world.add(pod("p2", cpu=1, group="crew", nominated="r1n0")).settle()
    assert _used(world) == {"r2"}


def test_nominated_placement_without_room_is_left() -> None:
    """preemption.md 4.5: "It may later be placed anywhere if capacity becomes free"."""
    world = World(*_racks(1, 1), pod("x", cpu=2, node="r0n0"), group("crew", topology="rack", min_count=2))
    world.add(*[pod(f"p{i}", cpu=1, group="crew", nominated="r0n0") for i in range(2)]).settle()
    assert _used(world) == {"r1"}


@pytest.mark.parametrize("plain", [False, True])
def test_nominated_placement_that_breaks_a_rule_is_left_for_the_next(plain: bool) -> None:
    """preemption.md 4.5: there is room for both in the first rack, but not on two nodes."""
    apart = rules(apart=[term("kubernetes.io/hostname", {"app": "x"})])
    hosts = [("r0n0", "r0"), ("r1n0", "r1"), ("r1n1", "r1"), ("r2n0", "r2"), ("r2n1", "r2")]
    nodes = [node(name, cpu=4, labels={"rack": rack, "kubernetes.io/hostname": name}) for name, rack in hosts]
    members = [
        pod(f"p{i}", cpu=1, group="crew", labels={"app": "x"}, affinity=apart, nominated="r0n0") for i in range(2)
    ]
    world = World(*nodes, group("crew", topology="rack", min_count=2), *members, plain=plain).settle()
    assert _used(world) == {"r1"}


@pytest.mark.parametrize("index", [0, 1])
def test_gate_off_ignores_the_constraint(index: int) -> None:
    """TopologyAwareWorkloadScheduling=false: as if it were not there."""
    gates = FeatureGates(topology_aware_workload_scheduling=bool(index))
    world = World(*_racks(1, 1), *_crew(4, min_count=4), gates=gates).settle()
    assert bool(world.where) is (index == 0)


def test_members_in_two_domains_are_an_error_until_they_are_not() -> None:
    """Upstream: the group's attempt ends with SchedulerError; it is tried again when a node's label changes."""
    world = World(*_racks(1, 1), group("crew", topology="rack", min_count=1))
    world.add(pod("a", cpu=1, node="r0n0", group="crew"), pod("b", cpu=1, node="r1n0", group="crew"))
    world.add(pod("p", cpu=1, group="crew")).settle()
    why = "cannot determine domain for already scheduled pods: more than 1 domain found for pod group: r0, r1"
    assert world.rejection("p") == ("SchedulerError", why)
    assert world.place("crew") is QueueState.UNSCHEDULABLE
    world.gone("b").settle()
    assert world.where == {"a": "r0n0", "p": "r0n0"}


def test_pod_that_leaves_any_placement_wakes_the_group() -> None:
    """scheduling.md 1: no lost wake-up, also where the first placement fails for another reason than the others."""
    tainted = [node("r0n0", cpu=4, labels={"rack": "r0"}, taints=[("dedicated", "x", "NoSchedule")])]
    world = World(*tainted, *_racks(0, 1), pod("x", cpu=1, node="r1n0"), *_crew(2, min_count=2)).settle()
    assert world.message("p0").startswith("0/1 nodes are available: 1 node(s) had untolerated taint")
    world.gone("x").settle()
    assert _used(world) == {"r1"}


def test_rules_about_other_pods_see_the_whole_cluster() -> None:
    """Only the nodes to choose from are restricted: a pod in another rack of the zone keeps the group out."""
    away = rules(apart=[term(ZONE, {"app": "noisy"})])
    nodes = [node(f"r{r}", cpu=2, labels={"rack": f"r{r}", ZONE: "a" if r < 2 else "b"}) for r in range(3)]
    noisy = pod("noisy", cpu=1, node="r1", labels={"app": "noisy"})
    world = World(*nodes, noisy, group("crew", topology="rack"), pod("p", cpu=1, group="crew", affinity=away)).settle()
    assert world.where["p"] == "r2"


def test_view_is_left_as_it_was() -> None:
    """scheduling.md 7.4: "the view after undo equals the view before, bit for bit", after trying many placements."""
    world = World(*_racks(*[1] * 30), *_crew(3, min_count=3, cpu=1))
    before = world.engine.cluster.digest()
    assert world.step().result is Result.UNSCHEDULABLE
    assert world.engine.cluster.digest() == before


@pytest.mark.parametrize("seed", range(6))
def test_answer_does_not_depend_on_the_order_of_the_objects(seed: int) -> None:
    """preemption.md 4, scheduling.md 7: determinism; `--seed` chooses among nodes, never among placements."""
    items = [(item, float(i)) for i, item in enumerate([*_racks(2, 2, 3, cpu=4), *_crew(4, min_count=3)])]
    expected = history(World(*items).settle())
    random.Random(seed).shuffle(items)
    assert history(World(*items).settle()) == expected
    seeded = World(*items, seed=seed).settle()
    assert _used(seeded) == _used(World(*items).settle())


# -- other people's plugins ----------------------------------------------------------------------------------------


class Halves(PlacementGeneratePlugin):
    """Even rows and odd rows."""

    name = "Halves"

    def generate(self, cluster: ClusterState, group: Group) -> Sequence[Placement] | None:
        rows = np.flatnonzero(cluster.nodes.alive[: len(cluster.nodes)])
        return [Placement("even", rows[rows % 2 == 0]), Placement("odd", rows[rows % 2 == 1])]


class Names(PlacementScorePlugin):
    """Rather the placement with the later name, and where it puts the pods matters."""

    name = "Names"

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []

    def score_placement(self, cluster: ClusterState, group: Group, placement: Placement, assigned: Assigned) -> int:
        assert all(row in placement.rows for _, row in assigned)
        self.asked.append((placement.name, len(assigned)))
        return ord(placement.name[-1])

    def normalize_placements(self, scores: Sequence[int]) -> Sequence[int]:
        return [100 if score == max(scores) else 0 for score in scores]


def _own(*plugins: Any, **weights: int) -> dict[str, Any]:
    profile = profile_with(*plugins)
    profile.placement_weights.update(weights)
    return {profile.name: profile}


def test_placements_of_several_plugins_are_intersected() -> None:
    """KEP-5732, beta: "calculating non-empty intersections of the placements returned by the different plugins"."""
    world = World(*_racks(2, 1, cpu=1), *_crew(2, min_count=2), profiles=_own(Halves())).settle()
    assert world.where == {}
    assert world.condition("crew")[2].startswith("0/3 placements are available")
    one = World(*_racks(2, 1, cpu=2), *_crew(2, min_count=2), profiles=_own(Halves())).settle()
    assert one.where == {"p0": "r0n0", "p1": "r0n0"}


def test_placement_score_of_ones_own_decides_by_its_weight() -> None:
    """scheduling.md 5: PlacementScore; what it is asked about are placements in which the group fits."""
    names = Names()
    world = World(*_racks(2, 3, 2), *_crew(3, min_count=3), profiles=_own(names, Names=5)).settle()
    assert _used(world) == {"r2"}
    assert names.asked == [("r0", 3), ("r1", 3), ("r2", 3)]


def test_weights_come_from_the_configuration_and_the_generator_answers_to_both_its_names() -> None:
    """scheduling.md 6: files load as they are; upstream registers the plugin as TopologyPlacementGenerator."""
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "plugins": {
                    "placementScore": {"enabled": [{"name": "PodGroupPodsCount", "weight": 5}]},
                    "placementGenerate": {"enabled": [{"name": "TopologyPlacementGenerator"}]},
                }
            }
        ],
    }
    (profile,) = profiles_of(configuration_of(document), FeatureGates())
    weights = {weighted.plugin.name: weighted.weight for weighted in profile.placement_scores}
    assert weights == {"NodeResourcesFit": 1, "PodGroupPodsCount": 5}
    assert [plugin.name for plugin in profile.placement_generators] == ["TopologyPlacement"]


def test_without_the_generator_a_group_goes_anywhere() -> None:
    """A profile decides which plugins run: no PlacementGenerate, no placements."""
    profile = profile_with(drop=["TopologyPlacement"])
    world = World(*_racks(1, 1), *_crew(4, min_count=4), profiles={profile.name: profile}).settle()
    assert len(world.where) == 4


@pytest.mark.parametrize("tree", [False, True], ids=["a group", "a tree"])
@pytest.mark.parametrize(("racks", "asked"), [((1, 2), []), ((2, 1, 2), ["r0", "r2"])])
def test_only_several_placements_that_work_are_compared(racks: tuple[int, ...], asked: list[str], tree: bool) -> None:
    """KEP-5732, phase 3: a score is asked of each that holds the group, where there is more than one."""
    names = Names()
    above: list[Any] = [composite("t", topology="rack")] if tree else []
    crew = group("crew", topology=None if tree else "rack", min_count=3, parent="t" if tree else "")
    members = [pod(f"p{turn}", cpu=1, group="crew") for turn in range(3)]
    world = World(*_racks(*racks), *above, crew, *members, profiles=_own(names, Names=5)).settle()
    assert len(world.where) == 3
    assert [name for name, _ in names.asked] == asked


@pytest.mark.parametrize("size", [1, 2])
def test_placement_is_found_for_a_gang_of_any_size(size: int) -> None:
    """An external filter concerns its pods or not: either way the first rack that has the room is taken."""
    world = World(*_racks(1, 1), *_crew(size, cpu=1, min_count=size), profiles=_own(OnlyNamed("r1n0"))).settle()
    assert _used(world) == {"r1"}
    assert len(world.where) == size
