"""Rules of containers, their ports, environment, mounts and probes."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

from kube_rules import field_errors as fe
from kube_rules.errors import excerpt
from kube_rules.json import Json
from kube_rules.validation import names, resources, security
from kube_rules.validation import rows as r

PROTOCOLS = ("SCTP", "TCP", "UDP")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_SECONDS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")


def port_or_name(name: str) -> r.Check:
    """Return the check of a port number or name."""
    number, word = r.within(1, 65535, name, missing=0), r.formed(name, names.port_name, "set")
    return lambda holder, path: (word if isinstance(holder.get(name), str) else number)(holder, path)


def _handler(handler: Json, place: str) -> r.Found:
    handlers = [name for name in _HANDLERS if name in handler]
    if not handlers:
        yield fe.required(place, "must specify a handler type")
    for index, name in enumerate(handlers):
        if index:
            yield fe.forbidden(f"{place}.{name}", "may not specify more than 1 handler type")
        elif name in _HANDLER_FIELDS:
            yield from _HANDLER_FIELDS[name](handler, place)


_HANDLER_FIELDS = {
    "exec": r.given("exec", r.required("command")),
    "httpGet": r.given("httpGet", port_or_name("port")),
    "tcpSocket": r.given("tcpSocket", port_or_name("port")),
}
_PROBE = r.all_of(_handler, r.at_least(0, *_SECONDS))


def _one_success(probe: Json, place: str) -> r.Found:
    if probe.get("successThreshold", 1) != 1:
        yield fe.invalid(f"{place}.successThreshold", probe["successThreshold"], "must be 1")


_NO_SOURCE = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
_NO_VARIABLES = "must specify one of: `configMapRef` or `secretRef`"
_SEVERAL = "may not have more than one field specified at a time"


def _value_source(variable: Json, place: str) -> r.Found:
    source = variable.get("valueFrom")
    if source is None:
        return
    yield from r.exactly_one(f"{place}.valueFrom", source, _NO_SOURCE, _SEVERAL)
    if variable.get("value"):
        yield fe.invalid(f"{place}.valueFrom", "", "may not be specified when `value` is not empty")


_CONVERTED_FIELDS = frozenset({"spec.host", "spec.restartPolicy", "spec.schedulerName", "status.phase"})
"""Fields of a pod that selectors support but variables cannot show."""
_SHOWN_FIELDS = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
    "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
_SHOWN_MAP = re.compile(r"metadata\.(labels|annotations)\['(.*)'\]", re.DOTALL)
_SHOWN_RESOURCES = tuple(
    f"{part}.{name}" for part in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory")
)


def _shown_field(source: Json, place: str) -> r.Found:
    """Check that a variable shows one of a few fields, or a label or annotation by its key."""
    path = source.get("fieldPath", "")
    subscript = _SHOWN_MAP.fullmatch(path)
    if not path:
        yield fe.required(f"{place}.fieldPath")
    elif subscript:
        for message in names.qualified(subscript[2].lower() if subscript[1] == "annotations" else subscript[2]):
            yield fe.invalid(f"{place}.fieldPath", subscript[2], message)
    elif path in _CONVERTED_FIELDS or path in ("metadata.labels", "metadata.annotations"):
        yield fe.not_supported(f"{place}.fieldPath", path, _SHOWN_FIELDS)
    elif path not in _SHOWN_FIELDS:
        detail = f"error converting fieldPath: field label not supported: {path}"
        yield fe.invalid(f"{place}.fieldPath", path, detail)


def _shown_resource(source: Json, place: str) -> r.Found:
    name = source.get("resource", "")
    if not name:
        yield fe.required(f"{place}.resource")
    elif name not in _SHOWN_RESOURCES and not name.partition(".")[2].startswith("hugepages-"):
        yield fe.not_supported(f"{place}.resource", name, _SHOWN_RESOURCES)


def _all_variables(source: Json, place: str) -> r.Found:
    """Check a source of variables: one ConfigMap or Secret. An error about their number names the list."""
    sources = [name for name in ("configMapRef", "secretRef") if name in source]
    yield from r.exactly_one(place.rpartition("[")[0], sources, _NO_VARIABLES, _SEVERAL)
    for name in sources:
        yield from fe.wanted(f"{place}.{name}.name", source[name].get("name", ""), names.subdomain)


def _image(container: Json, place: str) -> r.Found:
    image = container.get("image", "")
    if not image:
        return (fe.required(f"{place}.image"),)
    if image != image.strip():
        return (fe.invalid(f"{place}.image", image, "must not have leading or trailing whitespace"),)
    return ()


def _lifecycle(hooks: Json, place: str) -> r.Found:
    for hook, handler in hooks.items():
        if isinstance(handler, dict):
            yield from _handler(handler, f"{place}.{hook}")


_BEFORE_MOUNTS = r.all_of(
    _image,
    r.enum("restartPolicy", ("Always", "OnFailure", "Never"), missing=None),
    r.choice("terminationMessagePolicy", ("File", "FallbackToLogsOnError")),
    r.listed(
        "ports",
        r.formed("name", names.port_name),
        r.Unique("name", empty=False),
        r.required("containerPort"),
        r.within(1, 65535, "containerPort", optional=True),
        r.within(1, 65535, "hostPort", optional=True),
        r.choice("protocol", PROTOCOLS),
    ),
    r.listed(
        "env",
        r.wanted("name", names.env_name),
        _value_source,
        r.given(
            "valueFrom",
            r.given("configMapKeyRef", r.required("key")),
            r.given("secretKeyRef", r.required("key")),
            r.given("fieldRef", _shown_field),
            r.given("resourceFieldRef", _shown_resource),
        ),
    ),
    r.listed("envFrom", _all_variables),
)


def _resizing(container: Json, place: str) -> r.Found:
    """Check the resize policies: one for each resource. Errors of values refer to the list."""
    seen: set[str] = set()
    path = f"{place}.resizePolicy"
    for index, policy in enumerate(container["resizePolicy"]):
        name, restart = policy.get("resourceName", ""), policy.get("restartPolicy", "")
        if name in seen:
            yield fe.duplicate(f"{path}[{index}]", name)
        seen.add(name)
        yield from fe.one_of(path, name, ("cpu", "memory"))
        yield from fe.one_of(path, restart, _RESTARTS)


_RESTARTS = ("NotRequired", "RestartContainer")
_AFTER_MOUNTS = r.all_of(
    r.choice("imagePullPolicy", ("Always", "IfNotPresent", "Never")),
    r.given("resources", resources.requirements),
    r.OptionalField("resizePolicy", _resizing),
    r.given("securityContext", security.of_container),
    r.given("lifecycle", _lifecycle),
    r.given("livenessProbe", _PROBE, _one_success),
    r.given("readinessProbe", _PROBE),
    r.given("startupProbe", _PROBE, _one_success),
)


def containers(spec: Json, path: str, volumes: Collection[str]) -> r.Found:
    """Check the containers and init containers of a pod: at least one, unique names, mounts among `volumes`."""
    if not spec.get("containers"):
        yield fe.required(f"{path}.containers")
    seen: set[str] = set()
    claims = claims_of(spec)
    for part in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(part, ())):
            place, name = f"{path}.{part}[{index}]", container.get("name", "")
            yield from fe.wanted(f"{place}.name", name, names.dns_label)
            if name in seen:
                yield fe.duplicate(f"{place}.name", name)
            elif name:
                seen.add(name)
            yield from _BEFORE_MOUNTS(container, place)
            if "volumeMounts" in container:
                yield from _mounts(container["volumeMounts"], f"{place}.volumeMounts", volumes)
            if "volumeDevices" in container:
                for at, device in enumerate(container["volumeDevices"]):
                    if device.get("name", "") not in volumes:
                        yield fe.not_found(f"{place}.volumeDevices[{at}].name", device.get("name", ""))
            yield from _AFTER_MOUNTS(container, place)
            if "claims" in container.get("resources", ()):
                yield from known_claims(container["resources"], f"{place}.resources", claims)
            if "lifecycle" in container:
                yield from _sleeps(container["lifecycle"], f"{place}.lifecycle", spec)
            if part == "initContainers" and container.get("restartPolicy") != "Always":
                for probe in ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle"):
                    if probe in container:
                        detail = "may not be set for init containers without restartPolicy=Always"
                        yield fe.forbidden(f"{place}.{probe}", detail)
    yield from _host_ports(spec, path)


def ephemeral(containers: Sequence[Json], path: str, taken_names: Collection[str], volumes: Collection[str]) -> r.Found:
    """Check the ephemeral containers of a pod; `taken_names` are its other containers, `volumes` are mountable."""
    seen = set(taken_names)
    for index, container in enumerate(containers):
        place, name = f"{path}[{index}]", container.get("name", "")
        yield from fe.wanted(f"{place}.name", name, names.dns_label)
        if name in seen:
            yield fe.duplicate(f"{place}.name", name)
        seen.add(name)
        yield from _BEFORE_MOUNTS(container, place)
        yield from _mounts(container.get("volumeMounts", []), f"{place}.volumeMounts", volumes)
        yield from _AFTER_MOUNTS(container, place)


class ClaimNames(NamedTuple):
    """The device claims of a pod: their names, and their list in texts; a long list is truncated."""

    names: frozenset[str]
    listing: str


def claims_of(spec: Json) -> ClaimNames:
    """Return the device claims of a pod."""
    names = sorted(claim.get("name", "") for claim in spec.get("resourceClaims", ()))
    return ClaimNames(frozenset(names), excerpt(", ".join(names), _LONGEST_LISTING))


_LONGEST_LISTING = 4096


def known_claims(needs: Json, path: str, claims: ClaimNames) -> r.Found:
    """Check that the device claims of a container are claims of its pod."""
    for index, claim in enumerate(needs.get("claims", ())):
        name = claim.get("name", "")
        if name and name not in claims.names:
            listing = f": {claims.listing}" if claims.names else " which is empty"
            detail = f"must be one of the names in pod.spec.resourceClaims{listing}"
            yield fe.not_found(f"{path}.claims[{index}]", name, detail)


def _sleeps(hooks: Json, path: str, spec: Json) -> r.Found:
    """Check that a hook does not sleep longer than the grace period of the pod."""
    grace = spec.get("terminationGracePeriodSeconds")
    for hook, handler in hooks.items():
        seconds = handler["sleep"].get("seconds", 0) if isinstance(handler, dict) and "sleep" in handler else 0
        if grace is not None and not 0 <= seconds <= max(grace, 0):
            detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
            yield fe.invalid(f"{path}.{hook}.sleep", seconds, detail)


def _host_ports(spec: Json, path: str) -> r.Found:
    """Check that host ports are unique in the pod; with the node's network they equal the container ports."""
    used: set[tuple[str, str, int]] = set()
    for index, container in enumerate(spec.get("containers", ())):
        if "ports" not in container:
            continue
        for at, port in enumerate(container["ports"]):
            number = port.get("hostPort", 0)
            place = f"{path}.containers[{index}].ports[{at}].hostPort"
            if spec.get("hostNetwork") and number != port.get("containerPort", 0):
                yield fe.invalid(place, number, "must match `containerPort` when `hostNetwork` is true")
            if not number:
                continue
            key = (port.get("protocol", ""), port.get("hostIP", ""), number)
            if key in used:
                yield fe.duplicate(place, f"{key[0]}/{key[1]}/{number}")
            used.add(key)


def _mounts(mounts: list[Json], path: str, volumes: Collection[str]) -> r.Found:
    used: set[str] = set()
    for index, mount in enumerate(mounts):
        place = f"{path}[{index}]"
        name, where, below = mount.get("name", ""), mount.get("mountPath", ""), mount.get("subPath", "")
        if not name:
            yield fe.required(f"{place}.name")
        elif name not in volumes:
            yield fe.not_found(f"{place}.name", name)
        if not where:
            yield fe.required(f"{place}.mountPath")
        elif where in used:
            yield fe.invalid(f"{place}.mountPath", where, "must be unique")
        used.add(where)
        if below.startswith("/"):
            yield fe.invalid(f"{place}.subPath", below, "must be a relative path")
        if ".." in below.split("/"):
            yield fe.invalid(f"{place}.subPath", below, "must not contain '..'")
