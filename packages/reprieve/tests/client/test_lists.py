"""Lists: page by page, restarted, never mixed (Kubernetes API concepts, "Retrieving large results sets in chunks")."""

from __future__ import annotations

import asyncio

import pytest

from kube_rules.objects import Pod
from reprieve.client.errors import ApiError, UnreachableError
from reprieve.client.lists import list_objects
from tests.client.scripted import PODS, Json, Reply, answer, client_of, page, pod, scripted, status


def test_list_is_read_page_by_page() -> None:
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


def test_list_that_expires_starts_over_and_mixes_nothing() -> None:
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


def test_list_that_always_expires_is_requested_in_one_piece() -> None:
    async def run() -> None:
        expiring = [answer(page([pod("a", 1)], 9, "t")), status(410, "Expired")] * 3
        async with scripted(*expiring, answer(page([pod("a", 1)], 9))) as server, client_of(server) as client:
            listed = await list_objects(client, PODS, Pod)
            limits = [(request.query.get("limit"), request.query.get("continue")) for request in server.seen]
        assert limits == [("500", None), ("500", "t")] * 3 + [(None, None)], "pages of 500 as client-go's, three times"
        assert len(listed.objects) == 1

    asyncio.run(run())


def test_list_that_repeats_ends() -> None:
    async def run() -> None:
        async with scripted(answer(page([pod("a", 1)], 9, "t"))) as server, client_of(server) as client:
            with pytest.raises(UnreachableError, match="repeats"):
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


def expiring(times: int) -> list[Reply]:
    return [answer(page([pod("a", 1)], 9, "t")), status(410, "Expired")] * times


@pytest.mark.parametrize(
    ("replies", "error", "message", "requests"),
    [
        (expiring(4), UnreachableError, "pods: the list expired 3 times before it was complete", 8),
        (
            [status(410, "Expired")],
            ApiError,
            "410 Expired",
            1,
        ),  # nothing was listed yet: there is nothing to go on with
        ([answer(page([pod("a", 1)], 9, "t")), status(403, "Forbidden")], ApiError, "403 Forbidden", 2),
        (
            [answer(page([], 9, token)) for token in ("t1", "t2", "t1")],
            UnreachableError,
            "pods: the list repeats: the server sent the same continue token twice",
            3,
        ),
    ],
    ids=["always expiring", "expired at once", "refused later", "that repeats"],
)
def test_list_that_does_not_end_well(replies: list[Reply], error: type[Exception], message: str, requests: int) -> None:
    """Three times it begins again with pages, and once without; a server that pages nevertheless is given up."""

    async def run() -> None:
        async with scripted(*replies) as server, client_of(server) as client:
            with pytest.raises(error, match=message) as ended:
                await list_objects(client, PODS, Pod)
            assert len(server.seen) == requests
        assert getattr(ended.value, "lasting", False) is ("repeats" in message)

    asyncio.run(run())


def test_list_is_as_of_its_first_page_and_what_was_selected() -> None:
    """The revision a watch goes on from; selectors and the namespace are those of every page."""

    async def run() -> None:
        pages = [answer(page([pod("a", 1)], 9, "t")), answer(page([pod("b", 2)], 12))]
        async with scripted(*pages) as server, client_of(server) as client:
            listed = await list_objects(
                client, PODS, Pod, namespace="team", labels="a=b", fields="spec.nodeName=", page=7
            )
            asked = [(request.path, dict(request.query)) for request in server.seen]
        assert (listed.revision, listed.unreadable) == ("9", [])
        query = {"labelSelector": "a=b", "fieldSelector": "spec.nodeName=", "limit": "7"}
        path = "/api/v1/namespaces/team/pods"
        assert asked == [(path, query), (path, {**query, "continue": "t"})]

    asyncio.run(run())


def test_list_may_be_empty_or_without_items() -> None:
    async def run() -> None:
        cases: list[Json] = [{}, {"items": None}, {"items": []}]
        for items in cases:
            body = {"metadata": {"resourceVersion": "3"}, **items}
            async with scripted(answer(body)) as server, client_of(server) as client:
                listed = await list_objects(client, PODS, Pod)
            assert (listed.revision, listed.objects, listed.unreadable) == ("3", [], [])
            assert server.seen[0].query == {"limit": "500"}

    asyncio.run(run())


def test_item_without_a_name_or_readable_metadata_is_left_out() -> None:
    nameless, strange = pod("a", 1), pod("b", 2)
    del nameless["metadata"]["name"]
    strange["metadata"] = "none"

    async def run() -> None:
        async with scripted(answer(page([nameless, strange, pod("c", 3)], 9))) as server, client_of(server) as client:
            listed = await list_objects(client, PODS, Pod)
        assert [item.key for item in listed.objects] == ["default/c"]
        first, second = listed.unreadable
        assert first.metadata is not None
        assert (first.metadata.key, first.error.path) == ("default/", "metadata.name")
        assert second.metadata is None

    asyncio.run(run())
