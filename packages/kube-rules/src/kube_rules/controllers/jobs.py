"""Pods of a Job: their number, their indexes, and their differences from the template.

Source: kube-controller-manager's job controller (`wantActivePods`, `firstPendingIndexes`, `manageJob`) and the strategy
of Jobs in kube-apiserver (`generateSelector`).
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
    """Return whether the Job controller manages the pods (`managedBy`)."""
    return spec.get("managedBy") in _CONTROLLERS


def job_labels(name: str, uid: str) -> dict[str, str]:
    """Return the labels of a Job's pods, without UID labels if there is no UID yet."""
    labels = {"batch.kubernetes.io/controller-uid": uid, JOB_NAME: name, "controller-uid": uid, "job-name": name}
    return {key: value for key, value in labels.items() if value}


def pods_wanted(parallelism: int, completions: int | None, succeeded: int, active: int) -> int:
    """Return the desired number of active pods; a work queue starts no pod once one has succeeded."""
    if completions is None:
        return active if succeeded else parallelism
    return max(0, min(parallelism, completions - succeeded))


def free_indexes(done: JobIndexes, completions: int, active_indexes: Collection[int | None]) -> Iterator[int]:
    """Yield the indexes that are neither done nor active, lowest first."""
    return (index for index in done.missing(completions) if index not in active_indexes)


def success_rule(policy: Mapping[str, Any], completions: int, done: JobIndexes) -> int | None:
    """Return the position of the first matching rule of a successPolicy, or None.

    No rule matches before an index has succeeded; a rule without an index below `completions` never matches.
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
    """Return the differences from the template for a pod of a Job; `index` is None if the Job has no indexes."""
    if index is None:
        return PodParts(f"{name}-")
    at = {INDEX: str(index)}
    return PodParts(f"{name}-{index}-", at, at, hostname=f"{name}-{index}")
