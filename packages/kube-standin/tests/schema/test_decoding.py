"""Decoding: types, unknown fields, duplicate keys and the stored form (transcripts 070 to 078, 143, 148,
159 to 165).
"""

from __future__ import annotations

import copy
import sys
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kube_rules.defaults import apply_defaults
from kube_rules.schema.decoding import PathWalk
from kube_rules.schema.definitions import definition_names
from kube_rules.validation import validate_create
from kube_standin.patching import track_update
from kube_standin.schema import Schema, schema_for
from tests.recorded.oracle import Transcript, every, needs_transcripts
from tests.recorded.shapes import pod, shape

Json = dict[str, Any]
POD = schema_for("v1", "Pod")
_PROBLEM = "cannot be handled as a"


def check(body: Json) -> tuple[Json, list[str], list[str]]:
    cleaned, unknown, problems = schema_for(body["apiVersion"], body["kind"]).check(body, collect_unknown=True)
    return cleaned, [field.path for field in unknown], [problem.message for problem in problems]


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        ("priority", "high", "json: cannot unmarshal string into Go struct field PodSpec.spec.priority of type int32"),
        (
            "priority",
            2**31,
            "json: cannot unmarshal number 2147483648 into Go struct field PodSpec.spec.priority of type int32",
        ),
        ("priority", 1.0, "json: cannot unmarshal number 1.0 into Go struct field PodSpec.spec.priority of type int32"),
        ("priority", True, "json: cannot unmarshal bool into Go struct field PodSpec.spec.priority of type int32"),
        (
            "hostNetwork",
            "yes",
            "json: cannot unmarshal string into Go struct field PodSpec.spec.hostNetwork of type bool",
        ),
        ("nodeName", 5, "json: cannot unmarshal number into Go struct field PodSpec.spec.nodeName of type string"),
        (
            "tolerations",
            {},
            "json: cannot unmarshal object into Go struct field PodSpec.spec.tolerations of type []v1.Toleration",
        ),
        ("affinity", [], "json: cannot unmarshal array into Go struct field PodSpec.spec.affinity of type v1.Affinity"),
        (
            "nodeSelector",
            {"a": 1},
            "json: cannot unmarshal number into Go struct field PodSpec.spec.nodeSelector of type string",
        ),
        (
            "overhead",
            {"cpu": "1x"},
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
    ],
)
def test_wrong_type_is_told_as_the_decoder_tells_it(where: str, value: Any, message: str) -> None:
    _, unknown, problems = check(pod(**{where: value}))
    assert problems == [message]
    assert unknown == []


@pytest.mark.parametrize(
    ("field", "value", "stored"),
    [
        ("nodeSelector", None, None),
        ("nodeSelector", {}, None),
        ("tolerations", [], None),
        ("nodeName", "", None),
        ("hostNetwork", False, None),
        ("automountServiceAccountToken", False, False),
        ("securityContext", {}, {}),
        ("priority", 0, 0),
        ("overhead", {"cpu": "0.5", "memory": 1024}, {"cpu": "500m", "memory": "1024"}),
    ],
)
def test_stored_form_leaves_out_what_means_not_set(field: str, value: Any, stored: Any) -> None:
    cleaned, _, problems = check(pod(**{field: value}))
    assert problems == []
    assert cleaned["spec"].get(field) == stored


@pytest.mark.parametrize(
    ("kind", "field", "text", "stored"),
    [
        ("acquireTime", "micro", "2026-01-01T02:00:00.000001+02:00", "2026-01-01T00:00:00.000001Z"),
        ("creationTimestamp", "time", "2026-01-01T02:00:00.9+02:00", "2026-01-01T00:00:00Z"),
        ("creationTimestamp", "time", "2024-02-29T00:00:00Z", "2024-02-29T00:00:00Z"),
    ],
)
def test_times_are_stored_in_utc(kind: str, field: str, text: str, stored: str) -> None:
    lease: Json = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": {}}
    holder = lease["spec"] if field == "micro" else lease["metadata"]
    holder[kind] = text
    cleaned, _, problems = check(lease)
    assert problems == []
    assert (cleaned["spec"] if field == "micro" else cleaned["metadata"])[kind] == stored


@pytest.mark.parametrize("text", ["2026-02-30T00:00:00Z", "2026-01-01", "yesterday", "2026-01-01T24:00:00Z"])
def test_times_that_are_none_are_refused(text: str) -> None:
    body = pod()
    body["metadata"]["creationTimestamp"] = text
    _, _, problems = check(body)
    assert len(problems) == 1
    assert problems[0].startswith(f'parsing time "{text}"')


def test_object_in_stored_form_comes_back_itself() -> None:
    body = pod(priority=5)
    assert POD.check(body, collect_unknown=True)[0] is body


def test_input_stays_as_it_was() -> None:
    body = pod(nosuch=1, tolerations=[], overhead={"cpu": "0.5"})
    before = copy.deepcopy(body)
    POD.check(body, collect_unknown=True)
    assert body == before


def test_unknown_fields_are_pruned_even_if_their_names_are_not_wanted() -> None:
    cleaned, unknown, _ = POD.check(pod(nosuch=1), collect_unknown=False)
    assert unknown == []
    assert "nosuch" not in cleaned["spec"]


def test_kind_that_is_not_served_has_no_schema() -> None:
    with pytest.raises(KeyError):
        schema_for("v9", "Pod")


@pytest.mark.parametrize("version", ["v1beta1", "v1alpha3", "v1alpha2"])
def test_three_scheduling_versions_are_known(version: str) -> None:
    """api.md: best first v1beta1, v1alpha3, v1alpha2; v1alpha2 names its template otherwise."""
    schema = schema_for(f"scheduling.k8s.io/{version}", "PodGroup")
    named = "podGroupTemplateRef" if version == "v1alpha2" else "workloadRef"
    assert named in schema.root.fields["spec"].fields
    assert ("preemptionPolicy" in schema.root.fields["spec"].fields) == (version == "v1beta1" or version == "v1alpha3")


_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.sampled_from(["", "a", "1", "500m", "0.5", "2026-01-01T00:00:00Z"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["name", "cpu", "key", "requests", "limits", "nosuch", "image", "resources"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)
_FIELDS = st.sampled_from([*POD.root.fields["spec"].fields, "nosuch"])


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(_FIELDS, _VALUES, max_size=4))
def test_both_walks_agree_and_the_stored_form_is_final(spec: Json) -> None:
    body = {"apiVersion": "v1", "kind": "Pod", "spec": spec}
    cleaned, unknown, problems = POD.check(body, collect_unknown=True)
    walk = PathWalk({})
    assert walk.walk(POD.root, body, "", "", "Pod") == cleaned
    assert (walk.unknown, walk.problems) == (unknown, problems)
    if not problems:
        assert POD.check(cleaned, collect_unknown=True) == (cleaned, [], [])


def _bodies() -> list[Transcript]:
    return [
        t
        for t in every()
        if isinstance(t.body, dict) and (t.body.get("apiVersion", ""), t.body.get("kind", "")) in definition_names()
    ]


@needs_transcripts
@pytest.mark.parametrize("one", _bodies(), ids=lambda t: t.name)
def test_bodies_are_accepted_and_refused_like_the_recorded_ones(one: Transcript) -> None:
    _, unknown, problems = check(copy.deepcopy(one.body))
    said = one.answer.get("message", "") if isinstance(one.answer, dict) else ""
    if one.status == 400 and f"{one.body['kind']} in version" in said and "strict decoding" not in said:
        if "no kind" not in said and "unknown conversion" not in said:
            assert said.endswith(problems[0])
    else:
        assert problems == []
    if "strict decoding error: unknown" in said:
        assert said.endswith(", ".join(f'unknown field "{path}"' for path in unknown))
    elif one.status < 300:
        expected = {"160", "161", "162", "498", "566"}
        assert unknown == [] or one.name[:3] in expected


def _answers() -> list[Transcript]:
    return [
        t
        for t in every()
        if t.status < 300
        and isinstance(t.answer, dict)
        and (t.answer.get("apiVersion", ""), t.answer.get("kind", "")) in definition_names()
        and "trimmed" not in str(t.answer)
        and not t.answer["kind"].endswith("List")
    ]


@needs_transcripts
@pytest.mark.parametrize("one", _answers(), ids=lambda t: t.name)
def test_every_recorded_answer_fits_its_schema(one: Transcript) -> None:
    _, unknown, problems = check(copy.deepcopy(one.answer))
    assert (unknown, problems) == ([], [])


def test_pod_create_is_decoded_defaulted_and_validated_in_far_less_than_200_microseconds() -> None:
    """The budget of a create; four times that, best of five, so that a busy machine does not fail the test."""
    kind = shape("v1", "Pod")
    raw = pod(tolerations=[{"key": "a", "operator": "Exists"}], nodeSelector={"zone": "a"})
    raw["metadata"] |= {"namespace": "w1", "labels": {"app": "a"}}
    best = min(_timed(kind, raw) for _ in range(5))
    assert best < 0.0008


def _timed(kind: Any, raw: Json, rounds: int = 200) -> float:
    bodies = [copy.deepcopy(raw) for _ in range(rounds)]
    start = time.process_time()
    for body in bodies:
        obj, _, _ = POD.check(body, collect_unknown=True)
        apply_defaults(kind, obj)
        assert validate_create(kind, obj) == []
        track_update(POD, None, obj, manager="m", now="2026-01-01T00:00:00Z", api_version="v1")
    return (time.process_time() - start) / rounds


def test_schemas_are_made_once() -> None:
    assert schema_for("v1", "Pod") is POD
    assert isinstance(POD, Schema)


def test_object_that_is_checked_thoroughly_is_not_kept() -> None:
    """What the quick walk could not take in was kept forever by the exception that said so."""
    body: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "nosuch": {}}
    before = sys.getrefcount(body)
    for _ in range(5):
        assert POD.check(body, collect_unknown=True)[1]
    assert sys.getrefcount(body) == before
