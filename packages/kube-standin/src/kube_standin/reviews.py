"""Reviews: questions that are answered and not stored (users, access, rights, tokens)."""

from __future__ import annotations

from kube_rules.json import Json
from kube_standin import errors
from kube_standin.admission_chain import User
from kube_standin.authorization import Authorizer
from kube_standin.kinds import ServedKind
from kube_standin.rights import Attributes
from kube_standin.security import AUDIENCE, TokenError, Tokens


def _info(user: User) -> Json:
    out: Json = {"username": user.name}
    if user.uid:
        out["uid"] = user.uid
    out["groups"] = list(user.groups)
    if user.extra:
        out["extra"] = {key: list(values) for key, values in user.extra}
    return out


def _attributes(spec: Json) -> Attributes:
    path = spec.get("nonResourceAttributes")
    if path:
        return Attributes(path.get("verb", ""), path=path.get("path", "") or "/")
    resource = spec.get("resourceAttributes") or {}
    return Attributes(
        resource.get("verb", ""),
        resource.get("group", ""),
        resource.get("resource", ""),
        resource.get("subresource", ""),
        resource.get("namespace", ""),
        resource.get("name", ""),
        field_values=tuple(
            (requirement.get("key", ""), requirement["values"][0])
            for requirement in (resource.get("fieldSelector") or {}).get("requirements") or ()
            if requirement.get("operator") == "In" and len(requirement.get("values") or ()) == 1
        ),
    )


def _decision(authorizer: Authorizer, user: User, spec: Json) -> Json:
    decision = authorizer.decide(user, _attributes(spec))
    status: Json = {"allowed": decision.allowed}
    if decision.reason:
        status["reason"] = decision.reason
    return status


def answer(kind: ServedKind, review: Json, user: User, authorizer: Authorizer, tokens: Tokens) -> Json:
    """Return the status for ``review`` (a decoded object of a review kind) created by ``user``; raises 400."""
    spec = review.get("spec") or {}
    match kind.kind:
        case "SelfSubjectReview":
            return {"userInfo": _info(user)}
        case "SelfSubjectAccessReview":
            return _decision(authorizer, user, spec)
        case "SelfSubjectRulesReview":
            resources, paths = authorizer.rules_for(user, spec.get("namespace", ""))
            return {"resourceRules": resources, "nonResourceRules": paths, "incomplete": False}
        case "TokenReview":
            if not spec.get("token"):
                raise errors.bad_request("token is required for TokenReview in authentication")
            try:
                verified = tokens.verify(spec.get("token", ""), spec.get("audiences") or (AUDIENCE,))
            except TokenError as error:
                return {"user": {}, "error": str(error)}
            return {"authenticated": True, "user": _info(verified.user), "audiences": list(verified.audiences)}
        case _:
            subject = User(spec.get("user", ""), tuple(spec.get("groups") or ()), spec.get("uid", ""))
            return _decision(authorizer, subject, spec)
