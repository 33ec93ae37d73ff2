"""The HTTP endpoint: health, /metrics, /metrics/resources, /explain, /shadow (observability.md), /ui/ (page.md 7).

Who may read what, as with kube-scheduler on its port 10259:

| | health | metrics, explain | |---|---|---| | loopback, no token set | open | open | | loopback, a token set | open |
metrics open; explain with the token | | elsewhere | open | a bearer token the API server knows (TokenReview) and lets
`get` the path (SubjectAccessReview) |

Beyond loopback /explain with a namespace may also be read with the right to `get` the pods of that namespace.

On loopback the Host header must be a loopback name, or a web page could read it by a name that resolves to 127.0.0.1.
Beyond loopback there is always TLS; without a certificate file a self-signed one is created, in memory only.

Invariants: reviews of tokens by the API server are cached for a short time, by the token's hash, refusals no longer
than permissions. The endpoint never waits for the scheduling loop without limit or delays it. Clients see of an
internal error only a status and its reason phrase.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import math
import ssl
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import msgspec
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kube_rules.versions import DOCUMENT_VERSION
from reprieve.client.errors import ClientError, ConfigError
from reprieve.client.transport import ApiClient
from reprieve.decisions.history import involves
from reprieve.live.page_routes import PageRoutes
from reprieve.observability.database.location import RecordsAwayError
from reprieve.observability.metrics import CONTENT_TYPE, Metrics
from reprieve.observability.resource_metrics import PodResources, pod_resources, rendered

DEFAULT_PORT: Final = 10259
_KEPT_SECONDS: Final = 10.0
"""How long the API server's reviews are valid, both permissions and refusals, as for kube-scheduler."""
_REMEMBERED: Final = 1024
_REVIEW_SECONDS: Final = 10.0
_REVIEWS_AT_ONCE: Final = 8
MOST_NAMESPACES: Final = 200
"""The largest number of namespaces that are reviewed for a restricted reader; further ones are not shown."""
_encode: Final = msgspec.json.Encoder().encode

Check = Callable[[], str | None]
"""Returns None if healthy, else a short reason."""
Records = Callable[[str, str, str], Awaitable[Sequence[Any]]]
"""(kind, namespace, name) -> decision records, newest first; kind is `Pod`, `PodGroup` or `CompositePodGroup`."""
Evictions = Callable[[float], Awaitable[Sequence[Any]]]
"""Seconds since 1970 -> decision records of the preemptions from then on, newest first."""


@dataclass(frozen=True, slots=True)
class ServingOptions:
    """Where to listen. `token`: required for /explain on loopback. `names`: for the self-signed certificate."""

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    certificate: Path | None = None
    key: Path | None = None
    token: str | None = field(default=None, repr=False)
    names: tuple[str, ...] = ("localhost",)
    tls: bool | None = None
    """None: TLS beyond loopback, plain HTTP on it."""

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise ConfigError("--tls-cert-file and --tls-private-key-file must be set together")
        if self.tls is False and not self.loopback:
            raise ConfigError(f"plain HTTP is served on loopback addresses only, not on {self.host}")

    @property
    def loopback(self) -> bool:
        """Return whether only this machine can connect."""
        return _is_loopback(self.host)

    @property
    def secure(self) -> bool:
        """Return whether TLS is used."""
        if self.tls is not None:
            return self.tls
        return not self.loopback or self.certificate is not None


class Health:
    """The checks of the health endpoints. Checks are added by name and run for every request.

    `live` checks report whether the process should be restarted, `ready` ones whether it works: a standby scheduler is
    alive, healthy and ready, as kube-scheduler is.
    """

    def __init__(self) -> None:
        self.live: dict[str, Check] = {"ping": lambda: None}
        self.ready: dict[str, Check] = {}

    def report(self, checks: Mapping[str, Check], *, excluded: Sequence[str] = ()) -> tuple[bool, str]:
        """Return whether all checks pass, and a line per check in the format of kube-scheduler's `?verbose`."""
        well, lines = True, []
        for name, check in checks.items():
            if name in excluded:
                lines.append(f"[+]{name} excluded: ok")
                continue
            wrong = check()
            if wrong is None:
                lines.append(f"[+]{name} ok")
            else:
                well = False
                lines.append(f"[-]{name} failed: {wrong}")
        return well, "\n".join(lines)


class DelegatedAuth:
    """Lets the API server review a token's user and its right to `get` a path; results are valid for ten seconds."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._known: dict[tuple[bytes, str], tuple[float, int]] = {}

    async def __call__(self, token: str, path: str, namespace: str = "") -> int:
        """Return 200, 401 (unknown token), 403 (not allowed) or 500 (the API server could not be reached).

        With a namespace: whether the user may `get` its pods, and thus read the records about them (history.md 1.7).
        """
        key = (hashlib.sha256(token.encode()).digest(), f"{path} {namespace}")
        now = asyncio.get_running_loop().time()
        cached = self._known.get(key)
        if cached is not None and cached[0] > now:
            return cached[1]
        try:
            status = await self._ask(token, path, namespace)
        except ClientError:
            return 500
        self._keep(key, status, now)
        return status

    async def _ask(self, token: str, path: str, namespace: str) -> int:
        review = await self._review("authentication.k8s.io", "tokenreviews", "TokenReview", {"token": token})
        if not review.get("authenticated"):
            return 401
        if namespace:
            attributes = {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": namespace}}
        else:
            attributes = {"nonResourceAttributes": {"path": path, "verb": "get"}}
        spec = {**_user_of(review), **attributes}
        access = await self._review("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview", spec)
        return 200 if access.get("allowed") and not access.get("denied") else 403

    async def namespaces(self, token: str, names: Sequence[str]) -> frozenset[str] | None:
        """Return the namespaces in which the token's user may list pods; None: in all of them (page.md 4.4).

        An unreachable API server, or an unknown token, allows none.
        """
        try:
            review = await self._review("authentication.k8s.io", "tokenreviews", "TokenReview", {"token": token})
            if not review.get("authenticated"):
                return frozenset()
            if await self._lists_pods(review, token, ""):
                return None
            limit = asyncio.Semaphore(_REVIEWS_AT_ONCE)

            async def seen(name: str) -> bool:
                async with limit:
                    return await self._lists_pods(review, token, name)

            allowed = await asyncio.gather(*(seen(name) for name in names[:MOST_NAMESPACES]))
        except ClientError:
            return frozenset()
        return frozenset(name for name, yes in zip(names, allowed, strict=False) if yes)

    async def _lists_pods(self, review: Mapping[str, Any], token: str, namespace: str) -> bool:
        key = (hashlib.sha256(token.encode()).digest(), f"pods/{namespace}")
        now = asyncio.get_running_loop().time()
        cached = self._known.get(key)
        if cached is not None and cached[0] > now:
            return cached[1] == 200
        attributes = {"verb": "list", "version": "v1", "resource": "pods", "namespace": namespace}
        spec = {**_user_of(review), "resourceAttributes": attributes}
        access = await self._review("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview", spec)
        allowed = bool(access.get("allowed")) and not access.get("denied")
        self._keep(key, 200 if allowed else 403, now)
        return allowed

    def _keep(self, key: tuple[bytes, str], status: int, now: float) -> None:
        if len(self._known) >= _REMEMBERED:
            self._known = {k: v for k, v in self._known.items() if v[0] > now}
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
        self._known[key] = (now + _KEPT_SECONDS, status)

    async def _review(self, group: str, resource: str, kind: str, spec: Mapping[str, Any]) -> dict[str, Any]:
        body = _encode({"apiVersion": f"{group}/v1", "kind": kind, "spec": spec})
        answer = await self._client.request(
            "POST", f"/apis/{group}/v1/{resource}", body=body, deadline=_REVIEW_SECONDS, repeatable=True
        )
        status = answer.read(dict[str, Any]).get("status")
        return status if isinstance(status, dict) else {}


def _user_of(review: Mapping[str, Any]) -> dict[str, Any]:
    """Return the user of a TokenReview in the format of a SubjectAccessReview."""
    user = review.get("user") or {}
    return {
        "user": user.get("username", ""),
        "uid": user.get("uid", ""),
        "groups": user.get("groups") or [],
        "extra": user.get("extra") or {},
    }


class Server:
    """Serves until `stop`. `authorize`: a `DelegatedAuth`; without one only health is served beyond loopback."""

    def __init__(
        self,
        options: ServingOptions,
        *,
        metrics: Metrics,
        health: Health,
        records: Records | None = None,
        evictions: Evictions | None = None,
        authorize: DelegatedAuth | Callable[[str, str], Awaitable[int]] | None = None,
        at_rest: Callable[[Callable[[], None]], Awaitable[object]] | None = None,
        shadow: Callable[[], bytes] | None = None,
        page: PageRoutes | None = None,
    ) -> None:
        self.options = options
        self._shadow = shadow
        self._page = page
        self._when_at_rest = at_rest
        self._metrics = metrics
        self._health = health
        self._records = records
        self._evictions = evictions
        self._authorize = authorize
        self._runner: web.AppRunner | None = None
        self.port = options.port

    @property
    def url(self) -> str:
        """Return the URL of the started server."""
        host = self.options.host
        shown = f"[{host}]" if ":" in host else host
        return f"{'https' if self.options.secure else 'http'}://{shown}:{self.port}"

    async def start(self) -> None:
        """Listen. Raises ConfigError for an unusable address or certificate."""
        app = web.Application(client_max_size=64 * 1024)
        for path in ("/healthz", "/livez"):
            app.router.add_get(path, self._alive)
        app.router.add_get("/readyz", self._ready)
        app.router.add_get("/metrics", self._scrape)
        app.router.add_get("/metrics/resources", self._scrape_resources)
        app.router.add_get("/explain", self._explain)
        app.router.add_get("/shadow", self._shadow_report)
        if self._page is not None:
            self._page.add_to(app, self._refused_page, self._seen_namespaces)
        runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=2.0)
        await runner.setup()
        self._runner = runner
        options = self.options
        try:
            context = tls_context(options) if options.secure else None
            site = web.TCPSite(runner, options.host, options.port, ssl_context=context)
            await site.start()
        except (OSError, ssl.SSLError, ValueError) as error:
            await self.stop()
            raise ConfigError(f"cannot serve on {options.host}:{options.port}: {error}") from None
        addresses = runner.addresses
        if addresses:
            self.port = int(addresses[0][1])

    async def stop(self) -> None:
        """Stop listening and close open connections."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    # -- responses ---------------------------------------------------------------------------------

    async def _alive(self, request: web.Request) -> web.Response:
        return self._report(request, self._health.live)

    async def _ready(self, request: web.Request) -> web.Response:
        return self._report(request, {**self._health.live, **self._health.ready})

    def _report(self, request: web.Request, checks: Mapping[str, Check]) -> web.Response:
        well, lines = self._health.report(checks, excluded=request.query.getall("exclude", []))
        name = request.path.lstrip("/")
        if well:
            text = f"{lines}\n{name} check passed\n" if "verbose" in request.query else "ok"
            return web.Response(text=text)
        return web.Response(status=500, text=f"{lines}\n{name} check failed\n")

    async def _scrape(self, request: web.Request) -> web.Response:
        refused = await self._refused(request, local_token=False)
        if refused is not None:
            return refused
        await self._read_engine()
        return web.Response(body=self._metrics.render(read=False), headers={"Content-Type": CONTENT_TYPE})

    async def _scrape_resources(self, request: web.Request) -> web.Response:
        refused = await self._refused(request, local_token=False)
        if refused is not None:
            return refused
        engine = self._metrics.engine
        snapshots: list[tuple[list[PodResources], list[str]]] = []
        if engine is not None:
            await self._at_rest(lambda: snapshots.append(pod_resources(engine)))
            if not snapshots:
                return web.Response(status=503, text="a scheduling cycle takes long; try again\n")
        body = await asyncio.to_thread(rendered, *(snapshots[0] if snapshots else ([], [])))
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})

    async def _read_engine(self) -> None:
        await self._at_rest(self._metrics.read_engine)

    async def _at_rest(self, read: Callable[[], None]) -> None:
        """Read the engine while no cycle runs; skip it if one runs too long."""
        if self._when_at_rest is not None:
            await self._when_at_rest(read)
        else:
            read()

    async def _explain(self, request: web.Request) -> web.Response:
        refused = await self._refused(request, local_token=True)
        if refused is not None:
            return refused
        query = request.query
        try:
            if "since" in query:
                return await self._history(query["since"], query.get("namespace", ""))
            return await self._about_object(query)
        except RecordsAwayError:
            return web.Response(status=503, text="the database of decision records is unavailable; try again later\n")

    async def _about_object(self, query: Mapping[str, str]) -> web.Response:
        """Return the records about an object."""
        kind, name = query.get("kind", ""), query.get("name", "")
        if (kind not in ("Pod", "PodGroup", "CompositePodGroup") and not kind.islower()) or not name:
            text = "kind=Pod, kind=PodGroup, kind=CompositePodGroup or an owner's (kind=job), and name, are needed\n"
            return web.Response(status=400, text=text)
        records: Sequence[Any] = ()
        if self._records is not None:
            records = await self._records(kind, query.get("namespace", "default"), name)
        return _listed(records)

    async def _shadow_report(self, request: web.Request) -> web.Response:
        refused = await self._refused(request, local_token=True)
        if refused is not None:
            return refused
        if self._shadow is None:
            return web.Response(status=404, text="this scheduler is not a shadow: start it with --shadow\n")
        return web.Response(body=self._shadow(), content_type="application/json")

    async def _history(self, since: str, namespace: str) -> web.Response:
        """Return every preemption since a time, in seconds since 1970; with a namespace those by or of its pods."""
        try:
            seconds = float(since)
        except ValueError:
            seconds = math.nan
        if not math.isfinite(seconds):
            return web.Response(status=400, text="since: seconds since 1970\n")
        records = await self._evictions(seconds) if self._evictions is not None else ()
        return _listed([record for record in records if not namespace or involves(record, namespace)])

    async def _refused_page(self, request: web.Request, data: bool) -> web.Response | None:
        """Refuse as for /explain; the static files of the page need no token (page.md 7.2)."""
        if data:
            return await self._refused(request, local_token=True)
        return _refusal(403) if self.options.loopback and not _is_loopback(_host(request)) else None

    async def _seen_namespaces(self, request: web.Request, names: Sequence[str]) -> frozenset[str] | None:
        """Return the namespaces that the reader of an accepted request may see; None: all."""
        options, token = self.options, _bearer(request)
        if options.loopback or (options.token is not None and token is not None and _same(token, options.token)):
            return None
        if token is None or not isinstance(self._authorize, DelegatedAuth):
            return frozenset()
        return await self._authorize.namespaces(token, names)

    async def _refused(self, request: web.Request, *, local_token: bool) -> web.Response | None:
        """Return the refusal for a client that may not read this, else None."""
        options = self.options
        token = _bearer(request)
        if options.token is not None and token is not None and _same(token, options.token):
            return None
        if options.loopback:
            if not _is_loopback(_host(request)):
                return _refusal(403)
            return None if options.token is None or not local_token else _refusal(401)
        if token is None:
            return _refusal(401)
        if self._authorize is None:
            return _refusal(403)
        status = await self._authorize(token, request.path)
        namespace = request.query.get("namespace", "")
        if status == 403 and request.path == "/explain" and namespace and isinstance(self._authorize, DelegatedAuth):
            status = await self._authorize(token, request.path, namespace)
        return None if status == 200 else _refusal(status)


_WORDS: Final = {401: "Unauthorized", 403: "Forbidden", 500: "Internal Server Error"}


def _refusal(status: int) -> web.Response:
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return web.Response(status=status, text=_WORDS.get(status, "Forbidden") + "\n", headers=headers)


def _bearer(request: web.Request) -> str | None:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


def _host(request: web.Request) -> str:
    """Return the Host header without its port."""
    host = request.headers.get("Host", "")
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if ":" in host else host


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _same(left: str, right: str) -> bool:
    return hmac.compare_digest(left.encode(), right.encode())


# -- certificates ----------------------------------------------------------------------------------


def tls_context(options: ServingOptions) -> ssl.SSLContext:
    """Return the server's context, from the files or with a new certificate. Raises OSError or ssl.SSLError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if options.certificate is not None and options.key is not None:
        context.load_cert_chain(options.certificate, options.key)
        return context
    certificate, key = self_signed((*options.names, options.host))
    # OpenSSL reads only files; this one is deleted before a client can connect.
    with tempfile.TemporaryDirectory(prefix="reprieve-") as place:
        file = Path(place) / "server.pem"
        file.touch(mode=0o600)
        file.write_bytes(certificate + key)
        context.load_cert_chain(file)
    return context


def self_signed(names: Sequence[str]) -> tuple[bytes, bytes]:
    """Return a certificate for these host names and addresses, and its key, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "reprieve-scheduler")])
    alternatives = [_alternative(name) for name in dict.fromkeys(names) if name not in ("", "0.0.0.0", "::")]
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=365))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    )
    if alternatives:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    certificate = builder.sign(key, hashes.SHA256())
    pem_key = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate.public_bytes(serialization.Encoding.PEM), pem_key


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _listed(records: Sequence[Any]) -> web.Response:
    body = _encode({"apiVersion": DOCUMENT_VERSION, "kind": "DecisionRecordList", "items": list(records)})
    return web.Response(body=body, content_type="application/json")
