"""NodeResourcesFit, NodeResourcesBalancedAllocation and NodePorts (scheduling.md 5, api.md "Quantities")."""

from __future__ import annotations

from typing import Any

import pytest

from reprieve.plugins.node_ports import NodePorts
from reprieve.plugins.node_resources_balanced import NodeResourcesBalancedAllocation
from reprieve.plugins.node_resources_fit import NodeResourcesFit
from tests.building import GPU, Port, World, node, pod
from tests.plugins.asking import FITS, UNRESOLVABLE, UNSCHEDULABLE, reasons, scores, verdicts


@pytest.mark.parametrize(
    ("has", "runs", "wants", "code", "texts"),
    [
        ({"cpu": 4}, {"cpu": 3}, {"cpu": 1}, FITS, []),
        ({"cpu": 4}, {"cpu": 3}, {"cpu": "1001m"}, UNSCHEDULABLE, ["Insufficient cpu"]),
        ({"cpu": 4}, {}, {"cpu": 4}, FITS, []),
        ({"cpu": 4}, {}, {"cpu": "4001m"}, UNRESOLVABLE, ["Insufficient cpu"]),
        ({"memory": "4Gi"}, {"memory": "3Gi"}, {"memory": "1Gi"}, FITS, []),
        ({"memory": "4Gi"}, {"memory": "3Gi"}, {"memory": "1025Mi"}, UNSCHEDULABLE, ["Insufficient memory"]),
        (
            {"more": {"ephemeral-storage": "10Gi"}},
            {"more": {"ephemeral-storage": "9Gi"}},
            {"more": {"ephemeral-storage": "2Gi"}},
            UNSCHEDULABLE,
            ["Insufficient ephemeral-storage"],
        ),
        ({}, {}, {"more": {"ephemeral-storage": "1Gi"}}, UNRESOLVABLE, ["Insufficient ephemeral-storage"]),
        ({"gpu": 8}, {"gpu": 6}, {"gpu": 2}, FITS, []),
        ({"gpu": 8}, {"gpu": 6}, {"gpu": 3}, UNSCHEDULABLE, [f"Insufficient {GPU}"]),
        ({}, {}, {"gpu": 1}, UNRESOLVABLE, [f"Insufficient {GPU}"]),
        (
            {"more": {"hugepages-2Mi": "4Mi"}},
            {"more": {"hugepages-2Mi": "4Mi"}},
            {"more": {"hugepages-2Mi": "2Mi"}},
            UNSCHEDULABLE,
            ["Insufficient hugepages-2Mi"],
        ),
        # Nothing asked for, nothing checked: an over-committed node takes a pod that asks for nothing of it.
        ({"cpu": 1}, {"cpu": 2}, {"memory": "1Gi"}, FITS, []),
        ({"cpu": 1}, {"cpu": 2}, {"cpu": 0}, FITS, []),
        ({"pods": 1}, {}, {}, UNSCHEDULABLE, ["Too many pods"]),
        ({"pods": 0}, None, {}, UNSCHEDULABLE, ["Too many pods"]),
        ({"pods": 2}, {}, {}, FITS, []),
        (
            {"cpu": 2, "memory": "2Gi", "pods": 1},
            {"cpu": 2, "memory": "2Gi"},
            {"cpu": 1, "memory": "1Gi"},
            UNSCHEDULABLE,
            ["Insufficient cpu", "Insufficient memory", "Too many pods"],
        ),
        # One resource that can never fit makes the whole node unresolvable, and every shortage is still named.
        (
            {"cpu": 2, "memory": "2Gi"},
            {"cpu": 2},
            {"cpu": 1, "memory": "3Gi"},
            UNRESOLVABLE,
            ["Insufficient cpu", "Insufficient memory"],
        ),
    ],
)
def test_nodes_that_fit(
    has: dict[str, Any], runs: dict[str, Any] | None, wants: dict[str, Any], code: int, texts: list[str]
) -> None:
    """Requests against allocatable less what runs; more than all of the node cannot be cured by preemption."""
    world = World(node("n", **has), *([pod("r", node="n", **runs)] if runs is not None else []), pod("p", **wants))
    assert verdicts(world, NodeResourcesFit()) == {"n": code}
    assert reasons(world, NodeResourcesFit()) == ({"n": texts} if texts else {})


@pytest.mark.parametrize(
    ("nodes", "wants", "expected"),
    [
        # cpu (4000-1000)*100/4000 = 75, memory (10Gi-1Gi)*100/10Gi = 90; (75+90)/2 = 82
        ([node("n", cpu=4, memory="10Gi")], {"cpu": 1, "memory": "1Gi"}, [82]),
        # cpu 2900*100/3000 = 96 (a pod without a request counts 100m), memory 824Mi of 1024Mi = 80
        ([node("n", cpu=3, memory="1Gi")], {}, [88]),
        # an explicit zero stays zero
        ([node("n", cpu=3, memory="1Gi")], {"cpu": 0, "memory": 0}, [100]),
        # one container may have one of the two: 1000m and 200Mi
        ([node("n", cpu=3, memory="1Gi")], {"cpu": 1}, [(66 + 80) // 2]),
        # requested beyond allocatable scores 0 for that resource
        ([node("n", cpu=2, memory="4Gi")], {"cpu": 3, "memory": "1Gi"}, [75 // 2]),
        # a node without memory is judged by cpu alone
        ([node("n", cpu=2, memory=0)], {"cpu": 1}, [50]),
        # integer division at every step: 2/3 of 100 is 66, 1/3 is 33, their mean 49
        ([node("n", cpu=3, memory="3Gi")], {"cpu": 1, "memory": "2Gi"}, [49]),
    ],
)
def test_least_allocated(nodes: list[Any], wants: dict[str, Any], expected: list[int]) -> None:
    """LeastAllocated: (allocatable - requested) * 100 / allocatable per resource, weighted mean, all in integers."""
    world = World(*nodes, pod("p", **wants))
    assert list(scores(world, NodeResourcesFit()).values()) == expected


def test_running_pods_without_requests_count_in_scoring_only() -> None:
    """scheduling.md 5: "Pods without requests count 100m CPU / 200Mi in scoring only"."""
    world = World(node("n", cpu=1, memory="1000Mi"), *[pod(f"r{i}", node="n") for i in range(4)], pod("p", cpu=1))
    assert verdicts(world, NodeResourcesFit()) == {"n": FITS}
    # cpu: 400m run and 1000m come, more than there is: 0; memory: 4*200Mi run and 200Mi come: 0
    assert scores(world, NodeResourcesFit()) == {"n": 0}


def test_weights_of_the_strategy() -> None:
    """The weighted mean over the strategy's resources."""
    world = World(node("n", cpu=4, memory="10Gi"), pod("p", cpu=1, memory="1Gi"))
    plugin = NodeResourcesFit((("cpu", 3), ("memory", 1)))
    assert scores(world, plugin) == {"n": (3 * 75 + 90) // 4}


@pytest.mark.parametrize(
    ("has", "runs", "wants", "expected"),
    [
        # as balanced as before: fractions 0 and 0, then 1/4 and 1/4
        ({"cpu": 4, "memory": "4Gi"}, {}, {"cpu": 1, "memory": "1Gi"}, 75),
        # 3/4 and 1/4: half the difference is 0.25, so 75 where it was 100
        ({"cpu": 4, "memory": "4Gi"}, {}, {"cpu": 3, "memory": "1Gi"}, 62),
        # what runs counts: 2/4 and 1/4 before, 3/4 and 2/4 with the pod: no change
        ({"cpu": 4, "memory": "4Gi"}, {"cpu": 2, "memory": "1Gi"}, {"cpu": 1, "memory": "1Gi"}, 75),
        # better than before: 2/4 and 0 were 75, 2/4 and 2/4 are 100
        ({"cpu": 4, "memory": "4Gi"}, {"cpu": 2}, {"memory": "2Gi"}, 87),
        # truncated, not rounded: (1 - 1/3 / 2) * 100 = 83.33; (1 - 1/6 / 2) * 100 = 91.66
        ({"cpu": 3, "memory": "3Gi"}, {}, {"cpu": 1}, 50 + (50 + 83 - 100) // 2),
        ({"cpu": 6, "memory": "3Gi"}, {}, {"cpu": 1}, 50 + (50 + 91 - 100) // 2),
        # fractions above 1 count as 1
        ({"cpu": 1, "memory": "4Gi"}, {}, {"cpu": 3, "memory": "4Gi"}, 75),
        # a resource the node lacks is left out: one is left, no deviation
        ({"cpu": 4, "memory": 0}, {}, {"cpu": 3}, 75),
    ],
)
def test_balanced_allocation(has: dict[str, Any], runs: dict[str, Any], wants: dict[str, Any], expected: int) -> None:
    """Balance: (1 - deviation of the used fractions) * 100, truncated; score 50 + (50 + with - without the pod) / 2."""
    world = World(node("n", **has), pod("r", node="n", **(runs or {"cpu": 0, "memory": 0})), pod("p", **wants))
    assert scores(world, NodeResourcesBalancedAllocation()) == {"n": expected}


def test_balanced_allocation_over_three_resources() -> None:
    """More than two: the root of the mean square deviation; with one missing, the two others by half the difference."""
    third = {"ephemeral-storage": "4Gi"}
    wants = {"cpu": 1, "memory": "2Gi", "more": {"ephemeral-storage": "3Gi"}}
    world = World(node("all", cpu=4, memory="4Gi", more=third), node("two", cpu=4, memory="4Gi"), pod("p", **wants))  # type: ignore[arg-type]
    plugin = NodeResourcesBalancedAllocation(("cpu", "memory", "ephemeral-storage"))
    # 0.25, 0.5, 0.75: sqrt((0.0625 + 0 + 0.0625) / 3) = 0.2041; both were 100 without the pod
    assert scores(world, plugin) == {"all": 50 + (50 + 79 - 100) // 2, "two": 50 + (50 + 87 - 100) // 2}


def test_best_effort_pods_are_not_balanced() -> None:
    """PreScore skips pods that ask for neither."""
    world = World(node("n"), pod("p"), pod("gpu-only", gpu=1))
    assert scores(world, NodeResourcesBalancedAllocation(), "p") == {}
    assert scores(world, NodeResourcesBalancedAllocation(), "gpu-only") == {}


@pytest.mark.parametrize(
    ("used", "wanted", "expected"),
    [
        ([], [8080], FITS),
        ([8080], [8080], UNSCHEDULABLE),
        ([8080], [9090], FITS),
        ([8080], [9090, 8080], UNSCHEDULABLE),
        ([(8080, "UDP")], [(8080, "TCP")], FITS),
        ([(8080, "UDP")], [(8080, "UDP")], UNSCHEDULABLE),
        ([(8080, "TCP", "10.0.0.1")], [(8080, "TCP", "10.0.0.2")], FITS),
        ([(8080, "TCP", "10.0.0.1")], [(8080, "TCP", "10.0.0.1")], UNSCHEDULABLE),
        ([(8080, "TCP", "10.0.0.1")], [(8080, "TCP", "0.0.0.0")], UNSCHEDULABLE),
        ([(8080, "TCP", "0.0.0.0")], [(8080, "TCP", "10.0.0.1")], UNSCHEDULABLE),
        ([(8080, "TCP", "")], [(8080, "TCP", "10.0.0.1")], UNSCHEDULABLE),
        ([(8080, "TCP", "10.0.0.1")], [8080], UNSCHEDULABLE),
        ([(8080, "TCP", "10.0.0.1"), (8080, "UDP")], [(8080, "TCP", "10.0.0.2")], FITS),
        ([(8080, "UDP", "0.0.0.0")], [(8080, "TCP", "10.0.0.2")], FITS),
        ([(8080, "SCTP")], [(8080, "SCTP", "10.0.0.1")], UNSCHEDULABLE),
    ],
)
def test_host_ports(used: list[Port], wanted: list[Port], expected: int) -> None:
    """NodePorts: same protocol and port clash if the addresses are equal or one is the wildcard."""
    world = World(node("n"), node("free"), pod("r", node="n", ports=used), pod("p", ports=wanted))
    assert verdicts(world, NodePorts()) == {"n": expected, "free": FITS}
    texts = {"n": ["node(s) didn't have free ports for the requested pod ports"]} if expected else {}
    assert reasons(world, NodePorts()) == texts


def test_pods_without_host_ports_are_skipped() -> None:
    """PreFilter skips the plugin."""
    world = World(node("n"), pod("r", node="n", ports=[8080]), pod("p"))
    assert verdicts(world, NodePorts()) == {}


def test_port_is_free_again_when_its_pod_is_gone() -> None:
    """What is counted when placed is counted back when displaced, also for two pods on different addresses."""
    one, two = (8080, "TCP", "10.0.0.1"), (8080, "TCP", "10.0.0.2")
    world = World(node("n"), pod("r1", node="n", ports=[one]), pod("r2", node="n", ports=[two]), pod("p", ports=[one]))
    assert verdicts(world, NodePorts()) == {"n": UNSCHEDULABLE}
    world.gone("r2")
    assert verdicts(world, NodePorts()) == {"n": UNSCHEDULABLE}
    world.gone("r1")
    assert verdicts(world, NodePorts()) == {"n": FITS}
