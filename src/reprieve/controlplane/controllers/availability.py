"""When a pod counts as available, and conditions of statuses.

Rule: a pod is available once it has been ready for ``minReadySeconds`` (upstream: podutil.IsPodAvailable).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from reprieve.api.json import Json
from reprieve.controlplane.clock import parse_stamp
from reprieve.controlplane.controllers.views import PodSeen


def available(pods: Iterable[PodSeen], min_ready_seconds: int, now: datetime) -> tuple[int, float | None]:
    """Count available pods; also in how many seconds the next ready one becomes available (None: none will)."""
    count, soonest = 0, None
    for pod in pods:
        if not pod.ready:
            continue
        if not min_ready_seconds or pod.ready_since is None:
            count += 1
            continue
        left = (parse_stamp(pod.ready_since) + timedelta(seconds=min_ready_seconds) - now).total_seconds()
        if left <= 0:
            count += 1
        elif soonest is None or left < soonest:
            soonest = left
    return count, soonest


def condition_of(status: Json, kind: str) -> Json | None:
    """Return a condition by type."""
    for one in status.get("conditions") or ():
        if one.get("type") == kind:
            found: Json = one
            return found
    return None


def put_condition(status: Json, condition: Json, stamp: str, *, update_time: bool = False) -> None:
    """Put a condition in the place of the one of its type; its transition time moves only if its status does.

    ``update_time``: the kind also keeps ``lastUpdateTime`` (Deployment), which moves with reason and message.
    Nothing is touched if nothing changes.
    """
    conditions = status.setdefault("conditions", [])
    for index, present in enumerate(conditions):
        if present.get("type") != condition["type"]:
            continue
        if all(present.get(key) == condition.get(key) for key in ("status", "reason", "message")):
            return
        moved = present.get("status") != condition["status"]
        conditions[index] = {
            **condition,
            "lastTransitionTime": stamp if moved else present.get("lastTransitionTime", stamp),
        }
        if update_time:
            conditions[index]["lastUpdateTime"] = stamp
        return
    added = {**condition, "lastTransitionTime": stamp}
    if update_time:
        added["lastUpdateTime"] = stamp
    conditions.append(added)


def drop_condition(status: Json, kind: str) -> None:
    """Remove a condition by type."""
    kept = [one for one in status.get("conditions") or () if one.get("type") != kind]
    if kept:
        status["conditions"] = kept
    else:
        status.pop("conditions", None)


def scaled(value: Any, total: int, *, up: bool) -> int:
    """Resolve an int-or-percentage against ``total``: ``"25%"`` of 10 is 3 rounded up, 2 rounded down."""
    if isinstance(value, str):
        if not value.endswith("%"):
            raise ValueError(f"{value!r} is neither a number nor a percentage")
        share = int(value[:-1]) * total
        return -(-share // 100) if up else share // 100
    return int(value)
