"""Admission by ResourceQuota: a create that would exceed a quota of its namespace is refused (403).

The rules are `kube_rules.admission.quotas`. Only ``status.hard`` and
``status.used`` count: a quota with an empty status restricts nothing (538). Invariant: the use of an admitted
object is added to ``status.used`` in the same turn in which the object is staged, so concurrent creates cannot
exceed a quota together. The quota controller subtracts usage that ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from kube_rules.admission.amounts import Amount, Amounts, added, amounts, printed
from kube_rules.admission.quotas import QuotaError, afford, charge_for, counted, growth_of
from kube_rules.admission.usage import classes_of_group, classes_of_groups, has_class_scope, in_scope
from kube_rules.json import Json
from kube_standin.admission.groups import GROUPS, STORED_GROUPS
from kube_standin.admission_chain import AdmissionRequest, Objects, Step
from kube_standin.storage import Store, StoredObject

_QUOTAS = "resourcequotas"
_GROWS = frozenset(("services", "persistentvolumeclaims"))
"""Resources with usage that an update can raise."""


class _Charge(NamedTuple):
    """The amounts to charge to one quota."""

    namespace: str
    name: str
    amounts: Amounts


def _charge(store: Store, charges: Sequence[_Charge]) -> None:
    """Add the use of an object to quotas, including what others were charged meanwhile."""
    for charge in charges:
        state = store.head(_QUOTAS, charge.namespace, charge.name)
        if state is None:
            continue
        quota = state.decode()
        status = quota["status"]
        status["used"] = printed(added(amounts(status.get("used")), charge.amounts))
        store.put(_QUOTAS, state.namespace, state.name, quota, state)


def class_names(registry: Objects, namespace: str, changed: Json | None = None) -> Callable[[Json], frozenset[str]]:
    """Return a function from a pod of the namespace to the priority classes of its groups (cost.md 7.7).

    Each group is read once; `changed` is the new form of a group.
    """
    known: dict[tuple[str, str], Json | None] = {}
    if changed is not None:
        known[changed["kind"], changed["metadata"]["name"]] = changed

    def find(kind: str, name: str) -> Json | None:
        if (kind, name) not in known:
            state = registry.store.head(STORED_GROUPS[kind], namespace, name)
            known[kind, name] = None if state is None else state.decode()
        return known[kind, name]

    return lambda pod: classes_of_groups(pod, find)


class ResourceQuotaAdmission(Step):
    """Checks new objects against the quotas of their namespace and charges them; the last step of the chain."""

    runs_last = True

    def validate(self, request: AdmissionRequest) -> None:
        """Check the added use against every quota that covers it; the charges are written once the object is staged."""
        kind = request.kind
        resized = kind.resource == "pods" and request.subresource == "resize"
        if not kind.namespaced or request.operation == "DELETE" or not kind.stored:
            return
        if request.subresource and not resized:
            return
        if kind.resource in GROUPS:
            self._regroup(request)
        if request.operation == "UPDATE" and kind.resource not in _GROWS and not resized:
            return
        states = list(request.registry.store.heads(_QUOTAS, request.namespace))
        if not states:
            return
        growth = growth_of(kind.resource, request.new, request.old, request.registry.clock.now())
        charges = [charge for state in states if (charge := self._check(request, state, growth)) is not None]
        if charges:
            request.on_staged.append(partial(_charge, request.registry.store, charges))

    @staticmethod
    def _regroup(request: AdmissionRequest) -> None:
        """Charge the pods of a group that changed its classes to other quotas, or refuse the change."""
        registry, namespace = request.registry, request.namespace
        if classes_of_group(request.new) == classes_of_group(request.old or {}):
            return
        states = [stored for stored in registry.store.heads(_QUOTAS, namespace) if has_class_scope(stored.decode())]
        if not states:
            return
        changed = {**request.new, "kind": request.kind.kind}
        before, after = class_names(registry, namespace), class_names(registry, namespace, changed)
        regrouped = [
            (pod, before(pod), after(pod))
            for pod in (state.decode() for state in registry.store.heads("pods", namespace))
            if before(pod) != after(pod)
        ]
        now = registry.clock.now()
        charges = []
        for state in states:
            quota = state.decode()
            status = quota.get("status") or {}
            hard, more = amounts(status.get("hard")), Amounts()
            for pod, old, new in regrouped:
                if not in_scope(quota, "pods", pod, old):
                    more = added(more, counted(quota, hard, "pods", pod, now, new))
            try:
                afford(state.name, hard, amounts(status.get("used")), more)
            except QuotaError as refusal:
                raise request.refused(str(refusal)) from None
            if more:
                charges.append(_Charge(state.namespace, state.name, more))
        if charges:
            request.on_staged.append(partial(_charge, registry.store, charges))

    @staticmethod
    def _check(request: AdmissionRequest, state: StoredObject, growth: Mapping[str, Amount]) -> _Charge | None:
        """Refuse an object that exceeds one quota; return its charge, None if the quota does not cover it."""
        quota = state.decode()
        status = quota.get("status") or {}
        hard, used = amounts(status.get("hard")), amounts(status.get("used"))
        new, resource = request.old is None, request.kind.resource
        claim = resource == "persistentvolumeclaims"
        if claim and request.old is not None and not in_scope(quota, resource, request.old):
            growth = growth_of(resource, request.new, None, request.registry.clock.now())  # it enters the scope
        classes = class_names(request.registry, request.namespace)(request.new) if resource == "pods" else ()
        try:
            charge = charge_for(
                state.name, quota, hard, used, resource, request.new, growth, created=new, classes=classes
            )
        except QuotaError as refusal:
            raise request.refused(str(refusal)) from None
        return _Charge(state.namespace, state.name, charge) if charge else None
