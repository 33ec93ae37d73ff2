"""Who may read what over HTTP (observability.md, "Health"; kube-scheduler's port 10259)."""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from prometheus_client.parser import text_string_to_metric_families

from reprieve.client.errors import ConfigError
from reprieve.client.transport import ApiResponse
from reprieve.decisions.records import (
    CandidateRecord,
    Comparison,
    CostRecord,
    DecisionRecord,
    EntityReference,
    PreemptionRecord,
    Timings,
    UnitRecord,
)
from reprieve.live import http_endpoint
from reprieve.live.http_endpoint import Health, Server, ServingOptions, self_signed
from reprieve.observability.database.location import RecordsAwayError
from reprieve.observability.metrics import Metrics
from reprieve.scheduling.engine import Engine
from tests.building import pod

ANYWHERE = "0.0.0.0"
LOCAL = ServingOptions(port=0)
REMOTE = replace(LOCAL, host=ANYWHERE)
KNOWN = {"allowed": 200, "stranger": 401, "nosy": 403}


@dataclass
class Got:
    """An answer."""

    status: int
    text: str
    kind: str


async def evictions(since: float) -> Sequence[Any]:
    return [{"since": since}]


async def records(kind: str, namespace: str, name: str) -> Sequence[Any]:
    return [{"kind": kind, "of": f"{namespace}/{name}"}] if name == "known" else []


async def authorize(token: str, path: str) -> int:
    assert path in ("/metrics", "/metrics/resources", "/explain")
    return KNOWN[token]


def ask(
    options: ServingOptions,
    *paths: str,
    token: str | None = None,
    health: Health | None = None,
    auth: Callable[[str, str], Awaitable[int]] | None = authorize,
    host: str | None = None,
    metrics: Metrics | None = None,
) -> list[Got]:
    """Serve, get each path, stop."""

    async def run() -> list[Got]:
        server = Server(
            options,
            metrics=metrics or Metrics(process=False),
            health=health or Health(),
            records=records,
            evictions=evictions,
            authorize=auth,
        )
        await server.start()
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        if host is not None:
            headers["Host"] = host
        url = server.url.replace(ANYWHERE, "127.0.0.1")
        try:
            async with aiohttp.ClientSession(headers=headers) as session:
                found = []
                for path in paths:
                    async with session.get(url + path, ssl=False) as answer:
                        found.append(Got(answer.status, await answer.text(), answer.content_type))
                return found
        finally:
            await server.stop()

    return asyncio.run(run())


@pytest.mark.parametrize("options", [LOCAL, replace(LOCAL, token="t"), REMOTE], ids=["loopback", "token", "remote"])
def test_health_is_open_everywhere(options: ServingOptions) -> None:
    """observability.md 3.4."""
    answers = ask(options, "/healthz", "/livez", "/readyz")
    assert [(got.status, got.text) for got in answers] == [(200, "ok")] * 3


def test_metrics_are_prometheus_text() -> None:
    """observability.md 3.1."""
    (got,) = ask(LOCAL, "/metrics")
    assert (got.status, got.kind) == (200, "text/plain")
    names = {family.name for family in text_string_to_metric_families(got.text)}
    assert "scheduler_preemption_attempts" in names


def test_scrape_reads_the_state_of_the_engine_anew() -> None:
    """observability.md: what is a state is read as it is asked for; once for all gauges of a scrape."""
    metrics = Metrics(process=False)
    engine = Engine()
    metrics.attach(engine)

    def pending(answer: Got) -> float:
        families = text_string_to_metric_families(answer.text)
        [found] = (family for family in families if family.name == "scheduler_pending_pods")
        return sum(sample.value for sample in found.samples)

    seen = []
    for name in ("a", "b"):
        engine.set(pod(name), 0.0)
        (got,) = ask(LOCAL, "/metrics", metrics=metrics)
        seen.append(pending(got))
    assert seen == [1, 2]


@pytest.mark.parametrize(
    ("options", "token", "metrics", "explain"),
    [
        (LOCAL, None, 200, 200),
        (replace(LOCAL, token="secret"), None, 200, 401),
        (replace(LOCAL, token="secret"), "other", 200, 401),
        (replace(LOCAL, token="secret"), "secret", 200, 200),
        (REMOTE, None, 401, 401),
        (REMOTE, "allowed", 200, 200),
        (REMOTE, "stranger", 401, 401),
        (REMOTE, "nosy", 403, 403),
        (replace(REMOTE, token="secret"), "secret", 200, 200),
    ],
)
def test_readers_that_are_allowed(options: ServingOptions, token: str | None, metrics: int, explain: int) -> None:
    """observability.md 3.4."""
    answers = ask(options, "/metrics", "/metrics/resources", "/explain?kind=Pod&name=known", token=token)
    assert [got.status for got in answers] == [metrics, metrics, explain]


def test_nothing_is_served_beyond_loopback_without_a_token_reviewer() -> None:
    assert [got.status for got in ask(REMOTE, "/metrics", token="allowed", auth=None)] == [403]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:1", 200),
        ("127.0.0.1", 200),
        ("[::1]:80", 200),
        ("evil.example:80", 403),
        ("127.0.0.1.evil.example", 403),
    ],
)
def test_web_page_cannot_read_loopback_by_another_name(host: str, status: int) -> None:
    assert [got.status for got in ask(LOCAL, "/metrics", host=host)] == [status]


def test_explain_answers_with_a_list() -> None:
    known, none, bad, nameless = ask(
        LOCAL,
        "/explain?kind=PodGroup&namespace=team&name=known",
        "/explain?kind=Pod&name=other",
        "/explain?kind=Node&name=x",
        "/explain?kind=Pod",
    )
    assert known.text == (
        '{"apiVersion":"reprieve.dev/v1alpha1","kind":"DecisionRecordList",'
        '"items":[{"kind":"PodGroup","of":"team/known"}]}'
    )
    assert '"items":[]' in none.text
    assert (bad.status, nameless.status) == (400, 400)


def test_explain_answers_with_the_preemptions_since_a_time() -> None:
    """whatif.md 9.2, under the same rights as the rest of it."""
    found, bad = ask(LOCAL, "/explain?since=1767225600.5", "/explain?since=yesterday")
    assert '"items":[{"since":1767225600.5}]' in found.text
    assert bad.status == 400
    (refused,) = ask(REMOTE, "/explain?since=0", token=None)
    assert refused.status == 401


def test_readiness_waits_for_the_informers() -> None:
    health = Health()
    health.ready["informer-sync"] = lambda: "pods are not listed yet"
    live, ready = ask(LOCAL, "/livez", "/readyz", health=health)
    assert live.status == 200
    assert (ready.status, ready.text) == (
        500,
        "[+]ping ok\n[-]informer-sync failed: pods are not listed yet\nreadyz check failed\n",
    )


def test_lost_lease_fails_health_and_can_be_left_out() -> None:
    health = Health()
    health.live["leaderElection"] = lambda: "failed election to renew leadership on lease"
    plain, verbose = ask(LOCAL, "/healthz", "/healthz?exclude=leaderElection&verbose", health=health)
    assert plain.status == 500
    assert verbose.text == "[+]ping ok\n[+]leaderElection excluded: ok\nhealthz check passed\n"


def test_checks_after_one_that_is_left_out_are_made() -> None:
    health = Health()
    health.live["leaderElection"] = lambda: "failed election to renew leadership on lease"
    health.live["informers"] = lambda: "stuck"
    assert health.report(health.live, excluded=["leaderElection"]) == (
        False,
        "[+]ping ok\n[+]leaderElection excluded: ok\n[-]informers failed: stuck",
    )


@pytest.mark.parametrize("path", ["/", "/explain/x", "/debug/pprof", "/configz"])
def test_nothing_else_is_served(path: str) -> None:
    assert [got.status for got in ask(LOCAL, path)] == [404]


def test_certificate_is_made_for_the_names_given() -> None:
    certificate, key = self_signed(["localhost", "127.0.0.1", "0.0.0.0", "localhost"])
    found = x509.load_pem_x509_certificate(certificate)
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(name.value) for name in names] == ["localhost", "127.0.0.1"]
    assert b"PRIVATE KEY" in key


def test_given_certificate_is_served(tmp_path: Path) -> None:
    certificate, key = self_signed(["localhost", "127.0.0.1"])
    (tmp_path / "c.pem").write_bytes(certificate)
    (tmp_path / "k.pem").write_bytes(key)

    async def run() -> int:
        options = replace(LOCAL, certificate=tmp_path / "c.pem", key=tmp_path / "k.pem")
        server = Server(options, metrics=Metrics(process=False), health=Health())
        await server.start()
        trusting = ssl.create_default_context(cadata=certificate.decode())
        try:
            assert server.url.startswith("https://127.0.0.1:")
            async with aiohttp.ClientSession() as session, session.get(server.url + "/livez", ssl=trusting) as answer:
                return answer.status
        finally:
            await server.stop()

    assert asyncio.run(run()) == 200


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"host": ANYWHERE, "tls": False}, "plain HTTP is served on loopback"),
        ({"certificate": Path("c.pem")}, "must be set together"),
    ],
)
def test_unsafe_options_are_refused(how: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        ServingOptions(**how)


@pytest.mark.parametrize(
    "options", [replace(LOCAL, host="192.0.2.1"), replace(LOCAL, certificate=Path("no"), key=Path("no"))]
)
def test_address_that_cannot_be_served_is_an_error(options: ServingOptions) -> None:
    with pytest.raises(ConfigError, match="cannot serve on"):
        ask(options, "/healthz")


class Reviews:
    """An API server that answers reviews."""

    def __init__(self, *, authenticated: bool = True, allowed: bool = True) -> None:
        self.asked: list[str] = []
        self.status: dict[str, Any] = {
            "tokenreviews": {"authenticated": authenticated, "user": {"username": "prom", "groups": ["system:x"]}},
            "subjectaccessreviews": {"allowed": allowed},
        }
        self.last: Any = None
        self.how: dict[str, Any] = {}

    async def request(self, method: str, path: str, **how: Any) -> Any:
        assert method == "POST"
        resource = path.rpartition("/")[2]
        self.asked.append(resource)
        self.last = msgspec.json.decode(how.pop("body"))
        self.how = how
        body = msgspec.json.encode({"status": self.status[resource]})
        return ApiResponse(200, {}, body)


async def _answer(status: int) -> int:
    return status


PAIR = {"certificate": Path("c.pem"), "key": Path("k.pem")}


@pytest.mark.parametrize(
    ("how", "secure"),
    [
        ({}, False),
        ({"host": "localhost"}, False),
        ({"host": "::1"}, False),
        ({"host": "127.9.9.9"}, False),
        ({"host": "10.0.0.1"}, True),
        ({"host": "scheduler.example"}, True),
        ({"host": "10.0.0.1", "tls": True}, True),
        ({"tls": True}, True),
        ({"tls": False}, False),
        (PAIR, True),
        ({**PAIR, "tls": False}, False),
        ({**PAIR, "host": "10.0.0.1"}, True),
    ],
)
def test_tls_beyond_loopback_and_on_it_where_there_is_a_certificate(how: dict[str, Any], secure: bool) -> None:
    assert ServingOptions(**how).secure is secure


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:10259"),
        ("::1", "http://[::1]:10259"),
        ("10.0.0.1", "https://10.0.0.1:10259"),
        ("fd00::1", "https://[fd00::1]:10259"),
    ],
)
def test_url_is_that_of_the_address_and_of_kube_schedulers_port(host: str, url: str) -> None:
    server = Server(ServingOptions(host=host), metrics=Metrics(process=False), health=Health())
    assert server.url == url


@pytest.mark.parametrize("half", ["certificate", "key"])
def test_certificate_without_its_key_is_refused(half: str) -> None:
    with pytest.raises(ConfigError, match="must be set together"):
        ServingOptions(**{half: Path("x")})  # type: ignore[arg-type]


def test_certificate_that_is_made_serves_for_a_year_and_is_no_authority() -> None:
    """It begins an hour ago: the clocks of others may be behind."""
    before = datetime.now(UTC)
    found = x509.load_pem_x509_certificate(self_signed(["a.example"])[0])
    after = datetime.now(UTC)
    begins, ends = found.not_valid_before_utc, found.not_valid_after_utc
    assert before - timedelta(hours=1, seconds=1) <= begins <= after - timedelta(hours=1), "to the second"
    assert ends - begins == timedelta(days=365, hours=1)
    extensions = found.extensions
    constraints = extensions.get_extension_for_class(x509.BasicConstraints)
    assert (constraints.value.ca, constraints.critical) == (False, True)
    usage = extensions.get_extension_for_class(x509.ExtendedKeyUsage)
    assert (list(usage.value), usage.critical) == ([ExtendedKeyUsageOID.SERVER_AUTH], False)
    assert extensions.get_extension_for_class(x509.SubjectAlternativeName).critical is False
    assert found.issuer == found.subject


@pytest.mark.parametrize("names", [[], [""], ["0.0.0.0", "::"]])
def test_certificate_for_no_name_has_none(names: list[str]) -> None:
    found = x509.load_pem_x509_certificate(self_signed(names)[0])
    with pytest.raises(x509.ExtensionNotFound):
        found.extensions.get_extension_for_class(x509.SubjectAlternativeName)


def test_addresses_and_names_are_distinguished_in_a_certificate() -> None:
    found = x509.load_pem_x509_certificate(self_signed(["a.example", "::1", "10.0.0.1"])[0])
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["a.example"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["::1", "10.0.0.1"]


def test_tls_before_1_2_is_not_spoken() -> None:
    context = http_endpoint.tls_context(replace(LOCAL, tls=True))
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2


# -- what a request says -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("Bearer secret", 200),
        ("bearer  secret ", 200),
        ("BEARER secret", 200),
        ("Basic secret", 401),
        ("secret", 401),
        ("Bearer", 401),
        ("Bearer ", 401),
        ("Bearer secret2", 401),
        ("Bearer secre", 401),
        (None, 401),
    ],
)
def test_token_is_that_of_a_bearer(header: str | None, status: int) -> None:
    async def get(url: str) -> tuple[int, str | None]:
        headers = {"Authorization": header} if header is not None else {}
        async with aiohttp.ClientSession(headers=headers) as session, session.get(url) as answer:
            return answer.status, answer.headers.get("WWW-Authenticate")

    found = _served(Server(replace(LOCAL, token="secret"), metrics=Metrics(process=False), health=Health()), get)
    assert found == (status, "Bearer" if status == 401 else None)


def _served(server: Server, get: Callable[[str], Awaitable[Any]], path: str = "/explain?kind=Pod&name=x") -> Any:
    async def run() -> Any:
        await server.start()
        try:
            return await get(server.url + path)
        finally:
            await server.stop()

    return asyncio.run(run())


def test_request_that_is_refused_is_answered_in_a_word() -> None:
    """Nothing that helps a guess; and how to ask where a token would do."""
    strange, nosy = (ask(REMOTE, "/metrics", token=token)[0] for token in ("stranger", "nosy"))
    assert (strange.text, nosy.text) == ("Unauthorized\n", "Forbidden\n")
    (other,) = ask(REMOTE, "/metrics", token="x", auth=lambda token, path: _answer(418))
    assert (other.status, other.text) == (418, "Forbidden\n")


@pytest.mark.parametrize(("path", "of"), [("&namespace=team", "team/known"), ("", "default/known")])
@pytest.mark.parametrize("kind", ["Pod", "PodGroup", "CompositePodGroup", "job"])
def test_records_are_those_of_an_object_in_default_where_no_namespace_is_named(path: str, of: str, kind: str) -> None:
    (got,) = ask(LOCAL, f"/explain?kind={kind}&name=known{path}")
    assert (got.status, got.kind) == (200, "application/json")
    assert msgspec.json.decode(got.text)["items"] == [{"kind": kind, "of": of}]


def test_without_a_store_there_is_nothing_to_list() -> None:
    async def get(url: str) -> Any:
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            return (await answer.json())["items"]

    for path in ("/explain?kind=Pod&name=x", "/explain?since=0"):
        assert _served(Server(LOCAL, metrics=Metrics(process=False), health=Health()), get, path) == []


@pytest.mark.parametrize(
    ("attached", "rest", "status", "pods"), [(True, True, 200, 1), (True, False, 503, 0), (False, False, 200, 0)]
)
def test_resources_are_read_while_no_cycle_runs_or_not_at_all(
    attached: bool, rest: bool, status: int, pods: int
) -> None:
    """A scrape waits a moment for the end of a cycle (observability.md 3.7); gauges are then as they were read last."""
    metrics, engine = Metrics(process=False), Engine()
    engine.set(pod("a", cpu=1), 0.0)
    if attached:
        metrics.attach(engine)

    async def at_rest(read: Callable[[], None]) -> None:
        if rest:
            read()

    async def get(url: str) -> Any:
        async with aiohttp.ClientSession() as session:
            async with session.get(url + "/resources") as answer:
                resources = answer.status, await answer.text()
            async with session.get(url) as answer:
                return *resources, answer.headers["Content-Type"], await answer.text()

    server = Server(LOCAL, metrics=metrics, health=Health(), at_rest=at_rest)
    found, text, kind, scraped = _served(server, get, "/metrics")
    assert (found, text.count('pod="a"')) == (status, pods)
    assert kind == "text/plain; version=0.0.4; charset=utf-8"
    assert ("scheduler_pending_pods" in scraped) is rest


def test_answer_for_one_path_is_none_for_another() -> None:
    reviews = Reviews()

    async def run() -> None:
        auth = http_endpoint.DelegatedAuth(reviews)  # type: ignore[arg-type]
        await auth("token", "/metrics")
        await auth("token", "/explain")
        await auth("other", "/metrics")

    asyncio.run(run())
    assert len(reviews.asked) == 6


def preemption(by: str, of: str) -> DecisionRecord:
    """A preemption by a namespace, of a pod in another."""
    low = UnitRecord(
        unit=f"{of}/low", kind="Pod", outcome="Evicted", priority=1, pods=1, pod_names=(f"{of}/low",), nodes=("n1",)
    )
    made = PreemptionRecord(
        domain="n1",
        potential_victims=1,
        evicted=(low,),
        reprieved=(),
        reprieved_total=0,
        cost=CostRecord(units=1, pods=1, highest_priority=1),
        comparison=Comparison(candidates=1, chosen=CandidateRecord(domain="n1")),
        nominations=(),
        nominations_total=0,
    )
    return DecisionRecord(
        id=1,
        time="2026-01-01T00:00:00Z",
        entity=EntityReference(kind="Pod", namespace=by, name="high"),
        result="Preempting",
        message="",
        attempt=1,
        timings=Timings(attempt_seconds=0.1, waiting_seconds=0.0),
        preemption=made,
    )


@pytest.fixture
def preemptions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The records of the servers of `ask`: of three pairs of namespaces."""

    async def some(since: float) -> Sequence[Any]:
        return [preemption("team", "a"), preemption("a", "team"), preemption("a", "b")]

    monkeypatch.setattr(sys.modules[__name__], "evictions", some)


@pytest.mark.usefixtures("preemptions")
def test_right_to_read_pods_of_a_namespace_opens_its_records_alone() -> None:
    """history.md 1.7: a SubjectAccessReview for `get` on the pods of the namespace that is asked about."""

    class OfTeam(Reviews):
        async def request(self, method: str, path: str, **how: Any) -> Any:
            spec = msgspec.json.decode(how["body"])["spec"]
            allowed = spec.get("resourceAttributes") == {"verb": "get", "resource": "pods", "namespace": "team"}
            self.status["subjectaccessreviews"] = {"allowed": allowed}
            return await super().request(method, path, **how)

    auth = http_endpoint.DelegatedAuth(OfTeam())  # type: ignore[arg-type]
    answers = ask(
        REMOTE,
        "/explain?kind=Pod&namespace=team&name=a",
        "/explain?since=0&namespace=team",
        "/explain?kind=Pod&namespace=other&name=a",
        "/explain?kind=Pod&name=a",
        "/explain?since=0",
        "/metrics?namespace=team",
        token="x",
        auth=auth,
    )
    assert [answer.status for answer in answers] == [200, 200, 403, 403, 403, 403]


@pytest.mark.usefixtures("preemptions")
def test_history_of_a_namespace_has_what_involves_it() -> None:
    """whatif.md 9.1: preemptions by it, and of its workloads."""
    queries = ("", "&namespace=team", "&namespace=b", "&namespace=nowhere")
    answers = ask(LOCAL, *(f"/explain?since=0{query}" for query in queries))
    assert [len(msgspec.json.decode(answer.text)["items"]) for answer in answers] == [3, 2, 1, 0]


def test_database_that_is_away_is_503() -> None:
    """history.md 4.2: nothing is answered from half of the records."""

    async def away(*_: object) -> list[Any]:
        raise RecordsAwayError("connection refused")

    async def run() -> list[int]:
        server = Server(LOCAL, metrics=Metrics(process=False), health=Health(), records=away, evictions=away)
        await server.start()
        try:
            async with aiohttp.ClientSession() as session:
                statuses = []
                for query in ("kind=Pod&name=a", "since=0"):
                    async with session.get(f"{server.url}/explain?{query}") as answer:
                        statuses.append(answer.status)
                return statuses
        finally:
            await server.stop()

    assert asyncio.run(run()) == [503, 503]
