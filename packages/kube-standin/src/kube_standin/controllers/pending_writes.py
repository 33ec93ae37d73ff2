"""Writes of a controller that wait for webhooks, kept until the next sync of their key.

Such a write is skipped in the current sync, as if it were refused for now. The webhook is called meanwhile, and the key
is synced again after the response. The uid or name suffix that the write generated, and the responses so far, are kept
by the content of the write (`worker_thread`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kube_rules.admission.admission_reviews import encoded
from kube_standin.errors import StatusError
from kube_standin.worker_thread import NotYetDoneError, OffLoopSteps

log = logging.getLogger("reprieve.controllers")

_MOST_CHANGES = 24
"""How often the input of an answered call may change before a write fails."""


class AwaitingWebhookError(StatusError):
    """Raised when a sync skips a write; the sync is repeated when the webhook has responded."""

    def __init__(self) -> None:
        super().__init__(503, "ServiceUnavailable", "waiting for an admission webhook")


@dataclass(eq=False)
class _PendingWrite:
    steps: OffLoopSteps = field(default_factory=lambda: OffLoopSteps(always=False))
    changes: int = 0
    call: asyncio.Task[None] | None = None


class PendingWrites:
    """The pending writes of one key of a controller; `queue` queues the key."""

    def __init__(self, queue: Callable[[], None]) -> None:
        self._queue = queue
        self._writes: dict[bytes, list[_PendingWrite]] = {}
        self._counts: dict[bytes, int] = {}
        self.waits = False

    def begin(self) -> None:
        """Begin a sync: equal writes in it differ by their order."""
        self._counts.clear()
        self.waits = False

    def end(self) -> None:
        """Cancel the calls in flight."""
        for writes in self._writes.values():
            for write in writes:
                if write.call is not None:
                    write.call.cancel()

    @contextmanager
    def steps(self, *write: Any) -> Iterator[OffLoopSteps]:
        """Yield the recorded steps of a write, which `write` describes; they are dropped once it is done or refused.

        Raises AwaitingWebhookError, and StatusError for a write with an input that keeps changing.
        """
        key = encoded(write)
        writes = self._writes.setdefault(key, [])
        at = self._counts.get(key, 0)
        if at == len(writes):
            writes.append(_PendingWrite())
        pending = writes[at]
        try:
            if pending.call is not None:
                raise AwaitingWebhookError
            yield pending.steps
        except NotYetDoneError as missing:
            self._wait(pending, missing)
            raise AwaitingWebhookError from None
        finally:
            if pending.call is None:
                writes.remove(pending)
            else:
                self._counts[key] = at + 1
                self.waits = True

    def _wait(self, pending: _PendingWrite, missing: NotYetDoneError) -> None:
        pending.changes += missing.changed
        if pending.changes > _MOST_CHANGES:
            raise StatusError(409, "Conflict", "the object of the webhook call keeps changing")

        async def answer() -> None:
            try:
                await missing.work()
            except Exception:
                log.exception("a call of a webhook failed")
            pending.call = None
            self._queue()

        pending.call = asyncio.get_running_loop().create_task(answer())
