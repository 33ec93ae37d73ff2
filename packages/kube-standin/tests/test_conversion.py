"""Objects in the version of their row of the table of kinds."""

from __future__ import annotations

from typing import Any

from kube_standin.conversion import complete_event, from_storage, to_storage
from tests.recorded.shapes import custom_kind, shape

Json = dict[str, Any]


def test_fields_a_core_event_always_shows_are_its_own() -> None:
    first: Json = {"source": {"component": "c"}}
    second: Json = {}
    complete_event(first)
    complete_event(second)
    assert first["source"] == {"component": "c"}
    assert (second["source"], second["reportingInstance"]) == ({}, "")
    second["source"]["component"] = "d"
    third: Json = {}
    complete_event(third)
    assert third["source"] == {}


def test_object_is_served_in_the_version_of_its_row() -> None:
    plain = custom_kind("g", "v1", "Gang", storage_version="g/v1")
    body = {"apiVersion": "g/v1", "kind": "Gang"}
    assert to_storage(plain, body) is from_storage(plain, body) is body
    other = custom_kind("g", "v2", "Gang", storage_version="g/v1")
    assert to_storage(other, {**body, "apiVersion": "g/v2"}) == body
    assert from_storage(other, body) == {**body, "apiVersion": "g/v2"}
    old = shape("scheduling.k8s.io/v1alpha2", "PodGroup")
    group: Json = {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"basic": {}}}}
    stored = to_storage(old, group)
    assert stored["apiVersion"] == "scheduling.k8s.io/v1beta1"
    assert from_storage(old, stored)["apiVersion"] == "scheduling.k8s.io/v1alpha2"
