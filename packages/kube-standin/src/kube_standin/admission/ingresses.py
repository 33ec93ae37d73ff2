"""DefaultIngressClass: a new Ingress without a class gets the default one (interfaces.md 4.11)."""

from __future__ import annotations

from typing import Final

from kube_standin.admission_chain import AdmissionRequest, Step

_CLASSES: Final = "networking.k8s.io/ingressclasses"
_DEFAULT: Final = "ingressclass.kubernetes.io/is-default-class"
_ANNOTATION: Final = "kubernetes.io/ingress.class"
"""The older annotation that names a class."""


class DefaultIngressClass(Step):
    """Sets the class of an Ingress without one: the newest default class, then the first by name."""

    kinds = frozenset(("ingresses.networking.k8s.io",))

    def mutate(self, request: AdmissionRequest) -> None:
        """Set `ingressClassName` at creation."""
        if not request.creates:
            return
        spec = request.new.setdefault("spec", {})
        if "ingressClassName" in spec or _ANNOTATION in (request.new["metadata"].get("annotations") or {}):
            return
        classes = [state.decode()["metadata"] for state in request.registry.store.heads(_CLASSES)]
        marked = [class_ for class_ in classes if (class_.get("annotations") or {}).get(_DEFAULT) == "true"]
        if marked:
            newest = max(class_["creationTimestamp"] for class_ in marked)
            spec["ingressClassName"] = min(class_["name"] for class_ in marked if class_["creationTimestamp"] == newest)
