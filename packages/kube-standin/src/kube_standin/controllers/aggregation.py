"""ClusterRoles with an `aggregationRule`: their rules are those of the roles that it selects (interfaces.md 5.13)."""

from __future__ import annotations

from kube_rules.controllers.cluster_roles import aggregated_rules
from kube_rules.json import Json
from kube_standin.controllers.reconciler import Controller
from kube_standin.controllers.views import ObjectView

_ONE = "all"


class ClusterRoleAggregation(Controller):
    """The controller that writes the rules of aggregated roles; it has one key, as a role may be part of several."""

    name = "clusterrole-aggregation"

    def connect(self) -> None:
        """Queue the key when any role changes."""
        self._row = self.context.kind("rbac.authorization.k8s.io/v1", "ClusterRole")
        self.context.sources.of(self._row.storage_key, ObjectView).add_handler(lambda old, new: self.queue(_ONE))

    def reconcile(self, key: str) -> None:
        """Collect the rules; writing a role that is part of another one queues the next sync."""
        states = list(self.context.registry.store.heads(self._row.storage_key))
        roles = {state.name: state.decode() for state in states}
        for name, role in roles.items():
            rules = aggregated_rules(name, roles)
            if rules is not None and rules != (role.get("rules") or []):
                self._write(name, rules)

    def _write(self, name: str, rules: list[Json]) -> None:
        def change(obj: Json) -> None:
            obj["rules"] = rules

        self.context.modify(self._row, ("", name), change)
