"""What is set and kept in an object before it is stored: taints' times, generations, status and metadata."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kube_standin.kinds import ServedKind
from kube_standin.strategy import before_create, count_generation, date_taints, restrict
from tests.recorded.shapes import custom_kind, shape

Json = dict[str, Any]


def taint(effect: str = "NoExecute", time: str | None = None) -> Json:
    return {"key": "k", "effect": effect, **({"timeAdded": time} if time else {})}


@pytest.mark.parametrize(
    ("old", "new", "time"),
    [
        (None, taint(), "now"),
        (None, taint(time="then"), "then"),
        (taint(time="then"), taint(time="then"), "then"),
        (taint(time="then"), taint("NoSchedule", "then"), "now"),
        (taint(time="then"), taint("NoSchedule", "other"), "other"),
        (taint(time="then"), taint(time="other"), "other"),
        (taint(time="then"), taint(), "now"),
    ],
)
def test_since_when_a_rule_taints_devices(old: Json | None, new: Json, time: str) -> None:
    """A new effect begins now, unless its author states when."""
    kind = shape("resource.k8s.io/v1", "DeviceTaintRule")
    body: Json = {"spec": {"taint": copy.deepcopy(new)}}
    date_taints(kind, body, None if old is None else {"spec": {"taint": old}}, "now")
    assert body["spec"]["taint"] == {**new, "timeAdded": time}
    untainted: list[Json] = [{}, {"spec": None}, {"spec": {}}, {"spec": {"taint": None}}, {"spec": {"taint": {}}}]
    for bare in untainted:
        made = copy.deepcopy(bare)
        date_taints(kind, made, None, "now")
        assert made == bare
        date_taints(kind, body, bare, "now")
        assert body["spec"]["taint"]["timeAdded"] in (time, "now")


@pytest.mark.parametrize("spec", [None, {}, {"devices": None}, {"devices": [{"name": "a", "taints": None}]}])
def test_slice_without_taints_is_left_as_it_is(spec: Any) -> None:
    body = {"spec": copy.deepcopy(spec)}
    date_taints(shape("resource.k8s.io/v1", "ResourceSlice"), body, None, "now")
    assert body == {"spec": spec}


@pytest.mark.parametrize(("counts", "generation"), [(True, 1), (False, None)])
def test_new_object_has_its_first_generation(counts: bool, generation: int | None) -> None:
    for given in ({}, {"generation": 9}):
        new: Json = {"metadata": dict(given)}
        before_create(custom_kind("g", "v1", "Gang", generation=counts), new, "now")
        assert new["metadata"].get("generation") == generation


def test_new_taint_rule_is_dated() -> None:
    new: Json = {"metadata": {}, "spec": {"taint": taint()}}
    before_create(shape("resource.k8s.io/v1", "DeviceTaintRule"), new, "now")
    assert new["spec"]["taint"]["timeAdded"] == "now"


META_KEYS = ("labels", "annotations", "finalizers", "ownerReferences")


@pytest.mark.parametrize(
    ("kind", "kept"),
    [
        (shape("v1", "Pod"), {"ownerReferences"}),
        (shape("v1", "Node"), set()),
        (shape("apps/v1", "Deployment"), {"labels"}),
        (shape("scheduling.k8s.io/v1beta1", "PodGroup"), set(META_KEYS)),
        (custom_kind("g", "v1", "Pod", subresources=frozenset(("status",))), set()),
    ],
)
def test_status_write_may_change_of_metadata(kind: ServedKind, kept: set[str]) -> None:
    """By the strategy of the kind; what was not there before is taken off again. Of the rest it may change nothing."""
    for was_there in (True, False):
        old: Json = {"metadata": dict.fromkeys(META_KEYS, "old") if was_there else {}, "spec": 1, "data": 1}
        new: Json = {"kind": "K", "apiVersion": "v", "metadata": dict.fromkeys(META_KEYS, "new"), "spec": 2, "more": 3,
                     "status": "new"}  # fmt: skip
        restrict(kind, new, {**old, "status": "old", "kind": "L"}, "status")
        assert {key: new[key] for key in new if key != "metadata"} == {
            "kind": "K", "apiVersion": "v", "spec": 1, "data": 1, "status": "new"}  # fmt: skip
        for key in META_KEYS:
            expected = "new" if key not in kept else "old" if was_there else None
            assert new["metadata"].get(key) == expected, key


@pytest.mark.parametrize("before", [{"status": "old"}, {}])
@pytest.mark.parametrize("door", ["", "binding"])
def test_write_of_the_object_leaves_its_status(before: Json, door: str) -> None:
    kind = custom_kind("g", "v1", "Gang", subresources=frozenset(("status",)))
    for row, has_door in ((kind, door == ""), (custom_kind("g", "v1", "Gang"), False)):
        new: Json = {"metadata": {}, "spec": 2, "status": "new"}
        restrict(row, new, {"metadata": {}, "spec": 1, **before}, door)
        assert new == {"metadata": {}, "spec": 2, **(before if has_door else {"status": "new"})}


@pytest.mark.parametrize(
    ("door", "old", "sent", "spec"),
    [
        ("", {"spec": {"finalizers": ["k"]}}, {"finalizers": ["x"]}, {"finalizers": ["k"]}),
        ("", {}, {"finalizers": ["x"]}, {}),
        ("finalize", {"spec": {"finalizers": ["k"]}}, {"finalizers": ["x"]}, {"finalizers": ["x"]}),
        ("finalize", {"spec": {"finalizers": ["k"]}}, {"finalizers": []}, {}),
        ("finalize", {"spec": {"finalizers": ["k"]}}, None, {}),
    ],
)
def test_finalizers_of_a_namespace_have_their_own_door(door: str, old: Json, sent: Any, spec: Json) -> None:
    kind = shape("v1", "Namespace")
    whole: Json = {"metadata": {"labels": {"a": "b"}}, "status": {"phase": "Active"}, **old}
    before = copy.deepcopy(whole)
    new: Json = {"metadata": {"labels": {"c": "d"}}, "spec": sent, "status": {}}
    restrict(kind, new, whole, door)
    assert (new["spec"], new["status"]) == (spec, {"phase": "Active"})
    assert new["metadata"] == {"labels": {"a": "b"} if door else {"c": "d"}}
    assert whole == before


@pytest.mark.parametrize(
    ("kind", "key", "counts"),
    [
        (shape("scheduling.k8s.io/v1", "PriorityClass"), "description", False),
        (custom_kind("g", "v1", "PriorityClass", generation=True), "description", True),
        (shape("policy/v1", "PodDisruptionBudget"), "status", False),
        (custom_kind("g", "v1", "Gang", generation=True), "status", True),
        (custom_kind("g", "v1", "Gang", generation=True), "kind", False),
    ],
)
def test_generation_counts_changes(kind: ServedKind, key: str, counts: bool) -> None:
    """A status counts where it has no door of its own; what is taken away counts like what is changed."""
    for new, old in (({key: 2}, {key: 1}), ({}, {key: 1}), ({key: 1}, {})):
        body: Json = {"metadata": {}, **new}
        count_generation(kind, body, {"metadata": {"generation": 4}, **old}, "")
        assert body["metadata"]["generation"] == (5 if counts else 4)


META: Json = {"name": "n", "namespace": "s", "uid": "u", "resourceVersion": "5", "creationTimestamp": "t", "labels": {}}


SHOWN = {key: META[key] for key in META if key != "labels"}
