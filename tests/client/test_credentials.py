"""Tokens that rotate and plugins that print credentials (client.authentication.k8s.io v1 and v1beta1)."""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from reprieve.client.connection import Connection, ExecPlugin, Identity, TlsSettings
from reprieve.client.credentials import REREAD_SECONDS, Plugin, TokenFile
from reprieve.client.errors import ApiError, CredentialError

from .clock import FakeClock
from .scripted import Reply, answer, client_of, lines, scripted, status

V1 = "client.authentication.k8s.io/v1"
BETA = "client.authentication.k8s.io/v1beta1"


def script(tmp_path: Path, code: str) -> str:
    """A program of the given Python code; `n` is how often it was run, `info` what it was told."""
    path = tmp_path / "plugin"
    head = f"""#!{sys.executable} -ES
import json, os, sys, pathlib
log = pathlib.Path({str(tmp_path / "runs")!r})
n = len(log.read_text().splitlines()) + 1 if log.exists() else 1
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
with log.open("a") as file:
    file.write(json.dumps(info) + "\\n")
def say(version={V1!r}, **status):
    print(json.dumps(dict(kind="ExecCredential", apiVersion=version, status=status)))
"""
    path.write_text(head + code)
    path.chmod(0o700)
    return str(path)


def runs(tmp_path: Path) -> list[dict[str, Any]]:
    log = tmp_path / "runs"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def plugin(command: str, clock: FakeClock, connection: Connection | None = None, **more: Any) -> Plugin:
    asked = ExecPlugin(**{"api_version": V1, "command": command, "interactive_mode": "Never", **more})
    return Plugin(asked, connection or Connection("https://api", "test"), clock)


def accepting(*tokens: str) -> Reply:
    """A server that knows these tokens only."""

    async def reply(request: web.Request) -> web.StreamResponse:
        known = request.headers.get("Authorization", "").removeprefix("Bearer ") in tokens
        return await (answer({}) if known else status(401, "Unauthorized", "Unauthorized"))(request)

    return reply


def test_a_plugin_is_asked_once_until_its_credential_expires(tmp_path: Path) -> None:
    async def run() -> None:
        clock = FakeClock()
        expires = (clock.now() + timedelta(seconds=600)).isoformat()
        asked = plugin(script(tmp_path, f"say(token=f't{{n}}', expirationTimestamp={expires!r})"), clock)
        found = await asyncio.gather(*(asked.current() for _ in range(10)))
        assert {credential.authorization for credential in found} == {"Bearer t1"}
        clock.advance(590.0)
        assert (await asked.current()).authorization == "Bearer t1"
        clock.advance(6.0)
        assert (await asked.current()).authorization == "Bearer t2"
        assert len(runs(tmp_path)) == 2

    asyncio.run(run())


def test_without_an_expiry_a_plugin_is_asked_again_after_401_only(tmp_path: Path) -> None:
    async def run() -> None:
        path = script(tmp_path, "say(token=f't{n}')")
        identity = Identity(plugin=ExecPlugin(V1, path, interactive_mode="Never"))
        replies = (accepting("t1"), accepting("t2"))
        async with scripted(*replies) as server, client_of(server, identity=identity) as client:
            for _ in range(3):
                await client.get("/api")
        assert len(runs(tmp_path)) == 2
        assert len(server.seen) == 4

    asyncio.run(run())


def test_a_plugin_that_has_nothing_better_is_not_asked_for_ever(tmp_path: Path) -> None:
    async def run() -> None:
        identity = Identity(plugin=ExecPlugin(V1, script(tmp_path, "say(token='same')"), interactive_mode="Never"))
        async with scripted(accepting("other")) as server, client_of(server, identity=identity) as client:
            with pytest.raises(ApiError, match="Unauthorized"):
                await client.get("/api")
        assert len(runs(tmp_path)) == 2

    asyncio.run(run())


def test_a_watch_renews_credentials_too(tmp_path: Path) -> None:
    async def run() -> None:
        path = script(tmp_path, "say(token=f't{n}')")
        identity = Identity(plugin=ExecPlugin(V1, path, interactive_mode="Never"))
        async with scripted(accepting("t2"), lines(b"x\n")) as server, client_of(server, identity=identity) as client:
            async with client.stream("/api", {}, opening=10.0) as stream:
                assert await stream.piece() == b"x\n"
            assert server.seen[1].headers["Authorization"] == "Bearer t2"

    asyncio.run(run())


def test_what_a_plugin_is_told(tmp_path: Path) -> None:
    tls = TlsSettings(ca_data=b"CA", server_name="inner")
    connection = Connection("https://api:1", "test", tls=tls, proxy="http://p:1")

    async def run() -> None:
        path = script(tmp_path, "say(token=os.environ['GREETING'] + sys.argv[1], version=info['apiVersion'])")
        more = {
            "api_version": BETA,
            "arguments": ("there",),
            "environment": (("GREETING", "hello"),),
            "provide_cluster_info": True,
            "extension": {"audience": "x"},
        }
        found = await plugin(path, FakeClock(), connection, **more).current()
        assert found.authorization == "Bearer hellothere"

    asyncio.run(run())
    cluster = {
        "server": "https://api:1",
        "tls-server-name": "inner",
        "certificate-authority-data": "Q0E=",
        "proxy-url": "http://p:1",
        "config": {"audience": "x"},
    }
    spec = {"interactive": False, "cluster": cluster}
    assert runs(tmp_path) == [{"kind": "ExecCredential", "apiVersion": BETA, "spec": spec}]


BROKEN: dict[str, tuple[str, str]] = {
    "it fails": ("sys.exit(3)", "failed with exit code 3"),
    "it prints nothing": ("", "did not print an ExecCredential"),
    "it prints something else": ("print('hello')", "did not print an ExecCredential"),
    "it prints another version": (f"say(token='t', version={BETA!r})", "want an ExecCredential of"),
    "it prints an empty status": ("say()", "neither a token nor a client certificate"),
    "it prints half a certificate": ("say(clientCertificateData='x')", "without its key"),
    "it prints two lines": ("say(token='a\\nb')", "white space"),
    "it prints without end": ("print('x' * 2_000_000)", "more than"),
    "its time has no zone": ("say(token='t', expirationTimestamp='2026-01-01T00:00:00')", "without a time zone"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_plugin_is_one_clear_error(name: str, tmp_path: Path) -> None:
    code, message = BROKEN[name]
    with pytest.raises(CredentialError, match=message) as refused:
        asyncio.run(plugin(script(tmp_path, code), FakeClock()).current())
    assert "the credential plugin" in str(refused.value)


def test_a_plugin_that_is_not_there(tmp_path: Path) -> None:
    missing = plugin(str(tmp_path / "none"), FakeClock(), install_hint="Install it from X.")
    with pytest.raises(CredentialError, match=r"is not installed: Install it from X\."):
        asyncio.run(missing.current())
    (tmp_path / "text").write_text("no program")
    with pytest.raises(CredentialError, match="cannot be run"):
        asyncio.run(plugin(str(tmp_path / "text"), FakeClock()).current())


def test_a_plugin_that_wants_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    asked = plugin(script(tmp_path, "say(token='t')"), FakeClock(), interactive_mode="Always")
    with pytest.raises(CredentialError, match="needs a terminal"):
        asyncio.run(asked.current())


def test_a_token_file_is_read_again(tmp_path: Path) -> None:
    """The kubelet replaces it; in between the last token counts."""
    file = tmp_path / "token"

    async def run() -> None:
        clock = FakeClock()
        token = TokenFile(file, clock)
        with pytest.raises(CredentialError, match="token: No such file"):
            await token.current()
        file.write_text("one\n")
        assert (await token.current()).authorization == "Bearer one"
        file.write_text("two")
        assert (await token.current()).authorization == "Bearer one", "read at most every ten seconds"
        clock.advance(REREAD_SECONDS)
        assert (await token.current()).authorization == "Bearer two"
        file.unlink()
        clock.advance(REREAD_SECONDS)
        assert (await token.current()).authorization == "Bearer two"
        file.write_text("")
        clock.advance(REREAD_SECONDS)
        assert (await token.current()).authorization == "Bearer two"

    asyncio.run(run())


def test_a_token_rotated_early_is_found_after_401(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one")

    async def run() -> None:
        async with scripted(accepting("one"), accepting("two")) as server:
            async with client_of(server, identity=Identity(token_file=file)) as client:
                await client.get("/api")
                file.write_text("two")
                await client.get("/api")
            assert [r.headers["Authorization"] for r in server.seen] == ["Bearer one", "Bearer one", "Bearer two"]

    asyncio.run(run())


def test_an_empty_or_strange_token_file_is_an_error(tmp_path: Path) -> None:
    for content in (b"", b"two words", b"\xff\xfe"):
        (tmp_path / "token").write_bytes(content)
        with pytest.raises(CredentialError, match="holds no token"):
            asyncio.run(TokenFile(tmp_path / "token", FakeClock()).current())
