"""What calls of webhooks reach, what they trust, and what bounds them."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from kube_standin.webhooks import CallLimits, WebhookCaller, WebhookCallError, WebhookReach, webhook_reach
from tests.waiting import DEADLINE
from tests.webhooks.answering import Hooks, Respond, bundle_of, echo, hooks, http

Json = dict[str, Any]
Work = Callable[[WebhookCaller, Hooks], Coroutine[Any, Any, Any]]


def run(
    directory: Path,
    work: Work,
    respond: Respond = echo,
    *,
    reach: WebhookReach | None = None,
    limits: CallLimits | None = None,
    ports: Any = None,
) -> Any:
    """Let a caller work with a server of webhooks."""

    async def main() -> Any:
        caller = WebhookCaller(reach, ports, limits)
        async with hooks(directory, respond) as running:
            try:
                return await work(caller, running)
            finally:
                await caller.aclose()

    return asyncio.run(main())


def refusal(directory: Path, config: Callable[[Hooks], Json], respond: Respond = echo, **how: Any) -> str:
    """The reason why a call fails."""

    async def work(caller: WebhookCaller, running: Hooks) -> str:
        with pytest.raises(WebhookCallError) as caught:
            await caller.call("w", config(running), b"{}", how.pop("seconds", DEADLINE))
        text = str(caught.value)
        return text.replace(str(running.port), "PORT")

    return str(run(directory, work, respond, **{key: how[key] for key in how if key != "seconds"}))


def test_webhook_is_posted_json_and_its_json_comes_back(tmp_path: Path) -> None:
    async def work(caller: WebhookCaller, running: Hooks) -> Hooks:
        assert await caller.call("w", running.config("/a"), b'{"x": 1}', 10) == {"x": 1}
        return running

    head = run(tmp_path, work).heads[0].lower()
    assert head.startswith("post /a?timeout=10s http/1.1\r\n")
    assert "content-type: application/json\r\n" in head
    assert "authorization" not in head


@pytest.mark.parametrize(
    ("path", "called"),
    [("//a", "/a"), ("/a//b/", "/a/b"), ("", "/"), ("/", "/"), ("//", "/"), ("/a/./b/../c", "/a/c"), ("/../a", "/a")],
)
def test_path_is_cleaned_as_upstream(tmp_path: Path, path: str, called: str) -> None:
    # interfaces.md 6.9: envtest registers its webhooks with two slashes, and Go servers redirect such a path
    async def work(caller: WebhookCaller, running: Hooks) -> list[str]:
        await caller.call("w", running.config(path), b"{}", 10)
        return running.heads

    assert run(tmp_path, work)[0].startswith(f"POST {called}?timeout=10s ")


def test_connections_are_used_again(tmp_path: Path) -> None:
    async def work(caller: WebhookCaller, running: Hooks) -> int:
        for _ in range(5):
            await caller.call("w", running.config(), b"{}", DEADLINE)
        return running.connections

    assert run(tmp_path, work) == 1


def test_connection_closed_meanwhile_is_replaced(tmp_path: Path) -> None:
    async def close_after(body: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(http(body))
        writer.close()

    async def work(caller: WebhookCaller, running: Hooks) -> int:
        for _ in range(3):
            assert await caller.call("w", running.config(), b"{}", DEADLINE) == {}
        return running.connections

    assert run(tmp_path, work, close_after) == 3


def test_service_is_called_where_the_operator_says_under_its_own_name(tmp_path: Path) -> None:
    async def main() -> str:
        async with hooks(tmp_path, echo) as running:
            caller = WebhookCaller(webhook_reach(services=[f"system/hooks=localhost:{running.port}"]))
            await caller.call("w", running.service(), b"{}", DEADLINE)
            await caller.aclose()
            return running.heads[0].lower()

    assert "host: hooks.system.svc:443\r\n" in asyncio.run(main())


class Ports:
    """Services with a known port."""

    def __init__(self, port: int) -> None:
        self._port = port

    def port_of(self, namespace: str, name: str, port: int) -> int:
        """See `ServicePorts`."""
        assert (namespace, port) == ("system", 443)
        if name != "hooks":
            raise WebhookCallError(f'service "{name}" not found')
        return self._port


def test_service_without_a_mapping_is_called_on_this_machine(tmp_path: Path) -> None:
    async def main() -> None:
        async with hooks(tmp_path, echo) as running:
            caller = WebhookCaller(None, Ports(running.port))
            assert await caller.call("w", running.service(), b"{}", DEADLINE) == {}
            with pytest.raises(WebhookCallError, match='service "other" not found'):
                await caller.call("w", running.service("other"), b"{}", DEADLINE)
            await caller.aclose()

    asyncio.run(main())


def test_only_the_bundle_of_the_configuration_is_trusted(tmp_path: Path) -> None:
    """interfaces.md 6.7."""
    from kube_standin.security import certificates

    certificates(tmp_path / "other")
    unknown = 'Post "https://127.0.0.1:PORT/hook?timeout=180s": tls: failed to verify certificate: '
    other = refusal(tmp_path / "own", lambda it: {**it.config(), "caBundle": bundle_of(tmp_path / "other")})
    assert other == unknown + "x509: certificate signed by unknown authority"
    none = refusal(tmp_path / "own", lambda it: {"url": it.config()["url"]})
    assert none.startswith(unknown + "clientConfig.caBundle is empty")
    for bundle in ("bm8=", "!", "w6Q="):
        broken = refusal(tmp_path / "own", lambda it, bundle=bundle: {**it.config(), "caBundle": bundle})  # type: ignore[misc]
        assert "clientConfig.caBundle is not in PEM" in broken


def test_name_in_the_certificate_counts(tmp_path: Path) -> None:
    async def main() -> str:
        async with hooks(tmp_path, echo) as running:
            caller = WebhookCaller(webhook_reach(services=[f"system/else=127.0.0.1:{running.port}"]))
            with pytest.raises(WebhookCallError) as caught:
                await caller.call("w", running.service("else"), b"{}", DEADLINE)
            return str(caught.value)

    assert "Hostname mismatch, certificate is not valid for 'else.system.svc'" in asyncio.run(main())


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://127.0.0.1:PORT/", "must be https://"),
        ("https://user@127.0.0.1:PORT/", "must be https://"),
        ("https://127.0.0.1:PORT/?a=b", "must be https://"),
        ("https://127.0.0.1:PORT/#a", "must be https://"),
        ("https://127.0.0.1:PORT/a b", "must be https://"),
        ("https://127.0.0.1:PORT/a\r\nX-Evil: 1", "must be https://"),
        ("https://127.0.0.1:99999/", "is not valid"),
        ("https:///x", "is not valid"),
        ("file:///etc/passwd", "must be https://"),
        ("https://169.254.169.254/latest", "webhooks at address 169.254.169.254 are not allowed"),
        ("https://10.1.2.3/", "webhooks at address 10.1.2.3 are not allowed"),
        ("https://0.0.0.0:PORT/", "webhooks at address 0.0.0.0 are not allowed"),
        ("https://[::]:PORT/", "webhooks at address :: are not allowed"),
        ("https://[::ffff:10.1.2.3]/", "webhooks at address 10.1.2.3 are not allowed"),
        ("https://[fe80::1%25lo]/", "an address with a zone is not allowed"),
        ("https://2130706433:PORT/", "webhooks on host 2130706433 are not allowed"),
        ("https://127.1:PORT/", "webhooks on host 127.1 are not allowed"),
        ("https://0x7f000001:PORT/", "webhooks on host 0x7f000001 are not allowed"),
        ("https://example.com/", "webhooks on host example.com are not allowed"),
        ("https://localhost.example.com/", "webhooks on host localhost.example.com are not allowed"),
    ],
)
def test_nothing_else_is_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, reason: str) -> None:
    """interfaces.md 6.7."""
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")

    def no_lookup(*_: Any, **__: Any) -> Any:
        raise AssertionError("a name was looked up")

    async def work(caller: WebhookCaller, running: Hooks) -> str:
        loop = asyncio.get_running_loop()
        loop.getaddrinfo = no_lookup  # type: ignore[method-assign]
        config = {**running.config(), "url": url.replace("PORT", str(running.port))}
        with pytest.raises(WebhookCallError) as caught:
            await caller.call("w", config, b"{}", DEADLINE)
        assert not running.connections
        return str(caught.value)

    assert reason in run(tmp_path, work)


@pytest.mark.parametrize(
    "service",
    [
        {"name": "a/b", "namespace": "n"},
        {"name": "", "namespace": "n"},
        {"name": "a", "namespace": "n", "path": "x"},
        {"name": "a", "namespace": "n.evil.com/"},
    ],
)
def test_service_has_a_valid_name(tmp_path: Path, service: Json) -> None:
    text = refusal(tmp_path, lambda it: {"service": service, "caBundle": it.bundle})
    assert "the service of the webhook is not valid" in text


def lookup(monkeypatch: pytest.MonkeyPatch, table: dict[str, list[str]]) -> None:
    """Let names have these addresses."""

    async def found(_: Any, host: str, port: int, **__: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in table[host]]

    monkeypatch.setattr(asyncio.base_events.BaseEventLoop, "getaddrinfo", found)


def addresses(reach: WebhookReach, url: str) -> list[str]:
    """What is tried for a URL."""
    return asyncio.run(reach.addresses(reach.destination({"url": url})))


def test_names_are_checked_after_they_are_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"localhost": ["127.0.0.1", "10.0.0.1"], "hooks.example.com": ["192.0.2.7", "169.254.169.254"]}
    lookup(monkeypatch, names)
    assert addresses(WebhookReach(), "https://localhost/") == ["127.0.0.1"]
    listed = webhook_reach(["hooks.example.com", "10.0.0.0/8,2001:db8::1"])
    assert addresses(listed, "https://Hooks.Example.com/") == ["192.0.2.7"]
    assert addresses(listed, "https://10.2.3.4:8443/") == ["10.2.3.4"]
    assert addresses(listed, "https://[2001:db8::1]/") == ["2001:db8::1"]
    names["localhost"] = ["192.0.2.1"]
    with pytest.raises(WebhookCallError, match=r"address 192\.0\.2\.1 are not allowed"):
        addresses(WebhookReach(), "https://localhost/")


@pytest.mark.parametrize("host", ["", "a b", "https://x", "10.0.0.0/99", "1.2.3", "10.0.0.1/8"])
def test_hosts_that_are_none_are_refused_at_the_start(host: str) -> None:
    with pytest.raises(ValueError, match="--webhook-hosts: expected a host name, an address or a network"):
        webhook_reach([host])


@pytest.mark.parametrize("text", ["", "a=b:1", "a/b=c", "a/b=c:0", "a/b=c:99999", "a/b=:1", "a/b/c=d:1", "/b=c:1"])
def test_mappings_that_are_none_are_refused_at_the_start(text: str) -> None:
    with pytest.raises(ValueError, match="--webhook-service: expected NAMESPACE/NAME=HOST:PORT"):
        webhook_reach(services=[text])


def test_mapping_may_have_an_address_of_six() -> None:
    assert webhook_reach(services=["a/b=[::1]:9443"]).services == {("a", "b"): ("::1", 9443)}


async def never(body: bytes, writer: asyncio.StreamWriter) -> None:
    """Answer nothing."""
    await asyncio.Event().wait()


async def drip(body: bytes, writer: asyncio.StreamWriter) -> None:
    """Answer a byte now and then, forever."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0)


def says(answer: bytes) -> Respond:
    """Answer these bytes and end."""

    async def respond(body: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        writer.close()

    return respond


@pytest.mark.parametrize("respond", [never, drip])
def test_call_ends_when_its_time_is_over(tmp_path: Path, respond: Respond) -> None:
    text = refusal(tmp_path, Hooks.config, respond, seconds=0.3)
    assert text == 'Post "https://127.0.0.1:PORT/hook?timeout=0.3s": context deadline exceeded'


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (http(b"x" * 3000), "the response is longer than 2000 bytes"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 30_000, "the response is longer than 2000 bytes"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 40_000, "the response is longer than 2000 bytes"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 17_000, "malformed HTTP response"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n{}", "malformed HTTP response"),
        (b"nonsense\r\n\r\n", "malformed HTTP response"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", "malformed HTTP response"),
        (b"", "EOF"),
        (http(b"{}", "307 Temporary Redirect", "Location: https://127.0.0.1:1/\r\n"), "the status code 307"),
        (
            http(b"broken", "500 Internal Server Error"),
            'an error on the server ("broken") has prevented the request from succeeding',
        ),
        (http(b"", "404 Not Found"), "the server could not find the requested resource"),
        (http(b"not you", "403 Forbidden"), "not you"),
        (http(b"[]"), "the response is not JSON"),
        (http(b"\x1f\x8b\x08", headers="Content-Encoding: gzip\r\n"), "the response is not JSON"),
        (http(b'{"a":' * 300 + b"1" + b"}" * 300), "the response is not JSON"),
    ],
)
def test_bad_responses_end_the_call(tmp_path: Path, answer: bytes, reason: str) -> None:
    assert reason in refusal(tmp_path, Hooks.config, says(answer), limits=CallLimits(response=2000))


def test_redirect_is_not_followed_to_anywhere(tmp_path: Path) -> None:
    """interfaces.md 6.7."""

    async def work(caller: WebhookCaller, running: Hooks) -> int:
        with pytest.raises(WebhookCallError):
            await caller.call("w", running.config(), b"{}", DEADLINE)
        return running.connections

    back = http(b"", "307 Temporary Redirect", "Location: /again\r\n")
    assert run(tmp_path, work, says(back)) == 1


def test_calls_at_once_are_bounded_for_each_webhook_and_in_total(tmp_path: Path) -> None:
    async def work(caller: WebhookCaller, running: Hooks) -> None:
        bodies = [json.dumps({"n": number}).encode() for number in range(6)]
        calls = (caller.call(f"w{number % 3}", running.config(), body, DEADLINE) for number, body in enumerate(bodies))
        found = asyncio.gather(*calls)
        while len(arrived) < 3:
            await asyncio.sleep(0)
        gate.set()
        assert [one["n"] for one in await found] == list(range(6))
        assert running.most_open <= 3
        gate.clear()
        arrived.clear()
        again = asyncio.gather(*(caller.call("w", running.config(), body, DEADLINE) for body in bodies))
        while len(arrived) < 2:
            await asyncio.sleep(0)
        gate.set()
        running.most_open = 0
        await again
        assert running.most_open <= 2

    gate, arrived = asyncio.Event(), list[bytes]()

    async def gated(body: bytes, writer: asyncio.StreamWriter) -> None:
        arrived.append(body)
        await gate.wait()
        writer.write(http(body))

    run(tmp_path, work, gated, limits=CallLimits(at_once=3, per_webhook=2))


def test_call_that_waits_for_others_ends_in_time_too(tmp_path: Path) -> None:
    async def work(caller: WebhookCaller, running: Hooks) -> str:
        first = asyncio.create_task(caller.call("w", running.config(), b"{}", DEADLINE))
        while not running.bodies:
            await asyncio.sleep(0)
        with pytest.raises(WebhookCallError) as caught:
            await caller.call("w", running.config(), b"{}", 0.05)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        return str(caught.value)

    assert "context deadline exceeded" in run(tmp_path, work, never, limits=CallLimits(per_webhook=1))


def test_nothing_listens(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        text = refusal(tmp_path, lambda it: {**it.config(), "url": f"https://127.0.0.1:{port}/x"})
    assert text.endswith(f"dial tcp 127.0.0.1:{port}: connect: connection refused")
