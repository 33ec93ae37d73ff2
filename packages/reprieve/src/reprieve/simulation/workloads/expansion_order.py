"""Expansion of workloads: the order, and the helpers for the rules of their kinds.

The rules are in `controllers` and `row_expansion`; `expansion` applies them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from kube_rules import objects
from kube_rules.decoding import finish, from_data, kind_of
from kube_rules.errors import InputError, Origin, excerpt
from kube_rules.group_sources import QUEUE_KEYS
from kube_rules.json import Json, mapping, text
from kube_rules.manifests import LoadedObject, PodMaker, Remark, SuspendedInput, UnknownObject
from kube_rules.meta import KubernetesObject
from kube_rules.references import check_groups, check_nodes
from kube_rules.unknown_fields import UnknownField, path_text
from kube_rules.workloads import WITHOUT_PODS, group_of, templates_in
from reprieve.simulation.workloads.batches import Batch, PodWorkload, reference_to, typed, workload_of
from reprieve.simulation.workloads.expansion_context import Surroundings
from reprieve.simulation.workloads.gangs import WorkloadGangs
from reprieve.simulation.workloads.owners import (
    Owner,
    is_active,
    object_id_of,
    runtime_of,
    subject_of_maker,
)
from reprieve.simulation.workloads.rows import Rows, WorkloadKind, value_at

_DEEPEST: Final = 6
_ROW_HINT: Final = " (describe its kind with --workload-kinds, or plan without it with --lenient)"
_TEMPLATES_ONLY: Final = {"trainer.kubeflow.org": ("ClusterTrainingRuntime", "TrainingRuntime")}
"""Kinds with templates that other kinds use to create pods."""


class UnplannedObject(NamedTuple):
    """An object with required pods that are not planned, and the reason."""

    origin: Origin
    subject: str
    kind: str
    reason: str
    certain: bool = True
    """Whether it certainly requires pods now; otherwise it may."""

    def __str__(self) -> str:
        return f"{self.origin}: {self.subject}: {self.reason}"


class Maker:
    """Creates the objects that workloads require, by the rules of their kinds."""

    def __init__(
        self,
        surroundings: Surroundings,
        makers: Sequence[PodMaker],
        rows: Rows,
        expand: Callable[[Maker, PodWorkload, WorkloadKind], None],
        *,
        run: Sequence[str] = (),
        now: float = 0.0,
    ) -> None:
        self._surroundings = surroundings
        self._input_makers = makers
        self._rows = rows
        self._expand_by_rule = expand
        self._run = {name if "/" in name else f"default/{name}" for name in run}
        self._ran: set[str] = set()
        self.makers = list(makers)
        self.owners = surroundings.owners
        self.now = now
        self.problems: list[UnplannedObject] = []
        self.suspended: list[SuspendedInput] = []
        self.batches: list[Batch] = []
        self.unknown_fields: list[UnknownField] = []
        self._seen: set[Owner] = set()
        self.remarks: list[Remark] = []
        self._remarked: set[Remark] = set()
        self.gangs = WorkloadGangs(
            self.count, lambda owner: [pod for pod in self.there(owner, below=True) if is_active(pod)], self.remark
        )
        self._extra: list[tuple[KubernetesObject, PodWorkload]] = []
        self._claims: set[tuple[str, str]] = set()

    @property
    def nodes(self) -> Iterable[objects.Node]:
        """Return all nodes."""
        return self._surroundings.nodes

    def make(self) -> None:
        """Expand all workloads."""
        defined: dict[Owner, Origin] = {}
        for item in self._input_makers:
            first = defined.setdefault(object_id_of(item.manifest), item.origin)
            if first is not item.origin:
                message = f'Duplicate value: "{object_id_of(item.manifest)[3]}": already defined in {first}'
                subject = subject_of_maker(item.manifest)
                raise InputError(item.origin, message, path="metadata.name", subject=subject)
        for item in sorted(self._input_makers, key=lambda maker: self._depth(object_id_of(maker.manifest))):
            object_id = object_id_of(item.manifest)
            if object_id not in self._seen:
                self._expand(workload_of(item))

    def check_runs(self) -> None:
        """Raise InputError for a requested run of an unknown CronJob."""
        missing = sorted(self._run - self._ran)
        if missing:
            raise InputError(Origin("--run"), f"no CronJob {missing[0]} is in the input")

    def _depth(self, object_id: Owner) -> int:
        depth = 0
        above = self.owners.owner(object_id)
        while above is not None and depth < _DEEPEST:
            above, depth = self.owners.owner(above), depth + 1
        return depth

    def judge(self, item: UnknownObject) -> bool:
        """Record a problem for an object of an unknown kind; return False if it certainly requires pods."""
        object_id = object_id_of(item.manifest)
        if not is_unknown_kind(item) or item.kind in _TEMPLATES_ONLY.get(group_of(item.api_version), ()):
            return True
        if self.owners.pods(object_id) or self.owners.owned(object_id):
            return True
        where = next((path_text(path) for path, _ in templates_in(item.manifest)), "")
        if where and not item.nearest:
            reason = f"its pods are not planned: it has a pod template at {where}, but its kind is unknown"
            self.problems.append(UnplannedObject(item.origin, item.subject, item.kind, reason + _ROW_HINT))
        else:
            certain = bool(item.nearest)
            self.problems.append(UnplannedObject(item.origin, item.subject, item.kind, unknown_kind(item), certain))
        return not self.problems[-1].certain

    def _expand(self, workload: PodWorkload) -> None:
        self._seen.add(workload.object_id)
        manifest, object_id = workload.manifest, workload.object_id
        row = self._rows.of(text(manifest.get("apiVersion")), object_id[1])
        if row is None:
            if not self.owners.pods(object_id) and not self.owners.owned(object_id) and not _is_paused(workload):
                number = "its pods are not planned"
                self.problem(
                    workload, f"{number}: a {object_id[1]} is not expanded; add its pods to the input{_ROW_HINT}"
                )
            return
        if (object_id[0], object_id[1]) != ("batch", "CronJob"):
            for owned in self.owners.owned(object_id):
                self._seen.add(owned)
        if workload.meta.get("deletionTimestamp") or _is_over(workload, row):
            return
        if row.suspended and value_at(manifest, row.suspended) is True:
            self.idle(workload, row.suspended)
            return
        self._remark_queues(workload, row)
        self._expand_by_rule(self, workload, row)

    def _remark_queues(self, workload: PodWorkload, row: WorkloadKind) -> None:
        """Report the fields, labels and annotations for the queues of other schedulers (workloads.md 5.5)."""
        if workload.outer:
            return  # its object is not in the input
        for path in row.unread:
            value = value_at(workload.manifest, path)
            if value and value != "default":
                self.remark(
                    workload, f"{path}{_shown(value)} is not read{_WHY_UNREAD.get(path.rpartition('.')[2], '')}"
                )
        for part, key in itertools.product(("labels", "annotations"), QUEUE_KEYS):
            value = mapping(workload.meta.get(part)).get(key)
            if value and value != "default":
                self.remark(workload, f"metadata.{part}[{key}]{_shown(value)} is not read{_WHY_UNREAD['queue']}")

    # -- helpers of rules --------------------------------------------------------------------------

    def template(self, workload: PodWorkload, path: str, template: Any) -> Mapping[str, Any] | None:
        """Return a valid pod template; record a problem without one. Raises InputError for an invalid one."""
        if template is None:
            self.problem(workload, f"there is no pod template at {workload.place(path)}")
            return None
        if not isinstance(template, Mapping) or not isinstance(template.get("spec"), Mapping):
            raise workload.error(path, "Invalid value: must be a pod template, with metadata and spec")
        meta = template.get("metadata")
        for name in ("labels", "annotations"):
            values = mapping(meta).get(name)
            if values is not None and not (
                isinstance(values, Mapping) and all(isinstance(item, str) for item in values.values())
            ):
                raise workload.error(f"{path}.metadata.{name}", "Invalid value: must be a map of strings")
        return template

    def count(self, workload: PodWorkload, path: str, value: Any, default: int) -> int:
        """Return a number of pods, or the default. Raises InputError for anything else."""
        if value is None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            shown = str(value)[:64]
            raise workload.error(path, f"Invalid value: {shown}: must be a whole number greater than or equal to 0")
        return value

    def there(self, workload: PodWorkload, *, below: bool = False) -> list[objects.Pod]:
        """Return the existing pods of the workload; `below`: also through other owners."""
        return self.owners.pods(workload.object_id) if below else self.owners.direct(workload.object_id, workload.uid)

    def is_taken(self, workload: PodWorkload, name: str) -> bool:
        """Return whether a pod of this name exists."""
        return self._surroundings.names.is_taken(workload.namespace, name)

    def owned(self, workload: PodWorkload) -> list[Mapping[str, Any]]:
        """Return the owned objects of the input that create pods."""
        makers = (self.owners.maker(key) for key in self.owners.owned(workload.object_id))
        return [maker.manifest for maker in makers if maker is not None]

    def pods(
        self,
        workload: PodWorkload,
        template: Mapping[str, Any],
        path: str,
        *,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        group: str = "",
        owner: Mapping[str, Any] | None = None,
        tolerations: Sequence[Any] | None = None,
    ) -> Batch:
        """Return a batch for new pods. `owner`: their owner, if it is not the workload."""
        reference = reference_to(owner if owner is not None else workload.manifest)
        if owner is not None:
            meta = {**mapping(owner.get("metadata")), "namespace": workload.namespace}
            meta["ownerReferences"] = [msgspec.to_builtins(reference_to(workload.manifest))]
            self.makers.append(PodMaker({**owner, "metadata": meta}, workload.origin, workload.created))
        batch = Batch(
            workload,
            template,
            path,
            reference,
            labels or {},
            annotations or {},
            tolerations,
            group,
            self._surroundings.names,
        )
        self.batches.append(batch)
        return batch

    def child(
        self, workload: PodWorkload, child: Mapping[str, Any], path: str, *, inner: str = "", group: str = ""
    ) -> None:
        """Create and expand an object of the workload; an object of that name in the input takes precedence."""
        child = {**child, "metadata": {**child["metadata"], "namespace": workload.namespace}}
        object_id = object_id_of(child)
        existing = self.owners.maker(object_id)
        group = group or workload.group
        if workload.depth >= _DEEPEST:
            raise workload.error("", f"makes objects more than {_DEEPEST} levels deep")
        if existing is not None:
            self._expand(workload_of(existing, group=group, depth=workload.depth + 1))
            return
        meta = {**child["metadata"], "ownerReferences": [msgspec.to_builtins(reference_to(workload.manifest))]}
        child = {**child, "metadata": meta}
        self.makers.append(PodMaker(child, workload.origin, workload.created))
        self.adopt(workload, child)
        self._expand(
            PodWorkload(
                child,
                workload.origin,
                workload.subject,
                workload.created,
                object_id,
                inner,
                workload.place(path),
                group,
                workload.depth + 1,
                workload.dated,
            )
        )

    def adopt(self, workload: PodWorkload, child: Mapping[str, Any]) -> None:
        """Add a created object of a kind that the scheduler reads for its selector."""
        kind = kind_of(text(child.get("kind")), text(child.get("apiVersion")))
        if kind is not None and kind is not objects.Pod:
            meta = {**child["metadata"], "namespace": workload.namespace}
            self._extra.append((from_data(kind, {**child, "metadata": meta}, workload.origin), workload))

    def claim(self, workload: PodWorkload, claim: Json, path: str) -> None:
        """Add the claim of a pod, unless it exists."""
        name = claim["metadata"]["name"]
        if (workload.namespace, name) in self._claims:
            return
        self._claims.add((workload.namespace, name))
        namespaced_claim = {**claim, "metadata": {**claim["metadata"], "namespace": workload.namespace}}
        try:
            self._extra.append((from_data(objects.PersistentVolumeClaim, namespaced_claim, workload.origin), workload))
        except InputError as error:
            raise workload.error(".".join(filter(None, (path, error.path))), error.message) from None

    def runtime(self, workload: PodWorkload) -> Mapping[str, Any] | None:
        """Return the training runtime of a TrainJob, if it is in the input."""
        runtime = runtime_of(workload.manifest, self._surroundings.unknown)
        return runtime.manifest if runtime is not None else None

    def run_asked(self, workload: PodWorkload) -> bool:
        """Return whether a run of the CronJob was requested."""
        name = f"{workload.namespace}/{workload.name}"
        self._ran.add(name)
        return name in self._run

    def idle(self, workload: PodWorkload, path: str) -> None:
        """Record that the workload, or a part of it, is suspended by the field at a path."""
        _, kind, namespace, name = workload.object_id
        version = text(workload.manifest.get("apiVersion"))
        self.suspended.append(SuspendedInput(workload.origin, version, kind, namespace, name, path))

    def remark(self, workload: PodWorkload, message: str, unless: str = "", *, strict: bool = False) -> None:
        """Report an unread part of the workload once; `unless` the source of groups is enabled."""
        remark = Remark(workload.origin, workload.subject, message, unless, strict)
        if remark not in self._remarked:
            self._remarked.add(remark)
            self.remarks.append(remark)

    def problem(self, workload: PodWorkload, reason: str, *, scheduled: bool = False) -> None:
        """Record that the workload is not expanded."""
        kind = text(workload.manifest.get("kind"))
        self.problems.append(UnplannedObject(workload.origin, workload.subject, kind, reason, not scheduled))

    # -- typed -------------------------------------------------------------------------------------

    def additions(self) -> list[LoadedObject[Any]]:
        """Return all created objects in order; the surroundings do not include them yet."""
        surroundings = self._surroundings
        admission = surroundings.admission
        self.gangs.settle(self.batches, surroundings.groups)
        result: list[LoadedObject[Any]] = []

        def add(item: KubernetesObject, workload: PodWorkload, created: float) -> None:
            stamp = datetime.fromtimestamp(created, UTC)
            item = replace(item, metadata=replace(item.metadata, creation_timestamp=stamp))
            result.append(LoadedObject(item, workload.origin, surroundings.order, created, dated=workload.dated))
            surroundings.order += 1

        for item, workload in self._extra:
            item = finish(item, workload.origin)
            if not surroundings.has(item):
                add(item, workload, workload.created)
        for group, workload in self.gangs.groups(admission, surroundings.groups):
            add(group, workload, workload.created)
        for batch in self.batches:
            for pod in typed(batch, admission):
                add(pod, batch.workload, batch.workload.created)
        pods = [loaded for loaded in result if isinstance(loaded.object, objects.Pod)]
        check_nodes(pods, surroundings.node_names)
        check_groups([loaded for loaded in result if isinstance(loaded.object, objects.PodGroup)], pods)
        return result


_WHY_UNREAD: Final = {
    "queue": ": there are no queues here",
    "networkTopology": ": write it as schedulingConstraints of a PodGroup of scheduling.k8s.io",
}


def _shown(value: object) -> str:
    return f': "{excerpt(value)}"' if isinstance(value, str) else ""


def unknown_kind(item: UnknownObject) -> str:
    """Return the message about an object of an unknown kind."""
    hint = f", did you mean {item.nearest}?" if item.nearest else ": it is unknown whether it creates pods"
    return f'no kind "{item.kind[:64]}" is known in version "{item.api_version[:128]}"{hint}'


def is_unknown_kind(item: UnknownObject) -> bool:
    """Return whether no schema and no table of kinds without pods has the kind; False without schemas."""
    return item.known is False and item.kind not in WITHOUT_PODS.get(group_of(item.api_version), ())


def _is_paused(workload: PodWorkload) -> bool:
    spec = workload.spec
    return spec.get("suspend") is True or mapping(spec.get("runPolicy")).get("suspend") is True


def _is_over(workload: PodWorkload, row: WorkloadKind) -> bool:
    """Return whether the workload no longer requires pods (whatif.md 1.5)."""
    manifest = workload.manifest
    if any(value_at(manifest, path) in values for path, values in row.ended.items()):
        return True
    conditions = workload.status.get("conditions")
    return any(
        mapping(item).get("status") == "True" and mapping(item).get("type") in row.ended_conditions
        for item in (conditions if isinstance(conditions, list) else ())
    )
