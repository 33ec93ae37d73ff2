"""Requests: what is repeated and when (the table of `transport`), deadlines, pace, bounds, what is sent along."""

from __future__ import annotations

import asyncio
import gzip
import socket
from typing import Any

import pytest
from aiohttp import web

from reprieve.client.connection import Identity, Impersonation
from reprieve.client.errors import ApiError, ClientError, UnreachableError
from reprieve.client.leading import LeadershipLostError
from reprieve.client.pacing import Backoff, BackoffPolicy, TokenBucket
from reprieve.client.transport import Limits

from .clock import FakeClock, until
from .scripted import Reply, Scripted, answer, client_of, cut, scripted, status, text

OK = answer({"ok": True})

CASES: dict[str, tuple[str, list[Reply], int, type[Exception] | None]] = {
    # what: method, replies, requests made, how it ends
    "a read is repeated after 500": ("GET", [status(500), OK], 2, None),
    "a read is repeated after 503": ("GET", [status(503), status(503), OK], 3, None),
    "a read is repeated after a cut": ("GET", [cut, OK], 2, None),
    "a write is not repeated after 500": ("POST", [status(500), OK], 1, ApiError),
    "a write is not repeated after a cut": ("POST", [cut, OK], 1, UnreachableError),
    "a write is repeated after 429": ("POST", [status(429, "TooManyRequests"), OK], 2, None),
    "a write is repeated after 503 with Retry-After": ("POST", [status(503, retry_after=1), OK], 2, None),
    "a conflict is an answer": ("PUT", [status(409, "Conflict"), OK], 1, ApiError),
    "not found is an answer": ("GET", [status(404, "NotFound"), OK], 1, ApiError),
    "at some point it is enough": ("GET", [status(500)], Limits().attempts, ApiError),
    "401 without other credentials": ("GET", [status(401, "Unauthorized"), OK], 1, ApiError),
    "redirects are not followed": ("GET", [answer({}, 302, Location="http://elsewhere.invalid/"), OK], 1, ApiError),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_repeated(name: str) -> None:
    method, replies, requests, ends = CASES[name]

    async def run() -> None:
        async with scripted(*replies) as server, client_of(server) as client:
            if ends is None:
                assert (await client.request(method, "/api", body={} if method != "GET" else None)).read(dict) == {
                    "ok": True
                }
            else:
                with pytest.raises(ends):
                    await client.request(method, "/api", body={} if method != "GET" else None)
            assert len(server.seen) == requests

    asyncio.run(run())


def test_a_write_that_may_be_repeated_is() -> None:
    async def run() -> None:
        async with scripted(status(500), cut, OK) as server, client_of(server) as client:
            await client.request("POST", "/binding", body={}, repeatable=True)
            assert len(server.seen) == 3

    asyncio.run(run())


def test_retry_after_is_waited_for_and_waits_grow_otherwise() -> None:
    async def run() -> None:
        clock = FakeClock(instant=60.0)
        async with scripted(status(429, retry_after=7), OK) as server, client_of(server, clock=clock) as client:
            await client.get("/api")
            assert 7.0 <= clock.slept[0] <= 7.5
        clock = FakeClock(instant=60.0)
        async with scripted(status(500)) as server, client_of(server, clock=clock) as client:
            with pytest.raises(ApiError):
                await client.get("/api")
        policy = Limits().backoff
        for turn, waited in enumerate(clock.slept):
            least = min(policy.initial * policy.factor**turn, policy.maximum)
            assert least <= waited <= least * (1 + policy.jitter)

    asyncio.run(run())


def test_a_wait_beyond_the_deadline_is_not_begun() -> None:
    async def run() -> None:
        clock = FakeClock(instant=60.0)
        async with scripted(status(503, retry_after=20)) as server, client_of(server, clock=clock) as client:
            with pytest.raises(ApiError) as refused:
                await client.get("/api", deadline=15.0)
            assert refused.value.retry_after == 20
            assert clock.slept == []

    asyncio.run(run())


def test_no_answer_in_time() -> None:
    async def silent(_request: web.Request) -> web.StreamResponse:
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    async def run() -> None:
        limits = Limits(attempts=1)
        async with scripted(silent) as server, client_of(server, limits=limits) as client:
            with pytest.raises(UnreachableError, match="no answer in time"):
                await client.get("/api", deadline=0.05)

    asyncio.run(run())


def test_nobody_listens() -> None:
    """The connection is never made, so even a write is repeated; the error says where."""

    async def run() -> None:
        clock = FakeClock(instant=60.0)
        with socket.socket() as taken:  # so that nobody else comes to listen there
            taken.bind(("127.0.0.1", 0))
            server = Scripted(url=f"http://127.0.0.1:{taken.getsockname()[1]}")
            async with client_of(server, clock=clock) as client:
                with pytest.raises(UnreachableError, match=r"127\.0\.0\.1.*cannot connect"):
                    await client.request("POST", "/api", body={})
                assert len(clock.slept) == Limits().attempts - 1

    asyncio.run(run())


@pytest.mark.parametrize(
    ("reply", "code", "reason", "message"),
    [
        (status(403, "Forbidden", 'pods is forbidden: User "x"'), 403, "Forbidden", "pods is forbidden"),
        (text("<html><body>Login</body></html>", 403), 403, "", "a page of HTML"),
        (text("404 page not found", 404), 404, "", "404 page not found"),
        (text("", 404), 404, "", "empty answer"),
        (answer([1, 2], 400), 400, "", "1, 2"),
    ],
)
def test_refusals_are_typed(reply: Reply, code: int, reason: str, message: str) -> None:
    async def run() -> None:
        async with scripted(reply) as server, client_of(server) as client:
            with pytest.raises(ApiError, match=message) as refused:
                await client.get("/api")
            assert (refused.value.code, refused.value.reason) == (code, reason)
            assert "\n" not in str(refused.value)

    asyncio.run(run())


def test_retry_after_seconds_of_the_status_count_too() -> None:
    body = {"kind": "Status", "code": 429, "reason": "TooManyRequests", "details": {"retryAfterSeconds": 3}}

    async def run() -> None:
        clock = FakeClock(instant=60.0)
        async with scripted(answer(body, 429), OK) as server, client_of(server, clock=clock) as client:
            await client.get("/api")
        assert 3.0 <= clock.slept[0] <= 3.5

    asyncio.run(run())


def test_what_is_sent_along() -> None:
    act_as = Impersonation("jane@example.com", "42", ("dev", "ops"), (("acme.com/project", ("a", "b")),))

    async def run() -> None:
        async with (
            scripted(OK) as server,
            client_of(server, identity=Identity(token="t0ken"), impersonation=act_as) as client,
        ):
            await client.request("PATCH", "/api/v1/x%2Fy", {"dryRun": "All"}, body={"a": 1}, content_type="x/y")
            sent = server.seen[0]
        assert sent.raw_path == "/api/v1/x%2Fy?dryRun=All"
        assert sent.headers["Authorization"] == "Bearer t0ken"
        assert sent.headers["Content-Type"] == "x/y"
        assert sent.headers["Accept-Encoding"] == "gzip"
        assert sent.headers["Impersonate-User"] == "jane@example.com"
        assert sent.headers["Impersonate-Uid"] == "42"
        assert sent.headers.getall("Impersonate-Group") == ["dev", "ops"]
        assert sent.headers.getall("Impersonate-Extra-acme.com%2Fproject") == ["a", "b"]

    asyncio.run(run())


def test_the_path_of_the_server_stays_in_front() -> None:
    async def run() -> None:
        async with scripted(OK) as server:
            server.url += "/k8s/clusters/c-1"
            async with client_of(server, identity=Identity(username="u", password="p:w")) as client:
                await client.get("/api/v1/pods")
            assert server.seen[0].path == "/k8s/clusters/c-1/api/v1/pods"
            assert server.seen[0].headers["Authorization"] == "Basic dTpwOnc="

    asyncio.run(run())


def test_answers_are_unzipped_and_bounded() -> None:
    def zipped(size: int) -> Reply:
        async def reply(_request: web.Request) -> web.StreamResponse:
            body = gzip.compress(b'{"pad": "' + b"x" * size + b'"}')
            headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
            return web.Response(body=body, headers=headers)

        return reply

    async def run() -> None:
        limits = Limits(max_answer=100_000)
        async with scripted(zipped(1000), zipped(10_000_000)) as server, client_of(server, limits=limits) as client:
            assert len((await client.get("/api")).read(dict[str, str])["pad"]) == 1000
            with pytest.raises(UnreachableError, match="larger than 100000 bytes"):
                await client.get("/api")
            assert len(server.seen) == 2

    asyncio.run(run())


def test_an_answer_that_is_no_json() -> None:
    async def run() -> None:
        async with scripted(text("hello")) as server, client_of(server) as client:
            with pytest.raises(UnreachableError, match="cannot be read"):
                (await client.get("/api")).read(dict)

    asyncio.run(run())


def test_a_guard_is_asked_before_every_attempt() -> None:
    """A deposed leader stops between two attempts."""

    async def run() -> None:
        asked: list[int] = []

        def guard() -> None:
            asked.append(1)
            if len(asked) == 2:
                raise LeadershipLostError("not the leader")

        async with scripted(status(429), OK) as server, client_of(server) as client:
            with pytest.raises(LeadershipLostError):
                await client.request("POST", "/api", body={}, guard=guard)
            assert len(server.seen) == 1

    asyncio.run(run())


def test_secrets_are_not_shown() -> None:
    async def run() -> list[str]:
        said: list[str] = []
        async with scripted(status(403, "Forbidden")) as server:
            identity = Identity(token="s3cret", password="s3cret")
            async with client_of(server, identity=identity, proxy=None) as client:
                said.append(repr(client.connection))
                try:
                    await client.get("/api")
                except ClientError as error:
                    said += [str(error), repr(error)]
        return said

    assert not any("s3cret" in text for text in asyncio.run(run()))


def test_the_pace() -> None:
    """A burst goes through at once, then so many a second, in the order of asking."""

    async def run() -> None:
        clock = FakeClock()
        bucket = TokenBucket(10.0, 3, clock)
        passed: list[int] = []

        async def ask(number: int) -> None:
            await bucket.take()
            passed.append(number)

        tasks = [asyncio.create_task(ask(number)) for number in range(6)]
        await until(lambda: clock.sleeping == 3)
        assert passed == [0, 1, 2]
        for expected in (3, 4, 5):
            clock.advance(0.1)
            await until(lambda: len(passed) > expected)  # noqa: B023 - used at once
            assert passed[-1] == expected
            assert len(passed) == expected + 1
        await asyncio.gather(*tasks)
        clock.advance(100.0)  # no more than a burst is saved up
        for _ in range(3):
            await bucket.take()
        assert clock.sleeping == 0
        late = asyncio.create_task(bucket.take())
        await until(lambda: clock.sleeping == 1)
        clock.advance(0.1)
        await late

    asyncio.run(run())


def test_no_pace_without_a_limit() -> None:
    async def run() -> None:
        bucket = TokenBucket(0.0, 1, FakeClock())
        for _ in range(1000):
            await bucket.take()

    asyncio.run(run())


def test_backoff_grows_to_its_maximum_and_begins_anew() -> None:
    class Highest:
        def random(self) -> float:
            return 1.0

    chance: Any = Highest()
    backoff = Backoff(BackoffPolicy(initial=1.0, maximum=5.0, jitter=0.5), chance)
    assert [backoff.next() for _ in range(4)] == [1.5, 3.0, 6.0, 7.5]
    backoff.reset()
    assert backoff.next() == 1.5
