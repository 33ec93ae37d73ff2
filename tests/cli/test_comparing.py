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
        (["--compare", "never.yaml", "--compare", "never.yaml", "--compatible"], 2, "error: --compatible: with more"),
        (["--compare", "never.yaml", "--compare", "never.yaml", "--config", "never.yaml"], 2, "error: --config: with"),
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


@pytest.mark.usefixtures("files")
def test_changes_stand_above_plans_side_by_side(run: Run) -> None:
    ended = run("plan", "-f", "cluster.yaml", "--compare", "never.yaml", "--cordon", "n1")
    assert ended.out.startswith("Changes\n  --cordon n1  1 node: no new pods go there\n\nSide by side\n")
    document = json.loads(
        run("plan", "-f", "cluster.yaml", "--compare", "never.yaml", "--cordon", "n1", "-o", "json").out
    )
    assert [one["change"] for one in document["changes"]] == ["--cordon n1"]


@pytest.mark.usefixtures("files")
def test_plugins_hold_for_every_configuration(run: Run) -> None:
    """whatif.md 10.1: only the configuration is another one. The plugin wants n3."""
    nodes = "\n---\n".join(MORE.replace("n2", f"n{number}") for number in (2, 3, 4))
    Path("nodes.yaml").write_text(nodes)
    plugin = "tests.scheduling.third_party_plugins:Wants"
    asked = ("plan", "-f", "cluster.yaml", "-f", "nodes.yaml", "--compare", "never.yaml", "-o", "json")
    rows = {row["name"]: row["outcomes"] for row in json.loads(run(*asked, "--plugin", plugin).out)["rows"]}
    assert rows["high"] == ["Scheduled n3", "Scheduled n3"]
    rows = {row["name"]: row["outcomes"] for row in json.loads(run(*asked).out)["rows"]}
    assert rows["high"] == ["Scheduled n2", "Scheduled n2"]


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("beside", [("--compare", "never.yaml"), ("--compare-to", "more.yaml")])
def test_standard_input_is_the_cluster_of_every_plan(run: Run, beside: tuple[str, str]) -> None:
    piped = run("plan", "-f", "-", *beside, "-o", "json", stdin=CLUSTER)
    assert (piped.code, piped.err) == (0, "")
    assert piped.out == run("plan", "-f", "cluster.yaml", *beside, "-o", "json").out
    twice = run("plan", "-f", "-", "--compare-to", "-", stdin=CLUSTER)
    assert (twice.code, twice.out, twice.err) == (2, "", "error: -: standard input can be read only once\n")
