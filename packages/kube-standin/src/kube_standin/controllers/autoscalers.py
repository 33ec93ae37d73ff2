"""HorizontalPodAutoscalers: every 15 s, set the replicas that the metrics call for, within bounds (interfaces.md 7.11).

Metrics are those of `metrics.k8s.io`, cpu and memory; custom and external metrics have no source.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final, NamedTuple

from kube_rules.admission.amounts import Amount, of_container
from kube_rules.controllers import replica_targets
from kube_rules.controllers.replica_targets import MetricError, MetricReplicas, PodLoad, ScalingHistory, ScalingVerdict
from kube_rules.json import Json
from kube_rules.quantity import parse
from kube_rules.selectors import SelectorError, parse_label_selector
from kube_standin.clock import parse_stamp
from kube_standin.controllers.reconciler import Controller
from kube_standin.controllers.views import Key, ObjectView
from kube_standin.errors import StatusError
from kube_standin.kinds import ServedKind
from kube_standin.pod_usage import containers_of, used_by
from kube_standin.registry import WriteOptions
from kube_standin.scale import scale_of, write_scale_now
from kube_standin.selectors import select

_SOURCE: Final = "horizontal-pod-autoscaler"
_PERIOD: Final = 15.0
_MEASURED: Final = {"Resource": "resource", "ContainerResource": "containerResource"}


class _Proposal(NamedTuple):
    """The replicas that the metrics call for, the metric that decides, and the values for the status.

    `error`: the reason and text of a failure; `summary`: a text about all failures.
    """

    replicas: int
    metric: str
    states: list[Json]
    error: tuple[str, str] | None
    summary: str = ""


class HorizontalPodAutoscalers(Controller):
    """The controller of autoscalers; keys are theirs. A restart forgets earlier recommendations, as upstream."""

    name = "horizontal-pod-autoscaling"

    def connect(self) -> None:
        """Queue an autoscaler when it is created, and every 15 s."""
        self._row = self.context.kind("autoscaling/v2", "HorizontalPodAutoscaler")
        self._pods = self.context.kind("v1", "Pod")
        self._histories: dict[str, ScalingHistory] = {}
        self._next_times: dict[Key, datetime] = {}
        self.context.sources.of(self._row.storage_key, ObjectView).add_handler(self._changed)

    def _changed(self, old: ObjectView | None, new: ObjectView | None) -> None:
        if new is None and old is not None:
            self._histories.pop(old.metadata.uid, None)
            self._next_times.pop(old.metadata.key, None)
        elif old is None and new is not None:
            self.queue(new.metadata.key)

    def reconcile(self, key: Key) -> None:
        """Scale the target of one autoscaler, and write its status."""
        autoscaler = self.context.find(self._row, key)
        if autoscaler is None:
            return
        now = self.context.now()
        due = self._next_times.get(key)
        if due is None or due <= now:
            self.queue_after(key, _PERIOD)
            self._next_times[key] = now
        conditions = _Conditions(autoscaler, self.context.stamp())
        status: Json = {**(autoscaler.get("status") or {}), "currentMetrics": None}
        self._scale(key, autoscaler, status, conditions, now)
        status["conditions"] = conditions.listed
        self.context.set_status(self._row, key, status)

    def _scale(self, key: Key, autoscaler: Json, status: Json, conditions: _Conditions, now: datetime) -> None:
        reference = autoscaler["spec"]["scaleTargetRef"]
        try:
            kind, target = self._target(key[0], reference)
        except MetricError as error:
            conditions.set("AbleToScale", False, "FailedGetScale", f"the HPA controller was unable to get the target's "
                           f"current scale: {error}")  # fmt: skip
            self.context.event(autoscaler, "FailedGetScale", str(error), "Warning", _SOURCE)
            return
        conditions.set(
            "AbleToScale", True, "SucceededGetScale", "the HPA controller was able to get the target's current scale"
        )
        scale = scale_of(kind, target)
        current = scale["spec"]["replicas"]
        wanted, why = self._wanted(autoscaler, scale, status, conditions, now)
        status["currentReplicas"], status["desiredReplicas"] = scale["status"]["replicas"], wanted
        if wanted == current:
            return
        changed = {**scale, "spec": {"replicas": wanted}}
        try:
            write_scale_now(self.context.registry, kind, key[0], reference["name"], changed, WriteOptions())
        except StatusError as error:
            text = f"the HPA controller was unable to update the target scale: {error}"
            conditions.set("AbleToScale", False, "FailedUpdateScale", text)
            status["desiredReplicas"] = current
            return
        self._history(autoscaler).scaled(now, current, wanted)
        text = f"the HPA controller was able to update the target scale to {wanted}"
        conditions.set("AbleToScale", True, "SucceededRescale", text)
        status["lastScaleTime"] = self.context.stamp()
        self.context.event(autoscaler, "SuccessfulRescale", f"New size: {wanted}; reason: {why}", source=_SOURCE)

    def _target(self, namespace: str, reference: Json) -> tuple[ServedKind, Json]:
        kind = self.context.registry.kinds.of(reference.get("apiVersion", "v1"), reference["kind"])
        if kind is None or "scale" not in kind.subresources:
            raise MetricError(f'no matches for kind "{reference["kind"]}" in group "{reference.get("apiVersion", "")}"')
        target = self.context.find(kind, (namespace, reference["name"]))
        if target is None:
            raise MetricError(f'{kind.resource} "{reference["name"]}" not found')
        return kind, target

    def _history(self, autoscaler: Json) -> ScalingHistory:
        return self._histories.setdefault(autoscaler["metadata"]["uid"], ScalingHistory())

    def _wanted(
        self, autoscaler: Json, scale: Json, status: Json, conditions: _Conditions, now: datetime
    ) -> tuple[int, str]:
        """Return the replicas that the target should have, and why."""
        spec, current = autoscaler["spec"], scale["spec"]["replicas"]
        if current == 0:
            text = "scaling is disabled since the replica count of the target is zero"
            conditions.set("ScalingActive", False, "ScalingDisabled", text)
            return 0, ""
        if current > spec["maxReplicas"]:
            return spec["maxReplicas"], "Current number of replicas above Spec.MaxReplicas"
        if current < spec.get("minReplicas", 1):
            return spec.get("minReplicas", 1), "Current number of replicas below Spec.MinReplicas"
        selector = scale["status"].get("selector", "")
        if (problem := _selector_problem(selector)) is not None:
            reason, text = problem
            missing = "the HPA target's scale is missing a selector"
            conditions.set("ScalingActive", False, "InvalidSelector", text if selector else missing)
            self.context.event(autoscaler, reason, text, "Warning", _SOURCE)
            self.context.event(autoscaler, "FailedComputeMetricsReplicas", text, "Warning", _SOURCE)
            return current, ""
        proposal = self._proposal(autoscaler, scale, now)
        status["currentMetrics"] = proposal.states or None
        if proposal.error is not None:
            reason, text = proposal.error
            conditions.set("ScalingActive", False, reason, f"the HPA was unable to compute the replica count: {text}")
            self.context.event(autoscaler, reason, text, "Warning", _SOURCE)
            self.context.event(autoscaler, "FailedComputeMetricsReplicas", proposal.summary, "Warning", _SOURCE)
            return current, ""
        text = f"the HPA was able to successfully calculate a replica count from {proposal.metric}"
        conditions.set("ScalingActive", True, "ValidMetricFound", text)
        history = self._history(autoscaler)
        history.forget(now)
        stable, bounded = replica_targets.held_back(spec, current, proposal.replicas, history, now)
        conditions.judged(stable, bounded)
        above = f"{proposal.metric} above target"
        return bounded.replicas, above if bounded.replicas > current else "All metrics below target"

    def _proposal(self, autoscaler: Json, scale: Json, now: datetime) -> _Proposal:
        """Return the largest proposal of the metrics; if a metric has no value, the target is not scaled down."""
        spec, current = autoscaler["spec"], scale["spec"]["replicas"]
        best, metric, states = -1, "", []
        errors: list[tuple[str, str]] = []
        first = ""
        for metric_spec in spec.get("metrics") or ():
            try:
                wanted, words, state = self._measured(autoscaler, metric_spec, scale, now)
            except MetricError as failure:
                errors.append((f"FailedGet{metric_spec['type']}Metric", f"{_words(metric_spec)}: {failure}"))
                first = first or f"{_value_of(metric_spec)}: {errors[0][1]}"
                continue
            states.append(state)
            if wanted.replicas > best:
                best, metric = wanted.replicas, words
        if not spec.get("metrics"):
            return _Proposal(current, metric, states, ("FailedComputeMetricsReplicas", "no metrics"), "no metrics")
        if errors and best < current:
            counts = f"({len(errors)} invalid out of {len(spec['metrics'])})"
            summary = f"invalid metrics {counts}, first error is: {first}"
            return _Proposal(current, metric, states, errors[0], summary)
        return _Proposal(best, metric, states, None)

    def _measured(self, autoscaler: Json, metric: Json, scale: Json, now: datetime) -> tuple[MetricReplicas, str, Json]:
        source = _MEASURED.get(metric["type"])
        if source is None:
            raise MetricError("no custom or external metrics API is served")
        source_spec = metric[source]
        resource, container = source_spec["name"], source_spec.get("container")
        loads = self._loads(autoscaler["metadata"]["namespace"], scale["status"]["selector"], resource, container)
        if not loads:
            text = "no metrics returned from resource metrics API"
            raise MetricError(f"unable to get metrics for resource {resource}: {text}")
        target, tolerance = source_spec["target"], replica_targets.tolerances(autoscaler["spec"])
        sample = replica_targets.LoadSample(scale["status"]["replicas"], loads, tolerance, resource == "cpu", now)
        if "averageUtilization" in target:
            wanted = replica_targets.by_utilization(sample, target["averageUtilization"])
            words = f"{resource} resource utilization (percentage of request)"
        else:
            wanted = replica_targets.by_average(sample, parse(target["averageValue"]).nano)
            words = f"{resource} resource"
        value: Json = {"averageValue": Amount(wanted.average).text}
        if wanted.utilization is not None:
            value["averageUtilization"] = wanted.utilization
        named = {"name": resource, **({"container": container} if container else {})}
        return wanted, words, {"type": metric["type"], source: {**named, "current": value}}

    def _loads(self, namespace: str, selector: str, resource: str, container: str | None) -> list[PodLoad]:
        match = select(self._pods, selector, "").match
        states = self.context.registry.store.heads(self._pods.storage_key, namespace)
        return [_load(state.decode(), resource, container) for state in states if match is None or match(state)]


def _selector_problem(selector: str) -> tuple[str, str] | None:
    """Return the reason and text of an event about a selector that selects no pods; None for a usable selector."""
    if not selector:
        return "SelectorRequired", "selector is required"
    try:
        parse_label_selector(selector)
    except SelectorError as error:
        text = f"couldn't convert selector into a corresponding internal selector object: {error}"
        return "InvalidSelector", text
    return None


def _words(metric: Json) -> str:
    source = _MEASURED.get(metric["type"], "")
    if source:
        return f"failed to get {metric[source]['name']} utilization"
    details = metric.get(metric["type"].lower()) or {}
    return f"unable to get metric {(details.get('metric') or {}).get('name', '')}"


def _value_of(metric: Json) -> str:
    """Return the missing value as an event about all metrics states it."""
    kind, source = metric["type"], metric.get(_MEASURED.get(metric["type"], "")) or {}
    match kind:
        case "Resource":
            return f"failed to get {source['name']} resource metric value"
        case "ContainerResource":
            return f"failed to get {source['name']} container metric value"
        case "External":
            return f"failed to get {metric['external']['metric']['name']} external metric value"
    return f"failed to get {kind.lower()} metric value"


def _load(pod: Json, resource: str, container: str | None) -> PodLoad:
    """Return what a pod, or one of its containers, requests and uses of a resource."""
    status = pod.get("status") or {}
    parts = [part for part in containers_of(pod) if container in (None, part["name"])]
    requests = [of_container(part, "requests").get(resource) for part in parts]
    lacking = next((part["name"] for part, amount in zip(parts, requests, strict=True) if amount is None), "")
    used = dict(used_by(pod))
    usages = [used.get(part["name"], {}).get(resource) for part in parts]
    ready = next((condition for condition in status.get("conditions") or () if condition["type"] == "Ready"), None)
    since = (ready or {}).get("lastTransitionTime")
    return PodLoad(
        pod["metadata"]["name"],
        status.get("phase", "Pending"),
        "deletionTimestamp" in pod["metadata"],
        None if ready is None else ready.get("status") == "True",
        parse_stamp(since) if since else None,
        parse_stamp(status["startTime"]) if status.get("startTime") else None,
        None if not parts or any(a is None for a in requests) else sum(a.nano for a in requests if a),
        None if not used or any(u is None for u in usages) else sum(u.nano for u in usages if u),
        f"{resource} in container {lacking or container or ''}",
    )


class _Conditions:
    """The conditions of a status, each with the time of its last change."""

    def __init__(self, autoscaler: Json, stamp: str) -> None:
        conditions = (autoscaler.get("status") or {}).get("conditions") or ()
        self._by_type: dict[str, Json] = {condition["type"]: condition for condition in conditions}
        self._stamp = stamp

    @property
    def listed(self) -> list[Json]:
        """Return the conditions in the order of the status."""
        return list(self._by_type.values())

    def set(self, kind: str, holds: bool, reason: str, message: str) -> None:
        """Set a condition."""
        status = "True" if holds else "False"
        before = self._by_type.get(kind, {})
        since = before["lastTransitionTime"] if before.get("status") == status else self._stamp
        parts = {"type": kind, "status": status, "lastTransitionTime": since, "reason": reason, "message": message}
        self._by_type[kind] = parts

    def judged(self, stable: ScalingVerdict, bounded: ScalingVerdict) -> None:
        """Set the conditions that report what limited the replicas."""
        self.set("AbleToScale", True, stable.reason, stable.message)
        limited = bounded.reason != "DesiredWithinRange"
        self.set("ScalingLimited", limited, bounded.reason, bounded.message)
