"""The base of controllers: a queue of keys, each synced within one turn of the event loop, retried with backoff.

Terms: to *reconcile* a key is to read the newest state and stage the missing changes. Reconciliation is level-triggered
and idempotent, keeps no state that cannot be read again (so kill -9 is harmless), and runs in one turn of the event
loop, so no state changes during a sync. Work is divided into turns of a few milliseconds so that the server stays
responsive.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, ClassVar

from kube_rules.json import Json
from kube_standin.admission_chain import SYSTEM, AdmissionRequest, Step
from kube_standin.clock import ServerClock, stamp
from kube_standin.controllers.pending_writes import AwaitingWebhookError, PendingWrites
from kube_standin.controllers.sources import Sources
from kube_standin.controllers.timers import ControllerTimers
from kube_standin.controllers.views import Key
from kube_standin.deletion import DeleteOptions
from kube_standin.errors import StatusError
from kube_standin.kinds import ServedKind
from kube_standin.registry import ObjectRegistry, WriteOptions
from kube_standin.security import Tokens
from kube_standin.signers import CertificateAuthority
from kube_standin.storage import StoredObject, Ticket
from kube_standin.worker_thread import INLINE, OffLoopSteps

log = logging.getLogger("reprieve.controllers")

_TURN_SECONDS = 0.005
_FIRST_RETRY = 0.05
_LONGEST_RETRY = 60.0
_EVENT_BURST = 25.0
_EVENT_SECONDS = 300.0
_MOST_BUDGETS = 10_000
MANAGER = "kube-controller-manager"
WRITES_AT_ONCE = 100
"""Objects that one sync of a key ends or changes; the next turn continues, so that no owner of many pods
blocks the server (interfaces.md 5.7)."""


class NextTurn(Exception):  # noqa: N818 - not a failure
    """Raised to continue the sync of a key in the next turn of the event loop."""


@dataclass(frozen=True)
class Times:
    """Waiting times of the controllers in seconds, with upstream's defaults (kube-controller-manager flags).

    ``node_grace``: silence after which a node is unreachable (a lease's own duration counts if longer).
    ``orphan_grace``: how long a node is missing before its pods are removed. ``most_finished``: finished pods kept.
    """

    node_grace: float = 50.0
    node_period: float = 5.0
    orphan_grace: float = 40.0
    most_finished: int = 12_500
    disruption_expiry: float = 120.0
    quota_pause: float = 0.05


class ForeignStatuses(Step):
    """An admission step that reports which statuses clients write; controllers repair those that they own.

    Writes of the controllers themselves are not reported, so that a status write causes no second sync.
    """

    def __init__(self) -> None:
        self._handlers: dict[str, list[Callable[[Key], None]]] = {}

    def add_handler(self, kind: ServedKind, handler: Callable[[Key], None]) -> None:
        """Call ``handler`` with the key of each object of a kind after a client wrote its status."""
        self._handlers.setdefault(kind.storage_key, []).append(handler)

    def committed(self, request: AdmissionRequest) -> None:
        """Report a write to a status."""
        if request.subresource == "status" and request.user is not SYSTEM:
            for handler in self._handlers.get(request.kind.storage_key, ()):
                handler((request.namespace, request.name))


@dataclass
class Context:
    """The objects that every controller uses."""

    registry: ObjectRegistry
    sources: Sources
    timers: ControllerTimers
    times: Times = field(default_factory=Times)
    ca_certificate: str = ""
    authority: CertificateAuthority | None = None
    """The signer of certificates; None: no certificates are signed."""
    tokens: Tokens | None = None
    """The issuer of service account tokens; None: no tokens are issued."""
    foreign_statuses: ForeignStatuses = field(default_factory=ForeignStatuses)
    pending: PendingWrites | None = None
    """Writes of the current sync that wait for webhooks; None where a write cannot wait."""
    _budgets: dict[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def clock(self) -> ServerClock:
        """Return the server's clock."""
        return self.registry.clock

    def now(self) -> datetime:
        """Return the current time."""
        return self.registry.clock.now()

    def stamp(self) -> str:
        """Return the current time in the format of objects."""
        return stamp(self.registry.clock.now())

    def kind(self, api_version: str, kind: str) -> ServedKind:
        """Return a row of the table of kinds."""
        return self.registry.kind(api_version, kind)

    def find(self, kind: ServedKind, key: Key) -> Json | None:
        """Return the newest state of an object, or None."""
        return self.registry.find(kind, *key)

    @contextmanager
    def _steps(self, kind: ServedKind, *write: Any) -> Iterator[OffLoopSteps]:
        """Yield how a write waits for webhooks: inline if no webhook applies or no sync could continue later."""
        if self.pending is None or not self.registry.chain.waits(kind):
            yield INLINE
            return
        with self.pending.steps(kind.api_version, kind.kind, *write) as steps:
            yield steps

    def create(self, kind: ServedKind, namespace: str, obj: Json, manager: str = MANAGER) -> Json:
        """Stage the creation of a manifest (decoded, defaulted, admitted); raises StatusError."""
        with self._steps(kind, "create", namespace, obj) as steps:
            whole = {"apiVersion": kind.api_version, "kind": kind.kind, **obj}
            decoded = self.registry.decoder.decode(kind, whole, "Ignore", [])
            options = WriteOptions(manager=manager, off_loop_steps=steps)
            return self.registry.create_now(kind, namespace, decoded, options).object

    def modify(
        self, kind: ServedKind, key: Key, change: Callable[[Json], None], subresource: str = "", manager: str = MANAGER
    ) -> Json:
        """Stage a change through the registry; a change without effect writes nothing.

        Statuses are not sent to webhooks: they are part of a sync and cannot wait for another one.
        """
        if subresource == "status":
            return self.registry.modify_now(kind, *key, change, WriteOptions(manager=manager), subresource).object
        with self._steps(kind, "modify", subresource, key) as steps:
            options = WriteOptions(manager=manager, off_loop_steps=steps)
            return self.registry.modify_now(kind, *key, change, options, subresource).object

    def put(self, state: StoredObject, obj: Json) -> None:
        """Stage a new state of a built-in object without admission: for bulk writes of statuses."""
        self.registry.store.put(state.resource, state.namespace, state.name, obj, state)

    def set_status(self, kind: ServedKind, key: Key, status: Json) -> None:
        """Stage ``status`` if it differs from what the object has."""
        current = self.find(kind, key)
        if current is None or current.get("status") == status:
            return

        def change(obj: Json) -> None:
            obj["status"] = status

        self.modify(kind, key, change, "status")

    def delete(self, kind: ServedKind, key: Key, options: DeleteOptions | None = None) -> bool:
        """Stage a deletion; False if the object was gone, was replaced, or the deletion waits for a webhook."""
        try:
            with self._steps(kind, "delete", key) as steps:
                self.registry.deletion.delete(kind, *key, replace(options or DeleteOptions(), off_loop_steps=steps))
        except AwaitingWebhookError:
            return False
        except StatusError as error:
            if error.reason in ("NotFound", "Conflict"):
                return False
            raise
        return True

    def _may_record(self, uid: str) -> bool:
        moment = self.now().timestamp()
        if len(self._budgets) > _MOST_BUDGETS:
            self._budgets.clear()
        tokens, last = self._budgets.get(uid, (_EVENT_BURST, moment))
        tokens = min(_EVENT_BURST, tokens + (moment - last) / _EVENT_SECONDS)
        self._budgets[uid] = (tokens - 1 if tokens >= 1 else tokens, moment)
        return tokens >= 1

    def event(self, about: Json, reason: str, message: str, kind: str = "Normal", source: str = MANAGER) -> None:
        """Stage an Event about an object; a refused event (in a terminating namespace) is dropped.

        As upstream, an object that causes many events gets 25 of them recorded, then one every five minutes.
        """
        metadata = about["metadata"]
        if not self._may_record(metadata.get("uid", "")):
            return
        now = self.stamp()
        namespace = metadata.get("namespace") or "default"
        row = self.kind("v1", "Event")
        event = {
            "metadata": {
                "name": f"{metadata['name']}.{self.clock.uid().replace('-', '')[:16]}",
                "namespace": namespace,
            },
            "involvedObject": {
                "kind": about.get("kind", ""),
                "apiVersion": about.get("apiVersion", ""),
                "name": metadata["name"],
                "namespace": metadata.get("namespace", ""),
                "uid": metadata.get("uid", ""),
                "resourceVersion": metadata.get("resourceVersion", ""),
            },
            "reason": reason,
            "message": message[:1024],
            "type": kind,
            "source": {"component": source},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        pending, self.pending = self.pending, None  # webhooks do not receive events of controllers
        try:
            self.create(row, namespace, event, source)
        except StatusError as error:
            log.debug("event %s dropped: %s", reason, error)
        finally:
            self.pending = pending


class Controller:
    """A controller: handlers call ``queue``, and ``reconcile`` does the work for one key."""

    name: ClassVar[str] = ""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._queue: dict[Any, None] = {}
        self._failures: dict[Any, int] = {}
        self._sync_again_later: set[Any] = set()
        self._pending: dict[Any, PendingWrites] = {}
        self._rest_ends: dict[Any, datetime] = {}
        self._ready: asyncio.Event | None = None
        self._writes_left = WRITES_AT_ONCE
        self._uncommitted: list[tuple[Any, Ticket]] = []
        context.registry.store.undone.append(self._queue_undone)
        self.connect()

    def connect(self) -> None:
        """Add the controller's handlers to the sources."""
        raise NotImplementedError

    def reconcile(self, key: Any) -> None:
        """Bring one key to its desired state; raises StatusError to retry later, NextTurn for another turn."""
        raise NotImplementedError

    # -- the queue

    def queue(self, key: Any) -> None:
        """Queue ``key`` for a sync; a queued key is not queued twice."""
        self._queue[key] = None
        if self._ready is not None:
            self._ready.set()

    def spend(self) -> None:
        """Count a write of a sync that may make many; raises NextTurn after `WRITES_AT_ONCE` writes."""
        if not self._writes_left:
            raise NextTurn
        self._writes_left -= 1

    def queue_after(self, key: Any, seconds: float) -> None:
        """Queue ``key`` in ``seconds``."""
        self.context.timers.after(seconds, lambda: self.queue(key))

    @property
    def idle(self) -> bool:
        """Return whether no key is queued."""
        return not self._queue

    def step(self) -> int:
        """Sync the queued keys and return their number; takes as long as they need (for tests)."""
        batch, self._queue = self._queue, {}
        for key in batch:
            self.context.sources.sync()
            self._sync(key)
        self.context.sources.sync()
        return len(batch)

    def _sync(self, key: Any) -> None:
        self._writes_left = WRITES_AT_ONCE
        pending = self.context.pending = self._pending_of(key) if self._ready is not None else None
        try:
            self.reconcile(key)
        except NextTurn:
            self.queue(key)
        except AwaitingWebhookError:
            pass  # the key is queued when the webhook has responded
        except StatusError as error:
            log.debug("%s: %s: %s", self.name, key, error)
            self._retry(key)
        except Exception:
            log.exception("%s: %s", self.name, key)
            self._retry(key)
        else:
            if key not in self._sync_again_later:
                self._failures.pop(key, None)
        finally:
            self.context.pending = None
        if pending is not None and pending.waits:
            self._pending[key] = pending
        else:
            self._pending.pop(key, None)
        self._sync_again_later.discard(key)
        ticket = self.context.registry.store.ticket
        if self._uncommitted and self._uncommitted[-1][1] is not ticket:
            self._uncommitted.clear()
        if not ticket.done:
            self._uncommitted.append((key, ticket))

    def _pending_of(self, key: Any) -> PendingWrites:
        pending = self._pending.get(key) or PendingWrites(partial(self.queue, key))
        pending.begin()
        return pending

    def _queue_undone(self) -> None:
        """Queue the keys of writes that were rolled back: no event reports them."""
        uncommitted, self._uncommitted = self._uncommitted, []
        for key, ticket in uncommitted:
            if ticket.error is not None:
                self._retry(key)

    def sync_again_later(self, key: Any) -> None:
        """Sync the current key again later, as after a failure, although its sync continues."""
        self._sync_again_later.add(key)
        self._retry(key)

    def _retry(self, key: Any) -> None:
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self.queue_after(key, min(_FIRST_RETRY * 2**failures, _LONGEST_RETRY))

    @contextmanager
    def resting(self, key: Any, factor: float = 10, short: float = 0.005) -> Iterator[bool]:
        """Limit the repetition of long syncs: a sync that took t seconds is not repeated within ``factor`` times t.

        Yields whether to sync now; if not, the key is queued for later. No limit for less than ``short`` seconds.
        """
        until = self._rest_ends.pop(key, None)
        if until is not None and until > self.context.now():
            self._rest_ends[key] = until
            self.context.timers.at(until, lambda: self.queue(key))
            yield False
            return
        started = self.context.clock.monotonic()
        yield True
        took = self.context.clock.monotonic() - started
        if took > short:
            self._rest_ends[key] = self.context.now() + timedelta(seconds=factor * took)
        if len(self._rest_ends) > _MOST_BUDGETS:
            self._rest_ends = {key: until for key, until in self._rest_ends.items() if until > self.context.now()}

    async def run(self) -> None:
        """Sync queued keys until cancelled."""
        try:
            await self._work()
        finally:
            for pending in self._pending.values():
                pending.end()

    async def _work(self) -> None:
        self._ready = asyncio.Event()
        while True:
            if not self._queue:
                self._ready.clear()
                await self._ready.wait()
            ends = time.monotonic() + _TURN_SECONDS
            self.context.sources.sync()
            batch, self._queue = self._queue, {}
            while batch:
                key = next(iter(batch))
                del batch[key]
                self._queue.pop(key, None)
                self._sync(key)
                if batch and time.monotonic() > ends:
                    await asyncio.sleep(0)
                    ends = time.monotonic() + _TURN_SECONDS
                    self.context.sources.sync()
            await asyncio.sleep(0)
