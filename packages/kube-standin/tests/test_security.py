"""Certificates, tokens and kubeconfigs: what is in them, how long they are good, and who may read the files.

Rules: docs/rules/interfaces.md, "Security" of the control plane; RFC 5280 for certificates; kube-apiserver 1.36 for the
claims of tokens of service accounts.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import os
import re
import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.x509.oid import NameOID

from kube_standin import security
from kube_standin.security import (
    AUDIENCE,
    BoundObject,
    Certificates,
    TokenError,
    Tokens,
    certificates,
    load_secrets,
    write_kubeconfig,
    write_secret,
)
from kube_standin.server.control_plane import ServeOptions, serving
from kube_standin.token_keys import base64url

Json = dict[str, Any]

# -- files -----------------------------------------------------------------------------------------------------


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_secret_and_its_folder_are_for_the_owner_only(tmp_path: Path) -> None:
    """interfaces.md 5.2."""
    path = tmp_path / "new" / "folder" / "secret"
    before = os.umask(0)
    try:
        write_secret(path, b"one")
        write_secret(path, b"two")
    finally:
        os.umask(before)
    assert path.read_bytes() == b"two"
    assert (mode(path), mode(path.parent)) == (0o600, 0o700)
    assert [one.name for one in path.parent.iterdir()] == ["secret"]


def test_secret_that_cannot_be_replaced_stays_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "secret"
    write_secret(path, b"one")

    def fail(*_: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_secret(path, b"two")
    assert path.read_bytes() == b"one"
    assert [one.name for one in tmp_path.iterdir()] == ["secret"], "no draft is left behind"


# -- certificates ----------------------------------------------------------------------------------------------


@pytest.fixture
def made(tmp_path: Path) -> Certificates:
    return certificates(tmp_path)


def read(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_certificates_have_a_lifetime_and_a_signer(made: Certificates) -> None:
    """Ten years and one; from a year before, for clocks that are set back (interfaces.md 5.9)."""
    ca, server = read(made.ca), read(made.certificate)
    now = datetime.now(UTC)
    for found, days in ((ca, 3650), (server, 365)):
        assert found.not_valid_after_utc - found.not_valid_before_utc == timedelta(days=days + 365)
        assert timedelta(0) <= now - found.not_valid_before_utc - timedelta(days=365) < timedelta(minutes=30)
    ca.verify_directly_issued_by(ca)
    server.verify_directly_issued_by(ca)
    assert ca.subject.rfc4514_string() == ca.issuer.rfc4514_string() == server.issuer.rfc4514_string()
    assert (ca.subject.rfc4514_string(), server.subject.rfc4514_string()) == (
        "CN=reprieve local CA",
        "CN=reprieve-apiserver",
    )


def test_keys_sign_and_do_nothing_else(made: Certificates) -> None:
    """RFC 5280, 4.2.1.3: a CA signs certificates and lists of revoked ones as well."""
    flags = ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
             "key_cert_sign", "crl_sign")  # fmt: skip
    for path, usual in ((made.ca, {"digital_signature", "key_cert_sign", "crl_sign"}),
                        (made.certificate, {"digital_signature"})):  # fmt: skip
        usage = read(path).extensions.get_extension_for_class(x509.KeyUsage).value
        assert {flag for flag in flags if getattr(usage, flag)} == usual


def test_tls_speaks_http_1_1_and_no_version_before_1_2(made: Certificates) -> None:
    """A handshake in memory: the certificate is good for the names every server has."""
    server_context = made.context()
    assert server_context.minimum_version == ssl.TLSVersion.TLSv1_2
    client_context = ssl.create_default_context(cafile=str(made.ca))
    client_context.set_alpn_protocols(["h2", "http/1.1"])
    for name in ("localhost", "kubernetes.default.svc", "127.0.0.1", "::1"):
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        server = server_context.wrap_bio(to_server, to_client, server_side=True)
        client = client_context.wrap_bio(to_client, to_server, server_hostname=name)
        pending = [client, server]
        for side in itertools.islice(itertools.cycle((client, server)), 10):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            if side in pending:
                pending.remove(side)
        assert pending == []
        assert client.selected_alpn_protocol() == "http/1.1"


@pytest.mark.parametrize(
    ("days", "ca_kept", "server_kept"),
    [(-364, True, True), (-366, False, False), (334, True, True), (336, True, False), (3619, True, False),
     (3621, False, False)],
)  # fmt: skip
def test_certificates_are_kept_while_they_are_valid_and_made_anew_when_they_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days: int, ca_kept: bool, server_kept: bool
) -> None:
    """interfaces.md 5.9: whichever way the clock was set."""
    first = certificates(tmp_path)
    before = first.ca.read_bytes(), first.certificate.read_bytes()

    class Later(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.now(tz) + timedelta(days=days)

    monkeypatch.setattr(security, "datetime", Later)
    certificates(tmp_path)
    after = first.ca.read_bytes(), first.certificate.read_bytes()
    assert [old == new for old, new in zip(before, after, strict=True)] == [ca_kept, server_kept]
    found = read(first.certificate)
    assert found.not_valid_before_utc <= Later.now(UTC) <= found.not_valid_after_utc
    found.verify_directly_issued_by(read(first.ca))


def test_good_certificates_are_kept_and_further_names_make_a_new_one(tmp_path: Path) -> None:
    first = certificates(tmp_path, ["a.example"])
    kept = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert certificates(tmp_path, ["a.example"]) == first
    assert certificates(tmp_path) == first
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == kept
    certificates(tmp_path, ["a.example", "10.0.0.7"])
    names = read(first.certificate).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "a.example" in names.get_values_for_type(x509.DNSName)
    assert "10.0.0.7" in [str(one) for one in names.get_values_for_type(x509.IPAddress)]
    assert first.ca.read_bytes() == kept["ca.crt"]


def foreign_pair(directory: Path, issuer: x509.Name, *names: str) -> bytes:
    """Put a server's key and certificate there that are good for some names and were issued under a name."""
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "server")]))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=100))
    )
    if names:
        known = [security._alternative(name) for name in names]
        builder = builder.add_extension(x509.SubjectAlternativeName(known), False)
    pem = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    (directory / "server.key").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    (directory / "server.crt").write_bytes(pem)
    return pem


EVERY_NAME = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "127.0.0.1", "::1")


@pytest.mark.parametrize(
    ("issued", "names", "kept"),
    [
        (True, EVERY_NAME, True),
        (True, (*EVERY_NAME, "more.example"), True),
        (True, EVERY_NAME[1:], False),
        (True, (), False),
        (False, EVERY_NAME, False),
    ],
)
def test_foreign_certificate_is_kept_if_our_ca_issued_it_for_all_names(
    tmp_path: Path, issued: bool, names: tuple[str, ...], kept: bool
) -> None:
    """One that our CA issued, for all the names; another is made again."""
    ours = read(certificates(tmp_path).ca).subject
    other = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "other")])
    pem = foreign_pair(tmp_path, ours if issued else other, *names)
    certificates(tmp_path)
    assert ((tmp_path / "server.crt").read_bytes() == pem) is kept


def test_new_ca_issues_a_new_certificate(tmp_path: Path) -> None:
    """All CAs have one name, so that only the signature shows which CA issued the certificate."""
    first = certificates(tmp_path)
    before = first.certificate.read_bytes()
    first.ca.unlink()
    again = certificates(tmp_path)
    read(again.certificate).verify_directly_issued_by(read(again.ca))
    assert again.certificate.read_bytes() != before


def test_renewal_that_dies_between_two_files_leaves_none_that_do_not_match(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificates(tmp_path)
    write = security.write_secret

    def dies(path: Path, content: bytes) -> None:
        if path.name == "server.crt":
            raise OSError("killed")
        write(path, content)

    with monkeypatch.context() as patched:
        patched.setattr(security, "write_secret", dies)
        with pytest.raises(OSError, match="killed"):
            certificates(tmp_path, ["further.example"])
    certificates(tmp_path, ["further.example"]).context()


def test_certificate_with_an_unknown_sort_of_key_is_named(tmp_path: Path) -> None:
    found = certificates(tmp_path)
    der = read(found.ca).public_bytes(serialization.Encoding.DER)
    public_key, unknown = bytes.fromhex("06072a8648ce3d0201"), bytes.fromhex("06072a8648ce3d027f")
    assert public_key in der
    packed = base64.encodebytes(der.replace(public_key, unknown))
    found.ca.write_bytes(b"-----BEGIN CERTIFICATE-----\n" + packed + b"-----END CERTIFICATE-----\n")
    with pytest.raises(ValueError, match=r"ca\.crt: not a certificate in PEM; delete the directory"):
        certificates(tmp_path)


# -- tokens ----------------------------------------------------------------------------------------------------

ROBOT = BoundObject("serviceaccounts", "shop", "robot", "u1")


class Time(SimpleNamespace):
    """Stands in for the module `time`."""

    now = 1000.9

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Time:
    made = Time()
    monkeypatch.setattr(security, "time", made)
    return made


def tokens(*gone: BoundObject) -> Tokens:
    found = Tokens(b"k" * 32)
    found.present = lambda bound: bound not in gone
    return found


def claims_of(token: str) -> Json:
    part = token.split(".")[1]
    found: Json = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return found


def test_token_holds_what_a_kube_apiserver_puts_in(clock: Time) -> None:
    token, ends = tokens().issue(ROBOT, 600, ["a", "b"])
    claims = claims_of(token)
    assert ends == 1600
    assert len(claims.pop("jti")) == 36
    assert claims == {
        "aud": ["a", "b"],
        "exp": 1600,
        "iat": 1000,
        "iss": AUDIENCE,
        "kubernetes.io": {"namespace": "shop", "serviceaccount": {"name": "robot", "uid": "u1"}},
        "nbf": 1000,
        "sub": "system:serviceaccount:shop:robot",
    }
    head = token.split(".")[0]
    [key] = tokens().key.key_set()["keys"]
    assert json.loads(base64.urlsafe_b64decode(head + "==")) == {"alg": "ES256", "kid": key["kid"]}


def test_anyone_can_check_a_token_with_the_public_key(clock: Time) -> None:
    """interfaces.md 5.15: by its curve point and the raw form of the signature; every start has the same key."""
    table = tokens()
    token, _ = table.issue(ROBOT, 600, ["a"])
    [key] = table.key.key_set()["keys"]
    assert (key["kty"], key["crv"], key["alg"], key["use"]) == ("EC", "P-256", "ES256", "sig")
    x, y = (int.from_bytes(security._unb64(key[name])) for name in ("x", "y"))
    signed, _, signature = token.rpartition(".")
    halves = security._unb64(signature)
    written = encode_dss_signature(int.from_bytes(halves[:32]), int.from_bytes(halves[32:]))
    public = ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()
    public.verify(written, signed.encode(), ec.ECDSA(hashes.SHA256()))
    assert tokens().key.key_set() == table.key.key_set() != Tokens(b"x" * 32).key.key_set()


def test_token_of_another_key_or_with_another_text_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """interfaces.md 5.15: also when the right one was checked before, and however many were."""
    table = tokens()
    token, _ = table.issue(ROBOT, 600, [AUDIENCE])
    assert table.user(token) is not None
    head, claims, signature = token.split(".")
    other, _ = tokens().issue(BoundObject("serviceaccounts", "shop", "other", "u1"), 600, [AUDIENCE])
    assert table.user(f"{head}.{other.split('.')[1]}.{signature}") is None
    assert table.user(f"{head}.{claims}.{base64.urlsafe_b64encode(bytes(64)).decode().rstrip('=')}") is None
    foreign = Tokens(b"x" * 32)
    foreign.present = lambda _: True
    assert table.user(foreign.issue(ROBOT, 600, [AUDIENCE])[0]) is None
    monkeypatch.setattr(security, "_MOST_CHECKED", 3)
    for number in range(4):
        assert table._is_signed(*_signed(table, str(number)))
    assert len(table._verified_digests) == 3
    assert table.user(token) is not None


def _signed(table: Tokens, text: str) -> tuple[str, str, str]:
    signature = base64url(table.key.sign(text))
    return f"{text}.{signature}", text, signature


@pytest.mark.parametrize(("now", "good"), [(1000.0, True), (1599.9, True), (1600.0, False), (1600.1, False)])
def test_token_is_good_until_it_expires(clock: Time, now: float, good: bool) -> None:
    table = tokens()
    token, _ = table.issue(ROBOT, 600, [AUDIENCE])
    clock.now = now
    assert (table.user(token) is not None) is good
    if not good:
        with pytest.raises(TokenError, match="service account token has expired"):
            table.verify(token)


@pytest.mark.parametrize(
    ("bound", "namespace", "shown"),
    [
        (None, "", None),
        (BoundObject("pods", "shop", "p", "u2"), "shop", "pod"),
        (BoundObject("nodes", "", "n", "u2"), "", "node"),
        (BoundObject("secrets", "shop", "s", "u2"), "shop", None),
    ],
)
def test_token_has_a_user_and_the_lifetime_of_its_object(
    bound: BoundObject | None, namespace: str, shown: str | None
) -> None:
    """The extras name the pod or node it is bound to; it ends with its account, and with what it is bound to."""
    table = tokens()
    token, _ = table.issue(ROBOT, 600, [AUDIENCE], bound)
    user = table.verify(token).user
    assert (user.name, user.uid) == ("system:serviceaccount:shop:robot", "u1")
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated")
    extra = {"authentication.kubernetes.io/credential-id": (f"JTI={claims_of(token)['jti']}",)}
    if shown is not None and bound is not None:
        extra[f"authentication.kubernetes.io/{shown}-name"] = (bound.name,)
        extra[f"authentication.kubernetes.io/{shown}-uid"] = ("u2",)
    assert dict(user.extra) == extra
    for gone in filter(None, (ROBOT, bound)):
        with pytest.raises(TokenError, match="service account token has been invalidated"):
            tokens(gone).verify(token)
    with pytest.raises(TokenError, match="invalidated"):
        Tokens(b"k" * 32).verify(token)


@pytest.mark.parametrize(
    ("made_for", "asked", "shared"),
    [(["a", "b"], ["b", "c", "a"], ("b", "a")), (["a"], ["a"], ("a",)), (["a"], ["b"], None), (["a"], [], None)],
)
def test_token_is_good_for_the_audiences_it_was_made_for(
    made_for: list[str], asked: list[str], shared: tuple[str, ...] | None
) -> None:
    table = tokens()
    token, _ = table.issue(ROBOT, 600, made_for)
    if shared is not None:
        assert table.verify(token, asked).audiences == shared
        return
    shown = "[" + " ".join(f'"{one}"' for one in asked) + "]"
    with pytest.raises(TokenError) as refused:
        table.verify(token, asked)
    assert str(refused.value) == f'token audiences ["a"] is invalid for the target audiences {shown}'


def test_fixed_token_is_for_this_server(tmp_path: Path) -> None:
    secrets = load_secrets(tmp_path)
    table = secrets.tokens()
    for token, name, group in ((secrets.admin_token, "admin", "system:masters"),
                               (secrets.reader_token, "reader", "reprieve:readers")):  # fmt: skip
        found = table.verify(token, ["other", AUDIENCE])
        assert (found.user.name, found.user.groups, found.audiences) == (
            name, (group, "system:authenticated"), (AUDIENCE,))  # fmt: skip
        with pytest.raises(TokenError, match="invalid bearer token"):
            table.verify(token, ["other"])
    assert table.user("other") is None


@pytest.mark.parametrize("part", [1, 2], ids=["claims", "signature"])
def test_token_is_written_in_one_way(part: int) -> None:
    """interfaces.md 5.9: canonical base64url; what decodes to the same bytes is another text, and no token."""
    table = tokens()
    token, _ = table.issue(ROBOT, 600, [AUDIENCE])
    assert table.user(token) is not None
    parts = token.split(".")
    text = parts[part]
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    others = [text + "=", text + "==", text + "\n", text[:5] + "!" + text[5:], text[:5] + "*" + text[5:]]
    others += [text[:-1] + letter for letter in alphabet if letter != text[-1]]
    for other in others:
        assert table.user(".".join([*parts[:part], other, *parts[part + 1 :]])) is None, other


@pytest.mark.parametrize("text", ["", "A", "AB", "ABC", "QQ==", "QR", "QQ\n", "Q Q", "+/", "é"])
def test_continue_token_that_is_no_canonical_base64url(text: str) -> None:
    if text == "":
        assert security._unb64(text) == b""
        return
    with pytest.raises(ValueError, match=r"."):
        security._unb64(text)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tokens.json", b"{"),
        ("tokens.json", b'{"admin": 1}'),
        ("tokens.json", b"[" * 100_000),
        ("pki/server.key", b"x"),
        ("pki/ca.crt", b""),
    ],
)
def test_start_that_fails_for_a_broken_secret_leaves_all_files_as_they_were(
    tmp_path: Path, name: str, content: bytes
) -> None:
    """interfaces.md 5.9."""

    async def run() -> None:
        async with serving(ServeOptions(data_dir=tmp_path)):
            pass

    def files() -> dict[str, tuple[bytes, int]]:
        found = [path for path in tmp_path.rglob("*") if path.is_file()]
        return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in found}

    asyncio.run(run())
    (tmp_path / name).write_bytes(content)
    before = files()
    with pytest.raises(ValueError, match=re.escape(str(tmp_path / name))):
        asyncio.run(run())
    assert files() == before
    (tmp_path / "state.db").unlink()
    before = files()
    with pytest.raises(ValueError, match=re.escape(str(tmp_path / name))):
        asyncio.run(run())
    assert files() == before


def test_token_that_is_too_long_is_none() -> None:
    """8 KiB: no client can make the server check the signature of a megabyte."""
    table = tokens()
    found: dict[int, str] = {}
    for pad in range(5_500, 6_000):
        token, _ = table.issue(ROBOT, 600, [AUDIENCE, "a" * pad])
        found[len(token)] = token
        if len(token) > 8193:
            break
    assert table.user(found[8192]) is not None
    assert table.user(found[8193]) is None


@pytest.mark.parametrize(
    ("changed", "good"),
    [
        ({"admin": "a" * 32}, True),
        ({"admin": "a" * 31}, False),
        ({"reader": "b" * 31}, False),
        ({"reader": ["b"] * 40}, False),
        ({"reader": "a" * 43}, False),
        ({"signingKey": base64.urlsafe_b64encode(b"k" * 32).decode().rstrip("=")}, True),
        ({"signingKey": base64.urlsafe_b64encode(b"k" * 33).decode()}, True),
        ({"signingKey": base64.urlsafe_b64encode(b"k" * 31).decode()}, False),
    ],
)
def test_how_long_secrets_of_a_file_have_to_be(tmp_path: Path, changed: Json, good: bool) -> None:
    """32 characters and 32 bytes; the tokens differ, or the reader would be the admin."""
    whole = {"admin": "a" * 43, "reader": "b" * 43, "signingKey": "c2VjcmV0" * 6, **changed}
    (tmp_path / "tokens.json").write_text(json.dumps(whole))
    if good:
        found = load_secrets(tmp_path)
        assert [found.admin_token, found.reader_token] == [whole["admin"], whole["reader"]]
        assert found.signing_key == base64.urlsafe_b64decode(whole["signingKey"] + "==")
    else:
        with pytest.raises(ValueError, match="not a token file of this program; delete it to get new tokens"):
            load_secrets(tmp_path)


# -- kubeconfigs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_ca", [False, True])
@pytest.mark.parametrize("extensions", [None, {}, {"x": {"y": 1}}])
def test_kubeconfig(tmp_path: Path, with_ca: bool, extensions: Json | None) -> None:
    """interfaces.md 5.2: version and kind come first, as kubectl writes them; the CA is inside."""
    ca = tmp_path / "ca.crt"
    ca.write_bytes(b"pem")
    path = tmp_path / "config"
    found = ca if with_ca else None
    write_kubeconfig(path, server="https://h:1", ca=found, token="t", name="here", extensions=extensions)
    cluster = {"server": "https://h:1", **({"certificate-authority-data": "cGVt"} if with_ca else {})}
    context: Json = {"cluster": "here", "user": "here", "namespace": "default"}
    if extensions:
        context["extensions"] = [{"name": "x", "extension": {"y": 1}}]
    assert yaml.safe_load(path.read_text()) == {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "here", "cluster": cluster}],
        "users": [{"name": "here", "user": {"token": "t"}}],
        "contexts": [{"name": "here", "context": context}],
        "current-context": "here",
        "preferences": {},
    }
    assert path.read_text().startswith("apiVersion: v1\nkind: Config\n")
    assert mode(path) == 0o600
