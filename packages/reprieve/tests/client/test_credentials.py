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
from reprieve.client.credentials import REREAD_SECONDS, ExecCredentials, TokenFile, credentials_for
from reprieve.client.errors import CredentialError
from tests.client.clock import FakeClock
from tests.client.scripted import Reply, answer, client_of, scripted, status

V1 = "client.authentication.k8s.io/v1"
BETA = "client.authentication.k8s.io/v1beta1"


def plugin(command: str, clock: FakeClock, connection: Connection | None = None, **more: Any) -> ExecCredentials:
    asked = ExecPlugin(**{"api_version": V1, "command": command, "interactive_mode": "Never", **more})
    return ExecCredentials(asked, connection or Connection("https://api", "test"), clock)


def accepting(*tokens: str) -> Reply:
    """A server that knows these tokens only."""

    async def reply(request: web.Request) -> web.StreamResponse:
        known = request.headers.get("Authorization", "").removeprefix("Bearer ") in tokens
        return await (answer({}) if known else status(401, "Unauthorized", "Unauthorized"))(request)

    return reply


class Printed:
    """A program that has printed this and ended; no process is started."""

    def __init__(self, output: bytes, code: int) -> None:
        self.stdout = asyncio.StreamReader()
        self.stdout.feed_data(output)
        self.stdout.feed_eof()
        self.returncode = code

    async def wait(self) -> int:
        return self.returncode


def printing(monkeypatch: pytest.MonkeyPatch, *outputs: Any, code: int = 0) -> list[dict[str, Any]]:
    """What programs that are started print, one after the other, the last again and again; how they were started."""
    left, started = list(outputs), []

    async def start(*command: str, **how: Any) -> Printed:
        started.append({"command": command, **how})
        output = left.pop(0) if len(left) > 1 else left[0]
        return Printed(output if isinstance(output, bytes) else json.dumps(output).encode(), code)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start)
    return started


def exec_credential(version: str = V1, kind: str = "ExecCredential", **status_of: Any) -> dict[str, Any]:
    return {"kind": kind, "apiVersion": version, "status": status_of}


LONGEST = 1024 * 1024
PRINTED: dict[str, tuple[Any, int, str]] = {
    "another kind": (exec_credential(kind="Other", token="t"), 0, "expected an ExecCredential of"),
    "another version": (exec_credential(BETA, token="t"), 0, "expected an ExecCredential of"),
    "no status": ({"kind": "ExecCredential", "apiVersion": V1}, 0, "neither a token nor a client certificate"),
    "an empty status": (exec_credential(), 0, "neither a token nor a client certificate"),
    "a key alone": (exec_credential(token="t", clientKeyData="k"), 0, "or a key alone"),
    "a certificate alone": (exec_credential(token="t", clientCertificateData="c"), 0, "without its key"),
    "a blank in the token": (exec_credential(token="a b"), 0, "white space"),
    "a time without a zone": (
        exec_credential(token="t", expirationTimestamp="2026-01-01T00:00:00"),
        0,
        "without a time zone",
    ),
    "no JSON": (b"hello", 0, "did not print an ExecCredential in JSON"),
    "nothing": (b"", 0, "did not print an ExecCredential in JSON"),
    "a line end in the token": (exec_credential(token="a\nb"), 0, "white space"),
    "deep JSON": (b"[" * 200_000, 0, "did not print an ExecCredential in JSON"),
    "a byte too many": (b"x" * (LONGEST + 1), 0, f"printed more than {LONGEST} bytes"),
    "as many bytes as may be": (b"x" * LONGEST, 0, "did not print an ExecCredential in JSON"),
    "a failure": (exec_credential(token="t"), 1, "failed with exit code 1"),
}


@pytest.mark.parametrize("name", PRINTED)
def test_credential_plugin_output_that_is_no_credential(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    output, code, message = PRINTED[name]
    printing(monkeypatch, output, code=code)
    with pytest.raises(CredentialError, match=message):
        asyncio.run(plugin("p", FakeClock()).current())


@pytest.mark.parametrize(
    ("status_of", "authorization", "certificate"),
    [
        ({"token": "t"}, "Bearer t", None),
        ({"clientCertificateData": "c", "clientKeyData": "k"}, None, (b"c", b"k")),
        ({"token": "t", "clientCertificateData": "c", "clientKeyData": "k"}, "Bearer t", (b"c", b"k")),
    ],
)
def test_credential_plugin_output_is_what_a_request_carries(
    status_of: dict[str, str], authorization: str | None, certificate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    printing(monkeypatch, exec_credential(**status_of))
    found = asyncio.run(plugin("p", FakeClock()).current())
    assert (found.authorization, found.certificate) == (authorization, certificate)


@pytest.mark.parametrize(("later", "times"), [(0.0, 1), (594.9, 1), (595.0, 2), (600.0, 2)])
def test_five_seconds_before_it_expires_a_plugin_is_run_again(
    later: float, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()
    expires = (clock.now() + timedelta(seconds=600)).isoformat()
    started = printing(
        monkeypatch, exec_credential(token="one", expirationTimestamp=expires), exec_credential(token="two")
    )

    async def run() -> None:
        asked = plugin("p", clock)
        await asked.current()
        clock.advance(later)
        found = await asked.current()
        assert (found.authorization == "Bearer two") is (times == 2)
        assert len(started) == times
        clock.advance(3600.0)
        if times == 2:
            assert (await asked.current()).authorization == "Bearer two", "it does not say when it expires"
            assert len(started) == 2

    asyncio.run(run())


@pytest.mark.parametrize(
    ("mode", "terminal", "interactive"),
    [("Never", True, False), ("IfAvailable", True, True), ("IfAvailable", False, False), ("Always", True, True)],
)
def test_whether_a_plugin_gets_the_terminal(
    mode: str, terminal: bool, interactive: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal:
        def isatty(self) -> bool:
            return terminal

    monkeypatch.setattr(sys, "stdin", Terminal())
    started = printing(monkeypatch, exec_credential(token="t"))
    asyncio.run(plugin("p", FakeClock(), interactive_mode=mode).current())
    [how] = started
    assert how["stdin"] is (None if interactive else asyncio.subprocess.DEVNULL)
    spec = json.loads(how["env"]["KUBERNETES_EXEC_INFO"])["spec"]
    assert spec == {"interactive": interactive}, "it learns of the cluster only where the kubeconfig provides that"


@pytest.mark.parametrize(
    ("tls", "given"),
    [
        (TlsSettings(), {}),
        (TlsSettings(insecure=True), {"insecure-skip-tls-verify": True}),
        (TlsSettings(ca_data=b"CA"), {"certificate-authority-data": "Q0E="}),
        (TlsSettings(ca_file=Path("ca.pem")), {"certificate-authority-data": "RklMRQ=="}),
        (TlsSettings(ca_data=b"CA", ca_file=Path("none.pem")), {"certificate-authority-data": "Q0E="}),
    ],
)
def test_credential_plugin_learns_of_the_server_s_certificate(
    tls: TlsSettings, given: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ca.pem").write_text("FILE")
    started = printing(monkeypatch, exec_credential(token="t"))
    connection = Connection("https://api", "test", tls=tls)
    asyncio.run(plugin("p", FakeClock(), connection, provide_cluster_info=True).current())
    assert json.loads(started[0]["env"]["KUBERNETES_EXEC_INFO"])["spec"]["cluster"] == {
        "server": "https://api",
        **given,
    }


def test_certificate_of_the_server_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    connection = Connection("https://api", "test", tls=TlsSettings(ca_file=tmp_path / "none.pem"))
    with pytest.raises(CredentialError, match=r"none\.pem: No such file"):
        asyncio.run(plugin("p", FakeClock(), connection, provide_cluster_info=True).current())


def test_plugin_is_run_again_only_for_the_credential_that_was_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that failed with an older one has another to try already."""
    started = printing(
        monkeypatch, exec_credential(token="one"), exec_credential(token="two"), exec_credential(token="two")
    )

    async def run() -> None:
        asked = plugin("p", FakeClock())
        first = await asked.current()
        assert await asked.renewed(first)
        assert len(started) == 2
        assert await asked.renewed(first)
        assert len(started) == 2
        assert not await asked.renewed(await asked.current())
        assert len(started) == 3

    asyncio.run(run())


@pytest.mark.parametrize(
    ("identity", "authorization"),
    [
        (Identity(), None),
        (Identity(token="t"), "Bearer t"),
        (Identity(username="u", password="p"), "Basic dTpw"),
        (Identity(username="u"), "Basic dTo="),
        (Identity(token="t", username="u", password="p"), "Bearer t"),
        (Identity(token="t", token_file=Path("file")), "Bearer from-file"),
        (Identity(token="t", token_file=Path("none")), "Bearer t"),
    ],
)
def test_identity_parts_in_order(
    identity: Identity, authorization: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text(" from-file\n")
    found = credentials_for(Connection("https://api", "test", identity=identity), FakeClock())
    assert asyncio.run(found.current()).authorization == authorization
    if identity.token_file is None:
        assert not asyncio.run(found.renewed(asyncio.run(found.current()))), "there is no other to try"


@pytest.mark.parametrize(("later", "token"), [(REREAD_SECONDS - 0.1, "one"), (REREAD_SECONDS, "two")])
def test_token_file_is_read_again_after_ten_seconds(later: float, token: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one")

    async def run() -> None:
        clock = FakeClock()
        found = TokenFile(file, clock)
        await found.current()
        file.write_text("two")
        clock.advance(later)
        assert (await found.current()).authorization == f"Bearer {token}"
        file.write_text("three")
        assert (await found.current()).authorization == f"Bearer {token}", "read a moment ago"

    asyncio.run(run())


@pytest.mark.parametrize("content", ["", "two words", "two\nlines"])
def test_token_file_that_is_spoilt_later_leaves_the_last_token(content: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one")

    async def run() -> None:
        found = TokenFile(file, FakeClock())
        first = await found.current()
        file.write_text(content)
        assert not await found.renewed(first)
        file.write_text("two")
        assert await found.renewed(first)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("error", "hint", "text"),
    [
        (FileNotFoundError(2, "No such file"), "", "is not installed"),
        (FileNotFoundError(2, "No such file"), "Install it.", "is not installed: Install it."),
        (PermissionError(13, "Permission denied"), "Install it.", "cannot be run: Permission denied"),
        (OSError("odd"), "", "cannot be run: odd"),
        (ValueError("embedded null byte"), "", "cannot be run: embedded null byte"),
    ],
    ids=lambda value: str(value),
)
def test_why_a_plugin_does_not_start(error: Exception, hint: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def start(*_: Any, **__: Any) -> Printed:
        raise error

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start)
    with pytest.raises(CredentialError) as refused:
        asyncio.run(plugin("p", FakeClock(), install_hint=hint).current())
    assert str(refused.value) == f"the credential plugin p {text}"


class Stuck(Printed):
    """A program that prints nothing and does not end until it is killed, if it is not gone by then."""

    def __init__(self, gone: bool = False) -> None:
        super().__init__(b"", 0)
        self.stdout = asyncio.StreamReader()
        self.returncode: int | None = None  # type: ignore[assignment]
        self.gone = gone
        self.ended: list[str] = []

    def kill(self) -> None:
        self.ended.append("killed")
        self.returncode = -9
        if self.gone:
            raise ProcessLookupError

    async def wait(self) -> int:
        self.ended.append("waited for")
        return -9


@pytest.mark.parametrize("gone", [False, True])
@pytest.mark.parametrize("why", ["too slow", "cancelled"])
def test_plugin_that_does_not_answer_is_killed(why: str, gone: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a minute, or when no request waits for it any more; it leaves no process behind."""
    started: list[Stuck] = []
    begun = asyncio.Event()
    limits: list[float | None] = []
    timeout = asyncio.timeout

    async def start(*_: Any, **__: Any) -> Stuck:
        started.append(Stuck(gone))
        begun.set()
        return started[0]

    def at_once(seconds: float | None) -> asyncio.Timeout:
        limits.append(seconds)
        return timeout(0.0 if why == "too slow" else seconds)

    async def run() -> None:
        monkeypatch.setattr(asyncio, "create_subprocess_exec", start)
        monkeypatch.setattr(asyncio, "timeout", at_once)
        task = asyncio.create_task(plugin("p", FakeClock()).current())
        if why == "too slow":
            with pytest.raises(CredentialError, match="did not answer within 60 s"):
                await task
        else:
            await begun.wait()
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait((task,))
            assert task.cancelled()

    asyncio.run(run())
    assert limits == [60.0]
    assert started[0].ended == ["killed", "waited for"]


def test_plugin_with_the_terminal_may_take_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user may be typing a password; and of how it was started nothing else is changed."""

    class Terminal:
        def isatty(self) -> bool:
            return True

    limits: list[float | None] = []
    timeout = asyncio.timeout

    def noted(seconds: float | None) -> asyncio.Timeout:
        limits.append(seconds)
        return timeout(seconds)

    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setenv("OF_THE_MACHINE", "1")
    monkeypatch.setenv("OF_BOTH", "1")
    started = printing(monkeypatch, exec_credential(token="t"))
    monkeypatch.setattr(asyncio, "timeout", noted)
    how: dict[str, Any] = {"environment": (("OF_BOTH", "2"), ("KUBERNETES_EXEC_INFO", "mine")), "arguments": ("a", "b")}
    asyncio.run(plugin("p", FakeClock(), interactive_mode="Always", **how).current())
    assert limits == [None]
    assert started[0]["command"] == ("p", "a", "b")
    environment = started[0]["env"]
    assert (environment["OF_THE_MACHINE"], environment["OF_BOTH"]) == ("1", "2")
    assert json.loads(environment["KUBERNETES_EXEC_INFO"])["kind"] == "ExecCredential"


def test_token_file_is_read_again(tmp_path: Path) -> None:
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


def test_token_rotated_early_is_found_after_401(tmp_path: Path) -> None:
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


def test_token_may_have_a_mebibyte(tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(b"t" * LONGEST)
    found = asyncio.run(TokenFile(tmp_path / "token", FakeClock()).current())
    assert found.authorization == f"Bearer {'t' * LONGEST}"


def test_empty_or_strange_or_long_token_file_is_an_error(tmp_path: Path) -> None:
    for content in (b"", b" \n", b"two words", b"\xff\xfe", b"t" * (LONGEST + 1)):
        (tmp_path / "token").write_bytes(content)
        with pytest.raises(CredentialError, match="holds no token"):
            asyncio.run(TokenFile(tmp_path / "token", FakeClock()).current())
