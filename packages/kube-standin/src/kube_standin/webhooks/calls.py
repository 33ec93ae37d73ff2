"""Calls of webhooks: within a timeout, over shared connections, a limited number at a time.

The certificate of a webhook is checked only against the ``caBundle`` of its configuration: the system's trusted
authorities do not count, and without a bundle no call is made. No credentials are sent.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import ssl
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from kube_rules.errors import excerpt
from kube_rules.json import Json
from kube_standin.schema import parse_json_strict
from kube_standin.webhooks.exchange import ConnectionLostError, HttpAnswer, HttpsConnection
from kube_standin.webhooks.reach import Destination, ServicePorts, WebhookCallError, WebhookReach
from kube_standin.worker_thread import off_loop

_LARGE = 64 * 1024
_KEPT_CONTEXTS = 64
_LONGEST_BUNDLE = 256 * 1024
_LONGEST_TEXT = 2048

PoolKey = tuple[str, int, str, bool, bytes]
"""Host, port and name of a server, whether the operator listed it, and the digest of its authorities."""


@dataclass(frozen=True)
class CallLimits:
    """Limits of calls. ``response``: bytes of one; ``at_once``: calls in total; ``per_webhook``: of one webhook;
    ``idle``: connections kept open, each for ``idle_seconds``.
    """

    response: int = 8 * 1024 * 1024
    at_once: int = 128
    per_webhook: int = 16
    idle: int = 64
    idle_seconds: float = 30.0


class WebhookCaller:
    """Calls webhooks for one server; call `aclose` at the end."""

    def __init__(
        self, reach: WebhookReach | None = None, ports: ServicePorts | None = None, limits: CallLimits | None = None
    ) -> None:
        self._reach = reach or WebhookReach()
        self._ports = ports
        self._limits = limits or CallLimits()
        self._total = asyncio.Semaphore(self._limits.at_once)
        self._slots: dict[str, tuple[asyncio.Semaphore, int]] = {}
        self._contexts: OrderedDict[bytes, ssl.SSLContext] = OrderedDict()
        self._idle: OrderedDict[HttpsConnection, PoolKey] = OrderedDict()

    async def call(self, webhook: str, client_config: Mapping[str, Any], body: bytes, seconds: float) -> Json:
        """Post a JSON body to a webhook and return the JSON object of the response.

        Calls with the same `webhook` count together; `seconds` limits the whole call, including the wait for other
        calls. Raises WebhookCallError with a message as kube-apiserver's.
        """
        destination = self._reach.destination(client_config, self._ports)
        query = f"timeout={seconds:g}s"
        try:
            async with asyncio.timeout(seconds), self._slot(webhook):
                answer = await self._post(destination, client_config, query, body)
                return await self._decoded(answer)
        except TimeoutError as error:
            reason = f'Post "{destination.url}?{query}": context deadline exceeded'
            raise WebhookCallError(reason) from error
        except _UnreachableError as error:
            raise WebhookCallError(f'Post "{destination.url}?{query}": {error}') from error

    async def aclose(self) -> None:
        """Close all connections."""
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    @asynccontextmanager
    async def _slot(self, webhook: str) -> AsyncIterator[None]:
        """Wait until the number of calls is below the limits, of this webhook and in total."""
        semaphore, users = self._slots.get(webhook) or (asyncio.Semaphore(self._limits.per_webhook), 0)
        self._slots[webhook] = semaphore, users + 1
        try:
            async with semaphore, self._total:
                yield
        finally:
            users = self._slots[webhook][1] - 1
            if users:
                self._slots[webhook] = semaphore, users
            else:
                del self._slots[webhook]

    async def _post(
        self, destination: Destination, client_config: Mapping[str, Any], query: str, body: bytes
    ) -> HttpAnswer:
        try:
            digest, context = self._context(client_config)
            key = destination.host, destination.port, destination.server_name, destination.chosen, digest
            idle = self._take(key)
            if idle is not None:
                try:
                    return await self._over(idle, key, destination, query, body)
                except ConnectionLostError:
                    pass
            fresh = await self._connect(destination, context)
            return await self._over(fresh, key, destination, query, body)
        except WebhookCallError as error:
            raise _UnreachableError(str(error)) from error

    async def _over(
        self, connection: HttpsConnection, key: PoolKey, destination: Destination, query: str, body: bytes
    ) -> HttpAnswer:
        """Send a request over a connection; keep the connection open if it is reusable, else close it."""
        answer: HttpAnswer | None = None
        try:
            answer = await connection.post(destination, query, body, self._limits.response)
            return answer
        finally:
            if answer is not None and connection.reusable:
                connection.idle_since = asyncio.get_running_loop().time()
                self._idle[connection] = key
                self._sweep()
            else:
                connection.close()

    async def _connect(self, destination: Destination, context: ssl.SSLContext) -> HttpsConnection:
        failed: WebhookCallError | None = None
        for address in await self._reach.addresses(destination):
            try:
                return await HttpsConnection.open(address, destination.port, destination.server_name, context)
            except WebhookCallError as error:
                failed = failed or error
        raise failed or WebhookCallError("the host has no address")

    def _take(self, key: PoolKey) -> HttpsConnection | None:
        """Return the most recently used connection for a key, and drop expired ones."""
        self._sweep()
        for connection in reversed(self._idle):
            if self._idle[connection] == key:
                del self._idle[connection]
                if connection.reusable:
                    return connection
                connection.close()
                return None
        return None

    def _sweep(self) -> None:
        oldest = asyncio.get_running_loop().time() - self._limits.idle_seconds
        while self._idle:
            connection = next(iter(self._idle))
            if len(self._idle) <= self._limits.idle and connection.idle_since >= oldest:
                return
            del self._idle[connection]
            connection.close()

    def _context(self, client_config: Mapping[str, Any]) -> tuple[bytes, ssl.SSLContext]:
        """Return TLS settings that trust only the caBundle of a clientConfig; raises WebhookCallError."""
        bundle = client_config.get("caBundle") or ""
        if not bundle:
            raise WebhookCallError(
                "tls: failed to verify certificate: clientConfig.caBundle is empty, and the authorities of the system "
                "are not trusted"
            )
        digest = hashlib.sha256(bundle.encode()).digest()
        context = self._contexts.get(digest)
        if context is None:
            context = self._contexts[digest] = _trusting(bundle)
            if len(self._contexts) > _KEPT_CONTEXTS:
                self._contexts.popitem(last=False)
        self._contexts.move_to_end(digest)
        return digest, context

    @staticmethod
    async def _decoded(answer: HttpAnswer) -> Json:
        if answer.status != 200:
            raise WebhookCallError(_refusal(answer))
        decode = parse_json_strict
        try:
            body, _ = await off_loop(decode, answer.body) if len(answer.body) > _LARGE else decode(answer.body)
        except ValueError as error:
            raise WebhookCallError(f"the response is not JSON: {excerpt(str(error))}") from error
        return body


class _UnreachableError(Exception):
    """Raised for a request without a response; the text is the reason."""


def _trusting(bundle: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.hostname_checks_common_name = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # any certificate of the bundle is trusted, as in Go
    context.set_alpn_protocols(["http/1.1"])
    try:
        pem = base64.b64decode(bundle, validate=True)
        if len(pem) > _LONGEST_BUNDLE:
            raise WebhookCallError(f"clientConfig.caBundle is longer than {_LONGEST_BUNDLE} bytes")
        context.load_verify_locations(cadata=pem.decode("ascii"))
    except (ssl.SSLError, ValueError, binascii.Error) as error:
        raise WebhookCallError("unable to load root certificates: clientConfig.caBundle is not in PEM") from error
    return context


_REFUSALS = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}


def _refusal(answer: HttpAnswer) -> str:
    """Return client-go's message for a response other than 200 (apimachinery, NewGenericServerResponse)."""
    text = excerpt(answer.body[:_LONGEST_TEXT].decode("utf-8", "replace").strip(), _LONGEST_TEXT)
    if answer.status == 403 and text:
        return text
    if answer.status in _REFUSALS:
        return _REFUSALS[answer.status]
    if answer.status >= 500:
        return f'an error on the server ("{text or "unknown"}") has prevented the request from succeeding'
    return f"the server responded with the status code {answer.status} but did not return more information"
