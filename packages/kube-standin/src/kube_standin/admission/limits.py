"""LimitRanger: every LimitRange of the namespace applies to new pods and claims.

The rules are `kube_rules.admission.limit_ranges`.
"""

from __future__ import annotations

from kube_rules.admission.limit_ranges import ANNOTATION, fill_containers, refusal
from kube_rules.json import Json
from kube_standin.admission_chain import AdmissionRequest, Step

_RANGES = "limitranges"


class LimitRanger(Step):
    """Applies every LimitRange of the namespace to new pods and claims."""

    kinds = frozenset(("pods", "persistentvolumeclaims"))

    def mutate(self, request: AdmissionRequest) -> None:
        """Fill in default requests and limits of containers."""
        if not request.creates or request.kind.plural != "pods":
            return
        filled = fill_containers(request.new.get("spec") or {}, _items(request))
        if not filled:
            return
        metadata = request.new["metadata"]
        annotations = metadata["annotations"] = dict(metadata.get("annotations") or {})
        before = annotations.get(ANNOTATION)
        first = f"{before}; " if before else "LimitRanger plugin set: "
        annotations[ANNOTATION] = first + "; ".join(filled)

    def validate(self, request: AdmissionRequest) -> None:
        """Refuse (403) new objects, and resized pods, that are out of bounds."""
        created = request.creates
        if not created and not (request.kind.plural == "pods" and request.subresource == "resize"):
            return
        why = refusal(request.kind.resource, request.new, _items(request))
        if why:
            raise request.refused(why)


def _items(request: AdmissionRequest) -> list[Json]:
    states = request.registry.store.heads(_RANGES, request.namespace)
    return [item for state in states for item in (state.decode().get("spec") or {}).get("limits") or ()]
