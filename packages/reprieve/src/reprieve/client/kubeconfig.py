"""Kubeconfigs: read and merge files, and select a context.

Rules (client-go `clientcmd`): `KUBECONFIG` lists files; missing ones are skipped. Of entries with the same name, and of
`current-context`, the first one counts. Paths in a file are relative to that file. `*-data` takes precedence over the
file of the same role. Certificates are unchecked only with `insecure-skip-tls-verify: true`.

Invariant: every error names the file and the entry, and quotes no secret.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
from yarl import URL

from kube_rules.errors import Origin
from kube_rules.unknown_fields import UnknownField, located, misnamed_in
from kube_rules.yamltext import YamlError, read_documents
from reprieve.client import incluster, proxies
from reprieve.client.connection import Connection, ExecPlugin, Identity, Impersonation, TlsSettings
from reprieve.client.errors import ConfigError

MAX_BYTES = 4 * 1024 * 1024
EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
INTERACTIVE_MODES = ("Never", "IfAvailable", "Always")
SCHEDULER_EXTENSION = "reprieve.dev/scheduler"
"""The extension of a context for `explain`: the scheduler, {"url": ..., "certificate-authority-data": ...}, or its
records, {"records": FILE}.
"""
_EXEC_EXTENSION = "client.authentication.k8s.io/exec"


class _Extension(msgspec.Struct, frozen=True):
    name: str = ""
    extension: Any = None


class _Cluster(msgspec.Struct, frozen=True, rename="kebab"):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    disable_compression: bool = False
    extensions: list[_Extension] | None = None


class _EnvironmentVariable(msgspec.Struct, frozen=True):
    name: str
    value: str = ""


class _Exec(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    command: str = ""
    args: list[str] | None = None
    env: list[_EnvironmentVariable] | None = None
    interactive_mode: str = ""
    provide_cluster_info: bool = False
    install_hint: str = ""


class _AuthProvider(msgspec.Struct, frozen=True):
    name: str = ""
    config: Any = None


class _User(msgspec.Struct, frozen=True):
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    client_certificate: str = msgspec.field(default="", name="client-certificate")
    client_certificate_data: str = msgspec.field(default="", name="client-certificate-data")
    client_key: str = msgspec.field(default="", name="client-key")
    client_key_data: str = msgspec.field(default="", name="client-key-data")
    as_user: str = msgspec.field(default="", name="as")
    as_uid: str = msgspec.field(default="", name="as-uid")
    as_groups: list[str] | None = msgspec.field(default=None, name="as-groups")
    as_user_extra: dict[str, list[str]] | None = msgspec.field(default=None, name="as-user-extra")
    exec: _Exec | None = None
    auth_provider: _AuthProvider | None = msgspec.field(default=None, name="auth-provider")


class _ContextFields(msgspec.Struct, frozen=True):
    cluster: str = ""
    user: str = ""
    namespace: str = ""
    extensions: list[_Extension] | None = None


class _NamedCluster(msgspec.Struct, frozen=True):
    name: str
    cluster: _Cluster | None = None


class _NamedUser(msgspec.Struct, frozen=True):
    name: str
    user: _User | None = None


class _NamedContext(msgspec.Struct, frozen=True):
    name: str
    context: _ContextFields | None = None


class _File(msgspec.Struct, frozen=True):
    kind: str = "Config"
    api_version: str = msgspec.field(default="v1", name="apiVersion")
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None
    contexts: list[_NamedContext] | None = None
    current_context: str = msgspec.field(default="", name="current-context")
    preferences: Any = None
    extensions: Any = None


EntryT = TypeVar("EntryT")


@dataclass(frozen=True, slots=True)
class _NamedEntry(Generic[EntryT]):
    value: EntryT
    file: Path


@dataclass(slots=True)
class Kubeconfig:
    """Several files as one."""

    files: tuple[Path, ...]
    current_context: str = ""
    _clusters: dict[str, _NamedEntry[_Cluster]] = field(default_factory=dict, repr=False)
    _users: dict[str, _NamedEntry[_User]] = field(default_factory=dict, repr=False)
    _contexts: dict[str, _NamedEntry[_ContextFields]] = field(default_factory=dict, repr=False)

    @property
    def contexts(self) -> tuple[str, ...]:
        """Return the names that `--context` may have, sorted."""
        return tuple(sorted(self._contexts))

    def connection(self, context: str | None = None) -> Connection:
        """Return the server and user of a context, None for the current one. Raises ConfigError."""
        where = ", ".join(map(str, self.files)) or "no kubeconfig"
        name = context or self.current_context
        if not name:
            raise ConfigError(f"{where}: no current-context: name one of {_listed(self.contexts)}")
        chosen = self._contexts.get(name)
        if chosen is None:
            raise ConfigError(f"{where}: no context {name!r}; known: {_listed(self.contexts)}")
        cluster = self._clusters.get(chosen.value.cluster)
        if cluster is None:
            raise ConfigError(f"{chosen.file}: context {name!r} names cluster {chosen.value.cluster!r}: no such entry")
        user = self._users.get(chosen.value.user) if chosen.value.user else _NamedEntry(_User(), chosen.file)
        if user is None:
            raise ConfigError(f"{chosen.file}: context {name!r} names user {chosen.value.user!r}: no such entry")
        at_cluster = f"{cluster.file}: cluster {chosen.value.cluster!r}"
        at_user = f"{user.file}: user {chosen.value.user!r}"
        tls = _tls(cluster, user, at_cluster, at_user)
        return Connection(
            server=_server(cluster.value.server, tls, at_cluster),
            source=f"{chosen.file}: context {name!r}",
            namespace=chosen.value.namespace or "default",
            tls=tls,
            identity=_identity(user, cluster.value, at_user),
            impersonation=_impersonation(user.value, at_user),
            proxy=proxies.checked(cluster.value.proxy_url, at_cluster) if cluster.value.proxy_url else None,
            compression=not cluster.value.disable_compression,
            extensions={item.name: item.extension for item in chosen.value.extensions or () if item.name},
        )


def read_kubeconfig(
    files: Sequence[Path], *, explicit: bool, unknown_fields: list[UnknownField] | None = None
) -> Kubeconfig:
    """Return the merged files; `explicit` ones must exist. Unknown fields are recorded. Raises ConfigError."""
    merged = Kubeconfig(tuple(files))
    for file in files:
        read = _read(file, explicit, unknown_fields)
        if read is None:
            continue
        merged.current_context = merged.current_context or read.current_context
        for cluster in read.clusters or ():
            merged._clusters.setdefault(cluster.name, _NamedEntry(cluster.cluster or _Cluster(), file))
        for user in read.users or ():
            merged._users.setdefault(user.name, _NamedEntry(user.user or _User(), file))
        for context in read.contexts or ():
            merged._contexts.setdefault(context.name, _NamedEntry(context.context or _ContextFields(), file))
    return merged


def connect(
    path: str | Path | None = None,
    context: str | None = None,
    environment: Mapping[str, str] | None = None,
    *,
    unknown_fields: list[UnknownField] | None = None,
) -> Connection:
    """Return the connection of the kubeconfig `path`, of `KUBECONFIG`, of ~/.kube/config, or of this pod's account.

    The first that exists counts. A `path` may list several files as `KUBECONFIG` does, if no single file has that name.
    One of the files of `KUBECONFIG` must exist: if it is set, no other source is used. Unknown fields of the files are
    added to `unknown_fields`; kubectl ignores them silently. Raises ConfigError.
    """
    environment = os.environ if environment is None else environment
    if path is not None:
        if not str(path):
            raise ConfigError("the kubeconfig has no name: give the path of a file")
        files = [Path(path)] if Path(path).exists() else _split(str(path))
        return read_kubeconfig(files, explicit=True, unknown_fields=unknown_fields).connection(context)
    listed = _default_files(environment)
    named = _split(environment.get("KUBECONFIG", ""))
    if named and not any(map(_exists, named)):
        raise ConfigError(f"KUBECONFIG: {', '.join(map(str, named))}: No such file or directory")
    if any(map(_exists, listed)) or context is not None:
        return read_kubeconfig(listed, explicit=False, unknown_fields=unknown_fields).connection(context)
    if incluster.available(environment):
        return incluster.connection(environment)
    raise ConfigError("no API server: use --kubeconfig FILE, set KUBECONFIG, or run in a cluster")


def is_configured(environment: Mapping[str, str] | None = None) -> bool:
    """Return whether a server is configured for `connect` without a path; the configuration may be invalid."""
    environment = os.environ if environment is None else environment
    named = bool(_split(environment.get("KUBECONFIG", "")))
    return named or any(map(_exists, _default_files(environment))) or incluster.available(environment)


def _exists(file: Path) -> bool:
    """Return whether a file exists; an inaccessible one counts as existing."""
    try:
        return file.exists()
    except OSError:
        return True


def _default_files(environment: Mapping[str, str]) -> list[Path]:
    listed = _split(environment.get("KUBECONFIG", ""))
    home = environment.get("HOME", "")
    return listed or ([Path(home, ".kube", "config")] if home else [])


def _split(listed: str) -> list[Path]:
    return [Path(part) for part in dict.fromkeys(listed.split(os.pathsep)) if part]


def _read(file: Path, explicit: bool, unknown_fields: list[UnknownField] | None = None) -> _File | None:
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        if explicit:
            raise ConfigError(f"{file}: No such file or directory") from None
        return None
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror or error}") from None
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{file}: larger than {MAX_BYTES} bytes: not a kubeconfig")
    try:
        text = data.decode("utf-8-sig")
        documents = [document.data for document in read_documents(text)]
    except UnicodeDecodeError:
        raise ConfigError(f"{file}: not UTF-8 text") from None
    except YamlError as error:
        raise ConfigError(
            f"{file}: " + (f"line {error.line}: " if error.line is not None else "") + str(error)
        ) from None
    if not documents:
        return _File()
    if len(documents) > 1 or not isinstance(documents[0], Mapping):
        raise ConfigError(f"{file}: a kubeconfig is one document with clusters, users and contexts")
    present = {key: value for key, value in documents[0].items() if value is not None}
    try:
        read = msgspec.convert(_without_nulls(present), _File)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{file}: not a kubeconfig: {error}") from None
    if read.kind != "Config" or read.api_version != "v1":
        raise ConfigError(f"{file}: not a kubeconfig: kind {read.kind!r}, apiVersion {read.api_version!r}")
    if unknown_fields is not None:
        origin = Origin(str(file), 1, 1)
        problems = [UnknownField(origin, "", *item) for item in misnamed_in(_File, documents[0])]
        unknown_fields += located(problems, text)
    return read


def _without_nulls(data: Any) -> Any:
    """Return the data without null entries, which count as absent, as for kubectl."""
    if isinstance(data, Mapping):
        return {key: _without_nulls(value) for key, value in data.items() if value is not None}
    if isinstance(data, list):
        return [_without_nulls(value) for value in data]
    return data


def _server(server: str, tls: TlsSettings, where: str) -> str:
    if not server:
        raise ConfigError(f"{where}: server: Required value")
    if "://" not in server:
        secure = tls != TlsSettings()
        server = f"{'https' if secure else 'http'}://{server}"
    try:
        url = URL(server)
    except ValueError:
        raise ConfigError(f"{where}: server: not a URL") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise ConfigError(f"{where}: server: must be https://HOST[:PORT]")
    if url.user is not None or url.query_string or url.fragment:
        raise ConfigError(f"{where}: server: must not contain a user, a query or a fragment")
    return str(url).rstrip("/")


def _tls(cluster: _NamedEntry[_Cluster], user: _NamedEntry[_User], at_cluster: str, at_user: str) -> TlsSettings:
    ca_data = _decoded(cluster.value.certificate_authority_data, f"{at_cluster}: certificate-authority-data")
    ca_file = _beside(cluster.file, cluster.value.certificate_authority)
    insecure = cluster.value.insecure_skip_tls_verify
    if insecure and (ca_data or ca_file):
        raise ConfigError(f"{at_cluster}: insecure-skip-tls-verify and a certificate authority cannot both be set")
    settings = TlsSettings(
        ca_file=None if ca_data else ca_file,
        ca_data=ca_data,
        certificate_data=_decoded(user.value.client_certificate_data, f"{at_user}: client-certificate-data"),
        certificate_file=_beside(user.file, user.value.client_certificate),
        key_data=_decoded(user.value.client_key_data, f"{at_user}: client-key-data"),
        key_file=_beside(user.file, user.value.client_key),
        server_name=cluster.value.tls_server_name or None,
        insecure=insecure,
    )
    certificate = settings.certificate_data or settings.certificate_file
    key = settings.key_data or settings.key_file
    if bool(certificate) != bool(key):
        missing = "client-key" if certificate else "client-certificate"
        raise ConfigError(f"{at_user}: {missing}: Required value: a client certificate and its key go together")
    return settings


def _decoded(text: str, where: str) -> bytes | None:
    if not text:
        return None
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise ConfigError(f"{where}: not base64") from None


def _beside(file: Path, path: str) -> Path | None:
    return file.absolute().parent / path if path else None


def _identity(user: _NamedEntry[_User], cluster: _Cluster, where: str) -> Identity:
    value = user.value
    if value.auth_provider is not None:
        raise ConfigError(
            f"{where}: auth-provider {value.auth_provider.name!r} is not supported: use a credential plugin (exec)"
        )
    if value.token and value.username:
        raise ConfigError(f"{where}: token and username cannot both be set")
    for secret, text in (("token", value.token), ("password", value.password), ("username", value.username)):
        if any(character in text for character in "\r\n\0"):
            raise ConfigError(f"{where}: {secret}: must be one line")
    return Identity(
        token=value.token or None,
        token_file=_beside(user.file, value.token_file),
        username=value.username or None,
        password=value.password or None,
        plugin=None if value.exec is None else _plugin(value.exec, cluster, user.file, where),
    )


def _plugin(value: _Exec, cluster: _Cluster, file: Path, where: str) -> ExecPlugin:
    if not value.command:
        raise ConfigError(f"{where}: exec.command: Required value")
    if value.api_version not in EXEC_VERSIONS:
        raise ConfigError(f"{where}: exec.apiVersion: {value.api_version!r}: must be one of {', '.join(EXEC_VERSIONS)}")
    mode = value.interactive_mode or ("IfAvailable" if value.api_version == EXEC_VERSIONS[1] else "")
    if mode not in INTERACTIVE_MODES:
        raise ConfigError(f"{where}: exec.interactiveMode: {mode!r}: must be one of {', '.join(INTERACTIVE_MODES)}")
    # A command with a slash is relative to the file; a bare name is looked up in PATH (as in client-go).
    command = str(_beside(file, value.command)) if os.sep in value.command else value.command
    return ExecPlugin(
        api_version=value.api_version,
        command=command,
        arguments=tuple(value.args or ()),
        environment=tuple((variable.name, variable.value) for variable in value.env or ()),
        interactive_mode=mode,
        provide_cluster_info=value.provide_cluster_info,
        install_hint=value.install_hint,
        extension=next((e.extension for e in cluster.extensions or () if e.name == _EXEC_EXTENSION), None),
    )


def _impersonation(user: _User, where: str) -> Impersonation:
    if not user.as_user and (user.as_uid or user.as_groups or user.as_user_extra):
        raise ConfigError(f"{where}: as: Required value: groups, uid and extra need a user to impersonate")
    extra = tuple(sorted((key, tuple(values)) for key, values in (user.as_user_extra or {}).items()))
    return Impersonation(user.as_user, user.as_uid, tuple(user.as_groups or ()), extra)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names)) if names else "none"
