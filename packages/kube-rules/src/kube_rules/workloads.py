"""Kinds with controllers that create pods: their names, and facts that their manifest alone shows.

Terms: a pod maker is an object with a pod template from which a controller creates pods - a Deployment, a Job, a
RayCluster. Rule of the table: group and kind decide, never the version.
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
"""API group -> kinds; expanded kinds have a row in `simulation.workloads.table`."""

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
"""Kubernetes kinds without a schema here that contain no pods."""


def group_of(api_version: str) -> str:
    """Return the group of a version: `apps` for `apps/v1`; empty for the core group."""
    return api_version.rpartition("/")[0]


def makes_pods(api_version: str, kind: str) -> bool:
    """Return whether controllers create pods from objects of this kind."""
    return kind in POD_MAKERS.get(group_of(api_version), ())


def nearest_kind(api_version: str, kind: str, schema_kinds: Iterable[tuple[str, str]]) -> str:
    """Return the probable intended kind for a kind that is unknown in this version; empty if none is similar.

    `known`: (apiVersion, kind) of all schemas; the table of pod makers is included.
    """
    versions: dict[str, list[str]] = {}
    for version, name in schema_kinds:
        versions.setdefault(name, []).append(version)
    for kinds in POD_MAKERS.values():
        for name in kinds:
            versions.setdefault(name, [])
    match = kind if versions.get(kind) else nearest(kind, versions)
    known_in = sorted(versions.get(match, ()))
    if match == kind:
        return f'version "{known_in[-1]}"'
    if not known_in or api_version in known_in:
        return f'"{match}"' if match else ""
    return f'"{match}" in version "{known_in[-1]}"'


def templates_in(manifest: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield the pod templates in an object with their paths: maps with a list of `containers` in their `spec`."""
    todo: list[tuple[Path, Any]] = [((), manifest)]
    while todo:
        path, value = todo.pop()
        if isinstance(value, Mapping):
            spec = value.get("spec")
            if path and isinstance(spec, Mapping) and isinstance(spec.get("containers"), list):
                yield path, value
            else:
                todo += [
                    ((*path, name), child) for name, child in reversed(list(value.items())) if isinstance(name, str)
                ]
        elif isinstance(value, list):
            todo += [((*path, index), child) for index, child in reversed(list(enumerate(value)))]


def created_by(scenario: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield the manifests that a Scenario document creates, with their paths; values of the wrong shape are skipped."""
    spec = scenario.get("spec")
    steps = spec.get("steps") if isinstance(spec, Mapping) else None
    for number, step in enumerate(steps if isinstance(steps, list) else ()):
        created = step.get("create") if isinstance(step, Mapping) else None
        for index, manifest in enumerate(created if isinstance(created, list) else ()):
            if isinstance(manifest, Mapping):
                yield ("spec", "steps", number, "create", index), manifest
