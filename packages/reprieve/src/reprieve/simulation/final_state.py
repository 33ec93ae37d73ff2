"""The cluster as a plan leaves it: the objects of the input as they are at the end of simulated time.

Placed pods are bound and run. Pods that were evicted, ended or deleted are left out; those being deleted are
terminating. Nominated pods have their nomination. Claims and volumes are as the plan wrote them.  The result can be
planned again.

Not followed: a PodDisruptionBudget with a status loses it if any of its pods left, so that the next plan counts again.
Of a scenario that was stopped at its first decision, the later steps count as done, except for what they do to pods and
nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from datetime import UTC, datetime

from msgspec.structs import replace

from kube_rules import objects
from kube_rules.errors import Origin
from kube_rules.manifests import Loaded, Manifests
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
    """Return the expanded input of a plan as `engine` has it now, `at` seconds since the epoch. The input is not
    changed.

    `leaving`: `namespace/name` of victims of a decision that has not been acted on yet.
    """
    cluster = engine.cluster
    scenarios = read_scenarios(manifests, rows)
    everything = _played(manifests, scenarios, at)
    records = {pod.key: pod for pod in sorted(cluster.pods.values(), key=lambda pod: not pod.terminating)}
    written = _written(engine)
    found: list[Loaded[KubernetesObject]] = []
    someone_went = False
    admission = Admission()
    of_pods = [*manifests.of(objects.LimitRange), *manifests.of(objects.RuntimeClass)]
    admission.begin([loaded.object for loaded in of_pods], (), at)
    for loaded in everything:
        item: KubernetesObject | None = loaded.object
        key = _key(loaded.object)
        if isinstance(item, objects.Pod):
            admitted = admission.completed(item) if item.key in records else item
            item = _pod(admitted, records.get(item.key), cluster.nodes.names, at, leaving)
            someone_went = someone_went or item is None
        elif isinstance(item, objects.Node):
            item = item if item.name in cluster.nodes.row_of else None
        elif isinstance(item, _WRITTEN):
            item = written.pop(key, None)
        if item is not None:
            found.append(Loaded(item, loaded.origin, loaded.order, loaded.created, dated=loaded.dated))
    order = 1 + max((loaded.order for loaded in everything), default=0)
    for turn, item in enumerate(written.values()):
        found.append(Loaded(item, Origin("<plan>"), order + turn, at))
    unknown = list(manifests.unknown)
    steps = [step for scenario in scenarios for step in scenario.steps]
    jobs = [*manifests.jobs, *(job for step in steps for job in step.jobs)]
    idle = [*manifests.suspended, *(each for step in steps for each in step.suspended)]
    made = Manifests(unknown=unknown, unknown_fields=manifests.unknown_fields, jobs=jobs, suspended=idle)
    for loaded in found:
        item = loaded.object
        if someone_went and isinstance(item, objects.PodDisruptionBudget):
            loaded.object = replace(item, status=None)
        made.objects.setdefault(type(item), []).append(loaded)
    return made


_WRITTEN = (objects.ResourceClaim, objects.PersistentVolume, objects.PersistentVolumeClaim)


def _written(engine: Engine) -> dict[Key, KubernetesObject]:
    """Claims and volumes as the plan left them, those that it made included."""
    cluster = engine.cluster
    claims: Iterable[KubernetesObject] = (
        claim.object for claim in cluster.devices.claims.values() if claim.object is not None
    )
    volumes = cluster.volumes
    return {_key(item): item for each in (claims, volumes.volumes.values(), volumes.claims.values()) for item in each}


def _played(manifests: Manifests, scenarios: Sequence[ScenarioScript], at: float) -> list[Loaded[KubernetesObject]]:
    """Return all objects, with what scenarios create and without what they delete."""
    everything = manifests.all()
    order = 1 + max((loaded.order for loaded in everything), default=0)
    for scenario in scenarios:
        for step in scenario.steps:
            everything += [Loaded(item, scenario.origin, order + turn, at) for turn, item in enumerate(step.create)]
            order += len(step.create)
            gone = {each for each in step.delete if each[0] not in ("Node", "Pod")}
            everything = [loaded for loaded in everything if _key(loaded.object) not in gone]
    return everything


def _pod(
    pod: objects.Pod, record: PodRecord | None, names: Sequence[str], at: float, leaving: Set[str]
) -> objects.Pod | None:
    if pod.status.phase in ("Succeeded", "Failed"):
        return pod
    if record is None:
        return None
    status, spec, meta = pod.status, pod.spec, pod.metadata
    if record.claims:
        made = tuple(
            objects.PodResourceClaimStatus(name=claim.name, resource_claim_name=claim.claim)
            for claim in record.claims
            if claim.template is not None and claim.claim is not None
        )
        status = replace(status, resource_claim_statuses=made or status.resource_claim_statuses)
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
