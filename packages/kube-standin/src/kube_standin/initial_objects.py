"""Objects of files, up to a whole cluster, put into the store in one transaction before any client is served.

Each object is processed like every write (decoded, defaulted, admitted, validated). From another cluster it also keeps
its status, creation time, and owners. UIDs are new, and references by UID to objects of the input are updated, so that
garbage collection does not treat objects as orphans. An object with an existing name is not changed, unless its
manifest was edited since it was loaded: that is refused (`reload`).

Invariant: either everything is staged, or nothing, with an `InputError` that names the invalid object. If refused
objects may be left out, everything is staged again without them, as if they were not in the input.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, NoReturn

from kube_rules.controllers.pods import CONTROLLER_REVISION_HASH, template_hash
from kube_rules.decoding import subject_of
from kube_rules.errors import InputError, Origin
from kube_rules.json import Json
from kube_rules.manifests import PlainObject
from kube_standin import initial_owners as owners
from kube_standin import reload
from kube_standin.bootstrap import IMMORTAL, NAMESPACES, foreign_definition
from kube_standin.bootstrap_roles import BOOTSTRAPPING
from kube_standin.clock import parse_stamp, stamp
from kube_standin.decoder import missing_fields
from kube_standin.deletion import DeleteOptions, settles_dependents
from kube_standin.errors import StatusError
from kube_standin.initial_owners import LoadedItem, Lookup
from kube_standin.kinds import ServedKind
from kube_standin.kubelet.fleet import label_as_kubelets_do
from kube_standin.kubelet.references import references
from kube_standin.kubelet.settings import IGNORE, MISSING_CONFIG
from kube_standin.registry import ObjectRegistry, WriteOptions

_FIRST: Final = (
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
    ("", "Namespace"),
    ("scheduling.k8s.io", "PriorityClass"),
    ("", "ServiceAccount"),
    ("scheduling.k8s.io", "Workload"),
    ("scheduling.k8s.io", "CompositePodGroup"),
    ("scheduling.k8s.io", "PodGroup"),
    ("apps", "StatefulSet"),
    ("apps", "DaemonSet"),
)
"""Objects that admission of others reads, and owners with a template that identifies their pods."""
_LAST: Final = (("", "LimitRange"), ("", "ResourceQuota"))
"""Loaded last, so that they apply only to later objects."""
_DEFINITION: Final = _FIRST[0]
_REVISED: Final = (("apps", "StatefulSet"), ("apps", "DaemonSet"))
_SERVER_FIELDS: Final = ("resourceVersion", "managedFields", "selfLink", "generation")
_UNDATED: Final = "~"
"""Sorts after every time."""
_OPTIONS: Final = WriteOptions(manager="")
"""Loaded fields have no manager, so that a client that applies them later has no conflicts."""


@dataclass
class LoadReport:
    """The result of loading an input."""

    made: int = 0
    kept: list[str] = field(default_factory=list)
    """Objects that already existed, `Node "n1"`, except those of every server."""
    added: list[str] = field(default_factory=list)
    """Objects that the input needs and lacks: namespaces and service accounts, and ReplicaSets of its Deployments."""
    left_out: list[str] = field(default_factory=list)
    """Objects that cannot be served here, and why."""
    orphaned: int = 0
    """Number of objects with an owner that is not in the input: they are loaded without it."""
    warnings: list[str] = field(default_factory=list)
    digests: dict[str, str] = field(default_factory=dict)
    """Digests of the manifests that are loaded now, or were before (`reload`)."""


def load_objects(
    registry: ObjectRegistry,
    objects: Sequence[PlainObject],
    *,
    lenient: bool = False,
    before: Mapping[str, str] | None = None,
) -> LoadReport:
    """Stage and commit the objects. Raises `InputError`; then none of them is stored.

    `lenient`: refused objects are left out, and with them objects that are refused without them; the report lists them
    with the reasons. `before`: the digests of an earlier load. Call it before controllers and kubelets run, in one turn
    of the loop. The manifests are changed.
    """
    registry.store.flush()
    left_out: list[str] = []
    while True:
        loading = _Loader(registry, lenient, before or {})
        try:
            loading.load(
                [PlainObject(copy.deepcopy(obj.manifest), obj.origin) for obj in objects] if lenient else objects
            )
        except BaseException:
            registry.store.discard()
            raise
        if not loading.refused:
            registry.store.flush()
            loading.report.left_out[:0] = left_out
            return loading.report
        registry.store.discard()
        left_out += [str(loading.refused[number]) for number in sorted(loading.refused)]
        objects = [obj for number, obj in enumerate(objects) if number not in loading.refused]


class _Loader:
    def __init__(self, registry: ObjectRegistry, lenient: bool, before: Mapping[str, str]) -> None:
        self._registry = registry
        self._lenient = lenient
        self._before = before
        self._lookup = Lookup(registry)
        self._digests: dict[str, tuple[str, str]] = {}
        """UID of an owner of revisions -> the hash of its newest pods in the input, and their hash here."""
        self._referred: set[tuple[str, str, str]] = set()
        """ConfigMaps and Secrets that bound pods refer to: resource, namespace and name."""
        self._undated = ""
        """Creation time of objects without one, unless it is now."""
        self.report = LoadReport()
        self.refused: dict[int, InputError] = {}
        """With `lenient`: the objects that cannot be loaded, by their number in the input, and why."""

    def load(self, objects: Sequence[PlainObject]) -> None:
        for definitions in (True, False):
            chosen = [
                (number, obj) for number, obj in enumerate(objects) if (_head(obj)[1] == _DEFINITION[1]) is definitions
            ]
            self._settle(chosen)
            if definitions:
                self._define(objects)
        self._excuse_missing_config()

    def _excuse_missing_config(self) -> None:
        """Let pods start without ConfigMaps and Secrets in namespaces with running pods that refer to missing ones.

        Files of clusters leave them out (interfaces.md 7.7).
        """
        store = self._registry.store
        missing = {space for resource, space, name in self._referred if store.head(resource, space, name) is None}

        def excuse(namespace: Json) -> None:
            namespace["metadata"].setdefault("annotations", {}).setdefault(MISSING_CONFIG, IGNORE)

        for space in sorted(missing):
            self._registry.modify_now(self._registry.kind("v1", "Namespace"), "", space, excuse, _OPTIONS)
            text = "its pods start without the ConfigMaps and Secrets that the input lacks"
            self.report.warnings.append(f'Namespace "{space}": {text} (annotation {MISSING_CONFIG})')

    def _define(self, objects: Sequence[PlainObject]) -> None:
        """Define the PodGroups of other schedulers' APIs that the input does not define."""
        for version, numbers in _foreign_groups(objects).items():
            definition = foreign_definition(version)
            if definition is None or self._registry.kinds.of(version, "PodGroup") is not None:
                continue
            with self._judged(numbers):
                item = self._item(PlainObject(definition, objects[numbers[0]].origin))
                if item is not None and self._lookup.add(item) is None:
                    self._create(item)
                    self.report.made -= 1
                    self.report.added.append(item.subject)

    @contextmanager
    def _judged(self, numbers: Sequence[int]) -> Iterator[None]:
        """Record a refusal in the block for these objects of the input, if lenient."""
        try:
            yield
        except InputError as error:
            if not self._lenient or not numbers:
                raise
            for number in numbers:
                self.refused.setdefault(number, error)

    def _settle(self, numbered: Iterable[tuple[int, PlainObject]]) -> None:
        """Create these objects, then set the fields that need all of them to exist."""
        items, new = list[LoadedItem](), list[LoadedItem]()
        for number, obj in numbered:
            with self._judged([number]):
                item = self._item(obj)
                if item is not None:
                    item.numbers.append(number)
                    items.append(item)
        for item in items:
            with self._judged(item.numbers):
                existing = self._lookup.add(item)
                if existing is None:
                    new.append(item)
                elif not _of_every_server(item):
                    self._check_edits(item)
                    self.report.kept.append(existing)
        new = self._completed(new)
        new.sort(key=lambda item: (_rank(item.kind), item.created or _UNDATED))
        self._undated = max(self._undated, _after(new, self._registry.clock.stamp()))
        for act in (self._create, self._set_status, self._delete):
            for item in new:
                if not self.refused.keys() & item.numbers:
                    with self._judged(item.numbers):
                        act(item)

    def _completed(self, items: list[LoadedItem]) -> list[LoadedItem]:
        """Return the items with the objects that they need and lack, without those that cannot be created."""
        added = owners.missing_replica_sets(items, self._lookup)
        added += self._missing_accounts(items)
        for item in added:
            self._lookup.add(item)
            self.report.added.append(item.subject)
        self.report.added += [text for item in items if (text := owners.complete_light(item))]
        left_out = owners.complete_templates(items)
        for item in left_out:
            self.report.left_out.append(f"{item.subject}: it has neither a template nor pods in the input")
            self._lookup.forget(item)
        whole = [*added, *(item for item in items if item not in left_out)]
        for item in whole:
            self.report.orphaned += self._lookup.relate(item)
        return whole

    def _missing_accounts(self, items: list[LoadedItem]) -> list[LoadedItem]:
        """Return missing namespaces, and missing service accounts of pods."""
        accounts: dict[tuple[str, str, str], LoadedItem] = {}
        for item in items:
            if item.namespace and not self._lookup.has("", "Namespace", "", item.namespace):
                space = self._new_item("Namespace", "", item.namespace, item.origin)
                accounts.setdefault(("", "", item.namespace), space).numbers.extend(item.numbers)
            if item.kind.resource == "pods":
                spec = item.manifest.get("spec")
                name = spec.get("serviceAccountName") if isinstance(spec, dict) else None
                if not isinstance(name, str) or name in ("", "default"):
                    continue
                if not self._lookup.has("", "ServiceAccount", item.namespace, name):
                    account = self._new_item("ServiceAccount", item.namespace, name, item.origin)
                    accounts.setdefault(("serviceaccount", item.namespace, name), account).numbers.extend(item.numbers)
        return list(accounts.values())

    def _new_item(self, kind: str, namespace: str, name: str, origin: Origin) -> LoadedItem:
        metadata: Json = {"name": name, **({"namespace": namespace} if namespace else {})}
        manifest = {"apiVersion": "v1", "kind": kind, "metadata": metadata}
        return LoadedItem(self._registry.kind("v1", kind), namespace, name, manifest, origin)

    # -- one object

    def _item(self, obj: PlainObject) -> LoadedItem | None:
        """Return the object with its row; None for a kind that only a missing definition provides."""
        version, name = _head(obj)
        kind = self._registry.kinds.readable(version, name)
        subject = subject_of(obj.manifest)
        if kind is None:
            group = version.rpartition("/")[0]
            if any(row.group == group and not row.custom for row in self._registry.kinds) or "." not in group:
                raise InputError(obj.origin, f'no matches for kind "{name}" in version "{version}"', subject=subject)
            self.report.left_out.append(f"{subject}: nothing defines {name} of {version} (a CustomResourceDefinition)")
            return None
        if not kind.stored:
            raise InputError(obj.origin, f"a {name} is a request and cannot be stored", subject=subject)
        loaded = reload.digest(obj.manifest)
        metadata = obj.manifest.get("metadata")
        if not isinstance(metadata, Mapping):
            raise InputError(obj.origin, "Required value: every object needs one", path="metadata", subject=subject)
        obj.manifest["metadata"] = metadata = dict(metadata)
        for field_name in ("name", "namespace", "uid", "generateName", "creationTimestamp", "deletionTimestamp"):
            if not isinstance(metadata.get(field_name) or "", str):
                raise InputError(obj.origin, "Invalid value: must be a string", path=f"metadata.{field_name}")
        for field_name in _SERVER_FIELDS:
            metadata.pop(field_name, None)
        namespace = (metadata.get("namespace") or "default") if kind.namespaced else ""
        if kind.namespaced:
            metadata["namespace"] = namespace
        item = LoadedItem(kind, namespace, metadata.get("name") or "", obj.manifest, obj.origin)
        if item.name:
            self.report.digests[reload.key_of(item)] = loaded
        item.old_uid = metadata.pop("uid", None) or ""
        item.created = metadata.get("creationTimestamp") or ""
        item.deleted = bool(metadata.get("deletionTimestamp"))
        if (kind.group, kind.kind) == ("", "Node") and item.name and isinstance(metadata.get("labels") or {}, Mapping):
            label_as_kubelets_do(item.manifest)
        return item

    def _check_edits(self, item: LoadedItem) -> None:
        """Refuse an existing object if its manifest was edited since it was loaded; the cluster may change it."""
        key = reload.key_of(item)
        if self._before.get(key) == self.report.digests[key]:
            return
        stored = self._registry.head(item.kind, item.namespace, item.name)
        assert stored is not None
        try:
            decoded = self._registry.decoder.decode(item.kind, copy.deepcopy(item.manifest), "Ignore", [])
        except StatusError as error:
            _refuse(item, error)
        edited = key in self._before
        changed = reload.difference(decoded, stored.decode(), status=edited)
        if changed:
            why = "was edited since it was loaded" if edited else "already exists and differs"
            how = "change it in the running cluster with kubectl apply -f, or start empty with --reset"
            raise InputError(item.origin, f"{why}: {how}", path=changed, subject=item.subject)
        if edited:
            left = "edited since it was loaded; fields removed from the manifest keep their value in the cluster"
            self.report.warnings.append(f"{item.origin}: {item.subject}: {left}")

    def _create(self, item: LoadedItem) -> None:
        registry, kind, warnings = self._registry, item.kind, list[str]()
        status = item.manifest.get("status")
        for path in missing_fields(kind, item.manifest):
            raise InputError(item.origin, "Required value", path=path, subject=item.subject)
        try:
            decoded = registry.decoder.decode(kind, item.manifest, "Warn", warnings)
            item.status = decoded.get("status") if status else None
            self._label_revision(item, decoded)
            created = (decoded["metadata"].get("creationTimestamp") or "") if item.created else self._undated
            options = WriteOptions(manager="", uid=item.uid, created=created)
            stored = registry.create_now(kind, item.namespace, decoded, options).object
        except StatusError as error:
            _refuse(item, error)
        item.name = stored["metadata"]["name"]
        if kind.resource == "pods" and stored["spec"].get("nodeName"):
            self._referred |= {
                (reference.resource, item.namespace, reference.name) for reference in references(stored["spec"])
            }
        self.report.made += 1
        self.report.warnings += [f"{item.origin}: {item.subject}: {text}" for text in warnings]
        if (kind.group, kind.kind) in _REVISED:
            before = _digest((item.status or {}).get("updateRevision"), item.name)
            self._digests[item.uid] = before, template_hash(stored["spec"]["template"])

    def _label_revision(self, item: LoadedItem, pod: Json) -> None:
        """Label pods of the newest template with its hash here, if it differs from the input's, so that none is
        replaced.
        """
        for reference in pod["metadata"].get("ownerReferences") or () if item.kind.resource == "pods" else ():
            before, now = self._digests.get(reference.get("uid", ""), ("", ""))
            labels = pod["metadata"].get("labels") or {}
            own = _digest(labels.get(CONTROLLER_REVISION_HASH), reference.get("name", ""))
            if reference.get("controller") and now and (not before or own in ("", before)):
                pod["metadata"]["labels"] = {**labels, CONTROLLER_REVISION_HASH: now}

    def _set_status(self, item: LoadedItem) -> None:
        if not item.status or "status" not in item.kind.subresources or item.kind.status_on_create:
            return
        status: Json = item.status
        if item.uid in self._digests:  # they contain hashes of another cluster
            status = {
                name: value for name, value in status.items() if name not in ("currentRevision", "updateRevision")
            }
        if (item.kind.group, item.kind.kind) == _DEFINITION:
            return  # acceptance of its names is decided here

        def change(obj: Json) -> None:
            obj["status"] = {**(obj.get("status") or {}), **status}

        try:
            self._registry.modify_now(item.kind, item.namespace, item.name, change, _OPTIONS, "status")
        except StatusError as error:
            _refuse(item, error)

    def _delete(self, item: LoadedItem) -> None:
        """Delete objects that were terminating in the input."""
        if not item.deleted:
            return
        if item.kind.resource == "namespaces" and item.name in IMMORTAL:
            return
        try:
            # The propagation was decided when it was deleted: by a finalizer, otherwise dependents are deleted.
            settled = settles_dependents(item.manifest["metadata"])
            options = DeleteOptions(propagation=None if settled else "Background")
            self._registry.deletion.delete(item.kind, item.namespace, item.name, options)
        except StatusError as error:
            _refuse(item, error)


def _refuse(item: LoadedItem, error: StatusError) -> NoReturn:
    """Raise the API's refusal of an object with its origin in the input."""
    for cause in error.causes:
        if cause.field:
            raise InputError(item.origin, cause.message, path=cause.field, subject=item.subject) from None
    raise InputError(item.origin, error.message, subject=item.subject) from None


def _of_every_server(item: LoadedItem) -> bool:
    match item.kind.resource:
        case "namespaces":
            return item.name in NAMESPACES
        case "priorityclasses.scheduling.k8s.io":
            return item.name.startswith("system-")
    if item.kind.group != "rbac.authorization.k8s.io":
        return False
    labels = item.manifest["metadata"].get("labels")
    return isinstance(labels, Mapping) and BOOTSTRAPPING in labels


def _head(obj: PlainObject) -> tuple[str, str]:
    return obj.manifest["apiVersion"], obj.manifest["kind"]


def _foreign_groups(objects: Sequence[PlainObject]) -> dict[str, list[int]]:
    """Return the numbers of the PodGroups in the input, by version."""
    by_version: dict[str, list[int]] = {}
    for number, obj in enumerate(objects):
        version, kind = _head(obj)
        if kind == "PodGroup":
            by_version.setdefault(version, []).append(number)
    return by_version


def _after(items: Iterable[LoadedItem], now: str) -> str:
    """Return one second after the newest creation time of the items if it is later than `now`; otherwise ""."""
    dates = []
    for item in items:
        with suppress(ValueError):
            dates.append(parse_stamp(item.created))
    newest = max(dates, default=None)
    return stamp(newest + timedelta(seconds=1)) if newest is not None and stamp(newest) >= now else ""


def _rank(kind: ServedKind) -> int:
    key = (kind.group, kind.kind)
    if key in _LAST:
        return len(_FIRST) + 1
    return _FIRST.index(key) if key in _FIRST else len(_FIRST)


def _digest(revision: Any, name: str) -> str:
    """Return the hash of `web-7f9c6`, a revision of web."""
    return revision.removeprefix(f"{name}-") if isinstance(revision, str) else ""
