"""Failures of a Job's pods: podFailurePolicy, exit codes, the backoff before the next try.

Rules: upstream's job controller (pod_failure_policy.go, backoff_utils.go): the first rule that matches decides; without
a match a failure counts. The backoff doubles from 10 s to 10 min with every failure.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, NamedTuple

from kube_rules.json import Json
from kube_standin.clock import later, parse_stamp
from kube_standin.conditions import state_of

Action = Literal["Count", "Ignore", "FailIndex", "FailJob"]

FIRST_WAIT = 10.0
LONGEST_WAIT = 600.0


class FailureVerdict(NamedTuple):
    """The consequence of a failure; ``why`` is the message of the Job's condition if the Job fails at once."""

    action: Action
    why: str = ""


def _exit_codes(pod: Json) -> list[tuple[str, int]]:
    """Return (container, exit code) of every terminated container."""
    status = pod.get("status") or {}
    exit_codes: list[tuple[str, int]] = []
    for part in ("containerStatuses", "initContainerStatuses"):
        for container_status in status.get(part) or ():
            ended = (container_status.get("state") or {}).get("terminated")
            if ended is not None:
                exit_codes.append((container_status.get("name", ""), ended.get("exitCode", 0)))
    return exit_codes


def judge(job: Json, pod: Json) -> FailureVerdict:
    """Return the verdict of the Job's podFailurePolicy about a failed pod (both manifests)."""
    rules = (job["spec"].get("podFailurePolicy") or {}).get("rules") or ()
    metadata = pod["metadata"]
    name = f"{metadata['namespace']}/{metadata['name']}"
    for position, rule in enumerate(rules):
        action = rule.get("action", "Count")
        codes = rule.get("onExitCodes")
        matched = ""
        if codes is not None:
            values, inside = set(codes.get("values") or ()), codes.get("operator", "In") == "In"
            wanted = codes.get("containerName")
            for container, code in _exit_codes(pod):
                if code and (wanted in (None, "", container)) and (code in values) == inside:
                    matched = f"Container {container} for pod {name} failed with exit code {code}"
                    break
        elif pod_condition := _has_condition(pod, rule.get("onPodConditions") or ()):
            matched = f"Pod {name} has condition {pod_condition}"
        if matched:
            if action == "FailJob":
                return FailureVerdict("FailJob", f"{matched} matching {action} rule at index {position}")
            return FailureVerdict(action if action in ("Ignore", "FailIndex") else "Count")
    return FailureVerdict("Count")


def _has_condition(pod: Json, patterns: Any) -> str:
    for pattern in patterns:
        if state_of(pod.get("status"), pattern.get("type", "")) == pattern.get("status", "True"):
            return str(pattern["type"])
    return ""


def finished_at(pod: Json, now: datetime) -> datetime:
    """Return when the last container of a finished pod ended, else when the pod was deleted, else `now`."""
    ends: list[datetime] = []
    for container_status in (pod.get("status") or {}).get("containerStatuses") or ():
        ended = (container_status.get("state") or {}).get("terminated") or {}
        if ended.get("finishedAt"):
            ends.append(parse_stamp(ended["finishedAt"]))
    if ends:
        return max(ends)
    deleted = pod["metadata"].get("deletionTimestamp")
    return min(now, parse_stamp(deleted)) if deleted else now


def next_try(last_failure: datetime, failures: int) -> datetime:
    """Return when the next pod may be created after ``failures`` consecutive failures."""
    wait = min(FIRST_WAIT * 2 ** min(failures - 1, 10), LONGEST_WAIT)
    return later(last_failure, wait)
