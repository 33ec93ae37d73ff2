"""The effect of evictions on a Job that counts them as failures (whatif.md 15).

Pure: from the plain data of a Job and the number of evicted pods of each index.

Source: kube-controller-manager's job controller (`isPodFailed`, `matchPodFailurePolicy`, `exceedsBackoffLimit`): a pod
that is deleted before it succeeded has failed, with the condition DisruptionTarget.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kube_rules.job_indexes import JobIndexes
from kube_rules.json import mapping
from kube_rules.meta import DISRUPTION_TARGET

FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
"""Annotation of a pod of an indexed Job: the number of earlier failures of its index."""
_BACKOFF_LIMIT: Final = 6
_EVICTED: Final = (DISRUPTION_TARGET, "True")
_MOST_NAMED: Final = 10


def end_by_evictions(job: Mapping[str, Any], evicted: Mapping[int | None, int], failures: Mapping[int, int]) -> str:
    """Return the effect of evictions on a Job, as a sentence; empty if the Job replaces the pods.

    `evicted`: number of evicted pods by index, None if the Job has no indexes. `failures`: number of earlier failures
    by index.
    """
    spec, status = mapping(job.get("spec")), mapping(job.get("status"))
    number = sum(evicted.values())
    action = _action(spec)
    if not number or action == "Ignore":
        return ""
    if action == "FailJob":
        return "its podFailurePolicy makes it fail when a pod of it is evicted (FailJob)"
    per_index = _whole(spec.get("backoffLimitPerIndex"))
    if per_index is not None:
        failing = {
            index: count
            for index, count in evicted.items()
            if index is not None and (action == "FailIndex" or failures.get(index, 0) + count > per_index)
        }
        if failing:
            return _of_indexes(spec, status, sorted(failing), per_index)
    limit = _whole(spec.get("backoffLimit"))
    if limit is None:
        limit = _BACKOFF_LIMIT if per_index is None else None
    uncounted = mapping(status.get("uncountedTerminatedPods")).get("failed")
    before = (_whole(status.get("failed")) or 0) + (len(uncounted) if isinstance(uncounted, list) else 0)
    if limit is None or before + number <= limit:
        return ""
    pods = "1 evicted pod" if number == 1 else f"{number} evicted pods"
    also = f" and {before} failed before" if before else ""
    return f"it fails (BackoffLimitExceeded) and is not run again: {pods}{also}, more than its backoffLimit of {limit}"


def _of_indexes(spec: Mapping[str, Any], status: Mapping[str, Any], failing: list[int], per_index: int) -> str:
    """Return the effect on a Job when indexes fail permanently."""
    most = _whole(spec.get("maxFailedIndexes"))
    text = status.get("failedIndexes")
    failed = JobIndexes(_whole(spec.get("completions")) or 0, text if isinstance(text, str) else "")
    for index in failing:
        failed.add(index)
    if most is not None and len(failed) > most:
        return (
            f"it fails (MaxFailedIndexesExceeded): {len(failed)} indexes fail, more than its maxFailedIndexes of {most}"
        )
    named = ", ".join(map(str, failing[:_MOST_NAMED])) + (", ..." if len(failing) > _MOST_NAMED else "")
    failure = f"index {named} fails" if len(failing) == 1 else f"indexes {named} fail"
    return f"its {failure} for good (backoffLimitPerIndex {per_index}), and it ends as failed"


def _action(spec: Mapping[str, Any]) -> str:
    """Return the action of the first rule of the pod failure policy that matches an eviction, `Count` by default.

    Rules for exit codes are skipped: the exit code of an evicted container is not known.
    """
    rules = mapping(spec.get("podFailurePolicy")).get("rules")
    for rule in rules if isinstance(rules, list) else ():
        conditions = mapping(rule).get("onPodConditions")
        for condition in conditions if isinstance(conditions, list) else ():
            if (mapping(condition).get("type"), mapping(condition).get("status") or "True") == _EVICTED:
                return str(mapping(rule).get("action") or "Count")
    return "Count"


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
