"""Impersonation: the Impersonate headers (``kubectl --as``), with a separate authorization of each part.

Rules and texts: kube-apiserver 1.36 (endpoints/filters/impersonation). The user needs ``impersonate`` on users (or, for
the name of a service account, on serviceaccounts in its namespace), on groups, on uids and on userextras/KEY. A part
without a user is 400. The result belongs to system:authenticated unless the groups name system:unauthenticated.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import unquote

from kube_standin import errors
from kube_standin.admission_chain import User
from kube_standin.authorization import ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, Authorizer
from kube_standin.rights import Attributes
from kube_standin.security import account_groups

_AUTHENTICATION = "authentication.k8s.io"
_ACCOUNT = "system:serviceaccount:"
_EXTRA = "impersonate-extra-"


class _IdentityPart(NamedTuple):
    """One part of an identity: its kind, namespace and name, and the key of an extra."""

    kind: str
    namespace: str
    name: str
    group: str = ""
    key: str = ""

    def __str__(self) -> str:
        """Return upstream's format of a reference to it."""
        version = f"{self.group}/v1" if self.group else ""
        return "{" + " ".join((self.kind, self.namespace, self.name, "", version, "", self.key)) + "}"


_RESOURCES = {
    "User": "users", "ServiceAccount": "serviceaccounts", "Group": "groups", "UID": "uids", "UserExtra": "userextras"
}  # fmt: skip


def impersonated(user: User, headers: Iterable[tuple[bytes, bytes]], authorizer: Authorizer) -> User:
    """Return the user that ``user`` impersonates, itself without headers; raises 400, or 403 for a refused part.

    ``headers`` are the raw headers of the request, with names in lower case.
    """
    requested = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers if _concerns(name)]
    if not requested:
        return user
    parts = _parts(requested)
    for part in parts:
        resource = _RESOURCES[part.kind]
        authorizer.check(user, Attributes("impersonate", part.group, resource, part.key, part.namespace, part.name))
    return _acting_as(parts) if parts else user


def _concerns(name: bytes) -> bool:
    return name.startswith(b"impersonate-")


def _parts(requested: list[tuple[str, str]]) -> list[_IdentityPart]:
    users = [value for name, value in requested if name == "impersonate-user" and value]
    parts = [_user(users[0])] if users else []
    parts += [_IdentityPart("Group", "", value) for name, value in requested if name == "impersonate-group"]
    for name, value in sorted(requested):
        if name.startswith(_EXTRA):
            parts.append(_IdentityPart("UserExtra", "", value, _AUTHENTICATION, unquote(name[len(_EXTRA) :])))
    uids = [value for name, value in requested if name == "impersonate-uid" and value]
    parts += [_IdentityPart("UID", "", uid, _AUTHENTICATION) for uid in uids[:1]]
    if parts and not users:
        raise errors.bad_request(f"requested [{' '.join(map(str, parts))}] without impersonating a user")
    return parts


def _user(name: str) -> _IdentityPart:
    namespace, colon, account = name.removeprefix(_ACCOUNT).partition(":")
    if name.startswith(_ACCOUNT) and colon and namespace and account and ":" not in account:
        return _IdentityPart("ServiceAccount", namespace, account)
    return _IdentityPart("User", "", name)


def _acting_as(parts: list[_IdentityPart]) -> User:
    first, *further = parts
    groups = [part.name for part in further if part.kind == "Group"]
    name = first.name
    if first.kind == "ServiceAccount":
        name = f"{_ACCOUNT}{first.namespace}:{first.name}"
        groups = groups or list(account_groups(first.namespace))
    if name == ANONYMOUS.name:
        groups += [UNAUTHENTICATED] if UNAUTHENTICATED not in groups else []
    elif not {AUTHENTICATED, UNAUTHENTICATED} & set(groups):
        groups.append(AUTHENTICATED)
    extra: dict[str, tuple[str, ...]] = {}
    for part in further:
        if part.kind == "UserExtra":
            extra[part.key] = (*extra.get(part.key, ()), part.name)
    uid = next((part.name for part in further if part.kind == "UID"), "")
    return User(name, tuple(groups), uid, tuple(extra.items()))
