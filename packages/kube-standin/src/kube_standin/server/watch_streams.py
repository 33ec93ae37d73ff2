"""Watches over HTTP: one JSON event per line until the client disconnects.

Rules: kube-apiserver 1.36 (bookmarks, sendInitialEvents, 410 as an ERROR event in a 200 stream). An event is encoded
once per form and all watchers share the bytes. Invariant: a watcher that does not read only fills its own bounded
buffer; it then gets 410 and is dropped, and others never wait for it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from kube_rules.json import Json
from kube_standin.custom_versions import as_served, served
from kube_standin.deprecations import deprecation_of
from kube_standin.errors import StatusError, expired
from kube_standin.kinds import ServedKind
from kube_standin.registry import ObjectRegistry
from kube_standin.selectors import Selection, select
from kube_standin.server.converted_selection import ShownObjects, needs_conversion
from kube_standin.server.lists import reach, selected
from kube_standin.server.negotiation import AnswerForm
from kube_standin.server.query import WatchOptions
from kube_standin.server.responses import PIECE, Renderer, Send, chunks, in_turns, send_parts, warning_headers
from kube_standin.server.slices import encode, is_large
from kube_standin.storage import CompactedError, Page, StoredObject, Subscription, WatchEvent
from kube_standin.worker_thread import encoded

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_TAKEN = 128 * 1024
"""Bytes of events that are taken from the history at a time."""
_AGES_SECONDS = 10
"""How long the ages in a shared line of a Table are valid, in seconds."""
_FEW = 16
"""The number of pending events up to which a watcher counts as keeping up."""
_BURST = 10
"""Pieces that are sent without delay after a pause: controllers wait for the events they act on."""


@dataclass(frozen=True)
class WatchTimes:
    """Durations of watches in seconds."""

    bookmark: float = 60.0
    shortest_default: float = 1800.0
    """A watch without timeoutSeconds ends after one to two times this duration."""
    farewell: float = 10.0
    """How long a dropped watcher may take to read the reason."""
    apart: float = 0.002
    """The delay between the termination and the deletion of an object for a watcher that keeps up."""
    gather: float = 0.01
    """The average time between pieces; each piece has the events since the last one."""


class WatchPace:
    """When watches send: in turns that all of them share, on average ``gather`` seconds apart.

    A client that watches several resources acts on what all of them have shown. So a busy watch, which has to wait,
    must not show a change later than a quiet one shows what a controller made of it.
    """

    def __init__(self, gather: float) -> None:
        self._gather = gather
        self._loop: asyncio.AbstractEventLoop | None = None
        self._credit = self._counted = 0.0
        self._turn: asyncio.Event | None = None

    async def turn(self) -> None:
        """Wait for the next turn."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._turn = loop, None
            self._credit, self._counted = self._gather * _BURST, loop.time()
        if self._turn is None:
            now = loop.time()
            self._credit = min(self._credit + now - self._counted, self._gather * _BURST)
            self._counted = now
            self._turn = asyncio.Event()
            loop.call_later(max(self._gather - self._credit, 0), self._begin, self._turn)
            self._credit -= self._gather
        await self._turn.wait()

    def _begin(self, turn: asyncio.Event) -> None:
        turn.set()
        if turn is self._turn:
            self._turn = None


class WatchStream:
    """One watch request; ``sent`` is called with the numbers of events sent."""

    def __init__(
        self,
        registry: ObjectRegistry,
        renderer: Renderer,
        kind: ServedKind,
        namespace: str | None,
        options: WatchOptions,
        answer: AnswerForm,
        query: Mapping[str, str],
        times: WatchTimes,
        pace: WatchPace,
        *,
        sent: Callable[[int], None] = lambda _: None,
        future_wait: float = 3.0,
    ) -> None:
        self._registry = registry
        self._renderer = renderer
        self._kind = kind
        self._options = options
        self._answer = answer
        self._query = query
        self._times = times
        self._pace = pace
        self._sent = sent
        self._future_wait = future_wait
        selection = select(kind, options.labels, options.fields)
        self._selection = selection
        self._shown: ShownObjects | None = None
        self._before: Page | None = None
        """The initial state of a watch with `_shown` that does not send it."""
        if selection.match is not None and needs_conversion(kind, selection):
            self._shown, self._selection = ShownObjects(selection.match), Selection()
        self._namespace = namespace if namespace is not None else selection.namespace
        self._columns_sent = False
        self._subscription: Subscription | None = None
        if answer.form == "table":
            renderer.table(kind, [], {}, query)  # refuse invalid requests before the stream begins

    def drop(self) -> None:
        """End the stream after pending events, as at its timeout."""
        if self._subscription is not None:
            self._registry.store.unsubscribe(self._subscription)

    def expire(self) -> None:
        """End the stream with 410, as for a watcher that fell behind."""
        if self._subscription is not None:
            self._subscription.expire()

    async def run(self, send: Send, disconnected: asyncio.Event, *, gone: bool = False) -> None:
        """Send the stream until it times out, the client disconnects or falls behind; ``gone`` sends only 410."""
        warning = deprecation_of(self._kind, self._registry.kinds)
        await send(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": [
                    (b"content-type", b"application/json"),
                    (b"cache-control", b"no-cache, private"),
                    *((b"warning", text) for text in warning_headers([] if warning is None else [warning])),
                ],
            }
        )
        if gone:
            await self._send_error(send, f"too old resource version: {self._options.since or 0} (fault)")
            return
        try:
            if self._options.initial and self._options.since is not None:
                await reach(self._registry, self._options.since, self._future_wait)
            subscription, initial = self._open()
        except CompactedError as error:
            await self._send_error(send, str(error))
            return
        except StatusError as error:  # the initial state is not reached (interfaces.md 4.4)
            await self._send_status(send, error)
            return
        self._subscription = subscription
        behind = asyncio.Event()
        subscription.on_overflow = behind.set
        sender = asyncio.ensure_future(self._pump(send, subscription, initial))
        leaving = asyncio.ensure_future(disconnected.wait())
        lagging = asyncio.ensure_future(behind.wait())
        try:
            await asyncio.wait({sender, leaving, lagging}, return_when=asyncio.FIRST_COMPLETED)
            if lagging.done() and not sender.done():
                # The client does not read; if it starts to, it gets the reason why it is dropped.
                await asyncio.wait({sender, leaving}, timeout=self._times.farewell)
            if sender.done():
                try:
                    sender.result()
                except StatusError as error:  # a failed conversion
                    await self._send_status(send, error)
        finally:
            self._registry.store.unsubscribe(subscription)
            tasks = (sender, leaving, lagging)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _open(self) -> tuple[Subscription, Page | None]:
        """Subscribe, and return the unfiltered initial state if the watch begins with it.

        The state and the subscription have the same revision: later commits follow the state.
        """
        options, store = self._options, self._registry.store
        with_state = options.initial if options.initial is not None else options.since is None
        since = None if with_state or (options.initial is not None and options.since is None) else options.since
        match = self._selection.match
        subscription = store.subscribe(self._kind.storage_key, self._namespace, match=match, since=since)
        if not with_state:
            if self._shown is not None:
                at = None if since is None else min(since, store.revision)
                self._before = store.page(self._kind.storage_key, self._namespace, at=at)
            return subscription, None
        return subscription, store.page(self._kind.storage_key, self._namespace)

    async def _pump(self, send: Send, subscription: Subscription, initial: Page | None) -> None:
        options, times = self._options, self._times
        loop = asyncio.get_running_loop()
        duration = options.timeout or times.shortest_default * (1 + random.random())
        ends = loop.time() + duration
        if initial is not None:
            chosen = await self._first(initial)
            await send_parts(send, self._initial_lines(chosen))
            self._sent(len(chosen))
            if options.initial and options.bookmarks:
                await self._send_line(send, self._bookmark(initial.revision, initial_end=True))  # interfaces.md 4.6
        else:
            if self._before is not None:
                await self._first(self._before)
            await send({"type": "http.response.body", "body": b"", "more_body": True})
        next_bookmark = loop.time() + times.bookmark
        while not subscription.closed:
            now = loop.time()
            if now >= ends:
                break
            until = min(ends, next_bookmark) if options.bookmarks else ends
            if await subscription.wait(max(until - now, 0.0)):
                if subscription.overflowed:
                    why = f"too old resource version: {subscription.revision} ({self._registry.store.revision})"
                    await self._send_error(send, why)
                    return
                # Sending costs as much as many changes: at high rates, changes share pieces.
                await self._pace.turn()
                await self._send_pending(send, subscription)
            elif options.bookmarks and loop.time() >= next_bookmark:
                next_bookmark = loop.time() + times.bookmark
                if self._registry.store.revision >= (self._options.since or 0):
                    await self._send_line(send, self._bookmark(self._registry.store.revision))
        await self._send_pending(send, subscription)
        await send({"type": "http.response.body", "body": b""})

    async def _first(self, page: Page) -> Sequence[StoredObject]:
        """Return the objects of a page that the watch shows, in its version."""
        _, chosen = await served(self._defined_kind, await selected(self._kind, page.states, self._selection))
        return chosen if self._shown is None else self._shown.begin(chosen)

    async def _send_pending(self, send: Send, subscription: Subscription) -> None:
        """Send pending events, a chunk at a time: events that a client does not read stay in the history."""
        while subscription.pending:
            pending = subscription.take(_TAKEN)
            _, states = await served(self._defined_kind, [event.state for event in pending])
            events = [WatchEvent(event.type, state) for event, state in zip(pending, states, strict=True)]
            if self._shown is not None:
                events = self._shown.seen(events)
            for number, part in enumerate(_parts(events)):
                if number:
                    await asyncio.sleep(self._times.apart)
                await send_parts(send, self._lines(part))
                self._sent(len(part))
            await asyncio.sleep(0)

    def _initial_lines(self, states: Sequence[StoredObject]) -> AsyncIterator[bytes]:
        """Return the initial state as ADDED events; Tables are encoded beside the event loop."""
        lines = (self._encoded(WatchEvent("ADDED", state)) for state in states)
        if self._answer.form == "object" or not is_large(states):
            return in_turns(chunks(lines, PIECE))
        return encoded(iter(chunks(lines, PIECE)))

    def _lines(self, events: Sequence[WatchEvent]) -> AsyncIterator[bytes]:
        if self._answer.form == "table" and is_large([event.state for event in events]):
            return encoded(iter(chunks(map(self._encoded, events), PIECE)))
        return in_turns(chunks(map(self._line, events), PIECE))

    @staticmethod
    async def _send_line(send: Send, line: bytes) -> None:
        await send({"type": "http.response.body", "body": line, "more_body": True})

    @staticmethod
    async def _send_error(send: Send, message: str) -> None:
        await WatchStream._send_status(send, expired(message))

    @staticmethod
    async def _send_status(send: Send, error: StatusError) -> None:
        line = encode({"type": "ERROR", "object": error.to_json()}) + b"\n"
        await send({"type": "http.response.body", "body": line, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    def _line(self, event: WatchEvent) -> bytes:
        """Return the encoded event; the bytes are shared with other watchers."""
        shared = self._renderer.lines
        kind, answer = self._current_kind, self._answer
        since = kind.versions.since if kind.versions is not None else 0
        key = (event.state.revision, event.type, kind.gvk, since, answer.form, answer.version, self._table_key)
        line = shared.get(key)
        if line is None:
            line = self._encoded(event)
            shared.put(key, line)
        self._columns_sent = True
        return line

    @property
    def _current_kind(self) -> ServedKind:
        """Return the kind as served now: a custom resource's definition may have changed since the watch began."""
        kind = self._kind
        return as_served(self._defined_kind) if kind.custom else kind

    @property
    def _defined_kind(self) -> ServedKind:
        """Return the kind as its states are stored."""
        return self._registry.kinds.of(self._kind.api_version, self._kind.kind) or self._kind

    @property
    def _table_key(self) -> tuple[Any, ...]:
        """Return the further key of a Table's line: lines contain ages, and the first one has the columns."""
        if self._answer.form != "table":
            return ()
        moment = int(self._registry.clock.now().timestamp()) // _AGES_SECONDS
        return (moment, self._columns_sent, self._query.get("includeObject", ""))

    def _encoded(self, event: WatchEvent) -> bytes:
        if self._answer.form == "table":
            return self._table_line(event)
        return b'{"type":"%s","object":%s}\n' % (event.type.encode(), self._object(event.state))

    def _object(self, state: StoredObject) -> bytes:
        if self._answer.form == "object":
            return self._renderer.raw_object(self._current_kind, state)
        return self._renderer.raw_partial(state, self._answer.version)

    def _table_line(self, event: WatchEvent) -> bytes:
        obj = self._registry.view(self._current_kind, event.state)
        meta = {"resourceVersion": str(event.state.revision)}
        table = self._renderer.table(self._kind, [obj], meta, self._query)
        if self._columns_sent:
            table["columnDefinitions"] = None
        self._columns_sent = True
        return encode({"type": event.type, "object": table}) + b"\n"

    def _bookmark(self, revision: int, *, initial_end: bool = False) -> bytes:
        metadata: Json = {"resourceVersion": str(revision)}
        if initial_end:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        obj: Json = {"kind": self._kind.kind, "apiVersion": self._kind.api_version, "metadata": metadata}
        if self._answer.form != "object":
            obj["kind"] = "PartialObjectMetadata"
            obj["apiVersion"] = f"meta.k8s.io/{self._answer.version}"
        if self._answer.form == "table":
            obj = {
                "kind": "Table",
                "apiVersion": f"meta.k8s.io/{self._answer.version}",
                "metadata": {"resourceVersion": str(revision)},
                "columnDefinitions": None,
                "rows": [{"cells": [], "object": obj}],
            }
        return encode({"type": "BOOKMARK", "object": obj}) + b"\n"


def _parts(events: Sequence[WatchEvent]) -> list[Sequence[WatchEvent]]:
    """Return the events in parts; for few events, a part begins at each deletion of an object of an earlier event.

    A pod without a node terminates and is deleted by one request (interfaces.md 4.3). Upstream these are two writes,
    and controllers react to the first of them.
    """
    if len(events) > _FEW:
        return [events]
    starts, shown = [0], set()
    for position, event in enumerate(events):
        if event.type == "DELETED" and event.state.key in shown:
            starts.append(position)
        shown.add(event.state.key)
    return [events[start:end] for start, end in pairwise((*starts, len(events)))]
