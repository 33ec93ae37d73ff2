"""When a pod counts as available, and how a status lists counts.

Rule: a pod is available once it has been ready for ``minReadySeconds`` (upstream: podutil.IsPodAvailable).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from kube_rules.json import Json
from kube_standin.clock import later, parse_stamp
from kube_standin.controllers.views import PodView


def available(pods: Iterable[PodView], min_ready_seconds: int, now: datetime) -> tuple[int, float | None]:
    """Return the number of available pods, and the seconds until the next ready pod is available (None: never)."""
    count, soonest = 0, None
    for pod in pods:
        if not pod.ready:
            continue
        if not min_ready_seconds or pod.ready_since is None:
            count += 1
            continue
        left = (later(parse_stamp(pod.ready_since), min_ready_seconds) - now).total_seconds()
        if left <= 0:
            count += 1
        elif soonest is None or left < soonest:
            soonest = left
    return count, soonest


def put_counts(status: Json, counts: Mapping[str, int]) -> None:
    """Write counts into a status; zeros are omitted."""
    for name, count in counts.items():
        if count:
            status[name] = count
        else:
            status.pop(name, None)
