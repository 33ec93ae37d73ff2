"""Gang fields of controllers that are not known are named, and an error with `--strict` (workloads.md 5, 6)."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.conftest import Run

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
}
TEMPLATE: dict[str, Any] = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
SELECTED: dict[str, Any] = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
JOBS: list[dict[str, Any]] = [
    {"name": "w", "template": {"spec": {"template": {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}}}}
]
GANG: dict[str, Any] = {"schedulingPolicy": {"gang": {}}}


def workload(version: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "x", "namespace": "default"}, "spec": spec}


RUNTIME = workload(
    "trainer.kubeflow.org/v1alpha1",
    "TrainingRuntime",
    {"podGroupPolicy": {"workload": {}}, "template": {"spec": {"replicatedJobs": [{**JOBS[0], "name": "node"}]}}},
)
TRAIN = workload("trainer.kubeflow.org/v1alpha1", "TrainJob", {"runtimeRef": {"kind": "TrainingRuntime", "name": "x"}})
CASES: dict[str, tuple[list[dict[str, Any]], str]] = {
    "Deployment": (
        [workload("apps/v1", "Deployment", {**SELECTED, "scheduling": GANG})],
        'Deployment "default/x": unknown field "spec.scheduling"',
    ),
    "StatefulSet": (
        [workload("apps/v1", "StatefulSet", {**SELECTED, "serviceName": "x", "scheduling": GANG})],
        'StatefulSet "default/x": unknown field "spec.scheduling"',
    ),
    "JobSet": (
        [workload("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": JOBS, "scheduling": {"queue": "q"}})],
        "spec.scheduling.queue is ignored",
    ),
    "LeaderWorkerSet": (
        [
            workload(
                "leaderworkerset.x-k8s.io/v1",
                "LeaderWorkerSet",
                {
                    "leaderWorkerTemplate": {"size": 2, "workerTemplate": TEMPLATE},
                    "scheduling": {"replica": {"spread": 1}},
                },
            )
        ],
        "spec.scheduling.replica.spread is ignored",
    ),
    "TrainJob": ([RUNTIME, TRAIN], "spec.podGroupPolicy.workload is ignored: only coscheduling and volcano are known"),
}


@pytest.mark.parametrize("name", CASES)
def test_unknown_gang_field_is_named_and_strict_refuses_it(name: str, run: Run, tmp_path: Path) -> None:
    """workloads.md 5.4, 6.6, 6.7: a warning and exit code 0, or exit code 2 with the field in the error."""
    objects, said = CASES[name]
    file = tmp_path / "in.yaml"
    file.write_text(yaml.safe_dump_all([NODE, *objects]))
    ended = run("plan", "-f", str(file))
    assert (ended.code, said in ended.err) == (0, True), ended.err
    ended = run("plan", "--strict", "-f", str(file))
    assert (ended.code, ended.out, said in ended.err) == (2, "", True), ended.err


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, str], str]] = {
    "group in a template": (
        {},
        {"schedulingGroup": {"podGroupName": "own"}},
        {},
        "workerTemplate.spec.schedulingGroup",
    ),
    "gang, exclusive": (
        {},
        {},
        {"leaderworkerset.sigs.k8s.io/exclusive-topology": "rack"},
        "schedulingPolicy: Forbidden",
    ),
    "domain, exclusive": (
        {"schedulingConstraints": {"topology": [{"key": "rack"}]}},
        {},
        {"leaderworkerset.sigs.k8s.io/exclusive-topology": "rack"},
        "schedulingConstraints: Forbidden",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_admission_of_leader_worker_sets_refuses(name: str, run: Run, tmp_path: Path) -> None:
    """workloads.md 6.5."""
    scheduling, more, annotations, said = REFUSED[name]
    template = {**TEMPLATE, "spec": {**TEMPLATE["spec"], **more}}
    spec = {"replicas": 1, "leaderWorkerTemplate": {"size": 2, "workerTemplate": template}, "scheduling": scheduling}
    made = workload("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", spec)
    made["metadata"]["annotations"] = annotations
    file = tmp_path / "in.yaml"
    file.write_text(yaml.safe_dump_all([NODE, made]))
    ended = run("plan", "-f", str(file))
    assert (ended.code, said in ended.err) == (2, True), ended.err
