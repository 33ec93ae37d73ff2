"""Defaults of an API server for typed objects, where one field depends on others.

Defaults that are the same for every object are those of the fields (`objects`, `groups`).

Invariant: an object that needs no defaults is returned itself; defaulting twice changes nothing. Source:
pkg/apis/core/v1 defaults, api.md "Workload and PodGroup".
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from kube_rules.meta import KubernetesObject, ResourceList
from kube_rules.objects import DEFAULT_SCHEDULER, Container, Node, Pod, ResourceRequirements
from kube_rules.quantity import format_quantity
from kube_rules.requests import container_requests, is_pod_level_resource

DEFAULT_NAMESPACE: Final = "default"
_OVERCOMMITTED: Final = ("cpu", "memory")
"""Resources with limits that may exceed requests."""

ObjectT = TypeVar("ObjectT", bound=KubernetesObject)


def apply_defaults(obj: ObjectT) -> ObjectT:
    """Return the object with the API server's defaults."""
    if obj.NAMESPACED and not obj.metadata.namespace:
        obj = replace(obj, metadata=replace(obj.metadata, namespace=DEFAULT_NAMESPACE))
    rule = _RULES.get(type(obj))
    return obj if rule is None else rule(obj)


def _pod(pod: Pod) -> Pod:
    spec = pod.spec
    changes: dict[str, Any] = {}
    containers = _containers(spec.containers, spec.host_network)
    if containers is not spec.containers:
        changes["containers"] = containers
    init_containers = _containers(spec.init_containers, spec.host_network)
    if init_containers is not spec.init_containers:
        changes["init_containers"] = init_containers
    if not spec.scheduler_name:
        changes["scheduler_name"] = DEFAULT_SCHEDULER
    if changes:
        pod = replace(pod, spec=replace(spec, **changes))
    resources = _pod_level(pod)
    return pod if resources is spec.resources else replace(pod, spec=replace(pod.spec, resources=resources))


def _containers(containers: tuple[Container, ...], host_network: bool) -> tuple[Container, ...]:
    """Set requests to limits by default; with the host's network every container port is a host port."""
    for container in containers:
        if container.resources.limits or (host_network and container.ports):
            break
    else:
        return containers
    completed = tuple(_container(container, host_network) for container in containers)
    return containers if all(map(operator.is_, completed, containers)) else completed


def _container(container: Container, host_network: bool) -> Container:
    resources = container.resources
    if resources.limits:
        requests = _with_limits(resources.requests, resources.limits)
        if requests is not resources.requests:
            container = replace(container, resources=replace(resources, requests=requests))
    if host_network and any(port.host_port == 0 for port in container.ports):
        ports = tuple(p if p.host_port else replace(p, host_port=p.container_port) for p in container.ports)
        container = replace(container, ports=ports)
    return container


def _with_limits(requests: ResourceList, limits: ResourceList) -> ResourceList:
    missing = {name: quantity for name, quantity in limits.items() if name not in requests}
    return {**requests, **missing} if missing else requests


def _pod_level(pod: Pod) -> ResourceRequirements | None:
    """Return the resources of a pod with pod-level limits and their default requests (api.md 4.4).

    Requests of cpu and memory default to the sum of its containers, others to the limits.
    """
    resources = pod.spec.resources
    if resources is None or not resources.limits:
        return resources
    wanted: ResourceList = {
        **{name: quantity for name, quantity in resources.limits.items() if is_pod_level_resource(name)},
        **{name: format_quantity(nano) for name, nano in container_requests(pod).items() if name in _OVERCOMMITTED},
    }
    requests = _with_limits(resources.requests, wanted)
    return resources if requests is resources.requests else replace(resources, requests=requests)


def _node(node: Node) -> Node:
    status = node.status
    if status.allocatable or not status.capacity:
        return node
    return replace(node, status=replace(status, allocatable=status.capacity))


_RULES: Final[dict[type[KubernetesObject], Callable[[Any], Any]]] = {Pod: _pod, Node: _node}
