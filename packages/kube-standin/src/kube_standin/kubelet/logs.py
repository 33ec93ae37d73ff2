"""The log of a simulated container: when it started and ended. Pure functions over pods.

Refused requests and messages are those of kube-apiserver 1.36 (pod log strategy) and kubelet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from kube_rules import field_errors as fe
from kube_rules.errors import FieldError
from kube_rules.json import Json
from kube_rules.meta import FINISHED
from kube_rules.validation.pod_subresources import name_of_container
from kube_standin import errors
from kube_standin.clock import later, parse_stamp
from kube_standin.numbers import parse_int

_STATUSES = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")


@dataclass(frozen=True)
class LogOptions:
    """The parameters of a log request."""

    container: str = ""
    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    since: datetime | None = None
    tail: int | None = None
    limit: int | None = None


def _number(query: Mapping[str, str], name: str, low: int, why: str, problems: list[FieldError]) -> int | None:
    text = query.get(name, "")
    value = parse_int(text) if text else None
    if value is not None and value < low:
        problems.append(fe.invalid(name, value, why))
    return value


def read_log_options(query: Mapping[str, str], pod: str, now: datetime) -> LogOptions:
    """Return the parameters of a request for a pod's log; raises StatusError (422, 400)."""
    problems: list[FieldError] = []
    tail = _number(query, "tailLines", 0, "must be greater than or equal to 0", problems)
    limit = _number(query, "limitBytes", 1, "must be greater than 0", problems)
    seconds, moment = query.get("sinceSeconds", ""), query.get("sinceTime", "")
    since: datetime | None = None
    if seconds and moment:
        problems.append(fe.forbidden("", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    elif seconds:
        ago = _number(query, "sinceSeconds", 1, "must be greater than 0", problems)
        since = later(now, -(ago or 0))
    elif moment:
        try:
            since = parse_stamp(moment)
        except ValueError:
            raise errors.bad_request(f'parsing time "{moment[:64]}": not an RFC 3339 time') from None
    if problems:
        raise errors.unfit("PodLogOptions", "", pod, *problems)
    flags = {name: query.get(name, "").lower() in ("true", "1") for name in ("follow", "previous", "timestamps")}
    return LogOptions(container=query.get("container", ""), since=since, tail=tail, limit=limit, **flags)


def container_of(pod: Json, requested: str) -> str:
    """Return the name of the requested container; raises StatusError (400) if there is none."""
    name, why = name_of_container(pod.get("spec") or {}, requested)
    if why:
        raise errors.bad_request(why.replace("{pod}", pod["metadata"]["name"]))
    return name


def status_of(pod: Json, container: str) -> Json | None:
    """Return the status of a container of any kind, None if it does not exist yet."""
    status = pod.get("status") or {}
    for part in _STATUSES:
        for entry in status.get(part) or ():
            if entry.get("name") == container:
                container_status: Json = entry
                return container_status
    return None


def log_lines(pod: Json, container: str, *, previous: bool = False) -> list[tuple[str, str]]:
    """Return the lines of a container's log, each with its time; raises StatusError (400) while there is no log."""
    name = pod["metadata"]["name"]
    status = status_of(pod, container)
    state: Json = (status or {}).get("lastState" if previous else "state") or {}
    if previous and "terminated" not in state:
        raise errors.bad_request(f'previous terminated container "{container}" in pod "{name}" not found')
    if not previous and "waiting" in state and (status or {}).get("restartCount"):
        state = (status or {}).get("lastState") or {}
    if not previous and ("waiting" in state or not state):
        reason = (state.get("waiting") or {}).get("reason") or "ContainerCreating"
        raise errors.bad_request(f'container "{container}" in pod "{name}" is waiting to start: {reason}')
    count = (status or {}).get("restartCount", 0) - (1 if previous else 0)
    run = f" (restart {count})" if count > 0 else ""
    ended = state.get("terminated") or {}
    started = (state.get("running") or ended).get("startedAt") or ""
    lines = [(started, f"container {container} started{run}")]
    if ended:
        why = f" ({ended['reason']})" if ended.get("reason") else ""
        lines.append((ended.get("finishedAt") or started, f"container {container} ended with exit code "
                      f"{ended.get('exitCode', 0)}{why}"))  # fmt: skip
    return lines


def is_running(pod: Json, container: str) -> bool:
    """Return whether more lines may follow: the container runs, or waits for its first start."""
    state: Json = (status_of(pod, container) or {}).get("state") or {}
    return "terminated" not in state and (pod.get("status") or {}).get("phase") not in FINISHED


def rendered(lines: list[tuple[str, str]], options: LogOptions) -> bytes:
    """Return lines as the response has them: filtered by time, tailed, with times, cut at the limit."""
    chosen = [(when, text) for when, text in lines if options.since is None or parse_stamp(when) >= options.since]
    if options.tail is not None:
        chosen = chosen[len(chosen) - min(options.tail, len(chosen)) :]
    shown = "".join(f"{f'{when} ' if options.timestamps else ''}{when} {text}\n" for when, text in chosen).encode()
    return shown[: options.limit] if options.limit is not None else shown
