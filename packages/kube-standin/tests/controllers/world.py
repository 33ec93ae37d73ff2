"""A control plane with controllers and kubelets for tests: time is set, nothing runs by itself."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from kube_standin.binding import bind_now
from kube_standin.controllers import ControllerSet, Times
from kube_standin.eviction import evict_now
from kube_standin.kubelet import KubeletOptions, Kubelets
from kube_standin.registry import WriteOptions
from kube_standin.storage import Store
from tests.admission.plane import Plane, SetClock

Json = dict[str, Any]


class World(Plane):
    """Objects, controllers (``names``; None for all) and, with ``nodes``, kubelets. ``settle`` lets it come to rest."""

    def __init__(
        self,
        names: Iterable[str] | None = (),
        *,
        nodes: int | None = None,
        store: Store | None = None,
        clock: SetClock | None = None,
        times: Times | None = None,
        **options: Any,
    ) -> None:
        super().__init__(store=store, clock=clock)
        self.set_clock: SetClock = self.clock  # type: ignore[assignment]
        self.controllers = ControllerSet(self.registry, names, times=times, ca_certificate="CA")
        self.kubelets: Kubelets | None = None
        if nodes is not None:
            chosen: dict[str, Any] = {"stop_seconds": 0.0, **options}
            self.kubelets = Kubelets(self.controllers, KubeletOptions(nodes=nodes, **chosen))
            self.kubelets.begin()
        self.settle()

    def settle(self) -> World:
        """Let everything that can happen now happen."""
        self.controllers.settle()
        return self

    def forward(self, seconds: float) -> World:
        """Let time pass, stopping at every moment something is due."""
        self.settle()
        target = self.set_clock.now() + timedelta(seconds=seconds)
        timers = self.controllers.context.timers
        while (moment := timers.next_moment()) is not None and moment <= target:
            self.set_clock.moment = max(moment, self.set_clock.moment)
            self.settle()
        self.set_clock.moment = target
        return self.settle()

    def bind(self, name: str, node: str, ns: str = "default") -> None:
        """Bind a pod."""
        bind_now(self.registry, ns, name, {"target": {"name": node}}, WriteOptions())
        self.store.flush()

    def evict(self, name: str, ns: str = "default") -> None:
        """Evict a pod; raises 429 if a budget says no."""
        evict_now(self.registry, ns, name, {"metadata": {"name": name}}, WriteOptions())
        self.store.flush()

    def schedule(self, node: str = "node-1") -> World:
        """Bind every pending pod to the node it asks for by affinity, else to ``node``; then let kubelets work."""
        self.settle()
        for one in self.pods():
            spec = one["spec"]
            if not spec.get("nodeName") and not one["metadata"].get("deletionTimestamp"):
                terms = (((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED) or {}).get(
                    "nodeSelectorTerms"
                ) or [{}]
                fields = terms[0].get("matchFields")
                self.bind(
                    one["metadata"]["name"], fields[0]["values"][0] if fields else node, one["metadata"]["namespace"]
                )
        return self.forward(1)

    def pods(self, phase: str | None = None, ns: str | None = None) -> list[Json]:
        """Return pods by name."""
        found = self.all("v1", "Pod", ns)
        return [one for one in found if phase is None or one["status"]["phase"] == phase]

    def names(self, phase: str | None = None) -> list[str]:
        """Return the names of pods."""
        return [one["metadata"]["name"] for one in self.pods(phase)]

    def condition(self, obj: Json, kind: str) -> Json:
        """Return a condition of an object; {} if it has none of that type."""
        for one in (obj.get("status") or {}).get("conditions") or ():
            if one["type"] == kind:
                found: Json = one
                return found
        return {}

    def restarted(self, names: Iterable[str] | None = ()) -> World:
        """Return the world after a kill: the same store and time, everything else forgotten."""
        return World(names, store=self.store, clock=self.set_clock)

    def set_status(self, api_version: str, kind: str, name: str, status: Json, ns: str = "default") -> None:
        """Merge into a status."""
        self.patch(api_version, kind, name, {"status": status}, "status", ns)

    def set_phase(self, name: str, phase: str, ns: str = "default") -> None:
        """Give a pod a phase, as a kubelet would."""
        self.set_status("v1", "Pod", name, {"phase": phase}, ns)

    def set_ready(self, name: str, ready: bool = True, ns: str = "default") -> None:
        """Make a pod run and be ready, as a kubelet would."""
        now = self.clock.stamp()
        condition = {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": now}
        self.set_status("v1", "Pod", name, {"phase": "Running", "conditions": [condition]}, ns)


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def template(labels: Json | None = None, **spec: Any) -> Json:
    """Return a pod template."""
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}]
    return {"metadata": {"labels": labels or {"app": "a"}}, "spec": {"containers": containers, **spec}}


def owner(kind: str, name: str = "a", *, pod: Json | None = None, **spec: Any) -> Json:
    """Return a ReplicaSet, Deployment, StatefulSet or DaemonSet of pods labelled app=a."""
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": pod or template(), **spec},
    }


def job(name: str = "j", *, annotations: Json | None = None, pod: Json | None = None, **spec: Any) -> Json:
    """Return a Job."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {"template": pod or template(restartPolicy="Never"), **spec},
    }


def ended(run: float = 5, code: int = 0, policy: str = "Never") -> Json:
    """Return a template of pods that run for some seconds and end with a code."""
    made = template(restartPolicy=policy)
    made["metadata"]["annotations"] = {"reprieve.dev/run-seconds": str(run), "reprieve.dev/exit-code": str(code)}
    return made
