"""Bodies, bounds and forms of answers, over the wire. Each case names the recorded answer it follows."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator

import pytest

from kube_standin.features import EVERY_RELEASE
from kube_standin.server.control_plane import ServeOptions
from tests.server.live import Live, config_map, live, pod

PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def plane() -> Iterator[Live]:
    with live(ServeOptions(features=EVERY_RELEASE)) as running:
        yield running


@pytest.mark.parametrize(
    ("raw", "content_type", "status", "reason"),
    [
        (b"", "application/json", 400, "BadRequest"),  # 071
        (b"[]", "application/json", 400, "BadRequest"),  # 072
        (b'{"a":' * 5000 + b"1" + b"}" * 5000, "application/json", 400, "BadRequest"),
        (b"[" * 100_000, "application/json", 400, "BadRequest"),
        (b"a: &a [x]\n" + b"".join(b"%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c]\n" % (
            c, c, *([c - 1] * 6)) for c in range(98, 110)), "application/yaml", 400, "BadRequest"),
        (b"[" * 5000 + b"]" * 5000, "application/yaml", 400, "BadRequest"),
        (b"\xff\xfe", "application/json", 400, "BadRequest"),
        (b"hello", "text/plain", 415, "UnsupportedMediaType"),  # 059
        (b"k8s\x00\xff\xff\xff", "application/vnd.kubernetes.protobuf", 415, "UnsupportedMediaType"),
        (b'{"metadata":{"name":"x"},"data":{"a":"' + b"x" * 3_200_000 + b'"}}', "application/json", 413,
         "RequestEntityTooLarge"),  # 177
    ],
)  # fmt: skip
def test_bad_bodies(plane: Live, raw: bytes, content_type: str, status: int, reason: str) -> None:
    got, body, _ = plane.request("POST", MAPS, raw=raw, headers={"Content-Type": content_type})
    assert (got, body["reason"]) == (status, reason), body


def test_large_lists_are_compressed_on_request(plane: Live) -> None:
    for number in range(6):
        assert plane.request("POST", MAPS, config_map(f"big{number}", a="x" * 60_000))[0] == 201
    _, plain, headers = plane.request("GET", MAPS)
    assert "content-encoding" not in headers
    _, packed, headers = plane.request("GET", MAPS, headers={"Accept-Encoding": "gzip"})
    assert headers["content-encoding"] == "gzip"
    assert len(packed) < 50_000
    assert json.loads(gzip.decompress(packed)) == plain


def test_versions_of_a_pod_group_are_one_object(plane: Live) -> None:
    """api.md: one internal form, three served versions."""
    base = "/apis/scheduling.k8s.io/{}/namespaces/default/podgroups"
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}, "disruptionMode": {"all": {}}}
    group = {"metadata": {"name": "pg"}, "spec": spec}
    status, made, _ = plane.request("POST", base.format("v1beta1"), group)
    assert status == 201, made
    _, old, _ = plane.request("GET", base.format("v1alpha2") + "/pg")
    assert (old["apiVersion"], old["spec"]["disruptionMode"]) == ("scheduling.k8s.io/v1alpha2", "PodGroup")
    _, middle, _ = plane.request("GET", base.format("v1alpha3"))
    assert [item["spec"]["disruptionMode"] for item in middle["items"]] == [{"all": {}}]
    patch = {"metadata": {"labels": {"a": "b"}}}
    headers = {"Content-Type": "application/merge-patch+json"}
    status, patched, _ = plane.request("PATCH", base.format("v1alpha2") + "/pg", patch, headers=headers)
    assert status == 200, patched
    _, new, _ = plane.request("GET", base.format("v1beta1") + "/pg")
    assert (new["spec"]["disruptionMode"], new["metadata"]["labels"]) == ({"all": {}}, {"a": "b"})


def test_both_groups_of_event_are_one_object(plane: Live) -> None:
    event = {
        "metadata": {"name": "e1"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
        "reason": "R",
        "message": "m",
        "type": "Normal",
    }
    assert plane.request("POST", "/api/v1/namespaces/default/events", event)[0] == 201
    _, body, _ = plane.request("GET", "/apis/events.k8s.io/v1/namespaces/default/events/e1")
    assert (body["note"], body["regarding"]["name"]) == ("m", "p")


def test_scale(plane: Live) -> None:
    path = "/apis/apps/v1/namespaces/default/deployments"
    spec = {
        "replicas": 2,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    }
    status, made, _ = plane.request("POST", path, {"metadata": {"name": "d"}, "spec": spec})
    assert status == 201, made
    _, scale, _ = plane.request("GET", f"{path}/d/scale")
    assert (scale["kind"], scale["spec"], scale["status"]["selector"]) == ("Scale", {"replicas": 2}, "a=b")
    scale["spec"]["replicas"] = 5
    assert plane.request("PUT", f"{path}/d/scale", scale)[0] == 200
    assert plane.request("PUT", f"{path}/d/scale", scale)[1]["reason"] == "Conflict"
    headers = {"Content-Type": "application/merge-patch+json"}
    _, patched, _ = plane.request("PATCH", f"{path}/d/scale", {"spec": {"replicas": 7}}, headers=headers)
    assert patched["spec"]["replicas"] == 7
    _, deployment, _ = plane.request("GET", f"{path}/d")
    assert (deployment["spec"]["replicas"], deployment["metadata"]["generation"]) == (7, 3)
    assert plane.request("PATCH", f"{path}/d/scale", {"spec": {"replicas": -1}}, headers=headers)[0] == 422


def test_unexpected_fault_is_a_500_status_and_the_server_goes_on(
    plane: Live, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(plane.server.control_plane.registry, "create_now", fail)
    status, body, _ = plane.request("POST", PODS, pod("x"))
    assert (status, body["reason"]) == (500, "InternalError")
    assert "boom" not in body["message"]
    monkeypatch.undo()
    assert plane.request("POST", PODS, pod("x"))[0] == 201


def test_custom_resources_are_served_at_once_and_go_with_their_definition(plane: Live) -> None:
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer", "minimum": 1}}}},
    }
    crd = {
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {
                        "status": {},
                        "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
                    },
                }
            ],
        },
    }
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    path = "/apis/example.com/v1/namespaces/default/widgets"
    assert plane.request("GET", path)[0] == 404
    status, made, _ = plane.request("POST", definitions, crd)
    assert status == 201, made
    assert plane.request("POST", path, {"metadata": {"name": "w"}, "spec": {"size": 0}})[0] == 422
    status, body, _ = plane.request("POST", path, {"metadata": {"name": "w"}, "spec": {"size": 3}})
    assert (status, body["apiVersion"], body["metadata"]["generation"]) == (201, "example.com/v1", 1)
    assert plane.request("GET", f"{path}/w/scale")[1]["spec"]["replicas"] == 3
    groups = plane.request("GET", "/apis")[1]["groups"]
    assert "example.com" in [group["name"] for group in groups]
    clash = json.loads(json.dumps(crd).replace("widgets", "gadgets"))
    plane.request("POST", definitions, clash)
    _, refused, _ = plane.request("GET", f"{definitions}/gadgets.example.com")
    accepted = {c["type"]: (c["status"], c["reason"]) for c in refused["status"]["conditions"]}
    assert accepted["NamesAccepted"] == ("False", "ListKindConflict")
    assert plane.request("DELETE", f"{definitions}/widgets.example.com")[0] == 200
    for _ in range(200):
        if plane.request("GET", f"{definitions}/widgets.example.com")[0] == 404:
            break
    assert plane.request("GET", path)[0] == 404


@pytest.mark.parametrize(
    "path",
    [
        "/apis/custom.metrics.k8s.io/v1beta2",
        "/apis/external.metrics.k8s.io/v1beta1",
        "/apis/certificates.k8s.io/v1beta1/clustertrustbundles",
        "/api/v1/namespaces/default/pods/a/proxy",
    ],
)
def test_paths_documented_as_not_served_are_404(plane: Live, path: str) -> None:
    """The table "What it is not" of docs/apiserver.md."""
    assert plane.request("GET", path)[0] == 404


CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
APPLY = {"Content-Type": "application/apply-patch+yaml"}


def test_priority_class_without_a_value_is_refused_or_warned_of(plane: Live) -> None:
    """Strict validation is what kubectl asks for; without it the recorded answer of kube-apiserver holds (095)."""
    body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "worthless"}}
    refused = 'PriorityClass.scheduling.k8s.io "worthless" is invalid: value: Required value'
    status, answer, _ = plane.request("POST", f"{CLASSES}?fieldValidation=Strict", body)
    assert (status, answer["message"]) == (422, refused)
    where = f"{CLASSES}/worthless?fieldManager=m&fieldValidation=Strict"
    status, answer, _ = plane.request("PATCH", where, body, headers=APPLY)
    assert (status, answer["message"]) == (422, refused)
    status, answer, headers = plane.request("POST", f"{CLASSES}?dryRun=All", body)
    assert (status, answer["value"], "value: Required value" in headers["warning"]) == (201, 0, True)
    assert plane.request("POST", f"{CLASSES}?fieldValidation=Strict", body | {"value": 0})[0] == 201
    assert plane.request("PUT", f"{CLASSES}/worthless?fieldValidation=Strict", body)[0] == 422


@pytest.mark.parametrize(
    ("path", "holder"),
    [
        ("/api/v1/namespaces/default/pods", "spec"),
        ("/apis/batch/v1/namespaces/default/jobs", "spec.template.spec"),
    ],
)
def test_field_that_was_replaced_names_what_replaces_it(plane: Live, path: str, holder: str) -> None:
    body = pod("a")
    body["spec"] |= {"workloadRef": {"name": "w", "podGroup": "g"}, "restartPolicy": "Never"}
    if holder != "spec":
        body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": {"template": body}}
        body["spec"]["template"] = {"spec": body["spec"]["template"]["spec"]}
    said = f'unknown field "{holder}.workloadRef", did you mean "{holder}.schedulingGroup"?'
    status, answer, _ = plane.request("POST", f"{path}?fieldValidation=Strict", body)
    assert (status, f"strict decoding error: {said}" in answer["message"]) == (400, True), answer
    status, _, headers = plane.request("POST", f"{path}?dryRun=All", body)
    assert (status, said in headers["warning"].replace("\\", "")) == (201, True), headers
    status, answer, _ = plane.request("PATCH", f"{path}/a?fieldManager=m", body, headers=APPLY)
    declared = f'.{holder}.workloadRef: field not declared in schema, did you mean "{holder}.schedulingGroup"?'
    assert declared in answer["message"], answer
    body["spec"]["alsoNot"] = 1
    status, answer, _ = plane.request("POST", f"{path}?fieldValidation=Strict", body)
    assert 'unknown field "spec.alsoNot"' in answer["message"]
    assert 'unknown field "spec.alsoNot", did' not in answer["message"]


def test_binding_clears_the_nomination(plane: Live) -> None:
    """On since 1.35 (ClearingNominatedNodeNameAfterBinding): what was hoped for is over once the pod has its node."""
    path = "/api/v1/namespaces/default/pods"
    assert plane.request("POST", path, pod("nominated"))[0] == 201
    merge = {"Content-Type": "application/merge-patch+json"}
    status, hoping, _ = plane.request(
        "PATCH", f"{path}/nominated/status", {"status": {"nominatedNodeName": "n1"}}, headers=merge
    )
    assert (status, hoping["status"]["nominatedNodeName"]) == (200, "n1")
    assert plane.request("POST", f"{path}/nominated/binding", {"target": {"kind": "Node", "name": "n2"}})[0] == 201
    bound = plane.request("GET", f"{path}/nominated")[1]
    assert (bound["spec"]["nodeName"], bound["status"].get("nominatedNodeName")) == ("n2", None)


@pytest.mark.parametrize(
    ("change", "status"),
    [
        pytest.param({"metadata": {"labels": {"a b": "c"}}, "spec": {"nonsense": 1}}, 422, id="refused"),
        pytest.param({"metadata": {"labels": {"a": "c"}}, "spec": {"nonsense": 1}}, 200, id="accepted"),
    ],
)
def test_unknown_field_is_warned_of_whether_the_rest_is_refused_or_not(
    plane: Live, change: dict[str, object], status: int
) -> None:
    """api.md 5; recorded of a kube-apiserver 1.36.2: Warning headers go out with a 422 as with a 200."""
    plane.request("POST", PODS, pod("warned"))
    headers = {"Content-Type": "application/merge-patch+json"}
    got, _, answer = plane.request("PATCH", f"{PODS}/warned", change, headers=headers)
    assert (got, "spec.nonsense" in answer.get("warning", "")) == (status, True)


@pytest.mark.parametrize(
    ("overhead", "status"), [pytest.param({}, 403, id="nothing"), pytest.param(None, 201, id="not stated")]
)
def test_overhead_is_refused_even_without_a_resource(plane: Live, overhead: dict[str, str] | None, status: int) -> None:
    """api.md 5; recorded of a kube-apiserver 1.36.2. A PUT of a pod with it changes nothing."""
    body = pod(f"overhead-{status}")
    body["spec"]["overhead"] = overhead
    assert plane.request("POST", PODS, body)[0] == status
    if status == 201:
        _, made, _ = plane.request("GET", f"{PODS}/overhead-201")
        made["spec"]["overhead"] = {}
        got, after, _ = plane.request("PUT", f"{PODS}/overhead-201", made)
        assert (got, "overhead" in after["spec"]) == (200, False)


def test_token_review_asks_of_a_token(plane: Live) -> None:
    """api.md 5: 400 without one, as a kube-apiserver 1.36.2 answers."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {}}
    status, answer, _ = plane.request("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review)
    assert (status, answer["message"]) == (400, "token is required for TokenReview in authentication")


@pytest.mark.parametrize(
    ("status", "addresses"),
    [
        pytest.param({"podIP": "10.0.0.1"}, ("10.0.0.1", [{"ip": "10.0.0.1"}]), id="one"),
        pytest.param({"podIPs": [{"ip": "10.0.0.2"}]}, ("10.0.0.2", [{"ip": "10.0.0.2"}]), id="the list"),
    ],
)
def test_two_fields_of_a_pods_address_agree(
    plane: Live, status: dict[str, object], addresses: tuple[str, list[dict[str, str]]]
) -> None:
    """Conversions of core/v1: a write of one of them writes both."""
    name = f"addressed-{addresses[0].rpartition('.')[2]}"
    plane.request("POST", PODS, pod(name))
    headers = {"Content-Type": "application/merge-patch+json"}
    _, after, _ = plane.request("PATCH", f"{PODS}/{name}/status", {"status": status}, headers=headers)
    assert (after["status"]["podIP"], after["status"]["podIPs"]) == addresses


@pytest.mark.parametrize("collection", [False, True])
@pytest.mark.parametrize(
    ("kind", "query", "warned"),
    [("jobs", "", True), ("jobs", "?propagationPolicy=Background", False), ("jobs", "?orphanDependents=true", False),
     ("cronjobs", "", False)],
)  # fmt: skip
def test_deleting_a_job_warns_that_its_pods_stay(
    plane: Live, kind: str, query: str, warned: bool, collection: bool
) -> None:
    """api.md 6.2: as kube-apiserver warns clients that do not say what happens to them (kubectl does)."""
    base = f"/apis/batch/v1/namespaces/default/{kind}"
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    spec: dict[str, object] = {"template": template}
    if kind == "cronjobs":
        spec = {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": spec}}
    assert plane.request("POST", base, {"metadata": {"name": "j"}, "spec": spec})[0] == 201
    status, _, headers = plane.request("DELETE", base + query if collection else f"{base}/j{query}")
    assert status == 200
    text = "child pods are preserved by default when jobs are deleted"
    assert (text in headers.get("warning", "")) is warned
    plane.request("PATCH", f"{base}/j", {"metadata": {"finalizers": None}},
                  headers={"Content-Type": "application/merge-patch+json"})  # fmt: skip
