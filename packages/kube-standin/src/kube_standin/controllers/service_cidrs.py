"""ServiceCIDRs: ready while they exist, and kept while addresses have no other network (interfaces.md 7.16).

Links between Services and IPAddresses are repaired after a client, a crash or an older server broke them (7.17).
"""

from __future__ import annotations

from datetime import timedelta
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Final

from kube_rules.json import Json
from kube_standin.clock import parse_stamp
from kube_standin.conditions import condition, put_condition
from kube_standin.controllers.reconciler import Controller
from kube_standin.controllers.views import Key, ObjectView, SpecView
from kube_standin.metadata import without_finalizer
from kube_standin.service_addresses import (
    ADDRESSES,
    ALLOCATOR,
    MANAGED_BY,
    SERVICES,
    ServiceNetworks,
    address_labels,
    addresses_of,
    networks_of,
    parent_key,
    put_address,
)

FINALIZER: Final = "networking.k8s.io/service-cidr-finalizer"
_GRACE: Final = timedelta(seconds=10)
"""How long a deleted ServiceCIDR remains at least, so that allocators observe the deletion."""
_LEAKED: Final = timedelta(seconds=60)
"""How long an address may have no Service, which may be about to be created."""
_READY: Final = condition("Ready", "True", "", "Kubernetes Service CIDR is ready")
_HELD: Final = condition(
    "Ready",
    "False",
    "Terminating",
    "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR",
)


class ServiceCIDRs(Controller):
    """The controller of ServiceCIDRs; keys are their names."""

    name = "service-cidr-controller"

    def connect(self) -> None:
        """Queue ServiceCIDRs that change, and deleted ones when another one or an address changes."""
        context = self.context
        row, addresses = (
            context.registry.kinds.of("networking.k8s.io/v1", kind) for kind in ("ServiceCIDR", "IPAddress")
        )
        if row is None or addresses is None:
            return  # a release that does not serve them
        self._row, self._addresses = row, addresses
        self._source = context.sources.of(self._row.storage_key, ObjectView)
        self._source.add_handler(self._changed)
        context.sources.of(self._addresses.storage_key, ObjectView).add_handler(lambda old, new: self._queue_deleted())

    def _changed(self, old: ObjectView | None, new: ObjectView | None) -> None:
        if new is not None:
            self.queue(new.metadata.name)
        self._queue_deleted()

    def _queue_deleted(self) -> None:
        for service_cidr in self._source.items.values():
            if service_cidr.metadata.deletion_timestamp:
                self.queue(service_cidr.metadata.name)

    def reconcile(self, key: str) -> None:
        """Set the finalizer and the condition; remove the finalizer of a ServiceCIDR that nothing needs."""
        service_cidr = self.context.find(self._row, ("", key))
        if service_cidr is None:
            return
        deleted = service_cidr["metadata"].get("deletionTimestamp")
        if not deleted:
            if FINALIZER not in (service_cidr["metadata"].get("finalizers") or ()):
                self.context.modify(self._row, ("", key), _protect)
            self._report(key, service_cidr, _READY)
        elif self._is_needed(service_cidr):
            self._report(key, service_cidr, _HELD)
        elif (due := parse_stamp(deleted) + _GRACE) > self.context.now():
            self.context.timers.at(due, lambda: self.queue(key))
        else:
            self.context.modify(self._row, ("", key), without_finalizer(FINALIZER))

    def _report(self, key: str, service_cidr: Json, wanted: Json) -> None:
        status = {**(service_cidr.get("status") or {})}
        status["conditions"] = [dict(entry) for entry in status.get("conditions") or ()]
        put_condition(status, wanted, self.context.stamp())
        self.context.set_status(self._row, ("", key), status)

    def _is_needed(self, deleted: Json) -> bool:
        """Return whether an address is only in a network of a deleted ServiceCIDR, which no other network contains."""
        store = self.context.registry.store
        name = deleted["metadata"]["name"]
        remaining = [
            network
            for state in store.heads(self._row.storage_key)
            if state.name != name
            for network in networks_of(state.decode())
        ]
        own = networks_of(deleted)
        if all(any(_contains(outer, network) for outer in remaining) for network in own):
            return False
        for state in store.heads(self._addresses.storage_key):
            if (state.decode()["metadata"].get("labels") or {}).get(MANAGED_BY) != ALLOCATOR:
                continue
            address = ip_address(state.name)
            if any(address in network for network in own) and not any(address in network for network in remaining):
                return True
        return False


def _protect(obj: Json) -> None:
    obj["metadata"]["finalizers"] = [*(obj["metadata"].get("finalizers") or ()), FINALIZER]


def _contains(outer: IPv4Network | IPv6Network, inner: IPv4Network | IPv6Network) -> bool:
    if isinstance(outer, IPv4Network) and isinstance(inner, IPv4Network):
        return inner.subnet_of(outer)
    return isinstance(outer, IPv6Network) and isinstance(inner, IPv6Network) and inner.subnet_of(outer)


class ServiceAddressRepair(Controller):
    """The controller that repairs Service addresses; keys are those of Services, and names of IPAddresses."""

    name = "service-ip-repair-controller"

    def connect(self) -> None:
        """Watch Services and IPAddresses."""
        context = self.context
        self._row = context.kind("v1", "Service")
        services = context.sources.of(self._row.storage_key, SpecView)
        services.add_handler(lambda old, new: self.queue(new.metadata.key) if new is not None else None)
        self._services: dict[str, Key] = {}
        """The Service that each IPAddress names."""
        self._addresses = context.registry.kinds.of("networking.k8s.io/v1", "IPAddress")
        if self._addresses is not None:
            context.sources.of(self._addresses.storage_key, ObjectView).add_handler(self._address_changed)

    def _address_changed(self, old: ObjectView | None, new: ObjectView | None) -> None:
        if (ip_address_view := new or old) is not None:
            self.queue(ip_address_view.metadata.name)

    def reconcile(self, key: Key | str) -> None:
        """Allocate missing addresses of a Service, or delete an IPAddress without a Service."""
        if isinstance(key, str):
            self._reconcile_address(key)
            return
        service = self.context.find(self._row, key)
        if service is None:
            return
        spec = service["spec"]
        if spec.get("type") != "ExternalName" and not spec.get("clusterIP"):
            self.context.modify(self._row, key, lambda _: None)  # stored before addresses were allocated
            return
        networks = ServiceNetworks(self.context.registry.store)
        for address in addresses_of(spec):
            if networks.contain(address):
                self._link(service, key, address)

    def _link(self, service: Json, key: Key, address: str) -> None:
        context = self.context
        state = context.registry.store.head(ADDRESSES, "", address)
        why = "is not allocated; repairing"
        if state is not None:
            ip_object = state.decode()
            parent = context.find(self._row, parent_key(ip_object)) if _is_of_service(ip_object) else None
            if parent is None:
                why = "has a wrong reference; repairing"
            elif parent_key(ip_object) != key:
                if address in addresses_of(parent["spec"]):
                    text = f"Cluster IP {address} was assigned to multiple services; please recreate service"
                    context.event(service, "ClusterIPAlreadyAllocated", text, "Warning")
                return
            elif address_labels(address).items() <= (ip_object["metadata"].get("labels") or {}).items():
                return
        context.event(service, "ClusterIPNotAllocated", f"Cluster IP {address} {why}", "Warning")
        put_address(context.registry, address, *key)

    def _reconcile_address(self, name: str) -> None:
        context, store = self.context, self.context.registry.store
        state = store.head(ADDRESSES, "", name)
        if state is None:
            if (service := self._services.pop(name, None)) is not None:
                self.queue(service)
            return
        ip_object = state.decode()
        self._services[name] = parent_key(ip_object)
        if (ip_object["metadata"].get("labels") or {}).get(MANAGED_BY) != ALLOCATOR:
            return
        owner = context.find(self._row, parent_key(ip_object)) if _is_of_service(ip_object) else None
        if owner is not None and name in addresses_of(owner["spec"]):
            return
        due = parse_stamp(ip_object["metadata"]["creationTimestamp"]) + _LEAKED
        if owner is None and _is_of_service(ip_object) and due > context.now():
            context.timers.at(due, lambda: self.queue(name))
            return
        store.delete(state)


def _is_of_service(address: Json) -> bool:
    parent = address["spec"].get("parentRef") or {}
    return not parent.get("group") and parent.get("resource") == SERVICES
