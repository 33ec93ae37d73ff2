"""A stored object has the size that etcd takes, by whatever way it grows (api.md 5.4)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kube_standin.storage import LONGEST_OBJECT
from tests.server.inprocess import Answer, Plane, running
from tests.server.live import config_map, pod
from tests.server.manifests_of_kinds import definition

Json = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
TOO_LARGE = (500, None, "etcdserver: request is too large")
MERGE, STRATEGIC, JSON_PATCH, APPLY = (
    f"application/{name}"
    for name in ("merge-patch+json", "strategic-merge-patch+json", "json-patch+json", "apply-patch+yaml")
)
LABELS = {f"{'a' * 240}.example.com/{number:0>60}": "x" * 60 for number in range(4400)}
"""About 1.6 MiB of labels, each of a valid length; managedFields name them all once more."""


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    with running() as made:
        made.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition("widgets.example.com"))
        made.create(PODS, pod("small"))
        made.create(MAPS, config_map("small"))
        made.create(WIDGETS, widget("small", 10))
        yield made


def widget(name: str, size: int) -> Json:
    return {"apiVersion": "example.com/v1", "kind": "Widgets", "metadata": {"name": name}, "spec": {"text": "x" * size}}


def stored_bytes(plane: Plane, name: str) -> int:
    state = plane.store.head("example.com/widgets", "default", name)
    assert state is not None
    return len(state.raw)


def test_object_has_at_most_the_bytes_that_etcd_takes(plane: Plane) -> None:
    """As many are stored, one more is refused, and nothing of it is there."""
    plane.create(WIDGETS, widget("probe", 1_000_000))
    beside = stored_bytes(plane, "probe") - 1_000_000
    plane.create(WIDGETS, widget("right", LONGEST_OBJECT - beside))
    assert stored_bytes(plane, "right") == LONGEST_OBJECT
    assert plane.ask(f"POST {WIDGETS}", widget("wrong", LONGEST_OBJECT - beside + 1)).refusal == TOO_LARGE
    assert plane.ask(f"GET {WIDGETS}/wrong").status == 404


def grown(object_: Json) -> Json:
    return {**object_, "metadata": {**object_["metadata"], "labels": LABELS}}


OPERATIONS = [{"op": "add", "path": "/metadata/labels", "value": LABELS}]
ONLY_LABELS = {"metadata": {"labels": LABELS}}
LARGE_STATUS = {"status": {"message": "x" * LONGEST_OBJECT}}
BINDING = {"metadata": {"name": "small", "labels": LABELS}, "target": {"name": "n"}}


@pytest.mark.parametrize(
    ("line", "body", "content_type"),
    [
        (f"POST {PODS}", grown(pod("large")), ""),
        (f"PUT {MAPS}/small", grown(config_map("small")), ""),
        (f"PATCH {PODS}/small", ONLY_LABELS, MERGE),
        (f"PATCH {PODS}/small", ONLY_LABELS, STRATEGIC),
        (f"PATCH {PODS}/small", OPERATIONS, JSON_PATCH),
        (f"PATCH {PODS}/small?fieldManager=m", {"apiVersion": "v1", "kind": "Pod", **ONLY_LABELS}, APPLY),
        (f"PATCH {PODS}/large?fieldManager=m", grown(pod("large")), APPLY),
        (f"PATCH {PODS}/small/status", LARGE_STATUS, MERGE),
        (f"PATCH {WIDGETS}/small/status", LARGE_STATUS, MERGE),
        (f"POST {PODS}/small/binding", BINDING, ""),
        ("PUT /apis/coordination.k8s.io/v1/namespaces/default/leases/large",
         {"metadata": {"name": "large", "labels": LABELS}}, ""),
    ],
)  # fmt: skip
def test_writes_that_make_an_object_too_large_are_refused(
    plane: Plane, line: str, body: Json | list[Json], content_type: str
) -> None:
    """As a kube-apiserver words it, and the object is as it was."""
    before = plane.store.revision
    answer = plane.ask(line, body, content_type=content_type)
    assert answer.refusal == TOO_LARGE
    assert plane.store.revision == before


def test_fields_and_their_owners_count(plane: Plane) -> None:
    """Each manager adds what it owns; the applies end with a refusal, and the object stays within the limit."""
    plane.create(WIDGETS, widget("owned", 10))
    spec = {f"field-{'x' * 100}-{number}": "" for number in range(2000)}

    def applied(number: int) -> Answer:
        body = {"apiVersion": "example.com/v1", "kind": "Widgets", "spec": spec}
        return plane.ask(f"PATCH {WIDGETS}/owned?fieldManager=m{number}", body, content_type=APPLY)

    answers = [applied(number) for number in range(8)]
    refusals = [answer.refusal for answer in answers if answer.status != 200]
    assert refusals
    assert set(refusals) == {TOO_LARGE}
    assert stored_bytes(plane, "owned") <= LONGEST_OBJECT


def test_object_at_the_limit_can_be_made_smaller_and_deleted(plane: Plane) -> None:
    """It is not stuck, and its end needs no room."""
    plane.create(WIDGETS, {**widget("full", LONGEST_OBJECT - 2000), "metadata": {"name": "full"}})
    patch = json.dumps({"spec": {"text": ""}}).encode()
    assert plane.ask(f"PATCH {WIDGETS}/full", raw=patch, content_type=MERGE).status == 200
    plane.create(WIDGETS, widget("full-too", LONGEST_OBJECT - 2000))
    assert plane.ask(f"DELETE {WIDGETS}/full-too").status == 200
    assert plane.ask(f"GET {WIDGETS}/full-too").status == 404
