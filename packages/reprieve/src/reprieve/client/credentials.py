"""Credentials of the user, kept fresh: tokens, token files that rotate, plugins that print credentials.

Terms: a credential is the content of one request: an Authorization header, a client certificate, or neither. It is
refreshed shortly before it expires, and once more when the server responds with 401.

Rules: token files are read again (the kubelet replaces them). Plugins use client.authentication.k8s.io v1 and v1beta1;
they run once for many requests until `expirationTimestamp`, and again after a 401.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import sys
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from reprieve.client.clock import Clock
from reprieve.client.connection import Connection, ExecPlugin, TlsSettings
from reprieve.client.errors import CredentialError
from reprieve.client.tls import Pem

REREAD_SECONDS = 10.0
PLUGIN_SECONDS = 60.0
_LEEWAY = timedelta(seconds=5)
_MAX_TOKEN = 1024 * 1024
_MAX_OUTPUT = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Credential:
    """The credential of one request."""

    authorization: str | None = field(default=None, repr=False)
    certificate: Pem | None = field(default=None, repr=False)


class Credentials:
    """A constant credential; base of those that change."""

    def __init__(self, credential: Credential = Credential()) -> None:
        self._credential = credential

    async def current(self) -> Credential:
        """Return the current credential. Raises CredentialError."""
        return self._credential

    async def renewed(self, refused: Credential) -> bool:
        """Return whether there is another credential to try after a 401 for `refused`."""
        return False


class TokenFile(Credentials):
    """A token in a file that is read again; while it is unreadable the last one is used."""

    def __init__(self, file: Path, clock: Clock, fallback: str | None = None) -> None:
        super().__init__(_bearer(fallback) if fallback else Credential())
        self._file = file
        self._clock = clock
        self._read_at: float | None = None

    async def current(self) -> Credential:
        """Return the token of the file, at most ten seconds old."""
        now = self._clock.monotonic()
        if self._read_at is None or now - self._read_at >= REREAD_SECONDS:
            self._read()
            self._read_at = now
        return self._credential

    async def renewed(self, refused: Credential) -> bool:
        """Return whether the file has another token now."""
        self._read()
        return self._credential != refused

    def _read(self) -> None:
        try:
            with self._file.open("rb") as stream:
                token = stream.read(_MAX_TOKEN + 1).decode("ascii").strip()
        except OSError as error:
            if self._credential.authorization is None:
                raise CredentialError(f"{self._file}: {error.strerror or error}") from None
            return
        except UnicodeDecodeError:
            token = "\n"
        if not token or len(token) > _MAX_TOKEN or any(character.isspace() for character in token):
            if self._credential.authorization is None:
                raise CredentialError(f"{self._file}: holds no token")
            return
        self._credential = _bearer(token)


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _ExecCredential(msgspec.Struct, frozen=True, rename="camel"):
    kind: str = ""
    api_version: str = ""
    status: _Status | None = None


class ExecCredentials(Credentials):
    """A program that prints an ExecCredential; one task at a time runs it, and all share the result."""

    def __init__(self, plugin: ExecPlugin, connection: Connection, clock: Clock) -> None:
        super().__init__()
        self._plugin = plugin
        self._connection = connection
        self._clock = clock
        self._expires: datetime | None = None
        self._has_run = False
        self._lock = asyncio.Lock()

    async def current(self) -> Credential:
        """Return the plugin's credential; the plugin runs if there is none or it expires."""
        async with self._lock:
            expired = self._expires is not None and self._clock.now() >= self._expires - _LEEWAY
            if not self._has_run or expired:
                await self._ask()
            return self._credential

    async def renewed(self, refused: Credential) -> bool:
        """Run the plugin again, unless another call has meanwhile."""
        async with self._lock:
            if self._credential == refused:
                await self._ask()
            return self._credential != refused

    async def _ask(self) -> None:
        output = await self._run()
        where = f"the credential plugin {self._plugin.command}"
        try:
            printed = msgspec.json.decode(output, type=_ExecCredential)
        except (ValueError, RecursionError):
            raise CredentialError(f"{where} did not print an ExecCredential in JSON") from None
        if printed.kind != "ExecCredential" or printed.api_version != self._plugin.api_version:
            raise CredentialError(
                f"{where} printed {printed.kind!r} {printed.api_version!r}, expected an ExecCredential of "
                f"{self._plugin.api_version}"
            )
        status = printed.status
        if status is None or not (status.token or status.client_certificate_data):
            raise CredentialError(f"{where} printed neither a token nor a client certificate")
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise CredentialError(f"{where} printed a client certificate without its key, or a key alone")
        if any(character.isspace() for character in status.token):
            raise CredentialError(f"{where} printed a token with white space in it")
        certificate = None
        if status.client_certificate_data:
            certificate = (status.client_certificate_data.encode(), status.client_key_data.encode())
        self._credential = Credential(f"Bearer {status.token}" if status.token else None, certificate)
        self._expires = status.expiration_timestamp
        if self._expires is not None and self._expires.tzinfo is None:
            raise CredentialError(f"{where} printed an expirationTimestamp without a time zone")
        self._has_run = True

    async def _run(self) -> bytes:
        plugin = self._plugin
        where = f"the credential plugin {plugin.command}"
        interactive = plugin.interactive_mode != "Never" and sys.stdin is not None and sys.stdin.isatty()
        if plugin.interactive_mode == "Always" and not interactive:
            raise CredentialError(f"{where} needs a terminal (interactiveMode Always)")
        environment = {
            **os.environ,
            **dict(plugin.environment),
            "KUBERNETES_EXEC_INFO": msgspec.json.encode(self._info(interactive)).decode(),
        }
        try:
            process = await asyncio.create_subprocess_exec(
                plugin.command,
                *plugin.arguments,
                env=environment,
                stdin=None if interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                limit=_MAX_OUTPUT,
            )
        except FileNotFoundError:
            hint = f": {plugin.install_hint}" if plugin.install_hint else ""
            raise CredentialError(f"{where} is not installed{hint}") from None
        except (OSError, ValueError) as error:
            raise CredentialError(f"{where} cannot be run: {getattr(error, 'strerror', None) or error}") from None
        try:
            async with asyncio.timeout(None if interactive else PLUGIN_SECONDS):
                output = await _all(process.stdout, where)
                code = await process.wait()
        except TimeoutError:
            raise CredentialError(f"{where} did not answer within {PLUGIN_SECONDS:.0f} s") from None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if code != 0:
            raise CredentialError(f"{where} failed with exit code {code}")
        return output

    def _info(self, interactive: bool) -> dict[str, Any]:
        """Return the input of the plugin (KUBERNETES_EXEC_INFO)."""
        spec: dict[str, Any] = {"interactive": interactive}
        if self._plugin.provide_cluster_info:
            spec["cluster"] = _cluster_info(self._connection, self._plugin.extension)
        return {"kind": "ExecCredential", "apiVersion": self._plugin.api_version, "spec": spec}


def _cluster_info(connection: Connection, extension: object) -> dict[str, Any]:
    tls: TlsSettings = connection.tls
    ca = tls.ca_data
    if ca is None and tls.ca_file is not None:
        try:
            ca = tls.ca_file.read_bytes()
        except OSError as error:
            raise CredentialError(f"{tls.ca_file}: {error.strerror or error}") from None
    info = {
        "server": connection.server,
        "tls-server-name": tls.server_name,
        "insecure-skip-tls-verify": tls.insecure or None,
        "certificate-authority-data": base64.b64encode(ca).decode() if ca else None,
        "proxy-url": connection.proxy,
        "config": extension,
    }
    return {key: value for key, value in info.items() if value is not None}


async def _all(stream: asyncio.StreamReader | None, where: str) -> bytes:
    assert stream is not None
    blocks: list[bytes] = []
    size = 0
    while block := await stream.read(65536):
        size += len(block)
        if size > _MAX_OUTPUT:
            raise CredentialError(f"{where} printed more than {_MAX_OUTPUT} bytes")
        blocks.append(block)
    return b"".join(blocks)


def credentials_for(connection: Connection, clock: Clock) -> Credentials:
    """Return the credentials of a connection's user."""
    identity = connection.identity
    if identity.token_file is not None:
        return TokenFile(identity.token_file, clock, identity.token)
    if identity.token is not None:
        return Credentials(_bearer(identity.token))
    if identity.username is not None:
        pair = f"{identity.username}:{identity.password or ''}".encode()
        return Credentials(Credential(f"Basic {base64.b64encode(pair).decode()}"))
    if identity.plugin is not None:
        return ExecCredentials(identity.plugin, connection, clock)
    return Credentials()


def _bearer(token: str) -> Credential:
    return Credential(f"Bearer {token}")
