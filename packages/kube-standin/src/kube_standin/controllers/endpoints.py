"""Endpoints and EndpointSlices of Services with a selector, and slices that mirror Endpoints which clients write.

Rules: kube-controller-manager 1.36 (interfaces.md 7.14, 7.15). Without Services a change of a pod costs one look-up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kube_rules.controllers import endpoint_slices as slices
from kube_rules.controllers import endpoints as rules
from kube_rules.controllers.endpoint_slices import SlicePlan
from kube_rules.controllers.endpoints import BackendPod, decode_backend
from kube_rules.json import Json
from kube_rules.topology_terms import ZONE
from kube_standin.controllers.pod_owners import is_terminating
from kube_standin.controllers.reconciler import Controller
from kube_standin.controllers.sources import Source
from kube_standin.controllers.views import Key, Meta, ObjectView, PodView, SpecView
from kube_standin.deletion import DeleteOptions
from kube_standin.errors import StatusError
from kube_standin.metadata import owner_reference


def _changes_backends(old: PodView | None, new: PodView | None) -> bool:
    if old is None or new is None:
        return True
    now = (new.ready, new.phase, new.terminating, new.node, new.addresses, new.metadata.labels)
    return now != (old.ready, old.phase, old.terminating, old.node, old.addresses, old.metadata.labels)


class _ServiceController(Controller):
    """A controller of objects of Services; keys are those of Services."""

    def connect(self) -> None:
        """Queue a Service when it or a pod that it selects changes."""
        context = self.context
        self._times = rules.TriggerTimes()
        self._service_row = context.kind("v1", "Service")
        self._services = context.sources.of(self._service_row.storage_key, SpecView)
        self._services.index("namespace", lambda service: (service.metadata.namespace,))
        self._services.add_handler(self._service_changed)
        self._pods = context.sources.pods
        self._pods.index("namespace", lambda pod: (pod.metadata.namespace,))
        self._pods.add_handler(self._pod_changed)

    def _service_changed(self, old: SpecView | None, new: SpecView | None) -> None:
        service = new or old
        if service is None:
            return
        if new is None:
            self._times.forget(*service.metadata.key)
        if old is None or new is None or old != new:
            self.queue(service.metadata.key)

    def _pod_changed(self, old: PodView | None, new: PodView | None) -> None:
        pod_now = new or old
        keys = self._services.keys_by("namespace", pod_now.metadata.namespace) if pod_now is not None else ()
        if not keys or not _changes_backends(old, new):
            return
        for key in keys:
            wanted = rules.selector_of_service(self._services.items[key].spec)
            if wanted and any(pod is not None and _has_labels(pod, wanted) for pod in (old, new)):
                self.queue(key)

    def backends(self, namespace: str, wanted: Mapping[str, str]) -> list[BackendPod]:
        """Return the pods with the labels that a Service selects, by name."""
        heads = self.context.registry.store.head
        pods = (pod.key for pod in self._pods.by("namespace", namespace) if _has_labels(pod, wanted))
        return [decode_backend(state.raw) for key in pods if (state := heads("pods", *key)) is not None]


def _has_labels(pod: PodView, wanted: Mapping[str, str]) -> bool:
    return wanted.items() <= (pod.metadata.labels or {}).items()


def _put(obj: Json, **values: Any) -> None:
    """Set fields; empty values remove the field."""
    for field, value in values.items():
        if value:
            obj[field] = value
        else:
            obj.pop(field, None)


class EndpointsOfServices(_ServiceController):
    """The controller that keeps the Endpoints of Services that select pods."""

    name = "endpoint"

    def connect(self) -> None:
        """Queue the Service, too, of Endpoints that were deleted, or that remain from before the start."""
        self._row = self.context.kind("v1", "Endpoints")
        super().connect()
        self.context.sources.of(self._row.storage_key, ObjectView).add_handler(self._endpoints_changed)

    def _endpoints_changed(self, old: ObjectView | None, new: ObjectView | None) -> None:
        endpoints = new or old
        if endpoints is None or (old is not None and new is not None):
            return
        served = endpoints.metadata.key in self._services.items
        if served if new is None else (not served and _is_ours(endpoints.metadata)):
            self.queue(endpoints.metadata.key)

    def reconcile(self, key: Key) -> None:
        """Write the Endpoints of a Service, or delete them with it."""
        service = self.context.find(self._service_row, key)
        if service is None:
            endpoints = self.context.find(self._row, key)
            if endpoints is not None:
                self.context.delete(self._row, key, DeleteOptions(uid=endpoints["metadata"]["uid"]))
            return
        wanted = rules.selector_of_service(service["spec"])
        if wanted is not None:
            with self.resting(key) as rested:
                if rested:
                    self._write(key, service, self.backends(key[0], wanted))

    def _write(self, key: Key, service: Json, pods: list[BackendPod]) -> None:
        subsets, truncated = rules.subsets_of(service, pods)
        labels = {**(service["metadata"].get("labels") or {}), rules.MANAGED_BY: rules.MANAGER}
        if rules.headless(service["spec"]):
            labels[rules.HEADLESS] = ""
        trigger = self._times.oldest_since(service, pods)
        annotations = {rules.TRIGGER_TIME: trigger} if trigger else {}
        if truncated:
            annotations[rules.OVER_CAPACITY] = "truncated"
        endpoints = self.context.find(self._row, key)
        if endpoints is None:
            metadata = {"name": key[1], "labels": labels, "annotations": annotations}
            self._create(key[0], {"metadata": metadata, "subsets": subsets})
            return
        before = endpoints["metadata"].get("annotations") or {}
        same = (endpoints.get("subsets") or [], endpoints["metadata"].get("labels")) == (subsets, labels)
        if same and (rules.OVER_CAPACITY in before) == truncated:
            return

        def change(obj: Json) -> None:
            ours = (rules.OVER_CAPACITY, rules.TRIGGER_TIME)
            foreign = {name: value for name, value in before.items() if name not in ours}
            obj["metadata"].update(labels=labels, annotations={**foreign, **annotations})
            _put(obj, subsets=subsets)

        self.context.modify(self._row, key, change)

    def _create(self, namespace: str, endpoints: Json) -> None:
        try:
            self.context.create(self._row, namespace, endpoints)
        except StatusError as error:
            if not is_terminating(error):
                raise


class _Slices:
    """The EndpointSlices that one controller manages; carries out plans for them."""

    def __init__(self, controller: Controller, manager: str) -> None:
        self._controller, self._manager = controller, manager
        self._context = controller.context
        self._row = self._context.kind("discovery.k8s.io/v1", "EndpointSlice")
        self._source: Source[ObjectView] = self._context.sources.of(self._row.storage_key, ObjectView)
        self._source.index("service", _managed)
        self._written: dict[Key, int] = {}
        """The generation of each slice after the controller's last write; changes by others are repaired."""
        self._source.add_handler(self._changed)

    def _changed(self, old: ObjectView | None, new: ObjectView | None) -> None:
        if new is not None and old is not None and self._written.get(new.metadata.key) == new.metadata.generation:
            if new.metadata.labels == old.metadata.labels:
                return
        elif new is None and old is not None:
            self._written.pop(old.metadata.key, None)
        for slice_ in (old, new):
            for namespace, name, manager in _managed(slice_) if slice_ is not None else ():
                if manager == self._manager:
                    self._controller.queue((namespace, name))

    def of(self, key: Key) -> list[Json]:
        """Return the slices of a Service, by name."""
        keys = sorted(self._source.keys_by("service", (*key, self._manager)))
        existing = [slice_ for name in keys if (slice_ := self._context.find(self._row, name)) is not None]
        empty: Json = {"endpoints": [], "ports": []}  # an empty list is not stored
        return [{**empty, **slice_} for slice_ in existing if not slice_["metadata"].get("deletionTimestamp")]

    def carry_out(self, plan: SlicePlan, owner: Json, trigger: str = "") -> None:
        """Stage the writes of a plan; raises NextTurn after many of them."""
        namespace = owner["metadata"]["namespace"]
        for new in plan.create if not owner["metadata"].get("deletionTimestamp") else ():
            self._controller.spend()
            new["metadata"]["ownerReferences"] = [owner_reference(owner)]
            if trigger:
                new["metadata"]["annotations"] = {rules.TRIGGER_TIME: trigger}
            try:
                self._remember(self._context.create(self._row, namespace, new))
            except StatusError as error:
                if not is_terminating(error):
                    raise
        for slice_ in plan.update:
            self._controller.spend()
            self._update((namespace, slice_["metadata"]["name"]), slice_, trigger)
        for slice_ in plan.delete:
            self._controller.spend()
            self.delete(slice_)

    def _update(self, key: Key, wanted: Json, trigger: str) -> None:
        metadata = wanted["metadata"]
        annotations = {**(metadata.get("annotations") or {}), rules.TRIGGER_TIME: trigger}
        if not trigger:
            del annotations[rules.TRIGGER_TIME]

        def change(obj: Json) -> None:
            _put(obj["metadata"], labels=metadata["labels"], annotations=annotations)
            _put(obj, endpoints=wanted["endpoints"], ports=wanted["ports"])

        self._remember(self._context.modify(self._row, key, change))

    def _remember(self, obj: Json) -> None:
        metadata = obj["metadata"]
        self._written[(metadata["namespace"], metadata["name"])] = metadata["generation"]

    def delete(self, slice_: Json) -> None:
        """Stage the deletion of a slice."""
        metadata = slice_["metadata"]
        self._context.delete(self._row, (metadata["namespace"], metadata["name"]), DeleteOptions(uid=metadata["uid"]))


def _managed(slice_: ObjectView) -> tuple[tuple[str, str, str], ...]:
    labels = slice_.metadata.labels or {}
    name, manager = labels.get(slices.SERVICE_NAME), labels.get(slices.MANAGED_BY)
    return ((slice_.metadata.namespace, name, manager),) if name and manager else ()


class EndpointSlicesOfServices(_ServiceController):
    """The controller that keeps the EndpointSlices of Services with a selector; garbage collection deletes them."""

    name = "endpointslice"

    def connect(self) -> None:
        """Queue the Service, too, of a slice that another client changed."""
        super().connect()
        self._nodes = self.context.sources.nodes
        self._slices = _Slices(self, slices.MANAGER)

    def reconcile(self, key: Key) -> None:
        """Update the slices of a Service to match its pods."""
        service = self.context.find(self._service_row, key)
        wanted = rules.selector_of_service(service["spec"]) if service is not None else None
        if service is None or wanted is None:
            return
        with self.resting(key) as rested:
            if not rested:
                return
            pods = self.backends(key[0], wanted)
            plan = slices.plan_service(service, pods, self._zones(pods), self._slices.of(key))
            self._slices.carry_out(plan, service, self._times.oldest_since(service, pods))
        published = service["spec"].get("publishNotReadyAddresses")
        if not published and any(("", pod.spec.node_name) not in self._nodes.items for pod in pods if _placed(pod)):
            self.sync_again_later(key)  # a node may be created after its pods

    def _zones(self, pods: list[BackendPod]) -> dict[str, str | None]:
        """Return the zones of the pods' nodes; missing nodes are omitted."""
        nodes = {pod.spec.node_name: self._nodes.items.get(("", pod.spec.node_name)) for pod in pods}
        return {name: (node.metadata.labels or {}).get(ZONE) for name, node in nodes.items() if node is not None}


def _placed(pod: BackendPod) -> bool:
    return bool(pod.spec.node_name and pod.status.pod_addresses and not pod.finished)


class MirroredEndpoints(Controller):
    """The controller that mirrors Endpoints which clients write for Services without a selector into EndpointSlices."""

    name = "endpointslicemirroring"

    def connect(self) -> None:
        """Queue Endpoints when they, their Service or one of their slices change."""
        context = self.context
        self._row, self._service_row = context.kind("v1", "Endpoints"), context.kind("v1", "Service")
        self._slices = _Slices(self, slices.MIRROR)
        context.sources.of(self._row.storage_key, ObjectView).add_handler(
            lambda old, new: self._queue_named(new or old)
        )
        context.sources.of(self._service_row.storage_key, SpecView).add_handler(self._service_changed)

    def _queue_named(self, named_object: ObjectView | None) -> None:
        if named_object is not None and not _is_ours(named_object.metadata):
            self.queue(named_object.metadata.key)

    def _service_changed(self, old: SpecView | None, new: SpecView | None) -> None:
        selected = [bool(state.spec.get("selector")) for state in (old, new) if state is not None]
        service = new or old
        if service is not None and (selected == [False] or len(set(selected)) == 2):
            self.queue(service.metadata.key)

    def reconcile(self, key: Key) -> None:
        """Update the slices of Endpoints to match their subsets; delete slices of Endpoints that are not mirrored."""
        endpoints, service = (self.context.find(row, key) for row in (self._row, self._service_row))
        existing = self._slices.of(key)
        if endpoints is None or service is None or service["spec"].get("selector") or not slices.mirrored(endpoints):
            for slice_ in existing:
                self.spend()
                self._slices.delete(slice_)
            return
        plan = slices.plan_mirror(endpoints, existing)
        if plan.skipped and (plan.create or plan.update):
            text = (
                f"A max of {slices.MOST_MIRRORED} addresses can be mirrored to EndpointSlices per Endpoints subset. "
                f"{plan.skipped} addresses were skipped"
            )
            source = "endpoint-slice-mirroring-controller"
            self.context.event(endpoints, "TooManyAddressesToMirror", text, "Warning", source)
        plan.recycle(lambda old: slices.owned(old, endpoints))
        self._slices.carry_out(plan, endpoints)


def _is_ours(metadata: Meta) -> bool:
    return (metadata.labels or {}).get(rules.MANAGED_BY) == rules.MANAGER
