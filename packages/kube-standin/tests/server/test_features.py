"""What a server does without when a feature gate is off, and what is left when it comes back (KEP-5710, rollback)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kube_standin.features import Features
from kube_standin.kinds import BUILTIN
from kube_standin.server.control_plane import ServeOptions
from tests.server.live import Live, live, pod

GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
PODS = "/api/v1/namespaces/default/pods"
GROUP: dict[str, Any] = {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}


def make_pod(plane: Live, name: str) -> dict[str, Any]:
    body = pod(name)
    body["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    status, made, _ = plane.request("POST", PODS, body)
    assert status == 201, made
    return dict(made)


def test_without_the_workload_api_groups_are_unknown_and_the_field_is_dropped(tmp_path: Path) -> None:
    def options(on: bool) -> ServeOptions:
        return ServeOptions(data_dir=tmp_path / "data", features=Features(generic_workload=on), controllers="*")

    with live(options(True)) as plane:
        assert plane.request("POST", GROUPS, GROUP)[0] == 201
        assert make_pod(plane, "with")["spec"]["schedulingGroup"] == {"podGroupName": "g"}
    with live(options(False)) as plane:
        for version in ("v1beta1", "v1alpha3", "v1alpha2"):
            assert plane.request("GET", f"/apis/scheduling.k8s.io/{version}/podgroups")[0] == 404
        assert plane.request("GET", "/apis/scheduling.k8s.io/v1/priorityclasses")[0] == 200
        assert "schedulingGroup" not in make_pod(plane, "without")["spec"]
        there = plane.request("GET", f"{PODS}/with")[1]
        assert there["spec"]["schedulingGroup"] == {"podGroupName": "g"}
        there["metadata"]["labels"] = {"a": "b"}
        status, kept, _ = plane.request("PUT", f"{PODS}/with", there)
        assert (status, kept["spec"]["schedulingGroup"]) == (200, {"podGroupName": "g"})
        job = {
            "metadata": {"name": "j", "annotations": {"reprieve.dev/pod-group": "true"}},
            "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}},
        }
        assert plane.request("POST", "/apis/batch/v1/namespaces/default/jobs", job)[0] == 201
    with live(options(True)) as plane:
        assert plane.request("GET", f"{GROUPS}/g")[1]["spec"]["schedulingPolicy"] == {"gang": {"minCount": 2}}
        assert "schedulingGroup" not in plane.request("GET", f"{PODS}/without")[1]["spec"]
        assert make_pod(plane, "again")["spec"]["schedulingGroup"] == {"podGroupName": "g"}


def test_without_its_gate_the_policy_of_a_group_is_dropped() -> None:
    spec = {**GROUP["spec"], "preemptionPolicy": "Never", "priorityClassName": "meek"}
    meek = {"metadata": {"name": "meek"}, "value": 5, "preemptionPolicy": "Never"}
    for on in (True, False):
        with live(ServeOptions(features=Features(pod_group_preemption_policy=on))) as plane:
            assert plane.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", meek)[0] == 201
            status, made, _ = plane.request("POST", GROUPS, {"metadata": {"name": "g"}, "spec": spec})
            assert status == 201, made
            assert made["spec"].get("preemptionPolicy") == ("Never" if on else None)
            assert made["spec"]["priority"] == 5
            workloads = GROUPS.replace("podgroups", "workloads")
            body = {"metadata": {"name": "w"}, "spec": {"podGroupTemplates": [{"name": "t", **spec}]}}
            [template] = plane.request("POST", workloads, body)[1]["spec"]["podGroupTemplates"]
            assert template.get("preemptionPolicy") == ("Never" if on else None)


def test_without_their_gate_the_claims_of_a_group_are_dropped() -> None:
    """KEP-5729: `resourceClaims` of groups and of templates for them."""
    claims = [{"name": "gpu", "resourceClaimName": "mine"}]
    spec = {**GROUP["spec"], "resourceClaims": claims}
    for on in (True, False):
        with live(ServeOptions(features=Features(dra_workload_resource_claims=on))) as plane:
            status, made, _ = plane.request("POST", GROUPS, {"metadata": {"name": "g"}, "spec": spec})
            assert status == 201, made
            assert made["spec"].get("resourceClaims") == (claims if on else None)
            workloads = GROUPS.replace("podgroups", "workloads")
            body = {"metadata": {"name": "w"}, "spec": {"podGroupTemplates": [{"name": "t", **spec}]}}
            [template] = plane.request("POST", workloads, body)[1]["spec"]["podGroupTemplates"]
            assert template.get("resourceClaims") == (claims if on else None)


SETS = "/apis/apps/v1/namespaces/default/statefulsets"


@pytest.mark.parametrize(("minor", "kept"), [(36, None), (37, 2)])
def test_field_of_a_later_release_is_dropped(minor: int, kept: int | None) -> None:
    """api.md 2.8: a StatefulSet of 1.36 has no maxUnavailable; one that has it keeps it."""
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template, "updateStrategy": strategy}
    with live(ServeOptions(features=Features(minor=minor))) as plane:
        status, made, _ = plane.request("POST", SETS, {"metadata": {"name": "s"}, "spec": spec})
        assert status == 201, made
        assert made["spec"]["updateStrategy"]["rollingUpdate"].get("maxUnavailable") == kept
        status, made, _ = plane.request("PUT", f"{SETS}/s", {**made, "spec": {**made["spec"], **spec}})
        assert status == 200, made
        assert made["spec"]["updateStrategy"]["rollingUpdate"].get("maxUnavailable") == kept


COMPOSITES = "/apis/scheduling.k8s.io/v1alpha3/namespaces/default/compositepodgroups"
_REFERENCE = {"workloadName": "w", "templateName": "t"}
_TOP = {"name": "t", "schedulingPolicy": {"basic": {}}, "podGroupTemplates": [{"name": "leaf", **GROUP["spec"]}]}


def test_without_their_gate_trees_are_refused_and_what_is_stored_comes_back(tmp_path: Path) -> None:
    """composite.md 1 and 5; KEP-6012, upgrade and rollback."""

    def options(on: bool) -> ServeOptions:
        return ServeOptions(data_dir=tmp_path / "data", features=Features(composite_pod_group=on), controllers="*")

    root = {"metadata": {"name": "root"}, "spec": {"workloadRef": _REFERENCE, "schedulingPolicy": {"basic": {}}}}

    def leaf(name: str) -> dict[str, Any]:
        tree = {"workloadRef": _REFERENCE, "parentCompositePodGroupName": "root"}
        return {"metadata": {"name": name}, "spec": {**GROUP["spec"], **tree}}

    workload = {"metadata": {"name": "tree"}, "spec": {"compositePodGroupTemplates": [_TOP]}}
    workloads = GROUPS.replace("podgroups", "workloads")
    with live(options(True)) as plane:
        assert plane.request("POST", COMPOSITES, root)[0] == 201
        assert plane.request("POST", GROUPS, leaf("stored"))[0] == 201
        assert plane.request("POST", workloads, workload)[0] == 201
    with live(options(False)) as plane:
        assert plane.request("GET", COMPOSITES)[0] == 404
        resources = plane.request("GET", "/apis/scheduling.k8s.io/v1alpha3")[1]["resources"]
        assert {one["name"] for one in resources} == {"podgroups", "podgroups/status", "workloads"}
        status, said, _ = plane.request("POST", GROUPS, leaf("refused"))
        assert (status, said["reason"]) == (422, "Invalid")
        assert said["details"]["causes"] == [
            {
                "reason": "FieldValueForbidden",
                "message": "Forbidden: the feature gate CompositePodGroup is off",
                "field": "spec.parentCompositePodGroupName",
            }
        ]
        status, said, _ = plane.request("POST", workloads, {**workload, "metadata": {"name": "refused"}})
        assert (status, said["details"]["causes"][0]["field"]) == (422, "spec.compositePodGroupTemplates")
        there = plane.request("GET", f"{GROUPS}/stored")[1]
        assert there["spec"]["parentCompositePodGroupName"] == "root"
        there["metadata"]["labels"] = {"a": "b"}
        assert plane.request("PUT", f"{GROUPS}/stored", there)[0] == 200
    with live(options(True)) as plane:
        assert plane.request("GET", f"{COMPOSITES}/root")[1]["spec"]["schedulingPolicy"] == {"basic": {}}
        assert plane.request("GET", f"{GROUPS}/stored")[1]["spec"]["parentCompositePodGroupName"] == "root"
        assert plane.request("POST", GROUPS, leaf("again"))[0] == 201


def test_without_the_workload_api_there_are_no_trees_either() -> None:
    with live(ServeOptions(features=Features(generic_workload=False))) as plane:
        assert plane.request("GET", COMPOSITES)[0] == 404


def test_without_its_gate_what_a_job_asks_for_is_dropped() -> None:
    """KEP-5547: of new Jobs and of the templates of new CronJobs; nor is it there without groups at all."""
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    spec = {"template": {"spec": pod}, "scheduling": {"schedulingPolicy": {"gang": {}}}}
    cron = {"schedule": "@daily", "jobTemplate": {"spec": spec}}
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    for features in (Features(), Features(workload_with_job=False), Features(generic_workload=False)):
        on = features.workload_with_job and features.generic_workload
        with live(ServeOptions(features=features)) as plane:
            made = plane.request("POST", jobs, {"metadata": {"name": "j"}, "spec": spec})[1]
            assert ("scheduling" in made["spec"]) == on
            path = jobs.replace("jobs", "cronjobs")
            made = plane.request("POST", path, {"metadata": {"name": "c"}, "spec": cron})[1]
            assert ("scheduling" in made["spec"]["jobTemplate"]["spec"]) == on


def test_every_gate_is_on_unless_it_is_turned_off() -> None:
    assert [kind.gvk for kind in Features(minor=None).kinds()] == [kind.gvk for kind in BUILTIN]
