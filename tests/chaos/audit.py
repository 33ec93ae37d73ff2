"""What must be true after (and all through) chaos: the invariants of scheduling.md 7, seen from the API alone."""

from __future__ import annotations

from collections import defaultdict

from kube_rules import objects as o
from kube_rules.requests import pod_requests
from reprieve.client.cluster_reader import manifests_of, read_cluster
from reprieve.client.informer import Change, ChangeKind
from reprieve.client.transport import ApiClient
from reprieve.simulation.plan import PlanOptions, plan

_ENDED = ("Succeeded", "Failed")


class Watcher:
    """Hears every change of every pod; `broken` lists what should never have happened."""

    def __init__(self) -> None:
        self.broken: list[str] = []
        self.bindings = 0
        self.preempted: set[str] = set()

    def pod(self, change: Change[o.Pod]) -> None:
        """A pod that has a node keeps it (no pod is bound twice)."""
        new, old = change.object, change.old
        if change.kind is ChangeKind.DELETED:
            return
        before = old.spec.node_name if old is not None else None
        if before and new.spec.node_name != before:
            self.broken.append(f"pod {new.key} moved from {before} to {new.spec.node_name}")
        if new.spec.node_name and not before:
            self.bindings += 1
        if any(c.type == "DisruptionTarget" and c.reason == "PreemptionByScheduler" for c in new.status.conditions):
            self.preempted.add(new.metadata.uid or "")


async def unsettled(client: ApiClient) -> list[str]:
    """What is still under way or stuck: pods that leave, and pods that the rules would place or make room for now."""
    reading = await read_cluster(client)
    found = [
        f"pod {item.key} is terminating"
        for item in reading.objects
        if isinstance(item, o.Pod) and item.metadata.deletion_timestamp is not None and item.status.phase not in _ENDED
    ]
    if found:
        return found
    answer = plan(manifests_of(reading, "cluster"), PlanOptions(first_decision=True))
    stuck = [
        f"pod {pod.namespace}/{pod.name} waits although it could be {pod.outcome}"
        for pod in answer.plan.pods
        if pod.outcome in ("Scheduled", "Nominated")
    ]
    stuck += [f"{made.preemptor.kind} {made.preemptor.name} could preempt" for made in answer.plan.preemptions]
    return stuck


async def violations(client: ApiClient) -> list[str]:
    """Over-commitment, gangs in parts without a visible reason, nominations and explanations that are not there."""
    reading = await read_cluster(client)
    pods = [item for item in reading.objects if isinstance(item, o.Pod) and item.status.phase not in _ENDED]
    nodes = {item.name: item for item in reading.objects if isinstance(item, o.Node)}
    groups = {item.key: item for item in reading.objects if isinstance(item, o.PodGroup)}
    return _over_commitment(pods, nodes) + _partial_gangs(pods, groups) + _unexplained(pods, groups)


def _over_commitment(pods: list[o.Pod], nodes: dict[str, o.Node]) -> list[str]:
    used: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for pod in pods:
        if pod.spec.node_name in nodes:
            here = used[pod.spec.node_name or ""]
            here["pods"] += 1
            for resource, amount in pod_requests(pod).items():
                here[resource] += amount
    broken = []
    for name, amounts in used.items():
        room = _room(nodes[name])
        broken += [
            f"node {name}: {amount} of {resource} requested, {room[resource]} there"
            for resource, amount in amounts.items()
            if resource in room and amount > room[resource]
        ]
    return broken


def _room(node: o.Node) -> dict[str, int]:
    return {"cpu": 16_000, "memory": 64 << 30, "pods": 30} if node.status.allocatable else {}


def _partial_gangs(pods: list[o.Pod], groups: dict[str, o.PodGroup]) -> list[str]:
    running: dict[str, int] = defaultdict(int)
    for pod in pods:
        if pod.spec.scheduling_group is not None and pod.spec.node_name:
            running[f"{pod.namespace}/{pod.spec.scheduling_group.pod_group_name}"] += 1
    broken = []
    for key, count in running.items():
        group = groups.get(key)
        gang = group.spec.scheduling_policy.gang if group is not None else None
        if group is None or gang is None or count >= gang.min_count:
            continue
        told = [c for c in (group.status.conditions if group.status else ()) if c.type == "PodGroupInitiallyScheduled"]
        if not told:
            broken.append(f"gang {key}: {count} of {gang.min_count} pods bound, and no condition tells why")
    return broken


def _unexplained(pods: list[o.Pod], groups: dict[str, o.PodGroup]) -> list[str]:
    broken = []
    for pod in pods:
        if pod.spec.node_name or pod.spec.scheduling_gates:
            continue
        told = [c for c in pod.status.conditions if c.type == "PodScheduled" and c.status == "False"]
        if not told:
            broken.append(f"pod {pod.key} waits and no condition tells why")
        if pod.status.nominated_node_name:
            broken.append(f"pod {pod.key} is nominated to {pod.status.nominated_node_name} though nothing goes on")
    return broken
