"""Scenario documents: events during a plan.

    apiVersion: reprieve.dev/v1alpha1
    kind: Scenario
    spec:
      steps:
      - create: [manifests]      # objects, in this order
        together: true           # all at the same instant; otherwise the scheduler runs after each
        delete: [{kind, namespace, name}]
        wait: settled            # or victims-gone, or {seconds: N}

Other manifests exist at the start. After a last step without a wait the cluster settles. A workload is created as the
pods that its controller would then create, considering the initial objects and those created and deleted by earlier
steps (whatif.md 1.11).
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from msgspec.structs import replace

from kube_rules import objects
from kube_rules.decoding import KINDS, decode_object, name_of
from kube_rules.errors import FieldError, InputError, Origin
from kube_rules.group_owners import Job
from kube_rules.json import text
from kube_rules.manifests import LoadedObject, Manifests, PodMaker, Remark, SuspendedInput
from kube_rules.references import check_groups
from kube_rules.unknown_fields import did_you_mean, nearest
from kube_rules.validation.manifests import remark_on
from kube_rules.validation.typed import is_validated
from kube_rules.workloads import makes_pods
from reprieve.simulation.workloads.expansion import by_rule, jobs_among
from reprieve.simulation.workloads.expansion_context import Surroundings
from reprieve.simulation.workloads.expansion_order import Maker
from reprieve.simulation.workloads.rows import Rows
from reprieve.simulation.workloads.table import TABLE

_STEP_FIELDS = ("create", "together", "delete", "wait")


@dataclass(frozen=True, slots=True)
class ScenarioStep:
    """One step. `wait`: None, `settled`, `victims-gone`, or seconds of simulated time."""

    path: str
    create: tuple[objects.KubernetesObject, ...]
    together: bool
    delete: tuple[tuple[str, str, str], ...]
    """(kind, namespace, name)."""
    wait: str | float | None
    places: tuple[str, ...] = ()
    """For each created object: its path in the document."""
    jobs: tuple[Job, ...] = ()
    """Created Jobs with a deadline, which determines the end of their pods (cost.md 6.4)."""
    suspended: tuple[SuspendedInput, ...] = ()
    remarks: tuple[Remark, ...] = ()
    makers: tuple[PodMaker, ...] = ()
    """Created pod makers and those that they create, owners before owned objects."""


@dataclass(frozen=True, slots=True)
class ScenarioScript:
    """One document with its steps in order."""

    origin: Origin
    steps: tuple[ScenarioStep, ...]


def read_scenarios(manifests: Manifests, rows: Rows = TABLE) -> list[ScenarioScript]:
    """Return the Scenario documents of an expanded input. Raises InputError for an unknown field."""
    if not manifests.scenarios:
        return []
    surroundings = Surroundings(manifests, manifests.pod_makers, manifests.unknown)
    return [_Reader(surroundings, rows, origin).scenario(document) for document, origin in manifests.scenarios]


class _Reader:
    """Reads one document; the changes of its steps apply to the surroundings of later steps."""

    def __init__(self, surroundings: Surroundings, rows: Rows, origin: Origin) -> None:
        self._surroundings = surroundings
        self._rows = rows
        self._origin = origin

    def scenario(self, document: Mapping[str, Any]) -> ScenarioScript:
        """Return the parsed document."""
        origin = self._origin
        spec = _mapping(document.get("spec"), "spec", origin)
        _only(spec, ("steps",), "spec", origin)
        steps = spec.get("steps")
        if not isinstance(steps, list):
            raise _error(origin, "spec.steps", "must be a list of steps")
        return ScenarioScript(origin, tuple(self._step(step, f"spec.steps[{i}]") for i, step in enumerate(steps)))

    def _step(self, step: object, path: str) -> ScenarioStep:
        origin = self._origin
        step = _mapping(step, path, origin)
        _only(step, _STEP_FIELDS, path, origin)
        together = step.get("together", False)
        if not isinstance(together, bool):
            raise _error(origin, f"{path}.together", "must be true or false")
        created: list[tuple[objects.KubernetesObject, str]] = []
        jobs: list[Job] = []
        suspended: list[SuspendedInput] = []
        remarks: list[Remark] = []
        makers: list[PodMaker] = []
        for number, item in enumerate(_items(step, "create", path, origin)):
            at = f"{path}.create[{number}]"
            manifest = _mapping(item, at, origin)
            if self._makes_pods(manifest):
                remarks += self._remarks_on(manifest, at, namespaced=True)
                maker = self._expanded(manifest, at)
                with _at(at, origin):
                    new = [_unborn(loaded.object) for loaded in maker.additions()]
                if manifest["kind"] in KINDS:  # its selector applies to the spreading of its pods
                    new.insert(0, self._decoded(manifest, at))
                jobs += jobs_among(maker.makers)
                suspended += maker.suspended
                remarks += maker.remarks
                makers += maker.makers
            else:
                new = [self._decoded(manifest, at)]
                if not is_validated(type(new[0])):
                    remarks += self._remarks_on(manifest, at, namespaced=new[0].NAMESPACED)
            self._surroundings.arrived(new)
            created += [(item, at) for item in sorted(new, key=lambda item: isinstance(item, objects.Pod))]
        deleted = tuple(
            _deletion(item, f"{path}.delete[{i}]", origin)
            for i, item in enumerate(_items(step, "delete", path, origin))
        )
        for deletion in deleted:
            self._surroundings.gone(*deletion)
        return ScenarioStep(
            path=path,
            create=tuple(new_object for new_object, _ in created),
            together=together,
            delete=deleted,
            wait=_wait(step.get("wait"), f"{path}.wait", origin),
            places=tuple(at for _, at in created),
            jobs=tuple(jobs),
            suspended=tuple(suspended),
            remarks=tuple(remarks),
            makers=tuple(makers),
        )

    def _makes_pods(self, manifest: Mapping[str, Any]) -> bool:
        version, kind = manifest.get("apiVersion"), manifest.get("kind")
        if not isinstance(version, str) or not isinstance(kind, str):
            return False
        return makes_pods(version, kind) or self._rows.of(version, kind) is not None

    def _remarks_on(self, manifest: Mapping[str, Any], path: str, *, namespaced: bool) -> list[Remark]:
        """Return the remark about an object without required fields (whatif.md 1.12). Raises InputError."""
        version, kind = text(manifest.get("apiVersion")), text(manifest.get("kind"))
        with _at(path, self._origin):
            remark = remark_on(version, kind, manifest, self._origin, namespaced=namespaced)
        return [remark] if remark is not None else []

    def _expanded(self, manifest: Mapping[str, Any], path: str) -> Maker:
        """Return a pod maker, expanded as its controller would now."""
        maker_of_pods = PodMaker(manifest, self._origin)
        self._surroundings.owners.add(maker_of_pods)
        maker = Maker(self._surroundings, [maker_of_pods], self._rows, by_rule)
        with _at(path, self._origin):
            maker.make()
        for problem in maker.problems:
            clock = "a scenario does not follow its schedule: create the Job of its jobTemplate"
            reason = problem.reason if problem.certain else clock
            raise InputError(self._origin, reason, path=path, subject=problem.subject)
        return maker

    def _decoded(self, manifest: Mapping[str, Any], path: str) -> objects.KubernetesObject:
        """Return one object, checked and with its priority, as an API server would accept it."""
        origin = self._origin
        with _at(path, origin):
            decoded = decode_object(manifest, origin)
            if isinstance(decoded, objects.PodGroup):
                check_groups([LoadedObject(decoded, origin, 0, 0.0)], [])
            try:
                return self._surroundings.admission.resolve(decoded)
            except FieldError as error:
                raise InputError(origin, error.message, path=error.path, subject=name_of(decoded)) from None


@contextmanager
def _at(path: str, origin: Origin) -> Iterator[None]:
    """Set the place in the scenario for errors of the block."""
    try:
        yield
    except InputError as error:
        where = ".".join(filter(None, (path, error.path)))
        raise InputError(origin, error.message, path=where, subject=error.subject) from None


def _unborn(item: objects.KubernetesObject) -> objects.KubernetesObject:
    """Return the object without a creation time, because its step creates it."""
    return replace(item, metadata=replace(item.metadata, creation_timestamp=None))


_LIMITS: Final = ("ResourceQuota", "LimitRange")
_DELETABLE: Final = ("Pod", "Node", "PodGroup", "CompositePodGroup", "PodDisruptionBudget", *_LIMITS)


def _deletion(item: object, path: str, origin: Origin) -> tuple[str, str, str]:
    item = _mapping(item, path, origin)
    _only(item, ("kind", "namespace", "name"), path, origin)
    kind, name = item.get("kind"), item.get("name")
    if not isinstance(kind, str) or kind not in _DELETABLE:
        raise _error(origin, f"{path}.kind", f"{kind!r}: expected {', '.join(_DELETABLE[:-1])} or {_DELETABLE[-1]}")
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
    raise _error(origin, path, f"{value!r}: expected settled, victims-gone or {{seconds: N}}")


def _items(step: Mapping[str, Any], name: str, path: str, origin: Origin) -> list[object]:
    items = step.get(name) or []
    if not isinstance(items, list):
        raise _error(origin, f"{path}.{name}", "must be a list")
    return items


def _mapping(value: object, path: str, origin: Origin) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _error(origin, path, "must be a mapping")
    return value


def _only(value: Mapping[str, Any], fields: tuple[str, ...], path: str, origin: Origin) -> None:
    for name in value:
        if name not in fields:
            hint = did_you_mean(nearest(str(name), fields))
            raise _error(origin, f"{path}.{name}", f"unknown field{hint}; known: {', '.join(fields)}")


def _error(origin: Origin, path: str, message: str) -> InputError:
    return InputError(origin, message, path=path)
