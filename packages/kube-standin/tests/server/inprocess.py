"""The application in the test's own process: a request is a call, a watch a list of events, time is virtual.

No socket, no thread, nothing to wait for: what is done by the clock (bookmarks, the end of a watch) is due as soon as
nothing else is to be done, so that a table of a hundred requests takes as long as the requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import selectors
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, NamedTuple, TypeVar

from kube_standin.admission import admission_steps
from kube_standin.security import ADMIN, READER, Tokens
from kube_standin.server.app import AppOptions
from kube_standin.server.control_plane import ControlPlane
from kube_standin.storage import Store
from tests.admission.plane import SetClock
from tests.waiting import DEADLINE

Json = dict[str, Any]
T = TypeVar("T")


class _NoWaiting(selectors.SelectSelector):
    """Where nothing happens until a moment, that moment is now."""

    waited = 0.0

    def select(self, timeout: float | None = None) -> Any:
        found = super().select(0 if timeout is not None else DEADLINE)
        if not found and timeout is not None and timeout > 0:
            self.waited += timeout
        return found


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop with a clock that advances by itself where it would have to wait; it begins at 0."""

    def __init__(self) -> None:
        self._selected = _NoWaiting()
        super().__init__(self._selected)

    def time(self) -> float:
        """Seconds that were to be waited until now."""
        return self._selected.waited


class Answer(NamedTuple):
    """What came back: headers by lower-case name in the order they came, the body whole and in the pieces it had."""

    status: int
    headers: list[tuple[str, str]]
    pieces: list[bytes]

    @property
    def body(self) -> bytes:
        """All of it."""
        return b"".join(self.pieces)

    @property
    def json(self) -> Any:
        """What it says."""
        return json.loads(self.body)

    def header(self, name: str) -> str | None:
        """The value of a header; None if it is not there. It is there once."""
        found = [value for key, value in self.headers if key == name]
        assert len(found) <= 1, found
        return found[0] if found else None

    @property
    def refusal(self) -> tuple[int, str | None, str]:
        """Code, reason and message of the Status that says why not (api.md 5.2)."""
        status = self.json
        assert (status["kind"], status["apiVersion"], status["status"]) == ("Status", "v1", "Failure")
        assert status["code"] == self.status
        return self.status, status.get("reason"), status["message"]


class Watch:
    """A watch that is open: its events as they come."""

    def __init__(self, messages: asyncio.Queue[Any]) -> None:
        self._messages = messages
        self._lines: list[bytes] = []
        self.pieces: list[bytes] = []
        self.ended = False

    async def start(self) -> Json:
        """The message that begins the answer."""
        message: Json = await self._messages.get()
        assert message["type"] == "http.response.start"
        return message

    async def event(self) -> Json:
        """The next event; fails if the stream ends before."""
        while not self._lines:
            assert not self.ended, "the watch has ended"
            await self._piece()
        found: Json = json.loads(self._lines.pop(0))
        return found

    async def rest(self) -> list[Json]:
        """Every event until the stream ends."""
        while not self.ended:
            await self._piece()
        lines, self._lines = self._lines, []
        return [json.loads(line) for line in lines]

    async def _piece(self) -> None:
        message = await self._messages.get()
        assert message["type"] == "http.response.body"
        self.ended = not message.get("more_body", False)
        if message["body"]:
            self.pieces.append(message["body"])
        self._lines += message["body"].splitlines(keepends=True)


class Plane:
    """A control plane with all admission steps; its clock stands still until it is set."""

    def __init__(self, options: AppOptions | None = None, store: Store | None = None, **more: Any) -> None:
        self.runner = asyncio.Runner(loop_factory=VirtualLoop)
        self.clock = SetClock()
        tokens = Tokens(b"key")
        tokens.add("admin", ADMIN)
        tokens.add("reader", READER)

        async def make() -> ControlPlane:
            return ControlPlane(
                store or Store(),
                tokens,
                steps=admission_steps,
                app_options=options or AppOptions(future_wait=0.0),
                clock=self.clock,
                **more,
            )

        self.plane = self.runner.run(make())
        self.app = self.plane.app
        self.registry = self.plane.registry
        self.store = self.plane.store

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something on the loop."""
        return self.runner.run(work)

    def ask(self, line: str, body: Any = None, **how: Any) -> Answer:
        """One request, as `asked` has it."""
        return self.run(self.asked(line, body, **how))

    def create(self, path: str, body: Any) -> Json:
        """POST what has to be taken, and what it became."""
        answer = self.ask(f"POST {path}", body)
        assert answer.status == 201, answer.body
        found: Json = answer.json
        return found

    async def asked(
        self, line: str, body: Any = None, *, token: str | None = "admin", raw: bytes = b"", **headers: str
    ) -> Answer:
        """One request: `GET /api/v1/pods?limit=1`; `body` is sent as JSON. Headers are written with underscores."""
        content = raw if body is None else json.dumps(body).encode()
        sent: list[Any] = []
        messages: Iterator[Json] = iter([{"type": "http.request", "body": content}])

        async def receive() -> Json:
            message = next(messages, None)
            if message is None:
                await asyncio.Event().wait()  # the client reads its answer
                raise AssertionError
            return message

        async def send(message: Any) -> None:
            sent.append(message)

        await self.app(_scope(line, token, headers), receive, send)
        return answered(sent)

    @asynccontextmanager
    async def watching(self, line: str, *, token: str = "admin", **headers: str) -> AsyncIterator[Watch]:
        """A watch that lasts while the context does; its client leaves at the end."""
        messages: asyncio.Queue[Any] = asyncio.Queue()
        left = asyncio.Event()

        async def receive() -> Json:
            await left.wait()
            return {"type": "http.disconnect"}

        task = asyncio.ensure_future(self.app(_scope(line, token, headers), receive, messages.put))
        try:
            yield Watch(messages)
        finally:
            left.set()
            await task

    def watched(self, line: str, **headers: str) -> list[Json]:
        """Every event of a watch that ends by itself."""

        async def run() -> list[Json]:
            async with self.watching(line, **headers) as watch:
                await watch.start()
                return await watch.rest()

        return self.run(run())

    def close(self) -> None:
        """End everything."""
        self.runner.run(self.plane.aclose())
        self.runner.close()


def _scope(line: str, token: str | None, headers: dict[str, str]) -> Json:
    method, url = line.split(" ", 1)
    path, _, query = url.partition("?")
    sent = {} if token is None else {"authorization": f"Bearer {token}"}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    return {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode("latin-1", "replace")) for name, value in sent.items()],
    }


def answered(sent: list[Json]) -> Answer:
    """An answer from the messages of ASGI; it began, and it ended, once."""
    start, *rest = sent
    assert start["type"] == "http.response.start"
    assert [message["type"] for message in rest] == ["http.response.body"] * len(rest)
    assert [message.get("more_body", False) for message in rest] == [True] * (len(rest) - 1) + [False]
    headers = [(name.decode(), value.decode()) for name, value in start["headers"]]
    return Answer(start["status"], headers, [message["body"] for message in rest])


@contextmanager
def running(options: AppOptions | None = None, store: Store | None = None, **more: Any) -> Iterator[Plane]:
    """A control plane while the context lasts."""
    made = Plane(options, store, **more)
    try:
        yield made
    finally:
        made.close()


def virtually(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run something by a clock that does not wait."""
    with contextlib.closing(asyncio.Runner(loop_factory=VirtualLoop)) as runner:
        return runner.run(work())
