"""GET on a collection: consistent lists, pages, lists at an older revision. Rules and messages: kube-apiserver 1.36."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from kube_rules.json import Json
from kube_standin import errors
from kube_standin.errors import Cause, StatusError
from kube_standin.kinds import ServedKind
from kube_standin.registry import ObjectRegistry
from kube_standin.selectors import Selection, select
from kube_standin.server.converted_selection import needs_conversion, selected_when_converted
from kube_standin.server.query import ContinueToken, ListOptions
from kube_standin.storage import CompactedError, Page, StoredObject
from kube_standin.worker_thread import Turn

_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list "
    "without the continue parameter, or use the continue token in this response to retrieve the remainder of the "
    "results. Continuing with the provided token results in an inconsistent list - objects that were created, "
    "modified, or deleted between the time the first chunk was returned and now may show up in the list."
)


def future_revision(revision: int, current: int) -> StatusError:
    """Return the error 504 for a resourceVersion that has not been reached."""
    return StatusError(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {revision}, current: {current}",
        {"retryAfterSeconds": 1},
        (Cause("ResourceVersionTooLarge", "Too large resource version"),),
    )


async def reach(registry: ObjectRegistry, revision: int, wait: float) -> None:
    """Wait up to ``wait`` seconds for a revision; raises 504."""
    store = registry.store
    deadline = asyncio.get_running_loop().time() + wait
    while store.revision < revision:
        left = deadline - asyncio.get_running_loop().time()
        if left <= 0:
            raise future_revision(revision, store.revision)
        await asyncio.sleep(min(0.05, left))


async def list_page(
    registry: ObjectRegistry, kind: ServedKind, namespace: str | None, options: ListOptions, wait: float
) -> tuple[Page, Json]:
    """Return the page to list and the metadata of the list; raises 400, 410, 504."""
    selection = select(kind, options.labels, options.fields)
    if options.at_least:
        await reach(registry, options.at_least, wait)
    token = options.token
    at = options.at
    if token is not None and token.revision > 0:
        at = token.revision
        if at > registry.store.revision:
            raise errors.bad_request("invalid continue token: continue key is not valid: from the future")
    try:
        page = await _page(registry, kind, namespace, selection, at, options)
    except CompactedError as error:
        if token is None:
            raise errors.expired("The resourceVersion for the provided list is too old.") from error
        raise errors.expired(_TOO_OLD, ContinueToken(-1, token.after).encode()) from error
    metadata: Json = {"resourceVersion": str(page.revision)}
    if page.more:
        metadata["continue"] = ContinueToken(page.revision, page.states[-1].key).encode()
        if selection.match is None:
            metadata["remainingItemCount"] = page.remaining
    return page, metadata


async def _page(
    registry: ObjectRegistry,
    kind: ServedKind,
    namespace: str | None,
    selection: Selection,
    at: int | None,
    options: ListOptions,
) -> Page:
    after = None if options.token is None else options.token.after
    scope = namespace if namespace is not None else selection.namespace
    name, match, store = selection.name, selection.match, registry.store
    if name is not None and at is None and after is None and (scope is not None or not kind.namespaced):
        # A list of one name (as of "kubectl get -w NAME" and informers for one object) is a look-up.
        state = store.get(kind.storage_key, (scope or "") if kind.namespaced else "", name)
        chosen = [] if state is None else await selected(kind, [state], selection)
        return Page(chosen, store.revision, more=False, remaining=0)
    if match is None:
        return store.page(kind.storage_key, scope, at=at, after=after, limit=options.limit)
    page = store.page(kind.storage_key, scope, at=at, after=after)
    matching = await selected(kind, page.states, selection, None if options.limit is None else options.limit + 1)
    chosen = matching[: options.limit]
    return Page(chosen, page.revision, more=len(matching) > len(chosen), remaining=0)


async def selected(
    kind: ServedKind, states: Sequence[StoredObject], selection: Selection, most: int | None = None
) -> list[StoredObject]:
    """Return the states that match, at most ``most``, a few milliseconds at a time (interfaces.md 5.7)."""
    match = selection.match
    if match is None:
        return list(states)
    if needs_conversion(kind, selection):
        return (await selected_when_converted(kind, states, match))[:most]
    matching: list[StoredObject] = []
    turn = Turn()
    for state in states:
        if match(state):
            matching.append(state)
            if len(matching) == most:
                break
        await turn.over()
    return matching
