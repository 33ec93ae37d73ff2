"""What makes pods for workloads: the order in which they are expanded, and what the rules of their kinds ask for.

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
from kube_rules.manifests import Loaded, PodMaker, Remark, Suspended, UnknownObject
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
"""Kinds with templates from which others make pods."""


class Unexpanded(NamedTuple):
    """An object that calls for pods that are not planned, and why."""

    origin: Origin
    subject: str
    kind: str
    reason: str
    certain: bool = True
    """Whether it does call for pods now; else it only may."""

    def __str__(self) -> str:
        return f"{self.origin}: {self.subject}: {self.reason}"


class Maker:
    """Makes what workloads call for in their surroundings, each as `expand` does by the rules of its kind."""

    def __init__(
        self,
        there: Surroundings,
        makers: Sequence[PodMaker],
        rows: Rows,
        expand: Callable[[Maker, PodWorkload, WorkloadKind], None],
        *,
        run: Sequence[str] = (),
        now: float = 0.0,
    ) -> None:
        self._there = there
        self._given = makers
        self._rows = rows
        self._expand_by_rule = expand
        self._run = {one if "/" in one else f"default/{one}" for one in run}
        self._ran: set[str] = set()
        self.makers = list(makers)
        self.owners = there.owners
        self.now = now
        self.problems: list[Unexpanded] = []
        self.suspended: list[Suspended] = []
        self.batches: list[Batch] = []
        self.unknown_fields: list[UnknownField] = []
        self._seen: set[Owner] = set()
        self.remarks: list[Remark] = []
        self._remarked: set[Remark] = set()
        self.gangs = WorkloadGangs(
            self.count, lambda one: [pod for pod in self.there(one, below=True) if is_active(pod)], self.remark
        )
        self._extra: list[tuple[KubernetesObject, PodWorkload]] = []
        self._claims: set[tuple[str, str]] = set()

    @property
    def nodes(self) -> Iterable[objects.Node]:
        """Return all nodes."""
        return self._there.nodes

    def make(self) -> None:
        """Expand everything."""
        defined: dict[Owner, Origin] = {}
        for item in self._given:
            first = defined.setdefault(object_id_of(item.manifest), item.origin)
            if first is not item.origin:
                message = f'Duplicate value: "{object_id_of(item.manifest)[3]}": already defined in {first}'
                subject = subject_of_maker(item.manifest)
                raise InputError(item.origin, message, path="metadata.name", subject=subject)
        for item in sorted(self._given, key=lambda one: self._depth(object_id_of(one.manifest))):
            object_id = object_id_of(item.manifest)
            if object_id not in self._seen:
                self._expand(workload_of(item))

    def check_runs(self) -> None:
        """Raise InputError where a run was asked for of a CronJob that is not there."""
        missing = sorted(self._run - self._ran)
        if missing:
            raise InputError(Origin("--run"), f"no CronJob {missing[0]} is in the input")

    def _depth(self, object_id: Owner) -> int:
        depth = 0
        above = self.owners.owner(object_id)
        while above is not None and depth < _DEEPEST:
            above, depth = self.owners.owner(above), depth + 1
        return depth

    def judge(self, found: UnknownObject) -> bool:
        """Judge an object of an unknown kind: it may hold pods. False: it surely does, as there is a template in it."""
        object_id = object_id_of(found.manifest)
        if not is_unknown_kind(found) or found.kind in _TEMPLATES_ONLY.get(group_of(found.api_version), ()):
            return True
        if self.owners.pods(object_id) or self.owners.owned(object_id):
            return True
        where = next((path_text(path) for path, _ in templates_in(found.manifest)), "")
        if where and not found.nearest:
            reason = f"its pods are not planned: it has a pod template at {where}, but its kind is unknown"
            self.problems.append(Unexpanded(found.origin, found.subject, found.kind, reason + _ROW_HINT))
        else:
            certain = bool(found.nearest)
            self.problems.append(Unexpanded(found.origin, found.subject, found.kind, unknown_kind(found), certain))
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
        """Report the fields, labels and annotations by which other schedulers queue it (workloads.md 5.5)."""
        if workload.outer:
            return  # of an object that the input does not have
        for path in row.unread:
            found = value_at(workload.manifest, path)
            if found and found != "default":
                self.remark(
                    workload, f"{path}{_shown(found)} is not read{_WHY_UNREAD.get(path.rpartition('.')[2], '')}"
                )
        for part, key in itertools.product(("labels", "annotations"), QUEUE_KEYS):
            found = mapping(workload.meta.get(part)).get(key)
            if found and found != "default":
                self.remark(workload, f"metadata.{part}[{key}]{_shown(found)} is not read{_WHY_UNREAD['queue']}")

    # -- what rules ask for ------------------------------------------------------------------------

    def template(self, workload: PodWorkload, path: str, found: Any) -> Mapping[str, Any] | None:
        """Return a pod template, if it is one; where there is none it is a problem."""
        if found is None:
            self.problem(workload, f"there is no pod template at {workload.place(path)}")
            return None
        if not isinstance(found, Mapping) or not isinstance(found.get("spec"), Mapping):
            raise workload.error(path, "Invalid value: must be a pod template, with metadata and spec")
        meta = found.get("metadata")
        for name in ("labels", "annotations"):
            values = mapping(meta).get(name)
            if values is not None and not (
                isinstance(values, Mapping) and all(isinstance(item, str) for item in values.values())
            ):
                raise workload.error(f"{path}.metadata.{name}", "Invalid value: must be a map of strings")
        return found

    def count(self, workload: PodWorkload, path: str, value: Any, default: int) -> int:
        """Return a number of pods, or the default. Raises InputError for anything else."""
        if value is None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            shown = str(value)[:64]
            raise workload.error(path, f"Invalid value: {shown}: must be a whole number greater than or equal to 0")
        return value

    def there(self, workload: PodWorkload, *, below: bool = False) -> list[objects.Pod]:
        """Return the pods that the workload has; `below`: through other owners as well."""
        return self.owners.pods(workload.object_id) if below else self.owners.direct(workload.object_id, workload.uid)

    def is_taken(self, workload: PodWorkload, name: str) -> bool:
        """Return whether a pod of this name is there."""
        return self._there.names.is_taken(workload.namespace, name)

    def owned(self, workload: PodWorkload) -> list[Mapping[str, Any]]:
        """Objects of the input that make pods and that it owns."""
        found = (self.owners.maker(key) for key in self.owners.owned(workload.object_id))
        return [maker.manifest for maker in found if maker is not None]

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
        """Return a batch to add pods to. `owner`: their owner, if not the workload."""
        reference = reference_to(owner if owner is not None else workload.manifest)
        if owner is not None:
            meta = {**mapping(owner.get("metadata")), "namespace": workload.namespace}
            meta["ownerReferences"] = [msgspec.to_builtins(reference_to(workload.manifest))]
            self.makers.append(PodMaker({**owner, "metadata": meta}, workload.origin, workload.created))
        batch = Batch(
            workload, template, path, reference, labels or {}, annotations or {}, tolerations, group, self._there.names
        )
        self.batches.append(batch)
        return batch

    def child(
        self, workload: PodWorkload, made: Mapping[str, Any], path: str, *, inner: str = "", group: str = ""
    ) -> None:
        """An object that the workload makes, expanded in turn; one of that name in the input counts instead."""
        made = {**made, "metadata": {**made["metadata"], "namespace": workload.namespace}}
        object_id = object_id_of(made)
        there = self.owners.maker(object_id)
        group = group or workload.group
        if workload.depth >= _DEEPEST:
            raise workload.error("", f"makes objects more than {_DEEPEST} levels deep")
        if there is not None:
            self._expand(workload_of(there, group=group, depth=workload.depth + 1))
            return
        meta = {**made["metadata"], "ownerReferences": [msgspec.to_builtins(reference_to(workload.manifest))]}
        made = {**made, "metadata": meta}
        self.makers.append(PodMaker(made, workload.origin, workload.created))
        self.adopt(workload, made)
        self._expand(
            PodWorkload(
                made,
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

    def adopt(self, workload: PodWorkload, made: Mapping[str, Any]) -> None:
        """Add a made object of a kind that a scheduler reads: sets of which a selector counts."""
        kind = kind_of(text(made.get("kind")), text(made.get("apiVersion")))
        if kind is not None and kind is not objects.Pod:
            meta = {**made["metadata"], "namespace": workload.namespace}
            self._extra.append((from_data(kind, {**made, "metadata": meta}, workload.origin), workload))

    def claim(self, workload: PodWorkload, claim: Json, path: str) -> None:
        """Add the claim of a pod, unless it exists."""
        name = claim["metadata"]["name"]
        if (workload.namespace, name) in self._claims:
            return
        self._claims.add((workload.namespace, name))
        made = {**claim, "metadata": {**claim["metadata"], "namespace": workload.namespace}}
        try:
            self._extra.append((from_data(objects.PersistentVolumeClaim, made, workload.origin), workload))
        except InputError as error:
            raise workload.error(".".join(filter(None, (path, error.path))), error.message) from None

    def runtime(self, workload: PodWorkload) -> Mapping[str, Any] | None:
        """Return the training runtime of a TrainJob, if it is in the input."""
        runtime = runtime_of(workload.manifest, self._there.unknown)
        return runtime.manifest if runtime is not None else None

    def run_asked(self, workload: PodWorkload) -> bool:
        """Return whether a run of the CronJob was asked for."""
        name = f"{workload.namespace}/{workload.name}"
        self._ran.add(name)
        return name in self._run

    def idle(self, workload: PodWorkload, path: str) -> None:
        """The workload, or a part of it, is suspended, as it says at a path."""
        _, kind, namespace, name = workload.object_id
        version = text(workload.manifest.get("apiVersion"))
        self.suspended.append(Suspended(workload.origin, version, kind, namespace, name, path))

    def remark(self, workload: PodWorkload, message: str, unless: str = "", *, strict: bool = False) -> None:
        """Report something of the workload that is not read, once; `unless` the source of groups is on."""
        remark = Remark(workload.origin, workload.subject, message, unless, strict)
        if remark not in self._remarked:
            self._remarked.add(remark)
            self.remarks.append(remark)

    def problem(self, workload: PodWorkload, reason: str, *, scheduled: bool = False) -> None:
        """The workload is not expanded."""
        kind = text(workload.manifest.get("kind"))
        self.problems.append(Unexpanded(workload.origin, workload.subject, kind, reason, not scheduled))

    # -- typed -------------------------------------------------------------------------------------

    def additions(self) -> list[Loaded[Any]]:
        """Return everything that was made, in order, and no part of the surroundings yet."""
        there = self._there
        admission = there.admission
        self.gangs.settle(self.batches, there.groups)
        result: list[Loaded[Any]] = []

        def add(item: KubernetesObject, workload: PodWorkload, created: float) -> None:
            stamp = datetime.fromtimestamp(created, UTC)
            item = replace(item, metadata=replace(item.metadata, creation_timestamp=stamp))
            result.append(Loaded(item, workload.origin, there.order, created, dated=workload.dated))
            there.order += 1

        for item, workload in self._extra:
            item = finish(item, workload.origin)
            if not there.has(item):
                add(item, workload, workload.created)
        for group, workload in self.gangs.groups(admission, there.groups):
            add(group, workload, workload.created)
        for batch in self.batches:
            for pod in typed(batch, admission):
                add(pod, batch.workload, batch.workload.created)
        pods = [loaded for loaded in result if isinstance(loaded.object, objects.Pod)]
        check_nodes(pods, there.node_names)
        check_groups([loaded for loaded in result if isinstance(loaded.object, objects.PodGroup)], pods)
        return result


_WHY_UNREAD: Final = {
    "queue": ": there are no queues here",
    "networkTopology": ": write it as schedulingConstraints of a PodGroup of scheduling.k8s.io",
}


def _shown(value: object) -> str:
    return f': "{excerpt(value)}"' if isinstance(value, str) else ""


def unknown_kind(found: UnknownObject) -> str:
    """Return the message about an object of an unknown kind."""
    hint = f", did you mean {found.nearest}?" if found.nearest else ": it is unknown whether it creates pods"
    return f'no kind "{found.kind[:64]}" is known in version "{found.api_version[:128]}"{hint}'


def is_unknown_kind(found: UnknownObject) -> bool:
    """Return whether neither a schema nor the table of kinds without pods has it; False where no schemas were given."""
    return found.known is False and found.kind not in WITHOUT_PODS.get(group_of(found.api_version), ())


def _is_paused(workload: PodWorkload) -> bool:
    spec = workload.spec
    return spec.get("suspend") is True or mapping(spec.get("runPolicy")).get("suspend") is True


def _is_over(workload: PodWorkload, row: WorkloadKind) -> bool:
    """Return whether it no longer calls for pods (whatif.md 1.5)."""
    manifest = workload.manifest
    if any(value_at(manifest, path) in values for path, values in row.ended.items()):
        return True
    conditions = workload.status.get("conditions")
    return any(
        mapping(item).get("status") == "True" and mapping(item).get("type") in row.ended_conditions
        for item in (conditions if isinstance(conditions, list) else ())
    )
