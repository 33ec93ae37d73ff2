"""The basis of all typed objects: the struct base, metadata, label selectors, conditions (meta/v1).

Invariants: see `kube_rules.objects`, which re-exports every public name here. Read objects from there.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, ClassVar, Final, NamedTuple, NoReturn, Self

import msgspec

from kube_rules.quantity import QuantityText as QuantityText

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]

ResourceList = dict[str, QuantityText]
"""Resource name to quantity, unparsed."""

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
NAMESPACE_LABEL: Final = "kubernetes.io/metadata.name"
"""The label of a Namespace with its name."""
DISRUPTION_TARGET: Final = "DisruptionTarget"
"""The type of the condition of pods and groups that are evicted."""
INITIALLY_SCHEDULED: Final = {
    "PodGroup": "PodGroupInitiallyScheduled",
    "CompositePodGroup": "CompositePodGroupInitiallyScheduled",
}
"""The type of the condition of each kind of group that was placed."""
FINISHED: Final = ("Succeeded", "Failed")
"""The phases in which all containers of a pod have ended for good."""


class _EmptyMap(dict[str, Any]):
    """The empty map that all objects share; it is read-only."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("objects are frozen: build a new one with msgspec.structs.replace")

    __setitem__ = _refuse
    __delitem__ = _refuse
    __ior__ = _refuse
    update = _refuse
    setdefault = _refuse
    pop = _refuse
    popitem = _refuse
    clear = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return (_empty_map, ())

    def __copy__(self) -> _EmptyMap:
        return self

    def __deepcopy__(self, _memo: object) -> _EmptyMap:
        return self


EMPTY_MAP = _EmptyMap()


def _empty_map() -> dict[str, Any]:
    return EMPTY_MAP


def map_field() -> Any:
    """Return a struct field with the shared empty map as its default."""
    return msgspec.field(default_factory=_empty_map)


class Struct(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, rename="camel"):
    """Base of every Kubernetes type: frozen, camelCase in JSON; unknown fields are ignored."""


class Empty(Struct, frozen=True, kw_only=True):
    """A struct without fields, present or absent: `basic: {}`, `single: {}`, `all: {}`."""


EMPTY = Empty()


# --- metadata and selectors (meta/v1) ---------------------------------------------------------------------


class OwnerReference(Struct, frozen=True, kw_only=True):
    """metadata.ownerReferences[]."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


LONGEST_REVISION: Final = 20
"""Maximum number of digits."""


class ObjectMeta(Struct, frozen=True, kw_only=True):
    """metadata of any object."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = map_field()
    annotations: dict[str, str] = map_field()
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()

    @property
    def revision(self) -> int:
        """Return `resource_version` as a number: a later write has a larger one; 0 for any other text."""
        version = self.resource_version
        if not version:
            return 0
        return int(version) if len(version) <= LONGEST_REVISION and version.isascii() and version.isdigit() else 0


EMPTY_META = ObjectMeta()


class LabelSelectorRequirement(Struct, frozen=True, kw_only=True):
    """LabelSelector.matchExpressions[]; operator In, NotIn, Exists or DoesNotExist."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Struct, frozen=True, kw_only=True):
    """A label selector: an absent one matches nothing, an empty one everything (see `selectors`)."""

    match_labels: dict[str, str] = map_field()
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class NodeSelectorRequirement(Struct, frozen=True, kw_only=True):
    """One requirement of a node selector term; operator In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Struct, frozen=True, kw_only=True):
    """Requirements that all hold; a term without any matches no node."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Struct, frozen=True, kw_only=True):
    """Alternative terms; at least one must match."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class Condition(Struct, frozen=True, kw_only=True):
    """metav1.Condition, as in the status of a PodGroup."""

    type: str = ""
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None
    observed_generation: int = 0


class ObjectRef(NamedTuple):
    """The identity of an object: its kind and key (`namespace/name`, or `name`), and its UID if known."""

    kind: str
    key: str = ""
    uid: str = ""

    @property
    def namespace(self) -> str:
        """Return the namespace in the key, or ""."""
        return self.key.rpartition("/")[0]

    @property
    def name(self) -> str:
        """Return the last part of the key."""
        return self.key.rpartition("/")[2]


class KubernetesObject(Struct, frozen=True, kw_only=True):
    """Base of the kinds: `KIND`, `API_VERSION` and `NAMESPACED` describe the class, `metadata` the object.

    `KIND` is the name of the class.
    """

    KIND: ClassVar[str] = ""
    API_VERSION: ClassVar[str] = ""
    NAMESPACED: ClassVar[bool] = False

    metadata: ObjectMeta = EMPTY_META

    def __init_subclass__(cls) -> None:
        cls.KIND = cls.__name__

    @classmethod
    def named(cls, metadata: ObjectMeta) -> Self:
        """Return an object with metadata only: its required fields are zero."""
        required = {field.name: field.type() for field in msgspec.structs.fields(cls) if field.required}
        return cls(metadata=metadata, **required)

    @property
    def name(self) -> str:
        """Return metadata.name."""
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """Return metadata.namespace, empty for cluster-scoped kinds."""
        return self.metadata.namespace

    @property
    def key(self) -> str:
        """Return `namespace/name`, or `name` for cluster-scoped kinds."""
        meta = self.metadata
        return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name

    @property
    def full_key(self) -> str:
        """Return `namespace/name` of a namespaced kind; the default namespace is `default`."""
        return f"{self.metadata.namespace or 'default'}/{self.metadata.name}"

    @property
    def created(self) -> float:
        """Return the creation time in seconds since the epoch; 0 if unknown."""
        stamp = self.metadata.creation_timestamp
        return stamp.timestamp() if stamp is not None else 0.0

    @property
    def ref(self) -> ObjectRef:
        """Return the identity of the object."""
        return ObjectRef(self.KIND, self.key, self.metadata.uid)
