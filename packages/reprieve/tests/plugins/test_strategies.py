"""Strategies of NodeResourcesFit, ignored resources, added node affinity, and their args (scheduling.md 5, 6)."""

from __future__ import annotations

from typing import Any

import pytest

from reprieve.framework.configuration import ConfigurationError
from reprieve.framework.gates import FeatureGates
from reprieve.framework.resource_strategies import MOST_ALLOCATED, requested_to_capacity_ratio
from reprieve.plugins.node_resources_fit import NodeResourcesFit
from reprieve.scheduling import plugin_args
from tests.building import GPU, World, node, pod
from tests.plugins.asking import FITS, UNRESOLVABLE, scores, verdicts

GATES = FeatureGates()


@pytest.mark.parametrize(
    ("uses", "wants", "expected"),
    [
        (0, 1, 25),  # cpu 1 of 4: 25; memory counts 200Mi of 4Gi: 4; but weighted by cpu alone
        (2, 1, 75),
        (4, 1, 100),  # more than all counts as all
    ],
)
def test_most_allocated(uses: int, wants: int, expected: int) -> None:
    """used * 100 // allocatable."""
    world = World(node("n", cpu=4), pod("r", cpu=uses, node="n"), pod("p", cpu=wants))
    assert scores(world, NodeResourcesFit((("cpu", 1),), MOST_ALLOCATED)) == {"n": expected}


def test_unrequested_weights_and_resources() -> None:
    """Extended resources count only for pods that ask for them, and only where nodes have them."""
    resources = ((GPU, 3), ("cpu", 1))
    world = World(node("gpu", cpu=4, gpu=8), node("cpu", cpu=4), pod("p", cpu=2, gpu=4), pod("q", cpu=2))
    assert scores(world, NodeResourcesFit(resources, MOST_ALLOCATED)) == {"gpu": 50, "cpu": 50}
    world.add(pod("r", gpu=2, cpu=0, node="gpu"))
    assert scores(world, NodeResourcesFit(resources, MOST_ALLOCATED))["gpu"] == (3 * 75 + 50) // 4
    assert scores(world, NodeResourcesFit(resources, MOST_ALLOCATED), "q")["gpu"] == 50
    assert scores(world, NodeResourcesFit((("example.com/none", 1),), MOST_ALLOCATED), "q") == {"gpu": 0, "cpu": 0}


@pytest.mark.parametrize(
    ("shape", "used", "expected"),
    [
        ([(0, 0), (100, 10)], 25, 25),
        ([(0, 10), (100, 0)], 25, 75),
        ([(0, 10), (100, 0)], 33, 67),
        ([(20, 2), (80, 8)], 10, 20),
        ([(20, 2), (80, 8)], 90, 80),
        ([(0, 0), (50, 10), (100, 0)], 75, 50),
        ([(0, 1), (3, 0)], 1, 7),  # 10 - 10 // 3, truncated towards zero
        ([(0, 0), (100, 10)], 101, 100),
    ],
)
def test_requested_to_capacity_ratio(shape: list[tuple[int, int]], used: int, expected: int) -> None:
    """A broken line, flat outside, in integers."""
    world = World(node("n", more={"example.com/x": 100}), pod("p", more={"example.com/x": used}))
    plugin = NodeResourcesFit((("example.com/x", 1),), requested_to_capacity_ratio(shape))
    assert scores(world, plugin) == {"n": expected}


def test_resources_that_score_nothing_do_not_count() -> None:
    """RequestedToCapacityRatio: a zero is left out of the mean, which is rounded to nearest."""
    strategy = requested_to_capacity_ratio([(0, 0), (100, 10)])
    world = World(node("n", more={"a.com/x": 100, "a.com/y": 1000}), pod("p", more={"a.com/x": 50, "a.com/y": 1}))
    assert scores(world, NodeResourcesFit((("a.com/x", 1), ("a.com/y", 1)), strategy)) == {"n": 50}
    world = World(node("n", more={"a.com/x": 100, "a.com/y": 100}), pod("p", more={"a.com/x": 50, "a.com/y": 51}))
    assert scores(world, NodeResourcesFit((("a.com/x", 1), ("a.com/y", 1)), strategy)) == {"n": 51}


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({}, UNRESOLVABLE),
        ({"ignoredResources": ["a.com/x"]}, FITS),
        ({"ignoredResources": ["a.com/y"]}, UNRESOLVABLE),
        ({"ignoredResourceGroups": ["a.com"]}, FITS),
        ({"ignoredResources": ["cpu"]}, UNRESOLVABLE),
    ],
)
def test_ignored_resources(args: dict[str, Any], expected: int) -> None:
    """Extended resources only, by name or by prefix."""
    world = World(node("n", cpu=4), pod("p", cpu=1, more={"a.com/x": 1}))
    plugin = plugin_args.node_resources_fit(GATES, args)
    assert isinstance(plugin, NodeResourcesFit)
    assert verdicts(world, plugin) == {"n": expected}
    if args.get("ignoredResources") == ["cpu"]:
        world = World(node("n", cpu=4), pod("p", cpu=5))
        assert verdicts(world, plugin) == {"n": UNRESOLVABLE}


def _terms(*pairs: tuple[str, str]) -> dict[str, Any]:
    return {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": k, "operator": "In", "values": [v]}]} for k, v in pairs]
    }


def test_added_affinity() -> None:
    """NodeAffinityArgs.addedAffinity: every pod of the profile has it on top of its own."""
    preferred = {"weight": 3, "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}}
    plugin = plugin_args.node_affinity(
        GATES,
        {
            "addedAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": _terms(("zone", "a")),
                "preferredDuringSchedulingIgnoredDuringExecution": [preferred],
            }
        },
    )
    world = World(
        node("n1", labels={"zone": "a"}),
        node("n2", labels={"zone": "b"}),
        node("n3", labels={"zone": "a", "disk": "ssd"}),
        pod("p"),
        pod("q", selector={"disk": "ssd"}),
    )
    assert verdicts(world, plugin) == {"n1": FITS, "n2": UNRESOLVABLE, "n3": FITS}  # type: ignore[arg-type]
    assert verdicts(world, plugin, "q") == {"n1": 2, "n2": 2, "n3": 0}  # type: ignore[arg-type]
    assert scores(world, plugin) == {"n1": 0, "n2": 0, "n3": 100}  # type: ignore[arg-type]
    texts = {text: mask.tolist() for text, mask in plugin.reasons(world.state("q"), slice(0, 3))}  # type: ignore[attr-defined]
    assert texts == {
        "node(s) didn't match Pod's node affinity/selector": [True, False, False],
        "node(s) didn't match scheduler-enforced node affinity": [False, True, False],
    }


SHAPE = "scoringStrategy.requestedToCapacityRatio.shape"


@pytest.mark.parametrize(
    ("make", "args", "path"),
    [
        ("node_resources_fit", {"scoringStrategy": {"type": "Best"}}, "scoringStrategy.type"),
        (
            "node_resources_fit",
            {"scoringStrategy": {"type": "RequestedToCapacityRatio"}},
            "scoringStrategy.requestedToCapacityRatio",
        ),
        ("node_resources_fit", {"ignoredResourceGroups": ["a/b"]}, "ignoredResourceGroups[0]"),
        (
            "node_resources_fit",
            {"scoringStrategy": {"resources": [{"name": "cpu", "weight": 101}]}},
            "scoringStrategy.resources[0].weight",
        ),
        ("node_resources_balanced", {"resources": [{"name": "cpu", "weight": 2}]}, "resources[0].weight"),
        ("inter_pod_affinity", {"hardPodAffinityWeight": 101}, "hardPodAffinityWeight"),
        ("pod_topology_spread", {"defaultingType": "None"}, "defaultingType"),
        ("pod_topology_spread", {"defaultConstraints": [{"maxSkew": 1}]}, "defaultConstraints"),
        (
            "pod_topology_spread",
            {"defaultingType": "List", "defaultConstraints": [{"maxSkew": 0}]},
            "defaultConstraints[0].maxSkew",
        ),
        (
            "pod_topology_spread",
            {
                "defaultingType": "List",
                "defaultConstraints": [
                    {
                        "maxSkew": 1,
                        "topologyKey": "z",
                        "whenUnsatisfiable": "DoNotSchedule",
                        "labelSelector": {"matchLabels": {}},
                    }
                ],
            },
            "defaultConstraints[0].labelSelector",
        ),
        (
            "node_affinity",
            {
                "addedAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Like"}]}]
                    }
                }
            },
            "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution",
        ),
    ],
)
def test_args_that_are_refused(make: str, args: dict[str, Any], path: str) -> None:
    """One clear error that names the place (scheduling.md 6)."""
    with pytest.raises(ConfigurationError) as caught:
        getattr(plugin_args, make)(GATES, args)
    assert caught.value.path == path


@pytest.mark.parametrize(
    ("points", "path"),
    [
        ([(0, 11)], "[0].score"),
        ([(101, 1)], "[0].utilization"),
        ([(50, 1), (50, 2)], "[1].utilization"),
    ],
)
def test_shapes_that_are_refused(points: list[tuple[int, int]], path: str) -> None:
    """Utilization 0..100 in increasing order, score 0..10."""
    shape = [{"utilization": u, "score": s} for u, s in points]
    args = {"scoringStrategy": {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": shape}}}
    with pytest.raises(ConfigurationError) as caught:
        plugin_args.node_resources_fit(GATES, args)
    assert caught.value.path == SHAPE + path
