"""Which node a pod goes to, plainly: every filter and score asked of every node, as scheduling.md 2 tells it.

Also random clusters in which every kind of plugin has something to say.
"""

from __future__ import annotations

import random
from typing import Any, ClassVar

import numpy as np
from msgspec.structs import replace

from kube_rules import objects
from kube_rules.meta import ObjectRef
from reprieve.cluster.pods import NO_ROW, PodRecord
from reprieve.framework.plugin import CycleState, Rows, Scope, ScorePlugin, Scores
from reprieve.framework.profile import Profile
from reprieve.framework.status import FITS, UNRESOLVABLE, Code
from tests.building import World, node, pod, profile_with, toleration
from tests.plugins.neighbours import HOST, ZONE, rules, spread, spreading, term, weighted

PLAIN = "default-scheduler"


class ByRow(ScorePlugin):
    """A STATIC score of the nodes alone, beside that of images."""

    name = "ByRow"
    scope: ClassVar[Scope] = Scope.STATIC

    def score(self, state: CycleState, rows: Rows) -> Scores:
        found: Scores = np.arange(len(state.cluster.nodes), dtype=np.int64)[rows] * 37 % 11
        return found


def lively_profile() -> Profile:
    """The default one and a further static score."""
    return profile_with(ByRow(), weights={"ByRow": 3})


# -- the plain answer ------------------------------------------------------------------------------------------------


Verdict = tuple[int, str, tuple[str, ...]]
"""The code of a node, the plugin that rejects the pod there, and its reasons, sorted."""


def _asked(profile: Profile, state: CycleState, row: int) -> Verdict:
    only = np.array([row], dtype=np.int64)
    for plugin in profile.filters:
        status = plugin.pre_filter(state)
        if status.code is Code.SKIP:
            continue
        code = int(plugin.filter(state, only)[0])
        if code != FITS:
            return code, plugin.name, tuple(sorted(text for text, mask in plugin.reasons(state, only) if mask[0]))
    return FITS, "", ()


def verdict(world: World, item: PodRecord, row: int) -> Verdict:
    """Every filter in order, with the nominated pods of at least its priority on that node, then without them.

    Before that, what PreFilter says of the pod, and of the nodes that are worth a look (PreFilterResult).
    """
    cluster, profile = world.engine.cluster, world.engine.running[PLAIN].profile
    state = CycleState(cluster, item)
    for plugin in profile.filters:
        status = plugin.pre_filter(state)
        if not status.ok and status.code is not Code.SKIP:
            return int(status.code), plugin.name, (status.reason,)
    for plugin in profile.filters:
        mask = plugin.narrowed(state)
        if mask is not None and not mask[row]:
            return UNRESOLVABLE, plugin.name, (f"node(s) didn't satisfy plugin(s) [{plugin.name}]",)
    there = cluster.nodes.nominated.get(row, {}).values()
    crowd = [(other, row) for other in there if other.row < 0 and other.priority >= item.priority]
    with cluster.assume_silently(crowd):
        found = _asked(profile, CycleState(cluster, item), row)
    return found if found[0] != FITS else _asked(profile, CycleState(cluster, item), row)


def totals(world: World, item: PodRecord, feasible: list[int]) -> dict[int, int]:
    """The weighted sum of all scores, by row."""
    cluster, profile = world.engine.cluster, world.engine.running[PLAIN].profile
    sums, rows = np.zeros(len(feasible), dtype=np.int64), np.array(feasible, dtype=np.int64)
    for each in profile.scores if feasible else ():
        state = CycleState(cluster, item)
        for plugin in profile.filters:
            plugin.pre_filter(state)
        if each.plugin.pre_score(state):
            scores = each.plugin.score(state, rows)
            sums += each.weight * (each.plugin.normalize(state, scores) if each.plugin.normalizes else scores)
    return dict(zip(feasible, sums.tolist(), strict=True))


def best(world: World, item: PodRecord, feasible: list[int], nominated: int = NO_ROW) -> int:
    """The node it was nominated to if that still fits, else the highest score, else the first by name."""
    if nominated in feasible:
        return nominated
    names, scored = world.engine.cluster.nodes.names, totals(world, item, feasible)
    return min(feasible, key=lambda row: (-scored[row], names[row]), default=NO_ROW)


# -- clusters --------------------------------------------------------------------------------------------------------

IMAGES = ("reg/a:1", "reg/b:1")


class Lively:
    """A random cluster and what happens in it."""

    def __init__(self, seed: int, nodes: int) -> None:
        self.chance = random.Random(seed)
        names = [f"n{index:02}" for index in range(nodes)]
        self.chance.shuffle(names)
        profile = lively_profile()
        self.world = World(*[self.node(name) for name in names], profiles={profile.name: profile})
        self.names, self.running = names, [f"r{index}" for index in range(nodes)]
        self.world.add(*[self.runs(name) for name in self.running])
        self.world.add(*[self.nominated(index) for index in range(nodes // 4)])

    def one_in(self, count: int) -> bool:
        return self.chance.randrange(count) == 0

    def node(self, name: str) -> objects.Node:
        chance = self.chance
        made = node(
            name,
            cpu=chance.choice([2, 4, 4]),
            memory=chance.choice(["4Gi", "8Gi"]),
            gpu=chance.choice([0, 2]),
            labels={ZONE: chance.choice("abc"), HOST: name, "disk": chance.choice(["ssd", "hdd"])},
            taints=[("dedicated", "x", "NoSchedule")] * self.one_in(6)
            + [("slow", "", "PreferNoSchedule")] * self.one_in(4),
            unschedulable=self.one_in(12),
        )
        images = tuple(objects.ContainerImage(names=(name,), size_bytes=900 << 20) for name in IMAGES if self.one_in(3))
        return replace(made, status=replace(made.status, images=images))

    def runs(self, name: str) -> objects.Pod:
        chance = self.chance
        apart = rules(apart=[term(HOST, {"app": "x"})]) if self.one_in(8) else None
        return pod(
            name,
            cpu=chance.choice([1, 2]),
            node=chance.choice(self.names),
            labels={"app": chance.choice("xyz")},
            ports=[80] * self.one_in(5),
            affinity=apart,
        )

    def nominated(self, index: int) -> objects.Pod:
        chance = self.chance
        return pod(
            f"nominated{index}",
            cpu=2,
            gates=["g"],
            nominated=chance.choice(self.names),
            priority=chance.choice([3, 7]),
            labels={"app": "x"},
            ports=[80] * self.one_in(3),
        )

    def happens(self, index: int, times: int) -> None:
        """Pods come and go, nodes change, come and go; one in three of them changes what nodes are."""
        for turn in range(times):
            if not self.one_in(3):
                self.world.gone(self.running.pop(0))
                self.running.append(f"s{index}-{turn}")
                self.world.add(self.runs(self.running[-1]))
            elif self.one_in(3):
                self.world.engine.remove(ObjectRef("Node", self.chance.choice(self.names)), self.world.now)
            else:
                self.world.add(self.node(self.chance.choice(self.names)))

    def pods_only(self, index: int, times: int) -> None:
        """Pods come and go."""
        for turn in range(times):
            self.world.gone(self.running.pop(0))
            self.running.append(f"t{index}-{turn}")
            self.world.add(self.runs(self.running[-1]))


def probes() -> list[objects.Pod]:
    """Pods for which every plugin has something to say; they are asked about and never placed."""
    near, apart = term(ZONE, {"app": "x"}), term(HOST, {"app": "y"})
    kinds: list[dict[str, Any]] = [
        {},
        {"cpu": 2, "gpu": 1},
        {"cpu": 2, "priority": 5},
        {"cpu": 2, "priority": 9},
        {"cpu": 3, "selector": {"disk": "ssd"}},
        {"cpu": 1, "tolerations": [toleration("dedicated", "Exists"), toleration("slow", "Exists")]},
        {"cpu": 1, "ports": [80]},
        {"cpu": 1, "ports": [80], "priority": 5},
        {"cpu": 1, "affinity": rules(near=[near], apart=[apart])},
        {"cpu": 1, "affinity": rules(apart=[term(HOST, {"app": "x"})])},
        {"cpu": 1, "affinity": rules(rather_near=[weighted(7, near)], rather_apart=[weighted(3, apart)])},
        {"cpu": 1, "labels": {"app": "x"}},
    ]
    made = [pod(f"probe{index}", gates=["g"], memory="1Gi", **kind) for index, kind in enumerate(kinds)]
    for index, names in enumerate((["n01", "n03", "n05"], [])):
        field = objects.NodeSelectorRequirement(key="metadata.name", operator="In", values=tuple(names))
        terms = objects.NodeSelector(node_selector_terms=(objects.NodeSelectorTerm(match_fields=(field,)),))
        only = objects.NodeAffinity(required_during_scheduling_ignored_during_execution=terms)
        made.append(pod(f"named{index}", gates=["g"], cpu=2, affinity=objects.Affinity(node_affinity=only)))
    x = {"app": "x"}
    made.append(spreading(pod("spread", gates=["g"], labels=x), spread(ZONE, x), spread(HOST, x, anyway=True)))
    plain = pod("images", gates=["g"], cpu=1)
    containers = tuple(replace(plain.spec.containers[0], name=image[4], image=image) for image in IMAGES)
    made.append(replace(plain, spec=replace(plain.spec, containers=containers)))
    return made
