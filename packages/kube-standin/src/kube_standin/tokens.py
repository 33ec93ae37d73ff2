"""POST .../serviceaccounts/NAME/token: a signed token for a service account, optionally bound to an object."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

from kube_rules import field_errors as fe
from kube_rules.errors import FieldError
from kube_rules.json import Json
from kube_standin import errors
from kube_standin.clock import stamp
from kube_standin.kinds import ServedKind
from kube_standin.registry import ObjectRegistry
from kube_standin.security import AUDIENCE, BoundObject, Tokens
from kube_standin.storage import Store

_DEFAULT_SECONDS = 3600
_SHORTEST = 600
_LONGEST = 2**32
_MOST_AUDIENCES = 64


def present(store: Store, bound: BoundObject) -> bool:
    """Return whether the object that a token is bound to exists.

    A terminating account does not count; a pod counts until it is removed.
    """
    state = store.get(bound.resource, bound.namespace, bound.name)
    if state is None:
        return False
    obj = state.decode()
    metadata = obj["metadata"]
    if metadata.get("deletionTimestamp") and (bound.resource == "serviceaccounts" or bound.token):
        return False
    if bound.token:
        return bool((obj.get("data") or {}).get("token") == base64.b64encode(bound.token.encode()).decode())
    return bool(metadata["uid"] == bound.uid)


def issue_now(
    registry: ObjectRegistry, tokens: Tokens, kind: ServedKind, namespace: str, name: str, request: Json
) -> Json:
    """Return the response to a TokenRequest; raises 404 for an unknown account, 422 for a lifetime out of bounds."""
    state = registry.existing(kind, namespace, name)
    spec = request.get("spec") or {}
    seconds = spec.get("expirationSeconds") or _DEFAULT_SECONDS
    if not isinstance(seconds, int) or not _SHORTEST <= seconds <= _LONGEST:
        short = not isinstance(seconds, int) or seconds < _SHORTEST
        why = "less than 10 minutes" if short else "larger than 2^32 seconds"
        raise _invalid(name, fe.invalid("spec.expirationSeconds", seconds, f"may not specify a duration {why}"))
    audiences = list(spec.get("audiences") or [AUDIENCE])
    if len(audiences) > _MOST_AUDIENCES:
        raise _invalid(name, fe.too_many("spec.audiences", len(audiences), _MOST_AUDIENCES))
    account = BoundObject("serviceaccounts", namespace, name, state.decode()["metadata"]["uid"])
    reference = spec.get("boundObjectRef")
    bound = _bound(registry, account, reference) if reference else None
    token, ends = tokens.issue(account, seconds, audiences, bound)
    return {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": registry.clock.stamp()},
        "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": reference},
        "status": {"token": token, "expirationTimestamp": stamp(datetime.fromtimestamp(ends, UTC))},
    }


def _invalid(name: str, finding: FieldError) -> errors.StatusError:
    return errors.unfit("TokenRequest", "authentication.k8s.io", name, finding)


_BINDABLE = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}


def _bound(registry: ObjectRegistry, account: BoundObject, reference: Json) -> BoundObject:
    """Return the object that a token is to be bound to; raises 400, 404 or 409."""
    version, kind, name = reference.get("apiVersion", ""), reference.get("kind", ""), reference.get("name", "")
    group, _, _ = version.rpartition("/")
    resource = _BINDABLE.get(kind) if not group else None
    if resource is None:
        shown = version if group else f"/{version}"
        raise errors.bad_request(f"cannot bind token to object of type {shown}, Kind={kind}")
    namespace = "" if resource == "nodes" else account.namespace
    state = registry.store.head(resource, namespace, name)
    if state is None:
        raise errors.not_found(resource, "", name)
    obj = state.decode()
    if resource == "pods" and (obj.get("spec") or {}).get("serviceAccountName") != account.name:
        raise errors.bad_request(
            f'cannot bind token for serviceaccount "{account.name}" to pod running with different serviceaccount name.'
        )
    uid = obj["metadata"]["uid"]
    if reference.get("uid", uid) != uid:
        why = (
            f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record. The object "
            "might have been deleted and then recreated"
        )
        raise errors.conflict(kind, "", name, why)
    node = (obj.get("spec") or {}).get("nodeName") if resource == "pods" else None
    if not node:
        return BoundObject(resource, namespace, name, uid)
    node_state = registry.store.head("nodes", "", node)
    node_uid = "" if node_state is None else node_state.decode()["metadata"]["uid"]
    return BoundObject(resource, namespace, name, uid, node=(node, node_uid))
