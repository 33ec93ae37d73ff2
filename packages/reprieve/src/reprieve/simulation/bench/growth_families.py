"""Families that show whether preemptors and trees placed one after another share work.

They have trees in domains, a preempting tree of three levels, single pods that preempt for devices, and small
preempting gangs.
"""

import dataclasses
from random import Random

import msgspec
from msgspec.structs import replace

from kube_rules import objects
from reprieve.simulation.bench.cluster_builder import (
    GPUS_PER_NODE,
    HIGH,
    LAYOUT_SEED,
    LOW,
    BenchCluster,
    make_gang,
    make_node,
    make_pods,
    member_names,
    metadata_named,
)

RACK, BLOCK, HALL = "topology.example/rack", "topology.example/block", "topology.example/hall"
_IN_RACK, _IN_BLOCK, _IN_HALL = 4, 16, 80
"""Numbers of nodes."""
_PRIORITIES = 9
_MEMBERS = 4
"""The number of pods of a leaf, and of a small gang."""
DRIVER = "gpu.example.com"


def trees_in_domains(nodes: int, pods: int) -> BenchCluster:
    """Return trees of two gangs of four, each in a rack, both in one block, placed one after another."""
    composites: list[objects.CompositePodGroup] = []
    groups: list[objects.PodGroup] = []
    work: list[objects.Pod] = []
    for start in range(0, pods, 2 * _MEMBERS):
        root = f"tree-{start // (2 * _MEMBERS):04d}"
        leaves, members = _leaves(root, min(2 * _MEMBERS, pods - start))
        composites.append(_composite(root, len(leaves), BLOCK))
        groups += leaves
        work += members
    return BenchCluster(_in_halls(nodes), tuple(work), tuple(groups), tuple(composites))


def tree_of_levels(nodes: int, pods: int) -> BenchCluster:
    """Return full racks, blocks and halls, and one tree in a hall: pairs of gangs in a block, each in a rack.

    Every running pod may be evicted.
    """
    composites = []
    groups: list[objects.PodGroup] = []
    work: list[objects.Pod] = []
    for start in range(0, pods, 2 * _MEMBERS):
        middle = f"pair-{start // (2 * _MEMBERS):02d}"
        leaves, members = _leaves(middle, min(2 * _MEMBERS, pods - start))
        composites.append(_composite(middle, len(leaves), BLOCK, parent="tree"))
        groups += leaves
        work += members
    root = _composite("tree", len(composites), HALL)
    machines = _in_halls(nodes)
    return BenchCluster(machines, tuple(work), tuple(groups), (root, *composites), running=_filling(machines, 2, "4"))


def small_gangs(nodes: int, pods: int) -> BenchCluster:
    """Return full nodes, and gangs of four that preempt one after another."""
    machines = tuple(make_node(i, cpu="8", memory="64Gi") for i in range(nodes))
    groups: list[objects.PodGroup] = []
    work: list[objects.Pod] = []
    for start in range(0, pods, _MEMBERS):
        name, size = f"gang-{start // _MEMBERS:04d}", min(_MEMBERS, pods - start)
        groups.append(make_gang(name, HIGH, size))
        work += make_pods(member_names(name, size), HIGH, {"cpu": "4"}, group=name)
    return BenchCluster(machines, tuple(work), tuple(groups), running=_filling(machines, 4, "1900m"))


def preempting_for_devices(nodes: int, pods: int) -> BenchCluster:
    """Return nodes with eight devices, each used by its own pod, and pods that preempt for one device each."""
    machines = tuple(make_node(i) for i in range(nodes))
    running, claims = [], []
    for pod in _filling(machines, GPUS_PER_NODE, "1"):
        name, node = pod.metadata.name, pod.spec.node_name
        claims.append(_claim(name, node, f"gpu-{name.rpartition('-')[2]}"))
        running.append(_claiming(pod))
    work = [_claiming(pod) for pod in make_pods([f"high-{i:05d}" for i in range(pods)], HIGH, {"cpu": "1"})]
    claims += [_claim(pod.metadata.name) for pod in work]
    return BenchCluster(machines, tuple(work), running=tuple(running), resources=(*_devices_of(machines), *claims))


def preempting_for_unlike_devices(nodes: int, pods: int) -> BenchCluster:
    """Return `preempting_for_devices` with preemptors of distinct requests apart from devices."""
    cluster = preempting_for_devices(nodes, pods)
    work = []
    for turn, pod in enumerate(cluster.work):
        (container,) = pod.spec.containers
        amounts = objects.ResourceRequirements(requests={"cpu": f"{1000 + turn}m"})
        own = replace(container, resources=amounts)
        work.append(replace(pod, spec=replace(pod.spec, containers=(own,))))
    return dataclasses.replace(cluster, work=tuple(work))


def waiting_for_room(nodes: int, pods: int) -> BenchCluster:
    """Return racks full of pods that may not be evicted, and gangs of four that each wait for a rack."""
    machines = _in_halls(nodes)
    names = [f"busy-{i:05d}-{slot}" for i in range(nodes) for slot in range(_IN_RACK)]
    where = [machine.metadata.name for machine in machines for _ in range(_IN_RACK)]
    running = tuple(make_pods(names, HIGH, {"cpu": "1900m"}, nodes=where))
    groups: list[objects.PodGroup] = []
    work: list[objects.Pod] = []
    rack = objects.PodGroupSchedulingConstraints(topology=(objects.TopologyConstraint(key=RACK),))
    for start in range(0, pods, _MEMBERS):
        name, size = f"gang-{start // _MEMBERS:04d}", min(_MEMBERS, pods - start)
        gang = make_gang(name, LOW, size)
        groups.append(replace(gang, spec=replace(gang.spec, scheduling_constraints=rack)))
        work += make_pods(member_names(name, size), LOW, {"cpu": "4"}, group=name)
    return BenchCluster(machines, tuple(work), tuple(groups), running=running)


def _in_halls(nodes: int) -> tuple[objects.Node, ...]:
    """Return nodes of 8 CPU: four in a rack, four racks in a block, five blocks in a hall."""
    return tuple(
        make_node(
            i,
            cpu="8",
            memory="64Gi",
            labels={
                RACK: f"rack-{i // _IN_RACK:05d}",
                BLOCK: f"block-{i // _IN_BLOCK:05d}",
                HALL: f"hall-{i // _IN_HALL:05d}",
            },
        )
        for i in range(nodes)
    )


def _filling(machines: tuple[objects.Node, ...], per_node: int, cpu: str) -> tuple[objects.Pod, ...]:
    """Return a number of running pods per node, with one of nine priorities below `HIGH`."""
    draw = Random(LAYOUT_SEED)
    names = [f"low-{i:05d}-{slot}" for i in range(len(machines)) for slot in range(per_node)]
    where = [machine.metadata.name for machine in machines for _ in range(per_node)]
    return tuple(
        replace(pod, spec=replace(pod.spec, priority=1 + draw.randrange(_PRIORITIES)))
        for pod in make_pods(names, LOW, {"cpu": cpu}, nodes=where)
    )


def _leaves(parent: str, pods: int) -> tuple[list[objects.PodGroup], list[objects.Pod]]:
    """Return gangs of four below a composite, each in one rack, and their pods, which need half a node each."""
    groups: list[objects.PodGroup] = []
    work: list[objects.Pod] = []
    rack = objects.PodGroupSchedulingConstraints(topology=(objects.TopologyConstraint(key=RACK),))
    for start in range(0, pods, _MEMBERS):
        name, size = f"{parent}-{start // _MEMBERS}", min(_MEMBERS, pods - start)
        gang = make_gang(name, HIGH, size)
        spec = replace(gang.spec, parent_composite_pod_group_name=parent, scheduling_constraints=rack)
        groups.append(replace(gang, spec=spec))
        work += make_pods(member_names(name, size), HIGH, {"cpu": "4"}, group=name)
    return groups, work


def _composite(name: str, least: int, key: str, parent: str = "") -> objects.CompositePodGroup:
    gang = objects.CompositeGangSchedulingPolicy(min_group_count=least)
    return objects.CompositePodGroup(
        metadata=metadata_named(name),
        spec=objects.CompositePodGroupSpec(
            scheduling_policy=objects.CompositePodGroupSchedulingPolicy(gang=gang),
            scheduling_constraints=objects.PodGroupSchedulingConstraints(
                topology=(objects.TopologyConstraint(key=key),)
            ),
            priority=HIGH,
            parent_composite_pod_group_name=parent,
        ),
    )


def _devices_of(machines: tuple[objects.Node, ...]) -> list[objects.KubernetesObject]:
    """Return the class of all devices, and a slice with eight devices for each node."""
    expression = f"device.driver == '{DRIVER}'"
    selectors = [{"cel": {"expression": expression}}]
    result: list[objects.KubernetesObject] = [
        msgspec.convert({"metadata": {"name": "gpu"}, "spec": {"selectors": selectors}}, objects.DeviceClass)
    ]
    for machine in machines:
        name = machine.metadata.name
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        devices = [{"name": f"gpu-{slot}"} for slot in range(GPUS_PER_NODE)]
        spec = {"driver": DRIVER, "pool": pool, "nodeName": name, "devices": devices}
        result.append(msgspec.convert({"metadata": {"name": name}, "spec": spec}, objects.ResourceSlice))
    return result


def _claim(name: str, node: str = "", device: str = "") -> objects.ResourceClaim:
    """Return the claim of the pod with this name, allocated if a node is given."""
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
    status = {}
    if node:
        device_result = {"request": "gpu", "driver": DRIVER, "pool": node, "device": device}
        on_node = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        status = {
            "allocation": {"devices": {"results": [device_result]}, "nodeSelector": {"nodeSelectorTerms": [on_node]}},
            "reservedFor": [{"resource": "pods", "name": name, "uid": name}],
        }
    metadata = {"name": name, "namespace": "default", "uid": f"claim-{name}"}
    spec = {"devices": {"requests": [request]}}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, objects.ResourceClaim)


def _claiming(pod: objects.Pod) -> objects.Pod:
    uses = (objects.PodResourceClaim(name="gpu", resource_claim_name=pod.metadata.name),)
    return replace(pod, spec=replace(pod.spec, resource_claims=uses))
