"""The table of kinds: the served kinds, their names, subresources and strategies.

Everything that depends on a kind (routing, discovery, storage keys, field selectors, generation counting, the response
to a DELETE) reads this table, so that a new kind needs only a row. Custom resources become rows at run time.

Terms: *resource* is the plural in URLs; *storage key* is where objects of a kind are stored: several versions of one
resource, and the two groups of Event, share it. ``storage_version`` is the apiVersion of the stored form. Short names,
categories and verbs are those of kube-apiserver discovery.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal

from kube_rules.admission.refusals import plural_of
from kube_rules.versions import SAME_FIELDS, SCHEDULING_GROUP, version_rank

if TYPE_CHECKING:
    from kube_standin.custom_versions import CustomVersions

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
CUSTOM_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")

StatusMetadata = Literal["taken", "labels-kept", "reset"]


@dataclass(frozen=True)
class Subresource:
    """A path below an object: the kind of its body and its verbs."""

    name: str
    verbs: tuple[str, ...]
    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        """Return the group and version of its body, if that is not an object of the resource."""
        return f"{self.group}/{self.version}" if self.group else "v1"


@dataclass(frozen=True, eq=False)
class ServedKind:
    """One row: a kind in one version of one group, and its strategy.

    Strategy fields (sources: kube-apiserver's registry strategies, the recorded answers of 1.36): ``generation``:
    metadata.generation counts spec changes. ``unconditional_update``: a PUT without a resourceVersion is accepted.
    ``create_on_update``: a PUT of a missing object creates it. ``status_on_create``: a status in a create body is kept.
    ``status_metadata``: the effect of a write to /status on labels, annotations, finalizers. ``graceful``: DELETE
    honours grace periods. ``returns_deleted``: DELETE returns the object, not a Status, even if it was removed at once.
    ``orphans``: a DELETE without a propagation policy orphans dependents, as before garbage collection. ``fields``:
    field-selector label -> dotted path in the stored object, besides metadata.name and metadata.namespace. ``stored``
    is False for review kinds, which are never stored.
    """

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    list_kind: str
    namespaced: bool
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: frozenset[str] = frozenset()
    verbs: tuple[str, ...] = ALL_VERBS
    storage_version: str = ""
    storage_key: str = ""
    generation: bool = False
    unconditional_update: bool = True
    create_on_update: bool = False
    status_on_create: bool = False
    status_metadata: StatusMetadata = "taken"
    graceful: bool = False
    returns_deleted: bool = False
    orphans: bool = False
    fields: Mapping[str, str] = field(default_factory=dict)
    stored: bool = True
    custom: bool = False
    terminating: bool = False
    """Whether the definition of a custom resource is being deleted, so that no new objects are created."""
    versions: CustomVersions | None = field(default=None, repr=False)
    """For a custom resource: conversion between its stored and served forms."""
    definition: Mapping[str, Any] | None = field(default=None, repr=False)
    """For a custom resource: the entry of its CRD's ``spec.versions``; None for built-in kinds."""

    @property
    def gvk(self) -> tuple[str, str, str]:
        """Return (group, version, kind)."""
        return (self.group, self.version, self.kind)

    @property
    def api_version(self) -> str:
        """Return ``v1`` for the core group, ``apps/v1`` otherwise."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def computed(self) -> bool:
        """Return whether its objects are computed for each read: metrics, component health."""
        return not self.stored and "list" in self.verbs

    @property
    def resource(self) -> str:
        """Return the plural with its group, as error messages name it: ``podgroups.scheduling.k8s.io``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


def _fields(text: str) -> dict[str, str]:
    """Return field-selector labels with their paths: `LABEL=PATH`, or just the label if it equals the path."""
    pairs = (word.partition("=") for word in text.split())
    return {label: path or label for label, _, path in pairs}


def _row(
    group: str,
    version: str,
    kind: str,
    short: str = "",
    *,
    namespaced: bool = True,
    categories: tuple[str, ...] = (),
    sub: str = "",
    stored_as: str = "",
    storage_key: str = "",
    fields: str = "",
    **strategy: Any,
) -> ServedKind:
    """Return a built-in kind.

    `short`, `sub` (subresources) and `fields` are lists of words, `stored_as` is an apiVersion.
    """
    plural = plural_of(kind)
    return ServedKind(
        group=group,
        version=version,
        kind=kind,
        plural=plural,
        singular=kind.lower(),
        list_kind=f"{kind}List",
        namespaced=namespaced,
        short_names=tuple(short.split()),
        categories=categories,
        subresources=frozenset(sub.split()),
        storage_version=stored_as or (f"{group}/{version}" if group else version),
        storage_key=storage_key or (f"{group}/{plural}" if group else plural),
        fields=_fields(fields),
        **strategy,
    )


DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
METRICS_GROUP = "metrics.k8s.io"
"""The usage of nodes and pods: computed, never stored."""
_CREATE = ("create",)
_NO_COLLECTION_DELETE = ("create", "delete", "get", "list", "patch", "update", "watch")
_ALL = ("all",)
_REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_POD_FIELDS = (
    "spec.nodeName spec.restartPolicy spec.schedulerName spec.serviceAccountName spec.hostNetwork status.phase "
    "status.podIP status.podIPs=status.podIP status.nominatedNodeName"
)
_EVENT_FIELDS = "reason reportingComponent source=source.component type " + " ".join(
    f"involvedObject.{name}" for name in _REFERENCE
)
_EVENT_V1_FIELDS = "reason reportingController=reportingComponent type " + " ".join(
    f"regarding.{name}=involvedObject.{name}" for name in _REFERENCE
)
_core = partial(_row, "", "v1")
_cluster = partial(_row, namespaced=False)
_apps = partial(_row, "apps", "v1", categories=_ALL, generation=True)
_batch = partial(_row, "batch", "v1", categories=_ALL, generation=True, sub="status")
_networking = partial(_row, "networking.k8s.io", "v1", generation=True)
_storage = partial(_cluster, "storage.k8s.io", "v1", returns_deleted=True)
_devices = partial(_row, "resource.k8s.io", "v1")
_rbac = partial(_row, "rbac.authorization.k8s.io", "v1", create_on_update=True)
_webhooks = partial(
    _cluster,
    "admissionregistration.k8s.io",
    "v1",
    categories=("api-extensions",),
    generation=True,
    unconditional_update=False,
)
_flow_control = partial(
    _cluster,
    "flowcontrol.apiserver.k8s.io",
    "v1",
    sub="status",
    generation=True,
    unconditional_update=False,
    status_metadata="reset",
)
_computed = partial(_row, verbs=("get", "list"), stored=False)
_review = partial(_cluster, verbs=_CREATE, stored=False)


def _scheduling(version: str) -> tuple[ServedKind, ...]:
    row = partial(_row, SCHEDULING_GROUP, version, stored_as=f"{SCHEDULING_GROUP}/v1beta1")
    return (row("PodGroup", sub="status", status_metadata="reset"), row("Workload"))


def _composite(version: str) -> ServedKind:
    stored = f"{SCHEDULING_GROUP}/v1alpha3"
    return _row(SCHEDULING_GROUP, version, "CompositePodGroup", sub="status", status_metadata="reset", stored_as=stored)


def _autoscaler(version: str) -> ServedKind:
    more: dict[str, Any] = {"categories": _ALL, "sub": "status", "stored_as": "autoscaling/v2"}
    return _row("autoscaling", version, "HorizontalPodAutoscaler", "hpa", **more)


def _with_older(rows: Iterable[ServedKind]) -> Iterator[ServedKind]:
    """Yield the rows, each version followed by its older versions with the same fields (api.md 2.8)."""
    for (group, version), of_version in groupby(rows, lambda row: (row.group, row.version)):
        version_rows = list(of_version)
        yield from version_rows
        for older, (newer, kinds) in SAME_FIELDS.items():
            if newer == f"{group}/{version}" and group != SCHEDULING_GROUP:
                older_version = older.rpartition("/")[2]
                yield from (replace(row, version=older_version) for row in version_rows if row.kind in kinds)


_ROWS: tuple[ServedKind, ...] = (
    _core("Binding", verbs=_CREATE, stored=False),
    _core("ConfigMap", "cm"),
    _core("Endpoints", "ep", create_on_update=True),
    _core("Event", "ev", create_on_update=True, fields=_EVENT_FIELDS),
    _core("LimitRange", "limits", create_on_update=True),
    _cluster("", "v1", "Namespace", "ns", sub="status finalize", verbs=_NO_COLLECTION_DELETE, fields="status.phase"),
    _cluster("", "v1", "Node", "no", sub="status", status_on_create=True, fields="spec.unschedulable"),
    _cluster("", "v1", "PersistentVolume", "pv", sub="status", returns_deleted=True),
    _core("PersistentVolumeClaim", "pvc", sub="status", returns_deleted=True),
    _core(
        "Pod",
        "po",
        categories=_ALL,
        graceful=True,
        generation=True,
        returns_deleted=True,
        sub="attach binding ephemeralcontainers eviction exec log portforward resize status",
        fields=_POD_FIELDS,
    ),
    _core("PodTemplate", generation=True, returns_deleted=True),
    _core(
        "ReplicationController",
        "rc",
        categories=_ALL,
        generation=True,
        sub="scale status",
        orphans=True,
        fields="status.replicas",
    ),
    _core("ResourceQuota", "quota", sub="status", returns_deleted=True),
    _core("Secret", fields="type"),
    _core(
        "Service",
        "svc",
        categories=_ALL,
        sub="status",
        create_on_update=True,
        returns_deleted=True,
        fields="spec.clusterIP spec.type",
    ),
    _core("ServiceAccount", "sa", sub="token", unconditional_update=False, returns_deleted=True),
    _row("apps", "v1", "ControllerRevision"),
    _apps("DaemonSet", "ds", sub="status"),
    _apps("Deployment", "deploy", sub="scale status", status_metadata="labels-kept"),
    _apps("ReplicaSet", "rs", sub="scale status", fields="status.replicas"),
    _apps("StatefulSet", "sts", sub="scale status"),
    _autoscaler("v2"),
    _autoscaler("v1"),
    _batch("CronJob", "cj"),
    _batch("Job", orphans=True, fields="status.successful=status.succeeded"),
    _cluster(SCHEDULING_GROUP, "v1", "PriorityClass", "pc", generation=True),
    *_scheduling("v1"),
    *_scheduling("v1beta1"),
    _composite("v1beta1"),
    *_scheduling("v1alpha3"),
    _composite("v1alpha3"),
    *_scheduling("v1alpha2"),
    _row("policy", "v1", "PodDisruptionBudget", "pdb", sub="status", generation=True, unconditional_update=False),
    _cluster(
        "certificates.k8s.io",
        "v1",
        "CertificateSigningRequest",
        "csr",
        sub="approval status",
        fields="spec.signerName",
    ),
    _networking("Ingress", "ing", sub="status"),
    _networking("IngressClass", namespaced=False),
    _networking("NetworkPolicy", "netpol"),
    _cluster("networking.k8s.io", "v1", "IPAddress", "ip"),
    _cluster("networking.k8s.io", "v1", "ServiceCIDR", sub="status", status_metadata="reset"),
    _row("coordination.k8s.io", "v1", "Lease", unconditional_update=False, create_on_update=True),
    _row("discovery.k8s.io", "v1", "EndpointSlice", generation=True),
    _row(
        "events.k8s.io",
        "v1",
        "Event",
        "ev",
        create_on_update=True,
        fields=_EVENT_V1_FIELDS,
        stored_as="v1",
        storage_key="events",
    ),
    _storage("CSIDriver", generation=True, unconditional_update=False),
    _storage("CSINode", unconditional_update=False),
    _row("storage.k8s.io", "v1", "CSIStorageCapacity", unconditional_update=False),
    _storage("StorageClass", "sc"),
    _storage("VolumeAttachment", sub="status", unconditional_update=False),
    _storage("VolumeAttributesClass", "vac"),
    _devices("DeviceClass", namespaced=False, generation=True),
    _devices("DeviceTaintRule", namespaced=False, generation=True, sub="status", status_metadata="reset"),
    _devices("ResourceClaim", sub="status", status_metadata="reset"),
    _devices("ResourceClaimTemplate"),
    _devices("ResourceSlice", namespaced=False, generation=True, fields="spec.nodeName spec.driver"),
    _cluster("node.k8s.io", "v1", "RuntimeClass", unconditional_update=False),
    _cluster(
        "apiregistration.k8s.io",
        "v1",
        "APIService",
        sub="status",
        categories=("api-extensions",),
        unconditional_update=False,
        status_metadata="reset",
    ),
    _flow_control("FlowSchema"),
    _flow_control("PriorityLevelConfiguration"),
    _rbac("ClusterRole", namespaced=False),
    _rbac("ClusterRoleBinding", namespaced=False),
    _rbac("Role"),
    _rbac("RoleBinding"),
    _webhooks("MutatingWebhookConfiguration"),
    _webhooks("ValidatingWebhookConfiguration"),
    _webhooks("MutatingAdmissionPolicy"),
    _webhooks("MutatingAdmissionPolicyBinding"),
    _webhooks("ValidatingAdmissionPolicy", sub="status", status_metadata="reset"),
    _webhooks("ValidatingAdmissionPolicyBinding"),
    _cluster(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "crd crds",
        categories=("api-extensions",),
        sub="status",
        generation=True,
        unconditional_update=False,
    ),
    _review("authentication.k8s.io", "v1", "SelfSubjectReview"),
    _review("authentication.k8s.io", "v1", "TokenReview"),
    _review("authorization.k8s.io", "v1", "LocalSubjectAccessReview", namespaced=True),
    _review("authorization.k8s.io", "v1", "SelfSubjectAccessReview"),
    _review("authorization.k8s.io", "v1", "SelfSubjectRulesReview"),
    _review("authorization.k8s.io", "v1", "SubjectAccessReview"),
)
BUILTIN: tuple[ServedKind, ...] = tuple(_with_older(_ROWS))
"""Kinds in all versions that any release serves; `Features.kinds` selects those of one release."""

COMPUTED: tuple[ServedKind, ...] = (
    _computed("", "v1", "ComponentStatus", "cs", namespaced=False),
    replace(_computed(METRICS_GROUP, "v1beta1", "NodeMetrics", namespaced=False), plural="nodes", singular=""),
    replace(_computed(METRICS_GROUP, "v1beta1", "PodMetrics"), plural="pods", singular=""),
)
"""Read-only kinds: component health, and the API of a metrics server."""

_BUILTIN_ROWS = {(row.api_version, row.kind): row for row in BUILTIN}

VERSION_ORDER: Mapping[str, tuple[str, ...]] = {SCHEDULING_GROUP: ("v1", "v1beta1", "v1alpha3", "v1alpha2")}
"""Preferred order of versions within a group; other groups have one version or keep the order of appearance."""

CONNECTIONS: Mapping[str, str] = {
    "attach": "PodAttachOptions",
    "exec": "PodExecOptions",
    "portforward": "PodPortForwardOptions",
}
"""Subresources of pods that connect to a container -> the kind of their options."""
STREAMS = frozenset((*CONNECTIONS, "log", "proxy"))
"""Subresources with requests that may last as long as the client likes."""
_READ_WRITE = ("get", "patch", "update")


def subresource(kind: ServedKind, name: str) -> Subresource:
    """Return the subresource ``name`` of ``kind`` (which must have it): the kind of its body and its verbs."""
    special = {
        "binding": (_CREATE, "", "", "Binding"),
        "eviction": (_CREATE, "policy", "v1", "Eviction"),
        "scale": (_READ_WRITE, "autoscaling", "v1", "Scale"),
        "token": (_CREATE, "authentication.k8s.io", "v1", "TokenRequest"),
        "finalize": (("update",), "", "", kind.kind),
        "log": (("get",), "", "", kind.kind),
        **{name: (("create", "get"), "", "", body) for name, body in CONNECTIONS.items()},
    }
    verbs, group, version, body = special.get(name, (_READ_WRITE, "", "", kind.kind))
    return Subresource(name, verbs, group, version, body)


class KindTable:
    """The currently served kinds: built-in ones and those of established CRDs. Lookups are by URL parts."""

    def __init__(self, kinds: Iterable[ServedKind] = BUILTIN) -> None:
        self._by_path: dict[tuple[str, str, str], ServedKind] = {}
        self._by_gvk: dict[tuple[str, str, str], ServedKind] = {}
        self.generation = 0
        for kind in kinds:
            self.add(kind)

    def __iter__(self) -> Iterator[ServedKind]:
        return iter(self._by_path.values())

    def add(self, kind: ServedKind) -> None:
        """Serve ``kind``, replacing a row of the same group, version and plural."""
        self.generation += 1
        self._by_path[kind.group, kind.version, kind.plural] = kind
        self._by_gvk[kind.gvk] = kind

    def remove(self, kind: ServedKind) -> None:
        """Stop serving ``kind``; unknown kinds are ignored."""
        self.generation += 1
        self._by_path.pop((kind.group, kind.version, kind.plural), None)
        self._by_gvk.pop(kind.gvk, None)

    def change_builtin(self, wanted: Collection[ServedKind]) -> None:
        """Serve these built-in kinds and no others; custom resources stay."""
        for kind in [kind for kind in self if not kind.custom and kind not in wanted]:
            self.remove(kind)
        for kind in wanted:
            if self.of(kind.api_version, kind.kind) is None:
                self.add(kind)

    def at(self, group: str, version: str, plural: str) -> ServedKind | None:
        """Return the kind at ``/apis/GROUP/VERSION/.../PLURAL`` or None."""
        return self._by_path.get((group, version, plural))

    def of(self, api_version: str, kind: str) -> ServedKind | None:
        """Return the kind of an object's ``apiVersion`` and ``kind`` or None."""
        group, _, version = api_version.rpartition("/")
        return self._by_gvk.get((group, version, kind))

    def readable(self, api_version: str, kind: str) -> ServedKind | None:
        """Return the kind of an object outside of requests, also in a version that only other releases serve."""
        served = self.of(api_version, kind)
        if served is not None or (row := _BUILTIN_ROWS.get((api_version, kind))) is None:
            return served
        return row if self.versions_of(row) else None

    def groups(self) -> dict[str, list[str]]:
        """Return group -> versions, preferred first; the core group is ``""``."""
        versions_by_group: dict[str, list[str]] = {}
        custom: set[str] = set()
        for (group, version, _), kind in self._by_path.items():
            versions = versions_by_group.setdefault(group, [])
            if version not in versions:
                versions.append(version)
            if kind.custom:
                custom.add(group)
        for group in custom:
            versions_by_group[group].sort(key=version_rank)
        for group, order in VERSION_ORDER.items():
            if group in versions_by_group:
                versions_by_group[group].sort(
                    key=lambda version: order.index(version) if version in order else len(order)
                )
        return versions_by_group

    def in_version(self, group: str, version: str) -> list[ServedKind]:
        """Return the kinds of one group version, sorted by plural."""
        rows = [kind for (g, v, _), kind in self._by_path.items() if (g, v) == (group, version)]
        return sorted(rows, key=lambda kind: kind.plural)

    def versions_of(self, kind: ServedKind) -> list[ServedKind]:
        """Return the rows of all served versions of a kind."""
        return [row for row in self._by_path.values() if (row.group, row.kind) == (kind.group, kind.kind)]

    def storage_kind(self, kind: ServedKind) -> ServedKind:
        """Return the row of the storage form of ``kind`` (itself for most), served or not."""
        if kind.storage_version == kind.api_version:
            return kind
        row = self.of(kind.storage_version, kind.kind)
        return row or _BUILTIN_ROWS.get((kind.storage_version, kind.kind), kind)
