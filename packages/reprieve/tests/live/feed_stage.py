"""A feed of the embedded control plane into an engine: the stage for tests of what reaches the engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from kube_standin.server.control_plane import ServeOptions, serving
from reprieve.client.discovery import ServedResources, discover
from reprieve.client.errors import ApiError, UnreachableError
from reprieve.client.informer import Change, ChangeKind
from reprieve.client.kubeconfig import connect
from reprieve.client.transport import ApiClient, Limits
from reprieve.live.event_handlers import ClusterFeed, ClusterFeedOptions
from reprieve.live.outages import Outages
from reprieve.scheduling.engine import Engine
from reprieve.scheduling.engine_options import EngineOptions
from tests import manifests
from tests.client.clock import until
from tests.waiting import DEADLINE

Json = dict[str, Any]
NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"
GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
CRD = "scheduling.reprieve.dev"


class Limited(ApiClient):
    """A client without the right to read some kinds, and a server that lacks others."""

    refused: tuple[str, ...] = ()
    unanswered: tuple[str, ...] = ()

    async def _answering(self, path: str, *more: Any) -> Any:
        what = path.rpartition("/")[2]
        if what in self.refused:
            raise ApiError(403, "Forbidden", f"{path}: may not be read")
        if what in self.unanswered:
            raise UnreachableError(f"{path}: no answer")
        return await super()._answering(path, *more)

    async def get(self, path: str, *more: Any, **named: Any) -> Any:
        """Discovery reads so; lists and watches are streams."""
        if path.rpartition("/")[2] in self.unanswered:
            raise UnreachableError(f"{path}: no answer")
        return await super().get(path, *more, **named)


class Stage:
    """A control plane, an engine and a feed between them that a test runs."""

    def __init__(self, client: Limited, engine: Engine | None = None, *, rediscover: float = 0.05) -> None:
        self.client = client
        self.engine = engine or Engine(EngineOptions(validate=True))
        self.received: list[tuple[ChangeKind, str, str]] = []
        self.troubles: list[str] = []
        self.notes: list[str] = []
        self.ignored: list[tuple[str, str, str]] = []
        self.repeated = 0
        self.outages = Outages(client.clock, self)
        self.feed = ClusterFeed(
            client,
            self.engine,
            listener=self._listen,
            trouble=self.trouble,
            note=self.notes.append,
            ignored=lambda item, why: self.ignored.append((item.KIND, item.name, why)),
            outages=self.outages,
            options=ClusterFeedOptions(rediscover=rediscover),
        )

    def trouble(self, where: str, text: str) -> None:
        self.troubles.append(text)

    def trouble_again(self, where: str) -> None:
        self.repeated += 1

    def _listen(self, change: Change[Any], resource: object) -> None:
        self.received.append((change.kind, change.object.KIND, change.object.name))

    async def create(self, path: str, name: str, **body: Any) -> None:
        meta = {"name": name, **body.pop("metadata", {})}
        await self.client.request("POST", path, body={"metadata": meta, **body})

    async def node(self, name: str) -> None:
        await self.client.request("POST", NODES, body=manifests.node(name))

    async def pod(self, name: str, *, node: str = "", group: str = "", **meta: Any) -> None:
        await self.client.request("POST", PODS, body=manifests.pod(name, node=node, group=group, meta=meta))

    async def group(self, name: str, least: int) -> None:
        await self.client.request("POST", GROUPS, body=manifests.gang(name, least))

    @asynccontextmanager
    async def running(self, served: ServedResources | None = None) -> AsyncIterator[None]:
        task = asyncio.create_task(self.feed.run(served or await discover(self.client)))
        try:
            await until(lambda: self.feed.synced or task.done())
            if task.done():
                task.result()
            # It asks again so soon what is served that a slow machine has not received all of it yet, and logs that.
            self.troubles[:] = [text for text in self.troubles if not text.startswith("still waiting for")]
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def until(self, condition: Callable[[], object]) -> None:
        """Apply until it is so."""

        def so() -> object:
            self.feed.apply(1000.0)
            return condition()

        await until(so)

    @property
    def minimum(self) -> dict[str, int]:
        return {key: group.min_count for key, group in self.engine.cluster.groups.items() if group.spec is not None}


def play(act: Callable[[Stage], Awaitable[None]], **options: Any) -> None:
    async def run() -> None:
        async with (
            serving(ServeOptions(tls=False, **options)) as server,
            Limited(connect(server.kubeconfig), limits=Limits(qps=0.0)) as client,
        ):
            assert isinstance(client, Limited)
            await act(Stage(client))

    asyncio.run(run())


DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def definition(group: str, version: str, kind: str = "PodGroup") -> Json:
    """A definition of a kind of groups that takes whatever is written."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "metadata": {"annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs"}},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {
                "plural": f"{kind.lower()}s",
                "singular": kind.lower(),
                "kind": kind,
                "listKind": f"{kind}List",
            },
            "versions": [{"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


async def served_as_well(stage: Stage, group: str, version: str) -> str:
    """Install a definition of PodGroups; the path of their objects."""
    await stage.create(DEFINITIONS, f"podgroups.{group}", **definition(group, version))
    loop = asyncio.get_running_loop()
    ends = loop.time() + DEADLINE
    while len((await discover(stage.client)).readable("PodGroup")) != 2:
        assert loop.time() < ends
    return f"/apis/{group}/{version}/namespaces/default/podgroups"
