"""The rules of ClusterRoles with an `aggregationRule` (kube-controller-manager 1.36, clusterroleaggregation)."""

from __future__ import annotations

from collections.abc import Mapping

from kube_rules.json import Json
from kube_rules.selectors import compile_selector


def aggregated_rules(name: str, roles: Mapping[str, Json]) -> list[Json] | None:
    """Return the rules of the roles that a role selects, each once, in order of role names; None without selectors.

    ``roles`` are all ClusterRoles by name.
    """
    selectors = (roles[name].get("aggregationRule") or {}).get("clusterRoleSelectors")
    if not selectors:
        return None
    compiled_selectors = [compile_selector(selector) for selector in selectors]
    rules: list[Json] = []
    for role in sorted(roles):
        labels = roles[role]["metadata"].get("labels") or {}
        if role != name and any(selector.matches(labels) for selector in compiled_selectors):
            rules += [rule for rule in roles[role].get("rules") or () if rule not in rules]
    return rules
