"""The table of pods: what `kubectl get pods` shows."""

from __future__ import annotations

from datetime import datetime

from kube_rules.json import Json
from kube_rules.meta import FINISHED
from kube_standin.conditions import condition_of, is_true
from kube_standin.tables import ages
from kube_standin.tables.columns import AGE, NAME, NONE, Column, text, wide


def _restartable(obj: Json) -> set[str]:
    init = obj.get("spec", {}).get("initContainers", ())
    return {container["name"] for container in init if container.get("restartPolicy") == "Always"}


def _counts(obj: Json) -> tuple[int, int, int, str | None]:
    """Return (ready, all, restarts, time of the last restart) of the containers, sidecars included.

    While init containers hold the pod, restarts are those of the init containers up to the holding one (printPod of
    kubectl).
    """
    sidecars = _restartable(obj)
    total = len(obj.get("spec", {}).get("containers", ())) + len(sidecars)
    status = obj.get("status", {})
    counted = [c for c in status.get("initContainerStatuses", ()) if c.get("name") in sidecars]
    counted += status.get("containerStatuses", ())
    ready = sum(bool(c.get("ready")) and "running" in c.get("state", {}) for c in counted)
    if _initializing(obj)[0] and not is_true(status, "Initialized"):
        holding = next(n for n, c in enumerate(status["initContainerStatuses"]) if not _is_past(c, sidecars))
        counted = status["initContainerStatuses"][: holding + 1]
    restarts = sum(c.get("restartCount", 0) for c in counted)
    ended = [c.get("lastState", {}).get("terminated", {}).get("finishedAt") for c in counted]
    return ready, total, restarts, max(filter(None, ended), default=None)


def _ready(obj: Json, _: datetime) -> str:
    ready, total, _restarts, _last = _counts(obj)
    return f"{ready}/{total}"


def _restarts(obj: Json, now: datetime) -> str:
    _ready_count, _total, restarts, last = _counts(obj)
    return f"{restarts} ({ages.age(last, now)} ago)" if restarts and last else str(restarts)


def status(obj: Json, _: datetime) -> str:
    """Return the state of a pod in a word: its phase, or the reason of a waiting or ended container."""
    state = obj.get("status", {})
    reason: str = state.get("reason") or state.get("phase", "")
    scheduled = condition_of(state, "PodScheduled")
    if scheduled is not None and scheduled.get("reason") == "SchedulingGated":
        reason = "SchedulingGated"
    initializing, word = _initializing(obj)
    reason = word if initializing else _containers_reason(obj, reason)
    if "deletionTimestamp" in obj.get("metadata", {}):
        if state.get("reason") == "NodeLost":
            return "Unknown"
        if state.get("phase") not in FINISHED:
            return "Terminating"
    return reason


def _ended(state: Json) -> str:
    """Return the reason of a container that ended."""
    if state.get("reason"):
        return str(state["reason"])
    if state.get("signal"):
        return f"Signal:{state['signal']}"
    return f"ExitCode:{state.get('exitCode', 0)}"


def _is_past(container: Json, sidecars: set[str]) -> bool:
    """Return whether the pod no longer waits for an init container: it succeeded, or is a running sidecar."""
    state = container.get("state", {})
    if "terminated" in state and state["terminated"].get("exitCode") == 0:
        return True
    return container.get("name") in sidecars and bool(container.get("started"))


def _initializing(obj: Json) -> tuple[bool, str]:
    """Return whether init containers hold the pod, and the status to show for them."""
    init = obj.get("spec", {}).get("initContainers", ())
    sidecars = _restartable(obj)
    for index, container in enumerate(obj.get("status", {}).get("initContainerStatuses", ())):
        if _is_past(container, sidecars):
            continue
        state = container.get("state", {})
        if "terminated" in state:
            return True, "Init:" + _ended(state["terminated"])
        waiting = state.get("waiting", {}).get("reason", "")
        if waiting and waiting != "PodInitializing":
            return True, f"Init:{waiting}"
        return True, f"Init:{index}/{len(init)}"
    return False, ""


def _containers_reason(obj: Json, reason: str) -> str:
    running = False
    for container in reversed(obj.get("status", {}).get("containerStatuses", ())):
        state = container.get("state", {})
        if state.get("waiting", {}).get("reason"):
            reason = state["waiting"]["reason"]
        elif "terminated" in state:
            reason = _ended(state["terminated"])
        elif container.get("ready") and "running" in state:
            running = True
    if reason == "Completed" and running:
        reason = "Running" if is_true(obj.get("status"), "Ready") else "NotReady"
    return reason


def _gates(obj: Json, _: datetime) -> str:
    gates = obj.get("spec", {}).get("readinessGates", ())
    if not gates:
        return NONE
    met = sum(is_true(obj.get("status"), gate.get("conditionType", "")) for gate in gates)
    return f"{met}/{len(gates)}"


def _address(obj: Json, _: datetime) -> str:
    state = obj.get("status", {})
    addresses = state.get("podIPs", ())
    return (addresses[0].get("ip") if addresses else state.get("podIP")) or NONE


COLUMNS = (
    NAME,
    Column("Ready", "The aggregate readiness state of this pod for accepting traffic.", _ready),
    Column("Status", "The aggregate status of the containers in this pod.", status),
    Column(
        "Restarts",
        "The number of times the containers in this pod have been restarted and when the last container in this pod "
        "has restarted.",
        _restarts,
    ),
    AGE,
    wide("IP", "core.v1.PodStatus#podIP", _address),
    wide("Node", "core.v1.PodSpec#nodeName", text("spec.nodeName")),
    wide("Nominated Node", "core.v1.PodStatus#nominatedNodeName", text("status.nominatedNodeName")),
    wide("Readiness Gates", "core.v1.PodSpec#readinessGates", _gates),
)
