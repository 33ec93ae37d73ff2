"""Conditions written to the status of groups, native ones and custom resources."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web

from kube_standin.features import EVERY_RELEASE
from reprieve.client.discovery import Resource, ServedResources, discover
from reprieve.live.writes import superseded
from tests.client.scripted import Reply, answer, status
from tests.live.faults import cluster, create_custom, group
from tests.live.test_writes import CONFLICT, GROUPS, SCHEDULED, outcome, scripted_writes, writes_of

DISRUPTED = SCHEDULED | {"type": "DisruptionTarget", "reason": "PreemptionByScheduler", "message": "m"}


@pytest.mark.parametrize(
    ("version", "types"),
    [
        ("scheduling.k8s.io/v1", {"PodGroupInitiallyScheduled", "DisruptionTarget"}),
        ("scheduling.k8s.io/v1beta1", {"PodGroupInitiallyScheduled", "DisruptionTarget"}),
        ("scheduling.k8s.io/v1alpha3", {"PodGroupInitiallyScheduled", "DisruptionTarget"}),
        ("scheduling.k8s.io/v1alpha2", {"PodGroupScheduled", "DisruptionTarget"}),
        ("scheduling.reprieve.dev/v1beta1", {"PodGroupInitiallyScheduled", "DisruptionTarget"}),
    ],
)
def test_group_status_in_every_version(version: str, types: set[str]) -> None:
    """api.md: in the version the group came from."""

    async def run() -> None:
        group_name, _, number = version.partition("/")
        resource = Resource(group_name, number, "podgroups", "PodGroup", True)
        body = group("g", count=2) | {"apiVersion": version}
        path = resource.path("default")
        async with cluster(features=EVERY_RELEASE) as (_, client):
            served = await discover(client)
            if group_name == GROUPS:
                if number == "v1alpha2":
                    body["spec"]["disruptionMode"] = "Pod"
                made = (await client.request("POST", path, body=body)).read(dict)
            else:
                made = await create_custom(client, resource, body)
            uid = made["metadata"]["uid"]
            async with writes_of(client, served) as writes:
                for condition in (SCHEDULED, DISRUPTED):
                    await writes.patch_group_status("default", "g", uid, [condition], resource=resource)
                found = (await client.get(f"{path}/g")).read(dict)
                conditions = {item["type"]: item for item in found["status"]["conditions"]}
                assert set(conditions) == types
                assert {item["observedGeneration"] for item in conditions.values()} == {1}
                assert conditions["DisruptionTarget"]["reason"] == "PreemptionByScheduler"
                wrong = writes.patch_group_status("default", "g", "another", [SCHEDULED], resource=resource)
                [error] = await asyncio.gather(wrong, return_exceptions=True)
                assert superseded(error)

    asyncio.run(run())


def test_conditions_of_a_custom_resource_are_not_lost_to_another_writer() -> None:
    """Merge patches replace lists: a write in between makes us read again."""

    async def run() -> None:
        name = "scheduling.reprieve.dev"
        resource = Resource(name, "v1beta1", "podgroups", "PodGroup", True)
        async with cluster() as (_, client):
            made = await create_custom(client, resource, group("g", count=2) | {"apiVersion": f"{name}/v1beta1"})
            uid = made["metadata"]["uid"]
            async with (
                writes_of(client, ServedResources([resource])) as ours,
                writes_of(client, ServedResources([resource])) as theirs,
            ):
                kinds = [f"T{number}" for number in range(8)]
                turns = [ours, theirs] * 4
                calls = [
                    writes.patch_group_status("default", "g", uid, [SCHEDULED | {"type": kind}])
                    for writes, kind in zip(turns, kinds, strict=True)
                ]
                await asyncio.gather(*calls)
            found = (await client.get(resource.path("default", "g"))).read(dict)
            assert {item["type"] for item in found["status"]["conditions"]} == set(kinds)

    asyncio.run(run())


CUSTOM = Resource("scheduling.reprieve.dev", "v1beta1", "podgroups", "PodGroup", True)
VOLCANO = Resource("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup", True)
HERE: dict[str, Any] = {"metadata": {"uid": "u", "resourceVersion": "7"}, "status": {}}


@pytest.mark.parametrize(
    ("resource", "replies", "requests", "expected"),
    [
        (CUSTOM, [answer(HERE), answer()], ["GET", "PATCH /status"], None),
        (CUSTOM, [answer({"metadata": {"uid": "other"}})], ["GET"], 404),
        (CUSTOM, [answer(HERE), CONFLICT, answer(HERE), answer()], ["GET", "PATCH /status"] * 2, None),
        (CUSTOM, [*[answer(HERE), CONFLICT] * 9, answer(HERE), answer()], ["GET", "PATCH /status"] * 10, None),
        (CUSTOM, [answer(HERE), CONFLICT] * 11, ["GET", "PATCH /status"] * 10, 409),
        (CUSTOM, [answer(HERE), status(404, "NotFound")], ["GET", "PATCH /status"], 404),
        (
            VOLCANO,
            [answer(HERE), status(404, "NotFound"), answer(HERE), answer()],
            ["GET", "PATCH /status", "GET", "PATCH"],
            None,
        ),
        (VOLCANO, [answer(HERE), status(404, "NotFound")] * 2, ["GET", "PATCH /status", "GET", "PATCH"], 404),
        (VOLCANO, [status(404, "NotFound")], ["GET"], 404),
        (CUSTOM, [answer(HERE), status(403, "Forbidden")], ["GET", "PATCH /status"], 403),
    ],
    ids=[
        *("written", "another-object", "other-write-in-between", "nine-times", "ten-times", "no-subresource"),
        *("with-the-object", "gone-meanwhile", "gone", "forbidden"),
    ],
)
def test_status_of_a_custom_resource_is_written_on_what_was_just_read(
    resource: Resource, replies: list[Reply], requests: list[str], expected: object
) -> None:
    """Read again where another client wrote in between, ten times at most.

    Only where definitions of other schedulers have no subresource (Volcano's) the status is written with the object.
    """

    async def run() -> None:
        async with scripted_writes(*replies) as (server, writes):
            wanted = {"phase": "Running"}
            call = writes.patch_foreign_status("default", "g", "u", wanted, resource=resource)
            [found] = await asyncio.gather(call, return_exceptions=True)
            path = resource.path("default", "g")
            assert [f"{one.method} {one.path.removeprefix(path)}".rstrip() for one in server.seen] == requests
            assert outcome(found) == expected

    asyncio.run(run())


@pytest.mark.parametrize(
    ("before", "wanted", "after"),
    [
        ([], ["A"], [("A", "new")]),
        ([("A", "old"), ("B", "old")], ["A"], [("A", "new"), ("B", "old")]),
        ([("B", "old")], ["A", "C"], [("B", "old"), ("A", "new"), ("C", "new")]),
        (None, ["A"], [("A", "new")]),
        ([("B", "old")], [], None),
    ],
    ids=["none", "replaced", "added", "no-status", "nothing-of-conditions"],
)
def test_conditions_of_other_types_stay_as_they_are(
    before: list[tuple[str, str]] | None, wanted: list[str], after: list[tuple[str, str]] | None
) -> None:
    """Merge patches replace lists: the whole list is written, under the version that was read."""
    sent: list[Any] = []

    async def take(request: web.Request) -> web.StreamResponse:
        sent.append((request.content_type, await request.json()))
        return await answer()(request)

    kept = [{"type": kind, "reason": reason} for kind, reason in before or ()]
    there = {**HERE, "status": None if before is None else {"conditions": kept}}

    async def run() -> None:
        async with scripted_writes(answer(there), take) as (_, writes):
            conditions = [{"type": kind, "reason": "new"} for kind in wanted]
            status = {"phase": "x", **({"conditions": conditions} if wanted else {})}
            await writes.patch_foreign_status("default", "g", "u", status, resource=CUSTOM)

    asyncio.run(run())
    [(kind, body)] = sent
    assert kind == "application/merge-patch+json"
    assert body["metadata"] == {"uid": "u", "resourceVersion": "7"}
    written = {"phase": "x"}
    if after is not None:
        written["conditions"] = [{"type": kind, "reason": reason} for kind, reason in after]  # type: ignore[assignment]
    assert body["status"] == written


def test_status_that_says_nothing_is_not_written() -> None:
    async def run() -> None:
        async with scripted_writes(answer()) as (server, writes):
            await writes.patch_foreign_status("default", "g", "u", {}, resource=VOLCANO)
            assert server.seen == []

    asyncio.run(run())
