"""HTTP extenders over the network: the transports of `reprieve.plugins.extender` (scheduling.md 6).

Calls are synchronous: a cycle waits for its extenders, as kube-scheduler's does, in its own thread so that the event
loop continues (`Plugin.blocking`).  A connection stays open between calls, and is opened once more if the extender has
closed it meanwhile.

Bodies: pods and nodes have only the fields that the scheduler reads (labels, annotations, requests, limits, affinity,
tolerations, taints, allocatable, ...); other fields, such as the commands of containers, are missing.

Security: as upstream, a server is not verified if `enableHTTPS` is set without a certificate authority; redirects are
not followed and proxies not used.
"""

from __future__ import annotations

import asyncio
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

import msgspec

from kube_rules import objects
from kube_rules.meta import KubernetesObject
from reprieve.client.clock import REAL_CLOCK
from reprieve.client.connection import TlsSettings
from reprieve.client.errors import ClientError, ConfigError, UnreachableError
from reprieve.client.tls import TlsContexts
from reprieve.cluster.pods import PodRecord
from reprieve.framework.configuration import ConfigurationError, Extender
from reprieve.framework.instructions import CallExtender
from reprieve.framework.plugin_guard import PluginIncident
from reprieve.plugins.extender import ExtenderError, Extenders, HttpExtender, address
from reprieve.scheduling.pod_changes import uid_of

MAX_ANSWER: Final = 64 * 1024 * 1024
"""The largest response in bytes; one with all nodes of a large cluster is smaller."""
_CHUNK: Final = 64 * 1024


class Bodies:
    """Pods and nodes of the API, for the bodies of calls. Written by informers, read by cycles."""

    def __init__(self, items: Iterable[KubernetesObject] = ()) -> None:
        self._pods: dict[str, objects.Pod] = {}
        self._nodes: dict[str, objects.Node] = {}
        for item in items:
            self.seen(item)

    def seen(self, item: KubernetesObject) -> None:
        """Store a new or changed object."""
        if isinstance(item, objects.Pod):
            self._pods[uid_of(item)] = item
        elif isinstance(item, objects.Node):
            self._nodes[item.metadata.name] = item

    def gone(self, item: KubernetesObject) -> None:
        """Forget a deleted object."""
        if isinstance(item, objects.Pod):
            self._pods.pop(uid_of(item), None)
        elif isinstance(item, objects.Node):
            self._nodes.pop(item.metadata.name, None)

    def pod(self, pod: PodRecord) -> Mapping[str, Any]:
        """Return the v1.Pod. Raises ExtenderError."""
        return _body(self._pods.get(pod.uid), f"pod {pod.key}")

    def node(self, name: str) -> Mapping[str, Any]:
        """Return the v1.Node. Raises ExtenderError."""
        return _body(self._nodes.get(name), f"node {name}")


def _body(item: KubernetesObject | None, subject: str) -> Mapping[str, Any]:
    if item is None:
        raise ExtenderError(f"{subject} is not known any more")
    return {"kind": item.KIND, "apiVersion": "v1", **msgspec.to_builtins(item)}


class HttpTransport:
    """One extender over HTTP. Calls may come from any thread and are made one at a time. Raises ConfigurationError."""

    def __init__(self, settings: Extender, bodies: Bodies, *, where: str = "") -> None:
        self._connection: http.client.HTTPConnection | None = None
        self._settings = settings
        self._bodies = bodies
        self._target = _target(settings, where)
        self._tls = _tls(settings, where) if self._target.scheme == "https" else None
        self._lock = threading.Lock()

    def pod(self, pod: PodRecord) -> Mapping[str, Any]:
        """See `reprieve.plugins.extender.Transport.pod`."""
        return self._bodies.pod(pod)

    def node(self, name: str) -> Mapping[str, Any]:
        """See `reprieve.plugins.extender.Transport.node`."""
        return self._bodies.node(name)

    def call(self, verb: str, body: Mapping[str, Any]) -> Any:
        """See `reprieve.plugins.extender.Transport.call`. The extender's timeout covers the whole call."""
        return self.post(address(self._settings, verb), body, self._settings.seconds)

    def post(self, url: str, body: Mapping[str, Any], seconds: float) -> Any:
        """POST to a full URL of this extender. Raises ExtenderError, UnsentError if nothing was sent."""
        data = msgspec.json.encode(body)
        ends = time.monotonic() + seconds
        if not self._lock.acquire(timeout=seconds):
            raise UnsentError(f"busy for {seconds:g} s")
        try:
            try:
                return self._exchange(url, data, ends, seconds)
            except _StaleError:  # an idle connection that was closed meanwhile: retry with a new one
                return self._exchange(url, data, ends, seconds)
        finally:
            self._lock.release()

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._forget()

    def __del__(self) -> None:
        self._forget()

    def _exchange(self, url: str, data: bytes, ends: float, seconds: float) -> Any:
        reused = self._connection is not None
        connection = self._connection or self._connect(ends, seconds)
        self._connection = connection
        path = urlsplit(url)
        target = (path.path or "/") + (f"?{path.query}" if path.query else "")
        try:
            self._limit(connection, ends)
            connection.request("POST", target, data, {"Content-Type": "application/json", "Accept": "application/json"})
            answer = connection.getresponse()
            text = self._read(connection, answer, ends)
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError) as error:
            self._forget()
            if reused:
                raise _StaleError from None
            raise ExtenderError(_reason_of(error)) from None
        except TimeoutError:
            self._forget()
            raise ExtenderError(f"gave no answer within {seconds:g} s") from None
        except (OSError, http.client.HTTPException) as error:
            self._forget()
            raise ExtenderError(_reason_of(error)) from None
        if answer.will_close:
            self._forget()
        if answer.status != 200:
            raise ExtenderError(f"failed {url.rpartition('/')[2]}: HTTP status {answer.status}")
        try:
            return msgspec.json.decode(text)
        except ValueError as error:
            raise ExtenderError(f"the answer is no JSON: {error}") from None

    def _connect(self, ends: float, seconds: float) -> http.client.HTTPConnection:
        target = self._target
        host, port = target.hostname or "", target.port or (443 if self._tls is not None else 80)
        connection = http.client.HTTPConnection(host, port)
        try:
            sock = socket.create_connection((host, port), timeout=max(ends - time.monotonic(), 0.001))
            try:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if self._tls is not None:
                    name = self._settings.tls_config.server_name if self._settings.tls_config else ""
                    sock.settimeout(max(ends - time.monotonic(), 0.001))
                    sock = self._tls.context().wrap_socket(sock, server_hostname=name or host)
            except BaseException:
                sock.close()
                raise
        except TimeoutError:
            raise UnsentError(f"cannot be reached within {seconds:g} s") from None
        except (OSError, ssl.SSLError, ConfigError) as error:
            raise UnsentError(_reason_of(error)) from None
        connection.sock = sock
        return connection

    def _limit(self, connection: http.client.HTTPConnection, ends: float) -> None:
        left = ends - time.monotonic()
        if left <= 0:
            raise TimeoutError
        assert connection.sock is not None
        connection.sock.settimeout(left)

    def _read(self, connection: http.client.HTTPConnection, answer: http.client.HTTPResponse, ends: float) -> bytes:
        """Return the body; the timeout covers all of it, however slowly it arrives."""
        received = bytearray()
        while True:
            if connection.sock is not None:
                self._limit(connection, ends)
            elif time.monotonic() >= ends:
                raise TimeoutError
            chunk = answer.read1(_CHUNK)
            if not chunk:
                answer.close()
                return bytes(received)
            received += chunk
            if len(received) > MAX_ANSWER:
                raise http.client.HTTPException(f"the answer is larger than {MAX_ANSWER} bytes")

    def _forget(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class UnsentError(ExtenderError):
    """Raised if the request was not sent, and thus has no effect."""


class _StaleError(Exception):
    """Raised if an idle connection turned out to be closed."""


class ExtenderCalls:
    """The extenders of a configuration: the plugin that calls them, and the bindings that they make."""

    def __init__(
        self,
        settings: Sequence[Extender],
        bodies: Bodies,
        note: Callable[[PluginIncident], None] = lambda _: None,
    ) -> None:
        self.bodies = bodies
        self._transports = [
            HttpTransport(extender, bodies, where=f"extenders[{index}]") for index, extender in enumerate(settings)
        ]
        self._by_prefix = {
            item.url_prefix.rstrip("/"): transport for item, transport in zip(settings, self._transports, strict=True)
        }
        pairs = [HttpExtender(item, transport) for item, transport in zip(settings, self._transports, strict=True)]
        self.plugin = Extenders(pairs, note)

    async def bind(self, call: CallExtender) -> None:
        """Let an extender bind a pod. Raises ClientError; UnreachableError if the outcome is unknown."""
        transport = next(
            transport for prefix, transport in self._by_prefix.items() if call.url.startswith(f"{prefix}/")
        )
        try:
            answer = await asyncio.to_thread(transport.post, call.url, call.body, call.seconds)
        except UnsentError as error:
            raise ClientError(f"{call.url}: {error}") from None
        except ExtenderError as error:
            raise UnreachableError(f"{call.url}: {error}") from None
        error_text = _error_of(answer)
        if error_text:
            raise ClientError(f"{call.url}: {error_text}")

    def close(self) -> None:
        """Close all connections."""
        for transport in self._transports:
            transport.close()


def _error_of(answer: Any) -> str:
    """Return `Error` of an ExtenderBindingResult, in any letter case."""
    if not isinstance(answer, Mapping):
        return "" if answer is None else f"expected an object, found {type(answer).__name__}"
    return next((str(text) for key, text in answer.items() if str(key).lower() == "error" and text), "")


def _target(settings: Extender, where: str) -> SplitResult:
    path = f"{where}.urlPrefix" if where else "urlPrefix"
    try:
        result = urlsplit(settings.url_prefix)
        port = result.port
    except ValueError as error:
        raise ConfigurationError(path, str(error)) from None
    if result.scheme not in ("http", "https") or not result.hostname or port == 0:
        raise ConfigurationError(path, f"{settings.url_prefix!r}: expected http://HOST[:PORT][/PATH], or https")
    return result


def _tls(settings: Extender, where: str) -> TlsContexts:
    tls = settings.tls_config
    authority = tls is not None and bool(tls.ca_data or tls.ca_file)
    if tls is not None and bool(tls.cert_data or tls.cert_file) != bool(tls.key_data or tls.key_file):
        raise ConfigurationError(f"{where}.tlsConfig", "a client certificate and its key go together")
    tls_settings = TlsSettings(
        ca_file=Path(tls.ca_file) if tls and tls.ca_file else None,
        ca_data=(tls.ca_data if tls else b"") or None,
        certificate_file=Path(tls.cert_file) if tls and tls.cert_file else None,
        certificate_data=(tls.cert_data if tls else b"") or None,
        key_file=Path(tls.key_file) if tls and tls.key_file else None,
        key_data=(tls.key_data if tls else b"") or None,
        insecure=(tls.insecure if tls else False) or (settings.enable_https and not authority),
    )
    contexts = TlsContexts(tls_settings, REAL_CLOCK, f"{where}.tlsConfig" if where else "tlsConfig")
    try:
        contexts.context()
    except ConfigError as error:
        raise ConfigurationError("", str(error)) from None
    return contexts


def _reason_of(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error)
    return f"{type(error).__name__}: {text}" if not isinstance(error, ConnectionRefusedError) else "connection refused"
