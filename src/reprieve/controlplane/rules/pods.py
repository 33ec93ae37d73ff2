"""Rules of pods and pod templates; order and wording as the API server has them (transcripts 136 to 184,
491 to 498).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from reprieve.api.json import Json
from reprieve.controlplane.rules import containers, names, resources, selectors
from reprieve.controlplane.schema import field_errors as fe
from reprieve.controlplane.schema.field_errors import FieldError

RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION = ("PreemptLowerPriority", "Never")
_POD_LEVEL = frozenset({"cpu", "memory"})


def create(obj: Json) -> Iterator[FieldError]:
    """A pod, metadata apart."""
    yield from spec(obj.get("spec", {}), "spec")


def template(given: Json, path: str, claims: Collection[str] = ()) -> Iterator[FieldError]:
    """The template of a controller: labels, annotations and the spec of its pods.

    `claims` names volumes that the controller adds to each pod; containers may mount them.
    """
    from reprieve.controlplane.rules import metadata

    meta = given.get("metadata", {})
    yield from metadata.label_map(meta.get("labels", {}), f"{path}.labels")
    yield from metadata.annotation_map(meta.get("annotations", {}), f"{path}.annotations")
    yield from spec(given.get("spec", {}), f"{path}.spec", claims)


def spec(given: Json, path: str, claims: Collection[str] = ()) -> Iterator[FieldError]:
    """Everything below `spec`; `claims` as in `template`."""
    volumes = given.get("volumes", ())
    if volumes:
        yield from containers.volumes(volumes, f"{path}.volumes")
    volume_names = {*claims, *(volume.get("name", "") for volume in volumes)}
    yield from containers.containers(given, path, volume_names)
    if "resources" in given:
        yield from _pod_level(given["resources"], f"{path}.resources")
    if "resourceClaims" in given:
        yield from _claims(given["resourceClaims"], f"{path}.resourceClaims")
    yield from _enumerations(given, path)
    if "nodeSelector" in given:
        yield from _labels(given["nodeSelector"], f"{path}.nodeSelector")
    if "affinity" in given:
        yield from selectors.affinity(given["affinity"], f"{path}.affinity")
    for index, gate in enumerate(given.get("readinessGates", ())):
        yield from fe.malformed(
            f"{path}.readinessGates[{index}].conditionType", gate.get("conditionType", ""), names.qualified
        )
    if "schedulingGates" in given:
        yield from scheduling_gates(given["schedulingGates"], f"{path}.schedulingGates")
    if "topologySpreadConstraints" in given:
        yield from selectors.topology_spread(given["topologySpreadConstraints"], f"{path}.topologySpreadConstraints")
    yield from _names(given, path)
    if "tolerations" in given:
        yield from selectors.tolerations(given["tolerations"], f"{path}.tolerations")
    yield from _scheduling(given, path)


def _labels(given: Json, path: str) -> Iterator[FieldError]:
    for key, value in given.items():
        yield from fe.malformed(path, key, names.qualified)
        yield from fe.malformed(path, value, names.label_value)


def _pod_level(given: Json, path: str) -> Iterator[FieldError]:
    for part in ("limits", "requests"):
        for name in given.get(part, ()):
            if name not in _POD_LEVEL and not name.startswith("hugepages-"):
                yield fe.not_supported(f"{path}.{part}[{name}]", name, ("cpu", "memory", "hugepages-"))
    yield from resources.requirements(given, path)


def _claims(given: list[Json], path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, claim in enumerate(given):
        place, name = f"{path}[{index}]", claim.get("name", "")
        yield from fe.wanted(f"{place}.name", name, names.dns_label)
        if name in seen:
            yield fe.duplicate(f"{place}.name", name)
        seen.add(name)
        sources = [s for s in ("resourceClaimName", "resourceClaimTemplateName") if s in claim]
        if len(sources) != 1:
            said = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            if sources:
                said = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            yield fe.invalid(place, claim, said)


def _enumerations(given: Json, path: str) -> Iterator[FieldError]:
    for name, allowed in (("restartPolicy", RESTART_POLICIES), ("dnsPolicy", _DNS_POLICIES)):
        value = given.get(name, "")
        yield from fe.one_of(f"{path}.{name}", value, allowed)
    grace = given.get("terminationGracePeriodSeconds")
    if grace is None:
        yield fe.required(f"{path}.terminationGracePeriodSeconds")


def scheduling_gates(given: list[Json], path: str) -> Iterator[FieldError]:
    """What holds a pod back from scheduling."""
    seen: set[str] = set()
    for index, gate in enumerate(given):
        name = gate.get("name", "")
        yield from fe.malformed(f"{path}[{index}]", name, names.qualified)
        if name in seen:
            yield fe.duplicate(f"{path}[{index}]", name)
        seen.add(name)


def _names(given: Json, path: str) -> Iterator[FieldError]:
    for name in ("serviceAccountName", "nodeName"):
        value = given.get(name)
        if value:
            yield from fe.malformed(f"{path}.{name}", value, names.subdomain)
    deadline = given.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= 2**31 - 1:
        yield fe.invalid(f"{path}.activeDeadlineSeconds", deadline, "must be between 1 and 2147483647, inclusive")
    for name in ("hostname", "subdomain"):
        value = given.get(name)
        if value:
            yield from fe.malformed(f"{path}.{name}", value, names.dns_label)


def _scheduling(given: Json, path: str) -> Iterator[FieldError]:
    for name in ("priorityClassName", "runtimeClassName"):
        value = given.get(name)
        if value:
            yield from fe.malformed(f"{path}.{name}", value, names.subdomain)
    policy = given.get("preemptionPolicy", "Never")
    if policy not in _PREEMPTION:
        yield fe.not_supported(f"{path}.preemptionPolicy", policy, _PREEMPTION)
    for name, text in given.get("overhead", {}).items():
        yield from resources.amount(name, text, f"{path}.overhead[{name}]")
    if given.get("schedulingGates") and given.get("nodeName"):
        said = "cannot be set until all schedulingGates have been cleared"
        yield fe.forbidden(f"{path}.nodeName", said)
    group = given.get("schedulingGroup")
    if group is not None:
        name = group.get("podGroupName")
        place = f"{path}.schedulingGroup.podGroupName"
        if name is None:
            yield fe.invalid(place, None, "must specify one of: `podGroupName`")
        else:
            yield from fe.malformed(place, name, names.subdomain)
