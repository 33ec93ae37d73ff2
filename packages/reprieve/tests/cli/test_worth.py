"""`reprieve plan` says what looking for the cheapest eviction was worth."""

import json
from pathlib import Path

import pytest
import yaml

from tests.cli.conftest import Run
from tests.cli.conftest import run as run
from tests.cli.test_waiting import node
from tests.manifests import GPU, gang, pod

MINIMIZE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  pluginConfig: [{name: DefaultPreemption, args: {placement: %s}}]
"""
# n1 is the emptier and scores higher; two singles are victims there, one dear pod or a cheap one elsewhere.
CLUSTER = [
    node("n1"),
    node("n2"),
    *(pod(f"small{number}", 1, 3, node="n1") for number in range(2)),
    pod("large", 60, 6, node="n2"),
    gang("g", 1, priority=5),
    pod("g0", 2, 8, priority=5, group="g"),
]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all(CLUSTER))
    for placement in ("MinimizeVictims", "Compatible"):
        (tmp_path / f"{placement}.yaml").write_text(MINIMIZE % placement)
    return tmp_path


def test_text_names_both_costs(files: Path, run: Run) -> None:
    ended = run("plan", "-f", files / "cluster.yaml", "--config", files / "MinimizeVictims.yaml")
    assert f"  1 pod (6 {GPU}) is evicted; placing by score would evict 2.\n" in ended.out


def test_document_has_the_other_placement(files: Path, run: Run) -> None:
    ended = run("plan", "-f", files / "cluster.yaml", "--config", files / "MinimizeVictims.yaml", "-o", "json")
    (preemption,) = json.loads(ended.out)["preemptions"]
    assert [victim["name"] for victim in preemption["victims"]] == ["large"]
    assert preemption["byScore"]["pods"] == 2
    assert preemption["byScore"]["freed"][GPU] == "6"


def test_savings_are_omitted_where_one_placement_was_evaluated(files: Path, run: Run) -> None:
    arguments = ("plan", "-f", files / "cluster.yaml", "--config", files / "Compatible.yaml")
    assert "placing by score" not in run(*arguments).out
    (preemption,) = json.loads(run(*arguments, "-o", "json").out)["preemptions"]
    assert preemption["byScore"] is None
    assert len(preemption["victims"]) == 2


def test_compatible_overrides_the_configuration(files: Path, run: Run) -> None:
    """Placement by score, held fixed, in every profile."""
    cluster = ("plan", "-f", files / "cluster.yaml", "--compatible", "-o", "json")
    for more in ((), ("--config", files / "MinimizeVictims.yaml")):
        (preemption,) = json.loads(run(*cluster, *more).out)["preemptions"]
        assert sorted(victim["name"] for victim in preemption["victims"]) == ["small0", "small1"]
