"""Entries of a kubeconfig one by one: both sides of each rule of clientcmd, and the rules of proxies and pods."""

from __future__ import annotations

import base64
import contextlib
from pathlib import Path
from typing import Any

import pytest

from kube_rules.unknown_fields import UnknownField
from reprieve.client import incluster
from reprieve.client.connection import Impersonation
from reprieve.client.errors import ConfigError
from reprieve.client.kubeconfig import connect, is_configured, read_kubeconfig
from reprieve.client.proxies import checked, from_environment
from tests.client.test_kubeconfig import Json, config, encoded, read, write

V1, BETA = "client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"


# --- servers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("server", "url"),
    [
        ("https://a", "https://a"),
        ("https://a/", "https://a"),
        ("https://a//", "https://a"),
        ("http://a:8080/prefix/", "http://a:8080/prefix"),
        ("https://[::1]:6443", "https://[::1]:6443"),
    ],
)
def test_server_is_a_base_url(server: str, url: str, tmp_path: Path) -> None:
    assert read(tmp_path, config({"server": server})).server == url


@pytest.mark.parametrize(
    ("server", "message"),
    [
        ("", "server: Required value"),
        ("ftp://a", "server: must be https://HOST[:PORT]"),
        ("https://", "server: must be https://HOST[:PORT]"),
        ("https://[", "server: not a URL"),
        ("https://u@a", "server: must not contain a user, a query or a fragment"),
        ("https://a?b=c", "server: must not contain a user, a query or a fragment"),
        ("https://a#b", "server: must not contain a user, a query or a fragment"),
    ],
)
def test_address_that_is_no_server(server: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        read(tmp_path, config({"server": server}))
    assert str(refused.value) == f"{tmp_path / 'config'}: cluster 'c': {message}"


@pytest.mark.parametrize(
    ("cluster", "user", "scheme"),
    [
        ({}, {}, "http"),
        ({}, {"token": "t", "username": ""}, "http"),
        ({"proxy-url": "http://p"}, {}, "http"),
        ({"insecure-skip-tls-verify": True}, {}, "https"),
        ({"tls-server-name": "a"}, {}, "https"),
        ({"certificate-authority": "ca"}, {}, "https"),
        ({}, {"client-certificate": "c", "client-key": "k"}, "https"),
    ],
)
def test_server_without_a_scheme_is_secure_where_tls_is_set_up(
    cluster: Json, user: Json, scheme: str, tmp_path: Path
) -> None:
    found = read(tmp_path, config({"server": "a:1", **cluster}, user))
    assert found.server == f"{scheme}://a:1"


# --- certificates -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("user", "missing"),
    [
        ({}, None),
        ({"client-certificate": "c", "client-key": "k"}, None),
        ({"client-certificate": "c", "client-key-data": encoded("K")}, None),
        ({"client-certificate-data": encoded("C"), "client-key": "k"}, None),
        ({"client-certificate-data": encoded("C"), "client-key-data": encoded("K")}, None),
        ({"client-certificate": "c"}, "client-key"),
        ({"client-certificate-data": encoded("C")}, "client-key"),
        ({"client-key": "k"}, "client-certificate"),
        ({"client-key-data": encoded("K")}, "client-certificate"),
    ],
)
def test_certificate_and_its_key_go_together(user: Json, missing: str | None, tmp_path: Path) -> None:
    if missing is None:
        tls = read(tmp_path, config(user=user)).tls
        wanted = {name: name in user for name in ("client-certificate", "client-key")}
        assert (tls.certificate_file is not None, tls.key_file is not None) == tuple(wanted.values())
        assert tls.certificate_data == (b"C" if "client-certificate-data" in user else None)
        assert tls.key_data == (b"K" if "client-key-data" in user else None)
        return
    with pytest.raises(ConfigError, match=f"user 'u': {missing}: Required value: a client certificate and its key"):
        read(tmp_path, config(user=user))


@pytest.mark.parametrize("authority", [{"certificate-authority": "ca"}, {"certificate-authority-data": encoded("CA")}])
@pytest.mark.parametrize("insecure", [True, False])
def test_insecure_connection_names_no_authority(authority: Json, insecure: bool, tmp_path: Path) -> None:
    cluster = {**authority, "insecure-skip-tls-verify": insecure}
    with pytest.raises(ConfigError, match="cannot both be set") if insecure else contextlib.nullcontext():
        assert not read(tmp_path, config(cluster)).tls.insecure
    assert read(tmp_path, config({"insecure-skip-tls-verify": insecure})).tls.insecure is insecure


def test_base64_may_be_folded_and_nothing_else(tmp_path: Path) -> None:
    text = base64.b64encode(b"x" * 100).decode()
    folded = "\n".join(text[start : start + 60] for start in range(0, len(text), 60))
    assert read(tmp_path, config({"certificate-authority-data": folded})).tls.ca_data == b"x" * 100
    for bad in ("a", "YQ", "Y!Q=", "YQ==="):
        with pytest.raises(ConfigError, match="certificate-authority-data: not base64"):
            read(tmp_path, config({"certificate-authority-data": bad}))


# --- users ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["token", "password", "username"])
@pytest.mark.parametrize("character", ["\r", "\n", "\0"])
def test_secret_is_one_line(field: str, character: str, tmp_path: Path) -> None:
    user = {"username": "u", field: f"s3cret{character}"} if field != "token" else {field: f"s3cret{character}"}
    with pytest.raises(ConfigError, match=f"user 'u': {field}: must be one line") as refused:
        read(tmp_path, config(user=user))
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    ("user", "found"),
    [
        ({}, (None, None, None, None)),
        ({"token": "t"}, ("t", None, None, None)),
        ({"token": "t", "tokenFile": "f"}, ("t", "f", None, None)),
        ({"username": "u"}, (None, None, "u", None)),
        ({"username": "u", "password": "p"}, (None, None, "u", "p")),
        ({"username": "u", "tokenFile": "f"}, (None, "f", "u", None)),
    ],
)
def test_user_agent_of_requests(user: Json, found: tuple[str | None, ...], tmp_path: Path) -> None:
    identity = read(tmp_path, config(user=user)).identity
    file = None if identity.token_file is None else identity.token_file.name
    assert (identity.token, file, identity.username, identity.password) == found
    assert identity.plugin is None


@pytest.mark.parametrize(
    ("version", "mode", "found"),
    [
        (V1, "Never", "Never"),
        (V1, "IfAvailable", "IfAvailable"),
        (V1, "Always", "Always"),
        (V1, None, None),  # v1 has no default
        (V1, "never", None),
        (BETA, None, "IfAvailable"),
        (BETA, "Always", "Always"),
        (BETA, "Sometimes", None),
    ],
)
def test_when_a_plugin_may_use_the_terminal(version: str, mode: str | None, found: str | None, tmp_path: Path) -> None:
    plugin = {"apiVersion": version, "command": "login", **({} if mode is None else {"interactiveMode": mode})}
    if found is None:
        with pytest.raises(ConfigError, match=r"exec\.interactiveMode: .*: must be one of Never, IfAvailable, Always"):
            read(tmp_path, config(user={"exec": plugin}))
        return
    made = read(tmp_path, config(user={"exec": plugin})).identity.plugin
    assert made is not None
    assert (made.api_version, made.interactive_mode, made.command) == (version, found, "login")
    assert (made.arguments, made.environment, made.install_hint, made.extension) == ((), (), "", None)
    assert made.provide_cluster_info is False


@pytest.mark.parametrize(
    ("extensions", "found"),
    [
        (None, None),
        ([], None),
        ([{"name": "other", "extension": 1}], None),
        ([{"name": "other", "extension": 1}, {"name": "client.authentication.k8s.io/exec", "extension": 2}], 2),
    ],
)
def test_extension_for_plugins_is_that_of_their_name(extensions: Any, found: Any, tmp_path: Path) -> None:
    plugin = {"apiVersion": BETA, "command": "/bin/login"}
    made = read(tmp_path, config({"extensions": extensions}, {"exec": plugin})).identity.plugin
    assert made is not None
    assert (made.command, made.extension) == ("/bin/login", found)


@pytest.mark.parametrize(
    ("user", "found"),
    [
        ({}, Impersonation()),
        ({"as": "jane"}, Impersonation("jane")),
        (
            {"as": "jane", "as-uid": "7", "as-groups": ["b", "a"], "as-user-extra": {"z": ["2", "1"], "a": []}},
            Impersonation("jane", "7", ("b", "a"), (("a", ()), ("z", ("2", "1")))),
        ),
        ({"as-uid": "7"}, None),
        ({"as-groups": ["g"]}, None),
        ({"as-user-extra": {"a": ["b"]}}, None),
    ],
)
def test_impersonation_of_a_kubeconfig(user: Json, found: Impersonation | None, tmp_path: Path) -> None:
    if found is None:
        with pytest.raises(ConfigError, match="user 'u': as: Required value: groups, uid and extra need a user"):
            read(tmp_path, config(user=user))
    else:
        assert read(tmp_path, config(user=user)).impersonation == found


# --- contexts and files -----------------------------------------------------------------------------------


def test_context_without_a_user_has_no_credentials_and_named_extensions(tmp_path: Path) -> None:
    context = {"cluster": "c", "extensions": [{"name": "", "extension": 1}, {"name": "a", "extension": {"b": 2}}]}
    found = read(tmp_path, config(contexts=[{"name": "main", "context": context}], users=None))
    assert (found.namespace, found.identity.token, found.extensions) == ("default", None, {"a": {"b": 2}})
    assert (found.proxy, found.compression, found.source) == (None, True, f"{tmp_path / 'config'}: context 'main'")
    with pytest.raises(ConfigError, match="context 'main' names cluster '': no such entry"):
        read(tmp_path, config(contexts=[{"name": "main"}]))
    with pytest.raises(ConfigError, match="no context 'x'; known: none"):
        read(tmp_path, config(contexts=None), "x")
    two = [{"name": name, "context": context} for name in ("z", "main")]
    with pytest.raises(ConfigError, match="no current-context: name one of 'main', 'z'"):
        read(tmp_path, {**config(contexts=two), "current-context": None})
    assert read(tmp_path, config(contexts=two), "z").server == "https://api.example.com:6443"


def test_first_file_that_names_something_counts(tmp_path: Path) -> None:
    first = write(tmp_path / "1", {**config({"server": "https://one"}), "current-context": ""})
    second = write(tmp_path / "2", {**config({"server": "https://two"}), "current-context": "main"})
    third = write(tmp_path / "3", {**config(), "current-context": "none"})
    found = read_kubeconfig([first, second, third], explicit=True)
    assert (found.current_context, found.connection().server) == ("main", "https://one")
    with pytest.raises(ConfigError, match="4: No such file"):
        read_kubeconfig([first, tmp_path / "4"], explicit=True)
    assert read_kubeconfig([tmp_path / "4", second], explicit=False).connection().server == "https://two"
    with pytest.raises(ConfigError, match="Is a directory"):
        read_kubeconfig([tmp_path], explicit=False)


@pytest.mark.parametrize(("more", "read_well"), [(0, True), (1, False)])
def test_kubeconfig_has_four_mebibytes_at_most(more: int, read_well: bool, tmp_path: Path) -> None:
    text = "current-context: a\n#"
    file = write(tmp_path / "config", text + "x" * (4 * 1024 * 1024 - len(text) + more))
    with contextlib.nullcontext() if read_well else pytest.raises(ConfigError, match="larger than 4194304 bytes"):
        assert read_kubeconfig([file], explicit=True).current_context == "a"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: Config\na: ]\n", "line 2: "),
        ("kind: Other", "not a kubeconfig: kind 'Other', apiVersion 'v1'"),
        ("apiVersion: v2", "not a kubeconfig: kind 'Config', apiVersion 'v2'"),
        ("- 1", "a kubeconfig is one document with clusters, users and contexts"),
        ("a: 1\n---\nb: 2", "a kubeconfig is one document with clusters, users and contexts"),
        ("users: 3", "not a kubeconfig: Expected `array | null`, got `int` - at `$.users`"),
    ],
)
def test_text_that_is_no_kubeconfig(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        read_kubeconfig([write(tmp_path / "config", text)], explicit=True)
    assert str(refused.value).startswith(f"{tmp_path / 'config'}: {message}")


def test_kubeconfig_may_be_empty_or_begin_with_a_mark_and_leave_out_its_kind(tmp_path: Path) -> None:
    for text in ("", "# nothing\n", "\ufeffcurrent-context: a\n", "kind: null\napiVersion: null\n"):
        found = read_kubeconfig([write(tmp_path / "config", text)], explicit=True)
        assert found.current_context == ("a" if "context" in text else "")
        assert found.contexts == ()


def test_fields_that_no_kubeconfig_has_are_noted_where_that_is_wanted(tmp_path: Path) -> None:
    noted: list[UnknownField] = []
    file = write(tmp_path / "config", "kind: Config\ncurrentContext: a\n")
    read_kubeconfig([file], explicit=True)
    read_kubeconfig([file], explicit=True, unknown_fields=noted)
    [found] = noted
    assert "currentContext" in str(found)
    assert str(file) in str(found)
    with pytest.raises(ConfigError):
        connect(file, None, {}, unknown_fields=noted)
    assert len(noted) == 2


def test_where_to_go_is_the_first_that_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path; KUBECONFIG; ~/.kube/config; the service account of a pod. A context is one of a kubeconfig."""
    account = tmp_path / "account"
    account.mkdir()
    for name in ("token", "ca.crt"):
        (account / name).write_text("x")
    pod = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    monkeypatch.setattr(incluster, "SERVICE_ACCOUNT", account)
    available, connection = incluster.available, incluster.connection
    monkeypatch.setattr(incluster, "available", lambda environment: available(environment, account))
    monkeypatch.setattr(incluster, "connection", lambda environment: connection(environment, account))
    (tmp_path / ".kube").mkdir()
    home = {"HOME": str(tmp_path)}

    def server(**environment: str) -> str | None:
        if is_configured(environment):
            return connect(None, None, environment).server
        with pytest.raises(
            ConfigError, match="no API server: use --kubeconfig FILE, set KUBECONFIG, or run in a cluster"
        ):
            connect(None, None, environment)
        return None

    assert server() is server(**home) is None
    assert server(**pod) == server(**home, **pod) == "https://10.0.0.1:443"
    write(tmp_path / ".kube" / "config", config({"server": "https://home"}))
    assert server(**home, **pod) == "https://home"
    file = write(tmp_path / "a:b", config({"server": "https://named"}))
    for elsewhere in (home, {**home, **pod}):
        with pytest.raises(ConfigError, match=r"KUBECONFIG: .*/none: No such file or directory"):
            server(**elsewhere, KUBECONFIG=str(tmp_path / "none"))
    assert connect(str(file), None, home).server == "https://named", "one file of that name"
    with pytest.raises(ConfigError, match="no context 'x'; known: none"):
        connect(None, "x", pod)
    with pytest.raises(ConfigError, match="the kubeconfig has no name"):
        connect("", None, home)
    for name in ("KUBECONFIG", *pod):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert (connect().server, is_configured()) == ("https://home", True)
    monkeypatch.delenv("HOME")
    assert not is_configured()


@pytest.mark.parametrize(
    ("environment", "missing", "message"),
    [
        ({"KUBERNETES_SERVICE_HOST": "a", "KUBERNETES_SERVICE_PORT": "1"}, "", None),
        ({"KUBERNETES_SERVICE_HOST": "a"}, "", "not in a cluster"),
        ({"KUBERNETES_SERVICE_PORT": "1"}, "", "not in a cluster"),
        ({"KUBERNETES_SERVICE_HOST": "a", "KUBERNETES_SERVICE_PORT": "https"}, "", "_PORT is not a number"),
        ({"KUBERNETES_SERVICE_HOST": "a", "KUBERNETES_SERVICE_PORT": "1"}, "token", "token: No such file"),
        ({"KUBERNETES_SERVICE_HOST": "a", "KUBERNETES_SERVICE_PORT": "1"}, "ca.crt", "ca.crt: No such file"),
        ({"KUBERNETES_SERVICE_HOST": "a", "KUBERNETES_SERVICE_PORT": "1"}, "namespace", None),
    ],
)
def test_in_cluster_configuration_needs(
    environment: dict[str, str], missing: str, message: str | None, tmp_path: Path
) -> None:
    for name in ("token", "ca.crt", "namespace"):
        if name != missing:
            (tmp_path / name).write_text(f"{name}\n")
    available = missing != "token" and "KUBERNETES_SERVICE_HOST" in environment
    assert incluster.available(environment, tmp_path) is available
    if message is not None:
        with pytest.raises(ConfigError, match=message):
            incluster.connection(environment, tmp_path)
        return
    found = incluster.connection(environment, tmp_path)
    assert (found.server, found.namespace) == ("https://a:1", "default" if missing else "namespace")
    assert found.source == "the service account of this pod"


# --- proxies ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "exempt", "direct"),
    [
        ("a.example.com", "", False),
        ("a.example.com", " , ", False),
        ("a.example.com", "A.Example.COM", True),
        ("a.example.com", "*.example.com", True),
        ("example.com", "*.example.com", False),
        ("a.example.com", "example.com:443", True),
        ("a.example.com", "example.com:444", False),
        ("a.example.com:444", "example.com:444", True),
        ("a.example.com", "other, *", True),
        ("a.example.com.", "example.com", True),
        ("10.1.2.3", "10.1.2.0/24", True),
        ("10.1.2.3", "10.1.2.1/24", True),
        ("10.1.2.3", "10.1.3.0/24", False),
        ("10.1.2.3", "10.1.2.3:443", True),
        ("10.1.2.3", "10.1.2.3:80", False),
        ("10.1.2.3", "2.3", False),  # of an address no part counts
        ("10.1.2.3", ".2.3", False),
        ("a.example.com", "10.0.0.0/8", False),
        ("[fd00::1]", "fd00::/8", True),
        ("[fd00::1]", "[fd00::1]:443", True),
        ("[fd00::1]", "[fd00::2]:443", False),
        ("127.0.0.2", "", True),
        ("LOCALHOST", "", True),
        ("localhost.", "", True),
        ("localhost.example.com", "", False),
    ],
)
def test_hosts_reached_without_a_proxy(host: str, exempt: str, direct: bool) -> None:
    """golang.org/x/net/http/httpproxy: NO_PROXY wins over no_proxy, and the loopback is never proxied."""
    environment = {"HTTPS_PROXY": "http://p:1", "NO_PROXY": exempt}
    assert from_environment(f"https://{host}", environment) == (None if direct else "http://p:1")
    small = {"https_proxy": "http://p:1", "no_proxy": exempt}
    assert from_environment(f"https://{host}", small) == (None if direct else "http://p:1")


def test_large_names_win_over_the_small_ones() -> None:
    environment = {"HTTPS_PROXY": "http://large", "https_proxy": "http://small", "NO_PROXY": "a", "no_proxy": "b"}
    assert from_environment("https://a", environment) is None
    assert from_environment("https://b", environment) == "http://large"
    assert from_environment("http://b", environment) is None, "of another scheme"


@pytest.mark.parametrize(
    ("proxy", "found"),
    [
        ("p", "http://p"),
        ("p:1", "http://p:1"),
        ("http://p", "http://p"),
        ("https://u:w@p:1", "https://u:w@p:1"),
        ("socks5://p", None),
        ("http://", None),
        ("http://[", None),
    ],
)
def test_proxies_of_the_environment(proxy: str, found: str | None) -> None:
    if found is None:
        with pytest.raises(ConfigError, match=r"^here: (the proxy|proxies of scheme 'socks5')"):
            checked(proxy, "here")
    else:
        assert checked(proxy, "here") == found
