"""What watchers see of pods that are deleted."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from kube_standin.features import EVERY_RELEASE
from tests.server.inprocess import Plane, running
from tests.server.live import pod


@pytest.fixture
def plane() -> Iterator[Plane]:
    with running(features=EVERY_RELEASE) as made:
        yield made


PODS = "/api/v1/namespaces/default/pods"


def deletions(plane: Plane, count: int) -> list[list[str]]:
    """Delete pods without nodes by one request, and watch from before; the types of events, piece by piece."""
    for number in range(count):
        assert plane.ask(f"POST {PODS}", pod(f"p{number:02}")).status == 201
    since = plane.store.revision
    assert plane.ask(f"DELETE {PODS}", {}).status == 200

    async def run() -> list[list[str]]:
        async with plane.watching(f"GET {PODS}?watch=1&resourceVersion={since}&timeoutSeconds=5") as watch:
            await watch.start()
            await watch.rest()
            return [[json.loads(line)["type"] for line in piece.splitlines()] for piece in watch.pieces if piece]

    return plane.run(run())


def test_pod_that_terminates_is_seen_before_it_is_deleted(plane: Plane) -> None:
    # interfaces.md 4.3
    assert deletions(plane, 1) == [["MODIFIED"], ["DELETED"]]


def test_few_pods_that_are_deleted_together_are_seen_in_order(plane: Plane) -> None:
    assert deletions(plane, 3) == [["MODIFIED"], ["DELETED", "MODIFIED"], ["DELETED", "MODIFIED"], ["DELETED"]]


def test_many_deletions_at_once_are_not_cut(plane: Plane) -> None:
    pieces = deletions(plane, 20)
    assert [word for piece in pieces for word in piece] == ["MODIFIED", "DELETED"] * 20
    assert len(pieces) < 4
