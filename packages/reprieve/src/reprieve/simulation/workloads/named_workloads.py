"""Workloads by name: what belongs to them, with another count, another priority, or not there at all (whatif.md 4).

Where a workload's template is in the input its manifest is changed, and its pods follow when it is expanded; where only
its pods are, as in a snapshot, they are what is changed, and new ones are like one of them.
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
from kube_rules.manifests import Loaded, Manifests
from kube_rules.unknown_fields import Path, nearest
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
    """What is named is not in the input, or nothing of it is: it may be once workloads are expanded."""


class Named(NamedTuple):
    """Something of the input that was named. `part`: one of its sets of pods."""

    group: str
    kind: str
    namespace: str
    name: str
    part: str = ""

    @property
    def owner(self) -> Owner:
        """As an owner of pods."""
        return self.group, self.kind, self.namespace, self.name

    @property
    def key(self) -> str:
        """`namespace/name`; the name alone of what has no namespace."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    def __str__(self) -> str:
        part = f" ({self.part})" if self.part else ""
        return f"{self.kind.lower()} {self.key}{part}"


class _Count(NamedTuple):
    """A count of a workload, and the pods it is of. `path`: its place in the object."""

    path: Path
    part: str
    pods: PodSet
    entry: Mapping[str, Any]


class Workloads:
    """The workloads of an input that is being changed; every question is answered from it as it is then."""

    def __init__(self, manifests: Manifests, rows: Rows) -> None:
        self._manifests = manifests
        self._rows = rows

    # -- by name -----------------------------------------------------------------------------------

    def named(self, given: str) -> Named:
        """Return what `[NAMESPACE/]KIND/NAME[/PART]` names. Raises FieldError if there is no such thing, or more than
        one.
        """
        parts = given.strip().split("/")
        if not 2 <= len(parts) <= 4 or not all(parts):
            raise FieldError("", f'"{given}": expected KIND/NAME or NAMESPACE/KIND/NAME')
        known = self._kinds()
        if len(parts) > 2 and _singular(parts[0], known) is None:
            namespace, kind, name, *rest = parts
        else:
            namespace, (kind, name, *rest) = "default", parts
        singular = _singular(kind, known)
        if singular is None:
            meant = nearest(kind.lower(), known)
            raise FieldError("", f'no kind "{kind}"' + (f', did you mean "{meant}"?' if meant else ""))
        kind, _, group = singular.partition(".")
        found = {
            item
            for item in self._all()
            if item.kind.lower() == kind
            and (not group or item.group == group)
            and item.name == name
            and item.namespace in (namespace, "")
        }
        if not found:
            meant = self._meant(kind, namespace, name)
            where = f"{kind} {namespace}/{name}"
            raise NotThereError("", f"no {where} is in the input" + (f', did you mean "{meant}"?' if meant else ""))
        if len(found) > 1:
            groups = " or ".join(f"{kind}.{item.group}/{name}" for item in sorted(found))
            raise FieldError("", f"{given} names {len(found)} objects: specify one of {groups}")
        (one,) = found
        return one._replace(part=rest[0] if rest else "")

    def _meant(self, kind: str, namespace: str, name: str) -> str:
        """Return what may be meant, as `named` takes it: the name in another namespace, else a similar one; empty:
        nothing.
        """
        there = sorted({(item.namespace, item.name) for item in self._all() if item.kind.lower() == kind})
        similar = name if any(found == name for _, found in there) else ""
        similar = similar or nearest(name, [found for space, found in there if space in (namespace, "")])
        similar = similar or nearest(name, [found for _, found in there])
        spaces = [space for space, found in there if found == similar]
        if not spaces:
            return ""
        space = namespace if namespace in spaces else spaces[0]
        return f"{kind}/{similar}" if space in ("default", "") else f"{space}/{kind}/{similar}"

    def _all(self) -> Iterator[Named]:
        for maker in self._manifests.pod_makers:
            yield Named(*object_id_of(maker.manifest))
        for item in self._manifests.unknown:
            yield Named(*object_id_of(item.manifest))
        for kind, found in self._manifests.objects.items():
            group = kind.API_VERSION.rpartition("/")[0]
            for loaded in found:
                namespace = (loaded.object.namespace or "default") if kind.NAMESPACED else ""
                yield Named(group, kind.KIND, namespace, loaded.object.name)
        for loaded in self._manifests.pods:
            reference = reference_of(loaded.object)
            if reference is not None:
                group = reference.api_version.rpartition("/")[0]
                namespace = loaded.object.namespace or "default"
                # A static pod belongs to its node, which has no namespace.
                own = "" if (group, reference.kind) == ("", objects.Node.KIND) else namespace
                yield Named(group, reference.kind, own, reference.name)
                deployment = deployment_of(loaded.object)
                if deployment:
                    yield Named(group, "Deployment", namespace, deployment)

    def _kinds(self) -> set[str]:
        return {item.kind.lower() for item in self._all()} | {
            kind.lower() for kinds in (KINDS, *POD_MAKERS.values()) for kind in kinds
        }

    # -- what belongs to it ------------------------------------------------------------------------

    def pods_of(self, found: Named) -> list[Loaded[objects.Pod]]:
        """Return the pods of a workload that have not ended, directly or through others."""
        if found.kind == "Pod":
            return [loaded for loaded in self._manifests.pods if loaded.object.key == found.key]
        if found.kind == "PodGroup":
            return [
                loaded
                for loaded in self._manifests.pods
                if loaded.object.namespace == found.namespace and pod_group_name(loaded.object) == found.name
            ]
        owners = Owners.of(self._manifests)
        above = [found.owner, *self._makes(found)]
        names = {(pod.namespace, pod.name) for item in above for pod in (*owners.pods(item), *owners.direct(item))}
        return [
            loaded
            for loaded in self._manifests.pods
            if (loaded.object.namespace, loaded.object.name) in names
            or (found.kind == "Deployment" and _is_of_deployment(loaded.object, found))
        ]

    def _makes(self, found: Named) -> Iterator[Owner]:
        """Yield the objects between a workload and its pods, by the names it gives them: they need not be in the
        input.
        """
        index = self._maker(found)
        manifest = self._manifests.pod_makers[index].manifest if index is not None else {}
        row = self._rows.of(text(manifest.get("apiVersion")), found.kind)
        for item in _counts(row, manifest) if row is not None else ():
            number = _number(value_at(item.entry, str(item.pods.replicas)), item.pods.default)
            between = {f"{item.pods.makes} {name}" for name in _names(item, found, number)}
            if item.pods.makes == "v1 Pod":
                values = _values(item, found, number)
                between = {filled(item.pods.owner, {**values, "replica": turn}) for turn in range(number)} - {""}
            for version, kind, name in map(str.split, between):
                yield group_of(version), kind, found.namespace, name

    def members(self, found: Named) -> tuple[list[Loaded[objects.Pod]], list[Loaded[objects.PodGroup]]]:
        """Return the pods of a workload and the groups they name, each with all its members: they share one
        priority.
        """
        pods = self.pods_of(found)
        named = {(item.object.namespace, name) for item in pods if (name := pod_group_name(item.object)) is not None}
        if found.kind == "PodGroup":
            named.add((found.namespace, found.name))
        groups = [item for item in self._manifests.pod_groups if (item.object.namespace, item.object.name) in named]
        names = {(item.object.namespace, item.object.name) for item in pods}
        for loaded in self._manifests.pods:
            group = pod_group_name(loaded.object)
            key = (loaded.object.namespace, loaded.object.name)
            if group is not None and (key[0], group) in named and key not in names:
                pods.append(loaded)
        return pods, groups

    def makes_daemons(self, pod: objects.Pod) -> bool:
        """Return whether the DaemonSet of a pod is in the input with its template, and so makes the pods of new
        nodes.
        """
        reference = reference_of(pod)
        if reference is None:
            return False
        key = ("apps", "DaemonSet", pod.namespace or "default", reference.name)
        return any(
            object_id_of(maker.manifest) == key and "template" in mapping(maker.manifest.get("spec"))
            for maker in self._manifests.pod_makers
        )

    # -- changes -----------------------------------------------------------------------------------

    def scale(self, found: Named, number: int) -> tuple[int, list[Loaded[objects.Pod]], list[Loaded[objects.Pod]]]:
        """Give a workload another count: what it was, the pods that go, and pods to make others like.

        Raises FieldError where nothing says how many there are.
        """
        index = self._maker(found)
        manifest = self._manifests.pod_makers[index].manifest if index is not None else None
        there = sorted((one for one in self.pods_of(found) if is_active(one.object)), key=_goes_last(found))
        if manifest is None or not _has_template_or_runtime(manifest):
            if not there:
                raise NotThereError("", f"{found} has no template and no pods: nothing to scale")
            return len(there), there[number:], there[:1] * (number - len(there))
        row = self._rows.of(text(manifest.get("apiVersion")), found.kind)
        if row is None:
            raise FieldError("", f"{found}: there is no row for its kind")
        counts = list(_counts(row, manifest))
        scaled: Path | None = tuple(row.scale.split(".")) if row.scale and not found.part else None
        if scaled is None:
            places = {item.path: item.part for item in counts if found.part.lower() in ("", item.part.lower())}
            if len(places) != 1:
                raise FieldError("", _which(found, sorted({item.part for item in counts})))
            (scaled,) = places
        meant = [item for item in counts if item.path == scaled]
        for item in meant:
            most = value_at(item.entry, item.pods.most) if item.pods.most else None
            if isinstance(most, int) and number > most:
                raise FieldError("", f"{found}: no more than its {item.pods.most}, {most}")
        before = _number(_at(manifest, scaled), meant[0].pods.default if meant else self._nodes_of_runtime(manifest))
        self._replace(index, _with(manifest, scaled, number))
        if found.kind == "StatefulSet":
            first = _number(value_at(manifest, "spec.ordinals.start"), 0)
            return before, [one for one in there if _ordinal(one.object.name) >= first + number], []
        if not meant:
            return before, there[number:], []
        return before, _beyond(there, meant, found, number), []

    def _nodes_of_runtime(self, manifest: Mapping[str, Any]) -> int:
        """Return how many nodes a TrainJob has that does not say it: as many as its runtime says, else one (whatif.md
        2.5).
        """
        runtime = runtime_of(manifest, self._manifests.unknown)
        return _number(value_at(runtime.manifest, "spec.mlPolicy.numNodes"), 1) if runtime is not None else 1

    def set_priority(self, found: Named, name: str, number: int) -> int:
        """Give the templates of a workload another priority; how many there were."""
        index = self._maker(found)
        if index is None:
            return 0
        manifest, templates = _with_priority(self._manifests.pod_makers[index].manifest, name, number)
        if not templates:
            manifest, templates = self._with_own_runtime(manifest, found, name, number)
        self._replace(index, manifest)
        return templates

    def _with_own_runtime(
        self, manifest: Mapping[str, Any], found: Named, name: str, number: int
    ) -> tuple[Mapping[str, Any], int]:
        """Return a TrainJob with another priority in its runtime: a copy for it alone, as others may use it."""
        runtime = runtime_of(manifest, self._manifests.unknown)
        if runtime is None:
            return manifest, 0
        changed, templates = _with_priority(runtime.manifest, name, number)
        own = f"{text(mapping(changed.get('metadata')).get('name'))} of {found.name}"  # no object can have this name
        kind = "TrainingRuntime"
        meta = {**mapping(changed.get("metadata")), "name": own, "namespace": found.namespace}
        changed = {**changed, "kind": kind, "metadata": meta}
        self._manifests.unknown.append(runtime._replace(kind=kind, manifest=changed))
        return _with(manifest, ("spec", "runtimeRef"), {"kind": kind, "name": own}), templates

    def remove(self, found: Named) -> tuple[list[Loaded[objects.Pod]], list[Loaded[objects.PodGroup]]]:
        """Take a workload, and what it owns, out of the input; the pods and groups that go with it."""
        pods = self.pods_of(found)
        named = {(one.object.namespace, pod_group_name(one.object)) for one in pods}
        going = {(one.object.namespace, one.object.name) for one in pods}
        staying = {
            (one.object.namespace, pod_group_name(one.object))
            for one in self._manifests.pods
            if (one.object.namespace, one.object.name) not in going
        }
        alone = {key for key in named - staying if key[1] is not None} if found.kind != "Pod" else set()
        if found.kind == "PodGroup":
            alone = {(found.namespace, found.name)}
        groups = [one for one in self._manifests.pod_groups if (one.object.namespace, one.object.name) in alone]
        owners = Owners.of(self._manifests)
        gone: set[Owner] = set()
        todo = [found.owner]
        while todo:
            key = todo.pop()
            if key not in gone:
                gone.add(key)
                todo += owners.owned(key)
        makers = self._manifests.pod_makers
        makers[:] = [maker for maker in makers if object_id_of(maker.manifest) not in gone]
        unknown = self._manifests.unknown
        unknown[:] = [item for item in unknown if object_id_of(item.manifest) not in gone]
        for kind, listed in self._manifests.objects.items():
            if kind not in (objects.Pod, objects.PodGroup):
                group = kind.API_VERSION.rpartition("/")[0]
                listed[:] = [
                    one
                    for one in listed
                    if (
                        group,
                        kind.KIND,
                        (one.object.namespace or "default") if kind.NAMESPACED else "",
                        one.object.name,
                    )
                    not in gone
                ]
        return pods, groups

    def _maker(self, found: Named) -> int | None:
        makers = enumerate(self._manifests.pod_makers)
        return next((index for index, maker in makers if object_id_of(maker.manifest) == found.owner), None)

    def _replace(self, index: int | None, manifest: Mapping[str, Any]) -> None:
        if index is not None:
            makers = self._manifests.pod_makers
            makers[index] = makers[index]._replace(manifest=manifest)


def _singular(kind: str, known: Iterable[str]) -> str | None:
    """`deployment` for `Deployments`, `deploy` and `deployment.apps`; None if there is no such kind."""
    name, dot, group = kind.lower().partition(".")
    name = _SHORT.get(name, name)
    if name.partition(".")[0] in known:
        return name + dot + group
    return name[:-1] + dot + group if name.endswith("s") and name[:-1] in known else None


def makes_pods_by_name(kind: str, rows: Rows | None = None) -> bool:
    """Return whether a kind as it is typed (`deploy`, `jobs`) is one that makes pods; `rows`: with kinds of others."""
    known = {each.lower() for kinds in POD_MAKERS.values() for each in kinds}
    known |= {each.lower() for _, each in rows.kinds()} if rows is not None else set()
    return _singular(kind, known) is not None


def makers_named(given: str) -> list[tuple[str, str, str, str]]:
    """Return what makes pods and is named: kind, API group if one was typed, namespace, name. Empty if nothing of the
    sort.
    """
    makers = {kind.lower(): kind for kinds in POD_MAKERS.values() for kind in kinds}
    parts = given.strip().split("/")
    result = []
    for namespace, (kind, *rest) in (("default", parts), (parts[0], parts[1:] or [""])):
        singular = _singular(kind, makers)
        if singular is not None and rest and all(parts):
            plain, _, group = singular.partition(".")
            if not group or makers[plain] in POD_MAKERS.get(group, ()):
                result.append((makers[plain], group, namespace, rest[0]))
    return result[:1]


def _is_of_deployment(pod: objects.Pod, found: Named) -> bool:
    return (pod.namespace or "default") == found.namespace and deployment_of(pod) == found.name


def _goes_last(found: Named) -> Callable[[Loaded[objects.Pod]], tuple[Any, ...]]:
    """Sorts pods so that those that go first when fewer are wanted come last."""
    if found.kind == "StatefulSet":
        return lambda loaded: (_ordinal(loaded.object.name), loaded.object.name)

    def key(loaded: Loaded[objects.Pod]) -> tuple[Any, ...]:
        pod = loaded.object
        ready = all(condition.status == "True" for condition in pod.status.conditions if condition.type == "Ready")
        rank = deletion_rank(pod.spec.node_name, pod.status.phase, ready, pod.metadata.annotations)
        return (*(-part for part in rank), loaded.created, pod.name)

    return key


def _ordinal(name: str) -> int:
    """Of a StatefulSet's pod, as its controller reads it: an int32 after the last hyphen, else 0."""
    return whole_number(name.rpartition("-")[2], _HIGHEST_ORDINAL) or 0


def _with_priority(manifest: Mapping[str, Any], name: str, number: int) -> tuple[Mapping[str, Any], int]:
    """Return an object with another priority in its pod templates, and how many templates there are."""
    places = [path for path, _ in templates_in(manifest)]
    for path in places:
        at: Any = manifest
        for step in path:
            at = at[step]
        spec = {key: each for key, each in at["spec"].items() if key not in ("priorityClassName", "priority")}
        spec |= {"priorityClassName": name} if name else {"priority": number}
        manifest = _with(manifest, (*path, "spec"), spec)
    return manifest, len(places)


def _has_template_or_runtime(manifest: Mapping[str, Any]) -> bool:
    """Return whether an object has a pod template, or names the runtime that has it; a light object of a snapshot does
    not.
    """
    return "runtimeRef" in mapping(manifest.get("spec")) or any(True for _ in templates_in(manifest))


def _counts(row: WorkloadKind, manifest: Mapping[str, Any]) -> Iterator[_Count]:
    """Yield every count of an object that can be set, with its pods; where it is no list's its part is the field's
    name.
    """
    for pods in row.sets:
        for path, part, entry in entries_of(manifest, pods):
            if isinstance(pods.replicas, str):
                steps = steps_of(path)
                named = part or (str(steps[-1]).lower() if steps else "")
                yield _Count((*steps, *pods.replicas.split(".")), named, pods, mapping(entry))


def _which(found: Named, parts: Sequence[str]) -> str:
    """Return what there is to say where not one count is meant."""
    if not parts:
        return f"{found}: its kind has no count to set"
    choices = " or ".join(f"{found.kind.lower()}/{found.name}/{part}" for part in parts[:8])
    if found.part:
        meant = nearest(found.part.lower(), parts)
        hint = f', did you mean "{meant}"?' if meant else ""
        return f"{found}: no such part{hint} It has {choices}" if hint else f"{found}: no such part; it has {choices}"
    return f"{found} has several counts: specify {choices}"


def _beyond(
    there: list[Loaded[objects.Pod]], counts: Sequence[_Count], found: Named, number: int
) -> list[Loaded[objects.Pod]]:
    """Return pods of sets that are to have fewer replicas than they; a pod that one of the sets keeps stays."""
    going: dict[int, Loaded[objects.Pod]] = {}
    kept: set[int] = set()
    for count in counts:
        same = _of_set(there, count, found, number)
        if count.pods.name.endswith("-"):
            staying = same[: number * len(_members(count))]
        else:
            names = _names(count, found, number)
            staying = [one for one in same if _name_in_set(one.object, count) in names]
        kept.update(map(id, staying))
        going |= {id(one): one for one in same}
    return [one for key, one in going.items() if key not in kept]


def _of_set(there: list[Loaded[objects.Pod]], count: _Count, found: Named, number: int) -> list[Loaded[objects.Pod]]:
    """Return pods that have the labels of a set, or else names as it gives them."""
    pods, values = count.pods, _values(count, found, number)
    labels = {**pods.labels, **pods.labels_of.get(str(values["part"]), {})}
    labels = {key: filled(each, values) for key, each in labels.items() if not varies(each)}
    same = [item for item in there if all(item.object.metadata.labels.get(key) == each for key, each in labels.items())]
    if same or pods.name.endswith("-"):
        return same
    prefix = filled(pods.name, {**values, "index": "", "replica": "", "member": ""}).rstrip("-")
    return [item for item in there if _name_in_set(item.object, count).startswith(f"{prefix}-")]


def _names(count: _Count, found: Named, number: int) -> set[str]:
    """Return what so many replicas of a set are called: its pods, or the objects it makes."""
    values = _values(count, found, number)
    first = _number(value_at(count.entry, count.pods.start), 0) if count.pods.start else 0
    turns = ((first + replica, member) for replica in range(number) for member in _members(count))
    return {
        filled(count.pods.name, {**values, "index": first + turn, "replica": replica, "member": member})
        for turn, (replica, member) in enumerate(turns)
    }


def _values(count: _Count, found: Named, number: int) -> dict[str, object]:
    part = count.part if count.pods.each.endswith("*") else ""
    size = _members(count).stop
    return {"name": found.name, "namespace": found.namespace, "part": part, "replicas": number, "size": size}


def _members(count: _Count) -> range:
    """Return the pods of one replica, by their number in it."""
    size = count.pods.size
    of_each = _number(value_at(count.entry, size), 1) if isinstance(size, str) else size
    return range(count.pods.less, max(of_each, count.pods.less))


def _name_in_set(pod: objects.Pod, count: _Count) -> str:
    """Return the pod's name, or that of the object between of which it is."""
    owner = reference_of(pod)
    return pod.name if count.pods.makes == "v1 Pod" or owner is None else owner.name


def _with(value: Any, path: Path, item: Any) -> Any:
    """Plain data with another item at a path."""
    if not path:
        return item
    step, *rest = path
    if isinstance(step, int):
        return [_with(each, tuple(rest), item) if index == step else each for index, each in enumerate(value)]
    value = mapping(value)
    return {**value, step: _with(value.get(step), tuple(rest), item)}


def _at(value: Any, path: Path) -> Any:
    """Return what stands at a path; None where nothing does."""
    for step in path:
        value = value[step] if isinstance(step, int) else mapping(value).get(step)
    return value


def _number(value: object, otherwise: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else otherwise
