"""Workloads and PodGroups, valid and not: the cases of the API server's own tests, written again for every version.

Source: kubernetes/kubernetes, pkg/registry/scheduling/workload and podgroup, declarative_validation_test.go.  Those
tests are of v1alpha2 only.  What later versions have otherwise is in the cases: `minCount` may change, and a
disruption mode is an object.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from kube_rules.validation import validate_create, validate_update
from tests.recorded.shapes import shape

OLD = "v1alpha2"
VERSIONS = (OLD, "v1alpha3", "v1beta1", "v1")
GANG = {"gang": {"minCount": 5}}
HIGHEST = 1_000_000_000
INVALID, MISSING, TWICE, MANY = "FieldValueInvalid", "FieldValueRequired", "FieldValueDuplicate", "FieldValueTooMany"
UNKNOWN = "FieldValueNotSupported"

Found: TypeAlias = list[tuple[str, str]]


def _object(version: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": "x", "namespace": "default", "uid": "1", "resourceVersion": "1"}
    return {"apiVersion": f"scheduling.k8s.io/{version}", "kind": kind, "metadata": metadata, "spec": spec}


def workload(version: str, *more: dict[str, Any], main: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """One with a template `main` and those in `more`."""
    first = {"name": "main", "schedulingPolicy": GANG, **(main or {})}
    return _object(version, "Workload", {"podGroupTemplates": [first, *more], **spec})


def pod_group(version: str, **spec: Any) -> dict[str, Any]:
    """A PodGroup with a gang of five."""
    return _object(version, "PodGroup", {"schedulingPolicy": GANG, **spec})


def errors(obj: dict[str, Any]) -> Found:
    """Field and reason of everything wrong with a new object."""
    return [(e.path, e.reason) for e in validate_create(shape(obj["apiVersion"], obj["kind"]), obj)]


def changed(old: dict[str, Any], new: dict[str, Any]) -> Found:
    """The same of a change."""
    return [(e.path, e.reason) for e in validate_update(shape(new["apiVersion"], new["kind"]), new, old, None)]


def claim(name: str = "claim", **source: str) -> dict[str, Any]:
    """A claim of a group."""
    return {"name": name, **source}


def keys(*found: str) -> dict[str, Any]:
    """Constraints to domains of these keys."""
    return {"schedulingConstraints": {"topology": [{"key": key} for key in found]}}


def claims(*found: dict[str, Any]) -> dict[str, Any]:
    """Claims of a group."""
    return {"resourceClaims": list(found)}


KEY = "schedulingConstraints.topology[0].key"
COUNT = "schedulingPolicy.gang.minCount"
NAMED = {"resourceClaimName": "one"}

SAME: list[tuple[str, dict[str, Any], Found]] = [
    ("a gang", {}, []),
    ("a basic group", {"schedulingPolicy": {"basic": {}}}, []),
    ("no minimum", {"schedulingPolicy": {"gang": {"minCount": 0}}}, [(COUNT, MISSING)]),
    ("minimum below zero", {"schedulingPolicy": {"gang": {"minCount": -1}}}, [(COUNT, INVALID)]),
    ("neither policy", {"schedulingPolicy": {}}, [("schedulingPolicy", INVALID)]),
    ("both policies", {"schedulingPolicy": {"basic": {}, **GANG}}, [("schedulingPolicy", INVALID)]),
    ("constraints", keys("foo"), []),
    ("constraints, empty", {"schedulingConstraints": {}}, []),
    ("two keys", keys("foo", "bar"), [("schedulingConstraints.topology", MANY)]),
    ("empty key", keys(""), [(KEY, MISSING)]),
    ("key with a prefix", keys("example.com/Foo"), []),
    ("longest key", keys("a" * 253 + "/" + "b" * 63), []),
    ("prefix too long", keys("a" * 254 + "/foo"), [(KEY, INVALID)]),
    ("name of a key too long", keys("foo/" + "b" * 64), [(KEY, INVALID)]),
    ("key too long", keys("b" * 64), [(KEY, INVALID)]),
    ("capitals in a prefix", keys("Example.com/Foo"), [(KEY, INVALID)]),
    ("class", {"priorityClassName": "high-priority"}, []),
    ("class with a slash", {"priorityClassName": "high/priority"}, [("priorityClassName", INVALID)]),
    ("priority", {"priority": 1000}, []),
    ("lowest priority", {"priority": -(2**31)}, []),
    ("highest priority", {"priority": HIGHEST}, []),
    ("priority too high", {"priority": HIGHEST + 1}, [("priority", INVALID)]),
    ("claim", claims(claim(**NAMED)), []),
    ("claim of a template", claims(claim(resourceClaimTemplateName="one")), []),
    ("two claims", claims(claim("a", **NAMED), claim("b", **NAMED)), []),
    ("path as name of a claim", claims(claim("../a", **NAMED)), [("resourceClaims[0].name", INVALID)]),
    ("slash in the name of a claim", claims(claim("my/a", **NAMED)), [("resourceClaims[0].name", INVALID)]),
    ("claim twice", claims(claim(**NAMED), claim(resourceClaimName="two")), [("resourceClaims[1]", TWICE)]),
    ("claim of nothing", claims(claim()), [("resourceClaims[0]", INVALID)]),
    (
        "claim by name and template",
        claims(claim(**NAMED, resourceClaimTemplateName="one")),
        [("resourceClaims[0]", INVALID)],
    ),
    (
        "bad name of the claim meant",
        claims(claim(resourceClaimName=".foo_bar")),
        [("resourceClaims[0].resourceClaimName", INVALID)],
    ),
    (
        "bad name of the template meant",
        claims(claim(resourceClaimTemplateName=".foo_bar")),
        [("resourceClaims[0].resourceClaimTemplateName", INVALID)],
    ),
    ("five claims", claims(*(claim(f"c{n}", **NAMED) for n in range(5))), [("resourceClaims", MANY)]),
]
"""Name of the case, fields of a template or of a group, what is wrong below it."""


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("fields", "wrong"), [pytest.param(f, w, id=name) for name, f, w in SAME])
def test_what_a_template_and_a_group_have_alike(version: str, fields: dict[str, Any], wrong: Found) -> None:
    at = "spec.podGroupTemplates[0]"
    assert errors(workload(version, main=fields)) == [(f"{at}.{path}", reason) for path, reason in wrong]
    assert errors(pod_group(version, **fields)) == [(f"spec.{path}", reason) for path, reason in wrong]


@pytest.mark.parametrize(
    ("versions", "mode", "reason"),
    [
        ((OLD,), "Pod", None),
        ((OLD,), "PodGroup", None),
        ((OLD,), "Invalid", UNKNOWN),
        (VERSIONS[1:], {"single": {}}, None),
        (VERSIONS[1:], {"all": {}}, None),
        (VERSIONS[1:], {}, INVALID),
        (VERSIONS[1:], {"all": {}, "single": {}}, INVALID),
    ],
)
def test_disruption_modes(versions: tuple[str, ...], mode: Any, reason: str | None) -> None:
    for version in versions:
        found = [] if reason is None else [("disruptionMode", reason)]
        template = [(f"spec.podGroupTemplates[0].{path}", why) for path, why in found]
        assert errors(workload(version, main={"disruptionMode": mode})) == template
        assert errors(pod_group(version, disruptionMode=mode)) == [(f"spec.{path}", why) for path, why in found]


def controlled(group: str = "apps", kind: str = "Deployment", name: str = "web") -> dict[str, Any]:
    """A reference to the object that made a workload."""
    return {"controllerRef": {"apiGroup": group, "kind": kind, "name": name}}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        (controlled(), None),
        (controlled("", "Pod"), None),
        (controlled("invalid_api_group"), ("apiGroup", INVALID)),
        (controlled("g" * 254), ("apiGroup", INVALID)),
        (controlled(kind=""), ("kind", MISSING)),
        (controlled(kind="Deploy/ment"), ("kind", INVALID)),
        (controlled(kind="Deploy%ment"), ("kind", INVALID)),
        (controlled(name=""), ("name", MISSING)),
        (controlled(name="/web"), ("name", INVALID)),
        (controlled(name="my%web"), ("name", INVALID)),
    ],
)
def test_controllers_of_workloads(version: str, spec: dict[str, Any], wrong: tuple[str, str] | None) -> None:
    assert errors(workload(version, **spec)) == ([(f"spec.controllerRef.{wrong[0]}", wrong[1])] if wrong else [])


def named(name: str) -> dict[str, Any]:
    """A further template."""
    return {"name": name, "schedulingPolicy": GANG}


NINE = [named(f"t{n}") for n in range(9)]
TEMPLATES = "spec.podGroupTemplates"


@pytest.mark.parametrize("version", VERSIONS)
def test_lists_of_templates(version: str) -> None:
    # With composites, one of two lists is wanted: that is an error of the spec.
    none = (TEMPLATES, MISSING) if version == OLD else ("spec", INVALID)
    assert errors(workload(version, podGroupTemplates=[])) == [none]
    assert errors(workload(version, podGroupTemplates=NINE)) == [(TEMPLATES, MANY)]
    assert errors(workload(version, podGroupTemplates=NINE[:8])) == []
    assert errors(workload(version, main={"name": ""})) == [(f"{TEMPLATES}[0].name", MISSING)]
    assert errors(workload(version, main={"name": "Invalid_Name"})) == [(f"{TEMPLATES}[0].name", INVALID)]
    assert errors(workload(version, named("main"))) == [(f"{TEMPLATES}[1]", TWICE)]


def reference(version: str, template: str | None, of: str | None) -> dict[str, Any]:
    """The template a group was made of, as a version writes it; and the path to its parts."""
    old = version == OLD
    found = {"workloadName": of, ("podGroupTemplateName" if old else "templateName"): template}
    given = {name: value for name, value in found.items() if value is not None}
    return {"podGroupTemplateRef": {"workload": given}} if old else {"workloadRef": given}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("template", "of", "which", "reason"),
    [
        ("main", "w", "", ""),
        ("", "w", "template", MISSING),
        ("temp/late", "w", "template", INVALID),
        ("g" * 254, "w", "template", INVALID),
        ("main", "", "workload", MISSING),
        ("main", "work/load", "workload", INVALID),
        ("main", "g" * 254, "workload", INVALID),
    ],
)
def test_references_to_templates(version: str, template: str, of: str, which: str, reason: str) -> None:
    at = "spec.podGroupTemplateRef.workload." if version == OLD else "spec.workloadRef."
    part = {"workload": "workloadName", "template": "podGroupTemplateName" if version == OLD else "templateName"}
    wrong = [(at + part[which], reason)] if which else []
    assert errors(pod_group(version, **reference(version, template, of))) == wrong


def test_empty_reference_to_a_template() -> None:
    assert errors(pod_group(OLD, podGroupTemplateRef={})) == [("spec.podGroupTemplateRef", INVALID)]
    for version in VERSIONS[1:]:
        missing = [("spec.workloadRef.workloadName", MISSING), ("spec.workloadRef.templateName", MISSING)]
        assert errors(pod_group(version, workloadRef={})) == missing


@pytest.mark.parametrize("version", VERSIONS)
def test_controller_of_a_workload_stays(version: str) -> None:
    refused = [("spec.controllerRef", INVALID)]
    mine, other, none = workload(version, **controlled()), workload(version, **controlled(name="b")), workload(version)
    assert changed(mine, mine) == []
    assert changed(mine, other) == changed(mine, none) == changed(none, mine) == refused


def mode(version: str, which: str) -> dict[str, Any]:
    """A disruption mode as a version writes it."""
    if version == OLD:
        return {"disruptionMode": {"all": "PodGroup", "single": "Pod"}[which]}
    return {"disruptionMode": {which: {}}}


SPARE = claims(claim(resourceClaimTemplateName="t"))
CHANGES: list[tuple[str, Callable[[str], dict[str, Any]], Callable[[str], dict[str, Any]], str]] = [
    ("to basic", lambda _: {}, lambda _: {"schedulingPolicy": {"basic": {}}}, "schedulingPolicy"),
    ("to no policy", lambda _: {}, lambda _: {"schedulingPolicy": {}}, "schedulingPolicy"),
    ("to both policies", lambda _: {}, lambda _: {"schedulingPolicy": {"basic": {}, **GANG}}, "schedulingPolicy"),
    ("no constraints", lambda _: keys("a"), lambda _: {"schedulingConstraints": {}}, "schedulingConstraints"),
    ("constraints gone", lambda _: keys("a"), lambda _: {}, "schedulingConstraints"),
    ("one more key", lambda _: keys("a"), lambda _: keys("a", "b"), "schedulingConstraints"),
    ("another key", lambda _: keys("a"), lambda _: keys("b"), "schedulingConstraints"),
    ("claims", lambda _: {}, lambda _: SPARE, "resourceClaims"),
    ("another claim", lambda _: SPARE, lambda _: claims(claim("b", resourceClaimTemplateName="t")), "resourceClaims"),
    ("no claims", lambda _: SPARE, lambda _: {}, "resourceClaims"),
    ("another mode", lambda v: mode(v, "single"), lambda v: mode(v, "all"), "disruptionMode"),
    ("no mode", lambda v: mode(v, "single"), lambda _: {}, "disruptionMode"),
    ("class", lambda _: {}, lambda _: {"priorityClassName": "high"}, "priorityClassName"),
    ("another class", lambda _: {"priorityClassName": "a"}, lambda _: {"priorityClassName": "b"}, "priorityClassName"),
    ("priority", lambda _: {}, lambda _: {"priority": 7}, "priority"),
    ("another priority", lambda _: {"priority": 1}, lambda _: {"priority": 2}, "priority"),
]
"""Name of the case, fields before and after, the field of a group that stays."""


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("before", "after", "field"), [pytest.param(b, a, f, id=name) for name, b, a, f in CHANGES])
def test_what_stays(version: str, before: Callable[..., Any], after: Callable[..., Any], field: str) -> None:
    """api.md 2.1."""
    old, new = workload(version, main=before(version)), workload(version, main=after(version))
    assert changed(old, old) == changed(new, new) == []
    assert changed(old, new) == [(TEMPLATES, INVALID)]
    assert changed(pod_group(version, **before(version)), pod_group(version, **after(version))) == [
        (f"spec.{field}", INVALID)
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_templates_stay_and_the_minimum_of_later_versions_does_not(version: str) -> None:
    one, two = workload(version), workload(version, named("worker1"))
    for old, new in ((one, two), (two, one), (two, workload(version, named("worker2")))):
        assert changed(old, new) == [(TEMPLATES, INVALID)]
    assert (TEMPLATES, INVALID) in changed(one, workload(version, podGroupTemplates=[]))
    assert (TEMPLATES, INVALID) in changed(one, workload(version, podGroupTemplates=NINE))
    ten = {"schedulingPolicy": {"gang": {"minCount": 10}}}
    fixed = version == OLD
    assert changed(one, workload(version, main=ten)) == ([(TEMPLATES, INVALID)] if fixed else [])
    group = changed(pod_group(version), pod_group(version, **ten))
    assert group == ([("spec.schedulingPolicy", INVALID)] if fixed else [])


@pytest.mark.parametrize("version", VERSIONS)
def test_template_of_a_group_stays(version: str) -> None:
    field = "spec.podGroupTemplateRef" if version == OLD else "spec.workloadRef"
    mine = pod_group(version, **reference(version, "main", "w"))
    for other in (reference(version, "other", "w"), reference(version, "main", "x"), {}):
        assert changed(mine, pod_group(version, **other)) == [(field, INVALID)]
        assert changed(pod_group(version, **other), mine) == [(field, INVALID)]


def statuses(*found: dict[str, Any]) -> dict[str, Any]:
    """A status about claims."""
    return {"resourceClaimStatuses": list(found)}


def condition(reason: str = "Waits") -> dict[str, Any]:
    """A condition of a group."""
    at = "2026-01-01T00:00:00Z"
    return {"type": "PodGroupScheduled", "status": "False", "reason": reason, "message": "m", "lastTransitionTime": at}


AT = "status.resourceClaimStatuses"
TWO_CLAIMS = claims(claim("a", resourceClaimTemplateName="t"), claim("b", resourceClaimTemplateName="t"))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("spec", "status", "wrong"),
    [
        ({}, {}, []),
        ({}, {"conditions": [condition()]}, []),
        ({}, {"conditions": [condition(), condition("Other")]}, [("status.conditions[1].type", TWICE)]),
        (TWO_CLAIMS, statuses(claim("a", resourceClaimName="g-a-1"), claim("b")), []),
        ({}, statuses(claim("no-such", resourceClaimName="x")), [(f"{AT}[0].name", INVALID)]),
        (TWO_CLAIMS, statuses(claim("a", resourceClaimName="%$!#5")), [(f"{AT}[0].resourceClaimName", INVALID)]),
        (TWO_CLAIMS, statuses(claim("a", resourceClaimName="x"), claim("b"), claim("b")), [(f"{AT}[2]", TWICE)]),
        (TWO_CLAIMS, statuses(*(claim("a") for _ in range(5))), [(AT, MANY)]),
    ],
)
def test_status_of_a_group(version: str, spec: dict[str, Any], status: dict[str, Any], wrong: Found) -> None:
    old = pod_group(version, **spec)
    new = {**old, "status": status}
    kind = shape(new["apiVersion"], "PodGroup")
    assert [(e.path, e.reason) for e in validate_update(kind, new, old, "status")] == wrong
