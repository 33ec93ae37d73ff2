"""What of an input a plan does not answer for: objects that call for pods which are not there.

Rule: pods are planned, not what makes them. An object with a pod template (`api.workloads`) is answered for as far as
the pods that it calls for are in the input too, owned by it directly or through other owners (controller references;
a Deployment also through the name that its ReplicaSets bear). How many it calls for is taken from its spec; one that
was read from a cluster (it has a UID) has the pods its status counts, as its controller made them. One whose template
was left out, as in a snapshot, calls for nothing: it is there for its selector. Where the number cannot be told from
the manifest, one pod of it is taken for all. Who is owned by another such object is its owner's business.

A kind that nobody knows may hold pods as well; a misspelt `kind: Podd` does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from reprieve.api.errors import Origin
from reprieve.api.loading import Manifests, PodMaker, UnknownObject
from reprieve.api.objects import Pod
from reprieve.api.workloads import WITHOUT_PODS, group_of

_DEEPEST: Final = 8
_SCALED: Final = ("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "CloneSet")
_HASH: Final = "pod-template-hash"

Owner = tuple[str, str, str, str]
"""(API group, kind, namespace, name)."""


class Unexpanded(NamedTuple):
    """An object that calls for pods nobody planned, and why."""

    origin: Origin
    subject: str
    kind: str
    reason: str

    def __str__(self) -> str:
        return f"{self.origin}: {self.subject}: {self.reason}"


def unexpanded(manifests: Manifests) -> list[Unexpanded]:
    """Everything the plan does not answer for, in document order of each sort."""
    if not manifests.pod_makers and not manifests.unknown:
        return []
    owners = _Owners(manifests)
    found = [
        Unexpanded(maker.origin, _subject(maker.manifest), maker.manifest["kind"], _reason(maker.manifest, missing))
        for maker in manifests.pod_makers
        if (missing := owners.missing(maker)) != 0
    ]
    found += [
        Unexpanded(each.origin, each.subject, each.kind, _unknown(each))
        for each in manifests.unknown
        if is_unknown_kind(each) and not owners.has_pods(each)
    ]
    return found


def is_unknown_kind(found: UnknownObject) -> bool:
    """Whether neither a schema nor the table of kinds without pods has it; False where no schemas were given."""
    return found.known is False and found.kind not in WITHOUT_PODS.get(group_of(found.api_version), ())


def _reason(manifest: Mapping[str, Any], missing: int | None) -> str:
    number = "its pods are" if missing is None else "1 pod of it is" if missing == 1 else f"{missing} pods of it are"
    return f"{number} not planned: a {manifest['kind']} is not expanded, give the pods that it makes"


def _unknown(found: UnknownObject) -> str:
    hint = f", did you mean {found.nearest}?" if found.nearest else ": whether it holds pods cannot be told"
    return f'no kind "{found.kind[:64]}" is known in version "{found.api_version[:128]}"{hint}'


def _subject(manifest: Mapping[str, Any]) -> str:
    meta = _mapping(manifest.get("metadata"))
    name = meta.get("name") or meta.get("generateName") or ""
    return f'{manifest["kind"]} "{_namespace(meta)}/{str(name)[:253]}"'


# -- how many pods are called for --------------------------------------------------------------------------------------


def called_for(manifest: Mapping[str, Any]) -> int | None:
    """How many pods the object calls for; None if its manifest does not tell."""
    kind, spec, status = manifest["kind"], _mapping(manifest.get("spec")), _mapping(manifest.get("status"))
    exists = bool(_mapping(manifest.get("metadata")).get("uid"))
    if spec.get("suspend") is True or _mapping(spec.get("runPolicy")).get("suspend") is True:
        return 0
    if kind in _SCALED:
        if "template" not in spec and "workloadRef" not in spec:
            return 0
        made = status.get("replicas", 0) if exists and status else None
        return _number(made, _number(spec.get("replicas"), 1))
    if kind == "Job" and "template" in spec:
        if exists and status:
            return _number(status.get("active"), 0)
        side_by_side = _number(spec.get("parallelism"), 1)
        return min(side_by_side, _number(spec.get("completions"), side_by_side))
    if kind == "DaemonSet" and exists and status:
        return _number(status.get("currentNumberScheduled"), 0)
    if kind == "CronJob" and exists:
        active = status.get("active")
        return len(active) if isinstance(active, list) else 0
    if kind == "PodTemplate" and exists:
        return 0
    return None


def _number(value: object, otherwise: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else otherwise


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


# -- who owns whom -----------------------------------------------------------------------------------------------------


class _Owners:
    """Pods of the input by everybody above them."""

    def __init__(self, manifests: Manifests) -> None:
        self._above: dict[Owner, tuple[Owner, str]] = {}
        """Owned object -> its owner, and the UID the reference has."""
        self._uids: dict[Owner, str] = {}
        self._makers: set[Owner] = set()
        known = [maker.manifest for maker in manifests.pod_makers]
        self._makers.update(_key(manifest) for manifest in known)
        for manifest in (*known, *(each.head for each in manifests.unknown)):
            self._learn(manifest)
        self._pods: Counter[Owner] = Counter()
        for loaded in manifests.pods:
            for owner in self._chain(self._of_pod(loaded.object)):
                self._pods[owner] += 1

    def missing(self, maker: PodMaker) -> int | None:
        """How many of its pods are not in the input: 0 if none is missing, None if it is not known how many."""
        key = _key(maker.manifest)
        if any(owner in self._makers for owner in self._chain(self._above.get(key))):
            return 0
        wanted, there = called_for(maker.manifest), self._pods[key]
        if wanted is None:
            return 0 if there else None
        return max(0, wanted - there)

    def has_pods(self, found: UnknownObject) -> bool:
        """Whether a pod of the input belongs to it."""
        return bool(self._pods[_key(found.head)])

    def _learn(self, manifest: Mapping[str, Any]) -> None:
        meta = _mapping(manifest.get("metadata"))
        key = _key(manifest)
        self._uids[key] = _text(meta.get("uid"))
        references = meta.get("ownerReferences")
        for reference in references if isinstance(references, list) else ():
            if isinstance(reference, Mapping) and reference.get("controller") is True:
                version, kind, name = (_text(reference.get(part)) for part in ("apiVersion", "kind", "name"))
                self._above[key] = ((group_of(version), kind, key[2], name), _text(reference.get("uid")))

    def _of_pod(self, pod: Pod) -> tuple[Owner, str] | None:
        for reference in pod.metadata.owner_references:
            if not reference.controller:
                continue
            owner = (group_of(reference.api_version), reference.kind, pod.namespace or "default", reference.name)
            label = pod.metadata.labels.get(_HASH)
            if owner not in self._uids and reference.kind == "ReplicaSet" and label:
                deployment = reference.name.removesuffix(f"-{label}")
                return (owner[0], "Deployment", owner[2], deployment), ""
            return owner, reference.uid
        return None

    def _chain(self, above: tuple[Owner, str] | None) -> Iterable[Owner]:
        """Owners that are in the input, from below; a reference by another UID is to somebody who is gone."""
        for _ in range(_DEEPEST):
            if above is None:
                return
            owner, uid = above
            known = self._uids.get(owner)
            if known is None or (known and uid and known != uid):
                return
            yield owner
            above = self._above.get(owner)


def _key(manifest: Mapping[str, Any]) -> Owner:
    meta = _mapping(manifest.get("metadata"))
    group = group_of(_text(manifest.get("apiVersion")))
    return group, _text(manifest.get("kind")), _namespace(meta), _text(meta.get("name"))


def _namespace(meta: Mapping[str, Any]) -> str:
    return _text(meta.get("namespace"))[:253] or "default"


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
