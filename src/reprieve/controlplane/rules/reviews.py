"""Reviews of access: what has to be said so that the question can be answered."""

from __future__ import annotations

from collections.abc import Callable

from reprieve.api.json import Json
from reprieve.controlplane.schema.field_errors import FieldError, invalid


def _self_access(obj: Json) -> list[FieldError]:
    """Exactly one of ``resourceAttributes`` and ``nonResourceAttributes``."""
    spec = obj.setdefault("spec", {})
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and path is not None:
        text = "cannot be specified in combination with resourceAttributes"
        return [invalid("spec.nonResourceAttributes", path, text)]
    if resource is None and path is None:
        text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        return [invalid("spec.resourceAttributes", None, text)]
    return []


def _access(obj: Json) -> list[FieldError]:
    """As for oneself, and who asks: a user or a group."""
    found = _self_access(obj)
    spec = obj["spec"]
    if not spec.get("user") and not spec.get("groups"):
        found.append(invalid("spec.user", spec.get("user", ""), "at least one of user or group must be specified"))
    return found


def _local_access(obj: Json) -> list[FieldError]:
    """As for anybody, about resources of the namespace it is asked in."""
    found = _access(obj)
    spec = obj["spec"]
    namespace = obj.get("metadata", {}).get("namespace", "")
    asked = spec.get("resourceAttributes")
    if spec.get("nonResourceAttributes") is not None:
        text = "disallowed on this kind of request"
        found.append(invalid("spec.nonResourceAttributes", spec["nonResourceAttributes"], text))
    if asked is not None and asked.get("namespace", "") != namespace:
        text = "must match metadata.namespace"
        found.append(invalid("spec.resourceAttributes.namespace", asked.get("namespace", ""), text))
    return found


_RULES: dict[str, Callable[[Json], list[FieldError]]] = {
    "SelfSubjectAccessReview": _self_access,
    "SubjectAccessReview": _access,
    "LocalSubjectAccessReview": _local_access,
}


def validate_review(kind: str, obj: Json) -> list[FieldError]:
    """Everything wrong with a review; kinds that need nothing said are always right."""
    rule = _RULES.get(kind)
    return rule(obj) if rule is not None else []
