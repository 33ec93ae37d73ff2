"""Groups that preempt and are evicted: the cases of kube-scheduler's own tests, written again.

Source: kubernetes/kubernetes, test/integration/scheduler/preemption/podgroup.  Where kube-scheduler lets the score of
a node decide about victims, the default here is the cheapest eviction (preemption.md 4, Options); the outcome of these
cases is the same.
"""

from __future__ import annotations

from dataclasses import replace as changed
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from kube_rules import objects
from reprieve.framework.plugin import Codes, CycleState, FilterPlugin, Mask, Rows
from reprieve.framework.status import FITS, UNSCHEDULABLE
from reprieve.preemption.default_preemption import DefaultPreemption
from tests.building import World, group, node, pdb, pod, profile_with
from tests.retyped.tables import Case, row, table

HOST = "kubernetes.io/hostname"
POLICY_ON = {"PodGroupPreemptionPolicy": True}
POLICY_OFF = {"PodGroupPreemptionPolicy": False}


def hosts(*names: str, cpu: int | str) -> list[Any]:
    """Nodes with their name as a label."""
    return [node(name, cpu=cpu, labels={HOST: name}) for name in names]


def low(names: str, node: str = "n1", **fields: Any) -> list[Any]:
    """Running pods of priority 10."""
    return row(names, node, **{"priority": 10, **fields})


def high(names: str, group: str = "pg1", **fields: Any) -> list[Any]:
    """Pods of priority 100 that arrive."""
    return row(names, group=group, **{"priority": 100, **fields})


def gang(name: str = "pg1", min_count: int | None = 3, priority: int = 100, **fields: Any) -> objects.PodGroup:
    """A group of priority 100; without a `min_count` a basic one."""
    return group(name, min_count=min_count, priority=priority, **fields)


def full(min_count: int | None, gates: dict[str, bool] | None = None, name: str = "", **fields: Any) -> Case:
    """Three pods that all leave for three."""
    return Case(
        name or f"all three leave, minCount {min_count}",
        [node("n1", cpu=3), gang(min_count=min_count, **fields), *low("low-1 low-2 low-3")],
        high("high-1 high-2 high-3"),
        placed="high-1 high-2 high-3",
        evicted="low-1 low-2 low-3",
        nominated="high-1 high-2 high-3",
        gates=gates or {},
    )


def never(name: str, gates: dict[str, bool], policy: str | None) -> Case:
    """Three pods that stay."""
    return Case(
        name,
        [node("n1", cpu=3), gang(policy=policy), *low("low-1 low-2 low-3")],
        high("high-1 high-2 high-3", never=True),
        placed="low-1 low-2 low-3",
        waits="high-1 high-2 high-3",
        gates=gates,
    )


def one_of_three(preemptor: int | None, victim: int | None) -> Case:
    """One pod of a group of which pods leave one by one."""
    return Case(
        f"minCount {preemptor} takes one pod of a group with minCount {victim}",
        [
            node("n1", cpu=3),
            gang("pre", preemptor),
            gang("vic", victim, priority=10),
            *low("low-1 low-2 low-3", group="vic"),
        ],
        high("high-1", group="pre"),
        placed="high-1",
        of="low-1 low-2 low-3",
        count=1,
    )


def whole_group(victim: int | None) -> Case:
    """The whole group leaves for one pod."""
    return Case(
        f"one pod needs a place, a group with minCount {victim} leaves as a whole",
        [
            node("n1", cpu=3),
            gang("pg1", 1),
            gang("pg2", victim, priority=10, whole=True),
            *low("low-1 low-2 low-3", group="pg2"),
        ],
        high("high-1"),
        placed="high-1",
        evicted="low-1 low-2 low-3",
        nominated="high-1",
    )


def as_many_as_fit(min_count: int | None) -> list[Case]:
    """More pods than there is capacity below the priority of the others."""
    ones = [node(f"n{i}", cpu=1) for i in range(1, 5)]
    return [
        Case(
            f"two of three pods, the pods of higher priority stay, minCount {min_count}",
            [
                *ones,
                gang("pre", min_count),
                *low("p1", "n1"),
                *low("p2", "n2"),
                *row("p3", "n3", priority=200),
                *row("p4", "n4", priority=200),
            ],
            high("p-a p-b p-c", group="pre"),
            placed="p-a p-b p3 p4",
            evicted="p1 p2",
            waits="p-c",
            nominated="p-a p-b",
        ),
        Case(
            f"two of three pods take the nodes of one group, minCount {min_count}",
            [
                *ones,
                gang("vic", 2, priority=50, whole=True),
                gang("vic2", 2, priority=200, whole=True),
                gang("pre", min_count, whole=True),
                *row("v1", "n1", group="vic", priority=50),
                *row("v2", "n2", group="vic", priority=50),
                *row("v3", "n3", group="vic2", priority=200),
                *row("v4", "n4", group="vic2", priority=200),
            ],
            high("p-a p-b p-c", group="pre"),
            placed="p-a p-b v3 v4",
            evicted="v1 v2",
            waits="p-c",
            nominated="p-a",
        ),
    ]


def group_and_single(min_count: int | None) -> Case:
    """A group of priority 50 and a pod of priority 10 leave."""
    return Case(
        f"a group and a pod both leave, minCount {min_count}",
        [
            *[node(f"n{i}", cpu=1) for i in range(1, 4)],
            gang("vic", 1, priority=50, whole=True),
            gang("pre", min_count),
            *row("v1", "n1", group="vic", priority=50),
            *row("v2", "n2", group="vic", priority=50),
            *low("v3", "n3"),
        ],
        high("p-a p-b p-c", group="pre"),
        placed="p-a p-b p-c",
        evicted="v1 v2 v3",
    )


BASE = [
    full(3),
    full(None),
    Case(
        "the larger of two pods leaves",
        [node("n1", cpu=2), node("n2", cpu=2), gang(), *low("low-1", "n1", cpu=2), *low("low-2", "n2")],
        high("high-1 high-2 high-3"),
        placed="high-1 high-2 high-3 low-2",
        evicted="low-1",
        nominated="high-1 high-2 high-3",
        scores={"n1": 100},
    ),
    Case(
        "the less important pod leaves although its node scores less",
        [
            node("n1", cpu=2),
            node("n2", cpu=2),
            gang(min_count=None),
            *low("low-1", "n1"),
            *low("very-low-1", "n2", priority=5),
        ],
        high("high-1 high-2 high-3"),
        placed="high-1 high-2 high-3 low-1",
        evicted="very-low-1",
        scores={"n1": 100},
    ),
    Case(
        "a budget without allowance keeps its pods",
        [
            node("n1", cpu=3),
            gang(min_count=2),
            *low("low-1 low-2", labels={"app": "foo"}),
            *low("low-3"),
            pdb("foo", {"app": "foo"}),
        ],
        high("high-1 high-2", cpu="500m"),
        placed="high-1 high-2",
        evicted="low-3",
        nominated="high-1 high-2",
    ),
    Case(
        "two nodes are emptied",
        [node("n1", cpu=2), node("n2", cpu=2), gang(min_count=4), *low("low-1 low-2", "n1"), *low("low-3 low-4", "n2")],
        high("high-1 high-2 high-3 high-4"),
        placed="high-1 high-2 high-3 high-4",
        evicted="low-1 low-2 low-3 low-4",
        nominated="high-1 high-2 high-3 high-4",
    ),
    Case(
        "a pod of higher priority is in the way of the third",
        [node("n1", cpu=3), gang(), *low("mid-1", priority=500), *low("low-1 low-2")],
        high("high-1 high-2 high-3"),
        placed="mid-1 low-1 low-2",
        waits="high-1 high-2 high-3",
    ),
    Case(
        "the lowest priority leaves",
        [node("n1", cpu=3), gang(min_count=2), *low("mid-1", priority=50), *low("low-1 low-2")],
        high("high-1 high-2"),
        placed="high-1 high-2 mid-1",
        evicted="low-1 low-2",
        nominated="high-1 high-2",
    ),
    whole_group(3),
    whole_group(None),
    one_of_three(1, 2),
    one_of_three(1, 3),
    one_of_three(None, 2),
    one_of_three(1, None),
    one_of_three(None, None),
    *as_many_as_fit(1),
    *as_many_as_fit(None),
    group_and_single(3),
    group_and_single(None),
    never("a group that never preempts, with its own policy", POLICY_ON, "Never"),
    full(3, POLICY_ON, "a group with a policy preempts", policy="PreemptLowerPriority"),
    full(3, POLICY_ON, "a group without a policy preempts"),
    never("pods that never preempt, without policies of groups", POLICY_OFF, None),
]


@table(BASE)
@pytest.mark.parametrize("trees", [True, False], ids=["trees on", "trees off"])
def test_groups_preempt(case: Case, trees: bool) -> None:
    """preemption.md 2.2, 4.1 to 4.5, 6: the same with and without the gate CompositePodGroup."""
    shown = replace_gates(case, CompositePodGroup=trees)
    shown.check(shown.world())


def replace_gates(case: Case, **gates: bool) -> Case:
    """The case with more gates."""
    return changed(case, gates={**case.gates, **gates})


def apart(item: objects.KubernetesObject) -> objects.KubernetesObject:
    """The pod, not on a host with a pod that has the label `app`."""
    assert isinstance(item, objects.Pod)
    term = objects.PodAffinityTerm(
        topology_key=HOST,
        label_selector=objects.LabelSelector(
            match_expressions=(objects.LabelSelectorRequirement(key="app", operator="Exists"),)
        ),
    )
    rule = objects.Affinity(
        pod_anti_affinity=objects.PodAntiAffinity(required_during_scheduling_ignored_during_execution=(term,))
    )
    return replace(item, spec=replace(item.spec, affinity=rule))


def spread(item: objects.KubernetesObject) -> objects.KubernetesObject:
    """The pod, with at most two of `app: foo` on a host as long as there are fewer than ten hosts."""
    assert isinstance(item, objects.Pod)
    rule = objects.TopologySpreadConstraint(
        max_skew=2,
        topology_key=HOST,
        when_unsatisfiable="DoNotSchedule",
        label_selector=objects.LabelSelector(match_labels={"app": "foo"}),
        min_domains=10,
    )
    return replace(item, spec=replace(item.spec, topology_spread_constraints=(rule,)))


def pod_level(item: objects.KubernetesObject) -> objects.KubernetesObject:
    """The pod, with what its container asks for asked by the pod as a whole."""
    assert isinstance(item, objects.Pod)
    (main,) = item.spec.containers
    bare = replace(main, resources=objects.ResourceRequirements())
    return replace(item, spec=replace(item.spec, containers=(bare,), resources=main.resources))


class AtMost(FilterPlugin):
    """Pods with the label `limited`: at most so many in the cluster, with those that are labelled `takes`."""

    name = "AtMost"

    def __init__(self, most: int) -> None:
        self._most = most

    def filter(self, state: CycleState, rows: Rows) -> Codes:
        """See `FilterPlugin.filter`."""
        shape = np.arange(len(state.cluster.nodes))[rows].shape
        if "limited" not in state.pod.labels:
            return np.full(shape, FITS, dtype=np.int8)
        there = [pod for pod in state.cluster.pods.values() if pod.row >= 0]
        taken = sum(1 for pod in there if pod.labels.keys() & {"limited", "takes"})
        return np.full(shape, UNSCHEDULABLE if taken >= self._most else FITS, dtype=np.int8)

    def reasons(self, state: CycleState, rows: Rows) -> list[tuple[str, Mask]]:
        """See `FilterPlugin.reasons`."""
        shape = np.arange(len(state.cluster.nodes))[rows].shape
        return [("already reserved", np.ones(shape, dtype=bool))]


RULES = [
    Case(
        "resources",
        [*hosts("n1", "n2", cpu=2), gang("pre", 2), *low("initial", cpu=2)],
        high("p-1 p-2", group="pre", cpu=2),
        placed="p-1 p-2",
        evicted="initial",
        nominated="p-1 p-2",
    ),
    Case(
        "the more important pod of a node stays",
        [*hosts("n1", "n2", cpu=2), gang("pre", 2), *low("initial-1", priority=5), *low("initial-2")],
        [*high("p-1", group="pre", selector={HOST: "n1"}), *high("p-2", group="pre", selector={HOST: "n2"})],
        placed="p-1 p-2 initial-2",
        evicted="initial-1",
        nominated="p-1 p-2",
    ),
    Case(
        "resources of the pod level",
        [*hosts("n1", "n2", cpu=2), gang("pre", 2), *map(pod_level, low("initial", cpu=2, labels={"app": "x"}))],
        [apart(pod_level(item)) for item in high("p-1 p-2", group="pre", cpu=2)],
        placed="p-1 p-2",
        evicted="initial",
        nominated="p-1 p-2",
    ),
    Case(
        "anti-affinity to the victim",
        [*hosts("n1", "n2", cpu=2), gang("pre", 2), *low("initial", cpu="250m", labels={"app": "x"})],
        [apart(item) for item in high("p-1 p-2", group="pre", cpu="1500m")],
        placed="p-1 p-2",
        evicted="initial",
        nominated="p-1 p-2",
    ),
    Case(
        "a port of the node",
        [node("n1", cpu=2), node("n2", cpu=2), gang("pre", 2), *low("initial", cpu="250m", ports=[8080])],
        high("p-1 p-2", group="pre", cpu="1500m", ports=[8080]),
        placed="p-1 p-2",
        evicted="initial",
        nominated="p-1 p-2",
    ),
    Case(
        "a plugin that counts what was placed in the same attempt",
        [
            node("n1", cpu=3),
            gang("pre", 2),
            *low("v1", priority=15, labels={"takes": ""}),
            *low("v2"),
        ],
        high("p-a p-b", group="pre", labels={"limited": ""}),
        placed="p-a p-b v2",
        evicted="v1",
        plugins=[AtMost(2)],
    ),
    Case(
        "a plugin that allows one pod only",
        [node("n1", cpu=2), gang("pre", 2), gang("vic", 2, priority=10), *low("low-1 low-2", group="vic")],
        high("p-1 p-2", group="pre", labels={"limited": ""}),
        placed="low-1 low-2",
        waits="p-1 p-2",
        plugins=[AtMost(1)],
    ),
    Case(
        "a spread",
        [*hosts("n1", "n2", cpu=16), gang("pre", 2), *low("initial", labels={"app": "foo"})],
        [spread(item) for item in high("p-1 p-2", group="pre", labels={"app": "foo"}, selector={HOST: "n1"})],
        placed="p-1 p-2",
        evicted="initial",
        nominated="p-1 p-2",
    ),
    Case(
        "a spread, and a less important pod elsewhere that is not in the way",
        [
            *hosts("n1", "n2", cpu=16),
            gang("pre", 2),
            *low("initial", labels={"app": "foo"}),
            *low("other", "n2", labels={"app": "foo"}, priority=5),
        ],
        [spread(item) for item in high("p-1 p-2", group="pre", labels={"app": "foo"}, selector={HOST: "n1"})],
        placed="p-1 p-2 other",
        evicted="initial",
        nominated="p-1 p-2",
    ),
]


@table(RULES)
def test_rules_of_all_filters_decide_which_pods_leave(case: Case) -> None:
    """preemption.md 4.3, 4.4."""
    case.check(case.world())


def zones(*, count: int = 2) -> list[Any]:
    """Nodes with one CPU, two in a zone: n1 and n2, n3 and n4."""
    return [node(f"n{i}", cpu=1, labels={"zone": f"z{(i + 1) // 2}"}) for i in range(1, 2 * count + 1)]


DOMAINS = [
    Case(
        "the only zone",
        [*zones(count=1), gang(min_count=2, topology="zone"), *low("low-1", "n1"), *low("low-2", "n2")],
        high("high-1 high-2"),
        placed="high-1 high-2",
        evicted="low-1 low-2",
        nominated="high-1 high-2",
    ),
    Case(
        "the other zone is more important",
        [
            *zones(),
            gang(min_count=2, topology="zone"),
            *low("low-1", "n1"),
            *low("low-2", "n2"),
            *low("important-1", "n3", priority=200),
            *low("important-2", "n4", priority=200),
        ],
        high("high-1 high-2"),
        placed="high-1 high-2 important-1 important-2",
        evicted="low-1 low-2",
        nominated="high-1 high-2",
    ),
    Case(
        "two zones of one price: the better score",
        [
            *zones(),
            gang(min_count=2, topology="zone"),
            *[item for i in range(1, 5) for item in low(f"low-{i}", f"n{i}", start=0)],
        ],
        high("high-1 high-2"),
        placed="high-1 high-2",
        of="low-1 low-2 low-3 low-4",
        count=2,
        nominated="high-1 high-2",
    ),
    Case(
        "no zone is enough: nothing is evicted",
        [
            *zones(),
            gang(min_count=2, topology="zone"),
            *low("low-1", "n1"),
            *low("important-1", "n2", priority=200),
            *low("low-2", "n3"),
            *low("important-2", "n4", priority=200),
        ],
        high("high-1 high-2"),
        placed="low-1 low-2 important-1 important-2",
        waits="high-1 high-2",
    ),
    Case(
        "a group leaves two nodes, and both are used",
        [
            *[node(f"n{i}", cpu=2) for i in range(1, 4)],
            gang("pre", 2),
            gang("vic", 2, priority=10, whole=True),
            *low("v-1", "n1", cpu=2, group="vic"),
            *low("v-2", "n2", cpu=2, group="vic"),
            *low("v-high", "n3", cpu=2, priority=20),
        ],
        high("p1 p2", group="pre", cpu=2),
        placed="p1 p2 v-high",
        evicted="v-1 v-2",
        nominated="p1 p2",
    ),
    Case(
        "a large pod leaves enough for both on its node",
        [
            node("n1", cpu=4),
            node("n2", cpu=4),
            gang("pre", 2),
            gang("vic", 2, priority=10, whole=True),
            *low("v-large", "n1", cpu=4),
            *low("v-1 v-2", "n2", cpu=2, group="vic"),
        ],
        high("p1 p2", group="pre", cpu=2),
        placed="p1 p2 v-1 v-2",
        evicted="v-large",
        nominated="p1 p2",
    ),
]


@table(DOMAINS)
def test_domain_with_the_cheapest_eviction_is_chosen(case: Case) -> None:
    """preemption.md 4.6, 4.8."""
    case.check(case.world())


@pytest.mark.parametrize(
    ("min_count", "expected"),
    [(None, ["bind high-1", "evict low-1", "bind high-2"]), (2, ["evict low-1", "bind high-1 high-2"])],
    ids=["basic", "gang"],
)
def test_one_of_two_members_fits_beside_those_that_run(min_count: int | None, expected: list[str]) -> None:
    """scheduling.md 3.4, 3.5: kube-scheduler binds what fits first for a gang as well."""
    world = World(
        node("n1", cpu=4),
        gang(min_count=min_count),
        *row("pg-1 pg-2", "n1", group="pg1", priority=100),
        *low("low-1"),
        *high("high-1 high-2"),
    ).settle()
    steps = []
    for decision in world.engine.decisions:
        if decision.bindings:
            steps.append("bind " + " ".join(binding.pod.name for binding in decision.bindings))
        elif decision.preemption:
            steps.append("evict " + " ".join(p.name for v in decision.preemption.victims for p in v.unit.pods))
    assert steps == expected


def test_condition_of_the_group_states_the_preemption() -> None:
    """observability.md 1.5: kube-scheduler 1.37 names the number of victims instead."""
    world = World(node("n1", cpu=1), gang(min_count=1), *low("low-1", grace=30), *high("high-1")).drain()
    assert world.condition("pg1") == (
        False,
        "Unschedulable",
        "pod group is waiting for podgroup preemption to complete",
    )


@pytest.mark.parametrize("trees", [True, False], ids=["trees on", "trees off"])
def test_free_node_of_a_better_score_does_not_change_the_nominations(trees: bool) -> None:
    """preemption.md 2.3, 4.5: one free node is not enough for both, and their victims still terminate."""
    world = World(
        *[node(f"n{i}", cpu=1) for i in range(1, 4)],
        gang(min_count=2, priority=50),
        *low("pod1", "n1", priority=100),
        *low("pod2", "n2", grace=300),
        *low("pod3", "n3", grace=300),
        *high("pre-1 pre-2", priority=50),
        gates={"CompositePodGroup": trees},
    ).drain()
    before = dict(world.nominated)
    assert sorted(before) == ["pre-1", "pre-2"]
    assert set(before.values()) == {"n2", "n3"}
    world.gone("pod1")
    world.virtual.until(world.now + 20)
    assert world.nominated == before
    assert world.evicted == ["pod2", "pod3"]


def test_without_the_plugin_nothing_is_evicted() -> None:
    """scheduling.md 5: the profile decides which plugins there are."""
    profile = profile_with(drop=[DefaultPreemption.name])
    world = World(
        node("n1", cpu=1), gang(min_count=1), *low("low-1"), *high("high-1"), profiles={profile.name: profile}
    ).settle()
    assert (world.evicted, world.nominated, world.pending) == ([], {}, ["high-1"])


@pytest.mark.parametrize(
    ("victims", "preemptor"), [("vic", None), (None, "pre"), ("vic", "pre")], ids=["pods", "group", "group for group"]
)
def test_pods_that_are_not_bound_yet_are_victims_like_others(victims: str | None, preemptor: str | None) -> None:
    """preemption.md 1.2: assumed pods count; here their binding is still under way."""
    world = World(
        node("big", cpu=2, memory="2Gi"),
        group("vic", min_count=2, priority=10),
        group("pre", min_count=1, priority=100),
        *[pod(f"victim-{i}", cpu=1, memory="1Gi", priority=10, group=victims, grace=0) for i in (1, 2)],
    )
    while world.engine.step(world.now).decision is not None:
        pass
    world.add(pod("preemptor", cpu=2, memory="1536Mi", priority=100, group=preemptor))
    decision = world.step()
    assert decision.preemption is not None
    assert sorted(p.name for v in decision.preemption.victims for p in v.unit.pods) == ["victim-1", "victim-2"]
