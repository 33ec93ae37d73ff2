"""Rules of containers, their ports, environment, mounts and probes, and of the volumes of a pod."""

from __future__ import annotations

from collections.abc import Collection

from reprieve.api.json import Json
from reprieve.controlplane.rules import names, resources
from reprieve.controlplane.rules import rows as r
from reprieve.controlplane.schema import field_errors as fe

PROTOCOLS = ("SCTP", "TCP", "UDP")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_SECONDS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")


def port_or_name(name: str) -> r.Check:
    """A port by its number or its name."""
    number, word = r.within(1, 65535, name, missing=0), r.formed(name, names.port_name, "set")
    return lambda holder, path: (word if isinstance(holder.get(name), str) else number)(holder, path)


def one_source(*others: str) -> r.Check:
    """Exactly one source of a volume: a field that is none of the others."""

    def check(volume: Json, path: str) -> r.Found:
        sources = [name for name in volume if name not in others]
        if not sources:
            yield fe.required(path, "must specify a volume type")
        for name in sources[1:]:
            yield fe.forbidden(f"{path}.{name}", "may not specify more than 1 volume type")

    return check


def _handler(handler: Json, place: str) -> r.Found:
    there = [name for name in _HANDLERS if name in handler]
    if not there:
        yield fe.required(place, "must specify a handler type")
    for name in there[1:]:
        yield fe.forbidden(f"{place}.{name}", "may not specify more than 1 handler type")
    yield from _HANDLER_FIELDS(handler, place)


_HANDLER_FIELDS = r.all_of(
    r.given("httpGet", port_or_name("port")),
    r.given("tcpSocket", port_or_name("port")),
    r.given("exec", r.required("command")),
)
_PROBE = r.all_of(_handler, r.at_least(0, *_SECONDS))


def _one_success(probe: Json, place: str) -> r.Found:
    if probe.get("successThreshold", 1) != 1:
        yield fe.invalid(f"{place}.successThreshold", probe["successThreshold"], "must be 1")


def _value_source(variable: Json, place: str) -> r.Found:
    source = variable.get("valueFrom")
    if source is None:
        return
    if len(source) != 1:
        detail = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
        if source:
            detail = "may not have more than one field specified at a time"
        yield fe.invalid(f"{place}.valueFrom", "", detail)
    if variable.get("value"):
        yield fe.invalid(f"{place}.valueFrom", "", "may not be specified when `value` is not empty")


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
    r.choice("imagePullPolicy", ("Always", "IfNotPresent", "Never")),
    r.choice("terminationMessagePolicy", ("FallbackToLogsOnError", "File")),
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
            r.given("fieldRef", r.required("fieldPath")),
        ),
    ),
)
_AFTER_MOUNTS = r.all_of(
    r.given("livenessProbe", _PROBE, _one_success),
    r.given("readinessProbe", _PROBE),
    r.given("startupProbe", _PROBE, _one_success),
    r.given("lifecycle", _lifecycle),
    r.given("resources", resources.requirements),
)


def containers(spec: Json, path: str, volumes: Collection[str]) -> r.Found:
    """The containers and init containers of a pod: at least one, named apart; `volumes` are what they may mount."""
    if not spec.get("containers"):
        yield fe.required(f"{path}.containers")
    seen: set[str] = set()
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
            yield from _AFTER_MOUNTS(container, place)
            if part == "initContainers" and container.get("restartPolicy") != "Always":
                for probe in ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle"):
                    if probe in container:
                        detail = "may not be set for init containers without restartPolicy=Always"
                        yield fe.forbidden(f"{place}.{probe}", detail)


def _mounts(mounts: list[Json], path: str, volumes: Collection[str]) -> r.Found:
    taken: set[str] = set()
    for index, mount in enumerate(mounts):
        place = f"{path}[{index}]"
        name, where, below = mount.get("name", ""), mount.get("mountPath", ""), mount.get("subPath", "")
        if not name:
            yield fe.required(f"{place}.name")
        elif name not in volumes:
            yield fe.not_found(f"{place}.name", name)
        if not where:
            yield fe.required(f"{place}.mountPath")
        elif where in taken:
            yield fe.invalid(f"{place}.mountPath", where, "must be unique")
        taken.add(where)
        if below.startswith("/"):
            yield fe.invalid(f"{place}.subPath", below, "must be a relative path")
        if ".." in below.split("/"):
            yield fe.invalid(f"{place}.subPath", below, "must not contain '..'")


volumes = r.listed(
    "volumes",
    r.wanted("name", names.dns_label),
    r.Unique("name"),
    one_source("name"),
    r.given("persistentVolumeClaim", r.required("claimName")),
    r.given("hostPath", r.required("path")),
    r.given("secret", r.required("secretName")),
    r.given("configMap", r.required("name")),
)
"""Volumes of a pod: a name of their own and exactly one source."""
