"""PodGroups as the operators of Volcano, Kubeflow and Ray make them: class, minimum, queue (workloads.md 5)."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import reprieve
from kube_rules.errors import InputError
from kube_rules.group_sources import OWNERS, GroupSources, pod_group_name
from kube_rules.objects import Pod
from reprieve.simulation.plan import PlanOptions, plan
from reprieve.simulation.plan_inputs import workload_remarks
from reprieve.simulation.workloads.expansion import Expansion, expand
from tests.simulation.test_workload_gangs import GANG
from tests.simulation.test_workloads import TEMPLATE, loaded, made

Json = dict[str, Any]
CLASSES = [
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
    for name, value in (("high", 1000), ("mid", 500))
]


def classed(name: str) -> Json:
    return {"spec": {**TEMPLATE["spec"], "priorityClassName": name}}


def volcano(first: Json = TEMPLATE, **spec: Any) -> Json:
    tasks = [{"name": "m", "template": first}, {"name": "w", "replicas": 2, "template": TEMPLATE}]
    return made("batch.volcano.sh/v1alpha1", "Job", {"minAvailable": 3, "tasks": tasks, **spec})


def training(kind: str, field: str, policy: Json | None, version: str = "v1") -> Json:
    replicas = {"Launcher": {"template": TEMPLATE}, "Worker": {"replicas": 2, "template": TEMPLATE}}
    run = {} if policy is None else {"runPolicy": {"schedulingPolicy": policy}}
    return made(f"kubeflow.org/{version}", kind, {**run, field: replicas})


def ray(kind: str, labels: Json, **cluster: Any) -> Json:
    workers = [{"groupName": "g", "replicas": 2, "minReplicas": 1, "maxReplicas": 3, "template": TEMPLATE}]
    spec: Json = {"headGroupSpec": {"template": TEMPLATE}, "workerGroupSpecs": workers, **cluster}
    field = {"RayJob": "rayClusterSpec", "RayService": "rayClusterConfig"}.get(kind)
    made_of = made("ray.io/v1", kind, spec if field is None else {field: spec})
    made_of["metadata"]["labels"] = labels
    return made_of


def train_job(policy: Json, *classes: str) -> tuple[Json, ...]:
    jobs = [
        {"name": f"j{turn}", "template": {"spec": {"template": classed(name) if name else TEMPLATE}}}
        for turn, name in enumerate(classes)
    ]
    spec = {"podGroupPolicy": policy, "template": {"spec": {"replicatedJobs": jobs}}}
    runtime = made("trainer.kubeflow.org/v1alpha1", "ClusterTrainingRuntime", spec, name="torch")
    return runtime, made("trainer.kubeflow.org/v1alpha1", "TrainJob", {"runtimeRef": {"name": "torch"}})


KUBEFLOW = [
    ("PyTorchJob", "pytorchReplicaSpecs"),
    ("TFJob", "tfReplicaSpecs"),
    ("XGBoostJob", "xgbReplicaSpecs"),
    ("PaddleJob", "paddleReplicaSpecs"),
    ("JAXJob", "jaxReplicaSpecs"),
    ("MPIJob", "mpiReplicaSpecs"),
]
RAY_CLASS = {"ray.io/priority-class-name": "high"}


def made_of(*documents: Json) -> Expansion:
    return expand(loaded(*CLASSES, *documents))


@pytest.mark.parametrize(
    ("documents", "name", "minimum", "group_class", "priorities"),
    [
        ((volcano(),), "x", 3, "", {0}),
        ((volcano(priorityClassName="high"),), "x", 3, "high", {1000}),
        ((volcano(classed("mid"), priorityClassName="high"),), "x", 3, "high", {500, 1000}),
        ((volcano(classed("mid")),), "x", 3, "", {0, 500}),
        *(((training(*row, {"priorityClass": "high"}),), "x", 3, "high", {0}) for row in KUBEFLOW),
        ((training("PyTorchJob", "pytorchReplicaSpecs", {"minAvailable": 2}),), "x", 2, "", {0}),
        ((training("PyTorchJob", "pytorchReplicaSpecs", {}),), "x", 3, "", {0}),
        ((training("MPIJob", "mpiReplicaSpecs", {"priorityClass": "mid"}, "v2beta1"),), "x", 3, "mid", {0}),
        ((ray("RayCluster", RAY_CLASS),), "ray-x-pg", 3, "high", {0}),
        ((ray("RayCluster", RAY_CLASS, enableInTreeAutoscaling=True),), "ray-x-pg", 2, "high", {0}),
        ((ray("RayCluster", {"ray.io/gang-scheduling-enabled": "true"}),), "ray-x-pg", 3, "", {0}),
        ((ray("RayJob", RAY_CLASS),), "ray-x-pg", 3, "high", {0}),
        ((ray("RayService", RAY_CLASS),), "ray-x-00000-pg", 3, "high", {0}),
        (train_job({"volcano": {}}, "mid", "high"), "x", 2, "high", {500, 1000}),
        (train_job({"coscheduling": {}}, "mid", ""), "x", 2, "", {0, 500}),
    ],
)
def test_operator_gives_the_group_its_class(
    documents: tuple[Json, ...], name: str, minimum: int, group_class: str, priorities: set[int]
) -> None:
    """workloads.md 5.1-5.4, 5.6."""
    found = made_of(*documents).manifests
    [group] = [one.object for one in found.pod_groups]
    assert (group.name, group.min_count, group.spec.priority_class_name) == (name, minimum, group_class)
    assert group.foreign is not None
    assert {one.object.spec.priority for one in found.pods} == priorities
    assert {pod_group_name(one.object) for one in found.pods} == {name}


def test_mpi_job_has_the_class_of_its_launcher_else_of_its_workers() -> None:
    """workloads.md 5.2."""
    for launcher, worker, expected in (("high", "mid", "high"), ("", "mid", "mid"), ("", "", "")):
        job = training("MPIJob", "mpiReplicaSpecs", {}, "v2beta1")
        job = copy.deepcopy(job)
        for role, name in (("Launcher", launcher), ("Worker", worker)):
            if name:
                job["spec"]["mpiReplicaSpecs"][role]["template"] = classed(name)
        [group] = [one.object for one in made_of(job).manifests.pod_groups]
        assert group.spec.priority_class_name == expected


@pytest.mark.parametrize(
    "document",
    [
        training("PyTorchJob", "pytorchReplicaSpecs", None),
        training("MPIJob", "mpiReplicaSpecs", None, "v2beta1"),
        ray("RayCluster", {"other": "label"}),
    ],
)
def test_without_a_policy_there_is_no_group(document: Json) -> None:
    """workloads.md 5.2, 5.3: whether the operator makes groups then is in its configuration alone."""
    assert made_of(document).manifests.pod_groups == []


def test_train_job_without_a_policy_has_no_group() -> None:
    """workloads.md 5.7: whether Trainer makes native groups is in its gates alone."""
    runtime, job = train_job({}, "mid")
    del runtime["spec"]["podGroupPolicy"]
    found = made_of(runtime, job).manifests
    assert (found.pod_groups, len(found.pods)) == ([], 1)
    assert not any(one.object.spec.scheduling_group for one in found.pods)


@pytest.mark.parametrize(
    ("document", "path"),
    [
        (volcano(priorityClassName="gone"), "spec.priorityClassName"),
        (training("PyTorchJob", "pytorchReplicaSpecs", {"priorityClass": "gone"}), "spec.runPolicy.schedulingPolicy"),
        (ray("RayJob", {"ray.io/priority-class-name": "gone"}), "metadata.labels[ray.io/priority-class-name]"),
    ],
)
def test_unknown_class_is_refused_where_it_stands(document: Json, path: str) -> None:
    with pytest.raises(InputError, match="no PriorityClass with name gone was found") as caught:
        made_of(document)
    assert caught.value.path.startswith(path)


def test_class_of_a_job_decides_which_pods_are_evicted() -> None:
    """A job read as priority 0 would wait."""
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1"},
        "status": {"allocatable": {"cpu": "3", "pods": "9"}},
    }
    wants = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}
    large = {"name": "c", "resources": {"requests": {"cpu": "3"}}}
    low = made("v1", "Pod", {"nodeName": "n1", "priority": 600, "containers": [large]}, name="low")
    for document in (
        volcano(priorityClassName="high"),
        training("PyTorchJob", "pytorchReplicaSpecs", {"priorityClass": "high"}),
        ray("RayCluster", RAY_CLASS),
    ):
        text = copy.deepcopy(document)
        _put(text, wants)
        answer = plan(loaded(*CLASSES, node, low, text)).plan
        assert [victim.name for each in answer.preemptions for victim in each.victims] == ["low"]
        assert answer.all_placed


def _put(value: Any, template: Json) -> None:
    for key, inner in list(value.items()) if isinstance(value, dict) else enumerate(value):
        if key == "template":
            value[key] = template
        elif isinstance(inner, dict | list):
            _put(inner, template)


@pytest.mark.parametrize(
    ("document", "path"),
    [
        (volcano(queue="q"), 'spec.queue: "q"'),
        (volcano(networkTopology={"mode": "hard"}), "spec.networkTopology"),
        (training("TFJob", "tfReplicaSpecs", {"queue": "q"}), 'spec.runPolicy.schedulingPolicy.queue: "q"'),
        (ray("RayCluster", {"volcano.sh/queue-name": "q"}), 'metadata.labels[volcano.sh/queue-name]: "q"'),
        (
            {**volcano(), "metadata": {"name": "x", "labels": {"kueue.x-k8s.io/queue-name": "q"}}},
            'metadata.labels[kueue.x-k8s.io/queue-name]: "q"',
        ),
        (
            {**volcano(), "metadata": {"name": "x", "annotations": {"scheduling.volcano.sh/queue-name": "q"}}},
            'metadata.annotations[scheduling.volcano.sh/queue-name]: "q"',
        ),
    ],
)
def test_queues_are_reported_as_not_read(document: Json, path: str) -> None:
    """workloads.md 5.5; the answer has it, too, and the queue `default` is none."""
    [remark] = made_of(document).remarks
    assert f"{path} is not read" in str(remark)
    answer = reprieve.load(*CLASSES, document).plan(suggest=False)
    [text] = [each for each in answer.warnings if path in each]
    assert text.endswith(remark.message)
    assert made_of(volcano(queue="default")).remarks == []


def test_gang_by_annotation_is_that_of_the_scheduler_or_there_is_a_warning() -> None:
    """workloads.md 2.10, 2.11: a gang for each replicated job; nothing is reported where the source is on."""
    jobs = [
        {"name": name, "replicas": 2, "template": {"spec": {"parallelism": 2, "template": TEMPLATE}}}
        for name in ("a", "b")
    ]
    job_set = made("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": jobs})
    job_set["metadata"]["annotations"] = GANG
    found = made_of(job_set)
    assert {one.object.name: one.object.min_count for one in found.manifests.pod_groups} == {"x-a": 4, "x-b": 4}
    [text] = workload_remarks(found.remarks, GroupSources(["native"]))
    assert "groupSources: {owners: true}" in text
    assert workload_remarks(found.remarks, GroupSources([OWNERS])) == []
    assert any("groupSources" in each for each in plan(loaded(job_set)).account.warnings)
    options = PlanOptions(sources=GroupSources.switched({OWNERS: True}))
    assert plan(loaded(job_set), options).account.warnings == ()


@pytest.mark.parametrize(
    ("document", "sizes"),
    [
        (
            made(
                "leaderworkerset.x-k8s.io/v1",
                "LeaderWorkerSet",
                {"replicas": 2, "startupPolicy": "LeaderReady"}
                | {"leaderWorkerTemplate": {"size": 3, "workerTemplate": TEMPLATE}},
            ),
            {"x-0": 1, "x-1": 1},
        ),
        (ray("RayCluster", {}, enableInTreeAutoscaling=True), {"x": 2}),
    ],
)
def test_gang_by_annotation_is_as_large_as_the_scheduler_has_it(document: Json, sizes: dict[str, int]) -> None:
    """workloads.md 2.10."""
    whole = copy.deepcopy(document)
    whole["metadata"]["annotations"] = GANG
    assert {one.object.name: one.object.min_count for one in made_of(whole).manifests.pod_groups} == sizes


def test_gang_that_no_scheduler_reads_is_reported_whatever_is_on() -> None:
    """workloads.md 2.11."""
    whole = made("apps/v1", "Deployment", {"replicas": 2, "template": TEMPLATE})
    whole["metadata"] |= {"annotations": GANG, "uid": "u"}
    found = made_of(whole)
    [text] = workload_remarks(found.remarks, GroupSources([OWNERS]))
    assert "the scheduler reads it only on Job, JobSet, LeaderWorkerSet, RayCluster" in text
    assert all(isinstance(one.object, Pod) for one in found.manifests.pods)
