"""Versions of Workload and PodGroup: the table of api.md, both directions."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kube_rules.errors import FieldError
from kube_rules.foreign_groups import CUSTOM
from kube_rules.versions import SERVED_VERSIONS, from_internal, to_internal, version_rank, with_unexpressed

V1, V1BETA1, V1ALPHA3, V1ALPHA2 = SERVED_VERSIONS

GROUP: dict[str, Any] = {
    "apiVersion": V1BETA1,
    "kind": "PodGroup",
    "metadata": {"name": "g"},
    "spec": {
        "workloadRef": {"workloadName": "w", "templateName": "t"},
        "schedulingPolicy": {"gang": {"minCount": 2}},
        "disruptionMode": {"all": {}},
        "priorityClassName": "high",
    },
    "status": {"conditions": [{"type": "PodGroupInitiallyScheduled", "status": "True"}, {"type": "DisruptionTarget"}]},
}
GROUP_ALPHA2: dict[str, Any] = {
    "apiVersion": V1ALPHA2,
    "kind": "PodGroup",
    "metadata": {"name": "g"},
    "spec": {
        "podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}},
        "schedulingPolicy": {"gang": {"minCount": 2}},
        "disruptionMode": "PodGroup",
        "priorityClassName": "high",
    },
    "status": {"conditions": [{"type": "PodGroupScheduled", "status": "True"}, {"type": "DisruptionTarget"}]},
}
TEMPLATE = {"name": "t", "schedulingPolicy": {"basic": {}}}
WORKLOAD: dict[str, Any] = {
    "apiVersion": V1BETA1,
    "kind": "Workload",
    "metadata": {"name": "w"},
    "spec": {"podGroupTemplates": [{**TEMPLATE, "disruptionMode": {"single": {}}}, {**TEMPLATE, "name": "u"}]},
}
WORKLOAD_ALPHA2: dict[str, Any] = {
    "apiVersion": V1ALPHA2,
    "kind": "Workload",
    "metadata": {"name": "w"},
    "spec": {"podGroupTemplates": [{**TEMPLATE, "disruptionMode": "Pod"}, {**TEMPLATE, "name": "u"}]},
}


@pytest.mark.parametrize(("internal", "older"), [(GROUP, GROUP_ALPHA2), (WORKLOAD, WORKLOAD_ALPHA2)])
def test_v1alpha2_says_the_same_in_other_words(internal: dict[str, Any], older: dict[str, Any]) -> None:
    before = copy.deepcopy((internal, older))
    assert to_internal(older) == internal
    assert from_internal(internal, V1ALPHA2) == older
    assert (internal, older) == before  # neither direction changes what it is given


@pytest.mark.parametrize("manifest", [GROUP, WORKLOAD])
@pytest.mark.parametrize("version", [V1, V1ALPHA3, "scheduling.reprieve.dev/v1beta1"])
def test_v1_and_v1alpha3_and_the_crd_group_have_the_internal_shape(manifest: dict[str, Any], version: str) -> None:
    other = {**manifest, "apiVersion": version}
    custom = {CUSTOM: True} if manifest is GROUP and version not in SERVED_VERSIONS else {}
    assert to_internal(other) == {**manifest, **custom}
    assert from_internal(manifest, version) == other


def test_v1alpha2_cannot_say_preemption_policy() -> None:
    group = {**GROUP, "spec": {**GROUP["spec"], "preemptionPolicy": "Never"}}
    assert from_internal(group, V1ALPHA2) == GROUP_ALPHA2
    workload = {**WORKLOAD, "spec": {"podGroupTemplates": [{**TEMPLATE, "preemptionPolicy": "Never"}]}}
    assert from_internal(workload, V1ALPHA2)["spec"] == {"podGroupTemplates": [TEMPLATE]}


@pytest.mark.parametrize("kind", ["Workload", "PodGroup"])
def test_v1alpha1_is_refused_and_the_replacement_named(kind: str) -> None:
    manifest = {"apiVersion": "scheduling.k8s.io/v1alpha1", "kind": kind}
    with pytest.raises(FieldError) as caught:
        to_internal(manifest)
    assert "use scheduling.k8s.io/v1beta1" in str(caught.value)
    assert "spec.schedulingGroup.podGroupName" in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"disruptionMode": "All"}, "spec.disruptionMode"),  # recorded: supported values "Pod", "PodGroup"
        ({"disruptionMode": {"all": {}}}, "spec.disruptionMode"),
        ({"podGroupTemplateRef": {}}, "spec.podGroupTemplateRef"),  # recorded: must specify one of workload
    ],
)
def test_values_without_an_internal_form(spec: dict[str, Any], path: str) -> None:
    with pytest.raises(FieldError) as caught:
        to_internal({"apiVersion": V1ALPHA2, "kind": "PodGroup", "spec": spec})
    assert caught.value.path == path


# -- every pair of versions ------------------------------------------------------------------------------------

RICH_GROUP: dict[str, Any] = {
    **GROUP,
    "spec": {
        **GROUP["spec"],
        "parentCompositePodGroupName": "root",
        "schedulingConstraints": {"topology": [{"key": "rack"}]},
        "resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}],
        "priority": 7,
        "preemptionPolicy": "Never",
    },
    "status": {**GROUP["status"], "resourceClaimStatuses": [{"name": "c", "resourceClaimName": "c-1"}]},
}
RICH_TEMPLATE = {
    **TEMPLATE,
    "disruptionMode": {"all": {}},
    "priorityClassName": "high",
    "priority": 7,
    "preemptionPolicy": "Never",
    "schedulingPolicy": {"gang": {"minCount": 3}},
}
RICH_WORKLOAD: dict[str, Any] = {
    **WORKLOAD,
    "spec": {
        "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "j"},
        "podGroupTemplates": [RICH_TEMPLATE, {**TEMPLATE, "name": "u"}],
    },
}
TREE_WORKLOAD: dict[str, Any] = {
    **WORKLOAD,
    "spec": {"compositePodGroupTemplates": [{"name": "root", "podGroupTemplates": [RICH_TEMPLATE]}]},
}
COMPOSITE: dict[str, Any] = {
    "apiVersion": V1ALPHA3,
    "kind": "CompositePodGroup",
    "metadata": {"name": "root"},
    "spec": {
        "schedulingPolicy": {"gang": {"minGroupCount": 2}},
        "disruptionMode": {"all": {}},
        "preemptionPolicy": "Never",
        "workloadRef": {"workloadName": "w", "templateName": "root"},
    },
    "status": {"conditions": [{"type": "CompositePodGroupInitiallyScheduled", "status": "True"}]},
}
PAIRS = [
    *((RICH_GROUP, one, other) for one in SERVED_VERSIONS for other in SERVED_VERSIONS),
    *((RICH_WORKLOAD, one, other) for one in SERVED_VERSIONS for other in SERVED_VERSIONS),
    *((TREE_WORKLOAD, one, other) for one in SERVED_VERSIONS for other in SERVED_VERSIONS),
    *((COMPOSITE, one, other) for one in (V1BETA1, V1ALPHA3) for other in (V1BETA1, V1ALPHA3)),
]


@pytest.mark.parametrize(
    ("manifest", "one", "other"),
    PAIRS,
    ids=[f"{m['kind']}-{a.rpartition('/')[2]}-{b.rpartition('/')[2]}" for m, a, b in PAIRS],
)
def test_no_field_is_lost_between_two_versions(manifest: dict[str, Any], one: str, other: str) -> None:
    """api.md 2.5: read in one version and written in another, as two clients of different age do in turn."""
    stored = copy.deepcopy(manifest)
    for version in (one, other, one):
        seen = from_internal(stored, version)
        assert seen["apiVersion"] == version
        stored = with_unexpressed(to_internal(seen), stored, version)
    assert stored == manifest


@pytest.mark.parametrize("version", SERVED_VERSIONS)
@pytest.mark.parametrize("manifest", [RICH_GROUP, RICH_WORKLOAD, TREE_WORKLOAD])
def test_only_v1alpha2_lacks_fields(manifest: dict[str, Any], version: str) -> None:
    """api.md 2.5: the policy of groups and templates, and trees; what it lacks it does not show either."""
    seen = from_internal(manifest, version)
    back = to_internal(seen)
    assert (back == manifest) is (version != V1ALPHA2)
    assert ("preemptionPolicy" in str(seen)) is (version != V1ALPHA2)
    if version == V1ALPHA2:
        assert not {"parentCompositePodGroupName", "compositePodGroupTemplates"} & set(seen["spec"])


def test_update_in_v1alpha2_changes_what_it_can_express() -> None:
    """api.md 2.5: a template that is new has no policy of another one; a removed field that it knows is removed."""
    seen = from_internal(RICH_WORKLOAD, V1ALPHA2)
    [first, second] = seen["spec"]["podGroupTemplates"]
    seen["spec"]["podGroupTemplates"] = [{**second, "name": "new"}, {**first, "priorityClassName": "low"}]
    made = with_unexpressed(to_internal(seen), RICH_WORKLOAD, V1ALPHA2)
    [new, kept] = made["spec"]["podGroupTemplates"]
    assert "preemptionPolicy" not in new
    assert (kept["preemptionPolicy"], kept["priorityClassName"]) == ("Never", "low")
    bare = {"apiVersion": V1ALPHA2, "kind": "Workload"}
    assert with_unexpressed(to_internal(bare), RICH_WORKLOAD, V1ALPHA2) == to_internal(bare)


@pytest.mark.parametrize(
    ("kind", "version"),
    [("CompositePodGroup", V1), ("CompositePodGroup", V1ALPHA2), ("PodGroup", "scheduling.k8s.io/v2")],
)
def test_versions_that_a_kind_does_not_have(kind: str, version: str) -> None:
    """composite.md 1.1: composites are not in v1, nor were they in v1alpha2."""
    manifest = {"apiVersion": version, "kind": kind}
    for convert in (to_internal, lambda it: from_internal(it, version)):
        with pytest.raises(FieldError, match="is not read"):
            convert(manifest)


def test_newest_versions_first() -> None:
    """api.md 2: stable, beta, alpha, each by number; others last, by name."""
    order = ["v2", "v1", "v2beta1", "v1beta2", "v1beta1", "v1alpha3", "v1alpha2", "a", "v1gamma1"]
    assert sorted(set(order), key=version_rank) == order
