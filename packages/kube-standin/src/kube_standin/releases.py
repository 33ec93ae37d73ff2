"""What releases of Kubernetes serve of `scheduling.k8s.io`, for an API server of an earlier one (api.md 2.8).

All other kinds are served whichever release is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from kube_standin.kinds import ServedKind

OLDEST, NEWEST = 29, 38
"""Minor versions that can be asked for."""


class ServedSpan(NamedTuple):
    """Minor versions from the first to the last that serve something."""

    first: int
    last: int = NEWEST

    def at(self, minor: int | None) -> bool:
        """Return whether a release has it; None is no release in particular, which has everything."""
        return minor is None or self.first <= minor <= self.last


_SCHEDULING: Final = "scheduling.k8s.io"
_SERVED: Final[Mapping[tuple[str, str], ServedSpan]] = {
    (f"{_SCHEDULING}/v1", "PodGroup"): ServedSpan(38),
    (f"{_SCHEDULING}/v1", "Workload"): ServedSpan(38),
    (f"{_SCHEDULING}/v1beta1", "PodGroup"): ServedSpan(37),
    (f"{_SCHEDULING}/v1beta1", "Workload"): ServedSpan(37),
    (f"{_SCHEDULING}/v1beta1", "CompositePodGroup"): ServedSpan(38),
    (f"{_SCHEDULING}/v1alpha3", "PodGroup"): ServedSpan(37),
    (f"{_SCHEDULING}/v1alpha3", "Workload"): ServedSpan(37),
    (f"{_SCHEDULING}/v1alpha3", "CompositePodGroup"): ServedSpan(37),
    (f"{_SCHEDULING}/v1alpha2", "PodGroup"): ServedSpan(36, 36),
    (f"{_SCHEDULING}/v1alpha2", "Workload"): ServedSpan(36, 36),
}
_EVERY: Final = ServedSpan(OLDEST)
GROUPS: Final = ServedSpan(36)
"""Pods name their group."""
GROUP_POLICY: Final = ServedSpan(37)
"""Groups have a preemption policy; Jobs have `spec.scheduling`."""


def serves(minor: int | None, kind: ServedKind) -> bool:
    """Return whether the API server of a release serves a kind in its version."""
    return _SERVED.get((kind.api_version, kind.kind), _EVERY).at(minor)


def read_minor(text: str) -> int:
    """Return the minor version of `1.36`. Raises ValueError with what is wrong."""
    major, _, minor = text.removeprefix("v").partition(".")
    if major != "1" or not (minor.isascii() and minor.isdecimal()) or not OLDEST <= int(minor) <= NEWEST:
        raise ValueError(f"must be a version from 1.{OLDEST} to 1.{NEWEST}, as 1.36")
    return int(minor)
