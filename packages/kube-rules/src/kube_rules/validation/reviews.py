"""Rules of access reviews: the required fields."""

from __future__ import annotations

from kube_rules import field_errors as fe
from kube_rules.errors import FieldError
from kube_rules.json import Json
from kube_rules.validation.rows import Check, Found, all_of, below


def _one_question(spec: Json, path: str) -> Found:
    """Check that exactly one of ``resourceAttributes`` and ``nonResourceAttributes`` is set."""
    resource, non_resource = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and non_resource is not None:
        text = "cannot be specified in combination with resourceAttributes"
        yield fe.invalid(f"{path}.nonResourceAttributes", non_resource, text)
    if resource is None and non_resource is None:
        text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        yield fe.invalid(f"{path}.resourceAttributes", None, text)


def _subject(spec: Json, path: str) -> Found:
    """Require a user or a group."""
    if not spec.get("user") and not spec.get("groups"):
        yield fe.invalid(f"{path}.user", spec.get("user", ""), "at least one of user or group must be specified")


def _local(obj: Json, _: str) -> Found:
    """Check that a local review is about resources of its namespace."""
    spec = obj.get("spec", {})
    non_resource, resource = spec.get("nonResourceAttributes"), spec.get("resourceAttributes")
    if non_resource is not None:
        yield fe.invalid("spec.nonResourceAttributes", non_resource, "disallowed on this kind of request")
    if resource is not None and resource.get("namespace", "") != obj.get("metadata", {}).get("namespace", ""):
        place = "spec.resourceAttributes.namespace"
        yield fe.invalid(place, resource.get("namespace", ""), "must match metadata.namespace")


_RULES: dict[str, Check] = {
    "SelfSubjectAccessReview": below("spec", _one_question),
    "SubjectAccessReview": below("spec", _one_question, _subject),
    "LocalSubjectAccessReview": all_of(below("spec", _one_question, _subject), _local),
}


def validate_review(kind: str, obj: Json) -> list[FieldError]:
    """Return all errors of a review; kinds without required fields have none."""
    rule = _RULES.get(kind)
    return list(rule(obj, "")) if rule is not None else []
