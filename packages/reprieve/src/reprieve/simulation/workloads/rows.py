"""Rows: the places of pod templates and their counts in objects of a kind (whatif.md 3).

    apiVersion: reprieve.dev/v1alpha1
    kind: WorkloadKinds
    workloadKinds:
    - group: example.com
      kind: Sweep
      suspended: spec.paused           # requires no pods while this is true
      ended: {status.phase: [Done]}    # or once this has such a value
      gang: object                     # if annotated: the whole object is one gang; part, replica: each is a gang
      sets:
      - each: spec.workers.*           # one set of pods for each entry of a list or a map; without .*, for one object
        part: role                     # the field that names the entry, `{part}`; for a map the key in lower case
        template: template             # relative to the entry; several: the first that exists
        replicas: count                # a path relative to the entry, or a number
        default: 1                     # without a value there
        size: 1                        # pods of each replica, as `replicas`
        name: "{name}-{part}-{index}"  # ends in "-": five characters are generated
        labels: {example.com/role: "{part}", example.com/index: "{index}"}

`{name}` is the object's name, `{index}` counts the pods of a set, `{replica}` and `{member}` are its two parts. A set
may create other objects instead of pods (`makes`): its template is then that of the other kind, which has its own row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

from kube_rules.errors import InputError, Origin
from kube_rules.group_sources import GROUP_ANNOTATIONS, TASK_ANNOTATION
from kube_rules.json import mapping, text
from kube_rules.manifests import PodMaker, UnknownObject
from kube_rules.unknown_fields import did_you_mean, misnamed_in, path_text
from kube_rules.versions import DOCUMENT_VERSION
from kube_rules.workloads import group_of
from kube_rules.yamltext import NodeBudget, YamlError, read_documents

FILE_KIND: Final = "WorkloadKinds"
MOST_ROWS: Final = 1_000
MOST_BYTES: Final = 4 * 1024 * 1024
_PLACEHOLDERS: Final = ("name", "namespace", "part", "index", "replica", "member", "replicas", "size")


class WorkloadRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The base of the parts of a row."""


class PodSet(WorkloadRow, frozen=True, kw_only=True):
    """Pods (or objects) created from one template; see the module docstring. Paths are relative to the entry."""

    each: str = ""
    part: str = "name"
    template: str | tuple[str, ...] = "template"
    replicas: int | str = 1
    default: int = 1
    least: str = ""
    """A path to the minimum number of replicas."""
    most: str = ""
    suspended: str = ""
    """A path: no pods while it is true."""
    size: int | str = 1
    less: int = 0
    """The number of pods of each `size` that another set creates, such as the leader of a group."""
    start: str = ""
    """A path to the first index."""
    name: str = "{name}-{part}-{index}"
    labels: dict[str, str] = {}
    labels_of: dict[str, dict[str, str]] = {}
    """Additional labels by part."""
    annotations: dict[str, str] = {}
    hostname: str = ""
    owner: str = ""
    """`apps/v1 StatefulSet {name}`: the owner of the pods, if it is not the object itself."""
    makes: str = "v1 Pod"
    """apiVersion and kind of the created objects."""
    template_of: str = ""
    """The content of `template`: metadata and spec of the created object (empty), only its `spec`, or that of its
    `pod`s.
    """
    otherwise: dict[str, Any] = {}
    """The template if there is none at `template`."""
    named_in: str = ""
    """A path in the object: the name of the created object."""
    spec: dict[str, Any] = {}
    """Default fields of the spec."""
    on_pods: bool = False
    """Whether the pods of a created object also get the labels and annotations."""
    optional: bool = False
    """Whether the template may be missing."""
    when: dict[str, tuple[Any, ...]] = {}
    """Paths in the object, and their permitted values (null: none)."""
    pod_defaults: dict[str, str] = {}
    """Default fields of the pods' spec, and the path of each in the object."""
    inherits: bool = False
    """Whether a created object gets the labels and annotations of the object."""


class WorkloadKind(WorkloadRow, frozen=True, kw_only=True):
    """One kind. Without `sets` the rules of `controllers` apply."""

    group: str = ""
    kind: str
    versions: tuple[str, ...] = ()
    """The versions to which the row applies; all, if empty."""
    suspended: str = ""
    ended: dict[str, tuple[str, ...]] = {}
    """Paths, and the values there that mark a finished object."""
    ended_conditions: tuple[str, ...] = ()
    """Types of status.conditions that mark a finished object when True."""
    gang: str = "object"
    """What an opt-in turns into a gang: all pods of the `object`, each `part`, or each `replica`."""
    min_count: str = ""
    """A path to the minimum of a gang that the object itself requests."""
    min_count_of_part: str = ""
    """A path from each entry of the first set to the minimum of its pods; by default all. If an entry states it and the
    sum is at most `min_count`, each minimum applies, as in Volcano (workloads.md 2.7).
    """
    always_gang: bool = False
    """Whether it is always a gang, of all pods unless `min_count` is lower."""
    gang_when: tuple[str, ...] = ()
    """Paths: a value at one of them requests a gang, of all pods unless `min_count` is lower."""
    gang_name: str = "{name}"
    """The name of the group of such a gang."""
    priority_class: tuple[str, ...] = ()
    """Paths: the first text is the class of such a gang; without one it has the highest priority of its pods."""
    unread: tuple[str, ...] = ()
    """Paths of fields for another scheduler, which are reported as not read."""
    scale: str = ""
    """The path of the count for scaling."""
    sets: tuple[PodSet, ...] = ()


class _RowsFile(WorkloadRow, frozen=True, kw_only=True):
    api_version: str
    kind: str
    workload_kinds: tuple[WorkloadKind, ...] = ()


class Rows:
    """The registered rows; the last row for a kind applies."""

    def __init__(self, rows: Sequence[WorkloadKind]) -> None:
        self._rows: dict[tuple[str, str], list[WorkloadKind]] = {}
        for row in rows:
            self._rows.setdefault((row.group, row.kind), []).insert(0, row)

    def of(self, api_version: str, kind: str) -> WorkloadKind | None:
        """Return the row of a kind, None without one."""
        version = api_version.rpartition("/")[2]
        for row in self._rows.get((group_of(api_version), kind), ()):
            if not row.versions or version in row.versions:
                return row
        return None

    def with_more(self, rows: Sequence[WorkloadKind]) -> Rows:
        """Return the rows with additional ones that take precedence."""
        if not rows:
            return self
        return Rows([*(row for item in self._rows.values() for row in reversed(item)), *rows])

    def makers_among(self, unknown: Sequence[UnknownObject]) -> tuple[list[PodMaker], list[UnknownObject]]:
        """Return the objects with a row and those without, each in the given order."""
        makers: list[PodMaker] = []
        without_row: list[UnknownObject] = []
        for item in unknown:
            if self.of(item.api_version, item.kind) is None:
                without_row.append(item)
            else:
                makers.append(PodMaker(item.manifest, item.origin, item.created, item.dated))
        return makers, without_row

    def kinds(self) -> Iterator[tuple[str, str]]:
        """Yield (group, kind) of all rows."""
        return iter(self._rows)


def read_rows(name: str, text: str) -> list[WorkloadKind]:
    """Return the rows of a WorkloadKinds file (whatif.md 3.3). Raises InputError with document and field."""
    rows: list[WorkloadKind] = []
    number = 0
    try:
        for document in read_documents(text, NodeBudget()):
            number = document.number
            origin = Origin(name, number, document.line)
            rows += _rows_of(document.data, origin)
            if len(rows) > MOST_ROWS:
                raise InputError(origin, f"more than {MOST_ROWS} kinds")
    except YamlError as error:
        raise InputError(Origin(name, number + 1, error.line), f"invalid YAML: {error}") from None
    if not number:
        raise InputError(Origin(name), "it lists no kinds")
    return rows


def _rows_of(data: Any, origin: Origin) -> tuple[WorkloadKind, ...]:
    if not isinstance(data, Mapping) or (data.get("apiVersion"), data.get("kind")) != (DOCUMENT_VERSION, FILE_KIND):
        raise InputError(origin, f"must be an object with apiVersion {DOCUMENT_VERSION} and kind {FILE_KIND}")
    for misnamed in misnamed_in(_RowsFile, data):
        raise InputError(origin, f"unknown field{did_you_mean(misnamed.nearest)}", path=path_text(misnamed.path))
    try:
        document = msgspec.convert(data, _RowsFile)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `$.")
        raise InputError(origin, message[:1].lower() + message[1:], path=place.rstrip("`")) from None
    for index, row in enumerate(document.workload_kinds):
        _check(row, f"workloadKinds[{index}]", origin)
    return document.workload_kinds


def _check(row: WorkloadKind, path: str, origin: Origin) -> None:
    if not row.kind:
        raise InputError(origin, "Required value: must name the kind", path=f"{path}.kind")
    if not row.sets:
        raise InputError(origin, "Required value: where its pods are", path=f"{path}.sets")
    if row.gang not in ("object", "part", "replica"):
        raise InputError(origin, f'Unsupported value: "{row.gang}": object, part or replica', path=f"{path}.gang")
    needed = (GROUP_ANNOTATIONS[0], TASK_ANNOTATION)
    if row.min_count_of_part and not all(key in row.sets[0].annotations for key in needed):
        message = f"counts for pods with the annotations {' and '.join(needed)} only"
        raise InputError(origin, f'Invalid value: "{row.min_count_of_part}": {message}', path=f"{path}.minCountOfPart")
    for index, pods in enumerate(row.sets):
        at = f"{path}.sets[{index}]"
        for field in ("replicas", "size", "default", "less"):
            value = getattr(pods, field)
            if isinstance(value, int) and not 0 <= value <= 1_000_000:
                raise InputError(origin, f"Invalid value: {value}: 0 to 1000000", path=f"{at}.{field}")
        if len(pods.makes.split()) != 2:
            raise InputError(origin, f'Invalid value: "{pods.makes}": apiVersion and kind', path=f"{at}.makes")
        if pods.owner and len(pods.owner.split()) != 3:
            message = f'Invalid value: "{pods.owner}": apiVersion, kind and name'
            raise InputError(origin, message, path=f"{at}.owner")
        texts = {
            "name": pods.name,
            "hostname": pods.hostname,
            "owner": pods.owner,
            "gangName": row.gang_name,
            **pods.labels,
            **pods.annotations,
        }
        for field, pattern in texts.items():
            try:
                pattern.format_map(dict.fromkeys(_PLACEHOLDERS, ""))
            except (ValueError, LookupError, AttributeError, TypeError):
                placeholders = ", ".join(f"{{{item}}}" for item in _PLACEHOLDERS)
                message = f'Invalid value: "{pattern[:128]}": only {placeholders} can be filled in'
                raise InputError(origin, message, path=f"{at}.{field}") from None


def value_at(value: Any, path: str) -> Any:
    """Return the value at a path of dotted names; None without one. A name with dots: `labels[a.b/c]`."""
    for step in _steps(path):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


@lru_cache(maxsize=1024)
def _steps(path: str) -> tuple[str, ...]:
    return tuple(match[1] or match[2] for match in _STEP.finditer(path))


_STEP: Final = re.compile(r"\[([^\]]+)\]|([^.\[]+)")


def filled(text: str, values: Mapping[str, object]) -> str:
    """Return a text with its placeholders filled in."""
    return text.format_map(values) if "{" in text else text


def entries_of(manifest: Mapping[str, Any], pods: PodSet) -> Iterator[tuple[str, str, Any]]:
    """Yield (path, part, entry) of every entry of a set, of any type."""
    path = pods.each.removesuffix("*").removesuffix(".")
    value = value_at(manifest, path)
    if value is None:
        return
    if not pods.each.endswith("*"):
        yield path, "", value
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            yield f"{path}[{index}]", text(mapping(entry).get(pods.part)) or str(index), entry
    elif isinstance(value, Mapping):
        for name, entry in value.items():
            yield f"{path}.{name}", str(name).lower(), entry
