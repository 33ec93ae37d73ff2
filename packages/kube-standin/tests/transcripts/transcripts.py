"""The recorded requests to a kube-apiserver 1.36 and how to send them again to this server.

The recordings are outside the repository; where they are absent the tests that need them are skipped.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import yaml
from yarl import URL

from kube_standin.admission import admission_steps
from kube_standin.admission_chain import User
from kube_standin.authorization import AUTHENTICATED, MASTERS
from kube_standin.features import Features
from kube_standin.server.control_plane import ListeningServer, ServeOptions, serving
from kube_standin.write_options import WriteOptions
from tests.outside import BESIDE
from tests.transcripts.comparing import Bindings, Comparison
from tests.waiting import DEADLINE

DIRECTORY = BESIDE / "reference" / "apiserver-1.36"

_USERS = {
    "admin": User("admin", (MASTERS, AUTHENTICATED), "admin"),
    "viewer": User("viewer", ("viewers", AUTHENTICATED), "viewer"),
    "nobody": User("nobody", ("nobodies", AUTHENTICATED), "nobody"),
}
_BIG = {"176-pod-create-annotation-big": 262145, "177-pod-create-too-large": 3200000}
_UNORDERED = ("562-cr-invalid",)
"""Answers with causes in another order from run to run."""
_CUT_LISTS = ("resources", "groups", "items: three groups", "first 12", "paths")
"""Notes on trimming that say that a list lost entries."""
_COMPACTED_BEFORE = "614-expire-continue"
_ANONYMOUS_OFF_BEFORE = "621-unauthorized-anonymous-off"
_QUIET = 0.12
"""Seconds a watch is listened to after its last expected event, to see that nothing more comes."""


@dataclass(frozen=True)
class Transcript:
    """One recorded request with its answer."""

    name: str
    note: str
    request: dict[str, Any]
    response: dict[str, Any]


@dataclass
class Result:
    """What came back: how it differs from the recording, as "PATH: ..." lines."""

    transcript: Transcript
    found: list[str] = field(default_factory=list)
    body: Any = None


def load() -> list[Transcript]:
    """Return all transcripts in the order they were sent; empty if they are not there."""
    out: list[Transcript] = []
    for path in sorted(DIRECTORY.glob("[0-9]*.json")):
        content = json.loads(path.read_text())
        out.append(Transcript(path.stem, content["note"], content["request"], content["response"]))
    return out


class Replay:
    """One run of all transcripts against a fresh server."""

    def __init__(self, server: ListeningServer, session: aiohttp.ClientSession) -> None:
        self._server = server
        self._session = session
        self._bindings = Bindings()

    async def _touch(self, name: str) -> None:
        registry = self._server.control_plane.registry
        kind = registry.kind("v1", "ConfigMap")
        await registry.create_now(kind, "kube-system", {"metadata": {"name": name}}, WriteOptions()).ticket.settled()

    def _headers(self, request: dict[str, Any]) -> dict[str, str]:
        headers = dict(request.get("headers") or {})
        user = request.get("user")
        if user is not None:
            headers["Authorization"] = f"Bearer {user}"
        return headers

    def _body(self, name: str, request: dict[str, Any]) -> bytes | None:
        body = request.get("body")
        if body == "<bytes>":
            pod = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "big", "annotations": {"a": "x" * _BIG[name]}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            }
            return json.dumps(pod).encode()
        if body is None:
            return None
        text = body if isinstance(body, str) else json.dumps(body)
        return self._bindings.fill(text).encode()

    def _url(self, path: str) -> URL:
        return URL(self._server.url + self._bindings.fill(path), encoded=True)

    async def run(self, transcript: Transcript) -> Result:
        """Send one request and compare the answer."""
        plane = self._server.control_plane
        if transcript.name == _COMPACTED_BEFORE:
            # The recorded server wrote things of its own around its compaction and restart.
            await self._touch("before")
            plane.store.compact(plane.store.revision)
            await self._touch("after")
        if transcript.name == _ANONYMOUS_OFF_BEFORE:
            plane.app.options.anonymous = False
        request, response = transcript.request, transcript.response
        result = Result(transcript)
        body = self._body(transcript.name, request)
        async with self._session.request(
            request["method"],
            self._url(request["path"]),
            headers=self._headers(request),
            data=None if body is None else io.BytesIO(body),
            skip_auto_headers=("User-Agent", "Accept", "Content-Type", "Accept-Encoding"),
        ) as answer:
            if answer.status != response["status"]:
                result.found.append(f"status: expected {response['status']}, is {answer.status}")
            self._compare_headers(result, answer)
            if "ended_by" in response and answer.status == 200:
                await self._compare_stream(result, answer)
            else:
                self._compare_body(result, await answer.read(), answer.content_type)
        return result

    def _compare_headers(self, result: Result, answer: aiohttp.ClientResponse) -> None:
        for name, expected in (result.transcript.response.get("headers") or {}).items():
            actual: Any = answer.headers.getall(name, [])
            if isinstance(expected, str):
                actual = ", ".join(actual)
            if expected != actual:
                result.found.append(f"headers.{name}: expected {expected!r}, is {actual!r}")
        if "Warning" in answer.headers and "Warning" not in (result.transcript.response.get("headers") or {}):
            result.found.append(f"headers.Warning: not expected, is {answer.headers.getall('Warning')}")

    def _compare_body(self, result: Result, raw: bytes, content_type: str) -> None:
        expected = result.transcript.response.get("body")
        result.body = raw[:2000]
        if expected is None:
            if raw:
                result.found.append(f"body: expected none, is {raw[:80]!r}")
            return
        actual: Any = raw.decode("utf-8", "replace")
        if content_type == "application/json":
            actual = json.loads(raw) if raw else None
        elif content_type == "application/yaml":
            expected, actual = yaml.safe_load(expected), yaml.load(actual, yaml.BaseLoader)
        elif content_type == "application/vnd.kubernetes.protobuf":
            actual = f"<{len(raw)} bytes, first ones hex {raw[:8].hex()}>"
        trimmed = result.transcript.response.get("trimmed", "")
        if "length of the name" in trimmed:
            actual = {"kind": actual["kind"], "namelen": len(actual["metadata"]["name"])}
        compare = Comparison(
            self._bindings,
            part=bool(trimmed),
            some=trimmed.startswith(_CUT_LISTS),
            unordered_causes=result.transcript.name in _UNORDERED,
        )
        result.found.extend(compare.differences(expected, actual))

    async def _compare_stream(self, result: Result, answer: aiohttp.ClientResponse) -> None:
        response = result.transcript.response
        expected = [event for event in response["body"] if not _is_plain_bookmark(event)]
        events: list[Any] = []
        ended = asyncio.Event()

        async def listen() -> None:
            async for line in answer.content:
                event = json.loads(line)
                if not _is_plain_bookmark(event):
                    events.append(event)
            ended.set()

        listener = asyncio.ensure_future(listen())
        try:
            for request in result.transcript.request.get("during", ()):
                await self._send_meanwhile(result, request)
            if response["ended_by"] == "server":
                await asyncio.wait_for(ended.wait(), DEADLINE)
            else:
                deadline = asyncio.get_running_loop().time() + DEADLINE
                while len(events) < len(expected) and asyncio.get_running_loop().time() < deadline:
                    await asyncio.sleep(0.01)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(ended.wait(), _QUIET)
        finally:
            listener.cancel()
            await asyncio.gather(listener, return_exceptions=True)
        result.body = events
        result.found.extend(Comparison(self._bindings, part=True).differences(expected, events, "events"))

    async def _send_meanwhile(self, result: Result, request: dict[str, Any]) -> None:
        headers = {"Authorization": "Bearer admin", "User-Agent": "wire/1.0"}
        if request.get("content_type"):
            headers["Content-Type"] = request["content_type"]
        data = None if request["body"] is None else self._bindings.fill(json.dumps(request["body"])).encode()
        async with self._session.request(
            request["method"], self._url(request["path"]), headers=headers, data=data
        ) as answer:
            body = await answer.read()
            if answer.status != request["status"]:
                result.found.append(f"during: expected {request['status']}, is {answer.status} {body[:300]!r}")


def _is_plain_bookmark(event: Any) -> bool:
    return event.get("type") == "BOOKMARK" and "annotations" not in event["object"].get("metadata", {})


@asynccontextmanager
async def replaying(options: ServeOptions | None = None) -> AsyncIterator[Replay]:
    """Serve on a free port without TLS, with the users of the recordings."""
    chosen = options or ServeOptions(
        tls=False,
        anonymous=True,
        future_wait=0.05,
        # The recorded server was one of 1.36 with DRAWorkloadResourceClaims off, its default there.
        features=Features(dra_workload_resource_claims=False, minor=36),
        # The recorded server ran without the ServiceAccount plugin.
        steps=lambda registry: admission_steps(registry, off=("ServiceAccount",)),
    )
    async with serving(chosen) as server:
        for token, user in _USERS.items():
            server.control_plane.tokens.add(token, user)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            yield Replay(server, session)


async def replay_all(options: ServeOptions | None = None) -> list[Result]:
    """Send every transcript in order to a fresh server and return what differed."""
    async with replaying(options) as replay:
        return [await replay.run(transcript) for transcript in load()]
