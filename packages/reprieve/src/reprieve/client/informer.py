"""A copy of one resource that stays up to date, and a callback that is notified of every change once and in order.

The way of an informer: it asks for a watch that begins with everything there is (WatchList, Kubernetes 1.32); where the
server does not know that, it lists and watches from there. When the watch ends or is cut it resumes at the last
revision it saw. When the server has forgotten that revision (410) it starts over, and what it missed meanwhile becomes
changes: what is gone is deleted, what is new added, what differs updated.

Terms: a revision is a `resourceVersion`; synced means that everything that was there at the start has been delivered.

Invariants: for one object the callback sees ADDED, then UPDATED any number of times, then DELETED, and so on; never the
same revision twice, never an older one after a newer one. Applied one after the other the changes give `objects`. An
object replaced by another of the same name (another UID) is deleted and added. Only typed objects are kept; one that
cannot be read is reported, and stays as it was last seen.
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
    """What happened to an object."""

    ADDED = "added"
    UPDATED = "updated"
    DELETED = "deleted"


class Change(NamedTuple, Generic[_Object]):
    """One change; `object` is the new state (the last known one if deleted), `old` the one before, None if added."""

    kind: ChangeKind
    object: _Object
    old: _Object | None


@dataclass(frozen=True, slots=True)
class InformerOptions:
    """Times in seconds."""

    watch_list: bool = True
    """Try a watch that begins with everything there is."""
    silence: float = 180.0
    """A watch without any byte for so long is cut and resumed; bookmarks come every minute or so."""
    first_silence: float = 20.0
    """The same while the first objects are awaited; a server that ignores what it does not know never ends them."""
    shortest_watch: float = 300.0
    """A watch is asked to last between this and twice this, so that all do not end together."""
    quick: float = 1.0
    """A watch that ends sooner than this without an event is followed by a pause."""
    backoff: BackoffPolicy = _BACKOFF


class Informer(Generic[T]):
    """See the module. `handler` is called in the task that runs `run`; what it raises ends `run`.

    `on_trouble` is called for objects that cannot be read, `on_unreadable` for each of them with what is wrong with it,
    so that its owner can be notified; `on_cut` for every list or watch that failed and is tried again
    (default: as trouble), `on_answer` of every one that the server has begun to answer.
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
        """Return the objects by `namespace/name` (`name` where there are no namespaces); a live view, read only."""
        return MappingProxyType(self._objects)

    @property
    def revision(self) -> str | None:
        """Return how far this copy is; None before the first list and while starting over."""
        return self._revision

    @property
    def synced(self) -> bool:
        """Return whether everything that was there at the start has been delivered."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Return when it is."""
        await self._synced.wait()

    async def run(self) -> None:
        """Stay up to date until cancelled; nothing the server does ends it but refusing the user (401, 403)."""
        while True:
            began = self._client.clock.monotonic()
            self._received = False
            wait: float | None
            try:
                await self._go_on()
                wait = self._after_the_end(began)
            except ClientError as error:
                wait = self._after(error)
            if wait is not None:
                await self._client.clock.sleep(wait)

    async def _go_on(self) -> None:
        """One list or one watch, whichever is due."""
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
        found = {item.key: item for item in listed.objects}
        for meta, error in listed.unreadable:
            self._unreadable(error, meta, found)
        self._replace(found, listed.revision)

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

    # --- how to go on after a watch ---------------------------------------------------------------------

    def _after_the_end(self, began: float) -> float | None:
        """Return seconds to wait after a stream that ended as it should; None to go on at once."""
        if self._revision is None:
            return self._without_watch_list("the watch ended before everything was sent")
        if self._received or self._client.clock.monotonic() - began >= self._options.quick:
            self._backoff.reset()
            return None
        return self._backoff.next()

    def _after(self, error: ClientError) -> float | None:
        """Return seconds to wait after an error; None to go on at once."""
        if self._received:
            self._backoff.reset()
        starting = self._revision is None and self._watch_list
        if isinstance(error, IdleTimeoutError) and starting:
            return self._without_watch_list(str(error))
        if isinstance(error, GarbledError):
            self._garbled += 1
            if self._garbled >= _GARBLED_TWICE:  # it comes again from the same place: go around it
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
        """Before the bookmark that ends the initial events: gather."""
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
        """Return whether a resumed stream repeats what is known: revisions grow along one stream."""
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
            found = stored(self._kind, event.object, self._resource)
        except InputError as error:
            self._on_trouble(f"not updated: {error}")
            self._on_unreadable(meta, error)
            return
        self._put(key, found)

    def _put(self, key: str, found: T) -> None:
        old = self._objects.get(key)
        if old is not None and old.metadata.uid != found.metadata.uid:
            del self._objects[key]
            self._handler(Change(ChangeKind.DELETED, old, old))
            old = None
        elif old is not None and old.metadata.resource_version == found.metadata.resource_version:
            return
        self._objects[key] = found
        self._handler(Change(ChangeKind.ADDED if old is None else ChangeKind.UPDATED, found, old))

    def _replace(self, found: Mapping[str, T], revision: str) -> None:
        """Everything there is at a revision: what was missed becomes changes, deletions first."""
        for key in [key for key in self._objects if key not in found]:
            old = self._objects.pop(key)
            self._handler(Change(ChangeKind.DELETED, old, old))
        for key, item in found.items():
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
        known = self._objects.get(meta.key)
        if known is not None:
            arriving[meta.key] = known


def _place(revision: str) -> tuple[int, str] | None:
    """Return what orders revisions that are numbers, however many digits they have; None for one that is opaque."""
    if not (revision.isascii() and revision.isdecimal()):
        return None
    digits = revision.lstrip("0")
    return len(digits), digits
