"""The calls of the API: what is sent, and what each answer means (scheduling.md 2, preemption.md 7.2, api.md)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from aiohttp import web

from kube_rules.objects import Pod
from reprieve.client.discovery import Resource, ServedResources, discover
from reprieve.client.errors import ApiError, UnreachableError
from reprieve.client.leader_election import Fence, LeadershipLostError
from reprieve.client.rate_limits import BackoffPolicy
from reprieve.client.transport import ApiClient
from reprieve.client.write_queue import WriterPool
from reprieve.cluster.pods import PodRecord, record_of
from reprieve.cluster.state import ClusterState
from reprieve.framework.instructions import CreateObject, DeleteObject, PatchObject
from reprieve.live.writes import UnservedError, Writes, superseded
from tests.client.scripted import PODS, Reply, Scripted, answer, client_of, cut, scripted, status
from tests.live.faults import cluster, create, node, pod, read

CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True)
GROUPS = "scheduling.k8s.io"
QUICK = BackoffPolicy(initial=0.001, maximum=0.002)


@asynccontextmanager
async def scripted_writes(*replies: Reply, fence: Fence | None = None) -> AsyncIterator[tuple[Scripted, Writes]]:
    async with scripted(*replies) as server, client_of(server) as client:
        pool = WriterPool(client, fence)
        try:
            yield server, Writes(client, ServedResources([PODS, CLAIMS]), pool)
        finally:
            await pool.aclose()


@asynccontextmanager
async def writes_of(client: ApiClient, served: ServedResources) -> AsyncIterator[Writes]:
    pool = WriterPool(client, backoff=QUICK)
    try:
        yield Writes(client, served, pool)
    finally:
        await pool.aclose()


def record(name: str = "web", uid: str = "u1") -> PodRecord:
    return record_of(msgspec.convert(pod(name, uid=uid), Pod), ClusterState().signatures, created=0.0)


def there(uid: str = "u1", where: str = "n1") -> Reply:
    return answer({"metadata": {"name": "web", "uid": uid}, "spec": {"nodeName": where}})


def terminating() -> Reply:
    return answer({"metadata": {"name": "web", "uid": "u1", "deletionTimestamp": "2026-01-01T00:00:00Z"}})


def outcome(error: BaseException | None) -> object:
    return error.code if isinstance(error, ApiError) else type(error) if error is not None else None


CONFLICT = status(409, "Conflict")


@pytest.mark.parametrize(
    ("replies", "expected", "requests"),
    [
        ([answer(status=201)], None, 1),
        ([status(404, "NotFound")], 404, 1),
        ([CONFLICT, there(where="n2")], 409, 2),
        ([CONFLICT, there(uid="u2")], 409, 2),
        ([CONFLICT, there()], None, 2),
        ([CONFLICT, status(404, "NotFound")], 404, 2),
        ([status(500), answer(status=201)], None, 2),
        ([status(429, retry_after=1), answer(status=201)], None, 2),
        ([cut, CONFLICT, there()], None, 3),
        ([status(503), CONFLICT, there(where="n2")], 409, 3),
        ([status(403, "Forbidden")], 403, 1),
        ([status(500)], 500, 5),
        ([cut], UnreachableError, 5),
    ],
)
def test_bind_answers(replies: list[Reply], expected: object, requests: int) -> None:
    """scheduling.md 2.4: 404 and 409 are final, 5xx and cuts are repeated; one's own work is not a conflict."""

    async def run() -> None:
        async with scripted_writes(*replies) as (server, writes):
            [found] = await asyncio.gather(writes.bind(record(), "n1"), return_exceptions=True)
            assert outcome(found) == expected
            assert len(server.seen) == requests

    asyncio.run(run())


@pytest.mark.parametrize(
    ("replies", "expected", "requests"),
    [
        ([answer()], None, 1),
        ([status(404, "NotFound")], None, 1),
        ([CONFLICT, status(404, "NotFound")], None, 2),
        ([CONFLICT, there(uid="u2")], None, 2),
        ([CONFLICT, there(), answer()], None, 3),
        ([CONFLICT, there(), CONFLICT, there(), answer()], None, 5),
        ([CONFLICT, terminating()], None, 2),
        ([CONFLICT, there()] * 10, 409, 19),
        ([CONFLICT, status(503), there(), answer()], None, 4),
        ([cut, status(404, "NotFound")], None, 2),
        ([status(500), status(403, "Forbidden")], UnreachableError, 2),
        ([status(500), answer()], None, 2),
        ([status(403, "Forbidden")], 403, 1),
        ([status(500)], 500, 5),
    ],
)
def test_delete_answers(replies: list[Reply], expected: object, requests: int) -> None:
    """preemption.md 7.7: a pod that is gone or terminating counts as done, and so does another pod of the name.

    One that changed meanwhile is deleted again; a refusal means that no attempt was carried out.
    """

    async def run() -> None:
        async with scripted_writes(*replies) as (server, writes):
            [found] = await asyncio.gather(writes.delete_pod("default", "web", "u1"), return_exceptions=True)
            assert outcome(found) == expected
            assert len(server.seen) == requests

    asyncio.run(run())


@pytest.mark.parametrize("kind", ["pod", "group"])
@pytest.mark.parametrize(
    ("replies", "expected", "methods"),
    [
        ([answer()], None, ["PATCH"]),
        ([CONFLICT, there(), answer()], None, ["PATCH", "GET", "PATCH"]),
        ([CONFLICT, there(uid="u2")], 404, ["PATCH", "GET"]),
        ([CONFLICT, status(404, "NotFound")], 404, ["PATCH", "GET"]),
        ([CONFLICT, there()] * 10, 409, [*["PATCH", "GET"] * 9, "PATCH"]),
    ],
)
def test_conflict_of_a_status_is_looked_into(
    replies: list[Reply], expected: object, methods: list[str], kind: str
) -> None:
    """preemption.md 7.7: another object of the name is no place for it; one that changed is patched again."""

    async def run() -> None:
        async with scripted_writes(*replies) as (server, writes):
            if kind == "pod":
                call = writes.patch_pod_status("default", "web", "u1", {"conditions": []})
            else:
                resource = Resource(GROUPS, "v1beta1", "podgroups", "PodGroup", True)
                call = writes.patch_group_status("default", "web", "u1", [SCHEDULED], resource=resource)
            [found] = await asyncio.gather(call, return_exceptions=True)
            assert outcome(found) == expected
            assert [one.method for one in server.seen] == methods

    asyncio.run(run())


def test_requests_sent() -> None:
    """api.md 1.3: the UID in bindings and statuses, and as precondition of a deletion; no grace of ours."""

    async def run() -> None:
        sent: list[tuple[str, str, str, Any]] = []

        async def keep(request: Any) -> Any:
            sent.append((request.method, request.path, request.content_type, await request.json()))
            return await answer()(request)

        async with scripted_writes(keep) as (_, writes):
            await writes.bind(record(), "n1")
            await writes.patch_pod_status("default", "web", "u1", {"nominatedNodeName": None})
            await writes.delete_pod("default", "web", "u1")
        path = "/api/v1/namespaces/default/pods/web"
        target = {"apiVersion": "v1", "kind": "Node", "name": "n1"}
        meta = {"name": "web", "namespace": "default", "uid": "u1"}
        bind = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}
        patch = {"metadata": {"uid": "u1"}, "status": {"nominatedNodeName": None}}
        delete = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "u1"}}
        assert sent == [
            ("POST", f"{path}/binding", "application/json", bind),
            ("PATCH", f"{path}/status", "application/strategic-merge-patch+json", patch),
            ("DELETE", path, "application/json", delete),
        ]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("error", "gone"),
    [
        (ApiError(404, "NotFound", "no"), True),
        (ApiError(409, "Conflict", "no"), False),
        (ApiError(422, "Invalid", 'metadata.uid: Invalid value: "u"'), True),
        (ApiError(422, "Invalid", "status.phase: no"), False),
        (ApiError(500, "", "no"), False),
        (UnreachableError("no"), False),
        (None, False),
    ],
)
def test_superseded(error: Exception | None, gone: bool) -> None:
    assert superseded(error) is gone


def test_nothing_is_sent_without_the_right_to_write() -> None:
    async def run() -> None:
        async with scripted(answer()) as server, client_of(server) as client:
            pool = WriterPool(client, Fence(client.clock))
            writes = Writes(client, ServedResources([PODS]), pool)
            calls = (writes.bind(record(), "n1"), writes.delete_pod("default", "web", "u1"))
            found = await asyncio.gather(*calls, return_exceptions=True)
            assert [type(error) for error in found] == [LeadershipLostError, LeadershipLostError]
            assert server.seen == []
            await pool.aclose()

    asyncio.run(run())


def test_binding_is_taken_back_until_it_is_sent() -> None:
    """preemption.md 7.2: a victim that is only reserved is released without calls; one in flight has to settle."""

    async def run() -> None:
        arrived, go_on = asyncio.Event(), asyncio.Event()

        async def hold(request: Any) -> Any:
            arrived.set()
            await go_on.wait()
            return await answer(status=201)(request)

        async with scripted(hold) as server, client_of(server) as client:
            pool = WriterPool(client, workers=1)
            writes = Writes(client, ServedResources([PODS]), pool)
            first, second = writes.bind(record("a", "u1"), "n1"), writes.bind(record("b", "u2"), "n1")
            await arrived.wait()
            assert writes.take_back("u1") is first
            assert writes.take_back("u2") is None
            assert writes.take_back("u3") is None
            assert second.cancelled()
            go_on.set()
            await first
            await pool.drain()
            assert [request.path for request in server.seen] == ["/api/v1/namespaces/default/pods/a/binding"]
            assert writes.take_back("u1") is None
            await pool.aclose()

    asyncio.run(run())


UNSURE_THEN_CONFLICT = [cut, CONFLICT]


@pytest.mark.parametrize(
    ("replies", "expected"),
    [
        ([answer()], None),
        ([CONFLICT], 409),
        ([status(404, "NotFound")], 404),
        ([*UNSURE_THEN_CONFLICT, answer({"metadata": {"uid": "c", "annotations": {"a": "1"}}})], None),
        ([*UNSURE_THEN_CONFLICT, answer({"metadata": {"uid": "c", "annotations": {"a": "2"}}})], 409),
        ([*UNSURE_THEN_CONFLICT, answer({"metadata": {"uid": "d", "annotations": {"a": "1"}}})], 409),
    ],
)
def test_patch_object_answers(replies: list[Reply], expected: object) -> None:
    """`PatchObject`: 409 where uid or resourceVersion are others, unless our own patch is what changed it."""

    async def run() -> None:
        async with scripted_writes(*replies) as (_, writes):
            patch = {"metadata": {"annotations": {"a": "1"}}}
            wanted = PatchObject("PersistentVolumeClaim", "default", "c", patch, uid="c", resource_version="3")
            [found] = await asyncio.gather(writes.patch_object(wanted), return_exceptions=True)
            assert outcome(found) == expected

    asyncio.run(run())


@pytest.mark.parametrize(
    ("replies", "expected", "version"),
    [
        ([CONFLICT, answer({"metadata": {"uid": "c", "resourceVersion": "7"}, "spec": 1}), answer()], None, "7"),
        ([CONFLICT, answer({"metadata": {"uid": "c", "resourceVersion": "7"}, "spec": 2})], 409, "3"),
        ([CONFLICT, answer({"metadata": {"uid": "d", "resourceVersion": "7"}, "spec": 1})], 409, "3"),
        ([CONFLICT, answer({"metadata": {"uid": "c", "resourceVersion": "7"}, "spec": 1}), status(404, "")], 404, "7"),
    ],
)
def test_patch_is_made_to_the_object_as_it_is_now_if_it_still_may(
    replies: list[Reply], expected: object, version: str
) -> None:
    """`PatchObject.again`: asked of the object that another client wrote meanwhile; another object is left alone."""

    sent: list[Any] = []

    def noting(reply: Reply) -> Reply:
        async def note(request: web.Request) -> web.StreamResponse:
            if request.method == "PATCH":
                sent.append(msgspec.json.decode(await request.read()))
            return await reply(request)

        return note

    async def run() -> None:
        async with scripted_writes(*map(noting, replies)) as (_, writes):
            patch = {"status": {"allocation": None}}
            wanted = PatchObject(
                "PersistentVolumeClaim",
                "default",
                "c",
                patch,
                uid="c",
                resource_version="3",
                again=lambda found: bool(found["spec"] == 1),
            )
            [found] = await asyncio.gather(writes.patch_object(wanted), return_exceptions=True)
            assert outcome(found) == expected
            assert sent[-1] == {**patch, "metadata": {"uid": "c", "resourceVersion": version}}

    asyncio.run(run())


@pytest.mark.parametrize(
    ("replies", "expected"),
    [([answer(status=201)], None), ([CONFLICT], 409), ([cut, CONFLICT], None), ([status(422, "Invalid")], 422)],
)
def test_create_object_answers(replies: list[Reply], expected: object) -> None:
    """`CreateObject`: that it exists is a failure, unless an earlier attempt of ours may have made it."""

    async def run() -> None:
        async with scripted_writes(*replies) as (_, writes):
            wanted = CreateObject("PersistentVolumeClaim", "default", {"metadata": {"name": "c"}})
            [found] = await asyncio.gather(writes.create_object(wanted), return_exceptions=True)
            assert outcome(found) == expected

    asyncio.run(run())


@pytest.mark.parametrize(
    ("uid", "finalizer", "replies", "methods", "expected"),
    [
        ("", "f", [answer(), answer()], ["PATCH", "DELETE"], None),
        ("u", "f", [answer(), answer()], ["PATCH", "DELETE"], None),
        ("u", "", [answer()], ["DELETE"], None),
        ("", "f", [status(404, "NotFound")], ["PATCH"], None),
        ("", "f", [answer(), status(404, "NotFound")], ["PATCH", "DELETE"], None),
        ("u", "f", [CONFLICT, there(uid="v")], ["PATCH", "GET"], None),
        ("u", "f", [CONFLICT, there(uid="u"), answer(), answer()], ["PATCH", "GET", "PATCH", "DELETE"], None),
        ("u", "", [CONFLICT, there(uid="u"), answer()], ["DELETE", "GET", "DELETE"], None),
        ("", "f", [cut, answer(), answer()], ["PATCH", "PATCH", "DELETE"], None),
        ("", "f", [status(403, "Forbidden")], ["PATCH"], 403),
    ],
)
def test_delete_object_answers(
    uid: str, finalizer: str, replies: list[Reply], methods: list[str], expected: object
) -> None:
    """`DeleteObject`: the finalizer first; what is gone, or another object by now, is left at that (devices.md 4.6)."""

    async def run() -> None:
        async with scripted_writes(*replies) as (server, writes):
            wanted = DeleteObject("PersistentVolumeClaim", "default", "c", uid, finalizer)
            [found] = await asyncio.gather(writes.delete_object(wanted), return_exceptions=True)
            assert outcome(found) == expected
            assert [one.method for one in server.seen] == methods

    asyncio.run(run())


def test_kinds_that_are_not_served() -> None:
    async def run() -> None:
        async with scripted_writes(answer()) as (server, writes):
            for call in (
                writes.patch_object(PatchObject("ResourceClaim", "default", "c", {})),
                writes.create_object(CreateObject("Whatever", "default", {})),
                writes.delete_object(DeleteObject("Whatever", "default", "c")),
                writes.patch_group_status("default", "g", "u", []),
            ):
                assert isinstance(call.exception(), UnservedError)
            assert server.seen == []

    asyncio.run(run())


EVENT: dict[str, Any] = {"metadata": {"name": "web.1", "namespace": "default"}, "reason": "Scheduled"}
SERIES = EVENT | {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}}


@pytest.mark.parametrize(
    ("body", "replies", "methods"),
    [
        (EVENT, [answer(status=201)], ["POST"]),
        (EVENT, [cut, CONFLICT], ["POST", "POST"]),
        (SERIES, [answer()], ["PATCH"]),
        (SERIES, [status(404, "NotFound"), answer(status=201)], ["PATCH", "POST"]),
    ],
)
def test_events(body: dict[str, Any], replies: list[Reply], methods: list[str]) -> None:
    """A series is patched into the event there is, and begins again where that has expired (client-go)."""

    async def run() -> None:
        async with scripted_writes(*replies) as (server, writes):
            await writes.write_event(body)
            assert [request.method for request in server.seen] == methods
            assert {request.path.split("/namespaces/")[1] for request in server.seen} <= {
                "default/events",
                "default/events/web.1",
            }

    asyncio.run(run())


def test_history_on_a_control_plane() -> None:
    """A status patch merges conditions by type and takes fields away; a binding binds; a deletion has its grace."""

    async def run() -> None:
        async with cluster() as (_, client):
            served = await discover(client)
            await create(client, node("n1"), pod("web"))
            body = await read(client, "Pod", "web")
            uid = body["metadata"]["uid"]
            async with writes_of(client, served) as writes:

                async def patch(**fields: Any) -> dict[str, Any]:
                    await writes.patch_pod_status("default", "web", uid, fields)
                    found: dict[str, Any] = (await read(client, "Pod", "web"))["status"]
                    return found

                first = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"}
                second = {"type": "DisruptionTarget", "status": "True", "reason": "R", "message": "m"}
                assert (await patch(conditions=[first], nominatedNodeName="n1"))["nominatedNodeName"] == "n1"
                found = await patch(conditions=[second], nominatedNodeName=None)
                assert {c["type"]: c["reason"] for c in found["conditions"]} == {
                    "PodScheduled": "Unschedulable",
                    "DisruptionTarget": "R",
                }
                assert "nominatedNodeName" not in found
                [other] = await asyncio.gather(
                    writes.patch_pod_status("default", "web", "another", {"conditions": [first]}),
                    return_exceptions=True,
                )
                assert superseded(other)
                pod_record = record("web", uid)
                await asyncio.gather(writes.bind(pod_record, "n1"), writes.bind(pod_record, "n1"))
                [elsewhere] = await asyncio.gather(writes.bind(pod_record, "n2"), return_exceptions=True)
                assert outcome(elsewhere) == 409
                await writes.delete_pod("default", "web", "another")
                assert "deletionTimestamp" not in (await read(client, "Pod", "web"))["metadata"]
                await writes.delete_pod("default", "web", uid)
                assert (await read(client, "Pod", "web"))["metadata"]["deletionGracePeriodSeconds"] == 30

    asyncio.run(run())


SCHEDULED = {
    "type": "PodGroupInitiallyScheduled",
    "status": "True",
    "reason": "Scheduled",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
    "observedGeneration": 1,
}


@pytest.mark.parametrize(
    ("replies", "turns", "expected"),
    [
        ([CONFLICT, answer({"metadata": {"uid": "c", "resourceVersion": "7"}})] * 9 + [answer()], 10, None),
        ([CONFLICT, answer({"metadata": {"uid": "c", "resourceVersion": "7"}})] * 11, 10, 409),
    ],
    ids=["in-the-end", "never"],
)
def test_patch_that_still_may_be_made_is_made_ten_times_at_most(
    replies: list[Reply], turns: int, expected: object
) -> None:
    async def run() -> None:
        async with scripted_writes(*replies) as (server, writes):
            wanted = PatchObject("PersistentVolumeClaim", "default", "c", {"a": 1}, uid="c", again=lambda found: True)
            [found] = await asyncio.gather(writes.patch_object(wanted), return_exceptions=True)
            assert outcome(found) == expected
            assert [one.method for one in server.seen].count("PATCH") == turns

    asyncio.run(run())


@pytest.mark.parametrize(
    ("patch", "there", "expected"),
    [
        ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, None),
        ({"a": {"b": 1}}, {"a": {"b": 2}}, 409),
        ({"a": {"b": 1}, "d": 1}, {"a": {"b": 1}, "d": 2}, 409),
        ({"a": {"b": 1}, "d": 1}, {"a": {"b": 1}, "d": 1}, None),
        ({"a": {"b": None}}, {"a": {"c": 1}}, None),
        ({"a": {"b": None}}, {"a": {"b": 1}}, 409),
        ({"a": {"b": 1}}, {"a": "text"}, 409),
        ({"a": {"b": 1}}, {}, 409),
        ({"a": {}}, {}, None),
    ],
)
def test_conflict_after_an_unsure_outcome_is_our_own_work_where_the_object_is_as_it_was_to_be(
    patch: dict[str, Any], there: dict[str, Any], expected: object
) -> None:
    """As a merge patch would make it: what is null is not there, and what is not named may be anything."""

    async def run() -> None:
        found = {"metadata": {"uid": "c", "resourceVersion": "7"}, **there}
        async with scripted_writes(cut, CONFLICT, answer(found)) as (_, writes):
            wanted = PatchObject("PersistentVolumeClaim", "default", "c", patch, uid="c")
            [result] = await asyncio.gather(writes.patch_object(wanted), return_exceptions=True)
            assert outcome(result) == expected

    asyncio.run(run())


@pytest.mark.parametrize("reply", [status(500), status(503), cut], ids=["500", "503", "cut"])
def test_write_that_may_have_been_carried_out_is_no_conflict_with_itself(reply: Reply) -> None:
    """5xx and a lost connection; a refusal was certainly not."""

    async def run() -> None:
        async with scripted_writes(reply, CONFLICT) as (_, writes):
            await writes.create_object(CreateObject("PersistentVolumeClaim", "default", {"metadata": {"name": "c"}}))
        async with scripted_writes(status(429, retry_after=1), CONFLICT) as (_, writes):
            call = writes.create_object(CreateObject("PersistentVolumeClaim", "default", {"metadata": {"name": "c"}}))
            [found] = await asyncio.gather(call, return_exceptions=True)
            assert outcome(found) == 409

    asyncio.run(run())


@pytest.mark.parametrize(
    ("uid", "version", "metadata"),
    [
        ("c", "3", {"uid": "c", "resourceVersion": "3", "labels": {"a": "b"}}),
        ("c", "", {"uid": "c", "labels": {"a": "b"}}),
        ("", "", {"labels": {"a": "b"}}),
    ],
)
def test_patch_has_the_preconditions_that_it_was_given(uid: str, version: str, metadata: dict[str, Any]) -> None:
    sent: list[Any] = []

    async def take(request: web.Request) -> web.StreamResponse:
        sent.append((request.path.rpartition("/")[2], request.content_type, await request.json()))
        return await answer()(request)

    async def run() -> None:
        async with scripted_writes(take) as (_, writes):
            for form, part in ((True, "status"), (False, "")):
                patch = {"metadata": {"labels": {"a": "b"}}, "x": 1}
                await writes.patch_object(
                    PatchObject(
                        *("PersistentVolumeClaim", "default", "c", patch),
                        uid=uid,
                        resource_version=version,
                        strategic=form,
                        subresource=part,
                    )
                )
            await writes.patch_object(PatchObject("PersistentVolumeClaim", "default", "c", {"x": 1}))

    asyncio.run(run())
    body = {"metadata": metadata, "x": 1}
    assert sent == [
        ("status", "application/strategic-merge-patch+json", body),
        ("c", "application/merge-patch+json", body),
        ("c", "application/merge-patch+json", {"x": 1}),
    ]
