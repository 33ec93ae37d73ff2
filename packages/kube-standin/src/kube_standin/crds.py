"""Custom resources at run time: an established definition becomes rows in the table of kinds, served at once.

As an admission step it sees every write of a CustomResourceDefinition; acceptance of names, the Established
condition and the rows follow in the same turn. Deleting a definition deletes its instances first (finalizer
``customresourcecleanup``), then the rows go.
"""

from __future__ import annotations

import asyncio
import contextlib

from kube_rules.json import Json
from kube_standin.admission_chain import AdmissionRequest, Step
from kube_standin.conditions import condition, is_true, put_condition
from kube_standin.deleting import CRD_CLEANUP, DeleteOptions
from kube_standin.errors import StatusError
from kube_standin.kinds import CUSTOM_VERBS, ServedKind
from kube_standin.metadata import without_finalizer
from kube_standin.off_loop import Turn
from kube_standin.registry import ObjectRegistry, WriteOptions
from kube_standin.storage import StorageError

DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
_STATUS = WriteOptions(manager="kube-apiserver")


def rows_of(definition: Json) -> list[ServedKind]:
    """Return the rows of a definition: one per served version."""
    spec = definition["spec"]
    names = spec["names"]
    stored = _stored_version(definition)
    rows: list[ServedKind] = []
    for version in spec["versions"]:
        if not version.get("served"):
            continue
        subresources = version.get("subresources") or {}
        fields = {
            path["jsonPath"].lstrip("."): path["jsonPath"].lstrip(".") for path in version.get("selectableFields") or ()
        }
        rows.append(
            ServedKind(
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
                definition=version,
            )
        )
    return rows


def _stored_version(definition: Json) -> str:
    name: str = next(version["name"] for version in definition["spec"]["versions"] if version.get("storage"))
    return name


def _is_established(definition: Json) -> bool:
    return is_true(definition.get("status"), "Established")


class CustomResources(Step):
    """Keeps the table of kinds in line with the stored definitions of one registry."""

    kinds = frozenset((DEFINITIONS,))

    def __init__(self, registry: ObjectRegistry) -> None:
        self._registry = registry
        self._rows: dict[str, list[ServedKind]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        registry.store.undone.append(self._follow_undone)

    def _follow_undone(self) -> None:
        """Serve what is left after writes were undone: definitions may be among them."""
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
        """Serve what is established in the store (at start)."""
        for definition in self._stored():
            if _is_established(definition):
                self._serve(definition)
            if definition["metadata"].get("deletionTimestamp"):
                self._clean_up(definition)

    def committed(self, request: AdmissionRequest) -> None:
        """Follow a write of a definition."""
        definition = self._registry.find(request.kind, "", request.name)
        if definition is None:
            self._withdraw(request.name)
            return
        if definition["metadata"].get("deletionTimestamp"):
            self._clean_up(definition)
            return
        if not self._accept(request.kind, definition) and _is_established(definition):
            self._serve(definition)

    def _accept(self, kind: ServedKind, definition: Json) -> bool:
        """Accept the names of a definition unless another one has them; whether that changed its status.

        Then it was a write of its own, which has been followed.
        """
        registry = self._registry
        stamp = registry.clock.stamp()
        conflict = self._conflict(definition)
        names = definition["spec"]["names"]
        state = "False" if conflict else "True"
        accepted = (
            condition("NamesAccepted", state, *(conflict or ("NoConflicts", "no conflicts found"))),
            condition("Established", "False", "NotAccepted", "not all names are accepted")
            if conflict
            else condition("Established", "True", "InitialNamesAccepted", "the initial names have been accepted"),
        )

        def change(obj: Json) -> None:
            status = obj.setdefault("status", {})
            for one in accepted:
                put_condition(status, one, stamp)
            if not conflict:
                status["acceptedNames"] = dict(names)
            stored = status.setdefault("storedVersions", [])
            stored += {_stored_version(obj)}.difference(stored)

        return (
            registry.modify_now(kind, "", definition["metadata"]["name"], change, _STATUS, "status").state is not None
        )

    def _conflict(self, definition: Json) -> tuple[str, str] | None:
        spec = definition["spec"]
        names = spec["names"]
        own = f"{spec['group']}/{names['plural']}"
        for kind in self._registry.kinds:
            if kind.group != spec["group"] or kind.storage_key == own:
                continue
            if kind.kind == names["kind"]:
                return ("KindConflict", f'"{names["kind"]}" is already in use')
            taken = {kind.plural, kind.singular, *kind.short_names}
            for name in (names["plural"], names.get("singular", ""), *(names.get("shortNames") or ())):
                if name in taken:
                    return ("NamesConflict", f'"{name}" is already in use')
        return None

    def _serve(self, definition: Json) -> None:
        name = definition["metadata"]["name"]
        rows = rows_of(definition)
        before = self._rows.get(name, [])
        keep = {row.gvk for row in rows}
        for row in before:
            if row.gvk not in keep:
                self._registry.kinds.remove(row)
        for row in rows:
            self._registry.kinds.add(row)
            self._registry.declare(row)
        self._rows[name] = rows

    def _withdraw(self, name: str) -> None:
        for row in self._rows.pop(name, []):
            self._registry.kinds.remove(row)
            self._registry.store.end_subscriptions(row.storage_key)

    def _clean_up(self, definition: Json) -> None:
        if CRD_CLEANUP not in (definition["metadata"].get("finalizers") or ()):
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # no loop: the next start of a server goes on with it
        task = loop.create_task(self._delete_instances(definition))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _delete_instances(self, definition: Json) -> None:
        """Delete all instances, then let the definition go."""
        registry = self._registry
        name = definition["metadata"]["name"]
        rows = rows_of(definition)
        kind = registry.kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
        with contextlib.suppress(StorageError):
            await registry.store.ticket.settled()
        present = registry.find(kind, "", name)
        if present is None or not present["metadata"].get("deletionTimestamp"):
            return  # the deletion was undone
        for row in rows[:1]:
            while states := list(registry.store.heads(row.storage_key)):
                turn = Turn()
                for state in states:
                    await turn.over()
                    try:
                        registry.delete_now(row, state.namespace, state.name, DeleteOptions())
                    except StatusError:
                        continue
                await registry.store.ticket.settled()
                if registry.store.count(row.storage_key):
                    await asyncio.sleep(0.2)  # held by finalizers of their own

        release = without_finalizer(CRD_CLEANUP)
        try:
            await registry.modify_now(kind, "", name, release, WriteOptions(manager="")).ticket.settled()
        except StatusError as error:
            if error.reason != "NotFound":
                raise

    async def stop(self) -> None:
        """Stop clean-ups under way; the next start goes on with them."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
