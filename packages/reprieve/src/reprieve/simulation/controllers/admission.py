"""Quotas and limit ranges for objects created in simulated time (whatif.md 14).

The rules are those of the embedded API server, `kube_rules.admission`. This module keeps the state they need: the
existing quotas, the counted objects, and the pods that wait for quota. An existing object is counted and never refused.
After a refused pod, its controller creates no more pods until quota of the namespace is released; then it retries at
once.

Invariant: the used amounts of a quota are the sum of its charges for existing objects.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from kube_rules import objects
from kube_rules.admission.amounts import ZERO, Amounts, added, amounts, subtracted
from kube_rules.admission.limit_ranges import complete_item, fill_containers, refusal
from kube_rules.admission.quotas import QuotaError, charge_for, counted
from kube_rules.admission.refusals import forbidden_message, resource_of
from kube_rules.admission.runtime_classes import RuntimeClassError, apply_runtime_class, missing_class
from kube_rules.admission.usage import classes_of_groups, usage_of
from kube_rules.errors import FieldError
from kube_rules.json import Json
from kube_rules.manifests import PodMaker
from kube_rules.meta import KubernetesObject
from kube_rules.validation.typed import validate

ObjectT = TypeVar("ObjectT", bound=KubernetesObject)
Key = tuple[str, str, str]
"""(kind, namespace, UID or name) of an object; `namespace/name` for a pod without a UID."""
Owner = tuple[str, str, str, str]
"""(apiVersion, kind, namespace, name) of a controller."""

_CONTAINERS: Final = tuple[objects.Container, ...]
_TOLERATIONS: Final = tuple[objects.Toleration, ...]
LIMITS: Final = (objects.ResourceQuota, objects.LimitRange)
"""Kinds that only admission reads."""
REFUSING: Final = (*LIMITS, objects.RuntimeClass)
"""Kinds without which no object is refused or changed."""
_NOT_COUNTED: Final = ("services.", "configmaps", "secrets", "resourcequotas", "replicationcontrollers")
"""Resources of kinds that may be incomplete in an input: the quota's status states what is used."""


class AdmissionError(Exception):
    """Admission refuses an object, for a reason in the words of an API server.

    `frame` precedes the reason in the server's message, with `{name}` for the name of the object.
    """

    def __init__(self, why: str, frame: str) -> None:
        super().__init__(why)
        self.why = why
        self.frame = frame

    def message(self, name: str) -> str:
        """Return the server's message for the object, or for a similar object with another name."""
        return self.frame.replace("{name}", name) + self.why


@dataclass(slots=True)
class RefusedPod:
    """A pod that admission refuses; `owner` is its controller, None without one."""

    pod: objects.Pod
    owner: Owner | None
    error: AdmissionError

    @property
    def message(self) -> str:
        """Return the server's message."""
        return self.error.message(self.pod.name)


@dataclass(slots=True)
class _Quota:
    name: str
    manifest: Json
    hard: Amounts
    used: Amounts


@dataclass(slots=True)
class _Namespace:
    """The admission state of one namespace."""

    items: dict[str, list[Json]] = field(default_factory=dict)
    """Name of a LimitRange -> its items."""
    quotas: dict[str, _Quota] = field(default_factory=dict)
    there: dict[Key, KubernetesObject] = field(default_factory=dict)
    """Existing objects that a quota may count."""
    groups: dict[tuple[str, str], Json] = field(default_factory=dict)
    """By kind and name: objects that name the classes for which pods count."""
    charges: dict[Key, list[tuple[str, Amounts]]] = field(default_factory=dict)
    waiting: dict[Owner, deque[RefusedPod]] = field(default_factory=dict)
    """By controller: refused pods, in the order of creation."""
    released: bool = False

    def note(self, key: Key, item: KubernetesObject) -> None:
        """Store an existing object."""
        self.there[key] = item
        if isinstance(item, objects.PodGroup | objects.CompositePodGroup):
            self.groups[item.KIND, item.name] = msgspec.to_builtins(item)

    def classes(self, resource: str, plain: Json) -> frozenset[str]:
        """Return the priority classes that the groups of a pod name (cost.md 7.7)."""
        if resource != "pods" or not self.groups:
            return frozenset()
        return classes_of_groups(plain, lambda kind, name: self.groups.get((kind, name)))


class Admission:
    """Admits the objects of one virtual cluster. Times are in seconds since the epoch."""

    def __init__(self) -> None:
        self._namespaces: defaultdict[str, _Namespace] = defaultdict(_Namespace)
        self._classes: dict[str, Json] = {}
        """RuntimeClasses by name; without any the classes that pods name are ignored."""
        self._refused_claims: dict[tuple[str, str], AdmissionError] = {}
        self._refused_makers: dict[Owner, AdmissionError] = {}
        """Refused controllers, which create no pods."""
        self.refused_pods: list[RefusedPod] = []
        """Refused pods without a controller, which are not retried."""
        self.refused_objects: list[str] = []
        """Messages about other refused objects."""
        self.pods_of: Counter[Owner] = Counter()
        """The number of pods of each controller."""
        self._counts = True
        """Whether any object may be refused."""
        self._spec: tuple[objects.PodSpec, Json] | None = None
        self._classed: tuple[objects.PodSpec, objects.PodSpec] | None = None
        self._filled: tuple[objects.PodSpec, str, objects.PodSpec] | None = None

    @property
    def refused(self) -> Iterable[RefusedPod]:
        """Yield all refused pods, those of controllers last."""
        yield from self.refused_pods
        for space in self._namespaces.values():
            for pods in space.waiting.values():
                yield from pods

    def begin(
        self,
        items: Iterable[KubernetesObject],
        makers: Iterable[PodMaker],
        now: float,
        later: Iterable[KubernetesObject] | None = None,
    ) -> None:
        """Learn what exists before anything is created: quotas, limit ranges, counted objects, controllers.

        `makers` are the objects that create pods, new and existing, owners before owned objects. `later` are all other
        objects to be created, if known: nothing is counted unless some kind can cause a refusal.
        """
        items = list(items)
        self._counts = later is None or any(issubclass(kind, REFUSING) for kind in set(map(type, (*items, *later))))
        if not self._counts:
            return
        for item in items:
            if isinstance(item, objects.RuntimeClass):
                self.set_class(item)
        namespaced = [item for item in items if item.NAMESPACED]
        for item in namespaced:
            if isinstance(item, LIMITS):
                self.set(item, now)
        for item in namespaced:
            if exists(item) and not isinstance(item, LIMITS):
                self.count(item, now)
        self.take_makers(makers, now)

    # -- quotas and limit ranges -------------------------------------------------------------------

    def set(self, item: objects.ResourceQuota | objects.LimitRange, now: float) -> None:
        """Create or update a quota or a limit range; a quota counts the existing objects."""
        space = self._namespaces[item.namespace]
        if isinstance(item, objects.LimitRange):
            items: list[Json] = [msgspec.to_builtins(limit) for limit in item.spec.limits]
            for limit in items:
                complete_item(limit)
            space.items[item.name] = items
            return
        hard = amounts(item.spec.hard)
        used_before = amounts(item.status.used)
        used = {name: used_before.get(name, ZERO) if name.startswith(_NOT_COUNTED) else ZERO for name in hard}
        quota = _Quota(item.name, {"spec": msgspec.to_builtins(item.spec)}, hard, used)
        space.quotas[item.name] = quota
        for key, existing in space.there.items():
            charges = [limit for limit in space.charges.pop(key, ()) if limit[0] != item.name]
            more = self._counted(space, quota, existing, now)
            for _, charge in more:
                quota.used = added(quota.used, charge)
            self._charge(space, key, [*charges, *more])

    def set_class(self, item: objects.RuntimeClass) -> None:
        """Create or update a RuntimeClass, which applies to pods created afterwards."""
        self._classes[item.name] = msgspec.to_builtins(item)

    def remove(self, kind: str, namespace: str, name: str) -> bool:
        """Delete a quota or a limit range; return whether it existed."""
        space = self._namespaces[namespace]
        if kind == objects.LimitRange.KIND:
            return space.items.pop(name, None) is not None
        space.released = space.released or name in space.quotas
        return space.quotas.pop(name, None) is not None

    # -- objects -----------------------------------------------------------------------------------

    def count(self, item: KubernetesObject, now: float, name: str = "") -> None:
        """Count an existing object once; it is never refused. `name`: see `take`."""
        space, key = self._namespaces[item.namespace], _key(item, name)
        if key in space.there:
            return
        space.note(key, item)
        self._note_owner(item, 1)
        charges = [charge for quota in space.quotas.values() for charge in self._counted(space, quota, item, now)]
        _add(space, charges)
        self._charge(space, key, charges)

    def take_makers(self, makers: Iterable[PodMaker], now: float) -> None:
        """Create or count objects that create pods; the pods of a refused one are not admitted."""
        for maker in makers:
            manifest = maker.manifest
            meta = manifest.get("metadata") or {}
            version, kind = manifest["apiVersion"], manifest["kind"]
            owner = (version, kind, str(meta.get("namespace") or "default"), str(meta.get("name") or ""))
            space, resource = self._namespaces[owner[2]], resource_of(version, kind)
            if not space.quotas:
                continue
            references = meta.get("ownerReferences")
            listed = [item for item in references if isinstance(item, Mapping)] if isinstance(references, list) else []
            above: Json = next((dict(item) for item in listed if item.get("controller") is True), {})
            version, kind, name = (str(above.get(part) or "") for part in ("apiVersion", "kind", "name"))
            error = self._refused_makers.get((version, kind, owner[2], name))
            try:
                if error is not None:
                    raise error
                plain = dict(manifest)
                if meta.get("uid"):
                    charges = [c for quota in space.quotas.values() for c in _counted(quota, resource, plain, now)]
                else:
                    charges = self._checked(space, resource, owner[3], plain, now)
                _add(space, charges)
            except AdmissionError as refused:
                self._refused_makers[owner] = refused

    def take(self, item: ObjectT, now: float, name: str = "") -> ObjectT | None:
        """Return the admitted object, counted from now on; record and return None for a refused one.

        `name`: the name for `release`, if it is not the UID or, without one, the name.
        """
        if not item.NAMESPACED or not self._counts:
            return item
        if exists(item):
            self.count(item, now, name)
            return item
        owner = owner_of(item) if isinstance(item, objects.Pod) else None
        waiting = self._namespaces[item.namespace].waiting
        try:
            if owner in waiting:
                raise waiting[owner][0].error
            return self._admitted(item, now, name)
        except AdmissionError as error:
            if not isinstance(item, objects.Pod):
                self.refused_objects.append(error.message(item.name))
                if isinstance(item, objects.PersistentVolumeClaim):
                    frame = error.frame.replace("{name}", item.name)
                    self._refused_claims[item.namespace, item.name] = AdmissionError(error.why, frame)
            elif owner is None:
                self.refused_pods.append(RefusedPod(item, None, error))
            else:
                waiting.setdefault(owner, deque()).append(RefusedPod(item, owner, error))
            return None

    def completed(self, pod: objects.Pod) -> objects.Pod:
        """Return an admitted pod with the requests and limits from limit ranges."""
        if exists(pod):
            return pod
        pod = self._with_class(pod)
        items = [limit for item in self._namespaces[pod.namespace].items.values() for limit in item]
        return replace(pod, spec=self._with_defaults(pod, items)) if items else pod

    def release(self, kind: str, namespace: str, name: str) -> bool:
        """Release a deleted object (`name`: its UID, or its name); return whether pods wait for its quota."""
        space, key = self._namespaces[namespace], (kind, namespace, name)
        item = space.there.pop(key, None)
        if item is None:
            return False
        self._note_owner(item, -1)
        for quota, charge in space.charges.pop(key, ()):
            if quota in space.quotas:
                space.quotas[quota].used = subtracted(space.quotas[quota].used, charge)
        space.released = space.released or bool(space.waiting)
        return space.released

    def retry(self, now: float) -> list[objects.Pod]:
        """Return the pods that controllers create now, after quota was released in their namespace."""
        admitted = []
        for space in self._namespaces.values():
            if not space.released:
                continue
            space.released = False
            for owner, pods in list(space.waiting.items()):
                while pods:
                    try:
                        admitted.append(self._admitted(pods[0].pod, now))
                    except AdmissionError as error:
                        for pod in pods:
                            pod.error = error
                        break
                    pods.popleft()
                if not pods:
                    del space.waiting[owner]
        return admitted

    # -- parts -------------------------------------------------------------------------------------

    def _admitted(self, item: ObjectT, now: float, name: str = "") -> ObjectT:
        """Return the object with defaults, charged to its quotas. Raises AdmissionError."""
        space = self._namespaces[item.namespace]
        if isinstance(item, objects.Pod):
            self._refuse_for_owner(item)
            item = replace(item, spec=self._with_class(item).spec)
        if space.items:
            item = self._within_limits(space, item)
        charges = []
        if space.quotas:
            charges = self._checked(space, _resource(item), item.name, self._manifest(item), now)
            _add(space, charges)
        key = _key(item, name)
        space.note(key, item)
        self._note_owner(item, 1)
        self._charge(space, key, charges)
        return item

    def _refuse_for_owner(self, pod: objects.Pod) -> None:
        """Raise AdmissionError for a pod of a refused controller, or with a refused claim."""
        owner = owner_of(pod)
        if owner is None:
            return
        if owner in self._refused_makers:
            raise self._refused_makers[owner]
        for volume in pod.spec.volumes:
            claim = volume.persistent_volume_claim
            if claim is not None and (pod.namespace, claim.claim_name) in self._refused_claims:
                raise self._refused_claims[pod.namespace, claim.claim_name]

    def _within_limits(self, space: _Namespace, item: ObjectT) -> ObjectT:
        """Return the object with the defaults of its limit ranges. Raises AdmissionError if out of bounds."""
        items = [limit for items_of_range in space.items.values() for limit in items_of_range]
        if isinstance(item, objects.Pod):
            item = replace(item, spec=self._with_defaults(item, items))
        resource = resource_of(item.API_VERSION, item.KIND)
        why = refusal(resource, self._manifest(item), items)
        if why:
            raise AdmissionError(why, forbidden_message(resource, "{name}", ""))
        return item

    def _with_class(self, pod: objects.Pod) -> objects.Pod:
        """Return the pod with the additions of its RuntimeClass; equal pods share a spec. Raises AdmissionError."""
        name, spec = pod.spec.runtime_class_name, pod.spec
        if not self._classes or (name is None and not spec.overhead):
            return pod
        if self._classed is None or self._classed[0] is not spec:
            plain = msgspec.to_builtins(spec)
            if not plain.get("overhead"):
                plain.pop("overhead", None)
            try:
                if name is not None and name not in self._classes:
                    raise missing_class(name)
                apply_runtime_class(plain, None if name is None else self._classes[name])
            except RuntimeClassError as error:
                raise AdmissionError(str(error), forbidden_message("pods", "{name}", "")) from None
            changed = replace(
                spec,
                overhead=plain.get("overhead", {}),
                node_selector=plain.get("nodeSelector", {}),
                tolerations=msgspec.convert(plain.get("tolerations", ()), _TOLERATIONS),
            )
            self._classed = (spec, changed)
        return replace(pod, spec=self._classed[1])

    def _with_defaults(self, pod: objects.Pod, items: list[Json]) -> objects.PodSpec:
        """Return the spec with default requests and limits for containers; equal pods share it."""
        spec = pod.spec
        if self._filled is not None and self._filled[:2] == (spec, pod.namespace) and self._filled[0] is spec:
            return self._filled[2]
        plain = msgspec.to_builtins(spec)
        if fill_containers(plain, items):
            containers, initial = (
                msgspec.convert(plain.get(part, ()), _CONTAINERS) for part in ("containers", "initContainers")
            )
            changed = replace(spec, containers=containers, init_containers=initial)
            try:
                validate(replace(pod, spec=changed))
            except FieldError as error:
                raise AdmissionError(f"{error.path}: {error.message}", 'Pod "{name}" is invalid: ') from None
        else:
            changed = spec
        self._filled = (spec, pod.namespace, changed)
        return changed

    @staticmethod
    def _checked(space: _Namespace, resource: str, name: str, plain: Json, now: float) -> list[tuple[str, Amounts]]:
        """Return the charges for the quotas of the namespace. Raises AdmissionError if one is exceeded."""
        growth = usage_of(resource, plain, _moment(now))
        classes = space.classes(resource, plain)
        charges = []
        for item in sorted(space.quotas):
            quota = space.quotas[item]
            try:
                charge = charge_for(
                    item, quota.manifest, quota.hard, quota.used, resource, plain, growth, created=True, classes=classes
                )
            except QuotaError as error:
                raise AdmissionError(str(error), forbidden_message(resource, "{name}", "")) from None
            if charge:
                charges.append((item, charge))
        return charges

    def _counted(
        self, space: _Namespace, quota: _Quota, item: KubernetesObject, now: float
    ) -> list[tuple[str, Amounts]]:
        resource, plain = _resource(item), self._manifest(item)
        return _counted(quota, resource, plain, now, space.classes(resource, plain))

    @staticmethod
    def _charge(space: _Namespace, key: Key, charges: list[tuple[str, Amounts]]) -> None:
        if charges:
            space.charges[key] = charges

    def _note_owner(self, item: KubernetesObject, number: int) -> None:
        owner = owner_of(item) if isinstance(item, objects.Pod) and not item.finished else None
        if owner is not None:
            self.pods_of[owner] += number

    def _manifest(self, item: KubernetesObject) -> Json:
        """Return the object as plain data; equal pods share their spec."""
        if not isinstance(item, objects.Pod):
            result: Json = msgspec.to_builtins(item)
            return result
        if self._spec is None or self._spec[0] is not item.spec:
            self._spec = (item.spec, msgspec.to_builtins(item.spec))
        meta = item.metadata
        metadata: Json = {}
        if meta.deletion_timestamp is not None:
            metadata["deletionTimestamp"] = meta.deletion_timestamp.isoformat()
            metadata["deletionGracePeriodSeconds"] = meta.deletion_grace_period_seconds
        return {"metadata": metadata, "spec": self._spec[1], "status": {"phase": item.status.phase}}


def exists(item: KubernetesObject) -> bool:
    """Return whether an API server has admitted the object before: it has a UID, or it ran or ended.

    Such an object has a UID, or is a pod that runs or has ended.
    """
    if item.metadata.uid or item.metadata.resource_version:
        return True
    return isinstance(item, objects.Pod) and (bool(item.spec.node_name) or item.finished)


def owner_of(pod: objects.Pod) -> Owner | None:
    """Return the controller of a pod."""
    for reference in pod.metadata.owner_references:
        if reference.controller:
            return (reference.api_version, reference.kind, pod.namespace, reference.name)
    return None


def _counted(
    quota: _Quota, resource: str, plain: Json, now: float, classes: Collection[str] = ()
) -> list[tuple[str, Amounts]]:
    charge = counted(quota.manifest, quota.hard, resource, plain, _moment(now), classes)
    return [(quota.name, charge)] if charge else []


def _add(space: _Namespace, charges: Iterable[tuple[str, Amounts]]) -> None:
    for name, charge in charges:
        space.quotas[name].used = added(space.quotas[name].used, charge)


def _key(item: KubernetesObject, name: str = "") -> Key:
    own = item.key if isinstance(item, objects.Pod) else item.name
    return (item.KIND, item.namespace, name or item.metadata.uid or own)


def _resource(item: KubernetesObject) -> str:
    version = item.API_VERSION
    if isinstance(item, objects.PodGroup) and item.foreign is not None:
        version = item.foreign.api_version
    return resource_of(version, item.KIND)


def _moment(now: float) -> datetime:
    return datetime.fromtimestamp(now, UTC)
