"""Device taints of effect NoExecute: pods with claims that do not tolerate one are deleted; rules have status.

Rules (devices.md 3; upstream's device taint eviction controller):
- A taint is a driver's, in its slice, or a DeviceTaintRule's. It concerns every pod that an allocation of a tainted
  device is reserved for, itself or through its PodGroup, unless the request tolerates it; with `tolerationSeconds` the
  pod goes so long after the taint was added, the shortest of those that are used.
- The pod gets the condition DisruptionTarget (DeletionByDeviceTaintManager) and is deleted.
- A rule's status has how many pods are still to go (condition EvictionInProgress): at once for a new spec, then at
  most every ten seconds; with effect None once, what it would do as NoExecute.
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
    ClaimSeen,
    GroupSeen,
    Key,
    PodSeen,
    ResultSeen,
    RuleSeen,
    SliceSeen,
    TaintSeen,
)
from kube_standin.deletion import DeleteOptions

Task = tuple[Literal["pod", "rule"], str, str]
_GROUP = "resource.k8s.io/v1"
_NO_EXECUTE = "NoExecute"
_IN_PROGRESS = "EvictionInProgress"
_PERIOD = 10.0
"""Seconds between two statuses of a rule."""
_SOURCE = "device-taint-eviction-controller"


@dataclass(frozen=True, slots=True)
class ClaimEviction:
    """When the pods of a claim must be evicted, and because of which rules."""

    when: datetime
    rules: frozenset[str] = frozenset()


class DeviceTaintEviction(Controller):
    """Keys are ("pod", namespace, name) and ("rule", "", name)."""

    name = "device-taint-eviction"

    def connect(self) -> None:
        """Queue pods of claims with tainted devices, and rules."""
        sources = self.context.sources
        self._evicted: dict[str, set[str]] = {}
        """UID of a rule -> UIDs of the pods evicted because of it since this began."""
        self._first_seen: dict[tuple[str, ...], datetime] = {}
        """When taints without `timeAdded` were seen first."""
        self._pods = sources.pods
        self._pods.index("claims in group", pods_with_claims_in_group)
        self._groups = sources.of("scheduling.k8s.io/podgroups", GroupSeen)
        self._slices = sources.of("resource.k8s.io/resourceslices", SliceSeen)
        self._slices.index("pool", lambda one: (one.pool,))
        self._rules = sources.of("resource.k8s.io/devicetaintrules", RuleSeen)
        self._claims = sources.of("resource.k8s.io/resourceclaims", ClaimSeen)
        self._claims.index("consumer", lambda claim: claim.consumers)
        self._claims.index("pool", lambda claim: {(one.driver, one.pool) for one in claim.results})
        if self.context.registry.kinds.readable(_GROUP, "DeviceTaintRule") is not None:
            self._rules.add_handler(self._rule_changed)
        self._slices.add_handler(self._slice_changed)
        self._claims.add_handler(self._claim_changed)
        self._pods.add_handler(self._pod_changed)

    # -- what is queued -----------------------------------------------------------------------------------------------

    def _rule_changed(self, old: RuleSeen | None, new: RuleSeen | None) -> None:
        if new is None and old is not None:
            self._evicted.pop(old.metadata.uid, None)
        if old is not None and new is not None and old.spec == new.spec:
            return
        if new is not None:
            self.queue(("rule", "", new.metadata.name))
        rules = [rule for rule in (old, new) if rule is not None and rule.spec.taint.effect == _NO_EXECUTE]
        for claim in self._claims.items.values() if rules else ():
            if any(rule.selects(one) for rule in rules for one in claim.results):
                self._queue_users(claim)

    def _slice_changed(self, old: SliceSeen | None, new: SliceSeen | None) -> None:
        for one in (old, new):
            if one is None or not (one.tainted or (old is not None and old.tainted)):
                continue
            for claim in self._claims.some("pool", one.pool):
                self._queue_users(claim)

    def _claim_changed(self, old: ClaimSeen | None, new: ClaimSeen | None) -> None:
        if new is not None and new.results and (old is None or old.status != new.status):
            self._queue_users(new)

    def _pod_changed(self, old: PodSeen | None, new: PodSeen | None) -> None:
        if new is not None and new.has_claims and new.node and (old is None or old.node != new.node):
            self.queue(("pod", *new.key))

    def _queue_users(self, claim: ClaimSeen) -> None:
        for pod in self._users(claim):
            self.queue(("pod", *pod.key))

    def _users(self, claim: ClaimSeen) -> Iterator[PodSeen]:
        """Yield the pods on nodes that a claim is reserved for; of a group's those with any claims."""
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

    def _group_uid(self, pod: PodSeen) -> str | None:
        group = self._groups.items.get((pod.metadata.namespace, pod.group)) if pod.group else None
        return group.metadata.uid if group is not None else None

    # -- when a pod must be evicted ------------------------------------------------------------------------------------

    def _eviction(self, claim: ClaimSeen, rules: Iterable[RuleSeen]) -> ClaimEviction | None:
        """Return the earliest end of what the claim's requests tolerate, with all rules that end something."""
        found: ClaimEviction | None = None
        for result in claim.results:
            for taint, rule in self._taints(result, rules):
                when = self._end(result, taint, rule)
                if when is None:
                    continue
                names = frozenset({rule.metadata.name}) if rule is not None else frozenset()
                before = found or ClaimEviction(when)
                found = ClaimEviction(min(when, before.when), before.rules | names)
        return found

    def _taints(self, result: ResultSeen, rules: Iterable[RuleSeen]) -> Iterator[tuple[TaintSeen, RuleSeen | None]]:
        there = self._slices.some("pool", (result.driver, result.pool))
        newest = max((one.spec.pool.generation for one in there), default=0)
        for one in there:
            if one.spec.pool.generation != newest:
                continue
            for device in one.spec.devices or ():
                if device.name == result.device:
                    yield from ((taint, None) for taint in device.taints or () if taint.effect == _NO_EXECUTE)
        yield from ((rule.spec.taint, rule) for rule in rules if rule.selects(result))

    def _end(self, result: ResultSeen, taint: TaintSeen, rule: RuleSeen | None) -> datetime | None:
        """Until when the request puts up with the taint; None: forever. `tolerationSeconds` is of NoExecute alone."""
        executing = TaintSeen(taint.key, _NO_EXECUTE, taint.value)
        used = [one for one in result.tolerations or () if tolerates(one, executing)]
        seconds = [one["tolerationSeconds"] for one in used if _limited(one)]
        if len(used) > len(seconds):
            return None
        since = self._since(result, taint, rule)
        return tolerated_until(since, min(seconds)) if seconds else since

    def _since(self, result: ResultSeen, taint: TaintSeen, rule: RuleSeen | None) -> datetime:
        if taint.time_added:
            return parse_stamp(taint.time_added)
        place = (rule.metadata.uid,) if rule is not None else (result.driver, result.pool, result.device)
        if len(self._first_seen) > _MOST_FIRST_SEEN:
            self._first_seen.clear()
        return self._first_seen.setdefault((*place, taint.key, taint.value), self.context.now())

    def _executing(self) -> list[RuleSeen]:
        """Return the rules that evict, none where they are not served."""
        if self.context.registry.kinds.readable(_GROUP, "DeviceTaintRule") is None:
            return []
        return [rule for _, rule in sorted(self._rules.items.items()) if rule.spec.taint.effect == _NO_EXECUTE]

    # -- the work ----------------------------------------------------------------------------------------------------

    def reconcile(self, key: Task) -> None:
        """Delete a pod at its time; update the status of a rule."""
        if key[0] == "rule":
            self._update_status(key[2])
        else:
            self._pod((key[1], key[2]))

    def _pod(self, key: Key) -> None:
        pod = self._pods.items.get(key)
        if pod is None or not pod.active or not pod.node:
            return
        rules = self._executing()
        claims = {key[0] + "/" + one.metadata.name: one for one in self._claims.some("consumer", pod.metadata.uid)}
        group = self._group_uid(pod)
        state = self.context.registry.store.head("pods", *key)
        if state is None:
            return
        body = state.decode()
        if group is not None:
            named = set(_claims_named(body))
            for one in self._claims.some("consumer", group):
                if one.metadata.name in named:
                    claims[key[0] + "/" + one.metadata.name] = one
        ends = [found for one in claims.values() if (found := self._eviction(one, rules)) is not None]
        if not ends:
            return
        because = frozenset[str]().union(*(one.rules for one in ends))
        when = min(one.when for one in ends)
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
        """Bring the condition of a rule up to date, unless that was done a moment ago."""
        rule = self._rules.items.get(("", name))
        if rule is None:
            return
        row, now = self.context.kind(_GROUP, "DeviceTaintRule"), self.context.now()
        found = self.context.find(row, ("", name))
        known = condition_of((found or {}).get("status"), _IN_PROGRESS)
        if known is not None and known.get("observedGeneration") == rule.metadata.generation:
            rest = _PERIOD - (now - parse_stamp(known["lastTransitionTime"])).total_seconds()
            if rest > 0:
                self.queue_after(("rule", "", name), rest)
                return
        made = {**self._condition(rule), "observedGeneration": rule.metadata.generation}
        if known is not None and all(known.get(part, "") == value for part, value in made.items()):
            return
        made["lastTransitionTime"] = self.context.stamp()
        self.context.modify(
            row, ("", name), lambda obj: set_condition(obj.setdefault("status", {}), made), "status", _SOURCE
        )

    def _condition(self, rule: RuleSeen) -> Json:
        effect, evicted = rule.spec.taint.effect, len(self._evicted.get(rule.metadata.uid, ()))
        status, message = "False", ""
        if effect == _NO_EXECUTE:
            pods, namespaces = self._concerned(rule)
            reason = "Completed" if evicted else "NotStarted"
            if pods:
                status, reason = "True", "PodsPendingEviction"
                need = "1 pod needs" if pods == 1 else f"{pods} pods need"
                message = f"{need} to be evicted in {_spaces(namespaces)}."
        elif effect == "None":
            pods, namespaces = self._concerned(rule)
            published = sum(rule.selects(one) for one in self._published())
            allocated = sum(rule.selects(one) for claim in self._claims.items.values() for one in claim.results)
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

    def _concerned(self, rule: RuleSeen) -> tuple[int, int]:
        """Return pods that must be evicted for a rule, as if its effect were NoExecute, and their namespaces."""
        concerned: set[Key] = set()
        for claim in self._claims.items.values():
            if any(rule.selects(one) for one in claim.results):
                found = self._eviction(claim, (rule,))
                if found is not None and rule.metadata.name in found.rules:
                    concerned.update(pod.key for pod in self._users(claim) if pod.active)
        return len(concerned), len({namespace for namespace, _ in concerned})

    def _published(self) -> Iterator[ResultSeen]:
        newest: dict[tuple[str, str], int] = {}
        for one in self._slices.items.values():
            newest[one.pool] = max(newest.get(one.pool, 0), one.spec.pool.generation)
        for one in self._slices.items.values():
            if one.spec.pool.generation == newest[one.pool]:
                for device in one.spec.devices or ():
                    yield ResultSeen(*one.pool, device.name)


_MOST_FIRST_SEEN = 10_000


def _limited(toleration: Json) -> bool:
    return toleration.get("effect") == _NO_EXECUTE and toleration.get("tolerationSeconds") is not None


def _claims_named(pod: Json) -> Iterator[str]:
    """Yield the claims that a pod names itself, or has made from templates."""
    for one in pod["spec"].get("resourceClaims") or ():
        if one.get("resourceClaimName"):
            yield one["resourceClaimName"]
    for one in (pod.get("status") or {}).get("resourceClaimStatuses") or ():
        if one.get("resourceClaimName"):
            yield one["resourceClaimName"]


def _many(count: int, what: str) -> str:
    return f"1 {what}" if count == 1 else f"{count} {what}s"


def _spaces(count: int) -> str:
    return "1 namespace" if count == 1 else f"{count} different namespaces"
