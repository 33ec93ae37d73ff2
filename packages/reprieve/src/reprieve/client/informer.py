"""A local copy of one resource that is kept up to date, with a callback for every change, once and in order.

An informer requests a watch that begins with all objects (WatchList, Kubernetes 1.32). If the server does not support
that, it lists and watches from there. When the watch ends or is cut it resumes at the last observed revision. When the
server has dropped that revision (410) it starts over, and the missed changes are computed: missing objects are deleted,
new ones added, different ones updated.

Terms: a revision is a `resourceVersion`; synced means that all initial objects have been delivered.

Invariants: for one object the callback gets ADDED, then UPDATED any number of times, then DELETED, and so on; never the
same revision twice, never an older one after a newer one. The changes applied in order give `objects`. An object
replaced by another of the same name (another UID) is deleted and added. Only typed objects are stored; an unreadable
one is reported, and keeps its last state.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final, Generic, NamedTuple, TypeVar

from kube_rules.errors import InputError
from kube_rules.meta import KubernetesObject
from reprieve.client.decoding import Metadata, called, stored
from reprieve.client.discovery import Resource
from reprieve.client.errors import ApiError, ClientError, UnreachableError
from reprieve.client.lists import list_objects
from reprieve.client.rate_limits import Backoff, BackoffPolicy
from reprieve.client.transport import ApiClient
from reprieve.client.watch import BOOKMARK, DELETED, Event, GarbledError, IdleTimeoutError, watch

log = logging.getLogger("reprieve.client")

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
_BACKOFF: Final = BackoffPolicy(initial=0.8, maximum=30.0)
_GARBLED_TWICE: Final = 2

T = TypeVar("T", bound=KubernetesObject)
_Object = TypeVar("_Object")


class ChangeKind(Enum):
    """The kind of a change of an object."""

    ADDED = "added"
    UPDATED = "updated"
    DELETED = "deleted"


class Change(NamedTuple, Generic[_Object]):
    """One change; `object` is the new state (the last known one if deleted), `old` the previous one, None if added."""

    kind: ChangeKind
    object: _Object
    old: _Object | None


@dataclass(frozen=True, slots=True)
class InformerOptions:
    """Times in seconds."""

    watch_list: bool = True
    """Try a watch that begins with all objects."""
    silence: float = 180.0
    """The time without data after which a watch is cut and resumed; bookmarks arrive about every minute."""
    first_silence: float = 20.0
    """The same before the initial objects are complete; a server that ignores the request never completes them."""
    shortest_watch: float = 300.0
    """The shortest requested duration of a watch; the longest is twice this, so that watches do not end together."""
    quick: float = 1.0
    """A watch that ends sooner than this without an event is followed by a pause."""
    backoff: BackoffPolicy = _BACKOFF


class Informer(Generic[T]):
    """An informer; see the module docstring. `handler` is called in the task of `run`; its exceptions end `run`.

    `on_trouble` is called for unreadable objects, `on_unreadable` for each of them with the problem, so that its owner
    can be notified. `on_cut` is called for every list or watch that failed and is retried (default: as trouble),
    `on_answer` for each one that the server has started to answer.
    """

    def __init__(
        self,
        client: ApiClient,
        resource: Resource,
        kind: type[T],
        handler: Callable[[Change[T]], None] = lambda _: None,
        *,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        options: InformerOptions = InformerOptions(),
        on_synced: Callable[[], None] = lambda: None,
        on_trouble: Callable[[str], None] = log.warning,
        on_unreadable: Callable[[Metadata, InputError], None] = lambda meta, error: None,
        on_cut: Callable[[ClientError], None] | None = None,
        on_answer: Callable[[], None] = lambda: None,
    ) -> None:
        self._client = client
        self._resource = resource
        self._kind = kind
        self._handler = handler
        self._namespace = namespace
        self._selection = {k: v for k, v in (("labelSelector", labels), ("fieldSelector", fields)) if v}
        self._options = options
        self._on_synced = on_synced
        self._on_trouble = on_trouble
        self._on_unreadable = on_unreadable
        self._on_cut = on_cut or self._report_cut
        self._on_answer = on_answer
        self._objects: dict[str, T] = {}
        self._revision: str | None = None
        self._arriving: dict[str, T] | None = None
        self._watch_list = options.watch_list
        self._backoff = Backoff(options.backoff, client.chance)
        self._synced = asyncio.Event()
        self._garbled = 0
        self._restarts = 0
        self._received = False

    @property
    def objects(self) -> Mapping[str, T]:
        """Return the objects by `namespace/name` (`name` without namespaces) as a live, read-only view."""
        return MappingProxyType(self._objects)

    @property
    def revision(self) -> str | None:
        """Return the revision of this copy; None before the first list and while starting over."""
        return self._revision

    @property
    def synced(self) -> bool:
        """Return whether all initial objects have been delivered."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Wait until the initial objects have been delivered."""
        await self._synced.wait()

    async def run(self) -> None:
        """Keep the copy up to date until cancelled; the only fatal response is a refusal of the user (401, 403)."""
        while True:
            began = self._client.clock.monotonic()
            self._received = False
            wait: float | None
            try:
                await self._continue()
                wait = self._after_the_end(began)
            except ClientError as error:
                wait = self._after(error)
            if wait is not None:
                await self._client.clock.sleep(wait)

    async def _continue(self) -> None:
        """Run the list or watch that is due."""
        if self._revision is not None:
            await self._watch({"resourceVersion": self._revision})
        elif self._watch_list:
            self._arriving = {}
            try:
                await self._watch({"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"})
            finally:
                self._arriving = None
        else:
            await self._list()

    async def _list(self) -> None:
        listed = await list_objects(
            self._client,
            self._resource,
            self._kind,
            namespace=self._namespace,
            labels=self._selection.get("labelSelector", ""),
            fields=self._selection.get("fieldSelector", ""),
        )
        self._on_answer()
        if not listed.revision:
            raise UnreachableError(f"{self._resource}: the list has no resourceVersion")
        by_key = {item.key: item for item in listed.objects}
        for meta, error in listed.unreadable:
            self._unreadable(error, meta, by_key)
        self._replace(by_key, listed.revision)

    async def _watch(self, query: Mapping[str, str]) -> None:
        options = self._options
        seconds = int(options.shortest_watch * (1 + self._client.chance.random()))
        await watch(
            self._client,
            self._resource.path(self._namespace),
            {**self._selection, **query, "allowWatchBookmarks": "true", "timeoutSeconds": str(seconds)},
            self._take,
            silence=lambda: options.silence if self._arriving is None else options.first_silence,
            opened=self._on_answer,
        )

    # --- how to continue after a watch --------------------------------------------------------------------

    def _after_the_end(self, began: float) -> float | None:
        """Return the seconds to wait after a stream with a normal end; None to continue at once."""
        if self._revision is None:
            return self._without_watch_list("the watch ended before everything was sent")
        if self._received or self._client.clock.monotonic() - began >= self._options.quick:
            self._backoff.reset()
            return None
        return self._backoff.next()

    def _after(self, error: ClientError) -> float | None:
        """Return the seconds to wait after an error; None to continue at once."""
        if self._received:
            self._backoff.reset()
        starting = self._revision is None and self._watch_list
        if isinstance(error, IdleTimeoutError) and starting:
            return self._without_watch_list(str(error))
        if isinstance(error, GarbledError):
            self._garbled += 1
            if self._garbled >= _GARBLED_TWICE:  # the problem recurs at this revision: list instead
                self._garbled = 0
                self._revision = None
        if isinstance(error, ApiError):
            if error.code in (401, 403) and not self.synced:
                raise error
            if starting and error.code in (400, 422):
                return self._without_watch_list(str(error))
            if error.expired or error.ahead:
                self._revision = None
                self._restarts += 1
                return None if self._restarts == 1 else self._backoff.next()
        self._on_cut(error)
        wait = self._backoff.next()
        return max(wait, error.retry_after or 0.0) if isinstance(error, ApiError) else wait

    def _report_cut(self, error: ClientError) -> None:
        self._on_trouble(f"{self._resource}: watching again: {error}")

    def _without_watch_list(self, why: str) -> float | None:
        self._watch_list = False
        log.debug("%s: listing instead of WatchList: %s", self._resource, why)
        return None

    # --- events -------------------------------------------------------------------------------------------

    def _take(self, event: Event) -> None:
        meta = called(event.object)
        if meta is None or not meta.resource_version:
            raise GarbledError(f"{self._resource}: the watch sent an object without a resourceVersion")
        if self._arriving is not None:
            self._take_first(event, meta, self._arriving)
        elif event.type == BOOKMARK:
            if not self._seen(meta.resource_version):
                self._revision = meta.resource_version
        elif not self._seen(meta.resource_version):
            self._apply(event, meta)
            self._revision = meta.resource_version
        self._received = True
        if self._arriving is None:
            self._garbled = self._restarts = 0

    def _take_first(self, event: Event, meta: Metadata, arriving: dict[str, T]) -> None:
        """Collect an event before the bookmark that ends the initial events."""
        if event.type == BOOKMARK:
            if (meta.annotations or {}).get(INITIAL_EVENTS_END) == "true":
                self._arriving = None
                self._replace(arriving, meta.resource_version)
            return
        key = meta.key
        if event.type == DELETED:
            arriving.pop(key, None)
            return
        try:
            arriving[key] = stored(self._kind, event.object, self._resource)
        except InputError as error:
            self._unreadable(error, meta, arriving)

    def _seen(self, revision: str) -> bool:
        """Return whether a resumed stream repeats an observed revision: revisions grow along a stream."""
        last = self._revision
        place, before = _place(revision), _place(last or "")
        if place is None or before is None:
            return revision == last
        return place <= before

    def _apply(self, event: Event, meta: Metadata) -> None:
        key = meta.key
        if event.type == DELETED:
            old = self._objects.pop(key, None)
            if old is not None:
                try:
                    last = stored(self._kind, event.object, self._resource)
                except InputError:
                    last = old
                self._handler(Change(ChangeKind.DELETED, last, old))
            return
        try:
            updated = stored(self._kind, event.object, self._resource)
        except InputError as error:
            self._on_trouble(f"not updated: {error}")
            self._on_unreadable(meta, error)
            return
        self._put(key, updated)

    def _put(self, key: str, updated: T) -> None:
        old = self._objects.get(key)
        if old is not None and old.metadata.uid != updated.metadata.uid:
            del self._objects[key]
            self._handler(Change(ChangeKind.DELETED, old, old))
            old = None
        elif old is not None and old.metadata.resource_version == updated.metadata.resource_version:
            return
        self._objects[key] = updated
        self._handler(Change(ChangeKind.ADDED if old is None else ChangeKind.UPDATED, updated, old))

    def _replace(self, current: Mapping[str, T], revision: str) -> None:
        """Replace the copy with the objects at a revision and report the changes, deletions first."""
        for key in [key for key in self._objects if key not in current]:
            old = self._objects.pop(key)
            self._handler(Change(ChangeKind.DELETED, old, old))
        for key, item in current.items():
            self._put(key, item)
        self._revision = revision
        if not self._synced.is_set():
            self._synced.set()
            self._on_synced()

    def _unreadable(self, error: InputError, meta: Metadata | None, arriving: dict[str, T]) -> None:
        self._on_trouble(f"left out: {error}")
        if meta is None:
            return
        self._on_unreadable(meta, error)
        last = self._objects.get(meta.key)
        if last is not None:
            arriving[meta.key] = last


def _place(revision: str) -> tuple[int, str] | None:
    """Return a sort key of numeric revisions of any length; None for an opaque revision."""
    if not (revision.isascii() and revision.isdecimal()):
        return None
    digits = revision.lstrip("0")
    return len(digits), digits
