"""The content of an input: its objects with their origins, and the objects that planning expands or runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar, cast

import msgspec
from msgspec.structs import replace

from kube_rules.decoding import name_of, subject_of
from kube_rules.errors import Origin
from kube_rules.group_owners import Job
from kube_rules.meta import KubernetesObject
from kube_rules.objects import Namespace, Node, Pod, PodGroup
from kube_rules.unknown_fields import UnknownField

ObjectT_co = TypeVar("ObjectT_co", bound=KubernetesObject, covariant=True)
ObjectT = TypeVar("ObjectT", bound=KubernetesObject)


class LoadedObject(msgspec.Struct, Generic[ObjectT_co], eq=False, gc=False):
    """An object with its origin, its order in the input and its creation time in seconds since 1970.

    `dated`: whether the input has a creation time; otherwise its order determines it.
    """

    object: ObjectT_co
    place: Origin
    order: int
    created: float
    dated: bool = True
    item: int | None = None
    """The index of the item in the list at `place`; the items of a list share `place`."""

    @property
    def origin(self) -> Origin:
        """Return the place that it was read from."""
        if self.item is None:
            return self.place
        file, document, line, _ = self.place
        return Origin(file, document, line, self.item)

    def __repr__(self) -> str:
        return f"LoadedObject({name_of(self.object)}, {self.origin}, order={self.order})"


class Scenario(NamedTuple):
    """A Scenario document as plain data; it is checked when it runs."""

    manifest: dict[str, Any]
    origin: Origin


class UnknownObject(NamedTuple):
    """An object of an unsupported kind."""

    api_version: str
    kind: str
    origin: Origin
    known: bool | None = None
    """Whether there is a schema of the kind; None without schemas."""
    nearest: str = ""
    """The probable intended kind: `Pod`, or `Deployment in version apps/v1`."""
    manifest: Mapping[str, Any] = {}
    created: float = 0.0
    """Seconds since 1970, like `LoadedObject.created`."""
    dated: bool = True

    @property
    def subject(self) -> str:
        """Return the name of the object in messages: `Certificate "default/web"`."""
        return subject_of(self.manifest)


class PodMaker(NamedTuple):
    """An object with a template from which its controller creates pods (`workloads.makes_pods`), as plain data."""

    manifest: Mapping[str, Any]
    origin: Origin
    created: float = 0.0
    """Seconds since 1970, like `LoadedObject.created`."""
    dated: bool = True


class SuspendedInput(NamedTuple):
    """A workload of the input, or a part of one, that has no pods while it is suspended."""

    origin: Origin
    api_version: str
    kind: str
    namespace: str
    name: str
    field: str
    """The field that suspends it."""

    @property
    def message(self) -> str:
        """Return the warning about it."""
        return f"it is suspended ({self.field}) and calls for no pods"

    def __str__(self) -> str:
        return f'{self.origin}: {self.kind} "{self.namespace}/{self.name}": {self.message}'


class Remark(NamedTuple):
    """A field or an annotation of a workload that is ignored, or that a scheduler interprets differently."""

    origin: Origin
    subject: str
    message: str
    unless: str = ""
    """The source of groups that reads it: nothing is reported if that source is enabled."""
    strict: bool = False
    """Whether a strict reader refuses the input because of it."""

    def __str__(self) -> str:
        return f"{self.origin}: {self.subject}: {self.message}"


class PlainObject(NamedTuple):
    """An object of the input of any kind, unchanged."""

    manifest: dict[str, Any]
    origin: Origin


@dataclass(slots=True)
class Manifests:
    """The content of one input, in document order."""

    objects: dict[type[KubernetesObject], list[LoadedObject[KubernetesObject]]] = field(default_factory=dict)
    scenarios: list[Scenario] = field(default_factory=list)
    unknown: list[UnknownObject] = field(default_factory=list)
    pod_makers: list[PodMaker] = field(default_factory=list)
    """Deployments, Jobs and other pod makers; planning expands them (`simulation.workloads`)."""
    expanded: list[PodMaker] = field(default_factory=list)
    """The expanded pod makers, and pod makers that they create in turn: owners before their dependents."""
    jobs: list[Job] = field(default_factory=list)
    """The expanded Jobs: their end times count (cost.md 6.4)."""
    suspended: list[SuspendedInput] = field(default_factory=list)
    """Suspended objects among the expanded ones: whether they would run has no answer (whatif.md 1.5)."""
    counted: list[LoadedObject[KubernetesObject]] = field(default_factory=list)
    """Existing objects that a question excludes: only quotas count them."""
    remarks: list[Remark] = field(default_factory=list)
    """Ignored fields of the expanded objects."""
    unknown_fields: list[UnknownField] = field(default_factory=list)
    """The unknown fields, if schemas were given; the first `MOST_FINDINGS`."""
    unknown_fields_total: int = 0

    def of(self, kind: type[ObjectT]) -> list[LoadedObject[ObjectT]]:
        """Return the objects of one type, in document order."""
        return cast("list[LoadedObject[ObjectT]]", self.objects.get(kind, []))

    def all(self) -> list[LoadedObject[KubernetesObject]]:
        """Return all typed objects, in document order."""
        return sorted(chain.from_iterable(self.objects.values()), key=attrgetter("order"))

    def date_undated(self, after: float | None = None) -> None:
        """Date objects without a creation time after all dated objects, one second apart in document order.

        Their times are also after `after`, in seconds since 1970. Without dated objects and `after` they keep their
        times (interfaces.md 1.11).
        """
        typed, makers, unknown = self.all(), self.pod_makers, self.unknown
        dated = [item.created for items in (typed, makers, unknown) for item in items if item.dated]
        begun = max([*dated, *(() if after is None else (after,))], default=None)
        if begun is None:
            return
        turns = sorted({item.created for items in (typed, makers, unknown) for item in items if not item.dated})
        created = {turn: begun + 1 + rank for rank, turn in enumerate(turns)}
        for loaded in typed:
            if not loaded.dated:
                loaded.created = created[loaded.created]
                stamp = datetime.fromtimestamp(loaded.created, UTC)
                meta = replace(loaded.object.metadata, creation_timestamp=stamp)
                loaded.object = replace(loaded.object, metadata=meta)
        makers[:] = [maker if maker.dated else maker._replace(created=created[maker.created]) for maker in makers]
        unknown[:] = [item if item.dated else item._replace(created=created[item.created]) for item in unknown]

    @property
    def pods(self) -> list[LoadedObject[Pod]]:
        """Return the pods."""
        return self.of(Pod)

    @property
    def nodes(self) -> list[LoadedObject[Node]]:
        """Return the nodes."""
        return self.of(Node)

    @property
    def pod_groups(self) -> list[LoadedObject[PodGroup]]:
        """Return the pod groups."""
        return self.of(PodGroup)

    @property
    def namespaces(self) -> list[LoadedObject[Namespace]]:
        """Return the namespaces."""
        return self.of(Namespace)
