"""Errors of requests to an API server.

Terms: a refusal is a response of the server (`ApiError`, from its Kubernetes `Status`); unreachable means that there
was no complete response.

Invariant: `str()` of every error is one line without secrets that states where and what.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kube_rules.selectors import parse_integer

_LONGEST = 500
_LONGEST_WAIT = 3600.0
"""Seconds: a longer requested wait is cut to an hour, so that no response stops a client for good."""


class ClientError(Exception):
    """The base of the errors of this package."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class ConfigError(ClientError):
    """Raised for an unusable kubeconfig or service account; names the file and the entry."""


class CredentialError(ClientError):
    """Raised if credentials are unavailable: a missing token file, a failed plugin."""


class UnreachableError(ClientError):
    """Raised without a complete response: refused, cut, untrusted, or not in time.

    `sent` False means that the request was not sent, so that any request can be repeated safely; `lasting` True that
    repeating it will not help (an untrusted certificate).
    """

    def __init__(self, message: str, *, sent: bool = True, lasting: bool = False) -> None:
        super().__init__(message)
        self.sent = sent
        self.lasting = lasting


class ApiError(ClientError):
    """Raised for a refusal (meta/v1 Status).

    `code` is the HTTP status, `reason` the Status reason (`NotFound`, `Expired`, ...; empty if the server sent none),
    `retry_after` the requested seconds until the next attempt (None: not stated).
    """

    def __init__(self, code: int, reason: str, message: str, *, retry_after: float | None = None) -> None:
        self.code = code
        self.reason = reason
        self.message = one_line(message)
        self.retry_after = retry_after
        super().__init__(f"{self.message} ({code}{' ' + reason if reason else ''})")

    @property
    def expired(self) -> bool:
        """Return whether the server no longer has the requested history: list again."""
        return self.code == 410 or self.reason in ("Expired", "Gone")

    @property
    def unserved(self) -> bool:
        """Return whether the path is not served, in contrast to a missing object."""
        unknown = not self.reason or "could not find the requested resource" in self.message
        return self.code == 404 and unknown

    @property
    def ahead(self) -> bool:
        """Return whether the requested revision does not exist yet, as after restoring an older backup: list again."""
        return self.code == 504 and "Too large resource version" in self.message


class _Details(msgspec.Struct, frozen=True, rename="camel"):
    retry_after_seconds: int | float | None = None


class _ErrorStatus(msgspec.Struct, frozen=True, rename="camel"):
    kind: str = ""
    code: int = 0
    reason: str | None = None
    message: str | None = None
    details: _Details | None = None


_DECODER = msgspec.json.Decoder(_ErrorStatus)


def api_error(code: int, body: bytes, headers: Mapping[str, str], where: str) -> ApiError:
    """Return the error of a response; a body that is not a Status (a proxy's page) is quoted, shortened."""
    status = _status(body)
    retry_after = _seconds(headers.get("Retry-After"))
    if retry_after is None and status is not None and status.details is not None:
        retry_after = status.details.retry_after_seconds
    if retry_after is not None:
        retry_after = min(retry_after, _LONGEST_WAIT) if retry_after >= 0 else None
    if status is None:
        text = body[:400].decode(errors="replace").strip()
        if text.startswith("<"):
            text = "the answer is a page of HTML: is this an API server?"
        return ApiError(code, "", f"{where}: {text or 'empty answer'}", retry_after=retry_after)
    return ApiError(
        code or status.code, status.reason or "", f"{where}: {status.message or 'refused'}", retry_after=retry_after
    )


def status_event(body: bytes | msgspec.Raw, where: str) -> ApiError:
    """Return the error in an ERROR event of a watch."""
    return api_error(0, bytes(body), {}, where)


def one_line(message: str) -> str:
    """Return the text in one line of limited length."""
    line = " ".join(message.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 3] + "..."


def _status(body: bytes) -> _ErrorStatus | None:
    try:
        status = _DECODER.decode(body)
    except (ValueError, RecursionError):
        return None
    return status if status.kind == "Status" else None


def _seconds(text: str | None) -> float | None:
    """Return Retry-After in seconds; dates (RFC 9110 allows them, API servers do not send them) count as absent."""
    seconds = parse_integer(text.strip()) if text is not None else None
    return float(seconds) if seconds is not None and seconds >= 0 else None
