"""Jobs as API objects: a pod group and its pods, or a single pod (replay.md 3.2)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from kube_rules import objects
from kube_rules.controllers.jobs import INDEX
from kube_rules.meta import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, ObjectMeta, OwnerReference
from kube_rules.topology_terms import PREFERRED_TOPOLOGY, SLICE
from kube_rules.work_annotations import CHECKPOINT_INTERVAL, EXPECTED_RUNTIME, MOVABLE, RESTART_COST
from reprieve.replay.job_list import ReplayJob, Shape, Tolerated

GPU: Final = "nvidia.com/gpu"
GPU_MILLI: Final = "alibabacloud.com/gpu-milli"
"""Thousandths of a GPU, for shared GPUs."""
GPU_MODEL: Final = "gpu-model"
"""Label of nodes."""
_THOUSANDTHS: Final = "/gpu-milli"
_MODEL_LABELS: Final = ("gpu-model", "nvidia.com/gpu.product")


@dataclass(frozen=True, slots=True)
class Terms:
    """The names of resources and labels in this cluster, and settings of all jobs. Times in milliseconds."""

    gpu: str = GPU
    """The resource that pods with GPUs request."""
    per_gpu: int = 1
    """The amount of it that is one GPU."""
    model_label: str = _MODEL_LABELS[0]
    checkpoint: int | None = None
    """Of jobs that set none."""
    restart: int = 0
    tolerations: tuple[Tolerated, ...] = ()
    """Of jobs that list none."""

    def checkpoint_of(self, shape: Shape) -> int | None:
        """Return the milliseconds of work between checkpoints; None: no checkpoints."""
        return self.checkpoint if shape.checkpoint is None else shape.checkpoint

    def tolerations_of(self, shape: Shape) -> tuple[Tolerated, ...]:
        """Return the taints that its pods tolerate."""
        return shape.tolerations or self.tolerations


def terms_for(
    nodes: Iterable[objects.Node],
    *,
    checkpoint: int | None = None,
    restart: int = 0,
    tolerations: tuple[Tolerated, ...] = (),
) -> Terms:
    """Return the terms that the nodes use for GPUs and their models."""
    resources: set[str] = set()
    labels: set[str] = set()
    for node in nodes:
        resources.update(node.status.allocatable or {})
        labels.update(node.metadata.labels or {})
    shared = sorted(name for name in resources if name.endswith(_THOUSANDTHS))
    label = next((label for label in _MODEL_LABELS if label in labels), _MODEL_LABELS[0])
    if shared and GPU not in resources:
        return Terms(shared[0], 1000, label, checkpoint, restart, tolerations)
    return Terms(GPU, 1, label, checkpoint, restart, tolerations)


def tolerations_from(tolerations: Iterable[Tolerated]) -> tuple[objects.Toleration, ...]:
    """Return the tolerations of a pod."""
    return tuple(
        objects.Toleration(key=key, operator=operator, value=value, effect=effect)
        for key, operator, value, effect in tolerations
    )


def _owner(job: ReplayJob) -> OwnerReference:
    return OwnerReference(api_version="batch/v1", kind="Job", name=job.name, controller=True)


class Makers:
    """Creates the objects; parts that jobs of one shape share are created once."""

    def __init__(self, terms: Terms, classes: Mapping[str, int], *, owned: bool = False) -> None:
        self.terms = terms
        self.owned = owned
        """Pods and groups have their job as controller."""
        self._classes = classes
        # By identity: a shape is looked up with every pod, and to compare its fields takes longer than all the rest.
        self._specs: dict[int, objects.PodSpec] = {}
        self._group_specs: dict[int, objects.PodGroupSpec] = {}
        self._annotations: dict[int, dict[str, str]] = {}
        self._shapes: list[Shape] = []
        """The shapes of all stored identities: a deleted shape would leave its identity to another."""

    def priority(self, shape: Shape) -> int:
        """Return its own priority, else that of its class, else 0."""
        return shape.priority if shape.priority is not None else self._classes.get(shape.priority_class, 0)

    def pod(
        self, job: ReplayJob, uid: str, name: str, group: str, runtime: int | None = None, *, worker: int = 0
    ) -> objects.Pod:
        """Return a worker. `group`: the name of its pod group, "" for a single pod; `worker`: its index.

        `runtime`: milliseconds that the scheduler expects it to run; None: no annotation.
        """
        shape = job.shape
        spec = self._specs.get(id(shape))
        if spec is None:
            spec = self._specs[id(shape)] = self._spec(shape)
            self._shapes.append(shape)
        if group:
            reference = objects.PodSchedulingGroup(pod_group_name=group)
            spec = objects.PodSpec(
                containers=spec.containers,
                affinity=spec.affinity,
                tolerations=spec.tolerations,
                priority=spec.priority,
                priority_class_name=spec.priority_class_name,
                scheduling_group=reference,
            )
        annotations = self._annotations_of(shape)
        if runtime is not None:
            annotations = {**annotations, EXPECTED_RUNTIME: f"{runtime}ms"}
        indexed = {INDEX: str(worker)} if shape.preferred_topology or shape.slice else {}
        meta = ObjectMeta(
            name=name,
            namespace=shape.tenant,
            uid=uid,
            labels={**dict(shape.labels), **indexed},
            annotations=annotations,
            owner_references=(_owner(job),) if self.owned else (),
        )
        return objects.Pod(metadata=meta, spec=spec)

    def group(self, job: ReplayJob, name: str) -> objects.PodGroup:
        """Return the pod group: a gang of `min_workers`."""
        shape = job.shape
        spec = self._group_specs.get(id(shape))
        if spec is None:
            topology = (objects.TopologyConstraint(key=shape.topology_key),) if shape.topology_key else ()
            mode = (
                objects.DisruptionMode(all=objects.Empty())
                if shape.whole
                else objects.DisruptionMode(single=objects.Empty())
            )
            gang = objects.GangSchedulingPolicy(min_count=shape.min_workers)
            spec = self._group_specs[id(shape)] = objects.PodGroupSpec(
                scheduling_policy=objects.PodGroupSchedulingPolicy(gang=gang),
                scheduling_constraints=objects.PodGroupSchedulingConstraints(topology=topology),
                disruption_mode=mode,
                priority=self.priority(shape),
                priority_class_name=shape.priority_class,
            )
            self._shapes.append(shape)
        annotations = {PREFERRED_TOPOLOGY: shape.preferred_topology, SLICE: shape.slice}
        meta = ObjectMeta(
            name=name,
            namespace=shape.tenant,
            uid=f"{shape.tenant}/{name}",
            annotations={key: text for key, text in annotations.items() if text},
            owner_references=(_owner(job),),
        )
        return objects.PodGroup(metadata=meta, spec=spec)

    def _spec(self, shape: Shape) -> objects.PodSpec:
        requests: dict[str, str] = {}
        if shape.cpu:
            requests["cpu"] = f"{shape.cpu}m"
        if shape.memory:
            requests["memory"] = str(shape.memory)
        if shape.gpu:
            requests[self.terms.gpu] = str(shape.gpu * self.terms.per_gpu // 1000)
        resources = objects.ResourceRequirements(requests=dict(requests))
        return objects.PodSpec(
            containers=(objects.Container(name="worker", resources=resources),),
            affinity=self._affinity(shape.models) if shape.models else None,
            tolerations=tolerations_from(self.terms.tolerations_of(shape)),
            priority=self.priority(shape),
            priority_class_name=shape.priority_class,
        )

    def _affinity(self, models: tuple[str, ...]) -> objects.Affinity:
        wanted = NodeSelectorRequirement(key=self.terms.model_label, operator="In", values=models)
        term = NodeSelectorTerm(match_expressions=(wanted,))
        required = NodeSelector(node_selector_terms=(term,))
        return objects.Affinity(
            node_affinity=objects.NodeAffinity(required_during_scheduling_ignored_during_execution=required)
        )

    def _annotations_of(self, shape: Shape) -> dict[str, str]:
        result = self._annotations.get(id(shape))
        if result is None:
            result = self._annotations[id(shape)] = {}
            checkpoint = self.terms.checkpoint_of(shape)
            if checkpoint is not None:
                result[CHECKPOINT_INTERVAL] = f"{checkpoint}ms"
            if shape.movable is not None:
                result[MOVABLE] = str(shape.movable).lower()
            if self.terms.restart:
                result[RESTART_COST] = f"{self.terms.restart}ms"
        return result
