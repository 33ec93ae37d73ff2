"""The address of an API server and the user: the content of kubeconfigs and service accounts.

Invariant: secrets are excluded from `repr`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """How the connection is secured. PEM texts take precedence over files of the same role."""

    ca_file: Path | None = None
    ca_data: bytes | None = field(default=None, repr=False)
    certificate_file: Path | None = None
    certificate_data: bytes | None = field(default=None, repr=False)
    key_file: Path | None = None
    key_data: bytes | None = field(default=None, repr=False)
    server_name: str | None = None
    """The name in the server's certificate, if it is not the host's (`tls-server-name`)."""
    insecure: bool = False
    """Trust any certificate; only if the kubeconfig requires it."""


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A program that prints credentials (`users[].user.exec`, client.authentication.k8s.io)."""

    api_version: str
    command: str
    arguments: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    interactive_mode: str = "IfAvailable"
    provide_cluster_info: bool = False
    install_hint: str = ""
    extension: object = field(default=None, repr=False)
    """`extensions[client.authentication.k8s.io/exec]` of the cluster, passed to the plugin."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The user. A token file takes precedence over a token, as its content is newer; a token over a plugin."""

    token: str | None = field(default=None, repr=False)
    token_file: Path | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    plugin: ExecPlugin | None = None


@dataclass(frozen=True, slots=True)
class Impersonation:
    """The user to act as (`as`, `as-uid`, `as-groups`, `as-user-extra`)."""

    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Connection:
    """One API server and one user. `source` states where they were read, for messages."""

    server: str
    """The base URL without a trailing slash: `https://host:port/prefix`."""
    source: str
    namespace: str = "default"
    tls: TlsSettings = TlsSettings()
    identity: Identity = Identity()
    impersonation: Impersonation = Impersonation()
    proxy: str | None = field(default=None, repr=False)  # may hold a password
    """`proxy-url` of the kubeconfig; None: from the environment (`proxies`)."""
    compression: bool = True
    extensions: Mapping[str, object] = field(default_factory=dict, repr=False)
    """Extensions of the context by name: data of other programs for programs like this one."""
