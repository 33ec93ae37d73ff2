"""The kinds and versions that each Kubernetes release serves, for an API server of an earlier release (api.md 2.8)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import Final, NamedTuple

from kube_rules.versions import KUBERNETES_VERSION, SCHEDULING_GROUP
from kube_standin.kinds import ServedKind

OLDEST: Final = 29
NEWEST: Final = int(KUBERNETES_VERSION.split(".")[1])
"""Supported minor versions, from the oldest to that of the rules, which is the default."""


class ServedSpan(NamedTuple):
    """The first and the last minor version that serves something."""

    first: int
    last: int = NEWEST

    def at(self, minor: int | None) -> bool:
        """Return whether a release serves it; None stands for all releases and returns True."""
        return minor is None or self.first <= minor <= self.last


_RESOURCE: Final = "resource.k8s.io"
_ADMISSION: Final = "admissionregistration.k8s.io"
_FLOW: Final = "flowcontrol.apiserver.k8s.io"
_TABLE: Final[Iterable[tuple[str, str, ServedSpan]]] = (
    (f"{SCHEDULING_GROUP}/v1", "PodGroup Workload", ServedSpan(38)),
    (f"{SCHEDULING_GROUP}/v1beta1", "PodGroup Workload", ServedSpan(37)),
    (f"{SCHEDULING_GROUP}/v1beta1", "CompositePodGroup", ServedSpan(38)),
    (f"{SCHEDULING_GROUP}/v1alpha3", "PodGroup Workload CompositePodGroup", ServedSpan(37)),
    (f"{SCHEDULING_GROUP}/v1alpha2", "PodGroup Workload", ServedSpan(36, 36)),
    (f"{_RESOURCE}/v1", "DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice", ServedSpan(34)),
    (f"{_RESOURCE}/v1", "DeviceTaintRule", ServedSpan(37)),
    (f"{_RESOURCE}/v1beta2", "DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice", ServedSpan(33, 33)),
    (f"{_RESOURCE}/v1beta2", "DeviceTaintRule", ServedSpan(36, 36)),
    (f"{_ADMISSION}/v1", "ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding", ServedSpan(30)),
    (f"{_ADMISSION}/v1", "MutatingAdmissionPolicy MutatingAdmissionPolicyBinding", ServedSpan(36)),
    (f"{_ADMISSION}/v1beta1", "ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding", ServedSpan(29, 29)),
    (f"{_ADMISSION}/v1beta1", "MutatingAdmissionPolicy MutatingAdmissionPolicyBinding", ServedSpan(34, 35)),
    ("storage.k8s.io/v1", "VolumeAttributesClass", ServedSpan(34)),
    ("storage.k8s.io/v1beta1", "VolumeAttributesClass", ServedSpan(31, 33)),
    ("networking.k8s.io/v1", "IPAddress ServiceCIDR", ServedSpan(33)),
    (f"{_FLOW}/v1beta3", "FlowSchema PriorityLevelConfiguration", ServedSpan(29, 31)),
)
"""Versions that not all releases serve. Beta versions that are off by default end with the first stable one."""
_SERVED: Final = {(version, kind): span for version, kinds, span in _TABLE for kind in kinds.split()}
_EVERY: Final = ServedSpan(OLDEST)
GROUPS: Final = ServedSpan(36)
"""Pods name their group."""
RESIZE: Final = ServedSpan(33)
"""Pods have the subresource `resize` (KEP-1287, on by default since then)."""
SET_UNAVAILABLE: Final = ServedSpan(37)
"""StatefulSets have `maxUnavailable` (KEP-961, on by default since then)."""
GROUP_POLICY: Final = ServedSpan(37)
"""Groups have a preemption policy; Jobs have `spec.scheduling`."""


@cache
def row_of(minor: int | None, kind: ServedKind) -> ServedKind:
    """Return the row of a kind in a release: pods of an early one cannot be resized."""
    if kind.resource != "pods" or RESIZE.at(minor):
        return kind
    return replace(kind, subresources=kind.subresources - {"resize"})


def serves(minor: int | None, kind: ServedKind) -> bool:
    """Return whether the API server of a release serves a kind in its version."""
    return _SERVED.get((kind.api_version, kind.kind), _EVERY).at(minor)


def read_minor(text: str) -> int:
    """Return the minor version of `1.36`. Raises ValueError with the problem."""
    major, _, minor = text.removeprefix("v").partition(".")
    if major != "1" or not (minor.isascii() and minor.isdecimal()) or not OLDEST <= int(minor) <= NEWEST:
        raise ValueError(f"must be a version from 1.{OLDEST} to 1.{NEWEST}, such as 1.36")
    return int(minor)
