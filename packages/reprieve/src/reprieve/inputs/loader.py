"""From input to typed objects: YAML and JSON of files, directories and standard input (`inputs.sources`).

A document is one YAML document or JSON value; `List` objects are flattened. The order of an object is its position in
the whole input.

Invariants: at most `max_bytes` are read. The first error stops loading with an `InputError`. Objects without
`creationTimestamp` count as created one second apart in document order, after all objects with one (interfaces.md
1.11).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec
from msgspec.structs import force_setattr, replace

from kube_rules.admission import PriorityAdmission
from kube_rules.decoding import (
    KINDS,
    NO_ITEMS,
    TYPE_META,
    TypeMeta,
    finish,
    from_data,
    from_json,
    kind_of,
    name_of,
    plain_json,
    subject_of,
)
from kube_rules.documents import MAX_NESTED_LISTS, Document, DocumentReader, depth, json_error, refuse_nameless
from kube_rules.errors import FieldError, InputError, Origin, excerpt
from kube_rules.manifests import LoadedObject, Manifests, PodMaker, Scenario, UnknownObject
from kube_rules.meta import EMPTY_META, KubernetesObject, ObjectMeta
from kube_rules.objects import CompositePodGroup, Pod, PodGroup, PriorityClass, Workload
from kube_rules.references import check_groups, check_nodes, refuse_duplicates
from kube_rules.shared_parts import forget_shared
from kube_rules.unknown_fields import JSON_TEXT, MOST_FINDINGS, Manifest, MisnamedField, Schemas, UnknownField, located
from kube_rules.unknown_fields import Path as FieldPath
from kube_rules.validation.manifests import remark_on
from kube_rules.validation.typed import is_validated
from kube_rules.versions import DOCUMENT_VERSION, READABLE_VERSIONS
from kube_rules.workloads import created_by, makes_pods, nearest_kind, templates_in
from kube_rules.yamltext import MAX_DEPTH
from reprieve.inputs.sources import read_sources

MAX_INPUT_BYTES: Final = 64 * 1024 * 1024
FIRST_CREATION: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""Creation time of the first object of an input that has no times."""
_FIRST_SECONDS: Final = FIRST_CREATION.timestamp()

_READ_AS_TEXT: Final = {
    (kind, version): object_type
    for kind, (object_type, versions) in KINDS.items()
    for version in (*versions, *READABLE_VERSIONS.get(kind, ()))
    if not makes_pods(version, kind)
}
"""(kind, version) -> type of the objects that create no pods; other kinds are read as plain data first."""
_PRIORITIZED: Final = (Pod, PodGroup, CompositePodGroup, Workload)
_MOST_MEANINGS: Final = 200


def load(
    sources: Sequence[str | Path | Document],
    *,
    max_bytes: int = MAX_INPUT_BYTES,
    stdin: BinaryIO | None = None,
    complete: bool = True,
    classes: Sequence[PriorityClass] = (),
    schemas: Schemas | None = None,
) -> Manifests:
    """Read, convert, default and validate everything in the sources, and resolve priorities.

    A directory stands for its `*.yaml`, `*.yml` and `*.json` files, sorted, without subdirectories, as for kubectl
    without `-R`. `-` is standard input; a source in memory has a name (`Document`). With `complete=False` pods may be
    bound to nodes outside the input. `classes` are additional priority classes. With `schemas` unknown fields are
    recorded. Raises `InputError`.
    """
    collector = _Collector(schemas)
    with _noting(collector.manifests):
        collector.read_all(read_sources(sources, max_bytes, stdin), max_bytes)
        return _finished(collector.manifests, complete, classes)


def read(
    documents: Sequence[Document],
    *,
    complete: bool = True,
    schemas: Schemas | None = None,
) -> Manifests:
    """Load documents in memory: (name, YAML or JSON text, or one object as plain data).

    Errors cite the names instead of files; `complete` and `schemas` as in `load`. Raises `InputError`.
    """
    collector = _Collector(schemas)
    with _noting(collector.manifests):
        for name, document in documents:
            if isinstance(document, Mapping):
                collector.take(document, Origin(name))
            else:
                collector.read(name, document.encode() if isinstance(document, str) else document)
        return _finished(collector.manifests, complete, ())


@contextmanager
def _noting(manifests: Manifests) -> Iterator[None]:
    """Add the unknown fields of a document to its error: a missing required field may be misspelled."""
    try:
        yield
    except InputError as error:
        for unknown_field in manifests.unknown_fields:
            if (unknown_field.origin.file, unknown_field.origin.document) == (error.origin.file, error.origin.document):
                error.add_note(str(unknown_field))
        raise


def _finished(manifests: Manifests, complete: bool, classes: Sequence[PriorityClass]) -> Manifests:
    """Complete the manifests: creation times, duplicates, references, priorities."""
    forget_shared()
    manifests.date_undated()
    refuse_duplicates(manifests.all())
    check_groups(manifests.pod_groups, manifests.pods)
    if complete:
        check_nodes(manifests.pods, {loaded.object.name for loaded in manifests.nodes})
    input_classes = [loaded.object for loaded in manifests.of(PriorityClass)]
    _resolve_priorities(manifests, PriorityAdmission([*classes, *input_classes]))
    return manifests


def created_seconds(meta: ObjectMeta, order: int) -> float:
    """Return the creation time in seconds since 1970, or `order` seconds after the fixed first creation."""
    stamp = meta.creation_timestamp
    return _in_turn(order) if stamp is None else stamp.timestamp()


def _in_turn(order: int) -> float:
    return _FIRST_SECONDS + order


def _resolve_priorities(manifests: Manifests, admission: PriorityAdmission) -> None:
    for kind in _PRIORITIZED:
        for loaded in manifests.of(kind):
            try:
                loaded.object = admission.resolve(loaded.object)
            except FieldError as error:
                raise InputError(
                    loaded.origin, error.message, path=error.path, subject=name_of(loaded.object)
                ) from None


# --- documents ----------------------------------------------------------------------------------------------


class _Collector(DocumentReader):
    """Collects the documents of one input in `Manifests` and counts them."""

    def __init__(self, schemas: Schemas | None = None) -> None:
        super().__init__()
        self.manifests = Manifests()
        self._schemas = schemas
        self._meanings: dict[tuple[str, str], str] = {}
        self._order = 0
        self._place = Origin()
        """The origin of the last object, without the item of a list."""
        self._located = 0
        """The number of unknown fields that have a line number."""

    def read(self, name: str, data: bytes) -> None:
        """Add all objects of one file."""
        self._located = len(self.manifests.unknown_fields)
        super().read(name, data)

    def _object(self, kind: str, version: str, data: Mapping[str, Any], origin: Origin, at: FieldPath) -> None:
        """Add one object that is not a list."""
        if kind == "Scenario" and version == DOCUMENT_VERSION:
            self._scenario(data, origin, at)
        elif (object_type := self._kind(kind, version, origin, data)) is not None:
            self._check(version, kind, data, origin, at)
            loaded = from_data(object_type, data, origin)
            if not is_validated(object_type):
                self._check_rules(version, kind, data, origin, namespaced=object_type.NAMESPACED)
            self._add(loaded, origin)
        else:
            self._check(version, kind, data, origin, at)

    def _scenario(self, data: Mapping[str, Any], origin: Origin, at: FieldPath) -> None:
        if depth(data) > MAX_DEPTH:
            raise InputError(origin, f"nested deeper than {MAX_DEPTH} levels")
        self.manifests.scenarios.append(Scenario(dict(data), origin))
        self._check(DOCUMENT_VERSION, "Scenario", data, origin, at)
        for path, manifest in created_by(data):
            version, kind = manifest.get("apiVersion"), manifest.get("kind")
            if isinstance(version, str) and isinstance(kind, str):
                self._check(version, kind, manifest, origin, at, path)

    def _check(
        self, version: str, kind: str, manifest: Manifest, origin: Origin, at: FieldPath, within: FieldPath = ()
    ) -> None:
        """Record the unknown fields of an object; `within` is its path in a Scenario."""
        if self._schemas is None:
            return
        misnamed = self._schemas.unknown_fields("v1" if kind == "List" else version, kind, manifest)
        if not misnamed and not isinstance(manifest, JSON_TEXT) and not self._schemas.knows(version, kind):
            misnamed = _in_templates(manifest, self._schemas)
        if not misnamed:
            return
        noted, manifests = self.manifests.unknown_fields, self.manifests
        manifests.unknown_fields_total += len(misnamed)
        data = manifest if isinstance(manifest, Mapping) else plain_json(manifest, origin)
        subject = subject_of({"kind": kind, "metadata": data.get("metadata")})
        for item in misnamed[: max(0, MOST_FINDINGS - len(noted))]:
            noted.append(UnknownField(origin, subject, (*within, *item.path), item.nearest, at))

    def _list(self, version: str, data: Mapping[str, Any], origin: Origin, at: FieldPath) -> None:
        self._check(version, "List", {**data, "items": None}, origin, at)

    def _end_yaml(self, text: str) -> None:
        """Set the line numbers of the fields recorded in this text."""
        fields = self.manifests.unknown_fields
        fields[self._located :] = located(fields[self._located :], text)

    def _end_json(self, value: memoryview, data: bytes, end: int) -> None:
        fields = self.manifests.unknown_fields
        if len(fields) > self._located:
            line = 1 + data.count(b"\n", 0, end - len(value))
            placed = [field._replace(origin=field.origin._replace(line=line)) for field in fields[self._located :]]
            fields[self._located :] = located(placed, bytes(value).decode("utf-8", "replace"), first_line=line)
            self._located = len(fields)

    def _leave_aside(self, kind: str, version: str, data: Mapping[str, Any], origin: Origin) -> None:
        """Store an object of a kind without a type as plain data."""
        created, dated = self._created(data)
        if makes_pods(version, kind):
            self._check_rules(version, kind, data, origin, namespaced=True)
            self.manifests.pod_makers.append(PodMaker(data, origin, created, dated))
            return
        is_known = None if self._schemas is None else self._schemas.knows(version, kind)
        meant = self._meant(version, kind) if is_known is False else ""
        self.manifests.unknown.append(
            UnknownObject(excerpt(version), excerpt(kind), origin, is_known, meant, data, created, dated)
        )

    def _created(self, data: Mapping[str, Any]) -> tuple[float, bool]:
        """Return the creation time of an object in plain data, or one by document order, and whether it has its own."""
        meta = data.get("metadata")
        stamp = meta.get("creationTimestamp") if isinstance(meta, Mapping) else None
        order = self._order
        self._order += 1
        try:
            creation = datetime.fromisoformat(stamp) if isinstance(stamp, str) else stamp
        except ValueError:
            creation = None
        if not isinstance(creation, datetime):
            return _in_turn(order), False
        return (creation if creation.tzinfo is not None else creation.replace(tzinfo=UTC)).timestamp(), True

    def _meant(self, version: str, kind: str) -> str:
        """Return the most similar known kind for an unknown one."""
        key = (version, kind)
        if key not in self._meanings:
            if self._schemas is None or len(self._meanings) >= _MOST_MEANINGS:
                return ""
            self._meanings[key] = nearest_kind(version, kind, self._schemas.kinds())
        return self._meanings[key]

    def _kind(self, kind: str, version: str, origin: Origin, data: Mapping[str, Any]) -> type[KubernetesObject] | None:
        try:
            result = kind_of(kind, version)
        except FieldError as error:
            raise InputError(origin, error.message, path=error.path, subject=subject_of(data)) from None
        if result is None:
            self._leave_aside(kind, version, data, origin)
        elif makes_pods(version, kind):
            # the typed object that follows has the same position
            self.manifests.pod_makers.append(PodMaker(data, origin, *self._created(data)))
            self._order -= 1
        return result

    def _check_rules(
        self, version: str, kind: str, data: Mapping[str, Any], origin: Origin, *, namespaced: bool
    ) -> None:
        """Raise InputError for an object that an API server refuses; record a draft without required fields."""
        remark = remark_on(version, kind, data, origin, namespaced=namespaced)
        if remark is not None:
            self.manifests.remarks.append(remark)

    def _add(self, loaded_object: KubernetesObject, origin: Origin) -> None:
        order = self._order
        self._order += 1
        meta = loaded_object.metadata
        dated = meta.creation_timestamp is not None
        if meta is EMPTY_META:
            meta = ObjectMeta()
            loaded_object = replace(loaded_object, metadata=meta)
        # the new object is not shared yet
        if meta.creation_timestamp is None:
            force_setattr(meta, "creation_timestamp", FIRST_CREATION + timedelta(seconds=order))
        elif meta.creation_timestamp.tzinfo is None:
            force_setattr(meta, "creation_timestamp", meta.creation_timestamp.replace(tzinfo=UTC))
        if not meta.name and meta.generate_name:
            force_setattr(meta, "name", f"{meta.generate_name}{order:05d}")
        if loaded_object.NAMESPACED and not meta.namespace:
            force_setattr(meta, "namespace", "default")
        loaded_object = finish(loaded_object, origin, stored_groups=True)
        created = created_seconds(loaded_object.metadata, order) if dated else _in_turn(order)
        if origin[:-1] != self._place[:-1]:
            self._place = origin._replace(item=None)
        item = order if origin.item == order else origin.item  # share the int object if equal
        loaded = LoadedObject(loaded_object, self._place, order, created, dated=dated, item=item)
        self.manifests.objects.setdefault(type(loaded_object), []).append(loaded)

    # --- JSON -----------------------------------------------------------------------------------------------

    def _json(
        self,
        text: memoryview | msgspec.Raw,
        origin: Origin,
        head: TypeMeta | None,
        list_head: TypeMeta | None = None,
        at: FieldPath = (),
    ) -> None:
        """Add one object given as JSON text; `list_head` names the kind of items of a typed list."""
        if head is None:
            try:
                head = TYPE_META.decode(text)
            except (msgspec.DecodeError, RecursionError) as error:
                raise json_error(error, origin) from None
        if list_head is not None and not head.kind and list_head.kind != "List":
            head = TypeMeta(
                api_version=head.api_version or list_head.api_version, kind=list_head.kind.removesuffix("List")
            )
        if not head.kind or not head.api_version:
            refuse_nameless(plain_json(text, origin), origin)
        if head.kind.endswith("List") and head.items is not NO_ITEMS:
            self._json_list(text, head, origin, at)
        elif head.kind == "Scenario" and head.api_version == DOCUMENT_VERSION:
            self._scenario(plain_json(text, origin), origin, at)
        else:
            object_type = _READ_AS_TEXT.get((head.kind, head.api_version))
            if object_type is None:
                data = {**plain_json(text, origin), "kind": head.kind, "apiVersion": head.api_version}
                object_type = self._kind(head.kind, head.api_version, origin, data)
            self._check(head.api_version, head.kind, text, origin, at)
            if object_type is not None:
                loaded = from_json(object_type, text, head, origin)
                if not is_validated(object_type):
                    data = {**plain_json(text, origin), "kind": head.kind, "apiVersion": head.api_version}
                    self._check_rules(head.api_version, head.kind, data, origin, namespaced=object_type.NAMESPACED)
                self._add(loaded, origin)

    def _json_list(self, text: memoryview | msgspec.Raw, head: TypeMeta, origin: Origin, at: FieldPath) -> None:
        if len(at) >= 2 * MAX_NESTED_LISTS:
            raise InputError(origin, f"lists nested deeper than {MAX_NESTED_LISTS}")
        self._check(head.api_version, "List", text, origin, at)
        try:
            items = _ITEMS.decode(head.items)
        except (msgspec.DecodeError, RecursionError):
            raise InputError(origin, "Invalid value: must be a list", path="items") from None
        file, document, line, _ = origin
        for index, item in enumerate(items or ()):
            self._json(item, Origin(file, document, line, index), None, head, (*at, "items", index))


def _in_templates(manifest: Mapping[str, Any], schemas: Schemas) -> list[MisnamedField]:
    """Return the misspelled fields in the pod and Job templates of a kind without a schema."""
    result = []
    for path, template in templates_in(manifest):
        pod = {name: template[name] for name in ("metadata", "spec") if name in template}
        result += [item._replace(path=(*path, *item.path)) for item in schemas.unknown_fields("v1", "Pod", pod)]
        above = path[:-2]
        if path[-2:] == ("spec", "template") and above and above[-1] == "template":
            job = _at(manifest, above)
            inner = {**job["spec"], "template": {"spec": {"containers": []}}}
            misnamed = schemas.unknown_fields("batch/v1", "Job", {"spec": inner})
            result += [item._replace(path=(*above, *item.path)) for item in misnamed]
    return result


def _at(value: Any, path: FieldPath) -> Any:
    for step in path:
        value = value[step]
    return value


_ITEMS: Final = msgspec.json.Decoder(list[msgspec.Raw] | None)
