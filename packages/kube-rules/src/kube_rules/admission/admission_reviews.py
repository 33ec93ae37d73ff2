"""AdmissionReview: a webhook's request, and the meaning of its response (k8s.io/apiserver, webhook/request)."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from kube_rules.admission.request_match import AdmittedRequest, ApiResource
from kube_rules.errors import excerpt
from kube_rules.json import Json

_GROUP = "admission.k8s.io"
_VERSIONS = ("v1", "v1beta1")
_DETAILS = ("name", "group", "kind", "uid", "retryAfterSeconds")
_LONGEST_WARNING = 4096
_MOST_WARNINGS = 64


class ReviewError(ValueError):
    """An invalid response; `str()` is the reason in upstream's words."""


@dataclass(frozen=True)
class ReviewResponse:
    """A webhook's response. ``patch`` is the text of a JSON patch; ``status`` is the Status of a denied request."""

    allowed: bool
    patch: bytes
    status: Json
    warnings: Sequence[str]


def review_version(versions: Sequence[str]) -> str | None:
    """Return the first supported version of AdmissionReview."""
    return next((version for version in versions if version in _VERSIONS), None)


def review_request(
    sent: AdmittedRequest,
    matched: ApiResource,
    user: Json,
    options: Json,
    objects: Sequence[Json | None],
    dry_run: bool,
) -> bytes:
    """Return the request of a review as JSON, without its uid. `objects` are the new and the old object, as matched."""
    request: Json = {
        "kind": _kind(matched),
        "resource": _resource(matched),
        **({"subResource": matched.subresource} if matched.subresource else {}),
        "requestKind": _kind(sent.resource),
        "requestResource": _resource(sent.resource),
        **({"requestSubResource": sent.resource.subresource} if sent.resource.subresource else {}),
        **({"name": sent.name} if sent.name else {}),
        **({"namespace": sent.namespace} if sent.namespace else {}),
        "operation": sent.operation,
        "userInfo": user,
        "object": objects[0],
        "oldObject": objects[1],
        "dryRun": dry_run,
        "options": options or None,
    }
    return encoded(request)


def encoded(value: Any) -> bytes:
    """Return a value as JSON; numbers may have any size."""
    try:
        return msgspec.json.encode(value)
    except (OverflowError, ValueError):
        return json.dumps(value).encode()


def review(version: str, uid: str, request: bytes) -> bytes:
    """Return the whole review for a request that `review_request` made."""
    head = {"kind": "AdmissionReview", "apiVersion": f"{_GROUP}/{version}"}
    return msgspec.json.encode(head)[:-1] + b',"request":{"uid":' + msgspec.json.encode(uid) + b"," + request[1:] + b"}"


def user_info(name: str, uid: str, groups: Sequence[str], extra: Mapping[str, Sequence[str]]) -> Json:
    """Return a user in the form of reviews."""
    info: Json = {"username": name}
    if uid:
        info["uid"] = uid
    if groups:
        info["groups"] = list(groups)
    if extra:
        info["extra"] = {key: list(values) for key, values in extra.items()}
    return info


def _kind(resource: ApiResource) -> Json:
    return {"group": resource.kind_group, "version": resource.kind_version, "kind": resource.kind}


def _resource(resource: ApiResource) -> Json:
    return {"group": resource.group, "version": resource.version, "resource": resource.plural}


def read_response(answer: Json, version: str, uid: str, *, mutating: bool) -> ReviewResponse:
    """Return the response of a webhook to the review with this uid. Raises ReviewError."""
    response = answer.get("response")
    if not isinstance(response, dict):
        raise ReviewError("webhook response was absent")
    patch_type = response.get("patchType")
    patch = _patch(response.get("patch"))
    if version == "v1":
        _check_identity(answer, response, uid)
        _check_patch(patch, patch_type, mutating)
    if patch and patch_type not in (None, "JSONPatch"):
        raise ReviewError(f'unsupported patch type "{excerpt(str(patch_type))}"')
    status = response.get("status")
    warnings = response.get("warnings")
    texts = [text for text in warnings if isinstance(text, str)] if isinstance(warnings, list) else []
    return ReviewResponse(
        response.get("allowed") is True,
        patch if mutating else b"",
        status if isinstance(status, dict) else {},
        [excerpt(text, _LONGEST_WARNING) for text in texts[:_MOST_WARNINGS]],
    )


def _check_identity(answer: Json, response: Json, uid: str) -> None:
    if response.get("uid") != uid:
        raise ReviewError(f'expected response.uid="{uid}", got "{excerpt(str(response.get("uid") or ""))}"')
    type_meta = f"{answer.get('apiVersion', '')}, Kind={answer.get('kind', '')}"
    if type_meta != f"{_GROUP}/v1, Kind=AdmissionReview":
        raise ReviewError(f"expected webhook response of {_GROUP}/v1, Kind=AdmissionReview, got {excerpt(type_meta)}")


def _check_patch(patch: bytes, patch_type: Any, mutating: bool) -> None:
    if not mutating:
        if patch:
            raise ReviewError("validating webhook may not return response.patch")
        if patch_type is not None:
            raise ReviewError("validating webhook may not return response.patchType")
    elif patch and patch_type is None:
        raise ReviewError("webhook returned response.patch but not response.patchType")
    elif patch_type is not None and not patch:
        raise ReviewError("webhook returned response.patchType but not response.patch")


def _patch(value: Any) -> bytes:
    if not value:
        return b""
    try:
        return base64.b64decode(value, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise ReviewError("response.patch is not base64") from None


def denial(webhook: str, status: Json) -> Json:
    """Return the Status of a request that a webhook denied: code, reason, message and details (ToStatusErr)."""
    code, reason, message = status.get("code"), status.get("reason"), status.get("message")
    denied = f'admission webhook "{webhook}" denied the request'
    if isinstance(message, str) and message:
        text = f"{denied}: {message}"
    elif isinstance(reason, str) and reason:
        text = f"{denied}: {reason}"
    else:
        text = f"{denied} without explanation"
    details = status.get("details")
    shown = {key: details[key] for key in _DETAILS if key in details} if isinstance(details, dict) else None
    plain = shown is not None and all(isinstance(value, str | int) for value in shown.values())
    return {
        "code": code if isinstance(code, int) and 400 <= code < 600 else 400,
        "reason": reason if isinstance(reason, str) else "",
        "message": text,
        "details": shown if plain else None,
    }
