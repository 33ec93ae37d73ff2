"""Conditions and what they write, without a server: an engine, a clock that tests set, and calls that are kept."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from kube_rules import objects as o
from reprieve.client.discovery import Resource
from reprieve.client.errors import UnreachableError
from reprieve.cluster.pods import PodRecord
from reprieve.live.conditions import Conditions
from reprieve.live.writes import Writes
from reprieve.scheduling.engine import Engine
from reprieve.scheduling.engine_options import EngineOptions
from tests.client.clock import FakeClock
from tests.live.faults import Json, group, node, pod


class Recorded(Writes):
    """Keeps what it is asked to write; calls end well at once, or as the test says."""

    def __init__(self) -> None:
        self.pods: list[tuple[str, Json]] = []
        self.groups: list[tuple[str, Json, Resource | None]] = []
        self.deleted: list[str] = []
        self.held: list[asyncio.Future[None]] = []
        self.hold = False
        self.errors: list[Exception] = []
        self.going: set[str] = set()
        """UIDs of pods that are gone or terminating by the API, whatever the watch has told."""
        self.unanswered = 0
        """So many looks at a pod fail."""

    async def stays(self, namespace: str, name: str, uid: str) -> bool:
        if self.unanswered:
            self.unanswered -= 1
            raise UnreachableError("cut")
        return uid not in self.going

    def patch_pod_status(self, namespace: str, name: str, uid: str, patch: Mapping[str, Any]) -> asyncio.Future[None]:
        self.pods.append((uid, dict(patch)))
        return self._answer()

    def delete_pod(self, namespace: str, name: str, uid: str) -> asyncio.Future[None]:
        self.deleted.append(uid)
        return self._answer()

    def patch_group_status(
        self,
        namespace: str,
        name: str,
        uid: str,
        conditions: Sequence[Mapping[str, Any]],
        *,
        kind: str = "PodGroup",
        resource: Resource | None = None,
    ) -> asyncio.Future[None]:
        self.groups += [(uid, dict(condition), resource) for condition in conditions]
        return self._answer()

    def _answer(self) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.hold:
            self.held.append(future)
        elif self.errors:
            future.set_exception(self.errors.pop(0))
            future.exception()
        else:
            future.set_result(None)
        return future


class Scene:
    """An engine with one node, conditions, and what they write."""

    def __init__(self, engine: Engine | None = None, writes: Recorded | None = None) -> None:
        self.clock = FakeClock()
        self.writes = writes or Recorded()
        self.troubles: list[str] = []
        self.conditions = Conditions(self.writes, self.clock, on_trouble=self.troubles.append)
        self.engine = engine or Engine(EngineOptions(validate=True))
        self.engine.set(msgspec.convert(node("n1"), o.Node), self.now)

    @property
    def now(self) -> float:
        return self.clock.now().timestamp()

    def pod(
        self, name: str = "a", *, status: Json | None = None, generation: int = 0, going: bool = False, **spec: Any
    ) -> PodRecord:
        """A pod, as the informer has it and as the engine has it: pending unless it has a `node`."""
        body = pod(name, uid=f"uid-{name}", **spec) | {"status": status or {}}
        body["metadata"]["generation"] = generation
        if going:
            body["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        item = msgspec.convert(body, o.Pod)
        self.conditions.seen_pod(item)
        self.engine.set(item, self.now)
        return self.engine.cluster.pods[item.metadata.uid]

    def group(
        self,
        *,
        generation: int = 1,
        uid: str = "uid-g",
        count: int = 2,
        status: Json | None = None,
        everything: bool = False,
        name: str = "g",
        priority: int = 0,
    ) -> None:
        body = group(name, count=count, everything=everything) | {"status": status or {}}
        body["spec"]["priority"] = priority
        body["metadata"] |= {"uid": uid, "generation": generation}
        item = msgspec.convert(body, o.PodGroup)
        self.conditions.seen_group(item, Resource("scheduling.k8s.io", "v1beta1", "podgroups", "PodGroup", True))
        self.engine.set(item, self.now)


def run(test: Callable[[Scene], Awaitable[None]], engine: Engine | None = None) -> None:
    """A test with a scene of its own, in an event loop of its own."""

    async def main() -> None:
        await test(Scene(engine))

    asyncio.run(main())
