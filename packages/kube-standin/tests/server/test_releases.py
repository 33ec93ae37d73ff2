"""What API servers of other releases serve, and warnings about versions that newer ones replace (api.md 2.5 to 2.8)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from kube_standin.deprecations import deprecation_of
from kube_standin.features import Features
from kube_standin.kinds import KindTable
from kube_standin.kubelet import KubeletOptions
from kube_standin.releases import NEWEST, OLDEST, read_minor
from kube_standin.server.control_plane import ServeOptions
from tests.recorded.shapes import custom_kind, shape
from tests.server.inprocess import Plane, running
from tests.server.live import live

Json = dict[str, Any]
SCHEDULING = "scheduling.k8s.io"
ALL = ("v1", "v1beta1", "v1alpha3", "v1alpha2")
SPEC: Json = {"schedulingPolicy": {"gang": {"minCount": 2}}, "priorityClassName": "meek", "preemptionPolicy": "Never"}
MEEK: Json = {"metadata": {"name": "meek"}, "value": 5, "preemptionPolicy": "Never"}


def groups(version: str, name: str = "") -> str:
    return f"/apis/{SCHEDULING}/{version}/namespaces/default/podgroups{'/' if name else ''}{name}"


@pytest.fixture
def plane() -> Iterator[Plane]:
    with running() as made:
        made.create(f"/apis/{SCHEDULING}/v1/priorityclasses", MEEK)
        yield made


def served(plane: Plane, kind: str) -> list[str]:
    """The versions in which a kind is served, as discovery lists them."""
    found = plane.ask(f"GET /apis/{SCHEDULING}").json["versions"]
    versions = [one["version"] for one in found]
    lists = {one: plane.ask(f"GET /apis/{SCHEDULING}/{one}").json["resources"] for one in versions}
    return [version for version in versions if kind in {one["kind"] for one in lists[version]}]


@pytest.mark.parametrize(
    ("minor", "of_groups", "of_composites"),
    [
        (None, ["v1", "v1beta1", "v1alpha3", "v1alpha2"], ["v1beta1", "v1alpha3"]),
        (38, ["v1", "v1beta1", "v1alpha3"], ["v1beta1", "v1alpha3"]),
        (37, ["v1beta1", "v1alpha3"], ["v1alpha3"]),
        (36, ["v1alpha2"], []),
        (35, [], []),
        (29, [], []),
    ],
)
def test_versions_of_a_release(plane: Plane, minor: int | None, of_groups: list[str], of_composites: list[str]) -> None:
    """api.md 2.8: by discovery, by requests and by /version, at the start as after a change."""
    plane.plane.emulate(minor)
    assert {row.gvk for row in Features(minor=minor).kinds()} == {
        row.gvk for row in plane.registry.kinds if not row.computed
    }
    assert served(plane, "PodGroup") == served(plane, "Workload") == of_groups
    assert served(plane, "CompositePodGroup") == of_composites
    assert served(plane, "PriorityClass") == ["v1"]
    for version in ALL:
        assert plane.ask(f"GET {groups(version)}").status == (200 if version in of_groups else 404)
    version = plane.ask("GET /version").json
    if minor is not None:
        assert (version["minor"], version["gitVersion"]) == (str(minor), f"v1.{minor}.0+reprieve")


KINDS = {
    "resource.k8s.io": "ResourceClaim DeviceTaintRule",
    "admissionregistration.k8s.io": "ValidatingAdmissionPolicy MutatingAdmissionPolicyBinding",
    "storage.k8s.io": "VolumeAttributesClass",
    "flowcontrol.apiserver.k8s.io": "FlowSchema",
}
SINCE: dict[int, dict[str, str]] = {
    29: {"ValidatingAdmissionPolicy": "v1beta1", "FlowSchema": "v1 v1beta3"},
    30: {"ValidatingAdmissionPolicy": "v1"},
    31: {"VolumeAttributesClass": "v1beta1"},
    32: {"FlowSchema": "v1"},
    33: {"ResourceClaim": "v1beta2"},
    34: {"ResourceClaim": "v1", "VolumeAttributesClass": "v1", "MutatingAdmissionPolicyBinding": "v1beta1"},
    36: {"MutatingAdmissionPolicyBinding": "v1", "DeviceTaintRule": "v1beta2"},
    37: {"DeviceTaintRule": "v1"},
}
"""Minor version -> the versions of the kinds that it changes, by the releases of kubernetes/api."""


def test_every_group_has_the_versions_of_its_release(plane: Plane) -> None:
    """api.md 2.8: by discovery, from the oldest release to the newest."""
    expected: dict[str, str] = {}
    for minor in range(OLDEST, NEWEST + 1):
        expected |= SINCE.get(minor, {})
        plane.plane.emulate(minor)
        groups = {one["name"]: one["versions"] for one in plane.ask("GET /apis").json["groups"]}
        for group, kinds in KINDS.items():
            versions = [one["version"] for one in groups.get(group, ())]
            lists = {one: plane.ask(f"GET /apis/{group}/{one}").json["resources"] for one in versions}
            for kind in kinds.split():
                found = [one for one in versions if kind in {row["kind"] for row in lists[one]}]
                assert found == expected.get(kind, "").split(), (minor, kind)
        names = {row["name"] for row in plane.ask("GET /api/v1").json["resources"]}
        assert ("pods/resize" in names) is (minor >= 33)
        path = "/api/v1/namespaces/default/pods/none/resize"
        assert ("pods" in plane.ask(f"GET {path}").refusal[2]) is (minor >= 33)


def test_object_outlives_the_version_it_was_written_in(plane: Plane) -> None:
    """api.md 2.8: one storage for the versions of a kind; a watch shows it in the version that is asked for."""
    claims = "/apis/resource.k8s.io/{}/namespaces/default/resourceclaims"
    plane.plane.emulate(33)
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "d"}}]}}
    made = plane.create(claims.format("v1beta2"), {"metadata": {"name": "c"}, "spec": spec})
    assert made["apiVersion"] == "resource.k8s.io/v1beta2"
    plane.plane.emulate(38)
    assert plane.ask(f"GET {claims.format('v1beta2')}").status == 404
    now = plane.ask(f"GET {claims.format('v1')}/c").json
    assert now == {**made, "apiVersion": "resource.k8s.io/v1"}


def test_policies_hold_in_every_release(plane: Plane) -> None:
    """api.md 2.8: also before their stable version is served."""
    maps = "/api/v1/namespaces/default/configmaps"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    policy = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "false", "message": "no"}]}
    path = "/apis/admissionregistration.k8s.io/v1beta1/validatingadmissionpolic"
    plane.plane.emulate(29)
    plane.create(f"{path}ies", {"metadata": {"name": "p"}, "spec": policy})
    binding = {"policyName": "p", "validationActions": ["Deny"]}
    plane.create(f"{path}ybindings", {"metadata": {"name": "b"}, "spec": binding})
    for minor in (29, 38):
        plane.plane.emulate(minor)
        assert plane.ask(f"POST {maps}", {"metadata": {"name": "m"}}).status == 422


def test_fields_of_later_releases_are_dropped(plane: Plane) -> None:
    """api.md 2.8: a pod names its group since 1.36, a Job has `spec.scheduling` since 1.37."""
    container = {"containers": [{"name": "c", "image": "i"}]}
    job = {"template": {"spec": {"restartPolicy": "Never", **container}}, "scheduling": {}}
    for minor, in_pod, in_job in ((35, False, False), (36, True, False), (37, True, True)):
        plane.plane.emulate(minor)
        pod = {"metadata": {"name": f"p{minor}"}, "spec": {"schedulingGroup": {"podGroupName": "g"}, **container}}
        made = plane.create("/api/v1/namespaces/default/pods", pod)
        assert ("schedulingGroup" in made["spec"]) is in_pod
        made = plane.create("/apis/batch/v1/namespaces/default/jobs", {"metadata": {"name": f"j{minor}"}, "spec": job})
        assert ("scheduling" in made["spec"]) is in_job


def test_objects_survive_upgrade_and_rollback(plane: Plane) -> None:
    """api.md 2.5, 2.8: one storage; what v1alpha2 does not show is there again after an update in it."""
    made = plane.create(groups("v1"), {"metadata": {"name": "g"}, "spec": SPEC})
    plane.plane.emulate(36)
    old = plane.ask(f"GET {groups('v1alpha2', 'g')}").json
    assert old["metadata"]["uid"] == made["metadata"]["uid"]
    assert (old["spec"]["disruptionMode"], "preemptionPolicy" in old["spec"]) == ("Pod", False)
    old["metadata"]["labels"] = {"a": "b"}
    assert plane.ask(f"PUT {groups('v1alpha2', 'g')}", old).status == 200
    status = {"status": {"conditions": [condition("PodGroupScheduled")]}}
    patched = plane.ask(f"PATCH {groups('v1alpha2', 'g')}/status", status, content_type="application/merge-patch+json")
    assert patched.status == 200, patched.body
    plane.plane.emulate(38)
    now = plane.ask(f"GET {groups('v1', 'g')}").json
    assert now["metadata"]["uid"] == made["metadata"]["uid"]
    assert (now["metadata"]["labels"], now["spec"]) == ({"a": "b"}, made["spec"])
    assert [one["type"] for one in now["status"]["conditions"]] == ["PodGroupInitiallyScheduled"]


def condition(kind: str) -> Json:
    return {"type": kind, "status": "True", "reason": "S", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(("one", "other"), [*product(ALL, ALL)])
def test_object_is_the_same_in_every_pair_of_versions(plane: Plane, one: str, other: str) -> None:
    """api.md 2.5: created in one version, changed in another, and nothing else is different in either."""
    plane.plane.emulate(None)
    spec = SPEC
    if one == "v1alpha2":
        spec = {"schedulingPolicy": SPEC["schedulingPolicy"], "priorityClassName": "meek", "disruptionMode": "PodGroup"}
    before = plane.create(groups(one), {"metadata": {"name": "g"}, "spec": spec})
    seen = plane.ask(f"GET {groups(other, 'g')}").json
    assert seen["apiVersion"] == f"{SCHEDULING}/{other}"
    seen["metadata"]["labels"] = {"a": "b"}
    assert plane.ask(f"PUT {groups(other, 'g')}", seen).status == 200
    after = plane.ask(f"GET {groups(one, 'g')}").json
    assert (after["spec"], after["metadata"]["labels"]) == (before["spec"], {"a": "b"})
    assert after["apiVersion"] == f"{SCHEDULING}/{one}"


WARNING = f'299 - "{SCHEDULING}/%s PodGroup is deprecated%s; use {SCHEDULING}/%s PodGroup"'
BETA = " in v1.40+, unavailable in v1.43+"


@pytest.mark.parametrize(
    ("minor", "version", "warning"),
    [
        (38, "v1", None),
        (38, "v1beta1", WARNING % ("v1beta1", BETA, "v1")),
        (38, "v1alpha3", WARNING % ("v1alpha3", "", "v1")),
        (37, "v1beta1", None),
        (37, "v1alpha3", WARNING % ("v1alpha3", "", "v1beta1")),
        (36, "v1alpha2", None),
        (None, "v1alpha2", None),
    ],
)
def test_older_versions_have_a_warning(plane: Plane, minor: int | None, version: str, warning: str | None) -> None:
    """api.md 2.6: on every verb, and on refusals."""
    plane.plane.emulate(minor)
    body = {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"basic": {}}}}
    requests: list[tuple[str, Any, int]] = [
        (f"POST {groups(version)}", body, 201),
        (f"POST {groups(version)}", body, 409),
        (f"GET {groups(version, 'g')}", None, 200),
        (f"GET {groups(version)}", None, 200),
        (f"GET {groups(version, 'none')}", None, 404),
        (f"DELETE {groups(version, 'g')}", None, 200),
        (f"DELETE {groups(version)}", None, 200),
    ]
    for line, sent, code in requests:
        answer = plane.ask(line, sent)
        assert (answer.status, answer.header("warning")) == (code, warning), line

    async def watch() -> None:
        async with plane.watching(f"GET {groups(version)}?watch=true") as opened:
            head = await opened.start()
            given = [value.decode() for name, value in head["headers"] if name == b"warning"]
            assert given == ([] if warning is None else [warning])

    plane.run(watch())


def test_flow_schemas_are_deprecated_in_their_beta_version() -> None:
    """api.md 2.6."""
    group = "flowcontrol.apiserver.k8s.io"
    text = f"{group}/v1beta3 FlowSchema is deprecated in v1.29+, unavailable in v1.32+; use {group}/v1 FlowSchema"
    assert deprecation_of(shape(f"{group}/v1beta3", "FlowSchema"), KindTable()) == text
    assert deprecation_of(shape(f"{group}/v1", "FlowSchema"), KindTable()) is None


def test_composites_are_deprecated_in_their_alpha_version() -> None:
    """composite.md 1.1, api.md 2.6."""
    table = KindTable()
    assert deprecation_of(shape(f"{SCHEDULING}/v1beta1", "CompositePodGroup"), table) is None
    assert deprecation_of(shape(f"{SCHEDULING}/v1alpha3", "CompositePodGroup"), table) == (
        f"{SCHEDULING}/v1alpha3 CompositePodGroup is deprecated; use {SCHEDULING}/v1beta1 CompositePodGroup"
    )
    assert deprecation_of(shape("v1", "Pod"), table) is None
    assert deprecation_of(shape(f"{SCHEDULING}/v1", "PriorityClass"), table) is None


@pytest.mark.parametrize(
    ("entries", "warning"),
    [
        ({"v1": {}, "v1beta1": {}}, None),
        ({"v1": {}, "v1beta1": {"deprecated": True}}, "g/v1beta1 Gang is deprecated; use g/v1 Gang"),
        ({"v1": {"deprecated": True}, "v1beta1": {"deprecated": True}}, "g/v1beta1 Gang is deprecated"),
        ({"v1alpha1": {}, "v1beta1": {"deprecated": True}}, "g/v1beta1 Gang is deprecated"),
        ({"v1": {}, "v1beta1": {"deprecated": True, "deprecationWarning": "move"}}, "move"),
    ],
)
def test_versions_of_custom_resources_warn_as_their_definition_says(
    entries: dict[str, Json], warning: str | None
) -> None:
    """api.md 2.6, the texts of apiextensions-apiserver."""
    rows = {version: custom_kind("g", version, "Gang", definition=entry) for version, entry in entries.items()}
    assert deprecation_of(rows["v1beta1"], KindTable(rows.values())) == warning


@pytest.mark.parametrize("text", ["", "1", "1.", "2.36", "1.28", "1.39", "1.3x", "1.-36", "v", "1.36.1", "１.36"])
def test_other_versions_cannot_be_emulated(text: str) -> None:
    """api.md 2.8."""
    with pytest.raises(ValueError, match=f"from 1.{OLDEST} to 1.{NEWEST}"):
        read_minor(text)


@pytest.mark.parametrize(("text", "minor"), [("1.29", 29), ("v1.36", 36), ("1.38", 38)])
def test_versions_that_can_be_emulated(text: str, minor: int) -> None:
    """api.md 2.8."""
    assert read_minor(text) == minor


@pytest.mark.parametrize("minor", [31, 36])
def test_documents_name_their_release(plane: Plane, minor: int) -> None:
    """api.md 2.8: OpenAPI as /version; addresses of documents change with it."""
    before = plane.ask("GET /openapi/v3").json["paths"]["api/v1"]["serverRelativeURL"]
    plane.plane.emulate(minor)
    for path in ("/openapi/v2", "/openapi/v3/api/v1"):
        assert plane.ask(f"GET {path}").json["info"]["version"] == f"1.{minor}"
    assert plane.ask("GET /openapi/v3").json["paths"]["api/v1"]["serverRelativeURL"] != before


def test_nodes_name_the_release_of_their_server() -> None:
    """api.md 2.8: from its start; the version of a node that a file brings stays."""
    own = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "own"},
           "status": {"nodeInfo": {"kubeletVersion": "v1.30.2"}}}  # fmt: skip
    with live(ServeOptions(kubelets=KubeletOptions(nodes=1, manifests=(own,)), features=Features(minor=33))) as server:
        found = {one["metadata"]["name"]: one for one in server.request("GET", "/api/v1/nodes")[1]["items"]}
    versions = {name: node["status"]["nodeInfo"]["kubeletVersion"] for name, node in found.items()}
    assert versions == {"node-1": "v1.33.0-simulated", "own": "v1.30.2"}
