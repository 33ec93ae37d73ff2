"""The expanded kinds, with a row for each (whatif.md 2): the only place to look up or extend.

A row without sets has rules in `controllers`. Rows of users take precedence (`rows.read_rows`). Source: the controllers
named in whatif.md 2.
"""

from __future__ import annotations

from typing import Any, Final

from reprieve.simulation.workloads.rows import PodSet, Rows, WorkloadKind

_TRAINING: Final = "training.kubeflow.org"
_JOBSET: Final = "jobset.sigs.k8s.io"
_LWS: Final = "leaderworkerset.sigs.k8s.io"

_POLICY: Final = "spec.runPolicy.schedulingPolicy"
_RAY_CLASS: Final = "metadata.labels[ray.io/priority-class-name]"
_RAY_GANG: Final = (
    _RAY_CLASS,
    "metadata.labels[ray.io/gang-scheduling-enabled]",
    "metadata.labels[volcano.sh/queue-name]",
)
"""Labels that the batch schedulers of KubeRay read; any of them creates a group."""

_JOBSET_MARKS: Final = {
    f"{_JOBSET}/jobset-name": "{name}",
    f"{_JOBSET}/replicatedjob-name": "{part}",
    f"{_JOBSET}/replicatedjob-replicas": "{replicas}",
    f"{_JOBSET}/job-index": "{index}",
    f"{_JOBSET}/restart-attempt": "0",
}
_REPLICATED: Final = (PodSet(each="spec", replicas="replicas", name="{name}-"),)
_SUBMITTER_RESOURCES: Final = {
    "requests": {"cpu": "500m", "memory": "200Mi"},
    "limits": {"cpu": "1", "memory": "1Gi"},
}
_SUBMITTER: Final = {
    "spec": {
        "restartPolicy": "Never",
        "containers": [{"name": "ray-job-submitter", "resources": _SUBMITTER_RESOURCES}],
    }
}
"""KubeRay's default submitter pod."""


def _kubeflow(kind: str, version: str, *sets: PodSet, classes: tuple[str, ...] = ()) -> WorkloadKind:
    """Return a kind with the run policy of the training operators; `classes`: other paths of a priority class."""
    return WorkloadKind(
        group="kubeflow.org",
        kind=kind,
        versions=(version,),
        suspended="spec.runPolicy.suspend",
        ended_conditions=("Succeeded", "Failed"),
        gang_when=(_POLICY,),
        min_count=f"{_POLICY}.minAvailable",
        priority_class=(f"{_POLICY}.priorityClass", *classes),
        unread=(f"{_POLICY}.queue",),
        sets=sets,
    )


def _training_labels(operator: str, **more: str) -> dict[str, str]:
    """Return the labels that an operator sets on its pods; `more`: additional ones with its prefix."""
    labels = {"job_name": "{name}", "operator_name": operator, **more}
    return {f"{_TRAINING}/{label.replace('_', '-')}": value for label, value in labels.items()}


def _training_job(kind: str, field: str, *masters: str) -> WorkloadKind:
    """Return a kind of the training operator: a map of replica types, some of which are masters."""
    pods = PodSet(
        each=f"spec.{field}.*",
        replicas="replicas",
        labels=_training_labels(f"{kind.lower()}-controller", replica_type="{part}", replica_index="{index}"),
        labels_of={master: {f"{_TRAINING}/job-role": "master"} for master in masters},
    )
    return _kubeflow(kind, "v1", pods)


def _leader_worker_set(index: str, name: str, owner: str, **more: Any) -> PodSet:
    """Return the leaders or workers of a LeaderWorkerSet, created by StatefulSets; `index`: in their group."""
    stateful = {"apps.kubernetes.io/pod-index": "{replica}" if index == "0" else index}
    return PodSet(
        each="spec",
        replicas="replicas",
        name=name,
        hostname=name,
        owner=f"apps/v1 StatefulSet {owner}",
        labels={
            f"{_LWS}/name": "{name}",
            f"{_LWS}/group-index": "{replica}",
            f"{_LWS}/worker-index": index,
            **stateful,
            "statefulset.kubernetes.io/pod-name": name,
        },
        **more,
    )


def _ray_labels(group: str, role: str) -> dict[str, str]:
    """Return the labels of pods of a RayCluster; `role`: head or worker."""
    return {
        "ray.io/cluster": "{name}",
        "ray.io/group": group,
        "ray.io/identifier": f"{{name}}-{role}",
        "ray.io/is-ray-node": "yes",
        "ray.io/node-type": role,
    }


def _made_by(kind: str) -> dict[str, str]:
    """Return the labels of objects that a RayJob or RayService creates."""
    return {"ray.io/originated-from-cr-name": "{name}", "ray.io/originated-from-crd": kind}


def _ray_cluster(kind: str, template: str, named_in: str, **more: Any) -> PodSet:
    """Return the RayCluster that an object creates."""
    return PodSet(
        template=template,
        template_of="spec",
        makes="ray.io/v1 RayCluster",
        name="{name}-",
        named_in=named_in,
        inherits=True,
        labels=_made_by(kind),
        **more,
    )


TABLE: Final = Rows(
    [
        WorkloadKind(group="", kind="ReplicationController", scale="spec.replicas", sets=_REPLICATED),
        WorkloadKind(group="apps", kind="ReplicaSet", scale="spec.replicas", sets=_REPLICATED),
        WorkloadKind(group="extensions", kind="ReplicaSet", scale="spec.replicas", sets=_REPLICATED),
        WorkloadKind(group="apps", kind="Deployment", scale="spec.replicas"),
        WorkloadKind(group="extensions", kind="Deployment", scale="spec.replicas"),
        WorkloadKind(group="apps", kind="StatefulSet", scale="spec.replicas"),
        WorkloadKind(group="apps", kind="DaemonSet"),
        WorkloadKind(group="extensions", kind="DaemonSet"),
        WorkloadKind(
            group="batch",
            kind="Job",
            scale="spec.parallelism",
            suspended="spec.suspend",
            ended_conditions=("Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"),
        ),
        WorkloadKind(group="batch", kind="CronJob"),
        WorkloadKind(
            group="jobset.x-k8s.io",
            kind="JobSet",
            suspended="spec.suspend",
            gang="part",
            ended_conditions=("Completed", "Failed"),
            sets=(
                PodSet(
                    each="spec.replicatedJobs.*",
                    replicas="replicas",
                    makes="batch/v1 Job",
                    spec={"completionMode": "Indexed"},
                    labels=_JOBSET_MARKS,
                    annotations=_JOBSET_MARKS,
                    on_pods=True,
                ),
            ),
        ),
        WorkloadKind(
            group="leaderworkerset.x-k8s.io",
            kind="LeaderWorkerSet",
            scale="spec.replicas",
            gang="replica",
            sets=(
                _leader_worker_set(
                    "0",
                    "{name}-{replica}",
                    "{name}",
                    template=("leaderWorkerTemplate.leaderTemplate", "leaderWorkerTemplate.workerTemplate"),
                    annotations={f"{_LWS}/size": "{size}"},
                ),
                _leader_worker_set(
                    "{member}",
                    "{name}-{replica}-{member}",
                    "{name}-{replica}",
                    template="leaderWorkerTemplate.workerTemplate",
                    size="leaderWorkerTemplate.size",
                    less=1,
                    annotations={f"{_LWS}/size": "{size}", f"{_LWS}/leader-name": "{name}-{replica}"},
                ),
            ),
        ),
        _training_job("PyTorchJob", "pytorchReplicaSpecs", "master"),
        _training_job("TFJob", "tfReplicaSpecs", "chief", "master"),
        _training_job("XGBoostJob", "xgbReplicaSpecs", "master"),
        _training_job("PaddleJob", "paddleReplicaSpecs", "master"),
        _training_job("JAXJob", "jaxReplicaSpecs"),
        _training_job("MPIJob", "mpiReplicaSpecs"),
        _kubeflow(
            "MPIJob",
            "v2beta1",
            PodSet(
                each="spec.mpiReplicaSpecs.Launcher",
                makes="batch/v1 Job",
                template_of="pod",
                name="{name}-launcher",
                labels=_training_labels("mpi-operator", job_role="launcher"),
                on_pods=True,
            ),
            PodSet(
                each="spec.mpiReplicaSpecs.Worker",
                replicas="replicas",
                name="{name}-worker-{index}",
                hostname="{name}-worker-{index}",
                labels=_training_labels("mpi-operator", job_role="worker", replica_index="{index}"),
                optional=True,
            ),
            classes=(
                "spec.mpiReplicaSpecs.Launcher.template.spec.priorityClassName",
                "spec.mpiReplicaSpecs.Worker.template.spec.priorityClassName",
            ),
        ),
        WorkloadKind(
            group="trainer.kubeflow.org",
            kind="TrainJob",
            scale="spec.trainer.numNodes",
            suspended="spec.suspend",
            ended_conditions=("Complete", "Failed"),
        ),
        WorkloadKind(
            group="ray.io",
            kind="RayCluster",
            suspended="spec.suspend",
            gang_when=_RAY_GANG,
            gang_name="ray-{name}-pg",
            priority_class=(_RAY_CLASS,),
            sets=(
                PodSet(each="spec.headGroupSpec", name="{name}-head-", labels=_ray_labels("headgroup", "head")),
                PodSet(
                    each="spec.workerGroupSpecs.*",
                    part="groupName",
                    replicas="replicas",
                    default=0,
                    least="minReplicas",
                    most="maxReplicas",
                    size="numOfHosts",
                    suspended="suspend",
                    name="{name}-{part}-worker-",
                    labels=_ray_labels("{part}", "worker"),
                    optional=True,
                ),
            ),
        ),
        WorkloadKind(
            group="ray.io",
            kind="RayJob",
            suspended="spec.suspend",
            gang_when=_RAY_GANG,
            gang_name="ray-{name}-pg",
            priority_class=(_RAY_CLASS,),
            ended={
                "status.jobDeploymentStatus": ("Complete", "Failed"),
                "status.jobStatus": ("SUCCEEDED", "FAILED", "STOPPED"),
            },
            sets=(
                _ray_cluster(
                    "RayJob", "spec.rayClusterSpec", "status.rayClusterName", when={"spec.clusterSelector": (None,)}
                ),
                PodSet(
                    template="spec.submitterPodTemplate",
                    otherwise=_SUBMITTER,
                    template_of="pod",
                    makes="batch/v1 Job",
                    name="{name}",
                    labels=_made_by("RayJob"),
                    when={"spec.submissionMode": (None, "K8sJobMode")},
                ),
            ),
        ),
        WorkloadKind(
            group="ray.io",
            kind="RayService",
            suspended="spec.suspend",
            sets=(_ray_cluster("RayService", "spec.rayClusterConfig", "status.activeServiceStatus.rayClusterName"),),
        ),
        WorkloadKind(
            group="batch.volcano.sh",
            kind="Job",
            ended={"status.state.phase": ("Completed", "Failed", "Terminated", "Aborted", "Terminating", "Aborting")},
            min_count="spec.minAvailable",
            min_count_of_part="minAvailable",
            always_gang=True,
            priority_class=("spec.priorityClassName",),
            unread=("spec.queue", "spec.networkTopology"),
            sets=(
                PodSet(
                    each="spec.tasks.*",
                    replicas="replicas",
                    pod_defaults={"priorityClassName": "spec.priorityClassName", "schedulerName": "spec.schedulerName"},
                    labels={
                        "volcano.sh/job-name": "{name}",
                        "volcano.sh/job-namespace": "{namespace}",
                        "volcano.sh/task-spec": "{part}",
                        "volcano.sh/task-index": "{index}",
                    },
                    annotations={
                        "scheduling.k8s.io/group-name": "{name}",
                        "volcano.sh/job-name": "{name}",
                        "volcano.sh/task-spec": "{part}",
                        "volcano.sh/task-index": "{index}",
                        "volcano.sh/template-uid": "{name}-{part}",
                    },
                ),
            ),
        ),
    ]
)
