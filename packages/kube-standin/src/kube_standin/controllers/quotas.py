"""The status of ResourceQuotas: current use, counted again when objects of the namespace end or quotas change.

Admission adds use when an object is created; this controller subtracts ended objects and corrects drift. Invariant:
``status.hard`` equals ``spec.hard``, and a count includes every write made before it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from kube_rules.admission.amounts import ZERO, Amounts, added, amounts, printed
from kube_rules.admission.quotas import counted
from kube_rules.admission.usage import has_class_scope
from kube_rules.json import Json
from kube_standin.admission.quota import class_names
from kube_standin.controllers.reconciler import Controller
from kube_standin.controllers.sources import VIEWS, HasMeta
from kube_standin.controllers.views import Key, ObjectView, PodGroupView, PodView, SpecView
from kube_standin.kinds import ServedKind

_PLAIN = ("configmaps", "secrets", "services", "replicationcontrollers", "resourcequotas", "persistentvolumeclaims")


class Quotas(Controller):
    """The controller of quotas; keys are theirs."""

    name = "resourcequota"

    def connect(self) -> None:
        """Queue quotas when they change or when an object that they may count ends."""
        sources = self.context.sources
        self._row = self.context.kind("v1", "ResourceQuota")
        self._quotas = sources.of(self._row.storage_key, SpecView)
        self._quotas.index("namespace", lambda quota: (quota.metadata.namespace,))
        self._watched: set[str] = {"pods"}
        self._quotas.add_handler(self._quota_changed)
        self.context.foreign_statuses.add_handler(self._row, self.queue)
        sources.pods.add_handler(self._pod_changed)
        for group in ("podgroups", "compositepodgroups"):
            sources.of(f"scheduling.k8s.io/{group}", PodGroupView).add_handler(self._group_changed)
        definitions = sources.of("apiextensions.k8s.io/customresourcedefinitions", ObjectView)
        definitions.add_handler(lambda _old, _new: self._recount_all())

    def _recount_all(self) -> None:
        """Queue all quotas after a kind was added or removed: they may name it."""
        for key in self._quotas.items:
            self.queue_after(key, self.context.times.quota_pause)

    def _quota_changed(self, old: SpecView | None, new: SpecView | None) -> None:
        if new is not None and (old is None or old.spec != new.spec):
            self.queue(new.metadata.key)

    def _pod_changed(self, old: PodView | None, new: PodView | None) -> None:
        if old is None:
            return
        if new is None or (new.finished and not old.finished) or new.metadata.generation != old.metadata.generation:
            self._ended(old.metadata.namespace)

    def _group_changed(self, old: PodGroupView | None, new: PodGroupView | None) -> None:
        """Queue the quotas of a group after it changed its class: its pods count for other quotas."""
        group = new or old
        if group is not None and (old is None or new is None or old.victim_class != new.victim_class):
            self._ended(group.metadata.namespace)

    def _changed(self, resource: str, old: HasMeta | None, new: HasMeta | None) -> None:
        if old is not None and (new is None or resource == "persistentvolumeclaims"):  # claims may change their class
            self._ended(old.metadata.namespace)

    def _ended(self, namespace: str) -> None:
        for key in self._quotas.keys_by("namespace", namespace):
            self.queue_after(key, self.context.times.quota_pause)

    def reconcile(self, key: Key) -> None:
        """Count the use of a quota and write its status."""
        with self.resting(key, factor=20, short=0.0) as rested:
            quota = self.context.find(self._row, key) if rested else None
            if quota is not None:
                self._count(key, quota)

    def _count(self, key: Key, quota: Json) -> None:
        hard = (quota.get("spec") or {}).get("hard") or {}
        total: Amounts = dict.fromkeys(hard, ZERO)
        limited, now = amounts(hard), self.context.now()
        by_class = class_names(self.context.registry, key[0]) if has_class_scope(quota) else None
        for row in self._counted(hard):
            self._watch(row)
            for state in self.context.registry.store.heads(row.storage_key, key[0]):
                obj = state.decode()
                classes = by_class(obj) if by_class is not None and row.resource == "pods" else ()
                total = added(total, counted(quota, limited, row.resource, obj, now, classes))
        self.context.set_status(self._row, key, {"hard": hard, "used": printed(total)})

    def _counted(self, hard: Json) -> list[ServedKind]:
        """Return the kinds that a quota counts."""
        wanted = {name for name in hard if name in _PLAIN} | {"pods"}
        wanted |= {name.removeprefix("count/") for name in hard if name.startswith("count/")}
        if any(name.startswith("services.") for name in hard):
            wanted.add("services")
        if any("storage" in name for name in hard):
            wanted.add("persistentvolumeclaims")
        kinds_by_resource: dict[str, ServedKind] = {}
        for row in self.context.registry.kinds:
            if row.resource in wanted and row.namespaced and row.stored:
                kinds_by_resource.setdefault(row.resource, self.context.registry.kinds.storage_kind(row))
        return list(kinds_by_resource.values())

    def _watch(self, row: ServedKind) -> None:
        if row.storage_key not in self._watched:
            self._watched.add(row.storage_key)
            view: Any = VIEWS.get(row.storage_key, (ObjectView, None))[0]
            self.context.sources.of(row.storage_key, view).add_handler(partial(self._changed, row.storage_key))
