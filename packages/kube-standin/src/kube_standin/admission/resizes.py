"""PodResizeValidator: a resize must fit the allocatable resources of the pod's node (resizes.md 6.5)."""

from __future__ import annotations

from typing import Final

from kube_rules.admission.amounts import amounts, of_pod
from kube_rules.json import Json
from kube_standin.admission_chain import AdmissionRequest, Step
from kube_standin.errors import Cause

_OS: Final = "kubernetes.io/os"
_UNITS: Final = {"cpu": 10**6, "memory": 10**9}
"""The units of messages, in billionths: thousandths of a CPU, and bytes."""


class PodResize(Step):
    """Refuses a resize of a pod that its node can never grant."""

    kinds = frozenset(("pods",))

    def validate(self, request: AdmissionRequest) -> None:
        """Refuse (403) a resize beyond what the node can allocate, or on a node that does not run Linux."""
        spec: Json = (request.object or {}).get("spec") or {}
        node = spec.get("nodeName")
        if request.subresource != "resize" or not node or spec == ((request.old or {}).get("spec") or {}):
            return
        state = request.registry.store.head("nodes", "", node)
        if state is None:
            raise request.refused(f'node "{node}" not found')
        manifest = state.decode()
        system = (manifest["metadata"].get("labels") or {}).get(_OS, "linux")
        if system != "linux":
            why = f'pod resize is only supported on linux nodes, node "{node}" is "{system}"'
            raise request.refused(why, (Cause("UnsupportedPlatform", ""),))
        lacking = _lacking(spec, manifest)
        if lacking:
            why = f"node didn't have enough allocatable resources: {'; '.join(lacking)}"
            raise request.refused(why, (Cause("NodeCapacity", ""),))


def _lacking(spec: Json, node: Json) -> list[str]:
    wanted, allocatable = of_pod(spec, "requests"), amounts((node.get("status") or {}).get("allocatable"))
    parts = []
    for name, unit in _UNITS.items():
        request, limit = (-(-part[name].nano // unit) if name in part else 0 for part in (wanted, allocatable))
        if request > limit:
            parts.append(f"{name}, requested: {request}, allocatable: {limit}")
    return parts
