"""Device taints of effect NoExecute: delete pods with claims that do not tolerate one; keep the status of rules.

Rules (devices.md 3; upstream's device taint eviction controller):
- A taint belongs to a driver, in its slice, or to a DeviceTaintRule. It affects every pod that an allocation of a
  tainted device is reserved for, directly or through its PodGroup, unless the request tolerates it. With
  `tolerationSeconds` the pod is evicted that long after the taint was added; the shortest toleration used counts.
- The pod gets the condition DisruptionTarget (DeletionByDeviceTaintManager) and is deleted.
- A rule's status states how many pods are still to be evicted (condition EvictionInProgress): at once for a new spec,
  then at most every ten seconds; with effect None once, as a preview of NoExecute.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from kube_rules.json import Json
from kube_standin.clock import parse_stamp
from kube_standin.conditions import condition_of, set_condition, set_disrupted
from kube_standin.controllers.claims import pods_with_claims_in_group
from kube_standin.controllers.reconciler import Controller
from kube_standin.controllers.taints import tolerated_until, tolerates
from kube_standin.controllers.views import (
    ClaimView,
    DeviceResultView,
    DeviceTaintRuleView,
    Key,
    PodGroupView,
    PodView,
    SliceView,
    TaintView,
)
from kube_standin.deletion import DeleteOptions

Task = tuple[Literal["pod", "rule"], str, str]
_GROUP = "resource.k8s.io/v1"
_NO_EXECUTE = "NoExecute"
_IN_PROGRESS = "EvictionInProgress"
_PERIOD = 10.0
"""Seconds between two updates of a rule's status."""
_SOURCE = "device-taint-eviction-controller"


@dataclass(frozen=True, slots=True)
class ClaimEviction:
    """When the pods of a claim must be evicted, and because of which rules."""

    when: datetime
    rules: frozenset[str] = frozenset()


class DeviceTaintEviction(Controller):
    """The controller of device taint evictions; keys are ("pod", namespace, name) and ("rule", "", name)."""

    name = "device-taint-eviction"

    def connect(self) -> None:
        """Watch pods of claims with tainted devices, and rules."""
        sources = self.context.sources
        self._evicted: dict[str, set[str]] = {}
        """By UID of a rule, the UIDs of the pods evicted because of it since this controller started."""
        self._first_seen: dict[tuple[str, ...], datetime] = {}
        """The time at which each taint without `timeAdded` was first observed."""
        self._pods = sources.pods
        self._pods.index("claims in group", pods_with_claims_in_group)
        self._groups = sources.of("scheduling.k8s.io/podgroups", PodGroupView)
        self._slices = sources.of("resource.k8s.io/resourceslices", SliceView)
        self._slices.index("pool", lambda slice_: (slice_.pool,))
        self._rules = sources.of("resource.k8s.io/devicetaintrules", DeviceTaintRuleView)
        self._claims = sources.of("resource.k8s.io/resourceclaims", ClaimView)
        self._claims.index("consumer", lambda claim: claim.consumers)
        self._claims.index("pool", lambda claim: {(result.driver, result.pool) for result in claim.results})
        if self.context.registry.kinds.readable(_GROUP, "DeviceTaintRule") is not None:
            self._rules.add_handler(self._rule_changed)
        self._slices.add_handler(self._slice_changed)
        self._claims.add_handler(self._claim_changed)
        self._pods.add_handler(self._pod_changed)

    # -- queueing -------------------------------------------------------------------------------------------------

    def _rule_changed(self, old: DeviceTaintRuleView | None, new: DeviceTaintRuleView | None) -> None:
        if new is None and old is not None:
            self._evicted.pop(old.metadata.uid, None)
        if old is not None and new is not None and old.spec == new.spec:
            return
        if new is not None:
            self.queue(("rule", "", new.metadata.name))
        rules = [rule for rule in (old, new) if rule is not None and rule.spec.taint.effect == _NO_EXECUTE]
        for claim in self._claims.items.values() if rules else ():
            if any(rule.selects(result) for rule in rules for result in claim.results):
                self._queue_users(claim)

    def _slice_changed(self, old: SliceView | None, new: SliceView | None) -> None:
        for slice_ in (old, new):
            if slice_ is None or not (slice_.tainted or (old is not None and old.tainted)):
                continue
            for claim in self._claims.some("pool", slice_.pool):
                self._queue_users(claim)

    def _claim_changed(self, old: ClaimView | None, new: ClaimView | None) -> None:
        if new is not None and new.results and (old is None or old.status != new.status):
            self._queue_users(new)

    def _pod_changed(self, old: PodView | None, new: PodView | None) -> None:
        if new is not None and new.has_claims and new.node and (old is None or old.node != new.node):
            self.queue(("pod", *new.key))

    def _queue_users(self, claim: ClaimView) -> None:
        for pod in self._users(claim):
            self.queue(("pod", *pod.key))

    def _users(self, claim: ClaimView) -> Iterator[PodView]:
        """Yield the bound pods that a claim is reserved for; of a group, its pods with claims."""
        namespace = claim.metadata.namespace
        for consumer in claim.users:
            if consumer.resource == "pods":
                keys: Iterable[Key] = ((namespace, consumer.name),)
            else:
                keys = sorted(self._pods.keys_by("claims in group", (namespace, consumer.name)))
            for key in keys:
                pod = self._pods.items.get(key)
                if pod is not None and pod.node and consumer.uid in (pod.metadata.uid, self._group_uid(pod)):
                    yield pod

    def _group_uid(self, pod: PodView) -> str | None:
        group = self._groups.items.get((pod.metadata.namespace, pod.group)) if pod.group else None
        return group.metadata.uid if group is not None else None

    # -- when a pod must be evicted ------------------------------------------------------------------------------------

    def _eviction(self, claim: ClaimView, rules: Iterable[DeviceTaintRuleView]) -> ClaimEviction | None:
        """Return when the tolerations of the claim's requests end first, with all rules that evict; None for never."""
        eviction: ClaimEviction | None = None
        for result in claim.results:
            for taint, rule in self._taints(result, rules):
                when = self._end(result, taint, rule)
                if when is None:
                    continue
                names = frozenset({rule.metadata.name}) if rule is not None else frozenset()
                before = eviction or ClaimEviction(when)
                eviction = ClaimEviction(min(when, before.when), before.rules | names)
        return eviction

    def _taints(
        self, result: DeviceResultView, rules: Iterable[DeviceTaintRuleView]
    ) -> Iterator[tuple[TaintView, DeviceTaintRuleView | None]]:
        pool_slices = self._slices.some("pool", (result.driver, result.pool))
        newest = max((slice_.spec.pool.generation for slice_ in pool_slices), default=0)
        for slice_ in pool_slices:
            if slice_.spec.pool.generation != newest:
                continue
            for device in slice_.spec.devices or ():
                if device.name == result.device:
                    yield from ((taint, None) for taint in device.taints or () if taint.effect == _NO_EXECUTE)
        yield from ((rule.spec.taint, rule) for rule in rules if rule.selects(result))

    def _end(self, result: DeviceResultView, taint: TaintView, rule: DeviceTaintRuleView | None) -> datetime | None:
        """Return until when the request tolerates the taint (None: forever); only NoExecute has `tolerationSeconds`."""
        executing = TaintView(taint.key, _NO_EXECUTE, taint.value)
        used = [toleration for toleration in result.tolerations or () if tolerates(toleration, executing)]
        seconds = [toleration["tolerationSeconds"] for toleration in used if _limited(toleration)]
        if len(used) > len(seconds):
            return None
        since = self._since(result, taint, rule)
        return tolerated_until(since, min(seconds)) if seconds else since

    def _since(self, result: DeviceResultView, taint: TaintView, rule: DeviceTaintRuleView | None) -> datetime:
        if taint.time_added:
            return parse_stamp(taint.time_added)
        place = (rule.metadata.uid,) if rule is not None else (result.driver, result.pool, result.device)
        if len(self._first_seen) > _MOST_FIRST_SEEN:
            self._first_seen.clear()
        return self._first_seen.setdefault((*place, taint.key, taint.value), self.context.now())

    def _executing(self) -> list[DeviceTaintRuleView]:
        """Return the rules that evict pods; none if the server does not serve rules."""
        if self.context.registry.kinds.readable(_GROUP, "DeviceTaintRule") is None:
            return []
        return [rule for _, rule in sorted(self._rules.items.items()) if rule.spec.taint.effect == _NO_EXECUTE]

    # -- reconciling ----------------------------------------------------------------------------------------------

    def reconcile(self, key: Task) -> None:
        """Evict a pod that is due, or update the status of a rule."""
        if key[0] == "rule":
            self._update_status(key[2])
        else:
            self._pod((key[1], key[2]))

    def _pod(self, key: Key) -> None:
        pod = self._pods.items.get(key)
        if pod is None or not pod.active or not pod.node:
            return
        rules = self._executing()
        claims = {key[0] + "/" + own.metadata.name: own for own in self._claims.some("consumer", pod.metadata.uid)}
        group = self._group_uid(pod)
        state = self.context.registry.store.head("pods", *key)
        if state is None:
            return
        body = state.decode()
        if group is not None:
            named = set(_claims_named(body))
            for claim in self._claims.some("consumer", group):
                if claim.metadata.name in named:
                    claims[key[0] + "/" + claim.metadata.name] = claim
        ends = [eviction for claim in claims.values() if (eviction := self._eviction(claim, rules)) is not None]
        if not ends:
            return
        because = frozenset[str]().union(*(eviction.rules for eviction in ends))
        when = min(eviction.when for eviction in ends)
        for name in sorted(because):
            self.queue_after(("rule", "", name), _PERIOD)
        if when > self.context.now():
            self.context.timers.at(when, lambda: self.queue(("pod", *key)))
            return
        for rule in rules:
            if rule.metadata.name in because:
                self._evicted.setdefault(rule.metadata.uid, set()).add(pod.metadata.uid)
        why = "Device Taint manager: deleting due to NoExecute taint"
        set_disrupted(body, self.context.stamp(), "DeletionByDeviceTaintManager", why)
        self.context.put(state, body)
        about = {"kind": "Pod", "apiVersion": "v1", **body}
        self.context.event(about, "DeviceTaintManagerEviction", "Marking for deletion", source=_SOURCE)
        self.context.delete(self.context.kind("v1", "Pod"), key, DeleteOptions(uid=pod.metadata.uid))

    def _update_status(self, name: str) -> None:
        """Update the condition of a rule, unless it was updated within the period."""
        rule = self._rules.items.get(("", name))
        if rule is None:
            return
        row, now = self.context.kind(_GROUP, "DeviceTaintRule"), self.context.now()
        current_rule = self.context.find(row, ("", name))
        previous = condition_of((current_rule or {}).get("status"), _IN_PROGRESS)
        if previous is not None and previous.get("observedGeneration") == rule.metadata.generation:
            rest = _PERIOD - (now - parse_stamp(previous["lastTransitionTime"])).total_seconds()
            if rest > 0:
                self.queue_after(("rule", "", name), rest)
                return
        updated = {**self._condition(rule), "observedGeneration": rule.metadata.generation}
        if previous is not None and all(previous.get(part, "") == value for part, value in updated.items()):
            return
        updated["lastTransitionTime"] = self.context.stamp()
        self.context.modify(
            row, ("", name), lambda obj: set_condition(obj.setdefault("status", {}), updated), "status", _SOURCE
        )

    def _condition(self, rule: DeviceTaintRuleView) -> Json:
        effect, evicted = rule.spec.taint.effect, len(self._evicted.get(rule.metadata.uid, ()))
        status, message = "False", ""
        if effect == _NO_EXECUTE:
            pods, namespaces = self._affected(rule)
            reason = "Completed" if evicted else "NotStarted"
            if pods:
                status, reason = "True", "PodsPendingEviction"
                need = "1 pod needs" if pods == 1 else f"{pods} pods need"
                message = f"{need} to be evicted in {_spaces(namespaces)}."
        elif effect == "None":
            pods, namespaces = self._affected(rule)
            published = sum(rule.selects(result) for result in self._published())
            allocated = sum(rule.selects(result) for claim in self._claims.items.values() for result in claim.results)
            reason = "NoEffect"
            message = (
                f"{_many(published, 'published device')} selected. {_many(allocated, 'allocated device')} selected. "
                f"{_many(pods, 'pod')} would be evicted in {_spaces(namespaces)} if the effect was NoExecute. "
                "This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."
            )
        else:
            reason, message = "OtherEffect", "Eviction only happens for the NoExecute effect."
        if evicted:
            message = f"{message} {_many(evicted, 'pod')} evicted since starting the controller.".strip()
        return {"type": _IN_PROGRESS, "status": status, "reason": reason, "message": message}

    def _affected(self, rule: DeviceTaintRuleView) -> tuple[int, int]:
        """Return the number of pods that a rule of effect NoExecute must evict, and the number of their namespaces."""
        affected: set[Key] = set()
        for claim in self._claims.items.values():
            if any(rule.selects(result) for result in claim.results):
                eviction = self._eviction(claim, (rule,))
                if eviction is not None and rule.metadata.name in eviction.rules:
                    affected.update(pod.key for pod in self._users(claim) if pod.active)
        return len(affected), len({namespace for namespace, _ in affected})

    def _published(self) -> Iterator[DeviceResultView]:
        newest: dict[tuple[str, str], int] = {}
        for slice_ in self._slices.items.values():
            newest[slice_.pool] = max(newest.get(slice_.pool, 0), slice_.spec.pool.generation)
        for slice_ in self._slices.items.values():
            if slice_.spec.pool.generation == newest[slice_.pool]:
                for device in slice_.spec.devices or ():
                    yield DeviceResultView(*slice_.pool, device.name)


_MOST_FIRST_SEEN = 10_000


def _limited(toleration: Json) -> bool:
    return toleration.get("effect") == _NO_EXECUTE and toleration.get("tolerationSeconds") is not None


def _claims_named(pod: Json) -> Iterator[str]:
    """Yield the names of a pod's claims, both existing ones and those created from templates."""
    for entry in pod["spec"].get("resourceClaims") or ():
        if entry.get("resourceClaimName"):
            yield entry["resourceClaimName"]
    for entry in (pod.get("status") or {}).get("resourceClaimStatuses") or ():
        if entry.get("resourceClaimName"):
            yield entry["resourceClaimName"]


def _many(count: int, noun: str) -> str:
    return f"1 {noun}" if count == 1 else f"{count} {noun}s"


def _spaces(count: int) -> str:
    return "1 namespace" if count == 1 else f"{count} different namespaces"
