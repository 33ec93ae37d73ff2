"""ReplicaSets of a Deployment, and pods and claims of a StatefulSet.

Source: kube-controller-manager's deployment controller (`getNewReplicaSet`, `Revision`) and stateful set controller
(`newStatefulSetPod`, `initIdentity`, `getPersistentVolumeClaims`, `updateClaimOwnerRefForSetAndPod`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kube_rules.controllers.pods import CONTROLLER_REVISION_HASH, POD_TEMPLATE_HASH, PodParts
from kube_rules.json import Json, mapping, text
from kube_rules.selectors import parse_integer

REVISION: Final = "deployment.kubernetes.io/revision"


def number_in(item: Mapping[str, Any], annotation: str) -> int:
    """Return the number in an annotation of an object; 0 without a valid int64."""
    return max(0, parse_integer(text(mapping(mapping(item.get("metadata")).get("annotations")).get(annotation))) or 0)


def revision_of(item: Mapping[str, Any]) -> int:
    """Return the revision of a Deployment or of one of its ReplicaSets; 0 if it has none."""
    return number_in(item, REVISION)


def replica_set_of(deployment: Mapping[str, Any], digest: str, replicas: int) -> Json:
    """Return the manifest of a Deployment's ReplicaSet with this hash, without its owner reference.

    The manifest shares parts with the Deployment: copy it before you change it.
    """
    spec = mapping(deployment.get("spec"))
    template, selector = mapping(spec.get("template")), mapping(spec.get("selector"))
    template_meta = mapping(template.get("metadata"))
    labels = {**mapping(template_meta.get("labels")), POD_TEMPLATE_HASH: digest}
    body = {
        "replicas": replicas,
        "selector": {**selector, "matchLabels": {**mapping(selector.get("matchLabels")), POD_TEMPLATE_HASH: digest}},
        "template": {**template, "metadata": {**template_meta, "labels": labels}},
    }
    if spec.get("minReadySeconds"):
        body["minReadySeconds"] = spec["minReadySeconds"]
    name = f"{text(mapping(deployment.get('metadata')).get('name'))}-{digest}"
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name, "labels": labels}, "spec": body}


def set_pod(stateful_set: Mapping[str, Any], ordinal: int, digest: str) -> PodParts:
    """Return the differences from the template for a StatefulSet's pod with this ordinal and revision hash."""
    spec, set_name = mapping(stateful_set.get("spec")), text(mapping(stateful_set.get("metadata")).get("name"))
    name = f"{set_name}-{ordinal}"
    labels = {
        "apps.kubernetes.io/pod-index": str(ordinal),
        CONTROLLER_REVISION_HASH: f"{set_name}-{digest}",
        "statefulset.kubernetes.io/pod-name": name,
    }
    claims = {volume: f"{volume}-{name}" for volume in map(_volume_of, claim_templates(spec))}
    return PodParts(name, labels, hostname=name, subdomain=text(spec.get("serviceName")), claims=claims)


def claim_templates(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the claim templates of a StatefulSet."""
    templates = spec.get("volumeClaimTemplates")
    return [template for template in templates if isinstance(template, Mapping)] if isinstance(templates, list) else []


def claim_of(stateful_set: Mapping[str, Any], template: Mapping[str, Any], pod: str) -> Json:
    """Return the manifest of the claim of one pod, with the labels of the set's selector."""
    meta = mapping(template.get("metadata"))
    selector = mapping(mapping(stateful_set.get("spec")).get("selector"))
    metadata = {
        "name": f"{_volume_of(template)}-{pod}",
        "labels": {**mapping(meta.get("labels")), **mapping(selector.get("matchLabels"))},
        "annotations": mapping(meta.get("annotations")),
    }
    spec = mapping(template.get("spec"))
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def claim_owner(spec: Mapping[str, Any], ordinal: int) -> str | None:
    """Return the owner kind of a pod's claims by the set's retention policy: StatefulSet, Pod, or None.

    `whenScaled` applies to claims of pods beyond the set's replicas.
    """
    policy = mapping(spec.get("persistentVolumeClaimRetentionPolicy"))
    start = mapping(spec.get("ordinals")).get("start") or 0
    if policy.get("whenScaled") == "Delete" and not start <= ordinal < start + spec.get("replicas", 1):
        return "Pod"
    return "StatefulSet" if policy.get("whenDeleted") == "Delete" else None


def _volume_of(template: Mapping[str, Any]) -> str:
    return text(mapping(template.get("metadata")).get("name"))
