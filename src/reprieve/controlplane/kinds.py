"""The one table of kinds: what is served, under which names, with which subresources and which strategy.

Everything that depends on a kind (routing, discovery, storage keys, field selectors, generation counting,
what a DELETE answers) reads this table, so a kind is added by adding a row. Custom resources become rows at
run time.

Terms: *resource* is the plural in URLs; *storage key* names where objects of a kind are kept: several
versions of one resource, and the two groups of Event, share it. ``storage_version`` is the apiVersion they
are kept in. Short names, categories and verbs are those of kube-apiserver discovery.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
CUSTOM_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")

StatusMetadata = Literal["taken", "labels-kept", "reset"]


@dataclass(frozen=True)
class Subresource:
    """A path below an object: the kind of its body and the verbs it has."""

    name: str
    verbs: tuple[str, ...]
    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        """Group and version of its body, where that is no object of the resource."""
        return f"{self.group}/{self.version}" if self.group else "v1"


@dataclass(frozen=True)
class Kind:
    """One row: a kind in one version of one group, and how the server treats it.

    Strategy fields (sources: kube-apiserver's registry strategies, the recorded answers of 1.36):
    ``generation``: metadata.generation counts spec changes. ``unconditional_update``: a PUT without a
    resourceVersion is accepted. ``create_on_update``: a PUT of a missing object creates it.
    ``status_on_create``: a status in a create body is kept. ``status_metadata``: what a write to /status
    does with labels, annotations, finalizers. ``graceful``: DELETE honours grace periods.
    ``returns_deleted``: DELETE answers the object, not a Status, even if it went at once. ``fields``:
    field-selector label -> dotted path in the stored object, besides metadata.name and metadata.namespace.
    ``stored`` is False for review kinds that are answered and forgotten.
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
    fields: Mapping[str, str] = field(default_factory=dict, hash=False)
    stored: bool = True
    custom: bool = False
    definition: Mapping[str, Any] | None = field(default=None, hash=False, compare=False, repr=False)
    """For a custom resource: the entry of its CRD's ``spec.versions``; None for built-in kinds."""

    @property
    def gvk(self) -> tuple[str, str, str]:
        """(group, version, kind)."""
        return (self.group, self.version, self.kind)

    @property
    def api_version(self) -> str:
        """``v1`` for the core group, ``apps/v1`` otherwise."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """The plural with its group, as error messages name it: ``podgroups.scheduling.k8s.io``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


def _row(
    group: str,
    version: str,
    kind: str,
    plural: str,
    *,
    namespaced: bool = True,
    short: str = "",
    all_category: bool = False,
    sub: str = "",
    storage_version: str = "",
    storage_key: str = "",
    **strategy: Any,
) -> Kind:
    api_version = f"{group}/{version}" if group else version
    strategy.setdefault("categories", ("all",) if all_category else ())
    return Kind(
        group=group,
        version=version,
        kind=kind,
        plural=plural,
        singular=kind.lower(),
        list_kind=f"{kind}List",
        namespaced=namespaced,
        short_names=tuple(short.split()),
        subresources=frozenset(sub.split()),
        storage_version=storage_version or api_version,
        storage_key=storage_key or (f"{group}/{plural}" if group else plural),
        **strategy,
    )


_CREATE = ("create",)
_POD_FIELDS = {
    "spec.nodeName": "spec.nodeName",
    "spec.restartPolicy": "spec.restartPolicy",
    "spec.schedulerName": "spec.schedulerName",
    "spec.serviceAccountName": "spec.serviceAccountName",
    "spec.hostNetwork": "spec.hostNetwork",
    "status.phase": "status.phase",
    "status.podIP": "status.podIP",
    "status.podIPs": "status.podIP",
    "status.nominatedNodeName": "status.nominatedNodeName",
}
_OBJECT_FIELDS = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_EVENT_FIELDS = {f"involvedObject.{name}": f"involvedObject.{name}" for name in _OBJECT_FIELDS} | {
    "reason": "reason",
    "reportingComponent": "reportingComponent",
    "source": "source.component",
    "type": "type",
}
_EVENT_V1_FIELDS = {f"regarding.{name}": f"involvedObject.{name}" for name in _OBJECT_FIELDS} | {
    "reason": "reason",
    "reportingController": "reportingComponent",
    "type": "type",
}
_NO_COLLECTION_DELETE = ("create", "delete", "get", "list", "patch", "update", "watch")
_SCHEDULING = "scheduling.k8s.io"
_STORAGE = "storage.k8s.io"
_RESOURCE = "resource.k8s.io"
_RBAC = "rbac.authorization.k8s.io"


def _scheduling(version: str) -> tuple[Kind, ...]:
    stored = f"{_SCHEDULING}/v1beta1"
    return (
        _row(
            _SCHEDULING,
            version,
            "PodGroup",
            "podgroups",
            sub="status",
            status_metadata="reset",
            storage_version=stored,
        ),
        _row(_SCHEDULING, version, "Workload", "workloads", storage_version=stored),
    )


BUILTIN: tuple[Kind, ...] = (
    _row("", "v1", "Binding", "bindings", verbs=_CREATE, stored=False),
    _row("", "v1", "ConfigMap", "configmaps", short="cm"),
    _row("", "v1", "Endpoints", "endpoints", short="ep", create_on_update=True),
    _row("", "v1", "Event", "events", short="ev", create_on_update=True, fields=_EVENT_FIELDS),
    _row("", "v1", "LimitRange", "limitranges", short="limits", create_on_update=True),
    _row(
        "",
        "v1",
        "Namespace",
        "namespaces",
        namespaced=False,
        short="ns",
        sub="status finalize",
        verbs=_NO_COLLECTION_DELETE,
        fields={"status.phase": "status.phase"},
    ),
    _row(
        "",
        "v1",
        "Node",
        "nodes",
        namespaced=False,
        short="no",
        sub="status",
        status_on_create=True,
        fields={"spec.unschedulable": "spec.unschedulable"},
    ),
    _row(
        "",
        "v1",
        "PersistentVolume",
        "persistentvolumes",
        namespaced=False,
        short="pv",
        sub="status",
        returns_deleted=True,
    ),
    _row(
        "",
        "v1",
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        short="pvc",
        sub="status",
        returns_deleted=True,
    ),
    _row(
        "",
        "v1",
        "Pod",
        "pods",
        short="po",
        all_category=True,
        graceful=True,
        generation=True,
        returns_deleted=True,
        sub="binding eviction status",
        fields=_POD_FIELDS,
    ),
    _row("", "v1", "PodTemplate", "podtemplates", generation=True, returns_deleted=True),
    _row(
        "",
        "v1",
        "ReplicationController",
        "replicationcontrollers",
        short="rc",
        all_category=True,
        generation=True,
        sub="scale status",
        fields={"status.replicas": "status.replicas"},
    ),
    _row("", "v1", "ResourceQuota", "resourcequotas", short="quota", sub="status", returns_deleted=True),
    _row("", "v1", "Secret", "secrets", fields={"type": "type"}),
    _row(
        "",
        "v1",
        "Service",
        "services",
        short="svc",
        all_category=True,
        sub="status",
        create_on_update=True,
        returns_deleted=True,
        fields={"spec.clusterIP": "spec.clusterIP", "spec.type": "spec.type"},
    ),
    _row(
        "",
        "v1",
        "ServiceAccount",
        "serviceaccounts",
        short="sa",
        sub="token",
        unconditional_update=False,
        returns_deleted=True,
    ),
    _row("apps", "v1", "ControllerRevision", "controllerrevisions"),
    _row(
        "apps",
        "v1",
        "DaemonSet",
        "daemonsets",
        short="ds",
        all_category=True,
        sub="status",
        generation=True,
        status_metadata="labels-kept",
    ),
    _row(
        "apps",
        "v1",
        "Deployment",
        "deployments",
        short="deploy",
        all_category=True,
        sub="scale status",
        generation=True,
        status_metadata="labels-kept",
    ),
    _row(
        "apps",
        "v1",
        "ReplicaSet",
        "replicasets",
        short="rs",
        all_category=True,
        sub="scale status",
        generation=True,
        status_metadata="labels-kept",
        fields={"status.replicas": "status.replicas"},
    ),
    _row(
        "apps",
        "v1",
        "StatefulSet",
        "statefulsets",
        short="sts",
        all_category=True,
        sub="scale status",
        generation=True,
        status_metadata="labels-kept",
    ),
    _row("batch", "v1", "CronJob", "cronjobs", short="cj", all_category=True, sub="status", generation=True),
    _row(
        "batch",
        "v1",
        "Job",
        "jobs",
        all_category=True,
        sub="status",
        generation=True,
        fields={"status.successful": "status.succeeded"},
    ),
    _row(_SCHEDULING, "v1", "PriorityClass", "priorityclasses", namespaced=False, short="pc", generation=True),
    *_scheduling("v1beta1"),
    *_scheduling("v1alpha3"),
    *_scheduling("v1alpha2"),
    _row(
        "policy",
        "v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        short="pdb",
        sub="status",
        generation=True,
        unconditional_update=False,
    ),
    _row("coordination.k8s.io", "v1", "Lease", "leases", unconditional_update=False, create_on_update=True),
    _row("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", generation=True),
    _row(
        "events.k8s.io",
        "v1",
        "Event",
        "events",
        short="ev",
        create_on_update=True,
        fields=_EVENT_V1_FIELDS,
        storage_version="v1",
        storage_key="events",
    ),
    _row(
        _STORAGE,
        "v1",
        "CSIDriver",
        "csidrivers",
        namespaced=False,
        generation=True,
        returns_deleted=True,
        unconditional_update=False,
    ),
    _row(
        _STORAGE,
        "v1",
        "CSINode",
        "csinodes",
        namespaced=False,
        returns_deleted=True,
        unconditional_update=False,
    ),
    _row(_STORAGE, "v1", "CSIStorageCapacity", "csistoragecapacities", unconditional_update=False),
    _row(_STORAGE, "v1", "StorageClass", "storageclasses", namespaced=False, short="sc", returns_deleted=True),
    _row(
        _STORAGE,
        "v1",
        "VolumeAttachment",
        "volumeattachments",
        namespaced=False,
        sub="status",
        returns_deleted=True,
        unconditional_update=False,
    ),
    _row(
        _STORAGE,
        "v1",
        "VolumeAttributesClass",
        "volumeattributesclasses",
        namespaced=False,
        short="vac",
        returns_deleted=True,
    ),
    _row(_RESOURCE, "v1", "DeviceClass", "deviceclasses", namespaced=False, generation=True),
    _row(_RESOURCE, "v1", "ResourceClaim", "resourceclaims", sub="status", status_metadata="reset"),
    _row(_RESOURCE, "v1", "ResourceClaimTemplate", "resourceclaimtemplates"),
    _row(
        _RESOURCE,
        "v1",
        "ResourceSlice",
        "resourceslices",
        namespaced=False,
        generation=True,
        fields={"spec.nodeName": "spec.nodeName", "spec.driver": "spec.driver"},
    ),
    _row(_RBAC, "v1", "ClusterRole", "clusterroles", namespaced=False, create_on_update=True),
    _row(_RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False, create_on_update=True),
    _row(_RBAC, "v1", "Role", "roles", create_on_update=True),
    _row(_RBAC, "v1", "RoleBinding", "rolebindings", create_on_update=True),
    _row(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        namespaced=False,
        short="crd crds",
        categories=("api-extensions",),
        sub="status",
        generation=True,
        unconditional_update=False,
    ),
    _row(
        "authentication.k8s.io",
        "v1",
        "SelfSubjectReview",
        "selfsubjectreviews",
        namespaced=False,
        verbs=_CREATE,
        stored=False,
    ),
    _row(
        "authentication.k8s.io",
        "v1",
        "TokenReview",
        "tokenreviews",
        namespaced=False,
        verbs=_CREATE,
        stored=False,
    ),
    _row(
        "authorization.k8s.io",
        "v1",
        "LocalSubjectAccessReview",
        "localsubjectaccessreviews",
        verbs=_CREATE,
        stored=False,
    ),
    _row(
        "authorization.k8s.io",
        "v1",
        "SelfSubjectAccessReview",
        "selfsubjectaccessreviews",
        namespaced=False,
        verbs=_CREATE,
        stored=False,
    ),
    _row(
        "authorization.k8s.io",
        "v1",
        "SelfSubjectRulesReview",
        "selfsubjectrulesreviews",
        namespaced=False,
        verbs=_CREATE,
        stored=False,
    ),
    _row(
        "authorization.k8s.io",
        "v1",
        "SubjectAccessReview",
        "subjectaccessreviews",
        namespaced=False,
        verbs=_CREATE,
        stored=False,
    ),
)

VERSION_ORDER: Mapping[str, tuple[str, ...]] = {_SCHEDULING: ("v1", "v1beta1", "v1alpha3", "v1alpha2")}
"""Preferred order of versions within a group; others have one version or keep the order of appearance."""

_READ_WRITE = ("get", "patch", "update")


def subresource(kind: Kind, name: str) -> Subresource:
    """Describe subresource ``name`` of ``kind`` (which must have it): the kind of its body and its verbs."""
    special = {
        "binding": (_CREATE, "", "", "Binding"),
        "eviction": (_CREATE, "policy", "v1", "Eviction"),
        "scale": (_READ_WRITE, "autoscaling", "v1", "Scale"),
        "token": (_CREATE, "authentication.k8s.io", "v1", "TokenRequest"),
        "finalize": (("update",), "", "", kind.kind),
    }
    verbs, group, version, body = special.get(name, (_READ_WRITE, "", "", kind.kind))
    return Subresource(name, verbs, group, version, body)


class KindTable:
    """The kinds served right now: the built-in ones and those of established CRDs. Look-ups are by URL
    parts.
    """

    def __init__(self, kinds: Iterable[Kind] = BUILTIN) -> None:
        self._by_path: dict[tuple[str, str, str], Kind] = {}
        self._by_gvk: dict[tuple[str, str, str], Kind] = {}
        self.generation = 0
        for kind in kinds:
            self.add(kind)

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._by_path.values())

    def add(self, kind: Kind) -> None:
        """Serve ``kind``, replacing a row of the same group, version and plural."""
        self.generation += 1
        self._by_path[kind.group, kind.version, kind.plural] = kind
        self._by_gvk[kind.gvk] = kind

    def remove(self, kind: Kind) -> None:
        """Stop serving ``kind``; unknown kinds are ignored."""
        self.generation += 1
        self._by_path.pop((kind.group, kind.version, kind.plural), None)
        self._by_gvk.pop(kind.gvk, None)

    def at(self, group: str, version: str, plural: str) -> Kind | None:
        """Return the kind at ``/apis/GROUP/VERSION/.../PLURAL`` or None."""
        return self._by_path.get((group, version, plural))

    def of(self, api_version: str, kind: str) -> Kind | None:
        """Return the kind of an object's ``apiVersion`` and ``kind`` or None."""
        group, _, version = api_version.rpartition("/")
        return self._by_gvk.get((group, version, kind))

    def groups(self) -> dict[str, list[str]]:
        """Return group -> versions, preferred first; the core group is ``""``."""
        found: dict[str, list[str]] = {}
        for group, version, _ in self._by_path:
            versions = found.setdefault(group, [])
            if version not in versions:
                versions.append(version)
        for group, order in VERSION_ORDER.items():
            if group in found:
                found[group].sort(key=lambda version: order.index(version) if version in order else len(order))
        return found

    def in_version(self, group: str, version: str) -> list[Kind]:
        """Return the kinds of one group version, sorted by plural."""
        rows = [kind for (g, v, _), kind in self._by_path.items() if (g, v) == (group, version)]
        return sorted(rows, key=lambda kind: kind.plural)

    def storage_kind(self, kind: Kind) -> Kind:
        """Return the row whose form objects of ``kind`` are stored in (itself for most)."""
        if kind.storage_version == kind.api_version:
            return kind
        found = self.of(kind.storage_version, kind.kind)
        return found if found is not None else kind
