"""Defaults of the kinds that run pods: replica sets, deployments, stateful and daemon sets, jobs."""

from __future__ import annotations

from reprieve.api.json import Json
from reprieve.controlplane.defaulting.plain import persistent_volume_claim
from reprieve.controlplane.defaulting.pods import pod_template

_MAX_INT32 = 2**31 - 1


def replication_controller(obj: Json) -> None:
    """Labels and selector come from the template."""
    spec = obj.setdefault("spec", {})
    labels = spec.get("template", {}).get("metadata", {}).get("labels")
    if labels:
        spec.setdefault("selector", dict(labels))
        obj.setdefault("metadata", {}).setdefault("labels", dict(labels))
    spec.setdefault("replicas", 1)
    pod_template(spec.setdefault("template", {}))


def replica_set(obj: Json) -> None:
    """One replica."""
    spec = obj.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    pod_template(spec.setdefault("template", {}))


def deployment(obj: Json) -> None:
    """A rolling update by quarters, ten old revisions."""
    replica_set(obj)
    spec = obj["spec"]
    strategy = spec.setdefault("strategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)


def stateful_set(obj: Json) -> None:
    """Ordered pods, claims that stay."""
    replica_set(obj)
    spec = obj["spec"]
    spec.setdefault("podManagementPolicy", "OrderedReady")
    strategy = spec.setdefault("updateStrategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        strategy.setdefault("rollingUpdate", {}).setdefault("partition", 0)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    retention.setdefault("whenDeleted", "Retain")
    retention.setdefault("whenScaled", "Retain")
    spec.setdefault("revisionHistoryLimit", 10)
    for claim in spec.get("volumeClaimTemplates", ()):
        claim.setdefault("apiVersion", "v1")
        claim.setdefault("kind", "PersistentVolumeClaim")
        persistent_volume_claim(claim)


def daemon_set(obj: Json) -> None:
    """A rolling update, one node at a time."""
    spec = obj.setdefault("spec", {})
    pod_template(spec.setdefault("template", {}))
    strategy = spec.setdefault("updateStrategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)
    spec.setdefault("revisionHistoryLimit", 10)


def job(obj: Json) -> None:
    """One pod to completion, six retries."""
    spec = obj.setdefault("spec", {})
    _job_spec(spec)
    labels = spec["template"]["metadata"].get("labels")
    if labels:
        obj.setdefault("metadata", {}).setdefault("labels", dict(labels))


def _job_spec(spec: Json) -> None:
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", _MAX_INT32 if "backoffLimitPerIndex" in spec else 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")
    for rule in spec.get("podFailurePolicy", {}).get("rules", ()):
        for pattern in rule.get("onPodConditions", ()):
            pattern.setdefault("status", "True")
    pod_template(spec.setdefault("template", {}))


def cron_job(obj: Json) -> None:
    """Jobs may overlap; three successes and one failure are kept."""
    spec = obj.setdefault("spec", {})
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    inner = spec.setdefault("jobTemplate", {}).setdefault("spec", {})
    pod_template(inner.setdefault("template", {}))


def job_identity(obj: Json) -> None:
    """Selector and pod labels of a Job, from its uid and name, unless `manualSelector` is set."""
    spec, meta = obj["spec"], obj["metadata"]
    if spec.get("manualSelector"):
        return
    uid, name = meta["uid"], meta["name"]
    labels = {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }
    template_labels = spec["template"]["metadata"].setdefault("labels", {})
    for key, value in labels.items():
        template_labels.setdefault(key, value)
    selector = spec.setdefault("selector", {})
    selector.setdefault("matchLabels", {})["batch.kubernetes.io/controller-uid"] = uid


def new_replicas(obj: Json) -> None:
    """Nothing runs yet."""
    obj["status"] = {"replicas": 0}


def new_stateful_set(obj: Json) -> None:
    """Nothing runs yet."""
    obj["status"] = {"replicas": 0, "availableReplicas": 0}


def new_daemon_set(obj: Json) -> None:
    """Nothing runs yet."""
    names = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
    obj["status"] = dict.fromkeys(names, 0)
