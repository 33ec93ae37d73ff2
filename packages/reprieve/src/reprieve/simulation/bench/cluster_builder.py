"""Components of the benchmark clusters: nodes, pods of one shape, gangs, and a layout of running gangs.

Invariant: the objects depend only on the arguments, on every machine and in every run.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from kube_rules import objects

GPU = "nvidia.com/gpu"
LOW, HIGH = 10, 1000
LAYOUT_SEED = 19676
"""Seed of the layout of running gangs. performance.md gives the outcome of the layout (80 % gangs, 651 units on 1,000
nodes, 3,117 on 5,000), not the draws; with this seed the rule of `running_gangs` has exactly these counts."""
_GANG_SHARE = 0.8
_SMALLEST, _LARGEST, _RUN = 8, 64, 8
GPUS_PER_NODE = 8
POD_SIZES: tuple[objects.ResourceList, ...] = (
    {"cpu": "100m", "memory": "256Mi"},
    {"cpu": "500m", "memory": "1Gi"},
    {"cpu": "1", "memory": "2Gi"},
    {"cpu": "250m", "memory": "512Mi"},
)


@dataclass(frozen=True, slots=True)
class BenchCluster:
    """The objects of a scenario: running and pending pods, each with their groups."""

    nodes: tuple[objects.Node, ...]
    work: tuple[objects.Pod, ...]
    groups: tuple[objects.PodGroup, ...] = ()
    composites: tuple[objects.CompositePodGroup, ...] = ()
    running: tuple[objects.Pod, ...] = ()
    running_groups: tuple[objects.PodGroup, ...] = ()
    services: tuple[objects.Service, ...] = ()
    budgets: tuple[objects.PodDisruptionBudget, ...] = ()
    resources: tuple[objects.KubernetesObject, ...] = ()
    """Device classes, slices and claims."""


def make_node(
    number: int, cpu: str = "64", memory: str = "512Gi", gpus: int = 0, labels: dict[str, str] | None = None
) -> objects.Node:
    """Return the node with this number and capacity for 110 pods; without `gpus` it has no GPU resource."""
    amounts: objects.ResourceList = {"cpu": cpu, "memory": memory, "pods": "110"}
    if gpus:
        amounts[GPU] = str(gpus)
    return objects.Node(
        metadata=objects.ObjectMeta(name=f"node-{number:05d}", labels=labels or {}),
        status=objects.NodeStatus(allocatable=amounts),
    )


def gpu_nodes(nodes: int) -> tuple[objects.Node, ...]:
    """Return a number of nodes with eight GPUs each."""
    return tuple(make_node(i, gpus=GPUS_PER_NODE) for i in range(nodes))


def make_pods(
    names: Iterator[str] | list[str],
    priority: int,
    requests: objects.ResourceList,
    *,
    group: str = "",
    nodes: list[str] | None = None,
) -> Iterator[objects.Pod]:
    """Yield pods of one shape, bound to the given nodes, one each."""
    container = (objects.Container(name="c", resources=objects.ResourceRequirements(requests=requests)),)
    member = objects.PodSchedulingGroup(pod_group_name=group) if group else None
    for i, name in enumerate(names):
        spec = objects.PodSpec(
            containers=container,
            priority=priority,
            scheduling_group=member,
            node_name=nodes[i] if nodes is not None else "",
            termination_grace_period_seconds=0,
        )
        status = objects.PodStatus(phase="Running" if nodes is not None else "Pending")
        yield objects.Pod(metadata=metadata_named(name), spec=spec, status=status)


def metadata_named(name: str) -> objects.ObjectMeta:
    """Return the metadata of an object in the namespace `default` with its name as UID."""
    return objects.ObjectMeta(name=name, namespace="default", uid=name)


def make_gang(name: str, priority: int, min_count: int, *, together: bool = False) -> objects.PodGroup:
    """Return the group of a gang; `together` sets the disruption mode `all`."""
    mode = objects.DisruptionMode(all=objects.EMPTY) if together else objects.DisruptionMode(single=objects.EMPTY)
    policy = objects.PodGroupSchedulingPolicy(gang=objects.GangSchedulingPolicy(min_count=min_count))
    return objects.PodGroup(
        metadata=metadata_named(name),
        spec=objects.PodGroupSpec(scheduling_policy=policy, disruption_mode=mode, priority=priority),
    )


def member_names(name: str, size: int) -> list[str]:
    """Return names for the pods of a gang, or of a run of single pods."""
    return [f"{name}-{i:04d}" for i in range(size)]


def running_gangs(
    machines: tuple[objects.Node, ...],
) -> tuple[tuple[objects.PodGroup, ...], tuple[objects.Pod, ...]]:
    """Fill every GPU with 1-GPU pods of priority 10, node after node.

    Each step adds a gang of 8..64 pods (mode `all`) with a probability of 80 %, else a run of 8 single pods, until the
    cluster is full.
    """
    draw = Random(LAYOUT_SEED).random
    requests: objects.ResourceList = {"cpu": "100m", "memory": "500Mi", GPU: "1"}
    slots = [machine.name for machine in machines for _ in range(GPUS_PER_NODE)]
    groups: list[objects.PodGroup] = []
    pods: list[objects.Pod] = []
    at = run = 0
    while at < len(slots):
        if draw() < _GANG_SHARE:
            name = f"low-gang-{len(groups):04d}"
            where = slots[at : at + _SMALLEST + int(draw() * (_LARGEST - _SMALLEST + 1))]
            groups.append(make_gang(name, LOW, len(where), together=True))
            pods += make_pods(member_names(name, len(where)), LOW, requests, group=name, nodes=where)
        else:
            where = slots[at : at + _RUN]
            pods += make_pods(member_names(f"low-run-{run:04d}", len(where)), LOW, requests, nodes=where)
            run += 1
        at += len(where)
    return tuple(groups), tuple(pods)
