"""Objects of files, a whole cluster's among them, put into the store in one transaction, before any client is served.

Each object goes the way of every write (decoded, defaulted, admitted, validated). What is taken over from another
cluster besides: status, creation time, and what owns what. UIDs are new, and everything that names one of the input by
its UID follows it, so that garbage collection takes no object for an orphan. An object with a name that exists is kept
as it is, unless its manifest was edited since it was loaded: that is refused (`reload`).

Invariant: either all of it is staged, or nothing, with an `InputError` that names the object at fault. Where
objects that are refused may be left out, all is staged again without them: as if they had not been in the input.
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
"""What admission of others reads, and owners with a template that identifies their pods."""
_LAST: Final = (("", "LimitRange"), ("", "ResourceQuota"))
"""What is there is not judged by them: they are for what comes."""
_DEFINITION: Final = _FIRST[0]
_REVISED: Final = (("apps", "StatefulSet"), ("apps", "DaemonSet"))
_SERVER_FIELDS: Final = ("resourceVersion", "managedFields", "selfLink", "generation")
_UNDATED: Final = "~"
"""Sorts after every time."""
_OPTIONS: Final = WriteOptions(manager="")
"""Fields of what is loaded have no manager: a client that applies them later does not find them taken."""


@dataclass
class LoadReport:
    """What happened to the objects of an input."""

    made: int = 0
    kept: list[str] = field(default_factory=list)
    """Objects that were there already, `Node "n1"`, but for what every server has."""
    added: list[str] = field(default_factory=list)
    """What the input needs and does not have: namespaces and service accounts, and ReplicaSets of its Deployments."""
    left_out: list[str] = field(default_factory=list)
    """Objects that cannot be served here, and why."""
    orphaned: int = 0
    """Objects with an owner that is not in the input: they are loaded without it."""
    warnings: list[str] = field(default_factory=list)
    digests: dict[str, str] = field(default_factory=dict)
    """Of the manifests that are loaded now, or were before (`reload`)."""


def load_objects(
    registry: ObjectRegistry,
    objects: Sequence[PlainObject],
    *,
    lenient: bool = False,
    before: Mapping[str, str] | None = None,
) -> LoadReport:
    """Stage and commit the objects. Raises `InputError`; then nothing of them is there.

    `lenient`: objects that are refused are left out, and with them what is refused for want of them; the report names
    which and why. `before`: the digests of what was loaded earlier. Call it before controllers and kubelets work, in
    one turn of the loop. The manifests are used up.
    """
    registry.store.flush()
    left_out: list[str] = []
    while True:
        loading = _Loading(registry, lenient, before or {})
        try:
            loading.load(
                [PlainObject(copy.deepcopy(one.manifest), one.origin) for one in objects] if lenient else objects
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
        objects = [one for number, one in enumerate(objects) if number not in loading.refused]


class _Loading:
    def __init__(self, registry: ObjectRegistry, lenient: bool, before: Mapping[str, str]) -> None:
        self._registry = registry
        self._lenient = lenient
        self._before = before
        self._there = Lookup(registry)
        self._digests: dict[str, tuple[str, str]] = {}
        """UID of an owner of revisions -> the hash its newest pods have in the input, and the one they get here."""
        self._referred: set[tuple[str, str, str]] = set()
        """What pods on nodes refer to: resource, namespace and name of ConfigMaps and Secrets."""
        self._undated = ""
        """Creation time of objects that have none, where that is not now."""
        self.report = LoadReport()
        self.refused: dict[int, InputError] = {}
        """Where that is lenient: by their number in the input, which cannot be loaded and why."""

    def load(self, objects: Sequence[PlainObject]) -> None:
        for definitions in (True, False):
            chosen = [
                (number, one) for number, one in enumerate(objects) if (_head(one)[1] == _DEFINITION[1]) is definitions
            ]
            self._settle(chosen)
            if definitions:
                self._define(objects)
        self._excuse_missing_config()

    def _excuse_missing_config(self) -> None:
        """Let pods of a namespace start without ConfigMaps and Secrets if pods of it ran with some that are not in the
        input: files of clusters leave them out (interfaces.md 7.7).
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
        """Define the PodGroups of other schedulers' APIs that are in the input without their definition."""
        for version, numbers in _foreign_groups(objects).items():
            definition = foreign_definition(version)
            if definition is None or self._registry.kinds.of(version, "PodGroup") is not None:
                continue
            with self._judged(numbers):
                item = self._item(PlainObject(definition, objects[numbers[0]].origin))
                if item is not None and self._there.add(item) is None:
                    self._create(item)
                    self.report.made -= 1
                    self.report.added.append(item.subject)

    @contextmanager
    def _judged(self, numbers: Sequence[int]) -> Iterator[None]:
        """What is refused here is noted of these objects of the input where that is lenient."""
        try:
            yield
        except InputError as error:
            if not self._lenient or not numbers:
                raise
            for number in numbers:
                self.refused.setdefault(number, error)

    def _settle(self, found: Iterable[tuple[int, PlainObject]]) -> None:
        """Make these objects, then what depends on all of them being there."""
        items, new = list[LoadedItem](), list[LoadedItem]()
        for number, one in found:
            with self._judged([number]):
                item = self._item(one)
                if item is not None:
                    item.numbers.append(number)
                    items.append(item)
        for item in items:
            with self._judged(item.numbers):
                there = self._there.add(item)
                if there is None:
                    new.append(item)
                elif not _of_every_server(item):
                    self._check_edits(item)
                    self.report.kept.append(there)
        new = self._completed(new)
        new.sort(key=lambda item: (_rank(item.kind), item.created or _UNDATED))
        self._undated = max(self._undated, _after(new, self._registry.clock.stamp()))
        for act in (self._create, self._set_status, self._delete):
            for item in new:
                if not self.refused.keys() & item.numbers:
                    with self._judged(item.numbers):
                        act(item)

    def _completed(self, items: list[LoadedItem]) -> list[LoadedItem]:
        """The items with what they need and do not have, without what cannot be made."""
        made = owners.missing_replica_sets(items, self._there)
        made += self._missing_accounts(items)
        for item in made:
            self._there.add(item)
            self.report.added.append(item.subject)
        self.report.added += [text for item in items if (text := owners.complete_light(item))]
        left_out = owners.complete_templates(items)
        for item in left_out:
            self.report.left_out.append(f"{item.subject}: it has neither a template nor pods in the input")
            self._there.forget(item)
        whole = [*made, *(item for item in items if item not in left_out)]
        for item in whole:
            self.report.orphaned += self._there.relate(item)
        return whole

    def _missing_accounts(self, items: list[LoadedItem]) -> list[LoadedItem]:
        """Namespaces, and service accounts of pods, that are neither in the input nor there."""
        made: dict[tuple[str, str, str], LoadedItem] = {}
        for item in items:
            if item.namespace and not self._there.has("", "Namespace", "", item.namespace):
                space = self._made("Namespace", "", item.namespace, item.origin)
                made.setdefault(("", "", item.namespace), space).numbers.extend(item.numbers)
            if item.kind.resource == "pods":
                spec = item.manifest.get("spec")
                name = spec.get("serviceAccountName") if isinstance(spec, dict) else None
                if not isinstance(name, str) or name in ("", "default"):
                    continue
                if not self._there.has("", "ServiceAccount", item.namespace, name):
                    account = self._made("ServiceAccount", item.namespace, name, item.origin)
                    made.setdefault(("serviceaccount", item.namespace, name), account).numbers.extend(item.numbers)
        return list(made.values())

    def _made(self, kind: str, namespace: str, name: str, origin: Origin) -> LoadedItem:
        metadata: Json = {"name": name, **({"namespace": namespace} if namespace else {})}
        manifest = {"apiVersion": "v1", "kind": kind, "metadata": metadata}
        return LoadedItem(self._registry.kind("v1", kind), namespace, name, manifest, origin)

    # -- one object

    def _item(self, found: PlainObject) -> LoadedItem | None:
        """Return the object with its row; None for one of a kind that only a definition would bring."""
        version, name = _head(found)
        kind = self._registry.kinds.readable(version, name)
        subject = subject_of(found.manifest)
        if kind is None:
            group = version.rpartition("/")[0]
            if any(row.group == group and not row.custom for row in self._registry.kinds) or "." not in group:
                raise InputError(found.origin, f"no {name} in version {version} is served here", subject=subject)
            self.report.left_out.append(f"{subject}: nothing defines {name} of {version} (a CustomResourceDefinition)")
            return None
        if not kind.stored:
            raise InputError(found.origin, f"a {name} is a request, not an object that is kept", subject=subject)
        loaded = reload.digest(found.manifest)
        metadata = found.manifest.get("metadata")
        if not isinstance(metadata, Mapping):
            raise InputError(found.origin, "Required value: every object needs one", path="metadata", subject=subject)
        found.manifest["metadata"] = metadata = dict(metadata)
        for each in ("name", "namespace", "uid", "generateName", "creationTimestamp", "deletionTimestamp"):
            if not isinstance(metadata.get(each) or "", str):
                raise InputError(found.origin, "Invalid value: must be a string", path=f"metadata.{each}")
        for each in _SERVER_FIELDS:
            metadata.pop(each, None)
        namespace = (metadata.get("namespace") or "default") if kind.namespaced else ""
        if kind.namespaced:
            metadata["namespace"] = namespace
        item = LoadedItem(kind, namespace, metadata.get("name") or "", found.manifest, found.origin)
        if item.name:
            self.report.digests[reload.key_of(item)] = loaded
        item.old_uid = metadata.pop("uid", None) or ""
        item.created = metadata.get("creationTimestamp") or ""
        item.deleted = bool(metadata.get("deletionTimestamp"))
        if (kind.group, kind.kind) == ("", "Node") and item.name and isinstance(metadata.get("labels") or {}, Mapping):
            label_as_kubelets_do(item.manifest)
        return item

    def _check_edits(self, item: LoadedItem) -> None:
        """Refuse an object that is there if its manifest was edited since it was loaded; the cluster may change it."""
        key = reload.key_of(item)
        if self._before.get(key) == self.report.digests[key]:
            return
        stored = self._registry.head(item.kind, item.namespace, item.name)
        assert stored is not None
        try:
            given = self._registry.decoder.decode(item.kind, copy.deepcopy(item.manifest), "Ignore", [])
        except StatusError as error:
            _refuse(item, error)
        edited = key in self._before
        changed = reload.difference(given, stored.decode(), status=edited)
        if changed:
            why = "was edited since it was loaded" if edited else "is there already, and differs"
            how = "kubectl apply -f changes it in the running cluster, --reset starts empty"
            raise InputError(item.origin, f"{why}: {how}", path=changed, subject=item.subject)
        if edited:
            left = "edited since it was loaded; what was removed from it stays as it is in the cluster"
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
            made = registry.create_now(kind, item.namespace, decoded, options).object
        except StatusError as error:
            _refuse(item, error)
        item.name = made["metadata"]["name"]
        if kind.resource == "pods" and made["spec"].get("nodeName"):
            self._referred |= {(one.resource, item.namespace, one.name) for one in references(made["spec"])}
        self.report.made += 1
        self.report.warnings += [f"{item.origin}: {item.subject}: {text}" for text in warnings]
        if (kind.group, kind.kind) in _REVISED:
            before = _digest((item.status or {}).get("updateRevision"), item.name)
            self._digests[item.uid] = before, template_hash(made["spec"]["template"])

    def _label_revision(self, item: LoadedItem, pod: Json) -> None:
        """Pods of the newest template in the input are pods of it here, where its hash is another: none is replaced."""
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
        if item.uid in self._digests:  # they name hashes of elsewhere
            status = {
                name: value for name, value in status.items() if name not in ("currentRevision", "updateRevision")
            }
        if (item.kind.group, item.kind.kind) == _DEFINITION:
            return  # whether its names are accepted is decided here

        def change(obj: Json) -> None:
            obj["status"] = {**(obj.get("status") or {}), **status}

        try:
            self._registry.modify_now(item.kind, item.namespace, item.name, change, _OPTIONS, "status")
        except StatusError as error:
            _refuse(item, error)

    def _delete(self, item: LoadedItem) -> None:
        """What was terminating in the input is terminating here."""
        if not item.deleted:
            return
        if item.kind.resource == "namespaces" and item.name in IMMORTAL:
            return
        try:
            # What happens to dependents was settled when it was deleted: a finalizer states it, or they go.
            settled = settles_dependents(item.manifest["metadata"])
            options = DeleteOptions(propagation=None if settled else "Background")
            self._registry.delete_now(item.kind, item.namespace, item.name, options)
        except StatusError as error:
            _refuse(item, error)


def _refuse(item: LoadedItem, error: StatusError) -> NoReturn:
    """The API's refusal of an object, with where it stands in the input."""
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


def _head(found: PlainObject) -> tuple[str, str]:
    return found.manifest["apiVersion"], found.manifest["kind"]


def _foreign_groups(objects: Sequence[PlainObject]) -> dict[str, list[int]]:
    """Return the numbers of the PodGroups in the input, by their version."""
    found: dict[str, list[int]] = {}
    for number, one in enumerate(objects):
        version, kind = _head(one)
        if kind == "PodGroup":
            found.setdefault(version, []).append(number)
    return found


def _after(items: Iterable[LoadedItem], now: str) -> str:
    """Return a second after the newest creation time of the items where that lies ahead of `now`; else empty."""
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
