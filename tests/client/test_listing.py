"""Lists: page by page, begun anew, never mixed (Kubernetes API concepts, "Retrieving large results sets in chunks")."""

from __future__ import annotations

import asyncio

import pytest

from reprieve.api.objects import Pod
from reprieve.client.errors import UnreachableError
from reprieve.client.listing import list_objects

from .scripted import PODS, answer, client_of, page, pod, scripted, status


def test_a_list_is_read_page_by_page() -> None:
    async def run() -> None:
        pages = [
            answer(page([pod("a", 1)], 9, "t1")),
            answer(page([pod("b", 2)], 9, "t2")),
            answer(page([pod("c", 3)], 9)),
        ]
        async with scripted(*pages) as server, client_of(server) as client:
            listed = await list_objects(client, PODS, Pod, page=1)
            asked = [(r.query.get("limit"), r.query.get("continue")) for r in server.seen]
        assert [item.name for item in listed.objects] == ["a", "b", "c"]
        assert listed.revision == "9"
        assert asked == [("1", None), ("1", "t1"), ("1", "t2")]

    asyncio.run(run())


def test_a_list_that_expires_starts_over_and_mixes_nothing() -> None:
    async def run() -> None:
        replies = [
            answer(page([pod("old", 1)], 9, "t1")),
            status(410, "Expired"),
            answer(page([pod("a", 11)], 19, "t2")),
            answer(page([pod("b", 12)], 19)),
        ]
        async with scripted(*replies) as server, client_of(server) as client:
            listed = await list_objects(client, PODS, Pod)
        assert ([item.name for item in listed.objects], listed.revision) == (["a", "b"], "19")

    asyncio.run(run())


def test_a_list_that_always_expires_is_asked_for_in_one_piece() -> None:
    async def run() -> None:
        expiring = [answer(page([pod("a", 1)], 9, "t")), status(410, "Expired")] * 3
        async with scripted(*expiring, answer(page([pod("a", 1)], 9))) as server, client_of(server) as client:
            listed = await list_objects(client, PODS, Pod)
            limits = [(request.query.get("limit"), request.query.get("continue")) for request in server.seen]
        assert limits == [("500", None), ("500", "t")] * 3 + [(None, None)], "pages of 500 as client-go's, three times"
        assert len(listed.objects) == 1

    asyncio.run(run())


def test_a_list_in_circles_ends() -> None:
    async def run() -> None:
        async with scripted(answer(page([pod("a", 1)], 9, "t"))) as server, client_of(server) as client:
            with pytest.raises(UnreachableError, match="circles"):
                await list_objects(client, PODS, Pod)

    asyncio.run(run())


def test_unreadable_items_are_named() -> None:
    broken = pod("bad", 2)
    broken["spec"]["priority"] = "high"

    async def run() -> None:
        async with scripted(answer(page([pod("a", 1), broken], 9))) as server, client_of(server) as client:
            listed = await list_objects(client, PODS, Pod)
        assert [item.name for item in listed.objects] == ["a"]
        [(meta, error)] = listed.unreadable
        assert meta is not None
        assert meta.key == "default/bad"
        assert error.path == "spec.priority"

    asyncio.run(run())
