"""Conditions of statuses: one of each type, with the time of its last transition."""

from __future__ import annotations

from kube_rules.json import Json


def condition_of(status: Json | None, kind: str) -> Json | None:
    """Return a condition by type."""
    for one in (status or {}).get("conditions") or ():
        if one.get("type") == kind:
            found: Json = one
            return found
    return None


def state_of(status: Json | None, kind: str) -> str | None:
    """Return the status of a condition: True, False or Unknown; None if there is no such condition."""
    found = condition_of(status, kind)
    return None if found is None else found.get("status", "")


def is_true(status: Json | None, kind: str) -> bool:
    """Return whether a condition holds."""
    return state_of(status, kind) == "True"


def set_condition(status: Json, condition: Json) -> None:
    """Put ``condition`` in the place of the one of its type, or at the end."""
    conditions = status.setdefault("conditions", [])
    for index, present in enumerate(conditions):
        if present.get("type") == condition["type"]:
            conditions[index] = condition
            return
    conditions.append(condition)


def put_condition(status: Json, condition: Json, stamp: str, *, update_time: bool = False) -> None:
    """Set a condition; its transition time moves only if its status does.

    ``update_time``: the kind also keeps ``lastUpdateTime`` (Deployment), which moves with reason and message.
    Nothing is touched if nothing changes.
    """
    present = condition_of(status, condition["type"]) or {}
    if present and all(present.get(key) == condition.get(key) for key in ("status", "reason", "message")):
        return
    same = present.get("status") == condition["status"]
    made = {**condition, "lastTransitionTime": present.get("lastTransitionTime", stamp) if same else stamp}
    if update_time:
        made["lastUpdateTime"] = stamp
    set_condition(status, made)


def drop_condition(status: Json, kind: str) -> None:
    """Remove a condition by type."""
    kept = [one for one in status.get("conditions") or () if one.get("type") != kind]
    if kept:
        status["conditions"] = kept
    else:
        status.pop("conditions", None)


def condition(kind: str, status: str, reason: str, message: str = "") -> Json:
    """Return a condition that `put_condition` gives its times."""
    return {"type": kind, "status": status, "reason": reason, "message": message}


def pod_condition(kind: str, status: str, stamp: str, reason: str = "", message: str = "") -> Json:
    """Return a condition as pods have it: with a time of probing, and without empty fields."""
    out: Json = {"type": kind, "status": status, "lastProbeTime": None, "lastTransitionTime": stamp}
    return out | ({"reason": reason} if reason else {}) | ({"message": message} if message else {})


def set_disrupted(pod: Json, stamp: str, reason: str, message: str) -> None:
    """Set the condition that something other than the pod itself ends it."""
    status = pod.setdefault("status", {})
    set_condition(status, pod_condition("DisruptionTarget", "True", stamp, reason, message))
