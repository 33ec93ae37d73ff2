"""The rules of ClusterRoles with an `aggregationRule` (kube-controller-manager 1.36, clusterroleaggregation)."""

from __future__ import annotations

from collections.abc import Mapping

from kube_rules.json import Json
from kube_rules.selectors import compile_selector


def aggregated_rules(name: str, roles: Mapping[str, Json]) -> list[Json] | None:
    """Return the rules of the roles that a role selects, each once, by the names of the roles; None if it selects none.

    ``roles`` are all ClusterRoles by name.
    """
    selectors = (roles[name].get("aggregationRule") or {}).get("clusterRoleSelectors")
    if not selectors:
        return None
    chosen = [compile_selector(one) for one in selectors]
    found: list[Json] = []
    for other in sorted(roles):
        labels = roles[other]["metadata"].get("labels") or {}
        if other != name and any(one.matches(labels) for one in chosen):
            found += [rule for rule in roles[other].get("rules") or () if rule not in found]
    return found
