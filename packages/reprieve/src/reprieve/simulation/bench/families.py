"""The families of the benchmarks: kinds of cluster and work, each at any size, as data.

A family has a function of the number of nodes and of pods to place. The pods of `steady`, `churn` and `take-in` arrive
over time (`bench.arrivals`), so their clusters have no work.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import msgspec
from msgspec.structs import replace

from kube_rules import objects, owners
from kube_rules.topology_terms import HOSTNAME, ZONE
from reprieve.simulation.bench import distinct_pods, growth_families
from reprieve.simulation.bench.cluster_builder import (
    GPU,
    GPUS_PER_NODE,
    HIGH,
    LAYOUT_SEED,
    LOW,
    POD_SIZES,
    BenchCluster,
    gpu_nodes,
    make_gang,
    make_node,
    make_pods,
    member_names,
    metadata_named,
    running_gangs,
)

ZONES, _MAX_SKEW, _FIRST_PORT = 10, 8, 20_000
RUNNING_PER_NODE = 10
_UNLIKE_PER_NODE = 4
_SERVICES_PER_NODE, _NAMESPACES = 5, 200
_IN_LEAF = 10
RACK, _IN_RACK = "topology.example/rack", 5
WAITING_GANG = 4
"""The number of members of a gang of `waiting`."""
SPREADING_GANG, FILLING = 12, 4
"""The number of members of a gang of `waiting-spread`, and of pods that fill a node there."""


@dataclass(frozen=True, slots=True)
class Family:
    """A family: `per_node` is the work per node at growing sizes, and `least` its minimum.

    `most`: the largest size in nodes of `--growth`, such that all families end within two minutes. `module`: the module
    that runs it.
    """

    build: Callable[[int, int], BenchCluster]
    per_node: float
    least: int = 1
    most: int = 1_000
    module: str = "reprieve.simulation.bench"


def _basic(nodes: int, pods: int) -> BenchCluster:
    """Return single pods that fit."""
    work = make_pods([f"pod-{i:05d}" for i in range(pods)], HIGH, {"cpu": "100m", "memory": "500Mi"})
    return BenchCluster(tuple(make_node(i) for i in range(nodes)), tuple(work))


def _preempt(nodes: int, pods: int) -> BenchCluster:
    """Return 4-CPU nodes with four pods of 900m each, and pods of 3 CPU that need three of the four evicted."""
    machines = tuple(make_node(i, cpu="4", memory="32Gi") for i in range(nodes))
    names = [f"low-{i:05d}-{k}" for i in range(nodes) for k in range(4)]
    where = [machine.name for machine in machines for _ in range(4)]
    running = make_pods(names, LOW, {"cpu": "900m", "memory": "500Mi"}, nodes=where)
    work = make_pods([f"high-{i:05d}" for i in range(pods)], HIGH, {"cpu": "3", "memory": "500Mi"})
    return BenchCluster(machines, tuple(work), running=tuple(running))


def _one_gang(nodes: int, pods: int) -> BenchCluster:
    """Return one gang of 1-GPU pods in an empty cluster."""
    work = make_pods(member_names("gang", pods), HIGH, {"cpu": "1", "memory": "1Gi", GPU: "1"}, group="gang")
    return BenchCluster(gpu_nodes(nodes), tuple(work), (make_gang("gang", HIGH, pods),))


def _gangs(nodes: int, pods: int) -> BenchCluster:
    """Return gangs of 100 1-GPU pods in an empty cluster."""
    groups: list[objects.PodGroup] = []
    work: list[objects.Pod] = []
    for start in range(0, pods, 100):
        name, size = f"gang-{start // 100:03d}", min(100, pods - start)
        groups.append(make_gang(name, HIGH, size))
        work += make_pods(member_names(name, size), HIGH, {"cpu": "1", "memory": "1Gi", GPU: "1"}, group=name)
    return BenchCluster(gpu_nodes(nodes), tuple(work), tuple(groups))


def _gang_preempt(nodes: int, pods: int) -> BenchCluster:
    """Return nodes full of low-priority gangs and singles; a gang of 8-GPU pods that needs as many whole nodes."""
    machines = gpu_nodes(nodes)
    groups, running = running_gangs(machines)
    work = make_pods(
        member_names("gang", pods), HIGH, {"cpu": "1", "memory": "1Gi", GPU: str(GPUS_PER_NODE)}, group="gang"
    )
    return BenchCluster(machines, tuple(work), (make_gang("gang", HIGH, pods),), running=running, running_groups=groups)


def _trees(nodes: int, pods: int) -> BenchCluster:
    """Return `_gangs` with a tree for each gang of 100: ten gangs of ten under one root that requires all of them."""
    roots: list[objects.CompositePodGroup] = []
    groups: list[objects.PodGroup] = []
    work: list[objects.Pod] = []
    for start in range(0, pods, 100):
        root = f"tree-{start // 100:03d}"
        leaves, members = _leaves(root, min(100, pods - start), {"cpu": "1", "memory": "1Gi", GPU: "1"})
        roots.append(_root(root, len(leaves)))
        groups += leaves
        work += members
    return BenchCluster(gpu_nodes(nodes), tuple(work), tuple(groups), tuple(roots))


def _tree_preempt(nodes: int, pods: int) -> BenchCluster:
    """Return `_gang_preempt` with a tree as preemptor: gangs of ten under one root that requires all of them."""
    machines = gpu_nodes(nodes)
    running_groups, running = running_gangs(machines)
    leaves, work = _leaves("tree", pods, {"cpu": "1", "memory": "1Gi", GPU: str(GPUS_PER_NODE)})
    return BenchCluster(machines, tuple(work), tuple(leaves), (_root("tree", len(leaves)),), running, running_groups)


def _root(name: str, least: int) -> objects.CompositePodGroup:
    gang = objects.CompositeGangSchedulingPolicy(min_group_count=least)
    return objects.CompositePodGroup(
        metadata=metadata_named(name),
        spec=objects.CompositePodGroupSpec(
            scheduling_policy=objects.CompositePodGroupSchedulingPolicy(gang=gang), priority=HIGH
        ),
    )


def _leaves(root: str, pods: int, requests: objects.ResourceList) -> tuple[list[objects.PodGroup], list[objects.Pod]]:
    """Return gangs of ten below a root, and their pods."""
    groups: list[objects.PodGroup] = []
    work: list[objects.Pod] = []
    for start in range(0, pods, _IN_LEAF):
        name, size = f"{root}-{start // _IN_LEAF:03d}", min(_IN_LEAF, pods - start)
        gang = make_gang(name, HIGH, size)
        groups.append(replace(gang, spec=replace(gang.spec, parent_composite_pod_group_name=root)))
        work += make_pods(member_names(name, size), HIGH, requests, group=name)
    return groups, work


def _constrained(nodes: int, pods: int) -> BenchCluster:
    """Return `_gang_preempt` with a zone spread, an anti-affinity on the hostname and a host port for every pod.

    The eight pods of a node have a slot each; pods of the same slot repel each other. The gang has slot 0: it shares
    port, anti-affinity and counts by zone with victims of that slot, so the choice of reprieved victims matters.
    """
    machines = tuple(
        make_node(i, gpus=GPUS_PER_NODE, labels={HOSTNAME: f"node-{i:05d}", ZONE: f"zone-{i % ZONES}"})
        for i in range(nodes)
    )
    groups, plain = running_gangs(machines)
    running = [_in_slot(pod, turn % GPUS_PER_NODE) for turn, pod in enumerate(plain)]
    gang_pods = make_pods(
        member_names("gang", pods), HIGH, {"cpu": "1", "memory": "1Gi", GPU: str(GPUS_PER_NODE)}, group="gang"
    )
    work = [_in_slot(pod, 0) for pod in gang_pods]
    return BenchCluster(
        machines, tuple(work), (make_gang("gang", HIGH, pods),), running=tuple(running), running_groups=groups
    )


def _in_slot(pod: objects.Pod, slot: int) -> objects.Pod:
    """Return the pod with the constraints of `_constrained`."""
    alike = objects.LabelSelector(match_labels={"slot": str(slot)})
    apart = objects.PodAffinityTerm(label_selector=alike, topology_key=HOSTNAME)
    port = objects.ContainerPort(container_port=8080, host_port=_FIRST_PORT + slot)
    spec = replace(
        pod.spec,
        containers=(replace(pod.spec.containers[0], ports=(port,)),),
        affinity=objects.Affinity(
            pod_anti_affinity=objects.PodAntiAffinity(required_during_scheduling_ignored_during_execution=(apart,))
        ),
        topology_spread_constraints=(
            objects.TopologySpreadConstraint(
                max_skew=_MAX_SKEW, topology_key=ZONE, when_unsatisfiable="DoNotSchedule", label_selector=alike
            ),
        ),
    )
    return replace(pod, metadata=replace(pod.metadata, labels={"slot": str(slot)}), spec=spec)


def _steady(nodes: int, _work: int) -> BenchCluster:
    """Return nodes with ten running pods each, of several sizes; the work arrives over time (`steady_work`)."""
    machines = gpu_nodes(nodes)
    running: list[objects.Pod] = []
    for turn in range(RUNNING_PER_NODE):
        names = [f"old-{turn}-{i:05d}" for i in range(nodes)]
        running += make_pods(names, LOW, POD_SIZES[turn % len(POD_SIZES)], nodes=[machine.name for machine in machines])
    return BenchCluster(machines, (), running=tuple(running))


def _unlike(nodes: int, pods: int) -> BenchCluster:
    """Return distinct pods, with four distinct running pods for each node (`bench.distinct_pods`)."""
    machines = distinct_pods.nodes(nodes)
    running_count = _UNLIKE_PER_NODE * nodes
    return BenchCluster(
        machines,
        tuple(distinct_pods.pods(running_count, pods, priority=HIGH)),
        running=tuple(distinct_pods.pods(0, running_count, priority=LOW, on=machines)),
        services=tuple(distinct_pods.services(running_count + pods)),
    )


def _waiting(nodes: int, pods: int) -> BenchCluster:
    """Return nodes full of 1-GPU pods that must not be evicted, and gangs of four 8-GPU pods that wait for nodes.

    The gangs have distinct requests.
    """
    machines = gpu_nodes(nodes)
    names = [f"busy-{i:05d}-{slot}" for i in range(nodes) for slot in range(GPUS_PER_NODE)]
    where = [machine.name for machine in machines for _ in range(GPUS_PER_NODE)]
    running = make_pods(names, HIGH, {"cpu": "1", "memory": "1Gi", GPU: "1"}, nodes=where)
    groups: list[objects.PodGroup] = []
    work: list[objects.Pod] = []
    for i in range(pods // WAITING_GANG):
        name = f"gang-{i:05d}"
        groups.append(make_gang(name, LOW, WAITING_GANG))
        requests: objects.ResourceList = {"cpu": f"{1000 + i}m", "memory": "1Gi", GPU: str(GPUS_PER_NODE)}
        work += make_pods(member_names(name, WAITING_GANG), LOW, requests, group=name)
    return BenchCluster(machines, tuple(work), tuple(groups), running=tuple(running))


def _waiting_spread(nodes: int, pods: int) -> BenchCluster:
    """Return ten zones, the first full of pods that must not be evicted, and gangs of twelve that spread over them.

    Each gang spreads by itself and has its own requests; every other zone has capacity for many.
    """
    machines = tuple(make_node(i, cpu="16", memory="64Gi", labels={ZONE: f"zone-{i % ZONES}"}) for i in range(nodes))
    running: list[objects.Pod] = []
    for i, machine in enumerate(machines):
        full = i % ZONES == 0
        names = [f"busy-{i:05d}-{slot}" for slot in range(FILLING if full else 1)]
        running += make_pods(names, HIGH, {"cpu": "4", "memory": "1Gi"}, nodes=[machine.name] * len(names))
    groups: list[objects.PodGroup] = []
    work: list[objects.Pod] = []
    for i in range(pods // SPREADING_GANG):
        name = f"gang-{i:05d}"
        groups.append(make_gang(name, LOW, SPREADING_GANG))
        own = {"app": name}
        spread = objects.TopologySpreadConstraint(
            max_skew=1,
            topology_key=ZONE,
            when_unsatisfiable="DoNotSchedule",
            label_selector=objects.LabelSelector(match_labels=own),
        )
        work += (
            replace(
                pod,
                metadata=replace(pod.metadata, labels=own),
                spec=replace(pod.spec, topology_spread_constraints=(spread,)),
            )
            for pod in make_pods(
                member_names(name, SPREADING_GANG), LOW, {"cpu": f"{2000 + i}m", "memory": "1Gi"}, group=name
            )
        )
    return BenchCluster(machines, tuple(work), tuple(groups), running=tuple(running))


def _racks(nodes: int, pods: int) -> BenchCluster:
    """Return racks of five full nodes, and a gang that needs one of them; all running pods may be evicted.

    Running pods have one of nine priorities.
    """
    machines = tuple(
        make_node(i, cpu="4", memory="32Gi", labels={RACK: f"rack-{i // _IN_RACK:05d}"}) for i in range(nodes)
    )
    draw = Random(LAYOUT_SEED)
    names = [f"low-{i:05d}-{k}" for i in range(nodes) for k in range(4)]
    where = [machine.name for machine in machines for _ in range(4)]
    running = [
        replace(pod, spec=replace(pod.spec, priority=1 + draw.randrange(9)))
        for pod in make_pods(names, LOW, {"cpu": "900m", "memory": "500Mi"}, nodes=where)
    ]
    work = make_pods(member_names("gang", pods), HIGH, {"cpu": "1", "memory": "500Mi"}, group="gang")
    gang = make_gang("gang", HIGH, pods)
    rack = objects.PodGroupSchedulingConstraints(topology=(objects.TopologyConstraint(key=RACK),))
    gang = replace(gang, spec=replace(gang.spec, scheduling_constraints=rack))
    return BenchCluster(machines, tuple(work), (gang,), running=tuple(running))


def _big(nodes: int, pods: int) -> BenchCluster:
    """Return distinct pods (`bench.distinct_pods`) with ten running ones for each node, and no services."""
    machines = distinct_pods.nodes(nodes)
    running_count = RUNNING_PER_NODE * nodes
    running = tuple(distinct_pods.pods(0, running_count, priority=LOW, on=machines))
    return BenchCluster(machines, tuple(distinct_pods.pods(running_count, pods, priority=HIGH)), running=running)


def _apart(nodes: int, pods: int) -> BenchCluster:
    """Return pods of one application that repel each other on nodes: they fill all nodes."""
    machines = tuple(make_node(i, labels={HOSTNAME: f"node-{i:05d}", ZONE: f"zone-{i % ZONES}"}) for i in range(nodes))
    alike = objects.LabelSelector(match_labels={"app": "web"})
    term = objects.PodAffinityTerm(label_selector=alike, topology_key=HOSTNAME)
    apart = objects.PodAntiAffinity(required_during_scheduling_ignored_during_execution=(term,))
    work = (
        replace(
            pod,
            metadata=replace(pod.metadata, labels={"app": "web"}),
            spec=replace(pod.spec, affinity=objects.Affinity(pod_anti_affinity=apart)),
        )
        for pod in make_pods([f"pod-{i:05d}" for i in range(pods)], HIGH, {"cpu": "100m", "memory": "500Mi"})
    )
    return BenchCluster(machines, tuple(work))


def _churn(nodes: int, _work: int) -> BenchCluster:
    """Return the cluster of `_big`; the work arrives over time (`churn_work`)."""
    machines = distinct_pods.nodes(nodes)
    return BenchCluster(
        machines, (), running=tuple(distinct_pods.pods(0, RUNNING_PER_NODE * nodes, priority=LOW, on=machines))
    )


def _take_in(nodes: int, pods: int) -> BenchCluster:
    """Return only nodes and services; `running_elsewhere` yields the pods, so that no process holds all of them."""
    return BenchCluster(distinct_pods.nodes(nodes), (), services=tuple(distinct_pods.services(pods)))


def _services(nodes: int, pods: int) -> BenchCluster:
    """Return five running pods per node with a service each, in 200 namespaces; the work joins them in turn."""
    machines = tuple(make_node(i, labels={HOSTNAME: f"node-{i:05d}", ZONE: f"zone-{i % ZONES}"}) for i in range(nodes))
    count = _SERVICES_PER_NODE * nodes

    def of_service(pod: objects.Pod, service: int) -> objects.Pod:
        labels, namespace = {"app": f"app-{service}"}, f"team-{service % _NAMESPACES}"
        return replace(pod, metadata=replace(pod.metadata, namespace=namespace, labels=labels))

    amounts: objects.ResourceList = {"cpu": "100m", "memory": "500Mi"}
    where = [machines[i % nodes].metadata.name for i in range(count)]
    running = make_pods([f"old-{i:05d}" for i in range(count)], LOW, amounts, nodes=where)
    work = make_pods([f"new-{i:05d}" for i in range(pods)], LOW, amounts)
    services = (
        objects.Service(
            metadata=objects.ObjectMeta(name=f"app-{i}", namespace=f"team-{i % _NAMESPACES}"),
            spec=owners.ServiceSpec(selector={"app": f"app-{i}"}),
        )
        for i in range(count)
    )
    return BenchCluster(
        machines,
        tuple(of_service(pod, turn % count) for turn, pod in enumerate(work)),
        running=tuple(of_service(pod, turn) for turn, pod in enumerate(running)),
        services=tuple(services),
    )


def _budgets(nodes: int, pods: int) -> BenchCluster:
    """Return `_gang_preempt` with one budget per two nodes, all in one namespace; each protects part of the pods."""
    cluster = _gang_preempt(nodes, pods)
    count = max(1, nodes // 2)
    running = tuple(
        replace(pod, metadata=replace(pod.metadata, labels={"team": f"team-{turn % count}"}))
        for turn, pod in enumerate(cluster.running)
    )
    return dataclasses.replace(cluster, running=running, budgets=_team_budgets(count))


def _team_budgets(count: int) -> tuple[objects.PodDisruptionBudget, ...]:
    return tuple(
        objects.PodDisruptionBudget(
            metadata=metadata_named(f"team-{i}"),
            spec=objects.PodDisruptionBudgetSpec(selector=objects.LabelSelector(match_labels={"team": f"team-{i}"})),
            status=objects.PodDisruptionBudgetStatus(disruptions_allowed=1),
        )
        for i in range(count)
    )


def _unlike_preempt(nodes: int, pods: int) -> BenchCluster:
    """Return `_preempt` with pods that are distinct in requests, image and labels."""
    cluster = _preempt(nodes, pods)
    draw = Random(LAYOUT_SEED)
    return dataclasses.replace(
        cluster,
        work=tuple(_made_unlike(pod, f"{2600 + draw.randrange(400)}m", draw) for pod in cluster.work),
        running=tuple(_made_unlike(pod, f"{700 + draw.randrange(200)}m", draw) for pod in cluster.running),
    )


def _unlike_budgets(nodes: int, pods: int) -> BenchCluster:
    """Return 4-CPU nodes with ten distinct pods each, and a budget for every ten nodes, all in one namespace.

    Each budget protects part of the running pods. The work needs most of a node.
    """
    draw = Random(LAYOUT_SEED)
    machines = tuple(make_node(i, cpu="4", memory="32Gi") for i in range(nodes))
    names = [f"low-{i:05d}-{k}" for i in range(nodes) for k in range(10)]
    where = [machine.name for machine in machines for _ in range(10)]
    running = []
    count = max(1, nodes // 10)
    for turn, item in enumerate(make_pods(names, LOW, {"memory": "500Mi"}, nodes=where)):
        distinct_pod = _made_unlike(item, f"{300 + draw.randrange(90)}m", draw)
        labels = {**distinct_pod.metadata.labels, "team": f"team-{turn % count}"}
        running.append(replace(distinct_pod, metadata=replace(distinct_pod.metadata, labels=labels)))
    high = make_pods([f"high-{i:05d}" for i in range(pods)], HIGH, {"memory": "500Mi"})
    work = tuple(_made_unlike(item, f"{2600 + draw.randrange(400)}m", draw) for item in high)
    return BenchCluster(machines, work, running=tuple(running), budgets=_team_budgets(count))


def _unlike_gang_preempt(nodes: int, pods: int) -> BenchCluster:
    """Return `_gang_preempt` with pods that are distinct in requests, image and labels."""
    cluster = _gang_preempt(nodes, pods)
    draw = Random(LAYOUT_SEED)
    return dataclasses.replace(
        cluster,
        work=tuple(_made_unlike(pod, f"{1000 + draw.randrange(999)}m", draw) for pod in cluster.work),
        running=tuple(_made_unlike(pod, f"{100 + draw.randrange(99)}m", draw) for pod in cluster.running),
    )


def _made_unlike(pod: objects.Pod, cpu: str, draw: Random) -> objects.Pod:
    (container,) = pod.spec.containers
    amounts = {**container.resources.requests, "cpu": cpu, "memory": f"{256 + draw.randrange(244)}Mi"}
    own = replace(
        container,
        image=f"registry.example/{pod.metadata.name}:1",
        resources=objects.ResourceRequirements(requests=amounts),
    )
    return replace(
        pod,
        metadata=replace(pod.metadata, labels={"pod": pod.metadata.name}),
        spec=replace(pod.spec, containers=(own,)),
    )


def _devices(nodes: int, pods: int) -> BenchCluster:
    """Return nodes with eight devices each, of two sizes, and pods with a claim for one of the larger ones each."""
    driver = "gpu.example.com"
    expression = f"device.capacity['{driver}'].memory.compareTo(quantity('40Gi')) >= 0"
    resources: list[objects.KubernetesObject] = [
        msgspec.convert(
            {"metadata": {"name": "large"}, "spec": {"selectors": [{"cel": {"expression": expression}}]}},
            objects.DeviceClass,
        )
    ]
    for i in range(nodes):
        name = f"node-{i:05d}"
        devices = [
            {"name": f"gpu-{slot}", "capacity": {"memory": {"value": "80Gi" if slot % 2 else "16Gi"}}}
            for slot in range(GPUS_PER_NODE)
        ]
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": driver, "pool": pool, "nodeName": name, "devices": devices}
        resources.append(msgspec.convert({"metadata": {"name": name}, "spec": spec}, objects.ResourceSlice))
    work = []
    request = {"name": "gpu", "exactly": {"deviceClassName": "large"}}
    for pod in make_pods([f"pod-{i:05d}" for i in range(pods)], LOW, {"cpu": "1", "memory": "1Gi"}):
        name = pod.metadata.name
        metadata = {"name": name, "namespace": "default", "uid": f"claim-{name}"}
        claim = {"metadata": metadata, "spec": {"devices": {"requests": [request]}}}
        resources.append(msgspec.convert(claim, objects.ResourceClaim))
        uses = (objects.PodResourceClaim(name="gpu", resource_claim_name=name),)
        work.append(replace(pod, spec=replace(pod.spec, resource_claims=uses)))
    return BenchCluster(tuple(make_node(i) for i in range(nodes)), tuple(work), resources=tuple(resources))


FAMILY_TABLE = {
    "basic": Family(_basic, 2.0, most=2000),
    "preempt": Family(_preempt, 0.2, most=2000),
    "gang": Family(_one_gang, 1.0, most=4000),
    "gangs": Family(_gangs, 2.0, most=2000),
    "gang-preempt": Family(_gang_preempt, 0.2),
    "trees": Family(_trees, 2.0, most=2000),
    "tree-preempt": Family(_tree_preempt, 0.2),
    "constrained": Family(_constrained, 0.2, most=500),
    "steady": Family(_steady, 2.4768, most=2000),
    "unlike": Family(_unlike, 2.0, most=600),
    "waiting": Family(_waiting, 8.0, most=240),
    "waiting-spread": Family(_waiting_spread, 24.0, most=240),
    "racks": Family(_racks, 0.0, 20, most=4000),
    "services": Family(_services, 1.0, most=600),
    "budgets": Family(_budgets, 0.2),
    "unlike-preempt": Family(_unlike_preempt, 0.05),
    "unlike-budgets": Family(_unlike_budgets, 0.01),
    "unlike-gang-preempt": Family(_unlike_gang_preempt, 0.1),
    "devices": Family(_devices, 2.0),
    "churn": Family(_churn, 20.0, most=120),
    "big": Family(_big, 0.1),
    "take-in": Family(_take_in, 10.0),
    "apart": Family(_apart, 1.0),
    "trees-in-domains": Family(growth_families.trees_in_domains, 2.0),
    "tree-of-levels": Family(growth_families.tree_of_levels, 0.0, 16, most=640),
    "devices-preempt": Family(growth_families.preempting_for_devices, 1 / 3, most=200),
    "unlike-devices-preempt": Family(growth_families.preempting_for_unlike_devices, 1 / 24, most=480),
    "suggestions": Family(growth_families.waiting_for_room, 0.04, most=400, module="reprieve.questions.bench"),
    "small-gangs-preempt": Family(growth_families.small_gangs, 1.0, most=500),
}
