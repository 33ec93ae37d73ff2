"""Claims that controllers create: device claims from templates, and volume claims of generic ephemeral volumes.

Source: kube-controller-manager's resource claim controller (`handleClaim`, KEP-5729 for claims of PodGroups) and
ephemeral volume controller (`handleVolume`).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any, Final

from kube_rules.json import Json, mapping

POD_CLAIM: Final = "resource.kubernetes.io/pod-claim-name"
"""Annotation of a generated device claim: the entry of its owner that it belongs to."""
DELETE_PROTECTION: Final = "resource.kubernetes.io/delete-protection"
"""Finalizer of an allocated device claim."""
ENTRY: Final = ("name", "resourceClaimName", "resourceClaimTemplateName")
"""The fields of an entry of `resourceClaims`."""
_LONGEST_BASE: Final = 240


def device_claim(template: Mapping[str, Any], owner: Json, entry: str) -> Json:
    """Return the claim for an entry of a pod or PodGroup; the API server completes its name.

    Arguments: `template` is the spec of a ResourceClaimTemplate, `owner` the reference to the pod or group.
    """
    claim = _of_template(template, owner, generateName=f"{owner['name']}-{entry}-"[:_LONGEST_BASE])
    claim["metadata"]["annotations"][POD_CLAIM] = entry
    return claim


def volume_claim(template: Mapping[str, Any], owner: Json, volume: str) -> Json:
    """Return the claim of a generic ephemeral volume; `owner` is the reference to its pod."""
    return _of_template(template, owner, name=f"{owner['name']}-{volume}")


def _of_template(template: Mapping[str, Any], owner: Json, **naming: str) -> Json:
    """Return a claim with the labels, the annotations and the spec of a template."""
    own = mapping(template.get("metadata"))
    metadata = {
        **naming,
        "labels": dict(mapping(own.get("labels"))),
        "annotations": dict(mapping(own.get("annotations"))),
        "ownerReferences": [owner],
    }
    return {"metadata": metadata, "spec": copy.deepcopy(dict(mapping(template.get("spec"))))}


def shared_entries(entries: Iterable[Json], of_group: Iterable[Json]) -> list[str]:
    """Return the names of a pod's claim entries that equal one of its group's entries: they share the group's claim."""
    group_entries = [[entry.get(field) for field in ENTRY] for entry in of_group]
    return [entry["name"] for entry in entries if [entry.get(field) for field in ENTRY] in group_entries]
