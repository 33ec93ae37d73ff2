"""Conflicts that keep pods and groups from being scheduled as one (preemption.md 8.3, composite.md 3.1)."""

from collections.abc import Iterator, Sequence

from reprieve.cluster.groups import CompositeState, Group, GroupState
from reprieve.cluster.pods import PodRecord, queue_order
from reprieve.scheduling.decision import INVALID, SCHEDULER_ERROR


def conflict_of(group: Group, pods: Sequence[PodRecord], *, group_policy: bool) -> tuple[str, str] | None:
    """Return why the tried pods and their groups conflict, and a composite's reason; None: they do not conflict."""
    if isinstance(group, GroupState):
        error = divergence(group, pods, group_policy=group_policy)
        return None if error is None else (error, SCHEDULER_ERROR)
    layout = group.wrong_layout()
    if layout is not None:
        return layout, INVALID
    workloads = [item for item in group.below() if item.spec is not None and item.spec.workload]
    for item in workloads:
        if _workload(item) != _workload(workloads[0]):
            mixed = f'"{_workload(item)}" ("{item.name}") and "{_workload(workloads[0])}" ("{workloads[0].name}")'
            return f"all pod groups in a hierarchy should be of the same Workload, got {mixed}", INVALID
    error = _tree_divergence(group, pods, group_policy=group_policy)
    return None if error is None else (error, SCHEDULER_ERROR)


def divergence(group: GroupState, pods: Sequence[PodRecord], *, group_policy: bool) -> str | None:
    """Return why members conflict: mixed schedulers, priorities or policies (preemption.md 8); None: they do not.

    Every member counts that is not terminating, also scheduled ones, those of other schedulers, and a single one, so
    that a group cannot raise the priority of its pods.  A group without a priority has nothing to compare.  A single
    member is allowed if neither it nor its group names a priority class: admission leaves no such objects, and
    kube-scheduler 1.36 places them by the group's number.  In a group of another API pods that name no class are of the
    group's priority (workloads.md 2.6).

    With `group_policy` (the gate PodGroupPreemptionPolicy) members must have the group's own preemptionPolicy; a group
    that has none, as in versions without the field, follows its members, which must agree.  Without the gate every
    group does (preemption.md 2.2).
    """
    spec = group.spec
    first = pods[0]
    members = _members(group, pods)
    for pod in members:
        if pod.scheduler_name != first.scheduler_name:
            return (
                "all pods in a single pod group should have the same .spec.schedulerName set, "
                f'got: "{pod.scheduler_name}" and "{first.scheduler_name}"'
            )
    classless = spec is not None and len(members) == 1 and not spec.names_class and not first.names_class
    if spec is not None and spec.has_priority and not classless:
        for pod in members:
            if pod.priority != spec.priority and (pod.names_class or spec.foreign is None):
                return (
                    "all pods in a single pod group should match the priority of the pod group, "
                    f"got: {pod.priority} and {spec.priority}"
                )
    own = spec.preemption_policy if spec is not None and group_policy else None
    wanted = own or _policy(first)
    for pod in members:
        if _policy(pod) != wanted:
            source = " as the pod group's preemption policy" if own else ""
            return (
                f"all pods in a single pod group should have the same preemption policy{source}, "
                f"got {_policy(pod)} and {wanted}"
            )
    return None


def _tree_divergence(root: CompositeState, pods: Sequence[PodRecord], *, group_policy: bool) -> str | None:
    """Return why a tree conflicts: a group or pod in it differs from the root (composite.md 3.1); None: none does."""
    spec = root.spec
    assert spec is not None
    members = _members(root, pods)
    groups = [(group, group.spec) for group in root.below() if group.spec is not None]
    first, (policy, holder) = members[0], next(_policies(root, members, group_policy))
    for group, own in groups:
        if own.priority != spec.priority:
            return _groups("priority", f'{own.priority} ("{group.name}") and {spec.priority} ("{root.name}")')
        if group_policy and own.preemption_policy not in (None, policy):
            return _groups("preemption policy", f'{own.preemption_policy} ("{group.name}") and {policy} ("{holder}")')
    named = any(own.names_class for _, own in groups) or any(pod.names_class for pod in members)
    compared = spec.has_priority and (len(members) > 1 or named)
    for pod in members:
        if pod.scheduler_name != first.scheduler_name:
            return (
                "all pods in a pod group hierarchy should have the same .spec.schedulerName set, "
                f'got: "{pod.scheduler_name}" ("{pod.name}") and "{first.scheduler_name}" ("{first.name}")'
            )
        if compared and pod.priority != spec.priority and (pod.names_class or spec.foreign is None):
            return _pods("priority", f'{pod.priority} ("{pod.name}") and {spec.priority} ("{root.name}")')
        if _policy(pod) != policy:
            values = f'{_policy(pod)} ("{pod.name}") and {policy} ("{holder}")'
            if not group_policy:
                return f"all pods in a pod group hierarchy should have the same preemption policy, got {values}"
            return _pods("preemption policy", values)
    return None


def _groups(name: str, values: str) -> str:
    return f"all pod groups in a hierarchy should have the same {name} as the root pod group's {name}, got {values}"


def _pods(name: str, values: str) -> str:
    return f"all pods in a pod group hierarchy should have the same {name} as the root pod group's {name}, got {values}"


def _policies(root: CompositeState, members: Sequence[PodRecord], group_policy: bool) -> Iterator[tuple[str, str]]:
    """Yield preemption policies with their holders, the decisive one first: the root's, another group's, a pod's."""
    for group in root.below() if group_policy else ():
        if group.spec is not None and group.spec.preemption_policy is not None:
            yield group.spec.preemption_policy, group.name
    for pod in members:
        yield _policy(pod), pod.name


def _workload(group: Group) -> str:
    return group.spec.workload if group.spec is not None else ""


def _members(group: Group, pods: Sequence[PodRecord]) -> list[PodRecord]:
    """Return the tried pods, then the other pods of their groups that are not terminating, also scheduled ones."""
    tried = {pod.uid for pod in pods}
    untried = [pod for pod in group.members.values() if pod.uid not in tried and not pod.terminating]
    return [*pods, *sorted(untried, key=queue_order)]


def _policy(pod: PodRecord) -> str:
    return "Never" if pod.never_preempts else "PreemptLowerPriority"
