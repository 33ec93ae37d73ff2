"""Requests: what is repeated and when (the table of `transport`), deadlines, pace, bounds, what is sent along."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import random
import socket
from typing import Any

import pytest
from aiohttp import web

from reprieve.client.connection import Identity, Impersonation
from reprieve.client.errors import ApiError, ClientError, UnreachableError
from reprieve.client.leader_election import LeadershipLostError
from reprieve.client.rate_limits import Backoff, BackoffPolicy, TokenBucket
from reprieve.client.transport import Limits
from tests.client.clock import FakeClock, until
from tests.client.scripted import Reply, Scripted, answer, client_of, cut, scripted, status, text

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
def test_requests_that_are_repeated(name: str) -> None:
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


def test_write_that_may_be_repeated_is() -> None:
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


def test_wait_beyond_the_deadline_is_not_begun() -> None:
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


@pytest.mark.parametrize(
    ("deadline", "limits", "sent"),
    [
        (0.0, Limits(), False),
        (-1.0, Limits(), False),
        (0.5, Limits(qps=1.0, burst=1), True),  # the second attempt's turn comes after a second
    ],
)
def test_request_after_its_deadline_is_not_sent(deadline: float, limits: Limits, sent: bool) -> None:
    """A deadline of no time left is over; it may have been sent only if it was before."""

    async def run() -> None:
        async with scripted(status(500)) as server, client_of(server, limits=limits) as client:
            with pytest.raises(UnreachableError, match="no answer in time") as late:
                await client.get("/api", deadline=deadline)
            assert (late.value.sent, len(server.seen)) == (sent, int(sent))

    asyncio.run(run())


@pytest.mark.parametrize(
    ("method", "code", "retry_after", "again"),
    [
        *(("GET", code, None, code in (429, 500, 502, 503, 504)) for code in (400, 408, 429, 499, 500, 501, 502, 503)),
        ("GET", 504, None, True),
        ("GET", 505, None, False),
        *(("POST", code, None, code == 429) for code in (409, 429, 500, 502, 503, 504)),
        *(("POST", code, 1, code == 429 or code >= 500) for code in (404, 409, 429, 499, 500, 501, 503)),
    ],
)
def test_which_refusals_are_passing(method: str, code: int, retry_after: int | None, again: bool) -> None:
    """As client-go: 429, and what asks to come back with 429 or from 500 on; of a read what may pass by itself, too."""

    async def run() -> None:
        refusal = status(code, retry_after=retry_after)
        async with scripted(refusal, OK) as server, client_of(server) as client:
            with contextlib.nullcontext() if again else pytest.raises(ApiError):
                await client.request(method, "/api", body=None if method == "GET" else {})
            assert len(server.seen) == (2 if again else 1)

    asyncio.run(run())


@pytest.mark.parametrize(("wish", "waited"), [(59, 59), (60, 60), (61, 60), (3600, 60)])
def test_wish_of_the_server_is_followed_for_a_minute_at_most(wish: int, waited: int) -> None:
    """And a little more, up to half a second, so that not all come back together."""

    async def run() -> None:
        clock = FakeClock(instant=100.0)
        refusal = status(429, retry_after=wish)
        async with scripted(refusal, OK) as server, client_of(server, clock=clock) as client:
            await client.get("/api", deadline=300.0)
        [slept] = clock.slept
        assert waited + 0.2 <= slept <= waited + 0.5

    asyncio.run(run())


def test_six_attempts_with_growing_waits_within_half_a_minute() -> None:
    """Of a read that is refused again and again; the pace is kube-scheduler's, 50 a second and 100 at once."""

    async def run() -> None:
        clock = FakeClock(instant=60.0)
        async with scripted(status(500)) as server, client_of(server, clock=clock) as client:
            with pytest.raises(ApiError):
                await client.get("/api")
            assert len(server.seen) == 6
        for waited, least in zip(clock.slept, (0.2, 0.4, 0.8, 1.6, 3.2), strict=True):
            assert least <= waited <= 1.5 * least

    asyncio.run(run())
    limits = Limits()
    assert (limits.qps, limits.burst, limits.deadline, limits.connect) == (50.0, 100, 30.0, 10.0)
    assert (limits.backoff.maximum, limits.connections, limits.max_answer) == (8.0, 100, 512 * 1024 * 1024)


@pytest.mark.parametrize(("bound", "read"), [(9, False), (10, True), (11, True)])
def test_answer_may_be_as_long_as_the_bound(bound: int, read: bool) -> None:
    async def run() -> None:
        async with scripted(text("0123456789")) as server, client_of(server, limits=Limits(max_answer=bound)) as client:
            if read:
                assert (await client.get("/api")).body == b"0123456789"
            else:
                with pytest.raises(UnreachableError, match=f"the answer is larger than {bound} bytes") as refused:
                    await client.get("/api")
                assert refused.value.lasting, "it would be as long again"
                assert len(server.seen) == 1

    asyncio.run(run())


def test_kubeconfig_of_a_server_that_does_not_listen() -> None:
    """The connection is never made, so even a write is repeated; the error says where."""

    async def run() -> None:
        clock = FakeClock(instant=60.0)
        with socket.socket() as taken:  # so that no other process listens there
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


def test_headers_sent_along() -> None:
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


def test_path_of_the_server_stays_in_front() -> None:
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


def test_answer_that_is_no_json() -> None:
    async def run() -> None:
        async with scripted(text("hello")) as server, client_of(server) as client:
            with pytest.raises(UnreachableError, match="cannot be read"):
                (await client.get("/api")).read(dict)

    asyncio.run(run())


def test_guard_is_checked_before_every_attempt() -> None:
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
        shown: list[str] = []
        async with scripted(status(403, "Forbidden")) as server:
            identity = Identity(token="s3cret", password="s3cret")
            async with client_of(server, identity=identity, proxy=None) as client:
                shown.append(repr(client.connection))
                try:
                    await client.get("/api")
                except ClientError as error:
                    shown += [str(error), repr(error)]
        return shown

    assert not any("s3cret" in text for text in asyncio.run(run()))


def test_pace() -> None:
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
        assert len(clock.slept) == 3, "a request with a free turn does not sleep at all"
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


def test_burst_of_none_lets_one_through_at_a_time() -> None:
    async def run() -> None:
        clock = FakeClock()
        bucket = TokenBucket(1.0, 0, clock)
        await bucket.take()
        second = asyncio.create_task(bucket.take())
        await until(lambda: clock.sleeping == 1)
        clock.advance(1.0)
        await second

    asyncio.run(run())


def test_waits_stay_at_their_maximum_however_long_it_takes() -> None:
    """Two to the number of attempts is no float any more after a thousand of them."""
    backoff = Backoff(BackoffPolicy(jitter=0.0), random.Random(1))
    waits = [backoff.next() for _ in range(2000)]
    assert waits[:9] == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    assert set(waits[9:]) == {30.0}


def test_wait_is_longer_by_up_to_half_of_itself() -> None:
    class Highest:
        def random(self) -> float:
            return 1.0

    chance: Any = Highest()
    assert Backoff(BackoffPolicy(), chance).next() == 0.25 * 1.5


def test_backoff_grows_to_its_maximum_and_begins_anew() -> None:
    class Highest:
        def random(self) -> float:
            return 1.0

    chance: Any = Highest()
    backoff = Backoff(BackoffPolicy(initial=1.0, maximum=5.0, jitter=0.5), chance)
    assert [backoff.next() for _ in range(4)] == [1.5, 3.0, 6.0, 7.5]
    backoff.reset()
    assert backoff.next() == 1.5


@pytest.mark.parametrize(
    ("asked_at", "slept"),
    [
        ((0.0, 0.0), []),  # the burst
        ((0.0, 0.0, 0.0), [0.5]),
        ((0.0, 0.0, 0.25), [0.25]),
        ((0.0, 0.0, 0.5), []),  # just refilled
        ((0.0, 0.0, 0.75, 0.75), [0.25]),
        ((0.0, 0.0, 60.0, 60.0, 60.0), [0.5]),  # no more than a burst is saved up
        ((0.0, 0.0, 0.0, 0.0), [0.5, 0.5]),
    ],
)
def test_how_long_one_waits_for_a_turn(asked_at: tuple[float, ...], slept: list[float]) -> None:
    """A bucket of two gets another two a second; a request with a free turn never sleeps, not even for no time."""

    async def run() -> None:
        clock = FakeClock(instant=60.0)
        bucket = TokenBucket(2.0, 2, clock)
        began = clock.monotonic()
        for at in asked_at:
            clock.time = max(clock.time, began + at)
            await bucket.take()
        assert clock.slept == slept

    asyncio.run(run())
