"""Users by client certificate (interfaces.md 5.11): the common name is the user, the organizations are its groups."""

from __future__ import annotations

import ssl
import urllib.error
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kube_standin.client_certificates import user_of
from kube_standin.security import Certificates
from kube_standin.server.control_plane import ServeOptions
from tests.server.live import Live, live

WHOAMI = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
UID = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")
Subject = Sequence[tuple[x509.ObjectIdentifier, str]]


class Authority(NamedTuple):
    """A certificate authority for tests, with its file."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    path: Path


def signed(subject: Subject, ca: Authority | None = None, usage: Any = ExtendedKeyUsageOID.CLIENT_AUTH) -> Any:
    """A certificate with its key: of the authority, or an authority of its own."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(oid, value) for oid, value in subject])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(ca.certificate.subject if ca else name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=ca is None, path_length=None), critical=True)
    )
    if ca is not None:
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    return builder.sign(ca.key if ca else key, hashes.SHA256()), key


def authority(directory: Path, name: str = "clients") -> Authority:
    """Make an authority and its file."""
    certificate, key = signed([(NameOID.COMMON_NAME, name)])
    path = directory / f"{name}.crt"
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return Authority(certificate, key, path)


def der(*subject: tuple[x509.ObjectIdentifier, str]) -> bytes:
    """A certificate with this subject."""
    encoded: bytes = signed(subject)[0].public_bytes(serialization.Encoding.DER)
    return encoded


class Client:
    """Sends requests with a client certificate."""

    def __init__(self, server: Live, subject: Subject, ca: Authority, usage: Any = ExtendedKeyUsageOID.CLIENT_AUTH):
        certificate, key = signed(subject, ca, usage)
        path = ca.path.parent / "client.pem"
        path.write_bytes(
            certificate.public_bytes(serialization.Encoding.PEM)
            + key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        context = ssl.create_default_context(cafile=str(server.server.ca))
        context.load_cert_chain(path)
        self._live = type("WithCertificate", (Live,), {"context": context})(server.server, server.loop)

    def request(self, method: str, path: str, body: Any = None, token: str | None = None) -> tuple[int, Any]:
        status, answer, _ = self._live.request(method, path, body, token=token)
        return status, answer


@pytest.fixture(scope="module")
def ca(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def server(ca: Authority) -> Iterator[Live]:
    with live(ServeOptions(client_ca=ca.path)) as running:
        yield running


ALICE = ((NameOID.COMMON_NAME, "alice"), (NameOID.ORGANIZATION_NAME, "builders"), (NameOID.ORGANIZATION_NAME, "team"))


def test_certificate_names_the_user(server: Live, ca: Authority) -> None:
    status, answer = Client(server, ALICE, ca).request("POST", WHOAMI, {})
    user = answer["status"]["userInfo"]
    assert (status, user["username"]) == (201, "alice")
    assert user["groups"] == ["builders", "team", "system:authenticated"]
    assert user["extra"]["authentication.kubernetes.io/credential-id"][0].startswith("X509SHA256=")


def test_its_rights_are_those_of_its_groups(server: Live, ca: Authority) -> None:
    assert Client(server, ALICE, ca).request("GET", "/api/v1/nodes")[0] == 403
    masters = ((NameOID.COMMON_NAME, "root"), (NameOID.ORGANIZATION_NAME, "system:masters"))
    assert Client(server, masters, ca).request("GET", "/api/v1/nodes")[0] == 200


def test_certificate_counts_before_a_token(server: Live, ca: Authority) -> None:
    _, answer = Client(server, ALICE, ca).request("POST", WHOAMI, {}, token="admin")
    assert answer["status"]["userInfo"]["username"] == "alice"


def test_clients_without_a_certificate_use_tokens(server: Live) -> None:
    assert server.request("GET", "/api/v1/nodes")[0] == 200
    assert server.request("GET", "/api/v1/nodes", token=None)[0] == 401


def test_certificate_that_names_no_user_is_none(server: Live, ca: Authority) -> None:
    client = Client(server, [(NameOID.ORGANIZATION_NAME, "system:masters")], ca)
    assert client.request("GET", "/api/v1/nodes")[0] == 401
    assert client.request("GET", "/api/v1/nodes", token="admin")[0] == 200


def test_other_authorities_and_server_certificates_do_not_count(server: Live, ca: Authority, tmp_path: Path) -> None:
    masters = ((NameOID.COMMON_NAME, "root"), (NameOID.ORGANIZATION_NAME, "system:masters"))
    strangers = Client(server, masters, authority(tmp_path))  # of the same name, with another key
    with pytest.raises((ssl.SSLError, ConnectionError, urllib.error.URLError)):
        strangers.request("GET", "/api/v1/nodes")
    servers = Client(server, masters, ca, ExtendedKeyUsageOID.SERVER_AUTH)
    with pytest.raises((ssl.SSLError, ConnectionError, urllib.error.URLError)):
        servers.request("GET", "/api/v1/nodes")


def test_no_certificate_counts_without_an_authority(ca: Authority) -> None:
    masters = ((NameOID.COMMON_NAME, "root"), (NameOID.ORGANIZATION_NAME, "system:masters"))
    with live() as running:
        assert Client(running, masters, ca).request("GET", "/api/v1/nodes")[0] == 401


def test_subject_is_read_as_kube_apiserver_reads_it() -> None:
    user = user_of(der((NameOID.COMMON_NAME, "a"), (NameOID.COMMON_NAME, "b"), (UID, "u-1")))
    assert user is not None
    assert (user.name, user.uid, user.groups) == ("b", "u-1", ("system:authenticated",))
    assert user_of(der((NameOID.COMMON_NAME, "a"), (UID, "1"), (UID, "2"))) is None
    assert user_of(der((NameOID.ORGANIZATION_NAME, "o"))) is None
    assert user_of(b"not a certificate") is None


def test_broken_files_are_named(tmp_path: Path, ca: Authority) -> None:
    broken = tmp_path / "broken.crt"
    broken.write_text("broken")
    with pytest.raises(ValueError, match=r"broken\.crt: not a certificate in PEM"):
        Certificates(broken, broken, broken).context()
    with (
        pytest.raises(ValueError, match=r"broken\.crt: not a certificate in PEM"),
        live(ServeOptions(client_ca=broken)),
    ):
        pass
