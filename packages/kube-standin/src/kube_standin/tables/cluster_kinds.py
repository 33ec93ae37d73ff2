"""Columns of kinds that controllers and drivers write: revisions, endpoints, role bindings, CSI, templates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kube_rules.admission.amounts import Amounts, added, amounts
from kube_rules.json import Json
from kube_standin.tables.columns import (
    AGE,
    NAME,
    NONE,
    UNSET,
    Column,
    labels,
    of,
    of_containers,
    path,
    size,
    text,
    wide,
)

_MOST_SHOWN = 3


def _controller(obj: Json) -> str:
    """Return `KIND.GROUP/NAME` of the controlling owner."""
    for owner in obj.get("metadata", {}).get("ownerReferences", ()):
        if owner.get("controller"):
            group = str(owner.get("apiVersion", "")).rpartition("/")[0]
            kind = str(owner.get("kind", "")).lower()
            return f"{kind}{'.' + group if group else ''}/{owner.get('name', '')}"
    return NONE


def _measured(usages: Callable[[Any], list[Json]]) -> tuple[Column, ...]:
    """Return the columns of metrics, as in metrics-server; the usages of an object are summed."""

    def total(name: str) -> Callable[[Any], str]:
        def cell(obj: Any) -> str:
            sums: Amounts = {}
            for usage in usages(obj):
                sums = added(sums, amounts({name: usage.get(name, "0")}))
            return sums[name].text if name in sums else "0"

        return cell

    parts = (Column(name, f"{name} resource used", of(total(name))) for name in ("cpu", "memory"))
    return (NAME, *parts, Column("Window", "The time window of the metrics", path("window")))


_FLOW = "flowcontrol.v1.FlowSchemaSpec#"
_LEVEL = "flowcontrol.v1."
_QUEUING = "spec.limited.limitResponse.queuing"


def _missing_level(status: Any) -> str:
    """Return whether the priority level of a FlowSchema is missing, by its condition."""
    for condition in (status or {}).get("conditions", ()):
        if condition.get("type") == "Dangling":
            return str(condition.get("status"))
    return "?"


def _health(component: Any) -> str:
    """Return whether a component is healthy, by its only condition."""
    return "Healthy" if component["conditions"][0]["status"] == "True" else "Unhealthy"


def _host(service: Any) -> str:
    """Return the Service behind an APIService."""
    return f"{service.get('namespace', '')}/{service.get('name', '')}" if service else "Local"


def _available(status: Any) -> str:
    """Return whether an APIService is available, with the reason if it is not."""
    for condition in (status or {}).get("conditions", ()):
        if condition.get("type") == "Available":
            reason = condition.get("reason")
            return (
                str(condition["status"])
                if condition["status"] == "True" or not reason
                else f"{condition['status']} ({reason})"
            )
    return "Unknown"


def _first(shown: list[str], more: int) -> str:
    """Return the first of several values, and the number of further ones."""
    return ",".join(shown) + (f" + {more} more..." if more > 0 else "") if shown else NONE


def _reached(subsets: Any) -> str:
    """Return the addresses with ports in the subsets of an Endpoints object."""
    every: list[str] = []
    for subset in subsets or ():
        addresses = [address.get("ip", "") for address in subset.get("addresses", ())]
        ports = subset.get("ports", ())
        if not ports:
            every += addresses
        every += [
            f"[{ip}]:{port.get('port', 0)}" if ":" in ip else f"{ip}:{port.get('port', 0)}"
            for port in ports
            for ip in addresses
        ]
    return _first(every[:_MOST_SHOWN], len(every) - _MOST_SHOWN)


def _slice_ports(ports: Any) -> str:
    if not ports:
        return UNSET
    every = [str(port["port"]) if "port" in port else "*" for port in ports]
    return _first(every[:_MOST_SHOWN], len(every) - _MOST_SHOWN)


def _slice_endpoints(endpoints: Any) -> str:
    if not endpoints:
        return UNSET
    every = [address for endpoint in endpoints for address in endpoint.get("addresses", ())]
    return _first(every[:_MOST_SHOWN], len(every) - _MOST_SHOWN)


def _role(reference: Any) -> str:
    ref = reference or {}
    return f"{ref.get('kind', '')}/{ref.get('name', '')}"


def _subjects(kind: str) -> Any:
    def shown(subjects: Any) -> str:
        matching = [subject for subject in subjects or () if subject.get("kind") == kind]
        if kind == "ServiceAccount":
            return ", ".join(f"{subject.get('namespace', '')}/{subject.get('name', '')}" for subject in matching)
        return ", ".join(subject.get("name", "") for subject in matching)

    return of(shown, "subjects")


def _param_kind(kind: Any) -> str:
    return f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind else UNSET


def _param_ref(ref: Any) -> str:
    """Return the objects with the parameters of a binding."""
    if not ref:
        return UNSET
    if ref.get("name"):
        return f"{ref.get('namespace') or '*'}/{ref['name']}"
    return str((ref.get("selector") or {}).get("matchLabels") or "*")


def _bindings(kind: str) -> tuple[Column, ...]:
    word = kind[:1].lower() + kind[1:]
    return (
        NAME,
        Column("Role", f"rbac.v1.{kind}#roleRef", of(_role, "roleRef")),
        AGE,
        wide("Users", f"Users in the {word}", _subjects("User")),
        wide("Groups", f"Groups in the {word}", _subjects("Group")),
        wide("ServiceAccounts", f"ServiceAccounts in the {word}", _subjects("ServiceAccount")),
    )


_CONTAINERS = "template.spec.containers"
_DRIVER = "storage.v1.CSIDriverSpec#"
_WEBHOOKS = (
    NAME,
    Column(
        "Webhooks",
        "Webhooks indicates the number of webhooks registered in this configuration",
        size("webhooks"),
        "integer",
    ),
    AGE,
)
_VALIDATIONS = Column(
    "Validations", "How many validations the policy has",
    size("spec.validations"), "integer",
)  # fmt: skip
_MUTATIONS = Column(
    "Mutations", "How many mutations the policy has",
    size("spec.mutations"), "integer",
)  # fmt: skip
_PARAM_KIND = Column("ParamKind", "The kind of its parameters",
                     of(_param_kind, "spec.paramKind"))  # fmt: skip
_POLICY_BINDING = (
    NAME,
    Column("PolicyName", "The policy that is bound",
           of(lambda name: name or "", "spec.policyName")),
    Column("ParamRef", "The objects with the parameters",
           of(_param_ref, "spec.paramRef")),
    AGE,
)  # fmt: skip
COLUMNS: dict[tuple[str, str], tuple[Column, ...]] = {
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"): (NAME, _VALIDATIONS, _PARAM_KIND, AGE),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"): (NAME, _MUTATIONS, _PARAM_KIND, AGE),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"): _POLICY_BINDING,
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"): _POLICY_BINDING,
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): _WEBHOOKS,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): _WEBHOOKS,
    ("", "ServiceAccount"): (NAME, AGE),
    ("", "Endpoints"): (NAME, Column("Endpoints", "core.v1.Endpoints#subsets", of(_reached, "subsets")), AGE),
    ("", "PodTemplate"): (
        NAME,
        Column("Containers", "Names of each container in the template.", of_containers("name", _CONTAINERS)),
        Column("Images", "Images referenced by each container in the template.", of_containers("image", _CONTAINERS)),
        Column("Pod Labels", "The labels for the pod template.", of(labels, "template.metadata.labels")),
    ),
    ("apps", "ControllerRevision"): (
        NAME,
        Column("Controller", "Controller of the object", of(_controller)),
        Column("Revision", "apps.v1.ControllerRevision#revision", path("revision", 0)),
        AGE,
    ),
    ("discovery.k8s.io", "EndpointSlice"): (
        NAME,
        Column("AddressType", "discovery.v1.EndpointSlice#addressType", path("addressType")),
        Column("Ports", "discovery.v1.EndpointSlice#ports", of(_slice_ports, "ports")),
        Column("Endpoints", "discovery.v1.EndpointSlice#endpoints", of(_slice_endpoints, "endpoints")),
        AGE,
    ),
    ("rbac.authorization.k8s.io", "RoleBinding"): _bindings("RoleBinding"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _bindings("ClusterRoleBinding"),
    ("storage.k8s.io", "CSIDriver"): (
        NAME,
        Column("AttachRequired", _DRIVER + "attachRequired", path("spec.attachRequired", True), "boolean"),
        Column("PodInfoOnMount", _DRIVER + "podInfoOnMount", path("spec.podInfoOnMount", False), "boolean"),
        Column("StorageCapacity", _DRIVER + "storageCapacity", path("spec.storageCapacity", False), "boolean"),
        Column(
            "TokenRequests",
            _DRIVER + "tokenRequests",
            of(
                lambda requests: ",".join(request.get("audience", "") for request in requests or ()) or UNSET,
                "spec.tokenRequests",
            ),
        ),
        Column("RequiresRepublish", _DRIVER + "requiresRepublish", path("spec.requiresRepublish", False), "boolean"),
        Column(
            "Modes",
            _DRIVER + "volumeLifecycleModes",
            of(lambda modes: ",".join(modes or ()) or NONE, "spec.volumeLifecycleModes"),
        ),
        AGE,
    ),
    ("storage.k8s.io", "CSINode"): (
        NAME,
        Column(
            "Drivers",
            "Drivers indicates the number of CSI drivers registered on the node",
            size("spec.drivers"),
            "integer",
        ),
        AGE,
    ),
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"): (
        NAME,
        Column("PriorityLevel", _FLOW + "priorityLevelConfiguration", path("spec.priorityLevelConfiguration.name")),
        Column("MatchingPrecedence", _FLOW + "matchingPrecedence", path("spec.matchingPrecedence", 0), "integer"),
        Column("DistinguisherMethod", _FLOW + "distinguisherMethod", text("spec.distinguisherMethod.type")),
        AGE,
        Column(
            "MissingPL", "references a broken or non-existent PriorityLevelConfiguration", of(_missing_level, "status")
        ),
    ),
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"): (
        NAME,
        Column("Type", _LEVEL + "PriorityLevelConfigurationSpec#type", path("spec.type")),
        Column(
            "NominalConcurrencyShares",
            _LEVEL + "LimitedPriorityLevelConfiguration#nominalConcurrencyShares",
            text("spec.limited.nominalConcurrencyShares"),
        ),
        *(
            Column(f"{name[0].upper()}{name[1:]}", f"{_LEVEL}QueuingConfiguration#{name}", text(f"{_QUEUING}.{name}"))
            for name in ("queues", "handSize", "queueLengthLimit")
        ),
        AGE,
    ),
    ("", "ComponentStatus"): (
        NAME,
        Column("Status", "Status of the component conditions", of(_health)),
        Column(
            "Message", "Message of the component conditions", of(lambda obj: obj["conditions"][0].get("message", ""))
        ),
        Column("Error", "Error of the component conditions", of(lambda obj: obj["conditions"][0].get("error", ""))),
    ),
    ("metrics.k8s.io", "NodeMetrics"): _measured(lambda obj: [obj.get("usage") or {}]),
    ("metrics.k8s.io", "PodMetrics"): _measured(
        lambda obj: [container["usage"] for container in obj.get("containers") or ()]
    ),
    ("apiregistration.k8s.io", "APIService"): (
        NAME,
        Column("Service", "The reference to the service that hosts this API endpoint.", of(_host, "spec.service")),
        Column("Available", "Whether this service is available.", of(_available, "status")),
        AGE,
    ),
    ("storage.k8s.io", "VolumeAttributesClass"): (
        NAME,
        Column("DriverName", "storage.v1.VolumeAttributesClass#driverName", path("driverName")),
        AGE,
    ),
}
"""By (API group, kind); kinds in no table show their name and creation time."""
