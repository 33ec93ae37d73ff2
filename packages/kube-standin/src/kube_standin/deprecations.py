"""Warnings about API versions that a newer version replaces, sent with every response in the old one (api.md 2.6).

Texts: k8s.io/apiserver, `endpoints/deprecation`; apiextensions-apiserver for custom resources.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kube_rules.versions import SCHEDULING_GROUP, version_rank
from kube_standin.kinds import KindTable, ServedKind

_LIFECYCLE: Final[Mapping[tuple[str, str], str]] = {
    (SCHEDULING_GROUP, "v1beta1"): " in v1.40+, unavailable in v1.43+",
    (SCHEDULING_GROUP, "v1alpha3"): "",
    ("flowcontrol.apiserver.k8s.io", "v1beta3"): " in v1.29+, unavailable in v1.32+",
}
"""Deprecated version of a group -> when Kubernetes deprecates and removes it; alpha versions have no dates.

The responses in v1alpha2 are those of 1.36, which has no newer version.
"""


def deprecation_of(kind: ServedKind, kinds: KindTable) -> str | None:
    """Return the warning about the version of ``kind``; None if it is the newest served version."""
    if kind.custom:
        return _of_custom(kind, kinds)
    if kind.kind == "ComponentStatus":
        return f"{kind.api_version} {kind.kind} is deprecated in v1.19+"  # nothing replaces it
    when = _LIFECYCLE.get((kind.group, kind.version))
    if when is None:
        return None
    newest = min(kinds.versions_of(kind), key=lambda row: version_rank(row.version))
    if newest.version == kind.version:
        return None
    return f"{kind.api_version} {kind.kind} is deprecated{when}; use {newest.api_version} {newest.kind}"


def _of_custom(kind: ServedKind, kinds: KindTable) -> str | None:
    """Return the warning of a deprecated version of a definition; the newest stable version replaces it."""
    entry = kind.definition or {}
    if not entry.get("deprecated"):
        return None
    if entry.get("deprecationWarning") is not None:
        return str(entry["deprecationWarning"])
    text = f"{kind.api_version} {kind.kind} is deprecated"
    better = [
        row
        for row in kinds.versions_of(kind)
        if not (row.definition or {}).get("deprecated") and version_rank(row.version) < version_rank(kind.version)
    ]
    if not better:
        return text
    newest = min(better, key=lambda row: version_rank(row.version))
    return f"{text}; use {newest.api_version} {newest.kind}"
