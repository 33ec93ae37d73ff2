"""The status of validating policies: the results of type checking their expressions (interfaces.md 6.14)."""

from __future__ import annotations

from kube_rules.json import Json
from kube_standin.controllers.reconciler import Controller
from kube_standin.controllers.views import SpecView
from kube_standin.policies.expression_types import expression_warnings


class PolicyTypes(Controller):
    """The controller that checks the expressions of each generation of a policy once; keys are names of policies."""

    name = "validatingadmissionpolicy-status"

    def connect(self) -> None:
        """Queue a policy when it changes."""
        self._row = self.context.kind("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy")
        self.context.sources.of(self._row.storage_key, SpecView).add_handler(self._changed)

    def _changed(self, old: SpecView | None, new: SpecView | None) -> None:
        if new is not None and (old is None or old.spec != new.spec):
            self.queue(new.metadata.name)

    def reconcile(self, key: str) -> None:
        """Write the status of a policy."""
        policy = self.context.find(self._row, ("", key))
        if policy is None:
            return
        generation = policy["metadata"].get("generation", 1)
        status = policy.get("status") or {}
        if status.get("observedGeneration", 0) >= generation:
            return
        warnings = expression_warnings(policy.get("spec") or {}, self.context.registry.kinds)
        checking: Json = {"expressionWarnings": warnings} if warnings else {}
        self.context.set_status(
            self._row, ("", key), {**status, "observedGeneration": generation, "typeChecking": checking}
        )
