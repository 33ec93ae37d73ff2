"""The statuses that a kubelet reports of pods that start, end and restart. Pure functions over manifests.

The fields are those that a kubelet 1.36 writes for idle containers; times are RFC 3339 texts.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from datetime import datetime
from enum import Enum

from kube_rules.admission.amounts import Amounts, added, amounts, printed, subtracted
from kube_rules.defaults.pods import qos_class
from kube_rules.json import Json
from kube_standin.clock import later, parse_stamp
from kube_standin.conditions import condition_of, drop_condition, is_true, pod_condition, set_condition
from kube_standin.kubelet.images import IMAGE_BACKOFF, Refusal, pull_failure
from kube_standin.kubelet.references import CONFIG_ERROR
from kube_standin.kubelet.settings import init_exit_code_of

KILLED = 137
STOPPED = 143
_CRASHED = "CrashLoopBackOff"
_NONE: Mapping[str, Refusal] = {}
_REFUSED = (CONFIG_ERROR, IMAGE_BACKOFF)
RESIZE_PENDING = "PodResizePending"
RESIZE_PREEMPTION_DISABLED = "PodResizePreemptionDisabled"


def _set(status: Json, kind: str, value: str, stamp: str, reason: str = "", message: str = "") -> None:
    """Set a condition; its time changes only with its status."""
    present = condition_of(status, kind) or {}
    if present.get("status") == value:
        stamp = present.get("lastTransitionTime") or stamp
    condition = pod_condition(kind, value, stamp, reason, message)
    if "observedGeneration" in present:
        condition["observedGeneration"] = present["observedGeneration"]
    set_condition(status, condition)


def _container_id(pod: Json, name: str, restarts: int) -> str:
    seed = f"{pod['metadata']['uid']}/{name}/{restarts}".encode()
    return f"simulated://{zlib.crc32(seed):08x}{zlib.crc32(seed[::-1]):08x}"


def _container(pod: Json, container: Json, restarts: int, state: Json, *, up: bool) -> Json:
    image = container.get("image", "")
    granted = _resources(container)
    allocated = {"allocatedResources": dict(granted["requests"])} if "requests" in granted else {}
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
        "resources": granted,
        **allocated,
    }


def _gates_open(pod: Json) -> bool:
    """Return whether the pod's readiness gates let it be ready."""
    gates = (pod.get("spec") or {}).get("readinessGates") or ()
    return all(is_true(pod.get("status"), gate.get("conditionType")) for gate in gates)


def _address(pod: Json, stamp: str, pod_ip: str, host_ip: str) -> None:
    spec, status = pod.get("spec") or {}, pod.setdefault("status", {})
    status.setdefault("startTime", stamp)
    status["hostIP"], status["hostIPs"] = host_ip, [{"ip": host_ip}]
    address = host_ip if spec.get("hostNetwork") else status.get("podIP") or pod_ip
    status["podIP"], status["podIPs"] = address, [{"ip": address}]
    for reason in ("reason", "message"):
        status.pop(reason, None)
    _set(status, "PodReadyToStartContainers", "True", stamp)


def start(pod: Json, stamp: str, *, pod_ip: str, host_ip: str, refused: Mapping[str, Refusal] = _NONE) -> None:
    """Change ``pod`` in place: start its containers at ``stamp``; init containers have ended or are sidecars.

    Containers that are ``refused`` (name -> why) wait, and the pod is Pending meanwhile (interfaces.md 7.8); running
    containers continue.
    """
    spec, status = pod.get("spec") or {}, pod.setdefault("status", {})
    _address(pod, stamp, pod_ip, host_ip)
    _set(status, "Initialized", "True", stamp)
    while initialize(pod, stamp) is InitStage.RUNNING:
        pass
    before = {entry.get("name"): entry for entry in status.get("containerStatuses") or ()}
    resumed = any(_waits_as(entry, *_REFUSED) for entry in before.values())
    status["containerStatuses"] = entries = []
    for container in spec.get("containers") or ():
        name = container["name"]
        if resumed and "running" in (before.get(name, {}).get("state") or {}):
            entries.append(before[name])
        elif name in refused:
            entries.append(_waiting_status(pod, container, *refused[name][:2]))
        else:
            entries.append(_running(pod, container, stamp))
    status["phase"] = "Pending" if any(_waits_as(entry, *_REFUSED) for entry in entries) else "Running"
    set_pod_resources(pod)
    set_ready(pod, stamp)
    observe(pod, stamp)


def wait_for_volumes(pod: Json, stamp: str, *, host_ip: str) -> None:
    """Change ``pod`` in place: its containers wait for its volumes (interfaces.md 7.7)."""
    spec, status = pod.get("spec") or {}, pod.setdefault("status", {})
    status.setdefault("startTime", stamp)
    status["hostIP"], status["hostIPs"] = host_ip, [{"ip": host_ip}]
    _set(status, "PodReadyToStartContainers", "False", stamp)
    first = spec.get("initContainers") or ()
    reason = "PodInitializing" if first else "ContainerCreating"
    if first:
        status["initContainerStatuses"] = [_waiting_status(pod, container) for container in first]
        _set_initializing(pod, stamp)
    else:
        _set(status, "Initialized", "True", stamp)
    status["containerStatuses"] = [_waiting_status(pod, c, reason) for c in spec.get("containers") or ()]
    set_ready(pod, stamp)
    observe(pod, stamp)


def _set_initializing(pod: Json, stamp: str) -> None:
    spec, status = pod["spec"], pod["status"]
    ended = {entry["name"] for entry in status["initContainerStatuses"] if entry.get("ready")}
    missing = " ".join(container["name"] for container in spec["initContainers"] if container["name"] not in ended)
    text = f"containers with incomplete status: [{missing}]"
    _set(status, "Initialized", "False", stamp, "ContainersNotInitialized", text)


class InitStage(Enum):
    """The progress of a pod's init containers."""

    DONE = "done"
    RUNNING = "running"
    FAILED = "failed"
    """A container ended with an exit code other than 0 and does not run again."""
    BACKING_OFF = "backing off"
    """A container failed more than once and waits to be restarted."""
    REFUSED = "refused"
    """A container cannot be created."""


def wait_for_init(
    pod: Json, stamp: str, *, pod_ip: str, host_ip: str, refused: Mapping[str, Refusal] = _NONE
) -> InitStage:
    """Change ``pod`` in place: run its init containers, the next one if one has ended (interfaces.md 7.2).

    Returns their progress. ``refused`` as in `start`.
    """
    spec, status = pod.get("spec") or {}, pod.setdefault("status", {})
    stage = initialize(pod, stamp, refused)
    if stage is InitStage.DONE:
        return stage
    _address(pod, stamp, pod_ip, host_ip)
    _set_initializing(pod, stamp)
    status["containerStatuses"] = [_waiting_status(pod, container) for container in spec.get("containers") or ()]
    set_ready(pod, stamp)
    observe(pod, stamp)
    return stage


def initialize(pod: Json, stamp: str, refused: Mapping[str, Refusal] = _NONE) -> InitStage:
    """Change ``pod`` in place: end its running init container and run the next one; return their progress.

    A sidecar keeps running, and the next container starts at once. A container that fails (interfaces.md 7.9) is
    restarted, from the second time on after a backoff.
    """
    containers, status = (pod.get("spec") or {}).get("initContainers") or (), pod.setdefault("status", {})
    if not containers:
        return InitStage.DONE
    if [c.get("name") for c in status.get("initContainerStatuses") or ()] != [c["name"] for c in containers]:
        status["initContainerStatuses"] = [_waiting_status(pod, container) for container in containers]
    statuses = status["initContainerStatuses"]
    for index, container in enumerate(containers):
        entry = statuses[index]
        state = entry.get("state") or {}  # a client may have written any value
        if _is_sidecar(container):
            if "running" not in state and container["name"] in refused:
                statuses[index] = _waiting_status(pod, container, *refused[container["name"]][:2])
                return InitStage.REFUSED
            if "running" not in state:
                statuses[index] = _running(pod, container, stamp)
        elif "running" in state:
            statuses[index], stage = _ended_init(pod, container, entry, stamp)
            if stage is not InitStage.DONE:
                return stage
        elif "terminated" not in state and container["name"] in refused:
            statuses[index] = _waiting_status(pod, container, *refused[container["name"]][:2])
            return InitStage.REFUSED
        elif "terminated" not in state:
            statuses[index] = _running_init(pod, container, entry, stamp)
            return InitStage.RUNNING
    return InitStage.DONE


def _running_init(pod: Json, container: Json, entry: Json, stamp: str) -> Json:
    """Return the status of a running init container, also of one that failed before."""
    last = entry.get("lastState") or {}
    restarts = (entry.get("restartCount") or 0) + 1 if "terminated" in last else 0
    running = _container(pod, container, restarts, {"running": {"startedAt": stamp}}, up=False)
    return {**running, "started": True, "lastState": last}


def _ended_init(pod: Json, container: Json, entry: Json, stamp: str) -> tuple[Json, InitStage]:
    """Return the status of an ended init container, and the resulting progress."""
    code, restarts = init_exit_code_of(pod["metadata"]), entry.get("restartCount") or 0
    since = entry["state"]["running"].get("startedAt", stamp)
    ended = {"exitCode": code, "reason": "Error" if code else "Completed", "startedAt": since, "finishedAt": stamp}
    ended_entry = _container(pod, container, restarts, {"terminated": ended}, up=False)
    ended_entry["lastState"] = entry.get("lastState") or {}
    if code == 0:
        return {**ended_entry, "ready": True}, InitStage.DONE
    if (pod.get("spec") or {}).get("restartPolicy") == "Never":
        return ended_entry, InitStage.FAILED
    ended_entry["lastState"] = {"terminated": {**ended, "containerID": ended_entry["containerID"]}}
    if restarts == 0:
        return _running_init(pod, container, ended_entry, stamp), InitStage.RUNNING
    ended_entry["state"] = {"waiting": {"reason": _CRASHED, "message": "back-off restarting failed container"}}
    return ended_entry, InitStage.BACKING_OFF


def _is_sidecar(container: Json) -> bool:
    return container.get("restartPolicy") == "Always"


def _waiting_status(pod: Json, container: Json, reason: str = "PodInitializing", message: str = "") -> Json:
    """Return the status of a container that has not run: it waits, by default for init containers."""
    waiting = {"reason": reason, **({"message": message} if message else {})}
    return {**_container(pod, container, 0, {"waiting": waiting}, up=False), "containerID": "", "imageID": ""}


def _waits_as(entry: Json, *reasons: str) -> bool:
    return ((entry.get("state") or {}).get("waiting") or {}).get("reason") in reasons


def _running(pod: Json, container: Json, stamp: str) -> Json:
    out = _container(pod, container, 0, {"running": {"startedAt": stamp}}, up=True)
    _reset_probes(container, out)
    return out


def _delays(container: Json) -> tuple[tuple[str, int], tuple[str, int]]:
    """Return the seconds until a container has started and is ready: probes succeed when they are first due."""
    startup, readiness = (
        (container.get(probe) or {}).get("initialDelaySeconds") or 0 for probe in ("startupProbe", "readinessProbe")
    )
    return ("started", startup), ("ready", max(startup, readiness))


def _reset_probes(container: Json, entry: Json) -> None:
    for field, delay in _delays(container):
        entry[field] = delay == 0


def follow_probes(pod: Json, now: datetime) -> tuple[bool, datetime | None]:
    """Change ``pod`` in place: set the results of its containers' probes at a moment (interfaces.md 7.3).

    Returns whether anything changed, and when the next result changes.
    """
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    changed, due = False, None
    for part, statuses in (("containers", "containerStatuses"), ("initContainers", "initContainerStatuses")):
        delayed = {c["name"]: _delays(c) for c in spec.get(part) or () if any(d for _, d in _delays(c))}
        for entry in status.get(statuses) or () if delayed else ():
            since = (entry.get("state") or {}).get("running")
            if not since:
                continue
            for field, delay in delayed.get(entry["name"], ()):
                moment = later(parse_stamp(since["startedAt"]), delay)
                if entry.get(field) != (now >= moment):
                    entry[field], changed = now >= moment, True
                if moment > now:
                    due = moment if due is None else min(due, moment)
    return changed, due


_REPORTED = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")


def observe(pod: Json, stamp: str) -> bool:
    """Change ``pod`` in place: the kubelet observes its current spec; return whether anything changed.

    New ephemeral containers start, containers with another image are restarted with it, and a resize that fits is
    done. The status and the conditions of kubelets (1.36) state the observed generation.
    """
    spec, status = pod.get("spec") or {}, pod.setdefault("status", {})
    changed = _start_ephemeral(pod, spec, status, stamp)
    for part, statuses in (("containers", "containerStatuses"), ("initContainers", "initContainerStatuses")):
        by_name = {container["name"]: container for container in spec.get(part) or ()}
        for entry in status.get(statuses) or ():
            container = by_name.get(entry["name"], {})
            if "running" in (entry.get("state") or {}) or _waits_as(entry, IMAGE_BACKOFF):
                changed = _follow_image(pod, entry, container, stamp) or changed
    generation = pod["metadata"].get("generation")
    if generation and status.get("observedGeneration") != generation:
        status["observedGeneration"] = generation
        changed = True
    for condition in status.get("conditions") or ():
        if condition.get("type") in _REPORTED and generation and condition.get("observedGeneration") != generation:
            condition["observedGeneration"] = generation
            changed = True
    return changed


def _start_ephemeral(pod: Json, spec: Json, status: Json, stamp: str) -> bool:
    present = {entry["name"] for entry in status.get("ephemeralContainerStatuses") or ()}
    new = [container for container in spec.get("ephemeralContainers") or () if container["name"] not in present]
    if new:
        started = [_container(pod, container, 0, {"running": {"startedAt": stamp}}, up=False) for container in new]
        status["ephemeralContainerStatuses"] = [*(status.get("ephemeralContainerStatuses") or ()), *started]
    return bool(new)


def _follow_image(pod: Json, entry: Json, container: Json, stamp: str) -> bool:
    """Restart a container if its spec has another image; it waits if that cannot be pulled."""
    if entry.get("image") == container.get("image", entry.get("image")) or pod["status"].get("phase") != "Running":
        return False
    entry["image"] = entry["imageID"] = container["image"]
    _restart_container(pod, entry, stamp)
    failure = pull_failure(container["image"])
    if failure is not None:
        entry["state"] = {"waiting": {"reason": failure.reason, "message": failure.message}}
    entry["started"] = entry["ready"] = failure is None
    set_ready(pod, stamp)
    return True


def _restart_container(pod: Json, entry: Json, stamp: str) -> None:
    """End a container, if it runs, and start it again."""
    if "running" in entry["state"]:
        since = entry["state"]["running"].get("startedAt", stamp)
        ended = {"exitCode": 0, "reason": "Completed", "startedAt": since, "finishedAt": stamp}
        entry["lastState"] = {"terminated": {**ended, "containerID": entry.get("containerID", "")}}
        entry["restartCount"] = entry.get("restartCount", 0) + 1
    entry["containerID"] = _container_id(pod, entry["name"], entry["restartCount"])
    entry["state"] = {"running": {"startedAt": stamp}}


def resizes(pod: Json) -> bool:
    """Return whether the pod or its containers have other resources than the spec requests."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    wanted = {c["name"]: _resources(c) for part in ("containers", "initContainers") for c in spec.get(part) or ()}
    if "resources" in status and status["resources"] != _whole(spec):
        return True
    return any(
        "running" in (entry.get("state") or {}) and (entry.get("resources") or {}) != wanted.get(entry["name"])
        for part in ("containerStatuses", "initContainerStatuses")
        for entry in status.get(part) or ()
    )


def granted(pod: Json) -> Json:
    """Return the spec with the resources of the running containers instead of the requested ones."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    have = {
        entry["name"]: entry["resources"]
        for part in ("containerStatuses", "initContainerStatuses")
        for entry in status.get(part) or ()
        if entry.get("resources") is not None
    }
    parts = {
        part: [{**c, "resources": have.get(c["name"], c.get("resources"))} for c in spec.get(part) or ()]
        for part in ("containers", "initContainers")
    }
    if not status.get("resources"):
        return {**spec, **parts}
    overhead = amounts(spec.get("overhead"))
    return {
        **spec,
        **parts,
        "resources": {part: printed(_less(amounts(had), overhead)) for part, had in status["resources"].items()},
    }


def _whole(spec: Json) -> Json:
    """Return the resources that the pod as a whole requests, with its overhead, as its status lists them."""
    overhead = amounts(spec.get("overhead"))
    return {part: printed(_more(amounts(requested), overhead)) for part, requested in _resources(spec).items()}


def _more(resources: Amounts, overhead: Amounts) -> Amounts:
    return added(resources, {name: amount for name, amount in overhead.items() if name in resources})


def _less(resources: Amounts, overhead: Amounts) -> Amounts:
    return subtracted(resources, {name: amount for name, amount in overhead.items() if name in resources})


def set_pod_resources(pod: Json) -> None:
    """Change ``pod`` in place: set the resources of the pod as a whole (KEP-5419)."""
    resources = _whole(pod.get("spec") or {})
    if resources:
        pod["status"]["resources"] = resources
        pod["status"]["allocatedResources"] = dict(resources.get("requests") or {})


def resize(pod: Json, stamp: str) -> None:
    """Change ``pod`` in place: its containers get the resources of the spec, by a restart if a policy requires it."""
    spec, status = pod.get("spec") or {}, pod["status"]
    containers = {c["name"]: c for part in ("containers", "initContainers") for c in spec.get(part) or ()}
    for part in ("containerStatuses", "initContainerStatuses"):
        for entry in status.get(part) or ():
            container = containers.get(entry["name"])
            if container is None or "running" not in (entry.get("state") or {}):
                continue
            before, after = entry.get("resources") or {}, _resources(container)
            if before == after:
                continue
            entry["resources"], entry["allocatedResources"] = after, dict(after.get("requests") or {})
            if _restarts(container, before):
                _restart_container(pod, entry, stamp)
    set_pod_resources(pod)
    for kind in (RESIZE_PENDING, RESIZE_PREEMPTION_DISABLED):
        drop_condition(status, kind)


def _resources(container: Json) -> Json:
    requirements = container.get("resources") or {}
    return {name: dict(requirements[name]) for name in ("limits", "requests") if requirements.get(name)}


def _restarts(container: Json, before: Json) -> bool:
    """Return whether the policy of a changed resource requires a restart."""
    after = _resources(container)
    policies = {entry.get("resourceName"): entry.get("restartPolicy") for entry in container.get("resizePolicy") or ()}
    return any(
        policies.get(name) == "RestartContainer"
        and any((before.get(part) or {}).get(name) != (after.get(part) or {}).get(name) for part in after)
        for name in ("cpu", "memory")
    )


def resize_rank(pod: Json) -> tuple[int, int, str]:
    """Return the rank of a deferred resize on its node: by priority, then QoS class, then the time of the deferral."""
    condition = condition_of(pod["status"], RESIZE_PENDING) or {}
    priority = (pod.get("spec") or {}).get("priority") or 0
    return -priority, int(qos_class(pod) != "Guaranteed"), condition.get("lastTransitionTime") or ""


def defer_resize(pod: Json, stamp: str, reason: str, message: str) -> None:
    """Change ``pod`` in place: defer its resize; ``reason`` is Infeasible or Deferred."""
    present = condition_of(pod["status"], RESIZE_PENDING) or {}
    since = present.get("lastTransitionTime", stamp) if present.get("reason") == reason else stamp
    condition = pod_condition(RESIZE_PENDING, "True", since, reason, message)
    condition["observedGeneration"] = pod["metadata"].get("generation", 0)
    set_condition(pod["status"], condition)


def report_policy(pod: Json, stamp: str, node: Json) -> None:
    """Change ``pod`` in place: report whether its node's policy forbids evictions for its resize (KEP-5836)."""
    policy = (node.get("spec") or {}).get("podPreemptionPolicy") or {}
    if not policy.get("disableResizePreemption"):
        drop_condition(pod["status"], RESIZE_PREEMPTION_DISABLED)
        return
    name = node["metadata"]["name"]
    text = f"Preemption for in-place pod resize is disabled on node '{name}' by preemption policy."
    _set(pod["status"], RESIZE_PREEMPTION_DISABLED, "True", stamp, "PreemptionDisabledByNodePolicy", text)


def set_ready(pod: Json, stamp: str) -> None:
    """Set ContainersReady and Ready from the containers and the readiness gates."""
    status = pod.setdefault("status", {})
    sidecars = {c["name"] for c in (pod.get("spec") or {}).get("initContainers") or () if _is_sidecar(c)}
    counted = [entry for entry in status.get("initContainerStatuses") or () if entry["name"] in sidecars]
    up = all(entry.get("ready") for entry in (*(status.get("containerStatuses") or ()), *counted))
    _set(status, "ContainersReady", "True" if up else "False", stamp, "" if up else "ContainersNotReady")
    gates = _gates_open(pod)
    reason = "" if up and gates else "ContainersNotReady" if not up else "ReadinessGatesNotReady"
    _set(status, "Ready", "True" if up and gates else "False", stamp, reason)


def _end_containers(pod: Json, stamp: str, exit_code: int) -> None:
    status = pod.setdefault("status", {})
    present = {entry["name"]: entry for entry in status.get("containerStatuses") or ()}
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
    """Change ``pod`` in place: end its containers for good; its sidecars stop after them."""
    status = pod.setdefault("status", {})
    _end_containers(pod, stamp, exit_code)
    for name, code in (("initContainerStatuses", STOPPED), ("ephemeralContainerStatuses", KILLED)):
        for entry in status.get(name) or ():
            if "running" in (entry.get("state") or {}):
                since = entry["state"]["running"].get("startedAt", stamp)
                ended = {"exitCode": code, "reason": "Error", "startedAt": since, "finishedAt": stamp}
                entry["state"] = {"terminated": {**ended, "containerID": entry.get("containerID", "")}}
                entry["ready"] = entry["started"] = False
    status["phase"] = "Succeeded" if exit_code == 0 else "Failed"
    reason = "PodCompleted" if exit_code == 0 else "PodFailed"
    _set(status, "PodReadyToStartContainers", "False", stamp)
    _set(status, "Ready", "False", stamp, reason)
    _set(status, "ContainersReady", "False", stamp, reason)


def wait_to_restart(pod: Json, stamp: str, exit_code: int) -> int:
    """Change ``pod`` in place: end its containers, which will run again; return the number of restarts so far."""
    status = pod["status"]
    _end_containers(pod, stamp, exit_code)
    restarts = 0
    for entry in status.get("containerStatuses") or ():
        entry["lastState"] = entry["state"]
        entry["state"] = {"waiting": {"reason": _CRASHED, "message": "back-off restarting failed container"}}
        restarts = max(restarts, entry.get("restartCount", 0))
    set_ready(pod, stamp)
    return restarts


def restart(pod: Json, stamp: str) -> None:
    """Change ``pod`` in place: run its containers again."""
    containers = {container["name"]: container for container in (pod.get("spec") or {}).get("containers") or ()}
    for entry in pod["status"].get("containerStatuses") or ():
        if "terminated" in entry["state"]:
            entry["lastState"] = entry["state"]
        entry["restartCount"] = entry.get("restartCount", 0) + 1
        entry["containerID"] = _container_id(pod, entry["name"], entry["restartCount"])
        entry["state"] = {"running": {"startedAt": stamp}}
        _reset_probes(containers.get(entry["name"], {}), entry)
    set_ready(pod, stamp)


def is_waiting(pod: Json) -> bool:
    """Return whether the containers wait to be restarted."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return any("waiting" in (entry.get("state") or {}) and not _waits_as(entry, IMAGE_BACKOFF) for entry in statuses)


def is_refused(pod: Json) -> bool:
    """Return whether a container of a starting pod cannot be created."""
    status = pod.get("status") or {}
    entries = (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
    return any(_waits_as(entry, *_REFUSED) for entry in entries)


def running_since(pod: Json) -> str | None:
    """Return when the containers of a running pod last started."""
    times = [
        entry["state"]["running"].get("startedAt")
        for entry in (pod.get("status") or {}).get("containerStatuses") or ()
        if "running" in (entry.get("state") or {})
    ]
    start_times = [time for time in times if time]
    return max(start_times) if start_times else (pod.get("status") or {}).get("startTime")
