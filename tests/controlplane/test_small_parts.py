"""The small parts that the control plane rests on: numbers, errors, conditions, owners, the table of kinds."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.controlplane.admission.plane import SetClock
from tests.controlplane.recorded.shapes import custom_kind, shape

from reprieve.controlplane import conditions, errors, metadata
from reprieve.controlplane.clock import Clock, parse_stamp, stamp
from reprieve.controlplane.errors import Cause, StatusError
from reprieve.controlplane.kinds import BUILTIN, KindTable, _plural, subresource
from reprieve.controlplane.numbers import parse_int
from reprieve.controlplane.schema import field_errors as fe

Json = dict[str, Any]

# -- numbers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("+7", 7),
        ("-7", -7),
        ("007", 7),
        ("-0", 0),
        (str(2**63 - 1), 2**63 - 1),
        (str(-(2**63)), -(2**63)),
        ("0" * 100 + "1", 1),
    ],
)
def test_integers(text: str, number: int) -> None:
    assert parse_int(text) == number


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "invalid syntax"),
        ("x", "invalid syntax"),
        ("1_0", "invalid syntax"),
        ("٣", "invalid syntax"),
        (" 1", "invalid syntax"),
        ("+-1", "invalid syntax"),
        (str(2**63), "value out of range"),
        (str(-(2**63) - 1), "value out of range"),
        ("9" * 5000, "value out of range"),
    ],
)
def test_what_is_no_integer_of_64_bits(text: str, why: str) -> None:
    with pytest.raises(StatusError) as refused:
        parse_int(text)
    shown = text if len(text) <= 64 else text[:64] + "..."
    assert (refused.value.code, refused.value.message) == (400, f'strconv.ParseInt: parsing "{shown}": {why}')


@pytest.mark.parametrize(("length", "cut"), [(64, False), (65, True)])
def test_of_a_long_number_the_beginning_is_shown(length: int, cut: bool) -> None:
    with pytest.raises(StatusError) as refused:
        parse_int("x" * length)
    assert ("..." in refused.value.message) is cut


# -- errors ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code", "reason", "message", "details"),
    [
        (errors.not_found("pods", "", "p"), 404, "NotFound", 'pods "p" not found', {"name": "p", "kind": "pods"}),
        (errors.not_found("podgroups", "g", "p"), 404, "NotFound", 'podgroups.g "p" not found',
         {"name": "p", "group": "g", "kind": "podgroups"}),
        (errors.already_exists("pods", "", "p"), 409, "AlreadyExists", 'pods "p" already exists',
         {"name": "p", "kind": "pods"}),
        (errors.conflict("pods", "", "p", "why"), 409, "Conflict",
         'Operation cannot be fulfilled on pods "p": why', {"name": "p", "kind": "pods"}),
        (errors.forbidden("pods", "", "", "why"), 403, "Forbidden", "pods is forbidden: why", {"kind": "pods"}),
        (errors.forbidden("pods", "", "p", "why"), 403, "Forbidden", 'pods "p" is forbidden: why',
         {"name": "p", "kind": "pods"}),
        (errors.unknown_resource(), 404, "NotFound", "the server could not find the requested resource", {}),
        (errors.method_not_allowed(), 405, "MethodNotAllowed",
         "the server does not allow this method on the requested resource", {}),
        (errors.bad_request("why"), 400, "BadRequest", "why", None),
        (errors.internal("why"), 500, None, "why", None),
        (errors.expired("why"), 410, "Expired", "why", None),
        (errors.unfit("Pod", "", "p", fe.required("a.b")), 422, "Invalid", 'Pod "p" is invalid: a.b: Required value',
         {"name": "p", "kind": "Pod",
          "causes": [{"reason": "FieldValueRequired", "message": "Required value", "field": "a.b"}]}),
        (errors.unfit("Pod", "", "", fe.required("a"), fe.required("a"), fe.required("b")), 422, "Invalid",
         'Pod "" is invalid: [a: Required value, b: Required value]',
         {"kind": "Pod", "causes": [{"reason": "FieldValueRequired", "message": "Required value", "field": name}
                                    for name in "aab"]}),
    ],
)  # fmt: skip
def test_refusals(error: StatusError, code: int, reason: str | None, message: str, details: Json | None) -> None:
    """api.md 5.2: what a Status says, and no more."""
    said = error.to_json()
    whole: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message}
    whole |= {} if reason is None else {"reason": reason}
    whole |= {} if details is None else {"details": details}
    assert said == {**whole, "code": code}
    assert str(error) == message


def test_a_list_that_is_expired_may_go_on() -> None:
    assert errors.expired("why", "token").to_json()["metadata"] == {"continue": "token"}


@pytest.mark.parametrize(("number", "given"), [(64, 64), (65, 64)])
def test_of_many_causes_the_first_are_given(number: int, given: int) -> None:
    error = errors.unfit("Pod", "", "p", *(fe.required(f"f{index}") for index in range(number)))
    causes = error.to_json()["details"]["causes"]
    assert [cause["field"] for cause in causes] == [f"f{index}" for index in range(given)]


def test_what_is_long_in_a_refusal_is_cut() -> None:
    """A Status stays small whatever names and values the request held."""
    error = StatusError(400, "BadRequest", "m" * 5000, {"name": "n" * 2000}, (Cause("R", "c" * 2000, "f" * 2000),))
    said = error.to_json()
    assert len(said["message"]) <= errors.LONGEST_MESSAGE + 40
    assert len(said["details"]["name"]) <= errors.LONGEST_CAUSE + 40
    assert all(len(text) <= errors.LONGEST_CAUSE + 40 for text in said["details"]["causes"][0].values())
    kept = StatusError(400, "BadRequest", "m" * 4096, {"name": "n" * 1024}, (Cause("R", "c" * 1024),)).to_json()
    assert (len(kept["message"]), len(kept["details"]["name"])) == (4096, 1024)
    assert kept["details"]["causes"] == [{"reason": "R", "message": "c" * 1024}]


def test_causes_stand_before_the_time_to_try_again() -> None:
    """The order in which upstream writes them."""
    error = StatusError(504, "Timeout", "late", {"retryAfterSeconds": 1}, (Cause("R", "m"),))
    assert list(error.to_json()["details"]) == ["causes", "retryAfterSeconds"]


def test_a_success_says_what_went() -> None:
    said = errors.success("p", "g", "pods", "u")
    assert said["status"] == "Success"
    assert said["details"] == {"name": "p", "group": "g", "kind": "pods", "uid": "u"}
    assert errors.success("p", "", "pods", "")["details"] == {"name": "p", "kind": "pods"}
    assert errors.quoted(["a", 'b"']) == '["a" "b\\""]'


# -- time ------------------------------------------------------------------------------------------------------


def test_stamps_have_seconds_and_are_read_again() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    assert stamp(moment) == "2026-01-02T03:04:05Z"
    assert parse_stamp("2026-01-02T03:04:05Z") == moment.replace(microsecond=0)
    clock = Clock()
    assert clock.now().tzinfo is UTC
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", clock.stamp())
    assert SetClock().stamp() == "2026-01-01T00:00:00Z"


def test_uids_and_suffixes() -> None:
    """Version 4 UUIDs (RFC 9562); five characters without vowels."""
    clock = Clock()
    uids, suffixes = {clock.uid() for _ in range(50)}, {clock.suffix() for _ in range(50)}
    assert len(uids) == 50
    assert all(
        re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", one) for one in uids
    )
    assert {one[19] for one in uids} == set("89ab")
    assert all(re.fullmatch(r"[bcdfghjklmnpqrstvwxz2456789]{5}", one) for one in suffixes)
    assert len(suffixes) > 45


# -- conditions ------------------------------------------------------------------------------------------------


def test_a_condition_is_found_by_its_type() -> None:
    status = {"conditions": [{"type": "A", "status": "True"}, {"type": "B", "status": "False"}, {"type": "C"}]}
    assert conditions.condition_of(status, "B") == {"type": "B", "status": "False"}
    assert [conditions.state_of(status, name) for name in "ABCD"] == ["True", "False", "", None]
    assert [conditions.is_true(status, name) for name in "ABCD"] == [True, False, False, False]
    for nothing in (None, {}, {"conditions": None}):
        assert conditions.condition_of(nothing, "A") is None


def test_a_condition_takes_the_place_of_the_one_of_its_type() -> None:
    status: Json = {}
    for name in "AB":
        conditions.set_condition(status, {"type": name, "status": "False"})
    conditions.set_condition(status, {"type": "A", "status": "True"})
    assert status["conditions"] == [{"type": "A", "status": "True"}, {"type": "B", "status": "False"}]
    conditions.drop_condition(status, "A")
    assert status == {"conditions": [{"type": "B", "status": "False"}]}
    conditions.drop_condition(status, "B")
    assert status == {}


@pytest.mark.parametrize("update_time", [False, True])
def test_a_transition_is_a_change_of_status(update_time: bool) -> None:
    """What has another reason or message alone keeps its time; what is the same is not touched."""
    status: Json = {}

    def put(state: str, reason: str, message: str, now: str) -> tuple[str, str | None]:
        made = conditions.condition("A", state, reason, message)
        conditions.put_condition(status, made, now, update_time=update_time)
        [one] = status["conditions"]
        assert (one["status"], one["reason"], one["message"]) == (state, reason, message)
        return one["lastTransitionTime"], one.get("lastUpdateTime")

    steps = [("True", "R", "m", "t1"), ("True", "R", "m", "t2"), ("True", "R", "n", "t3"), ("True", "S", "n", "t4"),
             ("False", "S", "n", "t5")]  # fmt: skip
    assert [put(*step)[0] for step in steps] == ["t1", "t1", "t1", "t1", "t5"]
    status.clear()
    assert [put(*step)[1] for step in steps] == (["t1", "t1", "t3", "t4", "t5"] if update_time else [None] * 5)


def test_conditions_of_pods_have_no_empty_fields() -> None:
    bare = {"type": "A", "status": "True", "lastProbeTime": None, "lastTransitionTime": "t"}
    assert conditions.pod_condition("A", "True", "t") == bare
    assert conditions.pod_condition("A", "True", "t", "R", "m") == {**bare, "reason": "R", "message": "m"}
    pod: Json = {}
    conditions.set_disrupted(pod, "t", "R", "m")
    assert pod["status"]["conditions"] == [{**bare, "type": "DisruptionTarget", "reason": "R", "message": "m"}]


# -- owners and finalizers -------------------------------------------------------------------------------------

OWNER: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "n", "name": "p", "uid": "u", "x": 1}}
REFERENCE: Json = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}


def test_owners() -> None:
    assert metadata.key_of(OWNER) == ("n", "p")
    assert metadata.key_of({"metadata": {"name": "p"}}) == ("", "p")
    assert metadata.reference_to(OWNER) == REFERENCE
    controller = {**REFERENCE, "controller": True, "blockOwnerDeletion": True}
    assert metadata.owner_reference(OWNER) == controller
    orphan: Json = {"metadata": {"name": "o", "ownerReferences": [{"uid": "other", "controller": False}]}}
    assert metadata.controller_of(orphan) is None
    metadata.owned_by(OWNER)(orphan)
    assert orphan["metadata"]["ownerReferences"] == [{"uid": "other", "controller": False}, controller]
    assert metadata.controller_of(orphan) == controller
    metadata.disowned({"u"})(orphan)
    assert orphan["metadata"]["ownerReferences"] == [{"uid": "other", "controller": False}]
    metadata.disowned({"other"})(orphan)
    assert orphan == {"metadata": {"name": "o"}}
    metadata.disowned({"other"})(orphan)
    assert metadata.annotations_of(orphan) == {}


def test_finalizers_are_taken_off() -> None:
    obj: Json = {"metadata": {"finalizers": ["a", "b"]}}
    metadata.without_finalizer("a")(obj)
    assert obj == {"metadata": {"finalizers": ["b"]}}
    metadata.without_finalizer("c", "spec")(obj)
    assert obj == {"metadata": {"finalizers": ["b"]}, "spec": {"finalizers": []}}


# -- the table of kinds ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "plural"),
    [("Pod", "pods"), ("Endpoints", "endpoints"), ("NetworkPolicy", "networkpolicies"),
     ("PriorityClass", "priorityclasses"), ("CSIStorageCapacity", "csistoragecapacities"),
     ("DeviceClass", "deviceclasses")],
)  # fmt: skip
def test_plurals(kind: str, plural: str) -> None:
    assert _plural(kind) == plural


def test_rows_are_found_by_path_and_by_kind_and_go_again() -> None:
    table = KindTable()
    first = table.generation
    gang = custom_kind("example.com", "v1", "Gang")
    table.add(gang)
    assert table.at("example.com", "v1", "gangs") is table.of("example.com/v1", "Gang") is gang
    assert table.groups()["example.com"] == ["v1"]
    assert table.in_version("example.com", "v1") == [gang]
    table.remove(gang)
    table.remove(gang)
    assert table.at("example.com", "v1", "gangs") is table.of("example.com/v1", "Gang") is None
    assert "example.com" not in table.groups()
    assert table.generation == first + 3
    assert list(table) == list(BUILTIN)


def test_versions_stand_best_first_and_others_as_they_came() -> None:
    table = KindTable([custom_kind("g", version, "Gang") for version in ("v2", "v1", "v3")])
    assert table.groups() == {"g": ["v2", "v1", "v3"]}
    table = KindTable(
        [custom_kind("scheduling.k8s.io", version, "Gang") for version in ("v1alpha2", "v9", "v1beta1", "v1")]
    )
    assert table.groups() == {"scheduling.k8s.io": ["v1", "v1beta1", "v1alpha2", "v9"]}


def test_kinds_are_stored_in_one_version() -> None:
    table = KindTable()
    old, new = table.of("scheduling.k8s.io/v1alpha2", "PodGroup"), table.of("scheduling.k8s.io/v1beta1", "PodGroup")
    assert old is not None
    assert new is not None
    assert table.storage_kind(old) is table.storage_kind(new) is new
    lonely = custom_kind("g", "v1", "Gang", storage_version="g/v2")
    assert table.storage_kind(lonely) is lonely
    assert (new.api_version, new.resource, new.gvk) == (
        "scheduling.k8s.io/v1beta1",
        "podgroups.scheduling.k8s.io",
        ("scheduling.k8s.io", "v1beta1", "PodGroup"),
    )
    assert (shape("v1", "Pod").api_version, shape("v1", "Pod").resource) == ("v1", "pods")


@pytest.mark.parametrize(
    ("name", "verbs", "api_version", "kind"),
    [
        ("binding", ("create",), "v1", "Binding"),
        ("eviction", ("create",), "policy/v1", "Eviction"),
        ("scale", ("get", "patch", "update"), "autoscaling/v1", "Scale"),
        ("token", ("create",), "authentication.k8s.io/v1", "TokenRequest"),
        ("finalize", ("update",), "v1", "Pod"),
        ("status", ("get", "patch", "update"), "v1", "Pod"),
    ],
)
def test_subresources(name: str, verbs: tuple[str, ...], api_version: str, kind: str) -> None:
    found = subresource(shape("v1", "Pod"), name)
    assert (found.name, found.verbs, found.api_version, found.kind) == (name, verbs, api_version, kind)


STRATEGY = {
    # Which kinds differ from what most do, as kube-apiserver's strategies have it.
    "graceful": {"Pod"},
    "stored": {"Binding", "SelfSubjectReview", "TokenReview", "LocalSubjectAccessReview", "SelfSubjectAccessReview",
               "SelfSubjectRulesReview", "SubjectAccessReview"},
    "status_on_create": {"Node"},
    "create_on_update": {"Endpoints", "Event", "LimitRange", "Service", "Lease", "ClusterRole", "ClusterRoleBinding",
                         "Role", "RoleBinding"},
    "unconditional_update": {"ServiceAccount", "PodDisruptionBudget", "Lease", "CSIDriver", "CSINode",
                             "CSIStorageCapacity", "VolumeAttachment", "CustomResourceDefinition"},
    "returns_deleted": {"PersistentVolume", "PersistentVolumeClaim", "Pod", "PodTemplate", "ResourceQuota", "Service",
                        "ServiceAccount", "CSIDriver", "CSINode", "StorageClass", "VolumeAttachment",
                        "VolumeAttributesClass"},
}  # fmt: skip


@pytest.mark.parametrize("word", STRATEGY)
def test_how_kinds_are_treated(word: str) -> None:
    usual = word in ("stored", "unconditional_update")
    assert {kind.kind for kind in BUILTIN if getattr(kind, word) is not usual} == STRATEGY[word]
