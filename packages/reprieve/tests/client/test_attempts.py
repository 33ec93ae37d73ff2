"""One attempt at a request: what its end means for the next, which callbacks it calls, which way it takes."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import ssl
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.client_reqrep import ConnectionKey
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from reprieve.client.connection import Connection, Identity
from reprieve.client.errors import ApiError, ClientError, UnreachableError
from reprieve.client.rate_limits import BackoffPolicy
from reprieve.client.transport import ApiClient, Limits
from tests.client.clock import FakeClock
from tests.client.scripted import Reply, answer, client_of, cut, event, lines, pod, scripted, status
from tests.waiting import DEADLINE

OK = answer({"ok": True})
EVENTS = lines(event("ADDED", pod("a", 1)))

KEY = ConnectionKey("server", 443, True, True, None, None, None)
ABOUT = aiohttp.RequestInfo(URL("http://proxy"), "CONNECT", CIMultiDictProxy(CIMultiDict()), URL("http://proxy"))


def untrusted(message: str = "") -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_message = message
    return error


def proxy_refused(code: int) -> aiohttp.ClientHttpProxyError:
    return aiohttp.ClientHttpProxyError(ABOUT, (), status=code)


async def ask(client: ApiClient, way: str) -> None:
    """A read, a write, or a stream that is read to its end."""
    if way == "stream":
        async with client.stream("/api", {}, opening=DEADLINE) as stream:
            while await stream.piece():
                pass
    else:
        await client.request(way, "/api", body=None if way == "GET" else {}, deadline=DEADLINE)


FAILURES: list[tuple[Exception, str, bool, bool]] = [
    # the error of aiohttp; what is reported; whether it may have been sent; whether it will be so again
    (
        aiohttp.ClientConnectorCertificateError(KEY, untrusted("self-signed certificate")),
        "the server's certificate is not trusted: self-signed certificate",
        False,
        True,
    ),
    (
        aiohttp.ClientConnectorCertificateError(KEY, untrusted()),
        "the server's certificate is not trusted: certificate verify failed",
        False,
        True,
    ),
    (untrusted(), "the server's certificate is not trusted: certificate verify failed", False, True),
    *(
        (proxy_refused(code), f"the proxy refused: {code}", False, code in (401, 403, 407))
        for code in (400, 401, 402, 403, 404, 406, 407, 408, 502)
    ),
    (
        aiohttp.ClientConnectorSSLError(KEY, OSError(0, "wrong version number")),
        "no secure connection: wrong version number",
        False,
        False,
    ),
    (
        aiohttp.ClientConnectorError(KEY, ConnectionRefusedError(111, "Connect call failed ('10.0.0.1', 443)")),
        "cannot connect: Connection refused",
        False,
        False,
    ),
    (
        aiohttp.ClientConnectorDNSError(KEY, socket.gaierror(-2, "Name or service not known")),
        "cannot connect: Name or service not known",
        False,
        False,
    ),
    (
        aiohttp.ClientConnectorError(KEY, OSError("multiple exceptions")),
        "cannot connect: multiple exceptions",
        False,
        False,
    ),
    (
        aiohttp.ConnectionTimeoutError("Connection timeout to host"),
        "cannot connect: Connection timeout to host",
        False,
        False,
    ),
    (TimeoutError(), "no answer in time", True, False),
    (aiohttp.ServerTimeoutError(), "no answer in time", True, False),
    (aiohttp.ServerDisconnectedError(), "Server disconnected", True, False),
    (aiohttp.ClientPayloadError(), "ClientPayloadError", True, False),
    (ConnectionResetError(104, "Connection reset by peer"), "[Errno 104] Connection reset by peer", True, False),
    (ValueError("odd header"), "odd header", True, False),
]


class Failing:
    """A request that fails, awaited or entered."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def _fail(self) -> None:
        raise self.error

    def __await__(self) -> Any:
        return self._fail().__await__()

    async def __aenter__(self) -> None:
        raise self.error

    async def __aexit__(self, *_: object) -> None:
        raise AssertionError("never entered")


@pytest.mark.parametrize(("error", "text", "sent", "lasting"), FAILURES, ids=[text for _, text, _, _ in FAILURES])
@pytest.mark.parametrize("way", ["GET", "POST", "stream"])
def test_failed_attempt_means(
    way: str, error: Exception, text: str, sent: bool, lasting: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is repeated unless that cannot help; a write only if it never left; a stream never (its reader resumes it)."""
    attempts: list[str] = []

    def request(_session: object, method: str, *_: object, **__: object) -> Failing:
        attempts.append(method)
        return Failing(error)

    async def run() -> None:
        monkeypatch.setattr(aiohttp.ClientSession, "request", request)
        connection = Connection("https://server", "test")
        clock = FakeClock(instant=60.0)
        async with ApiClient(connection, limits=Limits(attempts=3), clock=clock, environment={}) as client:
            with pytest.raises(UnreachableError) as failed:
                await ask(client, way)
        assert str(failed.value) == f"https://server/api: {text}"
        assert (failed.value.sent, failed.value.lasting) == (sent, lasting)
        again = not lasting and (way == "GET" or (way == "POST" and not sent))
        assert len(attempts) == (3 if again else 1)

    asyncio.run(run())


def test_server_that_speaks_no_tls_is_reported_as_that() -> None:
    async def run() -> None:
        async with scripted(OK) as server:
            server.url = server.url.replace("http:", "https:")
            async with client_of(server, limits=Limits(attempts=1)) as client:
                with pytest.raises(UnreachableError, match="no secure connection: ") as failed:
                    await client.get("/api", deadline=DEADLINE)
        assert (failed.value.sent, failed.value.lasting) == (False, False)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("code", "ends"),
    [(200, None), (204, None), (299, None), (300, "redirected"), (304, "redirected"), (399, "redirected"), (400, "no")],
)
def test_which_codes_are_answers(code: int, ends: str | None) -> None:
    """2xx alone; a redirect is refused, as it would carry the credentials elsewhere."""

    async def run() -> None:
        reply = status(code) if ends == "no" else answer({}, code, Location="http://elsewhere.invalid/")
        async with scripted(reply) as server, client_of(server) as client:
            if ends is None:
                assert (await client.get("/api")).status == code
            else:
                with pytest.raises(ApiError, match=ends) as refused:
                    await client.get("/api")
                assert refused.value.code == code
            assert len(server.seen) == 1

    asyncio.run(run())


@pytest.mark.parametrize(("code", "opened"), [(200, True), (201, False), (204, False), (302, False), (404, False)])
def test_stream_is_an_answer_with_code_200(code: int, opened: bool) -> None:
    async def run() -> None:
        reply = EVENTS if opened else answer({}, code)
        async with scripted(reply) as server, client_of(server) as client:
            with contextlib.nullcontext() if opened else pytest.raises(ApiError) as refused:
                await ask(client, "stream")
            if refused is not None:
                assert refused.value.code == code
            [sent] = server.seen
        assert (sent.headers["Accept"], sent.headers["Accept-Encoding"]) == ("application/json", "identity")

    asyncio.run(run())


@pytest.mark.parametrize("way", ["GET", "POST", "stream"])
@pytest.mark.parametrize(
    ("codes", "changes", "requests", "ends"),
    [
        ((401,), True, 2, None),
        ((401,), False, 1, 401),  # the same token would be refused again
        ((401, 401), True, 2, 401),  # once
        ((403,), True, 1, 403),  # authenticated without the right
        ((), True, 1, None),
    ],
)
def test_other_credentials_are_tried_once_after_401(
    way: str, codes: tuple[int, ...], changes: bool, requests: int, ends: int | None, tmp_path: Path
) -> None:
    """Whatever is asked: nothing was done. The token is one of a file that is replaced now and then."""
    token = tmp_path / "token"
    token.write_text("first")

    def refusing(code: int) -> Reply:
        async def reply(request: web.Request) -> web.StreamResponse:
            if changes:
                token.write_text(f"{token.read_text()}+")
            return await status(code)(request)

        return reply

    async def run() -> None:
        last = EVENTS if way == "stream" else OK
        identity = Identity(token_file=token)
        async with (
            scripted(*map(refusing, codes), last) as server,
            client_of(server, identity=identity) as client,
        ):
            if ends is None:
                await ask(client, way)
            else:
                with pytest.raises(ApiError) as refused:
                    await ask(client, way)
                assert refused.value.code == ends
            sent = [request.headers["Authorization"] for request in server.seen]
        assert sent == ["Bearer first", "Bearer first+"][:requests]

    asyncio.run(run())


class Noted:
    """Notified of requests (`RequestWatch`)."""

    def __init__(self) -> None:
        self.waits: list[tuple[str, str, float]] = []
        self.answers: list[tuple[str, str, int | None, float]] = []

    def held_back(self, method: str, host: str, seconds: float) -> None:
        self.waits.append((method, host, seconds))

    def answered(self, method: str, host: str, code: int | None, seconds: float) -> None:
        self.answers.append((method, host, code, seconds))


@pytest.mark.parametrize(
    ("way", "code"), [*((way, code) for way in ("GET", "POST", "stream") for code in (200, 404)), ("POST", None)]
)
def test_every_attempt_is_notified_with_its_times(way: str, code: int | None) -> None:
    """How long it waited for its turn, and how long the server took; no code if there was no answer."""
    clock = FakeClock(instant=60.0)

    async def slow(request: web.Request) -> web.StreamResponse:
        clock.time += 2.0
        reply = {200: EVENTS if way == "stream" else OK, 404: status(404), None: cut}[code]
        return await reply(request)

    async def run() -> None:
        limits = Limits(qps=0.125, burst=1, attempts=1)
        async with scripted(slow) as server, client_of(server, clock=clock, limits=limits) as client:
            client.watch = noted = Noted()
            for _ in range(2):
                with contextlib.suppress(ClientError):
                    await ask(client, way)
            host = server.url.removeprefix("http://")
        method = "POST" if way == "POST" else "GET"
        assert noted.waits == [(method, host, 0.0), (method, host, 6.0)]  # 8 s for each, of which 2 had gone
        assert noted.answers == [(method, host, code, 2.0)] * 2

    asyncio.run(run())


@pytest.mark.parametrize(("deadline", "requests"), [(4.9, 1), (5.0, 1), (5.1, 2)])
def test_attempt_that_would_begin_with_the_deadline_is_not_waited_for(deadline: float, requests: int) -> None:
    async def run() -> None:
        limits = Limits(backoff=BackoffPolicy(initial=5.0, jitter=0.0), attempts=2)
        async with scripted(status(500)) as server, client_of(server, limits=limits) as client:
            with pytest.raises(ApiError):
                await client.get("/api", deadline=deadline)
            assert len(server.seen) == requests

    asyncio.run(run())


def test_wish_of_the_server_is_extended_by_half_a_second_at_most() -> None:
    """However long the client's own wait would be by then."""

    async def run() -> None:
        clock = FakeClock(instant=60.0)
        refusal = status(429, retry_after=1)
        async with scripted(refusal) as server, client_of(server, clock=clock) as client:
            with pytest.raises(ApiError):
                await client.get("/api", deadline=300.0)
        assert len(clock.slept) == 5
        assert clock.slept[3:] == [1.5, 1.5]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("of_kubeconfig", "of_environment", "given", "through"),
    [
        (None, None, True, "server"),
        ("first", None, True, "first"),
        (None, "second", True, "second"),
        ("first", "second", True, "first"),
        (None, "second", False, "second"),  # no environment given: that of the process
    ],
)
def test_which_proxy_a_request_goes_through(
    of_kubeconfig: str | None, of_environment: str | None, given: bool, through: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`proxy-url` of the kubeconfig wins over the environment."""
    for name in ("HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)

    async def run() -> None:
        async with scripted(OK) as first, scripted(OK) as second, scripted(OK) as last:
            proxies = {"first": first, "second": second}
            # A name that only a proxy would look up, or an address that is reached without one.
            server = last.url if through == "server" else "http://server.invalid"
            environment = {} if of_environment is None else {"HTTP_PROXY": proxies[of_environment].url}
            if not given:
                monkeypatch.setenv("HTTP_PROXY", environment["HTTP_PROXY"])
            proxy = None if of_kubeconfig is None else proxies[of_kubeconfig].url
            connection = Connection(server, "test", proxy=proxy)
            limits = Limits(attempts=1)
            async with ApiClient(connection, limits=limits, environment=environment if given else None) as client:
                await client.get("/api", deadline=DEADLINE)
            seen = {name: len(one.seen) for name, one in {**proxies, "server": last}.items()}
        assert seen == {name: int(name == through) for name in seen}

    asyncio.run(run())


def test_environment_counts_only_as_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """aiohttp itself does not look for proxies (it knows no NO_PROXY of Go's form)."""
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)

    async def run() -> None:
        async with scripted(OK) as server, client_of(server, limits=Limits(attempts=1)) as client:
            await client.get("/api", deadline=DEADLINE)

    asyncio.run(run())


def test_chance_is_the_one_that_was_given() -> None:
    chance = random.Random(1)
    connection = Connection("http://server", "test")
    assert ApiClient(connection, chance=chance, environment={}).chance is chance
    assert isinstance(ApiClient(connection, environment={}).chance, random.Random)
