"""Conversion of custom resources by the webhook of their definition (``spec.conversion.strategy: Webhook``).

Rules and messages: k8s.io/apiextensions-apiserver (conversion/webhook_converter). One ConversionReview converts many
objects; the response must have the same objects, and of their metadata only labels and annotations may differ.

A write is decided in one turn of the event loop and cannot wait (`kube_standin.worker_thread`).  A conversion that it
needs interrupts it and is requested; the write then starts again with the result.  Internal work that cannot wait keeps
the stored version of an object.
"""

from __future__ import annotations

import hashlib
import uuid
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from kube_rules.errors import excerpt
from kube_rules.json import Json
from kube_rules.validation import metadata as metadata_rules
from kube_standin import errors
from kube_standin.errors import StatusError
from kube_standin.webhooks.calls import WebhookCaller
from kube_standin.webhooks.reach import WebhookCallError
from kube_standin.worker_thread import NotYetDoneError, can_wait

CALL_SECONDS = 30.0
"""The timeout of one call in seconds."""
_BATCH_BYTES = 4 * 1024 * 1024
"""The largest size in bytes of the objects in one call."""
_KEPT_BYTES = 16 * 1024 * 1024
"""The size in bytes of converted objects that are kept for writes."""
_KNOWN_REVIEWS = ("v1", "v1beta1")

_encode = msgspec.json.encode
_decode = msgspec.json.decode


class ConversionWebhook:
    """The conversion webhook of one definition."""

    def __init__(self, name: str, conversion: Mapping[str, Any], caller: WebhookCaller) -> None:
        self._name = name
        self._caller = caller
        webhook = conversion.get("webhook") or {}
        self._client_config: Json = dict(webhook.get("clientConfig") or {})
        versions = webhook.get("conversionReviewVersions") or ()
        self._review = next((version for version in versions if version in _KNOWN_REVIEWS), "")
        self._cache: OrderedDict[bytes, bytes | StatusError] = OrderedDict()
        self._size = 0

    def converted_now(self, obj: Json, api_version: str) -> Json | None:
        """Return an object that was converted before. Raises StatusError for a failed conversion.

        Raises NotYetDoneError in a write that can wait; elsewhere None means that the object has not been converted.
        """
        key = hashlib.sha256(_encode([api_version, obj])).digest()
        cached = self._cache.get(key)
        if cached is None:
            if not can_wait():
                return None
            raise NotYetDoneError(partial(self._convert_for_write, key, obj, api_version))
        if isinstance(cached, StatusError):
            del self._cache[key]  # the next write calls the webhook again
            raise cached
        self._cache.move_to_end(key)
        converted: Json = _decode(cached)
        return converted

    async def _convert_for_write(self, key: bytes, obj: Json, api_version: str) -> None:
        try:
            [converted] = await self.convert([obj], api_version)
            result: bytes | StatusError = _encode(converted)
        except StatusError as error:
            result = error
        self._cache[key] = result
        self._size += len(result) if isinstance(result, bytes) else 0
        while self._size > _KEPT_BYTES and len(self._cache) > 1:
            _, oldest = self._cache.popitem(last=False)
            self._size -= len(oldest) if isinstance(oldest, bytes) else 0

    async def convert(self, objects: Sequence[Json], api_version: str) -> list[Json]:
        """Return objects of one kind in another version. Raises StatusError (500)."""
        converted: list[Json] = []
        batch: list[Json] = []
        size = 0
        for obj in objects:
            length = len(_encode(obj))
            if batch and size + length > _BATCH_BYTES:
                converted += await self._call(batch, api_version)
                batch, size = [], 0
            batch.append(obj)
            size += length
        return converted + (await self._call(batch, api_version) if batch else [])

    async def _call(self, objects: Sequence[Json], api_version: str) -> list[Json]:
        subject = f"conversion webhook for {objects[0]['apiVersion']}, Kind={objects[0]['kind']}"
        if not self._review:
            raise errors.internal("no supported conversion review versions")
        uid = str(uuid.uuid4())
        version = f"apiextensions.k8s.io/{self._review}"
        request = {"uid": uid, "desiredAPIVersion": api_version, "objects": objects}
        body = _encode({"kind": "ConversionReview", "apiVersion": version, "request": request})
        try:
            review = await self._caller.call(
                f"conversion_webhook_for_{self._name}", self._client_config, body, CALL_SECONDS
            )
            returned = self._objects(review, version, uid)
        except (WebhookCallError, _BadResponseError) as error:
            raise errors.internal(f"{subject} failed: {error}") from error
        if len(returned) != len(objects):
            raise errors.internal(f"{subject} returned {len(returned)} objects, expected {len(objects)}")
        converted: list[Json] = []
        for index, (before, after) in enumerate(zip(objects, returned, strict=True)):
            try:
                converted.append(_accepted(before, after, api_version))
            except _BadResponseError as error:
                text = f"{subject} returned invalid converted object at index {index}: {error}"
                raise errors.internal(text) from error
        return converted

    def _objects(self, review: Json, version: str, uid: str) -> list[Any]:
        """Return the converted objects of a response; raises _BadResponseError."""
        strict = self._review == "v1"
        if strict and (review.get("apiVersion"), review.get("kind")) != (version, "ConversionReview"):
            shown = f"{excerpt(str(review.get('apiVersion', '')))}, Kind={excerpt(str(review.get('kind', '')))}"
            raise _BadResponseError(f"expected webhook response of {version}, Kind=ConversionReview, got {shown}")
        response = review.get("response")
        if not isinstance(response, dict):
            raise _BadResponseError("no response provided")
        if strict and response.get("uid") != uid:
            raise _BadResponseError(f'expected response.uid="{uid}", got "{excerpt(str(response.get("uid", "")))}"')
        result = response.get("result")
        result = result if isinstance(result, dict) else {}
        if result.get("status") != "Success":
            status = excerpt(str(result.get("status", "")))
            message = excerpt(str(result.get("message") or ""), 4096)
            raise _BadResponseError(message or f"response.result.status was '{status}', not 'Success'")
        converted = response.get("convertedObjects")
        return converted if isinstance(converted, list) else []


class _BadResponseError(Exception):
    """Raised for an invalid response; the text is the reason."""


def _accepted(before: Json, after: Any, api_version: str) -> Json:
    """Return a converted object with its permitted metadata; raises _BadResponseError."""
    if not isinstance(after, dict):
        raise _BadResponseError("the object is no JSON object")
    version = excerpt(str(after.get("apiVersion", "")))
    if version != api_version:
        raise _BadResponseError(f"invalid groupVersion (expected {api_version}, received {version})")
    if after.get("kind") != before["kind"]:
        kind = excerpt(str(after.get("kind", "")))
        raise _BadResponseError(f"invalid kind (expected {before['kind']}, received {kind})")
    if "metadata" not in after:
        raise _BadResponseError("missing metadata in converted object")
    new_metadata = after["metadata"]
    if not isinstance(new_metadata, dict):
        raise _BadResponseError("invalid metadata in converted object: it is no JSON object")
    own = before.get("metadata", {})
    for name, word in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        if (new_metadata.get(name) or "") != own.get(name, ""):
            shown = excerpt(str(new_metadata.get(name) or ""))
            raise _BadResponseError(f"must have the same {word}: {own.get(name, '')} != {shown}")
    metadata = {key: value for key, value in own.items() if key not in ("labels", "annotations")}
    for name in ("labels", "annotations"):
        if new_metadata.get(name) is not None:
            metadata[name] = _texts(new_metadata[name], own.get(name) or {}, name)
    return {**after, "metadata": metadata}


def _texts(texts: Any, own: Json, name: str) -> Json:
    """Return the labels or annotations of a converted object; raises _BadResponseError."""
    if not isinstance(texts, dict):
        raise _BadResponseError(f"invalid metadata.{name} in converted object: it is no JSON object")
    for key, value in texts.items():
        if not isinstance(value, str):
            raise _BadResponseError(f"metadata.{name}[{excerpt(key)}] must be a string in converted object")
    if texts != own:
        check = metadata_rules.label_map if name == "labels" else metadata_rules.annotation_map
        for problem in check(texts, f"metadata.{name.replace('annotations', 'annotation')}"):
            raise _BadResponseError(f"{problem.path}: {problem.message}")
    return texts
