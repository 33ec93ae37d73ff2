"""PersistentVolumeClaimResize: a claim grows only if its StorageClass allows it (interfaces.md 4.15)."""

from __future__ import annotations

from typing import Final

from kube_rules.json import Json
from kube_rules.storage import CLASS_BETA
from kube_rules.validation.resources import nano
from kube_standin.admission_chain import AdmissionRequest, Step

_CLASSES: Final = "storage.k8s.io/storageclasses"
_NOT_BOUND: Final = "Only bound persistent volume claims can be expanded"
_NOT_ALLOWED: Final = (
    "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
)


class ClaimResize(Step):
    """Refuses (403) to raise the storage request of a claim that is not bound, or that has a class that forbids it."""

    kinds = frozenset(("persistentvolumeclaims",))

    def validate(self, request: AdmissionRequest) -> None:
        """Check an update that raises `resources.requests.storage`."""
        if request.operation != "UPDATE" or request.subresource or request.old is None:
            return
        if nano(_size(request.new)) <= nano(_size(request.old)):
            return
        if (request.old.get("status") or {}).get("phase") != "Bound":
            raise request.refused(_NOT_BOUND)
        name = _class(request.new)
        state = request.registry.store.head(_CLASSES, "", name) if name and name == _class(request.old) else None
        if state is None or not state.decode().get("allowVolumeExpansion"):
            raise request.refused(_NOT_ALLOWED)


def _size(claim: Json) -> str:
    size: str = claim["spec"]["resources"]["requests"]["storage"]
    return size


def _class(claim: Json) -> str:
    beta = (claim["metadata"].get("annotations") or {}).get(CLASS_BETA)
    return beta if beta is not None else claim["spec"].get("storageClassName") or ""
