"""Kinds with controllers that make pods: their names, and what their manifest alone shows.

Terms: a pod maker is an object with a pod template from which some controller makes pods - a Deployment, a Job, a
RayCluster. Rule of the table: the group decides together with the kind, never the version.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from kube_rules.unknown_fields import Path, nearest

POD_MAKERS: Final[Mapping[str, tuple[str, ...]]] = {
    "": ("ReplicationController", "PodTemplate"),
    "apps": ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"),
    "extensions": ("Deployment", "ReplicaSet", "DaemonSet"),
    "batch": ("Job", "CronJob"),
    "jobset.x-k8s.io": ("JobSet",),
    "leaderworkerset.x-k8s.io": ("LeaderWorkerSet", "DisaggregatedSet"),
    "kubeflow.org": ("PyTorchJob", "TFJob", "MPIJob", "XGBoostJob", "PaddleJob", "MXJob", "JAXJob"),
    "trainer.kubeflow.org": ("TrainJob",),
    "ray.io": ("RayCluster", "RayJob", "RayService", "RayCronJob"),
    "batch.volcano.sh": ("Job", "CronJob"),
    "flow.volcano.sh": ("JobFlow", "JobTemplate"),
    "sparkoperator.k8s.io": ("SparkApplication", "ScheduledSparkApplication"),
    "workload.codeflare.dev": ("AppWrapper",),
    "grove.io": ("PodCliqueSet", "PodClique", "PodCliqueScalingGroup"),
    "argoproj.io": ("Workflow", "CronWorkflow", "Rollout"),
    "tekton.dev": ("TaskRun", "PipelineRun"),
    "serving.knative.dev": ("Service", "Configuration", "Revision"),
    "serving.kserve.io": ("InferenceService", "LLMInferenceService"),
    "apps.kruise.io": ("CloneSet", "StatefulSet", "DaemonSet", "BroadcastJob", "AdvancedCronJob", "UnitedDeployment"),
}
"""API group -> kinds; those that are expanded have a row in `simulation.workloads.table`."""

WITHOUT_PODS: Final[Mapping[str, tuple[str, ...]]] = {
    "": ("ComponentStatus", "PodStatusResult", "RangeAllocation"),
    "admissionregistration.k8s.io": (
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "MutatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
    ),
    "apiregistration.k8s.io": ("APIService",),
    "autoscaling": ("HorizontalPodAutoscaler",),
    "certificates.k8s.io": ("ClusterTrustBundle", "PodCertificateRequest"),
    "flowcontrol.apiserver.k8s.io": ("FlowSchema", "PriorityLevelConfiguration"),
    "kustomize.config.k8s.io": ("Component", "Kustomization"),
    "metrics.k8s.io": ("NodeMetrics", "PodMetrics"),
    "networking.k8s.io": ("IPAddress", "ServiceCIDR"),
    "policy": ("PodSecurityPolicy",),
    "resource.k8s.io": ("ResourcePoolStatusRequest",),
    "storagemigration.k8s.io": ("StorageVersionMigration",),
}
"""Kinds of Kubernetes for which there is no schema here and which hold no pods."""


def group_of(api_version: str) -> str:
    """`apps` of `apps/v1`; empty for the core group."""
    return api_version.rpartition("/")[0]


def makes_pods(api_version: str, kind: str) -> bool:
    """Return whether objects of this kind are there to have pods made of them."""
    return kind in POD_MAKERS.get(group_of(api_version), ())


def nearest_kind(api_version: str, kind: str, known: Iterable[tuple[str, str]]) -> str:
    """Return what was probably meant by a kind that is not known in this version; empty if nothing is near.

    `known`: (apiVersion, kind) of what there are schemas of; the table of pod makers is known as well.
    """
    versions: dict[str, list[str]] = {}
    for version, name in known:
        versions.setdefault(name, []).append(version)
    for kinds in POD_MAKERS.values():
        for name in kinds:
            versions.setdefault(name, [])
    found = kind if versions.get(kind) else nearest(kind, versions)
    known_in = sorted(versions.get(found, ()))
    if found == kind:
        return f'version "{known_in[-1]}"'
    if not known_in or api_version in known_in:
        return f'"{found}"' if found else ""
    return f'"{found}" in version "{known_in[-1]}"'


def templates_in(manifest: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield what looks like a pod template in an object, with its path: a map with a list of `containers` in its
    `spec`.
    """
    todo: list[tuple[Path, Any]] = [((), manifest)]
    while todo:
        path, value = todo.pop()
        if isinstance(value, Mapping):
            spec = value.get("spec")
            if path and isinstance(spec, Mapping) and isinstance(spec.get("containers"), list):
                yield path, value
            else:
                todo += [((*path, name), each) for name, each in reversed(list(value.items())) if isinstance(name, str)]
        elif isinstance(value, list):
            todo += [((*path, index), each) for index, each in reversed(list(enumerate(value)))]


def created_by(scenario: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield the manifests that a Scenario document creates, with their paths; what has the wrong shape is passed
    over.
    """
    spec = scenario.get("spec")
    steps = spec.get("steps") if isinstance(spec, Mapping) else None
    for number, step in enumerate(steps if isinstance(steps, list) else ()):
        created = step.get("create") if isinstance(step, Mapping) else None
        for index, manifest in enumerate(created if isinstance(created, list) else ()):
            if isinstance(manifest, Mapping):
                yield ("spec", "steps", number, "create", index), manifest
