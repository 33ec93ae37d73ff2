"""Scenario documents: things that happen while a plan runs.

    apiVersion: reprieve.dev/v1alpha1
    kind: Scenario
    spec:
      steps:
      - create: [manifests]      # objects, in this order
        together: true           # all at the same instant; else the scheduler runs after each
        delete: [{kind, namespace, name}]
        wait: settled            # or victims-gone, or {seconds: N}

Manifests beside it are there at the start.  A last step that waits for nothing is followed by settling.  What makes
pods is created as the pods that its controller would make of it in the cluster as it is at the start (whatif.md 1).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from reprieve.api import objects
from reprieve.api.admission import PriorityAdmission
from reprieve.api.decoding import decode_object, name_of
from reprieve.api.errors import FieldError, InputError, Origin
from reprieve.api.loading import Loaded, Manifests, PodMaker
from reprieve.api.references import check_groups
from reprieve.api.unknown_fields import nearest
from reprieve.api.workloads import makes_pods
from reprieve.simulation.workloads.expanding import expand

_STEP_FIELDS = ("create", "together", "delete", "wait")


@dataclass(frozen=True, slots=True)
class Step:
    """One step. `wait`: None, `settled`, `victims-gone`, or seconds of virtual time."""

    path: str
    create: tuple[objects.KubernetesObject, ...]
    together: bool
    delete: tuple[tuple[str, str, str], ...]
    """(kind, namespace, name)."""
    wait: str | float | None


@dataclass(frozen=True, slots=True)
class Scenario:
    """One document with its steps in order."""

    origin: Origin
    steps: tuple[Step, ...]


def read_scenarios(manifests: Manifests) -> list[Scenario]:
    """The Scenario documents of the input. Raises InputError naming document and field for anything unknown."""
    return [_read(document, origin, manifests) for document, origin in manifests.scenarios]


def _read(document: Mapping[str, Any], origin: Origin, manifests: Manifests) -> Scenario:
    spec = _mapping(document.get("spec"), "spec", origin)
    _only(spec, ("steps",), "spec", origin)
    steps = spec.get("steps")
    if not isinstance(steps, list):
        raise _error(origin, "spec.steps", "must be a list of steps")
    known = Manifests({**manifests.objects, objects.PriorityClass: list(manifests.of(objects.PriorityClass))})
    return Scenario(origin, tuple(_step(s, f"spec.steps[{i}]", origin, known) for i, s in enumerate(steps)))


def _step(step: object, path: str, origin: Origin, known: Manifests) -> Step:
    """`known`: what is there at the start, and the classes of the steps before."""
    step = _mapping(step, path, origin)
    _only(step, _STEP_FIELDS, path, origin)
    together = step.get("together", False)
    if not isinstance(together, bool):
        raise _error(origin, f"{path}.together", "must be true or false")
    return Step(
        path=path,
        create=tuple(
            found
            for i, item in enumerate(_items(step, "create", path, origin))
            for found in _created(_mapping(item, f"{path}.create[{i}]", origin), f"{path}.create[{i}]", origin, known)
        ),
        together=together,
        delete=tuple(
            _deletion(item, f"{path}.delete[{i}]", origin)
            for i, item in enumerate(_items(step, "delete", path, origin))
        ),
        wait=_wait(step.get("wait"), f"{path}.wait", origin),
    )


def _created(
    manifest: Mapping[str, Any], path: str, origin: Origin, known: Manifests
) -> Sequence[objects.KubernetesObject]:
    """What a step creates: decoded, checked and with its priority, as an API server would take it."""
    version, kind = manifest.get("apiVersion"), manifest.get("kind")
    if isinstance(version, str) and isinstance(kind, str) and makes_pods(version, kind):
        return _made(manifest, path, origin, known)
    return [_decoded(manifest, path, origin, known)]


def _made(
    manifest: Mapping[str, Any], path: str, origin: Origin, known: Manifests
) -> Sequence[objects.KubernetesObject]:
    """What the controller of an object makes of it, groups before their pods."""
    there = {id(one.object) for one in known.all()}
    cluster = {each: list(found) for each, found in known.objects.items()}
    try:
        made = expand(Manifests(cluster, pod_makers=[PodMaker(manifest, origin)]))
    except InputError as error:
        where = ".".join(filter(None, (path, error.path)))
        raise InputError(origin, error.message, path=where, subject=error.subject) from None
    if made.problems:
        raise InputError(origin, made.problems[0].reason, path=path, subject=made.problems[0].subject)
    new = [one.object for one in made.manifests.all() if id(one.object) not in there]
    return sorted(new, key=lambda one: isinstance(one, objects.Pod))


def _decoded(manifest: Mapping[str, Any], path: str, origin: Origin, known: Manifests) -> objects.KubernetesObject:
    """One object."""
    classes = known.objects[objects.PriorityClass]
    try:
        found = decode_object(manifest, origin)
        if isinstance(found, objects.PriorityClass):
            classes.append(Loaded(found, origin, 0, 0.0))
        if isinstance(found, objects.PodGroup):
            check_groups([Loaded(found, origin, 0, 0.0)], [])
        return PriorityAdmission([one.object for one in known.of(objects.PriorityClass)]).resolve(found)
    except InputError as error:
        where = ".".join(filter(None, (path, error.path)))
        raise InputError(origin, error.message, path=where, subject=error.subject) from None
    except FieldError as error:
        where = ".".join(filter(None, (path, error.path)))
        raise InputError(origin, error.message, path=where, subject=name_of(found)) from None


_DELETABLE: Final = ("Pod", "Node", "PodGroup", "CompositePodGroup", "PodDisruptionBudget")


def _deletion(item: object, path: str, origin: Origin) -> tuple[str, str, str]:
    item = _mapping(item, path, origin)
    _only(item, ("kind", "namespace", "name"), path, origin)
    kind, name = item.get("kind"), item.get("name")
    if not isinstance(kind, str) or kind not in _DELETABLE:
        raise _error(origin, f"{path}.kind", f"{kind!r}: want {', '.join(_DELETABLE[:-1])} or {_DELETABLE[-1]}")
    if not isinstance(name, str) or not name:
        raise _error(origin, f"{path}.name", "is required")
    return kind, str(item.get("namespace") or "default"), name


def _wait(value: object, path: str, origin: Origin) -> str | float | None:
    if value is None or value in ("settled", "victims-gone"):
        return value if isinstance(value, str) else None
    if isinstance(value, Mapping) and set(value) == {"seconds"}:
        seconds = value["seconds"]
        if isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 <= seconds <= 1e9:
            return float(seconds)
    raise _error(origin, path, f"{value!r}: want settled, victims-gone or {{seconds: N}}")


def _items(step: Mapping[str, Any], name: str, path: str, origin: Origin) -> list[object]:
    items = step.get(name) or []
    if not isinstance(items, list):
        raise _error(origin, f"{path}.{name}", "must be a list")
    return items


def _mapping(value: object, path: str, origin: Origin) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _error(origin, path, "must be a mapping")
    return value


def _only(value: Mapping[str, Any], known: tuple[str, ...], path: str, origin: Origin) -> None:
    for name in value:
        if name not in known:
            meant = nearest(str(name), known)
            hint = f', did you mean "{meant}"?' if meant else ""
            raise _error(origin, f"{path}.{name}", f"unknown field{hint}; known: {', '.join(known)}")


def _error(origin: Origin, path: str, message: str) -> InputError:
    return InputError(origin, message, path=path)
