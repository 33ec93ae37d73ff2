"""Which version of a kind is used, on servers new and old (api.md "four served versions", "Clusters
without Workload/PodGroup in the API")."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web

from reprieve.client.discovery import Resource, ServedResources, discover
from reprieve.client.errors import ApiError, UnreachableError
from tests.client.scripted import Reply, client_of, scripted, status, text

NATIVE = "scheduling.k8s.io"
OWN = "scheduling.reprieve.dev"
OTHER = "scheduling.x-k8s.io"

Table = dict[str, dict[str, list[tuple[str, str, bool]]]]
CORE: Table = {"": {"v1": [("pods", "Pod", True), ("nodes", "Node", False)]}}


def with_groups(**versions: list[str]) -> Table:
    """A server with PodGroup (and Workload) in versions of groups."""
    groups = {"native": NATIVE, "own": OWN, "other": OTHER}
    table = dict(CORE)
    for name, listed in versions.items():
        kinds = [("podgroups", "PodGroup", True)] + ([] if name == "other" else [("workloads", "Workload", True)])
        table[groups[name]] = dict.fromkeys(listed, kinds)
    return table


def server(table: Table, *, aggregated: bool) -> Reply:
    def group(name: str) -> dict[str, Any]:
        versions = [
            {
                "version": version,
                "resources": [
                    {
                        "resource": plural,
                        "responseKind": {"group": name, "version": version, "kind": kind},
                        "scope": "Namespaced" if namespaced else "Cluster",
                    }
                    for plural, kind, namespaced in kinds
                ],
            }
            for version, kinds in table[name].items()
        ]
        return {"metadata": {"name": name} if name else {}, "versions": versions}

    async def reply(request: web.Request) -> web.StreamResponse:
        path = request.path.strip("/").split("/")
        if path in (["api"], ["apis"]):
            core = path == ["api"]
            names = [name for name in table if (name == "") is core]
            if aggregated and "APIGroupDiscoveryList" in request.headers["Accept"]:
                return web.json_response({"kind": "APIGroupDiscoveryList", "items": [group(name) for name in names]})
            if core:
                return web.json_response({"kind": "APIVersions", "versions": ["v1"]})
            groups = [
                {"name": name, "versions": [{"groupVersion": f"{name}/{v}", "version": v} for v in table[name]]}
                for name in names
            ]
            return web.json_response({"kind": "APIGroupList", "groups": groups})
        name, version = ("", path[1]) if path[0] == "api" else (path[1], path[2])
        if name == "broken.example.com" or version not in table.get(name, {}):
            return web.json_response({"kind": "Status", "code": 404, "reason": "NotFound"}, status=404)
        resources = [{"name": p, "kind": k, "namespaced": n} for p, k, n in table[name][version]]
        resources.append({"name": f"{resources[0]['name']}/status", "kind": resources[0]["kind"], "namespaced": True})
        return web.json_response({"kind": "APIResourceList", "resources": resources})

    return reply


CASES: dict[str, tuple[Table, list[str], str | None]] = {
    # the server's groups -> apiVersions PodGroups are read from, and Workloads
    "the best native version": (
        with_groups(native=["v1alpha2", "v1alpha3", "v1beta1"]),
        [f"{NATIVE}/v1beta1"],
        f"{NATIVE}/v1beta1",
    ),
    "1.38": (
        with_groups(native=["v1alpha3", "v1beta1", "v1"]),
        [f"{NATIVE}/v1"],
        f"{NATIVE}/v1",
    ),
    "1.36 with alpha3": (with_groups(native=["v1alpha2", "v1alpha3"]), [f"{NATIVE}/v1alpha3"], f"{NATIVE}/v1alpha3"),
    "1.36 with alpha2": (with_groups(native=["v1alpha2"]), [f"{NATIVE}/v1alpha2"], f"{NATIVE}/v1alpha2"),
    "custom resources where the API has none": (
        with_groups(native=[], own=["v1beta1"]),
        [f"{OWN}/v1beta1"],
        f"{OWN}/v1beta1",
    ),
    "native before custom, and both": (
        with_groups(own=["v1beta1"], native=["v1alpha2"]),
        [f"{NATIVE}/v1alpha2", f"{OWN}/v1beta1"],
        f"{NATIVE}/v1alpha2",
    ),
    "all three": (
        with_groups(other=["v1alpha1"], own=["v1beta1"], native=["v1beta1", "v1alpha3"]),
        [f"{NATIVE}/v1beta1", f"{OWN}/v1beta1", f"{OTHER}/v1alpha1"],
        f"{NATIVE}/v1beta1",
    ),
    "coscheduling alone": (with_groups(other=["v1alpha1"]), [f"{OTHER}/v1alpha1"], None),
    "coscheduling beside native": (
        with_groups(native=["v1beta1"], other=["v1alpha1"]),
        [f"{NATIVE}/v1beta1", f"{OTHER}/v1alpha1"],
        f"{NATIVE}/v1beta1",
    ),
    "none at all": (CORE, [], None),
    "versions that are not read": (with_groups(native=["v7"]), [], None),
}


@pytest.mark.parametrize("aggregated", [True, False], ids=["aggregated", "one by one"])
@pytest.mark.parametrize("name", CASES)
def test_kubeconfig_entries_that_are_used(name: str, aggregated: bool) -> None:
    table, groups, workload = CASES[name]

    async def run() -> ServedResources:
        async with scripted(server(table, aggregated=aggregated)) as there, client_of(there) as client:
            return await discover(client)

    served = asyncio.run(run())
    assert [found.api_version for found in served.readable("PodGroup")] == groups
    assert [found.api_version for found in served.readable("Workload")][:1] == ([workload] if workload else [])
    assert served.readable("Pod") == (Resource("", "v1", "pods", "Pod", True),)
    assert served.readable("Node")[0].namespaced is False
    assert served.readable("StorageClass") == ()


def test_group_that_is_down_is_reported() -> None:
    """An aggregated API without its server must not hide the others."""

    async def reply(request: web.Request) -> web.StreamResponse:
        if request.path == "/apis/policy/v1":
            return await status(503, "ServiceUnavailable", "away", retry_after=1)(request)
        table = {**CORE, "policy": {"v1": [("poddisruptionbudgets", "PodDisruptionBudget", True)]}}
        return await server(table, aggregated=False)(request)

    async def run() -> ServedResources:
        async with scripted(reply) as there, client_of(there) as client:
            return await discover(client)

    served = asyncio.run(run())
    assert served.readable("Pod")
    assert len(served.unavailable) == 1
    assert served.unavailable[0].startswith("policy/v1: ")


def test_something_that_is_no_api_server() -> None:
    async def run(reply: Any, error: type[Exception], match: str) -> None:
        async with scripted(reply) as there, client_of(there) as client:
            with pytest.raises(error, match=match):
                await discover(client)

    asyncio.run(run(text("<html>"), UnreachableError, "cannot be read"))
    asyncio.run(run(text("not found", 404), ApiError, "not found"))


def test_paths_are_quoted() -> None:
    pods = Resource("", "v1", "pods", "Pod", True)
    assert pods.path() == "/api/v1/pods"
    assert pods.path("team", "a/b", "binding") == "/api/v1/namespaces/team/pods/a%2Fb/binding"
    assert (
        Resource("apps", "v1", "replicasets", "ReplicaSet", True).path("n") == "/apis/apps/v1/namespaces/n/replicasets"
    )
    assert Resource("", "v1", "nodes", "Node", False).path("ignored", "n1") == "/api/v1/nodes/n1"


OTHERS: Table = {
    "apps": {"v1": [("replicasets", "ReplicaSet", True)]},
    "policy": {"v1": [("poddisruptionbudgets", "PodDisruptionBudget", True)]},
    "storage.k8s.io": {"v1": [("storageclasses", "StorageClass", False)]},
}


@pytest.mark.parametrize("missing", OTHERS)
@pytest.mark.parametrize(("code", "passed_over"), [(404, True), (503, True), (403, False), (500, False), (405, False)])
def test_which_group_versions_may_be_missing(missing: str, code: int, passed_over: bool) -> None:
    """One that was removed meanwhile, or has no server; any other refusal is an error."""

    async def reply(request: web.Request) -> web.StreamResponse:
        if request.path == f"/apis/{missing}/v1":
            return await status(code, "No", "not now")(request)
        return await server({**CORE, **OTHERS}, aggregated=False)(request)

    async def run() -> ServedResources:
        async with scripted(reply) as there, client_of(there) as client:
            return await discover(client)

    if passed_over:
        served = asyncio.run(run())
        [reported] = served.unavailable
        assert reported.startswith(f"{missing}/v1: ")
        assert reported.endswith(f"not now ({code} No)")
        kinds = {group: table["v1"][0][1] for group, table in OTHERS.items()}
        assert {group for group, kind in kinds.items() if not served.readable(kind)} == {missing}
        assert len(served.readable("Pod")) == 1
    else:
        with pytest.raises(ApiError, match="not now") as refused:
            asyncio.run(run())
        assert refused.value.code == code


def test_resource_is_called_by_its_plural_and_its_group() -> None:
    assert str(Resource("", "v1", "pods", "Pod", True)) == "pods"
    own = Resource("apps", "v1", "replicasets", "ReplicaSet", True)
    assert (str(own), own.api_version) == ("replicasets.v1.apps", "apps/v1")
    assert Resource("", "v1", "pods", "Pod", True).api_version == "v1"


def test_first_version_that_is_served_is_found_and_what_is_found_later_counts_for_all() -> None:
    old, new = Resource("apps", "v1beta1", "x", "X", True), Resource("apps", "v1", "x", "X", True)
    served = ServedResources([old], ["policy/v1: away"])
    assert served.find("X", ("apps/v1", "apps/v1beta1")) is old
    assert served.find("X", ("apps/v1",)) is served.find("Y", ("apps/v1beta1",)) is None
    held = served
    served.become(ServedResources([old, new]))
    assert (held.find("X", ("apps/v1", "apps/v1beta1")), held.unavailable) == (new, ())


def test_resources_without_a_kind_are_passed_over() -> None:
    """An aggregated document lists parents of subresources that have none."""

    async def reply(request: web.Request) -> web.StreamResponse:
        if request.path == "/apis":
            return web.json_response({"kind": "APIGroupDiscoveryList", "items": [{"metadata": {"name": "apps"}}]})
        resources = [
            {"resource": "odd", "scope": "Namespaced"},
            {"resource": "pods", "responseKind": {"kind": "Pod"}, "scope": "Namespaced"},
        ]
        versions = [{"version": "v1", "resources": resources}, {"version": "v2"}]
        return web.json_response({"kind": "APIGroupDiscoveryList", "items": [{"versions": versions}]})

    async def run() -> ServedResources:
        async with scripted(reply) as there, client_of(there) as client:
            return await discover(client)

    assert asyncio.run(run()).readable("Pod") == (Resource("", "v1", "pods", "Pod", True),)
