"""Pods with rules about other pods: short builders, random ones, and the rules once more, one node at a time.

The oracle reads the objects a test built and shares nothing with the plugins: no index, no arrays, no undo.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from kube_rules import objects
from tests.building import node, pod

Labels = Mapping[str, str]
HOST, ZONE = "kubernetes.io/hostname", "zone"


def selector(labels: Labels | None = None, *more: tuple[str, str, tuple[str, ...]]) -> objects.LabelSelector:
    """matchLabels, and (key, operator, values) expressions."""
    return objects.LabelSelector(
        match_labels=dict(labels or {}),
        match_expressions=tuple(objects.LabelSelectorRequirement(key=k, operator=o, values=v) for k, o, v in more),
    )


def term(
    key: str,
    labels: Labels | objects.LabelSelector | None,
    *,
    namespaces: Sequence[str] = (),
    namespace_labels: Labels | None = None,
    match: Sequence[str] = (),
    mismatch: Sequence[str] = (),
) -> objects.PodAffinityTerm:
    """A term; `labels` None: an absent selector."""
    return objects.PodAffinityTerm(
        topology_key=key,
        label_selector=labels if labels is None or isinstance(labels, objects.LabelSelector) else selector(labels),
        namespaces=tuple(namespaces),
        namespace_selector=None if namespace_labels is None else selector(namespace_labels),
        match_label_keys=tuple(match),
        mismatch_label_keys=tuple(mismatch),
    )


def weighted(weight: int, what: objects.PodAffinityTerm) -> objects.WeightedPodAffinityTerm:
    """A preferred term."""
    return objects.WeightedPodAffinityTerm(weight=weight, pod_affinity_term=what)


def rules(
    *,
    near: Sequence[objects.PodAffinityTerm] = (),
    apart: Sequence[objects.PodAffinityTerm] = (),
    rather_near: Sequence[objects.WeightedPodAffinityTerm] = (),
    rather_apart: Sequence[objects.WeightedPodAffinityTerm] = (),
) -> objects.Affinity:
    """spec.affinity of these terms."""
    return objects.Affinity(
        pod_affinity=objects.PodAffinity(
            required_during_scheduling_ignored_during_execution=tuple(near),
            preferred_during_scheduling_ignored_during_execution=tuple(rather_near),
        ),
        pod_anti_affinity=objects.PodAntiAffinity(
            required_during_scheduling_ignored_during_execution=tuple(apart),
            preferred_during_scheduling_ignored_during_execution=tuple(rather_apart),
        ),
    )


def spread(
    key: str,
    labels: Labels | objects.LabelSelector | None,
    *,
    skew: int = 1,
    anyway: bool = False,
    domains: int | None = None,
    affinity: str = "Honor",
    taints: str = "Ignore",
    match: Sequence[str] = (),
) -> objects.TopologySpreadConstraint:
    """A constraint; DoNotSchedule unless `anyway`."""
    return objects.TopologySpreadConstraint(
        max_skew=skew,
        topology_key=key,
        when_unsatisfiable="ScheduleAnyway" if anyway else "DoNotSchedule",
        label_selector=labels if labels is None or isinstance(labels, objects.LabelSelector) else selector(labels),
        min_domains=domains,
        node_affinity_policy=affinity,
        node_taints_policy=taints,
        match_label_keys=tuple(match),
    )


def spreading(item: objects.Pod, *constraints: objects.TopologySpreadConstraint) -> objects.Pod:
    """The pod with these constraints."""
    return replace(item, spec=replace(item.spec, topology_spread_constraints=tuple(constraints)))


def namespace(name: str, labels: Labels | None = None) -> objects.Namespace:
    """A namespace."""
    return objects.Namespace(metadata=objects.ObjectMeta(name=name, labels=dict(labels or {})))


# -- the rules, slowly ---------------------------------------------------------------------------------------------


@dataclass
class Picture:
    """Nodes, running pods with their node, and namespaces, as read from the objects."""

    nodes: dict[str, objects.Node] = field(default_factory=dict)
    running: list[tuple[objects.Pod, str]] = field(default_factory=list)
    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)

    def namespace_labels(self, name: str) -> dict[str, str]:
        """Every namespace has the label of its name."""
        return {**self.namespaces.get(name, {}), "kubernetes.io/metadata.name": name}


def matches(found: objects.LabelSelector | None, labels: Labels, *, more: Sequence[tuple[str, bool, str]] = ()) -> bool:
    """Whether labels satisfy a selector; `more`: (key, equal, value)."""
    if found is None:
        return False
    for key, value in found.match_labels.items():
        if labels.get(key) != value:
            return False
    for each in found.match_expressions:
        has = labels.get(each.key)
        holds = {
            "In": has in each.values,
            "NotIn": has not in each.values,
            "Exists": has is not None,
            "DoesNotExist": has is None,
        }[each.operator]
        if not holds:
            return False
    return all((labels.get(key) == value) == equal for key, equal, value in more)


def meant(picture: Picture, stated: objects.PodAffinityTerm, owner: objects.Pod, other: objects.Pod) -> bool:
    """Whether the term of `owner` means `other`."""
    own = owner.metadata.labels
    more = [(k, True, own[k]) for k in stated.match_label_keys if k in own]
    more += [(k, False, own[k]) for k in stated.mismatch_label_keys if k in own]
    place = other.metadata.namespace
    if stated.namespace_selector is None:
        inside = place in (stated.namespaces or (owner.metadata.namespace,))
    else:
        inside = place in stated.namespaces or matches(stated.namespace_selector, picture.namespace_labels(place))
    return inside and matches(stated.label_selector, other.metadata.labels, more=more)


def _lists(item: objects.Pod) -> tuple[Any, Any, Any, Any]:
    affinity = item.spec.affinity
    near = affinity.pod_affinity if affinity is not None else None
    apart = affinity.pod_anti_affinity if affinity is not None else None
    return (
        near.required_during_scheduling_ignored_during_execution if near else (),
        apart.required_during_scheduling_ignored_during_execution if apart else (),
        near.preferred_during_scheduling_ignored_during_execution if near else (),
        apart.preferred_during_scheduling_ignored_during_execution if apart else (),
    )


def affinity_verdict(picture: Picture, item: objects.Pod, name: str) -> tuple[int, str]:
    """Code and reason of InterPodAffinity's filter on a node; (0, "") if it passes."""
    here = picture.nodes[name].metadata.labels
    near, apart, _, _ = _lists(item)

    def same(where: str, key: str) -> bool:
        there = picture.nodes[where].metadata.labels
        return key in here and there.get(key) == here[key]

    if near:
        good = [w for p, w in picture.running if all(meant(picture, t, item, p) for t in near)]
        seen = any(t.topology_key in picture.nodes[w].metadata.labels for w in good for t in near)
        first = not seen and all(meant(picture, t, item, item) for t in near)
        labelled = all(t.topology_key in here for t in near)
        if not labelled or not (first or all(any(same(w, t.topology_key) for w in good) for t in near)):
            return 2, "node(s) didn't match pod affinity rules"
    for t in apart:
        if any(meant(picture, t, item, p) and same(w, t.topology_key) for p, w in picture.running):
            return 1, "node(s) didn't match pod anti-affinity rules"
    for p, w in picture.running:
        for t in _lists(p)[1]:
            if meant(picture, t, p, item) and same(w, t.topology_key):
                return 1, "node(s) didn't satisfy existing pods anti-affinity rules"
    return 0, ""


def affinity_score(picture: Picture, item: objects.Pod, name: str, hard: int = 1) -> int:
    """InterPodAffinity's score of a node before normalizing."""
    here = picture.nodes[name].metadata.labels
    _, _, mine, mine_apart = _lists(item)
    total = 0
    for p, w in picture.running:
        there = picture.nodes[w].metadata.labels
        hard_terms, _, theirs, theirs_apart = _lists(p)
        stated = [(e.weight, e.pod_affinity_term, item, p) for e in mine]
        stated += [(-e.weight, e.pod_affinity_term, item, p) for e in mine_apart]
        stated += [(hard, t, p, item) for t in hard_terms]
        stated += [(e.weight, e.pod_affinity_term, p, item) for e in theirs]
        stated += [(-e.weight, e.pod_affinity_term, p, item) for e in theirs_apart]
        for weight, t, owner, other in stated:
            key = t.topology_key
            if key in here and there.get(key) == here[key] and meant(picture, t, owner, other):
                total += weight
    return total


def _tolerated(item: objects.Pod, found: objects.Node) -> bool:
    def covers(t: objects.Toleration, taint: objects.Taint) -> bool:
        if t.effect not in ("", taint.effect) or t.key not in ("", taint.key):
            return False
        return t.operator == "Exists" or (bool(t.key) and t.value == taint.value)

    hard = [t for t in found.spec.taints if t.effect in ("NoSchedule", "NoExecute")]
    return all(any(covers(t, taint) for t in item.spec.tolerations) for taint in hard)


def _counts(
    picture: Picture, item: objects.Pod, c: objects.TopologySpreadConstraint, keys: Sequence[str]
) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, each in picture.nodes.items():
        labels = each.metadata.labels
        if any(key not in labels for key in keys):
            continue
        if c.node_affinity_policy == "Honor" and any(labels.get(k) != v for k, v in item.spec.node_selector.items()):
            continue
        if c.node_taints_policy == "Honor" and not _tolerated(item, each):
            continue
        value = labels[c.topology_key]
        found[value] = found.get(value, 0) + _on(picture, item, c, name)
    return found


def _own_keys(item: objects.Pod, c: objects.TopologySpreadConstraint) -> list[tuple[str, bool, str]]:
    labels = item.metadata.labels
    return [(key, True, labels[key]) for key in c.match_label_keys if key in labels]


def _on(picture: Picture, item: objects.Pod, c: objects.TopologySpreadConstraint, name: str) -> int:
    more = _own_keys(item, c)
    wanted = c.label_selector
    if wanted is not None and not wanted.match_labels and not wanted.match_expressions and not more:
        return 0
    return sum(
        where == name
        and p.metadata.namespace == item.metadata.namespace
        and p.metadata.deletion_timestamp is None
        and matches(wanted, p.metadata.labels, more=more)
        for p, where in picture.running
    )


def spread_verdict(picture: Picture, item: objects.Pod, name: str) -> int:
    """Code of PodTopologySpread's filter on a node."""
    hard = [c for c in item.spec.topology_spread_constraints if c.when_unsatisfiable == "DoNotSchedule"]
    labels = picture.nodes[name].metadata.labels
    for c in hard:
        if c.topology_key not in labels:
            return 2
        counts = _counts(picture, item, c, [each.topology_key for each in hard])
        least = 0 if len(counts) < (c.min_domains or 1) else min(counts.values())
        own = matches(c.label_selector, item.metadata.labels, more=_own_keys(item, c))
        if not counts and (c.min_domains or 1) == 0:
            continue
        if counts.get(labels[c.topology_key], 0) + own - least > c.max_skew:
            return 1
    return 0


def spread_scores(picture: Picture, item: objects.Pod, candidates: Sequence[str]) -> dict[str, int]:
    """PodTopologySpread's normalized scores of the candidates."""
    soft = [c for c in item.spec.topology_spread_constraints if c.when_unsatisfiable == "ScheduleAnyway"]
    keys = [c.topology_key for c in soft]
    ranked = [n for n in candidates if all(key in picture.nodes[n].metadata.labels for key in keys)]
    raw: dict[str, int] = {}
    for name in ranked:
        score = 0.0
        for c in soft:
            value = picture.nodes[name].metadata.labels[c.topology_key]
            if c.topology_key == HOST:
                size, count = len(ranked), _on(picture, item, c, name)
            else:
                size = len({picture.nodes[n].metadata.labels[c.topology_key] for n in ranked})
                count = _counts(picture, item, c, keys).get(value, 0)
            score += count * math.log(size + 2) + (c.max_skew - 1)
        raw[name] = int(score + 0.5)
    high, low = max(raw.values(), default=0), min(raw.values(), default=0)
    return {n: 0 if n not in raw else 100 if not high else 100 * (high + low - raw[n]) // high for n in candidates}


# -- random ones ---------------------------------------------------------------------------------------------------

_APPS = "xyz"


class RandomRules:
    """Random nodes and pods from a seed; every list of rules is short, so that some of them hold."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def one_in(self, count: int) -> bool:
        return self.chance.randrange(count) == 0

    def labels(self) -> dict[str, str]:
        found = {"app": self.chance.choice(_APPS)}
        if self.one_in(2):
            found["version"] = self.chance.choice("12")
        if self.one_in(3):
            found["tier"] = self.chance.choice("12")
        return found

    def selector(self) -> objects.LabelSelector | None:
        wanted = self.chance.choice(_APPS)
        choices: list[objects.LabelSelector | None] = [
            selector({"app": wanted}),
            selector({"app": wanted}),
            selector({"app": wanted, "version": "1"}),
            selector(None, ("app", "In", ("x", "y"))),
            selector(None, ("version", "DoesNotExist", ())),
            selector(None, ("app", "NotIn", ("z",)), ("version", "Exists", ())),
            selector({}),
            None,
        ]
        return self.chance.choice(choices)

    def keys(self, found: objects.LabelSelector | None) -> list[str]:
        """matchLabelKeys; a key that the selector has already would be refused."""
        if found is None or "version" in found.match_labels or any(e.key == "version" for e in found.match_expressions):
            return []
        return ["version"] if self.one_in(3) else []

    def term(self) -> objects.PodAffinityTerm:
        chance = self.chance
        found = self.selector()
        keys = self.keys(found)
        return term(
            chance.choice([HOST, ZONE, ZONE, "rack"]),
            found,
            namespaces=chance.choice([[], [], [], ["other"], ["default", "other"]]),
            namespace_labels=chance.choice([None, None, None, None, {}, {"team": "a"}]),
            match=keys,
            mismatch=["tier"] if found is not None and self.one_in(6) else [],
        )

    def affinity(self, rate: int = 1) -> objects.Affinity | None:
        chance = self.chance

        def some(odds: int) -> list[objects.PodAffinityTerm]:
            return [self.term() for _ in range(chance.choice([1, 1, 2]))] if self.one_in(odds * rate) else []

        return rules(
            near=some(4),
            apart=some(3),
            rather_near=[weighted(chance.randint(1, 100), t) for t in some(3)],
            rather_apart=[weighted(chance.randint(1, 100), t) for t in some(3)],
        )

    def constraints(self, odds: int = 2) -> list[objects.TopologySpreadConstraint]:
        chance = self.chance
        found = []
        for key in chance.sample([HOST, ZONE, "rack"], chance.choice([1, 1, 2])) if self.one_in(odds) else []:
            wanted = self.selector()
            anyway = self.one_in(2)
            found.append(
                spread(
                    key,
                    wanted,
                    skew=chance.choice([1, 1, 2, 3]),
                    anyway=anyway,
                    domains=None if anyway else chance.choice([None, None, 2, 4]),
                    affinity=chance.choice(["Honor", "Honor", "Ignore"]),
                    taints=chance.choice(["Ignore", "Honor"]),
                    match=self.keys(wanted),
                )
            )
        return found

    def node(self, index: int, **more: Any) -> objects.Node:
        labels = {HOST: f"n{index}", ZONE: self.chance.choice("ab"), "rack": self.chance.choice("123")}
        for key in list(labels):
            if self.one_in(9):
                del labels[key]
        taints = [("dedicated", "a", "NoSchedule")] if self.one_in(6) else []
        return node(f"n{index}", labels=labels, taints=taints, **more)

    def pod(self, name: str, *, rate: int = 1, **more: Any) -> objects.Pod:
        chance = self.chance
        found = pod(
            name,
            uid=f"uid-{chance.randrange(1000):03}-{name}",
            labels=self.labels(),
            namespace=chance.choice(["default", "default", "default", "other"]),
            affinity=self.affinity(rate),
            selector={ZONE: "a"} if self.one_in(8) else {},
            **more,
        )
        return spreading(found, *self.constraints(2 * rate))
