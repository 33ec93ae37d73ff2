"""Kinds that select pods: read only if a default spread constraint needs their selector (light forms).

Invariants: see `kube_rules.objects`, which re-exports the kinds.
"""

from __future__ import annotations

from typing import ClassVar

from kube_rules.meta import KubernetesObject, LabelSelector, Struct, map_field


class ServiceSpec(Struct, frozen=True, kw_only=True):
    """spec of a Service; an empty selector selects nothing."""

    selector: dict[str, str] = map_field()


class Service(KubernetesObject, frozen=True, kw_only=True):
    """v1 Service."""

    API_VERSION: ClassVar[str] = "v1"
    NAMESPACED: ClassVar[bool] = True

    spec: ServiceSpec = ServiceSpec()


class ReplicationControllerSpec(Struct, frozen=True, kw_only=True):
    """spec of a ReplicationController."""

    replicas: int | None = None
    selector: dict[str, str] = map_field()


class ReplicationController(KubernetesObject, frozen=True, kw_only=True):
    """v1 ReplicationController."""

    API_VERSION: ClassVar[str] = "v1"
    NAMESPACED: ClassVar[bool] = True

    spec: ReplicationControllerSpec = ReplicationControllerSpec()


class SelectingSpec(Struct, frozen=True, kw_only=True):
    """spec of a ReplicaSet or StatefulSet."""

    replicas: int | None = None
    selector: LabelSelector | None = None


class ReplicaSet(KubernetesObject, frozen=True, kw_only=True):
    """apps/v1 ReplicaSet."""

    API_VERSION: ClassVar[str] = "apps/v1"
    NAMESPACED: ClassVar[bool] = True

    spec: SelectingSpec = SelectingSpec()


class StatefulSet(KubernetesObject, frozen=True, kw_only=True):
    """apps/v1 StatefulSet."""

    API_VERSION: ClassVar[str] = "apps/v1"
    NAMESPACED: ClassVar[bool] = True

    spec: SelectingSpec = SelectingSpec()
