"""Kubeconfigs and service accounts: what they come to, and one clear error for each way to be wrong (clientcmd)."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from reprieve.client import incluster
from reprieve.client.connection import Connection
from reprieve.client.errors import ConfigError
from reprieve.client.kubeconfig import connect, is_configured, read_kubeconfig
from reprieve.client.proxies import checked, from_environment

Json = dict[str, Any]


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def config(cluster: Json | None = None, user: Json | None = None, **more: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://api.example.com:6443", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        **more,
    }


def write(path: Path, data: Any) -> Path:
    path.write_text(data if isinstance(data, str) else yaml.safe_dump(data))
    return path


def read(tmp_path: Path, data: Any, context: str | None = None) -> Connection:
    return connect(write(tmp_path / "config", data), context, {})


def test_every_field_of_a_kubeconfig_is_read(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        config(
            {
                "certificate-authority-data": encoded("CA"),
                "tls-server-name": "inner.example.com",
                "proxy-url": "http://proxy:3128",
                "disable-compression": True,
                "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}],
            },
            {
                "client-certificate-data": encoded("CERT"),
                "client-key-data": encoded("KEY"),
                "as": "jane",
                "as-uid": "7",
                "as-groups": ["dev"],
                "as-user-extra": {"scope": ["a", "b"]},
                "exec": {
                    "apiVersion": "client.authentication.k8s.io/v1",
                    "command": "bin/login",
                    "args": ["--now"],
                    "env": [{"name": "A", "value": "1"}],
                    "interactiveMode": "Never",
                    "provideClusterInfo": True,
                    "installHint": "get it",
                },
            },
        ),
    )
    assert (found.server, found.namespace) == ("https://api.example.com:6443", "team")
    assert (found.tls.ca_data, found.tls.certificate_data, found.tls.key_data) == (b"CA", b"CERT", b"KEY")
    assert (found.tls.server_name, found.tls.insecure) == ("inner.example.com", False)
    assert (found.proxy, found.compression) == ("http://proxy:3128", False)
    act_as = found.impersonation
    assert (act_as.user, act_as.uid, act_as.groups, act_as.extra) == ("jane", "7", ("dev",), (("scope", ("a", "b")),))
    plugin = found.identity.plugin
    assert plugin is not None
    assert plugin.command == str(tmp_path / "bin/login"), "relative to the file"
    assert (plugin.arguments, plugin.environment) == (("--now",), (("A", "1"),))
    assert (plugin.interactive_mode, plugin.provide_cluster_info) == ("Never", True)
    assert (plugin.install_hint, plugin.extension) == ("get it", {"audience": "x"})
    assert "KEY" not in repr(found)


def test_files_are_relative_to_the_kubeconfig_and_data_wins(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    path = write(
        tmp_path / "sub" / "config",
        config(
            {"certificate-authority": "ca.crt"},
            {"client-certificate": "../me.crt", "client-key": "/etc/me.key", "tokenFile": "token"},
        ),
    )
    found = connect(path, None, {})
    assert found.tls.ca_file == tmp_path / "sub" / "ca.crt"
    assert found.tls.certificate_file == tmp_path / "sub" / ".." / "me.crt"
    assert found.tls.key_file == Path("/etc/me.key")
    assert found.identity.token_file == tmp_path / "sub" / "token"
    both = config({"certificate-authority": "ca.crt", "certificate-authority-data": encoded("CA")})
    assert (read(tmp_path, both).tls.ca_data, read(tmp_path, both).tls.ca_file) == (b"CA", None)


def test_several_files_are_one(tmp_path: Path) -> None:
    """The first that says something counts; files that do not exist are passed over."""
    first = config({"server": "https://one"}, {"token": "1"})
    second = config({"server": "https://two"}, {"token": "2"})
    second["current-context"] = "other"
    second["contexts"].append({"name": "other", "context": {"cluster": "d", "user": "u"}})
    second["clusters"].append({"name": "d", "cluster": {"server": "https://three/"}})
    files = [write(tmp_path / "1", first), tmp_path / "missing", write(tmp_path / "2", second)]
    environment = {"KUBECONFIG": os.pathsep.join(["", *map(str, files), str(files[0])])}
    found = connect(None, None, environment)
    assert (found.server, found.identity.token) == ("https://one", "1")
    other = connect(None, "other", environment)
    assert (other.server, other.identity.token, other.namespace) == ("https://three", "1", "default")
    assert read_kubeconfig(files, explicit=False).contexts == ("main", "other")
    listed = connect(f"{files[0]}{os.pathsep}{files[2]}", "other", {})
    assert listed.server == "https://three"


def test_where_a_kubeconfig_is_searched_for(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    write(tmp_path / ".kube" / "config", config({"server": "https://home"}))
    write(tmp_path / "set", config({"server": "https://set"}))
    write(tmp_path / "named", config({"server": "https://named"}))
    home = {"HOME": str(tmp_path)}
    assert connect(None, None, home).server == "https://home"
    assert connect(None, None, {**home, "KUBECONFIG": str(tmp_path / "set")}).server == "https://set"
    assert connect(tmp_path / "named", None, {**home, "KUBECONFIG": str(tmp_path / "set")}).server == "https://named"
    with pytest.raises(ConfigError, match="no API server"):
        connect(None, None, {"HOME": str(tmp_path / "elsewhere")})
    missing = tmp_path / "missing"
    with pytest.raises(ConfigError, match=f"KUBECONFIG: {missing}: No such file"):
        connect(None, None, {**home, "KUBECONFIG": str(missing), "KUBERNETES_SERVICE_HOST": "10.0.0.1"})
    assert is_configured({"KUBECONFIG": str(missing)})


def test_json_and_nulls_and_empty_files_are_read(tmp_path: Path) -> None:
    text = '{"apiVersion": "v1", "kind": "Config", "current-context": "m", "users": null, "preferences": {}, '
    text += '"contexts": [{"name": "m", "context": {"cluster": "c", "user": ""}}], '
    text += '"clusters": [{"name": "c", "cluster": {"server": "https://a", "tls-server-name": null}}]}'
    assert read(tmp_path, text).server == "https://a"
    with pytest.raises(ConfigError, match="no current-context"):
        read(tmp_path, "")


WRONG: dict[str, tuple[Any, str]] = {
    "no context of that name": ({**config(), "current-context": "x"}, "no context 'x'; known: 'main'"),
    "no current context": ({**config(), "current-context": ""}, "no current-context: name one of 'main'"),
    "no such cluster": (config(clusters=[]), "names cluster 'c': no such entry"),
    "no such user": (config(users=[]), "names user 'u': no such entry"),
    "no server": (config({"server": ""}), "server: Required value"),
    "a server of another scheme": (config({"server": "ftp://a"}), "server: must be https://"),
    "a server with a password": (config({"server": "https://u:p@a"}), "must not contain a user"),
    "not base64": (config({"certificate-authority-data": "%%"}), "certificate-authority-data: not base64"),
    "insecure and a CA": (
        config({"insecure-skip-tls-verify": True, "certificate-authority-data": encoded("CA")}),
        "cannot both be set",
    ),
    "a certificate without its key": (config(user={"client-certificate": "a"}), "client-key: Required value"),
    "a key without its certificate": (config(user={"client-key": "a"}), "client-certificate: Required value"),
    "an old auth provider": (config(user={"auth-provider": {"name": "gcp"}}), "use a credential plugin"),
    "token and password": (config(user={"token": "t", "username": "u"}), "cannot both be set"),
    "a token of two lines": (config(user={"token": "a\nb"}), "token: must be one line"),
    "groups without a user": (config(user={"as-groups": ["g"]}), "need a user to impersonate"),
    "a plugin of an old version": (
        config(user={"exec": {"apiVersion": "client.authentication.k8s.io/v1alpha1", "command": "x"}}),
        "exec.apiVersion: 'client.authentication.k8s.io/v1alpha1': must be one of",
    ),
    "v1 wants an interactiveMode": (
        config(user={"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "x"}}),
        "exec.interactiveMode",
    ),
    "a plugin without a command": (config(user={"exec": {"apiVersion": "x"}}), "exec.command: Required value"),
    "a socks proxy": (config({"proxy-url": "socks5://p:1"}), "'socks5' are not supported"),
    "another kind": ({"kind": "Pod", "apiVersion": "v1"}, "not a kubeconfig: kind 'Pod'"),
    "a list": ([1], "a kubeconfig is one document"),
    "two documents": ("a: 1\n---\nb: 2\n", "a kubeconfig is one document"),
    "a wrong type": (config(clusters=[{"name": "c", "cluster": {"server": 1}}]), "not a kubeconfig: Expected `str`"),
    "no YAML": ("a: [", "line"),
}


@pytest.mark.parametrize("name", WRONG)
def test_error_names_the_file(name: str, tmp_path: Path) -> None:
    data, message = WRONG[name]
    with pytest.raises(ConfigError) as refused:
        read(tmp_path, data)
    assert message in str(refused.value)
    assert str(tmp_path / "config") in str(refused.value)
    assert "\n" not in str(refused.value)


def test_named_file_has_to_exist_and_to_be_of_sensible_size(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="missing: No such file"):
        connect(tmp_path / "missing", None, {})
    write(tmp_path / "big", "a: " + "x" * (5 << 20))
    with pytest.raises(ConfigError, match="not a kubeconfig"):
        connect(tmp_path / "big", None, {})
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00\xff")
    with pytest.raises(ConfigError, match="not UTF-8"):
        connect(tmp_path / "binary", None, {})


def test_server_without_a_scheme(tmp_path: Path) -> None:
    assert read(tmp_path, config({"server": "localhost:8080"})).server == "http://localhost:8080"
    secure = config({"server": "localhost:6443", "certificate-authority-data": encoded("CA")})
    assert read(tmp_path, secure).server == "https://localhost:6443"


def test_service_account_of_a_pod(tmp_path: Path) -> None:
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    assert not incluster.available(environment, tmp_path)
    with pytest.raises(ConfigError, match="no service account token"):
        incluster.connection(environment, tmp_path)
    for name, text in (("token", "t"), ("ca.crt", "CA"), ("namespace", "kube-system\n")):
        (tmp_path / name).write_text(text)
    assert incluster.available(environment, tmp_path)
    found = incluster.connection(environment, tmp_path)
    assert (found.server, found.namespace) == ("https://[fd00::1]:443", "kube-system")
    assert (found.identity.token_file, found.tls.ca_file) == (tmp_path / "token", tmp_path / "ca.crt")
    with pytest.raises(ConfigError, match="not in a cluster"):
        incluster.connection({}, tmp_path)


# --- proxies ----------------------------------------------------------------------------------------------

PROXIES = {"HTTPS_PROXY": "http://secure:1", "HTTP_PROXY": "plain:2"}


@pytest.mark.parametrize(
    ("server", "environment", "proxy"),
    [
        ("https://api.example.com", PROXIES, "http://secure:1"),
        ("http://api.example.com", PROXIES, "http://plain:2"),
        ("https://api.example.com", {"https_proxy": "http://lower:1"}, "http://lower:1"),
        ("https://api.example.com", {}, None),
        ("https://localhost:6443", PROXIES, None),
        ("https://127.0.0.1:6443", PROXIES, None),
        ("https://[::1]:6443", PROXIES, None),
        ("https://api.example.com", {**PROXIES, "NO_PROXY": "*"}, None),
        ("https://api.example.com", {**PROXIES, "NO_PROXY": "a, example.com"}, None),
        ("https://example.com", {**PROXIES, "NO_PROXY": ".example.com"}, "http://secure:1"),
        ("https://api.example.com", {**PROXIES, "no_proxy": ".example.com"}, None),
        ("https://notexample.com", {**PROXIES, "NO_PROXY": "example.com"}, "http://secure:1"),
        ("https://10.1.2.3:6443", {**PROXIES, "NO_PROXY": "10.0.0.0/8"}, None),
        ("https://11.1.2.3:6443", {**PROXIES, "NO_PROXY": "10.0.0.0/8"}, "http://secure:1"),
        ("https://10.1.2.3:6443", {**PROXIES, "NO_PROXY": "10.1.2.3"}, None),
        ("https://10.1.2.3:6443", {**PROXIES, "NO_PROXY": "10.1.2.3:443"}, "http://secure:1"),
        ("https://api.example.com:6443", {**PROXIES, "NO_PROXY": "api.example.com:6443"}, None),
    ],
)
def test_proxies_as_go_programs_read_them(server: str, environment: dict[str, str], proxy: str | None) -> None:
    """golang.org/x/net/http/httpproxy."""
    assert from_environment(server, environment) == proxy


def test_proxy_that_cannot_be_used_is_not_quoted() -> None:
    with pytest.raises(ConfigError, match="HTTPS_PROXY") as refused:
        from_environment("https://a.example.com", {"HTTPS_PROXY": "socks5://user:s3cret@p:1"})
    assert "s3cret" not in str(refused.value)
    with pytest.raises(ConfigError, match="names no host"):
        checked("http://", "here")
