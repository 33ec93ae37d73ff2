"""Deletion: finalizers, dependents, preconditions and grace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kube_standin.clock import parse_stamp
from tests.server.inprocess import Plane, running
from tests.server.live import config_map, pod
from tests.test_verbs import MAPS, MERGE, PODS, Json


@pytest.fixture
def plane() -> Iterator[Plane]:
    with running() as made:
        yield made


def test_object_goes_with_its_last_finalizer(plane: Plane) -> None:
    held = config_map("m")
    held["metadata"]["finalizers"] = ["a/b", "c/d"]
    plane.create(MAPS, held)
    waiting = plane.ask(f"DELETE {MAPS}/m").json["metadata"]
    assert (waiting["deletionTimestamp"], waiting["deletionGracePeriodSeconds"]) == (plane.clock.stamp(), 0)
    again = plane.ask(f"DELETE {MAPS}/m").json["metadata"]
    assert again == waiting
    plane.ask(f"PATCH {MAPS}/m", {"metadata": {"finalizers": ["c/d"]}}, content_type=MERGE)
    assert plane.ask(f"GET {MAPS}/m").status == 200
    dry = plane.ask(f"PATCH {MAPS}/m?dryRun=All", {"metadata": {"finalizers": None}}, content_type=MERGE)
    assert dry.status == 200
    assert plane.ask(f"GET {MAPS}/m").status == 200
    last = plane.ask(f"PATCH {MAPS}/m", {"metadata": {"finalizers": None}}, content_type=MERGE)
    assert last.status == 200
    assert plane.ask(f"GET {MAPS}/m").status == 404


@pytest.mark.parametrize(
    ("policy", "finalizers"),
    [
        ({"propagationPolicy": "Orphan"}, ["orphan"]),
        ({"propagationPolicy": "Foreground"}, ["foregroundDeletion"]),
        ({"propagationPolicy": "Background"}, None),
        ({"orphanDependents": True}, ["orphan"]),
        ({"orphanDependents": False}, None),
        ({}, None),
    ],
)
def test_dependents_of_a_deleted_owner(plane: Plane, policy: Json, finalizers: list[str] | None) -> None:
    """A finalizer for the garbage collector; asked for again it is replaced, others stay."""
    plane.create(MAPS, config_map("m"))
    assert plane.ask(f"DELETE {MAPS}/m", policy).status == 200
    after = plane.ask(f"GET {MAPS}/m")
    assert (after.json["metadata"]["finalizers"] if after.status == 200 else None) == finalizers
    held = config_map("held")
    held["metadata"]["finalizers"] = ["foregroundDeletion", "a/b"]
    plane.create(MAPS, held)
    plane.ask(f"DELETE {MAPS}/held", policy)
    kept = plane.ask(f"GET {MAPS}/held").json["metadata"]["finalizers"]
    assert kept == (["a/b", *(finalizers or [])] if policy else ["foregroundDeletion", "a/b"])


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("propagationPolicy=x", 'propagationPolicy: Unsupported value: "x": supported values: '
         '"Foreground", "Background", "Orphan", "nil"'),
        ("propagationPolicy=Orphan&orphanDependents=true",
         'propagationPolicy: Invalid value: "Orphan": orphanDependents and deletionPropagation cannot be both set'),
        ("dryRun=x", 'dryRun: Unsupported value: ["x"]: supported values: "All"'),
    ],
)  # fmt: skip
def test_options_of_a_delete_that_are_refused(plane: Plane, query: str, message: str) -> None:
    plane.create(MAPS, config_map("m"))
    answer = plane.ask(f"DELETE {MAPS}/m?{query}")
    assert answer.refusal == (422, "Invalid", f'DeleteOptions.meta.k8s.io "" is invalid: {message}')


@pytest.mark.parametrize(
    ("what", "word", "happened"),
    [("uid", "UID", "deleted and then recreated"), ("resourceVersion", "ResourceVersion", "modified")],
)
def test_preconditions_of_a_delete(plane: Plane, what: str, word: str, happened: str) -> None:
    found = plane.create(MAPS, config_map("m"))["metadata"][what]
    refused = plane.ask(f"DELETE {MAPS}/m", {"preconditions": {what: "5"}})
    assert refused.refusal == (
        409,
        "Conflict",
        f'Operation cannot be fulfilled on ConfigMap "m": the {word} in the precondition (5) does not match the {word} '
        f"in record ({found}). The object might have been {happened}",
    )
    assert plane.ask(f"DELETE {MAPS}/m", {"preconditions": {what: found}}).status == 200


def bound_pod(plane: Plane, name: str = "p", **spec: Any) -> None:
    body = pod(name)
    body["spec"] |= {"nodeName": "n", **spec}
    plane.create(PODS, body)


def left(plane: Plane) -> tuple[int, int] | None:
    """Seconds until a pod is to be gone by its times: its grace, and the end counted from the start."""
    answer = plane.ask(f"GET {PODS}/p")
    if answer.status == 404:
        return None
    metadata = answer.json["metadata"]
    ends = parse_stamp(metadata["deletionTimestamp"]) - parse_stamp("2026-01-01T00:00:00Z")
    return metadata["deletionGracePeriodSeconds"], int(ends.total_seconds())


@pytest.mark.parametrize(
    ("spec", "graces", "found"),
    [
        ({}, [None], (30, 30)),
        ({"terminationGracePeriodSeconds": 7}, [None], (7, 7)),
        ({"terminationGracePeriodSeconds": 7}, [50], (50, 50)),
        ({}, [0], None),
        ({}, [-5], (1, 1)),
        ({}, [None, None], (30, 30)),
        ({}, [20, 30], (20, 20)),
        ({}, [20, 20], (20, 20)),
        ({}, [20, 8], (8, 8)),
        ({}, [20, 15], (15, 15)),
        ({}, [20, 0], None),
    ],
)
def test_grace_of_a_pod(plane: Plane, spec: Json, graces: list[int | None], found: tuple[int, int] | None) -> None:
    """It gets shorter, never longer, and counts from when it was first asked to go."""
    bound_pod(plane, **spec)
    for grace in graces:
        body = {} if grace is None else {"gracePeriodSeconds": grace}
        assert plane.ask(f"DELETE {PODS}/p", body).status == 200
        plane.clock.forward(10)
    assert left(plane) == found


@pytest.mark.parametrize(
    ("phase", "goes"), [("Pending", False), ("Running", False), ("Succeeded", True), ("Failed", True)]
)
def test_finished_pod_is_deleted_at_once(plane: Plane, phase: str, goes: bool) -> None:
    """As does a pod that has no node; a generation is counted for the asking."""
    bound_pod(plane)
    plane.ask(f"PATCH {PODS}/p/status", {"status": {"phase": phase}}, content_type=MERGE)
    asked = plane.ask(f"DELETE {PODS}/p").json
    assert asked["metadata"]["generation"] == 2
    assert (plane.ask(f"GET {PODS}/p").status == 404) is goes
    plane.create(PODS, pod("free"))
    assert plane.ask(f"DELETE {PODS}/free").status == 200
    assert plane.ask(f"GET {PODS}/free").status == 404


def test_watchers_see_a_pod_terminate_and_others_go_as_they_were(plane: Plane) -> None:
    """A pod that goes at once is seen terminating first (MODIFIED, then DELETED); a config map is not."""
    plane.create(PODS, pod("p"))
    plane.create(MAPS, config_map("m"))
    since = plane.store.revision
    plane.ask(f"DELETE {PODS}/p")
    plane.ask(f"DELETE {MAPS}/m")

    def seen(path: str) -> list[tuple[str, bool]]:
        events = plane.watched(f"GET {path}?watch=1&timeoutSeconds=1&resourceVersion={since}")
        return [(event["type"], "deletionTimestamp" in event["object"]["metadata"]) for event in events]

    assert seen(PODS) == [("MODIFIED", True), ("DELETED", True)]
    assert seen(MAPS) == [("DELETED", False)]
