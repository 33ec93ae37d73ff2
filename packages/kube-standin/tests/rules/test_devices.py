"""Rules of a claim's status and of claims of pod groups (pkg/apis/resource/validation; KEP-5729)."""

from __future__ import annotations

from typing import Any

import pytest

from kube_rules.validation import validate_create, validate_update
from tests.recorded.shapes import shape

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
    assert [error.path for error in errors] == [field for field, _ in found]
    assert all(text in error.message for error, (_, text) in zip(errors, found, strict=True))


def test_device_that_is_not_of_the_claim_is_named_by_driver_pool_and_device() -> None:
    """As upstream does: not by its share."""
    device = {"driver": "d", "pool": "p", "device": "gpu-1", "shareID": "s"}
    after = claim({"allocation": ALLOCATION, "devices": [device]})
    [error] = validate_update(shape("resource.k8s.io/v1", "ResourceClaim"), after, claim({}), "status")
    assert "d/p/gpu-1" in error.message
    assert "d/p/gpu-1/s" not in error.message


def test_claim_that_goes_gets_no_more_consumers() -> None:
    going = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a.b/c"]}
    before = claim({"allocation": ALLOCATION, "reservedFor": [POD, GROUP]}, **going)
    for listed, fields in (([POD], []), ([POD, {**POD, "uid": "3"}], ["status.reservedFor"])):
        after = claim({"allocation": ALLOCATION, "reservedFor": listed}, **going)
        errors = validate_update(shape("resource.k8s.io/v1", "ResourceClaim"), after, before, "status")
        assert [error.path for error in errors] == fields


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
    assert [error.path for error in errors] == [f"spec.resourceClaims{field}" for field in fields]
    workload = {**group, "kind": "Workload", "spec": {"podGroupTemplates": [{"name": "t", **spec}]}}
    errors = validate_create(shape("scheduling.k8s.io/v1beta1", "Workload"), workload)
    assert [error.path for error in errors] == [f"spec.podGroupTemplates[0].resourceClaims{field}" for field in fields]


def test_group_says_only_of_its_own_claims_which_were_made() -> None:
    metadata = {"name": "g", "namespace": "default", "uid": "u", "resourceVersion": "1"}
    spec = {"schedulingPolicy": {"basic": {}}, "resourceClaims": [{"name": "a", "resourceClaimTemplateName": "t"}]}
    before = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": metadata, "spec": spec}
    made = [{"name": name, "resourceClaimName": "c"} for name in ("a", "b")]
    after = {**before, "status": {"resourceClaimStatuses": made}}
    errors = validate_update(shape("scheduling.k8s.io/v1beta1", "PodGroup"), after, before, "status")
    assert [error.path for error in errors] == ["status.resourceClaimStatuses[1].name"]


LONG = "true || " * 1300 + "true"
EXPRESSIONS: list[tuple[str, str, str]] = [
    ('device.driver == "d" && device.attributes["d"].?model.orValue("") == "A"', "", ""),
    ("dyn(true)", "", ""),
    ("device.driver ==", "FieldValueInvalid", "compilation failed: Syntax error"),
    ("missing == 1", "FieldValueInvalid", "compilation failed: undeclared reference to 'missing'"),
    ("device.nothing == 1", "FieldValueInvalid", "compilation failed: undefined field 'nothing'"),
    ("device.driver", "FieldValueInvalid", "must evaluate to bool or the unknown type, not string"),
    ("device.attributes.all(a, " * 5 + "true" + ")" * 5, "FieldValueForbidden", "too complex, exceeds cost limit"),
    (LONG, "FieldValueTooLong", "may not be more than 10240 bytes"),
]


def selecting(kind: str, expression: str) -> tuple[Json, str]:
    """An object of a kind with one selector, and where that stands."""
    given = [{"cel": {"expression": expression}}]
    request = {"name": "r", "exactly": {"deviceClassName": "c", "selectors": given, "allocationMode": "All"}}
    option = {"name": "o", "deviceClassName": "c", "selectors": given, "allocationMode": "All"}
    specs: dict[str, tuple[Json, str]] = {
        "DeviceClass": ({"selectors": given}, "spec"),
        "ResourceClaim": ({"devices": {"requests": [request]}}, "spec.devices.requests[0].exactly"),
        "ResourceClaimTemplate": (
            {"spec": {"devices": {"requests": [{"name": "r", "firstAvailable": [option]}]}}},
            "spec.spec.devices.requests[0].firstAvailable[0]",
        ),
    }
    spec, place = specs[kind]
    metadata = {"name": "x", "uid": "u", "resourceVersion": "1", "creationTimestamp": "2024-01-01T00:00:00Z"}
    if kind != "DeviceClass":
        metadata["namespace"] = "default"
    made = {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec}
    return made, f"{place}.selectors[0].cel.expression"


@pytest.mark.parametrize("kind", ["DeviceClass", "ResourceClaim", "ResourceClaimTemplate"])
@pytest.mark.parametrize(("expression", "reason", "said"), EXPRESSIONS, ids=[said for _, _, said in EXPRESSIONS])
def test_selectors_are_compiled_when_they_are_written(kind: str, expression: str, reason: str, said: str) -> None:
    """validateCELSelector: too long, does not compile, may cost too much."""
    made, place = selecting(kind, expression)
    errors = validate_create(shape("resource.k8s.io/v1", kind), made)
    assert [(error.reason, error.path) for error in errors] == ([(reason, place)] if reason else [])
    assert all(said in error.message for error in errors)


def test_selectors_of_a_class_are_read_again_only_when_they_change() -> None:
    kind = shape("resource.k8s.io/v1", "DeviceClass")
    broken, place = selecting("DeviceClass", "missing")
    fine, _ = selecting("DeviceClass", "true")
    assert validate_update(kind, broken, broken, None) == []
    assert [error.path for error in validate_update(kind, broken, fine, None)] == [place]


def test_selector_needs_an_expression_and_there_are_at_most_32() -> None:
    kind = shape("resource.k8s.io/v1", "DeviceClass")
    made, _ = selecting("DeviceClass", "true")
    many = {**made, "spec": {"selectors": made["spec"]["selectors"] * 33}}
    assert [error.reason for error in validate_create(kind, many)] == ["FieldValueTooMany"]
    none = {**made, "spec": {"selectors": [{}]}}
    assert [error.path for error in validate_create(kind, none)] == ["spec.selectors[0].cel"]
