"""Admission of RuntimeClasses: a new pod gets the overhead and the scheduling of the class that it names.

The rule is `kube_rules.admission.runtime_classes`.
"""

from __future__ import annotations

from kube_rules.admission.runtime_classes import RuntimeClassError, apply_runtime_class, missing_class
from kube_rules.json import Json
from kube_standin.admission_chain import AdmissionRequest, Step

_STORED = "node.k8s.io/runtimeclasses"


class RuntimeClasses(Step):
    """Merges the class of a new pod into it; refuses (403) unknown classes and overhead without a class."""

    kinds = frozenset(("pods",))

    def mutate(self, request: AdmissionRequest) -> None:
        """Merge the class into a new pod; remove empty overhead of an existing pod."""
        spec = request.new.setdefault("spec", {})
        if not request.creates:
            if spec.get("overhead") == {}:
                del spec["overhead"]
            return
        name = spec.get("runtimeClassName")
        if name is None and "overhead" not in spec:
            return
        try:
            apply_runtime_class(spec, None if name is None else _stored(request, name))
        except RuntimeClassError as error:
            raise request.refused(str(error)) from None


def _stored(request: AdmissionRequest, name: str) -> Json:
    state = request.registry.store.head(_STORED, "", name)
    if state is None:
        raise missing_class(name)
    return state.decode()
