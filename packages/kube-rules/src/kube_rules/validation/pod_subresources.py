"""Changes of a pod through /ephemeralcontainers and /resize (kube-apiserver 1.36, core validation)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kube_rules import field_errors as fe
from kube_rules.defaults.pods import qos_class
from kube_rules.json import Json
from kube_rules.validation import containers
from kube_rules.validation import rows as r
from kube_rules.validation.pods import POD_LEVEL

_NOT_EPHEMERAL = (
    "ports", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "resources", "resizePolicy",
    "restartPolicy",
)  # fmt: skip
_WITHOUT = "field not allowed in ephemeral containers"
_MUTABLE = ("cpu", "memory")
_RESIZABLE = ("containers", "initContainers")


def ephemeral_containers(new: Json, old: Json) -> r.Found:
    """Check that ephemeral containers are only added, with unique names and without probes, ports and resources."""
    after, before = new.get("spec", {}), old.get("spec", {})
    added = after.get("ephemeralContainers", ())
    volumes = {volume.get("name", "") for volume in after.get("volumes", ())}
    own = {item.get("name", "") for part in ("containers", "initContainers") for item in after.get(part, ())}
    yield from containers.ephemeral(added, "spec.ephemeralContainers", own, volumes)
    for index, container in enumerate(added):
        place = f"spec.ephemeralContainers[{index}]"
        for field in _NOT_EPHEMERAL:
            if container.get(field) not in (None, {}, []):
                yield fe.forbidden(f"{place}.{field}", _WITHOUT)
        target = container.get("targetContainerName", "")
        if target and target not in own:
            yield fe.not_found(f"{place}.targetContainerName", target)
    now = {item.get("name", ""): item for item in added}
    for container in before.get("ephemeralContainers", ()):
        name = container.get("name", "")
        if name not in now:
            yield fe.forbidden(
                "spec.ephemeralContainers", f'existing ephemeral containers "{name}" may not be removed\n'
            )
        elif now[name] != container:
            yield fe.forbidden(
                "spec.ephemeralContainers", f'existing ephemeral containers "{name}" may not be changed\n'
            )


def resize(new: Json, old: Json) -> r.Found:
    """Check a resize: only CPU and memory of containers and of the pod change, within its QoS class.

    Existing values may not be removed, and the containers keep their names and order.
    """
    after, before = new.get("spec", {}), old.get("spec", {})
    volumes = {volume.get("name", "") for volume in after.get("volumes", ())}
    yield from containers.containers(after, "spec", volumes)
    if qos_class(new) != qos_class(old):
        yield fe.invalid("spec", qos_class(new), "Pod QOS Class may not change as a result of resizing")
    renamed = [error for part in _RESIZABLE for error in _renamed(before.get(part, ()), after.get(part, ()), part)]
    if renamed:
        yield from renamed
        return
    for part in _RESIZABLE:
        for index, (was, container) in enumerate(zip(before.get(part, ()), after.get(part, ()), strict=True)):
            place = f"spec.{part}[{index}].resources"
            if container.get("resources", {}) == was.get("resources", {}):
                continue
            if part == "initContainers" and container.get("restartPolicy") != "Always":
                yield fe.forbidden(place, "resources for non-sidecar init containers are immutable")
                continue
            yield from _changed(was.get("resources", {}), container.get("resources", {}), place)
    if after.get("resources", {}) != before.get("resources", {}):
        yield from POD_LEVEL(after, "spec")
        yield from _changed(before.get("resources", {}), after.get("resources", {}), "spec.resources")


def _renamed(before: Sequence[Json], after: Sequence[Json], part: str) -> r.Found:
    """Check that the containers of one part of a pod have the same names in the same order."""
    if len(before) != len(after):
        yield fe.forbidden(f"spec.{part}", f"{part} may not be added or removed on resize")
        return
    for index, (was, container) in enumerate(zip(before, after, strict=True)):
        if was.get("name", "") != container.get("name", ""):
            yield fe.forbidden(f"spec.{part}[{index}].name", f"{part} may not be renamed or reordered on resize")


def _changed(before: Mapping[str, Json], after: Mapping[str, Json], place: str) -> r.Found:
    for field in ("limits", "requests"):
        were, are = before.get(field, {}), after.get(field, {})
        if any(name in were and name not in are for name in _MUTABLE):
            yield fe.forbidden(f"{place}.{field}", f"resource {field} cannot be removed")
        if any(were.get(name) != are.get(name) for name in {*were, *are} if name not in _MUTABLE):
            yield fe.forbidden(f"{place}.{field}", "only cpu and memory resources are mutable")


def name_of_container(spec: Json, name: str) -> tuple[str, str]:
    """Return the container that a request to a pod selects, or the refusal."""
    lists = [spec.get(part) or () for part in ("containers", "initContainers", "ephemeralContainers")]
    every = [container.get("name", "") for part in lists for container in part]
    if name:
        return (name, "") if name in every else ("", f"container {name} is not valid for pod {{pod}}")
    own = [item.get("name", "") for item in lists[0]]
    if len(own) == 1:
        return own[0], ""
    text = f"a container name must be specified for pod {{pod}}, choose one of: [{' '.join(own)}]"
    if lists[1]:
        text += f" or one of the init containers: [{' '.join(container.get('name', '') for container in lists[1])}]"
    return "", text
