"""The life of pods on simulated nodes: bound, started, ended, restarted, stopped, removed.

The stored state of a pod alone decides its next step and when it happens, so a restarted server continues. There is at
most one appointment per pod; it is recreated whenever the pod changes, and kept only if the pod is still in the state
that it was made for. Writes go directly to the store, many in one transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from kube_rules.admission.amounts import Amounts, added, amounts, highest, of_pod, subtracted
from kube_rules.json import Json
from kube_rules.meta import FINISHED
from kube_standin.clock import later, parse_stamp
from kube_standin.controllers.podgc import index_nodes
from kube_standin.controllers.reconciler import Context
from kube_standin.controllers.views import Key, PodView
from kube_standin.kubelet import ports, statuses
from kube_standin.kubelet.fleet import Fleet, address
from kube_standin.kubelet.images import pull_failures
from kube_standin.kubelet.references import ConfigReferences, MissingConfig
from kube_standin.kubelet.settings import (
    RUN_SECONDS,
    START_SECONDS,
    STOP_SECONDS,
    KubeletOptions,
    exit_code_of,
    init_exit_code_of,
    seconds_of,
    sleep_before_stop,
)
from kube_standin.kubelet.statuses import InitStage
from kube_standin.storage import StoredObject

_FIRST_BACKOFF = 10.0
_LONGEST_BACKOFF = 300.0
_RESIZE_RETRY = 10.0
_OTHER_SYSTEM = ("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS")
_DEADLINE = "Pod was active on the node longer than the specified deadline"


class PodLife:
    """The simulated kubelets of all nodes of the fleet."""

    def __init__(self, context: Context, options: KubeletOptions) -> None:
        self._context = context
        self._options = options
        self._pods = context.sources.pods
        index_nodes(self._pods)
        self._appointments: dict[Key, int] = {}
        self._deferred: dict[str, set[Key]] = {}
        """By node: pods with a resize that waits for free resources."""
        self._count = 0
        self._next_address = 1
        self._next_start = 0.0
        self._stopped = False
        self._references = ConfigReferences(context, self._wake)
        self.fleet = Fleet(context, options, self._node_up)

    def begin(self) -> None:
        """Create the nodes and adopt every existing pod."""
        self.fleet.make()
        self._pods.add_handler(self._pod_changed)
        self.fleet.start()

    def stop(self) -> None:
        """Stop; no appointment is kept after this."""
        self._stopped = True
        self.fleet.stop()

    # -- appointments

    def _node_up(self, node: str) -> None:
        for pod in self._pods.by("node", node):
            self._plan(pod)

    def _pod_changed(self, old: PodView | None, new: PodView | None) -> None:
        if old is not None and old.node in self._deferred:
            same = new is not None and new.metadata.generation == old.metadata.generation
            if not same or (new is not None and new.finished):
                self._retry_resizes(old.node)
        if new is None:
            if old is not None:
                self._appointments.pop(old.key, None)
                self._references.forget(old.key)
            return
        if not self.fleet.is_up(new.node):
            return
        if old is not None and old.node == new.node:
            same = (old.phase, old.metadata.deletion_timestamp) == (new.phase, new.metadata.deletion_timestamp)
            unchanged = (old.ready, old.open_gates, old.metadata.generation) == (
                new.ready,
                new.open_gates,
                new.metadata.generation,
            )
            if same and unchanged:
                return
        self._plan(new)

    def _meet(self, key: Key, moment: datetime, act: Callable[[StoredObject, Json], None]) -> None:
        """Call ``act`` with the pod at ``moment``, unless another appointment is made before."""
        self._count += 1
        number = self._count
        self._appointments[key] = number

        def keep() -> None:
            if self._appointments.get(key) != number or self._stopped:
                return
            del self._appointments[key]
            state = self._context.registry.store.head("pods", *key)
            if state is None:
                return
            body = state.decode()
            if self.fleet.is_up((body.get("spec") or {}).get("nodeName", "")):
                act(state, body)

        self._context.timers.at(moment, keep)

    def _plan(self, pod: PodView) -> None:
        """Make the next appointment of a pod."""
        if pod.terminating:
            self._plan_stop(pod)
        elif pod.finished:
            self._appointments.pop(pod.key, None)
        elif pod.phase == "Pending":
            self._meet(pod.key, self._start_moment(pod), self._start)
        else:
            self._meet(pod.key, self._context.now(), self._plan_running)

    def _start_moment(self, pod: PodView) -> datetime:
        state = self._context.registry.store.head("pods", *pod.key)
        annotated = state is not None and START_SECONDS.encode() in state.raw
        return self._start_moment_of(state.decode() if state is not None and annotated else None)

    def _start_moment_of(self, pod: Json | None) -> datetime:
        own = seconds_of(pod["metadata"], START_SECONDS) if pod is not None else None
        delay = own if own is not None else self._options.start_seconds
        moment = later(self._context.now(), delay)
        rate = self._options.starts_per_second
        if rate is not None:
            earliest = max(self._next_start, moment.timestamp())
            self._next_start = earliest + 1 / rate
            moment = later(moment, earliest - moment.timestamp())
        return moment

    # -- steps

    def _start(self, state: StoredObject, pod: Json) -> None:
        metadata = pod["metadata"]
        if (pod.get("status") or {}).get("phase") != "Pending" or metadata.get("deletionTimestamp"):
            return
        own = (pod.get("status") or {}).get("podIP") or ""
        host, stamp = self.fleet.address(pod["spec"]["nodeName"]), self._context.stamp()
        lacks = self._references.missing(pod)
        if not own:
            if (why := self._rejection(state.key, pod)) is not None:
                pod.setdefault("status", {}).update(phase="Failed", reason=why[0], message=why[1])
                statuses.observe(pod, stamp)
                self._context.put(state, pod)
                return
            if lacks.volume is not None:
                volume, text = lacks.volume
                statuses.wait_for_volumes(pod, stamp, host_ip=host)
                self._await_config(
                    state, pod, lacks, "FailedMount", f'MountVolume.SetUp failed for volume "{volume}" : {text}'
                )
                return
            own = address(self._options.addresses[0], self._next_address)
            self._next_address += 1
        self._run(state, pod, lacks, own, host)

    def _run(self, state: StoredObject, pod: Json, lacks: MissingConfig, own: str, host: str) -> None:
        """Run the parts of a pod that can run once it has its volumes: its next init container, or its containers."""
        stamp = self._context.stamp()
        refused = {**lacks.refusals(), **pull_failures(pod["spec"])}
        match statuses.wait_for_init(pod, stamp, pod_ip=own, host_ip=host, refused=refused):
            case InitStage.DONE:
                statuses.start(pod, stamp, pod_ip=own, host_ip=host, refused=refused)
            case InitStage.RUNNING:
                self._meet_or_exceed(state.key, pod, self._start_moment_of(pod))
            case InitStage.BACKING_OFF:
                self._meet_or_exceed(state.key, pod, self._restart_moment(pod, "initContainerStatuses"))
            case InitStage.FAILED:
                statuses.finish(pod, stamp, init_exit_code_of(pod["metadata"]))
        if statuses.is_refused(pod):
            self._await_config(state, pod, lacks, "Failed", next(iter(refused.values())).event)
        else:
            self._context.put(state, pod)

    def _rejection(self, key: Key, pod: Json) -> tuple[str, str] | None:
        """Return the reason and message with which the kubelet of a node rejects a pod (interfaces.md 7.5, 7.6)."""
        spec, store = pod["spec"], self._context.registry.store
        system = (spec.get("os") or {}).get("name")
        if system:
            node = store.head("nodes", "", spec["nodeName"])
            info = ((node.decode().get("status") or {}).get("nodeInfo") or {}) if node is not None else {}
            if system != info.get("operatingSystem", system):
                return _OTHER_SYSTEM
        own = ports.wanted(pod)
        if not own:
            return None
        neighbours = (neighbour.key for neighbour in self._pods.some("node", spec["nodeName"]) if neighbour.key != key)
        conflicting = ports.conflict(own, (store.head("pods", *key_of_neighbour) for key_of_neighbour in neighbours))
        return (ports.REASON, ports.MESSAGE) if conflicting else None

    def _await_config(self, state: StoredObject, pod: Json, lacks: MissingConfig, reason: str, message: str) -> None:
        """Let a pod wait until its missing objects are written, or until its deadline; report it once."""
        self._references.await_objects(state.key, lacks.objects)
        self._appointments.pop(state.key, None)
        if (deadline := _deadline(pod)) is not None:
            self._meet(state.key, deadline, self._exceed)
        if pod["status"] != (state.decode().get("status") or {}):
            self._context.put(state, pod)
            about = {"apiVersion": "v1", "kind": "Pod", **pod}
            self._context.event(about, reason, message, "Warning", "kubelet")

    def _wake(self, key: Key) -> None:
        self._meet(key, self._context.now(), self._start)

    def _meet_or_exceed(self, key: Key, pod: Json, moment: datetime) -> None:
        """Continue to start a pod at a moment, unless its deadline is earlier."""
        act = self._start
        deadline = _deadline(pod)
        if deadline is not None and deadline < moment:
            moment, act = deadline, self._exceed
        self._meet(key, moment, act)

    def _plan_running(self, state: StoredObject, pod: Json) -> None:
        """Make a running pod ready again after its node was lost, and plan its end."""
        key = state.key
        if statuses.is_waiting(pod):
            self._plan_restart(key, pod)
            return
        metadata, status = pod["metadata"], pod["status"]
        now = self._context.now()
        started = parse_stamp(statuses.running_since(pod) or self._context.stamp())
        if timedelta(0) <= now - started < timedelta(seconds=1):
            started = now  # stamps have whole seconds, but the pod started just now
        ends: list[tuple[datetime, Callable[[StoredObject, Json], None]]] = []
        run = seconds_of(metadata, RUN_SECONDS)
        if run is not None:
            ends.append((later(started, run), self._end))
        deadline = _deadline(pod)
        if deadline is not None:
            ends.append((deadline, self._exceed))
        probed, due = statuses.follow_probes(pod, now)
        if due is not None:
            ends.append((due, self._plan_running))
        conditions = [dict(condition) for condition in status.get("conditions") or ()]
        stamp = self._context.stamp()
        statuses.set_ready(pod, stamp)
        changed = probed or [x.get("status") for x in conditions] != [x.get("status") for x in status["conditions"]]
        if statuses.resizes(pod):
            changed = True
            if not self._resize(pod, stamp):
                ends.append((later(now, _RESIZE_RETRY), self._plan_running))
        if ends:
            moment, act = min(ends, key=lambda pair: pair[0])
            self._meet(key, moment, act)
        if statuses.observe(pod, stamp) or changed:
            self._context.put(state, pod)

    def _retry_resizes(self, node: str) -> None:
        """Try the deferred resizes of a node with possibly free resources, in the order of ``statuses.resize_rank``."""
        waiting = []
        for key in self._deferred.pop(node, ()):
            state = self._context.registry.store.head("pods", *key)
            if state is not None:
                waiting.append((statuses.resize_rank(state.decode()), key))
        for _, key in sorted(waiting):
            self._meet(key, self._context.now(), self._plan_running)

    def _resize(self, pod: Json, stamp: str) -> bool:
        """Give a pod the requested resources if its node has them, and return whether it has.

        The pod counts with the maximum of requested and current resources, other pods with their current ones.
        """
        name = pod["spec"]["nodeName"]
        state = self._context.registry.store.head("nodes", "", name)
        node = state.decode() if state is not None else {"metadata": {"name": name}}
        free = amounts((node.get("status") or {}).get("allocatable"))
        wanted = highest(of_pod(pod["spec"], "requests"), of_pod(statuses.granted(pod), "requests"))
        for reason, word in (("Infeasible", "capacity"), ("Deferred", "available")):
            lacking = [res for res in wanted if res in free and wanted[res].nano > free[res].nano]
            if lacking:
                parts = (f"{res}, requested: {wanted[res].text}, {word}: {free[res].text}" for res in lacking)
                text = f"Node didn't have enough {'capacity' if word == 'capacity' else 'resource'}: {'; '.join(parts)}"
                statuses.defer_resize(pod, stamp, reason, text)
                if reason == "Deferred":
                    statuses.report_policy(pod, stamp, node)
                    key = (pod["metadata"].get("namespace", ""), pod["metadata"]["name"])
                    self._deferred.setdefault(name, set()).add(key)
                return False
            free = subtracted(free, self._requested(name, pod["metadata"]["uid"]))
        statuses.resize(pod, stamp)
        return True

    def _requested(self, node: str, except_uid: str) -> Amounts:
        """Return the resources of the other pods of a node."""
        total: Amounts = {}
        for pod in self._pods.some("node", node):
            state = self._context.registry.store.head("pods", *pod.key)
            if state is not None and not pod.finished and pod.metadata.uid != except_uid:
                total = added(total, of_pod(statuses.granted(state.decode()), "requests"))
        return total

    def _end(self, state: StoredObject, pod: Json) -> None:
        """End the containers of a pod: for good, or until they are restarted."""
        code = exit_code_of(pod["metadata"])
        policy = (pod.get("spec") or {}).get("restartPolicy", "Always")
        stamp = self._context.stamp()
        if policy == "Never" or (policy == "OnFailure" and code == 0):
            statuses.finish(pod, stamp, code)
        elif statuses.wait_to_restart(pod, stamp, code) == 0:
            statuses.restart(pod, stamp)
            self._context.put(state, pod)
            self._meet(state.key, self._context.now(), self._plan_running)
            return
        else:
            self._plan_restart(state.key, pod)
        self._context.put(state, pod)

    def _plan_restart(self, key: Key, pod: Json) -> None:
        self._meet(key, self._restart_moment(pod, "containerStatuses"), self._restart)

    def _restart_moment(self, pod: Json, part: str) -> datetime:
        """Return when failed containers are restarted: later each time, as with kubelets."""
        containers = pod["status"].get(part) or ()
        count = max((entry.get("restartCount", 0) for entry in containers), default=0)
        ended = [((entry.get("lastState") or {}).get("terminated") or {}).get("finishedAt") for entry in containers]
        last = max((parse_stamp(stamp) for stamp in ended if stamp), default=self._context.now())
        wait = min(_FIRST_BACKOFF * 2 ** max(0, min(count - 1, 10)), _LONGEST_BACKOFF)
        return later(last, wait)

    def _restart(self, state: StoredObject, pod: Json) -> None:
        if statuses.is_waiting(pod):
            statuses.restart(pod, self._context.stamp())
            self._context.put(state, pod)
            self._meet(state.key, self._context.now(), self._plan_running)

    def _exceed(self, state: StoredObject, pod: Json) -> None:
        statuses.finish(pod, self._context.stamp(), statuses.KILLED)
        pod["status"].update(phase="Failed", reason="DeadlineExceeded", message=_DEADLINE)
        self._context.put(state, pod)

    # -- stopping

    def _plan_stop(self, pod: PodView) -> None:
        state = self._context.registry.store.head("pods", *pod.key)
        if state is None:
            return
        body = state.decode()
        metadata = body["metadata"]
        killed = parse_stamp(metadata["deletionTimestamp"])
        stopped = later(killed, -(metadata.get("deletionGracePeriodSeconds") or 0))
        takes = seconds_of(metadata, STOP_SECONDS)
        if takes is None:
            takes, stopped = self._options.stop_seconds, self._context.now()
        takes += sleep_before_stop(body.get("spec") or {})
        if pod.phase != "Running":
            takes = 0.0
        if takes > 0 and not pod.finished and statuses.observe(body, self._context.stamp()):
            self._context.put(state, body)
        self._meet(pod.key, min(killed, later(stopped, takes)), self._stop)

    def _stop(self, state: StoredObject, pod: Json) -> None:
        """Report that the containers stopped, and remove the pod."""
        metadata, status = pod["metadata"], pod.setdefault("status", {})
        if not metadata.get("deletionTimestamp"):
            return
        if status.get("phase") not in FINISHED:
            killed = self._context.now() >= parse_stamp(metadata["deletionTimestamp"])
            takes = seconds_of(metadata, STOP_SECONDS)
            takes = takes if takes is not None else self._options.stop_seconds
            slow = takes + sleep_before_stop(pod.get("spec") or {}) > 0
            statuses.finish(pod, self._context.stamp(), statuses.KILLED if killed and slow else statuses.STOPPED)
        statuses.observe(pod, self._context.stamp())
        metadata["deletionGracePeriodSeconds"] = 0
        last = self._context.registry.store.put(state.resource, state.namespace, state.name, pod, state).state
        if not metadata.get("finalizers"):
            self._context.registry.store.delete(last)


def _deadline(pod: Json) -> datetime | None:
    """Return when the ``activeDeadlineSeconds`` of a started pod are over."""
    seconds, since = (pod.get("spec") or {}).get("activeDeadlineSeconds"), (pod.get("status") or {}).get("startTime")
    return later(parse_stamp(since), seconds) if seconds is not None and since else None
