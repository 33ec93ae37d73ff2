"""APIServices: one for each served group version, and the condition of those that clients create.

Rules: kube-aggregator (autoregister_controller) and kube-apiserver 1.36 (priorities of built-in groups). Requests are
never sent to the Service of an APIService: it does not change which group versions are served. The label
``automanaged`` is described in interfaces.md 4.5.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from kube_rules.json import Json
from kube_standin.admission_chain import AdmissionRequest, Step
from kube_standin.conditions import condition, put_condition
from kube_standin.deletion import DeleteOptions
from kube_standin.kinds import DEFINITIONS, METRICS_GROUP, ServedKind
from kube_standin.registry import ObjectRegistry, WriteOptions

API_SERVICES: Final = "apiservices.apiregistration.k8s.io"
MANAGED: Final = "kube-aggregator.kubernetes.io/automanaged"
"""Label of the APIServices that the server creates: "onstart" for built-in groups, "true" for custom resources."""
_MANAGED_WORDS = ("true", "onstart")
_OPTIONS = WriteOptions(manager="kube-apiserver")
_LOCAL = ("True", "Local", "Local APIServices are always available")
_OWN = ("True", "Local", "This server serves {} itself; it does not proxy requests to the service")
_NOT_PROXIED = ("False", "NotProxied", "This server does not proxy aggregated APIs: {} is not served")
_GROUPS: Mapping[str, int] = {
    "": 18000,
    "apps": 17800,
    "events.k8s.io": 17750,
    "authentication.k8s.io": 17700,
    "authorization.k8s.io": 17600,
    "autoscaling": 17500,
    "batch": 17400,
    "certificates.k8s.io": 17300,
    "networking.k8s.io": 17200,
    "policy": 17100,
    "rbac.authorization.k8s.io": 17000,
    "storage.k8s.io": 16800,
    "admissionregistration.k8s.io": 16700,
    "apiextensions.k8s.io": 16700,
    "scheduling.k8s.io": 16600,
    "coordination.k8s.io": 16500,
    "node.k8s.io": 16300,
    "discovery.k8s.io": 16200,
    "resource.k8s.io": 16200,
    "flowcontrol.apiserver.k8s.io": 16100,
    METRICS_GROUP: 100,
}
"""Priorities of built-in groups; `apiregistration.k8s.io` has no APIService, as in any cluster."""
_VERSIONS: Mapping[tuple[str, str], int] = {
    ("", "v1"): 1,
    ("autoscaling", "v2"): 30,
    ("flowcontrol.apiserver.k8s.io", "v1"): 21,
    (METRICS_GROUP, "v1beta1"): 100,
}
_CUSTOM_PRIORITIES = (1000, 100)


class _ServedVersion(NamedTuple):
    group: str
    version: str
    custom: bool

    def api_service(self) -> Json:
        if self.custom:
            group_priority, version_priority = _CUSTOM_PRIORITIES
        else:
            stable = 12 if "beta" in self.version else 9 if "alpha" in self.version else 15
            group_priority = _GROUPS[self.group]
            version_priority = _VERSIONS.get((self.group, self.version), stable)
        metadata = {"name": f"{self.version}.{self.group}", "labels": {MANAGED: "true" if self.custom else "onstart"}}
        spec: Json = {"version": self.version}
        if self.group:
            spec["group"] = self.group
        spec |= {"groupPriorityMinimum": group_priority, "versionPriority": version_priority}
        return {"metadata": metadata, "spec": spec}


class ApiServices(Step):
    """Keeps APIServices in line with the group versions that one registry serves. Add it after CustomResources."""

    kinds = frozenset((API_SERVICES, DEFINITIONS))

    def __init__(self, registry: ObjectRegistry) -> None:
        self._registry = registry
        self._names: frozenset[str] = frozenset()
        self._is_syncing = False

    def load(self) -> None:
        """Create missing APIServices and delete the server's own for group versions that no longer exist (at start)."""
        stored = self._registry.store.heads(self._kind().storage_key)
        self._follow({state.name for state in stored if MANAGED in (state.labels or {})}, start=True)

    def committed(self, request: AdmissionRequest) -> None:
        """Update APIServices after a write of a definition or of an APIService."""
        state = self._registry.head(request.kind, "", request.name) if request.kind.resource == API_SERVICES else None
        if state is None:
            self._follow()
            return
        group_version = self._served().get(request.name)
        managed = (state.labels or {}).get(MANAGED) == "true"
        if managed and group_version is None and not self._is_syncing:
            self._registry.deletion.delete(request.kind, "", request.name, DeleteOptions())
            return
        if managed and group_version is not None and group_version.custom:
            self._put_spec_back(request.name, group_version)
        self._set_condition(request.name)

    def _kind(self) -> ServedKind:
        return self._registry.kind("apiregistration.k8s.io/v1", "APIService")

    def _served(self) -> dict[str, _ServedVersion]:
        versions: dict[str, _ServedVersion] = {}
        for kind in self._registry.kinds:
            if kind.custom or kind.group in _GROUPS:
                name = f"{kind.version}.{kind.group}"
                if name not in versions or versions[name].custom:
                    versions[name] = _ServedVersion(kind.group, kind.version, kind.custom)
        return versions

    def _follow(self, stored: Collection[str] = (), *, start: bool = False) -> None:
        """Create and delete APIServices as group versions change; those of built-in groups at start only."""
        if self._is_syncing:
            return  # a write by this method
        self._is_syncing = True
        try:
            registry, kind, served = self._registry, self._kind(), self._served()
            for name in sorted({*self._names, *stored} - served.keys()):
                state = registry.head(kind, "", name)
                if state is not None and (state.labels or {}).get(MANAGED) in _MANAGED_WORDS:
                    registry.deletion.delete(kind, "", name, DeleteOptions())
                elif state is not None:
                    self._set_condition(name)
            for name, group_version in served.items():
                state = registry.head(kind, "", name)
                if state is not None:
                    if name not in self._names:
                        label = (state.labels or {}).get(MANAGED)
                        always = label == "true" and group_version.custom
                        if always or (start and label in _MANAGED_WORDS and group_version.group != METRICS_GROUP):
                            self._put_spec_back(name, group_version)
                        self._set_condition(name)
                elif group_version.custom or start:
                    api_service = registry.decoder.decode(kind, group_version.api_service(), "Ignore", [])
                    registry.create_now(kind, "", api_service, _OPTIONS)
            self._names = frozenset(served)
        finally:
            self._is_syncing = False

    def _put_spec_back(self, name: str, group_version: _ServedVersion) -> None:
        """Undo a client's changes to a spec that the server manages; an unchanged spec is not written."""

        def change(obj: Json) -> None:
            obj["spec"] = group_version.api_service()["spec"]

        self._registry.modify_now(self._kind(), "", name, change, _OPTIONS)

    def _set_condition(self, name: str) -> None:
        """Set whether an APIService is available; an unchanged condition is not written."""
        served, stamp = self._served(), self._registry.clock.stamp()

        def change(obj: Json) -> None:
            spec = obj["spec"]
            words = _LOCAL if spec.get("service") is None else _OWN if name in served else _NOT_PROXIED
            group_version = "/".join(part for part in (spec.get("group"), spec.get("version")) if part)
            status, reason, text = words
            available = condition("Available", status, reason, text.format(group_version))
            put_condition(obj.setdefault("status", {}), available, stamp)

        self._registry.modify_now(self._kind(), "", name, change, _OPTIONS, "status")
