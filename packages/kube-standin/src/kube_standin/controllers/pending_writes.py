"""Writes of a controller that wait for webhooks, kept until the controller comes to them again.

Such a write is left out of the sync under way, as if it were refused for now; its call is made meanwhile, and the key
is synced again when the answer is there. What the write made up for itself, a uid or the end of a name, and the answers
it has are kept by what the write is (`worker_thread`).
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
"""How often the input of an answered call may change before a write counts as failed."""


class AwaitingWebhookError(StatusError):
    """A write is left out of a sync, which is repeated when a webhook has answered."""

    def __init__(self) -> None:
        super().__init__(503, "ServiceUnavailable", "waiting for an admission webhook")


@dataclass(eq=False)
class _PendingWrite:
    steps: OffLoopSteps = field(default_factory=lambda: OffLoopSteps(always=False))
    changes: int = 0
    call: asyncio.Task[None] | None = None


class PendingWrites:
    """The writes of one key of a controller; `queue` has the key synced."""

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
        """Cancel the calls under way."""
        for writes in self._writes.values():
            for write in writes:
                if write.call is not None:
                    write.call.cancel()

    @contextmanager
    def steps(self, *write: Any) -> Iterator[OffLoopSteps]:
        """Give what is known of a write, which `write` describes; nothing is kept once it is done or refused.

        Raises AwaitingWebhookError, and StatusError for a write that never rests.
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
            raise StatusError(409, "Conflict", "what a webhook is asked about changes again and again")

        async def answer() -> None:
            try:
                await missing.work()
            except Exception:
                log.exception("a call of a webhook failed")
            pending.call = None
            self._queue()

        pending.call = asyncio.get_running_loop().create_task(answer())
