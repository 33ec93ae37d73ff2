"""Rules of pods and pod templates; order and wording as the API server has them (transcripts 136 to 184,
491 to 498).
"""

from __future__ import annotations

from collections.abc import Collection

from reprieve.api.json import Json
from reprieve.controlplane.rules import containers, metadata, names, resources, selectors
from reprieve.controlplane.rules import rows as r
from reprieve.controlplane.schema import field_errors as fe

RESTART_POLICIES = ("Always", "OnFailure", "Never")
PREEMPTION = ("PreemptLowerPriority", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_POD_LEVEL = frozenset({"cpu", "memory"})


def create(obj: Json, _: str) -> r.Found:
    """A pod, metadata apart."""
    pod = obj.get("spec", {})
    yield from spec(pod, "spec")
    if pod.get("ephemeralContainers"):
        yield fe.forbidden("spec.ephemeralContainers", "cannot be set on create")


def template(pod: Json, path: str, claims: Collection[str] = ()) -> r.Found:
    """The template of a controller: labels, annotations and the spec of its pods.

    `claims` names volumes that the controller adds to each pod; containers may mount them.
    """
    meta = pod.get("metadata", {})
    yield from metadata.label_map(meta.get("labels", {}), f"{path}.labels")
    yield from metadata.annotation_map(meta.get("annotations", {}), f"{path}.annotations")
    yield from spec(pod.get("spec", {}), f"{path}.spec", claims)


def spec(pod: Json, path: str, claims: Collection[str] = ()) -> r.Found:
    """Everything below `spec`; `claims` as in `template`."""
    yield from containers.volumes(pod, path)
    volumes = {*claims, *(volume.get("name", "") for volume in pod.get("volumes", ()))}
    yield from containers.containers(pod, path, volumes)
    yield from _FIELDS(pod, path)


def _pod_level(needs: Json, path: str) -> r.Found:
    for part in ("limits", "requests"):
        for name in needs.get(part, ()):
            if name not in _POD_LEVEL and not name.startswith("hugepages-"):
                yield fe.not_supported(f"{path}.{part}[{name}]", name, ("cpu", "memory", "hugepages-"))


def _claim_source(claim: Json, path: str) -> r.Found:
    sources = [name for name in ("resourceClaimName", "resourceClaimTemplateName") if name in claim]
    if len(sources) != 1:
        detail = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
        if sources:
            detail = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
        yield fe.invalid(path, claim, detail)


def _grace(pod: Json, path: str) -> r.Found:
    if pod.get("terminationGracePeriodSeconds") is None:
        yield fe.required(f"{path}.terminationGracePeriodSeconds")


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


_FIELDS = r.all_of(
    r.given("resources", _pod_level, resources.requirements),
    r.listed("resourceClaims", r.wanted("name", names.dns_label), r.Unique("name"), _claim_source),
    r.choice("restartPolicy", RESTART_POLICIES),
    r.choice("dnsPolicy", _DNS_POLICIES),
    _grace,
    r.given("nodeSelector", metadata.label_map),
    r.given("affinity", selectors.affinity),
    r.listed("readinessGates", r.formed("conditionType", names.qualified, "always")),
    r.listed("schedulingGates", _gate, r.Unique("name", place="")),
    selectors.topology_spread,
    r.formed("serviceAccountName", names.subdomain),
    r.formed("nodeName", names.subdomain),
    r.within(1, 2**31 - 1, "activeDeadlineSeconds"),
    r.formed("hostname", names.dns_label),
    r.formed("subdomain", names.dns_label),
    selectors.tolerations,
    r.formed("priorityClassName", names.subdomain),
    r.formed("runtimeClassName", names.subdomain),
    r.enum("preemptionPolicy", PREEMPTION, missing=None),
    r.given("overhead", _overhead),
    _gated,
    r.given("schedulingGroup", _group),
)
