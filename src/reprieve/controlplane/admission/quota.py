"""ResourceQuota at the door: a create that would exceed a quota of its namespace is refused (403).

The rules are `reprieve.api.admission.quotas`. What counts is ``status.hard`` and
``status.used``: a quota whose status is still empty restricts nothing (538). Invariant: the use of an admitted
object is added to ``status.used`` in the same turn in which the object is staged, so concurrent creates cannot
exceed a quota together. Use that ends is taken off by the quota controller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from reprieve.api.admission.amounts import Amount, Amounts, added, amounts, printed
from reprieve.api.admission.quotas import QuotaError, charge_for, growth_of
from reprieve.controlplane.admission_chain import Request, Step
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
        growth = growth_of(kind.resource, request.new, request.old, request.registry.clock.now())
        charges = [charge for state in states if (charge := self._check(request, state, growth)) is not None]
        if charges:
            request.on_staged.append(partial(_charge, request.registry.store, charges))

    @staticmethod
    def _check(request: Request, state: Stored, growth: Mapping[str, Amount]) -> _Charge | None:
        """Refuse what exceeds one quota; returns what to charge it with, None if it is not concerned."""
        quota = state.decode()
        status = quota.get("status") or {}
        hard, used = amounts(status.get("hard")), amounts(status.get("used"))
        new, resource = request.old is None, request.kind.resource
        try:
            charge = charge_for(state.name, quota, hard, used, resource, request.new, growth, created=new)
        except QuotaError as refusal:
            raise request.refused(str(refusal)) from None
        return _Charge(state.namespace, state.name, charge) if charge else None
