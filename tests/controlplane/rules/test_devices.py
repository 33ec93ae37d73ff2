"""Rules of a claim's status and of claims of pod groups (pkg/apis/resource/validation; KEP-5729)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.controlplane.recorded.shapes import shape

from reprieve.controlplane.rules import validate_create, validate_update

Json = dict[str, Any]
RESULT = {"request": "gpu", "driver": "d", "pool": "p", "device": "gpu-0"}
ALLOCATION = {"devices": {"results": [RESULT]}}
OTHER = {"devices": {"results": [{**RESULT, "device": "gpu-1"}]}}
POD = {"resource": "pods", "name": "a", "uid": "1"}
GROUP = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "2"}
IMMUTABLE = "field is immutable"


def claim(status: Json, **metadata: Any) -> Json:
    requests = [
        {"name": "gpu", "exactly": {"deviceClassName": "c"}},
        {"name": "any", "firstAvailable": [{"name": "x"}]},
    ]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "default", "uid": "u", "resourceVersion": "1", **metadata},
        "spec": {"devices": {"requests": requests}},
        "status": status,
    }


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ({}, {"allocation": ALLOCATION, "reservedFor": [POD, GROUP]}, []),
        ({"allocation": ALLOCATION}, {"allocation": ALLOCATION, "reservedFor": [POD]}, []),
        ({"allocation": ALLOCATION, "reservedFor": [POD]}, {}, []),
        ({"allocation": ALLOCATION}, {"allocation": OTHER}, [("status.allocation", IMMUTABLE)]),
        ({}, {"reservedFor": [POD]}, [("status.reservedFor", "may not be specified when `allocated` is not set")]),
        ({}, {"allocation": ALLOCATION, "reservedFor": [POD, {**POD, "name": "b"}]}, [("status.reservedFor[1]", "")]),
        ({}, {"allocation": ALLOCATION, "reservedFor": [{"name": "a", "uid": "1"}]},
         [("status.reservedFor[0].resource", "")]),
        ({}, {"allocation": ALLOCATION, "reservedFor": [{**POD, "uid": str(n)} for n in range(257)]},
         [("status.reservedFor", "must have at most 256 items")]),
        ({}, {"allocation": {"devices": {"results": [{**RESULT, "request": "x"}]}}},
         [("status.allocation.devices.results[0].request", "must be the name of a request in the claim")]),
        ({}, {"allocation": {"devices": {"results": [{**RESULT, "request": "any/x"}]}}}, []),
        ({}, {"allocation": {"devices": {"results": [{**RESULT, "pool": ""}]}}},
         [("status.allocation.devices.results[0].pool", "")]),
        ({}, {"allocation": ALLOCATION, "devices": [{"driver": "d", "pool": "p", "device": "gpu-0"}]}, []),
        ({}, {"allocation": ALLOCATION, "devices": [{"driver": "d", "pool": "p", "device": "gpu-1"}]},
         [("status.devices[0]", "must be an allocated device in the claim")]),
    ],
)  # fmt: skip
def test_status_of_a_claim(before: Json, after: Json, found: list[tuple[str, str]]) -> None:
    """ValidateResourceClaimStatusUpdate: an allocation ends before there is another."""
    errors = validate_update(shape("resource.k8s.io/v1", "ResourceClaim"), claim(after), claim(before), "status")
    assert [error.field for error in errors] == [field for field, _ in found]
    assert all(text in error.message for error, (_, text) in zip(errors, found, strict=True))


def test_a_claim_that_goes_gets_no_more_consumers() -> None:
    going = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a.b/c"]}
    before = claim({"allocation": ALLOCATION, "reservedFor": [POD, GROUP]}, **going)
    for listed, fields in (([POD], []), ([POD, {**POD, "uid": "3"}], ["status.reservedFor"])):
        after = claim({"allocation": ALLOCATION, "reservedFor": listed}, **going)
        errors = validate_update(shape("resource.k8s.io/v1", "ResourceClaim"), after, before, "status")
        assert [error.field for error in errors] == fields


@pytest.mark.parametrize(
    ("claims", "fields"),
    [
        ([{"name": "a", "resourceClaimName": "c"}, {"name": "b", "resourceClaimTemplateName": "t"}], []),
        ([{"name": f"a{n}", "resourceClaimName": "c"} for n in range(5)], [""]),
        ([{"resourceClaimName": "c"}], ["[0].name"]),
        ([{"name": "A b", "resourceClaimName": "c"}], ["[0].name"]),
        ([{"name": "a", "resourceClaimName": "c"}] * 2, ["[1]"]),
        ([{"name": "a"}], ["[0]"]),
        ([{"name": "a", "resourceClaimName": "c", "resourceClaimTemplateName": "t"}], ["[0]"]),
        ([{"name": "a", "resourceClaimName": "C!"}], ["[0].resourceClaimName"]),
    ],
)
def test_claims_of_a_group_and_of_a_template_for_one(claims: list[Json], fields: list[str]) -> None:
    """At most four (MaxPodGroupResourceClaims), each with a name of its own, by name or by template."""
    spec = {"schedulingPolicy": {"basic": {}}, "resourceClaims": claims, "priority": 0}
    metadata = {"name": "g", "namespace": "default"}
    group = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": metadata, "spec": spec}
    errors = validate_create(shape("scheduling.k8s.io/v1beta1", "PodGroup"), group)
    assert [error.field for error in errors] == [f"spec.resourceClaims{field}" for field in fields]
    workload = {**group, "kind": "Workload", "spec": {"podGroupTemplates": [{"name": "t", **spec}]}}
    errors = validate_create(shape("scheduling.k8s.io/v1beta1", "Workload"), workload)
    assert [error.field for error in errors] == [f"spec.podGroupTemplates[0].resourceClaims{field}" for field in fields]


def test_a_group_says_only_of_its_own_claims_which_were_made() -> None:
    metadata = {"name": "g", "namespace": "default", "uid": "u", "resourceVersion": "1"}
    spec = {"schedulingPolicy": {"basic": {}}, "resourceClaims": [{"name": "a", "resourceClaimTemplateName": "t"}]}
    before = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": metadata, "spec": spec}
    made = [{"name": name, "resourceClaimName": "c"} for name in ("a", "b")]
    after = {**before, "status": {"resourceClaimStatuses": made}}
    errors = validate_update(shape("scheduling.k8s.io/v1beta1", "PodGroup"), after, before, "status")
    assert [error.field for error in errors] == ["status.resourceClaimStatuses[1].name"]
