"""Rules of ConfigMaps and Secrets."""

from __future__ import annotations

import base64

import msgspec

from kube_rules import field_errors as fe
from kube_rules.json import Json
from kube_rules.validation import names
from kube_rules.validation import rows as r

_MAX_BYTES = 1024 * 1024
_FROZEN = "field is immutable when `immutable` is set"


def config_map(obj: Json, _: str) -> r.Found:
    """Keys are file names; the whole fits into a mebibyte."""
    data, binary = obj.get("data", {}), obj.get("binaryData", {})
    for key in data:
        yield from fe.malformed(f"data[{key}]", key, names.config_key)
        if key in binary:
            yield fe.invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
    for key in binary:
        yield from fe.malformed(f"binaryData[{key}]", key, names.config_key)
    if sum(len(value.encode()) for value in data.values()) + _decoded(binary) > _MAX_BYTES:
        yield fe.too_long("", _MAX_BYTES)


def _decoded(given: Json) -> int:
    """Bytes of what is written in base64."""
    return sum(len(value) * 3 // 4 for value in given.values())


def frozen(*parts: str) -> r.Change:
    """Yield what is immutable stays so, and as it is."""

    def change(new: Json, old: Json) -> r.Found:
        if old.get("immutable"):
            if not new.get("immutable"):
                yield fe.forbidden("immutable", _FROZEN)
            for part in parts:
                if new.get(part, {}) != old.get(part, {}):
                    yield fe.forbidden(part, _FROZEN)

    return change


def secret(obj: Json, _: str) -> r.Found:
    """Keys are file names; the whole fits into a mebibyte."""
    data = obj.get("data", {})
    for key in data:
        yield from fe.malformed(f"data[{key}]", key, names.config_key)
    if _decoded(data) > _MAX_BYTES:
        yield fe.too_long("data", _MAX_BYTES)
    for key in _KEYS_OF_TYPE.get(obj.get("type", ""), ()):
        if key not in data:
            yield fe.required(f"data[{key}]")
    for key in _JSON_OF_TYPE.get(obj.get("type", ""), ()):
        if key in data:
            yield from _json(data[key], f"data[{key}]")
    account = ((obj.get("metadata") or {}).get("annotations") or {}).get(_ACCOUNT_NAME)
    if obj.get("type") == "kubernetes.io/service-account-token" and not account:
        yield fe.required(f"metadata.annotations[{_ACCOUNT_NAME}]")
    if obj.get("type") == "kubernetes.io/basic-auth" and not {"username", "password"} & data.keys():
        yield from (fe.required(f"data[{key}]") for key in ("username", "password"))


def _json(encoded: str, path: str) -> r.Found:
    """A file of JSON, which is an object. What is in it is not told."""
    try:
        held = msgspec.json.decode(base64.b64decode(encoded))
    except ValueError as error:
        yield fe.invalid(path, _REDACTED, str(error))
        return
    if held is not None and not isinstance(held, dict):
        yield fe.invalid(path, _REDACTED, "must be a JSON object")


_ACCOUNT_NAME = "kubernetes.io/service-account.name"
_REDACTED = "<secret contents redacted>"
_JSON_OF_TYPE = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
}
"""What a secret of a type holds as JSON."""
_KEYS_OF_TYPE = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
"""What a secret of a type has to hold."""
