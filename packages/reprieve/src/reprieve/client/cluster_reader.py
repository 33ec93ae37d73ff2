"""The objects that a plan needs from a live cluster, read once with `list` and discovery only.

Terms: a kind is required if a plan is useless without it (nodes, pods); the others are optional: if the server does not
serve them or does not permit reading them, the plan continues with a warning.

Invariants: pods are read first, so that every group, class and node that a pod refers to exists when it is read after
the pod. The same cluster gives the same objects in the same order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from kube_rules import objects as o
from kube_rules.admission import DEFAULT_PRIORITY, PREEMPT_LOWER, PREEMPTION_PRIORITY_CLASS, PriorityAdmission
from kube_rules.decoding import name_of
from kube_rules.errors import FieldError, InputError, Origin
from kube_rules.grants import as_granted
from kube_rules.group_owners import GroupOwner, owner_kinds
from kube_rules.manifests import LoadedObject, Manifests, PodMaker, UnknownObject
from kube_rules.meta import KubernetesObject
from kube_rules.work_annotations import ClassTerms, class_terms
from reprieve.client.discovery import Resource, ServedResources, discover
from reprieve.client.errors import ApiError
from reprieve.client.lists import ObjectList, list_objects
from reprieve.client.transport import ApiClient
from reprieve.inputs.loader import FIRST_CREATION, created_seconds

REQUIRED: Final[tuple[type[KubernetesObject], ...]] = (o.Pod, o.Node)
OPTIONAL: Final[tuple[type[KubernetesObject], ...]] = (
    o.Namespace,
    o.PriorityClass,
    o.PodGroup,
    o.CompositePodGroup,
    o.Workload,
    o.PodDisruptionBudget,
    o.Service,
    o.ReplicationController,
    o.ReplicaSet,
    o.StatefulSet,
    o.PersistentVolume,
    o.PersistentVolumeClaim,
    o.StorageClass,
    o.CSINode,
    o.CSIDriver,
    o.VolumeAttachment,
    o.CSIStorageCapacity,
    o.ResourceClaim,
    o.ResourceSlice,
    o.DeviceClass,
    o.DeviceTaintRule,
)
LIMITS: Final[tuple[type[KubernetesObject], ...]] = (o.ResourceQuota, o.LimitRange)
"""The kinds that only admission reads: plans and snapshots need them, the live scheduler does not."""
SIDE_BY_SIDE: Final = 4
"""The number of lists that are requested at the same time."""

_REFUSED: Final = (401, 403, 404, 405)
_PRIORITIZED: Final = (o.Pod, o.PodGroup, o.CompositePodGroup, o.Workload)
T = TypeVar("T", bound=KubernetesObject)


@dataclass(slots=True, repr=False)
class ClusterReading:
    """The result of reading: objects by kind in the server's order, and warnings about what could not be read.

    No repr: `asyncio.run` computes the repr of its task's result, which for a large cluster takes as long as reading.
    """

    objects: list[KubernetesObject] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    makers: list[dict[str, Any]] = field(default_factory=list)
    """Requested owners of pods with their templates, as plain data."""


_SCALABLE: Final = {
    "Deployment": Resource("apps", "v1", "deployments", "Deployment", True),
    "StatefulSet": Resource("apps", "v1", "statefulsets", "StatefulSet", True),
    "ReplicaSet": Resource("apps", "v1", "replicasets", "ReplicaSet", True),
    "Job": Resource("batch", "v1", "jobs", "Job", True),
}
"""The kinds with templates that are read from a live cluster."""


async def read_makers(client: ApiClient, named: Iterable[tuple[str, str, str, str]]) -> list[dict[str, Any]]:
    """Return the owners of pods, by kind, API group or none, namespace and name, as plain data.

    Missing or unreadable owners are omitted, and so are kinds of other APIs than the built-in ones.

    Raises UnreachableError, CredentialError.
    """
    result: list[dict[str, Any]] = []
    for kind, group, namespace, name in dict.fromkeys(named):
        resource = _SCALABLE.get(kind)
        if resource is None or group not in ("", resource.group):
            continue
        try:
            answer = await client.request("GET", resource.path(namespace, name))
        except ApiError:
            continue
        result.append({"apiVersion": resource.api_version, "kind": kind, **answer.read(dict)})
    return result


async def read_cluster(
    client: ApiClient, *, owners: bool = False, jobs: bool = False, makers: Sequence[tuple[str, str, str, str]] = ()
) -> ClusterReading:
    """Read a cluster; with `owners` also the controllers of pods that may be gangs (workloads.md 2.10).

    With `jobs` at least the Jobs, for their end (cost.md 6.4). `makers` (see `read_makers`) are read with their
    templates.

    Raises ApiError if nodes or pods may not be read, UnreachableError, CredentialError.
    """
    served = await discover(client)
    gate = asyncio.Semaphore(SIDE_BY_SIDE)
    reading = ClusterReading(warnings=[f"not read: {reason}" for reason in served.unavailable])

    async def read(kind: type[KubernetesObject]) -> _Read:
        async with gate:
            return await _read(client, kind, _resources(served, kind))

    first = await read(o.Pod)
    of_pods = [kind for kind in owner_kinds(gangs=owners, ends=jobs) if _resources(served, kind)]
    kinds: tuple[type[KubernetesObject], ...] = (o.Node, *OPTIONAL, *LIMITS, *of_pods)
    tasks = [asyncio.create_task(read(kind)) for kind in kinds]
    try:
        by_kind: dict[type[KubernetesObject], _Read] = dict(zip(kinds, await asyncio.gather(*tasks), strict=True))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    by_kind[o.Pod] = first
    order: list[type[KubernetesObject]] = [*kinds, o.Pod]
    # Objects created in the same second keep the order of their writes: snapshots have no versions.
    by_kind[o.Pod].objects.sort(key=lambda pod: (created_seconds(pod.metadata, 0), pod.metadata.revision))
    for kind in order:
        reading.objects += by_kind[kind].objects
        reading.warnings += by_kind[kind].warnings
    absent = [by_kind[kind].absent for kind in (*OPTIONAL, *LIMITS) if by_kind[kind].absent]
    if absent:
        reading.warnings.append(f"not served by this API server: {', '.join(absent)}")
    _leave_out_orphans(reading)
    reading.makers = await read_makers(client, makers)
    return reading


@dataclass(slots=True)
class _Read:
    objects: list[KubernetesObject] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    absent: str = ""


def _resources(served: ServedResources, kind: type[KubernetesObject]) -> Sequence[Resource]:
    """Return the resources that a kind is read from, the strongest first."""
    if issubclass(kind, GroupOwner):
        resource = served.find(kind.KIND, (kind.API_VERSION,))
        return () if resource is None else (resource,)
    return served.readable(kind.KIND)


async def _read(client: ApiClient, kind: type[KubernetesObject], resources: Sequence[Resource]) -> _Read:
    """Return the objects of a kind from all its resources; of namesakes that of the stronger resource counts."""
    result = _Read()
    if not resources:
        if kind in REQUIRED:
            raise ApiError(404, "NotFound", f"{client.connection.server}: serves no {kind.KIND}: is this a cluster?")
        result.absent = kind.KIND
    versions: dict[str, str] = {}
    for resource in resources:
        try:
            listed: ObjectList[KubernetesObject] = await list_objects(client, resource, kind)
        except ApiError as error:
            if kind in REQUIRED or error.code not in _REFUSED:
                raise
            result.warnings.append(f"{resource} not read: {error}")
            continue
        result.warnings += [f"left out: {unreadable.error}" for unreadable in listed.unreadable]
        for item in listed.objects:
            if item.key in versions:
                text = f"{name_of(item)} of {resource.api_version} ignored: {versions[item.key]} takes precedence"
                result.warnings.append(text)
                continue
            versions[item.key] = resource.api_version
            result.objects.append(item)
    return result


def _leave_out_orphans(reading: ClusterReading) -> None:
    """Drop pods bound to missing nodes: they use no capacity and will be garbage-collected."""
    nodes = {item.name for item in reading.objects if isinstance(item, o.Node)}
    remaining: list[KubernetesObject] = []
    orphans = 0
    for item in reading.objects:
        if isinstance(item, o.Pod) and item.spec.node_name and item.spec.node_name not in nodes:
            orphans += not item.finished
            continue
        remaining.append(item)
    reading.objects = remaining
    if orphans:
        reading.warnings.append(f"left out: {orphans} pod{'s' if orphans > 1 else ''} bound to nodes that are gone")


def manifests_of(reading: ClusterReading, source: str) -> Manifests:
    """Return the objects as the input of a plan; unresolved priorities become 0, with a warning."""
    classes = [item for item in reading.objects if isinstance(item, o.PriorityClass)]
    admission = PriorityAdmission(classes)
    manifests, origin = Manifests(), Origin(source)
    for order, item in enumerate(reading.objects):
        if isinstance(item, _PRIORITIZED):
            try:
                item = admission.resolve(_without_void_class(item, admission, reading.warnings))
            except FieldError as error:
                reading.warnings.append(f"{name_of(item)}: {error.path}: {error.message}: priority 0 assumed")
                item = _without_class(item)
        created = created_seconds(item.metadata, order)
        manifests.objects.setdefault(type(item), []).append(LoadedObject(item, origin, order, created))
    manifests.pod_makers += [PodMaker(maker, origin) for maker in reading.makers]
    return manifests


def without_void_classes(objects: Sequence[KubernetesObject]) -> list[KubernetesObject]:
    """Return a cluster's objects with the annotations that count for its scheduler, so that they can be read again.

    A victim class that does not exist or is too low is removed; values beyond the grant are bounded (cost.md 7.6).
    """
    admission = PriorityAdmission([item for item in objects if isinstance(item, o.PriorityClass)])
    warnings: list[str] = []
    classes = {
        item.name: class_terms(item.metadata.annotations) for item in objects if isinstance(item, o.PriorityClass)
    }
    return [_as_granted(_without_void_class(item, admission, warnings), admission, classes) for item in objects]


def _as_granted(item: T, admission: PriorityAdmission, classes: Mapping[str, ClassTerms]) -> T:
    annotations = item.metadata.annotations
    if not isinstance(item, o.PodGroup | o.CompositePodGroup) or PREEMPTION_PRIORITY_CLASS not in annotations:
        return as_granted(item, classes)
    resolved = admission.as_victim(annotations, item.spec.priority or DEFAULT_PRIORITY, stored=True)
    granted = as_granted(replace(item, metadata=replace(item.metadata, annotations=resolved)), classes)
    shown = {name: text for name, text in granted.metadata.annotations.items() if name in annotations}
    return item if shown == annotations else replace(item, metadata=replace(item.metadata, annotations=shown))


def _without_void_class(item: T, admission: PriorityAdmission, warnings: list[str]) -> T:
    """Return a group without a preemption class that does not exist or is below its priority (preemption.md 4)."""
    if (
        not isinstance(item, o.PodGroup | o.CompositePodGroup)
        or PREEMPTION_PRIORITY_CLASS not in item.metadata.annotations
    ):
        return item
    try:
        admission.as_victim(item.metadata.annotations, item.spec.priority or DEFAULT_PRIORITY, stored=True)
    except FieldError as error:
        warnings.append(f"{name_of(item)}: {error}: skipped")
        annotations = {key: text for key, text in item.metadata.annotations.items() if key != PREEMPTION_PRIORITY_CLASS}
        return replace(item, metadata=replace(item.metadata, annotations=annotations))
    return item


_Prioritized = o.Pod | o.PodGroup | o.CompositePodGroup | o.Workload


def _without_class(item: _Prioritized) -> _Prioritized:
    if isinstance(item, o.Workload):
        return item
    changes = {"priority": DEFAULT_PRIORITY, "priority_class_name": "", "preemption_policy": PREEMPT_LOWER}
    return replace(item, spec=replace(item.spec, **changes))


def add_new(cluster: Manifests, more: Manifests, now: float = 0.0) -> None:
    """Add manifests to a cluster, created after all its objects and after `now`, unless they have a time.

    `now` is in seconds since the epoch. Existing namespaces and priority classes do not change. Raises InputError for
    any other existing object, for a class of another value, and for a pod bound to a missing node.
    """
    existing_objects = {(type(item.object), item.object.key): item.object for item in cluster.all()}
    parts: Sequence[Sequence[LoadedObject[KubernetesObject] | PodMaker | UnknownObject]]
    parts = (cluster.all(), cluster.pod_makers, cluster.unknown)
    more.date_undated(max(now, FIRST_CREATION.timestamp(), *(entry.created for part in parts for entry in part)))
    nodes = {node.object.name for node in (*cluster.nodes, *more.nodes)}
    offset = len(existing_objects)
    for loaded in more.all():
        item, origin = loaded.object, loaded.origin
        namesake = existing_objects.get((type(item), item.key))
        if namesake is not None:
            _refuse_other(item, namesake, origin)
            continue
        if isinstance(item, o.Pod) and item.spec.node_name and item.spec.node_name not in nodes:
            raise InputError(
                origin,
                f'Invalid value: "{item.spec.node_name}": no Node with this name is in the cluster or the input',
                path="spec.nodeName",
                subject=name_of(item),
            )
        cluster.objects.setdefault(type(item), []).append(
            LoadedObject(item, origin, offset + loaded.order, loaded.created, dated=loaded.dated)
        )
    cluster.scenarios += more.scenarios
    cluster.pod_makers += more.pod_makers
    cluster.unknown += more.unknown


def _refuse_other(item: KubernetesObject, existing: KubernetesObject, origin: Origin) -> None:
    """Raise unless the object equals the existing one."""
    if isinstance(item, o.Namespace):
        return
    if isinstance(item, o.PriorityClass) and isinstance(existing, o.PriorityClass):
        same = (item.value, item.preemption_policy, item.global_default) == (
            existing.value,
            existing.preemption_policy,
            existing.global_default,
        )
        if same:
            return
        message = f"exists in the cluster with value {existing.value} and differs"
    else:
        message = "already exists in the cluster: only new objects can be added to a plan"
    raise InputError(origin, f'Duplicate value: "{item.name}": {message}', path="metadata.name", subject=name_of(item))


def known_classes(manifests: Manifests) -> Sequence[o.PriorityClass]:
    """Return the priority classes of a cluster for reading manifests that use them."""
    return [item.object for item in manifests.of(o.PriorityClass)]
