"""Conditions of statuses: one of each type, with the time of its last transition."""

from __future__ import annotations

from kube_rules.json import Json
from kube_rules.meta import DISRUPTION_TARGET


def condition_of(status: Json | None, kind: str) -> Json | None:
    """Return a condition by type."""
    for condition in (status or {}).get("conditions") or ():
        if condition.get("type") == kind:
            result: Json = condition
            return result
    return None


def state_of(status: Json | None, kind: str) -> str | None:
    """Return the status of a condition: True, False or Unknown; None if there is no such condition."""
    condition = condition_of(status, kind)
    return None if condition is None else condition.get("status", "")


def is_true(status: Json | None, kind: str) -> bool:
    """Return whether a condition is true."""
    return state_of(status, kind) == "True"


def set_condition(status: Json, condition: Json) -> None:
    """Replace the condition of the same type with ``condition``, or append it."""
    conditions = status.setdefault("conditions", [])
    for index, present in enumerate(conditions):
        if present.get("type") == condition["type"]:
            conditions[index] = condition
            return
    conditions.append(condition)


def put_condition(status: Json, condition: Json, stamp: str, *, update_time: bool = False) -> None:
    """Set a condition; its transition time changes only if its status does.

    ``update_time``: the kind also has ``lastUpdateTime`` (Deployment), which changes with reason and message. An
    unchanged condition is not written.
    """
    present = condition_of(status, condition["type"]) or {}
    if present and all(present.get(key) == condition.get(key) for key in ("status", "reason", "message")):
        return
    same = present.get("status") == condition["status"]
    updated = {**condition, "lastTransitionTime": present.get("lastTransitionTime", stamp) if same else stamp}
    if update_time:
        updated["lastUpdateTime"] = stamp
    set_condition(status, updated)


def drop_condition(status: Json, kind: str) -> None:
    """Remove a condition by type."""
    remaining = [condition for condition in status.get("conditions") or () if condition.get("type") != kind]
    if remaining:
        status["conditions"] = remaining
    else:
        status.pop("conditions", None)


def condition(kind: str, status: str, reason: str, message: str = "") -> Json:
    """Return a condition without times, which `put_condition` sets."""
    return {"type": kind, "status": status, "reason": reason, "message": message}


def pod_condition(kind: str, status: str, stamp: str, reason: str = "", message: str = "") -> Json:
    """Return a condition in the form of pods: with a probe time, and without empty fields."""
    out: Json = {"type": kind, "status": status, "lastProbeTime": None, "lastTransitionTime": stamp}
    return out | ({"reason": reason} if reason else {}) | ({"message": message} if message else {})


def set_disrupted(pod: Json, stamp: str, reason: str, message: str) -> None:
    """Set the DisruptionTarget condition of a pod that is terminated from outside."""
    status = pod.setdefault("status", {})
    set_condition(status, pod_condition(DISRUPTION_TARGET, "True", stamp, reason, message))
