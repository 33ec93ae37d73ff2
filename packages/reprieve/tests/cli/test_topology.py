"""`explain` and `plan` show the domains that a gang uses (topology.md 5.3)."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run

_RACK, _INDEX = "topology.kubernetes.io/rack", "apps.kubernetes.io/pod-index"
_ASKED = {"scheduling.reprieve.dev/preferred-topology": "rack,block", "scheduling.reprieve.dev/slice": "rack=2"}


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    """A gang of three members, of which two run in different racks."""
    nodes = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{rack}", "labels": {_RACK: f"r{rack}"}}}
        | {"status": {"allocatable": {"cpu": "2", "pods": "10"}}}
        for rack in range(2)
    ]
    group = {
        "apiVersion": "scheduling.k8s.io/v1alpha3",
        "kind": "PodGroup",
        "metadata": {"name": "crew", "annotations": _ASKED},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}},
    }
    pods = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"m{rank}", "labels": {_INDEX: str(index)}}}
        | {
            "spec": {
                "schedulingGroup": {"podGroupName": "crew"},
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
                **({"nodeName": f"n{rank}"} if rank < 2 else {}),
            }
        }
        for rank, index in enumerate((0, 2, 3))
    ]
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*nodes, group, *pods]}))
    return str(file)


def test_domains_and_rank_breaks_are_shown(run: Run, cluster: str) -> None:
    """By level; the members that run count."""
    out = run("explain", "podgroup/crew", "-f", cluster).out
    assert "Topology\n  level  domains  number  rank breaks\n  rack   r0, r1   2       1\n\n" in out
    found = json.loads(run("explain", "podgroup/crew", "-f", cluster, "-o", "json").out)["topology"]
    rack = {"level": "rack", "label": _RACK, "domains": ["r0", "r1"], "breaks": 1}
    assert found == [rack]
    placed = json.loads(run("plan", "-f", cluster, "-o", "json").out)
    assert placed["podGroups"][0]["topology"] == [{**rack, "domains": ["r1", "r0"]}]
    assert [pod["nodeName"] for pod in placed["pods"]] == ["n1"], "the slice of ranks 2 and 3 is in one rack"
