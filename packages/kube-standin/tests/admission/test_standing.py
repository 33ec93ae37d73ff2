"""Annotations that raise the standing of a victim are refused beyond their grant (cost.md 7.5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kube_standin.features import EVERY_RELEASE
from tests.server.inprocess import Plane, running
from tests.server.live import pod
from tests.server.manifests_of_kinds import definition, manifest

Json = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
OLDER = GROUPS.replace("v1beta1", "v1alpha2")
COMPOSITES = "/apis/scheduling.k8s.io/v1alpha3/namespaces/default/compositepodgroups"
VOLCANO = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
OURS = "scheduling.reprieve.dev/"
MERGE, STRATEGIC, JSON_PATCH, APPLY = (
    f"application/{name}"
    for name in ("merge-patch+json", "strategic-merge-patch+json", "json-patch+json", "apply-patch+yaml")
)
LONG = {f"{OURS}minimum-runtime": "87600h"}
GOLD = {f"{OURS}preemption-priority-class": "gold"}
ONE_HOUR = f'metadata.annotations[{OURS}minimum-runtime]: Forbidden: "87600h" exceeds the granted 1h'


def priority_class(name: str, value: int, **grant: str) -> Json:
    annotations = {OURS + key.replace("_", "-"): text for key, text in grant.items()}
    return {"metadata": {"name": name, "annotations": annotations}, "value": value}


@pytest.fixture
def plane() -> Iterator[Plane]:
    with running(features=EVERY_RELEASE) as made:
        for one in (
            priority_class("batch", 0),
            priority_class("long", 0, max_minimum_runtime="87600h", max_preemption_priority="900"),
            priority_class("mine", 0, max_minimum_runtime="87600h", grant_namespaces="team-a"),
            priority_class("gold", 900),
        ):
            made.create(CLASSES, one)
        yield made


def annotated(body: Json, annotations: Json, **spec: Any) -> Json:
    metadata = {**body["metadata"], "annotations": annotations}
    return {**body, "metadata": metadata, "spec": {**body.get("spec", {}), **spec}}


def refusal(plane: Plane, line: str, body: Any, content_type: str = "") -> str:
    code, reason, message = plane.ask(line, body, content_type=content_type).refusal
    assert (code, reason) == (403, "Forbidden")
    return message


def in_version(path: str, name: str) -> Json:
    group, version = path.split("/")[2:4]
    kind = "CompositePodGroup" if "composite" in path else "PodGroup"
    return manifest(f"{group}/{version}", kind, name)


@pytest.mark.parametrize("class_name", ["", "batch", "mine"])
def test_pod_has_no_more_than_its_class_grants(plane: Plane, class_name: str) -> None:
    """cost.md 7.1: an hour without a class, with one that grants nothing, and in a namespace that is not named."""
    spec = {"priorityClassName": class_name} if class_name else {}
    assert ONE_HOUR in refusal(plane, f"POST {PODS}", annotated(pod("p"), LONG, **spec))
    plane.create(PODS, annotated(pod("p"), {f"{OURS}minimum-runtime": "1h"}, **spec))


def test_pod_may_have_what_its_class_grants(plane: Plane) -> None:
    """cost.md 7.1."""
    plane.create(PODS, annotated(pod("p"), LONG, priorityClassName="long"))


@pytest.mark.parametrize("path", [GROUPS, OLDER, COMPOSITES])
def test_group_has_no_more_than_its_class_grants(plane: Plane, path: str) -> None:
    """cost.md 7.3: in every version, on every level of a tree."""
    for class_name in ("", "batch"):
        spec = {"priorityClassName": class_name} if class_name else {}
        assert ONE_HOUR in refusal(plane, f"POST {path}", annotated(in_version(path, "g"), LONG, **spec))
        message = refusal(plane, f"POST {path}", annotated(in_version(path, "g"), GOLD, **spec))
        assert f'{OURS}preemption-priority-class]: Forbidden: "gold" (priority 900) exceeds the granted 0' in message
    plane.create(path, annotated(in_version(path, "g"), {**LONG, **GOLD}, priorityClassName="long"))


def test_group_of_another_api_has_no_more_than_its_class_grants(plane: Plane) -> None:
    """cost.md 7.5: a custom resource that the scheduler reads as a group."""
    crd = definition("podgroups.scheduling.volcano.sh")
    crd["spec"]["versions"][0]["name"] = "v1beta1"
    plane.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    body = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Podgroups", "metadata": {"name": "g"}}
    assert ONE_HOUR in refusal(plane, f"POST {VOLCANO}", annotated(body, LONG))
    assert "exceeds the granted 0" in refusal(
        plane, f"POST {VOLCANO}", annotated(body, GOLD, priorityClassName="batch")
    )
    plane.create(VOLCANO, annotated(body, {**LONG, **GOLD}, priorityClassName="long"))


PATCH = {"metadata": {"annotations": LONG}}
OPERATION = [{"op": "add", "path": "/metadata/annotations", "value": LONG}]


@pytest.mark.parametrize(
    ("line", "body", "content_type"),
    [
        (f"PATCH {PODS}/p", PATCH, MERGE),
        (f"PATCH {PODS}/p", PATCH, STRATEGIC),
        (f"PATCH {PODS}/p", OPERATION, JSON_PATCH),
        (f"PATCH {PODS}/p?fieldManager=m", {"apiVersion": "v1", "kind": "Pod", **PATCH}, APPLY),
        (f"PATCH {PODS}/p?dryRun=All", PATCH, MERGE),
        (f"PATCH {PODS}/p/status", PATCH, MERGE),
        (f"PATCH {GROUPS}/g", PATCH, MERGE),
        (f"PATCH {OLDER}/g", OPERATION, JSON_PATCH),
        (f"PATCH {GROUPS}/g?fieldManager=m",
         {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", **PATCH}, APPLY),
        (f"PATCH {GROUPS}/new?fieldManager=m", annotated(in_version(GROUPS, "new"), LONG), APPLY),
    ],
)  # fmt: skip
def test_grant_comes_no_other_way(plane: Plane, line: str, body: Any, content_type: str) -> None:
    """cost.md 7.5: after the create, by any form of update."""
    plane.create(PODS, pod("p"))
    plane.create(GROUPS, in_version(GROUPS, "g"))
    before = plane.store.revision
    assert ONE_HOUR in refusal(plane, line, body, content_type)
    assert plane.store.revision == before


def test_grant_comes_by_no_replacement(plane: Plane) -> None:
    """cost.md 7.5."""
    made = plane.create(PODS, pod("p"))
    assert ONE_HOUR in refusal(plane, f"PUT {PODS}/p", annotated(made, LONG))


def test_pods_stay_when_a_grant_shrinks(plane: Plane) -> None:
    """cost.md 7.5: other changes are taken, a larger value is not, a smaller one is."""
    plane.create(PODS, annotated(pod("p"), LONG, priorityClassName="long"))
    plane.ask(f"PATCH {CLASSES}/long", {"metadata": {"annotations": None}}, content_type=MERGE)
    labels = {"metadata": {"labels": {"a": "b"}}}
    assert plane.ask(f"PATCH {PODS}/p", labels, content_type=MERGE).status == 200

    def asked(text: str) -> int:
        patch = {"metadata": {"annotations": {f"{OURS}minimum-runtime": text}}}
        return plane.ask(f"PATCH {PODS}/p", patch, content_type=MERGE).status

    assert [asked("87599h"), asked("2h"), asked("1h"), asked("87600h")] == [403, 403, 200, 403]
