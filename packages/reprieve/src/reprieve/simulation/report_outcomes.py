"""The outcomes of pods and of groups without children in the report of a plan."""

from collections import defaultdict
from collections.abc import Iterable

from kube_rules.manifests import SuspendedInput
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.topology import use_of
from reprieve.decisions.preemptions import group_name
from reprieve.plugins.gang_scheduling import WAITING_FOR_MEMBERS
from reprieve.queueing.entity import QueueState
from reprieve.scheduling.decision import SCHEDULER_ERROR, SCHEDULING_GATED, UNSCHEDULABLE
from reprieve.simulation.report import (
    LostPod,
    PodGroupOutcome,
    PodOutcome,
    ResizeOutcome,
    SuspendedWorkload,
    TopologyUse,
)
from reprieve.simulation.virtual import VirtualCluster


def suspended_workloads(idle: Iterable[SuspendedInput]) -> tuple[SuspendedWorkload, ...]:
    """Return the workloads that require no pods while they are suspended, sorted (whatif.md 1.5)."""
    entries = sorted({(*item[1:], item.message) for item in idle})
    return tuple(
        SuspendedWorkload(api_version=version, kind=kind, namespace=namespace, name=name, message=message)
        for version, kind, namespace, name, _, message in entries
    )


def pod_outcome(world: VirtualCluster, pod: PodRecord) -> PodOutcome:
    """Return the node of a pod at the end, its nominated node, or the scheduler's reason why it waits."""
    names = world.engine.cluster.nodes.names
    lost = world.lost.get(pod.uid)
    is_alive = world.engine.cluster.pods.get(pod.uid) is pod and lost is None
    outcome, reason, message = "Scheduled", None, None
    if lost is not None:
        outcome, reason, message = "Unschedulable", "Lost", f"was placed and then lost with node {lost}"
    elif not is_alive:
        preemptor = world.evicted.get(pod.uid)
        outcome, reason = "Unschedulable", "Preempted" if preemptor else "Deleted"
        message = f"was placed and then preempted for {_readable(preemptor)}" if preemptor else None
    elif pod.row < 0:
        outcome, reason, message = _why_pending(world, pod)
    return PodOutcome(
        namespace=pod.namespace,
        name=pod.name,
        pod_group=group_name(pod),
        priority=pod.priority,
        outcome=outcome,
        node_name=names[pod.row] if is_alive and pod.row >= 0 else None,
        nominated_node_name=names[pod.nominated] if is_alive and pod.nominated >= 0 else None,
        reason=reason,
        message=message,
    )


def _why_pending(world: VirtualCluster, pod: PodRecord) -> tuple[str, str | None, str | None]:
    entity = world.engine.queue.find(pod)
    if entity is not None:
        hold = entity.gated_pods.get(pod.uid)
        if hold is not None:
            return "Gated", SCHEDULING_GATED if pod.gates else UNSCHEDULABLE, hold.reason
        if entity.state is QueueState.GATED and entity.block_reason is None and not entity.gate.ok:
            return "Gated", UNSCHEDULABLE, entity.gate.reason
    rejection = world.rejections.get(pod.uid)
    if rejection is None:
        running = world.engine.running
        if entity is None and pod.scheduler_name not in running:
            return "Unschedulable", None, f'no profile has the schedulerName "{pod.scheduler_name}"'
        return "Unschedulable", None, None
    if rejection.reason == SCHEDULER_ERROR:
        return "Error", rejection.reason, rejection.message
    waiting = entity is not None and (world.engine.is_preempting(entity.ref) or world.awaits_room(entity.ref))
    outcome = "Nominated" if waiting and pod.nominated >= 0 else "Unschedulable"
    return outcome, rejection.reason, rejection.message


def resize_outcomes(world: VirtualCluster) -> tuple[ResizeOutcome, ...]:
    """Return the running pods of the input with a deferred resize, by namespace and name (resizes.md 5)."""
    result = []
    for uid, resize in world.resizes.pending.items():
        pod = resize.pod
        if resize.done:
            outcome = "Resized"
        elif uid in world.evicted:
            outcome = "Evicted"
        else:
            outcome = "Preempting" if world.engine.is_preempting(pod.resize_ref) else "Deferred"
        result.append(
            ResizeOutcome(
                namespace=pod.namespace,
                name=pod.name,
                pod_group=group_name(pod),
                priority=pod.priority,
                node_name=resize.node,
                outcome=outcome,
                message=resize.message or None,
                evicts=resize.evicts,
            )
        )
    return tuple(sorted(result, key=lambda item: (item.namespace, item.name)))


def gone_by_group(world: VirtualCluster) -> defaultdict[str, tuple[int, int]]:
    """Return by group how many of its pods were preempted, and how many were lost or deleted."""
    removed: defaultdict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for uid in {**world.evicted, **world.lost, **dict.fromkeys(world.deleted)}:
        pod = world.records.get(uid)
        if pod is not None and pod.group is not None:
            evicted, lost = removed[pod.group]
            removed[pod.group] = (evicted + 1, lost) if uid in world.evicted else (evicted, lost + 1)
    return removed


def lost_pods(world: VirtualCluster) -> list[LostPod]:
    """Return the pods that were lost with their node, by namespace and name."""
    result = [
        LostPod(
            namespace=pod.namespace,
            name=pod.name,
            pod_group=group_name(pod),
            node_name=node,
            priority=pod.priority,
        )
        for uid, node in world.lost.items()
        if (pod := world.records.get(uid)) is not None
    ]
    return sorted(result, key=lambda pod: (pod.namespace, pod.name))


def group_outcome(world: VirtualCluster, key: str, evicted: int, lost: int) -> PodGroupOutcome:
    """Return the outcome of a group; `evicted` and `lost`: its former pods that are deleted or terminating."""
    engine = world.engine
    group = engine.cluster.groups[key]
    spec = group.spec
    assert spec is not None
    condition = world.conditions.get(group.ref)
    entity = engine.queue.get(group.home)
    outcome, reason, message = "Scheduled", None, None
    gate = (
        entity.gate if entity is not None and entity.state is QueueState.GATED and entity.block_reason is None else None
    )
    scheduled = sum(1 for pod in group.running() if pod.uid not in world.lost)
    below = key in world.complete and scheduled < max(group.min_count, 1)
    if condition is not None and condition.scheduled:
        pass
    elif below and scheduled and not group.pending():
        pass  # no pod is pending: all remaining pods run
    elif gate is not None and not gate.ok:
        outcome, reason, message = "Gated", UNSCHEDULABLE, gate.reason
    elif condition is not None:
        reason, message = condition.reason, condition.message
        outcome = "Error" if reason == SCHEDULER_ERROR else "Unschedulable"
        if engine.is_preempting(group.home) or world.awaits_room(group.home):
            outcome = "Nominated"
    elif scheduled < max(group.min_count, 1):
        outcome, reason = "Gated", UNSCHEDULABLE
        message = WAITING_FOR_MEMBERS if group.is_gang else None
    state = world.satisfaction.get(key)
    if state is not None and not state.satisfied and key not in world.complete:  # it lost members before the plan
        message = f"{message}; {LOST_MEMBERS}: {state.message}" if message else f"{LOST_MEMBERS}: {state.message}"
    if below and message is None:
        message = f"fell below its minimum: {scheduled} of minCount {group.min_count} left"
    return PodGroupOutcome(
        namespace=group.namespace,
        name=group.name,
        priority=spec.priority,
        min_count=spec.min_count,
        scheduled=scheduled,
        outcome=outcome,
        reason=reason,
        message=message,
        parent=spec.parent.split("/", 1)[1] if spec.parent is not None else None,
        below_minimum=below,
        evicted=evicted,
        lost=lost,
        topology=tuple(
            TopologyUse(level=use.level, label=use.label, domains=use.domains, breaks=use.breaks)
            for use in use_of(engine.cluster, group)
        ),
    )


LOST_MEMBERS = "it has lost members since it was scheduled"


def _readable(key: str) -> str:
    kind, _, name = key.partition("/")
    return f"{_KINDS[kind]} {name}"


_KINDS = {"pod": "pod", "group": "podgroup", "composite": "compositepodgroup"}
