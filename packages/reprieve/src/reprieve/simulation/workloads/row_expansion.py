"""Expansion by rows of the table: the pod sets of an object, or intermediate objects (whatif.md 2, 3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kube_rules.controllers.pods import PodParts
from kube_rules.json import mapping, text
from kube_rules.unknown_fields import UnknownField, nearest
from kube_rules.workloads import group_of
from reprieve.simulation.workloads.batches import LONGEST_BASE, Batch, PodWorkload, reference_to
from reprieve.simulation.workloads.owners import is_active
from reprieve.simulation.workloads.rows import PodSet, WorkloadKind, entries_of, filled, value_at

if TYPE_CHECKING:
    from reprieve.simulation.workloads.expansion_order import Maker


def by_row(maker: Maker, workload: PodWorkload, row: WorkloadKind) -> None:
    """Create the pods and objects that the row of a workload describes."""
    of_kubernetes = group_of(text(workload.manifest.get("apiVersion"))) in ("", "apps", "extensions")
    if of_kubernetes and "template" not in workload.spec:
        return  # a stub in a snapshot, kept for its selector
    problems, expansion = len(maker.problems), _RowExpansion(maker, workload, row)
    for pods in row.sets:
        if all(value_at(workload.manifest, path) in values for path, values in pods.when.items()):
            expansion.make_set(pods)
        if len(maker.problems) > problems:
            return


class _RowExpansion:
    """The expansion of one workload by the row of its kind."""

    def __init__(self, maker: Maker, workload: PodWorkload, row: WorkloadKind) -> None:
        self._maker, self._workload, self._row = maker, workload, row

    def make_set(self, pods: PodSet) -> None:
        entries = list(self._entries(pods))
        if not entries and not pods.optional:
            self._maker.problem(
                self._workload,
                f"there is no pod template: nothing at {self._workload.place(pods.each)}{self._meant(pods.each)}",
            )
            return
        for path, part, entry in entries:
            self._entry(pods, path, part, entry)
            if self._maker.problems and self._maker.problems[-1].subject == self._workload.subject:
                return

    def _entry(self, pods: PodSet, path: str, part: str, entry: Any) -> None:
        if pods.suspended and value_at(entry, pods.suspended) is True:
            self._maker.idle(self._workload, ".".join(filter(None, (path, pods.suspended))))
            return
        at, template = "", None
        for at in (pods.template,) if isinstance(pods.template, str) else pods.template:
            template = value_at(entry, at)
            if template is not None:
                break
        where = ".".join(filter(None, (path, at)))
        if template is None and pods.otherwise:
            template = pods.otherwise
        if template is None:
            self._misnamed(path, entry, at)
            self._maker.problem(self._workload, f"there is no template at {self._workload.place(where)}")
            return
        replicas = self._number(path, entry, pods.replicas, pods.default)
        for bound, choose in ((pods.least, max), (pods.most, min)):
            limit = value_at(entry, bound) if bound else None
            if limit is not None:
                replicas = choose(replicas, self._maker.count(self._workload, f"{path}.{bound}", limit, 0))
        size = self._number(path, entry, pods.size, 1)
        members = max(0, size - pods.less)
        start = (
            self._maker.count(self._workload, f"{path}.{pods.start}", value_at(entry, pods.start), 0)
            if pods.start
            else 0
        )
        values: dict[str, object] = {
            "name": self._workload.name,
            "namespace": self._workload.namespace,
            "part": part,
            "replicas": replicas,
            "size": size if pods.less or pods.size != 1 else self._size_of(entry),
        }
        if pods.makes == "v1 Pod":
            self._pods(pods, where, template, values, range(start, start + replicas), members)
        else:
            for index in range(start, start + replicas):
                self._made_object(pods, where, template, {**values, "index": index, "replica": index})

    def _pods(
        self, pods: PodSet, where: str, template: Any, values: dict[str, object], replicas: range, members: int
    ) -> None:
        checked = self._maker.template(self._workload, where, template)
        if checked is None:
            return
        checked, inherited = self._with_defaults(pods, checked)
        part = str(values["part"])
        fixed = {**pods.labels, **pods.labels_of.get(part, {})}
        generated = pods.name.endswith("-")
        have = 0
        if generated:
            same = {key: filled(value, values) for key, value in fixed.items() if not varies(value)}
            direct = [pod for pod in self._maker.there(self._workload) if is_active(pod)]
            have = sum(all(pod.metadata.labels.get(key) == value for key, value in same.items()) for pod in direct)
            if have == 0 and len(self._row.sets) == 1 and not pods.each.endswith("*"):
                have = len(direct)
        index = 0
        for replica in replicas:
            batch: Batch | None = None
            for member in range(pods.less, pods.less + members):
                values |= {"index": replicas.start + index, "replica": replica, "member": member}
                index += 1
                if index <= have:
                    continue
                name = filled(pods.name, values)
                if not generated and self._maker.is_taken(self._workload, name):
                    continue
                if batch is None or self._row.gang == "replica" or pods.owner:
                    piece = part or ("worker" if pods.less else "leader"), str(replica)
                    group = self._maker.gangs.of(self._workload, self._row, self._gang_part(part, replica), piece)
                    owner = _owner_named(filled(pods.owner, values)) if pods.owner else None
                    batch = self._batch_of(batch, checked, where, group, owner)
                    batch.inherited = inherited
                labels = {key: filled(value, values) for key, value in fixed.items()}
                annotations = {key: filled(value, values) for key, value in pods.annotations.items()}
                batch.add(PodParts(name, labels, annotations, filled(pods.hostname, values)))

    def _with_defaults(self, pods: PodSet, template: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, str]]:
        """Return the template with the object's defaults for its pods, and the path of each such field."""
        spec = mapping(template.get("spec"))
        defaults = {
            name: value_at(self._workload.manifest, path)
            for name, path in pods.pod_defaults.items()
            if not spec.get(name)
        }
        set_defaults = {name: value for name, value in defaults.items() if value}
        if not set_defaults:
            return template, {}
        return {**template, "spec": {**spec, **set_defaults}}, {
            f"spec.{name}": pods.pod_defaults[name] for name in set_defaults
        }

    def _batch_of(
        self, last: Batch | None, template: Mapping[str, Any], where: str, group: str, owner: Mapping[str, Any] | None
    ) -> Batch:
        """Return the last batch if the next pod belongs to it, else a new one."""
        if last is not None and last.group == group and (owner is None or reference_to(owner) == last.owner):
            return last
        return self._maker.pods(self._workload, template, where, group=group, owner=owner)

    def _gang_part(self, part: str, replica: object) -> str:
        return str(replica) if self._row.gang == "replica" else part if self._row.gang == "part" else ""

    def _made_object(self, pods: PodSet, where: str, template: Any, values: dict[str, object]) -> None:
        """Create an intermediate object, such as a Job of a JobSet."""
        if not isinstance(template, Mapping):
            raise self._workload.error(where, "must be an object")
        version, kind = pods.makes.split()
        labels = {key: filled(value, values) for key, value in pods.labels.items()}
        annotations = {key: filled(value, values) for key, value in pods.annotations.items()}
        above = self._workload.meta if pods.inherits else {}
        meta, spec, inner = mapping(template.get("metadata")), mapping(template.get("spec")), ""
        if pods.template_of == "spec":
            meta, spec, inner = {}, template, "spec"
        elif pods.template_of == "pod":
            meta, spec, inner = {}, {"template": template}, "spec.template"
        spec = {**pods.spec, **spec}
        pod = spec.get("template")
        if pods.on_pods and isinstance(pod, Mapping):
            pod_meta = mapping(pod.get("metadata"))
            pod_meta = {
                **pod_meta,
                "labels": {**mapping(pod_meta.get("labels")), **labels},
                "annotations": {**mapping(pod_meta.get("annotations")), **annotations},
            }
            spec = {**spec, "template": {**pod, "metadata": pod_meta}}
        name = text(value_at(self._workload.manifest, pods.named_in)) if pods.named_in else ""
        child = {
            "apiVersion": version,
            "kind": kind,
            "metadata": {
                "name": name or _completed(filled(pods.name, values)),
                "labels": {**mapping(above.get("labels")), **mapping(meta.get("labels")), **labels},
                "annotations": {**mapping(above.get("annotations")), **mapping(meta.get("annotations")), **annotations},
            },
            "spec": spec,
        }
        part, replica = str(values["part"]), str(values["replica"])
        group = self._maker.gangs.of(self._workload, self._row, self._gang_part(part, replica), (part, replica))
        self._maker.child(self._workload, child, where, inner=inner, group=group)

    def _entries(self, pods: PodSet) -> Iterator[tuple[str, str, Any]]:
        """Yield (path, part, entry) of every entry of a set. Raises InputError for an invalid entry."""
        path = pods.each.removesuffix("*").removesuffix(".")
        entries = value_at(self._workload.manifest, path)
        if entries is not None and pods.each.endswith("*") and not isinstance(entries, list | Mapping):
            raise self._workload.error(path, "must be a list or a map")
        for at, part, entry in entries_of(self._workload.manifest, pods):
            if not isinstance(entry, Mapping):
                raise self._workload.error(at, "must be an object")
            yield at, part, entry

    def _number(self, path: str, entry: Any, where: int | str, default: int) -> int:
        if isinstance(where, int):
            return where
        value = value_at(entry, where)
        if value is None:
            self._misnamed(path, entry, where)
        return self._maker.count(self._workload, ".".join(filter(None, (path, where))), value, default)

    def _size_of(self, entry: Any) -> int:
        """Return the total number of pods of a replica, for a set with one of them."""
        size_path = next((pods.size for pods in self._row.sets if isinstance(pods.size, str)), "")
        return self._maker.count(self._workload, size_path, value_at(entry, size_path), 1) if size_path else 1

    def _misnamed(self, path: str, entry: Any, missing: str) -> None:
        """Record a field that is probably a misspelling of a missing one."""
        known_steps = {step for pods in self._row.sets for item in _paths_of(pods) for step in item.split(".")}
        *above, last = missing.split(".")
        entry = value_at(entry, ".".join(above))
        for name in mapping(entry):
            if isinstance(name, str) and name not in known_steps and nearest(name, [last]) == last:
                steps = steps_of(self._workload.place(".".join(filter(None, (path, *above)))))
                self._maker.unknown_fields.append(
                    UnknownField(self._workload.origin, self._workload.subject, (*steps, name), last)
                )

    def _meant(self, path: str) -> str:
        """Return `, did you mean ...` for a path with a misspelled last step."""
        *above, last = path.removesuffix(".*").split(".")
        meant = next(
            (
                name
                for name in mapping(value_at(self._workload.manifest, ".".join(above)))
                if nearest(str(name), [last])
            ),
            "",
        )
        return f' (is "{meant}" meant to be "{last}"?)' if meant else ""


def _owner_named(reference: str) -> Mapping[str, Any]:
    version, kind, name = reference.split()
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}}


def _completed(name: str) -> str:
    return f"{name[:LONGEST_BASE]}00000" if name.endswith("-") else name


def varies(label: str) -> bool:
    """Return whether a text differs between the pods of a set, or with their number."""
    return any(f"{{{item}}}" in label for item in ("index", "replica", "member", "replicas"))


def _paths_of(pods: PodSet) -> Iterator[str]:
    yield pods.part
    yield pods.each
    yield from (pods.template,) if isinstance(pods.template, str) else pods.template
    yield from (
        item for item in (pods.replicas, pods.size, pods.least, pods.most, pods.suspended) if isinstance(item, str)
    )


def steps_of(path: str) -> tuple[str | int, ...]:
    """Return `spec.tasks[0]` as steps."""
    steps = filter(None, path.replace("[", ".[").split("."))
    return tuple(int(step[1:-1]) if step.startswith("[") else step for step in steps)
