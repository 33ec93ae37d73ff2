"""Admission: steps that decide about a write by other objects before it is stored.

``STEPS`` lists them in the order in which kube-apiserver runs its plugins (PreemptionPriority and Standing are our
own); ``admission_steps`` creates them for one registry. Namespace lifecycle and the system priority classes are part of
every server (``bootstrap``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kube_standin.admission.claims import ClaimResize
from kube_standin.admission.groups import PROTECTION, PodGroupProtection, PodGroupReference
from kube_standin.admission.ingresses import DefaultIngressClass
from kube_standin.admission.limits import LimitRanger
from kube_standin.admission.nodes import NodeRestriction
from kube_standin.admission.pods import DefaultTolerationSeconds, ServiceAccount, TaintNodes
from kube_standin.admission.priority import PreemptionPriority, Priority, Standing
from kube_standin.admission.quota import ResourceQuotaAdmission
from kube_standin.admission.resizes import PodResize
from kube_standin.admission.runtime_classes import RuntimeClasses
from kube_standin.admission_chain import Step
from kube_standin.registry import ObjectRegistry

__all__ = ["PROTECTION", "STEPS", "admission_steps"]

STEPS: Mapping[str, Callable[[], Step]] = {
    "LimitRanger": LimitRanger,
    "ServiceAccount": ServiceAccount,
    "NodeRestriction": NodeRestriction,
    "TaintNodesByCondition": TaintNodes,
    "Priority": Priority,
    "PreemptionPriority": PreemptionPriority,
    "Standing": Standing,
    "DefaultTolerationSeconds": DefaultTolerationSeconds,
    "PersistentVolumeClaimResize": ClaimResize,
    "RuntimeClass": RuntimeClasses,
    "DefaultIngressClass": DefaultIngressClass,
    "PodGroupProtection": PodGroupProtection,
    "PodGroupWorkloadExists": PodGroupReference,
    "PodResizeValidator": PodResize,
    "ResourceQuota": ResourceQuotaAdmission,
}
"""The step of each plugin, in the order they run."""


def admission_steps(_registry: ObjectRegistry | None = None, *, off: Iterable[str] = ()) -> list[Step]:
    """Return new steps for one server, except those named in ``off``; raises ValueError for unknown names.

    Usable as ``ServeOptions.steps``.
    """
    left_out = frozenset(off)
    unknown = left_out.difference(STEPS)
    if unknown:
        raise ValueError(f"unknown admission plugin {', '.join(sorted(unknown))}; known: {', '.join(STEPS)}")
    return [make() for name, make in STEPS.items() if name not in left_out]
