"""Clusters of distinct pods, like real ones.

Every pod has its own requests, labels, image and name. Ten of a kind share an application, its ReplicaSet as owner and
its Service. Of every application half the pods prefer to avoid similar pods, a quarter require certain machine types,
and a quarter spread over zones. Nodes have one of twenty shapes and hold some of the images.

Invariant: the objects depend only on the sizes (seeded draws).
"""

from collections.abc import Iterable, Iterator, Sequence
from random import Random
from typing import Final

from msgspec.structs import replace

from kube_rules import objects, owners
from kube_rules.topology_terms import HOSTNAME, ZONE

MACHINE = "node.kubernetes.io/instance-type"
SEED: Final = 5710
_SHAPES: Final = 20
_ZONES: Final = 10
_NAMESPACES: Final = 50
_PODS_OF_APPLICATION: Final = 10
_IMAGES_ON_NODE: Final = 8


def nodes(number: int) -> tuple[objects.Node, ...]:
    """Return nodes of twenty shapes, 16 to 130 cores."""
    draw = Random(SEED)
    result = []
    for i in range(number):
        shape = i % _SHAPES
        name = f"node-{i:05d}"
        cores = 16 + 6 * shape
        images = tuple(
            objects.ContainerImage(names=(image_of(draw.randrange(20 * number)),), size_bytes=draw.randrange(1 << 28))
            for _ in range(_IMAGES_ON_NODE)
        )
        result.append(
            objects.Node(
                metadata=objects.ObjectMeta(
                    name=name, labels={HOSTNAME: name, ZONE: f"zone-{i % _ZONES}", MACHINE: f"type-{shape}"}
                ),
                status=objects.NodeStatus(
                    allocatable={"cpu": str(cores), "memory": f"{4 * cores}Gi", "pods": "110"}, images=images
                ),
            )
        )
    return tuple(result)


def image_of(number: int) -> str:
    """Return the image of the pod with this number; each has its own tag."""
    return f"registry.example/team-{number % 97}/app:{number}"


def services(pods: int) -> Iterator[objects.Service]:
    """Yield a service for every application of a number of pods."""
    for application in range((pods + _PODS_OF_APPLICATION - 1) // _PODS_OF_APPLICATION):
        yield objects.Service(
            metadata=objects.ObjectMeta(name=f"app-{application}", namespace=_namespace(application)),
            spec=owners.ServiceSpec(selector={"app": f"app-{application}"}),
        )


def pods(
    first: int, number: int, *, priority: int, on: Sequence[objects.Node] = (), largest: int = 1000
) -> Iterator[objects.Pod]:
    """Yield pods from that number on, bound to the nodes in turn if there are any.

    `largest` is the maximum request, in milli-cores.
    """
    draw = Random(SEED * 31 + first)
    for i in range(first, first + number):
        application, turn = divmod(i, _PODS_OF_APPLICATION)
        name = f"app-{application}"
        amounts: objects.ResourceList = {
            "cpu": f"{50 + draw.randrange(largest - 50)}m",
            "memory": f"{64 + draw.randrange(2 * largest)}Mi",
        }
        labels = {"app": name, "pod": f"{name}-{turn}", "release": f"r{draw.randrange(50)}"}
        owner = objects.OwnerReference(
            api_version="apps/v1", kind="ReplicaSet", name=name, uid=f"rs-{application}", controller=True
        )
        node = on[(i - first) % len(on)].metadata.name if on else ""
        yield objects.Pod(
            metadata=objects.ObjectMeta(
                name=f"{name}-{turn}",
                namespace=_namespace(application),
                uid=f"pod-{i}",
                labels=labels,
                owner_references=(owner,),
            ),
            spec=objects.PodSpec(
                containers=(
                    objects.Container(
                        name="c", image=image_of(i), resources=objects.ResourceRequirements(requests=amounts)
                    ),
                ),
                affinity=_affinity(name, turn, draw),
                topology_spread_constraints=_spread(name) if turn % 4 == 3 else (),
                priority=priority,
                node_name=node,
                termination_grace_period_seconds=0,
            ),
            status=objects.PodStatus(phase="Running" if node else "Pending"),
        )


def with_own_anti_affinity(pods: Iterable[objects.Pod]) -> Iterator[objects.Pod]:
    """Yield the pods with a unique anti-affinity term each, against similar pods on its node."""
    for pod in pods:
        alike = objects.LabelSelector(match_labels={"pod": pod.metadata.labels["pod"]})
        term = objects.PodAffinityTerm(label_selector=alike, topology_key=HOSTNAME)
        apart = objects.PodAntiAffinity(required_during_scheduling_ignored_during_execution=(term,))
        before = pod.spec.affinity or objects.Affinity()
        yield replace(pod, spec=replace(pod.spec, affinity=replace(before, pod_anti_affinity=apart)))


def _namespace(application: int) -> str:
    return f"team-{application % _NAMESPACES}"


def _affinity(name: str, turn: int, draw: Random) -> objects.Affinity | None:
    apart = machines = None
    if turn % 2 == 0:
        alike = objects.LabelSelector(match_labels={"app": name})
        term = objects.PodAffinityTerm(label_selector=alike, topology_key=HOSTNAME)
        preferred = objects.WeightedPodAffinityTerm(weight=1 + draw.randrange(100), pod_affinity_term=term)
        apart = objects.PodAntiAffinity(preferred_during_scheduling_ignored_during_execution=(preferred,))
    if turn % 4 == 1:
        wanted = tuple(sorted({f"type-{draw.randrange(_SHAPES)}" for _ in range(6)}))
        requirement = objects.NodeSelectorRequirement(key=MACHINE, operator="In", values=wanted)
        machines = objects.NodeAffinity(
            required_during_scheduling_ignored_during_execution=objects.NodeSelector(
                node_selector_terms=(objects.NodeSelectorTerm(match_expressions=(requirement,)),)
            )
        )
    if apart is None and machines is None:
        return None
    return objects.Affinity(node_affinity=machines, pod_anti_affinity=apart)


def _spread(name: str) -> tuple[objects.TopologySpreadConstraint, ...]:
    alike = objects.LabelSelector(match_labels={"app": name})
    return (
        objects.TopologySpreadConstraint(
            max_skew=5, topology_key=ZONE, when_unsatisfiable="DoNotSchedule", label_selector=alike
        ),
    )
