"""Authentication and what a client may do then (interfaces.md, "Security" of the control plane)."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from kube_standin import security
from kube_standin.security import certificates, load_secrets
from kube_standin.server.control_plane import ServeOptions
from tests.server.live import Live, config_map, live, pod

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def plane() -> Iterator[Live]:
    with live() as running:
        yield running


@pytest.mark.parametrize("token", [None, "wrong", "a.b.c", ""])
@pytest.mark.parametrize("path", [PODS, "/version", "/api", "/nosuch"])
def test_without_a_known_token_everything_is_401(plane: Live, token: str | None, path: str) -> None:
    """interfaces.md 5.1."""
    status, body, _ = plane.request("GET", path, token=token)
    assert (status, body["reason"]) == (401, "Unauthorized")


@pytest.mark.parametrize(
    ("method", "path", "verb"),
    [
        ("POST", PODS, "create"),
        ("PUT", f"{PODS}/a", "update"),
        ("PATCH", f"{PODS}/a", "patch"),
        ("DELETE", f"{PODS}/a", "delete"),
        ("DELETE", PODS, "deletecollection"),
        ("POST", f"{PODS}/a/binding", "create"),
    ],
)
def test_read_only_token_may_not_write(plane: Live, method: str, path: str, verb: str) -> None:
    status, body, _ = plane.request(method, path, pod("a") if method in ("POST", "PUT") else None, token="reader")
    assert (status, body["reason"]) == (403, "Forbidden")
    assert f'User "reader" cannot {verb} resource "pods' in body["message"]


@pytest.mark.parametrize("path", [PODS, "/api/v1/nodes", "/apis", "/version", "/openapi/v3"])
def test_read_only_token_may_read(plane: Live, path: str) -> None:
    assert plane.request("GET", path, token="reader")[0] == 200


def test_can_i_answers_for_both_tokens(plane: Live) -> None:
    review = {"spec": {"resourceAttributes": {"namespace": "default", "verb": "create", "resource": "pods"}}}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    for token, allowed in (("admin", True), ("reader", False)):
        status, body, _ = plane.request("POST", path, review, token=token)
        assert (status, body["status"]["allowed"]) == (201, allowed)


def test_service_account_token_carries_the_rights_bound_to_it(plane: Live) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    assert plane.request("POST", accounts, {"metadata": {"name": "robot"}})[0] == 201
    status, answer, _ = plane.request("POST", f"{accounts}/robot/token", {"spec": {}})
    assert status == 201
    token = answer["status"]["token"]
    assert plane.request("GET", PODS, token=token)[0] == 403
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    role = {"metadata": {"name": "see"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]}
    binding = {
        "metadata": {"name": "see"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "see"},
        "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "default"}],
    }
    assert plane.request("POST", f"{rbac}/namespaces/default/roles", role)[0] == 201
    assert plane.request("POST", f"{rbac}/namespaces/default/rolebindings", binding)[0] == 201
    assert plane.request("GET", PODS, token=token)[0] == 200
    assert plane.request("GET", "/api/v1/namespaces/kube-system/pods", token=token)[0] == 403
    assert plane.request("DELETE", f"{rbac}/namespaces/default/rolebindings/see")[0] == 200
    assert plane.request("GET", PODS, token=token)[0] == 403


def test_impersonation_is_for_masters(plane: Live) -> None:
    headers = {"Impersonate-User": "jane", "Impersonate-Group": "staff"}
    status, body, _ = plane.request("GET", PODS, headers=headers)
    assert (status, 'User "jane" cannot list' in body["message"]) == (403, True)
    assert "cannot impersonate" in plane.request("GET", PODS, headers=headers, token="reader")[1]["message"]


def test_server_listens_on_loopback(plane: Live) -> None:
    """interfaces.md 5.1."""
    assert plane.url.startswith("https://127.0.0.1:")


def test_kubeconfig_and_keys_are_for_the_owner_only(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "out" / "kubeconfig"
    with live(ServeOptions(data_dir=tmp_path / "data", kubeconfig=kubeconfig)) as plane:
        config = yaml.safe_load(kubeconfig.read_text())
        assert config["clusters"][0]["cluster"]["server"] == plane.url
        assert config["users"][0]["user"]["token"] == plane.server.keys.admin_token
        secrets = [kubeconfig, *(p for p in (tmp_path / "data").rglob("*") if p.is_file())]
        for path in secrets:
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
        assert plane.request("POST", "/api/v1/namespaces/default/configmaps", config_map("kept"))[0] == 201
    before = load_secrets(tmp_path / "data")
    with live(ServeOptions(data_dir=tmp_path / "data", kubeconfig=kubeconfig)) as again:
        assert again.server.keys == before
        assert again.request("GET", "/api/v1/namespaces/default/configmaps/kept")[0] == 200


GOOD_TOKENS = {"admin": "a" * 43, "reader": "r" * 43, "signingKey": "c2VjcmV0" * 6}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b"null",
        b"{}",
        json.dumps(GOOD_TOKENS | {"admin": None}).encode(),
        json.dumps(GOOD_TOKENS | {"admin": ""}).encode(),
        json.dumps(GOOD_TOKENS | {"reader": ["r" * 43]}).encode(),
        json.dumps(GOOD_TOKENS | {"reader": GOOD_TOKENS["admin"]}).encode(),
        json.dumps(GOOD_TOKENS | {"signingKey": ""}).encode(),
        json.dumps(GOOD_TOKENS | {"signingKey": "x"}).encode(),
        json.dumps(GOOD_TOKENS | {"signingKey": 7}).encode(),
        b"[" * 100_000,
    ],
)
def test_broken_token_file_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "tokens.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"tokens\.json: not a token file") as caught:
        load_secrets(tmp_path)
    assert str(tmp_path) in str(caught.value)
    with pytest.raises(ValueError, match=r"tokens\.json: not a token file"), live(ServeOptions(data_dir=tmp_path)):
        pass


def rsa_key() -> bytes:
    key = rsa.generate_private_key(65537, 2048)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def another(name: str, directory: Path) -> bytes:
    """The file of that name of another server."""
    certificates(directory / "another")
    return (directory / "another" / name).read_bytes()


@pytest.mark.parametrize("name", ["ca.crt", "ca.key", "server.crt", "server.key"])
@pytest.mark.parametrize("damage", ["empty", "garbage", "cut", "another", "rsa"])
def test_broken_certificate_or_key_is_named(tmp_path: Path, name: str, damage: str) -> None:
    pki = tmp_path / "pki"
    certificates(pki)
    before = (pki / name).read_bytes()
    made = {
        "empty": b"",
        "garbage": b"\x00\xff" * 2000,
        "cut": before[: len(before) // 2],
        "another": another(name, tmp_path),
        "rsa": rsa_key(),
    }[damage]
    (pki / name).write_bytes(made)
    with pytest.raises(ValueError, match=name.partition(".")[0]) as caught:
        certificates(pki)
    assert str(pki) in str(caught.value)
    assert "delete the directory" in str(caught.value)
    assert (pki / name).read_bytes() == made


def test_first_start_that_died_between_two_files_is_finished(tmp_path: Path) -> None:
    made = certificates(tmp_path)
    for missing in (("server.crt",), ("server.crt", "server.key"), ("ca.crt",), ("ca.key", "ca.crt", "server.crt")):
        for name in missing:
            (tmp_path / name).unlink()
        assert certificates(tmp_path) == made
        made.context()


def test_no_data_directory_is_the_current_one_by_accident() -> None:
    with pytest.raises(ValueError, match="no name"), live(ServeOptions(data_dir="")):
        pass


def test_taken_port_is_named() -> None:
    with live() as first:
        port = first.server.port
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{port}"), live(ServeOptions(port=port)):
            pass


def test_secrets_are_made_long_enough_and_kept(tmp_path: Path) -> None:
    """256 bits each."""
    made = load_secrets(tmp_path)
    assert [len(made.admin_token), len(made.reader_token), len(made.signing_key)] == [43, 43, 32]
    assert load_secrets(tmp_path) == made


@pytest.mark.parametrize(("lasts", "made_anew"), [(29, True), (31, False)])
def test_certificate_is_made_anew_thirty_days_before_its_end(
    lasts: int, made_anew: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(security, "_SERVER_DAYS", lasts)
        first = certificates(tmp_path).certificate.read_bytes()
    assert (certificates(tmp_path).certificate.read_bytes() != first) is made_anew


def test_certificates_are_in_a_folder_of_the_owner_and_say_what_they_are_for(tmp_path: Path) -> None:
    """RFC 5280, 4.2.1: what every client has to understand is critical; the rest informs clients that ask."""
    folder = tmp_path / "deep" / "tls"
    made = certificates(folder, ["extra.example"])
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    ca, server = (x509.load_pem_x509_certificate(path.read_bytes()) for path in (made.ca, made.certificate))
    critical = {"BasicConstraints": True, "KeyUsage": True}
    for found, further in (
        (ca, {"SubjectKeyIdentifier": False}),
        (server, {"ExtendedKeyUsage": False, "SubjectAlternativeName": False, "AuthorityKeyIdentifier": False}),
    ):
        assert {type(one.value).__name__: one.critical for one in found.extensions} == critical | further
    constraints = [one.extensions.get_extension_for_class(x509.BasicConstraints).value for one in (ca, server)]
    assert [(one.ca, one.path_length) for one in constraints] == [(True, 0), (False, None)]
    usages = [one.extensions.get_extension_for_class(x509.KeyUsage).value for one in (ca, server)]
    assert [(one.digital_signature, one.key_cert_sign, one.crl_sign) for one in usages] == [
        (True, True, True), (True, False, False)]  # fmt: skip
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "extra.example" in names.get_values_for_type(x509.DNSName)
