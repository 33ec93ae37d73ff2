"""The ASGI application: the user, the request, the permission; then the resource, discovery, or a plain path.

It is one function per request without a framework's routing: the paths of the API follow from the table of kinds.
Invariant: every request gets exactly one response; an unexpected error is logged and answered with a Status of code
500.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from kube_standin import errors, openapi
from kube_standin.admission_chain import User
from kube_standin.authorization import ANONYMOUS, Authorizer
from kube_standin.errors import StatusError
from kube_standin.faults import NO_FAULT, FaultEffect, FaultTable, MatchedRequest
from kube_standin.flow_control import FlowClassifier, Headers
from kube_standin.impersonation import impersonated
from kube_standin.kinds import ServedKind
from kube_standin.registry import ObjectRegistry
from kube_standin.security import AUDIENCE, Tokens
from kube_standin.server.bodies import Disconnected, Receive, read_body
from kube_standin.server.body_slots import BodySlots
from kube_standin.server.connections import CLIENT, RESET
from kube_standin.server.controls import PREFIX, ControlEndpoints
from kube_standin.server.discovery import Discovery, version_info, wants_aggregated
from kube_standin.server.metrics import CONTENT_TYPE, MeasuredRequest, ServerMetrics, labels_of
from kube_standin.server.negotiation import negotiate_watch, takes_only_protobuf
from kube_standin.server.pod_streams import PodLog
from kube_standin.server.protobuf_answers import ProtobufSender
from kube_standin.server.query import check_timeout, watch_options
from kube_standin.server.resources import LARGE, PlainNotFound, ResourceCall, Resources, resolve
from kube_standin.server.responses import Renderer, Reply, Send, error_reply, send_reply
from kube_standin.server.slices import encode, json_line
from kube_standin.server.target import Target, read_target
from kube_standin.server.watch_streams import WatchPace, WatchStream, WatchTimes
from kube_standin.storage import StorageError
from kube_standin.token_keys import KEYS_PATH, provider_metadata

Scope = MutableMapping[str, Any]

log = logging.getLogger("reprieve.apiserver")

_LENGTH = re.compile(r"[0-9]{1,18}", re.ASCII)
_SENDER: Final = "kube_standin.sender"
"""Scope key of the sender of the response."""
_CLIENT_CLOSED = 499
"""The code counted for a request if its client disconnects before the response."""

_OPENAPI_PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
_CHECKS = (
    "ping",
    "log",
    "etcd",
    "informer-sync",
    *(
        f"poststarthook/{hook}"
        for hook in (
            "start-apiserver-admission-initializer",
            "generic-apiserver-start-informers",
            "priority-and-fairness-config-consumer",
            "priority-and-fairness-config-producer",
            "priority-and-fairness-filter",
            "start-apiextensions-informers",
            "start-apiextensions-controllers",
            "crd-informer-synced",
            "start-system-namespaces-controller",
            "start-cluster-authentication-info-controller",
            "start-service-ip-repair-controllers",
            "rbac/bootstrap-roles",
            "scheduling/bootstrap-system-priority-classes",
            "bootstrap-controller",
            "start-kubernetes-service-cidr-controller",
            "start-kube-aggregator-informers",
            "apiservice-registration-controller",
            "apiservice-status-local-available-controller",
            "apiservice-status-remote-available-controller",
            "kube-apiserver-autoregistration",
        )
    ),
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
    "poststarthook/apiservice-openapiv3-controller",
    "shutdown",
)
"""The checks of kube-apiserver that apply here: each part is ready before the first request is answered."""


@dataclass
class AppOptions:
    """How requests are handled. ``future_wait``: seconds to wait for a resourceVersion that is not reached yet.

    ``faults`` are injected for tests of clients. ``controllers``: this process runs some.
    """

    anonymous: bool = False
    future_wait: float = 3.0
    server_address: str = ""
    times: WatchTimes = field(default_factory=WatchTimes)
    faults: FaultTable = field(default_factory=FaultTable)
    controllers: bool = False
    control_endpoints: ControlEndpoints | None = None
    """The handler of paths below /debug/kube-standin; None: not served."""


def read_headers(scope: Scope) -> dict[str, str]:
    """Return the request's headers by lower-case name; repeated ones are joined by commas."""
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        key = name.decode("latin-1")
        text = value.decode("latin-1")
        headers[key] = f"{headers[key]},{text}" if key in headers else text
    return headers


class ClassifiedSender:
    """Sends a response with the headers that name the flow of its request, once they are known."""

    __slots__ = ("_send", "headers")

    def __init__(self, send: Send) -> None:
        self._send = send
        self.headers: Headers = ()

    def __call__(self, message: MutableMapping[str, Any]) -> Awaitable[None]:
        """Send one ASGI message."""
        if self.headers and message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], *self.headers]
        return self._send(message)


class App:
    """The application over one registry."""

    def __init__(
        self, registry: ObjectRegistry, authorizer: Authorizer, tokens: Tokens, options: AppOptions | None = None
    ) -> None:
        self.registry = registry
        self.authorizer = authorizer
        self.tokens = tokens
        self.options = options or AppOptions()
        self._pace = WatchPace(self.options.times.gather)
        self.renderer = Renderer(registry)
        self.resources = Resources(
            registry,
            self.renderer,
            authorizer,
            tokens,
            future_wait=self.options.future_wait,
            controllers=self.options.controllers,
        )
        self.discovery = Discovery(registry.kinds, self.options.server_address)
        self.flows = FlowClassifier(registry)
        registry.chain.add(self.flows)
        self.metrics = ServerMetrics(registry)
        self.stopping = False
        self.minor: int | None = None
        """The release that /version reports as emulated; None: that of the rules."""
        self.watches: dict[WatchStream, MatchedRequest] = {}
        """The open watches."""
        self._body_slots = BodySlots()
        self._documents: dict[str, tuple[int, bytes]] = {}
        self._plain: dict[str, Callable[[Target, Mapping[str, str]], Reply]] = {
            "": self._root,
            "/": self._root,
            "/version": self._version,
            "/healthz": self._health,
            "/livez": self._health,
            "/readyz": self._health,
            "/api": self._api,
            "/apis": self._api,
            "/openapi/v2": self._openapi_v2,
            "/openapi/v3": self._openapi_v3_index,
            "/metrics": self._metrics,
            "/.well-known/openid-configuration": self._token_issuer,
            KEYS_PATH: self._token_keys,
        }
        self._counted_paths = frozenset(self._plain) - {""}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one ASGI connection event."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        if scope["type"] != "http":
            return
        headers = read_headers(scope)
        gzip = "gzip" in headers.get("accept-encoding", "")
        target = read_target(scope["method"], scope["path"], scope["query_string"])
        measured = self._begin(target, headers, scope["query_string"])
        send = scope[_SENDER] = ClassifiedSender(send)
        if takes_only_protobuf(headers.get("accept", "")):
            gzip, send = False, ProtobufSender(send, watch=target.watch)
        code = _CLIENT_CLOSED
        try:
            reply = await self._reply(scope, target, headers, receive, send)
            code = 200 if reply is None else reply.status
            if reply is not None:
                sending = send_reply(send, reply, gzip=gzip, head=scope["method"] == "HEAD")
                await (_while_connected(receive, sending) if reply.is_sliced else sending)
        except Disconnected:
            return
        finally:
            self.metrics.end(measured, code)

    def _begin(self, target: Target, headers: Mapping[str, str], query: bytes) -> MeasuredRequest:
        kind = self.registry.kinds.at(target.group, target.version, target.resource) if target.resource else None
        content_type = headers.get("content-type", "")
        return self.metrics.begin(labels_of(target, kind, content_type, query, self._counted_paths))

    async def _reply(
        self, scope: Scope, target: Target, headers: Mapping[str, str], receive: Receive, send: Send
    ) -> Reply | None:
        """Answer a request and turn errors into responses; None if the response was a stream that is already sent."""
        try:
            check_timeout(target)
            return await self._answer(scope, target, headers, receive, send)
        except StatusError as error:
            return error_reply(error)
        except PlainNotFound:
            return Reply(404, b"404 page not found\n", "text/plain; charset=utf-8")
        except Disconnected:
            raise
        except StorageError as error:
            log.error("storage: %s", error)
            return error_reply(StatusError(500, "InternalError", f"Internal error occurred: {error}"))
        except RecursionError:
            # Decoders bound the nesting; this nesting is deep in an unforeseen way.
            log.warning("%s %.200s: nested too deeply", scope["method"], scope["path"])
            return error_reply(errors.bad_request("the request is nested too deeply"))
        except MemoryError:
            log.error("%s %.200s: out of memory", scope["method"], scope["path"])
            return error_reply(StatusError(500, "InternalError", "Internal error occurred: out of memory"))
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            return error_reply(StatusError(500, "InternalError", "Internal error occurred; see the server's log"))

    @staticmethod
    async def _lifespan(receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _answer(
        self, scope: Scope, target: Target, headers: Mapping[str, str], receive: Receive, send: Send
    ) -> Reply | None:
        user = self._authorized(scope, target, headers)
        if not target.resource:
            if target.path.startswith(PREFIX) and self.options.control_endpoints is not None:
                return await self.options.control_endpoints.answer(user, target, receive)
            return self._plain_path(target, headers)
        request = _matched(target, user)
        effect = self.options.faults.effect_on(request)
        if effect is not NO_FAULT:
            await _apply_fault(effect, scope, receive)
        kind = resolve(self.registry, target)
        if target.subresource == "log" and kind.resource == "pods":
            return await self._pod_log(target, kind, receive, send)
        if target.watch:
            namespace = target.namespace if kind.namespaced and target.namespace else None
            query = dict(target.query)
            if target.name:  # the old /watch/ path of one object
                query["fieldSelector"] = f"metadata.name={target.name}"
            options = watch_options(query)
            form = negotiate_watch(headers.get("accept", ""), custom=kind.custom, lists=options.lists)
            if not effect.bookmarks:
                options = replace(options, bookmarks=False)
            stream = WatchStream(
                self.registry,
                self.renderer,
                kind,
                namespace,
                options,
                form,
                query,
                self.options.times,
                self._pace,
                sent=partial(self.metrics.watch_events, kind),
                future_wait=self.options.future_wait,
            )
            self.watches[stream] = request
            try:
                async with _listening(receive) as disconnected:
                    await stream.run(send, disconnected, gone=effect.gone)
            except Exception:
                # The response has begun, so the stream can only end.
                log.exception("watch %s failed", scope["path"])
            finally:
                del self.watches[stream]
            return None
        if target.verb in ("get", "list"):
            return await self.resources.handle(ResourceCall(target, kind, user, headers, b""))
        content_length = headers.get("content-length", "")
        length = int(content_length) if _LENGTH.fullmatch(content_length) else None
        small = length is not None and length <= LARGE
        if small or (length is None and "transfer-encoding" not in headers):
            return await self.resources.handle(
                ResourceCall(target, kind, user, headers, await read_body(receive, length))
            )
        async with self._body_slots.slot(hooked=self.registry.chain.waits(kind)):
            async with self._body_slots.arriving() as arriving:
                body = await read_body(receive, length, arriving.came)
            return await self.resources.handle(ResourceCall(target, kind, user, headers, body))

    async def _pod_log(self, target: Target, kind: ServedKind, receive: Receive, send: Send) -> Reply | None:
        """Return the log of a container, or send it as it grows."""
        pod_log = PodLog(self.registry, kind, target)
        if not pod_log.has_node or not pod_log.options.follow or pod_log.options.previous:
            return pod_log.reply()
        async with _listening(receive) as disconnected:
            await pod_log.follow(send, disconnected)
        return None

    # -- users ----------------------------------------------------------------------------------------------

    def _authorized(self, scope: Scope, target: Target, headers: Mapping[str, str]) -> User:
        """Return the authorized user of a request; its response names its flow, even if the request is refused."""
        user = impersonated(self._authenticate(scope, headers), scope["headers"], self.authorizer)
        attributes = target.attributes
        scope[_SENDER].headers = self.flows.headers(user, attributes)
        self.authorizer.check(user, attributes)
        return user

    def _authenticate(self, scope: Scope, headers: Mapping[str, str]) -> User:
        client: User | None = scope.get("extensions", {}).get(CLIENT)
        if client is not None:
            return client
        header = headers.get("authorization", "")
        if not header:
            if self.options.anonymous:
                return ANONYMOUS
            raise _unauthorized()
        scheme, _, token = header.partition(" ")
        user = self.tokens.user(token.strip()) if scheme.lower() == "bearer" else None
        if user is None:
            raise _unauthorized()
        return user

    # -- paths without a resource ------------------------------------------------------------------------

    def _plain_path(self, target: Target, headers: Mapping[str, str]) -> Reply:
        path = target.path.rstrip("/") or "/"
        if target.method not in ("GET", "HEAD"):
            raise errors.method_not_allowed()
        handler = self._plain.get(path)
        if handler is not None:
            return handler(target, headers)
        parts = path.split("/")[1:]
        if parts[:2] == ["openapi", "v3"]:
            return self._openapi_v3("/".join(parts[2:]))
        if parts[0] in ("healthz", "livez", "readyz") and len(parts) > 1 and "/".join(parts[1:]) in _CHECKS:
            return Reply(200, b"ok", "text/plain; charset=utf-8")
        if parts[0] == "api" and len(parts) == 2:
            return self._resource_list("", parts[1])
        if parts[0] == "apis" and len(parts) == 2:
            group = self.discovery.group(parts[1])
            if group is None:
                raise PlainNotFound
            return Reply(200, json_line(group))
        if parts[0] == "apis" and len(parts) == 3:
            if parts[1] not in self.registry.kinds.groups():
                raise PlainNotFound
            return self._resource_list(parts[1], parts[2])
        raise PlainNotFound

    def _resource_list(self, group: str, version: str) -> Reply:
        resource_list = self.discovery.resources(group, version)
        if resource_list is None:
            raise errors.unknown_resource()
        return Reply(200, json_line(resource_list))

    def _root(self, target: Target, headers: Mapping[str, str]) -> Reply:
        paths = set(self._counted_paths) - {"/"}
        for group, versions in self.registry.kinds.groups().items():
            base = f"/apis/{group}" if group else "/api"
            paths.add(base)
            paths.update(f"{base}/{version}" for version in versions)
        return Reply(200, encode({"paths": sorted(paths)}))

    def _version(self, target: Target, headers: Mapping[str, str]) -> Reply:
        return Reply(200, encode(version_info(self.minor)))

    def _metrics(self, target: Target, headers: Mapping[str, str]) -> Reply:
        return Reply(200, self.metrics.render(), CONTENT_TYPE)

    def _health(self, target: Target, headers: Mapping[str, str]) -> Reply:
        if self.stopping and target.path.startswith("/readyz"):
            return Reply(500, b"[-]shutdown failed: shutting down\n", "text/plain; charset=utf-8")
        if "verbose" not in target.query:
            return Reply(200, b"ok", "text/plain; charset=utf-8")
        name = target.path.strip("/").split("/")[0]
        excluded = target.query.get("exclude", "")
        lines = [f"[+]{check} {'excluded: ok' if check == excluded else 'ok'}" for check in _CHECKS]
        return Reply(200, "\n".join([*lines, f"{name} check passed\n"]).encode(), "text/plain; charset=utf-8")

    def _api(self, target: Target, headers: Mapping[str, str]) -> Reply:
        """Answer /api and /apis, in the plain or the aggregated form."""
        core = target.path.rstrip("/") == "/api"
        version = wants_aggregated(headers.get("accept", ""))
        if version is None:
            return Reply(200, json_line(self.discovery.core_versions() if core else self.discovery.groups()))
        body = self._remembered(f"{core}{version}", lambda: json_line(self.discovery.aggregated(core, version)))
        media = f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
        return Reply(200, body, media, {"Vary": "Accept"})

    def _remembered(self, name: str, make: Callable[[], bytes]) -> bytes:
        """Return a document, computed once per generation of the table of kinds."""
        generation = self.registry.kinds.generation
        document = self._documents.get(name)
        if document is None or document[0] != generation:
            # Drop documents of older generations, or the names of removed groups would remain.
            self._documents = {key: entry for key, entry in self._documents.items() if entry[0] == generation}
            document = self._documents[name] = (generation, make())
        return document[1]

    def _token_issuer(self, target: Target, headers: Mapping[str, str]) -> Reply:
        metadata = provider_metadata(AUDIENCE, f"https://{self.discovery.address}")
        return Reply(200, encode(metadata), headers=_CACHED_FOR_AN_HOUR)

    def _token_keys(self, target: Target, headers: Mapping[str, str]) -> Reply:
        return Reply(200, encode(self.tokens.key.key_set()), "application/jwk-set+json", _CACHED_FOR_AN_HOUR)

    def _openapi_v2(self, target: Target, headers: Mapping[str, str]) -> Reply:
        kinds, minor = list(self.registry.kinds), self.minor
        if _OPENAPI_PROTOBUF in headers.get("accept", "").replace(" ", ""):
            packed = self._remembered("v2proto", lambda: openapi.v2_protobuf(kinds, minor))
            return Reply(200, packed, "application/octet-stream")
        return Reply(200, self._remembered("v2", lambda: encode(openapi.v2_document(kinds, minor))))

    def _openapi_v3_index(self, target: Target, headers: Mapping[str, str]) -> Reply:
        kinds, minor = list(self.registry.kinds), self.minor
        return Reply(200, self._remembered("v3", lambda: encode(openapi.v3_index(kinds, minor))))

    def _openapi_v3(self, path: str) -> Reply:
        match path.split("/"):
            case ["api", version]:
                group, group_version = "", version
            case ["apis", group, version] if group:
                group_version = f"{group}/{version}"
            case _:
                raise PlainNotFound
        if version not in self.registry.kinds.groups().get(group, ()):
            raise PlainNotFound
        kinds, minor = list(self.registry.kinds), self.minor
        body = self._remembered(f"v3/{group_version}", lambda: encode(openapi.v3_document(group_version, kinds, minor)))
        return Reply(200, body, headers={"Vary": "Accept"})


_CACHED_FOR_AN_HOUR: Final = {"Cache-Control": "public, max-age=3600"}


def _matched(target: Target, user: User) -> MatchedRequest:
    return MatchedRequest(
        target.verb, target.group, target.resource, target.subresource, target.namespace, target.name, user.name
    )


async def _apply_fault(effect: FaultEffect, scope: Scope, receive: Receive) -> None:
    """Delay, reset or refuse a request as its fault specifies."""
    if effect.delay:
        await asyncio.sleep(effect.delay)
    if effect.reset:
        scope["extensions"][RESET]()
        while (await receive())["type"] != "http.disconnect":
            pass
        raise Disconnected
    if effect.refusal is not None:
        raise effect.refusal


@asynccontextmanager
async def _listening(receive: Receive) -> AsyncIterator[asyncio.Event]:
    """Yield an event that is set when the client disconnects."""
    disconnected = asyncio.Event()

    async def listen() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        disconnected.set()

    listener = asyncio.ensure_future(listen())
    try:
        yield disconnected
    finally:
        listener.cancel()


async def _while_connected(receive: Receive, sending: Coroutine[Any, Any, None]) -> None:
    """Send a response that is expensive to compute, until the client disconnects."""
    sender = asyncio.ensure_future(sending)
    async with _listening(receive) as disconnected:
        leaving = asyncio.ensure_future(disconnected.wait())
        try:
            await asyncio.wait({sender, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if sender.done():
                sender.result()
        finally:
            sender.cancel()
            leaving.cancel()
            await asyncio.gather(sender, leaving, return_exceptions=True)


def _unauthorized() -> StatusError:
    return StatusError(401, "Unauthorized", "Unauthorized", headers={"WWW-Authenticate": "Bearer"})


__all__ = ["App", "AppOptions"]
