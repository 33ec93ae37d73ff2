"""Refusals of the API server: one exception that becomes a Kubernetes ``Status`` object.

A :class:`StatusError` has the content of the client's response: HTTP code, reason, message, details with causes. Texts
and codes follow the responses of a kube-apiserver 1.36. The constructors below create the usual cases; their
``resource`` is the plural with its group (``podgroups.scheduling.k8s.io``) for errors of storage and admission, and the
kind with its group (``PodGroup.scheduling.k8s.io``) for validation, as upstream does.

Unlike upstream's, a ``Status`` stays small for any names and values in the request: long texts become excerpts, and
only the first of many causes are listed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kube_rules.admission.refusals import forbidden_message
from kube_rules.errors import FieldError, excerpt
from kube_rules.json import Json

LONGEST_MESSAGE: Final = 4096
LONGEST_CAUSE: Final = 1024
MOST_CAUSES: Final = 64


@dataclass(frozen=True)
class Cause:
    """One entry of ``status.details.causes``: a reason such as ``FieldValueInvalid``, a message, a field path."""

    reason: str
    message: str
    field: str | None = None

    def to_json(self) -> Json:
        """Return the cause as part of a ``Status`` object."""
        out: Json = {"reason": self.reason} if self.reason else {}
        if self.message:
            out["message"] = excerpt(self.message, LONGEST_CAUSE)
        if self.field is not None:
            out["field"] = excerpt(self.field, LONGEST_CAUSE)
        return out


@dataclass(eq=False)
class StatusError(Exception):
    """A refusal with the content of the response; ``to_json`` returns the ``Status`` object.

    ``reason`` may be None (upstream has 500s without one). ``details`` are merged with ``causes``; pass ``{}`` to send
    empty details and None to leave them out. ``headers`` and ``warnings`` are added to the HTTP response.
    """

    code: int
    reason: str | None
    message: str
    details: Mapping[str, Any] | None = None
    causes: tuple[Cause, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    warnings: Sequence[str] = ()

    def __post_init__(self) -> None:
        self.message = excerpt(self.message, LONGEST_MESSAGE)
        Exception.__init__(self, self.message)

    def to_json(self) -> Json:
        """Return the ``Status`` object."""
        out: Json = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": dict(self.metadata),
            "status": "Failure",
            "message": self.message,
        }
        if self.reason is not None:
            out["reason"] = self.reason
        if self.details is not None or self.causes:
            details: Json = {
                key: excerpt(value, LONGEST_CAUSE) if isinstance(value, str) else value
                for key, value in (self.details or {}).items()
            }
            if self.causes:
                # Key order as upstream: causes come before retryAfterSeconds.
                retry = details.pop("retryAfterSeconds", None)
                details["causes"] = [cause.to_json() for cause in self.causes[:MOST_CAUSES]]
                if retry is not None:
                    details["retryAfterSeconds"] = retry
            out["details"] = details
        out["code"] = self.code
        return out


def qualified(resource: str, group: str) -> str:
    """Return a resource with its group: ``podgroups.scheduling.k8s.io``; the core group adds nothing."""
    return f"{resource}.{group}" if group else resource


def object_details(name: str, group: str, kind: str) -> Json:
    """Return details that identify an object: empty parts are left out, in upstream's order."""
    out: Json = {}
    if name:
        out["name"] = name
    if group:
        out["group"] = group
    if kind:
        out["kind"] = kind
    return out


def not_found(plural: str, group: str, name: str) -> StatusError:
    """Return a 404 for a missing object."""
    return StatusError(
        404, "NotFound", f'{qualified(plural, group)} "{name}" not found', object_details(name, group, plural)
    )


def unknown_resource() -> StatusError:
    """Return a 404 for a version, resource or subresource that is not served."""
    return StatusError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(plural: str, group: str, name: str) -> StatusError:
    """Return a 409 for a create of an existing object."""
    return StatusError(
        409,
        "AlreadyExists",
        f'{qualified(plural, group)} "{name}" already exists',
        object_details(name, group, plural),
    )


def conflict(resource: str, group: str, name: str, why: str) -> StatusError:
    """Return a 409 Conflict with upstream's frame around ``why``."""
    message = f'Operation cannot be fulfilled on {qualified(resource, group)} "{name}": {why}'
    return StatusError(409, "Conflict", message, object_details(name, group, resource))


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def internal_error(text: str) -> StatusError:
    """Return a 500 InternalError with upstream's frame around the text."""
    return StatusError(500, "InternalError", f"Internal error occurred: {text}", {}, (Cause("", text),))


def forbidden(plural: str, group: str, name: str, why: str, causes: Iterable[Cause] = ()) -> StatusError:
    """Return a 403 Forbidden of admission or authorization with upstream's frame around ``why``."""
    message = forbidden_message(qualified(plural, group), name, why)
    return StatusError(403, "Forbidden", message, object_details(name, group, plural), tuple(causes))


def invalid(kind: str, group: str, name: str, causes: Sequence[Cause]) -> StatusError:
    """Return a 422 Invalid: the message joins the causes (in brackets if several), details list each."""
    texts = [
        excerpt(f"{cause.field}: {cause.message}" if cause.field else cause.message, LONGEST_CAUSE)
        for cause in causes[:MOST_CAUSES]
    ]
    unique = list(dict.fromkeys(texts))
    joined = unique[0] if len(unique) == 1 else "[" + ", ".join(unique) + "]"
    message = f'{qualified(kind, group)} "{name}" is invalid: {joined}'
    return StatusError(422, "Invalid", message, object_details(name, group, kind), tuple(causes))


def unfit(kind: str, group: str, name: str, *findings: FieldError) -> StatusError:
    """Return a 422 Invalid for validation errors."""
    return invalid(kind, group, name, [Cause(finding.reason, finding.message, finding.path) for finding in findings])


def quoted(texts: Iterable[str]) -> str:
    """Return texts in Go's format of a list."""
    return "[" + " ".join(json.dumps(text, ensure_ascii=False) for text in texts) + "]"


def bad_request(message: str) -> StatusError:
    """Return a 400 BadRequest."""
    return StatusError(400, "BadRequest", message)


def method_not_allowed() -> StatusError:
    """Return a 405 in the API server's words."""
    return StatusError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def internal(message: str) -> StatusError:
    """Return a 500 without a reason: upstream's response to errors without a Status."""
    return StatusError(500, None, message)


def expired(message: str, continue_token: str | None = None) -> StatusError:
    """Return a 410 Expired; ``continue_token`` lets a list continue inconsistently."""
    metadata = {"continue": continue_token} if continue_token else {}
    return StatusError(410, "Expired", message, metadata=metadata)


CREATED: Final[Json] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
"""The response to the creation of a binding or an eviction."""


def success(name: str, group: str, plural: str, uid: str) -> Json:
    """Return the ``Status`` for a DELETE that does not return the object itself."""
    details = object_details(name, group, plural)
    if uid:
        details["uid"] = uid
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
