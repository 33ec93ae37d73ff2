"""Pods of a template: the controllers' additions, and the deletion order when an owner scales down.

Source: kube-controller-manager's `GetPodFromTemplate` and `ActivePodsWithRanks`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from kube_rules.json import Json, mapping
from kube_rules.selectors import REQUIRED

POD_TEMPLATE_HASH: Final = "pod-template-hash"
"""Label of the pods of a Deployment's ReplicaSet."""
CONTROLLER_REVISION_HASH: Final = "controller-revision-hash"
"""Label of the pods of a StatefulSet or DaemonSet."""
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
MIRROR: Final = "kubernetes.io/config.mirror"
"""Annotation of static pods, which a kubelet runs from a file."""
NAME_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
"""The alphabet of generated name suffixes: no vowels, so that no words appear (as upstream)."""
_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}
_COST: Final = re.compile(r"-?(0|[1-9][0-9]{0,9})")
_NOTHING: Final[Mapping[str, str]] = {}


class PodParts(NamedTuple):
    """A controller's additions to the template for one pod; the API server completes a `name` that ends in `-`."""

    name: str
    labels: Mapping[str, str] = _NOTHING
    annotations: Mapping[str, str] = _NOTHING
    hostname: str = ""
    subdomain: str = ""
    node: str = ""
    """The node that the pod is pinned to."""
    claims: Mapping[str, str] = _NOTHING
    """Volume -> claim."""


def pod_of_template(template: Mapping[str, Any], parts: PodParts, owner: Json) -> Json:
    """Return the manifest of a pod; `owner` is the reference to its controller.

    The manifest shares parts with the template: copy it before you change it.
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
        volumes = [volume for volume in spec.get("volumes") or () if mapping(volume).get("name") not in parts.claims]
        claims = [{"name": name, "persistentVolumeClaim": {"claimName": claim}} for name, claim in parts.claims.items()]
        spec["volumes"] = [*volumes, *claims]
    return {"metadata": metadata, "spec": spec}


def _pinned(affinity: Mapping[str, Any], node: str) -> Json:
    """Return an affinity that requires one node, by name."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    of_node = {**mapping(affinity.get("nodeAffinity")), REQUIRED: {"nodeSelectorTerms": [term]}}
    return {**affinity, "nodeAffinity": of_node}


def template_hash(template: Mapping[str, Any], collisions: int = 0) -> str:
    """Return a ten-character hash of a template; `collisions` changes the hash."""
    data = msgspec.json.encode(template, order="sorted") + (str(collisions).encode() if collisions else b"")
    return "".join(NAME_ALPHABET[byte % len(NAME_ALPHABET)] for byte in hashlib.sha256(data).digest()[:10])


def deletion_rank(node: str, phase: str, ready: bool, annotations: Mapping[str, str]) -> tuple[bool, int, bool, int]:
    """Return the sort key for deletion when an owner scales down, lowest first; age breaks ties.

    Unbound pods come first, then pods that do not run, pods that are not ready, and pods with a lower deletion cost.
    """
    return bool(node), _PHASES.get(phase, 1), ready, _deletion_cost(annotations)


def _deletion_cost(annotations: Mapping[str, str]) -> int:
    """Return the deletion cost in the annotation, an int32 without plus sign or leading zeros, otherwise 0."""
    text = annotations.get(DELETION_COST, "")
    number = int(text) if _COST.fullmatch(text) else 0
    return number if -(2**31) <= number < 2**31 else 0
