"""An API with calls that a test can hold up, fail, cut or count: between a real client and a real server.

A `Script` sees every call just before it is sent and may do something else instead. Calls that change something are
kept in `calls`, as `METHOD path-without-prefix`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from kube_standin.server.control_plane import ListeningServer, ServeOptions, serving
from reprieve.client.discovery import Resource
from reprieve.client.errors import ApiError
from reprieve.client.kubeconfig import connect
from reprieve.client.transport import MERGE_PATCH, ApiClient, ApiResponse, Limits
from tests import manifests
from tests.manifests import priority_class as priority_class
from tests.waiting import DEADLINE

Json = dict[str, Any]
Send = Callable[[], Awaitable[ApiResponse]]


class Call:
    """One attempt of one call."""

    def __init__(self, method: str, path: str, body: bytes | None) -> None:
        self.method = method
        self.path = path
        self.body: Json = msgspec.json.decode(body) if body else {}

    def __str__(self) -> str:
        written = (self.body.get("status") or {}).get("conditions") or () if self.method == "PATCH" else ()
        kinds = {condition.get("type") for condition in written}
        only = " conditions" if kinds and kinds <= {"PodGroupSatisfied", "PodGroupInitiallyScheduled"} else ""
        return f"{self.method} {self.path.rpartition('/namespaces/')[2]}{only}"

    @property
    def writes(self) -> bool:
        return self.method != "GET"


Script = Callable[[Call, Send], Awaitable[ApiResponse]]


async def _plain(_call: Call, send: Send) -> ApiResponse:
    return await send()


class FaultyClient(ApiClient):
    """Every attempt goes through `script`; `calls` are those that change something, in the order they were sent."""

    script: Script = staticmethod(_plain)

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.calls: list[Call] = []

    async def _once(self, method: str, path: str, query: Any, data: bytes | None, *more: Any) -> ApiResponse:
        call = Call(method, path, data)
        if call.writes:
            self.calls.append(call)

        async def send() -> ApiResponse:
            return await super(FaultyClient, self)._once(method, path, query, data, *more)

        return await self.script(call, send)

    @property
    def sent(self) -> list[str]:
        return [str(call) for call in self.calls]


@asynccontextmanager
async def cluster(**options: Any) -> AsyncIterator[tuple[ListeningServer, ApiClient]]:
    """An embedded control plane without controllers, and a client for the test's own calls."""
    async with serving(ServeOptions(tls=False, **options)) as server, client_of(server) as client:
        yield server, client


@asynccontextmanager
async def client_of(server: ListeningServer, kind: type[ApiClient] = ApiClient, **named: Any) -> AsyncIterator[Any]:
    # Longer than any test: clocks of tests run fast, machines slow.
    limits = Limits(qps=0.0, deadline=100 * DEADLINE)
    async with kind(connect(server.kubeconfig), limits=limits, chance=random.Random(1), **named) as client:
        yield client


def pod(name: str, *, uid: str = "", node: str = "", cpu: str = "", group: str = "", **spec: Any) -> Json:
    """A pod; an own UID is only for pods that never reach an API server."""
    meta = {"namespace": "default", **({"uid": uid} if uid else {})}
    spec = {"terminationGracePeriodSeconds": 30, **spec}
    return manifests.pod(name, cpu or None, node=node, group=group, meta=meta, **spec)


def node(name: str, cpu: str = "4") -> Json:
    made = manifests.node(name, cpu, labels={"kubernetes.io/hostname": name})
    made["status"]["capacity"] = made["status"]["allocatable"]
    return made


def group(name: str, *, count: int | None = None, everything: bool = False, priority: str = "") -> Json:
    spec: Json = {"schedulingPolicy": {"gang": {"minCount": count}} if count is not None else {"basic": {}}}
    if everything:
        spec["disruptionMode"] = {"all": {}}
    if priority:
        spec["priorityClassName"] = priority
    return manifests.manifest(manifests.SCHEDULING, "PodGroup", name, {"namespace": "default"}, spec=spec)


PATHS = {
    "Pod": "/api/v1/namespaces/default/pods",
    "Node": "/api/v1/nodes",
    "PodGroup": "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups",
    "CompositePodGroup": "/apis/scheduling.k8s.io/v1alpha3/namespaces/default/compositepodgroups",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
}


async def create(client: ApiClient, *items: Json) -> list[Json]:
    """Create objects one after another and return them as the server has them; nodes are ready at once."""
    made = []
    for item in items:
        found = (await client.request("POST", PATHS[item["kind"]], body=item)).read(dict)
        if item["kind"] == "Node":  # the server has tainted it: not ready
            path = f"{PATHS['Node']}/{found['metadata']['name']}"
            found = (
                await client.request("PATCH", path, body={"spec": {"taints": None}}, content_type=MERGE_PATCH)
            ).read(dict)
        made.append(found)
    return made


async def create_custom(client: ApiClient, resource: Resource, body: Json, *, subresource: bool = True) -> Json:
    """Define a custom resource and create one; a definition takes a moment to be served.

    Without `subresource` its status is written with the object.
    """
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    definition = _definition(resource)
    if not subresource:
        del definition["spec"]["versions"][0]["subresources"]
    await client.request("POST", definitions, body=definition)
    loop = asyncio.get_running_loop()
    ends = loop.time() + DEADLINE
    while loop.time() < ends:
        try:
            made: Json = (await client.request("POST", resource.path("default"), body=body)).read(dict)
        except ApiError as error:
            if error.code != 404:
                raise
            await asyncio.sleep(0.01)
        else:
            return made
    raise AssertionError(f"{resource} is not served")


def _definition(resource: Resource) -> Json:
    version = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
        "subresources": {"status": {}},
    }
    kind = resource.kind
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{resource.plural}.{resource.group}",
            "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/scheduler-plugins"},
        },
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": {"plural": resource.plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
            "versions": [version],
        },
    }


async def read(client: ApiClient, kind: str, name: str) -> Json:
    found: Json = (await client.get(f"{PATHS[kind]}/{name}")).read(dict)
    return found
