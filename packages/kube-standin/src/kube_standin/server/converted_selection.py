"""Field selectors of custom resources that a webhook converts: they compare the requested version.

Rules: k8s.io/apiextensions-apiserver (selectable fields of a version), e2e crd_selectable_fields.go. The store selects
stored bytes; here it returns all objects, and the converted objects are selected.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kube_standin.custom_versions import served
from kube_standin.kinds import ServedKind
from kube_standin.selectors import Matcher, Selection
from kube_standin.storage import StoredObject, WatchEvent
from kube_standin.storage.model import Key


def needs_conversion(kind: ServedKind, selection: Selection) -> bool:
    """Return whether selecting objects requires their conversion by a webhook."""
    return selection.by_fields and kind.versions is not None and kind.versions.webhook is not None


async def selected_when_converted(
    kind: ServedKind, states: Sequence[StoredObject], match: Matcher
) -> list[StoredObject]:
    """Return the stored states that match in their converted form; raises StatusError (500)."""
    _, converted = await served(kind, states)
    return [state for state, form in zip(states, converted, strict=True) if match(form)]


class ShownObjects:
    """The objects that a watch shows, in its version: they decide which events enter or leave its selection.

    All states must already be converted.
    """

    def __init__(self, match: Matcher) -> None:
        self._match = match
        self._matches: dict[Key, StoredObject] = {}

    def begin(self, states: Sequence[StoredObject]) -> list[StoredObject]:
        """Return the initial states that match."""
        self._matches = {state.key: state for state in states if self._match(state)}
        return list(self._matches.values())

    def seen(self, events: Sequence[WatchEvent]) -> list[WatchEvent]:
        """Return the events that the selection shows."""
        return [shown for event in events if (shown := self._seen(event)) is not None]

    def _seen(self, event: WatchEvent) -> WatchEvent | None:
        state = event.state
        before = self._matches.pop(state.key, None)
        if event.type != "DELETED" and self._match(state):
            self._matches[state.key] = state
            return WatchEvent("ADDED" if before is None else "MODIFIED", state)
        return None if before is None else WatchEvent("DELETED", _at(before, state.revision))


def _at(state: StoredObject, revision: int) -> StoredObject:
    """Return a copy of a state with another revision."""
    body = state.decode()
    body["metadata"]["resourceVersion"] = str(revision)
    return StoredObject(state.resource, state.namespace, state.name, revision, msgspec.json.encode(body))
