"""Requests to one API server: credentials, deadlines, retries, rate limits; and streams for watches.

Retries follow client-go's rules, with jittered backoff; a Retry-After of the server takes precedence:

| event | repeated | |---|---| | the connection could not be made (nothing was sent) | any request | | 429, or 5xx with
Retry-After (the server did not process it) | any request | | 500, 502, 503, 504 without Retry-After; cut in the middle
of the response | reads, and writes marked `repeatable` | | 401 with credentials that can be renewed | any request, once
| | an untrusted certificate | never |

Invariants: no request outlives its deadline. A guard is called before every attempt, so that a client that lost its
right to write stops writing at once. Redirects are refused, as they would send the credentials elsewhere. Responses are
limited in size.
"""

from __future__ import annotations

import asyncio
import os
import random
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import quote

import aiohttp
import msgspec
from multidict import CIMultiDict
from yarl import URL

from reprieve.client import proxies
from reprieve.client.clock import REAL_CLOCK, Clock
from reprieve.client.connection import Connection, Impersonation
from reprieve.client.credentials import Credential, credentials_for
from reprieve.client.errors import ApiError, ClientError, UnreachableError, api_error
from reprieve.client.rate_limits import Backoff, BackoffPolicy, TokenBucket
from reprieve.client.tls import TlsContexts

USER_AGENT: Final = "reprieve"
JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"

Query = Mapping[str, str] | Sequence[tuple[str, str]]
Guard = Callable[[], None]
"""Raises if the request may no longer be made."""

T = TypeVar("T")
_READS: Final = frozenset(("GET", "HEAD"))
_UNSURE: Final = frozenset((500, 502, 503, 504))


BACKOFF: Final = BackoffPolicy(initial=0.2, maximum=8.0)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a client; times in seconds, sizes in bytes. The rate limit is kube-scheduler's default."""

    qps: float = 50.0
    burst: int = 100
    deadline: float = 30.0
    """For one request with all its retries."""
    connect: float = 10.0
    attempts: int = 6
    backoff: BackoffPolicy = BACKOFF
    longest_retry_after: float = 60.0
    max_answer: int = 512 * 1024 * 1024
    connections: int = 100


@dataclass(frozen=True, slots=True)
class ApiResponse:
    """A complete 2xx response."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)

    def read(self, of: type[T]) -> T:
        """Return the body as an object of a type; raises UnreachableError for other content."""
        try:
            return msgspec.json.decode(self.body, type=of)
        except (ValueError, RecursionError) as error:
            raise UnreachableError(f"the answer of the API server cannot be read: {error}") from None


class RequestWatch(Protocol):
    """Is notified of every attempt of a request; `host` is the server's, with its port."""

    def held_back(self, method: str, host: str, seconds: float) -> None:
        """Record how long an attempt waited for its turn (`Limits.qps`)."""

    def answered(self, method: str, host: str, code: int | None, seconds: float) -> None:
        """Record the status of a response, None without a response."""


class Stream:
    """An open response that continues."""

    def __init__(self, response: aiohttp.ClientResponse, where: str) -> None:
        self._response = response
        self._where = where

    async def piece(self) -> bytes:
        """Return the next bytes, empty at the end. Raises UnreachableError if the connection is cut."""
        try:
            return await self._response.content.readany()
        except (aiohttp.ClientError, OSError, ValueError, asyncio.IncompleteReadError) as error:
            raise UnreachableError(f"{self._where}: the stream was cut: {_why(error)}") from None

    def cut(self) -> None:
        """Close the connection; a waiting `piece` raises UnreachableError."""
        self._response.close()


class ApiClient:
    """A client of one server for one user; an asynchronous context that holds the connections."""

    def __init__(
        self,
        connection: Connection,
        *,
        limits: Limits = Limits(),
        clock: Clock = REAL_CLOCK,
        chance: random.Random | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.connection = connection
        self.limits = limits
        self.clock = clock
        self.chance = chance or random.Random()
        self._base = URL(connection.server)
        self._environment = os.environ if environment is None else environment
        self._proxy = connection.proxy or proxies.from_environment(connection.server, self._environment)
        self._credentials = credentials_for(connection, clock)
        self._tls = TlsContexts(connection.tls, clock, connection.source)
        self._bucket = TokenBucket(limits.qps, limits.burst, clock)
        self._headers = _fixed_headers(connection)
        self._session: aiohttp.ClientSession | None = None
        self._host = f"{self._base.host}:{self._base.port}"
        self.watch: RequestWatch | None = None

    async def __aenter__(self) -> ApiClient:
        connector = aiohttp.TCPConnector(limit=self.limits.connections, ttl_dns_cache=60)
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            read_bufsize=1 << 20,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def get(
        self, path: str, query: Query = (), *, accept: str = JSON, deadline: float | None = None
    ) -> ApiResponse:
        """Send a GET request. See `request`."""
        return await self.request("GET", path, query, accept=accept, deadline=deadline)

    async def request(
        self,
        method: str,
        path: str,
        query: Query = (),
        *,
        body: Any = None,
        content_type: str = JSON,
        accept: str = JSON,
        deadline: float | None = None,
        repeatable: bool = False,
        guard: Guard | None = None,
    ) -> ApiResponse:
        """Send a request and return the complete 2xx response.

        `path` is below the server's URL, quoted; `body` is plain data or bytes. Raises ApiError for a refusal,
        UnreachableError without a response within `deadline` seconds (default: the limits'), CredentialError, and the
        errors of `guard`.
        """
        ends = self.clock.monotonic() + (self.limits.deadline if deadline is None else deadline)
        data = body if isinstance(body, bytes | None) else msgspec.json.encode(body)
        headers = {"Accept": accept} if data is None else {"Accept": accept, "Content-Type": content_type}
        unsure_too = repeatable or method in _READS
        backoff = Backoff(self.limits.backoff, self.chance)
        renewed = False
        attempt = 0
        while True:
            attempt += 1
            await self._turn(method)
            if guard is not None:
                guard()
            credential = await self._credentials.current()
            left = ends - self.clock.monotonic()
            if left <= 0:
                raise UnreachableError(f"{self._where(path)}: no answer in time", sent=attempt > 1)
            try:
                return await self._once(method, path, query, data, headers, credential, left)
            except ApiError as error:
                if error.code == 401 and not renewed:
                    renewed = True
                    if await self._credentials.renewed(credential):
                        continue
                    raise
                wait = self._wait_after_refusal(error, unsure_too, backoff)
                failure: ClientError = error
            except UnreachableError as error:
                again = not error.lasting and (unsure_too or not error.sent)
                wait = backoff.next() if again else None
                failure = error
            if wait is None or attempt >= self.limits.attempts or self.clock.monotonic() + wait >= ends:
                raise failure
            await self.clock.sleep(wait)

    async def _turn(self, method: str) -> None:
        """Wait for the request's turn."""
        began = self.clock.monotonic()
        await self._bucket.take()
        if self.watch is not None:
            self.watch.held_back(method, self._host, self.clock.monotonic() - began)

    def _answered(self, method: str, code: int | None, began: float) -> None:
        if self.watch is not None:
            self.watch.answered(method, self._host, code, self.clock.monotonic() - began)

    def _wait_after_refusal(self, error: ApiError, unsure_too: bool, backoff: Backoff) -> float | None:
        """Return the seconds until the request may be repeated, None if it may not (the table above)."""
        retry_requested = error.retry_after is not None and (error.code == 429 or error.code >= 500)
        if not (error.code == 429 or retry_requested or (error.code in _UNSURE and unsure_too)):
            return None
        wait = backoff.next()
        if error.retry_after is None:
            return wait
        # The requested time, and a little more so that clients with the same response do not retry at once.
        return min(error.retry_after, self.limits.longest_retry_after) + min(wait, 0.5)

    async def _once(
        self,
        method: str,
        path: str,
        query: Query,
        data: bytes | None,
        headers: Mapping[str, str],
        credential: Credential,
        left: float,
    ) -> ApiResponse:
        where = self._where(path)
        timeout = aiohttp.ClientTimeout(total=left, sock_connect=min(self.limits.connect, left))
        began = self.clock.monotonic()
        code = None
        try:
            async with self._open(method, path, query, data, headers, credential, timeout) as response:
                code = response.status
                body = await self._body(response, where)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError, asyncio.IncompleteReadError) as error:
            raise _unreachable(error, where) from None
        finally:
            self._answered(method, code, began)
        if 200 <= response.status < 300:
            return ApiResponse(response.status, response.headers, body)
        if 300 <= response.status < 400:
            raise ApiError(response.status, "", f"{where}: redirected elsewhere; redirects are not followed")
        raise api_error(response.status, body, response.headers, where)

    async def _body(self, response: aiohttp.ClientResponse, where: str) -> bytes:
        pieces: list[bytes] = []
        size = 0
        while piece := await response.content.readany():
            size += len(piece)
            if size > self.limits.max_answer:
                response.close()
                raise UnreachableError(
                    f"{where}: the answer is larger than {self.limits.max_answer} bytes", lasting=True
                )
            pieces.append(piece)
        return b"".join(pieces)

    def _open(
        self,
        method: str,
        path: str,
        query: Query,
        data: bytes | None,
        headers: Mapping[str, str],
        credential: Credential,
        timeout: aiohttp.ClientTimeout,
    ) -> Any:
        assert self._session is not None, "the client is used outside of its context"
        sent = self._headers.copy()
        sent.update(headers)
        if credential.authorization is not None:
            sent["Authorization"] = credential.authorization
        url = self._base.joinpath(path.lstrip("/"), encoded=True).with_query(query or None)
        secure: ssl.SSLContext | bool = True
        if url.scheme == "https":
            secure = self._tls.context(credential.certificate)
        return self._session.request(
            method,
            url,
            data=data,
            headers=sent,
            ssl=secure,
            server_hostname=self.connection.tls.server_name,
            proxy=self._proxy,
            timeout=timeout,
            allow_redirects=False,
        )

    @asynccontextmanager
    async def stream(self, path: str, query: Query, *, opening: float) -> AsyncIterator[Stream]:
        """Yield a response that is read piece by piece, without a timeout except for its first byte: `opening` seconds.

        One attempt (and one more after a 401 with credentials that can be renewed). Raises as `request`.
        """
        where = self._where(path)
        await self._turn("GET")
        response = await self._answering(path, query, opening, where)
        try:
            yield Stream(response, where)
        finally:
            response.close()

    async def _answering(self, path: str, query: Query, opening: float, where: str) -> aiohttp.ClientResponse:
        credential = await self._credentials.current()
        # Events must arrive when they occur: a compressor would delay them.
        headers = {"Accept": JSON, "Accept-Encoding": "identity"}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=min(self.limits.connect, opening))
        for renewing in (True, False):
            began = self.clock.monotonic()
            try:
                async with asyncio.timeout(opening):
                    response: aiohttp.ClientResponse = await self._open(
                        "GET", path, query, None, headers, credential, timeout
                    )
                    self._answered("GET", response.status, began)
                    if response.status == 200:
                        return response
                    try:
                        body = await self._body(response, where)
                    except BaseException:
                        response.close()  # an endless refusal would keep the connection open
                        raise
            except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
                raise _unreachable(error, where) from None
            refusal = api_error(response.status, body, response.headers, where)
            if not (renewing and refusal.code == 401 and await self._credentials.renewed(credential)):
                raise refusal
            credential = await self._credentials.current()
        raise refusal

    def _where(self, path: str) -> str:
        return f"{self.connection.server}/{path.lstrip('/')}"


def _fixed_headers(connection: Connection) -> CIMultiDict[str]:
    headers: CIMultiDict[str] = CIMultiDict()
    headers["User-Agent"] = USER_AGENT
    headers["Accept-Encoding"] = "gzip" if connection.compression else "identity"
    for name, value in _impersonation(connection.impersonation):
        headers.add(name, value)
    return headers


def _impersonation(user: Impersonation) -> list[tuple[str, str]]:
    if not user.user:
        return []
    result = [("Impersonate-User", user.user)]
    if user.uid:
        result.append(("Impersonate-Uid", user.uid))
    result += [("Impersonate-Group", group) for group in user.groups]
    result += [(f"Impersonate-Extra-{quote(key, safe='')}", value) for key, values in user.extra for value in values]
    return result


def _unreachable(error: BaseException, where: str) -> UnreachableError:
    """Return the error of a failed attempt, with its meaning for the next one."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError | ssl.SSLCertVerificationError):
        return UnreachableError(
            f"{where}: the server's certificate is not trusted: {_why(error)}", sent=False, lasting=True
        )
    if isinstance(error, aiohttp.ClientHttpProxyError):
        refused = error.status in (401, 403, 407)
        return UnreachableError(f"{where}: the proxy refused: {error.status}", sent=False, lasting=refused)
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        return UnreachableError(f"{where}: no secure connection: {_why(error)}", sent=False)
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return UnreachableError(f"{where}: cannot connect: {_why(error)}", sent=False)
    if isinstance(error, TimeoutError):
        return UnreachableError(f"{where}: no answer in time")
    return UnreachableError(f"{where}: {_why(error)}")


def _why(error: BaseException) -> str:
    """Return the root cause of a connection error in a few words."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        inner = error.certificate_error
        return getattr(inner, "verify_message", "") or str(inner)
    if isinstance(error, aiohttp.ClientConnectorError):
        inner = error.os_error
        number = inner.errno or 0  # negative for a name that cannot be resolved
        return os.strerror(number) if number > 0 else inner.strerror or str(inner)
    return str(error) or type(error).__name__
