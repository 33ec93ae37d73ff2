"""TLS contexts from settings and credentials, recreated when a certificate file changes.

Invariant: keys that are given as text are on disk only while OpenSSL reads them, in a private directory.
"""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path

from reprieve.client.clock import Clock
from reprieve.client.connection import TlsSettings
from reprieve.client.errors import ConfigError

CHECK_FILES_SECONDS = 60.0

Pem = tuple[bytes, bytes]
"""A certificate (chain) and its key."""
_Stamp = tuple[tuple[int, int, int], ...]


class TlsContexts:
    """The context for the next connection. Raises ConfigError for unusable certificates."""

    def __init__(self, settings: TlsSettings, clock: Clock, where: str) -> None:
        self._settings = settings
        self._clock = clock
        self._where = where
        self._context: ssl.SSLContext | None = None
        self._context_key: tuple[_Stamp, Pem | None] | None = None
        self._checked_at: float | None = None
        self._stamp: _Stamp = ()

    def context(self, certificate: Pem | None = None) -> ssl.SSLContext:
        """Return the context; a client certificate of a plugin replaces that of the settings."""
        now = self._clock.monotonic()
        if self._checked_at is None or now - self._checked_at >= CHECK_FILES_SECONDS:
            self._checked_at = now
            self._stamp = self._stamps()
        wanted = (self._stamp, certificate)
        if self._context is None or self._context_key != wanted:
            self._context = self._make(certificate)
            self._context_key = wanted
        return self._context

    def _stamps(self) -> _Stamp:
        result = []
        for file in (self._settings.ca_file, self._settings.certificate_file, self._settings.key_file):
            if file is None:
                continue
            try:
                status = file.stat()
                result.append((status.st_mtime_ns, status.st_size, status.st_ino))
            except OSError:
                result.append((0, 0, 0))
        return tuple(result)

    def _make(self, certificate: Pem | None) -> ssl.SSLContext:
        settings = self._settings
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if settings.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        else:
            self._trust(context)
        if certificate is not None:
            self._present(context, *certificate)
        elif settings.certificate_data or settings.certificate_file:
            self._present(
                context,
                settings.certificate_data or self._read(settings.certificate_file),
                settings.key_data or self._read(settings.key_file),
            )
        return context

    def _trust(self, context: ssl.SSLContext) -> None:
        settings = self._settings
        data = settings.ca_data or (self._read(settings.ca_file) if settings.ca_file else None)
        if data is None:
            context.load_default_certs()
            return
        try:
            context.load_verify_locations(cadata=data.decode())
        except (ssl.SSLError, UnicodeDecodeError, ValueError):
            raise ConfigError(f"{self._where}: the certificate authority is not a PEM certificate") from None

    def _present(self, context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
        with tempfile.TemporaryDirectory(prefix="reprieve-tls-") as directory:
            files = (Path(directory, "certificate"), Path(directory, "key"))
            for file, text in zip(files, (certificate, key), strict=True):
                file.touch(mode=0o600)
                file.write_bytes(text)
            try:
                context.load_cert_chain(*files, password=_no_password)
            except (ssl.SSLError, ValueError):
                raise ConfigError(
                    f"{self._where}: the client certificate and its key are not PEM or do not belong together"
                ) from None

    def _read(self, file: Path | None) -> bytes:
        assert file is not None
        try:
            return file.read_bytes()
        except OSError as error:
            raise ConfigError(f"{file}: {error.strerror or error}") from None


def _no_password() -> str:
    """Refuse encrypted keys instead of prompting on the terminal."""
    raise ValueError("the key is encrypted")
