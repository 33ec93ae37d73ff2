"""The cluster after a plan: the objects of the input as they are at the end of simulated time.

Placed pods are bound and run. Evicted, ended and deleted pods are left out; pods being deleted are terminating.
Nominated pods have their nomination. Claims and volumes have the state that the plan wrote. The result can be planned
again.

Exceptions: a PodDisruptionBudget with a status loses it if any pod left, so that the next plan counts again. If a
scenario stopped at its first decision, the later steps count as done, except for their effects on pods and nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from datetime import UTC, datetime

from msgspec.structs import replace

from kube_rules import objects
from kube_rules.errors import Origin
from kube_rules.manifests import LoadedObject, Manifests
from kube_rules.meta import KubernetesObject
from reprieve.cluster.pods import PodRecord
from reprieve.scheduling.engine import Engine
from reprieve.simulation.controllers.admission import Admission
from reprieve.simulation.scenario import ScenarioScript, read_scenarios
from reprieve.simulation.workloads.rows import Rows
from reprieve.simulation.workloads.table import TABLE

Key = tuple[str, str, str]
"""(kind, namespace, name)."""


def afterwards(
    manifests: Manifests, engine: Engine, at: float, leaving: Set[str] = frozenset(), *, rows: Rows = TABLE
) -> Manifests:
    """Return the expanded input of a plan in the engine's state, `at` seconds since the epoch; keep the input.

    `leaving`: `namespace/name` of the victims of a decision that has not been executed yet.
    """
    cluster = engine.cluster
    scenarios = read_scenarios(manifests, rows)
    everything = _played(manifests, scenarios, at)
    records = {pod.key: pod for pod in sorted(cluster.pods.values(), key=lambda pod: not pod.terminating)}
    written = _written(engine)
    final_objects: list[LoadedObject[KubernetesObject]] = []
    pod_removed = False
    admission = Admission()
    of_pods = [*manifests.of(objects.LimitRange), *manifests.of(objects.RuntimeClass)]
    admission.begin([loaded.object for loaded in of_pods], (), at)
    for loaded in everything:
        item: KubernetesObject | None = loaded.object
        key = _key(loaded.object)
        if isinstance(item, objects.Pod):
            admitted = admission.completed(item) if item.key in records else item
            item = _pod(admitted, records.get(item.key), cluster.nodes.names, at, leaving)
            pod_removed = pod_removed or item is None
        elif isinstance(item, objects.Node):
            item = item if item.name in cluster.nodes.row_of else None
        elif isinstance(item, _WRITTEN):
            item = written.pop(key, None)
        if item is not None:
            final_objects.append(LoadedObject(item, loaded.origin, loaded.order, loaded.created, dated=loaded.dated))
    order = 1 + max((loaded.order for loaded in everything), default=0)
    for turn, item in enumerate(written.values()):
        final_objects.append(LoadedObject(item, Origin("<plan>"), order + turn, at))
    unknown = list(manifests.unknown)
    steps = [step for scenario in scenarios for step in scenario.steps]
    jobs = [*manifests.jobs, *(job for step in steps for job in step.jobs)]
    idle = [*manifests.suspended, *(workload for step in steps for workload in step.suspended)]
    result = Manifests(unknown=unknown, unknown_fields=manifests.unknown_fields, jobs=jobs, suspended=idle)
    for loaded in final_objects:
        item = loaded.object
        if pod_removed and isinstance(item, objects.PodDisruptionBudget):
            loaded.object = replace(item, status=None)
        result.objects.setdefault(type(item), []).append(loaded)
    return result


_WRITTEN = (objects.ResourceClaim, objects.PersistentVolume, objects.PersistentVolumeClaim)


def _written(engine: Engine) -> dict[Key, KubernetesObject]:
    """Return the claims and volumes after the plan, including new ones."""
    cluster = engine.cluster
    claims: Iterable[KubernetesObject] = (
        claim.object for claim in cluster.devices.claims.values() if claim.object is not None
    )
    volumes = cluster.volumes
    return {_key(item): item for items in (claims, volumes.volumes.values(), volumes.claims.values()) for item in items}


def _played(
    manifests: Manifests, scenarios: Sequence[ScenarioScript], at: float
) -> list[LoadedObject[KubernetesObject]]:
    """Return all objects, with those that scenarios create and without those that they delete."""
    everything = manifests.all()
    order = 1 + max((loaded.order for loaded in everything), default=0)
    for scenario in scenarios:
        for step in scenario.steps:
            everything += [
                LoadedObject(item, scenario.origin, order + turn, at) for turn, item in enumerate(step.create)
            ]
            order += len(step.create)
            deleted = {key for key in step.delete if key[0] not in ("Node", "Pod")}
            everything = [loaded for loaded in everything if _key(loaded.object) not in deleted]
    return everything


def _pod(
    pod: objects.Pod, record: PodRecord | None, names: Sequence[str], at: float, leaving: Set[str]
) -> objects.Pod | None:
    if pod.finished:
        return pod
    if record is None:
        return None
    status, spec, meta = pod.status, pod.spec, pod.metadata
    if record.claims:
        statuses = tuple(
            objects.PodResourceClaimStatus(name=claim.name, resource_claim_name=claim.claim)
            for claim in record.claims
            if claim.template is not None and claim.claim is not None
        )
        status = replace(status, resource_claim_statuses=statuses or status.resource_claim_statuses)
    if record.row >= 0 and not spec.node_name:
        started = datetime.fromtimestamp(record.start if record.start is not None else at, UTC)
        spec = replace(spec, node_name=names[record.row])
        status = replace(status, phase="Running", start_time=started, nominated_node_name="", conditions=())
    elif record.row < 0:
        status = replace(status, nominated_node_name=names[record.nominated] if record.nominated >= 0 else "")
    if (record.terminating or pod.key in leaving) and meta.deletion_timestamp is None:
        meta = replace(meta, deletion_timestamp=datetime.fromtimestamp(at, UTC))
    return replace(pod, metadata=meta, spec=spec, status=status)


def _key(item: KubernetesObject) -> Key:
    return (item.KIND, item.namespace, item.name)
