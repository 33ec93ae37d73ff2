"""Rules of containers, their ports, environment, mounts and probes, and of the volumes of a pod."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reprieve.api.json import Json
from reprieve.controlplane.rules import names, resources
from reprieve.controlplane.schema import field_errors as fe
from reprieve.controlplane.schema.field_errors import FieldError

_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_TERMINATION_POLICIES = ("FallbackToLogsOnError", "File")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_PROBE_MINIMUM = (
    ("initialDelaySeconds", 0),
    ("timeoutSeconds", 0),
    ("periodSeconds", 0),
    ("successThreshold", 0),
    ("failureThreshold", 0),
)
_PORT_RANGE = "must be between 1 and 65535, inclusive"


def containers(spec: Json, path: str, volumes: set[str]) -> Iterator[FieldError]:
    """The main containers: at least one."""
    given = spec.get("containers", ())
    if not given:
        yield fe.required(f"{path}.containers")
    seen: set[str] = set()
    for index, container in enumerate(given):
        yield from _container(container, f"{path}.containers[{index}]", volumes, seen)
    init = spec.get("initContainers", ())
    for index, container in enumerate(init):
        place = f"{path}.initContainers[{index}]"
        yield from _container(container, place, volumes, seen)
        if container.get("restartPolicy") != "Always":
            for probe in ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle"):
                if probe in container:
                    said = "may not be set for init containers without restartPolicy=Always"
                    yield fe.forbidden(f"{place}.{probe}", said)


def _container(container: Json, place: str, volumes: set[str], seen: set[str]) -> Iterator[FieldError]:
    name = container.get("name", "")
    yield from fe.wanted(f"{place}.name", name, names.dns_label)
    if name in seen:
        yield fe.duplicate(f"{place}.name", name)
    elif name:
        seen.add(name)
    image = container.get("image", "")
    if not image:
        yield fe.required(f"{place}.image")
    elif image != image.strip():
        yield fe.invalid(f"{place}.image", image, "must not have leading or trailing whitespace")
    policy = container.get("imagePullPolicy", "")
    yield from fe.one_of(f"{place}.imagePullPolicy", policy, _PULL_POLICIES)
    termination = container.get("terminationMessagePolicy", "")
    yield from fe.one_of(f"{place}.terminationMessagePolicy", termination, _TERMINATION_POLICIES)
    if "ports" in container:
        yield from _ports(container["ports"], f"{place}.ports")
    if "env" in container:
        yield from _environment(container["env"], f"{place}.env")
    if "volumeMounts" in container:
        yield from _mounts(container["volumeMounts"], f"{place}.volumeMounts", volumes)
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if probe in container:
            yield from _probe(container[probe], f"{place}.{probe}", probe)
    for hook, handler in container.get("lifecycle", {}).items():
        if isinstance(handler, dict):
            yield from _handler(handler, f"{place}.lifecycle.{hook}")
    needs = container.get("resources")
    if needs:
        yield from resources.requirements(needs, f"{place}.resources")


def _port_number(value: Any, path: str) -> Iterator[FieldError]:
    if not 1 <= value <= 65535:
        yield fe.invalid(path, value, _PORT_RANGE)


def _ports(ports: list[Json], path: str) -> Iterator[FieldError]:
    taken: set[str] = set()
    for index, port in enumerate(ports):
        place = f"{path}[{index}]"
        name = port.get("name", "")
        if name:
            yield from fe.malformed(f"{place}.name", name, names.port_name)
            if name in taken:
                yield fe.duplicate(f"{place}.name", name)
            taken.add(name)
        number = port.get("containerPort", 0)
        if number == 0:
            yield fe.required(f"{place}.containerPort")
        else:
            yield from _port_number(number, f"{place}.containerPort")
        if port.get("hostPort", 0):
            yield from _port_number(port["hostPort"], f"{place}.hostPort")
        protocol = port.get("protocol", "")
        yield from fe.one_of(f"{place}.protocol", protocol, _PROTOCOLS)


def _environment(given: list[Json], path: str) -> Iterator[FieldError]:
    for index, variable in enumerate(given):
        place = f"{path}[{index}]"
        name = variable.get("name", "")
        yield from fe.wanted(f"{place}.name", name, names.env_name)
        source = variable.get("valueFrom")
        if source is None:
            continue
        if len(source) != 1:
            said = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
            if source:
                said = "may not have more than one field specified at a time"
            yield fe.invalid(f"{place}.valueFrom", "", said)
        if variable.get("value"):
            yield fe.invalid(f"{place}.valueFrom", "", "may not be specified when `value` is not empty")
        for kind in ("configMapKeyRef", "secretKeyRef"):
            if kind in source and not source[kind].get("key"):
                yield fe.required(f"{place}.valueFrom.{kind}.key")
        field = source.get("fieldRef", {})
        if "fieldRef" in source and not field.get("fieldPath"):
            yield fe.required(f"{place}.valueFrom.fieldRef.fieldPath")


def _mounts(given: list[Json], path: str, volumes: set[str]) -> Iterator[FieldError]:
    taken: set[str] = set()
    for index, mount in enumerate(given):
        place = f"{path}[{index}]"
        name, where = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            yield fe.required(f"{place}.name")
        elif name not in volumes:
            yield fe.not_found(f"{place}.name", name)
        if not where:
            yield fe.required(f"{place}.mountPath")
        elif where in taken:
            yield fe.invalid(f"{place}.mountPath", where, "must be unique")
        taken.add(where)
        below = mount.get("subPath", "")
        if below.startswith("/"):
            yield fe.invalid(f"{place}.subPath", below, "must be a relative path")
        if ".." in below.split("/"):
            yield fe.invalid(f"{place}.subPath", below, "must not contain '..'")


def _probe(probe: Json, place: str, name: str) -> Iterator[FieldError]:
    yield from _handler(probe, place)
    for field, low in _PROBE_MINIMUM:
        if probe.get(field, 0) < low:
            yield fe.invalid(f"{place}.{field}", probe[field], f"must be greater than or equal to {low}")
    if name != "readinessProbe" and probe.get("successThreshold", 1) != 1:
        yield fe.invalid(f"{place}.successThreshold", probe["successThreshold"], "must be 1")


def _handler(handler: Json, place: str) -> Iterator[FieldError]:
    given = [name for name in _HANDLERS if name in handler]
    if not given:
        yield fe.required(place, "must specify a handler type")
    for name in given[1:]:
        yield fe.forbidden(f"{place}.{name}", "may not specify more than 1 handler type")
    for name in ("httpGet", "tcpSocket"):
        if name in handler:
            port = handler[name].get("port", 0)
            if isinstance(port, int):
                yield from _port_number(port, f"{place}.{name}.port")
            else:
                yield from fe.malformed(f"{place}.{name}.port", port, names.port_name)
    if "exec" in handler and not handler["exec"].get("command"):
        yield fe.required(f"{place}.exec.command")


def volumes(given: list[Json], path: str) -> Iterator[FieldError]:
    """Volumes of a pod: a name of their own and exactly one source."""
    seen: set[str] = set()
    for index, volume in enumerate(given):
        place = f"{path}[{index}]"
        name = volume.get("name", "")
        yield from fe.wanted(f"{place}.name", name, names.dns_label)
        if name in seen:
            yield fe.duplicate(f"{place}.name", name)
        seen.add(name)
        sources = [source for source in volume if source != "name"]
        if not sources:
            yield fe.required(place, "must specify a volume type")
        for source in sources[1:]:
            yield fe.forbidden(f"{place}.{source}", "may not specify more than 1 volume type")
        claim = volume.get("persistentVolumeClaim")
        if claim is not None and not claim.get("claimName"):
            yield fe.required(f"{place}.persistentVolumeClaim.claimName")
        path_of = volume.get("hostPath")
        if path_of is not None and not path_of.get("path"):
            yield fe.required(f"{place}.hostPath.path")
        secret = volume.get("secret")
        if secret is not None and not secret.get("secretName"):
            yield fe.required(f"{place}.secret.secretName")
        config = volume.get("configMap")
        if config is not None and not config.get("name"):
            yield fe.required(f"{place}.configMap.name")
