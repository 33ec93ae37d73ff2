"""Exit codes, errors and documents of the commands (interfaces.md, "Commands")."""

import json
from pathlib import Path

import pytest
import yaml

from tests.cli.conftest import Run

PLANS = Path(__file__).parent / "plans"
BROKEN = """apiVersion: v1
kind: Pod
metadata: {name: x}
spec: {containers: [{name: c, resources: {requests: {cpu: 1x}}}]}
"""
TWICE = """apiVersion: reprieve.dev/v1alpha1
kind: Scenario
metadata: {name: s}
spec:
  steps:
  - create: &pod [{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c}]}}]
  - create: *pod
"""
CONFIGURATION = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

BAD_INPUT = {
    "no manifests": (["plan"], "error: nothing to plan: pass manifests with -f"),
    "no such file": (["plan", "-f", "nowhere.yaml"], "error: nowhere.yaml: No such file or directory"),
    "wrong quantity": (
        ["plan", "-f", "broken.yaml"],
        'error: broken.yaml: document 1 (line 1): Pod "default/x": '
        'spec.containers[0].resources.requests[cpu]: Invalid value: "1x"',
    ),
    "a pod created twice": (
        ["plan", "-f", "twice.yaml"],
        "error: twice.yaml: document 1 (line 1): spec.steps[1].create[0].metadata.name: Pod default/p already exists",
    ),
    "no YAML": (["plan", "-f", "unclosed.yaml"], "error: unclosed.yaml: document 1"),
    "too large": (["plan", "-f", "broken.yaml", "--max-input-bytes", "16"], "error: broken.yaml: the input is larger"),
    "no size": (["plan", "-f", "broken.yaml", "--max-input-bytes", "much"], 'error: --max-input-bytes: "much": '),
    "size of nothing": (
        ["plan", "-f", "broken.yaml", "--max-input-bytes", "0"],
        "error: --max-input-bytes: expected a size",
    ),
    "unknown gate": (
        ["plan", "-f", "broken.yaml", "--feature-gates", "Foo=true"],
        "error: --feature-gates: unknown feature gate 'Foo'",
    ),
    "no gate": (
        ["plan", "-f", "broken.yaml", "--feature-gates", "GenericWorkload"],
        "error: --feature-gates: feature gate",
    ),
    "no time": (
        ["plan", "-f", str(PLANS / "eviction.yaml"), "--now", "yesterday"],
        'error: --now: "yesterday": expected an RFC 3339 time such as 2026-01-31T12:00:00Z',
    ),
    "a time before the input": (
        ["plan", "-f", str(PLANS / "eviction.yaml"), "--now", "2020-01-01T00:00:00Z"],
        f'error: {PLANS / "eviction.yaml"}: document 1 (line 2): items[0]: Node "n1": created or started at 2026-01-01',
    ),
    "live cluster": (["plan", "--kubeconfig", "x"], "error: x: No such file or directory"),
    "configuration of another kind": (
        ["plan", "-f", "broken.yaml", "--config", "broken.yaml"],
        "error: broken.yaml: kind: 'Pod': expected KubeSchedulerConfiguration",
    ),
    "unknown field in the configuration": (
        ["plan", "-f", "broken.yaml", "--config", "typo.yaml"],
        "error: typo.yaml: profiles[0].plugin: unknown field",
    ),
    "unknown plugin in the configuration": (
        ["plan", "-f", "broken.yaml", "--config", "plugin.yaml"],
        "error: plugin.yaml: profiles[0].plugins.multiPoint.disabled[0].name: unknown plugin 'Nope'",
    ),
    "no configuration file": (
        ["plan", "-f", "broken.yaml", "--config", "nowhere.yaml"],
        "error: nowhere.yaml: No such file or directory",
    ),
    "broken configuration": (["plan", "-f", "broken.yaml", "--config", "unclosed.yaml"], "error: unclosed.yaml: "),
    "unknown scenario": (["bench", "fast"], "error: unknown scenario 'fast'; known: basic-500,"),
    "unknown family": (["bench", "--growth", "fast"], "error: unknown family 'fast'; known: basic,"),
    "unknown ending": (
        ["import", "openb", "--nodes", "n.csv", "--pods", "p.csv", "-o", "cluster.xml"],
        "error: -o cluster.xml: expected a name ending in .json, .yaml, .yml",
    ),
    "no trace": (
        ["import", "openb", "--nodes", "n.csv", "--pods", "p.csv", "-o", "cluster.json"],
        "error: n.csv: No such file or directory",
    ),
    "unknown command": (["plna"], "No such command 'plna'"),
    "unknown option": (["plan", "--nope"], "No such option"),
    "unknown format": (["plan", "-f", "broken.yaml", "-o", "xml"], "'xml' is not one of 'text', 'json', 'yaml'"),
    "no command": ([], "Usage: reprieve"),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_usage_and_bad_input_exit_2_with_one_clear_error_and_nothing_on_stdout(
    case: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.yaml").write_text(BROKEN)
    (tmp_path / "twice.yaml").write_text(TWICE)
    (tmp_path / "unclosed.yaml").write_text("a: [1\n")
    (tmp_path / "typo.yaml").write_text(CONFIGURATION + "profiles: [{plugin: {}}]\n")
    (tmp_path / "plugin.yaml").write_text(
        CONFIGURATION + "profiles: [{plugins: {multiPoint: {disabled: [{name: Nope}]}}}]\n"
    )
    arguments, message = BAD_INPUT[case]
    ended = run(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err
    if message.startswith("error: "):
        assert ended.err.startswith(message)
        assert ended.err.count("\n") == 1
    assert "Traceback" not in ended.err


def test_json_is_one_document_with_the_fields_of_the_interface(run: Run) -> None:
    """interfaces.md 1.10, 2.1."""
    ended = run("plan", "-f", PLANS / "eviction.yaml", "-o", "json")
    assert (ended.code, ended.err) == (0, "")
    plan = json.loads(ended.out)
    assert list(plan) == [
        "apiVersion",
        "kind",
        "changes",
        "displaced",
        "brokenGangs",
        "pods",
        "podGroups",
        "compositePodGroups",
        "preemptions",
        "putOff",
        "released",
        "reservations",
        "lost",
        "resizes",
        "suspended",
        "refused",
        "stats",
    ]
    assert (plan["apiVersion"], plan["kind"]) == ("reprieve.dev/v1alpha1", "Plan")
    pod = ["namespace", "name", "podGroup", "priority", "outcome", "nodeName", "nominatedNodeName", "reason", "message"]
    assert [list(found) for found in plan["pods"]] == [[*pod, "help", "tried", "asked"]] * 2
    assert list(plan["podGroups"][0]) == [
        *("namespace", "name", "priority", "minCount", "scheduled", "outcome", "reason", "message", "parent"),
        *("belowMinimum", "evicted", "lost", "help", "tried", "asked", "topology"),
    ]
    (preemption,) = plan["preemptions"]
    assert list(preemption) == [
        "preemptor",
        "domain",
        "nominations",
        "victims",
        "reprieved",
        "pdbViolations",
        "needed",
        "freed",
        "byScore",
        "cost",
        "cascade",
        "avoided",
    ]
    assert list(preemption["cost"]) == ["lostGpuHours", "lostCpuHours", "byCriterion", "decidedBy", "values"]
    assert (preemption["cascade"], preemption["avoided"]) == ([], None)
    assert list(preemption["preemptor"]) == ["kind", "namespace", "name", "priority"]
    assert list(preemption["victims"][0]) == [
        *("namespace", "name", "podGroup", "nodeName", "priority", "unit", "violatesPDB", "why")
    ]
    assert preemption["nominations"] == {"default/new-0": "n1", "default/new-1": "n2"}
    assert list(plan["stats"]) == ["seconds", "virtualSeconds", "attempts"]


def test_two_runs_are_equal_but_for_the_seconds_they_took(run: Run) -> None:
    """interfaces.md 2.5."""
    first, second = (json.loads(run("plan", "-f", PLANS / "eviction.yaml", "-o", "json").out) for _ in range(2))
    for plan in (first, second):
        del plan["stats"]["seconds"]
    assert json.dumps(first) == json.dumps(second)


def test_yaml_holds_the_same_document_as_json(run: Run) -> None:
    as_json, as_yaml = (run("plan", "-f", PLANS / "waiting.yaml", "-o", form).out for form in ("json", "yaml"))
    plans = json.loads(as_json), yaml.safe_load(as_yaml)
    for plan in plans:
        del plan["stats"]["seconds"]
    assert plans[0] == plans[1]


def test_manifests_come_from_stdin_and_several_sources(run: Run, tmp_path: Path) -> None:
    node, pod = yaml.safe_load((PLANS / "nothing.yaml").read_text())["items"]
    (tmp_path / "nodes").mkdir()
    (tmp_path / "nodes" / "n1.json").write_text(json.dumps(node))
    del pod["spec"]["nodeName"]
    ended = run("plan", "-f", tmp_path / "nodes", "-f", "-", "-o", "json", stdin=yaml.safe_dump(pod))
    assert ended.code == 0
    assert [(p["name"], p["nodeName"]) for p in json.loads(ended.out)["pods"]] == [("web", "n1")]


@pytest.mark.parametrize(
    ("plan", "options", "code"),
    [
        ("eviction", [], 0),
        ("eviction", ["--fail-on-preemption"], 1),
        ("eviction", ["--fail-on-pending"], 0),
        ("eviction", ["--fail-on-pending", "--first-decision"], 1),
        ("gang-fits", ["--fail-on-preemption", "--fail-on-pending"], 0),
        ("waiting", ["--fail-on-pending"], 1),
        ("waiting", ["--fail-on-preemption"], 0),
        ("nothing", ["--fail-on-pending"], 0),
        ("deferred-resize", ["--fail-on-preemption", "--fail-on-pending"], 0),
    ],
)
def test_exit_code_1_when_the_thing_asked_about_is_not_so(plan: str, options: list[str], code: int, run: Run) -> None:
    """interfaces.md 1.9, resizes.md 5.3."""
    ended = run("plan", "-f", PLANS / f"{plan}.yaml", *options)
    assert (ended.code, ended.err) == (code, "")
    assert ended.out


def test_feature_gates_and_configuration_reach_the_engine(run: Run, tmp_path: Path) -> None:
    def outcomes(*options: object) -> list[str]:
        out = run("plan", "-f", PLANS / "eviction.yaml", "-o", "json", *options).out
        return [pod["outcome"] for pod in json.loads(out)["pods"]]

    config = tmp_path / "scheduler.yaml"
    config.write_text(CONFIGURATION + "profiles: [{plugins: {multiPoint: {disabled: [{name: DefaultPreemption}]}}}]\n")
    assert outcomes() == ["Scheduled", "Scheduled"]
    assert outcomes("--config", config) == ["Unschedulable", "Unschedulable"]
    without_groups = json.loads(
        run("plan", "-f", PLANS / "eviction.yaml", "-o", "json", "--feature-gates", "GenericWorkload=false").out
    )
    assert without_groups["podGroups"] == []


def test_seed_chooses_among_equal_nodes_the_same_way_every_time(run: Run) -> None:
    def nodes(*options: object) -> list[str]:
        out = run("plan", "-f", PLANS / "gang-fits.yaml", "-o", "json", *options).out
        return [pod["nodeName"] for pod in json.loads(out)["pods"]]

    chosen = {seed: nodes("--seed", seed) for seed in range(8)}
    assert {seed: nodes("--seed", seed) for seed in range(8)} == chosen
    assert any(choice != nodes() for choice in chosen.values())


def test_kinds_that_are_not_read_are_counted_on_stderr(run: Run) -> None:
    config_map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"
    ended = run("plan", "-f", PLANS / "nothing.yaml", "-f", "-", "-o", "json", stdin=config_map)
    assert ended.code == 0
    assert json.loads(ended.out)["pods"] == []
    assert "ConfigMap" in ended.err


def test_running_out_of_memory_is_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """interfaces.md 5.10."""

    def exhausted(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("reprieve.python.inputs.load", exhausted)
    ended = run("plan", "-f", PLANS)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.splitlines() == [
        "error: out of memory: the process reached its memory limit; use less input or allow more memory"
    ]


def test_control_c_ends_quietly(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("reprieve.python.inputs.load", interrupted)
    ended = run("plan", "-f", PLANS / "nothing.yaml")
    assert (ended.code, ended.out, ended.err) == (130, "", "")


def test_version_is_the_package_s(run: Run) -> None:
    from importlib.metadata import version

    assert run("--version").out == f"reprieve {version('reprieve')}\n"


def test_pod_that_no_profile_schedules_is_reported(run: Run, tmp_path: Path) -> None:
    """scheduling.md 6: with a configuration, only pods that name one of its profiles are scheduled."""
    (tmp_path / "config.yaml").write_text(CONFIGURATION + "profiles: [{schedulerName: ours}]\n")
    ended = run("plan", "-f", PLANS / "waiting.yaml", "--config", tmp_path / "config.yaml", "-o", "json")
    messages = {pod["message"] for pod in json.loads(ended.out)["pods"] if not pod["podGroup"]}
    assert messages == {'no profile has the schedulerName "default-scheduler"'}
