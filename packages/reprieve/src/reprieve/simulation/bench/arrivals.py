"""Arrivals and ends of pods over time, for benchmarks with continuous work."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kube_rules import objects
from reprieve.simulation.bench import distinct_pods
from reprieve.simulation.bench.cluster_builder import (
    GPU,
    HIGH,
    LOW,
    POD_SIZES,
    BenchCluster,
    make_gang,
    make_pods,
    member_names,
)
from reprieve.simulation.bench.families import FILLING, RUNNING_PER_NODE, SPREADING_GANG, WAITING_GANG, ZONES
from reprieve.simulation.bench.scenarios import BenchScenario

_NODES_PER_ARRIVAL = 25
_STEADY_GANG, _GANG_EVERY = 64, 10
_NODES_PER_CHURN = 10


@dataclass(frozen=True, slots=True)
class Arrival:
    """An arrival at one moment of simulated time (seconds): a single pod, or a gang with its group."""

    at: float
    pods: tuple[objects.Pod, ...]
    group: objects.PodGroup | None = None


def steady_work(nodes: int, pods: int) -> Iterator[Arrival]:
    """Yield a number of pods: one per second for 25 nodes, and every ten seconds a gang (64 pods on 5,000 nodes)."""
    rate = max(1, round(nodes / _NODES_PER_ARRIVAL))
    size = max(2, round(_STEADY_GANG * nodes / 5_000))
    arrived = gangs = turn = 0
    while arrived < pods:
        if turn and turn % (_GANG_EVERY * rate) == 0 and turn // (_GANG_EVERY * rate) > gangs:
            name = f"gang-{gangs:04d}"
            members = member_names(name, min(size, pods - arrived))
            gang_pods = make_pods(members, HIGH, {"cpu": "1", "memory": "1Gi", GPU: "1"}, group=name)
            yield Arrival(turn / rate, tuple(gang_pods), make_gang(name, HIGH, len(members)))
            gangs += 1
            arrived += len(members)
            continue
        single = make_pods([f"new-{turn:06d}"], LOW, POD_SIZES[turn % len(POD_SIZES)])
        yield Arrival(turn / rate, tuple(single))
        turn += 1
        arrived += 1


def churn_work(nodes: int, pods: int) -> Iterator[Arrival]:
    """Yield a number of distinct pods: one per second for ten nodes."""
    rate = max(1, round(nodes / _NODES_PER_CHURN))
    for turn, pod in enumerate(distinct_pods.pods(RUNNING_PER_NODE * nodes, pods, priority=LOW)):
        yield Arrival(turn / rate, (pod,))


@dataclass(frozen=True, slots=True)
class WaitingEvents:
    """Events while gangs of `size` wait: each second one of `ending` ends, which helps none of them.

    `changing`: nodes, one of which changes a label each second. `helping`: pods that end last, so that one gang can
    start.
    """

    size: int
    ending: Sequence[objects.Pod]
    helping: Sequence[objects.Pod]
    changing: Sequence[objects.Node] = ()


def while_waiting(scenario: BenchScenario, cluster: BenchCluster) -> WaitingEvents:
    """Return the events for the families `waiting` and `waiting-spread`."""
    if scenario.family == "waiting-spread":
        apart = [pod for i, pod in enumerate(cluster.running) if i % (FILLING + ZONES - 1) >= FILLING]
        elsewhere = [node for i, node in enumerate(cluster.nodes) if i % ZONES]
        return WaitingEvents(SPREADING_GANG, apart, cluster.running[:1], elsewhere)
    per_node = len(cluster.running) // max(1, len(cluster.nodes))
    last = -WAITING_GANG * per_node
    return WaitingEvents(WAITING_GANG, cluster.running[:last:per_node], cluster.running[last:])


def running_elsewhere(machines: Sequence[objects.Node], pods: int) -> Iterator[objects.Pod]:
    """Yield running pods for `take-in`, distinct in requests, labels, images and an affinity term."""
    return distinct_pods.with_own_anti_affinity(distinct_pods.pods(0, pods, priority=LOW, on=machines))
