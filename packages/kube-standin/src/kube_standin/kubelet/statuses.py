"""The statuses a kubelet reports: of a pod that starts, ends, restarts. Pure functions over manifests.

Field for field what a kubelet 1.36 writes for containers that do nothing; times are RFC 3339 texts.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from datetime import datetime
from enum import Enum

from kube_rules.admission.amounts import Amounts, added, amounts, printed, subtracted
from kube_rules.json import Json
from kube_standin.clock import later, parse_stamp
from kube_standin.conditions import condition_of, drop_condition, is_true, pod_condition, set_condition
from kube_standin.kubelet.settings import init_exit_code_of

KILLED = 137
STOPPED = 143
_CRASHED = "CrashLoopBackOff"
CONFIG_ERROR = "CreateContainerConfigError"
_NONE: Mapping[str, str] = {}
RESIZE_PENDING = "PodResizePending"
RESIZE_PREEMPTION_DISABLED = "PodResizePreemptionDisabled"


def _set(status: Json, kind: str, value: str, stamp: str, reason: str = "", message: str = "") -> None:
    """Set a condition; its time moves only if its status does."""
    present = condition_of(status, kind) or {}
    if present.get("status") == value:
        stamp = present.get("lastTransitionTime") or stamp
    made = pod_condition(kind, value, stamp, reason, message)
    if "observedGeneration" in present:
        made["observedGeneration"] = present["observedGeneration"]
    set_condition(status, made)


def _container_id(pod: Json, name: str, restarts: int) -> str:
    seed = f"{pod['metadata']['uid']}/{name}/{restarts}".encode()
    return f"simulated://{zlib.crc32(seed):08x}{zlib.crc32(seed[::-1]):08x}"


def _container(pod: Json, container: Json, restarts: int, state: Json, *, up: bool) -> Json:
    image = container.get("image", "")
    given = _resources(container)
    allocated = {"allocatedResources": dict(given["requests"])} if "requests" in given else {}
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
        **({"resources": given} if given else {}),
        **allocated,
    }


def _gates_open(pod: Json) -> bool:
    """Return whether the readiness gates of the pod let it be ready."""
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


def start(pod: Json, stamp: str, *, pod_ip: str, host_ip: str, refused: Mapping[str, str] = _NONE) -> None:
    """Change ``pod`` in place: its containers run since ``stamp``; init containers have ended or are sidecars.

    Containers that are ``refused`` (name -> why) wait with the reason CreateContainerConfigError, and the pod is
    Pending meanwhile (interfaces.md 7.8); those that run already go on.
    """
    spec, status = pod.get("spec") or {}, pod.setdefault("status", {})
    _address(pod, stamp, pod_ip, host_ip)
    _set(status, "Initialized", "True", stamp)
    while initialize(pod, stamp) is InitStage.RUNNING:
        pass
    before = {one.get("name"): one for one in status.get("containerStatuses") or ()}
    goes_on = any(_waits_as(one, CONFIG_ERROR) for one in before.values())
    status["containerStatuses"] = made = []
    for container in spec.get("containers") or ():
        name = container["name"]
        if goes_on and "running" in (before.get(name, {}).get("state") or {}):
            made.append(before[name])
        elif name in refused:
            made.append(_held(pod, container, CONFIG_ERROR, refused[name]))
        else:
            made.append(_running(pod, container, stamp))
    status["phase"] = "Pending" if any(_waits_as(one, CONFIG_ERROR) for one in made) else "Running"
    give_whole(pod)
    set_ready(pod, stamp)
    observe(pod, stamp)


def wait_for_volumes(pod: Json, stamp: str, *, host_ip: str) -> None:
    """Change ``pod`` in place: none of its containers can be created before its volumes are there
    (interfaces.md 7.7).
    """
    spec, status = pod.get("spec") or {}, pod.setdefault("status", {})
    status.setdefault("startTime", stamp)
    status["hostIP"], status["hostIPs"] = host_ip, [{"ip": host_ip}]
    _set(status, "PodReadyToStartContainers", "False", stamp)
    first = spec.get("initContainers") or ()
    reason = "PodInitializing" if first else "ContainerCreating"
    if first:
        status["initContainerStatuses"] = [_held(pod, container) for container in first]
        _set_initializing(pod, stamp)
    else:
        _set(status, "Initialized", "True", stamp)
    status["containerStatuses"] = [_held(pod, container, reason) for container in spec.get("containers") or ()]
    set_ready(pod, stamp)
    observe(pod, stamp)


def _set_initializing(pod: Json, stamp: str) -> None:
    spec, status = pod["spec"], pod["status"]
    ended = {one["name"] for one in status["initContainerStatuses"] if one.get("ready")}
    missing = " ".join(one["name"] for one in spec["initContainers"] if one["name"] not in ended)
    text = f"containers with incomplete status: [{missing}]"
    _set(status, "Initialized", "False", stamp, "ContainersNotInitialized", text)


class InitStage(Enum):
    """What the init containers of a pod do."""

    DONE = "done"
    RUNNING = "running"
    FAILED = "failed"
    """One ended with another code than 0, and does not run again."""
    BACKING_OFF = "backing off"
    """One failed more than once and waits to be restarted."""
    REFUSED = "refused"
    """One cannot be created."""


def wait_for_init(pod: Json, stamp: str, *, pod_ip: str, host_ip: str, refused: Mapping[str, str] = _NONE) -> InitStage:
    """Change ``pod`` in place: its init containers run, the next one if one has run (interfaces.md 7.2).

    Returns what they do. ``refused`` as in `start`.
    """
    spec, status = pod.get("spec") or {}, pod.setdefault("status", {})
    stage = initialize(pod, stamp, refused)
    if stage is InitStage.DONE:
        return stage
    _address(pod, stamp, pod_ip, host_ip)
    _set_initializing(pod, stamp)
    status["containerStatuses"] = [_held(pod, container) for container in spec.get("containers") or ()]
    set_ready(pod, stamp)
    observe(pod, stamp)
    return stage


def initialize(pod: Json, stamp: str, refused: Mapping[str, str] = _NONE) -> InitStage:
    """Change ``pod`` in place: the init container that runs ends and the next one runs; returns what they do now.

    A sidecar goes on running, and the next container runs at once. A container that fails (interfaces.md 7.9) is
    restarted, from the second time on after a while.
    """
    containers, status = (pod.get("spec") or {}).get("initContainers") or (), pod.setdefault("status", {})
    if not containers:
        return InitStage.DONE
    if [one.get("name") for one in status.get("initContainerStatuses") or ()] != [one["name"] for one in containers]:
        status["initContainerStatuses"] = [_held(pod, container) for container in containers]
    statuses = status["initContainerStatuses"]
    for index, container in enumerate(containers):
        one = statuses[index]
        state = one.get("state") or {}  # a client may have written anything
        if _is_sidecar(container):
            if "running" not in state and container["name"] in refused:
                statuses[index] = _held(pod, container, CONFIG_ERROR, refused[container["name"]])
                return InitStage.REFUSED
            if "running" not in state:
                statuses[index] = _running(pod, container, stamp)
        elif "running" in state:
            statuses[index], stage = _ended_init(pod, container, one, stamp)
            if stage is not InitStage.DONE:
                return stage
        elif "terminated" not in state and container["name"] in refused:
            statuses[index] = _held(pod, container, CONFIG_ERROR, refused[container["name"]])
            return InitStage.REFUSED
        elif "terminated" not in state:
            statuses[index] = _running_init(pod, container, one, stamp)
            return InitStage.RUNNING
    return InitStage.DONE


def _running_init(pod: Json, container: Json, one: Json, stamp: str) -> Json:
    """Return the status of an init container that runs, again if it failed before."""
    last = one.get("lastState") or {}
    restarts = (one.get("restartCount") or 0) + 1 if "terminated" in last else 0
    made = _container(pod, container, restarts, {"running": {"startedAt": stamp}}, up=False)
    return {**made, "started": True, "lastState": last}


def _ended_init(pod: Json, container: Json, one: Json, stamp: str) -> tuple[Json, InitStage]:
    """Return the status of an init container that has ended, and what that means for the pod."""
    code, restarts = init_exit_code_of(pod["metadata"]), one.get("restartCount") or 0
    since = one["state"]["running"].get("startedAt", stamp)
    ended = {"exitCode": code, "reason": "Error" if code else "Completed", "startedAt": since, "finishedAt": stamp}
    made = _container(pod, container, restarts, {"terminated": ended}, up=False)
    made["lastState"] = one.get("lastState") or {}
    if code == 0:
        return {**made, "ready": True}, InitStage.DONE
    if (pod.get("spec") or {}).get("restartPolicy") == "Never":
        return made, InitStage.FAILED
    made["lastState"] = {"terminated": {**ended, "containerID": made["containerID"]}}
    if restarts == 0:
        return _running_init(pod, container, made, stamp), InitStage.RUNNING
    made["state"] = {"waiting": {"reason": _CRASHED, "message": "back-off restarting failed container"}}
    return made, InitStage.BACKING_OFF


def _is_sidecar(container: Json) -> bool:
    return container.get("restartPolicy") == "Always"


def _held(pod: Json, container: Json, reason: str = "PodInitializing", message: str = "") -> Json:
    """Return the status of a container that has not run yet: it waits, by default for init containers."""
    waiting = {"reason": reason, **({"message": message} if message else {})}
    return {**_container(pod, container, 0, {"waiting": waiting}, up=False), "containerID": "", "imageID": ""}


def _waits_as(one: Json, reason: str) -> bool:
    return ((one.get("state") or {}).get("waiting") or {}).get("reason") == reason


def _running(pod: Json, container: Json, stamp: str) -> Json:
    out = _container(pod, container, 0, {"running": {"startedAt": stamp}}, up=True)
    _probe_anew(container, out)
    return out


def _delays(container: Json) -> tuple[tuple[str, int], tuple[str, int]]:
    """After how many seconds a container has started and is ready: its probes succeed when they are first due."""
    startup, readiness = (
        (container.get(probe) or {}).get("initialDelaySeconds") or 0 for probe in ("startupProbe", "readinessProbe")
    )
    return ("started", startup), ("ready", max(startup, readiness))


def _probe_anew(container: Json, one: Json) -> None:
    for field, delay in _delays(container):
        one[field] = delay == 0


def follow_probes(pod: Json, now: datetime) -> tuple[bool, datetime | None]:
    """Change ``pod`` in place: what the probes of its containers say at a moment (interfaces.md 7.3).

    Returns whether anything changed, and when something will.
    """
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    changed, due = False, None
    for part, statuses in (("containers", "containerStatuses"), ("initContainers", "initContainerStatuses")):
        delayed = {one["name"]: _delays(one) for one in spec.get(part) or () if any(d for _, d in _delays(one))}
        for one in status.get(statuses) or () if delayed else ():
            since = (one.get("state") or {}).get("running")
            if not since:
                continue
            for field, delay in delayed.get(one["name"], ()):
                moment = later(parse_stamp(since["startedAt"]), delay)
                if one.get(field) != (now >= moment):
                    one[field], changed = now >= moment, True
                if moment > now:
                    due = moment if due is None else min(due, moment)
    return changed, due


_REPORTED = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")


def observe(pod: Json, stamp: str) -> bool:
    """Change ``pod`` in place: the kubelet has seen its present spec; returns whether anything changed.

    New ephemeral containers run, containers of another image have been restarted with it, and a resize that fits is
    done. Which generation was seen stands in the status and in the conditions that kubelets report (1.36).
    """
    spec, status = pod.get("spec") or {}, pod.setdefault("status", {})
    changed = _start_ephemeral(pod, spec, status, stamp)
    for part, statuses in (("containers", "containerStatuses"), ("initContainers", "initContainerStatuses")):
        by_name = {one["name"]: one for one in spec.get(part) or ()}
        for one in status.get(statuses) or ():
            container = by_name.get(one["name"], {})
            if "running" in (one.get("state") or {}):
                changed = _follow_image(pod, one, container, stamp) or changed
    generation = pod["metadata"].get("generation")
    if generation and status.get("observedGeneration") != generation:
        status["observedGeneration"] = generation
        changed = True
    for one in status.get("conditions") or ():
        if one.get("type") in _REPORTED and generation and one.get("observedGeneration") != generation:
            one["observedGeneration"] = generation
            changed = True
    return changed


def _start_ephemeral(pod: Json, spec: Json, status: Json, stamp: str) -> bool:
    known = {one["name"] for one in status.get("ephemeralContainerStatuses") or ()}
    new = [one for one in spec.get("ephemeralContainers") or () if one["name"] not in known]
    if new:
        started = [_container(pod, one, 0, {"running": {"startedAt": stamp}}, up=False) for one in new]
        status["ephemeralContainerStatuses"] = [*(status.get("ephemeralContainerStatuses") or ()), *started]
    return bool(new)


def _follow_image(pod: Json, one: Json, container: Json, stamp: str) -> bool:
    """Restart a container with the image of its spec."""
    if one.get("image") == container.get("image", one.get("image")):
        return False
    one["image"] = one["imageID"] = container["image"]
    _restart_one(pod, one, stamp)
    return True


def _restart_one(pod: Json, one: Json, stamp: str) -> None:
    """End a running container and start it again."""
    since = one["state"]["running"].get("startedAt", stamp)
    ended = {"exitCode": 0, "reason": "Completed", "startedAt": since, "finishedAt": stamp}
    one["lastState"] = {"terminated": {**ended, "containerID": one.get("containerID", "")}}
    one["restartCount"] = one.get("restartCount", 0) + 1
    one["containerID"] = _container_id(pod, one["name"], one["restartCount"])
    one["state"] = {"running": {"startedAt": stamp}}


def resizes(pod: Json) -> bool:
    """Return whether containers, or the pod as a whole, have other resources than the spec asks for."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    wanted = {one["name"]: _resources(one) for part in ("containers", "initContainers") for one in spec.get(part) or ()}
    if "resources" in status and status["resources"] != _whole(spec):
        return True
    return any(
        "running" in (one.get("state") or {}) and (one.get("resources") or {}) != wanted.get(one["name"])
        for part in ("containerStatuses", "initContainerStatuses")
        for one in status.get(part) or ()
    )


def given(pod: Json) -> Json:
    """Return the spec with the resources that the running containers have, instead of those that are wanted."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    have = {
        one["name"]: one["resources"]
        for part in ("containerStatuses", "initContainerStatuses")
        for one in status.get(part) or ()
        if one.get("resources") is not None
    }
    parts = {
        part: [{**one, "resources": have.get(one["name"], one.get("resources"))} for one in spec.get(part) or ()]
        for part in ("containers", "initContainers")
    }
    if not status.get("resources"):
        return {**spec, **parts}
    overhead = amounts(spec.get("overhead"))
    return {
        **spec,
        **parts,
        "resources": {which: printed(_less(amounts(had), overhead)) for which, had in status["resources"].items()},
    }


def _whole(spec: Json) -> Json:
    """Return what the pod as a whole asks for, as its status has it: with its overhead."""
    overhead = amounts(spec.get("overhead"))
    return {which: printed(_more(amounts(asked), overhead)) for which, asked in _resources(spec).items()}


def _more(resources: Amounts, overhead: Amounts) -> Amounts:
    return added(resources, {name: one for name, one in overhead.items() if name in resources})


def _less(resources: Amounts, overhead: Amounts) -> Amounts:
    return subtracted(resources, {name: one for name, one in overhead.items() if name in resources})


def give_whole(pod: Json) -> None:
    """Change ``pod`` in place: it has what it asks for as a whole (KEP-5419)."""
    asked = _whole(pod.get("spec") or {})
    if asked:
        pod["status"]["resources"] = asked
        pod["status"]["allocatedResources"] = dict(asked.get("requests") or {})


def resize(pod: Json, stamp: str) -> None:
    """Change ``pod`` in place: its containers get the resources of the spec, restarted where their policy says so."""
    spec, status = pod.get("spec") or {}, pod["status"]
    containers = {one["name"]: one for part in ("containers", "initContainers") for one in spec.get(part) or ()}
    for part in ("containerStatuses", "initContainerStatuses"):
        for one in status.get(part) or ():
            container = containers.get(one["name"])
            if container is None or "running" not in (one.get("state") or {}):
                continue
            before, after = one.get("resources") or {}, _resources(container)
            if before == after:
                continue
            one["resources"], one["allocatedResources"] = after, dict(after.get("requests") or {})
            if _restarts(container, before):
                _restart_one(pod, one, stamp)
    give_whole(pod)
    for kind in (RESIZE_PENDING, RESIZE_PREEMPTION_DISABLED):
        drop_condition(status, kind)


def _resources(container: Json) -> Json:
    given = container.get("resources") or {}
    return {name: dict(given[name]) for name in ("limits", "requests") if given.get(name)}


def _restarts(container: Json, before: Json) -> bool:
    """Return whether the policy of a resource that changes asks for a restart."""
    after = _resources(container)
    policies = {one.get("resourceName"): one.get("restartPolicy") for one in container.get("resizePolicy") or ()}
    return any(
        policies.get(name) == "RestartContainer"
        and any((before.get(part) or {}).get(name) != (after.get(part) or {}).get(name) for part in after)
        for name in ("cpu", "memory")
    )


def defer_resize(pod: Json, stamp: str, reason: str, message: str) -> None:
    """Change ``pod`` in place: its resize waits; ``reason`` is Infeasible or Deferred."""
    present = condition_of(pod["status"], RESIZE_PENDING) or {}
    since = present.get("lastTransitionTime", stamp) if present.get("reason") == reason else stamp
    condition = pod_condition(RESIZE_PENDING, "True", since, reason, message)
    condition["observedGeneration"] = pod["metadata"].get("generation", 0)
    set_condition(pod["status"], condition)


def report_policy(pod: Json, stamp: str, node: Json) -> None:
    """Change ``pod`` in place: whether the policy of its node forbids evictions for its resize (KEP-5836)."""
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
    sidecars = {one["name"] for one in (pod.get("spec") or {}).get("initContainers") or () if _is_sidecar(one)}
    counted = [one for one in status.get("initContainerStatuses") or () if one["name"] in sidecars]
    up = all(one.get("ready") for one in (*(status.get("containerStatuses") or ()), *counted))
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
    """Change ``pod`` in place: its containers ended and do not run again; then its sidecars were stopped."""
    status = pod.setdefault("status", {})
    _end_containers(pod, stamp, exit_code)
    for name, code in (("initContainerStatuses", STOPPED), ("ephemeralContainerStatuses", KILLED)):
        for one in status.get(name) or ():
            if "running" in (one.get("state") or {}):
                since = one["state"]["running"].get("startedAt", stamp)
                ended = {"exitCode": code, "reason": "Error", "startedAt": since, "finishedAt": stamp}
                one["state"] = {"terminated": {**ended, "containerID": one.get("containerID", "")}}
                one["ready"] = one["started"] = False
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
    containers = {one["name"]: one for one in (pod.get("spec") or {}).get("containers") or ()}
    for one in pod["status"].get("containerStatuses") or ():
        if "terminated" in one["state"]:
            one["lastState"] = one["state"]
        one["restartCount"] = one.get("restartCount", 0) + 1
        one["containerID"] = _container_id(pod, one["name"], one["restartCount"])
        one["state"] = {"running": {"startedAt": stamp}}
        _probe_anew(containers.get(one["name"], {}), one)
    set_ready(pod, stamp)


def is_waiting(pod: Json) -> bool:
    """Return whether the containers wait to be restarted."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return any("waiting" in (one.get("state") or {}) for one in statuses)


def refused(pod: Json) -> str | None:
    """Return why a container of a pod that starts cannot be created, or None."""
    status = pod.get("status") or {}
    for one in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        if _waits_as(one, CONFIG_ERROR):
            return str(one["state"]["waiting"].get("message", ""))
    return None


def running_since(pod: Json) -> str | None:
    """Return when the containers of a running pod started last."""
    times = [
        one["state"]["running"].get("startedAt")
        for one in (pod.get("status") or {}).get("containerStatuses") or ()
        if "running" in (one.get("state") or {})
    ]
    known = [time for time in times if time]
    return max(known) if known else (pod.get("status") or {}).get("startTime")
