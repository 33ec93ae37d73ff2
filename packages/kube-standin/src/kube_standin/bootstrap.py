"""The initial objects of every server (namespaces, priority classes), and the admission steps that are always on."""

from __future__ import annotations

from typing import Final

from kube_rules import flow_control
from kube_rules.controllers.endpoint_slices import SERVICE_NAME, SKIP_MIRROR
from kube_rules.controllers.volumes import DEFAULT_CLASS, WAIT_FOR_CONSUMER
from kube_rules.foreign_groups import COSCHEDULING_VERSION, FOREIGN_VERSIONS
from kube_rules.json import Json
from kube_rules.taints import NOT_READY, UNREACHABLE
from kube_standin import errors
from kube_standin.admission.pods import tolerates_loss
from kube_standin.admission_chain import AdmissionRequest, Step
from kube_standin.bootstrap_roles import ensure_cluster_roles
from kube_standin.errors import Cause
from kube_standin.flow_control import FlowSchemas
from kube_standin.registry import ObjectRegistry, WriteOptions
from kube_standin.service_addresses import DEFAULT_NAME, DEFAULT_NETWORK, ServiceAddresses

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
IMMORTAL = frozenset(("default", "kube-system", "kube-public"))
_SYSTEM_CLASSES = (
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
)


class NamespaceLifecycle(Step):
    """Refuses objects in missing or terminating namespaces, and the deletion of some namespaces."""

    def mutate(self, request: AdmissionRequest) -> None:
        """Check the namespace before any other step of a create."""
        if request.operation != "CREATE" or not request.kind.namespaced or not request.kind.stored:
            return
        state = request.registry.store.head("namespaces", "", request.namespace)
        if state is None:
            raise errors.not_found("namespaces", "", request.namespace)
        if b'"deletionTimestamp"' not in state.raw:
            return
        if state.decode()["metadata"].get("deletionTimestamp"):
            name = request.namespace
            cause = Cause("NamespaceTerminating", f"namespace {name} is being terminated", "metadata.namespace")
            why = f"unable to create new content in namespace {name} because it is being terminated"
            raise request.refused(why, [cause])

    def validate(self, request: AdmissionRequest) -> None:
        """Protect the namespaces that the cluster needs."""
        if request.operation == "DELETE" and request.kind.resource == "namespaces" and request.name in IMMORTAL:
            raise request.refused("this namespace may not be deleted")


class KeptTolerations(Step):
    """Restores the default tolerations of a pod if an update removes them (recorded 238, 261)."""

    kinds = frozenset(("pods",))

    def mutate(self, request: AdmissionRequest) -> None:
        """Append the missing ones of the two tolerations."""
        if request.operation != "UPDATE" or request.subresource or request.old is None:
            return
        spec = request.new.get("spec", {})
        present = spec.get("tolerations") or []
        lost = [
            toleration
            for toleration in request.old.get("spec", {}).get("tolerations") or []
            if toleration.get("key") in (NOT_READY, UNREACHABLE)
            and toleration.get("effect") == "NoExecute"
            and not any(tolerates_loss(kept, toleration["key"]) for kept in present)
        ]
        if lost:
            spec["tolerations"] = [*present, *lost]


class SystemClasses(Step):
    """Protects the system priority classes from deletion."""

    kinds = frozenset(("priorityclasses.scheduling.k8s.io",))

    def validate(self, request: AdmissionRequest) -> None:
        """Refuse their DELETE."""
        if request.operation == "DELETE" and request.name in {name for name, _, _ in _SYSTEM_CLASSES}:
            raise request.refused("this is a system priority class and cannot be deleted")


def base_steps() -> list[Step]:
    """Return the admission steps of every server, independent of plugins."""
    return [NamespaceLifecycle(), SystemClasses(), KeptTolerations(), ServiceAddresses(), FlowSchemas()]


def ensure_base(registry: ObjectRegistry) -> None:
    """Stage the objects of every cluster; existing ones are not changed."""
    options = WriteOptions()
    namespace = registry.kind("v1", "Namespace")
    for name in NAMESPACES:
        if registry.head(namespace, "", name) is None:
            obj: Json = {"metadata": {"name": name}}
            registry.create_now(namespace, "", registry.decoder.decode(namespace, obj, "Ignore", []), options)
    classes = registry.kind("scheduling.k8s.io/v1", "PriorityClass")
    for name, value, description in reversed(_SYSTEM_CLASSES):
        if registry.head(classes, "", name) is None:
            obj = {"metadata": {"name": name}, "value": value, "description": description}
            registry.create_now(classes, "", registry.decoder.decode(classes, obj, "Ignore", []), options)
    _ensure_flow_control(registry)
    ensure_cluster_roles(registry)


def ensure_default_storage_class(registry: ObjectRegistry) -> None:
    """Create a default StorageClass if there is no StorageClass: claims without a class get a simulated volume."""
    kind = registry.kind("storage.k8s.io/v1", "StorageClass")
    if registry.store.count(kind.storage_key):
        return
    obj: Json = {
        "metadata": {"name": "standard", "annotations": {DEFAULT_CLASS: "true"}},
        "provisioner": "kube-standin.dev/simulated",
        "volumeBindingMode": WAIT_FOR_CONSUMER,
    }
    registry.create_now(kind, "", registry.decoder.decode(kind, obj, "Ignore", []), WriteOptions())


def _ensure_flow_control(registry: ObjectRegistry) -> None:
    """Stage the FlowSchemas and priority levels of every server. They are served, but limit nothing."""
    annotations = {flow_control.AUTO_UPDATE: "true"}
    options = WriteOptions(manager="api-priority-and-fairness-config-producer-v1")
    schemas = registry.kind(flow_control.VERSION, "FlowSchema")
    levels = registry.kind(flow_control.VERSION, "PriorityLevelConfiguration")
    for kind, specs in ((levels, flow_control.PRIORITY_LEVELS), (schemas, flow_control.FLOW_SCHEMAS)):
        for name, spec in specs.items():
            if registry.head(kind, "", name) is not None:
                continue
            obj = {"metadata": {"name": name, "annotations": annotations}, "spec": spec}
            registry.create_now(kind, "", registry.decoder.decode(kind, obj, "Ignore", []), options)


def _ensure_service_network(registry: ObjectRegistry) -> None:
    """Stage the ServiceCIDR of the cluster, unless the release has none."""
    row = registry.kinds.of("networking.k8s.io/v1", "ServiceCIDR")
    if row is not None and registry.head(row, "", DEFAULT_NAME) is None:
        network: Json = {"metadata": {"name": DEFAULT_NAME}, "spec": {"cidrs": [DEFAULT_NETWORK]}}
        registry.create_now(row, "", registry.decoder.decode(row, network, "Ignore", []), WriteOptions())


def ensure_own_objects(registry: ObjectRegistry, host: str, port: int, client_ca: str = "") -> None:
    """Stage the objects that describe this server: its Service, and the accepted client certificates (PEM)."""
    _ensure_own_service(registry, host, port)
    _ensure_authentication_config(registry, client_ca)


def _ensure_own_service(registry: ObjectRegistry, host: str, port: int) -> None:
    """Stage the Service ``default/kubernetes`` with its endpoints, the address of this server.

    The endpoints bypass validation: an address of the loopback interface would be refused (422).
    """
    _ensure_service_network(registry)
    service = registry.kind("v1", "Service")
    if registry.head(service, "default", "kubernetes") is None:
        obj = {
            "metadata": {"name": "kubernetes", "labels": {"component": "apiserver", "provider": "kubernetes"}},
            "spec": {
                "clusterIP": _SERVICE_ADDRESS,
                "ports": [{"name": "https", "port": 443, "targetPort": port}],
            },
        }
        registry.create_now(service, "default", registry.decoder.decode(service, obj, "Ignore", []), WriteOptions())
    address = "127.0.0.1" if host in ("", "0.0.0.0", "localhost") else "::1" if host == "::" else host
    ports = [{"name": "https", "port": port, "protocol": "TCP"}]
    family = "IPv6" if ":" in address else "IPv4"
    ready: Json = {"addresses": [address], "conditions": {"ready": True}}
    for api_version, kind, label, content in (
        ("v1", "Endpoints", _SKIP_MIRROR, {"subsets": [{"addresses": [{"ip": address}], "ports": ports}]}),
        ("discovery.k8s.io/v1", "EndpointSlice", _OF_SERVICE, _slice(family, ready, ports)),
    ):
        row = registry.kind(api_version, kind)
        state = registry.head(row, "default", "kubernetes")
        metadata: Json = {"name": "kubernetes", "namespace": "default", "uid": registry.clock.uid(), "labels": label}
        metadata["creationTimestamp"] = registry.clock.stamp()
        if row.generation:
            metadata["generation"] = 1
        if state is not None:
            before = registry.view(row, state)
            if all(before.get(field) == value for field, value in content.items()):
                continue
            metadata = before["metadata"]
        registry.store.put(row.storage_key, "default", "kubernetes", {"metadata": metadata, **content}, state)


def _ensure_authentication_config(registry: ObjectRegistry, client_ca: str) -> None:
    """Stage the ConfigMap that lists the accepted client certificates for other API servers.

    Entries of clients are kept.
    """
    row, (namespace, name) = registry.kind("v1", "ConfigMap"), _AUTHENTICATION
    data = {"client-ca-file": client_ca} if client_ca else {}
    if registry.head(row, namespace, name) is None:
        obj: Json = {"metadata": {"name": name}, "data": data}
        registry.create_now(row, namespace, registry.decoder.decode(row, obj, "Ignore", []), WriteOptions())
        return

    def change(obj: Json) -> None:
        obj["data"] = {**(obj.get("data") or {}), **data}

    registry.modify_now(row, namespace, name, change, WriteOptions())


_AUTHENTICATION: Final = ("kube-system", "extension-apiserver-authentication")
_SERVICE_ADDRESS: Final = "10.96.0.1"
_SKIP_MIRROR = {SKIP_MIRROR: "true"}
_OF_SERVICE = {SERVICE_NAME: "kubernetes"}


def _slice(family: str, endpoint: Json, ports: list[Json]) -> Json:
    return {"addressType": family, "endpoints": [endpoint], "ports": ports}


def foreign_definition(api_version: str) -> Json | None:
    """Return a definition of the PodGroup of another scheduler's API; None for any other version.

    A snapshot has such PodGroups without their definition (whatif.md 12.5).
    """
    if api_version not in FOREIGN_VERSIONS:
        return None
    group, _, version = api_version.partition("/")
    any_object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": any_object, "status": any_object}}
    served: Json = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    if api_version == COSCHEDULING_VERSION:  # Volcano's has no subresource
        served["subresources"] = {"status": {}}
    names = {"kind": "PodGroup", "listKind": "PodGroupList", "plural": "podgroups", "singular": "podgroup"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"podgroups.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [served]},
    }
