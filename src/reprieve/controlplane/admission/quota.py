"""ResourceQuota at the door: a create that would exceed a quota of its namespace is refused (403).

Rules: kube-apiserver's ResourceQuota plugin; recorded answers 537 to 547. What counts is ``status.hard`` and
``status.used``: a quota whose status is still empty restricts nothing (538). Invariant: the use of an admitted
object is added to ``status.used`` in the same turn in which the object is staged, so concurrent creates cannot
exceed a quota together. Use that ends is taken off by the quota controller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from reprieve.controlplane.admission.usage import in_scope, unspecified, usage_of
from reprieve.controlplane.admission_chain import Request, Step
from reprieve.controlplane.amounts import Amount, Amounts, added, amounts, printed, subtracted
from reprieve.controlplane.storage import Store, Stored

_QUOTAS = "resourcequotas"
_GROWS = frozenset(("services", "persistentvolumeclaims"))
"""Resources whose use an update may raise."""


class _Charge(NamedTuple):
    """What one quota is to be charged with."""

    namespace: str
    name: str
    amounts: Amounts


def _charge(store: Store, charges: Sequence[_Charge]) -> None:
    """Write down what an object uses, on top of what others were charged meanwhile."""
    for charge in charges:
        state = store.head(_QUOTAS, charge.namespace, charge.name)
        if state is None:
            continue
        quota = state.decode()
        status = quota["status"]
        status["used"] = printed(added(amounts(status.get("used")), charge.amounts))
        store.put(_QUOTAS, state.namespace, state.name, quota, state)


class ResourceQuota(Step):
    """Checks new objects against the quotas of their namespace and charges them; the last step of the chain."""

    def validate(self, request: Request) -> None:
        """Check what the object adds against every quota that covers it; the charges are written once it is staged."""
        kind = request.kind
        if not kind.namespaced or request.subresource or request.operation == "DELETE" or not kind.stored:
            return
        if request.operation == "UPDATE" and kind.resource not in _GROWS:
            return
        states = list(request.registry.store.heads(_QUOTAS, request.namespace))
        if not states:
            return
        delta = self._delta(request)
        charges = [charge for state in states if (charge := self._check(request, state, delta)) is not None]
        if charges:
            request.on_staged.append(partial(_charge, request.registry.store, charges))

    @staticmethod
    def _delta(request: Request) -> Amounts:
        now = request.registry.clock.now()
        new = usage_of(request.kind, request.new, now)
        if request.old is None:
            return new
        change = subtracted(new, usage_of(request.kind, request.old, now))
        return {name: one for name, one in change.items() if one.nano > 0}

    def _check(self, request: Request, state: Stored, delta: Mapping[str, Amount]) -> _Charge | None:
        """Refuse what exceeds one quota; returns what to charge it with, None if it is not concerned."""
        quota = state.decode()
        status = quota.get("status") or {}
        hard = amounts(status.get("hard"))
        concerned = {name: one for name, one in delta.items() if name in hard}
        if request.old is None and request.kind.resource == "pods":
            missing = unspecified(request.new, hard)
            if missing and in_scope(quota, request.kind, request.new):
                raise request.refused(f"failed quota: {state.name}: {missing}")
        if not concerned or not in_scope(quota, request.kind, request.new):
            return None
        used = amounts(status.get("used"))
        unknown = sorted(name for name in concerned if name not in used)
        if unknown:
            raise request.refused(f"status unknown for quota: {state.name}, resources: {','.join(unknown)}")
        after = added(used, concerned)
        exceeded = [name for name in sorted(concerned) if after[name].nano > hard[name].nano]
        if exceeded:
            parts = (("requested", concerned), ("used", used), ("limited", hard))
            text = ", ".join(
                f"{word}: " + ",".join(f"{name}={source[name].text}" for name in exceeded) for word, source in parts
            )
            raise request.refused(f"exceeded quota: {state.name}, {text}")
        return _Charge(state.namespace, state.name, concerned)
