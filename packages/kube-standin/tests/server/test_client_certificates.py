"""Users by client certificate (interfaces.md 5.11): the common name is the user, the organizations are its groups."""

from __future__ import annotations

import base64
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
from tests.waiting import eventually

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
PLAIN_KEY = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
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
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM) + key.private_bytes(*PLAIN_KEY))
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


def test_other_api_servers_learn_which_certificates_are_accepted(server: Live, ca: Authority) -> None:
    """interfaces.md 5.17: from a ConfigMap that the Role of that name lets them read."""
    path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
    status, found, _ = server.request("GET", path)
    own = server.server.ca
    assert own is not None
    assert (status, found["data"]) == (200, {"client-ca-file": ca.path.read_text() + own.read_text()})
    scheduler = Client(server, [(NameOID.COMMON_NAME, "system:kube-scheduler")], ca)
    assert scheduler.request("GET", path)[0] == 200
    assert Client(server, ALICE, ca).request("GET", path)[0] == 403


def test_rights_of_a_certificate_are_those_of_its_groups(server: Live, ca: Authority) -> None:
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


def test_server_trusts_the_certificates_that_it_signs(tmp_path: Path) -> None:
    """interfaces.md 4.13: a request is approved, and the certificate names its user. No other authority counts."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name(
        [x509.NameAttribute(NameOID.COMMON_NAME, "ann"), x509.NameAttribute(NameOID.ORGANIZATION_NAME, "dev")]
    )
    asked = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    text = base64.b64encode(asked.public_bytes(serialization.Encoding.PEM)).decode()
    spec = {"request": text, "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"]}
    with live(ServeOptions(controllers="csrsigning")) as running:
        code, made, _ = running.request("POST", REQUESTS, {"metadata": {"name": "ann"}, "spec": spec})
        assert code == 201, made
        made["status"]["conditions"] = [{"type": "Approved", "status": "True", "reason": "R", "message": "m"}]
        assert running.request("PUT", f"{REQUESTS}/ann/approval", made)[0] == 200
        found = eventually(lambda: running.request("GET", f"{REQUESTS}/ann")[1]["status"].get("certificate"), "it")
        path = tmp_path / "ann.pem"
        path.write_bytes(base64.b64decode(found) + key.private_bytes(*PLAIN_KEY))
        context = ssl.create_default_context(cafile=str(running.server.ca))
        context.load_cert_chain(path)
        client = type("WithCertificate", (Live,), {"context": context})(running.server, running.loop)
        user = client.request("POST", WHOAMI, {}, token=None)[1]["status"]["userInfo"]
        assert (user["username"], user["groups"]) == ("ann", ["dev", "system:authenticated"])
        masters = ((NameOID.COMMON_NAME, "root"), (NameOID.ORGANIZATION_NAME, "system:masters"))
        strangers = Client(running, masters, authority(tmp_path))
        with pytest.raises((ssl.SSLError, ConnectionError, urllib.error.URLError)):
            strangers.request("GET", "/api/v1/nodes")


def test_group_of_administrators_is_not_for_request(server: Live) -> None:
    """interfaces.md 4.9: CertificateSubjectRestriction, and kubelets request certificates of their own name."""

    def asked(signer: str, common: str, group: str) -> Any:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name(
            [x509.NameAttribute(NameOID.COMMON_NAME, common), x509.NameAttribute(NameOID.ORGANIZATION_NAME, group)]
        )
        built = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
        text = base64.b64encode(built.public_bytes(serialization.Encoding.PEM)).decode()
        spec = {"request": text, "signerName": f"kubernetes.io/{signer}", "usages": ["client auth"]}
        return {"metadata": {"generateName": "r-"}, "spec": spec}

    code, answer, _ = server.request("POST", REQUESTS, asked("kube-apiserver-client", "ann", "system:masters"))
    assert (code, answer["reason"]) == (403, "Forbidden")
    assert "signer with system:masters group is not allowed" in answer["message"]
    kubelet = {"Impersonate-User": "system:node:n1", "Impersonate-Group": "system:nodes"}
    for node, expected in (("n1", 201), ("n2", 403)):
        body = asked("kube-apiserver-client-kubelet", f"system:node:{node}", "system:nodes")
        code, answer, _ = server.request("POST", REQUESTS, body, headers=kubelet)
        assert code == expected, answer
    assert "can only create a node CSR with CN=system:node:n1" in answer["message"]


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
