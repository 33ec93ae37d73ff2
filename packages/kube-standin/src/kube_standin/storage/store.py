"""The store: present states in memory, a bounded history of changes, durable through a log.

Writes are staged synchronously (so read-modify-write needs no lock in one event loop) and committed
together: everything staged in one turn of the loop becomes one transaction. A write returns a *ticket*, which has
when it is durable or why it could not be written; a refusal undoes the whole transaction in memory and reaches the
holders of its tickets, whenever they ask. Invariants: a reader or watcher never sees a change that is not committed,
and reading commits nothing; revisions grow by one per change and never go back, also over restarts; a write is
durable once its ``Ticket.settled`` has returned.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from kube_rules.json import Json
from kube_standin.storage.hub import Matcher, Subscription
from kube_standin.storage.log import CommitLog, LogRow, StorageError
from kube_standin.storage.model import ChangeType, Key, StoredChange, StoredObject

log = logging.getLogger("reprieve.apiserver")

_encode = msgspec.json.Encoder().encode

COMPACT_STEP = 512
"""How far over its limit the history may grow before it is cut, so that cutting is done in batches."""

CHECKPOINT_SECONDS = 2.0
"""How long after a write the log is copied back into its main file at the latest."""


LONGEST_OBJECT = 1536 * 1024
"""Bytes of a stored object at most, labels and managedFields included: what etcd takes by default."""


class TooLargeError(Exception):
    """A request would store an object of more than `LONGEST_OBJECT` bytes."""

    def __init__(self) -> None:
        super().__init__("etcdserver: request is too large")


class MovedError(Exception):
    """The object is not in the state that the writer built on: read again and retry, or report a conflict."""


class CompactedError(Exception):
    """The requested revision is older than the stored history."""

    def __init__(self, requested: int, compacted: int) -> None:
        super().__init__(f"too old resource version: {requested} ({compacted})")
        self.requested = requested
        self.compacted = compacted


class FutureRevisionError(Exception):
    """The requested revision has not been reached."""

    def __init__(self, requested: int, current: int) -> None:
        super().__init__(f"Too large resource version: {requested}, current: {current}")
        self.requested = requested
        self.current = current


@dataclass(frozen=True)
class StoreLimits:
    """Bounds of history and of each watcher's buffer (numbers of changes, bytes of bodies)."""

    history_changes: int = 20_000
    history_bytes: int = 96 * 1024 * 1024
    watch_events: int = 10_000
    watch_bytes: int = 64 * 1024 * 1024


@dataclass(frozen=True)
class Page:
    """Part of a list: the states, its revision, and whether and how many states remain after it."""

    states: list[StoredObject]
    revision: int
    more: bool
    remaining: int


class Ticket:
    """The result of writes that are committed together. It can be read at any time, and more than once."""

    __slots__ = ("_done", "_error", "_waiters")

    def __init__(self, *, done: bool = False) -> None:
        self._done = done
        self._error: StorageError | None = None
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def done(self) -> bool:
        """Return whether the result is known."""
        return self._done

    @property
    def error(self) -> StorageError | None:
        """Return why the writes failed; None if they succeeded, or if the result is not known yet."""
        return self._error

    async def settled(self) -> None:
        """Return once the writes are durable; raises StorageError if they could not be written."""
        if not self._done:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter
        if self._error is not None:
            raise self._error

    def settle(self, error: StorageError | None) -> None:
        """Set the result of the writes (called by the store)."""
        self._done, self._error = True, error
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


DURABLE = Ticket(done=True)
"""The ticket of a request that needed no write."""


class StagedWrite(NamedTuple):
    """A staged write: its new state, and the ticket to wait for."""

    state: StoredObject
    ticket: Ticket


class _Table:
    """All objects of one resource, with their keys in order."""

    __slots__ = ("items", "keys", "paths", "unmarked")

    def __init__(self) -> None:
        self.items: dict[Key, StoredObject] = {}
        self.keys: list[Key] = []
        self.paths: tuple[tuple[str, tuple[str, ...]], ...] = ()
        self.unmarked: str | None = None

    def put(self, state: StoredObject) -> None:
        key = state.key
        if key not in self.items:
            if self.keys and key < self.keys[-1]:
                insort(self.keys, key)
            else:
                self.keys.append(key)
        self.items[key] = state

    def drop(self, key: Key) -> None:
        if self.items.pop(key, None) is not None:
            del self.keys[bisect_left(self.keys, key)]


class Store:
    """Objects by resource and key. Use from one event loop only; see the module for the guarantees."""

    def __init__(self, log: CommitLog | None = None, *, limits: StoreLimits | None = None) -> None:
        self.limits = limits or StoreLimits()
        self._log: CommitLog = log if log is not None else CommitLog()
        self._tables: dict[str, _Table] = {}
        self._history: deque[StoredChange] = deque()
        self._by_resource: dict[str, deque[StoredChange]] = {}
        self._history_bytes = 0
        self._subscriptions: dict[str, set[Subscription]] = {}
        self._staged: list[StoredChange] = []
        self._ticket = DURABLE
        self._scheduled = False
        self._checkpointing: asyncio.Future[None] | None = None
        self._checkpoint_timer: asyncio.TimerHandle | None = None
        self.undone: list[Callable[[], None]] = []
        """Called after staged writes were undone: data derived from ``head`` and ``heads`` may be outdated."""
        self.compacted = self._log.compacted
        """History starts after this revision."""
        self.revision = max(1, self.compacted)
        """The last committed revision."""
        self._next = self.revision
        self._oldest_listed = 0
        self._load()

    def _load(self) -> None:
        for row in self._log.rows():
            key = (row.namespace, row.name)
            table = self._table(row.resource)
            previous = table.items.get(key)
            state = StoredObject(row.resource, row.namespace, row.name, row.revision, row.body)
            if row.deleted:
                table.drop(key)
            else:
                table.put(state)
            if row.revision > self.compacted:
                kind: ChangeType = "DELETED" if row.deleted else ("MODIFIED" if previous else "ADDED")
                self._remember(StoredChange(kind, state, previous))
            self.revision = max(self.revision, row.revision)
        self._next = self.revision
        self._trim()

    # -- what is there -------------------------------------------------------------------------------------

    def declare(self, resource: str, paths: tuple[str, ...], unmarked: str | None = None) -> None:
        """Declare the dotted paths for field selectors of ``resource``; they are then read at write time.

        Bodies in another apiVersion than ``unmarked`` keep it; None: bodies never have one.
        """
        table = self._table(resource)
        table.paths = tuple((path, tuple(path.split("."))) for path in paths)
        table.unmarked = unmarked

    def _table(self, resource: str) -> _Table:
        table = self._tables.get(resource)
        if table is None:
            table = self._tables[resource] = _Table()
        return table

    def get(self, resource: str, namespace: str, name: str) -> StoredObject | None:
        """Return the committed state or None."""
        key = (namespace, name)
        for change in self._staged:
            if change.state.key == key and change.state.resource == resource:
                return change.previous
        return self._table(resource).items.get(key)

    def head(self, resource: str, namespace: str, name: str) -> StoredObject | None:
        """Return the newest state, staged ones included, which a write must build on."""
        return self._table(resource).items.get((namespace, name))

    def heads(self, resource: str, namespace: str | None = None) -> Iterator[StoredObject]:
        """Yield the newest states of a resource in key order, staged ones included (for admission)."""
        table = self._tables.get(resource)
        if table is not None:
            for key in self._keys(table, namespace):
                yield table.items[key]

    def count(self, resource: str) -> int:
        """Return the number of objects of a resource."""
        return len(self._table(resource).items)

    def resources(self) -> list[str]:
        """Return the storage keys with objects."""
        return [resource for resource, table in self._tables.items() if table.items]

    @staticmethod
    def _keys(table: _Table, namespace: str | None) -> list[Key]:
        if namespace is None:
            return list(table.keys)
        start = bisect_left(table.keys, (namespace, ""))
        end = bisect_left(table.keys, (namespace + "\0", ""))
        return table.keys[start:end]

    def page(
        self,
        resource: str,
        namespace: str | None = None,
        *,
        match: Matcher | None = None,
        at: int | None = None,
        after: Key | None = None,
        limit: int | None = None,
    ) -> Page:
        """List a resource, in key order.

        ``at`` lists it as of that revision (raises CompactedError, FutureRevisionError), None as of now; ``after``
        starts after a key; ``limit`` bounds the number of returned states.
        """
        table = self._table(resource)
        revision = self.revision if at is None else at
        overlay = self._as_of(resource, revision) if self._staged or revision != self.revision else {}
        keys = self._keys(table, namespace)
        if overlay:
            wanted = {key for key in overlay if namespace is None or key[0] == namespace}
            keys = sorted(wanted.union(keys))
        start = bisect_right(keys, after) if after is not None else 0
        states: list[StoredObject] = []
        for index in range(start, len(keys)):
            key = keys[index]
            state = overlay[key] if key in overlay else table.items[key]
            if state is None or (match is not None and not match(state)):
                continue
            if limit is not None and len(states) == limit:
                left = len(keys) - index
                if overlay:
                    left = sum(1 for k in keys[index:] if overlay.get(k, state) is not None)
                return Page(states, revision, more=True, remaining=left)
            states.append(state)
        return Page(states, revision, more=False, remaining=0)

    def expire_lists(self, before: int) -> None:
        """Refuse lists as of revisions before `before`; watches still start at the beginning of the history."""
        self._oldest_listed = max(self._oldest_listed, before)

    def _as_of(self, resource: str, revision: int) -> dict[Key, StoredObject | None]:
        """Return the differences from the newest states at ``revision``: the older state of each key changed since."""
        self.check_revision(revision)
        overlay: dict[Key, StoredObject | None] = {}
        for change in reversed(self._staged):
            if change.state.resource == resource:
                overlay[change.state.key] = change.previous
        for change in reversed(self._by_resource.get(resource, ())):
            if change.revision <= revision:
                break
            overlay[change.state.key] = change.previous
        return overlay

    def check_revision(self, revision: int) -> None:
        """Raise CompactedError or FutureRevisionError unless the state at ``revision`` can be listed."""
        if revision > self.revision:
            raise FutureRevisionError(revision, self.revision)
        if revision < (oldest := max(self.compacted, self._oldest_listed)):
            raise CompactedError(revision, oldest)

    # -- writing -------------------------------------------------------------------------------------------

    def put(
        self,
        resource: str,
        namespace: str,
        name: str,
        body: Json,
        expected: StoredObject | None,
        *,
        longest: int | None = None,
    ) -> StagedWrite:
        """Stage a new state that builds on ``expected`` (None: the object must not exist); raises MovedError.

        ``body`` gets its resourceVersion and loses kind and apiVersion. Wait for the ticket before acknowledging the
        write. ``longest``: maximum bytes of the state, beyond which TooLargeError is raised and nothing staged.
        """
        table = self._table(resource)
        if table.items.get((namespace, name)) is not expected:
            raise MovedError
        state = self._encode(table, resource, namespace, name, body, longest)
        table.put(state)
        return self._stage(StoredChange("ADDED" if expected is None else "MODIFIED", state, expected))

    def delete(self, expected: StoredObject, body: Json | None = None) -> StagedWrite:
        """Stage the deletion of an object in state ``expected``; ``body`` is its last state if the deletion changes it.

        Returns the last state with the revision of the deletion. Raises MovedError.
        """
        table = self._table(expected.resource)
        if table.items.get(expected.key) is not expected:
            raise MovedError
        last = expected.decode() if body is None else body
        state = self._encode(table, expected.resource, expected.namespace, expected.name, last)
        table.drop(expected.key)
        return self._stage(StoredChange("DELETED", state, expected))

    def _encode(
        self, table: _Table, resource: str, namespace: str, name: str, body: Json, longest: int | None = None
    ) -> StoredObject:
        revision = self._next + 1
        body.pop("kind", None)
        version = body.pop("apiVersion", None)
        body["metadata"]["resourceVersion"] = str(revision)
        marked = version is not None and table.unmarked not in (None, version)
        raw = _encode({"apiVersion": version, **body} if marked else body)
        if longest is not None and len(raw) > longest:
            raise TooLargeError
        state = StoredObject(resource, namespace, name, revision, raw)
        state.remember(body, table.paths)
        self._next = revision
        return state

    def _stage(self, change: StoredChange) -> StagedWrite:
        if not self._staged:
            self._ticket = Ticket()
        self._staged.append(change)
        if not self._scheduled:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:
                pass  # no loop (tools, tests): the caller flushes
            else:
                self._scheduled = True
                loop.call_soon(self._flush_scheduled)
        return StagedWrite(change.state, self._ticket)

    def _flush_scheduled(self) -> None:
        self._scheduled = False
        self.flush()

    @property
    def ticket(self) -> Ticket:
        """Return the ticket of everything staged so far, which a response based on ``head`` must wait for."""
        return self._ticket if self._staged else DURABLE

    def flush(self) -> None:
        """Commit staged writes now. A failure undoes them in memory and is raised by their ticket."""
        staged, ticket = self._staged, self._ticket
        if not staged:
            return
        self._staged = []
        try:
            self._log.append([_row(change) for change in staged])
        except StorageError as error:
            log.error("%s; %d writes are undone", error, len(staged))
            self._take_back(staged, ticket, error)
            return
        self.revision = staged[-1].revision
        touched: dict[str, list[StoredChange]] = {}
        for change in staged:
            self._remember(change)
            touched.setdefault(change.state.resource, []).append(change)
        for resource, changes in touched.items():
            for subscription in tuple(self._subscriptions.get(resource, ())):
                subscription.offer(changes)
        ticket.settle(None)
        self._trim()
        self._checkpoint()

    def continue_after(self, revision: int) -> None:
        """Give further changes revisions above this one. Nothing may be staged."""
        self._next = max(self._next, revision)

    def discard(self) -> None:
        """Undo all staged writes, if they must not be written."""
        staged, ticket = self._staged, self._ticket
        if staged:
            self._staged = []
            self._take_back(staged, ticket, StorageError("the writes were taken back"))

    def _take_back(self, staged: list[StoredChange], ticket: Ticket, why: StorageError) -> None:
        self._undo(staged)
        ticket.settle(why)
        for call in self.undone:
            call()

    def _undo(self, staged: list[StoredChange]) -> None:
        for change in reversed(staged):
            table = self._table(change.state.resource)
            if change.previous is None:
                table.drop(change.state.key)
            else:
                table.put(change.previous)
        self._next = self.revision

    # -- history -------------------------------------------------------------------------------------------

    def _remember(self, change: StoredChange) -> None:
        self._history.append(change)
        self._by_resource.setdefault(change.state.resource, deque()).append(change)
        self._history_bytes += len(change.state.raw)

    def _trim(self) -> None:
        limits = self.limits
        over = len(self._history) - limits.history_changes
        if over > COMPACT_STEP or self._history_bytes > limits.history_bytes:
            size = self._history_bytes
            keep_bytes = limits.history_bytes * 7 // 8
            drop = 0
            for index, change in enumerate(self._history):
                if len(self._history) - index <= limits.history_changes and size <= keep_bytes:
                    break
                size -= len(change.state.raw)
                drop = change.revision
            self.compact(drop)

    def compact(self, revision: int) -> None:
        """Drop the history up to and including ``revision``: older watches and lists get 410 from then on."""
        revision = min(revision, self.revision)
        if revision <= self.compacted:
            return
        superseded: list[LogRow] = []
        while self._history and self._history[0].revision <= revision:
            change = self._history.popleft()
            self._by_resource[change.state.resource].popleft()
            self._history_bytes -= len(change.state.raw)
            if change.previous is not None:
                superseded.append(_row_of(change.previous))
            if change.type == "DELETED":
                superseded.append(_row(change))
        self.compacted = revision
        for subscriptions in self._subscriptions.values():
            for subscription in subscriptions:
                subscription.forgotten(revision)
        try:
            self._log.compact(revision, superseded)
        except StorageError as error:
            log.error("%s", error)  # the rows stay: they cost room, and the next start reads past them

    def _checkpoint(self) -> None:
        """Copy the log back: at once if much was written, otherwise after a delay."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            if self._log.checkpoint_due():
                self._log.checkpoint()
            return
        if self._log.checkpoint_due() and not self._copying:
            self._copy_back(loop)
        elif self._checkpoint_timer is None:
            self._checkpoint_timer = loop.call_later(CHECKPOINT_SECONDS, self._copy_back, loop)

    @property
    def _copying(self) -> bool:
        return self._checkpointing is not None and not self._checkpointing.done()

    def _copy_back(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._checkpoint_timer is not None:
            self._checkpoint_timer.cancel()
            self._checkpoint_timer = None
        if self._copying:
            self._checkpoint()  # later
        else:
            self._checkpointing = loop.run_in_executor(None, self._copied)

    def _copied(self) -> None:
        """Copy the log back in a thread. A failure loses nothing: the write-ahead log has all rows."""
        try:
            self._log.checkpoint()
        except StorageError as error:
            log.error("%s", error)

    # -- watching ------------------------------------------------------------------------------------------

    def subscribe(
        self,
        resource: str,
        namespace: str | None = None,
        *,
        match: Matcher | None = None,
        since: int | None = None,
    ) -> Subscription:
        """Watch a resource: changes after revision ``since`` (None: from now). Raises CompactedError.

        ``since`` may lie in the future: nothing is sent before it. Unsubscribe when done.
        """
        start = self.revision if since is None else since
        if start < self.compacted:
            raise CompactedError(start, self.compacted)
        subscription = Subscription(
            resource,
            namespace,
            match,
            start,
            limit_events=self.limits.watch_events,
            limit_bytes=self.limits.watch_bytes,
        )
        past: deque[StoredChange] = deque()
        for change in reversed(self._by_resource.get(resource, ())):
            if change.revision <= start:
                break
            past.appendleft(change)
        if past:
            subscription.begin_with(past, self.revision)
        self._subscriptions.setdefault(resource, set()).add(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """End a subscription; no effect if it has already ended."""
        subscription.closed = True
        self._subscriptions.get(subscription.resource, set()).discard(subscription)
        subscription.wake()

    def end_subscriptions(self, resource: str | None = None) -> None:
        """End every watch, or those of one resource (a CRD that is deleted, a server that stops)."""
        for name in [resource] if resource is not None else list(self._subscriptions):
            for subscription in tuple(self._subscriptions.get(name, ())):
                self.unsubscribe(subscription)

    async def aclose(self) -> None:
        """Commit staged writes, end all watches, close the log."""
        self.flush()
        self.end_subscriptions()
        if self._checkpoint_timer is not None:
            self._checkpoint_timer.cancel()
        if self._checkpointing is not None:
            await self._checkpointing
        self._log.close()

    def close(self) -> None:
        """Do the same as :meth:`aclose` without an event loop."""
        self.flush()
        self.end_subscriptions()
        if self._checkpoint_timer is not None:
            self._checkpoint_timer.cancel()
        self._log.close()


def _row_of(state: StoredObject, *, deleted: bool = False) -> LogRow:
    return LogRow(state.revision, state.resource, state.namespace, state.name, deleted, state.raw)


def _row(change: StoredChange) -> LogRow:
    return _row_of(change.state, deleted=change.type == "DELETED")
