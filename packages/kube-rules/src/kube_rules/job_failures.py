"""What evictions do to a Job that counts them as failures (whatif.md 15).

Pure: from the plain data of a Job and how often pods of each index of it are evicted.

Source: kube-controller-manager's job controller (`isPodFailed`, `matchPodFailurePolicy`, `exceedsBackoffLimit`): a pod
that is deleted before it succeeded has failed, and it has the condition DisruptionTarget.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kube_rules.job_indexes import JobIndexes
from kube_rules.json import mapping

FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
"""Annotation of a pod of an indexed Job: how often its index has failed before."""
_BACKOFF_LIMIT: Final = 6
_EVICTED: Final = ("DisruptionTarget", "True")
_MOST_NAMED: Final = 10


def end_by_evictions(job: Mapping[str, Any], evicted: Mapping[int | None, int], failures: Mapping[int, int]) -> str:
    """Return what happens to a Job of which pods are evicted, as a sentence; empty if the evictions are made up for.

    `evicted`: how many pods of each index, None where the Job has no indexes. `failures`: how often an index has failed
    before.
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
    """Return what happens to a Job of which indexes fail for good."""
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
    what = f"index {named} fails" if len(failing) == 1 else f"indexes {named} fail"
    return f"its {what} for good (backoffLimitPerIndex {per_index}), and it ends as failed"


def _action(spec: Mapping[str, Any]) -> str:
    """Return what the pod failure policy has for an evicted pod: that of the first rule that matches; `Count` for none.

    Rules for exit codes are passed over: which code an evicted container ends with is not known.
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
