"""What is where: resources and their verbs, health, discovery and OpenAPI, as kube-apiserver has them (api.md 5.2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kube_standin import openapi
from kube_standin.features import EVERY_RELEASE
from tests.server.inprocess import Plane, running
from tests.server.live import pod

Json = dict[str, Any]
MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
NO_RESOURCE = "the server could not find the requested resource"
NO_METHOD = "the server does not allow this method on the requested resource"


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    """With a pod `there`."""
    with running(features=EVERY_RELEASE) as made:
        made.create(PODS, pod("there"))
        yield made


@pytest.mark.parametrize(
    ("line", "status", "message"),
    [
        ("GET /apis/made.up/v1/things", 404, None),
        ("GET /apis/apps/v1/things", 404, NO_RESOURCE),
        ("GET /apis/apps/v9/deployments", 404, NO_RESOURCE),
        ("GET /api/v1/namespaces/default/nodes", 404, NO_RESOURCE),
        ("GET /api/v1/namespaces/default/namespaces", 404, NO_RESOURCE),
        ("GET /api/v1/namespaces/default/namespaces/kube-system", 404, NO_RESOURCE),
        ("DELETE /api/v1/namespaces/default/namespaces/kube-system", 404, NO_RESOURCE),
        ("GET /api/v1/namespaces/default/status", 200, None),
        (f"GET {PODS}/there/log", 204, None),
        (f"GET {PODS}/there/scale", 404, NO_RESOURCE),
        (f"HEAD {PODS}/there", 405, None),
        (f"OPTIONS {PODS}/there", 405, NO_METHOD),
        (f"POST {PODS}/there", 405, NO_METHOD),
        (f"PUT {PODS}", 405, NO_METHOD),
        (f"PATCH {PODS}", 405, NO_METHOD),
        ("DELETE /api/v1/namespaces", 405, NO_METHOD),
        ("DELETE /api/v1/pods", 405, NO_METHOD),
        ("POST /api/v1/pods", 405, NO_METHOD),
        ("GET /api/v1/pods", 200, None),
        (f"GET {PODS}/there/binding", 405, NO_METHOD),
        (f"GET {PODS}/there/status", 200, None),
        (f"POST {PODS}/there/status", 405, NO_METHOD),
        (f"DELETE {PODS}/there/status", 405, NO_METHOD),
        ("GET /api/v1/namespaces/default", 200, None),
        ("GET /apis/authentication.k8s.io/v1/tokenreviews", 405, NO_METHOD),
        ("GET /apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical", 200, None),
        (f"GET {MAPS}/absent", 404, 'configmaps "absent" not found'),
        ("GET /apis/apps/v1/namespaces/default/deployments/absent", 404, 'deployments.apps "absent" not found'),
    ],
)
def test_paths_lead_to(plane: Plane, line: str, status: int, message: str | None) -> None:
    answer = plane.ask(line, raw=b"")
    assert answer.status == status
    if message is not None:
        assert answer.refusal[2] == message


def test_group_that_is_not_served_is_plainly_not_found(plane: Plane) -> None:
    answer = plane.ask("GET /apis/made.up/v1/things")
    assert (answer.status, answer.body) == (404, b"404 page not found\n")
    assert answer.header("content-type") == "text/plain; charset=utf-8"


# -- paths that are no resource --------------------------------------------------------------------------------


_HOOKS = """start-apiserver-admission-initializer generic-apiserver-start-informers
    priority-and-fairness-config-consumer priority-and-fairness-config-producer priority-and-fairness-filter
    start-apiextensions-informers start-apiextensions-controllers crd-informer-synced start-system-namespaces-controller
    start-cluster-authentication-info-controller start-service-ip-repair-controllers rbac/bootstrap-roles
    scheduling/bootstrap-system-priority-classes bootstrap-controller start-kubernetes-service-cidr-controller
    start-kube-aggregator-informers apiservice-registration-controller apiservice-status-local-available-controller
    apiservice-status-remote-available-controller kube-apiserver-autoregistration"""
CHECKS = (
    *("ping", "log", "etcd", "informer-sync"),
    *(f"poststarthook/{hook}" for hook in _HOOKS.split()),
    "autoregister-completion",
    *(f"poststarthook/apiservice-openapi{version}-controller" for version in ("", "v3")),
    "shutdown",
)


HOOKS = """start-apiserver-admission-initializer generic-apiserver-start-informers start-apiextensions-informers
    start-apiextensions-controllers crd-informer-synced bootstrap-controller start-system-namespaces-controller
    scheduling/bootstrap-system-priority-classes start-cluster-authentication-info-controller
    start-kube-aggregator-informers apiservice-registration-controller apiservice-status-local-available-controller
    apiservice-status-remote-available-controller kube-apiserver-autoregistration apiservice-openapi-controller"""


@pytest.mark.parametrize("name", ["healthz", "livez", "readyz"])
def test_health_has_the_checks_that_a_spec_reads(plane: Plane, name: str) -> None:
    """health_handlers.go, "should contain necessary checks", with the names of 1.36."""
    checks = ["ping", "log", "etcd", "autoregister-completion", *(f"poststarthook/{hook}" for hook in HOOKS.split())]
    lines = plane.ask(f"GET /{name}?verbose=1").body.decode().splitlines()
    assert {f"[+]{check} ok" for check in checks} <= set(lines)


@pytest.mark.parametrize("name", ["healthz", "livez", "readyz"])
def test_health(plane: Plane, name: str) -> None:
    for path in (name, f"{name}/", *(f"{name}/{check}" for check in CHECKS)):
        answer = plane.ask(f"GET /{path}")
        assert (answer.status, answer.body, answer.header("content-type")) == (200, b"ok", "text/plain; charset=utf-8")
    for path in ("made-up", "poststarthook", "ping/x"):
        assert plane.ask(f"GET /{name}/{path}").status == 404
    lines = "".join(f"[+]{check} ok\n" for check in CHECKS)
    answer = plane.ask(f"GET /{name}?verbose")
    assert (answer.status, answer.body.decode()) == (200, f"{lines}{name} check passed\n")
    assert answer.header("content-type") == "text/plain; charset=utf-8"
    answer = plane.ask(f"GET /{name}?verbose&exclude=etcd")
    assert answer.body.decode() == f"{lines}{name} check passed\n".replace("etcd ok", "etcd excluded: ok")
    assert plane.ask(f"HEAD /{name}").pieces == [b""]
    assert plane.ask(f"POST /{name}").refusal[:2] == (405, "MethodNotAllowed")


def test_server_that_stops_is_not_ready() -> None:
    """But it lives, and is healthy: a failing liveness probe would start another one."""
    with running() as plane:
        plane.app.stopping = True
        answer = plane.ask("GET /readyz")
        assert (answer.status, answer.body) == (500, b"[-]shutdown failed: shutting down\n")
        assert answer.header("content-type") == "text/plain; charset=utf-8"
        assert plane.ask("GET /readyz?verbose").status == 500
        assert [plane.ask(f"GET /{name}").status for name in ("livez", "healthz")] == [200, 200]


def test_paths_of_discovery(plane: Plane) -> None:
    discovery = plane.app.discovery
    for path, document in (
        ("/api", discovery.core_versions()),
        ("/api/", discovery.core_versions()),
        ("/apis", discovery.groups()),
        ("/api/v1", discovery.resources("", "v1")),
        ("/apis/apps", discovery.group("apps")),
        ("/apis/apps/v1", discovery.resources("apps", "v1")),
        ("/apis/apps/v1/", discovery.resources("apps", "v1")),
    ):
        answer = plane.ask(f"GET {path}")
        assert (answer.status, answer.json) == (200, document)
    assert plane.ask("GET /version").json["major"] == "1"
    for path in ("/api/v9", "/apis/apps/v9"):
        assert plane.ask(f"GET {path}").refusal == (404, "NotFound", NO_RESOURCE)
    unknown = ("/apis/made.up", "/apis/made.up/v1", "/made/up", "/openapi", "/openapi/v4", "/health")
    for path in (*unknown, "/other/v1", "/other/apps", "/other/apps/v1"):
        answer = plane.ask(f"GET {path}")
        assert (answer.status, answer.body) == (404, b"404 page not found\n"), path


def test_root_names_what_there_is(plane: Plane) -> None:
    for path in ("/", "//", ""):
        answer = plane.ask(f"GET {path}")
        paths = answer.json["paths"]
        assert answer.status == 200
        assert paths == sorted(set(paths))
        assert {"/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/healthz", "/metrics", "/version"} <= {
            *paths
        }
        assert {"", "/"}.isdisjoint(paths)
        assert {f"/apis/scheduling.k8s.io/{version}" for version in ("v1", "v1beta1", "v1alpha3", "v1alpha2")} <= {
            *paths
        }


@pytest.mark.parametrize("version", ["v2", "v2beta1"])
def test_aggregated_form_is_for_clients_that_ask_for_it(plane: Plane, version: str) -> None:
    form = f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
    for path, core in (("/api", True), ("/apis", False), ("/api/", True)):
        answer = plane.ask(f"GET {path}", accept=form)
        assert (answer.status, answer.json) == (200, plane.app.discovery.aggregated(core, version))
        assert (
            answer.header("content-type")
            == f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
        )
        assert answer.header("vary") == "Accept"
        assert plane.ask(f"GET {path}").header("vary") is None


OPENAPI_PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"


def test_paths_of_openapi(plane: Plane) -> None:
    answer = plane.ask("GET /openapi/v2")
    assert answer.json["swagger"] == "2.0"
    assert answer.header("content-type") == "application/json"
    packed = plane.ask("GET /openapi/v2", accept=OPENAPI_PROTOBUF.replace("/", "/ "))
    assert packed.header("content-type") == "application/octet-stream"
    assert packed.body.startswith(b"\x0a\x032.0")
    index = plane.ask("GET /openapi/v3").json["paths"]
    assert {"api/v1", "apis/apps/v1"} <= set(index)
    for path in ("api/v1", "apis/apps/v1"):
        answer = plane.ask(f"GET {index[path]['serverRelativeURL']}")
        assert (answer.json["openapi"], answer.header("vary")) == ("3.0.0", "Accept")
        assert all(one.startswith(f"/{path}/") for one in answer.json["paths"])
    for path in ("api", "api/v9", "apis/apps", "apis/apps/v9", "apis//v1", "apis/apps/v1/x", "made/up", ""):
        assert plane.ask(f"GET /openapi/v3/{path}").status == (200 if not path else 404)


def test_documents_follow_what_is_served() -> None:
    with running() as plane:
        before = plane.ask("GET /openapi/v3").body
        assert plane.ask("GET /openapi/v3/api/v1").status == 200
        assert plane.ask("GET /openapi/v3").body == before
        crd = definition("widgets", "Widget")
        assert plane.ask("POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd).status == 201
        form = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        assert "apis/example.com/v1" in plane.ask("GET /openapi/v3").json["paths"]
        assert b"example.com" in plane.ask("GET /apis", accept=form).body
        assert b"example.com" not in plane.ask("GET /api", accept=form).body
        assert "/apis/example.com/v1/namespaces/{namespace}/widgets" in plane.ask("GET /openapi/v2").json["paths"]
        assert plane.ask("GET /openapi/v3/apis/example.com/v1").status == 200
        assert "/apis/example.com/v1" in plane.ask("GET /").json["paths"]
        assert len(plane.app._documents) == 5, "those of the table before are gone"


def test_document_is_made_once_for_what_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    index = openapi.v3_index

    def noted(*given: Any) -> Json:
        made.append("v3")
        return index(*given)

    monkeypatch.setattr(openapi, "v3_index", noted)
    with running() as plane:
        for _ in range(3):
            assert plane.ask("GET /openapi/v3").status == 200
        assert made == ["v3"]
        crd = definition("widgets", "Widget")
        assert plane.ask("POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd).status == 201
        plane.ask("GET /openapi/v3")
        assert made == ["v3", "v3"]


def definition(plural: str, kind: str, **version: Any) -> Json:
    return {
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                    **version,
                }
            ],
        },
    }
