"""`capacity --like NODE`: how many more nodes the pending work needs (whatif.md 8.8)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kube_rules.errors import InputError, Origin
from kube_rules.manifests import LoadedObject, Manifests
from reprieve.questions.needed_nodes import NodesNeeded, nodes_needed
from reprieve.simulation.plan import PlanOptions
from reprieve.simulation.workloads.table import TABLE
from tests.building import gang, node, pod
from tests.cli.conftest import Run, run

__all__ = ["run"]


def needed(*items: Any, like: str = "n1") -> NodesNeeded:
    found: dict[Any, list[Any]] = {}
    for order, item in enumerate(items):
        found.setdefault(type(item), []).append(LoadedObject(item, Origin("test"), order, float(order)))
    return nodes_needed(Manifests(objects=found), like, PlanOptions(), TABLE)


def test_fewest_nodes_for_a_gang_and_pods() -> None:
    """whatif.md 8.8: 5 pods with 2 GPUs and 2 with 1, on nodes with 4 of which one is half full."""
    items = [
        node("n1", gpu=4),
        pod("runs", gpu=2, node="n1"),
        *gang("g", 5, gpu=2),
        *[pod(f"p{turn}", gpu=1) for turn in range(2)],
    ]
    found = needed(*items)
    assert (found.nodes, found.pods, found.placed, found.waiting) == (3, 7, 7, ())
    assert found.node["nvidia.com/gpu"] == "4"


def test_nodes_are_counted_without_evictions() -> None:
    """whatif.md 8.8: the pending pod could preempt, and gets a node instead."""
    found = needed(node("n1", cpu=4), pod("low", cpu=4, node="n1"), pod("high", cpu=2, priority=9))
    assert (found.nodes, found.placed) == (1, 1)


@pytest.mark.parametrize(("pending", "nodes", "placed"), [([], 0, 0), ([pod("small", cpu=1)], 0, 1)])
def test_nothing_is_needed_where_everything_fits(pending: list[Any], nodes: int, placed: int) -> None:
    found = needed(node("n1", cpu=4), *pending)
    assert (found.nodes, found.placed, found.waiting_total) == (nodes, placed, 0)


def test_pods_that_such_nodes_do_not_help_are_named() -> None:
    """whatif.md 8.8: too large, gated, or for other nodes; the others are counted without them."""
    found = needed(
        node("n1", cpu=4),
        pod("huge", cpu=9),
        pod("gated", cpu=1, gates=["example.com/wait"]),
        pod("elsewhere", cpu=1, selector={"pool": "x"}),
        *[pod(f"p{turn}", cpu=3) for turn in range(3)],
    )
    assert (found.nodes, found.placed) == (2, 3)
    assert found.waiting == ("default/elsewhere", "default/gated", "default/huge")


def test_node_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(InputError, match='--like: no node "n9"'):
        needed(node("n1"), pod("p", cpu=1), like="n9")


def test_command(run: Run, tmp_path: Any) -> None:
    """As text and JSON; without either option, or with both, it is bad usage."""
    there = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4"}}}
    there["status"]["allocatable"]["pods"] = "9"  # type: ignore[index]
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]}
    items = [there, *({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": n}, "spec": spec} for n in "abc")]
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    ended = run("capacity", "-f", file, "--like", "n1")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("2 more nodes like n1 would place all of 3 pending pods.\n")
    document = json.loads(run("capacity", "-f", file, "--like", "n1", "-o", "json").out)
    assert (document["kind"], document["nodes"], document["waitingTotal"]) == ("NodesNeeded", 2, 0)
    for more in ((), ("--like", "n1", "--shape", file)):
        ended = run("capacity", "-f", file, *more)
        assert ended.code == 2
        assert "expected one of --shape FILE" in ended.err
