"""Pods of a template: what controllers add to it, and which pods a shrinking owner deletes first.

Source: kube-controller-manager's `GetPodFromTemplate` and `ActivePodsWithRanks`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from kube_rules.json import Json, mapping

POD_TEMPLATE_HASH: Final = "pod-template-hash"
"""Label of the pods of a Deployment's ReplicaSet."""
CONTROLLER_REVISION_HASH: Final = "controller-revision-hash"
"""Label of the pods of a StatefulSet or DaemonSet."""
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}
_COST: Final = re.compile(r"-?(0|[1-9][0-9]{0,9})")
_NOTHING: Final[Mapping[str, str]] = {}


class PodParts(NamedTuple):
    """What a controller adds to the template for one pod; a `name` that ends in `-` is completed by the API server."""

    name: str
    labels: Mapping[str, str] = _NOTHING
    annotations: Mapping[str, str] = _NOTHING
    hostname: str = ""
    subdomain: str = ""
    node: str = ""
    """The node the pod is pinned to."""
    claims: Mapping[str, str] = _NOTHING
    """Volume -> claim."""


def pod_of_template(template: Mapping[str, Any], parts: PodParts, owner: Json) -> Json:
    """Return the manifest of a pod; `owner` is the reference to its controller.

    It shares its parts with the template: copy it before you change it.
    """
    source, spec = mapping(template.get("metadata")), dict(mapping(template.get("spec")))
    metadata: Json = {"generateName" if parts.name.endswith("-") else "name": parts.name}
    for field, added in (("labels", parts.labels), ("annotations", parts.annotations)):
        if together := {**mapping(source.get(field)), **added}:
            metadata[field] = together
    if source.get("finalizers"):
        metadata["finalizers"] = source["finalizers"]
    metadata["ownerReferences"] = [owner]
    if parts.hostname:
        spec["hostname"] = parts.hostname
    if parts.subdomain:
        spec["subdomain"] = parts.subdomain
    if parts.node:
        spec["affinity"] = _pinned(mapping(spec.get("affinity")), parts.node)
    if parts.claims:
        kept = [volume for volume in spec.get("volumes") or () if mapping(volume).get("name") not in parts.claims]
        made = [{"name": name, "persistentVolumeClaim": {"claimName": claim}} for name, claim in parts.claims.items()]
        spec["volumes"] = [*kept, *made]
    return {"metadata": metadata, "spec": spec}


def _pinned(affinity: Mapping[str, Any], node: str) -> Json:
    """Return an affinity that requires one node, by its name, and nothing else."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    of_node = {**mapping(affinity.get("nodeAffinity")), REQUIRED: {"nodeSelectorTerms": [term]}}
    return {**affinity, "nodeAffinity": of_node}


def template_hash(template: Mapping[str, Any], collisions: int = 0) -> str:
    """Return ten characters that stand for a template; `collisions` makes another one of it."""
    data = msgspec.json.encode(template, order="sorted") + (str(collisions).encode() if collisions else b"")
    return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in hashlib.sha256(data).digest()[:10])


def deletion_rank(node: str, phase: str, ready: bool, annotations: Mapping[str, str]) -> tuple[bool, int, bool, int]:
    """Return by what a shrinking owner chooses the pods to delete, lowest first; ties are broken by age.

    Unbound pods come first, then those that do not run, that are not ready, and of a lower deletion cost.
    """
    return bool(node), _PHASES.get(phase, 1), ready, _deletion_cost(annotations)


def _deletion_cost(annotations: Mapping[str, str]) -> int:
    """Return the cost in an annotation, an int32 without a plus sign or zeros in front, else 0."""
    text = annotations.get(DELETION_COST, "")
    number = int(text) if _COST.fullmatch(text) else 0
    return number if -(2**31) <= number < 2**31 else 0
