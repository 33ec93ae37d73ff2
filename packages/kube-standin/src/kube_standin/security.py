"""Certificates, tokens and kubeconfigs: all secrets of a server, created once and kept in its data directory.

Invariants: a file with a secret is created with mode 0600 and replaced in one step; tokens are kept in memory as
hashes; no secret is logged. Service account tokens are signed statements (JWT, ES256) that every start with the same
data directory can check; they are valid while the objects that they are bound to exist.
"""

from __future__ import annotations

import base64
import errno
import hashlib
import ipaddress
import json
import os
import secrets
import ssl
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kube_standin.admission_chain import User
from kube_standin.authorization import AUTHENTICATED, MASTERS, READERS
from kube_standin.errors import quoted
from kube_standin.signers import CertificateAuthority
from kube_standin.token_keys import ALGORITHM, TokenKey
from kube_standin.token_keys import base64url as _b64

_CA_YEARS = 10
_SERVER_DAYS = 365
_RENEW_DAYS = 30
_BACKDATED_DAYS = 365
"""How far a clock may be set back before a new certificate is not valid yet."""
_TOKEN_LENGTH = 32
_KEY_BYTES = 32
_DEFAULT_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "127.0.0.1", "::1")
PKI = "pki"
"""The directory of the certificates, in the data directory."""
_TOKENS = "tokens.json"
AUDIENCE = "https://kubernetes.default.svc"
"""The issuer in tokens of this server."""

ADMIN = User("admin", (MASTERS, AUTHENTICATED), "admin")
READER = User("reader", (READERS, AUTHENTICATED), "reader")


def write_secret(path: Path, content: bytes) -> None:
    """Create or replace a file that only its owner may read, in one step. Raises OSError, which names the file."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # of mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(draft, path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)  # an interrupt may come after the rename
        raise


@dataclass(frozen=True)
class Certificates:
    """Paths of the PEM files: the CA, its key if it is ours, and the server's certificate with its key."""

    ca: Path
    certificate: Path
    key: Path
    ca_key: Path | None = None

    def authority(self) -> CertificateAuthority | None:
        """Return the authority that signs certificates; None without a key. Raises ValueError that names an invalid
        file.
        """
        return None if self.ca_key is None else CertificateAuthority(_load_certificate(self.ca), _load_key(self.ca_key))

    def context(self, client_ca: Path | None = None) -> ssl.SSLContext:
        """Return the TLS context of the server, which accepts client certificates of ``client_ca`` and of its own CA.

        Raises ValueError that names an invalid certificate file, OSError.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            self.key.stat()  # names the file if it is absent
            context.load_cert_chain(self.certificate, self.key)
        except ssl.SSLError as error:
            raise ValueError(f"{self.certificate}: not a certificate in PEM with the key {self.key}") from error
        for ca in self._client_authorities(client_ca):
            _trust_clients(context, ca)
        context.set_alpn_protocols(["http/1.1"])
        return context

    def client_ca(self, client_ca: Path | None = None) -> str:
        """Return the certificates of the authorities of accepted client certificates in PEM."""
        return "".join(f"{path.read_text().rstrip()}\n" for path in self._client_authorities(client_ca))

    def _client_authorities(self, client_ca: Path | None) -> list[Path]:
        return [path for path in (client_ca, self.ca if self.ca_key is not None else None) if path is not None]


def _trust_clients(context: ssl.SSLContext, ca: Path) -> None:
    context.verify_mode = ssl.CERT_OPTIONAL
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # any certificate of the file is trusted, as in Go
    try:
        context.load_verify_locations(cadata=ca.read_text())
    except (ssl.SSLError, ValueError) as error:
        raise ValueError(f"{ca}: not a certificate in PEM") from error


def _pem_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


_ANEW = "delete the directory it is in to have all certificates recreated; clients need the new kubeconfig then"


def _load_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """Return a private key; raises ValueError that names the file."""
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ValueError(f"{path}: not a private key in PEM; {_ANEW}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError(f"{path}: not an elliptic-curve key; {_ANEW}")
    return key


def _load_certificate(path: Path) -> x509.Certificate:
    """Return a certificate for comparing its key with ours; raises ValueError that names the file."""
    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
        certificate.public_key()
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ValueError(f"{path}: not a certificate in PEM; {_ANEW}") from error
    return certificate


def _check_pair(certificate: Path, key: Path) -> x509.Certificate:
    """Return the certificate of a matching pair; raises ValueError that names the files."""
    loaded = _load_certificate(certificate)
    if loaded.public_key() != _load_key(key).public_key():
        raise ValueError(f"{certificate}: does not belong to {key.name}; {_ANEW}")
    return loaded


def _subject(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _make(
    directory: Path,
    name: str,
    subject: str,
    days: int,
    extensions: Callable[[ec.EllipticCurvePublicKey], Iterable[tuple[x509.ExtensionType, bool]]],
    ca: tuple[x509.Certificate, ec.EllipticCurvePrivateKey] | None = None,
) -> None:
    """Create NAME.key and NAME.crt, signed by the CA or itself; `extensions` also state whether they are critical."""
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_subject(subject))
        .issuer_name(ca[0].subject if ca is not None else _subject(subject))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=_BACKDATED_DAYS))
        .not_valid_after(now + timedelta(days=days))
    )
    for extension, critical in extensions(key.public_key()):
        builder = builder.add_extension(extension, critical)
    certificate = builder.sign(ca[1] if ca is not None else key, hashes.SHA256())
    # If the process dies between the two files, no mismatched pair is left.
    (directory / f"{name}.crt").unlink(missing_ok=True)
    write_secret(directory / f"{name}.key", _pem_key(key))
    write_secret(directory / f"{name}.crt", certificate.public_bytes(serialization.Encoding.PEM))


def _usage(*, signing: bool) -> x509.KeyUsage:
    """Return the key usage of a CA (signing) or of a server."""
    return x509.KeyUsage(True, False, False, False, False, signing, signing, False, False)


def _make_ca(directory: Path) -> None:
    _make(
        directory,
        "ca",
        "reprieve local CA",
        365 * _CA_YEARS,
        lambda public: (
            (x509.BasicConstraints(ca=True, path_length=0), True),
            (_usage(signing=True), True),
            (x509.SubjectKeyIdentifier.from_public_key(public), False),
        ),
    )


def _make_server(directory: Path, names: Iterable[str]) -> None:
    ca_key = _load_key(directory / "ca.key")
    _make(
        directory,
        "server",
        "reprieve-apiserver",
        _SERVER_DAYS,
        lambda _: (
            (x509.BasicConstraints(ca=False, path_length=None), True),
            (_usage(signing=False), True),
            (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
            (x509.SubjectAlternativeName([_alternative(name) for name in names]), False),
            (x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), False),
        ),
        (_load_certificate(directory / "ca.crt"), ca_key),
    )


def _is_current(certificate: x509.Certificate) -> bool:
    """Return whether a certificate is valid now and for some time."""
    now = datetime.now(UTC)
    return certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc - timedelta(days=_RENEW_DAYS)


def _still_good(directory: Path, names: tuple[str, ...]) -> bool:
    certificate, key = directory / "server.crt", directory / "server.key"
    if not certificate.exists() or not key.exists():
        return False
    loaded = _check_pair(certificate, key)
    if not _is_current(loaded):
        return False
    if loaded.issuer != _load_certificate(directory / "ca.crt").subject:
        return False
    try:
        have = loaded.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return False
    return {_alternative(name) for name in names} <= set(have)


def certificates(directory: Path, extra_names: Iterable[str] = ()) -> Certificates:
    """Return the certificates in ``directory``, created or renewed as needed; ``extra_names`` are hosts or addresses.

    Raises ValueError that names a file which is invalid or does not match its key.
    """
    names = tuple(dict.fromkeys((*_DEFAULT_NAMES, *extra_names)))
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not (directory / "ca.crt").exists() or not (directory / "ca.key").exists():
        _make_ca(directory)
        (directory / "server.crt").unlink(missing_ok=True)
    if not _is_current(_check_pair(directory / "ca.crt", directory / "ca.key")):
        _make_ca(directory)
        (directory / "server.crt").unlink(missing_ok=True)
    if not _still_good(directory, names):
        _make_server(directory, names)
    files = [directory / name for name in ("ca.crt", "server.crt", "server.key", "ca.key")]
    return Certificates(*files)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _unb64(text: str) -> bytes:
    """Return the bytes of a base64url text; raises ValueError if it is not canonical."""
    data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if _b64(data) != text:
        raise ValueError("not canonical base64url")
    return data


@dataclass(frozen=True)
class BoundObject:
    """The object that a service account token is bound to: its resource, namespace, name and uid."""

    resource: str
    namespace: str
    name: str
    uid: str
    token: str = ""
    """The required content of a Secret, in place of the uid."""
    node: tuple[str, str] | None = None
    """Name and uid of the node of a pod, as stated in a token."""


@dataclass(frozen=True)
class VerifiedToken:
    """The claims of a valid token: the user, and the requested audiences that it is valid for."""

    user: User
    audiences: tuple[str, ...]


class TokenError(Exception):
    """The token is not valid; the text is the reason."""


def account_groups(namespace: str) -> tuple[str, ...]:
    """Return the groups of every service account of a namespace."""
    return ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")


class Tokens:
    """Bearer tokens: fixed ones by hash, and signed ones for service accounts.

    A signed token is valid until it expires, for the audiences that it was created for, while its bound objects exist:
    its account and optionally a pod, secret or node (by uid, so not a recreated one). ``present``: whether an object
    exists; False until it is set.
    """

    def __init__(self, signing_key: bytes) -> None:
        self.key = TokenKey(signing_key)
        """The key that signs tokens of service accounts."""
        self._head = _b64(json.dumps({"alg": ALGORITHM, "kid": self.key.key_id}).encode())
        self._verified_digests: dict[bytes, None] = {}
        """Digests of tokens with a valid signature, oldest first: clients send the same token many times."""
        self._users: dict[bytes, User] = {}
        self.present: Callable[[BoundObject], bool] = lambda _: False

    def add(self, token: str, user: User) -> None:
        """Register ``token`` for ``user``."""
        self._users[_digest(token)] = user

    def user(self, token: str) -> User | None:
        """Return the user of a token presented to this server, or None."""
        try:
            return self.verify(token).user
        except TokenError:
            return None

    def verify(self, token: str, audiences: Sequence[str] = (AUDIENCE,)) -> VerifiedToken:
        """Return the claims of a token; raises TokenError unless it is valid for one of ``audiences``."""
        fixed = self._users.get(_digest(token))
        if fixed is None:
            return self._service_account(token, audiences)
        if AUDIENCE not in audiences:
            raise TokenError("invalid bearer token")
        return VerifiedToken(fixed, (AUDIENCE,))

    def issue(
        self, account: BoundObject, seconds: int, audiences: Sequence[str], bound: BoundObject | None = None
    ) -> tuple[str, int]:
        """Return a signed token for a service account and its expiration (seconds since 1970)."""
        ends = int(time.time()) + seconds
        private: dict[str, Any] = {
            "namespace": account.namespace,
            "serviceaccount": {"name": account.name, "uid": account.uid},
        }
        if bound is not None:
            private[_CLAIM_OF[bound.resource]] = {"name": bound.name, "uid": bound.uid}
            if bound.node is not None:
                private["node"] = {"name": bound.node[0], **({"uid": bound.node[1]} if bound.node[1] else {})}
        claims = {
            "aud": list(audiences),
            "exp": ends,
            "iat": ends - seconds,
            "iss": AUDIENCE,
            "jti": str(uuid.uuid4()),
            "kubernetes.io": private,
            "nbf": ends - seconds,
            "sub": f"system:serviceaccount:{account.namespace}:{account.name}",
        }
        signed = f"{self._head}.{_b64(json.dumps(claims).encode())}"
        return f"{signed}.{_b64(self.key.sign(signed))}", ends

    def issue_lasting(self, account: BoundObject, secret: str) -> str:
        """Return a token without expiration for a Secret of the account: it is valid while the Secret contains it."""
        private = {"service-account.name": account.name, "service-account.uid": account.uid, "secret.name": secret}
        claims = {f"{_LASTING}{name}": value for name, value in (*private.items(), ("namespace", account.namespace))}
        claims |= {"iss": _LASTING_ISSUER, "sub": f"system:serviceaccount:{account.namespace}:{account.name}"}
        signed = f"{self._head}.{_b64(json.dumps(claims).encode())}"
        return f"{signed}.{_b64(self.key.sign(signed))}"

    def _lasting(self, claims: Mapping[str, str], token: str, audiences: Sequence[str]) -> VerifiedToken:
        if AUDIENCE not in audiences:
            raise TokenError("invalid bearer token")
        parts = ("namespace", "service-account.name", "service-account.uid", "secret.name")
        namespace, name, uid, secret = (claims[f"{_LASTING}{part}"] for part in parts)
        bound = (
            BoundObject("serviceaccounts", namespace, name, uid),
            BoundObject("secrets", namespace, secret, "", token),
        )
        if not all(map(self.present, bound)):
            raise TokenError("service account token has been invalidated")
        return VerifiedToken(User(claims["sub"], (*account_groups(namespace), AUTHENTICATED), uid), (AUDIENCE,))

    def _service_account(self, token: str, audiences: Sequence[str]) -> VerifiedToken:
        claims = self._claims(token)
        if claims["iss"] == _LASTING_ISSUER:
            return self._lasting(claims, token, audiences)
        if claims["exp"] <= time.time():
            raise TokenError("service account token has expired")
        shared = tuple(audience for audience in audiences if audience in claims["aud"])
        if not shared:
            raise TokenError(
                f"token audiences {quoted(claims['aud'])} is invalid for the target audiences {quoted(audiences)}"
            )
        private = claims["kubernetes.io"]
        namespace, account = private["namespace"], private["serviceaccount"]
        extra = [("authentication.kubernetes.io/credential-id", (f"JTI={claims['jti']}",))]
        bound = [BoundObject("serviceaccounts", namespace, account["name"], account["uid"])]
        for resource, claim in _CLAIM_OF.items():
            if claim not in private:
                continue
            name, uid = private[claim]["name"], private[claim].get("uid", "")
            if claim != "node" or "pod" not in private:  # the node of a pod is only stated
                bound.append(BoundObject(resource, "" if resource == "nodes" else namespace, name, uid))
            if claim != "secret":
                extra.append((f"authentication.kubernetes.io/{claim}-name", (name,)))
            if claim != "secret" and uid:
                extra.append((f"authentication.kubernetes.io/{claim}-uid", (uid,)))
        if not all(map(self.present, bound)):
            raise TokenError("service account token has been invalidated")
        groups = (*account_groups(namespace), AUTHENTICATED)
        return VerifiedToken(User(claims["sub"], groups, account["uid"], tuple(extra)), shared)

    def _claims(self, token: str) -> dict[str, Any]:
        """Return the claims of a token that we signed."""
        signed, _, signature = token.rpartition(".")
        head, _, claims = signed.partition(".")
        try:
            if len(token) <= _LONGEST_TOKEN and head == self._head and self._is_signed(token, signed, signature):
                decoded: dict[str, Any] = json.loads(_unb64(claims))
                return decoded
        except ValueError:
            pass
        raise TokenError("invalid bearer token")

    def _is_signed(self, token: str, signed: str, signature: str) -> bool:
        digest = _digest(token)
        if digest in self._verified_digests:
            return True
        if not self.key.signed(signed, _unb64(signature)):
            return False
        if len(self._verified_digests) >= _MOST_CHECKED:
            del self._verified_digests[next(iter(self._verified_digests))]
        self._verified_digests[digest] = None
        return True


_CLAIM_OF = {"pods": "pod", "secrets": "secret", "nodes": "node"}
"""Objects that a token can be bound to besides its account, and the name of the claim."""

_LASTING = "kubernetes.io/serviceaccount/"
"""Prefix of claims of tokens in Secrets."""
_LASTING_ISSUER = "kubernetes/serviceaccount"
_LONGEST_TOKEN = 8192
_MOST_CHECKED = 4096


@dataclass(frozen=True)
class Secrets:
    """The secrets in a data directory: the two fixed tokens and the key for signed ones."""

    admin_token: str
    reader_token: str
    signing_key: bytes

    def tokens(self) -> Tokens:
        """Return the token table for these secrets."""
        tokens = Tokens(self.signing_key)
        tokens.add(self.admin_token, ADMIN)
        tokens.add(self.reader_token, READER)
        return tokens


def load_secrets(directory: Path) -> Secrets:
    """Return the secrets in ``directory``, created at the first start; raises ValueError for an invalid file."""
    loaded = read_secrets(directory)
    if loaded is None:
        loaded = Secrets(secrets.token_urlsafe(32), secrets.token_urlsafe(32), secrets.token_bytes(32))
        content = {"admin": loaded.admin_token, "reader": loaded.reader_token, "signingKey": _b64(loaded.signing_key)}
        write_secret(directory / _TOKENS, json.dumps(content).encode())
    return loaded


def check_secrets(directory: Path) -> None:
    """Raise ValueError that names the file if tokens or certificates in ``directory`` are invalid.

    Nothing is written: a start that fails because of them changes nothing.
    """
    read_secrets(directory)
    for name in ("ca", "server"):
        certificate, key = directory / PKI / f"{name}.crt", directory / PKI / f"{name}.key"
        if certificate.exists() and key.exists():
            _check_pair(certificate, key)


def read_secrets(directory: Path) -> Secrets | None:
    """Return the secrets in ``directory``, None if there are none yet; raises ValueError for an invalid file."""
    path = directory / _TOKENS
    if not path.exists():
        return None
    try:
        content = json.loads(path.read_bytes())
        loaded = Secrets(content["admin"], content["reader"], _unb64(content["signingKey"]))
        if not all(
            isinstance(token, str) and len(token) >= _TOKEN_LENGTH
            for token in (loaded.admin_token, loaded.reader_token)
        ):
            raise ValueError("a token is too short")
        if len(loaded.signing_key) < _KEY_BYTES or loaded.admin_token == loaded.reader_token:
            raise ValueError("the key is too short, or both tokens are the same")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path}: not a token file of this program; delete it to get new tokens") from error
    return loaded


def write_kubeconfig(
    path: Path,
    *,
    server: str,
    ca: Path | None,
    token: str,
    name: str = "reprieve",
    extensions: Mapping[str, Any] | None = None,
) -> None:
    """Write a kubeconfig (mode 0600) with the CA inside, so that it works from any directory on the machine.

    ``extensions`` are those of the context, by name, for other programs.
    """
    cluster: dict[str, Any] = {"server": server}
    if ca is not None:
        cluster["certificate-authority-data"] = base64.b64encode(ca.read_bytes()).decode()
    context: dict[str, Any] = {"cluster": name, "user": name, "namespace": "default"}
    if extensions:
        context["extensions"] = [{"name": key, "extension": value} for key, value in extensions.items()]
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": context}],
        "current-context": name,
        "preferences": {},
    }
    write_secret(path, yaml.safe_dump(config, sort_keys=False).encode())
