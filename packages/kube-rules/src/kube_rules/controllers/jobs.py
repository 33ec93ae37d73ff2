"""Pods of a Job: how many, of which indexes, and what distinguishes them.

Source: kube-controller-manager's job controller (`wantActivePods`, `firstPendingIndexes`, `manageJob`) and the
strategy of Jobs in kube-apiserver (`generateSelector`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from kube_rules.controllers.pods import PodParts
from kube_rules.job_indexes import JobIndexes

INDEX: Final = "batch.kubernetes.io/job-completion-index"
"""Label and annotation of a pod of an indexed Job."""
JOB_NAME: Final = "batch.kubernetes.io/job-name"
_CONTROLLERS: Final = (None, "", "kubernetes.io/job-controller")


def is_managed(spec: Mapping[str, Any]) -> bool:
    """Return whether the Job controller is the one to make the pods (`managedBy`)."""
    return spec.get("managedBy") in _CONTROLLERS


def job_labels(name: str, uid: str) -> dict[str, str]:
    """Return the labels of a Job's pods; those of the UID are left out if there is none yet."""
    labels = {"batch.kubernetes.io/controller-uid": uid, JOB_NAME: name, "controller-uid": uid, "job-name": name}
    return {key: value for key, value in labels.items() if value}


def pods_wanted(parallelism: int, completions: int | None, succeeded: int, active: int) -> int:
    """Return how many pods should be active; a work queue starts no pod once one has succeeded."""
    if completions is None:
        return active if succeeded else parallelism
    return max(0, min(parallelism, completions - succeeded))


def free_indexes(done: JobIndexes, completions: int, taken: Collection[int | None]) -> Iterator[int]:
    """Yield the indexes that are neither done nor taken by an active pod, lowest first."""
    return (index for index in done.missing(completions) if index not in taken)


def success_rule(policy: Mapping[str, Any], completions: int, done: JobIndexes) -> int | None:
    """Return the position of the first rule of a successPolicy that is met, None if there is none.

    Without an index that succeeded none is met, nor is a rule that names no index below `completions`.
    """
    if not len(done):
        return None
    for position, rule in enumerate(policy.get("rules") or ()):
        text, count = rule.get("succeededIndexes"), rule.get("succeededCount")
        wanted = None if text is None else JobIndexes(completions, text)
        if wanted is not None and not len(wanted):
            continue
        succeeded = len(done) if wanted is None else done.common(wanted)
        least = count if count is not None else 0 if wanted is None else len(wanted)
        if succeeded >= least:
            return position
    return None


def job_pod(name: str, index: int | None) -> PodParts:
    """Return what distinguishes a pod of a Job; `index` is None where the Job has no indexes."""
    if index is None:
        return PodParts(f"{name}-")
    at = {INDEX: str(index)}
    return PodParts(f"{name}-{index}-", at, at, hostname=f"{name}-{index}")
