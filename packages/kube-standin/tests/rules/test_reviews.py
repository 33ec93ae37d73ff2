"""Reviews of access: refused unless the question is whole (upstream's rules of authorization.k8s.io)."""

from __future__ import annotations

from typing import Any

import pytest

from kube_rules.validation.reviews import validate_review

RESOURCE = {"verb": "get", "resource": "pods", "namespace": "default"}
PATH = {"verb": "get", "path": "/version"}


@pytest.mark.parametrize(
    ("kind", "spec", "fields"),
    [
        ("SelfSubjectAccessReview", None, ["spec.resourceAttributes"]),
        ("SelfSubjectAccessReview", {}, ["spec.resourceAttributes"]),
        ("SelfSubjectAccessReview", {"resourceAttributes": RESOURCE}, []),
        ("SelfSubjectAccessReview", {"nonResourceAttributes": PATH}, []),
        (
            "SelfSubjectAccessReview",
            {"resourceAttributes": RESOURCE, "nonResourceAttributes": PATH},
            ["spec.nonResourceAttributes"],
        ),
        ("SubjectAccessReview", {"resourceAttributes": RESOURCE}, ["spec.user"]),
        ("SubjectAccessReview", {"resourceAttributes": RESOURCE, "groups": ["g"]}, []),
        ("SubjectAccessReview", {"resourceAttributes": RESOURCE, "user": "u"}, []),
        ("LocalSubjectAccessReview", None, ["spec.resourceAttributes", "spec.user"]),
        ("LocalSubjectAccessReview", {"resourceAttributes": RESOURCE, "user": "u"}, []),
        (
            "LocalSubjectAccessReview",
            {"resourceAttributes": {**RESOURCE, "namespace": "other"}, "user": "u"},
            ["spec.resourceAttributes.namespace"],
        ),
        ("LocalSubjectAccessReview", {"nonResourceAttributes": PATH, "user": "u"}, ["spec.nonResourceAttributes"]),
    ],
)
def test_review_must_state(kind: str, spec: dict[str, Any] | None, fields: list[str]) -> None:
    review: dict[str, Any] = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": kind,
        "metadata": {"namespace": "default"} if kind.startswith("Local") else {},
    }
    if spec is not None:
        review["spec"] = spec
    assert [error.path for error in validate_review(kind, review)] == fields
