"""Signers: which requests are approved, signed and deleted (interfaces.md 4.13)."""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Sequence
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kube_standin.security import certificates
from kube_standin.signers import CLIENT, KUBELET_CLIENT, KUBELET_SERVING, CertificateAuthority
from tests.controllers.world import World

Json = dict[str, Any]
API = ("certificates.k8s.io/v1", "CertificateSigningRequest")
RBAC = "rbac.authorization.k8s.io"
SIGNATURE, ENCIPHERMENT, FOR_CLIENTS, FOR_SERVERS = (
    "digital signature",
    "key encipherment",
    "client auth",
    "server auth",
)
KEY = ec.generate_private_key(ec.SECP256R1())
HOST, ADDRESS = x509.DNSName("n1.example.com"), x509.IPAddress(ipaddress.ip_address("10.0.0.1"))
MAIL, URI = x509.RFC822Name("a@example.com"), x509.UniformResourceIdentifier("spiffe://a/b")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    made = certificates(tmp_path_factory.mktemp("pki")).authority()
    assert made is not None
    return made


@pytest.fixture
def world(authority: CertificateAuthority) -> World:
    made = World(("csrapproving", "csrsigning", "csrcleaner"))
    made.controllers.context.authority = authority
    return made


@cache
def request(common: str, groups: tuple[str, ...] = (), names: tuple[x509.GeneralName, ...] = ()) -> str:
    """Return a certificate request, as `spec.request` has it."""
    subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, one) for one in groups]
    builder = x509.CertificateSigningRequestBuilder().subject_name(
        x509.Name([*subject, x509.NameAttribute(NameOID.COMMON_NAME, common)])
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return base64.b64encode(builder.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)).decode()


def manifest(text: str, signer: str, usages: Sequence[str], **spec: Any) -> Json:
    heads = {"apiVersion": API[0], "kind": API[1], "metadata": {"name": "r"}}
    return {**heads, "spec": {"request": text, "signerName": signer, "usages": list(usages), **spec}}


def approve(world: World, kind: str = "Approved") -> Json:
    """Decide as kubectl does, and let the controllers come to rest."""
    now = world.clock.stamp()
    conditions = [{"type": kind, "status": "True", "reason": "R", "message": "m", "lastUpdateTime": now}]
    world.patch(*API, "r", {"status": {"conditions": conditions}}, "approval", "")
    return world.settle().get(*API, "r", "")


def issued(found: Json) -> x509.Certificate:
    return x509.load_pem_x509_certificate(base64.b64decode(found["status"]["certificate"]))


def test_approved_request_is_signed(world: World, authority: CertificateAuthority) -> None:
    """Subject, names and usages as requested; five minutes before now, for a year."""
    usages = [SIGNATURE, ENCIPHERMENT, FOR_CLIENTS]
    world.create(manifest(request("ann", ("dev",), (HOST,)), CLIENT, usages))
    assert "certificate" not in (world.settle().get(*API, "r", "").get("status") or {})
    certificate = issued(approve(world))
    assert certificate.subject.rfc4514_string() == "CN=ann,O=dev"
    assert certificate.issuer == authority.certificate.subject
    certificate.verify_directly_issued_by(authority.certificate)
    of = certificate.extensions.get_extension_for_class
    assert list(of(x509.SubjectAlternativeName).value) == [HOST]
    assert list(of(x509.ExtendedKeyUsage).value) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert (of(x509.KeyUsage).value.digital_signature, of(x509.KeyUsage).value.key_encipherment) == (True, True)
    assert not of(x509.BasicConstraints).value.ca
    now = world.clock.now()
    assert certificate.not_valid_before_utc == now - timedelta(minutes=5)
    assert certificate.not_valid_after_utc == now + timedelta(days=365)
    assert certificate.public_key() == KEY.public_key()


@pytest.mark.parametrize(("seconds", "lasts"), [(600, 600), (7200, 7200), (10**9, 365 * 86400)])
def test_lifetime_is_the_shorter_of_the_two(world: World, seconds: int, lasts: int) -> None:
    world.create(manifest(request("ann"), CLIENT, [FOR_CLIENTS], expirationSeconds=seconds))
    ends = issued(approve(world)).not_valid_after_utc
    assert ends == world.clock.now() + timedelta(seconds=lasts)


NO_CLIENT = "usages did not match [client auth digital signature key encipherment]"
NODE = ("system:node:n1", ("system:nodes",))


@pytest.mark.parametrize(
    ("text", "signer", "usages", "why"),
    [
        (request("ann"), CLIENT, [FOR_CLIENTS, FOR_SERVERS], "invalid usage for client certificate: server auth"),
        (request("ann"), CLIENT, [SIGNATURE], "missing required usage for client certificate: client auth"),
        (request(*NODE), KUBELET_CLIENT, [SIGNATURE, FOR_CLIENTS], None),
        (request(*NODE), KUBELET_CLIENT, [SIGNATURE, ENCIPHERMENT, FOR_CLIENTS], None),
        (request(*NODE), KUBELET_CLIENT, [FOR_CLIENTS], NO_CLIENT),
        (request(*NODE), KUBELET_CLIENT, [SIGNATURE, FOR_SERVERS], NO_CLIENT),
        (request("n1", NODE[1]), KUBELET_CLIENT, [SIGNATURE, FOR_CLIENTS],
         "subject common name does not begin with system:node:"),
        (request(NODE[0], ("system:nodes", "more")), KUBELET_CLIENT, [SIGNATURE, FOR_CLIENTS],
         "subject organization is not system:nodes"),
        (request(*NODE, (HOST,)), KUBELET_CLIENT, [SIGNATURE, FOR_CLIENTS], "DNS subjectAltNames are not allowed"),
        (request(*NODE, (ADDRESS,)), KUBELET_CLIENT, [SIGNATURE, FOR_CLIENTS], "IP subjectAltNames are not allowed"),
        (request(*NODE, (MAIL,)), KUBELET_CLIENT, [SIGNATURE, FOR_CLIENTS], "Email subjectAltNames are not allowed"),
        (request(*NODE, (URI,)), KUBELET_CLIENT, [SIGNATURE, FOR_CLIENTS], "URI subjectAltNames are not allowed"),
        (request(*NODE, (HOST, ADDRESS)), KUBELET_SERVING, [SIGNATURE, FOR_SERVERS], None),
        (request(*NODE), KUBELET_SERVING, [SIGNATURE, FOR_SERVERS], "DNS or IP subjectAltName is required"),
        (request(*NODE, (HOST, URI)), KUBELET_SERVING, [SIGNATURE, FOR_SERVERS], "URI subjectAltNames are not allowed"),
        (request(*NODE, (HOST,)), KUBELET_SERVING, [SIGNATURE, FOR_CLIENTS],
         "usages did not match [digital signature key encipherment server auth]"),
        (base64.b64encode(b"-----BEGIN CERTIFICATE REQUEST-----\nMAA=\n-----END CERTIFICATE REQUEST-----\n").decode(),
         KUBELET_SERVING, [SIGNATURE, FOR_SERVERS], "unable to parse csr: no certificate request in PEM"),
    ],
)  # fmt: skip
def test_rules_of_the_signers(world: World, text: str, signer: str, usages: list[str], why: str | None) -> None:
    world.create(manifest(text, signer, usages))
    status = approve(world)["status"]
    failed = {one["type"]: one for one in status["conditions"]}.get("Failed", {})
    assert failed.get("message") == why
    assert ("certificate" in status) == (why is None)
    if why:
        assert failed["reason"] == "SignerValidationFailure"


def test_other_signers_and_denied_requests_are_left_alone(world: World) -> None:
    world.create(manifest(request("ann"), "example.com/s", [FOR_CLIENTS]))
    assert "certificate" not in approve(world)["status"]
    world.delete(*API, "r", "")
    world.create(manifest(request("ann"), CLIENT, [FOR_CLIENTS]))
    assert "certificate" not in approve(world, "Denied")["status"]


@pytest.mark.parametrize(
    ("user", "right", "approved"),
    [
        ("system:node:n1", "selfnodeclient", True),
        ("bootstrap", "nodeclient", True),
        ("bootstrap", "selfnodeclient", False),
        ("bootstrap", "", False),
    ],
)
def test_kubelets_are_approved_by_their_rights(world: World, user: str, right: str, approved: bool) -> None:
    heads = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": "kubelets"}}
    if right:
        reference = {
            "apiGroup": RBAC,
            "kind": "ClusterRole",
            "name": f"system:certificates.k8s.io:certificatesigningrequests:{right}",
        }
        subjects = [{"apiGroup": RBAC, "kind": "User", "name": user}]
        world.create({**heads, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": subjects})
    body = manifest(request(*NODE), KUBELET_CLIENT, [SIGNATURE, FOR_CLIENTS], username=user)
    world.create(body)
    found = world.settle().get(*API, "r", "")
    kinds = [one["reason"] for one in (found.get("status") or {}).get("conditions") or ()]
    assert kinds == (["AutoApproved"] if approved else [])
    assert ("certificate" in (found.get("status") or {})) is approved


@pytest.mark.parametrize(
    ("decision", "signer", "seconds"),
    [
        ("Denied", CLIENT, 3600),
        ("Approved", CLIENT, 3600),
        ("Approved", "example.com/s", 86400),
        ("", CLIENT, 86400),
    ],
)
def test_old_requests_are_deleted(world: World, decision: str, signer: str, seconds: int) -> None:
    world.create(manifest(request("ann"), signer, [FOR_CLIENTS]))
    if decision:
        approve(world, decision)
    assert world.forward(seconds - 1).has(*API, "r", "")
    assert not world.forward(1).has(*API, "r", "")


def test_request_goes_with_its_certificate(world: World) -> None:
    world.create(manifest(request("ann"), CLIENT, [FOR_CLIENTS], expirationSeconds=600))
    approve(world)
    assert world.forward(599).has(*API, "r", "")
    assert not world.forward(1).has(*API, "r", "")


def test_without_an_authority_nothing_is_signed(world: World, tmp_path: Path) -> None:
    world.controllers.context.authority = None
    world.create(manifest(request("ann"), CLIENT, [FOR_CLIENTS]))
    assert "certificate" not in approve(world)["status"]
