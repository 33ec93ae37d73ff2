"""Discovery: /api, /apis, their groups and versions, in the plain and the aggregated form; /version.

The documents are derived from the table of kinds and cached until the table changes.
"""

from __future__ import annotations

import base64
import hashlib
import platform

from kube_rules.json import Json
from kube_standin.kinds import KindTable, ServedKind, subresource
from kube_standin.releases import NEWEST
from kube_standin.server.negotiation import parse_accept

_BUILD: Json = {
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "2026-01-01T00:00:00Z",
    "goVersion": "none",
    "compiler": f"{platform.python_implementation()} {platform.python_version()}",
    "platform": f"{platform.system().lower()}/{platform.machine()}",
}


def version_info(minor: int | None = None) -> Json:
    """Return the body of /version for a minor version; None is the release of the rules."""
    if minor is None:
        minor = NEWEST
    return {
        "major": "1",
        "minor": str(minor),
        "emulationMajor": "1",
        "emulationMinor": str(minor),
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": str(minor - 1),
        "gitVersion": f"v1.{minor}.0+reprieve",
        **_BUILD,
    }


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode()


def _further_names(kind: ServedKind) -> Json:
    names = {"shortNames": kind.short_names, "categories": kind.categories}
    return {field: list(words) for field, words in names.items() if words}


class Discovery:
    """Discovery documents of one table of kinds."""

    def __init__(self, kinds: KindTable, server_address: str) -> None:
        self._kinds = kinds
        self.address = server_address

    def core_versions(self) -> Json:
        """Return the document of GET /api."""
        return {
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": self.address}],
        }

    def groups(self) -> Json:
        """Return the document of GET /apis."""
        names = [name for name in self._kinds.groups() if name]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [self._group(name) for name in names]}

    def group(self, name: str) -> Json | None:
        """Return the document of GET /apis/GROUP, None for an unknown group."""
        if not name or name not in self._kinds.groups():
            return None
        return {"kind": "APIGroup", "apiVersion": "v1", **self._group(name)}

    def _group(self, name: str) -> Json:
        versions = [{"groupVersion": f"{name}/{version}", "version": version} for version in self._kinds.groups()[name]]
        return {"name": name, "versions": versions, "preferredVersion": versions[0]}

    def resources(self, group: str, version: str) -> Json | None:
        """Return the document of GET /api/v1 or /apis/GROUP/VERSION, None for an unknown one."""
        kinds = self._kinds.in_version(group, version)
        if not kinds:
            return None
        rows: list[Json] = []
        for kind in kinds:
            rows.append(self._resource(kind))
            rows.extend(self._subresource(kind, name) for name in sorted(kind.subresources))
        out: Json = {"kind": "APIResourceList"}
        if group:
            out["apiVersion"] = "v1"
        out["groupVersion"] = f"{group}/{version}" if group else version
        out["resources"] = rows
        return out

    @staticmethod
    def _resource(kind: ServedKind) -> Json:
        out: Json = {
            "name": kind.plural,
            "singularName": kind.singular,
            "namespaced": kind.namespaced,
            "kind": kind.kind,
            "verbs": list(kind.verbs),
        }
        out |= _further_names(kind)
        if kind.stored:
            version = kind.storage_version.rpartition("/")[2]
            out["storageVersionHash"] = _hash(f"{kind.group}/{version}/{kind.kind}")
        return out

    @staticmethod
    def _subresource(kind: ServedKind, name: str) -> Json:
        row = subresource(kind, name)
        out: Json = {"name": f"{kind.plural}/{name}", "singularName": "", "namespaced": kind.namespaced}
        if row.version:
            out["group"], out["version"] = row.group, row.version
        out["kind"] = row.kind
        out["verbs"] = list(row.verbs)
        return out

    def aggregated(self, core: bool, version: str) -> Json:
        """Return the document of GET /api or /apis in the aggregated form (``version`` v2 or v2beta1)."""
        items = [
            {
                "metadata": {"name": group} if group else {},
                "versions": [self._aggregated_version(group, name) for name in versions],
            }
            for group, versions in self._kinds.groups().items()
            if core == (group == "")
        ]
        return {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": f"apidiscovery.k8s.io/{version}",
            "metadata": {},
            "items": items,
        }

    def _aggregated_version(self, group: str, version: str) -> Json:
        resources: list[Json] = []
        for kind in self._kinds.in_version(group, version):
            out: Json = {
                "resource": kind.plural,
                "responseKind": {"group": "", "version": "", "kind": kind.kind},
                "scope": "Namespaced" if kind.namespaced else "Cluster",
                "singularResource": kind.singular,
                "verbs": list(kind.verbs),
            }
            out |= _further_names(kind)
            if kind.subresources:
                out["subresources"] = [self._aggregated_subresource(kind, name) for name in sorted(kind.subresources)]
            resources.append(out)
        return {"version": version, "resources": resources, "freshness": "Current"}

    @staticmethod
    def _aggregated_subresource(kind: ServedKind, name: str) -> Json:
        row = subresource(kind, name)
        return {
            "subresource": name,
            "responseKind": {"group": row.group, "version": row.version, "kind": row.kind},
            "verbs": list(row.verbs),
        }


def wants_aggregated(accept: str) -> str | None:
    """Return the version of the aggregated form that an Accept header prefers, None for the plain form."""
    for media, pairs in parse_accept(accept):
        parameters = dict(pairs)
        if media == "application/json" and parameters.get("as") is None:
            return None
        aggregated = parameters.get("g") == "apidiscovery.k8s.io" and parameters.get("as") == "APIGroupDiscoveryList"
        if media == "application/json" and aggregated and parameters.get("v") in ("v2", "v2beta1"):
            return parameters["v"]
    return None
