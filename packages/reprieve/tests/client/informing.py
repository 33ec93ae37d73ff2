"""An informer of pods that runs against a scripted server, and what it reported."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from kube_rules.objects import Pod
from reprieve.client.informer import Change, Informer, InformerOptions
from tests.client.clock import FakeClock
from tests.client.scripted import (
    PODS,
    Reply,
    Scripted,
    client_of,
    scripted,
)


@dataclass
class Observed:
    """An informer that runs, and what it reported."""

    informer: Informer[Pod]
    server: Scripted
    clock: FakeClock
    changes: list[str] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)
    task: asyncio.Task[None] | None = None

    def note(self, change: Change[Pod]) -> None:
        item = change.object
        self.changes.append(f"{change.kind.value} {item.name}@{item.metadata.resource_version}")

    def queries(self) -> list[dict[str, str]]:
        return [dict(request.query) for request in self.server.seen]


@asynccontextmanager
async def informing(*replies: Reply, instant: float = 15.0, **options: Any) -> AsyncIterator[Observed]:
    clock = FakeClock(instant=instant)
    async with scripted(*replies) as server, client_of(server, clock=clock) as client:
        observed: Observed

        def note(change: Change[Pod]) -> None:
            observed.note(change)

        def complain(reason: str) -> None:
            observed.trouble.append(reason)

        informer = Informer(client, PODS, Pod, note, options=InformerOptions(**options), on_trouble=complain)
        observed = Observed(informer, server, clock)
        observed.task = asyncio.create_task(informer.run())
        try:
            yield observed
        finally:
            observed.task.cancel()
            await asyncio.gather(observed.task, return_exceptions=True)
