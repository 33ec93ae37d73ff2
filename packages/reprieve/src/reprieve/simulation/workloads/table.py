"""Every kind that is expanded, a row for each (whatif.md 2): the one place to look at or to add to.

A row without sets has rules of its own in `controllers`.  Rows of users come on top (`rows.read_rows`).

Source: the controllers named in whatif.md 2, by what they write.
"""

from __future__ import annotations

from typing import Final

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
"""Labels that the batch schedulers of KubeRay read: they make a group where one is there."""

_REPLICATED: Final = (PodSet(each="spec", replicas="replicas", name="{name}-"),)
_SUBMITTER: Final = {
    "spec": {
        "restartPolicy": "Never",
        "containers": [
            {
                "name": "ray-job-submitter",
                "resources": {
                    "requests": {"cpu": "500m", "memory": "200Mi"},
                    "limits": {"cpu": "1", "memory": "1Gi"},
                },
            }
        ],
    }
}
"""What KubeRay submits with where nothing else is given."""


def _training_job(kind: str, field: str, *masters: str) -> WorkloadKind:
    """Return a kind of the training operator: a map of replica types, of which some are masters."""
    return WorkloadKind(
        group="kubeflow.org",
        kind=kind,
        versions=("v1",),
        suspended="spec.runPolicy.suspend",
        ended_conditions=("Succeeded", "Failed"),
        gang_when=(_POLICY,),
        min_count=f"{_POLICY}.minAvailable",
        priority_class=(f"{_POLICY}.priorityClass",),
        unread=(f"{_POLICY}.queue",),
        sets=(
            PodSet(
                each=f"spec.{field}.*",
                replicas="replicas",
                labels={
                    f"{_TRAINING}/job-name": "{name}",
                    f"{_TRAINING}/operator-name": f"{kind.lower()}-controller",
                    f"{_TRAINING}/replica-type": "{part}",
                    f"{_TRAINING}/replica-index": "{index}",
                },
                labels_of={master: {f"{_TRAINING}/job-role": "master"} for master in masters},
            ),
        ),
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
                    labels={
                        f"{_JOBSET}/jobset-name": "{name}",
                        f"{_JOBSET}/replicatedjob-name": "{part}",
                        f"{_JOBSET}/replicatedjob-replicas": "{replicas}",
                        f"{_JOBSET}/job-index": "{index}",
                        f"{_JOBSET}/restart-attempt": "0",
                    },
                    annotations={
                        f"{_JOBSET}/jobset-name": "{name}",
                        f"{_JOBSET}/replicatedjob-name": "{part}",
                        f"{_JOBSET}/replicatedjob-replicas": "{replicas}",
                        f"{_JOBSET}/job-index": "{index}",
                        f"{_JOBSET}/restart-attempt": "0",
                    },
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
                PodSet(
                    each="spec",
                    template=("leaderWorkerTemplate.leaderTemplate", "leaderWorkerTemplate.workerTemplate"),
                    replicas="replicas",
                    name="{name}-{replica}",
                    hostname="{name}-{replica}",
                    owner="apps/v1 StatefulSet {name}",
                    labels={
                        f"{_LWS}/name": "{name}",
                        f"{_LWS}/group-index": "{replica}",
                        f"{_LWS}/worker-index": "0",
                        "apps.kubernetes.io/pod-index": "{replica}",
                        "statefulset.kubernetes.io/pod-name": "{name}-{replica}",
                    },
                    annotations={f"{_LWS}/size": "{size}"},
                ),
                PodSet(
                    each="spec",
                    template="leaderWorkerTemplate.workerTemplate",
                    replicas="replicas",
                    size="leaderWorkerTemplate.size",
                    less=1,
                    name="{name}-{replica}-{member}",
                    hostname="{name}-{replica}-{member}",
                    owner="apps/v1 StatefulSet {name}-{replica}",
                    labels={
                        f"{_LWS}/name": "{name}",
                        f"{_LWS}/group-index": "{replica}",
                        f"{_LWS}/worker-index": "{member}",
                        "apps.kubernetes.io/pod-index": "{member}",
                        "statefulset.kubernetes.io/pod-name": "{name}-{replica}-{member}",
                    },
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
        WorkloadKind(
            group="kubeflow.org",
            kind="MPIJob",
            versions=("v2beta1",),
            suspended="spec.runPolicy.suspend",
            ended_conditions=("Succeeded", "Failed"),
            gang_when=(_POLICY,),
            min_count=f"{_POLICY}.minAvailable",
            priority_class=(
                f"{_POLICY}.priorityClass",
                "spec.mpiReplicaSpecs.Launcher.template.spec.priorityClassName",
                "spec.mpiReplicaSpecs.Worker.template.spec.priorityClassName",
            ),
            unread=(f"{_POLICY}.queue",),
            sets=(
                PodSet(
                    each="spec.mpiReplicaSpecs.Launcher",
                    makes="batch/v1 Job",
                    template_of="pod",
                    name="{name}-launcher",
                    labels={
                        f"{_TRAINING}/job-name": "{name}",
                        f"{_TRAINING}/operator-name": "mpi-operator",
                        f"{_TRAINING}/job-role": "launcher",
                    },
                    on_pods=True,
                ),
                PodSet(
                    each="spec.mpiReplicaSpecs.Worker",
                    replicas="replicas",
                    name="{name}-worker-{index}",
                    hostname="{name}-worker-{index}",
                    labels={
                        f"{_TRAINING}/job-name": "{name}",
                        f"{_TRAINING}/operator-name": "mpi-operator",
                        f"{_TRAINING}/job-role": "worker",
                        f"{_TRAINING}/replica-index": "{index}",
                    },
                    optional=True,
                ),
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
                PodSet(
                    each="spec.headGroupSpec",
                    name="{name}-head-",
                    labels={
                        "ray.io/cluster": "{name}",
                        "ray.io/group": "headgroup",
                        "ray.io/identifier": "{name}-head",
                        "ray.io/is-ray-node": "yes",
                        "ray.io/node-type": "head",
                    },
                ),
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
                    labels={
                        "ray.io/cluster": "{name}",
                        "ray.io/group": "{part}",
                        "ray.io/identifier": "{name}-worker",
                        "ray.io/is-ray-node": "yes",
                        "ray.io/node-type": "worker",
                    },
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
                PodSet(
                    template="spec.rayClusterSpec",
                    template_of="spec",
                    makes="ray.io/v1 RayCluster",
                    name="{name}-",
                    named_in="status.rayClusterName",
                    inherits=True,
                    labels={"ray.io/originated-from-cr-name": "{name}", "ray.io/originated-from-crd": "RayJob"},
                    when={"spec.clusterSelector": (None,)},
                ),
                PodSet(
                    template="spec.submitterPodTemplate",
                    otherwise=_SUBMITTER,
                    template_of="pod",
                    makes="batch/v1 Job",
                    name="{name}",
                    labels={"ray.io/originated-from-cr-name": "{name}", "ray.io/originated-from-crd": "RayJob"},
                    when={"spec.submissionMode": (None, "K8sJobMode")},
                ),
            ),
        ),
        WorkloadKind(
            group="ray.io",
            kind="RayService",
            suspended="spec.suspend",
            sets=(
                PodSet(
                    template="spec.rayClusterConfig",
                    template_of="spec",
                    makes="ray.io/v1 RayCluster",
                    name="{name}-",
                    named_in="status.activeServiceStatus.rayClusterName",
                    inherits=True,
                    labels={"ray.io/originated-from-cr-name": "{name}", "ray.io/originated-from-crd": "RayService"},
                ),
            ),
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
