"""The statuses a kubelet reports: of a pod that starts, ends, restarts. Pure functions over manifests.

Field for field what a kubelet 1.36 writes for containers that do nothing; times are RFC 3339 texts.
"""

from __future__ import annotations

import zlib

from kube_rules.json import Json
from kube_standin.conditions import condition_of, is_true, pod_condition, set_condition

KILLED = 137
STOPPED = 143
_CRASHED = "CrashLoopBackOff"


def _set(status: Json, kind: str, value: str, stamp: str, reason: str = "") -> None:
    """Set a condition; its time moves only if its status does."""
    present = condition_of(status, kind) or {}
    if present.get("status") == value:
        stamp = present.get("lastTransitionTime") or stamp
    set_condition(status, pod_condition(kind, value, stamp, reason))


def _container_id(pod: Json, name: str, restarts: int) -> str:
    seed = f"{pod['metadata']['uid']}/{name}/{restarts}".encode()
    return f"simulated://{zlib.crc32(seed):08x}{zlib.crc32(seed[::-1]):08x}"


def _container(pod: Json, container: Json, restarts: int, state: Json, *, up: bool) -> Json:
    image = container.get("image", "")
    return {
        "name": container["name"],
        "image": image,
        "imageID": image,
        "containerID": _container_id(pod, container["name"], restarts),
        "ready": up,
        "started": up,
        "restartCount": restarts,
        "state": state,
        "lastState": {},
    }


def _gates_open(pod: Json) -> bool:
    """Whether the readiness gates of the pod let it be ready."""
    gates = (pod.get("spec") or {}).get("readinessGates") or ()
    return all(is_true(pod.get("status"), gate.get("conditionType")) for gate in gates)


def start(pod: Json, stamp: str, *, pod_ip: str, host_ip: str) -> None:
    """Change ``pod`` in place: its containers run since ``stamp``."""
    spec, status = pod.get("spec") or {}, pod.setdefault("status", {})
    status["phase"] = "Running"
    status.setdefault("startTime", stamp)
    status["hostIP"], status["hostIPs"] = host_ip, [{"ip": host_ip}]
    address = host_ip if spec.get("hostNetwork") else status.get("podIP") or pod_ip
    status["podIP"], status["podIPs"] = address, [{"ip": address}]
    for reason in ("reason", "message"):
        status.pop(reason, None)
    _set(status, "PodReadyToStartContainers", "True", stamp)
    _set(status, "Initialized", "True", stamp)
    running = {"running": {"startedAt": stamp}}
    status["containerStatuses"] = [
        _container(pod, container, 0, dict(running), up=True) for container in spec.get("containers") or ()
    ]
    before = [_initial(pod, container, stamp) for container in spec.get("initContainers") or ()]
    if before:
        status["initContainerStatuses"] = before
    set_ready(pod, stamp)
    if pod["metadata"].get("generation"):
        status["observedGeneration"] = pod["metadata"]["generation"]


def _initial(pod: Json, container: Json, stamp: str) -> Json:
    if container.get("restartPolicy") == "Always":
        return _container(pod, container, 0, {"running": {"startedAt": stamp}}, up=True)
    ended = {"exitCode": 0, "reason": "Completed", "startedAt": stamp, "finishedAt": stamp}
    out = _container(pod, container, 0, {"terminated": ended}, up=False)
    out["ready"] = True
    return out


def set_ready(pod: Json, stamp: str) -> None:
    """Set ContainersReady and Ready from the containers and the readiness gates."""
    status = pod.setdefault("status", {})
    up = all(one.get("ready") for one in status.get("containerStatuses") or ())
    _set(status, "ContainersReady", "True" if up else "False", stamp, "" if up else "ContainersNotReady")
    gates = _gates_open(pod)
    reason = "" if up and gates else "ContainersNotReady" if not up else "ReadinessGatesNotReady"
    _set(status, "Ready", "True" if up and gates else "False", stamp, reason)


def _end_containers(pod: Json, stamp: str, exit_code: int) -> None:
    status = pod.setdefault("status", {})
    present = {one["name"]: one for one in status.get("containerStatuses") or ()}
    ended = []
    for container in (pod.get("spec") or {}).get("containers") or ():
        old = present.get(container["name"])
        if old is None:
            continue
        if "running" in (old.get("state") or {}):
            state = {
                "exitCode": exit_code,
                "reason": "Completed" if exit_code == 0 else "Error",
                "startedAt": old["state"]["running"].get("startedAt", stamp),
                "finishedAt": stamp,
                "containerID": old.get("containerID", ""),
            }
            old = {**old, "ready": False, "started": False, "state": {"terminated": state}}
        ended.append(old)
    if ended:
        status["containerStatuses"] = ended


def finish(pod: Json, stamp: str, exit_code: int) -> None:
    """Change ``pod`` in place: its containers ended and do not run again."""
    status = pod.setdefault("status", {})
    _end_containers(pod, stamp, exit_code)
    status["phase"] = "Succeeded" if exit_code == 0 else "Failed"
    reason = "PodCompleted" if exit_code == 0 else "PodFailed"
    _set(status, "PodReadyToStartContainers", "False", stamp)
    _set(status, "Ready", "False", stamp, reason)
    _set(status, "ContainersReady", "False", stamp, reason)


def wait_to_restart(pod: Json, stamp: str, exit_code: int) -> int:
    """Change ``pod`` in place: its containers ended and will run again; returns how often they have been."""
    status = pod["status"]
    _end_containers(pod, stamp, exit_code)
    restarts = 0
    for one in status.get("containerStatuses") or ():
        one["lastState"] = one["state"]
        one["state"] = {"waiting": {"reason": _CRASHED, "message": "back-off restarting failed container"}}
        restarts = max(restarts, one.get("restartCount", 0))
    set_ready(pod, stamp)
    return restarts


def restart(pod: Json, stamp: str) -> None:
    """Change ``pod`` in place: its containers run again."""
    for one in pod["status"].get("containerStatuses") or ():
        if "terminated" in one["state"]:
            one["lastState"] = one["state"]
        one["restartCount"] = one.get("restartCount", 0) + 1
        one["containerID"] = _container_id(pod, one["name"], one["restartCount"])
        one["state"] = {"running": {"startedAt": stamp}}
        one["ready"] = one["started"] = True
    set_ready(pod, stamp)


def is_waiting(pod: Json) -> bool:
    """Whether the containers wait to be restarted."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return any("waiting" in (one.get("state") or {}) for one in statuses)


def running_since(pod: Json) -> str | None:
    """Return when the containers of a running pod started last."""
    times = [
        one["state"]["running"].get("startedAt")
        for one in (pod.get("status") or {}).get("containerStatuses") or ()
        if "running" in (one.get("state") or {})
    ]
    known = [time for time in times if time]
    return max(known) if known else (pod.get("status") or {}).get("startTime")
