"""From the names of a definition to the end of its objects (controllers of apiextensions-apiserver)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.server.definitions import CRDS, Json, definition, place, version, widget
from tests.server.inprocess import Plane, running

MERGE = {"content_type": "application/merge-patch+json"}
NAME = "widgets.stable.example.com"


@pytest.fixture
def plane() -> Iterator[Plane]:
    with running() as made:
        yield made


def status(plane: Plane, name: str = NAME) -> Json:
    found: Json = plane.ask(f"GET {CRDS}/{name}").json["status"]
    return found


def conditions(plane: Plane, name: str = NAME) -> list[tuple[str, ...]]:
    words = ("type", "status", "reason", "message")
    return [tuple(one[word] for word in words) for one in status(plane, name)["conditions"]]


ACCEPTED = ("NamesAccepted", "True", "NoConflicts", "no conflicts found")
ESTABLISHED = ("Established", "True", "InitialNamesAccepted", "the initial names have been accepted")
WAITING = ("Established", "False", "NotAccepted", "not all names are accepted")


def other(names: Json) -> Json:
    made = definition(kind="Other")
    made["spec"]["names"] |= names
    return made


@pytest.mark.parametrize(
    ("names", "reason", "message", "accepted"),
    [
        ({"singular": "widget"}, "SingularConflict", '"widget" is already in use',
         {"plural": "others", "kind": "Other", "listKind": "OtherList"}),
        ({"shortNames": ["w", "o", "widgets"]}, "ShortNamesConflict",
         '["w" is already in use, "widgets" is already in use]',
         {"plural": "others", "singular": "other", "kind": "Other", "listKind": "OtherList"}),
        ({"kind": "Widget", "listKind": "OtherList"}, "KindConflict", '"Widget" is already in use',
         {"plural": "others", "singular": "other", "kind": "", "listKind": "OtherList"}),
        ({"listKind": "WidgetList"}, "ListKindConflict", '"WidgetList" is already in use',
         {"plural": "others", "singular": "other", "kind": "Other"}),
    ],
)  # fmt: skip
def test_names_that_another_definition_has(
    plane: Plane, names: Json, reason: str, message: str, accepted: Json
) -> None:
    """The other names are accepted; when they are free the definition is served."""
    first = definition()
    first["spec"]["names"]["shortNames"] = ["w"]
    plane.create(CRDS, first)
    made = other(names)
    made["spec"]["names"].setdefault("singular", "other")
    plane.create(CRDS, made)
    name = "others.stable.example.com"
    assert conditions(plane, name) == [("NamesAccepted", "False", reason, message), WAITING]
    assert status(plane, name)["acceptedNames"] == accepted
    assert plane.ask(f"GET {place(plural='others')}").status == 404
    assert plane.ask(f"DELETE {CRDS}/{NAME}").status == 200
    plane.run(asyncio.sleep(1))
    assert conditions(plane, name) == [ACCEPTED, ESTABLISHED]
    assert status(plane, name)["acceptedNames"] == plane.ask(f"GET {CRDS}/{name}").json["spec"]["names"]
    assert plane.ask(f"GET {place(plural='others')}").status == 200


def test_established_definition_is_served_by_the_names_it_has(plane: Plane) -> None:
    first = definition()
    first["spec"]["names"]["shortNames"] = ["w"]
    plane.create(CRDS, first)
    plane.create(CRDS, other({"shortNames": ["o"]}))
    name = "others.stable.example.com"
    patch = {"spec": {"names": {"shortNames": ["o", "w"]}}}
    assert plane.ask(f"PATCH {CRDS}/{name}", patch, **MERGE).status == 200
    taken = ("NamesAccepted", "False", "ShortNamesConflict", '"w" is already in use')
    assert conditions(plane, name) == [taken, ESTABLISHED]
    resources = plane.ask("GET /apis/stable.example.com/v1").json["resources"]
    assert [row["shortNames"] for row in resources if row["name"] == "others"] == [["o"]]


def test_end_of_a_definition(plane: Plane) -> None:
    """Its objects are deleted first, and none are created meanwhile."""
    plane.create(CRDS, definition(version("v1"), version("v2", storage=False)))
    plane.create(place(), widget("free"))
    plane.create(place(), {**widget("held"), "metadata": {"name": "held", "finalizers": ["example.com/x"]}})
    deleted = plane.ask(f"DELETE {CRDS}/{NAME}").json
    assert deleted["status"]["conditions"][-1]["reason"] == "InstanceDeletionPending"
    plane.run(asyncio.sleep(1))
    ending = ("Terminating", "True", "InstanceDeletionInProgress", "CustomResource deletion is in progress")
    assert conditions(plane)[-1] == ending
    reason = "create not allowed while custom resource definition is terminating"
    why = f'widgets.stable.example.com "new" is forbidden: {reason}'
    for at in ("v1", "v2"):
        assert plane.ask(f"POST {place(at=at)}", widget("new", at)).refusal == (403, "Forbidden", why)
    [left] = plane.ask(f"GET {place()}").json["items"]
    assert (left["metadata"]["name"], "deletionTimestamp" in left["metadata"]) == ("held", True)
    assert plane.ask(f"PATCH {place('held')}", {"metadata": {"finalizers": None}}, **MERGE).status == 200
    plane.run(asyncio.sleep(1))
    assert plane.ask(f"GET {CRDS}/{NAME}").status == 404
    assert plane.ask(f"GET {place()}").status == 404


def test_objects_of_versions_that_are_not_served_are_deleted_too(plane: Plane) -> None:
    plane.create(CRDS, definition(version("v1")))
    plane.create(place(), widget("w"))
    patch = {"spec": {"versions": [{**version("v1"), "served": False}, version("v2", storage=False)]}}
    assert plane.ask(f"PATCH {CRDS}/{NAME}", patch, **MERGE).status == 200
    assert plane.ask(f"GET {place()}").status == 404
    assert plane.ask(f"GET {place('w', at='v2')}").status == 200
    assert plane.ask(f"DELETE {CRDS}/{NAME}").status == 200
    plane.run(asyncio.sleep(1))
    assert plane.ask(f"GET {CRDS}/{NAME}").status == 404
    assert list(plane.store.heads("stable.example.com/widgets")) == []


def test_status_of_a_definition_is_a_door_of_its_own(plane: Plane) -> None:
    """e2e custom_resource_definition.go: get, update and patch of /status; conditions of others stay."""
    plane.create(CRDS, definition())
    mine = {"type": "StatusUpdate", "status": "True", "reason": "E2E", "message": "m"}
    found = plane.ask(f"GET {CRDS}/{NAME}/status").json
    found["status"]["conditions"].append(mine)
    found["spec"]["names"]["shortNames"] = ["x"]
    updated = plane.ask(f"PUT {CRDS}/{NAME}/status", found).json
    assert "shortNames" not in updated["spec"]["names"]
    assert [one["type"] for one in updated["status"]["conditions"]] == ["NamesAccepted", "Established", "StatusUpdate"]
    patch = [{"op": "add", "path": "/status/conditions/-", "value": {**mine, "type": "StatusPatched"}}]
    patched = plane.ask(f"PATCH {CRDS}/{NAME}/status", patch, content_type="application/json-patch+json").json
    assert [one["type"] for one in patched["status"]["conditions"]][2:] == ["StatusUpdate", "StatusPatched"]
    assert plane.ask(f"GET {place()}").status == 200


def test_versions_of_a_group_are_ordered(plane: Plane) -> None:
    """apimachinery/pkg/version: stable, beta, alpha, highest first; then others by name."""
    names = ["v1alpha1", "v1beta2", "v10", "foo", "v2", "v1beta10", "v0", "bar"]
    plane.create(CRDS, definition(*(version(name, storage=name == "v2") for name in names)))
    found = plane.ask("GET /apis/stable.example.com").json
    ordered = ["v10", "v2", "v0", "v1beta10", "v1beta2", "v1alpha1", "bar", "foo"]
    assert [one["version"] for one in found["versions"]] == ordered
    assert found["preferredVersion"]["version"] == "v10"
