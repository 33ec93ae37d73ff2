"""Rules of pods and pod templates, in the API server's order and wording (transcripts 136 to 184, 491 to 498)."""

from __future__ import annotations

from collections.abc import Collection

from kube_rules import field_errors as fe
from kube_rules.admission import amounts
from kube_rules.json import Json
from kube_rules.requests import is_pod_level_resource
from kube_rules.validation import containers, metadata, names, network, resources, security, selectors
from kube_rules.validation import rows as r
from kube_rules.validation.volumes import volumes as check_volumes

RESTART_POLICIES = ("Always", "OnFailure", "Never")
PREEMPTION = ("PreemptLowerPriority", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")


def create(obj: Json, _: str) -> r.Found:
    """Check a new pod without its metadata."""
    pod = obj.get("spec", {})
    yield from spec(pod, "spec")
    if pod.get("ephemeralContainers"):
        yield fe.forbidden("spec.ephemeralContainers", "cannot be set on create")


def template(pod: Json, path: str, claims: Collection[str] = ()) -> r.Found:
    """Check the template of a controller: labels, annotations and the spec of its pods.

    `claims` names volumes that the controller adds to each pod; containers may mount them.
    """
    meta = pod.get("metadata", {})
    yield from metadata.label_map(meta.get("labels", {}), f"{path}.labels")
    yield from metadata.annotation_map(meta.get("annotations", {}), f"{path}.annotations")
    yield from spec(pod.get("spec", {}), f"{path}.spec", claims)


def spec(pod: Json, path: str, claims: Collection[str] = ()) -> r.Found:
    """Check everything below `spec`; `claims` as in `template`."""
    yield from check_volumes(pod, path)
    volumes = {*claims, *(volume.get("name", "") for volume in pod.get("volumes", ()))}
    yield from containers.containers(pod, path, volumes)
    yield from fields(pod, path)


def _pod_level(needs: Json, path: str) -> r.Found:
    for part in ("limits", "requests"):
        for name in needs.get(part, ()):
            if not is_pod_level_resource(name):
                yield fe.not_supported(f"{path}.{part}[{name}]", name, ("cpu", "hugepages-", "memory"))
    if needs.get("claims"):
        yield fe.forbidden(f"{path}.claims", "claims may not be set for Resources at pod-level")


def _whole(pod: Json, path: str) -> r.Found:
    """Check that pod-level resources are sufficient for the containers (KEP-2837)."""
    whole = pod["resources"]
    yield from containers.known_claims(whole, f"{path}.resources", containers.claims_of(pod))
    requests, limits = whole.get("requests", {}), whole.get("limits", {})
    if requests:
        parts = amounts.of_pod({key: value for key, value in pod.items() if key in _CONTAINERS}, "requests")
        for name in sorted(requests):
            if name in parts and resources.nano(requests[name]) < parts[name].nano:
                detail = f"must be greater than or equal to aggregate container requests of {parts[name].text}"
                yield fe.invalid(f"{path}.resources.requests[{name}]", requests[name], detail)
    for part in _CONTAINERS:
        for index, container in enumerate(pod.get(part, ())):
            own = r.reach(container, "resources.limits")
            for name in sorted(limits):
                if name in own and resources.nano(own[name]) > resources.nano(limits[name]):
                    detail = f"must be less than or equal to pod limits of {limits[name]}"
                    yield fe.invalid(f"{path}.resources.{part}[{index}][{name}].limits", own[name], detail)


_CONTAINERS = ("containers", "initContainers")


def _shared_processes(pod: Json, path: str) -> r.Found:
    if pod.get("shareProcessNamespace") and pod.get("hostPID"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield fe.invalid(f"{path}.securityContext.shareProcessNamespace", True, detail)


def _own_users(pod: Json, path: str) -> r.Found:
    if pod.get("hostUsers") is False:
        for name in ("hostNetwork", "hostPID", "hostIPC"):
            if pod.get(name):
                yield fe.forbidden(f"{path}.{name}", "when `hostUsers` is false")


def _claim_source(claim: Json, path: str) -> r.Found:
    sources = [name for name in ("resourceClaimName", "resourceClaimTemplateName") if name in claim]
    none = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
    several = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
    yield from r.exactly_one(path, sources, none, several, claim)
    for name in sources:
        yield from fe.malformed(f"{path}.{name}", claim[name], names.subdomain)


def _gate(gate: Json, path: str) -> r.Found:
    return fe.malformed(path, gate.get("name", ""), names.qualified)


def _overhead(amounts: Json, path: str) -> r.Found:
    for name, text in amounts.items():
        yield from resources.amount(name, text, f"{path}[{name}]")


def _gated(pod: Json, path: str) -> r.Found:
    if pod.get("schedulingGates") and pod.get("nodeName"):
        yield fe.forbidden(f"{path}.nodeName", "cannot be set until all schedulingGates have been cleared")


def _group(group: Json, path: str) -> r.Found:
    name = group.get("podGroupName")
    if name is None:
        yield fe.invalid(f"{path}.podGroupName", None, "must specify one of: `podGroupName`")
    else:
        yield from fe.malformed(f"{path}.podGroupName", name, names.subdomain)


POD_LEVEL = r.all_of(r.given("resources", resources.requirements, _pod_level), r.OptionalField("resources", _whole))
"""Check the pod-level resources in the spec of a pod."""

fields = r.all_of(
    POD_LEVEL,
    r.listed("resourceClaims", r.wanted("name", names.dns_label), r.Unique("name"), _claim_source),
    r.choice("restartPolicy", RESTART_POLICIES),
    r.choice("dnsPolicy", _DNS_POLICIES),
    r.given("securityContext", security.of_pod),
    r.OptionalField("shareProcessNamespace", _shared_processes),
    r.OptionalField("hostUsers", _own_users),
    r.given("nodeSelector", metadata.label_map),
    r.given("affinity", selectors.affinity),
    r.listed("readinessGates", r.formed("conditionType", names.qualified, "always")),
    r.listed("schedulingGates", _gate, r.Unique("name", place="")),
    selectors.topology_spread,
    r.formed("serviceAccountName", names.subdomain),
    r.formed("nodeName", names.subdomain),
    r.within(1, 2**31 - 1, "activeDeadlineSeconds"),
    r.OptionalField("dnsPolicy", network.resolution),
    network.host_aliases,
    r.formed("hostname", names.dns_label),
    r.formed("subdomain", names.dns_label),
    selectors.tolerations,
    r.formed("priorityClassName", names.subdomain),
    r.formed("runtimeClassName", names.subdomain),
    r.enum("preemptionPolicy", PREEMPTION, missing=None),
    r.given("overhead", _overhead),
    r.OptionalField("schedulingGates", _gated),
    r.given("schedulingGroup", _group),
)
