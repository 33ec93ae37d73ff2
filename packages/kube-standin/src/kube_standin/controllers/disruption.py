"""The status of PodDisruptionBudgets: how many of a budget's pods may be disrupted now.

Rules: upstream's disruption controller. Percentages and maxUnavailable count against the scale of the pods'
controllers; an evicted pod stays in ``disruptedPods`` until its deletion is observed, or two minutes at most. When the
scale is unknown no pods may be disrupted (condition SyncFailed).
"""

from __future__ import annotations

import copy
from datetime import datetime
from typing import Literal

from kube_rules.controllers.disruption import budget_numbers, counts_scale
from kube_rules.json import Json
from kube_rules.meta import DISRUPTION_TARGET
from kube_standin.clock import later, parse_stamp
from kube_standin.conditions import condition, condition_of, put_condition
from kube_standin.controllers.pod_owners import selector_of
from kube_standin.controllers.reconciler import Controller
from kube_standin.controllers.views import PodView, SpecView
from kube_standin.metadata import controller_of

Task = tuple[Literal["budget", "pod"], str, str]

_SCALED = (
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "Deployment"),
    ("v1", "ReplicationController"),
)


class _UnknownScaleError(Exception):
    pass


class Disruption(Controller):
    """The controller of budgets; keys are ("budget", namespace, name), and ("pod", ...) for missed disruptions."""

    name = "disruption"

    def connect(self) -> None:
        """Watch budgets and the pods they select."""
        sources = self.context.sources
        self._row = self.context.kind("policy/v1", "PodDisruptionBudget")
        self._pods = sources.pods
        self._pods.index("namespace", lambda pod: (pod.metadata.namespace,))
        self._budgets = sources.of(self._row.storage_key, SpecView)
        self._budgets.index("namespace", lambda budget: (budget.metadata.namespace,))
        self._budgets.add_handler(self._budget_changed)
        self.context.foreign_statuses.add_handler(self._row, lambda key: self.queue(("budget", *key)))
        self._pods.add_handler(self._pod_changed)
        for pair in _SCALED:
            row = self.context.kind(*pair)
            sources.of(row.storage_key, SpecView).add_handler(self._owner_changed)

    def _budget_changed(self, old: SpecView | None, new: SpecView | None) -> None:
        if new is not None and (old is None or old.spec != new.spec or old.metadata != new.metadata):
            self.queue(("budget", *new.metadata.key))

    def _owner_changed(self, old: SpecView | None, new: SpecView | None) -> None:
        owner = new or old
        if owner is None or (old and new and old.spec.get("replicas") == new.spec.get("replicas")):
            return
        for key in self._budgets.keys_by("namespace", owner.metadata.namespace):
            self.queue(("budget", *key))

    def _pod_changed(self, old: PodView | None, new: PodView | None) -> None:
        pod_now = new or old
        if pod_now is None:
            return
        if new is not None and new.disrupted and not new.terminating and not (old and old.disrupted):
            self.queue_after(("pod", *new.key), self.context.times.disruption_expiry)
        same = old is not None and new is not None and old.metadata.labels == new.metadata.labels
        if same and old and new and (old.ready, old.phase, old.terminating) == (new.ready, new.phase, new.terminating):
            return
        for key in self._budgets.keys_by("namespace", pod_now.metadata.namespace):
            spec = self._budgets.items[key].spec
            if any(pod is not None and _covers(spec, pod) for pod in (old, new)):
                self.queue(("budget", *key))

    def reconcile(self, key: Task) -> None:
        """Write the status of one budget, or end a missed disruption."""
        if key[0] == "pod":
            self._forget_disruption((key[1], key[2]))
            return
        with self.resting(key) as rested:
            budget = self.context.find(self._row, key[1:]) if rested else None
            if budget is not None:
                self._sync_budget(key, budget)

    def _sync_budget(self, key: Task, budget: Json) -> None:
        spec = budget.get("spec") or {}
        now = self.context.now()
        pods = [pod for pod in self._pods.by("namespace", key[1]) if _covers(spec, pod) and not pod.finished]
        status = copy.deepcopy(budget.get("status") or {})
        status["observedGeneration"] = budget["metadata"].get("generation", 0)
        bounds = spec.get("minAvailable"), spec.get("maxUnavailable")
        disrupted, soonest = self._disrupted(status.get("disruptedPods") or {}, pods, now)
        healthy = sum(1 for pod in pods if pod.ready and not pod.terminating and pod.metadata.name not in disrupted)
        try:
            numbers = budget_numbers(*bounds, self._scale(pods) if counts_scale(*bounds) else len(pods), healthy)
        except (_UnknownScaleError, ValueError) as error:
            status["disruptionsAllowed"] = 0
            for name in ("currentHealthy", "desiredHealthy", "expectedPods"):
                status.setdefault(name, 0)
            self._write_status(key, status, "False", "SyncFailed", str(error))
            return
        status.update(
            disruptionsAllowed=numbers.allowed,
            currentHealthy=healthy,
            desiredHealthy=numbers.desired,
            expectedPods=numbers.expected,
        )
        if disrupted:
            status["disruptedPods"] = disrupted
        else:
            status.pop("disruptedPods", None)
        if status["disruptionsAllowed"] > 0:
            self._write_status(key, status, "True", "SufficientPods")
        else:
            self._write_status(key, status, "False", "InsufficientPods")
        if soonest is not None:
            self.queue_after(key, max(0.0, (soonest - now).total_seconds()))

    def _write_status(self, key: Task, status: Json, state: str, reason: str, message: str = "") -> None:
        """Write the status of a budget with its condition."""
        allowed = condition("DisruptionAllowed", state, reason, message)
        allowed["observedGeneration"] = status["observedGeneration"]
        put_condition(status, allowed, self.context.stamp())
        self.context.set_status(self._row, key[1:], status)

    def _disrupted(
        self, recorded: dict[str, str], pods: list[PodView], now: datetime
    ) -> tuple[dict[str, str], datetime | None]:
        """Return the pods that are still to be deleted, and when the first of these records expires."""
        pending: dict[str, str] = {}
        soonest: datetime | None = None
        by_name = {pod.metadata.name: pod for pod in pods}
        for name, when in recorded.items():
            pod = by_name.get(name)
            expires = later(parse_stamp(when), self.context.times.disruption_expiry)
            if pod is None or pod.terminating or expires <= now:
                continue
            pending[name] = when
            soonest = expires if soonest is None else min(soonest, expires)
        return pending, soonest

    def _scale(self, pods: list[PodView]) -> int:
        """Return the sum of the replicas that the pods' controllers request; pods without a controller do not count."""
        total = 0
        counted: set[str] = set()
        for pod in pods:
            owner = pod.metadata.controller
            if owner is None or owner.uid in counted:
                continue
            counted.add(owner.uid)
            row = self.context.registry.kinds.of(owner.api_version, owner.kind)
            controller = self.context.find(row, (pod.metadata.namespace, owner.name)) if row is not None else None
            if row is None or controller is None or controller["metadata"]["uid"] != owner.uid:
                raise _UnknownScaleError(f'found no controllers for pod "{pod.metadata.name}"')
            above = controller_of(controller)
            if owner.kind == "ReplicaSet" and above is not None and above["kind"] == "Deployment":
                if above["uid"] in counted:
                    continue
                counted.add(above["uid"])
                deployment = self.context.kind("apps/v1", "Deployment")
                controller = self.context.find(deployment, (pod.metadata.namespace, above["name"])) or controller
            elif "scale" not in row.subresources:
                raise _UnknownScaleError(f"{row.resource} does not implement the scale subresource")
            total += (controller.get("spec") or {}).get("replicas", 1)
        return total

    def _forget_disruption(self, key: tuple[str, str]) -> None:
        """Reset the condition of a pod that was not deleted within two minutes of its disruption."""
        pod = self._pods.items.get(key)
        state = self.context.registry.store.head("pods", *key)
        if pod is None or state is None or not pod.disrupted or pod.terminating or pod.finished:
            return
        body = state.decode()
        target = condition_of(body["status"], DISRUPTION_TARGET)
        if target is not None and target["status"] == "True":
            target.update(status="False", lastTransitionTime=self.context.stamp())
        self.context.put(state, body)


def _covers(spec: Json, pod: PodView) -> bool:
    """Return whether a budget selects a pod; an empty selector selects every pod, an absent one none (policy/v1)."""
    return spec.get("selector") is not None and selector_of(spec).matches(pod.metadata.labels or {})
