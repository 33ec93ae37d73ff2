"""Validation takes time that grows with the length of lists: with its square, each of these would take minutes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from kube_rules.errors import FieldError
from kube_rules.validation import (
    containers,
    metadata,
    pod_status,
    pod_updates,
    policies,
    schema_extensions,
    selectors,
    services,
    slices,
    webhooks,
)

NUMBER = 100_000
MANY = [f"name-{number}" for number in range(NUMBER)]
OTHERS = [f"other-{number}" for number in range(NUMBER)]
TOLERATIONS = [{"key": name, "operator": "Exists"} for name in MANY[: NUMBER // 2]]
OWNERS = [{"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": True} for name in MANY]
ADDRESSES = [{"ip": f"10.{n // 62500}.{n // 250 % 250}.{n % 250}"} for n in range(NUMBER)]
EXISTING: dict[str, Any] = {"matchExpressions": [{"key": name, "operator": "Exists"} for name in MANY]}

FOUND: list[tuple[str, int, Callable[[], Iterable[FieldError]]]] = [
    # NUMBER unsupported families, of which none is named twice
    ("families of a Service", NUMBER, lambda: services.cluster_addresses({"ipFamilies": MANY}, "spec")),
    ("addresses of a pod", 1, lambda: pod_status._addresses({"podIPs": ADDRESSES}, {}, "podIPs")),
    ("review versions", 1, lambda: webhooks.review_versions(MANY, "spec")),
    ("conditions of a device", 1 + 1 + NUMBER, lambda: slices._binding(
        {"bindingConditions": MANY, "bindingFailureConditions": MANY[::-1]}, "spec")),
    ("operations that a driver skips", NUMBER, lambda: slices._skipped({"skipNodeOperations": MANY}, "spec")),
    ("keys of a list, unknown", NUMBER, lambda: schema_extensions._keys(MANY, {}, "spec")),
    ("keys of a list, required", 0, lambda: schema_extensions._keys(
        MANY, {"properties": {name: {"type": "string"} for name in MANY}, "required": MANY[::-1]}, "spec")),
    ("keys of labels that a selector has", 0, lambda: selectors._twice(
        {"matchLabelKeys": OTHERS, "labelSelector": EXISTING}, "spec")),
    ("keys of labels that match and do not", NUMBER, lambda: selectors._pods(
        {"labelSelector": {}, "matchLabelKeys": MANY, "mismatchLabelKeys": MANY[::-1]}, "spec")),
    ("device claims of a container", NUMBER, lambda: containers.known_claims(
        {"claims": [{"name": name} for name in OTHERS]}, "spec",
        containers.claims_of({"resourceClaims": [{"name": name} for name in MANY]}))),
    ("controllers of an object", NUMBER - 1, lambda: metadata._owner_references(OWNERS)),
    ("finalizers of a deleted object", 1, lambda: metadata.update(
        {"metadata": {"finalizers": [f"e.com/{name}" for name in OTHERS]}},
        {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": MANY}})),
    ("tolerations of a changed pod", 0, lambda: pod_updates._tolerations(
        {"tolerations": TOLERATIONS[::-1]}, {"tolerations": TOLERATIONS})),
    ("scopes of a quota", NUMBER, lambda: policies.quota({"spec": {"scopes": MANY}}, "")),
]  # fmt: skip


@pytest.mark.parametrize(("count", "check"), [row[1:] for row in FOUND], ids=[row[0] for row in FOUND])
def test_long_list_takes_time_by_its_length(count: int, check: Callable[[], Iterable[FieldError]]) -> None:
    """Names and values that stand twice, or in another list, are found without a search for each."""
    assert sum(1 for one in check() if not one.path.endswith("deletionTimestamp")) == count


def test_listing_of_claims_is_cut() -> None:
    """Every wrong claim repeats it."""
    known = containers.claims_of({"resourceClaims": [{"name": name} for name in MANY]})
    (error,) = containers.known_claims({"claims": [{"name": "x"}]}, "spec", known)
    assert len(error.message) < 5000


def test_diff_of_a_pod_begins_where_it_changes_and_is_cut() -> None:
    """Many equal lines are what takes a comparison of texts longest."""
    same = [f"{number % 120}" for number in range(40_000)]
    shown = pod_updates._diff({"a": same, "b": same}, {"a": same, "b": same[::-1]})
    assert 0 < shown.count("\n") <= pod_updates._DIFF_LINES
    assert pod_updates._diff({"a": same, "b": 1}, {"a": same, "b": 2}).splitlines()[-5:] == [
        '   "39"', "  ],", '- "b": 1', '+ "b": 2', " }",
    ]  # fmt: skip
