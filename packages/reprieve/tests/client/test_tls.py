"""Trusted servers and accepted clients: authorities, names, client certificates, proxies."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from reprieve.client.connection import Connection, ExecPlugin, Identity, TlsSettings
from reprieve.client.credentials import Credential
from reprieve.client.errors import ConfigError, UnreachableError
from reprieve.client.kubeconfig import read_kubeconfig
from reprieve.client.tls import CHECK_FILES_SECONDS, TlsContexts
from reprieve.client.transport import ApiResponse
from tests.client.clock import FakeClock
from tests.client.scripted import answer, client_of, scripted
from tests.client.test_credentials import exec_credential, printing
from tests.waiting import DEADLINE

Signed = tuple[x509.Certificate, ec.EllipticCurvePrivateKey]


def certificate(name: str, signer: Signed | None = None, *names: str) -> Signed:
    """A certificate for some DNS names, or an authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(signer[0].subject if signer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=signer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    if signer is None:
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        builder = builder.add_extension(usage, critical=True)
    else:
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer[1].public_key())
        builder = builder.add_extension(authority, critical=False)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(n) for n in names]), critical=False)
    return builder.sign(signer[1] if signer else key, hashes.SHA256()), key


def pem(signed: Signed) -> tuple[bytes, bytes]:
    private = signed[1].private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return signed[0].public_bytes(serialization.Encoding.PEM), private


CA = certificate("the authority")
OTHER_CA = certificate("another authority")
SERVER = certificate("server", CA, "inner.example.com")
CLIENT = certificate("jane", CA)
CA_PEM = pem(CA)[0]
OK = answer({"ok": True})


def server_context(tmp_path: Path, *, demand: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for name, text in zip(("server.crt", "server.key"), pem(SERVER), strict=True):
        (tmp_path / name).write_bytes(text)
    context.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    if demand:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=CA_PEM.decode())
    return context


async def ask(tmp_path: Path, settings: TlsSettings, *, demand: bool = False, identity: Identity | None = None) -> None:
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # the server's side of refused handshakes
    async with (
        scripted(OK, tls=server_context(tmp_path, demand=demand)) as server,
        client_of(server, tls=settings, identity=identity) as client,
    ):
        await client.get("/api", deadline=DEADLINE)


INNER = "inner.example.com"


def test_right_authority_and_name(tmp_path: Path) -> None:
    asyncio.run(ask(tmp_path, TlsSettings(ca_data=CA_PEM, server_name=INNER)))


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (TlsSettings(ca_data=pem(OTHER_CA)[0], server_name=INNER), "not trusted"),
        (TlsSettings(server_name=INNER), "not trusted"),
        (TlsSettings(ca_data=CA_PEM), "not trusted"),  # the certificate is for another name than 127.0.0.1
    ],
)
def test_wrong_authority_or_name_is_reported_at_once(settings: TlsSettings, reason: str, tmp_path: Path) -> None:
    with pytest.raises(UnreachableError, match=reason) as refused:
        asyncio.run(ask(tmp_path, settings))
    assert refused.value.lasting


def test_certificates_are_left_unchecked_only_where_that_is_stated(tmp_path: Path) -> None:
    asyncio.run(ask(tmp_path, TlsSettings(insecure=True)))


def test_client_certificates_as_text_and_as_files(tmp_path: Path) -> None:
    cert, key = pem(CLIENT)
    (tmp_path / "me.crt").write_bytes(cert)
    (tmp_path / "me.key").write_bytes(key)
    (tmp_path / "ca.crt").write_bytes(CA_PEM)
    text = TlsSettings(ca_data=CA_PEM, server_name=INNER, certificate_data=cert, key_data=key)
    files = TlsSettings(
        ca_file=tmp_path / "ca.crt",
        server_name=INNER,
        certificate_file=tmp_path / "me.crt",
        key_file=tmp_path / "me.key",
    )
    for settings in (text, files):
        asyncio.run(ask(tmp_path, settings, demand=True))
    with pytest.raises(UnreachableError):
        asyncio.run(ask(tmp_path, TlsSettings(ca_data=CA_PEM, server_name=INNER), demand=True))


def test_client_certificate_from_a_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cert, key = (text.decode() for text in pem(CLIENT))
    printing(monkeypatch, exec_credential(clientCertificateData=cert, clientKeyData=key))
    plugin = ExecPlugin("client.authentication.k8s.io/v1", "login", interactive_mode="Never")
    settings = TlsSettings(ca_data=CA_PEM, server_name=INNER)
    asyncio.run(ask(tmp_path, settings, demand=True, identity=Identity(plugin=plugin)))


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (TlsSettings(ca_data=b"no"), "not a PEM certificate"),
        (TlsSettings(ca_file=Path("/nowhere/ca.crt")), "/nowhere/ca.crt: No such file"),
        (TlsSettings(certificate_data=b"x", key_data=b"y"), "not PEM or do not belong together"),
        (TlsSettings(certificate_data=pem(CLIENT)[0], key_data=pem(SERVER)[1]), "do not belong together"),
    ],
)
def test_certificates_that_cannot_be_used(settings: TlsSettings, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        TlsContexts(settings, FakeClock(), "here").context()


def test_new_authority_file_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "ca.crt"
    file.write_bytes(CA_PEM)
    clock = FakeClock()
    contexts = TlsContexts(TlsSettings(ca_file=file), clock, "here")
    first = contexts.context()
    assert contexts.context() is first
    (tmp_path / "new").write_bytes(pem(OTHER_CA)[0])
    os.replace(tmp_path / "new", file)
    assert contexts.context() is first, "looked at once a minute"
    clock.advance(CHECK_FILES_SECONDS)
    second = contexts.context()
    assert second is not first
    assert "another authority" in str(second.get_ca_certs())
    assert "the authority" not in str(second.get_ca_certs())


class Proxy:
    """A proxy that knows CONNECT, and wants a password if it is given one."""

    def __init__(self, password: str = "") -> None:
        self.wanted = base64.b64encode(f"me:{password}".encode()).decode() if password else ""
        self.asked: list[str] = []
        self._copies: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.asked.append(head.split()[1])
        if self.wanted not in head:
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            writer.close()
            return
        host, _, port = head.split()[1].rpartition(":")
        there, back = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        for source, target in ((reader, back), (there, writer)):
            self._copies.add(asyncio.create_task(self._copy(source, target)))

    @staticmethod
    async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            target.write(data)
        target.close()

    async def stop(self) -> None:
        for copy in self._copies:
            copy.cancel()
        await asyncio.gather(*self._copies, return_exceptions=True)


@pytest.mark.parametrize(
    ("user", "passes"), [("me:s3cret@", True), ("me:wrong@", False)], ids=["right password", "wrong password"]
)
def test_tls_through_a_proxy(user: str, passes: bool, tmp_path: Path) -> None:
    """The server is still checked by its own certificate and name; the proxy's password is not shown."""

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        proxy = Proxy("s3cret")
        listener = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
        address = f"http://{user}127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        settings = TlsSettings(ca_data=CA_PEM, server_name=INNER)
        async with (
            scripted(OK, tls=server_context(tmp_path)) as server,
            client_of(server, tls=settings, proxy=address) as client,
        ):
            if passes:
                await client.get("/api")
            else:
                with pytest.raises(UnreachableError, match="the proxy refused: 407") as refused:
                    await client.get("/api")
                assert "wrong" not in str(refused.value)
            assert proxy.asked == [server.url.removeprefix("https://")]
        await proxy.stop()
        listener.close()
        await listener.wait_closed()

    asyncio.run(run())


def test_connection_does_not_show_its_secrets() -> None:
    connection = Connection(
        "https://a",
        "here",
        tls=TlsSettings(key_data=b"s3cret"),
        identity=Identity(password="s3cret", token="s3cret"),
        proxy="http://me:s3cret@p",
    )
    assert "s3cret" not in repr(connection)


def test_nothing_secret_of_a_connection_is_in_its_text(tmp_path: Path) -> None:
    """Whatever ends in a log or a traceback: certificates, keys, tokens, passwords, what a plugin is given."""
    plugin = ExecPlugin(api_version="v1", command="visible", environment=(("A", "s3cret"),), extension={"a": "s3cret"})
    parts = (
        TlsSettings(ca_data=b"s3cret", certificate_data=b"s3cret", key_data=b"s3cret"),
        plugin,
        Identity(token="s3cret", username="visible", password="s3cret", plugin=plugin),
        Connection(
            "https://visible", "visible", identity=Identity(token="s3cret"), tls=TlsSettings(key_data=b"s3cret")
        ),
        Connection("https://visible", "v", proxy="http://u:s3cret@p", extensions={"e": {"token": "s3cret"}}),
    )
    for part in parts:
        assert "s3cret" not in repr(part)
    assert all("visible" in repr(part) for part in parts[1:])
    carried = Credential("Bearer s3cret", (b"s3cret", b"s3cret"))
    answered = ApiResponse(200, {"Set-Cookie": "s3cret"}, b"s3cret")
    kubeconfig = tmp_path / "visible"
    user, cluster = {"token": "s3cret"}, {"server": "https://api", "proxy-url": "http://u:s3cret@p"}
    entries = {"users": [{"name": "s3cret", "user": user}], "clusters": [{"name": "s3cret", "cluster": cluster}]}
    context = {"name": "s3cret", "context": {"cluster": "s3cret", "user": "s3cret"}}
    kubeconfig.write_text(json.dumps({**entries, "contexts": [context]}))
    merged = read_kubeconfig([kubeconfig], explicit=True)
    assert merged.connection("s3cret").identity.token == "s3cret"
    assert (repr(carried), repr(answered)) == ("Credential()", "ApiResponse(status=200)")
    assert "visible" in repr(merged)
    assert "s3cret" not in repr(merged)
    assert (TlsSettings().insecure, plugin.provide_cluster_info) == (False, False)


@pytest.mark.parametrize(
    ("data", "file", "insecure", "trusted"),
    [
        (None, None, False, {"of the machine"}),
        ("given", None, False, {"given"}),
        (None, "filed", False, {"filed"}),
        ("given", "filed", False, {"given"}),  # texts win over files
        (None, None, True, set()),
        ("given", "filed", True, set()),
    ],
)
def test_which_authorities_are_trusted(
    data: str | None,
    file: str | None,
    insecure: bool,
    trusted: set[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those of the settings alone, the machine's where they name none, and none are asked where all is trusted."""
    texts = {name: pem(certificate(name))[0] for name in ("of the machine", "given", "filed")}
    for name, content in texts.items():
        (tmp_path / name).write_bytes(content)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "of the machine"))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "none"))
    settings = TlsSettings(
        ca_data=None if data is None else texts[data],
        ca_file=None if file is None else tmp_path / file,
        insecure=insecure,
    )
    context = TlsContexts(settings, FakeClock(), "here").context()
    names = {
        name.value
        for der in context.get_ca_certs(binary_form=True)
        for name in x509.load_der_x509_certificate(der).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    }
    assert names == trusted
    assert (context.check_hostname, context.verify_mode) == (
        (False, ssl.CERT_NONE) if insecure else (True, ssl.CERT_REQUIRED)
    )
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize(
    ("later", "changed", "looked"),
    [(0.0, True, False), (59.9, True, False), (60.0, True, True), (60.1, True, True), (3600.0, False, False)],
)
@pytest.mark.parametrize("role", ["ca_file", "certificate_file", "key_file"])
def test_context_is_made_again_when_a_file_has_changed_for_a_minute(
    role: str, later: float, changed: bool, looked: bool, tmp_path: Path
) -> None:
    cert, key = pem(CLIENT)
    files = {"ca_file": CA_PEM, "certificate_file": cert, "key_file": key}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    clock = FakeClock()
    settings = TlsSettings(
        ca_file=tmp_path / "ca_file",
        certificate_file=tmp_path / "certificate_file",
        key_file=tmp_path / "key_file",
    )
    contexts = TlsContexts(settings, clock, "here")
    first = contexts.context()
    if changed:
        (tmp_path / role).write_bytes(files[role] + b"\n")
    clock.advance(later)
    second = contexts.context()
    assert (second is not first) is looked
    assert contexts.context() is second


def test_another_certificate_of_a_plugin_is_another_context() -> None:
    contexts = TlsContexts(TlsSettings(ca_data=CA_PEM), FakeClock(), "here")
    without, mine, other = contexts.context(), contexts.context(pem(CLIENT)), contexts.context(pem(SERVER))
    assert len({id(found) for found in (without, mine, other)}) == 3
    assert contexts.context(pem(SERVER)) is other
