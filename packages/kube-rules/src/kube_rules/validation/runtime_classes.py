"""Rules of RuntimeClasses (kube-apiserver 1.36, node validation)."""

from __future__ import annotations

from kube_rules.json import Json
from kube_rules.validation import metadata, names, resources, selectors
from kube_rules.validation import rows as r


def _overhead(overhead: Json, path: str) -> r.Found:
    return resources.requirements({"limits": overhead.get("podFixed") or {}}, path)


runtime_class: r.Check = r.all_of(
    r.formed("handler", names.dns_label, "always"),
    r.given("overhead", _overhead),
    r.given("scheduling", r.given("nodeSelector", metadata.label_map), selectors.tolerations),
)
"""Check handler, overhead and scheduling."""
