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
    """Check a ConfigMap: keys are file names; its maximum size is one mebibyte."""
    data, binary = obj.get("data", {}), obj.get("binaryData", {})
    for key in data:
        yield from fe.malformed(f"data[{key}]", key, names.config_key)
        if key in binary:
            yield fe.invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
    for key in binary:
        yield from fe.malformed(f"binaryData[{key}]", key, names.config_key)
    if sum(len(value.encode()) for value in data.values()) + _decoded(binary) > _MAX_BYTES:
        yield fe.too_long("", _MAX_BYTES)


def _decoded(data: Json) -> int:
    """Return the decoded size of base64 values in bytes."""
    return sum(len(value) * 3 // 4 for value in data.values())


def frozen(*parts: str) -> r.Change:
    """Return the rule that immutable parts, and `immutable` itself, do not change."""

    def change(new: Json, old: Json) -> r.Found:
        if old.get("immutable"):
            if not new.get("immutable"):
                yield fe.forbidden("immutable", _FROZEN)
            for part in parts:
                if new.get(part, {}) != old.get(part, {}):
                    yield fe.forbidden(part, _FROZEN)

    return change


def secret(obj: Json, _: str) -> r.Found:
    """Check a Secret: keys are file names; its maximum size is one mebibyte."""
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
    """Check that a file contains a JSON object; errors do not show its content."""
    try:
        value = msgspec.json.decode(base64.b64decode(encoded))
    except ValueError as error:
        yield fe.invalid(path, _REDACTED, str(error))
        return
    if value is not None and not isinstance(value, dict):
        yield fe.invalid(path, _REDACTED, "must be a JSON object")


_ACCOUNT_NAME = "kubernetes.io/service-account.name"
_REDACTED = "<secret contents redacted>"
_JSON_OF_TYPE = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
}
"""Keys with JSON content, by type of secret."""
_KEYS_OF_TYPE = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
"""Required keys, by type of secret."""
