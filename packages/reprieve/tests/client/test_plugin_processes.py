"""Credential plugins as programs: started, asked again, broken. What needs no process is in `test_credentials.py`."""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from reprieve.client.connection import Connection, ExecPlugin, Identity, TlsSettings
from reprieve.client.errors import ApiError, CredentialError
from tests.client.clock import FakeClock
from tests.client.scripted import client_of, lines, scripted
from tests.client.test_credentials import BETA, V1, accepting, plugin


def script(tmp_path: Path, code: str) -> str:
    """A program of the given Python code; `n` is how often it was run, `info` what it was given."""
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


def test_plugin_is_run_once_until_its_credential_expires(tmp_path: Path) -> None:
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


def test_without_an_expiry_a_plugin_is_run_again_after_401_only(tmp_path: Path) -> None:
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


def test_plugin_without_another_credential_is_not_run_for_ever(tmp_path: Path) -> None:
    async def run() -> None:
        identity = Identity(plugin=ExecPlugin(V1, script(tmp_path, "say(token='same')"), interactive_mode="Never"))
        async with scripted(accepting("other")) as server, client_of(server, identity=identity) as client:
            with pytest.raises(ApiError, match="Unauthorized"):
                await client.get("/api")
        assert len(runs(tmp_path)) == 2

    asyncio.run(run())


def test_watch_renews_credentials_too(tmp_path: Path) -> None:
    async def run() -> None:
        path = script(tmp_path, "say(token=f't{n}')")
        identity = Identity(plugin=ExecPlugin(V1, path, interactive_mode="Never"))
        async with scripted(accepting("t2"), lines(b"x\n")) as server, client_of(server, identity=identity) as client:
            async with client.stream("/api", {}, opening=10.0) as stream:
                assert await stream.piece() == b"x\n"
            assert server.seen[1].headers["Authorization"] == "Bearer t2"

    asyncio.run(run())


def test_credential_plugin_is_run_with(tmp_path: Path) -> None:
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
    "it prints without end": ("print('x' * 2_000_000)", "more than"),
}
"""As programs; what else may be wrong with what one prints is in `PRINTED`."""


@pytest.mark.parametrize("name", BROKEN)
def test_broken_plugin_is_one_clear_error(name: str, tmp_path: Path) -> None:
    code, message = BROKEN[name]
    with pytest.raises(CredentialError, match=message) as refused:
        asyncio.run(plugin(script(tmp_path, code), FakeClock()).current())
    assert "the credential plugin" in str(refused.value)


def test_plugin_that_is_not_there(tmp_path: Path) -> None:
    missing = plugin(str(tmp_path / "none"), FakeClock(), install_hint="Install it from X.")
    with pytest.raises(CredentialError, match=r"is not installed: Install it from X\."):
        asyncio.run(missing.current())
    (tmp_path / "text").write_text("no program")
    with pytest.raises(CredentialError, match="cannot be run"):
        asyncio.run(plugin(str(tmp_path / "text"), FakeClock()).current())


def test_plugin_that_wants_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    asked = plugin(script(tmp_path, "say(token='t')"), FakeClock(), interactive_mode="Always")
    with pytest.raises(CredentialError, match="needs a terminal"):
        asyncio.run(asked.current())
