"""Versions of Workload and PodGroup: the table of api.md, both directions."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kube_rules.errors import FieldError
from kube_rules.foreign_groups import CUSTOM
from kube_rules.versions import SERVED_VERSIONS, from_internal, to_internal

V1BETA1, V1ALPHA3, V1ALPHA2 = SERVED_VERSIONS

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
@pytest.mark.parametrize("version", [V1ALPHA3, "scheduling.reprieve.dev/v1beta1"])
def test_v1alpha3_and_the_crd_group_have_the_internal_shape(manifest: dict[str, Any], version: str) -> None:
    other = {**manifest, "apiVersion": version}
    custom = {CUSTOM: True} if manifest is GROUP and version != V1ALPHA3 else {}
    assert to_internal(other) == {**manifest, **custom}
    assert from_internal(manifest, version) == other


def test_older_versions_cannot_say_preemption_policy() -> None:
    group = {**GROUP, "spec": {**GROUP["spec"], "preemptionPolicy": "Never"}}
    assert from_internal(group, V1ALPHA2) == GROUP_ALPHA2
    workload = {**WORKLOAD, "spec": {"podGroupTemplates": [{**TEMPLATE, "preemptionPolicy": "Never"}]}}
    for version in (V1ALPHA3, V1ALPHA2):
        assert from_internal(workload, version)["spec"] == {"podGroupTemplates": [TEMPLATE]}


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
