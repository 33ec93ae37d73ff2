"""Stored custom resources follow their definition: defaults and pruning on read, versions, storage migration.

Rules: k8s.io/apiextensions-apiserver (customresource_handler), e2e custom_resource_definition.go and crd_watch.go.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kube_standin.storage import Store
from tests.server.definitions import CRDS, Json, definition, fields, place, version, widget
from tests.server.inprocess import Plane, running

NAME = "widgets.stable.example.com"
TEXT = {"type": "string"}
MERGE = {"content_type": "application/merge-patch+json"}


@pytest.fixture
def plane() -> Iterator[Plane]:
    with running() as made:
        yield made


def redefine(plane: Plane, *versions: Json) -> None:
    answer = plane.ask(f"PATCH {CRDS}/{NAME}", {"spec": {"versions": list(versions)}}, **MERGE)
    assert answer.status == 200, answer.body


def specs(plane: Plane, at: str = "v1") -> list[Json]:
    """What a get, a list, a watch from the start and one from the past show of the objects, which are equal."""
    line = place(at=at)
    items: list[Json] = plane.ask(f"GET {line}").json["items"]
    for item in items:
        assert plane.ask(f"GET {place(item['metadata']['name'], at=at)}").json == item
    for since in ("", "&resourceVersion=1"):
        events = plane.watched(f"GET {line}?watch=true&timeoutSeconds=1{since}")
        newest = {event["object"]["metadata"]["name"]: event["object"] for event in events}
        assert list(newest.values()) == items
    assert {item["apiVersion"] for item in items} == {f"stable.example.com/{at}"}
    return [item["spec"] for item in items]


def test_defaults_that_come_later_apply_to_what_is_stored(plane: Plane) -> None:
    plane.create(CRDS, definition(version(schema=fields(spec=fields(a=TEXT, b=TEXT)))))
    plane.create(place(), widget("w", spec={"a": "1"}))
    redefine(plane, version(schema=fields(spec=fields(a={**TEXT, "default": "x"}, b={**TEXT, "default": "y"}))))
    assert specs(plane) == [{"a": "1", "b": "y"}]
    redefine(plane, version(schema=fields(spec=fields(b={**TEXT, "default": "z"}, c={**TEXT, "default": "c"}))))
    assert specs(plane) == [{"b": "z", "c": "c"}], "a is pruned, and the default of b was not stored"
    yaml = plane.ask(f"GET {place('w')}", accept="application/yaml").body
    assert b"b: z" in yaml


def test_write_stores_the_defaults(plane: Plane) -> None:
    plane.create(CRDS, definition(version(schema=fields(spec=fields(a=TEXT)))))
    made = plane.create(place(), widget("w", spec={}))
    redefine(plane, version(schema=fields(spec=fields(a={**TEXT, "default": "x"}))))
    same = plane.ask(f"PATCH {place('w')}", {}, **MERGE).json
    assert same["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"], "what is stored was out of date"
    assert same["spec"] == {"a": "x"}
    again = plane.ask(f"PATCH {place('w')}", {}, **MERGE).json
    assert again["metadata"]["resourceVersion"] == same["metadata"]["resourceVersion"]
    redefine(plane, version(schema=fields(spec=fields(a={**TEXT, "default": "y"}))))
    assert specs(plane) == [{"a": "x"}]


def test_each_version_is_pruned_by_its_own_schema(plane: Plane) -> None:
    """Defaults are those of the version that is stored; the other one shows what it has."""
    first = version("v1", fields(spec=fields(a=TEXT, b={**TEXT, "default": "b"})))
    second = version("v2", fields(spec=fields(b=TEXT, c={**TEXT, "default": "c"})), storage=False)
    plane.create(CRDS, definition(first, second))
    plane.create(place(), widget("w", spec={"a": "1"}))
    assert specs(plane) == [{"a": "1", "b": "b"}]
    assert specs(plane, "v2") == [{"b": "b"}]
    made = plane.create(place(at="v2"), widget("x", "v2", spec={}))
    assert made["spec"] == {}, "the default c has no place in the version that is stored"
    assert specs(plane)[1] == {}


def test_version_an_object_is_stored_in_is_known(plane: Plane) -> None:
    """Objects of an earlier storage version keep it until they are written again (storage migration)."""
    first = fields(spec=fields(a={**TEXT, "default": "one"}))
    second = fields(spec=fields(a={**TEXT, "default": "two"}))
    plane.create(CRDS, definition(version("v1", first), version("v2", second, storage=False)))
    plane.create(place(), widget("old", spec={}))
    redefine(plane, version("v1", fields(spec=fields(a=TEXT)), storage=False), version("v2", second))
    assert plane.ask(f"GET {CRDS}/{NAME}").json["status"]["storedVersions"] == ["v1", "v2"]
    plane.create(place(), widget("young", spec={}))
    assert specs(plane, "v2") == [{"a": "one"}, {}]
    redefine(
        plane, version("v1", fields(spec=fields(a={**TEXT, "default": "late"})), storage=False), version("v2", second)
    )
    assert specs(plane, "v2") == [{"a": "one"}, {"a": "two"}]
    for name in ("old", "young"):
        assert plane.ask(f"PATCH {place(name)}", {}, **MERGE).status == 200
    status = {"status": {"storedVersions": ["v2"]}}
    assert plane.ask(f"PATCH {CRDS}/{NAME}/status", status, **MERGE).status == 200
    redefine(plane, version("v2", second))
    assert specs(plane, "v2") == [{"a": "one"}, {"a": "two"}]
    plane.create(place(at="v2"), widget("youngest", "v2", spec={}))
    assert specs(plane, "v2")[2] == {"a": "two"}


def test_fields_of_all_versions_can_be_selected(plane: Plane) -> None:
    schema = fields(spec=fields(a=TEXT, b=TEXT))
    first = version("v1", schema, selectableFields=[{"jsonPath": ".spec.a"}])
    second = version("v2", schema, storage=False, selectableFields=[{"jsonPath": ".spec.b"}])
    plane.create(CRDS, definition(first, second))
    plane.create(place(), widget("w", spec={"a": "1", "b": "2"}))
    for at, found in (("v1", "spec.a=1"), ("v2", "spec.b=2")):
        assert len(plane.ask(f"GET {place(at=at)}?fieldSelector={found}").json["items"]) == 1
    assert plane.ask(f"GET {place()}?fieldSelector=spec.b=2").refusal[2] == "field label not supported: spec.b"


def test_what_is_stored_is_read_alike_after_a_restart() -> None:
    store = Store()
    with running(store=store) as plane:
        plane.create(CRDS, definition(version(schema=fields(spec=fields(a=TEXT)))))
        plane.create(place(), widget("w", spec={"a": "1"}))
        redefine(plane, version(schema=fields(spec=fields(b={**TEXT, "default": "y"}))))
        plane.create(place(), widget("x", spec={}))
        before = specs(plane)
        kinds = plane.registry.kinds
        # A second control plane over the same states reads its definitions again.
        with running(store=store) as again:
            assert again.registry.kinds is not kinds
            assert specs(again) == before == [{"b": "y"}, {"b": "y"}]
