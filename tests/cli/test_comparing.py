"""`plan --compare`, `--compare-to` and `--diff` (whatif.md 10)."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run

CLUSTER = """apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: "4", pods: "10"}}}
- apiVersion: v1
  kind: Pod
  metadata: {name: low}
  spec: {nodeName: n1, priority: 1, containers: [{name: c, resources: {requests: {cpu: "4"}}}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: high}
  spec: {priority: 5, containers: [{name: c, resources: {requests: {cpu: "3"}}}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: tiny}
  spec: {nodeSelector: {no: where}, containers: [{name: c}]}
"""
NEVER = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {postFilter: {disabled: [{name: DefaultPreemption}]}}
"""
MORE = """apiVersion: v1
kind: Node
metadata: {name: n2}
status: {allocatable: {cpu: "4", pods: "10"}}
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in (("cluster", CLUSTER), ("never", NEVER), ("more", MORE)):
        Path(f"{name}.yaml").write_text(text)


@pytest.mark.usefixtures("files")
def test_a_configuration_beside_the_default(run: Run) -> None:
    ended = run("plan", "-f", "cluster.yaml", "--compare", "never.yaml", "-o", "json")
    found = json.loads(ended.out)
    assert [(one["name"], one["placed"], one["waiting"], one["evicted"]) for one in found["variants"]] == [
        ("as it is", 1, 1, 1),
        ("never.yaml", 0, 2, 0),
    ]
    assert {row["name"]: row["outcomes"] for row in found["rows"]} == {
        "high": ["Scheduled n1", "Unschedulable"],
        "low": ["Evicted", "Runs"],
        "tiny": ["Unschedulable", "Unschedulable"],
    }


@pytest.mark.usefixtures("files")
def test_only_what_differs(run: Run) -> None:
    out = run("plan", "-f", "cluster.yaml", "--compare-to", "more.yaml", "--diff").out
    assert out.startswith("Where the plans differ\n")
    assert "pod default/high  Scheduled n1  Scheduled n2" in out
    assert "pod default/low   Evicted       Runs" in out
    assert "tiny" not in out


@pytest.mark.usefixtures("files")
def test_two_configurations_are_compared_with_each_other(run: Run) -> None:
    ended = run("plan", "-f", "cluster.yaml", "--compare", "never.yaml", "--compare", "never.yaml", "--diff")
    assert "nowhere: what is asked about ends the same" in ended.out
    assert "as it is" not in ended.out


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--diff"], 2, "error: --diff: there is nothing to compare"),
        (["--compare", "nowhere.yaml"], 2, "error: nowhere.yaml"),
        (["--compare-to", "nowhere.yaml"], 2, "error: nowhere.yaml"),
        (["--compare", "never.yaml", "--fail-on-preemption"], 1, ""),
        (["--compare", "never.yaml", "--compare", "never.yaml", "--fail-on-preemption"], 0, ""),
    ],
)
def test_exit_codes(run: Run, arguments: list[str], code: int, message: str) -> None:
    ended = run("plan", "-f", "cluster.yaml", *arguments)
    assert ended.code == code
    assert ended.err.startswith(message)
