"""Discovery of a server's groups, versions and resources, and the version of each kind to use.

Terms: a resource is a kind in one version with its path. Aggregated discovery (Kubernetes 1.27) returns all groups in
one document; older servers are queried group by group.

Rules: Workload and PodGroup are used in the best native version. The custom resources of `scheduling.reprieve.dev` and,
for PodGroup only, of `scheduling.x-k8s.io` are read, too (api.md): a cluster that migrates between them has both for a
while.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

import msgspec

from kube_rules.decoding import KINDS
from kube_rules.group_owners import OWNER_KINDS
from kube_rules.versions import READABLE_VERSIONS, version_rank
from reprieve.client.errors import ApiError
from reprieve.client.transport import ApiClient

_AGGREGATED: Final = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind in one version, with its path."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        """Return the API version, such as `v1` or `apps/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """Return the path of the collection (of a namespace, or of all), of an object, or of its subresource."""
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if namespace is not None and self.namespaced:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        parts += [quote(part, safe="") for part in (name, subresource) if part is not None]
        return "/" + "/".join(parts)

    def __str__(self) -> str:
        return f"{self.plural}.{self.version}.{self.group}" if self.group else self.plural


class ServedResources:
    """The resources of a server."""

    def __init__(self, resources: Iterable[Resource], unavailable: Iterable[str] = ()) -> None:
        self._by_kind = {(resource.api_version, resource.kind): resource for resource in resources}
        self.unavailable = tuple(unavailable)
        """Group versions that could not be queried (an aggregated API that is down), with the reason."""

    def become(self, later: ServedResources) -> None:
        """Replace the content with a later discovery, for all holders of this object."""
        self._by_kind = later._by_kind
        self.unavailable = later.unavailable

    def find(self, kind: str, api_versions: Iterable[str]) -> Resource | None:
        """Return the kind in the first served version."""
        return next((resource for v in api_versions if (resource := self._by_kind.get((v, kind))) is not None), None)

    def version_of(self, kind: str) -> str | None:
        """Return the newest version of the strongest API group that serves a kind; None if it is not served."""
        return next((resource.api_version for resource in self.readable(kind)), None)

    def readable(self, kind: str) -> tuple[Resource, ...]:
        """Return the newest version of each API group from which to read a kind, the strongest group first.

        Empty if it is not served. Of two objects of one name that of the stronger group counts.
        """
        by_group: dict[str, list[str]] = {}
        for version in READABLE_VERSIONS.get(kind, KINDS[kind][1]):
            by_group.setdefault(version.rpartition("/")[0], []).append(version)
        newest = (sorted(names, key=lambda name: version_rank(name.rpartition("/")[2])) for names in by_group.values())
        best = (self.find(kind, versions) for versions in newest)
        return tuple(item for item in best if item is not None)


class _ServedKind(msgspec.Struct, frozen=True):
    kind: str = ""


class _AggregatedResource(msgspec.Struct, frozen=True, rename="camel"):
    resource: str = ""
    response_kind: _ServedKind | None = None
    scope: str = ""


class _AggregatedVersion(msgspec.Struct, frozen=True, rename="camel"):
    version: str = ""
    resources: tuple[_AggregatedResource, ...] | None = None


class _Metadata(msgspec.Struct, frozen=True):
    name: str = ""


class _AggregatedGroup(msgspec.Struct, frozen=True, rename="camel"):
    metadata: _Metadata = _Metadata()
    versions: tuple[_AggregatedVersion, ...] | None = None


class _GroupVersion(msgspec.Struct, frozen=True, rename="camel"):
    version: str = ""
    group_version: str = ""


class _Group(msgspec.Struct, frozen=True):
    name: str = ""
    versions: tuple[_GroupVersion, ...] | None = None


class _Document(msgspec.Struct, frozen=True):
    """An APIGroupDiscoveryList (`items`) or an APIGroupList (`groups`)."""

    kind: str = ""
    items: tuple[_AggregatedGroup, ...] | None = None
    groups: tuple[_Group, ...] | None = None


class _ResourceEntry(msgspec.Struct, frozen=True):
    name: str = ""
    kind: str = ""
    namespaced: bool = False


class _ResourceList(msgspec.Struct, frozen=True):
    resources: tuple[_ResourceEntry, ...] | None = None


_WANTED: Final[Mapping[str, tuple[str, ...]]] = {
    kind: READABLE_VERSIONS.get(kind, versions) for kind, (_, versions) in KINDS.items()
}
WANTED_VERSIONS: Final = tuple(
    dict.fromkeys([v for versions in _WANTED.values() for v in versions] + [kind.API_VERSION for kind in OWNER_KINDS])
)
"""The group versions in which kinds of `kube_rules` are read."""


async def discover(client: ApiClient) -> ServedResources:
    """Discover the served kinds of `kube_rules`. Raises ApiError and UnreachableError."""
    groups = (await client.get("/apis", accept=_AGGREGATED)).read(_Document)
    if groups.items is None:
        return await _one_by_one(client, groups)
    core = (await client.get("/api", accept=_AGGREGATED)).read(_Document)
    return ServedResources(
        Resource(group.metadata.name, version.version, item.resource, item.response_kind.kind, item.scope != "Cluster")
        for group in (*(core.items or ()), *groups.items)
        for version in group.versions or ()
        for item in version.resources or ()
        if item.response_kind is not None
    )


async def _one_by_one(client: ApiClient, groups: _Document) -> ServedResources:
    served = {version.group_version for group in groups.groups or () for version in group.versions or ()} | {"v1"}
    resources: list[Resource] = []
    unavailable: list[str] = []
    for api_version in WANTED_VERSIONS:
        if api_version not in served:
            continue
        group, _, version = api_version.rpartition("/")
        try:
            answer = await client.get(f"/apis/{api_version}" if group else f"/api/{api_version}")
        except ApiError as error:
            if error.code in (404, 503):
                unavailable.append(f"{api_version}: {error}")
                continue
            raise
        resources += [
            Resource(group, version, entry.name, entry.kind, entry.namespaced)
            for entry in answer.read(_ResourceList).resources or ()
            if "/" not in entry.name
        ]
    return ServedResources(resources, unavailable)
