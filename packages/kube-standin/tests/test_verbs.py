"""What a write may change and what happens to it: names, versions, generations, doors, deletion; as over HTTP.

Rules and texts: kube-apiserver's generic registry and its strategies (api.md 2 and 5).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.server.inprocess import Plane, running
from tests.server.live import config_map, pod

Json = dict[str, Any]
MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
MERGE, APPLY, JSON_PATCH = "application/merge-patch+json", "application/apply-patch+yaml", "application/json-patch+json"
MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


@pytest.fixture
def plane() -> Iterator[Plane]:
    with running() as made:
        yield made


def budget(name: str) -> Json:
    return {"metadata": {"name": name}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}}


# -- create ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metadata", "name"),
    [
        ({"name": "n"}, "n"),
        ({"generateName": "g-"}, "g-....."),
        ({"name": "n", "generateName": "g-"}, "n"),
        ({"generateName": "g" * 58}, "g" * 58 + "....."),
        ({"generateName": "g" * 59}, "g" * 58 + "....."),
    ],
)
def test_names_are_given_or_generated(plane: Plane, metadata: Json, name: str) -> None:
    """58 characters of the prefix and five more: a label's length."""
    found = plane.create(MAPS, {"metadata": metadata})["metadata"]
    assert re.fullmatch(name, found["name"])
    assert found.get("generateName") == metadata.get("generateName")
    assert plane.ask(f"GET {MAPS}/{found['name']}").status == 200


def test_object_gets_the_defaults_of_its_kind_only(plane: Plane) -> None:
    """Defaults of other kinds are none of it; a pod may say that it has no overhead, which is refused."""
    assert set(plane.create(MAPS, config_map("m", a="b"))) == {"kind", "apiVersion", "metadata", "data"}
    body = pod("p")
    body["spec"]["overhead"] = {}
    assert plane.ask(f"POST {PODS}", body).status == 403


def test_name_is_needed(plane: Plane) -> None:
    code, reason, message = plane.ask(f"POST {MAPS}", {"metadata": {}}).refusal
    assert (code, reason) == (422, "Invalid")
    assert "metadata.name: Required value: name or generateName is required" in message


def test_generated_name_that_is_taken_is_generated_anew(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight times, then it exists already."""
    ends = iter(["aaaaa"] * 2 + ["bbbbb"] + ["aaaaa"] * 20)
    asked = []

    def suffix() -> str:
        asked.append(next(ends))
        return asked[-1]

    monkeypatch.setattr(plane.clock, "suffix", suffix)
    body = {"metadata": {"generateName": "g-"}}
    assert plane.create(MAPS, body)["metadata"]["name"] == "g-aaaaa"
    assert plane.create(MAPS, body)["metadata"]["name"] == "g-bbbbb"
    asked.clear()
    assert plane.ask(f"POST {MAPS}", body).refusal == (409, "AlreadyExists", 'configmaps "g-aaaaa" already exists')
    assert len(asked) == 9


def test_identity_is_the_servers(plane: Plane) -> None:
    """What a client says of uid, times and generation counts for nothing; a resourceVersion is an error."""
    said = {"name": "n", "uid": "mine", "creationTimestamp": "2020-01-01T00:00:00Z", "generation": 7, "selfLink": "/x",
            "deletionTimestamp": "2020-01-01T00:00:00Z", "deletionGracePeriodSeconds": 3}  # fmt: skip
    found = plane.create(MAPS, {"metadata": said})["metadata"]
    assert found["creationTimestamp"] == plane.clock.stamp()
    assert found["uid"] != "mine"
    assert {"selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"}.isdisjoint(found)
    body = {"metadata": {"name": "m", "resourceVersion": "5"}}
    assert plane.ask(f"POST {MAPS}", body).refusal == (
        500,
        None,
        "resourceVersion should not be set on objects to be created",
    )
    for ignored in ("0", "v1", str(2**64)):  # no numbers that a store would have given
        body = {"metadata": {"name": f"m{ignored}", "resourceVersion": ignored}}
        assert plane.create(MAPS, body)["metadata"]["resourceVersion"] != ignored


def test_namespace_is_that_of_the_path(plane: Plane) -> None:
    for namespace in ("", "default"):
        body = {"metadata": {"name": f"n{namespace}", "namespace": namespace}}
        assert plane.create(MAPS, body)["metadata"]["namespace"] == "default"
    differs = "the namespace of the provided object does not match the namespace sent on the request"
    body = {"metadata": {"name": "x", "namespace": "kube-system"}}
    assert plane.ask(f"POST {MAPS}", body).refusal == (400, "BadRequest", differs)
    assert plane.ask(f"PUT {MAPS}/n", body | {"metadata": {"name": "n", "namespace": "x"}}).refusal[2] == differs
    node = plane.create("/api/v1/nodes", {"metadata": {"name": "n", "namespace": "default"}})
    assert "namespace" not in node["metadata"]
    elsewhere = "/api/v1/namespaces/absent/configmaps"
    assert plane.ask(f"POST {elsewhere}", config_map("m")).refusal == (
        404,
        "NotFound",
        'namespaces "absent" not found',
    )
    line = f"PATCH {elsewhere}/m?fieldManager=me"
    assert plane.ask(line, config_map("m"), content_type=APPLY).refusal[:2] == (404, "NotFound")


def test_status_of_a_create_is_dropped_where_it_has_its_own_door(plane: Plane) -> None:
    body = pod("p")
    body["status"] = {"phase": "Running", "message": "m"}
    found = plane.create(PODS, body)
    assert found["status"] == {"phase": "Pending", "qosClass": "Burstable"}
    node = plane.create("/api/v1/nodes", {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4"}}})
    assert node["status"]["capacity"] == {"cpu": "4"}


def test_dry_run_leaves_nothing(plane: Plane) -> None:
    revision = plane.store.revision
    answer = plane.ask(f"POST {MAPS}?dryRun=All", config_map("m"))
    assert (answer.status, "resourceVersion" in answer.json["metadata"]) == (201, False)
    assert plane.ask(f"GET {MAPS}/m").status == 404
    plane.create(MAPS, config_map("m"))
    before = plane.ask(f"GET {MAPS}/m").json
    for line, body, headers in (
        (f"PUT {MAPS}/m?dryRun=All", config_map("m", a="b"), {}),
        (f"PATCH {MAPS}/m?dryRun=All", {"data": {"a": "b"}}, {"content_type": MERGE}),
        (f"PATCH {MAPS}/m?dryRun=All&fieldManager=me", config_map("m", a="b"), {"content_type": APPLY}),
    ):
        answer = plane.ask(line, body, **headers)
        assert (answer.status, answer.json["data"]) == (200, {"a": "b"})
    assert plane.ask(f"DELETE {MAPS}/m?dryRun=All").status == 200
    assert plane.ask(f"GET {MAPS}/m").json == before
    assert plane.store.revision == revision + 1


# -- update ----------------------------------------------------------------------------------------------------


def test_update_builds_on_the_version_it_names(plane: Plane) -> None:
    """None is unconditional, where the kind allows that."""
    found = plane.create(MAPS, config_map("m"))
    version = found["metadata"]["resourceVersion"]
    for given, status in (("", 200), ("0", 200), ("1", 409), (version, 409), ("x", 500), ("-1", 500), ("٣", 500)):
        body = config_map("m", at=given)
        body["metadata"]["resourceVersion"] = given
        answer = plane.ask(f"PUT {MAPS}/m", body)
        assert answer.status == status, given
        if status == 409:
            assert answer.refusal[2] == f'Operation cannot be fulfilled on configmaps "m": {MODIFIED}'
        if status == 500:
            assert answer.refusal[2] == f'strconv.ParseUint: parsing "{given}": invalid syntax'
    current = plane.ask(f"GET {MAPS}/m").json
    assert plane.ask(f"PUT {MAPS}/m", current).status == 200
    plane.create(BUDGETS, budget("b"))
    for given in ({}, {"resourceVersion": "0"}):
        body = budget("b")
        body["metadata"] |= given
        code, reason, message = plane.ask(f"PUT {BUDGETS}/b", body).refusal
        assert (code, reason) == (422, "Invalid")
        assert message.endswith("metadata.resourceVersion: Invalid value: 0: must be specified for an update")
    assert plane.ask(f"PATCH {BUDGETS}/b", {"spec": {"minAvailable": 2}}, content_type=MERGE).status == 200


def test_name_and_uid_of_an_update_are_those_of_the_object(plane: Plane) -> None:
    uid = plane.create(MAPS, config_map("m"))["metadata"]["uid"]
    differs = "the name of the object (x) does not match the name on the URL (m)"
    assert plane.ask(f"PUT {MAPS}/m", config_map("x")).refusal == (400, "BadRequest", differs)
    assert plane.ask(f"PATCH {MAPS}/m", {"metadata": {"name": "x"}}, content_type=MERGE).refusal[2] == differs
    line = f"PATCH {MAPS}/m?fieldManager=me"
    assert plane.ask(line, config_map("x"), content_type=APPLY).refusal[2] == differs
    other = config_map("m")
    other["metadata"]["uid"] = "other"
    code, reason, message = plane.ask(f"PUT {MAPS}/m", other).refusal
    assert (code, reason) == (409, "Conflict")
    assert f"Precondition failed: UID in precondition: other, UID in object meta: {uid}" in message
    assert "Key: /registry/configmaps/default/m, " in message
    code, reason, message = plane.ask(f"PATCH {MAPS}/m", {"metadata": {"uid": "other"}}, content_type=MERGE).refusal
    assert (code, reason) == (422, "Invalid")
    assert message.endswith('metadata.uid: Invalid value: "other": field is immutable')
    for given in ("", uid):
        other["metadata"]["uid"] = given
        assert plane.ask(f"PUT {MAPS}/m", other).json["metadata"]["uid"] == uid


def test_write_that_changes_nothing_is_not_stored(plane: Plane) -> None:
    plane.create(MAPS, config_map("m", a="b"))
    before = plane.ask(f"GET {MAPS}/m").json
    for line, body, headers in (
        (f"PUT {MAPS}/m", before, {}),
        (f"PATCH {MAPS}/m", {"data": {"a": "b"}}, {"content_type": MERGE}),
        (f"PATCH {MAPS}/m", [{"op": "test", "path": "/data/a", "value": "b"}], {"content_type": JSON_PATCH}),
    ):
        assert plane.ask(line, body, **headers).json == before
    assert plane.ask(f"GET {MAPS}/m").json == before


def test_update_does_not_change_server_metadata(plane: Plane) -> None:
    """Times, uid and generateName stay whatever an update says of them."""
    before = plane.create(MAPS, {"metadata": {"generateName": "g-"}})["metadata"]
    plane.clock.forward(5)
    body = {
        "metadata": {
            "name": before["name"],
            "creationTimestamp": "2020-01-01T00:00:00Z",
            "deletionTimestamp": "2020-01-01T00:00:00Z",
            "deletionGracePeriodSeconds": 3,
        },
        "data": {"a": "b"},
    }
    after = plane.ask(f"PUT {MAPS}/{before['name']}", body).json["metadata"]
    assert {k: after[k] for k in ("uid", "creationTimestamp", "generateName")} == {
        k: before[k] for k in ("uid", "creationTimestamp", "generateName")
    }
    assert {"deletionTimestamp", "deletionGracePeriodSeconds"}.isdisjoint(after)


# -- patches ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "content_type", "code", "reason"),
    [
        ([{"op": "remove", "path": "/data/x"}], JSON_PATCH, 422, "Invalid"),
        ([{"op": "test", "path": "/data/a", "value": "x"}], JSON_PATCH, 422, "Invalid"),
        ([{"op": "made-up", "path": "/data/a"}], JSON_PATCH, 422, "Invalid"),
        ({"data": {"a": 5}}, MERGE, 422, "Invalid"),
        ({"metadata": {"resourceVersion": "1"}}, MERGE, 409, "Conflict"),
        ({"metadata": {"labels": {"a b": "c"}}}, MERGE, 422, "Invalid"),
    ],
)
def test_patches_that_are_refused(plane: Plane, body: Any, content_type: str, code: int, reason: str) -> None:
    plane.create(MAPS, config_map("m", a="b"))
    before = plane.ask(f"GET {MAPS}/m").json
    assert plane.ask(f"PATCH {MAPS}/m", body, content_type=content_type).refusal[:2] == (code, reason)
    assert plane.ask(f"GET {MAPS}/m").json == before
    if content_type == MERGE:
        assert plane.ask(f"PATCH {MAPS}/absent", body, content_type=content_type).refusal[:2] == (404, "NotFound")


def test_apply_creates_merges_and_conflicts(plane: Plane) -> None:
    line = f"PATCH {MAPS}/m?fieldManager={{}}"
    first = plane.ask(line.format("one"), config_map("m", a="1"), content_type=APPLY)
    assert first.status == 201
    same = plane.ask(line.format("two"), config_map("m", b="2"), content_type=APPLY)
    assert (same.status, same.json["data"]) == (200, {"a": "1", "b": "2"})
    against = plane.ask(line.format("two"), config_map("m", a="2", b="2"), content_type=APPLY)
    code, reason, message = against.refusal
    assert (code, reason) == (409, "Conflict")
    assert message == 'Apply failed with 1 conflict: conflict with "one": .data.a'
    assert [cause["field"] for cause in against.json["details"]["causes"]] == [".data.a"]
    forced = plane.ask(line.format("two") + "&force=true", config_map("m", a="2"), content_type=APPLY)
    assert forced.json["data"] == {"a": "2"}
    with_managed = {**config_map("m"), "metadata": {"name": "m", "managedFields": [{}]}}
    assert plane.ask(line.format("x"), with_managed, content_type=APPLY).refusal == (
        400,
        "BadRequest",
        "metadata.managedFields must be nil",
    )
    stale = {**config_map("m"), "metadata": {"name": "m", "resourceVersion": "1"}}
    assert plane.ask(line.format("x"), stale, content_type=APPLY).refusal[:2] == (409, "Conflict")
    gone = {**config_map("n"), "metadata": {"name": "n", "uid": "u"}}
    code, reason, message = plane.ask(f"PATCH {MAPS}/n?fieldManager=x", gone, content_type=APPLY).refusal
    assert (code, reason) == (409, "Conflict")
    assert "uid mismatch: the provided object specified uid u, and no existing object was found" in message
    absent = plane.ask(f"PATCH {PODS}/p/status?fieldManager=x", pod("p"), content_type=APPLY)
    assert absent.refusal == (404, "NotFound", 'pods "p" not found')


# -- generations and doors -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "body", "change", "status", "counts"),
    [
        (PODS, pod("x"), None, {"status": {"message": "m"}}, True),
        (BUDGETS, budget("x"), {"spec": {"minAvailable": 2}}, {"status": {"disruptionsAllowed": 1, "currentHealthy": 1,
         "desiredHealthy": 0, "expectedPods": 1}}, True),
        (MAPS, config_map("x"), {"data": {"a": "b"}}, None, False),
        ("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "x"}, "value": 5},
         {"description": "d"}, None, None),
    ],
)  # fmt: skip
def test_generation_counts_changes_of_the_desired_state(
    plane: Plane, path: str, body: Json, change: Json | None, status: Json | None, counts: bool | None
) -> None:
    """It counts changes beside metadata and status, where the kind counts; that of a PriorityClass stays 1."""
    first = None if counts is False else 1
    assert plane.create(path, body)["metadata"].get("generation") == first

    def after(patch: Json, door: str = "") -> Any:
        answer = plane.ask(f"PATCH {path}/x{door}", patch, content_type=MERGE)
        assert answer.status == 200, answer.body
        return answer.json["metadata"].get("generation")

    assert after({"metadata": {"labels": {"a": "b"}}}) == first
    assert after({"metadata": {"generation": 9}}) == first
    if status is not None:
        assert after(status, "/status") == first
        assert after(status) == first
    if change is not None:
        assert after(change) == (2 if counts else first)
        assert after(change) == (2 if counts else first)


LABELS: Json = {"labels": {"new": "x"}, "annotations": {"new": "x"}, "finalizers": ["new/x"]}


@pytest.mark.parametrize(
    ("path", "body", "taken"),
    [
        (PODS, pod("x"), {"labels", "annotations", "finalizers"}),
        (DEPLOYMENTS, {"metadata": {"name": "x"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {
            "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}},
         {"annotations", "finalizers"}),
        (DEPLOYMENTS.replace("deployments", "statefulsets"), {"metadata": {"name": "x"}, "spec": {
            "selector": {"matchLabels": {"a": "b"}}, "serviceName": "s", "template": {
                "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}},
         {"labels", "annotations", "finalizers"}),
        ("/apis/networking.k8s.io/v1/namespaces/default/ingresses", {"metadata": {"name": "x"}, "spec": {
            "defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}},
         {"labels", "annotations", "finalizers"}),
        (GROUPS, {"metadata": {"name": "x"}, "spec": {"schedulingPolicy": {"basic": {}}}}, set()),
    ],
)  # fmt: skip
def test_status_write_and_metadata(plane: Plane, path: str, body: Json, taken: set[str]) -> None:
    """By the strategy of its kind (kinds.status_metadata); to the spec it does nothing, whatever the kind."""
    before = plane.create(path, body)
    answer = plane.ask(f"PATCH {path}/x/status", {"metadata": LABELS, "spec": {"made": "up"}}, content_type=MERGE)
    assert answer.status == 200, answer.body
    after = answer.json
    for word in LABELS:
        changed = after["metadata"].get(word) != before["metadata"].get(word)
        assert changed is (word in taken), word
    assert after["spec"] == before["spec"]


def test_namespace_is_finalized_by_its_own_door(plane: Plane) -> None:
    spaces = "/api/v1/namespaces"
    before = plane.create(spaces, {"metadata": {"name": "n"}})
    assert before["spec"] == {"finalizers": ["kubernetes"]}
    changed = {**before, "spec": {"finalizers": ["other/x"]}}
    assert plane.ask(f"PUT {spaces}/n", changed).json["spec"] == before["spec"]
    changed["metadata"] = {**before["metadata"], "labels": {"a": "b"}}
    after = plane.ask(f"PUT {spaces}/n/finalize", changed).json
    assert after["spec"] == {"finalizers": ["other/x"]}
    assert "a" not in after["metadata"]["labels"]
    current = plane.ask(f"DELETE {spaces}/n").json
    assert current["status"]["phase"] == "Terminating"
    assert plane.ask(f"GET {spaces}/n").status == 200
    refused = plane.ask("POST /api/v1/namespaces/n/configmaps", config_map("m"))
    assert refused.refusal[:2] == (403, "Forbidden")
    assert refused.json["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    assert plane.ask(f"PUT {spaces}/n/finalize", {**current, "spec": {"finalizers": []}}).status == 200
    assert plane.ask(f"GET {spaces}/n").status == 404
    for name in ("default", "kube-system", "kube-public"):
        assert plane.ask(f"DELETE {spaces}/{name}").status == 403


@pytest.mark.parametrize(
    ("scale", "code", "replicas"),
    [
        ({"spec": {"replicas": 5}}, 200, 5),
        ({"spec": {"replicas": 0}}, 200, 0),
        ({"spec": {}}, 200, 0),
        ({}, 200, 0),
        ({"spec": {"replicas": -1}}, 422, 2),
    ],
)
def test_replicas_of_a_scale(plane: Plane, scale: Json, code: int, replicas: int) -> None:
    """What is not said is none; none is allowed, fewer are not."""
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    assert plane.ask(f"POST {DEPLOYMENTS}", {"metadata": {"name": "d"}, "spec": spec}).status == 201
    answer = plane.ask(f"PUT {DEPLOYMENTS}/d/scale", {"metadata": {"name": "d"}, **scale})
    assert answer.status == code, answer.body
    assert plane.ask(f"GET {DEPLOYMENTS}/d").json["spec"]["replicas"] == replicas


def test_first_deletion_of_a_held_object_counts_a_generation(plane: Plane) -> None:
    """graceful deletion of kube-apiserver: the first deletion counts, others do not."""
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    body = {"metadata": {"name": "d", "finalizers": ["a/b"]}, "spec": spec}
    assert plane.ask(f"POST {DEPLOYMENTS}", body).json["metadata"]["generation"] == 1
    for _ in range(2):
        plane.ask(f"DELETE {DEPLOYMENTS}/d")
        found = plane.ask(f"GET {DEPLOYMENTS}/d").json["metadata"]
        assert (found["generation"], found["deletionGracePeriodSeconds"]) == (2, 0)


@pytest.mark.parametrize("lacks", ["apiVersion", "kind"])
def test_apply_states_its_version_and_kind(plane: Plane, lacks: str) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}}
    del body[lacks]
    answer = plane.ask("PATCH /api/v1/namespaces/default/configmaps/m?fieldManager=x", body, content_type=APPLY)
    said = {"apiVersion": "invalid object type: /, Kind=ConfigMap", "kind": "invalid object type: /v1, Kind="}
    assert (answer.status, answer.json["message"]) == (400, said[lacks])


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize(
    ("given", "code", "message"),
    [
        ({"metadata": None}, 201, ""),
        ({"metadata": {"name": None, "namespace": None, "uid": None, "resourceVersion": None}}, 201, ""),
        ({"metadata": 5}, 400, "unmarshal number into Go struct field ConfigMap.metadata of type v1.ObjectMeta"),
        ({"metadata": []}, 400, "unmarshal array into Go struct field ConfigMap.metadata of type v1.ObjectMeta"),
        ({"metadata": {"name": 5}}, 400, "number into Go struct field ObjectMeta.metadata.name of type string"),
        ({"metadata": {"namespace": []}}, 400, "into Go struct field ObjectMeta.metadata.namespace of type string"),
        ({"metadata": {"uid": 5}}, 400, "into Go struct field ObjectMeta.metadata.uid of type string"),
        ({"metadata": {"resourceVersion": 7}}, 400, "into Go struct field ObjectMeta.metadata.resourceVersion of type"),
        ({"apiVersion": 5}, 400, "kind and apiVersion must be strings"),
        ({"kind": ["ConfigMap"]}, 400, "kind and apiVersion must be strings"),
    ],
)
def test_names_of_an_applied_object_are_text_or_nothing(
    plane: Plane, given: Json, code: int, message: str, there: bool
) -> None:
    """api.md 5.2 and 5.3: one clear error, whether the object is there or not."""
    path = "/api/v1/namespaces/default/configmaps"
    if there:
        assert plane.ask(f"POST {path}", {"metadata": {"name": "m"}}).status == 201
    body = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}, **given}
    answer = plane.ask(f"PATCH {path}/m?fieldManager=x", body, content_type=APPLY)
    if code == 201:
        assert (answer.status, answer.json["data"]) == (200 if there else 201, {"a": "b"})
    else:
        assert answer.status == code
        assert message in answer.json["message"]
