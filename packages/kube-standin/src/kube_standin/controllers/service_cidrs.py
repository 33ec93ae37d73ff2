"""ServiceCIDRs: ready when they are there, and kept while addresses have no other (interfaces.md 7.16)."""

from __future__ import annotations

from datetime import timedelta
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Final

from kube_rules.json import Json
from kube_standin.clock import parse_stamp
from kube_standin.conditions import condition, put_condition
from kube_standin.controllers.reconciler import Controller
from kube_standin.controllers.views import Seen
from kube_standin.metadata import without_finalizer

FINALIZER: Final = "networking.k8s.io/service-cidr-finalizer"
MANAGED_BY: Final = "ipaddress.kubernetes.io/managed-by"
ALLOCATOR: Final = "ipallocator.k8s.io"
_GRACE: Final = timedelta(seconds=10)
"""How long a deleted one stays at least, so that allocators see that it goes."""
_READY: Final = condition("Ready", "True", "", "Kubernetes Service CIDR is ready")
_HELD: Final = condition(
    "Ready",
    "False",
    "Terminating",
    "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR",
)


class ServiceCIDRs(Controller):
    """Keys are names of ServiceCIDRs."""

    name = "service-cidr-controller"

    def connect(self) -> None:
        """Queue what changes, and what is being deleted when another one or an address changes."""
        context = self.context
        row, addresses = (
            context.registry.kinds.of("networking.k8s.io/v1", kind) for kind in ("ServiceCIDR", "IPAddress")
        )
        if row is None or addresses is None:
            return  # a release that does not serve them
        self._row, self._addresses = row, addresses
        self._source = context.sources.of(self._row.storage_key, Seen)
        self._source.add_handler(self._changed)
        context.sources.of(self._addresses.storage_key, Seen).add_handler(lambda old, new: self._queue_deleted())

    def _changed(self, old: Seen | None, new: Seen | None) -> None:
        if new is not None:
            self.queue(new.metadata.name)
        self._queue_deleted()

    def _queue_deleted(self) -> None:
        for seen in self._source.items.values():
            if seen.metadata.deletion_timestamp:
                self.queue(seen.metadata.name)

    def reconcile(self, key: str) -> None:
        """Set the finalizer and the condition; let go of what nothing needs."""
        found = self.context.find(self._row, ("", key))
        if found is None:
            return
        deleted = found["metadata"].get("deletionTimestamp")
        if not deleted:
            if FINALIZER not in (found["metadata"].get("finalizers") or ()):
                self.context.modify(self._row, ("", key), _protect)
            self._report(key, found, _READY)
        elif self._is_needed(found):
            self._report(key, found, _HELD)
        elif (due := parse_stamp(deleted) + _GRACE) > self.context.now():
            self.context.timers.at(due, lambda: self.queue(key))
        else:
            self.context.modify(self._row, ("", key), without_finalizer(FINALIZER))

    def _report(self, key: str, found: Json, wanted: Json) -> None:
        status = {**(found.get("status") or {})}
        status["conditions"] = [dict(one) for one in status.get("conditions") or ()]
        put_condition(status, wanted, self.context.stamp())
        self.context.set_status(self._row, ("", key), status)

    def _is_needed(self, going: Json) -> bool:
        """Return whether an address is in no other network, and no other network contains a whole one of these."""
        store = self.context.registry.store
        name = going["metadata"]["name"]
        others = [
            network
            for state in store.heads(self._row.storage_key)
            if state.name != name
            for network in _networks(state.decode())
        ]
        own = _networks(going)
        if all(any(_contains(other, network) for other in others) for network in own):
            return False
        for state in store.heads(self._addresses.storage_key):
            if (state.decode()["metadata"].get("labels") or {}).get(MANAGED_BY) != ALLOCATOR:
                continue
            address = ip_address(state.name)
            if any(address in network for network in own) and not any(address in network for network in others):
                return True
        return False


def _protect(obj: Json) -> None:
    obj["metadata"]["finalizers"] = [*(obj["metadata"].get("finalizers") or ()), FINALIZER]


def _networks(obj: Json) -> list[IPv4Network | IPv6Network]:
    return [ip_network(text) for text in obj["spec"].get("cidrs") or ()]


def _contains(outer: IPv4Network | IPv6Network, inner: IPv4Network | IPv6Network) -> bool:
    if isinstance(outer, IPv4Network) and isinstance(inner, IPv4Network):
        return inner.subnet_of(outer)
    return isinstance(outer, IPv6Network) and isinstance(inner, IPv6Network) and inner.subnet_of(outer)
