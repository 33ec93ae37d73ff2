"""The signers of a cluster: certificates for a CertificateSigningRequest, by the rules of its signer.

Rules and texts: kube-controller-manager 1.36 (pkg/controller/certificates), interfaces.md 4.13.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kube_rules.json import Json
from kube_standin.node_authorization import NODE_PREFIX, NODES

CLIENT: Final = "kubernetes.io/kube-apiserver-client"
KUBELET_CLIENT: Final = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVING: Final = "kubernetes.io/kubelet-serving"
LONGEST: Final = timedelta(days=365)
"""The default of --cluster-signing-duration."""
_SHORTEST: Final = timedelta(minutes=10)
_BACKDATED: Final = timedelta(minutes=5)
_SIGNATURE, _ENCIPHERMENT, _CLIENT_AUTH, _SERVER_AUTH = (
    "digital signature", "key encipherment", "client auth", "server auth",
)  # fmt: skip
_PURPOSES: Final = {_CLIENT_AUTH: ExtendedKeyUsageOID.CLIENT_AUTH, _SERVER_AUTH: ExtendedKeyUsageOID.SERVER_AUTH}


class SigningError(ValueError):
    """A request that its signer does not sign."""


def read_request(text: str) -> x509.CertificateSigningRequest:
    """Return the request in `spec.request` (PEM in base64). Raises SigningError."""
    try:
        request = x509.load_pem_x509_csr(base64.b64decode(text))
        valid = request.is_signature_valid
        _ = request.subject, request.extensions
    except (ValueError, UnsupportedAlgorithm) as error:
        raise SigningError("unable to parse csr: no certificate request in PEM") from error
    if not valid:
        raise SigningError("unable to parse csr: the signature does not match")
    return request


def names_of(request: x509.CertificateSigningRequest) -> tuple[str, list[str]]:
    """Return the common name and the organizations of a subject."""
    common = [str(name.value) for name in request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    groups = request.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return (common or [""])[-1], [str(name.value) for name in groups]


def _alternatives(request: x509.CertificateSigningRequest) -> x509.SubjectAlternativeName | None:
    try:
        return request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return None


def _have(request: x509.CertificateSigningRequest, *kinds: type[x509.GeneralName]) -> bool:
    return any(isinstance(alternative, kinds) for alternative in _alternatives(request) or ())


def _check_client(request: x509.CertificateSigningRequest, usages: list[str]) -> None:
    for usage in usages:
        if usage not in (_SIGNATURE, _ENCIPHERMENT, _CLIENT_AUTH):
            raise SigningError(f"invalid usage for client certificate: {usage}")
    if _CLIENT_AUTH not in usages:
        raise SigningError(f"missing required usage for client certificate: {_CLIENT_AUTH}")


_WORDS: Final = {
    x509.DNSName: "DNS",
    x509.RFC822Name: "Email",
    x509.IPAddress: "IP",
    x509.UniformResourceIdentifier: "URI",
}


def _forbid(request: x509.CertificateSigningRequest, *kinds: type[x509.GeneralName]) -> None:
    for kind in kinds:
        if _have(request, kind):
            raise SigningError(f"{_WORDS[kind]} subjectAltNames are not allowed")


def _check_groups(request: x509.CertificateSigningRequest) -> None:
    if names_of(request)[1] != [NODES]:
        raise SigningError("subject organization is not system:nodes")


def _check_name(request: x509.CertificateSigningRequest) -> None:
    if not names_of(request)[0].startswith(NODE_PREFIX):
        raise SigningError("subject common name does not begin with system:node:")


def _check_usages(usages: list[str], purpose: str) -> None:
    if set(usages) - {_ENCIPHERMENT} != {_SIGNATURE, purpose}:
        raise SigningError(f"usages did not match [{' '.join(sorted((purpose, _SIGNATURE, _ENCIPHERMENT)))}]")


def _check_kubelet_client(request: x509.CertificateSigningRequest, usages: list[str]) -> None:
    _check_groups(request)
    _forbid(request, x509.DNSName, x509.RFC822Name, x509.IPAddress, x509.UniformResourceIdentifier)
    _check_name(request)
    _check_usages(usages, _CLIENT_AUTH)


def _check_kubelet_serving(request: x509.CertificateSigningRequest, usages: list[str]) -> None:
    _check_groups(request)
    if not _have(request, x509.DNSName, x509.IPAddress):
        raise SigningError("DNS or IP subjectAltName is required")
    _forbid(request, x509.RFC822Name, x509.UniformResourceIdentifier)
    _check_usages(usages, _SERVER_AUTH)
    _check_name(request)


SIGNERS: Final[Mapping[str, Callable[[x509.CertificateSigningRequest, list[str]], None]]] = {
    CLIENT: _check_client,
    KUBELET_CLIENT: _check_kubelet_client,
    KUBELET_SERVING: _check_kubelet_serving,
}
"""The signers of the cluster, and their checks."""


@dataclass(frozen=True)
class CertificateAuthority:
    """The authority of the cluster, with its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    def sign(self, spec: Json, now: datetime) -> str:
        """Return the certificate (PEM in base64) for the spec of a request. Raises SigningError.

        It is valid for a year, or `expirationSeconds` if shorter, but not beyond the authority.
        """
        request, usages = read_request(spec["request"]), list(spec.get("usages") or ())
        SIGNERS[spec["signerName"]](request, usages)
        seconds = spec.get("expirationSeconds")
        duration = LONGEST if seconds is None else max(_SHORTEST, min(LONGEST, timedelta(seconds=seconds)))
        builder = (
            x509.CertificateBuilder()
            .subject_name(request.subject)
            .issuer_name(self.certificate.subject)
            .public_key(request.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _BACKDATED)
            .not_valid_after(min(now + duration, self.certificate.not_valid_after_utc))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([_PURPOSES[item] for item in usages if item in _PURPOSES]), False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
        )
        signature, encipherment = (item in usages for item in (_SIGNATURE, _ENCIPHERMENT))
        if signature or encipherment:  # an empty extension is not valid
            usage = x509.KeyUsage(signature, False, encipherment, False, False, False, False, False, False)
            builder = builder.add_extension(usage, critical=True)
        alternatives = _alternatives(request)
        if alternatives is not None:
            builder = builder.add_extension(alternatives, critical=False)
        signed = builder.sign(self.key, hashes.SHA256())
        return base64.b64encode(signed.public_bytes(serialization.Encoding.PEM)).decode()
