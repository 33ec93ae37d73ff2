"""Read what is known about a pod, pod group or tree of groups: the object, its events, and the scheduler's records.

Records are read from `--records`, else from the scheduler's endpoint in the kubeconfig's context, else through the API
server from the pod that holds the lease. If none can be read, the answer is computed from the current objects of the
API server, changes nothing, and is marked as computed. Invariant: only reads. The user's token is sent only to the API
server, and to a scheduler on this machine or behind TLS.
"""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

import msgspec
from yarl import URL

from kube_rules import objects
from kube_rules.errors import InputError
from kube_rules.group_sources import pod_group_name
from kube_rules.json import Json
from kube_rules.manifests import Manifests
from kube_rules.requests import resize_is_deferred
from kube_rules.topology_terms import LevelUse
from reprieve.cli.database_records import EXPECTED, DatabaseRecords, PreemptionsSince, is_database, without_user
from reprieve.cli.topology import read_use
from reprieve.cli.whatif import HypotheticalDecision, ask
from reprieve.client.cluster_reader import manifests_of, read_cluster
from reprieve.client.connection import Connection, Identity, TlsSettings
from reprieve.client.decoding import stored
from reprieve.client.discovery import Resource, ServedResources, discover
from reprieve.client.errors import ApiError, ClientError, ConfigError
from reprieve.client.kubeconfig import SCHEDULER_EXTENSION
from reprieve.client.lists import list_objects
from reprieve.client.transport import ApiClient, Limits
from reprieve.decisions.records import DecisionRecord, UnitRecord
from reprieve.simulation.report import ChangeMade

MANIFESTS: Final = "cluster they describe"
"""The cluster that an answer was computed on (`Evidence.basis`); the other is the cluster after the changes."""
CHANGED: Final = "changed cluster"
_OURS: Final = "app.kubernetes.io/name=reprieve"
"""The name of the pods of deploy/; the lease has the name and namespace of their configuration."""
_LEASE: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/reprieve-scheduler"
_PORT: Final = 10259
MOST_NODES: Final = 500
_KINDS: Final = frozenset({"Pod", "PodGroup", "CompositePodGroup"})
_MOST_LEVELS: Final = 8
"""Twice as many as a tree may have (composite.md 1)."""
_QUICK: Final = Limits(attempts=2, deadline=5.0, connect=3.0, qps=0.0)
_SHOWN: Final = Limits(attempts=4, qps=0.0)
_PODS: Final = Resource("", "v1", "pods", "Pod", True)

T = TypeVar("T", bound=objects.KubernetesObject)


@dataclass(frozen=True, slots=True)
class ExplainTarget:
    """The object to explain. `kind`: Pod, PodGroup or CompositePodGroup, or the kind of an owner without pods."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind.lower()} {self.namespace}/{self.name}"

    @property
    def query(self) -> dict[str, str]:
        """Return the query string of the scheduler's endpoint."""
        return {"kind": self.kind, "namespace": self.namespace, "name": self.name}


@dataclass(frozen=True, slots=True)
class Occurrence:
    """An event, how often it happened, and when last (seconds since 1970, 0 if it has no time)."""

    at: float
    type: str
    reason: str
    note: str
    count: int


@dataclass(frozen=True, slots=True)
class OwnerEvidence:
    """An owner that is explained by one of its gangs or pods, and the numbers of its pods and its pending pods."""

    kind: str
    namespace: str
    name: str
    pods: int
    waiting: int
    refused: str = ""
    """A sentence about its pods that admission refuses."""
    created: float | None = None
    """Time of its creation, in seconds since 1970; None if unknown or if it does not exist."""
    exists: bool = True

    @property
    def target(self) -> ExplainTarget:
        """Return its name as it is in decision records of evictions of its pods."""
        return ExplainTarget(self.kind.lower(), self.namespace, self.name)

    def __str__(self) -> str:
        return f"{self.kind.lower()} {self.namespace}/{self.name}"


@dataclass(slots=True)
class Evidence:
    """All that was read. Without `pod`, `group` and `composite` the object does not exist."""

    target: ExplainTarget
    pod: objects.Pod | None = None
    group: objects.PodGroup | None = None
    composite: objects.CompositePodGroup | None = None
    """The object if it is a CompositePodGroup."""
    above: list[str] = field(default_factory=list)
    """Names of the existing CompositePodGroups above the object, the nearest first (composite.md 2)."""
    missing: str = ""
    """Name of the parent that does not exist."""
    members: list[objects.Pod] = field(default_factory=list)
    """Pods of the group, or of all groups of the tree below."""
    topology: Sequence[LevelUse] = ()
    """Domains that the members of a pod group use, by the topology levels that it requests."""
    refused: str = ""
    """The server's message if the object is a pod that admission refuses."""
    refusals: list[str] = field(default_factory=list)
    """Sentences about members that admission refuses, and about their controllers."""
    events: list[Occurrence] = field(default_factory=list)
    records: list[DecisionRecord] = field(default_factory=list)
    """Events of the object and of the group of a pod; newest first."""
    source: str = ""
    """The source of the records; empty if there are none."""
    basis: str = ""
    """The cluster that the answer was computed on, if not the current one; no records are read then."""
    owner: OwnerEvidence | None = None
    """The controller in question; this evidence is about one of its gangs or pods."""
    changes: Sequence[ChangeMade] = ()
    """Changes that were applied to the cluster first."""
    computed: HypotheticalDecision | None = None
    """The decision that a scheduler with the default configuration would make now, if it was computed."""
    warnings: list[str] = field(default_factory=list)
    refusal: ClientError | None = None
    """Why no records were read, if an API server refused or could not be reached."""

    @property
    def exists(self) -> bool:
        """Return whether the API server knows the object."""
        return self.object is not None

    @property
    def object(self) -> objects.Pod | objects.PodGroup | objects.CompositePodGroup | None:
        """Return the object in question."""
        return {"Pod": self.pod, "PodGroup": self.group, "CompositePodGroup": self.composite}.get(self.target.kind)


async def gather(
    connection: Connection,
    target: ExplainTarget,
    records: str | None,
    *,
    owner: OwnerEvidence | None = None,
    suggest: bool = True,
) -> Evidence:
    """Read everything. `suggest`: also find suggestions, tried on the current cluster.

    `owner`: the controller in question, if the object is explained for it; evictions of its pods belong to it. Raises
    ClientError if the API server fails, ConfigError for bad `records`.
    """
    evidence = Evidence(target, owner=owner)
    async with ApiClient(connection, limits=_SHOWN) as client:
        served = await discover(client)
        await _read_objects(client, served, evidence)
        if evidence.group is not None:
            evidence.topology = await read_use(client, evidence.members, (evidence.group,))
        evidence.events = await _events(client, evidence)
        names = _names(evidence)
        recorded = await _find_records(client, connection, names, records, evidence)
        evidence.records = [record for record in evidence.records if belongs(evidence, record)]
        if _waits(evidence) and (not recorded or _small(evidence.records)):
            await _compute(client, evidence, suggest=suggest)
    return evidence


async def evictions(
    connection: Connection, since: float, records: str | None, namespace: str = ""
) -> tuple[list[DecisionRecord], str]:
    """Return every preemption since then (seconds since 1970), newest first, and the source of the records.

    `namespace`: only preemptions that involve it, so that the right to read its pods suffices. Raises ClientError if a
    server refuses or cannot be reached, ConfigError for bad or no `records`.
    """
    return await read_records(connection, [PreemptionsSince(since, namespace)], records)


async def read_records(
    connection: Connection, names: Sequence[ExplainTarget | PreemptionsSince], records: str | None
) -> tuple[list[DecisionRecord], str]:
    """Return the records that match the queries, newest first, and their source. Raises as `evictions`."""
    evidence = Evidence(ExplainTarget("", "", ""))
    async with ApiClient(connection, limits=_SHOWN) as client:
        if not await _find_records(client, connection, names, records, evidence):
            if evidence.refusal is not None:
                raise evidence.refusal
            why = evidence.warnings[0] if evidence.warnings else "no scheduler that keeps decision records was found"
            raise ConfigError(f"{why} (set their location with --records URL|FILE)")
    return evidence.records, evidence.source


def _small(records: Sequence[DecisionRecord]) -> bool:
    """Return whether suggestions for the object are possible, for which the whole cluster has to be read."""
    latest = records[0] if records else None
    return latest is not None and latest.result == "Unschedulable" and latest.nodes <= MOST_NODES


def _names(evidence: Evidence) -> list[ExplainTarget]:
    """Return the names for which records are read: of the object, of its group, and of the root of its tree."""
    names = [evidence.target]
    if evidence.pod is not None:
        group = pod_group_name(evidence.pod)
        if group is not None:
            names.append(ExplainTarget("PodGroup", evidence.target.namespace, group))
    names += [ExplainTarget("CompositePodGroup", evidence.target.namespace, name) for name in evidence.above[-1:]]
    if evidence.owner is not None and evidence.owner.target not in names:
        names.append(evidence.owner.target)
    return names


def belongs(evidence: Evidence, record: DecisionRecord) -> bool:
    """Return whether a record is about the existing objects, not earlier ones of their names (observability.md 4.9).

    UIDs are compared; if the record has no UID of an object, times of creation.
    """
    at = _seconds(record.time)
    target = evidence.target
    if any(item is not None and _tells_of(record, item, at) for item in (evidence.object, evidence.group)):
        return True
    owner = evidence.owner
    if owner is not None and owned_unit(owner, record) is not None:
        return owner.created is None or at >= owner.created
    entity = record.entity
    if (entity.kind, entity.namespace) == ("CompositePodGroup", target.namespace) and entity.name in evidence.above:
        return True
    return not evidence.exists and (owner is None or target.kind in _KINDS)


def tells_of_object(evidence: Evidence, record: DecisionRecord) -> bool:
    """Return whether an eviction in a record may be of exactly the object in question, or of its owner's pods."""
    item = evidence.object
    return item is None or evidence.owner is not None or _tells_of(record, item, _seconds(record.time))


def _tells_of(
    record: DecisionRecord, item: objects.Pod | objects.PodGroup | objects.CompositePodGroup, at: float
) -> bool:
    """Return whether a record made at that time is of an attempt or an eviction of exactly this object."""
    meta, entity, key = item.metadata, record.entity, item.key
    stamp = meta.creation_timestamp
    late = stamp is None or at >= stamp.timestamp()
    if (entity.kind, f"{entity.namespace}/{entity.name}") == (item.KIND, key):
        return entity.uid == meta.uid if entity.uid and meta.uid else late
    for unit in record.preemption.evicted if record.preemption is not None else ():
        if (unit.kind, unit.unit) == (item.KIND, key):
            return unit.uid == meta.uid if unit.uid and meta.uid else late
        if item.KIND == "Pod" and key in unit.pod_names and len(unit.pod_uids) == len(unit.pod_names):
            return unit.pod_uids[unit.pod_names.index(key)] == meta.uid
    return late


def owned_unit(owner: OwnerEvidence, record: DecisionRecord) -> UnitRecord | None:
    """Return the first evicted unit of an owner's pods."""
    evicted = record.preemption.evicted if record.preemption is not None else ()
    name = f"{owner.kind.lower()} {owner.namespace}/{owner.name}"
    return next((unit for unit in evicted if name in unit.owners and unit.outcome != "NotEvicted"), None)


def _waits(evidence: Evidence) -> bool:
    """Return whether an answer can be computed."""
    if evidence.target.kind == "Pod":
        return evidence.pod is not None and (not evidence.pod.spec.node_name or resize_is_deferred(evidence.pod))
    return evidence.exists and any(not pod.spec.node_name for pod in evidence.members)


# -- the API server --------------------------------------------------------------------------------


async def _read_objects(client: ApiClient, served: ServedResources, evidence: Evidence) -> None:
    target = evidence.target
    if target.kind not in _KINDS:
        return
    if target.kind == "CompositePodGroup":
        evidence.composite = await _composite(client, served, target.namespace, target.name)
        if evidence.composite is not None:
            await _read_above(client, served, evidence, evidence.composite.spec.parent_composite_pod_group_name)
            await _read_below(client, served, evidence)
        return
    if target.kind == "Pod":
        evidence.pod = await _get(client, _PODS, objects.Pod, target)
        name = pod_group_name(evidence.pod) if evidence.pod is not None else None
    else:
        name = target.name
    if name is None:
        return
    for resource in served.readable("PodGroup"):
        evidence.group = await _get(
            client, resource, objects.PodGroup, ExplainTarget("PodGroup", target.namespace, name)
        )
        if evidence.group is not None:
            break
    listed = await list_objects(client, _PODS, objects.Pod, namespace=target.namespace)
    evidence.members = [pod for pod in listed.objects if pod_group_name(pod) == name]
    if evidence.group is not None:
        await _read_above(client, served, evidence, evidence.group.spec.parent_composite_pod_group_name)


async def _composite(
    client: ApiClient, served: ServedResources, namespace: str, name: str
) -> objects.CompositePodGroup | None:
    for resource in served.readable("CompositePodGroup"):
        result = await _get(
            client, resource, objects.CompositePodGroup, ExplainTarget("CompositePodGroup", namespace, name)
        )
        if result is not None:
            return result
    return None


async def _read_above(client: ApiClient, served: ServedResources, evidence: Evidence, parent: str) -> None:
    """Return the composites above an object, upwards; reading stops at cycles and at the maximum depth."""
    while parent and parent not in evidence.above and len(evidence.above) < _MOST_LEVELS:
        composite = await _composite(client, served, evidence.target.namespace, parent)
        if composite is None:
            evidence.missing = parent
            return
        evidence.above.append(parent)
        parent = composite.spec.parent_composite_pod_group_name


async def _read_below(client: ApiClient, served: ServedResources, evidence: Evidence) -> None:
    """Return the pods of all groups below a composite."""
    namespace = evidence.target.namespace
    composites = await _every(client, served, objects.CompositePodGroup, namespace)
    groups = await _every(client, served, objects.PodGroup, namespace)
    leaves = leaves_below(evidence.target.name, composites, groups)
    listed = await list_objects(client, _PODS, objects.Pod, namespace=namespace)
    evidence.members = [pod for pod in listed.objects if pod_group_name(pod) in leaves]


def leaves_below(
    name: str, composites: Mapping[str, objects.CompositePodGroup], groups: Mapping[str, objects.PodGroup]
) -> set[str]:
    """Return names of the pod groups below a composite. The arguments are of one namespace (composite.md 1)."""
    below = {name}
    for _ in range(_MOST_LEVELS):
        below |= {name for name, group in composites.items() if group.spec.parent_composite_pod_group_name in below}
    return {name for name, group in groups.items() if group.spec.parent_composite_pod_group_name in below}


def read_above(evidence: Evidence, parent: str, composites: Mapping[str, objects.CompositePodGroup]) -> None:
    """Return the composites above an object, given all of its namespace by name."""
    while parent and parent not in evidence.above and len(evidence.above) < _MOST_LEVELS:
        composite = composites.get(parent)
        if composite is None:
            evidence.missing = parent
            return
        evidence.above.append(parent)
        parent = composite.spec.parent_composite_pod_group_name


async def _every(client: ApiClient, served: ServedResources, kind: type[T], namespace: str) -> dict[str, T]:
    """Return all objects of a kind in a namespace by name; of two with one name, the one that applies."""
    result: dict[str, T] = {}
    for resource in reversed(served.readable(kind.KIND)):
        listed = await list_objects(client, resource, kind, namespace=namespace)
        result |= {item.name: item for item in listed.objects}
    return result


async def _get(client: ApiClient, resource: Resource, kind: type[T], target: ExplainTarget) -> T | None:
    try:
        answer = await client.get(resource.path(target.namespace, target.name))
    except ApiError as error:
        if error.code == 404:
            return None
        raise
    try:
        return stored(kind, answer.body, resource)
    except InputError as error:
        raise ApiError(500, "Unreadable", str(error)) from None


class _Series(msgspec.Struct, frozen=True, rename="camel"):
    count: int = 1
    last_observed_time: str | None = None


class _InvolvedObject(msgspec.Struct, frozen=True):
    uid: str = ""


class _Event(msgspec.Struct, frozen=True, rename="camel"):
    involved_object: _InvolvedObject = _InvolvedObject()
    reason: str = ""
    message: str = ""
    type: str = ""
    count: int | None = None
    event_time: str | None = None
    last_timestamp: str | None = None
    series: _Series | None = None


class _Events(msgspec.Struct, frozen=True):
    items: list[_Event] = []


async def _events(client: ApiClient, evidence: Evidence) -> list[Occurrence]:
    target = evidence.target
    query = {"fieldSelector": f"involvedObject.kind={target.kind},involvedObject.name={target.name}"}
    path = Resource("", "v1", "events", "Event", True).path(target.namespace)
    try:
        events = (await client.get(path, query)).read(_Events).items
    except ApiError as error:
        evidence.warnings.append(f"events not read: {error}")
        return []
    item = evidence.object
    uid = item.metadata.uid if item is not None else ""
    own = (event for event in events if not uid or event.involved_object.uid in ("", uid))
    return sorted((_occurrence(event) for event in own), key=lambda event: event.at)


def _occurrence(event: _Event) -> Occurrence:
    series = event.series
    when = (series.last_observed_time if series is not None else None) or event.last_timestamp or event.event_time
    count = series.count if series is not None else event.count or 1
    return Occurrence(_seconds(when), event.type, event.reason, event.message, count)


def _seconds(stamp: str | None) -> float:
    from datetime import datetime

    try:
        return datetime.fromisoformat(stamp).timestamp() if stamp else 0.0
    except ValueError:
        return 0.0


# -- the scheduler's records -----------------------------------------------------------------------


class _List(msgspec.Struct, frozen=True):
    items: list[DecisionRecord] = []


async def _find_records(
    client: ApiClient,
    connection: Connection,
    names: Sequence[ExplainTarget | PreemptionsSince],
    records: str | None,
    evidence: Evidence,
) -> bool:
    """Return whether the scheduler's records could be read (there may be none of this object)."""
    if records is not None:
        where = records
        records_read = await _from(records, connection, names, ca=None)
    else:
        extension = connection.extensions.get(SCHEDULER_EXTENSION)
        where, records_read = "", None
        try:
            if isinstance(extension, Mapping):
                where = str(extension.get("url") or extension.get("records") or "")
                records_read = await _from(where, connection, names, ca=_ca(extension)) if where else None
            if records_read is None:
                where, records_read = await _from_leader(client, names, evidence)
        except ClientError as error:
            evidence.refusal = None if isinstance(error, ConfigError) else error
            evidence.warnings.append(f"the scheduler's records could not be read: {error}")
            return False
    if records_read is None:
        return False
    unique = {record.id: record for record in records_read}
    evidence.records = sorted(unique.values(), key=lambda record: record.id, reverse=True)
    evidence.source = where
    return True


async def _from(
    where: str, connection: Connection, names: Sequence[ExplainTarget | PreemptionsSince], *, ca: bytes | None
) -> list[DecisionRecord]:
    if is_database(where):
        return DatabaseRecords(where).answer(name.query for name in names)
    try:
        url = URL(where)
        host = url.host or ""
    except ValueError:
        raise ConfigError(f"{without_user(where)}: not a URL") from None
    if url.scheme not in ("http", "https") or not host:
        raise ConfigError(f"{without_user(where)}: {EXPECTED}")
    trusted = url.scheme == "https" or host in ("localhost", "127.0.0.1", "::1")
    endpoint = Connection(
        server=where.rstrip("/"),
        source="--records",
        tls=TlsSettings(ca_data=ca),
        identity=connection.identity if trusted else Identity(),
    )
    async with ApiClient(endpoint, limits=_QUICK) as scheduler:
        return await _explain(scheduler, "/explain", names)


async def _explain(
    client: ApiClient, path: str, names: Sequence[ExplainTarget | PreemptionsSince]
) -> list[DecisionRecord]:
    result: list[DecisionRecord] = []
    for queried in names:
        result += (await client.get(path, queried.query)).read(_List).items
    return result


def _ca(extension: Mapping[str, object]) -> bytes | None:
    data = extension.get("certificate-authority-data")
    if not isinstance(data, str):
        return None
    try:
        return base64.b64decode(data, validate=True)
    except binascii.Error:
        raise ConfigError(f"the context's {SCHEDULER_EXTENSION}: certificate-authority-data: not base64") from None


async def _from_leader(
    client: ApiClient, names: Sequence[ExplainTarget | PreemptionsSince], evidence: Evidence
) -> tuple[str, list[DecisionRecord] | None]:
    """Read records through the API server from the pod that holds the lease; (source, None) if there is no such pod."""
    try:
        labelled = (await client.get(_PODS.path(), {"labelSelector": _OURS})).read(Json).get("items") or ()
        holders = [await _holder(client, _LEASE)]
        for namespace in sorted({pod["metadata"]["namespace"] for pod in labelled}):
            leases = (await client.get(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases")).read(Json)
            holders += [_held_by(lease) for lease in leases.get("items") or ()]
        found_pods = [pod for pod in labelled if pod["metadata"]["name"] in holders]
        if not found_pods and holders[0]:  # a Deployment with other labels
            query = {"fieldSelector": f"metadata.name={holders[0]}"}
            found_pods = (await client.get(_PODS.path(), query)).read(Json).get("items") or []
    except ApiError as error:
        if error.code in (401, 403, 404):
            evidence.refusal = error if error.code != 404 else None
            return "", None
        raise
    for pod in found_pods:
        holder = pod["metadata"]["name"]
        where = _PODS.path(pod["metadata"]["namespace"], f"https:{holder}:{_PORT}", "proxy")
        return f"the scheduler's pod {holder}", await _explain(client, f"{where}/explain", names)
    return "", None


async def _holder(client: ApiClient, path: str) -> str:
    try:
        return _held_by((await client.get(path)).read(Json))
    except ApiError as error:
        if error.code in (403, 404):
            return ""
        raise


def _held_by(lease: Json) -> str:
    """Return the name of the pod that holds a lease; identities are HOSTNAME_UUID."""
    return str((lease.get("spec") or {}).get("holderIdentity") or "").partition("_")[0]


# -- without records -------------------------------------------------------------------------------


async def _compute(client: ApiClient, evidence: Evidence, *, suggest: bool) -> None:
    reading = await read_cluster(client)
    manifests: Manifests = manifests_of(reading, client.connection.server)
    target = evidence.target
    pod = evidence.pod
    if evidence.group is not None and (pod is None or not pod.spec.node_name):
        target = ExplainTarget("PodGroup", target.namespace, evidence.group.metadata.name)
    try:
        evidence.computed = ask(manifests, target.kind, target.namespace, target.name, now=time.time(), suggest=suggest)
    except InputError as error:
        evidence.warnings.append(f"the answer could not be computed: {error}")
