"""Discovery: what is served, in the plain and in the aggregated form, the same table told twice."""

from __future__ import annotations

from typing import Any

import pytest

from kube_standin.kinds import BUILTIN, KindTable, ServedKind, subresource
from kube_standin.server.discovery import Discovery, version_info

Json = dict[str, Any]
DISCOVERY = Discovery(KindTable(), "10.0.0.1:6443")
GROUPS = sorted({kind.group for kind in BUILTIN})


def kinds_of(group: str, version: str) -> list[ServedKind]:
    return sorted((kind for kind in BUILTIN if (kind.group, kind.version) == (group, version)), key=lambda k: k.plural)


def test_core_group_and_the_others() -> None:
    assert DISCOVERY.core_versions() == {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "10.0.0.1:6443"}],
    }
    listed = DISCOVERY.groups()
    assert (listed["kind"], listed["apiVersion"]) == ("APIGroupList", "v1")
    assert sorted(group["name"] for group in listed["groups"]) == [group for group in GROUPS if group]


OLDER = {
    "autoscaling": "v2",
    "scheduling.k8s.io": "v1beta1 v1alpha3 v1alpha2",
    "resource.k8s.io": "v1beta2",
    "admissionregistration.k8s.io": "v1beta1",
    "storage.k8s.io": "v1beta1",
    "flowcontrol.apiserver.k8s.io": "v1beta3",
}


@pytest.mark.parametrize("name", [group for group in GROUPS if group])
def test_group_names_its_versions_best_first(name: str) -> None:
    found = DISCOVERY.group(name)
    assert found is not None
    [listed] = [group for group in DISCOVERY.groups()["groups"] if group["name"] == name]
    assert found == {"kind": "APIGroup", "apiVersion": "v1", **listed}
    assert {entry["version"] for entry in found["versions"]} == {"v1", *OLDER.get(name, "").split()}
    assert all(entry["groupVersion"] == f"{name}/{entry['version']}" for entry in found["versions"])
    assert found["preferredVersion"] == found["versions"][0]


def test_versions_of_workloads_best_first() -> None:
    """api.md 2: v1beta1, v1alpha3, v1alpha2; the v1 of PriorityClass is before them all."""
    found = DISCOVERY.group("scheduling.k8s.io")
    assert found is not None
    assert [entry["version"] for entry in found["versions"]] == ["v1", "v1beta1", "v1alpha3", "v1alpha2"]


@pytest.mark.parametrize("name", ["", "unknown.example.com"])
def test_group_that_is_none(name: str) -> None:
    assert DISCOVERY.group(name) is None


@pytest.mark.parametrize(("group", "version"), [("", "v2"), ("apps", "v2"), ("unknown.example.com", "v1")])
def test_version_that_is_not_served(group: str, version: str) -> None:
    assert DISCOVERY.resources(group, version) is None


PODS: Json = {
    "name": "pods",
    "singularName": "pod",
    "namespaced": True,
    "kind": "Pod",
    "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
    "shortNames": ["po"],
    "categories": ["all"],
    "storageVersionHash": "xPOwRZ+Yhw8=",  # kube-apiserver's own for pods
}


def resources(group: str, version: str) -> dict[str, Json]:
    found = DISCOVERY.resources(group, version)
    assert found is not None
    return {entry["name"]: entry for entry in found["resources"]}


def test_resource_in_the_plain_form() -> None:
    assert resources("", "v1")["pods"] == PODS
    assert resources("", "v1")["pods/eviction"] == {
        "name": "pods/eviction",
        "singularName": "",
        "namespaced": True,
        "group": "policy",
        "version": "v1",
        "kind": "Eviction",
        "verbs": ["create"],
    }
    assert resources("", "v1")["nodes/status"] == {
        "name": "nodes/status",
        "singularName": "",
        "namespaced": False,
        "kind": "Node",
        "verbs": ["get", "patch", "update"],
    }
    assert resources("", "v1")["configmaps"].keys() == {*PODS} - {"categories"}
    assert "storageVersionHash" not in resources("authorization.k8s.io", "v1")["subjectaccessreviews"]


@pytest.mark.parametrize(("group", "version"), sorted({(kind.group, kind.version) for kind in BUILTIN}))
def test_both_forms_list_the_same(group: str, version: str) -> None:
    """Resources by plural, each followed by its subresources by name."""
    plain = DISCOVERY.resources(group, version)
    assert plain is not None
    head = {"kind": "APIResourceList", "groupVersion": f"{group}/{version}" if group else version}
    assert {word: plain[word] for word in plain if word != "resources"} == head | (
        {"apiVersion": "v1"} if group else {}
    )
    kinds = kinds_of(group, version)
    names = [
        name for kind in kinds for name in (kind.plural, *(f"{kind.plural}/{s}" for s in sorted(kind.subresources)))
    ]
    assert [entry["name"] for entry in plain["resources"]] == names
    [item] = [one for one in DISCOVERY.aggregated(not group, "v2")["items"] if one["metadata"].get("name", "") == group]
    [aggregated] = [one for one in item["versions"] if one["version"] == version]
    assert aggregated["freshness"] == "Current"
    for kind, found in zip(kinds, aggregated["resources"], strict=True):
        entry = resources(group, version)[kind.plural]
        assert found["resource"] == kind.plural
        assert found["responseKind"] == {"group": "", "version": "", "kind": entry["kind"]}
        assert found["scope"] == ("Namespaced" if entry["namespaced"] else "Cluster")
        assert (found["singularResource"], found["verbs"]) == (entry["singularName"], entry["verbs"])
        for word in ("shortNames", "categories"):
            assert found.get(word) == entry.get(word)
        assert [one["subresource"] for one in found.get("subresources", ())] == sorted(kind.subresources)
        assert ("subresources" in found) is bool(kind.subresources)
        for one in found.get("subresources", ()):
            side = subresource(kind, one["subresource"])
            assert one["responseKind"] == {"group": side.group, "version": side.version, "kind": side.kind}
            assert one["verbs"] == list(side.verbs)


@pytest.mark.parametrize("version", ["v2", "v2beta1"])
def test_core_group_is_aggregated_by_itself(version: str) -> None:
    core, others = DISCOVERY.aggregated(True, version), DISCOVERY.aggregated(False, version)
    for found in (core, others):
        assert (found["kind"], found["apiVersion"], found["metadata"]) == (
            "APIGroupDiscoveryList",
            f"apidiscovery.k8s.io/{version}",
            {},
        )
    assert [item["metadata"] for item in core["items"]] == [{}]
    assert sorted(item["metadata"]["name"] for item in others["items"]) == [group for group in GROUPS if group]


def test_version_that_is_spoken() -> None:
    found = version_info()
    assert (found["major"], found["minor"], found["minCompatibilityMinor"]) == ("1", "38", "37")
    assert found["gitVersion"] == "v1.38.0+reprieve"
    assert all(isinstance(value, str) for value in found.values())
