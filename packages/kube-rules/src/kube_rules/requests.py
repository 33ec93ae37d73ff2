"""A pod's demand on a node: requests, the assumed requests for scoring, and host ports.

Terms: a request vector maps resource names to integers, cpu in milli-units, all other resources in base units. A
restartable init container (`restartPolicy: Always`) keeps running next to the containers.

The rule (api.md "Quantities and requests"; component-helpers resource.PodRequests): max(sum of containers + restartable
init containers, the init-container peak), then pod-level resources replace the resources that they set, then overhead
is added. A pod resized in place requests the maximum of the requests in its spec and the allocated or actuated
resources in its status.

Invariant: sums are exact (in 10^-9 units) and are rounded up once, at the end; zero entries are left out, because a
zero request never decides whether a pod fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kube_rules.objects import Container, ContainerStatus, Pod, ResourceRequirements
from kube_rules.quantity import MAX_INT64, NANO, QuantityText, milli_value_of, parse, value_of

DEFAULT_MILLI_CPU = 100
"""Cpu (milli-units) that scoring assumes for a container without a request."""

DEFAULT_MEMORY = 200 * 1024 * 1024
"""Memory (bytes) that scoring assumes for a container without a request."""

RequestVector = dict[str, int]
HostPort = tuple[str, str, int]
"""(protocol, IP, port); the default IP is `0.0.0.0`."""

_NanoVector = dict[str, int]
_Quantities = Mapping[str, QuantityText] | None
_Choose = Callable[[Container, ContainerStatus | None, bool], _Quantities]

CONTAINER_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})
_POD_LEVEL = frozenset({"cpu", "memory"})
_DEFAULTS: _NanoVector = {"cpu": DEFAULT_MILLI_CPU * 10**6, "memory": DEFAULT_MEMORY * NANO}


def is_extended_resource(name: str) -> bool:
    """Return whether a resource is counted in whole units and never overcommitted (`nvidia.com/gpu`)."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def is_schedulable_resource(name: str) -> bool:
    """Return whether fitting counts requests for the resource; upstream ignores all others."""
    return (
        name in CONTAINER_RESOURCES
        or name.startswith(("hugepages-", "attachable-volumes-"))
        or "kubernetes.io/" in name
        or is_extended_resource(name)
    )


def is_pod_level_resource(name: str) -> bool:
    """Return whether `spec.resources` of a pod may set the resource (cpu, memory, hugepages)."""
    return name in _POD_LEVEL or name.startswith("hugepages-")


def resource_list(resources: Mapping[str, QuantityText]) -> RequestVector:
    """Return a resource list (a node's allocatable) as integers: cpu in milli-units, others in base units.

    Raises `QuantityError` for a malformed quantity. Zero entries are kept: a node may have none of a resource.
    """
    return {
        name: milli_value_of(quantity) if name == "cpu" else value_of(quantity) for name, quantity in resources.items()
    }


def pod_requests(pod: Pod) -> RequestVector:
    """Return the pod's requests by the rule of this module: resource name to integer, no zero entries."""
    return _requests(pod, _plain_requests(pod))


def amounts_of(pod: Pod) -> tuple[RequestVector, tuple[int, int]]:
    """Return `pod_requests` of the pod, and its cpu milli-units and memory bytes for scoring (non-zero requests).

    A container without a cpu or memory request counts 100m or 200Mi for scoring; an explicit zero stays zero. With
    pod-level requests the defaults apply only to resources that neither the pod nor any container sets.
    """
    plain = _plain_requests(pod)
    return _requests(pod, plain), _nonzero_requests(pod, plain)


def _requests(pod: Pod, plain: Mapping[str, QuantityText] | None) -> RequestVector:
    if plain is not None:
        return {
            name: amount for name, amount in resource_list(plain).items() if amount and is_schedulable_resource(name)
        }
    return {
        name: amount
        for name, nano in _pod_nano(pod, {}).items()
        if is_schedulable_resource(name) and (amount := _integer(name, nano))
    }


def container_requests(pod: Pod) -> dict[str, int]:
    """Return the total requests of the containers of a pod, in units of 10^-9, zeros included."""
    return _aggregate(pod, _spec_requests, False, {})


def allocated_requests(pod: Pod) -> RequestVector:
    """Return the resources that the kubelet has given to the pod: the maximum of allocated and actuated.

    A kubelet counts these for the other pods of a node when it resizes one of them in place.
    """
    return {
        name: amount
        for name, nano in _pod_nano(pod, {}, reported_only=True).items()
        if is_schedulable_resource(name) and (amount := _integer(name, nano))
    }


def _nonzero_requests(pod: Pod, plain: Mapping[str, QuantityText] | None) -> tuple[int, int]:
    if plain is not None:
        cpu, memory = plain.get("cpu"), plain.get("memory")
        return (
            milli_value_of(cpu) if cpu is not None else DEFAULT_MILLI_CPU,
            value_of(memory) if memory is not None else DEFAULT_MEMORY,
        )
    nano = _pod_nano(pod, _DEFAULTS if not _has_pod_level_requests(pod) else _missing(pod))
    return _integer("cpu", nano.get("cpu", 0)), _integer("memory", nano.get("memory", 0))


def host_ports(pod: Pod) -> tuple[HostPort, ...]:
    """Return the host ports of the pod, first of restartable init containers, then of containers."""
    spec = pod.spec
    if len(spec.containers) == 1 and not spec.containers[0].ports and not spec.init_containers:
        return ()
    return tuple(
        (port.protocol or "TCP", port.host_ip or "0.0.0.0", port.host_port)
        for container in _long_running(pod)
        for port in container.ports
        if port.host_port > 0
    )


def _long_running(pod: Pod) -> Iterable[Container]:
    yield from (container for container in pod.spec.init_containers if container.restart_policy == "Always")
    yield from pod.spec.containers


def _integer(name: str, nano: int) -> int:
    amount = -(-nano // (10**6 if name == "cpu" else NANO))
    return min(amount, MAX_INT64)


def _plain_requests(pod: Pod) -> Mapping[str, QuantityText] | None:
    """Return the requests of a pod with one container and nothing else that counts; otherwise None."""
    spec = pod.spec
    if len(spec.containers) != 1 or spec.init_containers or spec.overhead or spec.resources is not None:
        return None
    if _reports_resources(pod):
        return None
    return spec.containers[0].resources.requests


def _reports_resources(pod: Pod) -> bool:
    status = pod.status
    if not status.container_statuses and not status.init_container_statuses:
        return False
    return any(s.resources is not None or s.allocated_resources for s in status.container_statuses) or any(
        s.resources is not None or s.allocated_resources for s in status.init_container_statuses
    )


def _has_pod_level_requests(pod: Pod) -> bool:
    resources = pod.spec.resources
    return resources is not None and any(is_pod_level_resource(name) for name in resources.requests)


def _missing(pod: Pod) -> _NanoVector:
    present = _pod_nano(pod, {})
    return {name: nano for name, nano in _DEFAULTS.items() if name not in present}


def _pod_nano(pod: Pod, container_defaults: _NanoVector, *, reported_only: bool = False) -> _NanoVector:
    """Return the module's rule in units of 10^-9; `container_defaults` replace missing container requests.

    `reported_only`: only the kubelet's report counts, as for an infeasible resize.
    """
    infeasible = _reports_resources(pod) if reported_only else _resize_infeasible(pod)
    if _reports_resources(pod):
        total = {} if infeasible else _aggregate(pod, _spec_requests, infeasible, container_defaults)
        for choose in (_allocated_requests, _actuated_requests):
            _raise_to(total, _aggregate(pod, choose, infeasible, container_defaults))
    else:
        total = _aggregate(pod, _spec_requests, infeasible, container_defaults)
    if pod.spec.resources is not None:
        total.update(_pod_level(pod, pod.spec.resources, infeasible))
    _add(total, _nano(pod.spec.overhead))
    return total


def _pod_level(pod: Pod, resources: ResourceRequirements, infeasible: bool) -> _NanoVector:
    effective = _nano(resources.requests)
    status, allocated = pod.status.resources, pod.status.allocated_resources
    if status is not None or allocated:
        overhead = _nano(pod.spec.overhead)
        if infeasible:
            effective = {}
        for reported in (_nano(status.requests) if status is not None else {}, _nano(allocated)):
            _raise_to(effective, {name: nano - overhead.get(name, 0) for name, nano in reported.items()})
    return {name: nano for name, nano in effective.items() if is_pod_level_resource(name)}


def _aggregate(pod: Pod, choose: _Choose, infeasible: bool, defaults: _NanoVector) -> _NanoVector:
    statuses = {status.name: status for status in pod.status.init_container_statuses}
    statuses.update((status.name, status) for status in pod.status.container_statuses)

    def requests(container: Container) -> _NanoVector:
        chosen = choose(container, statuses.get(container.name), infeasible) or {}
        return {**defaults, **_nano(chosen)}

    total: _NanoVector = {}
    for container in pod.spec.containers:
        _add(total, requests(container))
    restartable: _NanoVector = {}
    peak: _NanoVector = {}
    for container in pod.spec.init_containers:
        wanted = requests(container)
        if container.restart_policy == "Always":
            _add(total, wanted)
            _add(restartable, wanted)
            _raise_to(peak, restartable)
        else:
            _add(wanted, restartable)
            _raise_to(peak, wanted)
    _raise_to(total, peak)
    return total


def _spec_requests(container: Container, _status: ContainerStatus | None, _no: bool) -> _Quantities:
    return container.resources.requests


def _allocated_requests(container: Container, status: ContainerStatus | None, infeasible: bool) -> _Quantities:
    if status is not None and status.allocated_resources:
        return status.allocated_resources
    return None if infeasible else container.resources.requests


def _actuated_requests(container: Container, status: ContainerStatus | None, infeasible: bool) -> _Quantities:
    if status is not None and status.resources is not None and status.resources.requests:
        return status.resources.requests
    return _allocated_requests(container, status, infeasible)


def resize_is_deferred(pod: Pod) -> bool:
    """Return whether the kubelet waits for free resources before resizing the pod in place (resizes.md 1.1)."""
    return bool(pod.status.conditions) and any(
        c.type == "PodResizePending" and c.status == "True" and c.reason == "Deferred" for c in pod.status.conditions
    )


def resize_may_not_preempt(pod: Pod) -> bool:
    """Return whether the kubelet reports that no pods may be evicted for the pod's resize (resizes.md 1.8)."""
    return any(c.type == "PodResizePreemptionDisabled" and c.status == "True" for c in pod.status.conditions)


def _resize_infeasible(pod: Pod) -> bool:
    return any(
        condition.type == "PodResizePending" and condition.reason == "Infeasible" for condition in pod.status.conditions
    )


def _nano(resources: Mapping[str, QuantityText]) -> _NanoVector:
    return {name: parse(quantity).nano for name, quantity in resources.items()}


def _add(total: _NanoVector, more: _NanoVector) -> None:
    for name, nano in more.items():
        total[name] = total.get(name, 0) + nano


def _raise_to(total: _NanoVector, vector: _NanoVector) -> None:
    for name, nano in vector.items():
        if nano > total.get(name, -1):
            total[name] = nano
