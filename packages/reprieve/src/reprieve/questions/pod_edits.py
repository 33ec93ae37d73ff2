"""Edits of pods and nodes of an input, and checks of nodes for pods, for trials of suggestions (whatif.md 5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace as with_fields
from typing import Final, TypeVar

from msgspec.structs import replace

from kube_rules import objects
from kube_rules.controllers.pods import POD_TEMPLATE_HASH
from kube_rules.group_sources import pod_group_name
from kube_rules.manifests import LoadedObject, Manifests
from kube_rules.meta import KubernetesObject
from kube_rules.quantity import milli_value_of, value_of
from kube_rules.requests import resource_list
from kube_rules.selectors import compile_node_selector
from reprieve.cluster.taints import untolerated
from reprieve.simulation.workloads.owners import reference_of

LIFECYCLE: Final = "node.kubernetes.io/"
"""The prefix of taints that express the state of a node, which a new node does not have."""

ObjectT = TypeVar("ObjectT", bound=KubernetesObject)


def edited(manifests: Manifests, kind: type[ObjectT], edit: Callable[[ObjectT], ObjectT]) -> Manifests:
    """Return the input with edited objects of a kind."""
    result = dict(manifests.objects)
    listed = manifests.of(kind)
    result[kind] = [LoadedObject(edit(item.object), item.origin, item.order, item.created) for item in listed]
    return with_fields(manifests, objects=result, pod_makers=[])


def workload_of_pod(pod: objects.Pod) -> str | None:
    """Return the name of a pod's workload for `--without`; None for daemons and static pods."""
    namespace = pod.namespace or "default"
    group = pod_group_name(pod)
    if group is not None:
        return f"{namespace}/podgroup/{group}"
    reference = reference_of(pod)
    if reference is None:
        return f"{namespace}/pod/{pod.name}"
    if reference.kind in ("DaemonSet", "Node"):
        return None
    label = pod.metadata.labels.get(POD_TEMPLATE_HASH)
    if reference.kind == "ReplicaSet" and label and reference.name.endswith(f"-{label}"):
        return f"{namespace}/deployment/{reference.name.removesuffix(f'-{label}')}"
    return f"{namespace}/{reference.kind.lower()}/{reference.name}"


def may_take(node: objects.Node, pod: objects.Pod) -> bool:
    """Return whether a node's labels and taints, apart from those of its state, allow a pod."""
    taints = tuple((t.key, t.value, t.effect) for t in node.spec.taints if not t.key.startswith(LIFECYCLE))
    if untolerated(pod.spec.tolerations, taints):
        return False
    labels = node.metadata.labels
    if any(labels.get(key) != value for key, value in pod.spec.node_selector.items()):
        return False
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    return required is None or compile_node_selector(required).matches(labels, node.name)


def holds(node: objects.Node, request: Mapping[str, int]) -> int:
    """Return how many pods with this request fit on the empty node, by amounts."""
    allocatable = resource_list(node.status.allocatable)
    return min((allocatable.get(name, 0) // amount for name, amount in request.items() if amount), default=1)


def amount_of(text: str | int | float, name: str) -> int:
    """Return an amount as an integer: cpu in milli-units, others in base units."""
    return milli_value_of(text) if name == "cpu" else value_of(text)


def text_of(amount: int, name: str) -> str:
    """Return the text of an amount of `amount_of`."""
    return f"{amount}m" if name == "cpu" else str(amount)


def without_selectors(pod: objects.Pod) -> objects.Pod:
    """Return the pod with neither a node selector nor required node affinity."""
    affinity = pod.spec.affinity
    if affinity is not None and affinity.node_affinity is not None:
        of_node = replace(affinity.node_affinity, required_during_scheduling_ignored_during_execution=None)
        affinity = replace(affinity, node_affinity=of_node)
    return replace(pod, spec=replace(pod.spec, node_selector={}, affinity=affinity))


def without_ports(pod: objects.Pod) -> objects.Pod:
    """Return the pod without host ports."""
    containers = tuple(
        replace(container, ports=tuple(replace(port, host_port=0) for port in container.ports))
        for container in pod.spec.containers
    )
    return replace(pod, spec=replace(pod.spec, containers=containers))


def preempting(pod: objects.Pod) -> objects.Pod:
    """Return the pod with the policy PreemptLowerPriority."""
    return replace(pod, spec=replace(pod.spec, preemption_policy="PreemptLowerPriority"))
