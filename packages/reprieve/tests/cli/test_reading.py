"""What `plan` does with what it does not understand: warnings, `--strict`, `--fail-on-*` (docs/plan.md)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reprieve.client.kubeconfig import connect
from tests.cli.conftest import Run

NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {allocatable: {cpu: '4', memory: 8Gi, pods: '10'}}\n"
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p%s}\nspec:\n  containers: [{name: c}]\n%s"
DEPLOYMENT = """apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c}]}}
"""
WORKFLOW = """apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {name: x}
"""
CERTIFICATE = """apiVersion: example.com/v1
kind: Certificate
metadata: {name: x}
"""
CONFIGURATION = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerNam: x
"""
SCENARIO = """apiVersion: reprieve.dev/v1alpha1
kind: Scenario
spec:
  steps:
  - creat: []
"""
KUBECONFIG = """apiVersion: v1
kind: Config
current-context: c
preferences: {colors: true}
clusters:
- name: c
  cluster:
    server: https://127.0.0.1:1
    certificate-authority-dat: x
contexts: [{name: c, context: {cluster: c, user: u, namespac: x}}]
users: [{name: u, user: {token: x}}]
"""


def write(path: Path, *documents: str) -> Path:
    path.write_text("---\n".join(documents))
    return path


def test_misspelt_field_is_a_warning_and_the_plan_goes_on(run: Run, tmp_path: Path) -> None:
    file = write(tmp_path / "a.yaml", NODE, POD % ("", "  nodeSelectr: {a: b}\n"))
    ended = run("plan", "-f", file, "-o", "json")
    assert ended.code == 0
    assert ended.err == (
        f'warning: {file}: document 2 (line 11): Pod "p": unknown field "spec.nodeSelectr", '
        'did you mean "nodeSelector"?\n'
    )


def test_strict_makes_it_bad_input(run: Run, tmp_path: Path) -> None:
    file = write(tmp_path / "a.yaml", NODE, POD % ("", "  nodeSelectr: {a: b}\n"))
    ended = run("plan", "-f", file, "--strict")
    assert (ended.code, ended.out) == (2, "")
    assert f"error: --strict: 1 unknown field; the first is {file}: document 2 (line 11): " in ended.err


def test_ignored_it_is_silent(run: Run, tmp_path: Path) -> None:
    file = write(tmp_path / "a.yaml", NODE, POD % ("", "  nodeSelectr: {a: b}\n"))
    ended = run("plan", "-f", file, "--ignore-unknown")
    assert (ended.code, ended.err) == (0, "")


def test_same_misspelling_in_many_objects_is_one_line(run: Run, tmp_path: Path) -> None:
    pods = [POD % (number, "  nodeSelectr: {a: b}\n") for number in range(50)]
    ended = run("plan", "-f", write(tmp_path / "a.yaml", NODE, *pods))
    assert ended.err.count("\n") == 1
    assert "(and 49 more like it)" in ended.err


def test_many_misspellings_are_counted(run: Run, tmp_path: Path) -> None:
    fields = "".join(f"  field{number}: 1\n" for number in range(50))
    ended = run("plan", "-f", write(tmp_path / "a.yaml", NODE, POD % ("", fields)))
    assert ended.err.count("\n") == 21
    assert ended.err.endswith("warning: ... and 30 more like this\n")


def test_required_field_that_was_misspelt_is_named_beside_the_error(run: Run, tmp_path: Path) -> None:
    group = (
        "apiVersion: scheduling.k8s.io/v1beta1\nkind: PodGroup\nmetadata: {name: g}\n"
        "spec: {schedulingPolicy: {gang: {minCounts: 2}}}\n"
    )
    ended = run("plan", "-f", write(tmp_path / "a.yaml", group))
    assert ended.code == 2
    assert 'unknown field "spec.schedulingPolicy.gang.minCounts", did you mean "minCount"?\nerror: ' in ended.err


def test_strict_makes_a_misread_annotation_bad_input(run: Run, tmp_path: Path) -> None:
    """interfaces.md 1.5, cost.md 2: else it is a warning, and the answer one to the manifest without it."""
    annotated = """
apiVersion: v1
kind: Pod
metadata: {name: p, annotations: {scheduling.reprieve.dev/minimum-runtim: 10m}}
spec: {containers: [{name: c, image: x}]}
"""
    file = write(tmp_path / "a.yaml", annotated)
    problem = "Pod default/p: metadata.annotations[scheduling.reprieve.dev/minimum-runtim]: not known, did you mean"
    lenient, strict = run("plan", "-f", file), run("plan", "-f", file, "--strict")
    assert (lenient.code, f"warning: {problem}" in lenient.err) == (0, True)
    assert (strict.code, strict.out) == (2, "")
    assert f"error: --strict: 1 annotation that cannot be read; the first is {problem}" in strict.err


@pytest.mark.parametrize("option", ["--strict", "--fail-on-pending", "--fail-on-preemption"])
@pytest.mark.parametrize("document", ["WORKFLOW", "CERTIFICATE"])
def test_kinds_that_may_hold_pods_fail_a_strict_plan(run: Run, tmp_path: Path, option: str, document: str) -> None:
    file = write(tmp_path / "a.yaml", NODE, globals()[document])
    ended = run("plan", "-f", file, option)
    assert (ended.code, ended.out) == (2, "")
    assert f"error: {option}: 1 object cannot be planned" in ended.err


def test_workload_that_cannot_be_expanded_is_an_error_that_names_it(run: Run, tmp_path: Path) -> None:
    """whatif.md 1.7"""
    file = write(tmp_path / "a.yaml", NODE, WORKFLOW)
    ended = run("plan", "-f", file)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f'error: {file}: document 2 (line 5): Workflow "default/x": its pods are not planned')


def test_kinds_that_only_may_hold_pods_are_a_warning(run: Run, tmp_path: Path) -> None:
    ended = run("plan", "-f", write(tmp_path / "a.yaml", NODE, CERTIFICATE))
    assert ended.code == 0
    assert ended.err.startswith("warning: ")
    assert "it is unknown whether it creates pods" in ended.err


def test_lenient_answers_for_the_rest(run: Run, tmp_path: Path) -> None:
    file = write(tmp_path / "a.yaml", NODE, WORKFLOW, POD % ("", ""))
    ended = run("plan", "-f", file, "--fail-on-pending", "--lenient")
    assert ended.code == 0
    assert ended.out.startswith("The pod is placed.")
    assert "its pods are not planned" in ended.err


@pytest.mark.parametrize("question", [["plan"], ["queue"], ["explain", "--all-waiting"], ["drain-plan", "n1"]])
def test_lenient_answers_without_an_unknown_kind(run: Run, tmp_path: Path, question: list[str]) -> None:
    """whatif.md 1.7: one warning, and the rest is planned, though a template was found in it."""
    sweep = "apiVersion: example.com/v1\nkind: Sweep\nmetadata: {name: s}\nspec: {template: {spec: {containers: []}}}\n"
    file = write(tmp_path / "a.yaml", NODE, sweep, POD % ("", ""))
    refused = run(*question, "-f", file)
    assert (refused.code, refused.out) == (2, "")
    ended = run(*question, "-f", file, "--lenient")
    assert ended.code == 0
    assert ended.err.count("its pods are not planned") == 1


@pytest.mark.parametrize(
    "question",
    [["plan", "--fail-on-pending"], ["drain-plan", "n1", "--fail-on-pending"], ["queue"], ["explain", "--all-waiting"]],
)
def test_suspended_workloads_are_a_warning(run: Run, tmp_path: Path, question: list[str]) -> None:
    """whatif.md 1.5: it calls for no pods, which is no green answer to whether it would run."""
    job = (
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: %s}\nspec: {suspend: true, template: {spec: "
        "{restartPolicy: Never, containers: [{name: c}]}}}\n"
    )
    ended = run(*question, "-f", write(tmp_path / "a.yaml", NODE, job % "one", job % "two"))
    assert ended.code == 0
    assert ended.err.count("it is suspended (spec.suspend) and calls for no pods") == 1
    assert ended.err.endswith("(and 1 more like it)\n")


def test_suspended_workloads_are_in_the_document(run: Run, tmp_path: Path) -> None:
    """whatif.md 1.5: a whole object, and one worker group of a RayCluster."""
    ray = (
        "apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {name: ray}\nspec:\n"
        "  headGroupSpec: {template: {spec: {containers: [{name: c}]}}}\n"
        "  workerGroupSpecs: [{groupName: g, suspend: true, template: {spec: {containers: [{name: c}]}}}]\n"
    )
    job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j, namespace: lab}\nspec: {suspend: true}\n"
    space = "apiVersion: v1\nkind: Namespace\nmetadata: {name: lab}\n"
    ended = run("plan", "-f", write(tmp_path / "a.yaml", NODE, space, ray, job), "-o", "json")
    assert json.loads(ended.out)["suspended"] == [
        {"apiVersion": version, "kind": kind, "namespace": space, "name": name, "message": message}
        for version, kind, space, name, message in (
            ("batch/v1", "Job", "lab", "j", "it is suspended (spec.suspend) and calls for no pods"),
            (
                "ray.io/v1",
                "RayCluster",
                "default",
                "ray",
                "it is suspended (spec.workerGroupSpecs[0].suspend) and calls for no pods",
            ),
        )
    ]
    assert ended.err.count("is suspended (") == 2


def test_workloads_are_planned_as_their_pods(run: Run, tmp_path: Path) -> None:
    ended = run("plan", "-f", write(tmp_path / "a.yaml", NODE, DEPLOYMENT), "--fail-on-pending")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("All 3 pods are placed.")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--run", "nightly"], "error: --run nightly: expected cronjob/NAME"),
        (["--run", "job/nightly"], "error: --run job/nightly: expected cronjob/NAME"),
        (["--run", "cronjob/nightly"], "error: --run: no CronJob default/nightly is in the input"),
        (["--workload-kinds", "nowhere.yaml"], "error: nowhere.yaml: No such file or directory"),
    ],
)
def test_bad_options_of_workloads(run: Run, tmp_path: Path, options: list[str], message: str) -> None:
    ended = run("plan", "-f", write(tmp_path / "a.yaml", NODE), *options)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(message)


def test_kinds_without_pods_do_not_fail_a_strict_plan(run: Run, tmp_path: Path) -> None:
    file = write(tmp_path / "a.yaml", NODE, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n")
    ended = run("plan", "-f", file, "--strict", "--fail-on-pending")
    assert (ended.code, ended.err) == (0, "warning: 1 × v1/ConfigMap: not read\n")


@pytest.mark.parametrize("other", ["--ignore-unknown", "--lenient"])
def test_strict_excludes_looking_away(run: Run, tmp_path: Path, other: str) -> None:
    ended = run("plan", "-f", write(tmp_path / "a.yaml", NODE), "--strict", other)
    assert ended.code == 2
    assert f"--strict and {other} cannot be combined" in ended.err


def test_configuration_names_the_nearest_field(run: Run, tmp_path: Path) -> None:
    config = write(tmp_path / "c.yaml", CONFIGURATION)
    ended = run("plan", "-f", write(tmp_path / "a.yaml", NODE), "--config", config)
    assert ended.code == 2
    assert ended.err == (f'error: {config}: profiles[0].schedulerNam: unknown field, did you mean "schedulerName"?\n')


def test_scenario_names_the_nearest_field(run: Run, tmp_path: Path) -> None:
    ended = run("plan", "-f", write(tmp_path / "a.yaml", NODE, SCENARIO))
    assert ended.code == 2
    assert 'spec.steps[0].creat: unknown field, did you mean "create"?' in ended.err


def test_kubeconfig_names_what_it_does_not_know(run: Run, tmp_path: Path) -> None:
    file = write(tmp_path / "kubeconfig", KUBECONFIG)
    ended = run("plan", "--kubeconfig", file, "--strict")
    assert ended.code == 2
    warnings = ended.err.splitlines()
    assert warnings[:2] == [
        f'warning: {file}: document 1 (line 9): unknown field "clusters[0].cluster.certificate-authority-dat", '
        'did you mean "certificate-authority-data"?',
        f'warning: {file}: document 1 (line 10): unknown field "contexts[0].context.namespac", '
        'did you mean "namespace"?',
    ]
    assert connect(file).namespace == "default"  # kubectl passes over them, and so do we


def test_input_without_objects_is_a_warning(run: Run, tmp_path: Path) -> None:
    """whatif.md 1: never silence; an empty file beside others is nothing to speak of."""
    empty = write(tmp_path / "empty.yaml", "# nothing yet\n")
    ended = run("plan", "-f", empty)
    assert (ended.code, ended.err) == (0, f"warning: {empty}: no objects found\n")
    assert run("plan", "-f", empty, "-f", write(tmp_path / "a.yaml", NODE)).err == ""


def test_kind_with_two_letters_the_wrong_way_round_is_recognized(run: Run, tmp_path: Path) -> None:
    """whatif.md 1.7: the nearest known name."""
    ended = run("plan", "-f", write(tmp_path / "a.yaml", NODE, "apiVersion: v1\nkind: Pdo\nmetadata: {name: p}\n"))
    assert ended.code == 2
    assert 'did you mean "Pod"' in ended.err


def test_pod_runs_on_a_node_of_the_input(run: Run, tmp_path: Path) -> None:
    """Without a cluster there is nothing else where its node could be."""
    ended = run("plan", "-f", write(tmp_path / "a.yaml", NODE, POD % ("", "  nodeName: nowhere\n")))
    assert (ended.code, ended.out) == (2, "")
    assert 'spec.nodeName: Invalid value: "nowhere"' in ended.err
