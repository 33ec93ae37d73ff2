"""DefaultIngressClass: a new Ingress without a class gets the one that is marked as default (interfaces.md 4.11)."""

from __future__ import annotations

from typing import Final

from kube_standin.admission_chain import AdmissionRequest, Step

_CLASSES: Final = "networking.k8s.io/ingressclasses"
_DEFAULT: Final = "ingressclass.kubernetes.io/is-default-class"
_ANNOTATION: Final = "kubernetes.io/ingress.class"
"""The older way to name a class."""


class DefaultIngressClass(Step):
    """Sets the class of an Ingress that names none; of several defaults the newest, of equally new ones by name."""

    kinds = frozenset(("ingresses.networking.k8s.io",))

    def mutate(self, request: AdmissionRequest) -> None:
        """Set `ingressClassName` at creation."""
        if request.operation != "CREATE" or request.subresource:
            return
        spec = request.new.setdefault("spec", {})
        if "ingressClassName" in spec or _ANNOTATION in (request.new["metadata"].get("annotations") or {}):
            return
        found = [state.decode()["metadata"] for state in request.registry.store.heads(_CLASSES)]
        marked = [one for one in found if (one.get("annotations") or {}).get(_DEFAULT) == "true"]
        if marked:
            newest = max(one["creationTimestamp"] for one in marked)
            spec["ingressClassName"] = min(one["name"] for one in marked if one["creationTimestamp"] == newest)
