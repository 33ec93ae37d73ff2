"""Stored custom resources in the versions of their definition.

Rules: k8s.io/apiextensions-apiserver (customresource_handler). A stored object is read by the current definition: by
the schema of its storage version, unknown fields are pruned and defaults filled in; then it is converted, and pruned by
the schema of the requested version. Writes are converted and pruned likewise.

A state written under the current definition, from revision ``since`` on, needs no such reading. Its body names its
apiVersion only if that is not ``unmarked``, the first storage version of the definition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from kube_rules.json import Json
from kube_standin.schema import Schema
from kube_standin.schema.structural import DefaultsTooLargeError
from kube_standin.storage import StoredObject
from kube_standin.storage.model import as_object

if TYPE_CHECKING:
    from kube_standin.kinds import ServedKind
    from kube_standin.webhooks.conversion import ConversionWebhook


@dataclass(frozen=True, eq=False)
class CustomVersions:
    """The versions of one definition; ``rows`` has all of them by apiVersion, including unserved versions."""

    unmarked: str
    since: int
    rows: Mapping[str, ServedKind]
    schema: Callable[[ServedKind], Schema]
    webhook: ConversionWebhook | None = None
    """The converter between versions; None if they differ only in name."""

    def is_raw(self, kind: ServedKind, state: StoredObject) -> bool:
        """Return whether the bytes of a state are the object in the version of ``kind``."""
        same = kind.api_version == kind.storage_version == self.unmarked
        return same and state.revision >= self.since and not state.raw.startswith(b'{"apiVersion":')

    def is_outdated(self, kind: ServedKind, state: StoredObject, stored_form: Json) -> bool:
        """Return whether a state differs from the current storage form of the same object (``stored_form``)."""
        if state.revision >= self.since:
            return False
        return as_object(kind.kind, self.unmarked, state) != {"kind": kind.kind, **stored_form}

    def read(self, kind: ServedKind, state: StoredObject) -> Json:
        """Return a stored object in the version of ``kind``."""
        return self.converted(self._stored(kind, state), kind.api_version)

    def _stored(self, kind: ServedKind, state: StoredObject) -> Json:
        """Return a stored object in its storage version."""
        obj = as_object(kind.kind, self.unmarked, state)
        return self._renewed(kind, obj) if state.revision < self.since else obj

    async def converted_states(self, kind: ServedKind, states: Sequence[StoredObject]) -> list[StoredObject]:
        """Return states with the objects in the version of ``kind``, converted by the webhook.

        Raises StatusError (500).
        """
        objects = [self._stored(kind, state) for state in states]
        outdated = [index for index, obj in enumerate(objects) if obj["apiVersion"] != kind.api_version]
        if outdated and self.webhook is not None:
            converted = await self.webhook.convert([objects[index] for index in outdated], kind.api_version)
            for index, obj in zip(outdated, converted, strict=True):
                objects[index] = self._pruned(obj)
        return [
            StoredObject(state.resource, state.namespace, state.name, state.revision, _body(obj))
            for state, obj in zip(states, objects, strict=True)
        ]

    def _renewed(self, kind: ServedKind, obj: Json) -> Json:
        """Return a stored object under the current schema of its version."""
        structural = self.schema(self.rows.get(obj["apiVersion"], kind)).structural
        if structural is None:
            return obj
        pruned = structural.decode(obj)[0]
        # Defaults beyond the limit for one object are left out here; a write of the object is refused.
        with suppress(DefaultsTooLargeError):
            structural.default(pruned)
        return pruned

    def converted(self, obj: Json, api_version: str) -> Json:
        """Return an object in another version (itself in its own).

        With a webhook it may stay in its own (`webhooks.conversion`). Raises StatusError, NotYetDoneError.
        """
        if obj["apiVersion"] == api_version:
            return obj
        if self.webhook is None:
            return self._pruned({**obj, "apiVersion": api_version})
        converted = self.webhook.converted_now(obj, api_version)
        return obj if converted is None else self._pruned(converted)

    def _pruned(self, obj: Json) -> Json:
        structural = self.schema(self.rows[obj["apiVersion"]]).structural
        return obj if structural is None else structural.decode(obj)[0]


def _body(obj: Json) -> bytes:
    return msgspec.json.encode({key: value for key, value in obj.items() if key not in ("apiVersion", "kind")})


async def served(kind: ServedKind, states: Sequence[StoredObject]) -> tuple[ServedKind, Sequence[StoredObject]]:
    """Return a kind and states with its objects as bytes if a webhook converts; otherwise the arguments.

    Raises StatusError (500).
    """
    versions = kind.versions
    if versions is None or versions.webhook is None:
        return kind, states
    return as_served(kind), await versions.converted_states(kind, states)


def as_served(kind: ServedKind) -> ServedKind:
    """Return the kind of the states from `served`."""
    if kind.versions is None or kind.versions.webhook is None:
        return kind
    return replace(kind, versions=None, storage_version=kind.api_version)
