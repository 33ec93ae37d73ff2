"""Many terms and many budgets: selectors are asked once for pods that they cannot tell apart (preemption.md 9.6)."""

from __future__ import annotations

import random
from typing import Any
from unittest import mock

import pytest

from kube_rules import objects
from kube_rules.selectors import Selector
from reprieve.cluster.pod_affinity_index import PodAffinityIndex
from reprieve.plugins import inter_pod_affinity
from tests.building import World, history, node, pod

HOST = "kubernetes.io/hostname"


def _term(app: str, key: str = HOST) -> objects.PodAffinityTerm:
    return objects.PodAffinityTerm(topology_key=key, label_selector=objects.LabelSelector(match_labels={"app": app}))


def _apart(*apps: str, key: str = HOST) -> objects.PodAntiAffinity:
    terms = tuple(_term(app, key) for app in apps)
    return objects.PodAntiAffinity(required_during_scheduling_ignored_during_execution=terms)


def _nodes(count: int) -> list[objects.Node]:
    return [node(f"n{i}", cpu=64, labels={HOST: f"n{i}", "zone": f"z{i % 3}"}) for i in range(count)]


@pytest.mark.parametrize("pods", [4, 16])
def test_terms_are_matched_once_for_all_pods_that_are_alike(pods: int) -> None:
    """However many pods state them, a term is compared with a set of labels as often."""
    terms = 400
    affinity = objects.Affinity(pod_anti_affinity=_apart(*[f"a{i}" for i in range(terms)]))
    world = World(*_nodes(4), *[pod(f"r{i}", cpu=1, node=f"n{i}", labels={"app": f"a{i}"}) for i in range(3)])
    world.add(*[pod(f"p{i}", cpu=1, affinity=affinity, labels={"app": "x"}) for i in range(pods)])
    accepts, counts = PodAffinityIndex._accepts, PodAffinityIndex._count
    with (
        mock.patch.object(PodAffinityIndex, "_accepts", autospec=True, side_effect=accepts) as compared,
        mock.patch.object(PodAffinityIndex, "_count", autospec=True, side_effect=counts) as counted,
        mock.patch.object(PodAffinityIndex, "check"),
    ):
        world.settle()
    assert all(world.where[f"p{i}"] == "n3" for i in range(pods)), "the only node without a pod they keep away from"
    assert compared.call_count <= 4 * terms
    assert counted.call_count == 0


@pytest.mark.parametrize("seed", range(12))
def test_many_terms_and_few_are_counted_alike(seed: int) -> None:
    """The same decisions, whether terms are counted one by one or together."""

    def outcome(few: int) -> list[tuple[object, ...]]:
        chance = random.Random(seed)
        apps = [f"a{i}" for i in range(4)]
        items: list[Any] = _nodes(5)
        for i in range(14):
            some = chance.sample(apps, chance.randint(1, 3))
            key = chance.choice([HOST, "zone"])
            weighted = tuple(
                objects.WeightedPodAffinityTerm(weight=chance.randint(1, 100), pod_affinity_term=_term(app, key))
                for app in some
            )
            affinity = objects.Affinity(
                pod_anti_affinity=_apart(*some[:1], key=key) if chance.random() < 0.4 else None,
                pod_affinity=objects.PodAffinity(preferred_during_scheduling_ignored_during_execution=weighted),
            )
            items.append(pod(f"p{i:02}", cpu=1, affinity=affinity, labels={"app": chance.choice(apps)}))
        with mock.patch.object(inter_pod_affinity, "_FEW_TERMS", few):
            return history(World(*items).settle())

    assert outcome(0) == outcome(64)


def _budget(index: int) -> objects.PodDisruptionBudget:
    """It counts all pods but those with a label that none has."""
    asked = objects.LabelSelectorRequirement(key=f"k{index}", operator="DoesNotExist")
    return objects.PodDisruptionBudget(
        metadata=objects.ObjectMeta(name=f"b{index}", namespace="default"),
        spec=objects.PodDisruptionBudgetSpec(selector=objects.LabelSelector(match_expressions=(asked,))),
        status=objects.PodDisruptionBudgetStatus(disruptions_allowed=index),
    )


@pytest.mark.parametrize(("victims", "preemptors"), [(30, 2), (120, 2), (30, 8)])
def test_budgets_are_asked_once_for_pods_with_the_same_labels(victims: int, preemptors: int) -> None:
    """However many pods have them, and however many preemptors ask."""
    budgets, sets = 100, 3
    world = World(
        *[node(f"n{i}", cpu=10) for i in range(victims // 10)],
        *[_budget(i) for i in range(budgets)],
        *[pod(f"v{i}", cpu=1, node=f"n{i // 10}", labels={"app": f"a{i % sets}"}) for i in range(victims)],
        *[pod(f"p{i}", cpu=1, priority=9, labels={"app": "new"}) for i in range(preemptors)],
    )
    matches = Selector.matches
    with mock.patch.object(Selector, "matches", autospec=True, side_effect=matches) as asked:
        world.drain()
    assert len(world.nominated) == preemptors
    assert budgets <= asked.call_count <= 2 * budgets * (sets + 1)


def test_pod_preempts_beside_hundreds_of_budgets() -> None:
    """preemption.md 6: one victim that more budgets count than are gone through one by one."""
    world = World(node("n", cpu=1), *[_budget(i) for i in range(300)], pod("v", cpu=1, node="n"))
    assert world.add(pod("p", cpu=1, priority=9)).settle().evicted == ["v"]
