"""Kinds that limit the resources of a namespace: ResourceQuota and LimitRange (read by plans only).

Invariants: see `kube_rules.objects`, which re-exports the kinds. The rules are in `kube_rules.admission`.
"""

from __future__ import annotations

from typing import ClassVar

from kube_rules.meta import KubernetesObject, ResourceList, Struct, map_field


class ScopedResourceSelectorRequirement(Struct, frozen=True, kw_only=True):
    """spec.scopeSelector.matchExpressions[]; operator In, NotIn, Exists or DoesNotExist."""

    scope_name: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class ScopeSelector(Struct, frozen=True, kw_only=True):
    """spec.scopeSelector: the quota covers objects that match all expressions."""

    match_expressions: tuple[ScopedResourceSelectorRequirement, ...] = ()


class ResourceQuotaSpec(Struct, frozen=True, kw_only=True):
    """spec of a ResourceQuota."""

    hard: ResourceList = map_field()
    scopes: tuple[str, ...] = ()
    scope_selector: ScopeSelector | None = None


class ResourceQuotaStatus(Struct, frozen=True, kw_only=True):
    """status of a ResourceQuota."""

    hard: ResourceList = map_field()
    used: ResourceList = map_field()


class ResourceQuota(KubernetesObject, frozen=True, kw_only=True):
    """v1 ResourceQuota."""

    API_VERSION: ClassVar[str] = "v1"
    NAMESPACED: ClassVar[bool] = True

    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()


class LimitRangeItem(Struct, frozen=True, kw_only=True):
    """spec.limits[]; type Container, Pod or PersistentVolumeClaim."""

    type: str = ""
    min: ResourceList = map_field()
    max: ResourceList = map_field()
    default: ResourceList = map_field()
    default_request: ResourceList = map_field()
    max_limit_request_ratio: ResourceList = map_field()


class LimitRangeSpec(Struct, frozen=True, kw_only=True):
    """spec of a LimitRange."""

    limits: tuple[LimitRangeItem, ...] = ()


class LimitRange(KubernetesObject, frozen=True, kw_only=True):
    """v1 LimitRange."""

    API_VERSION: ClassVar[str] = "v1"
    NAMESPACED: ClassVar[bool] = True

    spec: LimitRangeSpec = LimitRangeSpec()
