"""Custom resources at run time: an established definition becomes rows in the table of kinds, served at once.

As an admission step it sees every write of a CustomResourceDefinition; acceptance of names, the Established condition
and the rows are updated in the same turn. Deleting a definition first deletes its instances (finalizer
``customresourcecleanup``), then the rows.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kube_rules.json import Json
from kube_standin.admission_chain import AdmissionRequest, Step
from kube_standin.conditions import condition, is_true, put_condition
from kube_standin.custom_versions import CustomVersions
from kube_standin.deletion import CRD_CLEANUP, DeleteOptions
from kube_standin.errors import StatusError
from kube_standin.kinds import CUSTOM_VERBS, DEFINITIONS, ServedKind
from kube_standin.metadata import without_finalizer
from kube_standin.registry import ObjectRegistry, WriteOptions
from kube_standin.storage import StorageError
from kube_standin.webhooks import WebhookCaller
from kube_standin.webhooks.conversion import ConversionWebhook
from kube_standin.worker_thread import Turn

_STATUS = WriteOptions(manager="kube-apiserver")
_NO_CONFLICTS = ("NoConflicts", "no conflicts found")
_NOT_ACCEPTED = ("False", "NotAccepted", "not all names are accepted")
_ESTABLISHED = ("True", "InitialNamesAccepted", "the initial names have been accepted")
_TERMINATING = ("True", "InstanceDeletionInProgress", "CustomResource deletion is in progress")


def rows_of(definition: Json) -> dict[str, ServedKind]:
    """Return the rows of a definition by apiVersion: one per version, served or not."""
    spec = definition["spec"]
    accepted = (definition.get("status") or {}).get("acceptedNames") or {}
    names = accepted if accepted.get("plural") and accepted.get("kind") else spec["names"]
    stored = _stored_version(definition)
    rows: dict[str, ServedKind] = {}
    for version in spec["versions"]:
        subresources = version.get("subresources") or {}
        fields = {
            path["jsonPath"].lstrip("."): path["jsonPath"].lstrip(".") for path in version.get("selectableFields") or ()
        }
        rows[f"{spec['group']}/{version['name']}"] = ServedKind(
            group=spec["group"],
            version=version["name"],
            kind=names["kind"],
            plural=names["plural"],
            singular=names.get("singular") or names["kind"].lower(),
            list_kind=names.get("listKind") or f"{names['kind']}List",
            namespaced=spec["scope"] == "Namespaced",
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            subresources=frozenset(name for name in ("status", "scale") if name in subresources),
            verbs=CUSTOM_VERBS,
            storage_version=f"{spec['group']}/{stored}",
            storage_key=f"{spec['group']}/{names['plural']}",
            generation=True,
            unconditional_update=False,
            status_metadata="reset",
            fields=fields,
            custom=True,
            terminating="deletionTimestamp" in definition["metadata"],
            definition=version,
        )
    return rows


def _stored_version(definition: Json) -> str:
    name: str = next(version["name"] for version in definition["spec"]["versions"] if version.get("storage"))
    return name


def _same_forms(before: Mapping[str, ServedKind], now: Mapping[str, ServedKind]) -> bool:
    """Return whether objects stored under one set of rows have the same stored form under another."""

    def forms(rows: Mapping[str, ServedKind]) -> Any:
        return {version: (row.storage_version, (row.definition or {}).get("schema")) for version, row in rows.items()}

    return bool(forms(before) == forms(now))


def _is_established(definition: Json) -> bool:
    return is_true(definition.get("status"), "Established")


class CustomResources(Step):
    """Keeps the table of kinds in sync with the stored definitions of one registry."""

    kinds = frozenset((DEFINITIONS,))

    def __init__(self, registry: ObjectRegistry, caller: WebhookCaller | None = None) -> None:
        self._registry = registry
        self._caller = caller
        self._rows: dict[str, list[ServedKind]] = {}
        self._pending: dict[str, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._cleanups: set[str] = set()
        registry.store.undone.append(self._follow_undone)

    def _follow_undone(self) -> None:
        """Update the served kinds after writes were undone, which may include definitions."""
        definitions = self._stored()
        for name in self._rows.keys() - {definition["metadata"]["name"] for definition in definitions}:
            self._withdraw(name)
        for definition in definitions:
            if _is_established(definition):
                self._serve(definition)

    def _stored(self) -> list[Json]:
        kind = self._registry.kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
        return [self._registry.view(kind, state) for state in self._registry.store.heads(kind.storage_key)]

    def load(self) -> None:
        """Serve the established definitions in the store (at start)."""
        for definition in self._stored():
            if _is_established(definition):
                self._serve(definition)
            else:
                self._pending[definition["metadata"]["name"]] = definition["spec"]["group"]
            if definition["metadata"].get("deletionTimestamp"):
                self._clean_up(definition)

    def committed(self, request: AdmissionRequest) -> None:
        """Update the served kinds after a write of a definition."""
        definition = self._registry.find(request.kind, "", request.name)
        if definition is None:
            self._pending.pop(request.name, None)
            self._withdraw(request.name)
            self._try_again(request.name.partition(".")[2])
            return
        if definition["metadata"].get("deletionTimestamp"):
            if _is_established(definition):
                self._serve(definition)
            self._clean_up(definition)
            return
        if not self._accept(request.kind, definition) and _is_established(definition):
            self._serve(definition)

    def _accept(self, kind: ServedKind, definition: Json) -> bool:
        """Accept the names of a definition unless another one has them; return whether its status changed.

        A change is a write of its own that has already been processed. Rules: apiextensions-apiserver
        (naming_controller).
        """
        registry = self._registry
        stamp = registry.clock.stamp()
        accepted, problem = self._names(definition)
        name, group = definition["metadata"]["name"], definition["spec"]["group"]
        if problem is None:
            self._pending.pop(name, None)
        else:
            self._pending[name] = group
        changes = [condition("NamesAccepted", "False" if problem else "True", *(problem or _NO_CONFLICTS))]
        if not _is_established(definition):
            changes.append(condition("Established", *(_NOT_ACCEPTED if problem else _ESTABLISHED)))

        def change(obj: Json) -> None:
            status = obj.setdefault("status", {})
            for new_condition in changes:
                put_condition(status, new_condition, stamp)
            status["acceptedNames"] = accepted
            stored = status.setdefault("storedVersions", [])
            stored += {_stored_version(obj)}.difference(stored)

        return registry.modify_now(kind, "", name, change, _STATUS, "status").state is not None

    def _names(self, definition: Json) -> tuple[Json, tuple[str, str] | None]:
        """Return the new accepted names of a definition, and reason and message of the last conflict."""
        spec = definition["spec"]
        wanted_names, old_names = spec["names"], (definition.get("status") or {}).get("acceptedNames") or {}
        group_kinds = [
            kind
            for kind in self._registry.kinds
            if kind.group == spec["group"] and kind.storage_key != f"{spec['group']}/{wanted_names['plural']}"
        ]
        resources = {name for kind in group_kinds for name in (kind.plural, kind.singular, *kind.short_names)}
        kinds = {name for kind in group_kinds for name in (kind.kind, kind.list_kind)}
        accepted, problem = {**old_names}, None
        for word, used in (
            ("plural", resources),
            ("singular", resources),
            ("shortNames", resources),
            ("kind", kinds),
            ("listKind", kinds),
        ):
            value = wanted_names.get(word)
            wanted = (
                [name for name in value or () if name not in old_names.get(word, ())]
                if word == "shortNames"
                else [value]
            )
            clashes = [name for name in wanted if name in used and name != old_names.get(word)]
            if clashes:
                texts = [f'"{name}" is already in use' for name in clashes]
                text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
                problem = (f"{word[0].upper()}{word[1:]}Conflict", text)
            elif value:
                accepted[word] = value
            else:
                accepted.pop(word, None)
        if wanted_names.get("categories"):
            accepted["categories"] = wanted_names["categories"]
        else:
            accepted.pop("categories", None)
        return {"plural": "", "kind": "", **accepted}, problem

    def _try_again(self, group: str) -> None:
        """Retry definitions that lost their names to another definition of their group."""
        kind = self._registry.kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
        for name in [name for name, pending_group in self._pending.items() if pending_group == group]:
            definition = self._registry.find(kind, "", name)
            if definition is None or definition["metadata"].get("deletionTimestamp"):
                self._pending.pop(name, None)
            else:
                self._accept(kind, definition)

    def _serve(self, definition: Json) -> None:
        name = definition["metadata"]["name"]
        before = self._rows.get(name, [])
        rows = [row for row in self._kept_rows(definition, before) if (row.definition or {}).get("served")]
        keep = {row.gvk for row in rows}
        for row in before:
            if row.gvk not in keep:
                self._registry.kinds.remove(row)
        for row in rows:
            self._registry.kinds.add(row)
            self._registry.declare(row)
        self._rows[name] = rows

    def _kept_rows(self, definition: Json, before: list[ServedKind]) -> list[ServedKind]:
        """Return the rows of all versions, which know the storage form of the definition's objects."""
        spec = definition["spec"]
        group = spec["group"]
        stored = (definition.get("status") or {}).get("storedVersions") or [_stored_version(definition)]
        unmarked = f"{group}/{stored[0]}"
        new_rows = rows_of(definition)
        old_versions = before[0].versions if before else None
        since = int(definition["metadata"]["resourceVersion"])
        if old_versions is not None and old_versions.unmarked == unmarked and _same_forms(old_versions.rows, new_rows):
            since = old_versions.since
        rows: dict[str, ServedKind] = {}
        versions = CustomVersions(unmarked, since, rows, self._registry.schema, self._webhook(definition))
        rows |= {version: replace(row, versions=versions) for version, row in new_rows.items()}
        return list(rows.values())

    def _webhook(self, definition: Json) -> ConversionWebhook | None:
        conversion = definition["spec"].get("conversion") or {}
        if conversion.get("strategy") != "Webhook" or self._caller is None:
            return None
        return ConversionWebhook(definition["metadata"]["name"], conversion, self._caller)

    def _withdraw(self, name: str) -> None:
        for row in self._rows.pop(name, []):
            self._registry.kinds.remove(row)
            self._registry.store.end_subscriptions(row.storage_key)

    def _clean_up(self, definition: Json) -> None:
        name = definition["metadata"]["name"]
        if name in self._cleanups or CRD_CLEANUP not in (definition["metadata"].get("finalizers") or ()):
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # no loop: the next start of a server continues
        task = loop.create_task(self._delete_instances(definition))
        self._cleanups.add(name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: self._cleanups.discard(name))

    async def _delete_instances(self, definition: Json) -> None:
        """Delete all instances, then the definition."""
        registry = self._registry
        name = definition["metadata"]["name"]
        rows = self._kept_rows(definition, self._rows.get(name, []))
        [row] = [row for row in rows if row.api_version == row.storage_version]
        kind = registry.kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
        with contextlib.suppress(StorageError):
            await registry.store.ticket.settled()
        present = registry.find(kind, "", name)
        if present is None or not present["metadata"].get("deletionTimestamp"):
            return  # the deletion was undone
        begun = condition("Terminating", *_TERMINATING)
        stamp = registry.clock.stamp()
        registry.modify_now(
            kind, "", name, lambda obj: put_condition(obj.setdefault("status", {}), begun, stamp), _STATUS, "status"
        )
        while states := list(registry.store.heads(row.storage_key)):
            turn = Turn()
            for state in states:
                await turn.over()
                try:
                    registry.deletion.delete(row, state.namespace, state.name, DeleteOptions())
                except StatusError:
                    continue
            await registry.store.ticket.settled()
            if registry.store.count(row.storage_key):
                await asyncio.sleep(0.2)  # held by their own finalizers

        release = without_finalizer(CRD_CLEANUP)
        try:
            await registry.modify_now(kind, "", name, release, WriteOptions(manager="")).ticket.settled()
        except StatusError as error:
            if error.reason != "NotFound":
                raise

    async def stop(self) -> None:
        """Stop running clean-ups; the next start continues them."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
