"""Workloads by name: their pods and groups, other counts, other priorities, and removal (whatif.md 4).

If a workload's template is in the input, its manifest is changed, and expansion adapts its pods. If only its pods are
in the input, as in a snapshot, the pods are changed, and new ones are copies of one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kube_rules import objects
from kube_rules.controllers.pods import deletion_rank
from kube_rules.decoding import KINDS
from kube_rules.errors import FieldError
from kube_rules.group_sources import pod_group_name
from kube_rules.json import mapping, text
from kube_rules.manifests import LoadedObject, Manifests
from kube_rules.unknown_fields import Path, did_you_mean, nearest
from kube_rules.workloads import POD_MAKERS, group_of, templates_in
from reprieve.simulation.workloads.owners import (
    Owner,
    Owners,
    deployment_of,
    is_active,
    object_id_of,
    reference_of,
    runtime_of,
    whole_number,
)
from reprieve.simulation.workloads.row_expansion import steps_of, varies
from reprieve.simulation.workloads.rows import PodSet, Rows, WorkloadKind, entries_of, filled, value_at

_SHORT: Final = {
    "deploy": "deployment",
    "ds": "daemonset",
    "rs": "replicaset",
    "rc": "replicationcontroller",
    "sts": "statefulset",
    "cj": "cronjob",
    "po": "pod",
    "pg": "podgroup",
    "pdb": "poddisruptionbudget",
    "lws": "leaderworkerset",
    "vcjob": "job.batch.volcano.sh",
    "vj": "job.batch.volcano.sh",
    "no": "node",
    "pvc": "persistentvolumeclaim",
    "pc": "priorityclass",
}
_HIGHEST_ORDINAL: Final = 2**31 - 1


class NotThereError(FieldError):
    """The named object is not in the input, or nothing of it is; it may exist after expansion."""


class NamedObject(NamedTuple):
    """A named object of the input. `part`: one of its sets of pods."""

    group: str
    kind: str
    namespace: str
    name: str
    part: str = ""

    @property
    def owner(self) -> Owner:
        """Return it as an owner of pods."""
        return self.group, self.kind, self.namespace, self.name

    @property
    def key(self) -> str:
        """Return `namespace/name`, or the name of a cluster-scoped object."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    def __str__(self) -> str:
        part = f" ({self.part})" if self.part else ""
        return f"{self.kind.lower()} {self.key}{part}"


class _Count(NamedTuple):
    """A count of a workload, and its pods. `path`: its place in the object."""

    path: Path
    part: str
    pods: PodSet
    entry: Mapping[str, Any]


class Workloads:
    """The workloads of an input that is being changed; each result reflects the current input."""

    def __init__(self, manifests: Manifests, rows: Rows) -> None:
        self._manifests = manifests
        self._rows = rows

    # -- by name -----------------------------------------------------------------------------------

    def named(self, text: str) -> NamedObject:
        """Return the object that `[NAMESPACE/]KIND/NAME[/PART]` names. Raises FieldError for none or several."""
        parts = text.strip().split("/")
        if not 2 <= len(parts) <= 4 or not all(parts):
            raise FieldError("", f'"{text}": expected KIND/NAME or NAMESPACE/KIND/NAME')
        kinds = self._kinds()
        if len(parts) > 2 and _singular(parts[0], kinds) is None:
            namespace, kind, name, *rest = parts
        else:
            namespace, (kind, name, *rest) = "default", parts
        singular = _singular(kind, kinds)
        if singular is None:
            raise FieldError("", f'no kind "{kind}"{did_you_mean(nearest(kind.lower(), kinds))}')
        kind, _, group = singular.partition(".")
        matches = {
            item
            for item in self._all()
            if item.kind.lower() == kind
            and (not group or item.group == group)
            and item.name == name
            and item.namespace in (namespace, "")
        }
        if not matches:
            hint = did_you_mean(self._meant(kind, namespace, name))
            raise NotThereError("", f"no {kind} {namespace}/{name} is in the input{hint}")
        if len(matches) > 1:
            groups = " or ".join(f"{kind}.{item.group}/{name}" for item in sorted(matches))
            raise FieldError("", f"{text} names {len(matches)} objects: specify one of {groups}")
        (workload,) = matches
        return workload._replace(part=rest[0] if rest else "")

    def _meant(self, kind: str, namespace: str, name: str) -> str:
        """Return a name to suggest if `named` finds none: the same in another namespace, else a similar one; or ""."""
        names = sorted({(item.namespace, item.name) for item in self._all() if item.kind.lower() == kind})
        similar = name if any(other_name == name for _, other_name in names) else ""
        similar = similar or nearest(name, [other_name for space, other_name in names if space in (namespace, "")])
        similar = similar or nearest(name, [other_name for _, other_name in names])
        spaces = [space for space, other_name in names if other_name == similar]
        if not spaces:
            return ""
        space = namespace if namespace in spaces else spaces[0]
        return f"{kind}/{similar}" if space in ("default", "") else f"{space}/{kind}/{similar}"

    def _all(self) -> Iterator[NamedObject]:
        for maker in self._manifests.pod_makers:
            yield NamedObject(*object_id_of(maker.manifest))
        for item in self._manifests.unknown:
            yield NamedObject(*object_id_of(item.manifest))
        for kind, loaded_objects in self._manifests.objects.items():
            group = kind.API_VERSION.rpartition("/")[0]
            for loaded in loaded_objects:
                namespace = (loaded.object.namespace or "default") if kind.NAMESPACED else ""
                yield NamedObject(group, kind.KIND, namespace, loaded.object.name)
        for loaded in self._manifests.pods:
            reference = reference_of(loaded.object)
            if reference is not None:
                group = reference.api_version.rpartition("/")[0]
                namespace = loaded.object.namespace or "default"
                # A static pod belongs to its node, which has no namespace.
                own = "" if (group, reference.kind) == ("", objects.Node.KIND) else namespace
                yield NamedObject(group, reference.kind, own, reference.name)
                deployment = deployment_of(loaded.object)
                if deployment:
                    yield NamedObject(group, "Deployment", namespace, deployment)

    def _kinds(self) -> set[str]:
        return {item.kind.lower() for item in self._all()} | {
            kind.lower() for kinds in (KINDS, *POD_MAKERS.values()) for kind in kinds
        }

    # -- members ----------------------------------------------------------------------------------

    def pods_of(self, workload: NamedObject) -> list[LoadedObject[objects.Pod]]:
        """Return the pods of a workload that have not ended, directly or through others."""
        if workload.kind == "Pod":
            return [loaded for loaded in self._manifests.pods if loaded.object.key == workload.key]
        if workload.kind == "PodGroup":
            return [
                loaded
                for loaded in self._manifests.pods
                if loaded.object.namespace == workload.namespace and pod_group_name(loaded.object) == workload.name
            ]
        owners = Owners.of(self._manifests)
        above = [workload.owner, *self._makes(workload)]
        names = {(pod.namespace, pod.name) for item in above for pod in (*owners.pods(item), *owners.direct(item))}
        return [
            loaded
            for loaded in self._manifests.pods
            if (loaded.object.namespace, loaded.object.name) in names
            or (workload.kind == "Deployment" and _is_of_deployment(loaded.object, workload))
        ]

    def _makes(self, workload: NamedObject) -> Iterator[Owner]:
        """Yield the intermediate owners of a workload's pods by their names; they need not be in the input."""
        index = self._maker(workload)
        manifest = self._manifests.pod_makers[index].manifest if index is not None else {}
        row = self._rows.of(text(manifest.get("apiVersion")), workload.kind)
        for item in _counts(row, manifest) if row is not None else ():
            number = _number(value_at(item.entry, str(item.pods.replicas)), item.pods.default)
            between = {f"{item.pods.makes} {name}" for name in _names(item, workload, number)}
            if item.pods.makes == "v1 Pod":
                values = _values(item, workload, number)
                between = {filled(item.pods.owner, {**values, "replica": turn}) for turn in range(number)} - {""}
            for version, kind, name in map(str.split, between):
                yield group_of(version), kind, workload.namespace, name

    def members(
        self, workload: NamedObject
    ) -> tuple[list[LoadedObject[objects.Pod]], list[LoadedObject[objects.PodGroup]]]:
        """Return the pods of a workload and their groups with all members, which share one priority."""
        pods = self.pods_of(workload)
        named = {(item.object.namespace, name) for item in pods if (name := pod_group_name(item.object)) is not None}
        if workload.kind == "PodGroup":
            named.add((workload.namespace, workload.name))
        groups = [item for item in self._manifests.pod_groups if (item.object.namespace, item.object.name) in named]
        names = {(item.object.namespace, item.object.name) for item in pods}
        for loaded in self._manifests.pods:
            group = pod_group_name(loaded.object)
            key = (loaded.object.namespace, loaded.object.name)
            if group is not None and (key[0], group) in named and key not in names:
                pods.append(loaded)
        return pods, groups

    def makes_daemons(self, pod: objects.Pod) -> bool:
        """Return whether the input has the DaemonSet of a pod with its template, which creates pods of new nodes."""
        reference = reference_of(pod)
        if reference is None:
            return False
        key = ("apps", "DaemonSet", pod.namespace or "default", reference.name)
        return any(
            object_id_of(maker.manifest) == key and "template" in mapping(maker.manifest.get("spec"))
            for maker in self._manifests.pod_makers
        )

    # -- changes -----------------------------------------------------------------------------------

    def scale(
        self, workload: NamedObject, number: int
    ) -> tuple[int, list[LoadedObject[objects.Pod]], list[LoadedObject[objects.Pod]]]:
        """Set the count of a workload; return the old count, the pods to remove, and the pods to copy.

        Raises FieldError if nothing states the count.
        """
        index = self._maker(workload)
        manifest = self._manifests.pod_makers[index].manifest if index is not None else None
        existing = sorted((pod for pod in self.pods_of(workload) if is_active(pod.object)), key=_goes_last(workload))
        if manifest is None or not _has_template_or_runtime(manifest):
            if not existing:
                raise NotThereError("", f"{workload} has no template and no pods: nothing to scale")
            return len(existing), existing[number:], existing[:1] * (number - len(existing))
        row = self._rows.of(text(manifest.get("apiVersion")), workload.kind)
        if row is None:
            raise FieldError("", f"{workload}: there is no row for its kind")
        counts = list(_counts(row, manifest))
        scaled: Path | None = tuple(row.scale.split(".")) if row.scale and not workload.part else None
        if scaled is None:
            places = {item.path: item.part for item in counts if workload.part.lower() in ("", item.part.lower())}
            if len(places) != 1:
                raise FieldError("", _which(workload, sorted({item.part for item in counts})))
            (scaled,) = places
        meant = [item for item in counts if item.path == scaled]
        for item in meant:
            most = value_at(item.entry, item.pods.most) if item.pods.most else None
            if isinstance(most, int) and number > most:
                raise FieldError("", f"{workload}: no more than its {item.pods.most}, {most}")
        before = _number(_at(manifest, scaled), meant[0].pods.default if meant else self._nodes_of_runtime(manifest))
        self._replace(index, _with(manifest, scaled, number))
        if workload.kind == "StatefulSet":
            first = _number(value_at(manifest, "spec.ordinals.start"), 0)
            return before, [pod for pod in existing if _ordinal(pod.object.name) >= first + number], []
        if not meant:
            return before, existing[number:], []
        return before, _beyond(existing, meant, workload, number), []

    def _nodes_of_runtime(self, manifest: Mapping[str, Any]) -> int:
        """Return the default number of nodes of a TrainJob: that of its runtime, else one (whatif.md 2.5)."""
        runtime = runtime_of(manifest, self._manifests.unknown)
        return _number(value_at(runtime.manifest, "spec.mlPolicy.numNodes"), 1) if runtime is not None else 1

    def set_priority(self, workload: NamedObject, name: str, number: int) -> int:
        """Set the priority in the templates of a workload; return how many there were."""
        index = self._maker(workload)
        if index is None:
            return 0
        manifest, templates = _with_priority(self._manifests.pod_makers[index].manifest, name, number)
        if not templates:
            manifest, templates = self._with_own_runtime(manifest, workload, name, number)
        self._replace(index, manifest)
        return templates

    def _with_own_runtime(
        self, manifest: Mapping[str, Any], workload: NamedObject, name: str, number: int
    ) -> tuple[Mapping[str, Any], int]:
        """Return a TrainJob with another priority in its own copy of its runtime, because others may use it."""
        runtime = runtime_of(manifest, self._manifests.unknown)
        if runtime is None:
            return manifest, 0
        changed, templates = _with_priority(runtime.manifest, name, number)
        own = f"{text(mapping(changed.get('metadata')).get('name'))} of {workload.name}"  # not a valid object name
        kind = "TrainingRuntime"
        meta = {**mapping(changed.get("metadata")), "name": own, "namespace": workload.namespace}
        changed = {**changed, "kind": kind, "metadata": meta}
        self._manifests.unknown.append(runtime._replace(kind=kind, manifest=changed))
        return _with(manifest, ("spec", "runtimeRef"), {"kind": kind, "name": own}), templates

    def remove(
        self, workload: NamedObject
    ) -> tuple[list[LoadedObject[objects.Pod]], list[LoadedObject[objects.PodGroup]]]:
        """Remove a workload and its owned objects from the input; return its pods and groups."""
        pods = self.pods_of(workload)
        named = {(loaded.object.namespace, pod_group_name(loaded.object)) for loaded in pods}
        going = {(loaded.object.namespace, loaded.object.name) for loaded in pods}
        staying = {
            (loaded.object.namespace, pod_group_name(loaded.object))
            for loaded in self._manifests.pods
            if (loaded.object.namespace, loaded.object.name) not in going
        }
        alone = {key for key in named - staying if key[1] is not None} if workload.kind != "Pod" else set()
        if workload.kind == "PodGroup":
            alone = {(workload.namespace, workload.name)}
        groups = [
            loaded for loaded in self._manifests.pod_groups if (loaded.object.namespace, loaded.object.name) in alone
        ]
        owners = Owners.of(self._manifests)
        removed: set[Owner] = set()
        todo = [workload.owner]
        while todo:
            key = todo.pop()
            if key not in removed:
                removed.add(key)
                todo += owners.owned(key)
        makers = self._manifests.pod_makers
        makers[:] = [maker for maker in makers if object_id_of(maker.manifest) not in removed]
        unknown = self._manifests.unknown
        unknown[:] = [item for item in unknown if object_id_of(item.manifest) not in removed]
        for kind, listed in self._manifests.objects.items():
            if kind not in (objects.Pod, objects.PodGroup):
                group = kind.API_VERSION.rpartition("/")[0]
                listed[:] = [
                    loaded
                    for loaded in listed
                    if (
                        group,
                        kind.KIND,
                        (loaded.object.namespace or "default") if kind.NAMESPACED else "",
                        loaded.object.name,
                    )
                    not in removed
                ]
        return pods, groups

    def _maker(self, workload: NamedObject) -> int | None:
        makers = enumerate(self._manifests.pod_makers)
        return next((index for index, maker in makers if object_id_of(maker.manifest) == workload.owner), None)

    def _replace(self, index: int | None, manifest: Mapping[str, Any]) -> None:
        if index is not None:
            makers = self._manifests.pod_makers
            makers[index] = makers[index]._replace(manifest=manifest)


def _singular(kind: str, kinds: Iterable[str]) -> str | None:
    """Return `deployment` for `Deployments`, `deploy` and `deployment.apps`; None for an unknown kind."""
    name, dot, group = kind.lower().partition(".")
    name = _SHORT.get(name, name)
    if name.partition(".")[0] in kinds:
        return name + dot + group
    return name[:-1] + dot + group if name.endswith("s") and name[:-1] in kinds else None


def makes_pods_by_name(kind: str, rows: Rows | None = None) -> bool:
    """Return whether a kind as typed (`deploy`, `jobs`) creates pods; `rows`: with additional kinds."""
    names = {kind_name.lower() for kinds in POD_MAKERS.values() for kind_name in kinds}
    names |= {kind_name.lower() for _, kind_name in rows.kinds()} if rows is not None else set()
    return _singular(kind, names) is not None


def makers_named(text: str) -> list[tuple[str, str, str, str]]:
    """Return the named pod maker: kind, API group if typed, namespace, name. Empty if there is none."""
    makers = {kind.lower(): kind for kinds in POD_MAKERS.values() for kind in kinds}
    parts = text.strip().split("/")
    result = []
    for namespace, (kind, *rest) in (("default", parts), (parts[0], parts[1:] or [""])):
        singular = _singular(kind, makers)
        if singular is not None and rest and all(parts):
            plain, _, group = singular.partition(".")
            if not group or makers[plain] in POD_MAKERS.get(group, ()):
                result.append((makers[plain], group, namespace, rest[0]))
    return result[:1]


def _is_of_deployment(pod: objects.Pod, workload: NamedObject) -> bool:
    return (pod.namespace or "default") == workload.namespace and deployment_of(pod) == workload.name


def _goes_last(workload: NamedObject) -> Callable[[LoadedObject[objects.Pod]], tuple[Any, ...]]:
    """Return a sort key for pods, with those that scaling down removes first at the end."""
    if workload.kind == "StatefulSet":
        return lambda loaded: (_ordinal(loaded.object.name), loaded.object.name)

    def key(loaded: LoadedObject[objects.Pod]) -> tuple[Any, ...]:
        pod = loaded.object
        ready = all(condition.status == "True" for condition in pod.status.conditions if condition.type == "Ready")
        rank = deletion_rank(pod.spec.node_name, pod.status.phase, ready, pod.metadata.annotations)
        return (*(-part for part in rank), loaded.created, pod.name)

    return key


def _ordinal(name: str) -> int:
    """Return the ordinal of a StatefulSet's pod as its controller reads it: an int32 after the last hyphen, else 0."""
    return whole_number(name.rpartition("-")[2], _HIGHEST_ORDINAL) or 0


def _with_priority(manifest: Mapping[str, Any], name: str, number: int) -> tuple[Mapping[str, Any], int]:
    """Return an object with another priority in its pod templates, and the number of templates."""
    places = [path for path, _ in templates_in(manifest)]
    for path in places:
        at: Any = manifest
        for step in path:
            at = at[step]
        spec = {key: value for key, value in at["spec"].items() if key not in ("priorityClassName", "priority")}
        spec |= {"priorityClassName": name} if name else {"priority": number}
        manifest = _with(manifest, (*path, "spec"), spec)
    return manifest, len(places)


def _has_template_or_runtime(manifest: Mapping[str, Any]) -> bool:
    """Return whether an object has a pod template or names a runtime; a stub in a snapshot does not."""
    return "runtimeRef" in mapping(manifest.get("spec")) or any(True for _ in templates_in(manifest))


def _counts(row: WorkloadKind, manifest: Mapping[str, Any]) -> Iterator[_Count]:
    """Yield every settable count of an object with its pods; outside of a list the part is the field name."""
    for pods in row.sets:
        for path, part, entry in entries_of(manifest, pods):
            if isinstance(pods.replicas, str):
                steps = steps_of(path)
                named = part or (str(steps[-1]).lower() if steps else "")
                yield _Count((*steps, *pods.replicas.split(".")), named, pods, mapping(entry))


def _which(workload: NamedObject, parts: Sequence[str]) -> str:
    """Return the message for a count that is not unique."""
    if not parts:
        return f"{workload}: its kind has no count to set"
    choices = " or ".join(f"{workload.kind.lower()}/{workload.name}/{part}" for part in parts[:8])
    if workload.part:
        hint = did_you_mean(nearest(workload.part.lower(), parts))
        return f"{workload}: no such part{f'{hint} It' if hint else '; it'} has {choices}"
    return f"{workload} has several counts: specify {choices}"


def _beyond(
    existing: list[LoadedObject[objects.Pod]], counts: Sequence[_Count], workload: NamedObject, number: int
) -> list[LoadedObject[objects.Pod]]:
    """Return the pods to remove from sets with fewer replicas; a pod that one of the sets keeps stays."""
    going: dict[int, LoadedObject[objects.Pod]] = {}
    kept_ids: set[int] = set()
    for count in counts:
        same = _of_set(existing, count, workload, number)
        if count.pods.name.endswith("-"):
            staying = same[: number * len(_members(count))]
        else:
            names = _names(count, workload, number)
            staying = [loaded for loaded in same if _name_in_set(loaded.object, count) in names]
        kept_ids.update(map(id, staying))
        going |= {id(loaded): loaded for loaded in same}
    return [loaded for key, loaded in going.items() if key not in kept_ids]


def _of_set(
    existing: list[LoadedObject[objects.Pod]], count: _Count, workload: NamedObject, number: int
) -> list[LoadedObject[objects.Pod]]:
    """Return the pods with the labels of a set, or else with its names."""
    pods, values = count.pods, _values(count, workload, number)
    labels = {**pods.labels, **pods.labels_of.get(str(values["part"]), {})}
    labels = {key: filled(label, values) for key, label in labels.items() if not varies(label)}
    same = [
        item for item in existing if all(item.object.metadata.labels.get(key) == label for key, label in labels.items())
    ]
    if same or pods.name.endswith("-"):
        return same
    prefix = filled(pods.name, {**values, "index": "", "replica": "", "member": ""}).rstrip("-")
    return [item for item in existing if _name_in_set(item.object, count).startswith(f"{prefix}-")]


def _names(count: _Count, workload: NamedObject, number: int) -> set[str]:
    """Return the names of a number of replicas of a set: its pods, or its created objects."""
    values = _values(count, workload, number)
    first = _number(value_at(count.entry, count.pods.start), 0) if count.pods.start else 0
    turns = ((first + replica, member) for replica in range(number) for member in _members(count))
    return {
        filled(count.pods.name, {**values, "index": first + turn, "replica": replica, "member": member})
        for turn, (replica, member) in enumerate(turns)
    }


def _values(count: _Count, workload: NamedObject, number: int) -> dict[str, object]:
    part = count.part if count.pods.each.endswith("*") else ""
    size = _members(count).stop
    return {"name": workload.name, "namespace": workload.namespace, "part": part, "replicas": number, "size": size}


def _members(count: _Count) -> range:
    """Return the pods of one replica, by their index in it."""
    size = count.pods.size
    of_each = _number(value_at(count.entry, size), 1) if isinstance(size, str) else size
    return range(count.pods.less, max(of_each, count.pods.less))


def _name_in_set(pod: objects.Pod, count: _Count) -> str:
    """Return the name of the pod, or of its intermediate owner."""
    owner = reference_of(pod)
    return pod.name if count.pods.makes == "v1 Pod" or owner is None else owner.name


def _with(value: Any, path: Path, item: Any) -> Any:
    """Return plain data with another item at a path."""
    if not path:
        return item
    step, *rest = path
    if isinstance(step, int):
        return [_with(element, tuple(rest), item) if index == step else element for index, element in enumerate(value)]
    value = mapping(value)
    return {**value, step: _with(value.get(step), tuple(rest), item)}


def _at(value: Any, path: Path) -> Any:
    """Return the value at a path; None without one."""
    for step in path:
        value = value[step] if isinstance(step, int) else mapping(value).get(step)
    return value


def _number(value: object, otherwise: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else otherwise
