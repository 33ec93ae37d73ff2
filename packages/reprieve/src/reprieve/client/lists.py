"""Lists of all objects of a resource, page by page.

Rules: pages of `limit` objects are linked by their `continue` token. When the server no longer has the revision of a
list (410), the list starts over, and finally without pages, which the server can always answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

import msgspec

from kube_rules.errors import InputError
from kube_rules.meta import KubernetesObject
from reprieve.client.decoding import Metadata, called, stored
from reprieve.client.discovery import Resource
from reprieve.client.errors import ApiError, UnreachableError
from reprieve.client.transport import ApiClient

PAGE = 500
RESTARTS = 3
"""How often a list starts over with pages before it is requested as a whole."""

T = TypeVar("T", bound=KubernetesObject)


class Unreadable(NamedTuple):
    """An unreadable object: its metadata (None if that is unreadable, too) and the error."""

    metadata: Metadata | None
    error: InputError


@dataclass(slots=True)
class ObjectList(Generic[T]):
    """A whole list at one revision, with its unreadable objects."""

    revision: str
    objects: list[T] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)


class _Meta(msgspec.Struct, frozen=True):
    resource_version: str = msgspec.field(default="", name="resourceVersion")
    continue_: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    items: list[msgspec.Raw] | None = None


async def list_objects(
    client: ApiClient,
    resource: Resource,
    kind: type[T],
    *,
    namespace: str | None = None,
    labels: str = "",
    fields: str = "",
    page: int = PAGE,
) -> ObjectList[T]:
    """Return all objects of a resource in their newest state. Raises ApiError and UnreachableError."""
    query = {name: text for name, text in (("labelSelector", labels), ("fieldSelector", fields)) if text}
    for turn in range(RESTARTS + 1):
        paged = {**query, "limit": str(page)} if turn < RESTARTS else query
        result = await _pages(client, resource, kind, namespace, paged)
        if result is not None:
            return result
    raise UnreachableError(f"{resource}: the list expired {RESTARTS} times before it was complete")


async def _pages(
    client: ApiClient, resource: Resource, kind: type[T], namespace: str | None, query: dict[str, str]
) -> ObjectList[T] | None:
    """Read all pages once; return None if the list expired."""
    listed: ObjectList[T] = ObjectList("")
    token = ""
    seen: set[str] = set()
    while True:
        try:
            answer = await client.get(resource.path(namespace), {**query, "continue": token} if token else query)
        except ApiError as error:
            if token and error.expired:
                return None
            raise
        page = answer.read(_Page)
        listed.revision = listed.revision or page.metadata.resource_version
        for raw in page.items or ():
            try:
                listed.objects.append(stored(kind, raw, resource))
            except InputError as error:
                listed.unreadable.append(Unreadable(called(raw), error))
        token = page.metadata.continue_
        if not token:
            return listed
        if token in seen:
            raise UnreachableError(
                f"{resource}: the list repeats: the server sent the same continue token twice", lasting=True
            )
        seen.add(token)
