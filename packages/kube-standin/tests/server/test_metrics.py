"""``/metrics``: the names, labels and buckets that dashboards of kube-apiserver ask for, with true values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kube_standin.kinds import KindTable
from kube_standin.registry import ObjectRegistry
from kube_standin.server.control_plane import ServeOptions
from kube_standin.server.metrics import MOST_SERIES, Labels, ServerMetrics, labels_of
from kube_standin.server.target import read_target
from kube_standin.storage import Store
from tests.server.live import Live, config_map, live, pod
from tests.waiting import DEADLINE, eventually

PODS = "/api/v1/namespaces/default/pods"
SCALED = "/apis/apps/v1/namespaces/d/deployments/a/scale"
MERGE = "application/merge-patch+json"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def plane() -> Iterator[Live]:
    with live(ServeOptions(anonymous=True)) as running:
        yield running


def scraped(plane: Live) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Every sample by its name."""
    status, body, headers = plane.request("GET", "/metrics")
    assert status == 200
    assert headers["content-type"].startswith("text/plain; version=0.0.4")
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(body.decode()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def value(plane: Live, name: str, **labels: str) -> float:
    """The sum of the samples that have these labels."""
    return sum(number for own, number in scraped(plane).get(name, []) if labels.items() <= own.items())


def test_requests_are_counted_with_the_labels_of_kube_apiserver(plane: Live) -> None:
    plane.request("POST", f"{CONFIG_MAPS}?dryRun=All", config_map("dry"))
    plane.request("POST", CONFIG_MAPS, config_map("counted"))
    plane.request("POST", CONFIG_MAPS, config_map("counted"))
    one = {"verb": "POST", "group": "", "version": "v1", "resource": "configmaps", "subresource": "",
           "scope": "resource", "component": "apiserver"}  # fmt: skip
    total = "apiserver_request_total"
    eventually(lambda: value(plane, total, **one, dry_run="", code="409") == 1)
    eventually(lambda: value(plane, total, **one, dry_run="", code="201") == 1)
    eventually(lambda: value(plane, total, **one, dry_run="All", code="201") == 1)
    seconds = "apiserver_request_duration_seconds"
    eventually(lambda: value(plane, f"{seconds}_count", **one, dry_run="") == 2)
    samples = scraped(plane)
    buckets = [own["le"] for own, _ in samples[f"{seconds}_bucket"] if {**one, "dry_run": ""}.items() <= own.items()]
    assert [float(bound) for bound in buckets] == [
        0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60,
        float("inf"),
    ]  # fmt: skip
    assert {*samples[total][0][0]} == {*one, "dry_run", "code"}


LABELS: dict[str, tuple[str, str, str, tuple[str, str, str, str, str, str]]] = {
    "get": ("GET", f"{PODS}/a", "", ("GET", "", "v1", "pods", "", "resource")),
    "list in a namespace": ("GET", PODS, "", ("LIST", "", "v1", "pods", "", "namespace")),
    "list in the cluster": ("GET", "/api/v1/pods", "", ("LIST", "", "v1", "pods", "", "cluster")),
    "watch": ("GET", f"{PODS}?watch=1", "", ("WATCH", "", "v1", "pods", "", "namespace")),
    "the old watch": ("GET", f"/api/v1/watch{PODS[7:]}", "", ("WATCH", "", "v1", "pods", "", "namespace")),
    "bind": ("POST", f"{PODS}/a/binding", "", ("POST", "", "v1", "pods", "binding", "resource")),
    "update": ("PUT", SCALED, "", ("PUT", "apps", "v1", "deployments", "scale", "resource")),
    "patch": ("PATCH", f"{PODS}/a/status", MERGE, ("PATCH", "", "v1", "pods", "status", "resource")),
    "apply": ("PATCH", f"{PODS}/a", "application/apply-patch+yaml", ("APPLY", "", "v1", "pods", "", "resource")),
    "delete": ("DELETE", f"{PODS}/a", "", ("DELETE", "", "v1", "pods", "", "resource")),
    "delete all": ("DELETE", PODS, "", ("DELETECOLLECTION", "", "v1", "pods", "", "namespace")),
    "an unknown resource": ("GET", "/apis/made.up/v1/things", "", ("LIST", "", "", "", "", "cluster")),
    "an unknown subresource": ("GET", f"{PODS}/a/made-up", "", ("GET", "", "v1", "pods", "", "resource")),
    "an unknown method": ("MADEUP", f"{PODS}/a", "", ("other", "", "v1", "pods", "", "resource")),
    "a known path": ("GET", "/readyz/", "", ("GET", "", "", "", "/readyz", "")),
    "an unknown path": ("GET", "/made/up", "", ("GET", "", "", "", "", "")),
}  # fmt: skip


@pytest.mark.parametrize("case", LABELS)
def test_request_is_counted_as(case: str) -> None:
    method, url, content_type, (verb, group, version, resource, subresource, scope) = LABELS[case]
    path, _, query = url.partition("?")
    target = read_target(method, path, query.encode())
    kind = KindTable().at(target.group, target.version, target.resource) if target.resource else None
    found = labels_of(target, kind, content_type, query.encode(), ("/readyz",))
    assert found == Labels(verb, "", group, version, resource, subresource, scope)


@pytest.mark.parametrize(
    ("query", "dry_run"),
    [(b"", ""), (b"dryRun=", ""), (b"dryRun=All", "All"), (b"dryRun=All&dryRun=All", "All"), (b"dryRun=x", "invalid")],
)
def test_dry_runs_are_counted_apart(query: bytes, dry_run: str) -> None:
    target = read_target("POST", PODS, query)
    assert labels_of(target, None, "", query, ()).dry_run == dry_run


def test_metrics_have_no_series_for_what_clients_make_up(plane: Live) -> None:
    plane.request("GET", "/made/up/0")
    plane.request("GET", "/apis/made.up/v1/things0")
    plane.request("GET", PODS, token="wrong")
    eventually(lambda: value(plane, "apiserver_request_total", code="401", resource="pods") >= 1)
    before = len(scraped(plane)["apiserver_request_total"])
    for number in range(1, 20):
        plane.request("GET", f"/made/up/{number}")
        plane.request("GET", f"/apis/made.up{number}/v1/things{number}/x/sub{number}")
        plane.request("GET", f"{PODS}/x/made-up-{number}")
    assert len(scraped(plane)["apiserver_request_total"]) <= before + 4


def test_series_are_bounded_whatever_is_defined() -> None:
    metrics = ServerMetrics(ObjectRegistry(Store()))
    for number in range(MOST_SERIES + 500):
        labels = Labels("GET", "", f"g{number}", "v1", "things", "", "resource")
        metrics.end(metrics.begin(labels), 200)
    samples = [one for family in metrics.collect() if family.name == "apiserver_request" for one in family.samples]
    assert len(samples) <= MOST_SERIES + 5
    assert sum(one.value for one in samples) == MOST_SERIES + 500


def test_watches_and_their_events_are_counted(plane: Live) -> None:
    import urllib.request

    lasting = "apiserver_longrunning_requests"
    labels = {"verb": "WATCH", "group": "", "version": "v1", "resource": "pods", "scope": "namespace"}
    before = value(plane, "apiserver_watch_events_total", group="", version="v1", resource="pods")
    headers = {"Authorization": f"Bearer {plane.server.keys.admin_token}"}
    request = urllib.request.Request(f"{plane.url}{PODS}?watch=1&resourceVersion=0", headers=headers)
    with urllib.request.urlopen(request, context=plane.context, timeout=DEADLINE) as stream:
        assert plane.request("POST", PODS, pod("watched"))[0] == 201
        stream.readline()
        assert value(plane, lasting, **labels) == 1
        assert value(plane, "apiserver_request_total", **labels) == 0
    eventually(lambda: value(plane, lasting, **labels) == 0)
    assert value(plane, "apiserver_watch_events_total", group="", version="v1", resource="pods") >= before + 1
    eventually(lambda: value(plane, "apiserver_request_total", code="200", **labels) == 1)


def test_requests_in_flight_and_objects_are_read_at_each_scrape(plane: Live) -> None:
    def inflight() -> dict[str, float]:
        found = scraped(plane)["apiserver_current_inflight_requests"]
        return {labels["request_kind"]: number for labels, number in found}

    eventually(lambda: inflight() == {"readOnly": 1, "mutating": 0})  # the scrape itself, once all before have ended
    found = scraped(plane)
    spaces = len(plane.request("GET", "/api/v1/namespaces")[1]["items"])
    objects: dict[Any, float] = {
        (labels["group"], labels["resource"]): number for labels, number in found["apiserver_resource_objects"]
    }
    assert objects[("", "namespaces")] == spaces
    assert objects[("scheduling.k8s.io", "podgroups")] == 0
    assert value(plane, "apiserver_storage_objects", resource="namespaces") == spaces
    assert value(plane, "apiserver_storage_objects", resource="priorityclasses.scheduling.k8s.io") == 2
    assert found["process_resident_memory_bytes"][0][1] > 1e6


def test_metrics_need_the_right_to_read_them(plane: Live) -> None:
    assert plane.request("GET", "/metrics", token="reader")[0] == 200
    assert plane.request("GET", "/metrics", token="wrong")[0] == 401
    status, body, _ = plane.request("GET", "/metrics", token=None)
    assert (status, 'cannot get path "/metrics"' in body["message"]) == (403, True)
    as_jane = {"Impersonate-User": "jane"}
    assert plane.request("GET", "/metrics", headers=as_jane)[0] == 403
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    role = {"metadata": {"name": "scraper"}, "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]}
    binding = {
        "metadata": {"name": "scraper"},
        "roleRef": {"kind": "ClusterRole", "name": "scraper"},
        "subjects": [{"kind": "User", "name": "jane"}],
    }
    assert plane.request("POST", f"{rbac}/clusterroles", role)[0] == 201
    assert plane.request("POST", f"{rbac}/clusterrolebindings", binding)[0] == 201
    assert plane.request("GET", "/metrics", headers=as_jane)[0] == 200
