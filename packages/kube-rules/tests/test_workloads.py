"""Kinds that make pods, by their names, and the pod templates in a manifest."""

from __future__ import annotations

from typing import Any

import pytest

from kube_rules.workloads import created_by, group_of, makes_pods, nearest_kind, templates_in

KNOWN = [("v1", "Pod"), ("apps/v1", "Deployment"), ("apps/v1beta1", "Deployment"), ("batch/v1", "Job")]


@pytest.mark.parametrize(
    ("version", "kind", "makes"),
    [
        ("apps/v1", "Deployment", True),
        ("apps/v9", "Deployment", True),  # the version does not matter
        ("v1", "ReplicationController", True),
        ("batch/v1", "Deployment", False),
        ("v1", "Pod", False),
        ("example.io/v1", "Job", False),
        ("batch.volcano.sh/v1alpha1", "Job", True),
    ],
)
def test_group_decides_together_with_the_kind(version: str, kind: str, makes: bool) -> None:
    assert makes_pods(version, kind) is makes


@pytest.mark.parametrize(("version", "group"), [("v1", ""), ("apps/v1", "apps"), ("a.b/v1", "a.b")])
def test_group_of_a_version(version: str, group: str) -> None:
    assert group_of(version) == group


@pytest.mark.parametrize(
    ("version", "kind", "meant"),
    [
        ("extensions/v1beta1", "Deployment", 'version "apps/v1beta1"'),  # the last by name
        ("v1", "Deploymnet", '"Deployment" in version "apps/v1beta1"'),
        ("apps/v1", "Deploymnet", '"Deployment"'),
        ("v1", "pod", '"Pod"'),
        ("ray.io/v1", "RayClustr", '"RayCluster"'),  # known by the table of pod makers alone
        ("x/v1", "Zzzzzz", ""),
    ],
)
def test_kind_that_was_probably_meant(version: str, kind: str, meant: str) -> None:
    assert nearest_kind(version, kind, KNOWN) == meant


POD: dict[str, Any] = {"spec": {"containers": []}}


@pytest.mark.parametrize(
    ("manifest", "paths"),
    [
        ({}, []),
        (POD, []),  # the object itself is no template
        ({"spec": {"template": POD}}, [("spec", "template")]),
        ({"spec": {"template": {"spec": {"containers": {}}}}}, []),
        ({"spec": {"template": {"spec": 7}}}, []),
        ({"a": [POD, {"b": POD}], "c": POD}, [("a", 0), ("a", 1, "b"), ("c",)]),
        ({"a": {"spec": {"containers": [], "template": POD}}}, [("a",)]),  # none within one
        ({1: POD, "b": POD}, [("b",)]),
    ],
)
def test_templates_are_found_in_document_order(manifest: dict[Any, Any], paths: list[Any]) -> None:
    assert [path for path, _ in templates_in(manifest)] == paths


@pytest.mark.parametrize(
    ("spec", "paths"),
    [
        (None, []),
        ({"steps": 7}, []),
        ({"steps": [7, {"create": 7}, {"create": [7, {"a": 1}, {}]}]}, [(2, 1), (2, 2)]),
        ({"steps": [{"create": [{}]}, {"wait": 1}, {"create": [{}]}]}, [(0, 0), (2, 0)]),
    ],
)
def test_scenario_creates(spec: Any, paths: list[Any]) -> None:
    found = [path for path, _ in created_by({"spec": spec})]
    assert found == [("spec", "steps", step, "create", index) for step, index in paths]
