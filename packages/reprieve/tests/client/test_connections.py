"""What happens to a connection when a request has ended: given back and used again, or closed, and never kept.

A client that may hold one connection alone asks once, in every way a request can end, and then once more: the second
request goes out only if the first has left the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest
from aiohttp import web

from reprieve.client.errors import ApiError, ClientError, UnreachableError
from reprieve.client.transport import ApiClient, Limits
from tests.client.scripted import Reply, answer, client_of, cut, event, lines, pod, scripted, status, text
from tests.waiting import DEADLINE

OK = answer({"ok": True})
MOST = 200
"""Bytes that an answer may have here."""
Ask = Callable[[ApiClient], Awaitable[object]]


def going_on(code: int = 200, *pieces: bytes) -> Reply:
    """An answer that begins so and never ends."""

    async def reply(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=code)
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
        await asyncio.get_running_loop().create_future()
        return response

    return reply


async def silent(_request: web.Request) -> web.StreamResponse:
    await asyncio.get_running_loop().create_future()
    raise AssertionError


def cut_in_the_middle(code: int = 200) -> Reply:
    async def reply(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=code)
        await response.prepare(request)
        await response.write(b"{")
        assert request.transport is not None
        request.transport.abort()
        return response

    return reply


async def reads(client: ApiClient) -> None:
    (await client.get("/api", deadline=DEADLINE)).read(dict)


async def reads_for_a_moment(client: ApiClient) -> None:
    await client.get("/api", deadline=0.05)


async def writes(client: ApiClient) -> None:
    await client.request("POST", "/api", body={"a": "b" * 1000}, deadline=DEADLINE)


async def is_cancelled(client: ApiClient) -> None:
    task = asyncio.create_task(client.get("/api", deadline=DEADLINE))
    done, _ = await asyncio.wait((task,), timeout=0.05)
    assert not done
    task.cancel()
    await asyncio.wait((task,))
    assert task.cancelled()


async def streams_to_the_end(client: ApiClient) -> None:
    async with client.stream("/api", {}, opening=DEADLINE) as stream:
        while await stream.piece():
            pass


async def leaves_a_stream(client: ApiClient) -> None:
    async with client.stream("/api", {}, opening=DEADLINE) as stream:
        assert await stream.piece()


async def cuts_a_stream(client: ApiClient) -> None:
    async with client.stream("/api", {}, opening=DEADLINE) as stream:
        assert await stream.piece()
        stream.cut()
        await stream.piece()


async def fails_in_a_stream(client: ApiClient) -> None:
    async with client.stream("/api", {}, opening=DEADLINE):
        raise ClientError("of the reader")


async def streams_for_a_moment(client: ApiClient) -> None:
    async with client.stream("/api", {}, opening=0.05):
        raise AssertionError


@dataclass(frozen=True)
class Case:
    ask: Ask
    reply: Reply
    ends: type[Exception] | None = None
    again: bool = False
    """Whether the same connection is used for what comes next."""


EVENT = json.dumps(event("ADDED", pod("a", 1))).encode() + b"\n"
LONG = b"x" * (MOST + 1)

CASES: dict[str, Case] = {
    "an answer": Case(reads, OK, again=True),
    "an answer to a write": Case(writes, OK, again=True),
    "an answer that is no JSON": Case(reads, text("hello"), UnreachableError, again=True),
    "an empty answer": Case(reads, text(""), UnreachableError, again=True),
    "a refusal": Case(reads, status(404, "NotFound"), ApiError, again=True),
    "a refusal of a write": Case(writes, status(409, "Conflict"), ApiError, again=True),
    "a refusal of the credentials": Case(reads, status(401, "Unauthorized"), ApiError, again=True),
    "a redirect": Case(reads, answer({}, 302, Location="http://elsewhere.invalid/"), ApiError, again=True),
    "an answer that is too long": Case(reads, going_on(200, LONG), UnreachableError),
    "a refusal that is too long": Case(reads, going_on(403, LONG), UnreachableError),
    "no answer to a write": Case(writes, cut, UnreachableError),
    "half an answer": Case(reads, cut_in_the_middle(), UnreachableError),
    "half a refusal": Case(reads, cut_in_the_middle(403), UnreachableError),
    "no answer in time": Case(reads_for_a_moment, silent, UnreachableError),
    "half an answer in time": Case(reads_for_a_moment, going_on(200, b"{"), UnreachableError),
    "cancelled before the answer": Case(is_cancelled, silent),
    "cancelled in the answer": Case(is_cancelled, going_on(200, b"{")),
    "a stream that is left": Case(leaves_a_stream, lines(EVENT, then="silence")),
    "a stream that is cut by its reader": Case(cuts_a_stream, lines(EVENT, then="silence"), UnreachableError),
    "a stream with a failing reader": Case(fails_in_a_stream, lines(EVENT, then="silence"), ClientError),
    "a stream that is cut": Case(streams_to_the_end, lines(EVENT, then="cut"), UnreachableError),
    "a stream to its end": Case(streams_to_the_end, lines(EVENT), again=True),
    "a stream that is refused": Case(leaves_a_stream, status(403, "Forbidden"), ApiError, again=True),
    "a stream with too long a refusal": Case(leaves_a_stream, going_on(403, LONG), UnreachableError),
    "a stream with a cut refusal": Case(leaves_a_stream, cut_in_the_middle(403), UnreachableError),
    "a stream with a refusal that does not end in time": Case(
        streams_for_a_moment, going_on(403, b"{"), UnreachableError
    ),
    "a stream that is not opened in time": Case(streams_for_a_moment, silent, UnreachableError),
}


@pytest.mark.parametrize("name", CASES)
def test_connection_is_left_however_a_request_ends(name: str) -> None:
    case = CASES[name]
    ports: list[int] = []

    def by(reply: Reply) -> Reply:
        async def noting(request: web.Request) -> web.StreamResponse:
            assert request.transport is not None
            ports.append(request.transport.get_extra_info("peername")[1])
            return await reply(request)

        return noting

    async def run() -> None:
        limits = Limits(connections=1, attempts=1, max_answer=MOST)
        async with scripted(by(case.reply), by(OK)) as server, client_of(server, limits=limits) as client:
            # The error is kept until the end: that it is forgotten at some time must not be what frees a connection.
            with contextlib.nullcontext() if case.ends is None else pytest.raises(case.ends) as _kept:
                await case.ask(client)
            await client.get("/after", deadline=DEADLINE)
        assert len(ports) == 2
        assert (ports[0] == ports[1]) is case.again

    asyncio.run(run())
