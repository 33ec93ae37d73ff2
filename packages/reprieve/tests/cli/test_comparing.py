"""`plan --compare`, `--compare-to` and `--diff` (whatif.md 10)."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from reprieve.cli.comparison import comparison_sections
from reprieve.cli.sections import Tone
from reprieve.questions.comparison import ComparisonRow, PlanComparison, Variant
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
def test_configuration_beside_the_default(run: Run) -> None:
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
    assert "no differences for the planned pods" in ended.out
    assert "as it is" not in ended.out


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--diff"], 2, "error: --diff: nothing to compare"),
        (
            ["--compare", "never.yaml", "--compare", "never.yaml", "--compatible"],
            2,
            "error: --compatible cannot be combined with more than one --compare",
        ),
        (
            ["--compare", "never.yaml", "--compare", "never.yaml", "--config", "never.yaml"],
            2,
            "error: --config cannot be combined with more than one --compare",
        ),
        (["--compare", "nowhere.yaml"], 2, "error: nowhere.yaml"),
        (["--compare-to", "nowhere.yaml"], 2, "error: nowhere.yaml"),
        (["--compare", "never.yaml", "--fail-on-preemption"], 1, ""),
        (["--compare", "never.yaml", "--compare", "never.yaml", "--fail-on-preemption"], 0, ""),
    ],
)
def test_exit_codes(run: Run, arguments: list[str], code: int, message: str) -> None:
    """whatif.md 10.3."""
    ended = run("plan", "-f", "cluster.yaml", *arguments)
    assert ended.code == code
    assert ended.err.startswith(message)


@pytest.mark.usefixtures("files")
def test_changes_stand_above_plans_side_by_side(run: Run) -> None:
    ended = run("plan", "-f", "cluster.yaml", "--compare", "never.yaml", "--cordon", "n1")
    assert ended.out.startswith("Changes\n  --cordon n1  1 node: no new pods are placed there\n\nSide by side\n")
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


@pytest.mark.usefixtures("files")
def test_warning_of_every_plan_is_shown_once(run: Run) -> None:
    Path("secret.yaml").write_text("apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n")
    asked = ("plan", "-f", "cluster.yaml", "-f", "secret.yaml", "--compare", "never.yaml", "--compare-to", "more.yaml")
    ended = run(*asked, "-o", "json")
    assert [one["name"] for one in json.loads(ended.out)["variants"]] == ["as it is", "never.yaml", "more.yaml"]
    assert ended.err == "warning: 1 × v1/Secret: not read\n"


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("options", "code"),
    [
        ((), 0),
        (("--fail-on-pending",), 1),
        (("--fail-on-preemption",), 1),
        (("--fail-on-pending", "--fail-on-preemption"), 1),
    ],
)
def test_one_plan_of_those_compared_decides_the_exit_code(run: Run, options: tuple[str, ...], code: int) -> None:
    """interfaces.md 1.9: of the question as it is a pod waits, and another is evicted."""
    assert run("plan", "-f", "cluster.yaml", "--compare-to", "more.yaml", *options).code == code
    assert run("plan", "-f", "more.yaml", "--compare-to", "more.yaml", *options).code == 2, "it is there twice"
    Path("empty.yaml").write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: none}\n")
    assert run("plan", "-f", "more.yaml", "--compare-to", "empty.yaml", *options).code == 0


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(("less", "code"), [(0, 0), (1, 2), (len(MORE) + 1, 2)])
def test_standard_input_counts_towards_the_size_of_all_input(run: Run, less: int, code: int) -> None:
    most = len(CLUSTER) + len(MORE) - less
    ended = run("plan", "-f", "-", "--compare-to", "more.yaml", "--max-input-bytes", most, stdin=CLUSTER)
    assert ended.code == code
    assert ("the input is larger than" in ended.err) == (code == 2)


VARIANT = Variant(name="a", placed=3, waiting=1, evicted=2, lost_gpu_hours=1.5, lost_cpu_hours=0.0, pdb_violations=4)


def test_outcomes_come_first_and_then_the_numbers() -> None:
    """What differs is marked; a workload that a plan lacks has a dash."""
    rows = (
        ComparisonRow(kind="Pod", namespace="a", name="p", outcomes=("Runs", "Evicted")),
        ComparisonRow(kind="PodGroup", namespace="a", name="g", outcomes=("Runs", "Runs")),
        ComparisonRow(kind="Pod", namespace="a", name="new", outcomes=("", "Runs")),
    )
    found = PlanComparison(variants=(VARIANT, replace(VARIANT, name="b", placed=5)), rows=rows)
    side_by_side, numbers = comparison_sections(found, only_different=False)
    assert (side_by_side.title, side_by_side.columns, side_by_side.notes) == ("Side by side", ("", "a", "b"), ())
    assert [(row.cells, row.tone) for row in side_by_side.rows] == [
        (("pod a/p", "Runs", "Evicted"), Tone.WAITING),
        (("podgroup a/g", "Runs", "Runs"), Tone.PLAIN),
        (("pod a/new", "-", "Runs"), Tone.WAITING),
    ]
    assert (numbers.title, numbers.columns) == ("In numbers", ("", "a", "b"))
    assert [row.cells for row in numbers.rows] == [
        ("pods placed", "3", "5"),
        ("pods pending", "1", "1"),
        ("pods evicted", "2", "2"),
        ("GPU-hours lost", "1.5", "1.5"),
        ("CPU-hours lost", "0", "0"),
        ("budget violations", "4", "4"),
    ]
    different = comparison_sections(replace(found, rows=()), only_different=True)[0]
    assert different.title == "Where the plans differ"
    assert different.notes == ("no differences for the planned pods",)
