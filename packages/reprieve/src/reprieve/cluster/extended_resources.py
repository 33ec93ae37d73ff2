"""Extended resources that device classes serve, and the claim for those of a pod's containers (KEP-5004).

Terms: a resource is *served* if a DeviceClass names it (`spec.extendedResourceName`) or is named by it
(`deviceclass.resource.kubernetes.io/NAME`).  A *lasting* container, which runs as long as the pod, has its own
devices. An init container that ends before the others begin borrows the devices of later lasting containers. If these
are too few, all such init containers share one additional request.

Rules: devices.md 4 (kubernetes/kubernetes pkg/scheduler/framework/plugins/dynamicresources, 1.37).
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kube_rules import objects
from kube_rules.devices import IMPLICIT
from kube_rules.quantity import value_of
from kube_rules.requests import is_extended_resource

ANNOTATION: Final = "resource.kubernetes.io/extended-resource-claim"
"""Marks the claim created for a pod's extended resources."""
_LONGEST_NAME: Final = 63
_SUFFIX: Final = "-extended-resources-"


class ContainerAsk(NamedTuple):
    """The request of one container. `number`: its index among init containers and containers together."""

    number: int
    name: str
    lasting: bool
    amounts: tuple[tuple[str, int, int], ...]
    """(resource, devices, index among the names of all resources that the container requests)."""


class ResourceMapping(NamedTuple):
    """A container's resource and the request of the claim that serves it (PodExtendedResourceClaimStatus)."""

    container: str
    resource: str
    request: str


def may_be_served(name: str) -> bool:
    """Return whether device classes can serve a resource of this name."""
    return is_extended_resource(name) or name.startswith(IMPLICIT)


def asks_of(spec: objects.PodSpec) -> tuple[ContainerAsk, ...]:
    """Return the containers that request resources which device classes can serve; () for most pods."""
    if (
        len(spec.containers) == 1
        and not spec.init_containers
        and "/" not in "".join(spec.containers[0].resources.requests)
    ):
        return ()
    result = []
    first = len(spec.init_containers)
    for index, container in enumerate((*spec.init_containers, *spec.containers)):
        requests = container.resources.requests
        if "/" not in "".join(requests):
            continue
        amounts = tuple(
            (name, amount, place)
            for place, name in enumerate(sorted(requests))
            if "/" in name and may_be_served(name) and (amount := value_of(requests[name])) > 0
        )
        if amounts:
            lasting = index >= first or container.restart_policy == "Always"
            result.append(ContainerAsk(index, container.name, lasting, amounts))
    return tuple(result)


def served_by(classes: Iterable[objects.DeviceClass]) -> dict[str, str]:
    """Return resource -> the class that serves it: of several, the youngest, then the first by name."""
    result: dict[str, str] = {}
    ranks: dict[str, tuple[float, str]] = {}
    for priority_class in classes:
        name = priority_class.metadata.name
        result.setdefault(IMPLICIT + name, name)
        resource, created = priority_class.spec.extended_resource_name, priority_class.metadata.creation_timestamp
        if not resource:
            continue
        rank = (-created.timestamp() if created is not None else 0.0, name)
        if resource not in ranks or rank < ranks[resource]:
            ranks[resource] = rank
            result[resource] = name
    return result


def requests_of(
    asks: Sequence[ContainerAsk], served: Mapping[str, str], wanted: Iterable[str]
) -> tuple[list[dict[str, Any]], list[ResourceMapping]]:
    """Return the requests of the claim for some resources, by name, and the containers they serve."""
    requests: list[dict[str, Any]] = []
    mapped: list[ResourceMapping] = []
    for resource in sorted(wanted):
        lasting: dict[int, tuple[str, int]] = {}
        """Index of a lasting container -> its request and number of devices."""
        borrowed: list[ResourceMapping] = []
        extra: tuple[str, int] | None = None
        names: set[str] = set()
        for ask, amount, request in _of(asks, resource):
            if ask.lasting:
                lasting[ask.number] = (request, amount)
                mapped.append(ResourceMapping(ask.name, resource, request))
        for ask, amount, request in _of(asks, resource):
            if ask.lasting:
                continue
            left = amount
            for _, (lender, lendable) in sorted(item for item in lasting.items() if item[0] >= ask.number):
                if left > 0:
                    borrowed.append(ResourceMapping(ask.name, resource, lender))
                    left -= lendable
            if left > 0:
                names.add(request)
                borrowed.append(ResourceMapping(ask.name, resource, request))
                extra = (request, left) if extra is None or extra[1] < left else extra
        for entry in borrowed:
            shared = extra is not None and entry.request in names
            mapped.append(entry._replace(request=extra[0]) if shared and extra is not None else entry)
        for name, count in (*([extra] if extra is not None else ()), *lasting.values()):
            requests.append(_request(name, served[resource], count))
    return sorted(requests, key=lambda request: str(request["name"])), mapped


def _of(asks: Sequence[ContainerAsk], resource: str) -> list[tuple[ContainerAsk, int, str]]:
    return [
        (ask, amount, f"container-{ask.number}-request-{place}")
        for ask in asks
        for name, amount, place in ask.amounts
        if name == resource
    ]


def _request(name: str, class_name: str, count: int) -> dict[str, Any]:
    exactly = {"deviceClassName": class_name, "allocationMode": "ExactCount", "count": count}
    return {"name": name, "exactly": exactly}


def claim_name(pod: str, uid: str) -> str:
    """Return the deterministic name of the claim for a pod, so that a second attempt finds the first claim."""
    digest = hashlib.sha256(uid.encode()).hexdigest()[:10]
    return f"{pod[: _LONGEST_NAME - len(_SUFFIX) - len(digest)].rstrip('.-')}{_SUFFIX}{digest}"


def owner_of(claim: objects.ResourceClaim) -> str | None:
    """Return the UID of the pod with the extended resources that a claim serves; None for any other claim."""
    if claim.metadata.annotations.get(ANNOTATION) != "true":
        return None
    owners = (item for item in claim.metadata.owner_references if item.controller and item.kind == "Pod")
    return next((item.uid for item in owners), None)
