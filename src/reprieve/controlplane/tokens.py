"""POST .../serviceaccounts/NAME/token: a signed token for a service account."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from reprieve.controlplane import errors
from reprieve.controlplane.clock import stamp
from reprieve.controlplane.kinds import Kind
from reprieve.controlplane.registry import Registry
from reprieve.controlplane.security import Tokens

Json = dict[str, Any]

_DEFAULT_SECONDS = 3600
_SHORTEST = 600
_LONGEST = 2**32
AUDIENCE = "https://kubernetes.default.svc"


def issue_now(registry: Registry, tokens: Tokens, kind: Kind, namespace: str, name: str, request: Json) -> Json:
    """Answer a TokenRequest; raises 404 for an unknown account, 422 for a lifetime out of bounds."""
    state = registry.head(kind, namespace, name)
    if state is None:
        raise errors.not_found(kind.plural, kind.group, name)
    spec = request.get("spec") or {}
    seconds = spec.get("expirationSeconds") or _DEFAULT_SECONDS
    if not isinstance(seconds, int) or not _SHORTEST <= seconds <= _LONGEST:
        text = f"Invalid value: {seconds}: may not specify a duration less than 10 minutes"
        cause = errors.Cause("FieldValueInvalid", text, "spec.expirationSeconds")
        raise errors.invalid("TokenRequest", "authentication.k8s.io", "", [cause])
    audiences = list(spec.get("audiences") or [AUDIENCE])
    uid = state.decode()["metadata"]["uid"]
    token, ends = tokens.issue(namespace, name, uid, seconds, audiences)
    return {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": registry.clock.stamp()},
        "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": None},
        "status": {"token": token, "expirationTimestamp": stamp(datetime.fromtimestamp(ends, UTC))},
    }
