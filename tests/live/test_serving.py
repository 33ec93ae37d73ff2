"""Who may read what over HTTP (observability.md, "Health"; kube-scheduler's port 10259)."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from cryptography import x509
from prometheus_client.parser import text_string_to_metric_families

from reprieve.client.errors import ConfigError
from reprieve.client.transport import Answer
from reprieve.live import serving
from reprieve.live.serving import Health, Server, ServingOptions, self_signed
from reprieve.observability.metrics import Metrics
from reprieve.scheduling.engine import Engine

from ..building import pod

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
    answers = ask(options, "/healthz", "/livez", "/readyz")
    assert [(got.status, got.text) for got in answers] == [(200, "ok")] * 3


def test_metrics_are_prometheus_text() -> None:
    (got,) = ask(LOCAL, "/metrics")
    assert (got.status, got.kind) == (200, "text/plain")
    names = {family.name for family in text_string_to_metric_families(got.text)}
    assert "scheduler_preemption_attempts" in names


def test_a_scrape_reads_the_state_of_the_engine_anew() -> None:
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
        engine.set_pod(pod(name), 0.0)
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
def test_who_may_read(options: ServingOptions, token: str | None, metrics: int, explain: int) -> None:
    answers = ask(options, "/metrics", "/metrics/resources", "/explain?kind=Pod&name=known", token=token)
    assert [got.status for got in answers] == [metrics, metrics, explain]


def test_beyond_loopback_nothing_is_told_without_somebody_to_ask() -> None:
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
def test_a_web_page_cannot_read_loopback_by_another_name(host: str, status: int) -> None:
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


def test_a_lost_lease_fails_health_and_can_be_left_out() -> None:
    health = Health()
    health.live["leaderElection"] = lambda: "failed election to renew leadership on lease"
    plain, verbose = ask(LOCAL, "/healthz", "/healthz?exclude=leaderElection&verbose", health=health)
    assert plain.status == 500
    assert verbose.text == "[+]ping ok\n[+]leaderElection excluded: ok\nhealthz check passed\n"


def test_what_comes_after_a_check_that_is_left_out_is_checked() -> None:
    health = Health()
    health.live["leaderElection"] = lambda: "failed election to renew leadership on lease"
    health.live["informers"] = lambda: "stuck"
    assert health.report(health.live, but=["leaderElection"]) == (
        False,
        "[+]ping ok\n[+]leaderElection excluded: ok\n[-]informers failed: stuck",
    )


@pytest.mark.parametrize("path", ["/", "/explain/x", "/debug/pprof", "/configz"])
def test_nothing_else_is_served(path: str) -> None:
    assert [got.status for got in ask(LOCAL, path)] == [404]


def test_a_certificate_is_made_for_the_names_given() -> None:
    certificate, key = self_signed(["localhost", "127.0.0.1", "0.0.0.0", "localhost"])
    found = x509.load_pem_x509_certificate(certificate)
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(name.value) for name in names] == ["localhost", "127.0.0.1"]
    assert b"PRIVATE KEY" in key


def test_the_given_certificate_is_served(tmp_path: Path) -> None:
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
        ({"certificate": Path("c.pem")}, "belong together"),
    ],
)
def test_unsafe_options_are_refused(how: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        ServingOptions(**how)


@pytest.mark.parametrize(
    "options", [replace(LOCAL, host="192.0.2.1"), replace(LOCAL, certificate=Path("no"), key=Path("no"))]
)
def test_what_cannot_be_served_is_an_error_with_the_address(options: ServingOptions) -> None:
    with pytest.raises(ConfigError, match="cannot serve on"):
        ask(options, "/healthz")


class Reviews:
    """An API server that answers reviews."""

    def __init__(self, *, authenticated: bool = True, allowed: bool = True) -> None:
        self.asked: list[str] = []
        self._status: dict[str, dict[str, Any]] = {
            "tokenreviews": {"authenticated": authenticated, "user": {"username": "prom", "groups": ["system:x"]}},
            "subjectaccessreviews": {"allowed": allowed},
        }
        self.last: Any = None

    async def request(self, method: str, path: str, **how: Any) -> Any:
        assert method == "POST"
        resource = path.rpartition("/")[2]
        self.asked.append(resource)
        self.last = msgspec.json.decode(how["body"])
        body = msgspec.json.encode({"status": self._status[resource]})
        return Answer(200, {}, body)


@pytest.mark.parametrize(
    ("authenticated", "allowed", "status"), [(True, True, 200), (True, False, 403), (False, True, 401)]
)
def test_the_api_server_decides(authenticated: bool, allowed: bool, status: int) -> None:
    reviews = Reviews(authenticated=authenticated, allowed=allowed)

    async def run() -> list[int]:
        auth = serving.DelegatedAuth(reviews)  # type: ignore[arg-type]
        return [await auth("token", "/metrics") for _ in range(3)]

    assert asyncio.run(run()) == [status] * 3
    assert reviews.asked == (["tokenreviews", "subjectaccessreviews"] if authenticated else ["tokenreviews"])
    if authenticated:
        assert reviews.last["spec"]["nonResourceAttributes"] == {"path": "/metrics", "verb": "get"}
        assert reviews.last["spec"]["user"] == "prom"


def test_an_answer_for_one_path_is_none_for_another() -> None:
    reviews = Reviews()

    async def run() -> None:
        auth = serving.DelegatedAuth(reviews)  # type: ignore[arg-type]
        await auth("token", "/metrics")
        await auth("token", "/explain")
        await auth("other", "/metrics")

    asyncio.run(run())
    assert len(reviews.asked) == 6
